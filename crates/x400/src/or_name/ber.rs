//! O/R names as octets (X.411 §8.5.5, MTSAbstractService: ORName).

use super::postal::{code, latin1};
use super::{
    DOMAIN_DEFINED_MAX, DomainDefined, EXTENSIONS_MAX, ExtensionAttribute, NAME_BYTES_MAX,
    OrAddress, OrName, PersonalName, UNITS_MAX, Value, character,
};
use crate::ber::{Element, Reader, Tag, Writer};
use crate::decode::{DecodeError, Fault, InField, once};
use bytes::Bytes;

/// The tag of an ORName that no other replaces.
pub const OR_NAME: Tag = Tag::application(0);
const COUNTRY: Tag = Tag::application(1);
const ADMD: Tag = Tag::application(2);

/// Extension attributes that are read into fields (X.411, ExtensionAttributeTable).
const COMMON_NAME: u32 = 1;
const TELETEX_COMMON_NAME: u32 = 2;
const TELETEX_ORGANIZATION: u32 = 3;
const TELETEX_PERSONAL_NAME: u32 = 4;
const TELETEX_UNITS: u32 = 5;
const TELETEX_DOMAIN_DEFINED: u32 = 6;

impl OrName {
    /// Reads an O/R name from an element of whatever tag.
    ///
    /// # Errors
    /// With the attribute that is wrong.
    pub fn decode(element: &Element<'_>) -> Result<OrName, DecodeError> {
        if element.encoded.len() > NAME_BYTES_MAX {
            return Err(Fault::TooLong(NAME_BYTES_MAX).of("O/R name", element.at));
        }
        let mut parts = element.children().field("O/R name")?;
        let mut name = OrName::default();
        let standard = parts.read(Tag::SEQUENCE).field("built-in-standard-attributes")?;
        standard_attributes(&standard, &mut name.address)?;
        if let Some(attributes) = parts.read_if(Tag::SEQUENCE).field("O/R name")? {
            domain_defined(&attributes, &mut name.address, Charset::Printable)?;
        }
        if let Some(attributes) = parts.read_if(Tag::SET).field("O/R name")? {
            extension_attributes(&attributes, &mut name.address)?;
        }
        if let Some(directory) = parts.read_if(Tag::context(0)).field("directory-name")? {
            let inner = directory.only_child().field("directory-name")?;
            name.directory_name = Some(Bytes::copy_from_slice(inner.encoded));
        }
        parts.end().field("O/R name")?;
        Ok(name)
    }

    /// Writes it with this tag, [`OR_NAME`] unless another replaces that.
    pub fn encode(&self, writer: &mut Writer, tag: Tag) {
        writer.constructed(tag, |name| {
            self.address.encode_parts(name);
            if let Some(directory) = &self.directory_name {
                name.constructed(Tag::context(0), |inner| inner.raw(directory));
            }
        });
    }
}

/// Encoding of an attribute's strings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charset {
    Printable,
    Teletex,
}

/// Characters of an attribute: those of Latin-1 without controls, whatever the tag. PrintableStrings of real programs
/// exceed the set of X.680.
fn text(element: &Element<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    let octets = element.octets().field(field)?;
    if octets.iter().all(|octet| (b' '..0x7f).contains(octet)) {
        return Ok(String::from_utf8_lossy(&octets).into());
    }
    let text: Result<String, &'static str> =
        octets.iter().map(|&octet| character(char::from(octet))).collect();
    text.map(String::into_boxed_str).map_err(|what| Fault::Value(what).of(field, element.at))
}

fn value(
    element: &Element<'_>,
    charset: Charset,
    field: &'static str,
    into: &mut Value,
) -> Result<(), DecodeError> {
    match charset {
        Charset::Printable => once(&mut into.printable, text(element, field)?, field, element.at),
        Charset::Teletex => {
            let octets = Bytes::from(element.octets().field(field)?.into_owned());
            once(&mut into.teletex, octets, field, element.at)
        }
    }
}

/// A CHOICE of strings behind an EXPLICIT tag. Some leave the tag of the string out.
fn explicit_text(element: &Element<'_>, field: &'static str) -> Result<Box<str>, DecodeError> {
    if element.constructed {
        text(&element.only_child().field(field)?, field)
    } else {
        text(element, field)
    }
}

