//! Bodies in separate files, from the first piece to the accept that names them.

use crate::disk::{DiskError, DiskErrorKind};
use crate::io::Op;
use crate::name::{FileName, blob_name};
use crate::record::BlobId;
use crate::request::{Completion, Refusal, Ticket};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Number of used blob numbers that are remembered; lower ones all count as used. Blobs may begin in any order within
/// this distance.
const USED_MAX: usize = 1 << 16;

/// Blobs that no accept names yet.
#[derive(Debug, Default)]
pub(crate) struct Blobs {
    open: BTreeMap<u64, Blob>,
    /// Numbers below this were used.
    used_below: u64,
    /// Numbers from `used_below` on that were used.
    used: BTreeSet<u64>,
    steps: VecDeque<BlobAction>,
}

#[derive(Debug)]
struct Blob {
    file: FileName,
    /// Offset of the next piece.
    offset: u64,
    created: Created,
    /// Pieces that wait until the file is made.
    waiting: VecDeque<(Ticket, u64, Bytes)>,
    in_flight_count: u32,
    failed: Option<Refusal>,
    sealing: Option<Ticket>,
    sealed: bool,
    dropped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Created {
    No,
    UnderWay,
    Yes,
}

/// The next step for a blob.
#[derive(Debug)]
pub(crate) enum BlobAction {
    Io(Op, BlobIo),
    Complete(Ticket, Completion),
}

/// Purpose of a blob operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BlobIo {
    Write { blob: BlobId, ticket: Ticket },
    Sync { blob: BlobId, ticket: Ticket },
    Remove,
}

impl Blobs {
    /// None yet; numbers below `used_below` were used before the start.
    pub(crate) fn new(used_below: u64) -> Blobs {
        Blobs { used_below, ..Blobs::default() }
    }

    pub(crate) fn count(&self) -> u64 {
        self.open.len() as u64
    }

    /// Returns the next action.
    pub(crate) fn poll_step(&mut self) -> Option<BlobAction> {
        self.steps.pop_front()
    }

    /// An accept may name it.
    pub(crate) fn is_sealed(&self, blob: BlobId) -> bool {
        self.open.get(&blob.0).is_some_and(|blob| blob.sealed && !blob.dropped)
    }

    /// Marks a blob as named by an accept: from now on it is kept as long as its message.
    pub(crate) fn attach(&mut self, blob: BlobId) {
        self.close(blob);
    }

    fn close(&mut self, blob: BlobId) {
        self.open.remove(&blob.0);
        self.used.insert(blob.0);
        while self.used.len() > USED_MAX || self.used.first() == Some(&self.used_below) {
            let Some(lowest) = self.used.pop_first() else { break };
            self.used_below = lowest.saturating_add(1);
        }
    }

    fn is_used(&self, blob: BlobId) -> bool {
        blob.0 < self.used_below || self.used.contains(&blob.0)
    }

    fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        self.steps.push_back(BlobAction::Complete(ticket, Completion::Refused(refusal)));
    }

    /// Takes the next piece of a body; the first one creates the file.
    pub(crate) fn handle_append(&mut self, blob: BlobId, ticket: Ticket, data: Bytes) {
        if !self.open.contains_key(&blob.0) && self.is_used(blob) {
            return self.refuse(ticket, Refusal::Misuse("a blob number was used twice"));
        }
        let state = self.open.entry(blob.0).or_insert_with(|| Blob::new(blob));
        if state.sealed || state.sealing.is_some() || state.dropped {
            return self.refuse(ticket, Refusal::Misuse("data for a closed blob"));
        }
        if let Some(refusal) = state.failed {
            return self.refuse(ticket, refusal);
        }
        let offset = state.offset;
        state.offset += data.len() as u64;
        if state.created == Created::UnderWay {
            state.waiting.push_back((ticket, offset, data));
            return;
        }
        let create = state.created == Created::No;
        if create {
            state.created = Created::UnderWay;
        }
        let step = state.write(blob, (ticket, offset, data), create);
        self.steps.push_back(step);
    }

    /// No more pieces follow: the file is synced after the pending ones are written.
    pub(crate) fn handle_seal(&mut self, blob: BlobId, ticket: Ticket, sync: bool) {
        let Some(state) = self.open.get_mut(&blob.0) else {
            return self.refuse(ticket, Refusal::Misuse("unknown blob"));
        };
        if state.sealed || state.sealing.is_some() || state.dropped {
            return self.refuse(ticket, Refusal::Misuse("the blob is closed already"));
        }
        state.sealing = Some(ticket);
        self.go_on(blob, sync);
    }

    /// The transaction was aborted.
    pub(crate) fn handle_drop(&mut self, blob: BlobId, sync: bool) {
        if let Some(state) = self.open.get_mut(&blob.0) {
            state.dropped = true;
            self.go_on(blob, sync);
        }
    }

    /// A piece is written, or not.
    pub(crate) fn handle_written(
        &mut self,
        blob: BlobId,
        ticket: Ticket,
        error: Option<&DiskError>,
        sync: bool,
    ) {
        let Some(state) = self.open.get_mut(&blob.0) else { return };
        state.in_flight_count -= 1;
        state.created = Created::Yes;
        let waiting = std::mem::take(&mut state.waiting);
        if let Some(error) = error {
            // No guarantee is affected: only this blob fails.
            let refusal = refusal_of(error);
            state.failed = Some(refusal);
            self.refuse(ticket, refusal);
            for (ticket, _, _) in waiting {
                self.refuse(ticket, refusal);
            }
        } else {
            for piece in waiting {
                let step = state.write(blob, piece, false);
                self.steps.push_back(step);
            }
            self.steps.push_back(BlobAction::Complete(ticket, Completion::BlobDone));
        }
        self.go_on(blob, sync);
    }

    /// The blob is on stable storage, or not.
    pub(crate) fn handle_synced(
        &mut self,
        blob: BlobId,
        ticket: Ticket,
        error: Option<&DiskError>,
        sync: bool,
    ) {
        let Some(state) = self.open.get_mut(&blob.0) else { return };
        state.in_flight_count -= 1;
        if let Some(error) = error {
            let refusal = refusal_of(error);
            state.failed = Some(refusal);
            self.refuse(ticket, refusal);
        } else {
            state.sealed = true;
            self.steps.push_back(BlobAction::Complete(ticket, Completion::BlobDone));
        }
        self.go_on(blob, sync);
    }

    /// Syncs or removes the file once no operation is pending.
    fn go_on(&mut self, blob: BlobId, sync: bool) {
        let Some(state) = self.open.get_mut(&blob.0) else { return };
        if state.in_flight_count > 0 || !state.waiting.is_empty() {
            return;
        }
        if let Some(ticket) = state.sealing.take() {
            let empty = state.created == Created::No;
            let refusal = if empty || state.dropped {
                Some(Refusal::Misuse("blob without data"))
            } else {
                state.failed
            };
            if let Some(refusal) = refusal {
                self.steps.push_back(BlobAction::Complete(ticket, Completion::Refused(refusal)));
            } else {
                state.in_flight_count += 1;
                let op = Op::BlobSync { file: state.file.clone(), sync };
                self.steps.push_back(BlobAction::Io(op, BlobIo::Sync { blob, ticket }));
                return;
            }
        }
        if let Some(state) = self.open.get(&blob.0).filter(|state| state.dropped) {
            if state.created != Created::No {
                // A name that reappears after a crash is an orphan, and is removed then.
                let op = Op::Remove { file: state.file.clone(), sync: false };
                self.steps.push_back(BlobAction::Io(op, BlobIo::Remove));
            }
            self.close(blob);
        }
    }
}

fn refusal_of(error: &DiskError) -> Refusal {
    match error.kind {
        DiskErrorKind::Full => Refusal::Full,
        DiskErrorKind::Scarce => Refusal::Scarce,
        DiskErrorKind::NotFound | DiskErrorKind::Failed => Refusal::BlobFailed,
    }
}

impl Blob {
    fn new(blob: BlobId) -> Blob {
        Blob {
            file: blob_name(blob.0),
            offset: 0,
            created: Created::No,
            waiting: VecDeque::new(),
            in_flight_count: 0,
            failed: None,
            sealing: None,
            sealed: false,
            dropped: false,
        }
    }

    fn write(&mut self, blob: BlobId, piece: (Ticket, u64, Bytes), create: bool) -> BlobAction {
        self.in_flight_count += 1;
        let (ticket, offset, data) = piece;
        let op = Op::BlobWrite { file: self.file.clone(), offset, data, create };
        BlobAction::Io(op, BlobIo::Write { blob, ticket })
    }
}
