//! The names that are looked up in a list.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A name in the DNS has no more octets as it is written (RFC 1035 §2.3.4).
pub const NAME_BYTES_MAX: usize = 253;

/// The longest name of a list: an IPv6 address of 64 octets goes before it.
pub const ZONE_BYTES_MAX: usize = NAME_BYTES_MAX - 64;

/// The queried identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DnsblSubject {
    Address(IpAddr),
    /// In lower case.
    Domain(Box<str>),
}

/// Test entries that every list must have, or must not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestPoint {
    /// RFC 5782 §5: no list of addresses contains 127.0.0.1.
    Address,
    /// Likewise, no list of domains has INVALID.
    Domain,
}

impl DnsblSubject {
    /// A domain, if it is one that a list could have: no literal, no single label.
    #[must_use]
    pub fn domain(name: &str) -> Option<DnsblSubject> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let is_label = |label: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            (1..=63).contains(&label.len()) && label.bytes().all(is_plain)
        };
        // An address is looked up as one.
        let is_address = name.parse::<Ipv4Addr>().is_ok();
        let is_domain = name.contains('.') && name.split('.').all(is_label);
        (is_domain && !is_address).then(|| DnsblSubject::Domain(name.into()))
    }

    /// The name to query; `None` if it is too long for any list.
    #[must_use]
    pub fn name_in(&self, zone: &str) -> Option<String> {
        let name = match self {
            DnsblSubject::Address(address) => reversed(*address) + zone,
            DnsblSubject::Domain(domain) => format!("{domain}.{zone}"),
        };
        (name.len() <= NAME_BYTES_MAX).then_some(name)
    }
}

impl TestPoint {
    /// The name that no living list has.
    #[must_use]
    pub fn name_in(self, zone: &str) -> String {
        match self {
            TestPoint::Address => reversed(Ipv4Addr::LOCALHOST.into()) + zone,
            TestPoint::Domain => format!("invalid.{zone}"),
        }
    }
}

/// `1.2.0.192.` for 192.0.2.1; nibbles for IPv6 (RFC 5782 §2.1, §2.4).
fn reversed(address: IpAddr) -> String {
    let mut name = String::with_capacity(64);
    match address.to_canonical() {
        IpAddr::V4(address) => {
            for octet in address.octets().into_iter().rev() {
                let _ = write!(name, "{octet}.");
            }
        }
        IpAddr::V6(address) => nibbles(address, &mut name),
    }
    name
}

fn nibbles(address: Ipv6Addr, name: &mut String) {
    for octet in address.octets().into_iter().rev() {
        let _ = write!(name, "{:x}.{:x}.", octet & 15, octet >> 4);
    }
}
