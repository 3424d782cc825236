//! O/R addresses (X.402 §18) as text: `/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/` (RFC 2156 §4.1) and `G=Carol;
//! S=Sender; …; C=GB` (X.402 Annex F).
//!
//! To an MTA an address is a set of attributes. Here they are kept in one order, the least significant first, so that
//! the management domain and organization are the end of the text. That end is the [`Domain`](super::Domain) by which
//! mail is queued and routed.

use super::or_text::{self, Pair};
use super::{AddressError, Domain, Mailbox};
use std::fmt;

/// Longest text of an O/R address in octets: the limit of a text kept by the spool, four times the length of real
/// addresses.
pub const OR_ADDRESS_BYTES_MAX: usize = 512;
/// Most attributes in one.
pub const OR_ATTRIBUTES_MAX: usize = 64;

/// Attributes by which an address is routed, the least significant first, with how they may be written
/// (RFC 2156 §4.1, RFC 1685).
const ROUTED: [(&str, &[&str]); 8] = [
    ("OU4", &["OU4"]),
    ("OU3", &["OU3"]),
    ("OU2", &["OU2"]),
    ("OU1", &["OU1"]),
    ("O", &["O"]),
    ("PRMD", &["PRMD", "P"]),
    ("ADMD", &["ADMD", "A"]),
    ("C", &["C"]),
];

/// The other attributes, in the order of writing, after the domain-defined ones (`DD.type`).
const LOCAL: [(&str, &[&str]); 11] = [
    ("G", &["G"]),
    ("I", &["I"]),
    ("S", &["S"]),
    ("GQ", &["GQ", "Q"]),
    ("CN", &["CN"]),
    ("UA-ID", &["UA-ID", "N-ID"]),
    ("X121", &["X121"]),
    ("T-ID", &["T-ID"]),
    ("T-TY", &["T-TY"]),
    ("NET-NUM", &["NET-NUM"]),
    ("NET-SUB", &["NET-SUB"]),
];

/// Position of all other attributes.
const OTHERS: u8 = LOCAL.len() as u8 + 1;
/// Attributes from this position on are used for routing.
const FIRST_ROUTED: u8 = OTHERS + 1;

/// One attribute: its canonical key and value, with quoted characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OrAttribute {
    place: u8,
    key: Box<str>,
    value: Box<str>,
}

impl OrAttribute {
    /// `PRMD`, `OU1`, `DD.RFC-822`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The value as received.
    #[must_use]
    pub fn value(&self) -> String {
        or_text::unquoted(&self.value)
    }

    /// Returns true if addresses are routed by this attribute.
    #[must_use]
    pub fn is_routed(&self) -> bool {
        self.place >= FIRST_ROUTED
    }

    /// The value for comparison (X.402 §18.4, RFC 2156 §4.3.5): ignores case, surrounding blanks and repeated blanks.
    /// An empty ADMD equals a blank one.
    #[must_use]
    pub fn compared(&self) -> String {
        let words: Vec<&str> = self.value.split_whitespace().collect();
        match words.is_empty() {
            true => " ".to_owned(),
            false if &*self.key == "C" => {
                let text = words.join(" ").to_lowercase();
                or_text::letters_of(&text).map_or(text, str::to_lowercase)
            }
            false => words.join(" ").to_lowercase(),
        }
    }
}

/// The attributes of an O/R address, the least significant first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrAddress(Vec<OrAttribute>);

impl OrAddress {
    /// Parses either form; an address with a country and no ADMD gets a blank one.
    ///
    /// # Errors
    /// The error and its position.
    pub fn parse(text: &str) -> Result<OrAddress, AddressError> {
        let mut address = OrAddress::parse_part(text)?;
        if address.value("C").is_some() && address.value("ADMD").is_none() {
            address.insert("ADMD", " ");
        }
        Ok(address)
    }

    /// Parses attributes that need not be a whole address, as in a route.
    ///
    /// # Errors
    /// Returns the error and its position.
    pub fn parse_part(text: &str) -> Result<OrAddress, AddressError> {
        if text.len() > OR_ADDRESS_BYTES_MAX {
            let reason = "O/R address is longer than 512 octets";
            return Err(AddressError::new(reason, OR_ADDRESS_BYTES_MAX));
        }
        let mut address = OrAddress::default();
        let mut units = Vec::new();
        for pair in or_text::split(text, OR_ATTRIBUTES_MAX)? {
            let at = |reason| AddressError::new(reason, pair.offset);
            let key = key_of(&pair).ok_or_else(|| at("no attribute of O/R addresses"))?;
            if pair.value.iter().any(|(c, _)| c.is_control()) {
                return Err(at("control character"));
            }
            let value = or_text::quoted(&pair.value);
            if value.trim().is_empty() && key != "ADMD" {
                return Err(at("attribute without a value"));
            }
            if key == "OU" {
                units.push((value, pair.offset));
                continue;
            }
            if !key.starts_with("DD.") && address.find(&key).is_some() {
                return Err(at("attribute given twice"));
            }
            // X.402 §18.3.1: one space means no name.
            let value = if value.trim().is_empty() { " " } else { &value };
            address.insert(&key, value);
        }
        address.take_units(units)?;
        match address.0.is_empty() {
            true => Err(AddressError::new("no attribute", 0)),
            false => Ok(address),
        }
    }

