//! Reads a database.

use super::format::{BUCKET_BYTES, HEADER_BYTES, Header, Salted, Unusable};
use super::index::{Bucket, home};
use super::record::{self, RECORD_BYTES_MAX};
use crate::{Entry, LookupError, LookupErrorKind, Table, fold};
use mail::Wall;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Bytes of a record read at first: nearly all records are shorter.
const RECORD_BYTES_USUAL: usize = 512;

/// Bytes read at once when all records are read.
const WINDOW_BYTES: usize = 256 << 10;

/// A database. Data is checked as it is read for a lookup; only the header is read before.
pub struct Database {
    name: Box<str>,
    content: Arc<dyn DatabaseBytes>,
    header: Header,
    salted: Salted,
}

/// The reason for a missing answer.
enum Miss {
    /// The disk would be needed.
    Away,
    Trouble(LookupError),
}

impl Miss {
    /// The error for a caller that waits for the disk.
    fn trouble(self) -> LookupError {
        match self {
            Miss::Away => LookupError::new(LookupErrorKind::Wrong, "it is not in memory"),
            Miss::Trouble(trouble) => trouble,
        }
    }
}

impl Database {
    /// `name` is the file name, for errors about damage.
    ///
    /// # Errors
    /// Returns an error if it is not a database, is incomplete, or cannot be read.
    pub fn open(
        name: impl Into<Box<str>>,
        content: Arc<dyn DatabaseBytes>,
    ) -> Result<Database, Unusable> {
        let bytes_count = content.bytes_count();
        let mut begin = [0; HEADER_BYTES];
        let length = HEADER_BYTES.min(usize::try_from(bytes_count).unwrap_or(usize::MAX));
        let begin = &mut begin[..length];
        content.read(0, begin).map_err(|why| Unusable::Unread(why.to_string().into()))?;
        let header = Header::read(begin, bytes_count)?;
        let salted = Salted::new(&header.making.salt);
        Ok(Database { name: name.into(), content, header, salted })
    }

    /// Time of creation.
    #[must_use]
    pub fn made(&self) -> Wall {
        self.header.making.made
    }

    /// Returns true if keys are looked up without regard to case.
    #[must_use]
    pub fn folds_case(&self) -> bool {
        self.header.making.folds_case
    }

    /// All entries with their keys, in the order of writing, duplicates included. Ends with the first damaged one.
    pub fn entries(&self) -> impl Iterator<Item = Result<(Box<str>, Entry), LookupError>> {
        let mut offset = HEADER_BYTES as u64;
        let mut window = Window::default();
        std::iter::from_fn(move || {
            if offset >= self.header.records_end {
                return None;
            }
            let read = window.record(self, offset).and_then(|bytes| {
                let record = record::read(bytes, offset, &self.salted);
                let read = record.and_then(|record| {
                    let key = std::str::from_utf8(record.key).ok()?;
                    Some((Box::from(key), record.entry()?, record.bytes()))
                });
                read.ok_or_else(|| self.damaged_record(offset))
            });
            match read {
                Ok((key, entry, length)) => {
                    offset = offset.saturating_add(length as u64);
                    Some(Ok((key, entry)))
                }
                Err(miss) => {
                    offset = self.header.records_end;
                    Some(Err(miss.trouble()))
                }
            }
        })
    }

    /// Reads bytes, if waiting for the disk is allowed or not needed.
    fn read(&self, waits: bool, offset: u64, into: &mut [u8]) -> Result<(), Miss> {
        let read = match waits {
            true => self.content.read(offset, into),
            false => self.content.read_now(offset, into),
        };
        read.map_err(|why| match why {
            Unread::Away => Miss::Away,
            Unread::Short => Miss::Trouble(self.damage(format_args!("{why}"))),
            Unread::Failed(_) => {
                let text = format!("cannot read {}: {why}", self.name);
                Miss::Trouble(LookupError::new(LookupErrorKind::Wrong, text))
            }
        })
    }

    fn look_up(&self, key: &str, waits: bool) -> Result<Option<Entry>, Miss> {
        let key = if self.folds_case() { fold(key) } else { Cow::Borrowed(key) };
        let hash = self.salted.hash(key.as_bytes());
        let home = home(hash, self.header.homes_count);
        let last = home.saturating_add(self.header.reach).min(self.header.buckets_count - 1);
        let mut bytes = [0; BUCKET_BYTES];
        for number in home..=last {
            // The header was checked: it is all within the file.
            let begin = self.header.index_start.saturating_add(number * BUCKET_BYTES as u64);
            self.read(waits, begin, &mut bytes)?;
            let Some(bucket) = Bucket::read(&bytes, number, &self.salted) else {
                let damage = self.damage(format_args!("bucket {number} of its index"));
                return Err(Miss::Trouble(damage));
            };
            for offset in bucket.offsets(hash) {
                if let Some(entry) = self.entry_at(offset, key.as_bytes(), waits)? {
                    return Ok(Some(entry));
                }
            }
            if !bucket.is_full() {
                break;
            }
        }
        Ok(None)
    }

