//! The next hop vanishes amid deliveries, stays away, and returns.

use super::{CONNECTIONS_MAX, Findings, LimitsOptions, config};
use crate::prove::relay::Relay;
use crate::stand::{Error, Result};
use load::ledger::Audit;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Messages per second that keep coming.
const RATE: &str = "500";
/// The queue tells of the failure within this time.
const TOLD_MAX: Duration = Duration::from_secs(20);

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    relay.configure(&config(relay, "", ""))?;
    relay.start()?;
    relay.wait_listening()?;
    relay.stand.start_sink(&[])?;
    relay.start_source("steady", &["--sessions", "20", "--per-session", "20", "--rate", RATE])?;
    let mut returns = Vec::new();
    for _ in 0..options.times {
        let before = relay.stand.accepted_now()?;
        wait_acked(relay, before + options.messages / 2)?;
        relay.stand.stop_sink()?;
        let gone = relay.stand.accepted_now()?;
        wait_acked(relay, gone + options.messages)?;
        let blocker = wait_blocker(relay)?;
        findings.note("blocker", blocker);
        relay.stand.start_sink(&[])?;
        let begun = Instant::now();
        let arrived = relay.stand.delivered_now()?;
        while relay.stand.delivered_now()? == arrived && begun.elapsed() < TOLD_MAX {
            relay.stand.check_running()?;
            std::thread::sleep(Duration::from_millis(10));
        }
        returns.push(begun.elapsed().as_secs_f64());
    }
    findings.note("seconds from its return to a delivery", returns);
    relay.stop_sources()?;
    let audit = findings.account(relay, options.times * CONNECTIONS_MAX)?;
    findings.note("duplicates allowed", options.times * CONNECTIONS_MAX);
    Ok(audit)
}

fn wait_acked(relay: &mut Relay, count: u64) -> Result<()> {
    let begun = Instant::now();
    while relay.stand.accepted_now()? < count {
        relay.stand.check_running()?;
        if begun.elapsed() > Duration::from_secs(60) {
            let text = "no mail is accepted while the sink is down";
            return Err(Error::Server(text.to_owned()));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// What the oldest queued message waits for, once it is the sink.
fn wait_blocker(relay: &Relay) -> Result<String> {
    let begun = Instant::now();
    loop {
        let listed = relay.ask(&["queue", "list", "--limit", "1", "--json"])?;
        let first = listed.lines().next().unwrap_or("");
        let item: Value = serde_json::from_str(first)
            .map_err(|error| Error::Output("postrider queue list".to_owned(), error))?;
        let id = item["id"].as_str().unwrap_or("");
        let why = relay.ask(&["queue", "why", id])?;
        if why.contains(relay.stand.sink_address()) && why.contains("refused") {
            return Ok(why.trim().to_owned());
        }
        if begun.elapsed() > TOLD_MAX {
            let text = format!("`queue why {id}` does not name the sink: {why}");
            return Err(Error::Server(text));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
