//! Settings of SMTP and LMTP routes: `smtp`, `lmtp` and `mx` in `[[route]]`.

use super::hosts::{HostTerms, Hosts};
use super::smarthost::{Smarthost, SmarthostText, TlsStart};
use super::smarthost_login::Login;
use config::quantity::{Period, write_duration};
use config::{
    ChannelSection, Destination, EightBit, Explainer, HostPort, Reader, RouteLimits, SecretFile,
    Settings, SharedLimits, TlsSources, Values, values_in,
};
use mail::{Domain, Mailbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smtp::client::{ClientConfig, LoginTerms, StartTls};
use std::sync::Arc;

/// Choice among several hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Balance {
    /// Spread connections evenly over the hosts that work.
    #[default]
    RoundRobin,
    /// Use the first working host in the order given, and later ones only while it fails.
    Failover,
}

/// TLS to a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RouteTls {
    /// Never, even if offered.
    Off,
    /// If offered, with any certificate. After a failed handshake mail goes in clear, and STARTTLS is not used with
    /// this host for an hour (RFC 7435), unless the host then refuses mail without TLS. Mail rejected in clear is
    /// retried before it bounces. A host that used TLS within the last day gets mail in clear only after TLS has failed
    /// for five minutes.
    #[default]
    Opportunistic,
    /// Always, with any certificate. Mail is deferred if TLS fails.
    Required,
    /// Always, with a certificate that is valid for this machine's root certificates and the host's name: the name in
    /// the route, the MX record, or the address. Mail is deferred otherwise.
    Verified,
    /// By the hosts' TLSA records (RFC 7672), if these and the MX records are secured by DNSSEC: always, with a
    /// matching certificate. Mail is deferred otherwise, and if a DNS answer is bogus. Hosts without TLSA records are
    /// treated as with `"opportunistic"`. Requires validating name servers (`validating` of `[dns]`). Not available
    /// with `lmtp`.
    Dane,
    /// By the recipient domain's MTA-STS policy (RFC 8461). With a policy in force, mail goes only to hosts in the
    /// policy with a certificate that is valid for the host's name, and is deferred otherwise. Hosts with TLSA records
    /// are treated as with `"dane"`, domains without a policy as with `"opportunistic"`. Available with `mx` only.
    MtaSts,
}

impl RouteTls {
    /// The value as written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RouteTls::Off => "off",
            RouteTls::Opportunistic => "opportunistic",
            RouteTls::Required => "required",
            RouteTls::Verified => "verified",
            RouteTls::Dane => "dane",
            RouteTls::MtaSts => "mta-sts",
        }
    }

    /// Returns true if mail never goes in clear, whatever policies the DNS has.
    fn is_sure(self) -> bool {
        matches!(self, RouteTls::Required | RouteTls::Verified | RouteTls::Dane)
    }

    fn sources(self) -> TlsSources {
        TlsSources {
            dane: matches!(self, RouteTls::Dane | RouteTls::MtaSts),
            mta_sts: self == RouteTls::MtaSts,
            public_only: false,
        }
    }
}

