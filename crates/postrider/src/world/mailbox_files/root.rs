//! The directory that mailboxes are in, where it is not there yet.

use super::file_system::FileSystems;
use crate::beside_spool::{above, has_a_spool, make_within};
use mta::seams::MailboxError;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Others than this process must find their mailboxes in it.
const MODE: u32 = 0o711;

/// Makes it beside a spool, and nowhere else.
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
    make_within(&above, name, Mode::from_raw_mode(MODE)).map_err(io::Error::from)?;
    Ok(file_systems.open_root(root).map_err(io::Error::from)?)
}
