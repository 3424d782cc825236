//! The test stand: a sink, a server before it, sources before that, all in one directory.

use super::contender::Contender;
use super::group::Group;
use super::machine::device_written_bytes;
use super::path::Path;
use super::report::{Account, ConfigFile, Mark};
use super::scenario::{Egress, LongPath};
use super::series::{Recorder, Sample, Tenths};
use super::server::{Farewell, Place, Server};
use super::stopping::Stopping;
use super::traffic::{Load, Sink, Source, SourceReport};
use load::ledger::{Followed, audit};
use load::listener::free_port;
use load::proc::{Busy, Usage};
use load::tree;
use std::path::{Path as FilePath, PathBuf};
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
/// Messages before what is measured: a tenth, but no more than these.
const WARM_UP_MAX: u64 = 2000;

/// Why waiting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
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
}

/// Where everything is.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// Of this measurement alone.
    pub(super) directory: PathBuf,
    /// The postrider program.
    pub(super) postrider: PathBuf,
    /// Between server and sink.
    pub(super) path: Option<LongPath>,
    /// Connections to the sink.
    pub(super) egress: Egress,
    /// Decides what is lost on the path.
    pub(super) seed: u64,
    /// Drop so many arrivals from the account: shows that a loss is seen.
    pub(super) planted_loss: u64,
    pub(super) stopping: Stopping,
}

pub(super) struct Stand<'a> {
    pub(super) contender: &'a Contender,
    place: Place,
    planted_loss: u64,
    stopping: Stopping,
    server: Option<Box<dyn Server>>,
    sink: Option<Sink>,
    /// Goes after the sink.
    path: Option<Path>,
    sinks_started: u32,
    sources: Vec<Source>,
    /// Ledgers of loads that are over.
    sent: Vec<Followed>,
    /// Ledgers of sinks that have ended.
    arrived: Vec<Followed>,
    pub(super) recorder: Recorder,
    accepted: u64,
    delivered: u64,
    last_move: (Instant, u64),
    pub(super) kills: u64,
    farewell: Farewell,
}

impl<'a> Stand<'a> {
    /// Starts sink and server.
    ///
    /// # Errors
    /// What can't be started.
    pub(super) fn open(contender: &'a Contender, site: &Site) -> Result<Stand<'a>, String> {
        let directory = site.directory.clone();
        let server_directory = directory.join(contender.name());
        std::fs::create_dir_all(&server_directory)
            .map_err(|error| format!("{}: {error}", server_directory.display()))?;
        let path = site.path.map(|long| Path::start(long.rtt, long.loss, site.seed)).transpose();
        let path = path.map_err(|unavailable| unavailable.to_string())?;
        let sink = match (contender, &path) {
            (Contender::Target(target), _) => target.sink.clone(),
            (_, Some(path)) => format!("{}:{}", path.far(), free_port()?),
            (_, None) => format!("127.0.0.1:{}", free_port()?),
        };
        let port = free_port()?;
        let place = Place {
            directory: server_directory,
            sink,
            port,
            admin_port: free_port()?,
            postrider: site.postrider.clone(),
            egress: site.egress,
            group: Group::create(&format!("postrider-bench-{port}")).map(Rc::new),
        };
        let mut stand = Stand {
            contender,
            place,
            planted_loss: site.planted_loss,
            stopping: site.stopping.clone(),
            server: None,
            sink: None,
            path,
            sinks_started: 0,
            sources: Vec::new(),
            sent: Vec::new(),
            arrived: Vec::new(),
            recorder: Recorder::new(Sample::default()),
            accepted: 0,
            delivered: 0,
            last_move: (Instant::now(), 0),
            kills: 0,
            farewell: Farewell::default(),
        };
        stand.start_sink()?;
        stand.start_server()?;
        Ok(stand)
    }

    /// What is to be known of the long path, if there is one.
    pub(super) fn path_marks(&self) -> Vec<Mark> {
        self.path.iter().filter_map(|path| path.mark().ok()).collect()
    }

    fn directory(&self) -> &FilePath {
        self.place.directory.parent().unwrap_or(&self.place.directory)
    }

    /// The server's own directory.
    pub(super) fn server_directory(&self) -> &FilePath {
        &self.place.directory
    }

    /// Puts the sink where the server sends.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_sink(&mut self) -> Result<(), String> {
        self.sinks_started += 1;
        let name = format!("sink-{}", self.sinks_started);
        self.sink =
            Some(Sink::start(self.directory(), &name, &self.place.sink, self.path.as_ref())?);
        Ok(())
    }

    /// Takes the next hop down.
    ///
    /// # Errors
    /// When it doesn't end.
    pub(super) fn stop_sink(&mut self) -> Result<(), String> {
        if let Some(sink) = self.sink.take() {
            self.arrived.push(sink.stop()?);
        }
        Ok(())
    }

    /// # Errors
    /// When it can't be started.
    pub(super) fn start_server(&mut self) -> Result<(), String> {
        self.server = Some(self.contender.start(&self.place)?);
        Ok(())
    }

