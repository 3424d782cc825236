//! A history of the spool on a disk that crashes, then damage to its files, then recovery.

use crate::history::event;
use crate::world::{World, content, tiny};
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use spool::memdisk::MemDisk;
use spool::{
    Completion, Disk, Loaded, LoadedBody, RecoveredMessage, RecoveryReport, Request, Spool,
    SpoolConfig, SpoolError, Ticket,
};
use std::collections::{BTreeMap, BTreeSet};

/// First the damage, then the history.
pub fn run(data: &[u8]) {
    let _ = play(&mut Unstructured::new(data));
}

/// Damage to one file: which, where, and the bit that is turned, or a sector of zeros.
struct Blow {
    file: u8,
    at: u16,
    bit: u8,
}

fn play(choices: &mut Unstructured) -> Result<()> {
    let blows: Vec<Blow> = (0..choices.int_in_range(0..=3)?)
        .map(|_| {
            let (file, at, bit) =
                (choices.arbitrary()?, choices.arbitrary()?, choices.arbitrary()?);
            Ok(Blow { file, at, bit })
        })
        .collect::<Result<_>>()?;
    let mut world = World::new(tiny(), 1 << 30, choices.arbitrary::<u8>()?.into());
    for _ in 0..150 {
        if choices.len() < 3 {
            break;
        }
        event(&mut world, choices.arbitrary()?, choices.arbitrary()?);
    }
    // The laws of the model hold here, without damage.
    world.restart(true);
    for _ in 0..20 {
        world.accept(1, 30);
        world.pump(3);
    }
    world.drain();
    damage(&world.disk, &blows);
    Ok(())
}

type Files = BTreeMap<String, Vec<u8>>;

fn files(disk: &MemDisk) -> Files {
    let names = disk.list().expect("a list");
    names.into_iter().map(|name| (name.clone(), disk.content(&name).expect("there"))).collect()
}

/// Performs all there is to do; the answers.
pub(crate) fn settle(spool: &mut Spool, disk: &MemDisk) -> Vec<(Ticket, Completion)> {
    let mut answers = Vec::new();
    for _ in 0..100_000 {
        while let Some(answer) = spool.poll_completion() {
            answers.push(answer);
        }
        let Some(io) = spool.poll_io() else { return answers };
        let done = io.perform(disk);
        spool.handle_io_done(done);
    }
    panic!("the spool never comes to rest");
}

struct Found {
    report: RecoveryReport,
    messages: BTreeMap<u64, RecoveredMessage>,
    loaded: BTreeMap<u64, Completion>,
}

fn recover(files: &Files) -> std::result::Result<Found, SpoolError> {
    let disk = MemDisk::new(5, 1 << 30);
    for (name, content) in files {
        disk.put(name, content.clone());
    }
    let mut messages = BTreeMap::new();
    let config = SpoolConfig { salt: 77, ..tiny() };
    let (mut spool, report) = Spool::open(&disk, config, &mut |message| {
        assert!(messages.insert(message.id.0, message).is_none(), "handed over twice");
    })?;
    let mut loaded = BTreeMap::new();
    for (&id, message) in &messages {
        spool.handle_request(Request::Load {
            ticket: Ticket(id),
            id: message.id,
            bytes_max: u64::MAX,
        });
        for (ticket, completion) in settle(&mut spool, &disk) {
            assert_eq!(ticket, Ticket(id));
            loaded.insert(id, completion);
        }
    }
    Ok(Found { report, messages, loaded })
}

