//! Walks a segment from end to end.

use super::window::{WINDOW_BYTES, Window};
use crate::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::block::{SECTOR_BYTES, u32_at};
use crate::buffer::ZEROS;
use crate::codec::{RawRecord, kind, read_record};
use crate::disk::{Disk, DiskError};
use crate::name::SegmentKey;
use crate::segment::Header;
use std::io::IoSlice;

/// An item found by a walk, in order.
#[derive(Debug)]
pub(crate) enum ScanItem<'a> {
    /// The header of a batch with at least one valid record, or of an index batch.
    Batch(u64, BatchHeader),
    /// A record of the last batch found; index batches are not returned.
    Record(RawRecord<'a>),
    /// A copy, with the state written along with it possibly lost.
    LoneCopy(RawRecord<'a>),
    /// Synced data has changed or is unreadable.
    Damage { offset: u64, bytes: u64, what: String },
}

/// Result of a walk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ScanEnd {
    /// End of the valid data.
    pub end: u64,
    /// Unacknowledged data follows.
    pub torn: bool,
    /// Data before the end has changed, or any sector is unreadable.
    pub damaged: bool,
    /// A sector can't be read.
    pub unreadable: bool,
    /// Everything before here was synced, according to a later batch.
    pub proven: u64,
}

/// A longer record is no evidence of a batch without a header: its length may be arbitrary.
const RECORD_BYTES_MAX: u64 = 4 << 20;

