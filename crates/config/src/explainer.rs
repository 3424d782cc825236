//! Takes the steps of an explanation, and finds the line that decided each.

use super::document::Document;
use ipnet::IpNet;
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

/// The origin of a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// File and line.
    Line(String),
    /// The key is not in the file.
    Default,
    /// The program, by a rule of the protocol.
    Rule(&'static str),
    /// The DNS.
    Dns,
    /// A lookup table: its name, or where its answer was had.
    Table(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Line(line) => f.write_str(line),
            Origin::Default => f.write_str("default"),
            Origin::Rule(rule) => f.write_str(rule),
            Origin::Dns => f.write_str("DNS"),
            Origin::Table(table) => f.write_str(table),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// One thing that is decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedDecision {
    /// The subject: `route`, `channel`, `max_connections`, …
    pub what: String,
    /// The value.
    pub value: String,
    /// The origin of the value.
    pub decided_by: Origin,
}

/// Takes the steps of an explanation.
#[derive(Debug)]
pub struct Explainer<'a> {
    document: &'a Document,
    /// The section currently explained by its owner.
    pub(super) section: String,
    pub(super) steps: Vec<ExplainedDecision>,
    /// Values of the recipient's entry.
    pub(super) values: Option<&'a [NamedValues]>,
    /// The keys of the file, by their paths, that steps show.
    shown: RefCell<BTreeSet<String>>,
}

/// A name and the values that an entry has by it.
pub type NamedValues = (Box<str>, Box<[Box<str>]>);

/// Values that were looked up to be shown, by name; names are without regard to case.
pub fn values_in<'v>(known: Option<&'v [NamedValues]>) -> impl Fn(&str) -> &'v [Box<str>] {
    move |name: &str| {
        let mut known = known.into_iter().flatten();
        let found = known.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map_or(&[], |(_, values)| values)
    }
}

impl<'a> Explainer<'a> {
    /// For a configuration that was read from this document.
    pub(super) fn new(document: &'a Document) -> Explainer<'a> {
        let (steps, shown) = (Vec::new(), RefCell::default());
        Explainer { document, section: String::new(), steps, values: None, shown }
    }

    /// A key of the owner's section, its value, and the line that sets it.
    pub fn own_key(&mut self, key: &str, value: String) {
        let origin = self.origin(&format!("{}.{key}", self.section));
        self.step(key, value, origin);
    }

    /// Values of the recipient's entry in its route's table of recipients, by name; `None` without a lookup or an
    /// entry.
    #[must_use]
    pub fn values(&self) -> Option<&'a [NamedValues]> {
        self.values
    }

    /// The same for a limit; 0 means no limit.
    pub fn own_limit(&mut self, key: &str, limit: u32) {
        let value = if limit == 0 { "no limit".to_owned() } else { limit.to_string() };
        self.own_key(key, value);
    }

    /// The same for networks, if any.
    pub fn own_networks(&mut self, key: &str, networks: &[IpNet]) {
        if !networks.is_empty() {
            let networks: Vec<String> = networks.iter().map(ToString::to_string).collect();
            self.own_key(key, networks.join(", "));
        }
    }

    /// Something that was decided.
    pub(super) fn step(
        &mut self,
        what: impl Into<String>,
        value: impl Into<String>,
        decided_by: Origin,
    ) {
        self.steps.push(ExplainedDecision { what: what.into(), value: value.into(), decided_by });
    }

    /// A value of a section, with the line that sets it.
    pub(super) fn key(&mut self, section: &str, key: &str, value: String) {
        let origin = self.origin(&format!("{section}.{key}"));
        self.step(key, value, origin);
    }

    /// `postrider.toml:17`, or that the key is not in the file. A step shows that key.
    pub(super) fn origin(&self, path: &str) -> Origin {
        match self.document.line(path) {
            Some(line) => {
                self.shown.borrow_mut().insert(path.to_owned());
                Origin::Line(format!("{}:{line}", self.document.file()))
            }
            None => Origin::Default,
        }
    }

    /// The keys that the file sets in the owner's section, and that no step shows yet.
    pub(super) fn other_keys(&mut self) {
        for (path, value) in self.document.keys_below(&self.section) {
            if !self.is_shown(path) {
                let key = path.strip_prefix(&*self.section).unwrap_or(path);
                self.step(key.trim_start_matches('.'), value, self.origin(path));
            }
        }
    }

    /// Returns true if a step shows this key, or an entry of its list.
    fn is_shown(&self, path: &str) -> bool {
        let shown = self.shown.borrow();
        shown.contains(path) || {
            let entries = format!("{path}[");
            let mut from = shown.range(entries.clone()..);
            from.next().is_some_and(|other| other.starts_with(&entries))
        }
    }
}
