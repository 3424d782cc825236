//! The seam to the disk: file operations on names in one log directory.

use crate::block::SECTOR_BYTES;
use std::collections::BTreeSet;
use std::fmt;
use std::io::IoSlice;

/// Kinds of file errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskErrorKind {
    /// No file with that name.
    NotFound,
    /// The file system or the quota is full (ENOSPC, EDQUOT).
    Full,
    /// The process is out of descriptors or memory (EMFILE, ENFILE, ENOMEM). Nothing was done that cannot be repeated.
    /// Never returned by a sync that was started.
    Scarce,
    /// Other errors: EIO, permissions, a crash in the simulator.
    Failed,
}

/// A file operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskError {
    /// The kind, on which the spool acts.
    pub kind: DiskErrorKind,
    /// The operating system's error text.
    pub text: Box<str>,
}

impl DiskError {
    /// Creates an error of this kind with the operating system's text.
    pub fn new(kind: DiskErrorKind, text: impl Into<Box<str>>) -> DiskError {
        DiskError { kind, text: text.into() }
    }
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for DiskError {}

/// Synchronous file operations on plain names in ONE directory. Calls may come from two threads at once (the log lane
/// and the bulk lane), never for overlapping ranges of one file.
///
/// An implementation may keep files open, by name; `rename` and `remove` end a name.
pub trait Disk: Send + Sync {
    /// All names in the directory, in any order.
    ///
    /// # Errors
    /// If the directory can't be read.
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// The length of a file in bytes.
    ///
    /// # Errors
    /// If it does not exist or its metadata can't be read.
    fn length(&self, name: &str) -> Result<u64, DiskError>;

    /// Creates an empty file, or truncates the existing one.
    ///
    /// # Errors
    /// If that fails.
    fn create(&self, name: &str) -> Result<(), DiskError>;

    /// Allocates `bytes` in an empty file, which reads as zeros, without writing them. Returns `false` if the file
    /// system cannot.
    ///
    /// # Errors
    /// Returns an error if the space is not available.
    fn allocate(&self, name: &str, bytes: u64) -> Result<bool, DiskError> {
        let _ = (name, bytes);
        Ok(false)
    }

    /// Writes all pieces one after another at `offset`; the file grows as needed.
    ///
    /// # Errors
    /// If not all bytes could be written.
    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError>;

    /// Cuts the file at `length_bytes`. The space is free for other use once this and a [`Disk::sync_data`] have
    /// returned.
    ///
    /// # Errors
    /// Returns an error if the operation fails.
    fn truncate(&self, name: &str, length_bytes: u64) -> Result<(), DiskError>;

    /// Reads into `buffer` from `offset` and returns the number of bytes. A read may be short at any time; zero means
    /// the end of the file.
    ///
    /// # Errors
    /// If the file does not exist or can't be read.
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;

    /// fdatasync: earlier writes are on stable storage on return.
    ///
    /// # Errors
    /// Returns an error if the storage failed; its content is then unknown.
    fn sync_data(&self, name: &str) -> Result<(), DiskError>;

    /// fsync of the directory: names created, renamed and removed before are on stable storage.
    ///
    /// # Errors
    /// As [`Disk::sync_data`].
    fn sync_dir(&self) -> Result<(), DiskError>;

    /// Renames a file and replaces an existing one.
    ///
    /// # Errors
    /// Returns an error if the operation fails.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// If it does not exist or can't be removed.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Returns true if the file has another name beside this one, in a backup: its content must not change.
    ///
    /// # Errors
    /// If it does not exist or its metadata can't be read.
    fn is_shared(&self, name: &str) -> Result<bool, DiskError> {
        let _ = name;
        Ok(false)
    }

    /// Bytes of this file system available to this process.
    ///
    /// # Errors
    /// If the file system can't be queried.
    fn free_bytes(&self) -> Result<u64, DiskError>;
}

/// With more unreadable sectors in one file, the disk counts as failed instead.
const UNREADABLE_MAX: usize = 4_096;

/// As [`read_full`], but skips unreadable sectors: they are filled with zeros and listed in `unreadable` by offset.
pub(crate) fn read_around(
    disk: &dyn Disk,
    name: &str,
    offset: u64,
    buffer: &mut [u8],
    unreadable: &mut BTreeSet<u64>,
) -> Result<usize, DiskError> {
    match read_full(disk, name, offset, buffer) {
        Err(error) if error.kind == DiskErrorKind::Failed => {}
        done => return done,
    }
    let length = disk.length(name)?;
    let rest = usize::try_from(length.saturating_sub(offset)).unwrap_or(usize::MAX);
    let count = buffer.len().min(rest);
    let mut done = 0;
    while done < count {
        let at = offset + done as u64;
        let next = (at / SECTOR_BYTES + 1) * SECTOR_BYTES;
        let to = count.min(done + (next - at) as usize);
        let Some(part) = buffer.get_mut(done..to) else { break };
        match read_full(disk, name, at, part) {
            Ok(_) => {}
            Err(error) if error.kind == DiskErrorKind::Failed => {
                part.fill(0);
                unreadable.insert(at / SECTOR_BYTES * SECTOR_BYTES);
                if unreadable.len() > UNREADABLE_MAX {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
        done = to;
    }
    Ok(count)
}

/// Reads until `buffer` is full or the file ends; how many bytes.
pub(crate) fn read_full(
    disk: &dyn Disk,
    name: &str,
    offset: u64,
    buffer: &mut [u8],
) -> Result<usize, DiskError> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        let count = disk.read_at(name, offset + done as u64, rest)?;
        if count == 0 {
            break;
        }
        done += count.min(rest.len());
    }
    Ok(done)
}
