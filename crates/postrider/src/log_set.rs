//! The set of spool directories. Each has a small file that names all directories used with it, so that one removed
//! from `paths` is missed while it contains mail.

use crate::console::ConsoleLog;
use crate::file_disk::{FileDisk, OPENED_WITHIN, no_answer};
use crate::kept_file::StateFiles;
use crate::limited_work::waited_for;
use crate::sealed_text;
use mta::console::{Console as _, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "logs.json";
/// A file that is larger was not written here: paths are few and short.
const BYTES_MAX: u64 = 2 << 20;

/// Contents of one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LogDirectoryRecord {
    /// Its own path then: a directory that was moved is not missed under its old name.
    directory: PathBuf,
    /// All that were in use with it, or are missed.
    all: BTreeSet<PathBuf>,
}

/// The directories in use, and the missing ones.
#[derive(Debug)]
pub(crate) struct LogSet {
    directories: Vec<PathBuf>,
    /// Missing or unreadable directories, logged at each start.
    missed: BTreeSet<PathBuf>,
    /// Contents of each of `directories`.
    known: Vec<Option<LogDirectoryRecord>>,
}

impl LogSet {
    /// Searches for directories that were used with these.
    ///
    /// # Errors
    /// Returns a sentence if one contains mail.
    pub(crate) fn look(
        paths: &[PathBuf],
        progress: &dyn Fn(&str),
        (files, console): (&StateFiles, &ConsoleLog),
    ) -> Result<LogSet, String> {
        let absolute = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let directories: Vec<PathBuf> = paths.iter().map(absolute).collect();
        let mut known = Vec::new();
        for directory in &directories {
            known.push(read(directory).unwrap_or_else(|error| {
                // Spools of earlier versions have none, and mail may go on without.
                let path = directory.join(NAME);
                let why = format!(
                    "cannot read the list of used directories: {error} path={}",
                    path.display()
                );
                let so = "a directory removed from `paths` is not detected: check that all are \
                     configured";
                files.lost("spool", &path, &why, so);
                None
            }));
        }
        let mut others: BTreeSet<PathBuf> =
            known.iter().flatten().flat_map(|known| known.all.iter().cloned()).collect();
        let is_here = |path: &PathBuf| {
            directories.contains(path) || known.iter().flatten().any(|k| k.directory == *path)
        };
        others.retain(|path| !is_here(path));
        let mut missed = BTreeSet::new();
        for path in others {
            progress(&format!("the spool in {}, which is not in `paths`", path.display()));
            match count_queued(&path) {
                Ok(0) => {}
                Ok(count) => {
                    return Err(format!(
                        "the spool directory {} was in use, has {count} queued messages and is \
                         not in `paths`: restore its position, or move it away to start without \
                         it",
                        path.display()
                    ));
                }
                Err(error) => {
                    console.line(
                        Level::Warn,
                        "spool",
                        format_args!(
                            "a spool directory was in use and is not in `paths`, and cannot be \
                             read to check for mail: {error} path={} (repeated at each start \
                             while {NAME} lists it)",
                            path.display()
                        ),
                    );
                    missed.insert(path);
                }
            }
        }
        Ok(LogSet { directories, missed, known })
    }

    /// Records the set in each directory, if it is new. A failed write does not stop mail.
    pub(crate) fn note(self, console: &ConsoleLog) {
        let all: BTreeSet<PathBuf> = self.directories.iter().cloned().chain(self.missed).collect();
        for (directory, known) in self.directories.into_iter().zip(self.known) {
            let now = LogDirectoryRecord { directory, all: all.clone() };
            if known.as_ref() == Some(&now) {
                continue;
            }
            if let Err(error) = write(&now) {
                let path = now.directory.join(NAME);
                console.line(
                    Level::Warn,
                    "spool",
                    format_args!("cannot record the used directories: {error} path={path:?}"),
                );
            }
        }
    }
}

/// Number of messages with open recipients in a directory not in use. Its disk may not respond.
fn count_queued(directory: &Path) -> Result<u64, String> {
    let at = directory.to_owned();
    let opened = waited_for(OPENED_WITHIN, move || FileDisk::read_only(&at));
    let disk = opened.ok_or_else(no_answer)?.map_err(|error| error.to_string())?;
    spool::count_queued(&disk).map_err(|error| error.to_string())
}

fn read(directory: &Path) -> io::Result<Option<LogDirectoryRecord>> {
    let path = directory.join(NAME);
    let mut bytes = Vec::new();
    match File::open(&path) {
        // A link that leads nowhere is no file that is not there.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => {
            return Ok(None);
        }
        file => file?.take(BYTES_MAX + 1).read_to_end(&mut bytes)?,
    };
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other("too long"));
    }
    let text = sealed_text::checked(&bytes).map_err(io::Error::other)?;
    Ok(Some(serde_json::from_slice(text)?))
}

/// Writes another file, syncs it and puts it in place of the old one.
fn write(known: &LogDirectoryRecord) -> io::Result<()> {
    let path = known.directory.join(NAME);
    let fresh = path.with_extension("json.new");
    let mut file = File::create(&fresh)?;
    let mut text = serde_json::to_vec_pretty(known)?;
    text.push(b'\n');
    file.write_all(&sealed_text::sealed(text))?;
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    File::open(&known.directory)?.sync_all()
}