fn standard_attributes(sequence: &Element<'_>, address: &mut OrAddress) -> Result<(), DecodeError> {
    // The standard fixes their order, but enforcing it has no benefit.
    for attribute in sequence.children().field("built-in-standard-attributes")? {
        let attribute = attribute.field("built-in-standard-attributes")?;
        let at = attribute.at;
        match attribute.tag {
            COUNTRY => {
                let text = explicit_text(&attribute, "country-name")?;
                once(&mut address.country, text, "country-name", at)?;
            }
            ADMD => {
                let text = explicit_text(&attribute, "administration-domain-name")?;
                once(&mut address.admd, text, "administration-domain-name", at)?;
            }
            tag if tag == Tag::context(0) => {
                once(
                    &mut address.network_address,
                    text(&attribute, "network-address")?,
                    "network-address",
                    at,
                )?;
            }
            tag if tag == Tag::context(1) => {
                let text = text(&attribute, "terminal-identifier")?;
                once(&mut address.terminal_id, text, "terminal-identifier", at)?;
            }
            tag if tag == Tag::context(2) => {
                let text = explicit_text(&attribute, "private-domain-name")?;
                once(&mut address.prmd, text, "private-domain-name", at)?;
            }
            tag if tag == Tag::context(3) => {
                value(
                    &attribute,
                    Charset::Printable,
                    "organization-name",
                    &mut address.organization,
                )?;
            }
            tag if tag == Tag::context(4) => {
                let text = text(&attribute, "numeric-user-identifier")?;
                once(&mut address.numeric_user_id, text, "numeric-user-identifier", at)?;
            }
            tag if tag == Tag::context(5) => {
                personal_name(&attribute, Charset::Printable, &mut address.personal_name)?;
            }
            tag if tag == Tag::context(6) => {
                units(&attribute, Charset::Printable, &mut address.units)?;
            }
            _ => return Err(Fault::Unknown.of("built-in-standard-attributes", at)),
        }
    }
    Ok(())
}

fn personal_name(
    set: &Element<'_>,
    charset: Charset,
    name: &mut PersonalName,
) -> Result<(), DecodeError> {
    for part in set.children().field("personal-name")? {
        let part = part.field("personal-name")?;
        let [surname, given, initials, generation] = name.parts_mut();
        let into = match part.tag {
            tag if tag == Tag::context(0) => surname,
            tag if tag == Tag::context(1) => given,
            tag if tag == Tag::context(2) => initials,
            tag if tag == Tag::context(3) => generation,
            _ => return Err(Fault::Unknown.of("personal-name", part.at)),
        };
        value(&part, charset, "personal-name", into)?;
    }
    Ok(())
}

fn units(
    sequence: &Element<'_>,
    charset: Charset,
    units: &mut Vec<Value>,
) -> Result<(), DecodeError> {
    const FIELD: &str = "organizational-unit-names";
    for (index, unit) in sequence.children().field(FIELD)?.enumerate() {
        let unit = unit.field(FIELD)?;
        if index >= UNITS_MAX {
            return Err(Fault::TooMany(UNITS_MAX).of(FIELD, unit.at));
        }
        if units.len() <= index {
            units.push(Value::default());
        }
        if let Some(into) = units.get_mut(index) {
            value(&unit, charset, FIELD, into)?;
        }
    }
    Ok(())
}

fn domain_defined(
    sequence: &Element<'_>,
    address: &mut OrAddress,
    charset: Charset,
) -> Result<(), DecodeError> {
    const FIELD: &str = "domain-defined-attributes";
    for (index, attribute) in sequence.children().field(FIELD)?.enumerate() {
        let attribute = attribute.field(FIELD)?;
        if index >= DOMAIN_DEFINED_MAX {
            return Err(Fault::TooMany(DOMAIN_DEFINED_MAX).of(FIELD, attribute.at));
        }
        let mut parts = attribute.children().field(FIELD)?;
        let mut found = DomainDefined::default();
        value(&parts.any().field(FIELD)?, charset, FIELD, &mut found.kind)?;
        value(&parts.any().field(FIELD)?, charset, FIELD, &mut found.value)?;
        parts.end().field(FIELD)?;
        add(address, found);
    }
    Ok(())
}

