//! The tools of P1 against each other and against what others wrote: a sender in Python from the standards alone, and a
//! receiver in Node whose codecs were generated from the ITU's modules.

use super::{Ended, Files, LAB, Tool, audit, free_address, number};
use serde_json::Value;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

fn source(to: &str, messages: u64, more: &[&str]) -> Tool {
    let messages = messages.to_string();
    let mut arguments = vec!["p1-source", "--json", "--to", to, "--messages", &messages];
    arguments.extend(more);
    Tool::start(&arguments)
}

fn sink(more: &[&str]) -> Tool {
    let mut arguments = vec!["p1-sink", "--json", "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    Tool::listen(&arguments)
}

const MODES: [&str; 3] = ["normal", "x410", "x410-1984"];

/// Foreign peers lie where the tests of the program have them, too.
fn foreign(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../x400/tests/witness").join(name)
}

#[test]
fn every_message_arrives_once_and_whole_in_every_mode() {
    for mode in MODES {
        for (checkpoint, tpdu, bytes) in [
            ("0", "65408", "1000"),
            ("0", "2048", "70000"),
            ("0", "128", "0..3k"),
            ("1", "2048", "20000"),
            ("1", "65408", "100"),
            ("16", "65408", "200000"),
        ] {
            let files = Files::new();
            let mut sink = sink(&["--expect", "60", "--ledger", &files.name("sink")]);
            let ledger = files.name("source");
            let mut arguments = vec!["--associations", "4", "--ledger", &ledger, "--mode", mode];
            arguments.extend(["--checkpoint-kib", checkpoint, "--tpdu", tpdu]);
            arguments.extend(["--body-bytes", bytes, "--per-association", "7"]);
            arguments.extend(["--recipient", "/S=a{n}/O=x y/C=GB/", "--together"]);
            arguments.extend(["--recipient", "/DD.RFC-822=b{n}(a)c.grey/O=gw/C=GB/"]);
            let (code, report) = source(&sink.address, 60, &arguments).finish();
            assert_eq!((code, number(&report, "acked")), (0, 60), "{mode} {bytes}: {report}");
            let (code, totals) = sink.finish();
            assert_eq!((code, number(&totals, "messages")), (0, 60), "{totals}");
            assert_eq!((number(&totals, "recipients"), number(&totals, "damaged")), (120, 0));
            assert!(number(&totals["binds"], mode) >= 8, "{totals}");
            assert_eq!(totals["associations_ended"], Value::Object(Default::default()));
            let many = checkpoint != "0" && bytes != "100";
            assert_eq!(number(&totals, "checkpoints") > 60, many, "{totals}");
            let (code, audit) = audit(&files.path("source"), &files.path("sink"));
            assert_eq!((code, number(&audit, "arrivals")), (0, 120), "{audit}");
            assert_eq!(number(&audit["duplicates"], "count"), 0);
        }
    }
}

#[test]
fn ten_megabytes_are_not_too_many() {
    for tpdu in ["2048", "65408"] {
        let mut sink = sink(&["--expect", "3"]);
        let more = ["--body-bytes", "10000000", "--associations", "1", "--tpdu", tpdu];
        let (code, report) = source(&sink.address, 3, &more).finish();
        assert_eq!((code, number(&report, "acked")), (0, 3), "{report}");
        let (code, totals) = sink.finish();
        assert_eq!((code, number(&totals, "damaged")), (0, 0), "{totals}");
        assert!(number(&totals, "content_bytes") > 30_000_000);
    }
}

#[test]
fn checkpoints_and_window_are_the_answering_end_s() {
    let mut sink = sink(&["--expect", "10", "--checkpoint-kib", "2", "--delay", "1"]);
    let more = ["--body-bytes", "9000", "--checkpoint-kib", "8", "--window", "1"];
    let (code, report) = source(&sink.address, 10, &more).finish();
    assert_eq!((code, number(&report, "acked")), (0, 10), "{report}");
    let (_, totals) = sink.finish();
    // Some 9.6 kB in slices of 2 KiB: four confirmations each before the last.
    assert_eq!(number(&totals, "checkpoints"), 40, "{totals}");
}

#[test]
fn faults_are_told_apart_and_nothing_is_lost() {
    let files = Files::new();
    let ledger = files.name("sink");
    let mut arguments = vec!["--seed", "7", "--ledger", &ledger];
    for fault in ["20:connect", "20:bind", "20:start", "20:content", "20:checkpoint", "20:end"] {
        arguments.extend(["--drop", fault]);
    }
    for refusal in ["50:0:bind", "20:1:checkpoint", "30:1:end"] {
        arguments.extend(["--refuse", refusal]);
    }
    let mut sink = sink(&arguments);
    let ledger = files.name("source");
    let mut arguments = vec!["--associations", "5", "--ledger", &ledger, "--body-bytes", "3000"];
    arguments.extend(["--checkpoint-kib", "1", "--per-association", "10"]);
    let (code, report) = source(&sink.address, 1000, &arguments).finish();
    assert_eq!(code, 1, "{report}");
    let fates = ["acked", "refused", "unknown"].map(|key| number(&report, key));
    assert_eq!(fates.iter().sum::<u64>(), 1000);
    assert!(fates.iter().all(|&count| count > 0), "{report}");
    assert_eq!(number(&report["refused_by_reply"], "transfer 1"), fates[1], "{report}");
    assert!(number(&report["connect_failures"], "bind refused: busy (0)") > 0, "{report}");
    sink.signal(rustix::process::Signal::TERM);
    let (code, totals) = sink.finish();
    assert_eq!((code, number(&totals, "messages")), (0, fates[0]));
    assert!(number(&totals, "dropped") > 0 && number(&totals, "refused") > 0);
    let (code, audit) = audit(&files.path("source"), &files.path("sink"));
    assert_eq!(code, 0, "{audit}");
    for kind in ["missing", "duplicates", "unknown_arrived", "refused_arrived"] {
        assert_eq!(number(&audit[kind], "count"), 0, "{kind}: {audit}");
    }
}

#[test]
fn who_is_not_known_is_refused_and_says_so() {
    for mode in MODES {
        let their = ["--their-name", "hub", "--their-password", "right", "--t-selector", "x400"];
        let sink = sink(&their);
        let refused = |more: &[&str], why: &str| {
            let arguments =
                [&["--reconnect", "0", "--mode", mode, "--associations", "1"], more].concat();
            let (code, report) = source(&sink.address, 1, &arguments).finish();
            assert_eq!(code, 3, "{report}");
            let failures = report["connect_failures"].to_string();
            assert!(failures.contains(why), "{failures}");
        };
        let called = ["--t-selector", "hex:78343030", "--name", "hub"];
        refused(&["--name", "hub", "--password", "right"], "no session entity at this selector");
        let why = if mode == "normal" { "authentication error" } else { "validation failure" };
        refused(&[&called[..], &["--password", "wrong"]].concat(), why);
        let right = [&called[..], &["--password", "right"]].concat();
        refused(&[&right[..], &["--their-name", "other"]].concat(), "the answer names");
        let (code, report) =
            source(&sink.address, 1, &[&right[..], &["--mode", mode]].concat()).finish();
        assert_eq!((code, number(&report, "acked")), (0, 1), "{report}");
    }
}

#[test]
fn the_floor_relays_everything_in_and_out_of_every_mode() {
    for (inward, outward) in [("normal", "normal"), ("x410", "normal"), ("normal", "x410-1984")] {
        let files = Files::new();
        let ledger = files.name("sink");
        let mut sink = sink(&["--expect", "500", "--ledger", &ledger]);
        let to = sink.address.clone();
        let mut floor = Tool::listen(&[
            "p1-floor",
            "--listen",
            "127.0.0.1:0",
            "--to",
            &to,
            "--mode",
            outward,
            "--associations",
            "7",
        ]);
        let ledger = files.name("source");
        let mut arguments = vec!["--associations", "20", "--ledger", &ledger, "--mode", inward];
        arguments.extend(["--body-bytes", "9000"]);
        let (code, report) = source(&floor.address, 500, &arguments).finish();
        assert_eq!((code, number(&report, "acked")), (0, 500), "{report}");
        assert_eq!(sink.finish().0, 0);
        floor.signal(rustix::process::Signal::TERM);
        let (code, totals) = floor.finish();
        assert_eq!((code, number(&totals, "accepted")), (0, 500));
        let (code, audit) = audit(&files.path("source"), &files.path("sink"));
        assert_eq!((code, number(&audit["duplicates"], "count")), (0, 0), "{audit}");
    }
}

#[test]
fn a_sender_of_others_sends_to_our_sink() {
    let manners: [&[&str]; 4] = [&[], &["--ck", "1"], &["--twa"], &["--ck", "1", "--twa"]];
    for manner in manners {
        for size in ["0", "12000"] {
            let files = Files::new();
            let mut sink = sink(&["--expect", "20", "--ledger", &files.name("sink")]);
            let port = sink.address.rsplit(':').next().expect("a port").to_owned();
            let mut command = Command::new("python3");
            command.arg("-B").arg(foreign("p1client.py")).args([&port, "-n", "20", "--size", size]);
            let done = command.args(manner).output().expect("it runs");
            assert!(done.status.success(), "{manner:?}: {}", String::from_utf8_lossy(&done.stderr));
            let (code, totals) = sink.finish();
            assert_eq!((code, number(&totals, "messages")), (0, 20), "{totals}");
            assert_eq!((number(&totals, "unidentified"), number(&totals, "damaged")), (0, 0));
            assert_eq!(number(&totals, "checkpoints") > 0, manner.contains(&"--ck") && size != "0");
            let ledger = std::fs::read_to_string(files.path("sink")).expect("a ledger");
            let first = ledger.lines().next().expect("a line");
            assert!(first.ends_with(".0 /S=bob/O=Beta/PRMD=TestB/ADMD=/C=GB/"), "{first}");
        }
    }
}

/// The receiver of others, if its codecs are there (`scripts/install-test-packages`).
fn peer(address: &str) -> Option<(Ended, BufReader<ChildStdout>)> {
    let modules = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../target/test-packages/x400-codecs/node_modules");
    if !modules.join("@wildboar/x400").exists() {
        eprintln!("the npm codecs are not there (scripts/install-test-packages): not tested");
        return None;
    }
    let mut command = Command::new("node");
    let port = address.rsplit(':').next().expect("a port");
    command.arg(foreign("peer.cjs")).args(["listen", port]).env("NODE_PATH", modules);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("node starts");
    let mut output = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
    output.read_line(&mut String::new()).expect("it listens");
    Some((Ended(child), output))
}

#[test]
fn our_source_sends_to_a_receiver_of_others() {
    let address = free_address();
    let Some((child, output)) = peer(&address) else { return };
    let mut expected = 0;
    for mode in ["normal", "x410"] {
        for (bytes, more) in [
            ("0", &[][..]),
            ("1000", &["--checkpoint-kib", "1"]),
            ("30000", &["--checkpoint-kib", "1", "--window", "2"]),
            ("30000", &["--priority", "urgent"]),
        ] {
            let arguments = ["--mode", mode, "--body-bytes", bytes, "--associations", "2"];
            let (code, report) = source(&address, 10, &[&arguments, more].concat()).finish();
            assert_eq!((code, number(&report, "acked")), (0, 10), "{mode} {bytes}: {report}");
            expected += 10;
        }
    }
    drop(child);
    let lines: Vec<Value> = output
        .lines()
        .map(|line| serde_json::from_str(&line.expect("text")).expect("JSON"))
        .collect();
    let messages: Vec<&Value> = lines.iter().filter(|line| line["kind"] == "message").collect();
    assert_eq!(messages.len(), expected);
    for message in messages {
        assert_eq!((number(message, "recipients"), number(message, "trace")), (1, 1), "{message}");
        assert_eq!(message["id"].as_str().map(str::len), Some(32));
    }
    assert!(lines.iter().any(|line| line["context"] == "2.6.0.1.6"), "{lines:?}");
}

#[test]
fn wrong_wishes_are_refused() {
    for wish in [
        &["--recipient", "/S=a/"][..],
        &["--tpdu", "127"],
        &["--tpdu", "65409"],
        &["--mode", "1984"],
        &["--associations", "0"],
        &["--per-association", "0"],
        &["--body-bytes", "1"],
        &["--s-selector", "seventeen octets."],
    ] {
        let mut command = Command::new(LAB);
        command.args(["p1-source", "--to", "127.0.0.1:9"]).args(wish);
        let status = command.stderr(Stdio::null()).status().expect("it runs");
        assert_eq!(status.code(), Some(2), "{wish:?}");
    }
}
