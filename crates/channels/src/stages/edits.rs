//! Changes of a message's lines.

use mail::Refusal;
use mta::ingress::{ContentBuffer, Draft};
use std::ops::Range;

/// Octets that changes may add to one message.
pub(super) const ADDED_BYTES_MAX: usize = 1 << 20;

/// RFC 3463 §3.4: X.3.4 is a message that is too big.
const TOO_LARGE: Refusal = Refusal::permanent((3, 4), "Message too large after its rewriting");

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
    /// Puts lines of this text in the place of a part of the message. `is_in_header`: the part is whole lines of the
    /// message's own header.
    ///
    /// # Errors
    /// Too much is added.
    pub(super) fn put(
        &mut self,
        range: Range<u64>,
        text: Vec<u8>,
        is_in_header: bool,
    ) -> Result<(), Refusal> {
        self.added_bytes += text.len();
        self.is_beyond_header |= !is_in_header;
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