/// Connection settings that `smtp`, `lmtp` and `mx` share. 0 means "no limit" for all limits that allow it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Peer {
    /// Port for hosts without one.
    #[schemars(range(min = 1))]
    pub port: u16,
    /// TLS to the peer, by STARTTLS (RFC 3207) unless `tls_start` of `smtp` is set otherwise.
    pub tls: RouteTls,
    /// Maximum number of connections of this route to a set of hosts, over all shards. Domains with the same hosts, in
    /// any order, share the limit.
    #[schemars(range(min = 1))]
    pub max_connections: u32,
    /// Maximum number of connections being opened at the same time. 0 for no limit.
    pub max_opens: u32,
    /// Maximum number of messages sent over one connection. 0 for no limit.
    pub messages_per_connection: u32,
    /// Maximum number of messages per second of this route to a set of hosts, over all shards. 0 for no limit.
    #[schemars(range(min = 0.0))]
    pub messages_per_second: f64,
    /// Maximum number of recipients of one message in a transaction. Every server must accept 100 (RFC 5321
    /// §4.5.3.1.8). A lower limit of the peer, by LIMITS (RFC 9422) or by 452 to the first recipient beyond it, is
    /// respected.
    #[schemars(range(min = 1))]
    pub recipients_per_message: u32,
    /// Adapt the number of connections to the peer: more after successes, fewer after 421 and timeouts, up to
    /// `max_connections`.
    pub adaptive: bool,
    /// Action for 8-bit content if the peer does not offer 8BITMIME, and for lines over 998 octets.
    pub eight_bit: EightBit,
    /// Use BDAT if the peer offers CHUNKING (RFC 3030).
    pub chunking: bool,
    /// Send commands without waiting for replies if the peer offers PIPELINING (RFC 2920).
    pub pipelining: bool,
    /// Timeout for a connection.
    pub connect_timeout: Period,
    /// Timeout for the greeting (RFC 5321 §4.5.3.2.1).
    pub greeting_timeout: Period,
    /// Timeout for the reply to a command (RFC 5321 §4.5.3.2.2, §4.5.3.2.3).
    pub command_timeout: Period,
    /// Timeout for 354 after DATA (RFC 5321 §4.5.3.2.4).
    pub data_timeout: Period,
    /// Timeout for sending the next piece of content (RFC 5321 §4.5.3.2.5).
    pub content_timeout: Period,
    /// Timeout for the final reply, which accepts or rejects the message (RFC 5321 §4.5.3.2.6).
    pub final_timeout: Period,
    /// Timeout for a transaction from MAIL to the last reply, even with slow progress. Extended by 2 s for each 1,000
    /// octets of content, up to 6 hours. A transaction also ends when its message expires before all of the content is
    /// sent.
    pub transaction_timeout: Period,
    /// Time after which an idle connection is closed.
    pub idle_timeout: Period,
}

impl Default for Peer {
    fn default() -> Peer {
        Peer {
            port: 25,
            tls: RouteTls::Opportunistic,
            max_connections: 50,
            max_opens: 20,
            messages_per_connection: 1_000,
            messages_per_second: 0.0,
            recipients_per_message: 100,
            adaptive: false,
            eight_bit: EightBit::Encode,
            chunking: true,
            pipelining: true,
            connect_timeout: "30s".into(),
            greeting_timeout: "5m".into(),
            command_timeout: "5m".into(),
            data_timeout: "2m".into(),
            content_timeout: "3m".into(),
            final_timeout: "10m".into(),
            transaction_timeout: "20m".into(),
            idle_timeout: "10s".into(),
        }
    }
}

impl Peer {
    /// Reports errors that the types do not exclude.
    fn check(&self, reader: &mut Reader<'_, '_>) {
        for (key, timeout) in [
            ("connect_timeout", &self.connect_timeout),
            ("greeting_timeout", &self.greeting_timeout),
            ("command_timeout", &self.command_timeout),
            ("data_timeout", &self.data_timeout),
            ("content_timeout", &self.content_timeout),
            ("final_timeout", &self.final_timeout),
            ("transaction_timeout", &self.transaction_timeout),
        ] {
            reader.check_timeout(key, timeout);
        }
        reader.check("idle_timeout", &self.idle_timeout);
    }
}

/// Settings of routes to hosts named in the configuration.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Named {
    /// Choice among several hosts.
    pub balance: Balance,
    /// If the peer offers PIPELINING and CHUNKING, send content of up to 1 MiB right after the recipients, without
    /// waiting for their replies. This saves a round trip, but RFC 3030 §2 forbids it. A peer that rejects a chunk
    /// without discarding it reads it as commands, and the author of the message can then send commands as this server.
    /// Use it only for hosts of your own that are known to discard rejected chunks, as Postrider does.
    pub unasked_content: bool,
    /// Maximum number of transactions sent over one connection before the peer has replied to the first, if it offers
    /// PIPELINING and CHUNKING. Values above 1 are for long-distance links and require `unasked_content = true`. They
    /// save a round trip per message, but if a connection breaks, all these transactions are in doubt, and their
    /// messages may be delivered twice.
    #[schemars(range(min = 1, max = 100))]
    pub transactions_in_flight: u32,
}

