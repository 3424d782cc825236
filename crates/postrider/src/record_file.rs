//! A file of small records by key, for state that is read once at the start and that the server can do without. Changes
//! are appended, and a rewrite drops obsolete records.

mod format;

use crate::file_lock::{self, LockedFile};
use crate::replacement::{Replacement, salt};
use format::{Damage, HEADER_BYTES, Live, Salt};
use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Minimum size of a file for a rewrite, which also requires twice the size after the last one.
const REWRITTEN_BYTES_MIN: u64 = 1 << 20;

/// Maximum growth while rewriting fails, as a multiple of the length for a rewrite.
const GROWTH_MAX: u64 = 4;

/// Maximum number of records per batch in a rewrite.
const RECORDS_AT_ONCE: usize = 10_000;

/// An open file, under a lock.
#[derive(Debug)]
pub(crate) struct RecordFile {
    path: PathBuf,
    file: Arc<LockedFile>,
    salt: Salt,
    /// Offset of the next batch; everything before it is synced.
    end: u64,
    /// There may be something behind `end`: half a batch.
    has_rest: bool,
    /// It has a mark of its synced length; files of an earlier version have none.
    has_mark: bool,
    /// Length in octets at which it is rewritten.
    rewritten_at: u64,
    /// Length at which writing stops if rewriting fails.
    bytes_max: u64,
    /// Damage of synced data: nothing more is written.
    damage: Option<String>,
}

