//! Routes: one for each transport of each class of domains, in an order in which the first that takes mail is the one
//! that Postfix uses.

use super::domains::{DomainClass, DomainList, Kind};
use super::moving::Moving;
use super::next_hops::HopUse;
use super::senders::SenderRelay;
use super::transports::Channel;
use super::transports::{Target, TransportEntry};
use crate::commands::migrate::new_config::{Keys, list, quoted, table};
use crate::commands::migrate::report::{SourceLine, Verdict};

/// A route to be written.
#[derive(Clone, Debug)]
struct RoutePlan {
    /// Domains that the route names; without any, and without `table`, it takes mail of clients that may relay.
    patterns: Vec<String>,
    table: Option<String>,
    /// Conditions on recipients, `["@example.net"]` or a table.
    recipients: Option<String>,
    senders: Option<SenderRelay>,
    class: usize,
    target: Target,
    /// Domain by which a TLS policy is found, for mail to the hosts of a domain.
    policy: Option<String>,
}

/// Class, domain and target of addresses, and the addresses with a value each.
type AddressGroup = (usize, String, Target, Vec<(String, String)>);

/// The routes in the making.
struct Planner<'a> {
    classes: &'a [DomainClass],
    entries: &'a [TransportEntry],
    plans: Vec<RoutePlan>,
}

