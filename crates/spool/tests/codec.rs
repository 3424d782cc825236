//! What is submitted comes back the same, through the log and through its index; and no garbage on
//! the disk makes recovery panic or lose what is elsewhere.

use bytes::Bytes;
use mail::{BodyType, ContentFacts, Envelope, Mailbox, MessageId, Notify, Recipient, Ret, Wall};
use proptest::prelude::*;
use spool::memdisk::MemDisk;
use spool::{
    Accept, Attempt, Body, BodyChecksums, Completion, Disk, LoadError, LoadedBody, Meta, Record,
    RecoveredMessage, RecoveryReport, Request, Settle, SettleKind, Spool, SpoolConfig, SpoolError,
    State, Ticket, checksums,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn small() -> SpoolConfig {
    SpoolConfig {
        salt: 99,
        segment_bytes: 64 << 10,
        first_segment_bytes: 64 << 10,
        block_bytes: 512,
        reserve_bytes: 0,
        index_every_bytes: 8 << 10,
        batch_bytes_max: 16 << 10,
        ..SpoolConfig::default()
    }
}

fn open(disk: &MemDisk, config: SpoolConfig) -> (Spool, RecoveryReport, Vec<RecoveredMessage>) {
    let mut found = Vec::new();
    let (spool, report) = Spool::open(disk, config, &mut |m| found.push(m)).expect("opens");
    found.sort_by_key(|m| m.id);
    (spool, report, found)
}

fn run(spool: &mut Spool, disk: &MemDisk) -> Vec<(Ticket, Completion)> {
    let mut all = Vec::new();
    while let Some(io) = spool.poll_io() {
        let done = io.perform(disk);
        spool.handle_io_done(done);
    }
    while let Some(answer) = spool.poll_completion() {
        all.push(answer);
    }
    all
}

fn submit(spool: &mut Spool, disk: &MemDisk, records: Vec<Record>) {
    spool.handle_request(Request::Submit { ticket: Ticket(1), records });
    let answers = run(spool, disk);
    assert!(matches!(answers[..], [(Ticket(1), Completion::Durable { .. })]), "{answers:?}");
}

fn load(spool: &mut Spool, disk: &MemDisk, id: MessageId) -> Completion {
    spool.handle_request(Request::Load { ticket: Ticket(2), id });
    run(spool, disk).pop().expect("an answer").1
}

fn plain(sequence: u64, bytes: usize) -> Accept {
    let mailbox = |text: &str| Mailbox::parse(text, true).expect("good");
    let to = Recipient { mailbox: mailbox("b@example.net"), notify: Notify::NEVER, orcpt: None };
    Accept {
        id: MessageId::new(0, 0, sequence),
        received_at: Wall(sequence),
        envelope: Arc::new(Envelope {
            reverse_path: None,
            recipients: vec![to],
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        }),
        meta: Meta::default(),
        prefix: Bytes::new(),
        body: Body::Memory(vec![Bytes::from(vec![sequence as u8; bytes])]),
        facts: ContentFacts { body_bytes: bytes as u64, ..ContentFacts::default() },
    }
}

fn mailbox() -> impl Strategy<Value = Mailbox> {
    let text = prop_oneof![
        "[a-z]{1,20}@[a-z]{1,10}\\.(Example|org)",
        Just("postmaster".to_string()),
        Just("\"odd @ one\"@example.com".to_string()),
        Just("ü@exämple.org".to_string()),
        Just("user@[192.0.2.7]".to_string()),
    ];
    text.prop_map(|text| Mailbox::parse(&text, true).expect("good"))
}

fn accept() -> impl Strategy<Value = Accept> {
    let optional = || prop::option::of("[a-zA-Z0-9+;=]{0,60}");
    let recipient = (mailbox(), any::<u8>(), optional()).prop_map(|(mailbox, notify, orcpt)| {
        Recipient { mailbox, notify: Notify(notify), orcpt: orcpt.map(Into::into) }
    });
    let envelope = (
        prop::option::of(mailbox()),
        prop::collection::vec(recipient, 1..150),
        any::<(bool, bool)>(),
        prop::option::of(any::<bool>()),
        optional(),
    )
        .prop_map(|(reverse_path, recipients, (eight, utf8), ret, envid)| Envelope {
            reverse_path,
            recipients,
            body: if eight { BodyType::EightBit } else { BodyType::SevenBit },
            smtputf8: utf8,
            ret: ret.map(|full| if full { Ret::Full } else { Ret::Headers }),
            envid: envid.map(Into::into),
        });
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max).prop_map(Bytes::from);
    let meta = prop::collection::btree_map(any::<u16>(), bytes(40), 0..6);
    let facts = (any::<(u64, bool, bool, u32, bool, u64)>()).prop_map(|f| ContentFacts {
        body_bytes: f.0,
        has_8bit: f.1,
        has_nul: f.2,
        longest_line: f.3,
        ends_with_crlf: f.4,
        dot_lines: f.5,
    });
    let body = prop::collection::vec(bytes(6_000), 0..4);
    (envelope, meta, bytes(300), body, facts, any::<u64>()).prop_map(
        |(envelope, meta, prefix, body, facts, at)| Accept {
            id: MessageId::new(0, 0, 5),
            received_at: Wall(at),
            envelope: Arc::new(envelope),
            meta: Meta { fields: meta.into_iter().collect() },
            prefix,
            body: Body::Memory(body),
            facts,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn messages_come_back_as_they_were(accept in accept(), wait in any::<u64>(), reason: String, hold: String) {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small());
        let id = accept.id;
        let last = accept.envelope.recipients.len() as u32 - 1;
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept.clone()))]);
        let next_try = Wall(wait >> 17);
        let tried = Attempt {
            id, at: Wall(1), recipients: vec![last], attempts: 7, next_try, reason: reason.clone().into(),
        };
        let state = State {
            id,
            hold: Some(Some(hold.clone().into())),
            next_try: None,
            route_override: Some(Some("a route".into())),
            delay_notice_sent: Some(true),
        };
        submit(&mut spool, &disk, vec![Record::Attempt(tried), Record::State(state)]);
        // Twice: read from the log, then from the index that the first recovery wrote.
        for round in 0..2 {
            let (again, report, found) = open(&disk, small());
            spool = again;
            prop_assert_eq!(report.damaged_count, 0);
            prop_assert_eq!(report.indexed_segments_count, round);
            let [message] = &found[..] else { panic!("{found:?}") };
            let domains: Vec<_> = accept.envelope.recipients.iter().map(|r| r.mailbox.domain()).collect();
            prop_assert!(message.open.iter().map(|r| &r.domain).eq(&domains));
            prop_assert!(message.open.iter().map(|r| r.index).eq(0..=last));
            let tried = message.open.last().expect("one");
            prop_assert_eq!((tried.attempts, tried.next_try), (7, Some(next_try)));
            prop_assert_eq!(message.received_at, accept.received_at);
            prop_assert_eq!(&message.meta, &accept.meta);
            prop_assert_eq!(message.reverse_path_is_null, accept.envelope.reverse_path.is_none());
            prop_assert_eq!(message.body_bytes, accept.facts.body_bytes);
            let kept = message.last_reason.as_deref().unwrap_or("");
            prop_assert!(reason.starts_with(kept) && (kept.len() > 508 || kept == reason));
            prop_assert!(hold.starts_with(message.hold.as_deref().expect("held")));
            prop_assert_eq!(message.route_override.as_deref(), Some("a route"));
            prop_assert!(message.delay_notice_sent);
        }
        let Completion::Loaded(loaded) = load(&mut spool, &disk, id) else { panic!("not loaded") };
        prop_assert_eq!(&loaded.envelope, &accept.envelope);
        prop_assert_eq!((&loaded.meta, &loaded.prefix), (&accept.meta, &accept.prefix));
        prop_assert_eq!((loaded.facts, loaded.received_at), (accept.facts, accept.received_at));
        let (LoadedBody::Memory(read), Body::Memory(pieces)) = (loaded.body, accept.body) else {
            panic!("a blob")
        };
        prop_assert_eq!(&read[..], &pieces.concat()[..]);
    }

    #[test]
    fn a_flipped_bit_costs_one_message_at_most(seed: u64, flips in prop::collection::vec(any::<u64>(), 1..3)) {
        costs_one_message_at_most(seed, &flips);
    }

    #[test]
    fn garbage_is_survived(
        seed: u64,
        garbage in prop::collection::vec(any::<u8>(), 1..3_000),
        at in any::<u64>(),
        cut in any::<bool>(),
    ) {
        let (disk, count) = filled(seed);
        let names = segment_names(&disk);
        let name = &names[at as usize % names.len()];
        let mut content = disk.content(name).expect("there");
        let from = (at >> 8) as usize % content.len();
        if cut {
            content.truncate(from);
        } else {
            let to = (from + garbage.len()).min(content.len());
            content[from..to].copy_from_slice(&garbage[..to - from]);
        }
        disk.put(name, content);
        disk.put("00000fff-00000000000000ab.segment", garbage.clone());
        disk.put("00000ffe-zz.segment", garbage);
        let (_, report, found) = open(&disk, small());
        // What is in the other segments is all there; sixteen messages of three kilobytes each.
        prop_assert!(found.len() + 20 >= count, "{} of {count}: {report:?}", found.len());
        let _ = spool::verify(&disk).expect("reads on");
    }
}

