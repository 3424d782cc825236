//! File transfer body parts (X.420 annex B, ISO 8571): a file with its attributes. The attributes that MIXER maps are
//! read and written (RFC 2157 §2.3); further ones in a part are indicated.

use super::body::{Extended, ExtendedData, external};
use super::{
    FIELD_LIST, FILE_DATA, FILE_PARAMETERS, HeadingExtension, UNSTRUCTURED_BINARY, teletex,
};
use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::InField;
use crate::mts::UtcTime;
use bytes::Bytes;

/// Header fields that a list has at most: as many as a gateway reads of a message.
pub const FIELDS_MAX: usize = 2_000;

/// A file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileTransfer {
    /// The octets of the object identifier of the application that it is for.
    pub application: Option<Bytes>,
    /// A description for people.
    pub description: Option<String>,
    /// Name of the file; never a path on this machine.
    pub pathname: Option<String>,
    /// Time of creation.
    pub created: Option<UtcTime>,
    /// Time of the last change.
    pub modified: Option<UtcTime>,
    /// Time of the last read.
    pub read: Option<UtcTime>,
    /// Length in octets.
    pub size: Option<u64>,
    /// Header fields that go with it (RFC 2157 §2.3.2): `Name: value` each.
    pub fields: Vec<String>,
    /// Its octets.
    pub data: Bytes,
}

impl FileTransfer {
    /// Reads a part; `None`: it is no file transfer, or one that has no mapping and must be carried as it is
    /// (RFC 2157 §3.3).
    #[must_use]
    pub fn read(extended: &Extended) -> Option<FileTransfer> {
        if extended.oid != FILE_DATA {
            return None;
        }
        let ExtendedData::Element(data) = &extended.data else { return None };
        let mut file = FileTransfer { data: contents(data)?, ..FileTransfer::default() };
        let Some((_, parameters)) =
            extended.parameters.as_ref().filter(|(oid, _)| oid == FILE_PARAMETERS)
        else {
            return Some(file);
        };
        for parameter in Reader::new(parameters).next()?.ok()?.children().ok()? {
            let parameter = parameter.ok()?;
            match parameter.tag.number {
                // The related file: for information only.
                0 => {}
                1 => is_binary(&parameter).then_some(())?,
                2 => file.environment(&parameter)?,
                // An unknown compression.
                3 => return None,
                4 => file.attributes(&parameter)?,
                5 => file.fields = fields(&parameter)?,
                _ => return None,
            }
        }
        Some(file)
    }

    fn environment(&mut self, environment: &Element<'_>) -> Option<()> {
        for part in environment.children().ok()? {
            let part = part.ok()?;
            match part.tag.number {
                0 => {
                    let reference = part.only_child().ok()?;
                    if reference.tag == Tag::context(0) {
                        self.application = Some(Bytes::copy_from_slice(reference.oid().ok()?));
                    }
                }
                3 => {
                    let first = part.children().ok()?.next()?.ok()?;
                    self.description = Some(graphic(&first)?);
                }
                // Machine and operating system.
                _ => {}
            }
        }
        Some(())
    }

    fn attributes(&mut self, attributes: &Element<'_>) -> Option<()> {
        for part in attributes.children().ok()? {
            let part = part.ok()?;
            match part.tag.number {
                0 => {
                    // It may be wrapped in incomplete-pathname [0] or complete-pathname [APPLICATION 23].
                    let mut inner = part;
                    while inner.constructed {
                        inner = inner.children().ok()?.next()?.ok()?;
                    }
                    self.pathname = Some(graphic(&inner)?);
                }
                4 => self.created = time(&part),
                5 => self.modified = time(&part),
                6 => self.read = time(&part),
                13 => {
                    let value = part.only_child().ok()?;
                    if value.tag == Tag::context(1) {
                        self.size = u64::try_from(value.integer().ok()?).ok();
                    }
                }
                // Rights, users and accounts of a file store.
                _ => {}
            }
        }
        Some(())
    }

    /// Converts it to a body part.
    #[must_use]
    pub fn to_extended(&self) -> Extended {
        let mut parameters = Writer::new();
        parameters.constructed(Tag::SEQUENCE, |all| {
            all.constructed(Tag::context(2), |environment| {
                if let Some(application) = &self.application {
                    environment.constructed(Tag::context(0), |reference| {
                        reference.primitive(Tag::context(0), application);
                    });
                }
                if let Some(description) = &self.description {
                    environment.constructed(Tag::context(3), |list| put_graphic(list, description));
                }
            });
            all.constructed(Tag::context(4), |attributes| self.put_attributes(attributes));
            if !self.fields.is_empty() {
                all.constructed(Tag::context(5), |set| {
                    field_list(&self.fields).encode(set);
                });
            }
        });
        let parameters = Some((FILE_PARAMETERS, parameters.into_vec()));
        Extended::new(FILE_DATA, parameters, |data| {
            data.constructed(Tag::SEQUENCE, |list| {
                list.constructed(Tag::EXTERNAL, |external| {
                    external.primitive(Tag::OID, UNSTRUCTURED_BINARY);
                    external.primitive(Tag::context(1), &self.data);
                });
            });
        })
    }

