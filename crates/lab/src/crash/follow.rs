//! Counts what is added to a source's ledger while it runs.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

/// A ledger that grows.
#[derive(Debug)]
pub(super) struct Followed {
    pub(super) path: PathBuf,
    /// Bytes read: whole lines.
    read: u64,
    acked: u64,
}

impl Followed {
    pub(super) fn new(path: PathBuf) -> Followed {
        Followed { path, read: 0, acked: 0 }
    }

    /// Messages acknowledged so far.
    ///
    /// # Errors
    /// When the file can't be read.
    pub(super) fn acked(&mut self) -> Result<u64, String> {
        let mut text = String::new();
        let path = &self.path;
        let failed = |error| format!("{}: {error}", path.display());
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.read)).map_err(failed)?;
        file.read_to_string(&mut text).map_err(failed)?;
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        self.read += whole.len() as u64;
        self.acked += whole.lines().filter(|line| line.contains(" acked ")).count() as u64;
        Ok(self.acked)
    }
}

#[cfg(test)]
mod tests {
    use super::Followed;

    #[test]
    fn lines_count_once_and_when_they_are_whole() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("ledger");
        let mut followed = Followed::new(path.clone());
        followed.acked().expect_err("it isn't there");
        for (text, count) in [
            ("", 0),
            ("r-1 acked a@b\nr-2 unknown c@d\nr-3 acke", 1),
            ("r-1 acked a@b\nr-2 unknown c@d\nr-3 acked e@f\nr-4 unsent\n", 2),
        ] {
            std::fs::write(&path, text).expect("written");
            assert_eq!(followed.acked().expect("read"), count);
        }
    }
}
