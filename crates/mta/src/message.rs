//! A message in memory, and the store of those that will soon be needed again.

use crate::config::Config;
use crate::line::{Parts, Permit};
use bytes::Bytes;
use mail::map::FixedMap;
use mail::{ContentFacts, Envelope, Failure, MessageId, Wall};
use spool::{BlobId, Meta};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

/// A message of this shard, read-only and shared by its recipients.
#[derive(Debug)]
pub(crate) struct Message {
    /// Its id.
    pub(crate) id: MessageId,
    /// When it was received.
    pub(crate) received_at: Wall,
    /// Shared with the commit thread and with events.
    pub(crate) envelope: Arc<Envelope>,
    /// Facts about the session that brought it.
    pub(crate) meta: Meta,
    /// Added header fields, before the body.
    pub(crate) prefix: Bytes,
    /// The body.
    pub(crate) body: MessageBody,
    /// Found at intake.
    pub(crate) facts: ContentFacts,
    /// Why its last attempt failed, as the spool remembers it: known of messages that were read
    /// back from there.
    pub(crate) last_reason: Option<Box<str>>,
    /// Of one that was read back: the memory that it takes.
    pub(crate) memory: Option<Permit>,
}

/// What may be taken by messages that were read back: a quarter of the memory for bodies.
pub(crate) fn read_parts(config: &Config) -> Parts {
    Parts::equal((config.spool.body_memory_bytes / 4).max(1))
}

/// Where the body is.
#[derive(Clone, Debug)]
pub(crate) enum MessageBody {
    /// Here, in pieces.
    Memory(Vec<Bytes>),
    /// In a blob file.
    Blob(BlobId),
}

impl Message {
    /// Prefix and body: what a mailbox holds or a BDAT counts.
    #[must_use]
    pub(crate) fn content_bytes(&self) -> u64 {
        self.prefix.len() as u64 + self.facts.body_bytes
    }

    /// Whether a client handed it in that may not send to any domain. Of what was accepted before
    /// that was recorded it is not known: no stranger, then.
    #[must_use]
    pub(crate) fn is_from_stranger(&self) -> bool {
        self.meta.fields.iter().any(|(tag, _)| *tag == spool::record::tag::STRANGER)
    }

    /// The address of a recipient.
    #[must_use]
    pub(crate) fn address_of(&self, index: u32) -> Option<String> {
        self.envelope.recipients.get(index as usize).map(|recipient| recipient.mailbox.to_string())
    }

    /// Why the last attempt failed, if the spool remembers it. It remembers one reason for all
    /// recipients: what a peer said of one of several is no other's.
    #[must_use]
    pub(crate) fn last_failure(&self) -> Option<Arc<Failure>> {
        let failure = Failure::from_text(self.last_reason.as_deref()?);
        let is_own = self.envelope.recipients.len() == 1 || !failure.may_name_a_recipient();
        is_own.then(|| Arc::new(failure))
    }

    /// What keeping it costs: the content and about what its envelope and maps take.
    pub(crate) fn cost(&self) -> usize {
        let body = match &self.body {
            MessageBody::Memory(pieces) => pieces.iter().map(Bytes::len).sum(),
            MessageBody::Blob(_) => 0,
        };
        body + self.prefix.len() + 512 + self.envelope.recipients.len() * 96
    }
}

/// Messages kept since their acceptance, so that the usual first delivery reads nothing from
/// disk. The oldest leave first when the limit is reached: they are on disk, and what waited long
/// enough to be the oldest waits for something slower than a read.
#[derive(Debug)]
pub(crate) struct MessageCache {
    messages: FixedMap<MessageId, (Rc<Message>, u32)>,
    order: VecDeque<MessageId>,
    bytes: usize,
    bytes_max: usize,
}

impl MessageCache {
    /// A cache of at most `bytes_max`.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> MessageCache {
        MessageCache { messages: FixedMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Keeps `message` for its `open` recipients.
    pub(crate) fn insert(&mut self, message: Rc<Message>, open: u32) {
        let cost = message.cost();
        if cost > self.bytes_max {
            return;
        }
        while self.bytes + cost > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.drop_message(oldest);
        }
        self.bytes += cost;
        self.order.push_back(message.id);
        self.messages.insert(message.id, (message, open));
        self.trim_order();
    }

