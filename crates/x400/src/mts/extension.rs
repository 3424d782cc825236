//! Extensions (X.411 §12.2.1.1.1, ExtensionField) of messages, recipients, probes and reports. All are kept as
//! received. Readers exist for those that an MTA acts on; the other values are checked in [`super::values`].

use super::trace::{decode_internal, list};
use super::{EXTENSIONS_MAX, Flags, InternalTraceElement, UtcTime};
use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField};
use crate::or_name::OrName;
use bytes::Bytes;

/// Numbers of standard extensions (X.411, MTSAbstractService).
pub mod number {
    #![allow(missing_docs)]
    pub const RECIPIENT_REASSIGNMENT_PROHIBITED: u32 = 1;
    pub const ORIGINATOR_REQUESTED_ALTERNATE_RECIPIENT: u32 = 2;
    pub const DL_EXPANSION_PROHIBITED: u32 = 3;
    pub const CONVERSION_WITH_LOSS_PROHIBITED: u32 = 4;
    pub const LATEST_DELIVERY_TIME: u32 = 5;
    pub const REQUESTED_DELIVERY_METHOD: u32 = 6;
    pub const ORIGINATOR_RETURN_ADDRESS: u32 = 13;
    pub const CONTENT_CORRELATOR: u32 = 23;
    pub const REDIRECTION_HISTORY: u32 = 25;
    pub const DL_EXPANSION_HISTORY: u32 = 26;
    pub const ORIGINATOR_AND_DL_EXPANSION_HISTORY: u32 = 30;
    pub const REPORTING_DL_NAME: u32 = 31;
    pub const TRACE_INFORMATION: u32 = 37;
    pub const INTERNAL_TRACE_INFORMATION: u32 = 38;
    pub const REPORTING_MTA_NAME: u32 = 39;
    pub const DL_EXEMPTED_RECIPIENTS: u32 = 42;
    /// The highest that X.411 defines.
    pub const LAST: u32 = 46;
}

/// Bits of [`Extension::criticality`].
pub mod criticality {
    /// The MTA accepting the submission must support it.
    pub const FOR_SUBMISSION: u8 = 0;
    /// Every transferring MTA must support it.
    pub const FOR_TRANSFER: u8 = 1;
    /// The delivering MTA must support it.
    pub const FOR_DELIVERY: u8 = 2;
}

/// Standard extensions that delivery here acts on or may ignore: conversion (never done without a request),
/// reassignment, alternates, times, methods, lists, trace and histories. The rest is physical delivery and security,
/// which are not supported (X.411, the recommended criticalities).
const DELIVERED: [u32; 14] = [1, 2, 3, 4, 5, 6, 13, 23, 25, 26, 37, 38, 41, 42];

/// Identifier of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtensionKind {
    /// One that X.411 numbers.
    Standard(u32),
    /// The octets of an object identifier.
    Private(Bytes),
}

/// An extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Which.
    pub kind: ExtensionKind,
    /// Its criticality: bits of [`criticality`].
    pub criticality: Flags,
    /// The element of its value, as received; `None` is NULL.
    pub value: Option<Bytes>,
}

/// Extensions in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extensions(pub Vec<Extension>);

/// An MTA's next step with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Pass it on.
    Transfer,
    /// Deliver it, or hand it to a gateway.
    Delivery,
}

/// Reason of a redirection (X.411, RedirectionReason).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RedirectionReason {
    /// 0: the recipient wants it so.
    RecipientAssigned,
    /// 1: the originator named an alternate.
    OriginatorRequested,
    /// 2: the recipient's domain has one for everybody.
    DomainAssigned,
    /// 3: by the directory.
    DirectoryLookUp,
    /// 4: the address was another name.
    Alias,
    /// One of a later edition.
    Other(u32),
}

impl RedirectionReason {
    /// Its number.
    #[must_use]
    pub fn number(self) -> u32 {
        match self {
            RedirectionReason::RecipientAssigned => 0,
            RedirectionReason::OriginatorRequested => 1,
            RedirectionReason::DomainAssigned => 2,
            RedirectionReason::DirectoryLookUp => 3,
            RedirectionReason::Alias => 4,
            RedirectionReason::Other(number) => number,
        }
    }

    /// The reason of this number.
    #[must_use]
    pub fn of_number(number: u32) -> RedirectionReason {
        match number {
            0 => RedirectionReason::RecipientAssigned,
            1 => RedirectionReason::OriginatorRequested,
            2 => RedirectionReason::DomainAssigned,
            3 => RedirectionReason::DirectoryLookUp,
            4 => RedirectionReason::Alias,
            other => RedirectionReason::Other(other),
        }
    }
}

