//! Reads a database.

use super::format::{HEADER_BYTES, Header, Salted, Unusable};
use super::index::{Bucket, home};
use super::record::{self, Record};
use crate::{Entry, Table, Trouble, TroubleKind, fold};
use mail::Wall;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// A database whose bytes are all at hand. What it answers with is checked when it is read: nothing of
/// the file but the header is read before it is asked for.
pub struct Database {
    name: Box<str>,
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    header: Header,
    salted: Salted,
}

impl Database {
    /// `name` is the file's, for what it says of damage.
    ///
    /// # Errors
    /// It is no database, or not all of it.
    pub fn open(
        name: impl Into<Box<str>>,
        bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    ) -> Result<Database, Unusable> {
        let header = Header::read((*bytes).as_ref())?;
        let salted = Salted::new(&header.making.salt);
        Ok(Database { name: name.into(), bytes, header, salted })
    }

    /// When it was made.
    #[must_use]
    pub fn made(&self) -> Wall {
        self.header.making.made
    }

    /// Whether keys are looked up without regard to case.
    #[must_use]
    pub fn folds_case(&self) -> bool {
        self.header.making.folds_case
    }

    /// All entries with their keys, in the order in which they were written; those that came twice, twice.
    /// Ends with the first that is damaged.
    pub fn entries(&self) -> impl Iterator<Item = Result<(&str, Entry), Trouble>> {
        let bytes = (*self.bytes).as_ref();
        let end = usize::try_from(self.header.records_end).ok();
        let records = end.and_then(|end| bytes.get(..end)).unwrap_or_default();
        let mut offset = HEADER_BYTES as u64;
        std::iter::from_fn(move || {
            if offset >= self.header.records_end {
                return None;
            }
            let read = record::read(records, offset, &self.salted).and_then(|record| {
                let key = std::str::from_utf8(record.key).ok()?;
                Some((key, record.entry()?, record.bytes()))
            });
            let Some((key, entry, length)) = read else {
                let damage = self.damage(format_args!("the record at byte {offset}"));
                offset = self.header.records_end;
                return Some(Err(damage));
            };
            offset = offset.saturating_add(length as u64);
            Some(Ok((key, entry)))
        })
    }

    /// The record of a key.
    fn record(&self, key: &[u8]) -> Result<Option<Record<'_>>, Trouble> {
        let bytes = (*self.bytes).as_ref();
        let parts = usize::try_from(self.header.index_start)
            .ok()
            .and_then(|start| bytes.split_at_checked(start))
            .and_then(|(before, index)| {
                Some((before.get(..usize::try_from(self.header.records_end).ok()?)?, index))
            });
        let Some((records, index)) = parts else {
            return Err(self.damage(format_args!("it has become shorter")));
        };
        let hash = self.salted.hash(key);
        let home = home(hash, self.header.homes_count);
        let last = home.saturating_add(self.header.reach).min(self.header.buckets_count - 1);
        for number in home..=last {
            let Some(bucket) = Bucket::read(index, number, &self.salted) else {
                return Err(self.damage(format_args!("bucket {number} of its index")));
            };
            for offset in bucket.offsets(hash) {
                let Some(record) = record::read(records, offset, &self.salted) else {
                    return Err(self.damage(format_args!("the record at byte {offset}")));
                };
                if record.key == key {
                    return Ok(Some(record));
                }
            }
            if !bucket.is_full() {
                break;
            }
        }
        Ok(None)
    }

    fn damage(&self, what: fmt::Arguments<'_>) -> Trouble {
        Trouble::new(TroubleKind::Wrong, format!("{} is damaged ({what})", self.name))
    }
}

impl Table for Database {
    fn find(&self, key: &str) -> Result<Option<Entry>, Trouble> {
        let key = if self.folds_case() { fold(key) } else { Cow::Borrowed(key) };
        let Some(record) = self.record(key.as_bytes())? else { return Ok(None) };
        match record.entry() {
            Some(entry) => Ok(Some(entry)),
            None => Err(self.damage(format_args!("the record at byte {}", record.offset))),
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
