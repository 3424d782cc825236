//! The index batches of a segment that is full.

use super::walk::{is_whole, records};
use super::window::read_range;
use crate::batch::{BATCH_HEADER_BYTES, BatchHeader};
use crate::codec::RawRecord;
use crate::disk::{Disk, DiskError, DiskErrorKind};
use crate::name::SegmentKey;
use crate::segment::Footer;

/// The index batches of a sealed segment, oldest first; `None` if one is damaged. Each is read and checked here, and
/// none is kept: those of a large segment are large.
pub(crate) fn find_index(
    disk: &dyn Disk,
    file: &str,
    key: SegmentKey,
    footer: Footer,
) -> Result<Option<Vec<IndexPlace>>, DiskError> {
    let mut places: Vec<IndexPlace> = Vec::new();
    let (mut offset, mut end) = (footer.index_offset, footer.end);
    while offset != 0 {
        let mut head = [0; BATCH_HEADER_BYTES];
        let count = read_range(disk, file, offset, &mut head)?.unwrap_or(0);
        let header = head.get(..count).and_then(|head| BatchHeader::decode(head, key, offset));
        let Some(header) = header.filter(|header| {
            let fits = offset.checked_add(header.total_bytes).is_some_and(|next| next <= end);
            // The last one ends where the data ends.
            header.is_index
                && fits
                && header.previous_index < offset
                && (!places.is_empty() || offset + header.total_bytes == end)
        }) else {
            return Ok(None);
        };
        let place = IndexPlace { header, payload_offset: offset + BATCH_HEADER_BYTES as u64 };
        if place.read(disk, file, key)?.is_none() {
            return Ok(None);
        }
        end = offset;
        offset = header.previous_index;
        places.push(place);
    }
    places.reverse();
    Ok(Some(places))
}

/// Position of a whole index batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexPlace {
    pub header: BatchHeader,
    payload_offset: u64,
}

impl IndexPlace {
    /// Reads its records; `None` if it is incomplete or damaged.
    fn read(
        &self,
        disk: &dyn Disk,
        file: &str,
        key: SegmentKey,
    ) -> Result<Option<Vec<u8>>, DiskError> {
        let mut payload = vec![0; self.header.payload_bytes as usize];
        let count = read_range(disk, file, self.payload_offset, &mut payload)?.unwrap_or(0);
        payload.truncate(count);
        Ok(is_whole(&payload, key, self.payload_offset, &self.header).then_some(payload))
    }

    /// Visits its records, in order. It was whole when found. If it no longer is, the disk fails, because the records
    /// already visited cannot be undone.
    pub(crate) fn visit(
        &self,
        disk: &dyn Disk,
        file: &str,
        key: SegmentKey,
        visit: &mut dyn FnMut(&RawRecord<'_>),
    ) -> Result<(), DiskError> {
        let Some(payload) = self.read(disk, file, key)? else {
            let text = format!("the index of {file} became unreadable");
            return Err(DiskError::new(DiskErrorKind::Failed, text));
        };
        let all = records(&payload, key, self.payload_offset);
        all.filter_map(Result::ok).for_each(|record| visit(&record));
        Ok(())
    }
}
