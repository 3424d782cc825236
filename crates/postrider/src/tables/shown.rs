//! Tables in `postrider table list` and `get`.

use super::registry::{Live, LiveTable, Registry, ShardTables, TableSource};
use super::remote::{Health, Remote};
use crate::limited_work::on_a_thread;
use config::TableEntry;
use lookup::{Cached, Entry};
use mta::answer::Answer;
use mta::commands::{NodeAnswer, TableFlush, TableGet};
use mta::control::{ControlResponse, TableAnswer, TableItem, TableSnapshot, TableStep};
use mta::seams::{EntryLookup, Tables};
use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Lists tables and their state, on a separate thread, since files are checked and one may hang.
pub(crate) fn list(registry: &Arc<Registry>, answer: NodeAnswer) {
    let live = registry.live();
    let list = move || {
        let tables = live.values();
        answer.items(tables.map(|table| ControlResponse::Table(Box::new(item(table)))));
    };
    // Without a thread the reply is dropped, which the client observes.
    let _ = on_a_thread(list);
}

/// Looks up a key for an operator, on a separate thread, since a server may be queried.
pub(crate) fn get(registry: &Arc<Registry>, TableGet { table, key }: TableGet, answer: NodeAnswer) {
    let live = registry.live();
    let found = match find(&live, &table) {
        Ok(found) => found,
        Err(unknown) => return answer.not_found(unknown),
    };
    let (registry, entry) = (Arc::clone(registry), Arc::clone(&found.entry));
    let look_up = move || match look_up(registry, &entry, &key) {
        Ok(found) => answer.items([ControlResponse::TableAnswer(Box::new(found))]),
        Err(why) => answer.not_found(why),
    };
    // Without a thread the reply is dropped, which the client observes.
    let _ = on_a_thread(look_up);
}

/// Flushes the cache of a table.
pub(crate) fn flush(
    registry: &Arc<Registry>,
    TableFlush { table, key }: TableFlush,
    answer: NodeAnswer,
) {
    let live = registry.live();
    match find(&live, &table).and_then(|found| forget(found, key.as_deref())) {
        Ok(text) => answer.told(Ok(text)),
        Err(why) => answer.not_found(why),
    }
}

fn find<'a>(live: &'a Live, name: &str) -> Result<&'a LiveTable, String> {
    live.get(name).ok_or_else(|| {
        let names: Vec<&str> = live.keys().map(|name| &**name).collect();
        match names.as_slice() {
            [] => "no tables configured".to_owned(),
            names => format!("unknown table {name}; configured: {}", names.join(", ")),
        }
    })
}

fn item(table: &LiveTable) -> TableItem {
    let entry = &table.entry;
    let shown = TableItem {
        name: entry.name.to_string(),
        kind: entry.kind.to_owned(),
        ..TableItem::default()
    };
    match &table.source {
        TableSource::Composed => {
            let parts: Vec<&str> = entry.parts.iter().map(|part| &*part.name).collect();
            TableItem { source: parts.join(", "), ..shown }
        }
        TableSource::Local { table: local, stamp, .. } => {
            let trouble = stamp.as_ref().filter(|stamp| !stamp.is_current());
            let trouble = trouble.map(|_| "the file has changed but is not read yet".to_owned());
            TableItem { source: file_of(table), keys: local.keys_count(), trouble, ..shown }
        }
        TableSource::Snapshot(snapshot, _) => {
            let status = snapshot.status();
            TableItem {
                source: status.server.clone().unwrap_or_default(),
                keys: Some(status.entries),
                trouble: snapshot.trouble(),
                snapshot: Some(status),
                ..shown
            }
        }
        TableSource::Remote(remote) => {
            let status = remote.status();
            let trouble = match &status.health {
                Health::Well => None,
                Health::Troubled { since, why, .. } => Some(format!("since {since}: {why}")),
            };
            let source = status.server.clone().unwrap_or_default();
            TableItem { source, trouble, remote: serde_json::to_value(&status).ok(), ..shown }
        }
    }
}

