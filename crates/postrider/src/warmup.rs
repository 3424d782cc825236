//! What sources have sent that warm up (`mta::warmup`): in memory for all shards, and in a file, written by a thread
//! of its own, before any of it is sent. Without the file nothing is sent from them.

mod file;

use crate::console::ConsoleLog;
use crate::mutex::lock;
use crate::record_file::Unreadable;
use crate::services::{Adoption, CandidateConfig, Service};
use crate::world::clock::wall_now;
use config::{Config, Problem, Source};
use file::File;
use mail::Wall;
use mta::answer::Answer;
use mta::console::{Console as _, Level};
use mta::control::{SHOWN_COURSES_MAX, SourceItem, WarmupItem};
use mta::problems::{Conditions, DetectedProblem};
use mta::seams::Warmups;
use mta::warmup::{
    Allowance, AllowanceGrant, AllowanceRequest, Answered, Tried, WarmupKey, WarmupLedger,
    WarmupView, day_of,
};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use tokio::sync::oneshot;

/// The file in the first spool directory.
const NAME: &str = "warmup.records";

/// What a file that can't be read is called from then on.
const DAMAGED: &str = "warmup.records.damaged";

/// What became of recipients is written after so long at the latest: a crash forgets no more of it.
const WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// How long nothing is sent after a write that failed.
const CLOSED_FOR: Duration = Duration::from_secs(60);

/// Failed writes are told no more often.
const COMPLAINTS_EVERY_MS: u64 = 600_000;

/// What is known; clones are of one book.
#[derive(Clone)]
pub(crate) struct StoredWarmups(Arc<WarmupStore>);

struct WarmupStore {
    directory: PathBuf,
    book: Mutex<WarmupLedger>,
    keeper: Mutex<WarmupWriter>,
    /// Those of the configuration.
    sources: Mutex<Vec<Arc<Source>>>,
    /// What is wrong with the file.
    troubles: Conditions,
    console: Arc<ConsoleLog>,
}

/// Whoever writes the file.
enum WarmupWriter {
    /// No source warms up.
    None,
    Thread(mpsc::Sender<WarmupRequest>, JoinHandle<()>),
    /// Why there is no file that could be written.
    Failed(String),
}

enum WarmupRequest {
    /// Answer this when what is reserved for it is written.
    Ask(PendingReservation),
    /// Write the last, and end.
    Close,
}

/// Who waits for a write.
struct PendingReservation {
    ask: AllowanceRequest,
    answer: oneshot::Sender<Answered>,
}

impl StoredWarmups {
    /// Keeps its file in this directory, once a source warms up.
    pub(crate) fn new(
        directory: &Path,
        troubles: Conditions,
        console: &Arc<ConsoleLog>,
    ) -> StoredWarmups {
        StoredWarmups(Arc::new(WarmupStore {
            directory: directory.to_owned(),
            book: Mutex::default(),
            keeper: Mutex::new(WarmupWriter::None),
            sources: Mutex::default(),
            troubles,
            console: Arc::clone(console),
        }))
    }

    /// Reads the file, if a source warms up and that was not done yet.
    fn open_for(&self, config: &Config) {
        lock(&self.0.sources).clone_from(&config.sources);
        let mut keeper = lock(&self.0.keeper);
        let warming = config.sources.iter().filter(|source| source.warmup.is_some());
        let warming: BTreeSet<Arc<str>> = warming.map(|source| Arc::clone(&source.name)).collect();
        if warming.is_empty() || matches!(*keeper, WarmupWriter::Thread(..)) {
            return;
        }
        let started = self.0.open(&warming).and_then(|file| self.start(file));
        *keeper = started.unwrap_or_else(|why| {
            let path = self.0.directory.join(NAME);
            let what = "no mail is sent from sources in warm-up";
            self.0.warn(format_args!("cannot store {}: {why}; {what}", path.display()));
            WarmupWriter::Failed(why)
        });
    }

    fn start(&self, file: File) -> Result<WarmupWriter, String> {
        let inner = Arc::clone(&self.0);
        let (sender, requests) = mpsc::channel();
        let thread = thread::Builder::new().name("warmup".into());
        let thread = thread.spawn(move || inner.keep(file, &requests));
        thread.map(|thread| WarmupWriter::Thread(sender, thread)).map_err(|error| error.to_string())
    }

