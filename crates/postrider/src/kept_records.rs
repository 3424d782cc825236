//! State of many small records in the first spool directory. It is in memory for all shards, and written to a record
//! file every few seconds, on a thread of the file watch. A damaged file is moved aside.

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::record_file::{RecordFile, Unreadable};
use crate::world::clock::wall_now;
use mail::Wall;
use mta::console::{Console as _, Level};
use mta::problems::{Conditions, DetectedProblem};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Interval of writes; a crash loses no more than this.
const WRITTEN_EVERY: Duration = Duration::from_secs(5);

/// Maximum number of records taken under the lock, for which shards wait.
const TAKEN_AT_ONCE: usize = 1_000;

/// Records in one batch of the file.
const WRITTEN_AT_ONCE: usize = 50_000;

/// Interval of reports about failed writes.
const COMPLAINTS_EVERY_MS: u64 = 600_000;

/// Changed records; `None` removes one.
pub(crate) type RecordChanges<K, R> = Vec<(K, Option<R>)>;

/// The state in memory, and its texts for people.
pub(crate) trait RecordState: Send + Sync + 'static {
    /// The file.
    const FILE: &'static str;
    /// Topic of its console lines.
    const TOPIC: &'static str;
    /// Consequence of a damaged file: "all clients are new".
    const RESET: &'static str;
    /// Consequence of a file that can't be opened or written: "new clients are forgotten at the next start".
    const FORGOTTEN: &'static str;
    /// Advice for operators in these cases.
    const NEXT_STEP: &'static str;
    type Key: AsRef<[u8]> + Send;
    type Record: AsRef<[u8]> + Send;

    /// Loads stored records. Changes are taken from then on.
    fn load(&self, records: Vec<(Vec<u8>, Vec<u8>)>, now: Wall);

    /// Some changes since the last call, at most `count`.
    fn take_changes(&self, count: usize) -> RecordChanges<Self::Key, Self::Record>;
}

/// The state with its file.
pub(crate) struct KeptRecords<S: RecordState> {
    pub(crate) state: S,
    directory: PathBuf,
    storage: Mutex<Storage>,
    /// The file with pending changes; locked during disk access.
    writer: Mutex<Option<Writer<S>>>,
    watch: Arc<FileWatch>,
    /// Problems of the file.
    troubles: Conditions,
    console: Arc<ConsoleLog>,
}

/// The state of the file.
#[derive(PartialEq, Eq)]
enum Storage {
    /// The state is not in use yet.
    NotYet,
    File,
    /// There is none to be written: all is in memory alone.
    Nothing,
}

/// The file, while it is written.
struct Writer<S: RecordState> {
    file: RecordFile,
    /// Time of the last failure report.
    told_at: Option<u64>,
    /// Changes that could not be written.
    unwritten: RecordChanges<S::Key, S::Record>,
}

impl<S: RecordState> KeptRecords<S> {
    /// Stores its file in this directory, once it is [opened](KeptRecords::open).
    pub(crate) fn new(
        state: S,
        directory: &Path,
        troubles: Conditions,
        (watch, console): (&Arc<FileWatch>, &Arc<ConsoleLog>),
    ) -> Arc<KeptRecords<S>> {
        Arc::new(KeptRecords {
            state,
            directory: directory.to_owned(),
            storage: Mutex::new(Storage::NotYet),
            writer: Mutex::default(),
            watch: Arc::clone(watch),
            troubles,
            console: Arc::clone(console),
        })
    }

    /// Reads the file at the first call, and writes it from then on.
    pub(crate) fn open(self: &Arc<Self>) {
        let mut storage = lock(&self.storage);
        if *storage != Storage::NotYet {
            return;
        }
        *storage = match self.opened() {
            Some(file) => {
                let writer = Writer { file, told_at: None, unwritten: Vec::new() };
                *lock(&self.writer) = Some(writer);
                self.watch.follow_every(WRITTEN_EVERY, self, |this| this.write(false));
                Storage::File
            }
            None => Storage::Nothing,
        };
    }

    /// Writes the last changes, and closes the file.
    pub(crate) fn close(&self) {
        *lock(&self.storage) = Storage::Nothing;
        self.write(true);
    }

    /// Opens the file and reads it; a damaged one is moved aside.
    fn opened(&self) -> Option<RecordFile> {
        let path = self.directory.join(S::FILE);
        let why = match self.read(&path) {
            Ok(file) => return Some(file),
            Err(Unreadable::NotNow(why)) => {
                let path = path.display();
                self.warn(format_args!("cannot open {path}: {why}; {}", S::FORGOTTEN));
                return None;
            }
            Err(Unreadable::Damaged(why)) => why,
        };
        let aside = self.directory.join(format!("{}.damaged", S::FILE));
        self.warn(format_args!(
            "{} is damaged: {why}; moved to {}, and {}",
            path.display(),
            aside.display(),
            S::RESET
        ));
        let renamed = std::fs::rename(&path, aside).map_err(|error| error.to_string());
        let opened = renamed.and_then(|()| self.read(&path).map_err(|why| why.to_string()));
        let told = |why: &String| {
            self.warn(format_args!("cannot start a new file: {why}; {}", S::FORGOTTEN));
        };
        opened.inspect_err(told).ok()
    }

