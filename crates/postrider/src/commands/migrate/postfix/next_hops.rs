//! Channels of routes: smtp(8), lmtp(8), virtual(8), local(8), pipe(8) and discard(8) with a next hop.

use super::domains::{DomainClass, Kind};
use super::limits::seconds;
use super::master::Service;
use super::moving::Moving;
use super::transports::{Channel, Target, split};
use super::values::MapName;
use crate::commands::migrate::new_config::{Keys, list, quoted};
use crate::commands::migrate::report::Verdict;

/// The use of a next hop.
pub(super) struct HopUse<'a> {
    /// The senders of all mail that goes there.
    pub(super) senders: Option<&'a [String]>,
    /// Domain by which a TLS policy is found.
    pub(super) policy: Option<&'a str>,
    pub(super) class: &'a DomainClass,
}

/// `[host]:port` and the like, as `host:port`; none if the name's MX hosts are meant.
pub(super) fn in_brackets(nexthop: &str) -> Option<String> {
    let (host, rest) = nexthop.strip_prefix('[')?.split_once(']')?;
    let host = host.strip_prefix("ipv6:").or_else(|| host.strip_prefix("IPv6:")).unwrap_or(host);
    let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let port = rest.strip_prefix(':').map(port_number);
    Some(port.map_or_else(|| host.clone(), |port| format!("{host}:{port}")))
}

/// The number of a port that may have a name.
pub(super) fn port_number(port: &str) -> String {
    let number = match port {
        "smtp" => "25",
        "submission" => "587",
        "smtps" | "submissions" => "465",
        "lmtp" => "24",
        number => number,
    };
    number.to_owned()
}

impl Moving {
    /// The channel for a target.
    pub(super) fn channel(&mut self, target: &Target, usage: &HopUse<'_>) -> Channel {
        let service = self.service(&target.service);
        match service.command.as_str() {
            "smtp" => self.smtp(&service, target, usage),
            "lmtp" => self.lmtp(&service, target),
            "pipe" => super::pipes::pipe(self, &service, target),
            "virtual" => super::mailboxes::of_virtual(self, usage.class),
            "local" => self.local(usage),
            "discard" => Channel::discard(),
            // Access rules refuse their mail.
            "error" => self.refused(target, usage),
            other => {
                let why =
                    format!("the service {other} has no counterpart; its mail is not accepted");
                let subject = format!("transport {}", target.service);
                let remedy = "choose a channel: docs/config/routes.md";
                self.note(Verdict::Missing, &service.origin, &subject, &why, remedy, false);
                Channel::discard()
            }
        }
    }

    fn refused(&mut self, target: &Target, usage: &HopUse<'_>) -> Channel {
        if usage.class.kind == Kind::Default && target.service == "error" {
            let of = self.get(usage.class.transport);
            if of.text.starts_with("error") {
                let why = "all mail for other domains is refused by a rule";
                self.different(&of, why, "");
                let text =
                    if target.nexthop.is_empty() { "5.7.1 No relaying" } else { &target.nexthop };
                self.refused_outside = Some(text.to_owned());
            }
        }
        Channel::discard()
    }

    fn smtp(&mut self, service: &Service, target: &Target, usage: &HopUse<'_>) -> Channel {
        let mut keys = Keys::new();
        let port = self.site.get_at(Some(service), "smtp_tcp_port");
        let port = port_number(port.text.trim());
        let hosts: Vec<String> = target
            .nexthop
            .split([',', ' '])
            .filter(|hop| !hop.is_empty())
            .map(str::to_owned)
            .collect();
        let in_brackets: Vec<String> = hosts.iter().filter_map(|hop| in_brackets(hop)).collect();
        let kind = match (hosts.as_slice(), in_brackets.len()) {
            ([], _) => {
                self.mx_without_dns(service);
                "mx"
            }
            (_, 0) => {
                let (name, own) = match hosts[0].rsplit_once(':') {
                    Some((name, port)) => (name.to_owned(), Some(port_number(port))),
                    None => (hosts[0].clone(), None),
                };
                keys.text("mx_of", &name);
                if let Some(port) = own.filter(|port| port != "25") {
                    keys.set("port", port);
                }
                "smtp"
            }
            _ => {
                keys.set("hosts", list(&in_brackets));
                if in_brackets.len() > 1 {
                    keys.text("balance", "failover");
                }
                "smtp"
            }
        };
        if port != "25" && keys.get("port").is_none() {
            keys.set("port", port);
        }
        if hosts.len() > 1 && in_brackets.len() < hosts.len() {
            let subject = format!("next hop {}", target.nexthop);
            let why = "only one name with MX hosts, or several in brackets, are used";
            self.note(
                Verdict::Missing,
                &service.origin,
                &subject,
                why,
                "`fallback` of the route",
                false,
            );
        }
        self.tls_out(service, target, usage, &mut keys);
        self.client_limits(service, &mut keys);
        let mut channel = Channel::with(kind, keys);
        channel.fallback = self.fallback(service, usage);
        channel.pool = self.pool(service);
        channel.has_generic = !self.site.get_at(Some(service), "smtp_generic_maps").is_empty();
        channel
    }

