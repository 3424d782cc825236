//! Bind arguments of MTAs (X.411 §12.1.1): names, passwords, errors.

use crate::ber::{BerError, BerFault, Element, Tag, Writer};
use std::fmt;

/// A name that is read; X.411's bound is 32.
pub const NAME_BYTES_MAX: usize = 64;
/// A password that is read; X.411's bound is 62.
pub const PASSWORD_BYTES_MAX: usize = 128;

/// The bind operation of the MTAs, around its argument, result and error in normal mode.
const ARGUMENT: Tag = Tag::context(16);
const RESULT: Tag = Tag::context(17);
const ERROR: Tag = Tag::context(18);

/// Protocols above the session. They cannot be negotiated with a peer, only agreed beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// RTSE's normal mode over presentation and ACSE (X.419 §13.1): 1988 and later.
    Normal,
    /// RTSE's X.410 mode with the protocol of 1988: application protocol 12 (X.419 §13.2).
    X410,
    /// RTSE's X.410 mode with the protocol of 1984: application protocol 1.
    X410Of1984,
}

impl Mode {
    /// The application protocol that X.410 mode names.
    #[must_use]
    pub const fn application_protocol(self) -> Option<u32> {
        match self {
            Mode::Normal => None,
            Mode::X410 => Some(12),
            Mode::X410Of1984 => Some(1),
        }
    }
}

/// A password, which is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub Vec<u8>);

impl Password {
    /// Returns true if equal; the time does not depend on the position of a difference.
    #[must_use]
    pub fn is(&self, other: &[u8]) -> bool {
        let differences = self.0.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b));
        self.0.len() == other.len() && differences == 0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// Claimed identity of an MTA (X.411 §12.1.1): simple credentials, or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// The MTA's name; `None` binds without authentication.
    pub name: Option<String>,
    /// Its password.
    pub password: Option<Password>,
}

/// Reason for refusing a bind (X.411 §12.1.1, MTABindError).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Not now. (0)
    Busy,
    /// RTSE's `recover`, which we don't do; its own answer in either mode.
    CannotRecover,
    /// The identity or the password is wrong. (2; in X.410 mode validation failure)
    Authentication,
    /// No turns, or only with turns. (3)
    DialogueMode,
    /// (4)
    SecurityContext,
    /// (5)
    Confidentiality,
    /// Any other number.
    Other(i64),
}

impl BindError {
    /// X.411's number, in normal mode.
    const fn number(self) -> i64 {
        match self {
            BindError::Busy | BindError::CannotRecover => 0,
            BindError::Authentication => 2,
            BindError::DialogueMode => 3,
            BindError::SecurityContext => 4,
            BindError::Confidentiality => 5,
            BindError::Other(number) => number,
        }
    }

    /// RTSE's refuseReason, in X.410 mode (X.228, RefuseReason).
    #[must_use]
    pub const fn refuse_reason(self) -> i64 {
        match self {
            BindError::Busy => 0,
            BindError::CannotRecover => 1,
            BindError::Authentication | BindError::SecurityContext | BindError::Confidentiality => {
                2
            }
            BindError::DialogueMode => 3,
            BindError::Other(number) => number,
        }
    }

    /// Maps RTSE's refuseReason.
    #[must_use]
    pub const fn from_refuse_reason(number: i64) -> Self {
        match number {
            0 => BindError::Busy,
            1 => BindError::CannotRecover,
            2 => BindError::Authentication,
            3 => BindError::DialogueMode,
            other => BindError::Other(other),
        }
    }

    /// Returns true if a retry is useless until a setting is changed.
    #[must_use]
    pub const fn is_permanent(self) -> bool {
        match self {
            BindError::Busy | BindError::CannotRecover => false,
            BindError::Authentication
            | BindError::DialogueMode
            | BindError::SecurityContext
            | BindError::Confidentiality
            | BindError::Other(_) => true,
        }
    }
}

