//! `[x400]`: identity of this MTA, and its peers.

use config::{Host, HostPort, IpNet, Secret};
use mail::{Domain, OrAddress};
use std::any::Any;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum length of a transport or presentation selector in octets (X.224 §13.3.4, ISO 8073).
pub(super) const SELECTOR_BYTES_MAX: usize = 32;
/// Maximum length of a session selector in octets (X.225 §8.3.1.10).
pub(super) const SESSION_SELECTOR_BYTES_MAX: usize = 16;
/// Maximum length of an MTA name (X.411 Annex B, ub-mta-name-length).
pub(super) const MTA_NAME_BYTES_MAX: usize = 32;
/// Maximum length of a password (X.411 Annex B, ub-password-length).
pub const PASSWORD_BYTES_MAX: usize = 62;

/// `[x400]`.
#[derive(Debug)]
pub struct X400 {
    /// Name of this MTA in internal trace information.
    pub mta: Box<str>,
    /// Global domain identifier of this MTA: country, ADMD, and PRMD if any.
    pub domain: OrAddress,
    /// Gateway to internet mail; `None` for none.
    pub gateway: Option<X400Gateway>,
    /// Peers, in the order of the file.
    pub peers: Vec<Arc<X400Peer>>,
}

/// A gateway between X.400 and internet mail.
pub struct X400Gateway {
    /// Its O/R address.
    pub address: OrAddress,
    /// Its domain.
    pub domain: Domain,
    /// The file with mappings.
    pub mcgam: Option<PathBuf>,
    /// The file with preferred gateways.
    pub gateways: Option<PathBuf>,
    /// Unauthenticated clients may send to O/R addresses (in a local part) below these.
    pub strangers: Vec<OrAddress>,
    /// Key for return paths.
    secret: OnceLock<[u8; 16]>,
    /// Content of both files.
    tables: OnceLock<GatewayTables>,
    /// Data derived by the gateway's code.
    made: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// Content of a gateway's files (RFC 2156 appendix F).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayTables {
    /// Mappings between domains and O/R addresses.
    pub mappings: String,
    /// Preferred gateways.
    pub gateways: String,
}

impl X400Gateway {
    pub(super) fn new(
        address: OrAddress,
        domain: Domain,
        mcgam: Option<PathBuf>,
        gateways: Option<PathBuf>,
    ) -> X400Gateway {
        let (tables, made, secret) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        X400Gateway {
            address,
            domain,
            mcgam,
            gateways,
            strangers: Vec::new(),
            secret,
            tables,
            made,
        }
    }

    /// Sets the key for return paths, which must be the same after a restart. Later calls have no effect.
    pub fn set_secret(&self, secret: [u8; 16]) {
        let _ = self.secret.set(secret);
    }

    /// The key set by [`X400Gateway::set_secret`].
    #[must_use]
    pub fn secret(&self) -> Option<&[u8; 16]> {
        self.secret.get()
    }

    /// Sets the content of the files. Later calls have no effect.
    pub fn set_tables(&self, tables: GatewayTables) {
        let _ = self.tables.set(tables);
    }

    /// Data derived by `make` from the settings and files, at the first call.
    ///
    /// # Panics
    /// A later call uses another type.
    pub fn made<T: Any + Send + Sync>(
        &self,
        make: impl FnOnce(&X400Gateway, &GatewayTables) -> T,
    ) -> &T {
        let make = || make(self, self.tables.get().unwrap_or(&GatewayTables::default()));
        let made = self.made.get_or_init(|| Box::new(make()));
        match made.downcast_ref() {
            Some(made) => made,
            None => unreachable!("what was made of a gateway is of another type"),
        }
    }
}

/// Compares the content of the files, not the data derived from it.
impl PartialEq for X400Gateway {
    fn eq(&self, other: &X400Gateway) -> bool {
        (&self.address, &self.domain, &self.strangers, self.tables.get())
            == (&other.address, &other.domain, &other.strangers, other.tables.get())
    }
}

impl fmt::Debug for X400Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "X400Gateway({}, {})", self.address, self.domain)
    }
}

impl X400 {
    /// The peer that binds with this name.
    #[must_use]
    pub fn peer_called(&self, name: &[u8]) -> Option<&Arc<X400Peer>> {
        self.peers.iter().find(|peer| peer.their_name.as_bytes() == name)
    }
}

