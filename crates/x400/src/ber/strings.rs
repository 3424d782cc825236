//! Strings, possibly in nested segments (X.690 §8.6, §8.7, §8.23).

use super::{BerError, BerFault, Class, Element, NESTING_MAX, Reader, Tag};
use std::borrow::Cow;

/// Returns true for types of octets or characters, and for bit strings.
pub(crate) fn is_string(tag: Tag) -> bool {
    tag.class == Class::Universal && matches!(tag.number, 3 | 4 | 12 | 18..=22 | 25..=28 | 30)
}

impl<'a> Element<'a> {
    /// An OCTET STRING or a character string, with any tag: borrowed, or joined if segmented.
    ///
    /// # Errors
    /// Returns an error if a segment is malformed or not a string.
    pub fn octets(&self) -> Result<Cow<'a, [u8]>, BerError> {
        collect(*self)
    }

    /// The same, piece by piece, without a copy.
    #[must_use]
    pub fn segments(&self) -> Segments<'a> {
        Segments::new(*self)
    }

    /// A BIT STRING.
    ///
    /// # Errors
    /// A segment is broken, or the unused bits are wrong.
    pub fn bits(&self) -> Result<Bits<'a>, BerError> {
        Bits::read(*self)
    }

    /// Its tag is that of a string of ASN.1's own.
    #[must_use]
    pub fn is_string(&self) -> bool {
        is_string(self.tag)
    }
}

/// The pieces of a string in order. Ends after an error.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    /// A string that is primitive, or has unopened segments.
    first: Option<Element<'a>>,
    /// The constructed strings that are open, outermost first; never more than [`NESTING_MAX`].
    open: Vec<Reader<'a>>,
}

impl<'a> Segments<'a> {
    pub(super) fn new(string: Element<'a>) -> Self {
        Segments { first: Some(string), open: Vec::new() }
    }

    fn step(&mut self) -> Result<Option<Element<'a>>, BerError> {
        let mut next = self.first.take();
        loop {
            if let Some(element) = next {
                if !element.constructed {
                    return Ok(Some(element));
                }
                // The reader refuses deeper elements; this applies to strings read at any depth.
                if self.open.len() >= NESTING_MAX {
                    return Err(BerFault::TooDeep.at(element.at));
                }
                self.open.push(element.children()?);
            }
            let Some(reader) = self.open.last_mut() else { return Ok(None) };
            next = match reader.next() {
                Some(segment) => Some(segment?),
                None => {
                    self.open.pop();
                    None
                }
            };
            if let Some(segment) = next
                && !is_string(segment.tag)
            {
                return Err(BerFault::Segment { found: segment.tag }.at(segment.at));
            }
        }
    }

    /// The next primitive piece with its place.
    fn next_element(&mut self) -> Option<Result<Element<'a>, BerError>> {
        let step = self.step();
        if step.is_err() {
            self.open.clear();
        }
        step.transpose()
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<&'a [u8], BerError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_element()?.map(|element| element.contents))
    }
}

pub(super) fn collect(string: Element<'_>) -> Result<Cow<'_, [u8]>, BerError> {
    if !string.constructed {
        return Ok(Cow::Borrowed(string.contents));
    }
    let mut all = Vec::new();
    for piece in Segments::new(string) {
        all.extend_from_slice(piece?);
    }
    Ok(Cow::Owned(all))
}

/// A BIT STRING. Bit 0 is the first, the most significant of the first octet. Bits beyond the end are 0:
/// a named bit list may leave out or add trailing zeros (X.680 §22.7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bits<'a> {
    octets: Cow<'a, [u8]>,
    unused: u8,
}

impl<'a> Bits<'a> {
    pub(super) fn read(string: Element<'a>) -> Result<Self, BerError> {
        let mut bits = Bits { octets: Cow::Borrowed(&[]), unused: 0 };
        let mut is_first = true;
        let mut segments = Segments::new(string);
        while let Some(piece) = segments.next_element() {
            let piece = piece?;
            let fault = BerFault::BitString.at(piece.at);
            let Some((&unused, octets)) = piece.contents.split_first() else { return Err(fault) };
            // Only the last segment may have unused bits (§8.6.4).
            if unused > 7 || bits.unused > 0 || (unused > 0 && octets.is_empty()) {
                return Err(fault);
            }
            bits.unused = unused;
            if is_first {
                bits.octets = Cow::Borrowed(octets);
                is_first = false;
            } else {
                bits.octets.to_mut().extend_from_slice(octets);
            }
        }
        Ok(bits)
    }

    /// Number of bits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.octets.len().saturating_mul(8).saturating_sub(usize::from(self.unused))
    }

    /// Returns true if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// This bit is 1.
    #[must_use]
    pub fn has(&self, bit: usize) -> bool {
        let octet = self.octets.get(bit / 8).copied().unwrap_or(0);
        bit < self.len() && octet & (0x80 >> (bit % 8)) != 0
    }

    /// The octets; unused bits of the last one are undefined.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }
}
