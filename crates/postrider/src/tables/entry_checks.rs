//! Checks of the entries of table files, by the uses of the table.

use channels::EntryJudge;
use config::{Config, DomainPattern, Route, TableEntry};
use lookup::{EntryText, Flaw, Table, fold};
use mail::{Domain, Mailbox};
use mta::ingress::{MemberToken, completed, members};
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The uses of a table by which entries without effect are found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EntryChecks {
    /// Of access rules. Entries that they can't use are errors.
    access: Option<EntryJudge>,
    /// Keys are addresses: the table has recipients or aliases, and no other known use.
    has_addresses: bool,
    aliases: Option<Aliases>,
}

/// Use as a table of aliases.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Aliases {
    /// Directories of `include`.
    include: Vec<PathBuf>,
    /// Domain of members without one. `None`: that of the alias.
    origin: Option<Domain>,
    hostname: Domain,
    /// Domains of routes. `None` if any domain may have a route.
    domains: Option<Arc<BTreeSet<DomainPattern>>>,
}

impl EntryChecks {
    /// The checks for a table, used directly or as part of another.
    pub(super) fn of(config: &Config, table: &TableEntry) -> EntryChecks {
        let uses = |whole: &Option<Arc<TableEntry>>| {
            whole.as_ref().is_some_and(|whole| is_part(whole, table))
        };
        let access = channels::entry_judge(config, table);
        let mut routes = config.routes.iter();
        let is_of_domains = config.routes.iter().any(|route| uses(&route.domains_table));
        let is_of_recipients = config.routes.iter().any(|route| uses(&route.recipients));
        let aliases = routes.find(|route| uses(&route.aliases));
        EntryChecks {
            has_addresses: access.is_none()
                && !is_of_domains
                && (is_of_recipients || aliases.is_some()),
            aliases: aliases.map(|route| Aliases::of(config, route)),
            access,
        }
    }

    /// Finds the flaw of an entry.
    ///
    /// # Errors
    /// The flaw.
    pub(super) fn check(&self, entry: &EntryText<'_>) -> Result<(), Flaw> {
        self.check_usable(entry).map_err(Flaw::Unusable)?;
        if let Some(key) = entry.key.filter(|_| self.has_addresses) {
            self.check_key(key)?;
        }
        match &self.aliases {
            Some(aliases) if !entry.goes_on => aliases.check(entry).map_err(Flaw::Text),
            _ => Ok(()),
        }
    }

    /// Returns true if no entry is unusable.
    pub(super) fn accepts_all(&self) -> bool {
        self.access.is_none()
    }

    /// Checks that the uses of the table can use an entry.
    ///
    /// # Errors
    /// The reason for which they can't.
    pub(super) fn check_usable(&self, entry: &EntryText<'_>) -> Result<(), String> {
        self.access.as_ref().map_or(Ok(()), |access| access.judge(entry))
    }

    /// Returns true if entries refer to each other: then [`EntryChecks::check_circle`] finds circles.
    pub(super) fn follows_entries(&self) -> bool {
        self.access.as_ref().is_some_and(EntryJudge::follows_entries)
    }

    /// Checks that an entry does not lead back to its key.
    ///
    /// # Errors
    /// It leads in a circle.
    pub(super) fn check_circle(
        &self,
        entry: &EntryText<'_>,
        table: &dyn Table,
    ) -> Result<(), Flaw> {
        let Some((access, key)) = self.access.as_ref().zip(entry.key) else { return Ok(()) };
        let find = |key: &str| Some(table.find(key).ok()??.text);
        access.check_circle(key, &find).map_err(Flaw::Unusable)
    }

    fn check_key(&self, key: &str) -> Result<(), Flaw> {
        // O/R addresses have no `@`. A colon at the end has another warning.
        if key.contains('@') || key.starts_with('/') || key.ends_with(':') {
            return Ok(());
        }
        // In virtual(5) a line for a domain declares the domain.
        let domains = self.aliases.as_ref().and_then(|aliases| aliases.domains.as_ref());
        if let (Some(domains), Ok(domain)) = (domains, Domain::parse(key))
            && is_among(domains, &domain)
        {
            return Ok(());
        }
        Err(Flaw::Key(format!("\"{key}\" has no domain and matches no address; add the domain")))
    }
}

/// Local part and domain that complete the members of an alias.
pub(super) fn completion<'k>(
    origin: Option<&Domain>,
    hostname: &Domain,
    key: &'k str,
) -> (&'k str, Domain) {
    let (local, domain) = key.rsplit_once('@').unwrap_or(("", ""));
    let local = if local.is_empty() { SOMEBODY } else { local };
    let own = origin.cloned().or_else(|| Domain::parse(domain).ok());
    (local, own.unwrap_or_else(|| hostname.clone()))
}

/// Returns true if `whole` is the table `part` or contains it.
pub(super) fn is_part(whole: &TableEntry, part: &TableEntry) -> bool {
    whole.name == part.name || whole.parts.iter().any(|each| is_part(each, part))
}

fn is_among(domains: &BTreeSet<DomainPattern>, domain: &Domain) -> bool {
    domains.contains(&DomainPattern::Exact(domain.clone()))
        || domains.iter().any(|pattern| pattern.covers(domain))
}

impl Aliases {
    fn of(config: &Config, route: &Route) -> Aliases {
        let mut routes = config.routes.iter().filter(|route| !route.is_built_in());
        // A route with conditions alone leaves mail without a route, and a mere fallback takes none.
        let is_open = routes.any(|route| route.domains_table.is_some() || route.is_catch_all());
        let domains = || {
            let patterns = config.routes.iter().flat_map(|route| route.domains.iter().cloned());
            Arc::new(patterns.collect())
        };
        Aliases {
            include: route.include.clone(),
            origin: route.origin.clone(),
            hostname: config.hostname.clone(),
            domains: (!is_open).then(domains),
        }
    }

