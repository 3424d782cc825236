//! Rows about entries of recipients whose values can't be used.
//!
//! - `K: …`: what the value is for: a `path`, a `quota`, a `user`, or the `host` of the next hop;
//! - `U: …`: the value, with escapes;
//! - `E: …`: why a message to this recipient waits, or was returned, with its status.
//!
//! A database has an entry for each row, with the row's name as the local part. Then the entries are put
//! right: each message that waits must arrive in its mailbox, by another server where it is for a host, and
//! nothing may be anywhere else.

use super::table::{self, CATALOGUE, Row};
use crate::support::client::Client;
use crate::support::server::{Answer, Server, program};
use crate::support::{Files, config, wait_until};
use serde_json::Value;
use smtp::testing::escape::unescape;
use std::path::Path;

/// What a value may be for, the key that has it, and one that is right.
const KINDS: [(&str, &str, &str); 4] = [
    ("path", "maildir = { path = \"mail/{value}\" }", "good"),
    ("quota", "maildir = { path = \"mail/{local}\", quota = \"{value}\" }", "1MiB"),
    ("user", "maildir = { path = \"mail/{local}\", user = \"{value}\" }", "54321"),
    (HOST, "smtp = { hosts = [\"{value}\"] }", ""),
];

/// What another server's address is right for.
const HOST: &str = "host";

fn text() -> String {
    let mut text = String::new();
    for (kind, keys, _) in KINDS {
        text.push_str(&format!(
            "[[table]]\nname = \"{kind}\"\ndatabase = {{ path = \"{kind}.db\" }}\n\
             [[route]]\nname = \"{kind}\"\ndomains = [\"{kind}.test\"]\n\
             recipients = {{ table = \"{kind}\" }}\n{keys}\n"
        ));
    }
    config(&format!("{text}[[route]]\ndiscard = {{}}\n[retry]\nfirst = \"1h\"\n"))
}

fn kind_of(row: &Row) -> &str {
    row.setting("K").expect("a kind")
}

fn value_of(row: &Row) -> Vec<u8> {
    unescape(row.setting("U").expect("a value"))
}

fn address(row: &Row) -> String {
    format!("{}@{}.test", row.id, kind_of(row))
}

/// Builds the databases, with the value of each row.
fn build(files: &Files, rows: &[Row], value: impl Fn(&Row) -> Vec<u8>) {
    for (kind, ..) in KINDS {
        let of_kind = rows.iter().filter(|row| kind_of(row) == kind);
        let lines =
            of_kind.map(|row| [address(row).as_bytes(), b"\t", &value(row), b"\n"].concat());
        let from = format!("{kind}.tsv");
        std::fs::write(files.path(&from), lines.collect::<Vec<_>>().concat()).expect("a file");
        let to = format!("{kind}.db");
        let words = ["table", "build", "--format", "tsv", "--from", &from, "--to", &to];
        let Answer { code, err, .. } = program(files.dir(), &words);
        assert_eq!(code, 0, "{err}");
    }
}

/// What became of the message to a row's recipient at first.
fn outcome(files: &Files, address: &str) -> Option<Value> {
    let is_it = |event: &Value| {
        event["recipient"] == address
            && ["deferred", "failed", "delivered"].iter().any(|name| event["event"] == *name)
    };
    files.events().into_iter().find(is_it)
}

fn play(files: &Files, server: &Server, row: &Row) -> Vec<String> {
    let address = address(row);
    let mut client = Client::connect(server.address());
    client.mail("a@client.test", &[&address], &format!("Subject: {}\r\n\r\nBody.\r\n", row.id));
    wait_until("an outcome", || outcome(files, &address).is_some());
    let event = outcome(files, &address).expect("it is there");
    let part = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let given = row.lines.iter().filter(|line| line.starts_with("K: ") || line.starts_with("U: "));
    let seen = format!("E: {} {} {}", part("event"), part("status"), part("reason"));
    given.cloned().chain([seen.trim_end().to_owned()]).collect()
}

/// All messages below a directory, in whatever mailbox: the path, and what it has.
fn messages(directory: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        match std::fs::read_to_string(&path) {
            Ok(text) if text.contains("Subject: ") => {
                found.push((path.display().to_string(), text))
            }
            Ok(_) => {}
            Err(_) => messages(&path, found),
        }
    }
}

#[test]
fn entries() {
    if !rustix::process::geteuid().is_root() {
        skips::machine(skips::Machine::Root, "mailboxes are given to users");
        return;
    }
    let rows: Vec<Row> = CATALOGUE.table("entries").rows;
    let rows: Vec<Row> = rows.into_iter().filter(|row| CATALOGUE.is_wanted(row)).collect();
    let (files, backend_files) = (Files::new(), Files::new());
    let backend = "[[route]]\nmaildir = { path = \"mail/{local}\" }\n";
    let backend = Server::start(&backend_files, &config(backend));
    build(&files, &rows, value_of);
    std::fs::create_dir(files.path("outside")).expect("a directory");
    let server = Server::start(&files, &text());
    table::check("entries", |row| play(&files, &server, row));
    let good = |kind: &str| KINDS.iter().find(|(name, ..)| *name == kind).expect("a kind").2;
    build(&files, &rows, |row| match kind_of(row) {
        "path" => format!("{}/{}", good("path"), row.id).into_bytes(),
        HOST => backend.address().to_string().into_bytes(),
        kind => good(kind).into(),
    });
    for (kind, ..) in KINDS.iter().filter(|(kind, ..)| rows.iter().any(|row| kind_of(row) == *kind))
    {
        let what = format!("table {kind}: ");
        server.wait_console("a new database", |line| {
            line.contains(&what) && line.contains("reloaded")
        });
    }
    server.command(&["queue", "retry", "--all"]);
    wait_until("all are delivered", || {
        let delivered = [&files, &backend_files].map(|files| files.events_of("delivered").len());
        delivered[0] + delivered[1] == rows.len()
    });
    let mut found = Vec::new();
    messages(files.dir(), &mut found);
    messages(backend_files.dir(), &mut found);
    for row in &rows {
        let home = match kind_of(row) {
            "path" => files.path("mail/good").join(&row.id),
            HOST => backend_files.path("mail").join(&row.id),
            _ => files.path("mail").join(&row.id),
        };
        let subject = format!("Subject: {}\n", row.id);
        let its: Vec<_> = found.iter().filter(|(_, text)| text.contains(&subject)).collect();
        let [(path, _)] = its[..] else { panic!("[{}]: {its:?}", row.id) };
        assert!(Path::new(path).starts_with(home.join("new")), "[{}]: {path}", row.id);
    }
    server.stop();
    backend.stop();
}
