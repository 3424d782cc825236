//! Body parts to MIME (RFC 2157).

use super::entity::{Entity, FIELDS_MAX};
use super::output::{MimeHeader, MimePart, crlf, is_fit};
use super::{ConversionContext, heading_to_mail, words};
use crate::ber::{Reader, Tag, oid_text};
use crate::content;
use crate::content::body::ExtendedData;
use crate::content::general_text::GeneralText;
use crate::content::heading::{Heading, HeadingExtension};
use crate::content::{BodyPart, Extended, FileTransfer, Forwarded, Ipm, teletex};
use bytes::Bytes;

/// Starts of text parts that contain MIME (RFC 2157 §3.1.3), or a header (RFC 2156 appendix B).
const HARPOON: &str = "mime-version:";
const HEADER_PART: &str = "rfc-822-headers:";

/// The body of a message as one MIME part, and fields that were in it.
pub(super) fn body(ipm: &Ipm, here: &ConversionContext<'_>) -> (MimePart, Vec<String>) {
    let mut parts = &ipm.body[..];
    let mut fields = Vec::new();
    // A gateway to 1984 puts unmappable fields into a first part.
    if let [BodyPart::Ia5 { text, .. }, rest @ ..] = parts
        && begins(text, HEADER_PART)
    {
        fields = header_part(text);
        parts = rest;
    }
    (joined(&ipm.heading, parts, here), fields)
}

/// The fields of a part that is a header, unfolded, as many as are read of one.
fn header_part(text: &[u8]) -> Vec<String> {
    let all = mail::header::fields(text).skip(1).take(FIELDS_MAX);
    all.map(|field| {
        let name = String::from_utf8_lossy(field.name);
        format!("{name}: {}", String::from_utf8_lossy(&field.unfolded()))
    })
    .collect()
}

fn joined(heading: &Heading, parts: &[BodyPart], here: &ConversionContext<'_>) -> MimePart {
    let multipart = heading.extension(content::MULTIPART).and_then(multipart_type);
    match (parts, multipart) {
        ([], None) => MimePart::text("text/plain; charset=us-ascii", b""),
        ([one], None) => part(one, here),
        (many, multipart) => {
            let converted: Vec<MimePart> = many.iter().map(|one| part(one, here)).collect();
            let is_digest = !converted.is_empty() && converted.iter().all(|part| part.is_message);
            let subtype = match multipart {
                Some((subtype, _)) => subtype,
                None if is_digest => "digest".to_owned(),
                None => "mixed".to_owned(),
            };
            MimePart::multipart(&subtype, "", &converted, here.local_id)
        }
    }
}

/// The multipart subtype of a message, and true if it had more than that (RFC 2157 §6.6).
fn multipart_type(extension: &HeadingExtension) -> Option<(String, bool)> {
    let mut parts = Reader::new(extension.value.as_ref()?).next()?.ok()?.children().ok()?;
    let subtype = parts.next()?.ok()?.octets().ok()?.to_ascii_lowercase();
    let is_message = parts.next().and_then(|flag| flag.ok()?.boolean().ok()).unwrap_or(true);
    let is_token = |octet: &u8| octet.is_ascii_alphanumeric() || b"-+._".contains(octet);
    if subtype.is_empty() || subtype.len() > 64 || !subtype.iter().all(is_token) {
        return None;
    }
    Some((String::from_utf8(subtype).ok()?, is_message))
}

fn begins(text: &[u8], word: &str) -> bool {
    text.get(..word.len()).is_some_and(|front| front.eq_ignore_ascii_case(word.as_bytes()))
}

