//! At its limits (a full disk, no descriptors, thousands of idle sessions, a next hop that is
//! gone) the relay refuses what it can't take, delivers what it has, and loses nothing.
//! `postrider-lab limits` in its short form; by hand it goes further.

use crate::support::foreign::{is_possible, with_packages};
use crate::support::server::POSTRIDER;
use crate::support::{Files, tool};
use serde_json::Value;

/// Exit code for what this machine does not allow.
const UNABLE: i32 = 77;

/// Brings a relay to a limit, where it must do as it should; `None` where this machine does not
/// allow that.
fn limit(which: &str, more: &[&str]) -> Option<Value> {
    let lab = tool::lab().display().to_string();
    limit_by(&[&lab], which, more)
}

/// The same by the lab's program as it is called here.
fn limit_by(lab: &[&str], which: &str, more: &[&str]) -> Option<Value> {
    let files = Files::new();
    let directory = files.path("limits").display().to_string();
    let arguments =
        ["limits", which, "--json", "--postrider", POSTRIDER, "--directory", &directory];
    let output = tool::run(lab[0], &[&lab[1..], &arguments[..], more].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.code() == Some(UNABLE) {
        skips::machine(skips::Machine::Namespaces, &errors);
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{text}{errors}");
    let report: Value = serde_json::from_str(text.trim()).expect("JSON");
    // There was something to lose.
    assert!(report["audit"]["acked_messages"].as_u64() > Some(0), "{report}");
    assert_eq!(report["audit"]["missing"]["count"], 0, "{report}");
    Some(report)
}

#[test]
fn a_full_disk_refuses_new_mail_and_delivers_what_is_queued() {
    let Some(report) = limit("disk-full", &["--messages", "200"]) else { return };
    assert_eq!(report["measured"]["free bytes"], 0, "{report}");
    assert!(report["audit"]["refused_messages"].as_u64() > Some(0), "{report}");
}

#[test]
fn without_descriptors_for_more_clients_delivery_goes_on() {
    let report = limit("descriptors", &["--messages", "200"]).expect("needs no rights");
    assert!(report["measured"]["refused"].as_u64() > Some(0), "{report}");
    assert!(report["measured"]["open files"].as_u64() < Some(256), "{report}");
}

#[test]
fn idle_sessions_cost_little_and_are_ended() {
    let more = ["--sessions", "2000", "--messages", "300", "--idle-timeout", "15"];
    let report = limit("idle-sessions", &more).expect("needs no rights");
    assert!(report["measured"]["bytes per idle session"].as_u64() < Some(32 * 1024), "{report}");
}

#[test]
fn encrypted_idle_sessions_cost_little_more() {
    let more = ["--tls", "--sessions", "300", "--messages", "100", "--idle-timeout", "15"];
    let report = limit("idle-sessions", &more).expect("needs no rights");
    assert!(report["measured"]["bytes per idle session"].as_u64() < Some(48 * 1024), "{report}");
}

#[test]
fn a_next_hop_may_vanish_and_return() {
    let report = limit("sink-away", &["--messages", "200", "--times", "2"]);
    report.expect("needs no rights");
}

#[test]
fn the_directory_may_end_or_fall_silent_and_return() {
    if !is_possible(&["slapd"]) {
        return;
    }
    let (script, lab) = (with_packages().display().to_string(), tool::lab().display().to_string());
    let more = ["--seconds", "9", "--users", "2000"];
    let report = limit_by(&[&script, "slapd", &lab], "directory-away", &more);
    let report = report.expect("possible");
    for how in ["ended", "silent"] {
        let accepted = &report["measured"][format!("{how}: accepted during the failure")];
        assert!(accepted.as_u64() > Some(0), "{report}");
    }
}

#[test]
fn urgent_mail_overtakes_a_backlog() {
    let report = limit("urgent", &["--messages", "3000", "--seconds", "3"]);
    let report = report.expect("needs no rights");
    assert!(report["measured"]["bulk messages still queued"].as_u64() > Some(500), "{report}");
}
