//! The scenarios: what is done, whose benchmark it follows, and what others have published.

mod providers;
mod x400;

use super::report::Published;
use crate::stand::contender::RoughRates;
use crate::stand::egress::Egress;
use crate::stand::long_path::PathShape;
use crate::stand::ways::Ways;
use crate::stand::{Error, Load, Result, TENANTS, Tool};
use load::source::Span;
use load::tls::Handshakes;
use std::time::Duration;

/// The project's own figures from before a line was written.
const REFERENCE_MACHINE: &str = "measured by this project on a 2-core machine that source, relay and sink shared, 250 connections in";

/// A benchmark.
#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) about: &'static str,
    pub(super) publication: &'static str,
    pub(super) differences: &'static [&'static str],
    pub(super) published: Vec<Published>,
    /// Who is measured unless the command line says otherwise; the first always is, unless another form
    /// of Postrider is named.
    pub(super) contenders: &'static [&'static str],
    pub(super) cases: Vec<Case>,
}

/// Who is measured where mail is relayed.
const RELAYS: &[&str] = &["postrider", "floor", "floor-log", "postfix"];

/// A variant of it.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) kind: MeasurementKind,
    /// At scale 1.
    messages: u64,
    body_bytes: Span,
    sources: u32,
    sessions: u32,
    per_connection: Span,
    pub(super) path: Option<PathShape>,
    pub(super) egress: Egress,
    pub(super) ways: Ways,
    /// Why it can't be measured yet, if it can't.
    pub(super) missing: Option<&'static str>,
}

/// How it is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MeasurementKind {
    Relay,
    /// A source more each so many seconds (at scale 1).
    SteadyState(u64),
    LargeQueue {
        kill: bool,
    },
    /// Into the Maildirs of users of a directory, for so many seconds (at scale 1).
    Mailboxes {
        seconds: u64,
        tool: Tool,
    },
}

/// The path of the KumoMTA scenarios.
const FIFTY_MS: PathShape = PathShape { rtt: Duration::from_millis(50), loss: 0.001 };

impl Case {
    /// What is sent at this scale: at least one message for each session.
    pub(super) fn load(&self, scale: f64, seed: u64) -> Load {
        let sessions = u64::from(self.sources) * u64::from(self.sessions);
        let messages = ((self.messages as f64 * scale) as u64).max(sessions);
        Load {
            messages,
            body_bytes: self.body_bytes,
            sources: self.sources,
            sessions: self.sessions,
            per_connection: self.per_connection,
            recipients: None,
            domains: None,
            tenants: match self.egress {
                Egress::Providers(_) => TENANTS,
                Egress::Usual | Egress::Limited(_) | Egress::Routes { .. } => 0,
            },
            rate: None,
            lasts: None,
            cut_off: None,
            tls: None,
            seed,
            tool: match self.kind {
                MeasurementKind::Mailboxes { tool, .. } => tool,
                _ => Tool::Source,
            },
        }
    }

    /// How long sources send, where time ends that: as the command line has it, or as long as the case
    /// takes at this scale.
    pub(super) fn lasts(&self, given: Option<Duration>, scale: f64) -> Option<Duration> {
        match self.kind {
            MeasurementKind::Relay => given,
            MeasurementKind::Mailboxes { seconds, .. } => {
                Some(given.unwrap_or_else(|| Case::interval(seconds, scale)))
            }
            MeasurementKind::SteadyState(_) | MeasurementKind::LargeQueue { .. } => None,
        }
    }

    /// The rate at which messages are offered, where that is for the command line to say.
    pub(super) fn rate(&self, given: Option<f64>) -> Option<f64> {
        given.filter(|_| {
            matches!(self.kind, MeasurementKind::Relay | MeasurementKind::Mailboxes { .. })
        })
    }

    /// How connections are encrypted, where that is for the command line to say.
    pub(super) fn tls(&self, given: Option<Handshakes>) -> Option<Handshakes> {
        given.filter(|_| self.kind == MeasurementKind::Relay && self.ways.is_mail())
    }

    /// Whether mail is kept in mailboxes, not relayed.
    pub(super) fn keeps_mail(&self) -> bool {
        matches!(self.kind, MeasurementKind::Mailboxes { .. })
    }

