//! Bad input below the APDUs: what is answered, and that the association ends.

use crate::hex::{hex, packet};
use x400::association::{AssociationEnd, Event, InitiatorSettings, Layer, ResponderSettings};
use x400::testing::driver::{Driver, initiator, initiator_settings, responder};
use x400::testing::said::names;
use x400::testing::talk::Talk;

/// CR without a T-selector; PP's CN, as captured.
const CR: &str = "0300000e 09e0000000010 0c0010b";
const CN: &str = "0db101170a041402766d0b0f170d3933313132383233353333345a050f130100150407f907f91601031a010014020249
    c181317fa003800101a278a433300f020101060452010001300406025101300f02010306045600020c300406025101300f020105
    06045600020730040602510161 41303f020101a03a6038a106060456000106be2e282c06025101020103a023b02180013f820100
    a319a017b015a1138006612e74657374a109040773656372657461";
const CN_84: &str =
    "0d5b01170a041402766d0b0f170d3933313132383233353333345a050f130100150407f907f91601031a0100140202
    49c12b3129a003800100a12280013f820100a317a015a1138006612e74657374a109160773656372657461840101";

/// The TSDU with one thing replaced by another of the same length.
fn but(tsdu: &str, wanted: &str, instead: &str) -> Vec<u8> {
    let (mut octets, wanted, instead) = (hex(tsdu), hex(wanted), hex(instead));
    assert_eq!(wanted.len(), instead.len());
    let at = octets.windows(wanted.len()).position(|window| window == wanted).expect("it is there");
    octets.splice(at..at + wanted.len(), instead);
    octets
}

/// How it ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// A breach of this layer's protocol.
    Breach(Layer),
    /// Refused by this layer.
    Refused(Layer),
    /// Told that the peer is gone or aborts.
    Otherwise,
}

fn check(name: &str, events: &[Event], ends: Ends) {
    match (events.last(), ends) {
        (Some(Event::Ended(AssociationEnd::Violation(violation))), Ends::Breach(layer)) => {
            assert_eq!(violation.layer, layer, "{name}: {violation}");
        }
        (Some(Event::Ended(AssociationEnd::Refused(refusal))), Ends::Refused(layer)) => {
            assert_eq!(refusal.layer, layer, "{name}: {refusal:?}");
        }
        (
            Some(Event::Ended(AssociationEnd::Lost | AssociationEnd::AbortedByPeer { .. })),
            Ends::Otherwise,
        ) => {}
        (other, _) => panic!("{name}: {other:?} where it must be {ends:?}"),
    }
}

/// A fresh responder with one T-selector of its own or none.
fn fresh(selector: Option<&str>) -> Driver<x400::association::Responder> {
    let t_selectors = selector.into_iter().map(|selector| selector.as_bytes().to_vec()).collect();
    responder(ResponderSettings { t_selectors, two_way: false, ..ResponderSettings::default() })
}

fn cut_or_whole(mut play: impl FnMut(usize)) {
    for piece in [usize::MAX, 1, 3] {
        play(piece);
    }
}

#[test]
fn the_transport_of_who_calls() {
    let t = Layer::Transport;
    // (name, octets, our answer, end)
    let rows: &[(&str, &str, &[&str], Ends)] = &[
        ("TPKT version 2", "0200000e 09e00000000100c0010b", &[], Ends::Breach(t)),
        ("HTTP", "474554202f20485454502f312e310d0a0d0a", &[], Ends::Breach(t)),
        ("TPKT of 6 octets", "03000006 01e0", &[], Ends::Breach(t)),
        ("TPKT of no octets", "03000000", &[], Ends::Breach(t)),
        ("header length 0", "0300000b 00e00000000100", &[], Ends::Breach(t)),
        ("header length 255", "0300000b ffe00000000100", &[], Ends::Breach(t)),
        ("header beyond the packet", "0300000b 07e00000000100", &[], Ends::Breach(t)),
        ("CR too short", "03000008 03e00000", &[], Ends::Breach(t)),
        ("parameter beyond CR", "0300000e 09e00000000100c0050b", &[], Ends::Breach(t)),
        ("unknown TPDU", "0300000b 06500000000100", &[], Ends::Breach(t)),
        ("DT before CR", "03000008 02f08000", &[], Ends::Breach(t)),
        ("CC instead of CR", "0300000b 06d00000000100", &[], Ends::Breach(t)),
        ("class 4 alone", "0300000e 09e00000000140c20161", &["DR 133"], Ends::Refused(t)),
        ("another T-selector", "0300000e 09e00000000100c20178", &["DR 3"], Ends::Refused(t)),
        ("no T-selector", "0300000b 06e00000000100", &["DR 3"], Ends::Refused(t)),
        ("DR at once", "0300000b 06800000000180", &[], Ends::Otherwise),
        (
            "a second CR",
            "0300000e 09e00000000100c20161 0300000e 09e00000000100c20161",
            &["CC"],
            Ends::Breach(t),
        ),
        (
            "DT with a long header",
            "0300000e 09e00000000100c20161 03000009 03f0800000",
            &["CC"],
            Ends::Breach(t),
        ),
        ("DR with a novel", "03000400 068000000001 80", &[], Ends::Breach(t)),
    ];
    for (name, octets, answer, ends) in rows {
        cut_or_whole(|piece| {
            let mut driver = fresh(Some("a"));
            driver.feed_cut(&hex(octets), piece);
            check(name, &driver.events, *ends);
            assert_eq!(names(&driver.output), *answer, "{name}");
            let must_close = !matches!(ends, Ends::Refused(_));
            assert_eq!(driver.machine.is_closed(), must_close, "{name}");
            assert!(
                driver.pass_deadline() || must_close,
                "{name}: the peer is not waited for for ever"
            );
            assert!(driver.machine.is_closed(), "{name}");
        });
    }
}

