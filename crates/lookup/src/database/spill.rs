//! Positions of the records, sorted by the hashes of their keys: on disk beyond a few MiB.
//!
//! Hashes are divided into [`PARTS`] ranges. Each collects in memory and is written to the file in chunks; afterwards
//! one range after the other is read back and sorted.

use super::format::u64_at;
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Number of ranges of the hashes.
pub(super) const PARTS: usize = 256;

/// Places that a part gathers before they are written.
const CHUNK_PLACES: usize = 680;

const PLACE_BYTES: usize = 24;

/// Position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordPosition {
    /// Of its key.
    pub(super) hash: u64,
    pub(super) offset: u64,
    /// Its line in the source.
    pub(super) line: u64,
}

/// Places of records. Takes 4 MiB of memory at most, and a 256th of all while they are read back.
#[derive(Debug)]
pub(super) struct Spill<S> {
    file: S,
    end: u64,
    parts: Vec<SpillPartition>,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct SpillPartition {
    places: Vec<RecordPosition>,
    /// Start of its chunks in the file.
    chunks: Vec<u64>,
}

impl<S: Read + Write + Seek> Spill<S> {
    /// `file` is empty.
    pub(super) fn new(file: S) -> Spill<S> {
        let parts = (0..PARTS).map(|_| SpillPartition::default()).collect();
        Spill { file, end: 0, parts, bytes: Vec::new() }
    }

    pub(super) fn push(&mut self, place: RecordPosition) -> io::Result<()> {
        // The upper 8 bits: below PARTS.
        let part = &mut self.parts[(place.hash >> 56) as usize];
        part.places.push(place);
        if part.places.len() < CHUNK_PLACES {
            return Ok(());
        }
        self.bytes.clear();
        for place in part.places.drain(..) {
            for number in [place.hash, place.offset, place.line] {
                self.bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        part.chunks.push(self.end);
        self.file.write_all(&self.bytes)?;
        self.end += self.bytes.len() as u64;
        Ok(())
    }

    /// Takes a part out, in the order of hashes, equal ones in the order of their records.
    pub(super) fn take(&mut self, part: usize) -> io::Result<Vec<RecordPosition>> {
        let SpillPartition { mut places, chunks } = std::mem::take(&mut self.parts[part]);
        places.reserve_exact(chunks.len() * CHUNK_PLACES);
        self.bytes.resize(CHUNK_PLACES * PLACE_BYTES, 0);
        for begin in chunks {
            self.file.seek(SeekFrom::Start(begin))?;
            self.file.read_exact(&mut self.bytes)?;
            for bytes in self.bytes.chunks_exact(PLACE_BYTES) {
                let number = |at| u64_at(bytes, at).unwrap_or_default();
                places.push(RecordPosition {
                    hash: number(0),
                    offset: number(8),
                    line: number(16),
                });
            }
        }
        places.sort_unstable();
        Ok(places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    #[test]
    fn all_comes_back_in_the_order_of_hashes() {
        let mut spill = Spill::new(Cursor::new(Vec::new()));
        let count = 700_000u64;
        for n in 0..count {
            let hash = n.wrapping_mul(0x9e37_79b9_7f4a_7c15) & !1;
            spill.push(RecordPosition { hash, offset: n, line: n + 1 }).unwrap();
        }
        assert!(spill.end > count * 16, "{}", spill.end);
        let mut all = Vec::new();
        for part in 0..PARTS {
            all.extend(spill.take(part).unwrap());
        }
        assert!(all.is_sorted());
        all.sort_by_key(|place| place.offset);
        assert!(all.iter().enumerate().all(|(n, place)| place.line == n as u64 + 1));
        assert_eq!(all.len() as u64, count);
    }

    #[test]
    fn little_stays_in_memory() {
        let mut spill = Spill::new(Cursor::new(Vec::new()));
        for n in 0..CHUNK_PLACES as u64 - 1 {
            spill.push(RecordPosition { hash: 0, offset: n, line: 0 }).unwrap();
        }
        assert_eq!(spill.end, 0);
        spill.push(RecordPosition { hash: 0, offset: 9_999, line: 0 }).unwrap();
        assert_eq!(spill.end, (CHUNK_PLACES * PLACE_BYTES) as u64);
        assert_eq!(spill.take(0).unwrap().len(), CHUNK_PLACES);
    }
}