impl Default for Named {
    fn default() -> Named {
        Named { balance: Balance::RoundRobin, unasked_content: false, transactions_in_flight: 1 }
    }
}

impl Named {
    fn check(&self, reader: &mut Reader<'_, '_>) {
        if self.transactions_in_flight > 1 && !self.unasked_content {
            let help = "content is sent before its recipients are accepted; if the hosts are \
             known to discard rejected content, add `unasked_content = true`";
            reader.error(
                "transactions_in_flight",
                "`transactions_in_flight` above 1 needs `unasked_content = true`",
                help,
            );
        }
    }
}

/// Settings of one route.
#[derive(Clone, Debug, PartialEq)]
pub struct Relay {
    key: &'static str,
    hosts: Hosts,
    /// A name with MX hosts, in place of `hosts`.
    mx_of: Option<Domain>,
    /// Settings for hosts named in the configuration.
    pub named: Named,
    /// Private and local addresses are ignored.
    pub refuse_private: bool,
    /// Settings of `smtp` only.
    pub smarthost: Smarthost,
    /// Settings of all three kinds.
    pub peer: Peer,
}

impl Relay {
    /// Returns true if the hosts are MX hosts.
    #[must_use]
    pub fn is_by_mx(&self) -> bool {
        self.key == MxText::KEY
    }

    /// Returns true for LMTP (RFC 2033).
    #[must_use]
    pub fn is_lmtp(&self) -> bool {
        self.key == LmtpText::KEY
    }

    /// Settings of a session with a host of this name. `hostname` is used in EHLO. STARTTLS is off.
    #[must_use]
    pub fn client_config(&self, hostname: &Domain, peer: &str) -> ClientConfig {
        ClientConfig {
            hostname: hostname.as_str().to_owned(),
            peer: Box::from(peer),
            lmtp: self.is_lmtp(),
            starttls: StartTls::Off,
            is_encrypted: self.smarthost.tls_start == TlsStart::Implicit,
            login: match &self.smarthost.login {
                None => LoginTerms::Off,
                Some(login) if login.in_clear => LoginTerms::Anyway,
                Some(_) => LoginTerms::Encrypted,
            },
            chunking: self.peer.chunking,
            pipelining: self.peer.pipelining,
            unasked_content: self.named.unasked_content,
            eight_bit_as_is: self.peer.eight_bit == EightBit::AsIs,
            reply_line_bytes_max: 2048,
            reply_lines_max: 100,
            greeting_timeout: self.peer.greeting_timeout.get(),
            command_timeout: self.peer.command_timeout.get(),
            data_timeout: self.peer.data_timeout.get(),
            content_timeout: self.peer.content_timeout.get(),
            final_timeout: self.peer.final_timeout.get(),
            transaction_timeout: self.peer.transaction_timeout.get(),
        }
    }
}

