//! Reads `when`, and reports conditions that no mail meets.

use crate::conditions::{Condition, ConditionSubject, ConditionValues, Conditions, MailFacts};
use crate::listener::Listener;
use crate::patterns::{AddressPattern, DomainPattern};
use crate::reader::Reader;
use crate::resolver::{ConditionNeeds, Resolver};
use crate::route::Route;
use crate::written::{WhenList, WhenText};
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Maximum length of the name of a user in octets, as for logins of tenants.
const LOGIN_BYTES_MAX: usize = 255;

impl Reader<'_, '_> {
    /// The conditions in the table that this reader is for; `None` after an error, which was reported. The tables,
    /// listeners and tenants of the file must have been read.
    pub fn conditions(&mut self, text: &WhenText) -> Option<Arc<Conditions>> {
        let WhenText { senders, recipients, logins, clients, listeners, tenants } = text;
        let each = [
            (ConditionSubject::Sender, senders),
            (ConditionSubject::Recipient, recipients),
            (ConditionSubject::Login, logins),
            (ConditionSubject::Client, clients),
            (ConditionSubject::Listener, listeners),
            (ConditionSubject::Tenant, tenants),
        ];
        let written = each.into_iter().filter_map(|(about, list)| Some((about, list.as_ref()?)));
        let (mut all, mut is_whole) = (Vec::new(), true);
        for (about, list) in written {
            match self.values(about, list) {
                Some(values) => all.push(Condition { about, values }),
                None => is_whole = false,
            }
        }
        if all.is_empty() && is_whole {
            self.error("", "`when` is empty", "name a condition, or leave `when` out");
        }
        let conditions = Conditions::of(all).filter(|_| is_whole)?;
        let needs = ConditionNeeds {
            at: self.path(""),
            logins: logins.is_some(),
            tenants: tenants.is_some(),
            listeners: listeners.as_ref().and_then(|list| match list {
                WhenList::List(names) => Some(names.clone()),
                WhenList::Table(_) => None,
            }),
        };
        self.resolver.needs.push(needs);
        Some(Arc::new(conditions))
    }

    fn values(&mut self, about: ConditionSubject, list: &WhenList) -> Option<ConditionValues> {
        let key = about.key();
        let list = match list {
            WhenList::Table(reference) => {
                return self
                    .table(&format!("{key}.table"), &reference.table)
                    .map(ConditionValues::Table);
            }
            WhenList::List(list) => list,
        };
        if list.is_empty() {
            let help = format!("name some values, or leave `{key}` out");
            self.error(key, format!("`{key}` is empty, so the condition never holds"), &help);
            return None;
        }
        self.refuse_repeated(key, list);
        match about {
            ConditionSubject::Sender | ConditionSubject::Recipient => {
                return self.addresses(about, list);
            }
            ConditionSubject::Client => {
                return Some(ConditionValues::Networks(self.networks(key, list)));
            }
            ConditionSubject::Listener => self.check_listeners(key, list),
            // Without configured tenants a tenant is only a label.
            ConditionSubject::Tenant if !self.resolver.tenant_names.is_empty() => {
                self.check_tenants(key, list)
            }
            ConditionSubject::Tenant => {}
            ConditionSubject::Login => {
                for (index, login) in list.iter().enumerate() {
                    self.printable(&format!("{key}[{index}]"), login, LOGIN_BYTES_MAX);
                }
            }
        }
        Some(ConditionValues::Names(list.iter().map(|name| name.as_str().into()).collect()))
    }

    fn refuse_repeated(&mut self, key: &str, list: &[String]) {
        for (index, text) in list.iter().enumerate() {
            if list[..index].contains(text) {
                self.error(&format!("{key}[{index}]"), format!("\"{text}\" is listed twice"), "");
            }
        }
    }

    fn addresses(&mut self, about: ConditionSubject, list: &[String]) -> Option<ConditionValues> {
        let (mut null, mut patterns) = (false, Vec::with_capacity(list.len()));
        for (index, text) in list.iter().enumerate() {
            let at = format!("{}[{index}]", about.key());
            match (about, text.as_str()) {
                (ConditionSubject::Sender, "<>") => null = true,
                (_, "<>") => self.error(&at, "\"<>\" is not a recipient", "leave it out"),
                (_, text) => match AddressPattern::parse(text) {
                    Some(pattern) => patterns.push(pattern),
                    None => {
                        let message = format!("\"{text}\" is neither an address nor a domain");
                        let help = "write, for example, \"me@example.org\", \"@example.org\" or \
                                    \"@*.example.org\"";
                        self.error(&at, message, help);
                    }
                },
            }
        }
        Some(ConditionValues::Addresses { null, patterns })
    }
}

