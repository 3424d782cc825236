//! Batches: waiting submits are collected, written, and completed once durable.

use super::admission::SubmitKind;
use super::{BulkPurpose, Commit, Spool, Stalled};
use crate::blob::BlobIo;
use crate::disk::{DiskError, DiskErrorKind};
use crate::io::{Io, Op, OpResult, SealWrite};
use crate::name::blob_name;
use crate::record::{Body, Record};
use crate::request::{Completion, Refusal, Ticket};
use crate::table::Segment;
use crate::writer::Batch;

impl Spool {
    /// The next batch, if records are waiting and none is pending. Later submits go into the batch after it.
    pub fn poll_log_io(&mut self) -> Option<Io> {
        if let Some(stalled) = self.stalled.as_mut().filter(|stalled| stalled.due) {
            stalled.due = false;
            return stalled.io.take();
        }
        if self.commit.is_some() || self.poisoned.is_some() {
            return None;
        }
        let (seal, allowed) = self.make_room()?;
        let buffer = self.buffer.take().unwrap_or_default();
        let before = self.writer.offset;
        let mut batch = self.writer.begin_batch(&self.live, !self.registrar.off, buffer);
        let step = self.config.compact_step_bytes as u64;
        let has_copies = self.compaction.first_bytes(&self.live).is_some();
        self.compaction.add_to(&mut self.writer, &mut self.live, &mut batch, step);
        let submits = self.add_pending(&mut batch, allowed);
        let is_empty = batch.records_count() == 0 && !has_copies;
        if is_empty && seal.is_none() && self.writer.offset == before {
            // All records are known already and durable.
            self.buffer = Some(batch.buffer);
            for (ticket, position) in submits {
                self.complete(ticket, Completion::Durable { position });
            }
            return None;
        }
        Some(self.emit(seal, batch, submits))
    }

    pub(super) fn roll(&mut self) -> Option<SealWrite> {
        let key = self.space.next.take()?;
        let length = self.config.segment_bytes;
        if let Some(old) = self.live.segments.get_mut(self.writer.key.generation) {
            old.sealed = true;
            old.filled = true;
        }
        let seal = self.writer.roll(&self.live, key, length);
        if self.space.next_written {
            self.writer.written_to = length;
        }
        self.live.segments.map.insert(key.generation, Segment::new(key, length));
        self.prepare_segments();
        Some(seal)
    }

    /// The rules that a caller can break; attaches the blobs that the accepts name.
    pub(super) fn check_submit(&mut self, records: &[Record]) -> Result<(), Refusal> {
        for (at, record) in records.iter().enumerate() {
            let Record::Accept(accept) = record else { continue };
            let twice = |other: &Record| matches!(other, Record::Accept(o) if o.id == accept.id);
            let before = records.get(..at).unwrap_or(&[]);
            if self.live.index.get(accept.id.0).is_some() || before.iter().any(twice) {
                return Err(Refusal::Misuse("a message id was used twice"));
            }
            let count = accept.envelope.recipients.len();
            if count == 0 || count > crate::RECIPIENTS_MAX {
                return Err(Refusal::Misuse("a message needs 1 to 65535 recipients"));
            }
            if let Body::Blob { blob, .. } = accept.body
                && !self.blobs.is_sealed(blob)
            {
                return Err(Refusal::Misuse("an accept names a blob that is not sealed"));
            }
        }
        for record in records {
            if let Record::Accept(accept) = record
                && let Body::Blob { blob, .. } = accept.body
            {
                self.blobs.attach(blob);
            }
        }
        Ok(())
    }

    fn emit(&mut self, seal: Option<SealWrite>, batch: Batch, submits: Vec<(Ticket, u64)>) -> Io {
        let mut batch = batch;
        let offset = batch.write_offset;
        let dropped_blobs = std::mem::take(&mut batch.dropped_blobs);
        let (data, records_count) = self.writer.finish_batch(&self.live, batch);
        let ticket = self.ticket();
        let bytes = data.length();
        self.commit = Some(Commit { ticket, submits, dropped_blobs, records_count, bytes, offset });
        let file = self.writer.file.clone();
        Io { ticket, op: Op::Commit { seal, file, offset, data, sync: self.is_sync() } }
    }

    /// The operation cannot be performed now. Submits waiting behind a stalled batch are refused, except settles.
    pub(super) fn put_off(&mut self, io: Io, error: &DiskError) {
        #[cfg(feature = "planted")]
        if self.config.poisons_when_scarce && error.kind == DiskErrorKind::Scarce {
            self.poison(error);
        }
        if self.commit.as_ref().is_none_or(|commit| commit.ticket != io.ticket) {
            self.put_off.push(io);
            return;
        }
        let is_full = error.kind == DiskErrorKind::Full;
        let refusal = if is_full { Refusal::Full } else { Refusal::Scarce };
        self.stalled = Some(Stalled { io: Some(io), due: false, refusal });
        self.refuse_pending(refusal, SubmitKind::Report);
    }

    pub(super) fn handle_commit_done(
        &mut self,
        commit: Commit,
        result: Result<OpResult, DiskError>,
    ) {
        match result {
            Ok(outcome) => {
                if let OpResult::Written(mut buffer) = outcome {
                    buffer.clear();
                    self.buffer = Some(buffer);
                }
                self.status.batches_count += 1;
                self.status.records_count += commit.records_count;
                self.status.written_bytes += commit.bytes;
                self.space.written_bytes += commit.bytes;
                for (ticket, position) in commit.submits {
                    self.completions.push_back((ticket, Completion::Durable { position }));
                }
                for blob in commit.dropped_blobs {
                    let op = Op::Remove { file: blob_name(blob.0), sync: false };
                    self.push_bulk(op, BulkPurpose::Blob(BlobIo::Remove));
                }
                if self.space.written_bytes >= self.config.segment_bytes / 16 {
                    self.ask_for_space();
                }
            }
            Err(error) => {
                for (ticket, _) in commit.submits {
                    self.complete(ticket, Completion::Refused(Refusal::Poisoned));
                }
                self.poison(&error);
            }
        }
    }
}
