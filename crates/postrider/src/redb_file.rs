//! Files of small records (redb), of the kind that a server can do without if it must.

use redb::{Database, DatabaseError, StorageError};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// Memory for pages; what is known is in memory already.
const CACHE_BYTES: usize = 4 << 20;

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
