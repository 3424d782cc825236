//! Mail that this server itself has to say, beside DSNs.

use super::commit::commit;
use super::draft::{Additions, Draft};
use super::intake::Content;
use super::{Ingress, refusals};
use crate::budget::Share;
use crate::event::Client;
use crate::inbox::OwnMessage;
use crate::meta::{self, Owners};
use crate::seams::World;
use mail::{
    BodyType, ContentScanner, Envelope, MessageId, Notify, Omitted, Recipient, Refusal, RequireTls,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

/// How it came, for Received and events.
const PROTOCOL: &str = "LOCAL";

/// Makes such a message durable, and queues it.
pub(crate) async fn submit<W: World>(ingress: Rc<Ingress<W>>, own: OwnMessage) {
    let OwnMessage { sender, recipients, content, about, is_tls_report, answer } = own;
    let mut scanner = ContentScanner::default();
    scanner.push(&content);
    let facts = scanner.finish();
    // Nobody is told what becomes of it.
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
    let queued = match ingress.custody.allocate_id() {
        Some(id) => {
            let mut additions = Additions::default();
            if is_tls_report {
                let (tag, value) = meta::tls_report();
                additions.set_meta(tag, value);
            }
            let draft = Draft {
                content: Content { id, blob: None, pieces: vec![content] },
                envelope,
                facts,
                client: Arc::new(client),
                is_from_stranger: false,
                // What tells of failures of TLS must arrive in spite of them (RFC 8460 §3).
                require_tls: match is_tls_report {
                    true => RequireTls::No,
                    false => RequireTls::Unsaid,
                },
                forwarded: Vec::new(),
                owners: Owners::new(),
                additions,
                hides_client: true,
                given: Vec::new(),
                discarded: None,
                omitted: Omitted::default(),
                contents: Rc::clone(&ingress) as _,
                memory: None,
            };
            queue(&ingress, draft).await
        }
        None => Err(refusals::STOPPING),
    };
    // Who asked may be gone: the message is queued all the same.
    let _ = answer.send(queued.map_err(|refusal| refusal.text.into_owned()));
}

async fn queue<W: World>(ingress: &Rc<Ingress<W>>, draft: Draft) -> Result<MessageId, Refusal> {
    let mut slots = Share::none(&ingress.services.shared.queue_slots);
    if !slots.try_grow(draft.envelope.recipients.len() as u64) {
        return Err(refusals::QUEUE_FULL);
    }
    commit(ingress, draft, slots).await
}
