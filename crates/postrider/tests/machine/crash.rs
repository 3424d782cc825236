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
        println!("SKIPPED: {errors}");
        return None;
    }
    let used = files.path("crash").join("disk.served").display().to_string();
    let mounts = std::fs::read_to_string("/proc/mounts").expect("mounts");
    assert!(!mounts.contains(&used), "still mounted: {mounts}");
    let report = serde_json::from_str(text.trim());
    Some((code, report.unwrap_or_else(|error| panic!("{error}: {text}{errors}"))))
}

/// Exit code for what this machine does not allow.
const UNABLE: i32 = 77;

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
