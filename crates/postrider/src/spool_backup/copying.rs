//! From the links of a running server to a backup.

use super::staging::StagedLog;
use super::{
    BackedUpLog, FORMAT, FileList, LIST, StoredActive, StoredFile, copy, failed, files_below,
    make_directory, sync_directory,
};
use crate::file_disk::STAGING;
use crate::file_lock;
use crate::world::clock::wall_now;
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Locked by a running backup.
const LOCK: &str = "lock";
/// Directories of the spool with files that are no state: sockets, mail that has its own copies, this program's own.
const NO_STATE: [&str; 4] = ["lock", "control.sock", STAGING, "logs.json"];

/// The result of a backup.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BackupReport {
    /// Files of the spool in the backup.
    pub(crate) files: u64,
    /// Those that were not in an earlier backup.
    pub(crate) new_files: u64,
    /// New files that share their space with the spool.
    pub(crate) linked: u64,
    pub(crate) copied_bytes: u64,
    pub(crate) state_files: u64,
}

/// Makes a backup in `target` of these logs, with files that the server has linked, or adds new files to one. `events` is the event
/// log, which is left out.
///
/// # Errors
/// Returns a sentence if a file cannot be read, linked or written. An earlier backup in `target` is whole then.
pub(crate) fn back_up(
    logs: &[PathBuf],
    events: Option<&Path>,
    version: &str,
    target: &Path,
) -> Result<BackupReport, String> {
    make_directory(target).map_err(|error| failed("create", target, &error))?;
    let lock = target.join(LOCK);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let _locked = file_lock::open(&lock, &options).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => format!("another backup to {} is running", target.display()),
        _ => failed("lock", &lock, &error),
    })?;
    // Checked first: a damaged list is no reason to lose the files of its backup.
    FileList::read(target)?;
    let taken_at_ms = wall_now().0;
    let mut backup = Backup { target, report: BackupReport::default() };
    let mut list = FileList {
        format: FORMAT,
        version: version.to_owned(),
        taken_at_ms,
        logs: Vec::new(),
        state: format!("state-{taken_at_ms}"),
    };
    for (number, log) in logs.iter().enumerate() {
        list.logs.push(backup.log(number, log)?);
    }
    if let Some(first) = logs.first() {
        backup.state(first, events, &list.state)?;
    }
    list.write(target).map_err(|error| failed("write", &target.join(LIST), &error))?;
    remove_unlisted(target, &list).map_err(|error| failed("clean up", target, &error))?;
    Ok(backup.report)
}

/// A running backup.
struct Backup<'a> {
    target: &'a Path,
    report: BackupReport,
}

