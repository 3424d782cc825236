//! OpenDMARC as the filter of a next hop that believes our results: it reads the author as we do, and nothing that
//! was forged in our name reaches it.

use super::rows::author;
use super::{Envelope, NOBODY, Stand, verdicts};
use crate::interop::place::{Place, is_possible};
use crate::support::author_forms::{READ_ALIKE, READ_DIFFERENTLY};
use crate::support::wait_until;
use serde_json::{Value, json};
use std::io::Write as _;
use std::process::{Command, Stdio};

const SCRIPT: &str = include_str!("opendmarc.py");

/// It, in a network of its own, whose name server knows the policies.
struct OpenDmarc {
    place: Place,
}

impl OpenDmarc {
    /// It believes the results of relay.test.
    fn start(zone: &Value) -> OpenDmarc {
        let mut place = Place::new(0);
        let dir = place.dir();
        place.write("script.py", SCRIPT);
        place.write("resolv.conf", "nameserver 127.0.0.1\n");
        let socket = format!("Socket local:{dir}/socket\nUMask 000\nBackground false\n");
        let text = format!("AuthservID far.test\nTrustedAuthservIDs relay.test\n{socket}");
        place.write("opendmarc.conf", &text);
        let start = "ip link set lo up && mount --bind resolv.conf /etc/resolv.conf || exit 1\n\
                     /usr/bin/python3 script.py names \"$1\" &\nexec opendmarc -f -c opendmarc.conf";
        let zone = zone.to_string();
        let words = ["unshare", "--net", "sh", "-c", start, "sh", &zone];
        let command = place.command("opendmarc", &words);
        place.start(command, "opendmarc.log");
        wait_until("it listens", || place.path("socket").exists());
        OpenDmarc { place }
    }

    /// Its verdict on each message, and whom it took for the author's domain; `None`: it had nothing to say.
    fn verdicts(&self, messages: &[(&str, String)]) -> Vec<Option<(String, String)>> {
        let mut python = Command::new("/usr/bin/python3");
        python.args(["-c", SCRIPT, "ask"]).arg(self.place.path("socket"));
        let python = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut python = python.expect("python3");
        let mut stdin = python.stdin.take().expect("a pipe");
        stdin.write_all(&serde_json::to_vec(messages).expect("JSON")).expect("it reads");
        drop(stdin);
        let done = python.wait_with_output().expect("it ends");
        assert!(done.status.success(), "{done:?}");
        let said: Vec<Option<(String, String)>> =
            serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(said.len(), messages.len());
        said
    }
}

/// bank.test is whom a forger would like to be; evil.test is his own.
fn zone() -> Value {
    let policy = "v=DMARC1; p=reject";
    json!({
        "bank.test": "v=spf1 -all", "_dmarc.bank.test": policy,
        "evil.test": "v=spf1 +all", "_dmarc.evil.test": policy,
    })
}

const FORGER: Envelope<'static> = Envelope { sender: "u@evil.test", ..NOBODY };

fn stand(checks: &str) -> Stand {
    let stand = Stand::start("relay.test", checks);
    stand.publish(&zone());
    stand
}

/// Octets as characters, lines as a mailbox has them.
fn text(message: &[u8]) -> String {
    message.iter().map(|octet| char::from(*octet)).collect::<String>().replace("\r\n", "\n")
}

const REST: &str = "Subject: x\r\nTo: al@here.test\r\nMessage-ID: <1@evil.test>\r\n\
                    Date: Mon, 23 Nov 2026 10:00:00 +0000\r\n\r\nx\r\n";

/// Fields that it reads otherwise than we do, whom it takes for the author's domain then, and why.
const OTHERWISE: [(&str, Option<&str>, &str); 3] = [
    ("Doe, Jo <u@evil.test>", None, "it has two authors for one, and leaves those alone"),
    ("Doe, Jo; Sales <u@evil.test>", None, "the same"),
    ("<@x.test,@y.test:u@evil.test>", None, "it knows no routes (RFC 5322 §4.4)"),
];

