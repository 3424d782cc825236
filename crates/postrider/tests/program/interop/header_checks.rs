//! Header and body checks side by side with Postfix: the same files, the same messages, the same result.

use super::place::Place;
use super::postfix::launch_with;
use crate::support::client::Client;
use crate::support::peer::{Peer, Taken};
use crate::support::server::Server;
use crate::support::{Files, config};
use std::net::SocketAddr;

const HEADER: &str = "\
# header_checks(5)
/^Subject:.*make money/         REJECT No spam here
/^Subject: *later/              REJECT 4.7.1 Come back
/^Subject: gone/                DISCARD unread
/^X-Mailer: (.*)$/              REPLACE X-Program: $1
/^X-Internal:/                  IGNORE
/^X-Strip:/                     STRIP internal
/^X-Before:/                    PREPEND X-Added: by a check
/^X-Copy: (.*)/                 BCC $1@far.test
/^X-Elsewhere: (.*)/            REDIRECT $1@far.test
if /^X-Long:/
/first.*last/                   REPLACE X-Long: both
endif
/^X-Long:.*last/                REPLACE X-Long: one line only
/^Content-(Type|Disposition):.*name=\"?[^;\"]*\\.exe/  REJECT No programs
/^X-Pass:/                      PASS
/^From:.*nested@/               REJECT Nested
/^X-Warn/                       WARN seen
!/^[A-Za-z-]+:/                 DUNNO
";

const BODY: &str = "\
/^bad line$/                    REJECT In the body
/^replace (.*)$/                REPLACE was $1
/^drop/                         IGNORE
/^mark/                         PREPEND above
";

/// A header, and a body.
const MESSAGES: &[(&str, &str)] = &[
    ("Subject: plain\r\nX-Other: a", "body\r\n"),
    ("Subject: MAKE Money fast", "body\r\n"),
    ("Subject: see: make\r\n money", "body\r\n"),
    ("Subject: later", "body\r\n"),
    ("Subject: gone", "body\r\n"),
    ("Subject: replaced\r\nX-Mailer: Mutt\r\n 2.0\r\nX-After: c", "body\r\n"),
    ("X-Internal: first\r\nSubject: ignored\r\nx-internal: a\r\n\tb\r\nTo: x", "body\r\n"),
    ("Subject: stripped\r\nX-Strip: a", "body\r\n"),
    ("Subject: prepended\r\nX-Before: a\r\nX-After: b", "body\r\n"),
    ("Subject: copied\r\nX-Copy: archive", "body\r\n"),
    ("Subject: elsewhere\r\nX-Elsewhere: other", "body\r\n"),
    ("Subject: folded\r\nX-Long: first\r\n and\r\n last\r\nX-Long: a last", "body\r\n"),
    ("Subject: passed\r\nX-Pass: yes\r\nX-Internal: stays", "bad line\r\n"),
    ("Subject: order\r\nX-Internal: goes\r\nX-Pass: yes\r\nX-Internal: stays", "drop\r\n"),
    ("Subject: warned\r\nX-Warn: a", "body\r\n"),
    ("Subject: body", "one\r\nbad line\r\n"),
    ("Subject: not the line", "a bad line\r\nbad line \r\n"),
    ("Subject: lines", "replace this\r\ndrop\r\nmark\r\nlast\r\n"),
    ("Subject: dots", ".\r\nreplace .\r\n..x\r\n"),
    (
        "Subject: program\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b",
        "--b\r\nContent-Type: application/octet-stream;\r\n name=\"a.exe\"\r\n\r\nx\r\n--b--\r\n",
    ),
    (
        "Subject: parts\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=\"b\"",
        "drop\r\n--b\r\nX-Internal: p\r\nContent-Type: text/plain\r\n\r\nX-Internal: text\r\ndrop\r\n\
         --b\r\nX-Mailer: inner\r\n\r\nmark\r\n--b--\r\nreplace end\r\n",
    ),
    (
        "Subject: nested\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822",
        "From: nested@source.test\r\n\r\nbody\r\n",
    ),
    (
        "Subject: nested field\r\nMIME-Version: 1.0\r\nContent-Type: message/rfc822",
        "From: a@source.test\r\nX-Internal: n\r\n\r\nbody\r\n",
    ),
];

