//! Maildirs on this server: each message becomes a file, synced and moved to `new`.

mod folder;
mod junk;
mod settings;
mod template;
mod terms;

use crate::local::{self, Delivered, NotDelivered, as_delivered, looped};
use bytes::Bytes;
use config::ChannelSection;
use lookup::Requester;
use mail::{Class, EnhancedStatus, Failure, Mailbox, Refusal, Reply};
use mta::answer::{Answer, Decision};
use mta::delivery::{Channel, Slot, Task};
use mta::message::{Message, SentBody};
use mta::seams::{MailStore, MailboxError, MailboxPlace, MailboxQuestion, Tables, Time, World};
use mta::tables::{FoundBy, values_of};
use queue::Origin;
pub(crate) use settings::{Maildir, MaildirText};
use spool::{BlobId, LoadError};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Maildirs;

impl<W: World> Channel<W> for Maildirs {
    fn key(&self) -> &'static str {
        MaildirText::KEY
    }

    fn admit(&self, question: &MailboxQuestion<'_, W>) -> Decision<'static, ()> {
        let (world, tables) = (question.world.clone(), question.tables.clone());
        let (route, recipient) = (Arc::clone(question.route), question.recipient.clone());
        let size = question.size;
        Answer::later(async move {
            match route.channel.of::<Maildir>() {
                Some(maildir) => check_room(&world, &tables, maildir, (&recipient, size)).await,
                None => Ok(()),
            }
        })
    }

    fn run(&self, slot: Slot<W>) -> Task {
        Box::pin(local::run::<W, Maildir>(slot, async |slot, maildir, message, which| {
            deliver(slot, maildir, message, which).await
        }))
    }
}

/// Delivers to the Maildir of one recipient.
async fn deliver<W: World>(
    slot: &Slot<W>,
    maildir: &Maildir,
    message: &Rc<Message>,
    (index, origin): (u32, Origin),
) -> Result<Delivered, NotDelivered> {
    let recipient = &message.envelope.recipients[index as usize].mailbox;
    let mut place = MailboxPlace {
        origin,
        ..place_of(&slot.world().tables(Requester::Ours), maildir, recipient).await?
    };
    let shown = place.path().to_string_lossy().into_owned();
    if let Some(junk) = maildir.junk() {
        let start = start_of(slot, message).await.map_err(NotDelivered::Unreadable)?;
        place.folder = junk.folder_of(&start).or(place.folder);
    }
    match into_maildir(slot, message, recipient, place, index).await {
        Ok(()) => {
            let reply = Reply::new(250, (2, 0, 0), "delivered to the mailbox");
            Ok(Delivered { reply, place: shown })
        }
        Err(WriteError::Mailbox(error)) => {
            let waited = slot.world().time().wall().since(message.received_at);
            let is_over = maildir.quota_grace().is_some_and(|grace| waited >= grace);
            Err(NotDelivered::Failed { failure: unwritten(&shown, &error, is_over), place: shown })
        }
        Err(WriteError::Loops) => {
            Err(NotDelivered::Failed { failure: looped(recipient), place: shown })
        }
        Err(WriteError::Unreadable(why)) => Err(NotDelivered::Unreadable(why)),
    }
}

/// The mailbox of a recipient, from its current table entry where the route uses values of the entry.
async fn place_of<T: Tables + Clone>(
    tables: &T,
    maildir: &Maildir,
    recipient: &Mailbox,
) -> Result<MailboxPlace, NotDelivered> {
    let template = || maildir.template().to_owned();
    let found = match maildir.entries_for(recipient) {
        None => None,
        Some(entries) => {
            let found = entries.entry_of(tables, recipient).await;
            Some(found.map_err(|why| local::without_entry(why, maildir.template()))?)
        }
    };
    let entry = found.as_ref().map(|found| template::with_names_of_keys(&found.entry));
    let values = |name: &str| entry.as_ref().map_or(&[][..], |entry| values_of(entry, name));
    let is_users_tag = found.as_ref().is_some_and(|found| found.by == FoundBy::WithoutTag);
    let place = maildir.place_for(recipient, is_users_tag, &values);
    place.map_err(|error| NotDelivered::Failed { failure: error.failure(), place: template() })
}

/// RFC 3463 §3.3: X.2.2 is a full mailbox. The client retries where this server would.
const FULL: Refusal = Refusal::transient((2, 2), "Mailbox full; try again later").with_code(452);
/// With `quota_grace = "0"` this server would not retry.
const FULL_FOR_GOOD: Refusal = Refusal::permanent((2, 2), "Mailbox full").with_code(552);
/// The announced size is over the quota (RFC 1870 §6.1).
const TOO_LARGE: Refusal =
    Refusal::permanent((2, 2), "Message exceeds the quota of the mailbox").with_code(552);
/// RFC 3463 §3.4: X.3.1 is a full system.
const NO_ROOM: Refusal =
    Refusal::transient((3, 1), "Insufficient system storage; try again later").with_code(452);

