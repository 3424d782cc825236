//! The file of a snapshot: a constant database, with a record about itself.
//!
//! An entry has a record for each of its keys, `NUMBER:KEY`; the number tells entries apart that have
//! the same key, and begins with 0. The text of a record is the entry's name as [`hex`]. Where a directory
//! tells of changes each entry has a record of its name, too: `id:NAME`.

use super::item::{Id, Item, hex, unhex};
use crate::file_content;
use crate::replacement::{Replacement, salt};
use crate::world::clock::wall_now;
use lookup::database::{Database, DatabaseOptions, DatabaseWriter, WriteError};
use lookup::{Entry, Field, LookupError, Table as _};
use mail::Wall;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fs::File;
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

/// The record about the file.
const ABOUT: &str = "about";

/// How names of records of entries' names begin.
const BY_ID: &str = "id:";

/// What a file says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SnapshotHeader {
    /// Of the question that it answers.
    pub(super) fingerprint: String,
    /// Entries, each counted once.
    pub(super) entries: u64,
    /// The same for the same entries, whatever their order.
    pub(super) digest: u64,
    /// When the entries were last seen to have changed, and what had.
    pub(super) changed: Option<(Wall, String)>,
    /// The server, and how far it had told us of changes; `None`: it does not.
    pub(super) cookie: Option<(String, Vec<u8>)>,
}

impl SnapshotHeader {
    fn to_entry(&self) -> Entry {
        let (at, what) = self.changed.clone().unwrap_or((Wall(0), String::new()));
        let cookie = self.cookie.clone().map(|(server, cookie)| (server, hex(&cookie)));
        let (server, cookie) = cookie.unzip();
        let fields: [(&str, Option<String>); 7] = [
            ("fingerprint", Some(self.fingerprint.clone())),
            ("entries", Some(self.entries.to_string())),
            ("digest", Some(self.digest.to_string())),
            ("changed", Some(at.0.to_string())),
            ("what", Some(what)),
            ("server", server),
            ("cookie", cookie),
        ];
        let field = |(name, value): (&str, Option<String>)| -> Field {
            (name.into(), value.into_iter().map(String::into_boxed_str).collect())
        };
        Entry::fields(fields.into_iter().map(field).collect::<Vec<_>>())
    }

    fn from_entry(entry: &Entry) -> Option<SnapshotHeader> {
        let number = |name| entry.field(name)?.parse::<u64>().ok();
        let changed = (Wall(number("changed")?), entry.field("what")?.to_owned());
        let cookie = entry
            .field("cookie")
            .map(|cookie| Some((entry.field("server")?.to_owned(), unhex(cookie)?)));
        Some(SnapshotHeader {
            fingerprint: entry.field("fingerprint")?.to_owned(),
            entries: number("entries")?,
            digest: number("digest")?,
            changed: (changed.0 != Wall(0)).then_some(changed),
            cookie: cookie.unwrap_or_default(),
        })
    }
}

/// The name of an entry, a key of it, and its fields.
pub(super) type KeyOfEntry = (Id, Box<str>, Box<[Field]>);

/// Names and fields of the entries that have a key.
pub(super) type EntriesOfKey = Vec<(Id, Box<[Field]>)>;

/// A file that is there.
#[derive(Debug)]
pub(super) struct SnapshotFile {
    database: Database,
    pub(super) about: SnapshotHeader,
    /// When the directory was last seen to be as it is.
    pub(super) confirmed: Wall,
}

impl SnapshotFile {
    /// Opens a file.
    ///
    /// # Errors
    /// Why it is of no use, for people.
    pub(super) fn open(path: &Path) -> Result<SnapshotFile, String> {
        let name = path.display().to_string();
        let wrong = |why: &dyn std::fmt::Display| format!("{name}: {why}");
        let content = file_content::open(path).map_err(|error| wrong(&error))?;
        let database = Database::open(&*name, content).map_err(|why| wrong(&why))?;
        let about = database.find(ABOUT).map_err(|trouble| wrong(&trouble))?;
        let about = about.as_ref().and_then(SnapshotHeader::from_entry);
        let about = about.ok_or_else(|| wrong(&"not a directory snapshot"))?;
        let touched = std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let since = touched.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let since = since.and_then(|since| u64::try_from(since.as_millis()).ok());
        let confirmed = since.map_or_else(|| database.made(), Wall);
        Ok(SnapshotFile { database, about, confirmed })
    }

