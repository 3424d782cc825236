//! What is compared of an address, and routes: the more attributes an entry names, the better it fits.

use super::{OrAddress, Value};

/// Which attribute of an address, in the order in which [`Folded`] keeps them.
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

impl Folded {
    /// How many attributes are named.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each attribute that is named here has the same value there.
    #[must_use]
    pub fn covers(&self, address: &Folded) -> bool {
        let mut theirs = address.0.iter();
        // Both are sorted, so one pass finds all.
        self.0.iter().all(|ours| {
            theirs.by_ref().find(|entry| *entry >= ours).is_some_and(|entry| entry == ours)
        })
    }

    /// The attributes, sorted, with their values.
    pub fn iter(&self) -> impl Iterator<Item = (&Attribute, &[u8])> {
        self.0.iter().map(|(attribute, value)| (attribute, &**value))
    }
}

/// The entry that fits best: of those that cover the address the one that names most attributes, the first of
/// equal ones. What two equal ones mean is for who made the table.
#[must_use]
pub fn best<'e>(
    entries: impl IntoIterator<Item = &'e Folded>,
    address: &Folded,
) -> Option<(usize, &'e Folded)> {
    let mut found: Option<(usize, &Folded)> = None;
    for (index, entry) in entries.into_iter().enumerate() {
        if found.is_none_or(|(_, best)| entry.len() > best.len()) && entry.covers(address) {
            found = Some((index, entry));
        }
    }
    found
}

impl OrAddress {
    /// What is compared of it (X.402 §18.4).
    #[must_use]
    pub fn folded(&self) -> Folded {
        let mut all = Vec::with_capacity(8);
        for (attribute, text) in [
            (Attribute::Country, &self.country),
            (Attribute::Admd, &self.admd),
            (Attribute::Prmd, &self.prmd),
            (Attribute::NetworkAddress, &self.network_address),
            (Attribute::TerminalId, &self.terminal_id),
            (Attribute::NumericUserId, &self.numeric_user_id),
        ] {
            if let Some(text) = text {
                all.push((attribute, fold(text)));
            }
        }
        // X.402 §18.3.1: the country's domains are meant by one space, and some write nothing instead; and
        // RFC 2156 §4.1.3: who writes a country and no ADMD means that.
        if self.country.is_some() && self.admd.is_none() {
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
        for (index, unit) in self.units.iter().enumerate() {
            push(&mut all, Attribute::Unit(u8::try_from(index).unwrap_or(u8::MAX)), unit);
        }
        for attribute in &self.domain_defined {
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

    /// Itself and the shorter addresses that cover it, the most exact one first, as texts in the form that
    /// [`OrAddress::to_folded_text`] writes: what a table of routes is asked for, one after the other. At most 11.
    #[must_use]
    pub fn lookup_keys(&self) -> Vec<String> {
        let mut address = self.clone();
        let mut keys = vec![address.to_folded_text()];
        let mut add = |address: &OrAddress| {
            let key = address.to_folded_text();
            if !key.is_empty() && keys.last() != Some(&key) {
                keys.push(key);
            }
        };
        address.domain_defined.clear();
        address.extensions.clear();
        add(&address);
        address.network_address = None;
        address.terminal_id = None;
        address.numeric_user_id = None;
        address.personal_name = super::PersonalName::default();
        address.common_name = Value::default();
        add(&address);
        while address.units.pop().is_some() {
            add(&address);
        }
        address.organization = Value::default();
        add(&address);
        address.prmd = None;
        add(&address);
        keys
    }

    /// The text form of what is compared: two addresses that are the same have the same text.
    #[must_use]
    pub fn to_folded_text(&self) -> String {
        let mut address = self.clone();
        let mut texts = [
            &mut address.country,
            &mut address.admd,
            &mut address.prmd,
            &mut address.network_address,
            &mut address.terminal_id,
            &mut address.numeric_user_id,
        ];
        for text in texts.iter_mut().filter_map(|text| text.as_mut()) {
            *text = folded_text(text);
        }
        if address.country.is_some() {
            address.admd = address.admd.filter(|admd| !admd.is_empty()).or(Some(" ".into()));
        }
        let mut values = vec![&mut address.organization, &mut address.common_name];
        values.extend(address.personal_name.parts_mut());
        values.extend(&mut address.units);
        for attribute in &mut address.domain_defined {
            values.extend([&mut attribute.kind, &mut attribute.value]);
        }
        for value in values {
            if let Some(text) = value.to_text() {
                *value = Value::printable(folded_text(&text));
            }
        }
        address.to_string()
    }
}

fn push(all: &mut Vec<(Attribute, Box<[u8]>)>, attribute: Attribute, value: &Value) {
    if let Some(text) = value.to_text() {
        all.push((attribute, fold(&text)));
    }
}

fn fold(text: &str) -> Box<[u8]> {
    folded_text(text).into_boxed_bytes()
}

/// Lower case, without blanks around it and with single ones in it.
fn folded_text(text: &str) -> Box<str> {
    let mut folded = String::with_capacity(text.len());
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        if !folded.is_empty() {
            folded.push(' ');
        }
        folded.extend(word.chars().flat_map(char::to_lowercase));
    }
    folded.into()
}
