//! A certificate of this server.

use super::written::KeyType;
use std::fmt;
use std::path::{Path, PathBuf};

/// Directory of certificates issued by an authority.
pub(super) fn issued(first_spool: &Path) -> PathBuf {
    first_spool.join("acme")
}

/// `[[certificate]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The names that it is shown for, at least one.
    pub names: Vec<NamePattern>,
    /// PEM: the certificate, and those above it.
    pub chain: PathBuf,
    /// PEM: its private key.
    pub key: PathBuf,
    /// Order settings if the authority of `[acme]` issues it; it may not exist yet. Chain and key are then one file.
    /// `None`: the operator supplies the files.
    pub ordered: Option<Ordered>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// Settings for ordering a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Of its key.
    pub key_type: KeyType,
    /// True if the key is kept at renewal.
    pub reuse_key: bool,
}

impl Certificate {
    /// Returns true if it is presented to clients requesting this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }
}

/// A name, or a wildcard for names one label longer (RFC 6125 §6.4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// ASCII, in lower case.
    name: Box<str>,
    is_wildcard: bool,
}

impl NamePattern {
    /// `name` is ASCII and in lower case.
    pub(super) fn new(name: &str, is_wildcard: bool) -> NamePattern {
        NamePattern { name: name.into(), is_wildcard }
    }

    /// Returns true for a wildcard.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// Returns true if this name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let name = name.strip_suffix('.').unwrap_or(name);
        if !self.is_wildcard {
            return name.eq_ignore_ascii_case(&self.name);
        }
        let rest = name.split_once('.').filter(|(label, _)| !label.is_empty());
        rest.is_some_and(|(_, parent)| parent.eq_ignore_ascii_case(&self.name))
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_wildcard {
            f.write_str("*.")?;
        }
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wildcard_stands_for_one_label() {
        let wild = NamePattern::new("example.org", true);
        assert!(wild.matches("mx.example.org") && wild.matches("MX.Example.ORG."));
        for other in ["example.org", "a.mx.example.org", ".example.org", "mxexample.org", ""] {
            assert!(!wild.matches(other), "{other}");
        }
        assert_eq!(wild.to_string(), "*.example.org");
        let plain = NamePattern::new("mx.example.org", false);
        assert!(plain.matches("mx.EXAMPLE.org") && !plain.matches("a.mx.example.org"));
    }
}
