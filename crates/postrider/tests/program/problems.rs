//! Files that go wrong while the server runs: each is in the list of problems, with its kind and what to do, for as long
//! as it is wrong.

use crate::configured_files::make_files;
use crate::support::client::Client;
use crate::support::server::{Server, command};
use crate::support::tool::free_port;
use crate::support::{Files, config, wait_until};
use serde_json::Value;
use std::fs;

/// A file, and the kind of the problem when it is garbage.
const FILES: [(&str, &str); 4] = [
    ("users", "table"),
    ("mx.pem", "certificate"),
    ("dkim.key", "signing_key"),
    ("secret", "secret"),
];

fn settings(more: &str) -> String {
    config(&format!(
        "[tls]\nexpiry_warning = \"0s\"\n[[table]]\nname = \"t\"\nfile = {{ path = \"users\" }}\n\
         [[certificate]]\nnames = [\"x.test\"]\nchain = \"mx.pem\"\nkey = \"mx.key\"\n\
         [[signer]]\ndomains = [\"x.test\"]\nselector = \"s\"\nkey = \"dkim.key\"\n\
         [[route]]\ndomains = [\"far.test\"]\ndiscard = {{}}\n\
         [[route]]\nsmtp = {{ hosts = [\"127.0.0.1:9\"], tls = \"required\", \
         login = {{ user = \"u\", password_file = \"secret\" }} }}\n{more}"
    ))
}

/// The problem of this kind, if there is one.
fn problem(server: &Server, kind: &str) -> Option<Value> {
    let status = server.json(&["status"]).remove(0);
    let list = status["problem_list"].as_array().cloned().unwrap_or_default();
    list.into_iter().find(|one| one["kind"] == kind)
}

#[test]
fn a_file_that_goes_wrong_is_a_problem_until_it_is_mended() {
    let files = Files::new();
    make_files(&files);
    files.write("users", "a@x.test x\nb@x.test y\n");
    let server = Server::start(&files, &settings(""));
    for (name, kind) in FILES {
        assert_eq!(problem(&server, kind), None, "{kind}");
        let well = fs::read(files.path(name)).expect("a file");
        let old = fs::metadata(files.path(name)).expect("a file");
        // Of a table another line is no mistake: it is emptied.
        let bad = if kind == "table" { "" } else { "a\nb\u{1}\n" };
        files.write(name, bad);
        wait_until(&format!("a problem of the kind {kind}"), || problem(&server, kind).is_some());
        let found = problem(&server, kind).expect("it is there");
        assert!(found["text"].as_str().is_some_and(|text| text.contains(name)), "{found}");
        assert!(found["next_step"].as_str().is_some_and(|step| !step.is_empty()), "{found}");
        fs::write(files.path(name), well).expect("room");
        fs::set_permissions(files.path(name), old.permissions()).expect("a file");
        wait_until(&format!("no problem of the kind {kind}"), || problem(&server, kind).is_none());
        // And one that is gone.
        fs::rename(files.path(name), files.path("away")).expect("it is there");
        wait_until(&format!("{name} is missed"), || problem(&server, kind).is_some());
        fs::rename(files.path("away"), files.path(name)).expect("it is there");
        wait_until(&format!("{name} is there again"), || problem(&server, kind).is_none());
    }
    server.stop();
}

#[test]
fn an_event_log_that_can_not_be_written_and_a_table_that_nobody_answers_for_are_problems() {
    let files = Files::new();
    make_files(&files);
    files.write("users", "a@x.test x\n");
    fs::create_dir(files.path("log")).expect("room");
    let more = format!(
        "[events]\npath = \"log\"\n[[table]]\nname = \"far\"\ntcp = {{ server = \"127.0.0.1:{}\" }}\n",
        free_port()
    );
    let server = Server::start(&files, &settings(&more));
    wait_until("the event log", || problem(&server, "event_log").is_some());
    fs::remove_dir(files.path("log")).expect("it is there");
    wait_until("it is written", || {
        let mut client = Client::connect(server.address());
        client.mail("a@source.test", &["b@far.test"], "Subject: x\r\n\r\n");
        problem(&server, "event_log").is_none()
    });
    assert_eq!(problem(&server, "table"), None);
    wait_until("a table whose server is away", || {
        // A request that fails once is none.
        server.command(&["table", "get", "far", "k"]);
        problem(&server, "table").is_some_and(|found| found["about"] == "far")
    });
    server.stop();
}

#[test]
fn events_for_a_disk_that_is_not_mounted_wait() {
    let files = Files::new();
    fs::create_dir(files.path("disk")).expect("a mount point");
    let text = "[events]\npath = \"disk/log/events.jsonl\"\n[[route]]\ndiscard = {}\n";
    let server = Server::start(&files, &config(text));
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@far.test"], "Subject: x\r\n\r\n");
    wait_until("a problem", || problem(&server, "event_log").is_some());
    assert!(!files.path("disk/log").exists(), "nothing is made below a mount point");
    let checked = command(files.dir(), &["check"]);
    assert_eq!(checked.code, 0);
    assert!(checked.err.contains("cannot write events to disk/log"), "{checked:?}");
    fs::create_dir(files.path("disk/log")).expect("it is mounted");
    wait_until("the events that waited", || {
        let written = fs::read_to_string(files.path("disk/log/events.jsonl"));
        written.is_ok_and(|text| text.contains("\"event\":\"received\""))
    });
    wait_until("the end of the problem", || problem(&server, "event_log").is_none());
    server.stop();
}
