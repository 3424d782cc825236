//! Telling owners of domains what was seen, once a day: what is noted is counted by day and domain, and each
//! day's counts are sent on the next. What is counted, and what is sent, a [`ReportKind`] says.

mod day;
mod letter;
mod sending;

use crate::console::ConsoleLog;
use crate::file_watch::{Bell, FileJobs};
use crate::kept_file::StateFiles;
use crate::limited_work::finished;
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, Service, ServiceRuntime};
use crate::world::clock::wall_now;
use crate::world::listening_socket::AcceptedSocket;
use crate::world::resolver::Resolver;
use bytes::Bytes;
use config::{Config, Problem, Reader};
#[cfg(test)]
pub(crate) use day::SentReports;
use day::number_of;
pub(crate) use day::{DAY_MS, Day, DomainCounts};
pub(crate) use letter::{Letter, packed};
use mail::{Mailbox, MessageId};
use mta::console::{Console as _, Level};
use mta::inbox::{GeneratedMessage, Purpose, ShardMessage, ShardSender};
use mta::metrics::MetricSet;
pub(crate) use sending::{DomainReport, moment_within, note_sent};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};

/// Longest time until a count is on disk: a crash loses no more.
const WRITE_EVERY: Duration = Duration::from_secs(60);

/// Notes that wait to be counted; those beyond are not counted.
const WAITING_MAX: usize = 10_000;

/// What is told of, and how.
pub(crate) trait ReportKind: Sized + Send + Sync + 'static {
    /// The directory in the first spool directory.
    const DIRECTORY: &'static str;
    /// For the console and events.
    const ABOUT: &'static str;
    /// What the notes are about.
    const NOTES: &'static str;
    type CounterCommand: Send + 'static;
    type Domain: DomainCounts<Note = Self::CounterCommand>;
    type Settings: Clone + Send + Sync + 'static;

    /// `None`: nothing is counted or sent.
    fn settings(config: &Config) -> Option<Self::Settings>;

    /// How long after the end of a day the report to a domain is due.
    fn due_after_ms(terms: &ReporterSettings<Self::Settings>, domain: &str, number: u64) -> u64;

    /// How long after the end of a day what could not be sent is not sent any more.
    fn given_up_after_ms(terms: &ReporterSettings<Self::Settings>) -> u64;

    /// Sends a domain's report, if there is anybody whom it may be sent to.
    ///
    /// # Errors
    /// Why it can't be done now.
    async fn send(
        daily: &Arc<DailyReporter<Self>>,
        report: &Arc<DomainReport<Self>>,
    ) -> Result<(), String>;

    /// What is counted of it.
    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        None
    }

    /// So many notes were counted, and so many not, or not whole.
    fn tell_counted(&self, _counted: u64, _left_out: u64) {}

    /// So many reports were given up.
    fn tell_given_up(&self, _count: u64) {}
}

/// Counts for all shards; clones are of one.
pub(crate) struct DailyCounting<K: ReportKind>(Arc<DailyReporter<K>>);

impl<K: ReportKind> Clone for DailyCounting<K> {
    fn clone(&self) -> DailyCounting<K> {
        DailyCounting(Arc::clone(&self.0))
    }
}

pub(crate) struct DailyReporter<K: ReportKind> {
    pub(crate) kind: K,
    directory: PathBuf,
    is_on: AtomicBool,
    /// Notes to the job that counts, and its bell, once reports were on.
    notes: OnceLock<(SyncSender<BoxedNote<K>>, Bell)>,
    /// The job's own. Locked during waits for the disk.
    counter: Mutex<Option<DayCounter<K>>>,
    jobs: FileJobs,
    /// Notes that were not counted since that was told last.
    lost: AtomicU64,
    terms: Mutex<Option<ReporterSettings<K::Settings>>>,
    /// Other terms are in force.
    adopted: Notify,
    runtime: ServiceRuntime,
    /// Held by work aside: one report at a time is composed, in no more memory than one takes.
    working: tokio::sync::Mutex<()>,
    pub(crate) resolver: Resolver,
    /// Where reports are queued.
    shard: ShardSender<AcceptedSocket>,
    files: StateFiles,
    console: Arc<ConsoleLog>,
}

/// As whom reports are sent, and when.
#[derive(Clone)]
pub(crate) struct ReporterSettings<S> {
    pub(crate) settings: S,
    pub(crate) hostname: Box<str>,
}

