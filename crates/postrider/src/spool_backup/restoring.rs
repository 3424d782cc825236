//! From a backup to the spool of a stopped server, with all mail on hold: some was delivered since.

use super::{BackedUpLog, FileList, copy, failed, files_below, make_directory, sync_directory};
use crate::file_disk::UNFINISHED_RESTORE;
use crate::offline_log::OfflineLog;
use config::Config;
use mail::Wall;
use spool::{Record, State};
use std::fs::{self, OpenOptions};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};

/// Beginning of the reason of the hold.
pub(crate) const RESTORED: &str = "restored from the backup of ";
/// Messages that are synced together.
const BATCH_MESSAGES: usize = 1_000;

/// The result of a restore.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestoreReport {
    pub(crate) taken_at: Wall,
    /// Queued messages, all on hold now.
    pub(crate) messages: u64,
    /// Those that were on hold before, with their own reason.
    pub(crate) held_before: u64,
}

/// Restores a backup into the spool directories of a stopped server, which are empty or missing, or have an unfinished
/// restore.
///
/// # Errors
/// Returns a sentence if there is no whole backup, the spool is in use, or a disk fails. The server does not start in
/// these directories until a restore is finished.
pub(crate) fn restore(config: &Config, backup: &Path) -> Result<RestoreReport, String> {
    let list = FileList::read(backup)?;
    let list = list.ok_or_else(|| {
        let at = backup.display();
        format!("{at} is no backup, or one that ended early: it has no backup.json")
    })?;
    let paths = &config.spool.paths;
    if paths.len() < list.logs.len() {
        let (here, there) = (paths.len(), list.logs.len());
        return Err(format!("the backup is of {there} spool directories, `paths` has {here}"));
    }
    list.logs.iter().try_for_each(|log| check(&backup.join(&log.directory), log))?;
    let targets: Vec<Target> =
        paths.iter().map(|path| Target::prepare(path)).collect::<Result<_, _>>()?;
    for (target, log) in targets.iter().zip(&list.logs) {
        target.fill(&backup.join(&log.directory), log)?;
    }
    if let Some(first) = targets.first() {
        first.add_state(&backup.join(&list.state))?;
    }
    let taken_at = Wall(list.taken_at_ms);
    let mut report = RestoreReport { taken_at, ..RestoreReport::default() };
    for number in 0..list.logs.len() {
        hold_all(config, number, &mut report)?;
    }
    targets.iter().try_for_each(Target::finish)?;
    Ok(report)
}

/// Checks that all files of a log are there, before anything is changed.
fn check(directory: &Path, log: &BackedUpLog) -> Result<(), String> {
    let files = log.files.iter().map(|file| (&file.name, file.bytes));
    for (name, bytes) in files.chain([(&log.active.stored, log.active.bytes)]) {
        let path = directory.join(name);
        let found = fs::metadata(&path).map_err(|error| failed("examine", &path, &error))?.len();
        if found != bytes {
            return Err(format!("{} has {found} octets, not {bytes}", path.display()));
        }
    }
    Ok(())
}

/// A spool directory to be filled.
struct Target {
    path: PathBuf,
    /// The owner of its files.
    owner: (u32, u32),
}

