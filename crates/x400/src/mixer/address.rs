//! Mapping of addresses in both directions (RFC 2156 §4.3).

use super::mcgam::{LEVELS_MAX, Mappings, is_label, levels_of};
use super::printable;
use crate::or_name::{
    DOMAIN_DEFINED_MAX, DomainDefined, OrAddress, PersonalName, RFC_822, UNITS_MAX, Value,
};

/// Characters of a domain-defined value at most (X.411, ub-domain-defined-attribute-value-length).
const VALUE_CHARS_MAX: usize = 128;
/// Attributes for the rest of a long address, 128 characters each (RFC 2156 §4.3.2).
const OVERFLOW: [&str; 3] = ["RFC822C1", "RFC822C2", "RFC822C3"];

/// Use of an internet address; it decides the gateway for an answer (RFC 2156 §4.3.4, stage II).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The originator of the envelope: errors are returned through this gateway.
    Originator,
    /// A recipient, or an address of a heading: the gateway that suits it best.
    Other,
}

/// Destination in X.400 of mail for an internet address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Mapped by the domain, with a table or below a gateway, whatever the local part.
    ByDomain(OrAddress),
    /// Mapped by the local part, which is an O/R address.
    ByLocalPart(OrAddress),
    /// [`Gateway::would_come_back`].
    Back,
    /// Unreachable: no O/R address can hold it, or it is in the gateway's own domain without being an O/R address.
    Nowhere,
}

/// The mapping gateway: its own names and its tables.
#[derive(Clone, Debug, Default)]
pub struct Gateway {
    /// The address of this gateway in X.400; addresses that have no mapping are put below it.
    pub address: OrAddress,
    /// The domain of this gateway; unmapped addresses are placed in it.
    pub domain: Box<str>,
    /// The tables.
    pub mappings: Mappings,
}

impl Gateway {
    /// The address `local@domain` that stands for an O/R address, quoted where it must be. `None`: the address has
    /// characters that no internet address can have, or an RFC-822 attribute that is none.
    #[must_use]
    pub fn to_mail(&self, address: &OrAddress) -> Option<String> {
        let address = &address.to_plain();
        // Without these attributes the address would name a different user.
        if address.has_unreadable() {
            return None;
        }
        let address = &address.to_ascii();
        if address.domain_defined(RFC_822).is_some() {
            return encapsulated(address);
        }
        let (used, mut domain) = match self.mappings.of_address(address) {
            // RFC 2156 §4.3.5: domains of one component do not route to a gateway.
            Some((levels, domain)) if domain.contains('.') => (levels, domain.to_owned()),
            Some(_) | None => {
                let gateway = self.mappings.gateway_of_address(address).unwrap_or(&self.domain);
                return with_domain(&address.to_string(), gateway);
            }
        };
        if !is_mnemonic(address) {
            return with_domain(&address.to_string(), &domain);
        }
        let mut rest = below(address, used);
        let mut used = used;
        for level in levels_of(address).into_iter().skip(used) {
            let after = below(address, used + 1);
            match level {
                // Something must be left for the local part.
                Some(label) if is_label(&label) && !after.is_empty() => {
                    domain = format!("{label}.{domain}");
                    rest = after;
                    used += 1;
                }
                _ => break,
            }
        }
        let is_person =
            rest == OrAddress { personal_name: rest.personal_name.clone(), ..OrAddress::default() };
        match rest.personal_name.to_encoded().filter(|_| is_person) {
            // A name that reads like a list of attributes would not come back as one.
            Some(name) if !name.contains(['/', ';', '=']) => with_domain(&name, &domain),
            _ => with_domain(&rest.to_string(), &domain),
        }
    }

    /// The O/R address of an internet address. `None` if it is too long for an O/R address, has non-ASCII characters,
    /// or [`Gateway::would_come_back`].
    #[must_use]
    pub fn to_or_address(&self, mail: &str, usage: Use) -> Option<OrAddress> {
        let parsed = split(mail);
        let attributes = parsed.and_then(|(_, domain)| self.of_domain(domain));
        if let Some(address) = self.written(parsed, attributes.as_ref()) {
            return (!is_encapsulating(&address)).then_some(address);
        }
        // RFC 2156 §4.3.4, stage II: an internet address within the address of a gateway.
        let domain = parsed.map_or(mail, |(_, domain)| domain);
        let mut address = match (attributes, usage) {
            (Some(attributes), _) => attributes,
            (None, Use::Originator) => self.address.clone(),
            (None, Use::Other) => {
                self.mappings.gateway_of_domain(domain).unwrap_or(&self.address).clone()
            }
        };
        encapsulate(mail, &mut address)?;
        Some(address)
    }

