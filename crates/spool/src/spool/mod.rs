//! The log as seen by its driver: requests and finished operations are handed in, operations and completions are
//! returned.

mod admission;
mod commit;
mod load;
mod operations;
mod prepare;
mod release;
mod requests;

use crate::blob::{BlobIo, Blobs};
use crate::buffer::WriteBuffer;
use crate::compaction::Compaction;
use crate::config::{Durability, SpoolConfig, SpoolStatus};
use crate::disk::DiskError;
use crate::io::{Io, IoTicket, Op};
use crate::live::Live;
use crate::memory::Memory;
use crate::name::SegmentKey;
use crate::record::BlobId;
use crate::registrar::Registrar;
use crate::request::{Completion, Refusal, Ticket};
use crate::segment::SegmentEnd;
use crate::space::Space;
use crate::writer::Writer;
use admission::{Submit, SubmitKind};
use mail::MessageId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// An open log: live messages, the position of the next batch, and pending operations.
#[derive(Debug)]
pub struct Spool {
    config: SpoolConfig,
    live: Live,
    writer: Writer,
    pub(crate) space: Space,
    pub(crate) registrar: Registrar,
    blobs: Blobs,
    compaction: Compaction,
    memory: Option<Memory>,
    pending: VecDeque<Submit>,
    /// Number of pending submits with an accept.
    pending_accepts_count: usize,
    commit: Option<Commit>,
    /// The pending batch could not be written because a resource ran out; it will be retried.
    stalled: Option<Stalled>,
    /// Other operations that wait for the same.
    put_off: Vec<Io>,
    /// Reused from batch to batch.
    buffer: Option<WriteBuffer>,
    bulk: VecDeque<Io>,
    waiting: BTreeMap<IoTicket, BulkPurpose>,
    next_ticket: u64,
    pub(crate) next_generation: u32,
    completions: VecDeque<(Ticket, Completion)>,
    /// Loads waiting until the pending batch is written.
    parked_loads: Vec<(Ticket, MessageId, u64)>,
    poisoned: Option<Box<str>>,
    /// Messages that lost their blob, found at the start.
    pub(crate) lost_bodies: BTreeSet<u64>,
    status: SpoolStatus,
}

/// A batch that is being written.
#[derive(Debug)]
struct Commit {
    ticket: IoTicket,
    /// The tickets to complete, with the position of each one's first record.
    submits: Vec<(Ticket, u64)>,
    dropped_blobs: Vec<BlobId>,
    records_count: u64,
    bytes: u64,
    /// Start of the batch: data from here on cannot be read yet.
    offset: u64,
}

/// A batch waiting for disk space or a descriptor.
#[derive(Debug)]
struct Stalled {
    /// `None` during a retry.
    io: Option<Io>,
    /// A retry is due.
    due: bool,
    /// Refusal for submits that would have to wait behind it.
    refusal: Refusal,
}

/// Purpose of an operation of the bulk lane.
#[derive(Debug)]
enum BulkPurpose {
    Load { ticket: Ticket, id: MessageId, segment: u32, offset: u64 },
    BlobRead { ticket: Ticket },
    Blob(BlobIo),
    Zero { generation: u32, done: u64 },
    NameSpare { generation: u32 },
    NameSegment { key: SegmentKey },
    Retire { generation: u32, spare: bool },
    RemoveUnfinished,
    Register,
    Space,
    CompactionRead,
    CompactionScan,
}

impl Spool {
    pub(crate) fn new(config: SpoolConfig, writer: Writer, live: Live) -> Spool {
        let blobs = Blobs::new(live.next_blob);
        Spool {
            config,
            live,
            writer,
            space: Space::default(),
            registrar: Registrar::default(),
            blobs,
            compaction: Compaction::default(),
            memory: None,
            pending: VecDeque::new(),
            pending_accepts_count: 0,
            commit: None,
            stalled: None,
            put_off: Vec::new(),
            buffer: None,
            bulk: VecDeque::new(),
            waiting: BTreeMap::new(),
            next_ticket: 0,
            next_generation: 1,
            completions: VecDeque::new(),
            parked_loads: Vec::new(),
            poisoned: None,
            lost_bodies: BTreeSet::new(),
            status: SpoolStatus::default(),
        }
    }

    pub(crate) fn in_memory(config: SpoolConfig) -> Spool {
        let key = SegmentKey { generation: 0, salt: 0 };
        let writer = Writer::new(&config, key, 0, SegmentEnd::default(), (0, 1));
        let live = Live { next_sequence: 1, next_blob: 1, ..Live::default() };
        let mut spool = Spool::new(config, writer, live);
        spool.memory = Some(Memory::default());
        spool
    }

    fn is_sync(&self) -> bool {
        self.config.durability == Durability::Sync
    }

