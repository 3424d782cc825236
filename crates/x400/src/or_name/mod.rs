//! O/R names and addresses (X.402 §18, X.411 §8.5.5): attributes, equality, and inclusion.
//!
//! [`OrAddress`] names a user to the transfer system; [`OrName`] is an address with an optional directory name, which
//! is not looked up. The text forms are in [`text`], the octets in [`ber`].

pub mod ber;
pub mod folded;
mod plain;
pub mod postal;
pub mod text;

use bytes::Bytes;
pub use folded::{Attribute, Folded};

/// Organizational units of an address at most (X.411, ub-organizational-units).
pub const UNITS_MAX: usize = 4;
/// Domain-defined attributes of an address at most, of each character set (X.411,
/// ub-domain-defined-attributes).
pub const DOMAIN_DEFINED_MAX: usize = 4;
/// Maximum number of extension attributes of an address. X.411 allows 256; more than the number of kinds of attributes
/// (42) occurs only in attacks.
pub const EXTENSIONS_MAX: usize = 64;
/// Maximum octets of an O/R name in BER. X.411 bounds each attribute; all together stay below this.
pub const NAME_BYTES_MAX: usize = 8 * 1024;
/// The type of the domain-defined attribute that has an internet address (RFC 2156 §4.3.2).
pub const RFC_822: &str = "RFC-822";

/// A value that may be written in two character sets: PrintableString, teletex, or both (X.402 §18.2).
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    /// The PrintableString form. Programs exceed the set of X.680; any character of Latin-1 except controls is kept.
    pub printable: Option<Box<str>>,
    /// As TeletexString, octet for octet.
    pub teletex: Option<Bytes>,
}

/// Name of a person (X.402 §18.3.12).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PersonalName {
    /// Surname.
    pub surname: Value,
    /// Given name.
    pub given: Value,
    /// Initials of all names but the surname.
    pub initials: Value,
    /// Such as "Jr".
    pub generation: Value,
}

/// An attribute defined by its domain (X.402 §18.1).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DomainDefined {
    /// Its type; in the character set that the value has.
    pub kind: Value,
    /// Its value.
    pub value: Value,
}

/// An extension attribute that no field of [`OrAddress`] has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtensionAttribute {
    /// Number of the attribute (X.411, ExtensionAttributeTable).
    pub number: u32,
    /// The BER of its value, as received.
    pub value: Bytes,
}

/// An O/R address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrAddress {
    /// Country, of two letters (ISO 3166) or three digits (X.121).
    pub country: Option<Box<str>>,
    /// Administration management domain; empty and one space are the same.
    pub admd: Option<Box<str>>,
    /// Private management domain.
    pub prmd: Option<Box<str>>,
    /// X.121 network address.
    pub network_address: Option<Box<str>>,
    /// Terminal identifier.
    pub terminal_id: Option<Box<str>>,
    /// Organization.
    pub organization: Value,
    /// Numeric user identifier.
    pub numeric_user_id: Option<Box<str>>,
    /// Personal name.
    pub personal_name: PersonalName,
    /// Organizational units, the most significant one first; [`UNITS_MAX`] at most.
    pub units: Vec<Value>,
    /// Domain-defined attributes in their order, those in teletex only last; [`DOMAIN_DEFINED_MAX`] of each at most.
    pub domain_defined: Vec<DomainDefined>,
    /// Common name.
    pub common_name: Value,
    /// All other extension attributes in their order, octet for octet; [`EXTENSIONS_MAX`] at most.
    pub extensions: Vec<ExtensionAttribute>,
}

/// An address, and perhaps a name in the directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrName {
    /// The address.
    pub address: OrAddress,
    /// The BER of the directory's Name (X.501), as received.
    pub directory_name: Option<Bytes>,
}

impl From<OrAddress> for OrName {
    fn from(address: OrAddress) -> OrName {
        OrName { address, directory_name: None }
    }
}

impl Value {
    /// A value as PrintableString.
    #[must_use]
    pub fn printable(text: impl Into<Box<str>>) -> Value {
        Value { printable: Some(text.into()), teletex: None }
    }

