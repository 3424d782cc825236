//! Locks on files that may be replaced: after the wait for a lock, the locked file may no longer be in the directory.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::ops::Deref;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// An open file with a lock, which is released when this value is dropped. Without an explicit release the lock would
/// last as long as any descriptor, and a forked child that has not yet called exec has copies of all.
#[derive(Debug)]
pub(crate) struct LockedFile(File);

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Opens the file at this place, for this process alone.
///
/// # Errors
/// `WouldBlock` where another process has it.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> io::Result<LockedFile> {
    loop {
        let file = options.open(path)?;
        file.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            TryLockError::Error(error) => error,
        })?;
        // The previous holder may have replaced the file, or renamed it.
        if is_at(&file.metadata()?, path)? {
            return Ok(LockedFile(file));
        }
    }
}

/// Returns true if an open file is the one at this path.
///
/// # Errors
/// Returns an error if the path cannot be examined.
pub(crate) fn is_at(own: &Metadata, path: &Path) -> io::Result<bool> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        named => named.map(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_for_one_and_at_its_place_until_another_takes_that() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("file"), directory.path().join("other"));
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        assert_eq!(open(&path, &options).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "one").unwrap();
        let first = open(&path, &options).unwrap();
        assert_eq!(open(&path, &options).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let own = first.metadata().unwrap();
        assert!(is_at(&own, &path).unwrap());
        fs::write(&other, "two").unwrap();
        fs::rename(&other, &path).unwrap();
        assert!(!is_at(&own, &path).unwrap());
        // A lock that is given up is free, though a descriptor of the file is left.
        let left = first.try_clone().unwrap();
        drop(first);
        left.try_lock().unwrap();
        // It is on the file, not on its name.
        let second = open(&path, &options).unwrap();
        fs::remove_file(&path).unwrap();
        assert!(!is_at(&second.metadata().unwrap(), &path).unwrap());
    }
}
