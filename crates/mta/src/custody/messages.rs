//! Accepted messages: the ones in memory, and reading back the rest from the spool.

use super::cache::MessageCache;
use super::client::SpoolClient;
use crate::line::{FairKey, Permit, PermitWaiter, TrustLevel};
use crate::message::{Message, SentBody};
use crate::seams::{Time, World};
use crate::services::Services;
use bytes::Bytes;
use config::Config;
use mail::MessageId;
use spool::checksums::{self, PIECE_BYTES};
use spool::{BlobId, Completion, LoadError, Meta, Request};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Timeout for a read, after which the message is retried later. A system call that hangs can't be cancelled.
const LOAD_WAIT: Duration = Duration::from_secs(60);
/// Memory reserved for a first read: a body of 64 KiB with its envelope. For a longer record the read returns only the
/// length.
const FIRST_BYTES: u64 = 128 * 1024;
/// With little memory the first read reserves this part, but at least this many bytes.
const FIRST_PART: u64 = 16;
const FIRST_BYTES_MIN: u64 = 4 * 1024;

/// The messages of one shard.
pub(crate) struct Messages<W: World> {
    services: Rc<Services<W>>,
    client: Rc<SpoolClient>,
    cache: RefCell<MessageCache>,
    /// Messages that wait for memory to be read.
    unread: RefCell<BTreeSet<MessageId>>,
}

impl<W: World> Messages<W> {
    /// Creates the cache with this shard's part of the body memory.
    pub(super) fn new(
        services: &Rc<Services<W>>,
        client: &Rc<SpoolClient>,
        config: &Config,
        shards: u16,
    ) -> Messages<W> {
        let cache_bytes = config.spool.body_memory_bytes / 4 / u64::from(shards.max(1));
        let cache_bytes = usize::try_from(cache_bytes).unwrap_or(usize::MAX);
        Messages {
            services: Rc::clone(services),
            client: Rc::clone(client),
            cache: RefCell::new(MessageCache::new(cache_bytes)),
            unread: RefCell::default(),
        }
    }

    /// Caches a message for its `open` recipients.
    pub(crate) fn keep(&self, message: &Rc<Message>, open: usize) {
        let open = u32::try_from(open).unwrap_or(u32::MAX);
        self.cache.borrow_mut().insert(self.services.now(), Rc::clone(message), open);
    }

