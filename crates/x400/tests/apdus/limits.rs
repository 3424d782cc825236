//! Limits at their edges, and what is known of an envelope that is broken.

use crate::{file, message};
use bytes::Bytes;
use x400::decode::Fault;
use x400::mts::envelope::message_prefix;
use x400::mts::extension::Extension;
use x400::mts::{
    ApduEvent, ApduReader, Broken, EXTENSIONS_MAX, EnvelopeKind, Flags, InternalTraceElement,
    Limits, TRACE_MAX, TransferEnvelope, UtcTime,
};

fn read(envelope: &TransferEnvelope) -> Result<TransferEnvelope, Box<Broken>> {
    TransferEnvelope::read(&envelope.encode(), EnvelopeKind::Message, &Limits::default())
}

fn sample() -> TransferEnvelope {
    message(&file("message_extensions")).0
}

#[test]
fn recipients() {
    let envelope = sample();
    let limits = Limits { recipients_max: 3, ..Limits::default() };
    let octets = envelope.encode();
    TransferEnvelope::read(&octets, EnvelopeKind::Message, &limits).expect("three");
    let limits = Limits { recipients_max: 2, ..Limits::default() };
    let broken =
        TransferEnvelope::read(&octets, EnvelopeKind::Message, &limits).expect_err("three");
    assert!(broken.has_too_many_recipients() && broken.is_reportable(), "{broken}");
    assert_eq!(broken.recipients, envelope.recipients[..2]);
    assert_eq!(broken.identifier, Some(envelope.identifier));
    assert_eq!(broken.originator, Some(envelope.originator));
}

#[test]
fn trace_and_extensions() {
    let mut envelope = sample();
    let element = envelope.trace[0].clone();
    envelope.trace = vec![element; TRACE_MAX];
    read(&envelope).expect("all elements");
    envelope.trace.push(envelope.trace[0].clone());
    assert_eq!(read(&envelope).expect_err("one more").error.field, "trace-information");
    let mut envelope = sample();
    envelope.extensions.0 = vec![
        Extension::standard(99, Flags::default(), |v| v
            .null(x400::ber::Tag::NULL));
        EXTENSIONS_MAX
    ];
    read(&envelope).expect("all extensions");
    // One MTA more on the way must not make too many of them.
    envelope.extensions.set(Extension::internal_trace(&[InternalTraceElement::default()]));
    read(&envelope).expect("our trace beside them");
    envelope.extensions.0.push(envelope.extensions.0[0].clone());
    assert_eq!(read(&envelope).expect_err("one more").error.fault, Fault::TooMany(EXTENSIONS_MAX));
}

#[test]
fn octets_of_an_envelope() {
    let octets = file("message_extensions");
    let (_, envelope, _) = message(&octets);
    for (limit, fits) in [(envelope.len(), true), (envelope.len() - 1, false)] {
        let limits = Limits { envelope_bytes_max: limit, ..Limits::default() };
        let mut reader = ApduReader::new(limits);
        let fed = reader.handle_input(&Bytes::from(octets.clone()));
        assert_eq!(fed.is_ok(), fits, "{fed:?}");
    }
}

#[test]
fn what_is_missing_is_named() {
    let octets = file("py_message");
    let (_, envelope, _) = message(&octets);
    let mut reader = x400::ber::Reader::new(&envelope);
    let parts: Vec<_> = reader
        .any()
        .expect("a SET")
        .children()
        .expect("fields")
        .map(|p| p.expect("a field"))
        .collect();
    for (index, wanted) in [
        (0, Some("message-identifier")),
        (1, Some("originator-name")),
        (2, None),
        (3, Some("content-type")),
        (7, Some("trace-information")),
        (8, Some("per-recipient-fields")),
    ] {
        let mut writer = x400::ber::Writer::new();
        writer.constructed(x400::ber::Tag::SET, |set| {
            for (_, part) in parts.iter().enumerate().filter(|(i, _)| *i != index) {
                set.raw(part.encoded);
            }
        });
        let read =
            TransferEnvelope::read(writer.as_slice(), EnvelopeKind::Message, &Limits::default());
        assert_eq!(
            read.err().map(|b| (b.error.field, b.error.fault)),
            wanted.map(|field| (field, Fault::Missing)),
            "{index}"
        );
        // Twice is wrong, too.
        let mut writer = x400::ber::Writer::new();
        writer.constructed(x400::ber::Tag::SET, |set| {
            for part in parts.iter().chain(parts.get(index)) {
                set.raw(part.encoded);
            }
        });
        let broken =
            TransferEnvelope::read(writer.as_slice(), EnvelopeKind::Message, &Limits::default())
                .expect_err("twice");
        assert_eq!(broken.error.fault, Fault::Repeated, "{index}");
    }
}

#[test]
fn the_content_of_a_broken_envelope_comes_all_the_same() {
    let (_, envelope, content) = message(&file("py_message"));
    // The priority is one that there is not.
    let at = envelope.windows(3).position(|w| w == [0x47, 1, 0]).expect("the priority");
    let mut broken = envelope.to_vec();
    broken[at + 2] = 9;
    let apdu = [message_prefix(&broken, content.len() as u64), content.to_vec()].concat();
    let events = crate::joined(crate::events(&[&apdu]));
    let [
        ApduEvent::Envelope { envelope: Err(found), content_bytes, .. },
        ApduEvent::Content(passed),
    ] = &events[..]
    else {
        panic!("{events:?}");
    };
    assert_eq!(found.error.field, "priority");
    assert!(found.is_reportable());
    assert_eq!((*content_bytes, passed), (Some(content.len() as u64), &content));
    assert!(found.to_string().starts_with("priority: not a priority (octet "), "{found}");
}

#[test]
fn times() {
    for (text, wall) in [
        ("791231235959Z", "2079-12-31T23:59:59.000Z"),
        ("800101000000Z", "1980-01-01T00:00:00.000Z"),
        ("2611220600Z", "2026-11-22T06:00:00.000Z"),
        ("261122060000+0100", "2026-11-22T05:00:00.000Z"),
        ("261122060000-0530", "2026-11-22T11:30:00.000Z"),
        ("20261122060000Z", "2026-11-22T06:00:00.000Z"),
    ] {
        let time = UtcTime::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
        assert_eq!(time.wall.to_string(), wall, "{text}");
        assert_eq!(UtcTime::parse(time.to_text().as_bytes()), Some(time));
    }
    for text in [
        "",
        "Z",
        "261122060000",
        "26112206Z",
        "261322060000Z",
        "261122060000+1",
        "261122060000+2400",
        "2611220600zz",
        "26112x060000Z",
        "260230000000Z",
    ] {
        assert_eq!(UtcTime::parse(text.as_bytes()), None, "{text}");
    }
    let time = UtcTime::parse(b"261122060000+0100").expect("a time");
    assert_eq!(time.to_rfc5322(), "Sun, 22 Nov 2026 06:00:00 +0100");
}

#[test]
fn identifiers_as_text() {
    for text in ["[/PRMD=p/ADMD=a/C=gb/;local]", "[/ADMD= /C=gb/;a;b]"] {
        assert_eq!(x400::mts::MtsIdentifier::parse(text).expect(text).to_string(), text);
    }
    for text in ["", "[]", "[/C=gb/]", "[/O=x/;a]", "/C=gb/;a"] {
        assert_eq!(x400::mts::MtsIdentifier::parse(text), None, "{text}");
    }
}
