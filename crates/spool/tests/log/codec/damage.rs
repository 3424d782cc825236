//! What is damage, what is a torn tail, and what becomes of either.

use super::setup::{filled, load, open, plain, run, segment_names, small, submit};
use mail::{MessageId, Wall};
use spool::memdisk::MemDisk;
use spool::{
    Completion, Disk, LoadError, Record, Request, Settle, SettleKind, Spool, SpoolConfig,
    SpoolError, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn a_last_batch_whose_header_is_damaged_is_told() {
    // A bit of the magic in the header of the last batch of all.
    costs_one_message_at_most(0, &[17_503_368_686_525_773_267]);
    // Each byte of that header, and of the record's behind it, in a file that is used for the first
    // time and in one that was used before.
    for recycled in [false, true] {
        for byte in 0..128 {
            let (disk, last, at) = ended(recycled);
            assert_eq!(spool::verify(&disk).expect("verifies").torn_count, 0);
            assert!(disk.flip_bit(&last, (at + byte) * 8 + byte % 8));
            let torn_count = spool::verify(&disk).expect("verifies").torn_count;
            assert_eq!(torn_count, 1, "byte {byte}, recycled: {recycled}");
        }
    }
}

/// A log that was not stopped; its last segment and where the last batch begins.
fn ended(recycled: bool) -> (MemDisk, String, u64) {
    // With room for a few segments only, those that came free are used again.
    let disk = MemDisk::new(1, if recycled { 330 << 10 } else { 1 << 30 });
    let (mut spool, _, _) = open(&disk, small());
    let contents = || -> BTreeMap<String, Vec<u8>> {
        let names = disk.list().expect("lists").into_iter();
        names.map(|name| (name.clone(), disk.content(&name).unwrap_or_default())).collect()
    };
    for sequence in 1..1_000 {
        let before = contents();
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 3_000)))]);
        let mut changed = contents();
        changed.retain(|name, now| {
            name.ends_with(".segment") && before.get(name).is_some_and(|old| old != now)
        });
        let (name, after) = changed.pop_last().expect("it was written somewhere");
        let old = &before[&name];
        if sequence > 3 && after[after.len() - 512..].iter().any(|byte| *byte != 0) == recycled {
            let is_batch = |at: &usize| {
                let here = &after[*at..*at + 512];
                here.starts_with(b"PRBT") && here != &old[*at..*at + 512]
            };
            let at = (0..after.len()).step_by(512).rfind(is_batch).expect("a batch");
            return (disk, name, at as u64);
        }
        let id = MessageId::new(0, 0, sequence);
        let recipients = vec![(0, SettleKind::Relayed)];
        submit(&mut spool, &disk, vec![Record::Settle(Settle { id, at: Wall(1), recipients })]);
    }
    panic!("no segment was used again");
}

#[test]
fn damage_is_told_from_a_torn_tail_and_put_aside() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    for sequence in 1..=3 {
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 100)))]);
    }
    let name = segment_names(&disk).remove(0);
    // The second batch: its header, then (after a repair) its last message.
    let at = |offset: u64| offset * 8;
    assert!(disk.flip_bit(&name, at(512 + 512 + 20)));
    let (mut spool, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, report.torn_count), (1, 0), "{report:?}");
    assert_eq!(found.iter().map(|m| m.id.sequence()).collect::<Vec<_>>(), [1, 3]);
    let verified = spool::verify(&disk).expect("verifies");
    assert_eq!((verified.damaged_count, verified.live_count), (1, 2));
    // When nothing in it is needed any more, the segment is kept for whoever wants to look.
    for sequence in [1, 3] {
        let id = MessageId::new(0, 0, sequence);
        let recipients = vec![(0, SettleKind::Relayed)];
        submit(&mut spool, &disk, vec![Record::Settle(Settle { id, at: Wall(1), recipients })]);
    }
    let names = disk.list().expect("lists");
    assert!(names.contains(&name.replace("segment", "damaged")), "{names:?}");
    // The last batch was never followed by another: nobody was told of it for all the disk knows.
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    for sequence in 1..=3 {
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 100)))]);
    }
    let name = segment_names(&disk).remove(0);
    assert!(disk.flip_bit(&name, at(512 + 2 * 512 + 200)));
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, report.torn_count, found.len()), (0, 1, 2));
}

