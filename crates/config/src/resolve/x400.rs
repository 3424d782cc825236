//! `[x400]`, and what routes take of O/R addresses.

use crate::host::{Host, HostPort};
use crate::resolver::Resolver;
use crate::route::Route;
use crate::settings::Secret;
use crate::written::{X400GatewayText, X400ModeText, X400PeerText, X400Text};
use crate::x400::{
    MTA_NAME_BYTES_MAX, OrRoutes, PASSWORD_BYTES_MAX, PeerPassword, SELECTOR_BYTES_MAX,
    SESSION_SELECTOR_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer,
};
use mail::{Domain, OrAddress};
use std::sync::Arc;

/// RFC 1006 §5.
const PORT: u16 = 102;

impl Resolver<'_> {
    /// `None`: X.400 is not spoken.
    pub(super) fn x400(&mut self, written: &X400Text) -> Option<Arc<X400>> {
        if written.mta.is_none() && written.domain.is_none() && written.peer.is_empty() {
            return None;
        }
        let mta = match &written.mta {
            Some(mta) => {
                self.printable("x400.mta", mta, MTA_NAME_BYTES_MAX);
                mta.as_str()
            }
            None => {
                self.error(
                    "x400",
                    "[x400] without `mta`",
                    "name this MTA, such as mta = \"relay\"",
                );
                ""
            }
        };
        let domain = self.own_domain(written.domain.as_deref());
        let mut peers: Vec<Arc<X400Peer>> = Vec::with_capacity(written.peer.len());
        for (index, text) in written.peer.iter().enumerate() {
            let peer = self.x400_peer_of(&format!("x400.peer[{index}]"), text, mta, &peers);
            peers.push(Arc::new(peer));
        }
        let gateway = written.gateway.as_ref().and_then(|text| self.x400_gateway(text));
        Some(Arc::new(X400 { mta: mta.into(), domain, gateway, peers }))
    }

    fn x400_gateway(&mut self, text: &X400GatewayText) -> Option<X400Gateway> {
        let address = self.or_address("x400.gateway.address", &text.address, OrAddress::parse);
        let domain = Domain::parse(&text.domain);
        if let Err(error) = &domain {
            let message = format!("\"{}\" is not a domain", text.domain);
            self.error("x400.gateway.domain", message, &error.to_string());
        }
        let mut path = |key: &str, path: &Option<String>| {
            path.as_ref().map(|path| self.file_path(&format!("x400.gateway.{key}"), path))
        };
        let (mcgam, gateways) = (path("mcgam", &text.mcgam), path("gateways", &text.gateways));
        let strangers = (0..).zip(&text.strangers).filter_map(|(index, part): (usize, _)| {
            self.or_address(
                &format!("x400.gateway.strangers[{index}]"),
                part,
                OrAddress::parse_part,
            )
        });
        let strangers = strangers.collect();
        let mut gateway = X400Gateway::new(address?, domain.ok()?, mcgam, gateways);
        gateway.strangers = strangers;
        Some(gateway)
    }

    /// A global domain identifier (X.411 §8.2.1.1): country, ADMD and perhaps PRMD.
    fn own_domain(&mut self, written: Option<&str>) -> OrAddress {
        let help = "a management domain is wanted, such as \"/PRMD=Example/ADMD= /C=GB/\"";
        let Some(text) = written else {
            self.error("x400", "[x400] without `domain`", help);
            return OrAddress::default();
        };
        let address = self.or_address("x400.domain", text, OrAddress::parse).unwrap_or_default();
        let is_of_domain = |key: &str| matches!(key, "C" | "ADMD" | "PRMD");
        let strange = address.attributes().iter().find(|a| !is_of_domain(a.key()));
        if let Some(strange) = strange {
            let message = format!("{} in the name of a management domain", strange.key());
            self.error("x400.domain", message, help);
        } else if !address.attributes().is_empty() && address.value("C").is_none() {
            self.error("x400.domain", format!("\"{text}\" has no country"), help);
        }
        address
    }

    fn x400_peer_of(
        &mut self,
        at: &str,
        text: &X400PeerText,
        mta: &str,
        before: &[Arc<X400Peer>],
    ) -> X400Peer {
        let known = before.iter().map(|peer| (&*peer.name, peer.line));
        self.name_of(at, "peer", &text.name, 64, known);
        let their_name = format!("{at}.their_name");
        self.printable(&their_name, &text.their_name, MTA_NAME_BYTES_MAX);
        let other = before.iter().find(|peer| *peer.their_name == *text.their_name);
        if let Some(other) = other.filter(|peer| !peer.their_name.is_empty()) {
            let message = format!("peer \"{}\" binds as \"{}\", too", other.name, text.their_name);
            let help = format!("on line {}; who binds is known by its name", other.line);
            self.error(&their_name, message, &help);
        }
        let our_name = text.our_name.as_deref().unwrap_or(mta);
        if text.our_name.is_some() {
            self.printable(&format!("{at}.our_name"), our_name, MTA_NAME_BYTES_MAX);
        }
        X400Peer {
            name: text.name.as_str().into(),
            hosts: self.x400_hosts(at, &text.hosts),
            mode: match text.mode {
                X400ModeText::Normal => X400Mode::Normal,
                X400ModeText::X410 => X400Mode::X410,
                X400ModeText::X4101984 => X400Mode::X4101984,
            },
            t_selector: self.t_selector(&format!("{at}.t_selector"), &text.t_selector),
            s_selector: self.selector(
                &format!("{at}.s_selector"),
                &text.s_selector,
                SESSION_SELECTOR_BYTES_MAX,
            ),
            p_selector: self.selector(
                &format!("{at}.p_selector"),
                &text.p_selector,
                SELECTOR_BYTES_MAX,
            ),
            their_name: text.their_name.as_str().into(),
            their_password: self.their_password(at, text),
            from: self.peer_networks(&format!("{at}.from"), &text.from),
            our_name: our_name.into(),
            our_password: self.x400_password(
                &format!("{at}.our_password"),
                &text.our_password,
                text.our_password_file.as_deref(),
            ),
            associations_max: text.max_associations,
            checkpoint_kib: text.checkpoint_kib,
            window: text.window,
            tpdu_bytes: text.tpdu_bytes,
            connect_timeout: self.timeout(&format!("{at}.connect_timeout"), &text.connect_timeout),
            answer_timeout: self.timeout(&format!("{at}.answer_timeout"), &text.answer_timeout),
            idle_timeout: self.timeout(&format!("{at}.idle_timeout"), &text.idle_timeout),
            line: self.document.line(at).unwrap_or(0),
        }
    }

    fn x400_hosts(&mut self, at: &str, written: &[String]) -> Vec<HostPort> {
        let mut hosts: Vec<HostPort> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let path = format!("{at}.hosts[{index}]");
            match HostPort::parse(text, PORT) {
                Ok(HostPort { host: Host::Socket(_), .. }) => {
                    self.error(&path, "X.400 is not spoken over Unix sockets", "");
                }
                Ok(host) if hosts.contains(&host) => {
                    self.error(&path, format!("{host} is listed twice"), "");
                }
                Ok(host) => hosts.push(host),
                Err(help) => self.error(&path, format!("\"{text}\" is not a host"), &help),
            }
        }
        hosts
    }

    /// A transport selector.
    pub(crate) fn t_selector(&mut self, path: &str, text: &str) -> Box<[u8]> {
        self.selector(path, text, SELECTOR_BYTES_MAX)
    }

    /// Text, or octets in hexadecimal behind `hex:`.
    fn selector(&mut self, path: &str, text: &str, max: usize) -> Box<[u8]> {
        let octets = match text.strip_prefix("hex:") {
            Some(digits) => octets_of(digits),
            None => Some(text.as_bytes().to_vec()),
        };
        let Some(octets) = octets else {
            let help = "behind hex: pairs of hexadecimal digits are wanted, such as \"hex:00ff\"";
            self.error(path, format!("\"{text}\" is not a selector"), help);
            return Box::default();
        };
        if octets.len() > max {
            let message = format!("a selector of {} octets", octets.len());
            self.error(path, message, &format!("it may have {max}"));
        }
        octets.into()
    }

    /// What a peer must show.
    fn their_password(&mut self, at: &str, text: &X400PeerText) -> PeerPassword {
        let path = format!("{at}.their_password");
        let has_one = !text.their_password.is_empty() || text.their_password_file.is_some();
        if !has_one && !text.allow_no_password {
            let message = format!("peer \"{}\" without a password", text.name);
            let help = "give it `their_password` or `their_password_file`; if it has none, say \
                        allow_no_password = true, and from where it may bind: from = [\"192.0.2.7\"]";
            self.error(at, message, help);
        }
        if has_one && text.allow_no_password {
            let message = "`allow_no_password` beside a password";
            self.error(&format!("{at}.allow_no_password"), message, "leave one of them out");
        } else if text.allow_no_password && text.from.is_empty() {
            let message = format!("whoever knows its name may send as peer \"{}\"", text.name);
            let help = "say from where it may bind: from = [\"192.0.2.7\"]";
            self.warn(&format!("{at}.allow_no_password"), message, help);
        }
        self.x400_password(&path, &text.their_password, text.their_password_file.as_deref())
    }

    fn x400_password(&mut self, path: &str, text: &str, file: Option<&str>) -> PeerPassword {
        let file_path = format!("{path}_file");
        if file.is_some() && !text.is_empty() {
            let message = "a password, and a file with another";
            self.error(&file_path, message, "leave one of them out");
        }
        let file = file.map(|file| self.file_path(&file_path, file));
        if text.len() > PASSWORD_BYTES_MAX || !text.bytes().all(|b| (0x20..0x7f).contains(&b)) {
            let message =
                format!("at most {PASSWORD_BYTES_MAX} printable ASCII characters are wanted");
            self.error(path, message, "");
        }
        PeerPassword::new(Secret(text.as_bytes().into()), file)
    }

    /// An O/R address, read by `parse`.
    fn or_address(
        &mut self,
        path: &str,
        text: &str,
        parse: fn(&str) -> Result<OrAddress, mail::AddressError>,
    ) -> Option<OrAddress> {
        let read = parse(text);
        if let Err(error) = &read {
            let message = format!("\"{text}\" is not an O/R address");
            self.error(path, message, &error.to_string());
        }
        read.ok()
    }

    /// What a route takes of O/R addresses.
    pub(super) fn or_addresses(&mut self, at: &str, written: &[String]) -> Vec<OrAddress> {
        let path = format!("{at}.or_addresses");
        if written.is_empty() {
            let help = "name some, or leave `or_addresses` out";
            self.error(&path, "`or_addresses` is empty", help);
        }
        let mut taken = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(address) = self.or_address(&path, text, OrAddress::parse_part) else {
                continue;
            };
            if let Some(strange) = address.attributes().iter().find(|a| !a.is_routed()) {
                let message = format!("{} in what a route takes", strange.key());
                let help = "mail is routed by C, ADMD, PRMD, O and OU1 to OU4; who it is for, the next MTA \
                            knows";
                self.error(&path, message, help);
                continue;
            }
            taken.push(address);
        }
        taken
    }

    /// Puts what routes take of O/R addresses together.
    pub(super) fn or_routes(&mut self, routes: &[Route]) -> OrRoutes {
        let mut table = OrRoutes::default();
        for route in routes {
            for (position, taken) in route.or_addresses.iter().enumerate() {
                let index = u32::try_from(route.index).unwrap_or(u32::MAX);
                let other = table.insert(taken, index).and_then(|other| routes.get(other as usize));
                let Some(other) = other else { continue };
                let path = format!("route[{}].or_addresses[{position}]", route.index);
                let message = format!("{taken} is taken by route {} already", other.index + 1);
                self.error(&path, message, &format!("on line {}", other.line));
            }
        }
        table
    }

    /// The peer that a route leads to.
    pub(crate) fn x400_peer(
        &mut self,
        path: &str,
        name: &str,
    ) -> Option<(Arc<X400>, Arc<X400Peer>)> {
        let Some(x400) = self.x400.clone() else {
            let help = "add [x400] with `mta` and `domain`, and a [[x400.peer]]";
            self.error(path, "a route to a peer of X.400 without a section [x400]", help);
            return None;
        };
        match x400.peers.iter().find(|peer| *peer.name == *name) {
            Some(peer) if peer.hosts.is_empty() => {
                let help = format!("give it hosts = [\"host:port\"]: on line {}", peer.line);
                self.error(path, format!("peer \"{name}\" has no `hosts`"), &help);
                None
            }
            Some(peer) => {
                let peer = Arc::clone(peer);
                Some((x400, peer))
            }
            None => {
                let names: Vec<&str> = x400.peers.iter().map(|peer| &*peer.name).collect();
                let help = format!("there are: {}", names.join(", "));
                self.error(path, format!("no peer of X.400 is named \"{name}\""), &help);
                None
            }
        }
    }
}

fn octets_of(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) || !digits.is_ascii() {
        return None;
    }
    let pair = |at: usize| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok();
    let is_hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
    is_hex.then(|| (0..digits.len()).step_by(2).map(pair).collect::<Option<_>>())?
}
