//! Submits messages that this server generates, except DSNs.

use super::commit::commit;
use super::decisions::{Grace, decided, decided_within};
use super::draft::{Additions, Draft};
use super::intake::Content;
use super::stage::Stages;
use super::{Ingress, refusals};
use crate::answer::{Answer, Decision};
use crate::budget::Share;
use crate::event::Client;
use crate::own_fields::SignatureFields;
use crate::seams::World;
use bytes::Bytes;
use mail::{
    BodyType, ContentScanner, Envelope, Mailbox, MessageId, Notify, Priority, Recipient, Refusal,
    RequireTls,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::oneshot;

/// The `with` protocol for Received and events.
const PROTOCOL: &str = "LOCAL";

/// A message that this server generates, except DSNs.
#[derive(Debug)]
pub struct GeneratedMessage {
    /// `None`: the null reverse-path, so that no server returns it.
    pub sender: Option<Mailbox>,
    pub recipients: Vec<Mailbox>,
    /// With CRLF line ends.
    pub content: Bytes,
    /// The subject, for events.
    pub about: Arc<str>,
    pub purpose: Purpose,
    /// Gets the message once it is durable and queued, or the error.
    pub answer: oneshot::Sender<Result<QueuedOwn, String>>,
}

/// The purpose of a generated message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A report to another party.
    Report,
    /// A TLS report: TLS failures do not stop its delivery and are not reported (RFC 8460 §3).
    TlsReport,
    /// An alert: it goes through the reserve, before other mail, and to the members of an alias.
    Alert,
}

/// A generated message that is queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedOwn {
    pub id: MessageId,
    /// After the expansion of aliases.
    pub recipients: usize,
}

/// Time from which an alert is not sent any more: then it is old news.
pub const ALERT_EXPIRES_AFTER: Duration = Duration::from_secs(86_400);
/// Timeout for the expansion of an alias to which an alert goes. Without an answer it goes to the alias itself.
const ALIAS_TIMEOUT: Duration = Duration::from_secs(5);

/// Makes a generated message durable and queues it.
pub(crate) async fn submit<W: World>(ingress: Rc<Ingress<W>>, own: GeneratedMessage) {
    let GeneratedMessage { sender, recipients, content, about, purpose, answer } = own;
    let queued = make(&ingress, (sender, recipients, content), &about, purpose).await;
    // The message is queued even if the requester has ended.
    let _ = answer.send(queued.map_err(|refusal| refusal.text.into_owned()));
}

async fn make<W: World>(
    ingress: &Rc<Ingress<W>>,
    (sender, recipients, content): (Option<Mailbox>, Vec<Mailbox>, Bytes),
    about: &Arc<str>,
    purpose: Purpose,
) -> Result<QueuedOwn, Refusal> {
    let reserved = match purpose {
        Purpose::Alert => Some(ingress.custody.alerts.reserve(content.len())?),
        Purpose::Report | Purpose::TlsReport => None,
    };
    let recipients = match purpose {
        Purpose::Alert => expanded(ingress, recipients).await,
        Purpose::Report | Purpose::TlsReport => recipients,
    };
    let count = recipients.len();
    let mut scanner = ContentScanner::default();
    scanner.push(&content);
    let facts = scanner.finish();
    let envelope = envelope(sender, recipients, facts.has_8bit);
    let stages = Rc::clone(&*ingress.common_stages.borrow());
    let above = decided(&ingress.services, above(&stages, &content), Grace::OfTransactions).await?;
    let id = ingress.custody.allocate_id().ok_or(refusals::STOPPING)?;
    let content = Content { id, blob: None, pieces: vec![content] };
    let (client, contents) = (client(ingress, about), Rc::clone(ingress) as _);
    let mut draft = Box::new(Draft::new(content, envelope, facts, Arc::new(client), contents));
    draft.hides_client = true;
    draft.additions = Additions::above(above);
    match purpose {
        Purpose::Report => {}
        Purpose::TlsReport => {
            draft.is_tls_report = true;
            // Must be delivered despite the failures that it reports (RFC 8460 §3).
            draft.require_tls = RequireTls::No;
        }
        Purpose::Alert => {
            draft.is_alert = true;
            draft.steering.priority = Priority::new(9);
            draft.steering.expires = Some(ingress.services.wall().after(ALERT_EXPIRES_AFTER));
        }
    }
    if let Some(share) = reserved {
        // Before it is queued: it may be settled at once.
        ingress.custody.alerts.add(id, count, share);
    }
    let queued = queue(ingress, draft, purpose).await;
    if queued.is_err() {
        ingress.custody.alerts.forget(id);
    }
    queued.map(|id| QueuedOwn { id, recipients: count })
}

/// The recipients, with the members of aliases in their place.
async fn expanded<W: World>(ingress: &Rc<Ingress<W>>, recipients: Vec<Mailbox>) -> Vec<Mailbox> {
    let readers = super::readers(&ingress.services, &ingress.router);
    let mut all = Vec::new();
    for recipient in recipients {
        let asked = readers(recipient.clone());
        let asked = Answer::later(async move { Ok(asked.get().await) });
        let grace = Grace::OfTransactions;
        let members = decided_within(&ingress.services, asked, grace, ALIAS_TIMEOUT).await;
        for member in members.unwrap_or_else(|_| vec![recipient]) {
            if !all.contains(&member) {
                all.push(member);
            }
        }
    }
    all
}

fn envelope(sender: Option<Mailbox>, recipients: Vec<Mailbox>, has_8bit: bool) -> Envelope {
    // A failure of the message generates no DSN.
    let recipient = |mailbox| Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    Envelope {
        reverse_path: sender,
        recipients: recipients.into_iter().map(recipient).collect(),
        body: if has_8bit { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8: false,
        ret: None,
        envid: None,
    }
}

fn client<W: World>(ingress: &Ingress<W>, about: &Arc<str>) -> Client {
    Client {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        proxy: None,
        name: OnceLock::new(),
        helo: Arc::from(ingress.router.active().config.hostname.as_str()),
        listener: Arc::clone(about),
        protocol: PROTOCOL,
        tls: None,
        certified: None,
        login: None,
        mechanism: None,
        uid: None,
    }
}

/// Header fields and signatures for a generated message with this content.
pub(super) fn above(stages: &Stages, content: &Bytes) -> Decision<'static, SignatureFields> {
    let mut asked = Vec::new();
    for stage in stages.iter() {
        match stage.own(content) {
            Answer::Now(Ok(None)) => {}
            answer => asked.push(answer),
        }
    }
    if asked.is_empty() {
        return Answer::Now(Ok(SignatureFields::default()));
    }
    Answer::later(async move {
        let (mut additions, mut signers) = (Additions::default(), Vec::new());
        for answer in asked {
            let signed = answer.get().await?.unwrap_or_default();
            signed.fields.iter().for_each(|lines| additions.prepend_folded(lines));
            signers.extend(signed.signers);
        }
        let signed = (!signers.is_empty()).then(|| Arc::from(signers));
        Ok(SignatureFields { prefix: Bytes::copy_from_slice(additions.fields()), signed })
    })
}

async fn queue<W: World>(
    ingress: &Rc<Ingress<W>>,
    draft: Box<Draft>,
    purpose: Purpose,
) -> Result<MessageId, Refusal> {
    let mut slots = Share::none(&ingress.services.shared.queue_slots);
    let recipients = draft.envelope.recipients.len() as u64;
    if purpose == Purpose::Alert {
        slots.grow(recipients);
    } else if !slots.try_grow(recipients) {
        return Err(refusals::QUEUE_FULL);
    }
    commit(ingress, draft, slots).await
}
