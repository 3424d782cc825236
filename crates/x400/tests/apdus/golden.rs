//! What other implementations wrote says what they meant, and is read the same wherever it is cut.

use crate::{events, file, joined, message, report};
use bytes::Bytes;
use x400::mts::extension::{RedirectionReason, Stage, number};
use x400::mts::recipient::ReportRequest;
use x400::mts::report::ReportType;
use x400::mts::trace::{Attempted, RoutingAction, other_action};
use x400::mts::{
    ApduEvent, ApduReader, ContentType, EnvelopeKind, ExtensionKind, Flags, Limits, Priority,
    message_indicator,
};

const ALL: [&str; 14] = [
    "py_message",
    "py_message_cons",
    "py_message_shuf",
    "pp_message",
    "pp_message_fix",
    "pp_ndr_fix",
    "message_extensions",
    "message_unknown_critical",
    "message_unknown_noncritical",
    "message_oid_content",
    "message_receipt_notification",
    "message_nonreceipt_notification",
    "probe",
    "report_delivery_and_nondelivery",
];

#[test]
fn wherever_it_is_cut_it_says_the_same() {
    for name in ALL {
        let octets = file(name);
        let whole = joined(events(&[&octets]));
        for cut in 0..=octets.len() {
            let (front, back) = octets.split_at(cut);
            assert_eq!(joined(events(&[front, back])), whole, "{name} cut at {cut}");
        }
        let single: Vec<&[u8]> = octets.chunks(1).collect();
        assert_eq!(joined(events(&single)), whole, "{name} in single octets");
    }
}

#[test]
fn what_ends_early_is_no_apdu() {
    for name in ALL {
        let octets = file(name);
        for cut in 0..octets.len() {
            let mut reader = ApduReader::new(Limits::default());
            let fed = reader.handle_input(&Bytes::copy_from_slice(&octets[..cut]));
            assert!(fed.is_err() || reader.finish().is_err(), "{name} cut at {cut}");
        }
        let more = [&octets[..], &[0xa0, 0x00]].concat();
        let mut reader = ApduReader::new(Limits::default());
        assert!(reader.handle_input(&Bytes::from(more)).is_err(), "{name} and another one");
    }
}

#[test]
fn a_changed_octet_never_panics() {
    for name in ALL {
        let octets = file(name);
        for at in 0..octets.len() {
            for change in [0x00, 0x80, 0xff, octets[at] ^ 0x20, octets[at].wrapping_add(1)] {
                let mut broken = octets.clone();
                broken[at] = change;
                let mut reader = ApduReader::new(Limits::default());
                if reader.handle_input(&Bytes::from(broken)).is_ok() {
                    let _ = reader.finish();
                }
            }
        }
    }
}

#[test]
fn a_plain_message() {
    let (envelope, octets, content) = message(&file("py_message"));
    assert_eq!(
        envelope.originator.address.to_string(),
        "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/"
    );
    assert_eq!(envelope.content_type, ContentType::P22);
    assert_eq!(envelope.recipients.len(), 1);
    assert!(envelope.recipients[0].indicators.is_responsible());
    assert_eq!(envelope.recipients[0].indicators.mta_request(), ReportRequest::NonDelivery);
    assert_eq!(envelope.trace.len(), 1);
    assert_eq!(content.len(), 199);
    assert_eq!(octets.first(), Some(&0x31));
    // In segments, and with its SETs in another order, it is the same message.
    for other in ["py_message_cons", "py_message_shuf"] {
        let (same, _, same_content) = message(&file(other));
        assert_eq!(
            (&same.identifier, &same.recipients, &same_content),
            (&envelope.identifier, &envelope.recipients, &content),
            "{other}"
        );
    }
}