impl Settings for Relay {
    fn key(&self) -> &'static str {
        self.key
    }

    fn has_replies(&self) -> bool {
        true
    }

    fn destination(&self) -> Destination<'_> {
        if self.is_by_mx() {
            return Destination::Mx { port: self.peer.port };
        }
        if let Some(name) = &self.mx_of {
            return Destination::MxOf { name, port: self.peer.port };
        }
        match &self.hosts {
            Hosts::Fixed(hosts) => Destination::Hosts(match self.named.balance {
                Balance::Failover => hosts.chunks(1).collect(),
                Balance::RoundRobin => vec![hosts],
            }),
            Hosts::ByEntry { .. } => Destination::ByEntry,
        }
    }

    fn hosts_by_entry(&self, values: Values<'_, '_>) -> Result<Vec<Vec<HostPort>>, String> {
        let hosts = self.hosts.of(values).map_err(|error| error.to_string())?;
        Ok(match self.named.balance {
            Balance::Failover => hosts.into_iter().map(|host| vec![host]).collect(),
            Balance::RoundRobin => vec![hosts],
        })
    }

    fn limits(&self) -> RouteLimits {
        RouteLimits {
            shared: Some(SharedLimits {
                connections_max: self.peer.max_connections,
                messages_per_second: self.peer.messages_per_second,
            }),
            opens_max: self.peer.max_opens,
            messages_per_connection: self.peer.messages_per_connection,
            recipients_per_message: self.peer.recipients_per_message,
            adaptive: self.peer.adaptive,
        }
    }

    fn tls_sources(&self) -> TlsSources {
        TlsSources { public_only: self.refuse_private, ..self.peer.tls.sources() }
    }

    fn tls_sources_required(&self) -> Option<TlsSources> {
        match self.is_lmtp() {
            true => None,
            false if self.is_by_mx() => {
                Some(TlsSources { dane: true, mta_sts: true, public_only: self.refuse_private })
            }
            false => Some(self.tls_sources()),
        }
    }

    fn eight_bit(&self) -> EightBit {
        self.peer.eight_bit
    }

    fn may_be_asked(&self) -> bool {
        !self.smarthost.is_for_users()
    }

    fn secret_file(&self) -> Option<&Arc<SecretFile>> {
        self.smarthost.login.as_ref()?.secret()
    }

    fn has_logins_by_sender(&self) -> bool {
        self.smarthost.login.as_ref().is_some_and(Login::is_by_sender)
    }

    fn may_be_routed_on(&self) -> bool {
        !self.is_lmtp()
    }

    fn explain_destination(&self, _: &Mailbox, explainer: &mut Explainer<'_>) {
        if let Some(name) = &self.mx_of {
            return explainer.own_key("mx_of", format!("MX hosts of {name}"));
        }
        let hosts = match explainer.values() {
            None => self.hosts.to_string(),
            known => match self.hosts.of(&values_in(known)) {
                Ok(hosts) => Hosts::Fixed(hosts).to_string(),
                Err(error) => error.to_string(),
            },
        };
        explainer.own_key("hosts", hosts);
    }

    fn explain_limits(&self, explainer: &mut Explainer<'_>) {
        let peer = &self.peer;
        explainer.own_key("tls", peer.tls.word().to_owned());
        self.smarthost.explain(explainer);
        explainer.own_limit("max_connections", peer.max_connections);
        explainer.own_limit("max_opens", peer.max_opens);
        explainer.own_limit("messages_per_connection", peer.messages_per_connection);
        if !self.is_by_mx() {
            let in_flight = self.named.transactions_in_flight;
            explainer.own_key("unasked_content", self.named.unasked_content.to_string());
            explainer.own_key("transactions_in_flight", in_flight.to_string());
        }
        let rate = match peer.messages_per_second {
            0.0 => "no limit".to_owned(),
            rate => rate.to_string(),
        };
        explainer.own_key("messages_per_second", rate);
        explainer.own_limit("recipients_per_message", peer.recipients_per_message);
        explainer.own_key("connect_timeout", write_duration(peer.connect_timeout.get()));
    }

    fn is_like(&self, other: &dyn Settings) -> bool {
        other.of::<Relay>() == Some(self)
    }
}

