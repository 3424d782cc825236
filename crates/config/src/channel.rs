//! A route's channel: its settings, and the properties that other modules use without knowing the kind of channel.
//!
//! A kind of channel implements [`ChannelSection`] for its keys and [`Settings`] for their values, and is registered
//! with [`Schema::channel`](crate::Schema::channel).

use super::explainer::Explainer;
use super::host::HostPort;
use super::reader::Reader;
use super::secret_file::SecretFile;
use mail::{Domain, Mailbox, Refusal};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

/// The table in `[[route]]` that leads to one kind of channel.
pub trait ChannelSection: 'static {
    /// Its key in `[[route]]`.
    const KEY: &'static str;
    /// The purpose of the key: a sentence in the table of `[[route]]`'s keys.
    const SUMMARY: &'static str;
    /// An example in the file's syntax, for the reference page.
    const EXAMPLE: &'static str;
    /// Keys (TOML) with a default that differs from the shared part of `Text`.
    const DEFAULTS: &'static str = "";
    /// Keys that are deliberately missing here, with the reason shown if they are used.
    const ELSEWHERE: &'static [(&'static [&'static str], &'static str)] = &[];
    /// The table as it is written. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the table. `None` after an error, which was reported to `reader`.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>>;

    /// Settings that store all mail in the directory at `path` on this machine, with this quota in octets. Used for the
    /// postmaster's mail if no route accepts it. `None` if this kind of channel cannot.
    fn mailbox_at(path: &str, quota_bytes: u64) -> Option<Arc<dyn Settings>> {
        let _ = (path, quota_bytes);
        None
    }
}

/// Returns the values of an entry by name.
pub type Values<'a, 'v> = &'a dyn Fn(&str) -> &'v [Box<str>];

/// Settings of a channel from one route.
pub trait Settings: Any + Debug + Send + Sync {
    /// The key in `[[route]]`.
    fn key(&self) -> &'static str;

    /// Destination of the mail.
    fn destination(&self) -> Destination<'_>;

    /// Limits of its connections or workers.
    fn limits(&self) -> RouteLimits {
        RouteLimits::default()
    }

    /// Sources of TLS policy for its hosts, besides the file.
    fn tls_sources(&self) -> TlsSources {
        TlsSources::default()
    }

    /// The same for messages that require TLS on all hops (RFC 8689 §4.2.1): the sources that can authenticate its
    /// hosts. `None`: delivery here is final, and these messages are delivered like any other.
    fn tls_sources_required(&self) -> Option<TlsSources> {
        None
    }

    /// Handling of 8-bit content that its hosts do not accept.
    fn eight_bit(&self) -> EightBit {
        EightBit::AsIs
    }

    /// Returns true if its hosts can be queried for recipients without further steps.
    fn may_be_asked(&self) -> bool {
        true
    }

    /// The secret presented to its hosts.
    fn secret_file(&self) -> Option<&Arc<SecretFile>> {
        None
    }

    /// Returns true if the login at its hosts depends on the sender of the mail, so that a connection carries mail of one
    /// sender only.
    fn has_logins_by_sender(&self) -> bool {
        false
    }

    /// With [`Destination::ByEntry`]: the hosts of a recipient with an entry of these values, in groups as in
    /// [`Destination::Hosts`].
    ///
    /// # Errors
    /// Returns the missing value, or the one that is not a host, as text.
    fn hosts_by_entry(&self, values: Values<'_, '_>) -> Result<Vec<Vec<HostPort>>, String> {
        let _ = values;
        Ok(Vec::new())
    }

    /// The refusal of this recipient, in general or for a client that may not send to any domain; `None` if it is
    /// deliverable.
    fn refusal(&self, recipient: &Mailbox, may_relay: bool) -> Option<&'static Refusal> {
        let _ = (recipient, may_relay);
        None
    }

    /// Another name of the recipient, by which rules know it, too.
    fn also_called(&self, recipient: &Mailbox) -> Option<Mailbox> {
        let _ = recipient;
        None
    }

    /// The time at which the channel is asked at RCPT about the state of a recipient's mailbox.
    fn mailbox_checks(&self) -> MailboxChecks {
        MailboxChecks::Never
    }

    /// Returns true if its peers refuse with SMTP replies, which have classes.
    fn has_replies(&self) -> bool {
        false
    }

    /// Kinds of messages that it can deliver.
    fn kinds_of_mail(&self) -> KindsOfMail {
        KindsOfMail { internet: true, x400: false }
    }

    /// Returns true if accepted mail is queued. Otherwise mail is discarded on arrival: no data is written for
    /// recipients of this route.
    fn keeps_mail(&self) -> bool {
        true
    }

    /// The next hop may interpret a local part with `%`, `!` or `@` as a route, and relay.
    fn may_be_routed_on(&self) -> bool {
        false
    }

    /// Explains the destination of mail for this recipient, by the keys that set it.
    fn explain_destination(&self, recipient: &Mailbox, explainer: &mut Explainer<'_>) {
        let _ = (recipient, explainer);
    }

    /// Shows limits and the like.
    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        let _ = explainer;
    }

    /// Returns true if the other settings are equal.
    fn is_like(&self, other: &dyn Settings) -> bool;
}