fn part(body_part: &BodyPart, here: &ConversionContext<'_>) -> MimePart {
    match body_part {
        BodyPart::Ia5 { text, .. } if begins(text, HARPOON) => harpoon(text),
        BodyPart::Ia5 { text, .. } => {
            // Programs write Latin-1 into it, against the rules; this is better than no text.
            let charset = if text.is_ascii() { "us-ascii" } else { "iso-8859-1" };
            MimePart::text(&format!("text/plain; charset={charset}"), text)
        }
        BodyPart::Teletex(pages) => teletex_pages(pages),
        BodyPart::Bilateral(octets) => MimePart::octets("application/octet-stream", octets),
        BodyPart::Message(message) => forwarded(message, here),
        BodyPart::Extended(extended) => self::extended(extended),
        BodyPart::Other(element) => {
            let tag = Reader::new(element).peek().ok().flatten().map_or(0, |tag| tag.number);
            MimePart::octets(&format!("application/x400-bp; bp-type={tag}"), element)
        }
    }
}

/// A MIME entity in a text: as it is, where mail can have it so.
fn harpoon(text: &Bytes) -> MimePart {
    let entity = Entity::parse(text);
    let body = crlf(entity.body);
    let encoding = entity.field("Content-Transfer-Encoding").map(str::trim);
    // Line ends are ordinary octets there.
    let is_binary = encoding.is_some_and(|encoding| encoding.eq_ignore_ascii_case("binary"));
    let is_fit = is_fit(&body) && !(is_binary && body != entity.body);
    // RFC 2045 §6.4: a multipart or a message cannot be encoded, so the text is carried; likewise content that cannot
    // be decoded.
    let is_structured = matches!(entity.content_type.kind.as_str(), "multipart" | "message");
    let decoded = match is_fit {
        true => None,
        false => match entity.decoded().filter(|_| !is_structured) {
            Some(decoded) => Some(decoded),
            None => return MimePart::octets("application/octet-stream", text),
        },
    };
    let mut part = MimePart::default();
    let fields: Vec<String> =
        entity.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    part.content_fields(fields.iter().map(String::as_str));
    if let Some(decoded) = decoded {
        part.carry(&decoded);
        return part;
    }
    // The encoding is that of the text as it is; a signature may depend on it.
    if let Some(encoding) = encoding {
        part.fields.field("Content-Transfer-Encoding", encoding);
    }
    part.body = body;
    part
}

