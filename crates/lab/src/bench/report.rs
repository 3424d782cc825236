//! What a benchmark run came to: the content of `report.json`, from which the page and the table are
//! drawn. Nothing here is computed twice: whoever shows a figure takes it from here.

pub use crate::show::Spread;
pub use crate::stand::ConfigFile;
use serde::{Deserialize, Serialize};

/// The form of `report.json`; raised when a field changes its meaning or goes.
pub const FORMAT: u32 = 1;

/// The whole run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`] of the program that wrote it.
    pub format: u32,
    /// Where, when and with what it was run.
    pub manifest: Manifest,
    /// The scenarios in the order they were run.
    pub scenarios: Vec<Scenario>,
    /// What makes the whole run doubtful or worthless.
    pub marks: Vec<Mark>,
}

/// What somebody else needs to repeat the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of `postrider-lab`.
    pub version: String,
    /// The command line.
    pub command_line: Vec<String>,
    /// Seed of bodies.
    pub seed: u64,
    /// Share of the published number of messages.
    pub scale: f64,
    /// Rounds that were asked for.
    pub rounds: u32,
    /// Messages in a second that the sources were to offer; none: as many as were taken.
    #[serde(default)]
    pub rate: Option<f64>,
    /// Users were to read and remove mail that was so many seconds old; none: all stayed.
    #[serde(default)]
    pub read_after_seconds: Option<u64>,
    /// When it began, RFC 3339 in UTC.
    pub began_at: String,
    /// How long it took.
    pub seconds: f64,
    /// The machine.
    pub machine: Machine,
    /// Those that were measured, in the order they were named.
    pub contenders: Vec<Contender>,
    /// Those that were asked for and could not be measured.
    pub skipped: Vec<Skipped>,
}

/// The machine that it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// As `/proc/cpuinfo` names it.
    pub cpu_model: String,
    /// Cores that this process may use.
    pub cores: u32,
    /// Memory in all.
    pub memory_bytes: u64,
    /// Release and build of the kernel.
    pub kernel: String,
    /// The directory below which the spools are.
    pub spool_directory: String,
    /// Type of its file system, for instance `ext4`.
    pub spool_file_system: String,
    /// The device or name that is mounted there.
    pub spool_device: String,
    /// Its mount options.
    pub spool_mount_options: String,
    /// Load average over a minute before the run began: others may have been at work.
    pub load_before: f64,
    /// Share of all processors that was in use before the run.
    #[serde(default)]
    pub busy_before_percent: f64,
}

/// A server that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// As it is named in `--against`.
    pub name: String,
    /// What it is, for people.
    pub title: String,
    /// As it tells its version itself.
    pub version: String,
    /// What its 250 promises, in one word: `sync`, `os`, `memory` or `unknown`.
    pub durability: String,
    /// The same in a sentence.
    pub durability_note: String,
    /// The files it was configured with, in its last run; ports differ from run to run.
    pub files: Vec<ConfigFile>,
}

/// A contender that could not be measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skipped {
    /// As it is named in `--against`.
    pub name: String,
    /// Why, and what would help (which package).
    pub why: String,
}

/// One scenario, with everything that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// As it is named on the command line.
    pub name: String,
    /// One line.
    pub title: String,
    /// What is done, in a few sentences.
    pub about: String,
    /// Whose benchmark it follows.
    pub publication: String,
    /// What differs here from the publication.
    pub differences: Vec<String>,
    /// Figures of others, to be shown beside the measured ones. Measured elsewhere: never a ratio.
    pub published: Vec<Published>,
    /// Its variants (sizes, paths); one if it has none.
    pub cases: Vec<Case>,
}

/// A figure that somebody published or that this project measured earlier.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Published {
    /// The server it is about.
    pub server: String,
    /// What was measured.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Name of the measured figure that it stands beside ([`FigureSummary::figure`]); empty if none.
    pub figure: String,
    /// Name of the case that it belongs to ([`Case::name`]); empty for all.
    pub case: String,
    /// Where it is from.
    pub source: String,
}

/// A variant of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// `local`, `50ms`, `10kB`; never empty, unique in its scenario.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What is sent.
    pub workload: Workload,
    /// Why it could not be run at all (no emulated path, for instance).
    pub unavailable: Option<String>,
    /// Contenders that this variant makes no sense for.
    #[serde(default)]
    pub left_out: Vec<Skipped>,
    /// What was measured.
    pub rounds: Vec<Round>,
    /// Each figure of each contender over the rounds.
    pub summaries: Vec<FigureSummary>,
    /// Each figure of the first contender against every other's, pair by pair within a round.
    pub ratios: Vec<Ratio>,
}

