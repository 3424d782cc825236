//! `[x400]`: identity of this MTA, and its peers.

mod identity;
mod written;

pub use identity::{GatewayTables, PASSWORD_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer};

use config::{Area, Host, HostPort, KeyTable, Reader, Rest, Secret, Section};
use identity::{MTA_NAME_BYTES_MAX, PeerPassword, SELECTOR_BYTES_MAX, SESSION_SELECTOR_BYTES_MAX};
use mail::{Domain, OrAddress};
use std::sync::Arc;
use written::{X400GatewayText, X400ModeText, X400PeerText, X400Text};

/// RFC 1006 §5.
const PORT: u16 = 102;

impl Section for X400 {
    const KEY: &'static str = "x400";
    const SUMMARY: &'static str = "This MTA's X.400 identity and its peers.";
    const AREA: Area = Area::X400;
    const IN_FORCE_BY: &'static str = "shards";
    type Text = X400Text;
    type Value = Arc<X400>;

    /// `None` if X.400 is not used.
    fn read(text: X400Text, reader: &mut Reader<'_, '_>) -> Option<Arc<X400>> {
        if text.mta.is_none() && text.domain.is_none() && text.peer.is_empty() {
            return None;
        }
        let mta = match &text.mta {
            Some(mta) => {
                reader.printable("mta", mta, MTA_NAME_BYTES_MAX);
                mta.as_str()
            }
            None => {
                let help = "name this MTA, for example mta = \"relay\"";
                reader.error("", "[x400] without `mta`", help);
                ""
            }
        };
        let domain = own_domain(text.domain.as_deref(), reader);
        let mut peers: Vec<Arc<X400Peer>> = Vec::with_capacity(text.peer.len());
        for (index, text) in text.peer.iter().enumerate() {
            let mut reader = reader.table_at(&format!("peer[{index}]"));
            let peer = peer(text, mta, &peers, &mut reader);
            peers.push(Arc::new(peer));
        }
        let gateway = text.gateway.as_ref();
        let gateway = gateway.and_then(|text| read_gateway(text, &mut reader.table_at("gateway")));
        Some(Arc::new(X400 { mta: mta.into(), domain, gateway, peers }))
    }

    /// Warns if no route accepts the gateway's domain: replies to mail from the gateway go there.
    fn review(value: Option<&Arc<X400>>, rest: &Rest<'_>, reader: &mut Reader<'_, '_>) {
        let Some(gateway) = value.and_then(|x400| x400.gateway.as_ref()) else { return };
        if !rest.has_route(&gateway.domain) {
            let message = format!("no route for {}", gateway.domain);
            let help = "replies to mail from X.400 would be rejected: add a route with this \
             domain to a peer";
            reader.warn("gateway.domain", message, help);
        }
    }

    fn page() -> Vec<KeyTable> {
        vec![
            KeyTable::of::<X400Text>("x400", "[x400]"),
            KeyTable::of::<X400GatewayText>("x400: gateway", "[x400]\ngateway = { … }"),
            KeyTable::of::<X400PeerText>("x400.peer", "[[x400.peer]]"),
        ]
    }
}

fn read_gateway(text: &X400GatewayText, reader: &mut Reader<'_, '_>) -> Option<X400Gateway> {
    let address = reader.or_address("address", &text.address, OrAddress::parse);
    let domain = Domain::parse(&text.domain);
    if let Err(error) = &domain {
        let message = format!("\"{}\" is not a domain", text.domain);
        reader.error("domain", message, &error.to_string());
    }
    let mut path =
        |key: &str, path: &Option<String>| path.as_ref().map(|path| reader.file_path(key, path));
    let (mcgam, gateways) = (path("mcgam", &text.mcgam), path("gateways", &text.gateways));
    let strangers = text.strangers.iter().enumerate().filter_map(|(index, part)| {
        reader.or_address(&format!("strangers[{index}]"), part, OrAddress::parse_part)
    });
    let strangers = strangers.collect();
    let mut gateway = X400Gateway::new(address?, domain.ok()?, mcgam, gateways);
    gateway.strangers = strangers;
    Some(gateway)
}

