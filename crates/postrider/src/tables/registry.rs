//! The live tables of the configuration in force, by name.

use super::call_ahead::AskedHop;
use super::circles::{self, OpenTable};
use super::entry_checks::EntryChecks;
use super::files;
use super::kinds;
use super::ldap::Snapshot;
use super::lists::{self, ListFileReader};
use super::numbers::TableSets;
use super::reads::Reads;
use super::remote::{Remote, Seed, TableThread};
use crate::console::ConsoleLog;
use crate::file_stamp::Stamp;
use crate::logins::servers::LoginServers;
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, Service, ServiceRuntime};
use crate::under_way::WorkRegistry;
use crate::world::clock::{Start, wall_now};
use config::{Config, Problem, TableCache, TableEntry};
use lookup::{Backend, LookupError, LookupErrorKind, Requester, Table};
use mta::answer::Answer;
use mta::console::Console;
use mta::pressure::{FnGauge, Gauge, Level};
use mta::problems::{ClockReading, Conditions};
use mta::seams::{EntryLookup, Tables};
use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Tables by name.
pub(super) type Live = BTreeMap<Arc<str>, LiveTable>;

/// A table of this process.
fn open_in<'a>(live: &'a Live, name: &str) -> Option<OpenTable<'a>> {
    let table = live.get(name)?;
    Some(OpenTable { table: &**table.local()?, path: table.path() })
}

/// One table.
#[derive(Clone)]
pub(super) struct LiveTable {
    pub(super) entry: Arc<TableEntry>,
    /// The next hop that it queries, if any.
    asked: Option<AskedHop>,
    /// Checks of its entries.
    pub(super) checks: EntryChecks,
    pub(super) source: TableSource,
}

/// The source of answers.
#[derive(Clone)]
pub(super) enum TableSource {
    /// This process.
    Local {
        table: Arc<dyn Table>,
        /// The file that it was made of, and which it was.
        stamp: Option<Stamp>,
        reads: Reads,
    },
    /// A server.
    Remote(Remote),
    /// A copy of a directory.
    Snapshot(Snapshot, Reads),
    /// Other tables.
    Composed,
}

/// All tables of the process. A change replaces the list, so readers never wait.
pub(crate) struct Registry {
    live: Mutex<Arc<Live>>,
    /// Counts the lists.
    generation: AtomicU64,
    /// Started with the first table that needs it.
    thread: Mutex<Option<TableThread>>,
    /// Files that aliases name. Opened with the first route that allows some.
    lists: Mutex<Option<Remote>>,
    /// For those that keep copies of directories.
    runtime: ServiceRuntime,
    /// Servers that know users, which live on the tables' thread.
    pub(crate) logins: LoginServers,
    console: Arc<dyn Console + Send + Sync>,
    started: Start,
    /// Tables with watched files.
    pub(super) watched: Mutex<BTreeSet<Arc<str>>>,
    /// Running checks of files.
    pub(crate) under_way: WorkRegistry,
    /// Errors of table files, by file name.
    pub(super) troubles: Conditions,
    /// Errors of list files named by aliases.
    pub(crate) list_troubles: Conditions,
}

impl Registry {
    /// None, before a configuration is adopted; `started` is when the process was.
    pub(crate) fn new(
        started: Start,
        runtime: &ServiceRuntime,
        console: &Arc<ConsoleLog>,
    ) -> Arc<Registry> {
        Arc::new(Registry {
            live: Mutex::default(),
            generation: AtomicU64::new(0),
            thread: Mutex::default(),
            lists: Mutex::default(),
            runtime: runtime.clone(),
            logins: LoginServers::default(),
            console: Arc::clone(console) as Arc<dyn Console + Send + Sync>,
            started,
            under_way: WorkRegistry::default(),
            troubles: Conditions::new("table"),
            list_troubles: Conditions::new("list"),
            watched: Mutex::default(),
        })
    }

