//! The import of a Postfix queue.
//!
//! A message is accepted on hold, with its origin, and synced; then its file is moved to `imported-postrider/`, and
//! that is synced; then the hold is released. So whenever the command ends early, each message is either in its queue
//! there, or here, or in both places and on hold here. The next run replaces copies on hold if
//! their file is still in its queue: in the meantime Postfix may have delivered to some recipients. It releases the
//! copies of moved files.

use super::message::{Conversion, convert};
use super::records::QueuedMail;
use super::{FoundFile, LeftFile, OpenedFile, QUEUES, StoppedQueue, open, records};
use crate::offline_log::OfflineLog;
use crate::world::clock::wall_now;
use bytes::Bytes;
use config::Config;
use mail::{MessageId, Wall};
use mta::imported::{ImportedFacts, MessageOrigin, is_unfinished};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use spool::{Accept, Attempt, Body, Record, RecoveredMessage, Settle, SettleKind, State};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Directory of imported files, in the queue directory.
const ASIDE: &str = "imported-postrider";
/// Messages that are synced together.
const BATCH_MESSAGES: usize = 200;
/// Octets of messages that are synced together.
const BATCH_BYTES: usize = 8 << 20;

/// The result of an import.
#[derive(Debug, Default)]
pub(crate) struct ImportReport {
    pub(crate) messages: u64,
    pub(crate) recipients: u64,
    /// Imported messages that are on hold.
    pub(crate) held: u64,
    /// Messages of an import that ended early, which are released now.
    pub(crate) finished: u64,
    /// Messages of an import that ended early, with a missing file: they stay on hold.
    pub(crate) lost: Vec<MessageId>,
    /// Files that stay where they are.
    pub(crate) left: Vec<LeftFile>,
    /// Directory of the imported files.
    pub(crate) aside: PathBuf,
}

/// Imports the queue of a stopped Postfix into the first log of a stopped server. With `is_copied`, names with another
/// inode are accepted.
///
/// # Errors
/// Returns a sentence if Postfix or the server is running, or a disk fails. Earlier imports stay, and the next one
/// continues.
pub(crate) fn import(
    config: &Config,
    directory: &Path,
    is_copied: bool,
) -> Result<ImportReport, String> {
    let queue = StoppedQueue::lock(directory)?;
    let mut pending = BTreeMap::new();
    let log = OfflineLog::open(config, &mut |message| {
        pending.extend(PendingMessage::of(&message).map(|one| (one.origin.queue_id.clone(), one)));
    })?;
    let (found, left) = queue.scan()?;
    let aside = directory.join(ASIDE);
    make_directory(&aside)?;
    for queue in QUEUES {
        make_directory(&aside.join(queue))?;
    }
    let report = ImportReport { left, aside: aside.clone(), ..ImportReport::default() };
    let batch = Vec::new();
    let mut import = Import { queue, log, aside, batch, batch_bytes: 0, report };
    import.finish_earlier(&mut pending, &found)?;
    for file in found {
        import.take(file, &mut pending, is_copied)?;
    }
    import.commit()?;
    import.log.close()?;
    Ok(import.report)
}

fn make_directory(path: &Path) -> Result<(), String> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(format!("cannot create {}: {error}", path.display()))
        }
        _ => Ok(()),
    }
}

/// A message of an import that ended early.
struct PendingMessage {
    id: MessageId,
    origin: MessageOrigin,
    /// Indexes of its recipients.
    open: Vec<u32>,
}

impl PendingMessage {
    /// `None` for all other messages.
    fn of(message: &RecoveredMessage) -> Option<PendingMessage> {
        if !is_unfinished(message.hold.as_deref()) {
            return None;
        }
        let origin = MessageOrigin::of(&message.meta)?;
        let open = message.open.iter().map(|recipient| recipient.index).collect();
        Some(PendingMessage { id: message.id, origin, open })
    }
}

/// A message that is submitted, and not moved aside yet.
struct TakenMessage {
    id: MessageId,
    hold: Option<Box<str>>,
    from: PathBuf,
    to: PathBuf,
    /// Locked until it is moved.
    _file: File,
}

/// A running import.
struct Import {
    queue: StoppedQueue,
    log: OfflineLog,
    aside: PathBuf,
    batch: Vec<TakenMessage>,
    batch_bytes: usize,
    report: ImportReport,
}

impl Import {
    /// Releases the messages of an import that ended early if their file was moved aside. Those with a file in a queue
    /// stay in `pending`.
    fn finish_earlier(
        &mut self,
        pending: &mut BTreeMap<Box<str>, PendingMessage>,
        found: &[FoundFile],
    ) -> Result<(), String> {
        if pending.is_empty() {
            return Ok(());
        }
        let queued: BTreeSet<&str> = found.iter().map(|file| file.id.as_str()).collect();
        let mut rest = BTreeMap::new();
        for (id, message) in std::mem::take(pending) {
            if self.is_aside(&message.origin) {
                self.report.finished += 1;
                self.report.held += u64::from(message.origin.hold.is_some());
                self.log.submit(vec![released(message.id, message.origin.hold)]);
            } else if queued.contains(&*id) {
                rest.insert(id, message);
            } else {
                self.report.lost.push(message.id);
            }
        }
        *pending = rest;
        self.log.sync()
    }

    /// Returns true if the file of a message was moved aside.
    fn is_aside(&self, origin: &MessageOrigin) -> bool {
        let at = |queue: &&str| self.aside.join(queue).join(&*origin.queue_id);
        let is_file = |path: PathBuf| {
            fs::symlink_metadata(path).is_ok_and(|status| status.ino() == origin.inode)
        };
        QUEUES.iter().map(at).any(is_file)
    }

