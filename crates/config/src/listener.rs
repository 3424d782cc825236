//! A place where mail comes in.
//!
//! What a listener is told of the protocol that is spoken there.
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
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use takes::Takes;

/// `[[listener]]`.
#[derive(Clone, Debug)]
pub struct Listener {
    /// Unique among the listeners.
    pub name: Arc<str>,
    /// The protocol that is spoken there.
    pub kind: Arc<str>,
    /// What that is told.
    pub protocol: Arc<dyn ProtocolSettings>,
    /// What comes there.
    pub takes: Takes,
    pub(super) sections: Owned,
    /// Whether connections are encrypted, and when.
    pub tls: ListenerTls,
    /// Clients are asked for certificates. `None`: they are not.
    pub client_certificates: Option<Arc<ClientCertificates>>,
    /// Where it listens; unique too, except for port 0.
    pub address: SocketAddr,
    /// Whose clients may send to any domain.
    pub relay_from: Vec<IpNet>,
    /// Whose clients say how their messages are to be sent.
    pub steering_from: Vec<IpNet>,
    /// Proxies, which say first whose connection it is.
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
    /// Whose clients none of these concerns.
    pub exempt_from_limits: Vec<IpNet>,
    /// Take recipients that name a way beyond their domain, from everybody.
    pub allow_routed_recipients: bool,
    /// Line of the file, from 1.
    pub line: u32,
}

/// Which certificates of clients count, and for what.
#[derive(Clone, Debug)]
pub struct ClientCertificates {
    /// The file with those that they must be signed by. `None`: any counts that `users` has.
    pub authorities: Option<PathBuf>,
    /// Who has none is not let in.
    pub required: bool,
    /// What a certificate is known by.
    pub identity: CertificateIdentity,
    /// From what certificates are known by to users. `None`: that is the user's name.
    pub users: Option<Arc<TableEntry>>,
    /// Who has one may send to any domain.
    pub relay: bool,
}

/// What a certificate is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateIdentity {
    /// A name in it.
    Name,
    /// Its fingerprint.
    Certificate,
    /// That of its key.
    Key,
}

impl Listener {
    /// Only who has logged in may send there, and then to any domain.
    #[must_use]
    pub fn needs_login(&self) -> bool {
        self.takes == Takes::MailOfUsers
    }

    /// Whether what comes there is internet mail.
    #[must_use]
    pub fn takes_internet_mail(&self) -> bool {
        self.takes != Takes::Foreign
    }

    /// Whether the limits per client don't concern this one.
    #[must_use]
    pub fn is_exempt(&self, client: IpAddr) -> bool {
        has(&self.exempt_from_limits, client) || self.protocol.may_speak_for_others(client)
    }

    /// Whether this client says how its messages are to be sent.
    #[must_use]
    pub fn obeys_steering(&self, client: IpAddr) -> bool {
        has(&self.steering_from, client)
    }

    /// Whether connections from there begin with a PROXY header.
    #[must_use]
    pub fn is_proxy(&self, peer: IpAddr) -> bool {
        has(&self.proxy_protocol_from, peer)
    }

    /// The network of `relay_from` that lets this client send to any domain.
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

/// The keys of one protocol in `[[listener]]`, beside those that every listener has.
pub trait ProtocolSection: 'static {
    /// The value of `kind` that names the protocol.
    const KIND: &'static str;
    /// What comes to a listener that speaks it.
    const TAKES: Takes = Takes::Mail;
    /// The keys as they are written. Their doc comments are the reference page. A key that several
    /// protocols have means the same in all of them.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the keys of one listener. `None` when there is a mistake in them, which `reader` was
    /// told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn ProtocolSettings>>;
}

/// What a protocol is told by one listener. Its owner knows the type.
pub trait ProtocolSettings: Any + Debug + Send + Sync {
    /// Whether a client may say that it speaks for another one, and is believed. The limits per client
    /// don't concern it then, but whom it speaks for.
    fn may_speak_for_others(&self, _client: IpAddr) -> bool {
        false
    }

    /// By which names rules know its clients, where the configuration has all of them.
    fn client_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Says what every message must pass here, beyond what holds for its recipient.
    fn explain(&self, _explainer: &mut Explainer<'_>) {}

    /// The key that lets clients log in by their certificates: they must be asked for them.
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
