//! Headings of interpersonal messages (X.420 §7.2, IPMSInformationObjects).

use super::HEADING_ITEMS_MAX;
use crate::ber::{Element, Tag, Writer};
use crate::decode::{self, DecodeError, Fault, InField, once};
use crate::mts::{Flags, UtcTime};
use crate::or_name::OrName;
use crate::or_name::ber::OR_NAME;
use bytes::Bytes;

const IPM_IDENTIFIER: Tag = Tag::application(11);

/// The heading of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heading {
    /// Its name.
    pub this_ipm: IpmIdentifier,
    /// The originator.
    pub originator: Option<OrDescriptor>,
    /// Authorizing users.
    pub authorizing_users: Vec<OrDescriptor>,
    /// To.
    pub primary_recipients: Vec<RecipientSpecifier>,
    /// Cc.
    pub copy_recipients: Vec<RecipientSpecifier>,
    /// Bcc; empty and absent are different.
    pub blind_copy_recipients: Option<Vec<RecipientSpecifier>>,
    /// The message that it answers.
    pub replied_to: Option<IpmIdentifier>,
    /// Messages that it replaces.
    pub obsoleted: Vec<IpmIdentifier>,
    /// Messages that it refers to.
    pub related: Vec<IpmIdentifier>,
    /// Subject, as teletex octets.
    pub subject: Option<Bytes>,
    /// Time of expiry.
    pub expiry: Option<UtcTime>,
    /// Time by which an answer is requested.
    pub reply_by: Option<UtcTime>,
    /// Recipients of answers.
    pub reply_recipients: Vec<OrDescriptor>,
    /// Importance.
    pub importance: Importance,
    /// Sensitivity.
    pub sensitivity: Option<Sensitivity>,
    /// It was forwarded by no person.
    pub is_auto_forwarded: bool,
    /// Extensions in their order.
    pub extensions: Vec<HeadingExtension>,
}

/// Importance of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Importance {
    /// 0.
    Low,
    /// 1.
    #[default]
    Normal,
    /// 2.
    High,
}

/// Sensitivity of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sensitivity {
    /// 1: it is for the recipient as a person.
    Personal,
    /// 2: for the recipient only.
    Private,
    /// 3: not outside the company.
    CompanyConfidential,
}

/// Identifier of an interpersonal message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpmIdentifier {
    /// The user that assigned the name.
    pub user: Option<OrName>,
    /// Part unique within that user.
    pub relative: Box<str>,
}

/// A user, by address or by a name for people.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrDescriptor {
    /// The address.
    pub formal_name: Option<OrName>,
    /// The name for people, as teletex octets.
    pub free_form_name: Option<Bytes>,
    /// The telephone number.
    pub telephone: Option<Box<str>>,
}

/// A recipient, and the requests to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecipientSpecifier {
    /// Who.
    pub recipient: OrDescriptor,
    /// Bits: 0 receipt, 1 non-receipt, 2 return of the message.
    pub notification_requests: Flags,
    /// An answer is wanted.
    pub is_reply_requested: bool,
}

/// An extension of a heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadingExtension {
    /// The octets of its object identifier.
    pub oid: Bytes,
    /// The element of its value, as received; `None` is NULL.
    pub value: Option<Bytes>,
}

impl Importance {
    /// The importance of this number; other numbers than low and high are normal.
    #[must_use]
    pub fn of_number(number: u32) -> Importance {
        match number {
            0 => Importance::Low,
            2 => Importance::High,
            _ => Importance::Normal,
        }
    }

    fn number(self) -> i64 {
        match self {
            Importance::Low => 0,
            Importance::Normal => 1,
            Importance::High => 2,
        }
    }
}

impl Sensitivity {
    /// The sensitivity of this number.
    #[must_use]
    pub fn of_number(number: u32) -> Option<Sensitivity> {
        [Sensitivity::Personal, Sensitivity::Private, Sensitivity::CompanyConfidential]
            .into_iter()
            .find(|sensitivity| sensitivity.number() == i64::from(number))
    }

    fn number(self) -> i64 {
        match self {
            Sensitivity::Personal => 1,
            Sensitivity::Private => 2,
            Sensitivity::CompanyConfidential => 3,
        }
    }
}

