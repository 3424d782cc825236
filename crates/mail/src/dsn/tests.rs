use super::*;
use crate::{Class, Notify, Step};
use proptest::prelude::*;
use std::time::Duration;

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
    Failure::peer("mx.example.net[192.0.2.1]:25", reply, Step::RcptTo)
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
        outcome: DsnOutcome::Failed(&failure),
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
        DsnOutcome::Failed(&local),
        DsnOutcome::Delayed { failure: &timeout, retry_until: NOW },
        DsnOutcome::Delivered(success),
        DsnOutcome::Relayed(Success::default()),
        DsnOutcome::Expanded,
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
    for words in
        ["Delivery will be attempted until Sat, 21 Nov 2026 11:11:12", "250 2.1.5 saved", "members"]
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
        outcome: DsnOutcome::Failed(&failure),
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
        outcome: DsnOutcome::Failed(&failure),
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
fn only_addresses_make_a_report_international() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", None);
    let failure = no_such_user();
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: DsnOutcome::Failed(&failure),
        last_attempt: None,
    }];
    let content: [&[u8]; 1] = ["Subject: Grüße\r\n\r\nKörper\r\n".as_bytes()];
    let mut report = report(&to, &recipients);
    report.smtputf8 = true;
    for original in [Original::Full(&content), Original::Headers(content[0])] {
        report.original = original;
        let text = compose(&report);
        assert!(text.is_ascii(), "a host without 8BITMIME takes it: {text}");
        part(&text, "message/delivery-status");
        assert!(part(&text, "text/rfc822-headers").contains("Gr=C3=BC=C3=9Fe"));
    }
    // An address makes the text international, but the status only if it stands there.
    let wide = mailbox("jörg@müller.example");
    let text = compose(&Report { to: &wide, ..report });
    part(&text, "message/delivery-status");
}

#[test]
fn a_mailbox_here_says_nothing_in_smtp() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", None);
    let reply = Reply::new(250, (2, 0, 0), "delivered to the mailbox");
    let outcome = DsnOutcome::Delivered(Success { peer: None, reply: Some(&reply) });
    let recipients = [RecipientReport { recipient: &user, outcome, last_attempt: None }];
    let content = compose(&report(&to, &recipients));
    let status = parse(part(&content, "message/delivery-status").as_bytes());
    assert_eq!(status.recipients[0].get("Diagnostic-Code"), None);
    assert_eq!(status.recipients[0].get("Status"), Some("2.0.0"));
}

#[test]
fn what_ran_out_of_time_says_how_long_it_was_tried() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", None);
    let failure = Failure::network("mx:25", EnhancedStatus::new(4, 4, 1), "refused");
    for (seconds, words) in [
        (432_000, "5 days"),
        (172_799, "47 hours"),
        (3_600, "1 hour"),
        (5_400, "90 minutes"),
        (61, "61 seconds"),
        (0, "0 seconds"),
    ] {
        let after = Duration::from_secs(seconds);
        let outcome = DsnOutcome::Expired { failure: &failure, after };
        let recipients = [RecipientReport { recipient: &user, outcome, last_attempt: None }];
        let content = compose(&report(&to, &recipients));
        let text = part(&content, "text/plain; charset=us-ascii");
        assert!(text.contains(&format!("Delivery was attempted for {words}.")), "{words}: {text}");
        assert!(content.contains("Subject: Your message could not be delivered"), "{content}");
        assert!(content.contains("Action: failed\r\nStatus: 4.4.1\r\n"), "{content}");
    }
}