/// Decides about a recipient by the free space of its mailbox. A message that is accepted for a full one could only wait,
/// and would then be bounced to a sender that may be forged. An unknown state is no reason to refuse: the message is
/// accepted and waits, as without this check.
///
/// # Errors
/// The mailbox or its disk is full.
async fn check_room<W: World>(
    world: &W,
    tables: &W::Tables,
    maildir: &Maildir,
    (recipient, size): (&Mailbox, Option<u64>),
) -> Result<(), Refusal> {
    let Ok(place) = place_of(tables, maildir, recipient).await else { return Ok(()) };
    // A message without an announced size has at least one octet.
    let bytes = size.unwrap_or(1).max(1);
    if place.quota_bytes.is_some_and(|quota_bytes| bytes > quota_bytes) {
        return Err(TOO_LARGE);
    }
    match world.store().room(place, bytes).await {
        Err(MailboxError::Full { .. }) if maildir.quota_grace() == Some(Duration::ZERO) => {
            Err(FULL_FOR_GOOD)
        }
        Err(MailboxError::Full { .. }) => Err(FULL),
        Err(MailboxError::Io(error)) if error.kind() == ErrorKind::StorageFull => Err(NO_ROOM),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Reason for which a message was not written.
enum WriteError {
    /// The mailbox can't be written.
    Mailbox(MailboxError),
    /// The message was delivered to this mailbox before.
    Loops,
    /// The spool can no longer read the body, or it has changed.
    Unreadable(LoadError),
}

impl From<MailboxError> for WriteError {
    fn from(error: MailboxError) -> WriteError {
        WriteError::Mailbox(error)
    }
}

/// The fields that this server added, and the start of the content.
async fn start_of<W: World>(slot: &Slot<W>, message: &Message) -> Result<Vec<u8>, LoadError> {
    let mut start = message.prefix.to_vec();
    match message.sent_body() {
        SentBody::Memory(body) => {
            start.extend_from_slice(body.first().map(|first| &**first).unwrap_or_default());
        }
        SentBody::Blob(blob) if message.sent_body_bytes() > 0 => {
            start.extend_from_slice(&slot.load_blob(message, blob, 0).await?);
        }
        SentBody::Blob(_) => {}
    }
    Ok(start)
}

/// Writes the message into one Maildir.
async fn into_maildir<W: World>(
    slot: &Slot<W>,
    message: &Rc<Message>,
    recipient: &Mailbox,
    place: MailboxPlace,
    index: u32,
) -> Result<(), WriteError> {
    let top = local::fields_at_delivery(message, index, recipient);
    let name = file_name(slot, message, index);
    match message.sent_body() {
        SentBody::Memory(body) => {
            let mut pieces = vec![top];
            if let Some((first, others)) = body.split_first() {
                pieces.extend(as_delivered(first, recipient).ok_or(WriteError::Loops)?);
                pieces.extend(others.iter().cloned());
            }
            Ok(slot.world().store().deliver(place, name, pieces).await?)
        }
        SentBody::Blob(blob) => {
            let file = slot.world().store().begin(place, name).await?;
            let result = append_all(slot, message, blob, recipient, file, top).await;
            let kept = slot.world().store().finish(file, result.is_ok()).await;
            result.and(kept.map_err(WriteError::Mailbox))
        }
    }
}

/// Appends the fields at the top, and a body from its blob.
async fn append_all<W: World>(
    slot: &Slot<W>,
    message: &Message,
    blob: BlobId,
    recipient: &Mailbox,
    file: u64,
    top: Bytes,
) -> Result<(), WriteError> {
    let store = slot.world().store();
    store.append(file, top).await?;
    let mut offset = 0;
    while offset < message.sent_body_bytes() {
        let piece = slot.load_blob(message, blob, offset).await.map_err(WriteError::Unreadable)?;
        let bytes = piece.len() as u64;
        let piece = match offset {
            0 => Bytes::from(as_delivered(&piece, recipient).ok_or(WriteError::Loops)?.concat()),
            _ => piece,
        };
        store.append(file, piece).await?;
        offset += bytes;
    }
    Ok(())
}

/// The failure of a mailbox that can't be written. `is_over` is set if a full mailbox need not be tried again.
fn unwritten(shown: &str, error: &MailboxError, is_over: bool) -> Failure {
    let text = format!("cannot write to {shown}: {error}");
    // RFC 3463 §3.3, §3.4: 4.2.0 other mailbox status, 4.2.1 mailbox disabled, 4.2.2 mailbox full, 4.3.0 other system
    // status, 4.3.1 system full.
    let (class, status) = match error {
        MailboxError::Full { .. } if is_over => (Class::Permanent, EnhancedStatus::new(5, 2, 2)),
        MailboxError::Full { .. } => (Class::Transient, EnhancedStatus::new(4, 2, 2)),
        MailboxError::Untrusted(_) => (Class::Transient, EnhancedStatus::new(4, 2, 1)),
        MailboxError::Missing(_) | MailboxError::Hangs => {
            (Class::Transient, EnhancedStatus::new(4, 3, 0))
        }
        MailboxError::Io(error) => (Class::Transient, status_of(error)),
    };
    Failure::local(class, status, text)
}

fn status_of(error: &io::Error) -> EnhancedStatus {
    match error.kind() {
        ErrorKind::StorageFull => EnhancedStatus::new(4, 3, 1),
        ErrorKind::ReadOnlyFilesystem | ErrorKind::StaleNetworkFileHandle => {
            EnhancedStatus::new(4, 3, 0)
        }
        // The user's disk quota.
        ErrorKind::QuotaExceeded => EnhancedStatus::new(4, 2, 2),
        _ => EnhancedStatus::new(4, 2, 0),
    }
}

/// Maximum length of the host name in file names, so that they fit into 255 octets.
const HOST_CHARS_MAX: usize = 128;

/// The name is the same if the message is delivered again after a crash. Message ids start at 1 in each new spool, so
/// the salt of the spool distinguishes names of several servers with shared mailboxes.
fn file_name<W: World>(slot: &Slot<W>, message: &Message, index: u32) -> String {
    let (seconds, salt) = (message.received_at.0 / 1000, slot.spool_salt());
    let host: String = slot.config().hostname.as_str().chars().take(HOST_CHARS_MAX).collect();
    format!("{seconds}.{}_{index}.{salt:016x}.{host}", message.id)
}
