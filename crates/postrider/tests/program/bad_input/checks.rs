//! Rows about messages whose senders are checked, over SMTP as in [`wire`](super::wire), at the listeners
//! `checks`, `lists` and `grey`.
//!
//! `O:` has the verdicts of the event of a message that was taken.

use super::bench::Bench;
use super::table::{self, Row};
use super::wire;
use crate::support::name_server::{Fault, NameServer};
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
    lists(&names);
    names
}

/// Lists in the DNS, and the domains that one of them has. Clients come from 127.0.0.1: the list that has
/// it has everything.
fn lists(names: &NameServer) {
    names.host("1.0.0.127.all.lists.test", &["127.0.0.2"]);
    for domain in ["none", "long", "lines", "garbage", "silent", "failing", "sold", "refusing"] {
        names.mx(&format!("{domain}.test"), &[(10, "mx.test")]);
        if domain != "none" {
            names.host(&format!("{domain}.test.d.lists.test"), &["127.0.0.2"]);
        }
    }
    names.txt("long.test.d.lists.test", &[&"x".repeat(10_000)]);
    names.txt("lines.test.d.lists.test", &["no\r\n250 2.1.5 yes\u{1b}[2J\u{e9}"]);
    names.fault("garbage.test.d.lists.test", Fault::Garbage);
    names.fault("silent.test.d.lists.test", Fault::Silent);
    names.fault("failing.test.d.lists.test", Fault::Fails);
    names.host("sold.test.d.lists.test", &["203.0.113.80"]);
    names.host("refusing.test.d.lists.test", &["127.255.255.254"]);
    names.mx("null.test", &[(0, ".")]);
    names.txt("text.test", &["no mail here"]);
    let hosts: Vec<String> = (0..1_000).map(|n| format!("mx{n}.thousand.test")).collect();
    let records: Vec<_> = hosts.iter().map(|host| (10, host.as_str())).collect();
    names.mx("thousand.test", &records);
    names.fault("broken.test", Fault::Fails);
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
