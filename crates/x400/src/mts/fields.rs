//! Fields that messages, probes and reports have in common, as octets (X.411, MTSAbstractService).

use super::{
    ContentType, EITS_MAX, Eits, Flags, GlobalDomain, LOCAL_ID_BYTES_MAX, MtsIdentifier, Priority,
};
use crate::ber::{Element, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField, once};
use bytes::Bytes;

pub(super) const COUNTRY: Tag = Tag::application(1);
pub(super) const ADMD: Tag = Tag::application(2);
pub(super) const GLOBAL_DOMAIN: Tag = Tag::application(3);
pub(super) const MTS_IDENTIFIER: Tag = Tag::application(4);
pub(super) const EITS: Tag = Tag::application(5);
pub(super) const CONTENT_TYPE: Tag = Tag::application(6);
pub(super) const PRIORITY: Tag = Tag::application(7);
pub(super) const MESSAGE_INDICATORS: Tag = Tag::application(8);
pub(super) const TRACE: Tag = Tag::application(9);
pub(super) const CONTENT_IDENTIFIER: Tag = Tag::application(10);

/// The name of an envelope's fields for each recipient.
pub(super) const RECIPIENTS_FIELD: &str = "per-recipient-fields";

/// Characters without controls, at most `max` octets.
pub(crate) fn text(
    element: &Element<'_>,
    field: &'static str,
    max: usize,
) -> Result<Box<str>, DecodeError> {
    let octets = element.octets().field(field)?;
    if octets.len() > max {
        return Err(Fault::TooLong(max).of(field, element.at));
    }
    if octets.iter().all(|octet| (b' '..0x7f).contains(octet)) {
        return Ok(String::from_utf8_lossy(&octets).into());
    }
    let text: String = octets.iter().map(|&octet| char::from(octet)).collect();
    if text.chars().any(char::is_control) {
        return Err(Fault::Value("a control character").of(field, element.at));
    }
    Ok(text.into())
}

/// The same of a text for people, in which a control character is a blank.
pub(super) fn human_text(
    element: &Element<'_>,
    field: &'static str,
    max: usize,
) -> Result<Box<str>, DecodeError> {
    let octets = element.octets().field(field)?;
    if octets.len() > max {
        return Err(Fault::TooLong(max).of(field, element.at));
    }
    let text = octets.iter().map(|&octet| char::from(octet));
    Ok(text.map(|c| if c.is_control() { ' ' } else { c }).collect::<String>().into())
}

/// A string of characters below 256, one octet each.
pub(crate) fn put_text(writer: &mut Writer, tag: Tag, text: &str) {
    if text.is_ascii() {
        writer.text(tag, text);
        return;
    }
    let octets: Vec<u8> =
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    writer.primitive(tag, &octets);
}

/// A CHOICE of NumericString and PrintableString.
fn put_code(writer: &mut Writer, text: &str) {
    let is_numeric = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    put_text(writer, if is_numeric { Tag::NUMERIC_STRING } else { Tag::PRINTABLE_STRING }, text);
}

impl GlobalDomain {
    pub(crate) fn decode(element: &Element<'_>) -> Result<GlobalDomain, DecodeError> {
        const FIELD: &str = "global-domain-identifier";
        const MAX: usize = crate::or_name::NAME_BYTES_MAX;
        let mut parts = element.children().field(FIELD)?;
        let country =
            parts.read(COUNTRY).field("country-name")?.only_child().field("country-name")?;
        let admd = parts.read(ADMD).field("administration-domain-name")?;
        let admd = admd.only_child().field("administration-domain-name")?;
        let prmd = if parts.is_empty() { None } else { Some(parts.any().field(FIELD)?) };
        parts.end().field(FIELD)?;
        Ok(GlobalDomain {
            country: text(&country, "country-name", MAX)?,
            admd: text(&admd, "administration-domain-name", MAX)?,
            prmd: prmd.map(|prmd| text(&prmd, "private-domain-identifier", MAX)).transpose()?,
        })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(GLOBAL_DOMAIN, |domain| {
            domain.constructed(COUNTRY, |choice| put_code(choice, &self.country));
            domain.constructed(ADMD, |choice| put_code(choice, &self.admd));
            if let Some(prmd) = &self.prmd {
                put_code(domain, prmd);
            }
        });
    }
}

