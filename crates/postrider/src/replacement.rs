//! A file that is written beside another and then takes its place.

use crate::file_lock::{self, LockedFile};
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Default mode of a new file.
const MODE: u32 = 0o644;

/// A file that is written beside `target`, as `target.new`, under a lock: one build at a time. Without
/// [`Replacement::place`] it goes away again.
#[derive(Debug)]
pub(crate) struct Replacement {
    file: Arc<LockedFile>,
    fresh: PathBuf,
    target: PathBuf,
    /// That of the target.
    directory: File,
    is_placed: bool,
}

impl Replacement {
    /// Creates an empty file. It gets the owner and mode of the file to replace; if none exists, the mode of `source`,
    /// limited to reading and to writing by its owner.
    ///
    /// # Errors
    /// Returns a sentence.
    pub(crate) fn create(target: &Path, source: Option<&fs::Metadata>) -> Result<Self, String> {
        // Of a link, the file that it leads to is replaced, not the link.
        let target = match fs::canonicalize(target) {
            Ok(path) => path,
            Err(error) if error.kind() == io::ErrorKind::NotFound => target.to_owned(),
            Err(error) => return Err(format!("cannot replace {}: {error}", target.display())),
        };
        let mut fresh = target.clone().into_os_string();
        fresh.push(".new");
        let fresh = PathBuf::from(fresh);
        let file = Arc::new(open_locked(&fresh)?);
        // Now, as there may be no descriptor for it once the file is in its place.
        let directory = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let directory = File::open(directory)
            .map_err(|error| format!("cannot open {}: {error}", directory.display()))?;
        let replacement = Replacement { file, fresh, target, directory, is_placed: false };
        replacement.prepare(source).map_err(|error| replacement.wrong(&error))?;
        Ok(replacement)
    }

    fn prepare(&self, source: Option<&fs::Metadata>) -> io::Result<()> {
        self.file.set_len(0)?;
        let mode = match fs::metadata(&self.target) {
            Ok(old) => {
                let own = self.file.metadata()?;
                if (old.uid(), old.gid()) != (own.uid(), own.gid()) {
                    fchown(self.file(), Some(old.uid()), Some(old.gid()))?;
                }
                old.mode() & 0o777
            }
            Err(_) => source.map_or(MODE, |source| (source.mode() & MODE) | 0o600),
        };
        self.file.set_permissions(Permissions::from_mode(mode))
    }

    /// The file.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// The file with its lock, for further use after it is placed.
    pub(crate) fn shared(&self) -> Arc<LockedFile> {
        Arc::clone(&self.file)
    }

    /// The path of the new file before it is placed.
    pub(crate) fn path(&self) -> &Path {
        &self.fresh
    }

    /// An error with the file's name.
    pub(crate) fn wrong(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.fresh.display())
    }

    /// A temporary file beside it, without a name, so that it disappears when closed.
    pub(crate) fn scratch(&self) -> io::Result<File> {
        let mut path = self.fresh.clone().into_os_string();
        path.push(".scratch");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.custom_flags(OFlags::NOFOLLOW.bits() as i32).open(&path)?;
        fs::remove_file(&path)?;
        Ok(file)
    }

    /// Syncs the file, renames it over the old one, and syncs the directory.
    ///
    /// # Errors
    /// Returns a sentence. If only the last sync failed, the file is in its place, and a crash may restore the old one.
    pub(crate) fn place(mut self) -> Result<(), String> {
        let placed = || {
            self.file.sync_all()?;
            fs::rename(&self.fresh, &self.target)
        };
        placed().map_err(|error| self.wrong(&error))?;
        self.is_placed = true;
        let synced = self.directory.sync_all();
        synced.map_err(|error| format!("the directory of {}: {error}", self.target.display()))
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.fresh);
        }
    }
}

/// Sixteen random bytes for a file's salt.
pub(crate) fn salt() -> Result<[u8; 16], String> {
    let mut salt = [0; 16];
    rustix::rand::getrandom(&mut salt, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| format!("no random number from the system: {error}"))?;
    Ok(salt)
}

/// Opens a file that no other process writes, with any leftover contents.
fn open_locked(path: &Path) -> Result<LockedFile, String> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    file_lock::open(path, &options).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            format!("{} is being written by another process", path.display())
        }
        _ => format!("cannot write {}: {error}", path.display()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn nothing_is_left_of_what_is_not_placed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("users.db");
        fs::write(&target, "old").unwrap();
        let replacement = Replacement::create(&target, None).unwrap();
        replacement.file().write_all(b"half").unwrap();
        let _scratch = replacement.scratch().unwrap();
        assert_eq!(names(directory.path()), ["users.db", "users.db.new"]);
        drop(replacement);
        assert_eq!(names(directory.path()), ["users.db"]);
        assert_eq!(fs::read(&target).unwrap(), b"old");
    }

    #[test]
    fn one_builds_at_a_time_and_leftovers_do_not_matter() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("users.db");
        fs::write(directory.path().join("users.db.new"), "of a build that was killed").unwrap();
        let first = Replacement::create(&target, None).unwrap();
        let second = Replacement::create(&target, None).unwrap_err();
        assert!(second.ends_with("users.db.new is being written by another process"), "{second}");
        first.file().write_all(b"new").unwrap();
        first.place().unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"new");
        assert_eq!(names(directory.path()), ["users.db"]);
    }

    #[test]
    fn mode_is_that_of_the_old_file_or_else_of_the_source() {
        let directory = tempfile::tempdir().unwrap();
        let (source, target) = (directory.path().join("s"), directory.path().join("t"));
        fs::write(&source, "").unwrap();
        fs::set_permissions(&source, Permissions::from_mode(0o750)).unwrap();
        let mode = || fs::metadata(&target).unwrap().mode() & 0o777;
        let place = |source: Option<&fs::Metadata>| {
            Replacement::create(&target, source).unwrap().place().unwrap();
        };
        place(Some(&fs::metadata(&source).unwrap()));
        assert_eq!(mode(), 0o640);
        fs::set_permissions(&target, Permissions::from_mode(0o604)).unwrap();
        place(Some(&fs::metadata(&source).unwrap()));
        assert_eq!(mode(), 0o604);
        fs::remove_file(&target).unwrap();
        place(None);
        assert_eq!(mode(), 0o644);
    }

    #[test]
    fn a_link_stays_a_link() {
        let directory = tempfile::tempdir().unwrap();
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "old").unwrap();
        std::os::unix::fs::symlink("target", &link).unwrap();
        let replacement = Replacement::create(&link, None).unwrap();
        replacement.file().write_all(b"new").unwrap();
        replacement.place().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"new");
    }
}