    /// So many seconds at scale 1 at this scale.
    pub(super) fn interval(seconds: u64, scale: f64) -> Duration {
        Duration::from_secs_f64((seconds as f64 * scale).max(0.2))
    }

    /// Roughly how long a measurement takes at scale 1 if so much goes through in a second.
    pub(super) fn seconds(&self, rates: RoughRates) -> f64 {
        let each = 1.0 / rates.messages + self.body_bytes.max as f64 / rates.bytes;
        match self.kind {
            MeasurementKind::Relay => self.messages as f64 * each,
            MeasurementKind::SteadyState(interval) => (interval * u64::from(self.sources)) as f64,
            MeasurementKind::Mailboxes { seconds, .. } => seconds as f64,
            // In, and out again.
            MeasurementKind::LargeQueue { .. } => self.messages as f64 * each * 2.0,
        }
    }
}

fn published(
    server: &str,
    what: &str,
    value: f64,
    unit: &str,
    figure: &str,
    source: &str,
) -> Published {
    let [server, what, unit, figure, source] =
        [server, what, unit, figure, source].map(str::to_owned);
    Published { server, what, value, unit, figure, case: String::new(), source }
}

/// All scenarios.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        relay("relay-400", "400-byte messages, one per connection", 400),
        relay("relay-64k", "64 KiB messages, one per connection", 65_536),
        bulk("marketing-100k", "100,000 messages of 100 KB as fast as possible", 100_000),
        bulk("alerts-10k", "100,000 messages of 10 KB as fast as possible", 10_000),
        providers::scenario(),
        steady_state(),
        large_queue(),
        directory_mailboxes(),
        x400::steady_state(),
        x400::archive(),
        x400::large_queue(),
        x400::connections(),
        x400::mixer(),
        floor(),
    ]
}

const RELAY: Case = Case {
    name: "local",
    title: "5 sources of 50 sessions",
    kind: MeasurementKind::Relay,
    messages: 500_000,
    body_bytes: Span::of(400),
    sources: 5,
    sessions: 50,
    per_connection: Span::of(1),
    path: None,
    egress: Egress::Usual,
    ways: Ways::SMTP,
    missing: None,
};

/// The publication's relay: a route for each of five domains, 250 connections out in sum.
const FIVE_ROUTES: Egress = Egress::Routes { domains: 5, connections: 50 };

const MAILISMUS: &str = "greyware.co.uk/mailismus/benchmarks.htm";

/// Mailismus's own result: messages and seconds until the last was delivered.
fn mailismus(body_bytes: u64) -> Vec<Published> {
    let delivered = |server: &str, time: &str, seconds: f64| {
        let what = format!("500,000 messages in {time}");
        let rate = 500_000.0 / seconds;
        published(server, &what, rate, "1/s", "delivered_per_second", MAILISMUS)
    };
    match body_bytes {
        400 => vec![
            delivered("Mailismus, as published", "4m44s", 284.0),
            delivered("Postfix, as published there", "14m53s", 893.0),
        ],
        _ => vec![
            delivered("Mailismus, as published", "12m2s", 722.0),
            delivered("Postfix, as published there", "3h9m", 11_340.0),
        ],
    }
}

