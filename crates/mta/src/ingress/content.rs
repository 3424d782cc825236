//! Complete content that is not durable yet. It can be read again and replaced.

use super::Ingress;
use super::intake::{Content, Intake};
use super::refusals;
use crate::answer::Later;
use crate::seams::World;
use bytes::Bytes;
use mail::{ContentFacts, ContentScanner, MessageId, Refusal};
use spool::checksums::PIECE_BYTES;
use spool::{BlobId, BodyChecksums, Meta};
use std::fmt;
use std::rc::Rc;

/// Content storage of a shard, independent of the world type.
pub(super) trait Contents {
    /// An id for a further message in the log of `id`. `None` if it has no ids left.
    fn id_beside(&self, id: MessageId) -> Option<MessageId>;

    /// Starts replacement content for a message.
    fn gather(&self, id: MessageId) -> Box<dyn Gathers>;

    /// Reads the piece of a body file that begins at `offset`, a multiple of [`PIECE_BYTES`].
    fn read<'a>(
        &'a self,
        id: MessageId,
        body: (BlobId, &BodyChecksums),
        body_bytes: u64,
        offset: u64,
    ) -> Later<'a, Result<Bytes, Refusal>>;

    /// Drops a body file that is no longer needed.
    fn forget(&self, id: MessageId, blob: BlobId);
}

/// Content being received as in an [`Intake`], independent of the world type. Dropping it discards the content.
pub(super) trait Gathers {
    fn push(&mut self, piece: &[u8]);
    /// See [`Intake::attend`].
    fn attend(&mut self) -> Later<'_, Result<(), Refusal>>;
    /// See [`Intake::finish`]. The body memory stays reserved until this is dropped.
    fn finish(&mut self) -> Later<'_, Result<Content, Refusal>>;
}

impl fmt::Debug for dyn Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Contents")
    }
}

impl fmt::Debug for dyn Gathers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gathers")
    }
}

impl<W: World> Contents for Ingress<W> {
    fn id_beside(&self, id: MessageId) -> Option<MessageId> {
        self.custody.allocate_id_beside(id)
    }

    fn gather(&self, id: MessageId) -> Box<dyn Gathers> {
        let blob_bytes = self.router.active().config.spool.blob_bytes;
        Box::new(Another(Intake::for_message(id, &self.services, &self.custody, blob_bytes)))
    }

    fn read<'a>(
        &'a self,
        id: MessageId,
        (blob, checksums): (BlobId, &BodyChecksums),
        body_bytes: u64,
        offset: u64,
    ) -> Later<'a, Result<Bytes, Refusal>> {
        let meta = Meta { fields: vec![checksums.clone().finish()] };
        Box::pin(async move {
            let piece = self.custody.messages.load_piece(id, &meta, body_bytes, blob, offset).await;
            piece.map_err(|_| refusals::CANNOT_READ)
        })
    }

    fn forget(&self, id: MessageId, blob: BlobId) {
        self.custody.drop_blob(id, blob);
    }
}

struct Another<W: World>(Intake<W>);

impl<W: World> Gathers for Another<W> {
    fn push(&mut self, piece: &[u8]) {
        self.0.push(piece);
    }

    fn attend(&mut self) -> Later<'_, Result<(), Refusal>> {
        Box::pin(self.0.attend())
    }

    fn finish(&mut self) -> Later<'_, Result<Content, Refusal>> {
        Box::pin(self.0.finish())
    }
}

impl<W: World> Drop for Another<W> {
    fn drop(&mut self) {
        self.0.reset();
    }
}

/// Buffer for replacement content: in memory within the body memory budget, beyond it in a file, like content from
/// clients.
#[derive(Debug)]
pub struct ContentBuffer {
    gathers: Box<dyn Gathers>,
    scanner: ContentScanner,
    contents: Rc<dyn Contents>,
}

impl ContentBuffer {
    pub(super) fn new(contents: &Rc<dyn Contents>, id: MessageId) -> ContentBuffer {
        let (gathers, contents) = (contents.gather(id), Rc::clone(contents));
        ContentBuffer { gathers, scanner: ContentScanner::default(), contents }
    }