/// The reply to a message's content, with `.` before it and dots doubled.
fn give(address: SocketAddr, header: &str, body: &str) -> String {
    let mut client = Client::connect(address);
    client.say("MAIL FROM:<me@source.test>", "250");
    client.say("RCPT TO:<you@far.test>", "250");
    client.say("DATA", "354");
    let text = format!("{header}\r\n\r\n{body}").replace("\r\n.", "\r\n..");
    client.send(text);
    client.send(".\r\n");
    let reply = client.reply();
    client.say("QUIT", "221");
    // Each server has its own text for 250.
    if reply.starts_with('2') { reply[..3].to_owned() } else { reply }
}

/// What a peer got: addresses, and the content without trace fields.
fn told(taken: &Taken) -> (Vec<String>, String) {
    let address = |line: &String| line.split(['<', '>']).nth(1).unwrap_or_default().to_owned();
    let mut rcpt: Vec<String> = taken.rcpt.iter().map(address).collect();
    rcpt.sort();
    let mut text = taken.content.clone();
    while let Some(range) = mail::header::find(&text, "Received").map(|field| field.range) {
        text.drain(range);
    }
    (rcpt, String::from_utf8_lossy(&text).into_owned())
}

pub(crate) fn give_the_result_of_postfix() {
    let (theirs, ours, files) = (Peer::start(|_| None), Peer::start(|_| None), Files::new());
    let mut place = Place::new(0);
    place.write("header", HEADER);
    place.write("body", BODY);
    files.write("header", HEADER);
    files.write("body", BODY);
    let (dir, port) = (place.dir(), place.port);
    let (_, next) = theirs.address.split_once(':').expect("a port");
    let lines = format!(
        "relayhost = [127.0.0.1]:{next}\nheader_checks = regexp:{dir}/header\n\
         body_checks = regexp:{dir}/body\nsmtp_tls_security_level = none\n"
    );
    launch_with(&mut place, &lines, &format!("127.0.0.1:{port} inet n - n - - smtpd\n"));
    place.wait_listening(port);
    let text = format!(
        "[[table]]\nname = \"header\"\nregexp = {{ path = \"header\" }}\n\
         [[table]]\nname = \"body\"\nregexp = {{ path = \"body\" }}\n\
         [[header_check]]\ntable = \"header\"\n[[header_check]]\ntable = \"body\"\nin = \"body\"\n\
         [[route]]\nsmtp = {{ hosts = [\"{}\"] }}\n",
        ours.address
    );
    let server = Server::start(&files, &config(&text));
    let mut delivered = 0;
    let mut differences = Vec::new();
    // Here a line end in a captured text becomes a blank.
    let unfolded = |(to, content): &(Vec<String>, String)| {
        (to.clone(), content.replace("\r\n ", "  ").replace("\r\n\t", " \t"))
    };
    let mut results = [0; 3];
    let class = |reply: &str| ["2", "4", "5"].iter().position(|digit| reply.starts_with(digit));
    for (header, body) in MESSAGES {
        let expected = give(SocketAddr::from(([127, 0, 0, 1], port)), header, body);
        let given = give(server.address(), header, body);
        if given != expected {
            differences.push(format!("{header}\n\n{body}\n{given}\n{expected}"));
            break;
        }
        results[class(&expected).expect("a reply")] += 1;
        if expected != "250" || header.contains("Subject: gone") {
            continue;
        }
        delivered += 1;
        let [theirs, ours] =
            [&theirs, &ours].map(|peer| told(&peer.wait_taken(delivered)[delivered - 1]));
        if unfolded(&ours) != unfolded(&theirs) {
            differences.push(format!("{header}\n\n{body}\n{ours:?}\n{theirs:?}"));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
    assert!(results.iter().all(|count| *count > 0), "accepted, deferred and rejected: {results:?}");
    server.stop();
}
