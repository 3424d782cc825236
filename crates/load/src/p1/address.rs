//! O/R addresses (X.411 §18): from text to octets and back.

use super::ber::{BerElement, children, element};
use std::fmt::Write as _;
use std::str::FromStr;

/// `{n}` in an address stands for the message's number, in so many digits.
pub(super) const NUMBER_DIGITS: usize = 10;
/// Stands for one of these digits until there is a number.
pub(super) const NUMBER_MARK: u8 = 2;
/// As the address has it.
const NUMBER: &str = "{n}";

/// The attributes that are known, in the order in which they are shown: key and what else it is called.
const KEYS: [(&str, &str); 15] = [
    ("CN", "CN"),
    ("G", "G"),
    ("I", "I"),
    ("S", "S"),
    ("Q", "GQ"),
    ("UA-ID", "N-ID"),
    ("X121", "X121"),
    ("OU4", "OU4"),
    ("OU3", "OU3"),
    ("OU2", "OU2"),
    ("OU1", "OU"),
    ("O", "O"),
    ("PRMD", "P"),
    ("ADMD", "A"),
    ("C", "C"),
];

/// An address as text says it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrAddress {
    /// By the place in [`KEYS`].
    attributes: [Option<String>; KEYS.len()],
    /// Type and value.
    domain_defined: Vec<(String, String)>,
}

impl FromStr for OrAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<OrAddress, String> {
        let delimiter = if text.starts_with('/') { '/' } else { ';' };
        let mut address = OrAddress::default();
        for part in text.split(delimiter).filter(|part| !part.trim().is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("{part:?} in {text:?} is no KEY=VALUE"))?;
            let (key, value) = (key.trim().to_ascii_uppercase(), value.trim());
            // The values are PrintableStrings, or else T.61 as ASCII.
            if !value.is_ascii() || value.chars().any(char::is_control) {
                return Err(format!("{value:?} in {text:?} is not ASCII"));
            }
            if let Some(name) = key.strip_prefix("DD.").or_else(|| key.strip_prefix("DDA:")) {
                address.domain_defined.push((name.to_owned(), value.to_owned()));
                continue;
            }
            let place = KEYS.iter().position(|(name, other)| key == *name || key == *other);
            let place =
                place.ok_or_else(|| format!("{key:?} in {text:?} is no known attribute"))?;
            let attribute = address.attributes.get_mut(place);
            if attribute.and_then(|attribute| attribute.replace(value.to_owned())).is_some() {
                return Err(format!("{key:?} stands twice in {text:?}"));
            }
        }
        if address.get("C").is_none() {
            return Err(format!("{text:?} names no country (C)"));
        }
        Ok(address)
    }
}

impl OrAddress {
    fn get(&self, key: &str) -> Option<&str> {
        let place = KEYS.iter().position(|(name, _)| *name == key)?;
        self.attributes.get(place)?.as_deref()
    }

    /// A string of an attribute, with marks in place of the number; nothing without the attribute.
    fn string(&self, key: &str, tag: u8) -> Vec<u8> {
        self.get(key).map(|value| element(tag, &[&marked(value)])).unwrap_or_default()
    }

    fn country_and_admd(&self) -> [Vec<u8>; 2] {
        let country = self.string("C", 0x13);
        // An ADMD that is left out or empty is one space.
        let admd = match self.get("ADMD") {
            None | Some("") => element(0x13, &[b" "]),
            Some(_) => self.string("ADMD", 0x13),
        };
        [element(0x61, &[&country]), element(0x62, &[&admd])]
    }

    /// GlobalDomainIdentifier of country, ADMD and PRMD.
    pub(super) fn domain_identifier(&self) -> Vec<u8> {
        let [country, admd] = self.country_and_admd();
        element(0x63, &[&country, &admd, &self.string("PRMD", 0x13)])
    }

