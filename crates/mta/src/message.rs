//! A message in memory.

use crate::event;
use crate::facts::{KeptOwner, StoredFacts};
use crate::line::Permit;
use crate::overrides::Overrides;
use bytes::Bytes;
use config::Config;
use mail::dsn::xtext::Envid;
use mail::{
    ByMode, ContentFacts, ContentScanner, DeliverBy, Envelope, Failure, Mailbox, MessageId,
    Omitted, Priority, RequireTls, Wall,
};
use spool::{Accept, BlobId, Body, Loaded, LoadedBody, Meta};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::rc::Rc;
use std::sync::Arc;

/// A message of this shard, read-only and shared by its recipients.
#[derive(Debug)]
pub struct Message {
    pub id: MessageId,
    pub received_at: Wall,
    /// Shared with the commit thread and with events.
    pub envelope: Arc<Envelope>,
    /// Facts about its session.
    pub meta: Meta,
    /// Added header fields, before the body.
    pub prefix: Bytes,
    /// As stored.
    pub(crate) body: MessageBody,
    /// Ranges of the content that are never sent.
    pub(crate) omitted: Omitted,
    /// Found at intake, about all that is stored.
    pub facts: ContentFacts,
    /// Reason of the last failed attempt, as stored in the spool: set for messages that were loaded from it.
    pub last_reason: Option<Box<str>>,
    /// An operator's overrides of `meta`: set for messages that were loaded from the spool.
    pub overrides: Option<Box<Overrides>>,
    /// Its memory permit, if it was loaded or converted.
    pub memory: Option<Permit>,
    /// The original, if it was converted for a route that accepts internet mail only.
    pub(crate) converted_from: Option<ConvertedFrom>,
}

/// The original of a converted message, and the parameters to repeat the conversion.
#[derive(Clone, Debug)]
pub(crate) struct ConvertedFrom {
    pub(crate) message: Rc<Message>,
    conversion: Rc<Conversion>,
}

/// Parameters of a conversion: repeating it with the same ones gives the same content.
#[derive(Debug)]
pub struct Conversion {
    /// The configuration that was in force.
    pub(crate) config: Arc<Config>,
    /// Fields above the content.
    prefix: Bytes,
    digest: u64,
}

impl Conversion {
    /// A conversion with the result `content`.
    pub(crate) fn new(config: Arc<Config>, prefix: Bytes, content: &[u8]) -> Rc<Conversion> {
        Rc::new(Conversion { config, prefix, digest: digest(content) })
    }

    /// Returns true if `content` is the same as the first result.
    pub(crate) fn is_of(&self, content: &[u8]) -> bool {
        self.digest == digest(content)
    }
}

fn digest(content: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}

/// The reverse-path for a recipient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SentBy<'a> {
    /// The sender.
    Sender,
    /// A local address in place of the sender (SRS).
    Rewritten,
    /// The owner of the recipient's list.
    Owner(&'a str),
}

/// The parts of a message that a conversion needs, on any thread.
#[derive(Clone, Debug)]
pub struct Original {
    pub id: MessageId,
    pub received_at: Wall,
    pub envelope: Arc<Envelope>,
    /// Priority, if an operator or the sender set it.
    pub priority: Option<Priority>,
    /// An operator has chosen its route.
    pub is_rerouted: bool,
    meta: Meta,
}

impl Original {
    /// As [`Message::kept_of_x400`].
    #[must_use]
    pub fn kept_of_x400(&self) -> Option<&Bytes> {
        StoredFacts::of(&self.meta).x400()
    }

    /// As [`Message::is_from_stranger`].
    #[must_use]
    pub fn is_from_stranger(&self) -> bool {
        StoredFacts::of(&self.meta).is_from_stranger()
    }
}

/// A converted message.
#[derive(Debug)]
pub struct Converted {
    /// MAIL FROM.
    pub reverse_path: Option<Mailbox>,
    /// ENVID=, as xtext.
    pub envid: Option<Envid>,
    /// All author domains are local: it is signed as mail of these domains.
    pub is_signed: bool,
    /// Header and body.
    pub content: Bytes,
}

