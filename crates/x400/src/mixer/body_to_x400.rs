//! MIME bodies to body parts (RFC 2157).

use super::budget::{ConversionBudget, ELEMENTS_MAX, elements};
use super::entity::{ContentType, Entity, FIELDS_MAX, parse_parameters};
use super::heading_to_x400::{self, Mapped};
use super::trace::parse_date;
use super::{NotConverted, words};
use crate::ber::{Class, Reader, Tag};
use crate::content;
use crate::content::general_text::GeneralText;
use crate::content::heading::{Heading, HeadingExtension, IpmIdentifier};
use crate::content::{BODY_PARTS_MAX, BodyPart, FileTransfer, Forwarded, Ipm};
use crate::reasons::Cause;
use bytes::Bytes;

/// Maximum nesting of messages and multiparts; deeper ones are carried as octets. BER's own limit of
/// [`crate::ber::NESTING_MAX`] levels allows seven.
pub const DEPTH_MAX: usize = 5;

/// A body and its properties.
#[derive(Default)]
pub(super) struct ConvertedBody {
    pub parts: Vec<BodyPart>,
    pub has_text: bool,
    pub eits: Vec<Bytes>,
    pub needs_1988: bool,
}

/// Maps the body of a message; `mapped` gets the parts that belong into the heading.
pub(super) fn body(
    message: &Entity<'_>,
    work: &ConversionBudget<'_>,
    mapped: &mut Mapped,
    depth: usize,
) -> Result<ConvertedBody, NotConverted> {
    let mut body = ConvertedBody::default();
    match nested(message, depth) {
        Some(parts) => {
            // RFC 2157 §6.6: the subtype is recorded unless it is mixed.
            if message.content_type.subtype != "mixed" {
                mapped.heading.extensions.push(multipart(&message.content_type.subtype, true));
            }
            for part in &parts {
                body.part(part, work, depth)?;
            }
        }
        None => {
            body.part(message, work, depth)?;
            // Its fields are in the heading's list, which then has them twice in a single part.
            let is_carried = |field: &String| {
                field.get(..8).is_some_and(|front| front.eq_ignore_ascii_case("content-"))
            };
            if matches!(body.parts.last(), Some(BodyPart::Extended(e)) if e.oid == content::FILE_DATA)
            {
                mapped.rest.retain(|field| !is_carried(field));
            }
        }
    }
    mapped.finish();
    Ok(body)
}

/// The parts of a multipart that is taken apart.
fn nested<'a>(entity: &Entity<'a>, depth: usize) -> Option<Vec<Entity<'a>>> {
    let is_kept = matches!(entity.content_type.subtype.as_str(), "signed" | "encrypted");
    if entity.content_type.kind != "multipart" || is_kept || depth >= DEPTH_MAX {
        return None;
    }
    entity.parts().filter(|parts| !parts.is_empty())
}

impl ConvertedBody {
    fn part(
        &mut self,
        entity: &Entity<'_>,
        work: &ConversionBudget<'_>,
        depth: usize,
    ) -> Result<(), NotConverted> {
        work.spend_part()?;
        if self.parts.len() >= BODY_PARTS_MAX {
            return Err(NotConverted::new(Cause::ConversionImpractical, "too many body parts"));
        }
        let part = match self.converted(entity, work, depth)? {
            Some(part) => part,
            None => self.encapsulated(entity),
        };
        self.parts.push(part);
        Ok(())
    }

    fn converted(
        &mut self,
        entity: &Entity<'_>,
        work: &ConversionBudget<'_>,
        depth: usize,
    ) -> Result<Option<BodyPart>, NotConverted> {
        let content_type = &entity.content_type;
        if content_type.is("text", "plain") {
            return Ok(self.text(entity));
        }
        if content_type.is("application", "octet-stream") {
            let file = entity.decoded().map(|data| file(entity, data, content::UNKNOWN_ATTACHMENT));
            return Ok(file.map(|file| self.extended(file)));
        }
        if content_type.is("application", "x400-bp")
            && let Some(part) = entity.decoded().and_then(tunnelled)
        {
            self.needs_1988 = true;
            return Ok(Some(part));
        }
        if content_type.is("message", "rfc822") && depth < DEPTH_MAX {
            let Some(decoded) = entity.decoded() else { return Ok(None) };
            let inner = Entity::parse(&decoded);
            // More than is read of a header would be lost.
            if inner.fields.len() >= FIELDS_MAX {
                return Ok(None);
            }
            return self.message(&inner, work, depth + 1).map(Some);
        }
        match nested(entity, depth) {
            Some(parts) => self.multipart(&entity.content_type, &parts, work, depth + 1).map(Some),
            None => Ok(None),
        }
    }

