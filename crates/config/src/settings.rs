//! Resolved, immutable settings of the program.

use super::quantity::write_duration;
use super::written::{Durability, LogFormat, LogLevel, LogTarget, Returns};
use mail::Mailbox;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const DEFAULT_SPOOL: &str = "/var/spool/postrider";

/// `[spool]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SpoolSection {
    /// Spool directories, at least one.
    pub paths: Vec<PathBuf>,
    /// The guarantee of a 250 reply.
    pub durability: Durability,
    /// Part of every message id.
    pub node: u16,
    /// Size of a segment.
    pub segment_bytes: u64,
    /// Zeroed segments kept ready, besides the reserved one.
    pub spare_segments: u16,
    /// 452 4.3.1 while less is free.
    pub min_free_bytes: u64,
    /// Longer messages get a file of their own.
    pub blob_bytes: u64,
    /// Delivered recipients without a synced settle.
    pub unsettled_max: u32,
    /// Queued recipients, all shards together.
    pub queue_recipients_max: u32,
    /// Life of a message that a check holds.
    pub hold_for: Duration,
    /// Memory for bodies, all shards together.
    pub body_memory_bytes: u64,
}

impl SpoolSection {
    pub(super) fn first_path(&self) -> PathBuf {
        self.paths.first().cloned().unwrap_or_else(|| PathBuf::from(DEFAULT_SPOOL))
    }

    /// The Maildir for the postmaster's mail that no route takes.
    pub(super) fn own_mailbox(&self) -> PathBuf {
        self.first_path().join("postmaster")
    }
}

/// `[retry]`, or a route's variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// Wait before the second attempt.
    pub first: Duration,
    /// Growth of the waits.
    pub factor: f64,
    /// No wait is longer.
    pub longest: Duration,
    /// Share of each wait that is random.
    pub jitter: f64,
    /// Age at which a message is returned.
    pub give_up_after: Duration,
    /// Age at which a delay notice is sent; `None`: never.
    pub warn_after: Option<Duration>,
}

impl Retry {
    /// `1m, 2m, 4m, … 1h, then every 1h`: the waits, without the random share.
    pub(crate) fn waits(&self) -> String {
        const SHOWN: usize = 10;
        let mut waits = Vec::new();
        let mut wait = self.first.as_secs_f64();
        let mut age = 0.0;
        let longest = self.longest.as_secs_f64();
        while waits.len() < SHOWN
            && wait < longest
            && age + wait <= self.give_up_after.as_secs_f64()
        {
            waits.push(write_duration(whole(wait)));
            age += wait;
            wait *= self.factor;
            if self.factor <= 1.0 {
                return format!("{}, then at the same interval", waits.join(", "));
            }
        }
        if age + wait <= self.give_up_after.as_secs_f64() && waits.len() < SHOWN {
            waits.push(format!("then every {}", write_duration(self.longest)));
        } else if waits.len() == SHOWN {
            waits.push("…".to_owned());
        }
        waits.join(", ")
    }
}

/// Whole seconds, or milliseconds below one.
fn whole(seconds: f64) -> Duration {
    let exact = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    if seconds < 1.0 {
        Duration::from_millis(u64::try_from(exact.as_millis()).unwrap_or(u64::MAX))
    } else {
        Duration::from_secs(exact.as_secs())
    }
}

/// `[reports]`, or a route's variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Reports {
    /// Addressee of reports.
    pub to: ReportTo,
    /// Recipient of a copy of each report.
    pub copy_to: Option<Mailbox>,
    /// A Maildir for copies of reports.
    pub directory: Option<PathBuf>,
    /// Returned part of the message.
    pub returns: Returns,
    /// Reports to one sender in an hour about mail from unauthenticated clients; 0: no limit.
    pub per_sender_per_hour: u32,
    /// True if senders of unauthenticated clients get delay notices.
    pub delays_to_strangers: bool,
    /// Recipient of reports about failed mail without a sender.
    pub double_bounce_to: Option<Mailbox>,
}

/// Addressee of reports.
#[derive(Clone, Debug, PartialEq)]
pub enum ReportTo {
    /// The sender of the message.
    Sender,
    /// Nobody.
    Nobody,
    /// Another address.
    Address(Mailbox),
}

/// `[reports] retry`: deviations from the route's retry policy, for mail without a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ReportRetry {
    /// Wait before the second attempt.
    pub first: Option<Duration>,
    /// No wait is longer.
    pub longest: Option<Duration>,
    /// Age at which it expires.
    pub give_up_after: Option<Duration>,
}

/// Default age at which an undeliverable report expires: its sender's mail is broken, and a report is worth less than
/// mail.
pub const REPORT_GIVE_UP_AFTER: Duration = Duration::from_secs(2 * 86_400);

impl ReportRetry {
    /// The retry of mail without a sender where other mail has `retry`.
    #[must_use]
    pub fn of(&self, retry: &Retry) -> Retry {
        Retry {
            first: self.first.unwrap_or(retry.first),
            longest: self.longest.unwrap_or(retry.longest),
            give_up_after: self
                .give_up_after
                .unwrap_or_else(|| retry.give_up_after.min(REPORT_GIVE_UP_AFTER)),
            // RFC 5321 §4.5.5: no sender exists to be notified of its delay.
            warn_after: None,
            ..retry.clone()
        }
    }
}

/// `[tls]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// Handshakes with clients at once.
    pub handshakes_max: u32,
    /// Time before a certificate's expiry at which a warning is logged; zero: never.
    pub expiry_warning: Duration,
}

/// `[dns]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dns {
    /// Empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// Wait for one answer.
    pub timeout: Duration,
    /// Number of queries to each server.
    pub attempts: u8,
    /// Answers remembered.
    pub cache_max: u32,
    /// Memory for them.
    pub cache_bytes: u64,
    /// Lookups at once.
    pub max_lookups: u32,
    /// True if the servers validate by DNSSEC and their AD flag is trusted; `None`: not set in the file.
    pub validating: Option<bool>,
}

/// Bytes of a control socket's path at most. sockaddr_un holds 108 with the final NUL, and the
/// socket is made beside its place, with `.new` after its name.
pub const CONTROL_PATH_BYTES_MAX: usize = 103;

/// A value that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub Box<[u8]>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// `[admin]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Admin {
    /// `/metrics` and `/healthz`; `None`: not served.
    pub address: Option<SocketAddr>,
    /// The control socket.
    pub control: PathBuf,
}

/// `[log]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Log {
    /// Minimum level of log lines.
    pub level: LogLevel,
    /// Destination of the lines.
    pub to: LogTarget,
    /// Format of the lines.
    pub format: LogFormat,
    /// A line for each result of a delivery attempt.
    pub deliveries: bool,
}

/// Destination of mail for `<postmaster>` (RFC 5321 §4.5.1).
#[derive(Clone, Debug, PartialEq)]
pub struct Postmaster {
    /// The recipient that replaces the bare `<postmaster>`.
    pub address: Mailbox,
    /// Index in [`super::Config::routes`].
    pub route: usize,
}
