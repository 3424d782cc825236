//! Rows about the ways to run the server: control socket, HTTP, command line.
//!
//! Control socket and HTTP: `C:`, `c:`, `S:`, `X:` as over SMTP; of an HTTP response only the first
//! line and the body are kept. Command line: `$: WORDS`, then `O:` standard output, `E:` standard
//! error, `=: N` exit code.

use super::bench::Bench;
use super::dialogue::Line;
use super::table::{self, Row};
use crate::support::server::program;
use socket2::{Domain, SockAddr};

fn play_control(bench: &Bench, row: &Row) -> Vec<String> {
    let witness = bench.witness();
    let path = bench.files.path("spool/control.sock");
    let mut line = Line::connect(Domain::UNIX, &SockAddr::unix(path).expect("a path"));
    let seen = line.play(row, None);
    drop(line);
    assert_eq!(bench.prove(witness, &row.id, 0), [] as [String; 0]);
    seen
}

fn play_http(bench: &Bench, row: &Row) -> Vec<String> {
    let witness = bench.witness();
    let mut line = Line::connect(Domain::IPV4, &bench.admin().into());
    let mut seen = line.play_to_end(row);
    drop(line);
    // Header fields: not what this is about, and one is the time.
    let first = seen.iter().position(|line| line.starts_with("S: HTTP/"));
    if let Some(first) = first {
        let end = seen.iter().skip(first).position(|line| line == "S: ");
        let end = first + end.expect("a header's end");
        seen.drain(first + 1..=end);
    }
    assert_eq!(bench.prove(witness, &row.id, 0), [] as [String; 0]);
    seen
}

fn play_command(bench: &Bench, row: &Row) -> Vec<String> {
    let witness = bench.witness();
    let words = row.setting("$").expect("words");
    let answer = program(bench.files.dir(), &words.split(' ').collect::<Vec<_>>());
    let mut seen = vec![format!("$: {words}")];
    for (kind, text) in [("O", &answer.out), ("E", &answer.err)] {
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        seen.extend(lines.map(|line| format!("{kind}: {}", line.trim_end())));
    }
    seen.push(format!("=: {}", answer.code));
    assert_eq!(bench.prove(witness, &row.id, 0), [] as [String; 0]);
    seen
}

#[test]
fn control_socket() {
    let bench = Bench::start();
    table::check("control", |row| play_control(&bench, row));
    bench.server.stop();
}

#[test]
fn http() {
    let bench = Bench::start();
    table::check("http", |row| play_http(&bench, row));
    bench.server.stop();
}

#[test]
fn command_line() {
    let bench = Bench::start();
    table::check("command", |row| play_command(&bench, row));
    bench.server.stop();
}