    /// The entries that have a key, in their order, and no more than these; `None`: the disk would have to be waited
    /// for.
    ///
    /// # Errors
    /// The file is damaged, or can't be read.
    pub(super) fn of_key(
        &self,
        key: &str,
        entries_max: usize,
        waits: bool,
    ) -> Result<Option<EntriesOfKey>, LookupError> {
        let mut entries = Vec::new();
        for number in (0..).take(entries_max) {
            let name = record_name(number, key);
            let found = match waits {
                true => self.database.find(&name)?,
                false => match self.database.find_now(&name) {
                    Some(found) => found?,
                    None => return Ok(None),
                },
            };
            let Some(entry) = found else { break };
            entries.push((self.read(&entry.text)?, entry.fields));
        }
        Ok(Some(entries))
    }

    /// Every key of every entry: its name, the key, its fields.
    pub(super) fn keys(&self) -> impl Iterator<Item = Result<KeyOfEntry, LookupError>> {
        self.database.entries().filter_map(|read| match read {
            Ok((name, _)) if &*name == ABOUT || name.starts_with(BY_ID) => None,
            Ok((name, entry)) => {
                let key = Box::from(name.split_once(':').map_or("", |(_, key)| key));
                Some(self.read(&entry.text).map(|id| (id, key, entry.fields)))
            }
            Err(trouble) => Some(Err(trouble)),
        })
    }

    /// Whether it has an entry, where entries have records of their names.
    pub(super) fn has(&self, id: &Id) -> bool {
        // Damage shows where the entry is looked up.
        self.database.find(&id_name(id)).is_ok_and(|found| found.is_some())
    }

    fn read(&self, text: &str) -> Result<Id, LookupError> {
        let id = unhex(text).and_then(|bytes| Id::try_from(bytes).ok());
        id.ok_or_else(|| {
            let text = "the snapshot has an unknown record";
            LookupError::new(lookup::LookupErrorKind::Wrong, text)
        })
    }
}

fn id_name(id: &Id) -> String {
    format!("{BY_ID}{}", hex(id))
}

fn record_name(number: u32, key: &str) -> String {
    format!("{number}:{key}")
}

/// A file that is being written.
pub(super) struct Builder {
    replacement: Replacement,
    writer: DatabaseWriter<File, File>,
    hashers: [RandomState; 2],
    /// How often a key has come, by 96 bits of hash: two that have the same are one key. 16 bytes for each,
    /// and as much again where the map has just grown.
    keys: HashMap<(u64, u32), u32>,
    pub(super) entries: u64,
    /// Entries that show no key.
    pub(super) bare: u64,
    entries_max: u64,
    has_ids: bool,
    pub(super) digest: u64,
}

impl Builder {
    /// Begins a file that is to take the place of this one.
    ///
    /// # Errors
    /// A sentence.
    pub(super) fn create(path: &Path, entries_max: u64) -> Result<Builder, String> {
        let replacement = Replacement::create(path, None)?;
        let files = || Ok((replacement.file().try_clone()?, replacement.scratch()?));
        let (file, scratch) = files().map_err(|error: std::io::Error| replacement.wrong(&error))?;
        let making = DatabaseOptions { salt: salt()?, made: wall_now(), folds_case: false };
        let writer = DatabaseWriter::new(file, scratch, making);
        let writer = writer.map_err(|error| replacement.wrong(&error))?;
        Ok(Builder {
            replacement,
            writer,
            hashers: [RandomState::new(), RandomState::new()],
            keys: HashMap::new(),
            entries: 0,
            bare: 0,
            entries_max,
            has_ids: false,
            digest: 0,
        })
    }

