//! Backups of a running server's spool, and their restore.
//!
//! The server links the files of each log into a directory of its spool, between two batches: from then on it may remove
//! its own names. The command takes them from there, and writes the list of files last: a directory without a list, or
//! with files that do not match it, is no backup.

mod copying;
mod restoring;
mod staging;

pub(crate) use copying::{BackupReport, back_up};
pub(crate) use restoring::{RESTORED, RestoreReport, restore};
pub(crate) use staging::{remove_staged, stage};

use crate::sealed_text::{self, SealedContent};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// The list of a backup's files.
const LIST: &str = "backup.json";
/// The format of the list.
const FORMAT: u32 = 1;

/// The list of the files of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileList {
    format: u32,
    /// The server's version.
    version: String,
    /// Unix time in milliseconds.
    taken_at_ms: u64,
    logs: Vec<BackedUpLog>,
    /// The directory with the state files.
    state: String,
}

/// The files of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BackedUpLog {
    /// The directory in the backup.
    directory: String,
    files: Vec<StoredFile>,
    active: StoredActive,
}

/// A file that does not change any more.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct StoredFile {
    name: String,
    bytes: u64,
}

/// The beginning of the segment that was written to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct StoredActive {
    /// Its name in the spool.
    name: String,
    /// Its name in the backup: a later backup has more of this segment.
    stored: String,
    bytes: u64,
    length: u64,
}

impl FileList {
    /// Reads the list of a backup. `None` if it is missing.
    ///
    /// # Errors
    /// Returns a sentence if it cannot be read, or is of a later version.
    fn read(directory: &Path) -> Result<Option<FileList>, String> {
        let path = directory.join(LIST);
        let at = path.display();
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            bytes => bytes.map_err(|error| format!("cannot read {at}: {error}"))?,
        };
        let SealedContent::Whole(text) = sealed_text::opened(&bytes) else {
            return Err(format!("{at}: {}", sealed_text::DAMAGED));
        };
        let list: FileList =
            serde_json::from_slice(text).map_err(|error| format!("{at}: {error}"))?;
        if list.format > FORMAT {
            let (format, version) = (list.format, &list.version);
            return Err(format!(
                "{at} has format {format}, of version {version}; this version reads up to {FORMAT}"
            ));
        }
        Ok(Some(list))
    }

    /// Puts the list in place, when all its files are durable.
    fn write(&self, directory: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        let fresh = directory.join(format!("{LIST}.new"));
        write_new(&fresh, &sealed_text::sealed(text))?;
        fs::rename(&fresh, directory.join(LIST))?;
        sync_directory(directory)
    }
}

/// Writes and syncs a file for its owner only, in place of one that an earlier run left.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = created(path)?;
    file.write_all(content)?;
    file.sync_all()
}

fn created(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)
}

/// Copies a file, or its first `bytes`, and syncs the copy. Returns the number of octets.
fn copy(from: &Path, to: &Path, bytes: u64) -> io::Result<u64> {
    let mut copy = created(to)?;
    let copied = io::copy(&mut io::Read::take(File::open(from)?, bytes), &mut copy)?;
    copy.sync_all()?;
    Ok(copied)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Creates a directory for its owner only, unless it is there.
fn make_directory(path: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// A sentence about a failure at this place.
fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// The regular files below a directory, relative to it, without those that `skips` names.
fn files_below(
    directory: &Path,
    below: &Path,
    skips: &dyn Fn(&Path) -> bool,
) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        if skips(&path) {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files.extend(files_below(directory, &path, skips)?);
        } else if kind.is_file() {
            files.push(path);
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(format: u32) -> FileList {
        FileList {
            format,
            version: "0.2.0".to_owned(),
            taken_at_ms: 7,
            logs: Vec::new(),
            state: "state-7".to_owned(),
        }
    }

    #[test]
    fn list_is_read_as_written_or_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        assert_eq!(FileList::read(path), Ok(None));
        list(FORMAT).write(path).unwrap();
        assert_eq!(FileList::read(path), Ok(Some(list(FORMAT))));
        list(FORMAT + 1).write(path).unwrap();
        let later = FileList::read(path).unwrap_err();
        assert!(
            later.ends_with("has format 2, of version 0.2.0; this version reads up to 1"),
            "{later}"
        );
        let mut bytes = fs::read(path.join(LIST)).unwrap();
        bytes[3] ^= 1;
        fs::write(path.join(LIST), &bytes).unwrap();
        assert!(FileList::read(path).unwrap_err().ends_with(sealed_text::DAMAGED));
        fs::write(path.join(LIST), &bytes[..bytes.len() / 2]).unwrap();
        assert!(FileList::read(path).is_err());
    }
}
