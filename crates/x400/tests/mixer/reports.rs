//! Reports as DSNs, and DSNs as reports.

use crate::{World, file};
use x400::mixer::dsn_to_report::RECIPIENTS_MAX;
use x400::mixer::entity::Entity;
use x400::mixer::{dsn_to_report, report_to_mail};
use x400::mts::reader::read_whole;
use x400::mts::report::{ReportType, report_prefix};
use x400::mts::{ApduEvent, Extension, Limits, ReportContent, ReportEnvelope};
use x400::or_name::OrAddress;

fn report(name: &str) -> (ReportEnvelope, ReportContent) {
    match read_whole(&file(name), Limits::default()) {
        Ok((ApduEvent::Report { envelope: Ok(envelope), .. }, content)) => {
            (*envelope, ReportContent::read(&content, &Limits::default()).expect("content"))
        }
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn a_report_is_a_dsn() {
    let world = World::new();
    let (envelope, content) = report("report_delivery_and_nondelivery");
    let mail = report_to_mail(&world.here(), &envelope, &content);
    assert_eq!(mail.originator, None);
    let entity = Entity::parse(&mail.message);
    assert_eq!(entity.field("Subject"), Some("Delivery-Report (success and failures)"));
    assert_eq!(entity.field("Message-Type"), Some("Delivery Report"));
    assert_eq!(entity.content_type.parameter("report-type"), Some("delivery-status"));
    let parts = entity.parts().expect("parts");
    assert_eq!(parts.len(), 3);
    let text = String::from_utf8_lossy(parts[0].body);
    for line in [
        "Subject: Vectors",
        "tom_h@cs.widget.example",
        "content too long (unable to transfer)",
        "Mailbox is full",
        "bob@beta.example at Sun, 22 Nov 2026 06:00:00 +0000",
        "The Original Message follows:",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let status = mail::dsn::parse(parts[1].body);
    for (name, value) in [
        ("Reporting-MTA", "x400; mta.b in /PRMD=TestB/ADMD= /C=GB/"),
        ("DSN-Gateway", "dns; gw.example.org"),
        ("Original-Envelope-Id", "[/PRMD=TestC/ADMD= /C=GB/;v1]"),
        ("X400-Content-Correlator", "Subject: Vectors"),
        ("Arrival-Date", "Sun, 22 Nov 2026 06:00:00 +0000"),
        ("X400-Content-Type", "P2-1988 (22)"),
    ] {
        assert_eq!(status.message.get(name), Some(value), "{name}");
    }
    let [delivered, failed] = &status.recipients[..] else { panic!("two recipients") };
    assert_eq!(
        (delivered.get("Action"), delivered.get("Status")),
        (Some("delivered"), Some("2.0.0"))
    );
    assert_eq!(delivered.get("X400-Type-of-MTS-User"), Some("ms (2)"));
    for (name, value) in [
        ("Original-Recipient", "rfc822; tom_h@cs.widget.example"),
        (
            "Final-Recipient",
            "x400; /RFC-822=tom(u)h(a)cs.widget.example/O=Delta/PRMD=TestD/ADMD= /C=GB/",
        ),
        ("Action", "failed"),
        ("Status", "5.2.3"),
        ("Diagnostic-Code", "x400; Reason 1 (unable-to-transfer); Diagnostic 7 (content-too-long)"),
        ("X400-Originally-Specified-Recipient-Number", "2"),
        ("X400-Supplementary-Info", "\"Mailbox is full\";"),
    ] {
        assert_eq!(failed.get(name), Some(value), "{name}");
    }
    assert!(failed.get("X400-Redirect-Recipient").is_some_and(|v| v.contains("CN=Duty Officer")));
    assert_eq!(Entity::parse(parts[2].body).field("Subject"), Some("Vectors"));
}

#[test]
fn one_failure_of_a_real_mta() {
    let world = World::new();
    let (envelope, mut content) = report("pp_ndr_fix");
    content.extensions.set(Extension::content_correlator("SMTP/NOTARY ENVID: QQ314"));
    let mail = report_to_mail(&world.here(), &envelope, &content);
    let entity = Entity::parse(&mail.message);
    assert!(
        entity.field("Subject").is_some_and(|s| s.starts_with("Delivery-Report (failure) for "))
    );
    let parts = entity.parts().expect("parts");
    assert_eq!(parts.len(), 2);
    let status = mail::dsn::parse(parts[1].body);
    assert_eq!(status.message.get("Original-Envelope-Id"), Some("QQ314"));
    assert_eq!(status.recipients[0].get("Status"), Some("5.1.1"));
    assert!(
        String::from_utf8_lossy(parts[0].body).contains("The Original Message is not available")
    );
}

#[test]
fn and_back() {
    let world = World::new();
    let (envelope, content) = report("report_delivery_and_nondelivery");
    let mail = report_to_mail(&world.here(), &envelope, &content);
    let from =
        dsn_to_report(&world.here(), &envelope.destination.address, &mail.message).expect("a DSN");
    assert!(!from.has_others);
    let (envelope_again, again) = from.report.expect("a report");
    assert_eq!(again.subject, content.subject);
    assert_eq!(envelope_again.destination.address, envelope.destination.address);
    let outcomes: Vec<ReportType> = again.recipients.iter().map(|r| r.outcome).collect();
    assert!(matches!(
        outcomes[..],
        [ReportType::Delivered { .. }, ReportType::Failed { reason: 1, diagnostic: Some(7) }]
    ));
    assert_eq!(again.recipients.iter().map(|r| r.number).collect::<Vec<_>>(), [1, 2]);
    assert!(again.returned_content.is_some());
    // What is made can be sent.
    let octets = again.encode();
    let apdu = [report_prefix(&envelope_again.encode(), octets.len() as u64), octets].concat();
    assert!(matches!(
        read_whole(&apdu, Limits::default()),
        Ok((ApduEvent::Report { envelope: Ok(_), .. }, _))
    ));
}

const DSN: &str = "From: MAILER-DAEMON@mx.example.net\r\nTo: x@gw.example.org\r\nDate: Wed, 25 Nov 2026 09:00:00 +0100\r\nSubject: failed\r\n\
Content-Type: multipart/report; report-type=delivery-status; boundary=x\r\n\r\n\
--x\r\n\r\nSorry.\r\n\
--x\r\nContent-Type: message/delivery-status\r\n\r\n\
Reporting-MTA: dns; mx.example.net\r\nOriginal-Envelope-Id: X400-MTS-Identifier: [/PRMD=TestC/ADMD= /C=GB/;v1]\r\nArrival-Date: Wed, 25 Nov 2026 08:59:00 +0100\r\n\r\n\
Original-Recipient: rfc822; first@example.net\r\nFinal-Recipient: rfc822; user@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\nDiagnostic-Code: smtp; 550 5.1.1 <user@example.net> unknown\r\n\r\n\
Final-Recipient: rfc822; late@example.net\r\nAction: delayed\r\nStatus: 4.4.1\r\n\r\n\
Final-Recipient: rfc822; there@example.net\r\nAction: delivered\r\nStatus: 2.0.0\r\n\
--x--\r\n";

#[test]
fn a_dsn_is_a_report_and_perhaps_a_message() {
    let world = World::new();
    let destination = OrAddress::parse("/S=x/C=GB/A=y/").expect("an address");
    let from = dsn_to_report(&world.here(), &destination, DSN.as_bytes()).expect("a DSN");
    assert!(from.has_others);
    let (envelope, content) = from.report.expect("a report");
    assert_eq!(envelope.destination.address, destination);
    assert_eq!(envelope.identifier.to_string(), "[/PRMD=Example/ADMD= /C=GB/;id-1]");
    assert_eq!(content.subject.to_string(), "[/PRMD=TestC/ADMD= /C=GB/;v1]");
    let [failed, delivered] = &content.recipients[..] else { panic!("two recipients") };
    assert_eq!(failed.outcome, ReportType::Failed { reason: 1, diagnostic: Some(0) });
    assert_eq!(failed.actual.address.domain_defined("RFC-822"), Some("user(a)example.net"));
    let intended = failed.intended.as_ref().expect("the first");
    assert_eq!(intended.address.domain_defined("RFC-822"), Some("first(a)example.net"));
    assert_eq!(failed.supplementary.as_deref(), Some("550 5.1.1 'user?example.net' unknown"));
    assert_eq!((failed.number, delivered.number), (1, 3));
    assert_eq!(failed.arrival.to_text(), "261125085900+0100");
    // Only delays: a message, no report.
    let delays = DSN
        .replace("Action: failed", "Action: delayed")
        .replace("Action: delivered", "Action: relayed");
    let from = dsn_to_report(&world.here(), &destination, delays.as_bytes()).expect("a DSN");
    assert!(from.report.is_none() && from.has_others);
    for other in ["Subject: x\r\n\r\n", "Content-Type: multipart/report; boundary=x\r\n\r\n--x--"] {
        assert_eq!(dsn_to_report(&world.here(), &destination, other.as_bytes()), None);
    }
}

#[test]
fn recipients_of_a_dsn() {
    let world = World::new();
    let destination = OrAddress::parse("/S=x/C=GB/A=y/").expect("an address");
    let start = DSN.find("Final-Recipient: rfc822; late").expect("there");
    let (front, end) = (&DSN[..start], "--x--\r\n");
    for (more, has_others) in [(RECIPIENTS_MAX - 1, false), (RECIPIENTS_MAX, true)] {
        let one =
            "Final-Recipient: rfc822; u@example.net\r\nAction: failed\r\nStatus: 5.1.1\r\n\r\n";
        let dsn = format!("{front}{}{end}", one.repeat(more));
        let from = dsn_to_report(&world.here(), &destination, dsn.as_bytes()).expect("a DSN");
        let (envelope, content) = from.report.expect("a report");
        assert_eq!((content.recipients.len(), from.has_others), (RECIPIENTS_MAX, has_others));
        let mail = report_to_mail(&world.here(), &envelope, &content);
        let parts = Entity::parse(&mail.message).parts().expect("parts");
        assert_eq!(mail::dsn::parse(parts[1].body).recipients.len(), RECIPIENTS_MAX);
    }
}
