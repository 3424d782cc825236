//! Strangers that lists in the DNS have, or whose senders nobody could answer.

use super::listeners::config;
use crate::support::Files;
use crate::support::client::Client;
use crate::support::name_server::{Fault, NameServer};
use crate::support::server::Server;
use std::net::IpAddr;
use std::time::{Duration, Instant};

fn connect(server: &Server, from: [u8; 4]) -> Client {
    let mut client = Client::from(IpAddr::from(from), server.address());
    client.expect("220");
    client.say("EHLO client.test", "250");
    client
}

#[test]
fn lists_are_asked_about_clients_before_their_message() {
    let (files, names) = (Files::new(), NameServer::start());
    for last in [7, 8] {
        names.host(&format!("{last}.0.0.127.zen.test"), &["127.0.0.4"]);
    }
    let why = format!("https://zen.test/query {}", "x".repeat(10_000));
    names.txt("7.0.0.127.zen.test", &[&why]);
    names.host("8.0.0.127.ok.test", &["127.0.5.1"]);
    for last in [7, 8, 9] {
        names.fault(&format!("{last}.0.0.127.silent.test"), Fault::Silent);
    }
    let checks = "dnsbl = { lists = [\"zen.test=127.0.0.[2..11]\", \"silent.test\", \
                  \"ok.test=127.0.[0..255].[1..3]*-2\"], timeout = \"1s\" }";
    let server = Server::start(&files, &config(&names, checks));
    let begun = Instant::now();
    let mut client = connect(&server, [127, 0, 0, 7]);
    client.say("MAIL FROM:<jo@far.test>", "250");
    let listed = "550 5.7.1 [127.0.0.7] is listed by zen.test: https://zen.test/query xxx";
    let said = client.say("RCPT TO:<al@here.test>", listed);
    assert!(said.len() < 300, "{said}");
    client.say("RCPT TO:<postmaster@here.test>", listed);
    client.say("RCPT TO:<postmaster>", "250");
    client.say("QUIT", "221");
    // zen.test lists it, ok.test speaks for it and silent.test says nothing.
    for (last, zones) in [(8, 1), (9, 0)] {
        let mut client = connect(&server, [127, 0, 0, last]);
        client.mail("jo@far.test", &["al@here.test"], "Subject: x\r\n\r\nbody\r\n");
        let messages = files.wait_maildir("mail/al", usize::from(last) - 7);
        let of_client = |message: &&Vec<u8>| {
            let text = String::from_utf8_lossy(message).into_owned();
            text.contains(&format!("[127.0.0.{last}])"))
        };
        let message = messages.iter().find(of_client).expect("a message of this client");
        let message = String::from_utf8_lossy(message).into_owned();
        assert_eq!(
            message.matches("X-RBL-Warning: [127.0.0.8] is listed by zen.test").count(),
            zones
        );
        assert_eq!(
            message.matches("dnswl=pass dns.zone=ok.test policy.ip=127.0.5.1").count(),
            zones
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let verdicts: Vec<_> =
        files.wait_events("received", 2).into_iter().map(|event| event["dnsbl"].clone()).collect();
    assert_eq!(verdicts, ["allowed", "none"]);
    server.wait_console("the silent list", |line| {
        line.contains("silent.test: lookup failed: timeout; list ignored")
    });
    server.stop();
}

#[test]
fn senders_are_those_that_could_be_answered_and_none_of_us() {
    let (files, names) = (Files::new(), NameServer::start());
    names.mx("far.test", &[(10, "mx.far.test")]);
    names.mx("null.test", &[(0, ".")]);
    names.host("old.test", &["192.0.2.1"]);
    names.fault("broken.test", Fault::Fails);
    let checks = "sender_domain = \"reject\", own_domains = \"reject\"";
    let server = Server::start(&files, &config(&names, checks));
    for (sender, reply) in [
        ("jo@far.test", "250"),
        ("jo@old.test", "250"),
        ("", "250"),
        ("jo@null.test", "550 5.7.27"),
        ("jo@nowhere.test", "550 5.1.8"),
        ("jo@broken.test", "450 4.4.3"),
        ("boss@here.test", "550 5.7.1"),
    ] {
        let mut client = connect(&server, [127, 0, 0, 1]);
        client.say(&format!("MAIL FROM:<{sender}>"), "250");
        client.say("RCPT TO:<al@here.test>", reply);
    }
    server.stop();
}
