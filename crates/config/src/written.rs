//! The file as it is written: one struct per section, every key with its meaning and its default.
//!
//! This is the schema. The reference page, the JSON schema for editors and the check for unknown
//! keys and wrong types are generated from these structs and their doc comments; the defaults
//! stand in the `Default` implementations, as text, and are read like anything in a file.

mod listener;
mod reports;
mod route;
mod source;
mod table;

use super::quantity::{DurationText, SizeText};
pub use listener::{CertificateIdentityText, ClientCertificatesText, ListenerText, ListenerTls};
pub use reports::{ReportRetryText, ReportsOverrideText, ReportsText, Returns};
pub use route::{DomainsText, RetryOverrideText, RouteText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use source::{PoolSourceText, PoolText, SourceText, WarmupText};
pub use table::{Rewrite, TableCacheText, TableRefText, TableText};

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct FileText {
    /// The name this server goes by in its greeting, in EHLO, in Received fields and in the
    /// reports it sends. It should be the name that DNS gives for the address it sends from.
    /// Without it: the machine's host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// Where mail for `<postmaster>` goes, which every server accepts (RFC 5321 §4.5.1). Without
    /// it: postmaster at `hostname`. If no route covers that address the mail is kept in the
    /// Maildir `postmaster` in the first spool directory, 50 MiB at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postmaster: Option<String>,
    /// Addresses at which this server is reached from outside though they are not its own: those of
    /// a NAT or proxy before it. An MX host with one of them, or with an address that a listener
    /// has, is this server: mail is not sent there, nor to hosts that are less preferred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "address" }))]
    pub proxy_addresses: Vec<String>,
    /// How many shards (threads that each own their sessions and queues) run. Without it: one per
    /// CPU core. For experiments; changed only by a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub shards: Option<u16>,
    /// Where accepted mail is kept until it is delivered.
    pub spool: SpoolText,
    /// TLS of clients, on all listeners together.
    pub tls: TlsText,
    /// Certificates of this server, for TLS on listeners.
    pub certificate: Vec<CertificateText>,
    /// Where mail comes in. At least one.
    pub listener: Vec<ListenerText>,
    /// Where mail goes. At least one; the first that matches the recipient's domain wins.
    pub route: Vec<RouteText>,
    /// At what pace `mx` routes send to whom: files in order, of which later ones win; `"builtin"` is
    /// what this program knows of mailbox providers itself. Without any only the routes' own keys hold. See
    /// `docs/shaping.md`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "file, or `builtin`" }))]
    pub shaping: Vec<String>,
    /// From where mail is sent, for pools.
    pub source: Vec<SourceText>,
    /// Sources that the mail of a route is spread over.
    pub pool: Vec<PoolText>,
    /// Whose mail it is, where several send.
    pub tenant: Vec<TenantText>,
    /// Lookup tables, which other sections refer to by their names.
    pub table: Vec<TableText>,
    /// When a delivery that failed for now is tried again.
    pub retry: RetryText,
    /// What senders are told of the fate of their mail (delivery status notifications, RFC 3464).
    pub reports: ReportsText,
    /// How names are resolved for `mx` routes and host names.
    pub dns: DnsText,
    /// The administration interface.
    pub admin: AdminText,
    /// The console log: what the program has to say about itself.
    pub log: LogText,
    /// The sections that others own, by their keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: toml::Table,
}

/// TLS of clients, on all listeners together.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsText {
    /// TLS handshakes with clients under way at once. Beyond nine tenths of it one more has to give way
    /// for each that begins, unless its client may relay or was a user lately; where none has to,
    /// STARTTLS is answered with 454 4.7.0, and on a listener with implicit TLS the connection is closed.
    #[schemars(range(min = 10, max = 1_000_000))]
    pub max_handshakes: u32,
    /// So long before a certificate of this server ends a warning is logged, once a day. `"0s"`:
    /// never.
    pub expiry_warning: DurationText,
}

impl Default for TlsText {
    fn default() -> TlsText {
        TlsText { max_handshakes: 1_000, expiry_warning: "14d".into() }
    }
}