/// What `flips` leave of a log, one bit each.
fn costs_one_message_at_most(seed: u64, flips: &[u64]) {
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

/// Sixty messages in several segments, one to a batch.
fn filled(seed: u64) -> (MemDisk, usize) {
    let disk = MemDisk::new(seed, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    for sequence in 1..=60 {
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(plain(sequence, 3_000)))]);
    }
    assert!(spool.status().segments_count >= 3);
    (disk, 60)
}

fn segment_names(disk: &MemDisk) -> Vec<String> {
    let mut names = disk.list().expect("lists");
    names
        .retain(|name| name.ends_with(".segment") && disk.content(name).is_some_and(|c| c[0] != 0));
    names
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
fn a_blob_of_another_length_is_damage() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    let blob = spool::BlobId(spool.next_blob());
    let data = Bytes::from_static(b"a large body");
    spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
    spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
    run(&mut spool, &disk);
    let body = Body::Blob { blob, body_bytes: 12 };
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(Accept { body, ..plain(1, 12) }))]);
    for content in ["", "a large", "a large body and more"] {
        disk.put("0000000000000001.blob", content.into());
        let verified = spool::verify(&disk).expect("verifies");
        assert_eq!(verified.damaged_count, 1, "{content}");
        let (spool, report, found) = open(&disk, small());
        assert_eq!((report.damaged_count, found.len()), (1, 1), "{content}");
        assert!(report.damage[0].what.contains("instead of 12"), "{report:?}");
        assert_eq!(spool.status().damaged_count, 1);
    }
    disk.put("0000000000000001.blob", "a large body".into());
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, found.len()), (0, 1));
}