/// Reads a list of at most [`HEADING_ITEMS_MAX`].
fn list<T>(
    element: &Element<'_>,
    field: &'static str,
    decode: impl Fn(&Element<'_>) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    decode::list(element, field, HEADING_ITEMS_MAX, decode)
}

fn octets(element: &Element<'_>, field: &'static str) -> Result<Bytes, DecodeError> {
    Ok(Bytes::from(element.octets().field(field)?.into_owned()))
}

/// Characters, octet by octet; controls become blanks, since these texts end up in header fields.
fn text(element: &Element<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    let octets = element.octets().field(field)?;
    let text: String = octets
        .iter()
        .map(|&octet| char::from(octet))
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    Ok(text.into())
}

impl Heading {
    pub(super) fn decode(set: &Element<'_>) -> Result<Heading, DecodeError> {
        let mut heading = Heading::default();
        let mut this_ipm = None;
        let mut seen = 0_u32;
        for field in set.children().field("heading")? {
            let field = field.field("heading")?;
            if field.tag == IPM_IDENTIFIER {
                once(&mut this_ipm, IpmIdentifier::decode(&field)?, "this-IPM", field.at)?;
                continue;
            }
            let is_known = (0..=15).any(|number| field.tag == Tag::context(number));
            let bit = 1_u32 << field.tag.number.min(31);
            if is_known && seen & bit != 0 {
                return Err(Fault::Repeated.of("heading", field.at));
            }
            seen |= if is_known { bit } else { 0 };
            if is_known {
                heading.take(&field)?;
            }
        }
        heading.this_ipm = this_ipm.ok_or_else(|| Fault::Missing.of("this-IPM", set.at))?;
        Ok(heading)
    }

    /// A field with a context-specific tag.
    fn take(&mut self, field: &Element<'_>) -> Result<(), DecodeError> {
        let recipients = |name| list(field, name, RecipientSpecifier::decode);
        match field.tag.number {
            0 => self.originator = Some(OrDescriptor::decode(field)?),
            1 => self.authorizing_users = list(field, "authorizing-users", OrDescriptor::decode)?,
            2 => self.primary_recipients = recipients("primary-recipients")?,
            3 => self.copy_recipients = recipients("copy-recipients")?,
            4 => self.blind_copy_recipients = Some(recipients("blind-copy-recipients")?),
            5 => self.replied_to = Some(IpmIdentifier::decode(field)?),
            6 => self.obsoleted = list(field, "obsoleted-IPMs", IpmIdentifier::decode)?,
            7 => self.related = list(field, "related-IPMs", IpmIdentifier::decode)?,
            8 => {
                let inner =
                    if field.constructed { field.only_child().field("subject")? } else { *field };
                self.subject = Some(octets(&inner, "subject")?);
            }
            9 => self.expiry = Some(UtcTime::decode(field, "expiry-time")?),
            10 => self.reply_by = Some(UtcTime::decode(field, "reply-time")?),
            11 => self.reply_recipients = list(field, "reply-recipients", OrDescriptor::decode)?,
            12 => {
                self.importance =
                    Importance::of_number(field.unsigned(u32::MAX).field("importance")?);
            }
            13 => {
                let number = field.unsigned(u32::MAX).field("sensitivity")?;
                self.sensitivity = Sensitivity::of_number(number);
            }
            14 => self.is_auto_forwarded = field.boolean().field("auto-forwarded")?,
            _ => self.extensions = list(field, "extensions", HeadingExtension::decode)?,
        }
        Ok(())
    }

    pub(super) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SET, |set| {
            self.this_ipm.encode(set, IPM_IDENTIFIER);
            if let Some(originator) = &self.originator {
                originator.encode(set, Tag::context(0));
            }
            descriptors(set, 1, &self.authorizing_users);
            if !self.primary_recipients.is_empty() {
                recipients(set, 2, &self.primary_recipients);
            }
            if !self.copy_recipients.is_empty() {
                recipients(set, 3, &self.copy_recipients);
            }
            if let Some(blind) = &self.blind_copy_recipients {
                recipients(set, 4, blind);
            }
            if let Some(identifier) = &self.replied_to {
                identifier.encode(set, Tag::context(5));
            }
            identifiers(set, 6, &self.obsoleted);
            identifiers(set, 7, &self.related);
            self.encode_rest(set);
        });
    }

    fn encode_rest(&self, set: &mut Writer) {
        if let Some(subject) = &self.subject {
            set.constructed(Tag::context(8), |inner| {
                inner.primitive(Tag::TELETEX_STRING, subject);
            });
        }
        for (number, time) in [(9, self.expiry), (10, self.reply_by)] {
            if let Some(time) = time {
                time.encode(set, Tag::context(number));
            }
        }
        descriptors(set, 11, &self.reply_recipients);
        if self.importance != Importance::Normal {
            set.integer(Tag::context(12), self.importance.number());
        }
        if let Some(sensitivity) = self.sensitivity {
            set.integer(Tag::context(13), sensitivity.number());
        }
        if self.is_auto_forwarded {
            set.boolean(Tag::context(14), true);
        }
        if !self.extensions.is_empty() {
            set.constructed(Tag::context(15), |list| {
                for extension in &self.extensions {
                    extension.encode(list);
                }
            });
        }
    }

    /// The value of an extension, as an element.
    #[must_use]
    pub fn extension(&self, oid: &[u8]) -> Option<&HeadingExtension> {
        self.extensions.iter().find(|extension| extension.oid == oid)
    }

    /// Returns true if it needs features missing in P2 of 1984: the content is then P22.
    #[must_use]
    pub fn needs_1988(&self) -> bool {
        !self.extensions.is_empty()
    }
}

fn descriptors(set: &mut Writer, number: u32, all: &[OrDescriptor]) {
    if !all.is_empty() {
        set.constructed(Tag::context(number), |list| {
            for descriptor in all {
                descriptor.encode(list, Tag::SET);
            }
        });
    }
}

