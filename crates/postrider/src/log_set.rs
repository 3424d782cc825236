//! Which spool directories belong together. Each has a small file that names all that were in use
//! with it, so that one that is taken out of `paths` is missed while there is mail in it.

use crate::console::ConsoleLog;
use crate::file_disk::FileDisk;
use mta::console::{Console as _, Level};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file's name.
const NAME: &str = "logs.json";
/// A file that is larger was not written here: paths are few and short.
const BYTES_MAX: u64 = 2 << 20;

/// What stands in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Known {
    /// Its own path then: a directory that was moved is not missed under its old name.
    directory: PathBuf,
    /// All that were in use with it, or are missed.
    all: BTreeSet<PathBuf>,
}

/// The directories that are in use now, and those that are missed.
#[derive(Debug)]
pub(crate) struct LogSet {
    directories: Vec<PathBuf>,
    /// Not there, or not readable: told at each start.
    missed: BTreeSet<PathBuf>,
    /// What stands in each of `directories`.
    known: Vec<Option<Known>>,
}

impl LogSet {
    /// Looks for directories that were in use with these.
    ///
    /// # Errors
    /// A sentence: there is mail in one of them.
    pub(crate) fn look(paths: &[PathBuf], console: &ConsoleLog) -> Result<LogSet, String> {
        let absolute = |path: &PathBuf| fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let directories: Vec<PathBuf> = paths.iter().map(absolute).collect();
        let mut known = Vec::new();
        for directory in &directories {
            known.push(read(directory).unwrap_or_else(|error| {
                // Spools of earlier versions have none, and mail may go on without.
                let path = directory.join(NAME);
                console.line(
                    Level::Warn,
                    "spool",
                    format_args!(
                        "cannot read which directories were in use: {error} path={path:?}"
                    ),
                );
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
            match count_queued(&path) {
                Ok(0) => {}
                Ok(count) => {
                    return Err(format!(
                        "the spool directory {} was in use, has {count} queued messages and is not \
                         in `paths`: put it back where it stood, or move it away to start without",
                        path.display()
                    ));
                }
                Err(error) => {
                    console.line(
                        Level::Warn,
                        "spool",
                        format_args!(
                            "a spool directory was in use and is not in `paths`, and it can't be read \
                             to see whether it holds mail: {error} path={} (repeated at each start \
                             until {NAME} does not name it)",
                            path.display()
                        ),
                    );
                    missed.insert(path);
                }
            }
        }
        Ok(LogSet { directories, missed, known })
    }

    /// Notes the directories in each, where that is news. Mail goes on if it can't be written.
    pub(crate) fn note(self, console: &ConsoleLog) {
        let all: BTreeSet<PathBuf> = self.directories.iter().cloned().chain(self.missed).collect();
        for (directory, known) in self.directories.into_iter().zip(self.known) {
            let now = Known { directory, all: all.clone() };
            if known.as_ref() == Some(&now) {
                continue;
            }
            if let Err(error) = write(&now) {
                let path = now.directory.join(NAME);
                console.line(
                    Level::Warn,
                    "spool",
                    format_args!("cannot note which directories are in use: {error} path={path:?}"),
                );
            }
        }
    }
}

/// Messages with open recipients in a directory that nobody uses.
fn count_queued(directory: &Path) -> Result<u64, String> {
    let disk = FileDisk::read_only(directory).map_err(|error| error.to_string())?;
    spool::count_queued(&disk).map_err(|error| error.to_string())
}

fn read(directory: &Path) -> io::Result<Option<Known>> {
    let path = directory.join(NAME);
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(meta) if meta.len() > BYTES_MAX => return Err(io::Error::other("it is too long")),
        Ok(_) => {}
    }
    Ok(Some(serde_json::from_slice(&fs::read(&path)?)?))
}

/// Writes another file, syncs it and puts it in place of the old one.
fn write(known: &Known) -> io::Result<()> {
    let path = known.directory.join(NAME);
    let fresh = path.with_extension("json.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(known)?)?;
    file.sync_all()?;
    fs::rename(&fresh, &path)?;
    File::open(&known.directory)?.sync_all()
}
