//! The text forms of an O/R address: `/G=John/S=Smith/O=Example/PRMD=p/ADMD= /C=GB/` (RFC 2156 §4.1) and `G=John;
//! S=Smith; O=Example; P=p; A= ; C=GB` (F.401 annex B, RFC 1685). The first is written, both are read.
//!
//! [`mail::or_text`] defines separators and quoting. `*` begins the teletex form of a value, in which `{ddd}` is an
//! octet in decimal.

use super::postal;
use super::{DOMAIN_DEFINED_MAX, DomainDefined, OrAddress, RFC_822, UNITS_MAX, Value, character};
use bytes::Bytes;
use mail::AddressError;
use mail::or_text::{Char, Pair};
use std::fmt::{self, Write as _};

/// Octets of an address as text that are read at most. Attributes at their upper bounds (X.411), four
/// domain-defined ones among them, stay below it.
pub const TEXT_BYTES_MAX: usize = 4 * 1024;
/// Attributes of an address as text that are read at most.
pub const ATTRIBUTES_MAX: usize = 64;

impl OrAddress {
    /// Reads either text form. A country without an ADMD gets the one of a single space (RFC 2156 §4.1.3).
    /// Bounds of X.411 on the length of values aren't checked; those on their number are.
    ///
    /// # Errors
    /// When it is no address, with the attribute that is wrong.
    pub fn parse(text: &str) -> Result<OrAddress, AddressError> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(AddressError { reason: "address is too long", offset: TEXT_BYTES_MAX });
        }
        let pairs = mail::or_text::split(text, ATTRIBUTES_MAX)?;
        let mut reader = AddressReader::default();
        for pair in &pairs {
            reader.take(pair)?;
        }
        reader.finish(text.len())
    }
}

impl std::str::FromStr for OrAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<OrAddress, AddressError> {
        OrAddress::parse(text)
    }
}

/// Collects attributes.
#[derive(Default)]
struct AddressReader {
    address: OrAddress,
    /// As `OU=`: the least significant one first (RFC 2156 §4.3.3).
    units: Vec<Value>,
    /// As `OU1=` and so on.
    numbered_units: Vec<(usize, Value)>,
    /// As `DD.type=`: the least significant one first; each with its number, if it has one (`DD1.type=`).
    domain_defined: Vec<(Option<usize>, DomainDefined)>,
    postal: postal::Postal,
}

impl AddressReader {
    fn take(&mut self, pair: &Pair) -> Result<(), AddressError> {
        let at = |reason| AddressError { reason, offset: pair.offset };
        let key = pair.key.to_ascii_uppercase();
        if let Some(number) = domain_defined_key(&pair.key) {
            let kind = value(&pair.kind).map_err(at)?;
            let value = value(&pair.value).map_err(at)?;
            let is_nothing = |text: Option<&[u8]>| text.is_none_or(<[u8]>::is_empty);
            if is_nothing(kind.printable.as_deref().map(str::as_bytes))
                && is_nothing(kind.teletex.as_deref())
            {
                return Err(at("a domain-defined attribute without a type"));
            }
            // RFC 2156 §4.1.3: both have the same encoding.
            let is_right = match (&kind.printable, &kind.teletex) {
                (Some(_), None) => true,
                (None, Some(_)) => value.printable.is_none(),
                _ => false,
            };
            if !is_right {
                return Err(at("a type in another character set than its value"));
            }
            let kind = kind_beside(kind, &value);
            self.domain_defined.push((number, DomainDefined { kind, value }));
            return Ok(());
        }
        if let Some(number) = key.strip_prefix("OU").and_then(|n| n.parse::<usize>().ok()) {
            if !(1..=UNITS_MAX).contains(&number) {
                return Err(at("there are four organizational units"));
            }
            self.numbered_units.push((number, value(&pair.value).map_err(at)?));
            return Ok(());
        }
        match key.as_str() {
            RFC_822 => {
                let attribute = DomainDefined {
                    kind: Value::printable(RFC_822),
                    value: Value::printable(plain(&pair.value).map_err(at)?),
                };
                self.domain_defined.push((None, attribute));
                Ok(())
            }
            "OU" => {
                self.units.push(value(&pair.value).map_err(at)?);
                Ok(())
            }
            key => self.take_single(key, &pair.value).map_err(at),
        }
    }

