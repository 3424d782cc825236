//! `[log] format = "postfix"`: programs that read Postfix's log read ours.

use crate::interop::place::{Place, is_possible};
use crate::support::client::Client;
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::{Files, config_with, wait_until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Mail that is relayed, deferred and bounced, by the recipient's name.
const ROUTES: &str = "[log]\nformat = \"postfix\"\n\
     [retry]\nfirst = \"1h\"\nlongest = \"1h\"\n\
     [[table]]\nname = \"users\"\n[table.inline]\n\"sender@here.test\" = \"\"\n\
     [[route]]\ndomains = [\"here.test\"]\nrecipients = { table = \"users\" }\nmaildir = { path = \"mail/{local}\" }\n";

fn start(files: &Files) -> (Server, Peer) {
    let peer = Peer::start(|line| {
        let reply = |name: &str, reply: &str| {
            (line.starts_with("RCPT") && line.contains(name)).then(|| reply.to_owned())
        };
        reply("<later", "450 4.2.0 Greylisted")
            .or_else(|| reply("<never", "550 5.1.1 No such user"))
    });
    let hop = &peer.address;
    let text = format!("{ROUTES}[[route]]\nsmtp = {{ hosts = [\"{hop}\"] }}\n");
    let server = Server::start(files, &config_with("", "relay_from = [\"127.0.0.1\"]", &text));
    (server, peer)
}

/// The sums of pflogsumm's first section by name.
fn sums(place: &Place, log: &str) -> BTreeMap<String, u64> {
    place.write("log", log);
    let path = place.path("log").display().to_string();
    let output =
        place.command("pflogsumm", &["pflogsumm", &path]).output().expect("a script of ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    // `     20   delivered`, `      4   deferred  (4 deferrals)`
    let line = |line: &str| {
        let (number, rest) = line.trim_start().split_once(' ')?;
        // `rejected (20%)`
        let name = rest.trim_start().split(['(', '\u{20}']).next()?;
        Some((name.trim_end().to_owned(), number.parse().ok()?))
    };
    text.lines().take_while(|line| !line.starts_with("Per-Hour")).filter_map(line).collect()
}

#[test]
fn pflogsumm_counts_what_the_events_count() {
    if !is_possible(&["pflogsumm"]) {
        return;
    }
    let files = Files::new();
    let (server, _peer) = start(&files);
    let mut client = Client::connect(server.address());
    for n in 0..20 {
        let to = format!("ok{n}@far.test");
        client.mail(
            "sender@here.test",
            &[&to],
            &format!("Message-ID: <{n}@here.test>\r\n\r\nx\r\n"),
        );
    }
    for n in 0..5 {
        let (ok, later) = (format!("ok-{n}@far.test"), format!("later{n}@far.test"));
        client.mail("sender@here.test", &[&ok, &later], "\r\nx\r\n");
    }
    for n in 0..3 {
        client.mail("sender@here.test", &[&format!("never{n}@far.test")], "\r\nx\r\n");
    }
    client.say("MAIL FROM:<sender@here.test>", "250");
    for n in 0..7 {
        client.say(&format!("RCPT TO:<nobody{n}@here.test>"), "550 5.1.1");
    }
    files.wait_events("relayed", 25);
    // Three DSNs.
    files.wait_events("delivered", 3);
    files.wait_events("deferred", 5);
    let count = |name: &str| files.wait_events(name, 0).len() as u64;
    let (received, refused) = (count("received"), count("refused"));
    let delivered = count("relayed") + count("delivered");
    let (deferred, failed) = (count("deferred"), count("failed"));
    server.wait_console("the last refusal", |line| line.contains("nobody6@here.test"));
    // All but those with a deferred recipient.
    let removed = || server.console().iter().filter(|line| line.ends_with(": removed")).count();
    wait_until("26 removed messages", || removed() >= 26);
    let place = Place::new(0);
    let log = server.console().join("\n") + "\n";
    let sums = sums(&place, &log);
    let seen =
        |name: &str| sums.get(name).copied().unwrap_or_else(|| panic!("{name}: {sums:?}\n{log}"));
    let all = ["received", "delivered", "deferred", "bounced", "rejected"].map(seen);
    assert_eq!(all, [received, delivered, deferred, failed, refused], "{log}");
    assert_eq!(all, [28, 28, 5, 3, 7], "{log}");
    assert!(log.contains(": message-id=<7@here.test>"), "{log}");
    // Queue ids lead to the message.
    let line = log.lines().find(|line| line.contains("to=<later0@far.test>")).expect("a line");
    assert!(line.contains("dsn=4.2.0, status=deferred (host "), "{line}");
    assert!(line.contains(" said: 450 4.2.0 Greylisted (in reply to RCPT TO command))"), "{line}");
    let id = line.split(": ").nth(1).expect("a queue id");
    let shown = server.command(&["trace", id]);
    assert!(shown.code == 0 && shown.out.contains("later0@far.test"), "{shown:?}");
    server.stop();
}

#[test]
fn fail2bans_filter_for_postfix_finds_attackers_and_nobody_whom_they_name() {
    if !is_possible(&["fail2ban"]) {
        return;
    }
    let files = Files::new();
    let (server, _peer) = start(&files);
    // Guesses users, with names of others in all that it may choose.
    let mut guesser = Client::from(IpAddr::from([127, 0, 0, 2]), server.address());
    guesser.expect("220");
    guesser.say("EHLO [9.9.9.9]", "250");
    guesser.say("MAIL FROM:<\"from x[9.9.9.9]: 554 5.7.1\"@far.test>", "250");
    guesser.say("RCPT TO:<\"a from unknown[9.9.9.9]: 554 5.7.1 x\"@here.test>", "550 5.1.1");
    guesser.say("RCPT TO:<nobody@here.test>", "550 5.1.1");
    // Wants to relay.
    let mut relayer = Client::from(IpAddr::from([127, 0, 0, 3]), server.address());
    relayer.expect("220");
    relayer.say("EHLO relayer.test", "250");
    relayer.say("MAIL FROM:<a@far.test>", "250");
    relayer.say("RCPT TO:<b@elsewhere.test>", "550 5.7.1");
    let events = files.wait_events("refused", 3);
    let refused = |event: &Value| event["client"].as_str().expect("a client").to_owned();
    let mut attackers: Vec<String> = events.iter().map(refused).collect();
    attackers.sort();
    server.wait_console("the last refusal", |line| line.contains("elsewhere.test"));
    let log = server.console().join("\n") + "\n";
    let place = Place::new(0);
    place.write("log", &log);
    let path = place.path("log").display().to_string();
    let words = ["fail2ban-regex", "--out", "ip", &path, "postfix[mode=aggressive]"];
    let output = place.command("fail2ban", &words).output().expect("a script of ours");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut found: Vec<&str> = text.lines().collect();
    found.sort_unstable();
    assert_eq!(found, attackers, "{}\n{log}", String::from_utf8_lossy(&output.stderr));
    server.stop();
}