#[test]
fn a_segment_that_lost_its_end_is_damage() {
    // What the second of several segments says of the first one, which is cut here.
    let (disk, count) = filled(1);
    let count = count as u64;
    let name = segment_names(&disk).remove(0);
    let content = disk.content(&name).expect("there");
    // Shorter than a footer; all zeros; in its second batch, which costs that and what follows.
    let mut zeros = content.clone();
    zeros.fill(0);
    for (content, kept) in [
        (Vec::new(), 0),
        (content[..100].to_vec(), 0),
        (zeros, 0),
        (content[..512 + 3_584 + 300].to_vec(), 1),
    ] {
        disk.put(&name, content);
        let verified = spool::verify(&disk).expect("verifies");
        assert!(verified.damaged_count > 0, "{verified:?}");
        assert!(verified.damage.iter().all(|damage| *damage.file == *name), "{verified:?}");
        assert_eq!(verified.live_count, count - 16 + kept, "{verified:?}");
    }
    // A lost footer alone costs nothing.
    disk.put(&name, content[..content.len() - 512].to_vec());
    let verified = spool::verify(&disk).expect("verifies");
    assert_eq!((verified.damaged_count, verified.live_count), (0, count));
    // A blob may belong to what is lost: it is kept.
    disk.put(&name, Vec::new());
    disk.put("0000000000000000.blob", vec![1]);
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, found.len() as u64), (1, count - 16), "{report:?}");
    assert!(disk.content("0000000000000000.blob").is_some());
}

#[test]
fn a_segment_that_was_removed_is_missed() {
    let orphan = "0000000000000000.blob";
    let names = segment_names(&filled(1).0);
    for (at, name) in names.iter().enumerate() {
        let (disk, count) = filled(1);
        assert_eq!(spool::verify(&disk).expect("verifies").damaged_count, 0);
        disk.remove(name).expect("there");
        disk.put(orphan, vec![1]);
        let verified = spool::verify(&disk).expect("verifies");
        let [damage] = &verified.damage[..] else { panic!("{verified:?}") };
        assert_eq!((&*damage.file, &*damage.what), (&**name, "the segment is missing"));
        let (spool, report, found) = open(&disk, small());
        assert_eq!((report.damaged_count, &report.damage[..]), (1, &verified.damage[..]), "{at}");
        assert!(found.len() < count && found.len() as u64 == verified.live_count);
        // Its generation is not used again, even if it was the highest.
        drop(spool);
        assert!(!disk.list().expect("lists").contains(name));
        // It is told once, and remembered for as long as the operator leaves that file there.
        let aside = name.replace("segment", "damaged");
        assert_eq!(disk.content(&aside), Some(Vec::new()));
        let (_, report, _) = open(&disk, small());
        assert_eq!((report.damaged_count, report.orphan_blobs_count), (0, 1));
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!((verified.damaged_count, verified.quarantined_count), (0, 1));
        assert!(disk.content(orphan).is_some());
        disk.remove(&aside).expect("there");
        let (_, report, _) = open(&disk, small());
        assert_eq!((report.damaged_count, report.orphan_blobs_count), (0, 1));
        assert!(disk.content(orphan).is_none());
    }
}

#[test]
fn without_a_register_nothing_is_missed() {
    let (disk, count) = filled(1);
    let names = segment_names(&disk);
    disk.remove(&names[0]).expect("there");
    disk.remove("register").expect("there");
    let (_, report, found) = open(&disk, small());
    assert_eq!(report.damaged_count, 0, "as in a spool from before there was one");
    assert!(found.len() < count);
    // It has one again.
    disk.remove(&names[1]).expect("there");
    assert_eq!(spool::verify(&disk).expect("verifies").damaged_count, 1);
}

