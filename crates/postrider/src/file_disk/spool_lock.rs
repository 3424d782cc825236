//! The lock of a log directory, and the owner of its files.

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Longer content of the lock file is no inode.
const INODE_BYTES_MAX: usize = 32;
/// The error of a copy of a spool that a server was using.
const COPIED: &str = "it is a copy of a spool in use, and may be incomplete: make \
 backups with `postrider spool backup` (docs/moving.md#backup); to start with it regardless, remove the file `lock` in it";

/// The lock file. It contains its own inode while a server runs: a copy that is made then has another one. After a crash
/// it is the same file.
#[derive(Debug)]
pub(super) struct SpoolLock {
    pub(super) file: File,
    /// This process wrote the inode.
    pub(super) is_marked: bool,
}

impl SpoolLock {
    /// Refuses a copy that was made while a server used the original: its files do not fit together.
    pub(super) fn refuse_copied(&mut self) -> io::Result<()> {
        let (mut text, own) = ([0; INODE_BYTES_MAX], self.file.metadata()?.ino().to_string());
        let length = self.file.read_at(&mut text, 0)?;
        let known = text.get(..length).map(<[u8]>::trim_ascii).unwrap_or_default();
        if !known.is_empty() && known != own.as_bytes() {
            return Err(io::Error::new(io::ErrorKind::InvalidData, COPIED));
        }
        self.is_marked = true;
        // Without space a copy is not recognised later, which is no reason not to start.
        let _ = self.file.write_all_at(format!("{own}\n").as_bytes(), 0);
        Ok(())
    }
}

impl Drop for SpoolLock {
    /// A copy that is made from now on is whole.
    fn drop(&mut self) {
        if self.is_marked {
            let _ = self.file.set_len(0);
        }
    }
}

/// Locks the directory or the file in it. With `must`, a file system without locks is an error.
pub(super) fn lock(
    file: &File,
    how: FlockOperation,
    directory: &Path,
    must: bool,
) -> io::Result<()> {
    match rustix::fs::flock(file, how) {
        Err(Errno::WOULDBLOCK) => {
            let text = format!("{} is in use by another process", directory.display());
            Err(io::Error::new(io::ErrorKind::WouldBlock, text))
        }
        Err(error) if must => Err(error.into()),
        _ => Ok(()),
    }
}

/// The owner of a directory and its group, if this process is root and the owner is not.
pub(super) fn owner_of(directory: &File) -> io::Result<Option<(u32, u32)>> {
    let status = directory.metadata()?;
    let is_other = rustix::process::geteuid().is_root() && status.uid() != 0;
    Ok(is_other.then_some((status.uid(), status.gid())))
}

/// Gives a new file to the owner of its directory.
pub(super) fn give(file: &File, owner: Option<(u32, u32)>) -> io::Result<()> {
    match owner {
        Some((user, group)) => std::os::unix::fs::fchown(file, Some(user), Some(group)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FileDisk, LOCK_FILE, UNFINISHED_RESTORE};
    use std::fs;

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
    fn a_lock_file_that_is_deleted_lets_nobody_in() {
        let directory = tempfile::tempdir().unwrap();
        let first = FileDisk::open(directory.path()).unwrap();
        fs::remove_file(directory.path().join(LOCK_FILE)).unwrap();
        for error in [FileDisk::open(directory.path()), FileDisk::read_only(directory.path())] {
            let text = error.unwrap_err().to_string();
            assert!(text.contains("in use by another process"), "{text}");
        }
        drop(first);
        // Two may look at it at once.
        let _one = FileDisk::read_only(directory.path()).unwrap();
        let _two = FileDisk::read_only(directory.path()).unwrap();
    }

    #[test]
    fn copy_of_a_spool_in_use_is_refused_until_its_lock_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let (spool, copied) = (directory.path().join("spool"), directory.path().join("copy"));
        let copy = || {
            fs::create_dir_all(&copied).unwrap();
            fs::copy(spool.join(LOCK_FILE), copied.join(LOCK_FILE)).unwrap();
        };
        let disk = FileDisk::open(&spool).unwrap();
        copy();
        for _ in 0..2 {
            let error = FileDisk::open(&copied).unwrap_err().to_string();
            assert!(error.contains("docs/moving.md#backup"), "{error}");
        }
        // As after a crash: it is still the same file.
        let mark = fs::read(spool.join(LOCK_FILE)).unwrap();
        drop(disk);
        fs::write(spool.join(LOCK_FILE), mark).unwrap();
        drop(FileDisk::open(&spool).unwrap());
        // Stopped in order.
        copy();
        drop(FileDisk::open(&copied).unwrap());
        fs::write(spool.join(UNFINISHED_RESTORE), "").unwrap();
        let error = FileDisk::open(&spool).unwrap_err().to_string();
        assert!(error.contains("a restore into it was not finished"), "{error}");
        drop(FileDisk::open_restored(&spool).unwrap());
    }
}
