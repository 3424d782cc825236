//! Sources: child processes, so that what they use is not counted with the server.

use super::egress::domain;
use super::error::{Error, Result};
use super::minutes::MinuteFile;
use super::ways::{GATEWAY, PASSWORD, Protocol, SOURCE_NAME, Ways, or_domain};
use load::file;
use load::ledger::Followed;
use load::process::{Process, ProcessError, this_program};
use load::source::Span;
use load::stats::Latency;
use load::tls::Handshakes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A source that was asked to end has so long.
const STOP_MAX: Duration = Duration::from_secs(20);

/// What a load is sent with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    /// Our own source.
    Source,
    /// Debian's postal, which goes on until it is stopped.
    Postal,
}

/// What sources send, all of them together.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) messages: u64,
    pub(crate) body_bytes: Span,
    pub(crate) sources: u32,
    pub(crate) sessions: u32,
    pub(crate) per_connection: Span,
    /// A file of addresses, taken in turn; without it each source sends to a domain of its own.
    pub(crate) recipients: Option<PathBuf>,
    /// A file of domains, drawn for each message.
    pub(crate) domains: Option<PathBuf>,
    /// So many tenants, drawn for each message and named in its header; 0: none is named.
    pub(crate) tenants: u32,
    /// Messages in a second, evenly; without it as many as are taken.
    pub(crate) rate: Option<f64>,
    /// Sources are stopped after this time, however many messages they have left.
    pub(crate) lasts: Option<Duration>,
    /// A server that hasn't taken all by then is not waited for.
    pub(crate) cut_off: Option<Duration>,
    /// Connections are encrypted, in and out.
    pub(crate) tls: Option<Handshakes>,
    pub(crate) seed: u64,
    pub(crate) tool: Tool,
}

/// The header field that names a message's tenant.
pub(crate) const TENANT_FIELD: &str = "X-Tenant";

/// So many there are where tenants are named.
pub(crate) const TENANTS: u32 = 20;

/// A tenant's name.
pub(crate) fn tenant(number: impl std::fmt::Display) -> String {
    format!("tenant{number}")
}

/// As many messages as no source ever sends in the time it has.
pub(crate) const ENDLESS: u64 = 1_000_000_000;

impl Load {
    /// The same, ended by time if there is one.
    pub(crate) fn lasting(self, lasts: Option<Duration>) -> Load {
        match lasts {
            None => self,
            Some(_) => Load { messages: ENDLESS, lasts, ..self },
        }
    }

    /// The arguments of source `number`, from 1, which sends to a domain of its own.
    pub(crate) fn arguments(&self, number: u32, ways: Ways) -> Vec<String> {
        match ways.inbound {
            Protocol::Smtp => self.mail_arguments(number),
            Protocol::P1 => self.p1_arguments(number, ways),
        }
    }

    /// What sources of any kind are told.
    fn common_arguments(&self, number: u32) -> Vec<String> {
        let sources = u64::from(self.sources);
        let (each, left) = (self.messages / sources, self.messages % sources);
        let messages = each + u64::from(u64::from(number) <= left);
        let seed = self.seed.wrapping_add(u64::from(number));
        let mut arguments = Vec::new();
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--reconnect", "30".to_owned());
        add("--grace", "15".to_owned());
        add("--messages", messages.to_string());
        add("--body-bytes", self.body_bytes.to_string());
        add("--sessions", self.sessions.to_string());
        add("--per-session", self.per_connection.to_string());
        add("--seed", seed.to_string());
        if let Some(rate) = self.rate {
            add("--rate", (rate / f64::from(self.sources)).to_string());
        }
        arguments
    }

    fn p1_arguments(&self, number: u32, ways: Ways) -> Vec<String> {
        let recipient = match ways.outbound {
            Protocol::P1 => format!("/S=user{{n}}{}", or_domain(ways.sink_of(number))),
            // To mail, through the gateway.
            Protocol::Smtp => format!("/DD.RFC-822=user{{n}}(a){}{GATEWAY}", domain(number)),
        };
        let (tpdu, name) = (ways.tpdu_bytes.to_string(), SOURCE_NAME.to_owned());
        let password = PASSWORD.to_owned();
        let mut arguments = self.common_arguments(number);
        for (option, value) in [
            ("--recipient", recipient),
            ("--tpdu", tpdu),
            ("--name", name),
            ("--password", password),
        ] {
            arguments.extend([option.to_owned(), value]);
        }
        arguments
    }

    fn mail_arguments(&self, number: u32) -> Vec<String> {
        let mut arguments = self.common_arguments(number);
        let mut add = |name: &str, value: String| arguments.extend([name.to_owned(), value]);
        add("--from", "sender@source.grey".to_owned());
        match (&self.recipients, &self.domains) {
            (Some(file), _) => add("--recipients", file.display().to_string()),
            (None, Some(file)) => add("--domains-file", file.display().to_string()),
            (None, None) => add("--domains", domain(number)),
        }
        if self.tenants > 0 {
            add("--vary", format!("{TENANT_FIELD}={}{{{}}}", tenant(""), self.tenants));
        }
        if let Some(handshakes) = self.tls {
            add("--tls", handshakes.name().to_owned());
        }
        arguments
    }
}

