//! `[[listener]]`.

use crate::Schema;
use crate::listener::takes::Takes;
use crate::listener::{LOCAL_CLIENT, Listener, ProtocolSettings};
use crate::reader::Reader;
use crate::resolver::Resolver;
use crate::schema::ProtocolKind;
use crate::section::owned::Owned;
use crate::written::{ListenerText, ListenerTls};
use ipnet::{IpNet, Ipv4Net};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Settings of a listener's protocol and of further owners of keys.
struct ListenerKeys {
    settings: Arc<dyn ProtocolSettings>,
    takes: Takes,
    sections: Owned,
}

/// The keys of further owners for listeners with this kind of input.
fn keys_for(schema: &Schema, takes: Takes) -> Vec<String> {
    let kinds = schema.listeners().iter().filter(|kind| (kind.is_for)(takes));
    kinds.flat_map(|kind| (kind.keys)()).collect()
}

/// The name of a listener: by default its address, or the path of its socket.
fn name_of(text: &ListenerText, address: SocketAddr) -> Arc<str> {
    let socket = text.protocol.get(SOCKET).and_then(toml::Value::as_str);
    let name = text.name.as_deref().or(socket);
    name.map_or_else(|| address.to_string().into(), Arc::from)
}

/// The key of the Unix socket.
const SOCKET: &str = "socket";

/// The protocol of a listener.
fn kind_of<'s>(schema: &'s Schema, text: &ListenerText) -> Option<&'s ProtocolKind> {
    schema.protocols().iter().find(|protocol| protocol.kind == text.kind)
}

const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