#[test]
fn a_bit_that_changes_in_a_blob_is_damage_and_its_piece_is_never_read() {
    const BYTES: usize = checksums::PIECE_BYTES + 5_000;
    let name = "0000000000000001.blob";
    for is_checked in [true, false] {
        let disk = MemDisk::new(1, 1 << 30);
        let (mut spool, _, _) = open(&disk, small());
        let blob = spool::BlobId(spool.next_blob());
        let data = Bytes::from((0..BYTES).map(|at| (at / 3) as u8).collect::<Vec<_>>());
        let mut sums = BodyChecksums::default();
        for data in [data.slice(..70_000), data.slice(70_000..)] {
            sums.push(&data);
            spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
        }
        spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
        run(&mut spool, &disk);
        let body = Body::Blob { blob, body_bytes: BYTES as u64 };
        // As records were before there were checksums, and as they are.
        let fields = if is_checked { vec![sums.finish()] } else { Vec::new() };
        let accept = Accept { body, meta: Meta { fields }, ..plain(1, BYTES) };
        submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept))]);
        let id = MessageId::new(0, 0, 1);
        let mut read = |disk: &MemDisk, offset: usize| {
            let Completion::Loaded(loaded) = load(&mut spool, disk, id) else { panic!("no load") };
            let piece = checksums::piece(&loaded.meta, BYTES as u64, offset as u64);
            let (ticket, offset, piece) = (Ticket(7), offset as u64, piece.expect("good"));
            spool.handle_request(Request::BlobRead { ticket, blob, offset, piece });
            run(&mut spool, disk).pop().expect("an answer").1
        };
        let second = checksums::PIECE_BYTES;
        assert!(
            matches!(read(&disk, second), Completion::BlobData(read) if read == data[second..])
        );
        assert_eq!(spool::verify(&disk).expect("verifies").damaged_count, 0);
        assert!(disk.flip_bit(name, (second as u64 + 77) * 8 + 3));
        assert!(matches!(read(&disk, 0), Completion::BlobData(read) if read == data[..second]));
        let answer = read(&disk, second);
        let verified = spool::verify(&disk).expect("verifies");
        if !is_checked {
            assert!(matches!(answer, Completion::BlobData(read) if read.len() == 5_000));
            assert_eq!(verified.damaged_count, 0);
            continue;
        }
        let Completion::LoadFailed(LoadError::Damaged(what)) = answer else { panic!("{answer:?}") };
        assert_eq!(&*what, format!("{name} at {second}: bad length or checksum"));
        let [damage] = &verified.damage[..] else { panic!("{verified:?}") };
        assert_eq!((&*damage.file, damage.offset, damage.bytes), (name, second as u64, 5_000));
        assert!(damage.what.contains("0000000000000001 is damaged: 1 of 2 pieces"));
        // The checksums come along when the message is found by the index of its segment.
        let (mut spool, _, found) = open(&disk, small());
        assert_eq!(found[0].meta.fields.len(), 1);
        assert!(
            matches!(load(&mut spool, &disk, id), Completion::Loaded(m) if m.meta.fields.len() == 1)
        );
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

