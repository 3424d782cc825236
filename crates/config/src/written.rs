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
pub use route::{AliasesText, DomainsText, RetryOverrideText, RouteText, WhenList, WhenText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
pub use source::{PoolSourceText, PoolText, SourceText, WarmupText};
pub use table::{Rewrite, TableCacheText, TableRefText, TableText};

/// The whole file.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct FileText {
    /// Name of this server in its greeting, in EHLO, in Received fields and in its reports. It should be the DNS name
    /// of the address that the server sends from. Default: the machine's host name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// User that the server runs as, by name or number. Root only opens the sockets and reads the keys; then the process
    /// becomes this user for good, without capabilities, and reaches only places that the configuration names (Landlock).
    /// A server that is not started by root may name its own user. Default: the user that starts the server. See
    /// `docs/privileges.md`; changed only by a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Group that the server runs as. Default: the group of `user`. The other groups of `user` stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Destination of mail for `<postmaster>`, which every server must accept (RFC 5321 §4.5.1). Default: postmaster at
    /// `hostname`. If no route has this address, the mail is stored in the Maildir `postmaster` in the first spool
    /// directory, up to 50 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub postmaster: Option<String>,
    /// Characters that begin a tag in a local part: mail for `user+tag@` is for `user@` where the whole address is not found.
    /// The first of these characters counts. `""` for no tags. Tags are used in `recipients`, `aliases`, `[[access]]`, the
    /// senders of logins, `when`, `[[copy]]`, `[[limit]]`, greylisting, and folders of Maildirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recipient_delimiter: Option<String>,
    /// External addresses of this server at a NAT or proxy in front (Postfix's `proxy_interfaces`). An MX host with one
    /// of these addresses, or with the address of a listener, is this server. No mail is sent to it, nor to less
    /// preferred hosts. Recipients at one of these (`jo@[192.0.2.1]`) are rejected (550 5.1.2), except for the
    /// postmaster.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "address" }))]
    pub proxy_addresses: Vec<String>,
    /// Number of shards (threads with separate sessions and queues). Default: one per CPU core. For experiments;
    /// changed only by a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 256))]
    pub shards: Option<u16>,
    /// Storage of accepted mail until delivery.
    pub spool: SpoolText,
    /// TLS of clients, for all listeners together.
    pub tls: TlsText,
    /// Certificates of this server, for TLS on listeners.
    pub certificate: Vec<CertificateText>,
    /// Listeners for incoming mail. At least one.
    pub listener: Vec<ListenerText>,
    /// Destinations of mail. At least one; the first with the recipient's domain is used.
    pub route: Vec<RouteText>,
    /// Traffic shaping for `mx` routes: files in order, later ones taking precedence; `"builtin"` is the built-in
    /// knowledge of mailbox providers. Default: only the keys of routes apply. See `docs/shaping.md`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "file, or `builtin`" }))]
    pub shaping: Vec<String>,
    /// Local addresses to send from, for pools.
    pub source: Vec<SourceText>,
    /// Pools of sources, for routes.
    pub pool: Vec<PoolText>,
    /// Tenants, if several parties send mail.
    pub tenant: Vec<TenantText>,
    /// Lookup tables, referred to by name.
    pub table: Vec<TableText>,
    /// Retries after temporary failures.
    pub retry: RetryText,
    /// Delivery status notifications to senders (RFC 3464).
    pub reports: ReportsText,
    /// DNS lookups for `mx` routes and host names.
    pub dns: DnsText,
    /// The administration interface.
    pub admin: AdminText,
    /// The console log.
    pub log: LogText,
    /// The sections that other crates define, by their keys.
    #[serde(flatten)]
    #[schemars(skip)]
    pub others: toml::Table,
}

/// TLS of clients, for all listeners together.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TlsText {
    /// Maximum number of concurrent TLS handshakes with clients. From nine tenths on, each new handshake ends another
    /// one, except those of clients that may relay or logged in recently. If none can be ended, STARTTLS gets 454
    /// 4.7.0, and a connection with implicit TLS is closed.
    #[schemars(range(min = 10, max = 1_000_000))]
    pub max_handshakes: u32,
    /// Time before the expiry of a certificate from which on a warning is logged once a day. `"0s"` for never.
    pub expiry_warning: DurationText,
}

impl Default for TlsText {
    fn default() -> TlsText {
        TlsText { max_handshakes: 1_000, expiry_warning: "14d".into() }
    }
}

