//! Measures the costs of a large database. Run by hand, in release mode, with 2 GB free in the build directory: `cargo
//! test --release -p postrider --bin postrider table::cost -- --ignored --nocapture`.

use super::build::build;
use crate::cli::{BuildArgs, Format};
use crate::file_content;
use lookup::Table;
use lookup::database::Database;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::Instant;

const KEYS: u64 = 10_000_000;

/// A number of `/proc/self/status`, in MiB.
fn status(field: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with(field)).expect("the field");
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok());
    kib.expect("a number") / 1024.0
}

/// Processor time of this thread in nanoseconds, which excludes other work on the machine.
fn on_cpu_ns() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    text.split(' ').next().and_then(|ns| ns.parse().ok()).expect("a number")
}

fn key(n: u64) -> String {
    format!("user{n}@d{}.example.org", n % 1000)
}

/// Numbers below [`KEYS`] without an order.
fn random(n: u64) -> u64 {
    let mixed = (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) % KEYS
}

#[test]
#[ignore = "measures"]
fn ten_million_keys() {
    let target = std::env::current_exe().expect("a path");
    let directory = tempfile::tempdir_in(target.parent().expect("a directory")).expect("room");
    let (from, to) = (directory.path().join("users.txt"), directory.path().join("users.db"));
    let mut source = BufWriter::with_capacity(1 << 20, File::create(&from).expect("room"));
    for n in 0..KEYS {
        writeln!(source, "{} /srv/mail/d{}/user{n}/", key(n), n % 1000).expect("room");
    }
    drop(source);
    let args = BuildArgs { from, to, format: Format::Postfix, keep_case: false, json: false };
    // From here on the peak counts.
    fs::write("/proc/self/clear_refs", "5").expect("our own");
    let before = status("VmRSS:");
    let (begun, on_cpu) = (Instant::now(), on_cpu_ns());
    let built = build(&args).expect("a database");
    let took = begun.elapsed();
    let on_cpu = (on_cpu_ns() - on_cpu) as f64 / 1e9;
    assert_eq!(built.summary.keys_count, KEYS);
    println!(
        "build: {:.1} s, {on_cpu:.1} s on a CPU, {:.1} MiB at the peak ({before:.1} before), a \
         file of {} bytes",
        took.as_secs_f64(),
        status("VmHWM:"),
        built.summary.file_bytes
    );
    look_up(&args);
    assert!(took.as_secs() < 60);
}

fn look_up(args: &BuildArgs) {
    // Loads the whole file into the page cache.
    let bytes = fs::read(&args.to).expect("the file").len();
    let database = Database::open("users.db", file_content::open(&args.to).expect("the file"));
    let database = database.expect("a database");
    let before = status("RssAnon:");
    for n in 0..1_000 {
        assert!(database.find(&key(random(n))).expect("whole").is_some());
    }
    println!("1,000 lookups: {:.2} MiB of memory, of {}", status("RssAnon:") - before, bytes >> 20);
    for round in 0..3 {
        let keys: Vec<String> = (0..1_000_000).map(|n| key(random(n + round))).collect();
        let missing: Vec<String> = keys.iter().map(|key| format!("{key}.")).collect();
        for (what, keys, is_there) in [("found", &keys, true), ("not found", &missing, false)] {
            let begun = on_cpu_ns();
            for key in keys {
                // As shards look them up.
                let found = database.find_now(key).expect("all is in memory").expect("whole");
                assert_eq!(found.is_some(), is_there);
            }
            let each = (on_cpu_ns() - begun) as f64 / keys.len() as f64;
            println!("round {round}, {what}: {each:.0} ns of CPU each");
            assert!(each < 2_000.0 || round == 0);
        }
    }
}
