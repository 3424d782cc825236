//! What a client may take of the server, and the account of what it was refused.

use crate::support::client::Client;
use crate::support::http::{get, metric};
use crate::support::server::Server;
use crate::support::{Files, config_with, wait_until};
use serde_json::Value;

const ROUTES: &str = "[admin]\naddress = \"127.0.0.1:0\"\n\
     [[route]]\ndomains = [\"far.test\"]\nmaildir = { path = \"mail/{local}\" }\n\
     [[route]]\nsmtp = { hosts = [\"127.0.0.1:9\"] }\n";

fn admin(server: &Server) -> String {
    let line = server.wait_console("admin", |line| line.contains("metrics and health on "));
    line.rsplit(' ').next().expect("an address").to_owned()
}

#[test]
fn every_refusal_is_an_event_and_counted() {
    let files = Files::new();
    let listener = "max_message_bytes = 65536\nmax_recipients = 100";
    let server = Server::start(&files, &config_with("", listener, ROUTES));
    let admin = admin(&server);
    let mut client = Client::connect(server.address());
    for (command, answer) in [
        ("FOO", "500 5.5.2"),
        ("MAIL FROM:<a@@source.test>", "501 5.1.7"),
        ("MAIL FROM:<a@source.test> SIZE=65537", "552 5.3.4"),
        ("MAIL FROM:<a@source.test>", "250"),
        ("RCPT TO:<b@>", "501 5.1.3"),
        ("RCPT TO:<b@elsewhere.test>", "550 5.7.1"),
        ("RCPT TO:<b@far.test>", "250"),
        ("DATA now", "501 5.5.4"),
        ("DATA", "354"),
        ("bare\n.", "550 5.6.0"),
        ("MAIL FROM:<>", "250"),
        ("RCPT TO:<c@far.test>", "250"),
        ("DATA", "354"),
    ] {
        if command.starts_with("bare") {
            client.send("bare\nnewline\r\n.\r\n");
            client.expect(answer);
        } else {
            client.say(command, answer);
        }
    }
    client.send("Received: x\r\n".repeat(101));
    client.say("\r\n.", "554 5.4.6");
    client.say("Host: relay.test", "421 4.7.0");
    let refused = files.wait_events("refused", 9);
    let fields = |event: &Value| {
        let text = |name: &str| event[name].as_str().map_or("-".to_owned(), str::to_owned);
        let of = ["step", "status", "sender", "recipient"].map(text);
        assert_eq!(text("helo"), "client.test", "{event}");
        assert_eq!(text("protocol"), "ESMTP", "{event}");
        of.join(" ")
    };
    assert_eq!(
        refused.iter().map(fields).collect::<Vec<_>>(),
        [
            "command 5.5.2 - -",
            "MAIL 5.1.7 a@@source.test -",
            "MAIL 5.3.4 a@source.test -",
            "RCPT 5.1.3 a@source.test b@",
            "RCPT 5.7.1 a@source.test b@elsewhere.test",
            "DATA 5.5.4 a@source.test b@far.test",
            "content 5.6.0 a@source.test b@far.test",
            "content 5.4.6  c@far.test",
            "command 4.7.0 - -",
        ]
    );
    let metrics = get(&admin, "/metrics");
    assert_eq!(metric(&metrics, "postrider_refused_total"), 9, "{metrics}");
    for (reason, count) in
        [("protocol", 4), ("size", 1), ("content", 2), ("policy", 1), ("limit", 1)]
    {
        let line = format!("postrider_refused_total{{reason=\"{reason}\"}} {count}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    server.stop();
}

#[test]
fn recipients_draw_on_body_memory() {
    let files = Files::new();
    let listener = "relay_from = [\"127.0.0.0/8\"]\nmax_recipients = 50000";
    let text = config_with("body_memory_bytes = \"1MiB\"", listener, ROUTES);
    let server = Server::start(&files, &text);
    let mut client = Client::connect(server.address());
    client.say("MAIL FROM:<a@source.test>", "250");
    let orcpt = "x".repeat(400);
    let rcpt = |n: usize| format!("RCPT TO:<{n}@far.test> ORCPT=rfc822;{orcpt}");
    let mut accepted = 0;
    loop {
        client.send(format!("{}\r\n", rcpt(accepted)));
        let reply = client.reply();
        if !reply.starts_with("250") {
            assert!(reply.starts_with("452 4.3.1"), "{reply}");
            break;
        }
        accepted += 1;
        assert!(accepted < 5_000, "an envelope without limit");
    }
    assert!(accepted > 1_000, "{accepted} fit into 1 MiB");
    // What it held is there for the next one.
    client.say("RSET", "250");
    client.say("MAIL FROM:<a@source.test>", "250");
    client.say(&rcpt(0), "250");
    server.stop();
}

#[test]
fn who_stalls_gives_its_memory_to_others() {
    let files = Files::new();
    let text = config_with("body_memory_bytes = \"1MiB\"", "relay_from = []", ROUTES);
    let server = Server::start(&files, &text);
    let admin = admin(&server);
    let spilled = || metric(&get(&admin, "/metrics"), "postrider_body_spills_total");
    let mut stalled = Client::connect(server.address());
    stalled.say("MAIL FROM:<a@source.test>", "250");
    stalled.say("RCPT TO:<b@far.test>", "250");
    stalled.say("DATA", "354");
    let body = format!("{}\r\n", "x".repeat(998)).repeat(600);
    stalled.send(&body);
    wait_until("what stalls goes to disk", || spilled() == 1);
    stalled.send("end\r\n.\r\n");
    stalled.expect("250 2.0.0");
    let [message] = &files.wait_maildir("mail/b", 1)[..] else { unreachable!() };
    let body = body.replace("\r\n", "\n");
    assert!(message.ends_with(format!("{body}end\n").as_bytes()));
    server.stop();
}

#[test]
fn the_last_word_reaches_a_client_that_still_sends() {
    let files = Files::new();
    let server = Server::start(&files, &config_with("", "max_errors = 3", ROUTES));
    let mut client = Client::connect(server.address());
    client.send("FOO\r\n".repeat(40_000));
    assert!(client.rest().lines().last().is_some_and(|line| line.starts_with("421 4.7.0")));
    server.stop();
}

/// What is checked of a message is kept until its end, and is not on the disk.
#[test]
fn headers_that_are_kept_for_checks_draw_on_body_memory() {
    let files = Files::new();
    let listener = "relay_from = []\nchecks = { dkim = \"mark\" }";
    let text = config_with("body_memory_bytes = \"1MiB\"", listener, ROUTES);
    let server = Server::start(&files, &text);
    let header = format!("X-A: {}\r\n", "x".repeat(993)).repeat(126);
    let begin = || {
        let mut client = Client::connect(server.address());
        client.say("MAIL FROM:<a@source.test>", "250");
        client.say("RCPT TO:<b@far.test>", "250");
        client.say("DATA", "354");
        client.send(&header);
        client
    };
    // Of those that were refused, the connection is closed.
    let finish = |mut client: Client| {
        if client.try_send("\r\nbody\r\n.\r\n") { client.reply() } else { String::new() }
    };
    // At least 108 KiB of each are beyond what is free for everybody: nine fit, without their bodies.
    let open: Vec<Client> = (0..12).map(|_| begin()).collect();
    let refused = files.wait_events("refused", 3);
    assert!(refused.iter().all(|event| event["status"] == "4.3.1"), "{refused:?}");
    let taken = open.into_iter().map(finish).filter(|reply| reply.starts_with("250")).count();
    assert!((1..=9).contains(&taken), "{taken} of 12");
    // What they held is there for the next one.
    assert!(finish(begin()).starts_with("250"));
    server.stop();
}
