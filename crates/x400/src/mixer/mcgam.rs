//! Tables that map domains to parts of O/R addresses and back (RFC 2156 §4.2, appendix F): MCGAMs, and preferred
//! gateways.

use crate::or_name::{OrAddress, Value};
use std::collections::BTreeMap;
use std::fmt;

/// Entries of a table at most; the global tables of 1998 had some 10,000.
pub const ENTRIES_MAX: usize = 200_000;
/// Levels of a key: country, ADMD, PRMD, organization and four units.
pub const LEVELS_MAX: usize = 8;

const KEYS: [&str; 5] = ["C", "ADMD", "PRMD", "O", "OU"];

/// The upper part of an address: each level has a value or is left out.
pub type Levels = Vec<Option<Box<str>>>;

/// The tables for both directions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mappings {
    domains: BTreeMap<Box<str>, Levels>,
    addresses: BTreeMap<Levels, Box<str>>,
    domain_gateways: BTreeMap<Box<str>, OrAddress>,
    address_gateways: BTreeMap<Levels, Box<str>>,
}

/// An error in a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableError {
    /// For people.
    pub reason: &'static str,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for TableError {}

/// Kind of the lines of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Equivalent names.
    Mapping,
    /// Gateways that are preferred.
    Gateway,
}

impl Mappings {
    /// Adds the lines of a text: `domain#address#` or `address#domain#`, in any mixture; other lines that begin with
    /// `#` are comments.
    ///
    /// # Errors
    /// Returns an error for an invalid line or too many lines.
    pub fn read(&mut self, text: &str, kind: TableKind) -> Result<(), TableError> {
        for (index, line) in text.lines().enumerate() {
            let at = |reason| TableError { reason, line: index + 1 };
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, rest) = line.split_once('#').ok_or(at("# missing after the key"))?;
            let (value, _) = rest.split_once('#').ok_or(at("# missing after the value"))?;
            if self.len() >= ENTRIES_MAX {
                return Err(at("too many entries"));
            }
            if key.contains('$') {
                let domain = domain(value).ok_or(at("not a domain"))?;
                let levels = levels(key).map_err(at)?;
                let levels =
                    levels.into_iter().map(|level| level.map(|text| fold(&text))).collect();
                match kind {
                    TableKind::Mapping => self.addresses.insert(levels, domain),
                    TableKind::Gateway => self.address_gateways.insert(levels, domain),
                };
            } else {
                let domain = domain(key).ok_or(at("not a domain"))?.to_lowercase().into();
                match kind {
                    TableKind::Mapping => {
                        self.domains.insert(domain, levels(value).map_err(at)?);
                    }
                    TableKind::Gateway => {
                        self.domain_gateways.insert(domain, address(value).map_err(at)?);
                    }
                }
            }
        }
        Ok(())
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.domains.len()
            + self.addresses.len()
            + self.domain_gateways.len()
            + self.address_gateways.len()
    }

    /// Returns true if empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The longest mapped suffix of this domain, and its mapping; with the labels before it, the nearest one first.
    #[must_use]
    pub fn of_domain<'d>(&self, domain: &'d str) -> Option<(&Levels, Vec<&'d str>)> {
        longest(&self.domains, domain)
    }

    /// The gateway for a domain.
    #[must_use]
    pub fn gateway_of_domain(&self, domain: &str) -> Option<&OrAddress> {
        longest(&self.domain_gateways, domain).map(|(address, _)| address)
    }

    /// The longest upper part of an address that maps to a domain: how many levels it has, and the domain.
    #[must_use]
    pub fn of_address(&self, address: &OrAddress) -> Option<(usize, &str)> {
        longest_prefix(&self.addresses, address)
    }

    /// The domain of the gateway for an address.
    #[must_use]
    pub fn gateway_of_address(&self, address: &OrAddress) -> Option<&str> {
        longest_prefix(&self.address_gateways, address).map(|(_, domain)| domain)
    }
}