    /// The entry at a place, if it is this key's.
    fn entry_at(&self, offset: u64, key: &[u8], waits: bool) -> Result<Option<Entry>, Miss> {
        let damaged = || self.damaged_record(offset);
        let room = self.header.records_end.checked_sub(offset).ok_or_else(damaged)?;
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut usual = [0; RECORD_BYTES_USUAL];
        let usual = &mut usual[..room.min(RECORD_BYTES_USUAL)];
        self.read(waits, offset, usual)?;
        let length = record::length(usual).filter(|length| *length <= room.min(RECORD_BYTES_MAX));
        let length = length.ok_or_else(damaged)?;
        let mut longer = Vec::new();
        let bytes = match usual.get(..length) {
            Some(bytes) => bytes,
            None => {
                longer.resize(length, 0);
                self.read(waits, offset, &mut longer)?;
                &longer
            }
        };
        let record = record::read(bytes, offset, &self.salted).ok_or_else(damaged)?;
        if record.key != key {
            return Ok(None);
        }
        record.entry().map(Some).ok_or_else(damaged)
    }

    fn damaged_record(&self, offset: u64) -> Miss {
        Miss::Trouble(self.damage(format_args!("the record at byte {offset}")))
    }

    fn damage(&self, what: fmt::Arguments<'_>) -> LookupError {
        LookupError::new(LookupErrorKind::Wrong, format!("{} is damaged ({what})", self.name))
    }
}

/// Bytes of the records that were read together.
#[derive(Default)]
struct Window {
    begin: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// The bytes of the record at a place, and maybe more.
    fn record(&mut self, database: &Database, offset: u64) -> Result<&[u8], Miss> {
        let damaged = || database.damaged_record(offset);
        let head = record::HEAD_BYTES;
        let length = record::length(self.bytes_at(database, offset, head)?).ok_or_else(damaged)?;
        if length > RECORD_BYTES_MAX {
            return Err(damaged());
        }
        self.bytes_at(database, offset, length)
    }

    fn bytes_at(&mut self, database: &Database, offset: u64, length: usize) -> Result<&[u8], Miss> {
        let end = offset.saturating_add(length as u64);
        if end > database.header.records_end {
            return Err(database.damaged_record(offset));
        }
        if offset < self.begin || end > self.begin.saturating_add(self.bytes.len() as u64) {
            let rest = usize::try_from(database.header.records_end - offset);
            self.bytes.resize(rest.unwrap_or(usize::MAX).min(length.max(WINDOW_BYTES)), 0);
            self.begin = offset;
            database.read(true, offset, &mut self.bytes)?;
        }
        let at = usize::try_from(offset - self.begin).unwrap_or(usize::MAX);
        self.bytes.get(at..).ok_or_else(|| database.damaged_record(offset))
    }
}

impl Table for Database {
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        self.look_up(key, true).map_err(Miss::trouble)
    }

    fn find_now(&self, key: &str) -> Option<Result<Option<Entry>, LookupError>> {
        match self.look_up(key, false) {
            Ok(found) => Some(Ok(found)),
            Err(Miss::Away) => None,
            Err(Miss::Trouble(trouble)) => Some(Err(trouble)),
        }
    }

    fn keys_count(&self) -> Option<u64> {
        Some(self.header.keys_count)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database")
            .field("name", &self.name)
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// A file, or a part read from one. It may change or vanish at any time: everything read is checked.
pub trait DatabaseBytes: Send + Sync {
    /// Number of bytes when it was opened.
    fn bytes_count(&self) -> u64;

    /// Fills `into` with the bytes at `offset`, however long that takes.
    ///
    /// # Errors
    /// Returns an error if they cannot be read or the file is shorter.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread>;

    /// The same without waiting.
    ///
    /// # Errors
    /// As [`DatabaseBytes::read`]; [`Unread::Away`] if the disk would be needed.
    fn read_now(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        self.read(offset, into)
    }
}

/// The reason why bytes are unavailable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unread {
    /// They are not in memory.
    Away,
    /// The file ends before them.
    Short,
    /// The system's error text.
    Failed(Box<str>),
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unread::Away => f.write_str("it is not in memory"),
            Unread::Short => f.write_str("it was truncated"),
            Unread::Failed(why) => f.write_str(why),
        }
    }
}

impl DatabaseBytes for Vec<u8> {
    fn bytes_count(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Unread> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..));
        let bytes = rest.and_then(|rest| rest.get(..into.len())).ok_or(Unread::Short)?;
        into.copy_from_slice(bytes);
        Ok(())
    }
}