    /// Submits a message, or notes why it stays.
    fn take(
        &mut self,
        found: FoundFile,
        pending: &mut BTreeMap<Box<str>, PendingMessage>,
        is_copied: bool,
    ) -> Result<(), String> {
        let read = open(&found, is_copied).and_then(|opened| {
            let mail = records::read(&opened.content).map_err(|error| error.to_string())?;
            let converted = convert(&mail, found.queue == "hold")?;
            Ok((opened, mail, converted))
        });
        let (opened, mail, converted) = match read {
            Ok(read) => read,
            Err(why) => {
                self.report.left.push(LeftFile { path: found.path, why });
                return Ok(());
            }
        };
        // Its copy on hold may have recipients that Postfix has delivered to since.
        let earlier = pending.remove(found.id.as_str());
        let bytes = mail.content.len();
        let taken = self.submit(found, opened, mail, converted, earlier)?;
        self.batch.push(taken);
        self.batch_bytes += bytes;
        if self.batch.len() >= BATCH_MESSAGES || self.batch_bytes >= BATCH_BYTES {
            self.commit()?;
        }
        Ok(())
    }

    fn submit(
        &mut self,
        found: FoundFile,
        opened: OpenedFile,
        mail: QueuedMail,
        converted: Conversion,
        earlier: Option<PendingMessage>,
    ) -> Result<TakenMessage, String> {
        let Conversion { envelope, facts, require_tls, hold } = converted;
        let id = self.log.allocate_id()?;
        let origin = MessageOrigin {
            program: "postfix".into(),
            queue_id: found.id.as_str().into(),
            inode: opened.inode,
            hold: hold.map(String::into_boxed_str),
        };
        let body = Bytes::from(mail.content);
        let blob = match body.len() as u64 > self.log.blob_bytes() {
            true => Some(self.log.store_blob(&body)?),
            false => None,
        };
        let origin_text = origin.to_string();
        let meta = ImportedFacts {
            login: mail.login.as_deref(),
            client: mail.client_address.as_deref(),
            helo: mail.helo.as_deref(),
            checksums: blob.as_ref().map(|blob| &blob.checksums),
            require_tls,
            origin: &origin_text,
        };
        let recipients = envelope.recipients.len();
        let accept = Accept {
            id,
            received_at: mail.arrived_at.min(wall_now()),
            envelope: Arc::new(envelope),
            meta: meta.to_meta(),
            prefix: Bytes::new(),
            body: match &blob {
                Some(stored) => Body::Blob { blob: stored.blob, body_bytes: facts.body_bytes },
                None => Body::Memory(vec![body]),
            },
            facts,
        };
        let mut records: Vec<Record> = earlier.map(removed).into_iter().collect();
        records.push(Record::Accept(Box::new(accept)));
        if found.queue == "deferred" {
            let next_try = Wall(opened.modified_at.saturating_mul(1_000));
            let reason = self.queue.reason_of(&found.id).unwrap_or_default();
            records.push(attempted(id, recipients, next_try, reason));
        }
        let held = Some(Some(origin.unfinished().into_boxed_str()));
        records.push(state(id, held, mail.is_warned.then_some(true)));
        self.log.submit(records);
        self.report.messages += 1;
        self.report.recipients += recipients as u64;
        self.report.held += u64::from(origin.hold.is_some());
        let to = self.aside.join(found.queue).join(&found.id);
        Ok(TakenMessage { id, hold: origin.hold, from: found.path, to, _file: opened.file })
    }

    /// Syncs the submitted messages, moves their files aside, syncs that, and submits the end of their holds. These are
    /// synced with the next messages.
    fn commit(&mut self) -> Result<(), String> {
        self.log.sync()?;
        let mut directories = BTreeSet::new();
        for message in &self.batch {
            let TakenMessage { from, to, .. } = message;
            // An older file of this name is another message.
            let moved = renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE);
            moved.map_err(|error| {
                format!("cannot move {} to {}: {error}", from.display(), to.display())
            })?;
            directories.extend([from, to].into_iter().filter_map(|path| path.parent()));
        }
        for directory in directories {
            let synced = File::open(directory).and_then(|opened| opened.sync_all());
            synced.map_err(|error| format!("cannot sync {}: {error}", directory.display()))?;
        }
        for message in self.batch.drain(..) {
            self.log.submit(vec![released(message.id, message.hold)]);
        }
        self.batch_bytes = 0;
        Ok(())
    }
}

/// The end of the hold of an import, or the reason for which the message stays on hold.
fn released(id: MessageId, hold: Option<Box<str>>) -> Record {
    state(id, Some(hold), None)
}

fn state(id: MessageId, hold: Option<Option<Box<str>>>, delay_notice_sent: Option<bool>) -> Record {
    Record::State(State { id, hold, next_try: None, overrides: None, delay_notice_sent })
}

/// Postfix keeps the time of the next attempt, but not their number.
fn attempted(id: MessageId, recipients: usize, next_try: Wall, reason: String) -> Record {
    let recipients = (0..recipients).filter_map(|index| u32::try_from(index).ok()).collect();
    let reason = reason.into_boxed_str();
    Record::Attempt(Attempt { id, at: wall_now(), recipients, attempts: 1, next_try, reason })
}

fn removed(message: PendingMessage) -> Record {
    let recipients = message.open.into_iter().map(|index| (index, SettleKind::Removed)).collect();
    Record::Settle(Settle { id: message.id, at: wall_now(), recipients })
}
