//! Tables that are made of files, and made anew when these change.

use super::registry::Registry;
use crate::file_stamp::{LOOK_EVERY, Seen, Stamp};
use crate::mapped_file;
use channels::DatabaseFile;
use config::{Config, TableEntry};
use lookup::Table;
use mta::console::Console;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::thread;

/// A table, and the file that it was made of.
pub(super) type Opened = (Arc<dyn Table>, Option<Stamp>);

/// Makes a table that is kept in this process.
///
/// # Errors
/// Each mistake in one sentence, those of a file with its name, line and column.
pub(super) fn open(entry: &TableEntry) -> Result<Opened, Vec<String>> {
    if let Some(database) = entry.settings.of::<DatabaseFile>() {
        return open_database(database).map_err(|mistake| vec![mistake]);
    }
    let Some(local) = channels::local(&*entry.settings) else {
        return Err(vec![format!("nobody answers for tables of the kind `{}`", entry.kind)]);
    };
    let sentences = |mistakes: Vec<lookup::Mistake>, at: &str| {
        mistakes.into_iter().map(|mistake| format!("{at}:{mistake}")).collect::<Vec<_>>()
    };
    let Some(path) = local.path() else {
        let table = local.make(&[]).map_err(|mistakes| sentences(mistakes, entry.kind))?;
        return Ok((table, None));
    };
    let at = path.display().to_string();
    let (content, seen) = read(path, local.file_bytes_max())
        .map_err(|error| vec![format!("cannot read {at}: {error}")])?;
    let table = local.make(&content).map_err(|mistakes| sentences(mistakes, &at))?;
    Ok((table, Some(Stamp::new(path, seen))))
}

/// What was left out of the files of tables, or is hardly meant, each in a sentence. Files that can't be read are
/// left to the start.
pub(crate) fn warnings(config: &Config) -> Vec<String> {
    let files = config.tables.iter().filter(|entry| {
        channels::local(&*entry.settings).is_some_and(|local| local.path().is_some())
    });
    let opened = files.filter_map(|entry| Some((&entry.name, open(entry).ok()?)));
    opened.flat_map(|(name, opened)| warnings_of(name, &opened)).collect()
}

fn warnings_of(name: &str, (table, stamp): &Opened) -> Vec<String> {
    let path = stamp.as_ref().map_or(Path::new(""), Stamp::path).display();
    let sentence = |warning| format!("table {name}: {path}:{warning}");
    table.warnings().iter().map(sentence).collect()
}

/// Logs them.
pub(super) fn warn(console: &dyn Console, name: &str, opened: &Opened) {
    for warning in warnings_of(name, opened) {
        console.warn("tables", format_args!("{warning}"));
    }
}

fn open_database(database: &DatabaseFile) -> Result<Opened, String> {
    let path = database.path();
    let seen = Seen::at(path);
    let (bytes, seen) = match (mapped_file::open(path), seen) {
        (Ok(bytes), Some(seen)) => (bytes, seen),
        (Err(error), _) => return Err(format!("cannot read {}: {error}", path.display())),
        (_, None) => return Err(format!("cannot read {}: it has gone", path.display())),
    };
    // It may have been replaced in between: what was seen then differs, and it is opened anew.
    let stamp = Stamp::new(path, seen);
    let table = database.open(bytes).map_err(|why| format!("{}: {why}", path.display()))?;
    Ok((table, Some(stamp)))
}

/// At most one byte more than `bytes_max`, which the table's maker then finds too much.
fn read(path: &Path, bytes_max: usize) -> io::Result<(Vec<u8>, Seen)> {
    let file = File::open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let most = bytes_max as u64 + 1;
    let mut content = Vec::with_capacity(usize::try_from(meta.len().min(most)).unwrap_or(0));
    file.take(most).read_to_end(&mut content)?;
    Ok((content, Seen::of(&meta)))
}

/// Looks at the files for as long as the registry lives.
///
/// # Errors
/// When the system gives no thread.
pub(super) fn watch(registry: &Arc<Registry>) -> io::Result<()> {
    let registry = Arc::downgrade(registry);
    thread::Builder::new().name("table-files".to_owned()).spawn(move || look_on(&registry))?;
    Ok(())
}

fn look_on(registry: &Weak<Registry>) {
    // What was seen of files that are not what a table was made of.
    let mut changed: BTreeMap<Arc<str>, Change> = BTreeMap::new();
    loop {
        thread::sleep(LOOK_EVERY);
        let Some(registry) = registry.upgrade() else { return };
        look(&registry, &mut changed);
    }
}

/// A file that is not what a table was made of.
struct Change {
    seen: Option<Seen>,
    /// It was read, and is wrong: that was said.
    is_refused: bool,
}

fn look(registry: &Registry, changed: &mut BTreeMap<Arc<str>, Change>) {
    for (name, table) in registry.live().iter() {
        let Some(stamp) = table.stamp() else { continue };
        let seen = Seen::at(stamp.path());
        if stamp.is(seen) {
            changed.remove(name);
            continue;
        }
        match changed.get_mut(name) {
            Some(change) if change.seen == seen && change.is_refused => {}
            Some(change) if change.seen == seen => {
                change.is_refused = !remake(registry, name, &table.entry, stamp);
            }
            _ => {
                changed.insert(Arc::clone(name), Change { seen, is_refused: false });
            }
        }
    }
}

/// Makes a table anew; whether it could be made.
fn remake(registry: &Registry, name: &str, entry: &TableEntry, before: &Stamp) -> bool {
    let console: &dyn Console = registry.console();
    match open(entry) {
        Ok((table, Some(stamp))) => {
            let opened = (table, Some(stamp));
            warn(console, name, &opened);
            let (table, Some(stamp)) = opened else { return true };
            let (path, keys_count) = (before.path().display(), table.keys_count());
            // First: what is told counts.
            registry.replace(name, before, table, stamp);
            match keys_count {
                Some(count) => console
                    .info("tables", format_args!("table {name}: {path} read anew keys={count}")),
                None => console.info("tables", format_args!("table {name}: {path} read anew")),
            }
            true
        }
        Ok((_, None)) => true,
        Err(mistakes) => {
            for mistake in mistakes {
                let text = format_args!("table {name} stays as it was: {mistake}");
                console.error("tables", text);
            }
            false
        }
    }
}
