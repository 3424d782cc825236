//! Against what other implementations sent: captured conversations, and vectors that others read.

use super::answer::{Accepted, aborted, accepted, asked, refused};
use super::apdu::{Apdu, apdu, unwrap};
use super::ber::element;
use super::bind::{self, AssociationParameters, Contexts, Mode, MtaCredentials, Reference};
use super::responder::{Responder, ResponderEvent, ResponderPolicy};
use super::spdu::{Spdu, SpduKind};
use super::tpkt::{self, Framed, Frames};
use crate::ledger::ArrivalState;

fn octets(hex: &str) -> Vec<u8> {
    let digits = hex.trim().as_bytes().chunks(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap()).collect()
}

/// What the calling and what the called end sent.
fn conversation(text: &str) -> [Vec<u8>; 2] {
    let mut ends = [Vec::new(), Vec::new()];
    for line in text.lines() {
        let mut words = line.split('\t').skip(1);
        let is_called = words.next().unwrap().starts_with("2010");
        ends[usize::from(is_called)].extend(octets(words.next().unwrap()));
    }
    ends
}

/// The TSDUs of a stream; TPDUs of another kind are left out.
fn tsdus(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut frames, mut found) = (Frames::new(1 << 20), Vec::new());
    while !bytes.is_empty() {
        let (used, framed) = frames.advance(bytes).unwrap();
        bytes = &bytes[used..];
        if framed == Framed::Tsdu {
            found.push(frames.tsdu().to_vec());
        }
    }
    found
}

fn who(name: &str, password: &str) -> MtaCredentials {
    MtaCredentials { name: name.to_owned(), password: password.to_owned() }
}

fn rules() -> ResponderPolicy {
    ResponderPolicy {
        t_selector: None,
        who: who("a.test", "secreta"),
        their_name: None,
        their_password: None,
        checkpoint_kib: 1,
        tpdu_bytes: 65_408,
    }
}

const PY_TO_PP: &str = include_str!("../../tests/p1/py2pp.hex");
const PP_TO_PP: &str = include_str!("../../tests/p1/pp2pp.hex");
const PP_TO_PP_CHECKPOINTS: &str = include_str!("../../tests/p1/pp2pp_ck.hex");
const PY_TO_PP_CHECKPOINTS: &str = include_str!("../../tests/p1/py2pp_ck.hex");
const PP_REPORT: &str = include_str!("../../tests/p1/pp_ndr.hex");
const PP_1984: &str = include_str!("../../tests/p1/pp84.hex");
const PING_1984: &str = include_str!("../../tests/p1/ping84.hex");
const REFUSED: &str = include_str!("../../tests/p1/rf_badauth.hex");
const ABORTED: &str = include_str!("../../tests/p1/ab_user.hex");

/// What came of a calling end's octets.
#[derive(Debug, PartialEq)]
struct Played {
    /// But those of content.
    events: Vec<ResponderEvent>,
    answers: Vec<u8>,
    transfers: Vec<(Mode, Vec<u8>)>,
}

fn play(calling: &[u8], step: usize) -> Played {
    let (mut responder, rules) = (Responder::new(), rules());
    let (mut events, mut transfers) = (Vec::new(), Vec::new());
    for mut piece in calling.chunks(step) {
        loop {
            let (used, event) = responder.advance(&rules, piece);
            piece = &piece[used..];
            if event == ResponderEvent::Input {
                break;
            }
            if event == ResponderEvent::End {
                transfers.push((responder.mode().unwrap(), responder.stream().to_vec()));
            }
            responder.accept(&rules);
            if event != ResponderEvent::Content {
                events.push(event);
            }
        }
    }
    Played { events, answers: std::mem::take(responder.output()), transfers }
}

