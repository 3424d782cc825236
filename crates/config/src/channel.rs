//! What a route's channel is told, and what others may ask of that without knowing the channel.
//!
//! A kind of channel implements [`ChannelSection`] for its keys and [`Settings`] for what they come
//! to, and is registered with [`Schema::channel`](crate::Schema::channel).

use super::explainer::Explainer;
use super::host::HostPort;
use super::reader::Reader;
use super::secret_file::SecretFile;
use mail::{Mailbox, Refusal};
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
    /// What the key is for: a sentence in the table of `[[route]]`'s keys.
    const SUMMARY: &'static str;
    /// How it is written, for the reference page.
    const EXAMPLE: &'static str;
    /// Keys (TOML) whose default is another here than in the shared part of `Text`.
    const DEFAULTS: &'static str = "";
    /// Keys that are missing here for a reason, which is shown to those who try.
    const ELSEWHERE: &'static [(&'static [&'static str], &'static str)] = &[];
    /// The table as it is written. Its doc comments are the reference page.
    type Text: DeserializeOwned + JsonSchema;

    /// Reads the table. `None` when there is a mistake in it, which `reader` was told.
    fn read(text: Self::Text, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>>;

    /// Settings that keep all mail in the directory at `path` on this machine, so many octets of it: for the
    /// postmaster's mail, when no route takes it. `None`: not by this kind of channel.
    fn mailbox_at(path: &str, quota_bytes: u64) -> Option<Arc<dyn Settings>> {
        let _ = (path, quota_bytes);
        None
    }
}

/// Gives the values that an entry has by a name.
pub type Values<'a, 'v> = &'a dyn Fn(&str) -> &'v [Box<str>];

/// What a channel is told by one route.
pub trait Settings: Any + Debug + Send + Sync {
    /// The key in `[[route]]`.
    fn key(&self) -> &'static str;

    /// Where the mail goes.
    fn destination(&self) -> Destination<'_>;

    /// What limits its connections, or workers.
    fn limits(&self) -> RouteLimits {
        RouteLimits::default()
    }

    /// Who else than the file says how connections to its hosts are encrypted.
    fn tls_sources(&self) -> TlsSources {
        TlsSources::default()
    }

    /// The same for messages that ask for TLS all the way (RFC 8689 §4.2.1): whoever can vouch for its hosts.
    /// `None`: what it delivers to is the end of the way, and such a message goes there as any other.
    fn tls_sources_required(&self) -> Option<TlsSources> {
        None
    }

    /// What becomes of 8-bit content that its hosts don't take.
    fn eight_bit(&self) -> EightBit {
        EightBit::AsIs
    }

    /// Whether its hosts can be asked for recipients, without further ado.
    fn may_be_asked(&self) -> bool {
        true
    }

    /// What has the secret that it shows its hosts.
    fn secret_file(&self) -> Option<&Arc<SecretFile>> {
        None
    }

    /// With [`Destination::ByEntry`]: the hosts of the recipient whose entry has these values, in groups as
    /// [`Destination::Hosts`] has them.
    ///
    /// # Errors
    /// Which value is missing, or is no host, for people.
    fn hosts_by_entry(&self, values: Values<'_, '_>) -> Result<Vec<Vec<HostPort>>, String> {
        let _ = values;
        Ok(Vec::new())
    }

    /// Why this recipient can't be had through it, or not by a client that may not send to any domain; `None`: it can.
    fn refusal(&self, recipient: &Mailbox, may_relay: bool) -> Option<&'static Refusal> {
        let _ = (recipient, may_relay);
        None
    }

    /// Another name of the recipient, by which rules know it, too.
    fn also_called(&self, recipient: &Mailbox) -> Option<Mailbox> {
        let _ = recipient;
        None
    }

    /// Which messages it can deliver.
    fn kinds_of_mail(&self) -> KindsOfMail {
        KindsOfMail { internet: true, x400: false }
    }

    /// Whether accepted mail is queued. If not it is thrown away as it arrives: nothing of it is
    /// written for recipients of this route.
    fn keeps_mail(&self) -> bool {
        true
    }

    /// The next hop may take a local part with `%`, `!` or `@` for a route of its own, and relay.
    fn may_be_routed_on(&self) -> bool {
        false
    }

    /// Shows where mail for this recipient goes, by the keys that say so.
    fn explain_destination(&self, recipient: &Mailbox, explainer: &mut Explainer<'_>) {
        let _ = (recipient, explainer);
    }

    /// Shows limits and the like.
    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        let _ = explainer;
    }

    /// Whether the other settings say the same.
    fn is_like(&self, other: &dyn Settings) -> bool;
}

impl dyn Settings {
    /// The settings as their channel knows them; `None`: they are another channel's.
    #[must_use]
    pub fn of<T: Settings>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The mail stays on this server: accepting it relays nothing.
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

/// What happens to 8-bit content when the peer does not offer 8BITMIME (RFC 6152).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EightBit {
    /// It is encoded on the way out (quoted-printable or base64) where its MIME structure allows
    /// it, and returned with 5.6.3 where not: when it is signed, for one. Lines over 998 octets,
    /// which many peers refuse, are encoded, wrapped or (of the header) folded, too, towards every
    /// peer, part by part, and left as they are where that can't be done. Signatures of the body
    /// (DKIM) don't outlive it.
    #[default]
    Encode,
    /// The message is returned with 5.6.3.
    Fail,
    /// It is sent all the same; nearly every peer takes it.
    AsIs,
}

/// Which messages a channel can deliver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindsOfMail {
    /// Internet messages, to mailboxes.
    pub internet: bool,
    /// Messages, probes and reports of X.400, to O/R addresses.
    pub x400: bool,
}

/// Who else than the file says how connections are encrypted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlsSources {
    /// TLSA records of the hosts, where DNSSEC vouches for them (RFC 7672).
    pub dane: bool,
    /// The policy of the recipient's domain (RFC 8461).
    pub mta_sts: bool,
    /// That is not fetched from addresses which are private or this machine's own.
    pub public_only: bool,
}

/// Where the mail of a route goes.
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
}

/// What limits the connections, or workers, of a route. 0: no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RouteLimits {
    /// Shared by all that leads by this route to the same set of hosts.
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
