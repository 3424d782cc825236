//! A certificate of this server.

use super::written::KeyType;
use std::fmt;
use std::path::{Path, PathBuf};

/// Where certificates are kept that an authority issued.
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
    /// How it is ordered from the authority of `[acme]`, which may not have been done yet: chain and key
    /// are one file then. `None`: the files are the operator's.
    pub ordered: Option<Ordered>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// How a certificate is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ordered {
    /// Of its key.
    pub key_type: KeyType,
    /// Whether the key stays the same.
    pub reuse_key: bool,
}

impl Certificate {
    /// Whether it is shown to who asks for this name.
    #[must_use]
    pub fn is_for(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| pattern.matches(name))
    }
}

/// A name, or all that are one label longer (RFC 6125 §6.4.3).
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

    /// Whether it stands for many.
    #[must_use]
    pub fn is_wildcard(&self) -> bool {
        self.is_wildcard
    }

    /// Whether this name is meant.
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
