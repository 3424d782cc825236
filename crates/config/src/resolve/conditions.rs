//! Reads `when`, and reports conditions that no mail meets.

use crate::conditions::scope::{ConditionScope, ConditionTime, ScopedConditions};
use crate::conditions::{
    Condition, ConditionSubject, ConditionValues, Conditions, MailFacts, overlap,
};
use crate::listener::Listener;
use crate::patterns::{AddressPattern, AddressPatterns};
use crate::reader::Reader;
use crate::resolver::Resolver;
use crate::route::Route;
use crate::tenant::Tenants;
use crate::written::{WhenList, WhenText};
use ipnet::IpNet;
use std::sync::Arc;

/// Maximum length of the name of a user in octets, as for logins of tenants.
const LOGIN_BYTES_MAX: usize = 255;

impl Reader<'_, '_> {
    /// The conditions in the table that this reader is for, of a section with this scope; `None` after an error, which
    /// was reported. The tables, listeners and tenants of the file must have been read.
    pub fn conditions(
        &mut self,
        text: &WhenText,
        scope: ConditionScope,
    ) -> Option<Arc<Conditions>> {
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
        if let (Some(does), Some(WhenList::List(names))) = (scope.internet_only, listeners)
            && !names.is_empty()
        {
            self.refuse_foreign("listeners", names, does);
        }
        if scope.time == ConditionTime::Mail && recipients.is_some() {
            let help =
                "the section is applied at MAIL, before recipients are known: leave them out";
            self.error("recipients", "a condition about recipients, which are not known", help);
            is_whole = false;
        }
        let when = Arc::new(Conditions::of(all).filter(|_| is_whole)?);
        let scoped = ScopedConditions { at: self.path(""), scope, when: Arc::clone(&when) };
        self.resolver.conditions.push(scoped);
        Some(when)
    }

    /// Patterns of addresses and domains; those that are none are reported.
    pub fn address_patterns(&mut self, key: &str, list: &[String]) -> AddressPatterns {
        let each = list.iter().enumerate();
        self.patterns(key, each.map(|(index, text)| (index, text.as_str())))
    }

    fn patterns<'t>(
        &mut self,
        key: &str,
        list: impl Iterator<Item = (usize, &'t str)>,
    ) -> AddressPatterns {
        let mut each = Vec::new();
        for (index, text) in list {
            match AddressPattern::parse(text) {
                Some(pattern) => each.push(pattern),
                None => {
                    let message = format!("\"{text}\" is neither an address nor a domain");
                    let help = "write, for example, \"me@example.org\", \"@example.org\" or \
                                \"@*.example.org\"";
                    self.error(&format!("{key}[{index}]"), message, help);
                }
            }
        }
        AddressPatterns::new(each, self.tag_delimiters())
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
        let key = about.key();
        let is_null = |text: &str| text == "<>";
        let null = list.iter().position(|text| is_null(text));
        if let (ConditionSubject::Recipient, Some(index)) = (about, null) {
            let at = format!("{key}[{index}]");
            self.error(&at, "\"<>\" is not a recipient", "leave it out");
        }
        let each = list.iter().enumerate().map(|(index, text)| (index, text.as_str()));
        let patterns = self.patterns(key, each.filter(|(_, text)| !is_null(text)));
        // Without one that could be read there is nothing to compare.
        let is_whole = null.is_some() || !patterns.is_empty();
        is_whole.then_some(ConditionValues::Addresses { null: null.is_some(), patterns })
    }
}