/// `[[x400.peer]]`.
#[derive(Debug, PartialEq)]
pub struct X400Peer {
    /// Unique.
    pub name: Arc<str>,
    /// Its hosts, in the order to try. Empty if it is never called.
    pub hosts: Vec<HostPort>,
    /// RTSE mode.
    pub mode: X400Mode,
    /// Transport selector for calling it; empty for none.
    pub t_selector: Box<[u8]>,
    /// Session selector for calling it.
    pub s_selector: Box<[u8]>,
    /// Presentation selector for calling it.
    pub p_selector: Box<[u8]>,
    /// MTA name that the peer shows; unique.
    pub their_name: Box<str>,
    /// Password that the peer shows.
    pub their_password: PeerPassword,
    /// Networks from which it may bind; empty for all.
    pub from: Vec<IpNet>,
    /// MTA name shown to the peer.
    pub our_name: Box<str>,
    /// Password shown to the peer.
    pub our_password: PeerPassword,
    /// Maximum number of outgoing associations, over all shards.
    pub associations_max: u32,
    /// Proposed checkpoint size in units of 1,024 octets; 0 for none.
    pub checkpoint_kib: u16,
    /// Maximum number of unconfirmed checkpoints.
    pub window: u8,
    /// Proposed maximum size of a transport data unit.
    pub tpdu_bytes: u32,
    /// Timeout for a connection and its bind.
    pub connect_timeout: Duration,
    /// Timeout for a reply in an association.
    pub answer_timeout: Duration,
    /// Time after which an idle association is released.
    pub idle_timeout: Duration,
    /// Line in the configuration file, from 1.
    pub line: u32,
}

impl X400Peer {
    /// Returns true if it may bind from this address.
    #[must_use]
    pub fn may_bind_from(&self, client: IpAddr) -> bool {
        self.from.is_empty() || self.is_from(client)
    }

    /// Returns true if the configuration lists this client address for the peer.
    #[must_use]
    pub fn is_known_at(&self, client: IpAddr) -> bool {
        self.is_from(client) || self.is_host(client)
    }

    /// Returns true if the configuration lists exactly this address for the peer, not a network that other hosts may
    /// share.
    #[must_use]
    pub fn is_named_at(&self, client: IpAddr) -> bool {
        let is_single = |network: &&IpNet| network.prefix_len() == network.max_prefix_len();
        let named = self.from.iter().filter(is_single);
        named.map(IpNet::addr).any(|address| address == client.to_canonical())
            || self.is_host(client)
    }

    fn is_host(&self, client: IpAddr) -> bool {
        let is_there = |host: &HostPort| match host.host {
            Host::Address(address) => address.to_canonical() == client.to_canonical(),
            Host::Name(_) | Host::Socket(_) => false,
        };
        self.may_bind_from(client) && self.hosts.iter().any(is_there)
    }

    fn is_from(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.from.iter().any(|network| network.contains(&client))
    }

    /// Returns true if an association bound as `other` is still valid for this peer: names and passwords have not
    /// changed.
    #[must_use]
    pub fn has_bound_as(&self, other: &X400Peer) -> bool {
        (&self.name, &self.their_name, &self.their_password)
            == (&other.name, &other.their_name, &other.their_password)
            && (&self.our_name, &self.our_password) == (&other.our_name, &other.our_password)
    }
}

/// A peer's password: in the configuration, or in a file.
#[derive(Debug)]
pub struct PeerPassword {
    written: Secret,
    /// The file, unless the configuration has the password.
    pub file: Option<PathBuf>,
    read: OnceLock<Secret>,
}

impl PeerPassword {
    pub(super) fn new(written: Secret, file: Option<PathBuf>) -> PeerPassword {
        PeerPassword { written, file, read: OnceLock::new() }
    }

    /// Sets the password read from the file. Later calls have no effect.
    pub fn set(&self, secret: Secret) {
        let _ = self.read.set(secret);
    }

    /// The password. Empty if there is no password, or its file was not read.
    #[must_use]
    pub fn octets(&self) -> &[u8] {
        &self.read.get().unwrap_or(&self.written).0
    }
}

/// Compares the passwords, not their sources.
impl PartialEq for PeerPassword {
    fn eq(&self, other: &PeerPassword) -> bool {
        self.octets() == other.octets()
    }
}

/// RTSE mode (X.419 §13.2), which can't be negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum X400Mode {
    /// Normal mode, over ACSE: since 1988.
    Normal,
    /// X.410 mode with P1 of 1988: application protocol 12.
    X410,
    /// X.410 mode with P1 of 1984: application protocol 1.
    X4101984,
}

impl X400Mode {
    /// The value as written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            X400Mode::Normal => "normal",
            X400Mode::X410 => "x410",
            X400Mode::X4101984 => "x410-1984",
        }
    }
}
