//! The readable form of an address: without empty attributes (an empty value is none, X.402 §18.4), and with universal
//! strings (X.411, extension attributes 24 to 28) converted to ordinary ones.

use super::character;
use super::{DomainDefined, OrAddress, Value};
use crate::ber::Reader;
use bytes::Bytes;

const UNIVERSAL_COMMON_NAME: u32 = 24;
const UNIVERSAL_ORGANIZATION: u32 = 25;
const UNIVERSAL_PERSONAL_NAME: u32 = 26;
const UNIVERSAL_UNITS: u32 = 27;
const UNIVERSAL_DOMAIN_DEFINED: u32 = 28;

impl OrAddress {
    /// The address without empty attributes, and with universal strings converted if another character set has their
    /// characters.
    #[must_use]
    pub fn to_plain(&self) -> OrAddress {
        let mut plain = self.clone();
        plain.read_universal();
        for text in [
            &mut plain.country,
            &mut plain.prmd,
            &mut plain.network_address,
            &mut plain.terminal_id,
            &mut plain.numeric_user_id,
        ] {
            if text.as_deref().is_some_and(is_blank) {
                *text = None;
            }
        }
        for value in [&mut plain.organization, &mut plain.common_name] {
            value.drop_blank();
        }
        plain.personal_name.parts_mut().into_iter().for_each(Value::drop_blank);
        plain.units.iter_mut().for_each(Value::drop_blank);
        plain.units.retain(|unit| !unit.is_empty());
        let says_nothing = |one: &DomainDefined| {
            let is_blank = |value: &Value| value.to_text().is_none_or(|text| is_blank(&text));
            is_blank(&one.kind) || is_blank(&one.value)
        };
        plain.domain_defined.retain(|one| !says_nothing(one));
        plain
    }

    /// Returns true if an address from [`OrAddress::to_plain`] has an unreadable attribute: without it, the address
    /// would name a different user.
    #[must_use]
    pub fn has_unreadable(&self) -> bool {
        self.extensions.iter().any(|one| is_universal(one.number))
    }

    /// The address with Latin-1 letters in PrintableStrings, which are not allowed there, converted to teletex, which
    /// has a form in ASCII. Without an internet address the originator would not get reports of failures.
    #[must_use]
    pub fn to_ascii(&self) -> OrAddress {
        let mut ascii = self.clone();
        let attributes = ascii.domain_defined.iter_mut();
        let values = [&mut ascii.organization, &mut ascii.common_name]
            .into_iter()
            .chain(ascii.personal_name.parts_mut())
            .chain(&mut ascii.units)
            .chain(attributes.flat_map(|one| [&mut one.kind, &mut one.value]));
        values.for_each(Value::move_letters);
        ascii
    }

    /// Converts universal strings to their attributes; those without a form in another character set stay.
    fn read_universal(&mut self) {
        let person = !self.personal_name.is_empty();
        let (common, organization) = (&mut self.common_name, &mut self.organization);
        let (has_units, has_attributes) = (!self.units.is_empty(), !self.domain_defined.is_empty());
        self.extensions.retain(|one| {
            let into = match one.number {
                UNIVERSAL_COMMON_NAME => &mut *common,
                UNIVERSAL_ORGANIZATION => &mut *organization,
                // The same in another character set.
                UNIVERSAL_PERSONAL_NAME => return !person,
                UNIVERSAL_UNITS => return !has_units,
                UNIVERSAL_DOMAIN_DEFINED => return !has_attributes,
                _ => return true,
            };
            if into.is_empty() {
                *into = read(&one.value).unwrap_or_default();
            }
            into.is_empty()
        });
    }
}

fn is_universal(number: u32) -> bool {
    (UNIVERSAL_COMMON_NAME..=UNIVERSAL_DOMAIN_DEFINED).contains(&number)
}

impl Value {
    fn drop_blank(&mut self) {
        if self.printable.as_deref().is_some_and(is_blank) {
            self.printable = None;
        }
        if self.teletex.as_deref().is_some_and(|octets| octets.iter().all(|b| *b == b' ')) {
            self.teletex = None;
        }
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c == ' ')
}