fn recipients(set: &mut Writer, number: u32, all: &[RecipientSpecifier]) {
    set.constructed(Tag::context(number), |list| {
        for recipient in all {
            recipient.encode(list);
        }
    });
}

fn identifiers(set: &mut Writer, number: u32, all: &[IpmIdentifier]) {
    if !all.is_empty() {
        set.constructed(Tag::context(number), |list| {
            for identifier in all {
                identifier.encode(list, IPM_IDENTIFIER);
            }
        });
    }
}

impl IpmIdentifier {
    pub(super) fn decode(element: &Element<'_>) -> Result<IpmIdentifier, DecodeError> {
        const FIELD: &str = "ipm-identifier";
        let (mut user, mut relative) = (None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            if part.tag == OR_NAME {
                once(&mut user, OrName::decode(&part)?, FIELD, part.at)?;
            } else {
                once(&mut relative, text(&part, FIELD)?, FIELD, part.at)?;
            }
        }
        let relative = relative.ok_or_else(|| Fault::Missing.of(FIELD, element.at))?;
        Ok(IpmIdentifier { user, relative })
    }

    pub(super) fn encode(&self, writer: &mut Writer, tag: Tag) {
        writer.constructed(tag, |set| {
            if let Some(user) = &self.user {
                user.encode(set, OR_NAME);
            }
            crate::mts::put_text(set, Tag::PRINTABLE_STRING, &self.relative);
        });
    }

    /// Reads a subject-ipm, which has its own tag.
    pub(super) const TAG: Tag = IPM_IDENTIFIER;
}

impl OrDescriptor {
    pub(super) fn decode(element: &Element<'_>) -> Result<OrDescriptor, DecodeError> {
        const FIELD: &str = "or-descriptor";
        let mut descriptor = OrDescriptor::default();
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                OR_NAME => {
                    once(&mut descriptor.formal_name, OrName::decode(&part)?, FIELD, part.at)?
                }
                tag if tag == Tag::context(0) => {
                    once(&mut descriptor.free_form_name, octets(&part, FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(1) => {
                    once(&mut descriptor.telephone, text(&part, FIELD)?, FIELD, part.at)?;
                }
                // A field of a later edition.
                _ => {}
            }
        }
        Ok(descriptor)
    }

    pub(super) fn encode(&self, writer: &mut Writer, tag: Tag) {
        writer.constructed(tag, |set| {
            if let Some(name) = &self.formal_name {
                name.encode(set, OR_NAME);
            }
            if let Some(octets) = &self.free_form_name {
                set.primitive(Tag::context(0), octets);
            }
            if let Some(telephone) = &self.telephone {
                crate::mts::put_text(set, Tag::context(1), telephone);
            }
        });
    }
}

impl RecipientSpecifier {
    fn decode(element: &Element<'_>) -> Result<RecipientSpecifier, DecodeError> {
        const FIELD: &str = "recipient-specifier";
        let (mut recipient, mut requests, mut reply) = (None, None, None);
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                tag if tag == Tag::context(0) => {
                    once(&mut recipient, OrDescriptor::decode(&part)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(1) => {
                    once(&mut requests, Flags::decode(&part, FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(2) => {
                    once(&mut reply, part.boolean().field(FIELD)?, FIELD, part.at)?;
                }
                // Extensions of 1992.
                _ => {}
            }
        }
        Ok(RecipientSpecifier {
            recipient: recipient.ok_or_else(|| Fault::Missing.of(FIELD, element.at))?,
            notification_requests: requests.unwrap_or_default(),
            is_reply_requested: reply.unwrap_or_default(),
        })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SET, |set| {
            self.recipient.encode(set, Tag::context(0));
            if !self.notification_requests.is_empty() {
                self.notification_requests.encode(set, Tag::context(1), 0);
            }
            if self.is_reply_requested {
                set.boolean(Tag::context(2), true);
            }
        });
    }
}

impl HeadingExtension {
    pub(crate) fn decode(element: &Element<'_>) -> Result<HeadingExtension, DecodeError> {
        const FIELD: &str = "heading-extension";
        let mut parts = element.children().field(FIELD)?;
        let oid = Bytes::copy_from_slice(parts.read(Tag::OID).field(FIELD)?.oid().field(FIELD)?);
        let value = match parts.next() {
            // Some write a tag around it, as X.411's extensions have.
            Some(value) => Some(Bytes::copy_from_slice(value.field(FIELD)?.encoded)),
            None => None,
        };
        parts.end().field(FIELD)?;
        Ok(HeadingExtension { oid, value })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::SEQUENCE, |field| {
            field.primitive(Tag::OID, &self.oid);
            if let Some(value) = &self.value {
                field.raw(value);
            }
        });
    }

    /// An extension with a value written by `write`.
    #[must_use]
    pub fn new(oid: &[u8], write: impl FnOnce(&mut Writer)) -> HeadingExtension {
        let mut value = Writer::new();
        write(&mut value);
        HeadingExtension {
            oid: Bytes::copy_from_slice(oid),
            value: Some(Bytes::from(value.into_vec())),
        }
    }
}
