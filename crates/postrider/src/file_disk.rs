//! The spool's disk: files of one directory, kept open by name.

use rustix::fs::{FlockOperation, Mode, OFlags};
use spool::{Disk, DiskError, DiskErrorKind};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Slices that one pwritev takes (IOV_MAX).
const SLICES_MAX: usize = 1024;
/// Files kept open, unless the process can afford only fewer; blobs come and go.
const OPEN_MAX: usize = 128;
/// Whoever holds a lock on this file owns the log.
const LOCK_FILE: &str = "lock";

/// One log directory.
#[derive(Debug)]
pub(crate) struct FileDisk {
    directory: PathBuf,
    /// For fsync of names.
    handle: File,
    open: Mutex<BTreeMap<String, Arc<File>>>,
    open_max: usize,
    /// Held while the program runs, so that no second one writes to the log.
    _lock: Option<File>,
}

impl FileDisk {
    /// Opens the directory (made if missing, for its owner only) and locks it.
    ///
    /// # Errors
    /// When it can't be made or opened, or another process has it.
    pub(crate) fn open(directory: &Path) -> io::Result<FileDisk> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
            // "File exists" would be true, but not what is wrong.
            let in_the_way = error.kind() == io::ErrorKind::AlreadyExists;
            if in_the_way { io::ErrorKind::NotADirectory.into() } else { error }
        })?;
        let lock = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(false)
            .mode(0o600)
            .open(directory.join(LOCK_FILE))?;
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| {
            if error == rustix::io::Errno::WOULDBLOCK {
                let text = format!("{} is in use by another process", directory.display());
                io::Error::new(io::ErrorKind::WouldBlock, text)
            } else {
                error.into()
            }
        })?;
        FileDisk::with(directory, Some(lock))
    }

    /// Opens the directory of a log that no one writes to, to look at it.
    ///
    /// # Errors
    /// When it can't be opened.
    pub(crate) fn read_only(directory: &Path) -> io::Result<FileDisk> {
        FileDisk::with(directory, None)
    }

    /// Keeps so many files open at most.
    pub(crate) fn keep_open(self, open_max: usize) -> FileDisk {
        FileDisk { open_max, ..self }
    }

    fn with(directory: &Path, lock: Option<File>) -> io::Result<FileDisk> {
        let handle = rustix::fs::open(
            directory,
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        Ok(FileDisk {
            directory: directory.to_owned(),
            handle: File::from(handle),
            open: Mutex::default(),
            open_max: OPEN_MAX,
            _lock: lock,
        })
    }

    fn file(&self, name: &str) -> io::Result<Arc<File>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = open.get(name) {
            return Ok(Arc::clone(file));
        }
        let path = self.directory.join(name);
        let writable = self._lock.is_some();
        let file = Arc::new(OpenOptions::new().read(true).write(writable).open(path)?);
        self.keep(&mut open, name, &file);
        Ok(file)
    }

    fn keep(&self, open: &mut BTreeMap<String, Arc<File>>, name: &str, file: &Arc<File>) {
        if open.len() >= self.open_max {
            // Any of them will do; whoever uses it now has it by its own reference.
            open.pop_first();
        }
        open.insert(name.to_owned(), Arc::clone(file));
    }

    fn forget(&self, name: &str) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn describe(&self, error: &io::Error, what: &str, name: &str) -> DiskError {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => DiskErrorKind::NotFound,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => DiskErrorKind::Full,
            _ => DiskErrorKind::Failed,
        };
        DiskError::new(kind, format!("cannot {what} {}: {error}", self.path(name).display()))
    }

    fn run<T>(
        &self,
        what: &str,
        name: &str,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, DiskError> {
        work().map_err(|error| self.describe(&error, what, name))
    }
}

fn write_all_at(file: &File, mut offset: u64, mut pieces: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut pieces, 0);
    while !pieces.is_empty() {
        let count = pieces.len().min(SLICES_MAX);
        let written = match rustix::io::pwritev(file, &pieces[..count], offset) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        offset += written as u64;
        IoSlice::advance_slices(&mut pieces, written);
    }
    Ok(())
}

impl Disk for FileDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.run("list", "", || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.directory)? {
                let entry = entry?;
                let name = entry.file_name();
                // Names that are no text are not ours, nor are directories, sockets and the lock.
                if let Some(name) = name.to_str().filter(|name| *name != LOCK_FILE)
                    && entry.file_type()?.is_file()
                {
                    names.push(name.to_owned());
                }
            }
            Ok(names)
        })
    }

    fn length(&self, name: &str) -> Result<u64, DiskError> {
        self.run("look at", name, || Ok(fs::metadata(self.path(name))?.len()))
    }

    fn create(&self, name: &str) -> Result<(), DiskError> {
        self.run("create", name, || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(self.path(name))?;
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            self.keep(&mut open, name, &Arc::new(file));
            Ok(())
        })
    }

    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError> {
        self.run("write", name, || write_all_at(&*self.file(name)?, offset, pieces))
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.run("read", name, || self.file(name)?.read_at(buffer, offset))
    }

    fn sync_data(&self, name: &str) -> Result<(), DiskError> {
        self.run("sync", name, || self.file(name)?.sync_data())
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.run("sync the directory", "", || self.handle.sync_all())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.forget(from);
        self.forget(to);
        self.run("rename", from, || fs::rename(self.path(from), self.path(to)))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.forget(name);
        self.run("remove", name, || fs::remove_file(self.path(name)))
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.run("ask for free space in", "", || {
            let space = rustix::fs::fstatvfs(&self.handle)?;
            Ok(space.f_bavail.saturating_mul(space.f_frsize))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_pieces_are_written_whole_and_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        disk.create("a").unwrap();
        let parts: Vec<Vec<u8>> = (0..3000u32).map(|n| n.to_le_bytes().to_vec()).collect();
        let mut pieces: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        disk.write_at("a", 8, &mut pieces).unwrap();
        assert_eq!(disk.length("a").unwrap(), 8 + 12_000);
        let mut read = vec![0; 12_000];
        assert_eq!(disk.read_at("a", 8, &mut read).unwrap(), 12_000);
        assert_eq!(read, parts.concat());
    }

    #[test]
    fn a_second_owner_is_turned_away() {
        let directory = tempfile::tempdir().unwrap();
        let first = FileDisk::open(directory.path()).unwrap();
        let error = FileDisk::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("in use by another process"), "{error}");
        drop(first);
        FileDisk::open(directory.path()).unwrap();
    }

    #[test]
    fn errors_name_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        let error = disk.read_at("missing", 0, &mut [0]).unwrap_err();
        assert_eq!(error.kind, DiskErrorKind::NotFound);
        assert!(error.text.contains("missing"), "{error}");
    }
}
