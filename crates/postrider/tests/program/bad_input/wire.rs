//! Rows over SMTP.
//!
//! - `at: NAME`: the listener, `in` unless said otherwise;
//! - `after: STEP`: how far the session has come before: `connect`, `greeting`, `ehlo` (unless said
//!   otherwise), `helo`, `mail`, `rcpt`, `data`;
//! - `beside: N`: as many sessions are open at the listener already;
//! - `C:` a line, CRLF is added; `c:` bytes as they are; with escapes (see [`smtp::testing::escape`]);
//! - `T: N`: the client does nothing for so many seconds, or until it is answered;
//! - `X:` what the client does to the connection: `close`, `half-close`, `reset`;
//! - `S:` a line of the answer, `X: closed`: the server closes; `M: MAILBOX CONTENT`: arrives.

use super::bench::Bench;
use super::dialogue::Line;
use super::table::{self, Row};
use socket2::Domain;
use std::net::SocketAddr;

const MAIL: &str = "MAIL FROM:<a@client.test>";
const RCPT: &str = "RCPT TO:<b@far.test>";

fn connect(address: SocketAddr) -> Line {
    Line::connect(Domain::IPV4, &address.into())
}

fn open(address: SocketAddr, step: &str) -> Line {
    let steps = ["connect", "greeting", "ehlo", "mail", "rcpt", "data"];
    let mut line = connect(address);
    let reached = steps.iter().position(|name| *name == step);
    let reached = reached.or((step == "helo").then_some(1));
    let reached = reached.unwrap_or_else(|| panic!("after: {step}?"));
    let says = [
        ("", ""),
        ("", "220 relay.test "),
        ("EHLO client.test", "250"),
        (MAIL, "250 2.1.0 "),
        (RCPT, "250 2.1.5 "),
        ("DATA", "354 "),
    ];
    for (command, answer) in &says[1..=reached] {
        if command.is_empty() {
            line.expect(answer);
        } else {
            line.say(command, answer);
        }
    }
    if step == "helo" {
        line.say("HELO client.test", "250 ");
    }
    line
}

/// Plays a row and proves that it disturbed nothing.
pub(crate) fn play(bench: &Bench, row: &Row) -> Vec<String> {
    play_at(bench, row, bench.listener(row.setting("at").unwrap_or("in")))
}

/// The same with a listener that is reached here.
pub(crate) fn play_at(bench: &Bench, row: &Row, address: SocketAddr) -> Vec<String> {
    let witness = bench.witness();
    let beside = row.setting("beside").map_or(0, |count| count.parse().expect("a count"));
    let others: Vec<Line> = (0..beside).map(|_| open(address, "greeting")).collect();
    let mut line = open(address, row.setting("after").unwrap_or("ehlo"));
    let mut seen = line.play(row, Some(("NOOP", "250 2.0.0 Ok")));
    drop((line, others));
    let accepted = seen.iter().filter(|line| line.contains("queued as ")).count();
    seen.extend(bench.prove(witness, &row.id, accepted as u64));
    seen
}

fn check(name: &str) {
    let bench = Bench::start();
    table::check(name, |row| play(&bench, row));
    bench.server.stop();
}

#[test]
fn dialogue() {
    check("dialogue");
}

#[test]
fn addresses() {
    check("addresses");
}

#[test]
fn limits() {
    check("limits");
}

#[test]
fn smuggling() {
    check("smuggling");
}

#[test]
fn steering() {
    check("steering");
}

#[test]
fn dsn() {
    check("dsn");
}
