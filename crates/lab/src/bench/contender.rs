//! Who is measured, and what they have in common.

use super::adapter::Adapter;
use super::server::{Place, Server};
use super::target::Target;
use super::{exim, floor, opensmtpd, postfix, postrider, target};
use load::proc;
use std::path::Path;
use std::time::{Duration, Instant};

/// A server must listen within this time of its start.
const START_MAX: Duration = Duration::from_secs(120);

/// Who can be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// With this durability, and so many transactions in flight on one connection.
    Postrider {
        durability: &'static str,
        in_flight: u32,
    },
    /// With a synced log or without.
    Floor {
        log: bool,
    },
    Postfix,
    Exim,
    OpenSmtpd,
    /// Spends and writes what is known beforehand for each message: proves the meter.
    KnownCost,
    /// A server that runs already.
    Target(Target),
    /// A server that a script starts.
    Adapter(Adapter),
}

/// Transactions in flight of the contender that is named after them.
const IN_FLIGHT: u32 = 8;

const NAMED: [(&str, Contender); 10] = [
    ("postrider", Contender::Postrider { durability: "sync", in_flight: 1 }),
    ("postrider-in-flight", Contender::Postrider { durability: "sync", in_flight: IN_FLIGHT }),
    ("postrider-os", Contender::Postrider { durability: "os", in_flight: 1 }),
    ("floor", Contender::Floor { log: false }),
    ("floor-log", Contender::Floor { log: true }),
    ("postfix", Contender::Postfix),
    ("exim", Contender::Exim),
    ("opensmtpd", Contender::OpenSmtpd),
    ("known-cost", Contender::KnownCost),
    ("postrider-memory", Contender::Postrider { durability: "memory", in_flight: 1 }),
];

