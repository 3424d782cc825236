//! Our two ends with each other: each mode, with and without checkpoints and turns, cut anywhere.

use bytes::Bytes;
use proptest::prelude::*;
use x400::association::{
    AbortReason, AssociationEnd, BindError, Event, ExceptionReason, InitiatorSettings, Layer, Mode,
    ResponderSettings, Selectors,
};
use x400::testing::driver::{initiator, initiator_settings, responder};
use x400::testing::said::names;
use x400::testing::talk::Talk;

const MODES: [Mode; 3] = [Mode::Normal, Mode::X410, Mode::X410Of1984];

fn talk(initiator_settings: InitiatorSettings, responder_settings: ResponderSettings) -> Talk {
    Talk::new(initiator(initiator_settings), responder(responder_settings))
}

/// Octets that are BER, as an APDU is, of this length or a little more.
fn apdu(bytes: usize) -> Bytes {
    let mut writer = x400::ber::Writer::new();
    writer.constructed(x400::ber::Tag::context(0), |inner| {
        let content: Vec<u8> = (0..bytes).map(|n| (n * 7 + n / 251) as u8).collect();
        inner.primitive(x400::ber::Tag::OCTET_STRING, &content);
    });
    Bytes::from(writer.into_vec())
}

fn transferred(talk: &Talk, apdus: &[Bytes]) {
    let received: Vec<&[u8]> = talk.responder.received.iter().map(Vec::as_slice).collect();
    assert!(received == apdus.iter().map(|apdu| &apdu[..]).collect::<Vec<_>>(), "contents differ");
    let acknowledged =
        talk.initiator.events.iter().filter(|event| **event == Event::Acknowledged).count();
    assert_eq!(acknowledged, apdus.len());
    assert_eq!(talk.initiator.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
    assert_eq!(talk.responder.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
}

#[test]
fn every_size_in_every_mode() {
    for mode in MODES {
        for (checkpoint_kib, tpdu_bytes) in
            [(0, 65_408), (0, 2_048), (1, 128), (1, 65_408), (64, 8_192)]
        {
            let settings = InitiatorSettings {
                mode,
                checkpoint_kib,
                tpdu_bytes,
                window: 2,
                ..initiator_settings()
            };
            let mut talk = talk(settings, ResponderSettings::default());
            let apdus = [0, 1, 100, 1_015, 1_016, 1_017, 2_048, 65_000, 66_000, 1_000_000]
                .map(apdu)
                .to_vec();
            talk.initiator.policy.to_send.clone_from(&apdus);
            talk.initiator.policy.releases = true;
            talk.run(&[usize::MAX]);
            transferred(&talk, &apdus);
            let Some(Event::Bind(bind)) = talk.responder.events.first() else { panic!("no bind") };
            assert_eq!((bind.mode, bind.checkpoint_kib, bind.window), (mode, checkpoint_kib, 2));
            assert_eq!(bind.identity.name.as_deref(), Some("a.test"));
            assert!(
                bind.identity.password.as_ref().is_some_and(|password| password.is(b"secreta"))
            );
        }
    }
}

#[test]
fn a_small_message_is_one_buffer() {
    let mut talk = talk(initiator_settings(), ResponderSettings::default());
    talk.run(&[usize::MAX]);
    let before = talk.initiator.buffers;
    talk.initiator
        .machine
        .transfer([Bytes::from(vec![0xA0; 400]), Bytes::from(vec![0; 1_000])], talk.initiator.now);
    talk.initiator.run();
    assert_eq!(talk.initiator.buffers - before, 1);
    // Larger content stays where it is: framing before it and behind it.
    talk.run(&[usize::MAX]);
    let before = talk.initiator.buffers;
    talk.initiator
        .machine
        .transfer([Bytes::from(vec![0xA0; 400]), Bytes::from(vec![0; 50_000])], talk.initiator.now);
    talk.initiator.run();
    assert_eq!(talk.initiator.buffers - before, 3);
}

#[test]
fn an_apdu_without_octets_is_one_too() {
    for mode in MODES {
        let mut talk =
            talk(InitiatorSettings { mode, ..initiator_settings() }, ResponderSettings::default());
        talk.initiator.policy.to_send = vec![Bytes::new()];
        talk.initiator.policy.releases = true;
        talk.run(&[1]);
        transferred(&talk, &[Bytes::new()]);
    }
}

#[test]
fn selectors_go_along() {
    let selectors = |name: &str| Selectors {
        t: format!("{name}-t").into(),
        s: format!("{name}-s").into(),
        p: format!("{name}-p").into(),
    };
    let settings = InitiatorSettings {
        called: selectors("theirs"),
        calling: selectors("ours"),
        ..initiator_settings()
    };
    let mut talk = talk(
        settings,
        ResponderSettings { t_selectors: vec!["theirs-t".into()], ..ResponderSettings::default() },
    );
    talk.run(&[1]);
    let Some(Event::Bind(bind)) = talk.responder.events.first() else { panic!("no bind") };
    assert_eq!((&bind.called, &bind.calling), (&selectors("theirs"), &selectors("ours")));
    let Some(Event::Bound(bound)) = talk.initiator.events.first() else { panic!("not bound") };
    assert_eq!(
        (&bound.responding.s[..], &bound.responding.p[..]),
        (&b"theirs-s"[..], &b"theirs-p"[..])
    );
}

#[test]
fn a_bind_is_refused_with_its_reason() {
    let errors = [
        BindError::Busy,
        BindError::Authentication,
        BindError::DialogueMode,
        BindError::SecurityContext,
    ];
    for mode in MODES {
        for error in errors {
            let mut talk = talk(
                InitiatorSettings { mode, ..initiator_settings() },
                ResponderSettings::default(),
            );
            talk.initiator.run();
            let mut heard = 0;
            // By hand: the driver would accept.
            let mut machine =
                x400::association::Responder::new(ResponderSettings::default(), talk.initiator.now);
            for _ in 0..2 {
                let octets = talk.initiator.output[heard..].to_vec();
                heard = talk.initiator.output.len();
                machine.handle_input(Bytes::from(octets), talk.initiator.now);
                if let Some(event) = machine.poll_event() {
                    assert!(matches!(event, Event::Bind(_)), "{event:?}");
                    assert_eq!(machine.next_deadline(), None, "the decision is the caller's");
                    machine.refuse(error, talk.initiator.now);
                }
                let answer: Vec<u8> = machine.take_output().concat();
                talk.initiator.feed(&answer);
            }
            let Some(Event::Ended(AssociationEnd::Refused(refusal))) = talk.initiator.events.last()
            else {
                panic!("{:?}", talk.initiator.events)
            };
            // X.410 mode has one word for all that concerns security.
            let wanted = match (mode, error) {
                (Mode::X410 | Mode::X410Of1984, BindError::SecurityContext) => {
                    BindError::Authentication
                }
                (_, error) => error,
            };
            assert_eq!((refusal.layer, refusal.error), (Layer::Transfer, Some(wanted)), "{mode:?}");
            assert_eq!(refusal.is_permanent, error != BindError::Busy);
        }
    }
}

#[test]
fn the_other_mode_is_told_apart() {
    // X.410 of 1988 and of 1984 differ in one number.
    let mut seen = Vec::new();
    for mode in MODES {
        let mut talk =
            talk(InitiatorSettings { mode, ..initiator_settings() }, ResponderSettings::default());
        talk.run(&[usize::MAX]);
        let Some(Event::Bind(bind)) = talk.responder.events.first() else { panic!("no bind") };
        seen.push(bind.mode);
    }
    assert_eq!(seen, MODES);
}

#[test]
fn an_apdu_is_refused_and_the_next_one_taken() {
    for mode in MODES {
        for refuses_behind in [None, Some(10), Some(3_000)] {
            let settings = InitiatorSettings { mode, checkpoint_kib: 1, ..initiator_settings() };
            let mut talk = talk(settings, ResponderSettings::default());
            talk.initiator.policy.to_send = vec![apdu(10_000)];
            talk.responder.policy.acknowledges = Some(false);
            talk.responder.policy.refuses_behind = refuses_behind;
            talk.run(&[usize::MAX]);
            let reason = ExceptionReason::TemporarilyUnable;
            assert_eq!(talk.initiator.events.last(), Some(&Event::NotTaken(reason)), "{mode:?}");
            assert_eq!(talk.responder.events.last(), Some(&Event::ActivityDropped));
            talk.responder.policy.acknowledges = Some(true);
            talk.responder.policy.refuses_behind = None;
            talk.initiator.policy.to_send.push(apdu(5_000));
            talk.initiator.policy.releases = true;
            talk.run(&[usize::MAX]);
            assert_eq!(talk.responder.received, [apdu(5_000)]);
            assert_eq!(talk.initiator.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
        }
    }
}

#[test]
fn a_transfer_that_is_given_up_in_the_middle_of_a_tpdu() {
    for (mode, given) in
        [(Mode::Normal, 1), (Mode::Normal, 70_000), (Mode::X410, 1), (Mode::X410, 65_405)]
    {
        let mut talk =
            talk(InitiatorSettings { mode, ..initiator_settings() }, ResponderSettings::default());
        talk.run(&[usize::MAX]);
        let now = talk.initiator.now;
        talk.initiator.machine.begin_transfer(200_000, now);
        assert!(talk.initiator.machine.wants_content());
        talk.initiator.machine.push_content(Bytes::from(vec![0x04; given]), now);
        assert!(talk.initiator.machine.wants_content());
        talk.initiator.machine.discard_transfer(now);
        talk.run(&[usize::MAX]);
        assert_eq!(
            talk.initiator.events.last(),
            Some(&Event::NotTaken(ExceptionReason::LocalError))
        );
        assert_eq!(talk.responder.events.last(), Some(&Event::ActivityDropped));
        assert!(talk.responder.received.is_empty());
        assert!(talk.initiator.machine.is_ready());
    }
}

#[test]
fn content_waits_for_the_window() {
    let settings = InitiatorSettings { checkpoint_kib: 1, window: 1, ..initiator_settings() };
    let mut talk = talk(settings, ResponderSettings::default());
    talk.run(&[usize::MAX]);
    let now = talk.initiator.now;
    talk.initiator.machine.begin_transfer(3_000, now);
    talk.initiator.machine.push_content(Bytes::from(vec![0x04; 2_000]), now);
    assert!(!talk.initiator.machine.wants_content(), "1,024 octets went, a checkpoint is open");
    let said = talk.initiator.output.len();
    talk.initiator.run();
    assert_eq!(names(&talk.initiator.output[said..]), ["AS", "DT", "MIP 1"]);
    // The slice behind the window lacks octets: its TSDU is not whole.
    talk.initiator.feed(&crate::hex::packet(&crate::hex::hex("0200 3203 2a0131")));
    assert!(talk.initiator.machine.wants_content());
    talk.initiator.machine.push_content(Bytes::from(vec![0x04; 1_000]), now);
    talk.initiator.run();
    talk.run(&[usize::MAX]);
    assert_eq!(talk.initiator.events.last(), Some(&Event::Acknowledged));
    assert_eq!(talk.responder.received, [vec![0x04; 3_000]]);
}

#[test]
fn both_transfer_when_they_have_the_turn() {
    for mode in MODES {
        let settings = InitiatorSettings { mode, two_way: true, ..initiator_settings() };
        let mut talk = talk(settings, ResponderSettings::default());
        talk.run(&[usize::MAX]);
        talk.responder.policy.to_send = vec![apdu(10), apdu(3_000)];
        // The initiator is in the middle of its own when it is asked.
        let now = talk.initiator.now;
        talk.initiator.machine.begin_transfer(apdu(20).len() as u64, now);
        talk.responder.machine.request_turn(2, now);
        talk.responder.run();
        let asked = talk.responder.output.len();
        assert_eq!(names(&talk.responder.output).last().map(String::as_str), Some("PT"));
        talk.run(&[usize::MAX]);
        assert!(!talk.initiator.machine.is_ready());
        talk.initiator.machine.push_content(apdu(20), now);
        talk.run(&[3, 50]);
        assert!(talk.responder.output.len() > asked);
        assert_eq!(talk.initiator.received, [apdu(10), apdu(3_000)], "{mode:?}");
        assert_eq!(talk.responder.received, [apdu(20)]);
        assert!(!talk.initiator.machine.is_ready(), "the turn is the responder's");
        // Release needs the turn: it is asked for, and given.
        talk.initiator.machine.release(talk.initiator.now);
        talk.run(&[usize::MAX]);
        assert_eq!(talk.initiator.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
        assert_eq!(talk.responder.events.last(), Some(&Event::Ended(AssociationEnd::Released)));
    }
}

#[test]
fn an_abort_says_why() {
    for mode in MODES {
        let mut talk =
            talk(InitiatorSettings { mode, ..initiator_settings() }, ResponderSettings::default());
        talk.run(&[usize::MAX]);
        talk.responder.machine.abort(AbortReason::TemporaryProblem, talk.responder.now);
        talk.responder.run();
        talk.run(&[1]);
        let (layer, reason) = (Layer::ReliableTransfer, Some(AbortReason::TemporaryProblem));
        assert_eq!(
            talk.initiator.events.last(),
            Some(&Event::Ended(AssociationEnd::AbortedByPeer { layer, reason }))
        );
        let ours = AssociationEnd::AbortedByUs(AbortReason::TemporaryProblem);
        assert_eq!(talk.responder.events.last(), Some(&Event::Ended(ours)));
        assert!(talk.responder.machine.is_closed() && talk.initiator.machine.is_closed());
    }
}

#[test]
fn a_broken_apdu_passes_whole() {
    let broken: [&[u8]; 6] = [
        // A length beyond the end, an indefinite one that is never closed, one that is cut, too deep, a stray end.
        &[0xA0, 0x82, 0x10, 0x00, 0x31, 0x00],
        &[0xA0, 0x80, 0x31, 0x80, 0x04, 0x01, 0x61],
        &[0xA0],
        &[0x30, 0x80].repeat(50),
        &[0xA0, 0x80, 0x31, 0x80, 0x00, 0x05, 0x61],
        &[0xA0, 0x80, 0x31, 0x80, 0x00, 0x81, 0x00, 0x61],
    ];
    for apdu in broken {
        for piece in [usize::MAX, 1] {
            let mut talk = talk(initiator_settings(), ResponderSettings::default());
            let apdu = Bytes::copy_from_slice(apdu);
            talk.initiator.policy.to_send = vec![apdu.clone()];
            talk.initiator.policy.releases = true;
            talk.run(&[piece]);
            transferred(&talk, &[apdu]);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_agreed_and_however_it_is_cut(
        mode in proptest::sample::select(&MODES[..]),
        checkpoint_kib in 0_u32..5,
        responder_kib in 0_u32..3,
        window in 1_u32..5,
        tpdu_bytes in 128_usize..70_000,
        responder_tpdu_bytes in 128_usize..70_000,
        sizes in proptest::collection::vec(0_usize..20_000, 0..5),
        cut in proptest::collection::vec(1_usize..5_000, 1..5),
    ) {
        let settings = InitiatorSettings { mode, checkpoint_kib, window, tpdu_bytes, ..initiator_settings() };
        let responder_settings = ResponderSettings {
            checkpoint_kib: responder_kib,
            tpdu_bytes: responder_tpdu_bytes,
            ..ResponderSettings::default()
        };
        let mut talk = talk(settings, responder_settings);
        let apdus: Vec<Bytes> = sizes.into_iter().map(apdu).collect();
        talk.initiator.policy.to_send.clone_from(&apdus);
        talk.initiator.policy.releases = true;
        talk.run(&cut);
        transferred(&talk, &apdus);
    }
}
