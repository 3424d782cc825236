//! The spool's disk: files of one directory, with a cache of open ones by name.

mod spool_lock;

use crate::beside_spool::above;
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use spool::{Disk, DiskError, DiskErrorKind};
use spool_lock::{SpoolLock, give, lock, owner_of};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, IoSlice};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Slices that one pwritev takes (IOV_MAX).
const SLICES_MAX: usize = 1024;
/// Maximum number of open files, unless the process has fewer descriptors; blobs are short-lived.
const OPEN_MAX: usize = 128;
/// The owner of the log locks this file and the directory. The file can be deleted while it is locked, and not every
/// file system (NFS) locks directories.
const LOCK_FILE: &str = "lock";
/// Marks a directory with an unfinished restore.
pub(crate) const UNFINISHED_RESTORE: &str = "restore-unfinished";
/// Links to files of the log that a backup needs, made by the running server.
pub(crate) const STAGING: &str = "backup-staging";
/// A directory that a file system may have in its root.
const LOST_AND_FOUND: &str = "lost+found";

/// Timeout for opening a spool directory, after which the disk counts as unresponsive.
pub(crate) const OPENED_WITHIN: Duration = Duration::from_secs(20);

/// The error of a disk that does not respond.
pub(crate) fn no_answer() -> String {
    format!("its disk has not responded for {} s", OPENED_WITHIN.as_secs())
}
/// One log directory.
#[derive(Debug)]
pub(crate) struct FileDisk {
    /// For people.
    directory: PathBuf,
    /// All names are relative to it: files and their fsync stay in one place, whatever is mounted over the path later.
    handle: File,
    open: Mutex<OpenFiles>,
    open_max: usize,
    /// The owner of new files, if it is another user than this process: a command of root must not leave files that the
    /// server can't open.
    owner: Option<(u32, u32)>,
    /// Set if writes must be durable.
    syncs: AtomicBool,
    /// Held while the program runs, so that no second one writes to the log.
    lock: Option<SpoolLock>,
}

#[derive(Debug, Default)]
struct OpenFiles {
    by_name: BTreeMap<String, OpenFile>,
    /// Files closed before their sync, with a failed write.
    failed: BTreeSet<String>,
}

#[derive(Debug)]
struct OpenFile {
    file: Arc<File>,
    /// Written and not synced since. If it were closed and evicted from the page cache, a write error would be lost.
    dirty: bool,
}

