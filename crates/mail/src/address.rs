//! Mailboxes and domains as values; parsing of wire paths (RFC 5321 §4.1.2, RFC 6531 §3.3).

use std::fmt;
use std::sync::Arc;

/// A domain, an address literal in brackets, or empty for the bare `<postmaster>`: normalised to
/// lower case (ASCII and, for U-labels, Unicode lower case), cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

/// `local@domain` as it was given; only comparison of domains folds case.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mailbox {
    text: Box<str>,
    /// Where the `@` stands; `text.len()` for the bare `postmaster`.
    at: u32,
}

/// What is wrong with an address, with the byte offset where it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// For people, without the address itself.
    pub reason: &'static str,
    /// Byte offset into the text that was parsed.
    pub offset: usize,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.reason, self.offset + 1)
    }
}

impl std::error::Error for AddressError {}

impl Domain {
    /// Parses and normalises a domain name or an address literal.
    ///
    /// # Errors
    /// When it is neither (RFC 5321 §4.1.2, §4.5.3.1.2).
    pub fn parse(_text: &str) -> Result<Domain, AddressError> {
        todo!()
    }

    /// The normalised text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form that DNS is asked for: A-labels (RFC 5890).
    ///
    /// # Errors
    /// When a U-label is not valid IDNA.
    pub fn to_ascii(&self) -> Result<String, AddressError> {
        todo!()
    }

    /// Whether it is an address literal such as `[192.0.2.1]`; the address when it is one we know.
    #[must_use]
    pub fn literal(&self) -> Option<std::net::IpAddr> {
        todo!()
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Mailbox {
    /// Parses what stands between `<` and `>` of a path, or a bare address; a source route
    /// (`@a,@b:user@c`) is read and dropped (RFC 5321 §4.1.1.3). `postmaster` alone is valid.
    ///
    /// # Errors
    /// Where the grammar of RFC 5321 §4.1.2 or a length of §4.5.3.1 is broken, or a non-ASCII
    /// byte appears without `smtputf8`.
    pub fn parse(_text: &str, _smtputf8: bool) -> Result<Mailbox, AddressError> {
        todo!()
    }

    /// The whole address as given (without brackets or source route).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part as given, quotes included.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.text[..self.at as usize]
    }

    /// The domain as given (case kept), empty for bare `postmaster`.
    #[must_use]
    pub fn domain_str(&self) -> &str {
        self.text.get(self.at as usize + 1..).unwrap_or("")
    }

    /// The domain, normalised.
    #[must_use]
    pub fn domain(&self) -> Domain {
        todo!()
    }

    /// Some character is not ASCII: delivery needs SMTPUTF8.
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.text.is_ascii()
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
