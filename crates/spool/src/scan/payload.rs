//! The records of one batch.

use crate::batch::BatchHeader;
use crate::codec::{RawRecord, read_record};
use crate::name::SegmentKey;

/// The records of a batch whose payload lies at `offset`: `Err`, where it is, for one that is damaged but has its length; stops at one that
/// has not.
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

/// Whether all records are there and right, as the batch's header says.
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