impl Planner<'_> {
    /// The index of the class that has a domain; the last one has all other domains.
    fn class_of(&self, domain: &str) -> usize {
        let found = self.classes.iter().position(|class| class.domains.has(domain));
        found.unwrap_or(self.classes.len() - 1)
    }

    fn is_own(&self, class: usize) -> bool {
        class + 1 < self.classes.len()
    }

    fn entry(&self, key: &str) -> Option<&TransportEntry> {
        self.entries.iter().find(|entry| entry.key == key)
    }

    /// The entry for a pattern: itself, its parents, and `*`.
    fn entry_for(&self, pattern: &str) -> Option<&TransportEntry> {
        let (domain, exact) = match pattern.strip_prefix("*.") {
            Some(domain) => (domain, None),
            None => (pattern, self.entry(pattern)),
        };
        // A name below the pattern begins with another label, so that the pattern's own parent counts for it.
        let first = pattern.starts_with("*.").then(|| self.entry(&format!(".{domain}"))).flatten();
        let parents = domain
            .match_indices('.')
            .find_map(|(at, _)| self.entry(domain.get(at..).unwrap_or_default()));
        exact.or(first).or(parents).or_else(|| self.entry("*"))
    }

    fn target(&self, m: &Moving, class: usize, entry: Option<&TransportEntry>) -> Target {
        let class = &self.classes[class];
        match entry {
            Some(entry) => m.entry_target(class, entry),
            None => m.class_target(class),
        }
    }

    fn push(&mut self, plan: RoutePlan) {
        self.plans.push(plan);
    }

    /// Addresses with a transport of their own.
    fn addresses(&mut self, m: &mut Moving) {
        let mut groups: Vec<AddressGroup> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.key.contains('@')) {
            let domain = entry.key.rsplit('@').next().unwrap_or_default().to_owned();
            let class = self.class_of(&domain);
            let target = self.target(m, class, Some(entry));
            let pair = (entry.key.clone(), "x".to_owned());
            match groups.iter_mut().find(|(c, d, t, _)| (*c, d, t) == (class, &domain, &target)) {
                Some((.., pairs)) => pairs.push(pair),
                None => groups.push((class, domain, target, vec![pair])),
            }
        }
        for (class, domain, target, pairs) in groups {
            if target.service == "error" || target.service == "retry" {
                continue;
            }
            let name = m.config.inline_table(&format!("to-{}", target.service), &pairs);
            let is_own = self.is_own(class) && !self.classes[class].domains.patterns.is_empty();
            let patterns = if is_own { vec![domain] } else { Vec::new() };
            let recipients = Some(table(&name));
            self.push(RoutePlan {
                patterns,
                recipients,
                class,
                target,
                table: None,
                senders: None,
                policy: None,
            });
        }
    }

    /// Domains of the classes, and those below them that have a transport.
    fn own_domains(&mut self, m: &Moving) {
        let mut all: Vec<(String, usize)> = Vec::new();
        for (index, class) in self.classes.iter().enumerate() {
            let patterns = class.domains.patterns.iter().map(|pattern| (pattern.clone(), index));
            all.extend(patterns);
        }
        for entry in self.entries.iter().filter(|entry| !entry.key.contains('@')) {
            let domain = entry.key.trim_start_matches('.');
            let class = self.class_of(domain);
            let pattern = match entry.key.starts_with('.') {
                true => format!("*.{domain}"),
                false => domain.to_owned(),
            };
            let is_below = self.classes[class].domains.patterns.iter().any(|p| p.starts_with("*."));
            if self.is_own(class) && is_below && !all.contains(&(pattern.clone(), class)) {
                all.push((pattern, class));
            }
        }
        // Names before patterns, and long patterns before short ones.
        all.sort_by_key(|(pattern, _)| match pattern.strip_prefix("*.") {
            None => (0, 0),
            Some(parent) => (1, usize::MAX - parent.matches('.').count()),
        });
        for (pattern, class) in all {
            let entry = self.entry_for(&pattern).cloned();
            let target = self.target(m, class, entry.as_ref());
            let policy = target.nexthop.is_empty().then(|| pattern.clone());
            let policy = policy.filter(|pattern| m.has_tls_policy(&pattern.replacen("*.", ".", 1)));
            let (recipients, senders, table) = (None, None, None);
            let patterns = vec![pattern];
            self.push(RoutePlan { patterns, table, recipients, senders, class, target, policy });
        }
    }

    /// Classes with domains in tables.
    fn tables(&mut self, m: &Moving) {
        for (class, DomainList { tables, .. }) in
            self.classes.iter().map(|class| class.domains.clone()).enumerate()
        {
            for (name, keys) in tables {
                let mut plan = RoutePlan {
                    patterns: Vec::new(),
                    table: Some(name),
                    recipients: None,
                    senders: None,
                    class,
                    target: self.target(m, class, None),
                    policy: None,
                };
                for entry in self.entries.iter().filter(|entry| !entry.key.contains('@')) {
                    let is_possible = keys.is_empty() || keys.contains(&entry.key);
                    if is_possible && entry.key != "*" {
                        let mut special = plan.clone();
                        special.recipients = Some(list(&[condition(&entry.key)]));
                        special.target = self.target(m, class, Some(entry));
                        self.plans.push(special);
                    }
                }
                plan.target = self.target(m, class, self.entry("*"));
                self.plans.push(plan);
            }
        }
    }

    /// Other domains with a transport or a TLS policy, and all that is left.
    fn outside(&mut self, m: &mut Moving) {
        let class = self.classes.len() - 1;
        let plan = |recipients: Option<String>, target: Target, policy: Option<String>| RoutePlan {
            patterns: Vec::new(),
            table: None,
            recipients,
            senders: None,
            class,
            target,
            policy,
        };
        let mut keys: Vec<&TransportEntry> = self.entries.iter().collect();
        keys.retain(|entry| !entry.key.contains('@') && entry.key != "*");
        keys.sort_by_key(|entry| {
            (entry.key.starts_with('.'), usize::MAX - entry.key.matches('.').count())
        });
        let mut all = Vec::new();
        for entry in keys {
            if !self.is_own(self.class_of(entry.key.trim_start_matches('.'))) {
                let why = "a route with `when`, in the order of the file; members of an alias go by \
                           the routes without `when`";
                let remedy = "for members of aliases name the domain in `domains` of a route";
                m.note(Verdict::Different, &entry.origin, &entry.key, why, remedy, false);
                let target = self.target(m, class, Some(entry));
                all.push(plan(Some(list(&[condition(&entry.key)])), target, None));
            }
        }
        let usual = self.target(m, class, self.entry("*"));
        if usual.nexthop.is_empty() {
            for domain in m.tls_policy_domains() {
                let is_own = self.is_own(self.class_of(domain.trim_start_matches('.')));
                if !is_own && self.entry(&domain).is_none() {
                    let recipients = Some(list(&[condition(&domain)]));
                    all.push(plan(recipients, usual.clone(), Some(domain)));
                }
            }
        }
        all.push(plan(None, usual, None));
        self.plans.extend(all);
    }
}

