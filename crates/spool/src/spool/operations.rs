//! Completed operations: dispatches each to its purpose and starts due work.

use super::load::blob_data;
use super::{BulkPurpose, Spool};
use crate::blob::{BlobAction, BlobIo};
use crate::disk::DiskError;
use crate::io::{Io, IoDone, OpResult};

impl Spool {
    /// Takes the result of an operation.
    pub fn handle_io_done(&mut self, done: IoDone) {
        let done = match done.result {
            Ok(OpResult::PutOff(op, error)) => {
                return self.put_off(Io { ticket: done.ticket, op: *op }, &error);
            }
            result => IoDone { ticket: done.ticket, result },
        };
        if self.commit.as_ref().is_some_and(|commit| commit.ticket == done.ticket) {
            self.stalled = None;
            if let Some(commit) = self.commit.take() {
                self.handle_commit_done(commit, done.result);
                for (ticket, id, bytes_max) in std::mem::take(&mut self.parked_loads) {
                    self.handle_load(ticket, id, bytes_max);
                }
            }
        } else if let Some(waiting) = self.waiting.remove(&done.ticket) {
            self.handle_bulk_done(waiting, done.result);
        }
        self.drive_blobs();
        self.go_on();
    }

    fn handle_bulk_done(&mut self, waiting: BulkPurpose, result: Result<OpResult, DiskError>) {
        let sync = self.is_sync();
        match (waiting, result) {
            (BulkPurpose::Load { ticket, id, segment, offset }, result) => {
                self.handle_loaded(ticket, id, (segment, offset), result);
            }
            (BulkPurpose::BlobRead { ticket }, result) => {
                self.complete(ticket, blob_data(result));
            }
            (BulkPurpose::Blob(BlobIo::Write { blob, ticket }), result) => {
                self.blobs.handle_written(blob, ticket, result.as_ref().err(), sync);
                if result.is_err() {
                    self.ask_for_space();
                }
            }
            (BulkPurpose::Blob(BlobIo::Sync { blob, ticket }), result) => {
                // No accept names it yet: only this blob fails.
                self.blobs.handle_synced(blob, ticket, result.as_ref().err(), sync);
            }
            (BulkPurpose::Blob(BlobIo::Remove) | BulkPurpose::RemoveUnfinished, _) => {}
            (BulkPurpose::Space, result) => self.handle_space(result),
            (BulkPurpose::Register, Ok(outcome)) => {
                self.registrar.handle_written(matches!(outcome, OpResult::Registered(true)));
                self.keep_register();
            }
            (BulkPurpose::Register, Err(error)) => self.poison(&error),
            (BulkPurpose::CompactionRead | BulkPurpose::CompactionScan, result) => match result {
                Ok(OpResult::Many(records)) => self.compaction.handle_read(records),
                Ok(OpResult::Scanned(found)) => {
                    self.compaction.handle_scanned(&found, &self.live);
                }
                _ => self.compaction.handle_failed(&mut self.live),
            },
            (waiting, result) => self.handle_file_done(waiting, result),
        }
    }

    pub(super) fn drive_blobs(&mut self) {
        while let Some(step) = self.blobs.poll_step() {
            match step {
                BlobAction::Io(op, io) => self.push_bulk(op, BulkPurpose::Blob(io)),
                BlobAction::Complete(ticket, completion) => self.complete(ticket, completion),
            }
        }
    }

    /// Starts due background work.
    pub(crate) fn go_on(&mut self) {
        if self.poisoned.is_some() || self.memory.is_some() {
            return;
        }
        // Between batches the whole known state is durable: only now can anything be discarded.
        if self.commit.is_none() {
            self.release_segments();
            self.compact();
        }
        self.prepare_segments();
    }
}
