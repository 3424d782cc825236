use super::*;
use crate::{Class, Notify};
use proptest::prelude::*;

const ARRIVED: Wall = Wall(1_795_255_872_345);
const NOW: Wall = Wall(1_795_259_472_000);

const CONTENT: &[u8] = b"From: Sam <sender@example.com>\r\nSubject: Hello\r\n world\r\n\
    Message-ID: <1@example.com>\r\n\r\nBody\r\n.dot\r\n";

fn mailbox(text: &str) -> Mailbox {
    Mailbox::parse(text, true).unwrap()
}

fn recipient(text: &str, orcpt: Option<&str>) -> Recipient {
    Recipient { mailbox: mailbox(text), notify: Notify::UNSPECIFIED, orcpt: orcpt.map(Box::from) }
}

fn no_such_user() -> Failure {
    let reply = Reply::new(550, (5, 1, 1), "<user@example.net>: no such user here\nsee the manual");
    Failure::peer("mx.example.net[192.0.2.1]:25", reply, "RCPT TO")
}

fn report<'a>(to: &'a Mailbox, recipients: &'a [RecipientReport<'a>]) -> Report<'a> {
    Report {
        hostname: "relay.example.org",
        id: MessageId(0x1234_0700_0000_002a),
        report_id: MessageId(0x1234_0700_0000_002b),
        to,
        envid: Some("QQ+2B1"),
        smtputf8: false,
        arrived: ARRIVED,
        now: NOW,
        recipients,
        original: Original::Headers(CONTENT),
    }
}

fn compose(report: &Report) -> String {
    String::from_utf8(report.compose()).unwrap()
}

/// What is between the blank line after `content_type` and the next boundary.
fn part<'a>(content: &'a str, content_type: &str) -> &'a str {
    let start = content.find(&format!("\r\nContent-Type: {content_type}\r\n")).unwrap();
    let body = start + content[start..].find("\r\n\r\n").unwrap() + 4;
    &content[body..body + content[body..].find("\r\n--postrider-").unwrap()]
}

#[test]
fn a_failure_word_for_word() {
    let to = mailbox("sender@example.com");
    let (user, failure) =
        (recipient("User@example.net", Some("rfc822;u+2B1@x.net")), no_such_user());
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: Outcome::Failed(&failure),
        last_attempt: Some(NOW),
    }];
    let golden = include_str!("golden_failure.eml").replace('\n', "\r\n");
    assert_eq!(compose(&report(&to, &recipients)), golden);
}

