//! What the lines of a script stand for on a connection. Where the crate's own machines can say it they do; what none
//! of them would say is written in hexadecimal digits, or made of what they say by replacing octets.

use super::apdus;
use bytes::Bytes;
use mail::Mono;
use x400::association::{
    BindError, Event, ExceptionReason, Identity, Initiator, InitiatorSettings, Mode, Password,
    Responder, ResponderSettings,
};
use x400::rtse::{apdu_front, rttr_front};
use x400::session::{Serial, Spdu};
use x400::x224::{Confirm, ConnectionRequest, Framer, Outbox, TPDU_BYTES_MAX, Tpdu, TpduSize};

/// The contexts that our own CN proposes.
const RTSE_CONTEXT: i64 = 3;
const MTSE_CONTEXT: i64 = 5;

/// The octets that a line stands for: `WHAT …`, or `WHAT … with NEW for OLD, NEW for OLD`.
pub(crate) fn octets(line: &str) -> Vec<u8> {
    let (plain, changes) = line.split_once(" with ").unwrap_or((line, ""));
    let mut octets = said(plain);
    for change in changes.split(", ").filter(|change| !change.is_empty()) {
        let (new, old) = change.split_once(" for ").expect("NEW for OLD");
        let (new, old) = (hex(new), hex(old));
        assert_eq!(new.len(), old.len(), "lengths around it would be wrong: {line}");
        let found = octets.windows(old.len()).position(|window| window == old);
        let at = found.unwrap_or_else(|| panic!("{change}: not in {octets:02x?}"));
        octets.splice(at..at + old.len(), new);
    }
    octets
}

fn said(line: &str) -> Vec<u8> {
    let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
    let number = || rest.parse::<u32>().unwrap_or_else(|_| panic!("no number: {line}"));
    let serial = || Serial(number());
    let reason = || ExceptionReason::from_code(u8::try_from(number()).expect("an octet"));
    match what {
        "octets" => hex(rest),
        "TSDU" => tsdu(&hex(rest)),
        "DATA" => tsdu(&[&Spdu::data_front()[..], &hex(rest)].concat()),
        "CR" => request(rest),
        "CC" => confirm(),
        "CN" => connect(rest),
        "AC" => accept(rest),
        "RF" => refuse(rest),
        "AS" => spdu(&Spdu::ActivityStart { id: vec![2, 1, 1] }),
        "DT" => data(rest),
        "MIP" => spdu(&Spdu::MinorSync { serial: serial(), wants_ack: true }),
        "MIA" => spdu(&Spdu::MinorSyncAck(serial())),
        "AE" => spdu(&Spdu::ActivityEnd(serial())),
        "AEA" => spdu(&Spdu::ActivityEndAck(serial())),
        "AD" => spdu(&Spdu::ActivityDiscard(reason())),
        "ADA" => spdu(&Spdu::ActivityDiscardAck),
        "AI" => spdu(&Spdu::ActivityInterrupt(reason())),
        "ED" => spdu(&Spdu::ExceptionData(reason())),
        "GTC" => spdu(&Spdu::GiveTokensConfirm),
        "GTA" => spdu(&Spdu::GiveTokensAck),
        "FN" => spdu(&Spdu::Finish { user_data: Vec::new() }),
        "DN" => spdu(&Spdu::Disconnect { user_data: Vec::new() }),
        "APDU" => [said("AS"), data(rest), said("AE 1")].concat(),
        other => panic!("nobody can say {other}"),
    }
}

/// The octets that hexadecimal digits stand for; `(…)*N` is N times what stands in parentheses.
fn hex(text: &str) -> Vec<u8> {
    let digits = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> =
            text.chars().map(|c| c.to_digit(16).expect("a digit") as u8).collect();
        assert_eq!(digits.len() % 2, 0, "{text}");
        digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
    };
    let word = |word: &str| match word.strip_prefix('(').and_then(|word| word.split_once(")*")) {
        Some((repeated, count)) => digits(repeated).repeat(count.parse().expect("a number")),
        None => digits(word),
    };
    text.split_whitespace().flat_map(word).collect()
}

/// A TSDU in as few TPDUs as it takes.
pub(crate) fn tsdu(octets: &[u8]) -> Vec<u8> {
    let (mut out, mut framer) = (Outbox::default(), Framer::new(TPDU_BYTES_MAX));
    if octets.is_empty() {
        return hex("03000007 02f080");
    }
    framer.tsdu(&mut out, octets);
    out.take().concat()
}

fn spdu(spdu: &Spdu) -> Vec<u8> {
    tsdu(&spdu.encode())
}

