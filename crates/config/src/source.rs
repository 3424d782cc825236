//! From where mail is sent.

use crate::warmup::Warmup;
use mail::Domain;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Unique.
    pub name: Arc<str>,
    /// An address of this machine; `None`: not used for this family.
    pub address: Option<Ipv4Addr>,
    /// An address of this machine; `None`: not used for this family.
    pub address6: Option<Ipv6Addr>,
    /// A proxy that connects for this machine; the addresses are then the proxy's.
    pub proxy: Option<Proxy>,
    /// Its name in EHLO; `None`: this server's.
    pub ehlo: Option<Domain>,
    /// Its warm-up; `None`: fully in use.
    pub warmup: Option<Arc<Warmup>>,
    /// Line of the file, from 1.
    pub line: u32,
}

impl Source {
    /// The source address for `peer`; `None` without one of that family.
    #[must_use]
    pub fn towards(&self, peer: SocketAddr) -> Option<IpAddr> {
        match peer {
            SocketAddr::V4(_) => self.address.map(IpAddr::V4),
            SocketAddr::V6(_) => self.address6.map(IpAddr::V6),
        }
    }

    /// Returns true if its address family can reach `peer`.
    #[must_use]
    pub fn reaches(&self, peer: SocketAddr) -> bool {
        // A proxy without addresses is used for any family.
        let is_open = self.address.is_none() && self.address6.is_none();
        is_open || self.towards(peer).is_some()
    }
}

/// `[[pool]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Unique.
    pub name: Arc<str>,
    /// Its sources with their weights, at least one.
    pub sources: Vec<(Arc<Source>, u32)>,
    /// Line of the file, from 1.
    pub line: u32,
}

/// A proxy that connects for this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Its address.
    pub address: SocketAddr,
    /// Its protocol.
    pub kind: ProxyKind,
}

/// Protocol of a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyKind {
    /// SOCKS5 (RFC 1928), without a login.
    Socks5,
    /// The PROXY protocol, version 2.
    HaProxy,
}

impl Proxy {
    /// Parses a URL like `socks5://192.0.2.1:1080`.
    ///
    /// # Errors
    /// Returns the error as text.
    pub fn parse(text: &str) -> Result<Proxy, &'static str> {
        const FORM: &str = "write socks5://ADDRESS:PORT or haproxy://ADDRESS:PORT";
        let (scheme, place) = text.split_once("://").ok_or(FORM)?;
        let address = place.parse().map_err(|_| FORM)?;
        let kind = match scheme {
            "socks5" => ProxyKind::Socks5,
            "haproxy" => ProxyKind::HaProxy,
            _ => return Err(FORM),
        };
        Ok(Proxy { address, kind })
    }
}

/// As it is written.
impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            ProxyKind::Socks5 => "socks5",
            ProxyKind::HaProxy => "haproxy",
        };
        write!(f, "{scheme}://{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_read_as_they_are_shown() {
        for text in
            ["socks5://192.0.2.1:1080", "socks5://[2001:db8::1]:1080", "haproxy://192.0.2.1:2525"]
        {
            assert_eq!(Proxy::parse(text).unwrap().to_string(), text);
        }
        for bad in [
            "",
            "192.0.2.1:1080",
            "socks4://192.0.2.1:1",
            "socks5://192.0.2.1",
            "socks5://host:1",
            "socks5://me:secret@192.0.2.1:1",
        ] {
            assert!(Proxy::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_source_reaches_whom_it_has_an_address_for() {
        let source = |address: Option<&str>, address6: Option<&str>| Source {
            name: "ip-1".into(),
            address: address.map(|text| text.parse().unwrap()),
            address6: address6.map(|text| text.parse().unwrap()),
            proxy: None,
            ehlo: None,
            warmup: None,
            line: 1,
        };
        let (four, six) = ("192.0.2.1:25".parse().unwrap(), "[2001:db8::1]:25".parse().unwrap());
        let of = |source: Source| (source.reaches(four), source.reaches(six));
        assert_eq!(of(source(Some("192.0.2.9"), None)), (true, false));
        assert_eq!(of(source(None, Some("2001:db8::9"))), (false, true));
        assert_eq!(of(source(Some("192.0.2.9"), Some("2001:db8::9"))), (true, true));
        assert_eq!(of(source(None, None)), (true, true), "a proxy is asked");
        assert_eq!(source(None, None).towards(four), None);
    }
}