#[test]
fn a_register_of_which_no_copy_is_whole_is_told() {
    let (disk, count) = filled(1);
    let whole = disk.content("register").expect("there");
    let mut turned = whole.clone();
    turned[30] ^= 1;
    turned[(16 << 10) + 30] ^= 1;
    for content in [turned, Vec::new(), vec![0; whole.len()], whole[..40].to_vec()] {
        disk.put("register", content);
        let verified = spool::verify(&disk).expect("verifies");
        let [damage] = &verified.damage[..] else { panic!("{verified:?}") };
        assert_eq!(&*damage.file, "register");
        let (_, report, found) = open(&disk, small());
        assert_eq!((report.damaged_count, &report.damage[..]), (1, &verified.damage[..]));
        assert_eq!(found.len(), count, "all that is there is taken");
        // It is made anew of what is there.
        assert_eq!(spool::verify(&disk).expect("verifies").damaged_count, 0);
    }
    // One that a first start has begun to make says nothing, and nobody misses anything.
    let fresh = MemDisk::new(7, 64 << 20);
    fresh.put("register", vec![0; whole.len()]);
    let (_, report, _) = open(&fresh, small());
    assert_eq!(report.damaged_count, 0);
}

#[test]
fn a_log_that_went_on_without_a_register_misses_nothing() {
    for registered in [0, 1] {
        let (disk, _) = filled(1);
        let names = segment_names(&disk);
        // A later segment, as a program begins it that keeps a register or does not.
        let mut block = disk.content(&names[0]).expect("there")[..512].to_vec();
        assert_eq!(block[9], 1);
        block[9] = registered;
        let mut seed = 0xf0_u32.to_le_bytes().to_vec();
        seed.extend_from_slice(&5_u64.to_le_bytes());
        seed.extend_from_slice(&0_u64.to_le_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&seed), &block[..508]);
        block[508..].copy_from_slice(&crc.to_le_bytes());
        disk.put("000000f0-0000000000000005.segment", block);
        disk.remove(&names[0]).expect("there");
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!(verified.damaged_count, registered.into(), "{verified:?}");
    }
}

#[test]
fn after_an_orderly_stop_the_end_of_the_last_segment_is_known() {
    let last = |disk: &MemDisk| {
        let mut names = segment_names(disk);
        names.retain(|name| disk.content(name).is_some_and(|c| c[512..].iter().any(|b| *b != 0)));
        names.pop().expect("one")
    };
    let zeroed = |content: &[u8]| vec![0; content.len()];
    let empty = |_: &[u8]| Vec::new();
    let cut = |content: &[u8]| content[..3 * 4_096].to_vec();
    let torn = |content: &[u8]| {
        let mut content = content.to_vec();
        let end = content.iter().rposition(|byte| *byte != 0).expect("data");
        content[end - 600..].fill(0);
        content
    };
    type Change = fn(&[u8]) -> Vec<u8>;
    // Of a log that was not stopped but ended, only what is shorter than it was made is noticed.
    let changes: [(Change, bool); 4] = [(zeroed, false), (empty, true), (cut, true), (torn, false)];
    for stopped in [true, false] {
        for (change, shortened) in changes {
            let disk = MemDisk::new(1, 1 << 30);
            let (mut spool, _, _) = open(&disk, small());
            for sequence in 1..=30 {
                submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 3_000)))]);
            }
            if stopped {
                assert!(spool.close().expect("there is a log").perform(&disk).error().is_none());
            }
            drop(spool);
            let intact = spool::verify(&disk).expect("verifies");
            assert_eq!((intact.damaged_count, intact.torn_count, intact.live_count), (0, 0, 30));
            let name = last(&disk);
            disk.put(&name, change(&disk.content(&name).expect("there")));
            let noticed = stopped || shortened;
            // At every start, until the segment is needed no more and put aside.
            for _ in 0..3 {
                let verified = spool::verify(&disk).expect("verifies");
                assert_eq!(verified.damaged_count > 0, noticed, "{verified:?}");
                let (_, report, found) = open(&disk, small());
                assert_eq!(report.damaged_count > 0, noticed, "{report:?}");
                assert!(report.damage.iter().all(|damage| *damage.file == *name), "{report:?}");
                assert!(found.len() < 30);
            }
        }
    }
}