/// Storage of accepted mail until delivery.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SpoolText {
    /// The spool directory. This and all other keys of this section take effect only after a restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Several spool directories, one per disk, instead of `path`. Mail is spread over them. Default:
    /// `/var/spool/postrider`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<String>>,
    /// Guarantee of a 250 reply to a message.
    pub durability: Durability,
    /// Number of this server in a cluster, part of every message id.
    pub node: u16,
    /// Size of one segment file of the log.
    pub segment_bytes: SizeText,
    /// Number of spare segments, in addition to one that is reserved for settling when the disk is full.
    #[schemars(range(min = 1, max = 64))]
    pub spare_segments: u16,
    /// Minimum free space on the spool's disk. With less than this or `segment_bytes`, new mail gets 452 4.3.1.
    pub min_free_bytes: SizeText,
    /// Size above which a message is stored in a separate file instead of the log.
    pub blob_bytes: SizeText,
    /// Maximum number of recipients delivered but not yet recorded as delivered on disk. After a crash, at most these
    /// and the deliveries in progress are sent twice.
    #[schemars(range(min = 1))]
    pub unsettled_max: u32,
    /// Maximum number of recipients in the queue; further mail gets 452 4.3.1. Each takes up to 200 bytes of memory.
    /// The last tenth is reserved for clients that may relay. If the queue is more than half full, a network of other
    /// clients may have one in 500, and its IPv4 /24 or IPv6 /48 one in 50 (`docs/limits.md`).
    #[schemars(range(min = 1))]
    pub queue_recipients_max: u32,
    /// Lifetime of a message held by a check, an access rule, a policy service or a milter. If it is not released by
    /// then, it is bounced if its client might relay, or SPF or DKIM passed for the sender's domain; otherwise it is
    /// removed. Holds by an operator have no limit.
    pub hold_for: DurationText,
    /// Memory for message bodies of all sessions together. Bodies that do not fit are written to disk early and read
    /// again for delivery. A quarter as much is used to cache recently received messages, and another quarter for
    /// messages that deliveries read back.
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

/// Guarantee of a 250 reply to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// The message is on stable storage and survives a power failure.
    #[default]
    Sync,
    /// The operating system has the message; it survives a crash of this program only.
    Os,
    /// The message is in memory only. For benchmarks.
    Memory,
}

/// Retries after temporary failures, and expiry.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RetryText {
    /// Delay before the second attempt.
    pub first: DurationText,
    /// Factor by which each delay is longer than the previous one.
    #[schemars(range(min = 1.0, max = 100.0))]
    pub factor: f64,
    /// Maximum delay between two attempts.
    pub longest: DurationText,
    /// Random variation of each delay, as a share, so that messages that failed together are not retried together.
    #[schemars(range(min = 0.0, max = 0.5))]
    pub jitter: f64,
    /// Age at which a message expires and is bounced.
    pub give_up_after: DurationText,
    /// Age at which the sender gets a delay warning, once. `"0"` for never.
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

/// DNS lookups.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DnsText {
    /// Name servers as `address` or `address:port`, tried in this order. Default: those in `/etc/resolv.conf`, which is
    /// read again within seconds after a change, like `/etc/hosts`. A server that fails (no reply, SERVFAIL, REFUSED or
    /// similar) although another one answers is tried last for 5 s, and for up to 5 min if it keeps failing.
    #[schemars(extend("items" = { "type": "string", "title": "name server" }))]
    pub servers: Vec<String>,
    /// Timeout for a reply.
    pub timeout: DurationText,
    /// Number of queries to each server before a lookup fails temporarily.
    #[schemars(range(min = 1, max = 20))]
    pub attempts: u8,
    /// Maximum number of cached answers.
    pub cache_max: u32,
    /// Maximum memory for cached answers. Answers over 8 KiB are not cached.
    pub cache_bytes: SizeText,
    /// Maximum number of concurrent lookups, over all shards; further ones wait. Lower if the limit of open files is
    /// low: each lookup uses up to six, and all together at most an eighth of the limit.
    #[schemars(range(min = 1, max = 65_536))]
    pub max_lookups: u32,
    /// The name servers validate DNSSEC, and the path to them is trusted, so that their AD bit is reliable. Required by
    /// `tls = "dane"`. Default: no answer counts as secure, even from a local server, because many of these forward
    /// queries without validation.
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
    /// Address and port of the HTTP server for `/metrics` (Prometheus) and `/healthz`. It has no authentication, so use
    /// a loopback address or a firewall. Default: off.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// Unix socket for `postrider queue` and `postrider reload`, accessible to its owner only. Default: `control.sock`
    /// in the first spool directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
}

