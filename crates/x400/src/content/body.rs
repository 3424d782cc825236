//! Body parts (X.420 §7.3).

use super::{Ipm, shared_element, shared_octets};
use crate::ber::{Element, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField, once};
use crate::mts::UtcTime;
use bytes::Bytes;

/// Pages of a teletex part at most.
pub const PAGES_MAX: usize = 4_096;

/// A part of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPart {
    /// \[0\]: text.
    Ia5 {
        /// Repertoire: 2 ITA2, 5 IA5; absent is 5.
        repertoire: Option<u32>,
        /// The text.
        text: Bytes,
    },
    /// \[5\]: pages of teletex.
    Teletex(Vec<Bytes>),
    /// \[9\]: another message.
    Message(Box<Forwarded>),
    /// \[14\]: octets with a bilaterally agreed meaning.
    Bilateral(Bytes),
    /// \[15\]: of a type with an object identifier.
    Extended(Extended),
    /// Any other part, as an element as received.
    Other(Bytes),
}

/// A message within another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Time of delivery.
    pub delivery_time: Option<UtcTime>,
    /// Its delivery envelope and later fields, as elements as received.
    pub envelope: Vec<Bytes>,
    /// The message.
    pub ipm: Ipm,
}

/// A part of a type that an object identifier names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    /// The octets of the object identifier of its type.
    pub oid: Bytes,
    /// The object identifier and the value of its parameters, an element.
    pub parameters: Option<(Bytes, Bytes)>,
    /// Its value.
    pub data: ExtendedData,
    /// The whole encoding as received, tag \[15\] included.
    pub encoded: Bytes,
}

/// The value of an EXTERNAL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtendedData {
    /// An element.
    Element(Bytes),
    /// Octets: some programs write these in place of an OCTET STRING (RFC 2157 §5.5).
    Octets(Bytes),
}

impl BodyPart {
    pub(super) fn decode(element: &Element<'_>, whole: &Bytes) -> Result<BodyPart, DecodeError> {
        match element.tag {
            tag if tag == Tag::context(0) => ia5(element, whole),
            tag if tag == Tag::context(5) => teletex(element, whole),
            tag if tag == Tag::context(9) => {
                Ok(BodyPart::Message(Box::new(Forwarded::decode(element, whole)?)))
            }
            tag if tag == Tag::context(14) => {
                Ok(BodyPart::Bilateral(shared_octets(element, whole, "bilaterally-defined")?))
            }
            tag if tag == Tag::context(15) => {
                Ok(BodyPart::Extended(Extended::decode(element, whole)?))
            }
            _ => Ok(BodyPart::Other(shared_element(element, whole))),
        }
    }

    pub(crate) fn encode(&self, writer: &mut Writer) {
        match self {
            BodyPart::Ia5 { repertoire, text } => writer.constructed(Tag::context(0), |part| {
                part.constructed(Tag::SET, |parameters| {
                    if let Some(repertoire) = repertoire {
                        parameters.integer(Tag::context(0), i64::from(*repertoire));
                    }
                });
                part.primitive(Tag::IA5_STRING, text);
            }),
            BodyPart::Teletex(pages) => writer.constructed(Tag::context(5), |part| {
                part.constructed(Tag::SET, |_| {});
                part.constructed(Tag::SEQUENCE, |list| {
                    for page in pages {
                        list.primitive(Tag::TELETEX_STRING, page);
                    }
                });
            }),
            BodyPart::Message(message) => message.encode(writer),
            BodyPart::Bilateral(octets) => writer.primitive(Tag::context(14), octets),
            BodyPart::Extended(extended) => writer.raw(&extended.encoded),
            BodyPart::Other(element) => writer.raw(element),
        }
    }
}

fn ia5(element: &Element<'_>, whole: &Bytes) -> Result<BodyPart, DecodeError> {
    const FIELD: &str = "ia5-text";
    let mut parts = element.children().field(FIELD)?;
    let parameters = parts.read(Tag::SET).field(FIELD)?;
    let mut repertoire = None;
    for parameter in parameters.children().field(FIELD)? {
        let parameter = parameter.field(FIELD)?;
        if parameter.tag == Tag::context(0) {
            let number = parameter.unsigned(u32::MAX).field(FIELD)?;
            once(&mut repertoire, number, FIELD, parameter.at)?;
        }
    }
    let text = shared_octets(&parts.read(Tag::IA5_STRING).field(FIELD)?, whole, FIELD)?;
    parts.end().field(FIELD)?;
    Ok(BodyPart::Ia5 { repertoire, text })
}

