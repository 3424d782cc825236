//! Schemes of stored passwords.

use std::fmt;

/// Form of a stored password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Plain,
    Argon2,
    Bcrypt,
    ShaCrypt,
    Scram,
}

/// An error in a stored password. Its text is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// It is locked: no password is this one (crypt(5)).
    Locked,
    /// It names no scheme.
    NoScheme,
    /// A scheme that is not known here.
    Scheme(String),
    /// Invalid for its scheme.
    Form,
    /// Checking it would take too long, or too much memory.
    Cost,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::Locked => f.write_str("the account is locked"),
            Unusable::NoScheme => f.write_str("it has no scheme, for example {ARGON2ID} or $6$"),
            Unusable::Scheme(scheme) => write!(f, "unknown scheme {scheme}"),
            Unusable::Form => f.write_str("malformed for its scheme"),
            Unusable::Cost => f.write_str("too expensive to verify"),
        }
    }
}

/// Maximum length shown of a scheme's name.
const NAME_CHARS_MAX: usize = 24;

/// The scheme, and the text after its name.
pub(super) fn of(text: &str) -> Result<(Scheme, &str), Unusable> {
    let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) else {
        if is_locked(text) {
            return Err(Unusable::Locked);
        }
        return crypt(text).map(|scheme| (scheme, text)).ok_or(Unusable::NoScheme);
    };
    // Names as Dovecot has them, without regard to case.
    let scheme = match &*name.to_ascii_uppercase() {
        "PLAIN" | "CLEAR" | "CLEARTEXT" => Scheme::Plain,
        "ARGON2ID" | "ARGON2I" | "ARGON2" => Scheme::Argon2,
        "BLF-CRYPT" | "BCRYPT" => Scheme::Bcrypt,
        "SHA512-CRYPT" | "SHA256-CRYPT" => Scheme::ShaCrypt,
        "SCRAM-SHA-256" => Scheme::Scram,
        "CRYPT" if is_locked(rest) => return Err(Unusable::Locked),
        "CRYPT" => crypt(rest).ok_or(Unusable::NoScheme)?,
        _ => {
            let name = name.chars().filter(char::is_ascii_graphic).take(NAME_CHARS_MAX);
            return Err(Unusable::Scheme(name.collect()));
        }
    };
    if matches!(scheme, Scheme::Argon2 | Scheme::Bcrypt | Scheme::ShaCrypt) {
        if is_locked(rest) {
            return Err(Unusable::Locked);
        }
        // A scheme that contradicts the text is an error by the author.
        if crypt(rest) != Some(scheme) {
            return Err(Unusable::Form);
        }
    }
    Ok((scheme, rest))
}

/// Markers of locked accounts in shadow(5), with or without the old hash after them: `!`, `*`, `*LK*`, `!$6$…`. No hash
/// begins like this (crypt(5)).
fn is_locked(text: &str) -> bool {
    text.starts_with(['!', '*'])
}

/// crypt(3) forms.
fn crypt(text: &str) -> Option<Scheme> {
    let is = |starts: &[&str]| starts.iter().any(|start| text.starts_with(start));
    if is(&["$argon2id$", "$argon2i$", "$argon2d$"]) {
        Some(Scheme::Argon2)
    } else if is(&["$2a$", "$2b$", "$2x$", "$2y$"]) {
        Some(Scheme::Bcrypt)
    } else if is(&["$5$", "$6$"]) {
        Some(Scheme::ShaCrypt)
    } else {
        None
    }
}
