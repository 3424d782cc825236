//! Errors of an encoding.

use super::{NESTING_MAX, Tag};
use std::fmt;

/// An error and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BerError {
    /// The error.
    pub fault: BerFault,
    /// The octet where the element or the value concerned begins, from 0.
    pub at: u64,
}

/// Errors of an encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BerFault {
    /// The octets end within an identifier or a length.
    HeaderCut,
    /// A tag number over 32 bits.
    TagNumber,
    /// A length of more than 8 octets or over 63 bits, or the reserved first octet FF.
    Length,
    /// A length beyond the available octets, or beyond the end of the enclosing element.
    PastEnd {
        /// The length as encoded.
        length: u64,
        /// Number of available octets.
        available: u64,
    },
    /// An indefinite length without an end.
    NeverClosed,
    /// An indefinite length on a primitive element.
    IndefinitePrimitive,
    /// End-of-contents octets without an open element, or with a length.
    StrayEnd,
    /// Nested deeper than [`NESTING_MAX`].
    TooDeep,
    /// Another element than the one that must be here.
    Unexpected {
        /// The tag found.
        found: Tag,
        /// The tag expected.
        wanted: Tag,
    },
    /// A required element is missing.
    Missing {
        /// The expected tag, if it is a single one.
        wanted: Option<Tag>,
    },
    /// Unexpected trailing octets.
    Trailing,
    /// Primitive where it must be constructed.
    NotConstructed,
    /// Constructed where it must be primitive.
    NotPrimitive,
    /// A segment of a constructed string that is not a string.
    Segment {
        /// The tag found.
        found: Tag,
    },
    /// An integer without octets.
    Integer,
    /// An integer outside the range of the field.
    IntegerRange,
    /// A boolean that is not one octet.
    Boolean,
    /// A NULL with contents.
    Null,
    /// A bit string without its first octet, or with more than 7 unused bits.
    BitString,
    /// An object identifier that is empty, ends within a component or has one over 64 bits.
    Oid,
}

impl BerFault {
    /// This fault at that octet.
    #[must_use]
    pub const fn at(self, at: u64) -> BerError {
        BerError { fault: self, at }
    }
}

impl fmt::Display for BerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BerFault::HeaderCut => f.write_str("ends within an identifier or a length"),
            BerFault::TagNumber => f.write_str("a tag number over 32 bits"),
            BerFault::Length => f.write_str("an invalid length"),
            BerFault::PastEnd { length, available } => {
                write!(f, "a length of {length} octets where there are {available}")
            }
            BerFault::NeverClosed => f.write_str("an indefinite length that is never closed"),
            BerFault::IndefinitePrimitive => {
                f.write_str("an indefinite length on a primitive element")
            }
            BerFault::StrayEnd => f.write_str("end-of-contents octets where nothing ends"),
            BerFault::TooDeep => write!(f, "nested deeper than {NESTING_MAX} levels"),
            BerFault::Unexpected { found, wanted } => write!(f, "{found} instead of {wanted}"),
            BerFault::Missing { wanted: Some(wanted) } => write!(f, "{wanted} is missing"),
            BerFault::Missing { wanted: None } => f.write_str("an element is missing"),
            BerFault::Trailing => f.write_str("more than one element where one must be alone"),
            BerFault::NotConstructed => f.write_str("primitive where it must be constructed"),
            BerFault::NotPrimitive => f.write_str("constructed where it must be primitive"),
            BerFault::Segment { found } => write!(f, "{found} as a segment of a string"),
            BerFault::Integer => f.write_str("an integer without octets"),
            BerFault::IntegerRange => f.write_str("an integer out of its range"),
            BerFault::Boolean => f.write_str("a boolean that is not one octet"),
            BerFault::Null => f.write_str("a NULL with contents"),
            BerFault::BitString => f.write_str("a bit string with a wrong number of unused bits"),
            BerFault::Oid => f.write_str("a malformed object identifier"),
        }
    }
}

impl fmt::Display for BerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (octet {})", self.fault, self.at)
    }
}

impl std::error::Error for BerError {}
