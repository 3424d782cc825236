//! The file of triplets and clients.

use crate::record_file::{RecordFile, Unreadable};
use auth::greylist::{Changes, Key, Record};
use std::path::Path;

/// Contents of a file: keys with their records; `None` for an invalid record.
type GreylistRecords = Vec<(Key, Option<Record>)>;

/// An open file.
pub(super) struct File(RecordFile);

impl File {
    /// Opens or creates a file, and reads it.
    pub(super) fn open(path: &Path) -> Result<(File, GreylistRecords), Unreadable> {
        let mut held = GreylistRecords::new();
        let file = RecordFile::open(path, |key, record| {
            // Unknown keys are ignored, and not removed.
            if let Ok(key) = Key::try_from(key) {
                held.push((key, Record::read(record)));
            }
        })?;
        Ok((File(file), held))
    }

    /// Makes changes durable, all or none.
    pub(super) fn write(&mut self, changes: &Changes) -> Result<(), String> {
        let changes = changes.iter();
        self.0.write(changes.map(|(key, record)| (key, record.map(Record::to_bytes))))
    }

    /// Returns true if a partial batch at its end was skipped, the result of a kill.
    pub(super) fn has_rest(&self) -> bool {
        self.0.has_rest()
    }

    /// Nothing follows for a while.
    pub(super) fn seal(&mut self) -> Result<(), String> {
        self.0.seal()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::RULES;
    use super::*;
    use auth::greylist::{ClientIdentity, GreylistLedger, Triplet};
    use mail::Wall;

    /// A book that knows so many senders.
    fn book(count: u32) -> GreylistLedger {
        let mut book = GreylistLedger::default();
        for n in 0..count {
            let sender = format!("s{}", char::from_u32(0x4E00 + n).expect("a letter"));
            let sender = Some((sender.as_str(), "far.test"));
            let triplet =
                Triplet { client: ClientIdentity::Domain("far.test"), sender, recipient: "b@c" };
            book.judge(&RULES, &triplet, Wall(1_000));
        }
        book
    }

    fn open(path: &Path) -> (File, GreylistRecords) {
        File::open(path).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn what_is_written_is_read_and_what_is_forgotten_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("greylist.records");
        let (mut file, held) = open(&path);
        assert!(held.is_empty());
        let changes = book(2_000).take_changes(usize::MAX);
        file.write(&changes).unwrap();
        drop(file);
        let (mut file, held) = open(&path);
        assert_eq!(held, changes);
        let forgotten: Changes = changes[1..].iter().map(|(key, _)| (*key, None)).collect();
        file.write(&forgotten).unwrap();
        drop(file);
        assert_eq!(open(&path).1, changes[..1]);
    }
}