impl Target {
    /// Marks the directory, so that no server starts in it, and removes the files of an unfinished restore.
    fn prepare(path: &Path) -> Result<Target, String> {
        make_directory(path).map_err(|error| failed("create", path, &error))?;
        let marker = path.join(UNFINISHED_RESTORE);
        let names = || fs::read_dir(path).map_err(|error| failed("read", path, &error));
        for entry in names()? {
            let name = entry.map_err(|error| failed("read", path, &error))?.file_name();
            let is_log = name.to_str().is_some_and(spool::is_spool_name);
            if is_log && !marker.exists() {
                return Err(format!(
                    "{} has a spool: move it away, and restore into an empty directory",
                    path.display()
                ));
            }
        }
        let marked = OpenOptions::new().write(true).create(true).truncate(false).open(&marker);
        marked
            .and_then(|file| file.sync_all())
            .map_err(|error| failed("write", &marker, &error))?;
        sync_directory(path).map_err(|error| failed("sync", path, &error))?;
        for entry in names()? {
            let entry = entry.map_err(|error| failed("read", path, &error))?;
            if entry.file_name().to_str().is_some_and(spool::is_spool_name) {
                let removed = fs::remove_file(entry.path());
                removed.map_err(|error| failed("remove", &entry.path(), &error))?;
            }
        }
        let status = fs::metadata(path).map_err(|error| failed("examine", path, &error))?;
        Ok(Target { path: path.to_owned(), owner: (status.uid(), status.gid()) })
    }

    /// Copies the files of a log.
    fn fill(&self, from: &Path, log: &BackedUpLog) -> Result<(), String> {
        for file in &log.files {
            self.copy(&from.join(&file.name), &self.path.join(&file.name))?;
        }
        let active = &log.active;
        let to = self.path.join(&active.name);
        self.copy(&from.join(&active.stored), &to)?;
        // The rest of the segment was not used yet.
        let file = OpenOptions::new().write(true).open(&to);
        let extended = file.and_then(|file| {
            file.set_len(active.length)?;
            file.sync_all()
        });
        extended.map_err(|error| failed("write", &to, &error))
    }

    /// Copies a file for the owner of the directory.
    fn copy(&self, from: &Path, to: &Path) -> Result<(), String> {
        copy(from, to, u64::MAX).map_err(|error| failed("write", to, &error))?;
        self.give(to)
    }

    fn give(&self, path: &Path) -> Result<(), String> {
        let (user, group) = self.owner;
        let is_other = rustix::process::geteuid().is_root() && user != 0;
        let given = if is_other { chown(path, Some(user), Some(group)) } else { Ok(()) };
        given.map_err(|error| failed("change the owner of", path, &error))
    }

    /// Copies the state files.
    fn add_state(&self, from: &Path) -> Result<(), String> {
        let found = files_below(from, Path::new(""), &|_| false);
        for path in found.map_err(|error| failed("read", from, &error))? {
            let to = self.path.join(&path);
            for parent in path.ancestors().skip(1).filter(|parent| *parent != Path::new("")) {
                let parent = self.path.join(parent);
                fs::create_dir_all(&parent).map_err(|error| failed("create", &parent, &error))?;
                self.give(&parent)?;
            }
            self.copy(&from.join(&path), &to)?;
        }
        Ok(())
    }

    /// Lets servers start in the directory.
    fn finish(&self) -> Result<(), String> {
        let marker = self.path.join(UNFINISHED_RESTORE);
        fs::remove_file(&marker).map_err(|error| failed("remove", &marker, &error))?;
        sync_directory(&self.path).map_err(|error| failed("sync", &self.path, &error))
    }
}

/// Holds all messages of a log, and skips the message ids that the lost server may have used since.
fn hold_all(config: &Config, number: usize, report: &mut RestoreReport) -> Result<(), String> {
    let mut open = Vec::new();
    let mut log = OfflineLog::open_restored(config, number, &mut |message| {
        open.push((message.id, message.hold.is_some()));
    })?;
    let reason = format!("{RESTORED}{}", report.taken_at);
    report.messages += open.len() as u64;
    for (at, (id, is_held)) in open.into_iter().enumerate() {
        if is_held {
            report.held_before += 1;
            continue;
        }
        let hold = Some(Some(reason.as_str().into()));
        let state = State { id, hold, next_try: None, overrides: None, delay_notice_sent: None };
        log.submit(vec![Record::State(state)]);
        if at % BATCH_MESSAGES == BATCH_MESSAGES - 1 {
            log.sync()?;
        }
    }
    log.skip_ids()?;
    log.close()
}
