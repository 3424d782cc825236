//! What it takes to fail much that is queued by one order: time in proportion, and memory that does not grow with it.
//!
//! `FAIL_MESSAGES=1000000 START_SEGMENT_MIB=256 cargo test --release -p postrider --test machine fail_memory -- --nocapture --test-threads 1`
//! says what a million take.

use super::start_memory::{fill, number};
use crate::support::Files;
use crate::support::server::Server;
use crate::support::wait_until;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// More than what may be under way at once takes, and less than the reports of the messages.
const GROWTH_BYTES_MAX: u64 = 64 << 20;

/// The memory of the process whose status this file has, in bytes.
fn memory_of(process: &str) -> u64 {
    let status = std::fs::read_to_string(process).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("Linux");
    resident.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

fn queued(server: &Server) -> u64 {
    server.json(&["queue", "summary"])[0]["messages"].as_u64().expect("a number")
}

/// Fails all that is queued; the words of the order, and what it told.
fn fail_all(words: &[&str], told: &str) {
    let messages = number("FAIL_MESSAGES", 30_000);
    let files = Files::new();
    fill(&files.path("spool"), messages, number("START_SEGMENT_MIB", 64) << 20);
    // Reports have a way out at once; nothing else is due.
    let server = Server::start(
        &files,
        "hostname = \"relay.test\"\n[spool]\npath = \"spool\"\nmin_free_bytes = \"16MiB\"\n\
         [[listener]]\nname = \"in\"\naddress = \"127.0.0.1:0\"\n[[route]]\ndiscard = {}\n",
    );
    assert_eq!(queued(&server), messages);
    let process = format!("/proc/{}/status", server.pid().as_raw_nonzero());
    let before = memory_of(&process);
    let is_done = AtomicBool::new(false);
    let (peak, answer, took) = std::thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut peak = 0;
            while !is_done.load(Ordering::Relaxed) {
                peak = memory_of(&process).max(peak);
                std::thread::sleep(Duration::from_millis(20));
            }
            peak
        });
        let begun = Instant::now();
        let answer = server.command(&[&["queue", "fail", "--domain", "far.test"], words].concat());
        let took = begun.elapsed();
        is_done.store(true, Ordering::Relaxed);
        (watching.join().expect("it watches"), answer, took)
    });
    assert_eq!(answer.out, format!("{messages} messages failed, {told}\n"), "{answer:?}");
    wait_until("an empty queue", || queued(&server) == 0);
    let growth = peak.saturating_sub(before);
    println!("{messages} messages, {words:?}: {took:?}, {before} bytes before, {growth} more");
    assert!(growth < GROWTH_BYTES_MAX, "{growth} bytes more than {before}");
    server.stop();
}

#[test]
fn failing_and_reporting_takes_no_more_memory_the_more_is_failed() {
    fail_all(&[], "DSNs sent to their senders");
}

#[test]
fn failing_silently_takes_no_more_memory_the_more_is_failed() {
    fail_all(&["--silent"], "no DSN sent");
}
