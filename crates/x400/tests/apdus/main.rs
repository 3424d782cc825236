//! MTS-APDUs: those of other implementations, cut everywhere, and a thousand made up.

mod codecs;
mod contents;
mod downgrade;
mod generate;
mod golden;
mod limits;
mod mutations;
mod relay;
mod reports;
mod round_trip;

use bytes::Bytes;
use x400::mts::{ApduEvent, ApduReader, Limits, ReportContent, ReportEnvelope, TransferEnvelope};

/// An APDU of the golden ones.
fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/apdus/golden/{name}.ber", env!("CARGO_MANIFEST_DIR"));
    read_file(&path)
}

#[allow(clippy::disallowed_methods)]
fn read_file(path: &str) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// What a reader says of octets that come in these pieces.
fn events(pieces: &[&[u8]]) -> Vec<ApduEvent> {
    let mut reader = ApduReader::new(Limits::default());
    let mut events = Vec::new();
    for piece in pieces {
        reader.handle_input(&Bytes::copy_from_slice(piece)).expect("an APDU");
        events.extend(std::iter::from_fn(|| reader.poll_event()));
    }
    reader.finish().expect("a whole APDU");
    assert!(reader.is_done());
    events
}

/// The events with neighbouring content put together.
fn joined(events: Vec<ApduEvent>) -> Vec<ApduEvent> {
    let mut joined: Vec<ApduEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(ApduEvent::Content(before)), ApduEvent::Content(more)) => {
                *before = Bytes::from([before.as_ref(), more.as_ref()].concat());
            }
            (_, event) => joined.push(event),
        }
    }
    joined
}

/// A message's or a probe's envelope, its octets and its content.
fn message(octets: &[u8]) -> (TransferEnvelope, Bytes, Bytes) {
    let events = joined(events(&[octets]));
    let [ApduEvent::Envelope { octets, envelope: Ok(envelope), .. }, rest @ ..] = &events[..]
    else {
        panic!("{events:?}");
    };
    let content = match rest {
        [ApduEvent::Content(content)] => content.clone(),
        [] => Bytes::new(),
        _ => panic!("{events:?}"),
    };
    ((**envelope).clone(), octets.clone(), content)
}

/// A report's envelope, its octets and its content.
fn report(octets: &[u8]) -> (ReportEnvelope, Bytes, ReportContent) {
    let events = joined(events(&[octets]));
    let [ApduEvent::Report { octets, envelope: Ok(envelope) }, ApduEvent::Content(content)] =
        &events[..]
    else {
        panic!("{events:?}");
    };
    let content = ReportContent::read(content, &Limits::default()).expect("content");
    ((**envelope).clone(), octets.clone(), content)
}