    /// Counts settled recipients of a message.
    pub(super) fn settle(&self, id: MessageId, count: usize) {
        self.cache.borrow_mut().settle(id, u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Drops the cached copy after the record in the spool has changed.
    pub(crate) fn forget(&self, id: MessageId) {
        self.cache.borrow_mut().forget(id);
    }

    /// The message, if it is in memory.
    pub(crate) fn in_memory(&self, id: MessageId) -> Option<Rc<Message>> {
        self.cache.borrow().get(id)
    }

    /// Returns true if the message waits for memory to be read.
    pub(crate) fn is_unread(&self, id: MessageId) -> bool {
        self.unread.borrow().contains(&id)
    }

    /// Loads a message from memory or from the spool, for a report. Failures are logged.
    ///
    /// # Errors
    /// The error from the spool.
    pub(crate) async fn load(&self, id: MessageId) -> Result<Rc<Message>, LoadError> {
        let who = FairKey::other(self.services.number, u32::MAX);
        let place = self.place_to_load(|| (who, TrustLevel::Good), id);
        self.load_in_turn(place, id).await
    }

    /// Joins the queue for read memory. `None` if the message is in memory already.
    pub(crate) fn place_to_load(
        &self,
        who: impl FnOnce() -> (FairKey, TrustLevel),
        id: MessageId,
    ) -> Option<PermitWaiter> {
        if self.cache.borrow().get(id).is_some() {
            return None;
        }
        let ((who, standing), reads) = (who(), &self.services.shared.reads);
        // Enough for most records. A longer one queues again for its real size, so that no reservation is larger than
        // needed.
        let bytes = FIRST_BYTES.min((reads.parts().max / FIRST_PART).max(FIRST_BYTES_MIN));
        Some(reads.join(who, standing, bytes))
    }

    /// As [`Messages::load`], with a position in the queue. The caller must hold no other message that was read,
    /// otherwise two callers could deadlock.
    ///
    /// # Errors
    /// The error from the spool.
    pub(crate) async fn load_in_turn(
        &self,
        place: Option<PermitWaiter>,
        id: MessageId,
    ) -> Result<Rc<Message>, LoadError> {
        let read = self.read_in_turn(place, id).await;
        if let Err(why) = &read {
            self.tell_unreadable(id, why);
        }
        read
    }

    async fn read_in_turn(
        &self,
        place: Option<PermitWaiter>,
        id: MessageId,
    ) -> Result<Rc<Message>, LoadError> {
        if self.client.has_failed(id.log()) {
            // A delivery could not be settled now and would be repeated after a restart.
            return Err(LoadError::Disk("a write or sync of its log failed".into()));
        }
        let Some(place) = place else { return self.peek(id).await };
        let memory = self.in_turn(place, id).await;
        let (mut memory, read) = match self.read(id, memory.amount()).await? {
            ReadOutcome::Message(message) => (memory, message),
            ReadOutcome::TooLong(bytes) => {
                let memory = self.in_turn(memory.exchange(bytes), id).await;
                // Records appended in the meantime do not change its length.
                (memory, self.read(id, u64::MAX).await?.message()?)
            }
        };
        self.services.metrics.messages_read_back.inc();
        let mut message = *read;
        memory.shrink(message.cost() as u64);
        message.memory = Some(memory);
        Ok(Rc::new(message))
    }

    /// Waits for the permit.
    async fn in_turn(&self, place: PermitWaiter, id: MessageId) -> Permit {
        if place.is_served() {
            return place.await;
        }
        self.unread.borrow_mut().insert(id);
        let memory = place.await;
        self.unread.borrow_mut().remove(&id);
        memory
    }

    /// Reads a message from the spool, if its record is no longer than `bytes_max`.
    async fn read(&self, id: MessageId, bytes_max: u64) -> Result<ReadOutcome, LoadError> {
        let time = self.services.world.time();
        tokio::select! {
            biased;
            loaded = self.client.load(id, bytes_max) => from_completion(loaded),
            () = time.sleep_until(time.now() + LOAD_WAIT) => {
                Err(LoadError::Disk("the disk does not respond".into()))
            }
        }
    }

    /// As [`Messages::load`], for single reads by queries: without logging and without queueing.
    ///
    /// # Errors
    /// The error from the spool.
    pub(crate) async fn peek(&self, id: MessageId) -> Result<Rc<Message>, LoadError> {
        if let Some(message) = self.in_memory(id) {
            return Ok(message);
        }
        let read = self.read(id, u64::MAX).await?;
        Ok(Rc::new(*read.message()?))
    }

    /// Loads messages in the order of `ids`, all in parallel. Only for a few at a time.
    pub(crate) async fn peek_all(&self, ids: &[MessageId]) -> Vec<Result<Rc<Message>, LoadError>> {
        // Creating the future sends the request.
        let begun: Vec<_> = ids
            .iter()
            .map(|&id| self.in_memory(id).ok_or_else(|| self.client.load(id, u64::MAX)))
            .collect();
        let mut read = Vec::with_capacity(begun.len());
        for one in begun {
            read.push(match one {
                Ok(message) => Ok(message),
                Err(waiting) => {
                    let read = from_completion(waiting.await).and_then(ReadOutcome::message);
                    read.map(|message| Rc::new(*message))
                }
            });
        }
        read
    }

    /// Reads a body file from `offset`, in terms of the body as sent: as much as is available in one piece, at least an
    /// octet before the end. Failures are logged.
    ///
    /// # Errors
    /// The body can't be read, or is not the one that was written.
    pub(crate) async fn load_blob(
        &self,
        message: &Message,
        blob: BlobId,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        let stored = message.omitted.stored(offset);
        let begin = stored.start - stored.start % PIECE_BYTES as u64;
        let body_bytes = message.facts.body_bytes;
        let piece = self.load_piece(message.id, &message.meta, body_bytes, blob, begin).await?;
        let within = |at: u64| usize::try_from(at - begin).unwrap_or(usize::MAX).min(piece.len());
        let sent = piece.slice(within(stored.start)..within(stored.end));
        if sent.is_empty() {
            return Err(LoadError::Disk("the body is truncated".into()));
        }
        Ok(sent)
    }

    /// As above, for a body of `body_bytes` with checksums in `meta`, which may not be durable yet.
    ///
    /// # Errors
    /// The body can't be read, or is not the one that was written.
    pub(crate) async fn load_piece(
        &self,
        id: MessageId,
        meta: &Meta,
        body_bytes: u64,
        blob: BlobId,
        offset: u64,
    ) -> Result<Bytes, LoadError> {
        let read = match checksums::piece(meta, body_bytes, offset) {
            Ok(piece) => {
                let request = |ticket| Request::BlobRead { ticket, blob, offset, piece };
                self.client.request(id, request).await
            }
            Err(error) => Completion::LoadFailed(error),
        };
        match read {
            Completion::BlobData(data) if !data.is_empty() => Ok(data),
            other => {
                let why = refusal(other);
                self.tell_unreadable(id, &why);
                Err(why)
            }
        }
    }

    /// Passes the body as sent to `take`, piece by piece, until it returns a value.
    ///
    /// # Errors
    /// The body can't be read.
    pub(crate) async fn for_each_piece<T>(
        &self,
        message: &Message,
        mut take: impl FnMut(&[u8]) -> Option<T>,
    ) -> Result<Option<T>, LoadError> {
        match message.sent_body() {
            SentBody::Memory(pieces) => Ok(pieces.iter().find_map(|piece| take(piece))),
            SentBody::Blob(blob) => {
                let mut offset = 0;
                while offset < message.sent_body_bytes() {
                    let piece = self.load_blob(message, blob, offset).await?;
                    if let Some(found) = take(&piece) {
                        return Ok(Some(found));
                    }
                    offset += piece.len() as u64;
                }
                Ok(None)
            }
        }
    }

    /// Logs that a message or its body can't be read from the spool.
    fn tell_unreadable(&self, id: MessageId, why: &LoadError) {
        self.services.console.error("spool", format_args!("cannot read a message id={id}: {why}"));
    }
}

/// The result of a read.
enum ReadOutcome {
    Message(Box<Message>),
    /// The record is longer than the limit: its length.
    TooLong(u64),
}

impl ReadOutcome {
    /// The message, if the read had no limit.
    fn message(self) -> Result<Box<Message>, LoadError> {
        match self {
            ReadOutcome::Message(message) => Ok(message),
            ReadOutcome::TooLong(_) => Err(LoadError::Disk("its record has grown".into())),
        }
    }
}

fn from_completion(completion: Completion) -> Result<ReadOutcome, LoadError> {
    match completion {
        Completion::Loaded(loaded) => {
            Ok(ReadOutcome::Message(Box::new(Message::from_loaded(*loaded))))
        }
        Completion::TooLong(bytes) => Ok(ReadOutcome::TooLong(bytes)),
        other => Err(refusal(other)),
    }
}

/// The error in a completion without a message.
fn refusal(answer: Completion) -> LoadError {
    match answer {
        Completion::LoadFailed(why) => why,
        _ => LoadError::Disk("the spool gave no answer".into()),
    }
}
