//! Free space of a mailbox, found without a change to the mailbox.

use super::file_system::FileSystems;
use super::maildir::{FileCreator, WAY, untrusted};
use super::quota::{self, Counts};
use mta::seams::{MailboxError, MailboxPlace};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::io;
use std::path::{Component, Path};

/// Checks that a message of `bytes` octets fits into a mailbox and on its disk.
///
/// # Errors
/// The quota or the disk is full; or an error of the operating system, or of a path that is not trusted.
pub(super) fn check(
    place: &MailboxPlace,
    bytes: u64,
    (file_systems, counts): (&dyn FileSystems, &Counts),
) -> Result<(), MailboxError> {
    let (nearest, is_mailbox) = look(place, file_systems)?;
    if file_systems.free_bytes(&nearest).map_err(io::Error::from)? < bytes {
        return Err(io::Error::from(Errno::NOSPC).into());
    }
    match place.quota_bytes {
        // A mailbox that is not there yet is empty.
        Some(quota_bytes) if is_mailbox && quota::is_full(&nearest, counts, quota_bytes, bytes) => {
            Err(MailboxError::Full { quota_bytes })
        }
        _ => Ok(()),
    }
}

/// Opens a Maildir to look at it, and returns true; or the nearest directory above it that exists, and false. Creates
/// nothing.
///
/// # Errors
/// Returns the operating system's error, and an error for a link in the path.
fn look(
    place: &MailboxPlace,
    file_systems: &dyn FileSystems,
) -> Result<(OwnedFd, bool), MailboxError> {
    let path = if place.root.as_os_str().is_empty() { Path::new(".") } else { &place.root };
    let mut nearest = match file_systems.open_root(path) {
        Err(Errno::NOENT) => {
            return Ok((file_systems.open_root(place.required()).map_err(io::Error::from)?, false));
        }
        other => other.map_err(io::Error::from)?,
    };
    for part in place.below.components() {
        if !matches!(part, Component::Normal(_)) {
            return Err(untrusted(part));
        }
        match FileCreator::shared().open(&nearest, part.as_os_str(), WAY) {
            Ok(next) => nearest = next,
            Err(MailboxError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok((nearest, false));
            }
            Err(other) => return Err(other),
        }
    }
    Ok((nearest, true))
}