impl MtsIdentifier {
    pub(crate) fn decode(element: &Element<'_>) -> Result<MtsIdentifier, DecodeError> {
        const FIELD: &str = "mts-identifier";
        let mut parts = element.children().field(FIELD)?;
        let domain = GlobalDomain::decode(&parts.read(GLOBAL_DOMAIN).field(FIELD)?)?;
        let local = text(&parts.any().field(FIELD)?, "local-identifier", LOCAL_ID_BYTES_MAX)?;
        parts.end().field(FIELD)?;
        Ok(MtsIdentifier { domain, local })
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        writer.constructed(MTS_IDENTIFIER, |identifier| {
            self.domain.encode(identifier);
            put_text(identifier, Tag::IA5_STRING, &self.local);
        });
    }
}

impl ContentType {
    /// Returns true if an element is a content type: an untagged CHOICE in a SET.
    pub(crate) fn is_tag(tag: Tag) -> bool {
        tag == CONTENT_TYPE || tag == Tag::OID
    }

    pub(crate) fn decode(element: &Element<'_>) -> Result<ContentType, DecodeError> {
        const FIELD: &str = "content-type";
        if element.tag == Tag::OID {
            return Ok(ContentType::Extended(Bytes::copy_from_slice(element.oid().field(FIELD)?)));
        }
        Ok(ContentType::BuiltIn(element.unsigned(u32::MAX).field(FIELD)?))
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        match self {
            ContentType::BuiltIn(number) => writer.integer(CONTENT_TYPE, i64::from(*number)),
            ContentType::Extended(oid) => writer.primitive(Tag::OID, oid),
        }
    }
}

impl Priority {
    pub(crate) fn decode(element: &Element<'_>) -> Result<Priority, DecodeError> {
        let number = element.integer().field("priority")?;
        Priority::of_number(number)
            .ok_or_else(|| Fault::Value("not a priority").of("priority", element.at))
    }
}

impl Flags {
    pub(crate) fn decode(element: &Element<'_>, field: &'static str) -> Result<Flags, DecodeError> {
        let bits = element.bits().field(field)?;
        let mut flags = Flags::default();
        for bit in (0..16).filter(|&bit| bits.has(usize::from(bit))) {
            flags = flags.with(bit, true);
        }
        Ok(flags)
    }

    /// Writes the bits up to the last one that is set, and at least `count`.
    pub(crate) fn encode(self, writer: &mut Writer, tag: Tag, count: usize) {
        writer.bits(tag, &self.0.to_be_bytes(), self.len().max(count));
    }
}

impl Eits {
    pub(crate) fn decode(element: &Element<'_>) -> Result<Eits, DecodeError> {
        const FIELD: &str = "encoded-information-types";
        let mut built_in = None;
        let mut eits = Eits::default();
        for part in element.children().field(FIELD)? {
            let part = part.field(FIELD)?;
            match part.tag {
                tag if tag == Tag::context(0) => {
                    once(&mut built_in, Flags::decode(&part, FIELD)?, FIELD, part.at)?;
                }
                tag if tag == Tag::context(4) => {
                    for oid in part.children().field(FIELD)? {
                        let oid = oid.field(FIELD)?;
                        if eits.extended.len() >= EITS_MAX {
                            return Err(Fault::TooMany(EITS_MAX).of(FIELD, oid.at));
                        }
                        eits.extended.push(Bytes::copy_from_slice(oid.oid().field(FIELD)?));
                    }
                }
                _ => eits.parameters.push(Bytes::copy_from_slice(part.encoded)),
            }
            if eits.parameters.len() > EITS_MAX {
                return Err(Fault::TooMany(EITS_MAX).of(FIELD, part.at));
            }
        }
        eits.built_in = built_in.unwrap_or_default();
        Ok(eits)
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        self.encode_as(writer, EITS);
    }

    pub(crate) fn encode_as(&self, writer: &mut Writer, tag: Tag) {
        writer.constructed(tag, |set| {
            self.built_in.encode(set, Tag::context(0), 0);
            for parameter in &self.parameters {
                set.raw(parameter);
            }
            if !self.extended.is_empty() {
                set.constructed(Tag::context(4), |list| {
                    for oid in &self.extended {
                        list.primitive(Tag::OID, oid);
                    }
                });
            }
        });
    }
}
