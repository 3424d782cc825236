//! What a start takes of memory when much is queued: a share for each message, and no more than what
//! the queue and the spool keep of it afterwards.
//!
//! `START_MESSAGES=1000000 START_SEGMENT_MIB=256 cargo test -p postrider --test machine start_memory -- --nocapture` says
//! what a million take.

use crate::support::Files;
use crate::support::server::Server;
use crate::support::spool_files::{accept, submit, wall_now, write};
use mail::{MessageId, Wall};
use spool::memdisk::MemDisk;
use spool::{Attempt, Record, Spool, SpoolConfig};
use std::path::Path;

pub(crate) fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// A message that was tried once.
fn message(sequence: u64, now: Wall) -> Vec<Record> {
    let id = MessageId::new(0, 0, sequence);
    let attempt = Attempt {
        id,
        at: now,
        recipients: vec![0],
        attempts: 1,
        next_try: Wall(now.0 + 3_600_000),
        reason: "451 4.7.1 come back later".into(),
    };
    vec![accept(id, now), Record::Attempt(attempt)]
}

/// Writes a spool with so many messages, none of which is due within the hour.
pub(crate) fn fill(directory: &Path, messages: u64, segment_bytes: u64) {
    const BATCH: u64 = 500;
    let disk = MemDisk::new(1, 8 << 30);
    let config = SpoolConfig { segment_bytes, ..SpoolConfig::default() };
    let (mut spool, _) = Spool::open(&disk, config, &mut |_| ()).expect("opens");
    let now = wall_now();
    for first in (1..=messages).step_by(BATCH as usize) {
        let batch = first..(first + BATCH).min(messages + 1);
        submit(&mut spool, &disk, batch.map(|n| message(n, now)));
    }
    write(&disk, directory);
}

/// The peak of a server's memory when all that it found is queued, in bytes.
fn peak_of_a_start(messages: u64, segment_mib: u64) -> u64 {
    let files = Files::new();
    fill(&files.path("spool"), messages, segment_mib << 20);
    let server = Server::start(
        &files,
        &format!(
            "hostname = \"relay.test\"\n[spool]\npath = \"spool\"\n\
             segment_bytes = \"{segment_mib}MiB\"\nmin_free_bytes = \"16MiB\"\n\
             [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n[[route]]\ndiscard = {{}}\n"
        ),
    );
    let line = server.wait_console("the spool", |line| line.contains("spool open"));
    assert!(line.contains(&format!(" queued={messages} ")), "{line}");
    // Shards answer when all that was found is queued.
    let answers = server.json(&["queue", "summary"]);
    assert!(messages == 0 || format!("{answers:?}").contains("far.test"), "{answers:?}");
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid().as_raw_nonzero()));
    let status = status.expect("it runs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

/// What is recovered is queued while it is read: of no log all waits in memory at once.
#[test]
fn a_start_takes_little_more_than_the_queue() {
    let messages = number("START_MESSAGES", 200_000);
    let segment_mib = number("START_SEGMENT_MIB", 64);
    let empty = peak_of_a_start(0, segment_mib);
    let full = peak_of_a_start(messages, segment_mib);
    let each = full.saturating_sub(empty) / messages;
    println!("empty: {empty} bytes, {messages} messages: {full} bytes, {each} each");
    // Index and queue have 120 bytes of each. When all waited at once it was 600.
    assert!(full < empty + (48 << 20) + 150 * messages, "{empty} {full}, {each} each");
}
