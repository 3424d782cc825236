//! Files, with errors that name them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io, thread};

/// Directories are removed side by side by so many threads: where the disk is told of each file that
/// goes (`discard`), one alone waits for the disk two milliseconds for each.
const REMOVERS: usize = 16;

/// A file or directory that can't be used, and why.
#[derive(Debug)]
pub struct FileError {
    /// Which.
    pub path: PathBuf,
    /// The system's own words.
    pub error: io::Error,
}

impl FileError {
    /// For `map_err`: the error of an operation on `path`.
    pub fn at(path: &Path) -> impl FnOnce(io::Error) -> FileError + '_ {
        |error| FileError { path: path.to_owned(), error }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl std::error::Error for FileError {}

/// A new file for what a program writes.
///
/// # Errors
/// When it can't be made.
pub fn create(path: &Path) -> Result<File, FileError> {
    File::create(path).map_err(FileError::at(path))
}

/// A file's whole text.
///
/// # Errors
/// When it can't be read, or is no UTF-8.
pub fn read(path: &Path) -> Result<String, FileError> {
    std::fs::read_to_string(path).map_err(FileError::at(path))
}

/// Writes a file, in place of what it was before.
///
/// # Errors
/// When it can't be written.
pub fn write(path: &Path, text: &str) -> Result<(), FileError> {
    std::fs::write(path, text).map_err(FileError::at(path))
}

/// Makes a directory with all above it; one that is there is as good.
///
/// # Errors
/// When it can't be made.
pub fn create_directory(path: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(path).map_err(FileError::at(path))
}

/// Makes a directory, or takes one that is empty.
///
/// # Errors
/// When it can't be made, or something is in it.
pub fn empty_directory(path: &Path) -> Result<(), FileError> {
    create_directory(path)?;
    let mut entries = std::fs::read_dir(path).map_err(FileError::at(path))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(FileError::at(path)(io::Error::other("the directory is not empty"))),
    }
}

/// Removes a directory with all in it: what it has many files in comes first, `parts` of it side by
/// side.
///
/// # Errors
/// When something can't be removed.
pub fn remove_directory(path: &Path, parts: &[PathBuf]) -> Result<(), FileError> {
    let next = AtomicUsize::new(0);
    let remove = || -> Result<(), FileError> {
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            std::fs::remove_dir_all(part).map_err(FileError::at(part))?;
        }
        Ok(())
    };
    let results: Vec<Result<(), FileError>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..REMOVERS).map(|_| scope.spawn(remove)).collect();
        let joined = threads.into_iter().map(|thread| {
            let panicked = |_| Err(FileError::at(path)(io::Error::other("its remover panicked")));
            thread.join().unwrap_or_else(panicked)
        });
        joined.collect()
    });
    results.into_iter().collect::<Result<(), FileError>>()?;
    std::fs::remove_dir_all(path).map_err(FileError::at(path))
}

#[cfg(test)]
mod tests {
    use super::{create_directory, empty_directory, read, remove_directory, write};

    #[test]
    fn an_error_names_the_file() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("absent");
        let error = read(&path).expect_err("it isn't there").to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }

    #[test]
    fn an_empty_directory_is_taken_and_another_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("a/b");
        empty_directory(&path).expect("made");
        empty_directory(&path).expect("empty");
        create_directory(&path).expect("there");
        write(&path.join("file"), "text").expect("written");
        assert_eq!(read(&path.join("file")).expect("read"), "text");
        assert!(empty_directory(&path).expect_err("not empty").to_string().contains("not empty"));
    }

    #[test]
    fn a_directory_goes_with_all_its_parts() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("all");
        let parts: Vec<_> = (0..100).map(|n| path.join(format!("x/{n}"))).collect();
        for part in &parts {
            create_directory(&part.join("new")).expect("made");
            write(&part.join("new/1"), "text").expect("written");
        }
        write(&path.join("other"), "text").expect("written");
        remove_directory(&path, &parts).expect("removed");
        assert!(!path.exists());
        let error = remove_directory(&path, &parts).expect_err("it isn't there").to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}