fn relay(name: &'static str, title: &'static str, body_bytes: u64) -> Scenario {
    let mut figures = mailismus(body_bytes);
    if body_bytes == 400 {
        let rate = |server, what, value| {
            published(server, what, value, "1/s", "delivered_per_second", REFERENCE_MACHINE)
        };
        let cpu = |server, what, value| {
            published(server, what, value, "µs", "cpu_us_per_message", REFERENCE_MACHINE)
        };
        figures.extend([
            rate("bare relay", "in memory", 14_000.0),
            rate("bare relay", "group commit with fdatasync", 13_000.0),
            rate("KumoMTA (2026-08)", "its default, nothing synced, upper end", 2500.0),
            rate("KumoMTA (2026-08)", "synced for each message, upper end", 1470.0),
            rate("Mailismus", "never syncs", 2270.0),
            rate("Postfix 3.7", "syncs", 825.0),
            cpu("bare relay", "in memory", 51.0),
            cpu("bare relay", "group commit with fdatasync, upper end", 80.0),
            cpu("KumoMTA (2026-08)", "its default, nothing synced, lower end", 510.0),
            cpu("KumoMTA (2026-08)", "synced for each message, lower end", 720.0),
            cpu("Mailismus", "never syncs", 199.0),
            cpu("Postfix 3.7", "syncs", 1600.0),
        ]);
    }
    Scenario {
        name,
        title,
        about: "Five sources with 50 sessions each send to one destination domain each, one message \
                per connection, through the relay to a sink. Times are taken until the last message \
                is accepted and until the last is delivered. A tenth of the load, at most 2,000 \
                messages, goes before, so that processes are forked and log segments prepared.",
        publication: "Mailismus's comparison with Postfix (greyware.co.uk/mailismus/benchmarks.htm), \
                      500,000 messages at scale 1",
        differences: &[
            "source and sink are postrider-lab's, which account for every message; the publication \
             sends with its own programs to a second instance of the server",
            "outgoing connections are those of the publication, 250 in sum; Postrider has 50 in each \
             of five routes, Postfix and the bare relay have 250 to one next hop",
            "Postrider and Postfix sync before they acknowledge; Mailismus never does",
        ],
        published: figures,
        contenders: RELAYS,
        cases: vec![Case { body_bytes: Span::of(body_bytes), egress: FIVE_ROUTES, ..RELAY }],
    }
}

fn bulk(name: &'static str, title: &'static str, body_bytes: u64) -> Scenario {
    let mut figures = Vec::new();
    if body_bytes == 100_000 {
        figures.push(published(
            "KumoMTA 2025.05.06",
            "AWS c5n.2xlarge (8 cores, 21 GB): nearly 3.3 million messages an hour",
            3_300_000.0 / 3600.0,
            "1/s",
            "delivered_per_second",
            "kumomta.com/blog/kumomta-performance-update",
        ));
    }
    let local = Case {
        name: "local",
        title: "to a sink on this machine",
        messages: 100_000,
        body_bytes: Span::of(body_bytes),
        sources: 4,
        sessions: 25,
        per_connection: Span::of(1000),
        ..RELAY
    };
    let far = Case {
        name: "50ms",
        title: "over a path of 50 ms round trip that loses 0.1 % of packets",
        path: Some(FIFTY_MS),
        ..local.clone()
    };
    let mut cases = vec![local, far.clone()];
    if body_bytes == 10_000 {
        figures.push(published(
            "KumoMTA",
            "66 million messages an hour; the publication could not be found again, so read it \
             with care",
            66_000_000.0 / 3600.0,
            "1/s",
            "delivered_per_second",
            "KumoMTA, unverified",
        ));
        cases.push(Case {
            name: "50ms-1",
            title: "over the same path with one connection to the sink",
            messages: 2500,
            sources: 1,
            egress: Egress::Limited(1),
            ..far
        });
    }
    Scenario {
        name,
        title,
        about: "Four sources with 25 sessions each inject as fast as the relay takes it, connections \
                reused; the relay delivers to a sink, once on this machine and once over an emulated \
                long path.",
        publication: "KumoMTA's performance tests: 100,000 messages injected as rapidly as possible",
        differences: &[
            "source, relay and sink share this machine; the publication's relay has a separate one",
            "the publication's long path is a real network; here it is emulated",
            "the publication gives no number of connections; here 100 sessions come in with up to 1,000 \
             messages each, and 50 connections go out (Postfix: 250)",
            "not signed with DKIM yet",
        ],
        published: figures,
        contenders: RELAYS,
        cases,
    }
}

const ISODE: &str = "Isode's M-Switch benchmarks";

fn steady_state() -> Scenario {
    let case = |name, title, body_bytes| Case {
        name,
        title,
        kind: MeasurementKind::SteadyState(60),
        messages: 1_000_000_000,
        body_bytes: Span::of(body_bytes),
        sources: 10,
        sessions: 5,
        per_connection: Span::of(1000),
        ..RELAY
    };
    Scenario {
        name: "steady-state",
        title: "one source more every interval, up to ten",
        about: "In each interval (60 seconds at scale 1) one more source starts to send, up to ten. All \
                sources pause at more than 5,000 accepted and undelivered messages, and resume below \
                500. Throughput is measured over time.",
        publication: "Isode's M-Switch benchmarks: steady state",
        differences: &[
            "without archiving: Postrider has none yet",
            "each source has 5 sessions and sends up to 1,000 messages over a connection",
        ],
        published: vec![published(
            "Isode M-Switch",
            "best rate, as published",
            560.0,
            "1/s",
            "delivered_per_second",
            ISODE,
        )],
        contenders: RELAYS,
        cases: vec![
            case("1kB", "1 kB messages", 1000),
            case("10kB", "10 kB messages", 10_000),
            case("100kB", "100 kB messages", 100_000),
            case("1MB", "1 MB messages", 1_000_000),
            case("10MB", "10 MB messages", 10_000_000),
        ],
    }
}

