//! Elements that are all in memory: a walk over them, and their values.

use super::header::Header;
use super::oid::check_oid;
use super::{BerError, BerFault, NESTING_MAX, Tag};

/// The elements of a slice, one after another. As an iterator it ends behind an error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    /// Offset of `input`.
    at: u64,
    /// Depth of its elements; the outermost have depth 1.
    depth: usize,
}

impl<'a> Reader<'a> {
    /// The outermost elements; offsets count from 0.
    #[must_use]
    pub const fn new(input: &'a [u8]) -> Self {
        Reader::with_base(input, 0)
    }

    /// The outermost elements of a part: its first octet is number `base` of the whole.
    #[must_use]
    pub const fn with_base(input: &'a [u8], base: u64) -> Self {
        Reader { input, at: base, depth: 1 }
    }

    /// A reader of an element's contents.
    const fn within(input: &'a [u8], at: u64, depth: usize) -> Self {
        Reader { input, at, depth }
    }

    /// Returns true if all input is used up.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// The offset of the next element.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// The unread octets.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.input
    }

    /// The tag of the next element, which stays where it is.
    ///
    /// # Errors
    /// The next element's identifier or length is broken.
    pub fn peek(&self) -> Result<Option<Tag>, BerError> {
        if self.input.is_empty() {
            return Ok(None);
        }
        self.header().map(|header| Some(header.tag))
    }

    /// The next element, whatever its tag; one is required.
    ///
    /// # Errors
    /// Returns an error if it is malformed or missing.
    pub fn any(&mut self) -> Result<Element<'a>, BerError> {
        let missing = BerFault::Missing { wanted: None }.at(self.at);
        self.next().unwrap_or(Err(missing))
    }

    /// The next element, which must have this tag.
    ///
    /// # Errors
    /// Returns an error if it is malformed, has another tag, or is missing.
    pub fn read(&mut self, wanted: Tag) -> Result<Element<'a>, BerError> {
        match self.peek()? {
            Some(found) if found == wanted => self.any(),
            Some(found) => Err(BerFault::Unexpected { found, wanted }.at(self.at)),
            None => Err(BerFault::Missing { wanted: Some(wanted) }.at(self.at)),
        }
    }

    /// The next element if it has this tag.
    ///
    /// # Errors
    /// It is broken.
    pub fn read_if(&mut self, wanted: Tag) -> Result<Option<Element<'a>>, BerError> {
        if self.peek()? == Some(wanted) { self.any().map(Some) } else { Ok(None) }
    }

    /// Checks that all input is used up.
    ///
    /// # Errors
    /// Returns an error if octets are left.
    pub fn end(&self) -> Result<(), BerError> {
        if self.input.is_empty() { Ok(()) } else { Err(BerFault::Trailing.at(self.at)) }
    }

    fn header(&self) -> Result<Header, BerError> {
        match Header::parse(self.input) {
            Ok(Some(header)) if header.is_end() => Err(BerFault::StrayEnd.at(self.at)),
            Ok(Some(header)) => Ok(header),
            Ok(None) => Err(BerFault::HeaderCut.at(self.at)),
            Err(fault) => Err(fault.at(self.at)),
        }
    }

    fn element(&mut self) -> Result<Element<'a>, BerError> {
        let header = self.header()?;
        if self.depth > NESTING_MAX {
            return Err(BerFault::TooDeep.at(self.at));
        }
        let behind = self.input.get(header.bytes..).unwrap_or_default();
        let contents_at = self.at.saturating_add(header.bytes as u64);
        let (contents_bytes, end_bytes) = match header.length {
            Some(length) => (definite(length, behind).map_err(|fault| fault.at(self.at))?, 0),
            None => (
                indefinite(behind, contents_at, self.depth).map_err(|error| error.of(self.at))?,
                2,
            ),
        };
        let total = header.bytes.saturating_add(contents_bytes).saturating_add(end_bytes);
        let element = Element {
            tag: header.tag,
            constructed: header.constructed,
            at: self.at,
            encoded: self.input.get(..total).unwrap_or_default(),
            contents: behind.get(..contents_bytes).unwrap_or_default(),
            contents_at,
            depth: self.depth,
        };
        self.input = self.input.get(total..).unwrap_or_default();
        self.at = self.at.saturating_add(total as u64);
        Ok(element)
    }
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<Element<'a>, BerError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.input.is_empty() {
            return None;
        }
        let element = self.element();
        if element.is_err() {
            self.input = &[];
        }
        Some(element)
    }
}

