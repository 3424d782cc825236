//! The live index: a small entry for each message with open recipients.
//!
//! Entries are in vectors of up to 256 neighbours by id. Because ids increase, the vectors fill up completely, no table
//! is ever rehashed, and a message takes 48 bytes and a share of a tree node.

use crate::codec::{Residue, Retry};
use crate::reasons::{ReasonNumber, Reasons};
use mail::Wall;
use std::collections::BTreeMap;

const DELAY_NOTICE: u8 = 1;
const BLOB: u8 = 2;
/// State other than attempts was recorded since its newest accept or copy.
const MORE_SAID: u8 = 4;
/// Maximum number of recipients without a separate bitmap.
const INLINE_MAX: u16 = 64;
/// State of a live message.
#[derive(Debug)]
pub(crate) struct IndexEntry {
    /// Generation of the segment with its newest accept record.
    pub segment: u32,
    /// Offset in the segment, in bytes.
    pub offset: u32,
    /// Length, header included.
    pub length: u32,
    /// Reason of the last failed attempt.
    reason: ReasonNumber,
    /// Reason of the hold; see also [`More`].
    hold: ReasonNumber,
    /// Number of generations after `segment` of the newest record with the complete state.
    stated_after: u16,
    /// Open recipients, when there are at most 64.
    open: u64,
    /// Attempts (16 bits) and next try plus one (48 bits, ms) of all recipients without a separate entry in `more`.
    retry: u64,
    more: Option<Box<More>>,
    recipients_count: u16,
    flags: u8,
    low: u8,
}

/// Fields that few messages need.
#[derive(Debug, Default)]
struct More {
    /// Reason of the hold, if the table of interned reasons is full.
    hold: Option<Box<str>>,
    overrides: Option<Box<str>>,
    /// Open recipients if there are more than 64.
    wide: Option<Box<[u64]>>,
    /// Recipients with an attempt count or next try of their own, ascending.
    retries: Vec<(u32, Retry)>,
}

const NEXT_TRY_BITS: u32 = 48;
const NEXT_TRY_MASK: u64 = (1 << NEXT_TRY_BITS) - 1;

fn pack(retry: Retry) -> u64 {
    let next = retry.next_try.map_or(0, |wall| wall.0.saturating_add(1).min(NEXT_TRY_MASK));
    u64::from(retry.attempts) << NEXT_TRY_BITS | next
}

fn unpack(packed: u64) -> Retry {
    let next_try = (packed & NEXT_TRY_MASK).checked_sub(1).map(Wall);
    Retry { attempts: (packed >> NEXT_TRY_BITS) as u16, next_try }
}

impl IndexEntry {
    pub(crate) fn new(at: (u32, u32, u32), recipients_count: u16, blob: bool) -> IndexEntry {
        let mut entry = IndexEntry {
            segment: at.0,
            offset: at.1,
            length: at.2,
            reason: ReasonNumber::default(),
            hold: ReasonNumber::default(),
            stated_after: 0,
            open: 0,
            retry: 0,
            more: None,
            recipients_count,
            flags: if blob { BLOB } else { 0 },
            low: 0,
        };
        for index in 0..u32::from(recipients_count) {
            entry.set_open(index, true);
        }
        entry
    }

    pub(crate) fn recipients_count(&self) -> u32 {
        u32::from(self.recipients_count)
    }

    fn words(&self) -> &[u64] {
        match self.more.as_ref().and_then(|more| more.wide.as_deref()) {
            Some(wide) => wide,
            None => std::slice::from_ref(&self.open),
        }
    }

    pub(crate) fn is_open(&self, index: u32) -> bool {
        let word = self.words().get(index as usize / 64).copied().unwrap_or(0);
        index < self.recipients_count() && word >> (index % 64) & 1 != 0
    }

