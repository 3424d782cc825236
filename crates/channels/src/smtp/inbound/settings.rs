//! SMTP settings of a listener.

use super::local_users::LocalUsers;
use crate::originate::{FieldRules, SenderRules};
use config::quantity::{DurationText, SizeText};
use config::{Explainer, IpNet, ProtocolSection, ProtocolSettings, Reader};
use mail::{Domain, Wall};
use mta::ingress::Logins;
use mta::steering::HOLD_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::server::{self, ServerConfig};
use smtp::wishes::HoldMax;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// RFC 5321 §4.5.3.2.1: a client waits five minutes for its greeting. One minute is enough to detect early talkers.
const GREETING_DELAY_MAX: Duration = Duration::from_secs(60);

/// Keys of a `[[listener]]` for SMTP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SmtpListenerText {
    /// Text after the host name in the greeting.
    pub banner: String,
    /// Maximum length of a command line, including its line end; a longer one gets 500 5.5.2. RFC 5321 §4.5.3.1.4
    /// requires 512, and extensions more.
    #[schemars(range(min = 512))]
    pub max_command_bytes: u32,
    /// Maximum length of a line in a message, without its line end; a longer one gets 550 5.6.0. The standard limit is
    /// 998 (RFC 5321 §4.5.3.1.6), but much real mail exceeds it. 0 for no limit.
    pub max_line_bytes: SizeText,
    /// Maximum number of commands in one session; the next one gets 421 4.7.0.
    #[schemars(range(min = 10))]
    pub max_commands: u32,
    /// Maximum number of commands with an error reply in one session, then 421 4.7.0. Rejected recipients do not count
    /// in a transaction with an accepted recipient. An accepted message resets the count.
    #[schemars(range(min = 1))]
    pub max_errors: u32,
    /// Maximum number of rejected recipients in one session, then 421 4.7.0. An accepted message resets the count. 0
    /// for no limit.
    pub max_refused_recipients: u32,
    /// Maximum number of messages in one session, then 421 4.7.0. 0 for no limit.
    pub max_messages: u32,
    /// Timeout for the next command; within a transaction, for the next command that continues it. RFC 5321 §4.5.3.2.7
    /// requires at least 5 minutes.
    pub command_timeout: DurationText,
    /// Timeout for the next piece of a message's content (RFC 5321 §4.5.3.2.5).
    pub content_timeout: DurationText,
    /// Timeout for a message's content as a whole, even if data keeps arriving slowly.
    pub transfer_timeout: DurationText,
    /// Timeout for the whole session.
    pub session_timeout: DurationText,
    /// Networks of clients that may use XCLIENT to announce the client that they relay for: an SMTP proxy, or a content
    /// filter that returns mail. The announced client then counts in all decisions, logs and events. Limits per client
    /// apply to the proxy only for connections without XCLIENT. See `docs/proxies.md`.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub xclient_from: Vec<String>,
    /// Action for clients that send before the greeting, unless they may relay or are exempt from limits. Mail servers
    /// wait for the greeting (RFC 5321 §3.1); early talkers are spam programs, or browsers tricked into connecting.
    pub early_talkers: EarlyTalkers,
    /// Delay of the greeting to detect early talkers (`early_talkers`). Most send at once, some after seconds.
    pub greeting_delay: DurationText,
    /// Add missing Date and Message-ID fields to messages from clients that may relay, and replace an invalid
    /// Message-ID (empty, or without `@`; RFC 6409 §8.2, §8.3). Default: only with `kind = "submission"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_missing_fields: Option<bool>,
    /// Remove Bcc and Resent-Bcc from messages of clients that may relay (RFC 5322 §3.6.3). Addresses in these fields
    /// are not added as recipients. Default: only with `kind = "submission"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_bcc: Option<bool>,
    /// Domain of addresses without one, for clients that may relay: of the sender and recipients (`MAIL FROM:<root>`), and
    /// of authors (`From: jo` becomes `From: jo@example.org`; RFC 6409 §6.3; Postfix's `myorigin`). The bare `<postmaster>`
    /// stays. Default: senders and recipients without a domain are rejected, and the field stays unchanged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// Action for a message with a bare CR or LF. Servers with different views of line ends allow a sender to smuggle a
    /// second message inside the first (SMTP smuggling). Check this key first if a client suddenly gets 550 5.6.0, for
    /// example `curl --upload-file` with LF line ends (use `--crlf`), or a script that writes to a socket.
    ///
    /// Default: `normalize` for clients that may relay; their commands may then also end in LF, and content with LF,
    /// dot, LF if the DATA command did. `reject` for all other clients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_newline: Option<BareNewline>,
    /// Action for a message with a NUL octet. NUL is invalid in mail (RFC 5322 §4), and servers that drop it can
    /// disagree with later ones about the end of a message.
    pub nul: Nul,
    /// Offer CHUNKING (BDAT, RFC 3030). Switch off this, `pipelining`, `smtputf8` or `dsn` only to test a peer.
    pub chunking: bool,
    /// Offer PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// Offer SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Offer DSN (RFC 3461) to clients that may relay. For all other clients its parameters are rejected, because they
    /// could have reports sent to forged senders.
    pub dsn: bool,
    /// Offer REQUIRETLS (RFC 8689) in encrypted sessions. A message with REQUIRETLS is relayed only over TLS, to
    /// authenticated servers that offer it too, and bounced if that is impossible (5.7.30, 5.7.10). See `docs/tls.md`.
    pub requiretls: bool,
    /// Offer MT-PRIORITY (RFC 6710) to clients that may relay, and pass it on to servers that offer it. See
    /// `docs/steering.md`, also for `future_release` and `deliver_by`.
    pub mt_priority: bool,
    /// Offer FUTURERELEASE (RFC 4865) to clients that may relay, for up to a year.
    pub future_release: bool,
    /// Offer DELIVERBY (RFC 2852) to clients that may relay, and pass it on to servers that offer it.
    pub deliver_by: bool,
}

