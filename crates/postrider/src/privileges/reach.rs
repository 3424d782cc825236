//! Files of the configuration that a user can't read or write.

use super::confinement::written_directories;
use crate::account::Account;
use crate::beside_spool::above;
use crate::system_user::{Owner, own};
use config::{Config, FileUse, NamedFile};
use rustix::fs::Access;
use rustix::thread::CapabilitySet;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Files of a spool that are looked at. The first ones show whether it was another user's.
const SPOOL_FILES_MAX: usize = 10_000;

/// A file out of reach.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Unreachable {
    pub(crate) path: PathBuf,
    /// `read`, `write` or `make`.
    pub(crate) what: &'static str,
    pub(crate) why: String,
}

/// Becomes a user for good and tries each file that the configuration names.
///
/// # Errors
/// Returns a sentence if the user does not exist, or if this process may not become it.
pub(crate) fn reach_of(
    user: &str,
    config: &Config,
    file: Option<&Path>,
) -> Result<Vec<Unreachable>, String> {
    let group = config.group.as_deref().filter(|_| config.user.as_deref() == Some(user));
    let account = Account::named(user, group)?;
    match own() {
        Owner { user: 0, .. } => account.assume(CapabilitySet::empty())?,
        own if own.user == account.owner.user => {}
        _ => return Err(format!("only root can try files as {user}")),
    }
    Ok(unreachable(config, file))
}

/// Files that other users may change or read, and should not: a sentence each. Keys of signers and passwords of logins
/// are errors instead, where they are read.
pub(crate) fn open_to_others(config: &Config, file: Option<&Path>) -> Vec<String> {
    let found = |path: &Path, mask: u32| {
        let mode = fs::metadata(path).ok().filter(fs::Metadata::is_file)?.mode();
        (mode & mask != 0).then_some(mode & 0o777)
    };
    let own = file.and_then(|path| {
        let (mode, path) = (found(path, 0o022)?, path.display());
        Some(format!(
            "{path}: other users may change the configuration (mode {mode:04o}): chmod go-w FILE"
        ))
    });
    let keys = config.files.iter().filter(|file| file.is_secret()).filter_map(|file| {
        let (mode, path) = (found(&file.path, 0o006)?, file.path.display());
        Some(format!(
            "{path}: every user may read or change this secret (mode {mode:04o}): chmod o= FILE"
        ))
    });
    own.into_iter().chain(keys).collect()
}

/// Tries each file that the configuration names as the current user. `file` is the configuration's own.
fn unreachable(config: &Config, file: Option<&Path>) -> Vec<Unreachable> {
    let mut all = Vec::new();
    let mut note = |path: &Path, what, tried: io::Result<()>| {
        if let Err(error) = tried {
            all.push(Unreachable { path: path.to_owned(), what, why: error.to_string() });
        }
    };
    let is_read = |file: &&NamedFile| matches!(file.usage(), FileUse::Read | FileUse::Replace);
    let named = config.files.iter().filter(is_read);
    for path in file.into_iter().chain(named.map(|file| &*file.path)) {
        note(path, "read", read(path));
    }
    for directory in written_directories(config) {
        match fs::metadata(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                note(&directory, "make", write(above(&directory)));
            }
            _ => note(&directory, "write", write(&directory)),
        }
    }
    for spool in &config.spool.paths {
        let entries = fs::read_dir(spool).into_iter().flatten().flatten();
        for path in entries.take(SPOOL_FILES_MAX).map(|entry| entry.path()) {
            let is_file = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file());
            let wanted = if is_file { Access::READ_OK | Access::WRITE_OK } else { continue };
            note(&path, "write", rustix::fs::access(&path, wanted).map_err(io::Error::from));
        }
    }
    all
}

/// Opens a file or directory for reading, without waiting for a pipe. A missing one is another kind of mistake.
fn read(path: &Path) -> io::Result<()> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}

fn write(directory: &Path) -> io::Result<()> {
    let wanted = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    Ok(rustix::fs::access(directory, wanted)?)
}
