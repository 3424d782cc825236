//! `[[route]]` as it is written.

use super::ReportsOverrideText;
use crate::config::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where mail for some domains goes. Exactly one of `smtp`, `lmtp`, `mx`, `maildir`, `discard`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RouteText {
    /// A name for logs, metrics and events. Without it: `route-` and its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Recipient domains: `example.org` for that domain, `*.example.org` for everything below it.
    /// Without this key the route takes everything that no route before it took, and must be the
    /// last. Mail for a domain named here is accepted from everybody, for every local part: a next
    /// hop that then refuses recipients makes this server return mail to forged senders
    /// (backscatter). Name only domains whose next hop takes whatever it is sent, or stand behind
    /// a server that knows the recipients.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    pub domains: Option<Vec<String>>,
    /// Relay to given hosts over SMTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smtp: Option<SmtpText>,
    /// Deliver to given hosts over LMTP (RFC 2033).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lmtp: Option<LmtpText>,
    /// Relay over SMTP to the hosts that DNS names for the recipient's domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mx: Option<MxText>,
    /// Keep in a Maildir on this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maildir: Option<MaildirText>,
    /// Accept and throw away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<DiscardText>,
    /// Keys of `[retry]` that differ for this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<RetryOverrideText>,
    /// Keys of `[reports]` that differ for recipients of this route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reports: Option<ReportsOverrideText>,
}

/// Keys of `[retry]` that differ for one route.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryOverrideText {
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: Option<f64>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0, max = 0.5))]
    pub jitter: Option<f64>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub give_up_after: Option<DurationText>,
    /// See `[retry]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warn_after: Option<DurationText>,
}

/// Which of several hosts is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Connections are spread evenly over the hosts that answer.
    #[default]
    RoundRobin,
    /// The first host that answers, in the order given; the others only while it does not.
    Failover,
}

/// What happens to 8-bit content when the peer does not offer 8BITMIME (RFC 6152).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EightBit {
    /// It is encoded on the way out (quoted-printable or base64) where its MIME structure allows
    /// it, and returned with 5.6.3 where not: when it is signed, for one. Lines over 998 octets,
    /// which many peers refuse, are encoded, too, towards every peer, and left as they are where
    /// that can't be done. Signatures of the body (DKIM) don't outlive it.
    #[default]
    Encode,
    /// The message is returned with 5.6.3.
    Fail,
    /// It is sent all the same; nearly every peer takes it.
    AsIs,
}

/// The keys that all network channels share, after `hosts`.
#[derive(Clone, Debug)]
pub struct PeerText {
    /// See [`SmtpText`]; port where a host is named without one.
    pub port: u16,
    /// TLS policy.
    pub tls: String,
    /// Connections at once.
    pub max_connections: u32,
    /// Connections being opened at once.
    pub max_opens: u32,
    /// Messages on one connection.
    pub messages_per_connection: u32,
    /// Content before a recipient is accepted.
    pub unasked_content: bool,
    /// Transactions in flight on one connection.
    pub transactions_in_flight: u32,
    /// Messages a second.
    pub messages_per_second: f64,
    /// Recipients in one transaction.
    pub recipients_per_message: u32,
    /// Whether concurrency adapts.
    pub adaptive: bool,
    /// Which of several hosts.
    pub balance: Balance,
    /// Private addresses are not followed.
    pub refuse_private: bool,
    /// 8-bit content without 8BITMIME.
    pub eight_bit: EightBit,
    /// Use CHUNKING.
    pub chunking: bool,
    /// Use PIPELINING.
    pub pipelining: bool,
    /// TCP connect.
    pub connect_timeout: DurationText,
    /// Greeting.
    pub greeting_timeout: DurationText,
    /// Reply to a command.
    pub command_timeout: DurationText,
    /// 354.
    pub data_timeout: DurationText,
    /// Progress of content.
    pub content_timeout: DurationText,
    /// Reply to the final dot.
    pub final_timeout: DurationText,
    /// A transaction as a whole.
    pub transaction_timeout: DurationText,
    /// Idle connection.
    pub idle_timeout: DurationText,
}

/// The keys of those channels only whose hosts the configuration names.
#[derive(Clone, Copy, Debug)]
pub struct NamedHostsText {
    /// Which of several hosts.
    pub balance: Balance,
    /// Content before a recipient is accepted.
    pub unasked_content: bool,
    /// Transactions in flight on one connection.
    pub transactions_in_flight: u32,
}

