//! Greylisting records of unauthenticated clients: in memory for all shards, and written to a file every few seconds on
//! a thread of the file watch. Without the file all clients start anew.

mod file;

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::record_file::Unreadable;
use crate::services::{Adoption, CandidateConfig, Service};
use crate::world::clock::wall_now;
use auth::greylist::{Changes, GreylistLedger, GreylistPolicy, GreylistResult, Triplet};
use config::{Config, Problem};
use file::File;
use mail::Wall;
use mta::console::{Console as _, Level};
use mta::problems::{Conditions, DetectedProblem};
use mta::seams::Greylist;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The file in the first spool directory.
const NAME: &str = "greylist.records";

/// New name of an unreadable file.
const DAMAGED: &str = "greylist.records.damaged";

/// Interval of writes; a crash loses no more than this.
const WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// Maximum number of records taken under the lock, for which shards wait.
const TAKEN_AT_ONCE: usize = 1_000;

/// Records in one batch of the file.
const WRITTEN_AT_ONCE: usize = 50_000;

/// Interval of reports about failed writes.
const COMPLAINTS_EVERY_MS: u64 = 600_000;

/// The greylisting records; clones share them.
#[derive(Clone)]
pub(crate) struct Greylisting(Arc<GreylistStore>);

struct GreylistStore {
    directory: PathBuf,
    book: Mutex<GreylistLedger>,
    keeps: Mutex<GreylistStorage>,
    /// The file with pending changes; locked during disk access.
    file: Mutex<Option<GreylistWriter>>,
    watch: Arc<FileWatch>,
    /// Problems of the file.
    troubles: Conditions,
    console: Arc<ConsoleLog>,
}

/// The state of the file.
#[derive(PartialEq, Eq)]
enum GreylistStorage {
    /// Greylisting is not in use yet.
    NotYet,
    File,
    /// There is none to be written: all is in memory alone.
    Nothing,
}

/// The file, while it is written.
struct GreylistWriter {
    file: File,
    /// Time of the last failure report.
    told_at: Option<u64>,
    /// Changes that could not be written.
    unwritten: Changes,
}

impl Greylisting {
    /// Stores its file in this directory, once greylisting is used.
    pub(crate) fn new(
        directory: &Path,
        troubles: Conditions,
        (watch, console): (&Arc<FileWatch>, &Arc<ConsoleLog>),
    ) -> Greylisting {
        Greylisting(Arc::new(GreylistStore {
            directory: directory.to_owned(),
            book: Mutex::default(),
            keeps: Mutex::new(GreylistStorage::NotYet),
            file: Mutex::default(),
            watch: Arc::clone(watch),
            troubles,
            console: Arc::clone(console),
        }))
    }

    /// Reads the file if this configuration is the first with greylisting.
    fn open_for(&self, config: &Config) {
        let mut keeps = lock(&self.0.keeps);
        if *keeps != GreylistStorage::NotYet || !channels::asks_for_greylisting(config) {
            return;
        }
        *keeps = match self.0.open() {
            Some(file) => {
                let kept = GreylistWriter { file, told_at: None, unwritten: Changes::new() };
                *lock(&self.0.file) = Some(kept);
                self.0.watch.follow_every(WRITTEN_EVERY, &self.0, |inner| inner.write(false));
                GreylistStorage::File
            }
            None => GreylistStorage::Nothing,
        };
    }

    fn close(&self) {
        *lock(&self.0.keeps) = GreylistStorage::Nothing;
        self.0.write(true);
    }
}

impl Service for Greylisting {
    fn name(&self) -> &'static str {
        "greylisted clients"
    }

    /// Without its file greylisting works in memory.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (self.clone(), Arc::clone(next.config));
        Ok(Box::new(move || this.open_for(&config)))
    }

    fn finish(&self) {
        self.close();
    }
}

impl Greylist for Greylisting {
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult {
        lock(&self.0.book).judge(rules, triplet, now)
    }
}

