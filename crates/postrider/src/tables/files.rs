//! Tables that are made of files.

use super::entry_checks::EntryChecks;
use crate::file_content;
use crate::file_stamp::{FileIdentity, Stamp};
use crate::kept_open;
use channels::{DatabaseFile, LocalTable};
use config::TableEntry;
use lookup::database::Database;
use lookup::{EntryText, MISTAKES_MAX, Table, TableFileError};
use mta::console::Console;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time after which a file that has lost most of its keys is adopted.
pub(super) const DOUBT: Duration = Duration::from_secs(60);
/// Files with fewer keys may lose some keys at once, but not all.
const FEW_KEYS: u64 = 20;

/// A table, and the file that it was made of.
pub(super) type OpenedTable = (Arc<dyn Table>, Option<Stamp>);

/// Returns true if a table is held in this process.
pub(super) fn is_local(entry: &TableEntry) -> bool {
    entry.settings.of::<DatabaseFile>().is_some() || channels::local(&*entry.settings).is_some()
}

/// Opens a local table, and checks that its users can use its entries.
///
/// # Errors
/// Returns each error in a sentence. Errors of a file have its name, and line and column if it has lines.
pub(super) fn open(entry: &TableEntry, checks: &EntryChecks) -> Result<OpenedTable, Vec<String>> {
    if let Some(database) = entry.settings.of::<DatabaseFile>() {
        return open_database(database, checks);
    }
    let Some(local) = channels::local(&*entry.settings) else {
        let sentence = format!("unsupported table kind `{}`", entry.kind);
        return Err(vec![sentence]);
    };
    let Some(path) = local.path() else {
        let sentences = |mistakes: Vec<TableFileError>| {
            mistakes.into_iter().map(|mistake| mistake.text.into()).collect::<Vec<String>>()
        };
        return Ok((make(local, &[], checks).map_err(sentences)?, None));
    };
    let at = path.display().to_string();
    let (content, seen) = read(path, local.file_bytes_max())
        .map_err(|error| vec![format!("cannot read {at}: {error}")])?;
    let table = make(local, &content, checks).map_err(|mistakes| {
        mistakes.iter().map(|mistake| format!("{at}:{mistake}")).collect::<Vec<_>>()
    })?;
    Ok((table, Some(Stamp::new(path, seen))))
}

/// Makes a table of its content, and checks its entries.
fn make(
    local: &dyn LocalTable,
    content: &[u8],
    checks: &EntryChecks,
) -> Result<Arc<dyn Table>, Vec<TableFileError>> {
    let table = local.make(content, &|entry| checks.check(entry))?;
    if checks.follows_entries() {
        // Once more, because circles show only in the whole table.
        local.make(content, &|entry| checks.check_circle(entry, &*table))?;
    }
    Ok(table)
}

/// Warnings about the files of tables, a sentence each: skipped or suspicious entries.
pub(super) fn warnings_of(name: &str, (table, stamp): (&dyn Table, Option<&Stamp>)) -> Vec<String> {
    let path = stamp.map_or(Path::new(""), Stamp::path).display();
    let sentence = |warning| format!("table {name}: {path}:{warning}");
    table.warnings().iter().map(sentence).collect()
}

/// Logs them.
pub(super) fn warn(console: &dyn Console, name: &str, (table, stamp): &OpenedTable) {
    for warning in warnings_of(name, (&**table, stamp.as_ref())) {
        console.warn("tables", format_args!("{warning}"));
    }
}

fn open_database(
    database: &DatabaseFile,
    checks: &EntryChecks,
) -> Result<OpenedTable, Vec<String>> {
    let path = database.path();
    let unread = |why: &str| vec![format!("cannot read {}: {why}", path.display())];
    let seen = FileIdentity::at(path);
    let (content, seen) = match (file_content::open(path), seen) {
        (Ok(content), Some(seen)) => (content, seen),
        (Err(error), _) => return Err(unread(&error.to_string())),
        (_, None) => return Err(unread("it was removed")),
    };
    // If the file was replaced in between, its stamp differs, and it is opened again.
    let stamp = Stamp::new(path, seen);
    let wrong = |why: String| format!("{}: {why}", path.display());
    let table = database.open(content).map_err(|why| vec![wrong(why.to_string())])?;
    let mistakes = if checks.accepts_all() { Vec::new() } else { unusable(&table, checks) };
    if !mistakes.is_empty() {
        return Err(mistakes.into_iter().map(wrong).collect());
    }
    Ok((table, Some(stamp)))
}

/// The first unusable entries. Damage is found at lookups.
fn unusable(database: &Database, checks: &EntryChecks) -> Vec<String> {
    let wrong = |(key, entry): (Box<str>, lookup::Entry)| {
        let written =
            EntryText { key: Some(&key), text: &entry.text, goes_on: false, so_far: None };
        checks.check_usable(&written).err().map(|why| format!("key \"{key}\": {why}"))
    };
    database.entries().map_while(Result::ok).filter_map(wrong).take(MISTAKES_MAX).collect()
}

/// At most one byte more than `bytes_max`, which the table's maker then finds too much.
fn read(path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, FileIdentity)> {
    let file = kept_open::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let most = bytes_max as u64 + 1;
    let mut content = Vec::with_capacity(usize::try_from(meta.len().min(most)).unwrap_or(0));
    file.take(most).read_to_end(&mut content)?;
    Ok((content, FileIdentity::of(&meta)))
}

/// Returns true if a file has lost so many keys that it is probably incomplete: a program that rewrites it has begun,
/// or has failed. Existing users must not be rejected for that.
pub(super) fn is_doubtful(before: &dyn Table, after: &dyn Table) -> bool {
    match (before.keys_count(), after.keys_count()) {
        (Some(before), Some(0)) => before > 0,
        (Some(before), Some(after)) => before >= FEW_KEYS && after < before / 2,
        _ => false,
    }
}
