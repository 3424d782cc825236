//! From content that is complete to a message that is durable and queued.

use super::account::{account, content_refused};
use super::draft::Draft;
use super::room::HoldRoom;
use super::{Ingress, refusals};
use crate::budget::Share;
use crate::event::{self, Event};
use crate::holding::HeldShare;
use crate::message::{Message, MessageBody};
use crate::meta;
use crate::routing::recipient::resolve_postmasters;
use crate::seams::World;
use auth::checks::Summary;
use auth::{dmarc, spf};
use bytes::Bytes;
use config::Config;
use mail::received::Received;
use mail::{Envelope, MessageId, Refusal, Reply, Wall};
use spool::record::tag;
use spool::{BlobId, Completion};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// What the completion of a message needs.
struct Accepted {
    message: Rc<Message>,
    client: Arc<event::Client>,
    checked: Summary,
    signed: event::Signed,
    headers: event::Headers,
    hold: Option<Arc<str>>,
    hold_share: Option<HeldShare>,
    slots: Share,
    /// Until the queue counts its recipients.
    tenant_room: Option<Share>,
    blob: Option<BlobId>,
}

/// Makes the message durable and queues it. `slots` holds room for its recipients.
pub(super) async fn commit<W: World>(
    ingress: &Rc<Ingress<W>>,
    mut draft: Box<Draft>,
    slots: Share,
) -> Result<MessageId, Refusal> {
    let id = draft.content.id;
    let blob = draft.content.blob.as_ref().map(|(blob, _)| *blob);
    if let Some(blob) = blob {
        let sealed = ingress.custody.seal_blob(id, blob).await;
        if !matches!(sealed, Completion::BlobDone) {
            ingress.custody.drop_blob(id, blob);
            let refusal = refusals::of_log(&sealed);
            let refused = content_refused(&draft.envelope, Reply::from(refusal.clone()));
            account(ingress, &draft.client, refused);
            return Err(refusal);
        }
    }
    let (client, hold) = (Arc::clone(&draft.client), draft.additions.hold.take());
    let (checked, signed) = (draft.additions.checked, draft.additions.signed.take());
    let headers = draft.additions.headers.take();
    let room = draft.additions.hold_room.take().map(|HoldRoom { share, field }| (share, field));
    let (hold_share, held) = room.unzip();
    // Until it is durable.
    let _memory = draft.memory.take();
    let tenant_room = draft.tenant_room.take();
    let mut message = build(ingress, draft);
    message.meta.fields.extend(held);
    let message = Rc::new(message);
    let (answer, answered) = oneshot::channel();
    let owner = Rc::clone(ingress);
    let accepted = Accepted {
        message: Rc::clone(&message),
        client,
        checked,
        signed,
        headers,
        hold: hold.clone(),
        hold_share,
        slots,
        tenant_room,
        blob,
    };
    // Queued by the completion, not by this session: whatever becomes of the session, a durable
    // message is in the queue.
    ingress.custody.accept(&message, hold.as_deref(), move |completion| {
        let _ = answer.send(conclude(&owner, accepted, &completion));
    });
    answered.await.unwrap_or(Err(refusals::STOPPING))
}

fn conclude<W: World>(
    ingress: &Rc<Ingress<W>>,
    accepted: Accepted,
    completion: &Completion,
) -> Result<MessageId, Refusal> {
    let Accepted {
        message,
        client,
        checked,
        signed,
        headers,
        hold,
        mut slots,
        tenant_room,
        blob,
        ..
    } = accepted;
    let Completion::Durable { position } = *completion else {
        if matches!(completion, Completion::Refused(spool::Refusal::Poisoned)) {
            ingress.custody.handle_refused(message.id.log(), "a write or sync failed", completion);
        } else if let Some(blob) = blob {
            ingress.custody.drop_blob(message.id, blob);
        }
        ingress.services.metrics.commit_refused.inc();
        let refusal = refusals::of_log(completion);
        let refused = content_refused(&message.envelope, Reply::from(refusal.clone()));
        account(ingress, &client, refused);
        return Err(refusal);
    };
    // Room was made before the content for whomever each recipient stands for: several may stand for
    // the same one, and stages may have removed some.
    slots.shrink_to(message.envelope.recipients.len() as u64);
    // Each slot is given back when its recipient is settled.
    let _ = slots.keep();
    ingress.services.metrics.messages_received.inc();
    ingress.services.metrics.recipients_received.add(message.envelope.recipients.len() as u64);
    ingress.services.metrics.bytes_received.add(message.facts.body_bytes);
    let require_tls = message.require_tls();
    let received = event::Kind::Received { client, checked, require_tls, signed, headers };
    tell(ingress, &message, position, received);
    if let Some(reason) = hold {
        ingress.schedule.enqueue_held(&message, &reason, accepted.hold_share);
        tell(ingress, &message, position, event::Kind::Held { reason });
    } else {
        ingress.schedule.enqueue(&message);
    }
    drop(tenant_room);
    Ok(message.id)
}

