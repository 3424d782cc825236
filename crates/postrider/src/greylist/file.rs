//! The file of triplets and clients: keys and records in one table of a redb database.

use crate::redb_file::{self, Unreadable};
use auth::greylist::{Changes, Key, Record};
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition, TableError};
use std::path::Path;

const RECORDS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("records");

/// What a file holds: keys, and records as far as they are some.
type Held = Vec<(Key, Option<Record>)>;

/// An open file.
pub(super) struct File(Database);

impl File {
    /// Opens a file, or makes one, and reads all of it.
    pub(super) fn open(path: &Path) -> Result<(File, Held), Unreadable> {
        let database = redb_file::open(path)?;
        let held = read(&database).map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Ok((File(database), held))
    }

    /// Makes changes durable, all or none.
    pub(super) fn write(&self, changes: &Changes) -> Result<(), String> {
        write(&self.0, changes).map_err(|error| error.to_string())
    }
}

fn read(database: &Database) -> Result<Held, redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(RECORDS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(Held::new()),
        table => table?,
    };
    let mut held = Held::new();
    for entry in table.iter()? {
        let (key, record) = entry?;
        // Of what else there may be nothing is known, and nothing removed.
        if let Ok(key) = Key::try_from(key.value()) {
            held.push((key, Record::read(record.value())));
        }
    }
    Ok(held)
}

fn write(database: &Database, changes: &Changes) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(RECORDS)?;
        for (key, record) in changes {
            match record {
                Some(record) => _ = table.insert(&key[..], &record.to_bytes()[..])?,
                None => _ = table.remove(&key[..])?,
            }
        }
    }
    transaction.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::greylist::{Book, Client, Rules, Triplet};
    use mail::Wall;
    use std::time::Duration;

    const RULES: Rules = Rules {
        delay: Duration::from_secs(60),
        retry_window: Duration::from_secs(600),
        remember: Duration::from_secs(6_000),
        clients_after: 5,
    };

    /// A book that knows so many senders.
    fn book(count: u32) -> Book {
        let mut book = Book::default();
        for n in 0..count {
            let sender = format!("s{}", char::from_u32(0x4E00 + n).expect("a letter"));
            let sender = Some((sender.as_str(), "far.test"));
            let triplet = Triplet { client: Client::Domain("far.test"), sender, recipient: "b@c" };
            book.judge(&RULES, &triplet, Wall(1_000));
        }
        book
    }

    fn open(path: &Path) -> (File, Held) {
        File::open(path).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn what_is_written_is_read_and_what_is_forgotten_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("g.redb");
        let (file, held) = open(&path);
        assert!(held.is_empty());
        let changes = book(2_000).take_changes(usize::MAX);
        file.write(&changes).unwrap();
        assert!(matches!(File::open(&path), Err(Unreadable::NotNow(_))), "it is in use");
        drop(file);
        let (file, held) = open(&path);
        assert_eq!(held, changes);
        let forgotten: Changes = changes[1..].iter().map(|(key, _)| (*key, None)).collect();
        file.write(&forgotten).unwrap();
        drop(file);
        assert_eq!(open(&path).1, changes[..1]);
    }

    #[test]
    fn what_is_no_such_file_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("g.redb");
        let (file, _) = open(&path);
        file.write(&book(2_000).take_changes(usize::MAX)).unwrap();
        drop(file);
        let whole = std::fs::read(&path).unwrap();
        for bytes in [b"no database".to_vec(), vec![0xA5; 100_000], whole[..5_000].to_vec()] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(File::open(&path), Err(Unreadable::Damaged(_))));
        }
        // Any octets in its place give an answer, or a panic, which the thread that reads may have.
        for at in (0..whole.len()).step_by(whole.len() / 50) {
            let mut turned = whole.clone();
            turned[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5A);
            std::fs::write(&path, turned).unwrap();
            let path = path.clone();
            let _ = std::thread::spawn(move || File::open(&path).map(|_| ()).is_ok()).join();
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(File::open(&path), Err(Unreadable::NotNow(_))));
    }
}