/// serde's `flatten` would lose the places of errors, so the shared keys are spelled out in each
/// section by this macro, which is the one place where they are described.
macro_rules! peer_section {
    (
        $(#[$meta:meta])*
        $name:ident { $($(#[$own_meta:meta])* $own:ident: $own_type:ty = $own_default:expr,)* }
        port $port:literal, max_connections $connections:literal, adaptive $adaptive:literal
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[$own_meta])* pub $own: $own_type,)*
            /// Port of hosts that are named without one.
            #[schemars(range(min = 1))]
            pub port: u16,
            /// TLS towards the peer. Only `"off"` until TLS is built.
            pub tls: String,
            /// Connections at once to a set of hosts by this route, over all shards: domains with the
            /// same hosts share them, in whatever order they name these.
            #[schemars(range(min = 1))]
            pub max_connections: u32,
            /// Connections that may be in the middle of being opened at once. 0: no limit.
            pub max_opens: u32,
            /// Messages sent over one connection before it is closed. 0: no limit.
            pub messages_per_connection: u32,
            /// Messages a second to a set of hosts by this route, over all shards. 0: no limit.
            #[schemars(range(min = 0.0))]
            pub messages_per_second: f64,
            /// Recipients of one message that share a transaction. RFC 5321 §4.5.3.1.8: every
            /// server takes 100. Fewer where the peer says so, by LIMITS (RFC 9422) or by 452 to
            /// one too many.
            #[schemars(range(min = 1))]
            pub recipients_per_message: u32,
            /// Find out how many connections the peer likes: more while all goes well, fewer
            /// after 421 and timeouts, never more than `max_connections`.
            pub adaptive: bool,
            /// What happens to 8-bit content when the peer does not offer 8BITMIME, and to lines over
            /// 998 octets.
            pub eight_bit: EightBit,
            /// Send with BDAT when the peer offers CHUNKING (RFC 3030).
            pub chunking: bool,
            /// Send commands in one go when the peer offers PIPELINING (RFC 2920).
            pub pipelining: bool,
            /// Wait for a connection to be made.
            pub connect_timeout: DurationText,
            /// Wait for the greeting (RFC 5321 §4.5.3.2.1).
            pub greeting_timeout: DurationText,
            /// Wait for the reply to a command (RFC 5321 §4.5.3.2.2, §4.5.3.2.3).
            pub command_timeout: DurationText,
            /// Wait for 354 after DATA (RFC 5321 §4.5.3.2.4).
            pub data_timeout: DurationText,
            /// Wait for the peer to take the next piece of content (RFC 5321 §4.5.3.2.5).
            pub content_timeout: DurationText,
            /// Wait for the reply that takes responsibility (RFC 5321 §4.5.3.2.6).
            pub final_timeout: DurationText,
            /// A transaction as a whole, from MAIL to the last reply, however steadily the peer goes
            /// on; 2 s more for each 1,000 octets of content, but no more than 6 hours more. A
            /// message that becomes too old before all of it is sent is not waited for any longer.
            pub transaction_timeout: DurationText,
            /// An idle connection is closed after this.
            pub idle_timeout: DurationText,
        }

        impl Default for $name {
            fn default() -> $name {
                $name {
                    $($own: $own_default,)*
                    port: $port,
                    tls: "off".into(),
                    max_connections: $connections,
                    max_opens: 20,
                    messages_per_connection: 1_000,
                    messages_per_second: 0.0,
                    recipients_per_message: 100,
                    adaptive: $adaptive,
                    eight_bit: EightBit::Encode,
                    chunking: true,
                    pipelining: true,
                    connect_timeout: "30s".into(),
                    greeting_timeout: "5m".into(),
                    command_timeout: "5m".into(),
                    data_timeout: "2m".into(),
                    content_timeout: "3m".into(),
                    final_timeout: "10m".into(),
                    transaction_timeout: "20m".into(),
                    idle_timeout: "10s".into(),
                }
            }
        }

        impl $name {
            /// The shared keys.
            #[must_use]
            pub fn peer(&self, named: NamedHostsText) -> PeerText {
                PeerText {
                    port: self.port,
                    tls: self.tls.clone(),
                    max_connections: self.max_connections,
                    max_opens: self.max_opens,
                    messages_per_connection: self.messages_per_connection,
                    unasked_content: named.unasked_content,
                    transactions_in_flight: named.transactions_in_flight,
                    messages_per_second: self.messages_per_second,
                    recipients_per_message: self.recipients_per_message,
                    adaptive: self.adaptive,
                    balance: named.balance,
                    refuse_private: false,
                    eight_bit: self.eight_bit,
                    chunking: self.chunking,
                    pipelining: self.pipelining,
                    connect_timeout: self.connect_timeout.clone(),
                    greeting_timeout: self.greeting_timeout.clone(),
                    command_timeout: self.command_timeout.clone(),
                    data_timeout: self.data_timeout.clone(),
                    content_timeout: self.content_timeout.clone(),
                    final_timeout: self.final_timeout.clone(),
                    transaction_timeout: self.transaction_timeout.clone(),
                    idle_timeout: self.idle_timeout.clone(),
                }
            }
        }
    };
}

peer_section! {
    /// Relay to given hosts over SMTP.
    SmtpText {
        /// The hosts, at least one: an address or a name (its addresses are looked up, not its
        /// MX), with or without port: `"192.0.2.1:2525"`, `"[2001:db8::1]:25"`,
        /// `"smtp.example.org"`. Required.
        #[schemars(extend("items" = { "type": "string", "title": "host" }))]
        hosts: Vec<String> = Vec::new(),
        /// Which of several hosts is used.
        balance: Balance = Balance::RoundRobin,
        /// When the peer offers PIPELINING and CHUNKING, send the content (up to 1 MiB) behind the
        /// recipients without waiting for their replies, which saves a round trip. RFC 3030 §2
        /// forbids it: a peer that refuses a chunk without discarding it reads it as commands, and
        /// whoever wrote the message then speaks to it as this server. Only for a host of your own
        /// that is known to discard them, as Postrider does.
        unasked_content: bool = false,
        /// Transactions sent over one connection before the peer has replied to the first of
        /// them, when it offers PIPELINING and CHUNKING. More than 1 is for long paths, and needs
        /// `unasked_content = true`: each message no longer waits for a round trip, but a
        /// connection that breaks leaves all of them in doubt, so that so many may arrive twice.
        #[schemars(range(min = 1, max = 100))]
        transactions_in_flight: u32 = 1,
    }
    port 25, max_connections 50, adaptive false
}

peer_section! {
    /// Deliver to given hosts over LMTP (RFC 2033): one reply for each recipient.
    LmtpText {
        /// The hosts, at least one: an address or a name, with or without port, or the path of a
        /// Unix socket of this machine, `"/run/dovecot/lmtp"`, which the user that this server
        /// runs as may write to. Required.
        #[schemars(extend("items" = { "type": "string", "title": "host" }))]
        hosts: Vec<String> = Vec::new(),
        /// Which of several hosts is used.
        balance: Balance = Balance::RoundRobin,
        /// When the peer offers PIPELINING and CHUNKING, send the content (up to 1 MiB) behind the
        /// recipients without waiting for their replies, which saves a round trip. RFC 3030 §2
        /// forbids it: a peer that refuses a chunk without discarding it reads it as commands, and
        /// whoever wrote the message then speaks to it as this server. Only for a host of your own
        /// that is known to discard them, as Postrider does.
        unasked_content: bool = false,
        /// Transactions sent over one connection before the peer has replied to the first of
        /// them, when it offers PIPELINING and CHUNKING. More than 1 is for long paths, and needs
        /// `unasked_content = true`: each message no longer waits for a round trip, but a
        /// connection that breaks leaves all of them in doubt, so that so many may arrive twice.
        #[schemars(range(min = 1, max = 100))]
        transactions_in_flight: u32 = 1,
    }
    port 24, max_connections 50, adaptive false
}

peer_section! {
    /// Relay over SMTP to the hosts that DNS names for the recipient's domain (RFC 5321 §5).
    MxText {
        /// Do not follow MX records, or address literals, to addresses that are private or this
        /// machine's own (RFC 1918, RFC 4193, loopback, link-local …): whoever publishes them
        /// could have machines inside probed, with reports for instance. Mail for such hosts is
        /// returned with 5.4.4.
        refuse_private: bool = false,
    }
    port 25, max_connections 20, adaptive true
}

/// Keep in a Maildir on this server: written to `tmp`, synced, then moved to `new`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MaildirText {
    /// The Maildir of a recipient. `{domain}` and `{local}` stand for the recipient's domain and
    /// local part in lower case; what could lead elsewhere (`/`, a leading dot) is written as
    /// `%2F`, `%2E`. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Accept and throw away. There is nothing to set.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DiscardText {}
