//! The text as TOML: positions of all keys and values.

use super::problem::Problem;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use toml::de::{DeTable, DeValue};

/// A file's text and the places of its keys and values.
///
/// A path names a value: `listener[0].relay_from[1]`.
#[derive(Clone)]
pub(super) struct Document {
    file: Arc<str>,
    text: Arc<str>,
    places: BTreeMap<String, Range<usize>>,
    /// Offsets of line ends, in order: lines are looked up for many thousands of keys.
    line_ends: Vec<usize>,
}

/// Without the text, which contains passwords of peers.
impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Document").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Document {
    /// A file without the places of its keys and values.
    pub(super) fn new(file: Arc<str>, text: Arc<str>) -> Document {
        let line_ends = text.match_indices('\n').map(|(at, _)| at).collect();
        Document { file, text, places: BTreeMap::new(), line_ends }
    }

    /// The file's name.
    #[must_use]
    pub(super) fn file(&self) -> &Arc<str> {
        &self.file
    }

    /// The text.
    #[must_use]
    pub(super) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// Position of the value at `path`; `None` for a default.
    #[must_use]
    pub(super) fn span(&self, path: &str) -> Option<Range<usize>> {
        self.places.get(path).cloned()
    }

    /// The line of the value at `path`, from 1; `None` when it is a default.
    #[must_use]
    pub(super) fn line(&self, path: &str) -> Option<u32> {
        self.places.get(path).map(|span| self.place_of(span.start).0)
    }

    /// The keys that the file sets in the table at `at` and in tables below it, in their order, each with its path and
    /// its value as it is written.
    pub(super) fn keys_below(&self, at: &str) -> Vec<(&str, String)> {
        let mut keys: Vec<(&String, &Range<usize>)> = self
            .below(at)
            // Entries of a list are part of its value.
            .filter(|(path, _)| !path.ends_with(']') && !self.has_keys(path))
            .collect();
        keys.sort_by_key(|(_, span)| span.start);
        keys.into_iter().map(|(path, span)| (path.as_str(), self.written(path, span))).collect()
    }

    /// The values in the table at `at`.
    fn below(&self, at: &str) -> impl Iterator<Item = (&String, &Range<usize>)> {
        let prefix = format!("{at}.");
        let from = self.places.range(prefix.clone()..);
        from.take_while(move |(path, _)| path.starts_with(&prefix))
    }

    /// Returns true if the value at `path` is a table with keys, or a list of tables.
    fn has_keys(&self, path: &str) -> bool {
        self.below(path).next().is_some() || self.below(&format!("{path}[0]")).next().is_some()
    }

    /// The value at `path` in one line, as it is written but for the quotes of a text.
    fn written(&self, path: &str, span: &Range<usize>) -> String {
        let entries: Vec<String> = (0..)
            .map_while(|index| self.places.get(&format!("{path}[{index}]")))
            .map(|span| self.slice(span))
            .collect();
        let text = self.slice(span);
        let is_key = path.rsplit('.').next() == Some(text.as_str());
        match entries.is_empty() {
            false => entries.join(", "),
            // The place of a table is its key.
            true if is_key => "{}".to_owned(),
            true => text,
        }
    }

    fn slice(&self, span: &Range<usize>) -> String {
        let text = self.text.get(span.clone()).unwrap_or_default();
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let inner = line.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        inner.filter(|inner| !inner.contains('"')).map(str::to_owned).unwrap_or(line)
    }

    /// The line of a byte offset, from 1, and where it starts.
    fn place_of(&self, offset: usize) -> (u32, usize) {
        let before = self.line_ends.partition_point(|end| *end < offset);
        let start = before.checked_sub(1).map_or(0, |last| self.line_ends[last] + 1);
        (u32::try_from(before + 1).unwrap_or(u32::MAX), start)
    }

    /// A problem with the value at `path`, or, if it is not in the file, with the section it
    /// would stand in.
    #[must_use]
    pub(super) fn problem(&self, path: &str, fatal: bool, message: String, help: &str) -> Problem {
        let mut path = path;
        let span = loop {
            if let Some(span) = self.span(path) {
                break span;
            }
            match path.rfind(['.', '[']) {
                Some(at) => path = &path[..at],
                None => break 0..0,
            }
        };
        self.problem_at(span, fatal, message, help)
    }

    /// A problem with these bytes of the text.
    #[must_use]
    pub(super) fn problem_at(
        &self,
        span: Range<usize>,
        fatal: bool,
        message: String,
        help: &str,
    ) -> Problem {
        let (line, start) = self.place_of(span.start);
        let before = self.text.get(start..span.start).unwrap_or_default();
        let column = u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX);
        let help = (!help.is_empty()).then(|| help.to_owned());
        Problem { fatal, message, help, span: self.first_line(span), line, column }
    }

    /// Messages about a table point to its first line only.
    fn first_line(&self, span: Range<usize>) -> Range<usize> {
        let text = self.text.get(span.clone()).unwrap_or("");
        let len = text.find('\n').unwrap_or(text.len());
        span.start..span.start + text[..len].trim_end().len()
    }

    /// A problem that the library found.
    pub(super) fn toml_problem(&self, error: &toml::de::Error) -> Problem {
        let end = self.text.len();
        self.problem_at(error.span().unwrap_or(end..end), true, error.message().to_owned(), "")
    }

    /// Records the positions of all values in the table at `path`.
    pub(super) fn walk_table(&mut self, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = child(path, key.get_ref());
            let span = match value.get_ref() {
                // Tables and arrays of tables are pointed at by their key.
                DeValue::Table(_) => key.span(),
                DeValue::Array(items) if items.iter().any(|i| i.get_ref().is_table()) => key.span(),
                _ => value.span(),
            };
            self.places.insert(path.clone(), span);
            self.walk_value(&path, value.get_ref());
        }
    }

    fn walk_value(&mut self, path: &str, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.walk_table(path, table),
            DeValue::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.places.insert(path.clone(), item.span());
                    self.walk_value(&path, item.get_ref());
                }
            }
            _ => {}
        }
    }
}

/// The path of `key` inside the table at `path`.
pub(super) fn child(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