    fn put_attributes(&self, out: &mut Writer) {
        if let Some(name) = &self.pathname {
            out.constructed(Tag::context(0), |path| put_graphic(path, name));
        }
        for (number, time) in [(4, self.created), (5, self.modified), (6, self.read)] {
            if let Some(time) = time {
                // GeneralizedTime: the same with a year of four digits.
                let century = time.wall.civil().year / 100;
                let text = format!("{century}{}", time.to_text());
                out.constructed(Tag::context(number), |choice| choice.text(Tag::context(1), &text));
            }
        }
        if let Some(size) = self.size {
            out.constructed(Tag::context(13), |choice| {
                choice.integer(Tag::context(1), i64::try_from(size).unwrap_or(i64::MAX));
            });
        }
    }
}

/// The octets of a file with only octets as contents, in one or more EXTERNALs.
fn contents(data: &Bytes) -> Option<Bytes> {
    let list = Reader::new(data).next()?.ok()?;
    let mut pieces = Vec::new();
    for piece in list.children().ok()? {
        let (oid, value) = external(&piece.ok()?, data, "file-transfer-data").ok()?;
        let octets = match value {
            ExtendedData::Octets(octets) => octets,
            ExtendedData::Element(element) => {
                let inner = Reader::new(&element).next()?.ok()?;
                Bytes::from(inner.octets().ok()?.into_owned())
            }
        };
        (oid == UNSTRUCTURED_BINARY).then_some(())?;
        pieces.push(octets);
    }
    match &pieces[..] {
        [one] => Some(one.clone()),
        many => Some(Bytes::from(many.concat())),
    }
}

/// Returns true for the default contents-type: octets without a structure.
fn is_binary(contents_type: &Element<'_>) -> bool {
    let mut found = false;
    let mut open = vec![*contents_type];
    while let Some(element) = open.pop() {
        if element.constructed {
            open.extend(element.children().into_iter().flatten().filter_map(Result::ok));
        } else {
            found |= element.contents == UNSTRUCTURED_BINARY;
        }
    }
    found
}

/// A GraphicString, without escape sequences of sets that are Latin-1 anyway (RFC 2157 §2.3.1). With other sets each
/// non-ASCII octet becomes a question mark.
fn graphic(element: &Element<'_>) -> Option<String> {
    let octets = element.octets().ok()?;
    let mut plain = Vec::with_capacity(octets.len());
    let mut is_foreign = false;
    let mut rest = &octets[..];
    while let Some((&first, behind)) = rest.split_first() {
        rest = match (first, behind) {
            (
                0x1b,
                [b'(', b'B' | b'@', more @ ..] | [b'-', b'A', more @ ..] | [b'~', more @ ..],
            ) => more,
            (0x1b, [_, _, more @ ..]) => {
                is_foreign = true;
                more
            }
            (0x80.., more) if is_foreign => {
                plain.push(b'?');
                more
            }
            (octet, more) => {
                plain.push(octet);
                more
            }
        };
    }
    Some(teletex::to_text(&plain))
}

/// Writes a text in ASCII, or in Latin-1 with the escape sequences for it; other characters become question marks.
fn put_graphic(out: &mut Writer, text: &str) {
    let mut octets: Vec<u8> =
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    if !octets.is_ascii() {
        octets.splice(0..0, *b"\x1b(B\x1b-A\x1b~");
    }
    out.primitive(Tag::GRAPHIC_STRING, &octets);
}

fn time(element: &Element<'_>) -> Option<UtcTime> {
    let value = element.only_child().ok()?;
    if value.tag != Tag::context(1) {
        return None;
    }
    UtcTime::decode(&value, "time").ok()
}

fn fields(set: &Element<'_>) -> Option<Vec<String>> {
    for extension in set.children().ok()? {
        let extension = HeadingExtension::decode(&extension.ok()?).ok()?;
        if extension.oid == FIELD_LIST {
            return read_field_list(&extension);
        }
    }
    Some(Vec::new())
}

/// The fields of an rfc-822-field-list (RFC 2156 §5.1.2); `None`: it is broken, or has more than [`FIELDS_MAX`].
#[must_use]
pub fn read_field_list(extension: &HeadingExtension) -> Option<Vec<String>> {
    let list = Reader::new(extension.value.as_ref()?).next()?.ok()?;
    let mut fields = Vec::new();
    for field in list.children().ok()? {
        let octets = field.field("field").ok()?.octets().ok()?.into_owned();
        if fields.len() >= FIELDS_MAX {
            return None;
        }
        fields.push(octets.iter().map(|&octet| char::from(octet)).collect());
    }
    Some(fields)
}

/// A field list: ASCII only, so that a field that has more must be encoded before.
#[must_use]
pub fn field_list(fields: &[String]) -> HeadingExtension {
    HeadingExtension::new(FIELD_LIST, |value| {
        value.constructed(Tag::SEQUENCE, |list| {
            for field in fields {
                crate::mts::put_text(list, Tag::IA5_STRING, field);
            }
        });
    })
}
