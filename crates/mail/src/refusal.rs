//! Refusals, independent of a protocol: each protocol converts them, SMTP into a [`Reply`].

use crate::{EnhancedStatus, Reply};
use std::borrow::Cow;
use std::fmt;

/// Consequence of a refusal for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusalClass {
    /// It may be accepted later.
    Transient,
    /// It will never be accepted.
    Permanent,
    /// As `Transient`, and the session ends.
    Closing,
}

/// A refusal by this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The class, which decides about retries.
    pub class: RefusalClass,
    /// The subject (RFC 3463 §3).
    pub status: EnhancedStatus,
    /// For people; one line.
    pub text: Cow<'static, str>,
    /// The SMTP reply code, if one of this class was configured.
    pub chosen_code: Option<u16>,
}

impl Refusal {
    /// A temporary refusal. `(subject, detail)` are the last two parts of the status.
    #[must_use]
    pub const fn transient((subject, detail): (u16, u16), text: &'static str) -> Refusal {
        Refusal {
            class: RefusalClass::Transient,
            status: EnhancedStatus::new(4, subject, detail),
            text: Cow::Borrowed(text),
            chosen_code: None,
        }
    }

    /// A permanent refusal.
    #[must_use]
    pub const fn permanent((subject, detail): (u16, u16), text: &'static str) -> Refusal {
        Refusal {
            class: RefusalClass::Permanent,
            status: EnhancedStatus::new(5, subject, detail),
            text: Cow::Borrowed(text),
            chosen_code: None,
        }
    }

    /// The same refusal with this SMTP reply code of its class.
    #[must_use]
    pub const fn with_code(mut self, code: u16) -> Refusal {
        self.chosen_code = Some(code);
        self
    }

    /// The same refusal, also ending the session. The status class becomes 4; a permanent refusal is repeated at the
    /// next attempt.
    #[must_use]
    pub fn closing(self) -> Refusal {
        let status = EnhancedStatus { class: 4, ..self.status };
        Refusal { class: RefusalClass::Closing, status, ..self }
    }

    /// The code of a reply (RFC 5321 §4.2.3): the chosen one, or the default for its class and status.
    #[must_use]
    pub fn code(&self) -> u16 {
        if let Some(code) = self.chosen_code.filter(|_| self.class != RefusalClass::Closing) {
            return code;
        }
        match (self.class, self.status.subject, self.status.detail) {
            (RefusalClass::Closing, ..) => 421,
            (RefusalClass::Transient, 2, 2) | (RefusalClass::Transient, 3, 1) => 452,
            (RefusalClass::Transient, 5, 3) => 452,
            (RefusalClass::Transient, 1 | 2 | 7, _) => 450,
            (RefusalClass::Transient, ..) => 451,
            (RefusalClass::Permanent, 2, 2 | 3) | (RefusalClass::Permanent, 3, 4) => 552,
            (RefusalClass::Permanent, 1 | 2 | 7, _) => 550,
            (RefusalClass::Permanent, ..) => 554,
        }
    }
}

impl From<Refusal> for Reply {
    /// The SMTP reply. The text of a 421 begins with the server's name (RFC 5321 §4.2.2), which the session adds.
    fn from(refusal: Refusal) -> Reply {
        Reply { code: refusal.code(), enhanced: Some(refusal.status), text: refusal.text }
    }
}

/// `4.3.1 The queue is full`: for logs.
impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.status, self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_follows_from_class_and_status() {
        let transient = |status| Refusal::transient(status, "no").code();
        assert_eq!([(3, 0), (3, 2), (4, 0)].map(transient), [451; 3]);
        assert_eq!([(3, 1), (5, 3), (2, 2)].map(transient), [452; 3]);
        assert_eq!([(7, 1), (2, 0), (1, 8)].map(transient), [450; 3]);
        let permanent = |status| Refusal::permanent(status, "no").code();
        assert_eq!([(7, 1), (1, 1), (1, 2), (2, 1)].map(permanent), [550; 4]);
        assert_eq!([(3, 4), (2, 2)].map(permanent), [552; 2]);
        assert_eq!([(4, 6), (6, 0)].map(permanent), [554; 2]);
        let chosen = Refusal { chosen_code: Some(553), ..Refusal::permanent((7, 1), "not yours") };
        assert_eq!((chosen.code(), chosen.closing().code()), (553, 421));
    }

    #[test]
    fn a_closing_refusal_is_421_and_transient_whatever_it_was() {
        let reply = Reply::from(Refusal::permanent((7, 1), "go away").closing());
        assert_eq!(reply.to_string(), "421 4.7.1 go away");
        let refusal = Refusal::transient((3, 2), "Too many sessions");
        assert_eq!(refusal.to_string(), "4.3.2 Too many sessions");
        assert_eq!(Reply::from(refusal.closing()).to_string(), "421 4.3.2 Too many sessions");
    }
}
