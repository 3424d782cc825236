//! Who keeps a snapshot: reads the directory again and again, and puts what it read in the place of what
//! it had, unless that would be folly.

use super::file::{Builder, SnapshotFile, SnapshotHeader};
use super::follow::SyncEnd;
use super::reading::{self, of_file};
use super::shared::{Mode, SnapshotShared};
use super::talk::SyncConnection;
use super::view::View;
use crate::file_disk;
use crate::mutex::lock;
use crate::tables::ldap::server::LdapServer;
use crate::world::clock::wall_now;
use lookup::{LookupError, LookupErrorKind};
use mta::console::{Console, Level};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::time::sleep;

/// More entries than this are no result.
pub(super) const ENTRIES_MAX: u64 = 50_000_000;
/// After a failure it is tried again after so long; twice as long after each further one.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// But after no longer than this, or than between two readings.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether the spool is there.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Where the file lies.
#[derive(Clone, Debug)]
pub(super) struct SnapshotLocation {
    pub(super) path: PathBuf,
    /// The spool's directory, if it lies below that: nothing may be there before the spool is.
    pub(super) spool: Option<PathBuf>,
}

/// Keeps one snapshot.
pub(super) struct SnapshotRefresher {
    pub(super) shared: Arc<SnapshotShared>,
    pub(super) place: SnapshotLocation,
    /// Between two readings, or two files.
    pub(super) refresh: Duration,
    console: Arc<dyn Console + Send + Sync>,
    /// The last reading lost too much to be believed.
    doubts: bool,
    /// In a row.
    failures: u32,
}

/// What came of a reading.
#[derive(Debug)]
pub(super) enum RefreshOutcome {
    Taken,
    Unchanged,
    Doubted(LookupError),
}

impl SnapshotRefresher {
    pub(super) fn new(
        shared: Arc<SnapshotShared>,
        place: SnapshotLocation,
        refresh: Duration,
        console: Arc<dyn Console + Send + Sync>,
    ) -> SnapshotRefresher {
        SnapshotRefresher { shared, place, refresh, console, doubts: false, failures: 0 }
    }

    /// Opens what an earlier run has left, if it answers the same question.
    pub(super) fn open_file(&mut self) {
        let name = &self.shared.name;
        let path = &self.place.path;
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
        while self.place.spool.as_ref().is_some_and(|spool| !file_disk::is_spool(spool)) {
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
                    let text = "the server cannot report changes: reading all entries again";
                    return Err(talk.trouble(LookupErrorKind::Wrong, text));
                }
                Err(SyncEnd::Unable) => {}
            }
        }
        let begun = Instant::now();
        let question = &shared.question;
        self.make_directory().map_err(of_file)?;
        let mut builder = Builder::create(&self.place.path, ENTRIES_MAX).map_err(of_file)?;
        reading::read(&mut talk, question, &mut builder).await?;
        let outcome = self.adopt(builder, None)?;
        self.shared.metrics().reads.inc();
        self.tell(talk.server(), Mode::Paged, begun.elapsed(), &outcome);
        Ok(())
    }

    /// Makes the directory below the spool's that the files of snapshots are in.
    pub(super) fn make_directory(&self) -> Result<(), String> {
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

    /// Puts what was read in the place of what there was.
    /// `cookie`: the server, and how far it has told us of changes.
    pub(super) fn adopt(
        &mut self,
        builder: Builder,
        cookie: Option<(&str, Vec<u8>)>,
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
        let cookie = cookie.map(|(server, cookie)| (server.to_owned(), cookie));
        let fingerprint = self.shared.question.fingerprint();
        let about = SnapshotHeader { fingerprint, changed, cookie, ..SnapshotHeader::default() };
        self.put_in_place(builder, &about).map_err(of_file)?;
        Ok(RefreshOutcome::Taken)
    }

    /// Completes a file, and has it count.
    pub(super) fn put_in_place(
        &self,
        builder: Builder,
        about: &SnapshotHeader,
    ) -> Result<(), String> {
        builder.place(about)?;
        self.shared.publish(View::new(SnapshotFile::open(&self.place.path)?));
        Ok(())
    }

    /// Whether so many entries are too few to be believed, for the first time.
    pub(super) fn doubt(&mut self, before: u64, after: u64) -> Option<RefreshOutcome> {
        let loses = after < before.div_ceil(2);
        if !loses || std::mem::replace(&mut self.doubts, true) {
            self.doubts = false;
            return None;
        }
        let text = format!("{after} entries instead of {before}: ignored until confirmed");
        Some(RefreshOutcome::Doubted(LookupError::new(LookupErrorKind::Wrong, text)))
    }

    /// What we have is what there is.
    pub(super) fn confirm(&self) {
        // After a restart it is as old as the file, unless there is more than that has.
        let is_whole = self.shared.view().is_some_and(|view| view.changes() == 0);
        let _ = is_whole.then(|| {
            File::open(&self.place.path).and_then(|file| file.set_modified(SystemTime::now()))
        });
        lock(&self.shared.seen).confirmed = Some(wall_now());
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

/// What was different, for people.
fn changed(before: u64, after: u64) -> String {
    if before == after {
        "entries changed".to_owned()
    } else {
        format!("{after} entries instead of {before}")
    }
}
