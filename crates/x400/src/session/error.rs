//! Breaches of the session protocol.

use super::{PARAMETERS_MAX, SPDU_BYTES_MAX};
use std::fmt;

/// A TSDU that is none of X.225.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionError {
    /// A TSDU without octets, or one that ends within an SPDU.
    Cut,
    /// An SPDU over [`SPDU_BYTES_MAX`].
    TooLong,
    /// An identifier that no SPDU has, or none of our functional units.
    Unknown(u8),
    /// An SPDU where its category may not stand, or more behind one that must be last.
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
    /// DATA that goes on where nothing began, or begins where something is open.
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
