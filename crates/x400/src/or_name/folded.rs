//! The comparable form of an address.

use super::{OrAddress, Value};

/// An attribute of an address, in the order of [`Folded`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// Country.
    Country,
    /// Administration management domain.
    Admd,
    /// Private management domain.
    Prmd,
    /// Organization.
    Organization,
    /// Organizational unit, from 0: the most significant one.
    Unit(u8),
    /// Common name.
    CommonName,
    /// Surname.
    Surname,
    /// Given name.
    Given,
    /// Initials.
    Initials,
    /// Generation qualifier.
    Generation,
    /// X.121 address.
    NetworkAddress,
    /// Terminal identifier.
    TerminalId,
    /// Numeric user identifier.
    NumericUserId,
    /// A domain-defined attribute of this type (folded).
    DomainDefined(Box<str>),
    /// An extension attribute of this number.
    Extension(u32),
}

/// The attributes of an address as they are compared: sorted, values folded.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Folded(Vec<(Attribute, Box<[u8]>)>);

impl OrAddress {
    /// Returns true if it has all attributes of a partial address, in their form for comparison. A part without an ADMD
    /// matches any.
    #[must_use]
    pub fn is_below(&self, part: &OrAddress) -> bool {
        let (all, part, admd) = (self.folded(), part.folded(), part.admd.is_some());
        part.0
            .iter()
            .all(|one| !admd && one.0 == Attribute::Admd || all.0.binary_search(one).is_ok())
    }

    /// Its comparable form (X.402 §18.4).
    #[must_use]
    pub fn folded(&self) -> Folded {
        let mut all = Vec::with_capacity(8);
        if let Some(country) = self.country.as_deref().filter(|text| !text.trim().is_empty()) {
            let letters = mail::or_text::letters_of(country.trim()).unwrap_or(country);
            all.push((Attribute::Country, fold(letters)));
        }
        for (attribute, text) in [
            (Attribute::Admd, &self.admd),
            (Attribute::Prmd, &self.prmd),
            (Attribute::NetworkAddress, &self.network_address),
            (Attribute::TerminalId, &self.terminal_id),
            (Attribute::NumericUserId, &self.numeric_user_id),
        ] {
            if let Some(text) = text.as_deref().map(fold).filter(|text| !text.is_empty()) {
                all.push((attribute, text));
            }
        }
        // X.402 §18.3.1: one space means any domain of the country, and some systems write nothing instead. RFC 2156
        // §4.1.3: a country without an ADMD means the same.
        let has =
            |text: &Option<Box<str>>| text.as_deref().is_some_and(|text| !text.trim().is_empty());
        if has(&self.country) && !has(&self.admd) {
            all.push((Attribute::Admd, Box::default()));
        }
        let [surname, given, initials, generation] = self.personal_name.parts();
        for (attribute, value) in [
            (Attribute::Organization, &self.organization),
            (Attribute::CommonName, &self.common_name),
            (Attribute::Surname, surname),
            (Attribute::Given, given),
            (Attribute::Initials, initials),
            (Attribute::Generation, generation),
        ] {
            push(&mut all, attribute, value);
        }
        // Empty units are ignored, and do not shift the following ones.
        for (index, unit) in self.units.iter().filter(|unit| !is_blank(unit)).enumerate() {
            push(&mut all, Attribute::Unit(u8::try_from(index).unwrap_or(u8::MAX)), unit);
        }
        // Values without a type are ignored.
        for attribute in self.domain_defined.iter().filter(|attribute| !is_blank(&attribute.kind)) {
            let kind = fold(&attribute.kind.to_text().unwrap_or_default());
            let kind = String::from_utf8_lossy(&kind).into();
            push(&mut all, Attribute::DomainDefined(kind), &attribute.value);
        }
        for extension in &self.extensions {
            all.push((Attribute::Extension(extension.number), extension.value.as_ref().into()));
        }
        all.sort();
        Folded(all)
    }
}

/// Has no text, or blanks alone.
fn is_blank(value: &Value) -> bool {
    value.to_text().is_none_or(|text| text.trim().is_empty())
}

/// An empty value is ignored.
fn push(all: &mut Vec<(Attribute, Box<[u8]>)>, attribute: Attribute, value: &Value) {
    let text = value.to_text().map(|text| fold(&text));
    all.extend(text.filter(|text| !text.is_empty()).map(|text| (attribute, text)));
}

/// Lower case, without blanks around it and with single ones in it.
fn fold(text: &str) -> Box<[u8]> {
    let mut folded = String::with_capacity(text.len());
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().flat_map(char::to_lowercase));
    }
    folded.into_boxed_str().into_boxed_bytes()
}
