//! `[[route]]`.

use super::{General, reports};
use crate::channel::{Destination, Settings};
use crate::conditions::Conditions;
use crate::conditions::scope::{ConditionScope, ConditionTime};
use crate::host::Host;
use crate::listener::Listener;
use crate::or_routes::OrRoutes;
use crate::patterns::DomainPattern;
use crate::reader::Reader;
use crate::resolver::Resolver;
use crate::route::{Route, RouteTable};
use crate::settings::{Reports, Retry};
use crate::source::Pool;
use crate::table::TableEntry;
use crate::written::{AliasesText, DomainsText, RetryOverrideText, RetryText, RouteText};
use crate::{POSTMASTER_ROUTE, Schema};
use mail::{Domain, OrAddress};
use std::path::{Component, PathBuf};
use std::sync::Arc;

impl Resolver<'_> {
    pub(super) fn routes(
        &mut self,
        written: &[RouteText],
        general: &General<'_>,
    ) -> (Vec<Route>, RouteTable) {
        if written.is_empty() {
            let help = "add a [[route]]";
            self.error("route", "no route: no recipient could be accepted", help);
        }
        let mut routes: Vec<Route> = Vec::with_capacity(written.len());
        let mut table = RouteTable::default();
        for (index, text) in written.iter().enumerate() {
            let at = format!("route[{index}]");
            let name = self.route_name(&at, index, text, &routes);
            let retry = self.retry_of(&at, text, general);
            let reports = self.reports_of(&at, text, general);
            let (domains, domains_table) = match &text.domains {
                Some(DomainsText::Table(reference)) => {
                    let path = format!("{at}.domains.table");
                    (Vec::new(), self.table_named(&path, &reference.table))
                }
                Some(DomainsText::List(list)) if list.is_empty() => {
                    self.check_only_fallback(&at, &name, written);
                    (Vec::new(), None)
                }
                Some(DomainsText::List(list)) => (self.domains(&at, list), None),
                None => (Vec::new(), None),
            };
            let or_addresses = match &text.or_addresses {
                Some(list) => self.or_addresses(&at, list),
                None => Vec::new(),
            };
            let mut named = |key: &str, table: Option<&String>| {
                self.table_named(&format!("{at}.{key}.table"), table?)
            };
            let recipients = named("recipients", text.recipients.as_ref().map(|it| &it.table));
            let aliases = named("aliases", text.aliases.as_ref().map(|it| &it.table));
            let origin = text.aliases.as_ref().and_then(|aliases| self.origin(&at, aliases));
            let channel = self.channel(&at, index, text, general.schema, recipients.as_ref());
            let when = self.when(&at, text, &name);
            self.enter((&at, index, text), &domains, &routes, &mut table);
            let channel = channel.unwrap_or_else(|| Arc::new(Unread));
            self.check_kind_of_mail(&at, text, &*channel);
            let route = Route {
                index,
                name,
                domains,
                domains_table,
                or_addresses,
                fallback: None,
                is_only_fallback: has_no_domains(text),
                when,
                recipients,
                aliases,
                origin,
                include: self.include(&at, text),
                srs: text.srs,
                defer_classes: self.defer_classes(&at, text, &*channel),
                pool: self.pool_of(&at, text, general.pools, &*channel),
                channel,
                retry,
                reports,
                line: self.document.line(&at).unwrap_or(0),
            };
            self.check_reachable(&at, &route, &routes);
            routes.push(route);
        }
        (routes, table)
    }

    /// Retry policy of a route: the general one with the route's changes.
    fn retry_of(&mut self, at: &str, text: &RouteText, general: &General<'_>) -> Retry {
        let Some(changes) = &text.retry else { return general.retry.clone() };
        let merged = merge_retry(&general.written.retry, changes);
        self.retry(&format!("{at}.retry"), &merged)
    }

    /// Report settings of a route: the general ones with the route's changes.
    fn reports_of(&mut self, at: &str, text: &RouteText, general: &General<'_>) -> Arc<Reports> {
        let Some(changes) = &text.reports else { return Arc::clone(general.reports) };
        let merged = reports::merge(&general.written.reports, changes);
        Arc::new(self.reports(&format!("{at}.reports"), &merged))
    }

    /// Mailboxes and O/R addresses need channels that support them.
    fn check_kind_of_mail(&mut self, at: &str, text: &RouteText, channel: &dyn Settings) {
        let kinds = channel.kinds_of_mail();
        if text.or_addresses.is_some() && !kinds.x400 && !channel.key().is_empty() {
            let message = format!("`or_addresses` in a route to `{}`", channel.key());
            let help = "X.400 messages need `x400` or `discard`";
            self.error(&format!("{at}.or_addresses"), message, help);
        }
        if !kinds.internet && (text.domains.is_some() || text.or_addresses.is_none()) {
            let message = format!("a route to `{}` takes O/R addresses only", channel.key());
            let help =
                "name them in `or_addresses` and leave `domains` out, or give [x400] a `gateway`";
            self.error(at, message, help);
        }
    }

    /// Classes of replies, which only peers give. The program knows their names.
    fn defer_classes(
        &mut self,
        at: &str,
        text: &RouteText,
        channel: &dyn Settings,
    ) -> Arc<[Box<str>]> {
        let is_read = !channel.key().is_empty();
        if is_read && !channel.has_replies() && !text.defer_classes.is_empty() {
            let message = format!(
                "`defer_classes` in a route to `{}`, which gets no SMTP replies to classify",
                channel.key()
            );
            self.error(&format!("{at}.defer_classes"), message, "leave `defer_classes` out");
        }
        text.defer_classes.iter().map(|name| name.as_str().into()).collect()
    }

    /// The pool that a route's mail is sent from.
    fn pool_of(
        &mut self,
        at: &str,
        text: &RouteText,
        pools: &[Arc<Pool>],
        channel: &dyn Settings,
    ) -> Option<Arc<Pool>> {
        let (name, section) = (text.pool.as_deref()?, at);
        let at = format!("{section}.pool");
        if channel.is_local() {
            self.error(&at, "local delivery has no source address", "leave `pool` out");
        }
        if matches!(channel.destination(), Destination::ByEntry) {
            let help = "name the hosts in the route";
            self.error(&at, "a pool cannot be used with hosts from recipients' entries", help);
        }
        self.named_pool(section, Some(name), pools)
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
            self.error(&path, "\"postmaster\" is the name of a built-in route", "");
        }
        if let Some(other) = before.iter().find(|route| *route.name == **name) {
            let help = format!("on line {}", other.line);
            self.error(&path, format!("a route named \"{name}\" already exists"), &help);
        }
        name.as_str().into()
    }

    /// Adds a route to the table and reports unreachable patterns.
    fn enter(
        &mut self,
        (at, index, text): (&str, usize, &RouteText),
        domains: &[DomainPattern],
        before: &[Route],
        table: &mut RouteTable,
    ) {
        if let Some(all) = table.catch_all().and_then(|index| before.get(index)) {
            let message = format!("route {} is unreachable", index + 1);
            let help = format!(
                "route {} on line {} has neither `domains` nor `when` and takes everything: move it \
                 to the end",
                all.index + 1,
                all.line
            );
            self.error(at, message, &help);
            return;
        }
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let is_conditional = text.when.is_some();
        if text.domains.is_none() && text.or_addresses.is_none() && !is_conditional {
            table.insert_catch_all(index);
            return;
        }
        for (position, pattern) in domains.iter().enumerate() {
            // Mail that a conditional route leaves goes on to later routes with the domain.
            let entered = if is_conditional { None } else { table.insert(pattern, index) };
            let earlier = entered.or_else(|| covered(table, pattern, index));
            let Some(earlier) = earlier.and_then(|earlier| before.get(earlier as usize)) else {
                continue;
            };
            let message = format!("route {} already has {pattern}", earlier.index + 1);
            let help = format!("on line {}; the first matching route applies", earlier.line);
            self.error(&format!("{at}.domains[{position}]"), message, &help);
        }
    }

    /// The conditions of a route.
    fn when(&mut self, at: &str, text: &RouteText, name: &str) -> Option<Arc<Conditions>> {
        let when = text.when.as_ref()?;
        if text.or_addresses.is_some() {
            let help = "conditions are for internet mail: leave `when` out";
            self.error(&format!("{at}.when"), "`when` in a route with `or_addresses`", help);
        }
        // Mail of an X.400 gateway is queued with its listener.
        let scope = ConditionScope::new(ConditionTime::Recipient).routes(&[name.to_owned()]);
        Reader::new(self, format!("{at}.when")).conditions(when, scope)
    }

    /// Reports a conditional route that an earlier one leaves no mail.
    fn check_reachable(&mut self, at: &str, route: &Route, before: &[Route]) {
        let Some(when) = &route.when else { return };
        let takes_all = |earlier: &&Route| {
            earlier.when.as_ref().is_some_and(|earlier| earlier.covers(when))
                && takes_domains_of(earlier, route)
        };
        if let Some(earlier) = before.iter().find(takes_all) {
            let message = format!("route {} is unreachable", route.index + 1);
            let help = format!(
                "route {} on line {} takes all its mail: move it after this one",
                earlier.index + 1,
                earlier.line
            );
            self.error(&format!("{at}.when"), message, &help);
        }
    }

    fn domains(&mut self, at: &str, written: &[String]) -> Vec<DomainPattern> {
        let path = format!("{at}.domains");
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

    /// Domain of alias members without one.
    fn origin(&mut self, at: &str, aliases: &AliasesText) -> Option<Domain> {
        let text = aliases.origin.as_deref()?;
        match Domain::parse(text) {
            Ok(domain) if domain.literal().is_none() => Some(domain),
            _ => {
                let path = format!("{at}.aliases.origin");
                let help = "write the domain of addresses without one, as \"example.org\"";
                self.error(&path, format!("\"{text}\" is not a domain"), help);
                None
            }
        }
    }

    /// Directories of lists.
    fn include(&mut self, at: &str, text: &RouteText) -> Vec<PathBuf> {
        if text.aliases.is_none() && !text.include.is_empty() {
            let help = "lists are named by `aliases` only: add `aliases`, or leave `include` out";
            self.error(&format!("{at}.include"), "`include` without `aliases`", help);
        }
        let mut directories = Vec::with_capacity(text.include.len());
        for (index, directory) in text.include.iter().enumerate() {
            let here = format!("{at}.include[{index}]");
            let path = self.file_path(&here, directory);
            if !path.is_absolute() || path.components().any(|part| part == Component::ParentDir) {
                let help = "write a directory, for example \"/etc/postrider/lists\"";
                self.error(&here, format!("\"{directory}\" is not an absolute path"), help);
            }
            directories.push(path);
        }
        directories
    }

    /// The one channel that a route leads to.
    fn channel(
        &mut self,
        at: &str,
        index: usize,
        text: &RouteText,
        schema: &Schema,
        recipients: Option<&Arc<TableEntry>>,
    ) -> Option<Arc<dyn Settings>> {
        let kinds = schema.channels();
        let mut set = kinds.iter().filter_map(|kind| Some((kind, text.channels.get(kind.key)?)));
        let Some((kind, value)) = set.next() else {
            let message = format!("route {} has no channel", index + 1);
            let known: Vec<&str> = kinds.iter().map(|kind| kind.key).collect();
            self.error(at, message, &format!("add one of {}", known.join(", ")));
            return None;
        };
        let others: Vec<&str> = set.map(|(kind, _)| kind.key).collect();
        if let Some(last) = others.last() {
            let message = format!("route {} has {} channels", index + 1, others.len() + 1);
            let help = format!("keep one of {}, {}", kind.key, others.join(", "));
            self.error(&format!("{at}.{last}"), message, &help);
            return None;
        }
        let table = value.as_table().cloned().unwrap_or_default();
        if text.recipients.is_some() && recipients.is_none() {
            // The valid value names are unknown: the table has an error, which is reported first.
            return None;
        }
        let reader = Reader::new(self, format!("{at}.{}", kind.key));
        (kind.read)(table, &mut reader.with_recipients(recipients.cloned()))
    }

    /// Warns of a route to a listener's own address: a loop.
    pub(super) fn routes_to_ourselves(&mut self, routes: &[Route], listeners: &[Listener]) {
        for route in routes {
            let Destination::Hosts(groups) = route.channel.destination() else { continue };
            for (index, host) in groups.into_iter().flatten().enumerate() {
                let Host::Address(ip) = host.host else { continue };
                let ip = ip.to_canonical();
                let is_own = |listener: &&Listener| {
                    let own = listener.address.ip().to_canonical();
                    listener.address.port() == host.port
                        && (own == ip || own.is_unspecified() && ip.is_loopback())
                };
                if let Some(listener) = listeners.iter().find(is_own) {
                    let at = format!("route[{}].{}", route.index, route.channel.key());
                    let message = format!("{host} is this server's own listener");
                    let help = format!("{} listens there: mail would loop", listener.address);
                    self.warn(&format!("{at}.hosts[{index}]"), message, &help);
                }
            }
        }
    }
}