    /// Destination of mail for an internet address.
    #[must_use]
    pub fn reach(&self, mail: &str) -> Reach {
        let parsed = split(mail);
        let domain = parsed.map_or("", |(_, domain)| domain);
        let mapped = self.of_domain(domain);
        match self.written(parsed, mapped.as_ref()) {
            Some(address) if is_encapsulating(&address) => Reach::Back,
            Some(address) => match mapped.is_some_and(|part| address.is_below(&part)) {
                true => Reach::ByDomain(address),
                false => Reach::ByLocalPart(address),
            },
            // Mapped below this gateway's own address, it would be returned for an unknown user.
            None if domain.eq_ignore_ascii_case(&self.domain) => Reach::Nowhere,
            None => match self.to_or_address(mail, Use::Other) {
                Some(address) => Reach::ByDomain(address),
                None => Reach::Nowhere,
            },
        }
    }

    /// Returns true if an internet address is mapped below this gateway's own address (RFC 2156 §4.3.4). Below another
    /// gateway's address, that gateway is responsible.
    #[must_use]
    pub fn is_ours(&self, address: &OrAddress) -> bool {
        address.is_below(&self.address)
    }

    /// Returns true if an internet address belongs to users of X.400 only: it is in this gateway's domain, or in a
    /// mapped one.
    #[must_use]
    pub fn is_of_x400(&self, mail: &str) -> bool {
        split(mail).is_some_and(|(_, domain)| {
            domain.eq_ignore_ascii_case(&self.domain) || self.mappings.of_domain(domain).is_some()
        })
    }

    /// Returns true if an internet address is a written O/R address that contains an internet address. RFC 2156 §4.3.4
    /// would resolve it. But a hub may return it to this gateway, as the addressee or as the exit, and [`to_mail`]
    /// checks only that attribute. Any client could then send to any address through a trusted peer.
    ///
    /// [`to_mail`]: Gateway::to_mail
    #[must_use]
    pub fn would_come_back(&self, mail: &str) -> bool {
        let parsed = split(mail);
        let attributes = parsed.and_then(|(_, domain)| self.of_domain(domain));
        self.written(parsed, attributes.as_ref()).is_some_and(|address| is_encapsulating(&address))
    }

    /// Stage I, of local part and domain.
    fn written(
        &self,
        parsed: Option<(&str, &str)>,
        attributes: Option<&OrAddress>,
    ) -> Option<OrAddress> {
        let (local, domain) = parsed?;
        self.encoded(&unquote(local), domain, attributes)
    }

    /// Stage I: an X.400 address that was written as an internet address.
    fn encoded(
        &self,
        local: &str,
        domain: &str,
        attributes: Option<&OrAddress>,
    ) -> Option<OrAddress> {
        let is_allowed = |c: char| crate::or_name::text::is_printable(c) || "{}*$;|".contains(c);
        if local != local.trim() || local.contains("  ") || !local.chars().all(is_allowed) {
            return None;
        }
        let mut left = if local.starts_with('/') || local.contains(';') {
            OrAddress::parse(local).ok()?
        } else {
            OrAddress { personal_name: PersonalName::from_encoded(local)?, ..OrAddress::default() }
        };
        if left.country.is_none() {
            let right = attributes?;
            merge(&mut left, right);
        }
        // An address of this gateway with only its domain would be a loop.
        let is_complete = left.country.is_some() && left.admd.is_some() && !domain.is_empty();
        (is_complete && is_bounded(&left)).then_some(left)
    }

    /// The attributes of a domain (§4.3.4, step 8).
    fn of_domain(&self, domain: &str) -> Option<OrAddress> {
        let (levels, labels) = self.mappings.of_domain(domain)?;
        let mut levels = levels.clone();
        for label in labels {
            if !is_label(label) || levels.len() >= LEVELS_MAX {
                return None;
            }
            levels.push(Some(label.into()));
        }
        let mut levels = levels.into_iter();
        let mut next = || levels.next().flatten();
        let value = |text: Option<Box<str>>| Value { printable: text, teletex: None };
        let mut address = OrAddress {
            country: next(),
            admd: next(),
            prmd: next(),
            organization: value(next()),
            ..OrAddress::default()
        };
        address.units = levels.flatten().map(Value::printable).collect();
        let admd = address.admd.get_or_insert_with(|| " ".into());
        if admd.trim().is_empty() {
            *admd = " ".into();
        }
        is_bounded(&address).then_some(address)
    }
}

/// Attributes on the left take precedence; the domain adds the upper ones.
fn merge(left: &mut OrAddress, right: &OrAddress) {
    left.country.clone_from(&right.country);
    if left.admd.is_some() {
        return;
    }
    left.admd.clone_from(&right.admd);
    if left.prmd.is_some() {
        return;
    }
    left.prmd.clone_from(&right.prmd);
    if !left.organization.is_empty() {
        return;
    }
    left.organization.clone_from(&right.organization);
    let below = std::mem::take(&mut left.units);
    left.units = right.units.iter().cloned().chain(below).collect();
}