/// The condition for a key of transport_maps.
fn condition(key: &str) -> String {
    match key.strip_prefix('.') {
        Some(parent) => format!("@*.{parent}"),
        None => format!("@{key}"),
    }
}

/// Writes all routes.
pub(super) fn write(m: &mut Moving, classes: &[DomainClass], entries: &[TransportEntry]) {
    let relays = super::senders::relays(m);
    let mut planner = Planner { classes, entries, plans: Vec::new() };
    planner.addresses(m);
    planner.own_domains(m);
    planner.tables(m);
    planner.outside(m);
    let plans = with_senders(planner.plans, &relays, classes);
    for plan in &plans {
        write_route(m, plan, &classes[plan.class]);
    }
    refuse_others(m, &plans);
}

/// Makes the table that refuses mail for other domains, if Postfix does.
fn refuse_others(m: &mut Moving, plans: &[RoutePlan]) {
    let Some(text) = m.refused_outside.take() else { return };
    let mut lines = String::new();
    for plan in plans.iter().filter(|plan| plan.target.service != "error") {
        for pattern in &plan.patterns {
            let (before, domain) = match pattern.strip_prefix("*.") {
                Some(parent) => ("@.+\\.", parent),
                None => ("@", pattern.as_str()),
            };
            lines.push_str(&format!("/{before}{}$/ DUNNO\n", domain.replace('.', "\\.")));
        }
        if let Some(table) = &plan.table {
            let subject = format!("table {table}");
            let why = "mail for its domains is refused, as for all other domains";
            let remedy = "add a line `/@DOMAIN$/ DUNNO` for each to the table `outside`";
            m.note(Verdict::Missing, &SourceLine::default(), &subject, why, remedy, false);
        }
    }
    lines.push_str(&format!("/^/ REJECT {text}\n"));
    let path = m.made_file("outside", lines, false);
    let name = m.config.table("outside", "regexp", &super::maps::path_key(&path));
    m.refused_outside = Some(name);
}

/// Adds a plan for each sender with a relay, before the plan for all other senders.
fn with_senders(
    plans: Vec<RoutePlan>,
    relays: &[SenderRelay],
    classes: &[DomainClass],
) -> Vec<RoutePlan> {
    // Domains with the same target stay together, so that each relay has one route for them.
    let mut grouped: Vec<RoutePlan> = Vec::new();
    for plan in plans {
        match grouped.last_mut() {
            Some(last)
                if !last.patterns.is_empty()
                    && !plan.patterns.is_empty()
                    && (last.class, &last.target, &last.recipients, &last.policy)
                        == (plan.class, &plan.target, &plan.recipients, &plan.policy) =>
            {
                last.patterns.extend(plan.patterns);
            }
            _ => grouped.push(plan),
        }
    }
    let mut all = Vec::new();
    for plan in grouped {
        for relay in relays.iter().filter(|_| plan.target.is_by_sender) {
            if relay.is_transport && classes[plan.class].kind != Kind::Default {
                continue;
            }
            let mut one = plan.clone();
            one.target = relay.target(&plan.target);
            one.senders = Some(relay.clone());
            all.push(one);
        }
        all.push(plan);
    }
    all
}