/// A global domain identifier (X.411 §8.2.1.1): country, ADMD and perhaps PRMD.
fn own_domain(written: Option<&str>, reader: &mut Reader<'_, '_>) -> OrAddress {
    let help = "write a management domain, for example \"/PRMD=Example/ADMD= /C=GB/\"";
    let Some(text) = written else {
        reader.error("", "[x400] without `domain`", help);
        return OrAddress::default();
    };
    let address = reader.or_address("domain", text, OrAddress::parse).unwrap_or_default();
    let is_of_domain = |key: &str| matches!(key, "C" | "ADMD" | "PRMD");
    let strange = address.attributes().iter().find(|a| !is_of_domain(a.key()));
    if let Some(strange) = strange {
        let message = format!("{} in the name of a management domain", strange.key());
        reader.error("domain", message, help);
    } else if !address.attributes().is_empty() && address.value("C").is_none() {
        reader.error("domain", format!("\"{text}\" has no country"), help);
    }
    address
}

fn peer(
    text: &X400PeerText,
    mta: &str,
    before: &[Arc<X400Peer>],
    reader: &mut Reader<'_, '_>,
) -> X400Peer {
    let known = before.iter().map(|peer| (&*peer.name, peer.line));
    reader.check_name("peer", &text.name, 64, known);
    reader.printable("their_name", &text.their_name, MTA_NAME_BYTES_MAX);
    let other = before.iter().find(|peer| *peer.their_name == *text.their_name);
    if let Some(other) = other.filter(|peer| !peer.their_name.is_empty()) {
        let message = format!("peer \"{}\" also binds as \"{}\"", other.name, text.their_name);
        let help = format!("on line {}; a binding peer is identified by its name", other.line);
        reader.error("their_name", message, &help);
    }
    let our_name = text.our_name.as_deref().unwrap_or(mta);
    if text.our_name.is_some() {
        reader.printable("our_name", our_name, MTA_NAME_BYTES_MAX);
    }
    X400Peer {
        name: text.name.as_str().into(),
        hosts: hosts(&text.hosts, reader),
        mode: match text.mode {
            X400ModeText::Normal => X400Mode::Normal,
            X400ModeText::X410 => X400Mode::X410,
            X400ModeText::X4101984 => X400Mode::X4101984,
        },
        t_selector: t_selector("t_selector", &text.t_selector, reader),
        s_selector: selector("s_selector", &text.s_selector, SESSION_SELECTOR_BYTES_MAX, reader),
        p_selector: selector("p_selector", &text.p_selector, SELECTOR_BYTES_MAX, reader),
        their_name: text.their_name.as_str().into(),
        their_password: their_password(text, reader),
        from: reader.networks("from", &text.from),
        our_name: our_name.into(),
        our_password: password(
            "our_password",
            &text.our_password,
            text.our_password_file.as_deref(),
            reader,
        ),
        associations_max: text.max_associations,
        checkpoint_kib: text.checkpoint_kib,
        window: text.window,
        tpdu_bytes: text.tpdu_bytes,
        connect_timeout: reader.timeout("connect_timeout", &text.connect_timeout),
        answer_timeout: reader.timeout("answer_timeout", &text.answer_timeout),
        idle_timeout: reader.timeout("idle_timeout", &text.idle_timeout),
        line: reader.line(""),
    }
}

fn hosts(written: &[String], reader: &mut Reader<'_, '_>) -> Vec<HostPort> {
    let mut hosts: Vec<HostPort> = Vec::with_capacity(written.len());
    for (index, text) in written.iter().enumerate() {
        let path = format!("hosts[{index}]");
        match HostPort::parse(text, PORT) {
            Ok(HostPort { host: Host::Socket(_), .. }) => {
                reader.error(&path, "X.400 is not supported over Unix sockets", "");
            }
            Ok(host) if hosts.contains(&host) => {
                reader.error(&path, format!("{host} is listed twice"), "");
            }
            Ok(host) => hosts.push(host),
            Err(help) => reader.error(&path, format!("\"{text}\" is not a host"), &help),
        }
    }
    hosts
}

/// A transport selector.
pub(super) fn t_selector(key: &str, text: &str, reader: &mut Reader<'_, '_>) -> Box<[u8]> {
    selector(key, text, SELECTOR_BYTES_MAX, reader)
}