impl Default for SmtpListenerText {
    fn default() -> SmtpListenerText {
        SmtpListenerText {
            banner: "ESMTP Postrider".into(),
            max_command_bytes: 4_096,
            max_line_bytes: "1MiB".into(),
            max_commands: 1_000_000,
            max_errors: 20,
            max_refused_recipients: 1_000,
            max_messages: 0,
            command_timeout: "5m".into(),
            content_timeout: "5m".into(),
            transfer_timeout: "30m".into(),
            session_timeout: "6h".into(),
            xclient_from: Vec::new(),
            early_talkers: EarlyTalkers::Reject,
            greeting_delay: "100ms".into(),
            add_missing_fields: None,
            remove_bcc: None,
            origin: None,
            bare_newline: None,
            nul: Nul::Reject,
            chunking: true,
            pipelining: true,
            smtputf8: true,
            dsn: true,
            requiretls: true,
            mt_priority: true,
            future_release: true,
            deliver_by: true,
        }
    }
}

/// Action for clients that send before the greeting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EarlyTalkers {
    /// Greet with 554 5.5.1, and reply 503 to all commands.
    #[default]
    Reject,
    /// Accept them; no client waits for the greeting.
    Accept,
}

/// Action for a message with a bare CR or LF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BareNewline {
    /// Read it to its end and reject it with 550 5.6.0.
    #[default]
    Reject,
    /// Replace each by CR LF in the stored message.
    Normalize,
}

/// Action for a message with a NUL octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Nul {
    /// Read it to its end and reject it with 550 5.6.0.
    #[default]
    Reject,
    /// Remove NULs from the stored message.
    Strip,
    /// Store and relay it unchanged.
    Keep,
}

/// Settings of a listener for SMTP.
#[derive(Debug)]
pub(super) struct SmtpListener {
    /// Settings of its sessions, without those that listeners of all protocols have.
    pub(super) server: ServerConfig,
    /// Changes made to headers from clients that may relay.
    pub(super) fields: FieldRules,
    /// Bare newlines from clients that may not relay are also converted to CRLF.
    pub(super) normalizes_all: bool,
    /// Time for which a client that may not relay is watched before it is greeted. Zero: no early-talker detection.
    pub(super) greeting_delay: Duration,
    /// Networks trusted to use XCLIENT.
    xclient_from: Vec<IpNet>,
    /// `None` if the listener has no logins.
    pub(super) submission: Option<Arc<Submission>>,
    /// `None` if clients have addresses.
    pub(super) local: Option<Arc<LocalUsers>>,
}

/// Submission settings of a listener.
#[derive(Debug)]
pub(super) struct Submission {
    pub(super) logins: Logins,
    /// Users may log in by certificates.
    pub(super) takes_certificates: bool,
    pub(super) senders: Arc<SenderRules>,
}

impl ProtocolSettings for SmtpListener {
    fn explain(&self, explainer: &mut Explainer<'_>) {
        explainer.own_networks("xclient_from", &self.xclient_from);
    }

    fn may_speak_for_others(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        self.xclient_from.iter().any(|network| network.contains(&client))
    }

    fn socket(&self) -> Option<&Path> {
        self.local.as_ref().map(|local| local.socket())
    }

