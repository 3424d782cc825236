//! Sources and sink: child processes, so that what they use is not counted with the contender.

use super::path::Path as LongPath;
use super::scenario::domain;
use load::ledger::Followed;
use load::process::{Process, create, lab_program, read_address};
use load::stats::Latency;
use serde::Deserialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// A load tool that was asked to end has so long.
const STOP_MAX: Duration = Duration::from_secs(20);

/// What a source sends.
#[derive(Clone, Debug)]
pub(super) struct Load {
    pub(super) messages: u64,
    pub(super) body_bytes: u64,
    pub(super) sources: u32,
    pub(super) sessions: u32,
    pub(super) per_connection: u64,
    /// Sources are stopped after this time, however many messages they have left.
    pub(super) lasts: Option<Duration>,
    /// A contender that hasn't taken all by then is not waited for.
    pub(super) cut_off: Option<Duration>,
    pub(super) seed: u64,
}

/// As many messages as no source ever sends in the time it has.
const ENDLESS: u64 = 1_000_000_000;

impl Load {
    /// The same, ended by time if there is one.
    pub(super) fn lasting(self, lasts: Option<Duration>) -> Load {
        match lasts {
            None => self,
            Some(_) => Load { messages: ENDLESS, lasts, ..self },
        }
    }
}

/// A running source.
#[derive(Debug)]
pub(super) struct Source {
    process: Option<Process>,
    output: PathBuf,
    pub(super) ledger: Followed,
}

/// What a source prints at its end.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct SourceReport {
    pub(super) seconds: f64,
    pub(super) acked: u64,
    pub(super) sessions_gave_up: u64,
    latency_us_counts: Vec<(u64, u64)>,
}

impl Source {
    /// Starts number `number` of a load, which sends to a domain of its own. `name` is that of its
    /// files.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(
        directory: &Path,
        name: &str,
        to: &str,
        load: &Load,
        number: u32,
    ) -> Result<Source, String> {
        let output = directory.join(format!("{name}-{number}.json"));
        let ledger = directory.join(format!("{name}-{number}.ledger"));
        // It is there before anybody follows it.
        create(&ledger)?;
        let (each, left) =
            (load.messages / u64::from(load.sources), load.messages % u64::from(load.sources));
        let messages = each + u64::from(u64::from(number) <= left);
        let mut command = Command::new(lab_program()?);
        command.args([
            "source",
            "--json",
            "--obey",
            "--reconnect",
            "30",
            "--grace",
            "15",
            "--to",
            to,
        ]);
        for (option, value) in [
            ("--messages", messages),
            ("--body-bytes", load.body_bytes),
            ("--sessions", u64::from(load.sessions)),
            ("--per-session", load.per_connection),
            ("--seed", load.seed.wrapping_add(u64::from(number))),
        ] {
            command.arg(option).arg(value.to_string());
        }
        command.args(["--from", "sender@source.grey", "--domains", &domain(number)]);
        command.arg("--distinct-recipients").arg("--ledger").arg(&ledger);
        command
            .stdout(create(&output)?)
            .stderr(create(&directory.join(format!("{name}-{number}.log")))?);
        let process = Process::start_with_input("source", &mut command)?;
        Ok(Source { process: Some(process), output, ledger: Followed::source(ledger) })
    }

    /// `pause` or `resume`. One that has ended doesn't mind.
    pub(super) fn tell(&mut self, word: &str) {
        let input = self.process.as_mut().and_then(|process| process.child().stdin.as_mut());
        if let Some(input) = input {
            let _ = writeln!(input, "{word}");
        }
    }

    /// Whether it has sent all.
    ///
    /// # Errors
    /// When it can't be looked at, or could not work at all.
    pub(super) fn has_ended(&mut self) -> Result<bool, String> {
        let Some(process) = &mut self.process else { return Ok(true) };
        match process.child().try_wait().map_err(|error| format!("source: {error}"))? {
            None => Ok(false),
            Some(status) => {
                self.process = None;
                check(status)?;
                Ok(true)
            }
        }
    }

    /// Ends it; transactions that run are finished.
    ///
    /// # Errors
    /// When it doesn't end.
    pub(super) fn stop(&mut self) -> Result<(), String> {
        if !self.has_ended()?
            && let Some(process) = self.process.take()
        {
            check(process.stop(STOP_MAX)?)?;
        }
        Ok(())
    }

    /// What it printed, once it has ended.
    ///
    /// # Errors
    /// When that can't be read.
    pub(super) fn report(&self) -> Result<SourceReport, String> {
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", self.output.display()))
    }
}

/// 0 to 4 are said in its report (`source --help`), except 2.
fn check(status: ExitStatus) -> Result<(), String> {
    match status.code() {
        Some(0 | 1 | 3 | 4) => Ok(()),
        _ => Err(format!("source: {status}; its log says why")),
    }
}

/// Latencies of several sources in one.
pub(super) fn join_latencies(reports: &[SourceReport]) -> Latency {
    let mut all = Latency::default();
    reports.iter().for_each(|report| all.add(&report.latency_us_counts));
    all
}

/// The running sink.
#[derive(Debug)]
pub(super) struct Sink {
    process: Process,
    pub(super) ledger: Followed,
}

impl Sink {
    /// Starts it, at the far end of `path` if there is one, and waits until it listens. `name` is that
    /// of its files.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start(
        directory: &Path,
        name: &str,
        listen: &str,
        path: Option<&LongPath>,
    ) -> Result<Sink, String> {
        let ledger = directory.join(format!("{name}.ledger"));
        create(&ledger)?;
        let lab = lab_program()?;
        let mut command = match path {
            Some(path) => path.command(&lab),
            None => Command::new(lab),
        };
        command.args(["sink", "--json", "--listen", listen]).arg("--ledger").arg(&ledger);
        command.stdout(Stdio::piped()).stderr(create(&directory.join(format!("{name}.log")))?);
        let mut process = Process::start("sink", &mut command)?;
        read_address(&mut process)?;
        Ok(Sink { process, ledger: Followed::sink(ledger) })
    }

    pub(super) fn pid(&mut self) -> u32 {
        self.process.child().id()
    }

    /// Ends it; its ledger is complete then.
    ///
    /// # Errors
    /// When it doesn't end, or had ended.
    pub(super) fn stop(mut self) -> Result<Followed, String> {
        self.process.check_running()?;
        self.process.stop(STOP_MAX)?;
        Ok(self.ledger)
    }
}