/// A name and the time at which it was replaced by the next, or expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameAndTime {
    /// Who.
    pub name: OrName,
    /// When.
    pub time: UtcTime,
}

/// One redirection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirection {
    /// The recipient that was replaced, and when.
    pub intended: NameAndTime,
    /// Why.
    pub reason: RedirectionReason,
}

impl Extension {
    /// A standard extension with a value written by `write`.
    #[must_use]
    pub fn standard(number: u32, criticality: Flags, write: impl FnOnce(&mut Writer)) -> Extension {
        let mut value = Writer::new();
        write(&mut value);
        Extension {
            kind: ExtensionKind::Standard(number),
            criticality,
            value: Some(Bytes::from(value.into_vec())),
        }
    }

    /// Reads one.
    pub(crate) fn decode(element: &Element<'_>) -> Result<Extension, DecodeError> {
        const FIELD: &str = "extension";
        let mut parts = element.children().field(FIELD)?;
        let kind = parts.any().field(FIELD)?;
        let kind = match kind.tag {
            tag if tag == Tag::context(3) => {
                ExtensionKind::Private(Bytes::copy_from_slice(kind.oid().field(FIELD)?))
            }
            // ISO 10021-4:1990 tags the CHOICE itself, and some still write that: [0] { INTEGER }.
            tag if tag == Tag::context(0) && kind.constructed => ExtensionKind::Standard(
                kind.only(Tag::INTEGER).field(FIELD)?.unsigned(u32::MAX).field(FIELD)?,
            ),
            tag if tag == Tag::context(0) => {
                ExtensionKind::Standard(kind.unsigned(u32::MAX).field(FIELD)?)
            }
            _ => return Err(Fault::Unknown.of(FIELD, kind.at)),
        };
        let criticality = match parts.read_if(Tag::context(1)).field(FIELD)? {
            Some(bits) => Flags::decode(&bits, "criticality")?,
            None => Flags::default(),
        };
        let value = match parts.read_if(Tag::context(2)).field(FIELD)? {
            Some(value) => Some(Bytes::copy_from_slice(value.only_child().field(FIELD)?.encoded)),
            None => None,
        };
        parts.end().field(FIELD)?;
        Ok(Extension { kind, criticality, value })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SEQUENCE, |field| {
            match &self.kind {
                ExtensionKind::Standard(number) => {
                    field.integer(Tag::context(0), i64::from(*number))
                }
                ExtensionKind::Private(oid) => field.primitive(Tag::context(3), oid),
            }
            if !self.criticality.is_empty() {
                self.criticality.encode(field, Tag::context(1), 0);
            }
            if let Some(value) = &self.value {
                field.constructed(Tag::context(2), |inner| inner.raw(value));
            }
        });
    }

    /// Returns true if it is critical for this step and unsupported: recipients then get a report of reason 1,
    /// diagnostic 18 (X.411 §9.1, unsupported-critical-function).
    #[must_use]
    pub fn is_unsupported(&self, stage: Stage) -> bool {
        let bit = match stage {
            Stage::Transfer => criticality::FOR_TRANSFER,
            Stage::Delivery => criticality::FOR_DELIVERY,
        };
        let is_known = match (&self.kind, stage) {
            (ExtensionKind::Private(_), _) => false,
            (ExtensionKind::Standard(number), Stage::Transfer) => {
                (1..=number::LAST).contains(number)
            }
            (ExtensionKind::Standard(number), Stage::Delivery) => DELIVERED.contains(number),
        };
        self.criticality.has(bit) && !is_known
    }
}

