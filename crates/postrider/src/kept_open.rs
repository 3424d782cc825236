//! Files that only root may read, opened before the process becomes another user. A reload reads them by these
//! descriptors, as long as their names lead to the same files.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Maximum number of files that are kept open, each of which is a descriptor.
pub(crate) const FILES_MAX: usize = 256;

/// The files of this process. A process changes its user once, and all its parts with it.
static KEPT: OnceLock<BTreeMap<PathBuf, File>> = OnceLock::new();

/// Opens regular files by their paths, to be kept. Missing ones are left to those that read them.
///
/// # Errors
/// Returns an error if there are too many.
pub(crate) fn keep<'p>(paths: impl Iterator<Item = &'p Path>) -> Result<(), String> {
    let mut kept = BTreeMap::new();
    for path in paths {
        // A pipe without a writer would hold the start.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let is_file = |file: &File| file.metadata().is_ok_and(|meta| meta.is_file());
        if let Some(file) = opened.ok().filter(is_file) {
            kept.insert(path.to_owned(), file);
        }
    }
    if kept.len() > FILES_MAX {
        let count = kept.len();
        return Err(format!(
            "{count} files that only root may read, {FILES_MAX} at most: let `user` read them"
        ));
    }
    let _ = KEPT.set(kept);
    Ok(())
}

/// An opened file.
#[derive(Debug)]
pub(crate) enum OpenedFile {
    Own(File),
    /// Read from its start, whatever was read before.
    Kept {
        file: &'static File,
        offset: u64,
    },
}

impl OpenedFile {
    /// The metadata of the file.
    ///
    /// # Errors
    /// Returns the operating system's error.
    pub(crate) fn metadata(&self) -> io::Result<Metadata> {
        match self {
            OpenedFile::Own(file) => file.metadata(),
            OpenedFile::Kept { file, .. } => file.metadata(),
        }
    }
}

impl Read for OpenedFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            OpenedFile::Own(file) => file.read(into),
            OpenedFile::Kept { file, offset } => {
                let count = file.read_at(into, *offset)?;
                *offset += count as u64;
                Ok(count)
            }
        }
    }
}

/// Opens a file for reading, by the descriptor of the start if this process may not open it.
///
/// # Errors
/// Returns the operating system's error, or an error if another file has the name now, which only root may read.
pub(crate) fn open(path: &Path) -> io::Result<OpenedFile> {
    let error = match File::open(path) {
        Ok(file) => return Ok(OpenedFile::Own(file)),
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
        Err(error) => error,
    };
    let Some(file) = KEPT.get().and_then(|kept| kept.get(path)) else { return Err(error) };
    // A directory that only root may search hides the name: then the file is as good as unchanged.
    let is_same = match std::fs::metadata(path) {
        Ok(now) => identity(&now) == file.metadata().map_or((0, 0), |meta| identity(&meta)),
        Err(_) => true,
    };
    match is_same {
        true => Ok(OpenedFile::Kept { file, offset: 0 }),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "it was replaced since the start, and only root may read it: restart the server, or let its \
             group read the file",
        )),
    }
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}
