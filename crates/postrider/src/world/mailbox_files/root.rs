//! The directory that mailboxes are in, where it is not there yet.

use super::file_system::FileSystems;
use crate::kept_secret::SPOOL_SALT;
use mta::seams::MailboxError;
use rustix::fs::{AtFlags, Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Others than this process must find their mailboxes in it.
const MODE: u32 = 0o711;

/// Makes it beside a spool: where that is, its disk is mounted. Nowhere else is it made, for what was written below an
/// empty mount point would be hidden later.
///
/// # Errors
/// Its disk may not be mounted, or what the operating system says.
pub(super) fn make_root(
    root: &Path,
    file_systems: &dyn FileSystems,
) -> Result<OwnedFd, MailboxError> {
    let missing = || MailboxError::Missing(root.to_owned());
    let (above, name) = (above(root), root.file_name().ok_or_else(missing)?);
    let above = match file_systems.open_root(above) {
        Err(Errno::NOENT) => return Err(missing()),
        other => other.map_err(io::Error::from)?,
    };
    if !has_a_spool(&above).map_err(io::Error::from)? {
        return Err(missing());
    }
    match rustix::fs::mkdirat(&above, name, Mode::from_raw_mode(MODE)) {
        // Another writer was faster.
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(io::Error::from(error).into()),
    }
    let opened = rustix::fs::openat(&above, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    opened.and_then(|above| rustix::fs::fsync(&above)).map_err(io::Error::from)?;
    Ok(file_systems.open_root(root).map_err(io::Error::from)?)
}

/// Whether the first delivery makes it, as far as can be seen.
pub(crate) fn will_be_made(root: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let above = rustix::fs::open(above(root), flags, Mode::empty());
    above.and_then(|above| has_a_spool(&above)).unwrap_or(false)
}

fn above(root: &Path) -> &Path {
    match root.parent() {
        Some(above) if !above.as_os_str().is_empty() => above,
        _ => Path::new("."),
    }
}

fn has_a_spool(directory: &OwnedFd) -> Result<bool, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    for entry in Dir::new(opened)? {
        let within = Path::new(OsStr::from_bytes(entry?.file_name().to_bytes())).join(SPOOL_SALT);
        if rustix::fs::statat(directory, &within, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(true);
        }
    }
    Ok(false)
}
