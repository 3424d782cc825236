//! Results of operations (RFC 4511 §4.1.9).

use crate::ber::{BerReader, ENUMERATED, Malformed, OCTETS};
use std::fmt;

/// Maximum number of characters shown of a server's message.
const WORDS_MAX: usize = 300;

/// Result codes with a meaning for clients (RFC 4511 appendix A).
pub mod code {
    /// All is well.
    pub const SUCCESS: i32 = 0;
    /// The server took too long.
    pub const TIME_LIMIT_EXCEEDED: i32 = 3;
    /// There are more entries than were wanted, or than the server gives.
    pub const SIZE_LIMIT_EXCEEDED: i32 = 4;
    /// Another server has the entry.
    pub const REFERRAL: i32 = 10;
    /// A limit that the server's administrator set.
    pub const ADMIN_LIMIT_EXCEEDED: i32 = 11;
    /// A control that must be understood is not.
    pub const UNAVAILABLE_CRITICAL_EXTENSION: i32 = 12;
    /// A rule of the server's administrator is broken; where passwords are checked: the account is locked.
    pub const CONSTRAINT_VIOLATION: i32 = 19;
    /// There is no entry of this name.
    pub const NO_SUCH_OBJECT: i32 = 32;
    /// The name of an entry is malformed.
    pub const INVALID_DN_SYNTAX: i32 = 34;
    /// The entry can't be bound as so: it has no password.
    pub const INAPPROPRIATE_AUTHENTICATION: i32 = 48;
    /// Name or password is wrong.
    pub const INVALID_CREDENTIALS: i32 = 49;
    /// Retry later.
    pub const BUSY: i32 = 51;
    /// Retry later: the server, or a subsystem, is down.
    pub const UNAVAILABLE: i32 = 52;
    /// The server will not.
    pub const UNWILLING_TO_PERFORM: i32 = 53;
    /// The server cannot compute changes since this cookie (RFC 4533 §2.6).
    pub const SYNC_REFRESH_REQUIRED: i32 = 4096;
}

/// The result of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// One of [`code`], or another.
    pub code: i32,
    /// The server's diagnostic message; often empty.
    pub text: String,
}

impl Outcome {
    /// All is well.
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.code == code::SUCCESS
    }

    /// Reads the three elements common to all results; the caller reads the rest.
    pub(crate) fn read(reader: &mut BerReader<'_>) -> Result<Outcome, Malformed> {
        let code = reader.number(ENUMERATED)?;
        reader.expect(OCTETS)?;
        Ok(Outcome { code, text: reader.text(OCTETS)? })
    }

    /// The code's name in RFC 4511.
    fn name(&self) -> &'static str {
        match self.code {
            0 => "success",
            1 => "operationsError",
            2 => "protocolError",
            3 => "timeLimitExceeded",
            4 => "sizeLimitExceeded",
            7 => "authMethodNotSupported",
            8 => "strongerAuthRequired",
            10 => "referral",
            11 => "adminLimitExceeded",
            12 => "unavailableCriticalExtension",
            13 => "confidentialityRequired",
            14 => "saslBindInProgress",
            16 => "noSuchAttribute",
            17 => "undefinedAttributeType",
            18 => "inappropriateMatching",
            19 => "constraintViolation",
            21 => "invalidAttributeSyntax",
            32 => "noSuchObject",
            33 => "aliasProblem",
            34 => "invalidDNSyntax",
            36 => "aliasDereferencingProblem",
            48 => "inappropriateAuthentication",
            49 => "invalidCredentials",
            50 => "insufficientAccessRights",
            51 => "busy",
            52 => "unavailable",
            53 => "unwillingToPerform",
            54 => "loopDetect",
            80 => "other",
            _ => "code",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name(), self.code)?;
        let printable = self.text.chars().take(WORDS_MAX);
        let words: String = printable.map(|c| if c.is_control() { ' ' } else { c }).collect();
        let words = words.trim();
        if words.is_empty() { Ok(()) } else { write!(f, ": {words}") }
    }
}
