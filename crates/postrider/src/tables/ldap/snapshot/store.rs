//! The files of a snapshot. Each function may wait for a disk or take long. The keeper shares its thread with other services
//! and calls them on another thread.

use super::file::{Builder, SnapshotFile, SnapshotHeader};
use super::item::{Id, Item};
use super::shared::SnapshotShared;
use super::view::View;
use crate::limited_work::{finished, on_a_thread};
use crate::mutex::lock;
use crate::world::clock::wall_now;
use lookup::{LookupError, LookupErrorKind};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::mem;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

/// More entries than this are no result.
const ENTRIES_MAX: u64 = 50_000_000;

/// Entries and bytes per batch for another thread.
const BATCH_ENTRIES: usize = 1_000;
const BATCH_BYTES: usize = 1 << 20;

/// The place of the file.
#[derive(Clone, Debug)]
pub(super) struct SnapshotLocation {
    pub(super) path: PathBuf,
    /// The spool's directory, if it lies below that: nothing may be there before the spool is.
    pub(super) spool: Option<PathBuf>,
}

/// The outcome of a reading.
#[derive(Debug)]
pub(super) enum RefreshOutcome {
    Taken,
    Unchanged,
    Doubted(LookupError),
}

/// The files of one snapshot.
#[derive(Debug)]
pub(super) struct SnapshotStore {
    pub(super) shared: Arc<SnapshotShared>,
    pub(super) place: SnapshotLocation,
    /// The last reading lost too much to be believed.
    doubts: AtomicBool,
}

impl SnapshotStore {
    pub(super) fn new(shared: Arc<SnapshotShared>, place: SnapshotLocation) -> SnapshotStore {
        SnapshotStore { shared, place, doubts: AtomicBool::new(false) }
    }

    /// Begins a file. With `has_ids` entries get records of their names.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn create(&self, has_ids: bool) -> Result<Builder, String> {
        self.make_directory()?;
        let builder = Builder::create(&self.place.path, ENTRIES_MAX)?;
        Ok(if has_ids { builder.with_ids() } else { builder })
    }

    /// Makes the directory below the spool's that the files of snapshots are in.
    fn make_directory(&self) -> Result<(), String> {
        let (Some(_), Some(parent)) = (&self.place.spool, self.place.path.parent()) else {
            return Ok(());
        };
        match fs::DirBuilder::new().mode(0o700).create(parent) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                Err(format!("cannot create {}: {error}", parent.display()))
            }
            _ => Ok(()),
        }
    }

    /// Replaces the snapshot with the entries of a reading. `cookie`: the server, and its cookie.
    ///
    /// # Errors
    /// It is no result, or can't be written.
    pub(super) fn adopt(
        &self,
        builder: Builder,
        cookie: Option<(String, Vec<u8>)>,
    ) -> Result<RefreshOutcome, LookupError> {
        if builder.entries == 0 && builder.bare > 0 {
            let text = format!(
                "{} entries found, none with a readable key: check the access rights",
                builder.bare
            );
            return Err(LookupError::new(LookupErrorKind::Wrong, text));
        }
        let known = self.shared.view();
        let (before, after) = (known.as_ref().map(|view| view.entries()), builder.entries);
        if let Some(doubted) = self.doubt(before.unwrap_or(0), after) {
            return Ok(doubted);
        }
        let about = known.as_ref().map(|view| &view.stored.about);
        if cookie.is_none()
            && !self.shared.is_damaged()
            && known.as_ref().is_some_and(|known| known.changes() == 0)
            && about.is_some_and(|about| (about.digest, about.entries) == (builder.digest, after))
        {
            self.confirm();
            return Ok(RefreshOutcome::Unchanged);
        }
        let changed = before.map(|before| (wall_now(), changed(before, after)));
        let fingerprint = self.shared.question.fingerprint();
        let about = SnapshotHeader { fingerprint, changed, cookie, ..SnapshotHeader::default() };
        self.put_in_place(builder, &about).map_err(of_file)?;
        Ok(RefreshOutcome::Taken)
    }

    /// Completes a file, and has it count.
    fn put_in_place(&self, builder: Builder, about: &SnapshotHeader) -> Result<(), String> {
        builder.place(about)?;
        self.shared.publish(View::new(SnapshotFile::open(&self.place.path)?));
        Ok(())
    }

    /// Returns a doubt if the entries are too few for the first time.
    fn doubt(&self, before: u64, after: u64) -> Option<RefreshOutcome> {
        let loses = after < before.div_ceil(2);
        if !loses || self.doubts.swap(true, Ordering::Relaxed) {
            self.doubts.store(false, Ordering::Relaxed);
            return None;
        }
        let text = format!("{after} entries instead of {before}: ignored until confirmed");
        Some(RefreshOutcome::Doubted(LookupError::new(LookupErrorKind::Wrong, text)))
    }

    /// The directory is unchanged.
    pub(super) fn confirm(&self) {
        // After a restart it is as old as the file, unless there is more than that has.
        let is_whole = self.shared.view().is_some_and(|view| view.changes() == 0);
        let _ = is_whole.then(|| {
            File::open(&self.place.path).and_then(|file| file.set_modified(SystemTime::now()))
        });
        lock(&self.shared.seen).confirmed = Some(wall_now());
    }

    /// Applies the changes of an interruption, unless they lose too much.
    pub(super) fn take_changes(
        &self,
        view: &View,
        items: BTreeMap<Id, Option<Item>>,
        cookie: Option<Vec<u8>>,
    ) -> RefreshOutcome {
        let before = view.entries();
        let gone = items.iter().filter(|(id, item)| item.is_none() && view.has(id)).count() as u64;
        let come = items.iter().filter(|(id, item)| item.is_some() && !view.has(id)).count() as u64;
        let after = before.saturating_sub(gone).saturating_add(come);
        if let Some(doubted) = self.doubt(before, after) {
            return doubted;
        }
        let count = items.len();
        for (id, item) in items {
            view.put(id, item);
        }
        view.set_cookie(cookie);
        if count > 0 {
            self.shared.note_change(format!("{count} entries, now {after}"));
        }
        self.confirm();
        if count > 0 { RefreshOutcome::Taken } else { RefreshOutcome::Unchanged }
    }

    /// Takes changes as they happen; `dn` names the entry.
    pub(super) fn take_news(&self, view: &View, dn: &str, changes: Vec<(Id, Option<Item>)>) {
        for (id, item) in changes {
            let what = match (&item, view.has(&id)) {
                (Some(_), true) => "changed",
                (Some(_), false) => "came",
                (None, _) => "went",
            };
            // Before the entry is in the view: a lookup that finds the entry finds the note, too.
            self.shared.note_change(format!("{dn} {what}"));
            view.put(id, item);
        }
    }

    /// Writes a file with the changes since the last one. `None`: the last one is damaged.
    ///
    /// # Errors
    /// It can't be written.
    pub(super) fn fold(&self, view: &View) -> Result<Option<()>, LookupError> {
        let mut builder =
            Builder::create(&self.place.path, ENTRIES_MAX).map_err(of_file)?.with_ids();
        let mut unwritten = None;
        let read = view.each(&mut |item| {
            builder.push(item).map_err(|why| {
                let trouble = of_file(why);
                unwritten = Some(trouble.clone());
                trouble
            })
        });
        match (read, unwritten) {
            (_, Some(trouble)) => Err(trouble),
            (Err(_), None) => Ok(None),
            (Ok(()), None) => {
                let about = view.about(self.shared.changed());
                self.put_in_place(builder, &about).map(Some).map_err(of_file)
            }
        }
    }
}

