//! The bare relay: the limit that the others are held against.

use crate::stand::contender::{Contender, Durability, RoughRates};
use crate::stand::error::Result;
use crate::stand::place::{ConfigFile, Place};
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
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
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
        Floor { name: "floor", form: Form::InMemory }
    }

    pub(crate) fn with_log() -> Floor {
        Floor { name: "floor-log", form: Form::WithLog }
    }

    pub(crate) fn hasty() -> Floor {
        Floor { name: "floor-log-unasked", form: Form::Hasty }
    }

    pub(crate) fn of_known_cost() -> Floor {
        Floor { name: "known-cost", form: Form::KnownCost }
    }

    /// The arguments that make the form.
    fn arguments(&self, directory: &Path) -> Vec<OsString> {
        let file = |name: &str| directory.join(name).into_os_string();
        match self.form {
            Form::InMemory => Vec::new(),
            Form::WithLog => vec!["--log".into(), file("log")],
            Form::Hasty => vec!["--log".into(), file("log"), "--unasked-content".into()],
            Form::KnownCost => vec![
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
            Form::InMemory => "bare relay in memory: the limit".to_owned(),
            Form::WithLog => "bare relay with a synced log: the limit with durability".to_owned(),
            Form::Hasty => {
                "bare relay with a synced log, content before a recipient is accepted".to_owned()
            }
            Form::KnownCost => format!(
                "bare relay that burns {KNOWN_CPU_US} µs and writes {KNOWN_WRITE_BYTES} bytes a \
                 message"
            ),
        }
    }

    fn durability(&self) -> Durability {
        let (word, sentence) = match self.form {
            Form::InMemory => ("memory", "250 for what is in memory only"),
            Form::WithLog | Form::Hasty => {
                ("sync", "250 after fdatasync, one for all that wait; the log can't be read again")
            }
            Form::KnownCost => ("memory", "its writes are ballast"),
        };
        Durability { word, sentence }
    }

    fn find(&self, _: &Path) -> Result<String> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn start(&self, place: &Place) -> Result<Box<dyn Server>> {
        let mut command = place.command(&this_program()?);
        let connections = place.egress.in_sum().unwrap_or(CONNECTIONS_MAX).to_string();
        command.args(["floor", "--connections", &connections, "--listen", &place.address()]);
        command.args(["--to", &place.sink]).args(self.arguments(&place.directory));
        start("floor", &mut command, place)
    }

    fn rough_rates(&self) -> RoughRates {
        match self.form {
            // Its known cost, on a core.
            Form::KnownCost => RoughRates { messages: 100.0, bytes: 60e6 },
            Form::InMemory | Form::WithLog | Form::Hasty => {
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
    place: &Place,
) -> Result<Box<dyn Server>> {
    let text = format!("{command:?}\n");
    command.stdout(Stdio::piped()).stderr(file::create(&place.directory.join("floor.log"))?);
    let mut process = MainProcess::start(name, command)?;
    process.process().read_address()?;
    let files = vec![ConfigFile { name: "command line".to_owned(), text }];
    Ok(Box::new(Daemon { process, files, stop_max: STOP_MAX }))
}