#[test]
fn what_is_no_harm() {
    let mut driver = fresh(None);
    // Reserved octet, unknown parameter, class 4 with 0 as an alternative, calling selector.
    driver.feed(&hex("03ff0014 0fe00000000140 d90100 c70100 c10178"));
    assert_eq!(names(&driver.output), ["CC"]);
    // The end of CN's TSDU in an empty TPDU.
    let mut octets = packet(&hex(CN));
    octets[6] = 0;
    octets.extend(hex("03000007 02f080"));
    driver.feed_cut(&octets, 10);
    assert_eq!(names(&driver.output), ["CC", "AC"]);
    assert!(matches!(driver.events[..], [Event::Bind(_)]));
}

/// A TSDU.
#[derive(Clone, Copy)]
enum Tsdu {
    Hex(&'static str),
    /// One with something replaced by something else of the same length.
    But(&'static str, &'static str, &'static str),
    Then(&'static str, &'static str),
    /// With so many of something behind it.
    Padded(&'static str, &'static str, usize),
}
use Tsdu::{But, Hex, Padded, Then};

impl Tsdu {
    fn octets(self) -> Vec<u8> {
        match self {
            Hex(text) => hex(text),
            But(text, wanted, instead) => but(text, wanted, instead),
            Then(first, second) => [hex(first), hex(second)].concat(),
            Padded(text, more, count) => [hex(text), hex(more).repeat(count)].concat(),
        }
    }
}

const BREACH: Ends = Ends::Breach(Layer::Session);

const BIND: &[(&str, Tsdu, &str, Ends)] = &[
    ("an empty TSDU", Hex(""), "AB 5", BREACH),
    ("an unknown SPDU", Hex("ee00"), "AB 5", BREACH),
    ("AS before CN", Hex("0100 2d05 2903020101"), "AB 5", BREACH),
    ("DATA before CN", Hex("0100 0100 00"), "AB 5", BREACH),
    ("AS alone", Hex("2d05 2903020101"), "AB 5", BREACH),
    ("an SPDU that is cut", Hex("0d20 00"), "AB 5", BREACH),
    ("a parameter that is cut", Hex("0d03 c10500"), "AB 5", BREACH),
    ("two SPDUs where one must be alone", Then(CN, "0900"), "AB 5", BREACH),
    ("200 parameters", Padded("0dff0190", "2800", 200), "AB 5", BREACH),
    ("a session of 65,539 octets", Padded("0dfffde8", "00", 65_000), "AB 5", BREACH),
    ("REFUSE at the responder", Hex("0c03 320100"), "AB 5", BREACH),
    (
        "no version that we know",
        But(CN, "160103", "160104"),
        "RF 132",
        Ends::Refused(Layer::Session),
    ),
    ("full duplex", But(CN, "14020249", "14020002"), "RF 0", Ends::Refused(Layer::Session)),
    ("without exceptions", But(CN, "14020249", "14020049"), "RF 0", Ends::Refused(Layer::Session)),
    ("the turn with us", But(CN, "1a0100", "1a0115"), "RF 0", Ends::Refused(Layer::Session)),
    (
        "user data that goes on",
        Hex("0d0a 14020249 3c0101 160103"),
        "RF 134",
        Ends::Refused(Layer::Session),
    ),
    ("no user data", Hex("0d07 14020249 160103"), "RF 2", Ends::Refused(Layer::Presentation)),
    (
        "user data that is no BER",
        But(CN, "a278a433", "a2ffa433"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "a mode that there isn't",
        But(CN, "800101a2", "800102a2"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "no context for ACSE",
        But(CN, "020101060452010001", "020101060452010009"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "no context for RTSE",
        But(CN, "02010306045600020c", "020103060456000208"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "no context for APDUs",
        But(CN, "020105060456000207", "020105060456000208"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "a context without BER",
        But(CN, "56000207300406025101", "56000207300406025102"),
        "RF 2",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "AARQ in another context",
        But(CN, "6141303f020101", "6141303f020105"),
        "RF 2",
        Ends::Refused(Layer::Association),
    ),
    (
        "AARE instead of AARQ",
        But(CN, "a03a6038", "a03a6138"),
        "RF 2",
        Ends::Refused(Layer::Association),
    ),
    (
        "another application",
        But(CN, "a106060456000106", "a106060456000102"),
        "RF 2",
        Ends::Refused(Layer::Association),
    ),
    (
        "RTORQ in another context",
        But(CN, "06025101020103", "06025101020105"),
        "RF 2",
        Ends::Refused(Layer::Association),
    ),
    (
        "RTOAC instead of RTORQ",
        But(CN, "a023b021", "a023b121"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    (
        "checkpoints below 0",
        But(CN, "80013f", "8001ff"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    ("recover", But(CN, "a319a017", "a319a117"), "RF 2", Ends::Refused(Layer::ReliableTransfer)),
    (
        "a dialogue that we don't want",
        But(CN, "820100", "820101"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    (
        "a bind that is none",
        But(CN, "b015a113", "b015a213"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    (
        "recover in X.410 mode",
        But(CN_84, "a317a015", "a317a115"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    (
        "no X.410 protocol that we know",
        But(CN_84, "840101", "840102"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    (
        "broken in X.410 mode",
        But(CN_84, "80013f", "80053f"),
        "RF 2",
        Ends::Refused(Layer::ReliableTransfer),
    ),
    ("a wrong password", Hex(CN), "RF 2", Ends::Refused(Layer::Transfer)),
    ("a wrong password in X.410 mode", Hex(CN_84), "RF 2", Ends::Refused(Layer::Transfer)),
    ("abort instead of CN", Hex("1903 110103"), "CC", Ends::Otherwise),
];

#[test]
fn the_bind_of_who_calls() {
    for (name, tsdu, answer, ends) in BIND {
        cut_or_whole(|piece| {
            let mut driver = fresh(None);
            driver.policy.accepts = false;
            driver.feed(&hex(CR));
            driver.feed_cut(&packet(&tsdu.octets()), piece);
            check(name, &driver.events, *ends);
            assert_eq!(names(&driver.output).last().map(String::as_str), Some(*answer), "{name}");
            let said = driver.output.len();
            // Nothing is said to what comes behind, but the connection's end is taken.
            driver.feed(&packet(&hex(CN)));
            assert_eq!(driver.output.len(), said, "{name}");
            driver.close();
        });
    }
}

/// A bound responder, and how much it has said.
fn bound() -> (Driver<x400::association::Responder>, usize) {
    let mut driver = fresh(None);
    driver.feed(&hex(CR));
    driver.feed(&packet(&hex(CN)));
    let said = driver.output.len();
    (driver, said)
}

const START: &str = "0100 2d05 2903020101";
const SLICE: &str = "0100 0100 6111 300f 020103 a00a 0408 2880020105a08004";

const WITHIN: &[(&str, &[&str], &str, Ends)] = &[
    ("a second CN", &[CN], "AB 5", BREACH),
    ("DATA outside an activity", &[SLICE], "AB 5", BREACH),
    ("AE outside an activity", &["0100 2903 2a0131"], "AB 5", BREACH),
    ("MIP outside an activity", &["0100 3103 2a0131"], "AB 5", BREACH),
    ("AD outside an activity", &["0100 3903 320100"], "AB 5", BREACH),
    ("AEA to nothing", &["0200 2a03 2a0131"], "AB 5", BREACH),
    ("MIA to nothing", &["0200 3203 2a0131"], "AB 5", BREACH),
    ("ED to nothing", &["0200 3003 320105"], "AB 5", BREACH),
    ("ADA to nothing", &["0200 3a00"], "AB 5", BREACH),
    ("AS within an activity", &[START, START], "AB 5", BREACH),
    ("FN within an activity", &[START, "0903 110101"], "AB 5", BREACH),
    ("a second checkpoint first", &[START, "0100 3103 2a0132"], "AB 5", BREACH),
    ("an end with a wrong number", &[START, "0100 2903 2a0139"], "AB 5", BREACH),
    ("a number that is none", &[START, "0100 3103 2a0141"], "AB 5", BREACH),
    ("a number of seven digits", &[START, "0100 3109 2a07 30303030303031"], "AB 5", BREACH),
    ("a checkpoint without a number", &[START, "0100 3100"], "AB 5", BREACH),
    ("the turn, which was not agreed on", &["1500"], "AB 5", BREACH),
    ("the turn confirmed", &["1600"], "AB 5", BREACH),
    ("tokens given one by one", &["0103 100101"], "AB 5", BREACH),
    ("three SPDUs in one", &["0100 3103 2a0131 0100"], "AB 5", BREACH),
    ("DATA behind please-tokens", &["0200 0100 61"], "AB 5", BREACH),
    ("PREPARE", &["0703 180101"], "AB 5", BREACH),
    ("RESYNCHRONIZE", &["0100 3503 1b0100"], "AB 5", BREACH),
    ("DATA that goes on with nothing", &[START, "0100 0103 190102 61"], "AB 5", BREACH),
    (
        "a checkpoint within DATA",
        &[START, "0100 0103 190101 61", "0100 3103 2a0131"],
        "AB 5",
        BREACH,
    ),
    (
        "DATA that is no user data",
        &[START, "0100 0100 3003 020103"],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "DATA in another context",
        &[START, "0100 0100 610c 300a 020105 a005 0403 288002"],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "DATA that is cut",
        &[START, "0100 0100 6111 300f 020103"],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "RTTP instead of RTTR",
        &[START, "0100 0100 610a 3008 020103 a003 020100"],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "slices that are no EXTERNAL",
        &[START, "0100 0100 610b 3009 020103 a004 0402 3000"],
        "AB 3",
        Ends::Breach(Layer::ReliableTransfer),
    ),
    (
        "an APDU in another context",
        &[START, "0100 0100 6110 300e 020103 a009 0407 2880020103a080"],
        "AB 3",
        Ends::Breach(Layer::ReliableTransfer),
    ),
    ("BER that is none", &[START, "0100 0100 61ff"], "AB 3", Ends::Breach(Layer::Presentation)),
    ("the peer aborts", &[START, "1903 110103"], "", Ends::Otherwise),
];

#[test]
fn what_is_said_within_an_association() {
    for (name, tsdus, answer, ends) in WITHIN {
        cut_or_whole(|piece| {
            let (mut driver, said) = bound();
            for tsdu in *tsdus {
                driver.feed_cut(&packet(&hex(tsdu)), piece);
            }
            check(name, &driver.events, *ends);
            assert_eq!(
                names(&driver.output[said..]).last().map_or("", String::as_str),
                *answer,
                "{name}"
            );
            assert!(driver.received.is_empty(), "{name}");
            driver.close();
        });
    }
    let (mut driver, said) = bound();
    driver.feed(&packet(&hex("0100 1d05 2903020101")));
    assert_eq!(names(&driver.output[said..]), ["ED 6"], "ACTIVITY RESUME: begin anew");
    driver.feed(&packet(&hex("0100 3903 320106")));
    driver.feed(&packet(&hex(START)));
    assert_eq!(names(&driver.output[said..]), ["ED 6", "ADA"]);
    assert_eq!(driver.events.last(), Some(&Event::ActivityStarted));
}

/// CC, and PP's AC as captured.
const CC: &str = "0300000e 09d0000100020 0c0010b";
const AC: &str = "0ea1011709041402766d0b0f170d3933313132383233353333345a05091301001601021a0100140202493400c1753173a003
    800101a26ca51b300780010081025101300780010081025101300780010081025101614d304b020101a0466144a106060456000106a20302
    0100a305a103020100be2e282c06025101020103a023b121800101810103a219a017b115a1138006622e74657374a109040773656372657462";

/// What the peer says at once.
#[derive(Clone, Copy)]
enum Frame {
    /// These octets.
    Raw(&'static str),
    Tsdu(Tsdu),
}
use Frame::Raw;

impl Frame {
    fn octets(self) -> Vec<u8> {
        match self {
            Raw(text) => hex(text),
            Frame::Tsdu(tsdu) => packet(&tsdu.octets()),
        }
    }
}

const CALLING: &[(&str, &[Frame], &str, Ends)] = &[
    ("no TPKT", &[Raw("00000000")], "CR", Ends::Breach(Layer::Transport)),
    ("CR instead of CC", &[Raw(CR)], "CR", Ends::Breach(Layer::Transport)),
    ("CC of class 2", &[Raw("0300000b 06d00001000220")], "CR", Ends::Breach(Layer::Transport)),
    ("data before CC", &[Frame::Tsdu(Hex("0e00"))], "CR", Ends::Breach(Layer::Transport)),
    ("DR", &[Raw("0300000b 06800001000203")], "CR", Ends::Refused(Layer::Transport)),
    ("DR behind CC", &[Raw(CC), Raw("0300000b 06800001000280")], "CN", Ends::Otherwise),
    ("AS instead of AC", &[Raw(CC), Frame::Tsdu(Hex("0100 2d05 2903020101"))], "AB 5", BREACH),
    ("DATA instead of AC", &[Raw(CC), Frame::Tsdu(Hex("0100 0100 61"))], "AB 5", BREACH),
    ("AC without functional units", &[Raw(CC), Frame::Tsdu(Hex("0e04 14020001"))], "AB 5", BREACH),
    (
        "AC without user data",
        &[Raw(CC), Frame::Tsdu(Hex("0e04 14020249"))],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "a context refused",
        &[Raw(CC), Frame::Tsdu(But(AC, "a51b3007800100", "a51b3007800102"))],
        "AB 3",
        Ends::Breach(Layer::Presentation),
    ),
    (
        "AARE rejected in AC",
        &[Raw(CC), Frame::Tsdu(But(AC, "a203020100", "a203020101"))],
        "AB 3",
        Ends::Breach(Layer::Association),
    ),
    (
        "RF of the session",
        &[Raw(CC), Frame::Tsdu(Hex("0c03 320181"))],
        "DR 128",
        Ends::Refused(Layer::Session),
    ),
    (
        "RF with nothing in it",
        &[Raw(CC), Frame::Tsdu(Hex("0c00"))],
        "DR 128",
        Ends::Refused(Layer::Session),
    ),
    (
        "RF with broken user data",
        &[Raw(CC), Frame::Tsdu(Hex("0c04 3202 0230"))],
        "DR 128",
        Ends::Refused(Layer::Presentation),
    ),
    (
        "RF of the provider",
        &[Raw(CC), Frame::Tsdu(Hex("0c08 3206 0230038a0103"))],
        "DR 128",
        Ends::Refused(Layer::Presentation),
    ),
    ("an abort", &[Raw(CC), Frame::Tsdu(Hex("1903 110105"))], "CN", Ends::Otherwise),
    (
        "AEA to nothing",
        &[Raw(CC), Frame::Tsdu(Hex(AC)), Frame::Tsdu(Hex("0200 2a03 2a0131"))],
        "AB 5",
        BREACH,
    ),
    (
        "AS without the turn",
        &[Raw(CC), Frame::Tsdu(Hex(AC)), Frame::Tsdu(Hex("0100 2d05 2903020101"))],
        "AB 5",
        BREACH,
    ),
    (
        "FN without the turn",
        &[Raw(CC), Frame::Tsdu(Hex(AC)), Frame::Tsdu(Hex("0903 110101"))],
        "AB 5",
        BREACH,
    ),
];

#[test]
fn what_is_said_to_who_calls() {
    for (name, frames, last, ends) in CALLING {
        cut_or_whole(|piece| {
            let mut driver = initiator(initiator_settings());
            driver.run();
            for frame in *frames {
                driver.feed_cut(&frame.octets(), piece);
            }
            check(name, &driver.events, *ends);
            assert_eq!(names(&driver.output).last().map(String::as_str), Some(*last), "{name}");
            if !driver.machine.is_closed() {
                driver.close();
            }
        });
    }
}

#[test]
fn what_is_said_while_an_apdu_goes() {
    for (name, tsdu) in [
        ("a checkpoint that was not sent", "0200 3203 2a0139"),
        ("the end of another activity", "0200 2a03 2a0139"),
        ("DATA", "0100 0100 61"),
    ] {
        let mut talk = Talk::new(
            initiator(InitiatorSettings { checkpoint_kib: 1, ..initiator_settings() }),
            fresh(None),
        );
        talk.run(&[usize::MAX]);
        talk.initiator.machine.transfer([vec![0xA0; 5_000].into()], talk.initiator.now);
        talk.initiator.feed(&packet(&hex(tsdu)));
        check(name, &talk.initiator.events, Ends::Breach(Layer::Session));
        assert_eq!(
            names(&talk.initiator.output).last().map(String::as_str),
            Some("AB 5"),
            "{name}"
        );
    }
}