#[test]
fn status_of_each_outcome() {
    let to = mailbox("sender@example.com");
    let users: Vec<_> =
        ["a@b", "\"x  y\"@b", "c@b", "d@b", "e@b"].iter().map(|r| recipient(r, None)).collect();
    let timeout = Failure::network("10.0.0.1:25", EnhancedStatus::new(4, 4, 1), "timed out");
    let local = Failure::local(Class::Permanent, EnhancedStatus::new(5, 4, 6), "too many hops");
    let reply = Reply::new(250, (2, 1, 5), "saved");
    let success = Success { peer: Some("192.0.2.7:24"), reply: Some(&reply) };
    let outcomes = [
        Outcome::Failed(&local),
        Outcome::Delayed { failure: &timeout, retry_until: NOW },
        Outcome::Delivered(success),
        Outcome::Relayed(Success::default()),
        Outcome::Expanded,
    ];
    let recipients: Vec<_> = users
        .iter()
        .zip(outcomes)
        .map(|(recipient, outcome)| RecipientReport { recipient, outcome, last_attempt: None })
        .collect();
    let content = compose(&report(&to, &recipients));
    assert_eq!(
        part(&content, "message/delivery-status"),
        "Original-Envelope-Id: QQ+1\r\n\
         Reporting-MTA: dns; relay.example.org\r\n\
         Arrival-Date: Sat, 21 Nov 2026 10:11:12 +0000\r\n\
         X-Postrider-Id: 123407000000002a\r\n\
         \r\n\
         Final-Recipient: rfc822;a@b\r\n\
         Action: failed\r\n\
         Status: 5.4.6\r\n\
         Diagnostic-Code: x-postrider; this server: too many hops\r\n\
         \r\n\
         Final-Recipient: rfc822;\"x  y\"@b\r\n\
         Action: delayed\r\n\
         Status: 4.4.1\r\n\
         Diagnostic-Code: x-postrider; 10.0.0.1:25: timed out\r\n\
         Will-Retry-Until: Sat, 21 Nov 2026 11:11:12 +0000\r\n\
         \r\n\
         Final-Recipient: rfc822;c@b\r\n\
         Action: delivered\r\n\
         Status: 2.1.5\r\n\
         Remote-MTA: dns; [192.0.2.7]\r\n\
         Diagnostic-Code: smtp; 250 2.1.5 saved\r\n\
         \r\n\
         Final-Recipient: rfc822;d@b\r\n\
         Action: relayed\r\n\
         Status: 2.0.0\r\n\
         \r\n\
         Final-Recipient: rfc822;e@b\r\n\
         Action: expanded\r\n\
         Status: 2.0.0\r\n"
    );
    let text = part(&content, "text/plain; charset=us-ascii");
    for words in ["It will be tried until Sat, 21 Nov 2026 11:11:12", "250 2.1.5 saved", "members"]
    {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn internationalised_reports() {
    let to = mailbox("jörg@müller.example");
    let user = recipient("用户@example.net", Some("utf-8;\\x{FC}@x"));
    let mut failure = no_such_user();
    failure.reply = Some(Reply::new(550, (5, 1, 1), "kein Empfänger"));
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: Outcome::Failed(&failure),
        last_attempt: None,
    }];
    let content: [&[u8]; 2] = ["Subject: Grüße\r\n\r\n".as_bytes(), "Körper\r\n".as_bytes()];
    let mut report = report(&to, &recipients);
    report.smtputf8 = true;
    report.original = Original::Full(&content);
    assert!(report.needs_smtputf8());
    let text = compose(&report);
    assert!(text.contains("\r\nTo: <jörg@müller.example>\r\n"));
    assert!(text.contains("\r\nContent-Transfer-Encoding: 8bit\r\n"));
    let status = part(&text, "message/global-delivery-status");
    assert!(status.contains("\r\nOriginal-Recipient: utf-8;ü@x\r\n"));
    assert!(status.contains("\r\nFinal-Recipient: utf-8;用户@example.net\r\n"));
    assert!(status.contains("Diagnostic-Code: smtp; 550 5.1.1 kein Empfänger\r\n"));
    assert_eq!(part(&text, "message/global"), "Subject: Grüße\r\n\r\nKörper\r\n");
    assert!(part(&text, "text/plain; charset=utf-8").contains("Subject: Grüße"));
    report.original = Original::Headers(content[0]);
    assert_eq!(part(&compose(&report), "message/global-headers"), "Subject: Grüße\r\n");
}

#[test]
fn an_ascii_sender_gets_an_ascii_report() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", Some("utf-8;\\x{FC}@x"));
    let failure = Failure::local(Class::Permanent, EnhancedStatus::new(5, 0, 0), "nö\r\nX: y");
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: Outcome::Failed(&failure),
        last_attempt: None,
    }];
    let mut report = report(&to, &recipients);
    report.original = Original::Headers("Subject: ü\r\n".as_bytes());
    let text = compose(&report);
    assert!(text.is_ascii());
    let status = part(&text, "message/delivery-status");
    assert!(status.contains("\r\nOriginal-Recipient: utf-8;\\x{FC}@x\r\n"));
    assert!(status.contains("x-postrider; this server: n? X: y\r\n"));
    assert_eq!(part(&text, "text/rfc822-headers"), "Subject: =C3=BC\r\n");
}

#[test]
fn forged_parameters_are_left_out() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", Some("rfc822;a+0D+0AAction:+20delivered"));
    let failure = no_such_user();
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: Outcome::Failed(&failure),
        last_attempt: None,
    }];
    let mut report = report(&to, &recipients);
    report.envid = Some("x+0D+0AX:+20y");
    let content = compose(&report);
    let status = parse(part(&content, "message/delivery-status").as_bytes());
    assert_eq!(status.message.get("Original-Envelope-Id"), None);
    assert_eq!(status.recipients[0].get("Original-Recipient"), None);
    assert_eq!(status.recipients[0].get("Action"), Some("failed"));
}

#[test]
fn a_boundary_that_is_in_the_message_is_not_used() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", None);
    let failure = no_such_user();
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: Outcome::Failed(&failure),
        last_attempt: None,
    }];
    let mut report = report(&to, &recipients);
    let body: [&[u8]; 2] = [
        b"A: b\r\n\r\n--postrider-123407000000002b-00000001\r\n--postrider-1234070000",
        b"00002b-00000000\r\n--postrider-123407000000002b-00000000\r\n",
    ];
    report.original = Original::Full(&body);
    let text = compose(&report);
    let boundary = "postrider-123407000000002b-00000002";
    assert!(text.contains(&format!("\tboundary=\"{boundary}\"\r\n")));
    assert_eq!(text.matches(&format!("--{boundary}")).count(), 4);
    assert!(text.ends_with(&format!("--{boundary}--\r\n")));
}