    /// First message sequence that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.live.next_sequence
    }

    /// First blob number that was never used in this log. The caller counts on from here.
    #[must_use]
    pub fn next_blob(&self) -> u64 {
        self.live.next_blob
    }

    /// Call about twice a second: checks for disk space used or freed by other programs.
    pub fn handle_tick(&mut self) {
        if self.poisoned.is_some() {
            return;
        }
        Compaction::handle_tick(&mut self.live);
        self.ask_for_space();
        self.bulk.extend(std::mem::take(&mut self.put_off));
        if let Some(stalled) = &mut self.stalled {
            stalled.due = true;
        }
    }

    /// The pending batch, and everything after it, waits for disk space or descriptors.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// The next batch contains an accept with a waiting client. Without one it may be delayed by a few milliseconds to
    /// gather more.
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        self.pending_accepts_count > 0
    }

    /// Free space below which accepts are refused. It is at least the size of a segment, because no other can be
    /// created with less.
    fn reserve_bytes(&self) -> u64 {
        self.config.reserve_bytes.max(self.config.segment_bytes)
    }

    fn submit_bytes_max(&self) -> u64 {
        Writer::submit_bytes_max(self.config.segment_bytes, self.config.block_bytes)
    }

    /// Approximate bytes that can be written without preparing another segment.
    fn room_bytes(&self) -> u64 {
        self.writer.room_bytes() + self.space.ready_count() as u64 * self.config.segment_bytes
    }

    /// The next operation of the bulk lane.
    pub fn poll_bulk_io(&mut self) -> Option<Io> {
        self.bulk.pop_front()
    }

    /// Returns the next operation of either lane. Taking a log operation closes the batch: hand in all pending requests
    /// first.
    pub fn poll_io(&mut self) -> Option<Io> {
        self.poll_bulk_io().or_else(|| self.poll_log_io())
    }

    /// The next answer to a request, with its ticket.
    pub fn poll_completion(&mut self) -> Option<(Ticket, Completion)> {
        self.completions.pop_front()
    }

    /// Returns true if no requested operation is pending or waiting to be written. Background work (preparing segments,
    /// compaction) may be interrupted at any time.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let asked = |waiting: &BulkPurpose| {
            matches!(
                waiting,
                BulkPurpose::Load { .. } | BulkPurpose::BlobRead { .. } | BulkPurpose::Blob(_)
            )
        };
        self.commit.is_none()
            && self.pending.is_empty()
            && self.completions.is_empty()
            && self.parked_loads.is_empty()
            && !self.waiting.values().any(asked)
    }

    /// Returns the status of the log.
    #[must_use]
    pub fn status(&self) -> SpoolStatus {
        let segments = self.live.segments.map.values();
        let spares = self.space.ready_count() as u64;
        SpoolStatus {
            live_count: self.live_count(),
            damaged_count: self.lost_bodies_count(),
            segments_count: self.live.segments.map.len() as u64,
            spares_count: spares,
            segment_file_bytes: segments.clone().map(|segment| segment.length).sum::<u64>()
                + spares * self.config.segment_bytes,
            live_bytes: segments.map(|segment| segment.live_bytes).sum(),
            blobs_count: self.live.blobs.len() as u64 + self.blobs.count(),
            free_bytes: self.memory.is_none().then_some(self.space.free_bytes),
            full: self.is_full(),
            poisoned: self.poisoned.clone(),
            pending_count: self.pending.len() as u64,
            compacted_bytes: self.compaction.written_bytes,
            index_bytes: self.live.index.bytes(),
            ..self.status.clone()
        }
    }

    /// Messages with open recipients.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        self.live.index.count()
    }

    /// Returns true if accepts are refused because the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.memory.is_none()
            && (self.stalled.is_some() || self.space.is_full(self.reserve_bytes()))
    }

    fn lost_bodies_count(&self) -> u64 {
        let is_live = |id: &&u64| self.live.index.get(**id).is_some();
        self.lost_bodies.iter().filter(is_live).count() as u64
    }

    fn complete(&mut self, ticket: Ticket, completion: Completion) {
        self.completions.push_back((ticket, completion));
    }

    fn ticket(&mut self) -> IoTicket {
        self.next_ticket += 1;
        IoTicket(self.next_ticket)
    }

    fn push_bulk(&mut self, op: Op, waiting: BulkPurpose) {
        let ticket = self.ticket();
        self.waiting.insert(ticket, waiting);
        self.bulk.push_back(Io { ticket, op });
    }

    /// Makes no more promises: the content of the disk is unknown.
    fn poison(&mut self, error: &DiskError) {
        self.poisoned.get_or_insert_with(|| error.text.clone());
        self.refuse_pending(Refusal::Poisoned, SubmitKind::Settle);
    }
}
