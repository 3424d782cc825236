//! Content of a transaction, in memory that is released for other connections while the peer is silent.

use super::encoding::Encoding;
use crate::held_memory::HeldMemory;
use bytes::Bytes;
use mail::{MessageId, Mono};
use mta::delivery::Slot;
use mta::message::{Conversion, Message, SentBody};
use mta::seams::World;
use queue::Origin;
use spool::LoadError;
use std::rc::Rc;
use std::task::Context;

/// Octets of a content that are read back and passed to the connection at once. A shorter content is never read twice.
const PIECE_BYTES: usize = 64 * 1024;

/// A content until it is written.
pub(super) struct HeldContent {
    id: MessageId,
    /// It is read back in the turn of this origin.
    origin: Origin,
    /// `None`: released, and read back when the peer accepts more.
    message: Option<Rc<Message>>,
    sent_body_bytes: u64,
    /// Encoding of its body for the peer.
    encoding: Option<Rc<Encoding>>,
    /// Conversion of its content, which can be repeated.
    conversion: Option<Rc<Conversion>>,
    held: HeldMemory,
}

impl HeldContent {
    /// The content of a whole message, held since `now`.
    pub(super) fn new(
        (message, origin): (Rc<Message>, Origin),
        encoding: Option<Rc<Encoding>>,
        now: Mono,
    ) -> HeldContent {
        let (id, sent_body_bytes) = (message.id, message.sent_body_bytes());
        let conversion = message.conversion().map(Rc::clone);
        let held = HeldMemory::new(now, conversion.is_some());
        HeldContent {
            id,
            origin,
            message: Some(message),
            sent_body_bytes,
            encoding,
            conversion,
            held,
        }
    }

    pub(super) fn message(&self) -> Option<&Message> {
        self.message.as_deref()
    }

    pub(super) fn encoding(&self) -> Option<Rc<Encoding>> {
        self.encoding.clone()
    }

    pub(super) fn sent_body_bytes(&self) -> u64 {
        self.sent_body_bytes
    }

    pub(super) fn is_let_go(&self) -> bool {
        self.message.is_none()
    }

    /// Returns true if pieces are read, or may be read again, while it is written.
    pub(super) fn is_read_on(&self) -> bool {
        let Some(message) = &self.message else { return true };
        match message.sent_body() {
            SentBody::Blob(_) => true,
            SentBody::Memory(_) => {
                message.can_be_let_go() && self.sent_body_bytes > PIECE_BYTES as u64
            }
        }
    }

    /// Releases the content if it was held for long and a connection that holds less waits for memory. Returns the time
    /// of the next check.
    pub(super) fn poll_give_way(
        &mut self,
        cx: &mut Context<'_>,
        now: impl FnOnce() -> Mono,
    ) -> Mono {
        // // `None` also if the message is shared, since its memory would not be freed.
        let message = self.message.as_mut().and_then(Rc::get_mut);
        let Some(message) = message.filter(|message| message.can_be_let_go()) else {
            return Mono::NEVER;
        };
        let Some(memory) = &mut message.memory else { return Mono::NEVER };
        let (gives_way, look_at) = self.held.poll_give_way(memory, cx, now());
        if gives_way {
            self.message = None;
        }
        look_at
    }

    /// The prefix before the body.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) async fn prefix<W: World>(&mut self, slot: &Slot<W>) -> Result<Bytes, LoadError> {
        Ok(self.whole(slot).await?.prefix.clone())
    }

    /// A piece that starts at `offset`, at least one octet before the end.
    ///
    /// # Errors
    /// It can't be read.
    pub(super) async fn piece<W: World>(
        &mut self,
        slot: &Slot<W>,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        let message = self.whole(slot).await?;
        let pieces = match message.sent_body() {
            SentBody::Blob(blob) => return slot.load_blob(message, blob, offset).await,
            SentBody::Memory(pieces) => pieces,
        };
        let mut begin = 0;
        for piece in pieces.iter() {
            let end = begin + piece.len() as u64;
            if offset < end {
                let within = usize::try_from(offset - begin).unwrap_or(usize::MAX);
                return Ok(piece.slice(within..piece.len().min(within + PIECE_BYTES)));
            }
            begin = end;
        }
        Err(LoadError::Disk("the body is truncated".into()))
    }

    /// The last piece, copied for the connection, so that the memory of the whole message can be freed.
    pub(super) fn end(&mut self, piece: Bytes) -> Bytes {
        match self.message.take().as_deref().map(Message::sent_body) {
            Some(SentBody::Memory(_)) => Bytes::copy_from_slice(&piece),
            Some(SentBody::Blob(_)) | None => piece,
        }
    }

    /// The message, read back in its turn if it was released.
    async fn whole<W: World>(&mut self, slot: &Slot<W>) -> Result<&Message, LoadError> {
        let message = match self.message.take() {
            Some(message) => message,
            None => {
                let asked = (self.id, self.origin);
                let message = slot.load_again(asked, self.conversion.as_ref()).await?;
                self.held.again(slot.now());
                message
            }
        };
        Ok(self.message.insert(message))
    }
}