    /// Without the DNS a name is a host.
    fn mx_without_dns(&mut self, service: &Service) {
        let of = self.site.get_at(Some(service), "disable_dns_lookups");
        if of.is_yes() {
            let why = "mail to other domains goes to their MX hosts";
            self.missing(&of, why, "`hosts` in the route, with one name");
        }
    }

    fn lmtp(&mut self, service: &Service, target: &Target) -> Channel {
        let mut keys = Keys::new();
        let port = self.site.get_at(Some(service), "lmtp_tcp_port");
        let port = port_number(port.text.trim());
        let hop = target.nexthop.as_str();
        let host = match hop.strip_prefix("unix:") {
            Some(path) => self.socket_path(path),
            None => {
                let hop = hop.strip_prefix("inet:").unwrap_or(hop);
                let host = in_brackets(hop).unwrap_or_else(|| hop.to_owned());
                let has_port = host.rsplit(']').next().is_some_and(|rest| rest.contains(':'));
                if has_port { host } else { format!("{host}:{port}") }
            }
        };
        keys.set("hosts", list(&[host]));
        let level = self.site.get_at(Some(service), "lmtp_tls_security_level");
        let tls = match level.text.as_str() {
            "may" => "opportunistic",
            "" | "none" => "off",
            "encrypt" => "required",
            _ => "verified",
        };
        keys.text("tls", tls);
        self.client_limits(service, &mut keys);
        Channel::with("lmtp", keys)
    }

    /// The path of a socket, which Postfix reads from its queue directory.
    pub(super) fn socket_path(&self, path: &str) -> String {
        match path.starts_with('/') {
            true => path.to_owned(),
            false => format!("{}/{path}", self.get("queue_directory").text),
        }
    }

    /// local(8): another transport, or Maildirs.
    fn local(&mut self, usage: &HopUse<'_>) -> Channel {
        let of = self.get("mailbox_transport");
        if of.is_empty() {
            return super::mailboxes::of_local(self);
        }
        let (service, nexthop) = split(&of.text);
        self.carried(&of, "the channel of the local route");
        self.channel(&Target { service, nexthop, is_by_sender: false }, usage)
    }

    /// The route for mail while no host can be reached.
    fn fallback(&mut self, service: &Service, usage: &HopUse<'_>) -> Option<String> {
        let of = self.site.get_at(Some(service), "smtp_fallback_relay");
        let hop = of.words().first()?.clone();
        if let Some((_, name)) = self.fallbacks.iter().find(|(known, _)| *known == hop) {
            return Some(name.clone());
        }
        self.different(
            &of,
            "`fallback` of the routes; mail for a domain without a mail host is bounced instead",
            "",
        );
        let name = format!("fallback-{}", self.fallbacks.len() + 1);
        self.fallbacks.push((hop.clone(), name.clone()));
        let mut keys = Keys::new();
        match in_brackets(&hop) {
            Some(host) => keys.set("hosts", list(&[host])),
            None => keys.text("mx_of", hop.split(':').next().unwrap_or_default()),
        };
        let target = Target { service: service.name.clone(), nexthop: hop, is_by_sender: false };
        self.tls_out(service, &target, usage, &mut keys);
        let mut route = Keys::new();
        route.text("name", &name).set("domains", "[]").set("smtp", keys.inline());
        self.config.section("[[route]]", route);
        Some(name)
    }