    fn set_open(&mut self, index: u32, open: bool) {
        if index >= self.recipients_count() {
            return;
        }
        let word = if self.recipients_count <= INLINE_MAX {
            Some(&mut self.open)
        } else {
            let words = usize::from(self.recipients_count).div_ceil(64);
            let more = self.more.get_or_insert_default();
            let wide = more.wide.get_or_insert_with(|| vec![0; words].into_boxed_slice());
            wide.get_mut(index as usize / 64)
        };
        if let Some(word) = word {
            let bit = 1_u64 << (index % 64);
            *word = if open { *word | bit } else { *word & !bit };
        }
    }

    /// The recipient is done with; whether it was open.
    pub(crate) fn close(&mut self, index: u32) -> bool {
        let was_open = self.is_open(index);
        if was_open {
            self.set_open(index, false);
        }
        was_open
    }

    pub(crate) fn open_count(&self) -> u32 {
        self.words().iter().map(|word| word.count_ones()).sum()
    }

    /// Open recipients, ascending.
    pub(crate) fn open(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.recipients_count()).filter(|&index| self.is_open(index))
    }

    pub(crate) fn retry(&self, index: u32) -> Retry {
        let more = self.more.as_ref().map_or(&[][..], |more| &more.retries);
        match more.binary_search_by_key(&index, |&(index, _)| index) {
            Ok(at) => more.get(at).map_or_else(Retry::default, |&(_, retry)| retry),
            Err(_) => unpack(self.retry),
        }
    }

    /// Sets the retry state of the open recipients among `indices`.
    pub(crate) fn set_retry(&mut self, indices: &[u32], retry: Retry) {
        let count = indices.iter().filter(|&&index| self.is_open(index)).count();
        if count as u32 == self.open_count() {
            self.retry = pack(retry);
            if let Some(more) = &mut self.more {
                more.retries = Vec::new();
            }
        } else {
            for &index in indices {
                if self.is_open(index) {
                    self.set_one_retry(index, retry);
                }
            }
        }
        self.tidy();
    }

    fn set_one_retry(&mut self, index: u32, retry: Retry) {
        let retries = &mut self.more.get_or_insert_default().retries;
        match retries.binary_search_by_key(&index, |&(index, _)| index) {
            Ok(at) => {
                if let Some(slot) = retries.get_mut(at) {
                    slot.1 = retry;
                }
            }
            Err(at) => retries.insert(at, (index, retry)),
        }
    }

    /// All open recipients are due then.
    pub(crate) fn set_next_try(&mut self, next_try: Wall) {
        let retry = Retry { next_try: Some(next_try), ..unpack(self.retry) };
        self.retry = pack(retry);
        for (_, retry) in self.more.iter_mut().flat_map(|more| &mut more.retries) {
            retry.next_try = Some(next_try);
        }
    }

    pub(crate) fn hold<'a>(&'a self, reasons: &'a Reasons) -> Option<&'a str> {
        let of_its_own = || self.more.as_ref()?.hold.as_deref();
        reasons.text(self.hold).or_else(of_its_own)
    }

    fn is_held(&self) -> bool {
        self.hold.is_some() || self.more.as_ref().is_some_and(|more| more.hold.is_some())
    }

    /// An operator may hold a million messages for one reason, which is stored once.
    pub(crate) fn set_hold(&mut self, hold: Option<&str>, reasons: &mut Reasons) {
        let number = hold.map(|text| reasons.intern(text)).unwrap_or_default();
        reasons.release(self.hold);
        self.hold = number;
        let of_its_own = hold.filter(|_| !number.is_some()).map(Box::from);
        if of_its_own.is_some() || self.more.is_some() {
            self.more.get_or_insert_default().hold = of_its_own;
        }
        self.tidy();
    }

    pub(crate) fn overrides(&self) -> Option<&str> {
        self.more.as_ref()?.overrides.as_deref()
    }

    pub(crate) fn set_overrides(&mut self, overrides: Option<Box<str>>) {
        if overrides.is_some() || self.more.is_some() {
            self.more.get_or_insert_default().overrides = overrides;
        }
        self.tidy();
    }

    pub(crate) fn delay_notice_sent(&self) -> bool {
        self.flags & DELAY_NOTICE != 0
    }

    pub(crate) fn set_delay_notice_sent(&mut self, sent: bool) {
        self.flags = if sent { self.flags | DELAY_NOTICE } else { self.flags & !DELAY_NOTICE };
    }

    /// Generation of the segment with the newest record of its complete state; older records are not needed. Never too
    /// high.
    pub(crate) fn stated(&self) -> u32 {
        self.segment.saturating_add(u32::from(self.stated_after))
    }

    pub(crate) fn set_stated(&mut self, segment: u32) {
        let after = segment.saturating_sub(self.segment);
        self.stated_after = u16::try_from(after).unwrap_or(u16::MAX);
    }

    /// State that an attempt does not contain was recorded.
    pub(crate) fn note_more_said(&mut self) {
        self.flags |= MORE_SAID;
    }

    /// Returns true if an attempt at `indices` contains the complete state beside the accept. It does not once other
    /// state was recorded: a recovery may read the older record without the one that revoked it.
    pub(crate) fn is_stated_by_attempt(&self, indices: &[u32]) -> bool {
        self.flags & MORE_SAID == 0
            && self.open_count() == self.recipients_count()
            && indices.len() == self.recipients_count() as usize
    }

    /// Frees unneeded memory.
    fn tidy(&mut self) {
        if self.more.as_ref().is_some_and(|more| {
            more.hold.is_none()
                && more.overrides.is_none()
                && more.wide.is_none()
                && more.retries.is_empty()
        }) {
            self.more = None;
        }
    }

    /// Resets all but the location: all recipients are open.
    pub(crate) fn reset(&mut self, recipients_count: u16, reasons: &mut Reasons) {
        reasons.release(self.reason);
        reasons.release(self.hold);
        let mut fresh =
            IndexEntry::new((self.segment, self.offset, self.length), recipients_count, false);
        fresh.flags = self.flags & BLOB;
        fresh.low = self.low;
        *self = fresh;
    }

    /// The complete state besides the accept.
    pub(crate) fn residue(&self, id: u64, reasons: &Reasons) -> Residue {
        let retries = self.more.as_ref().map_or(&[][..], |more| &more.retries);
        Residue {
            id,
            open: self.open().collect(),
            retry: unpack(self.retry),
            retries: retries.iter().filter(|(index, _)| self.is_open(*index)).copied().collect(),
            hold: self.hold(reasons).map(Box::from),
            overrides: self.overrides().map(Box::from),
            delay_notice_sent: self.delay_notice_sent(),
            reason: reasons.text(self.reason).map(Box::from),
        }
    }

    /// Returns true without state besides the accept.
    pub(crate) fn is_fresh(&self) -> bool {
        self.retry == 0
            && !self.reason.is_some()
            && self.flags & DELAY_NOTICE == 0
            && self.open_count() == self.recipients_count()
            && !self.is_held()
            && self
                .more
                .as_ref()
                .is_none_or(|more| more.overrides.is_none() && more.retries.is_empty())
    }

    /// The opposite of [`IndexEntry::residue`].
    pub(crate) fn set_residue(&mut self, residue: &Residue, reasons: &mut Reasons) {
        let mut open = residue.open.iter().copied().peekable();
        for index in 0..self.recipients_count() {
            let is_open = open.peek() == Some(&index);
            self.set_open(index, is_open);
            if is_open {
                open.next();
            }
        }
        self.retry = pack(residue.retry);
        if let Some(more) = &mut self.more {
            more.retries = Vec::new();
        }
        for &(index, retry) in &residue.retries {
            self.set_one_retry(index, retry);
        }
        self.set_hold(residue.hold.as_deref(), reasons);
        self.set_overrides(residue.overrides.clone());
        self.set_delay_notice_sent(residue.delay_notice_sent);
        self.set_reason(residue.reason.as_deref().unwrap_or(""), reasons);
        self.tidy();
    }

    pub(crate) fn reason<'a>(&self, reasons: &'a Reasons) -> Option<&'a str> {
        reasons.text(self.reason)
    }

    pub(crate) fn set_reason(&mut self, text: &str, reasons: &mut Reasons) {
        let number = reasons.intern(text);
        reasons.release(self.reason);
        self.reason = number;
    }

    /// To be called when the entry has left the index.
    pub(crate) fn release(self, reasons: &mut Reasons) {
        reasons.release(self.reason);
        reasons.release(self.hold);
    }
}

