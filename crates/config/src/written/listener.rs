//! `[[listener]]` as it is written, as far as every protocol has it.

use super::TableRefText;
use crate::quantity::SizeText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A listener for incoming mail: address and port, permitted clients, and limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct ListenerText {
    /// Name of this listener in logs, metrics and events. Default: its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Protocol of the listener: `"smtp"` for mail from other servers and from networks that may relay, `"submission"`
    /// for users with logins (RFC 6409), `"local"` for programs of this machine, which use `sendmail`.
    pub kind: String,
    /// IP address and port to listen on. `0.0.0.0` accepts IPv4 clients only and `[::]` IPv6 clients only; for both,
    /// configure two listeners. Required, except with `kind = "local"`, which has a `socket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// Networks of clients that may send to any domain (Postfix's `mynetworks`). All other clients may send only to
    /// domains named by a route, and to any domain if the route without `domains` delivers on this server.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub relay_from: Vec<String>,
    /// Networks of clients that may set delivery options in header fields (`[steering]`). Default: none.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub steering_from: Vec<String>,
    /// Networks of proxies with the PROXY protocol, for example HAProxy with `send-proxy` or `send-proxy-v2`. Each
    /// connection from there must start with a PROXY header, before TLS as well. The client in the header then counts
    /// in all decisions, logs and events. Headers from other networks are not read. See `docs/proxies.md`.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub proxy_protocol_from: Vec<String>,
    /// TLS on this listener. Default: `"starttls"` if a `[[certificate]]` exists, otherwise `"off"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Request of client certificates in the TLS handshake. Default: none are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificatesText>,
    /// Maximum size of a message; a larger one gets 552 5.3.4 (RFC 1870).
    pub max_message_bytes: SizeText,
    /// Maximum number of recipients in one transaction; further ones get 452 4.5.3. RFC 5321 §4.5.3.1.8 requires at
    /// least 100. A message has at most 65,535 after alias expansion, regardless of this key.
    #[schemars(range(min = 100))]
    pub max_recipients: u32,
    /// Maximum number of Received fields in a message; one with more counts as looping and gets 554 5.4.6. RFC 5321
    /// §6.3 requires at least 100.
    #[schemars(range(min = 1))]
    pub max_hops: u32,
    /// Maximum number of sessions on this listener. At the limit, a new session replaces the longest idle one of the
    /// networks with most sessions (421 4.3.2). One in ten is reserved for clients that may relay, if the listener has
    /// any.
    #[schemars(range(min = 1))]
    pub max_sessions: u32,
    /// Maximum number of sessions of one client on this listener; further ones get 421 4.7.0. A client is an IPv4
    /// address or an IPv6 /64. The limit is twenty times as high for clients that may relay.
    #[schemars(range(min = 1))]
    pub max_sessions_per_address: u32,
    /// Maximum number of connections of one client per minute; further ones get 421 4.7.0. This and the other three
    /// limits per minute do not apply to clients that may relay. 0 for no limit.
    pub connections_per_minute: u32,
    /// Maximum number of messages from one client per minute; further MAIL commands get 450 4.7.1. 0 for no limit.
    pub messages_per_minute: u32,
    /// Maximum number of accepted recipients from one client per minute, including members of lists; further ones get
    /// 450 4.7.1. 0 for no limit.
    pub recipients_per_minute: u32,
    /// Maximum number of rejections of any kind for one client per minute. Further connections get 421 4.7.0, MAIL and
    /// RCPT 450 4.7.1. 0 for no limit.
    pub refusals_per_minute: u32,
    /// Networks exempt from the limits per client, on sessions and per minute.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub exempt_from_limits: Vec<String>,
    /// Accept recipients like `user%elsewhere@here`, `elsewhere!user@here` and `"user@elsewhere"@here` in domains that a
    /// route names, and relay them. A next hop that follows this source routing makes both servers an open relay. Local
    /// mailboxes are always accepted, and other domains from clients that may relay.
    pub allow_routed_recipients: bool,
    /// The keys of the protocol.
    #[serde(flatten)]
    #[schemars(skip)]
    pub protocol: toml::Table,
}

impl Default for ListenerText {
    fn default() -> ListenerText {
        ListenerText {
            name: None,
            kind: "smtp".into(),
            address: None,
            relay_from: Vec::new(),
            steering_from: Vec::new(),
            proxy_protocol_from: Vec::new(),
            tls: None,
            client_certificates: None,
            max_message_bytes: 52_428_800.into(),
            max_recipients: 1_000,
            max_hops: 100,
            max_sessions: 5_000,
            max_sessions_per_address: 50,
            connections_per_minute: 300,
            messages_per_minute: 1_000,
            recipients_per_minute: 10_000,
            refusals_per_minute: 300,
            exempt_from_limits: Vec::new(),
            allow_routed_recipients: false,
            protocol: toml::Table::new(),
        }
    }
}

/// Client certificates. A certificate is valid if it is signed by `authorities` and found in `users`; at least one of
/// these keys is required. An invalid certificate counts as none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientCertificatesText {
    /// PEM file with the certificate authorities for client certificates, which must be within their validity period
    /// and permitted for TLS clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// End the handshake with clients that have no certificate, or one that `authorities` did not sign. Not for public
    /// mail servers.
    pub required: bool,
    /// Identity of a certificate.
    pub identity: CertificateIdentityText,
    /// Table of users by this identity. Default: the identity is the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<TableRefText>,
    /// Let clients with a valid certificate send to any domain, like those of `relay_from`.
    pub relay: bool,
}

/// Identity of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateIdentityText {
    /// The first mail address in its subjectAltName, otherwise the first host name, in lower case.
    #[default]
    Name,
    /// SHA-256 of the certificate, in lower-case hexadecimal digits without colons.
    Certificate,
    /// SHA-256 of the public key (SubjectPublicKeyInfo), which may stay the same after a renewal.
    Key,
}

/// TLS on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenerTls {
    /// No TLS.
    #[default]
    Off,
    /// Offered to clients, but not required (RFC 3207).
    StartTls,
    /// From the first octet on (RFC 8314 §3), as on port 465.
    Implicit,
}
