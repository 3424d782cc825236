//! Pending output of a session: commands, and at most one content among them.

use super::Output;

/// Capacity beyond which a buffer is freed after use: it grew for many recipients.
const BUFFER_BYTES_KEPT: usize = 16_384;

/// The kind of output completely written by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FlushedOutput {
    #[default]
    Nothing,
    Commands,
    /// The content up to its end is included.
    Content,
}

/// Output commands and content, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    /// Commands; cleared once written completely.
    buffer: Vec<u8>,
    /// Length of the part of `buffer` handed to the driver.
    polled: usize,
    /// Content not yet handed to the driver, and its position in `buffer`.
    content: Option<(usize, Output)>,
    /// Output that the driver is writing.
    writing: FlushedOutput,
}

impl Outbox {
    /// The buffer for further commands.
    pub(super) fn commands(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    pub(super) fn buffer(&self) -> &[u8] {
        &self.buffer
    }

    /// Queues the content after the commands so far.
    pub(super) fn push_content(&mut self, content: Output) {
        debug_assert!(self.content.is_none());
        self.content = Some((self.buffer.len(), content));
    }

    /// Drops content not yet handed to the driver.
    pub(super) fn drop_content(&mut self) {
        self.content = None;
    }

    /// Drops all output not yet handed to the driver.
    #[cfg(feature = "planted")]
    pub(super) fn drop_unpolled(&mut self) {
        self.content = None;
        self.polled = self.buffer.len();
    }

    /// Returns true if output was not yet handed to the driver.
    pub(super) fn has_unpolled(&self) -> bool {
        self.polled < self.buffer.len() || self.content.is_some()
    }

    /// True while the driver has output that is not completely written.
    pub(super) fn is_writing(&self) -> bool {
        self.writing != FlushedOutput::Nothing
    }

    pub(super) fn is_sending_content(&self) -> bool {
        self.writing == FlushedOutput::Content || self.content.is_some()
    }

    /// Hands all new output to the driver, unless it is writing.
    pub(super) fn poll(&mut self, out: &mut Vec<Output>) {
        if self.is_writing() || !self.has_unpolled() {
            return;
        }
        let (start, end) = (self.polled, self.buffer.len());
        self.polled = end;
        self.writing = FlushedOutput::Commands;
        let mut rest = start;
        if let Some((at, content)) = self.content.take() {
            if at > start {
                out.push(Output::Bytes { start, end: at });
            }
            out.push(content);
            rest = at;
            self.writing = FlushedOutput::Content;
        }
        if end > rest {
            out.push(Output::Bytes { start: rest, end });
        }
    }

    /// Erases written commands from memory.
    pub(super) fn forget(&mut self) {
        self.buffer.fill(0);
    }

    /// The driver has written its output; returns its kind.
    pub(super) fn handle_written(&mut self) -> FlushedOutput {
        let written = std::mem::take(&mut self.writing);
        if written != FlushedOutput::Nothing && !self.has_unpolled() {
            self.buffer.clear();
            self.buffer.shrink_to(BUFFER_BYTES_KEPT);
            self.polled = 0;
        }
        written
    }
}

/// Doubles the dot at the start of each line of a body that comes in pieces, split anywhere.
///
/// The wire form of a piece is a sequence of its slices. At a dot to double, one slice ends after the dot and the next
/// begins with the same dot.
///
/// A line begins after any LF. Stored bodies hold no bare LF. If one ever did, a peer that accepts it as a line end
/// could not be made to see the end of the content there.
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
    /// At the start of a body, after data ending with CRLF.
    #[must_use]
    pub fn new() -> DotStuffer {
        DotStuffer { is_line_start: true }
    }

    /// The slices to write for `piece`, none empty. The state moves to the end of `piece` at once, so all slices must
    /// be written.
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