    /// Checks the members of an alias.
    ///
    /// # Errors
    /// The first that defers mail.
    fn check(&self, entry: &EntryText<'_>) -> Result<(), String> {
        let (local, origin) = self.completion(entry.key);
        let mut addresses = Vec::new();
        for member in members(entry.text) {
            match member {
                MemberToken::List(path) => self.check_list(Path::new(&*path))?,
                MemberToken::Bad(text) => return Err(not_an_address(&text)),
                MemberToken::Address(text) => match completed(&text, local, &origin) {
                    Some(member) => {
                        self.check_route(&member)?;
                        addresses.push(member);
                    }
                    None => return Err(not_an_address(&text)),
                },
            }
        }
        match (entry.key, entry.so_far) {
            (Some(key), Some(table)) => self.check_circle(key, addresses, table),
            _ => Ok(()),
        }
    }

    /// Local part and domain that complete the members of an alias.
    fn completion<'k>(&self, key: Option<&'k str>) -> (&'k str, Domain) {
        completion(self.origin.as_ref(), &self.hostname, key.unwrap_or(""))
    }

    /// Follows the members of an alias through the entries of its file, up to this one: the last entry of a circle
    /// finds it. An address among its own members keeps its mail.
    ///
    /// # Errors
    /// The alias leads back to itself.
    fn check_circle(
        &self,
        key: &str,
        members: Vec<Mailbox>,
        table: &dyn Table,
    ) -> Result<(), String> {
        let Some(start) = address_of(key) else { return Ok(()) };
        if names(&members, &start) {
            return Ok(());
        }
        let is_of_domain = key.starts_with('@');
        let mut pending: Vec<(Mailbox, bool)> =
            members.into_iter().map(|member| (member, is_of_domain)).collect();
        let mut seen = BTreeSet::new();
        while let Some((address, is_of_domain)) = pending.pop() {
            if seen.len() >= FOLLOWED_MAX || !seen.insert(fold(address.as_str()).into_owned()) {
                continue;
            }
            let Some((next, is_of_domain)) = self.next(&address, is_of_domain, table) else {
                continue;
            };
            if names(&next, &address) {
                continue;
            }
            if names(&next, &start) {
                let through = match is_of_domain {
                    true => format!("@{}", address.domain_str()),
                    false => address.to_string(),
                };
                let text = format!("\"{key}\" leads back to itself through {through}");
                return Err(text + "; change one of the lines");
            }
            pending.extend(next.into_iter().map(|member| (member, is_of_domain)));
        }
        Ok(())
    }

    /// The members of an address in a table, and true if they are those of its domain. An alias other than that of a
    /// domain names recipients, which the alias of their domain leaves alone.
    fn next(
        &self,
        address: &Mailbox,
        is_of_domain: bool,
        table: &dyn Table,
    ) -> Option<(Vec<Mailbox>, bool)> {
        let find = |key: &str| table.find(key).ok().flatten();
        let own = find(address.as_str());
        let of_domain = || find(&format!("@{}", address.domain_str()));
        let by_domain = own.is_none();
        let entry = own.or_else(|| of_domain().filter(|_| is_of_domain))?;
        let (_, origin) = self.completion(Some(address.as_str()));
        let written = |member: MemberToken<'_>| match member {
            MemberToken::Address(text) => completed(&text, address.local(), &origin),
            MemberToken::List(_) | MemberToken::Bad(_) => None,
        };
        Some((members(&entry.text).filter_map(written).collect(), by_domain))
    }

    fn check_list(&self, path: &Path) -> Result<(), String> {
        let leads_out = path.components().any(|part| part == Component::ParentDir);
        let shown = path.display();
        if leads_out || !self.include.iter().any(|directory| path.starts_with(directory)) {
            return Err(format!("{shown} is outside the directories of `include`{DEFERRED}"));
        }
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(()),
            Ok(_) => Err(format!("{shown} is not a regular file{DEFERRED}")),
            Err(error) => Err(format!("cannot read {shown}: {error}{DEFERRED}")),
        }
    }

    fn check_route(&self, member: &Mailbox) -> Result<(), String> {
        let Some(domains) = &self.domains else { return Ok(()) };
        let is_postmaster = member.local().eq_ignore_ascii_case("postmaster");
        if is_postmaster || is_among(domains, &member.domain()) {
            return Ok(());
        }
        Err(format!("no route for {member}{DEFERRED}"))
    }
}

/// Local part for the alias of a whole domain.
const SOMEBODY: &str = "x";
/// Maximum number of addresses that are followed from one alias, which bounds the time for a file of chains.
pub(super) const FOLLOWED_MAX: usize = 100;

/// The address of an alias.
pub(super) fn address_of(key: &str) -> Option<Mailbox> {
    let (local, domain) = key.rsplit_once('@')?;
    let local = if local.is_empty() { SOMEBODY } else { local };
    Mailbox::parse(&format!("{local}@{domain}"), true).ok()
}

fn names(members: &[Mailbox], address: &Mailbox) -> bool {
    members.iter().any(|member| fold(member.as_str()) == fold(address.as_str()))
}

/// The consequence of an unusable member.
const DEFERRED: &str = "; mail to this alias is deferred";

fn not_an_address(text: &str) -> String {
    format!("{text:?} is not an address{DEFERRED}")
}
