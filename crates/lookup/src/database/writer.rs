//! Writes a database.

use super::format::{
    BUCKET_BYTES, DatabaseOptions, HEADER_BYTES, Header, RECORDS_END_MAX, Salted, WriteError,
};
use super::index::{IndexWriter, homes_count};
use super::record::{self, HEAD_BYTES};
use super::spill::{PARTS, RecordPosition, Spill};
use crate::{Entry, fold};
use std::borrow::Cow;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

/// Buffer of writes.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes a database into `F`: records as they come, then the index, then the header, so that an interrupted file is
/// invalid. Until then the data of the index goes to `S`, a temporary file: 24 bytes for each key, beyond 170,000 keys.
///
/// It takes about 6 MiB of memory and, at the end, a tenth of a byte for each key.
#[derive(Debug)]
pub struct DatabaseWriter<F: Write, S> {
    out: BufWriter<F>,
    /// Start of the next record.
    offset: u64,
    spill: Spill<S>,
    making: DatabaseOptions,
    salted: Salted,
    count: u64,
    record: Vec<u8>,
}

/// Summary of a written database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseSummary {
    /// Keys, each counted once.
    pub keys_count: u64,
    /// Entries omitted because their key came before.
    pub duplicates_count: u64,
    /// Length of the file.
    pub file_bytes: u64,
}

/// A repeated key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Duplicate<'a> {
    /// The key.
    pub key: &'a str,
    /// Line of the entry that counts.
    pub first_line: u64,
    /// Line of the omitted entry.
    pub line: u64,
}

impl<F: Read + Write + Seek, S: Read + Write + Seek> DatabaseWriter<F, S> {
    /// Both files are empty.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(file: F, spill: S, making: DatabaseOptions) -> io::Result<DatabaseWriter<F, S>> {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, file);
        out.write_all(&[0; HEADER_BYTES])?;
        Ok(DatabaseWriter {
            out,
            offset: HEADER_BYTES as u64,
            spill: Spill::new(spill),
            making,
            salted: Salted::new(&making.salt),
            count: 0,
            record: Vec::new(),
        })
    }

    /// Adds an entry from this line. After [`WriteError::KeyTooLong`] or [`WriteError::ValueTooLong`] further entries
    /// may be added.
    ///
    /// # Errors
    /// Returns an error if the entry is too long or the file cannot be written.
    pub fn push(&mut self, key: &str, entry: &Entry, line: u64) -> Result<(), WriteError> {
        let key = if self.making.folds_case { fold(key) } else { Cow::Borrowed(key) };
        self.record.clear();
        record::write(&mut self.record, &self.salted, self.offset, &key, entry)?;
        let next = self.offset + self.record.len() as u64;
        if next > RECORDS_END_MAX {
            return Err(WriteError::FileTooLong);
        }
        self.out.write_all(&self.record)?;
        let hash = self.salted.hash(key.as_bytes());
        self.spill.push(RecordPosition { hash, offset: self.offset, line })?;
        self.offset = next;
        self.count += 1;
        Ok(())
    }

    /// Writes the index and the header, and returns the file, which is not yet synced. If several entries have one key,
    /// the first counts; the rest are reported to `tell`.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written or read.
    pub fn finish(
        mut self,
        tell: &mut dyn FnMut(Duplicate<'_>),
    ) -> Result<(F, DatabaseSummary), WriteError> {
        let records_end = self.offset;
        let index_start = records_end.next_multiple_of(BUCKET_BYTES as u64);
        // Less than a bucket.
        self.out.write_all(&[0; BUCKET_BYTES][..(index_start - records_end) as usize])?;
        let homes_count = homes_count(self.count);
        let mut index = IndexWriter::new(self.salted, homes_count);
        let mut keys_count = 0;
        for part in 0..PARTS {
            let places = self.spill.take(part)?;
            for alike in places.chunk_by(|a, b| a.hash == b.hash) {
                keys_count += match alike {
                    [place] => {
                        index.put(&mut self.out, place.hash, place.offset)?;
                        1
                    }
                    several => self.put_alike(&mut index, several, tell)?,
                };
            }
        }
        let (buckets_count, reach) = index.finish(&mut self.out)?;
        let header = Header {
            making: self.making,
            keys_count,
            records_end,
            index_start,
            homes_count,
            buckets_count,
            reach,
        };
        self.out.seek(SeekFrom::Start(0))?;
        self.out.write_all(&header.write())?;
        let file = self.out.into_inner().map_err(io::IntoInnerError::into_error)?;
        let summary = DatabaseSummary {
            keys_count,
            duplicates_count: self.count - keys_count,
            file_bytes: index_start + buckets_count * BUCKET_BYTES as u64,
        };
        Ok((file, summary))
    }

    /// Enters records with equal hashes, rarely with different keys. Returns the number entered.
    fn put_alike(
        &mut self,
        index: &mut IndexWriter,
        alike: &[RecordPosition],
        tell: &mut dyn FnMut(Duplicate<'_>),
    ) -> io::Result<u64> {
        let mut known: Vec<(String, u64)> = Vec::new();
        for place in alike {
            let key = self.key_at(place.offset)?;
            if let Some((key, first_line)) = known.iter().find(|(other, _)| *other == key) {
                tell(Duplicate { key, first_line: *first_line, line: place.line });
                continue;
            }
            index.put(&mut self.out, place.hash, place.offset)?;
            known.push((key, place.line));
        }
        Ok(known.len() as u64)
    }

    /// Reads back the key of a record.
    fn key_at(&mut self, offset: u64) -> io::Result<String> {
        let end = self.out.stream_position()?;
        self.out.seek(SeekFrom::Start(offset))?;
        let mut head = [0; HEAD_BYTES];
        self.out.get_mut().read_exact(&mut head)?;
        let mut key = vec![0; usize::from(super::format::u16_at(&head, 4).unwrap_or_default())];
        self.out.get_mut().read_exact(&mut key)?;
        self.out.seek(SeekFrom::Start(end))?;
        String::from_utf8(key).map_err(io::Error::other)
    }
}