    /// Takes organisational units without numbers: the last one is the most significant (RFC 2156 §4.3.3), and the
    /// maximum is four.
    fn take_units(&mut self, units: Vec<(String, usize)>) -> Result<(), AddressError> {
        for ((unit, offset), key) in units.into_iter().rev().zip(["OU1", "OU2", "OU3", "OU4", ""]) {
            if key.is_empty() {
                return Err(AddressError::new("more than four organizational units", offset));
            }
            if self.find(key).is_some() {
                let reason = "organizational units with and without numbers";
                return Err(AddressError::new(reason, offset));
            }
            self.insert(key, &unit);
        }
        Ok(())
    }

    /// Inserts an attribute under any of its names.
    fn insert(&mut self, key: &str, value: &str) {
        let (place, key) = canonical(key);
        let at = self.0.partition_point(|attribute| attribute.place <= place);
        self.0.insert(at, OrAttribute { place, key: key.into(), value: value.into() });
    }

    /// All attributes, the least significant first.
    #[must_use]
    pub fn attributes(&self) -> &[OrAttribute] {
        &self.0
    }

    /// The value of the first attribute with this key, as received.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<String> {
        self.find(key).map(OrAttribute::value)
    }

    fn find(&self, key: &str) -> Option<&OrAttribute> {
        self.0.iter().find(|attribute| &*attribute.key == key)
    }
}

/// The form of RFC 2156 §4.1, with `$` before characters that would end a value.
impl fmt::Display for OrAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for OrAttribute { key, value, .. } in &self.0 {
            write!(f, "/{key}={value}")?;
        }
        f.write_str("/")
    }
}

/// Position of an attribute, and its canonical key.
fn canonical(key: &str) -> (u8, String) {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(key));
    for (place, (name, names)) in (FIRST_ROUTED..).zip(ROUTED) {
        if is(names) {
            return (place, name.to_owned());
        }
    }
    for (place, (name, names)) in (1..).zip(LOCAL) {
        if is(names) {
            return (place, name.to_owned());
        }
    }
    match key.starts_with("DD.") {
        true => (0, key.to_owned()),
        false => (OTHERS, key.to_ascii_uppercase()),
    }
}

/// The canonical key of an attribute, or `OU`; `None` for an unknown one. Postal and network attributes are accepted by
/// prefix.
fn key_of(pair: &Pair) -> Option<String> {
    let key = &*pair.key;
    let has_front =
        |front: &str| key.get(..front.len()).is_some_and(|start| start.eq_ignore_ascii_case(front));
    if has_front("DD.") || has_front("DDA:") {
        let is_type = !pair.kind.is_empty() && !pair.kind.iter().any(|(c, _)| c.is_control());
        return is_type.then(|| format!("DD.{}", or_text::quoted(&pair.kind)));
    }
    // RFC 2156 §4.3.2.
    if key.eq_ignore_ascii_case("RFC-822") {
        return Some("DD.RFC-822".to_owned());
    }
    if key.eq_ignore_ascii_case("OU") {
        return Some("OU".to_owned());
    }
    let (place, name) = canonical(key);
    let is_other = ["PD-", "NET-", "T-", "X4-"].iter().any(|front| {
        has_front(front)
            && key.len() > front.len()
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    (place != OTHERS || is_other).then_some(name)
}

/// Returns true if a text is an O/R address in the form of [`OrAddress`]. No mailbox with a domain ends like this.
pub(super) fn is_or_address(text: &str) -> bool {
    text.len() > 2 && text.starts_with('/') && text.ends_with('/')
}

/// Start of the routed attributes in a text written by [`OrAddress`].
pub(super) fn routed_at(text: &str) -> usize {
    let mut is_quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_quoted => is_quoted = false,
            b'$' => is_quoted = true,
            b'/' => {
                let key = text[at + 1..].split('=').next().unwrap_or_default();
                if ROUTED.iter().any(|(name, _)| *name == key) {
                    return at;
                }
            }
            _ => {}
        }
    }
    text.len().saturating_sub(1)
}