/// The log for operators.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogText {
    /// Minimum level of logged events.
    pub level: LogLevel,
    /// Destination of the lines. Lines that the journal or syslog does not take at once are lost, and counted
    /// (`postrider_log_lines_lost_total`); mail never waits for them. Until the configuration is read, and while the
    /// destination is missing, lines of level `warn` and `error` go to standard error.
    pub to: LogTarget,
    /// Format of the lines. See `docs/logs.md`.
    pub format: LogFormat,
    /// Log a line for the result of each delivery attempt (delivered, relayed, deferred, failed, expired), with message,
    /// recipient, next hop, delay, status and reply. With `format = "postfix"` also for each message that arrives, is
    /// refused or leaves the queue. The lines are of level `info`, and not limited in number. The event log has the same
    /// and more, see `docs/trace.md`. Default: `true` with `format = "postfix"`, otherwise `false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deliveries: Option<bool>,
}

/// Destination of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogTarget {
    /// Standard error.
    #[default]
    Stderr,
    /// The journal of systemd, with fields.
    Journald,
    /// Syslog, facility `mail`, at `/dev/log`.
    Syslog,
}

/// Format of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// `KIND: TEXT`, with time and level where the destination adds none.
    #[default]
    Text,
    /// A JSON object.
    Json,
    /// The lines of Postfix's `smtpd`, `cleanup`, `qmgr`, `smtp`, `lmtp`, `virtual` and `bounce`, for programs that read
    /// them (pflogsumm, fail2ban).
    Postfix,
}

/// Level of a console line.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Errors that require action by an operator.
    Error,
    /// Also problems that an operator should check.
    Warn,
    /// Also start, stop, reload and other changes.
    #[default]
    Info,
    /// Also each session and delivery attempt.
    Debug,
    /// Also each command and reply.
    Trace,
}

/// A certificate of this server, for TLS on listeners. It is selected by the server name in the handshake (SNI); the
/// first is used for clients without SNI or with an unknown name. Two certificates for the same names with RSA and
/// ECDSA keys can coexist, with ECDSA preferred if the client supports it. Changed files are read again within seconds;
/// if they are unusable, an error is logged and the previous certificate stays in use.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct CertificateText {
    /// Names of the certificate: `mx.example.org`, or `*.example.org` for all names one label longer. Required.
    #[schemars(extend("items" = { "type": "string", "title": "domain" }))]
    pub names: Vec<String>,
    /// File with the certificate and its intermediate certificates in PEM. Required without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chain: Option<String>,
    /// File with the private key in PEM, without a passphrase. Required without `acme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Order the certificate for `names` from the authority of `[acme]`, and renew it in time. The server starts
    /// without it before the first one is issued.
    pub acme: bool,
    /// Key type, with `acme`. Default: `"ecdsa"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_type: Option<KeyType>,
    /// With `acme`: keep the key at renewals, so that TLSA records for the key (`3 1 1`) stay valid.
    pub reuse_key: bool,
}

/// Key type of a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// ECDSA with P-256.
    #[default]
    Ecdsa,
    /// RSA with 2,048 bits.
    Rsa,
}

/// A tenant: a party that sends mail, and its limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TenantText {
    /// Its name, for logs, metrics, events and steering fields. `"*"` stands for every tenant that is not listed, each
    /// with separate limits. Required.
    pub name: String,
    /// Users of this tenant. They can't use another tenant, and no other logged-in user can use this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "user" }))]
    pub logins: Vec<String>,
    /// Pool to send its mail from, instead of the route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Share of a next hop that several tenants send to, relative to their weights.
    #[schemars(range(min = 1, max = 1_000))]
    pub weight: u32,
    /// Maximum rates over all next hops, for example `"500/s"`, `"50/m"`, `"5_000/h"`, `"20_000/d"`. Each is spread
    /// evenly, and all apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("items" = { "type": "string", "title": "rate" }))]
    pub rate: Vec<String>,
    /// Maximum number of its recipients in the queue; further ones get 452 4.3.1. Default: only
    /// `spool.queue_recipients_max` applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub queued_max: Option<u32>,
    /// Action for its unsigned mail.
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

/// Action for unsigned mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Unsigned {
    /// Send it unsigned.
    #[default]
    Send,
    /// Reject it with 550 5.7.20.
    Refuse,
}
