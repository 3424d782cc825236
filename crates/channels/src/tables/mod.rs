//! Lookup tables in this process: settings of each kind, and construction from files.

mod composed;
mod database;
mod file;

pub(crate) use composed::{FirstText, UnionText};
use config::{Reader, TableSection, TableSettings};
pub use database::DatabaseFile;
pub(crate) use database::DatabaseText;
pub(crate) use file::{CidrText, FileText, PcreText, RegexpText};
use lookup::{EntryText, Judge, Table, TableFileError, TextTable, fold};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A table in memory, with immediate answers.
pub trait LocalTable {
    /// The file to build it from, again after each change. `None` if it needs none.
    fn path(&self) -> Option<&Path>;

    /// Maximum size of the file. A longer file need not be read further.
    fn file_bytes_max(&self) -> usize;

    /// Builds the table from the file's content and its usable entries. Entries left out are among the table's
    /// warnings.
    ///
    /// # Errors
    /// All errors in the file, in order. Errors of a table without a file have no line.
    fn make(&self, content: &[u8], judge: Judge<'_>)
    -> Result<Arc<dyn Table>, Vec<TableFileError>>;
}

/// The settings as a local table. `None` for tables of other kinds.
#[must_use]
pub fn local(settings: &dyn TableSettings) -> Option<&dyn LocalTable> {
    if let Some(inline) = settings.of::<Inline>() {
        return Some(inline);
    }
    settings.of::<file::MapFile>().map(|file| file as &dyn LocalTable)
}

/// Keys and values in the configuration. Keys are case-insensitive.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct InlineText(BTreeMap<String, String>);

impl TableSection for InlineText {
    const KEY: &'static str = "inline";
    const SUMMARY: &'static str = "Keys and values in the configuration.";
    const EXAMPLE: &'static str = "inline = { \"abuse@example.org\" = \"root@example.org\" }";
    const IS_REMOTE: bool = false;
    type Text = InlineText;

    fn read(text: InlineText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn TableSettings>> {
        let mut folded = BTreeMap::new();
        for (key, value) in text.0 {
            if let Some((other, _)) = folded.insert(fold(&key).into_owned(), (key.clone(), value)) {
                let message = format!("\"{other}\" and \"{key}\" are the same key");
                reader.error(&key, message, "keys are case-insensitive");
            }
        }
        let pairs = folded.into_iter().map(|(key, (_, value))| (key, value)).collect();
        Some(Arc::new(Inline { pairs }))
    }
}

/// Folded keys and their values.
#[derive(Debug, PartialEq, Eq)]
struct Inline {
    pairs: BTreeMap<String, String>,
}

impl TableSettings for Inline {
    fn is_like(&self, other: &dyn TableSettings) -> bool {
        other.of::<Inline>() == Some(self)
    }
}

impl LocalTable for Inline {
    fn path(&self) -> Option<&Path> {
        None
    }

    fn file_bytes_max(&self) -> usize {
        0
    }

    fn make(&self, _: &[u8], judge: Judge<'_>) -> Result<Arc<dyn Table>, Vec<TableFileError>> {
        let pairs = || self.pairs.iter().map(|(key, value)| (&**key, &**value));
        let wrong = |(key, text)| {
            let entry = EntryText { key: Some(key), text, goes_on: false, so_far: None };
            let why = lookup::table::check_usable(judge, &entry).err()?;
            Some(TableFileError {
                line: 0,
                column: 0,
                text: format!("key \"{key}\": {why}").into(),
            })
        };
        let mistakes: Vec<TableFileError> = pairs().filter_map(wrong).collect();
        if mistakes.is_empty() { Ok(Arc::new(TextTable::inline(pairs()))) } else { Err(mistakes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::{Composition, TableEntry};

    fn tables(text: &str) -> Vec<Arc<TableEntry>> {
        let frame = "[[listener]]\naddress = \"127.0.0.1:25\"\n[[route]]\ndiscard = {}\n";
        let parsed = crate::schema().parse(&format!("{frame}{text}"), "test.toml");
        parsed.unwrap_or_else(|errors| panic!("{errors}")).tables
    }

    fn find(table: &TableEntry, content: &str, key: &str) -> Option<String> {
        let local = local(&*table.settings).expect("local");
        let made = local.make(content.as_bytes(), &lookup::table::any).expect("right");
        made.find(key).expect("an answer").map(|entry| entry.text.into())
    }

    #[test]
    fn each_kind_is_made_of_its_file() {
        for (kind, content, key, answer, has_patterns) in [
            ("file", "A@b.example  x", "a@B.example", "x", false),
            ("cidr", "10.0.0.0/8 x", "10.1.2.3", "x", true),
            ("regexp", "/^a\\(b\\)$/x <$1>", "AB", "<B>", true),
            ("pcre", "/^a(\\d)$/ <$1>", "A1", "<1>", true),
        ] {
            let text = format!("[[table]]\nname = \"t\"\n{kind} = {{ path = \"maps/t\" }}");
            let table = &tables(&text)[0];
            assert_eq!((table.kind, table.is_remote), (kind, false));
            assert_eq!(table.settings.has_patterns(), has_patterns);
            let made_of = local(&*table.settings).and_then(|local| local.path());
            assert_eq!(made_of, Some(Path::new("maps/t")));
            assert_eq!(find(table, content, key).as_deref(), Some(answer));
            assert_eq!(find(table, content, "none"), None);
            let other = &tables(&text.replace("maps/t", "maps/u"))[0];
            assert!(table.settings.is_like(&*table.settings.clone()));
            assert!(!table.settings.is_like(&*other.settings));
        }
        let [cidr, regexp] = ["cidr", "regexp"]
            .map(|kind| format!("[[table]]\nname = \"t\"\n{kind} = {{ path = \"t\" }}"))
            .map(|text| tables(&text));
        assert!(!cidr[0].settings.is_like(&*regexp[0].settings), "of another kind");
        let local = local(&*regexp[0].settings).expect("local");
        let mistakes = local.make(b"/a/ x\n/(/ y\n", &lookup::table::any).expect_err("a mistake");
        assert_eq!(mistakes[0].to_string(), "2:2: this group is not closed");
    }

    #[test]
    fn pairs_stand_in_the_configuration() {
        let text = "[[table]]\nname = \"t\"\n[table.inline]\n\"A@b.example\" = \"x\"\nb = \"\"\n";
        let table = &tables(text)[0];
        assert_eq!(find(table, "", "a@B.example").as_deref(), Some("x"));
        assert_eq!(find(table, "", "B").as_deref(), Some(""));
        assert_eq!(find(table, "", "c"), None);
        assert!(local(&*table.settings).is_some_and(|local| local.path().is_none()));
        let other = tables("[[table]]\nname = \"t\"\ninline = { b = \"\" }\n");
        assert!(!table.settings.is_like(&*other[0].settings));
    }

    #[test]
    fn tables_are_made_of_others() {
        let text = "[[table]]\nname = \"a\"\ninline = {}\n[[table]]\nname = \"b\"\ninline = {}\n";
        for (kind, composition) in [("first", Composition::First), ("union", Composition::Union)] {
            let last = format!("[[table]]\nname = \"c\"\n{kind} = {{ tables = [\"b\", \"a\"] }}\n");
            let tables = tables(&format!("{text}{last}"));
            let settings = &tables[2].settings;
            assert_eq!(settings.composition(), Some(composition));
            assert_eq!(settings.parts(), ["b", "a"]);
            assert!(local(&**settings).is_none());
            assert!(settings.is_like(&**settings) && !settings.is_like(&*tables[0].settings));
        }
    }
}