/// Relay to given hosts over SMTP.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct SmtpText {
    /// The hosts, at least one: addresses, or names, with or without a port. Names are resolved to addresses without MX
    /// lookup. Examples: `"192.0.2.1:2525"`, `"[2001:db8::1]:25"`, `"smtp.example.org"`. Required, unless `mx_of` is set.
    ///
    /// `"{mailhost}"` is a value of the recipient's entry in the table of `recipients`, looked up before each attempt.
    /// Values are attributes, columns or fields, or `{value}` for the text of an entry without named values.
    /// `"{mailhost}:2525"` sets the port for values without one. Several values, at most 16, are several hosts. A
    /// message for a recipient that is no longer in the table is bounced (5.1.1). It is deferred if the table gives no
    /// answer (4.4.3), or the value is missing or invalid (4.3.5).
    #[schemars(extend("items" = { "type": "string", "title": "host" }))]
    hosts: Vec<String>,
    /// Name of a relay: its MX hosts are used instead of `hosts`, for mail to any domain (Postfix's `relayhost` without
    /// brackets).
    /// A name without MX records is its own host. Mail is deferred while the name has no usable host.
    #[serde(skip_serializing_if = "Option::is_none")]
    mx_of: Option<String>,
    #[serde(flatten)]
    smarthost: SmarthostText,
    #[serde(flatten)]
    named: Named,
    #[serde(flatten)]
    peer: Peer,
}

impl ChannelSection for SmtpText {
    const KEY: &'static str = "smtp";
    const SUMMARY: &'static str = "Relay to given hosts over SMTP.";
    const EXAMPLE: &'static str = "smtp = { hosts = [\"192.0.2.1:25\"] }";
    type Text = SmtpText;

    fn read(text: SmtpText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let terms = HostTerms { port: text.peer.port, takes_sockets: false };
        let mx_of = text.mx_of.as_deref().and_then(|name| mx_name(name, &text, reader));
        let hosts = match text.mx_of {
            Some(_) => Hosts::Fixed(Vec::new()),
            None => Hosts::read(&text.hosts, terms, reader),
        };
        let smarthost = Smarthost::read(text.smarthost, text.peer.tls.is_sure(), &hosts, reader);
        let relay = relay(SmtpText::KEY, hosts, text.named, text.peer, reader);
        Some(Arc::new(Relay { smarthost, mx_of, ..relay }))
    }
}

/// The name in `mx_of`.
fn mx_name(name: &str, text: &SmtpText, reader: &mut Reader<'_, '_>) -> Option<Domain> {
    if !text.hosts.is_empty() {
        let help = "`mx_of` takes the hosts from the DNS: leave one of the two out";
        reader.error("mx_of", "both `hosts` and `mx_of` are set", help);
    }
    if text.peer.tls == RouteTls::Verified {
        let help = "an attacker can forge MX records and hold a certificate for the forged \
                    host; \"dane\" authenticates the hosts, and `hosts` needs no MX records";
        reader.warn("tls", "the verified names come from the DNS", help);
    }
    let domain = Domain::parse(name).ok().filter(|domain| domain.to_ascii().is_ok());
    if domain.is_none() {
        let help = "write a name, for example \"relay.example.net\"; a port belongs into `port`, \
                    an address into `hosts`";
        reader.error("mx_of", format!("\"{name}\" is not a domain"), help);
    }
    domain
}

/// Deliver to given hosts over LMTP (RFC 2033), with one reply for each recipient.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct LmtpText {
    /// The hosts, at least one: an address or a name, with or without a port, or the path of a Unix socket,
    /// `"/run/dovecot/lmtp"`, that the server's user may write to. `"{mailhost}"` and `"{mailhost}:24"` are values of
    /// the recipient's entry, as with `smtp`. Required.
    #[schemars(extend("items" = { "type": "string", "title": "host" }))]
    hosts: Vec<String>,
    #[serde(flatten)]
    named: Named,
    #[serde(flatten)]
    peer: Peer,
}

impl ChannelSection for LmtpText {
    const KEY: &'static str = "lmtp";
    const SUMMARY: &'static str = "Deliver to given hosts over LMTP (RFC 2033).";
    const EXAMPLE: &'static str = "lmtp = { hosts = [\"127.0.0.1:24\"] }";
    const DEFAULTS: &'static str = "port = 24";
    type Text = LmtpText;

