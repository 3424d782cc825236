//! Counts of sources that warm up (`mta::warmup`): in memory for all shards, and in a file, which is written by a job
//! beside the shards (`file_watch`) before mail is sent. Without the file no mail is sent from these sources.

mod file;

use crate::console::ConsoleLog;
use crate::file_watch::{Bell, FileJobs};
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
use std::sync::{Arc, Mutex};
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
    /// Callers that wait for a write.
    waiting: Mutex<Vec<PendingReservation>>,
    /// Locked during waits for the disk. `None`: not open, or closed.
    file: Mutex<Option<OpenFile>>,
    jobs: FileJobs,
    /// Those of the configuration.
    sources: Mutex<Vec<Arc<Source>>>,
    /// What is wrong with the file.
    troubles: Conditions,
    console: Arc<ConsoleLog>,
}

/// The job that writes the file.
enum WarmupWriter {
    /// No source warms up.
    None,
    Job(Bell),
    /// Why there is no file that could be written.
    Failed(String),
}

struct OpenFile {
    file: File,
    /// Time of the last report of a failed write, if no write has succeeded since.
    told_at: Option<u64>,
}

/// A caller that waits for a write.
struct PendingReservation {
    ask: AllowanceRequest,
    answer: oneshot::Sender<Answered>,
}

impl StoredWarmups {
    /// Keeps its file in this directory, once a source warms up.
    pub(crate) fn new(
        directory: &Path,
        troubles: Conditions,
        (jobs, console): (&FileJobs, &Arc<ConsoleLog>),
    ) -> StoredWarmups {
        StoredWarmups(Arc::new(WarmupStore {
            directory: directory.to_owned(),
            book: Mutex::default(),
            keeper: Mutex::new(WarmupWriter::None),
            waiting: Mutex::default(),
            file: Mutex::default(),
            jobs: jobs.clone(),
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
        if warming.is_empty() || matches!(*keeper, WarmupWriter::Job(_)) {
            return;
        }
        let opened = self.0.open(&warming).map(|file| self.start(file));
        *keeper = opened.unwrap_or_else(|why| {
            let path = self.0.directory.join(NAME);
            let what = "no mail is sent from sources in warm-up";
            self.0.warn(format_args!("cannot store {}: {why}; {what}", path.display()));
            WarmupWriter::Failed(why)
        });
    }

    fn start(&self, file: File) -> WarmupWriter {
        *lock(&self.0.file) = Some(OpenFile { file, told_at: None });
        WarmupWriter::Job(self.0.jobs.follow(&self.0, |inner| {
            inner.keep();
            WRITTEN_EVERY
        }))
    }

    fn close(&self) {
        let closed = WarmupWriter::Failed("the server is stopping".to_owned());
        let keeper = std::mem::replace(&mut *lock(&self.0.keeper), closed);
        if let WarmupWriter::Job(bell) = keeper {
            // A job that runs has the file until it has ended.
            drop(bell);
            self.0.keep_last();
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
        let bell = match &*keeper {
            WarmupWriter::Job(bell) => bell,
            WarmupWriter::Failed(why) => return Answer::Now(failed(why)),
            WarmupWriter::None => return Answer::Now(failed("it is not open")),
        };
        if let AllowanceGrant::Answered(answered) = lock(&self.0.book).ask(&ask) {
            return Answer::Now(answered);
        }
        let if_gone = failed("its file is no longer written");
        let (answer, answered) = oneshot::channel();
        lock(&self.0.waiting).push(PendingReservation { ask, answer });
        bell.ring();
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

    /// Writes changes and answers the callers that wait for them.
    fn keep(&self) {
        let mut file = lock(&self.file);
        let Some(open) = &mut *file else { return };
        let mut waiting = Vec::new();
        loop {
            waiting.append(&mut lock(&self.waiting));
            let written = self.write_changes(&mut open.file);
            self.report(&written, &mut open.told_at);
            waiting = self.answer(waiting, &written);
            if waiting.is_empty() {
                return;
            }
        }
    }

    /// Writes the last changes, and closes the file.
    fn keep_last(&self) {
        let mut file = lock(&self.file);
        let Some(mut open) = file.take() else { return };
        lock(&self.book).close();
        let written = self.write_changes(&mut open.file).and_then(|()| open.file.seal());
        self.report(&written, &mut open.told_at);
        // Dropped, they are answered.
        lock(&self.waiting).clear();
    }

    /// Reports a failed write, or the end of failures.
    fn report(&self, written: &Result<(), String>, told_at: &mut Option<u64>) {
        let Err(why) = written else {
            if told_at.take().is_some() {
                self.troubles.clear(NAME);
            }
            return;
        };
        let now = wall_now().0;
        if told_at.is_none_or(|at| now.saturating_sub(at) >= COMPLAINTS_EVERY_MS) {
            *told_at = Some(now);
            let what = "no mail is sent from sources in warm-up";
            self.warn(format_args!("cannot write {NAME}: {why}; {what}"));
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

    /// Answers callers that waited for a write. Returns those that wait for another one.
    fn answer(
        &self,
        waiting: Vec<PendingReservation>,
        written: &Result<(), String>,
    ) -> Vec<PendingReservation> {
        let mut still = Vec::new();
        for PendingReservation { mut ask, answer } in waiting {
            if let Err(why) = written {
                let _ = answer.send(closed(&ask.key, why, wall_now()));
                continue;
            }
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
