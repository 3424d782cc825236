//! From content that is complete to a message that is durable and queued.

use super::account::{account, content_refused};
use super::content::Gathers;
use super::draft::{Draft, StageResults};
use super::intake::Content;
use super::{Ingress, refusals, room};
use crate::budget::Share;
use crate::event::{self, Event};
use crate::facts::{ClientAddress, Facts, Present, Ranges, Stranger};
use crate::holding::HeldShare;
use crate::message::{Message, MessageBody};
use crate::routing::addresses::resolve_postmasters;
use crate::seams::World;
use auth::checks::AuthSummary;
use auth::{dmarc, spf};
use bytes::Bytes;
use config::Config;
use mail::received::Received;
use mail::{Envelope, MessageId, Refusal, Reply, RequireTls, Wall};
use spool::{BlobId, Completion, Meta};
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

/// State needed to finish the acceptance of a message once the log has answered.
struct Accepted {
    message: Rc<Message>,
    client: Arc<event::Client>,
    checked: AuthSummary,
    signed: event::Signed,
    headers: event::Headers,
    given: event::Given,
    hold: Option<Arc<str>>,
    hold_share: Option<HeldShare>,
    slots: Share,
    /// Released once the queue counts the recipients.
    tenant_room: Option<Share>,
    blob: Option<BlobId>,
    /// Body memory held for the content until the message is durable.
    memory: Option<Box<dyn Gathers>>,
}

/// Makes the message durable and queues it. `slots` is the capacity reserved for its recipients.
pub(super) async fn commit<W: World>(
    ingress: &Rc<Ingress<W>>,
    mut draft: Box<Draft>,
    slots: Share,
) -> Result<MessageId, Refusal> {
    if !draft.twins.is_empty() {
        // Boxed: few messages are split, and the future would enlarge every session.
        return Box::pin(commit_all(ingress, draft, slots)).await;
    }
    if let Err(refusal) = seal(ingress, &mut draft).await {
        let refused = content_refused(&draft.envelope, Reply::from(refusal.clone()));
        account(ingress, &draft.client, refused);
        return Err(refusal);
    }
    let (answer, answered) = oneshot::channel();
    let owner = Rc::clone(ingress);
    let accepted = build(ingress, draft, slots);
    let (message, hold) = (Rc::clone(&accepted.message), accepted.hold.clone());
    // The completion queues the message, not this session: a durable message is in the queue even if the session ends.
    ingress.custody.accept(&message, hold.as_deref(), move |completion| {
        let _ = answer.send(conclude(&owner, accepted, &completion));
    });
    answered.await.unwrap_or(Err(refusals::STOPPING))
}

/// Makes the body file of a message durable, if it has one. On an error the file is dropped.
async fn seal<W: World>(ingress: &Ingress<W>, draft: &mut Draft) -> Result<(), Refusal> {
    let Some((blob, _)) = draft.content.blob else { return Ok(()) };
    let sealed = ingress.custody.seal_blob(draft.content.id, blob).await;
    if matches!(sealed, Completion::BlobDone) {
        return Ok(());
    }
    draft.forget_blob();
    Err(refusals::of_log(&sealed))
}

