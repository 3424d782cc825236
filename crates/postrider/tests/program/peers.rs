//! The server before clients of others, and clients that behave badly.

use crate::support::client::{Client, queued_id};
use crate::support::foreign::{Foreign, build_go, is_installed};
use crate::support::peer::Peer;
use crate::support::server::Server;
use crate::support::tool::{python, run, succeed};
use crate::support::{Files, config, config_with, wait_until};
use smtp::testing::escape::unescape;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAILDIR: &str = "[[route]]\nmaildir = { path = \"mail/{domain}/{local}\" }";

/// Lines of a message, decoded as UTF-8.
fn text(message: &[u8]) -> String {
    String::from_utf8(message.to_vec()).expect("text")
}

#[test]
fn swaks_basic_eight_bit_large_and_pipelined() {
    let files = Files::new();
    let server = Server::start(&files, &config(MAILDIR));
    let to = server.to();
    let lines = "A line of a large message, and nothing else.\n".repeat(40_000);
    let large = files.write("large.txt", &lines).display().to_string();
    let cases: [(&str, &[&str]); 4] = [
        ("basic", &["--body", "Plain words.\n.\n..dots\n"]),
        ("eight", &["--body", "Grüße, 世界\n"]),
        ("large", &["--body", &format!("@{large}")]),
        ("pipe", &["--pipeline", "--body", "Pipelined.\n"]),
    ];
    for (name, words) in cases {
        let rcpt = format!("{name}@box.test");
        let all = ["--server", &to, "--from", "me@source.test", "--to", &rcpt, "--helo", "swaks"];
        succeed("swaks", &[&all[..], words].concat());
    }
    let body = |name: &str| {
        let messages = files.wait_maildir(&format!("mail/box.test/{name}"), 1);
        let message = text(&messages[0]);
        message.split_once("\n\n").expect("a header").1.to_owned()
    };
    assert!(body("basic").starts_with("Plain words.\n.\n..dots\n"));
    assert!(body("eight").starts_with("Grüße, 世界\n"));
    assert!(body("large").starts_with(&lines));
    assert!(body("pipe").starts_with("Pipelined.\n"));
    server.stop();
}

#[test]
fn swaks_is_told_that_relaying_is_denied() {
    let files = Files::new();
    let peer = Peer::start(|_| None);
    let routes = format!(
        "[[route]]\ndomains = [\"ours.test\"]\ndiscard = {{}}\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}",
        peer.address
    );
    let server = Server::start(&files, &config_with("", "relay_from = []", &routes));
    let to = server.to();
    let words = ["--server", &to, "--from", "me@source.test", "--to", "you@far.test"];
    let output = run("swaks", &words);
    // swaks: 24 means that no recipient was accepted.
    assert_eq!(output.status.code(), Some(24));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("550 5.7.1"), "{said}");
    // Ours and the postmaster are taken from anybody.
    succeed("swaks", &["--server", &to, "--from", "<>", "--to", "you@ours.test"]);
    let mut client = Client::connect(server.address());
    client.mail("", &["postmaster"], "Subject: help\r\n\r\n");
    wait_until("the refusal's event", || {
        files.events_of("refused").iter().any(|event| event["recipient"] == "you@far.test")
    });
    assert_eq!(peer.taken(), []);
    server.stop();
}

const SMTPLIB: &str = r#"
import json, smtplib, sys
from email.message import EmailMessage
host, port = sys.argv[1].split(":")
with smtplib.SMTP(host, int(port)) as smtp:
    smtp.ehlo("python.test")
    features = smtp.esmtp_features
    refused = smtp.sendmail("me@source.test", ["a@box.test", "b@box.test", "c@box.test"],
                            "Subject: several\n\n.one\n..two\n.\nend\n")
    message = EmailMessage()
    message["From"] = "ich@bücher.test"
    message["To"] = "grüße@box.test"
    message["Subject"] = "Grüße"
    message.set_content("Schöne Grüße\n")
    refused |= smtp.send_message(message)
    vrfy = smtp.verify("a@box.test")[0]
    size = smtp.docmd("MAIL FROM:<me@source.test> SIZE=99999999999")[0]
    noop = smtp.noop()[0]
print(json.dumps({"features": features, "refused": refused, "vrfy": vrfy, "size": size,
                  "noop": noop}))