fn teletex(element: &Element<'_>, whole: &Bytes) -> Result<BodyPart, DecodeError> {
    const FIELD: &str = "teletex";
    let mut parts = element.children().field(FIELD)?;
    parts.read(Tag::SET).field(FIELD)?;
    let list = parts.read(Tag::SEQUENCE).field(FIELD)?;
    parts.end().field(FIELD)?;
    let mut pages = Vec::new();
    for page in list.children().field(FIELD)? {
        let page = page.field(FIELD)?;
        if pages.len() >= PAGES_MAX {
            return Err(Fault::TooMany(PAGES_MAX).of(FIELD, page.at));
        }
        pages.push(shared_octets(&page, whole, FIELD)?);
    }
    Ok(BodyPart::Teletex(pages))
}

impl Forwarded {
    fn decode(element: &Element<'_>, whole: &Bytes) -> Result<Forwarded, DecodeError> {
        const FIELD: &str = "message";
        let mut parts = element.children().field(FIELD)?;
        let parameters = parts.read(Tag::SET).field(FIELD)?;
        let (mut delivery_time, mut envelope) = (None, Vec::new());
        for parameter in parameters.children().field(FIELD)? {
            let parameter = parameter.field(FIELD)?;
            if parameter.tag == Tag::context(0) {
                let time = UtcTime::decode(&parameter, "delivery-time")?;
                once(&mut delivery_time, time, "delivery-time", parameter.at)?;
            } else if envelope.len() < super::BODY_PARTS_MAX {
                envelope.push(shared_element(&parameter, whole));
            }
        }
        // The reader bounds how deep messages lie in each other.
        let ipm = Ipm::decode(&parts.read(Tag::SEQUENCE).field(FIELD)?, whole)?;
        parts.end().field(FIELD)?;
        Ok(Forwarded { delivery_time, envelope, ipm })
    }

    fn encode(&self, writer: &mut Writer) {
        writer.constructed(Tag::context(9), |part| {
            part.constructed(Tag::SET, |parameters| {
                if let Some(time) = self.delivery_time {
                    time.encode(parameters, Tag::context(0));
                }
                for element in &self.envelope {
                    parameters.raw(element);
                }
            });
            self.ipm.encode(part, Tag::SEQUENCE);
        });
    }
}

/// An EXTERNAL of whatever tag: its object identifier and its value.
pub(super) fn external(
    element: &Element<'_>,
    whole: &Bytes,
    field: &'static str,
) -> Result<(Bytes, ExtendedData), DecodeError> {
    let mut parts = element.children().field(field)?;
    let oid = parts.read(Tag::OID).field(field)?.oid().field(field)?;
    let oid = Bytes::copy_from_slice(oid);
    parts.read_if(Tag::INTEGER).field(field)?;
    parts.read_if(Tag::universal(7)).field(field)?;
    let value = parts.any().field(field)?;
    parts.end().field(field)?;
    let data = match value.tag {
        tag if tag == Tag::context(0) => {
            ExtendedData::Element(shared_element(&value.only_child().field(field)?, whole))
        }
        tag if tag == Tag::context(1) => ExtendedData::Octets(shared_octets(&value, whole, field)?),
        _ => return Err(Fault::Unknown.of(field, value.at)),
    };
    Ok((oid, data))
}

impl Extended {
    fn decode(element: &Element<'_>, whole: &Bytes) -> Result<Extended, DecodeError> {
        const FIELD: &str = "externally-defined";
        let mut parts = element.children().field(FIELD)?;
        let mut parameters = None;
        if let Some(found) = parts.read_if(Tag::context(0)).field(FIELD)?
            && let (oid, ExtendedData::Element(value)) = external(&found, whole, FIELD)?
        {
            parameters = Some((oid, value));
        }
        let (oid, data) = external(&parts.read(Tag::EXTERNAL).field(FIELD)?, whole, FIELD)?;
        parts.end().field(FIELD)?;
        Ok(Extended { oid, parameters, data, encoded: shared_element(element, whole) })
    }

    /// A part of this type with data written by `write`.
    #[must_use]
    pub fn new(
        oid: &[u8],
        parameters: Option<(&[u8], Vec<u8>)>,
        write: impl FnOnce(&mut Writer),
    ) -> Extended {
        let mut data = Writer::new();
        write(&mut data);
        let data = Bytes::from(data.into_vec());
        let mut whole = Writer::with_capacity(data.len() + 256);
        whole.constructed(Tag::context(15), |part| {
            if let Some((oid, value)) = &parameters {
                part.constructed(Tag::context(0), |inner| {
                    inner.primitive(Tag::OID, oid);
                    inner.constructed(Tag::context(0), |only| only.raw(value));
                });
            }
            part.constructed(Tag::EXTERNAL, |inner| {
                inner.primitive(Tag::OID, oid);
                inner.constructed(Tag::context(0), |only| only.raw(&data));
            });
        });
        Extended {
            oid: Bytes::copy_from_slice(oid),
            parameters: parameters
                .map(|(oid, value)| (Bytes::copy_from_slice(oid), Bytes::from(value))),
            data: ExtendedData::Element(data),
            encoded: Bytes::from(whole.into_vec()),
        }
    }
}