/// Replaces a channel with an error, which was reported: this route will not be used, but the numbers of the rest stay.
#[derive(Debug)]
struct Unread;

impl Settings for Unread {
    fn key(&self) -> &'static str {
        ""
    }

    fn destination(&self) -> Destination<'_> {
        Destination::Here("")
    }

    fn is_like(&self, _: &dyn Settings) -> bool {
        false
    }
}

fn has_no_domains(text: &RouteText) -> bool {
    matches!(&text.domains, Some(DomainsText::List(list)) if list.is_empty())
}

/// Returns true if the earlier route takes mail for all domains of a later one, and from the same clients.
fn takes_domains_of(earlier: &Route, later: &Route) -> bool {
    let covers = |pattern: &DomainPattern| {
        earlier.domains.iter().any(|earlier| match pattern {
            DomainPattern::Exact(domain) => earlier.covers(domain),
            DomainPattern::Below(_) => earlier == pattern,
        })
    };
    let table = |route: &Route| route.domains_table.as_ref().map(|table| Arc::clone(&table.name));
    earlier.names_domains() == later.names_domains()
        && table(earlier) == table(later)
        && later.domains.iter().all(covers)
}

/// A wildcard of an earlier route that covers `pattern`.
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
    if text.contains('@') {
        return Err("routes match domains only: remove the part up to the @".to_owned());
    }
    DomainPattern::parse(text)
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

