//! Errors in files written by people.

use std::fmt;

/// Maximum number of errors reported for one file; further ones are only counted.
pub const MISTAKES_MAX: usize = 100;

/// Something wrong in a table's file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFileError {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The error as text for people; one line.
    pub text: Box<str>,
}

/// `3:14: no network has 33 bits`, to follow the name of the file.
impl fmt::Display for TableFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.text)
    }
}

/// Collects mistakes, [`MISTAKES_MAX`] at most.
#[derive(Debug, Default)]
pub(crate) struct Mistakes {
    list: Vec<TableFileError>,
    beyond: usize,
}

impl Mistakes {
    pub(crate) fn push(&mut self, (line, column): (u32, u32), text: impl Into<Box<str>>) {
        if self.list.len() < MISTAKES_MAX {
            self.list.push(TableFileError { line, column, text: text.into() });
        } else {
            self.beyond += 1;
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// In the order of the file.
    pub(crate) fn into_list(self) -> Vec<TableFileError> {
        let Mistakes { mut list, beyond } = self;
        list.sort_by_key(|mistake| (mistake.line, mistake.column));
        if let (Some(last), 1..) = (list.last(), beyond) {
            let text = format!("{beyond} more errors not listed").into();
            list.push(TableFileError { line: last.line, column: last.column, text });
        }
        list
    }
}

/// The one mistake of a file that is too large to be read.
pub(crate) fn too_large(bytes: usize, bytes_max: usize) -> Vec<TableFileError> {
    let text = format!("{bytes} bytes are too many: at most {bytes_max}");
    vec![TableFileError { line: 1, column: 1, text: text.into() }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_a_hundred_mistakes_are_counted() {
        let list = |count: u32| {
            let mut mistakes = Mistakes::default();
            (1..=count).for_each(|line| mistakes.push((line, 1), "wrong"));
            mistakes.into_list()
        };
        assert_eq!(list(100).len(), MISTAKES_MAX);
        let more = list(103);
        assert_eq!(more.len(), MISTAKES_MAX + 1);
        assert_eq!(more[100].to_string(), "100:1: 3 more errors not listed");
    }
}
