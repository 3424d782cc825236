//! Values of parameters, names of tables, and entries of tables.

use crate::commands::migrate::report::SourceLine;
use std::path::PathBuf;

/// A parameter as it is set.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) text: String,
    pub(super) origin: SourceLine,
}

/// A parameter's value, expanded.
#[derive(Clone, Debug, Default)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) origin: SourceLine,
    /// A line sets it.
    pub(super) is_set: bool,
}

impl Parameter {
    /// Its items, separated by blanks or commas; `{ … }` is one item.
    pub(super) fn words(&self) -> Vec<String> {
        words(&self.text)
    }

    pub(super) fn is_yes(&self) -> bool {
        self.text.eq_ignore_ascii_case("yes")
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.trim().is_empty()
    }
}

/// Splits at blanks and commas outside of braces; braces around an item are kept.
pub(super) fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut depth) = (Vec::new(), String::new(), 0_u32);
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (letter == ',' || letter.is_ascii_whitespace()) {
            all.push(std::mem::take(&mut word));
        } else {
            word.push(letter);
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// Files that can't be used, and why.
pub(super) type Troubles = Vec<String>;

/// A reference to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapName {
    pub(super) kind: String,
    pub(super) name: String,
}

impl MapName {
    /// Parses `type:name`; `proxy:` has no meaning here.
    pub(super) fn parse(word: &str) -> Option<MapName> {
        let mut word = word;
        while let Some(rest) = word.strip_prefix("proxy:") {
            word = rest;
        }
        let (kind, name) = word.split_once(':')?;
        let is_kind = kind.bytes().all(|byte| byte.is_ascii_lowercase()) && !kind.is_empty();
        is_kind.then(|| MapName { kind: kind.to_owned(), name: name.to_owned() })
    }

    /// The source of a file with a key and a value on each line.
    pub(super) fn text_file(&self) -> Option<PathBuf> {
        matches!(&*self.kind, "hash" | "btree" | "lmdb" | "cdb" | "dbm" | "texthash" | "sdbm")
            .then(|| PathBuf::from(&self.name))
    }

    pub(super) fn is_pattern(&self) -> bool {
        matches!(&*self.kind, "regexp" | "pcre")
    }

    /// The last part of the name, for the table here.
    pub(super) fn short(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        let name = last.trim_end_matches(".cf").trim_matches(|c: char| !c.is_ascii_alphanumeric());
        if name.is_empty() || name.len() > 40 { self.kind.clone() } else { name.to_owned() }
    }
}

/// An entry of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MapEntry {
    pub(super) key: String,
    pub(super) value: String,
    pub(super) line: u32,
}

/// The place of an entry in a map's file.
pub(super) fn entry_origin(map: &MapName, line: u32) -> SourceLine {
    SourceLine { file: map.name.clone(), line }
}

/// The text in braces, or the text itself.
pub(super) fn inside(text: &str) -> &str {
    let text = text.trim();
    text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text).trim()
}
