//! Measures deliveries per second by the writers, and their cost:
//!
//!     BENCH_DIR=/a/disk cargo test --release -p postrider --bin postrider mailbox_files::bench \ -- --ignored
//!     --nocapture
//!
//! The number of concurrent deliveries is that of the mailbox workers of a process (256), or `BENCH_WAITING`.

use super::tests::{together, wait};
use super::*;
use std::cell::Cell;
use std::time::{Duration, Instant};

const SPAN: Duration = Duration::from_secs(5);

/// CPU time of this process so far, in milliseconds.
fn cpu_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit_once(')').unwrap().1.split_ascii_whitespace().collect();
    // User and system time, in hundredths of a second.
    [11, 12].iter().map(|n: &usize| fields[*n].parse::<u64>().unwrap() * 10).sum()
}

/// Delivers to mailboxes in turn for a while; returns the number of messages.
fn deliver(files: &MailboxFiles, root: &std::path::Path, mailboxes: u64, bytes: usize) -> u64 {
    let body = Bytes::from(("x".repeat(78) + "\r\n").repeat(bytes / 80));
    let (next, begun) = (Cell::new(0_u64), Instant::now());
    let one = async || {
        let mut done = 0_u64;
        while begun.elapsed() < SPAN {
            let n = next.replace(next.get() + 1);
            let below = format!("u{}", n % mailboxes).into();
            let place = MailboxPlace { below, ..MailboxPlace::at(root.to_owned()) };
            files.deliver(place, format!("{n}.bench"), vec![body.clone()]).await.unwrap();
            done += 1;
        }
        done
    };
    let waiting = std::env::var("BENCH_WAITING").map_or(256, |text| text.parse().unwrap());
    wait(together((0..waiting).map(|_| one()).collect())).into_iter().sum()
}

#[test]
#[ignore = "a measurement"]
fn deliveries_per_second() {
    let base = std::env::var("BENCH_DIR").unwrap_or_else(|_| ".".to_owned());
    println!("mailboxes  bytes  deliveries/s  CPU us each  per batch  writers  whole syncs");
    for mailboxes in [1, 100, 2_000] {
        for bytes in [400, 10_240] {
            let root = tempfile::tempdir_in(&base).unwrap();
            let metrics = Arc::default();
            let files = MailboxThreads::start(&metrics, 1_024);
            // The mailboxes are made first.
            deliver(&files, root.path(), mailboxes, bytes);
            let (cpu, begun, batches) = (cpu_ms(), Instant::now(), metrics.batches.get());
            let done = deliver(&files, root.path(), mailboxes, bytes);
            let (cpu, took) = (cpu_ms() - cpu, begun.elapsed());
            let batches = metrics.batches.get() - batches;
            println!(
                "{mailboxes:9} {bytes:6} {:13.0} {:12.0} {:10.1} {:8} {:12}",
                done as f64 / took.as_secs_f64(),
                cpu as f64 * 1_000.0 / done as f64,
                done as f64 / batches as f64,
                metrics.writers.get(),
                metrics.whole_syncs.get(),
            );
        }
    }
}
