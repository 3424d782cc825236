//! SMTP settings of a listener.

use crate::originate::{FieldRules, SenderRules};
use config::quantity::{DurationText, SizeText};
use config::{Explainer, IpNet, ProtocolSection, ProtocolSettings, Reader};
use mail::Wall;
use mta::ingress::Logins;
use mta::steering::HOLD_MAX;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::server::{self, ServerConfig};
use smtp::wishes::HoldMax;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// RFC 5321 §4.5.3.2.1: a client waits five minutes for its greeting. One minute is enough to detect early talkers.
const GREETING_DELAY_MAX: Duration = Duration::from_secs(60);

/// The keys of a `[[listener]]` that speaks SMTP.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SmtpListenerText {
    /// Text after the host name in the greeting.
    pub banner: String,
    /// Longest command line with its line end, 500 5.5.2 beyond it. RFC 5321 §4.5.3.1.4 asks for
    /// 512, and the extensions for more.
    #[schemars(range(min = 512))]
    pub max_command_bytes: u32,
    /// Longest line of a message, without its line end, 550 5.6.0 beyond it. The standard says
    /// 998 (RFC 5321 §4.5.3.1.6), much real mail is longer. 0: no limit.
    pub max_line_bytes: SizeText,
    /// Commands in one session, 421 4.7.0 beyond it.
    #[schemars(range(min = 10))]
    pub max_commands: u32,
    /// Commands answered with an error in one session, 421 4.7.0 beyond it. Refused recipients are
    /// none in a transaction in which one is accepted, and an accepted message forgives all.
    #[schemars(range(min = 1))]
    pub max_errors: u32,
    /// Refused recipients in one session, 421 4.7.0 beyond it. An accepted message forgives them.
    /// 0: no limit.
    pub max_refused_recipients: u32,
    /// Messages in one session, 421 4.7.0 beyond it. 0: no limit.
    pub max_messages: u32,
    /// Wait for the next command; in a transaction, for the next one that takes it further. RFC 5321 §4.5.3.2.7 asks for at least 5 minutes.
    pub command_timeout: DurationText,
    /// Wait for the next piece of a message (RFC 5321 §4.5.3.2.5).
    pub content_timeout: DurationText,
    /// From the start of a message's content to its end, however steadily it drips.
    pub transfer_timeout: DurationText,
    /// The whole session.
    pub session_timeout: DurationText,
    /// Networks of clients that may say for whom they speak (XCLIENT): a proxy that speaks SMTP itself,
    /// or a content filter that gives mail back. Everything that this server decides or says of a client is
    /// of that one then, and limits per client concern them only as far as they speak for nobody. See
    /// `docs/proxies.md`.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub xclient_from: Vec<String>,
    /// What becomes of clients that may not relay, and are not exempt from limits, and speak before
    /// they are greeted. Who does is no mail server (RFC 5321 §3.1: the client waits): a program
    /// that only sends, or a browser that was led here.
    pub early_talkers: EarlyTalkers,
    /// So long such clients wait for their greeting, while it is seen whether they speak. Most that
    /// do speak at once; some only after seconds.
    pub greeting_delay: DurationText,
    /// Give messages of clients that may relay the Date and Message-ID that they lack, and a Message-ID that is
    /// none (empty, without an `@`) another one (RFC 6409 §8.2, §8.3). Without it: with `kind = "submission"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub add_missing_fields: Option<bool>,
    /// Leave Bcc and Resent-Bcc out of messages of clients that may relay (RFC 5322 §3.6.3), for those that
    /// don't. Nobody gets the message for being named there. Without it: with `kind = "submission"` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remove_bcc: Option<bool>,
    /// What happens to a message with a CR or LF that stands alone. Servers that disagree about
    /// where lines end let a sender smuggle a second message inside the first. The first thing to
    /// look at when a client that used to work gets 550 5.6.0: `curl --upload-file` with a file
    /// whose lines end in LF (it needs `--crlf`), and scripts that write to a socket.
    ///
    /// Without it: `normalize` for clients that may relay, whose commands may end in LF then, too, and their
    /// content with LF, dot, LF if the DATA command did; `reject` for all others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bare_newline: Option<BareNewline>,
    /// What happens to a message with a NUL octet. No message may have one (RFC 5322 §4), and
    /// servers that drop them disagree with others about where a message ends.
    pub nul: Nul,
    /// Offer CHUNKING (BDAT, RFC 3030). This and the three below are switched off only to see how
    /// a peer copes.
    pub chunking: bool,
    /// Offer PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// Offer SMTPUTF8 (RFC 6531).
    pub smtputf8: bool,
    /// Offer DSN (RFC 3461) to clients that may relay. Others are not offered it, and its
    /// parameters are refused to them: a stranger could have reports sent to a sender of his
    /// choice.
    pub dsn: bool,
    /// Offer REQUIRETLS (RFC 8689) where the session is encrypted. A message that asks for it goes on only
    /// over TLS to servers that are authenticated and offer it too, and is returned where that can't be
    /// (5.7.30, 5.7.10). See `docs/tls.md`.
    pub requiretls: bool,
    /// Offer MT-PRIORITY (RFC 6710) to clients that may relay, and pass it on to servers that offer it. See
    /// `docs/steering.md`, also for the two below.
    pub mt_priority: bool,
    /// Offer FUTURERELEASE (RFC 4865) to these, up to a year.
    pub future_release: bool,
    /// Offer DELIVERBY (RFC 2852) to these, and pass it on likewise.
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

/// What becomes of clients that speak before they are greeted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EarlyTalkers {
    /// They are greeted with 554 5.5.1, and get 503 to whatever they say.
    #[default]
    Reject,
    /// They are heard, and nobody waits for the greeting.
    Accept,
}

/// What happens to a message with a CR or LF that stands alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BareNewline {
    /// It is read to its true end and refused with 550 5.6.0.
    #[default]
    Reject,
    /// Each becomes CR LF in what is stored.
    Normalize,
}

/// What happens to a message with a NUL octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Nul {
    /// It is read to its true end and refused with 550 5.6.0.
    #[default]
    Reject,
    /// They are left out of what is stored.
    Strip,
    /// They are stored and sent on.
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
                origin: None,
            },
            greeting_delay,
            xclient_from,
            submission: None,
        }
    }
}

fn greeting_delay(text: &SmtpListenerText, reader: &mut Reader<'_, '_>) -> Duration {
    let delay = reader.duration("greeting_delay", &text.greeting_delay);
    if delay > GREETING_DELAY_MAX {
        let message = "a client waits no longer than a minute for its greeting";
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
        let help = "every server must take lines of 998 bytes (RFC 5321 §4.5.3.1.6)";
        reader.error("max_line_bytes", format!("{bytes} is too short for a line"), help);
    }
    bytes
}
