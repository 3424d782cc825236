//! The first log of a stopped server, for commands that add messages to it.

use crate::file_disk::FileDisk;
use crate::logs::spool_config;
use crate::world::clock::wall_now;
use bytes::Bytes;
use config::{Config, Durability};
use mail::{BodyType, ContentFacts, Envelope, MessageId, Notify, Recipient};
use spool::{
    Accept, BlobId, Body, BodyChecksums, Completion, Io, Meta, Record, RecoveredMessage, Request,
    Settle, SettleKind, Spool, SpoolConfig, Ticket,
};
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

/// Message ids that an import leaves to the reports of the server.
const IDS_LEFT: u64 = 1 << 24;
/// Message ids that are left out after a restore.
const IDS_SKIPPED: u64 = 1 << 24;
/// Piece in which a body is written to its file.
const PIECE_BYTES: usize = 1 << 20;

/// An open log without threads: every call blocks.
pub(crate) struct OfflineLog {
    disk: FileDisk,
    spool: Spool,
    /// Node and number of the log.
    number: (u16, u8),
    next_sequence: u64,
    next_blob: u64,
    next_ticket: u64,
    /// Longer bodies get a separate file.
    blob_bytes: u64,
    path: PathBuf,
}

/// A body in a separate file.
pub(crate) struct StoredBlob {
    pub(crate) blob: BlobId,
    /// For the facts of the message.
    pub(crate) checksums: Bytes,
}

