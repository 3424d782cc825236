//! Admission to segments: urgent records are written while any space is left, and every submit is either written or
//! refused. `docs/spool.md`, "Space", states the rules.

use super::Spool;
use crate::batch::BATCH_HEADER_BYTES;
use crate::io::SealWrite;
use crate::record::{Record, SettleKind, tag};
use crate::request::{Completion, Refusal, Ticket};
use crate::writer::Batch;
use std::collections::VecDeque;

/// Approximate bytes of a settle and its index entry in a large batch; a single one takes a block.
const SETTLE_BYTES: u64 = 128;

/// Size of a batch without records.
const EMPTY_BYTES: u64 = BATCH_HEADER_BYTES as u64;

impl Spool {
    /// Ensures that the first waiting submit fits into the active segment. Returns `None` if none is waiting or no
    /// segment is available, otherwise the least urgent kind that may be written.
    pub(super) fn make_room(&mut self) -> Option<(Option<SealWrite>, SubmitKind)> {
        if let Some(bytes) = self.next_copy_bytes() {
            if self.writer.fits(EMPTY_BYTES, bytes) {
                return Some((None, SubmitKind::Accept));
            }
            if let Some(begun) = self.begin_next(SubmitKind::Settle) {
                return Some(begun);
            }
            // No caller waits for a copy, so no submit waits behind it. If no space is expected, a different segment
            // with fewer needed bytes may fit.
            if !self.space.is_more_coming() {
                self.compaction.give_up(self.room_bytes());
            }
        }
        let mut allowed = SubmitKind::Accept;
        loop {
            let (bytes, kind) = self.first_pending(allowed)?;
            if self.passes(kind, EMPTY_BYTES, bytes) {
                return Some((None, allowed));
            }
            if let Some(begun) = self.begin_next(kind) {
                return Some(begun);
            }
            // More urgent submits do not wait behind one that does not fit. If even settles do not fit, they wait; all
            // other kinds are refused.
            let more_urgent = kind.above();
            self.wait_or_refuse(kind.max(SubmitKind::Report));
            allowed = more_urgent?;
        }
    }

    /// Bytes needed by the next copy of compaction, if any.
    fn next_copy_bytes(&mut self) -> Option<u64> {
        loop {
            let bytes = self.compaction.first_bytes(&self.live)?;
            if bytes <= self.submit_bytes_max() / 3 * 4 {
                return Some(bytes);
            }
            self.compaction.skip_first();
        }
    }

    /// Begins the next segment, if available and allowed for `kind`. The last available segment is reserved for
    /// settles, reports and compaction.
    fn begin_next(&mut self, kind: SubmitKind) -> Option<(Option<SealWrite>, SubmitKind)> {
        let ample = self.space.may_accept_roll(self.reserve_bytes(), self.config.segment_bytes);
        if kind > SubmitKind::Report && !ample {
            return None;
        }
        let seal = self.roll()?;
        Some((Some(seal), if ample { SubmitKind::Accept } else { SubmitKind::Report }))
    }

    fn first_pending(&self, allowed: SubmitKind) -> Option<(u64, SubmitKind)> {
        let first = self.pending.iter().find(|submit| submit.kind <= allowed)?;
        Some((first.bytes + self.restated_bytes(first).unwrap_or(0), first.kind))
    }

    /// Additional bytes of a submit of attempts if they restate the complete state. `None` if that is too much or
    /// uncertain: they are then written without the state.
    fn restated_bytes(&self, submit: &Submit) -> Option<u64> {
        let mut all = 0;
        for record in &submit.records {
            let Record::Attempt(attempt) = record else { return None };
            all += self.writer.restated_bytes(&self.live, attempt).unwrap_or(0) as u64;
        }
        (all <= self.config.segment_bytes / 16).then_some(all)
    }

    /// Returns true if a submit may be written into the active segment, after `used` bytes of a batch.
    fn passes(&self, kind: SubmitKind, used: u64, bytes: u64) -> bool {
        self.writer.fits(used, bytes)
            && (kind == SubmitKind::Settle || self.leaves_reserve(used, bytes))
    }

    /// Returns true if `bytes`, after `used` bytes of the batch, leave enough for compaction and for the settles of
    /// live messages, assuming that no further segment becomes available.
    fn leaves_reserve(&self, used: u64, bytes: u64) -> bool {
        if self.space.has_next() {
            return true;
        }
        let live = self.live.index.count();
        let crowd = live.saturating_mul(SETTLE_BYTES);
        // Settles free segments as they go, so not every settle needs a block.
        let lone = live.saturating_mul(self.config.block_bytes).min(self.writer.length() / 2);
        self.writer.leaves(used, bytes, crowd.max(lone))
    }