impl GreylistStore {
    /// Opens the file and reads it; one that can't be read is put aside.
    fn open(&self) -> Option<File> {
        let path = self.directory.join(NAME);
        let why = match self.read(&path) {
            Ok(file) => return Some(file),
            Err(Unreadable::NotNow(why)) => {
                self.warn(format_args!(
                    "cannot open {}: {why}; new clients are remembered only until the next start",
                    path.display()
                ));
                return None;
            }
            Err(Unreadable::Damaged(why)) => why,
        };
        let aside = self.directory.join(DAMAGED);
        self.warn(format_args!(
            "{} is damaged: {why}; moved to {}, and all clients are new",
            path.display(),
            aside.display()
        ));
        let renamed = std::fs::rename(&path, aside).map_err(|error| error.to_string());
        let opened = renamed.and_then(|()| self.read(&path).map_err(|why| why.to_string()));
        let told = |why: &String| {
            self.warn(format_args!(
                "cannot start a new file: {why}; new clients are remembered only until the next \
                 start"
            ));
        };
        opened.inspect_err(told).ok()
    }

    fn read(&self, path: &Path) -> Result<File, Unreadable> {
        let (file, records) = File::open(path)?;
        if file.has_rest() {
            let path = path.display();
            let text = format_args!("the last record of {path} is incomplete and skipped");
            self.console.line(Level::Info, "greylist", text);
        }
        lock(&self.book).read(records, wall_now());
        Ok(file)
    }

    /// Writes changes; the last call also seals and closes the file.
    fn write(&self, is_last: bool) {
        let mut file = lock(&self.file);
        let Some(GreylistWriter { file: records, told_at, unwritten }) = &mut *file else { return };
        let mut written = self.write_changes(|changes| records.write(changes), unwritten);
        if is_last {
            written = written.and_then(|()| records.seal());
        }
        if written.is_ok() && told_at.take().is_some() {
            self.troubles.clear(NAME);
        }
        if let Err(why) = written {
            let now = wall_now().0;
            if told_at.is_none_or(|at| now.saturating_sub(at) >= COMPLAINTS_EVERY_MS) {
                *told_at = Some(now);
                let text = "new clients are forgotten at the next start";
                self.warn(format_args!("cannot write {NAME}: {why}; {text}"));
            }
        }
        if is_last {
            *file = None;
        }
    }

    /// `changes` are those that the last call could not write; newer ones stay in the store until then.
    fn write_changes(
        &self,
        mut write: impl FnMut(&Changes) -> Result<(), String>,
        changes: &mut Changes,
    ) -> Result<(), String> {
        loop {
            while changes.len() < WRITTEN_AT_ONCE {
                let more = lock(&self.book).take_changes(TAKEN_AT_ONCE);
                if more.is_empty() {
                    break;
                }
                changes.extend(more);
            }
            if changes.is_empty() {
                return Ok(());
            }
            write(changes)?;
            changes.clear();
        }
    }

    fn warn(&self, text: std::fmt::Arguments<'_>) {
        self.console.line(Level::Warn, "greylist", text);
        let found = DetectedProblem::warning(NAME, text.to_string());
        self.troubles.set(found.next_step("clients may be greylisted again"), wall_now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::greylist::ClientIdentity;

    pub(super) const RULES: GreylistPolicy = GreylistPolicy {
        delay: Duration::from_secs(60),
        retry_window: Duration::from_secs(600),
        remember: Duration::from_secs(6_000),
        clients_after: 5,
    };

    #[test]
    fn who_comes_while_nothing_can_be_written_is_written_later() {
        let console = Arc::new(ConsoleLog::stderr(Level::Error));
        let greylisting = Greylisting::new(
            Path::new("."),
            Conditions::new("state_file"),
            (&FileWatch::start().unwrap(), &console),
        );
        let come = |sender: &str| {
            let sender = Some((sender, "far.test"));
            let triplet =
                Triplet { client: ClientIdentity::Domain("far.test"), sender, recipient: "b@c" };
            greylisting.judge(&RULES, &triplet, Wall(1_000));
        };
        let (mut unwritten, mut written) = (Changes::new(), Vec::new());
        for sender in ["one", "two"] {
            come(sender);
            let failed = |_: &Changes| Err("no room".to_owned());
            assert!(greylisting.0.write_changes(failed, &mut unwritten).is_err());
        }
        come("three");
        let mut write = |changes: &Changes| {
            written.extend(changes.iter().map(|(key, _)| *key));
            Ok(())
        };
        greylisting.0.write_changes(&mut write, &mut unwritten).unwrap();
        assert_eq!(greylisting.0.write_changes(&mut write, &mut unwritten), Ok(()));
        assert_eq!(written.len(), 3, "each once");
    }
}
