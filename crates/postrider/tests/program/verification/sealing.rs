//! Chains that this server and dkimpy seal in turn: both say the same of them.

use super::listeners::config;
use crate::interop::milters::start_filter;
use crate::interop::place::{Place, is_possible};
use crate::support::Files;
use crate::support::client::Client;
use crate::support::name_server::NameServer;
use crate::support::server::Server;
use crate::support::tool::succeed;

const HOP: &str = include_str!("hop.py");

pub(super) const MESSAGE: &str = "From: Jo <jo@good.test>\r\nTo: al@here.test\r\nSubject:  two\r\n\tlines\r\n\
    MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n\
    Dear  reader,\r\n\r\n\u{e4} line \t\r\n..\r\n\r\n";

/// Runs the other hop.
pub(super) fn other(files: &Files, words: &[&str]) -> String {
    let dir = files.dir().display().to_string();
    succeed("/usr/bin/python3", &[&["-c", HOP, &dir], words].concat())
}

/// A server that seals as ours.test, whose key is the file `ours`.
pub(super) fn start(files: &Files, names: &NameServer) -> Server {
    start_with(files, names, "")
}

/// The same with more keys of the listener.
fn start_with(files: &Files, names: &NameServer, more: &str) -> Server {
    for name in ["ours", "theirs"] {
        let record = other(files, &["key", name]);
        names.txt(&format!("s._domainkey.{name}.test"), &[&record]);
    }
    let seal = format!(
        "seal = {{ domain = \"Ours.test\", selector = \"s\", key = \"{}\" }}\n{more}",
        files.path("ours").display()
    );
    let config = config(names, "spf = \"mark\", dkim = \"mark\", arc = \"mark\"");
    let marker = "arc = \"mark\" }\n";
    assert!(config.contains(marker), "{config}");
    Server::start(files, &config.replacen(marker, &format!("{marker}{seal}"), 1))
}

/// Passes the message on to a mailbox: it is then as it left.
pub(super) fn pass(files: &Files, server: &Server, to: &str, passed: &mut usize) -> String {
    let content = std::fs::read_to_string(files.path("message.eml")).unwrap();
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<jo@good.test>", "250");
    client.say(&format!("RCPT TO:<{to}@here.test>"), "250");
    client.say("DATA", "354");
    client.send(content.replace("\r\n.", "\r\n.."));
    client.say(".", "250");
    *passed += 1;
    let mut all = files.wait_maildir(&format!("mail/{to}"), *passed);
    // The one with the most seals.
    let sets = |message: &[u8]| String::from_utf8_lossy(message).matches("ARC-Seal:").count();
    all.sort_by_key(|message| sets(message));
    let message = String::from_utf8(all.pop().unwrap()).unwrap().replace('\n', "\r\n");
    // What a mailbox adds.
    let start = message.find("ARC-Seal:").expect("a seal");
    let message = message[start..].to_owned();
    std::fs::write(files.path("message.eml"), &message).unwrap();
    message
}

/// The event of the message that was passed on last.
fn sealed(files: &Files, passed: usize) -> (String, String) {
    let event = files.wait_events("received", passed).pop().unwrap();
    let word = |key: &str| event[key].as_str().unwrap_or("-").to_owned();
    (word("arc"), word("sealed"))
}

#[test]
fn chains_of_five_hops_made_by_dkimpy_and_by_us_in_turn() {
    let (files, names) = (Files::new(), NameServer::start());
    let server = start(&files, &names);
    let write = |content: &str| std::fs::write(files.path("message.eml"), content).unwrap();
    write(MESSAGE);
    let mut passed = 0;
    for hop in 1..=5 {
        match hop % 2 {
            1 => {
                let message = pass(&files, &server, "al", &mut passed);
                let says = if hop == 1 { "none" } else { "pass" };
                assert!(
                    message.starts_with(&format!("ARC-Seal: i={hop}; cv={says};")),
                    "{message}"
                );
                let results = format!("ARC-Authentication-Results: i={hop}; relay.test;");
                assert!(message.contains(&results), "{message}");
                assert_eq!(sealed(&files, passed), (says.to_owned(), says.to_owned()));
            }
            _ => _ = other(&files, &["seal", "theirs"]),
        }
        let said = other(&files, &["verify"]);
        assert!(said.starts_with("pass"), "hop {hop}: {said}");
    }
    // A renewed key is used without a reload.
    let record = other(&files, &["key", "ours"]);
    server
        .wait_console("signing", |line| line.contains("signing key ") && line.contains("reloaded"));
    names.txt("s._domainkey.ours.test", &[&record]);
    write(MESSAGE);
    let message = pass(&files, &server, "bo", &mut 0);
    assert!(message.starts_with("ARC-Seal: i=1; cv=none;"), "{message}");
    let said = other(&files, &["verify"]);
    assert!(said.starts_with("pass"), "{said}");
    server.stop();
}

#[test]
fn a_broken_chain_is_sealed_as_broken_and_then_left_alone() {
    let (files, names) = (Files::new(), NameServer::start());
    let server = start(&files, &names);
    std::fs::write(files.path("message.eml"), MESSAGE).unwrap();
    other(&files, &["seal", "theirs"]);
    let content = std::fs::read_to_string(files.path("message.eml")).unwrap();
    std::fs::write(files.path("message.eml"), content.replace("Dear", "Deer")).unwrap();
    let mut passed = 0;
    let message = pass(&files, &server, "al", &mut passed);
    assert!(message.starts_with("ARC-Seal: i=2; cv=fail;"), "{message}");
    assert_eq!(sealed(&files, 1), ("fail".to_owned(), "fail".to_owned()));
    assert!(other(&files, &["verify"]).starts_with("fail"));
    let message = pass(&files, &server, "al", &mut passed);
    assert_eq!(message.matches("ARC-Seal:").count(), 2, "{message}");
    assert_eq!(sealed(&files, 2), ("fail".to_owned(), "-".to_owned()));
    server.stop();
}

/// What leaves is sealed, not what came: a milter may have changed it meanwhile.
#[test]
fn a_seal_covers_what_a_milter_made_of_the_message() {
    if !is_possible(&["python3-milter"]) {
        return;
    }
    let (files, names, mut place) = (Files::new(), NameServer::start(), Place::new(0));
    let socket = start_filter(&mut place);
    let milters = format!("milters = [{{ address = \"unix:{socket}\" }}]\n");
    let server = start_with(&files, &names, &milters);
    // In memory, and on disk.
    for (to, orders, body) in [
        ("al", "add change body", "another body\r\n"),
        ("bo", "remove change large", "0123456789abcde\r\n0123456789abcde\r\n"),
    ] {
        let content = MESSAGE.replace("Subject:  two\r\n\tlines", &format!("Subject: {orders}"));
        std::fs::write(files.path("message.eml"), &content).unwrap();
        let message = pass(&files, &server, to, &mut 0);
        assert!(message.starts_with("ARC-Seal: i=1; cv=none;"), "{message:.2000}");
        assert!(message.contains("\r\nTo: somebody else\r\n"), "{message:.2000}");
        assert!(message.contains(body) && !message.contains("Dear"), "{message:.2000}");
        let said = other(&files, &["verify"]);
        assert!(said.starts_with("pass"), "{orders}: {said}");
        // As it came it would not be the one that was sealed.
        let (head, _) = message.split_once("\r\n\r\n").unwrap();
        let (_, came) = content.split_once("\r\n\r\n").unwrap();
        std::fs::write(files.path("message.eml"), format!("{head}\r\n\r\n{came}")).unwrap();
        assert!(other(&files, &["verify"]).starts_with("fail"));
    }
    server.stop();
}
