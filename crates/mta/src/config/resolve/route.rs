//! `[[route]]`.

use super::{General, Resolver, reports};
use crate::config::POSTMASTER_ROUTE;
use crate::config::route::{
    Channel, DomainPattern, Host, HostPort, Maildir, Peer, Route, RouteTable,
};
use crate::config::settings::Listener;
use crate::config::written::{
    Balance, NamedHostsText, PeerText, RetryOverrideText, RetryText, RouteText,
};
use mail::Domain;
use std::sync::Arc;

impl Resolver<'_> {
    pub(super) fn routes(
        &mut self,
        written: &[RouteText],
        general: &General<'_>,
    ) -> (Vec<Route>, RouteTable) {
        if written.is_empty() {
            let help = "add a [[route]]";
            self.error("route", "there is no route: no recipient could be accepted", help);
        }
        let mut routes: Vec<Route> = Vec::with_capacity(written.len());
        let mut table = RouteTable::default();
        for (index, text) in written.iter().enumerate() {
            let at = format!("route[{index}]");
            let name = self.route_name(&at, index, text, &routes);
            let retry = match &text.retry {
                Some(changes) => {
                    let merged = merge_retry(&general.written.retry, changes);
                    self.retry(&format!("{at}.retry"), &merged)
                }
                None => general.retry.clone(),
            };
            let reports = match &text.reports {
                Some(changes) => {
                    let merged = reports::merge(&general.written.reports, changes);
                    Arc::new(self.reports(&format!("{at}.reports"), &merged))
                }
                None => Arc::clone(general.reports),
            };
            let domains = self.domains(&at, text.domains.as_deref());
            let channel = self.channel(&at, index, text);
            self.enter(&at, index, text.domains.is_none(), &domains, &routes, &mut table);
            let channel = channel.unwrap_or(Channel::Discard);
            routes.push(Route {
                index,
                name,
                domains,
                channel,
                retry,
                reports,
                line: self.document.line(&at).unwrap_or(0),
            });
        }
        (routes, table)
    }

    fn route_name(
        &mut self,
        at: &str,
        index: usize,
        text: &RouteText,
        before: &[Route],
    ) -> Arc<str> {
        let Some(name) = &text.name else { return format!("route-{}", index + 1).into() };
        let path = format!("{at}.name");
        self.printable(&path, name, 64);
        if name == POSTMASTER_ROUTE {
            self.error(&path, "the name \"postmaster\" is taken by a built-in route", "");
        }
        if let Some(other) = before.iter().find(|route| *route.name == **name) {
            let help = format!("on line {}", other.line);
            self.error(&path, format!("a route named \"{name}\" exists already"), &help);
        }
        name.as_str().into()
    }

    /// Puts a route into the table and notes what can never be reached.
    fn enter(
        &mut self,
        at: &str,
        index: usize,
        catch_all: bool,
        domains: &[DomainPattern],
        before: &[Route],
        table: &mut RouteTable,
    ) {
        if let Some(all) = table.catch_all().and_then(|index| before.get(index)) {
            let message = format!("route {} can never be reached", index + 1);
            let help = format!(
                "route {} on line {} has no `domains` and takes everything: move it to the end",
                all.index + 1,
                all.line
            );
            self.error(at, message, &help);
            return;
        }
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        if catch_all {
            table.insert_catch_all(index);
            return;
        }
        for (position, pattern) in domains.iter().enumerate() {
            let earlier = table.insert(pattern, index).or_else(|| covered(table, pattern, index));
            let Some(earlier) = earlier.and_then(|earlier| before.get(earlier as usize)) else {
                continue;
            };
            let message = format!("{pattern} is taken by route {} already", earlier.index + 1);
            let help = format!("on line {}; the first route that matches wins", earlier.line);
            self.error(&format!("{at}.domains[{position}]"), message, &help);
        }
    }

    fn domains(&mut self, at: &str, written: Option<&[String]>) -> Vec<DomainPattern> {
        let Some(written) = written else { return Vec::new() };
        let path = format!("{at}.domains");
        if written.is_empty() {
            let help = "name some, or leave `domains` out: the route then takes everything else";
            self.error(&path, "`domains` is empty", help);
        }
        let mut seen = std::collections::BTreeSet::new();
        let mut patterns = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match domain_pattern(text) {
                Ok(pattern) if seen.insert(pattern.clone()) => patterns.push(pattern),
                Ok(pattern) => self.error(&path, format!("{pattern} is listed twice"), ""),
                Err(help) => self.error(&path, format!("\"{text}\" is not a domain"), &help),
            }
        }
        patterns
    }

    fn channel(&mut self, at: &str, index: usize, text: &RouteText) -> Option<Channel> {
        let set = [
            ("smtp", text.smtp.is_some()),
            ("lmtp", text.lmtp.is_some()),
            ("mx", text.mx.is_some()),
            ("maildir", text.maildir.is_some()),
            ("discard", text.discard.is_some()),
        ];
        let set: Vec<&str> = set.iter().filter(|(_, set)| *set).map(|(name, _)| *name).collect();
        match set.as_slice() {
            [] => {
                let message = format!("route {} leads nowhere", index + 1);
                self.error(at, message, "give it one of smtp, lmtp, mx, maildir, discard");
                return None;
            }
            [_] => {}
            [.., last] => {
                let message = format!("route {} leads to {} channels", index + 1, set.len());
                let help = format!("keep one of {}", set.join(", "));
                self.error(&format!("{at}.{last}"), message, &help);
                return None;
            }
        }
        if let Some(smtp) = &text.smtp {
            let path = format!("{at}.smtp");
            let named = NamedHostsText {
                balance: smtp.balance,
                unasked_content: smtp.unasked_content,
                transactions_in_flight: smtp.transactions_in_flight,
            };
            return Some(Channel::Smtp(self.hosts(&path, &smtp.hosts, &smtp.peer(named))));
        }
        if let Some(lmtp) = &text.lmtp {
            let path = format!("{at}.lmtp");
            let named = NamedHostsText {
                balance: lmtp.balance,
                unasked_content: lmtp.unasked_content,
                transactions_in_flight: lmtp.transactions_in_flight,
            };
            return Some(Channel::Lmtp(self.hosts(&path, &lmtp.hosts, &lmtp.peer(named))));
        }
        if let Some(mx) = &text.mx {
            let path = format!("{at}.mx");
            let named = NamedHostsText {
                balance: Balance::Failover,
                unasked_content: false,
                transactions_in_flight: 1,
            };
            let text = PeerText { refuse_private: mx.refuse_private, ..mx.peer(named) };
            let peer = self.peer(&path, &text, Vec::new());
            return Some(Channel::Mx(Arc::new(peer)));
        }
        match &text.maildir {
            Some(maildir) => self.maildir(&format!("{at}.maildir"), maildir.path.as_deref()),
            None => Some(Channel::Discard),
        }
    }

    /// A route to a host that is given by address, where a listener is, goes round in circles.
    pub(super) fn routes_to_ourselves(&mut self, routes: &[Route], listeners: &[Listener]) {
        for route in routes {
            let hosts = route.channel.peer().map_or(&[][..], |peer| &peer.hosts);
            for (index, host) in hosts.iter().enumerate() {
                let Host::Address(ip) = host.host else { continue };
                let ip = ip.to_canonical();
                let is_own = |listener: &&Listener| {
                    let own = listener.address.ip().to_canonical();
                    listener.address.port() == host.port
                        && (own == ip || own.is_unspecified() && ip.is_loopback())
                };
                if let Some(listener) = listeners.iter().find(is_own) {
                    let at = format!("route[{}].{}", route.index, route.channel.name());
                    let message = format!("{host} is this server's own listener");
                    let help = format!(
                        "{} listens there: mail would come back until it has passed too many \
                         servers",
                        listener.address
                    );
                    self.warn(&format!("{at}.hosts[{index}]"), message, &help);
                }
            }
        }
    }

    fn hosts(&mut self, at: &str, written: &[String], text: &PeerText) -> Arc<Peer> {
        let path = format!("{at}.hosts");
        if written.is_empty() {
            let help = "give it hosts = [\"host:port\"]";
            self.error(&path, "a route to nowhere: `hosts` is empty", help);
        }
        let mut hosts: Vec<HostPort> = Vec::with_capacity(written.len());
        for (index, text_of_host) in written.iter().enumerate() {
            let path = format!("{path}[{index}]");
            match HostPort::parse(text_of_host, text.port) {
                Ok(HostPort { host: Host::Socket(_), .. }) if at.ends_with(".smtp") => {
                    let help = "only LMTP is spoken over Unix sockets";
                    self.error(&path, format!("\"{text_of_host}\" is not a host"), help);
                }
                Ok(host) if hosts.contains(&host) => {
                    self.error(&path, format!("{host} is listed twice"), "");
                }
                Ok(host) => hosts.push(host),
                Err(help) => {
                    self.error(&path, format!("\"{text_of_host}\" is not a host"), &help);
                }
            }
        }
        Arc::new(self.peer(at, text, hosts))
    }

    fn peer(&mut self, at: &str, text: &PeerText, hosts: Vec<HostPort>) -> Peer {
        let key = |name: &str| format!("{at}.{name}");
        self.tls_off(&key("tls"), &text.tls);
        if text.transactions_in_flight > 1 && !text.unasked_content {
            let help = "it sends each content before its recipients are accepted; if the hosts are \
                        known to discard what they refuse, add `unasked_content = true`";
            self.error(
                &key("transactions_in_flight"),
                "`transactions_in_flight` above 1 needs `unasked_content = true`",
                help,
            );
        }
        Peer {
            hosts,
            port: text.port,
            max_connections: text.max_connections,
            max_opens: text.max_opens,
            messages_per_connection: text.messages_per_connection,
            unasked_content: text.unasked_content,
            transactions_in_flight: text.transactions_in_flight,
            messages_per_second: text.messages_per_second,
            recipients_per_message: text.recipients_per_message,
            adaptive: text.adaptive,
            balance: text.balance,
            refuse_private: text.refuse_private,
            eight_bit: text.eight_bit,
            chunking: text.chunking,
            pipelining: text.pipelining,
            connect_timeout: self.timeout(&key("connect_timeout"), &text.connect_timeout),
            greeting_timeout: self.timeout(&key("greeting_timeout"), &text.greeting_timeout),
            command_timeout: self.timeout(&key("command_timeout"), &text.command_timeout),
            data_timeout: self.timeout(&key("data_timeout"), &text.data_timeout),
            content_timeout: self.timeout(&key("content_timeout"), &text.content_timeout),
            final_timeout: self.timeout(&key("final_timeout"), &text.final_timeout),
            transaction_timeout: self
                .timeout(&key("transaction_timeout"), &text.transaction_timeout),
            idle_timeout: self.duration(&key("idle_timeout"), &text.idle_timeout),
        }
    }

    fn maildir(&mut self, at: &str, path: Option<&str>) -> Option<Channel> {
        let Some(path) = path else {
            let help = "such as path = \"/srv/mail/{domain}/{local}\"";
            self.error(at, "a route to nowhere: `path` is missing", help);
            return None;
        };
        match Maildir::new(path) {
            Ok(maildir) => {
                if !path.contains("{local}") {
                    let help = "add {local} to give each recipient a Maildir of its own";
                    let message = "all recipients share one Maildir";
                    self.warn(&format!("{at}.path"), message, help);
                }
                Some(Channel::Maildir(Arc::new(maildir)))
            }
            Err(help) => {
                self.error(&format!("{at}.path"), "not a path for Maildirs", &help);
                None
            }
        }
    }
}

