//! Switching X.400, and the gateway to mail.

use super::{Case, ISODE, MeasurementKind, RELAY, Scenario, published};
use crate::stand::egress::Egress;
use crate::stand::ways::{Protocol, Ways};
use load::source::Span;

/// Who is measured where X.400 is switched: the same server by SMTP, too.
const SWITCHES: &[&str] = &["postrider", "postrider-smtp", "p1-floor"];

/// As many messages as an association may carry in any run: it lasts as long as its source.
const UNLIMITED: Span = Span::of(1_000_000);

const P1: Case =
    Case { per_connection: UNLIMITED, sources: 10, sessions: 5, ways: Ways::P1, ..RELAY };

/// What is published of messages of any size, and where it was measured.
const PUBLISHED_ON: &str = "two 2.2 GHz Opterons, 4 GB, SCSI RAID with write-back cache, 2007";

const STEADY_DIFFERENCES: &[&str] = &[
    "source, switch and sink share this machine; in the publication each has its own, with 1 Gbit/s between them",
    "each source has 5 associations; the publication gives no number",
    "the publication's tables of rates by size are lost; the figures are from its text",
    "`postrider-smtp` takes and sends the same bodies by SMTP, 1 source to 1 sink more where there are two",
];

fn steady_cases(missing: Option<&'static str>) -> Vec<Case> {
    let case = |name, title, body_bytes| Case {
        name,
        title,
        kind: MeasurementKind::SteadyState(300),
        messages: 1_000_000_000,
        body_bytes: Span::of(body_bytes),
        missing,
        ..P1
    };
    let two_sinks = Ways { sinks: 2, ..Ways::P1 };
    let small_units = Ways { tpdu_bytes: 2048, ..Ways::P1 };
    vec![
        case("1kB", "1 kB messages", 1000),
        case("10kB", "10 kB messages", 10_000),
        case("100kB", "100 kB messages", 100_000),
        case("1MB", "1 MB messages", 1_000_000),
        case("10MB", "10 MB messages", 10_000_000),
        Case { ways: two_sinks, ..case("1kB-two", "1 kB messages to two sinks", 1000) },
        Case { ways: two_sinks, ..case("10kB-two", "10 kB messages to two sinks", 10_000) },
        Case { ways: two_sinks, ..case("100kB-two", "100 kB messages to two sinks", 100_000) },
        Case { ways: two_sinks, ..case("1MB-two", "1 MB messages to two sinks", 1_000_000) },
        Case { ways: two_sinks, ..case("10MB-two", "10 MB messages to two sinks", 10_000_000) },
        Case { ways: small_units, ..case("1kB-2048", "1 kB messages, TPDUs of 2,048", 1000) },
        Case {
            ways: small_units,
            ..case("100kB-2048", "100 kB messages, TPDUs of 2,048", 100_000)
        },
    ]
}

pub(super) fn steady_state() -> Scenario {
    let figure = |what, value, unit, figure| {
        let what = format!("{what} ({PUBLISHED_ON})");
        published("Isode M-Switch X.400, as published", &what, value, unit, figure, ISODE)
    };
    Scenario {
        name: "x400-steady-state",
        title: "X.400: one source more every interval, up to ten",
        about: "P1 in, P1 out, one recipient. In each interval (300 seconds at scale 1) one more source starts \
                to send, up to ten. All sources pause at more than 5,000 acknowledged and undelivered \
                messages, and resume below 500. The mail goes to one sink, or to two by routes for \
                organizations.",
        publication: "Isode's M-Switch X.400 benchmarks: steady state",
        differences: STEADY_DIFFERENCES,
        published: vec![
            figure("best rate, very small messages", 560.0, "1/s", "delivered_per_second"),
            figure("large messages", 1000.0, "Mbit/s", "best_mbit_per_second"),
        ],
        contenders: SWITCHES,
        cases: steady_cases(None),
    }
}

