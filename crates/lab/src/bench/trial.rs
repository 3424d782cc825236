//! One contender in one case while it is measured: what is sent, counted and sampled.

use super::machine::device_written_bytes;
use super::minutes::{Minutes, Stock};
use super::report::{ConfigFile, Mark, MessageBalance, Minute, Severity};
use super::series::{Recorder, Sample};
use super::workload::Site;
use crate::stand::certificate::Encryption;
use crate::stand::contender::{self, Contender};
use crate::stand::directory::slapd::Slapd;
use crate::stand::directory::{Lookup, OWNER, Population};
use crate::stand::egress::NameServer;
use crate::stand::long_path::LongPath;
use crate::stand::{
    ControlGroup, Error, ExitReport, Load, MailPlace, MinuteLine, Result, ServerSetup,
    SourceReport, Stand,
};
use load::file;
use load::listener::free_port;
use load::mailboxes::Mailboxes;
use load::proc::{Busy, Usage};
use load::stats::Tenths;
use load::stop::StopFlag;
use load::tree;
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Between two looks at the ledgers.
const STEP: Duration = Duration::from_millis(20);
/// When nothing was accepted or delivered for so long, nothing more will come.
const STILL_MAX: Duration = Duration::from_secs(60);
/// What a server does after the last delivery (recording it) is counted for so long. Postrider brings
/// its count of syncs up to date twice a second.
const AFTERMATH: Duration = Duration::from_millis(600);
/// A server that used less of a processor than this has nothing more to do.
const IDLE_SHARE_MAX: f64 = 0.02;
/// What a server does behind the warm-up may take so long: zeroing segments of a log, for one.
const SETTLE_MAX: Duration = Duration::from_secs(30);
/// Of what is lost, repeated or damaged so many are named.
const FINDINGS_MAX: usize = 5;
/// Messages before what is measured: a tenth, but no more than these.
const WARM_UP_MAX: u64 = 2000;

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitResult {
    /// What was waited for is so.
    Done,
    /// The time is over.
    TimedOut,
    /// Nothing moves any more.
    Still,
}

/// What there was at a moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    pub(super) usage: Usage,
    pub(super) busy: Busy,
    pub(super) sync_count: Option<u64>,
    /// By the whole machine to the spool's device.
    pub(super) device_written_bytes: Option<u64>,
    pub(super) accepted: u64,
    pub(super) delivered: u64,
    pub(super) sink_cpu_seconds: f64,
    /// Of slapd, where it is asked.
    pub(super) directory_cpu_seconds: Option<f64>,
}

/// A contender on the stand.
pub(super) struct Trial<'a> {
    contender: &'a dyn Contender,
    place: ServerSetup,
    stand: Stand,
    /// Where users are looked up. Goes after the server.
    directory: Option<Slapd>,
    /// Where next hops are. Goes after the server.
    name_server: Option<NameServer>,
    /// From the moment that recording begins.
    minutes: Option<Minutes>,
    stop: StopFlag,
    pub(super) recorder: Recorder,
    last_move: Instant,
    kills: u64,
    exit_report: ExitReport,
}