fn tell<W: World>(ingress: &Ingress<W>, message: &Message, position: u64, kind: event::Kind) {
    if !ingress.services.events.is_on() {
        return;
    }
    let event = Event {
        at: message.received_at,
        message: Some(message.in_events()),
        recipients: event::Recipients::new(),
        kind,
    };
    ingress.services.emit_at(event, message.id.log(), position);
}

/// Whether SPF or DMARC says that the sender is who it says it is.
fn is_vouched(checked: &Summary) -> bool {
    checked.spf == Some(spf::Verdict::Pass) || checked.dmarc == Some(dmarc::Verdict::Pass)
}

/// The header fields in front of the content.
pub(super) fn prefix_of(config: &Config, draft: &Draft, at: Wall) -> Vec<u8> {
    let Draft { content, envelope, client, hides_client, additions, .. } = draft;
    let mut prefix = Vec::with_capacity(256);
    prefix.extend_from_slice(additions.fields());
    // Trace information of others has a form of its own.
    if additions.has_meta(tag::X400) {
        return prefix;
    }
    let received = Received {
        helo: &client.helo,
        client: (!hides_client).then(|| client.address.ip()),
        client_name: client.confirmed_name(),
        by: config.hostname.as_str(),
        with: client.protocol,
        id: content.id,
        for_recipient: only_recipient(envelope),
        tls: client.tls.map(|tls| tls.cipher),
        certified: client.certified.as_deref().filter(|_| !hides_client),
        at,
    };
    received.write_to(&mut prefix);
    prefix
}

fn build<W: World>(ingress: &Rc<Ingress<W>>, mut draft: Box<Draft>) -> Message {
    let at = ingress.services.wall();
    let active = ingress.router.active();
    let postmasters = resolve_postmasters(&active.config, &mut draft.envelope);
    let prefix = prefix_of(&active.config, &draft, at);
    let Draft { content, mut envelope, facts, client, is_from_stranger, .. } = *draft;
    let Draft { require_tls, steering, forwarded, owners, mut additions, omitted, .. } = *draft;
    let mut meta = meta::of_client(&client);
    meta.fields.splice(0..0, steering.to_fields());
    meta.fields.extend(postmasters);
    let body = match content.blob {
        Some((blob, checksums)) => {
            meta.fields.push(checksums.finish());
            MessageBody::Blob(blob)
        }
        None => MessageBody::Memory(content.pieces),
    };
    if is_from_stranger {
        meta.fields.push(meta::stranger(is_vouched(&additions.checked)));
        disregard_wishes(&mut envelope);
    }
    meta.fields.extend(meta::omitted(&omitted));
    meta.fields.extend(meta::forwarded(&forwarded));
    meta.fields.extend(meta::owners(&owners));
    meta.fields.extend(meta::require_tls(require_tls));
    meta.fields.extend(steering.to_last_fields());
    additions.add_to(&mut meta);
    Message {
        id: content.id,
        received_at: at,
        envelope: Arc::new(envelope),
        meta,
        prefix: Bytes::from(prefix),
        body,
        omitted,
        facts,
        last_reason: None,
        overrides: None,
        memory: None,
        converted_from: None,
    }
}

fn only_recipient(envelope: &Envelope) -> Option<&str> {
    match envelope.recipients.as_slice() {
        [only] => Some(only.mailbox.as_str()),
        _ => None,
    }
}

/// A stranger's wish to hear of successes and delays counts for nothing, here and at the next hop:
/// anybody could have such reports sent to anybody else. What fails is reported.
fn disregard_wishes(envelope: &mut Envelope) {
    for recipient in envelope.recipients.iter_mut().filter(|r| r.notify.is_specified()) {
        recipient.notify = mail::Notify(recipient.notify.0 & mail::Notify::FAILURE.0);
    }
}