fn large_queue() -> Scenario {
    let case = |name, title, kill| Case {
        name,
        title,
        kind: MeasurementKind::LargeQueue { kill },
        messages: 1_000_000,
        body_bytes: Span::of(10_000),
        sources: 5,
        sessions: 20,
        per_connection: Span::of(1000),
        ..RELAY
    };
    let figure = |what, value, figure| {
        published("Isode M-Switch, as published", what, value, "1/s", figure, ISODE)
    };
    Scenario {
        name: "large-queue",
        title: "a million messages of 10 kB while the next hop is down",
        about: "First a tenth of the load with the next hop up, for reference. Then the next hop goes \
                down and the whole load comes in; after a pause it is back (for Postfix with \
                `postqueue -f`, for Postrider with `postrider queue retry --all`) and the queue drains. \
                In the second variant the server gets SIGKILL when all is queued and is started again.",
        publication: "Isode's M-Switch benchmarks: large queue",
        differences: &[
            "egress is disabled by taking the next hop down",
            "a tenth of the load (2,000 messages at most) goes through before, as a warm-up",
            "5 sources of 20 sessions, 1,000 messages on a connection; the publication gives no number",
            "source, server and sink share one machine",
            "the second variant (SIGKILL) is ours",
        ],
        published: vec![
            figure("intake at the start", 550.0, "accepted_per_second"),
            figure("intake at the end", 300.0, "accepted_per_second"),
            figure("drain", 450.0, "drained_per_second"),
        ],
        contenders: RELAYS,
        cases: vec![
            case("drain", "the next hop comes back", false),
            case("kill", "SIGKILL at full depth, then a start", true),
        ],
    }
}

const POSTFIX_WITH_LDAP: &str = "the Postfix-with-LDAP benchmark";

fn directory_mailboxes() -> Scenario {
    let case = |name, title, sessions, tool| Case {
        name,
        title,
        kind: MeasurementKind::Mailboxes { seconds: 600, tool },
        messages: 1_000_000_000,
        body_bytes: Span { min: 0, max: 10 * 1024 },
        sources: 1,
        sessions,
        per_connection: Span { min: 1, max: 3 },
        ..RELAY
    };
    let figure = |what, value: f64| {
        let (server, figure) = ("Postfix with LDAP, as published", "accepted_per_second");
        published(server, what, value / 60.0, "1/s", figure, POSTFIX_WITH_LDAP)
    };
    Scenario {
        name: "directory-mailboxes",
        title: "mail for users of a large directory, into their Maildirs",
        about: "A directory has 500,000 users (--users), and some (--recipients) are drawn to get mail. \
                Mail comes for ten minutes at scale 1, as fast as the server accepts it. There are 50 \
                connections or more with 1 to 3 messages each, and bodies of up to 10 kB. The server \
                looks up each recipient and keeps the mail in Maildirs. Contenders differ in their \
                lookups: in a file, a file with an index, slapd over LDAP, or a copy of slapd's entries. \
                Files in Maildirs are counted by inotify, and read message by message at the end.",
        publication: "the Postfix-with-LDAP benchmark: 500,000 entries, postal as load, mailboxes on the \
                      same machine",
        differences: &[
            "load, server, slapd and disk share one machine",
            "the publication ran for hours; --seconds 3600 does so here, and needs disk space for all \
             mail unless users read it (--read-after)",
            "the recipients' Maildirs exist before, and are empty",
            "our source sends like postal, to the recipients in turn",
            "postal (0.76) sends at most some 400 messages a second; with a faster server its variants \
             show the cost of a message, and no maximum rate",
            "Postfix has its own limits of local delivery (20 at once to a domain), 300 processes, no DNS; \
             a table of 500,000 users in a file is lmdb there",
        ],
        published: vec![
            figure("5,172 messages a minute at first", 5172.0),
            figure("882 messages a minute after an hour", 882.0),
        ],
        contenders: &[
            "postrider-file",
            "postrider-database",
            "postrider-ldap",
            "postrider-snapshot",
            "postfix-lmdb",
            "postfix-ldap",
            "postfix-ldap-proxy",
        ],
        cases: vec![
            case("50", "our source, 50 connections", 50, Tool::Source),
            case("100", "our source, 100 connections", 100, Tool::Source),
            case("500", "our source, 500 connections", 500, Tool::Source),
            case("postal-50", "postal, 50 connections", 50, Tool::Postal),
            case("postal-100", "postal, 100 connections", 100, Tool::Postal),
        ],
    }
}

