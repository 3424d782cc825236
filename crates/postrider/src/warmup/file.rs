//! The file of courses: records by `SOURCE NUL TOWARDS`.

use crate::record_file::{RecordFile, Unreadable};
use mta::warmup::{Record, WarmupChanges, WarmupKey};
use std::path::Path;

/// What a file holds.
pub(super) type WarmupRecords = Vec<(WarmupKey, Record)>;

/// An open file.
pub(super) struct File(RecordFile);

impl File {
    /// Opens a file, or makes one, and reads all of it.
    pub(super) fn open(path: &Path) -> Result<(File, WarmupRecords), Unreadable> {
        // `None`: there is something that can't be understood.
        let mut held = Some(WarmupRecords::new());
        let file =
            RecordFile::open(path, |key, record| match (key_of(key), Record::read(record)) {
                (Some(key), Some(record)) => {
                    if let Some(held) = &mut held {
                        held.push((key, record));
                    }
                }
                _ => held = None,
            })?;
        // Who reads it as empty would send what was sent already.
        let held = held.ok_or_else(|| Unreadable::NotNow("written by another version".into()))?;
        Ok((File(file), held))
    }

    /// Makes changes durable, all or none.
    pub(super) fn write(&mut self, changes: &WarmupChanges) -> Result<(), String> {
        let changes = changes.iter();
        self.0.write(changes.map(|change| (bytes_of(&change.key), Some(&change.record[..]))))
    }

    /// Whether half a batch at its end was left out, as a kill leaves it.
    pub(super) fn has_rest(&self) -> bool {
        self.0.has_rest()
    }

    /// Nothing follows for a while.
    pub(super) fn seal(&mut self) -> Result<(), String> {
        self.0.seal()
    }

    /// Forgets these.
    pub(super) fn forget(&mut self, keys: &[WarmupKey]) -> Result<(), String> {
        self.0.write(keys.iter().map(|key| (bytes_of(key), None::<&[u8]>)))
    }
}

fn bytes_of(key: &WarmupKey) -> Vec<u8> {
    [key.source.as_bytes(), &[0], key.towards.as_bytes()].concat()
}

fn key_of(bytes: &[u8]) -> Option<WarmupKey> {
    let (source, towards) = std::str::from_utf8(bytes).ok()?.split_once('\0')?;
    Some(WarmupKey { source: source.into(), towards: towards.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use mta::warmup::{AllowanceGrant, AllowanceRequest, WarmupLedger};
    use std::sync::Arc;

    fn book() -> WarmupLedger {
        let plan =
            config::Warmup { start_day: 0, per_day: vec![2_400], hold_above_ppm: 50_000, line: 1 };
        let plan = Arc::new(plan);
        let mut book = WarmupLedger::default();
        for towards in ["google", "mx.a.test:25,mx.b.test:25"] {
            let key = WarmupKey { source: "ip-1".into(), towards: towards.into() };
            let ask =
                AllowanceRequest { key, plan: Arc::clone(&plan), wanted: 3, now: Wall(86_400_000) };
            assert_eq!(book.ask(&ask), AllowanceGrant::Reserved);
        }
        book
    }

    fn open(path: &Path) -> (File, WarmupRecords) {
        File::open(path).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn what_is_written_is_read_and_what_is_forgotten_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("warmup.records");
        let (mut file, held) = open(&path);
        assert!(held.is_empty());
        let changes = book().take_changes();
        file.write(&changes).unwrap();
        drop(file);
        let (mut file, held) = open(&path);
        let written: Vec<_> =
            changes.iter().map(|c| (c.key.clone(), Record::read(&c.record).unwrap())).collect();
        assert_eq!(held, written);
        assert_eq!((held.len(), held[0].1.reserved), (2, 3));
        file.forget(&[held[0].0.clone()]).unwrap();
        drop(file);
        assert_eq!(open(&path).1, held[1..]);
    }

    #[test]
    fn what_another_version_wrote_is_not_taken_for_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("warmup.records");
        let (mut file, _) = open(&path);
        let mut changes = book().take_changes();
        changes[0].record[0] = 99;
        file.write(&changes).unwrap();
        drop(file);
        assert!(matches!(File::open(&path), Err(Unreadable::NotNow(_))));
        std::fs::write(&path, b"no records").unwrap();
        assert!(matches!(File::open(&path), Err(Unreadable::Damaged(_))));
    }
}
