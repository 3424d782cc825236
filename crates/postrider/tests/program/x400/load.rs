//! From a source to a sink that share no code with what is between them: every message exactly once, whatever the
//! sink refuses and breaks; and nothing that was acknowledged is lost by kills.

use super::config;
use crate::support::server::Server;
use crate::support::tool::{Tool, free_port, lab, ledger, succeed};
use crate::support::{Files, wait_until};
use serde_json::Value;
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server between the two.
fn between(listen: &str, sink: &str, keys: &str) -> String {
    let rest = format!(
        r#"
[retry]
first = "1s"
longest = "2s"

[[x400.peer]]
name = "source"
their_name = "source"
their_password = "secret"
our_password = "secret"

[[x400.peer]]
name = "sink"
hosts = ["{sink}"]
their_name = "sink"
their_password = "secret"
our_password = "secret"
{keys}

[[route]]
or_addresses = ["/PRMD=Lab/ADMD= /C=GB/"]
x400 = {{ peer = "sink" }}
"#
    );
    config("relay", "Relay", &rest).replace("127.0.0.1:0", listen)
}

fn sink(files: &Files, expected: u64, words: &[&str]) -> Tool {
    let (expected, ledger) =
        (expected.to_string(), files.path("sink.ledger").display().to_string());
    let first = ["p1-sink", "--json", "--listen", "127.0.0.1:0", "--ledger", &ledger];
    let last = ["--expect", &expected, "--linger", "1"];
    Tool::lab(&[&first[..], &last[..], words].concat())
}

fn account_for(count: u64, keys: &str, source_words: &[&str], sink_words: &[&str]) -> Value {
    let files = Files::new();
    let sink = sink(&files, count, sink_words);
    let server = Server::start(&files, &between("127.0.0.1:0", &sink.address, keys));
    let (to, expected) = (server.to(), count.to_string());
    let sent = files.path("source.ledger").display().to_string();
    let words = ["p1-source", "--json", "--to", &to, "--messages", &expected, "--ledger", &sent];
    succeed(lab(), &[&words[..], source_words].concat());
    let totals = sink.finish();
    assert_eq!(totals["messages"], count, "{totals}");
    let audit = ledger(&files.path("source.ledger"), &files.path("sink.ledger"));
    assert_eq!(audit["acked_messages"], count, "{audit}");
    assert_eq!(audit["arrivals"], audit["acked_recipients"], "{audit}");
    wait_until("an empty queue", || server.queue().is_empty());
    server.stop();
    audit
}

#[test]
fn small_messages_exactly_once() {
    account_for(2_000, "", &["--body-bytes", "1000"], &[]);
}

#[test]
fn checkpoints_and_small_tpdus_change_nothing() {
    let keys = "checkpoint_kib = 2\ntpdu_bytes = 2048";
    let words = ["--body-bytes", "0..20k", "--checkpoint-kib", "1", "--tpdu", "2048"];
    account_for(200, keys, &words, &["--checkpoint-kib", "1"]);
}

#[test]
fn large_messages_and_several_recipients_exactly_once() {
    account_for(5, "", &["--body-bytes", "3000000", "--associations", "2"], &[]);
}

#[test]
fn what_a_peer_refuses_or_breaks_comes_once() {
    let trouble = ["--refuse", "30:1:end", "--drop", "20:content", "--drop", "20:start"];
    account_for(300, "", &["--body-bytes", "1000"], &trouble);
}

#[test]
fn kills_lose_nothing_that_was_acknowledged() {
    let files = Files::new();
    let count = 6_000_u64;
    let ledger_name = files.path("sink.ledger").display().to_string();
    let sink = Tool::lab(&[
        "p1-sink",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--ledger",
        &ledger_name,
        "--idle-exit",
        "5",
    ]);
    let listen = format!("127.0.0.1:{}", free_port());
    let mut server = Server::start(&files, &between(&listen, &sink.address, ""));
    let sent = files.path("source.ledger").display().to_string();
    let messages = count.to_string();
    let mut source = Command::new(lab())
        .args(["p1-source", "--to", &listen, "--messages", &messages, "--rate", "1000"])
        .args(["--ledger", &sent, "--reconnect", "20", "--timeout", "5"])
        .stdout(Stdio::null())
        .spawn()
        .expect("the source runs");
    for _ in 0..10 {
        std::thread::sleep(Duration::from_millis(400));
        server.kill();
        server = Server::start_again(&files);
    }
    // Some are doubtful: they are judged by what arrives.
    let _ = source.wait().expect("it ends");
    wait_until("an empty queue", || server.queue().is_empty());
    sink.finish();
    let (source, sink) = (&sent, &ledger_name);
    let text = succeed(lab(), &["ledger", "--json", "--max-duplicates", "1100", source, sink]);
    let audit: Value = serde_json::from_str(text.trim()).expect("JSON");
    assert!(audit["acked_messages"].as_u64().is_some_and(|acked| acked > count / 2), "{audit}");
    server.stop();
}
