//! Domains of this server by class: local, virtual aliases, virtual mailboxes, relayed.

use super::moving::Moving;
use super::values::{MapName, Parameter, words};
use crate::commands::migrate::new_config::Keys;
use std::path::Path;

/// The class of a domain (ADDRESS_CLASS_README).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Local,
    Alias,
    Mailbox,
    Relay,
    /// All other domains, for clients that may relay.
    Default,
}

/// Domains of a parameter.
#[derive(Clone, Debug, Default)]
pub(super) struct DomainList {
    /// `example.org`, and `*.example.org` for its subdomains.
    pub(super) patterns: Vec<String>,
    /// Tables of domains, with their keys if they are files.
    pub(super) tables: Vec<(String, Vec<String>)>,
}

impl DomainList {
    fn add(&mut self, domain: &str, has_subdomains: bool) {
        let domain = domain.to_ascii_lowercase();
        let all = match domain.strip_prefix('.') {
            Some(parent) => vec![format!("*.{parent}")],
            None if has_subdomains => vec![domain.clone(), format!("*.{domain}")],
            None => vec![domain],
        };
        for pattern in all {
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
        }
    }

    /// Returns true if it has the domain, so far as that is known here.
    pub(super) fn has(&self, domain: &str) -> bool {
        let matches = |pattern: &String| match pattern.strip_prefix("*.") {
            Some(parent) => domain
                .strip_suffix(parent)
                .is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
            None => pattern == domain,
        };
        self.patterns.iter().any(matches)
            || self.tables.iter().any(|(_, keys)| keys.iter().any(|key| key == domain))
    }
}

/// A class with its domains and tables.
#[derive(Clone, Debug)]
pub(super) struct DomainClass {
    pub(super) kind: Kind,
    pub(super) domains: DomainList,
    /// The table of recipients; none if all local parts are accepted.
    pub(super) recipients: Option<String>,
    /// Keys of `aliases`, and directories of lists.
    pub(super) aliases: Option<Keys>,
    pub(super) include: Vec<String>,
    /// The parameter with its transport.
    pub(super) transport: &'static str,
}

impl DomainClass {
    pub(super) fn new(kind: Kind, domains: DomainList) -> DomainClass {
        let transport = match kind {
            Kind::Local => "local_transport",
            Kind::Mailbox => "virtual_transport",
            Kind::Relay => "relay_transport",
            Kind::Alias | Kind::Default => "default_transport",
        };
        DomainClass {
            kind,
            domains,
            recipients: None,
            aliases: None,
            include: Vec::new(),
            transport,
        }
    }

    /// The name of its routes.
    pub(super) fn name(&self) -> &'static str {
        match self.kind {
            Kind::Local => "local",
            Kind::Alias => "aliases",
            Kind::Mailbox => "mailboxes",
            Kind::Relay => "relayed",
            Kind::Default => "outside",
        }
    }
}

/// Reads a list of domains, in which a file or table may stand (match_list).
pub(super) fn domain_list(m: &mut Moving, of: &Parameter) -> DomainList {
    let parents = m.get("parent_domain_matches_subdomains").words();
    let has_subdomains = parents.contains(&of.name);
    let mut list = DomainList::default();
    let mut rest = of.words();
    rest.reverse();
    while let Some(word) = rest.pop() {
        if let Some(domain) = word.strip_prefix('!') {
            let why = format!("the exception !{domain} is left out");
            m.open(of, &why, "name the other domains one by one");
        } else if word.starts_with('/') {
            if let Some(text) = m.map_text(of, Path::new(&word)) {
                let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                rest.extend(lines.flat_map(words).collect::<Vec<_>>().into_iter().rev());
            }
        } else if let Some(map) = MapName::parse(&word) {
            add_table(m, of, &map, &mut list);
        } else if word.starts_with('[') {
            // Address literals of this server: only the postmaster has mail there.
        } else {
            list.add(&word, has_subdomains);
        }
    }
    list
}

fn add_table(m: &mut Moving, of: &Parameter, map: &MapName, list: &mut DomainList) {
    let keys = m.map_entries(of, map).unwrap_or_default();
    // By default the tables of addresses have the domains, too: as keys without `@`.
    let is_of_addresses = of.name.starts_with("virtual_") && !of.is_set;
    let domains: Vec<String> = keys
        .iter()
        .filter(|entry| !is_of_addresses || is_domain_key(&entry.key))
        .map(|entry| entry.key.to_ascii_lowercase())
        .collect();
    if is_of_addresses && (map.is_pattern() || map.text_file().is_some()) {
        domains.iter().for_each(|domain| list.add(domain, false));
        return;
    }
    match m.table(of, map) {
        Some(name) => list.tables.push((name, domains)),
        None => {
            let why = format!("there is no table like {}:{}", map.kind, map.name);
            m.missing(of, &why, "name these domains in the route");
        }
    }
}

fn is_domain_key(key: &str) -> bool {
    !key.contains('@') && key.contains('.') && !key.starts_with('.')
}

/// All classes with domains of their own, in Postfix's order; a domain is in the first that has it.
pub(super) fn classes(m: &mut Moving) -> Vec<DomainClass> {
    let mut all: Vec<DomainClass> = Vec::new();
    for (kind, name) in [
        (Kind::Local, "mydestination"),
        (Kind::Alias, "virtual_alias_domains"),
        (Kind::Mailbox, "virtual_mailbox_domains"),
        (Kind::Relay, "relay_domains"),
    ] {
        let of = m.get(name);
        let mut list = domain_list(m, &of);
        list.patterns
            .retain(|pattern| !all.iter().any(|class| class.domains.patterns.contains(pattern)));
        if list.patterns.is_empty() && list.tables.is_empty() {
            if of.is_set {
                m.carried(&of, "no domains");
            }
            continue;
        }
        m.carried(&of, "`domains` of its routes");
        all.push(DomainClass::new(kind, list));
    }
    all
}
