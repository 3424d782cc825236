//! Opens a Maildir below the configured directory, without following links.
//!
//! Every step goes from an open directory to a name in it, so a user with write access to a mailbox cannot redirect the
//! server by replacing its directories. For the same reason files are created as this process and then given to their
//! user (`fchown`), instead of acting as that user. This needs no change of identity per thread, which the standard
//! library and `rustix` leave to `unsafe` code.

use super::file_system::FileSystems;
use super::owner::{self, Owner};
use super::quota::{self, Counts};
use mta::seams::{MailFolder, MailboxError, MailboxPlace};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path};
use std::sync::Arc;

/// Opened to find names in it only.
const WAY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
/// Opened to read or sync it.
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// An open Maildir, or a folder of one.
#[derive(Debug)]
pub(super) struct Maildir {
    /// The Maildir itself, where its quota is kept.
    pub(super) top: OwnedFd,
    pub(super) tmp: OwnedFd,
    pub(super) new: OwnedFd,
    pub(super) makes: FileCreator,
    pub(super) quota_bytes: Option<u64>,
    /// The number of the file system that `tmp` and `new` are in.
    pub(super) file_system: u64,
    /// Cached usage of mailboxes.
    pub(super) counts: Arc<Counts>,
}

impl Maildir {
    /// Opens the Maildir, or creates it with its parent directories below the one that must exist.
    ///
    /// # Errors
    /// Returns the operating system's error, and an error for a link in the path or a directory of another owner.
    pub(super) fn open(
        place: &MailboxPlace,
        owner: Owner,
        (file_systems, counts): (&dyn FileSystems, &Arc<Counts>),
    ) -> Result<Maildir, MailboxError> {
        let makes = FileCreator::of(owner, place.keeping.mode);
        // A parent directory of several users' mailboxes belongs to none of these users: the owner of a directory can
        // replace its contents.
        let above = if place.keeping.is_by_table() { FileCreator::shared() } else { makes };
        let mut top = above.root(place, file_systems)?;
        let mut parts = place.below.components().peekable();
        while let Some(part) = parts.next() {
            let Component::Normal(name) = part else {
                return Err(untrusted(part));
            };
            let makes = if parts.peek().is_some() { above } else { makes };
            top = makes.enter(&top, name)?;
        }
        makes.trust(&top)?;
        let folder = place.folder.as_ref().map(|folder| makes.folder(&top, folder)).transpose()?;
        let folder = folder.flatten();
        let home = folder.as_ref().unwrap_or(&top);
        let tmp = makes.tmp(home)?;
        let new = makes.open(home, OsStr::new("new"), DIRECTORY)?;
        let file_system = rustix::fs::fstat(&new).map_err(io::Error::from)?.st_dev;
        let (quota_bytes, counts) = (place.quota_bytes, Arc::clone(counts));
        Ok(Maildir { top, tmp, new, makes, quota_bytes, file_system, counts })
    }
}

/// Checks that a message of `bytes` octets fits into a mailbox and on its disk.
///
/// # Errors
/// The quota or the disk is full; or an error of the operating system, or of a path that is not trusted.
pub(super) fn check_room(
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

/// Creates files and directories for an owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileCreator {
    owner: Owner,
    /// Of messages.
    mode: u32,
    /// Of directories.
    directory_mode: u32,
}

impl FileCreator {
    /// Directories are searchable with the read permission of messages.
    fn of(owner: Owner, mode: u32) -> FileCreator {
        FileCreator { owner, mode, directory_mode: mode | 0o100 | ((mode & 0o044) >> 2) }
    }

    /// This process's own directories, which everybody may search.
    fn shared() -> FileCreator {
        FileCreator { owner: owner::own(), mode: 0o600, directory_mode: 0o711 }
    }

