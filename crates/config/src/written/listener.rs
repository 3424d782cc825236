//! `[[listener]]` as it is written, as far as every protocol has it.

use super::TableRefText;
use crate::quantity::SizeText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place where mail comes in: an address and port, who may use it, and its limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct ListenerText {
    /// The name of this listener in logs, metrics and events. Without it: its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The protocol that is spoken here: `"smtp"` takes mail of other servers and of networks that
    /// may send anywhere, `"submission"` that of users who log in (RFC 6409).
    pub kind: String,
    /// IP address and port to listen on. `0.0.0.0` takes IPv4 clients only and `[::]` IPv6 clients
    /// only: a server for both has a listener for each. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// Networks whose clients may send to any domain. Everybody else may send only to domains
    /// that a route names (and to any domain when everything else stays on this server).
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub relay_from: Vec<String>,
    /// Networks of clients whose steering fields are obeyed (`[steering]`): they say how their messages are
    /// to be sent. Nobody's by default.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub steering_from: Vec<String>,
    /// Networks of proxies (HAProxy with `send-proxy` or `send-proxy-v2`, and others that speak the
    /// PROXY protocol). Each connection from there must begin with a header, before TLS too, that says
    /// who the client is, and everything that this server decides or says of a client is of that one.
    /// From anywhere else no header is read. See `docs/proxies.md`.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub proxy_protocol_from: Vec<String>,
    /// TLS on this listener. Without this key: `"starttls"` if there is a `[[certificate]]`, else
    /// `"off"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
    /// Certificates that clients are asked for in the TLS handshake. Without it: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificates: Option<ClientCertificatesText>,
    /// Longest message, 552 5.3.4 beyond it (RFC 1870).
    pub max_message_bytes: SizeText,
    /// Recipients in one transaction, 452 4.5.3 beyond it. RFC 5321 §4.5.3.1.8 asks for at least
    /// 100. Whatever it says, a message has 65,535 at most, with all that aliases stand for.
    #[schemars(range(min = 100))]
    pub max_recipients: u32,
    /// Received fields a message may carry already: more means that it is looping, 554 5.4.6. RFC
    /// 5321 §6.3 asks for at least 100.
    #[schemars(range(min = 1))]
    pub max_hops: u32,
    /// Sessions at once on this listener. Beyond it the oldest idle one of the networks that hold most
    /// ends (421 4.3.2) for one that comes. One in ten is kept for clients that may relay, if there are such.
    #[schemars(range(min = 1))]
    pub max_sessions: u32,
    /// Sessions at once on this listener from one client, 421 4.7.0 beyond it. A client is an IPv4
    /// address or an IPv6 /64; one that may relay may have twenty times as many.
    #[schemars(range(min = 1))]
    pub max_sessions_per_address: u32,
    /// Connections within a minute from one client, 421 4.7.0 beyond it. This and the three below
    /// do not concern clients that may relay. 0: no limit.
    pub connections_per_minute: u32,
    /// Messages within a minute from one client, 450 4.7.1 to MAIL beyond it. 0: no limit.
    pub messages_per_minute: u32,
    /// Accepted recipients within a minute from one client, members of lists counted, 450 4.7.1 beyond
    /// it. 0: no limit.
    pub recipients_per_minute: u32,
    /// What was refused to one client within a minute, whatever it was; beyond it 421 4.7.0 to
    /// connections, 450 4.7.1 to MAIL and RCPT. 0: no limit.
    pub refusals_per_minute: u32,
    /// Networks whose clients the limits per client do not concern, neither of sessions nor per
    /// minute.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub exempt_from_limits: Vec<String>,
    /// Take recipients such as `user%elsewhere@here`, `elsewhere!user@here` and
    /// `"user@elsewhere"@here` from clients that may not relay, and send them on: a next hop that
    /// follows such a way makes an open relay of both. Mailboxes on this server are always taken.
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

/// Certificates that clients are asked for. One counts if it is signed by `authorities` and known to
/// `users`, as far as these are there; at least one must be. Who shows one that does not count is as who
/// shows none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClientCertificatesText {
    /// PEM file with the certificates of authorities that a client's must be signed by; valid now and
    /// for TLS clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Clients without a certificate, or with one that `authorities` did not sign, are turned away in the
    /// handshake. Not for servers that anybody sends to.
    pub required: bool,
    /// What a certificate is known by.
    pub identity: CertificateIdentityText,
    /// The table from that to users. Without it the user is called by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<TableRefText>,
    /// Clients whose certificate counts may send to any domain, as those of `relay_from` may.
    pub relay: bool,
}

/// What a certificate is known by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateIdentityText {
    /// The first mail address in its subjectAltName, or else the first host name, in lower case.
    #[default]
    Name,
    /// Its SHA-256, in hexadecimal digits of lower case without colons.
    Certificate,
    /// That of its public key (SubjectPublicKeyInfo), which may stay when the certificate is renewed.
    Key,
}

/// TLS on a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ListenerTls {
    /// None.
    #[default]
    Off,
    /// Offered to clients, which may go on in clear (RFC 3207).
    StartTls,
    /// From the first octet on (RFC 8314 §3), as on port 465.
    Implicit,
}