/// The difference, for people.
fn changed(before: u64, after: u64) -> String {
    if before == after {
        "entries changed".to_owned()
    } else {
        format!("{after} entries instead of {before}")
    }
}

/// Trouble that is no server's.
pub(super) fn of_file(why: String) -> LookupError {
    LookupError::new(LookupErrorKind::Wrong, why)
}

/// A file that is being written on other threads, some entries at once.
pub(super) struct BatchWriter {
    /// `None` while another thread has it.
    builder: Option<Builder>,
    items: Vec<Item>,
    bytes: usize,
}

impl BatchWriter {
    pub(super) fn new(builder: Builder) -> BatchWriter {
        BatchWriter { builder: Some(builder), items: Vec::new(), bytes: 0 }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// As [`Builder::push`], for this entry or one before.
    pub(super) async fn push(&mut self, item: Item) -> Result<(), LookupError> {
        self.bytes += item.bytes();
        self.items.push(item);
        if self.items.len() < BATCH_ENTRIES && self.bytes < BATCH_BYTES {
            return Ok(());
        }
        self.builder = Some(self.written().await?);
        Ok(())
    }

    /// The file with all entries, if `read` gave them. Else it is gone when this returns: another one may be begun.
    ///
    /// # Errors
    /// That of `read`, or as [`Builder::push`].
    pub(super) async fn finish<T, E: From<LookupError>>(
        mut self,
        read: Result<T, E>,
    ) -> Result<(Builder, T), E> {
        match read {
            Ok(read) => Ok((self.written().await?, read)),
            Err(why) => {
                let builder = self.builder.take();
                finished(move || drop(builder)).await;
                Err(why)
            }
        }
    }

    async fn written(&mut self) -> Result<Builder, LookupError> {
        let (builder, items) = (self.builder.take(), mem::take(&mut self.items));
        self.bytes = 0;
        let write = move || {
            let mut builder = builder.ok_or_else(|| "the file was discarded".to_owned())?;
            items.iter().try_for_each(|item| builder.push(item))?;
            Ok(builder)
        };
        finished(write).await.map_err(of_file)
    }
}

impl Drop for BatchWriter {
    /// A file that is not finished is removed, for which a disk may have to be waited for.
    fn drop(&mut self) {
        if let Some(builder) = self.builder.take() {
            let _ = on_a_thread(move || drop(builder));
        }
    }
}