/// The reason why a file could not be read.
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
    /// Opens or creates a file, and passes each key and record to `take`, in the order of keys. A partial batch at the
    /// end is skipped: it was never acknowledged as durable.
    pub(crate) fn open(
        path: &Path,
        mut take: impl FnMut(&[u8], &[u8]),
    ) -> Result<RecordFile, Unreadable> {
        let Some(file) = locked(path)?.map(Arc::new) else {
            let made =
                Replacement::create(path, None).and_then(|new| fill(new, path, &Live::new()));
            return made.map_err(Unreadable::NotNow);
        };
        let mut bytes = Vec::new();
        (&mut &**file)
            .read_to_end(&mut bytes)
            .map_err(|error| Unreadable::NotNow(error.to_string()))?;
        let (salt, live, end) = format::read(&bytes).map_err(|damage| match damage {
            Damage::Version(_) => Unreadable::NotNow(damage.to_string()),
            Damage::Header | Damage::Batch(_) | Damage::Cut(..) => {
                Unreadable::Damaged(damage.to_string())
            }
        })?;
        live.iter().for_each(|(key, record)| take(key, record));
        let opened = RecordFile::new(path, file, salt, &live);
        let has_mark = format::has_mark(&bytes);
        // A file without a mark is rewritten at the next change.
        let rewritten_at = if has_mark { opened.rewritten_at } else { 0 };
        let has_rest = end < bytes.len();
        Ok(RecordFile { end: end as u64, has_rest, has_mark, rewritten_at, ..opened })
    }

    /// One that begins with this salt, and is going to hold this.
    fn new(path: &Path, file: Arc<LockedFile>, salt: Salt, live: &Live<'_>) -> RecordFile {
        let rewritten_at = (2 * format::bytes_for(live)).max(REWRITTEN_BYTES_MIN);
        RecordFile {
            path: path.to_owned(),
            file,
            salt,
            end: HEADER_BYTES as u64,
            has_rest: false,
            has_mark: true,
            rewritten_at,
            bytes_max: GROWTH_MAX * rewritten_at,
            damage: None,
        }
    }

    /// Writes changes durably, all or none; `None` removes a record.
    ///
    /// # Errors
    /// Returns a text for people.
    pub(crate) fn write<K: AsRef<[u8]>, R: AsRef<[u8]>>(
        &mut self,
        changes: impl Iterator<Item = (K, Option<R>)>,
    ) -> Result<(), String> {
        self.check()?;
        if self.end >= self.rewritten_at.min(self.bytes_max)
            && let Err(why) = self.rewrite()
        {
            if self.damage.is_some() || self.end >= self.bytes_max {
                return Err(why);
            }
            // Two files may not fit on the disk. The rewrite is tried again later, unless the new file is in place and
            // only its sync failed.
            self.check()?;
            self.rewritten_at = self.end + REWRITTEN_BYTES_MIN;
        }
        let batch = format::batch(&self.salt, self.end, changes);
        let batch = batch.ok_or("more than 4 GiB at once")?;
        self.append(&batch).map_err(|error| error.to_string())
    }

    /// Lets damage show from now on, to the last batch too: nothing is written for a while.
    ///
    /// # Errors
    /// For people.
    pub(crate) fn seal(&mut self) -> Result<(), String> {
        self.write(std::iter::empty::<(&[u8], Option<&[u8]>)>())?;
        self.file.sync_data().map_err(|error| error.to_string())
    }

    /// Returns true if there was a partial batch at its end, which was never acknowledged.
    pub(crate) fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Checks that the next start will read data written here.
    fn check(&self) -> Result<(), String> {
        if let Some(damage) = &self.damage {
            return Err(damage.clone());
        }
        let own = self.file.metadata().map_err(|error| error.to_string())?;
        if !file_lock::is_at(&own, &self.path).map_err(|error| error.to_string())? {
            return Err("it was removed or replaced".into());
        }
        if own.len() != self.end && !self.has_rest {
            return Err("another program has written to it".into());
        }
        Ok(())
    }

    /// Writes the records into an empty file, with a seal, without a sync.
    fn write_all(&mut self, live: &Live<'_>) -> io::Result<()> {
        self.file.write_all_at(&format::header(&self.salt), 0)?;
        let mut records = live.iter().map(|(key, record)| (key, Some(record))).peekable();
        loop {
            let is_seal = records.peek().is_none();
            let some = records.by_ref().take(RECORDS_AT_ONCE);
            let batch = format::batch(&self.salt, self.end, some);
            let batch = batch.ok_or_else(|| io::Error::from(io::ErrorKind::FileTooLarge))?;
            self.file.write_all_at(&batch, self.end)?;
            self.end += batch.len() as u64;
            if is_seal {
                // The whole file is synced before it is placed.
                return self
                    .file
                    .write_all_at(&format::mark(&self.salt, self.end), format::MARK_AT);
            }
        }
    }

    fn append(&mut self, batch: &[u8]) -> io::Result<()> {
        if self.has_rest {
            // Data after a partial batch would count as damage.
            self.file.set_len(self.end)?;
        }
        self.has_rest = true;
        self.file.write_all_at(batch, self.end)?;
        self.file.sync_data()?;
        self.has_rest = false;
        self.end += batch.len() as u64;
        if self.has_mark {
            // The batch is durable even if the mark fails. The mark is synced with the next batch.
            let _ = self.file.write_all_at(&format::mark(&self.salt, self.end), format::MARK_AT);
        }
        Ok(())
    }

    /// Rewrites the file with the current records only.
    fn rewrite(&mut self) -> Result<(), String> {
        let replacement = Replacement::create(&self.path, None)?;
        let bytes = usize::try_from(self.end).map_err(|error| error.to_string())?;
        let mut bytes = vec![0; bytes];
        self.file.read_exact_at(&mut bytes, 0).map_err(|error| error.to_string())?;
        let whole = match format::read(&bytes) {
            Ok((salt, live, end)) if salt == self.salt && end == bytes.len() => Ok(live),
            Ok((_, _, end)) => Err(Damage::Batch(end as u64).to_string()),
            Err(damage) => Err(damage.to_string()),
        };
        let live = whole.inspect_err(|damage| self.damage = Some(damage.clone()))?;
        *self = fill(replacement, &self.path, &live)?;
        Ok(())
    }
}

/// Opens an existing file, and locks it.
fn locked(path: &Path) -> Result<Option<LockedFile>, Unreadable> {
    match file_lock::open(path, OpenOptions::new().read(true).write(true)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.is_symlink() {
            true => Err(Unreadable::NotNow("a broken symbolic link".into())),
            false => Ok(None),
        },
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(Unreadable::NotNow("another process has it open".into()))
        }
        Err(error) => Err(Unreadable::NotNow(error.to_string())),
    }
}

/// Fills a file with this and puts it in its place.
fn fill(replacement: Replacement, path: &Path, live: &Live<'_>) -> Result<RecordFile, String> {
    let mut record_file = RecordFile::new(path, replacement.shared(), salt()?, live);
    let written = record_file.write_all(live);
    written.map_err(|error| replacement.wrong(&error))?;
    replacement.place()?;
    Ok(record_file)
}

#[cfg(test)]
mod tests;
