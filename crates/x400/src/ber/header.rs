//! Identifier and length octets (X.690 §8.1.2, §8.1.3).

use super::{BerFault, Class, Tag};

/// Identifier and length of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub tag: Tag,
    pub constructed: bool,
    /// `None` is indefinite.
    pub length: Option<u64>,
    /// Number of octets of identifier and length.
    pub bytes: usize,
}

/// `None` is indefinite.
type Length = Option<u64>;

/// The octets that an identifier and a length have at most: a tag number of 5 groups and a
/// length of 8 octets.
pub(super) const HEADER_BYTES_MAX: usize = 1 + 5 + 1 + 8;

impl Header {
    /// These two octets end an indefinite length.
    pub(super) fn is_end(&self) -> bool {
        self.tag == Tag::universal(0)
    }

    /// Reads the header at the front of these octets; `None` when they end within it.
    pub(super) fn parse(octets: &[u8]) -> Result<Option<Header>, BerFault> {
        let Some((&first, rest)) = octets.split_first() else { return Ok(None) };
        let class = match first >> 6 {
            0 => Class::Universal,
            1 => Class::Application,
            2 => Class::Context,
            _ => Class::Private,
        };
        let constructed = first & 0x20 != 0;
        let (number, rest) = match first & 0x1F {
            0x1F => match long_number(rest)? {
                Some(found) => found,
                None => return Ok(None),
            },
            low => (u32::from(low), rest),
        };
        let tag = Tag { class, number };
        // Exactly two octets 00 (§8.1.5): known to be wrong by the first that isn't.
        if tag == Tag::universal(0) && (first != 0 || rest.first().is_some_and(|&octet| octet != 0))
        {
            return Err(BerFault::StrayEnd);
        }
        let Some((length, rest)) = length(rest)? else { return Ok(None) };
        if length.is_none() && !constructed {
            return Err(BerFault::IndefinitePrimitive);
        }
        let header = Header { tag, constructed, length, bytes: octets.len() - rest.len() };
        Ok(Some(header))
    }
}

/// A tag number in groups of seven bits.
fn long_number(octets: &[u8]) -> Result<Option<(u32, &[u8])>, BerFault> {
    let mut number = 0_u32;
    for (index, &octet) in octets.iter().enumerate() {
        // A leading zero group is forbidden (§8.1.2.4.2 c), and could be repeated without end.
        if number > u32::MAX >> 7 || (index == 0 && octet == 0x80) {
            return Err(BerFault::TagNumber);
        }
        number = number << 7 | u32::from(octet & 0x7F);
        if octet & 0x80 == 0 {
            return Ok(octets.get(index + 1..).map(|rest| (number, rest)));
        }
    }
    Ok(None)
}

/// Parses a length; also returns the octets after it.
fn length(octets: &[u8]) -> Result<Option<(Length, &[u8])>, BerFault> {
    let Some((&first, rest)) = octets.split_first() else { return Ok(None) };
    let count = match first {
        0..=0x7F => return Ok(Some((Some(u64::from(first)), rest))),
        0x80 => return Ok(Some((None, rest))),
        0x81..=0x88 => usize::from(first & 0x7F),
        _ => return Err(BerFault::Length),
    };
    let Some((digits, rest)) = rest.split_at_checked(count) else { return Ok(None) };
    let value = digits.iter().fold(0_u64, |value, &digit| value << 8 | u64::from(digit));
    if value > u64::MAX >> 1 {
        return Err(BerFault::Length);
    }
    Ok(Some((Some(value), rest)))
}
