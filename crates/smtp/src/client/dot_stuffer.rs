//! Dot-stuffing (RFC 5321 §4.5.2) without copying.

/// Doubles the dot at the start of each line of a body that comes in pieces, split anywhere.
///
/// The wire form of a piece is a row of slices of that piece: where a dot must be doubled, one
/// slice ends behind it and the next begins with it again.
///
/// A line begins after any LF. Stored bodies hold no bare LF; if one ever did, a peer that takes
/// it for a line end could not be made to see the end of the content there.
#[derive(Clone, Debug)]
pub struct DotStuffer {
    is_line_start: bool,
}

impl Default for DotStuffer {
    fn default() -> DotStuffer {
        DotStuffer::new()
    }
}

impl DotStuffer {
    /// At the start of a body: whatever goes before it ended with CRLF.
    #[must_use]
    pub fn new() -> DotStuffer {
        DotStuffer { is_line_start: true }
    }

    /// The slices to write for `piece`, none of them empty. The state moves to the end of `piece`
    /// at once, so all of them must be written.
    pub fn slices<'a>(&mut self, piece: &'a [u8]) -> DotSlices<'a> {
        let is_line_start = self.is_line_start;
        if let Some(&last) = piece.last() {
            self.is_line_start = last == b'\n';
        }
        DotSlices { rest: piece, doubles_first: is_line_start && piece.first() == Some(&b'.') }
    }
}

/// See [`DotStuffer::slices`].
#[derive(Clone, Debug)]
pub struct DotSlices<'a> {
    rest: &'a [u8],
    /// `rest` begins with a dot that has yet to be doubled.
    doubles_first: bool,
}

impl<'a> Iterator for DotSlices<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        if self.doubles_first {
            self.doubles_first = false;
            return self.rest.get(..1);
        }
        match memchr::memmem::find(self.rest, b"\n.") {
            Some(lf) => {
                let slice = self.rest.get(..lf + 2)?;
                self.rest = self.rest.get(lf + 1..)?;
                Some(slice)
            }
            None => Some(std::mem::take(&mut self.rest)),
        }
    }
}