    fn drop_directory(&self) -> Option<&Path> {
        self.local.as_ref().and_then(|local| local.drop.as_deref())
    }

    fn login_by_certificate(&self) -> Option<&'static str> {
        let takes = self.submission.as_ref().is_some_and(|one| one.takes_certificates);
        takes.then_some("mechanisms")
    }
}

impl ProtocolSection for SmtpListenerText {
    const KIND: &'static str = "smtp";
    type Text = SmtpListenerText;

    fn read(
        text: SmtpListenerText,
        reader: &mut Reader<'_, '_>,
    ) -> Option<Arc<dyn ProtocolSettings>> {
        Some(Arc::new(SmtpListener::read(&text, reader)))
    }
}

impl SmtpListener {
    /// Reads the keys that listeners with and without logins share.
    pub(super) fn read(text: &SmtpListenerText, reader: &mut Reader<'_, '_>) -> SmtpListener {
        reader.printable("banner", &text.banner, 400);
        let origin = text.origin.as_deref().and_then(|domain| domain_of(domain, reader));
        let server = ServerConfig {
            banner: text.banner.clone(),
            command_line_bytes_max: text.max_command_bytes as usize,
            content_line_bytes_max: line_bytes(text, reader),
            commands_max: text.max_commands,
            errors_max: text.max_errors,
            refused_recipients_max: text.max_refused_recipients,
            messages_max: text.max_messages,
            command_timeout: reader.timeout("command_timeout", &text.command_timeout),
            content_timeout: reader.timeout("content_timeout", &text.content_timeout),
            transfer_timeout: reader.timeout("transfer_timeout", &text.transfer_timeout),
            session_timeout: reader.timeout("session_timeout", &text.session_timeout),
            chunking: text.chunking,
            pipelining: text.pipelining,
            smtputf8: text.smtputf8,
            dsn: text.dsn,
            require_tls: text.requiretls,
            mt_priority: text.mt_priority,
            deliver_by: text.deliver_by,
            // The latest time is computed when the extension is offered.
            future_release: text
                .future_release
                .then_some(HoldMax { interval: HOLD_MAX, until: Wall(0) }),
            is_lenient: true,
            origin: origin.clone(),
            bare_newline: match text.bare_newline {
                Some(BareNewline::Reject) => server::BareNewline::Reject,
                Some(BareNewline::Normalize) | None => server::BareNewline::Normalize,
            },
            nul: match text.nul {
                Nul::Reject => server::Nul::Reject,
                Nul::Strip => server::Nul::Strip,
                Nul::Keep => server::Nul::Keep,
            },
            ..ServerConfig::default()
        };
        let greeting_delay = greeting_delay(text, reader);
        let xclient_from = reader.believed("xclient_from", &text.xclient_from);
        let normalizes_all = text.bare_newline == Some(BareNewline::Normalize);
        SmtpListener {
            server,
            normalizes_all,
            fields: FieldRules {
                add_missing: text.add_missing_fields.unwrap_or(false),
                remove_bcc: text.remove_bcc.unwrap_or(false),
                origin,
            },
            greeting_delay,
            xclient_from,
            submission: None,
            local: None,
        }
    }
}

fn greeting_delay(text: &SmtpListenerText, reader: &mut Reader<'_, '_>) -> Duration {
    let delay = reader.duration("greeting_delay", &text.greeting_delay);
    if delay > GREETING_DELAY_MAX {
        let message = "clients wait at most a minute for the greeting";
        reader.error("greeting_delay", message, "");
    }
    match text.early_talkers {
        EarlyTalkers::Reject => delay,
        EarlyTalkers::Accept => Duration::ZERO,
    }
}

/// RFC 5321 §4.5.3.1.6: lines of 998 bytes must be accepted.
fn line_bytes(text: &SmtpListenerText, reader: &mut Reader<'_, '_>) -> u64 {
    // An invalid size is read as 0.
    let bytes = reader.size("max_line_bytes", &text.max_line_bytes);
    if (1..998).contains(&bytes) {
        let help = "servers must accept lines of 998 octets (RFC 5321 §4.5.3.1.6)";
        reader.error("max_line_bytes", format!("{bytes} is too short for a line"), help);
    }
    bytes
}

/// The domain of a setting in ASCII.
fn domain_of(domain: &str, reader: &mut Reader<'_, '_>) -> Option<String> {
    match Domain::parse(domain).and_then(|domain| domain.to_ascii()) {
        Ok(domain) => Some(domain),
        Err(error) => {
            reader.error(
                "origin",
                format!("\"{domain}\": {error}"),
                "write a domain, for example \"example.org\"",
            );
            None
        }
    }
}