type BoxedNote<K> = Box<<K as ReportKind>::CounterCommand>;

/// Notes that wait, and the counts of a day.
struct DayCounter<K: ReportKind> {
    notes: Receiver<BoxedNote<K>>,
    /// `None` before the first run, which reads its file.
    day: Option<Day<K::Domain>>,
    written_at: Instant,
}

impl<K: ReportKind> DailyCounting<K> {
    /// Counts nothing before a configuration is adopted that wants it.
    pub(crate) fn new(
        kind: K,
        spool: &Path,
        resolver: Resolver,
        shard: ShardSender<AcceptedSocket>,
        (runtime, jobs, files, console): (
            &ServiceRuntime,
            &FileJobs,
            &StateFiles,
            &Arc<ConsoleLog>,
        ),
    ) -> DailyCounting<K> {
        DailyCounting(Arc::new(DailyReporter {
            kind,
            directory: spool.join(K::DIRECTORY),
            is_on: AtomicBool::new(false),
            notes: OnceLock::new(),
            counter: Mutex::default(),
            jobs: jobs.clone(),
            lost: AtomicU64::new(0),
            terms: Mutex::default(),
            adopted: Notify::new(),
            runtime: runtime.clone(),
            working: tokio::sync::Mutex::default(),
            resolver,
            shard,
            files: files.clone(),
            console: Arc::clone(console),
        }))
    }

    /// Starts counting and sending, unless that is done.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    fn start(&self) -> Result<(), String> {
        // Another reload may be at it, too.
        let _starting = lock(&self.0.terms);
        if self.0.notes.get().is_some() {
            return Ok(());
        }
        let (tasks, sending) = (self.0.runtime.start()?, Arc::clone(&self.0));
        tasks.spawn(move || sending::run(sending));
        self.start_counting();
        Ok(())
    }

    fn start_counting(&self) {
        let (sender, notes) = sync_channel(WAITING_MAX);
        *lock(&self.0.counter) = Some(DayCounter { notes, day: None, written_at: Instant::now() });
        let bell = self.0.jobs.follow(&self.0, |inner| inner.count(false));
        let _ = self.0.notes.set((sender, bell));
    }

    pub(crate) fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    /// Has something counted, without waiting for that.
    pub(crate) fn note(&self, note: K::CounterCommand) {
        let Some((notes, bell)) = self.0.notes.get() else { return };
        match notes.try_send(Box::new(note)) {
            Ok(()) => bell.ring(),
            Err(_) => self.leave_out(1),
        }
    }

    /// So many notes are not counted.
    pub(crate) fn leave_out(&self, count: u64) {
        self.0.lost.fetch_add(count, Ordering::Relaxed);
    }
}

impl<K: ReportKind> Service for DailyCounting<K> {
    fn name(&self) -> &'static str {
        K::ABOUT
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let hostname = || Box::from(next.config.hostname.as_str());
        let settings = K::settings(next.config);
        let terms = settings.map(|settings| ReporterSettings { settings, hostname: hostname() });
        if terms.is_some() {
            self.start().map_err(|why| vec![next.config.mistake_at(K::ABOUT, why)])?;
        }
        let inner = Arc::clone(&self.0);
        Ok(Box::new(move || {
            inner.is_on.store(terms.is_some(), Ordering::Relaxed);
            *lock(&inner.terms) = terms;
            inner.adopted.notify_one();
        }))
    }

    fn metrics(&self) -> Option<Arc<dyn MetricSet>> {
        self.0.kind.metrics()
    }

    fn finish(&self) {
        self.0.count(true);
    }
}

impl<K: ReportKind> DailyReporter<K> {
    /// Counts the notes that wait, and writes the day if that is due or the last time. Returns the pause before the
    /// next write.
    fn count(&self, is_last: bool) -> Duration {
        let mut counter = lock(&self.counter);
        let Some(DayCounter { notes, day, written_at }) = &mut *counter else { return WRITE_EVERY };
        for note in notes.try_iter().take(WAITING_MAX) {
            let left_out = u64::from(!self.today(day).add(&note));
            self.kind.tell_counted(1, left_out);
        }
        let day = self.today(day);
        if is_last || written_at.elapsed() >= WRITE_EVERY {
            self.write(day);
            *written_at = Instant::now();
        }
        WRITE_EVERY.saturating_sub(written_at.elapsed())
    }

