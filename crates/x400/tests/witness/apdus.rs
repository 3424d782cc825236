//! Wireshark's dissectors read a thousand MTS-APDUs that we made, in one association.

use crate::generate::{Generator, Made};
use crate::pcap;
use crate::tshark::dissect;
use bytes::Bytes;
use mail::Random;
use x400::association::{InitiatorSettings, ResponderSettings};
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
