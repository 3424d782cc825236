//! `[[listener]]`.

use crate::Schema;
use crate::resolver::Resolver;
use crate::settings::Listener;
use crate::written::{EarlyTalkers, ListenerText};
use ipnet::{IpNet, Ipv4Net};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

const GREETING_DELAY_MAX: Duration = Duration::from_secs(60);

const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver<'_> {
    pub(super) fn listeners(&mut self, schema: &Schema, written: &[ListenerText]) -> Vec<Listener> {
        if written.is_empty() {
            let help = "add a [[listener]] with an address";
            self.error("listener", "there is no listener: nothing could be received", help);
        }
        let mut listeners: Vec<Listener> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("listener[{index}]");
            let listener = self.listener(&at, text);
            self.kind(schema, &format!("{at}.kind"), &text.kind);
            for other in &listeners {
                if other.name == listener.name {
                    let message = format!("a listener named \"{}\" exists already", other.name);
                    let help = format!("on line {}", other.line);
                    self.error(&format!("{at}.name"), message, &help);
                }
                if other.address == listener.address && listener.address.port() != 0 {
                    let message = format!("two listeners on {}", other.address);
                    let help = format!("the other is on line {}", other.line);
                    self.error(&format!("{at}.address"), message, &help);
                }
            }
            listeners.push(listener);
        }
        self.listener_names = listeners.iter().map(|listener| Arc::clone(&listener.name)).collect();
        listeners
    }

    fn listener(&mut self, at: &str, text: &ListenerText) -> Listener {
        let key = |name: &str| format!("{at}.{name}");
        let address = match &text.address {
            Some(address) => self.socket_address(&key("address"), address),
            None => {
                let help = "say where to listen, such as address = \"127.0.0.1:25\"";
                self.error(at, "a listener without `address`", help);
                None
            }
        };
        let address = address.unwrap_or(NO_ADDRESS);
        self.tls_off(&key("tls"), &text.tls);
        self.printable(&key("banner"), &text.banner, 400);
        let name = match &text.name {
            Some(name) => {
                self.printable(&key("name"), name, 64);
                name.as_str().into()
            }
            None => address.to_string().into(),
        };
        Listener {
            name,
            kind: text.kind.as_str().into(),
            address,
            relay_from: self.relay_from(at, &text.relay_from),
            banner: text.banner.as_str().into(),
            max_message_bytes: self.size_within(
                &key("max_message_bytes"),
                &text.max_message_bytes,
                // RFC 5321 §4.5.3.1.7: 64 KiB is the least that a server must take.
                64 << 10,
                1 << 40,
            ),
            max_recipients: text.max_recipients,
            max_command_bytes: text.max_command_bytes,
            max_line_bytes: self.line_bytes(&key("max_line_bytes"), text),
            max_hops: text.max_hops,
            max_commands: text.max_commands,
            max_errors: text.max_errors,
            max_refused_recipients: text.max_refused_recipients,
            max_messages: text.max_messages,
            max_sessions: text.max_sessions,
            max_sessions_per_address: text.max_sessions_per_address,
            connections_per_minute: text.connections_per_minute,
            messages_per_minute: text.messages_per_minute,
            recipients_per_minute: text.recipients_per_minute,
            refusals_per_minute: text.refusals_per_minute,
            exempt_from_limits: self
                .networks(&key("exempt_from_limits"), &text.exempt_from_limits)
                .into_iter()
                .map(|(_, network)| network)
                .collect(),
            command_timeout: self.timeout(&key("command_timeout"), &text.command_timeout),
            content_timeout: self.timeout(&key("content_timeout"), &text.content_timeout),
            transfer_timeout: self.timeout(&key("transfer_timeout"), &text.transfer_timeout),
            session_timeout: self.timeout(&key("session_timeout"), &text.session_timeout),
            greeting_delay: self.greeting_delay(&key("greeting_delay"), text),
            bare_newline: text.bare_newline,
            nul: text.nul,
            allow_routed_recipients: text.allow_routed_recipients,
            chunking: text.chunking,
            pipelining: text.pipelining,
            smtputf8: text.smtputf8,
            dsn: text.dsn,
            line: self.document.line(at).unwrap_or(0),
        }
    }

    fn kind(&mut self, schema: &Schema, path: &str, kind: &str) {
        let known = schema.protocols();
        if !known.contains(&kind) {
            let known: Vec<String> = known.iter().map(|kind| format!("\"{kind}\"")).collect();
            let message = format!("no listener speaks \"{kind}\"");
            self.error(path, message, &format!("known are {}", known.join(", ")));
        }
    }

    /// RFC 5321 §4.5.3.2.1: a client waits five minutes; one of them is enough to see what it does.
    fn greeting_delay(&mut self, path: &str, text: &ListenerText) -> Duration {
        let delay = self.duration(path, &text.greeting_delay);
        if delay > GREETING_DELAY_MAX {
            self.error(path, "a client waits no longer than a minute for its greeting", "");
        }
        match text.early_talkers {
            EarlyTalkers::Reject => delay,
            EarlyTalkers::Accept => Duration::ZERO,
        }
    }

    /// RFC 5321 §4.5.3.1.6: lines of 998 bytes must always pass.
    fn line_bytes(&mut self, path: &str, text: &ListenerText) -> u64 {
        let before = self.problems.len();
        let bytes = self.size(path, &text.max_line_bytes);
        if self.problems.len() == before && (1..998).contains(&bytes) {
            let help = "every server must take lines of 998 bytes (RFC 5321 §4.5.3.1.6)";
            self.error(path, format!("{bytes} is too short for a line"), help);
        }
        bytes
    }

    fn relay_from(&mut self, at: &str, written: &[String]) -> Vec<IpNet> {
        let found = self.networks(&format!("{at}.relay_from"), written);
        let mut networks = Vec::with_capacity(found.len());
        for (path, network) in found {
            if network.prefix_len() == 0 {
                let help = "every client may send to any domain through this listener: that is \
                            safe only if strangers can't reach it";
                self.warn(&path, format!("\"{network}\" makes an open relay"), help);
            }
            networks.push(network);
        }
        networks
    }

    /// The networks of a list, each with its path in the file.
    fn networks(&mut self, list: &str, written: &[String]) -> Vec<(String, IpNet)> {
        let mut networks = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let path = format!("{list}[{index}]");
            let parsed = text
                .parse::<IpNet>()
                .or_else(|error| text.parse::<IpAddr>().map(IpNet::from).map_err(|_| error));
            let Ok(network) = parsed else {
                let help = "a network is wanted, such as \"192.0.2.0/24\" or \"2001:db8::/32\"";
                self.error(&path, format!("\"{text}\" is not a network"), help);
                continue;
            };
            let Some(network) = canonical(network) else {
                let help = "write the IPv4 network as one, such as \"192.0.2.0/24\"";
                self.error(&path, format!("\"{text}\" holds IPv4 addresses and others"), help);
                continue;
            };
            if network.prefix_len() > 0 && network.trunc() != network {
                let message = format!("\"{text}\" has bits set behind its prefix");
                self.warn(&path, message, &format!("it is taken as \"{}\"", network.trunc()));
            }
            networks.push((path, network.trunc()));
        }
        networks
    }
}

/// An IPv4 network in its IPv6 clothes (`::ffff:10.0.0.0/104`) as the IPv4 network that it is:
/// clients are compared so. `None` if it reaches beyond.
fn canonical(network: IpNet) -> Option<IpNet> {
    let mapped = match network {
        IpNet::V6(v6) => v6.addr().to_ipv4_mapped(),
        IpNet::V4(_) => None,
    };
    let Some(address) = mapped else { return Some(network) };
    let prefix_len = network.prefix_len().checked_sub(96)?;
    Ipv4Net::new(address, prefix_len).ok().map(IpNet::V4)
}