/// As [`commit`], for a message that was split: its parts become durable together. Returns the id of the first.
async fn commit_all<W: World>(
    ingress: &Rc<Ingress<W>>,
    mut draft: Box<Draft>,
    mut slots: Share,
) -> Result<MessageId, Refusal> {
    let twins = std::mem::take(&mut draft.twins);
    let mut drafts: Vec<Draft> = std::iter::once(*draft).chain(twins).collect();
    for at in 0..drafts.len() {
        let Some(draft) = drafts.get_mut(at) else { break };
        if let Err(refusal) = seal(ingress, draft).await {
            let refused = content_refused(&draft.envelope, Reply::from(refusal.clone()));
            account(ingress, &draft.client, refused);
            drafts.iter_mut().for_each(Draft::forget_blob);
            return Err(refusal);
        }
    }
    let mut accepted = Vec::with_capacity(drafts.len());
    for draft in drafts {
        let share = slots.split_off(draft.envelope.recipients.len() as u64);
        accepted.push(build(ingress, Box::new(draft), share));
    }
    let (answer, answered) = oneshot::channel();
    let owner = Rc::clone(ingress);
    let messages: Vec<(Rc<Message>, Option<Arc<str>>)> =
        accepted.iter().map(|one| (Rc::clone(&one.message), one.hold.clone())).collect();
    let messages = messages.iter().map(|(message, hold)| (&**message, hold.as_deref()));
    ingress.custody.accept_together(messages, move |completion| {
        let mut concluded = accepted.into_iter().map(|one| conclude(&owner, one, &completion));
        let first = concluded.next().unwrap_or(Err(refusals::STOPPING));
        concluded.for_each(drop);
        let _ = answer.send(first);
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
        given,
        hold,
        hold_share,
        mut slots,
        tenant_room,
        blob,
        memory,
    } = accepted;
    drop(memory);
    let Completion::Durable { position } = *completion else {
        if matches!(completion, Completion::Refused(spool::Refusal::Poisoned)) {
            ingress.custody.handle_refused(message.id.log(), "write or sync failed", completion);
        } else if let Some(blob) = blob {
            ingress.custody.drop_blob(message.id, blob);
        }
        ingress.services.metrics.commit_refused.inc();
        let refusal = refusals::of_log(completion);
        let refused = content_refused(&message.envelope, Reply::from(refusal.clone()));
        account(ingress, &client, refused);
        return Err(refusal);
    };
    // Capacity was reserved before the content for every expanded recipient. Several recipients may expand to the same
    // address, and stages may have removed some.
    slots.shrink_to(message.envelope.recipients.len() as u64);
    // Each slot is released when its recipient is settled.
    let _ = slots.keep();
    ingress.services.metrics.messages_received.inc();
    ingress.services.metrics.recipients_received.add(message.envelope.recipients.len() as u64);
    ingress.services.metrics.bytes_received.add(message.facts.body_bytes);
    let require_tls = message.require_tls();
    let received = event::Kind::Received { client, checked, require_tls, signed, headers, given };
    tell(ingress, &message, position, received);
    if let Some(reason) = hold {
        ingress.schedule.enqueue_held(&message, &reason, hold_share);
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

/// Returns true if SPF or DMARC passed.
fn is_vouched(checked: &AuthSummary) -> bool {
    checked.spf == Some(spf::SpfResult::Pass) || checked.dmarc == Some(dmarc::DmarcResult::Pass)
}

/// The header fields that this server puts in front of the content.
pub(super) fn prefix_of(config: &Config, draft: &Draft, at: Wall) -> Vec<u8> {
    let (content, envelope, client) = (&draft.content, &draft.envelope, &draft.client);
    let (hides_client, additions) = (draft.hides_client, &draft.additions);
    let mut prefix = Vec::with_capacity(256);
    prefix.extend_from_slice(additions.fields());
    // Foreign (X.400) messages carry trace information in their own format.
    if draft.x400.is_some() {
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
        uid: client.uid,
        at,
    };
    received.write_to(&mut prefix);
    prefix
}

/// Takes a draft apart into the message and the state for its completion. Exhaustive, so that a new field can't be
/// forgotten.
fn build<W: World>(ingress: &Rc<Ingress<W>>, mut draft: Box<Draft>, slots: Share) -> Accepted {
    let at = ingress.services.wall();
    let active = ingress.router.active();
    let (envelope, records) = (&mut draft.envelope, &mut draft.records);
    resolve_postmasters(&active.config, envelope, records);
    let prefix = Bytes::from(prefix_of(&active.config, &draft, at));
    let blob = draft.content.blob.take();
    let (blob, checksums) = blob.map(|(blob, sums)| (blob, sums.finish().1)).unzip();
    let meta = kept_of(&draft, checksums.as_ref());
    let is_on = ingress.services.events.is_on();
    let given = if is_on { draft.records.originals() } else { None };
    let Draft {
        content: Content { id, blob: _, pieces },
        mut envelope,
        facts,
        client,
        is_from_stranger,
        omitted,
        additions,
        memory,
        tenant_room,
        // In the metadata already, or not needed any more.
        is_foreign: _,
        require_tls: _,
        steering: _,
        tenants: _,
        tenancy: _,
        records: _,
        x400: _,
        is_tls_report: _,
        is_alert: _,
        hides_client: _,
        discarded: _,
        contents: _,
        twins: _,
    } = *draft;
    if is_from_stranger {
        disregard_wishes(&mut envelope);
    }
    let body = blob.map_or(MessageBody::Memory(pieces), MessageBody::Blob);
    let mut message = Message::new((id, at), envelope, (meta, prefix), (body, facts));
    message.omitted = omitted;
    let StageResults { checked, signed, headers, hold, hold_share } = additions.told();
    let message = Rc::new(message);
    Accepted {
        message,
        client,
        checked,
        signed,
        headers,
        given,
        hold,
        hold_share,
        slots,
        tenant_room,
        blob,
        memory,
    }
}

/// The metadata that the spool stores with the message.
fn kept_of(draft: &Draft, checksums: Option<&Bytes>) -> Meta {
    let client = &draft.client;
    // Fits every IPv4 address and most IPv6 addresses.
    let mut address = Vec::with_capacity(32);
    mail::received::write_address(&mut address, client.address.ip());
    let (lists, omitted) = (draft.records.lists(), draft.omitted.to_bytes());
    let is_vouched = is_vouched(&draft.additions.checked);
    let held = draft.additions.hold_room.as_ref();
    let facts = Facts {
        login: client.login.as_deref(),
        listener: Some(&client.listener),
        client: std::str::from_utf8(&address).ok().map(ClientAddress),
        helo: Some(&client.helo),
        postmasters: lists.postmasters(),
        checksums,
        stranger: draft.is_from_stranger.then_some(Stranger { is_vouched }),
        forwarded: lists.forwarded(),
        owners: lists.owners(),
        omitted: (!omitted.is_empty()).then_some(Ranges(&omitted)),
        require_tls: Some(draft.require_tls).filter(|asked| *asked != RequireTls::Unsaid),
        tls_report: draft.is_tls_report.then_some(Present),
        alert: draft.is_alert.then_some(Present),
        x400: draft.x400.as_ref(),
        refused: lists.refused(),
        held: held.and_then(|room| room::hold_of(draft, room.is_returnable)),
        ..draft.steering.facts()
    };
    facts.to_meta()
}

fn only_recipient(envelope: &Envelope) -> Option<&str> {
    match envelope.recipients.as_slice() {
        [only] => Some(only.mailbox.as_str()),
        _ => None,
    }
}

/// Ignores NOTIFY=SUCCESS and NOTIFY=DELAY of clients that may not relay, here and at the next hop. With a forged
/// reverse-path any client could direct these reports at a third party. Failures are reported.
fn disregard_wishes(envelope: &mut Envelope) {
    for recipient in envelope.recipients.iter_mut().filter(|r| r.notify.is_specified()) {
        recipient.notify = mail::Notify(recipient.notify.0 & mail::Notify::FAILURE.0);
    }
}
