//! The settings of a listener's sessions.

use crate::wishes::HoldMax;
use std::time::Duration;

/// How many recipients a client may have open at once, unless a listener says otherwise.
pub const RECIPIENTS_OPEN_MAX: usize = 100;

/// Limits and identity of a listener. Every limit is tested at its edge.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The server's name in the greeting and in the reply to EHLO.
    pub hostname: String,
    /// Behind the hostname in the greeting; says which protocol is spoken (RFC 5321 §4.3.1).
    pub banner: String,
    /// SIZE, 552 5.3.4 beyond it. RFC 5321 §4.5.3.1.7.
    pub message_bytes_max: u64,
    /// Recipients per transaction, 452 4.5.3 beyond it. RFC 5321 §4.5.3.1.8: at least 100.
    pub recipients_max: usize,
    /// Recipients of a transaction whose replies are not written yet: further RCPTs wait beyond it.
    /// One is always let in. What the driver may have under way for one client, and what answers
    /// that came early may hold.
    pub recipients_open_max: usize,
    /// A command line with its CRLF, 500 5.5.2 beyond it (RFC 5321 §4.5.3.1.4, extensions added).
    pub command_line_bytes_max: usize,
    /// A line of content without its CRLF; 550 5.6.0 after the end of the content. 0: no limit.
    pub content_line_bytes_max: u64,
    /// Commands per session, 421 4.7.0 beyond it. QUIT is always heard. Each BDAT chunk is a
    /// command, so this must leave room for large messages in small chunks.
    pub commands_max: u32,
    /// 4yz/5yz replies to commands per session, 421 4.7.0 beyond it. Refused content does not
    /// count, nor do recipients beyond `recipients_max`, or that the driver refuses with 452 4.5.3
    /// beside others: their sender must be able to send DATA for the ones that were accepted (RFC
    /// 5321 §4.5.3.1.10). For the same reason no refused recipient counts in a transaction in which
    /// one is accepted. An accepted message forgives all.
    pub errors_max: u32,
    /// Refused recipients per session, 421 4.7.0 beyond it. An accepted message forgives them, too.
    /// 0: no limit.
    pub refused_recipients_max: u32,
    /// Messages per session, 421 4.7.0 at the MAIL beyond it. 0: no limit.
    pub messages_max: u32,
    /// Waiting for the next command; within a transaction for the next one that takes it further,
    /// so that no NOOP keeps it. RFC 5321 §4.5.3.2.7: at least 5 minutes.
    pub command_timeout: Duration,
    /// Between two pieces of content. RFC 5321 §4.5.3.2.5.
    pub content_timeout: Duration,
    /// From 354 (or the first BDAT) to the end of the content: slow senders.
    pub transfer_timeout: Duration,
    /// How long a session may last in all.
    pub session_timeout: Duration,
    /// Offer STARTTLS; the driver must then know how to upgrade.
    pub starttls: bool,
    /// Who may send must log in (RFC 4954); `None`: nobody can.
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
    /// The client is one that the operator knows, a device perhaps, for which there is no other version: whatever
    /// it calls itself is taken, and, where bare newlines are normalised, lines that end with LF alone.
    pub is_lenient: bool,
    /// What happens to content with a bare CR or LF.
    pub bare_newline: BareNewline,
    /// What happens to content with a NUL.
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
    /// Generous limits, every extension but STARTTLS and those of [`crate::wishes`], and `localhost` as the name.
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
            bare_newline: BareNewline::Reject,
            nul: Nul::Reject,
            lmtp: false,
        }
    }
}

/// What happens to content with a CR without LF or an LF without CR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BareNewline {
    /// Read to the true end (CRLF . CRLF, or BDAT LAST), then 550 5.6.0.
    #[default]
    Reject,
    /// Each becomes CRLF in what is stored; the end is still only CRLF . CRLF, unless the DATA command
    /// itself, of a client that is let do so, ended with LF.
    Normalize,
}

/// What happens to content with a NUL. Where lines begin and where the content ends is decided
/// before: a server that drops NULs first could take CRLF NUL . CRLF for the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nul {
    /// Read to the true end, then 550 5.6.0.
    #[default]
    Reject,
    /// They are left out of what is stored.
    Strip,
    /// They are content as any octet.
    Keep,
}

/// What a session asks of logins. Without one nobody may send, and none is possible in clear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginRules {
    /// What is offered once the connection is encrypted.
    pub mechanisms: Vec<&'static str>,
    /// Failed logins in one session, 421 4.7.0 at the last one.
    pub failures_max: u32,
    /// From the start to the login, 421 4.4.2 beyond it, whatever else is said meanwhile.
    pub timeout: Duration,
}
