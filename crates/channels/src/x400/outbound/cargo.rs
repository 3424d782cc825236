//! The APDU of an attempt, until the peer has it: in memory that others may need more than a peer that is silent.

use crate::held_memory::HeldMemory;
use crate::x400::kept::{ApduContent, Departure};
use bytes::Bytes;
use mail::Mono;
use mta::delivery::Slot;
use mta::line::Permit;
use mta::message::{Message, SentBody};
use mta::seams::World;
use spool::{BlobId, LoadError};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::task::Context;

/// So much is handed to the association at once; what is no more than that is its own from then on, and is never made
/// twice.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// What is sent.
pub(super) struct Cargo {
    /// `None`: it was let go, and is made again when the peer wants more of it.
    here: Option<Here>,
    bytes: u64,
    /// What tells it from another.
    digest: u64,
    held: HeldMemory,
}

/// All of it.
pub(super) struct Here {
    prefix: Bytes,
    content: Octets,
    /// What it was made in.
    room: Option<Permit>,
    /// It may be let go: nothing else may hold a part of it.
    is_lent: bool,
}

/// What follows the prefix.
enum Octets {
    None,
    Made(Bytes),
    /// As they were read back, or are in memory for others as well.
    Kept(Rc<Message>),
    /// In a file of their own. The message has no content.
    Blob(Rc<Message>, BlobId),
}

impl Here {
    /// What departs, of a message, and the memory that it was made in.
    pub(super) fn new(departure: Departure, message: Rc<Message>, room: Option<Permit>) -> Here {
        let prefix = Bytes::from(departure.prefix);
        let content = match (departure.content, message.sent_body()) {
            (ApduContent::None, _) => Octets::None,
            (ApduContent::Made(content), _) => Octets::Made(content),
            (ApduContent::Kept, SentBody::Blob(blob)) => {
                Octets::Blob(Rc::new(message.without_content()), blob)
            }
            (ApduContent::Kept, SentBody::Memory(_)) => Octets::Kept(message),
        };
        let mut here = Here { prefix, content, room, is_lent: false };
        let bytes = here.bytes();
        here.is_lent = here.memory().is_some() && bytes > PIECE_BYTES as u64;
        here.room.iter_mut().for_each(|room| room.shrink(bytes));
        here
    }

    fn bytes(&self) -> u64 {
        let content = match &self.content {
            Octets::None => 0,
            Octets::Made(content) => content.len() as u64,
            Octets::Kept(message) | Octets::Blob(message, _) => message.sent_body_bytes(),
        };
        self.prefix.len() as u64 + content
    }

    /// Of what is made; what is kept is always the same.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.prefix.hash(&mut hasher);
        if let Octets::Made(content) = &self.content {
            content.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The memory that others may need. `None`: there is none, or others hold the message as well.
    fn memory(&mut self) -> Option<&mut Permit> {
        match (&mut self.room, &mut self.content) {
            (Some(room), _) => Some(room),
            (None, Octets::Kept(message)) => Rc::get_mut(message)?.memory.as_mut(),
            (None, Octets::None | Octets::Made(_) | Octets::Blob(..)) => None,
        }
    }

    /// What stands from `offset` on, at least an octet before the end.
    async fn piece<W: World>(&self, slot: &Slot<W>, offset: u64) -> Result<Bytes, LoadError> {
        let prefix_bytes = self.prefix.len() as u64;
        if offset < prefix_bytes {
            return Ok(within(&self.prefix, offset));
        }
        let offset = offset - prefix_bytes;
        let ended = || LoadError::Disk("the body is shorter than it was".into());
        let message = match &self.content {
            Octets::None => return Err(ended()),
            Octets::Made(content) => return Ok(within(content, offset)),
            Octets::Blob(message, blob) => return slot.load_blob(message, *blob, offset).await,
            Octets::Kept(message) => message,
        };
        let SentBody::Memory(pieces) = message.sent_body() else { return Err(ended()) };
        let mut begin = 0;
        for piece in pieces.iter() {
            let end = begin + piece.len() as u64;
            if offset < end {
                return Ok(within(piece, offset - begin));
            }
            begin = end;
        }
        Err(ended())
    }
}

/// A piece from an offset on.
fn within(octets: &Bytes, offset: u64) -> Bytes {
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(octets.len());
    octets.slice(begin..octets.len().min(begin.saturating_add(PIECE_BYTES)))
}

impl Cargo {
    pub(super) fn new(here: Here, now: Mono) -> Cargo {
        let held = HeldMemory::new(now, here.room.is_some());
        Cargo { bytes: here.bytes(), digest: here.digest(), here: Some(here), held }
    }

    /// Octets in all.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_here(&self) -> bool {
        self.here.is_some()
    }

    /// Whether it is here, and other octets than came.
    pub(super) fn is_made(&self) -> bool {
        self.here.as_ref().is_some_and(|here| here.room.is_some())
    }

    /// It was made again, by `now`.
    ///
    /// # Errors
    /// It is another.
    pub(super) fn put(&mut self, here: Option<Here>, now: Mono) -> Result<(), LoadError> {
        let is_it = |here: &Here| (here.bytes(), here.digest()) == (self.bytes, self.digest);
        let Some(here) = here.filter(is_it) else {
            return Err(LoadError::Disk("it was made into something else before".into()));
        };
        self.held.again(now);
        self.here = Some(here);
        Ok(())
    }

    /// What stands from `offset` on, at least an octet before the end. With the last of it the rest of its memory is
    /// let go.
    ///
    /// # Errors
    /// When it can't be read, or was let go.
    pub(super) async fn piece<W: World>(
        &mut self,
        slot: &Slot<W>,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        let Some(here) = &self.here else {
            return Err(LoadError::Disk("it was let go".into()));
        };
        let piece = here.piece(slot, offset).await?;
        let piece = if here.is_lent { Bytes::copy_from_slice(&piece) } else { piece };
        if offset + piece.len() as u64 >= self.bytes {
            self.here = None;
        }
        Ok(piece)
    }

    /// Lets it go if it was held for long and somebody waits for its memory who holds less. When to look again.
    pub(super) fn poll_give_way(&mut self, cx: &mut Context<'_>, now: Mono) -> Mono {
        let Some(memory) = self.here.as_mut().and_then(Here::memory) else { return Mono::NEVER };
        let (gives_way, look_at) = self.held.poll_give_way(memory, cx, now);
        if gives_way {
            self.here = None;
        }
        look_at
    }
}