    /// The pool for addresses and names of a service.
    fn pool(&mut self, service: &Service) -> Option<String> {
        let get = |m: &Moving, name| m.site.get_at(Some(service), name);
        let (v4, v6) = (get(self, "smtp_bind_address"), get(self, "smtp_bind_address6"));
        let helo = get(self, "smtp_helo_name");
        let own = self.get("myhostname").text;
        if v4.is_empty() && v6.is_empty() && (helo.is_empty() || helo.text == own) {
            return None;
        }
        if v4.is_empty() && v6.is_empty() {
            let why = "a name in EHLO needs a source with an address";
            self.missing(&helo, why, "`[[source]]` with `ehlo`, and a `[[pool]]`: docs/sources.md");
            return None;
        }
        let name = format!("from-{}", service.name);
        if self.pools.contains(&name) {
            return Some(name);
        }
        let mut source = Keys::new();
        source.text("name", &name);
        for (of, key) in [(&v4, "address"), (&v6, "address6")] {
            if !of.is_empty() {
                source.text(key, of.text.trim());
                self.carried(of, "`[[source]]` of the route's pool");
            }
        }
        if !helo.is_empty() && helo.text != own {
            source.text("ehlo", &helo.text);
        }
        self.config.section("[[source]]", source);
        let mut pool = Keys::new();
        pool.text("name", &name).set("sources", format!("[{{ name = {} }}]", quoted(&name)));
        self.config.section("[[pool]]", pool);
        self.pools.push(name.clone());
        Some(name)
    }

    /// Concurrency, rates and timeouts of a service that are set.
    fn client_limits(&mut self, service: &Service, keys: &mut Keys) {
        let is_lmtp = service.command == "lmtp";
        for (suffix, key) in [
            ("destination_concurrency_limit", "max_connections"),
            ("destination_recipient_limit", "recipients_per_message"),
        ] {
            let own = self.get(&format!("{}_{suffix}", service.name));
            let of = if own.is_set { own } else { self.get(&format!("default_{suffix}")) };
            if of.is_set && of.text != "0" && of.text.parse::<u32>().is_ok() {
                keys.set(key, of.text.trim());
                self.carried(&of, &format!("`{key}` of the routes"));
            }
        }
        let own = self.get(&format!("{}_destination_rate_delay", service.name));
        let of = if own.is_set { own } else { self.get("default_destination_rate_delay") };
        if let Some(delay) = seconds(&of.text, 1).filter(|delay| *delay > 0) {
            #[expect(clippy::cast_precision_loss, reason = "a delay is short")]
            let rate = 1.0 / delay as f64;
            keys.set("messages_per_second", format!("{rate:.6}"));
            self.carried(&of, "`messages_per_second` of the routes");
        }
        for (suffix, key) in [
            ("connect_timeout", "connect_timeout"),
            ("helo_timeout", "greeting_timeout"),
            ("mail_timeout", "command_timeout"),
            ("data_init_timeout", "data_timeout"),
            ("data_xfer_timeout", "content_timeout"),
            ("data_done_timeout", "final_timeout"),
        ] {
            let prefix = if is_lmtp { "lmtp" } else { "smtp" };
            let of = self.site.get_at(Some(service), &format!("{prefix}_{suffix}"));
            if let Some(time) = seconds(&of.text, 1).filter(|time| of.is_set && *time > 0) {
                keys.text(key, &format!("{time}s"));
                self.carried(&of, &format!("`{key}` of the routes"));
            }
        }
    }

    /// Maps of a parameter, for a search of their keys.
    pub(super) fn keys_of(&self, name: &str, service: &Service) -> Option<Vec<String>> {
        let of = self.site.get_at(Some(service), name);
        let mut all = Vec::new();
        for map in of.words().iter().filter_map(|word| MapName::parse(word)) {
            all.extend(self.map_entries(&of, &map)?.into_iter().map(|entry| entry.key));
        }
        Some(all)
    }
}
