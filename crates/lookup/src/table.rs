//! Tables that answer at once.

use super::{Entry, TableFileError};
use std::fmt;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;

/// A table that is kept in this process, or in a file that is read a piece at a time. Shared by all
/// shards; a changed file makes a new table.
pub trait Table: Debug + Send + Sync {
    /// The answer for this key; `None` if the key is missing. May wait for a disk.
    ///
    /// # Errors
    /// Returns an error if the table is damaged or cannot be read.
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError>;

    /// The same without waiting; `None` if waiting would be needed.
    fn find_now(&self, key: &str) -> Option<Result<Option<Entry>, LookupError>> {
        Some(self.find(key))
    }

    /// Number of keys, if known.
    fn keys_count(&self) -> Option<u64> {
        None
    }

    /// Entries omitted at creation, to be reported to an operator.
    fn warnings(&self) -> &[TableFileError] {
        &[]
    }
}

/// One answer for each key, in their order; `None`: the table does not have it.
pub type Answers = Vec<Result<Option<Entry>, LookupError>>;

/// A pending request.
pub type Fetch<'a> = Pin<Box<dyn Future<Output = Answers> + 'a>>;

/// The driver of a server with a table. It keeps connections, and has its own timeouts for opening them. The caller
/// decides about concurrency, keys and timeout of requests.
pub trait Backend: 'static {
    /// Maximum number of keys per request.
    fn batch_max(&self) -> usize {
        1
    }

    /// Requests keys, at most [`Backend::batch_max`], each once. Dropping the request aborts it.
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a>;

    /// The server that answers now, for people; `None`: none does.
    fn server(&self) -> Option<String> {
        None
    }
}

/// An entry as it is written in a file, in a database or in the configuration.
#[derive(Clone, Copy, Debug)]
pub struct EntryText<'a> {
    /// `None`: the keys that it is for are known by a pattern or a network.
    pub key: Option<&'a str>,
    /// Its text.
    pub text: &'a str,
    /// The text continues with the match of a pattern.
    pub goes_on: bool,
    /// The table up to this entry, in a file of fixed texts.
    pub so_far: Option<&'a dyn Table>,
}

/// Finds the flaw of an entry.
pub type Judge<'a> = &'a dyn Fn(&EntryText<'_>) -> Result<(), Flaw>;

/// Something wrong with an entry, as a sentence without its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// The table can't be used with this entry.
    Unusable(String),
    /// A warning: the key has no effect.
    Key(String),
    /// A warning: the text has no effect, or defers mail.
    Text(String),
}

/// No entry has a flaw.
///
/// # Errors
/// None.
pub fn any(_: &EntryText<'_>) -> Result<(), Flaw> {
    Ok(())
}

/// Returns the reason why an entry is unusable, for tables without warnings.
///
/// # Errors
/// It is unusable.
pub fn check_usable(judge: Judge<'_>, entry: &EntryText<'_>) -> Result<(), String> {
    match judge(entry) {
        Err(Flaw::Unusable(why)) => Err(why),
        Ok(()) | Err(Flaw::Key(_) | Flaw::Text(_)) => Ok(()),
    }
}

/// The error of a failed lookup: the table may or may not have the key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupError {
    /// The kind.
    pub kind: LookupErrorKind,
    /// For people; one line, with the server's text.
    pub text: Box<str>,
}

/// Kinds of lookup errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LookupErrorKind {
    /// No server can be reached or logged in to.
    Unreachable,
    /// No answer in time.
    Timeout,
    /// The server answers with an error, or with invalid data.
    Wrong,
    /// Only this key's answer is wrong: too large, or not as the table's settings expect. The server works.
    Key,
    /// Too many questions wait already.
    Busy,
}

impl LookupError {
    /// Creates an error of this kind with this text.
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