/// Where accepted mail is kept until it is delivered.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolText {
    /// The spool directory. Changed only by a restart, like all of this section.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Several spool directories, one per disk, instead of `path`. The load is spread over them.
    /// Without either: `/var/spool/postrider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// What "250 accepted" promises.
    pub durability: Durability,
    /// The number of this server among those that share work: part of every message id.
    pub node: u16,
    /// Size of one segment file of the log.
    pub segment_bytes: SizeText,
    /// How many segments are kept ready, beside the one that is reserved for
    /// settling when the disk is full.
    #[schemars(range(min = 1, max = 64))]
    pub spare_segments: u16,
    /// New mail is answered with 452 4.3.1 while less than this, or less than `segment_bytes`, is
    /// free on the spool's disk.
    pub min_free_bytes: SizeText,
    /// A message longer than this gets a file of its own instead of a place in the log.
    pub blob_bytes: SizeText,
    /// How many recipients may be delivered but not yet recorded as delivered on disk: at most
    /// this many (and those being transmitted) are sent twice after a crash.
    #[schemars(range(min = 1))]
    pub unsettled_max: u32,
    /// How many recipients may be queued; beyond it new mail is answered with 452 4.3.1. Each
    /// takes up to 200 bytes of memory. The last tenth is for clients that may relay; from half of it on a stranger's
    /// network has one in 500 of them, and its IPv4 /24 or IPv6 /48 one in 50 (`docs/limits.md`).
    #[schemars(range(min = 1))]
    pub queue_recipients_max: u32,
    /// Life of a message that a check, an access rule, a policy service or a milter holds and nobody
    /// releases. Then it is returned, if its client might relay or SPF or DKIM passed for its sender's
    /// domain, and removed otherwise. Holds of an operator do not end.
    pub hold_for: DurationText,
    /// Memory for message bodies of all sessions together; what does not fit is written to disk
    /// early and read again when its turn comes. A quarter as much keeps what was received last, and
    /// a quarter as much is for what deliveries read back, which wait for it in turn.
    pub body_memory_bytes: SizeText,
}

impl Default for SpoolText {
    fn default() -> SpoolText {
        SpoolText {
            path: None,
            paths: None,
            durability: Durability::Sync,
            node: 0,
            segment_bytes: "256MiB".into(),
            spare_segments: 1,
            min_free_bytes: "256MiB".into(),
            blob_bytes: "2MiB".into(),
            unsettled_max: 1_024,
            queue_recipients_max: 10_000_000,
            hold_for: "14d".into(),
            body_memory_bytes: "64MiB".into(),
        }
    }
}

/// What "250 accepted" promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The message is on stable storage: it survives a power cut.
    #[default]
    Sync,
    /// The operating system has the message: it survives a crash of this program only.
    Os,
    /// The message is in memory: it survives nothing. For measuring.
    Memory,
}

/// When a delivery that failed for now is tried again, and when it is given up.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryText {
    /// Wait before the second attempt.
    pub first: DurationText,
    /// Each wait is the one before times this.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: f64,
    /// No wait is longer than this.
    pub longest: DurationText,
    /// Each wait is made longer or shorter at random by up to this share, so that messages that
    /// failed together do not come back together.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub jitter: f64,
    /// A message this old is returned to its sender.
    pub give_up_after: DurationText,
    /// A sender is told once that the message is delayed when it is this old. `"0"`: never.
    pub warn_after: DurationText,
}

impl Default for RetryText {
    fn default() -> RetryText {
        RetryText {
            first: "1m".into(),
            factor: 2.0,
            longest: "1h".into(),
            jitter: 0.1,
            give_up_after: "5d".into(),
            warn_after: "4h".into(),
        }
    }
}

/// How names are resolved.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DnsText {
    /// Name servers as `address` or `address:port`. Without any: those in `/etc/resolv.conf`, which is read anew
    /// within seconds when it changes, as `/etc/hosts` is. They are asked in this order until one answers; one that
    /// fails (no answer, SERVFAIL, REFUSED and the like) what another one answers is asked last for 5 s, and for up
    /// to 5 min where it goes on failing.
    #[schemars(extend("items" = { "type": "string", "title": "name server" }))]
    pub servers: Vec<String>,
    /// Wait for one answer.
    pub timeout: DurationText,
    /// How often each server is asked a question before the lookup fails for now.
    #[schemars(range(min = 1, max = 20))]
    pub attempts: u8,
    /// How many answers are remembered.
    pub cache_max: u32,
    /// The memory that they may take all together, whichever bound is met first. An answer of more than 8 KiB
    /// is not remembered.
    pub cache_bytes: SizeText,
    /// Lookups under way at once, over all shards; the rest waits in line. Fewer where the limit
    /// of open files is low: each takes up to six, and all together an eighth of them at most.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_lookups: u32,
    /// The name servers validate answers by DNSSEC, and nobody can change what they say of it (the AD
    /// bit) on the way here: what `tls = "dane"` rests on. Without it no answer counts as secure, wherever
    /// they are: many a server on this machine only passes on what it is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validating: Option<bool>,
}