/// An attribute given in both character sets is one attribute.
fn add(address: &mut OrAddress, found: DomainDefined) {
    let is_same = |known: &&mut DomainDefined| {
        found.value.printable.is_none()
            && known.value.teletex.is_none()
            && known.kind.to_text() == found.kind.to_text()
    };
    match address.domain_defined.iter_mut().find(is_same) {
        // The type is the same in both.
        Some(known) => known.value.teletex = found.value.teletex,
        None => address.domain_defined.push(found),
    }
}

fn extension_attributes(set: &Element<'_>, address: &mut OrAddress) -> Result<(), DecodeError> {
    const FIELD: &str = "extension-attributes";
    let mut teletex_attributes = None;
    for (index, attribute) in set.children().field(FIELD)?.enumerate() {
        let attribute = attribute.field(FIELD)?;
        if index >= EXTENSIONS_MAX {
            return Err(Fault::TooMany(EXTENSIONS_MAX).of(FIELD, attribute.at));
        }
        let mut parts = attribute.children().field(FIELD)?;
        let number = parts.read(Tag::context(0)).field(FIELD)?.unsigned(u32::MAX).field(FIELD)?;
        let inner = parts.read(Tag::context(1)).field(FIELD)?.only_child().field(FIELD)?;
        parts.end().field(FIELD)?;
        match number {
            COMMON_NAME => {
                value(&inner, Charset::Printable, "common-name", &mut address.common_name)?
            }
            TELETEX_COMMON_NAME => {
                value(&inner, Charset::Teletex, "teletex-common-name", &mut address.common_name)?;
            }
            TELETEX_ORGANIZATION => {
                value(
                    &inner,
                    Charset::Teletex,
                    "teletex-organization-name",
                    &mut address.organization,
                )?;
            }
            TELETEX_PERSONAL_NAME => {
                personal_name(&inner, Charset::Teletex, &mut address.personal_name)?;
            }
            TELETEX_UNITS => units(&inner, Charset::Teletex, &mut address.units)?,
            TELETEX_DOMAIN_DEFINED => once(&mut teletex_attributes, inner, FIELD, attribute.at)?,
            number => {
                let value = Bytes::copy_from_slice(inner.encoded);
                address.extensions.push(ExtensionAttribute { number, value });
            }
        }
    }
    match teletex_attributes {
        Some(attributes) => domain_defined(&attributes, address, Charset::Teletex),
        None => Ok(()),
    }
}

impl OrAddress {
    /// Reads an O/R address from an element of whatever tag.
    ///
    /// # Errors
    /// With the attribute that is wrong.
    pub fn decode(element: &Element<'_>) -> Result<OrAddress, DecodeError> {
        OrName::decode(element).map(|name| name.address)
    }

    /// The attributes, without a tag around them.
    fn encode_parts(&self, name: &mut Writer) {
        name.constructed(Tag::SEQUENCE, |standard| self.encode_standard(standard));
        let printable: Vec<&DomainDefined> =
            self.domain_defined.iter().filter(|a| a.value.printable.is_some()).collect();
        if !printable.is_empty() {
            name.constructed(Tag::SEQUENCE, |sequence| {
                for attribute in printable {
                    sequence.constructed(Tag::SEQUENCE, |pair| {
                        for value in [&attribute.kind, &attribute.value] {
                            latin1(
                                pair,
                                Tag::PRINTABLE_STRING,
                                &value.to_text().unwrap_or_default(),
                            );
                        }
                    });
                }
            });
        }
        let extensions = self.encoded_extensions();
        if !extensions.is_empty() {
            name.constructed(Tag::SET, |set| set.raw(&extensions));
        }
    }