impl Resolver<'_> {
    /// An O/R address, read by `parse`.
    pub(crate) fn or_address(
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

    /// Reads a route's O/R addresses.
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
                let message = format!("{} in an O/R address pattern", strange.key());
                let help = "routes match C, ADMD, PRMD, O and OU1 to OU4 only; the next MTA \
                 resolves the rest";
                self.error(&path, message, help);
                continue;
            }
            taken.push(address);
        }
        taken
    }

    /// Builds the routing table of O/R addresses.
    pub(super) fn or_routes(&mut self, routes: &[Route]) -> OrRoutes {
        let mut table = OrRoutes::default();
        for route in routes {
            for (position, taken) in route.or_addresses.iter().enumerate() {
                let index = u32::try_from(route.index).unwrap_or(u32::MAX);
                let other = table.insert(taken, index).and_then(|other| routes.get(other as usize));
                let Some(other) = other else { continue };
                let path = format!("route[{}].or_addresses[{position}]", route.index);
                let message = format!("route {} already has {taken}", other.index + 1);
                self.error(&path, message, &format!("on line {}", other.line));
            }
        }
        table
    }
}

/// Fallbacks of routes.
impl Resolver<'_> {
    /// A route without domains must be a fallback of another one.
    fn check_only_fallback(&mut self, at: &str, name: &str, written: &[RouteText]) {
        if !written.iter().any(|route| route.fallback.as_deref() == Some(name)) {
            let help = "name some, or leave `domains` out: the route then takes everything else";
            self.error(&format!("{at}.domains"), "`domains` is empty", help);
        }
    }

    /// Resolves the names in `fallback`.
    pub(super) fn fallbacks(&mut self, written: &[RouteText], routes: &mut [Route]) {
        for (index, text) in written.iter().enumerate() {
            let Some(name) = &text.fallback else { continue };
            let at = format!("route[{index}].fallback");
            let Some(route) = routes.get(index) else { continue };
            if !has_hosts(route) {
                let help =
                    "only a route with `mx`, or with `smtp` and `hosts` in this file, has one";
                self.error(&at, "`fallback` of a route without hosts", help);
                continue;
            }
            match routes.iter().find(|other| *other.name == **name) {
                None => {
                    let names: Vec<&str> = routes.iter().map(|route| &*route.name).collect();
                    let help = format!("configured: {}", names.join(", "));
                    self.error(&at, format!("unknown route \"{name}\""), &help);
                }
                Some(other) if !has_hosts(other) => {
                    let help = "use a route with `mx`, or with `smtp` and `hosts` in this file";
                    self.error(&at, format!("route \"{name}\" has no hosts"), help);
                }
                Some(other) if leads_to(routes, other.index, index) => {
                    let help = "a fallback must not lead back to its route";
                    self.error(&at, "fallbacks in a circle", help);
                }
                Some(other) => {
                    let other = other.index;
                    routes[index].fallback = Some(other);
                }
            }
        }
    }
}

/// Returns true if mail of the route goes to hosts that the route determines.
fn has_hosts(route: &Route) -> bool {
    match route.channel.destination() {
        Destination::Hosts(_) | Destination::Mx { .. } | Destination::MxOf { .. } => {
            route.channel.kinds_of_mail().internet
        }
        Destination::Here(_) | Destination::ByEntry => false,
    }
}

/// Returns true if the fallbacks of a route, itself included, lead to another one.
fn leads_to(routes: &[Route], from: usize, to: usize) -> bool {
    let mut next = Some(from);
    while let Some(at) = next {
        if at == to {
            return true;
        }
        next = routes.get(at).and_then(|route| route.fallback);
    }
    false
}
