//! Reports on messages and probes (X.411 §12.2.1.3; MTAAbstractService).

use super::fields::{CONTENT_IDENTIFIER, EITS, MTS_IDENTIFIER, TRACE, human_text, put_text};
use super::trace::{decode_trace, encode_trace};
use super::{
    ContentType, Eits, Extensions, LOCAL_ID_BYTES_MAX, Limits, MtsIdentifier, RECIPIENTS_MAX,
    RecipientIndicators, TraceElement, UtcTime,
};
use crate::ber::{Element, Reader, Tag, Writer, check_structure};
use crate::decode::{DecodeError, Fault, InField, once};
use crate::or_name::OrName;
use crate::or_name::ber::OR_NAME;
use bytes::Bytes;

pub(super) const REPORT: Tag = Tag::context(1);
pub(super) const ENVELOPE_EXTENSIONS: Tag = Tag::context(1);
/// Octets of supplementary information that are read at most. X.411 allows 256; some write more.
pub const SUPPLEMENTARY_BYTES_MAX: usize = 1_024;

/// The transfer envelope of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportEnvelope {
    /// Its own identifier.
    pub identifier: MtsIdentifier,
    /// Addressee: the originator of the subject, or the owner of a list.
    pub destination: OrName,
    /// The domains that the report passed, the first one first.
    pub trace: Vec<TraceElement>,
    /// Extensions in their order.
    pub extensions: Extensions,
}

/// Content of a report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReportContent {
    /// The message or probe that it is about.
    pub subject: MtsIdentifier,
    /// The domains that the subject passed.
    pub subject_trace: Vec<TraceElement>,
    /// Information types of the subject's content.
    pub original_eits: Option<Eits>,
    /// Type of the subject's content.
    pub content_type: Option<ContentType>,
    /// The originator's name of the content.
    pub content_identifier: Option<Box<str>>,
    /// The content itself.
    pub returned_content: Option<Bytes>,
    /// An element by agreement, as received.
    pub additional: Option<Bytes>,
    /// Extensions in their order.
    pub extensions: Extensions,
    /// The recipients that it is about.
    pub recipients: Vec<ReportedRecipient>,
}

/// Report on one recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedRecipient {
    /// The final recipient.
    pub actual: OrName,
    /// Its number among the originator's recipients.
    pub number: u32,
    /// The indicators that the subject had.
    pub indicators: RecipientIndicators,
    /// Arrival of the subject at the reporting domain.
    pub arrival: UtcTime,
    /// Information types after a conversion.
    pub converted: Option<Eits>,
    /// The result.
    pub outcome: ReportType,
    /// The recipient named by the originator, if different.
    pub intended: Option<OrName>,
    /// Supplementary text for people.
    pub supplementary: Option<Box<str>>,
    /// Extensions in their order.
    pub extensions: Extensions,
}

/// Result for a recipient (X.411, ReportType).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportType {
    /// It was delivered.
    Delivered {
        /// When.
        time: UtcTime,
        /// Kind of the user: 0 public, 1 private, 2 message store, 3 list, 4 physical delivery, 5 physical recipient, 6
        /// other.
        user: u32,
    },
    /// It was not.
    Failed {
        /// The number of the reason.
        reason: u32,
        /// The number of the diagnostic.
        diagnostic: Option<u32>,
    },
}

