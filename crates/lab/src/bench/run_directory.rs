//! Where spools and logs lie while a benchmark runs.
//!
//! Postfix and Exim work as users of their own. Below a directory that is closed to others (`/root`,
//! a home of mode 0700) their processes can't reach their queue. What runs is put elsewhere then, for
//! all contenders alike, so that they share a disk.

use load::file::FileError;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Open to all users, and on a disk where directories usually are.
const ELSEWHERE: &str = "/var/tmp";

/// Everybody may pass through.
const SEARCH_BY_OTHERS: u32 = 0o001;

/// Removed when it is dropped, if it is not below the reports and nothing was left in it.
#[derive(Debug)]
pub(super) enum RunDirectory {
    /// Beside the reports.
    Beside(PathBuf),
    Elsewhere(PathBuf),
}

impl RunDirectory {
    /// Beside the reports if every user can get there, else elsewhere, and says so.
    ///
    /// # Errors
    /// When it can't be made.
    pub(super) fn for_reports_in(directory: &Path) -> Result<RunDirectory, FileError> {
        let made = match closed_to_others(directory) {
            None => RunDirectory::Beside(directory.join("run")),
            Some(closed) => {
                let name = format!("postrider-bench-{}", std::process::id());
                let elsewhere = Path::new(ELSEWHERE).join(name);
                eprintln!(
                    "{} is closed to other users, and Postfix and Exim work as users of their own: \
                     spools are in {} while this runs",
                    closed.display(),
                    elsewhere.display()
                );
                RunDirectory::Elsewhere(elsewhere)
            }
        };
        let path = made.path();
        std::fs::create_dir(path).map_err(FileError::at(path))?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(path, open).map_err(FileError::at(path))?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        let (RunDirectory::Beside(path) | RunDirectory::Elsewhere(path)) = self;
        path
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        // Logs of what failed stay there: a directory that isn't empty isn't removed.
        let _ = std::fs::remove_dir(self.path());
    }
}

/// The first directory on the way to this one, from the top, that not every user may pass through.
fn closed_to_others(directory: &Path) -> Option<&Path> {
    let mut way: Vec<&Path> = directory.ancestors().collect();
    way.reverse();
    way.into_iter().find(|path| {
        let mode = std::fs::metadata(path).map(|metadata| metadata.permissions().mode());
        mode.is_ok_and(|mode| mode & SEARCH_BY_OTHERS == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::{RunDirectory, closed_to_others};
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn below_a_closed_directory_it_is_elsewhere() {
        let closed = tempfile::tempdir_in("/var/tmp").expect("a directory");
        let set = |mode| {
            let mode = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(closed.path(), mode).expect("ours");
        };
        set(0o700);
        let reports = closed.path().join("reports");
        std::fs::create_dir(&reports).expect("ours");
        assert_eq!(closed_to_others(&reports), Some(closed.path()));
        let run = RunDirectory::for_reports_in(&reports).expect("made");
        assert!(!run.path().starts_with(closed.path()), "{run:?}");
        assert_eq!(closed_to_others(run.path()), None);
        let path = run.path().to_owned();
        drop(run);
        assert!(!path.exists());
        set(0o755);
        assert_eq!(closed_to_others(&reports), None);
        let run = RunDirectory::for_reports_in(&reports).expect("made");
        assert_eq!(run.path(), reports.join("run"));
    }
}