fn longest<'t, 'd, T>(
    table: &'t BTreeMap<Box<str>, T>,
    domain: &'d str,
) -> Option<(&'t T, Vec<&'d str>)> {
    let lower = domain.to_ascii_lowercase();
    let mut start = 0;
    loop {
        if let Some(found) = table.get(lower.get(start..)?) {
            let front = domain.get(..start).unwrap_or_default().trim_end_matches('.');
            let labels = front.rsplit('.').filter(|label| !label.is_empty()).collect();
            return Some((found, labels));
        }
        start += lower.get(start..)?.find('.')? + 1;
    }
}

fn longest_prefix<'t>(
    table: &'t BTreeMap<Levels, Box<str>>,
    address: &OrAddress,
) -> Option<(usize, &'t str)> {
    let mut key: Levels =
        levels_of(address).into_iter().map(|level| level.map(|text| fold(&text))).collect();
    while !key.is_empty() {
        if let Some(domain) = table.get(&key) {
            return Some((key.len(), domain));
        }
        key.pop();
    }
    None
}

/// The upper part of an address. Values with only a teletex form are omitted. A level may be empty between other
/// levels, and one more at the end, which a table can name.
#[must_use]
pub fn levels_of(address: &OrAddress) -> Levels {
    let text = |value: &Value| value.printable.clone();
    let admd =
        address.admd.as_ref().map(|admd| if admd.is_empty() { " ".into() } else { admd.clone() });
    let mut levels =
        vec![address.country.clone(), admd, address.prmd.clone(), text(&address.organization)];
    levels.extend(address.units.iter().map(text));
    levels.truncate(LEVELS_MAX);
    levels
}

fn fold(text: &str) -> Box<str> {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase().into()
}

/// A domain of labels that RFC 2156 §4.2 allows.
fn domain(text: &str) -> Option<Box<str>> {
    let text = text.trim();
    text.split('.').all(is_label).then(|| text.into())
}

/// `alphanum [ *alphanumhyphen alphanum ]` (RFC 2156 §4.2, domain-syntax).
#[must_use]
pub fn is_label(text: &str) -> bool {
    let is_inner = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-';
    !text.is_empty()
        && text.len() <= 63
        && text.bytes().all(is_inner)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

/// `PRMD$UK\.AC.ADMD$GOLD 400.C$GB`: no level may be missing from the country on.
fn levels(text: &str) -> Result<Levels, &'static str> {
    let parts = parts(text)?;
    if parts.len() > LEVELS_MAX {
        return Err("more than four organizational units");
    }
    let mut levels = Levels::new();
    for (index, (key, value)) in parts.into_iter().rev().enumerate() {
        let wanted = KEYS.get(index).or(KEYS.last()).copied().unwrap_or_default();
        if !key.eq_ignore_ascii_case(wanted) {
            return Err("levels must be C, ADMD, PRMD, O and OU from the right, without gaps");
        }
        levels.push((value != "@").then(|| value.into()));
    }
    if levels.first().is_none_or(Option::is_none) {
        return Err("an address needs a country");
    }
    Ok(levels)
}

/// The same with any attribute: the address of a gateway.
fn address(text: &str) -> Result<OrAddress, &'static str> {
    let mut std_or = String::new();
    for (key, value) in parts(text)?.into_iter().filter(|(_, value)| value != "@") {
        let quoted: String = value
            .chars()
            .flat_map(|c| if matches!(c, '/' | '=' | '$') { vec!['$', c] } else { vec![c] })
            .collect();
        let key = key.strip_prefix('~').map_or(key.clone(), |kind| format!("DD.{kind}"));
        std_or.push_str(&format!("/{key}={quoted}"));
    }
    OrAddress::parse(&std_or).map_err(|error| error.reason)
}

fn parts(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, parts.last_mut()) {
            ('\\', Some(part)) => part.extend(chars.next()),
            ('.', _) => parts.push(String::new()),
            (c, Some(part)) => part.push(c),
            (_, None) => {}
        }
    }
    parts
        .into_iter()
        .map(|part| {
            let (key, value) = part.split_once('$').ok_or("an attribute without $")?;
            Ok((key.trim().to_owned(), value.to_owned()))
        })
        .collect()
}