/// A wildcard of an earlier route that takes all that `pattern` could.
fn covered(table: &RouteTable, pattern: &DomainPattern, route: u32) -> Option<u32> {
    let domain = match pattern {
        DomainPattern::Exact(domain) | DomainPattern::Below(domain) => domain,
    };
    let earlier = match pattern {
        DomainPattern::Exact(_) => table.named(domain),
        DomainPattern::Below(_) => table.below(domain),
    };
    earlier.and_then(|earlier| u32::try_from(earlier).ok()).filter(|earlier| *earlier < route)
}

fn domain_pattern(text: &str) -> Result<DomainPattern, String> {
    if text == "*" || text == "." {
        return Err("leave `domains` out: the route then takes everything else".to_owned());
    }
    let below = text.strip_prefix("*.").or_else(|| text.strip_prefix('.'));
    if text.contains('@') {
        return Err("routes go by domain only: leave out the part up to the @".to_owned());
    }
    let domain = Domain::parse(below.unwrap_or(text)).map_err(|error| error.to_string())?;
    // Without this a U-label that DNS can't be asked for would match nothing.
    domain.to_ascii().map_err(|error| error.to_string())?;
    Ok(match below {
        Some(_) if domain.as_str().starts_with('[') => {
            return Err("nothing lies below an address".to_owned());
        }
        Some(_) => DomainPattern::Below(domain),
        None => DomainPattern::Exact(domain),
    })
}

/// `[retry]` with a route's changes.
fn merge_retry(base: &RetryText, changes: &RetryOverrideText) -> RetryText {
    RetryText {
        first: changes.first.as_ref().unwrap_or(&base.first).clone(),
        factor: changes.factor.unwrap_or(base.factor),
        longest: changes.longest.as_ref().unwrap_or(&base.longest).clone(),
        jitter: changes.jitter.unwrap_or(base.jitter),
        give_up_after: changes.give_up_after.as_ref().unwrap_or(&base.give_up_after).clone(),
        warn_after: changes.warn_after.as_ref().unwrap_or(&base.warn_after).clone(),
    }
}