    /// ORName without its own identifier and length, which are not the same everywhere.
    pub(super) fn or_name(&self) -> Vec<u8> {
        let wrapped = |tag, content: Vec<u8>| match content.as_slice() {
            [] => Vec::new(),
            content => element(tag, &[content]),
        };
        let [country, admd] = self.country_and_admd();
        let personal = ["S", "G", "I", "Q"].into_iter().zip(0x80..);
        let personal: Vec<u8> = personal.flat_map(|(key, tag)| self.string(key, tag)).collect();
        let units: Vec<u8> = ["OU1", "OU2", "OU3", "OU4"]
            .into_iter()
            .flat_map(|key| self.string(key, 0x13))
            .collect();
        let standard = [
            country,
            admd,
            self.string("X121", 0x80),
            wrapped(0xa2, self.string("PRMD", 0x13)),
            self.string("O", 0x83),
            self.string("UA-ID", 0x84),
            wrapped(0xa5, personal),
            wrapped(0xa6, units),
        ];
        let standard = element(0x30, &standard.each_ref().map(Vec::as_slice));
        let defined = self.domain_defined.iter().flat_map(|(kind, value)| {
            let value = element(0x13, &[&marked(value)]);
            element(0x30, &[&element(0x13, &[kind.as_bytes()]), &value])
        });
        let defined = wrapped(0x30, defined.collect());
        let name = self.string("CN", 0x13);
        let extension = match name.as_slice() {
            [] => Vec::new(),
            name => element(0x30, &[&[0x80, 1, 1], &element(0xa1, &[name])]),
        };
        [standard, defined, wrapped(0x31, extension)].concat()
    }
}

/// Digits of the number are put in later.
fn marked(value: &str) -> Vec<u8> {
    let marks = String::from_utf8(vec![NUMBER_MARK; NUMBER_DIGITS]).unwrap_or_default();
    value.replace(NUMBER, &marks).into_bytes()
}

/// The text by which ledgers name a recipient: a mailbox where the address stands for one (a domain-defined
/// attribute RFC-822), otherwise all attributes that are known. It has no spaces.
pub(super) fn ledger_name(or_name: &[u8]) -> String {
    let mut attributes: [Option<String>; KEYS.len()] = Default::default();
    let mut set = |key: &str, value: &[u8]| {
        let place = KEYS.iter().position(|(name, _)| *name == key);
        if let Some(attribute) = place.and_then(|place| attributes.get_mut(place)) {
            *attribute = Some(word(value));
        }
    };
    let mut other = String::new();
    for (number, part) in children(or_name).enumerate() {
        match (number, part.tag) {
            (0, 0x30) => standard(part.content, &mut set),
            (_, 0x30) => {
                for defined in children(part.content) {
                    let mut strings = children(defined.content).map(|string| string.content);
                    let kind = word(strings.next().unwrap_or_default());
                    let value = strings.next().unwrap_or_default();
                    if kind.eq_ignore_ascii_case("RFC-822") {
                        return word(&from_printable(value));
                    }
                    let _ = write!(other, "/DD.{kind}={}", word(value));
                }
            }
            (_, 0x31) => {
                for extension in children(part.content) {
                    let mut parts = children(extension.content);
                    let is_common_name = parts.next().is_some_and(|kind| kind.content == [1]);
                    let value = parts.next().and_then(|value| children(value.content).next());
                    if let Some(value) = value.filter(|_| is_common_name) {
                        set("CN", value.content);
                    }
                }
            }
            _ => {}
        }
    }
    let mut text = String::new();
    for ((key, _), value) in KEYS.iter().zip(&attributes) {
        if let Some(value) = value {
            let _ = write!(text, "/{key}={value}");
        }
    }
    text + &other + "/"
}

