//! Values of recipients' entries in settings: `quota = "{quota}"`. The entry is in the table of the route's recipients.

use config::{TableEntry, Values};
use mail::Mailbox;
use mta::seams::{Endpoint, Tables};
use mta::tables::{self, FoundAddress, NoEntry};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

/// Values that a route's settings may refer to.
#[derive(Debug, Default)]
pub(crate) struct ValueNames<'a> {
    /// The table and its names. `None` if the route has no `recipients`.
    table: Option<(&'a str, Vec<&'a str>)>,
}

impl<'a> ValueNames<'a> {
    /// The values of this table's entries, if a table is given.
    pub(crate) fn of(table: Option<&'a TableEntry>) -> ValueNames<'a> {
        ValueNames { table: table.map(|table| (&*table.name, table.value_names())) }
    }

    /// The values of a table with these names.
    #[cfg(test)]
    pub(crate) fn some(names: &[&'a str]) -> ValueNames<'a> {
        ValueNames { table: Some(("t", names.to_vec())) }
    }

    /// Returns true if the entries have a value of this name. Names are case-insensitive, as in LDAP.
    pub(crate) fn has(&self, name: &str) -> bool {
        let names = self.table.as_ref().map(|(_, names)| names);
        names.is_some_and(|names| names.iter().any(|known| known.eq_ignore_ascii_case(name)))
    }
}

/// Lists the names, for people.
impl fmt::Display for ValueNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((table, names)) = &self.table else {
            return f.write_str("placeholders need recipients = { table = \"…\" }");
        };
        if names.is_empty() {
            return write!(f, "the tables of \"{table}\" have no value in common");
        }
        let names: Vec<String> = names.iter().map(|name| format!("{{{name}}}")).collect();
        write!(f, "entries of table \"{table}\" have {}", names.join(", "))
    }
}

/// The table of a route's recipients, for settings that refer to values.
#[derive(Clone, Debug)]
pub(crate) struct EntryTable(pub(crate) Arc<TableEntry>);

impl PartialEq for EntryTable {
    fn eq(&self, other: &EntryTable) -> bool {
        self.0.is_like(&other.0)
    }
}

impl EntryTable {
    /// The current entry of a recipient.
    ///
    /// # Errors
    /// The recipient is no longer in the table, or the table gives no answer.
    pub(crate) async fn entry_of<T: Tables + Clone>(
        &self,
        tables: &T,
        recipient: &Mailbox,
    ) -> Result<FoundAddress, NoEntry> {
        tables::entry_of(tables, &self.0, recipient).await
    }
}

/// Error of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueError {
    /// The recipient's entry does not have it.
    Missing(String),
    /// The value is unusable; with the end of an error message.
    Bad(String, String),
}

impl ValueError {
    /// An error of the value of this name, with a description.
    pub(crate) fn bad(name: &str, why: impl Into<String>) -> ValueError {
        ValueError::Bad(name.to_owned(), why.into())
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueError::Missing(name) => write!(f, "the recipient's entry has no `{name}`"),
            ValueError::Bad(name, why) => write!(f, "`{name}` of the recipient's entry {why}"),
        }
    }
}

/// The only value of this name.
///
/// # Errors
/// It is missing, or has several values. Their order is undefined in LDAP, so none can be preferred.
pub(crate) fn one<'v>(values: Values<'_, 'v>, name: &str) -> Result<&'v str, ValueError> {
    match values(name) {
        [] => Err(ValueError::Missing(name.to_owned())),
        [value] => Ok(value),
        several => Err(ValueError::bad(name, format!("has {} values", several.len()))),
    }
}

/// A setting: fixed for all recipients, or the name of a value in each recipient's entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Setting<T> {
    Fixed(T),
    Value(Box<str>),
}

impl<T> Setting<T> {
    /// The fixed setting.
    pub(crate) fn fixed(&self) -> Option<&T> {
        match self {
            Setting::Fixed(setting) => Some(setting),
            Setting::Value(_) => None,
        }
    }

    /// The name of the value.
    pub(crate) fn value(&self) -> Option<&str> {
        match self {
            Setting::Fixed(_) => None,
            Setting::Value(name) => Some(name),
        }
    }
}

/// The name in `{name}`. `None` for any other text.
///
/// # Errors
/// The name is unknown; the text lists the known ones.
pub(crate) fn named<'t>(text: &'t str, names: &ValueNames<'_>) -> Option<Result<&'t str, String>> {
    let name = text.strip_prefix('{')?.strip_suffix('}')?;
    Some(if names.has(name) { Ok(name) } else { Err(names.to_string()) })
}

/// Permitted forms, for people.
pub(crate) const HELP: &str =
    "write an IP address and port, for example \"127.0.0.1:10023\", or \"unix:\" and a path";

/// Parses an IP address and port, or `unix:` and the path of a socket.
pub(crate) fn read(text: &str) -> Option<Endpoint> {
    match text.strip_prefix("unix:") {
        Some("") => None,
        Some(path) => Some(Endpoint::Unix(Arc::from(Path::new(path)))),
        None => text.parse::<SocketAddr>().ok().map(Endpoint::Tcp),
    }
}