    /// A new file, which must not be there yet.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(super) fn file(&self, directory: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)?;
        if self.mode != 0o600 {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(self.mode))?;
        }
        self.give(&file)?;
        Ok(file)
    }

    /// Created files already belong to this process, so fchown is needed only for another owner.
    fn give(&self, made: &OwnedFd) -> rustix::io::Result<()> {
        if self.owner == owner::own() {
            return Ok(());
        }
        let (user, group) = (Uid::from_raw(self.owner.user), Gid::from_raw(self.owner.group));
        rustix::fs::fchown(made, Some(user), Some(group))
    }

    /// Opens the configured directory, following links. If it is missing, its disk may not be mounted, and mail written
    /// below the mount point would be hidden later. So it is created only in a directory that also contains a spool. A
    /// root that is itself a Maildir is created in an existing directory.
    fn root(
        &self,
        place: &MailboxPlace,
        file_systems: &dyn FileSystems,
    ) -> Result<OwnedFd, MailboxError> {
        let path = if place.root.as_os_str().is_empty() { Path::new(".") } else { &place.root };
        match file_systems.open_root(path) {
            Err(Errno::NOENT) => {}
            other => return Ok(other.map_err(io::Error::from)?),
        }
        let required = place.required();
        let above = match file_systems.open_root(required) {
            Err(Errno::NOENT) => super::owner::make_root(required, file_systems)?,
            other => other.map_err(io::Error::from)?,
        };
        if required == path {
            return Ok(above);
        }
        self.make(&above, path.file_name().ok_or(io::ErrorKind::NotFound)?)?;
        Ok(file_systems.open_root(path).map_err(io::Error::from)?)
    }

    /// A directory in `directory`, made if it is missing.
    fn enter(&self, directory: &OwnedFd, name: &OsStr) -> Result<OwnedFd, MailboxError> {
        match self.open(directory, name, WAY) {
            Err(MailboxError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                self.make(directory, name)?;
                self.open(directory, name, WAY)
            }
            other => other,
        }
    }

    /// Opens a directory in `directory`, without following links.
    pub(super) fn open(
        &self,
        at: &OwnedFd,
        name: &OsStr,
        flags: OFlags,
    ) -> Result<OwnedFd, MailboxError> {
        rustix::fs::openat(at, name, flags | OFlags::NOFOLLOW, Mode::empty()).map_err(|error| {
            let kind = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
                .map(|stat| FileType::from_raw_mode(stat.st_mode));
            match kind {
                Ok(FileType::Symlink) => {
                    let name = name.to_string_lossy();
                    MailboxError::Untrusted(format!("`{name}` in its path is a symbolic link"))
                }
                _ => MailboxError::Io(error.into()),
            }
        })
    }

    /// Makes a directory, and syncs the one that it is in.
    fn make(&self, at: &OwnedFd, name: &OsStr) -> Result<(), MailboxError> {
        match rustix::fs::mkdirat(at, name, Mode::RWXU) {
            // Another writer was faster.
            Err(Errno::EXIST) => return Ok(()),
            other => other.map_err(io::Error::from)?,
        }
        let made = self.open(at, name, DIRECTORY)?;
        // The new directory may have been replaced since.
        if user_of(&made)? == owner::own().user {
            let mode = Mode::from_raw_mode(self.directory_mode);
            rustix::fs::fchmod(&made, mode).map_err(io::Error::from)?;
            self.give(&made).map_err(io::Error::from)?;
        }
        sync(at)
    }

    /// Opens `tmp` of a Maildir or a folder. If it is missing, creates it with the other directories, as the last, so
    /// its presence shows that they exist even after an interruption.
    fn tmp(&self, home: &OwnedFd) -> Result<OwnedFd, MailboxError> {
        let tmp = OsStr::new("tmp");
        match self.open(home, tmp, WAY) {
            Err(MailboxError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                for name in ["new", "cur"] {
                    self.make(home, OsStr::new(name))?;
                }
                self.make(home, tmp)?;
                self.open(home, tmp, WAY)
            }
            other => other,
        }
    }

    /// A folder of the Maildir `top`; `None`: it is not there, and not to be made.
    fn folder(&self, top: &OwnedFd, folder: &MailFolder) -> Result<Option<OwnedFd>, MailboxError> {
        let name = OsStr::new(&folder.name);
        let found = match self.open(top, name, WAY) {
            Err(MailboxError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                if !folder.is_made {
                    return Ok(None);
                }
                // The mailbox is whole before it has folders.
                self.tmp(top)?;
                self.make(top, name)?;
                let made = self.open(top, name, WAY)?;
                // Maildir++ marks a folder by this file.
                match self.file(&made, "maildirfolder") {
                    Ok(_) | Err(Errno::EXIST) => made,
                    Err(error) => return Err(MailboxError::Io(error.into())),
                }
            }
            other => other?,
        };
        self.trust(&found)?;
        Ok(Some(found))
    }

    /// Refuses directories of another owner.
    fn trust(&self, directory: &OwnedFd) -> Result<(), MailboxError> {
        let (is, ought) = (user_of(directory)?, self.owner.user);
        if is == ought {
            return Ok(());
        }
        Err(MailboxError::Untrusted(format!("it belongs to user {is}, not to user {ought}")))
    }
}

fn untrusted(part: Component<'_>) -> MailboxError {
    let part = part.as_os_str().to_string_lossy();
    MailboxError::Untrusted(format!("`{part}` in its path"))
}

fn user_of(file: &OwnedFd) -> io::Result<u32> {
    Ok(rustix::fs::fstat(file)?.st_uid)
}

/// Makes the names in a directory durable.
fn sync(directory: &OwnedFd) -> Result<(), MailboxError> {
    let sync = || {
        let readable = rustix::fs::openat(directory, ".", DIRECTORY, Mode::empty())?;
        rustix::fs::fsync(&readable)
    };
    Ok(sync().map_err(io::Error::from)?)
}
