//! From where mail is sent.

use mail::Domain;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// `[[source]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Unique.
    pub name: Arc<str>,
    /// One of this machine; `None`: it does not send to such.
    pub address: Option<Ipv4Addr>,
    /// One of this machine; `None`: it does not send to such.
    pub address6: Option<Ipv6Addr>,
    /// What it is called in EHLO; `None`: as this server is.
    pub ehlo: Option<Domain>,
    /// Line of the file, from 1.
    pub line: u32,
}

impl Source {
    /// The address from which it reaches `peer`; `None`: it has none of that family.
    #[must_use]
    pub fn towards(&self, peer: SocketAddr) -> Option<IpAddr> {
        match peer {
            SocketAddr::V4(_) => self.address.map(IpAddr::V4),
            SocketAddr::V6(_) => self.address6.map(IpAddr::V6),
        }
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