    /// An attribute that an address has once.
    fn take_single(&mut self, key: &str, text: &[Char]) -> Result<(), &'static str> {
        let address = &mut self.address;
        let person = &mut address.personal_name;
        let simple = match key {
            "C" => Some(&mut address.country),
            "ADMD" | "A" => Some(&mut address.admd),
            "PRMD" | "P" => Some(&mut address.prmd),
            "X121" | "X.121" => Some(&mut address.network_address),
            "T-ID" => Some(&mut address.terminal_id),
            "UA-ID" | "N-ID" => Some(&mut address.numeric_user_id),
            _ => None,
        };
        if let Some(simple) = simple {
            return put(simple, plain(text)?.into());
        }
        let both = match key {
            "O" => Some(&mut address.organization),
            "CN" => Some(&mut address.common_name),
            "S" => Some(&mut person.surname),
            "G" => Some(&mut person.given),
            "I" => Some(&mut person.initials),
            "GQ" | "Q" => Some(&mut person.generation),
            _ => None,
        };
        if let Some(both) = both {
            if !both.is_empty() {
                return Err("an attribute is given twice");
            }
            *both = value(text)?;
            return Ok(());
        }
        if key == "PN" {
            if !person.is_empty() {
                return Err("a personal name is given twice");
            }
            *person =
                super::PersonalName::from_encoded(&plain(text)?).ok_or("not a personal name")?;
            return Ok(());
        }
        self.postal.take(key, &value(text)?)
    }

    fn finish(mut self, end: usize) -> Result<OrAddress, AddressError> {
        let at = |reason| AddressError { reason, offset: end };
        if !self.numbered_units.is_empty() {
            if !self.units.is_empty() {
                return Err(at("organizational units with and without numbers"));
            }
            self.numbered_units.sort_by_key(|(number, _)| *number);
            if self.numbered_units.iter().zip(1..).any(|((number, _), wanted)| *number != wanted) {
                return Err(at("an organizational unit is missing or given twice"));
            }
            // The first is the most significant one, as in the address itself.
            self.units = self.numbered_units.into_iter().rev().map(|(_, unit)| unit).collect();
        }
        self.units.reverse();
        if self.units.len() > UNITS_MAX {
            return Err(at("more than four organizational units"));
        }
        self.address.units = self.units;
        self.domain_defined.reverse();
        self.domain_defined.sort_by_key(|(number, attribute)| {
            (attribute.value.printable.is_none(), number.unwrap_or_default())
        });
        let attributes: Vec<DomainDefined> =
            self.domain_defined.into_iter().map(|(_, attribute)| attribute).collect();
        let teletex = attributes.iter().filter(|a| a.value.printable.is_none()).count();
        if teletex.max(attributes.len() - teletex) > DOMAIN_DEFINED_MAX {
            return Err(at("more than four domain-defined attributes"));
        }
        self.address.domain_defined = attributes;
        self.address.extensions = self.postal.into_extensions();
        if self.address.is_empty() {
            return Err(at("an address without attributes"));
        }
        if self.address.country.is_some() {
            let admd = self.address.admd.get_or_insert_with(|| " ".into());
            if admd.trim().is_empty() {
                *admd = " ".into();
            }
        }
        Ok(self.address)
    }
}

/// Returns `Some` for a domain-defined attribute, with its number if given: `DD.type`, `DDA:type`, `DD1.type`.
fn domain_defined_key(key: &str) -> Option<Option<usize>> {
    let (front, _) = key.split_once(['.', ':'])?;
    let front = front.to_ascii_uppercase();
    let digits = front.strip_prefix("DDA").or_else(|| front.strip_prefix("DD"))?;
    match digits {
        "" => Some(None),
        digits => Some(Some(digits.parse::<usize>().ok().filter(|n| (1..=4).contains(n))?)),
    }
}

/// The type of a domain-defined attribute with this value. For a value with only a teletex form the type is a
/// TeletexString too (X.411, TeletexDomainDefinedAttribute), including characters outside PrintableString.
fn kind_beside(kind: Value, value: &Value) -> Value {
    match &kind.printable {
        Some(text) if value.printable.is_none() && !text.chars().all(is_printable) => {
            let octets: Vec<u8> = text.chars().filter_map(|c| u8::try_from(c).ok()).collect();
            Value { printable: None, teletex: Some(Bytes::from(octets)) }
        }
        _ => kind,
    }
}

fn put(field: &mut Option<Box<str>>, text: Box<str>) -> Result<(), &'static str> {
    if field.is_some() {
        return Err("an attribute is given twice");
    }
    *field = Some(text);
    Ok(())
}

/// A value in one character set.
fn plain(text: &[Char]) -> Result<String, &'static str> {
    text.iter().map(|&(c, _)| character(c)).collect()
}

/// A value in either or both character sets: `teletex-and-or-ps` (RFC 2156 §3.3.4).
fn value(text: &[Char]) -> Result<Value, &'static str> {
    let Some(star) = text.iter().position(|&c| c == ('*', false)) else {
        return Ok(Value::printable(plain(text)?));
    };
    let (front, back) = text.split_at(star);
    let printable = if front.is_empty() { None } else { Some(plain(front)?.into_boxed_str()) };
    let mut octets = Vec::new();
    let mut chars = back.iter().skip(1);
    while let Some(&(c, quoted)) = chars.next() {
        if c != '{' || quoted {
            octets.push(u8::try_from(character(c)?).map_err(|_| "not a teletex character")?);
            continue;
        }
        let digits: String = chars.by_ref().map(|&(c, _)| c).take_while(|&c| c != '}').collect();
        if digits.is_empty()
            || !digits.len().is_multiple_of(3)
            || !digits.bytes().all(|b| b.is_ascii_digit())
        {
            return Err("three digits for each octet must stand between { and }");
        }
        for three in digits.as_bytes().chunks(3) {
            let number = three.iter().fold(0_u16, |sum, &digit| sum * 10 + u16::from(digit - b'0'));
            octets.push(u8::try_from(number).map_err(|_| "an octet over 255")?);
        }
    }
    // Values of PrintableString characters become printable, whichever form was written (§4.1.1).
    let text: String = octets.iter().map(|&octet| char::from(octet)).collect();
    let is_same = printable.as_deref().is_none_or(|printable| *printable == *text);
    if is_same && !text.is_empty() && text.chars().all(is_printable) {
        return Ok(Value::printable(text));
    }
    Ok(Value { printable, teletex: Some(Bytes::from(octets)) })
}

