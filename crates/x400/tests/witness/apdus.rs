//! Wireshark's dissectors read a thousand MTS-APDUs that we made, in one association.

use crate::generate::{Generator, Made};
use crate::pcap;
use crate::tshark::dissect;
use bytes::Bytes;
use mail::Random;
use x400::association::{InitiatorSettings, ResponderSettings};
use x400::content::Content;
use x400::mts::reader::read_whole;
use x400::mts::{ApduEvent, ContentType, Limits};
use x400::testing::driver::{initiator, initiator_settings, responder};
use x400::testing::talk::Talk;

#[test]
fn a_thousand_apdus() {
    let mut generator = Generator { random: Random::new(0x5a), has_zones: true };
    let made: Vec<Made> = (0..1_000).map(|_| generator.apdu()).collect();
    let settings = InitiatorSettings { tpdu_bytes: 65_408, ..initiator_settings() };
    let mut talk = Talk::new(initiator(settings), responder(ResponderSettings::default()));
    talk.initiator.policy.to_send = made.iter().map(|made| Bytes::from(made.encode())).collect();
    talk.run(&[usize::MAX]);
    assert_eq!(talk.responder.received.len(), made.len());
    let path = pcap::write("apdus", &talk.wire);
    let text = dissect(&path);
    let count = |wanted: fn(&Made) -> bool| made.iter().filter(|made| wanted(made)).count();
    let messages = count(|made| matches!(made, Made::Message(..)));
    let reports = count(|made| matches!(made, Made::Report(..)));
    let probes = count(|made| matches!(made, Made::Probe(_)));
    for (choice, wanted) in
        [("message (0)", messages), ("report (1)", reports), ("probe (2)", probes)]
    {
        let found = text.matches(&format!("MTS-APDU: {choice}")).count();
        assert_eq!(found, wanted, "{choice}");
    }
    // Priorities other than the default one, as Wireshark reads them.
    let priorities: usize = ["non-urgent (1)", "urgent (2)"]
        .map(|name| text.matches(&format!("priority: {name}")).count())
        .iter()
        .sum();
    let written = made.iter().filter(
        |made| matches!(made, Made::Message(envelope, _) if envelope.priority.number() != 0),
    );
    assert_eq!(priorities, written.count());
}

/// What PP transferred, in the protocol of 1988 and in that of 1984.
#[test]
fn captured_messages() {
    for (capture, edition) in [
        (include_str!("../association/golden/pp2pp.hex"), 1988),
        (include_str!("../association/golden/pp84.hex"), 1984),
    ] {
        let octets = crate::captured_apdu(capture);
        let (event, content) = read_whole(&octets, Limits::default()).expect("an APDU");
        let ApduEvent::Envelope { envelope: Ok(envelope), .. } = event else { panic!("{event:?}") };
        assert_eq!(envelope.originator.address.country.as_deref(), Some("GB"), "{edition}");
        assert!(envelope.recipients.iter().all(|r| r.indicators.is_responsible()));
        // Internal trace is an extension, and 1984 has none.
        assert_eq!(envelope.internal_trace().len(), usize::from(edition == 1988));
        assert_eq!(envelope.extensions.0.is_empty(), edition == 1984);
        let content_type = if edition == 1984 { ContentType::P2 } else { ContentType::P22 };
        assert_eq!(envelope.content_type, content_type, "{edition}");
        assert!(matches!(Content::read(&content), Ok(Content::Message(_))));
    }
}