/// Recovery with damage against recovery without.
fn damage(disk: &MemDisk, blows: &[Blow]) {
    let whole = files(disk);
    let before = recover(&whole).expect("what is whole is read");
    assert_eq!(before.report.damaged_count, 0, "{:?}", before.report.damage);
    let (broken, struck) = strike(&whole, blows);
    let Ok(after) = recover(&broken) else { return };
    let report = &after.report;
    // Each by itself, no sum: a file that was used before for a segment that was never full is said
    // to be torn though nothing was, and a blow can take that away.
    let told = report.damaged_count > 0 || report.torn_count > before.report.torn_count;
    for (&id, message) in &after.messages {
        let loaded = after.loaded.get(&id).expect("an answer to each load");
        let mentioned = mentions(&whole, message);
        match loaded {
            Completion::Loaded(loaded) => check_loaded(message, loaded),
            Completion::LoadFailed(error) => {
                assert!(mentioned.intersection(&struck).next().is_some(), "{error}");
            }
            other => panic!("{other:?}"),
        }
        assert!(before.messages.contains_key(&id) || told, "{id:x} is back, and nobody says why");
    }
    for (id, message) in &before.messages {
        let Some(now) = after.messages.get(id) else {
            let mentioned = mentions(&whole, message);
            let hit: Vec<_> = mentioned.intersection(&struck).collect();
            assert!(!hit.is_empty(), "{id:x} was not touched and is lost");
            assert!(told || is_at_the_end(&whole, &broken), "{id:x} is lost, and nobody says it");
            continue;
        };
        for recipient in &message.open {
            let is_there = now.open.iter().any(|r| r.index == recipient.index);
            assert!(is_there, "recipient {} of {id:x} is lost", recipient.index);
        }
        assert!(now.open == message.open || told, "{id:x} is changed, and nobody says why");
    }
}

/// The content is what was sent, bit for bit.
fn check_loaded(message: &RecoveredMessage, loaded: &Loaded) {
    assert_eq!(loaded.id, message.id);
    assert_eq!(loaded.received_at, message.received_at);
    assert_eq!(&loaded.prefix[..], b"Received: from a by b\r\n");
    let count = loaded.envelope.recipients.len() as u32;
    assert_eq!(*loaded.envelope, crate::world::envelope(count));
    if let LoadedBody::Memory(body) = &loaded.body {
        assert_eq!(*body, content(message.id.0, message.body_bytes as usize));
    }
}

/// The segments that hold the message's accept or speak of it as an index does.
fn mentions(files: &Files, message: &RecoveredMessage) -> BTreeSet<String> {
    let mut head = message.id.0.to_le_bytes().to_vec();
    head.extend_from_slice(&message.received_at.0.to_le_bytes());
    let holds = |content: &[u8]| memchr::memmem::find(content, &head).is_some();
    files.iter().filter(|(_, content)| holds(content)).map(|(name, _)| name.clone()).collect()
}

/// Few bits: no more than what a CRC-32C is sure to find. Sectors of zeros instead for some.
fn strike(whole: &Files, blows: &[Blow]) -> (Files, BTreeSet<String>) {
    let mut broken = whole.clone();
    let mut struck = BTreeSet::new();
    let names: Vec<&String> = whole.keys().filter(|name| name.ends_with(".segment")).collect();
    for blow in blows {
        let Some(&name) = names.get(usize::from(blow.file) % names.len().max(1)) else { continue };
        let content = broken.get_mut(name).expect("there");
        let at = usize::from(blow.at) % content.len();
        if blow.bit >= 128 {
            let from = at / 512 * 512;
            let to = (from + 512).min(content.len());
            content[from..to].fill(0);
        } else {
            content[at] ^= 1 << (blow.bit % 8);
        }
        if content != &whole[name] {
            struck.insert(name.clone());
        }
    }
    (broken, struck)
}

/// The last batch of the log was hit, or what was written with it, and nothing after it says that it
/// was ever synced: then it looks like one that was never acknowledged, and if not even its header is
/// whole, like nothing.
fn is_at_the_end(whole: &Files, broken: &Files) -> bool {
    let last = whole.iter().rev().find_map(|(name, content)| {
        spool::fuzzing::last_write(name, content).map(|offset| (name, offset as usize))
    });
    last.is_some_and(|(name, offset)| whole[name][offset..] != broken[name][offset..])
}
