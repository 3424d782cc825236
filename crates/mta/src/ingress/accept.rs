//! From content that is complete to a message that is durable and queued.

use super::policy;
use crate::budget::Share;
use crate::config::{self, Config};
use crate::event::{self, Client, Event};
use crate::message::{Message, MessageBody};
use crate::seams::{Time, World};
use crate::settle::emit_at;
use crate::shard::Shard;
use bytes::Bytes;
use mail::received::Received;
use mail::{Envelope, MessageId, Mono, Reply};
use queue::NewEntry;
use smtp::server::Transaction;
use spool::record::tag;
use spool::{Accept, BlobId, Body, BodyChecksums, Completion, Meta, Record, Refusal, Request};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

/// A message whose content is complete.
pub(crate) struct Accepted {
    pub(crate) id: MessageId,
    /// Where the body is, if not in `body`; not sealed yet. [`commit`] drops it if need be.
    pub(crate) blob: Option<(BlobId, BodyChecksums)>,
    pub(crate) body: Vec<Bytes>,
    pub(crate) transaction: Transaction,
    pub(crate) client: Arc<Client>,
    /// The client may not send to any domain.
    pub(crate) stranger: bool,
}

/// Normal priority (RFC 6710 calls it 0; ours are 0 to 9).
pub(crate) const PRIORITY_NORMAL: u8 = 4;

/// Makes the message durable and queues it. `slots` holds room for its recipients.
pub(super) async fn commit<W: World>(
    shard: &Rc<Shard<W>>,
    accepted: Accepted,
    slots: Share,
) -> Reply {
    let (id, blob) = (accepted.id, accepted.blob.as_ref().map(|(blob, _)| *blob));
    if let Some(blob) = blob {
        let sealed = shard.spool.request(id, |ticket| Request::BlobSeal { ticket, blob }).await;
        if !matches!(sealed, Completion::BlobDone) {
            shard.spool.drop_blob(id, blob);
            let reply = refusal_reply(&sealed);
            let refused = policy::content_refused(&accepted.transaction.envelope, reply.clone());
            policy::account(shard, || accepted.client, refused);
            return reply;
        }
    }
    let client = Arc::clone(&accepted.client);
    let message = Rc::new(build(shard, accepted));
    let accept = Record::Accept(Box::new(accept_record(&message)));
    // The settles that wait go with the same commit.
    shard.flush_settles();
    let (answer, answered) = oneshot::channel();
    let owner = Rc::clone(shard);
    // Queued by the completion, not by this session: whatever becomes of the session, a durable
    // message is in the queue.
    shard.spool.submit_then(id, vec![accept], move |completion| {
        let reply = conclude(&owner, &message, client, slots, blob, &completion);
        let _ = answer.send(reply);
    });
    answered.await.unwrap_or_else(|_| Reply::new(451, (4, 3, 0), "The server is stopping"))
}

fn conclude<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Rc<Message>,
    client: Arc<Client>,
    slots: Share,
    blob: Option<BlobId>,
    completion: &Completion,
) -> Reply {
    let Completion::Durable { position } = *completion else {
        if matches!(completion, Completion::Refused(Refusal::Poisoned)) {
            shard.handle_refused(message.id.log(), "a write or sync failed", completion);
        } else if let Some(blob) = blob {
            shard.spool.drop_blob(message.id, blob);
        }
        shard.metrics.commit_refused.inc();
        let reply = refusal_reply(completion);
        policy::account(
            shard,
            || client,
            policy::content_refused(&message.envelope, reply.clone()),
        );
        return reply;
    };
    // Each slot is given back when its recipient is settled.
    let _ = slots.keep();
    shard.metrics.messages_received.inc();
    shard.metrics.recipients_received.add(message.envelope.recipients.len() as u64);
    shard.metrics.bytes_received.add(message.facts.body_bytes);
    if shard.events.is_on() {
        let event = Event {
            at: message.received_at,
            message: Some(event_message(message)),
            recipients: event::Recipients::new(),
            kind: event::Kind::Received { client },
        };
        emit_at(&*shard.events, event, message.id.log(), position);
    }
    shard.enqueue(message);
    Reply::new(250, (2, 0, 0), format!("Ok: queued as {}", message.id))
}

fn refusal_reply(completion: &Completion) -> Reply {
    match completion {
        Completion::Refused(Refusal::Full) => {
            Reply::new(452, (4, 3, 1), "The spool's disk is nearly full; try again later")
        }
        Completion::Refused(Refusal::Scarce) => {
            Reply::new(452, (4, 3, 1), "The server is short of files or memory; try again later")
        }
        Completion::Refused(Refusal::TooLarge) => {
            Reply::new(552, (5, 3, 4), "The message does not fit into the spool")
        }
        _ => Reply::new(451, (4, 3, 0), "The spool cannot write; try again later"),
    }
}

/// The message as events show it.
pub(crate) fn event_message(message: &Message) -> event::Message {
    event::Message {
        id: message.id,
        position: None,
        envelope: Some(Arc::clone(&message.envelope)),
        received_at: message.received_at,
        body_bytes: message.facts.body_bytes,
    }
}

