//! The APDU of an attempt, in memory that is released for other connections while the peer is silent.

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

/// Octets passed to the association at once. A shorter APDU belongs to the association from then on, and is never built
/// again.
pub(super) const PIECE_BYTES: usize = 64 * 1024;

/// The APDU being sent.
pub(super) struct Cargo {
    /// `None`: released, and built again when the peer wants more.
    here: Option<Here>,
    bytes: u64,
    /// Hash to verify that the same APDU was built again.
    digest: u64,
    held: HeldMemory,
}

/// The complete APDU in memory.
pub(super) struct Here {
    prefix: Bytes,
    content: Octets,
    /// Memory permit of a conversion.
    room: Option<Permit>,
    /// It may be released, so pieces are copied before they are passed on.
    is_lent: bool,
}

/// The part after the prefix.
enum Octets {
    None,
    Made(Bytes),
    /// As read back, or shared in memory with other connections.
    Kept(Rc<Message>),
    /// In a blob. The message has no content.
    Blob(Rc<Message>, BlobId),
}

impl Here {
    /// Builds it from the departure of a message, with the memory permit of its conversion.
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

    /// Hash of converted octets. Stored octets never change.
    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.prefix.hash(&mut hasher);
        if let Octets::Made(content) = &self.content {
            content.hash(&mut hasher);
        }
        hasher.finish()
    }

    /// The memory that can be released. `None` if it holds none, or shares the message.
    fn memory(&mut self) -> Option<&mut Permit> {
        match (&mut self.room, &mut self.content) {
            (Some(room), _) => Some(room),
            (None, Octets::Kept(message)) => Rc::get_mut(message)?.memory.as_mut(),
            (None, Octets::None | Octets::Made(_) | Octets::Blob(..)) => None,
        }
    }

    /// A piece that starts at `offset`, at least one octet before the end.
    async fn piece<W: World>(&self, slot: &Slot<W>, offset: u64) -> Result<Bytes, LoadError> {
        let prefix_bytes = self.prefix.len() as u64;
        if offset < prefix_bytes {
            return Ok(within(&self.prefix, offset));
        }
        let offset = offset - prefix_bytes;
        let ended = || LoadError::Disk("the body is truncated".into());
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

/// A piece that starts at an offset.
fn within(octets: &Bytes, offset: u64) -> Bytes {
    let begin = usize::try_from(offset).unwrap_or(usize::MAX).min(octets.len());
    octets.slice(begin..octets.len().min(begin.saturating_add(PIECE_BYTES)))
}

impl Cargo {
    pub(super) fn new(here: Here, now: Mono) -> Cargo {
        let held = HeldMemory::new(now, here.room.is_some());
        Cargo { bytes: here.bytes(), digest: here.digest(), here: Some(here), held }
    }

    /// Total octets.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn is_here(&self) -> bool {
        self.here.is_some()
    }

    /// Returns true if it is in memory and was converted.
    pub(super) fn is_made(&self) -> bool {
        self.here.as_ref().is_some_and(|here| here.room.is_some())
    }

    /// It was built again, at `now`.
    ///
    /// # Errors
    /// The result differs.
    pub(super) fn put(&mut self, here: Option<Here>, now: Mono) -> Result<(), LoadError> {
        let is_it = |here: &Here| (here.bytes(), here.digest()) == (self.bytes, self.digest);
        let Some(here) = here.filter(is_it) else {
            return Err(LoadError::Disk("an earlier conversion gave another content".into()));
        };
        self.held.again(now);
        self.here = Some(here);
        Ok(())
    }

    /// A piece that starts at `offset`, at least one octet before the end. With the last piece the remaining memory is
    /// released.
    ///
    /// # Errors
    /// It can't be read, or was released.
    pub(super) async fn piece<W: World>(
        &mut self,
        slot: &Slot<W>,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        let Some(here) = &self.here else {
            return Err(LoadError::Disk("it was released".into()));
        };
        let piece = here.piece(slot, offset).await?;
        let piece = if here.is_lent { Bytes::copy_from_slice(&piece) } else { piece };
        if offset + piece.len() as u64 >= self.bytes {
            self.here = None;
        }
        Ok(piece)
    }

    /// Releases it if it was held for long and a connection that holds less waits for memory. Returns the time of the
    /// next check.
    pub(super) fn poll_give_way(&mut self, cx: &mut Context<'_>, now: Mono) -> Mono {
        let Some(memory) = self.here.as_mut().and_then(Here::memory) else { return Mono::NEVER };
        let (gives_way, look_at) = self.held.poll_give_way(memory, cx, now);
        if gives_way {
            self.here = None;
        }
        look_at
    }
}
