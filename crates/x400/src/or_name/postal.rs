//! Extension attributes with text forms: those of physical delivery, network addresses and terminal types
//! (RFC 2156 §4.1.1, X.411 ExtensionAttributeTable). Others have none and travel as they came.

use super::{ExtensionAttribute, Value, character};
use crate::ber::{Class, Element, Reader, Tag, Writer};
use bytes::Bytes;

/// Encoding of an attribute's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// PrintableString.
    Printable,
    /// CHOICE of NumericString and PrintableString.
    Code,
    /// PDSParameter: SET of PrintableString and TeletexString.
    Parameter,
    /// UnformattedPostalAddress: SET of lines and one TeletexString.
    Address,
    /// E.163-4 address: number and sub-address.
    Network,
    /// INTEGER.
    Number,
}

/// Number, key that is written, other keys that are read, encoding.
const ATTRIBUTES: [(u32, &str, &[&str], Syntax); 17] = [
    (7, "PD-SERVICE", &["PD-SN"], Syntax::Printable),
    (8, "PD-C", &[], Syntax::Code),
    (9, "PD-CODE", &["PD-PC"], Syntax::Code),
    (10, "PD-OFFICE", &["PD-OF"], Syntax::Parameter),
    (11, "PD-OFFICE-NUM", &["PD-OFFICE NUMBER", "PD-OFN"], Syntax::Parameter),
    (12, "PD-EXT-ADDRESS", &["PD-EA"], Syntax::Parameter),
    (13, "PD-PN", &[], Syntax::Parameter),
    (14, "PD-O", &[], Syntax::Parameter),
    (15, "PD-EXT-DELIVERY", &["PD-ED"], Syntax::Parameter),
    (16, "PD-ADDRESS", &["PD-A"], Syntax::Address),
    (17, "PD-STREET", &["PD-S"], Syntax::Parameter),
    (18, "PD-BOX", &["PD-B"], Syntax::Parameter),
    (19, "PD-RESTANTE", &["PD-R"], Syntax::Parameter),
    (20, "PD-UNIQUE", &["PD-U"], Syntax::Parameter),
    (21, "PD-LOCAL", &["PD-L"], Syntax::Parameter),
    (22, "NET-NUM", &["E.164", "ISDN"], Syntax::Network),
    (23, "T-TY", &[], Syntax::Number),
];

/// Separator of the lines of an unformatted address in the text form.
const LINE: char = '|';
/// Lines of an unformatted address at most (X.411, ub-pds-physical-address-lines).
const LINES_MAX: usize = 6;
/// Names of terminal types and their numbers (X.411, TerminalType).
const TERMINALS: [(&str, i64); 6] =
    [("tlx", 3), ("ttx", 4), ("g3fax", 5), ("g4fax", 6), ("ia5", 7), ("vtx", 8)];

/// Attributes as they are read from a text.
#[derive(Default)]
pub(super) struct Postal {
    found: Vec<ExtensionAttribute>,
    /// `PD-A1=` to `PD-A6=`.
    lines: [Option<Box<str>>; LINES_MAX],
}

impl Postal {
    /// Sets an attribute with an upper-case key.
    pub(super) fn take(&mut self, key: &str, value: &Value) -> Result<(), &'static str> {
        if let Some(number) = key.strip_prefix("PD-A").and_then(|n| n.parse::<usize>().ok()) {
            let line = number.checked_sub(1).and_then(|index| self.lines.get_mut(index));
            *line.ok_or("an address has six lines")? = value.printable.clone();
            return Ok(());
        }
        let entry =
            ATTRIBUTES.iter().find(|(_, name, others, _)| *name == key || others.contains(&key));
        let &(number, _, _, syntax) = entry.ok_or("an attribute that is not known")?;
        if self.found.iter().any(|attribute| attribute.number == number) {
            return Err("an attribute is given twice");
        }
        let value = encode(syntax, value)?;
        self.found.push(ExtensionAttribute { number, value });
        Ok(())
    }

    pub(super) fn into_extensions(mut self) -> Vec<ExtensionAttribute> {
        let lines: Vec<&str> = self.lines.iter().flatten().map(|line| &**line).collect();
        if !lines.is_empty() && self.found.iter().all(|attribute| attribute.number != 16) {
            let value = Value::printable(lines.join("|"));
            self.found.extend(
                encode(Syntax::Address, &value)
                    .map(|value| ExtensionAttribute { number: 16, value }),
            );
        }
        self.found.sort_by_key(|attribute| attribute.number);
        self.found
    }
}