impl Extensions {
    pub(crate) fn decode(element: &Element<'_>) -> Result<Extensions, DecodeError> {
        const FIELD: &str = "extensions";
        const TRACE: ExtensionKind = ExtensionKind::Standard(number::INTERNAL_TRACE_INFORMATION);
        let mut all: Vec<Extension> = Vec::new();
        let mut max = EXTENSIONS_MAX;
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let extension = Extension::decode(&part)?;
            if extension.kind == TRACE && max == EXTENSIONS_MAX {
                max += 1;
            }
            if all.len() >= max {
                return Err(Fault::TooMany(EXTENSIONS_MAX).of(FIELD, part.at));
            }
            all.push(extension);
        }
        Ok(Extensions(all))
    }

    pub(crate) fn encode(&self, writer: &mut Writer, tag: Tag) {
        if self.0.is_empty() {
            return;
        }
        writer.constructed(tag, |set| {
            for extension in &self.0 {
                extension.encode(set);
            }
        });
    }

    /// The standard extension of this number.
    #[must_use]
    pub fn standard(&self, number: u32) -> Option<&Extension> {
        self.0.iter().find(|extension| extension.kind == ExtensionKind::Standard(number))
    }

    /// Puts an extension in the place of one of its kind, or at the end.
    pub fn set(&mut self, extension: Extension) {
        match self.0.iter_mut().find(|known| known.kind == extension.kind) {
            Some(known) => *known = extension,
            None => self.0.push(extension),
        }
    }

    /// The first unsupported extension that is critical for this step.
    #[must_use]
    pub fn unsupported(&self, stage: Stage) -> Option<&Extension> {
        self.0.iter().find(|extension| extension.is_unsupported(stage))
    }

    fn read<T>(
        &self,
        number: u32,
        field: &'static str,
        decode: impl FnOnce(&Element<'_>) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        let Some(value) = self.standard(number).and_then(|extension| extension.value.as_ref())
        else {
            return Ok(None);
        };
        decode(&Reader::new(value).any().field(field)?).map(Some)
    }

    fn is_prohibited(&self, number: u32) -> bool {
        // An unreadable value prohibits nothing: a flag's value is not worth losing a message.
        matches!(
            self.read(number, "extension", |value| value.integer().field("extension")),
            Ok(Some(1))
        )
    }

    /// Returns true if only the originator may replace recipients (1).
    #[must_use]
    pub fn is_reassignment_prohibited(&self) -> bool {
        self.is_prohibited(number::RECIPIENT_REASSIGNMENT_PROHIBITED)
    }

    /// Returns true if lists must not be expanded (3).
    #[must_use]
    pub fn is_dl_expansion_prohibited(&self) -> bool {
        self.is_prohibited(number::DL_EXPANSION_PROHIBITED)
    }

    /// Returns true if a conversion must be lossless (4).
    #[must_use]
    pub fn is_conversion_with_loss_prohibited(&self) -> bool {
        self.is_prohibited(number::CONVERSION_WITH_LOSS_PROHIBITED)
    }

    /// The originator's alternate recipient (2).
    ///
    /// # Errors
    /// Returns an error if it is not an O/R name.
    pub fn alternate_recipient(&self) -> Result<Option<OrName>, DecodeError> {
        self.read(
            number::ORIGINATOR_REQUESTED_ALTERNATE_RECIPIENT,
            "originator-requested-alternate-recipient",
            OrName::decode,
        )
    }

    /// Latest time of delivery (5).
    ///
    /// # Errors
    /// Returns an error if it is not a time.
    pub fn latest_delivery_time(&self) -> Result<Option<UtcTime>, DecodeError> {
        const FIELD: &str = "latest-delivery-time";
        self.read(number::LATEST_DELIVERY_TIME, FIELD, |value| UtcTime::decode(value, FIELD))
    }

    /// The originator's correlator (23): characters or octets.
    ///
    /// # Errors
    /// Returns an error if it is not a string.
    pub fn content_correlator(&self) -> Result<Option<Bytes>, DecodeError> {
        const FIELD: &str = "content-correlator";
        self.read(number::CONTENT_CORRELATOR, FIELD, |value| {
            Ok(Bytes::from(value.octets().field(FIELD)?.into_owned()))
        })
    }

    /// Earlier identities of the recipient (25), the first redirection first; empty without any.
    ///
    /// # Errors
    /// Returns an error if an element is malformed.
    pub fn redirection_history(&self) -> Result<Vec<Redirection>, DecodeError> {
        const FIELD: &str = "redirection-history";
        let read =
            self.read(number::REDIRECTION_HISTORY, FIELD, |value| list(value, FIELD, redirection));
        Ok(read?.unwrap_or_default())
    }

    /// The lists that were expanded (26), the first one first.
    ///
    /// # Errors
    /// An element is broken.
    pub fn dl_expansion_history(&self) -> Result<Vec<NameAndTime>, DecodeError> {
        const FIELD: &str = "dl-expansion-history";
        let read = self.read(number::DL_EXPANSION_HISTORY, FIELD, |value| {
            list(value, FIELD, NameAndTime::decode)
        });
        Ok(read?.unwrap_or_default())
    }

    /// In a report: the originator of its subject and the lists that were expanded (30).
    ///
    /// # Errors
    /// An element is broken.
    pub fn originator_and_dl_history(&self) -> Result<Vec<NameAndTime>, DecodeError> {
        const FIELD: &str = "originator-and-dl-expansion-history";
        let number = number::ORIGINATOR_AND_DL_EXPANSION_HISTORY;
        Ok(self
            .read(number, FIELD, |value| list(value, FIELD, NameAndTime::decode))?
            .unwrap_or_default())
    }

    /// The MTAs that it came through (38), the first one first.
    ///
    /// # Errors
    /// An element is broken.
    pub fn internal_trace(&self) -> Result<Vec<InternalTraceElement>, DecodeError> {
        let number = number::INTERNAL_TRACE_INFORMATION;
        Ok(self.read(number, "internal-trace-information", decode_internal)?.unwrap_or_default())
    }
}

