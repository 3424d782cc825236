//! The record of a domain that wants reports (RFC 8460 §3).

use crate::dmarc::reporting::mailbox_of;
use mail::Mailbox;

/// Maximum length of a record; a longer one is ignored.
pub const RECORD_BYTES_MAX: usize = 4_096;

/// Maximum number of `rua` destinations that get a report, the first ones: a record must not cause reports to many.
pub const DESTINATIONS_MAX: usize = 5;

/// Octets of a URI.
pub const URI_BYTES_MAX: usize = 1_024;

/// Name of a domain's record.
#[must_use]
pub fn record_name(domain: &str) -> String {
    format!("_smtp._tls.{domain}")
}

/// Destination of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// By mail.
    Mailbox(Mailbox),
    /// To a web server.
    Web(WebAddress),
}

/// A place at a web server, over TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebAddress {
    /// A name in lower case.
    pub host: Box<str>,
    pub port: u16,
    /// From the first slash on, with the query.
    pub path: Box<str>,
}

impl std::fmt::Display for WebAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "https://{}:{}{}", self.host, self.port, self.path)
    }
}

/// A domain's report destinations in its TXT records, each with its strings joined. Empty if no record is valid, or
/// several are.
#[must_use]
pub fn destinations(records: &[impl AsRef<[u8]>]) -> Vec<Destination> {
    let is_record = |record: &&[u8]| fields(record).is_some();
    let mut all = records.iter().map(AsRef::as_ref).filter(is_record);
    let (Some(record), None) = (all.next(), all.next()) else { return Vec::new() };
    report_to(record).unwrap_or_default()
}

/// The text after a valid version.
fn fields(record: &[u8]) -> Option<&[u8]> {
    let at = record.iter().position(|byte| *byte == b';')?;
    let (version, fields) = record.split_at(at);
    (version.trim_ascii_end() == b"v=TLSRPTv1").then_some(fields)
}

fn report_to(record: &[u8]) -> Option<Vec<Destination>> {
    if record.len() > RECORD_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(fields(record)?).ok()?;
    // Unknown fields are extensions; the first `rua` counts.
    let rua = text.split(';').find_map(|field| field.trim().strip_prefix("rua="))?;
    let mut destinations = Vec::new();
    for destination in rua.split(',').filter_map(|uri| destination(uri.trim())) {
        let is_known = destinations.iter().any(|known| is_same(known, &destination));
        if destinations.len() < DESTINATIONS_MAX && !is_known {
            destinations.push(destination);
        }
    }
    Some(destinations)
}

fn is_same(one: &Destination, other: &Destination) -> bool {
    match (one, other) {
        (Destination::Mailbox(one), Destination::Mailbox(other)) => one.is_same(other),
        (one, other) => one == other,
    }
}

fn destination(uri: &str) -> Option<Destination> {
    if uri.len() > URI_BYTES_MAX || !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
        return None;
    }
    let (scheme, rest) = uri.split_once(':')?;
    if scheme.eq_ignore_ascii_case("mailto") {
        return mailbox_of(&decoded(rest)?).map(Destination::Mailbox);
    }
    match scheme.eq_ignore_ascii_case("https") {
        true => web_address(rest.strip_prefix("//")?).map(Destination::Web),
        false => None,
    }
}

/// RFC 3986 §3.2. An address instead of a name has no certificate, and a URL with user information would disclose it.
fn web_address(rest: &str) -> Option<WebAddress> {
    let rest = rest.split('#').next().unwrap_or_default();
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (host, port) = match authority.split_once(':') {
        Some((host, "")) => (host, 443),
        Some((host, port)) => (host, number(port)?),
        None => (authority, 443),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_path =
        path.bytes().all(|byte| !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`'));
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    (is_host(&host) && is_path).then(|| WebAddress { host: host.into(), port, path: path.into() })
}

fn number(port: &str) -> Option<u16> {
    let is_number = port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit());
    port.parse().ok().filter(|port| is_number && *port > 0)
}

/// A name with a last label that is not numeric: those are addresses.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let last = host.rsplit('.').next().unwrap_or_default();
    host.len() <= 253
        && host.contains('.')
        && host.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// RFC 3986 §2.1.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                u8::try_from(digit()? * 16 + digit()?).ok()?
            }
            byte => byte,
        });
    }
    // Characters that could end a header line are not part of an address.
    String::from_utf8(out).ok().filter(|text| !text.contains(char::is_control))
}