    /// Plain text in a character set that X.400 has; `None`: it must be carried as it is.
    fn text(&mut self, entity: &Entity<'_>) -> Option<BodyPart> {
        // A disposition makes a file of a text; its name would be lost.
        if entity
            .field("Content-Disposition")
            .is_some_and(|v| v.to_ascii_lowercase().contains("filename"))
        {
            return None;
        }
        let charset = entity.content_type.parameter("charset").unwrap_or("us-ascii");
        let charset = charset.to_ascii_lowercase();
        let octets = entity.decoded()?;
        let is_text =
            |octets: &[u8]| octets.iter().all(|&b| b != 0 && b != 0x1b && b != 0x0e && b != 0x0f);
        if octets.is_ascii()
            && is_text(&octets)
            && (charset == "utf-8"
                || charset.starts_with("us-ascii")
                || charset.starts_with("iso-8859-"))
        {
            self.has_text = true;
            return Some(BodyPart::Ia5 { repertoire: Some(5), text: Bytes::from(octets) });
        }
        let (part, octets) = match charset.strip_prefix("iso-8859-") {
            Some(part) => (part.parse::<u8>().ok().filter(|part| (1..=9).contains(part))?, octets),
            // More recipients can read Latin-1, so it is used if it suffices.
            None if charset == "utf-8" => {
                let text = String::from_utf8(octets).ok()?;
                let latin1: Option<Vec<u8>> =
                    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
                (1, latin1?)
            }
            None => return None,
        };
        // The upper half of the set has no controls.
        if !is_text(&octets) || octets.iter().any(|octet| (0x80..0xa0).contains(octet)) {
            return None;
        }
        let text = GeneralText { part: Some(part), text: Bytes::from(octets) };
        self.eits.extend(text.eits());
        let extended = text.to_extended()?;
        self.needs_1988 = true;
        Some(BodyPart::Extended(extended))
    }

    fn extended(&mut self, file: FileTransfer) -> BodyPart {
        self.needs_1988 = true;
        self.eits.push(Bytes::from_static(content::FILE_DATA));
        BodyPart::Extended(file.to_extended())
    }

    fn message(
        &mut self,
        inner: &Entity<'_>,
        work: &ConversionBudget<'_>,
        depth: usize,
    ) -> Result<BodyPart, NotConverted> {
        let mut mapped = heading_to_x400::map(inner, work);
        // The date is not part of a heading, and no envelope exists for it here.
        if let Some(date) = inner.field("Date") {
            mapped.rest.push(format!("Date: {date}"));
        }
        let body = body(inner, work, &mut mapped, depth)?;
        self.absorb(&body);
        self.needs_1988 |= mapped.heading.needs_1988();
        let ipm = Ipm { heading: mapped.heading, body: body.parts };
        Ok(BodyPart::Message(Box::new(Forwarded { ipm, ..Forwarded::default() })))
    }

