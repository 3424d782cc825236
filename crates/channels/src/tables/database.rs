//! Constant databases.

use config::{Reader, TableSection, TableSettings};
use lookup::database::{Database, DatabaseBytes, Unusable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A constant database, built by `postrider table build`. A lookup takes about a microsecond if the data is in the page
/// cache, regardless of the number of keys. Otherwise it is read from disk, for up to 5 s, without blocking other
/// sessions. Files up to 64 MiB are read into memory; on a file system that can't report cached pages (NFS, FUSE),
/// files up to 256 MiB. A replaced file (preferably by rename) is loaded during operation.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct DatabaseText {
    /// The file. Required.
    path: String,
}

impl TableSection for DatabaseText {
    const KEY: &'static str = "database";
    const SUMMARY: &'static str = "A constant database of `postrider table build`.";
    const EXAMPLE: &'static str = "database = { path = \"/etc/postrider/users.db\" }";
    const IS_REMOTE: bool = false;
    type Text = DatabaseText;

    fn read(text: DatabaseText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        if text.path.is_empty() {
            let help = "for example path = \"/etc/postrider/users.db\"";
            reader.error("", "a table without `path`", help);
            return None;
        }
        let path = reader.file_path("path", &text.path);
        Some(Arc::new(DatabaseFile { path }))
    }
}

/// Settings of a constant database.
#[derive(Debug, PartialEq, Eq)]
pub struct DatabaseFile {
    path: PathBuf,
}

impl DatabaseFile {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the database in the file.
    ///
    /// # Errors
    /// It is not a database, incomplete, or unreadable.
    pub fn open(&self, content: Arc<dyn DatabaseBytes>) -> Result<Arc<Database>, Unusable> {
        Ok(Arc::new(Database::open(self.path.display().to_string(), content)?))
    }
}

impl TableSettings for DatabaseFile {
    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<DatabaseFile>() == Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::TableEntry;

    const FRAME: &str = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";

    fn table(path: &str) -> Arc<TableEntry> {
        let section = format!("[[table]]\nname = \"t\"\ndatabase = {{ path = \"{path}\" }}\n");
        let parsed = crate::schema().parse(&format!("{FRAME}{section}"), "test.toml");
        Arc::clone(&parsed.unwrap_or_else(|errors| panic!("{errors}")).tables[0])
    }

    #[test]
    fn settings_know_their_file_and_what_is_wrong_with_it() {
        let table = table("/etc/users.db");
        assert_eq!((table.kind, table.is_remote), ("database", false));
        let file = table.settings.of::<DatabaseFile>().expect("its kind");
        assert_eq!(file.path(), Path::new("/etc/users.db"));
        assert_eq!(file.open(Arc::new(b"a b\n".to_vec())).unwrap_err(), Unusable::Foreign);
    }

    #[test]
    fn the_same_file_is_like_itself() {
        let one = table("/a.db");
        assert!(one.settings.is_like(&*table("/a.db").settings));
        assert!(!one.settings.is_like(&*table("/b.db").settings));
    }
}