    fn read(&self, path: &Path) -> Result<RecordFile, Unreadable> {
        let mut records = Vec::new();
        let file = RecordFile::open(path, |key, record| {
            records.push((key.to_vec(), record.to_vec()));
        })?;
        if file.has_rest() {
            let path = path.display();
            let text = format_args!("the last record of {path} is incomplete and skipped");
            self.console.line(Level::Info, S::TOPIC, text);
        }
        self.state.load(records, wall_now());
        Ok(file)
    }

    /// Writes changes; the last call also seals and closes the file.
    fn write(&self, is_last: bool) {
        let mut writer = lock(&self.writer);
        let Some(Writer { file, told_at, unwritten }) = &mut *writer else { return };
        let write = |changes: &RecordChanges<S::Key, S::Record>| {
            file.write(changes.iter().map(|(key, record)| (key, record.as_ref())))
        };
        let mut written = self.write_changes(write, unwritten);
        if is_last {
            written = written.and_then(|()| file.seal());
        }
        if written.is_ok() && told_at.take().is_some() {
            self.troubles.clear(S::FILE);
        }
        if let Err(why) = written {
            let now = wall_now().0;
            if told_at.is_none_or(|at| now.saturating_sub(at) >= COMPLAINTS_EVERY_MS) {
                *told_at = Some(now);
                self.warn(format_args!("cannot write {}: {why}; {}", S::FILE, S::FORGOTTEN));
            }
        }
        if is_last {
            *writer = None;
        }
    }

    /// `changes` are those that the last call could not write; newer ones stay in the state until then.
    fn write_changes(
        &self,
        mut write: impl FnMut(&RecordChanges<S::Key, S::Record>) -> Result<(), String>,
        changes: &mut RecordChanges<S::Key, S::Record>,
    ) -> Result<(), String> {
        loop {
            while changes.len() < WRITTEN_AT_ONCE {
                let more = self.state.take_changes(TAKEN_AT_ONCE);
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
        self.console.line(Level::Warn, S::TOPIC, text);
        let found = DetectedProblem::warning(S::FILE, text.to_string());
        self.troubles.set(found.next_step(S::NEXT_STEP), wall_now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers to be stored.
    #[derive(Default)]
    struct Numbers {
        changed: Mutex<Vec<u8>>,
        loaded: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    }

    impl RecordState for Numbers {
        const FILE: &'static str = "numbers.records";
        const TOPIC: &'static str = "numbers";
        const RESET: &'static str = "all numbers are new";
        const FORGOTTEN: &'static str = "new numbers are forgotten at the next start";
        const NEXT_STEP: &'static str = "wait";
        type Key = [u8; 1];
        type Record = [u8; 1];

        fn load(&self, records: Vec<(Vec<u8>, Vec<u8>)>, _: Wall) {
            *lock(&self.loaded) = records;
        }

        fn take_changes(&self, count: usize) -> RecordChanges<[u8; 1], [u8; 1]> {
            let mut changed = lock(&self.changed);
            let count = count.min(changed.len());
            changed.drain(..count).map(|number| ([number], Some([number]))).collect()
        }
    }

    fn kept(directory: &Path) -> Arc<KeptRecords<Numbers>> {
        let console = Arc::new(ConsoleLog::stderr(Level::Error));
        let (watch, troubles) = (FileWatch::start().unwrap(), Conditions::new("state_file"));
        KeptRecords::new(Numbers::default(), directory, troubles, (&watch, &console))
    }

    #[test]
    fn unwritten_changes_are_written_later_and_once() {
        let kept = kept(Path::new("."));
        let (mut unwritten, mut written) = (Vec::new(), Vec::new());
        for number in [1, 2] {
            lock(&kept.state.changed).push(number);
            let failed = |_: &RecordChanges<_, _>| Err("no room".to_owned());
            assert!(kept.write_changes(failed, &mut unwritten).is_err());
        }
        lock(&kept.state.changed).push(3);
        let mut write = |changes: &RecordChanges<[u8; 1], [u8; 1]>| {
            written.extend(changes.iter().map(|([key], _)| *key));
            Ok(())
        };
        kept.write_changes(&mut write, &mut unwritten).unwrap();
        assert_eq!(kept.write_changes(&mut write, &mut unwritten), Ok(()));
        assert_eq!(written, [1, 2, 3]);
    }

    #[test]
    fn closed_state_is_loaded_again() {
        let directory = tempfile::tempdir().unwrap();
        let first = kept(directory.path());
        first.open();
        lock(&first.state.changed).extend([4, 5]);
        first.close();
        let second = kept(directory.path());
        second.open();
        let loaded = [(vec![4], vec![4]), (vec![5], vec![5])];
        assert_eq!(*lock(&second.state.loaded), loaded);
    }
}
