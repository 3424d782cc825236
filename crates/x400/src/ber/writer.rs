//! Writes elements: definite lengths, the fewest octets.

use super::{Class, Tag};

/// Elements one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writer {
    octets: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub const fn new() -> Self {
        Writer { octets: Vec::new() }
    }

    /// An empty writer with this capacity.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Writer { octets: Vec::with_capacity(bytes) }
    }

    /// The octets written so far.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.octets
    }

    /// The written octets.
    #[must_use]
    pub fn into_vec(self) -> Vec<u8> {
        self.octets
    }

    /// An element with the inner elements written by `contents`.
    pub fn constructed(&mut self, tag: Tag, contents: impl FnOnce(&mut Writer)) {
        self.identifier(tag, true);
        let start = self.octets.len();
        contents(self);
        let (length, count) = length_octets(self.octets.len().saturating_sub(start) as u64);
        self.octets.splice(start..start, length.into_iter().take(count));
    }

    /// A primitive element with these contents: an OCTET STRING above all.
    pub fn primitive(&mut self, tag: Tag, contents: &[u8]) {
        self.header(tag, false, contents.len() as u64);
        self.octets.extend_from_slice(contents);
    }

    /// A character string.
    pub fn text(&mut self, tag: Tag, text: &str) {
        self.primitive(tag, text.as_bytes());
    }

    /// An INTEGER or ENUMERATED.
    pub fn integer(&mut self, tag: Tag, value: i64) {
        let octets = value.to_be_bytes();
        let spare = |pair: &[u8; 2]| matches!(pair, [0, 0..=0x7F] | [0xFF, 0x80..=0xFF]);
        let skip = octets.array_windows::<2>().take_while(|pair| spare(pair)).count();
        self.primitive(tag, octets.get(skip..).unwrap_or_default());
    }

    /// A BOOLEAN.
    pub fn boolean(&mut self, tag: Tag, value: bool) {
        self.primitive(tag, &[if value { 0xFF } else { 0 }]);
    }

    /// A NULL.
    pub fn null(&mut self, tag: Tag) {
        self.primitive(tag, &[]);
    }

    /// A BIT STRING of the first `count` bits of these octets; the bits behind them are written as 0.
    pub fn bits(&mut self, tag: Tag, octets: &[u8], count: usize) {
        let octets = octets.get(..count.div_ceil(8)).unwrap_or(octets);
        let unused = octets.len().saturating_mul(8).saturating_sub(count) as u8;
        self.header(tag, false, octets.len() as u64 + 1);
        self.octets.push(unused);
        self.octets.extend_from_slice(octets);
        if unused > 0
            && let Some(last) = self.octets.last_mut()
        {
            *last &= 0xFF << unused;
        }
    }

    /// Elements that are encoded already.
    pub fn raw(&mut self, encoded: &[u8]) {
        self.octets.extend_from_slice(encoded);
    }

    /// Identifier and length alone: the caller writes the contents separately.
    pub fn header(&mut self, tag: Tag, constructed: bool, length: u64) {
        self.identifier(tag, constructed);
        let (octets, count) = length_octets(length);
        self.octets.extend(octets.into_iter().take(count));
    }

    fn identifier(&mut self, tag: Tag, constructed: bool) {
        let class = match tag.class {
            Class::Universal => 0,
            Class::Application => 0x40,
            Class::Context => 0x80,
            Class::Private => 0xC0,
        };
        let front = class | if constructed { 0x20 } else { 0 };
        if tag.number < 0x1F {
            self.octets.push(front | tag.number as u8);
            return;
        }
        self.octets.push(front | 0x1F);
        for group in (0..number_groups(tag.number)).rev() {
            let low = (tag.number >> (7 * group)) as u8 & 0x7F;
            self.octets.push(if group == 0 { low } else { low | 0x80 });
        }
    }
}

/// Number of octets of identifier and length, before contents of this length.
#[must_use]
pub fn header_bytes(tag: Tag, length: u64) -> usize {
    let number = if tag.number < 0x1F { 0 } else { number_groups(tag.number) as usize };
    1 + number + length_octets(length).1
}

/// Groups of seven bits.
fn number_groups(number: u32) -> u32 {
    (32 - number.leading_zeros()).div_ceil(7)
}

/// The octets of a length, and the number of significant ones.
fn length_octets(length: u64) -> ([u8; 9], usize) {
    let mut octets = [0; 9];
    if length < 0x80 {
        octets[0] = length as u8;
        return (octets, 1);
    }
    let digits = length.to_be_bytes();
    let spare = length.leading_zeros() as usize / 8;
    octets[0] = 0x80 | (8 - spare) as u8;
    for (to, from) in octets.iter_mut().skip(1).zip(digits.iter().skip(spare)) {
        *to = *from;
    }
    (octets, 9 - spare)
}
