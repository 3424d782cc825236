//! Interpersonal messages and notifications: P2 of 1984 and P22 of 1988 (X.420), the contents of most messages.
//!
//! What is read borrows from the content, however long its parts are; what nobody here knows stays an element as
//! it came. Writing takes values, and is for contents that a gateway makes: a relay never touches one.

pub mod body;
pub mod file_transfer;
pub mod general_text;
pub mod heading;
pub mod notification;
pub mod oids;
pub mod teletex;

pub use body::{BodyPart, Extended, Forwarded};
pub use file_transfer::FileTransfer;
pub use heading::{
    Heading, HeadingExtension, Importance, IpmIdentifier, OrDescriptor, RecipientSpecifier,
    Sensitivity,
};
pub use notification::{Ipn, IpnKind};

use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField};
use bytes::Bytes;

/// Parts of a body at most. Mail programs stop at some hundreds.
pub const BODY_PARTS_MAX: usize = 10_000;
/// Recipients, and other items of a list in a heading, at most (X.420 sets no bound but that of X.411).
pub const HEADING_ITEMS_MAX: usize = 32_767;

/// What a content of type P2 or P22 is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A message between people.
    Message(Box<Ipm>),
    /// What became of one at its recipient.
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

/// An element as it came, shared with the content.
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
