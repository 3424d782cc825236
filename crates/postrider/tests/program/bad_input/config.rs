//! Rows about configuration files.
//!
//! - `in: FRAME`: where the lines go: `top`, `listener`, `route`, `end`; `file`: they are all of it;
//!   `missing`: there is no file; `directory`: there is one instead of a file;
//! - `F: …`: a line of the file, with escapes; `{in}` is the address of the running server's first
//!   listener, `{admin}` that of its administration;
//! - `E: …`: what the program says; `=: N`: its exit code.
//!
//! Every row but those of a start is played three times: `reload` of the running server, which must
//! name each mistake on one line and keep what it has; `check`, which must show the same mistakes at
//! the same places; and `serve`, which must not start.

use super::bench::Bench;
use super::table::{self, Row};
use crate::support::server::{Answer, CONFIG, command, control, program};
use smtp::testing::escape::unescape;
use std::path::Path;

/// The lines that are on trial stand for `<HERE>`.
const FRAMES: [(&str, &str); 5] = [
    ("top", "<HERE>\n[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n"),
    ("listener", "[[listener]]\naddress = \"127.0.0.1:25\"\n<HERE>\n[[route]]\ndiscard = {}\n"),
    (
        "route",
        "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\n<HERE>\n[[route]]\ndiscard = {}\n",
    ),
    ("end", "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n<HERE>\n"),
    ("file", "<HERE>\n"),
];

fn lines_of(row: &Row, bench: &Bench) -> Vec<u8> {
    let given = row.steps().filter(|(kind, _)| *kind == "F");
    let given: Vec<Vec<u8>> = given
        .map(|(_, rest)| {
            let rest = rest.replace("{in}", &bench.listener("in").to_string());
            unescape(&rest.replace("{admin}", &bench.admin().to_string()))
        })
        .collect();
    given.join(&b'\n')
}

fn put(path: &Path, row: &Row, bench: &Bench) {
    let frame = row.setting("in").expect("a frame");
    match frame {
        "missing" => {}
        "directory" => std::fs::create_dir(path).expect("a directory"),
        _ => {
            let found = FRAMES.iter().find(|(name, _)| *name == frame);
            let (_, text) = found.unwrap_or_else(|| panic!("in: {frame}?"));
            let (before, behind) = text.split_once("<HERE>").expect("a place");
            let whole = [before.as_bytes(), &lines_of(row, bench), behind.as_bytes()].concat();
            std::fs::write(path, whole).expect("a file");
        }
    }
}

fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
    let _ = std::fs::remove_dir(path);
}

/// What is given, then what came of it.
fn seen(row: &Row, said: &str, code: i32) -> Vec<String> {
    let given = row.lines.iter().filter(|line| line.starts_with("in: ") || line.starts_with("F: "));
    let machine = rustix::system::uname();
    let machine = machine.nodename().to_str().expect("text");
    let said = said.replace(&format!("postmaster@{machine}"), "postmaster@{machine}");
    let said = said.lines().filter(|line| !line.trim().is_empty()).map(|line| format!("E: {line}"));
    given.cloned().chain(said).chain([format!("=: {code}")]).collect()
}

/// One line for each mistake, as the log of a reload has them.
fn mistakes(answer: &Answer) -> String {
    let stays = "reload failed, the old configuration stays in force: ";
    let (before, list) = answer.err.split_once(stays).unwrap_or_else(|| panic!("{answer:?}"));
    assert!(answer.out.is_empty() && before.starts_with("postrider: "), "{answer:?}");
    list.replace("; postrider.toml:", "\npostrider.toml:")
}

fn play(bench: &Bench, row: &Row) -> Vec<String> {
    let witness = bench.witness();
    let path = bench.files.path(CONFIG);
    let good = std::fs::read(&path).expect("the configuration");
    remove(&path);
    put(&path, row, bench);
    // Everybody may read it.
    bench.files.write("file", "no key");
    let dir = bench.files.dir();
    let reload = control(dir, &["reload"]);
    let check = command(dir, &["check"]);
    let serve = (check.code != 0).then(|| command(dir, &["serve"]));
    remove(&path);
    std::fs::write(&path, good).expect("the configuration");
    let list = mistakes(&reload);
    let serve = serve.unwrap_or_else(|| panic!("[{}]: check takes it", row.id));
    assert_eq!((check.code, &*check.out), (2, ""), "[{}]", row.id);
    assert_eq!((serve.code, &serve.err), (2, &check.err), "[{}]", row.id);
    for mistake in list.lines().filter(|line| line.starts_with("postrider.toml:")) {
        let mut parts = mistake.splitn(5, ':').map(str::trim);
        let mut next = || parts.next().expect("FILE:LINE:COLUMN: KIND: TEXT");
        let place = format!("{}:{}:{}", next(), next(), next());
        let shown = check.err.contains(&format!("▸ {place}\n"));
        let alone = check.err == format!("postrider: {mistake}\n");
        assert!(shown || alone, "[{}]: {place} in {}", row.id, check.err);
    }
    let moved = seen(row, &list, reload.code);
    assert_eq!(bench.prove(witness, &row.id, 0), [] as [String; 0]);
    moved
}

/// A file that is right, with which a second server can't start beside the one that runs.
fn play_start(bench: &Bench, row: &Row) -> Vec<String> {
    let witness = bench.witness();
    put(&bench.files.path("other.toml"), row, bench);
    bench.files.write("file", "not a directory");
    let answer = program(bench.files.dir(), &["serve", "--config", "other.toml"]);
    let last = answer.err.lines().last().unwrap_or_default();
    // Without the time, and without the ports of this run.
    let last = last.split_once(' ').map_or(last, |(_, text)| text);
    let last = last.replace(&bench.listener("in").to_string(), "{in}");
    let last = last.replace(&bench.admin().to_string(), "{admin}");
    let moved = seen(row, &last, answer.code);
    assert_eq!(bench.prove(witness, &row.id, 0), [] as [String; 0]);
    moved
}

#[test]
fn config() {
    let bench = Bench::start();
    table::check("config", |row| play(&bench, row));
    bench.server.stop();
}

#[test]
fn start() {
    let bench = Bench::start();
    table::check("start", |row| play_start(&bench, row));
    bench.server.stop();
}