"#;

#[test]
fn pythons_smtplib() {
    let files = Files::new();
    let server = Server::start(&files, &config(MAILDIR));
    let told: serde_json::Value =
        serde_json::from_str(&python(SMTPLIB, &[&server.to()])).expect("JSON");
    let features = told["features"].as_object().expect("a map");
    for name in
        ["pipelining", "8bitmime", "smtputf8", "chunking", "enhancedstatuscodes", "dsn", "size"]
    {
        assert!(features.contains_key(name), "{name}: {told}");
    }
    assert_eq!(features["size"], "52428800");
    assert!(!features.contains_key("binarymime"), "{told}");
    assert!(!features.contains_key("starttls"), "{told}");
    assert_eq!(told["refused"], serde_json::json!({}));
    assert_eq!(
        (&told["vrfy"], &told["size"], &told["noop"]),
        (&252.into(), &552.into(), &250.into())
    );
    for name in ["a", "b", "c"] {
        let messages = files.wait_maildir(&format!("mail/box.test/{name}"), 1);
        let message = text(&messages[0]);
        assert!(message.ends_with("Subject: several\n\n.one\n..two\n.\nend\n"));
    }
    let messages = files.wait_maildir("mail/box.test/grüße", 1);
    let message = text(&messages[0]);
    assert!(message.contains("with UTF8SMTP"), "{message}");
    assert!(message.contains("To: grüße@box.test"), "{message}");
    server.stop();
}

#[test]
fn limits_and_old_clients() {
    let files = Files::new();
    let listener = "max_sessions_per_address = 2\nmax_message_bytes = 65536\nmax_errors = 10";
    let server = Server::start(&files, &config_with("", listener, MAILDIR));
    let mut first = Client::raw(server.address());
    first.expect("220 relay.test ESMTP");
    // HELO: no extensions, and it works.
    assert_eq!(first.say("HELO old.test", "250"), "250 relay.test");
    first.mail("", &["old@box.test"], "Subject: old\r\n\r\n");
    // SIZE, declared and not declared.
    let mut second = Client::connect(server.address());
    second.say("MAIL FROM:<a@source.test> SIZE=65537", "552 5.3.4");
    second.say("MAIL FROM:<a@source.test> SIZE=65536", "250");
    second.say("RCPT TO:<b@box.test>", "250");
    second.say("DATA", "354");
    second.send("0123456789\r\n".repeat(6_000));
    second.say(".", "552 5.3.4");
    second.say("MAIL FROM:<a@source.test> BODY=BINARYMIME", "555 5.5.4");
    second.mail("a@source.test", &["b@box.test"], "Subject: fits\r\n\r\n");
    // A third session from this address is one too many, until one ends.
    let mut third = Client::raw(server.address());
    third.expect("421 4.7.0");
    assert_eq!(third.rest(), "");
    first.say("QUIT", "221");
    assert_eq!(first.rest(), "");
    wait_until("room for another session", || {
        Client::raw(server.address()).reply().starts_with("220")
    });
    // Who only makes mistakes is sent away.
    second.say("FROBNICATE", "500 5.5.");
    second.send("FROBNICATE\r\n".repeat(10));
    assert!(second.rest().contains("421 4.7.0"));
    let old = text(&files.wait_maildir("mail/box.test/old", 1)[0]);
    assert!(old.contains("with SMTP") && old.contains("Return-Path: <>"), "{old}");
    files.wait_maildir("mail/box.test/b", 1);
    server.stop();
}

/// A CR or LF that stands alone.
fn has_bare_newline(content: &[u8]) -> bool {
    let rest = String::from_utf8_lossy(content).replace("\r\n", "");
    rest.contains(['\r', '\n'])
}

