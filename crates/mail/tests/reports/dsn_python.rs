//! Reports as a stranger reads them: Python's email package, which shares no code with ours.

use mail::dsn::xtext::Envid;
use mail::dsn::{DsnOutcome, Original, RecipientReport, Report};
use mail::{Envelope, Failure, Mailbox, MessageId, Notify, Recipient, Reply, Step, Wall};
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Prints what the test compares: types of the parts, the fields of the status, defects.
const READER: &str = r#"
import email, email.policy, sys
m = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.SMTPUTF8)
print(m.get_content_type(), m.get_param("report-type"))
print(m["To"].addresses[0].addr_spec, "|", m["Auto-Submitted"], "|", m["Date"].datetime.isoformat())
for part in m.iter_parts():
    print(part.get_content_type(), part["Content-Transfer-Encoding"])
status = list(m.iter_parts())[1]
blocks = status.get_payload()
if status.get_content_type() == "message/global-delivery-status":
    text = status.get_payload(0).as_bytes(policy=email.policy.SMTPUTF8).decode()
    print(text.strip().replace("\r\n", "/"))
else:
    for block in blocks:
        print("/".join(f"{name}: {value}" for name, value in block.items()))
last = list(m.iter_parts())[2]
print(last.get_payload() if last.get_content_maintype() == "text" else last.get_payload(0)["Subject"])
print([type(d).__name__ for p in m.walk() for d in p.defects])
"#;

fn read_with_python(content: &[u8]) -> String {
    let mut child = Command::new("python3")
        .args(["-X", "utf8", "-c", READER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this test needs python3");
    child.stdin.take().unwrap().write_all(content).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

fn envelope(from: &str, to: &[&str]) -> Envelope {
    let recipient = |text: &&str| Recipient {
        mailbox: Mailbox::parse(text, true).unwrap(),
        notify: Notify::UNSPECIFIED,
        orcpt: Some("rfc822;first+2Bx@example.net".into()),
    };
    Envelope {
        reverse_path: Some(Mailbox::parse(from, true).unwrap()),
        recipients: to.iter().map(recipient).collect(),
        body: mail::BodyType::SevenBit,
        smtputf8: !from.is_ascii(),
        ret: None,
        envid: Envid::parse("id+20x"),
    }
}

fn compose(envelope: &Envelope, original: Original) -> Vec<u8> {
    let reply = Reply::new(550, (5, 1, 1), format!("no such {}", "mailbox ".repeat(12)));
    let failure = Failure::peer("mx.example.net[192.0.2.1]:25", reply, Step::RcptTo);
    let recipients: Vec<_> = envelope
        .recipients
        .iter()
        .map(|recipient| RecipientReport {
            recipient,
            outcome: DsnOutcome::Failed(&failure),
            last_attempt: None,
        })
        .collect();
    Report {
        hostname: "relay.example.org",
        id: MessageId(42),
        report_id: MessageId(43),
        to: envelope.reverse_path.as_ref().unwrap(),
        envid: envelope.envid.as_deref(),
        smtputf8: envelope.smtputf8,
        arrived: Wall(1_795_255_872_345),
        now: Wall(1_795_255_873_000),
        recipients: &recipients,
        original,
    }
    .compose()
}

#[test]
fn python_reads_an_ordinary_report() {
    let envelope = envelope("\"s x\"@example.com", &["a@example.net", "b@example.net"]);
    let content: [&[u8]; 1] = [b"Subject: Hello\r\n\r\n--x\r\nbody"];
    let read = read_with_python(&compose(&envelope, Original::Full(&content)));
    let words = format!("smtp; 550 5.1.1 no such{}", " mailbox".repeat(12));
    let recipient = |name| {
        format!(
            "Original-Recipient: rfc822;first+x@example.net/Final-Recipient: \
             rfc822;{name}@example.net/Action: failed/Status: 5.1.1/Remote-MTA: dns; \
             mx.example.net/Diagnostic-Code: {words}"
        )
    };
    // The value of a folded field keeps the tab of its fold in Python.
    assert_eq!(
        read.replace('\t', " "),
        format!(
            "multipart/report delivery-status\n\
             \"s x\"@example.com | auto-replied | 2026-11-21T10:11:13+00:00\n\
             text/plain 7bit\n\
             message/delivery-status 7bit\n\
             message/rfc822 7bit\n\
             Original-Envelope-Id: id x/Reporting-MTA: dns; relay.example.org/Arrival-Date: Sat, \
             21 Nov 2026 10:11:12 +0000/X-Postrider-Id: 000000000000002a\n\
             {}\n{}\nHello\n[]\n",
            recipient("a"),
            recipient("b")
        )
    );
}

#[test]
fn python_reads_a_report_with_the_header_only() {
    let envelope = envelope("s@example.com", &["a@example.net"]);
    let original = Original::Headers(b"Subject: \xff\r\nA: b\r\n\r\nbody");
    let read = read_with_python(&compose(&envelope, original));
    assert!(read.contains("\ntext/rfc822-headers quoted-printable\n"), "{read}");
    assert!(read.ends_with("\nSubject: =FF\nA: b\n\n[]\n"), "{read}");
}

#[test]
fn python_reads_an_internationalised_report() {
    let envelope = envelope("jörg@example.com", &["用户@example.net"]);
    let content: [&[u8]; 1] = ["Subject: Grüße\r\n\r\nKörper\r\n".as_bytes()];
    let read = read_with_python(&compose(&envelope, Original::Full(&content)));
    assert!(
        read.contains("\nmessage/global-delivery-status 8bit\nmessage/global 8bit\n"),
        "{read}"
    );
    assert!(read.contains("Final-Recipient: utf-8;用户@example.net/"), "{read}");
    assert!(read.ends_with("\nGrüße\n[]\n"), "{read}");
}
