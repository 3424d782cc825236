//! `[x400]` as written in the configuration.

use config::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Identity of this MTA in X.400, for listeners with `kind = "p1"` and `x400` routes. See `docs/x400.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400Text {
    /// Name of this MTA in internal trace information, at most 32 printable characters. Required for X.400.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mta: Option<String>,
    /// Management domain of this MTA: country, ADMD, and PRMD if it has one, for example `"/PRMD=Example/ADMD=
    /// /C=GB/"`. Required for X.400.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "O/R address"))]
    pub domain: Option<String>,
    /// Gateway to internet mail (MIXER, RFC 2156). Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<X400GatewayText>,
    /// MTAs that may bind to listeners, and that routes lead to.
    pub peer: Vec<X400PeerText>,
}

/// A gateway between X.400 and internet mail (MIXER, RFC 2156).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400GatewayText {
    /// Its O/R address, for example `"/O=gw/PRMD=Example/ADMD= /C=GB/"`. Internet addresses without a mapping are
    /// encoded below it. Required.
    #[schemars(extend("title" = "O/R address"))]
    pub address: String,
    /// Its domain. O/R addresses without a mapping are encoded as local parts in it. Required.
    pub domain: String,
    /// File with mappings between domains and O/R addresses (MCGAM, RFC 2156 appendix F).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub mcgam: Option<String>,
    /// File with preferred gateways for domains or O/R addresses (RFC 2156 appendix F). Mail for a listed domain is
    /// addressed below that gateway's address instead of this one's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub gateways: Option<String>,
    /// O/R addresses that clients without relay permission may send to in a local part
    /// (`"/S=bob/O=Beta/…/"@gw.example.org`): those below these addresses, for example `"/O=Beta/PRMD=TestB/ADMD=
    /// /C=GB/"`. Default: only addresses with a mapping. Clients that may relay can send to all.
    #[schemars(extend("items" = { "type": "string", "title": "O/R address" }))]
    pub strangers: Vec<String>,
}

/// RTSE mode (X.419). It can't be negotiated, so both ends must be set to the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum X400ModeText {
    /// Normal mode, since 1988.
    #[default]
    #[serde(rename = "normal")]
    Normal,
    /// X.410 mode with the envelopes of 1988: application protocol 12.
    #[serde(rename = "x410")]
    X410,
    /// X.410 mode with the envelopes of 1984: application protocol 1.
    #[serde(rename = "x410-1984")]
    X4101984,
}

/// A peer MTA: it may bind to listeners with `kind = "p1"`, and routes may lead to it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400PeerText {
    /// Its name, for routes, logs and events. Required.
    pub name: String,
    /// Its addresses, in the order to try; the default port is 102. Without any, it is never called, and no route may
    /// lead to it.
    #[schemars(extend("items" = { "type": "string", "title": "host:port" }))]
    pub hosts: Vec<String>,
    /// RTSE mode for calling it. Listeners accept all modes.
    pub mode: X400ModeText,
    /// Transport selector for calling it: text, or `"hex:00ff"`. Empty for none.
    pub t_selector: String,
    /// Session selector for calling it, at most 16 octets.
    pub s_selector: String,
    /// Presentation selector for calling it.
    pub p_selector: String,
    /// MTA name that it binds with, and answers with when called. Required.
    pub their_name: String,
    /// Its password. Required, unless `allow_no_password` is set.
    pub their_password: String,
    /// File with its password in one line, not readable by all users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub their_password_file: Option<String>,
    /// Accept this peer without a password. Any host in the networks of `from` that knows the name can then send as
    /// this peer.
    pub allow_no_password: bool,
    /// Addresses and networks from which it may bind. Default: all.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub from: Vec<String>,
    /// MTA name that this server shows to it. Default: `mta` of `[x400]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_name: Option<String>,
    /// Password that this server shows to it.
    pub our_password: String,
    /// File with that password in one line, not readable by all users.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub our_password_file: Option<String>,
    /// Maximum number of associations to it, over all shards. Another one is opened while messages wait for an
    /// association.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_associations: u32,
    /// Proposed checkpoint size in KiB. 0 for none, which is fastest. The peer may choose another value.
    #[schemars(range(min = 0, max = 1_024))]
    pub checkpoint_kib: u16,
    /// Maximum number of unconfirmed checkpoints.
    #[schemars(range(min = 1, max = 64))]
    pub window: u8,
    /// Proposed maximum size of a transport data unit (X.224 §13.3.4). Older peers accept at most 2,048.
    #[schemars(range(min = 128, max = 65_408))]
    pub tpdu_bytes: u32,
    /// Timeout for a connection, and for the association on it.
    pub connect_timeout: DurationText,
    /// Timeout for a reply in an association, for example to a checkpoint or to the end of a transfer.
    pub answer_timeout: DurationText,
    /// Time after which an idle association is released.
    pub idle_timeout: DurationText,
}

impl Default for X400PeerText {
    fn default() -> X400PeerText {
        X400PeerText {
            name: String::new(),
            hosts: Vec::new(),
            mode: X400ModeText::Normal,
            t_selector: String::new(),
            s_selector: String::new(),
            p_selector: String::new(),
            their_name: String::new(),
            their_password: String::new(),
            their_password_file: None,
            allow_no_password: false,
            from: Vec::new(),
            our_name: None,
            our_password: String::new(),
            our_password_file: None,
            max_associations: 10,
            checkpoint_kib: 0,
            window: 3,
            tpdu_bytes: 65_408,
            connect_timeout: "30s".into(),
            answer_timeout: "5m".into(),
            idle_timeout: "30s".into(),
        }
    }
}