#[test]
fn one_body_never_becomes_two_messages() {
    let corpus = include_str!("../../../smtp/tests/smuggling/sequences.txt");
    let wires: Vec<_> =
        corpus.lines().filter_map(|line| line.strip_prefix("wire ")).map(unescape).collect();
    assert!(wires.len() >= 30, "{} sequences", wires.len());
    for mode in ["reject", "normalize"] {
        let files = Files::new();
        let peer = Peer::start(|_| None);
        let text = config_with(
            "",
            &format!(
                "relay_from = [\"127.0.0.0/8\"]\nmax_errors = 10000\nbare_newline = \"{mode}\"\nnul = \"strip\""
            ),
            &format!(
                "[[route]]\nsmtp = {{ hosts = [\"{}\"], eight_bit = \"as_is\" }}",
                peer.address
            ),
        );
        let server = Server::start(&files, &text);
        let mut client = Client::connect(server.address());
        let mut accepted = 0;
        for (wire, chunked) in wires.iter().flat_map(|wire| [(wire, false), (wire, true)]) {
            client.say("MAIL FROM:<honest@source.test>", "250");
            client.say("RCPT TO:<you@far.test>", "250");
            if chunked {
                client.send(format!("BDAT {} LAST\r\n", wire.len()));
                client.send(wire);
            } else {
                client.say("DATA", "354");
                client.send([wire, &b"\r\n.\r\n"[..]].concat());
            }
            // One reply for the content, and then the server is in step with us.
            let reply = client.reply();
            match reply.get(..3) {
                Some("250") => {
                    queued_id(&reply);
                    accepted += 1;
                }
                _ => assert!(reply.starts_with("550 5.6.0"), "{reply}"),
            }
            client.say("NOOP", "250");
        }
        assert!(accepted > 0 && (mode == "reject" || accepted == 2 * wires.len()), "{accepted}");
        let taken = peer.wait_taken(accepted);
        for message in &taken {
            assert!(message.mail.starts_with("MAIL FROM:<honest@source.test>"), "{message:?}");
            assert_eq!(message.rcpt, ["RCPT TO:<you@far.test>"]);
            // Nothing that a more liberal next hop could take for an end.
            assert!(!has_bare_newline(&message.content), "{message:?}");
        }
        wait_until("an empty queue", || server.queue().is_empty());
        assert_eq!(files.wait_events("received", accepted).len(), accepted);
        server.stop();
    }
}

/// A message that is also a dialogue: what a server reads that refuses the content without
/// discarding it.
const DIALOGUE: &str = "MAIL FROM:<ceo@bank.test>\r\nRCPT TO:<victim@far.test>\r\nDATA\r\n\
    From: ceo@bank.test\r\nSubject: smuggled\r\n\r\npay now\r\n..\r\nQUIT\r\n";

/// Sends the dialogue from a sender and to a recipient of whom one is refused, and waits for the
/// refusal.
fn send_dialogues(files: &Files, server: &Server) {
    let mut client = Client::connect(server.address());
    client.mail("attacker@source.test", &["refused@far.test NOTIFY=NEVER"], DIALOGUE);
    client.mail("refused@source.test", &["you@far.test NOTIFY=NEVER"], DIALOGUE);
    for failed in files.wait_events("failed", 2) {
        assert!(failed["reply"].as_str().is_some_and(|text| text.starts_with("550")), "{failed}");
    }
}

#[test]
fn a_peer_that_refuses_everybody_sees_nothing_of_the_content() {
    for features in ["250-PIPELINING\r\n250 CHUNKING", "250 PIPELINING", "250 CHUNKING"] {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&lines);
        // It takes whatever comes for a command: it discards no chunk.
        let peer = Peer::start_at("127.0.0.1:0", features, move |line| {
            seen.lock().expect("no panic").push(line.to_owned());
            let has_mail = || {
                let seen = seen.lock().expect("no panic");
                seen.iter().rfind(|line| line.starts_with("MAIL")).cloned().unwrap_or_default()
            };
            match line.split([':', ' ']).next() {
                _ if line.contains("<refused@") => Some("550 5.1.1 Refused".to_owned()),
                Some("RCPT") if has_mail().contains("<refused@") => Some("503 No".to_owned()),
                Some("DATA") => Some("503 5.5.1 No".to_owned()),
                _ => None,
            }
        });
        let files = Files::new();
        let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}", peer.address);
        let server = Server::start(&files, &config(&route));
        send_dialogues(&files, &server);
        server.stop();
        let lines = lines.lock().expect("no panic");
        let known = ["EHLO", "MAIL", "RCPT", "DATA", "RSET", "QUIT"];
        let strange = lines.iter().find(|line| {
            !line.is_empty() && !known.contains(&line.split(' ').next().unwrap_or_default())
        });
        assert_eq!(strange, None, "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains("bank.test")), "{lines:#?}");
        assert_eq!(peer.taken(), []);
    }
}

