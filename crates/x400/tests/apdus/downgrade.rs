//! What MTAs of 1984 get.

use crate::{file, message, report};
use bytes::Bytes;
use x400::mts::downgrade::{NotDowngraded, report_to_1984, to_1984};
use x400::mts::extension::criticality;
use x400::mts::{
    ContentType, EnvelopeKind, Flags, Limits, RecipientIndicators, ReportContent, ReportEnvelope,
    TransferEnvelope,
};
use x400::or_name::ExtensionAttribute;

#[test]
fn a_message() {
    let (mut envelope, ..) = message(&file("message_extensions"));
    // Prohibitions are critical for delivery.
    assert_eq!(to_1984(&envelope), Err(NotDowngraded::Extension));
    envelope.extensions.0.iter_mut().for_each(|extension| extension.criticality = Flags::default());
    envelope.content_type = ContentType::Extended(Bytes::from_static(&[0x2a, 3]));
    let old = to_1984(&envelope).expect("nothing is critical").envelope;
    let octets = old.encode();
    let read = TransferEnvelope::read(&octets, EnvelopeKind::Message, &Limits::default());
    assert_eq!(read.as_ref(), Ok(&old));
    assert!(
        old.extensions.0.is_empty() && old.recipients.iter().all(|r| r.extensions.0.is_empty())
    );
    assert_eq!(old.content_type, ContentType::EXTERNAL);
    assert_eq!(
        old.recipients[1].name.address.to_string(),
        "/DD.Common=Duty Officer/O=Beta/PRMD=TestB/ADMD= /C=GB/"
    );
    assert!(old.trace.iter().all(|element| element.supplied.other_actions.is_empty()));
    assert_eq!(
        (&old.identifier, old.priority, old.deferred_delivery),
        (&envelope.identifier, envelope.priority, envelope.deferred_delivery)
    );
    let critical = &mut envelope.recipients[0].extensions.0[0].criticality;
    *critical = Flags::of(&[criticality::FOR_TRANSFER]);
    let made = to_1984(&envelope).expect("others can have it");
    assert_eq!(made.refused, [(0, NotDowngraded::Extension)]);
}

#[test]
fn names_that_have_no_place() {
    let (plain, ..) = message(&file("py_message"));
    to_1984(&plain).expect("nothing of 1988");
    let mut envelope = plain.clone();
    envelope
        .originator
        .address
        .extensions
        .push(ExtensionAttribute { number: 9, value: Bytes::from_static(&[0x13, 0]) });
    assert_eq!(to_1984(&envelope), Err(NotDowngraded::Name));
    let mut envelope = plain;
    envelope.recipients[0].name.address.organization.teletex = Some(Bytes::from_static(b"x"));
    to_1984(&envelope).expect("there is a printable form, too");
    envelope.recipients[0].name.address.organization.printable = None;
    let made = to_1984(&envelope).expect("others can have it");
    assert_eq!(made.refused, [(0, NotDowngraded::Name)]);
    let numbers = |envelope: &TransferEnvelope| {
        envelope.recipients.iter().map(|recipient| recipient.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(&made.envelope), numbers(&envelope)[1..]);
    // Who is another MTA's matters to nobody here.
    let request = envelope.recipients[0].indicators.user_request();
    envelope.recipients[0].indicators = RecipientIndicators::new(false, request);
    assert_eq!(to_1984(&envelope).expect("others can have it").refused, []);
}

#[test]
fn a_report() {
    let (envelope, _, content) = report(&file("report_delivery_and_nondelivery"));
    let (envelope, content) = report_to_1984(&envelope, &content).expect("a report of 1984");
    assert!(envelope.extensions.0.is_empty() && content.extensions.0.is_empty());
    assert_eq!(content.content_type, None);
    assert_eq!(ReportEnvelope::read(&envelope.encode()).as_ref(), Ok(&envelope));
    assert_eq!(ReportContent::read(&content.encode(), &Limits::default()).as_ref(), Ok(&content));
    assert_eq!(content.recipients[1].actual.address.domain_defined("common"), Some("Duty Officer"));
}
