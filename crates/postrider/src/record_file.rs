//! A file of small records by key, of the kind that is read once, at the start, and that a server can do without if it
//! must: changes are appended, and what is no longer true is left out when the file is written anew.

mod format;

use crate::replacement::{Replacement, salt};
use format::{HEADER_BYTES, Live, Salt};
use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A file is not written anew before it has grown to so many octets, and to twice what it then held.
const REWRITTEN_BYTES_MIN: u64 = 1 << 20;

/// Records in one batch of a file that is written anew.
const RECORDS_AT_ONCE: usize = 10_000;

/// An open file, under a lock.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    file: File,
    salt: Salt,
    /// Where the next batch goes: all before it is synced.
    end: u64,
    /// There may be something behind `end`: half a batch.
    has_rest: bool,
    /// It is written anew once it is so long, in octets.
    rewritten_at: u64,
}

/// Why a file could not be read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// It may be well: it could not be opened, or another process has it.
    NotNow(String),
    Damaged(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unreadable::NotNow(why) | Unreadable::Damaged(why)) = self;
        f.write_str(why)
    }
}

impl RecordFile {
    /// Opens a file, or makes one, and hands each key to `take`, with its record, in the order of keys. Half a batch
    /// at its end is left out: nobody was told that it is on disk.
    pub(crate) fn open(
        path: &Path,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<RecordFile, Unreadable> {
        let not_now = |error: io::Error| Unreadable::NotNow(error.to_string());
        let mut file = match OpenOptions::new().read(true).write(true).open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return write_anew(path, &Live::new()).map_err(Unreadable::NotNow);
            }
            file => file.map_err(not_now)?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => {
                return Err(Unreadable::NotNow("another process has it open".into()));
            }
            Err(TryLockError::Error(error)) => return Err(not_now(error)),
            Ok(()) => {}
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(not_now)?;
        let read = format::read(&bytes);
        let (salt, live, end) = read.map_err(|damage| Unreadable::Damaged(damage.to_string()))?;
        live.iter().for_each(|(key, record)| take(key, record));
        let (has_rest, rewritten_at) = (end < bytes.len(), rewritten_at(&live));
        let path = path.to_owned();
        Ok(RecordFile { path, file, salt, end: end as u64, has_rest, rewritten_at })
    }

    /// Makes changes durable, all or none: what is no record any more is removed.
    ///
    /// # Errors
    /// For people.
    pub(crate) fn write<K: AsRef<[u8]>, R: AsRef<[u8]>>(
        &mut self,
        changes: impl Iterator<Item = (K, Option<R>)>,
    ) -> Result<(), String> {
        if self.end >= self.rewritten_at && self.rewrite().is_err() {
            // There may be no room for two; there may be some for a longer one.
            self.rewritten_at = self.end.saturating_mul(2);
        }
        let told = |error: io::Error| error.to_string();
        if !self.is_in_place().map_err(told)? {
            return Err("it was removed or replaced".into());
        }
        let batch = format::batch(&self.salt, self.end, changes);
        self.append(&batch.ok_or("more than 4 GiB at once")?).map_err(told)
    }

    /// Whether what is written here is read at the next start.
    fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            named => named.map(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())),
        }
    }

    /// Writes what an empty file is to hold, without syncing it.
    fn fill(&mut self, live: &Live<'_>) -> io::Result<()> {
        self.file.write_all_at(&format::header(&self.salt), 0)?;
        let mut records = live.iter().map(|(key, record)| (key, Some(record))).peekable();
        while records.peek().is_some() {
            let some = records.by_ref().take(RECORDS_AT_ONCE);
            let batch = format::batch(&self.salt, self.end, some);
            let batch = batch.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
            self.file.write_all_at(&batch, self.end)?;
            self.end += batch.len() as u64;
        }
        Ok(())
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        if self.has_rest {
            // What stands behind half a batch would make that damage.
            self.file.set_len(self.end)?;
        }
        self.has_rest = true;
        self.file.write_all_at(batch, self.end)?;
        self.file.sync_data()?;
        self.has_rest = false;
        self.end += batch.len() as u64;
        Ok(())
    }

    /// Writes the file anew, with what it holds now and nothing else.
    fn rewrite(&mut self) -> Result<(), String> {
        let bytes = usize::try_from(self.end).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; bytes];
        self.file.read_exact_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let (_, live, _) = format::read(&bytes).map_err(|damage| damage.to_string())?;
        *self = write_anew(&self.path, &live)?;
        Ok(())
    }
}

/// Writes a file that holds this and puts it in the place of the old one.
fn write_anew(path: &Path, live: &Live<'_>) -> Result<RecordFile, String> {
    let (replacement, salt) = (Replacement::create(path, None)?, salt()?);
    // The same open file, and its lock.
    let file = replacement.file().try_clone().map_err(|error| replacement.wrong(&error))?;
    let mut record_file = RecordFile {
        path: path.to_owned(),
        file,
        salt,
        end: HEADER_BYTES as u64,
        has_rest: false,
        rewritten_at: rewritten_at(live),
    };
    let written = record_file.fill(live);
    written.map_err(|error| replacement.wrong(&error))?;
    replacement.place()?;
    Ok(record_file)
}

/// How long a file may become that holds this, in octets.
fn rewritten_at(live: &Live<'_>) -> u64 {
    (2 * format::bytes_for(live)).max(REWRITTEN_BYTES_MIN)
}

#[cfg(test)]
mod tests;