/// Text, or octets in hexadecimal after `hex:`.
fn selector(key: &str, text: &str, max: usize, reader: &mut Reader<'_, '_>) -> Box<[u8]> {
    let octets = match text.strip_prefix("hex:") {
        Some(digits) => octets_of(digits),
        None => Some(text.as_bytes().to_vec()),
    };
    let Some(octets) = octets else {
        let help = "write pairs of hexadecimal digits after hex:, for example \"hex:00ff\"";
        reader.error(key, format!("\"{text}\" is not a selector"), help);
        return Box::default();
    };
    if octets.len() > max {
        let message = format!("a selector of {} octets", octets.len());
        reader.error(key, message, &format!("at most {max}"));
    }
    octets.into()
}

/// The password that a peer must show.
fn their_password(text: &X400PeerText, reader: &mut Reader<'_, '_>) -> PeerPassword {
    let has_one = !text.their_password.is_empty() || text.their_password_file.is_some();
    if !has_one && !text.allow_no_password {
        let message = format!("peer \"{}\" without a password", text.name);
        let help = "add `their_password` or `their_password_file`; if it has none, add \
         allow_no_password = true and its addresses: from = [\"192.0.2.7\"]";
        reader.error("", message, help);
    }
    if has_one && text.allow_no_password {
        let message = "both `allow_no_password` and a password are set";
        reader.error("allow_no_password", message, "leave one out");
    } else if text.allow_no_password && text.from.is_empty() {
        let message = format!("any client that knows its name can send as peer \"{}\"", text.name);
        let help = "add its addresses: from = [\"192.0.2.7\"]";
        reader.warn("allow_no_password", message, help);
    }
    let file = text.their_password_file.as_deref();
    password("their_password", &text.their_password, file, reader)
}

fn password(
    key: &str,
    text: &str,
    file: Option<&str>,
    reader: &mut Reader<'_, '_>,
) -> PeerPassword {
    let file_key = format!("{key}_file");
    if file.is_some() && !text.is_empty() {
        let message = "both a password and a password file are set";
        reader.error(&file_key, message, "leave one out");
    }
    let file = file.map(|file| reader.file_path(&file_key, file));
    if text.len() > PASSWORD_BYTES_MAX || !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        let message = format!("at most {PASSWORD_BYTES_MAX} printable ASCII characters");
        reader.error(key, message, "");
    }
    PeerPassword::new(Secret(text.as_bytes().into()), file)
}

/// The peer of a route.
pub(super) fn peer_named(
    key: &str,
    name: &str,
    reader: &mut Reader<'_, '_>,
) -> Option<(Arc<X400>, Arc<X400Peer>)> {
    let Some(x400) = reader.section::<X400>() else {
        let help = "add [x400] with `mta` and `domain`, and a [[x400.peer]]";
        reader.error(key, "a route to a peer of X.400 without a section [x400]", help);
        return None;
    };
    match x400.peers.iter().find(|peer| *peer.name == *name) {
        Some(peer) if peer.hosts.is_empty() => {
            let help = format!("add hosts = [\"host:port\"] on line {}", peer.line);
            reader.error(key, format!("peer \"{name}\" has no `hosts`"), &help);
            None
        }
        Some(peer) => {
            let peer = Arc::clone(peer);
            Some((x400, peer))
        }
        None => {
            let names: Vec<&str> = x400.peers.iter().map(|peer| &*peer.name).collect();
            let help = format!("known peers: {}", names.join(", "));
            reader.error(key, format!("no peer of X.400 is named \"{name}\""), &help);
            None
        }
    }
}

/// The `[x400]` section. `None` if it is missing, which is an error.
pub(super) fn who_we_are(reader: &mut Reader<'_, '_>) -> Option<Arc<X400>> {
    let x400 = reader.section::<X400>();
    if x400.is_none() {
        let help = "add [x400] with `mta` and `domain`, and a [[x400.peer]] for each that may bind";
        reader.error("kind", "a listener for X.400 without a section [x400]", help);
    }
    x400
}

fn octets_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| (0..digits.len()).step_by(2).map(pair).collect::<Option<_>>())?
}
