//! The header of the file, its numbers and its checksums.
//!
//! All numbers are little-endian; checksums are CRC-32C.
//!
//! | at | bytes | header |
//! |---|---|---|
//! | 0 | 8 | [`MAGIC`] |
//! | 8 | 4 | [`VERSION`] |
//! | 12 | 4 | 1: stored and looked-up keys are folded ([`crate::fold`]); else 0 |
//! | 16 | 16 | salt: random, key of the hash, and in all checksums |
//! | 32 | 8 | time of creation, in milliseconds since 1970 |
//! | 40 | 8 | keys |
//! | 48 | 8 | end of the records; they begin after the header |
//! | 56 | 8 | start of the index, a multiple of 64 |
//! | 64 | 8 | number of home buckets |
//! | 72 | 8 | number of buckets; the file ends with the last |
//! | 80 | 8 | maximum distance in buckets of a key from its home |
//! | 88 | 36 | unused: zeros |
//! | 124 | 4 | checksum of all bytes before |

use mail::Wall;
use siphasher::sip::SipHasher13;
use std::{fmt, io};

/// The start of every file. As in PNG, a line end and a byte above 127 reveal files transferred as text.
const MAGIC: [u8; 8] = *b"\x89PRDB\r\n\x1a";

/// The version of this layout. Any other layout has a different number.
const VERSION: u32 = 1;

pub(super) const HEADER_BYTES: usize = 128;

/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = u16::MAX as usize;

/// The longest value, in bytes: its text and its fields with 2 to 6 bytes for each name and value.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// A bucket of the index.
pub(super) const BUCKET_BYTES: usize = 64;

/// Records end before this: slots of the index have 48 bits for a place.
pub(super) const RECORDS_END_MAX: u64 = 1 << 48;

/// Options set before a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseOptions {
    /// Random: clients cannot choose keys that collide, and a part of another file is not valid in this one.
    pub salt: [u8; 16],
    /// Time of creation.
    pub made: Wall,
    /// Keys are stored and looked up without regard to case ([`crate::fold`]).
    pub folds_case: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) making: DatabaseOptions,
    pub(super) keys_count: u64,
    pub(super) records_end: u64,
    pub(super) index_start: u64,
    pub(super) homes_count: u64,
    pub(super) buckets_count: u64,
    pub(super) reach: u64,
}

/// Errors of writing.
#[derive(Debug)]
pub enum WriteError {
    /// Length of the key; the maximum is [`KEY_BYTES_MAX`].
    KeyTooLong(usize),
    /// Length of the value; the maximum is [`VALUE_BYTES_MAX`].
    ValueTooLong(usize),
    /// The records are longer than 2^48 bytes.
    FileTooLong,
    /// A file could not be written or read.
    Io(io::Error),
}

impl From<io::Error> for WriteError {
    fn from(error: io::Error) -> WriteError {
        WriteError::Io(error)
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WriteError::KeyTooLong(bytes) => {
                write!(f, "the key has {bytes} bytes: at most {KEY_BYTES_MAX}")
            }
            WriteError::ValueTooLong(bytes) => {
                write!(f, "the value has {bytes} bytes: at most {VALUE_BYTES_MAX}")
            }
            WriteError::FileTooLong => f.write_str("more than 256 TiB"),
            WriteError::Io(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WriteError {}

/// The reason why a file cannot be used as a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Not a database.
    Foreign,
    /// It is of a layout that this version does not know.
    Version(u32),
    /// The header is damaged.
    Header,
    /// It can't be read.
    Unread(Box<str>),
    /// The header is intact, but its values are inconsistent.
    Contradiction(&'static str),
    /// The file is too short or too long.
    Size {
        /// Bytes that it has.
        is: u64,
        /// Bytes that it had when it was written.
        should: u64,
    },
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Foreign => f.write_str("not a Postrider database, or an unfinished one"),
            Unusable::Version(version) => write!(
                f,
                "format {version}, but this program reads format {VERSION}: build it again"
            ),
            Unusable::Unread(why) => f.write_str(why),
            Unusable::Header => f.write_str("damaged header: build it again"),
            Unusable::Contradiction(what) => {
                write!(f, "inconsistent header ({what}): build it again")
            }
            Unusable::Size { is, should } => {
                write!(f, "{is} bytes instead of {should}: truncated, or overwritten in place")
            }
        }
    }
}

impl std::error::Error for Unusable {}

/// Returns true if a file with this start is a database, of whatever version and state.
#[must_use]
pub fn is_database(begin: &[u8]) -> bool {
    begin.starts_with(&MAGIC)
}

impl Header {
    pub(super) fn write(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&u32::from(self.making.folds_case).to_le_bytes());
        bytes[16..32].copy_from_slice(&self.making.salt);
        let numbers = [
            self.making.made.0,
            self.keys_count,
            self.records_end,
            self.index_start,
            self.homes_count,
            self.buckets_count,
            self.reach,
        ];
        for (place, number) in bytes[32..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..HEADER_BYTES - 4]);
        bytes[HEADER_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads the header of a file with this start and length.
    pub(super) fn read(file: &[u8], bytes_count: u64) -> Result<Header, Unusable> {
        if !is_database(file) {
            return Err(Unusable::Foreign);
        }
        let Some(bytes) = file.first_chunk::<HEADER_BYTES>() else {
            return Err(Unusable::Size { is: bytes_count, should: HEADER_BYTES as u64 });
        };
        let version = u32_at(bytes, 8);
        if version != Some(VERSION) {
            return Err(Unusable::Version(version.unwrap_or_default()));
        }
        let (content, _) = bytes.split_at(HEADER_BYTES - 4);
        if u32_at(bytes, HEADER_BYTES - 4) != Some(crc32c::crc32c(content)) {
            return Err(Unusable::Header);
        }
        let header = Header::parse(bytes).ok_or(Unusable::Header)?;
        header.check(bytes_count)?;
        Ok(header)
    }

    fn parse(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let making = DatabaseOptions {
            salt: bytes.get(16..32)?.try_into().ok()?,
            made: Wall(u64_at(bytes, 32)?),
            folds_case: u32_at(bytes, 12)? == 1,
        };
        Some(Header {
            making,
            keys_count: u64_at(bytes, 40)?,
            records_end: u64_at(bytes, 48)?,
            index_start: u64_at(bytes, 56)?,
            homes_count: u64_at(bytes, 64)?,
            buckets_count: u64_at(bytes, 72)?,
            reach: u64_at(bytes, 80)?,
        })
    }

    fn check(&self, bytes: u64) -> Result<(), Unusable> {
        let wrong = |what| Err(Unusable::Contradiction(what));
        if self.records_end < HEADER_BYTES as u64 || self.records_end > RECORDS_END_MAX {
            return wrong("the end of its records");
        }
        if self.index_start < self.records_end || !self.index_start.is_multiple_of(64) {
            return wrong("the beginning of its index");
        }
        if self.homes_count == 0 || self.buckets_count < self.homes_count {
            return wrong("the buckets of its index");
        }
        if self.reach > self.buckets_count {
            return wrong("the reach of its index");
        }
        let index_bytes = self.buckets_count.checked_mul(BUCKET_BYTES as u64);
        let Some(should) = index_bytes.and_then(|bytes| bytes.checked_add(self.index_start)) else {
            return wrong("the end of its index");
        };
        if should != bytes {
            return Err(Unusable::Size { is: bytes, should });
        }
        Ok(())
    }
}

/// Hash and checksums of one file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Salted {
    hasher: SipHasher13,
    seed: u32,
}