    fn read(text: LmtpText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let terms = HostTerms { port: text.peer.port, takes_sockets: true };
        let hosts = Hosts::read(&text.hosts, terms, reader);
        Some(Arc::new(relay(LmtpText::KEY, hosts, text.named, text.peer, reader)))
    }
}

/// Relay over SMTP to the MX hosts of the recipient's domain (RFC 5321 §5).
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct MxText {
    /// Ignore private and local addresses (RFC 1918, RFC 4193, loopback, link-local …) in MX records and address
    /// literals. The owner of a domain could otherwise use them to probe internal hosts, for example with bounces. Mail
    /// for these hosts is bounced with 5.4.4. MTA-STS policies are not fetched from these addresses either.
    refuse_private: bool,
    #[serde(flatten)]
    peer: Peer,
}

impl ChannelSection for MxText {
    const KEY: &'static str = "mx";
    const SUMMARY: &'static str =
        "Relay over SMTP to the hosts that DNS names for the recipient's domain.";
    const EXAMPLE: &'static str = "mx = {}";
    const DEFAULTS: &'static str = "max_connections = 20\nadaptive = true";
    const ELSEWHERE: &'static [(&'static [&'static str], &'static str)] = &[(
        &["unasked_content", "transactions_in_flight"],
        "allowed in `smtp` and `lmtp` only: content before an accepted recipient is for \
         configured hosts, not for MX hosts",
    )];
    type Text = MxText;

    fn read(text: MxText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn Settings>> {
        let named = Named { balance: Balance::Failover, ..Named::default() };
        text.peer.check(reader);
        if text.peer.tls == RouteTls::Verified {
            let help = "most MX records are not secure by DNSSEC: an attacker can forge them and \
             hold a certificate for the forged host; \"dane\" and \"mta-sts\" authenticate the \
             hosts";
            reader.warn("tls", "the verified names come from the DNS", help);
        }
        Some(Arc::new(Relay {
            key: MxText::KEY,
            hosts: Hosts::Fixed(Vec::new()),
            mx_of: None,
            named,
            refuse_private: text.refuse_private,
            smarthost: Smarthost::default(),
            peer: text.peer,
        }))
    }
}

fn relay(
    key: &'static str,
    hosts: Hosts,
    named: Named,
    peer: Peer,
    reader: &mut Reader<'_, '_>,
) -> Relay {
    named.check(reader);
    peer.check(reader);
    check_tls(peer.tls, key, &hosts, reader);
    let smarthost = Smarthost::default();
    Relay { key, hosts, mx_of: None, named, refuse_private: false, smarthost, peer }
}

/// Checks `tls`: some values are for MX hosts only, or for hosts with a name.
fn check_tls(tls: RouteTls, key: &str, hosts: &Hosts, reader: &mut Reader<'_, '_>) {
    match tls {
        RouteTls::MtaSts => {
            let help = "MTA-STS is for the MX hosts of domains; \"verified\" is the equivalent \
             for configured hosts";
            reader.error("tls", format!("`tls = \"mta-sts\"` is for `mx`, not for `{key}`"), help);
        }
        RouteTls::Dane if key == LmtpText::KEY => {
            let text = "`tls = \"dane\"` is for `mx` and `smtp`, not for `lmtp`";
            reader.error(
                "tls",
                text,
                "TLSA records are looked up for mail exchange only (RFC 7672)",
            );
        }
        RouteTls::Dane => {
            if let Some(host) = hosts.address() {
                let text = format!("{host} is an address, which has no TLSA records");
                reader.error("tls", text, "write the host name, or use \"verified\"");
            }
        }
        RouteTls::Off | RouteTls::Opportunistic | RouteTls::Required | RouteTls::Verified => {}
    }
}