impl<'a> Trial<'a> {
    /// Starts sink and server.
    ///
    /// # Errors
    /// What can't be started.
    pub(super) fn open(contender: &'a dyn Contender, site: &Site) -> Result<Trial<'a>> {
        // Not by the contender's name, which is in the path: paths of sockets must be short.
        let directory = site.directory.join("server");
        file::create_directory(&directory)?;
        let path = site.path.map(|shape| LongPath::start(shape, site.seed)).transpose();
        let path = path.map_err(|unavailable| Error::Missing(unavailable.to_string()))?;
        let sink = match (contender.running_at(), &path) {
            (Some(running), _) => running.sink.to_owned(),
            (None, Some(path)) => format!("{}:{}", path.far(), port()?),
            (None, None) => format!("127.0.0.1:{}", port()?),
        };
        let name_server = NameServer::of(site.egress, &sink, &site.directory)?;
        let ways = contender.ways(site.ways).unwrap_or(site.ways);
        let more_sinks = (1..ways.sinks).map(|_| Ok(format!("127.0.0.1:{}", port()?)));
        let more_sinks = more_sinks.collect::<Result<Vec<_>>>()?;
        let own_port = port()?;
        let place = ServerSetup {
            directory,
            sink: sink.clone(),
            more_sinks: more_sinks.clone(),
            ways,
            port: own_port,
            admin_port: port()?,
            postrider: site.postrider.clone(),
            egress: site.egress,
            encryption: site.encryption()?,
            dns: name_server.as_ref().map(|server| server.address().to_owned()),
            mail: None,
            group: ControlGroup::create(&format!("postrider-bench-{own_port}")).map(Rc::new),
        };
        let mut stand = Stand::new(site.directory.clone(), sink, path);
        stand.planted_loss = site.planted_loss;
        (stand.ways, stand.more_sinks) = (ways, more_sinks);
        let mut trial = Trial {
            contender,
            place,
            stand,
            directory: None,
            name_server,
            minutes: None,
            stop: site.stop.clone(),
            recorder: Recorder::new(Sample::default()),
            last_move: Instant::now(),
            kills: 0,
            exit_report: ExitReport::default(),
        };
        match &site.population {
            Some(population) => trial.put_mailboxes(population, site)?,
            None => trial.start_sink()?,
        }
        trial.start_server()?;
        Ok(trial)
    }

    /// Makes the mailboxes of those who get mail, and starts what the server looks them up in.
    fn put_mailboxes(&mut self, population: &Rc<Population>, site: &Site) -> Result<()> {
        if self.contender.lookup().is_some_and(Lookup::is_by_ldap) {
            self.directory = Some(Slapd::start(population, &site.directory.join("slapd.log"))?);
        }
        let root = site.mail();
        let mut mailboxes = Mailboxes::make(population.mailboxes(&root), Some((OWNER, OWNER)))?;
        if let Some(after) = site.read_after {
            mailboxes.read_after(after, &site.directory.join("read.ledger"))?;
        }
        self.stand.put_mailboxes(mailboxes);
        let ldap = self.directory.as_ref().map(|directory| directory.address().to_owned());
        let population = Rc::clone(population);
        self.place.mail = Some(MailPlace { population, root, ldap });
        Ok(())
    }

    /// The contender's name.
    pub(super) fn name(&self) -> &str {
        self.contender.name()
    }

    /// What is to be known of the long path, if there is one.
    pub(super) fn path_marks(&self) -> Vec<Mark> {
        let quality = self.stand.path().and_then(|path| path.quality().ok());
        let mark = quality.map(|quality| Mark {
            severity: if quality.is_doubtful { Severity::Doubtful } else { Severity::Note },
            text: quality.text,
        });
        mark.into_iter().collect()
    }

    /// The server's own directory.
    pub(super) fn server_directory(&self) -> &Path {
        &self.place.directory
    }

    /// Puts the sink where the server sends.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_sink(&mut self) -> Result<()> {
        let encryption = self.place.encryption.as_ref().map(Encryption::sink_arguments);
        let failing = self.place.egress.sink_arguments();
        let arguments: Vec<&str> =
            encryption.iter().flatten().chain(&failing).map(String::as_str).collect();
        self.stand.start_sink(&arguments)
    }

    /// Takes the next hop down.
    ///
    /// # Errors
    /// When it doesn't end.
    pub(super) fn stop_sink(&mut self) -> Result<()> {
        self.stand.stop_sink()
    }

    /// # Errors
    /// When it can't be started.
    pub(super) fn start_server(&mut self) -> Result<()> {
        self.stand.put_server(contender::put_up(self.contender, &self.place)?);
        Ok(())
    }

    /// SIGKILL for the server.
    ///
    /// # Errors
    /// When it had ended before.
    pub(super) fn kill_server(&mut self) -> Result<()> {
        self.kills += 1;
        self.stand.kill_server()?;
        // Also those that have slipped away from their parents.
        if let Some(group) = &self.place.group {
            group.kill();
        }
        Ok(())
    }

    /// Tells the server that the next hop is back.
    ///
    /// # Errors
    /// When it can't be told.
    pub(super) fn flush_server(&mut self) -> Result<()> {
        self.stand.server_mut()?.flush()
    }

    /// What the server was configured with.
    pub(super) fn files(&self) -> Vec<ConfigFile> {
        self.stand.server().map(|server| server.files()).unwrap_or_default()
    }

    /// The server's group, unless it was there before us.
    fn group(&self) -> Option<&ControlGroup> {
        self.place.group.as_deref().filter(|_| self.contender.running_at().is_none())
    }

    /// The server's processes.
    pub(super) fn members(&self) -> Vec<u32> {
        match (self.group(), self.stand.server()) {
            (Some(group), _) => group.members(),
            (None, Some(server)) => tree::members(server.pid()),
            (None, None) => Vec::new(),
        }
    }