#[test]
fn a_real_mta() {
    let (envelope, _, content) = message(&file("pp_message"));
    // The tag of the extension's number is that of ISO 10021-4:1990.
    let trace = envelope.internal_trace();
    assert_eq!(trace.len(), 1, "{:?}", envelope.extensions);
    let (fixed, _, fixed_content) = message(&file("pp_message_fix"));
    assert_eq!((fixed, fixed_content), (envelope.clone(), content));
    let recipient = &envelope.recipients[0];
    // Written with seven unused bits, and zeros behind.
    assert!(recipient.indicators.is_responsible());
    assert_eq!(recipient.indicators.user_request(), ReportRequest::NonDelivery);
    let (envelope, _, content) = report(&file("pp_ndr_fix"));
    assert!(!envelope.trace.is_empty());
    let [recipient] = &content.recipients[..] else { panic!("{content:?}") };
    assert_eq!(recipient.outcome, ReportType::Failed { reason: 1, diagnostic: Some(0) });
    assert_eq!(recipient.supplementary.as_deref(), Some("Unknown local user 'nobody'"));
    assert_eq!(recipient.number, 1);
}

#[test]
fn every_field_of_a_message() {
    let (envelope, _, _) = message(&file("message_extensions"));
    assert_eq!(envelope.kind, EnvelopeKind::Message);
    assert_eq!(envelope.identifier.to_string(), "[/PRMD=TestC/ADMD= /C=GB/;v1]");
    assert_eq!(envelope.priority, Priority::Urgent);
    let indicators =
        [message_indicator::ALTERNATE_RECIPIENT_ALLOWED, message_indicator::CONTENT_RETURN_REQUEST];
    assert_eq!(envelope.indicators, Flags::of(&indicators));
    assert_eq!(
        envelope.deferred_delivery.map(|time| time.to_text()).as_deref(),
        Some("261122070000Z")
    );
    assert_eq!(envelope.content_identifier.as_deref(), Some("Vectors"));
    let [bob, duty, mail] = &envelope.recipients[..] else { panic!("three recipients") };
    assert_eq!([bob.number, duty.number, mail.number], [1, 2, 3]);
    assert_eq!(
        [bob, duty, mail].map(|r| (
            r.indicators.is_responsible(),
            r.indicators.mta_request(),
            r.indicators.user_request()
        )),
        [
            (true, ReportRequest::NonDelivery, ReportRequest::NonDelivery),
            (false, ReportRequest::NonDelivery, ReportRequest::NonDelivery),
            (true, ReportRequest::Both, ReportRequest::Both),
        ]
    );
    let alternate = bob.extensions.alternate_recipient().expect("readable").expect("there");
    assert_eq!(alternate.address.to_string(), "/CN=Duty Officer/O=Beta/PRMD=TestB/ADMD= /C=GB/");
    let history = bob.extensions.redirection_history().expect("readable");
    assert_eq!(history.len(), 1);
    assert_eq!(history[0].reason, RedirectionReason::DomainAssigned);
    assert_eq!(mail.name.address.domain_defined("rfc-822"), Some("tom(u)h(a)cs.widget.example"));
    assert_eq!(history[0].intended.name, mail.name);
    let extensions = &envelope.extensions;
    assert!(extensions.is_reassignment_prohibited() && extensions.is_dl_expansion_prohibited());
    assert!(extensions.is_conversion_with_loss_prohibited());
    let latest = extensions.latest_delivery_time().expect("readable").expect("there");
    assert_eq!(latest.to_text(), "271122060000Z");
    assert_eq!(
        extensions.content_correlator().expect("readable").as_deref(),
        Some(&b"Subject: Vectors"[..])
    );
    assert_eq!(extensions.unsupported(Stage::Delivery), None);
    let trace = envelope.internal_trace();
    assert_eq!(trace.iter().map(|t| &*t.mta).collect::<Vec<_>>(), ["mta.d", "mta.c"]);
    assert_eq!(trace[1].supplied.action, RoutingAction::Rerouted);
    assert_eq!(trace[1].supplied.attempted, Some(Attempted::Mta("mta.b".into())));
    let [first, second] = &envelope.trace[..] else { panic!("two domains") };
    assert_eq!(first.domain.to_string(), "/PRMD=TestD/ADMD=GOLD 400/C=GB/");
    assert!(!first.supplied.other_actions.has(other_action::REDIRECTED));
    assert!(second.supplied.other_actions.has(other_action::REDIRECTED));
    let private = extensions.0.last().expect("the private one");
    let ExtensionKind::Private(oid) = &private.kind else { panic!("{private:?}") };
    assert_eq!(x400::ber::oid_text(oid), "1.3.6.1.4.1.99999.1");
}