/// All live messages by id.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// By id without its last 8 bits; each vector is in ascending order.
    chunks: BTreeMap<u64, Vec<IndexEntry>>,
    count: u64,
}

impl Index {
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Approximate memory, without the fields that few messages need.
    pub(crate) fn bytes(&self) -> u64 {
        self.count * size_of::<IndexEntry>() as u64 + self.chunks.len() as u64 * 64
    }

    pub(crate) fn get(&self, id: u64) -> Option<&IndexEntry> {
        let chunk = self.chunks.get(&(id >> 8))?;
        chunk.get(chunk.binary_search_by_key(&(id as u8), |entry| entry.low).ok()?)
    }

    pub(crate) fn get_mut(&mut self, id: u64) -> Option<&mut IndexEntry> {
        let chunk = self.chunks.get_mut(&(id >> 8))?;
        let at = chunk.binary_search_by_key(&(id as u8), |entry| entry.low).ok()?;
        chunk.get_mut(at)
    }

    /// Inserts a message that is not in the index yet.
    pub(crate) fn insert(&mut self, id: u64, mut entry: IndexEntry) {
        entry.low = id as u8;
        let chunk = self.chunks.entry(id >> 8).or_default();
        if let Err(at) = chunk.binary_search_by_key(&entry.low, |entry| entry.low) {
            chunk.insert(at, entry);
            self.count += 1;
        }
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<IndexEntry> {
        let chunk = self.chunks.get_mut(&(id >> 8))?;
        let at = chunk.binary_search_by_key(&(id as u8), |entry| entry.low).ok()?;
        let entry = chunk.remove(at);
        self.count -= 1;
        if chunk.is_empty() {
            self.chunks.remove(&(id >> 8));
        } else if chunk.len() * 4 <= chunk.capacity() && chunk.capacity() > 4 {
            chunk.shrink_to(chunk.len() * 2);
        }
        Some(entry)
    }

    /// All ids, ascending.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        let of_chunk = |(&high, chunk): (&u64, &'_ Vec<IndexEntry>)| {
            chunk.iter().map(|entry| high << 8 | u64::from(entry.low)).collect::<Vec<_>>()
        };
        self.chunks.iter().flat_map(of_chunk)
    }

    /// Messages from `id` on with their accept in `segment`, as id, offset and length, up to a total length of
    /// `bytes_max`. Also returns the id to continue at, if there may be more.
    pub(crate) fn in_segment(
        &self,
        segment: u32,
        id: u64,
        bytes_max: u64,
    ) -> (Vec<(u64, u32, u32)>, Option<u64>) {
        let (mut found, mut bytes) = (Vec::new(), 0);
        for (&high, chunk) in self.chunks.range(id >> 8..) {
            for entry in chunk {
                let here = high << 8 | u64::from(entry.low);
                if entry.segment != segment || here < id {
                    continue;
                }
                if bytes >= bytes_max {
                    return (found, Some(here));
                }
                bytes += u64::from(entry.length);
                found.push((here, entry.offset, entry.length));
            }
        }
        (found, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_small() {
        assert!(size_of::<IndexEntry>() <= 48);
    }

    #[test]
    fn wide_messages_close_recipient_by_recipient() {
        let mut entry = IndexEntry::new((1, 2, 3), 200, false);
        assert_eq!(entry.open_count(), 200);
        assert!(entry.close(0) && entry.close(63) && entry.close(64) && entry.close(199));
        assert!(!entry.close(199) && !entry.close(200));
        assert_eq!(entry.open_count(), 196);
        assert!(!entry.is_open(64) && entry.is_open(65));
    }

    #[test]
    fn retries_differ_by_recipient_and_meet_again() {
        let mut entry = IndexEntry::new((1, 2, 3), 3, false);
        let tried = |attempts, at| Retry { attempts, next_try: Some(Wall(at)) };
        entry.set_retry(&[1], tried(1, 10));
        assert_eq!(entry.retry(0), Retry::default());
        assert_eq!(entry.retry(1), tried(1, 10));
        let residue = entry.residue(9, &Reasons::default());
        let mut other = IndexEntry::new((1, 2, 3), 3, false);
        other.set_residue(&residue, &mut Reasons::default());
        assert_eq!(other.retry(1), tried(1, 10));
        entry.set_next_try(Wall(5));
        assert_eq!(entry.retry(1), tried(1, 5));
        entry.set_retry(&[0, 1, 2], tried(2, 20));
        assert_eq!(entry.retry(2), tried(2, 20));
        assert!(entry.more.is_none());
    }

    #[test]
    fn a_million_held_for_one_reason_keep_it_once_and_nothing_of_their_own() {
        let mut reasons = Reasons::default();
        let mut entries: Vec<IndexEntry> =
            (0..3).map(|_| IndexEntry::new((1, 2, 3), 1, false)).collect();
        for entry in &mut entries {
            entry.set_hold(Some("asked by marketing"), &mut reasons);
            assert!(entry.more.is_none() && !entry.is_fresh());
            assert_eq!(entry.hold(&reasons), Some("asked by marketing"));
        }
        let (one, two) = (entries[0].hold, entries[1].hold);
        assert_eq!(one, two);
        // Empty words are words, and so are those for which there is no room.
        entries[0].set_hold(Some(""), &mut reasons);
        assert_eq!(entries[0].hold(&reasons), Some(""));
        entries[1].set_hold(None, &mut reasons);
        assert!(entries[1].is_fresh());
        let texts = (0..1 << 14).map(|n| format!("{n:0512}"));
        let mut fillers: Vec<ReasonNumber> = texts.map(|text| reasons.intern(&text)).collect();
        fillers.push(reasons.intern(&"x".repeat(512 - "asked by marketing".len())));
        entries[0].set_hold(Some("no room"), &mut reasons);
        assert_eq!(entries[0].hold(&reasons), Some("no room"));
        let residue = entries[0].residue(9, &reasons);
        assert_eq!(residue.hold.as_deref(), Some("no room"));
        entries[0].set_hold(None, &mut reasons);
        assert!(entries[0].more.is_none());
        fillers.into_iter().for_each(|number| reasons.release(number));
        entries.into_iter().for_each(|entry| entry.release(&mut reasons));
        assert_eq!(reasons.text(one), None);
    }

    #[test]
    fn ids_in_any_order_are_found_and_removed() {
        let mut index = Index::default();
        let ids: Vec<u64> = (0..2_000).map(|n| n * 7_919 % 2_000).collect();
        for &id in &ids {
            index.insert(id, IndexEntry::new((id as u32, 0, 0), 1, false));
        }
        assert_eq!(index.count(), 2_000);
        assert!(ids.iter().all(|&id| index.get(id).is_some_and(|e| e.segment == id as u32)));
        assert_eq!(index.in_segment(300, 300, 1), (vec![(300, 0, 0)], None));
        assert_eq!(index.in_segment(300, 301, 1), (vec![], None));
        for &id in ids.iter().filter(|id| **id % 3 != 0) {
            assert!(index.remove(id).is_some());
        }
        assert_eq!(index.count(), 667);
        assert!(index.get(3).is_some() && index.get(4).is_none() && index.remove(4).is_none());
    }
}