fn standard(content: &[u8], set: &mut impl FnMut(&str, &[u8])) {
    for BerElement { tag, content } in children(content) {
        let inner = || children(content).next().map_or(&[][..], |inner| inner.content);
        match tag {
            0x61 => set("C", inner()),
            0x62 => set("ADMD", inner()),
            0x80 => set("X121", content),
            0xa2 => set("PRMD", inner()),
            0x83 => set("O", content),
            0x84 => set("UA-ID", content),
            0xa5 => {
                for BerElement { tag, content } in children(content) {
                    let key = match tag {
                        0x80 => "S",
                        0x81 => "G",
                        0x82 => "I",
                        0x83 => "Q",
                        _ => continue,
                    };
                    set(key, content);
                }
            }
            0xa6 => {
                for (unit, key) in children(content).zip(["OU1", "OU2", "OU3", "OU4"]) {
                    set(key, unit.content);
                }
            }
            _ => {}
        }
    }
}

/// As a word of the ledger: without spaces around it, and with `_` in place of others.
fn word(value: &[u8]) -> String {
    let text = String::from_utf8_lossy(value);
    let replaced = |c: char| if c.is_whitespace() || c.is_control() { '_' } else { c };
    text.trim().chars().map(replaced).collect()
}

/// What RFC 2156 §3.4 put into a PrintableString.
fn from_printable(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((&octet, behind)) = rest.split_first() {
        rest = behind;
        let escape = behind.iter().position(|&octet| octet == b')').filter(|_| octet == b'(');
        let Some((inner, [_, after @ ..])) = escape.and_then(|end| behind.split_at_checked(end))
        else {
            out.push(octet);
            continue;
        };
        rest = after;
        out.push(match inner {
            b"a" | b"A" => b'@',
            b"p" | b"P" => b'%',
            b"b" | b"B" => b'!',
            b"q" | b"Q" => b'"',
            b"u" | b"U" => b'_',
            b"l" | b"L" => b'(',
            b"r" | b"R" => b')',
            digits => {
                let digits = std::str::from_utf8(digits).ok();
                digits.and_then(|digits| digits.parse().ok()).unwrap_or(b'?')
            }
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn an_address_has_the_octets_of_others() {
        let address: OrAddress =
            "/S=Sender/G=Carol/O=Gamma/PRMD=TestC/ADMD= /C=GB/".parse().unwrap();
        // As another implementation wrote it.
        let octets = "302c6104130247426203130120a20713055465737443830547616d6d61a50f\
                      800653656e64657281054361726f6c";
        assert_eq!(shown(&address.or_name()), octets);
        assert_eq!(
            ledger_name(&address.or_name()),
            "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD=/C=GB/"
        );
        assert_eq!(
            shown(&address.domain_identifier()),
            "63126104130247426203130120130554657374 43".replace(' ', "")
        );
    }

    #[test]
    fn all_attributes_come_back() {
        let text = "CN=a b; G=g; I=i; S=s; GQ=q; N-ID=12; X121=34; OU=u1; OU2=u2; OU3=u3; OU4=u4; O=o; \
                    P=p; A=a; C=us; DDA:kind=v";
        let address: OrAddress = text.parse().unwrap();
        let name = "/CN=a_b/G=g/I=i/S=s/Q=q/UA-ID=12/X121=34/OU4=u4/OU3=u3/OU2=u2/OU1=u1/O=o/PRMD=p/\
                    ADMD=a/C=us/DD.KIND=v/";
        assert_eq!(ledger_name(&address.or_name()), name);
        for bad in ["", "/S=a/", "/S=a/S=b/C=GB/", "/XYZ=a/C=GB/", "/S/C=GB/", "/S=é/C=GB/"] {
            assert!(bad.parse::<OrAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mailbox_is_named_as_such() {
        let address: OrAddress = "/DD.RFC-822=user{n}(a)d1(u)x.grey/O=gw/C=GB/".parse().unwrap();
        let name = ledger_name(&address.or_name());
        assert_eq!(name, format!("user{}@d1_x.grey", "_".repeat(NUMBER_DIGITS)));
        assert_eq!(from_printable(b"a(l)b(r)(33)(x)(q)("), b"a(b)!?\"(");
    }

    #[test]
    fn what_is_no_name_gives_an_empty_one() {
        assert_eq!(ledger_name(&[]), "/");
        assert_eq!(ledger_name(&[0x30, 0x80]), "/");
    }
}
