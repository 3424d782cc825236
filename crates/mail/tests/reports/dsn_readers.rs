//! Reports as the programs read them that list managers and people use: Sisimai, flufl.bounce
//! (Mailman), notmuch.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use mail::dsn::{DsnOutcome, Original, RecipientReport, Report, Success};
use mail::{EnhancedStatus, Failure, Mailbox, MessageId, Notify, Recipient, Reply, Step, Wall};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const SISIMAI: &str = r#"
use Sisimai; local $/; my $message = <STDIN>;
for my $found (@{Sisimai->make(\$message, 'delivered' => 1) || []}) {
    print join("|", $found->recipient->address, $found->action, $found->reason,
        $found->softbounce, $found->deliverystatus), "\n";
}
"#;

const FLUFL: &str = r#"
import email, sys
from flufl.bounce import all_failures
temporary, permanent = all_failures(email.message_from_binary_file(sys.stdin.buffer))
names = lambda addresses: " ".join(sorted(a.decode() for a in addresses))
print(f"{names(temporary)}|{names(permanent)}")
"#;

/// What a program prints that is given `input`.
fn run(command: &mut Command, input: &[u8]) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{command:?}: {e} (see scripts/install-test-packages)"));
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{command:?} (see scripts/install-test-packages)");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn sisimai(content: &[u8]) -> String {
    run(Command::new("perl").args(["-e", SISIMAI]), content)
}

fn flufl(content: &[u8]) -> String {
    // Debian's own, which has Debian's packages.
    run(Command::new("/usr/bin/python3").args(["-c", FLUFL]), content)
}

fn compose(outcomes: &[(&str, DsnOutcome<'_>)], content: &[u8], smtputf8: bool) -> Vec<u8> {
    let users: Vec<Recipient> = outcomes
        .iter()
        .map(|(address, _)| Recipient {
            mailbox: Mailbox::parse(address, false).unwrap(),
            notify: Notify::UNSPECIFIED,
            orcpt: None,
        })
        .collect();
    let recipients: Vec<_> = users
        .iter()
        .zip(outcomes)
        .map(|(recipient, &(_, outcome))| RecipientReport {
            recipient,
            outcome,
            last_attempt: Some(Wall(1_795_255_873_000)),
        })
        .collect();
    Report {
        hostname: "relay.example.org",
        id: MessageId(42),
        report_id: MessageId(43),
        to: &Mailbox::parse("sender@example.com", false).unwrap(),
        envid: None,
        smtputf8,
        arrived: Wall(1_795_255_872_345),
        now: Wall(1_795_255_873_000),
        recipients: &recipients,
        original: Original::Headers(content),
    }
    .compose()
}

const HEADER: &[u8] = b"Subject: Hello\r\nMessage-ID: <1@example.com>\r\n\r\n";

fn bare(code: u16, text: &'static str, step: Step) -> Failure {
    Failure::peer("mx.example.net[192.0.2.1]:25", Reply::bare(code, text), step)
}

#[test]
fn a_bare_refusal_of_a_recipient_is_a_hard_bounce() {
    for (code, text) in [(550, "no such user here"), (550, "Invalid recipient: <a@b.test>")] {
        let failure = bare(code, text, Step::RcptTo);
        let content = compose(&[("a@b.test", DsnOutcome::Failed(&failure))], HEADER, false);
        assert_eq!(sisimai(&content), "a@b.test|failed|userunknown|0|5.1.1", "{text}");
        assert_eq!(flufl(&content), "|a@b.test");
    }
    let spam = bare(554, "looks like spam", Step::FinalDot);
    let content = compose(&[("a@b.test", DsnOutcome::Failed(&spam))], HEADER, false);
    assert_eq!(flufl(&content), "|a@b.test");
    assert!(sisimai(&content).ends_with("|5.0.0"), "what is said of the content is no address's");
}

#[test]
fn each_recipient_is_read_as_what_became_of_it() {
    let full = Reply::new(552, (5, 2, 2), "<full@b.test>: mailbox is full");
    let full = Failure::peer("mx.example.net[192.0.2.1]:25", full, Step::RcptTo);
    let refused = Failure::network("mx:25", EnhancedStatus::new(4, 4, 1), "connection refused");
    let saved = Reply::new(250, (2, 1, 5), "saved");
    let content = compose(
        &[
            ("full@b.test", DsnOutcome::Failed(&full)),
            (
                "late@b.test",
                DsnOutcome::Delayed { failure: &refused, retry_until: Wall(1_795_955_873_000) },
            ),
            (
                "old@b.test",
                DsnOutcome::Expired { failure: &refused, after: Duration::from_secs(432_000) },
            ),
            ("here@b.test", DsnOutcome::Delivered(Success { peer: None, reply: Some(&saved) })),
        ],
        HEADER,
        false,
    );
    assert_eq!(flufl(&content), "late@b.test|full@b.test old@b.test");
    let read = sisimai(&content);
    assert!(read.contains("full@b.test|failed|mailboxfull|"), "{read}");
    assert!(read.contains("late@b.test|delayed|"), "{read}");
}

#[test]
fn a_report_on_internationalised_mail_between_ordinary_addresses_is_an_ordinary_one() {
    let failure = bare(550, "no such user here", Step::RcptTo);
    let header = "Subject: Grüße\r\n\r\n".as_bytes();
    let content = compose(&[("a@b.test", DsnOutcome::Failed(&failure))], header, true);
    assert_eq!(flufl(&content), "|a@b.test");
    assert_eq!(sisimai(&content), "a@b.test|failed|userunknown|0|5.1.1");
}

#[test]
fn notmuch_shows_all_parts() {
    let failure = bare(550, "no such user here", Step::RcptTo);
    let content = compose(&[("a@b.test", DsnOutcome::Failed(&failure))], HEADER, false);
    let dir = tempdir();
    std::fs::create_dir_all(dir.join("mail/new")).unwrap();
    std::fs::create_dir_all(dir.join("mail/cur")).unwrap();
    std::fs::create_dir_all(dir.join("mail/tmp")).unwrap();
    std::fs::write(dir.join("mail/new/1.report"), content).unwrap();
    let mail = dir.join("mail");
    let config =
        format!("[database]\npath={}\n[user]\nname=a\nprimary_email=a@b\n", mail.display());
    std::fs::write(dir.join("config"), config).unwrap();
    let notmuch = |words: &[&str]| {
        run(Command::new("notmuch").env("NOTMUCH_CONFIG", dir.join("config")).args(words), b"")
    };
    notmuch(&["new", "--quiet"]);
    let shown = notmuch(&["show", "--format=json", "subject:delivered"]);
    for part in ["text/plain", "message/delivery-status", "text/rfc822-headers"] {
        assert!(shown.contains(&format!("\"content-type\": \"{part}\"")), "{part}: {shown}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

/// A new directory of this test's own.
fn tempdir() -> std::path::PathBuf {
    let dir =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("notmuch-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}
