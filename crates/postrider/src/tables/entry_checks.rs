//! Checks of the entries of table files, by the uses of the table.

use channels::EntryJudge;
use config::{Config, DomainPattern, Route, TableEntry};
use lookup::{EntryText, Flaw};
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
            Some(aliases) if !entry.goes_on => {
                aliases.check(entry.key, entry.text).map_err(Flaw::Text)
            }
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

/// Returns true if `whole` is the table `part` or contains it.
fn is_part(whole: &TableEntry, part: &TableEntry) -> bool {
    whole.name == part.name || whole.parts.iter().any(|each| is_part(each, part))
}

fn is_among(domains: &BTreeSet<DomainPattern>, domain: &Domain) -> bool {
    domains.contains(&DomainPattern::Exact(domain.clone()))
        || domains.iter().any(|pattern| pattern.covers(domain))
}

impl Aliases {
    fn of(config: &Config, route: &Route) -> Aliases {
        let mut routes = config.routes.iter().filter(|route| !route.is_built_in());
        let is_open = routes.any(|route| {
            route.domains_table.is_some()
                || (route.domains.is_empty() && route.or_addresses.is_empty())
        });
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
    fn check(&self, key: Option<&str>, text: &str) -> Result<(), String> {
        let (local, domain) = key.and_then(|key| key.rsplit_once('@')).unwrap_or(("x", ""));
        let local = if local.is_empty() { "x" } else { local };
        let own = self.origin.clone().or_else(|| Domain::parse(domain).ok());
        let origin = own.as_ref().unwrap_or(&self.hostname);
        for member in members(text) {
            match member {
                MemberToken::List(path) => self.check_list(Path::new(&*path))?,
                MemberToken::Bad(text) => return Err(not_an_address(&text)),
                MemberToken::Address(text) => match completed(&text, local, origin) {
                    Some(member) => self.check_route(&member)?,
                    None => return Err(not_an_address(&text)),
                },
            }
        }
        Ok(())
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

/// The consequence of an unusable member.
const DEFERRED: &str = "; mail to this alias is deferred";

fn not_an_address(text: &str) -> String {
    format!("{text:?} is not an address{DEFERRED}")
}
