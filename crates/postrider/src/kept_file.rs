//! State files: small files in the first spool directory with state that must survive a restart. Each is a list of
//! entries, read at the start, and rewritten, synced and renamed at each change.
//!
//! One size limit applies to reading and writing, so a written file can be read again. An unreadable file does not
//! prevent a start: it is moved aside, and its owner decides the safe state without it.
//!
//! A lost file and a failed write are each logged and added to the list of problems.

use crate::console::ConsoleLog;
use crate::kept_secret::damaged;
use crate::sealed_text::{self, SEAL_BYTES, SealedContent};
use crate::world::clock::wall_now;
use mta::console::{Console as _, Level};
use mta::problems::{Conditions, DetectedProblem};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{self, File};
use std::io::{self, Read as _, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file is never longer.
pub(crate) const BYTES_MAX: u64 = 8 << 20;

/// The location of a state file.
#[derive(Debug)]
pub(crate) struct StateFile {
    path: PathBuf,
    /// Description of the contents: "what is suspended".
    what: &'static str,
}

/// The contents of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StoredEntries<T> {
    /// The valid entries.
    pub(crate) entries: Vec<T>,
    /// The reason why entries are missing, in a sentence.
    pub(crate) lost: Option<String>,
}

impl StateFile {
    pub(crate) fn new(directory: &Path, name: &str, what: &'static str) -> StateFile {
        StateFile { path: directory.join(name), what }
    }

    /// The path, for display.
    pub(crate) fn shown(&self) -> String {
        self.path.display().to_string()
    }

    /// Reads the entries of an earlier process; none if the file does not exist. An unreadable or partly invalid file
    /// is moved aside.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> StoredEntries<T> {
        match self.entries() {
            Ok((entries, None)) => StoredEntries { entries, lost: None },
            Ok((entries, Some(why))) => StoredEntries { entries, lost: Some(self.put_aside(&why)) },
            Err(why) => StoredEntries { entries: Vec::new(), lost: Some(self.put_aside(&why)) },
        }
    }

    /// Reads the valid entries of a running server's file, which stays as it is.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn peek<T: DeserializeOwned>(&self) -> Result<Vec<T>, String> {
        self.entries().map(|(entries, _)| entries)
    }

    /// The valid entries, and the reason why the rest is invalid.
    fn entries<T: DeserializeOwned>(&self) -> Result<(Vec<T>, Option<String>), String> {
        // A link that leads nowhere is no file that is not there.
        match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), None)),
            _ => {}
        }
        let mut bytes = Vec::new();
        let file = File::open(&self.path).map_err(|error| error.to_string())?;
        file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(format!("it is longer than {BYTES_MAX} octets"));
        }
        let (text, wrong) = match sealed_text::opened(&bytes) {
            SealedContent::Whole(text) | SealedContent::Without(text) => (text, None),
            // Any of the entries may be the damaged one.
            SealedContent::Damaged(text) => (text, Some(sealed_text::DAMAGED.to_owned())),
        };
        let all: Vec<serde_json::Value> =
            serde_json::from_slice(text).map_err(|error| error.to_string())?;
        let (count, mut why) = (all.len(), None);
        let as_entry = |value| serde_json::from_value(value).map_err(|e| why = Some(e.to_string()));
        let entries: Vec<T> = all.into_iter().map(as_entry).filter_map(Result::ok).collect();
        let strange = count - entries.len();
        let why = why.map(|why| format!("{strange} of {count} entries are invalid: {why}"));
        Ok((entries, why.or(wrong)))
    }

    /// Moves an unusable file aside. Returns a sentence with its contents and its new path.
    fn put_aside(&self, why: &str) -> String {
        let aside = damaged(&self.path);
        let moved = match fs::rename(&self.path, &aside) {
            Ok(()) => format!("moved to {}", aside.display()),
            Err(error) => format!("it cannot be moved aside: {error}"),
        };
        format!("cannot read {} from {}: {why}; {moved}", self.what, self.path.display())
    }

    /// The octets of a file with these entries, for [`put`](Self::put).
    ///
    /// # Errors
    /// Returns a sentence if the file would exceed the size limit.
    pub(crate) fn content<T: Serialize>(&self, entries: &[T]) -> Result<Vec<u8>, String> {
        let (lines, left_out) = lines_of(entries.iter());
        if left_out > 0 {
            return Err(format!("{} would exceed {BYTES_MAX} octets", self.what));
        }
        Ok(lines)
    }

    /// Writes a new file with as many of the first entries as fit. Returns the number left out.
    ///
    /// # Errors
    /// Returns a sentence; the old file is then in place.
    pub(crate) fn write_first<'e, T: Serialize + 'e>(
        &self,
        entries: impl Iterator<Item = &'e T>,
    ) -> Result<usize, String> {
        let (lines, left_out) = lines_of(entries);
        self.put(&lines)?;
        Ok(left_out)
    }

    /// Writes another file, syncs it and puts it in place of the old one.
    ///
    /// # Errors
    /// A sentence; the old file is in place then.
    pub(crate) fn put(&self, lines: &[u8]) -> Result<(), String> {
        let written = || -> io::Result<()> {
            let fresh = self.path.with_extension("json.new");
            let mut file = File::create(&fresh)?;
            file.write_all(lines)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.path)?;
            File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
        };
        written().map_err(|error| format!("cannot write {}: {error}", self.path.display()))
    }
}

