//! File systems, and the check that syncing one as a whole is reliable.

use super::mounts;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, StatVfsMountFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::path::{Path, PathBuf};

/// First version with errors from syncfs (syncfs(2)).
const LINUX_MIN: (u32, u32) = (5, 8);
/// Magic numbers (fstatfs) of ext2, ext3, ext4 and XFS: there syncfs waits until contents and names are on stable
/// storage. Some other file systems leave that to a program or another machine (FUSE), and some write far more than
/// requested (Btrfs); on those each file is synced.
const SYNCED_WHOLE: [u64; 2] = [0xEF53, 0x5846_5342];

/// Operations on the file systems of mailboxes.
pub(super) trait FileSystems: Send + Sync {
    /// Opens the directory that an operator names, to find names in it.
    ///
    /// # Errors
    /// Returns the operating system's error.
    fn open_root(&self, path: &Path) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())
    }

    /// The mount points of file systems.
    fn mount_points(&self) -> Vec<PathBuf> {
        mounts::mount_points()
    }

    /// Octets that this process can still write there. 0 if no more files can be created.
    ///
    /// # Errors
    /// Returns the operating system's error.
    fn free_bytes(&self, directory: &OwnedFd) -> Result<u64, Errno> {
        let found = rustix::fs::fstatvfs(directory)?;
        // Some file systems create inodes as needed, and count none.
        if found.f_files > 0 && found.f_ffree == 0 {
            return Ok(0);
        }
        // Blocks reserved for root are available to root only.
        let blocks = if geteuid().is_root() { found.f_bfree } else { found.f_bavail };
        Ok(blocks.saturating_mul(found.f_frsize))
    }

    /// Returns true if the whole file system can be synced, with errors reported.
    fn can_sync_whole(&self, directory: &OwnedFd) -> bool;

    /// Syncs all writes of the file system to stable storage. An error covers all failed writes since the directory was
    /// opened.
    ///
    /// # Errors
    /// Returns the operating system's error.
    fn sync_whole(&self, directory: &OwnedFd) -> Result<(), Errno>;
}

/// The kernel's.
pub(super) struct Mounted {
    is_told_of_errors: bool,
}

impl Mounted {
    pub(super) fn new() -> Mounted {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Mounted { is_told_of_errors: version_of(&release).is_some_and(|found| found >= LINUX_MIN) }
    }
}

impl FileSystems for Mounted {
    fn can_sync_whole(&self, directory: &OwnedFd) -> bool {
        let kind = rustix::fs::fstatfs(directory).map(|found| found.f_type as u64);
        self.is_told_of_errors && kind.is_ok_and(|kind| SYNCED_WHOLE.contains(&kind))
    }

    fn sync_whole(&self, directory: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::syncfs(directory)?;
        // On a file system remounted read-only, as ext4 does after a journal error, syncfs succeeds (Linux, fs/sync.c,
        // sync_filesystem). fsync fails, and the mount flags show it.
        rustix::fs::fsync(directory)?;
        let flags = rustix::fs::fstatvfs(directory)?.f_flag;
        if flags.contains(StatVfsMountFlags::RDONLY) { Err(Errno::ROFS) } else { Ok(()) }
    }
}

/// `5.10.0-33-amd64` is 5.10.
fn version_of(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_have_versions() {
        assert_eq!(version_of("5.10.0-33-amd64"), Some((5, 10)));
        assert_eq!(version_of("6.18.44"), Some((6, 18)));
        assert_eq!(version_of("6.1"), Some((6, 1)));
        assert_eq!(version_of("6"), None);
        assert_eq!(version_of(""), None);
        assert!(version_of("5.7.99") < Some(LINUX_MIN) && version_of("5.8.0") >= Some(LINUX_MIN));
    }

    #[test]
    fn what_has_no_disk_is_not_synced_as_a_whole() {
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::DIRECTORY;
        let open = rustix::fs::open("/proc", flags, rustix::fs::Mode::empty()).unwrap();
        assert!(!Mounted::new().can_sync_whole(&open));
    }
}