#[test]
fn others_reports_are_read_tolerantly() {
    let status = parse(
        b"\r\nReporting-MTA: dns;mx.example\nreceived-from-mta : dns; a\r\n b\r\n\r\n \r\n\
          final-recipient: RFC822 ; x@y\r\nno field\r\nStatus: 5.1.1 (no mailbox)\r\n\xff\xfe\r\n\
          \r\n\r\nFinal-Recipient: rfc822; z@y\r\nStatus: what",
    );
    assert_eq!(status.message.get("reporting-mta"), Some("dns;mx.example"));
    assert_eq!(status.message.typed("Received-From-MTA"), Some(("dns", "a b")));
    assert_eq!(status.recipients.len(), 2);
    assert_eq!(status.recipients[0].typed("Final-Recipient"), Some(("RFC822", "x@y")));
    assert_eq!(status.recipients[0].status(), Some(EnhancedStatus::new(5, 1, 1)));
    assert_eq!(status.recipients[1].status(), None);
    assert_eq!(parse(b""), DeliveryStatus::default());
}

proptest! {
    #[test]
    fn any_report_is_well_formed(
        words in prop_oneof![any::<String>(), "[a\r\n üß]{0,40}[x]{0,2000}"],
        orcpt: String,
        envid: String,
        hostname: String,
        content in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            "(Subject|Message-ID|A): [a<>@ü\r\n\0]{0,30}\r\n\r\n[a\r\n.-]{0,2000}".prop_map(Vec::from),
        ],
        (wide, smtputf8, full) in any::<(bool, bool, bool)>(),
        cut in 0..300usize,
    ) {
        let to = mailbox("\"s er\"@example.com");
        let mut user = recipient(if wide { "ü@example.net" } else { "u@example.net" }, Some(&orcpt));
        user.orcpt = Some(format!("utf-8;{orcpt}").into());
        let reply = Reply::new(550, (5, 7, 1), words.clone());
        let failures = [
            Failure::peer(words.as_str(), reply.clone(), &words),
            Failure::network(words.as_str(), EnhancedStatus::new(4, 4, 1), words.as_str()),
        ];
        let success = Success { peer: Some(&words), reply: Some(&reply) };
        let outcomes = [
            Outcome::Failed(&failures[0]),
            Outcome::Delayed { failure: &failures[1], retry_until: NOW },
            Outcome::Delivered(success),
        ];
        let recipients =
            outcomes.map(|outcome| RecipientReport { recipient: &user, outcome, last_attempt: None });
        let mut report = report(&to, &recipients);
        let pieces = content.split_at(cut.min(content.len()));
        let pieces = [pieces.0, pieces.1];
        report.original = if full { Original::Full(&pieces) } else { Original::Headers(&content) };
        (report.hostname, report.envid, report.smtputf8) = (&hostname, Some(envid.as_str()), smtputf8);
        let out = report.compose();
        let mut scanner = crate::ContentScanner::default();
        scanner.push(&out);
        let facts = scanner.finish();
        prop_assert!(facts.longest_line as usize <= LINE_BYTES_MAX && !facts.has_nul);
        prop_assert!(facts.ends_with_crlf);
        let crlfs = memchr::memmem::find_iter(&out, b"\r\n").count();
        prop_assert_eq!(memchr::memchr2_iter(b'\r', b'\n', &out).count(), 2 * crlfs);
        prop_assert!(wide || smtputf8 || full || !facts.has_8bit);
        let text = String::from_utf8_lossy(&out);
        let kind = if text.contains("\r\nContent-Type: message/global-delivery-status\r\n") {
            "message/global-delivery-status"
        } else {
            "message/delivery-status"
        };
        let status = parse(part(&text, kind).as_bytes());
        prop_assert_eq!(status.recipients.len(), 3);
        let read: Vec<_> = status.recipients.iter().map(Group::status).collect();
        let given: Vec<_> = recipients.iter().map(|r| Some(r.outcome.status())).collect();
        prop_assert_eq!(read, given);
    }

    #[test]
    fn parsing_takes_anything(body in prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        "[a: \r\n]{0,60}".prop_map(Vec::from),
    ]) {
        let status = parse(&body);
        prop_assert!(status.recipients.iter().all(|group| !group.fields.is_empty()));
        prop_assert!(status.recipients.is_empty() || !status.message.fields.is_empty());
    }
}
