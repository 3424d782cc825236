//! `[x400]` as written in the configuration.

use config::quantity::DurationText;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who we are among MTAs of X.400, for listeners with `kind = "p1"` and `x400` routes. See `docs/x400.md`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400Text {
    /// The name of this MTA in internal trace information: at most 32 printable characters. Required where
    /// X.400 is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mta: Option<String>,
    /// Our management domain: country, ADMD, and PRMD if there is one, such as
    /// `"/PRMD=Example/ADMD= /C=GB/"`. Required where X.400 is spoken.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "O/R address"))]
    pub domain: Option<String>,
    /// How messages go between X.400 and internet mail (MIXER, RFC 2156). Without it they don't.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gateway: Option<X400GatewayText>,
    /// Who may bind here, and whom routes lead to.
    pub peer: Vec<X400PeerText>,
}

/// A gateway between X.400 and internet mail (MIXER, RFC 2156).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400GatewayText {
    /// Its address in X.400, such as `"/O=gw/PRMD=Example/ADMD= /C=GB/"`: addresses of internet mail without a mapping
    /// are put below it. Required.
    #[schemars(extend("title" = "O/R address"))]
    pub address: String,
    /// Its domain: O/R addresses without a mapping are put before it. Required.
    pub domain: String,
    /// A file with mappings between domains and O/R addresses (MCGAM, RFC 2156 appendix F).
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub mcgam: Option<String>,
    /// A file with the gateways that are preferred for domains, or for O/R addresses (RFC 2156 appendix F): mail for
    /// a domain that stands there is addressed below that gateway's address, not below ours.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub gateways: Option<String>,
    /// Which O/R addresses anybody may send to who writes one before a domain (`"/S=bob/O=Beta/…/"@gw.example.org`): those
    /// below these, such as `"/O=Beta/PRMD=TestB/ADMD= /C=GB/"`. Without any: none, but for what the tables map. Clients
    /// that may relay send to all.
    #[schemars(extend("items" = { "type": "string", "title": "O/R address" }))]
    pub strangers: Vec<String>,
}

/// How RTSE is spoken (X.419): it can't be negotiated, both ends must agree.
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

/// Another MTA: it may bind to listeners with `kind = "p1"`, and routes may lead to it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct X400PeerText {
    /// Its name, for routes, logs and events. Required.
    pub name: String,
    /// Where it listens, in the order in which they are tried; the port is 102 unless another is given. Without
    /// any it is never called, and no route may lead to it.
    #[schemars(extend("items" = { "type": "string", "title": "host:port" }))]
    pub hosts: Vec<String>,
    /// How RTSE is spoken with it. As a listener all modes are taken from it.
    pub mode: X400ModeText,
    /// The transport selector that it is called by: text, or `"hex:00ff"`. Empty: none.
    pub t_selector: String,
    /// The session selector that it is called by, at most 16 octets.
    pub s_selector: String,
    /// The presentation selector that it is called by.
    pub p_selector: String,
    /// The name that it binds with, and answers with when it is called. Required.
    pub their_name: String,
    /// The password that belongs to it. Required, but for peers with `allow_no_password`.
    pub their_password: String,
    /// A file that has it, in one line, which not everybody may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub their_password_file: Option<String>,
    /// It shows no password: whoever knows its name may send as this peer, from wherever `from` allows.
    pub allow_no_password: bool,
    /// Addresses and networks from which it may bind. Without any: from everywhere.
    #[schemars(extend("items" = { "type": "string", "title": "network" }))]
    pub from: Vec<String>,
    /// The name that we bind and answer with. Without it: `mta` of `[x400]`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub our_name: Option<String>,
    /// The password that belongs to it.
    pub our_password: String,
    /// A file that has it, in one line, which not everybody may read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("title" = "file"))]
    pub our_password_file: Option<String>,
    /// Associations that are opened to it at once, over all shards: one more as long as messages wait that no
    /// association is there for.
    #[schemars(range(min = 1, max = 1_000))]
    pub max_associations: u32,
    /// The size between checkpoints that is proposed, in KiB. 0: none, which is fastest. The peer may have
    /// others.
    #[schemars(range(min = 0, max = 1_024))]
    pub checkpoint_kib: u16,
    /// How many checkpoints may be unconfirmed.
    #[schemars(range(min = 1, max = 64))]
    pub window: u8,
    /// The longest transport data unit that is proposed (X.224 §13.3.4). Older peers take 2,048 at most.
    #[schemars(range(min = 128, max = 65_408))]
    pub tpdu_bytes: u32,
    /// Wait for a connection, and for the association on it.
    pub connect_timeout: DurationText,
    /// Wait for an answer in an association: a checkpoint's, the end of a transfer's.
    pub answer_timeout: DurationText,
    /// An association that has nothing to carry is released after it.
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