impl OfflineLog {
    /// Opens and recovers the first log. Calls `each` for every queued message.
    ///
    /// # Errors
    /// Returns a sentence if the server is running, the spool is missing or in memory, or its disk fails.
    pub(crate) fn open(
        config: &Config,
        each: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<OfflineLog, String> {
        if config.spool.durability == Durability::Memory {
            let remedy = "set another `durability` to import into it";
            return Err(format!("the spool is in memory ([spool] durability); {remedy}"));
        }
        let path = config.spool.paths.first().ok_or("the configuration has no spool directory")?;
        let at = path.display();
        if !path.is_dir() {
            return Err(format!(
                "there is no spool in {at}: start the server once, which makes it for its user"
            ));
        }
        let disk = FileDisk::open(path).map_err(|error| unopened(path, &error))?;
        OfflineLog::recover(config, 0, disk, each)
    }

    /// As [`OfflineLog::open`], for a log that is being restored.
    ///
    /// # Errors
    /// As [`OfflineLog::open`].
    pub(crate) fn open_restored(
        config: &Config,
        number: usize,
        each: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<OfflineLog, String> {
        let path = config.spool.paths.get(number).ok_or("the configuration has fewer `paths`")?;
        let disk = FileDisk::open_restored(path).map_err(|error| unopened(path, &error))?;
        OfflineLog::recover(config, number, disk, each)
    }

    fn recover(
        config: &Config,
        number: usize,
        disk: FileDisk,
        each: &mut dyn FnMut(RecoveredMessage),
    ) -> Result<OfflineLog, String> {
        let path = config.spool.paths.get(number).cloned().unwrap_or_default();
        let log = u8::try_from(number).map_err(|_| "more than 256 spool paths")?;
        let at = path.display();
        // A command promises durability, whatever the server does.
        let durability = spool::Durability::Sync;
        let settings = SpoolConfig { durability, ..spool_config(&config.spool, log) };
        let number = (settings.node, settings.log);
        let (spool, _) = Spool::open(&disk, settings, each)
            .map_err(|error| format!("cannot recover the spool {at}: {error}"))?;
        let (next_sequence, next_blob) = (spool.next_sequence(), spool.next_blob());
        let next_ticket = 0;
        // As the shortest submit that must fit into a segment.
        let blob_bytes = config.spool.blob_bytes.min(config.spool.segment_bytes / 8);
        let mut log = OfflineLog {
            disk,
            spool,
            number,
            next_sequence,
            next_blob,
            next_ticket,
            blob_bytes,
            path,
        };
        log.drive()?;
        Ok(log)
    }

    /// Length beyond which a body needs a separate file.
    pub(crate) fn blob_bytes(&self) -> u64 {
        self.blob_bytes
    }

    /// A message id that was never used.
    ///
    /// # Errors
    /// Returns a sentence if only those for reports are left.
    pub(crate) fn allocate_id(&mut self) -> Result<MessageId, String> {
        let sequence = self.next_sequence;
        if sequence > MessageId::SEQUENCE_MAX - IDS_LEFT {
            return Err("no message ids left in this log: add a directory to [spool] paths".into());
        }
        self.next_sequence += 1;
        Ok(MessageId::new(self.number.0, self.number.1, sequence))
    }

    /// Leaves out the message ids that a server may have used since a backup: in its events they name other messages.
    ///
    /// # Errors
    /// As [`OfflineLog::sync`].
    pub(crate) fn skip_ids(&mut self) -> Result<(), String> {
        self.next_sequence += IDS_SKIPPED;
        let id = self.allocate_id()?;
        let mailbox =
            mail::Mailbox::parse("postmaster", false).map_err(|error| error.to_string())?;
        let recipient = Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
        let envelope = Envelope {
            reverse_path: None,
            recipients: vec![recipient],
            body: BodyType::SevenBit,
            smtputf8: false,
            ret: None,
            envid: None,
        };
        let at = wall_now();
        let accept = Accept {
            id,
            received_at: at,
            envelope: Arc::new(envelope),
            meta: Meta::default(),
            prefix: Bytes::new(),
            body: Body::Memory(Vec::new()),
            facts: ContentFacts::default(),
        };
        // The highest id of all stays known when its message is gone.
        let recipients = vec![(0, SettleKind::Removed)];
        let settle = Settle { id, at, recipients };
        self.submit(vec![Record::Accept(Box::new(accept)), Record::Settle(settle)]);
        self.sync()
    }

    /// Writes a body to a file and syncs it.
    ///
    /// # Errors
    /// Returns a sentence if the disk is full or fails.
    pub(crate) fn store_blob(&mut self, body: &Bytes) -> Result<StoredBlob, String> {
        let blob = BlobId(self.next_blob);
        self.next_blob += 1;
        let mut checksums = BodyChecksums::default();
        for start in (0..body.len()).step_by(PIECE_BYTES) {
            let data = body.slice(start..body.len().min(start + PIECE_BYTES));
            checksums.push(&data);
            let ticket = self.ticket();
            self.spool.handle_request(Request::BlobAppend { ticket, blob, data });
            self.drive()?;
        }
        let ticket = self.ticket();
        self.spool.handle_request(Request::BlobSeal { ticket, blob });
        self.drive()?;
        Ok(StoredBlob { blob, checksums: checksums.finish().1 })
    }

    /// Adds records to the next batch. They take effect together at [`OfflineLog::sync`].
    pub(crate) fn submit(&mut self, records: Vec<Record>) {
        let ticket = self.ticket();
        self.spool.handle_request(Request::Submit { ticket, records });
    }

    /// Makes all submitted records durable.
    ///
    /// # Errors
    /// Returns a sentence if the disk is full or fails. Some of the records may be durable then.
    pub(crate) fn sync(&mut self) -> Result<(), String> {
        self.drive()
    }

    /// Ends the log in order, as a server does that is stopped.
    ///
    /// # Errors
    /// As [`OfflineLog::sync`].
    pub(crate) fn close(mut self) -> Result<(), String> {
        self.drive()?;
        if let Some(io) = self.spool.close() {
            self.perform(io);
        }
        Ok(())
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    fn perform(&mut self, io: Io) {
        let done = io.perform(&self.disk);
        self.spool.handle_io_done(done);
    }

    /// Performs operations until every request is answered.
    fn drive(&mut self) -> Result<(), String> {
        let mut failed = None;
        loop {
            let mut is_moving = false;
            while let Some(io) = self.spool.poll_io() {
                self.perform(io);
                is_moving = true;
            }
            while let Some((_, completion)) = self.spool.poll_completion() {
                is_moving = true;
                match completion {
                    Completion::Refused(refusal) => _ = failed.get_or_insert(refusal.to_string()),
                    Completion::LoadFailed(error) => _ = failed.get_or_insert(error.to_string()),
                    _ => {}
                }
            }
            if self.spool.is_idle() {
                break;
            }
            // It waits for space on the disk, without end.
            if self.spool.is_stalled() || !is_moving {
                failed.get_or_insert_with(|| spool::Refusal::Full.to_string());
                break;
            }
        }
        match failed {
            Some(why) => Err(format!("cannot write to the spool {}: {why}", self.path.display())),
            None => Ok(()),
        }
    }
}

fn unopened(path: &Path, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            format!("{error}: stop the server first, and start it again afterwards")
        }
        _ => format!("cannot open the spool {}: {error}", path.display()),
    }
}