impl Resolver<'_> {
    /// Reports conditions that no mail of their section meets.
    pub(super) fn possible_conditions(
        &mut self,
        routes: &[Route],
        listeners: &[Listener],
        tenants: &Tenants,
    ) {
        for section in std::mem::take(&mut self.conditions) {
            let own = |name: &String| routes.iter().find(|route| *route.name == **name);
            let of: Vec<&Route> = section.scope.routes.iter().filter_map(own).collect();
            let among: Vec<&Listener> =
                listeners.iter().filter(|listener| section.may_be_of(listener)).collect();
            self.possible_recipients(&section, &of);
            let is_possible = self.possible_beside(&section)
                & self.possible_tenants(&section, &among, tenants)
                & self.possible_login(&section, &among);
            if is_possible {
                self.possible_clients(&section, &of, &among);
            }
        }
    }

    /// Returns true unless other keys of the section exclude a condition, which is an error.
    fn possible_beside(&mut self, section: &ScopedConditions) -> bool {
        let mut is_possible = true;
        for condition in section.when.each() {
            let mut own = section.scope.own.iter();
            let excludes =
                own.find(|(_, own)| own.about == condition.about && !own.meets(condition));
            if let Some((key, _)) = excludes {
                let message = format!("`{key}` excludes this, so the condition never holds");
                let help =
                    format!("name a value that `{key}` has too, or leave one of the keys out");
                self.error(&format!("{}.{}", section.at, condition.about.key()), message, &help);
                is_possible = false;
            }
        }
        is_possible
    }

    /// Returns true unless the condition about logins never holds, which is an error.
    fn possible_login(&mut self, section: &ScopedConditions, among: &[&Listener]) -> bool {
        let is_needed = section.when.about(ConditionSubject::Login).is_some();
        let found = !is_needed || among.iter().any(|listener| listener.needs_login());
        if !found {
            let message = "no listener has logins, so the condition never holds";
            let help = "users log in at listeners with `kind = \"submission\"`";
            self.error(&format!("{}.logins", section.at), message, help);
        }
        found
    }

    /// Returns true unless the condition about tenants never holds, which is an error.
    fn possible_tenants(
        &mut self,
        section: &ScopedConditions,
        among: &[&Listener],
        tenants: &Tenants,
    ) -> bool {
        let Some(condition) = section.when.about(ConditionSubject::Tenant) else { return true };
        // A message names its tenant by parameters or fields, after MAIL has been counted.
        let is_steered = section.scope.time != ConditionTime::Mail
            && among.iter().any(|listener| !listener.steering_from.is_empty());
        let has_users = among.iter().any(|listener| listener.needs_login());
        let by_login = |name: &str| {
            let tenant = tenants.iter().find(|tenant| *tenant.name == *name);
            has_users && tenant.is_some_and(|tenant| !tenant.logins.is_empty())
        };
        let (found, message) = match &condition.values {
            _ if is_steered => (true, ""),
            ConditionValues::Names(names) if !tenants.is_empty() => {
                // Unknown names have an error of their own.
                let is_known = names.iter().all(|name| tenants.named(name).is_some());
                let found = !is_known || names.iter().any(|name| by_login(name));
                (found, "no mail has one of these tenants, so the condition never holds")
            }
            _ => {
                let found = tenants.iter().any(|tenant| by_login(&tenant.name));
                (found, "no mail has a tenant, so the condition never holds")
            }
        };
        if !found {
            let help = match section.scope.time {
                ConditionTime::Mail => {
                    "at MAIL the tenant is that of the login: add a [[tenant]] with this name and \
                     its `logins`"
                }
                _ => {
                    "add a [[tenant]] with this name and its `logins`, or name in a listener's \
                     `steering_from` the clients that write the tenant into their messages"
                }
            };
            self.error(&format!("{}.tenants", section.at), message, help);
        }
        found
    }

    /// Warns of routes without domains that no client may use.
    fn possible_clients(
        &mut self,
        section: &ScopedConditions,
        routes: &[&Route],
        among: &[&Listener],
    ) {
        // Routes without conditions also have recipients of aliases, in mail from all clients.
        let is_relay = |route: &&Route| route.when.is_some() && !route.names_domains();
        if routes.is_empty() || !routes.iter().all(is_relay) {
            return;
        }
        if !among.iter().any(|listener| listener.may_give_relay()) {
            let message = "no client may use this route, because it has no `domains`";
            let help = "name in a listener's `relay_from` the networks that may send anywhere";
            self.warn(&section.at, message, help);
            return;
        }
        let Some(condition) = section.when.about(ConditionSubject::Client) else { return };
        let ConditionValues::Networks(networks) = &condition.values else { return };
        if !among.iter().any(|listener| gives_relay_to(listener, networks)) {
            let message = "no listener lets these clients use a route without `domains`, so the \
                           condition never holds";
            let help = "name their networks in a listener's `relay_from`, or add `domains`";
            self.warn(&format!("{}.clients", section.at), message, help);
        }
    }

    /// Reports recipients outside the domains of the section's routes.
    fn possible_recipients(&mut self, section: &ScopedConditions, routes: &[&Route]) {
        let Some(condition) = section.when.about(ConditionSubject::Recipient) else { return };
        let ConditionValues::Addresses { patterns, .. } = &condition.values else { return };
        let takes = |pattern: &AddressPattern, route: &Route| {
            route.domains.is_empty() || route.domains.iter().any(|domain| pattern.meets(domain))
        };
        let is_inside = |pattern: &AddressPattern| routes.iter().any(|route| takes(pattern, route));
        if routes.is_empty() || patterns.is_empty() {
            return;
        }
        let at = format!("{}.recipients", section.at);
        let of = if routes.len() == 1 { "the route" } else { "the routes" };
        if !patterns.each().iter().any(is_inside) {
            let message = format!(
                "the recipients are outside the `domains` of {of}, so the condition never holds"
            );
            let help = "name recipients in these domains, or leave `domains` out";
            self.error(&at, message, help);
            return;
        }
        for (index, pattern) in patterns.each().iter().enumerate() {
            if !is_inside(pattern) {
                let message = format!("{pattern} is outside the `domains` of {of}");
                let help = "leave it out, or add its domain to `domains`";
                self.warn(&format!("{at}[{index}]"), message, help);
            }
        }
    }
}

impl ScopedConditions {
    /// Returns true if mail of the listener may meet all conditions about listeners.
    fn may_be_of(&self, listener: &Listener) -> bool {
        let facts = MailFacts { listener: Some(&*listener.name), ..MailFacts::default() };
        let is_taken = listener.takes_internet_mail() || self.scope.internet_only.is_none();
        is_taken
            && self.about(ConditionSubject::Listener).all(|one| one.holds(&facts) != Some(false))
    }
}

/// Returns true if a client of these networks may send to any domain.
fn gives_relay_to(listener: &Listener, networks: &[IpNet]) -> bool {
    listener.needs_login()
        || !listener.takes_internet_mail()
        || listener.client_certificates.as_ref().is_some_and(|certificates| certificates.relay)
        || overlap(&listener.relay_from, networks)
}