/// Reads a segment from end to end.
///
/// `known_end` is the known end of its data, from its footer or the header of the next segment: everything before was
/// synced.
pub(crate) fn scan(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    length: u64,
    known_end: Option<u64>,
    visit: &mut dyn FnMut(ScanItem<'_>),
) -> Result<ScanEnd, DiskError> {
    Walk::new(disk, file, key, length).scan(known_end, visit)
}

/// A planted fault: as [`scan`], but accepts a torn batch as whole.
#[cfg(feature = "planted")]
pub(crate) fn scan_trusting(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    length: u64,
    known_end: Option<u64>,
    visit: &mut dyn FnMut(ScanItem<'_>),
) -> Result<ScanEnd, DiskError> {
    let mut walk = Walk::new(disk, file, key, length);
    walk.trusts_torn = true;
    walk.scan(known_end, visit)
}

struct Walk<'a> {
    window: Window<'a>,
    key: SegmentKey,
    /// Of the file, in bytes.
    length: u64,
    /// Start of its footer: no batch extends beyond.
    limit: u64,
    #[cfg(feature = "planted")]
    trusts_torn: bool,
}

impl<'a> Walk<'a> {
    fn new(disk: &'a dyn Disk, file: &'a str, key: SegmentKey, length: u64) -> Walk<'a> {
        Walk {
            window: Window::new(disk, file, length),
            key,
            length,
            limit: length.saturating_sub(SECTOR_BYTES),
            #[cfg(feature = "planted")]
            trusts_torn: false,
        }
    }

    fn segment_header(&mut self) -> Result<Option<Header>, DiskError> {
        let block = self.window.get(0, SECTOR_BYTES as usize)?;
        Ok(Header::decode(block, self.key))
    }

    /// The complete walk, as described at [`scan`].
    fn scan(
        &mut self,
        known_end: Option<u64>,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<ScanEnd, DiskError> {
        let mut result = self.scan_readable(known_end, visit)?;
        for (offset, bytes) in self.window.unreadable_runs() {
            (result.damaged, result.unreadable) = (true, true);
            visit(ScanItem::Damage {
                offset,
                bytes,
                what: format!("{bytes} bytes cannot be read"),
            });
        }
        Ok(result)
    }

    /// Treats unreadable sectors as zeros, but not as a torn tail.
    fn scan_readable(
        &mut self,
        known_end: Option<u64>,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<ScanEnd, DiskError> {
        if known_end.is_some_and(|known| known > self.limit) {
            // The file has lost its end: no footer follows its data.
            self.limit = self.length;
        }
        let limit = self.limit;
        let mut result = ScanEnd { end: SECTOR_BYTES, ..ScanEnd::default() };
        if !self.find_first(known_end, &mut result, visit)? {
            return Ok(result);
        }
        while result.end < limit && known_end.is_none_or(|known| result.end < known) {
            let offset = result.end;
            let batch = self.batch(offset)?;
            if let Some((header, true)) = batch {
                visit(ScanItem::Batch(offset, header));
                self.visit_whole(offset, &header, visit)?;
                result.proven = result.proven.max(header.synced_offset);
                result.end += header.total_bytes;
                continue;
            }
            let header = batch.map(|(header, _)| header);
            if !self.pass_invalid(header, known_end.unwrap_or(0).min(limit), &mut result, visit)? {
                break;
            }
        }
        if let Some(known) = known_end.filter(|&known| known > limit) {
            result.damaged = true;
            let bytes = known - limit;
            let what = format!("the file ends {bytes} bytes before its data");
            visit(ScanItem::Damage { offset: limit, bytes, what });
        }
        Ok(result)
    }

    /// Sets `result.end` to the start of the first batch; `false` if none can be read.
    fn find_first(
        &mut self,
        known_end: Option<u64>,
        result: &mut ScanEnd,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<bool, DiskError> {
        if let Some(header) = self.segment_header()? {
            result.end = header.first_offset;
            return Ok(true);
        }
        // Either no data was ever written here, or the header is damaged.
        let known_end = known_end.filter(|&known| known > 0);
        let (found, is_synced) = self.find(SECTOR_BYTES, 0)?;
        let Some(found) = found else {
            if let Some(bytes) = known_end {
                result.damaged = true;
                let what = format!("none of its {bytes} bytes can be read");
                visit(ScanItem::Damage { offset: 0, bytes, what });
            } else {
                result.torn = self.is_begun(0)?;
            }
            return Ok(false);
        };
        let is_readable = !self.window.is_unreadable(0, SECTOR_BYTES);
        if !is_synced && is_readable && known_end.is_none() {
            // The segment header was written together with the first batch, and neither was synced.
            result.torn = true;
            return Ok(false);
        }
        result.damaged = true;
        let what = "the segment's header is damaged".into();
        visit(ScanItem::Damage { offset: 0, bytes: SECTOR_BYTES, what });
        result.end = found;
        Ok(true)
    }

    /// Handles an invalid batch at `result.end`, which may have a valid `header`. If it was synced once it is damage,
    /// and the walk continues after it. Returns `false` for the torn tail, or for space never written.
    fn pass_invalid(
        &mut self,
        header: Option<BatchHeader>,
        known: u64,
        result: &mut ScanEnd,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<bool, DiskError> {
        let offset = result.end;
        let after = offset + header.map_or(SECTOR_BYTES, |header| header.total_bytes);
        let (next, is_synced) = self.find(after, offset)?;
        let is_readable = !self.window.is_unreadable(offset, after);
        if !is_synced && is_readable && known <= offset {
            // Data after damage without a header belongs to the damage.
            result.torn =
                header.is_some() || next.is_some() || (!result.damaged && self.is_begun(offset)?);
            return Ok(false);
        }
        result.damaged = true;
        if let Some(header) = header {
            visit(ScanItem::Batch(offset, header));
            self.salvage(offset, &header, visit)?;
            result.end = after;
        } else {
            result.end = next.unwrap_or(known.max(after));
            let bytes = result.end - offset;
            visit(ScanItem::Damage {
                offset,
                bytes,
                what: format!("{bytes} bytes are not a batch"),
            });
        }
        Ok(true)
    }

    /// Returns true if a batch was begun at `offset` although no header is readable: it was torn, or its header was
    /// damaged. In a reused file only a valid record of this segment proves this; in a new file, any non-zero byte.
    fn is_begun(&mut self, offset: u64) -> Result<bool, DiskError> {
        let (key, limit) = (self.key, self.limit);
        let at = offset + BATCH_HEADER_BYTES as u64;
        let length = u32_at(self.window.get(at, 4)?, 0).map_or(0, u64::from);
        if (1..=RECORD_BYTES_MAX.min(limit.saturating_sub(at))).contains(&length)
            && read_record(self.window.get(at, length as usize)?, key, at).is_ok()
        {
            return Ok(true);
        }
        // The old footer remains until the file is full again.
        let is_new = !self.window.is_unreadable(self.limit, self.length)
            && self.is_blank(self.limit, self.length)?;
        Ok(is_new && !self.is_blank(offset, self.limit)?)
    }

    /// Returns true if all bytes between the two are zero.
    fn is_blank(&mut self, from: u64, to: u64) -> Result<bool, DiskError> {
        let mut at = from;
        while at < to {
            let part = self.window.get(at, (to - at).min(WINDOW_BYTES as u64) as usize)?;
            if part.is_empty() {
                break;
            }
            // Comparing slices is as fast as the memory, comparing single bytes is not.
            if part.chunks(ZEROS.len()).any(|chunk| ZEROS.get(..chunk.len()) != Some(chunk)) {
                return Ok(false);
            }
            at += part.len() as u64;
        }
        Ok(true)
    }

    fn header(&mut self, offset: u64) -> Result<Option<BatchHeader>, DiskError> {
        let (key, limit) = (self.key, self.limit);
        let head = self.window.get(offset, BATCH_HEADER_BYTES)?;
        let header = BatchHeader::decode(head, key, offset);
        Ok(header.filter(|header| {
            offset.checked_add(header.total_bytes).is_some_and(|end| end <= limit)
        }))
    }

    fn payload(&mut self, offset: u64, header: &BatchHeader) -> Result<(&[u8], u64), DiskError> {
        let at = offset + BATCH_HEADER_BYTES as u64;
        Ok((self.window.get(at, header.payload_bytes as usize)?, at))
    }

    /// The batch at `offset`, and true if it is valid as a whole; `None` if its header is invalid.
    fn batch(&mut self, offset: u64) -> Result<Option<(BatchHeader, bool)>, DiskError> {
        let Some(header) = self.header(offset)? else { return Ok(None) };
        let key = self.key;
        let (payload, at) = self.payload(offset, &header)?;
        let whole = is_whole(payload, key, at, &header);
        Ok(Some((header, self.takes_for_whole(whole))))
    }

    /// Returns true if a batch counts as whole; a planted fault includes torn ones.
    fn takes_for_whole(&self, is_whole: bool) -> bool {
        #[cfg(feature = "planted")]
        let is_whole = is_whole || self.trusts_torn;
        is_whole
    }

    fn visit_whole(
        &mut self,
        offset: u64,
        header: &BatchHeader,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<(), DiskError> {
        if header.is_index {
            return Ok(());
        }
        let key = self.key;
        let (payload, at) = self.payload(offset, header)?;
        for record in records(payload, key, at).flatten() {
            visit(ScanItem::Record(record));
        }
        #[cfg(feature = "planted")]
        visit_torn(payload, key, at, header, visit);
        Ok(())
    }

    /// Visits the rest of a damaged batch. In a group with a damaged record only accepts count. A settle without its
    /// DSN would lose the recipient; without the settle the recipient is tried once more.
    fn salvage(
        &mut self,
        offset: u64,
        header: &BatchHeader,
        visit: &mut dyn FnMut(ScanItem<'_>),
    ) -> Result<(), DiskError> {
        let key = self.key;
        let (payload, at) = self.payload(offset, header)?;
        let all: Vec<_> = records(payload, key, at).collect();
        let good = all.iter().flatten().count() as u32;
        let lost = header.records_count.saturating_sub(good).max(1);
        let bytes = header.total_bytes;
        let what = if header.is_index {
            format!("{lost} index entries are damaged")
        } else {
            format!("{lost} of {} records are damaged", header.records_count)
        };
        visit(ScanItem::Damage { offset, bytes, what });
        if header.is_index {
            return Ok(());
        }
        // With the last record missing, the last group may be incomplete too.
        visit_groups(&all, all.len() < header.records_count as usize, visit);
        Ok(())
    }

    /// The first batch header at or after `from`, and true if a later batch proves that the segment was synced beyond
    /// `offset`.
    fn find(&mut self, from: u64, offset: u64) -> Result<(Option<u64>, bool), DiskError> {
        let mut first = None;
        let mut at = from.next_multiple_of(SECTOR_BYTES);
        while at < self.limit {
            let Some(header) = self.header(at)? else {
                at += SECTOR_BYTES;
                continue;
            };
            first = first.or(Some(at));
            if header.synced_offset > offset {
                return Ok((first, true));
            }
            at += header.total_bytes.next_multiple_of(SECTOR_BYTES).max(SECTOR_BYTES);
        }
        Ok((first, false))
    }
}

/// Visits the usable records of a batch with damaged records: whole groups, and from other groups only records that are
/// harmless alone. `is_short`: records are missing at the end.
fn visit_groups(
    all: &[Result<RawRecord<'_>, u64>],
    is_short: bool,
    visit: &mut dyn FnMut(ScanItem<'_>),
) {
    let begins = |item: &Result<RawRecord<'_>, u64>| item.as_ref().is_ok_and(|r| r.first);
    let mut from = 0;
    while from < all.len() {
        let to =
            (from + 1..all.len()).find(|&at| all.get(at).is_some_and(begins)).unwrap_or(all.len());
        let group = all.get(from..to).unwrap_or(&[]);
        let whole = group.iter().all(Result::is_ok)
            && group.first().is_some_and(begins)
            && !(is_short && to == all.len());
        for record in group.iter().flatten() {
            match record.kind {
                _ if whole => visit(ScanItem::Record(*record)),
                kind::ACCEPT => visit(ScanItem::Record(*record)),
                kind::COPY => visit(ScanItem::LoneCopy(*record)),
                _ => {}
            }
        }
        from = to;
    }
}

/// A planted fault: also accepts records of a torn batch with a wrong checksum.
#[cfg(feature = "planted")]
fn visit_torn(
    payload: &[u8],
    key: SegmentKey,
    offset: u64,
    header: &BatchHeader,
    visit: &mut dyn FnMut(ScanItem<'_>),
) {
    if is_whole(payload, key, offset, header) {
        return;
    }
    let mut at = 0;
    while let Some(rest) = payload.get(at..)
        && let Some(record) = crate::codec::read_torn_record(rest, key, offset + at as u64)
    {
        at += record.length as usize;
        if read_record(rest, key, record.offset).is_err() {
            visit(ScanItem::Record(record));
        }
    }
}

/// Invalidates all batches at and after `from`: a cut batch must not become valid again after new data is written
/// before it. They were never acknowledged.
pub(crate) fn cut(
    disk: &dyn Disk,
    file: &str,
    (key, length): (SegmentKey, u64),
    from: u64,
    sync: bool,
) -> Result<(), DiskError> {
    let mut walk = Walk::new(disk, file, key, length);
    let mut at = from.next_multiple_of(SECTOR_BYTES);
    let mut changed = false;
    while at < walk.limit {
        if walk.header(at)?.is_some() {
            disk.write_at(file, at, &mut [IoSlice::new(&[0; SECTOR_BYTES as usize])])?;
            changed = true;
        }
        at += SECTOR_BYTES;
    }
    if changed && sync { disk.sync_data(file) } else { Ok(()) }
}

/// The records of a batch with its payload at `offset`. A damaged record with a valid length is an `Err` with its
/// offset; a record without one ends the iteration.
pub(super) fn records(
    payload: &[u8],
    key: SegmentKey,
    offset: u64,
) -> impl Iterator<Item = Result<RawRecord<'_>, u64>> {
    let mut at = 0_usize;
    std::iter::from_fn(move || {
        let rest = payload.get(at..).filter(|rest| !rest.is_empty())?;
        let here = offset + at as u64;
        match read_record(rest, key, here) {
            Ok(record) => {
                at += record.length as usize;
                Some(Ok(record))
            }
            Err(Some(length)) => {
                at += length;
                Some(Err(here))
            }
            Err(None) => {
                at = payload.len();
                Some(Err(here))
            }
        }
    })
}

/// Returns true if all records are present and valid, according to the batch's header.
pub(super) fn is_whole(payload: &[u8], key: SegmentKey, offset: u64, header: &BatchHeader) -> bool {
    let (mut count, mut crc) = (0, 0);
    for record in records(payload, key, offset) {
        let Ok(record) = record else { return false };
        count += 1;
        crc = crc32c::crc32c_append(crc, &record.crc.to_le_bytes());
    }
    payload.len() as u64 == header.payload_bytes
        && count == header.records_count
        && crc == header.records_crc
}
