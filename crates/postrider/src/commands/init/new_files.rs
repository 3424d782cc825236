//! New files and directories. An existing file is never overwritten.

use crate::system_user::Owner;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

/// The users that may read a file or directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Access {
    /// The server alone; its user is the owner.
    Server,
    /// All users.
    All,
}

/// A file to be created.
pub(in crate::commands) struct NewFile {
    pub(in crate::commands) path: PathBuf,
    pub(in crate::commands) access: Access,
    pub(in crate::commands) content: String,
}

/// # Errors
/// Returns a message if there is something at this path.
pub(in crate::commands) fn refuse_existing(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(_) => Err(format!("{} exists; choose another directory with --out", path.display())),
        Err(_) => Ok(()),
    }
}

/// Creates directories and files, and returns the files. Directories that exist stay as they are.
///
/// # Errors
/// A file exists, or the system's error. Files that were created before are removed then.
pub(in crate::commands) fn write_all(
    directories: &[(PathBuf, Access)],
    files: &[NewFile],
    owner: Option<Owner>,
) -> Result<Vec<PathBuf>, String> {
    files.iter().try_for_each(|file| refuse_existing(&file.path))?;
    for (path, access) in directories {
        make_directory(path, *access, owner).map_err(|error| wrong(path, &error))?;
    }
    let mut written = Vec::with_capacity(files.len());
    for file in files {
        if let Err(error) = write(file, owner, &mut written) {
            for path in &written {
                let _ = fs::remove_file(path);
            }
            return Err(wrong(&file.path, &error));
        }
    }
    Ok(written)
}

fn wrong(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

fn make_directory(path: &Path, access: Access, owner: Option<Owner>) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(above) = path.parent() {
        fs::create_dir_all(above)?;
    }
    let mode = if access == Access::All { 0o755 } else { 0o700 };
    DirBuilder::new().mode(mode).create(path)?;
    // The umask may have removed bits.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    give(path, access, owner)
}

fn write(file: &NewFile, owner: Option<Owner>, written: &mut Vec<PathBuf>) -> io::Result<()> {
    let mode = if file.access == Access::All { 0o644 } else { 0o600 };
    let mut open = OpenOptions::new().write(true).create_new(true).mode(mode).open(&file.path)?;
    written.push(file.path.clone());
    open.set_permissions(Permissions::from_mode(mode))?;
    open.write_all(file.content.as_bytes())?;
    open.sync_all()?;
    give(&file.path, file.access, owner)
}

/// Gives secrets and private directories to the server's user.
fn give(path: &Path, access: Access, owner: Option<Owner>) -> io::Result<()> {
    match owner.filter(|_| access == Access::Server) {
        Some(owner) => chown(path, Some(owner.user), Some(owner.group)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: PathBuf, access: Access) -> NewFile {
        NewFile { path, access, content: "x\n".to_owned() }
    }

    #[test]
    fn modes_follow_access_whatever_exists_stays() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        let directories = [(at("etc"), Access::All), (at("var/spool"), Access::Server)];
        let files = [file(at("etc/secret"), Access::Server), file(at("etc/plain"), Access::All)];
        assert_eq!(write_all(&directories, &files, None).unwrap().len(), 2);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode() & 0o777;
        let modes = ["etc", "var/spool", "etc/secret", "etc/plain"].map(mode);
        assert_eq!(modes, [0o755, 0o700, 0o600, 0o644]);
        // One file exists: the others are not written either.
        fs::remove_file(at("etc/secret")).unwrap();
        let why = write_all(&directories, &files, None).unwrap_err();
        assert!(why.contains("etc/plain exists"), "{why}");
        assert!(!at("etc/secret").exists());
        // An error in the middle leaves no file.
        let broken = [file(at("etc/new"), Access::All), file(at("none/new"), Access::All)];
        let why = write_all(&[], &broken, None).unwrap_err();
        assert!(why.contains("none/new") && !at("etc/new").exists(), "{why}");
    }
}
