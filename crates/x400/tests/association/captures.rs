//! Conversations of PP 6.0, and of a client in Python with it, captured on the wire; `golden/*.hex` has the
//! frames: number, sender's port, octets.

use crate::hex::{hex, packet};
use bytes::Bytes;
use x400::association::{
    AbortReason, AssociationEnd, BindError, Event, InitiatorSettings, Layer, Mode, Refusal,
    ResponderSettings, Selectors,
};
use x400::ber::{Reader, Tag};
use x400::session::Spdu;
use x400::testing::driver::{Driver, identity, initiator, initiator_settings, responder};
use x400::testing::said::{Said, names, said};

/// What one side said without being answered, and which side.
struct Turn {
    by_initiator: bool,
    octets: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Capture {
    name: &'static str,
    pub(crate) mode: Mode,
    t_selector: &'static str,
    /// (initiator's name, password)
    who: (&'static str, &'static str),
    checkpoint_kib: (u32, u32),
    apdus: usize,
    text: &'static str,
}

macro_rules! capture {
    ($name:literal, $mode:expr, $t:literal, $who:expr, $kib:expr, $apdus:literal) => {
        Capture {
            name: $name,
            mode: $mode,
            t_selector: $t,
            who: $who,
            checkpoint_kib: $kib,
            apdus: $apdus,
            text: include_str!(concat!("golden/", $name, ".hex")),
        }
    };
}

/// Who, what was proposed and what was answered, and how many APDUs.
pub(crate) const CAPTURES: [Capture; 8] = [
    capture!("ping88", Mode::Normal, "x400in88", ("a.test", "secreta"), (63, 1), 0),
    capture!("pp2pp", Mode::Normal, "x400in88", ("a.test", "secreta"), (63, 1), 1),
    capture!("pp2pp_ck", Mode::Normal, "x400in88", ("a.test", "secreta"), (63, 1), 1),
    capture!("pp_ndr", Mode::Normal, "x400in88", ("a.test", "secreta"), (63, 1), 1),
    capture!("ping84", Mode::X410Of1984, "x400in84", ("a.test", "secreta"), (63, 1), 0),
    capture!("pp84", Mode::X410Of1984, "x400in84", ("a.test", "secreta"), (63, 1), 1),
    capture!("py2pp", Mode::Normal, "x400in88", ("client.test", "secretc"), (0, 1), 1),
    capture!("py2pp_ck", Mode::Normal, "x400in88", ("client.test", "secretc"), (1, 1), 1),
];

impl Capture {
    fn turns(&self) -> Vec<Turn> {
        let frames = self.text.lines().map(|line| {
            let mut columns = line.split('\t');
            let (_, port, octets) = (columns.next(), columns.next(), columns.next());
            (port.expect("a port"), hex(octets.expect("octets")))
        });
        let mut turns: Vec<Turn> = Vec::new();
        let mut first = None;
        for (port, octets) in frames {
            let by_initiator = *first.get_or_insert(port) == port;
            match turns.last_mut() {
                Some(turn) if turn.by_initiator == by_initiator => turn.octets.extend(octets),
                _ => turns.push(Turn { by_initiator, octets }),
            }
        }
        turns
    }

    pub(crate) fn side(&self, by_initiator: bool) -> Vec<u8> {
        let turns = self.turns().into_iter().filter(|turn| turn.by_initiator == by_initiator);
        turns.flat_map(|turn| turn.octets).collect()
    }

    /// What was recorded from the responder, in names: PP acknowledges each checkpoint once.
    fn answers(&self) -> Vec<String> {
        names(&self.side(false))
    }

    /// The responder's checkpoint size.
    fn responder(&self) -> Driver<x400::association::Responder> {
        responder(ResponderSettings {
            t_selectors: vec![b"other".to_vec(), self.t_selector.into()],
            checkpoint_kib: 1,
            ..ResponderSettings::default()
        })
    }

    /// Our responder hears the initiator.
    fn replay(&self, piece: usize) -> Driver<x400::association::Responder> {
        let mut driver = self.responder();
        for turn in self.turns().iter().filter(|turn| turn.by_initiator) {
            driver.feed_cut(&turn.octets, piece);
        }
        driver
    }

