//! What is wrong in a file of rules.

use std::fmt;

/// Mistakes that are told of all files together.
pub const MISTAKES_MAX: usize = 100;

/// Something wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The file, as it was named.
    pub file: Box<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// What is wrong, for people; one line.
    pub text: Box<str>,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
    }
}