fn build<W: World>(shard: &Rc<Shard<W>>, accepted: Accepted) -> Message {
    let at = shard.world.time().wall();
    let active = shard.active();
    let mut transaction = accepted.transaction;
    let postmasters = resolve_postmasters(&active.config, &mut transaction.envelope);
    let mut prefix = Vec::with_capacity(256);
    let only = match transaction.envelope.recipients.as_slice() {
        [only] => Some(only.mailbox.as_str()),
        _ => None,
    };
    Received {
        helo: &transaction.helo,
        client: accepted.client.address.ip(),
        by: active.config.hostname.as_str(),
        with: transaction.protocol,
        id: accepted.id,
        for_recipient: only,
        at,
    }
    .write_to(&mut prefix);
    let mut meta = meta_of(&accepted.client, postmasters);
    let body = match accepted.blob {
        Some((blob, checksums)) => {
            meta.fields.push(checksums.finish());
            MessageBody::Blob(blob)
        }
        None => MessageBody::Memory(accepted.body),
    };
    if accepted.stranger {
        meta.fields.push((tag::STRANGER, Bytes::from_static(&[1])));
        disregard_wishes(&mut transaction.envelope);
    }
    Message {
        id: accepted.id,
        received_at: at,
        envelope: Arc::new(transaction.envelope),
        meta,
        prefix: Bytes::from(prefix),
        body,
        facts: transaction.facts,
        last_reason: None,
        memory: None,
    }
}

/// A stranger's wish to hear of successes and delays counts for nothing, here and at the next hop:
/// anybody could have such reports sent to anybody else. What fails is reported.
fn disregard_wishes(envelope: &mut Envelope) {
    for recipient in envelope.recipients.iter_mut().filter(|r| r.notify.is_specified()) {
        recipient.notify = mail::Notify(recipient.notify.0 & mail::Notify::FAILURE.0);
    }
}

/// Recipients that stand for our postmaster (RFC 5321 §4.5.1) get the address that the
/// configuration names. Their indexes as a field, if there are any: they go the postmaster's way,
/// not their domain's.
pub(crate) fn resolve_postmasters(
    config: &Config,
    envelope: &mut Envelope,
) -> Option<(u16, Bytes)> {
    let mut indexes = Vec::new();
    for (recipient, index) in envelope.recipients.iter_mut().zip(0_u32..) {
        if config.is_postmaster(&recipient.mailbox) {
            recipient.mailbox = config.postmaster.address.clone();
            indexes.extend_from_slice(&index.to_le_bytes());
        }
    }
    (!indexes.is_empty()).then(|| (tag::POSTMASTER, Bytes::from(indexes)))
}

/// Whether [`resolve_postmasters`] counted this recipient in.
pub(crate) fn is_for_postmaster(meta: &Meta, index: u32) -> bool {
    let field = meta.fields.iter().find(|(field, _)| *field == tag::POSTMASTER);
    field.is_some_and(|(_, value)| value.chunks(4).any(|piece| piece == index.to_le_bytes()))
}

fn meta_of(client: &Client, postmasters: Option<(u16, Bytes)>) -> Meta {
    let address = client.address.ip().to_string();
    let mut fields = vec![
        (tag::LISTENER, Bytes::copy_from_slice(client.listener.as_bytes())),
        (tag::CLIENT_ADDRESS, Bytes::from(address.into_bytes())),
        (tag::CLIENT_EHLO, Bytes::copy_from_slice(client.helo.as_bytes())),
    ];
    fields.extend(postmasters);
    Meta { fields }
}

/// The record that makes `message` durable.
pub(crate) fn accept_record(message: &Message) -> Accept {
    Accept {
        id: message.id,
        received_at: message.received_at,
        envelope: Arc::clone(&message.envelope),
        meta: message.meta.clone(),
        prefix: message.prefix.clone(),
        body: match &message.body {
            MessageBody::Memory(pieces) => Body::Memory(pieces.clone()),
            MessageBody::Blob(blob) => {
                Body::Blob { blob: *blob, body_bytes: message.facts.body_bytes }
            }
        },
        facts: message.facts,
    }
}

impl<W: World> Shard<W> {
    /// Queues every recipient of a message that has just become durable.
    pub(crate) fn enqueue(self: &Rc<Self>, message: &Rc<Message>) {
        let now = self.now();
        let count = u32::try_from(message.envelope.recipients.len()).unwrap_or(u32::MAX);
        self.cache.borrow_mut().insert(Rc::clone(message), count);
        for (recipient, index) in message.envelope.recipients.iter().zip(0..) {
            let entry = NewEntry {
                id: message.id,
                recipient: index,
                received: now,
                age_before_start: Duration::ZERO,
                due: Mono(0),
                attempts: 0,
                priority: PRIORITY_NORMAL,
                held: false,
                warned: false,
            };
            let postmaster = is_for_postmaster(&message.meta, index);
            let route = if postmaster { config::POSTMASTER_ROUTE } else { "" };
            let is_report = message.envelope.reverse_path.is_none();
            let key = self.scheduled_key(recipient.mailbox.domain(), route, is_report);
            self.push_entry(now, &key, entry);
        }
        self.pump();
    }
}
