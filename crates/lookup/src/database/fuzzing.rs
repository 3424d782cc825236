//! A door for the fuzzer, past the checksums that it could never guess. Compiled only for it
//! (`--cfg fuzzing`): see `docs/internals/fuzzing.md`.

use super::format::{BUCKET_BYTES, HEADER_BYTES, Salted, u32_at, u64_at};
use super::record;

/// Corrects all checksums that a reader may check, at the positions given by the header.
pub fn seal(file: &mut [u8]) {
    let Some(header) = file.first_chunk_mut::<HEADER_BYTES>() else { return };
    let checksum = crc32c::crc32c(&header[..HEADER_BYTES - 4]);
    header[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    let mut salt = [0; 16];
    salt.copy_from_slice(&header[16..32]);
    let salted = Salted::new(&salt);
    let number =
        |at| u64_at(header, at).and_then(|n| usize::try_from(n).ok()).unwrap_or(usize::MAX);
    let (records_end, index_start) = (number(48), number(56));
    let Some((records, index)) = file.split_at_mut_checked(index_start) else { return };
    for (number, bucket) in (0..).zip(index.chunks_exact_mut(BUCKET_BYTES)) {
        for slot in 0..7 {
            let offset = u64_at(bucket, slot * 8).unwrap_or_default() & ((1 << 48) - 1);
            seal_record(records, records_end, offset, &salted);
        }
        let checksum = salted.checksum(number, &bucket[..BUCKET_BYTES - 4]);
        bucket[BUCKET_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    }
}

fn seal_record(records: &mut [u8], end: usize, offset: u64, salted: &Salted) {
    let Some(bytes) = records.get_mut(..end) else { return };
    let Some(bytes) = usize::try_from(offset).ok().and_then(|at| bytes.get_mut(at..)) else {
        return;
    };
    let Some(bytes) = record::length(bytes).and_then(|length| bytes.get_mut(..length)) else {
        return;
    };
    let checksum = salted.checksum(offset, &bytes[4..]);
    bytes[..4].copy_from_slice(&checksum.to_le_bytes());
    debug_assert_eq!(u32_at(bytes, 0), Some(checksum));
}