impl Domain {
    /// The routing attributes of an O/R address in the form for comparison; `None` for the domain of a mailbox.
    #[must_use]
    pub fn or_attributes(&self) -> Option<OrAddress> {
        if !self.is_or_domain() {
            return None;
        }
        Some(OrAddress::parse_part(self.as_str()).unwrap_or_default())
    }

    /// Returns true if it is the routed part of an O/R address, and not a DNS domain.
    #[must_use]
    pub fn is_or_domain(&self) -> bool {
        self.as_str().starts_with('/')
    }

    /// Of attributes in the order in which they are written.
    pub(super) fn of_or_text(text: &str) -> Domain {
        let address = OrAddress::parse_part(text).unwrap_or_default();
        Domain(address.compared(OrAttribute::is_routed).into())
    }
}

impl OrAddress {
    /// The keys of a table lookup, in order, in their form for comparison. They are the address, its routed part, and
    /// the routed part without its least significant attributes, one by one, down to the country. `whole`: only the
    /// address.
    #[must_use]
    pub fn lookup_keys(&self, whole: bool) -> Vec<String> {
        let mut keys = vec![self.compared(|_| true)];
        if whole {
            return keys;
        }
        let mut rest: Vec<&OrAttribute> = self.0.iter().filter(|a| a.is_routed()).collect();
        while !rest.is_empty() {
            let key = compared(rest.iter().copied());
            if !keys.contains(&key) {
                keys.push(key);
            }
            rest.remove(0);
        }
        keys
    }

    /// Some of the attributes as they are compared, in their order.
    fn compared(&self, which: impl Fn(&OrAttribute) -> bool) -> String {
        compared(self.0.iter().filter(|attribute| which(attribute)))
    }
}

/// Attributes as they are compared, in this order.
fn compared<'a>(attributes: impl Iterator<Item = &'a OrAttribute>) -> String {
    let mut text = String::new();
    for attribute in attributes {
        text.extend(["/", &attribute.key, "=", &attribute.compared()]);
    }
    text.push('/');
    text
}

impl Mailbox {
    /// The recipient or sender named by an O/R address.
    ///
    /// # Errors
    /// If its text would be too long.
    pub fn of_or_address(address: &OrAddress) -> Result<Mailbox, AddressError> {
        let text = address.to_string();
        if text.len() > OR_ADDRESS_BYTES_MAX {
            let reason = "O/R address is longer than 512 octets";
            return Err(AddressError::new(reason, OR_ADDRESS_BYTES_MAX));
        }
        let at = routed_at(&text) as u32;
        Ok(Mailbox { text: text.into(), at })
    }

    /// Parses an address from an operator or the spool: a mailbox, or an O/R address in either form.
    ///
    /// # Errors
    /// Returns an error if it is neither.
    pub fn parse_any(text: &str) -> Result<Mailbox, AddressError> {
        let is_or = is_or_address(text) || !text.contains('@') && text.contains('=');
        match is_or {
            true => Mailbox::of_or_address(&OrAddress::parse(text)?),
            false => Mailbox::parse(text, true),
        }
    }

    /// Returns true if it is an O/R address.
    #[must_use]
    pub fn is_or_address(&self) -> bool {
        is_or_address(&self.text)
    }

    /// Its attributes; `None` for `local@domain`.
    #[must_use]
    pub fn or_address(&self) -> Option<OrAddress> {
        if !self.is_or_address() {
            return None;
        }
        OrAddress::parse_part(&self.text).ok()
    }

    /// The domain part of an address text from [`Mailbox::as_str`]; empty for the bare `postmaster`.
    #[must_use]
    pub fn domain_part(text: &str) -> &str {
        if is_or_address(text) {
            return &text[routed_at(text)..];
        }
        // No domain or address literal contains an `@`.
        text.rsplit_once('@').map_or("", |(_, domain)| domain)
    }

    /// The domain of a [`Mailbox::domain_part`].
    #[must_use]
    pub fn domain_of_part(part: &str) -> Option<Domain> {
        match part {
            "" => Mailbox::parse("postmaster", false).ok().map(|mailbox| mailbox.domain()),
            _ if part.starts_with('/') => Some(Domain::of_or_text(part)),
            _ => Mailbox::parse(&format!("x@{part}"), true).ok().map(|mailbox| mailbox.domain()),
        }
    }

