//! The log as its driver sees it: requests and finished operations in, operations and completions
//! out.

use crate::admission::{Submit, SubmitKind};
use crate::blob::{BlobIo, Blobs, Step};
use crate::codec;
use crate::compaction::Compaction;
use crate::config::{Durability, SpoolConfig, SpoolStatus};
use crate::disk::{DiskError, DiskErrorKind};
use crate::io::{Io, IoDone, IoTicket, Op, Outcome, SealWrite, WriteBuffer};
use crate::live::Live;
use crate::memory::Memory;
use crate::record::{BlobId, Body, Record};
use crate::register::{Leaving, Registrar};
use crate::request::{Completion, LoadError, Refusal, Request, Ticket};
use crate::segment::{self, Segment, SegmentKey, blob_name};
use crate::space::Space;
use crate::writer::{Batch, Writer};
use bytes::Bytes;
use mail::MessageId;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// One log.
#[derive(Debug)]
pub struct Spool {
    pub(crate) config: SpoolConfig,
    pub(crate) live: Live,
    pub(crate) writer: Writer,
    pub(crate) space: Space,
    pub(crate) registrar: Registrar,
    blobs: Blobs,
    pub(crate) compaction: Compaction,
    pub(crate) memory: Option<Memory>,
    pub(crate) pending: VecDeque<Submit>,
    /// How many of them have an accept.
    pub(crate) pending_accepts_count: usize,
    commit: Option<Commit>,
    /// The batch under way could not be written for want of something; it is tried again.
    stalled: Option<Stalled>,
    /// Other operations that wait for the same.
    put_off: Vec<Io>,
    /// Kept from batch to batch.
    buffer: Option<WriteBuffer>,
    bulk: VecDeque<Io>,
    waiting: BTreeMap<IoTicket, Waiting>,
    next_ticket: u64,
    pub(crate) next_generation: u32,
    completions: VecDeque<(Ticket, Completion)>,
    /// Loads that wait until the batch under way is written.
    parked_loads: Vec<(Ticket, MessageId)>,
    poisoned: Option<Box<str>>,
    /// Messages whose blob was lost at the start.
    pub(crate) lost_bodies: BTreeSet<u64>,
    pub(crate) status: SpoolStatus,
}

/// A batch that is being written.
#[derive(Debug)]
struct Commit {
    ticket: IoTicket,
    /// Whom to tell, and the position of each one's first record.
    submits: Vec<(Ticket, u64)>,
    dropped_blobs: Vec<BlobId>,
    records_count: u64,
    bytes: u64,
    /// Where it begins: nothing from here on can be read yet.
    offset: u64,
}

/// A batch that found no room, or no descriptor, and waits.
#[derive(Debug)]
struct Stalled {
    /// `None` while it is tried again.
    io: Option<Io>,
    /// It may be tried again now.
    due: bool,
    /// What is said to those who would have to wait behind it.
    refusal: Refusal,
}

