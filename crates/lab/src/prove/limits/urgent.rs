//! A backlog of bulk mail stands at one next hop, and urgent mail comes.

use super::{Findings, LimitsOptions};
use crate::prove::relay::Relay;
use crate::stand::{Error, Result};
use load::file;
use load::ledger::Audit;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Connections to the next hop.
const CONNECTIONS: u64 = 10;
/// The next hop replies so much later.
const LATENCY_MS: &str = "50";
/// Urgent messages in a second.
const RATE: u64 = 20;
/// Who sends them.
const SENDER: &str = "urgent@source.test";
/// They are gone within this time, or never.
const GONE_MAX: Duration = Duration::from_secs(60);

pub(super) fn examine(
    options: &LimitsOptions,
    relay: &mut Relay,
    findings: &mut Findings,
) -> Result<Audit> {
    relay.configure(&config(relay))?;
    relay.start()?;
    relay.wait_listening()?;
    relay.stand.start_sink(&["--latency", LATENCY_MS])?;
    let bulk = relay.send(options.messages, &["--sessions", "50", "--per-session", "1000"])?;
    findings.expect(bulk["acked"] == options.messages, || format!("bulk: {bulk}"));
    let urgent = options.seconds * RATE;
    let rate = RATE.to_string();
    let more = ["--rate", &rate, "--sessions", "20", "--from", SENDER, "--header", "X-Urgency: 8"];
    let sent = relay.send(urgent, &more)?;
    findings.expect(sent["acked"] == urgent, || format!("urgent: {sent}"));
    let mut delays = wait_relayed(relay, urgent)?;
    let left = options.messages + urgent - relay.stand.delivered_now()?;
    findings.note("bulk messages still queued", left);
    findings.expect(left > 0, || "no backlog was left: more --messages are needed".to_owned());
    delays.sort_unstable();
    for (name, permille) in [("half", 500), ("99 %", 990), ("all", 1000)] {
        let within = delays.get((delays.len() * permille).div_ceil(1000).saturating_sub(1));
        let name = format!("urgent messages gone within so many ms: {name}");
        findings.note(&name, within.copied());
    }
    // The rest needn't wait for the slow replies.
    relay.stand.stop_sink()?;
    relay.stand.start_sink(&[])?;
    relay.ask(&["queue", "retry", "--all"])?;
    findings.account(relay, CONNECTIONS)
}

/// Waits until all urgent messages have left; the milliseconds from acceptance to delivery of each.
fn wait_relayed(relay: &mut Relay, count: u64) -> Result<Vec<u64>> {
    let begun = Instant::now();
    loop {
        let events = file::read(&relay.spool.join("events.jsonl"))?;
        let delays: Vec<u64> = events.lines().filter_map(delay).collect();
        if delays.len() as u64 == count {
            return Ok(delays);
        }
        if begun.elapsed() > GONE_MAX {
            let text = format!("{} of {count} urgent messages have left", delays.len());
            return Err(Error::Server(text));
        }
        relay.stand.check_running()?;
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// What an event says about an urgent message that has left.
fn delay(line: &str) -> Option<u64> {
    if !(line.contains("\"relayed\"") && line.contains(SENDER)) {
        return None;
    }
    let event: Value = serde_json::from_str(line).ok()?;
    (event["event"] == "relayed" && event["sender"] == SENDER).then_some(())?;
    event["delay_ms"].as_u64()
}

fn config(relay: &Relay) -> String {
    let (address, sink) = (&relay.address, relay.stand.sink_address());
    let path = relay.spool.display();
    format!(
        r#"hostname = "relay.test"

[spool]
path = "{path}"

[[listener]]
name = "in"
address = "{address}"
relay_from = ["127.0.0.0/8"]
steering_from = ["127.0.0.0/8"]

[steering]
priority = "X-Urgency"

[[route]]
smtp = {{ hosts = ["{sink}"], tls = "off", max_connections = {CONNECTIONS} }}
"#
    )
}

#[cfg(test)]
mod tests {
    use super::delay;

    #[test]
    fn only_urgent_messages_that_left_count() {
        let line = |event: &str, sender: &str| {
            format!(r#"{{"time":"x","event":"{event}","sender":"{sender}","delay_ms":17}}"#)
        };
        assert_eq!(delay(&line("relayed", "urgent@source.test")), Some(17));
        assert_eq!(delay(&line("received", "urgent@source.test")), None);
        assert_eq!(delay(&line("relayed", "sender@source.test")), None);
    }
}