impl Resolver<'_> {
    pub(super) fn listeners(
        &mut self,
        schema: &Schema,
        written: &[ListenerText],
        has_certificates: bool,
    ) -> Vec<Listener> {
        if written.is_empty() {
            let help = "add a [[listener]] with an address";
            self.error("listener", "no listener: no mail could be received", help);
        }
        let mut listeners: Vec<Listener> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("listener[{index}]");
            // A protocol with an error has no listener: the file is rejected.
            let protocol = self.protocol(schema, &at, text);
            let takes = protocol.as_ref().map(|protocol| protocol.takes);
            let is_local = kind_of(schema, text).is_some_and(|kind| kind.takes == Takes::LocalMail);
            if is_local {
                self.check_for_socket(&at, text);
            }
            let name_and_address = self.name_and_address(&at, text, is_local);
            let tls =
                if is_local { ListenerTls::Off } else { self.tls(&at, text, has_certificates) };
            let told = protocol.as_ref().map(|protocol| (&*protocol.settings, protocol.takes));
            let asked = self.client_certificates(&at, text, tls, told);
            if takes == Some(Takes::MailOfUsers) {
                self.check_for_logins(&at, text, tls);
            }
            let Some(listener) = self.listener(&at, text, tls, name_and_address, protocol) else {
                continue;
            };
            let listener = Listener { client_certificates: asked, ..listener };
            for other in &listeners {
                if other.name == listener.name {
                    let message = format!("a listener named \"{}\" already exists", other.name);
                    let help = format!("on line {}", other.line);
                    self.error(&format!("{at}.name"), message, &help);
                }
                if other.address == listener.address && listener.address.port() != 0 {
                    let message = format!("two listeners on {}", other.address);
                    let help = format!("the other is on line {}", other.line);
                    self.error(&format!("{at}.address"), message, &help);
                }
                if other.socket.is_some() && other.socket == listener.socket {
                    let message = format!("two listeners on {}", other.place());
                    let help = format!("the other is on line {}", other.line);
                    self.error(&format!("{at}.{SOCKET}"), message, &help);
                }
            }
            listeners.push(listener);
        }
        listeners
    }

    fn name_and_address(
        &mut self,
        at: &str,
        text: &ListenerText,
        is_local: bool,
    ) -> (Arc<str>, SocketAddr) {
        let address = match &text.address {
            _ if is_local => Some(LOCAL_CLIENT),
            Some(address) => self.socket_address(&format!("{at}.address"), address),
            None => {
                let help = "name the address, for example address = \"127.0.0.1:25\"";
                self.error(at, "a listener without `address`", help);
                None
            }
        };
        let address = address.unwrap_or(NO_ADDRESS);
        if let Some(name) = &text.name {
            self.printable(&format!("{at}.name"), name, 64);
        }
        (name_of(text, address), address)
    }

    /// Notes the names of all listeners, for sections that are read before them.
    pub(super) fn name_listeners(&mut self, schema: &Schema, written: &[ListenerText]) {
        for text in written {
            let address = text.address.as_deref().and_then(|address| address.parse().ok());
            let name = name_of(text, address.unwrap_or(NO_ADDRESS));
            let kind = kind_of(schema, text);
            if kind.is_some_and(|protocol| protocol.takes == Takes::Foreign) {
                self.foreign_listeners.push(Arc::clone(&name));
            }
            self.listener_names.push(name);
        }
    }

    fn listener(
        &mut self,
        at: &str,
        text: &ListenerText,
        tls: ListenerTls,
        (name, address): (Arc<str>, SocketAddr),
        protocol: Option<ListenerKeys>,
    ) -> Option<Listener> {
        let key = |name: &str| format!("{at}.{name}");
        let relay_from = self.relay_from(at, &text.relay_from);
        let exempt = self.networks(&key("exempt_from_limits"), &text.exempt_from_limits);
        let steering_from = self.steering_from(&key("steering_from"), text);
        let proxies = self.believed(&key("proxy_protocol_from"), &text.proxy_protocol_from);
        let max_message_bytes = self.size_within(
            &key("max_message_bytes"),
            &text.max_message_bytes,
            // RFC 5321 §4.5.3.1.7: 64 KiB is the least that a server must take.
            64 << 10,
            1 << 40,
        );
        let ListenerKeys { settings, takes, sections } = protocol?;
        let socket = settings.socket().map(Arc::from);
        Some(Listener {
            name,
            kind: text.kind.as_str().into(),
            socket,
            protocol: settings,
            takes,
            sections,
            tls,
            client_certificates: None,
            address,
            relay_from,
            steering_from,
            proxy_protocol_from: proxies,
            max_message_bytes,
            max_recipients: text.max_recipients,
            max_hops: text.max_hops,
            max_sessions: text.max_sessions,
            max_sessions_per_address: text.max_sessions_per_address,
            connections_per_minute: text.connections_per_minute,
            messages_per_minute: text.messages_per_minute,
            recipients_per_minute: text.recipients_per_minute,
            refusals_per_minute: text.refusals_per_minute,
            exempt_from_limits: exempt.into_iter().map(|(_, network)| network).collect(),
            allow_routed_recipients: text.allow_routed_recipients,
            line: self.document.line(at).unwrap_or(0),
        })
    }

    /// Encryption needs a key.
    fn tls(&mut self, at: &str, text: &ListenerText, has_certificates: bool) -> ListenerTls {
        let usual = if has_certificates { ListenerTls::StartTls } else { ListenerTls::Off };
        let tls = text.tls.unwrap_or(usual);
        if tls != ListenerTls::Off && !has_certificates {
            let help = "add a [[certificate]] with names, chain and key, or with acme = true";
            self.error(&format!("{at}.tls"), "TLS without a certificate", help);
        }
        tls
    }

    /// Rejects keys about networks on a listener with a Unix socket.
    fn check_for_socket(&mut self, at: &str, text: &ListenerText) {
        let wrong = [
            ("address", text.address.is_some()),
            ("relay_from", !text.relay_from.is_empty()),
            ("proxy_protocol_from", !text.proxy_protocol_from.is_empty()),
            ("tls", text.tls.is_some_and(|tls| tls != ListenerTls::Off)),
            ("client_certificates", text.client_certificates.is_some()),
        ];
        for (key, _) in wrong.into_iter().filter(|(_, is_written)| *is_written) {
            let help = "clients of its Unix socket have a user id and no address: remove the key";
            let message = format!("`{key}` on a listener with kind = \"{}\"", text.kind);
            self.error(&format!("{at}.{key}"), message, help);
        }
    }

    /// Checks a listener for authenticated clients only.
    fn check_for_logins(&mut self, at: &str, text: &ListenerText, tls: ListenerTls) {
        if tls == ListenerTls::Off {
            let (key, message) = match text.tls {
                Some(_) => ("tls", "logins over unencrypted connections"),
                None => ("kind", "logins, and no [[certificate]] to encrypt them with"),
            };
            let help = "passwords are sent over TLS only: add a [[certificate]], and leave `tls` \
             out or set it to \"starttls\" or \"implicit\"";
            self.error(&format!("{at}.{key}"), message, help);
        }
        if !text.relay_from.is_empty() {
            let help = "only authenticated users may send through this listener; put networks \
             that may relay on another listener";
            self.error(&format!("{at}.relay_from"), "`relay_from` on a listener with logins", help);
        }
    }

    /// Reads the settings of the listener's protocol, and of further owners of keys.
    fn protocol(&mut self, schema: &Schema, at: &str, text: &ListenerText) -> Option<ListenerKeys> {
        let Some(found) = kind_of(schema, text) else {
            let known = schema.protocols().iter();
            let known: Vec<String> = known.map(|one| format!("\"{}\"", one.kind)).collect();
            let message = format!("unknown listener kind \"{}\"", text.kind);
            let help = format!("known kinds: {}", known.join(", "));
            self.error(&format!("{at}.kind"), message, &help);
            return None;
        };
        let mut own = toml::Table::new();
        let mut of_others = toml::Table::new();
        let mut strange = Vec::new();
        let (own_keys, known) = ((found.keys)(), keys_for(schema, found.takes));
        for (key, value) in &text.protocol {
            let (key, value) = (key.clone(), value.clone());
            if own_keys.contains(&key) {
                own.insert(key, value);
            } else if known.contains(&key) {
                of_others.insert(key, value);
            } else {
                strange.push(key);
            }
        }
        for key in &strange {
            let has = |kind: &&ProtocolKind| {
                (kind.keys)().contains(key) || keys_for(schema, kind.takes).contains(key)
            };
            let kinds = schema.protocols().iter().filter(has);
            let kinds: Vec<String> = kinds.map(|kind| format!("\"{}\"", kind.kind)).collect();
            let message = format!("`{key}` on a listener with kind = \"{}\"", text.kind);
            let help = format!("it needs a listener with kind = {}", kinds.join(" or "));
            self.error(&format!("{at}.{key}"), message, &help);
        }
        if !strange.is_empty() {
            return None;
        }
        let mut reader = Reader::new(self, at.to_owned()).of_listener(found.takes);
        let settings = (found.read)(own, &mut reader);
        let mut sections = Owned::default();
        for kind in schema.listeners().iter().filter(|kind| (kind.is_for)(found.takes)) {
            let keys = (kind.keys)();
            let written = of_others.iter().filter(|(key, _)| keys.contains(key));
            let written = written.map(|(key, value)| (key.clone(), value.clone())).collect();
            (kind.read)(written, &mut reader, &mut sections);
        }
        Some(ListenerKeys { settings: settings?, takes: found.takes, sections })
    }

    fn relay_from(&mut self, at: &str, written: &[String]) -> Vec<IpNet> {
        let found = self.networks(&format!("{at}.relay_from"), written);
        let mut networks = Vec::with_capacity(found.len());
        for (path, network) in found {
            if network.prefix_len() == 0 {
                let help = "every client may send to any domain through this listener: safe only \
                 if untrusted clients cannot reach it";
                self.warn(&path, format!("\"{network}\" makes an open relay"), help);
            }
            networks.push(network);
        }
        networks
    }

    fn steering_from(&mut self, list: &str, text: &ListenerText) -> Vec<IpNet> {
        let found = self.networks(list, &text.steering_from);
        for (path, network) in &found {
            if network.prefix_len() == 0 {
                let help = "every client of this listener sets tenant and delivery time: safe \
                 only if untrusted clients cannot reach it";
                self.warn(
                    path,
                    format!("\"{network}\" allows steering fields from every client"),
                    help,
                );
            }
        }
        found.into_iter().map(|(_, network)| network).collect()
    }

    /// Networks of clients trusted to name the client that they act for.
    pub(crate) fn believed(&mut self, list: &str, written: &[String]) -> Vec<IpNet> {
        let found = self.networks(list, written);
        for (path, network) in &found {
            if network.prefix_len() == 0 {
                let help = "every client of this listener sets its own client address, and so \
                 whether it may relay: safe only if untrusted clients cannot reach it";
                self.warn(path, format!("\"{network}\" trusts every client"), help);
            }
        }
        found.into_iter().map(|(_, network)| network).collect()
    }

    /// The networks of a list.
    pub(crate) fn networks_of(&mut self, list: &str, written: &[String]) -> Vec<IpNet> {
        self.networks(list, written).into_iter().map(|(_, network)| network).collect()
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
                let help = "write a network, for example \"192.0.2.0/24\" or \"2001:db8::/32\"";
                self.error(&path, format!("\"{text}\" is not a network"), help);
                continue;
            };
            let Some(network) = canonical(network) else {
                let help = "write the IPv4 network in IPv4 form, for example \"192.0.2.0/24\"";
                self.error(
                    &path,
                    format!("\"{text}\" contains both IPv4 and IPv6 addresses"),
                    help,
                );
                continue;
            };
            if network.prefix_len() > 0 && network.trunc() != network {
                let message = format!("\"{text}\" has bits set after its prefix");
                self.warn(&path, message, &format!("read as \"{}\"", network.trunc()));
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