    /// Submits of this kind wait for a segment in preparation; without one they are refused.
    fn wait_or_refuse(&mut self, kind: SubmitKind) {
        if self.space.is_more_coming() {
            return;
        }
        self.space.exhausted = true;
        self.refuse_pending(Refusal::Full, kind);
        self.ask_for_space();
    }

    /// Refuses waiting submits of `kind` and less urgent ones.
    pub(super) fn refuse_pending(&mut self, refusal: Refusal, kind: SubmitKind) {
        for submit in std::mem::take(&mut self.pending) {
            if submit.kind >= kind {
                self.complete(submit.ticket, Completion::Refused(refusal));
                self.pending_accepts_count -= usize::from(submit.kind.has_accept());
            } else {
                self.pending.push_back(submit);
            }
        }
    }

    /// Moves waiting submits that are `allowed` into the batch while they fit.
    pub(super) fn add_pending(
        &mut self,
        batch: &mut Batch,
        allowed: SubmitKind,
    ) -> Vec<(Ticket, u64)> {
        let mut submits = Vec::with_capacity(self.pending.len().min(1_024));
        let mut passed = VecDeque::new();
        while let Some(submit) = self.pending.pop_front() {
            if submit.kind > allowed {
                passed.push_back(submit);
                continue;
            }
            let is_first = batch.records_count() == 0;
            let is_full = batch.length() >= self.config.batch_bytes_max as u64;
            let restated = self.restated_bytes(&submit);
            let bytes = submit.bytes + restated.unwrap_or(0);
            if !self.writer.fits(batch.length(), bytes) || (is_full && !is_first) {
                self.pending.push_front(submit);
                break;
            }
            if !self.passes(submit.kind, batch.length(), bytes) {
                passed.push_back(submit);
                continue;
            }
            self.pending_accepts_count -= usize::from(submit.kind.has_accept());
            if let Err(refusal) = self.check_submit(&submit.records) {
                self.complete(submit.ticket, Completion::Refused(refusal));
                continue;
            }
            let restates = restated.is_some();
            let position = self.writer.add_submit(&mut self.live, batch, &submit.records, restates);
            submits.push((submit.ticket, position));
        }
        while let Some(submit) = passed.pop_back() {
            self.pending.push_front(submit);
        }
        submits
    }
}

/// A submit waiting to be written.
#[derive(Debug)]
pub(super) struct Submit {
    pub ticket: Ticket,
    pub records: Vec<Record>,
    /// Records and index entries, at most.
    pub bytes: u64,
    pub kind: SubmitKind,
}

/// Effect of a submit on space, the more urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SubmitKind {
    /// Ends recipients and adds no message, so it frees space. Refused only if the disk fails.
    Settle,
    /// Ends recipients that cannot be settled without the accompanying message, or adds an alert. The sender limits
    /// alerts to a few small ones.
    Report,
    /// Adds no message and frees no space: attempts, notices, an operator's hold.
    Advice,
    /// It adds a message.
    Accept,
}

impl SubmitKind {
    pub(super) fn of(records: &[Record]) -> SubmitKind {
        let is_failed = |kind: SettleKind| matches!(kind, SettleKind::Failed | SettleKind::Expired);
        let (mut accepts, mut settles, mut fails, mut is_alert) = (false, false, false, false);
        for record in records {
            match record {
                Record::Accept(accept) => {
                    accepts = true;
                    is_alert |= accept.meta.fields.iter().any(|(field, _)| *field == tag::ALERT);
                }
                Record::Settle(settle) => {
                    settles = true;
                    fails |= settle.recipients.iter().any(|&(_, kind)| is_failed(kind));
                }
                Record::Attempt(_) | Record::State(_) => {}
            }
        }
        match (accepts, settles) {
            (false, true) => SubmitKind::Settle,
            (false, false) => SubmitKind::Advice,
            (true, _) if fails || is_alert => SubmitKind::Report,
            (true, _) => SubmitKind::Accept,
        }
    }

    pub(super) fn has_accept(self) -> bool {
        matches!(self, SubmitKind::Report | SubmitKind::Accept)
    }

    /// The next kind of higher urgency.
    pub(super) fn above(self) -> Option<SubmitKind> {
        match self {
            SubmitKind::Settle => None,
            SubmitKind::Report => Some(SubmitKind::Settle),
            SubmitKind::Advice => Some(SubmitKind::Report),
            SubmitKind::Accept => Some(SubmitKind::Advice),
        }
    }
}