/// A body in the form in which it is sent.
#[derive(Debug)]
pub enum SentBody<'a> {
    /// In memory, in pieces.
    Memory(Cow<'a, [Bytes]>),
    /// In a blob file, to be read with [`crate::delivery::Slot::load_blob`].
    Blob(BlobId),
}

/// Location of the body.
#[derive(Clone, Debug)]
pub(crate) enum MessageBody {
    /// In memory, in pieces.
    Memory(Vec<Bytes>),
    /// In a blob file.
    Blob(BlobId),
    /// Dropped from memory, after it was written to the peer or because other messages needed the memory. It can be
    /// read again.
    LetGo,
}

impl Message {
    /// A message that is not durable yet.
    pub(crate) fn new(
        (id, received_at): (MessageId, Wall),
        envelope: Envelope,
        (meta, prefix): (Meta, Bytes),
        (body, facts): (MessageBody, ContentFacts),
    ) -> Message {
        Message {
            id,
            received_at,
            envelope: Arc::new(envelope),
            meta,
            prefix,
            body,
            omitted: Omitted::default(),
            facts,
            last_reason: None,
            overrides: None,
            memory: None,
            converted_from: None,
        }
    }

    /// The facts stored beside envelope and content.
    pub(crate) fn kept(&self) -> StoredFacts<'_> {
        StoredFacts::of(&self.meta)
    }

    /// Size of prefix and body: the file in a mailbox, or the BDAT chunk.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.prefix.len() as u64 + self.sent_body_bytes()
    }

    /// The facts found at intake, without omitted octets.
    #[must_use]
    pub fn sent_facts(&self) -> ContentFacts {
        ContentFacts { body_bytes: self.sent_body_bytes(), ..self.facts }
    }

    /// Size of the body as it is sent.
    #[must_use]
    pub fn sent_body_bytes(&self) -> u64 {
        self.facts.body_bytes.saturating_sub(self.omitted.bytes())
    }

    /// The body as it is sent, without copying.
    #[must_use]
    pub fn sent_body(&self) -> SentBody<'_> {
        let pieces = match &self.body {
            MessageBody::Blob(blob) => return SentBody::Blob(*blob),
            MessageBody::Memory(pieces) => pieces,
            MessageBody::LetGo => return SentBody::Memory(Cow::Borrowed(&[])),
        };
        if self.omitted.is_empty() {
            return SentBody::Memory(Cow::Borrowed(pieces));
        }
        let (mut sent, mut offset) = (Vec::with_capacity(pieces.len() + 2), 0);
        for piece in pieces {
            let ranges = self.omitted.sent_of(offset, piece.len());
            sent.extend(ranges.map(|range| piece.slice(range)));
            offset += piece.len() as u64;
        }
        SentBody::Memory(Cow::Owned(sent))
    }

    /// Returns true if the client may not relay.
    #[must_use]
    pub fn is_from_stranger(&self) -> bool {
        self.kept().is_from_stranger()
    }

    /// Returns true if the client may not relay, and the sender address is not authenticated.
    #[must_use]
    pub fn is_unvouched(&self) -> bool {
        self.kept().is_unvouched()
    }

    /// The parts that a conversion needs.
    #[must_use]
    pub fn original(&self) -> Original {
        Original {
            id: self.id,
            received_at: self.received_at,
            envelope: Arc::clone(&self.envelope),
            priority: self.priority(),
            is_rerouted: self.is_rerouted(),
            meta: self.meta.clone(),
        }
    }

    /// Returns true if an operator chose its route.
    #[must_use]
    pub fn is_rerouted(&self) -> bool {
        self.overrides.as_ref().is_some_and(|chosen| chosen.route.is_some())
    }

    /// Priority, if an operator or the sender set it.
    #[must_use]
    pub fn priority(&self) -> Option<Priority> {
        let chosen = self.overrides.as_ref().and_then(|overrides| overrides.priority());
        chosen.or_else(|| self.kept().priority())
    }

    /// Deliver-by time, if the sender set one.
    #[must_use]
    pub fn deliver_by(&self) -> Option<DeliverBy> {
        let asked = self.kept().deliver_by();
        match self.kept().given_up_at() {
            Some(at) => {
                let is_traced = asked.is_some_and(|by| by.is_traced);
                Some(DeliverBy { at, mode: ByMode::Return, is_traced })
            }
            None => asked,
        }
    }

    /// The channel's own data, if it is not internet mail.
    #[must_use]
    pub fn kept_of_x400(&self) -> Option<&Bytes> {
        self.kept().x400()
    }

    /// The message as a channel converted it into this memory.
    pub(crate) fn converted(
        self: &Rc<Message>,
        to: Converted,
        conversion: &Rc<Conversion>,
        mut memory: Permit,
    ) -> Message {
        let (prefix, conversion) = (conversion.prefix.clone(), Rc::clone(conversion));
        memory.shrink((prefix.len() + to.content.len()) as u64);
        // The content that was loaded for the conversion is not needed any more.
        let message = match self.memory {
            Some(_) => Rc::new(self.without_content()),
            None => Rc::clone(self),
        };
        let mut scanner = ContentScanner::default();
        scanner.push(&to.content);
        let envelope = Envelope {
            reverse_path: to.reverse_path,
            envid: to.envid,
            ..Envelope::clone(&self.envelope)
        };
        Message {
            id: self.id,
            received_at: self.received_at,
            envelope: Arc::new(envelope),
            meta: self.meta.clone(),
            prefix,
            body: MessageBody::Memory(vec![to.content]),
            omitted: Omitted::default(),
            facts: scanner.finish(),
            last_reason: self.last_reason.clone(),
            overrides: self.overrides.clone(),
            memory: Some(memory),
            converted_from: Some(ConvertedFrom { message, conversion }),
        }
    }

    /// TLS requirement (REQUIRETLS, TLS-Required: No).
    #[must_use]
    pub fn require_tls(&self) -> RequireTls {
        self.kept().require_tls().unwrap_or_default()
    }

    /// The reverse-path for a recipient.
    #[must_use]
    pub fn sent_by(&self, index: u32) -> SentBy<'_> {
        match self.owner_of(index) {
            Some(owner) => SentBy::Owner(owner.address),
            None if self.kept().is_forwarded(index) => SentBy::Rewritten,
            None => SentBy::Sender,
        }
    }

    /// The owner of the list that has the recipient.
    #[must_use]
    pub(crate) fn owner_of(&self, index: u32) -> Option<KeptOwner<'_>> {
        self.kept().owner_of(index)
    }

    /// The reverse-path; empty for a report.
    #[must_use]
    pub fn sender(&self) -> &str {
        self.envelope.reverse_path.as_ref().map_or("", Mailbox::as_str)
    }

    /// The address of a recipient.
    #[must_use]
    pub fn address_of(&self, index: u32) -> Option<String> {
        self.envelope.recipients.get(index as usize).map(|recipient| recipient.mailbox.to_string())
    }

    /// Reason of the last failed attempt, if stored. The spool stores one reason for all recipients, so a reply that
    /// may concern only one of several recipients is not used.
    #[must_use]
    pub fn last_failure(&self) -> Option<Arc<Failure>> {
        let failure = Failure::from_text(self.last_reason.as_deref()?);
        let is_own = self.envelope.recipients.len() == 1 || !failure.may_name_a_recipient();
        is_own.then(|| Arc::new(failure))
    }

    /// Approximate memory use: the content, the envelope and the maps.
    pub fn cost(&self) -> usize {
        let body = match &self.body {
            MessageBody::Memory(pieces) => pieces.iter().map(Bytes::len).sum(),
            MessageBody::Blob(_) | MessageBody::LetGo => 0,
        };
        body + self.prefix.len() + 512 + self.envelope.recipients.len() * 96
    }

    /// Returns true if the content was dropped from memory.
    #[must_use]
    pub fn is_let_go(&self) -> bool {
        matches!(self.body, MessageBody::LetGo)
    }

    /// A copy without the content and its memory permit.
    #[must_use]
    pub fn without_content(&self) -> Message {
        Message {
            id: self.id,
            received_at: self.received_at,
            envelope: Arc::clone(&self.envelope),
            meta: self.meta.clone(),
            prefix: Bytes::new(),
            body: MessageBody::LetGo,
            omitted: self.omitted.clone(),
            facts: self.facts,
            last_reason: self.last_reason.clone(),
            overrides: self.overrides.clone(),
            memory: None,
            converted_from: self.converted_from.as_ref().map(|it| ConvertedFrom {
                message: Rc::new(it.message.without_content()),
                conversion: Rc::clone(&it.conversion),
            }),
        }
    }

    /// Returns true if its content can be loaded again (and converted again), and uses memory that other messages may
    /// need.
    #[must_use]
    pub fn can_be_let_go(&self) -> bool {
        self.memory.is_some() && !self.is_let_go()
    }

    /// The conversion, if it was converted.
    #[must_use]
    pub fn conversion(&self) -> Option<&Rc<Conversion>> {
        self.converted_from.as_ref().map(|from| &from.conversion)
    }

    /// A message loaded from the spool.
    pub fn from_loaded(loaded: Loaded) -> Message {
        let omitted = StoredFacts::of(&loaded.meta).omitted();
        let omitted = omitted.map(|ranges| ranges.within(loaded.facts.body_bytes));
        Message {
            id: loaded.id,
            received_at: loaded.received_at,
            envelope: loaded.envelope,
            meta: loaded.meta,
            prefix: loaded.prefix,
            body: match loaded.body {
                LoadedBody::Memory(body) => MessageBody::Memory(vec![body]),
                LoadedBody::Blob { blob, .. } => MessageBody::Blob(blob),
            },
            omitted: omitted.unwrap_or_default(),
            facts: loaded.facts,
            last_reason: loaded.last_reason,
            overrides: loaded.overrides.map(|text| Box::new(Overrides::parse(&text))),
            memory: None,
            converted_from: None,
        }
    }

    /// The record that makes it durable.
    pub fn accept_record(&self) -> Accept {
        Accept {
            id: self.id,
            received_at: self.received_at,
            envelope: Arc::clone(&self.envelope),
            meta: self.meta.clone(),
            prefix: self.prefix.clone(),
            body: match &self.body {
                MessageBody::Memory(pieces) => Body::Memory(pieces.clone()),
                MessageBody::LetGo => Body::Memory(Vec::new()),
                MessageBody::Blob(blob) => {
                    Body::Blob { blob: *blob, body_bytes: self.facts.body_bytes }
                }
            },
            facts: self.facts,
        }
    }

    /// Its tenant, if any.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.kept().tenant()
    }

    /// Its form in events.
    pub fn in_events(&self) -> event::EventMessage {
        self.in_events_with(self.overrides.as_deref())
    }

    /// Its form in events, with these overrides.
    pub(crate) fn in_events_with(&self, overrides: Option<&Overrides>) -> event::EventMessage {
        event::EventMessage {
            id: self.id,
            position: None,
            envelope: Some(Arc::clone(&self.envelope)),
            received_at: self.received_at,
            body_bytes: self.facts.body_bytes,
            labels: self.kept().labels(overrides).map(Box::new),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mail::BodyType;

    /// A report with a body of `body_bytes` octets.
    pub(crate) fn message(sequence: u64, body_bytes: usize) -> Message {
        Message {
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
            omitted: Omitted::default(),
            facts: ContentFacts::default(),
            last_reason: None,
            overrides: None,
            memory: None,
            converted_from: None,
        }
    }

    #[test]
    fn one_recipient_is_not_told_what_was_said_of_another() {
        let reason = "mx said: 452 4.2.2 <bob@far.test> full (in reply to RCPT TO command)";
        let last = |reason: &str, recipients: usize| {
            let mut message = message(1, 0);
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
}
