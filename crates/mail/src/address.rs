//! Mailboxes and domains as values; parsing of wire paths (RFC 5321 §4.1.2, RFC 6531 §3.3).

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

mod or_address;
pub mod or_text;

pub use or_address::{OR_ADDRESS_BYTES_MAX, OR_ATTRIBUTES_MAX, OrAddress, OrAttribute};

/// Maximum length of a local part in octets. Every server must accept 64 (RFC 5321 §4.5.3.1.1), but longer ones from
/// VERP, SRS and BATV are common.
pub const LOCAL_BYTES_MAX: usize = 250;
/// Longest domain in octets (RFC 5321 §4.5.3.1.2).
pub const DOMAIN_BYTES_MAX: usize = 255;
/// Maximum length of a path in octets without its angle brackets (RFC 5321 §4.5.3.1.3: 256 with them).
pub const PATH_BYTES_MAX: usize = 254;
/// Maximum length of a label of a domain name in octets (RFC 1035 §2.3.4).
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest domain name in a DNS query, in text form (RFC 1035 §2.3.4: 255 octets in wire form, of which two are the
/// first length and the root).
pub const DNS_NAME_BYTES_MAX: usize = 253;

/// A domain, an address literal in brackets, the routed part of an O/R address, or empty for the bare `<postmaster>`.
/// It is normalised to lower case (ASCII and, for U-labels, Unicode lower case), and cheap to clone.
///
/// A U-label and its A-label are two different values here. To treat them as equal, compare [`Domain::to_ascii`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

/// `local@domain` as given; only comparison of domains folds case. Or an O/R address, with its routed part as domain:
/// see [`OrAddress`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mailbox {
    text: Box<str>,
    /// Position of the `@`, or of the `/` before the domain of an O/R address; `text.len()` for the bare `postmaster`.
    at: u32,
}

/// An error in an address, with its byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressError {
    /// For people, without the address itself.
    pub reason: &'static str,
    /// Byte offset into the text that was parsed.
    pub offset: usize,
}

impl AddressError {
    fn new(reason: &'static str, offset: usize) -> AddressError {
        AddressError { reason, offset }
    }

    /// The same error, with its position in a text in which the parsed part starts at `base`.
    fn at(self, base: usize) -> AddressError {
        AddressError { offset: self.offset + base, ..self }
    }
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at character {}", self.reason, self.offset + 1)
    }
}

impl std::error::Error for AddressError {}

impl Domain {
    /// Parses and normalises a domain name or an address literal.
    ///
    /// # Errors
    /// If it is neither (RFC 5321 §4.1.2, §4.5.3.1.2).
    pub fn parse(text: &str) -> Result<Domain, AddressError> {
        check_domain(text)?;
        Ok(Domain::normalise(text))
    }

    /// Normalises a text that [`check_domain`] accepted, or the empty text.
    fn normalise(text: &str) -> Domain {
        let settled = text
            .bytes()
            .fold(true, |settled, b| settled & (b < 0x80) & !b.is_ascii_uppercase() & (b != b'['));
        if settled {
            return Domain(Arc::from(text));
        }
        // Each address has only one value, whatever its notation.
        match parse_literal(text) {
            Some(IpAddr::V4(ip)) => Domain(format!("[{ip}]").into()),
            Some(IpAddr::V6(ip)) => Domain(format!("[ipv6:{ip}]").into()),
            None => Domain(lower_case(text).into()),
        }
    }

    /// The normalised text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The DNS name of a text: A-labels (RFC 5890) in lower case. `None` if it is not a domain name.
    #[must_use]
    pub fn dns_name(text: &str) -> Option<String> {
        Some(Domain::parse(text).ok()?.to_ascii().ok()?.to_ascii_lowercase())
    }

    /// Lenient mapping of a text (UTS 46) to A-labels in lower case, including look-alike characters. `None` if it
    /// cannot be a name.
    #[must_use]
    pub fn mapped(text: &str) -> Option<String> {
        idna::domain_to_ascii(text).ok()
    }

    /// The form for DNS queries: A-labels (RFC 5890).
    ///
    /// # Errors
    /// Returns an error for a U-label that is not valid IDNA, for an address literal or an empty domain, and for a name
    /// longer than the DNS allows.
    pub fn to_ascii(&self) -> Result<String, AddressError> {
        if self.0.is_empty() || self.0.starts_with(['[', '/']) {
            return Err(AddressError::new("not a domain name", 0));
        }
        let mut name = String::with_capacity(self.0.len());
        let mut offset = 0;
        for label in self.0.split('.') {
            if offset > 0 {
                name.push('.');
            }
            if label.is_ascii() {
                name.push_str(label);
            } else {
                name.push_str(&a_label(label).ok_or(AddressError::new(U_LABEL, offset))?);
            }
            offset += label.len() + 1;
        }
        if name.len() > DNS_NAME_BYTES_MAX {
            return Err(AddressError::new("domain name is too long for the DNS", 0));
        }
        Ok(name)
    }

