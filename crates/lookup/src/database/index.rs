//! The index: buckets of seven slots, a cache line each.
//!
//! | at | bytes | bucket |
//! |---|---|---|
//! | 0 | 56 | slots: 16 bits of the hash above 48 bits of a record's offset |
//! | 56 | 4 | number of used slots |
//! | 60 | 4 | checksum of the bucket's number and all bytes before |
//!
//! A key's home is the bucket that its hash maps to proportionally; if that one is full, the key is in the next that is
//! not. Keys come in the order of their hashes, so the index is written from beginning to end and not kept in memory.

use super::format::{BUCKET_BYTES, Salted, u32_at, u64_at};
use std::io::{self, Write};

/// Slots of a bucket.
const SLOTS: usize = 7;

/// Of the seven slots of a home so many are used on average: 12.8 bytes for a key, and six of seven keys
/// are at home.
const SLOTS_USED: u64 = 5;

const OFFSET_BITS: u32 = 48;

/// Number of home buckets of an index for this many keys.
pub(super) fn homes_count(keys_count: u64) -> u64 {
    keys_count.div_ceil(SLOTS_USED).max(1)
}

/// The home of a hash.
pub(super) fn home(hash: u64, homes_count: u64) -> u64 {
    // The high half of a product with a 64 bit number has 64 bits.
    ((u128::from(hash) * u128::from(homes_count)) >> 64) as u64
}

/// Writes an index.
#[derive(Debug)]
pub(super) struct IndexWriter {
    salted: Salted,
    homes_count: u64,
    /// Number of the current bucket.
    current: u64,
    slots: Vec<u64>,
    reach: u64,
}

impl IndexWriter {
    pub(super) fn new(salted: Salted, homes_count: u64) -> IndexWriter {
        IndexWriter { salted, homes_count, current: 0, slots: Vec::with_capacity(SLOTS), reach: 0 }
    }

    /// Enters a record. Hashes must ascend.
    pub(super) fn put(&mut self, out: &mut impl Write, hash: u64, offset: u64) -> io::Result<()> {
        let home = home(hash, self.homes_count);
        while self.current < home || self.slots.len() == SLOTS {
            self.close_bucket(out)?;
        }
        self.reach = self.reach.max(self.current - home);
        self.slots.push((hash << OFFSET_BITS) | offset);
        Ok(())
    }

    /// Writes the rest. Returns the number of buckets, and the maximum distance of a key from its home.
    pub(super) fn finish(mut self, out: &mut impl Write) -> io::Result<(u64, u64)> {
        while self.current < self.homes_count || !self.slots.is_empty() {
            self.close_bucket(out)?;
        }
        Ok((self.current, self.reach))
    }

    fn close_bucket(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut bytes = [0; BUCKET_BYTES];
        for (place, slot) in bytes.chunks_exact_mut(8).zip(&self.slots) {
            place.copy_from_slice(&slot.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&(self.slots.len() as u32).to_le_bytes());
        let checksum = self.salted.checksum(self.current, &bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        self.slots.clear();
        self.current += 1;
        out.write_all(&bytes)
    }
}

/// A bucket with a valid checksum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<'a> {
    slots: &'a [u8],
}

impl<'a> Bucket<'a> {
    /// The bucket with this number; `None` if it differs from the one written.
    pub(super) fn read(
        bytes: &'a [u8; BUCKET_BYTES],
        number: u64,
        salted: &Salted,
    ) -> Option<Bucket<'a>> {
        if u32_at(bytes, 60)? != salted.checksum(number, &bytes[..60]) {
            return None;
        }
        let used = u32_at(bytes, 56)? as usize;
        (used <= SLOTS).then(|| Bucket { slots: &bytes[..used * 8] })
    }

    /// Offsets of the records that may have this hash.
    pub(super) fn offsets(self, hash: u64) -> impl Iterator<Item = u64> {
        let slots = (0..SLOTS).map_while(move |n| u64_at(self.slots, n * 8));
        slots
            .filter(move |slot| slot >> OFFSET_BITS == hash & 0xffff)
            .map(|slot| slot & ((1 << OFFSET_BITS) - 1))
    }

    /// Returns true if later buckets may hold keys of this home.
    pub(super) fn is_full(self) -> bool {
        self.slots.len() == SLOTS * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<'a>(index: &'a [u8], number: usize, salted: &Salted) -> Option<Bucket<'a>> {
        let bytes = index.chunks_exact(BUCKET_BYTES).nth(number)?.first_chunk()?;
        Bucket::read(bytes, number as u64, salted)
    }

    fn salted() -> Salted {
        Salted::new(b"0123456789abcdef")
    }

    #[test]
    fn homes_are_in_the_order_of_hashes() {
        assert_eq!(homes_count(0), 1);
        assert_eq!(homes_count(5), 1);
        assert_eq!(homes_count(6), 2);
        assert_eq!(home(u64::MAX, 1), 0);
        assert_eq!((home(0, 10), home(u64::MAX / 2 + 1, 10), home(u64::MAX, 10)), (0, 5, 9));
    }

    #[test]
    fn what_has_no_room_at_home_is_behind_it() {
        let mut out = Vec::new();
        let mut writer = IndexWriter::new(salted(), 2);
        let hash = |n: u64| (u64::MAX / 2 + 1) | n;
        for n in 0..15 {
            writer.put(&mut out, hash(n), 1000 + n).unwrap();
        }
        assert_eq!(writer.finish(&mut out).unwrap(), (4, 2));
        assert_eq!(out.len(), 4 * BUCKET_BYTES);
        let bucket = |n| read(&out, n, &salted()).unwrap();
        assert!(!bucket(0).is_full() && bucket(1).is_full() && bucket(2).is_full());
        assert!(!bucket(3).is_full());
        assert_eq!(bucket(1).offsets(hash(6)).collect::<Vec<_>>(), [1006]);
        assert_eq!(bucket(3).offsets(hash(14)).collect::<Vec<_>>(), [1014]);
        assert_eq!(bucket(0).offsets(hash(0)).count(), 0);
        assert!(read(&out, 4, &salted()).is_none());
    }

    #[test]
    fn a_bucket_in_another_place_is_damage() {
        let mut out = Vec::new();
        let writer = IndexWriter::new(salted(), 2);
        assert_eq!(writer.finish(&mut out).unwrap(), (2, 0));
        out.rotate_left(BUCKET_BYTES);
        assert!(read(&out, 0, &salted()).is_none());
    }
}