/// The file that a table was made of.
fn file_of(table: &LiveTable) -> String {
    table.path().map_or("the configuration".to_owned(), |path| path.display().to_string())
}

fn forget(table: &LiveTable, key: Option<&str>) -> Result<String, String> {
    let name = &table.entry.name;
    let TableSource::Remote(remote) = &table.source else {
        return Err(format!("table {name} has no cache: its entries are local"));
    };
    let key = key.map(|key| mta::tables::rewritten(&table.entry, key));
    Ok(match key {
        Some(key) if remote.forget(&key) => format!("cached answer for {key} dropped"),
        Some(key) => format!("no cached answer for {key}"),
        None => match remote.flush() {
            1 => "1 answer dropped".to_owned(),
            count => format!("{count} answers dropped"),
        },
    })
}

fn look_up(
    registry: Arc<Registry>,
    entry: &Arc<TableEntry>,
    key: &str,
) -> Result<TableAnswer, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|error| format!("cannot look it up: {error}"))?;
    let traced = TracedTables::new(registry);
    let found = runtime.block_on(mta::tables::find(&traced, entry, key).get());
    let (found, trouble) = match found {
        Ok(found) => (found, None),
        Err(trouble) => (None, Some(trouble.to_string())),
    };
    let (value, fields) =
        found.map_or((None, Vec::new()), |entry| (Some(entry.text.to_string()), fields_of(&entry)));
    let steps = traced.steps();
    let (table, key) = (entry.name.to_string(), key.to_owned());
    Ok(TableAnswer { table, key, value, fields, trouble, steps })
}

fn fields_of(entry: &Entry) -> Vec<(String, Vec<String>)> {
    let values = |values: &[Box<str>]| values.iter().map(ToString::to_string).collect();
    entry.fields.iter().map(|(name, of)| (name.to_string(), values(of))).collect()
}

/// Tables that record lookups and answers.
#[derive(Clone)]
pub(crate) struct TracedTables {
    tables: ShardTables,
    steps: Rc<RefCell<Vec<TableStep>>>,
}

impl TracedTables {
    pub(crate) fn new(registry: Arc<Registry>) -> TracedTables {
        TracedTables { tables: ShardTables::new(registry), steps: Rc::default() }
    }

    /// The lookups recorded since the last call.
    pub(crate) fn steps(&self) -> Vec<TableStep> {
        self.steps.take()
    }
}

impl Tables for TracedTables {
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup {
        let from = self.tables.live().get(&table.name).map_or_else(String::new, |live| match &live
            .source
        {
            TableSource::Remote(remote) => from_of(remote, key),
            TableSource::Snapshot(snapshot, _) => from_snapshot(&snapshot.status()),
            TableSource::Local { .. } | TableSource::Composed => file_of(live),
        });
        let (table_name, key_text) = (table.name.to_string(), key.to_owned());
        let steps = Rc::clone(&self.steps);
        self.tables.find(table, key).then(move |found| {
            let said = match &found {
                Ok(Some(entry)) => entry.text.to_string(),
                Ok(None) => "key not found".to_owned(),
                Err(trouble) => format!("lookup failed: {trouble}"),
            };
            steps.borrow_mut().push(TableStep { table: table_name, key: key_text, from, said });
            Answer::Now(found)
        })
    }

    fn list(&self, directory: &Path, file: &Path) -> EntryLookup {
        self.tables.list(directory, file)
    }
}

/// The copy that answers.
fn from_snapshot(status: &TableSnapshot) -> String {
    let server = status.server.as_deref().unwrap_or("the directory");
    format!("the snapshot of {server} ({status})")
}

/// The source of a remote table's answer.
fn from_of(remote: &Remote, key: &str) -> String {
    let server = remote.status().server.unwrap_or_else(|| "the server".to_owned());
    match remote.known(key) {
        Cached::Fresh(_, age) => format!("the cache, {} s old", age.as_secs()),
        Cached::Stale(_, age) => format!("{server}; else the cache, {} s old", age.as_secs()),
        Cached::Missing => server,
    }
}