impl Backup<'_> {
    /// Adds a log.
    fn log(&mut self, number: usize, log: &Path) -> Result<BackedUpLog, String> {
        let staging = log.join(STAGING);
        let staged = StagedLog::read(log).map_err(|error| failed("read", &staging, &error))?;
        let directory = format!("log{number}");
        let target = self.target.join(&directory);
        make_directory(&target).map_err(|error| failed("create", &target, &error))?;
        let mut files = Vec::with_capacity(staged.files.len());
        for name in staged.files {
            let bytes = self.file(&staging.join(&name), &target.join(&name))?;
            files.push(StoredFile { name, bytes });
        }
        files.sort();
        let (name, bytes) = (staged.active, staged.active_bytes);
        let stored = format!("{name}.{bytes}");
        let (from, to) = (staging.join(&name), target.join(&stored));
        let copied = copy(&from, &to, bytes).map_err(|error| failed("write", &to, &error))?;
        if copied < bytes {
            return Err(format!("{} is shorter than the server wrote it", from.display()));
        }
        self.report.files += 1;
        self.report.new_files += 1;
        self.report.copied_bytes += copied;
        sync_directory(&target).map_err(|error| failed("sync", &target, &error))?;
        let active = StoredActive { name, stored, bytes, length: staged.active_length };
        Ok(BackedUpLog { directory, files, active })
    }

    /// Adds a file that does not change any more, unless it is there. Returns its length.
    fn file(&mut self, from: &Path, to: &Path) -> Result<u64, String> {
        let status = fs::metadata(from).map_err(|error| failed("examine", from, &error))?;
        let bytes = status.len();
        self.report.files += 1;
        if fs::metadata(to).is_ok_and(|there| there.len() == bytes) {
            return Ok(bytes);
        }
        self.report.new_files += 1;
        // An interrupted backup may have left a part under this name.
        let fresh = to.with_added_extension("new");
        let _ = fs::remove_file(&fresh);
        match fs::hard_link(from, &fresh) {
            Ok(()) => self.report.linked += 1,
            // Another disk, or one without links.
            Err(_) => {
                let copied = copy(from, &fresh, bytes);
                let copied = copied.map_err(|error| failed("write", &fresh, &error))?;
                self.report.copied_bytes += copied;
            }
        }
        fs::rename(&fresh, to).map_err(|error| failed("rename", &fresh, &error))?;
        Ok(bytes)
    }

    /// Copies the state files of the first directory.
    fn state(&mut self, log: &Path, events: Option<&Path>, state: &str) -> Result<(), String> {
        let target = self.target.join(state);
        make_directory(&target).map_err(|error| failed("create", &target, &error))?;
        let events = events.and_then(|path| path.strip_prefix(log).ok());
        let events = events.and_then(Path::file_stem).map(|stem| stem.to_string_lossy());
        let skips = |path: &Path| is_no_state(path, events.as_deref());
        let found = files_below(log, Path::new(""), &skips);
        for path in found.map_err(|error| failed("read", log, &error))? {
            let (from, to) = (log.join(&path), target.join(&path));
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent).map_err(|error| failed("create", parent, &error))?;
            }
            match copy(&from, &to, u64::MAX) {
                Ok(copied) => self.report.copied_bytes += copied,
                // It was replaced or removed just now.
                Err(error) if error.kind() == io::ErrorKind::NotFound && !from.exists() => continue,
                Err(error) => return Err(failed("write", &to, &error)),
            }
            self.report.state_files += 1;
        }
        sync_directory(&target).map_err(|error| failed("sync", &target, &error))
    }
}

/// Returns true if a path in the spool's directory is no state file. `events` begins the names of the event log.
fn is_no_state(path: &Path, events: Option<&str>) -> bool {
    let mut parts = path.components();
    let first = parts.next().map(|part| part.as_os_str().to_string_lossy());
    let first = first.as_deref().unwrap_or_default();
    let is_event_log = events.is_some_and(|stem| first.starts_with(stem));
    NO_STATE.contains(&first) || spool::is_spool_name(first) || is_event_log
}

/// Removes files of earlier backups, and of backups that ended early.
fn remove_unlisted(target: &Path, list: &FileList) -> io::Result<()> {
    for log in &list.logs {
        let mut kept: BTreeSet<&str> = log.files.iter().map(|file| file.name.as_str()).collect();
        kept.insert(&log.active.stored);
        for entry in fs::read_dir(target.join(&log.directory))? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(|name| kept.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
    }
    for entry in fs::read_dir(target)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("state-") && name != list.state {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_is_all_but_the_logs_and_the_event_log() {
        let is_state = |path: &str| !is_no_state(Path::new(path), Some("events"));
        for state in ["suspensions.json", "acme/account.json", "spool-salt", "postmaster/new/1"] {
            assert!(is_state(state), "{state}");
        }
        for other in [
            "register",
            "00000001-0000000000000002.segment",
            "0000000000000007.blob",
            "lock",
            "control.sock",
            "backup-staging/snapshot.json",
            "logs.json",
            "events.jsonl",
            "events-20261129T101112Z.jsonl.gz",
        ] {
            assert!(!is_state(other), "{other}");
        }
        assert!(!is_no_state(Path::new("events.jsonl"), None));
    }
}