impl ReportEnvelope {
    /// Reads the SET.
    ///
    /// # Errors
    /// With the field that is wrong.
    pub fn decode(element: &Element<'_>) -> Result<ReportEnvelope, DecodeError> {
        const FIELD: &str = "report-envelope";
        let (mut identifier, mut destination, mut trace, mut extensions) = (None, None, None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                MTS_IDENTIFIER => {
                    once(&mut identifier, MtsIdentifier::decode(&part)?, "report-identifier", at)?;
                }
                OR_NAME => {
                    once(&mut destination, OrName::decode(&part)?, "report-destination-name", at)?;
                }
                TRACE => once(&mut trace, decode_trace(&part)?, "trace-information", at)?,
                ENVELOPE_EXTENSIONS => {
                    once(&mut extensions, Extensions::decode(&part)?, "extensions", at)?;
                }
                // A field of a later edition stays where it is when the report is passed on.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, element.at);
        Ok(ReportEnvelope {
            identifier: identifier.ok_or_else(|| missing("report-identifier"))?,
            destination: destination.ok_or_else(|| missing("report-destination-name"))?,
            trace: trace.ok_or_else(|| missing("trace-information"))?,
            extensions: extensions.unwrap_or_default(),
        })
    }

    /// Reads an envelope that is alone, as [`super::ApduEvent::Report`] gives it.
    ///
    /// # Errors
    /// With the field that is wrong.
    pub fn read(octets: &[u8]) -> Result<ReportEnvelope, DecodeError> {
        ReportEnvelope::decode(&alone(octets, "report-envelope")?)
    }

    /// The same for input from another MTA: relayed octets must be well-formed even in parts not read here.
    ///
    /// # Errors
    /// Returns the invalid field.
    pub fn read_strictly(octets: &[u8]) -> Result<ReportEnvelope, DecodeError> {
        let envelope = ReportEnvelope::read(octets)?;
        check_structure(octets).field("report-envelope")?;
        envelope.extensions.check()?;
        Ok(envelope)
    }

    /// Writes the SET.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        writer.constructed(Tag::SET, |set| {
            self.identifier.encode(set);
            self.destination.encode(set, OR_NAME);
            encode_trace(&self.trace, set, TRACE);
            self.extensions.encode(set, ENVELOPE_EXTENSIONS);
        });
        writer.into_vec()
    }
}

fn alone<'a>(octets: &'a [u8], field: &'static str) -> Result<Element<'a>, DecodeError> {
    let mut reader = Reader::new(octets);
    let element = reader.any().field(field)?;
    reader.end().field(field)?;
    Ok(element)
}

impl ReportContent {
    /// Checks a report's content except for the returned one. `fields`: the elements of its SET without that one.
    pub(super) fn check(fields: &[u8], limits: &Limits) -> Result<(), DecodeError> {
        let mut set = Writer::with_capacity(fields.len() + 8);
        set.constructed(Tag::SET, |set| set.raw(fields));
        check_structure(set.as_slice()).field("report-content")?;
        let content = ReportContent::read(set.as_slice(), limits)?;
        let of_recipients = content.recipients.iter().map(|recipient| &recipient.extensions);
        std::iter::once(&content.extensions).chain(of_recipients).try_for_each(Extensions::check)
    }

    /// Reads a separate SET: the joined content octets of a report from [`super::ApduEvent::Content`].
    ///
    /// # Errors
    /// Returns the invalid field.
    pub fn read(octets: &[u8], limits: &Limits) -> Result<ReportContent, DecodeError> {
        const FIELD: &str = "report-content";
        let set = alone(octets, FIELD)?;
        let mut content = ReportContent::default();
        let (mut subject, mut trace, mut extensions, mut recipients) = (None, None, None, None);
        for part in set.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                MTS_IDENTIFIER => {
                    once(&mut subject, MtsIdentifier::decode(&part)?, "subject-identifier", at)?;
                }
                TRACE => {
                    const FIELD: &str = "subject-intermediate-trace-information";
                    once(&mut trace, decode_trace(&part)?, FIELD, at)?;
                }
                EITS => {
                    const FIELD: &str = "original-encoded-information-types";
                    once(&mut content.original_eits, Eits::decode(&part)?, FIELD, at)?;
                }
                tag if ContentType::is_tag(tag) => {
                    once(
                        &mut content.content_type,
                        ContentType::decode(&part)?,
                        "content-type",
                        at,
                    )?;
                }
                CONTENT_IDENTIFIER => {
                    const FIELD: &str = "content-identifier";
                    let identifier = human_text(&part, FIELD, LOCAL_ID_BYTES_MAX)?;
                    once(&mut content.content_identifier, identifier, FIELD, at)?;
                }
                tag if tag == Tag::context(0) => {
                    once(&mut recipients, reported(&part, limits)?, "per-recipient-fields", at)?;
                }
                tag if tag == Tag::context(1) => {
                    const FIELD: &str = "returned-content";
                    let octets = Bytes::from(part.octets().field(FIELD)?.into_owned());
                    once(&mut content.returned_content, octets, FIELD, at)?;
                }
                tag if tag == Tag::context(2) => {
                    let octets = Bytes::copy_from_slice(part.encoded);
                    once(&mut content.additional, octets, "additional-information", at)?;
                }
                tag if tag == Tag::context(3) => {
                    once(&mut extensions, Extensions::decode(&part)?, "extensions", at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, set.at);
        content.subject = subject.ok_or_else(|| missing("subject-identifier"))?;
        content.recipients = recipients.ok_or_else(|| missing("per-recipient-fields"))?;
        content.subject_trace = trace.unwrap_or_default();
        content.extensions = extensions.unwrap_or_default();
        Ok(content)
    }

    /// Writes the SET.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let returned = self.returned_content.as_ref().map_or(0, Bytes::len);
        let mut fields = Writer::with_capacity(returned + 512 + 128 * self.recipients.len());
        let set = &mut fields;
        self.subject.encode(set);
        if !self.subject_trace.is_empty() {
            encode_trace(&self.subject_trace, set, TRACE);
        }
        if let Some(eits) = &self.original_eits {
            eits.encode(set);
        }
        if let Some(content_type) = &self.content_type {
            content_type.encode(set);
        }
        if let Some(identifier) = &self.content_identifier {
            put_text(set, CONTENT_IDENTIFIER, identifier);
        }
        if let Some(content) = &self.returned_content {
            set.primitive(Tag::context(1), content);
        }
        if let Some(additional) = &self.additional {
            set.raw(additional);
        }
        self.extensions.encode(set, Tag::context(3));
        set.constructed(Tag::context(0), |list| {
            for recipient in &self.recipients {
                recipient.encode(list);
            }
        });
        let mut writer = Writer::with_capacity(fields.as_slice().len() + 8);
        writer.header(Tag::SET, true, fields.as_slice().len() as u64);
        writer.raw(fields.as_slice());
        writer.into_vec()
    }
}

