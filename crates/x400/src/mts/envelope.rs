//! Envelopes of messages and probes (X.411 §12.2.1.1, §12.2.1.2; MTAAbstractService).

use super::fields::{
    CONTENT_IDENTIFIER, EITS, MESSAGE_INDICATORS, MTS_IDENTIFIER, PRIORITY, RECIPIENTS_FIELD,
    TRACE, human_text, put_text,
};
use super::trace::{decode_trace, encode_trace};
use super::{
    BILATERAL_MAX, Broken, ContentType, Eits, Extensions, Flags, InternalTraceElement,
    LOCAL_ID_BYTES_MAX, Limits, MtsIdentifier, Priority, Recipient, TraceElement, UtcTime,
};
use crate::ber::{Element, Reader, Tag, Writer, check_structure, header_bytes};
use crate::decode::{DecodeError, Fault, InField, once};
use crate::or_name::OrName;
use crate::or_name::ber::OR_NAME;
use bytes::Bytes;

pub(super) const MESSAGE: Tag = Tag::context(0);
pub(super) const PROBE: Tag = Tag::context(2);
pub(super) const RECIPIENTS: Tag = Tag::context(2);
pub(super) const EXTENSIONS: Tag = Tag::context(3);

/// Kind of an envelope's object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EnvelopeKind {
    /// A message.
    #[default]
    Message,
    /// A probe: a question whether a message would be delivered.
    Probe,
}

/// The transfer envelope of a message or a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferEnvelope {
    /// Its kind.
    pub kind: EnvelopeKind,
    /// Its name for ever.
    pub identifier: MtsIdentifier,
    /// The originator.
    pub originator: OrName,
    /// Information types of the content.
    pub original_eits: Option<Eits>,
    /// Type of the content.
    pub content_type: ContentType,
    /// The originator's name of the content.
    pub content_identifier: Option<Box<str>>,
    /// Priority.
    pub priority: Priority,
    /// Bits of [`super::message_indicator`].
    pub indicators: Flags,
    /// Not to be delivered earlier; messages only.
    pub deferred_delivery: Option<UtcTime>,
    /// Hypothetical length of the content; probes only.
    pub content_length: Option<u64>,
    /// Bilateral information of domains, as elements as received.
    pub bilateral: Vec<Bytes>,
    /// The domains it passed, the first one first.
    pub trace: Vec<TraceElement>,
    /// Extensions in their order.
    pub extensions: Extensions,
    /// All recipients, including those under other MTAs' responsibility.
    pub recipients: Vec<Recipient>,
}

impl Default for ContentType {
    fn default() -> ContentType {
        ContentType::UNIDENTIFIED
    }
}

/// Fields as found; mandatory ones are checked at the end.
#[derive(Default)]
struct EnvelopeFields {
    identifier: Option<MtsIdentifier>,
    originator: Option<OrName>,
    content_type: Option<ContentType>,
    priority: Option<Priority>,
    indicators: Option<Flags>,
    trace: Option<Vec<TraceElement>>,
    extensions: Option<Extensions>,
    recipients: Option<Vec<Recipient>>,
    bilateral: Option<Vec<Bytes>>,
    rest: TransferEnvelope,
}

impl TransferEnvelope {
    /// Reads an envelope: the SET of a message, or a probe, which has its own tag instead of that of the SET.
    ///
    /// # Errors
    /// Returns the first invalid field, and the readable rest.
    pub fn decode(
        element: &Element<'_>,
        kind: EnvelopeKind,
        limits: &Limits,
    ) -> Result<TransferEnvelope, Box<Broken>> {
        let mut fields = EnvelopeFields::default();
        fields.rest.kind = kind;
        let mut problem = None;
        match element.children().field("envelope") {
            Ok(children) => {
                for part in children {
                    let result = part.field("envelope").and_then(|part| fields.take(&part, limits));
                    problem = problem.or(result.err());
                }
            }
            Err(error) => problem = Some(error),
        }
        match problem {
            Some(error) => Err(fields.into_broken(error)),
            None => fields.finish(element.at),
        }
    }

    /// Reads a separate envelope, as in [`super::ApduEvent::Envelope`].
    ///
    /// # Errors
    /// As [`TransferEnvelope::decode`].
    pub fn read(
        octets: &[u8],
        kind: EnvelopeKind,
        limits: &Limits,
    ) -> Result<TransferEnvelope, Box<Broken>> {
        let mut reader = Reader::new(octets);
        match reader.any().and_then(|element| reader.end().map(|()| element)).field("envelope") {
            Ok(element) => TransferEnvelope::decode(&element, kind, limits),
            Err(error) => Err(EnvelopeFields::default().into_broken(error)),
        }
    }

