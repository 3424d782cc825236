//! The test stand: a sink, a server before it, sources before that, and what they leave in one
//! directory. Whoever measures or proves something puts them up here, takes them down, kills,
//! drains, and has every message accounted for.

pub(crate) mod certificate;
pub(crate) mod contender;
pub(crate) mod contenders;
pub(crate) mod directory;
pub(crate) mod egress;
mod error;
mod group;
pub mod long_path;
mod minutes;
mod place;
pub(crate) mod postal;
pub(crate) mod power;
mod server;
mod sink;
mod source;
pub(crate) mod system;
pub(crate) mod ways;

pub use contenders::adapter::Adapter;
pub use contenders::target::Target;
pub use error::{Error, Result};
pub(crate) use group::ControlGroup;
pub(crate) use minutes::MinuteLine;
pub use place::ConfigFile;
pub(crate) use place::{MailPlace, ServerSetup};
pub(crate) use server::{ExitReport, Server};
pub(crate) use source::{ENDLESS, Load, SourceReport, TENANTS, Tool, join_latencies};

use load::file;
use load::ledger::{Audit, Followed, audit};
use load::mailboxes::Mailboxes;
use load::proc::Usage;
use long_path::LongPath;
use postal::Postal;
use serde_json::Value;
use sink::SinkProcess;
use source::SourceProcess;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use ways::Ways;

/// Delivery of what is queued may go on for so long without a delivery.
const STILL_MAX: Duration = Duration::from_secs(6);
/// So long without a delivery means that nothing is left: longer than any wait for a retry.
const QUIET: Duration = Duration::from_millis(2500);
/// Between two looks at what is waited for.
const STEP: Duration = Duration::from_millis(50);

/// What stands around a server, and the server.
pub(crate) struct Stand {
    directory: PathBuf,
    /// Where the sink listens, or is to listen.
    sink_address: String,
    /// Where others listen beside it.
    pub(crate) more_sinks: Vec<String>,
    /// What mail goes in and out by.
    pub(crate) ways: Ways,
    server: Option<Box<dyn Server>>,
    /// Those that run.
    sinks: Vec<SinkProcess>,
    /// Goes after the sinks.
    path: Option<LongPath>,
    sinks_started: u32,
    sources: Vec<SourceProcess>,
    postal: Option<Postal>,
    /// Where mail comes to, if the server keeps it.
    mailboxes: Option<Mailboxes>,
    /// Ledgers of sources that have ended.
    sent: Vec<Followed>,
    /// Ledgers of sinks that have ended.
    arrived: Vec<Followed>,
    accepted: u64,
    delivered: u64,
    /// Arrivals that are left out of the account: shows that a loss is seen.
    pub(crate) planted_loss: u64,
}

