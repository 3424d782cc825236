//! Which file something was made of, so that it is noticed when the file changes.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Between two looks at the files. A file that changed is read when it has not changed between two
/// looks: it may be written still.
pub(crate) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Which file it was that something was made of.
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

/// What tells a file from another, and from what it was before.
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

/// What is looked at again and again, and taken up when it has changed and settled: it may be written still when the
/// change is seen first.
#[derive(Debug, Default)]
pub(crate) struct Settling<T> {
    /// What was taken up, or was to be.
    read: T,
    /// What was seen at the last look.
    last: T,
}

impl<T: Clone + PartialEq> Settling<T> {
    /// Of what is taken up already.
    pub(crate) fn on(read: T) -> Settling<T> {
        Settling { last: read.clone(), read }
    }

    /// Takes what was seen at another look; whether it is to be taken up now.
    pub(crate) fn look(&mut self, seen: T) -> bool {
        let is_settled = seen == self.last;
        let is_due = is_settled && seen != self.read;
        if is_due {
            self.read = seen.clone();
        }
        self.last = seen;
        is_due
    }

    /// What was taken up last.
    pub(crate) fn read(&self) -> &T {
        &self.read
    }
}

/// Looks at files again and again.
#[derive(Debug, Default)]
pub(crate) struct StampWatch {
    settling: Settling<Vec<Option<FileIdentity>>>,
    /// They were as they are told to be when they were looked at last.
    is_same: bool,
}

impl StampWatch {
    /// Looks once more; whether files are others than these and are to be read. They may be written still
    /// when a change is seen first: they are read at the next look, if nothing has changed by then. `before` is
    /// called with each.
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

    /// Whether the last look has found what is in use.
    pub(crate) fn is_same(&self) -> bool {
        self.is_same
    }
}

impl Stamp {
    pub(crate) fn new(path: &Path, seen: FileIdentity) -> Stamp {
        Stamp { path: path.to_owned(), seen }
    }

    /// Whether this is what was seen.
    pub(crate) fn is(&self, seen: Option<FileIdentity>) -> bool {
        seen == Some(self.seen)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn device(&self) -> Device {
        self.seen.device()
    }

    /// Whether the file is still the same.
    pub(crate) fn is_current(&self) -> bool {
        FileIdentity::at(&self.path) == Some(self.seen)
    }
}
