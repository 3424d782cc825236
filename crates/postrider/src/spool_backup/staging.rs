//! Links to the files of a log, made by the running server for a backup.

use super::{make_directory, write_new};
use crate::file_disk::STAGING;
use serde::{Deserialize, Serialize};
use spool::LogSnapshot;
use std::fs;
use std::io;
use std::path::Path;

/// The file with the rest of the snapshot.
const SNAPSHOT: &str = "snapshot.json";

/// The segment that was written to, and the names of all other files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StagedLog {
    pub(super) active: String,
    pub(super) active_bytes: u64,
    pub(super) active_length: u64,
    pub(super) files: Vec<String>,
}

impl StagedLog {
    /// Reads the snapshot in the directory of a log.
    pub(super) fn read(log: &Path) -> io::Result<StagedLog> {
        let bytes = fs::read(log.join(STAGING).join(SNAPSHOT))?;
        Ok(serde_json::from_slice(&bytes)?)
    }
}

/// Links the files of a snapshot of the log in this directory, in place of an earlier snapshot. The log must not remove
/// files before it returns. It takes some microseconds for each file.
///
/// # Errors
/// Returns an error if a file cannot be linked.
pub(crate) fn stage(log: &Path, snapshot: &LogSnapshot) -> io::Result<()> {
    remove_staged(log)?;
    let staging = log.join(STAGING);
    make_directory(&staging)?;
    for file in snapshot.files.iter().chain([&snapshot.active]) {
        fs::hard_link(log.join(&**file), staging.join(&**file))?;
    }
    let staged = StagedLog {
        active: snapshot.active.to_string(),
        active_bytes: snapshot.active_bytes,
        active_length: snapshot.active_length,
        files: snapshot.files.iter().map(ToString::to_string).collect(),
    };
    // Written last: without it the directory is of a run that ended early.
    write_new(&staging.join(SNAPSHOT), &serde_json::to_vec(&staged)?)
}

/// Removes the links, if there are any.
///
/// # Errors
/// Returns an error if they cannot be removed.
pub(crate) fn remove_staged(log: &Path) -> io::Result<()> {
    match fs::remove_dir_all(log.join(STAGING)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn links_replace_those_of_an_earlier_run() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path();
        for name in ["one", "two", "three"] {
            fs::write(log.join(name), name).unwrap();
        }
        let snapshot = |files: &[&str]| LogSnapshot {
            files: files.iter().map(|name| Box::from(*name)).collect(),
            active: "three".into(),
            active_bytes: 2,
            active_length: 5,
        };
        stage(log, &snapshot(&["one", "two"])).unwrap();
        stage(log, &snapshot(&["two"])).unwrap();
        let staged = StagedLog::read(log).unwrap();
        assert_eq!(
            (staged.files.as_slice(), staged.active.as_str()),
            (&["two".to_owned()][..], "three")
        );
        assert!(!log.join(STAGING).join("one").exists());
        assert_eq!(fs::metadata(log.join("two")).unwrap().nlink(), 2);
        assert!(stage(log, &snapshot(&["none"])).is_err());
        assert!(StagedLog::read(log).is_err());
        remove_staged(log).unwrap();
        remove_staged(log).unwrap();
        assert_eq!(fs::metadata(log.join("two")).unwrap().nlink(), 1);
    }
}
