//! Killed again and again while mail goes through it, the relay loses nothing that it has
//! acknowledged. `postrider-lab crash` in its short form; by hand it runs for longer.

use crate::support::server::POSTRIDER;
use crate::support::{Files, tool};
use serde_json::Value;

/// Kills a relay some times; exit code and report.
fn crash(more: &[&str]) -> (Option<i32>, Value) {
    let files = Files::new();
    let directory = files.path("crash").display().to_string();
    let arguments = ["crash", "--json", "--postrider", POSTRIDER, "--directory", &directory];
    let output = tool::run(tool::lab(), &[&arguments[..], more].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let report = serde_json::from_str(text.trim());
    (output.status.code(), report.unwrap_or_else(|error| panic!("{error}: {text}{errors}")))
}

#[test]
fn what_was_acknowledged_survives_being_killed() {
    let (code, report) = crash(&["--cycles", "3", "--acked", "300", "--rate", "1500"]);
    assert_eq!(code, Some(0), "{report}");
    // Three under load and one during recovery; and there was something to lose.
    assert_eq!(report["kills"].as_array().map(Vec::len), Some(4), "{report}");
    assert!(report["acked_per_cycle_min"].as_u64() >= Some(300), "{report}");
    assert_eq!(report["audit"]["missing"]["count"], 0, "{report}");
    assert_eq!(report["left"]["live_messages"], 0, "{report}");
}

#[test]
fn what_is_only_in_memory_is_found_missing() {
    let more = ["--durability", "memory", "--cycles", "1", "--acked", "300", "--rate", "1500"];
    let (code, report) = crash(&more);
    assert_eq!(code, Some(1), "{report}");
    assert!(report["audit"]["missing"]["count"].as_u64() > Some(0), "{report}");
}

/// The same with the power of the spool's disk cut at each kill; `None` where this machine can't
/// do that.
fn power_cut(more: &[&str]) -> Option<(i32, Value)> {
    let files = Files::new();
    let directory = files.path("crash").display().to_string();
    let arguments =
        ["crash", "--power-cut", "--json", "--postrider", POSTRIDER, "--directory", &directory];
    let output = tool::run(tool::lab(), &[&arguments[..], more].concat());
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let code = output.status.code().expect("an exit code");
    if code == UNABLE {
        skips::machine(skips::Machine::Namespaces, &errors);
        return None;
    }
    let used = files.path("crash").display().to_string();
    let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains(&used), "still mounted: {mounts}");
    let report = serde_json::from_str(text.trim());
    Some((code, report.unwrap_or_else(|error| panic!("{error}: {text}{errors}"))))
}

/// Exit code for what this machine does not allow.
const UNABLE: i32 = 77;

#[test]
fn what_was_delivered_to_mailboxes_survives_being_killed() {
    let more = ["--into", "maildirs", "--cycles", "2", "--acked", "200", "--rate", "500"];
    let (code, report) = crash(&more);
    assert_eq!(code, Some(0), "{report}");
    check_mailboxes(&report, 3);
}

/// After so many kills, and at the end, every delivery had its file, and there were some.
fn check_mailboxes(report: &Value, kills: usize) {
    let list = report["kills"].as_array().expect("a list");
    assert_eq!(list.len(), kills, "{report}");
    let looks = list.iter().map(|kill| &kill["mailboxes"]).chain([&report["mailboxes"]]);
    for look in looks {
        assert!(look["recorded"].as_u64() > Some(0), "{report}");
        assert!(look["messages"].as_u64() >= look["recorded"].as_u64(), "{report}");
        for wrong in ["lost", "vanished", "unqueued", "damaged", "duplicates", "misdelivered"] {
            assert_eq!(look[wrong], 0, "{wrong}: {report}");
        }
    }
    assert!(report["audit"]["acked_messages"].as_u64() >= Some(400), "{report}");
    assert_eq!(report["audit"]["missing"]["count"], 0, "{report}");
    assert_eq!(report["audit"]["duplicates"]["count"], 0, "{report}");
    assert_eq!(report["left"]["live_messages"], 0, "{report}");
}

#[test]
fn a_fault_of_mailboxes_needs_mailboxes() {
    let arguments =
        ["crash", "--power-cut", "--plant", "mailbox-unsynced", "--postrider", POSTRIDER];
    let output = tool::run(tool::lab(), &[&arguments[..], &["--directory", "unused"]].concat());
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("it needs --into maildirs"), "{errors}");
}

#[test]
fn what_was_acknowledged_survives_power_cuts() {
    let more = ["--cycles", "2", "--acked", "200", "--rate", "800", "--seed", "4"];
    let Some((code, report)) = power_cut(&more) else { return };
    assert_eq!(code, 0, "{report}");
    let kills = report["kills"].as_array().expect("a list");
    assert_eq!(kills.len(), 3, "{report}");
    assert!(kills.iter().all(|kill| kill["cut"].is_object()), "{report}");
    assert_eq!(report["audit"]["missing"]["count"], 0, "{report}");
}

#[test]
fn what_the_system_only_has_in_memory_is_lost_when_the_power_is_cut() {
    let more = ["--durability", "os", "--cycles", "1", "--acked", "200", "--rate", "800"];
    let Some((code, report)) = power_cut(&more) else { return };
    assert_eq!(code, 1, "{report}");
    assert!(report["audit"]["missing"]["count"].as_u64() > Some(0), "{report}");
}

#[test]
fn what_was_delivered_to_mailboxes_survives_power_cuts() {
    let more = ["--into", "maildirs", "--cycles", "2", "--acked", "200", "--rate", "400"];
    let Some((code, report)) = power_cut(&more) else { return };
    assert_eq!(code, 0, "{report}");
    check_mailboxes(&report, 3);
    let kills = report["kills"].as_array().expect("a list");
    assert!(kills.iter().all(|kill| kill["mail_cut"].is_object()), "{report}");
}

#[test]
fn a_delivery_that_counts_before_its_directory_is_synced_is_found() {
    let planted = ["--into", "maildirs", "--plant", "mailbox-unsynced"];
    let more = ["--cycles", "3", "--acked", "300", "--rate", "300"];
    // A run whose cuts find no delivery under way finds nothing: on a busy machine that happens.
    let mut code = 0;
    let mut report = Value::Null;
    for seed in ["1", "2", "3", "4"] {
        let run = [&planted[..], &more, &["--seed", seed]].concat();
        let Some(found) = power_cut(&run) else { return };
        (code, report) = found;
        if code != 0 {
            break;
        }
    }
    assert_eq!(code, 1, "{report}");
    // The cut that loses a delivery may lose its event, too: then it is neither recorded nor queued.
    let count = |key: &str| report["mailboxes"][key].as_u64().expect("a number");
    assert!(count("lost") + count("unqueued") > 0, "{report}");
    assert!(report["audit"]["missing"]["count"].as_u64() > Some(0), "{report}");
    // Nothing else was wrong with what lay there.
    assert_eq!(report["audit"]["damaged"]["count"], 0, "{report}");
}
