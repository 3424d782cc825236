//! Values of standard extensions (X.411, MTSAbstractService, the table of extensions): relayed values must be readable
//! by the next MTA. Values of security extensions are signed or sealed by other parties, so only their elements are
//! checked.

use super::extension::{Extension, ExtensionKind, Extensions, NameAndTime, redirection};
use super::trace::{decode_internal, decode_trace, list};
use super::{GlobalDomain, MTA_NAME_BYTES_MAX, UtcTime, fields};
use crate::ber::{Element, Reader, Tag};
use crate::decode::{DecodeError, Fault, InField};
use crate::or_name::OrName;

const FIELD: &str = "extension value";

impl Extensions {
    /// Checks values of defined syntax.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        self.0.iter().try_for_each(Extension::check)
    }
}

impl Extension {
    fn check(&self) -> Result<(), DecodeError> {
        // Without a value it is NULL, or has its default.
        let (ExtensionKind::Standard(number), Some(value)) = (&self.kind, &self.value) else {
            return Ok(());
        };
        check(*number, &Reader::new(value).any().field(FIELD)?)
    }
}

fn check(number: u32, value: &Element<'_>) -> Result<(), DecodeError> {
    match number {
        // Prohibitions and requests. Some write them as INTEGER.
        1 | 3 | 4 | 21 | 22 => {
            is_one_of(value, &[Tag::ENUMERATED, Tag::INTEGER])?;
            value.integer().field(FIELD).map(|_| ())
        }
        // Physical delivery: no relaying MTA reads it, and senders use their own types. Any element is accepted.
        6..=14 => Ok(()),
        // An alternate, a list.
        2 | 27 | 31 => OrName::decode(value).map(|_| ()),
        5 => UtcTime::decode(value, FIELD).map(|_| ()),
        // A correlator.
        23 if !value.is_string() => Err(Fault::Value("no string").of(FIELD, value.at)),
        23 => value.octets().field(FIELD).map(|_| ()),
        25 => list(value, FIELD, redirection).map(|_| ()),
        26 | 30 => list(value, FIELD, NameAndTime::decode).map(|_| ()),
        37 => decode_trace(value).map(|_| ()),
        38 => decode_internal(value).map(|_| ()),
        39 => reporting_mta(value),
        // Names of recipients that a list is not expanded to.
        42 => list(value, FIELD, OrName::decode).map(|_| ()),
        _ => Ok(()),
    }
}

fn is_one_of(value: &Element<'_>, tags: &[Tag]) -> Result<(), DecodeError> {
    match tags.contains(&value.tag) {
        true => Ok(()),
        false => Err(Fault::Value("another type than X.411 gives it").of(FIELD, value.at)),
    }
}

/// X.411 §8.3.1.2.1.13, ReportingMTAName.
fn reporting_mta(value: &Element<'_>) -> Result<(), DecodeError> {
    let mut parts = value.children().field(FIELD)?;
    GlobalDomain::decode(&parts.any().field(FIELD)?)?;
    fields::text(&parts.any().field(FIELD)?, FIELD, MTA_NAME_BYTES_MAX).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mts::Flags;

    fn is_right(number: u32, value: &[u8]) -> bool {
        let kind = ExtensionKind::Standard(number);
        let value = Some(bytes::Bytes::copy_from_slice(value));
        Extensions(vec![Extension { kind, criticality: Flags::default(), value }]).check().is_ok()
    }

    #[test]
    fn values_have_the_types_of_the_standard() {
        let time = b"\x17\x0d261122070000Z";
        let rows: &[(u32, &[u8], &[u8])] = &[
            (1, b"\x0a\x01\x01", b"\x04\x01\x01"),
            (3, b"\x02\x01\x00", b"\x30\x00"),
            (2, b"\x60\x08\x30\x06\x61\x04\x13\x02GB", b"\x60\x02\x05\x00"),
            (5, time, b"\x17\x0d261322070000Z"),
            (23, b"\x16\x01a", b"\x02\x01\x01"),
            (25, b"\x30\x00", b"\x30\x02\x05\x00"),
            (26, b"\x30\x00", b"\x30\x03\x02\x01\x01"),
            (38, b"\x30\x00", b"\x30\x03\x02\x01\x01"),
            (39, b"\x30\x11\x63\x0c\x61\x04\x13\x02GB\x62\x04\x13\x02AT\x16\x01a", b"\x30\x00"),
            (42, b"\x31\x00", b"\x31\x02\x05\x00"),
        ];
        for (number, right, wrong) in rows {
            assert!(is_right(*number, right), "{number}");
            assert!(!is_right(*number, wrong), "{number}");
        }
        // What others have sealed, what no edition has yet, and what only physical delivery reads.
        for number in [15, 18, 46, 47].into_iter().chain(6..=14) {
            for value in [&b"\x04\x01x"[..], b"\x02\x01\x00", b"\x30\x00"] {
                assert!(is_right(number, value), "{number}");
            }
        }
    }
}
