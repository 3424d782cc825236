//! The configuration that a migration writes, as sections in the order of the file.

use std::fmt::Write as _;

/// A string of TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            letter if letter.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(letter));
            }
            letter => out.push(letter),
        }
    }
    out + "\""
}

/// A list of strings.
pub(super) fn list<T: AsRef<str>>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", items.join(", "))
}

/// A reference to a table.
pub(super) fn table(name: &str) -> String {
    format!("{{ table = {} }}", quoted(name))
}

/// Keys with their rendered values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys(Vec<(String, String)>);

impl Keys {
    pub(super) fn new() -> Keys {
        Keys::default()
    }

    /// Sets a key to a rendered value; a later value replaces an earlier one.
    pub(super) fn set(&mut self, key: &str, value: impl Into<String>) -> &mut Keys {
        let value = value.into();
        match self.0.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.0.push((key.to_owned(), value)),
        }
        self
    }

    pub(super) fn text(&mut self, key: &str, value: &str) -> &mut Keys {
        self.set(key, quoted(value))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds the keys of another one.
    pub(super) fn extend(&mut self, other: &Keys) -> &mut Keys {
        for (key, value) in &other.0 {
            self.set(key, value.clone());
        }
        self
    }

    /// As a table on one line.
    pub(super) fn inline(&self) -> String {
        if self.0.is_empty() {
            return "{}".to_owned();
        }
        let pairs: Vec<String> =
            self.0.iter().map(|(key, value)| format!("{} = {value}", bare(key))).collect();
        format!("{{ {} }}", pairs.join(", "))
    }

    fn lines(&self) -> String {
        self.0
            .iter()
            .fold(String::new(), |text, (key, value)| format!("{text}{} = {value}\n", bare(key)))
    }
}

/// A key, quoted if it must be.
fn bare(key: &str) -> String {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    match !key.is_empty() && key.bytes().all(is_bare) {
        true => key.to_owned(),
        false => quoted(key),
    }
}

/// A section of the file.
#[derive(Clone, Debug)]
struct NewSection {
    title: String,
    keys: Keys,
}

/// A file beside the configuration.
#[derive(Clone, Debug)]
pub(super) struct MadeFile {
    pub(super) name: String,
    pub(super) content: String,
    pub(super) is_secret: bool,
}

/// The whole configuration.
#[derive(Debug, Default)]
pub(super) struct NewConfig {
    pub(super) top: Keys,
    sections: Vec<NewSection>,
    tables: Vec<NewSection>,
    pub(super) files: Vec<MadeFile>,
}

impl NewConfig {
    /// Adds a section, `"[retry]"` or `"[[route]]"`.
    pub(super) fn section(&mut self, title: &str, keys: Keys) {
        self.sections.push(NewSection { title: title.to_owned(), keys });
    }

    /// Adds a table, and returns its name. The same kind and source is one table.
    pub(super) fn table(&mut self, name: &str, kind: &str, source: &str) -> String {
        let same = |section: &&NewSection| section.keys.get(kind) == Some(source);
        if let Some(section) = self.tables.iter().find(same) {
            return section.keys.get("name").unwrap_or_default().trim_matches('"').to_owned();
        }
        let name = self.free_name(name);
        let mut keys = Keys::new();
        keys.text("name", &name).set(kind, source);
        self.tables.push(NewSection { title: "[[table]]".to_owned(), keys });
        name
    }

    fn free_name(&self, name: &str) -> String {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        let name: String =
            name.chars().map(|letter| if is_plain(letter) { letter } else { '-' }).collect();
        let is_taken =
            |name: &str| self.tables.iter().any(|one| one.keys.get("name") == Some(&quoted(name)));
        let further = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.clone()).chain(further);
        all.find(|name| !is_taken(name)).unwrap_or(name)
    }

    /// Adds a table of these pairs.
    pub(super) fn inline_table(&mut self, name: &str, pairs: &[(String, String)]) -> String {
        let mut keys = Keys::new();
        for (key, value) in pairs {
            keys.set(key, quoted(value));
        }
        self.table(name, "inline", &keys.inline())
    }

    /// The text of the file.
    pub(super) fn text(&self, heading: &str) -> String {
        let mut text = format!("{heading}\n{}", self.top.lines());
        // Tables may refer to tables above them only.
        for section in self.sections.iter().chain(&self.tables) {
            let _ = write!(text, "\n{}\n{}", section.title, section.keys.lines());
        }
        text
    }
}