    /// A multipart within another becomes a pseudo message (RFC 2157 §6.6).
    fn multipart(
        &mut self,
        content_type: &ContentType,
        parts: &[Entity<'_>],
        work: &ConversionBudget<'_>,
        depth: usize,
    ) -> Result<BodyPart, NotConverted> {
        let subtype = &content_type.subtype;
        let subject = match subtype.as_str() {
            "mixed" => "Multipart Message".to_owned(),
            "alternative" => "Alternative Body Parts containing the same information".to_owned(),
            "digest" => "Message Digest".to_owned(),
            "parallel" => "Body Parts interpreted in parallel".to_owned(),
            other => format!("Multipart Message ({other})"),
        };
        let mut inner = ConvertedBody::default();
        for part in parts {
            inner.part(part, work, depth)?;
        }
        self.absorb(&inner);
        self.needs_1988 = true;
        let relative = format!("{}.{depth}.{}", work.here.local_id, self.parts.len());
        let heading = Heading {
            this_ipm: IpmIdentifier { user: None, relative: relative.into() },
            subject: Some(Bytes::from(subject.into_bytes())),
            extensions: vec![multipart(subtype, false)],
            ..Heading::default()
        };
        let ipm = Ipm { heading, body: inner.parts };
        Ok(BodyPart::Message(Box::new(Forwarded { ipm, ..Forwarded::default() })))
    }

    fn absorb(&mut self, inner: &ConvertedBody) {
        self.has_text |= inner.has_text;
        self.needs_1988 |= inner.needs_1988;
        for eit in &inner.eits {
            if !self.eits.contains(eit) {
                self.eits.push(eit.clone());
            }
        }
    }

    /// Maps an entity without loss, whatever its type (RFC 2157 §3.1). A signed or encrypted one is carried as text,
    /// since a changed encoding would break it; other types become a file with all their fields.
    fn encapsulated(&mut self, entity: &Entity<'_>) -> BodyPart {
        let is_structured = matches!(entity.content_type.kind.as_str(), "multipart" | "message");
        match entity.decoded().filter(|_| !is_structured) {
            Some(data) => self.extended(file(entity, data, content::MIME_FILE)),
            None => self.as_text(entity),
        }
    }

    /// RFC 2157 §3.1.3 (HARPOON).
    fn as_text(&mut self, entity: &Entity<'_>) -> BodyPart {
        let mut text = b"MIME-Version: 1.0 (generated by gateway)\r\n".to_vec();
        for (name, value) in &entity.fields {
            if name.get(..8).is_some_and(|front| front.eq_ignore_ascii_case("content-")) {
                text.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
            }
        }
        text.extend_from_slice(b"\r\n");
        text.extend_from_slice(entity.body);
        self.has_text = true;
        BodyPart::Ia5 { repertoire: Some(5), text: Bytes::from(text) }
    }
}

/// A body part of X.400 tunnelled through the internet (RFC 2157 §3.2); `None` if it is not one.
fn tunnelled(octets: Vec<u8>) -> Option<BodyPart> {
    let mut reader = Reader::new(&octets);
    let element = reader.any().ok()?;
    reader.end().ok()?;
    // All that is in it must be sound, down to where it would not be read on the other side, and not more than is read.
    let (count, mistake) = elements(&octets, ELEMENTS_MAX);
    if count > ELEMENTS_MAX || mistake.is_some() {
        return None;
    }
    (element.tag.class == Class::Context).then(|| BodyPart::Other(Bytes::from(octets.clone())))
}

/// Records the multipart subtype.
fn multipart(subtype: &str, is_message: bool) -> HeadingExtension {
    HeadingExtension::new(content::MULTIPART, |value| {
        value.constructed(Tag::SEQUENCE, |sequence| {
            sequence.text(Tag::IA5_STRING, subtype);
            if !is_message {
                sequence.boolean(Tag::BOOLEAN, false);
            }
        });
    })
}

/// A file with the attributes that MIME has (RFC 2157 §2.3.2).
fn file(entity: &Entity<'_>, data: Vec<u8>, application: &'static [u8]) -> FileTransfer {
    let disposition = entity.field("Content-Disposition").unwrap_or_default();
    let parameters = parse_parameters(disposition.split_once(';').map_or("", |(_, rest)| rest));
    let parameter = |name: &str| {
        parameters.iter().find(|(known, _)| known == name).map(|(_, value)| words::decode(value))
    };
    let date = |name: &str| parameter(name).and_then(|text| parse_date(&text));
    let name = entity.content_type.parameter("name").map(words::decode);
    FileTransfer {
        application: Some(Bytes::from_static(application)),
        description: entity.field("Content-Description").map(words::decode),
        pathname: parameter("filename").or(name),
        created: date("creation-date"),
        modified: date("modification-date"),
        read: date("read-date"),
        size: parameter("size").and_then(|text| text.parse().ok()),
        fields: carried_fields(entity),
        data: Bytes::from(data),
    }
}

/// The fields that describe a part, except for its encoding, which is chosen anew.
fn carried_fields(entity: &Entity<'_>) -> Vec<String> {
    let is_carried = |name: &str| {
        name.get(..8).is_some_and(|front| front.eq_ignore_ascii_case("content-"))
            && !name.eq_ignore_ascii_case("Content-Transfer-Encoding")
    };
    let fields = entity.fields.iter().filter(|(name, _)| is_carried(name));
    fields
        .map(|(name, value)| {
            let value = if value.is_ascii() { value.clone() } else { words::encode(value) };
            format!("{name}: {value}")
        })
        .collect()
}