/// What an operation of the bulk lane was for.
#[derive(Debug)]
pub(crate) enum Waiting {
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
        let writer = Writer::new(&config, key, 0, (0, 0), (0, 1));
        let live = Live { next_sequence: 1, next_blob: 1, ..Live::default() };
        let mut spool = Spool::new(config, writer, live);
        spool.memory = Some(Memory::default());
        spool
    }

    pub(crate) fn is_sync(&self) -> bool {
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

    /// Takes a request.
    pub fn handle_request(&mut self, request: Request) {
        if self.memory.is_some() {
            return self.handle_in_memory(request);
        }
        match request {
            Request::Submit { ticket, records } => self.handle_submit(ticket, records),
            Request::Load { ticket, id } => self.handle_load(ticket, id),
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
                self.push_bulk(op, Waiting::BlobRead { ticket });
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

    /// To be called about twice a second, whatever else happens: looks for room that others took or
    /// gave back.
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

    /// The batch under way waits for room or for descriptors, and with it all else.
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.stalled.is_some()
    }

    /// Free space below which accepts are refused: with less than a segment's no other is made.
    pub(crate) fn reserve_bytes(&self) -> u64 {
        self.config.reserve_bytes.max(self.config.segment_bytes)
    }

    fn handle_in_memory(&mut self, request: Request) {
        if let Some(memory) = &mut self.memory {
            memory.handle_request(&mut self.live, request, &mut self.completions);
        }
    }

    pub(crate) fn complete(&mut self, ticket: Ticket, completion: Completion) {
        self.completions.push_back((ticket, completion));
    }

    /// Whether new mail may come in.
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

    pub(crate) fn submit_bytes_max(&self) -> u64 {
        Writer::submit_bytes_max(self.config.segment_bytes, self.config.block_bytes)
    }

    fn handle_load(&mut self, ticket: Ticket, id: MessageId) {
        let place = self.live.index.get(id.0).map(|e| (e.segment, e.offset, e.length));
        let Some((generation, offset, length)) = place else {
            return self.complete(ticket, Completion::LoadFailed(LoadError::NotFound));
        };
        let offset = u64::from(offset);
        let unwritten = self.commit.as_ref().map(|commit| commit.offset);
        let is_active = generation == self.writer.key.generation;
        let Some(segment) = self
            .live
            .segments
            .get_mut(generation)
            .filter(|_| !is_active || unwritten.is_none_or(|end| offset < end))
        else {
            // It is in the batch that is being written: compaction moves it just now.
            self.parked_loads.push((ticket, id));
            return;
        };
        segment.readers_count += 1;
        let op = Op::Read { file: segment.file.clone(), offset, bytes: length as usize };
        self.push_bulk(op, Waiting::Load { ticket, id, segment: generation, offset });
    }

    /// Somebody waits for the next batch: it holds an accept. Otherwise it may be put off for a few
    /// milliseconds to gather more.
    #[must_use]
    pub fn has_urgent(&self) -> bool {
        self.pending_accepts_count > 0
    }

    /// The next batch, if there is something to write and none is under way. What is submitted
    /// after this goes into the next.
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
            // All that was said is known already, and what is known is durable.
            self.buffer = Some(batch.buffer);
            for (ticket, position) in submits {
                self.complete(ticket, Completion::Durable { position });
            }
            return None;
        }
        Some(self.emit(seal, batch, submits))
    }

    pub(crate) fn roll(&mut self) -> Option<SealWrite> {
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
    pub(crate) fn check_submit(&mut self, records: &[Record]) -> Result<(), Refusal> {
        for (at, record) in records.iter().enumerate() {
            let Record::Accept(accept) = record else { continue };
            let twice = |other: &Record| matches!(other, Record::Accept(o) if o.id == accept.id);
            let before = records.get(..at).unwrap_or(&[]);
            if self.live.index.get(accept.id.0).is_some() || before.iter().any(twice) {
                return Err(Refusal::Misuse("a message id was used twice"));
            }
            let count = accept.envelope.recipients.len();
            if count == 0 || count > codec::RECIPIENTS_MAX {
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

    fn ticket(&mut self) -> IoTicket {
        self.next_ticket += 1;
        IoTicket(self.next_ticket)
    }

    pub(crate) fn push_bulk(&mut self, op: Op, waiting: Waiting) {
        let ticket = self.ticket();
        self.waiting.insert(ticket, waiting);
        self.bulk.push_back(Io { ticket, op });
    }

    /// The next operation of the bulk lane.
    pub fn poll_bulk_io(&mut self) -> Option<Io> {
        self.bulk.pop_front()
    }

    /// The next operation of either lane. Taking a log operation closes the batch, so hand in all
    /// requests that are there before asking.
    pub fn poll_io(&mut self) -> Option<Io> {
        self.poll_bulk_io().or_else(|| self.poll_log_io())
    }

    /// The next answer.
    pub fn poll_completion(&mut self) -> Option<(Ticket, Completion)> {
        self.completions.pop_front()
    }

    /// Nothing that anybody waits for is under way or waits to be written. What goes on in the
    /// background (preparing segments, compaction) may be broken off at any time.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        let asked = |waiting: &Waiting| {
            matches!(waiting, Waiting::Load { .. } | Waiting::BlobRead { .. } | Waiting::Blob(_))
        };
        self.commit.is_none()
            && self.pending.is_empty()
            && self.completions.is_empty()
            && self.parked_loads.is_empty()
            && !self.waiting.values().any(asked)
    }

    /// How the log is doing.
    #[must_use]
    pub fn status(&self) -> SpoolStatus {
        let segments = self.live.segments.map.values();
        let spares = self.space.ready_count() as u64;
        SpoolStatus {
            live_count: self.live.index.count(),
            damaged_count: self.lost_bodies_count(),
            segments_count: self.live.segments.map.len() as u64,
            spares_count: spares,
            segment_file_bytes: segments.clone().map(|segment| segment.length).sum::<u64>()
                + spares * self.config.segment_bytes,
            live_bytes: segments.map(|segment| segment.live_bytes).sum(),
            blobs_count: self.live.blobs.len() as u64 + self.blobs.count(),
            free_bytes: self.memory.is_none().then_some(self.space.free_bytes),
            full: self.memory.is_none()
                && (self.stalled.is_some() || self.space.is_full(self.reserve_bytes())),
            poisoned: self.poisoned.clone(),
            pending_count: self.pending.len() as u64,
            compacted_bytes: self.compaction.written_bytes,
            index_bytes: self.live.index.bytes(),
            ..self.status.clone()
        }
    }

    fn lost_bodies_count(&self) -> u64 {
        let is_live = |id: &&u64| self.live.index.get(**id).is_some();
        self.lost_bodies.iter().filter(is_live).count() as u64
    }

    /// Takes the result of an operation.
    pub fn handle_io_done(&mut self, done: IoDone) {
        let done = match done.result {
            Ok(Outcome::PutOff(op, error)) => {
                return self.put_off(Io { ticket: done.ticket, op: *op }, &error);
            }
            result => IoDone { ticket: done.ticket, result },
        };
        if self.commit.as_ref().is_some_and(|commit| commit.ticket == done.ticket) {
            self.stalled = None;
            if let Some(commit) = self.commit.take() {
                self.handle_commit_done(commit, done.result);
                for (ticket, id) in std::mem::take(&mut self.parked_loads) {
                    self.handle_load(ticket, id);
                }
            }
        } else if let Some(waiting) = self.waiting.remove(&done.ticket) {
            self.handle_bulk_done(waiting, done.result);
        }
        self.drive_blobs();
        self.go_on();
    }

    /// The operation can't be done now. Behind a batch nobody is made to wait who can be told so.
    fn put_off(&mut self, io: Io, error: &DiskError) {
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

    fn handle_commit_done(&mut self, commit: Commit, result: Result<Outcome, DiskError>) {
        match result {
            Ok(outcome) => {
                if let Outcome::Written(mut buffer) = outcome {
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
                    self.push_bulk(op, Waiting::Blob(BlobIo::Remove));
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

    /// No more promises: what the disk holds now is not known.
    pub(crate) fn poison(&mut self, error: &DiskError) {
        self.poisoned.get_or_insert_with(|| error.text.clone());
        self.refuse_pending(Refusal::Poisoned, SubmitKind::Settle);
    }

    fn handle_bulk_done(&mut self, waiting: Waiting, result: Result<Outcome, DiskError>) {
        let sync = self.is_sync();
        match (waiting, result) {
            (Waiting::Load { ticket, id, segment, offset }, result) => {
                self.handle_loaded(ticket, id, (segment, offset), result);
            }
            (Waiting::BlobRead { ticket }, result) => {
                let completion = match result {
                    Ok(Outcome::Data(data)) => Completion::BlobData(data),
                    Ok(Outcome::Wrong(what)) => Completion::LoadFailed(LoadError::Damaged(what)),
                    Err(error) if error.kind == DiskErrorKind::NotFound => {
                        Completion::LoadFailed(LoadError::Damaged(error.text))
                    }
                    Err(error) => Completion::LoadFailed(LoadError::Disk(error.text)),
                    Ok(_) => Completion::LoadFailed(LoadError::NotFound),
                };
                self.complete(ticket, completion);
            }
            (Waiting::Blob(BlobIo::Write { blob, ticket }), result) => {
                self.blobs.handle_written(blob, ticket, result.as_ref().err(), sync);
                if result.is_err() {
                    self.ask_for_space();
                }
            }
            (Waiting::Blob(BlobIo::Sync { blob, ticket }), result) => {
                // No accept names it yet: this blob fails and no more.
                self.blobs.handle_synced(blob, ticket, result.as_ref().err(), sync);
            }
            (Waiting::Blob(BlobIo::Remove) | Waiting::RemoveUnfinished, _) => {}
            (Waiting::Space, result) => self.handle_space(result),
            (Waiting::Register, Ok(outcome)) => {
                self.registrar.handle_written(matches!(outcome, Outcome::Registered(true)));
                self.keep_register();
            }
            (Waiting::Register, Err(error)) => self.poison(&error),
            (Waiting::CompactionRead | Waiting::CompactionScan, result) => match result {
                Ok(Outcome::Many(records)) => self.compaction.handle_read(records),
                Ok(Outcome::Scanned(ids)) => self.compaction.handle_scanned(ids, &self.live),
                _ => self.compaction.handle_failed(&mut self.live),
            },
            (waiting, result) => self.handle_file_done(waiting, result),
        }
    }

    fn handle_loaded(
        &mut self,
        ticket: Ticket,
        id: MessageId,
        place: (u32, u64),
        result: Result<Outcome, DiskError>,
    ) {
        let Some(segment) = self.live.segments.get_mut(place.0) else { return };
        segment.readers_count = segment.readers_count.saturating_sub(1);
        let key = segment.key;
        let completion = match result {
            Ok(Outcome::Data(data)) => match decode(&data, key, place.1, id) {
                Some(mut loaded) => {
                    let entry = self.live.index.get(id.0);
                    let reason = entry.and_then(|entry| entry.reason(&self.live.reasons));
                    loaded.last_reason = reason.map(Box::from);
                    Completion::Loaded(Box::new(loaded))
                }
                None => {
                    let what = format!("{} at {}: bad checksum or form", key.name(), place.1);
                    Completion::LoadFailed(LoadError::Damaged(what.into()))
                }
            },
            Ok(_) => Completion::LoadFailed(LoadError::NotFound),
            Err(error) => Completion::LoadFailed(LoadError::Disk(error.text)),
        };
        self.complete(ticket, completion);
    }

    fn drive_blobs(&mut self) {
        while let Some(step) = self.blobs.poll_step() {
            match step {
                Step::Io(op, io) => self.push_bulk(op, Waiting::Blob(io)),
                Step::Complete(ticket, completion) => self.complete(ticket, completion),
            }
        }
    }

    /// Starts what is due in the background.
    pub(crate) fn go_on(&mut self) {
        if self.poisoned.is_some() || self.memory.is_some() {
            return;
        }
        // Between batches all that is known is durable: only now may anything be thrown away.
        if self.commit.is_none() {
            self.release_segments();
            self.compact();
        }
        self.prepare_segments();
    }

    fn release_segments(&mut self) {
        let generations: Vec<u32> = self
            .live
            .segments
            .map
            .keys()
            .copied()
            .filter(|&generation| {
                self.live.segments.is_releasable(generation)
                    && self.compaction.victim() != Some(generation)
            })
            .collect();
        for generation in generations {
            self.retire(generation);
        }
    }

    fn retire(&mut self, generation: u32) {
        let wanted = self.space.coming_count() < self.config.spare_segments_max;
        let sync = self.is_sync();
        let Some(segment) = self.live.segments.get_mut(generation) else { return };
        segment.releasing = true;
        let from = segment.file.clone();
        let spare = wanted && !segment.damaged && segment.length == self.config.segment_bytes;
        let op = if segment.damaged {
            Op::Rename { from, to: segment::damaged_name(segment.key), sync }
        } else if spare {
            Op::Rename { from, to: segment::spare_name(generation), sync }
        } else {
            Op::Remove { file: from, sync }
        };
        self.space.recycling_count += usize::from(spare);
        self.registrar.leave(Leaving { generation, spare, op });
        self.keep_register();
    }

    /// Writes the register when it has changed, and makes an end of what it no longer names.
    pub(crate) fn keep_register(&mut self) {
        for Leaving { generation, spare, op } in self.registrar.take_struck() {
            self.push_bulk(op, Waiting::Retire { generation, spare });
        }
        self.registrar.note_marks(self.writer.marks(&self.live));
        if let Some(bytes) = self.registrar.poll_write() {
            let op = Op::Register { bytes, sync: self.is_sync() };
            self.push_bulk(op, Waiting::Register);
        }
    }

    /// The last operation, for an orderly stop: notes where the log ends, so that it is noticed if
    /// its last segment is cut or emptied. To be performed after all others; nothing may be
    /// submitted any more. `None` while a batch is under way, or when there is nothing to note.
    pub fn close(&mut self) -> Option<Io> {
        let waits = self.commit.is_some() || self.poisoned.is_some() || self.memory.is_some();
        if waits {
            return None;
        }
        let bytes = self.registrar.closing(self.writer.key.generation, self.writer.offset)?;
        Some(Io { ticket: self.ticket(), op: Op::Register { bytes, sync: self.is_sync() } })
    }

    /// About what can be written without another segment being made.
    pub(crate) fn room_bytes(&self) -> u64 {
        self.writer.room_bytes() + self.space.ready_count() as u64 * self.config.segment_bytes
    }

    fn compact(&mut self) {
        // With space left, only what is really sparse is worth writing again.
        let reserve = self.reserve_bytes();
        let tight = self.space.exhausted
            || self.space.failed
            || self.space.no_room
            || self.space.coming_count() == 0
            || self.space.free_bytes < reserve.saturating_mul(2);
        let percent = if tight { 90 } else { self.config.compact_below_percent };
        // What does not fit is not begun: it would take the last room from the settles.
        let room = if tight { self.room_bytes() } else { u64::MAX };
        self.compaction.choose(&self.live, percent, tight, room);
        if let Some(op) = self.compaction.poll_op(&mut self.live, &self.config) {
            let waiting = match op {
                Op::Scan { .. } => Waiting::CompactionScan,
                _ => Waiting::CompactionRead,
            };
            self.push_bulk(op, waiting);
        } else {
            self.release_segments();
        }
    }
}

/// The message in `data`, which was read at `offset`.
fn decode(data: &Bytes, key: SegmentKey, offset: u64, id: MessageId) -> Option<crate::Loaded> {
    let record = codec::read_record(data, key, offset).ok()?;
    if !matches!(record.kind, codec::kind::ACCEPT | codec::kind::COPY) {
        return None;
    }
    let body = data.slice(codec::RECORD_HEADER_BYTES..record.length as usize);
    codec::read_loaded(&body).filter(|loaded| loaded.id == id)
}