    /// The day that is counted now. Writes the one before, when it has ended.
    fn today<'d>(&self, day: &'d mut Option<Day<K::Domain>>) -> &'d mut Day<K::Domain> {
        let today = number_of(wall_now());
        if let Some(mut ended) = day.take_if(|day| day.number() != today) {
            self.write(&mut ended);
        }
        day.get_or_insert_with(|| self.open(today))
    }

    /// What was counted of a day. A file that can't be read would be written over.
    fn open(&self, number: u64) -> Day<K::Domain> {
        Day::open(&self.directory, number).unwrap_or_else(|error| {
            self.put_aside(number, &error);
            Day::new(number)
        })
    }

    /// Keeps the file of a day that can't be read, for whoever can make something of it, and says so.
    fn put_aside(&self, number: u64, error: &io::Error) {
        let (why, path) = (error.to_string(), Day::<K::Domain>::path(&self.directory, number));
        let about = format!("cannot read {}: {why}", path.display());
        let about = match Day::<K::Domain>::put_aside(&self.directory, number) {
            Ok(aside) => format!("{about}: it is moved to {}", aside.display()),
            Err(error) => format!("{about}, nor move it aside: {error}"),
        };
        let so = format!("earlier counts of day {number} are not reported");
        self.files.lost(K::ABOUT, &path, &about, &so);
    }

    fn write(&self, day: &mut Day<K::Domain>) {
        match day.write(&self.directory) {
            Ok(()) => self.files.written(&self.directory),
            Err(error) => {
                let path = self.directory.display();
                let why = format!("cannot store counts in {path}: {error}");
                self.files.unwritten(K::ABOUT, &self.directory, &why);
            }
        }
        let lost = self.lost.swap(0, Ordering::Relaxed);
        self.kind.tell_counted(0, lost);
        let lost = lost + day.take_left_out();
        if lost > 0 {
            let notes = K::NOTES;
            self.warn(format_args!("{lost} {notes} were not counted: limit reached"));
        }
    }

    /// The result of work on files, or of work that takes long. A disk that hangs delays reports of this kind only.
    pub(crate) async fn aside<T: Send + 'static>(
        self: &Arc<DailyReporter<K>>,
        work: impl FnOnce(&DailyReporter<K>) -> T + Send + 'static,
    ) -> T {
        let _working = self.working.lock().await;
        let daily = Arc::clone(self);
        finished(move || work(&daily)).await
    }

    pub(crate) fn warn(&self, text: std::fmt::Arguments<'_>) {
        self.console.line(Level::Warn, K::ABOUT, text);
    }

    pub(crate) fn tell(&self, text: std::fmt::Arguments<'_>) {
        self.console.line(Level::Info, K::ABOUT, text);
    }

    /// Queues a message of this server's own.
    ///
    /// # Errors
    /// Why it is not queued.
    pub(crate) async fn queue(
        &self,
        sender: &Mailbox,
        recipients: Vec<Mailbox>,
        content: Vec<u8>,
        purpose: Purpose,
    ) -> Result<MessageId, String> {
        let (answer, answered) = oneshot::channel();
        let own = GeneratedMessage {
            sender: Some(sender.clone()),
            content: Bytes::from(content),
            recipients,
            about: Arc::from(K::ABOUT),
            purpose,
            answer,
        };
        let _ = self.shard.send(ShardMessage::Own(Box::new(own)));
        let queued = answered.await.map_err(|_| "the server stops".to_owned())?;
        queued.map(|queued| queued.id)
    }
}

/// Octets of a text that readers of reports see.
const TEXT_BYTES_MAX: usize = 200;

/// Checks texts that stand in reports by their keys, where there are any.
pub(crate) fn check_texts(
    from: Option<&str>,
    texts: [(&str, Option<&str>); 2],
    reader: &mut Reader<'_, '_>,
) {
    for (key, text) in texts {
        let Some(text) = text else { continue };
        if from.is_none() {
            let help = "name their sender, for example from = \"reports@example.org\"";
            reader.error(key, format!("`{key}` without `from`"), help);
        }
        let is_text = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if text.is_empty() || text.len() > TEXT_BYTES_MAX || !is_text {
            let message = format!("use 1 to {TEXT_BYTES_MAX} printable ASCII characters");
            reader.error(key, message, "");
        }
    }
}

#[cfg(test)]
mod tests;
