//! Lines of files that people write, word by word, with the places where words begin.

use std::fmt;
use std::path::Path;

/// Something wrong in a file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputFileError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong; one line.
    pub text: String,
}

impl fmt::Display for InputFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
    }
}

/// A mistake within a line: the octet where it is, and what it is.
pub type WordError = (usize, String);

/// A line.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    /// From 1.
    pub number: usize,
    /// Without its end.
    pub text: &'a str,
}

/// The lines of a text that are neither empty nor begin with `comment`.
pub fn lines(text: &str, comment: char) -> impl Iterator<Item = Line<'_>> {
    let all = (1..).zip(text.lines()).map(|(number, text)| Line { number, text: text.trim_end() });
    all.filter(move |line| {
        let words = line.text.trim_start();
        !words.is_empty() && !words.starts_with(comment)
    })
}

impl Line<'_> {
    /// The mistake, with its place.
    #[must_use]
    pub fn wrong(&self, file: &Path, (at, text): WordError) -> InputFileError {
        let column = self.text.get(..at).unwrap_or(self.text).chars().count() + 1;
        InputFileError { file: file.display().to_string(), line: self.number, column, text }
    }
}

/// The words of a line.
#[derive(Debug)]
pub struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// All of them.
    #[must_use]
    pub fn new(line: &'a str) -> Words<'a> {
        let mut words = Words { line, at: 0 };
        words.skip_space();
        words
    }

    fn skip_space(&mut self) {
        let rest = &self.line[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// The next word and where it begins; `what`: what it should be.
    ///
    /// # Errors
    /// When there is none.
    pub fn next(&mut self, what: &str) -> Result<(usize, &'a str), WordError> {
        let start = self.at;
        let rest = &self.line[start..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        if end == 0 {
            return Err((start, format!("the line ends where {what} is wanted")));
        }
        self.at += end;
        self.skip_space();
        Ok((start, &rest[..end]))
    }

    /// All that is left, and where it begins.
    #[must_use]
    pub fn rest(&self) -> (usize, &'a str) {
        (self.at, &self.line[self.at..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_places() {
        let text = "# no\n\n  one two  three four \n";
        let line = lines(text, '#').next().unwrap();
        assert_eq!(line.number, 3);
        let mut words = Words::new(line.text);
        assert_eq!(words.next("a word"), Ok((2, "one")));
        assert_eq!(words.next("a word"), Ok((6, "two")));
        assert_eq!(words.rest(), (11, "three four"));
        let _ = (words.next("a word"), words.next("a word"));
        let wrong = words.next("a fifth word").unwrap_err();
        let told = line.wrong(Path::new("f"), wrong).to_string();
        assert_eq!(told, "f:3:22: the line ends where a fifth word is wanted");
        let umlaut = Line { number: 1, text: "éé x" };
        assert_eq!(umlaut.wrong(Path::new("f"), (5, String::new())).column, 4);
    }
}
