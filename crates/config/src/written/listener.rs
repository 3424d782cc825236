//! `[[listener]]` as it is written.

use crate::quantity::{DurationText, SizeText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place where mail comes in: an address and port, who may use it, and its limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerText {
    /// The name of this listener in logs, metrics and events. Without it: its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The protocol that is spoken here: `"smtp"`.
    pub kind: String,
    /// IP address and port to listen on. `0.0.0.0` takes IPv4 clients only and `[::]` IPv6 clients
    /// only: a server for both has a listener for each. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "address:port"))]
    pub address: Option<String>,
    /// Networks whose clients may send to any domain. Everybody else may send only to domains
    /// that a route names (and to any domain when everything else stays on this server).
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub relay_from: Vec<String>,
    /// TLS on this listener. Only `"off"` until TLS is built.
    pub tls: String,
    /// Text after the host name in the greeting.
    pub banner: String,
    /// Longest message, 552 5.3.4 beyond it (RFC 1870).
    pub max_message_bytes: SizeText,
    /// Recipients in one transaction, 452 4.5.3 beyond it. RFC 5321 §4.5.3.1.8 asks for at least
    /// 100.
    #[schemars(range(min = 100))]
    pub max_recipients: u32,
    /// Longest command line with its line end, 500 5.5.2 beyond it. RFC 5321 §4.5.3.1.4 asks for
    /// 512, and the extensions for more.
    #[schemars(range(min = 512))]
    pub max_command_bytes: u32,
    /// Longest line of a message, without its line end, 550 5.6.0 beyond it. The standard says
    /// 998 (RFC 5321 §4.5.3.1.6), much real mail is longer. 0: no limit.
    pub max_line_bytes: SizeText,
    /// Received fields a message may carry already: more means that it is looping, 554 5.4.6. RFC
    /// 5321 §6.3 asks for at least 100.
    #[schemars(range(min = 1))]
    pub max_hops: u32,
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
    /// Sessions at once on this listener, 421 4.3.2 beyond it. One in ten is kept for clients that
    /// may relay, if there are such.
    #[schemars(range(min = 1))]
    pub max_sessions: u32,
    /// Sessions at once on this listener from one client, 421 4.7.0 beyond it. A client is an IPv4
    /// address or an IPv6 /64; one that may relay may have twenty times as many.
    #[schemars(range(min = 1))]
    pub max_sessions_per_address: u32,
    /// Connections within a minute from one client, 421 4.7.0 beyond it. This and the three below
    /// do not concern clients that may relay. 0: no limit.
    pub connections_per_minute: u32,
    /// Messages within a minute from one client, 450 4.7.1 to MAIL beyond it. 0: no limit.
    pub messages_per_minute: u32,
    /// Accepted recipients within a minute from one client, 450 4.7.1 beyond it. 0: no limit.
    pub recipients_per_minute: u32,
    /// What was refused to one client within a minute, whatever it was; beyond it 421 4.7.0 to
    /// connections, 450 4.7.1 to MAIL and RCPT. 0: no limit.
    pub refusals_per_minute: u32,
    /// Networks whose clients the limits per client do not concern, neither of sessions nor per
    /// minute.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub exempt_from_limits: Vec<String>,
    /// Wait for the next command; in a transaction, for the next one that takes it further. RFC 5321 §4.5.3.2.7 asks for at least 5 minutes.
    pub command_timeout: DurationText,
    /// Wait for the next piece of a message (RFC 5321 §4.5.3.2.5).
    pub content_timeout: DurationText,
    /// From the start of a message's content to its end, however steadily it drips.
    pub transfer_timeout: DurationText,
    /// The whole session.
    pub session_timeout: DurationText,
    /// What becomes of clients that may not relay, and are not exempt from limits, and speak before
    /// they are greeted. Who does is no mail server (RFC 5321 §3.1: the client waits): a program
    /// that only sends, or a browser that was led here.
    pub early_talkers: EarlyTalkers,
    /// So long such clients wait for their greeting, while it is seen whether they speak. Most that
    /// do speak at once; some only after seconds.
    pub greeting_delay: DurationText,
    /// What happens to a message with a CR or LF that stands alone. Servers that disagree about
    /// where lines end let a sender smuggle a second message inside the first. The first thing to
    /// look at when a client that used to work gets 550 5.6.0: `curl --upload-file` with a file
    /// whose lines end in LF (it needs `--crlf`), and scripts that write to a socket.
    pub bare_newline: BareNewline,
    /// What happens to a message with a NUL octet. No message may have one (RFC 5322 §4), and
    /// servers that drop them disagree with others about where a message ends.
    pub nul: Nul,
    /// Take recipients such as `user%elsewhere@here`, `elsewhere!user@here` and
    /// `"user@elsewhere"@here` from clients that may not relay, and send them on: a next hop that
    /// follows such a way makes an open relay of both. Mailboxes on this server are always taken.
    pub allow_routed_recipients: bool,
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
}

impl Default for ListenerText {
    fn default() -> ListenerText {
        ListenerText {
            name: None,
            kind: "smtp".into(),
            address: None,
            relay_from: Vec::new(),
            tls: "off".into(),
            banner: "ESMTP Postrider".into(),
            max_message_bytes: 52_428_800.into(),
            max_recipients: 1_000,
            max_command_bytes: 4_096,
            max_line_bytes: "1MiB".into(),
            max_hops: 100,
            max_commands: 1_000_000,
            max_errors: 20,
            max_refused_recipients: 1_000,
            max_messages: 0,
            max_sessions: 5_000,
            max_sessions_per_address: 50,
            connections_per_minute: 300,
            messages_per_minute: 1_000,
            recipients_per_minute: 10_000,
            refusals_per_minute: 300,
            exempt_from_limits: Vec::new(),
            command_timeout: "5m".into(),
            content_timeout: "5m".into(),
            transfer_timeout: "30m".into(),
            session_timeout: "6h".into(),
            early_talkers: EarlyTalkers::Reject,
            greeting_delay: "100ms".into(),
            bare_newline: BareNewline::Reject,
            nul: Nul::Reject,
            allow_routed_recipients: false,
            chunking: true,
            pipelining: true,
            smtputf8: true,
            dsn: true,
        }
    }
}

/// What becomes of clients that speak before they are greeted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EarlyTalkers {
    /// They are greeted with 554 5.5.1, and get 503 to whatever they say.
    #[default]
    Reject,
    /// They are heard, and nobody waits for the greeting.
    Accept,
}

/// What happens to a message with a CR or LF that stands alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BareNewline {
    /// It is read to its true end and refused with 550 5.6.0.
    #[default]
    Reject,
    /// Each becomes CR LF in what is stored.
    Normalize,
}

/// What happens to a message with a NUL octet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Nul {
    /// It is read to its true end and refused with 550 5.6.0.
    #[default]
    Reject,
    /// They are left out of what is stored.
    Strip,
    /// They are stored and sent on.
    Keep,
}