    fn apdus(&self) -> Vec<Vec<u8>> {
        self.replay(usize::MAX).received
    }
}

#[test]
fn our_responder_answers_recorded_initiators_as_the_recorded_responder_did() {
    for capture in &CAPTURES {
        let driver = capture.replay(usize::MAX);
        let name = capture.name;
        let Some(Event::Bind(bind)) = driver.events.first() else {
            panic!("{name}: {:?}", driver.events)
        };
        assert_eq!(bind.mode, capture.mode, "{name}");
        assert_eq!(bind.identity, identity(capture.who.0, capture.who.1), "{name}");
        assert_eq!(bind.called.t, capture.t_selector.as_bytes(), "{name}");
        assert_eq!((bind.checkpoint_kib, bind.window), (capture.checkpoint_kib.0, 3), "{name}");
        assert!(!bind.two_way && !bind.has_strong_credentials, "{name}");
        // pp_ndr: PP's receiver crashed on the report.
        if name == "pp_ndr" {
            assert_eq!(driver.received.len(), 1);
        } else {
            assert_eq!(names(&driver.output), capture.answers(), "{name}");
            assert_eq!(
                driver.events.last(),
                Some(&Event::Ended(AssociationEnd::Released)),
                "{name}"
            );
            assert!(driver.machine.is_closed(), "{name}: the initiator disconnected");
        }
        assert_eq!(driver.received.len(), capture.apdus, "{name}");
        for apdu in &driver.received {
            let mut reader = Reader::new(apdu);
            let element = reader.any().expect("an APDU");
            assert_eq!(element.tag, Tag::context(if name == "pp_ndr" { 1 } else { 0 }), "{name}");
            reader.end().expect("no more than an APDU");
        }
    }
}

#[test]
fn how_recorded_initiators_are_cut_changes_nothing() {
    for capture in &CAPTURES {
        let whole = capture.replay(usize::MAX);
        for piece in [1, 2, 3, 5, 7, 11, 64, 1_000] {
            let cut = capture.replay(piece);
            assert_eq!(cut.events, whole.events, "{} by {piece}", capture.name);
            assert_eq!(cut.contents, whole.contents, "{} by {piece}", capture.name);
            assert!(cut.output == whole.output, "{} by {piece}", capture.name);
        }
    }
}

#[test]
fn our_initiator_says_what_recorded_initiators_said() {
    for capture in CAPTURES.iter().filter(|capture| capture.name != "pp_ndr") {
        let apdus = capture.apdus();
        for piece in [usize::MAX, 1, 3] {
            let mut driver = initiator(InitiatorSettings {
                mode: capture.mode,
                called: Selectors { t: capture.t_selector.into(), ..Selectors::default() },
                identity: identity(capture.who.0, capture.who.1),
                checkpoint_kib: capture.checkpoint_kib.0,
                tpdu_bytes: 2_048,
                ..initiator_settings()
            });
            driver.policy.to_send = apdus.iter().cloned().map(Bytes::from).collect();
            driver.policy.releases = true;
            driver.run();
            let recorded = capture.turns();
            for turn in recorded.iter().filter(|turn| !turn.by_initiator) {
                // PP's references are as ours were not: an initiator doesn't look at them.
                driver.feed_cut(&turn.octets, piece);
            }
            let name = capture.name;
            let Some(Event::Bound(bound)) = driver.events.first() else {
                panic!("{name}: {:?}", driver.events)
            };
            let name_of_peer = bound.identity.name.as_deref();
            assert!(matches!(name_of_peer, Some("a.test" | "b.test")), "{name}: {name_of_peer:?}");
            assert_eq!(
                (bound.checkpoint_kib, bound.window, bound.tpdu_bytes),
                (capture.checkpoint_kib.1, 3, 2_048)
            );
            let acknowledged =
                driver.events.iter().filter(|event| **event == Event::Acknowledged).count();
            assert_eq!(acknowledged, capture.apdus, "{name}");
            assert_eq!(
                driver.events.last(),
                Some(&Event::Ended(AssociationEnd::Released)),
                "{name}"
            );
            assert!(driver.machine.is_closed(), "{name}");
            let ours: Vec<String> = names(&driver.output);
            let theirs: Vec<String> = names(&capture.side(true));
            // Our EXTERNAL is some octets shorter, which may save a slice; and py2pp didn't obey the answer.
            if name != "py2pp" {
                assert_eq!(ours, theirs, "{name}");
            }
            assert_same_request(&driver.output, capture);
        }
    }
}

/// CR and CN say the same to a responder.
fn assert_same_request(ours: &[u8], capture: &Capture) {
    let mut driver = capture.responder();
    driver.policy.acknowledges = None;
    driver.feed(&capture.turns()[0].octets);
    for said in said(ours).into_iter().filter_map(|said| match said {
        Said::Spdu(spdu @ Spdu::Connect(_)) => Some(spdu),
        _ => None,
    }) {
        driver.feed(&packet(&said.encode()));
    }
    let theirs = capture.replay(usize::MAX);
    assert_eq!(driver.events.first(), theirs.events.first(), "{}", capture.name);
}

/// Our end of a session is bound in this mode, and hears the rest.
fn bound_initiator(settings: InitiatorSettings) -> Driver<x400::association::Initiator> {
    let capture = CAPTURES.iter().find(|capture| capture.name == "pp2pp").expect("it is there");
    let mut driver = initiator(settings);
    driver.run();
    let answers = capture.turns();
    for turn in answers.iter().filter(|turn| !turn.by_initiator).take(2) {
        driver.feed(&turn.octets);
    }
    assert!(driver.machine.is_ready(), "{:?}", driver.events);
    driver
}

#[test]
fn a_wrong_password_is_told_by_pp() {
    let capture = CAPTURES.iter().find(|capture| capture.name == "pp2pp").expect("it is there");
    for piece in [usize::MAX, 1] {
        let mut driver = initiator(initiator_settings());
        driver.run();
        let turns = capture.turns();
        let confirm = turns.iter().find(|turn| !turn.by_initiator).expect("CC");
        driver.feed(&confirm.octets);
        driver.feed_cut(&packet(&hex(include_str!("golden/rf_badauth.hex"))), piece);
        let refusal = Refusal {
            layer: Layer::Transfer,
            error: Some(BindError::Authentication),
            is_permanent: true,
            text: "Authentication".into(),
        };
        assert_eq!(driver.events, [Event::Ended(AssociationEnd::Refused(refusal))]);
        assert_eq!(names(&driver.output), ["CR", "CN", "DR 128"]);
        assert!(driver.machine.is_closed());
    }
}

#[test]
fn pp_aborts_within_an_activity() {
    for piece in [usize::MAX, 1] {
        let mut driver = bound_initiator(initiator_settings());
        driver.policy.to_send = vec![Bytes::from_static(&[0xA0, 0x00])];
        driver.run();
        driver.feed_cut(&packet(&hex(include_str!("golden/ab_user.hex"))), piece);
        let end = AssociationEnd::AbortedByPeer {
            layer: Layer::ReliableTransfer,
            reason: Some(AbortReason::UserError),
        };
        assert_eq!(driver.events.last(), Some(&Event::Ended(end)));
        assert!(driver.machine.is_closed());
    }
}

#[test]
fn pp_knows_no_such_t_selector() {
    let tpdu = hex(include_str!("golden/dr_tsel.hex"));
    // The text behind DR's header counts in the packet alone.
    let mut octets = x400::tpkt::header(tpdu.len()).to_vec();
    octets.extend(&tpdu);
    for piece in [usize::MAX, 1] {
        let mut driver = initiator(initiator_settings());
        driver.run();
        driver.feed_cut(&octets, piece);
        let [Event::Ended(AssociationEnd::Refused(refusal))] = &driver.events[..] else {
            panic!("{:?}", driver.events)
        };
        assert_eq!(refusal.layer, Layer::Transport);
        assert!(refusal.text.ends_with("PP Service nosuch not found"), "{refusal:?}");
        assert!(driver.machine.is_closed());
    }
}

#[test]
fn the_turn_goes_to_and_fro_as_pp_did_it() {
    let lines = include_str!("golden/twa.hex")
        .lines()
        .map(|line| (line.starts_with('>'), packet(&hex(&line[1..]))));
    let lines: Vec<(bool, Vec<u8>)> = lines.collect();
    let mut initiator = initiator(InitiatorSettings { two_way: true, ..initiator_settings() });
    let mut responder = responder(ResponderSettings::default());
    initiator.run();
    let mut talk = x400::testing::talk::Talk::new(initiator, responder);
    talk.run(&[usize::MAX]);
    responder = talk.responder;
    let before = responder.output.len();
    for (by_initiator, octets) in &lines {
        if *by_initiator {
            responder.feed(octets);
        }
    }
    let answers: Vec<u8> = lines
        .iter()
        .filter(|(by_initiator, _)| !by_initiator)
        .flat_map(|(_, o)| o.clone())
        .collect();
    assert_eq!(responder.output[before..], answers[..]);
    assert!(responder.events.contains(&Event::TurnTaken));
    // And our initiator gives it, and asks for it.
    let mut initiator = talk.initiator;
    let before = initiator.output.len();
    initiator.machine.give_turn(initiator.now);
    initiator.run();
    initiator.feed(&lines[1].1);
    initiator.machine.request_turn(0, initiator.now);
    initiator.run();
    initiator.feed(&lines[3].1);
    let mut said: Vec<u8> = lines
        .iter()
        .filter(|(by_initiator, _)| *by_initiator)
        .flat_map(|(_, o)| o.clone())
        .collect();
    said.extend(packet(&hex("1600")));
    assert_eq!(initiator.output[before..], said[..]);
    assert!(initiator.events.ends_with(&[Event::TurnGiven, Event::TurnTaken]));
}

/// The lines of a made conversation: who says it, and what.
fn vector(name: &str) -> Vec<(bool, Vec<u8>)> {
    let lines = include_str!("golden/session.txt").lines().filter_map(|line| {
        let mut words = line.split(' ');
        (words.next() == Some(name)).then(|| {
            let by_initiator = words.next() == Some(">");
            (by_initiator, hex(words.next().expect("octets")))
        })
    });
    let lines: Vec<_> = lines.collect();
    assert!(!lines.is_empty(), "{name}");
    lines
}

/// A responder that is bound by pp2pp's initiator.
fn bound_responder() -> Driver<x400::association::Responder> {
    let capture = CAPTURES.iter().find(|capture| capture.name == "pp2pp").expect("it is there");
    let mut driver = capture.responder();
    for turn in capture.turns().iter().filter(|turn| turn.by_initiator).take(2) {
        driver.feed(&turn.octets);
    }
    driver.output.clear();
    driver.events.clear();
    driver
}

#[test]
fn a_responder_hears_the_vectors() {
    for (name, refuses, events) in [
        ("exception_discard", true, &[Event::ActivityStarted, Event::ActivityDropped][..]),
        ("discard_by_sender", false, &[Event::ActivityStarted, Event::ActivityDropped]),
        ("interrupt", false, &[Event::ActivityStarted, Event::ActivityDropped]),
        ("mia_late", false, &[Event::ActivityStarted]),
    ] {
        for piece in [usize::MAX, 1] {
            let mut driver = bound_responder();
            let lines = vector(name);
            for (index, (by_initiator, octets)) in lines.iter().enumerate() {
                if *by_initiator {
                    driver.feed_cut(octets, piece);
                }
                if refuses && index == 0 {
                    let reason = x400::association::ExceptionReason::LocalError;
                    driver.machine.refuse_apdu(reason, driver.now);
                    driver.run();
                }
            }
            assert_eq!(driver.events, events, "{name}");
            let answers: Vec<u8> = lines
                .iter()
                .filter(|(by_initiator, _)| !by_initiator)
                .flat_map(|(_, o)| o.clone())
                .collect();
            if name == "mia_late" {
                // The vector acknowledges three with one; we acknowledge each.
                assert_eq!(names(&driver.output), ["MIA 1", "MIA 2", "MIA 3"]);
            } else {
                assert_eq!(driver.output, answers, "{name}");
                assert!(
                    driver.contents[0].is_empty(),
                    "{name}: the EXTERNAL's front is no content"
                );
            }
        }
    }
}

#[test]
fn an_initiator_hears_the_vectors() {
    let aborted = |layer, reason| Event::Ended(AssociationEnd::AbortedByPeer { layer, reason });
    let temporary = Some(AbortReason::TemporaryProblem);
    let rows = [
        ("rtse_abort", aborted(Layer::ReliableTransfer, temporary), true),
        ("provider_abort_ppdu", aborted(Layer::Presentation, None), true),
        ("session_protocol_abort", aborted(Layer::Session, None), true),
        (
            "exception_discard",
            Event::NotTaken(x400::association::ExceptionReason::LocalError),
            false,
        ),
    ];
    for (name, event, ends) in rows {
        for piece in [usize::MAX, 1] {
            let mut driver = bound_initiator(initiator_settings());
            driver.policy.to_send = vec![Bytes::from(vec![0xA0; 5_000])];
            driver.run();
            for (by_initiator, octets) in vector(name) {
                if !by_initiator {
                    driver.feed_cut(&octets, piece);
                }
            }
            assert_eq!(driver.events.last(), Some(&event), "{name}");
            assert_eq!(driver.machine.is_closed(), ends, "{name}");
            assert_eq!(driver.machine.is_ready(), !ends, "{name}");
            if name == "exception_discard" {
                let discard = &vector(name)[2].1;
                assert!(driver.output.ends_with(discard), "the same AD");
            }
        }
    }
}

#[test]
fn one_late_acknowledgement_confirms_all_before_it() {
    let mut driver = bound_initiator(initiator_settings());
    driver.policy.to_send = vec![Bytes::from(vec![0xA0; 6_000])];
    driver.run();
    // 1 KiB was agreed, with a window of 3: the third checkpoint closes it.
    assert_eq!(names(&driver.output)[3..], ["DT", "MIP 1", "DT", "MIP 2", "DT", "MIP 3"]);
    let said = driver.output.len();
    driver.feed(&vector("mia_late")[1].1);
    assert_eq!(names(&driver.output[said..]), ["DT", "MIP 4", "DT", "MIP 5", "DT", "AE 6"]);
}
