//! Rebuilds tables after changes of their files.

use super::files::{DOUBT, is_doubtful, open, warn};
use super::registry::{LiveTable, Registry};
use crate::file_stamp::{FileIdentity, Stamp};
use crate::file_watch::FileWatch;
use crate::mutex::lock;
use crate::world::clock::wall_now;
use lookup::Table;
use mta::console::Console;
use mta::problems::DetectedProblem;
use std::sync::Arc;
use std::time::Instant;

impl Registry {
    /// Watches the files of the tables in force, and reads those that change.
    pub(crate) fn watch(self: &Arc<Registry>, watch: &Arc<FileWatch>) {
        let of_look = Arc::clone(watch);
        watch.follow(self, move |registry| look_at_new(registry, &of_look));
    }
}

/// Starts to watch table files that are not watched yet, each independently, since one may hang.
fn look_at_new(registry: &Arc<Registry>, files: &FileWatch) {
    let mut watched = lock(&registry.watched);
    for (name, table) in registry.live().iter() {
        let Some(stamp) = table.stamp() else { continue };
        if watched.insert(Arc::clone(name)) {
            let (registry, name) = (Arc::downgrade(registry), Arc::clone(name));
            // The observed state of a file that differs from the table's source.
            let mut change = None;
            files.add(Some(stamp.device()), move || {
                let registry = registry.upgrade();
                registry.is_some_and(|registry| look_on(&registry, &name, &mut change))
            });
        }
    }
}

/// Looks at the file of one table; whether it has one.
fn look_on(registry: &Registry, name: &Arc<str>, change: &mut Option<FileChange>) -> bool {
    let live = registry.live();
    let table = live.get(name);
    let Some((table, stamp)) = table.and_then(|table| Some((table, table.stamp()?))) else {
        lock(&registry.watched).remove(name);
        return false;
    };
    let _work = registry.under_way.begin(format!("table {name}: {}", stamp.path().display()));
    look(registry, name, table, stamp, change);
    true
}

/// A file that differs from its table.
struct FileChange {
    seen: Option<FileIdentity>,
    since: Instant,
    /// It is invalid or suspicious, and that was logged.
    is_told: bool,
    /// It is read again after it was unchanged for [`DOUBT`].
    is_doubtful: bool,
}

fn look(
    registry: &Registry,
    name: &str,
    table: &LiveTable,
    stamp: &Stamp,
    change: &mut Option<FileChange>,
) {
    let seen = FileIdentity::at(stamp.path());
    if stamp.is(seen) {
        if change.take().is_some_and(|change| change.is_told) {
            registry.troubles.clear(name);
        }
        return;
    }
    match change {
        Some(change) if change.seen == seen => {
            let is_settled = change.since.elapsed() >= DOUBT;
            if change.is_told && !(change.is_doubtful && is_settled) {
                return;
            }
            let before = table.local().filter(|_| !is_settled);
            match remake(registry, name, table, stamp, before) {
                RebuildOutcome::Taken => {}
                RebuildOutcome::Wrong => (change.is_told, change.is_doubtful) = (true, false),
                RebuildOutcome::Doubtful => (change.is_told, change.is_doubtful) = (true, true),
            }
        }
        _ => {
            let since = Instant::now();
            *change = Some(FileChange { seen, since, is_told: false, is_doubtful: false });
        }
    }
}

/// The result of rebuilding a table.
enum RebuildOutcome {
    Taken,
    Wrong,
    Doubtful,
}

/// Rebuilds a table, unless it has lost most of its keys.
fn remake(
    registry: &Registry,
    name: &str,
    live: &LiveTable,
    before: &Stamp,
    former: Option<&Arc<dyn Table>>,
) -> RebuildOutcome {
    let console: &dyn Console = registry.console();
    match open(&live.entry, &live.checks) {
        Ok(opened) => {
            warn(console, name, &opened);
            let (table, Some(stamp)) = opened else { return RebuildOutcome::Taken };
            let (path, keys_count) = (before.path().display(), table.keys_count());
            if let Some(former) = former.filter(|former| is_doubtful(&***former, &*table)) {
                registry.tell_doubt((name, before), &**former, &*table);
                return RebuildOutcome::Doubtful;
            }
            // Replace before logging, so that the log is true.
            registry.replace(name, before, table, stamp);
            registry.troubles.clear(name);
            match keys_count {
                Some(count) => console
                    .info("tables", format_args!("table {name}: {path} reloaded keys={count}")),
                None => console.info("tables", format_args!("table {name}: {path} reloaded")),
            }
            RebuildOutcome::Taken
        }
        Err(why) => {
            let of_table = |mistake| format!("table {name} unchanged: {mistake}");
            let texts: Vec<String> = why.into_iter().map(of_table).collect();
            texts.iter().for_each(|text| console.error("tables", format_args!("{text}")));
            let found =
                DetectedProblem::warning(name, texts.into_iter().next().unwrap_or_default());
            let step = "correct the file: it is reloaded when it changes";
            registry.troubles.set(found.next_step(step), wall_now());
            RebuildOutcome::Wrong
        }
    }
}
