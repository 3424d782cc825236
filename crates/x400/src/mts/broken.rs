//! An envelope that could not be read completely: the readable fields often suffice for a report.

use super::{ContentType, MtsIdentifier, Recipient, TraceElement};
use crate::decode::{DecodeError, Fault};
use crate::or_name::OrName;
use std::fmt;

/// The readable fields of a message or a probe with a malformed envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The first error.
    pub error: DecodeError,
    /// Its identifier.
    pub identifier: Option<MtsIdentifier>,
    /// Its originator.
    pub originator: Option<OrName>,
    /// The type of its content.
    pub content_type: Option<ContentType>,
    /// The domains it passed.
    pub trace: Vec<TraceElement>,
    /// The recipients that could be read.
    pub recipients: Vec<Recipient>,
}

impl Broken {
    /// Returns true if a report is possible: the originator and the subject are known.
    #[must_use]
    pub fn is_reportable(&self) -> bool {
        self.identifier.is_some() && self.originator.is_some() && !self.recipients.is_empty()
    }

    /// Returns true if it has more recipients than accepted.
    #[must_use]
    pub fn has_too_many_recipients(&self) -> bool {
        self.error.field == super::fields::RECIPIENTS_FIELD
            && matches!(self.error.fault, Fault::TooMany(_))
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Broken {}
