//! The place of the configuration, if the command line names none.

use super::LoadError;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Environment variable with the path of the configuration; empty for the built-in one.
const VARIABLE: &str = "POSTRIDER_CONFIG";
const SYSTEM: &str = "/etc/postrider/postrider.toml";
const LOCAL: &str = "postrider.toml";

/// Places of a configuration outside of the command line.
struct Surroundings {
    variable: Option<OsString>,
    system: PathBuf,
    directory: PathBuf,
    user: u32,
}

/// Finds the configuration: the named file, the file of the environment variable, the system's file, or a file in the
/// working directory that only the caller may change. `None` is the built-in configuration.
///
/// # Errors
/// Returns an error if a file of an earlier place is there but cannot be read: a later one would be a surprise.
pub(crate) fn find(named: Option<&Path>) -> Result<Option<PathBuf>, LoadError> {
    if let Some(path) = named {
        return Ok(Some(path.to_owned()));
    }
    let surroundings = Surroundings {
        variable: env::var_os(VARIABLE),
        system: PathBuf::from(SYSTEM),
        directory: PathBuf::from("."),
        user: rustix::process::geteuid().as_raw(),
    };
    let (found, note) = surroundings.find()?;
    if let Some(note) = note {
        eprintln!("postrider: {note}");
    }
    Ok(found)
}

/// The configuration of the installed server, for programs that other users run: never one in their directories.
pub(crate) fn installed() -> PathBuf {
    let named = env::var_os(VARIABLE).filter(|path| !path.is_empty());
    named.map_or_else(|| PathBuf::from(SYSTEM), PathBuf::from)
}

impl Surroundings {
    /// The file, and a note for the user about one that is left out.
    fn find(&self) -> Result<(Option<PathBuf>, Option<String>), LoadError> {
        if let Some(path) = &self.variable {
            if path.is_empty() {
                return Ok((None, None));
            }
            let path = PathBuf::from(path);
            // The reader of the file reports a file that is there and cannot be read.
            return match fs::metadata(&path) {
                Ok(_) => Ok((Some(path), None)),
                Err(error) => Err(unreadable(&path, &error, "named by POSTRIDER_CONFIG")),
            };
        }
        match fs::metadata(&self.system) {
            Ok(_) => return Ok((Some(self.system.clone()), None)),
            Err(error) if is_absent(&error) => {}
            Err(error) => {
                let remedy = "name a file with --config, or set POSTRIDER_CONFIG to nothing for \
                              the built-in configuration";
                return Err(unreadable(&self.system, &error, remedy));
            }
        }
        let local = self.directory.join(LOCAL);
        match self.objection(&local) {
            None => Ok((Some(PathBuf::from(LOCAL)), None)),
            Some(why) if why.is_empty() => Ok((None, None)),
            Some(why) => {
                let note = format!("./{LOCAL} is not used: {why}; name it with --config {LOCAL}");
                Ok((None, Some(note)))
            }
        }
    }

    /// The reason not to use a file of the working directory; empty if the file is missing. Write access is control of a
    /// server.
    fn objection(&self, file: &Path) -> Option<String> {
        let Ok(meta) = fs::symlink_metadata(file) else { return Some(String::new()) };
        if !meta.is_file() {
            return Some("it is not a regular file".to_owned());
        }
        if meta.uid() != self.user {
            return Some("it belongs to another user".to_owned());
        }
        let is_shared = |mode: u32| mode & 0o022 != 0;
        if is_shared(meta.mode()) {
            return Some("other users may write to it".to_owned());
        }
        let Ok(directory) = fs::metadata(&self.directory) else {
            return Some("its directory cannot be read".to_owned());
        };
        let is_safe = directory.uid() == self.user || directory.uid() == 0;
        if !is_safe || is_shared(directory.mode()) {
            return Some("other users may write to its directory".to_owned());
        }
        None
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn unreadable(path: &Path, error: &io::Error, remedy: &str) -> LoadError {
    LoadError::Unreadable(format!("cannot read {}: {error}; {remedy}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct Place {
        directory: tempfile::TempDir,
        surroundings: Surroundings,
    }

    impl Place {
        fn new() -> Place {
            let directory = tempfile::tempdir().unwrap();
            let system = directory.path().join("system.toml");
            let surroundings = Surroundings {
                variable: None,
                system,
                directory: directory.path().to_owned(),
                user: rustix::process::geteuid().as_raw(),
            };
            Place { directory, surroundings }
        }

        fn local(&self) -> PathBuf {
            self.directory.path().join(LOCAL)
        }

        /// The file and the note.
        fn found(&self) -> (Option<PathBuf>, String) {
            let Ok((found, note)) = self.surroundings.find() else { panic!("an error") };
            (found, note.unwrap_or_default())
        }
    }

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn earlier_places_win() {
        let mut place = Place::new();
        assert_eq!(place.found(), (None, String::new()));
        fs::write(place.local(), "").unwrap();
        set_mode(&place.local(), 0o644);
        assert_eq!(place.found(), (Some(PathBuf::from(LOCAL)), String::new()));
        let system = place.surroundings.system.clone();
        fs::write(&system, "").unwrap();
        assert_eq!(place.found().0, Some(system));
        place.surroundings.variable = Some(place.local().into());
        assert_eq!(place.found().0, Some(place.local()));
        place.surroundings.variable = Some("".into());
        assert_eq!(place.found().0, None);
    }

    #[test]
    fn a_missing_file_of_the_variable_is_an_error() {
        let mut place = Place::new();
        place.surroundings.variable = Some("/nowhere/c.toml".into());
        let Err(error) = place.surroundings.find() else { panic!("it is used") };
        let error = error.one_line();
        assert!(error.starts_with("cannot read /nowhere/c.toml: No such file"), "{error}");
        assert!(error.ends_with("named by POSTRIDER_CONFIG"), "{error}");
    }

    #[test]
    fn files_that_others_may_change_are_left_out() {
        let mut place = Place::new();
        fs::write(place.local(), "").unwrap();
        for (mode, is_used) in [(0o644, true), (0o600, true), (0o664, false), (0o646, false)] {
            set_mode(&place.local(), mode);
            let (found, note) = place.found();
            assert_eq!(
                (found.is_some(), note.contains("other users may write to it")),
                (is_used, !is_used)
            );
        }
        set_mode(&place.local(), 0o644);
        for (mode, is_used) in [(0o755, true), (0o775, false), (0o777, false)] {
            set_mode(place.directory.path(), mode);
            let (found, note) = place.found();
            assert_eq!((found.is_some(), note.contains("its directory")), (is_used, !is_used));
        }
        set_mode(place.directory.path(), 0o700);
        place.surroundings.user += 1;
        assert!(place.found().1.contains("it belongs to another user"));
        place.surroundings.user -= 1;
        fs::rename(place.local(), place.directory.path().join("other.toml")).unwrap();
        symlink("other.toml", place.local()).unwrap();
        assert!(place.found().1.contains("not a regular file"));
    }
}