    fn server(&mut self) -> Result<&mut Box<dyn Server>, String> {
        self.server.as_mut().ok_or_else(|| "no server runs".to_owned())
    }

    /// SIGKILL for the server.
    ///
    /// # Errors
    /// When it had ended before.
    pub(super) fn kill_server(&mut self) -> Result<(), String> {
        self.kills += 1;
        self.server.take().ok_or("no server runs")?.kill()?;
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
    pub(super) fn flush_server(&mut self) -> Result<(), String> {
        self.server()?.flush()
    }

    /// What the server was configured with.
    pub(super) fn files(&self) -> Vec<ConfigFile> {
        self.server.as_ref().map(|server| server.files()).unwrap_or_default()
    }

    /// The server's processes.
    pub(super) fn members(&self) -> Vec<u32> {
        match (&self.server, &self.place.group) {
            (Some(server), None) => tree::members(server.pid()),
            (Some(server), Some(_)) if matches!(self.contender, Contender::Target(_)) => {
                tree::members(server.pid())
            }
            (_, Some(group)) => group.members(),
            (None, None) => Vec::new(),
        }
    }

    /// What they have used.
    pub(super) fn usage(&self) -> Usage {
        let mut usage = Usage::of(&self.members());
        let is_ours = !matches!(self.contender, Contender::Target(_));
        let times = self.place.group.as_ref().filter(|_| is_ours).and_then(|group| group.times());
        if let Some((user, system)) = times {
            (usage.user_seconds, usage.system_seconds) = (user, system);
        }
        usage
    }

    /// Starts all sources of a load.
    ///
    /// # Errors
    /// When one can't be started.
    pub(super) fn start_sources(&mut self, name: &str, load: &Load) -> Result<(), String> {
        (1..=load.sources).try_for_each(|number| self.start_source(name, load, number))
    }

    /// Starts one source of a load.
    ///
    /// # Errors
    /// When it can't be started.
    pub(super) fn start_source(
        &mut self,
        name: &str,
        load: &Load,
        number: u32,
    ) -> Result<(), String> {
        let to = self.contender.address(&self.place);
        let source = Source::start(self.directory(), name, &to, load, number)?;
        self.sources.push(source);
        Ok(())
    }

    /// `pause` or `resume` to all sources.
    pub(super) fn tell_sources(&mut self, word: &str) {
        self.sources.iter_mut().for_each(|source| source.tell(word));
    }

    /// Whether all sources have sent all.
    ///
    /// # Errors
    /// When one failed.
    pub(super) fn sources_ended(&mut self) -> Result<bool, String> {
        let mut all = true;
        for source in &mut self.sources {
            all &= source.has_ended()?;
        }
        Ok(all)
    }

    /// Ends the sources that still run, counts what they did, and gives their reports.
    ///
    /// # Errors
    /// When one doesn't end or tells nothing.
    pub(super) fn finish_sources(&mut self) -> Result<Vec<SourceReport>, String> {
        self.sources.iter_mut().try_for_each(Source::stop)?;
        self.count()?;
        let reports = self.sources.iter().map(Source::report).collect();
        self.sent.extend(self.sources.drain(..).map(|source| source.ledger));
        reports
    }

    /// Reads the ledgers as far as they are.
    fn count(&mut self) -> Result<(), String> {
        let running = self.sources.iter_mut().map(|source| &mut source.ledger);
        self.accepted = sum(running.chain(&mut self.sent))?;
        let running = self.sink.iter_mut().map(|sink| &mut sink.ledger);
        self.delivered = sum(running.chain(&mut self.arrived))?;
        let moved = self.accepted + self.delivered;
        if moved != self.last_move.1 {
            self.last_move = (Instant::now(), moved);
        }
        Ok(())
    }

    /// Messages acknowledged since the stand was opened.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted
    }

    /// Messages at the sink since the stand was opened.
    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    fn sample(&self) -> Sample {
        Sample {
            accepted: self.accepted,
            delivered: self.delivered,
            rss_bytes: self.usage().rss_bytes,
            sources: self.sources.len() as u32,
        }
    }

    /// Waits a little, counts, and writes down a sample when one is due.
    ///
    /// # Errors
    /// When a ledger can't be read.
    pub(super) fn step(&mut self) -> Result<(), String> {
        std::thread::sleep(STEP);
        self.stopping.check()?;
        self.count()?;
        if self.recorder.is_due() {
            self.recorder.take(self.sample());
        }
        Ok(())
    }

