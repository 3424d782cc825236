//! The first five minutes, as README.md describes them: no configuration, the default ports.

use crate::support::http::{get, metric};
use crate::support::server::{POSTRIDER, Server, program};
use crate::support::tool::{python, succeed};
use crate::support::{Files, wait_until};
use std::net::TcpListener;
use std::process::Command;

const ADDRESSES: [&str; 2] = ["127.0.0.1:2525", "127.0.0.1:8025"];

#[test]
fn nothing_is_missed_before_the_first_start() {
    let files = Files::new();
    let checked = program(files.dir(), &["check"]);
    assert!(checked.code == 0 && checked.err.is_empty(), "{checked:?}");
}

#[test]
fn the_first_five_minutes() {
    for address in ADDRESSES {
        if TcpListener::bind(address).is_err() {
            skips::machine(skips::Machine::Port, &format!("{address} is in use"));
            return;
        }
    }
    let files = Files::new();
    let mut command = Command::new(POSTRIDER);
    command.arg("serve");
    let server = Server::spawn(command, files.dir());
    assert_eq!(server.to(), ADDRESSES[0]);
    // The script in README.md itself.
    let readme = include_str!("../../../../README.md");
    let (_, script) = readme.split_once("python3 - <<'END'\n").expect("the script");
    let (script, _) = script.split_once("\nEND\n").expect("its end");
    python(script, &[]);
    let swaks = ["--from", "me@example.org", "--to", "you@example.net"];
    succeed("swaks", &[&["--server", ADDRESSES[0]], &swaks[..]].concat());
    files.wait_maildir("postrider-data/mail/example.net/you", 2);
    let find = "find postrider-data -path '*/new/*' -type f -exec cat {} +";
    assert!(readme.contains(find));
    let shell = |line: &str| {
        let line = format!("cd '{}' && export POSTRIDER_CONFIG= && {line}", files.dir().display());
        succeed("sh", &["-c", &line])
    };
    assert!(shell(find).contains("Subject: Hello\n\nFirst light.\n"));
    let tail = "tail -n 2 postrider-data/spool/events.jsonl";
    assert!(readme.contains(tail));
    wait_until("both events of the last message", || {
        let kinds = shell(tail);
        kinds.contains("\"event\":\"received\"") && kinds.contains("\"event\":\"delivered\"")
    });
    assert!(get(ADDRESSES[1], "/healthz").contains("\"status\":\"ok\""));
    let metrics = get(ADDRESSES[1], "/metrics");
    assert_eq!(metric(&metrics, "postrider_messages_received_total"), 2, "{metrics}");
    assert!(shell(&format!("{POSTRIDER} queue list")).contains("Nothing is queued"));
    assert!(shell(&format!("{POSTRIDER} explain you@example.net")).contains("maildir"));
    server.stop();
}