/// Content of a bind argument or result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Name and password.
    pub identity: Identity,
    /// Of another kind than a password.
    pub is_strong: bool,
}

impl Credentials {
    /// Reads the argument of a bind. The bind's own tag around it may be missing.
    ///
    /// # Errors
    /// It is none.
    pub fn read_argument(value: Element<'_>) -> Result<Self, BerError> {
        Credentials::read(value, ARGUMENT)
    }

    /// Reads the result of a bind, likewise.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn read_result(value: Element<'_>) -> Result<Self, BerError> {
        Credentials::read(value, RESULT)
    }

    fn read(value: Element<'_>, wrapper: Tag) -> Result<Self, BerError> {
        let value = if value.tag == wrapper { value.only_child()? } else { value };
        let mut found = Credentials::default();
        // CHOICE { NULL, authenticated [1] SET }
        if value.tag == Tag::NULL {
            return Ok(found);
        }
        if value.tag != Tag::context(1) {
            return Err(
                BerFault::Unexpected { found: value.tag, wanted: Tag::context(1) }.at(value.at)
            );
        }
        for field in value.children()? {
            let field = field?;
            if field.tag == Tag::context(0) {
                let name = bounded(field, NAME_BYTES_MAX)?;
                found.identity.name = Some(String::from_utf8_lossy(&name).into_owned());
            } else if field.tag == Tag::context(1) {
                let credentials = field.only_child()?;
                if credentials.is_string() {
                    found.identity.password =
                        Some(Password(bounded(credentials, PASSWORD_BYTES_MAX)?));
                } else {
                    found.is_strong = true;
                }
            }
        }
        Ok(found)
    }
}

fn bounded(string: Element<'_>, bytes_max: usize) -> Result<Vec<u8>, BerError> {
    let octets = string.octets()?;
    if octets.len() > bytes_max {
        let (length, available) = (octets.len() as u64, bytes_max as u64);
        return Err(BerFault::PastEnd { length, available }.at(string.at));
    }
    Ok(octets.into_owned())
}

/// Writes the argument of a bind.
pub fn write_argument(out: &mut Writer, mode: Mode, identity: &Identity) {
    write(out, mode, ARGUMENT, identity);
}

/// Writes the result of a bind.
pub fn write_result(out: &mut Writer, mode: Mode, identity: &Identity) {
    write(out, mode, RESULT, identity);
}

fn write(out: &mut Writer, mode: Mode, wrapper: Tag, identity: &Identity) {
    let choice = |out: &mut Writer| {
        let Some(name) = &identity.name else { return out.null(Tag::NULL) };
        out.constructed(Tag::context(1), |set| {
            set.text(Tag::context(0), name);
            // Each mode's form as other MTAs send it: 1984 knows IA5String alone.
            let tag = if mode == Mode::Normal { Tag::OCTET_STRING } else { Tag::IA5_STRING };
            let password = identity.password.as_ref().map_or(&[][..], |password| &password.0);
            set.constructed(Tag::context(1), |credentials| credentials.primitive(tag, password));
        });
    };
    if mode == Mode::Normal { out.constructed(wrapper, choice) } else { choice(out) }
}

/// Reads MTABindError. PP omits the bind's own tag.
///
/// # Errors
/// Returns an error if it is malformed.
pub fn read_error(value: Element<'_>) -> Result<BindError, BerError> {
    let value = if value.tag == ERROR { value.only_child()? } else { value };
    Ok(match value.integer()? {
        0 => BindError::Busy,
        2 => BindError::Authentication,
        3 => BindError::DialogueMode,
        4 => BindError::SecurityContext,
        5 => BindError::Confidentiality,
        other => BindError::Other(other),
    })
}

/// Writes MTABindError.
pub fn write_error(out: &mut Writer, error: BindError) {
    out.constructed(ERROR, |wrapper| wrapper.integer(Tag::INTEGER, error.number()));
}