    /// The address of an address literal like `[192.0.2.1]`; `None` if it is none or of an unknown kind.
    #[must_use]
    pub fn literal(&self) -> Option<IpAddr> {
        parse_literal(&self.0)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Mailbox {
    /// Parses the text between `<` and `>` of a path, or a bare address. A source route (`@a,@b:user@c`) is dropped
    /// (RFC 5321 §4.1.1.3). `postmaster` alone is valid.
    ///
    /// # Errors
    /// Returns an error if the grammar of RFC 5321 §4.1.2 or a length of §4.5.3.1 is violated, or if a non-ASCII byte
    /// appears without `smtputf8`.
    pub fn parse(text: &str, smtputf8: bool) -> Result<Mailbox, AddressError> {
        if text.len() > PATH_BYTES_MAX {
            return Err(AddressError::new("path is longer than 256 octets", PATH_BYTES_MAX));
        }
        if !smtputf8 && let Some(offset) = text.bytes().position(|b| b >= 0x80) {
            return Err(AddressError::new("non-ASCII address without SMTPUTF8", offset));
        }
        // RFC 5321 §4.1.1.3, §4.5.1: the one address that needs no domain, in any case.
        if text.eq_ignore_ascii_case("postmaster") {
            return Ok(Mailbox { text: text.into(), at: POSTMASTER_AT });
        }
        let start = source_route_end(text)?;
        let address = &text[start..];
        let at = local_end(address.as_bytes()).map_err(|e| e.at(start))?;
        if at > LOCAL_BYTES_MAX {
            return Err(AddressError::new("local part is longer than 250 octets", start));
        }
        if address.as_bytes().get(at) != Some(&b'@') {
            return Err(AddressError::new("expected @ and a domain", start + at));
        }
        check_domain(&address[at + 1..]).map_err(|e| e.at(start + at + 1))?;
        // Lossless: the maximum is 250.
        Ok(Mailbox { text: address.into(), at: at as u32 })
    }

    /// The whole address as received (without brackets or source route).
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The local part as received, quotes included.
    #[must_use]
    pub fn local(&self) -> &str {
        &self.text[..self.at as usize]
    }

    /// The meaning of the local part: quotes and backslashes are removed (RFC 5321 §4.1.2: `"a\b"` and `ab` name the
    /// same mailbox). It may contain any printable character, including `/` and `@`, and may be empty.
    #[must_use]
    pub fn local_unquoted(&self) -> Cow<'_, str> {
        let local = self.local();
        let Some(inner) = local.strip_prefix('"').and_then(|l| l.strip_suffix('"')) else {
            return Cow::Borrowed(local);
        };
        if !inner.contains('\\') {
            return Cow::Borrowed(inner);
        }
        let mut out = String::with_capacity(inner.len());
        let mut chars = inner.chars();
        while let Some(c) = chars.next() {
            out.extend(if c == '\\' { chars.next() } else { Some(c) });
        }
        Cow::Owned(out)
    }

    /// The domain as received (case preserved), empty for bare `postmaster`; for an O/R address its routed attributes.
    #[must_use]
    pub fn domain_str(&self) -> &str {
        let at = self.at as usize;
        let at = if self.is_or_address() { at } else { at + 1 };
        self.text.get(at..).unwrap_or("")
    }

    /// Returns false for the bare `<postmaster>`, the one address without a domain.
    #[must_use]
    pub fn has_domain(&self) -> bool {
        !self.domain_str().is_empty()
    }

    /// The domain, normalised.
    #[must_use]
    pub fn domain(&self) -> Domain {
        match self.is_or_address() {
            true => Domain::of_or_text(self.domain_str()),
            false => Domain::normalise(self.domain_str()),
        }
    }

    /// Returns true if both name the same mailbox: equal local parts, however quoted, and equal domains.
    #[must_use]
    pub fn is_same(&self, other: &Mailbox) -> bool {
        if self.is_or_address() || other.is_or_address() {
            return self.is_same_or_address(other);
        }
        let (mine, theirs) = (self.domain_str(), other.domain_str());
        if mine.is_empty() || theirs.is_empty() {
            // The bare postmaster, in any case.
            return mine == theirs;
        }
        if self.local_unquoted() != other.local_unquoted() {
            return false;
        }
        let settled = |domain: &str| domain.is_ascii() && !domain.starts_with('[');
        if settled(mine) && settled(theirs) {
            mine.eq_ignore_ascii_case(theirs)
        } else {
            self.domain() == other.domain()
        }
    }

    /// Returns true if it contains non-ASCII characters: delivery needs SMTPUTF8.
    #[must_use]
    pub fn needs_smtputf8(&self) -> bool {
        !self.text.is_ascii()
    }
}

impl fmt::Display for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const POSTMASTER_AT: u32 = "postmaster".len() as u32;
const U_LABEL: &str = "domain has a label that is not valid IDNA";

/// Bytes allowed in an atom: atext of RFC 5322 §3.2.3, and any part of a non-ASCII character (RFC 6531 §3.3).
const ATOM: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0;
    while b < 256 {
        table[b] = b >= 0x80 || (b as u8).is_ascii_alphanumeric();
        b += 1;
    }
    let specials = b"!#$%&'*+-/=?^_`{|}~";
    let mut i = 0;
    while i < specials.len() {
        table[specials[i] as usize] = true;
        i += 1;
    }
    table
};