/// Accepts and settles until segments came free, stops in good order and goes on. `Err` when the
/// disk is gone. Noted is what was acknowledged and not settled since.
fn life(disk: &MemDisk, open_ids: &mut BTreeSet<u64>) -> Result<(), SpoolError> {
    for round in 0..2 {
        let (mut spool, _) = Spool::open(disk, small(), &mut |_| ())?;
        let first = spool.next_sequence();
        for step in 1..=45 {
            let sequence = first + step;
            let mut records = vec![Record::Accept(Box::new(plain(sequence, 3_000)))];
            if step > 3 && step % 9 != 0 {
                let id = MessageId::new(0, 0, sequence - 3);
                open_ids.remove(&id.sequence());
                let recipients = vec![(0, SettleKind::Relayed)];
                records.push(Record::Settle(Settle { id, at: Wall(1), recipients }));
            }
            spool.handle_request(Request::Submit { ticket: Ticket(1), records });
            if matches!(run(&mut spool, disk)[..], [(_, Completion::Durable { .. })]) {
                open_ids.insert(sequence);
            }
        }
        assert!(disk.has_crashed() || spool.status().released_count > 0, "round {round}");
        if let Some(io) = spool.close() {
            let _ = io.perform(disk);
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_any_moment_is_no_damage() {
    for seed in 0..3_u64 {
        for fuse in 0.. {
            let disk = MemDisk::new(seed << 32 | fuse, 1 << 30);
            disk.set_fuse(fuse);
            let mut open_ids = BTreeSet::new();
            let died = life(&disk, &mut open_ids).is_err() || disk.has_crashed();
            disk.crash();
            // And again while it recovers.
            disk.set_fuse(fuse % 29);
            let _ = Spool::open(&disk, small(), &mut |_| ());
            disk.crash();
            let verified = spool::verify(&disk).expect("verifies");
            assert_eq!(verified.damaged_count, 0, "seed {seed} fuse {fuse}: {verified:?}");
            let (_, report, found) = open(&disk, small());
            assert_eq!(report.damaged_count, 0, "seed {seed} fuse {fuse}: {report:?}");
            let found: BTreeSet<u64> = found.iter().map(|m| m.id.sequence()).collect();
            assert!(found.is_superset(&open_ids), "seed {seed} fuse {fuse}");
            if !died {
                break;
            }
        }
    }
}

#[test]
fn a_settle_whose_dsn_is_damaged_does_not_count() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(1, 100)))]);
    let recipients = vec![(0, SettleKind::Failed)];
    let settle = Settle { id: MessageId::new(0, 0, 1), at: Wall(1), recipients };
    let dsn = Record::Accept(Box::new(plain(2, 300)));
    submit(&mut spool, &disk, vec![Record::Settle(settle), dsn]);
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(3, 100)))]);
    let name = segment_names(&disk).remove(0);
    assert!(disk.flip_bit(&name, (512 + 512 + 400) * 8));
    let (_, report, found) = open(&disk, small());
    assert_eq!(report.damaged_count, 1);
    assert_eq!(found.iter().map(|m| m.id.sequence()).collect::<Vec<_>>(), [1, 3]);
}

#[test]
fn another_version_or_another_log_is_refused() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(1, 100)))]);
    let config = SpoolConfig { node: 4, ..small() };
    let error = Spool::open(&disk, config, &mut |_| ()).expect_err("another node");
    assert!(matches!(error, SpoolError::OtherLog { node: 0, log: 0, .. }), "{error}");
}

/// What `flips` leave of a log, one bit each.
pub(crate) fn costs_one_message_at_most(seed: u64, flips: &[u64]) {
    let (disk, count) = filled(seed);
    let names: Vec<String> = segment_names(&disk);
    // A batch holds one message here; a damaged header costs that batch.
    for &flip in flips {
        let name = &names[flip as usize % names.len()];
        let bits = disk.length(name).expect("there") * 8;
        assert!(disk.flip_bit(name, (flip >> 8) % bits));
    }
    let (mut spool, report, found) = open(&disk, small());
    assert!(found.len() + flips.len() >= count, "{} of {count}: {report:?}", found.len());
    if found.len() < count {
        assert!(report.damaged_count + report.torn_count > 0, "{report:?}");
    }
    let mut unreadable = 0;
    for message in &found {
        match load(&mut spool, &disk, message.id) {
            Completion::Loaded(loaded) => assert_eq!(loaded.id, message.id),
            Completion::LoadFailed(LoadError::Damaged(_)) => unreadable += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(unreadable + count - found.len() <= flips.len());
}
