//! The next hop that verifies recipients, and the opening of a session with one of its hosts.

use super::conversation::{Conversation, Opening};
use crate::peer_tls::PeerTls;
use crate::tables::server::{TableServer, TableStream};
use crate::tables::text::words;
use channels::settings::{Relay, RouteTls};
use config::{Config, Destination, Host, HostPort, Settings, TableEntry};
use lookup::{LookupError, LookupErrorKind};
use mail::Domain;
use mta::seams::Trust;
use rustls::pki_types::ServerName;
use smtp::client::{ClientConfig, StartTls};
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsConnector;

/// The next hop that a table queries, and our host name.
#[derive(Clone, Debug)]
pub(in super::super) struct AskedHop {
    hostname: Domain,
    /// The channel settings of its route.
    channel: Arc<dyn Settings>,
    tls: Arc<PeerTls>,
}

impl AskedHop {
    /// The next hop of a table; `None` for other kinds.
    pub(in super::super) fn of(config: &Config, table: &TableEntry) -> Option<AskedHop> {
        let name = table.settings.asked_route()?;
        let route = config.routes.iter().find(|route| *route.name == *name)?;
        Some(AskedHop {
            hostname: config.hostname.clone(),
            channel: Arc::clone(&route.channel),
            tls: Arc::default(),
        })
    }

    /// Returns true if both have equal settings.
    pub(in super::super) fn is_like(&self, other: &AskedHop) -> bool {
        self.hostname == other.hostname && self.channel.is_like(&*other.channel)
    }

    /// A host by its number.
    pub(super) fn server(&self, number: usize) -> Option<String> {
        self.hosts().get(number).map(ToString::to_string)
    }

    /// In the order of the configuration.
    fn hosts(&self) -> Vec<&HostPort> {
        match self.channel.destination() {
            Destination::Hosts(groups) => groups.into_iter().flatten().collect(),
            // The configuration rejects these routes.
            Destination::Here(_)
            | Destination::ByEntry
            | Destination::Mx { .. }
            | Destination::MxOf { .. } => Vec::new(),
        }
    }

    /// A session with the first host that greets us, and the host's number. Host `first` is tried first. `wait` applies
    /// to each host.
    ///
    /// # Errors
    /// Returns the last host's error if none greets us.
    pub(super) async fn open(
        &self,
        wait: Duration,
        first: usize,
    ) -> Result<(usize, Conversation), LookupError> {
        let hosts = self.hosts();
        let mut why = "the route has no hosts".to_owned();
        for index in (first..hosts.len()).chain(0..first) {
            let Some(host) = hosts.get(index) else { continue };
            let opened = tokio::time::timeout(wait, self.open_host(host)).await;
            let silent = |_| Err(format!("{host}: no greeting within {wait:?}"));
            match opened.unwrap_or_else(silent) {
                Ok(conversation) => return Ok((index, conversation)),
                Err(text) => why = text,
            }
        }
        Err(LookupError::new(LookupErrorKind::Unreachable, why))
    }

    async fn open_host(&self, host: &HostPort) -> Result<Conversation, String> {
        let relay: &Relay = self.channel.of().ok_or("the route is not an SMTP route")?;
        let server = TableServer::at(host.clone());
        let mut config = relay.client_config(&self.hostname, &server.to_string());
        let (first, then) = match (relay.peer.tls, &host.host) {
            // Unix sockets do not leave this machine.
            (RouteTls::Off, _) | (_, Host::Socket(_)) => (StartTls::Off, None),
            // If the handshake fails it goes in clear, as mail does (RFC 7435).
            (RouteTls::Opportunistic, _) => (StartTls::Opportunistic, Some(StartTls::Off)),
            (RouteTls::Required | RouteTls::Verified, _) => (StartTls::Required, None),
            // The configuration rejects these routes.
            (RouteTls::Dane | RouteTls::MtaSts, _) => {
                return Err("the route takes its TLS policy from the DNS".to_owned());
            }
        };
        config.starttls = first;
        let trust = match relay.peer.tls {
            RouteTls::Verified => Trust::Roots,
            _ => Trust::Anyone,
        };
        match (self.open_once(&server, config.clone(), host, &trust).await, then) {
            (Err(NoGreeting::NotEncrypted(_)), Some(then)) => {
                config.starttls = then;
                let again = self.open_once(&server, config, host, &trust).await;
                again.map_err(|why| why.to_string())
            }
            (opened, _) => opened.map_err(|why| why.to_string()),
        }
    }

    async fn open_once(
        &self,
        server: &TableServer,
        config: ClientConfig,
        host: &HostPort,
        trust: &Trust,
    ) -> Result<Conversation, NoGreeting> {
        let failed = |why: String| NoGreeting::Failed(words(why.as_bytes()));
        let wire = server.open().await.map_err(|error| failed(format!("{server}: {error}")))?;
        let mut conversation = Conversation::new(wire, config);
        loop {
            conversation = match conversation.open().await.map_err(|why| failed(why.to_string()))? {
                Opening::Ready(conversation) => return Ok(conversation),
                Opening::StartTls(begun) => {
                    let begun = begun.encrypt(|wire| self.encrypt(wire, host, trust)).await;
                    let text = |error| format!("{server}: TLS handshake failed: {error}");
                    begun
                        .map_err(|error| NoGreeting::NotEncrypted(words(text(error).as_bytes())))?
                }
            }
        }
    }

    async fn encrypt(
        &self,
        wire: Box<dyn TableStream>,
        host: &HostPort,
        trust: &Trust,
    ) -> io::Result<Box<dyn TableStream>> {
        let name = match &host.host {
            Host::Address(address) => ServerName::from(*address),
            Host::Name(name) => {
                ServerName::try_from(name.as_str().to_owned()).map_err(io::Error::other)?
            }
            Host::Socket(_) => return Err(io::Error::other("a socket has no TLS")),
        };
        let connector = TlsConnector::from(self.tls.client(trust)?);
        Ok(Box::new(connector.connect(name, wire).await?))
    }
}

/// The reason for the missing greeting of a host.
enum NoGreeting {
    Failed(String),
    /// The handshake failed: in clear it may work.
    NotEncrypted(String),
}

impl fmt::Display for NoGreeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (NoGreeting::Failed(why) | NoGreeting::NotEncrypted(why)) = self;
        f.write_str(why)
    }
}