/// What is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Messages in all, to each contender in each round; 0 where time ends the run.
    pub messages: u64,
    /// Size of each body, or of the largest; the header comes on top.
    pub body_bytes: u64,
    /// Size of the smallest, where sizes are drawn.
    #[serde(default)]
    pub body_bytes_min: Option<u64>,
    /// Source processes.
    pub sources: u32,
    /// Sessions of each.
    pub sessions: u32,
    /// Messages on one connection, or the most of them.
    pub per_connection: u64,
    /// The least of them, where their number is drawn.
    #[serde(default)]
    pub per_connection_min: Option<u64>,
    /// Users of the directory that recipients are drawn from; 0: there is none.
    #[serde(default)]
    pub users: u64,
    /// So many of them get mail.
    #[serde(default)]
    pub recipients: u64,
    /// Messages offered in a second, evenly; 0: as many as were taken.
    #[serde(default)]
    pub rate: f64,
    /// Users read and removed mail that was so many seconds old; none: all stayed.
    #[serde(default)]
    pub read_after_seconds: Option<u64>,
    /// Sent by postal instead of our sources.
    #[serde(default)]
    pub postal: bool,
    /// Round trip of the path to the sink, in milliseconds; 0 for this machine's own.
    pub path_rtt_ms: f64,
    /// Share of packets that are lost on it, 0 to 1.
    pub path_loss: f64,
    /// Connections to the sink; 0 for as many as the contender usually makes.
    #[serde(default)]
    pub connections_max: u32,
    /// Domains with a route of their own; 0 for one route for all.
    #[serde(default)]
    pub routes: u32,
    /// Connections were encrypted, in and out: `resumed` or `full` handshakes; none: in clear.
    #[serde(default)]
    pub tls: Option<String>,
    /// Sources were stopped after so many seconds; 0: when they had sent all.
    #[serde(default)]
    pub seconds: f64,
}

impl Workload {
    /// At which rate messages were offered, for people.
    pub(crate) fn offered(&self) -> Option<String> {
        (self.rate > 0.0).then(|| format!("{} messages offered in a second", self.rate))
    }

    /// When mail was read and removed, for people.
    pub(crate) fn read(&self) -> Option<String> {
        let told = |seconds| format!("read and removed by its users after {seconds} s");
        self.read_after_seconds.map(told)
    }
}

/// Every contender once, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// From 1.
    pub number: u32,
    /// In the order they were run in, which changes from round to round.
    pub measurements: Vec<Measurement>,
}

/// How a measurement ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// All was accepted and delivered.
    #[default]
    Finished,
    /// It was stopped because its time was over.
    TimedOut,
    /// The contender did not start, ended, or refused.
    Failed,
}

/// One contender in one round. `None` and an empty list mean that it isn't known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Its name.
    pub contender: String,
    /// How it ended.
    pub ending: Ending,
    /// Why, when it was not in the good way.
    pub ending_note: String,
    /// Messages acknowledged with 250.
    pub accepted: u64,
    /// Messages that reached the sink.
    pub delivered: u64,
    /// From the first byte to the last acknowledgement.
    pub accept_seconds: f64,
    /// From the first byte to the last delivery.
    pub deliver_seconds: f64,
    /// The figures by which contenders are compared; names are unique.
    pub figures: Vec<Figure>,
    /// From the moment that a message was due to its acknowledgement, as sources saw it.
    pub latency: Option<Percentiles>,
    /// Messages accepted per second in each tenth of the run.
    pub intake_by_tenth: Vec<f64>,
    /// Rates, queue length, memory over time.
    pub series: Vec<Series>,
    /// A line for each minute, where mail is kept in mailboxes.
    #[serde(default)]
    pub minutes: Vec<Minute>,
    /// Things that happened at a moment (`egress enabled`, `SIGKILL`), to be drawn into the series.
    pub moments: Vec<TimelineEvent>,
    /// Every message accounted for.
    pub account: MessageBalance,
    /// How long the disk took to sync just before.
    pub disk: Option<DiskLatency>,
    /// What makes it doubtful or worthless.
    pub marks: Vec<Mark>,
}

/// A named value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// A name for programs: `delivered_per_second`, `cpu_us_per_message`.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// `1/s`, `µs`, `bytes`, `s`, `%`; empty for a bare number.
    pub unit: String,
    /// The value.
    pub value: f64,
    /// Which way is better.
    pub better: Better,
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It only describes.
    #[default]
    Neither,
}

