//! The state at the end of the log: live messages and the accounting of segments. Recovery and the commit of new
//! records use the same functions here.

use crate::codec::{AcceptHead, Residue, Retry, SmallRecord, cut};
use crate::index::{Index, IndexEntry};
use crate::reasons::Reasons;
use crate::record::{Attempt, BlobId, Settle, State};
use crate::table::SegmentTable;
use mail::MessageId;
use std::collections::BTreeMap;

/// Hold reason of a message with an unknown delivery state.
const STATE_LOST: &str = "its delivery state is damaged: recipients may already have the message";

/// The state that results from all records.
#[derive(Debug, Default)]
pub(crate) struct Live {
    pub index: Index,
    pub segments: SegmentTable,
    pub reasons: Reasons,
    /// Blobs of live messages.
    pub blobs: BTreeMap<u64, BlobId>,
    /// Message sequences from here on were never used.
    pub next_sequence: u64,
    /// Blob numbers from here on were never used.
    pub next_blob: u64,
}

impl Live {
    /// Applies an accept or copy at `head.offset` of segment `segment`. It replaces an older place; a copy also
    /// replaces the state, which follows it in the log.
    pub(crate) fn accept(&mut self, segment: u32, head: &AcceptHead) {
        let id = head.id.0;
        let count = head.recipients_count as u16;
        self.next_sequence = self.next_sequence.max(head.id.sequence() + 1);
        let place = (segment, head.offset as u32, head.length);
        if let Some(entry) = self.index.get_mut(id) {
            let (old, length, stated) = (entry.segment, entry.length, entry.stated());
            (entry.segment, entry.offset, entry.length) = place;
            if head.copied {
                entry.reset(count, &mut self.reasons);
            }
            entry.set_stated(segment);
            self.segments.drop_live(old, length);
            self.segments.move_statement(Some(stated), Some(segment));
            self.segments.depend(segment, old);
        } else {
            self.index.insert(id, IndexEntry::new(place, count, head.blob.is_some()));
            self.segments.move_statement(None, Some(segment));
        }
        if let Some(blob) = head.blob {
            self.next_blob = self.next_blob.max(blob.0.saturating_add(1));
            self.blobs.insert(id, blob);
        }
        self.segments.add_live(segment, id, head.length);
    }

    /// As [`Live::accept`], for a copy with lost state. If the message's earlier place exists, that one and its state
    /// are used. Otherwise the message is held: it may have been held before, and recipients may be settled.
    pub(crate) fn accept_lone_copy(&mut self, segment: u32, head: &AcceptHead) {
        if self.index.get(head.id.0).is_some() {
            return;
        }
        self.accept(segment, head);
        if let Some(entry) = self.index.get_mut(head.id.0) {
            entry.note_more_said();
            entry.set_hold(Some(STATE_LOST), &mut self.reasons);
        }
    }

    /// Applies a record without content, `bytes` long, in segment `segment`. Returns the blob that became unneeded, if
    /// any.
    pub(crate) fn small(
        &mut self,
        segment: u32,
        record: &SmallRecord,
        bytes: u64,
    ) -> Option<BlobId> {
        self.note_small(segment, record.id(), bytes);
        match record {
            SmallRecord::Attempt(attempt) => self.attempt(segment, attempt, bytes),
            SmallRecord::Settle(settle) => return self.settle(settle),
            SmallRecord::State(state) => self.state(state),
            SmallRecord::Residue(residue) => return self.residue(segment, residue, bytes),
            SmallRecord::Gone(id) => return self.remove(*id),
        }
        None
    }

    /// Counts a record without content, before it is applied. A record about a message without an accept creates no
    /// dependency.
    pub(crate) fn note_small(&mut self, segment: u32, id: MessageId, bytes: u64) {
        if let Some(segment) = self.segments.get_mut(segment) {
            segment.small_bytes += bytes;
        }
        if let Some(entry) = self.index.get(id.0) {
            self.segments.depend(segment, entry.segment);
        }
    }

    /// Applies an attempt with a record of `bytes` bytes in segment `segment`.
    pub(crate) fn attempt(&mut self, segment: u32, attempt: &Attempt, bytes: u64) {
        let states = |entry: &IndexEntry| entry.is_stated_by_attempt(&attempt.recipients);
        let is_all = self.index.get(attempt.id.0).is_some_and(states);
        self.note_statement(segment, attempt.id, bytes, is_all);
        self.tried(attempt);
    }

    /// Counts a state record in segment `segment`. If it contains the complete state (`is_all`), earlier ones are not
    /// needed.
    pub(crate) fn note_statement(&mut self, segment: u32, id: MessageId, bytes: u64, is_all: bool) {
        if let Some(segment) = self.segments.get_mut(segment) {
            segment.statements_bytes += bytes;
            segment.statements_count += 1;
        }
        if is_all && let Some(entry) = self.index.get_mut(id.0) {
            let old = entry.stated();
            entry.set_stated(segment);
            self.segments.move_statement(Some(old), Some(entry.stated()));
        }
    }

    /// Applies the effect of an attempt, whatever its encoding.
    pub(crate) fn tried(&mut self, attempt: &Attempt) {
        let Some(entry) = self.index.get_mut(attempt.id.0) else { return };
        let retry = Retry { attempts: attempt.attempts, next_try: Some(attempt.next_try) };
        entry.set_retry(&attempt.recipients, retry);
        entry.set_reason(&attempt.reason, &mut self.reasons);
    }

    pub(crate) fn settle(&mut self, settle: &Settle) -> Option<BlobId> {
        let entry = self.index.get_mut(settle.id.0)?;
        for &(index, _) in &settle.recipients {
            entry.close(index);
        }
        entry.note_more_said();
        if entry.open_count() == 0 { self.remove(settle.id) } else { None }
    }

    pub(crate) fn state(&mut self, state: &State) {
        let Some(entry) = self.index.get_mut(state.id.0) else { return };
        entry.note_more_said();
        if let Some(hold) = &state.hold {
            entry.set_hold(hold.as_deref().map(cut), &mut self.reasons);
        }
        if let Some(next_try) = state.next_try {
            entry.set_next_try(next_try);
        }
        if let Some(overrides) = &state.overrides {
            entry.set_overrides(overrides.as_deref().map(|text| cut(text).into()));
        }
        if let Some(sent) = state.delay_notice_sent {
            entry.set_delay_notice_sent(sent);
        }
    }

    /// The known state of a message that has a record of `bytes` bytes in segment `segment`.
    pub(crate) fn residue(
        &mut self,
        segment: u32,
        residue: &Residue,
        bytes: u64,
    ) -> Option<BlobId> {
        self.note_statement(segment, MessageId(residue.id), bytes, true);
        let entry = self.index.get_mut(residue.id)?;
        entry.note_more_said();
        entry.set_residue(residue, &mut self.reasons);
        if entry.open_count() == 0 { self.remove(MessageId(residue.id)) } else { None }
    }

    /// The message is settled entirely.
    pub(crate) fn remove(&mut self, id: MessageId) -> Option<BlobId> {
        let entry = self.index.remove(id.0)?;
        self.segments.drop_live(entry.segment, entry.length);
        self.segments.move_statement(Some(entry.stated()), None);
        entry.release(&mut self.reasons);
        self.blobs.remove(&id.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_blob_number_of_all_is_read() {
        let mut live = Live::default();
        let blob = Some(BlobId(u64::MAX));
        let id = MessageId(1);
        let head =
            AcceptHead { id, recipients_count: 1, blob, copied: false, offset: 0, length: 90 };
        live.accept(1, &head);
        assert_eq!(live.next_blob, u64::MAX);
    }
}