    /// The same for input from another MTA: relayed octets must be well-formed even in parts not read here.
    ///
    /// # Errors
    /// As [`TransferEnvelope::decode`].
    pub fn read_strictly(
        octets: &[u8],
        kind: EnvelopeKind,
        limits: &Limits,
    ) -> Result<TransferEnvelope, Box<Broken>> {
        let envelope = TransferEnvelope::read(octets, kind, limits)?;
        match check_structure(octets).field("envelope").and_then(|()| envelope.check_extensions()) {
            Ok(()) => Ok(envelope),
            Err(error) => Err(envelope.into_broken(error)),
        }
    }

    fn check_extensions(&self) -> Result<(), DecodeError> {
        let of_recipients = self.recipients.iter().map(|recipient| &recipient.extensions);
        std::iter::once(&self.extensions).chain(of_recipients).try_for_each(Extensions::check)
    }

    fn into_broken(self, error: DecodeError) -> Box<Broken> {
        Box::new(Broken {
            error,
            identifier: Some(self.identifier),
            originator: Some(self.originator),
            content_type: Some(self.content_type),
            trace: self.trace,
            recipients: self.recipients,
        })
    }

    /// Writes the envelope: a SET for a message, the whole APDU for a probe.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(256 + 96 * self.recipients.len());
        let tag = match self.kind {
            EnvelopeKind::Message => Tag::SET,
            EnvelopeKind::Probe => PROBE,
        };
        writer.constructed(tag, |set| self.encode_fields(set));
        writer.into_vec()
    }

    fn encode_fields(&self, set: &mut Writer) {
        self.identifier.encode(set);
        self.originator.encode(set, OR_NAME);
        if let Some(eits) = &self.original_eits {
            eits.encode(set);
        }
        self.content_type.encode(set);
        if let Some(identifier) = &self.content_identifier {
            put_text(set, CONTENT_IDENTIFIER, identifier);
        }
        if self.kind == EnvelopeKind::Message && self.priority != Priority::Normal {
            set.integer(PRIORITY, self.priority.number());
        }
        if !self.indicators.is_empty() {
            self.indicators.encode(set, MESSAGE_INDICATORS, 0);
        }
        match (self.kind, self.deferred_delivery, self.content_length) {
            (EnvelopeKind::Message, Some(time), _) => time.encode(set, Tag::context(0)),
            (EnvelopeKind::Probe, _, Some(length)) => {
                set.integer(Tag::context(0), i64::try_from(length).unwrap_or(i64::MAX));
            }
            (EnvelopeKind::Message, None, _) | (EnvelopeKind::Probe, _, None) => {}
        }
        if !self.bilateral.is_empty() {
            set.constructed(Tag::context(1), |list| {
                for item in &self.bilateral {
                    list.raw(item);
                }
            });
        }
        encode_trace(&self.trace, set, TRACE);
        self.extensions.encode(set, EXTENSIONS);
        set.constructed(RECIPIENTS, |list| {
            for recipient in &self.recipients {
                recipient.encode(list);
            }
        });
    }

    /// The MTAs it passed; none if that extension is unreadable.
    #[must_use]
    pub fn internal_trace(&self) -> Vec<InternalTraceElement> {
        self.extensions.internal_trace().unwrap_or_default()
    }

    /// Time of entry into the transfer system: the arrival at the first domain (RFC 2156 §5.3.6 maps it to Date).
    #[must_use]
    pub fn submission_time(&self) -> Option<UtcTime> {
        self.trace.first().map(|element| element.supplied.arrival)
    }
}

impl EnvelopeFields {
    fn take(&mut self, part: &Element<'_>, limits: &Limits) -> Result<(), DecodeError> {
        let at = part.at;
        match part.tag {
            MTS_IDENTIFIER => {
                let identifier = MtsIdentifier::decode(part)?;
                once(&mut self.identifier, identifier, "message-identifier", at)
            }
            OR_NAME => once(&mut self.originator, OrName::decode(part)?, "originator-name", at),
            EITS => {
                const FIELD: &str = "original-encoded-information-types";
                once(&mut self.rest.original_eits, Eits::decode(part)?, FIELD, at)
            }
            tag if ContentType::is_tag(tag) => {
                once(&mut self.content_type, ContentType::decode(part)?, "content-type", at)
            }
            CONTENT_IDENTIFIER => {
                const FIELD: &str = "content-identifier";
                let identifier = human_text(part, FIELD, LOCAL_ID_BYTES_MAX)?;
                once(&mut self.rest.content_identifier, identifier, FIELD, at)
            }
            PRIORITY => once(&mut self.priority, Priority::decode(part)?, "priority", at),
            MESSAGE_INDICATORS => {
                const FIELD: &str = "per-message-indicators";
                once(&mut self.indicators, Flags::decode(part, FIELD)?, FIELD, at)
            }
            TRACE => once(&mut self.trace, decode_trace(part)?, "trace-information", at),
            tag if tag == Tag::context(0) => self.take_kind(part),
            tag if tag == Tag::context(1) => {
                once(&mut self.bilateral, bilateral(part)?, "bilateral-information", at)
            }
            EXTENSIONS => once(&mut self.extensions, Extensions::decode(part)?, "extensions", at),
            RECIPIENTS => self.take_recipients(part, limits),
            // A field of a later edition stays where it is when the message is passed on.
            _ => Ok(()),
        }
    }