#[test]
fn go_smtp_is_not_smuggled_into() {
    if !is_installed("go") {
        return;
    }
    let files = Files::new();
    let program = build_go(&files, "go-smtp");
    // The last one shows that the trap works: content before a recipient is accepted is what a
    // next hop like this must not be given. It reads the content as commands then; its fourth line
    // that is none ends the session, before the dialogue behind our Received field begins.
    for (keys, is_read_as_commands) in
        [("", false), ("chunking = false", false), ("unasked_content = true", true)]
    {
        let hop = Foreign::start(Command::new(&program));
        let files = Files::new();
        let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"], {keys} }}", hop.address);
        let server = Server::start(&files, &config(&route));
        send_dialogues(&files, &server);
        // It hears all that was sent before this one, on whatever connection.
        Client::connect(server.address()).mail("a@source.test", &["b@far.test"], "x: y\r\n\r\n");
        files.wait_events("relayed", 1);
        server.stop();
        let wire = hop.events_of("wire");
        let pieces = wire.iter().filter_map(|piece| piece["content"].as_str());
        // Replies to lines that are no commands.
        let strange = pieces.filter(|piece| piece.starts_with("500 ") || piece.starts_with("501 "));
        assert_eq!(strange.count() > 0, is_read_as_commands, "{keys}: {wire:#?}");
        let messages = hop.events_of("message");
        assert_eq!(messages.len(), 1, "{keys}: {messages:#?}");
    }
}

#[test]
fn a_peer_that_does_not_know_bdat_gets_data() {
    let files = Files::new();
    let features = "250-PIPELINING\r\n250-8BITMIME\r\n250 CHUNKING";
    let peer = Peer::start_at("127.0.0.1:0", features, |line| {
        // One that passes on what the server behind it offers.
        let is_known = ["", ".", "EHLO", "MAIL", "RCPT", "DATA", "RSET", "QUIT"];
        let verb = line.split(' ').next().unwrap_or_default();
        (!is_known.contains(&verb)).then(|| "502 5.5.1 Command not implemented".to_owned())
    });
    let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}", peer.address);
    let server = Server::start(&files, &config(&route));
    let mut client = Client::connect(server.address());
    client.mail("a@source.test", &["b@far.test", "c@far.test"], "Subject: x\r\n\r\nx\r\n");
    assert_eq!(peer.wait_taken(1)[0].rcpt.len(), 2);
    client.mail("a@source.test", &["d@far.test"], "Subject: y\r\n\r\ny\r\n");
    peer.wait_taken(2);
    files.wait_events("relayed", 3);
    assert_eq!((files.events_of("deferred").len(), files.events_of("failed").len()), (0, 0));
    server.stop();
}

#[test]
fn recipients_too_many_go_in_the_next_transaction() {
    for features in
        ["250 8BITMIME", "250 LIMITS RCPTMAX=3 MAILMAX=2", "250-PIPELINING\r\n250 CHUNKING"]
    {
        let files = Files::new();
        let counts = Arc::new(Mutex::new((0, 0)));
        let seen = Arc::clone(&counts);
        let has_limits = features.contains("LIMITS");
        let peer = Peer::start_at("127.0.0.1:0", features, move |line| {
            let mut counts = seen.lock().expect("no panic");
            match line.get(..4) {
                Some("MAIL") => counts.0 = 0,
                Some("RCPT") => counts.0 += 1,
                _ => return line.starts_with("BDAT").then(|| "502 5.5.1 No".to_owned()),
            }
            (counts.0 > 3).then(|| {
                counts.1 += 1;
                "452 4.5.3 Too many recipients".to_owned()
            })
        });
        let keys = "recipients_per_message = 20, max_connections = 1";
        let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"], {keys} }}", peer.address);
        let server = Server::start(&files, &config(&route));
        let names: Vec<String> = (0..10).map(|n| format!("u{n}@far.test")).collect();
        let to: Vec<&str> = names.iter().map(String::as_str).collect();
        Client::connect(server.address()).mail("a@source.test", &to, "Subject: x\r\n\r\nx\r\n");
        files.wait_events("relayed", 10);
        let taken = peer.wait_taken(4);
        assert!(taken.iter().all(|message| message.rcpt.len() <= 3), "{taken:#?}");
        assert_eq!(files.events_of("deferred").len(), 0);
        // After the first transaction the limit is known; before it only where it is told.
        let refused = counts.lock().expect("no panic").1;
        assert!(if has_limits { refused == 0 } else { (7..=14).contains(&refused) }, "{refused}");
        server.stop();
    }
}