    /// What they have used.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::of(&self.members());
        if let Some((user, system)) = self.group().and_then(ControlGroup::times) {
            (usage.user_seconds, usage.system_seconds) = (user, system);
        }
        usage
    }

    /// Starts all sources of a load.
    ///
    /// # Errors
    /// When one can't be started.
    pub(super) fn start_sources(&mut self, name: &str, load: &Load) -> Result<()> {
        (1..=load.sources).try_for_each(|number| self.start_source(name, load, number))
    }

    /// Starts one source of a load.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_source(&mut self, name: &str, load: &Load, number: u32) -> Result<()> {
        let to = contender::address(self.contender, &self.place);
        let arguments = load.arguments(number, self.place.ways);
        self.stand.start_source(&format!("{name}-{number}"), &to, &arguments)
    }

    /// Starts postal with a load.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_postal(&mut self, load: &Load) -> Result<()> {
        let to = contender::address(self.contender, &self.place);
        self.stand.start_postal(&to, load)
    }

    /// `pause` or `resume` to all sources.
    pub(super) fn tell_sources(&mut self, word: &str) {
        self.stand.tell_sources(word);
    }

    /// Whether all sources have sent all.
    ///
    /// # Errors
    /// When one failed.
    pub(super) fn sources_ended(&mut self) -> Result<bool> {
        self.stand.sources_ended()
    }

    /// Ends the sources that still run, counts what they did, and gives their reports.
    ///
    /// # Errors
    /// When one doesn't end or tells nothing.
    pub(super) fn finish_sources(&mut self) -> Result<Vec<SourceReport>> {
        let minutes = self.stand.end_sources()?;
        let reports = self.stand.finish_sources()?;
        self.note_minutes(&minutes);
        Ok(reports)
    }

    /// What the sources told of each minute, with what the mailboxes have now.
    fn note_minutes(&mut self, lines: &[MinuteLine]) {
        let Some(mailboxes) = self.stand.mailboxes() else { return };
        let stock = Stock {
            backlog: self.accepted().saturating_sub(self.delivered()),
            messages: mailboxes.message_count(),
            mailboxes: mailboxes.filled_count(),
        };
        if let Some(minutes) = &mut self.minutes {
            minutes.handle_lines(lines, stock);
        }
    }

    /// The line of each minute since recording began.
    pub(super) fn take_minutes(&mut self) -> Vec<Minute> {
        self.minutes.take().map(Minutes::done).unwrap_or_default()
    }

    /// Messages that were refused for now (4yz) since the stand was opened.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn refused_for_now(&self) -> Result<u64> {
        self.stand.refused_for_now()
    }

    /// Reads the ledgers as far as they are.
    fn count(&mut self) -> Result<()> {
        if self.stand.count()? {
            self.last_move = Instant::now();
        }
        Ok(())
    }

    /// Messages acknowledged since the stand was opened.
    pub(super) fn accepted(&self) -> u64 {
        self.stand.accepted()
    }

    /// Messages at the sink since the stand was opened.
    pub(super) fn delivered(&self) -> u64 {
        self.stand.delivered()
    }

    fn sample(&self) -> Sample {
        Sample {
            accepted: self.accepted(),
            delivered: self.delivered(),
            rss_bytes: self.usage().rss_bytes,
            sources: self.stand.source_count(),
        }
    }

    /// Waits a little, counts, and writes down a sample when one is due.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn step(&mut self) -> Result<()> {
        std::thread::sleep(STEP);
        self.check_stop()?;
        self.name_server.as_mut().map_or(Ok(()), NameServer::check_running)?;
        self.count()?;
        if self.recorder.is_due() {
            self.recorder.take(self.sample());
            self.note_minutes(&self.stand.minutes());
        }
        Ok(())
    }

    /// # Errors
    /// When the run is to end.
    fn check_stop(&self) -> Result<()> {
        if self.stop.is_set() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Steps until `is_so`.
    ///
    /// # Errors
    /// What `is_so` and the steps end with.
    pub(super) fn wait_until(
        &mut self,
        limit: Instant,
        mut is_so: impl FnMut(&mut Trial<'a>) -> Result<bool>,
    ) -> Result<WaitResult> {
        self.last_move = Instant::now();
        loop {
            self.step()?;
            if is_so(self)? {
                return Ok(WaitResult::Done);
            }
            if Instant::now() > limit {
                return Ok(WaitResult::TimedOut);
            }
            if self.last_move.elapsed() > STILL_MAX {
                return Ok(WaitResult::Still);
            }
        }
    }

    /// Waits until all sources have sent all of `messages`; with it, the rate in each tenth of them.
    ///
    /// # Errors
    /// See [`Trial::wait_until`].
    pub(super) fn wait_for_sources(
        &mut self,
        limit: Instant,
        messages: u64,
    ) -> Result<(WaitResult, Vec<f64>)> {
        let (before, begun) = (self.accepted(), Instant::now());
        let mut tenths = Tenths::new(messages);
        let waited = self.wait_until(limit, |trial| {
            tenths.handle_count(trial.accepted() - before, || begun.elapsed());
            trial.sources_ended()
        })?;
        self.count()?;
        tenths.handle_count(self.accepted() - before, || begun.elapsed());
        Ok((waited, tenths.rates()))
    }

    /// Lets the sources send for so long, or until they have sent all.
    ///
    /// # Errors
    /// See [`Trial::wait_until`].
    pub(super) fn wait_for_time(&mut self, limit: Instant, lasts: Duration) -> Result<WaitResult> {
        let begun = Instant::now();
        self.wait_until(limit, |trial| Ok(begun.elapsed() >= lasts || trial.sources_ended()?))
    }

    /// Waits until all that was accepted is delivered.
    ///
    /// # Errors
    /// See [`Trial::wait_until`].
    pub(super) fn wait_for_deliveries(&mut self, limit: Instant) -> Result<WaitResult> {
        self.wait_until(limit, |trial| Ok(trial.delivered() >= trial.accepted()))
    }

    /// A small load before the measured one, so that caches are filled, processes forked and log
    /// segments prepared.
    ///
    /// # Errors
    /// When it isn't delivered.
    pub(super) fn warm_up(&mut self, load: &Load, limit: Instant) -> Result<()> {
        let messages = (load.messages / 10).clamp(u64::from(load.sources), WARM_UP_MAX);
        let load = Load { messages, rate: None, ..load.clone() };
        self.start_sources("warm-up", &load)?;
        let sent = self.wait_until(limit, Trial::sources_ended)?;
        self.finish_sources()?;
        let delivered = self.wait_for_deliveries(limit)?;
        if (sent, delivered) != (WaitResult::Done, WaitResult::Done) {
            let (accepted, delivered) = (self.accepted(), self.delivered());
            return Err(Error::Server(format!(
                "it does not complete the {messages} messages of the warm-up: {accepted} accepted, \
                 {delivered} delivered"
            )));
        }
        self.settle()
    }

    /// Waits until the server has done what it does in the background.
    fn settle(&self) -> Result<()> {
        let begun = Instant::now();
        let mut before = self.usage();
        while begun.elapsed() < SETTLE_MAX {
            std::thread::sleep(AFTERMATH);
            self.check_stop()?;
            let now = self.usage();
            let used = now.cpu_seconds() - before.cpu_seconds();
            let is_idle = used < IDLE_SHARE_MAX * AFTERMATH.as_secs_f64();
            if is_idle && now.written_bytes == before.written_bytes {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// From now on the recorder writes.
    pub(super) fn begin_recording(&mut self) {
        self.recorder = Recorder::new(self.sample());
        self.minutes = Some(Minutes::default());
    }

    /// A last sample, if there is something for one.
    pub(super) fn end_recording(&mut self) {
        if self.recorder.is_worth_a_last() {
            self.recorder.take(self.sample());
        }
    }

    /// What there is now.
    pub(super) fn snapshot(&mut self) -> Snapshot {
        Snapshot {
            usage: self.usage(),
            busy: Busy::now(),
            sync_count: self.stand.server_mut().ok().and_then(|server| server.sync_count()),
            device_written_bytes: device_written_bytes(self.server_directory()),
            accepted: self.accepted(),
            delivered: self.delivered(),
            sink_cpu_seconds: self.stand.sink_cpu_seconds(),
            directory_cpu_seconds: self.directory.as_ref().map(Slapd::cpu_seconds),
        }
    }

    /// The same after what a server does behind its last delivery.
    pub(super) fn last_snapshot(&mut self) -> Snapshot {
        std::thread::sleep(AFTERMATH);
        self.snapshot()
    }

    /// Ends server and sink and sets the ledgers against each other.
    ///
    /// # Errors
    /// When something doesn't end, or a ledger can't be read.
    pub(super) fn close(&mut self) -> Result<MessageBalance> {
        self.finish_sources()?;
        if self.stand.server().is_some() {
            self.exit_report = self.stand.stop_server()?;
        }
        self.stop_sink()?;
        if let Some(directory) = self.directory.take() {
            directory.stop()?;
        }
        let audit = self.stand.audit(FINDINGS_MAX)?;
        let findings = audit.findings().map(|(kind, id, whose)| format!("{kind} {id} {whose}"));
        Ok(MessageBalance {
            acknowledged: audit.acked_recipients,
            arrived: audit.arrivals,
            missing: audit.missing.count,
            duplicates: audit.duplicates.count,
            duplicates_allowed: self.kills * self.contender.duplicates_per_kill(),
            damaged: audit.damaged.count,
            misdelivered: audit.misdelivered.count,
            refused: audit.refused_messages,
            unknown: audit.unknown_messages,
            findings: findings.take(FINDINGS_MAX).collect(),
        })
    }

    /// What the server told when it ended.
    pub(super) fn exit_report(&self) -> ExitReport {
        self.exit_report
    }
}

/// A port that nobody listens on.
fn port() -> Result<u16> {
    free_port().map_err(|error| Error::Missing(error.to_string()))
}
