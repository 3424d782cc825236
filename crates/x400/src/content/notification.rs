//! Notifications: the fate of a message at its recipient (X.420 §8).

use super::{HeadingExtension, Ipm, IpmIdentifier, OrDescriptor};
use crate::ber::{Element, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField, once};
use crate::mts::{Eits, UtcTime};
use bytes::Bytes;

/// A notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipn {
    /// The message.
    pub subject_ipm: IpmIdentifier,
    /// Originator of the notification.
    pub originator: Option<OrDescriptor>,
    /// The recipient meant by the originator, if different.
    pub preferred_recipient: Option<OrDescriptor>,
    /// Information types after conversion of the message.
    pub conversion_eits: Option<Eits>,
    /// Extensions in their order.
    pub extensions: Vec<HeadingExtension>,
    /// The event.
    pub kind: IpnKind,
}

/// The event that befell a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IpnKind {
    /// It was read.
    Receipt {
        /// When.
        time: UtcTime,
        /// Sent automatically by a program.
        is_automatic: bool,
        /// More about it.
        supplementary: Option<Box<str>>,
    },
    /// It was not.
    NonReceipt {
        /// 0 discarded, 1 forwarded automatically.
        reason: u32,
        /// 0 expired, 1 obsoleted, 2 subscription terminated.
        discard: Option<u32>,
        /// A comment on forwarding.
        comment: Option<Box<str>>,
        /// The message.
        returned: Option<Box<Ipm>>,
    },
    /// Any other kind, as an element as received.
    Other(Bytes),
}

/// Octets of texts that are read at most (X.420: 256 characters); the rest is cut.
const TEXT_BYTES_MAX: usize = 1_024;

fn text(element: &Element<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    let octets = element.octets().field(field)?;
    let text: String = octets
        .iter()
        .take(TEXT_BYTES_MAX)
        .map(|&octet| char::from(octet))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    Ok(text.into())
}