impl FileDisk {
    /// Opens the directory (created if missing, for its owner only) and locks it.
    ///
    /// # Errors
    /// Returns an error if it cannot be created or opened, is locked by another process, or contains other files.
    pub(crate) fn open(directory: &Path) -> io::Result<FileDisk> {
        make(directory)?;
        if directory.join(UNFINISHED_RESTORE).exists() {
            let text = "a restore into it was not finished: run `postrider spool restore` again";
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut disk = FileDisk::open_restored(directory)?;
        // A backup that ended early left them; the next one removes them, too.
        let _ = fs::remove_dir_all(directory.join(STAGING));
        disk.lock.as_mut().map_or(Ok(()), SpoolLock::refuse_copied)?;
        Ok(disk)
    }

    /// As [`FileDisk::open`], for a directory that is being restored.
    ///
    /// # Errors
    /// As [`FileDisk::open`].
    pub(crate) fn open_restored(directory: &Path) -> io::Result<FileDisk> {
        refuse_foreign(directory)?;
        let handle = open_directory(directory)?;
        lock(&handle, FlockOperation::NonBlockingLockExclusive, directory, false)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let owner = owner_of(&handle)?;
        let file = File::from(rustix::fs::openat(&handle, LOCK_FILE, flags, OWNER_ONLY)?);
        give(&file, owner)?;
        lock(&file, FlockOperation::NonBlockingLockExclusive, directory, true)?;
        let lock = SpoolLock { file, is_marked: false };
        Ok(FileDisk { owner, ..FileDisk::with(directory, handle, Some(lock)) })
    }

    /// Opens the directory of a log without a running writer, for reading.
    ///
    /// # Errors
    /// Returns an error if it cannot be opened, or is locked by a server.
    pub(crate) fn read_only(directory: &Path) -> io::Result<FileDisk> {
        let handle = open_directory(directory)?;
        lock(&handle, FlockOperation::NonBlockingLockShared, directory, false)?;
        Ok(FileDisk::with(directory, handle, None))
    }

    /// Limits the number of open files.
    pub(crate) fn keep_open(self, open_max: usize) -> FileDisk {
        FileDisk { open_max, ..self }
    }

    fn with(directory: &Path, handle: File, lock: Option<SpoolLock>) -> FileDisk {
        FileDisk {
            directory: directory.to_owned(),
            handle,
            open: Mutex::default(),
            open_max: OPEN_MAX,
            owner: None,
            syncs: AtomicBool::new(false),
            lock,
        }
    }

    fn open_files(&self) -> MutexGuard<'_, OpenFiles> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file, to be read, or to be written with `dirty`.
    fn file(&self, name: &str, dirty: bool) -> io::Result<Arc<File>> {
        let mut open = self.open_files();
        if let Some(found) = open.by_name.get_mut(name) {
            found.dirty |= dirty;
            return Ok(Arc::clone(&found.file));
        }
        let access = if self.lock.is_some() { OFlags::RDWR } else { OFlags::RDONLY };
        self.open_file(&mut open, name, access, dirty)
    }

    fn open_file(
        &self,
        open: &mut OpenFiles,
        name: &str,
        flags: OFlags,
        dirty: bool,
    ) -> io::Result<Arc<File>> {
        let file = rustix::fs::openat(&self.handle, name, flags | OFlags::CLOEXEC, OWNER_ONLY)?;
        let file = Arc::new(File::from(file));
        if flags.contains(OFlags::CREATE) {
            give(&file, self.owner)?;
        }
        self.make_room(open);
        open.by_name.insert(name.to_owned(), OpenFile { file: Arc::clone(&file), dirty });
        Ok(file)
    }

    /// Closes synced files; without any, syncs and closes one.
    fn make_room(&self, open: &mut OpenFiles) {
        while open.by_name.len() >= self.open_max.max(1) {
            let is_clean = |(_, found): &(&String, &OpenFile)| !found.dirty;
            // Blobs come and go; segments are used again.
            let is_blob =
                |found: &(&String, &OpenFile)| is_clean(found) && found.0.ends_with(".blob");
            let mut files = open.by_name.iter();
            let clean = files.find(is_blob).or_else(|| open.by_name.iter().find(is_clean));
            let Some((name, _)) = clean.or_else(|| open.by_name.iter().next()) else { return };
            let name = name.clone();
            let Some(closed) = open.by_name.remove(&name) else { return };
            // Current users have their own reference.
            let must_sync = closed.dirty && self.syncs.load(Ordering::Relaxed);
            if must_sync && closed.file.sync_data().is_err() {
                open.failed.insert(name);
            }
        }
    }

    fn forget(&self, name: &str) {
        let mut open = self.open_files();
        open.by_name.remove(name);
        open.failed.remove(name);
    }

    fn sync_file(&self, name: &str, file: &File) -> io::Result<()> {
        self.syncs.store(true, Ordering::Relaxed);
        if self.open_files().failed.contains(name) {
            return Err(io::Error::other("an earlier write was lost"));
        }
        file.sync_data()?;
        if let Some(found) = self.open_files().by_name.get_mut(name) {
            found.dirty = false;
        }
        Ok(())
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            // Names that are no text are not ours, nor are directories, sockets and the lock.
            let Some(name) = entry.file_name().to_str().ok().filter(|name| *name != LOCK_FILE)
            else {
                continue;
            };
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let status = rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
                kind = FileType::from_raw_mode(status.st_mode);
            }
            if kind == FileType::RegularFile {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn describe(&self, error: &io::Error, what: &str, name: &str) -> DiskError {
        let kind = match error.kind() {
            _ if is_scarcity(error) => DiskErrorKind::Scarce,
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

/// The effect of a failed sync is unknown, whatever its error.
fn sync_failed(error: DiskError) -> DiskError {
    match error.kind {
        DiskErrorKind::Scarce => DiskError { kind: DiskErrorKind::Failed, ..error },
        _ => error,
    }
}

/// The process has no descriptor or memory for it now.
fn is_scarcity(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let scarce = [Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|errno| scarce.contains(&errno))
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

const OWNER_ONLY: Mode = Mode::RUSR.union(Mode::WUSR);

fn open_directory(directory: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(directory, flags, Mode::empty())?))
}

/// Creates the spool's directory, but not its parents. Otherwise, while a disk is not mounted, a new empty spool would
/// start in its place, and hide the queue on the disk.
fn make(directory: &Path) -> io::Result<()> {
    let parent = above(directory);
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        // Its name must be durable before its contents are promised.
        Ok(()) => File::open(parent)?.sync_all(),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !directory.is_dir() {
                // "File exists" would be true, but misleading.
                return Err(io::ErrorKind::NotADirectory.into());
            }
            // An earlier start may have ended before the name was durable. A process that may not read the parent did
            // not create the directory.
            File::open(parent).map_or(Ok(()), |parent| parent.sync_all())
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(no_parent(parent)),
        Err(error) => Err(error),
    }
}

/// Checks that a spool can be opened there, and creates nothing.
///
/// # Errors
/// Returns the reason why it cannot; a lock by another process is ignored.
pub(crate) fn check(directory: &Path) -> io::Result<()> {
    match fs::metadata(directory) {
        Ok(found) if !found.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        Ok(_) => refuse_foreign(directory),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match above(directory) {
            parent if parent.is_dir() => Ok(()),
            parent => Err(no_parent(parent)),
        },
        Err(error) => Err(error),
    }
}

fn no_parent(parent: &Path) -> io::Error {
    let parent = parent.display();
    let text = format!(
        "directory {parent} does not exist: mount its disk, or create it (only the last directory \
         of a path is created)"
    );
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// Returns true if a directory is a spool, judged by its file names.
pub(crate) fn is_spool(directory: &Path) -> bool {
    directory.join(LOCK_FILE).exists()
}

/// A directory with files but no spool belongs to another program.
fn refuse_foreign(directory: &Path) -> io::Result<()> {
    let mut foreign = None;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let text = name.to_str().unwrap_or("");
        if text == LOCK_FILE || spool::is_spool_name(text) {
            return Ok(());
        }
        let kind = entry.file_type()?;
        if (kind.is_file() || kind.is_dir()) && text != LOST_AND_FOUND {
            foreign.get_or_insert(name);
        }
    }
    let Some(name) = foreign else { return Ok(()) };
    let text =
        format!("it contains {} and no spool: name an empty or new directory", name.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

impl Disk for FileDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.run("list", "", || self.names())
    }

    fn length(&self, name: &str) -> Result<u64, DiskError> {
        self.run("examine", name, || {
            let status = rustix::fs::statat(&self.handle, name, AtFlags::empty())?;
            u64::try_from(status.st_size).map_err(io::Error::other)
        })
    }

    fn create(&self, name: &str) -> Result<(), DiskError> {
        self.run("create", name, || {
            let mut open = self.open_files();
            open.by_name.remove(name);
            open.failed.remove(name);
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC;
            self.open_file(&mut open, name, flags, true)?;
            Ok(())
        })
    }

    fn allocate(&self, name: &str, bytes: u64) -> Result<bool, DiskError> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;
        self.run("allocate", name, || {
            let file = self.file(name, true)?;
            match fallocate(&*file, FallocateFlags::empty(), 0, bytes) {
                Ok(()) => Ok(true),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError> {
        self.run("write", name, || write_all_at(&*self.file(name, true)?, offset, pieces))
    }

    fn truncate(&self, name: &str, length_bytes: u64) -> Result<(), DiskError> {
        self.run("cut", name, || self.file(name, true)?.set_len(length_bytes))
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.run("read", name, || self.file(name, false)?.read_at(buffer, offset))
    }

    fn sync_data(&self, name: &str) -> Result<(), DiskError> {
        let file = self.run("open", name, || self.file(name, false))?;
        self.run("sync", name, || self.sync_file(name, &file)).map_err(sync_failed)
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.run("sync the directory", "", || self.handle.sync_all()).map_err(sync_failed)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.run("rename", from, || {
            Ok(rustix::fs::renameat(&self.handle, from, &self.handle, to)?)
        })?;
        self.forget(to);
        // A file that is open stays so: a segment that is due next needs no new descriptor then.
        let mut open = self.open_files();
        open.failed.remove(from);
        if let Some(file) = open.by_name.remove(from) {
            open.by_name.insert(to.to_owned(), file);
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.forget(name);
        self.run("remove", name, || Ok(rustix::fs::unlinkat(&self.handle, name, AtFlags::empty())?))
    }

    fn is_shared(&self, name: &str) -> Result<bool, DiskError> {
        self.run("examine", name, || {
            Ok(rustix::fs::statat(&self.handle, name, AtFlags::empty())?.st_nlink > 1)
        })
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
    fn file_with_another_name_is_shared() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap();
        disk.create("a").unwrap();
        assert_eq!(disk.is_shared("a"), Ok(false));
        fs::hard_link(directory.path().join("a"), directory.path().join("b")).unwrap();
        assert_eq!(disk.is_shared("a"), Ok(true));
        assert_eq!(disk.is_shared("c").unwrap_err().kind, DiskErrorKind::NotFound);
    }

    #[test]
    fn what_the_spool_lies_in_is_not_made() {
        let directory = tempfile::tempdir().unwrap();
        let mount = directory.path().join("mount");
        let error = FileDisk::open(&mount.join("spool")).unwrap_err();
        assert!(error.to_string().contains("mount its disk"), "{error}");
        assert!(!mount.exists());
        fs::create_dir(&mount).unwrap();
        FileDisk::open(&mount.join("spool")).unwrap();
    }

    #[test]
    fn a_directory_of_somebody_else_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join(LOST_AND_FOUND)).unwrap();
        fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        let error = FileDisk::open(directory.path()).unwrap_err();
        assert!(error.to_string().contains("it contains notes.txt and no spool"), "{error}");
        assert!(!directory.path().join(LOCK_FILE).exists());
        fs::remove_file(directory.path().join("notes.txt")).unwrap();
        drop(FileDisk::open(directory.path()).unwrap());
        // Where a spool is, other files may be, too.
        fs::write(directory.path().join("notes.txt"), "mine").unwrap();
        FileDisk::open(directory.path()).unwrap();
    }

    #[test]
    fn names_stay_in_the_directory_that_was_opened() {
        let directory = tempfile::tempdir().unwrap();
        let (path, moved) = (directory.path().join("spool"), directory.path().join("moved"));
        let disk = FileDisk::open(&path).unwrap();
        disk.create("a").unwrap();
        // As if something were mounted over it.
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        disk.create("b").unwrap();
        disk.rename("a", "c").unwrap();
        disk.remove("b").unwrap();
        assert_eq!((disk.length("c").unwrap(), disk.list().unwrap()), (0, vec!["c".to_owned()]));
        assert!(moved.join("c").exists() && fs::read_dir(&path).unwrap().next().is_none());
    }

    #[test]
    fn a_file_that_is_written_and_not_synced_stays_open() {
        let directory = tempfile::tempdir().unwrap();
        let disk = FileDisk::open(directory.path()).unwrap().keep_open(2);
        let is_open = |name: &str| disk.open_files().by_name.contains_key(name);
        for name in ["a", "b", "c"] {
            disk.create(name).unwrap();
            if name == "a" {
                disk.write_at(name, 0, &mut [IoSlice::new(b"content")]).unwrap();
            } else {
                disk.sync_data(name).unwrap();
            }
        }
        assert!(is_open("a") && !is_open("b") && is_open("c"));
        // With nothing else to close it is synced first; what was written is there.
        disk.create("d").unwrap();
        disk.create("e").unwrap();
        assert!(!is_open("a"));
        let mut read = [0; 7];
        assert_eq!(disk.read_at("a", 0, &mut read).unwrap(), 7);
        disk.truncate("a", 3).unwrap();
        disk.sync_data("a").unwrap();
        assert_eq!(disk.length("a").unwrap(), 3);
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