/// UniversalOrBMPString: a SET of a string of two or four octets for each character, and perhaps a language.
fn read(value: &Bytes) -> Option<Value> {
    let set = Reader::new(value).next()?.ok()?;
    let string = set.children().ok()?.next()?.ok()?;
    let octets = string.octets().ok()?;
    let characters: Vec<u32> = match string.tag.number {
        // BMPString.
        30 => octets.chunks(2).map(|pair| number(pair, 2)).collect::<Option<_>>()?,
        // UniversalString.
        28 => octets.chunks(4).map(|four| number(four, 4)).collect::<Option<_>>()?,
        _ => return None,
    };
    let text: String = characters.into_iter().map(char::from_u32).collect::<Option<_>>()?;
    if text.is_ascii() {
        return text.chars().all(|c| character(c).is_ok()).then(|| Value::printable(text));
    }
    let octets: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
    Some(Value { printable: None, teletex: Some(octets?.into()) })
}

impl Value {
    /// Characters not allowed in PrintableString become teletex.
    fn move_letters(&mut self) {
        let Some(text) = self.printable.take_if(|text| !text.is_ascii()) else { return };
        let octets: Option<Vec<u8>> =
            text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect();
        match octets {
            Some(octets) => drop(self.teletex.get_or_insert(octets.into())),
            None => self.printable = Some(text),
        }
    }
}

fn number(octets: &[u8], length: usize) -> Option<u32> {
    (octets.len() == length)
        .then(|| octets.iter().fold(0, |number, octet| number << 8 | u32::from(*octet)))
}

#[cfg(test)]
mod tests {
    use super::super::ExtensionAttribute;
    use super::*;

    fn universal(number: u32, text: &str) -> ExtensionAttribute {
        let octets: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let length = u8::try_from(octets.len()).unwrap();
        let value = [&[0x31, length + 2, 0x1e, length][..], &octets].concat();
        ExtensionAttribute { number, value: value.into() }
    }

    #[test]
    fn universal_strings_are_the_attributes_that_they_stand_for_or_none_that_can_be_read() {
        let base = OrAddress::parse("/O=G/ADMD= /C=GB/").unwrap();
        let with = |extensions: Vec<ExtensionAttribute>| OrAddress { extensions, ..base.clone() };
        let dima = with(vec![universal(24, "Dima")]);
        assert_eq!(dima.to_plain().to_string(), "/CN=Dima/O=G/ADMD= /C=GB/");
        assert!(!dima.to_plain().has_unreadable());
        let zoe = with(vec![universal(24, "Zo\u{eb}")]);
        assert_eq!(zoe.to_plain().to_string(), "/CN=*Zo{235}/O=G/ADMD= /C=GB/");
        for number in 24..=28 {
            let other = with(vec![universal(number, "\u{414}\u{438}\u{43c}\u{430}")]);
            let is_known = number == 25;
            assert_eq!(other.to_plain().has_unreadable(), !is_known, "{number}");
        }
        // Beside the same in another character set it says nothing more.
        let mut both = with(vec![universal(24, "\u{414}")]);
        both.common_name = Value::printable("D");
        assert!(!both.to_plain().has_unreadable());
        assert_eq!(both.to_plain().to_string(), "/CN=D/O=G/ADMD= /C=GB/");
        let broken = ExtensionAttribute { number: 24, value: Bytes::from_static(&[0x31, 9]) };
        assert!(with(vec![broken]).to_plain().has_unreadable());
    }

    #[test]
    fn what_says_nothing_is_not_there() {
        let mut address = OrAddress::parse("/S=X/O=Beta/ADMD= /C=GB/").unwrap();
        let expected = address.to_string();
        address.personal_name.given = Value::printable("");
        address.personal_name.initials = Value::printable("  ");
        address.units = vec![Value::printable(""), Value::printable(" ")];
        address.common_name = Value { printable: None, teletex: Some(Bytes::from_static(b" ")) };
        for (kind, value) in [("A", ""), ("A", " "), ("", "v")] {
            let (kind, value) = (Value::printable(kind), Value::printable(value));
            address.domain_defined.push(DomainDefined { kind, value });
        }
        assert_eq!(address.to_plain().to_string(), expected);
        assert!(address.is_same(&OrAddress::parse(&expected).unwrap()));
    }
}
