//! What who looks up and who keeps a snapshot have in common.

use super::item::SnapshotQuery;
use super::view::View;
use crate::mutex::lock;
use crate::world::clock::wall_now;
use lookup::{Entry, LookupError, LookupErrorKind};
use mail::Wall;
use mta::control::TableSnapshot;
use mta::metrics::{Counter, Gauge};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

mta::metric_set! {
    /// Of one table with a snapshot.
    SnapshotMetrics:

    age: Gauge = "table_snapshot_age_seconds" {} "Age of the snapshot of a table: time since it last matched the directory.";
    entries: Gauge = "table_snapshot_entries" {} "Entries in the snapshot of a table.";
    reads: Counter = "table_snapshot_reads" {} "Complete reads of the directory of a table.";
    failures: Counter = "table_snapshot_failures" {} "Failed or incomplete reads of the directory of a table.";
}

/// What who looks up and who keeps a snapshot have in common.
#[derive(Debug)]
pub(super) struct SnapshotShared {
    pub(super) name: Arc<str>,
    pub(super) question: SnapshotQuery,
    /// `None`: nothing was ever read.
    view: Mutex<Option<Arc<View>>>,
    pub(super) seen: Mutex<SnapshotStatus>,
    /// A lookup has found the file damaged: it is to be made anew.
    is_damaged: AtomicBool,
    metrics: Arc<SnapshotMetrics>,
}

/// How a snapshot is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// All is read again and again.
    #[default]
    Paged,
    /// The server tells of changes.
    Synchronised,
}

/// How keeping it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct SnapshotStatus {
    /// When the directory was last seen to be as we have it.
    pub(super) confirmed: Option<Wall>,
    /// How that is known.
    pub(super) mode: Mode,
    /// The server that said so.
    pub(super) server: Option<String>,
    /// When entries were last seen to have changed, and what had.
    pub(super) changed: Option<(Wall, String)>,
    /// Why it is no newer, and since when.
    pub(super) trouble: Option<(Wall, LookupError)>,
    /// Why the file that was there is of no use, until there is another one.
    pub(super) unusable: Option<(Wall, String)>,
}

impl SnapshotShared {
    pub(super) fn new(name: Arc<str>, question: SnapshotQuery) -> SnapshotShared {
        let (view, seen, is_damaged) = Default::default();
        SnapshotShared { name, question, view, seen, is_damaged, metrics: Arc::default() }
    }

    /// What the directory says of a key; `None`: the disk would have to be waited for.
    ///
    /// # Errors
    /// Nothing was ever read, or as [`View::find`].
    pub(super) fn find(
        &self,
        key: &str,
        waits: bool,
    ) -> Result<Option<Option<Entry>>, LookupError> {
        match self.view() {
            Some(view) => view.find(&self.question, key, waits).inspect_err(|trouble| {
                if trouble.kind == LookupErrorKind::Wrong {
                    self.is_damaged.store(true, Ordering::Relaxed);
                }
            }),
            None => {
                let text = "the directory has not been read completely yet";
                Err(LookupError::new(LookupErrorKind::Unreachable, text))
            }
        }
    }

    pub(super) fn view(&self) -> Option<Arc<View>> {
        lock(&self.view).clone()
    }

    /// From now on this counts.
    pub(super) fn publish(&self, view: View) {
        let mut seen = lock(&self.seen);
        seen.confirmed = Some(view.stored.confirmed);
        seen.changed.clone_from(&view.stored.about.changed);
        seen.unusable = None;
        drop(seen);
        *lock(&self.view) = Some(Arc::new(view));
        self.is_damaged.store(false, Ordering::Relaxed);
    }

    /// Whether a lookup has found the file damaged.
    pub(super) fn is_damaged(&self) -> bool {
        self.is_damaged.load(Ordering::Relaxed)
    }

    /// Something has changed just now.
    pub(super) fn note_change(&self, what: String) {
        lock(&self.seen).changed = Some((wall_now(), what));
    }

    /// When entries were last seen to have changed, and what had.
    pub(super) fn changed(&self) -> Option<(Wall, String)> {
        lock(&self.seen).changed.clone()
    }

    /// Entries that there are now.
    pub(super) fn entries(&self) -> u64 {
        self.view().map_or(0, |view| view.entries())
    }

    /// How it is kept, for people.
    pub(super) fn mode(&self) -> &'static str {
        match lock(&self.seen).mode {
            Mode::Paged => "paged",
            Mode::Synchronised => "synchronised",
        }
    }

    /// How old it is; `None`: there is none.
    pub(super) fn age_s(&self) -> Option<u64> {
        let confirmed = lock(&self.seen).confirmed?;
        Some(wall_now().since(confirmed).as_secs())
    }

    /// Its numbers, as of now.
    pub(super) fn metrics(&self) -> &Arc<SnapshotMetrics> {
        self.metrics.entries.set_u64(self.entries());
        self.metrics.age.set_u64(self.age_s().unwrap_or(0));
        &self.metrics
    }
}

impl SnapshotShared {
    /// How old it is, and what changed last.
    pub(super) fn status(&self) -> TableSnapshot {
        let entries = self.entries();
        let age_s = self.age_s();
        let mode = self.mode();
        let seen = lock(&self.seen);
        let changed = seen.changed.as_ref().map(|(at, what)| format!("{at}: {what}"));
        TableSnapshot {
            mode: mode.to_owned(),
            server: seen.server.clone(),
            entries,
            age_s,
            changed,
        }
    }

    /// Why it is no newer.
    pub(super) fn trouble(&self) -> Option<String> {
        let seen = lock(&self.seen);
        seen.trouble.as_ref().map(|(since, trouble)| format!("since {since}: {trouble}"))
    }
}
