//! Finds elements in a stream, without holding it.

use super::header::{HEADER_BYTES_MAX, Header};
use super::{BerError, BerFault, NESTING_MAX, Tag};

/// An element begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    /// Its tag.
    pub tag: Tag,
    /// It consists of elements.
    pub constructed: bool,
    /// Length of its contents; `None` is an indefinite length.
    pub length: Option<u64>,
    /// 1 for the outermost.
    pub depth: usize,
    /// Offset of its identifier.
    pub at: u64,
    /// Offset of its contents.
    pub contents_at: u64,
}

/// The meaning of the octets taken by a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skimmed {
    /// An element begins; the octets taken end its identifier and length, which earlier steps may have begun.
    Begin(Begin),
    /// Contents of the element that began last and has not ended: of a primitive one its value, of a
    /// constructed one elements below the level that is reported.
    Octets,
    /// The element that began last and has not ended ends. The octets taken are the end-of-contents
    /// octets, or none.
    End {
        /// The element's.
        depth: usize,
        /// The offset after it.
        at: u64,
    },
    /// All octets are taken: feed more.
    NeedInput,
}

/// One step through the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SkimStep {
    /// Number of input octets taken.
    pub consumed: usize,
    /// Their meaning.
    pub what: Skimmed,
}

#[derive(Clone, Copy, Debug)]
struct ElementFrame {
    /// `None` is an indefinite length.
    end: Option<u64>,
    /// Latest end of the enclosing element.
    limit: u64,
    at: u64,
    contents_at: u64,
    is_reported: bool,
}

/// Says where elements begin and end in a stream that is cut at any octet. It holds no more than a header
/// and the open elements, at most [`NESTING_MAX`].
#[derive(Clone, Debug)]
pub struct Skimmer {
    levels: usize,
    nesting_max: usize,
    /// Number of octets taken.
    at: u64,
    /// A header that is cut.
    head: [u8; HEADER_BYTES_MAX],
    head_bytes: usize,
    open: Vec<ElementFrame>,
    /// Remaining contents without elements to examine.
    pass: u64,
}

impl Skimmer {
    /// Reports elements down to this depth, from 1 (the outermost alone) to [`NESTING_MAX`].
    #[must_use]
    pub fn new(levels: usize) -> Self {
        Skimmer::around(levels, 0)
    }

    /// Allows this many more levels of nesting, for elements around other elements.
    pub(crate) fn around(levels: usize, more: usize) -> Self {
        let levels = levels.clamp(1, NESTING_MAX);
        let nesting_max = NESTING_MAX.saturating_add(more);
        let head = [0; HEADER_BYTES_MAX];
        Skimmer { levels, nesting_max, at: 0, head, head_bytes: 0, open: Vec::new(), pass: 0 }
    }

    /// One octet, 00, was taken and not reported as contents: it may begin the end of a reported element.
    pub(crate) fn holds_zero(&self) -> bool {
        self.head_bytes == 1 && self.head.first() == Some(&0) && self.is_in_sight()
    }

    /// From here on reports elements down to this depth. The contents of an unreported element stay opaque.
    pub fn set_levels(&mut self, levels: usize) {
        self.levels = levels.clamp(1, NESTING_MAX);
    }