    fn encode_standard(&self, out: &mut Writer) {
        for (tag, text) in [(COUNTRY, &self.country), (ADMD, &self.admd)] {
            if let Some(text) = text {
                out.constructed(tag, |choice| code(choice, text));
            }
        }
        let simple = |out: &mut Writer, number: u32, text: Option<&str>| {
            if let Some(text) = text {
                latin1(out, Tag::context(number), text);
            }
        };
        simple(out, 0, self.network_address.as_deref());
        simple(out, 1, self.terminal_id.as_deref());
        if let Some(text) = &self.prmd {
            out.constructed(Tag::context(2), |choice| code(choice, text));
        }
        simple(out, 3, self.organization.printable.as_deref());
        simple(out, 4, self.numeric_user_id.as_deref());
        let parts = self.personal_name.parts();
        if parts.iter().any(|value| value.printable.is_some()) {
            out.constructed(Tag::context(5), |set| {
                for (number, value) in (0..).zip(parts) {
                    simple(set, number, value.printable.as_deref());
                }
            });
        }
        // Units are matched by their place, so if one has a teletex form only, all are written in that.
        if !self.units.is_empty() && self.units.iter().all(|unit| unit.printable.is_some()) {
            out.constructed(Tag::context(6), |sequence| {
                for unit in &self.units {
                    let text = unit.printable.as_deref().unwrap_or_default();
                    latin1(sequence, Tag::PRINTABLE_STRING, text);
                }
            });
        }
    }

    /// The elements of the SET of extension attributes, by their numbers.
    fn encoded_extensions(&self) -> Vec<u8> {
        let mut out = Writer::new();
        if let Some(text) = &self.common_name.printable {
            extension(&mut out, COMMON_NAME, |value| latin1(value, Tag::PRINTABLE_STRING, text));
        }
        for (number, value) in
            [(TELETEX_COMMON_NAME, &self.common_name), (TELETEX_ORGANIZATION, &self.organization)]
        {
            if let Some(octets) = &value.teletex {
                extension(&mut out, number, |inner| inner.primitive(Tag::TELETEX_STRING, octets));
            }
        }
        let parts = self.personal_name.parts();
        if parts.iter().any(|value| value.teletex.is_some()) {
            extension(&mut out, TELETEX_PERSONAL_NAME, |inner| {
                inner.constructed(Tag::SET, |set| {
                    for (number, value) in (0..).zip(parts) {
                        if let Some(octets) = &value.teletex {
                            set.primitive(Tag::context(number), octets);
                        }
                    }
                });
            });
        }
        if self.units.iter().any(|unit| unit.teletex.is_some()) {
            extension(&mut out, TELETEX_UNITS, |inner| {
                inner.constructed(Tag::SEQUENCE, |sequence| {
                    for unit in &self.units {
                        teletex(sequence, unit);
                    }
                });
            });
        }
        if self.domain_defined.iter().any(|attribute| attribute.value.teletex.is_some()) {
            extension(&mut out, TELETEX_DOMAIN_DEFINED, |inner| {
                inner.constructed(Tag::SEQUENCE, |sequence| {
                    for a in self.domain_defined.iter().filter(|a| a.value.teletex.is_some()) {
                        sequence.constructed(Tag::SEQUENCE, |pair| {
                            teletex(pair, &a.kind);
                            teletex(pair, &a.value);
                        });
                    }
                });
            });
        }
        for other in &self.extensions {
            extension(&mut out, other.number, |inner| inner.raw(&other.value));
        }
        out.into_vec()
    }
}

fn extension(out: &mut Writer, number: u32, value: impl FnOnce(&mut Writer)) {
    out.constructed(Tag::SEQUENCE, |pair| {
        pair.integer(Tag::context(0), i64::from(number));
        pair.constructed(Tag::context(1), value);
    });
}

/// The teletex form, or the printable one in its place.
fn teletex(out: &mut Writer, value: &Value) {
    match &value.teletex {
        Some(octets) => out.primitive(Tag::TELETEX_STRING, octets),
        None => latin1(out, Tag::TELETEX_STRING, &value.to_text().unwrap_or_default()),
    }
}

/// Reads a name that is alone.
///
/// # Errors
/// As [`OrName::decode`], and when something follows.
pub fn read_name(octets: &[u8]) -> Result<OrName, DecodeError> {
    let mut reader = Reader::new(octets);
    let element = reader.any().field("O/R name")?;
    reader.end().field("O/R name")?;
    OrName::decode(&element)
}