    /// Appends a piece with CRLF line ends.
    ///
    /// # Errors
    /// Neither memory nor disk has capacity for it.
    pub async fn push(&mut self, piece: &[u8]) -> Result<(), Refusal> {
        self.scanner.push(piece);
        self.gathers.push(piece);
        self.gathers.attend().await
    }

    /// Ends the content.
    ///
    /// # Errors
    /// Neither memory nor disk has capacity for it.
    pub async fn finish(mut self) -> Result<BufferedContent, Refusal> {
        let content = self.gathers.finish().await?;
        let ContentBuffer { gathers, scanner, contents } = self;
        Ok(BufferedContent { content, facts: scanner.finish(), memory: gathers, contents })
    }
}

/// Complete replacement content that belongs to no message yet. Dropping it discards the content.
#[derive(Debug)]
pub struct BufferedContent {
    pub(super) content: Content,
    pub(super) facts: ContentFacts,
    /// Body memory reserved for the part in memory.
    memory: Box<dyn Gathers>,
    contents: Rc<dyn Contents>,
}

impl BufferedContent {
    /// Length of the content.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.facts.body_bytes
    }

    /// Reads from `offset` as much as is available in one piece. Empty at the end.
    ///
    /// # Errors
    /// The content can't be read.
    pub async fn read(&self, offset: u64) -> Result<Bytes, Refusal> {
        read(&*self.contents, &self.content, self.facts.body_bytes, offset).await
    }

    /// Replaces `content` and `facts`. Returns the body memory reserved for the new content.
    pub(super) fn replace(
        mut self,
        content: &mut Content,
        facts: &mut ContentFacts,
    ) -> Box<dyn Gathers> {
        std::mem::swap(&mut self.content, content);
        *facts = self.facts;
        let nothing: Box<dyn Gathers> = Box::new(Nothing);
        std::mem::replace(&mut self.memory, nothing)
    }
}

impl Drop for BufferedContent {
    fn drop(&mut self) {
        if let Some((blob, _)) = self.content.blob.take() {
            self.contents.forget(self.content.id, blob);
        }
    }
}

/// Reserves no memory.
pub(super) struct Nothing;

impl Gathers for Nothing {
    fn push(&mut self, _piece: &[u8]) {}

    fn attend(&mut self) -> Later<'_, Result<(), Refusal>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn finish(&mut self) -> Later<'_, Result<Content, Refusal>> {
        Box::pin(std::future::ready(Err(refusals::CANNOT_READ)))
    }
}

/// Reads the content from `offset`, as much as is available in one piece. Empty at the end.
pub(super) async fn read(
    contents: &dyn Contents,
    content: &Content,
    body_bytes: u64,
    offset: u64,
) -> Result<Bytes, Refusal> {
    if offset >= body_bytes {
        return Ok(Bytes::new());
    }
    let Some((blob, checksums)) = &content.blob else { return Ok(in_pieces(content, offset)) };
    let begin = offset - offset % PIECE_BYTES as u64;
    let piece = contents.read(content.id, (*blob, checksums), body_bytes, begin).await?;
    let from = usize::try_from(offset - begin).unwrap_or(usize::MAX);
    if from >= piece.len() {
        return Err(refusals::CANNOT_READ);
    }
    Ok(piece.slice(from..))
}

/// The rest of the in-memory piece at `offset`.
fn in_pieces(content: &Content, offset: u64) -> Bytes {
    let mut from = usize::try_from(offset).unwrap_or(usize::MAX);
    for piece in &content.pieces {
        if from < piece.len() {
            return piece.slice(from..);
        }
        from -= piece.len();
    }
    Bytes::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_memory_are_read_from_anywhere_on() {
        let pieces = vec![Bytes::from_static(b"abc"), Bytes::from_static(b"de")];
        let content = Content { id: MessageId::new(1, 0, 1), blob: None, pieces };
        let read = |offset| in_pieces(&content, offset);
        assert_eq!([read(0), read(2), read(3), read(4)], ["abc", "c", "de", "e"]);
        assert!(read(5).is_empty() && read(u64::MAX).is_empty());
    }
}