    /// Reads the files of changed tables; tables with equal settings stay as they are. `progress` is called with each
    /// table.
    ///
    /// # Errors
    /// Returns a sentence for each error, with its place.
    fn prepare_all(&self, next: &CandidateConfig<'_>) -> Result<Live, Vec<Problem>> {
        let CandidateConfig { config, progress, is_check, .. } = *next;
        let before = self.live();
        let (mut live, mut mistakes) = (Live::new(), Vec::new());
        // Lists change without a change of a table.
        let mut may_have_circles = config.routes.iter().any(|route| !route.include.is_empty());
        for entry in &config.tables {
            progress(&format!("table {}", entry.name));
            let asked = AskedHop::of(config, entry);
            let is_same = |known: &&LiveTable| known.is_like(entry, asked.as_ref());
            let known = before.get(&entry.name).filter(is_same);
            let checks = EntryChecks::of(config, entry);
            let source = match known {
                Some(known) if !known.is_changed() && known.checks == checks => {
                    Ok(known.source.clone())
                }
                _ if is_check && !files::is_local(entry) => Ok(TableSource::Composed),
                _ => {
                    may_have_circles = true;
                    self.open_one(config, entry, (asked.as_ref(), &checks))
                }
            };
            match source {
                Ok(source) => {
                    let source = self.undoubted(&entry.name, known, source);
                    let entry = Arc::clone(entry);
                    live.insert(
                        Arc::clone(&entry.name),
                        LiveTable { entry, asked, checks, source },
                    );
                }
                Err(found) => mistakes.extend(found.into_iter().map(|mistake| {
                    let text = format!("table \"{}\": {mistake}", entry.name);
                    config.mistake_in("table", entry.line, entry.kind, text)
                })),
            }
        }
        if !is_check
            && let Some(route) = config.routes.iter().find(|route| !route.include.is_empty())
            && let Err(mistake) = self.open_lists()
        {
            mistakes.push(config.mistake_in("route", route.line, "include", mistake));
        }
        if !mistakes.is_empty() {
            return Err(mistakes);
        }
        // `check` prints them with its other warnings.
        if may_have_circles && !is_check {
            self.log_circles(config, &live);
        }
        Ok(live)
    }

    fn log_circles(&self, config: &Config, live: &Live) {
        let console: &dyn Console = &*self.console;
        for warning in circles::warnings(config, &|name| open_in(live, name)) {
            console.warn("tables", format_args!("{warning}"));
        }
    }

    /// Keeps the old table if its file has lost most of its keys, even at a reload; the file is checked again later.
    fn undoubted(&self, name: &str, known: Option<&LiveTable>, source: TableSource) -> TableSource {
        let Some(known) = known else { return source };
        if let (Some(former), Some(stamp)) = (known.local(), known.stamp())
            && let TableSource::Local { table, .. } = &source
            && files::is_doubtful(&**former, &**table)
        {
            self.tell_doubt((name, stamp), &**former, &**table);
            return known.source.clone();
        }
        source
    }

    /// Logs the reason why a file is not adopted yet.
    pub(super) fn tell_doubt(
        &self,
        (name, stamp): (&str, &Stamp),
        former: &dyn Table,
        table: &dyn Table,
    ) {
        let keys = |table: &dyn Table| table.keys_count().unwrap_or(0);
        let (path, seconds) = (stamp.path().display(), files::DOUBT.as_secs());
        let text = format!(
            "table {name} unchanged: {path} has lost most of its keys; applied in {seconds} s if \
             it stays so keys={} before={}",
            keys(table),
            keys(former)
        );
        let console: &dyn Console = self.console();
        console.error("tables", format_args!("{text}"));
        let step = "restore the file, unless this is intended";
        let found = mta::problems::DetectedProblem::warning(name, text);
        self.troubles.set(found.next_step(step), wall_now());
    }

    /// Answers from them from now on.
    fn adopt(&self, prepared: Live) {
        // Files that no alias names any more are not read again.
        self.list_troubles.clear_all();
        self.publish(prepared);
    }

    fn open_lists(&self) -> Result<(), String> {
        let mut lists = lock(&self.lists);
        if lists.is_none() {
            let (under_way, troubles) = (self.under_way.clone(), self.list_troubles.clone());
            let build = move || ListFileReader::backend(under_way, troubles);
            *lists = Some(self.open_remote("lists".into(), &lists::cache(), build)?);
        }
        Ok(())
    }

    /// Opens a table with a driver on the thread of all remote tables.
    fn open_remote(
        &self,
        name: Arc<str>,
        cache: &TableCache,
        build: impl FnOnce() -> Box<dyn Backend> + Send + 'static,
    ) -> Result<Remote, String> {
        self.with_thread(|thread| thread.open(name, cache, build))
    }

    /// Starts a task on the thread of remote tables.
    ///
    /// # Errors
    /// Returns an error if the system cannot create the thread.
    pub(crate) fn run(&self, seed: Seed) -> Result<(), String> {
        self.with_thread(|thread| thread.run(seed))
    }

    fn with_thread<T>(&self, use_it: impl FnOnce(&TableThread) -> T) -> Result<T, String> {
        let mut thread = lock(&self.thread);
        let thread = match &mut *thread {
            Some(thread) => thread,
            none => {
                let console = Arc::clone(&self.console);
                let started = TableThread::start(self.started, console);
                none.insert(started.map_err(|error| format!("cannot start a thread: {error}"))?)
            }
        };
        Ok(use_it(thread))
    }