/// A sealed JSON array with a line per entry, and the number of entries left out.
fn lines_of<'e, T: Serialize + 'e>(entries: impl Iterator<Item = &'e T>) -> (Vec<u8>, usize) {
    const END: &[u8] = b"\n]\n";
    let (mut out, mut left_out) = (b"[".to_vec(), 0);
    for entry in entries {
        // State consists of texts and numbers, which always serialize.
        let Ok(line) = serde_json::to_vec(entry) else { continue };
        let separator: &[u8] = if out.len() == 1 { b"\n" } else { b",\n" };
        let rest = separator.len() + line.len() + END.len() + SEAL_BYTES;
        if (out.len() + rest) as u64 > BYTES_MAX {
            left_out += 1;
            continue;
        }
        out.extend_from_slice(separator);
        out.extend_from_slice(&line);
    }
    out.extend_from_slice(END);
    (sealed_text::sealed(out), left_out)
}

/// A list of an operator's orders, in a state file. An order is in force even if its file can't be written: stopping
/// mail must not depend on disk space.
#[derive(Debug)]
pub(crate) struct KeptList<T> {
    file: StateFile,
    all: Vec<T>,
    /// The reason why the file is incomplete, in a sentence.
    unkept: Option<String>,
}

impl<T: Clone + Serialize + DeserializeOwned> KeptList<T> {
    /// Loads the entries of an earlier process. Returns the reason why some are lost, in a sentence.
    pub(crate) fn open(file: StateFile) -> (KeptList<T>, Option<String>) {
        let StoredEntries { entries, lost } = file.read();
        (KeptList { file, all: entries, unkept: None }, lost)
    }

    /// The path of the file.
    pub(crate) fn shown(&self) -> String {
        self.file.shown()
    }

    pub(crate) fn all(&self) -> &[T] {
        &self.all
    }

    /// The entries without a write.
    pub(crate) fn all_mut(&mut self) -> &mut Vec<T> {
        &mut self.all
    }

    /// The reason why a restart would lose entries, in a sentence, until the file can be written.
    pub(crate) fn unkept(&self) -> Option<&str> {
        self.unkept.as_deref()
    }

    /// Retries a failed write.
    pub(crate) fn keep(&mut self) {
        if let Ok(content) = self.file.content(&self.all) {
            self.unkept = self.file.put(&content).err();
        }
    }

    /// Replaces the entries.
    ///
    /// # Errors
    /// A sentence, if the file would be too long; nothing has changed then.
    pub(crate) fn write(&mut self, all: Vec<T>) -> Result<(), String> {
        let content = self.file.content(&all)?;
        self.all = all;
        self.unkept = self.file.put(&content).err();
        Ok(())
    }

    /// A report, with the reason why the entries are not kept yet.
    pub(crate) fn told(&self, done: String) -> String {
        match &self.unkept {
            None => done,
            Some(why) => format!("{done}; not yet kept over a restart: {why}"),
        }
    }
}

/// The kind of these problems.
const KIND: &str = "state_file";

/// Reports problems of state files; clones share the list.
#[derive(Clone, Debug)]
pub(crate) struct StateFiles {
    conditions: Conditions,
    console: Arc<ConsoleLog>,
}

impl StateFiles {
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> StateFiles {
        StateFiles { conditions: Conditions::new(KIND), console: Arc::clone(console) }
    }

    /// For the list of problems.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Reports lost contents of a file: `why` is a sentence with the file's name, `so` the consequence.
    pub(crate) fn lost(&self, topic: &'static str, file: &Path, why: &str, so: &str) {
        self.console.line(Level::Warn, topic, format_args!("{why}; {so}"));
        let found = DetectedProblem::warning(file.display().to_string(), why);
        self.conditions.set(found.next_step(so), wall_now());
    }