fn floor() -> Scenario {
    Scenario {
        name: "floor",
        title: "the bare relay, the limit of comparison",
        about: "The relay load in three forms. The bare relay only reads, relays and (with a log) syncs, \
                so its cost is that of SMTP and of the kernel's TCP.",
        publication: "ours",
        differences: &[],
        published: Vec::new(),
        contenders: RELAYS,
        cases: vec![
            Case {
                name: "400B",
                title: "400 B, one message per connection",
                messages: 100_000,
                ..RELAY
            },
            Case {
                name: "400B-reused",
                title: "400 B, connections reused",
                messages: 100_000,
                per_connection: Span::of(1000),
                ..RELAY
            },
            Case {
                name: "64KiB",
                title: "64 KiB, one message per connection",
                messages: 20_000,
                body_bytes: Span::of(65_536),
                ..RELAY
            },
        ],
    }
}

/// The scenarios that a name stands for: `all`, a scenario, or one of its variants
/// (`alerts-10k/50ms`).
///
/// # Errors
/// An unknown name; the text lists the known ones.
pub(super) fn named(name: &str) -> Result<Vec<Scenario>> {
    let mut all = all();
    if name == "all" {
        return Ok(all);
    }
    let known: Vec<&str> = all.iter().map(|scenario| scenario.name).collect();
    let error = format!("unknown scenario {name:?}: use all, {}", known.join(", "));
    let (scenario, variant) = name.split_once('/').unzip();
    let scenario_name = scenario.unwrap_or(name);
    all.retain(|scenario| scenario.name == scenario_name);
    let Some(scenario) = all.first_mut() else { return Err(Error::Missing(error)) };
    if let Some(variant) = variant {
        let known: Vec<&str> = scenario.cases.iter().map(|case| case.name).collect();
        let error = format!("{scenario_name} has no variant {variant:?}: use {}", known.join(", "));
        scenario.cases.retain(|case| case.name == variant);
        if scenario.cases.is_empty() {
            return Err(Error::Missing(error));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::{all, named};

    #[test]
    fn names_are_unique_and_unknown_ones_are_refused() {
        for scenario in all() {
            assert_eq!(named(scenario.name).expect("known").len(), 1);
            let mut cases: Vec<&str> = scenario.cases.iter().map(|case| case.name).collect();
            cases.dedup();
            assert_eq!(cases.len(), scenario.cases.len());
        }
        assert_eq!(named("all").expect("known").len(), all().len());
        let error = named("relay-500").expect_err("unknown").to_string();
        assert!(error.contains("relay-500") && error.contains("large-queue"), "{error}");
        let one = named("alerts-10k/50ms").expect("known");
        assert_eq!(one[0].cases.iter().map(|case| case.name).collect::<Vec<_>>(), ["50ms"]);
        let error = named("alerts-10k/5ms").expect_err("unknown").to_string();
        assert!(error.contains("5ms") && error.contains("local, 50ms"), "{error}");
    }

    #[test]
    fn each_published_figure_has_a_source() {
        for published in all().iter().flat_map(|scenario| &scenario.published) {
            assert!(!published.source.is_empty() && published.value > 0.0, "{published:?}");
        }
    }

    #[test]
    fn every_session_gets_a_message_at_any_scale() {
        for case in all().iter().flat_map(|scenario| &scenario.cases) {
            let load = case.load(1e-9, 1);
            assert!(load.messages >= u64::from(load.sources * load.sessions));
        }
    }
}
