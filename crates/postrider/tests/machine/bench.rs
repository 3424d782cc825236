//! `postrider-lab bench` in its smallest form: that every message is accounted for and every
//! contender shown. How fast anything is matters nowhere here.

use crate::support::server::POSTRIDER;
use crate::support::{Files, tool};
use serde_json::Value;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

/// A run in a directory of its own.
struct Run {
    code: Option<i32>,
    /// What was printed.
    text: String,
    /// And for people only.
    errors: String,
    report: Value,
    page: String,
}

fn bench(scenario: &str, more: &[&str]) -> Run {
    bench_below(0o755, scenario, more)
}

/// A run whose directory lies in one of that mode.
fn bench_below(mode: u32, scenario: &str, more: &[&str]) -> Run {
    let files = Files::new();
    let out = files.path("out");
    std::fs::set_permissions(files.dir(), Permissions::from_mode(mode)).expect("ours");
    let name = out.display().to_string();
    let arguments = ["bench", scenario, "--postrider", POSTRIDER, "--out", &name, "--rounds", "1"];
    let mut command = Command::new(tool::lab());
    // For the adapter that starts another build.
    command.args(arguments).args(more).env("POSTRIDER", POSTRIDER).stdin(Stdio::null());
    let output = command.output().expect("the lab runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let read = |name: &str| {
        let text = std::fs::read_to_string(out.join(name));
        text.unwrap_or_else(|error| panic!("{name}: {error}: {errors}"))
    };
    let json = read("report.json");
    Run {
        code: output.status.code(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        report: serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {json}")),
        page: read("report.html"),
        errors,
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

impl Run {
    /// Whether a temporary directory is no real disk here, by which every run is INVALID.
    fn is_in_memory(&self) -> bool {
        list(&self.report, "marks").iter().any(|mark| mark["severity"] == "invalid")
    }

    /// Everything that was measured, each with scenario and case.
    fn measurements(&self) -> Vec<(String, &Value)> {
        let mut all = Vec::new();
        for scenario in list(&self.report, "scenarios") {
            for case in list(scenario, "cases") {
                let name = format!("{} {}", scenario["name"], case["name"]);
                assert!(
                    !list(case, "rounds").is_empty() || case["unavailable"].is_string(),
                    "{name} has not run and doesn't say why"
                );
                let rounds = list(case, "rounds").iter();
                all.extend(rounds.flat_map(|round| {
                    list(round, "measurements").iter().map(|one| (name.clone(), one))
                }));
            }
        }
        all
    }

    /// Every contender was measured and shown, and what was accepted was delivered, once.
    fn check(&self, contenders: &[&str], measurements: usize) {
        let all = self.measurements();
        assert!(all.len() >= measurements, "{} measurements", all.len());
        for (name, measurement) in &all {
            let shown = serde_json::to_string_pretty(measurement).expect("JSON");
            assert_eq!(measurement["ending"], "finished", "{name}: {shown}");
            assert!(measurement["accepted"].as_u64() > Some(0), "{name}: {shown}");
            assert_eq!(measurement["accepted"], measurement["delivered"], "{name}: {shown}");
            let account = &measurement["account"];
            for none in ["missing", "damaged", "misdelivered", "refused", "unknown"] {
                assert_eq!(account[none], 0, "{name}: {none}: {shown}");
            }
            let duplicates = account["duplicates"].as_u64();
            assert!(duplicates <= account["duplicates_allowed"].as_u64(), "{name}: {shown}");
            let cpu =
                list(measurement, "figures").iter().any(|f| f["name"] == "cpu_us_per_message");
            assert!(cpu, "{name}: no CPU: {shown}");
        }
        for contender in contenders {
            assert!(all.iter().any(|(_, one)| one["contender"] == *contender), "{contender}");
            assert!(self.page.contains(contender), "{contender} is not on the page");
            assert!(self.text.contains(contender), "{contender} is not on the terminal");
        }
        let valid = if self.is_in_memory() { 1 } else { 0 };
        assert_eq!(self.code, Some(valid), "{}", self.text);
    }
}

#[test]
fn a_relay_run_accounts_for_every_message_of_every_contender() {
    let contenders = ["postrider", "postrider-os", "floor", "floor-log", "postfix"];
    // Postfix's users can't get into a closed directory: spools are elsewhere then.
    let more = ["--scale", "0.001", "--against", &contenders.join(",")];
    let run = bench_below(0o700, "relay-400", &more);
    assert!(run.errors.contains("is closed to other users"), "{}", run.errors);
    // Postfix needs root; where it can't be measured it says so.
    let skipped = list(&run.report["manifest"], "skipped");
    let left_out = |name: &&str| skipped.iter().any(|skipped| skipped["name"] == **name);
    let measured: Vec<&str> = contenders.into_iter().filter(|name| !left_out(name)).collect();
    run.check(&measured, 4);
    // What is asked for over HTTP, and comes at the end by the log.
    for name in ["postrider", "floor-log"] {
        let all = run.measurements();
        let (_, of) = all.iter().find(|(_, of)| of["contender"] == name).expect("measured");
        let mut figures = list(of, "figures").iter();
        let syncs = figures.find(|figure| figure["name"] == "sync_count").expect("syncs");
        assert!(syncs["value"].as_f64() > Some(0.0), "{name}: {syncs}");
    }
    let case = &run.report["scenarios"][0]["cases"][0];
    let ratio = |to: &str, figure: &str| {
        list(case, "ratios").iter().any(|ratio| ratio["to"] == to && ratio["figure"] == figure)
    };
    assert!(ratio("floor", "delivered_per_second") && ratio("floor-log", "cpu_us_per_message"));
    for contender in list(&run.report["manifest"], "contenders") {
        assert!(!list(contender, "files").is_empty(), "{contender}");
        assert!(contender["durability"].is_string() && contender["version"].is_string());
    }
}

#[test]
fn the_meter_tells_a_known_cost_to_a_tenth() {
    let run = bench("relay-400", &["--scale", "0.0005", "--against", "known-cost"]);
    let all = run.measurements();
    let is_known = |one: &&Value| one["contender"] == "known-cost";
    let known = all.iter().map(|(_, one)| *one).find(is_known).expect("it was measured");
    let figure = |name: &str| {
        let figures = list(known, "figures").iter();
        let found = figures.clone().find(|figure| figure["name"] == name);
        found.unwrap_or_else(|| panic!("{name}: {known}"))["value"].as_f64().expect("a number")
    };
    // What it says of itself: 10,000 µs and 262,144 bytes a message.
    let is_near = |value: f64, cost: f64| (0.9 * cost..=1.1 * cost).contains(&value);
    let cpu = figure("cpu_us_per_message");
    assert!(is_near(cpu, 10_000.0), "{cpu} µs");
    let messages = known["delivered"].as_f64().expect("a number");
    let written = figure("written_bytes") / messages;
    // Memory is no disk, and the kernel counts no writes to it.
    assert!(run.is_in_memory() || is_near(written, 262_144.0), "{written} bytes");
}

#[test]
fn an_adapter_starts_what_it_is_told_to_and_its_configuration_is_shown() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/bench-adapters/postrider");
    let adapter = format!("before={script}");
    let more = ["--scale", "0.001", "--against", "before", "--adapter", &adapter];
    let run = bench("relay-400", &more);
    run.check(&["postrider", "before"], 2);
    let run = bench("large-queue", &more);
    run.check(&["postrider", "before"], 4);
    let contenders = list(&run.report["manifest"], "contenders");
    let before = contenders.iter().find(|one| one["name"] == "before").expect("it is shown");
    let names: Vec<&Value> = list(before, "files").iter().map(|file| &file["name"]).collect();
    assert!(names.iter().any(|name| *name == "postrider.toml"), "{names:?}");
}

#[test]
fn a_run_may_last_a_time_instead_of_a_number_of_messages() {
    let more = ["--scale", "0.001", "--against", "floor", "--seconds", "1"];
    let run = bench("relay-400", &more);
    run.check(&["postrider", "floor"], 2);
    for (name, measurement) in run.measurements() {
        let seconds = measurement["accept_seconds"].as_f64();
        assert!(seconds >= Some(0.75), "{name}: {measurement}");
    }
}

#[test]
fn a_slow_contender_is_cut_off_and_the_report_says_so() {
    let more = ["--scale", "1", "--against", "floor", "--cut-off", "1"];
    let run = bench("relay-400", &more);
    for (name, measurement) in run.measurements() {
        let accepted = measurement["accepted"].as_u64();
        assert!(accepted > Some(0) && accepted < Some(500_000), "{name}: {measurement}");
        assert_eq!(measurement["account"]["missing"], 0, "{name}: {measurement}");
        let told = format!("cut off after 1 s, with {} of 500000", accepted.unwrap_or(0));
        let mut marks = list(measurement, "marks").iter();
        assert!(
            marks.any(|mark| mark["text"].to_string().contains(&told)),
            "{name}: {measurement}"
        );
    }
}

#[test]
fn mail_for_users_is_found_in_their_mailboxes() {
    let more = ["--seconds", "1", "--users", "1000", "--recipients", "50"];
    let run = bench("directory-mailboxes/50", &more);
    // Postfix needs root and packages; where it can't be measured it says so.
    let skipped = list(&run.report["manifest"], "skipped");
    assert!(skipped.iter().all(|skipped| skipped["name"] != "postrider-file"), "{skipped:?}");
    run.check(&["postrider-file", "postrider-database"], 2);
    for (name, measurement) in run.measurements() {
        let shown = serde_json::to_string_pretty(measurement).expect("JSON");
        let minutes = list(measurement, "minutes");
        let messages: u64 = minutes.iter().filter_map(|minute| minute["messages"].as_u64()).sum();
        assert_eq!(Some(messages), measurement["accepted"].as_u64(), "{name}: {shown}");
        let last = minutes.last().expect("the seconds are a minute's part");
        assert_eq!(last["mailboxes"], 50, "{name}: {shown}");
        let figures = list(measurement, "figures");
        let refused = figures.iter().find(|figure| figure["name"] == "refused_for_now");
        assert_eq!(refused.expect("counted")["value"], 0.0, "{name}: {shown}");
        // What went before is in the account, too.
        assert!(measurement["account"]["arrived"].as_u64() >= Some(messages), "{name}: {shown}");
    }
    assert!(run.page.contains("to 50 of 1,000 users"), "{}", run.page);
}

#[test]
fn mail_comes_at_a_rate_and_is_accounted_for_though_its_users_remove_it() {
    let more = ["--seconds", "4", "--users", "1000", "--recipients", "50"];
    let asked = ["--rate", "40", "--read-after", "1", "--against", "postrider-file"];
    let run = bench("directory-mailboxes/50", &[&more[..], &asked].concat());
    run.check(&["postrider-file"], 1);
    let all = run.measurements();
    let (_, measurement) = all.first().expect("measured");
    let shown = serde_json::to_string_pretty(measurement).expect("JSON");
    // It is due to come, however slow this machine is; more is never sent.
    let accepted = measurement["accepted"].as_u64().expect("a number");
    assert!((1..=200).contains(&accepted), "{shown}");
    let figures = list(measurement, "figures");
    let offered = figures.iter().find(|figure| figure["name"] == "accepted_of_offered");
    assert!(offered.expect("told")["value"].as_f64() <= Some(130.0), "{shown}");
    // The account has all, those before the load as well; they were read and are gone.
    let arrived = measurement["account"]["arrived"].as_u64().expect("a number");
    assert!(arrived >= 2000 + accepted, "{shown}");
    let last = list(measurement, "minutes").last().expect("the seconds are a minute's part");
    assert!(last["in_mailboxes"].as_u64() <= Some(accepted), "{shown}");
    let manifest = &run.report["manifest"];
    assert_eq!((&manifest["rate"], &manifest["read_after_seconds"]), (&40.0.into(), &1.into()));
    for text in ["40 messages offered in a second", "read and removed by its users after 1 s"] {
        assert!(run.page.contains(text), "{text}: {}", run.page);
        assert!(run.text.contains(text), "{text}: {}", run.text);
    }
    let differences = run.report["scenarios"][0]["differences"].to_string();
    assert!(differences.contains("40 messages are offered in a second"), "{differences}");
}

#[test]
fn a_loss_is_invalid_and_says_so_everywhere() {
    let run = bench("relay-400", &["--scale", "0.001", "--against", "floor", "--plant-loss", "3"]);
    assert_eq!(run.code, Some(1), "{}", run.text);
    let all = run.measurements();
    assert_eq!(all[0].1["account"]["missing"], 3, "{}", all[0].1);
    assert!(run.text.contains("INVALID") && run.text.contains("LOSS: 3"), "{}", run.text);
    assert!(run.page.contains("INVALID") && run.page.contains("LOSS: 3"));
}

#[test]
fn a_large_queue_survives_being_killed() {
    let run = bench("large-queue", &["--scale", "0.001", "--against", "postrider,floor"]);
    // The bare relay keeps nothing: only one variant is for it.
    run.check(&["postrider", "floor"], 3);
    let killed = &run.report["scenarios"][0]["cases"][1];
    assert_eq!(list(killed, "left_out").len(), 1, "{killed}");
    let measurement = &killed["rounds"][0]["measurements"][0];
    let figures = list(measurement, "figures");
    for name in ["recovery_seconds", "drained_per_second", "accepted_of_reference"] {
        assert!(figures.iter().any(|figure| figure["name"] == name), "{name}: {measurement}");
    }
    assert!(list(measurement, "moments").iter().any(|moment| moment["what"] == "SIGKILL"));
}

#[test]
fn a_steady_state_regulates_itself() {
    // The smallest messages and the largest.
    for case in ["steady-state/1kB", "steady-state/10MB"] {
        let run = bench(case, &["--scale", "0.001", "--against", "postrider"]);
        run.check(&["postrider"], 1);
    }
}

#[test]
fn the_other_scenarios_run() {
    for scenario in ["relay-64k", "marketing-100k", "alerts-10k", "floor"] {
        let run = bench(scenario, &["--scale", "0.001", "--against", "postrider"]);
        run.check(&["postrider"], 1);
    }
}

#[test]
fn the_columns_of_the_list_stand_apart() {
    let output =
        Command::new(tool::lab()).args(["bench", "--list"]).output().expect("the lab runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let named = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let lines: Vec<&str> = text.lines().filter(named).collect();
    assert!(lines.iter().any(|line| line.trim().starts_with("postrider-in-flight ")), "{text}");
    for line in lines {
        assert!(line.trim().contains("  "), "{line}");
    }
}

#[test]
fn unknown_names_are_refused_with_the_known_ones() {
    for (arguments, known) in [
        (&["bench", "relay-500"][..], "relay-400"),
        (&["bench", "relay-400", "--against", "sendmail"][..], "postfix"),
        (&["bench", "relay-400", "--rate", "0"][..], "--rate 0 is not above 0"),
    ] {
        let output = tool::run(tool::lab(), arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(known), "{errors}");
    }
}