    /// Reads the fields that share a tag between messages and probes.
    fn take_kind(&mut self, part: &Element<'_>) -> Result<(), DecodeError> {
        match self.rest.kind {
            EnvelopeKind::Message => {
                const FIELD: &str = "deferred-delivery-time";
                once(
                    &mut self.rest.deferred_delivery,
                    UtcTime::decode(part, FIELD)?,
                    FIELD,
                    part.at,
                )
            }
            EnvelopeKind::Probe => {
                const FIELD: &str = "content-length";
                let length = u64::try_from(part.integer().field(FIELD)?)
                    .map_err(|_| Fault::Value("a negative length").of(FIELD, part.at))?;
                once(&mut self.rest.content_length, length, FIELD, part.at)
            }
        }
    }

    fn take_recipients(&mut self, part: &Element<'_>, limits: &Limits) -> Result<(), DecodeError> {
        if self.recipients.is_some() {
            return Err(Fault::Repeated.of(RECIPIENTS_FIELD, part.at));
        }
        let max = limits.recipients_max.min(super::RECIPIENTS_MAX);
        // Those that are read stay known, for a report that a broken one makes necessary.
        let recipients = self.recipients.insert(Vec::new());
        let mut problem = None;
        for recipient in part.children().field(RECIPIENTS_FIELD)? {
            let recipient = recipient.field(RECIPIENTS_FIELD)?;
            if recipients.len() >= max {
                return Err(Fault::TooMany(max).of(RECIPIENTS_FIELD, recipient.at));
            }
            match Recipient::decode(&recipient) {
                Ok(recipient) => recipients.push(recipient),
                Err(error) => problem = problem.or(Some(error)),
            }
        }
        match problem {
            Some(error) => Err(error),
            None if recipients.is_empty() => Err(Fault::Missing.of(RECIPIENTS_FIELD, part.at)),
            None => Ok(()),
        }
    }

    fn finish(mut self, at: u64) -> Result<TransferEnvelope, Box<Broken>> {
        let missing = match &self {
            EnvelopeFields { identifier: None, .. } => Some("message-identifier"),
            EnvelopeFields { originator: None, .. } => Some("originator-name"),
            EnvelopeFields { content_type: None, .. } => Some("content-type"),
            EnvelopeFields { trace: None, .. } => Some("trace-information"),
            EnvelopeFields { recipients: None, .. } => Some(RECIPIENTS_FIELD),
            _ => None,
        };
        if let Some(field) = missing {
            return Err(self.into_broken(Fault::Missing.of(field, at)));
        }
        Ok(TransferEnvelope {
            identifier: self.identifier.take().unwrap_or_default(),
            originator: self.originator.take().unwrap_or_default(),
            content_type: self.content_type.take().unwrap_or_default(),
            priority: self.priority.unwrap_or_default(),
            indicators: self.indicators.unwrap_or_default(),
            bilateral: self.bilateral.unwrap_or_default(),
            trace: self.trace.unwrap_or_default(),
            extensions: self.extensions.unwrap_or_default(),
            recipients: self.recipients.unwrap_or_default(),
            ..self.rest
        })
    }

    fn into_broken(self, error: DecodeError) -> Box<Broken> {
        Box::new(Broken {
            error,
            identifier: self.identifier,
            originator: self.originator,
            content_type: self.content_type,
            trace: self.trace.unwrap_or_default(),
            recipients: self.recipients.unwrap_or_default(),
        })
    }
}

fn bilateral(list: &Element<'_>) -> Result<Vec<Bytes>, DecodeError> {
    const FIELD: &str = "per-domain-bilateral-information";
    let mut all = Vec::new();
    for item in list.children().field(FIELD)? {
        let item = item.field(FIELD)?;
        if all.len() >= BILATERAL_MAX {
            return Err(Fault::TooMany(BILATERAL_MAX).of(FIELD, item.at));
        }
        all.push(Bytes::copy_from_slice(item.encoded));
    }
    Ok(all)
}

/// All octets of a message's APDU before its content: the envelope (a SET as it is), and the headers around it and
/// before the content, which has so many octets.
#[must_use]
pub fn message_prefix(envelope: &[u8], content_bytes: u64) -> Vec<u8> {
    let content =
        (header_bytes(Tag::OCTET_STRING, content_bytes) as u64).saturating_add(content_bytes);
    let mut writer = Writer::with_capacity(envelope.len() + 32);
    writer.header(MESSAGE, true, content.saturating_add(envelope.len() as u64));
    writer.raw(envelope);
    writer.header(Tag::OCTET_STRING, false, content_bytes);
    writer.into_vec()
}
