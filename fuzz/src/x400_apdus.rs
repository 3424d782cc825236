//! MTS-APDUs from anything: how a stream is cut changes nothing; what is read is written so that it reads the same; a
//! relay adds what it should, and nothing else moves.

use crate::stream::{Cut, in_pieces};
use bytes::Bytes;
use x400::mts::relay::{EnvelopeRewrite, RecipientChange, relay, relay_report};
use x400::mts::trace::Supplied;
use x400::mts::{
    ApduEvent, ApduReader, EnvelopeKind, GlobalDomain, InternalTraceElement, Limits, ReportContent,
    ReportEnvelope, TRACE_MAX, TraceElement, TransferEnvelope,
};

/// What an APDU may have here: few enough to be over it at times.
const LIMITS: Limits = Limits { envelope_bytes_max: 2_048, recipients_max: 8 };

/// The first byte is how the stream is cut.
pub fn run(data: &[u8]) {
    let Some((&order, octets)) = data.split_first() else { return };
    let whole = events(octets, Cut::Whole);
    for cut in [Cut::Bytes, Cut::Seeded(order)] {
        let other = events(octets, cut);
        assert_eq!(whole.is_ok(), other.is_ok(), "{cut:?}");
        if whole.is_ok() {
            assert_eq!(whole, other, "{cut:?} makes a difference");
        }
    }
    for event in whole.into_iter().flatten() {
        check(&event);
    }
}

/// The events, content put together; an error without what came before it.
fn events(octets: &[u8], cut: Cut) -> Result<Vec<ApduEvent>, String> {
    let mut reader = ApduReader::new(LIMITS);
    let (mut all, mut fault) = (Vec::new(), None);
    in_pieces(octets, cut, |piece| {
        if fault.is_none() {
            fault = reader.handle_input(&Bytes::copy_from_slice(piece)).err();
        }
        while let Some(event) = reader.poll_event() {
            match (all.last_mut(), event) {
                (Some(ApduEvent::Content(before)), ApduEvent::Content(more)) => {
                    *before = Bytes::from([before.as_ref(), more.as_ref()].concat());
                }
                (_, event) => all.push(event),
            }
        }
    });
    match fault {
        Some(fault) => Err(fault.to_string()),
        None => reader.finish().map(|()| all).map_err(|error| error.to_string()),
    }
}

fn check(event: &ApduEvent) {
    match event {
        ApduEvent::Envelope { octets, envelope: Ok(envelope), .. } => {
            let written = envelope.encode();
            let read = TransferEnvelope::read(&written, envelope.kind, &Limits::default());
            assert_eq!(read.expect("what was written").encode(), written);
            let _ = (x400::report::Subject::from(&**envelope), envelope.internal_trace());
            check_relay(octets, envelope);
        }
        ApduEvent::Report { octets, envelope: Ok(envelope) } => {
            let written = envelope.encode();
            assert_eq!(ReportEnvelope::read(&written).expect("what was written").encode(), written);
            let same = relay_report(octets, &EnvelopeRewrite::default()).expect("an envelope");
            assert_eq!(ReportEnvelope::read(&same).as_ref(), Ok(&**envelope));
        }
        ApduEvent::Content(octets) => {
            if let Ok(content) = ReportContent::read(octets, &LIMITS) {
                let written = content.encode();
                let read = ReportContent::read(&written, &Limits::default());
                assert_eq!(read.expect("what was written").encode(), written);
            }
        }
        ApduEvent::Envelope { envelope: Err(broken), .. } => {
            assert!(!broken.to_string().contains('\n'));
            let _ = x400::report::Subject::of_broken(broken);
        }
        ApduEvent::Report { envelope: Err(_), .. } => {}
    }
}

fn check_relay(octets: &[u8], envelope: &TransferEnvelope) {
    let domain = GlobalDomain { country: "GB".into(), admd: " ".into(), prmd: None };
    let trace = TraceElement { domain: domain.clone(), supplied: Supplied::default() };
    let internal =
        InternalTraceElement { domain, mta: "relay".into(), supplied: Supplied::default() };
    let recipients = [RecipientChange::Responsibility(true)];
    let same = relay(octets, &EnvelopeRewrite::default()).expect("an envelope");
    let read = |octets: &[u8]| TransferEnvelope::read(octets, envelope.kind, &Limits::default());
    assert_eq!(read(&same).as_ref(), Ok(envelope));
    let changes = EnvelopeRewrite {
        trace: Some(&trace),
        recipients: &recipients,
        ..EnvelopeRewrite::default()
    };
    let changed = relay(octets, &changes).expect("an envelope");
    if envelope.trace.len() < TRACE_MAX {
        let read = read(&changed).expect("an envelope");
        assert_eq!(read.trace.len(), envelope.trace.len() + 1);
        assert_eq!(read.extensions, envelope.extensions);
        let ours = read.recipients.first().map(|first| first.indicators.is_responsible());
        assert_eq!(ours, Some(true));
        assert_eq!(read.recipients.get(1..), envelope.recipients.get(1..));
    }
    // Internal trace may be broken in a way that nobody looked at before.
    let changes = EnvelopeRewrite { internal_trace: Some(&internal), ..EnvelopeRewrite::default() };
    let _ = relay(octets, &changes);
    assert!(envelope.kind == EnvelopeKind::Probe || octets.first() == Some(&0x31));
}
