//! The next hop vanishes amid deliveries, stays away, and returns.

use super::{CONNECTIONS_MAX, Findings, LimitsOptions, config};
use crate::rig::Rig;
use load::ledger::Audit;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Messages per second that keep coming.
const RATE: &str = "500";
/// The queue tells of the failure within this time.
const TOLD_MAX: Duration = Duration::from_secs(20);

pub(super) fn examine(
    options: &LimitsOptions,
    rig: &mut Rig,
    findings: &mut Findings,
) -> Result<Audit, String> {
    rig.configure(&config(rig, "", ""))?;
    rig.start_relay()?;
    rig.wait_listening()?;
    rig.start_sink(&[])?;
    rig.start_source("steady", &["--sessions", "20", "--per-session", "20", "--rate", RATE])?;
    let mut returns = Vec::new();
    for _ in 0..options.times {
        let before = rig.acked()?;
        wait_acked(rig, before + options.messages / 2)?;
        rig.end_sink()?;
        let gone = rig.acked()?;
        wait_acked(rig, gone + options.messages)?;
        let blocker = wait_blocker(rig)?;
        findings.note("blocker", blocker);
        rig.start_sink(&[])?;
        let begun = Instant::now();
        let arrived = rig.arrived()?;
        while rig.arrived()? == arrived && begun.elapsed() < TOLD_MAX {
            rig.check_running()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        returns.push(begun.elapsed().as_secs_f64());
    }
    findings.note("seconds from its return to a delivery", returns);
    rig.stop_sources()?;
    let audit = findings.account(rig, options.times * CONNECTIONS_MAX)?;
    findings.note("duplicates allowed", options.times * CONNECTIONS_MAX);
    Ok(audit)
}

fn wait_acked(rig: &mut Rig, count: u64) -> Result<(), String> {
    let begun = Instant::now();
    while rig.acked()? < count {
        rig.check_running()?;
        if begun.elapsed() > Duration::from_secs(60) {
            return Err("intake stands still while the sink is away".to_owned());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What the oldest queued message waits for, once it is the sink.
fn wait_blocker(rig: &Rig) -> Result<String, String> {
    let begun = Instant::now();
    loop {
        let listed = rig.ask(&["queue", "list", "--limit", "1", "--json"])?;
        let first = listed.lines().next().unwrap_or("");
        let item: Value = serde_json::from_str(first).map_err(|e| format!("{e}: {listed}"))?;
        let id = item["id"].as_str().unwrap_or("");
        let why = rig.ask(&["queue", "why", id])?;
        if why.contains(&rig.sink_address) && why.contains("refused") {
            return Ok(why.trim().to_owned());
        }
        if begun.elapsed() > TOLD_MAX {
            return Err(format!("`queue why {id}` does not name the sink: {why}"));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
