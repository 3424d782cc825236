//! The session protocol (X.225), as far as RTSE uses it: half-duplex, minor synchronize, activity
//! management and exceptions (X.228 §8.1), with basic concatenation.
//!
//! [`TsduReader`] finds SPDUs in TSDUs that come in pieces, and passes the user information of DATA on as
//! it comes. [`Spdu::encode`] writes a whole TSDU: an SPDU of category 2 behind its GIVE TOKENS or PLEASE
//! TOKENS (§6.3.7, table 8).

mod encode;
mod parameters;
mod parse;
mod reader;
mod spdu;

pub use reader::{SessionItem, TsduReader};
pub use spdu::{Accept, Connect, ExceptionReason, Reference, Refuse, RefuseReason, Serial, Spdu};
use std::fmt;

/// The functional units: half-duplex, minor synchronize, activity management, exceptions.
pub const REQUIREMENTS: u16 = 0x0249;
/// Default requirements (§8.3.1.16): those of [`REQUIREMENTS`] and capability data.
pub const REQUIREMENTS_UNSAID: u16 = 0x0349;
/// Protocol version 2, as a bit of the version parameter.
pub const VERSION_2: u8 = 2;
/// Protocol version 1.
pub const VERSION_1: u8 = 1;
/// Maximum length of an SPDU other than DATA, header included.
pub const SPDU_BYTES_MAX: usize = 65_536;
/// Parameters in one SPDU.
pub const PARAMETERS_MAX: usize = 64;
/// User data of CONNECT in its first form, PI 193 (§8.3.1.20); above that PI 194.
pub const CONNECT_DATA_BYTES_MAX: usize = 512;
/// User data of CONNECT in its second form, PI 194.
pub const CONNECT_EXTENDED_BYTES_MAX: usize = 10_240;
/// An activity identifier.
pub const ACTIVITY_ID_BYTES_MAX: usize = 6;
/// The highest serial number of a synchronization point (§8.3.26).
pub const SERIAL_MAX: u32 = 999_999;

/// SPDU identifiers (§8.3). Some have two meanings, by the position in the TSDU.
mod si {
    /// EXCEPTION REPORT, of the provider.
    pub(super) const EXCEPTION_REPORT: u8 = 0;
    /// GIVE TOKENS as the first of a TSDU, DATA after it.
    pub(super) const GIVE_TOKENS_OR_DATA: u8 = 1;
    pub(super) const PLEASE_TOKENS: u8 = 2;
    pub(super) const NOT_FINISHED: u8 = 8;
    pub(super) const FINISH: u8 = 9;
    pub(super) const DISCONNECT: u8 = 10;
    pub(super) const REFUSE: u8 = 12;
    pub(super) const CONNECT: u8 = 13;
    pub(super) const ACCEPT: u8 = 14;
    pub(super) const GIVE_TOKENS_CONFIRM: u8 = 21;
    pub(super) const GIVE_TOKENS_ACK: u8 = 22;
    /// ABORT alone, ACTIVITY INTERRUPT after GIVE TOKENS.
    pub(super) const ABORT_OR_INTERRUPT: u8 = 25;
    /// ABORT ACCEPT alone, ACTIVITY INTERRUPT ACK after PLEASE TOKENS.
    pub(super) const ABORT_ACCEPT_OR_INTERRUPT_ACK: u8 = 26;
    pub(super) const ACTIVITY_RESUME: u8 = 29;
    pub(super) const ACTIVITY_END: u8 = 41;
    pub(super) const ACTIVITY_END_ACK: u8 = 42;
    pub(super) const ACTIVITY_START: u8 = 45;
    pub(super) const EXCEPTION_DATA: u8 = 48;
    pub(super) const MINOR_SYNC: u8 = 49;
    pub(super) const MINOR_SYNC_ACK: u8 = 50;
    pub(super) const ACTIVITY_DISCARD: u8 = 57;
    pub(super) const ACTIVITY_DISCARD_ACK: u8 = 58;
}

/// Parameter identifiers and parameter group identifiers (§8.3).
mod pi {
    /// PGI: connection identifier.
    pub(super) const CONNECTION: u8 = 1;
    /// PGI: connect/accept item.
    pub(super) const CONNECT_ITEM: u8 = 5;
    pub(super) const CALLED_REFERENCE: u8 = 9;
    pub(super) const CALLING_REFERENCE: u8 = 10;
    pub(super) const COMMON_REFERENCE: u8 = 11;
    pub(super) const ADDITIONAL_REFERENCE: u8 = 12;
    pub(super) const SYNC_TYPE: u8 = 15;
    pub(super) const TOKEN_ITEM: u8 = 16;
    pub(super) const TRANSPORT_DISCONNECT: u8 = 17;
    pub(super) const PROTOCOL_OPTIONS: u8 = 19;
    pub(super) const REQUIREMENTS: u8 = 20;
    pub(super) const VERSION: u8 = 22;
    pub(super) const ENCLOSURE: u8 = 25;
    pub(super) const TOKEN_SETTING: u8 = 26;
    /// PGI: linking information of ACTIVITY RESUME.
    pub(super) const LINKING: u8 = 33;
    pub(super) const ACTIVITY_ID: u8 = 41;
    pub(super) const SERIAL: u8 = 42;
    pub(super) const REASON: u8 = 50;
    pub(super) const CALLING_SELECTOR: u8 = 51;
    pub(super) const CALLED_OR_RESPONDING_SELECTOR: u8 = 52;
    pub(super) const DATA_OVERFLOW: u8 = 60;
    pub(super) const USER_DATA: u8 = 193;
    pub(super) const EXTENDED_USER_DATA: u8 = 194;
}

/// A TSDU that violates X.225.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// A TSDU without octets, or one that ends within an SPDU.
    Cut,
    /// An SPDU over [`SPDU_BYTES_MAX`].
    TooLong,
    /// An unknown identifier, or one of an unsupported functional unit.
    Unknown(u8),
    /// An SPDU in a position not allowed for its category, or more after one that must be last.
    Concatenation(u8),
    /// A parameter that is cut or has another length than it must.
    Parameter {
        /// The SPDU's identifier.
        si: u8,
        /// The parameter's.
        pi: u8,
    },
    /// A parameter that must be there is not.
    Missing {
        /// The SPDU's identifier.
        si: u8,
        /// The parameter's.
        pi: u8,
    },
    /// More than [`PARAMETERS_MAX`].
    Parameters(u8),
    /// DATA that continues without a beginning, or begins while an SSDU is open.
    Enclosure,
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Cut => f.write_str("a TSDU that ends within an SPDU"),
            SessionError::TooLong => write!(f, "an SPDU over {SPDU_BYTES_MAX} octets"),
            SessionError::Unknown(si) => write!(f, "SPDU {si}, which is not used here"),
            SessionError::Concatenation(si) => write!(f, "SPDU {si} in a wrong place of its TSDU"),
            SessionError::Parameter { si, pi } => {
                write!(f, "parameter {pi} of SPDU {si} is broken")
            }
            SessionError::Missing { si, pi } => write!(f, "parameter {pi} of SPDU {si} is missing"),
            SessionError::Parameters(si) => {
                write!(f, "SPDU {si} has over {PARAMETERS_MAX} parameters")
            }
            SessionError::Enclosure => f.write_str("a segment of data that doesn't belong there"),
        }
    }
}

impl std::error::Error for SessionError {}