impl dyn Settings {
    /// The settings as their channel knows them; `None`: they are another channel's.
    #[must_use]
    pub fn of<T: Settings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// Returns true if the mail stays on this server: accepting it is not relaying.
    #[must_use]
    pub fn is_local(&self) -> bool {
        matches!(self.destination(), Destination::Here(_))
    }
}

impl PartialEq for dyn Settings {
    fn eq(&self, other: &dyn Settings) -> bool {
        self.is_like(other)
    }
}

/// Action for 8-bit content if the peer does not offer 8BITMIME (RFC 6152).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EightBit {
    /// Encode it for sending (quoted-printable or base64) if the MIME structure permits, otherwise bounce the message
    /// with 5.6.3, for example a signed one. Lines over 998 octets, which many peers reject, are encoded, wrapped or
    /// (in the header) folded for all peers, part by part; parts that do not permit this stay unchanged. Encoding
    /// breaks signatures of the body (DKIM).
    #[default]
    Encode,
    /// Bounce the message with 5.6.3.
    Fail,
    /// Send it unchanged. Nearly all peers accept it.
    AsIs,
}

/// The time at which a channel is asked at RCPT about the state of a recipient's mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MailboxChecks {
    /// Nothing is known of mailboxes.
    #[default]
    Never,
    /// While a disk of mailboxes was full lately.
    DiskFull,
    /// For each recipient: mailboxes have quotas.
    Always,
}

/// Kinds of messages that a channel can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindsOfMail {
    /// Internet messages, to mailboxes.
    pub internet: bool,
    /// Messages, probes and reports of X.400, to O/R addresses.
    pub x400: bool,
}

/// Sources of TLS policy, besides the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSources {
    /// TLSA records of the hosts, where DNSSEC vouches for them (RFC 7672).
    pub dane: bool,
    /// The policy of the recipient's domain (RFC 8461).
    pub mta_sts: bool,
    /// That is not fetched from addresses which are private or this machine's own.
    pub public_only: bool,
}

/// Destination of a route's mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// It stays on this server, at a place of this name (a path, perhaps with parts to fill in);
    /// empty: nowhere.
    Here(&'a str),
    /// To the hosts that the file names: groups in the order in which they are tried.
    Hosts(Vec<&'a [HostPort]>),
    /// To hosts that values of the recipient's entry name, in the table of its route's recipients, as it is
    /// when the message is delivered: [`Settings::hosts_by_entry`].
    ByEntry,
    /// To the hosts that the DNS names for the recipient's domain (RFC 5321 §5.1), at this port.
    Mx {
        /// TCP.
        port: u16,
    },
    /// The same for a name in the file, whatever the recipient's domain is.
    MxOf {
        /// The owner of the MX records.
        name: &'a Domain,
        /// TCP.
        port: u16,
    },
}

/// Limits of a route's connections or workers. 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteLimits {
    /// Shared by all mail of this route to the same set of hosts.
    pub shared: Option<SharedLimits>,
    /// Connections in the middle of being opened at once, or workers that start.
    pub opens_max: u32,
    /// Messages on one connection.
    pub messages_per_connection: u32,
    /// Recipients in one transaction.
    pub recipients_per_message: u32,
    /// Find out how many connections the peer likes.
    pub adaptive: bool,
}

/// Over all shards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedLimits {
    /// Connections at once.
    pub connections_max: u32,
    /// Messages a second.
    pub messages_per_second: f64,
}

/// Workers of a local channel that may be starting at once. They end when the queue is empty.
const LOCAL_WORKERS: u32 = 8;

/// Those of a channel without a peer.
impl Default for RouteLimits {
    fn default() -> RouteLimits {
        RouteLimits {
            shared: None,
            opens_max: LOCAL_WORKERS,
            messages_per_connection: 0,
            recipients_per_message: 0,
            adaptive: false,
        }
    }
}