#[test]
fn a_report_about_many_names_a_hundred_and_counts_the_rest() {
    let to = mailbox("sender@example.com");
    let users: Vec<_> = (0..1_000).map(|n| recipient(&format!("u{n}@b.test"), None)).collect();
    let failure = no_such_user();
    let outcomes = |n: usize| match n {
        // What failed is named before what did not, wherever it stands.
        0..900 => DsnOutcome::Delivered(Success::default()),
        _ => DsnOutcome::Failed(&failure),
    };
    let about = |count: usize| {
        let recipients: Vec<_> = users[1_000 - count..]
            .iter()
            .zip(1_000 - count..)
            .map(|(recipient, n)| RecipientReport {
                recipient,
                outcome: outcomes(n),
                last_attempt: None,
            })
            .collect();
        compose(&report(&to, &recipients))
    };
    for count in [100, 101, 1_000] {
        let content = about(count);
        let status = parse(part(&content, "message/delivery-status").as_bytes());
        assert_eq!(status.recipients.len(), RECIPIENTS_MAX, "{count}");
        assert!(status.recipients.iter().all(|r| r.get("Action") == Some("failed")), "{count}");
        let text = part(&content, "text/plain; charset=us-ascii");
        assert_eq!(text.contains("not listed"), count > 100, "{count}");
    }
    let content = about(1_000);
    assert!(content.contains("(900 recipients not listed)"), "{content}");
    let recipients: Vec<_> = users
        .iter()
        .map(|recipient| RecipientReport {
            recipient,
            outcome: DsnOutcome::Failed(&failure),
            last_attempt: None,
        })
        .collect();
    let content = compose(&report(&to, &recipients));
    assert!(content.contains("(and 900 more recipients not listed)"), "{content}");
}

#[test]
fn the_longest_report_fits_the_smallest_segment() {
    let to = mailbox(&format!("{}@{}.test", "s".repeat(64), "d".repeat(60)));
    let long = format!("{}@{}.test", "r".repeat(64), ["d".repeat(60), "e".repeat(60)].join("."));
    let orcpt = format!("rfc822;{}", "o".repeat(900));
    let users: Vec<_> = (0..1_000).map(|_| recipient(&long, Some(&orcpt))).collect();
    let words = "w ".repeat(5_000);
    let failure = Failure {
        culprit: crate::Culprit::Peer("mx ".repeat(5_000).into()),
        text: words.clone().into(),
        reply: Some(Reply::new(550, (5, 1, 1), words)),
        ..no_such_user()
    };
    let recipients: Vec<_> = users
        .iter()
        .map(|recipient| RecipientReport {
            recipient,
            outcome: DsnOutcome::Failed(&failure),
            last_attempt: Some(NOW),
        })
        .collect();
    let content = "A: \u{fc}\r\n".repeat(100_000);
    let pieces = [content.as_bytes()];
    let mut report = report(&to, &recipients);
    for original in [Original::Full(&pieces), Original::Headers(content.as_bytes())] {
        report.original = original;
        let bytes = report.compose().len();
        assert!(bytes <= REPORT_BYTES_MAX, "{bytes}");
        assert!(bytes > REPORT_BYTES_MAX / 2, "this is no long report: {bytes}");
    }
}

#[test]
fn forged_parameters_are_left_out() {
    let to = mailbox("sender@example.com");
    let user = recipient("user@example.net", Some("rfc822;a+0D+0AAction:+20delivered"));
    let failure = no_such_user();
    let recipients = [RecipientReport {
        recipient: &user,
        outcome: DsnOutcome::Failed(&failure),
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
        outcome: DsnOutcome::Failed(&failure),
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
            Failure::peer(words.as_str(), reply.clone(), Step::RcptTo),
            Failure::network(words.as_str(), EnhancedStatus::new(4, 4, 1), words.as_str()),
        ];
        let success = Success { peer: Some(&words), reply: Some(&reply) };
        let outcomes = [
            DsnOutcome::Failed(&failures[0]),
            DsnOutcome::Delayed { failure: &failures[1], retry_until: NOW },
            DsnOutcome::Delivered(success),
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
        prop_assert!(wide || smtputf8 || !facts.has_8bit);
        let text = String::from_utf8_lossy(&out);
        let kind = if text.contains("\r\nContent-Type: message/global-delivery-status\r\n") {
            "message/global-delivery-status"
        } else {
            "message/delivery-status"
        };
        let status = parse(part(&text, kind).as_bytes());
        prop_assert_eq!(status.recipients.len(), 3);
        let read: Vec<_> = status.recipients.iter().map(FieldGroup::status).collect();
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
