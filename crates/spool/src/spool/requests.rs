//! Incoming requests: each is accepted or refused.

use super::admission::{Submit, SubmitKind};
use super::{BulkPurpose, Spool};
use crate::codec;
use crate::io::Op;
use crate::name::blob_name;
use crate::record::Record;
use crate::request::{Completion, Refusal, Request, Ticket};

impl Spool {
    /// Handles a request; the answer is returned by [`Spool::poll_completion`].
    pub fn handle_request(&mut self, request: Request) {
        if self.memory.is_some() {
            return self.handle_in_memory(request);
        }
        match request {
            Request::Submit { ticket, records } => self.handle_submit(ticket, records),
            Request::Load { ticket, id, bytes_max } => self.handle_load(ticket, id, bytes_max),
            Request::BlobAppend { ticket, blob, data } => {
                if let Err(refusal) = self.check_accepting() {
                    return self.complete(ticket, Completion::Refused(refusal));
                }
                self.space.written_bytes += data.len() as u64;
                self.blobs.handle_append(blob, ticket, data);
            }
            Request::BlobSeal { ticket, blob } => {
                let sync = self.is_sync();
                self.blobs.handle_seal(blob, ticket, sync);
            }
            Request::BlobRead { ticket, blob, offset, piece } => {
                let op = Op::ReadPiece { file: blob_name(blob.0), offset, piece };
                self.push_bulk(op, BulkPurpose::BlobRead { ticket });
            }
            Request::BlobDrop { blob } => {
                let sync = self.is_sync();
                self.blobs.handle_drop(blob, sync);
            }
        }
        self.drive_blobs();
        let is_short = self.space.failed || self.space.is_full(self.reserve_bytes());
        if is_short || self.space.written_bytes >= self.config.segment_bytes / 16 {
            self.ask_for_space();
        }
    }

    fn handle_in_memory(&mut self, request: Request) {
        if let Some(memory) = &mut self.memory {
            memory.handle_request(&mut self.live, request, &mut self.completions);
        }
    }

    /// Returns an error if new mail cannot be accepted.
    fn check_accepting(&self) -> Result<(), Refusal> {
        if self.poisoned.is_some() {
            Err(Refusal::Poisoned)
        } else if let Some(stalled) = &self.stalled {
            Err(stalled.refusal)
        } else if self.space.is_full(self.reserve_bytes()) {
            Err(Refusal::Full)
        } else {
            Ok(())
        }
    }

    fn handle_submit(&mut self, ticket: Ticket, records: Vec<Record>) {
        let kind = SubmitKind::of(&records);
        let bytes = records
            .iter()
            .map(|record| (codec::record_bytes(record) + codec::indexed_bytes_max(record)) as u64);
        let bytes = bytes.sum::<u64>();
        let stalled = self.stalled.as_ref().filter(|_| kind > SubmitKind::Settle);
        let refusal = if self.poisoned.is_some() {
            Some(Refusal::Poisoned)
        } else if let Some(stalled) = stalled {
            Some(stalled.refusal)
        } else if bytes > self.submit_bytes_max() {
            Some(Refusal::TooLarge)
        } else if kind == SubmitKind::Accept
            && let Err(refusal) = self.check_accepting()
        {
            Some(refusal)
        } else {
            None
        };
        if let Some(refusal) = refusal {
            return self.complete(ticket, Completion::Refused(refusal));
        }
        self.pending_accepts_count += usize::from(kind.has_accept());
        self.pending.push_back(Submit { ticket, records, bytes, kind });
    }
}