impl Ipn {
    pub(super) fn decode(set: &Element<'_>, whole: &Bytes) -> Result<Ipn, DecodeError> {
        const FIELD: &str = "ipn";
        let (mut subject, mut originator, mut preferred) = (None, None, None);
        let (mut eits, mut extensions, mut kind) = (None, None, None);
        for part in set.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            let at = part.at;
            match part.tag {
                IpmIdentifier::TAG => {
                    once(&mut subject, IpmIdentifier::decode(&part)?, "subject-ipm", at)?;
                }
                // The choice of the event has the same tag as the field after the originator: [0].
                tag if tag == Tag::context(0) => {
                    once(&mut kind, IpnKind::decode(&part, whole)?, "notification", at)?;
                }
                tag if tag == Tag::context(1) => {
                    once(&mut originator, OrDescriptor::decode(&part)?, "ipn-originator", at)?;
                }
                tag if tag == Tag::context(2) => {
                    const FIELD: &str = "ipm-intended-recipient";
                    once(&mut preferred, OrDescriptor::decode(&part)?, FIELD, at)?;
                }
                tag if tag == Tag::context(3) => {
                    let list = part.children().field("extensions")?;
                    let read: Result<Vec<_>, DecodeError> = list
                        .take(super::BODY_PARTS_MAX)
                        .map(|item| HeadingExtension::decode(&item.field("extensions")?))
                        .collect();
                    once(&mut extensions, read?, "extensions", at)?;
                }
                tag if tag == Tag::application(5) => {
                    once(&mut eits, Eits::decode(&part)?, "conversion-eits", at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let missing = |field| Fault::Missing.of(field, set.at);
        Ok(Ipn {
            subject_ipm: subject.ok_or_else(|| missing("subject-ipm"))?,
            originator,
            preferred_recipient: preferred,
            conversion_eits: eits,
            extensions: extensions.unwrap_or_default(),
            kind: kind.ok_or_else(|| missing("notification"))?,
        })
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::context(1), |set| {
            self.subject_ipm.encode(set, IpmIdentifier::TAG);
            for (number, descriptor) in [(1, &self.originator), (2, &self.preferred_recipient)] {
                if let Some(descriptor) = descriptor {
                    descriptor.encode(set, Tag::context(number));
                }
            }
            if let Some(eits) = &self.conversion_eits {
                eits.encode(set);
            }
            if !self.extensions.is_empty() {
                set.constructed(Tag::context(3), |list| {
                    for extension in &self.extensions {
                        extension.encode(list);
                    }
                });
            }
            set.constructed(Tag::context(0), |choice| self.kind.encode(choice));
        });
    }
}

impl IpnKind {
    fn decode(explicit: &Element<'_>, whole: &Bytes) -> Result<IpnKind, DecodeError> {
        const FIELD: &str = "notification";
        let choice = explicit.only_child().field(FIELD)?;
        match choice.tag {
            tag if tag == Tag::context(0) => IpnKind::non_receipt(&choice, whole),
            tag if tag == Tag::context(1) => IpnKind::receipt(&choice),
            _ => Ok(IpnKind::Other(super::shared_element(&choice, whole))),
        }
    }

    fn receipt(set: &Element<'_>) -> Result<IpnKind, DecodeError> {
        const FIELD: &str = "receipt-fields";
        let (mut time, mut mode, mut supplementary) = (None, None, None);
        for part in set.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                tag if tag == Tag::context(0) => {
                    once(
                        &mut time,
                        UtcTime::decode(&part, "receipt-time")?,
                        "receipt-time",
                        part.at,
                    )?;
                }
                tag if tag == Tag::context(1) => {
                    const FIELD: &str = "acknowledgment-mode";
                    once(&mut mode, part.unsigned(u32::MAX).field(FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(2) => {
                    const FIELD: &str = "suppl-receipt-info";
                    once(&mut supplementary, text(&part, FIELD)?, FIELD, part.at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let time = time.ok_or_else(|| Fault::Missing.of("receipt-time", set.at))?;
        Ok(IpnKind::Receipt { time, is_automatic: mode == Some(1), supplementary })
    }

    fn non_receipt(set: &Element<'_>, whole: &Bytes) -> Result<IpnKind, DecodeError> {
        const FIELD: &str = "non-receipt-fields";
        let (mut reason, mut discard, mut comment, mut returned) = (None, None, None, None);
        for part in set.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                tag if tag == Tag::context(0) => {
                    const FIELD: &str = "non-receipt-reason";
                    once(&mut reason, part.unsigned(u32::MAX).field(FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(1) => {
                    const FIELD: &str = "discard-reason";
                    once(&mut discard, part.unsigned(u32::MAX).field(FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(2) => {
                    const FIELD: &str = "auto-forward-comment";
                    once(&mut comment, text(&part, FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(3) => {
                    let ipm = Box::new(Ipm::decode(&part, whole)?);
                    once(&mut returned, ipm, "returned-ipm", part.at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        let reason = reason.ok_or_else(|| Fault::Missing.of("non-receipt-reason", set.at))?;
        Ok(IpnKind::NonReceipt { reason, discard, comment, returned })
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            IpnKind::Receipt { time, is_automatic, supplementary } => {
                writer.constructed(Tag::context(1), |set| {
                    time.encode(set, Tag::context(0));
                    if *is_automatic {
                        set.integer(Tag::context(1), 1);
                    }
                    if let Some(text) = supplementary {
                        crate::mts::put_text(set, Tag::context(2), text);
                    }
                });
            }
            IpnKind::NonReceipt { reason, discard, comment, returned } => {
                writer.constructed(Tag::context(0), |set| {
                    set.integer(Tag::context(0), i64::from(*reason));
                    if let Some(discard) = discard {
                        set.integer(Tag::context(1), i64::from(*discard));
                    }
                    if let Some(comment) = comment {
                        crate::mts::put_text(set, Tag::context(2), comment);
                    }
                    if let Some(ipm) = returned {
                        ipm.encode(set, Tag::context(3));
                    }
                });
            }
            IpnKind::Other(element) => writer.raw(element),
        }
    }
}