impl Resolver<'_> {
    /// Reports conditions that no mail meets.
    pub(super) fn possible_conditions(&mut self, routes: &[Route], listeners: &[Listener]) {
        let mut impossible = BTreeSet::new();
        for needs in std::mem::take(&mut self.needs) {
            let with_tenant = !needs.tenants || self.possible_tenants(&needs.at, listeners);
            let with_login = !needs.logins || self.possible_login(&needs, listeners);
            if !(with_tenant && with_login) {
                impossible.insert(needs.at);
            }
        }
        for route in routes {
            let Some(when) = &route.when else { continue };
            let at = format!("route[{}].when", route.index);
            self.possible_recipients(&at, when, &route.domains);
            if !impossible.contains(&at) {
                self.possible_clients(&at, (route, when), listeners);
            }
        }
    }

    /// Returns true unless the condition about logins never holds, which is an error.
    fn possible_login(&mut self, needs: &ConditionNeeds, listeners: &[Listener]) -> bool {
        let names = |name: &str, names: &Vec<String>| names.iter().any(|one| one == name);
        let is_among = |listener: &&Listener| {
            needs.listeners.as_ref().is_none_or(|all| names(&listener.name, all))
        };
        let found = listeners.iter().filter(is_among).any(Listener::needs_login);
        if !found {
            let message = "no listener has logins, so the condition never holds";
            let help = "users log in at listeners with `kind = \"submission\"`";
            self.error(&format!("{}.logins", needs.at), message, help);
        }
        found
    }

    /// Returns true unless the condition about tenants never holds, which is an error.
    fn possible_tenants(&mut self, at: &str, listeners: &[Listener]) -> bool {
        // Tenants are those of a [[tenant]], or else names that clients may write into messages.
        let found = !self.tenant_names.is_empty()
            || listeners.iter().any(|listener| !listener.steering_from.is_empty());
        if !found {
            let message = "no mail has a tenant, so the condition never holds";
            let help = "add a [[tenant]] with this name and its `logins`, or name in a listener's \
                        `steering_from` the clients that write the tenant into their messages";
            self.error(&format!("{at}.tenants"), message, help);
        }
        found
    }

    /// Warns of a route without domains that no client may use.
    fn possible_clients(
        &mut self,
        at: &str,
        (route, when): (&Route, &Conditions),
        listeners: &[Listener],
    ) {
        if route.names_domains() {
            return;
        }
        let among: Vec<&Listener> =
            listeners.iter().filter(|listener| may_be_of(when, listener)).collect();
        if !among.iter().any(|listener| listener.may_give_relay()) {
            let message = "no client may use this route, because it has no `domains`";
            let help = "name in a listener's `relay_from` the networks that may send anywhere";
            self.warn(at, message, help);
            return;
        }
        let Some(condition) = when.about(ConditionSubject::Client) else { return };
        let ConditionValues::Networks(networks) = &condition.values else { return };
        if !among.iter().any(|listener| gives_relay_to(listener, networks)) {
            let message = "no listener lets these clients use a route without `domains`, so the \
                           condition never holds";
            let help = "name their networks in a listener's `relay_from`, or add `domains`";
            self.warn(&format!("{at}.clients"), message, help);
        }
    }

    /// Reports recipients outside the domains of the route.
    fn possible_recipients(&mut self, at: &str, when: &Conditions, domains: &[DomainPattern]) {
        let Some(condition) = when.about(ConditionSubject::Recipient) else { return };
        let ConditionValues::Addresses { patterns, .. } = &condition.values else { return };
        let is_inside =
            |pattern: &AddressPattern| domains.iter().any(|domain| pattern.meets(domain));
        if domains.is_empty() || patterns.is_empty() {
            return;
        }
        if !patterns.iter().any(is_inside) {
            let message = "the recipients are outside the `domains` of the route, so the condition \
                           never holds";
            let help = "name recipients in these domains, or leave `domains` out";
            self.error(&format!("{at}.recipients"), message, help);
            return;
        }
        for (index, pattern) in patterns.iter().enumerate().filter(|(_, one)| !is_inside(one)) {
            let message = format!("{pattern} is outside the `domains` of the route");
            let help = "leave it out, or add its domain to `domains`";
            self.warn(&format!("{at}.recipients[{index}]"), message, help);
        }
    }
}

/// Returns true if mail of the listener may meet the condition about listeners.
fn may_be_of(when: &Conditions, listener: &Listener) -> bool {
    let Some(condition) = when.about(ConditionSubject::Listener) else { return true };
    let facts = MailFacts { listener: Some(&*listener.name), ..MailFacts::default() };
    condition.holds(&facts) != Some(false)
}

/// Returns true if a client of these networks may send to any domain.
fn gives_relay_to(listener: &Listener, networks: &[IpNet]) -> bool {
    let overlaps = |one: &IpNet, other: &IpNet| one.contains(other) || other.contains(one);
    listener.needs_login()
        || listener.client_certificates.as_ref().is_some_and(|certificates| certificates.relay)
        || listener.relay_from.iter().any(|one| networks.iter().any(|other| overlaps(one, other)))
}
