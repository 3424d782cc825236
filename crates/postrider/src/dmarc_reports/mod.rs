//! Telling owners of domains of mail in their name (RFC 7489 §7.2): messages are counted by day, and each
//! day's counts sent on the next.

mod day;
mod letter;
mod sending;

use crate::console::ConsoleLog;
use crate::mutex::lock;
use crate::world::{AcceptedSocket, Resolver, wall_now};
use auth::dmarc::reporting::Message;
use config::{Config, DmarcReports};
use day::{Day, number_of};
use mta::console::{Console as _, Level};
use mta::inbox::ShardSender;
use mta::seams::DomainReports;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// The directory in the first spool directory.
const NAME: &str = "dmarc-reports";

/// What was counted is on disk after so long: a crash loses no more.
const WRITE_EVERY: Duration = Duration::from_secs(60);

/// Messages that wait to be counted; those beyond are not counted.
const WAITING_MAX: usize = 10_000;

/// Counts messages for all shards; clones are of one.
#[derive(Clone)]
pub(crate) struct DmarcReporting(Arc<Inner>);

struct Inner {
    directory: PathBuf,
    is_on: AtomicBool,
    /// To the thread that counts, once there was a reason to have one.
    notes: OnceLock<SyncSender<Note>>,
    /// Messages that were not counted since that was told last.
    lost: AtomicU64,
    terms: Mutex<Option<Terms>>,
    resolver: Resolver,
    /// Where reports are queued.
    shard: ShardSender<AcceptedSocket>,
    console: Arc<ConsoleLog>,
}

/// As whom reports are sent, and when.
#[derive(Clone)]
struct Terms {
    settings: DmarcReports,
    hostname: Box<str>,
}

enum Note {
    Message(Box<Message>),
    /// Told when all that was counted is on disk.
    Write(SyncSender<()>),
}

impl DmarcReporting {
    /// Counts nothing before [`DmarcReporting::adopt`].
    pub(crate) fn new(
        spool: &Path,
        resolver: Resolver,
        shard: ShardSender<AcceptedSocket>,
        console: &Arc<ConsoleLog>,
    ) -> DmarcReporting {
        DmarcReporting(Arc::new(Inner {
            directory: spool.join(NAME),
            is_on: AtomicBool::new(false),
            notes: OnceLock::new(),
            lost: AtomicU64::new(0),
            terms: Mutex::default(),
            resolver,
            shard,
            console: Arc::clone(console),
        }))
    }

    /// Follows a configuration.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub(crate) fn adopt(&self, config: &Config) -> Result<(), String> {
        let inner = &self.0;
        let terms = config
            .dmarc_reports
            .clone()
            .map(|settings| Terms { settings, hostname: Box::from(config.hostname.as_str()) });
        let is_on = terms.is_some();
        *lock(&inner.terms) = terms;
        if is_on && inner.notes.get().is_none() {
            self.start().map_err(|error| format!("cannot start a thread: {error}"))?;
        }
        inner.is_on.store(is_on, Ordering::Relaxed);
        Ok(())
    }

    fn start(&self) -> std::io::Result<()> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (counting, sending) = (Arc::clone(&self.0), Arc::clone(&self.0));
        let thread = |name: &str| thread::Builder::new().name(name.to_owned());
        thread("dmarc-counts").spawn(move || counting.count(&receiver))?;
        thread("dmarc-reports").spawn(move || sending::run(&sending))?;
        let _ = self.0.notes.set(sender);
        Ok(())
    }

    /// Writes what was counted, before the process ends.
    pub(crate) fn finish(&self) {
        let (written, is_written) = sync_channel(1);
        let Some(notes) = self.0.notes.get() else { return };
        if notes.send(Note::Write(written)).is_ok() {
            // An error means that the thread has ended.
            let _ = is_written.recv();
        }
    }
}

impl DomainReports for DmarcReporting {
    fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Relaxed)
    }

    fn note(&self, message: Message) {
        let Some(notes) = self.0.notes.get() else { return };
        if notes.try_send(Note::Message(Box::new(message))).is_err() {
            self.0.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Inner {
    /// The thread that counts.
    fn count(&self, notes: &Receiver<Note>) {
        let mut day = Day::open(&self.directory, number_of(wall_now()));
        let mut written_at = Instant::now();
        loop {
            let left = WRITE_EVERY.saturating_sub(written_at.elapsed());
            let note = notes.recv_timeout(left);
            let today = number_of(wall_now());
            if today != day.number() {
                self.write(&mut day);
                day = Day::open(&self.directory, today);
            }
            let is_due = match &note {
                Ok(Note::Message(message)) => {
                    day.add(message);
                    written_at.elapsed() >= WRITE_EVERY
                }
                Ok(Note::Write(_)) | Err(_) => true,
            };
            if is_due {
                self.write(&mut day);
                written_at = Instant::now();
            }
            match note {
                Ok(Note::Write(written)) => _ = written.send(()),
                Err(RecvTimeoutError::Disconnected) => return,
                _ => {}
            }
        }
    }

    fn write(&self, day: &mut Day) {
        if let Err(error) = day.write(&self.directory) {
            let path = self.directory.display();
            self.warn(format_args!("cannot keep what was counted in {path}: {error}"));
        }
        let lost = self.lost.swap(0, Ordering::Relaxed) + day.take_left_out();
        if lost > 0 {
            self.warn(format_args!("{lost} messages were not counted: there are too many"));
        }
    }

    fn warn(&self, text: std::fmt::Arguments<'_>) {
        self.console.line(Level::Warn, "dmarc_reports", text);
    }
}
