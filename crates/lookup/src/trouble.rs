//! Why a table gives no answer.

use std::fmt;

/// Why there is no answer: nothing is known about the key, neither that the table has it nor that it
/// has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Of what kind.
    pub kind: TroubleKind,
    /// For people; one line, with the server's own words.
    pub text: Box<str>,
}

/// What kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TroubleKind {
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

impl Trouble {
    /// Of this kind, in these words.
    #[must_use]
    pub fn new(kind: TroubleKind, text: impl Into<Box<str>>) -> Trouble {
        Trouble { kind, text: text.into() }
    }

    /// The same, with the server's name before it.
    #[must_use]
    pub fn of(&self, server: &dyn fmt::Display) -> Trouble {
        Trouble::new(self.kind, format!("{server}: {self}"))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Trouble {}