impl Salted {
    pub(super) fn new(salt: &[u8; 16]) -> Salted {
        Salted { hasher: SipHasher13::new_with_key(salt), seed: crc32c::crc32c(salt) }
    }

    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    /// The checksum of content at this position of the file.
    pub(super) fn checksum(&self, place: u64, content: &[u8]) -> u32 {
        let seed = crc32c::crc32c_append(self.seed, &place.to_le_bytes());
        crc32c::crc32c_append(seed, content)
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &[u8]) -> Result<Header, Unusable> {
        Header::read(file, file.len() as u64)
    }

    fn header() -> Header {
        Header {
            making: DatabaseOptions { salt: *b"0123456789abcdef", made: Wall(7), folds_case: true },
            keys_count: 3,
            records_end: 200,
            index_start: 256,
            homes_count: 1,
            buckets_count: 2,
            reach: 1,
        }
    }

    fn file(header: &Header) -> Vec<u8> {
        let mut file = header.write().to_vec();
        file.resize(256 + 128, 0);
        file
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(read(&file(&header())), Ok(header()));
    }

    #[test]
    fn what_is_no_database_is_told_by_its_kind() {
        assert_eq!(read(b""), Err(Unusable::Foreign));
        assert_eq!(read(b"a@x.test b\n"), Err(Unusable::Foreign));
        assert_eq!(read(&[0; 4096]), Err(Unusable::Foreign));
        let whole = file(&header());
        assert_eq!(read(&whole[..9]), Err(Unusable::Size { is: 9, should: 128 }));
        assert_eq!(read(&whole[..383]), Err(Unusable::Size { is: 383, should: 384 }));
        let longer = [&whole[..], b"x"].concat();
        assert_eq!(read(&longer), Err(Unusable::Size { is: 385, should: 384 }));
        let mut newer = whole.clone();
        newer[8] = 2;
        assert_eq!(read(&newer), Err(Unusable::Version(2)));
    }

    #[test]
    fn every_turned_bit_of_the_header_is_noticed() {
        let whole = file(&header());
        for at in 0..HEADER_BYTES {
            for bit in 0..8 {
                let mut turned = whole.clone();
                turned[at] ^= 1 << bit;
                assert!(read(&turned).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_header_that_contradicts_itself_is_refused() {
        let right = header();
        for (wrong, what) in [
            (Header { records_end: 127, ..right }, "the end of its records"),
            (Header { records_end: (1 << 48) + 1, ..right }, "the end of its records"),
            (Header { records_end: 257, ..right }, "the beginning of its index"),
            (Header { index_start: 255, ..right }, "the beginning of its index"),
            (Header { homes_count: 0, ..right }, "the buckets of its index"),
            (Header { homes_count: 3, ..right }, "the buckets of its index"),
            (Header { reach: 3, ..right }, "the reach of its index"),
            (Header { buckets_count: u64::MAX, ..right }, "the end of its index"),
        ] {
            assert_eq!(read(&file(&wrong)), Err(Unusable::Contradiction(what)), "{wrong:?}");
        }
    }
}
