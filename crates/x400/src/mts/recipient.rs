//! The fields of one recipient of a message or a probe (X.411 §12.2.1.1.1, PerRecipientMessageTransferFields).

use super::{Extensions, Flags};
use crate::ber::{Element, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField, once};
use crate::or_name::OrName;
use crate::or_name::ber::OR_NAME;

/// Responsibility for the recipient, and report requests (X.411, PerRecipientIndicators).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecipientIndicators(pub Flags);

/// Kind of requested reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportRequest {
    /// No reports.
    #[default]
    None,
    /// On non-delivery.
    NonDelivery,
    /// On any result.
    Both,
    /// On any result, with trace of each step: for MTAs only.
    Audited,
}

impl RecipientIndicators {
    const RESPONSIBILITY: u8 = 0;
    const MTA_REPORT: u8 = 1;
    const MTA_NON_DELIVERY: u8 = 2;
    const USER_REPORT: u8 = 3;
    const USER_NON_DELIVERY: u8 = 4;

    /// Indicators of a recipient: the receiving MTA is responsible, and the originator and its MTA have equal requests.
    #[must_use]
    pub fn new(is_ours: bool, request: ReportRequest) -> RecipientIndicators {
        let flags = Flags::default().with(Self::RESPONSIBILITY, is_ours);
        let (report, non_delivery) = match request {
            ReportRequest::None => (false, false),
            ReportRequest::NonDelivery => (false, true),
            ReportRequest::Both | ReportRequest::Audited => (true, false),
        };
        RecipientIndicators(
            flags
                .with(Self::MTA_REPORT, report)
                .with(Self::MTA_NON_DELIVERY, non_delivery || request == ReportRequest::Audited)
                .with(Self::USER_REPORT, report)
                .with(Self::USER_NON_DELIVERY, non_delivery),
        )
    }

    /// Returns true if the receiving MTA is responsible for this recipient.
    #[must_use]
    pub fn is_responsible(self) -> bool {
        self.0.has(Self::RESPONSIBILITY)
    }

    /// The same for another MTA.
    #[must_use]
    pub fn with_responsibility(self, on: bool) -> RecipientIndicators {
        RecipientIndicators(self.0.with(Self::RESPONSIBILITY, on))
    }

    /// Request of the originator's MTA.
    #[must_use]
    pub fn mta_request(self) -> ReportRequest {
        match (self.0.has(Self::MTA_REPORT), self.0.has(Self::MTA_NON_DELIVERY)) {
            (true, true) => ReportRequest::Audited,
            (true, false) => ReportRequest::Both,
            (false, true) => ReportRequest::NonDelivery,
            (false, false) => ReportRequest::None,
        }
    }

    /// Request of the originator.
    #[must_use]
    pub fn user_request(self) -> ReportRequest {
        match (self.0.has(Self::USER_REPORT), self.0.has(Self::USER_NON_DELIVERY)) {
            (true, _) => ReportRequest::Both,
            (false, true) => ReportRequest::NonDelivery,
            (false, false) => ReportRequest::None,
        }
    }

    /// Returns true if a delivery report is requested.
    #[must_use]
    pub fn wants_delivery_report(self) -> bool {
        self.mta_request().max(self.user_request()) >= ReportRequest::Both
    }

    /// Returns true if a non-delivery report is requested.
    #[must_use]
    pub fn wants_non_delivery_report(self) -> bool {
        self.mta_request().max(self.user_request()) >= ReportRequest::NonDelivery
    }
}

/// A recipient of a message or a probe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipient {
    /// Who.
    pub name: OrName,
    /// Its number among the originator's recipients, from 1.
    pub number: u32,
    /// Responsibility and report requests.
    pub indicators: RecipientIndicators,
    /// A conversion that the originator wants.
    pub explicit_conversion: Option<u32>,
    /// Extensions.
    pub extensions: Extensions,
}

/// The tag of the indicators, which a relay changes.
pub(super) const INDICATORS: Tag = Tag::context(1);
/// Number of indicator bits that are always written (X.411: SIZE (8..16)).
pub(super) const INDICATOR_BITS: usize = 8;

impl Recipient {
    pub(crate) fn decode(element: &Element<'_>) -> Result<Recipient, DecodeError> {
        const FIELD: &str = "per-recipient-fields";
        if element.tag != Tag::SET {
            return Err(Fault::Unknown.of(FIELD, element.at));
        }
        let (mut name, mut number, mut indicators) = (None, None, None);
        let (mut conversion, mut extensions) = (None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                OR_NAME => once(&mut name, OrName::decode(&part)?, "recipient-name", at)?,
                tag if tag == Tag::context(0) => {
                    const FIELD: &str = "originally-specified-recipient-number";
                    once(&mut number, part.unsigned(u32::MAX).field(FIELD)?, FIELD, at)?;
                }
                INDICATORS => {
                    const FIELD: &str = "per-recipient-indicators";
                    once(&mut indicators, Flags::decode(&part, FIELD)?, FIELD, at)?;
                }
                tag if tag == Tag::context(2) => {
                    const FIELD: &str = "explicit-conversion";
                    once(&mut conversion, part.unsigned(u32::MAX).field(FIELD)?, FIELD, at)?;
                }
                tag if tag == Tag::context(3) => {
                    once(&mut extensions, Extensions::decode(&part)?, "extensions", at)?;
                }
                // A field of a later edition stays where it is when the message is passed on.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, element.at);
        Ok(Recipient {
            name: name.ok_or_else(|| missing("recipient-name"))?,
            number: number.ok_or_else(|| missing("originally-specified-recipient-number"))?,
            indicators: RecipientIndicators(
                indicators.ok_or_else(|| missing("per-recipient-indicators"))?,
            ),
            explicit_conversion: conversion,
            extensions: extensions.unwrap_or_default(),
        })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SET, |set| {
            self.name.encode(set, OR_NAME);
            set.integer(Tag::context(0), i64::from(self.number));
            self.indicators.0.encode(set, INDICATORS, INDICATOR_BITS);
            if let Some(conversion) = self.explicit_conversion {
                set.integer(Tag::context(2), i64::from(conversion));
            }
            self.extensions.encode(set, Tag::context(3));
        });
    }
}