    /// Entries get records of their names.
    pub(super) fn with_ids(self) -> Builder {
        Builder { has_ids: true, ..self }
    }

    /// Adds an entry.
    ///
    /// # Errors
    /// A sentence: there are too many, or the file can't be written.
    pub(super) fn push(&mut self, item: &Item) -> Result<(), String> {
        if item.keys.is_empty() {
            self.bare += 1;
            return Ok(());
        }
        if self.entries >= self.entries_max {
            return Err(format!("the directory has more than {} entries", self.entries_max));
        }
        self.entries += 1;
        self.digest = self.digest.wrapping_add(digest(item));
        let entry =
            Entry { text: hex(&item.id).into(), fields: item.fields.clone(), ..Entry::default() };
        if self.has_ids {
            let written = self.writer.push(&id_name(&item.id), &Entry::default(), self.entries);
            written.map_err(|error| self.replacement.wrong(&error))?;
        }
        for key in &item.keys {
            let [first, second] = self.hashers.each_ref().map(|hasher| hasher.hash_one(key));
            let count = self.keys.entry((first, second as u32)).or_default();
            let name = record_name(*count, key);
            match self.writer.push(&name, &entry, self.entries) {
                Ok(()) => *count += 1,
                // Nobody looks up keys that are so long.
                Err(WriteError::KeyTooLong(_)) => {}
                Err(error) => return Err(self.replacement.wrong(&error)),
            }
        }
        Ok(())
    }

    /// Completes the file, and puts it in its place.
    ///
    /// # Errors
    /// A sentence. The old file is still there then.
    pub(super) fn place(mut self, about: &SnapshotHeader) -> Result<(), String> {
        let about = SnapshotHeader { entries: self.entries, digest: self.digest, ..about.clone() };
        let written = self.writer.push(ABOUT, &about.to_entry(), 0);
        let finished = written.and_then(|()| self.writer.finish(&mut |_| {}));
        finished.map_err(|error| self.replacement.wrong(&error))?;
        self.replacement.place()
    }
}

/// Of an entry without its name, which may be new for each reading.
fn digest(item: &Item) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&item.keys, &item.fields).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(id: u8, keys: &[&str]) -> Item {
        let keys = keys.iter().map(|key| Box::from(*key)).collect();
        let fields = [("path".into(), [Box::from("box")].into())].into();
        Item { id: [id; 16], keys, fields }
    }

    #[test]
    fn one_entry_more_than_may_be_is_no_directory() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.snapshot");
        let mut builder = Builder::create(&path, 2).unwrap();
        for entry in [item(1, &["0 a", "0 b"]), item(2, &["0 a"]), item(3, &[])] {
            builder.push(&entry).unwrap();
        }
        assert_eq!((builder.entries, builder.bare), (2, 1), "who shows no key doesn't count");
        let why = builder.push(&item(4, &["0 d"])).unwrap_err();
        assert_eq!(why, "the directory has more than 2 entries");
        builder.place(&SnapshotHeader::default()).unwrap();
        let stored = SnapshotFile::open(&path).unwrap();
        let found = |max| stored.of_key("0 a", max, true).unwrap().unwrap().len();
        assert_eq!((stored.about.entries, found(9), found(1)), (2, 2, 1));
    }

    #[test]
    fn the_longest_key_is_found_and_a_longer_one_harms_no_other() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.snapshot");
        let mut builder = Builder::create(&path, 9).unwrap();
        let longest = lookup::database::KEY_BYTES_MAX - record_name(0, "").len();
        let (fits, beyond) = ("k".repeat(longest), "l".repeat(longest + 1));
        builder.push(&item(1, &[&fits, &beyond, "0 a"])).unwrap();
        builder.place(&SnapshotHeader::default()).unwrap();
        let stored = SnapshotFile::open(&path).unwrap();
        let count = |key: &str| stored.of_key(key, 9, true).unwrap().unwrap().len();
        let found = [&*fits, &*beyond, "0 a"].map(count);
        assert_eq!(found, [1, 0, 1]);
    }
}