fn write_route(m: &mut Moving, plan: &RoutePlan, class: &DomainClass) {
    let mut channel = if class.kind == Kind::Alias {
        Channel::discard()
    } else {
        let senders = plan.senders.as_ref().map(|relay| relay.keys.as_slice());
        let usage = HopUse { senders, policy: plan.policy.as_deref(), class };
        m.channel(&plan.target, &usage)
    };
    let is_standard = ["smtp", "relay", "lmtp", "local", "virtual", "error", "retry", "discard"]
        .contains(&plan.target.service.as_str());
    let name = if is_standard { class.name() } else { &plan.target.service };
    let name = m.route_name(name);
    let mut keys = Keys::new();
    keys.text("name", &name);
    match (&plan.table, plan.patterns.is_empty()) {
        (Some(name), _) => drop(keys.set("domains", table(name))),
        (None, false) => drop(keys.set("domains", list(&plan.patterns))),
        (None, true) => {}
    }
    let mut when = Keys::new();
    if let Some(recipients) = &plan.recipients {
        when.set("recipients", recipients.clone());
    }
    if let Some(relay) = &plan.senders {
        when.set("senders", relay.condition(m));
    }
    if !when.is_empty() {
        keys.set("when", when.inline());
    }
    if let Some(recipients) = &class.recipients {
        keys.set("recipients", table(recipients));
    }
    if let Some(aliases) = &class.aliases {
        keys.set("aliases", aliases.inline());
    }
    if !class.include.is_empty() {
        keys.set("include", list(&class.include));
    }
    keys.set(channel.kind, channel.keys.inline());
    if let Some(fallback) = channel.fallback.take() {
        keys.set("fallback", quoted(&fallback));
    }
    if let Some(pool) = channel.pool.take() {
        keys.set("pool", quoted(&pool));
    }
    if channel.has_generic {
        m.generic_routes.push(name.clone());
    }
    m.deferred(&plan.target.service, &name);
    m.config.section("[[route]]", keys);
}

impl Moving {
    /// A name that no route has.
    fn route_name(&mut self, name: &str) -> String {
        let further = (2..).map(|number| format!("{name}-{number}"));
        let mut all = std::iter::once(name.to_owned()).chain(further);
        let name = all.find(|name| !self.route_names.contains(name));
        let name = name.unwrap_or_default();
        self.route_names.push(name.clone());
        name
    }

    /// Reports a transport that waits for an operator.
    fn deferred(&mut self, service: &str, route: &str) {
        let of = self.get("defer_transports");
        if of.words().iter().any(|name| name == service) {
            let remedy = format!("postrider queue suspend --route {route}");
            let why = "a command suspends the route; it is no setting";
            self.note(Verdict::Different, &of.origin, &of.name, why, &remedy, false);
        }
    }
}

/// Entries of transport_maps that refuse mail: `error:` and `retry:`, as rules of access.
pub(super) fn closed(m: &mut Moving, entries: &[TransportEntry]) {
    let mut lines = String::new();
    for entry in entries {
        let text = &entry.nexthop;
        let action = match entry.service.as_str() {
            "error" if text.is_empty() => "REJECT 5.0.0 Mail is not accepted here".to_owned(),
            "error" => format!("REJECT {text}"),
            "retry" => format!("450 {}", if text.is_empty() { "4.0.0 Try later" } else { text }),
            _ => continue,
        };
        lines.push_str(&format!("{} {action}\n", entry.key));
        let subject = format!("{} {}:{text}", entry.key, entry.service);
        m.note(
            Verdict::Carried,
            &entry.origin,
            &subject,
            "a rule of the table `closed`",
            "",
            false,
        );
    }
    if lines.is_empty() {
        return;
    }
    let path =
        m.made_file("closed", format!("# Made from transport_maps of Postfix.\n{lines}"), false);
    let name = m.config.table("closed", "file", &super::maps::path_key(&path));
    let mut keys = Keys::new();
    keys.text("table", &name).text("by", "recipient").text("clients", "all");
    keys.set("parent_domains", "false");
    m.config.section("[[access]]", keys);
}