impl Default for DnsText {
    fn default() -> DnsText {
        DnsText {
            servers: Vec::new(),
            timeout: "5s".into(),
            attempts: 2,
            cache_max: 65_536,
            cache_bytes: "32MiB".into(),
            max_lookups: 256,
            validating: None,
        }
    }
}

/// The administration interface.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AdminText {
    /// Address and port that serve `/metrics` (Prometheus) and `/healthz` over HTTP. There is no
    /// authentication: keep it on a loopback address or behind a firewall. Without it: not served.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// The Unix socket that `postrider queue` and `postrider reload` talk to; only its owner may
    /// use it. Without it: `control.sock` in the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

/// The console log, on standard error.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogText {
    /// What is worth a line.
    pub level: LogLevel,
}

/// What is worth a line on the console.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Only what an operator must act on.
    Error,
    /// What an operator should look into.
    Warn,
    /// Starting, stopping, reloading, and what changed.
    #[default]
    Info,
    /// Each session and attempt.
    Debug,
    /// Each command and reply.
    Trace,
}

/// A certificate of this server, for TLS on listeners. Clients choose by the name that they ask for
/// (SNI); the first is for those that ask for none, or for one that no certificate has. Two of the
/// same names with keys of two kinds (RSA and ECDSA) stand beside each other: the client takes what
/// it knows, ECDSA first. Files that change are read anew within seconds; what can't be used is told, and the
/// one before stays.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CertificateText {
    /// The names that it is shown for: `mx.example.org`, or `*.example.org` for each name one label
    /// longer. Required.
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    pub names: Vec<String>,
    /// The file with the certificate and those that lead from it to a root, in PEM. Required
    /// without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// The file with its private key, in PEM, without a password. Required without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The certificate is ordered from the authority of `[acme]`, for `names`, and renewed in time. Before
    /// the first has come, the server starts without it.
    pub acme: bool,
    /// Of what kind its key is, with `acme`. Without it: `"ecdsa"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_type: Option<KeyType>,
    /// With `acme`: the key stays the same when the certificate is renewed, so that TLSA records about the
    /// key (`3 1 1`) go on being true.
    pub reuse_key: bool,
}

/// Kinds of keys that certificates are made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// ECDSA with P-256.
    #[default]
    Ecdsa,
    /// RSA with 2,048 bits.
    Rsa,
}

/// Whose mail it is, where several send: what each may have.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantText {
    /// Its name, for logs, metrics, events and steering fields; `"*"` is every tenant that is not listed, each
    /// with limits of its own. Required.
    pub name: String,
    /// Users whose mail is always its: they may use no other tenant, and others that log in may not use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "user" }))]
    pub logins: Vec<String>,
    /// The pool that its mail is sent from, instead of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its part of a next hop that other tenants send to as well, beside their weights.
    #[schemars(range(min = 1, max = 1_000))]
    pub weight: u32,
    /// How fast it may send, over all next hops: rates such as `"500/s"`, `"50/m"`, `"5_000/h"`, `"20_000/d"`,
    /// each spread evenly; all of them hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "rate" }))]
    pub rate: Vec<String>,
    /// How many of its recipients may be queued; what comes beyond is answered with 452 4.3.1. Without it only
    /// `spool.queue_recipients_max` holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queued_max: Option<u32>,
    /// What becomes of its mail when nobody signs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsigned: Option<Unsigned>,
}

impl Default for TenantText {
    fn default() -> TenantText {
        TenantText {
            name: String::new(),
            logins: Vec::new(),
            pool: None,
            weight: 1,
            rate: Vec::new(),
            queued_max: None,
            unsigned: None,
        }
    }
}

/// What becomes of mail that nobody signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unsigned {
    /// It is sent as it is.
    #[default]
    Send,
    /// 550 5.7.20.
    Refuse,
}