#[test]
fn captured_conversations_are_answered_as_they_were() {
    for (text, checkpoints, mode) in [
        (PY_TO_PP, 0, Mode::Normal),
        (PP_TO_PP, 0, Mode::Normal),
        (PP_TO_PP_CHECKPOINTS, 12, Mode::Normal),
        (PY_TO_PP_CHECKPOINTS, 12, Mode::Normal),
        (PP_1984, 3, Mode::X4101984),
    ] {
        let [calling, called] = conversation(text);
        let whole = play(&calling, calling.len());
        let Played { events, answers, transfers } = &whole;
        let mut expected = vec![ResponderEvent::Bind, ResponderEvent::Start];
        expected.resize(2 + checkpoints, ResponderEvent::Checkpoint);
        expected.extend([
            ResponderEvent::End,
            ResponderEvent::Release,
            ResponderEvent::Close(None),
        ]);
        assert_eq!(*events, expected);
        // But for the names, that is: the answer to the bind is looked at elsewhere.
        let (ours, theirs) = (tsdus(answers), tsdus(&called));
        assert_eq!(ours[1..], theirs[1..]);
        let [(found, stream)] = transfers.as_slice() else { panic!() };
        assert_eq!(*found, mode);
        let Ok(Apdu::Message(arrived)) = apdu(unwrap(stream, mode).unwrap()) else { panic!() };
        assert!(arrived.id.is_some_and(|id| id.starts_with("1795")), "{text}");
        assert_eq!(arrived.state, ArrivalState::Whole);
        assert_eq!(arrived.recipients, ["/S=bob/O=Beta/PRMD=TestB/ADMD=/C=GB/"]);
        for step in [1, 3, 100] {
            assert!(play(&calling, step) == whole, "{step}");
        }
    }
}

#[test]
fn a_report_is_known_as_such() {
    let [calling, _] = conversation(PP_REPORT);
    let Played { transfers, .. } = play(&calling, 64);
    let [(mode, stream)] = transfers.as_slice() else { panic!() };
    assert_eq!(unwrap(stream, *mode).and_then(apdu), Ok(Apdu::Report));
    assert_eq!(apdu(include_bytes!("../../tests/p1/probe.ber")), Ok(Apdu::Probe));
}

#[test]
fn other_forms_of_the_same_message_are_read_alike() {
    let read = |bytes: &[u8]| match apdu(bytes) {
        Ok(Apdu::Message(arrived)) => arrived,
        other => panic!("{other:?}"),
    };
    let constructed = read(include_bytes!("../../tests/p1/py_message_cons.ber"));
    let shuffled = read(include_bytes!("../../tests/p1/py_message_shuf.ber"));
    assert_eq!(constructed, shuffled);
    assert_eq!(constructed.recipients, ["/S=bob/O=Beta/PRMD=TestB/ADMD=/C=GB/"]);
}

/// The first TSDU of an end.
fn first(text: &str, end: usize) -> Vec<u8> {
    tsdus(&conversation(text)[end]).swap_remove(0)
}

fn wishes(mode: Mode, checkpoint_kib: u32, who: MtaCredentials) -> AssociationParameters {
    let (s_selector, p_selector) = (Vec::new(), Vec::new());
    AssociationParameters { mode, checkpoint_kib, window: 3, who, s_selector, p_selector }
}

#[test]
fn a_bind_has_the_octets_of_others() {
    let reference = Reference {
        user: element(0x04, &[&element(0x14, &[b"tm"])]),
        time: element(0x17, &[b"261120235328Z"]),
    };
    let normal = wishes(Mode::Normal, 0, who("client.test", "secretc"));
    let mut theirs = first(PY_TO_PP, 0);
    // It offers version 2 alone, others both.
    let version = theirs.windows(3).position(|item| item == [22, 1, 2]).unwrap();
    theirs[version + 2] = 3;
    assert_eq!(bind::connect(&normal, &reference), theirs);
    // PP proposes a longest TSDU, too: only what lies in it is the same.
    let theirs = first(PING_1984, 0);
    let ours = bind::connect(&wishes(Mode::X4101984, 63, who("a.test", "secreta")), &reference);
    let user_data = |bytes: &[u8]| Spdu::read(bytes).unwrap().user_data().to_vec();
    assert_eq!(user_data(&ours), user_data(&theirs));
    let theirs = first(PP_TO_PP, 0);
    let ours = bind::connect(&wishes(Mode::Normal, 63, who("a.test", "secreta")), &reference);
    assert_eq!(user_data(&ours), user_data(&theirs));
}