/// A distribution, in microseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// How many there were.
    pub count: u64,
    /// Their mean.
    pub mean_us: f64,
    /// Half of them took no longer.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// 99 %.
    pub p99_us: f64,
    /// 99.9 %.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// Values over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// `accepted_per_second`, `delivered_per_second`, `queued`, `memory_bytes`, `sources`.
    pub name: String,
    /// A name for people.
    pub title: String,
    /// Of the values.
    pub unit: String,
    /// Seconds since the first byte, and the value.
    pub points: Vec<(f64, f64)>,
}

/// What happened in a minute, and what there was at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// From 1; the last may be shorter than a minute.
    pub number: u32,
    /// Accepted.
    pub messages: u64,
    /// In them, 1,024 bytes each; 0 where postal was ended before it told.
    pub kilobytes: u64,
    /// Refused, broken off, or no connection.
    pub errors: u64,
    /// Made by the sources.
    pub connections: u64,
    /// Accepted until then and found in no mailbox.
    pub backlog: u64,
    /// Messages in all mailboxes.
    pub in_mailboxes: u64,
    /// Mailboxes that have mail.
    pub mailboxes: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimelineEvent {
    /// Seconds since the first byte.
    pub seconds: f64,
    /// What.
    pub what: String,
}

/// Every message accounted for, from the ledgers of sources and sink, or from what lies in mailboxes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageBalance {
    /// Recipients that were acknowledged.
    pub acknowledged: u64,
    /// Arrivals at the sink, repeated ones included.
    pub arrived: u64,
    /// Acknowledged and never arrived.
    pub missing: u64,
    /// Arrived once more.
    pub duplicates: u64,
    /// So many of them are explained (a contender that was killed).
    pub duplicates_allowed: u64,
    /// Arrived, but not as it was sent.
    pub damaged: u64,
    /// Arrived at somebody else.
    pub misdelivered: u64,
    /// Refused to the source.
    pub refused: u64,
    /// The source doesn't know.
    pub unknown: u64,
    /// The first of what is missing, repeated, damaged or misdelivered: what it is, id, recipient.
    #[serde(default)]
    pub findings: Vec<String>,
}

/// How long an fdatasync of a small overwrite takes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskLatency {
    /// How many were tried.
    pub count: u32,
    /// Half of them took no longer, in microseconds.
    pub p50_us: f64,
    /// 90 %.
    pub p90_us: f64,
    /// The longest.
    pub max_us: f64,
}

/// How bad a mark is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing.
    #[default]
    Note,
    /// To be read with care.
    Doubtful,
    /// INVALID: proves nothing.
    Invalid,
}

/// Why a result is to be read with care, or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// How bad it is.
    pub severity: Severity,
    /// One sentence.
    pub text: String,
}

/// One figure of one contender over all rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FigureSummary {
    /// The contender.
    pub contender: String,
    /// [`Figure::name`].
    pub figure: String,
    /// [`Figure::title`].
    pub title: String,
    /// [`Figure::unit`].
    pub unit: String,
    /// [`Figure::better`].
    pub better: Better,
    /// The middle and the ends.
    pub spread: Spread,
}

/// One figure of the first contender divided by another's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    /// The first contender.
    pub of: String,
    /// The other.
    pub to: String,
    /// [`Figure::name`].
    pub figure: String,
    /// [`Figure::title`].
    pub title: String,
    /// [`Figure::better`].
    pub better: Better,
    /// Each round's ratio, the middle and the ends.
    pub spread: Spread,
}

impl Measurement {
    /// The worst of its marks.
    #[must_use]
    pub fn severity(&self) -> Severity {
        self.marks.iter().map(|mark| mark.severity).max().unwrap_or_default()
    }

    /// The figure of this name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

impl Case {
    /// Whether anything that was measured of a contender proves nothing.
    #[must_use]
    pub fn is_invalid(&self, contender: &str) -> bool {
        let mut measurements = self.rounds.iter().flat_map(|round| &round.measurements);
        measurements.any(|one| one.contender == contender && one.severity() == Severity::Invalid)
    }
}

impl Report {
    /// Whether anything in it is INVALID.
    #[must_use]
    pub fn is_invalid(&self) -> bool {
        let cases = self.scenarios.iter().flat_map(|scenario| &scenario.cases);
        let rounds = cases.flat_map(|case| &case.rounds);
        let mut measurements = rounds.flat_map(|round| &round.measurements);
        self.marks.iter().any(|mark| mark.severity == Severity::Invalid)
            || measurements.any(|measurement| measurement.severity() == Severity::Invalid)
    }
}
