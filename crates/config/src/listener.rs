//! A listener, and the settings of its protocol.
//!
//! A protocol implements [`ProtocolSection`] for its keys in `[[listener]]` and is registered with
//! [`Schema::protocol`](crate::Schema::protocol).

pub(crate) mod takes;

use super::explainer::Explainer;
use super::reader::Reader;
use super::table::TableEntry;
use super::written::ListenerTls;
use crate::section::owned::Owned;
use ipnet::IpNet;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::fmt::{self, Debug};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use takes::Takes;

/// `[[listener]]`.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Unique among the listeners.
    pub name: Arc<str>,
    /// The listener's protocol.
    pub kind: Arc<str>,
    /// Settings of the protocol.
    pub protocol: Arc<dyn ProtocolSettings>,
    /// Kind of input.
    pub takes: Takes,
    pub(super) sections: Owned,
    /// Encryption of connections.
    pub tls: ListenerTls,
    /// Requests for client certificates; `None`: not requested.
    pub client_certificates: Option<Arc<ClientCertificates>>,
    /// Listening address; unique too, except for port 0. [`LOCAL_CLIENT`] with a `socket`.
    pub address: SocketAddr,
    /// Unix socket instead of an address.
    pub socket: Option<Arc<Path>>,
    /// Networks with clients that may send to any domain.
    pub relay_from: Vec<IpNet>,
    /// Networks with clients that may steer the delivery of their messages.
    pub steering_from: Vec<IpNet>,
    /// Networks of proxies, which announce the client of each connection.
    pub proxy_protocol_from: Vec<IpNet>,
    /// SIZE.
    pub max_message_bytes: u64,
    /// Recipients per transaction.
    pub max_recipients: u32,
    /// Received fields.
    pub max_hops: u32,
    /// Sessions at once.
    pub max_sessions: u32,
    /// Sessions at once from one client.
    pub max_sessions_per_address: u32,
    /// Connections of one client; 0 here and below: no limit.
    pub connections_per_minute: u32,
    /// Messages of one client.
    pub messages_per_minute: u32,
    /// Accepted recipients of one client.
    pub recipients_per_minute: u32,
    /// Refusals to one client.
    pub refusals_per_minute: u32,
    /// Networks with clients exempt from these limits.
    pub exempt_from_limits: Vec<IpNet>,
    /// Accept recipients with a route beyond their domain from all clients.
    pub allow_routed_recipients: bool,
    /// Line of the file, from 1.
    pub line: u32,
}

/// Accepted certificates of clients, and their use.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    /// The file with those that they must be signed by. `None`: any counts that `users` has.
    pub authorities: Option<PathBuf>,
    /// Clients without one are refused.
    pub required: bool,
    /// The property by which a certificate is recognised.
    pub identity: CertificateIdentity,
    /// Maps recognised certificates to users. `None`: the recognised name is the user name.
    pub users: Option<Arc<TableEntry>>,
    /// Clients with one may send to any domain.
    pub relay: bool,
}

/// The property by which a certificate is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateIdentity {
    /// A name in it.
    Name,
    /// Its fingerprint.
    Certificate,
    /// That of its key.
    Key,
}

/// Address of clients of a Unix socket. They have none; port 0 is no client's and no listener's.
pub const LOCAL_CLIENT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The address of a listener, or the path of its socket, for display.
#[derive(Clone, Copy, Debug)]
pub struct ListeningPlace<'a>(&'a Listener);

impl fmt::Display for ListeningPlace<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.socket {
            Some(path) => write!(f, "{}", path.display()),
            None => write!(f, "{}", self.0.address),
        }
    }
}

impl Listener {
    /// The address or the socket, for display.
    #[must_use]
    pub fn place(&self) -> ListeningPlace<'_> {
        ListeningPlace(self)
    }

    /// Returns true if only authenticated clients may send, to any domain.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        matches!(self.takes, Takes::MailOfUsers | Takes::LocalMail)
    }

    /// Returns true if this client, given that it may send at all, may send to any domain. `None`: its address is not known.
    #[must_use]
    pub fn lets_relay(&self, client: Option<IpAddr>) -> bool {
        self.needs_login()
            || !self.takes_internet_mail()
            || client.is_some_and(|client| self.relay_network(client).is_some())
    }

    /// Returns true if some of its clients may send to any domain.
    #[must_use]
    pub fn may_give_relay(&self) -> bool {
        self.needs_login()
            || !self.takes_internet_mail()
            || !self.relay_from.is_empty()
            || self.client_certificates.as_ref().is_some_and(|certificates| certificates.relay)
    }

    /// Returns true for internet mail.
    #[must_use]
    pub fn takes_internet_mail(&self) -> bool {
        self.takes != Takes::Foreign
    }

    /// Returns true if this client is exempt from the limits per client.
    #[must_use]
    pub fn is_exempt(&self, client: IpAddr) -> bool {
        has(&self.exempt_from_limits, client) || self.protocol.may_speak_for_others(client)
    }

    /// Returns true if this client may steer the delivery of its messages.
    #[must_use]
    pub fn obeys_steering(&self, client: IpAddr) -> bool {
        has(&self.steering_from, client)
    }

    /// Returns true if connections from this peer begin with a PROXY header.
    #[must_use]
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        has(&self.proxy_protocol_from, peer)
    }

    /// The network of `relay_from` that allows this client to send to any domain.
    #[must_use]
    pub fn relay_network(&self, client: IpAddr) -> Option<(usize, IpNet)> {
        // An IPv4 client of a dual-stack socket shows as ::ffff:192.0.2.1.
        let client = client.to_canonical();
        self.relay_from.iter().copied().enumerate().find(|(_, net)| net.contains(&client))
    }
}

fn has(networks: &[IpNet], address: IpAddr) -> bool {
    // As above.
    let address = address.to_canonical();
    networks.iter().any(|network| network.contains(&address))
}

/// The keys of one protocol in `[[listener]]`, besides the common ones.
pub trait ProtocolSection: 'static {
    /// The value of `kind` that names the protocol.
    const KIND: &'static str;
    /// Kind of input of listeners with this protocol.
    const TAKES: Takes = Takes::Mail;
    /// The keys in the file's syntax. Their doc comments are the reference page. A key shared by several protocols has
    /// the same meaning in all.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the keys of one listener. `None` after an error, which was reported to `reader`.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>>;
}

/// Settings of a protocol from one listener. Its owner knows the type.
pub trait ProtocolSettings: Any + Debug + Send + Sync {
    /// Returns true if a client may name the client that it acts for. The limits per client then apply to the named
    /// client.
    fn may_speak_for_others(&self, _client: IpAddr) -> bool {
        false
    }

    /// Names of its clients for use in rules, if the configuration has all.
    fn client_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Explains checks of all messages here, beyond those about the recipient.
    fn explain(&self, _explainer: &mut Explainer<'_>) {}

    /// Path of the Unix socket, for protocols with [`Takes::LocalMail`].
    fn socket(&self) -> Option<&Path> {
        None
    }

    /// Directory where `sendmail` leaves messages while the server is down.
    fn drop_directory(&self) -> Option<&Path> {
        None
    }

    /// The key that allows logins by client certificate: these must then be requested.
    fn login_by_certificate(&self) -> Option<&'static str> {
        None
    }
}

impl dyn ProtocolSettings {
    /// The settings as their protocol knows them; `None`: they are another's.
    #[must_use]
    pub fn of<T: ProtocolSettings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}