#[test]
fn what_a_bind_asks_is_read() {
    for (text, mode, name, contexts) in [
        (PY_TO_PP, Mode::Normal, "client.test", Contexts::OURS),
        (PP_TO_PP, Mode::Normal, "a.test", Contexts::OURS),
        (PP_1984, Mode::X4101984, "a.test", Contexts { acse: 0, rtse: 0, mtse: 0 }),
    ] {
        let connect = first(text, 0);
        let asked = asked(&Spdu::read(&connect).unwrap()).unwrap();
        assert_eq!((asked.mode, asked.contexts), (mode, contexts));
        assert_eq!(asked.who.unwrap().name, name);
        assert!(!asked.takes_turns && !asked.recovers);
        assert_eq!((asked.window, asked.common_reference.len()), (3, 15));
    }
    // Cut anywhere, with lengths that say so, it is an error and no panic.
    let connect = first(PY_TO_PP, 0);
    let data = Spdu::read(&connect).unwrap().user_data().to_vec();
    for cut in 0..data.len() {
        let cut = super::spdu::parameter(super::spdu::USER_DATA, &data[..cut]);
        let cut = super::spdu::spdu(&[], super::spdu::CONNECT, &[&cut]);
        assert!(super::answer::asked(&Spdu::read(&cut).unwrap()).is_err());
    }
}

#[test]
fn an_acceptance_has_the_octets_of_others_and_is_read() {
    let connect = first(PY_TO_PP, 0);
    let asked = asked(&Spdu::read(&connect).unwrap()).unwrap();
    let theirs = first(PY_TO_PP, 1);
    assert_eq!(bind::accept(&asked, 1, &who("a.test", "secreta")), theirs);
    for (text, mode, name) in [
        (PY_TO_PP, Mode::Normal, "a.test"),
        (PP_TO_PP, Mode::Normal, "b.test"),
        (PING_1984, Mode::X4101984, "b.test"),
    ] {
        let accept = first(text, 1);
        let Accepted { checkpoint_kib, window, who } =
            accepted(&Spdu::read(&accept).unwrap(), mode).unwrap();
        assert_eq!((checkpoint_kib, window, who.unwrap().name.as_str()), (1, 3, name));
    }
    let other = Spdu::read(&theirs).unwrap();
    assert!(accepted(&other, Mode::X410).is_err());
}

#[test]
fn a_context_that_is_refused_is_no_acceptance() {
    let connect = first(PY_TO_PP, 0);
    let mut asked = asked(&Spdu::read(&connect).unwrap()).unwrap();
    asked.offers = vec![true, true, false];
    let accept = bind::accept(&asked, 0, &who("a", "b"));
    let why = accepted(&Spdu::read(&accept).unwrap(), Mode::Normal).unwrap_err();
    assert!(why.contains("context"), "{why}");
}

#[test]
fn refusals_and_aborts_say_why() {
    let theirs = octets(REFUSED);
    let (code, why) = refused(&Spdu::read(&theirs).unwrap());
    assert_eq!((code, why.as_str()), (2, "bind refused: authentication error (2)"));
    for mode in [Mode::Normal, Mode::X410, Mode::X4101984] {
        let reference = Reference::new("261125080000Z");
        let connect = bind::connect(&wishes(mode, 0, who("a", "b")), &reference);
        let asked = asked(&Spdu::read(&connect).unwrap()).unwrap();
        let refusal = bind::refuse(&asked, Some(2));
        let (_, why) = refused(&Spdu::read(&refusal).unwrap());
        let expected = if mode == Mode::Normal { "authentication" } else { "validation failure" };
        assert!(why.contains(expected), "{why}");
    }
    let theirs = octets(ABORTED);
    assert_eq!(aborted(&Spdu::read(&theirs).unwrap()), "aborted by RTSE: user error (6)");
    let ours = bind::abort();
    assert!(aborted(&Spdu::read(&ours).unwrap()).contains("protocol error"));
    let disconnect = octets(include_str!("../../tests/p1/dr_tsel.hex"));
    let Ok(tpkt::Control::Disconnect(why)) = tpkt::control(&disconnect) else { panic!() };
    assert!(why.ends_with("PP Service nosuch not found"), "{why}");
}

