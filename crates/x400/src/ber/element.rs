//! One element and its values.

use super::oid::check_oid;
use super::{BerError, BerFault, Reader, Tag};

/// An element that is all in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its tag.
    pub tag: Tag,
    /// It consists of elements.
    pub constructed: bool,
    /// Where it begins.
    pub at: u64,
    /// All of it as it came: identifier, length, contents, and end-of-contents octets if there are.
    pub encoded: &'a [u8],
    /// What is in it, without end-of-contents octets.
    pub contents: &'a [u8],
    /// Where its contents begin.
    pub contents_at: u64,
    pub(super) depth: usize,
}

impl<'a> Element<'a> {
    /// What it consists of.
    ///
    /// # Errors
    /// It is primitive.
    pub fn children(&self) -> Result<Reader<'a>, BerError> {
        if !self.constructed {
            return Err(BerFault::NotConstructed.at(self.at));
        }
        Ok(Reader::within(self.contents, self.contents_at, self.depth.saturating_add(1)))
    }

    /// The one element in it: what an EXPLICIT tag is around.
    ///
    /// # Errors
    /// It is primitive, or has none or several in it, or a broken one.
    pub fn only_child(&self) -> Result<Element<'a>, BerError> {
        let mut children = self.children()?;
        let child = children.any()?;
        children.end()?;
        Ok(child)
    }

    /// The one element in it, which must have this tag.
    ///
    /// # Errors
    /// As for [`Element::only_child`], or it is another.
    pub fn only(&self, wanted: Tag) -> Result<Element<'a>, BerError> {
        let mut children = self.children()?;
        let child = children.read(wanted)?;
        children.end()?;
        Ok(child)
    }

    fn primitive(&self) -> Result<&'a [u8], BerError> {
        if self.constructed { Err(BerFault::NotPrimitive.at(self.at)) } else { Ok(self.contents) }
    }

    /// An INTEGER or ENUMERATED of at most 64 bits. More octets than it needs are taken.
    ///
    /// # Errors
    /// It is constructed, empty or larger.
    pub fn integer(&self) -> Result<i64, BerError> {
        let octets = self.primitive()?;
        let Some(&first) = octets.first() else { return Err(BerFault::Integer.at(self.at)) };
        let sign = if first & 0x80 == 0 { 0_u8 } else { 0xFF };
        let spare = octets.len().saturating_sub(8);
        let (front, digits) = octets.split_at_checked(spare).unwrap_or((&[], octets));
        let is_negative = digits.first().is_some_and(|digit| digit & 0x80 != 0);
        if front.iter().any(|&octet| octet != sign) || is_negative != (sign != 0) {
            return Err(BerFault::IntegerRange.at(self.at));
        }
        let start = if sign == 0 { 0_i64 } else { -1 };
        Ok(digits.iter().fold(start, |value, &digit| value << 8 | i64::from(digit)))
    }

    /// An INTEGER or ENUMERATED from 0 to `max`.
    ///
    /// # Errors
    /// It is no integer, or out of this range.
    pub fn unsigned(&self, max: u32) -> Result<u32, BerError> {
        let value = self.integer()?;
        match u32::try_from(value) {
            Ok(value) if value <= max => Ok(value),
            Ok(_) | Err(_) => Err(BerFault::IntegerRange.at(self.at)),
        }
    }

    /// A BOOLEAN: any octet but 0 is true.
    ///
    /// # Errors
    /// It is not one octet.
    pub fn boolean(&self) -> Result<bool, BerError> {
        match self.primitive()? {
            [octet] => Ok(*octet != 0),
            _ => Err(BerFault::Boolean.at(self.at)),
        }
    }

    /// A NULL.
    ///
    /// # Errors
    /// It has contents.
    pub fn null(&self) -> Result<(), BerError> {
        if self.contents.is_empty() { Ok(()) } else { Err(BerFault::Null.at(self.at)) }
    }

    /// The octets of an OBJECT IDENTIFIER, to compare with others; [`super::oid_text`] shows them.
    ///
    /// # Errors
    /// It is constructed, empty, cut within a component, or has one over 64 bits.
    pub fn oid(&self) -> Result<&'a [u8], BerError> {
        let octets = self.primitive()?;
        if check_oid(octets) { Ok(octets) } else { Err(BerFault::Oid.at(self.at)) }
    }
}