pub(super) fn archive() -> Scenario {
    Scenario {
        name: "x400-archive",
        title: "X.400: the steady state with archiving",
        about: "The same with every message archived, as the publication does it: a file for each message, a \
                directory for each minute.",
        publication: "Isode's M-Switch X.400 benchmarks: archiving",
        differences: &["not run: Postrider does not archive yet"],
        published: Vec::new(),
        contenders: SWITCHES,
        cases: steady_cases(Some("Postrider does not archive yet"))
            .into_iter()
            .filter(|case| case.ways == Ways::P1)
            .collect(),
    }
}

pub(super) fn large_queue() -> Scenario {
    let case = |name, title, kill| Case {
        name,
        title,
        kind: MeasurementKind::LargeQueue { kill },
        messages: 1_000_000,
        body_bytes: Span::of(10_000),
        sources: 5,
        sessions: 20,
        ..P1
    };
    let figure = |what, value, figure| {
        published("Isode M-Switch X.400, as published", what, value, "1/s", figure, ISODE)
    };
    Scenario {
        name: "x400-large-queue",
        title: "X.400: a million messages of 10 kB while nothing goes out",
        about: "First a tenth of the load with the next hop up, for reference. Then nothing goes out and the whole \
                load comes in; after a pause the next hop is back and the queue drains. In the second variant the \
                server gets SIGKILL when all is queued and is started again.",
        publication: "Isode's M-Switch X.400 benchmarks: large queue",
        differences: &[
            "egress is disabled by taking the next hop down",
            "a tenth of the load (2,000 messages at most) goes through before, as a warm-up",
            "5 sources of 20 associations; the publication gives no number",
            "source, switch and sink share one machine",
            "the second variant (SIGKILL) is ours",
        ],
        published: vec![
            figure("intake at the start", 550.0, "accepted_per_second"),
            figure("intake at the end", 300.0, "accepted_per_second"),
            figure("drain", 450.0, "drained_per_second"),
        ],
        contenders: SWITCHES,
        cases: vec![
            case("drain", "the next hop comes back", false),
            case("kill", "SIGKILL at full depth, then a start", true),
        ],
    }
}

pub(super) fn connections() -> Scenario {
    let case = |name, title, associations: u32| Case {
        name,
        title,
        messages: 400_000,
        body_bytes: Span::of(1000),
        sources: 2,
        sessions: associations / 2,
        egress: Egress::Limited(associations),
        ..P1
    };
    Scenario {
        name: "x400-connections",
        title: "X.400: 1 kB messages over few and over many associations",
        about: "P1 in, P1 out, as many associations in as out, each carrying one message at a time, as RTSE has it.",
        publication: "ours",
        differences: &[],
        published: Vec::new(),
        contenders: SWITCHES,
        cases: vec![
            case("10", "10 associations in each direction", 10),
            case("50", "50 associations in each direction", 50),
            case("200", "200 associations in each direction", 200),
            case("400", "400 associations in each direction", 400),
        ],
    }
}

pub(super) fn mixer() -> Scenario {
    let case = |name, title, inbound, outbound| Case {
        name,
        title,
        messages: 100_000,
        body_bytes: Span::of(10_000),
        per_connection: Span::of(1000),
        ways: Ways { inbound, outbound, ..Ways::P1 },
        ..P1
    };
    Scenario {
        name: "mixer",
        title: "10 kB messages through the gateway between mail and X.400",
        about: "Mail comes in over SMTP and goes out over P1, or the reverse, with the conversion of RFC 2156. \
                The same load over P1 alone and over SMTP alone is the reference.",
        publication: "ours",
        differences: &[],
        published: Vec::new(),
        contenders: &["postrider", "postrider-p1", "postrider-smtp", "p1-floor"],
        cases: vec![
            case("smtp-p1", "SMTP in, P1 out", Protocol::Smtp, Protocol::P1),
            case("p1-smtp", "P1 in, SMTP out", Protocol::P1, Protocol::Smtp),
        ],
    }
}
