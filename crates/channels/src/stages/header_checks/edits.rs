//! Changes of a message's lines.

use super::walk::Line;
use mail::Refusal;
use mta::ingress::{ContentBuffer, Draft};
use std::ops::Range;

/// Octets that changes may add to one message.
pub(super) const ADDED_BYTES_MAX: usize = 1 << 20;

/// RFC 3463 §3.4: X.3.4 is a message that is too big.
const TOO_LARGE: Refusal = Refusal::permanent((3, 4), "Message too large after header checks");

/// Changes in the order of the message.
#[derive(Debug, Default)]
pub(super) struct Edits {
    edits: Vec<Edit>,
    added_bytes: usize,
    is_beyond_header: bool,
}

/// A part of the message, and the text in its place.
#[derive(Debug)]
struct Edit {
    range: Range<u64>,
    text: Vec<u8>,
}

impl Edits {
    /// Removes the line.
    pub(super) fn remove(&mut self, line: &Line) -> Result<(), Refusal> {
        self.push(line, line.range.clone(), Vec::new())
    }

    /// Replaces the line.
    pub(super) fn replace(&mut self, line: &Line, text: &str) -> Result<(), Refusal> {
        self.push(line, line.range.clone(), line_of(text))
    }

    /// Inserts a line before it.
    pub(super) fn prepend(&mut self, line: &Line, text: &str) -> Result<(), Refusal> {
        self.push(line, line.range.start..line.range.start, line_of(text))
    }

    /// # Errors
    /// Too much is added.
    fn push(&mut self, line: &Line, range: Range<u64>, text: Vec<u8>) -> Result<(), Refusal> {
        self.added_bytes += text.len();
        self.is_beyond_header |= !line.is_in_own_header;
        self.edits.push(Edit { range, text });
        if self.added_bytes > ADDED_BYTES_MAX { Err(TOO_LARGE) } else { Ok(()) }
    }

    /// Changes the message.
    ///
    /// # Errors
    /// The content can't be read or stored.
    pub(super) async fn apply(self, draft: &mut Draft) -> Result<(), Refusal> {
        if self.edits.is_empty() {
            return Ok(());
        }
        // Without earlier omissions, positions in the message are those in the stored content: removed fields need no
        // copy.
        let is_stored = draft.omitted().bytes() == 0 && !self.is_beyond_header;
        if is_stored && self.added_bytes == 0 {
            self.edits.into_iter().for_each(|edit| draft.omit(edit.range));
            return Ok(());
        }
        let mut content = draft.gather();
        let mut from = 0;
        for Edit { range, text } in self.edits {
            copy(draft, &mut content, from..range.start).await?;
            content.push(&text).await?;
            from = range.end;
        }
        copy(draft, &mut content, from..u64::MAX).await?;
        draft.replace_content(content.finish().await?);
        Ok(())
    }
}

/// Copies a part of the message.
async fn copy(
    draft: &Draft,
    content: &mut ContentBuffer,
    mut part: Range<u64>,
) -> Result<(), Refusal> {
    while part.start < part.end {
        let mut piece = draft.read(part.start).await?;
        if piece.is_empty() {
            break;
        }
        piece.truncate(usize::try_from(part.end - part.start).unwrap_or(usize::MAX));
        content.push(&piece).await?;
        part.start += piece.len() as u64;
    }
    Ok(())
}

/// The text as one line: other control characters than tabs become spaces.
fn line_of(text: &str) -> Vec<u8> {
    let clean = |byte: u8| if byte.is_ascii_control() && byte != b'\t' { b' ' } else { byte };
    text.bytes().map(clean).chain(*b"\r\n").collect()
}
