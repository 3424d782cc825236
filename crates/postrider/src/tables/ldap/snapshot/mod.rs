//! Directories that are copied: a lookup asks nobody, and works while the directory is away.
//!
//! A task of its own for each such table reads the directory ([`keeper`]) into a constant database
//! ([`file`]); lookups go to that database ([`view`]).

mod file;
mod follow;
mod item;
mod keeper;
mod overlay;
mod reading;
mod shared;
mod store;
mod talk;
mod view;

use super::settings::{LdapSettings, SnapshotSettings};
use crate::mutex::lock;
use crate::services::ServiceRuntime;
use item::SnapshotQuery;
use keeper::SnapshotRefresher;
use lookup::{Entry, LookupError};
use mail::Wall;
use mta::console::Console;
use shared::SnapshotShared;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use store::SnapshotLocation;
use tokio::sync::oneshot;

#[cfg(test)]
pub(super) use follow::{CHANGES_MAX, OVERLAY_MAX};
pub(crate) use shared::SnapshotMetrics;

/// Where snapshots are, below the spool's directory, unless the settings say otherwise.
const DIRECTORY: &str = "tables";

/// A table whose answers come from a copy of a directory. Clones are the same table; when the last is
/// gone, so is who keeps the copy.
#[derive(Clone)]
pub(crate) struct Snapshot {
    shared: Arc<SnapshotShared>,
    _keeper: Arc<KeeperTask>,
}

/// A running keeper; it ends when this is dropped.
struct KeeperTask {
    stop: Option<oneshot::Sender<()>>,
}

impl Drop for KeeperTask {
    fn drop(&mut self) {
        // The keeper ends by this alone.
        let _ = self.stop.take().map(|stop| stop.send(()));
    }
}

impl Snapshot {
    /// Opens the snapshot that there is, and starts its keeper. `spool` is the spool's directory.
    ///
    /// # Errors
    /// A sentence, when the system gives no thread.
    pub(crate) fn open(
        name: Arc<str>,
        settings: &LdapSettings,
        spool: &Path,
        (runtime, console): (&ServiceRuntime, Arc<dyn Console + Send + Sync>),
    ) -> Result<Snapshot, String> {
        let Some(SnapshotSettings { keyed, refresh, path }) = settings.snapshot.clone() else {
            return Err("the table is asked live".to_owned());
        };
        let place = match path {
            Some(path) => SnapshotLocation { path, spool: None },
            None => {
                let path = spool.join(DIRECTORY).join(file_name(&name));
                SnapshotLocation { path, spool: Some(spool.to_owned()) }
            }
        };
        let question = SnapshotQuery::new(settings.clone(), keyed);
        let shared = Arc::new(SnapshotShared::new(name, question));
        let mut keeper = SnapshotRefresher::new(Arc::clone(&shared), place, refresh, console);
        keeper.open_file();
        let (stop, stopped) = oneshot::channel();
        runtime.start()?.spawn(move || async move {
            tokio::select! {
                () = keeper.run() => {}
                _ = stopped => {}
            }
        });
        Ok(Snapshot { shared, _keeper: Arc::new(KeeperTask { stop: Some(stop) }) })
    }

    /// What the directory said of a key when it was read last. May wait for a disk.
    ///
    /// # Errors
    /// It was never read, or its answer is none.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        self.shared.find(key, true).map(Option::flatten)
    }

    /// The same, if nobody has to be waited for; else `None`.
    pub(crate) fn find_now(&self, key: &str) -> Option<Result<Option<Entry>, LookupError>> {
        self.shared.find(key, false).transpose()
    }

    /// How old it is, and what changed last.
    pub(crate) fn status(&self) -> mta::control::TableSnapshot {
        self.shared.status()
    }

    /// Why it is no newer, for people; `None`: all is well.
    pub(crate) fn trouble(&self) -> Option<String> {
        self.shared.trouble()
    }

    /// The same, and what is wrong with its file, each with when it began.
    pub(crate) fn problem(&self) -> Option<(Wall, String)> {
        let seen = lock(&self.shared.seen);
        let trouble = || seen.trouble.as_ref().map(|(since, why)| (*since, why.to_string()));
        match (&seen.unusable, trouble()) {
            (Some((since, file)), Some((_, why))) => Some((*since, format!("{file}; {why}"))),
            (unusable, trouble) => unusable.clone().or(trouble),
        }
    }

    /// Its numbers, as of now.
    pub(crate) fn metrics(&self) -> &Arc<SnapshotMetrics> {
        self.shared.metrics()
    }
}

/// The file of a table, whatever its name has in it.
fn file_name(table: &str) -> String {
    let mut name = String::with_capacity(table.len() + 9);
    for byte in table.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
            byte => name.push_str(&format!("%{byte:02x}")),
        }
    }
    name + ".snapshot"
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("name", &self.shared.name).finish_non_exhaustive()
    }
}
