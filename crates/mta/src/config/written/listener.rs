//! `[[listener]]` as it is written.

use crate::config::quantity::{DurationText, SizeText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A place where mail comes in: an address and port, who may use it, and its limits.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ListenerText {
    /// The name of this listener in logs, metrics and events. Without it: its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
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
    /// Received fields a message may carry already: more means that it is looping, 554 5.4.6.
    #[schemars(range(min = 1))]
    pub max_hops: u32,
    /// Commands in one session, 421 4.7.0 beyond it.
    #[schemars(range(min = 10))]
    pub max_commands: u32,
    /// Commands answered with an error in one session, 421 4.7.0 beyond it.
    #[schemars(range(min = 1))]
    pub max_errors: u32,
    /// Messages in one session, 421 4.7.0 beyond it. 0: no limit.
    pub max_messages: u32,
    /// Sessions at once on this listener, 421 4.3.2 beyond it.
    #[schemars(range(min = 1))]
    pub max_sessions: u32,
    /// Sessions at once on this listener from one client address, 421 4.7.0 beyond it.
    #[schemars(range(min = 1))]
    pub max_sessions_per_address: u32,
    /// Wait for the next command. RFC 5321 §4.5.3.2.7 asks for at least 5 minutes.
    pub command_timeout: DurationText,
    /// Wait for the next piece of a message (RFC 5321 §4.5.3.2.5).
    pub content_timeout: DurationText,
    /// From the start of a message's content to its end, however steadily it drips.
    pub transfer_timeout: DurationText,
    /// The whole session.
    pub session_timeout: DurationText,
    /// What happens to a message with a CR or LF that stands alone. Servers that disagree about
    /// where lines end let a sender smuggle a second message inside the first. The first thing to
    /// look at when a client that used to work gets 550 5.6.0: `curl --upload-file` with a file
    /// whose lines end in LF (it needs `--crlf`), and scripts that write to a socket.
    pub bare_newline: BareNewline,
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
    /// Offer DSN (RFC 3461).
    pub dsn: bool,
}

impl Default for ListenerText {
    fn default() -> ListenerText {
        ListenerText {
            name: None,
            address: None,
            relay_from: Vec::new(),
            tls: "off".into(),
            banner: "ESMTP Postrider".into(),
            max_message_bytes: 52_428_800.into(),
            max_recipients: 1_000,
            max_command_bytes: 4_096,
            max_line_bytes: "1MiB".into(),
            max_hops: 50,
            max_commands: 1_000_000,
            max_errors: 20,
            max_messages: 0,
            max_sessions: 5_000,
            max_sessions_per_address: 1_000,
            command_timeout: "5m".into(),
            content_timeout: "5m".into(),
            transfer_timeout: "30m".into(),
            session_timeout: "6h".into(),
            bare_newline: BareNewline::Reject,
            nul: Nul::Reject,
            chunking: true,
            pipelining: true,
            smtputf8: true,
            dsn: true,
        }
    }
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
