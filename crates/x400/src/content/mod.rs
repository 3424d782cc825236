//! Interpersonal messages and notifications: P2 of 1984 and P22 of 1988 (X.420), the contents of most messages.
//!
//! Parsed values borrow from the content, however long its parts are; unknown elements are kept as received. Writing
//! takes values, and is for contents made by a gateway: a relay never changes a content.

pub mod body;
pub mod file_transfer;
pub mod general_text;
pub mod heading;
pub mod notification;
pub mod teletex;

use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField};
pub use body::{BodyPart, Extended, Forwarded};
use bytes::Bytes;
pub use file_transfer::FileTransfer;
pub use heading::{
    Heading, HeadingExtension, Importance, IpmIdentifier, OrDescriptor, RecipientSpecifier,
    Sensitivity,
};
pub use notification::{Ipn, IpnKind};

/// Parts of a body at most. Mail programs stop at some hundreds.
pub const BODY_PARTS_MAX: usize = 10_000;
/// Recipients, and other items of a list in a heading, at most (X.420 sets no bound but that of X.411).
pub const HEADING_ITEMS_MAX: usize = 32_767;

/// Kind of a content of type P2 or P22.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A message between people.
    Message(Box<Ipm>),
    /// Notification about a message.
    Notification(Box<Ipn>),
}

/// An interpersonal message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ipm {
    /// Its heading.
    pub heading: Heading,
    /// Its body; [`BODY_PARTS_MAX`] parts at most.
    pub body: Vec<BodyPart>,
}

impl Content {
    /// Reads a content.
    ///
    /// # Errors
    /// With the field that is wrong.
    pub fn read(content: &Bytes) -> Result<Content, DecodeError> {
        const FIELD: &str = "content";
        let mut reader = Reader::new(content);
        let element = reader.any().field(FIELD)?;
        reader.end().field(FIELD)?;
        match element.tag {
            tag if tag == Tag::context(0) => {
                Ok(Content::Message(Box::new(Ipm::decode(&element, content)?)))
            }
            tag if tag == Tag::context(1) => {
                Ok(Content::Notification(Box::new(Ipn::decode(&element, content)?)))
            }
            _ => Err(Fault::Unknown.of(FIELD, element.at)),
        }
    }

    /// Writes a content.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Content::Message(ipm) => ipm.encode(&mut writer, Tag::context(0)),
            Content::Notification(ipn) => ipn.encode(&mut writer),
        }
        writer.into_vec()
    }
}

impl Ipm {
    /// Reads heading and body from an element of whatever tag.
    fn decode(element: &Element<'_>, whole: &Bytes) -> Result<Ipm, DecodeError> {
        const FIELD: &str = "ipm";
        let mut parts = element.children().field(FIELD)?;
        let heading = Heading::decode(&parts.read(Tag::SET).field("heading")?)?;
        let list = parts.read(Tag::SEQUENCE).field("body")?;
        parts.end().field(FIELD)?;
        let mut body = Vec::new();
        for part in list.children().field("body")? {
            let part = part.field("body")?;
            if body.len() >= BODY_PARTS_MAX {
                return Err(Fault::TooMany(BODY_PARTS_MAX).of("body", part.at));
            }
            body.push(BodyPart::decode(&part, whole)?);
        }
        Ok(Ipm { heading, body })
    }

    pub(crate) fn encode(&self, writer: &mut Writer, tag: Tag) {
        writer.constructed(tag, |ipm| {
            self.heading.encode(ipm);
            ipm.constructed(Tag::SEQUENCE, |body| {
                for part in &self.body {
                    part.encode(body);
                }
            });
        });
    }
}

/// The octets of a string, shared with the content where they are in one piece.
fn shared_octets(
    element: &Element<'_>,
    whole: &Bytes,
    field: &'static str,
) -> Result<Bytes, DecodeError> {
    if element.constructed {
        return Ok(Bytes::from(element.octets().field(field)?.into_owned()));
    }
    Ok(share(whole, element.contents_at, element.contents))
}

/// An element as received, shared with the content.
fn shared_element(element: &Element<'_>, whole: &Bytes) -> Bytes {
    share(whole, element.at, element.encoded)
}

fn share(whole: &Bytes, at: u64, octets: &[u8]) -> Bytes {
    let range = usize::try_from(at).ok().map(|start| start..start.saturating_add(octets.len()));
    match range {
        Some(range) if whole.get(range.clone()) == Some(octets) => whole.slice(range),
        _ => Bytes::copy_from_slice(octets),
    }
}

