//! The settings of a listener's sessions.

use crate::wishes::HoldMax;
use std::time::Duration;

/// Default maximum of open recipients per client.
pub const RECIPIENTS_OPEN_MAX: usize = 100;

/// Limits and identity of a listener.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's name in the greeting and in the reply to EHLO.
    pub hostname: String,
    /// Text after the hostname in the greeting; names the protocol (RFC 5321 §4.3.1).
    pub banner: String,
    /// SIZE, 552 5.3.4 beyond it. RFC 5321 §4.5.3.1.7.
    pub message_bytes_max: u64,
    /// Recipients per transaction, 452 4.5.3 beyond it. RFC 5321 §4.5.3.1.8: at least 100.
    pub recipients_max: usize,
    /// Maximum number of recipients of a transaction with unwritten replies; further RCPTs wait. One is always allowed.
    /// It bounds the driver's pending work for one client, and the memory of early answers.
    pub recipients_open_max: usize,
    /// Length of a command line with its CRLF, including extensions; 500 5.5.2 if longer (RFC 5321 §4.5.3.1.4).
    pub command_line_bytes_max: usize,
    /// Length of a content line without its CRLF; 550 5.6.0 after the end of the content if longer. 0: no limit.
    pub content_line_bytes_max: u64,
    /// Commands per session, 421 4.7.0 beyond it. QUIT is always accepted. Each BDAT chunk is a command, so this must
    /// suffice for large messages in small chunks.
    pub commands_max: u32,
    /// 4yz/5yz replies to commands per session, 421 4.7.0 beyond it. Refused content does not count. Recipients beyond
    /// `recipients_max`, or refused by the driver with 452 4.5.3 beside accepted ones, do not count either. The client
    /// must be able to send DATA for the accepted ones (RFC 5321 §4.5.3.1.10). For the same reason no refused recipient
    /// counts in a transaction with an accepted one. An accepted message resets the count.
    pub errors_max: u32,
    /// Refused recipients per session, 421 4.7.0 beyond it. An accepted message resets the count. 0: no limit.
    pub refused_recipients_max: u32,
    /// Messages per session; 421 4.7.0 at the next MAIL. 0: no limit.
    pub messages_max: u32,
    /// Time to wait for the next command, within a transaction for the next one that advances it: NOOP does not keep it
    /// open. RFC 5321 §4.5.3.2.7: at least 5 minutes.
    pub command_timeout: Duration,
    /// Between two pieces of content. RFC 5321 §4.5.3.2.5.
    pub content_timeout: Duration,
    /// Time from 354, or from the first BDAT, to the end of the content; limits slow senders.
    pub transfer_timeout: Duration,
    /// Maximum duration of a session.
    pub session_timeout: Duration,
    /// Offer STARTTLS; the driver must then know how to upgrade.
    pub starttls: bool,
    /// Login rules (RFC 4954), which make a login necessary for sending; `None`: logins are disabled.
    pub logins: Option<LoginRules>,
    /// Offer CHUNKING, and take BDAT (RFC 3030).
    pub chunking: bool,
    /// Offer PIPELINING (RFC 2920); commands may be pipelined even if not.
    pub pipelining: bool,
    /// Offer SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Offer DSN (RFC 3461).
    pub dsn: bool,
    /// Offer REQUIRETLS (RFC 8689) where the session is encrypted.
    pub require_tls: bool,
    /// Offer MT-PRIORITY (RFC 6710).
    pub mt_priority: bool,
    /// Offer DELIVERBY (RFC 2852).
    pub deliver_by: bool,
    /// Offer FUTURERELEASE (RFC 4865), up to this.
    pub future_release: Option<HoldMax>,
    /// The operator knows the client, for example a device that cannot be updated. It may have
    /// any name in EHLO, though not none. If bare newlines are normalised, its lines may end with LF alone.
    pub is_lenient: bool,
    /// Domain of addresses without one in MAIL and RCPT, except the bare `<postmaster>`. `None`: they are rejected.
    pub origin: Option<String>,
    /// Treatment of content with a bare CR or LF.
    pub bare_newline: BareNewline,
    /// Treatment of content with a NUL.
    pub nul: Nul,
    /// Speak LMTP: LHLO, and one reply per recipient after the content (RFC 2033 §4).
    pub lmtp: bool,
}

impl ServerConfig {
    /// Returns true if a command line may end with LF alone (RFC 5321 §2.3.8 has CRLF).
    pub(super) fn takes_lf(&self) -> bool {
        self.is_lenient && self.bare_newline == BareNewline::Normalize
    }
}

impl Default for ServerConfig {
    /// High limits, every extension but STARTTLS and those of [`crate::wishes`], and the name `localhost`.
    fn default() -> ServerConfig {
        ServerConfig {
            hostname: "localhost".to_owned(),
            banner: "ESMTP".to_owned(),
            message_bytes_max: 50 * 1024 * 1024,
            recipients_max: 1_000,
            recipients_open_max: RECIPIENTS_OPEN_MAX,
            command_line_bytes_max: 4_096,
            content_line_bytes_max: 0,
            commands_max: 1_000_000,
            errors_max: 100,
            refused_recipients_max: 1_000,
            messages_max: 0,
            command_timeout: Duration::from_secs(300),
            content_timeout: Duration::from_secs(180),
            transfer_timeout: Duration::from_secs(3_600),
            session_timeout: Duration::from_secs(24 * 3_600),
            starttls: false,
            logins: None,
            chunking: true,
            pipelining: true,
            smtputf8: true,
            dsn: true,
            require_tls: true,
            mt_priority: false,
            deliver_by: false,
            future_release: None,
            is_lenient: false,
            origin: None,
            bare_newline: BareNewline::Reject,
            nul: Nul::Reject,
            lmtp: false,
        }
    }
}

/// Treatment of content with a CR without LF or an LF without CR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareNewline {
    /// Read to the true end (CRLF . CRLF, or BDAT LAST), then 550 5.6.0.
    #[default]
    Reject,
    /// Each becomes CRLF in the stored content. The end is still only CRLF . CRLF, unless the DATA command itself, of a
    /// lenient client, ended with LF.
    Normalize,
}

/// Treatment of content with a NUL. Line starts and the end of the content are decided before: a server that drops NULs
/// first could mistake CRLF NUL . CRLF for the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nul {
    /// Read to the true end, then 550 5.6.0.
    #[default]
    Reject,
    /// They are removed from the stored content.
    Strip,
    /// They are stored like any other octet.
    Keep,
}

/// Login rules of a session. An unauthenticated client may not send, and no login is possible in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// Mechanisms offered on an encrypted connection.
    pub mechanisms: Vec<&'static str>,
    /// Failed logins in a session; 421 4.7.0 at the last one.
    pub failures_max: u32,
    /// Time from the start to the login, 421 4.4.2 beyond it, whatever other commands are sent.
    pub timeout: Duration,
}