impl NameAndTime {
    pub(crate) fn decode(element: &Element<'_>) -> Result<NameAndTime, DecodeError> {
        const FIELD: &str = "name-and-time";
        let mut parts = element.children().field(FIELD)?;
        let name = OrName::decode(&parts.any().field(FIELD)?)?;
        let time = UtcTime::decode(&parts.any().field(FIELD)?, FIELD)?;
        Ok(NameAndTime { name, time })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SEQUENCE, |pair| {
            self.name.encode(pair, crate::or_name::ber::OR_NAME);
            self.time.encode(pair, Tag::UTC_TIME);
        });
    }
}

pub(super) fn redirection(element: &Element<'_>) -> Result<Redirection, DecodeError> {
    const FIELD: &str = "redirection-history";
    let mut parts = element.children().field(FIELD)?;
    let intended = NameAndTime::decode(&parts.read(Tag::SEQUENCE).field(FIELD)?)?;
    let reason = parts.read(Tag::ENUMERATED).field(FIELD)?.unsigned(u32::MAX).field(FIELD)?;
    Ok(Redirection { intended, reason: RedirectionReason::of_number(reason) })
}

/// Makes the extensions that an MTA writes.
impl Extension {
    /// Redirections (25).
    #[must_use]
    pub fn redirection_history(history: &[Redirection]) -> Extension {
        Extension::standard(number::REDIRECTION_HISTORY, Flags::default(), |value| {
            value.constructed(Tag::SEQUENCE, |list| {
                for redirection in history {
                    list.constructed(Tag::SEQUENCE, |element| {
                        redirection.intended.encode(element);
                        element.integer(Tag::ENUMERATED, i64::from(redirection.reason.number()));
                    });
                }
            });
        })
    }

    /// A list of names and times: 26 or 30.
    #[must_use]
    pub fn history(number: u32, history: &[NameAndTime]) -> Extension {
        Extension::standard(number, Flags::default(), |value| {
            value.constructed(Tag::SEQUENCE, |list| {
                for element in history {
                    element.encode(list);
                }
            });
        })
    }

    /// MTAs (38).
    #[must_use]
    pub fn internal_trace(trace: &[InternalTraceElement]) -> Extension {
        Extension::standard(number::INTERNAL_TRACE_INFORMATION, Flags::default(), |value| {
            value.constructed(Tag::SEQUENCE, |list| {
                for element in trace {
                    element.encode(list);
                }
            });
        })
    }

    /// An alternate recipient (2), not critical.
    #[must_use]
    pub fn alternate_recipient(name: &OrName) -> Extension {
        let number = number::ORIGINATOR_REQUESTED_ALTERNATE_RECIPIENT;
        Extension::standard(number, Flags::default(), |value| {
            name.encode(value, crate::or_name::ber::OR_NAME);
        })
    }

    /// A correlator of characters (23); non-ASCII ones become question marks.
    #[must_use]
    pub fn content_correlator(text: &str) -> Extension {
        let ascii: String = text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
        Extension::standard(number::CONTENT_CORRELATOR, Flags::default(), |value| {
            value.text(Tag::IA5_STRING, &ascii);
        })
    }

    /// Latest time of delivery (5), critical for delivery as X.411 recommends.
    #[must_use]
    pub fn latest_delivery_time(time: UtcTime) -> Extension {
        let critical = Flags::of(&[criticality::FOR_DELIVERY]);
        Extension::standard(number::LATEST_DELIVERY_TIME, critical, |value| {
            time.encode(value, Tag::UTC_TIME);
        })
    }

    /// A prohibition (1, 3 or 4), critical for delivery as X.411 recommends.
    #[must_use]
    pub fn prohibition(number: u32) -> Extension {
        Extension::standard(number, Flags::of(&[criticality::FOR_DELIVERY]), |value| {
            value.integer(Tag::ENUMERATED, 1);
        })
    }
}
