//! Submits messages that this server generates, except DSNs.

use super::commit::commit;
use super::decisions::{Grace, decided};
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
    BodyType, ContentScanner, Envelope, Mailbox, MessageId, Notify, Recipient, Refusal, RequireTls,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use tokio::sync::oneshot;

/// The `with` protocol for Received and events.
const PROTOCOL: &str = "LOCAL";

/// A message that this server generates, except DSNs.
#[derive(Debug)]
pub struct GeneratedMessage {
    pub sender: Mailbox,
    pub recipients: Vec<Mailbox>,
    /// With CRLF line ends.
    pub content: Bytes,
    /// The subject, for events.
    pub about: Arc<str>,
    /// A TLS report: TLS failures do not stop its delivery and are not reported (RFC 8460 §3).
    pub is_tls_report: bool,
    /// Gets the id once the message is durable and queued, or the error.
    pub answer: oneshot::Sender<Result<MessageId, String>>,
}

/// Makes a generated message durable and queues it.
pub(crate) async fn submit<W: World>(ingress: Rc<Ingress<W>>, own: GeneratedMessage) {
    let GeneratedMessage { sender, recipients, content, about, is_tls_report, answer } = own;
    let mut scanner = ContentScanner::default();
    scanner.push(&content);
    let facts = scanner.finish();
    // A failure of the message generates no DSN.
    let recipient = |mailbox| Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    let envelope = Envelope {
        reverse_path: Some(sender),
        recipients: recipients.into_iter().map(recipient).collect(),
        body: if facts.has_8bit { BodyType::EightBit } else { BodyType::SevenBit },
        smtputf8: false,
        ret: None,
        envid: None,
    };
    let hostname = ingress.router.active().config.hostname.clone();
    let client = Client {
        address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        proxy: None,
        name: OnceLock::new(),
        helo: Arc::from(hostname.as_str()),
        listener: about,
        protocol: PROTOCOL,
        tls: None,
        certified: None,
        login: None,
    };
    let stages = Rc::clone(&*ingress.common_stages.borrow());
    let above = decided(&ingress.services, above(&stages, &content), Grace::OfTransactions).await;
    let queued = match (ingress.custody.allocate_id(), above) {
        (Some(id), Ok(above)) => {
            let content = Content { id, blob: None, pieces: vec![content] };
            let contents = Rc::clone(&ingress) as _;
            let mut draft =
                Box::new(Draft::new(content, envelope, facts, Arc::new(client), contents));
            draft.hides_client = true;
            draft.additions = Additions::above(above);
            if is_tls_report {
                draft.is_tls_report = true;
                // Must be delivered despite the failures that it reports (RFC 8460 §3).
                draft.require_tls = RequireTls::No;
            }
            queue(&ingress, draft).await
        }
        (None, _) => Err(refusals::STOPPING),
        (_, Err(refusal)) => Err(refusal),
    };
    // The message is queued even if the requester has ended.
    let _ = answer.send(queued.map_err(|refusal| refusal.text.into_owned()));
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
) -> Result<MessageId, Refusal> {
    let mut slots = Share::none(&ingress.services.shared.queue_slots);
    if !slots.try_grow(draft.envelope.recipients.len() as u64) {
        return Err(refusals::QUEUE_FULL);
    }
    commit(ingress, draft, slots).await
}