    fn open_one(
        &self,
        config: &Config,
        entry: &TableEntry,
        (asked, checks): (Option<&AskedHop>, &EntryChecks),
    ) -> Result<TableSource, Vec<String>> {
        if entry.settings.composition().is_some() {
            return Ok(TableSource::Composed);
        }
        if let Some(settings) = kinds::copied(&entry.settings) {
            let (name, console) = (Arc::clone(&entry.name), Arc::clone(&self.console));
            let spool = config.spool.paths.first().map_or(Path::new("."), |path| path);
            let snapshot = Snapshot::open(name, settings, spool, (&self.runtime, console));
            let reads = Reads::new(&entry.name, &self.console);
            return snapshot.map(|it| TableSource::Snapshot(it, reads)).map_err(|why| vec![why]);
        }
        if let Some(build) = kinds::backend(&entry.settings, asked) {
            let opened = self.open_remote(Arc::clone(&entry.name), &entry.cache, build);
            return opened.map(TableSource::Remote).map_err(|mistake| vec![mistake]);
        }
        let opened = files::open(entry, checks)?;
        files::warn(&*self.console, &entry.name, &opened);
        let (table, stamp) = opened;
        Ok(TableSource::Local { table, stamp, reads: Reads::new(&entry.name, &self.console) })
    }

    /// Replaces a table after a change of its file, unless it was replaced since.
    pub(super) fn replace(&self, name: &str, before: &Stamp, table: Arc<dyn Table>, stamp: Stamp) {
        // Hold the lock until the table is replaced: files of several tables may change at once, each read on its own
        // thread.
        let mut live = lock(&self.live);
        let mut next = Live::clone(&live);
        let Some(known) = next.get_mut(name) else { return };
        if known.stamp() == Some(before) {
            let reads = Reads::new(&known.entry.name, &self.console);
            known.source = TableSource::Local { table, stamp: Some(stamp), reads };
            *live = Arc::new(next);
            self.generation.fetch_add(1, Ordering::Release);
        }
    }

    /// The tables as they are now.
    pub(super) fn live(&self) -> Arc<Live> {
        Arc::clone(&lock(&self.live))
    }

    fn publish(&self, live: Live) {
        *lock(&self.live) = Arc::new(live);
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// A gauge of the queues of remote tables.
    pub(crate) fn gauge(self: &Arc<Registry>) -> impl Gauge + use<> {
        let tables = Arc::downgrade(self);
        FnGauge(move |_: ClockReading| {
            tables.upgrade().map(|all| all.pressure()).unwrap_or_default()
        })
    }

    /// Use of the queues for table servers, and the site with most lookups at one server.
    fn pressure(&self) -> (Level, Option<(String, u64)>) {
        let live = self.live();
        let lists = lock(&self.lists).clone();
        let remotes = live.values().filter_map(|table| match &table.source {
            TableSource::Remote(remote) => Some(remote.pressure()),
            TableSource::Local { .. } | TableSource::Snapshot(..) | TableSource::Composed => None,
        });
        let all = remotes.chain(lists.map(|lists| lists.pressure()));
        let (mut sum, mut most) = (Level::default(), None);
        for (level, of_one) in all {
            sum = sum.and(level);
            most = most.max(of_one.map(|(site, count)| (count, site)));
        }
        (sum, most.map(|(count, site)| (site.to_string(), count)))
    }

    /// Warnings about the files of tables, a sentence each: skipped or suspicious entries.
    pub(crate) fn warnings(&self, config: &Config) -> Vec<String> {
        let live = self.live();
        let of_one = |entry: &Arc<TableEntry>| match &live.get(&entry.name)?.source {
            TableSource::Local { table, stamp, .. } => {
                Some(files::warnings_of(&entry.name, (&**table, stamp.as_ref())))
            }
            TableSource::Remote(_) | TableSource::Snapshot(..) | TableSource::Composed => None,
        };
        let of_files = config.tables.iter().filter_map(of_one).flatten();
        of_files.chain(circles::warnings(config, &|name| open_in(&live, name))).collect()
    }

    /// The metrics of remote tables, by name.
    pub(crate) fn numbers(&self) -> TableSets {
        let mut sets = TableSets::default();
        for (name, table) in self.live().iter() {
            let name = Arc::clone(name);
            match &table.source {
                TableSource::Remote(remote) => {
                    sets.remote.push((name, Arc::clone(remote.metrics())))
                }
                TableSource::Snapshot(snapshot, _) => {
                    sets.snapshots.push((name, Arc::clone(snapshot.metrics())));
                }
                TableSource::Local { .. } | TableSource::Composed => {}
            }
        }
        sets
    }

    /// Takes console lines.
    pub(super) fn console(&self) -> &(dyn Console + Send + Sync) {
        &*self.console
    }
}

impl Service for Arc<Registry> {
    fn name(&self) -> &'static str {
        "tables"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let live = self.prepare_all(next)?;
        let this = Arc::clone(self);
        Ok(Box::new(move || this.adopt(live)))
    }
}