    /// Number of octets taken so far.
    #[must_use]
    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Between two outermost elements, or before the first.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.head_bytes == 0
    }

    /// The next step. Call it with the rest of the input until it returns [`Skimmed::NeedInput`]; it may return more
    /// even without input.
    ///
    /// # Errors
    /// Returns an error if the stream is not BER. The skimmer is then unusable.
    pub fn step(&mut self, input: &[u8]) -> Result<SkimStep, BerError> {
        if self.pass > 0 {
            let consumed = usize::try_from(self.pass).unwrap_or(usize::MAX).min(input.len());
            self.pass -= consumed as u64;
            let what = if consumed == 0 { Skimmed::NeedInput } else { Skimmed::Octets };
            return Ok(self.took(consumed, what));
        }
        if self.head_bytes == 0
            && let Some(top) = self.open.last().copied()
        {
            if top.end == Some(self.at) {
                return Ok(self.close(0));
            }
            if self.at >= top.limit {
                return Err(BerFault::NeverClosed.at(top.at));
            }
        }
        if input.is_empty() {
            return Ok(SkimStep { consumed: 0, what: Skimmed::NeedInput });
        }
        self.header(input)
    }

    /// The stream ends here.
    ///
    /// # Errors
    /// An element is still open.
    pub fn finish(&self) -> Result<(), BerError> {
        if self.head_bytes > 0 {
            return Err(BerFault::HeaderCut.at(self.at.saturating_sub(self.head_bytes as u64)));
        }
        let Some(top) = self.open.last() else { return Ok(()) };
        Err(match top.end {
            None => BerFault::NeverClosed.at(top.at),
            Some(end) => {
                let length = end.saturating_sub(top.contents_at);
                let available = self.at.saturating_sub(top.contents_at);
                BerFault::PastEnd { length, available }.at(top.at)
            }
        })
    }

    fn took(&mut self, consumed: usize, what: Skimmed) -> SkimStep {
        self.at = self.at.saturating_add(consumed as u64);
        SkimStep { consumed, what }
    }

    /// Returns true if elements directly in the open element (or outside all) are reported.
    fn is_in_sight(&self) -> bool {
        self.open.last().is_none_or(|top| top.is_reported)
    }

    fn header(&mut self, input: &[u8]) -> Result<SkimStep, BerError> {
        let at = self.at.saturating_sub(self.head_bytes as u64);
        let (header, consumed) = match self.gather(input) {
            Ok(found) => found,
            Err(fault) => return Err(fault.at(at)),
        };
        let Some(header) = header else {
            // The front of a header is content if the element will be opaque; but not if it may yet
            // be the end of one that is reported.
            let is_end = self.head.first() == Some(&0);
            let is_opaque = !self.is_in_sight() || (self.open.len() >= self.levels && !is_end);
            let what = if is_opaque { Skimmed::Octets } else { Skimmed::NeedInput };
            return Ok(self.took(consumed, what));
        };
        self.head_bytes = 0;
        if header.is_end() {
            return match self.open.last() {
                Some(ElementFrame { end: None, .. }) => Ok(self.close(consumed)),
                Some(ElementFrame { end: Some(_), .. }) | None => Err(BerFault::StrayEnd.at(at)),
            };
        }
        self.begin(header, at, consumed)
    }

    /// The header, if complete, and the number of input octets used for it.
    fn gather(&mut self, input: &[u8]) -> Result<(Option<Header>, usize), BerFault> {
        if self.head_bytes == 0
            && let Some(header) = Header::parse(input)?
        {
            return Ok((Some(header), header.bytes));
        }
        for (index, &octet) in input.iter().enumerate() {
            let Some(place) = self.head.get_mut(self.head_bytes) else {
                return Err(BerFault::Length);
            };
            *place = octet;
            self.head_bytes += 1;
            if let Some(header) =
                Header::parse(self.head.get(..self.head_bytes).unwrap_or_default())?
            {
                return Ok((Some(header), index + 1));
            }
        }
        Ok((None, input.len()))
    }

    fn begin(&mut self, header: Header, at: u64, consumed: usize) -> Result<SkimStep, BerError> {
        let depth = self.open.len() + 1;
        if depth > self.nesting_max {
            return Err(BerFault::TooDeep.at(at));
        }
        let contents_at = self.at.saturating_add(consumed as u64);
        let limit = self.open.last().map_or(u64::MAX, |top| top.limit);
        let length = header.length.unwrap_or(0);
        let available = limit.saturating_sub(contents_at);
        if contents_at > limit || length > available {
            return Err(BerFault::PastEnd { length, available }.at(at));
        }
        let is_reported = self.is_in_sight() && depth <= self.levels;
        let end = header.length.map(|length| contents_at.saturating_add(length));
        if !header.constructed || !is_reported {
            self.pass = length;
        }
        if is_reported || end.is_none() {
            let limit = end.unwrap_or(limit);
            self.open.push(ElementFrame { end, limit, at, contents_at, is_reported });
        }
        let (tag, constructed, length) = (header.tag, header.constructed, header.length);
        let what = if is_reported {
            Skimmed::Begin(Begin { tag, constructed, length, depth, at, contents_at })
        } else {
            Skimmed::Octets
        };
        Ok(self.took(consumed, what))
    }

    fn close(&mut self, consumed: usize) -> SkimStep {
        let depth = self.open.len();
        let was_reported = self.open.pop().is_some_and(|top| top.is_reported);
        let at = self.at.saturating_add(consumed as u64);
        let what = if was_reported { Skimmed::End { depth, at } } else { Skimmed::Octets };
        self.took(consumed, what)
    }
}