    fn close(&self) {
        let closed = WarmupWriter::Failed("the server is stopping".to_owned());
        let keeper = std::mem::replace(&mut *lock(&self.0.keeper), closed);
        if let WarmupWriter::Thread(requests, thread) = keeper {
            let _ = requests.send(WarmupRequest::Close);
            // A panic would have ended the process.
            let _ = thread.join();
        }
    }

    /// The sources, and how far those have come that warm up.
    pub(crate) fn sources(&self) -> Vec<SourceItem> {
        let sources = lock(&self.0.sources).clone();
        let courses: Vec<WarmupView> = lock(&self.0.book).courses().collect();
        sources.iter().map(|source| item(source, &courses)).collect()
    }
}

impl Service for StoredWarmups {
    fn name(&self) -> &'static str {
        "sources in warm-up"
    }

    /// Without its file nothing is sent from them.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (self.clone(), Arc::clone(next.config));
        Ok(Box::new(move || this.open_for(&config)))
    }

    fn finish(&self) {
        self.close();
    }
}

impl Warmups for StoredWarmups {
    fn ask(&self, ask: AllowanceRequest) -> Answer<'static, Answered> {
        let failed = |why: &str| closed(&ask.key, why, ask.now);
        let keeper = lock(&self.0.keeper);
        let requests = match &*keeper {
            WarmupWriter::Thread(requests, _) => requests,
            WarmupWriter::Failed(why) => return Answer::Now(failed(why)),
            WarmupWriter::None => return Answer::Now(failed("it is not open")),
        };
        if let AllowanceGrant::Answered(answered) = lock(&self.0.book).ask(&ask) {
            return Answer::Now(answered);
        }
        let if_gone = failed("its file is no longer written");
        let (answer, answered) = oneshot::channel();
        // Where nobody is left to take it, the answer's sender is gone with it.
        let _ = requests.send(WarmupRequest::Ask(PendingReservation { ask, answer }));
        Answer::later(async move { answered.await.unwrap_or(if_gone) })
    }

    fn give_back(&self, key: &WarmupKey, recipients: u32, until: Wall) {
        lock(&self.0.book).give_back(key, recipients, until);
    }

    fn note(&self, key: &WarmupKey, came: Tried) {
        lock(&self.0.book).note(key, came);
    }
}

/// Nothing is sent that can't be counted.
fn closed(key: &WarmupKey, why: &str, now: Wall) -> Answered {
    let why = format!("warm-up of {key}: cannot count recipients: {why}").into();
    let allowance = Allowance::Closed { why, until: now.after(CLOSED_FOR) };
    Answered { allowance, turn: None }
}

impl WarmupStore {
    /// Opens the file and reads it; one that can't be read is put aside.
    fn open(&self, warming: &BTreeSet<Arc<str>>) -> Result<File, String> {
        let path = self.directory.join(NAME);
        let today = day_of(wall_now());
        let why = match File::open(&path) {
            Ok((mut file, held)) => {
                if file.has_rest() {
                    let path = path.display();
                    let text = format_args!("the last record of {path} is incomplete and skipped");
                    self.console.line(Level::Info, "warmup", text);
                }
                let book = WarmupLedger::read(held.iter().cloned(), warming, today);
                let known: BTreeSet<WarmupKey> = book.courses().map(|course| course.key).collect();
                let is_over = |(key, _): (WarmupKey, _)| (!known.contains(&key)).then_some(key);
                let over: Vec<WarmupKey> = held.into_iter().filter_map(is_over).collect();
                if !over.is_empty() {
                    file.forget(&over)?;
                }
                *lock(&self.book) = book;
                return Ok(file);
            }
            Err(Unreadable::NotNow(why)) => return Err(why),
            Err(Unreadable::Damaged(why)) => why,
        };
        let aside = self.directory.join(DAMAGED);
        self.warn(format_args!(
            "{} is damaged: {why}; moved to {}: all sources restart their warm-up tomorrow (UTC)",
            path.display(),
            aside.display()
        ));
        std::fs::rename(&path, aside).map_err(|error| error.to_string())?;
        let (file, _) = File::open(&path).map_err(|why| why.to_string())?;
        *lock(&self.book) = WarmupLedger::replaced(today);
        Ok(file)
    }