#[test]
fn unknown_extensions() {
    let (envelope, ..) = message(&file("message_unknown_critical"));
    let unknown = envelope.extensions.unsupported(Stage::Transfer).expect("critical for transfer");
    assert_eq!(unknown.kind, ExtensionKind::Standard(200));
    assert_eq!(envelope.extensions.unsupported(Stage::Delivery), None);
    let (envelope, ..) = message(&file("message_unknown_noncritical"));
    assert!(envelope.extensions.standard(200).is_some());
    assert_eq!(envelope.extensions.unsupported(Stage::Transfer), None);
    assert_eq!(envelope.extensions.unsupported(Stage::Delivery), None);
    assert_eq!(envelope.extensions.standard(number::LATEST_DELIVERY_TIME), None);
}

#[test]
fn a_content_type_by_object_identifier() {
    let (envelope, _, content) = message(&file("message_oid_content"));
    assert_eq!(envelope.content_type.to_string(), "1.3.26.0.4406.0.4.1");
    assert_eq!(&content[..], [0x30, 0x00]);
}

#[test]
fn a_probe() {
    let (probe, octets, content) = message(&file("probe"));
    assert_eq!(probe.kind, EnvelopeKind::Probe);
    assert_eq!((probe.content_length, probe.deferred_delivery), (Some(10_000), None));
    assert_eq!(&*probe.identifier.local, "p1");
    assert!(probe.recipients.iter().all(|r| r.indicators.mta_request() == ReportRequest::Both));
    assert_eq!(probe.recipients.len(), 2);
    assert_eq!((octets, content.len()), (Bytes::from(file("probe")), 0));
}

#[test]
fn a_report_of_both_kinds() {
    let (envelope, _, content) = report(&file("report_delivery_and_nondelivery"));
    assert_eq!(&*envelope.identifier.local, "r1");
    assert_eq!(&*content.subject.local, "v1");
    assert_eq!(content.subject_trace.len(), 2);
    let [delivered, failed] = &content.recipients[..] else { panic!("two recipients") };
    let ReportType::Delivered { time, user } = delivered.outcome else { panic!("{delivered:?}") };
    assert_eq!((time.to_text().as_str(), user), ("261122060000Z", 2));
    assert_eq!(failed.outcome, ReportType::Failed { reason: 1, diagnostic: Some(7) });
    assert_eq!(failed.supplementary.as_deref(), Some("Mailbox is full"));
    let intended = failed.intended.as_ref().expect("the one who was meant");
    assert!(intended.address.domain_defined("RFC-822").is_some());
    assert_eq!(content.returned_content.as_ref(), Some(&Bytes::from(file("p22_parts.content"))));
    assert!(content.extensions.content_correlator().expect("readable").is_some());
    assert!(envelope.extensions.standard(number::REPORTING_MTA_NAME).is_some());
    assert_eq!(envelope.extensions.internal_trace().expect("readable").len(), 1);
}

#[test]
fn a_report_in_indefinite_lengths() {
    let octets = file("report_delivery_and_nondelivery");
    let (envelope, content) =
        x400::mts::reader::read_whole(&octets, Limits::default()).expect("whole");
    let ApduEvent::Report { octets: envelope, .. } = envelope else { panic!("a report") };
    let header = content.len() - content_length(&content);
    let inner = &content[header..];
    let indefinite =
        [&[0xa1, 0x80], &envelope[..], &[0x31, 0x80], inner, &[0, 0], &[0, 0]].concat();
    let (_, raw) = x400::mts::reader::read_whole(&indefinite, Limits::default()).expect("whole");
    assert_eq!(raw, [&[0x31, 0x80], inner, &[0, 0]].concat());
}

/// The length that a definite header says.
fn content_length(octets: &[u8]) -> usize {
    match octets[1] {
        short @ 0..0x80 => usize::from(short),
        long => octets[2..2 + usize::from(long & 0x7f)]
            .iter()
            .fold(0, |sum, &b| sum << 8 | usize::from(b)),
    }
}