fn reported(list: &Element<'_>, limits: &Limits) -> Result<Vec<ReportedRecipient>, DecodeError> {
    const FIELD: &str = "per-recipient-fields";
    let max = limits.recipients_max.min(RECIPIENTS_MAX);
    let mut all = Vec::new();
    for recipient in list.children().field(FIELD)? {
        let recipient = recipient.field(FIELD)?;
        if all.len() >= max {
            return Err(Fault::TooMany(max).of(FIELD, recipient.at));
        }
        all.push(ReportedRecipient::decode(&recipient)?);
    }
    Ok(all)
}

impl ReportedRecipient {
    fn decode(element: &Element<'_>) -> Result<ReportedRecipient, DecodeError> {
        const FIELD: &str = "per-recipient-fields";
        let (mut actual, mut number, mut indicators, mut last) = (None, None, None, None);
        let (mut intended, mut supplementary, mut extensions) = (None, None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                tag if tag == Tag::context(0) => {
                    once(&mut actual, OrName::decode(&part)?, "actual-recipient-name", at)?;
                }
                tag if tag == Tag::context(1) => {
                    const FIELD: &str = "originally-specified-recipient-number";
                    once(&mut number, part.unsigned(u32::MAX).field(FIELD)?, FIELD, at)?;
                }
                tag if tag == Tag::context(2) => {
                    const FIELD: &str = "per-recipient-indicators";
                    let flags = super::Flags::decode(&part, FIELD)?;
                    once(&mut indicators, RecipientIndicators(flags), FIELD, at)?;
                }
                tag if tag == Tag::context(3) => {
                    once(&mut last, LastTrace::decode(&part)?, "last-trace-information", at)?;
                }
                tag if tag == Tag::context(4) => {
                    const FIELD: &str = "originally-intended-recipient-name";
                    once(&mut intended, OrName::decode(&part)?, FIELD, at)?;
                }
                tag if tag == Tag::context(5) => {
                    const FIELD: &str = "supplementary-information";
                    once(
                        &mut supplementary,
                        human_text(&part, FIELD, SUPPLEMENTARY_BYTES_MAX)?,
                        FIELD,
                        at,
                    )?;
                }
                tag if tag == Tag::context(6) => {
                    once(&mut extensions, Extensions::decode(&part)?, "extensions", at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, element.at);
        let last = last.ok_or_else(|| missing("last-trace-information"))?;
        Ok(ReportedRecipient {
            actual: actual.ok_or_else(|| missing("actual-recipient-name"))?,
            number: number.ok_or_else(|| missing("originally-specified-recipient-number"))?,
            indicators: indicators.ok_or_else(|| missing("per-recipient-indicators"))?,
            arrival: last.arrival,
            converted: last.converted,
            outcome: last.outcome,
            intended,
            supplementary,
            extensions: extensions.unwrap_or_default(),
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SET, |set| {
            self.actual.encode(set, Tag::context(0));
            set.integer(Tag::context(1), i64::from(self.number));
            self.indicators.0.encode(set, Tag::context(2), super::recipient::INDICATOR_BITS);
            set.constructed(Tag::context(3), |last| {
                self.arrival.encode(last, Tag::context(0));
                if let Some(eits) = &self.converted {
                    eits.encode(last);
                }
                last.constructed(Tag::context(1), |choice| self.outcome.encode(choice));
            });
            if let Some(intended) = &self.intended {
                intended.encode(set, Tag::context(4));
            }
            if let Some(text) = &self.supplementary {
                put_text(set, Tag::context(5), text);
            }
            self.extensions.encode(set, Tag::context(6));
        });
    }
}

struct LastTrace {
    arrival: UtcTime,
    converted: Option<Eits>,
    outcome: ReportType,
}

impl LastTrace {
    fn decode(element: &Element<'_>) -> Result<LastTrace, DecodeError> {
        const FIELD: &str = "last-trace-information";
        let (mut arrival, mut converted, mut outcome) = (None, None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                EITS => once(&mut converted, Eits::decode(&part)?, FIELD, at)?,
                tag if tag == Tag::context(0) => {
                    once(
                        &mut arrival,
                        UtcTime::decode(&part, "arrival-time")?,
                        "arrival-time",
                        at,
                    )?;
                }
                tag if tag == Tag::context(1) => {
                    let choice = part.only_child().field("report-type")?;
                    once(&mut outcome, ReportType::decode(&choice)?, "report-type", at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, element.at);
        Ok(LastTrace {
            arrival: arrival.ok_or_else(|| missing("arrival-time"))?,
            converted,
            outcome: outcome.ok_or_else(|| missing("report-type"))?,
        })
    }
}

impl ReportType {
    fn decode(choice: &Element<'_>) -> Result<ReportType, DecodeError> {
        const FIELD: &str = "report-type";
        let (mut first, mut second) = (None, None);
        for part in choice.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                tag if tag == Tag::context(0) => once(&mut first, part, FIELD, part.at)?,
                tag if tag == Tag::context(1) => {
                    once(&mut second, part.unsigned(u32::MAX).field(FIELD)?, FIELD, part.at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let first = first.ok_or_else(|| Fault::Missing.of(FIELD, choice.at))?;
        match choice.tag {
            tag if tag == Tag::context(0) => Ok(ReportType::Delivered {
                time: UtcTime::decode(&first, "message-delivery-time")?,
                user: second.unwrap_or_default(),
            }),
            tag if tag == Tag::context(1) => {
                const FIELD: &str = "non-delivery-reason-code";
                let reason = first.unsigned(u32::MAX).field(FIELD)?;
                Ok(ReportType::Failed { reason, diagnostic: second })
            }
            _ => Err(Fault::Unknown.of(FIELD, choice.at)),
        }
    }

    fn encode(self, writer: &mut Writer) {
        match self {
            ReportType::Delivered { time, user } => writer.constructed(Tag::context(0), |set| {
                time.encode(set, Tag::context(0));
                if user != 0 {
                    set.integer(Tag::context(1), i64::from(user));
                }
            }),
            ReportType::Failed { reason, diagnostic } => {
                writer.constructed(Tag::context(1), |set| {
                    set.integer(Tag::context(0), i64::from(reason));
                    if let Some(diagnostic) = diagnostic {
                        set.integer(Tag::context(1), i64::from(diagnostic));
                    }
                })
            }
        }
    }
}

/// All octets of a report's APDU before its content, which is a SET of so many octets with its own header.
#[must_use]
pub fn report_prefix(envelope: &[u8], content_bytes: u64) -> Vec<u8> {
    let mut writer = Writer::with_capacity(envelope.len() + 16);
    writer.header(REPORT, true, content_bytes.saturating_add(envelope.len() as u64));
    writer.raw(envelope);
    writer.into_vec()
}