#[test]
fn a_peer_that_drips_is_left() {
    let files = Files::new();
    let peer = Peer::start(|line| {
        if line.starts_with("RCPT") {
            std::thread::sleep(Duration::from_millis(400));
        }
        None
    });
    let keys = "command_timeout = \"1s\", transaction_timeout = \"1s\"";
    let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"], {keys} }}", peer.address);
    let server = Server::start(&files, &config(&route));
    let names: Vec<String> = (0..10).map(|n| format!("u{n}@far.test")).collect();
    let to: Vec<&str> = names.iter().map(String::as_str).collect();
    Client::connect(server.address()).mail("a@source.test", &to, "Subject: x\r\n\r\nx\r\n");
    let deferred = files.wait_events("deferred", 10);
    let why = deferred[0].to_string();
    assert!(why.contains("transaction timed out"), "{why}");
    assert_eq!(peer.taken(), []);
    server.stop();
}

/// Decodes a message and prints its leaves.
const DECODE: &str = r#"
import email, email.policy, json, sys
message = email.message_from_bytes(open(sys.argv[1], "rb").read(), policy=email.policy.SMTP)
leaves = [part.get_payload(decode=True).decode("utf-8") for part in message.walk()
          if not part.is_multipart()]
print(json.dumps({"leaves": leaves, "defects": len(message.defects)}))
"#;

#[test]
fn a_peer_without_8bitmime_gets_what_python_decodes() {
    let files = Files::new();
    let peer = Peer::start_at("127.0.0.1:0", "250 DSN", |_| None);
    let route = format!("[[route]]\nsmtp = {{ hosts = [\"{}\"] }}", peer.address);
    let server = Server::start(&files, &config(&route));
    let mut client = Client::connect(server.address());
    let part = |kind: &str, text: &str| {
        format!("--b\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: 8bit\r\n\r\n{text}\r\n")
    };
    let text = format!("Grüße = \r\n.\r\n{}", "lang und ß ".repeat(200));
    let content = format!(
        "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n{}{}--b--\r\n",
        part("text/plain; charset=utf-8", &text),
        part("application/json", "{\"ä\": 1}\r\n"),
    );
    client.say("MAIL FROM:<a@source.test> BODY=8BITMIME", "250");
    client.say("RCPT TO:<b@far.test>", "250");
    client.say("DATA", "354");
    client.send(content.replace("\r\n.", "\r\n.."));
    client.say(".", "250");
    let taken = &peer.wait_taken(1)[0];
    assert!(taken.content.is_ascii() && !taken.mail.contains("BODY="), "{taken:?}");
    let lines = taken.content.split(|octet| *octet == b'\n');
    assert!(lines.map(<[u8]>::len).max() <= Some(999));
    let path = files.path("taken.eml");
    std::fs::write(&path, &taken.content).expect("a file");
    let told: serde_json::Value =
        serde_json::from_str(&python(DECODE, &[&path.display().to_string()])).expect("JSON");
    let leaves = serde_json::json!([text, "{\"ä\": 1}\r\n"]);
    assert_eq!(told, serde_json::json!({ "leaves": leaves, "defects": 0 }));
    // Signed, it can't be encoded, and is returned; a report has nobody to return to.
    let signed = content.replace("multipart/mixed", "multipart/signed");
    for (from, kind) in [("c@source.test", "failed"), ("", "relayed")] {
        client.say(&format!("MAIL FROM:<{from}> BODY=8BITMIME"), "250");
        client.say("RCPT TO:<b@far.test> NOTIFY=NEVER", "250");
        client.say("DATA", "354");
        client.send(signed.replace("\r\n.", "\r\n.."));
        client.say(".", "250");
        let count = 1 + usize::from(kind == "relayed");
        let events = files.wait_events(kind, count);
        assert!(kind == "relayed" || events[0].to_string().contains("5.6.3"), "{events:?}");
    }
    server.stop();
}