/// A running source.
#[derive(Debug)]
pub(crate) struct SourceProcess {
    process: Option<Process>,
    output: PathBuf,
    /// Once it has ended.
    exit_code: Option<i32>,
    pub(crate) ledger: Followed,
    pub(crate) minutes: MinuteFile,
}

/// What a source prints at its end.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct SourceReport {
    pub(crate) seconds: f64,
    pub(crate) acked: u64,
    pub(crate) sessions_gave_up: u64,
    pub(crate) handshakes: u64,
    pub(crate) handshakes_resumed: u64,
    pub(super) latency_us_counts: Vec<(u64, u64)>,
    /// As `source --help` explains it.
    #[serde(skip)]
    pub(crate) exit_code: Option<i32>,
}

impl SourceProcess {
    /// Starts one that sends to `to`, with more arguments. `name` is that of its files.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start(
        directory: &Path,
        name: &str,
        protocol: Protocol,
        to: &str,
        more: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<SourceProcess> {
        let output = directory.join(format!("{name}.json"));
        let ledger = directory.join(format!("{name}.ledger"));
        let minutes = directory.join(format!("{name}.minutes"));
        // It is there before anybody follows it.
        file::create(&ledger)?;
        let mut command = Command::new(this_program()?);
        let [tool, _] = protocol.tools();
        command.args([tool, "--json", "--obey", "--to", to]);
        // Who is listed is listed once.
        if protocol == Protocol::Smtp && !more.iter().any(|word| word.as_ref() == "--recipients") {
            command.arg("--distinct-recipients");
        }
        command.args(more).arg("--ledger").arg(&ledger).arg("--minutes").arg(&minutes);
        command.stdout(file::create(&output)?);
        command.stderr(file::create(&directory.join(format!("{name}.log")))?);
        let process = Some(Process::start_with_input("source", &mut command)?);
        let (ledger, minutes) = (Followed::source(ledger), MinuteFile(minutes));
        Ok(SourceProcess { process, output, exit_code: None, ledger, minutes })
    }

    /// `pause` or `resume`. One that has ended doesn't mind.
    pub(crate) fn tell(&mut self, word: &str) {
        let input = self.process.as_mut().and_then(|process| process.child().stdin.as_mut());
        if let Some(input) = input {
            let _ = writeln!(input, "{word}");
        }
    }

    /// # Errors
    /// When it has ended.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        match &mut self.process {
            Some(process) => Ok(process.check_running()?),
            None => Err(Error::Missing("the source has ended".to_owned())),
        }
    }

    /// Whether it has sent all.
    ///
    /// # Errors
    /// When it can't be looked at, or could not work at all.
    pub(crate) fn has_ended(&mut self) -> Result<bool> {
        let Some(process) = &mut self.process else { return Ok(true) };
        let Some(status) = process.status()? else { return Ok(false) };
        self.process = None;
        self.note(status)?;
        Ok(true)
    }

    /// Ends it; transactions that run are finished.
    ///
    /// # Errors
    /// When it doesn't end.
    pub(crate) fn stop(&mut self) -> Result<()> {
        if !self.has_ended()?
            && let Some(process) = self.process.take()
        {
            self.note(process.stop(STOP_MAX)?)?;
        }
        Ok(())
    }

    /// 0 to 4 are said in its report (`source --help`), except 2.
    fn note(&mut self, status: std::process::ExitStatus) -> Result<()> {
        self.exit_code = status.code();
        match self.exit_code {
            Some(0 | 1 | 3 | 4) => Ok(()),
            _ => Err(ProcessError::Ended("source", status).into()),
        }
    }

    /// What it printed, once it has ended.
    ///
    /// # Errors
    /// When that can't be read.
    pub(crate) fn printed<T: DeserializeOwned>(&self) -> Result<T> {
        let text = std::fs::read_to_string(&self.output).unwrap_or_default();
        let output = || self.output.display().to_string();
        serde_json::from_str(&text).map_err(|error| Error::Output(output(), error))
    }

    /// The same as a report.
    ///
    /// # Errors
    /// When it can't be read.
    pub(crate) fn report(&self) -> Result<SourceReport> {
        Ok(SourceReport { exit_code: self.exit_code, ..self.printed()? })
    }
}

/// Latencies of several sources in one.
pub(crate) fn join_latencies(reports: &[SourceReport]) -> Latency {
    let mut all = Latency::default();
    reports.iter().for_each(|report| all.add(&report.latency_us_counts));
    all
}