    /// Returns true if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.printable.is_none() && self.teletex.is_none()
    }

    /// The value for comparison and for people: the printable form, or else the teletex octets read as Latin-1, as in
    /// RFC 2156 §3.3.4.
    #[must_use]
    pub fn to_text(&self) -> Option<String> {
        match (&self.printable, &self.teletex) {
            (Some(text), _) => Some(text.to_string()),
            (None, Some(octets)) => Some(octets.iter().map(|&octet| char::from(octet)).collect()),
            (None, None) => None,
        }
    }
}

/// Checks a character of a value: more than PrintableString is accepted, because real programs use more.
fn character(c: char) -> Result<char, &'static str> {
    if c.is_control() || u32::from(c) > 0xff {
        return Err("a character not allowed in addresses");
    }
    Ok(c)
}

impl PersonalName {
    /// Returns true if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts().iter().all(|value| value.is_empty())
    }

    /// Surname, given name, initials and generation: the order of their tags.
    #[must_use]
    pub fn parts(&self) -> [&Value; 4] {
        [&self.surname, &self.given, &self.initials, &self.generation]
    }

    /// The same, to be written to.
    pub(crate) fn parts_mut(&mut self) -> [&mut Value; 4] {
        [&mut self.surname, &mut self.given, &mut self.initials, &mut self.generation]
    }
}

impl OrAddress {
    /// The value of the domain-defined attribute of this type, in any case; as PrintableString.
    #[must_use]
    pub fn domain_defined(&self, kind: &str) -> Option<&str> {
        self.domain_defined
            .iter()
            .find(|attribute| {
                attribute.kind.printable.as_deref().is_some_and(|k| k.eq_ignore_ascii_case(kind))
            })
            .and_then(|attribute| attribute.value.printable.as_deref())
    }

    /// Returns true if it has no attribute.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == OrAddress::default()
    }

    /// Returns true if it names the same user, by the rules of X.402 §18.4. Case is ignored, surrounding blanks are
    /// ignored and inner ones merged. A number is the same in either character set, and an empty ADMD equals one space.
    #[must_use]
    pub fn is_same(&self, other: &OrAddress) -> bool {
        self.folded() == other.folded()
    }
}

#[cfg(test)]
mod tests;

impl PersonalName {
    /// Parses `encoded-pn`: a given name of two characters or more, initials, and the surname after the last initial.
    /// `None` without a surname.
    #[must_use]
    pub fn from_encoded(text: &str) -> Option<PersonalName> {
        let mut rest = text;
        let mut name = PersonalName::default();
        if let Some((given, behind)) = rest.split_once('.')
            && given.chars().count() >= 2
        {
            name.given = Value::printable(given);
            rest = behind;
        }
        let mut initials = String::new();
        while let Some((initial, behind)) = rest.split_once('.')
            && initial.len() == 1
            && initial.bytes().all(|octet| octet.is_ascii_alphabetic())
        {
            initials.push_str(initial);
            rest = behind;
        }
        if !initials.is_empty() {
            name.initials = Value::printable(initials);
        }
        name.surname = Value::printable(rest);
        // Only a reversible result is valid.
        (!rest.is_empty() && name.to_encoded().as_deref() == Some(text)).then_some(name)
    }

    /// Writes it so; `None` when it can't be, or couldn't be read again as the same name.
    #[must_use]
    pub fn to_encoded(&self) -> Option<String> {
        let part = |value: &Value| match value {
            Value { printable, teletex: None } => {
                Some(printable.as_deref().unwrap_or_default().to_owned())
            }
            _ => None,
        };
        let [surname, given, initials, generation] = self.parts().map(part);
        let (surname, given, initials) = (surname?, given?, initials?);
        let is_alone = given.is_empty() && initials.is_empty();
        let is_right = generation?.is_empty()
            && initials.bytes().all(|octet| octet.is_ascii_alphabetic())
            && !given.contains('.')
            && given.chars().count() != 1
            && !surname.is_empty()
            && !surname.chars().take(2).any(|c| c == '.')
            && !(is_alone && surname.contains('.'));
        if !is_right {
            return None;
        }
        let mut text = String::new();
        if !given.is_empty() {
            text.push_str(&given);
            text.push('.');
        }
        for initial in initials.chars() {
            text.push(initial);
            text.push('.');
        }
        text.push_str(&surname);
        Some(text)
    }
}