fn encode(syntax: Syntax, value: &Value) -> Result<Bytes, &'static str> {
    let mut writer = Writer::new();
    let text = value.printable.as_deref();
    match syntax {
        Syntax::Parameter => writer.constructed(Tag::SET, |set| write_both(set, value)),
        Syntax::Address => writer.constructed(Tag::SET, |set| {
            if let Some(text) = text {
                set.constructed(Tag::SEQUENCE, |lines| {
                    for line in text.split(LINE).take(LINES_MAX) {
                        latin1(lines, Tag::PRINTABLE_STRING, line);
                    }
                });
            }
            write_both(set, &Value { printable: None, teletex: value.teletex.clone() });
        }),
        Syntax::Printable => {
            latin1(&mut writer, Tag::PRINTABLE_STRING, text.ok_or("not a printable string")?);
        }
        Syntax::Code => code(&mut writer, text.ok_or("not a printable string")?),
        Syntax::Network => {
            let number = text.ok_or("not a number")?;
            writer.constructed(Tag::SEQUENCE, |address| {
                latin1(address, Tag::context(0), number);
            });
        }
        Syntax::Number => {
            let text = text.ok_or("not a terminal type")?;
            let inner = text.rsplit_once('(').map_or(text, |(_, n)| n.trim_end_matches(')'));
            let known = TERMINALS.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
            let number = known.map(|(_, number)| *number).or_else(|| inner.trim().parse().ok());
            writer.integer(Tag::INTEGER, number.ok_or("not a terminal type")?);
        }
    }
    Ok(Bytes::from(writer.into_vec()))
}

fn write_both(set: &mut Writer, value: &Value) {
    if let Some(text) = &value.printable {
        latin1(set, Tag::PRINTABLE_STRING, text);
    }
    if let Some(octets) = &value.teletex {
        set.primitive(Tag::TELETEX_STRING, octets);
    }
}

/// A string of characters below 256, one octet each.
pub(super) fn latin1(writer: &mut Writer, tag: Tag, text: &str) {
    let octets: Vec<u8> =
        text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    writer.primitive(tag, &octets);
}

/// A CHOICE of NumericString and PrintableString: digits alone are numeric (RFC 2156 §4.1.1).
pub(super) fn code(writer: &mut Writer, text: &str) {
    let is_numeric = !text.is_empty() && text.bytes().all(|octet| octet.is_ascii_digit());
    let tag = if is_numeric { Tag::NUMERIC_STRING } else { Tag::PRINTABLE_STRING };
    latin1(writer, tag, text);
}

/// The key and the value of an attribute that has a text form and is as it must be.
pub(super) fn to_pair(attribute: &ExtensionAttribute) -> Option<(&'static str, Value)> {
    let &(_, key, _, syntax) =
        ATTRIBUTES.iter().find(|(number, ..)| *number == attribute.number)?;
    let element = Reader::new(&attribute.value).next()?.ok()?;
    let value = match syntax {
        Syntax::Printable | Syntax::Code => Value::printable(text_of(&element)?),
        Syntax::Parameter => both(&element)?,
        Syntax::Address => unformatted(&element)?,
        Syntax::Network => {
            Value::printable(text_of(&element.children().ok()?.read(Tag::context(0)).ok()?)?)
        }
        Syntax::Number => {
            let number = element.integer().ok()?;
            let name = TERMINALS.iter().find(|(_, known)| *known == number);
            Value::printable(
                name.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned()),
            )
        }
    };
    (!value.is_empty()).then_some((key, value))
}

fn both(set: &Element<'_>) -> Option<Value> {
    let mut value = Value::default();
    for field in set.children().ok()? {
        let field = field.ok()?;
        match field.tag {
            Tag::PRINTABLE_STRING => value.printable = Some(text_of(&field)?.into()),
            Tag::TELETEX_STRING => {
                value.teletex = Some(Bytes::from(field.octets().ok()?.into_owned()))
            }
            _ => {}
        }
    }
    Some(value)
}

fn unformatted(set: &Element<'_>) -> Option<Value> {
    let mut value = both(set)?;
    for field in set.children().ok()?.filter_map(Result::ok) {
        if field.tag == Tag::SEQUENCE {
            let lines: Option<Vec<String>> =
                field.children().ok()?.map(|line| text_of(&line.ok()?)).collect();
            value.printable = Some(lines?.join("|").into());
        }
    }
    Some(value)
}

/// A string without control characters.
fn text_of(element: &Element<'_>) -> Option<String> {
    let is_string = matches!(element.tag.class, Class::Universal | Class::Context);
    let octets = element.octets().ok().filter(|_| is_string)?;
    octets.iter().map(|&octet| character(char::from(octet)).ok()).collect()
}
