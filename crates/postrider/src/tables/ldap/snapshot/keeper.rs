//! Who keeps a snapshot: reads the directory again and again, and puts what it read in the place of what
//! it had, unless that would be folly.

use super::file::SnapshotFile;
use super::follow::SyncEnd;
use super::reading;
use super::shared::{Mode, SnapshotShared};
use super::store::{BatchWriter, RefreshOutcome, SnapshotLocation, SnapshotStore, of_file};
use super::talk::SyncConnection;
use super::view::View;
use crate::file_disk;
use crate::limited_work::finished;
use crate::mutex::lock;
use crate::tables::ldap::server::LdapServer;
use crate::world::clock::wall_now;
use lookup::{LookupError, LookupErrorKind};
use mta::console::{Console, Level};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// After a failure it is tried again after so long; twice as long after each further one.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// But after no longer than this, or than between two readings.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether the spool is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Keeps one snapshot.
pub(super) struct SnapshotRefresher {
    pub(super) shared: Arc<SnapshotShared>,
    store: Arc<SnapshotStore>,
    /// Between two readings, or two files.
    pub(super) refresh: Duration,
    console: Arc<dyn Console + Send + Sync>,
    /// In a row.
    failures: u32,
}

impl SnapshotRefresher {
    pub(super) fn new(
        shared: Arc<SnapshotShared>,
        place: SnapshotLocation,
        refresh: Duration,
        console: Arc<dyn Console + Send + Sync>,
    ) -> SnapshotRefresher {
        let store = Arc::new(SnapshotStore::new(Arc::clone(&shared), place));
        SnapshotRefresher { shared, store, refresh, console, failures: 0 }
    }

    /// Opens what an earlier run has left, if it answers the same question.
    pub(super) fn open_file(&mut self) {
        let name = &self.shared.name;
        let path = &self.store.place.path;
        let is_there = path.exists();
        let why = match SnapshotFile::open(path) {
            Ok(stored) if stored.about.fingerprint == self.shared.question.fingerprint() => {
                return self.shared.publish(View::new(stored));
            }
            Ok(_) => format!("{} is for another query", path.display()),
            Err(_) if !is_there => "no snapshot".to_owned(),
            Err(why) => why,
        };
        lock(&self.shared.seen).unusable = is_there.then(|| (wall_now(), why.clone()));
        let text = format_args!("{name}: {why}: no answers until the directory has been read");
        self.console.line(Level::Warn, "table", text);
    }

    /// Works until it is dropped.
    pub(super) async fn run(mut self) {
        let is_awaited = |store: &SnapshotStore| {
            store.place.spool.as_ref().is_some_and(|spool| !file_disk::is_spool(spool))
        };
        while self.aside(is_awaited).await {
            sleep(LOOK_EVERY).await;
        }
        loop {
            let pause = match self.read_from_any().await {
                Ok(()) => self.refresh,
                Err(trouble) => {
                    self.fail(trouble);
                    let pause = PAUSE_FIRST.saturating_mul(1 << self.failures.min(16));
                    self.failures = self.failures.saturating_add(1);
                    pause.min(PAUSE_MAX).min(self.refresh)
                }
            };
            sleep(pause).await;
        }
    }

    /// Reads from the first server that gives all.
    async fn read_from_any(&mut self) -> Result<(), LookupError> {
        let shared = Arc::clone(&self.shared);
        let mut troubles: Vec<LookupError> = Vec::new();
        for server in &shared.question.settings.servers {
            match self.read_from(server).await {
                Ok(()) => return Ok(()),
                Err(trouble) => troubles.push(trouble),
            }
        }
        let kind = troubles.first().map_or(LookupErrorKind::Unreachable, |trouble| trouble.kind);
        let texts: Vec<&str> = troubles.iter().map(|trouble| &*trouble.text).collect();
        Err(LookupError::new(kind, texts.join("; ")))
    }

    async fn read_from(&mut self, server: &LdapServer) -> Result<(), LookupError> {
        let shared = Arc::clone(&self.shared);
        let mut talk = SyncConnection::open(&shared.question.settings, server).await?;
        if talk.tells_of_changes().await? {
            match self.follow(&mut talk).await {
                Ok(_) => return Ok(()),
                Err(SyncEnd::Failed(trouble)) => return Err(trouble),
                Err(SyncEnd::Lost) => {
                    // The next connection begins with nothing.
                    if let Some(view) = shared.view() {
                        view.forget_cookie();
                    }
                    let text =
                        "the directory server cannot report changes: reading all entries again";
                    return Err(talk.trouble(LookupErrorKind::Wrong, text));
                }
                Err(SyncEnd::Unable) => {}
            }
        }
        let begun = Instant::now();
        let question = &shared.question;
        let mut file = self.create(false).await?;
        let read = reading::read(&mut talk, question, &mut file).await;
        let (builder, ()) = file.finish(read).await?;
        let outcome = self.aside(move |store| store.adopt(builder, None)).await?;
        self.shared.metrics().reads.inc();
        self.tell(talk.server(), Mode::Paged, begun.elapsed(), &outcome);
        Ok(())
    }

    /// The result of work on the files.
    pub(super) async fn aside<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SnapshotStore) -> T + Send + 'static,
    ) -> T {
        let store = Arc::clone(&self.store);
        finished(move || work(&store)).await
    }

    /// Begins a file, as [`SnapshotStore::create`].
    pub(super) async fn create(&self, has_ids: bool) -> Result<BatchWriter, LookupError> {
        let created = self.aside(move |store| store.create(has_ids)).await;
        created.map(BatchWriter::new).map_err(of_file)
    }

    /// Tells what came of a reading. There is no trouble any more, unless it is not believed.
    pub(super) fn tell(
        &mut self,
        server: &str,
        mode: Mode,
        took: Duration,
        outcome: &RefreshOutcome,
    ) {
        self.failures = 0;
        let (name, entries) = (&self.shared.name, self.shared.entries());
        let mut seen = lock(&self.shared.seen);
        seen.server = Some(server.to_owned());
        seen.mode = mode;
        let was_troubled = seen.trouble.take().is_some();
        if let RefreshOutcome::Doubted(trouble) = outcome {
            let text = format_args!("{name}: {server}: {trouble}");
            self.console.line(Level::Warn, "table", text);
            seen.trouble = Some((wall_now(), trouble.clone()));
            return;
        }
        let level = if was_troubled { Level::Warn } else { Level::Info };
        if was_troubled || matches!(outcome, RefreshOutcome::Taken) {
            let text =
                format_args!("{name}: as {server} has it: {entries} entries, after {took:.1?}");
            self.console.line(level, "table", text);
        }
    }

    fn fail(&self, trouble: LookupError) {
        self.shared.metrics().failures.inc();
        let mut seen = lock(&self.shared.seen);
        if seen.trouble.is_none() {
            let name = &self.shared.name;
            let text = match seen.confirmed {
                Some(at) => format!("using the snapshot of {at}"),
                None => "no answers".to_owned(),
            };
            let text = format_args!("{name}: cannot read the directory, {text}: {trouble}");
            self.console.line(Level::Warn, "table", text);
        }
        let since = seen.trouble.take().map_or_else(wall_now, |(since, _)| since);
        seen.trouble = Some((since, trouble));
    }
}
