//! Walks elements that are all in memory.

use super::header::Header;
use super::{BerError, BerFault, Element, NESTING_MAX, Tag};

/// The elements of a slice, one after another. As an iterator it ends behind an error.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    input: &'a [u8],
    /// Where `input` begins.
    at: u64,
    /// How deep its elements lie; the outermost have depth 1.
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

    /// What an element has within it.
    pub(super) const fn within(input: &'a [u8], at: u64, depth: usize) -> Self {
        Reader { input, at, depth }
    }

    /// Nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.input.is_empty()
    }

    /// The offset of what comes next.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// What has not been read yet.
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

    /// The next element, whatever it is; there must be one.
    ///
    /// # Errors
    /// It is broken, or there is none.
    pub fn any(&mut self) -> Result<Element<'a>, BerError> {
        let missing = BerFault::Missing { wanted: None }.at(self.at);
        self.next().unwrap_or(Err(missing))
    }

    /// The next element, which must have this tag.
    ///
    /// # Errors
    /// It is broken, another, or there is none.
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

    /// Nothing may be left.
    ///
    /// # Errors
    /// Something is.
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

/// How many octets come before the end-of-contents octets that close the element at this depth. What has
/// a definite length is not looked into.
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