#[test]
fn a_missing_blob_is_damage_and_an_orphan_goes() {
    let disk = MemDisk::new(1, 1 << 30);
    let (mut spool, _, _) = open(&disk, small());
    let blob = spool::BlobId(spool.next_blob());
    let data = Bytes::from_static(b"a large body");
    spool.handle_request(Request::BlobAppend { ticket: Ticket(5), blob, data });
    spool.handle_request(Request::BlobSeal { ticket: Ticket(6), blob });
    let answers = run(&mut spool, &disk);
    assert!(answers.iter().all(|(_, c)| matches!(c, Completion::BlobDone)), "{answers:?}");
    let body = Body::Blob { blob, body_bytes: 12 };
    let accept = Accept { body, ..plain(1, 12) };
    submit(&mut spool, &disk, vec![Record::Accept(Box::new(accept))]);
    disk.put("00000000000000ff.blob", vec![1]);
    let (_, report, found) = open(&disk, small());
    assert_eq!((report.orphan_blobs_count, report.damaged_count, found.len()), (1, 0, 1));
    disk.remove("0000000000000001.blob").expect("there");
    let (mut spool, report, found) = open(&disk, small());
    assert_eq!((report.damaged_count, found.len()), (1, 1));
    assert!(report.damage[0].what.contains("0000000000000001 is missing"), "{report:?}");
    // It stays until an operator gives it up.
    assert_eq!((spool.status().live_count, spool.status().damaged_count), (1, 1));
    let recipients = vec![(0, SettleKind::Removed)];
    let settle = Settle { id: MessageId::new(0, 0, 1), at: Wall(1), recipients };
    submit(&mut spool, &disk, vec![Record::Settle(settle)]);
    let (spool, report, _) = open(&disk, small());
    assert_eq!((report.damaged_count, spool.next_blob() > 0xff), (0, true));
}