impl Stand {
    /// An empty one. Ledgers and logs go into `directory`; the sink will listen at `sink_address`,
    /// at the far end of `path` if there is one.
    pub(crate) fn new(directory: PathBuf, sink_address: String, path: Option<LongPath>) -> Stand {
        Stand {
            directory,
            sink_address,
            more_sinks: Vec::new(),
            ways: Ways::SMTP,
            server: None,
            sinks: Vec::new(),
            path,
            sinks_started: 0,
            sources: Vec::new(),
            postal: None,
            mailboxes: None,
            sent: Vec::new(),
            arrived: Vec::new(),
            accepted: 0,
            delivered: 0,
            planted_loss: 0,
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn sink_address(&self) -> &str {
        &self.sink_address
    }

    pub(crate) fn path(&self) -> Option<&LongPath> {
        self.path.as_ref()
    }

    /// Puts the sink (or sinks) where the server sends, with more arguments and a ledger of its own.
    ///
    /// # Errors
    /// When it can't be started or doesn't listen.
    pub(crate) fn start_sink(&mut self, more: &[&str]) -> Result<()> {
        for (number, address) in
            (1..).zip(std::iter::once(&self.sink_address).chain(&self.more_sinks))
        {
            self.sinks_started += 1;
            let name = format!("sink-{}", self.sinks_started);
            let own = sink::arguments(self.ways, number);
            let more: Vec<&str> =
                own.iter().map(String::as_str).chain(more.iter().copied()).collect();
            let started =
                SinkProcess::start(&self.directory, &name, address, self.path.as_ref(), &more)?;
            self.sinks.push(started);
        }
        Ok(())
    }

    /// Mail comes into these mailboxes.
    pub(crate) fn put_mailboxes(&mut self, mailboxes: Mailboxes) {
        self.mailboxes = Some(mailboxes);
    }

    /// Where mail comes to, if the server keeps it.
    pub(crate) fn mailboxes(&self) -> Option<&Mailboxes> {
        self.mailboxes.as_ref()
    }

    /// Takes the next hop down; its ledger is complete.
    ///
    /// # Errors
    /// When it had ended, or doesn't end.
    pub(crate) fn stop_sink(&mut self) -> Result<()> {
        for sink in self.sinks.drain(..) {
            self.arrived.push(sink.stop()?);
        }
        Ok(())
    }

    /// What the sink has used of processors.
    pub(crate) fn sink_cpu_seconds(&self) -> f64 {
        let usages = self.sinks.iter().filter_map(|sink| Usage::of_one(sink.pid()).ok());
        usages.map(|usage| usage.cpu_seconds()).sum()
    }

    /// Puts a server up that was started.
    pub(crate) fn put_server(&mut self, server: Box<dyn Server>) {
        self.server = Some(server);
    }

    pub(crate) fn server(&self) -> Option<&dyn Server> {
        self.server.as_deref()
    }

    /// # Errors
    /// When no server runs.
    pub(crate) fn server_mut(&mut self) -> Result<&mut Box<dyn Server>> {
        self.server.as_mut().ok_or_else(no_server)
    }

    /// SIGKILL for the server.
    ///
    /// # Errors
    /// When it had ended before.
    pub(crate) fn kill_server(&mut self) -> Result<()> {
        self.server.take().ok_or_else(no_server)?.kill()
    }

    /// Ends the server in the orderly way.
    ///
    /// # Errors
    /// When none runs, or it doesn't end well.
    pub(crate) fn stop_server(&mut self) -> Result<ExitReport> {
        self.server.take().ok_or_else(no_server)?.stop()
    }

    /// Starts a source that sends to `to`, with more arguments. `name` is that of its files.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start_source(
        &mut self,
        name: &str,
        to: &str,
        more: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<()> {
        let protocol = self.ways.inbound;
        self.sources.push(SourceProcess::start(&self.directory, name, protocol, to, more)?);
        Ok(())
    }

    /// Starts postal, which sends to `to`.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn start_postal(&mut self, to: &str, load: &Load) -> Result<()> {
        self.postal = Some(Postal::start(&self.directory.join("postal"), to, load)?);
        Ok(())
    }

    /// How many sources there are.
    pub(crate) fn source_count(&self) -> u32 {
        self.sources.len() as u32 + u32::from(self.postal.is_some())
    }

    /// What all sources that run did in each minute.
    pub(crate) fn minutes(&self) -> Vec<MinuteLine> {
        let files = self.sources.iter().map(|source| &source.minutes);
        let files = files.chain(self.postal.iter().map(|postal| &postal.minutes));
        let mut all: Vec<MinuteLine> = Vec::new();
        for lines in files.map(minutes::MinuteFile::lines) {
            all.resize(all.len().max(lines.len()), MinuteLine::default());
            all.iter_mut().zip(lines).for_each(|(sum, line)| *sum = sum.plus(line));
        }
        all
    }

    /// `pause` or `resume` to all sources.
    pub(crate) fn tell_sources(&mut self, word: &str) {
        self.sources.iter_mut().for_each(|source| source.tell(word));
    }

    /// Whether all sources have sent all.
    ///
    /// # Errors
    /// When one failed.
    pub(crate) fn sources_ended(&mut self) -> Result<bool> {
        let mut all = self.postal.is_none();
        if let Some(postal) = &mut self.postal {
            postal.check_running()?;
        }
        for source in &mut self.sources {
            all &= source.has_ended()?;
        }
        Ok(all)
    }

    /// Ends the sources that still run; what they did in each minute.
    ///
    /// # Errors
    /// When one doesn't end.
    pub(crate) fn end_sources(&mut self) -> Result<Vec<MinuteLine>> {
        self.sources.iter_mut().try_for_each(SourceProcess::stop)?;
        self.postal.iter_mut().try_for_each(Postal::stop)?;
        Ok(self.minutes())
    }

    /// Ends the sources that still run, counts what they did, and gives their reports.
    ///
    /// # Errors
    /// When one doesn't end or tells nothing.
    pub(crate) fn finish_sources(&mut self) -> Result<Vec<SourceReport>> {
        self.end_sources()?;
        self.count()?;
        let reports: Result<Vec<_>> = self.sources.iter().map(SourceProcess::report).collect();
        let mut reports = reports?;
        self.sent.extend(self.sources.drain(..).map(|source| source.ledger));
        if let Some(mut postal) = self.postal.take() {
            let (report, ledger) = postal.account()?;
            reports.push(report);
            self.sent.push(ledger);
        }
        self.count()?;
        Ok(reports)
    }

    /// Messages that sources which have ended were refused for now (4yz).
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn refused_for_now(&self) -> Result<u64> {
        let ledgers = self.sent.iter().map(|ledger| ledger.path().to_owned());
        sum(ledgers.map(Followed::refused_for_now).collect::<Vec<_>>().iter_mut())
    }

    /// Sends with one source to its end, beside those that run; what it printed. Refusals are for
    /// the caller to judge.
    ///
    /// # Errors
    /// When it can't be started, gives up, or prints nothing that can be read.
    pub(crate) fn send(
        &mut self,
        name: &str,
        to: &str,
        more: &[impl AsRef<std::ffi::OsStr>],
    ) -> Result<Value> {
        let protocol = self.ways.inbound;
        let mut source = SourceProcess::start(&self.directory, name, protocol, to, more)?;
        while !source.has_ended()? {
            std::thread::sleep(STEP / 10);
        }
        let printed = source.printed();
        let gave_up = source.report()?.exit_code == Some(3);
        self.sent.push(source.ledger);
        if gave_up {
            return Err(Error::Server("the source stopped: no connection was possible".to_owned()));
        }
        printed
    }

    /// # Errors
    /// When a program has ended that should run.
    pub(crate) fn check_running(&mut self) -> Result<()> {
        self.sinks.iter_mut().try_for_each(SinkProcess::check_running)?;
        self.sources.iter_mut().try_for_each(SourceProcess::check_running)?;
        self.server.as_mut().map_or(Ok(()), |server| server.check_running())
    }

    /// Reads the ledgers as far as they are; whether anything moved since the last time.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn count(&mut self) -> Result<bool> {
        let before = (self.accepted, self.delivered);
        let running = self.sources.iter_mut().map(|source| &mut source.ledger);
        self.accepted = sum(running.chain(&mut self.sent))?;
        if let Some(postal) = &mut self.postal {
            self.accepted += postal.count()?;
        }
        let running = self.sinks.iter_mut().map(|sink| &mut sink.ledger);
        self.delivered = sum(running.chain(&mut self.arrived))?;
        if let Some(mailboxes) = &mut self.mailboxes {
            mailboxes.look()?;
            self.delivered += mailboxes.arrived_count();
        }
        Ok((self.accepted, self.delivered) != before)
    }