impl LiveTable {
    /// Returns true if it can serve a table with these settings and this next hop unchanged.
    fn is_like(&self, entry: &TableEntry, asked: Option<&AskedHop>) -> bool {
        let known = &self.entry;
        let is_hop_like = match (&self.asked, asked) {
            (Some(one), Some(other)) => one.is_like(other),
            (one, other) => one.is_none() && other.is_none(),
        };
        known.kind == entry.kind
            && known.cache == entry.cache
            && known.settings.is_like(&*entry.settings)
            && is_hop_like
    }

    fn is_changed(&self) -> bool {
        self.stamp().is_some_and(|stamp| !stamp.is_current())
    }

    pub(super) fn stamp(&self) -> Option<&Stamp> {
        match &self.source {
            TableSource::Local { stamp, .. } => stamp.as_ref(),
            TableSource::Remote(_) | TableSource::Snapshot(..) | TableSource::Composed => None,
        }
    }

    /// The table, where this process has it.
    pub(super) fn local(&self) -> Option<&Arc<dyn Table>> {
        match &self.source {
            TableSource::Local { table, .. } => Some(table),
            TableSource::Remote(_) | TableSource::Snapshot(..) | TableSource::Composed => None,
        }
    }

    /// The file that it is made of.
    pub(super) fn path(&self) -> Option<&Path> {
        self.stamp().map(Stamp::path)
    }
}

/// The tables as one shard sees them. Clones are the same.
#[derive(Clone)]
pub(crate) struct ShardTables {
    seen: Rc<ActiveTables>,
    asker: Requester,
}

struct ActiveTables {
    registry: Arc<Registry>,
    generation: Cell<u64>,
    live: RefCell<Arc<Live>>,
}

impl ShardTables {
    pub(crate) fn new(registry: Arc<Registry>) -> ShardTables {
        let generation = registry.generation.load(Ordering::Acquire);
        let live = RefCell::new(registry.live());
        let seen = Rc::new(ActiveTables { registry, generation: Cell::new(generation), live });
        ShardTables { seen, asker: Requester::Ours }
    }

    /// The same tables for a requester.
    #[must_use]
    pub(crate) fn asked_for(&self, asker: Requester) -> ShardTables {
        ShardTables { asker, ..self.clone() }
    }

    /// All that the process has.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.seen.registry
    }

    /// The tables as they are now.
    pub(super) fn live(&self) -> Ref<'_, Arc<Live>> {
        let generation = self.seen.registry.generation.load(Ordering::Acquire);
        if self.seen.generation.replace(generation) != generation {
            *self.seen.live.borrow_mut() = self.seen.registry.live();
        }
        self.seen.live.borrow()
    }
}

impl Tables for ShardTables {
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup {
        match self.live().get(&table.name).map(|live| &live.source) {
            Some(TableSource::Local { table, reads, .. }) => match table.find_now(key) {
                Some(found) => Answer::Now(reads.told(found)),
                None => {
                    let (table, key) = (Arc::clone(table), key.to_owned());
                    reads.later(move || table.find(&key))
                }
            },
            Some(TableSource::Remote(remote)) => remote.find_for(self.asker, key),
            Some(TableSource::Snapshot(snapshot, reads)) => match snapshot.find_now(key) {
                Some(found) => Answer::Now(reads.told(found)),
                None => {
                    let (snapshot, key) = (snapshot.clone(), key.to_owned());
                    reads.later(move || snapshot.find(&key))
                }
            },
            Some(TableSource::Composed) | None => {
                Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, "it is not open")))
            }
        }
    }

    fn changes(&self) -> u64 {
        self.seen.registry.generation.load(Ordering::Acquire)
    }

    fn list(&self, directory: &Path, file: &Path) -> EntryLookup {
        match &*lock(&self.seen.registry.lists) {
            Some(lists) => lists.find_for(self.asker, &lists::key(directory, file)),
            None => {
                let text = "no route has `include`";
                Answer::Now(Err(LookupError::new(LookupErrorKind::Unreachable, text)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
