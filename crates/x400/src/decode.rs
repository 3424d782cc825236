//! Errors of a PDU above BER: field, error, and octet.

use crate::ber::{BerError, BerFault, Element};
use std::fmt;

/// A field that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    /// The field, by its name in the standard.
    pub field: &'static str,
    /// The error.
    pub fault: Fault,
    /// The octet of the error, from the start of the input.
    pub at: u64,
}

/// Errors of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Its encoding.
    Ber(BerFault),
    /// It is mandatory and not there.
    Missing,
    /// It is there twice.
    Repeated,
    /// An unknown field.
    Unknown,
    /// More elements than this.
    TooMany(usize),
    /// More octets than this.
    TooLong(usize),
    /// A value that the field can't have.
    Value(&'static str),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Ber(fault) => fault.fmt(f),
            Fault::Missing => f.write_str("is missing"),
            Fault::Repeated => f.write_str("occurs twice"),
            Fault::Unknown => f.write_str("unknown field"),
            Fault::TooMany(max) => write!(f, "more than {max}"),
            Fault::TooLong(max) => write!(f, "longer than {max} octets"),
            Fault::Value(what) => f.write_str(what),
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (octet {})", self.field, self.fault, self.at)
    }
}

impl std::error::Error for DecodeError {}

impl Fault {
    /// This fault of that field.
    #[must_use]
    pub const fn of(self, field: &'static str, at: u64) -> DecodeError {
        DecodeError { field, fault: self, at }
    }
}

/// Says which field it was that could not be read.
pub(crate) trait InField<T> {
    fn field(self, field: &'static str) -> Result<T, DecodeError>;
}

impl<T> InField<T> for Result<T, BerError> {
    fn field(self, field: &'static str) -> Result<T, DecodeError> {
        self.map_err(|error| DecodeError { field, fault: Fault::Ber(error.fault), at: error.at })
    }
}

/// Reads the elements of a list of at most `max`.
pub(crate) fn list<T>(
    element: &Element<'_>,
    field: &'static str,
    max: usize,
    decode: impl Fn(&Element<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let mut all = Vec::new();
    for item in element.children().field(field)? {
        let item = item.field(field)?;
        if all.len() >= max {
            return Err(Fault::TooMany(max).of(field, item.at));
        }
        all.push(decode(&item)?);
    }
    Ok(all)
}

/// Sets a value that must not be set yet.
pub(crate) fn once<T>(
    place: &mut Option<T>,
    value: T,
    field: &'static str,
    at: u64,
) -> Result<(), DecodeError> {
    if place.is_some() {
        return Err(Fault::Repeated.of(field, at));
    }
    *place = Some(value);
    Ok(())
}
