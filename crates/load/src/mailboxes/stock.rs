//! What lies in Maildirs, looked at again and again: a file that was read is read again only when it
//! is another one.

use super::{Mailbox, files, identify};
use crate::file::FileError;
use crate::ledger::ArrivalState;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Files that were seen.
#[derive(Debug, Default)]
pub struct Stock {
    known: BTreeMap<PathBuf, IndexedFile>,
}

/// What is known of a file.
#[derive(Debug)]
struct IndexedFile {
    stamp: Stamp,
    id: String,
    state: ArrivalState,
}

/// By this a file is known as the same: inode, length, time of the last change in seconds and
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp(u64, u64, i64, i64);

impl Stamp {
    fn of(file: &Metadata) -> Stamp {
        Stamp(file.ino(), file.len(), file.mtime(), file.mtime_nsec())
    }
}

/// What one look found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// In the lines of a sink's ledger: each message by the id that its source gave it.
    pub ledger: String,
    /// Names of files with a whole message of a source's, without the flags that a reader of the
    /// mailbox appends (`:2,S`).
    pub whole: BTreeSet<String>,
    /// Files that the look before had found and this one did not.
    pub vanished: Vec<PathBuf>,
    /// Files in `tmp`: deliveries that were not ended.
    pub leftovers: u64,
}

impl Stock {
    /// Looks into `new`, `cur` and `tmp` of each. A mailbox that is not there has no mail.
    ///
    /// # Errors
    /// When a directory or file can't be read.
    pub fn look(&mut self, mailboxes: &[Mailbox]) -> Result<Look, FileError> {
        let mut look = Look::default();
        let mut known = std::mem::take(&mut self.known);
        for Mailbox { address, directory } in mailboxes {
            for part in ["new", "cur"] {
                for path in files_if_any(&directory.join(part))? {
                    let file = read(&path, known.remove(&path))?;
                    look.add(&path, address, &file);
                    self.known.insert(path, file);
                }
            }
            look.leftovers += files_if_any(&directory.join("tmp"))?.len() as u64;
        }
        look.vanished = known.into_keys().collect();
        Ok(look)
    }
}

impl Look {
    fn add(&mut self, path: &Path, address: &str, file: &IndexedFile) {
        let IndexedFile { id, state, .. } = file;
        let damaged = if *state == ArrivalState::Damaged { " damaged" } else { "" };
        // Writing to a String can't fail.
        let _ = writeln!(self.ledger, "{id} {address}{damaged}");
        if *state == ArrivalState::Whole && id != "-" {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let plain = name.split_once(':').map_or(&*name, |(plain, _)| plain);
            self.whole.insert(plain.to_owned());
        }
    }
}

/// Reads a file unless it is the one that is known.
fn read(path: &Path, known: Option<IndexedFile>) -> Result<IndexedFile, FileError> {
    let stamp = Stamp::of(&std::fs::metadata(path).map_err(FileError::at(path))?);
    if let Some(known) = known
        && known.stamp == stamp
    {
        return Ok(known);
    }
    let message = std::fs::read(path).map_err(FileError::at(path))?;
    let (id, state) = identify(&message);
    Ok(IndexedFile { stamp, id, state })
}

fn files_if_any(directory: &Path) -> Result<Vec<PathBuf>, FileError> {
    match files(directory) {
        Err(FileError { error, .. }) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::message;
    use super::super::{Mailbox, make_maildir};
    use super::Stock;
    use std::fs;

    #[test]
    fn what_came_what_went_and_what_is_broken_is_told() {
        let directory = tempfile::tempdir().expect("a directory");
        let mailbox = |name: &str| Mailbox {
            address: format!("{name}@x"),
            directory: directory.path().join(name),
        };
        let list = [mailbox("a"), mailbox("not-there")];
        make_maildir(&list[0].directory, None).expect("made");
        let new = list[0].directory.join("new");
        fs::write(new.join("1"), message("r-1")).expect("written");
        fs::write(list[0].directory.join("cur/2:2,S"), message("r-2")).expect("written");
        let cut = message("r-3");
        fs::write(new.join("3"), &cut[..cut.len() - 9]).expect("written");
        fs::write(new.join("4"), "").expect("written");
        fs::write(list[0].directory.join("tmp/5"), message("r-5")).expect("written");
        let mut stock = Stock::default();
        let look = stock.look(&list).expect("read");
        assert_eq!(look.ledger, "r-1 a@x\nr-3 a@x damaged\n- a@x\nr-2 a@x\n");
        assert_eq!(look.whole.iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((look.vanished.len(), look.leftovers), (0, 1));

        fs::remove_file(new.join("1")).expect("gone");
        fs::write(new.join("3"), message("r-3")).expect("written");
        let look = stock.look(&list).expect("read");
        assert_eq!(look.whole.iter().collect::<Vec<_>>(), ["2", "3"]);
        assert_eq!(look.vanished, [new.join("1")]);
        assert_eq!(stock.look(&list).expect("read").vanished, [] as [std::path::PathBuf; 0]);
    }

    #[test]
    fn a_file_that_lost_its_middle_is_damaged_though_its_name_and_length_are_right() {
        let directory = tempfile::tempdir().expect("a directory");
        let list = [Mailbox { address: "a@x".to_owned(), directory: directory.path().join("a") }];
        make_maildir(&list[0].directory, None).expect("made");
        let mut content = message("r-1");
        let path = list[0].directory.join("new/1");
        fs::write(&path, &content).expect("written");
        let mut stock = Stock::default();
        assert_eq!(stock.look(&list).expect("read").ledger, "r-1 a@x\n");
        // Another file, as a second delivery or a restored disk has it.
        let last = content.len() - 3;
        content[last - 40..last].fill(0);
        fs::write(directory.path().join("other"), &content).expect("written");
        fs::rename(directory.path().join("other"), &path).expect("renamed");
        let look = stock.look(&list).expect("read");
        assert_eq!(look.ledger, "r-1 a@x damaged\n");
        assert!(look.whole.is_empty() && look.vanished.is_empty());
    }
}