    /// A file can't be written, until it can.
    pub(crate) fn unwritten(&self, topic: &'static str, file: &Path, why: &str) {
        self.console.line(Level::Warn, topic, format_args!("{why}"));
        let found = DetectedProblem::warning(written(file), why);
        let step = "free disk space, or correct the directory: the file is written then";
        self.conditions.set(found.next_step(step), wall_now());
    }

    /// It could be written.
    pub(crate) fn written(&self, file: &Path) {
        self.conditions.clear(&written(file));
    }
}

/// That a file was damaged is one thing, that it can't be written another.
fn written(file: &Path) -> String {
    format!("{} (written)", file.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all<T>(entries: Vec<T>) -> StoredEntries<T> {
        StoredEntries { entries, lost: None }
    }

    fn write<T: Serialize>(file: &StateFile, entries: &[T]) -> Result<(), String> {
        file.put(&file.content(entries)?)
    }

    #[test]
    fn what_is_kept_is_read_again() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "numbers.json", "numbers");
        assert_eq!(file.read::<u32>(), all(Vec::new()));
        for numbers in [&[1, 2, 3][..], &[]] {
            write(&file, numbers).unwrap();
            assert_eq!(file.read::<u32>(), all(numbers.to_vec()));
        }
        let names: Vec<_> = fs::read_dir(directory.path()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1);
        let nowhere = StateFile::new(Path::new("/nonexistent"), "x.json", "x");
        assert!(write(&nowhere, &[1]).unwrap_err().starts_with("cannot write /nonexistent/x.json"));
    }

    #[test]
    fn what_can_not_be_read_is_put_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("numbers.json");
        let file = StateFile::new(directory.path(), "numbers.json", "numbers");
        let long = vec![b' '; BYTES_MAX as usize + 1];
        for (content, left, why) in [
            (b"[1".to_vec(), vec![], "EOF"),
            (b"[1,\"x\",3]".to_vec(), vec![1, 3], "1 of 3 entries are invalid"),
            (b"{}".to_vec(), vec![], "invalid type"),
            (vec![], vec![], "EOF"),
            (long, vec![], "it is longer than 8388608 octets"),
        ] {
            fs::write(&path, &content).unwrap();
            let held = file.read::<u32>();
            assert_eq!(held.entries, left);
            let lost = held.lost.unwrap();
            assert!(lost.starts_with("cannot read numbers from ") && lost.contains(why), "{lost}");
            assert_eq!(fs::read(directory.path().join("numbers.json.damaged")).unwrap(), content);
            assert_eq!(file.read::<u32>(), all(Vec::new()), "it begins anew");
        }
        // Another number, where nothing else shows it; the rest may still be right.
        write(&file, &[1, 2, 3]).unwrap();
        let text = fs::read_to_string(&path).unwrap().replace("2,", "6,");
        fs::write(&path, text).unwrap();
        let held = file.read::<u32>();
        assert_eq!(held.entries, [1, 6, 3]);
        assert!(held.lost.unwrap().contains("its checksum is wrong"));
        std::os::unix::fs::symlink("nowhere", &path).unwrap();
        assert!(file.read::<u32>().lost.is_some(), "a broken symbolic link");
    }

    #[test]
    fn what_can_be_written_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let file = StateFile::new(directory.path(), "texts.json", "texts");
        // Twice as much as there is room for; each octet of it takes two.
        let texts: Vec<String> =
            (0..1_000).map(|n| format!("{n}{}", "\"".repeat(BYTES_MAX as usize / 1_000))).collect();
        write(&file, &texts[..10]).unwrap();
        let why = write(&file, &texts).unwrap_err();
        assert_eq!(why, "texts would exceed 8388608 octets");
        assert_eq!(file.read::<String>(), all(texts[..10].to_vec()), "the old file stays");
        let left_out = file.write_first(texts.iter()).unwrap();
        assert!((400..600).contains(&left_out), "{left_out}");
        assert_eq!(file.read::<String>(), all(texts[..1_000 - left_out].to_vec()));
        // To the octet.
        let exact = "x".repeat(BYTES_MAX as usize - b"[\n\"\"\n]\n".len() - SEAL_BYTES);
        write(&file, &[&exact]).unwrap();
        assert_eq!(file.read::<String>(), all(vec![exact.clone()]));
        assert!(write(&file, &[exact + "x"]).is_err());
    }
}
