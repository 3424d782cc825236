//! Follows an event log over rotations.

use super::files::{LINE_BYTES_MAX, identity, rotated_of};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// Octets read at once.
const READ_BYTES: usize = 1 << 16;

/// Reads the lines that are appended to an event log.
#[derive(Debug)]
pub(crate) struct Follower {
    path: PathBuf,
    file: Option<File>,
    /// Device and inode of `file`.
    identity: (u64, u64),
    read_bytes: u64,
    /// An incomplete line.
    rest: Vec<u8>,
    /// The rest of a line over the maximum is being skipped.
    is_skipping: bool,
}

impl Follower {
    /// Begins at the end of the file, or at its beginning if `from_start`. A missing file is awaited.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read.
    pub(crate) fn new(path: &Path, from_start: bool) -> io::Result<Follower> {
        let mut follower = Follower {
            path: path.to_owned(),
            file: None,
            identity: (0, 0),
            read_bytes: 0,
            rest: Vec::new(),
            is_skipping: false,
        };
        follower.open(path)?;
        if let (Some(file), false) = (&mut follower.file, from_start) {
            follower.read_bytes = file.seek(SeekFrom::End(0))?;
        }
        Ok(follower)
    }

    /// Device and inode of the file that it reads.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Passes all new lines to `take`.
    ///
    /// # Errors
    /// Returns the error of the file or of `take`.
    pub(crate) fn poll(&mut self, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        loop {
            // Asked before the file is read to its end, so that nothing is appended to it after a rotation was seen.
            let is_current = match fs::metadata(&self.path) {
                Ok(meta) => self.file.is_some() && identity(&meta) == self.identity,
                Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                Err(error) => return Err(error),
            };
            self.read_on(&mut take)?;
            if is_current {
                return Ok(());
            }
            let next = self.successor()?;
            self.rest.clear();
            self.open(&next)?;
        }
    }

    fn read_on(&mut self, take: &mut impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        // Truncated in place (logrotate's copytruncate).
        if file.metadata()?.len() < self.read_bytes {
            self.read_bytes = file.seek(SeekFrom::Start(0))?;
            self.rest.clear();
        }
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let length = match file.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.read_bytes += length as u64;
            let mut input = &buffer[..length];
            while let Some(at) = memchr::memchr(b'\n', input) {
                let (line, after) = input.split_at(at);
                input = after.get(1..).unwrap_or_default();
                if std::mem::take(&mut self.is_skipping) {
                    continue;
                }
                self.rest.extend_from_slice(line);
                take(&self.rest)?;
                self.rest.clear();
            }
            if !self.is_skipping {
                self.rest.extend_from_slice(input);
            }
            if self.rest.len() > LINE_BYTES_MAX {
                self.rest = Vec::new();
                self.is_skipping = true;
            }
        }
    }

    /// The file after the one that was read: the log may have been rotated more than once since.
    fn successor(&self) -> io::Result<PathBuf> {
        let mut rotated = rotated_of(&self.path)?;
        // Names by this program sort by time. Names with numbers do not, and their files are as old as their changes.
        rotated.sort_by_cached_key(|path| {
            let changed = fs::metadata(path).and_then(|meta| meta.modified()).ok();
            (changed, path.clone())
        });
        let is_read = |path: &PathBuf| {
            fs::metadata(path)
                .is_ok_and(|meta| self.file.is_some() && identity(&meta) == self.identity)
        };
        let at = rotated.iter().position(is_read);
        let next = at.and_then(|at| rotated.into_iter().nth(at + 1));
        Ok(next.unwrap_or_else(|| self.path.clone()))
    }

    fn open(&mut self, path: &Path) -> io::Result<()> {
        self.file = match File::open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        self.read_bytes = 0;
        self.is_skipping = false;
        if let Some(file) = &self.file {
            self.identity = identity(&file.metadata()?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;
    use std::io::Write as _;

    fn append(path: &Path, text: &str) {
        let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn polled(follower: &mut Follower) -> Vec<String> {
        let mut lines = Vec::new();
        let taken = follower.poll(|line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
            Ok(())
        });
        taken.unwrap();
        lines
    }

    #[test]
    fn a_rotated_log_is_followed_without_a_gap() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let rotate = |stamp: &str| {
            fs::rename(&path, directory.path().join(format!("events.jsonl.{stamp}"))).unwrap();
        };
        append(&path, "old\n");
        let mut follower = Follower::new(&path, false).unwrap();
        assert!(polled(&mut follower).is_empty());
        append(&path, "one\ntw");
        assert_eq!(polled(&mut follower), ["one"]);
        append(&path, "o\n");
        // Twice between two looks.
        rotate("2026-11-21T10-11-12.345Z");
        append(&path, "three\n");
        std::thread::sleep(std::time::Duration::from_millis(20));
        rotate("2026-11-21T10-11-13.345Z");
        append(&path, "four\n");
        assert_eq!(polled(&mut follower), ["two", "three", "four"]);
        // Moved away, and made again later.
        rotate("2026-11-21T10-11-14.345Z");
        assert!(polled(&mut follower).is_empty());
        append(&path, "five\n");
        assert_eq!(polled(&mut follower), ["five"]);
        // Truncated in place.
        fs::write(&path, "6\n").unwrap();
        assert_eq!(polled(&mut follower), ["6"]);
    }

    #[test]
    fn a_missing_log_is_awaited() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let mut follower = Follower::new(&path, false).unwrap();
        assert!(polled(&mut follower).is_empty());
        append(&path, "one\n");
        assert_eq!(polled(&mut follower), ["one"]);
    }

    #[test]
    fn a_line_over_the_maximum_is_skipped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        append(&path, &"x".repeat(LINE_BYTES_MAX + READ_BYTES));
        append(&path, "\nshort\n");
        let mut follower = Follower::new(&path, true).unwrap();
        assert_eq!(polled(&mut follower), ["short"]);
    }
}
