//! The parts of DER (X.690) used by keys and certificates.

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const SEQUENCE: u8 = 0x30;

/// A DER element.
pub(crate) struct DerElement<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// With tag and length.
    pub(crate) whole: &'a [u8],
}

/// The first element (X.690 §8.1), and the bytes after it.
pub(crate) fn element(bytes: &[u8]) -> Option<(DerElement<'_>, &[u8])> {
    let (&tag, after_tag) = bytes.split_first()?;
    let (&first, mut rest) = after_tag.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let octets = usize::from(first & 0x7f);
        if !(1..=4).contains(&octets) {
            return None;
        }
        let (digits, after) = rest.split_at_checked(octets)?;
        length = digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit));
        rest = after;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    let whole = bytes.get(..bytes.len() - rest.len())?;
    Some((DerElement { tag, content, whole }, rest))
}