    /// Messages acknowledged since the beginning, when they were last counted.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Messages at the sink or in mailboxes since the beginning, when they were last counted.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Messages acknowledged until now.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn accepted_now(&mut self) -> Result<u64> {
        self.count()?;
        Ok(self.accepted)
    }

    /// Messages at the sink until now.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn delivered_now(&mut self) -> Result<u64> {
        self.count()?;
        Ok(self.delivered)
    }

    /// Waits until nothing is delivered any more. What is missing then is for the audit to say.
    ///
    /// # Errors
    /// When a program ends.
    pub(crate) fn drain(&mut self) -> Result<()> {
        let mut since = Instant::now();
        let mut delivered = self.delivered_now()?;
        loop {
            self.check_running()?;
            std::thread::sleep(STEP);
            let now = self.delivered_now()?;
            if now != delivered {
                (delivered, since) = (now, Instant::now());
            }
            if since.elapsed() > STILL_MAX {
                return Ok(());
            }
            if since.elapsed() > QUIET && self.audit(0)?.missing.count == 0 {
                return Ok(());
            }
        }
    }

    /// Waits until so many messages have arrived, or for so long in vain; gives how many have.
    ///
    /// # Errors
    /// When a program ends, or a ledger can't be read.
    pub(crate) fn wait_delivered(&mut self, count: u64, still_max: Duration) -> Result<u64> {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            self.check_running()?;
            let now = self.delivered_now()?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
            if now >= count || since.elapsed() > still_max {
                return Ok(now);
            }
            std::thread::sleep(STEP);
        }
    }

    /// What all sources were told until now, those that still run among them.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn sent_text(&self) -> Result<String> {
        texts(self.sent.iter().chain(self.sources.iter().map(|source| &source.ledger)))
    }

    /// Sets what was sent by sources that have ended against what arrived. Of each kind of finding
    /// so many are listed.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(crate) fn audit(&self, list_max: usize) -> Result<Audit> {
        let running = self.sinks.iter().map(|sink| &sink.ledger);
        let mut arrived = texts(self.arrived.iter().chain(running))?;
        if let Some(mailboxes) = &self.mailboxes {
            arrived += &mailboxes.ledger()?;
        }
        for _ in 0..self.planted_loss {
            let end = arrived.trim_end().rfind('\n').map_or(0, |end| end + 1);
            arrived.truncate(end);
        }
        audit(&texts(self.sent.iter())?, &arrived, list_max).map_err(Error::Ledger)
    }
}

fn no_server() -> Error {
    Error::Missing("no server runs".to_owned())
}

fn sum<'a>(ledgers: impl Iterator<Item = &'a mut Followed>) -> Result<u64> {
    let mut sum = 0;
    for ledger in ledgers {
        sum += ledger.count()?;
    }
    Ok(sum)
}

/// The whole lines of these ledgers: the last one of one that grows may be half written.
fn texts<'a>(ledgers: impl Iterator<Item = &'a Followed>) -> Result<String> {
    let mut all = String::new();
    for ledger in ledgers {
        let text = file::read(ledger.path())?;
        all.push_str(text.rfind('\n').map_or("", |end| &text[..=end]));
    }
    Ok(all)
}
