//! Tables that answer at once.

use super::{Entry, TableFileError};
use std::fmt;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// A table that is kept in this process, or in a file that is read a piece at a time. Shared by all
/// shards; a changed file makes a new table.
pub trait Table: Debug + Send + Sync {
    /// What it says of this key; `None`: it does not have it. May wait for a disk.
    ///
    /// # Errors
    /// The table is damaged, or can't be read.
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError>;

    /// The same, if nobody has to be waited for; else `None`.
    fn find_now(&self, key: &str) -> Option<Result<Option<Entry>, LookupError>> {
        Some(self.find(key))
    }

    /// How many keys it has, where that can be told.
    fn keys_count(&self) -> Option<u64> {
        None
    }

    /// What was left out when it was made, for people to be told.
    fn warnings(&self) -> &[TableFileError] {
        &[]
    }
}

/// One answer for each key, in their order; `None`: the table does not have it.
pub type Answers = Vec<Result<Option<Entry>, LookupError>>;

/// A request that is under way.
pub type Fetch<'a> = Pin<Box<dyn Future<Output = Answers> + 'a>>;

/// A driver of a server that has a table. It keeps its own connections and has timeouts of its own
/// for opening them; how many requests are under way at once, which keys they have and how long they
/// may take is decided by whoever calls it.
pub trait Backend: 'static {
    /// How many keys one request may have.
    fn batch_max(&self) -> usize {
        1
    }

    /// Asks for keys, at most [`Backend::batch_max`], each once. Dropping the request gives it up.
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a>;

    /// The server that answers now, for people; `None`: none does.
    fn server(&self) -> Option<String> {
        None
    }
}

/// An entry as it is written in a file, in a database or in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryText<'a> {
    /// `None`: the keys that it is for are known by a pattern or a network.
    pub key: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
    /// The text goes on with what a pattern has matched.
    pub goes_on: bool,
}

/// Says why an entry can't be used, as a sentence without its end.
pub type Judge<'a> = &'a dyn Fn(&EntryText<'_>) -> Result<(), String>;

/// All entries can be used.
///
/// # Errors
/// None.
pub fn any(_: &EntryText<'_>) -> Result<(), String> {
    Ok(())
}

/// Why there is no answer: nothing is known about the key, neither that the table has it nor that it
/// has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupError {
    /// Of what kind.
    pub kind: LookupErrorKind,
    /// For people; one line, with the server's own words.
    pub text: Box<str>,
}

/// What kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupErrorKind {
    /// No server can be reached, or none lets us in.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// The server answers with an error, or with what is no answer.
    Wrong,
    /// This key's answer alone is wrong: too much of it, or not what the table's settings expect. The
    /// server is well.
    Key,
    /// Too many questions wait already.
    Busy,
}

impl LookupError {
    /// Of this kind, in these words.
    #[must_use]
    pub fn new(kind: LookupErrorKind, text: impl Into<Box<str>>) -> LookupError {
        LookupError { kind, text: text.into() }
    }

    /// The same, with the server's name before it.
    #[must_use]
    pub fn of(&self, server: &dyn fmt::Display) -> LookupError {
        LookupError::new(self.kind, format!("{server}: {self}"))
    }
}

impl fmt::Display for LookupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for LookupError {}
