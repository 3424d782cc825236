//! Identity of a source file, to detect changes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Interval of checks. A changed file is read when it did not change between two checks, since writing may not be
/// complete before.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The path and identity of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    path: PathBuf,
    seen: FileIdentity,
}

/// The file system that a file is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Device(u64);

impl Device {
    #[cfg(test)]
    pub(crate) fn numbered(number: u64) -> Device {
        Device(number)
    }
}

/// Distinguishes a file from other files and from its earlier versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    bytes: u64,
    modified_ns: i128,
}

impl FileIdentity {
    pub(crate) fn of(meta: &Metadata) -> FileIdentity {
        FileIdentity {
            device: meta.dev(),
            inode: meta.ino(),
            bytes: meta.len(),
            modified_ns: i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec()),
        }
    }

    pub(crate) fn device(&self) -> Device {
        Device(self.device)
    }

    pub(crate) fn at(path: &Path) -> Option<FileIdentity> {
        std::fs::metadata(path).ok().map(|meta| FileIdentity::of(&meta))
    }
}

/// A value that is polled, and adopted after it has changed and settled: at the first sight of a change, writing may
/// not be complete.
#[derive(Debug, Default)]
pub(crate) struct Settling<T> {
    /// The value adopted, or found due, last.
    read: T,
    /// The value at the last poll.
    last: T,
}

impl<T: Clone + PartialEq> Settling<T> {
    /// Starts with an adopted value.
    pub(crate) fn on(read: T) -> Settling<T> {
        Settling { last: read.clone(), read }
    }

    /// Records a polled value. Returns true if it is due for adoption.
    pub(crate) fn look(&mut self, seen: T) -> bool {
        let is_settled = seen == self.last;
        let is_due = is_settled && seen != self.read;
        if is_due {
            self.read = seen.clone();
        }
        self.last = seen;
        is_due
    }

    /// The value adopted last.
    pub(crate) fn read(&self) -> &T {
        &self.read
    }
}

/// Looks at files again and again.
#[derive(Debug, Default)]
pub(crate) struct StampWatch {
    settling: Settling<Vec<Option<FileIdentity>>>,
    /// The files matched the stamps at the last check.
    is_same: bool,
}

impl StampWatch {
    /// Checks the files again. Returns true if they differ from `stamps`, and are unchanged since the last check: at
    /// the first sight of a change, writing may not be complete. `before` is called with each path.
    pub(crate) fn find_change(&mut self, stamps: &[Stamp], before: &mut dyn FnMut(&Path)) -> bool {
        let see = |stamp: &Stamp| {
            before(stamp.path());
            FileIdentity::at(stamp.path())
        };
        let seen: Vec<_> = stamps.iter().map(see).collect();
        let is_same = stamps.iter().zip(&seen).all(|(stamp, seen)| stamp.is(*seen));
        self.is_same = is_same;
        if is_same {
            self.settling = Settling::on(seen);
            return false;
        }
        self.settling.look(seen)
    }

    /// Returns true if the last check found the files in use.
    pub(crate) fn is_same(&self) -> bool {
        self.is_same
    }
}

impl Stamp {
    pub(crate) fn new(path: &Path, seen: FileIdentity) -> Stamp {
        Stamp { path: path.to_owned(), seen }
    }

    /// Returns true if the identity is equal.
    pub(crate) fn is(&self, seen: Option<FileIdentity>) -> bool {
        seen == Some(self.seen)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn device(&self) -> Device {
        self.seen.device()
    }

    /// Returns true if the file is unchanged.
    pub(crate) fn is_current(&self) -> bool {
        FileIdentity::at(&self.path) == Some(self.seen)
    }
}