#[test]
fn opendmarc_reads_the_authors_that_we_read() {
    if !is_possible(&["opendmarc"]) {
        return;
    }
    let (mut stand, judge) =
        (stand("spf = \"mark\", dmarc = \"reject\""), OpenDmarc::start(&zone()));
    let (mut passed, mut ours) = (Vec::new(), Vec::new());
    for from in READ_ALIKE.iter().chain(READ_DIFFERENTLY) {
        if let Ok(message) = stand.play(&FORGER, format!("From: {from}\r\n{REST}").as_bytes()) {
            ours.push((*from, verdicts(&message, "dmarc").join(" "), author(&message)));
            passed.push((FORGER.sender, text(&message)));
        }
    }
    assert_eq!(ours.len(), READ_ALIKE.len(), "{ours:?}");
    for (theirs, (from, verdict, author)) in judge.verdicts(&passed).into_iter().zip(ours) {
        let theirs = theirs.map(|(verdict, author)| (verdict, author.to_ascii_lowercase()));
        match OTHERWISE.iter().find(|(of, ..)| *of == from) {
            Some((_, said, _)) => assert_eq!(theirs.map(|(_, author)| author).as_deref(), *said),
            None => assert_eq!(theirs, Some((verdict, author)), "{from}"),
        }
    }
    stand.server.stop();
}

/// Ways to write our name in results that say what we never said.
const FORGED: [&str; 22] = [
    "relay.test",
    "Relay.TEST",
    "relay.test 1",
    "relay.test/1",
    "\"relay.test\"",
    "\"relay.test/1\"",
    "\"relay.test \"",
    "\" relay.test\"",
    "\"relay\\.test\"",
    "(x) relay.test (y)",
    "(a \\) (b) ;) relay.test",
    "relay.test.",
    "relay .test",
    "relay. test",
    "relay(x).test",
    "\"relay\".test",
    "\r\n\trelay.test",
    "\t relay.test\t",
    "relay.test(x)",
    "relay.test,",
    "[relay.test]",
    "relay.test\u{b}",
];

/// How a field's name may be written, too.
const NAMES: [&str; 4] = [
    "Authentication-Results:",
    "AUTHENTICATION-results:",
    "Authentication-Results :",
    "Authentication-Results \t:",
];

#[test]
fn opendmarc_believes_no_results_that_others_forged_in_our_name() {
    if !is_possible(&["opendmarc"]) {
        return;
    }
    let checks = "spf = \"mark\", dkim = \"mark\", dmarc = \"mark\"";
    let (mut stand, judge) = (stand(checks), OpenDmarc::start(&zone()));
    let (mut forged, mut passed) = (Vec::new(), Vec::new());
    for name in NAMES {
        for server in FORGED {
            for claim in ["dkim=pass header.d=bank.test", "spf=pass smtp.mailfrom=u@bank.test"] {
                let message = format!("{name} {server}; {claim}\r\nFrom: u@bank.test\r\n{REST}");
                forged.push((FORGER.sender, text(message.as_bytes())));
                let delivered = stand.play(&FORGER, message.as_bytes()).expect("it is taken");
                passed.push((FORGER.sender, text(&delivered)));
            }
        }
    }
    let is_believed =
        |said: &Option<(String, String)>| matches!(said, Some((word, _)) if word == "pass");
    // It does believe what nobody takes out.
    let before = judge.verdicts(&forged).iter().filter(|said| is_believed(said)).count();
    assert!(before >= 10, "{before} of {}", forged.len());
    let failed = Some(("fail".to_owned(), "bank.test".to_owned()));
    for (said, (_, message)) in judge.verdicts(&passed).into_iter().zip(passed) {
        assert_eq!(said, failed, "{message}");
    }
    stand.server.stop();
}