impl Contender {
    /// All that have a name of their own.
    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// The one of this name, among those that the command line gives and those that have one of
    /// their own.
    ///
    /// # Errors
    /// An unknown name; the text lists the known ones.
    pub(super) fn named(name: &str, given: &[Contender]) -> Result<Contender, String> {
        if let Some(found) = given.iter().find(|contender| contender.name() == name) {
            return Ok(found.clone());
        }
        let found = NAMED.iter().find(|(known, _)| *known == name);
        found.map(|(_, contender)| contender.clone()).ok_or_else(|| {
            let mut known: Vec<&str> = Contender::names().collect();
            known.extend(given.iter().map(Contender::name));
            format!("there is no contender {name:?}; known are {}", known.join(", "))
        })
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Contender::Target(target) => &target.name,
            Contender::Adapter(adapter) => &adapter.name,
            other => NAMED.iter().find(|(_, known)| known == other).map_or("", |(name, _)| name),
        }
    }

    /// One line for people.
    pub(super) fn title(&self) -> String {
        match self {
            Contender::Postrider { durability, in_flight: 1 } => {
                format!("Postrider, durability \"{durability}\"")
            }
            Contender::Postrider { durability, in_flight } => format!(
                "Postrider, durability \"{durability}\", transactions_in_flight = {in_flight}"
            ),
            Contender::Floor { log: false } => "bare relay in memory: the limit".to_owned(),
            Contender::Floor { log: true } => {
                "bare relay with a synced log: the limit with durability".to_owned()
            }
            Contender::Postfix => "Postfix".to_owned(),
            Contender::Exim => "Exim".to_owned(),
            Contender::OpenSmtpd => "OpenSMTPD".to_owned(),
            Contender::KnownCost => floor::known_cost_title(),
            Contender::Target(target) => format!("the server at {}", target.address),
            Contender::Adapter(adapter) => format!("what {} starts", adapter.script()),
        }
    }

    /// What its 250 promises: a word and a sentence.
    pub(super) fn durability(&self) -> (&'static str, &'static str) {
        match self {
            Contender::Postrider { durability: "sync", .. } => {
                ("sync", "250 after fdatasync, one for all that wait")
            }
            Contender::Postrider { durability: "os", .. } => {
                ("os", "written before 250, never synced")
            }
            Contender::Postrider { .. } | Contender::Floor { log: false } => {
                ("memory", "250 for what is in memory only")
            }
            Contender::Floor { log: true } => {
                ("sync", "250 after fdatasync, one for all that wait; the log can't be read again")
            }
            Contender::Postfix => ("sync", "250 after fsync of the message's own file"),
            Contender::Exim => ("sync", "250 after fsync of the message's two files"),
            Contender::OpenSmtpd => {
                ("unknown", "its own default; what it syncs we have not verified")
            }
            Contender::KnownCost => ("memory", "its writes are ballast"),
            Contender::Target(_) => ("unknown", "we did not configure it"),
            Contender::Adapter(_) => ("unknown", "its adapter configures it"),
        }
    }

    /// Its version, if it can be measured here.
    ///
    /// # Errors
    /// Why not, and what would help.
    pub(super) fn find(&self, postrider: &Path) -> Result<String, String> {
        match self {
            Contender::Postrider { .. } => postrider::version(postrider),
            Contender::Floor { .. } | Contender::KnownCost => {
                Ok(env!("CARGO_PKG_VERSION").to_owned())
            }
            Contender::Postfix => postfix::version(),
            Contender::Exim => exim::version(),
            Contender::OpenSmtpd => opensmtpd::version(),
            Contender::Target(target) => target.greeting(),
            Contender::Adapter(adapter) => adapter.version(),
        }
    }

    /// Starts it, or starts it again on what it left.
    ///
    /// # Errors
    /// When it doesn't start or doesn't listen.
    pub(super) fn start(&self, place: &Place) -> Result<Box<dyn Server>, String> {
        let server = match self {
            Contender::Postrider { durability, in_flight } => {
                postrider::start(place, durability, *in_flight)?
            }
            Contender::Floor { log } => floor::start(place, *log)?,
            Contender::KnownCost => floor::start_known_cost(place)?,
            Contender::Postfix => postfix::start(place)?,
            Contender::Exim => exim::start(place)?,
            Contender::OpenSmtpd => opensmtpd::start(place)?,
            Contender::Target(target) => target.start(),
            Contender::Adapter(adapter) => adapter.start(place)?,
        };
        let listens = wait_until_it_listens(&self.address(place), server.pid());
        listens.map_err(|error| error + &last_words(&place.directory))?;
        Ok(server)
    }

    /// Where it listens.
    pub(super) fn address(&self, place: &Place) -> String {
        match self {
            Contender::Target(target) => target.address.clone(),
            _ => place.address(),
        }
    }

    /// Messages and bytes per second on a small machine, roughly: to foretell how long a run takes.
    pub(super) fn rough_rates(&self) -> (f64, f64) {
        match self {
            Contender::Postfix | Contender::Exim | Contender::OpenSmtpd => (300.0, 30e6),
            // Its known cost, on a core.
            Contender::KnownCost => (100.0, 60e6),
            _ => (3000.0, 60e6),
        }
    }

    /// Whether a killed one may be asked for its mail: only what it promised to keep.
    pub(super) fn survives_a_kill(&self) -> bool {
        !matches!(
            self,
            Contender::Floor { .. }
                | Contender::KnownCost
                | Contender::Postrider { durability: "memory", .. }
                | Contender::Target(_)
        )
    }

    /// Whether [`Place::connections_max`] means anything to it.
    pub(super) fn limits_connections(&self) -> bool {
        matches!(
            self,
            Contender::Postrider { .. }
                | Contender::Floor { .. }
                | Contender::KnownCost
                | Contender::Postfix
                | Contender::Adapter(_)
        )
    }

    /// Messages that a killed one may deliver again: transactions in flight, and what was delivered
    /// and not yet recorded.
    pub(super) fn duplicates_per_kill(&self) -> u64 {
        match self {
            Contender::Postrider { in_flight, .. } => {
                1024 + u64::from(postrider::CONNECTIONS_MAX * in_flight)
            }
            _ => 250,
        }
    }
}

fn wait_until_it_listens(address: &str, pid: u32) -> Result<(), String> {
    let begun = Instant::now();
    let mut last = String::new();
    while begun.elapsed() < START_MAX {
        match target::greeting(address) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
        if proc::has_ended(pid) {
            return Err("it ended at once".to_owned());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(format!("it doesn't answer at {address}: {last}"))
}

/// What its log in that directory ends with.
fn last_words(directory: &Path) -> String {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let logs =
        entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("log".as_ref()));
    let texts = logs.filter_map(|path| std::fs::read_to_string(path).ok());
    let lines: Vec<String> =
        texts.filter_map(|text| text.lines().last().map(str::to_owned)).collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!("; its log ends with: {}", lines.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::Contender;
    use crate::bench::adapter::Adapter;
    use crate::bench::target::Target;

    #[test]
    fn names_are_unique_and_lead_back() {
        for name in Contender::names() {
            assert_eq!(Contender::named(name, &[]).expect("known").name(), name);
        }
        let error = Contender::named("sendmail", &[]).expect_err("unknown");
        assert!(error.contains("\"sendmail\"") && error.contains("postfix"), "{error}");
    }

    #[test]
    fn what_the_command_line_gives_goes_by_the_name_it_has_there() {
        let target: Target = "mine=127.0.0.1:25,pid=7".parse().expect("well-formed");
        let adapter: Adapter = "other=script".parse().expect("well-formed");
        let given = [Contender::Target(target), Contender::Adapter(adapter)];
        assert_eq!(Contender::named("other", &given).expect("known").name(), "other");
        assert_eq!(Contender::named("mine", &given).expect("known").name(), "mine");
    }
}