/// Start of the mailbox after a source route; 0 without a route.
fn source_route_end(text: &str) -> Result<usize, AddressError> {
    if !text.starts_with('@') {
        return Ok(0);
    }
    // A-d-l = At-domain *( "," At-domain ); its domains are names, never literals, so the first
    // colon ends it.
    let Some(end) = text.find(':') else {
        if !text.contains(',') {
            return Err(AddressError::new("empty local part", 0));
        }
        return Err(AddressError::new("source route without an address", text.len()));
    };
    let mut offset = 0;
    for hop in text[..end].split(',') {
        let Some(domain) = hop.strip_prefix('@') else {
            return Err(AddressError::new("source route: expected @", offset));
        };
        check_name(domain).map_err(|e| e.at(offset + 1))?;
        offset += hop.len() + 1;
    }
    Ok(end + 1)
}

/// Returns true if a local part needs no quotes.
#[must_use]
pub fn is_dot_string(local: &str) -> bool {
    !local.is_empty() && local.bytes().all(|byte| byte == b'.' || ATOM[usize::from(byte)])
}

/// The length of the Dot-string or Quoted-string at the start of `text`, which is UTF-8. Dots are accepted anywhere.
fn local_end(text: &[u8]) -> Result<usize, AddressError> {
    if text.first() == Some(&b'"') {
        return quoted_end(text);
    }
    for (i, &b) in text.iter().enumerate() {
        match b {
            b'@' if text[..i].iter().all(|b| *b == b'.') => {
                return Err(AddressError::new("empty local part", 0));
            }
            b'@' => return Ok(i),
            // Dots not allowed by the grammar (`taro..y@`, `hanako.@`): carriers gave out these addresses for years,
            // and they are unambiguous.
            b'.' => {}
            _ if !ATOM[usize::from(b)] => {
                return Err(AddressError::new("character not allowed in a local part", i));
            }
            _ if is_c1_control(text, i) => return Err(AddressError::new("control character", i)),
            _ => {}
        }
    }
    let reason = if text.is_empty() { "empty local part" } else { "expected @ and a domain" };
    Err(AddressError::new(reason, text.len()))
}

/// The length of the Quoted-string at the start of `text`, quotes included.
fn quoted_end(text: &[u8]) -> Result<usize, AddressError> {
    let mut i = 1;
    while let Some(&b) = text.get(i) {
        match b {
            b'"' => return Ok(i + 1),
            // quoted-pairSMTP = %d92 %d32-126
            b'\\' => match text.get(i + 1) {
                Some(b' '..=b'~') => i += 1,
                _ => return Err(AddressError::new("invalid escape in quoted local part", i)),
            },
            0..=0x1f | 0x7f => return Err(AddressError::new("control character", i)),
            _ if is_c1_control(text, i) => return Err(AddressError::new("control character", i)),
            _ => {}
        }
        i += 1;
    }
    Err(AddressError::new("quoted string is not closed", text.len()))
}

/// U+0080 to U+009F, in UTF-8 C2 80 to C2 9F.
fn is_c1_control(text: &[u8], i: usize) -> bool {
    text[i] == 0xc2 && matches!(text.get(i + 1), Some(0x80..=0x9f))
}

/// Checks that `text` is a Domain or an address-literal.
fn check_domain(text: &str) -> Result<(), AddressError> {
    if text.len() > DOMAIN_BYTES_MAX {
        return Err(AddressError::new("domain is longer than 255 octets", DOMAIN_BYTES_MAX));
    }
    if text.starts_with('[') { check_literal(text) } else { check_name(text) }
}

/// Domain = sub-domain *("." sub-domain), where a sub-domain is LDH or a U-label. The underscore, not allowed in host
/// names, is accepted: the DNS has names with it, and real mail comes from them.
fn check_name(text: &str) -> Result<(), AddressError> {
    if !text.is_ascii() {
        return check_u_name(text);
    }
    let bytes = text.as_bytes();
    let mut label_start = 0;
    for (i, &b) in bytes.iter().enumerate() {
        if b == b'.' {
            check_label_edges(bytes, label_start, i)?;
            label_start = i + 1;
        } else if !b.is_ascii_alphanumeric() && b != b'-' && b != b'_' {
            return Err(AddressError::new("character not allowed in a domain", i));
        }
    }
    check_label_edges(bytes, label_start, bytes.len())
}

