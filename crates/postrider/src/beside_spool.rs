//! Creates missing configured directories only beside a spool, or in it: the spool shows that the disk is mounted.
//! Files below an empty mount point would be hidden later.

use crate::kept_secret::SPOOL_SALT;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// The directory that a path is in.
pub(crate) fn above(path: &Path) -> &Path {
    match path.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    }
}

/// Opens a directory as a path only (O_PATH).
fn open(directory: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Returns true if the directory is a spool, or contains one.
pub(crate) fn has_a_spool(directory: &OwnedFd) -> Result<bool, Errno> {
    let is_there =
        |name: &Path| rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
    if is_there(Path::new(SPOOL_SALT)) {
        return Ok(true);
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    for entry in Dir::new(rustix::fs::openat(directory, ".", flags, Mode::empty())?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if is_there(&Path::new(OsStr::from_bytes(&name)).join(SPOOL_SALT)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Creates a directory in `above` durably.
pub(crate) fn make_within(above: &OwnedFd, name: &OsStr, mode: Mode) -> Result<(), Errno> {
    match rustix::fs::mkdirat(above, name, mode) {
        // Another process created it first.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::fsync(rustix::fs::openat(above, ".", flags, Mode::empty())?.as_fd())
}

/// Returns true if a directory that is not there may be made.
pub(crate) fn may_be_made(directory: &Path) -> bool {
    open(above(directory)).and_then(|above| has_a_spool(&above)).unwrap_or(false)
}

/// Creates a missing directory, if that is allowed.
///
/// # Errors
/// Returns an error if its disk may not be mounted, or the operating system's error.
pub(crate) fn make_if_missing(directory: &Path, mode: Mode) -> io::Result<()> {
    if directory.is_dir() {
        return Ok(());
    }
    let missing = || {
        let text = format!(
            "directory {} does not exist: mount its disk, or create it",
            directory.display()
        );
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    let name = directory.file_name().ok_or_else(missing)?;
    let above = match open(above(directory)) {
        Err(Errno::NOENT) => return Err(missing()),
        other => other?,
    };
    if !has_a_spool(&above)? {
        return Err(missing());
    }
    Ok(make_within(&above, name, mode)?)
}