    /// Steps until `is_so`.
    ///
    /// # Errors
    /// What `is_so` and the steps end with.
    pub(super) fn wait_until(
        &mut self,
        limit: Instant,
        mut is_so: impl FnMut(&mut Stand<'a>) -> Result<bool, String>,
    ) -> Result<Waited, String> {
        self.last_move.0 = Instant::now();
        loop {
            self.step()?;
            if is_so(self)? {
                return Ok(Waited::Done);
            }
            if Instant::now() > limit {
                return Ok(Waited::TimedOut);
            }
            if self.last_move.0.elapsed() > STILL_MAX {
                return Ok(Waited::Still);
            }
        }
    }

    /// Waits until all sources have sent all of `messages`; with it, the rate in each tenth of them.
    ///
    /// # Errors
    /// See [`Stand::wait_until`].
    pub(super) fn wait_for_sources(
        &mut self,
        limit: Instant,
        messages: u64,
    ) -> Result<(Waited, Vec<f64>), String> {
        let before = self.accepted;
        let mut tenths = Tenths::new(messages);
        let waited = self.wait_until(limit, |stand| {
            tenths.handle_count(stand.accepted - before);
            stand.sources_ended()
        })?;
        self.count()?;
        tenths.handle_count(self.accepted - before);
        Ok((waited, tenths.rates()))
    }

    /// Lets the sources send for so long, or until they have sent all.
    ///
    /// # Errors
    /// See [`Stand::wait_until`].
    pub(super) fn wait_for_time(
        &mut self,
        limit: Instant,
        lasts: Duration,
    ) -> Result<Waited, String> {
        let begun = Instant::now();
        self.wait_until(limit, |stand| Ok(begun.elapsed() >= lasts || stand.sources_ended()?))
    }

    /// Waits until all that was accepted is delivered.
    ///
    /// # Errors
    /// See [`Stand::wait_until`].
    pub(super) fn wait_for_deliveries(&mut self, limit: Instant) -> Result<Waited, String> {
        self.wait_until(limit, |stand| Ok(stand.delivered >= stand.accepted))
    }

    /// A small load before the measured one, so that caches are filled, processes forked and log
    /// segments prepared.
    ///
    /// # Errors
    /// When it isn't delivered.
    pub(super) fn warm_up(&mut self, load: &Load, limit: Instant) -> Result<(), String> {
        let messages = (load.messages / 10).clamp(u64::from(load.sources), WARM_UP_MAX);
        let load = Load { messages, ..load.clone() };
        self.start_sources("warm-up", &load)?;
        let sent = self.wait_until(limit, Stand::sources_ended)?;
        self.finish_sources()?;
        let delivered = self.wait_for_deliveries(limit)?;
        if (sent, delivered) != (Waited::Done, Waited::Done) {
            let (accepted, delivered) = (self.accepted, self.delivered);
            return Err(format!(
                "it doesn't get through the {messages} messages of the warm-up: {accepted} accepted, \
                 {delivered} delivered"
            ));
        }
        self.settle()
    }

    /// Waits until the server has done what it does in the background.
    fn settle(&self) -> Result<(), String> {
        let begun = Instant::now();
        let mut before = self.usage();
        while begun.elapsed() < SETTLE_MAX {
            std::thread::sleep(AFTERMATH);
            self.stopping.check()?;
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
            sync_count: self.server.as_mut().and_then(|server| server.sync_count()),
            device_written_bytes: device_written_bytes(self.server_directory()),
            accepted: self.accepted,
            delivered: self.delivered,
            sink_cpu_seconds: self
                .sink
                .as_mut()
                .and_then(|sink| Usage::of_one(sink.pid()).ok())
                .map_or(0.0, |usage| usage.cpu_seconds()),
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
    pub(super) fn close(&mut self) -> Result<Account, String> {
        self.finish_sources()?;
        if let Some(server) = self.server.take() {
            self.farewell = server.stop()?;
        }
        self.stop_sink()?;
        self.audit()
    }

    /// Syncs that the server told of at its end.
    pub(super) fn farewell(&self) -> Farewell {
        self.farewell
    }

    fn audit(&self) -> Result<Account, String> {
        let read = |ledgers: &[Followed]| -> Result<String, String> {
            let texts = ledgers.iter().map(|ledger| {
                let path = ledger.path();
                std::fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", path.display()))
            });
            texts.collect()
        };
        let mut arrived = read(&self.arrived)?;
        for _ in 0..self.planted_loss {
            let end = arrived.trim_end().rfind('\n').map_or(0, |end| end + 1);
            arrived.truncate(end);
        }
        let audit = audit(&read(&self.sent)?, &arrived, 0)?;
        Ok(Account {
            acknowledged: audit.acked_recipients,
            arrived: audit.arrivals,
            missing: audit.missing.count,
            duplicates: audit.duplicates.count,
            duplicates_allowed: self.kills * self.contender.duplicates_per_kill(),
            damaged: audit.damaged.count,
            misdelivered: audit.misdelivered.count,
            refused: audit.refused_messages,
            unknown: audit.unknown_messages,
        })
    }
}

fn sum<'a>(ledgers: impl Iterator<Item = &'a mut Followed>) -> Result<u64, String> {
    let mut sum = 0;
    for ledger in ledgers {
        sum += ledger.count()?;
    }
    Ok(sum)
}