/// Pages are separated by form feeds (RFC 2157 §6.7), in a common character set.
fn teletex_pages(pages: &[Bytes]) -> MimePart {
    let mut text = String::new();
    for page in pages {
        for (index, line) in page.split(|&octet| octet == b'\n').enumerate() {
            if index > 0 {
                text.push_str("\r\n");
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            text.push_str(&teletex::to_text(line.strip_suffix(b"\x0c").unwrap_or(line)));
        }
        text.push('\u{c}');
    }
    MimePart::text("text/plain; charset=utf-8", text.as_bytes())
}

fn forwarded(message: &Forwarded, here: &ConversionContext<'_>) -> MimePart {
    let ipm = &message.ipm;
    if let Some((_, false)) = ipm.heading.extension(content::MULTIPART).and_then(multipart_type) {
        return joined(&ipm.heading, &ipm.body, here);
    }
    let mut part = MimePart { is_message: true, ..MimePart::default() };
    part.fields.field("Content-Type", "message/rfc822");
    let mut inner = MimeHeader::default();
    if let Some(time) = message.delivery_time {
        inner.field("Delivery-Date", &time.to_rfc5322());
    }
    heading_to_mail::write(&ipm.heading, here, true, &mut inner);
    let (body, fields) = body(ipm, here);
    heading_to_mail::listed(&fields, true, &mut inner);
    inner.field("MIME-Version", "1.0");
    part.body = [&inner.0[..], &body.fields.0, b"\r\n", &body.body].concat();
    part
}

fn extended(extended: &Extended) -> MimePart {
    if let Some(text) = GeneralText::read(extended) {
        let charset = match text.part {
            Some(part) => format!("iso-8859-{part}"),
            None => "us-ascii".to_owned(),
        };
        return MimePart::text(&format!("text/plain; charset={charset}"), &text.text);
    }
    if let Some(file) = FileTransfer::read(extended) {
        return self::file(&file);
    }
    if let Some(part) = mime_body_part(extended) {
        return part;
    }
    let content_type = format!("application/x400-bp; bp-type={}", oid_text(&extended.oid));
    MimePart::octets(&content_type, &extended.encoded)
}

fn file(file: &FileTransfer) -> MimePart {
    let mut part = MimePart::default();
    if file.application.as_deref() == Some(content::MIME_FILE) {
        part.content_fields(file.fields.iter().map(String::as_str));
        part.carry(&file.data);
        return part;
    }
    let content_type = match file.application.as_deref() {
        None | Some(content::UNKNOWN_ATTACHMENT) => "application/octet-stream".to_owned(),
        Some(application) => format!("application/x-ftbp.{}", oid_text(application)),
    };
    part.fields.field("Content-Type", &content_type);
    if let Some(description) = &file.description {
        part.fields.field("Content-Description", &words::encode(description));
    }
    let mut disposition = "attachment".to_owned();
    if let Some(name) = &file.pathname {
        let quoted = words::encode(name).replace('\\', "\\\\").replace('"', "\\\"");
        disposition.push_str(&format!("; filename=\"{quoted}\""));
    }
    let dates = [
        ("creation-date", file.created),
        ("modification-date", file.modified),
        ("read-date", file.read),
    ];
    for (name, time) in dates {
        if let Some(time) = time {
            disposition.push_str(&format!("; {name}=\"{}\"", time.to_rfc5322()));
        }
    }
    if let Some(size) = file.size {
        disposition.push_str(&format!("; size={size}"));
    }
    part.fields.field("Content-Disposition", &disposition);
    let made = ["content-type:", "content-disposition:", "content-description:"];
    let others = file
        .fields
        .iter()
        .map(String::as_str)
        .filter(|field| !made.iter().any(|name| field.to_ascii_lowercase().starts_with(name)));
    part.content_fields(others);
    part.carry(&file.data);
    part
}

/// RFC 2157 §3.1.2; `None` if it is not one.
fn mime_body_part(extended: &Extended) -> Option<MimePart> {
    if extended.oid != content::MIME_DATA {
        return None;
    }
    let data = match &extended.data {
        ExtendedData::Octets(octets) => octets.clone(),
        ExtendedData::Element(element) => {
            Bytes::from(Reader::new(element).next()?.ok()?.octets().ok()?.into_owned())
        }
    };
    let (_, parameters) =
        extended.parameters.as_ref().filter(|(oid, _)| oid == content::MIME_PARAMETERS)?;
    let mut all = Reader::new(parameters).next()?.ok()?.children().ok()?;
    let text = |octets: &[u8]| octets.iter().map(|&octet| char::from(octet)).collect::<String>();
    let mut content_type = text(&all.read(Tag::IA5_STRING).ok()?.octets().ok()?);
    for pair in all.read(Tag::SEQUENCE).ok()?.children().ok()? {
        let mut pair = pair.ok()?.children().ok()?;
        let name = text(&pair.any().ok()?.octets().ok()?);
        let value = text(&pair.any().ok()?.octets().ok()?);
        let is_quoted = value.len() >= 2 && value.starts_with('"') && value.ends_with('"');
        let value =
            if is_quoted { value } else { format!("\"{}\"", value.replace(['"', '\\'], "")) };
        content_type.push_str(&format!("; {name}={value}"));
    }
    let mut part = MimePart::default();
    part.fields.field("Content-Type", &content_type);
    let mut fields = Vec::new();
    for field in all.read(Tag::SEQUENCE).ok()?.children().ok()? {
        fields.push(text(&field.ok()?.octets().ok()?));
    }
    part.content_fields(
        fields
            .iter()
            .map(String::as_str)
            .filter(|f| !f.to_ascii_lowercase().starts_with("content-type:")),
    );
    part.carry(&data);
    Some(part)
}
