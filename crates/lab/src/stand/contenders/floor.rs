//! The bare relay: the limit that the others are held against.

use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::Result;
use crate::stand::place::{ConfigFile, ServerSetup};
use crate::stand::server::{Daemon, MainProcess, Server};
use load::file;
use load::process::this_program;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Connections to the next hop, unless the case says otherwise.
const CONNECTIONS_MAX: u32 = 50;
const STOP_MAX: Duration = Duration::from_secs(20);

/// Processor time that the contender of known cost spends for each message, in microseconds: so much
/// that what the relaying itself takes is a small share of it.
const KNOWN_CPU_US: u32 = 10_000;
/// Bytes that it writes to a file for each message: whole folios, whatever their size.
const KNOWN_WRITE_BYTES: u32 = 256 * 1024;

/// The contender, in one of its forms.
#[derive(Debug)]
pub(crate) struct Floor {
    name: &'static str,
    form: FloorVariant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FloorVariant {
    InMemory,
    /// With a synced log.
    WithLog,
    /// The same, and content goes out before a recipient has been accepted.
    Hasty,
    /// Spends and writes what is known beforehand for each message: proves the meter.
    KnownCost,
}

impl Floor {
    pub(crate) fn in_memory() -> Floor {
        Floor { name: "floor", form: FloorVariant::InMemory }
    }

    pub(crate) fn with_log() -> Floor {
        Floor { name: "floor-log", form: FloorVariant::WithLog }
    }

    pub(crate) fn hasty() -> Floor {
        Floor { name: "floor-log-unasked", form: FloorVariant::Hasty }
    }

    pub(crate) fn of_known_cost() -> Floor {
        Floor { name: "known-cost", form: FloorVariant::KnownCost }
    }

    /// The arguments that make the form.
    fn arguments(&self, directory: &Path) -> Vec<OsString> {
        let file = |name: &str| directory.join(name).into_os_string();
        match self.form {
            FloorVariant::InMemory => Vec::new(),
            FloorVariant::WithLog => vec!["--log".into(), file("log")],
            FloorVariant::Hasty => vec!["--log".into(), file("log"), "--unasked-content".into()],
            FloorVariant::KnownCost => vec![
                "--burn-us".into(),
                KNOWN_CPU_US.to_string().into(),
                "--ballast-bytes".into(),
                KNOWN_WRITE_BYTES.to_string().into(),
                "--ballast".into(),
                file("ballast"),
            ],
        }
    }
}

impl Contender for Floor {
    fn name(&self) -> &str {
        self.name
    }

    fn title(&self) -> String {
        match self.form {
            FloorVariant::InMemory => "bare relay in memory: the limit".to_owned(),
            FloorVariant::WithLog => {
                "bare relay with a synced log: the limit with durability".to_owned()
            }
            FloorVariant::Hasty => {
                "bare relay with a synced log, content before a recipient is accepted".to_owned()
            }
            FloorVariant::KnownCost => format!(
                "bare relay that burns {KNOWN_CPU_US} µs and writes {KNOWN_WRITE_BYTES} bytes a \
                 message"
            ),
        }
    }

    fn durability(&self) -> Durability {
        let (word, sentence) = match self.form {
            FloorVariant::InMemory => ("memory", "250 with the message in memory only"),
            FloorVariant::WithLog | FloorVariant::Hasty => {
                ("sync", "250 after fdatasync, one for all waiting messages; the log is write-only")
            }
            FloorVariant::KnownCost => ("memory", "its writes are ballast"),
        };
        Durability { word, sentence }
    }

    fn find(&self, _: &Path) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn start(&self, place: &ServerSetup) -> Result<Box<dyn Server>> {
        let mut command = place.command(&this_program()?);
        let connections = place.egress.in_sum().unwrap_or(CONNECTIONS_MAX).to_string();
        command.args(["floor", "--connections", &connections, "--listen", &place.address()]);
        command.args(["--to", &place.sink]).args(self.arguments(&place.directory));
        start("floor", &mut command, place)
    }

    fn rough_rates(&self) -> RoughRates {
        match self.form {
            // Its known cost, on a core.
            FloorVariant::KnownCost => RoughRates { messages: 100.0, bytes: 60e6 },
            FloorVariant::InMemory | FloorVariant::WithLog | FloorVariant::Hasty => {
                RoughRates { messages: 3000.0, bytes: 60e6 }
            }
        }
    }

    fn survives_a_kill(&self) -> bool {
        false
    }
}

/// Starts a floor; it listens when this returns.
pub(super) fn start(
    name: &'static str,
    command: &mut Command,
    place: &ServerSetup,
) -> Result<Box<dyn Server>> {
    let text = format!("{command:?}\n");
    command.stdout(Stdio::piped()).stderr(file::create(&place.directory.join("floor.log"))?);
    let mut process = MainProcess::start(name, command)?;
    process.process().read_address()?;
    let files = vec![ConfigFile { name: "command line".to_owned(), text }];
    Ok(Box::new(Daemon { process, files, stop_max: STOP_MAX }))
}