    /// Writes what changes and answers who waits for that, until the end.
    fn keep(&self, mut file: File, requests: &mpsc::Receiver<WarmupRequest>) {
        let (mut waiting, mut told_at) = (Vec::new(), None);
        loop {
            let is_last = gather(requests, &mut waiting);
            if is_last {
                lock(&self.book).close();
            }
            let mut written = self.write_changes(&mut file);
            if is_last {
                written = written.and_then(|()| file.seal());
            }
            if written.is_ok() && told_at.take().is_some() {
                self.troubles.clear(NAME);
            }
            if let Err(why) = &written {
                let now = wall_now().0;
                if told_at.is_none_or(|at| now.saturating_sub(at) >= COMPLAINTS_EVERY_MS) {
                    told_at = Some(now);
                    let what = "no mail is sent from sources in warm-up";
                    self.warn(format_args!("cannot write {NAME}: {why}; {what}"));
                }
            }
            if is_last {
                return;
            }
            waiting = match &written {
                Ok(()) => self.answer(waiting),
                Err(why) => {
                    for PendingReservation { ask, answer } in waiting {
                        let _ = answer.send(closed(&ask.key, why, wall_now()));
                    }
                    Vec::new()
                }
            };
        }
    }

    fn write_changes(&self, file: &mut File) -> Result<(), String> {
        let changes = lock(&self.book).take_changes();
        if changes.is_empty() {
            return Ok(());
        }
        let written = file.write(&changes);
        match &written {
            Ok(()) => lock(&self.book).written(&changes),
            Err(_) => lock(&self.book).unwritten(&changes),
        }
        written
    }

    /// Answers who waited for a write; gives those who wait for another.
    fn answer(&self, waiting: Vec<PendingReservation>) -> Vec<PendingReservation> {
        let mut still = Vec::new();
        for PendingReservation { mut ask, answer } in waiting {
            ask.now = wall_now();
            let asked = lock(&self.book).ask(&ask);
            match asked {
                AllowanceGrant::Reserved => still.push(PendingReservation { ask, answer }),
                AllowanceGrant::Answered(answered) => {
                    if let Err(unheard) = answer.send(answered)
                        && let Allowance::Granted { recipients, until } = unheard.allowance
                    {
                        lock(&self.book).give_back(&ask.key, recipients, until);
                    }
                }
            }
        }
        still
    }

    fn warn(&self, text: std::fmt::Arguments<'_>) {
        self.console.line(Level::Warn, "warmup", text);
        let found = DetectedProblem::warning(NAME, text.to_string());
        self.troubles.set(found.next_step("check the first spool directory"), wall_now());
    }
}

/// Takes what is asked, and waits for that for a while if nobody waits already; whether this is the end.
fn gather(requests: &mpsc::Receiver<WarmupRequest>, waiting: &mut Vec<PendingReservation>) -> bool {
    let mut next = if waiting.is_empty() {
        match requests.recv_timeout(WRITTEN_EVERY) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return true,
        }
    } else {
        requests.try_recv().ok()
    };
    while let Some(request) = next {
        match request {
            WarmupRequest::Ask(asked) => waiting.push(asked),
            WarmupRequest::Close => return true,
        }
        next = requests.try_recv().ok();
    }
    false
}

/// A source with its courses, which are some of `all`.
fn item(source: &Source, all: &[WarmupView]) -> SourceItem {
    let Some(plan) = &source.warmup else {
        return SourceItem { name: source.name.to_string(), ..SourceItem::default() };
    };
    let mut own: Vec<&WarmupView> =
        all.iter().filter(|seen| seen.key.source == source.name).collect();
    let courses_count = own.len() as u64;
    own.sort_by_key(|seen| (Reverse((seen.kept.day, seen.used)), &seen.key.towards));
    own.truncate(SHOWN_COURSES_MAX);
    let course = |seen: &WarmupView| {
        let count = plan.count(seen.kept.stage);
        let date = Wall(u64::from(seen.kept.day) * 86_400_000).to_string();
        WarmupItem {
            towards: seen.key.towards.to_string(),
            stage: seen.kept.stage + 1,
            stages: u32::try_from(plan.per_day.len()).unwrap_or(u32::MAX),
            count,
            date: date.get(..10).unwrap_or_default().to_owned(),
            used: count.map_or(0, |count| seen.used.min(count)),
            tried: seen.kept.tried,
            delivered: seen.kept.delivered,
            held: seen.kept.held,
        }
    };
    let courses = own.into_iter().map(course).collect();
    SourceItem { name: source.name.to_string(), warms_up: true, courses, courses_count }
}

#[cfg(test)]
mod tests;
