//! Counts what is added to a ledger while it is written.

use crate::file::FileError;
use memchr::memmem;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

/// Read at once.
const READ_BYTES: usize = 64 * 1024;

/// A ledger that grows.
#[derive(Debug)]
pub struct Followed {
    path: PathBuf,
    /// What a line that counts contains.
    mark: &'static [u8],
    /// Bytes read: whole lines.
    read: u64,
    count: u64,
}

impl Followed {
    /// A source's ledger: messages that were acknowledged count.
    #[must_use]
    pub fn source(path: PathBuf) -> Followed {
        Followed { path, mark: b" acked ", read: 0, count: 0 }
    }

    /// A source's ledger: messages that were refused for now (4yz) count.
    #[must_use]
    pub fn refused_for_now(path: PathBuf) -> Followed {
        Followed { path, mark: b" refused 4", read: 0, count: 0 }
    }

    /// A sink's ledger: arrivals count.
    #[must_use]
    pub fn sink(path: PathBuf) -> Followed {
        Followed { path, mark: b"\n", read: 0, count: 0 }
    }

    /// Where the ledger is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was counted until now.
    ///
    /// # Errors
    /// When the file can't be read.
    pub fn count(&mut self) -> Result<u64, FileError> {
        self.read_on().map_err(FileError::at(&self.path.clone()))
    }

    fn read_on(&mut self) -> std::io::Result<u64> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.read))?;
        let mut bytes = vec![0; READ_BYTES];
        let mut filled = 0;
        loop {
            let read = file.read(&mut bytes[filled..])?;
            filled += read;
            // The last line may be half written.
            let whole = memchr::memrchr(b'\n', &bytes[..filled]).map_or(0, |end| end + 1);
            self.count += memmem::find_iter(&bytes[..whole], self.mark).count() as u64;
            self.read += whole as u64;
            if read == 0 || whole == 0 {
                return Ok(self.count);
            }
            bytes.copy_within(whole..filled, 0);
            filled -= whole;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Followed;

    #[test]
    fn lines_count_once_and_when_they_are_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger");
        let mut source = Followed::source(path.clone());
        let mut sink = Followed::sink(path.clone());
        let mut refused = Followed::refused_for_now(path.clone());
        source.count().expect_err("it isn't there");
        for (text, acked, deferred, lines) in [
            ("", 0, 0, 0),
            ("r-1 acked a@b\nr-2 refused 452\nr-3 acke", 1, 1, 2),
            ("r-1 acked a@b\nr-2 refused 452\nr-3 acked e@f\nr-4 refused 550\n", 2, 1, 4),
        ] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(source.count().expect("read"), acked);
            assert_eq!(refused.count().expect("read"), deferred);
            assert_eq!(sink.count().expect("read"), lines);
        }
    }

    #[test]
    fn much_at_once_is_read_to_its_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger");
        std::fs::write(&path, "run-1234567 acked user@example.org\n".repeat(30_000))
            .expect("written");
        assert_eq!(Followed::source(path.clone()).count().expect("read"), 30_000);
        assert_eq!(Followed::sink(path).count().expect("read"), 30_000);
    }
}
