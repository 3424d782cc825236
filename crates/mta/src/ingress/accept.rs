//! From content that is complete to a message that is durable and queued.

use super::{Ingress, policy, refusals};
use crate::budget::Share;
use crate::event::{self, Client, Event};
use crate::message::{Message, MessageBody};
use crate::meta;
use crate::routing::recipient::resolve_postmasters;
use crate::seams::World;
use bytes::Bytes;
use mail::received::Received;
use mail::{Envelope, MessageId, Reply};
use smtp::server::Transaction;
use spool::{BlobId, BodyChecksums, Completion};
use std::rc::Rc;
use std::sync::Arc;
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

/// Makes the message durable and queues it. `slots` holds room for its recipients.
pub(super) async fn commit<W: World>(
    ingress: &Rc<Ingress<W>>,
    accepted: Accepted,
    slots: Share,
) -> Reply {
    let (id, blob) = (accepted.id, accepted.blob.as_ref().map(|(blob, _)| *blob));
    if let Some(blob) = blob {
        let sealed = ingress.custody.seal_blob(id, blob).await;
        if !matches!(sealed, Completion::BlobDone) {
            ingress.custody.drop_blob(id, blob);
            let reply = Reply::from(refusals::of_log(&sealed));
            let refused = policy::content_refused(&accepted.transaction.envelope, reply.clone());
            policy::account(ingress, || accepted.client, refused);
            return reply;
        }
    }
    let client = Arc::clone(&accepted.client);
    let message = Rc::new(build(ingress, accepted));
    let (answer, answered) = oneshot::channel();
    let owner = Rc::clone(ingress);
    // Queued by the completion, not by this session: whatever becomes of the session, a durable
    // message is in the queue.
    let accepted = Rc::clone(&message);
    ingress.custody.accept(&message, move |completion| {
        let reply = conclude(&owner, &accepted, client, slots, blob, &completion);
        let _ = answer.send(reply);
    });
    answered.await.unwrap_or_else(|_| Reply::from(refusals::STOPPING))
}

fn conclude<W: World>(
    ingress: &Rc<Ingress<W>>,
    message: &Rc<Message>,
    client: Arc<Client>,
    slots: Share,
    blob: Option<BlobId>,
    completion: &Completion,
) -> Reply {
    let Completion::Durable { position } = *completion else {
        if matches!(completion, Completion::Refused(spool::Refusal::Poisoned)) {
            ingress.custody.handle_refused(message.id.log(), "a write or sync failed", completion);
        } else if let Some(blob) = blob {
            ingress.custody.drop_blob(message.id, blob);
        }
        ingress.services.metrics.commit_refused.inc();
        let reply = Reply::from(refusals::of_log(completion));
        policy::account(
            ingress,
            || client,
            policy::content_refused(&message.envelope, reply.clone()),
        );
        return reply;
    };
    // Each slot is given back when its recipient is settled.
    let _ = slots.keep();
    ingress.services.metrics.messages_received.inc();
    ingress.services.metrics.recipients_received.add(message.envelope.recipients.len() as u64);
    ingress.services.metrics.bytes_received.add(message.facts.body_bytes);
    if ingress.services.events.is_on() {
        let event = Event {
            at: message.received_at,
            message: Some(message.in_events()),
            recipients: event::Recipients::new(),
            kind: event::Kind::Received { client },
        };
        ingress.services.emit_at(event, message.id.log(), position);
    }
    ingress.schedule.enqueue(message);
    Reply::new(250, (2, 0, 0), format!("Ok: queued as {}", message.id))
}

fn build<W: World>(ingress: &Rc<Ingress<W>>, accepted: Accepted) -> Message {
    let at = ingress.services.wall();
    let active = ingress.router.active();
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
    let mut meta = meta::of_client(&accepted.client);
    meta.fields.extend(postmasters);
    let body = match accepted.blob {
        Some((blob, checksums)) => {
            meta.fields.push(checksums.finish());
            MessageBody::Blob(blob)
        }
        None => MessageBody::Memory(accepted.body),
    };
    if accepted.stranger {
        meta.fields.push(meta::stranger());
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
