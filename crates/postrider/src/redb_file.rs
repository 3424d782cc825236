//! Files of small records (redb), of the kind that a server can do without if it must.

use redb::{
    Database, DatabaseError, ReadableDatabase as _, ReadableTable as _, StorageError,
    TableDefinition, TableError,
};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Memory for pages; what is known is in memory already.
const CACHE_BYTES: usize = 4 << 20;

/// The one table of such a file: keys and records.
pub(crate) type Records = TableDefinition<'static, &'static [u8], &'static [u8]>;

/// Why a file could not be read.
pub(crate) enum Unreadable {
    /// It may be well: it could not be opened, or another process has it.
    NotNow(String),
    Damaged(String),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Unreadable::NotNow(why) | Unreadable::Damaged(why)) = self;
        f.write_str(why)
    }
}

/// Opens a file, or makes one. On a file that is damaged this may panic (`panic::MAY_PANIC`).
pub(crate) fn open(path: &Path) -> Result<Database, Unreadable> {
    let database = Database::builder().set_cache_size(CACHE_BYTES).create(path);
    database.map_err(|error| unreadable(&error))
}

fn unreadable(error: &DatabaseError) -> Unreadable {
    let text = error.to_string();
    match error {
        DatabaseError::Storage(StorageError::Io(error))
            if !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            Unreadable::NotNow(text)
        }
        DatabaseError::DatabaseAlreadyOpen => Unreadable::NotNow(text),
        _ => Unreadable::Damaged(text),
    }
}

/// Hands each key to `take`, with its record.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn read(
    database: &Database,
    records: Records,
    mut take: impl FnMut(&[u8], &[u8]),
) -> Result<(), redb::Error> {
    let transaction = database.begin_read()?;
    let table = match transaction.open_table(records) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(()),
        table => table?,
    };
    for entry in table.iter()? {
        let (key, record) = entry?;
        take(key.value(), record.value());
    }
    Ok(())
}

/// Makes changes durable, all or none: what is no record any more is removed.
///
/// # Errors
/// For people.
pub(crate) fn write<K: AsRef<[u8]>, R: AsRef<[u8]>>(
    database: &Database,
    records: Records,
    changes: impl Iterator<Item = (K, Option<R>)>,
) -> Result<(), String> {
    let write = || -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(records)?;
            for (key, record) in changes {
                match record {
                    Some(record) => _ = table.insert(key.as_ref(), record.as_ref())?,
                    None => _ = table.remove(key.as_ref())?,
                }
            }
        }
        transaction.commit()?;
        Ok(())
    };
    write().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: Records = TableDefinition::new("records");

    type Held = Vec<(Vec<u8>, Vec<u8>)>;

    /// All of a file.
    fn all(path: &Path) -> Result<(Database, Held), Unreadable> {
        let database = open(path)?;
        let mut held = Held::new();
        read(&database, RECORDS, |key, record| held.push((key.to_vec(), record.to_vec())))
            .map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Ok((database, held))
    }

    fn records(count: u32) -> Held {
        (0..count).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; 30])).collect()
    }

    fn add(database: &Database, held: &Held) {
        write(database, RECORDS, held.iter().map(|(key, record)| (key, Some(record)))).unwrap();
    }

    fn opened(path: &Path) -> (Database, Held) {
        all(path).unwrap_or_else(|why| panic!("{why}"))
    }

    #[test]
    fn what_is_written_is_read_and_what_is_removed_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.redb");
        let (database, held) = opened(&path);
        assert!(held.is_empty());
        let written = records(2_000);
        add(&database, &written);
        assert!(matches!(all(&path), Err(Unreadable::NotNow(_))), "it is in use");
        drop(database);
        let (database, held) = opened(&path);
        assert_eq!(held, written);
        let removed = written[1..].iter().map(|(key, _)| (key, None::<&[u8]>));
        write(&database, RECORDS, removed).unwrap();
        drop(database);
        assert_eq!(opened(&path).1, written[..1]);
    }

    #[test]
    fn what_is_no_such_file_is_damaged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.redb");
        let (database, _) = opened(&path);
        add(&database, &records(2_000));
        drop(database);
        let whole = std::fs::read(&path).unwrap();
        for bytes in [b"no database".to_vec(), vec![0xA5; 100_000], whole[..5_000].to_vec()] {
            std::fs::write(&path, bytes).unwrap();
            assert!(matches!(all(&path), Err(Unreadable::Damaged(_))));
        }
        // Any octets in its place give an answer, or a panic, which the thread that reads may have.
        for at in (0..whole.len()).step_by(whole.len() / 50) {
            let mut turned = whole.clone();
            turned[at..].iter_mut().take(64).for_each(|byte| *byte ^= 0x5A);
            std::fs::write(&path, turned).unwrap();
            let path = path.clone();
            let _ = std::thread::spawn(move || all(&path).map(|_| ()).is_ok()).join();
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        assert!(matches!(all(&path), Err(Unreadable::NotNow(_))));
    }
}