/// RFC 5321 §4.1.2: sub-domain = Let-dig [Ldh-str], which ends with a letter or digit too.
fn check_label_edges(bytes: &[u8], start: usize, end: usize) -> Result<(), AddressError> {
    if start == end {
        let reason = if bytes.is_empty() { "empty domain" } else { "empty label in domain" };
        return Err(AddressError::new(reason, start));
    }
    if end - start > LABEL_BYTES_MAX {
        return Err(AddressError::new("label is longer than 63 octets", start));
    }
    if bytes[start] == b'-' || bytes[end - 1] == b'-' {
        return Err(AddressError::new("label begins or ends with a hyphen", start));
    }
    Ok(())
}

/// A name with at least one U-label. Strict: characters that IDNA would map (wide letters, dots other than `.`,
/// decomposed accents) are refused, only case is folded.
fn check_u_name(text: &str) -> Result<(), AddressError> {
    let mut offset = 0;
    let mut lower_bytes = 0;
    for label in text.split('.') {
        if label.is_ascii() {
            check_name(label).map_err(|e| e.at(offset))?;
        } else {
            let lower = lower_case(label);
            let (unicode, valid) = idna::domain_to_unicode(&lower);
            if valid.is_err() || unicode != lower || a_label(&lower).is_none() {
                return Err(AddressError::new(U_LABEL, offset));
            }
            // Lower case may be longer than the original.
            lower_bytes += lower.len().saturating_sub(label.len());
        }
        offset += label.len() + 1;
    }
    if text.len() + lower_bytes > DOMAIN_BYTES_MAX {
        return Err(AddressError::new("domain is longer than 255 octets", 0));
    }
    Ok(())
}

fn a_label(u_label: &str) -> Option<String> {
    idna::domain_to_ascii_strict(u_label).ok().filter(|a| !a.contains('.'))
}

/// Letter by letter, so that the result does not depend on the position of a letter (final sigma).
fn lower_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// address-literal = "[" ( IPv4 / IPv6 / General ) "]" (RFC 5321 §4.1.3).
fn check_literal(text: &str) -> Result<(), AddressError> {
    let Some(inner) = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')) else {
        return Err(AddressError::new("address literal is not closed", text.len()));
    };
    if parse_literal(text).is_some() {
        return Ok(());
    }
    let Some((tag, content)) = inner.split_once(':') else {
        return Err(AddressError::new("not an IPv4 address", 1));
    };
    if tag.eq_ignore_ascii_case("IPv6") {
        return Err(AddressError::new("not an IPv6 address", 1));
    }
    // By its form its first group is an unregistered tag (RFC 5321 §4.1.3).
    if parse_ipv6(inner).is_some() {
        return Err(AddressError::new("IPv6 address literal must begin with IPv6:", 1));
    }
    // Standardized-tag = Ldh-str, which may begin with a hyphen but not end with one.
    let is_ldh = tag.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    if !is_ldh || tag.is_empty() || tag.ends_with('-') {
        return Err(AddressError::new("unknown tag in address literal", 1));
    }
    // dcontent = %d33-90 / %d94-126
    let bad = content.bytes().position(|b| !matches!(b, 33..=90 | 94..=126));
    match bad {
        Some(i) => {
            Err(AddressError::new("character not allowed in an address literal", tag.len() + 2 + i))
        }
        None if content.is_empty() => Err(AddressError::new("empty address literal", 1)),
        None => Ok(()),
    }
}

fn parse_literal(text: &str) -> Option<IpAddr> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    match inner.split_once(':') {
        None => parse_ipv4(inner).map(IpAddr::V4),
        Some((tag, rest)) if tag.eq_ignore_ascii_case("IPv6") => parse_ipv6(rest).map(IpAddr::V6),
        Some(_) => None,
    }
}

/// Four Snum of one to three digits, always decimal; the standard library refuses leading zeros.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || part.len() > 3 || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse().ok()?;
    }
    parts.next().is_none().then(|| Ipv4Addr::from(octets))
}

/// RFC 5321 §4.1.3: `::` replaces at least two groups.
fn parse_ipv6(text: &str) -> Option<Ipv6Addr> {
    let ip = text.parse().ok()?;
    let groups = text.split(':').filter(|g| !g.is_empty());
    let group_count: usize = groups.map(|g| if g.contains('.') { 2 } else { 1 }).sum();
    (!text.contains("::") || group_count <= 6).then_some(ip)
}

#[cfg(test)]
mod tests;