/// An element that is all in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element<'a> {
    /// Its tag.
    pub tag: Tag,
    /// It consists of elements.
    pub constructed: bool,
    /// Offset of the element.
    pub at: u64,
    /// The whole encoding: identifier, length, contents, and end-of-contents octets if present.
    pub encoded: &'a [u8],
    /// The contents, without end-of-contents octets.
    pub contents: &'a [u8],
    /// Offset of its contents.
    pub contents_at: u64,
    depth: usize,
}

impl<'a> Element<'a> {
    /// Its inner elements.
    ///
    /// # Errors
    /// Returns an error if it is primitive.
    pub fn children(&self) -> Result<Reader<'a>, BerError> {
        if !self.constructed {
            return Err(BerFault::NotConstructed.at(self.at));
        }
        Ok(Reader::within(self.contents, self.contents_at, self.depth.saturating_add(1)))
    }

    /// The only inner element: the one inside an EXPLICIT tag.
    ///
    /// # Errors
    /// Returns an error if it is primitive, has no or several inner elements, or a malformed one.
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

    /// The octets of an OBJECT IDENTIFIER, for comparison; [`super::oid_text`] prints them.
    ///
    /// # Errors
    /// Returns an error if it is constructed, empty, cut within a component, or has a component over 64 bits.
    pub fn oid(&self) -> Result<&'a [u8], BerError> {
        let octets = self.primitive()?;
        if check_oid(octets) { Ok(octets) } else { Err(BerFault::Oid.at(self.at)) }
    }
}

/// The length, if that much is there.
fn definite(length: u64, behind: &[u8]) -> Result<usize, BerFault> {
    let available = behind.len() as u64;
    if length > available {
        return Err(BerFault::PastEnd { length, available });
    }
    usize::try_from(length).map_err(|_| BerFault::Length)
}

/// An error within an indefinite length: at its own octet, or at that of the element that never ends.
struct WithinError {
    fault: BerFault,
    at: Option<u64>,
}

impl WithinError {
    fn of(self, element_at: u64) -> BerError {
        self.fault.at(self.at.unwrap_or(element_at))
    }
}

/// Number of octets before the end-of-contents octets that close the element at this depth. Elements of definite length
/// are not examined.
fn indefinite(octets: &[u8], at: u64, depth: usize) -> Result<usize, WithinError> {
    let mut taken = 0_usize;
    let mut open = 1_usize;
    loop {
        let rest = octets.get(taken..).unwrap_or_default();
        let here = at.saturating_add(taken as u64);
        let fail = |fault| WithinError { fault, at: Some(here) };
        let header = match Header::parse(rest) {
            Ok(Some(header)) => header,
            Ok(None) => return Err(WithinError { fault: BerFault::NeverClosed, at: None }),
            Err(fault) => return Err(fail(fault)),
        };
        if header.is_end() {
            open -= 1;
            if open == 0 {
                return Ok(taken);
            }
        } else if header.length.is_none() {
            open += 1;
            if depth.saturating_add(open) > NESTING_MAX + 1 {
                return Err(fail(BerFault::TooDeep));
            }
        }
        let behind = rest.get(header.bytes..).unwrap_or_default();
        let inner = definite(header.length.unwrap_or(0), behind).map_err(fail)?;
        taken = taken.saturating_add(header.bytes).saturating_add(inner);
    }
}