/// mime-body-part, its data: 1.3.6.1.7.1.2.1.1 (RFC 2157 §3.1.2).
pub const MIME_DATA: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 1, 1];
/// mime-body-part, its parameters: 1.3.6.1.7.1.2.2.1.
pub const MIME_PARAMETERS: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 2, 1];
/// MIME in a file transfer: 1.3.6.1.7.1.2.1.5 (RFC 2157 §3.1.1).
pub const MIME_FILE: &[u8] = &[0x2b, 6, 1, 7, 1, 2, 1, 5];
/// A list of header fields: 1.3.6.1.7.1.3.2 (RFC 2156 appendix D).
pub const FIELD_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 2];
/// The header of a DSN: 1.3.6.1.7.1.3.3.
pub const DSN_HEADER_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 3];
/// Fields of a DSN: 1.3.6.1.7.1.3.4.
pub const DSN_FIELD_LIST: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 4];
/// The pseudo information type of a message converted by a gateway: 1.3.6.1.7.1.3.5.
pub const EIT_MIXER: &[u8] = &[0x2b, 6, 1, 7, 1, 3, 5];
/// A message that was a multipart: 1.3.6.1.7.1.1.3 (RFC 2157 §6.6).
pub const MULTIPART: &[u8] = &[0x2b, 6, 1, 7, 1, 1, 3];
/// GeneralText, its data: 2.6.1.4.11 (X.420 annex B).
pub const GENERAL_TEXT_DATA: &[u8] = &[0x56, 1, 4, 11];
/// GeneralText, its parameters: 2.6.1.11.11.
pub const GENERAL_TEXT_PARAMETERS: &[u8] = &[0x56, 1, 11, 11];
/// File transfer, its data: 2.6.1.4.12.
pub const FILE_DATA: &[u8] = &[0x56, 1, 4, 12];
/// File transfer, its parameters: 2.6.1.11.12.
pub const FILE_PARAMETERS: &[u8] = &[0x56, 1, 11, 12];
/// Contents of a file that are octets: 1.0.8571.5.3 (ISO 8571-2).
pub const UNSTRUCTURED_BINARY: &[u8] = &[0x28, 0xc2, 0x7b, 5, 3];
/// An attachment of unknown type: 2.16.840.1.113694.2.2.1.1 (RFC 2157 §6.4).
pub const UNKNOWN_ATTACHMENT: &[u8] = &[0x60, 0x86, 0x48, 1, 0x86, 0xf8, 0x1e, 2, 2, 1, 1];
/// An incomplete copy: 2.6.1.5.0 (X.420 annex A).
pub const INCOMPLETE_COPY: &[u8] = &[0x56, 1, 5, 0];
/// Languages: 2.6.1.5.1.
pub const LANGUAGES: &[u8] = &[0x56, 1, 5, 1];
/// Automatic submission: 2.6.1.5.2.
pub const AUTO_SUBMITTED: &[u8] = &[0x56, 1, 5, 2];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::oid_text;

    #[test]
    fn octets_are_what_the_comments_say() {
        for (oid, text) in [
            (MIME_DATA, "1.3.6.1.7.1.2.1.1"),
            (MIME_PARAMETERS, "1.3.6.1.7.1.2.2.1"),
            (MIME_FILE, "1.3.6.1.7.1.2.1.5"),
            (FIELD_LIST, "1.3.6.1.7.1.3.2"),
            (DSN_HEADER_LIST, "1.3.6.1.7.1.3.3"),
            (DSN_FIELD_LIST, "1.3.6.1.7.1.3.4"),
            (EIT_MIXER, "1.3.6.1.7.1.3.5"),
            (MULTIPART, "1.3.6.1.7.1.1.3"),
            (GENERAL_TEXT_DATA, "2.6.1.4.11"),
            (GENERAL_TEXT_PARAMETERS, "2.6.1.11.11"),
            (FILE_DATA, "2.6.1.4.12"),
            (FILE_PARAMETERS, "2.6.1.11.12"),
            (UNSTRUCTURED_BINARY, "1.0.8571.5.3"),
            (UNKNOWN_ATTACHMENT, "2.16.840.1.113694.2.2.1.1"),
            (INCOMPLETE_COPY, "2.6.1.5.0"),
            (LANGUAGES, "2.6.1.5.1"),
            (AUTO_SUBMITTED, "2.6.1.5.2"),
        ] {
            assert_eq!(oid_text(oid), text);
        }
    }
}