    /// Returns true if both have the same attributes.
    pub(super) fn is_same_or_address(&self, other: &Mailbox) -> bool {
        match (self.or_address(), other.or_address()) {
            (Some(mine), Some(theirs)) => mine.compared(|_| true) == theirs.compared(|_| true),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(written: &str) -> String {
        OrAddress::parse(written).unwrap().to_string()
    }

    #[test]
    fn both_forms_are_read_and_written_in_one_order() {
        let written = "/G=Carol/S=Sender/O=Gamma/PRMD=TestC/ADMD= /C=GB/";
        assert_eq!(text(written), written);
        assert_eq!(text("C=GB; A= ; P=TestC; O=Gamma; S=Sender; G=Carol"), written);
        assert_eq!(
            text("/C=GB/P=TestC/o=Gamma/s=Sender/g=Carol"),
            written,
            "a blank ADMD is added"
        );
        let organizations = "/OU2=b/OU1=a/O=x/ADMD=t/C=FR/";
        assert_eq!(text("/OU=b/OU=a/O=x/ADMD=t/C=FR/"), organizations, "the last is the greatest");
        assert_eq!(
            text("/RFC-822=tom(u)h(a)x.example/C=GB/"),
            "/DD.RFC-822=tom(u)h(a)x.example/ADMD= /C=GB/"
        );
        assert_eq!(text("C=FR;A=t;O=x;OU1=a;OU2=b"), organizations);
        assert_eq!(
            text("DDA:RFC-822=tom(u)h(a)cs.widget.example; C=GB; A=GOLD 400"),
            "/DD.RFC-822=tom(u)h(a)cs.widget.example/ADMD=GOLD 400/C=GB/"
        );
    }

    #[test]
    fn delimiters_within_values_are_quoted() {
        let written = "/CN=a$/b$=c$$/O=x/ADMD= /C=GB/";
        assert_eq!(OrAddress::parse(written).unwrap().value("CN").as_deref(), Some("a/b=c$"));
        assert_eq!(text(written), written);
        assert_eq!(text("/CN=a//b/O=x/C=GB/"), "/CN=a$/b/O=x/ADMD= /C=GB/");
        assert_eq!(text("CN=a;;b; O=x; C=GB"), "/CN=a$;b/O=x/ADMD= /C=GB/");
        // Teletex, and characters that only look like it (RFC 2156 §3.3.4), stay apart.
        let written = "/DD.k$*$={233}=$*v/CN=caf*caf{233}/O=$*x$$*/ADMD= /C=GB/";
        assert_eq!(text(written), written);
        let mailbox = Mailbox::parse_any("/CN=a$/O=b/O=x/C=GB/").unwrap();
        assert_eq!(mailbox.domain_str(), "/O=x/ADMD= /C=GB/");
    }

    #[test]
    fn mistakes_are_named_with_their_places() {
        for (written, offset) in [
            ("", 0),
            ("/", 0),
            ("/O=x/Beta/C=GB/", 5),
            ("/O=x/Z=1/C=GB/", 5),
            ("/O=x/O=y/C=GB/", 5),
            ("/O= /C=GB/", 1),
            ("/O=a\u{7}/C=GB/", 1),
            (&format!("/O={}/C=GB/", "x".repeat(OR_ADDRESS_BYTES_MAX)), OR_ADDRESS_BYTES_MAX),
        ] {
            assert_eq!(OrAddress::parse(written).unwrap_err().offset, offset, "{written}");
        }
        let most = "/DD.t=v".repeat(OR_ATTRIBUTES_MAX);
        assert_eq!(OrAddress::parse(&most).map(|address| address.attributes().len()), Ok(64));
        assert_eq!(
            OrAddress::parse(&format!("{most}/DD.t=v")).unwrap_err().reason,
            "too many attributes"
        );
        for (written, reason) in [
            ("/OU=e/OU=d/OU=c/OU=b/OU=a/O=x/", "more than four organizational units"),
            ("/OU1=b/OU=a/O=x/", "organizational units with and without numbers"),
            ("/DD.=v/", "no attribute of O/R addresses"),
            ("/RFC-822=a/O/", "an attribute without a value"),
        ] {
            assert_eq!(OrAddress::parse(written).unwrap_err().reason, reason, "{written}");
        }
    }

    #[test]
    fn what_it_is_routed_by_is_the_domain() {
        let mailbox = Mailbox::parse_any("/G=Bob/S=R/O=Beta/PRMD=TestB/ADMD= /C=GB/").unwrap();
        assert!(mailbox.is_or_address());
        assert_eq!(
            (mailbox.local(), mailbox.domain_str()),
            ("/G=Bob/S=R", "/O=Beta/PRMD=TestB/ADMD= /C=GB/")
        );
        let domain = mailbox.domain();
        assert_eq!(domain.as_str(), "/O=beta/PRMD=testb/ADMD= /C=gb/");
        assert!(domain.is_or_domain() && domain.to_ascii().is_err());
        assert_eq!(Mailbox::domain_of_part(mailbox.domain_str()), Some(domain.clone()));
        let again = Mailbox::parse_any(mailbox.as_str()).unwrap();
        assert_eq!((again.as_str(), again.domain()), (mailbox.as_str(), domain));
        assert_eq!(Mailbox::domain_part(mailbox.as_str()), mailbox.domain_str());
        let without = Mailbox::parse_any("/S=x/").unwrap();
        assert_eq!((without.domain_str(), without.local()), ("/", "/S=x"));
    }

    #[test]
    fn mailboxes_stay_what_they_are() {
        for (text, part) in
            [("jo@x.test", "x.test"), ("/G=a/@gw.test", "gw.test"), ("postmaster", "")]
        {
            let mailbox = Mailbox::parse_any(text).unwrap();
            assert!(!mailbox.is_or_address(), "{text}");
            assert_eq!(Mailbox::domain_part(text), part);
            assert_eq!(Mailbox::domain_of_part(part), Some(mailbox.domain()));
        }
        assert!(Mailbox::parse("/G=a/O=b/C=GB/", true).is_err(), "no client of SMTP says such");
    }

    #[test]
    fn no_text_is_too_much_and_what_is_read_is_written_and_read_again() {
        use proptest::prelude::*;
        let pieces = "/|;|=|$|//|;;|C|GB|ADMD| |O|OU1|OU4|OU|RFC-822|{|S|DD.|DDA:|PD-X|NET-NUM|X4-1|\u{e9}|\u{0}|@|a b|*";
        let pieces: Vec<&str> = pieces.split('|').collect();
        let texts = proptest::collection::vec(proptest::sample::select(pieces), 0..24);
        proptest!(|(text in texts)| {
            let text = text.concat();
            let _ = (Mailbox::parse_any(&text), Mailbox::domain_of_part(Mailbox::domain_part(&text)));
            if let Ok(address) = OrAddress::parse(&text) {
                let mailbox = Mailbox::of_or_address(&address).unwrap();
                prop_assert_eq!(OrAddress::parse_part(mailbox.as_str()).unwrap(), address);
                prop_assert_eq!(Mailbox::parse_any(mailbox.as_str()).unwrap(), mailbox.clone());
                prop_assert_eq!(Mailbox::domain_part(mailbox.as_str()), mailbox.domain_str());
                prop_assert!(mailbox.is_same(&mailbox));
            }
        });
    }

    #[test]
    fn tables_are_asked_from_the_most_exact_key_on() {
        let written = "/RFC-822=x/S=Bob/OU=Low/OU=Top/O=Beta/P=TestB/C=GB/";
        let keys = OrAddress::parse(written).unwrap().lookup_keys(false);
        let expected = [
            "/DD.RFC-822=x/S=bob/OU2=low/OU1=top/O=beta/PRMD=testb/ADMD= /C=gb/",
            "/OU2=low/OU1=top/O=beta/PRMD=testb/ADMD= /C=gb/",
            "/OU1=top/O=beta/PRMD=testb/ADMD= /C=gb/",
            "/O=beta/PRMD=testb/ADMD= /C=gb/",
            "/PRMD=testb/ADMD= /C=gb/",
            "/ADMD= /C=gb/",
            "/C=gb/",
        ];
        assert_eq!(keys, expected);
        assert_eq!(OrAddress::parse(written).unwrap().lookup_keys(true), [expected[0]]);
        let beta = OrAddress::parse("/O=Beta/C=GB/").unwrap().lookup_keys(false);
        assert_eq!(beta, ["/O=beta/ADMD= /C=gb/", "/ADMD= /C=gb/", "/C=gb/"]);
    }

    #[test]
    fn addresses_are_compared_by_their_attributes() {
        let same = |one: &str, other: &str| {
            Mailbox::parse_any(one).unwrap().is_same(&Mailbox::parse_any(other).unwrap())
        };
        assert!(same("/S=Smith  Jones/O=Beta/C=gb/", "C=GB; A=; O=BETA; S=smith jones"));
        assert!(!same("/S=Smith/O=Beta/C=GB/", "/S=Smith/O=Beta/C=FR/"));
        assert!(!same("/S=Smith/O=Beta/C=GB/", "smith@beta.test"));
        assert!(same("/S=Smith/O=Beta/C=GB/", "/S=Smith/O=Beta/C=826/"));
        assert!(same("/S=Smith/O=Beta/C=234/", "/S=Smith/O=Beta/C=826/"));
    }
}