    /// The message, if it is still kept.
    #[must_use]
    pub(crate) fn get(&self, id: MessageId) -> Option<Rc<Message>> {
        self.messages.get(&id).map(|(message, _)| Rc::clone(message))
    }

    /// `settled` recipients are done with; the last one frees the message.
    pub(crate) fn settle(&mut self, id: MessageId, settled: u32) {
        let Some((_, open)) = self.messages.get_mut(&id) else { return };
        *open = open.saturating_sub(settled);
        if *open == 0 {
            self.drop_message(id);
        }
    }

    fn drop_message(&mut self, id: MessageId) {
        if let Some((message, _)) = self.messages.remove(&id) {
            self.bytes -= message.cost();
        }
    }

    /// Ids of messages that left stay in the order until they outnumber those that are kept.
    fn trim_order(&mut self) {
        while let Some(front) = self.order.front() {
            if self.messages.contains_key(front) {
                break;
            }
            self.order.pop_front();
        }
        if self.order.len() > 64 + 2 * self.messages.len() {
            self.order.retain(|id| self.messages.contains_key(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::BodyType;

    fn message(sequence: u64, body_bytes: usize) -> Rc<Message> {
        Rc::new(Message {
            id: MessageId::new(1, 0, sequence),
            received_at: Wall(0),
            envelope: Arc::new(Envelope {
                reverse_path: None,
                recipients: Vec::new(),
                body: BodyType::SevenBit,
                smtputf8: false,
                ret: None,
                envid: None,
            }),
            meta: Meta::default(),
            prefix: Bytes::new(),
            body: MessageBody::Memory(vec![Bytes::from(vec![b'x'; body_bytes])]),
            facts: ContentFacts::default(),
            last_reason: None,
            memory: None,
        })
    }

    #[test]
    fn one_recipient_is_not_told_what_was_said_of_another() {
        let reason = "mx said: 452 4.2.2 <bob@far.test> full (in reply to RCPT TO command)";
        let last = |reason: &str, recipients: usize| {
            let mut message = Rc::into_inner(message(1, 0)).unwrap();
            let mailbox = mail::Mailbox::parse("a@far.test", false).unwrap();
            let recipient =
                mail::Recipient { mailbox, notify: mail::Notify::UNSPECIFIED, orcpt: None };
            let mut envelope = Envelope::clone(&message.envelope);
            envelope.recipients = vec![recipient; recipients];
            (message.envelope, message.last_reason) = (Arc::new(envelope), Some(reason.into()));
            message.last_failure().map(|failure| failure.to_string())
        };
        assert_eq!(last(reason, 1).as_deref(), Some(reason));
        assert_eq!(last(reason, 2), None);
        assert_eq!(last("mx:25: refused", 2).as_deref(), Some("mx:25: refused"));
    }

    #[test]
    fn the_oldest_leave_first_and_the_limit_holds() {
        let mut cache = MessageCache::new(10_000);
        for n in 0..20 {
            cache.insert(message(n, 488), 1);
        }
        assert_eq!(cache.messages.len(), 10);
        assert!(cache.get(MessageId::new(1, 0, 9)).is_none());
        assert!(cache.get(MessageId::new(1, 0, 10)).is_some());
        cache.insert(message(99, 20_000), 1);
        assert!(cache.get(MessageId::new(1, 0, 99)).is_none(), "larger than the whole cache");
        assert_eq!(cache.messages.len(), 10, "and nothing had to leave for it");
    }

    #[test]
    fn the_last_recipient_frees_the_message() {
        let mut cache = MessageCache::new(10_000);
        cache.insert(message(1, 100), 2);
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_some());
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_none());
        for n in 2..10_000 {
            cache.insert(message(n, 0), 1);
            cache.settle(MessageId::new(1, 0, n), 1);
        }
        assert!(cache.order.len() <= 65, "{}", cache.order.len());
    }
}
