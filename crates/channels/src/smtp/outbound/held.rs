//! The content of a transaction, in memory that others may need more than a peer that is silent.

use super::encoding::Encoding;
use bytes::Bytes;
use mail::{MessageId, Mono};
use mta::delivery::Slot;
use mta::line::Standing;
use mta::message::{Conversion, Message, SentBody};
use mta::seams::World;
use queue::Origin;
use spool::LoadError;
use std::rc::Rc;
use std::task::Context;
use std::time::Duration;

/// Of a content that was read back so much is handed to the connection at once; a smaller one is
/// never read twice.
const PIECE_BYTES: usize = 64 * 1024;
/// For so long it is held whatever others need, for a peer that is known to answer.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// The same for another peer, the first time; each further time for twice as long, up to the same.
const KEPT_FIRST_FOR: Duration = Duration::from_millis(500);
/// A peer for which it is held longer is silent, or as good as.
const SILENCE: Duration = Duration::from_secs(30);

/// A content until it is written.
pub(super) struct Held {
    id: MessageId,
    /// In whose turn it is read back.
    origin: Origin,
    /// `None`: it was let go, and is read back when the peer wants it.
    message: Option<Rc<Message>>,
    sent_body_bytes: u64,
    /// How its body is made fit for the peer.
    encoding: Option<Rc<Encoding>>,
    /// How it was converted: it can be converted again.
    conversion: Option<Rc<Conversion>>,
    /// Since when it is held.
    since: Mono,
    /// For so long it is held for a peer that is not known to answer.
    kept_for: Duration,
}

impl Held {
    /// All of a message, since `now`.
    pub(super) fn new(
        (message, origin): (Rc<Message>, Origin),
        encoding: Option<Rc<Encoding>>,
        now: Mono,
    ) -> Held {
        let (id, sent_body_bytes) = (message.id, message.sent_body_bytes());
        let conversion = message.conversion().map(Rc::clone);
        // What can be made without the disk is made again as soon as the peer asks for it.
        let kept_for = if conversion.is_some() { Duration::ZERO } else { KEPT_FIRST_FOR };
        let (message, since) = (Some(message), now);
        Held { id, origin, message, sent_body_bytes, encoding, conversion, since, kept_for }
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

    /// Whether it has pieces that are read, or may be read once more, while it is written.
    pub(super) fn is_read_on(&self) -> bool {
        let Some(message) = &self.message else { return true };
        match message.sent_body() {
            SentBody::Blob(_) => true,
            SentBody::Memory(_) => {
                message.can_be_let_go() && self.sent_body_bytes > PIECE_BYTES as u64
            }
        }
    }

    /// Lets it go if it was held for long and somebody waits for its memory who holds less. When to look
    /// again.
    pub(super) fn poll_give_way(
        &mut self,
        cx: &mut Context<'_>,
        now: impl FnOnce() -> Mono,
    ) -> Mono {
        // Only this has it, or others hold it as well.
        let message = self.message.as_mut().and_then(Rc::get_mut);
        let Some(message) = message.filter(|message| message.can_be_let_go()) else {
            return Mono::NEVER;
        };
        let Some(memory) = &mut message.memory else { return Mono::NEVER };
        let now = now();
        // Whoever is not known to answer is doubtful as soon as its connection is.
        let (kept_for, silence) = match memory.standing() {
            Standing::Good => (KEPT_FOR, SILENCE),
            Standing::Unknown | Standing::Doubtful => (self.kept_for, KEPT_FOR),
        };
        let (kept_until, silent_at) = (self.since + kept_for, self.since + silence);
        if now < kept_until {
            return kept_until;
        }
        memory.idle(self.since);
        if now >= silent_at {
            memory.doubt();
        }
        if memory.poll_give_way(cx).is_ready() {
            self.message = None;
        }
        if now < silent_at { silent_at } else { Mono::NEVER }
    }

    /// What stands before the body.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) async fn prefix<W: World>(&mut self, slot: &Slot<W>) -> Result<Bytes, LoadError> {
        Ok(self.whole(slot).await?.prefix.clone())
    }

    /// What stands from `offset` on, at least an octet before its end.
    ///
    /// # Errors
    /// When it can't be read.
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
        Err(LoadError::Disk("the body is shorter than it was".into()))
    }

    /// The last piece, which is the connection's from now on: others may have the memory of the whole.
    pub(super) fn end(&mut self, piece: Bytes) -> Bytes {
        match self.message.take().as_deref().map(Message::sent_body) {
            Some(SentBody::Memory(_)) => Bytes::copy_from_slice(&piece),
            Some(SentBody::Blob(_)) | None => piece,
        }
    }

    /// The message, read back when its turn comes if it was let go.
    async fn whole<W: World>(&mut self, slot: &Slot<W>) -> Result<&Message, LoadError> {
        let message = match self.message.take() {
            Some(message) => message,
            None => {
                let asked = (self.id, self.origin);
                let message = slot.load_again(asked, self.conversion.as_ref()).await?;
                self.since = slot.now();
                self.kept_for = (self.kept_for * 2).clamp(KEPT_FIRST_FOR, KEPT_FOR);
                message
            }
        };
        Ok(self.message.insert(message))
    }
}