#[test]
fn sequences_that_others_read_are_read_here() {
    let expected = [
        ("rtse_abort", SpduKind::Abort),
        ("provider_abort_ppdu", SpduKind::Abort),
        ("session_protocol_abort", SpduKind::Abort),
        ("mia_late", SpduKind::MinorAck),
    ];
    for line in include_str!("../../tests/p1/session.txt").lines() {
        let [name, end, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let tsdus = tsdus(&octets(hex));
        for tsdu in &tsdus {
            let spdu = Spdu::read(tsdu).unwrap();
            if let Some((_, kind)) = expected.iter().find(|(found, _)| *found == name && end == "<")
            {
                assert_eq!(spdu.kind, *kind);
            }
            if spdu.kind == SpduKind::Abort {
                let why = aborted(&spdu);
                assert!(why.starts_with("aborted by ") && why != "aborted by the user", "{why}");
            }
        }
        assert!(!tsdus.is_empty());
    }
}

#[test]
fn what_is_out_of_order_is_aborted_and_bad_names_are_refused() {
    let [calling, _] = conversation(PY_TO_PP);
    let mut strict = rules();
    strict.their_name = Some("client.test".to_owned());
    strict.their_password = Some("another".to_owned());
    let mut responder = Responder::new();
    let mut rest = calling.as_slice();
    let end = loop {
        let (used, event) = responder.advance(&strict, rest);
        rest = &rest[used..];
        match event {
            ResponderEvent::Close(why) => break why,
            _ => responder.accept(&strict),
        }
    };
    assert_eq!(end.as_deref(), Some("wrong name or password"));
    let output = std::mem::take(responder.output());
    assert_eq!(Spdu::read(&tsdus(&output)[0]).map(|spdu| spdu.kind), Ok(SpduKind::Refuse));
    // Content before an activity.
    let mut input = tpkt::connection_request(b"", 2048);
    tpkt::push_tsdu(&mut input, &first(PY_TO_PP, 0), 2048);
    tpkt::push_tsdu(&mut input, &octets("010029032a0131"), 2048);
    let Played { events, answers, .. } = play(&input, input.len());
    assert!(
        matches!(&events[..], [ResponderEvent::Bind, ResponderEvent::Close(Some(_))]),
        "{events:?}"
    );
    let last = tsdus(&answers).pop().unwrap();
    assert_eq!(Spdu::read(&last).map(|spdu| spdu.kind), Ok(SpduKind::Abort));
}

#[test]
fn random_octets_never_panic() {
    let mut random = crate::random::Random::new(7);
    let [calling, _] = conversation(PP_TO_PP_CHECKPOINTS);
    for _ in 0..2_000 {
        let mut bytes = calling.clone();
        for _ in 0..=random.below(3) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.next_u64() as u8;
        }
        let mut responder = Responder::new();
        let mut rest = bytes.as_slice();
        loop {
            let (used, event) = responder.advance(&rules(), rest);
            rest = &rest[used..];
            match event {
                ResponderEvent::Close(_) | ResponderEvent::Input => break,
                ResponderEvent::End => {
                    let mode = responder.mode().unwrap();
                    let _ = unwrap(responder.stream(), mode).and_then(apdu);
                }
                _ => {}
            }
            responder.accept(&rules());
        }
    }
}