/// Upper bounds (X.411, MTSUpperBounds).
fn is_bounded(address: &OrAddress) -> bool {
    let fits = |text: Option<&str>, max| text.is_none_or(|text| text.chars().count() <= max);
    let value = |value: &Value, max| {
        fits(value.printable.as_deref(), max)
            && value.teletex.as_ref().is_none_or(|octets| octets.len() <= max)
    };
    let [surname, given, initials, generation] = address.personal_name.parts();
    fits(address.country.as_deref(), 3)
        && fits(address.admd.as_deref(), 16)
        && fits(address.prmd.as_deref(), 16)
        && value(&address.organization, 64)
        && value(&address.common_name, 64)
        && value(surname, 40)
        && value(given, 16)
        && value(initials, 5)
        && value(generation, 3)
        && address.units.len() <= UNITS_MAX
        && address.units.iter().all(|unit| value(unit, 32))
        && address.domain_defined.iter().all(|a| value(&a.kind, 8) && value(&a.value, 128))
}

/// Returns true if only attributes of the mnemonic form are used (X.402 §18.5.1).
fn is_mnemonic(address: &OrAddress) -> bool {
    address.network_address.is_none()
        && address.terminal_id.is_none()
        && address.numeric_user_id.is_none()
        && address.extensions.is_empty()
}

/// The address without its first `levels` levels.
fn below(address: &OrAddress, levels: usize) -> OrAddress {
    let mut rest = address.clone();
    for level in 0..levels {
        match level {
            0 => rest.country = None,
            1 => rest.admd = None,
            2 => rest.prmd = None,
            3 => rest.organization = Value::default(),
            _ if !rest.units.is_empty() => drop(rest.units.remove(0)),
            _ => {}
        }
    }
    rest
}

/// Returns true if an RFC-822 attribute exists, whatever its value. Both character sets count, since an MTA in between
/// may convert one into the other.
fn is_encapsulating(address: &OrAddress) -> bool {
    let kinds = address.domain_defined.iter().filter_map(|attribute| attribute.kind.to_text());
    kinds.into_iter().any(|kind| kind.trim().eq_ignore_ascii_case(RFC_822))
}

/// The address in an RFC-822 attribute (mapping A).
fn encapsulated(address: &OrAddress) -> Option<String> {
    let mut text = address.domain_defined(RFC_822)?.to_owned();
    for kind in OVERFLOW {
        text.push_str(address.domain_defined(kind).unwrap_or_default());
    }
    // Users also write it without the encoding, where their programs allow.
    let decoded = printable::decode_or_keep(&text);
    (split(&decoded).is_some() && decoded.bytes().all(|b| (b' '..0x7f).contains(&b)))
        .then_some(decoded)
}

fn encapsulate(mail: &str, address: &mut OrAddress) -> Option<()> {
    let encoded = printable::encode(mail)?;
    let kinds = std::iter::once(RFC_822).chain(OVERFLOW);
    let mut rest = encoded.as_str();
    address.domain_defined.clear();
    for kind in kinds {
        let (value, more) = rest.split_at_checked(VALUE_CHARS_MAX).unwrap_or((rest, ""));
        address
            .domain_defined
            .push(DomainDefined { kind: Value::printable(kind), value: Value::printable(value) });
        rest = more;
        if rest.is_empty() {
            break;
        }
    }
    (rest.is_empty() && address.domain_defined.len() <= DOMAIN_DEFINED_MAX).then_some(())
}

/// Local part and domain.
fn split(mail: &str) -> Option<(&str, &str)> {
    let (local, domain) = mail.rsplit_once('@')?;
    // A source route is not valid in this form (§4.3.4, stage I, step 1).
    (!local.is_empty() && !domain.is_empty() && !local.starts_with('@')).then_some((local, domain))
}

/// The meaning of a local part (RFC 5321 §4.1.2).
fn unquote(local: &str) -> String {
    let Some(inner) = local.strip_prefix('"').and_then(|local| local.strip_suffix('"')) else {
        return local.to_owned();
    };
    let mut out = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        out.extend(if c == '\\' { chars.next() } else { Some(c) });
    }
    out
}

/// Puts a local part before a domain, quoted as a whole where it must be.
fn with_domain(local: &str, domain: &str) -> Option<String> {
    if !local.bytes().all(|octet| (b' '..0x7f).contains(&octet)) || local.is_empty() {
        return None;
    }
    let is_atom = |atom: &str| {
        !atom.is_empty()
            && atom
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
    };
    if local.split('.').all(is_atom) {
        return Some(format!("{local}@{domain}"));
    }
    let mut quoted = String::with_capacity(local.len() + 2);
    for c in local.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Some(format!("\"{quoted}\"@{domain}"))
}

/// The same for message identifiers.
pub(super) fn quoted_local(local: &str, domain: &str) -> Option<String> {
    with_domain(local, domain)
}

/// Takes an address or identifier apart, the local part without its quotes.
pub(super) fn parts(mail: &str) -> Option<(String, &str)> {
    split(mail).map(|(local, domain)| (unquote(local), domain))
}