/// A slice of the stream that RTSE makes of an APDU.
pub(crate) fn slice(octets: &[u8]) -> Vec<u8> {
    let front = rttr_front(RTSE_CONTEXT, octets.len() as u64);
    tsdu(&[&Spdu::data_front()[..], &front, octets].concat())
}

/// That stream.
pub(crate) fn stream(apdu: &[u8]) -> Vec<u8> {
    let mut stream = apdu_front(MTSE_CONTEXT, apdu.len() as u64);
    stream.extend_from_slice(apdu);
    stream
}

/// `NAME`, or a part of its stream: `NAME FROM..TO`.
fn data(rest: &str) -> Vec<u8> {
    let (name, range) = rest.split_once(' ').unwrap_or((rest, ".."));
    let stream = stream(&apdus::apdu(name));
    let (from, to) = range.split_once("..").expect("FROM..TO");
    let from = from.parse().unwrap_or(0);
    let to = to.parse().unwrap_or(stream.len());
    slice(&stream[from..to])
}

fn request(called: &str) -> Vec<u8> {
    let size = TpduSize::offer(TPDU_BYTES_MAX);
    let called = called.as_bytes().to_vec();
    let request =
        ConnectionRequest { source: 1, is_class_0: true, called, calling: Vec::new(), size };
    Tpdu::Request(request).packet()
}

fn confirm() -> Vec<u8> {
    let size = TpduSize::offer(TPDU_BYTES_MAX);
    let confirm =
        Confirm { destination: 1, source: 2, is_class_0: true, responding: Vec::new(), size };
    Tpdu::Confirm(confirm).packet()
}

/// What stands behind `NAME=` in words; `(…)*N` is N times what stands in parentheses.
fn option(words: &str, name: &str) -> Option<String> {
    let found = words.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    Some(match found.strip_prefix('(').and_then(|found| found.split_once(")*")) {
        Some((text, count)) => text.repeat(count.parse().expect("a number")),
        None => found.to_owned(),
    })
}

fn identity(words: &str) -> Identity {
    let text = |name, usual: &str| option(words, name).unwrap_or(usual.to_owned());
    Identity {
        name: Some(text("name", "mta.hub")).filter(|name| name != "-"),
        password: Some(Password(text("password", "theirs").into_bytes())),
    }
}

/// CN, with `name=`, `password=`, `mode=`, `checkpoint=` (in units of 1,024 octets), `window=`, `turns`.
fn connect(words: &str) -> Vec<u8> {
    let number = |name, usual| option(words, name).map_or(usual, |n| n.parse().expect("a number"));
    let settings = InitiatorSettings {
        mode: match option(words, "mode").as_deref() {
            None => Mode::Normal,
            Some("x410") => Mode::X410,
            Some("x410-1984") => Mode::X410Of1984,
            Some(other) => panic!("no mode: {other}"),
        },
        identity: identity(words),
        checkpoint_kib: number("checkpoint", 0),
        window: number("window", 3),
        two_way: words.split(' ').any(|word| word == "turns"),
        ..InitiatorSettings::default()
    };
    let mut machine = Initiator::new(settings, Mono(0));
    drop(machine.take_output());
    machine.handle_input(Bytes::from(confirm()), Mono(0));
    assert_eq!(machine.poll_event(), None);
    machine.take_output().concat()
}

/// Who was called, as far as it must decide about a CN of these words.
fn deciding(words: &str) -> Responder {
    let mut machine = Responder::new(ResponderSettings::default(), Mono(0));
    // What is said of names is the answer's.
    let terms: Vec<&str> = words
        .split(' ')
        .filter(|word| !word.starts_with("name=") && !word.starts_with("password="))
        .collect();
    for octets in [request(""), connect(&terms.join(" "))] {
        machine.handle_input(Bytes::from(octets), Mono(0));
    }
    assert!(matches!(machine.poll_event(), Some(Event::Bind(_))), "{words}");
    drop(machine.take_output());
    machine
}

fn accept(words: &str) -> Vec<u8> {
    let mut machine = deciding(words);
    machine.accept(&identity(words), Mono(0));
    machine.take_output().concat()
}

fn refuse(words: &str) -> Vec<u8> {
    let (why, rest) = words.split_once(' ').unwrap_or((words, ""));
    let error = match why {
        "busy" => BindError::Busy,
        "authentication" => BindError::Authentication,
        "dialogue" => BindError::DialogueMode,
        "security" => BindError::SecurityContext,
        other => BindError::Other(other.parse().expect("a number")),
    };
    let mut machine = deciding(rest);
    machine.refuse(error, Mono(0));
    machine.take_output().concat()
}
