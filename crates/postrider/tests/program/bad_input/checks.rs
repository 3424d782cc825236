//! Rows about messages whose senders are checked, over SMTP as in [`wire`](super::wire), at the listener
//! `checks`.
//!
//! `O:` has the verdicts of the event of a message that was taken.

use super::bench::Bench;
use super::table::{self, Row};
use super::wire;
use crate::support::name_server::NameServer;
use serde_json::Value;

/// The zone: what domains say of themselves.
fn zone() -> NameServer {
    let names = NameServer::start();
    let includes = |count: u32| {
        let terms = (0..count).map(|n| format!("a:host{n}.eleven.test "));
        format!("v=spf1 {}-all", terms.collect::<String>())
    };
    for n in 0..11 {
        names.host(&format!("host{n}.eleven.test"), &["192.0.2.9"]);
    }
    names.txt("eleven.test", &[&includes(11)]);
    names.txt("ten.test", &[&includes(10)]);
    names.txt("loop.test", &["v=spf1 include:other.loop.test -all"]);
    names.txt("other.loop.test", &["v=spf1 redirect=loop.test"]);
    names.txt("twice.test", &["v=spf1 -all", "v=spf1 +all"]);
    names.txt("garbage.test", &["v=spf1 \u{1}\u{7f}%{ ip4:999.1.1.1/77 -all"]);
    names.txt("_dmarc.two.test", &["v=DMARC1; p=reject", "v=DMARC1; p=none"]);
    names.txt("_dmarc.strict.test", &["v=DMARC1; p=reject"]);
    names
}

fn checked(bench: &Bench) -> Vec<Value> {
    let mut events = bench.files.events_of("received");
    events.retain(|event| event["spf"].is_string());
    events
}

fn play(bench: &Bench, row: &Row) -> Vec<String> {
    let before = checked(bench).len();
    let mut lines = wire::play(bench, row);
    if lines.iter().any(|line| line.contains("queued as ")) {
        crate::support::wait_until("the event", || checked(bench).len() > before);
        let event = checked(bench).pop().expect("an event");
        let verdict = |check: &str| format!("{check}={}", event[check].as_str().unwrap_or("-"));
        lines.push(format!("O: {}", ["spf", "dkim", "dmarc", "arc"].map(verdict).join(" ")));
    }
    lines
}

#[test]
fn checks() {
    let names = zone();
    let bench = Bench::start_with(&names.section());
    table::check("checks", |row| play(&bench, row));
    bench.server.stop();
}