/// Returns true for characters of PrintableString (X.680 §41.4).
#[must_use]
pub fn is_printable(c: char) -> bool {
    c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c)
}

/// As `std-or-address` (RFC 2156 §4.1.3): the least significant attribute first.
impl fmt::Display for OrAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = Output { f, is_begun: false };
        for attribute in self.domain_defined.iter().rev() {
            if attribute.kind == Value::printable(RFC_822) && attribute.value.teletex.is_none() {
                out.value(RFC_822, &attribute.value)?;
            } else {
                out.domain_defined(attribute)?;
            }
        }
        for (number, value) in self.extensions.iter().filter_map(postal::to_pair) {
            out.value(number, &value)?;
        }
        out.value("CN", &self.common_name)?;
        out.text("X121", self.network_address.as_deref())?;
        out.text("T-ID", self.terminal_id.as_deref())?;
        out.text("UA-ID", self.numeric_user_id.as_deref())?;
        let [surname, given, initials, generation] = self.personal_name.parts();
        for (key, value) in [("G", given), ("I", initials), ("S", surname), ("GQ", generation)] {
            out.value(key, value)?;
        }
        for unit in self.units.iter().rev() {
            out.value("OU", unit)?;
        }
        out.value("O", &self.organization)?;
        out.text("PRMD", self.prmd.as_deref())?;
        // X.402 §18.3.1: one space where there is no name; written so, since an empty value is easily lost.
        let admd = self.admd.as_deref().map(|admd| if admd.is_empty() { " " } else { admd });
        out.text("ADMD", admd)?;
        out.text("C", self.country.as_deref())?;
        if out.is_begun { f.write_char('/') } else { Ok(()) }
    }
}

struct Output<'a, 'f> {
    f: &'a mut fmt::Formatter<'f>,
    is_begun: bool,
}

impl Output<'_, '_> {
    fn key(&mut self, key: &str) -> fmt::Result {
        self.is_begun = true;
        write!(self.f, "/{key}=")
    }

    fn text(&mut self, key: &str, text: Option<&str>) -> fmt::Result {
        let Some(text) = text else { return Ok(()) };
        self.key(key)?;
        quote(self.f, text)
    }

    fn value(&mut self, key: &str, value: &Value) -> fmt::Result {
        if value.is_empty() {
            return Ok(());
        }
        self.key(key)?;
        write_value(self.f, value)
    }

    fn domain_defined(&mut self, attribute: &DomainDefined) -> fmt::Result {
        self.is_begun = true;
        self.f.write_str("/DD.")?;
        write_value(self.f, &attribute.kind)?;
        self.f.write_char('=')?;
        write_value(self.f, &attribute.value)
    }
}

fn quote(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    for c in text.chars() {
        if matches!(c, '/' | '=' | '$' | ';' | '*' | '{' | '}') {
            f.write_char('$')?;
        }
        f.write_char(c)?;
    }
    Ok(())
}

/// A teletex value of PrintableString characters without another form is written as printable (RFC 2156 §4.1.1), and so
/// are equal values in both forms.
fn write_value(f: &mut impl fmt::Write, value: &Value) -> fmt::Result {
    let as_printable = value.teletex.as_ref().and_then(|octets| {
        let all = !octets.is_empty() && octets.iter().all(|&octet| is_printable(char::from(octet)));
        all.then(|| String::from_utf8_lossy(octets).into_owned())
    });
    match (&value.printable, &value.teletex) {
        (Some(text), None) => quote(f, text),
        (Some(text), Some(_)) if as_printable.as_deref() == Some(&**text) => quote(f, text),
        (printable, Some(octets)) => {
            if let (None, Some(text)) = (printable, &as_printable) {
                return quote(f, text);
            }
            quote(f, printable.as_deref().unwrap_or_default())?;
            f.write_char('*')?;
            for &octet in octets {
                match char::from(octet) {
                    c if is_printable(c) => quote(f, c.encode_utf8(&mut [0; 4]))?,
                    _ => write!(f, "{{{octet:03}}}")?,
                }
            }
            Ok(())
        }
        (None, None) => Ok(()),
    }
}
