//! The configuration, and the decisions made from it for each message.

use super::certificate::Certificate;
use super::document::Document;
use super::embedded::EMBEDDED_NAME;
use super::listener::Listener;
use super::listener_section::ListenerKind;
use super::named_file::NamedFile;
use super::or_routes::OrRoutes;
use super::problem::{ConfigErrors, Problem, render};
use super::route::{Route, RouteTable};
use super::secret_file::SecretFile;
use super::section::{Section, StageEntry};
use super::settings::{
    Admin, Dns, Log, Postmaster, ReportRetry, Reports, Retry, SpoolSection, Tls,
};
use super::shaping::{self, Paced, Providers, Shaping, ShapingFile, ShapingSource};
use super::source::{Pool, Source};
use super::table::TableEntry;
use super::tenant::Tenants;
use crate::section::owned::Owned;
use mail::{Domain, Mailbox, TagDelimiters};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
/// A whole configuration. Immutable: a reload makes a new one.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name of this server.
    pub hostname: Domain,
    /// The user that the server becomes after it has opened its sockets.
    pub user: Option<String>,
    /// The group, instead of the user's own.
    pub group: Option<String>,
    /// Files and directories that the file names.
    pub files: Vec<NamedFile>,
    /// Destination of mail for the bare `<postmaster>`.
    pub postmaster: Postmaster,
    /// Characters that begin a tag in a local part.
    pub tag_delimiters: TagDelimiters,
    /// Addresses before a NAT or proxy that lead here.
    pub proxy_addresses: Vec<IpAddr>,
    /// `None`: one per core.
    pub shards: Option<u16>,
    /// Storage of accepted mail.
    pub spool: SpoolSection,
    /// This server's certificates; the first is for clients that request none.
    pub certificates: Vec<Certificate>,
    /// Listeners, at least one.
    pub listeners: Vec<Arc<Listener>>,
    /// Routes, in the order of the file, and last, if needed, the built-in one named
    /// [`POSTMASTER_ROUTE`](crate::POSTMASTER_ROUTE).
    pub routes: Vec<Arc<Route>>,
    /// Retry policy of routes without their own.
    pub retry: Retry,
    /// Reports to senders, for routes without their own settings.
    pub reports: Arc<Reports>,
    /// Retry policy of mail without a sender.
    pub report_retry: ReportRetry,
    /// TLS of clients, on all listeners together.
    pub tls: Tls,
    /// Name resolution.
    pub dns: Dns,
    /// The administration interface.
    pub admin: Admin,
    /// The console log.
    pub log: Log,
    /// Stages that process mail before it is durable, in the order of the file.
    pub stages: Vec<StageEntry>,
    /// Lookup tables, in the order of the file.
    pub tables: Vec<Arc<TableEntry>>,
    /// From where mail is sent, in the order of the file.
    pub sources: Vec<Arc<Source>>,
    /// Source pools of routes, in the order of the file.
    pub pools: Vec<Arc<Pool>>,
    /// Tenants that share this server.
    pub tenants: Arc<Tenants>,
    /// Sources of the shaping rules; see [`Config::shape`].
    pub shaping_sources: Vec<ShapingSource>,
    pub(super) shaping: Option<Arc<Shaping>>,
    /// The pace settings of each route itself, where mail is shaped.
    pub(super) own_paces: Vec<shaping::Pace>,
    /// Problems that are legal but probably unintended.
    pub warnings: Vec<Problem>,
    pub(super) table: RouteTable,
    /// Indexes of routes with conditions.
    pub(super) conditional: Vec<usize>,
    pub(super) or_routes: OrRoutes,
    pub(super) sections: Owned,
    /// Keys of listeners with owners of their own.
    pub(super) listener_kinds: Vec<ListenerKind>,
    /// Domains that are ours by a section, though no route names them.
    pub(super) own_domains: Vec<Domain>,
    pub(super) document: Arc<Document>,
}

impl Config {
    /// The value of a section; `None` if it has no effect.
    #[must_use]
    pub fn of<S: Section>(&self) -> Option<&S::Value> {
        self.sections.get::<S, S::Value>()
    }

    /// Replaces the value of a section.
    pub fn set<S: Section>(&mut self, value: S::Value) {
        self.sections.put::<S, S::Value>(value);
    }

    /// Creates the error that an object named by this key of a section is unusable.
    #[must_use]
    pub fn unusable<S: Section>(&self, key: &str, why: String) -> ConfigErrors {
        self.mistake(&format!("{}.{key}", S::KEY), why)
    }

    /// Creates the error that the object named at this path (`signer[0].key`) is unusable.
    #[must_use]
    pub fn mistake_at(&self, path: &str, why: impl Into<String>) -> Problem {
        self.document.problem(path, true, why.into(), "")
    }

    /// The same at the first of several paths that the file has.
    #[must_use]
    pub fn mistake_at_any(&self, paths: &[&str], why: impl Into<String>) -> Problem {
        let there = paths.iter().find(|path| self.document.line(path).is_some());
        self.mistake_at(there.or(paths.last()).unwrap_or(&""), why)
    }

    /// The same for a key of an entry of a list of sections, by the line on which the entry begins.
    #[must_use]
    pub fn mistake_in(&self, list: &str, line: u32, key: &str, why: impl Into<String>) -> Problem {
        let paths = (0..).map(|index| format!("{list}[{index}]"));
        let lines = paths.map_while(|path| Some((self.document.line(&path)?, path)));
        let entry = lines.into_iter().find(|(of, _)| *of == line);
        let entry = entry.map_or_else(|| list.to_owned(), |(_, path)| path);
        self.mistake_at(&format!("{entry}.{key}"), why)
    }

    /// Mistakes with the file that they are in, for people.
    #[must_use]
    pub fn errors(&self, mistakes: Vec<Problem>) -> ConfigErrors {
        let (file, text) = (self.document.file().clone(), self.document.text().clone());
        ConfigErrors::new(file, text, mistakes)
    }

    fn mistake(&self, path: &str, why: String) -> ConfigErrors {
        self.errors(vec![self.mistake_at(path, why)])
    }

    /// The pool of this name.
    #[must_use]
    pub fn pool_named(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| &*pool.name == name)
    }

    /// Files with secrets that routes name.
    pub fn secret_files(&self) -> impl Iterator<Item = (&Route, &Arc<SecretFile>)> {
        self.routes.iter().filter_map(|route| Some((&**route, route.channel.secret_file()?)))
    }

    /// Applies the contents of [`Config::shaping_sources`], read in order.
    ///
    /// # Errors
    /// Returns the errors of one of the files.
    pub fn shape(&mut self, files: &[ShapingFile]) -> Result<(), ConfigErrors> {
        self.own_paces = self.routes.iter().map(|route| self.read_own_pace(route)).collect();
        self.shaping = match files {
            [] => None,
            files => {
                let shaping = Shaping::read(files)?;
                shaping.check_sources(files, &self.sources)?;
                Some(Arc::new(shaping))
            }
        };
        Ok(())
    }

    /// The known providers: from the shaping files in force, or the built-in ones without any.
    #[must_use]
    pub fn providers(&self) -> Providers {
        Providers(self.shaping.clone())
    }

    /// The limits of mail to `domain`, which these hosts take, by this route from this source.
    pub fn paced<'h>(
        &self,
        (route, source): (&Route, Option<&Source>),
        domain: &Domain,
        hosts: impl Iterator<Item = &'h str>,
    ) -> Paced {
        match &self.shaping {
            Some(shaping) => {
                let limits = (route.channel.limits(), self.own_pace(route));
                let source = source.map(|source| &*source.name);
                shaping.in_force(limits, source, domain, hosts).paced()
            }
            None => Paced::of_route(route.channel.limits()),
        }
    }

    /// Changes limits as the effect of a rule does that is in force.
    pub fn ease(&self, paced: &mut Paced, easing: shaping::Easing<'_>) {
        if let Some(shaping) = &self.shaping {
            shaping.ease(paced, easing);
        }
    }

    /// The rules of providers, and (`None`) of domains without a provider.
    pub fn shaping_rules(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Arc<shaping::Rule>)> {
        self.shaping.iter().flat_map(|shaping| shaping.rules())
    }

    /// The limits that the file sets for a route itself, where mail is shaped.
    pub(super) fn own_pace(&self, route: &Route) -> Option<&shaping::Pace> {
        self.own_paces.get(route.index)
    }

    fn read_own_pace(&self, route: &Route) -> shaping::Pace {
        let section = format!("route[{}].{}", route.index, route.channel.key());
        let line = |key: &str| self.document.line(&format!("{section}.{key}"));
        shaping::Pace::of_route(route.channel.limits(), self.document.file(), line)
    }

    /// Returns true for the built-in default.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.file_name() == EMBEDDED_NAME
    }

    /// The source file, for people.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.document.file()
    }

    /// Problems of its file with the lines concerned and a pointer into them; empty without any.
    #[must_use]
    pub fn render(&self, problems: &[Problem], colour: bool) -> String {
        render(self.document.file(), self.document.text(), problems, colour)
    }

    /// The routes with conditions, in the order of the file.
    pub fn conditional_routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.conditional.iter().filter_map(|index| self.routes.get(*index))
    }

    /// Returns true if routes have conditions.
    #[must_use]
    pub fn has_conditional_routes(&self) -> bool {
        !self.conditional.is_empty()
    }

    /// Returns true if the login at hosts of a route depends on the sender.
    #[must_use]
    pub fn has_logins_by_sender(&self) -> bool {
        self.routes.iter().any(|route| route.channel.has_logins_by_sender())
    }

    /// The first route without conditions that accepts this domain, and its index; `in_tables`: the first route with the
    /// domain in its table.
    #[must_use]
    pub fn route_for(
        &self,
        domain: &Domain,
        in_tables: Option<usize>,
    ) -> Option<(usize, &Arc<Route>)> {
        let named = self.named(domain, in_tables);
        if domain.is_or_domain() {
            return self.routes.get(named?).map(|route| (route.index, route));
        }
        // A catch-all is the last route, so a route that names the domain comes before it.
        let index = named.or_else(|| self.table.catch_all())?;
        self.routes.get(index).map(|route| (index, route))
    }

    /// The first route without conditions that accepts this domain by name, in the file or in a table. For the routed
    /// part of an O/R address, the route with the most attributes.
    #[must_use]
    pub fn named(&self, domain: &Domain, in_tables: Option<usize>) -> Option<usize> {
        if domain.is_or_domain() {
            return self.or_routes.find(domain);
        }
        let in_file = self.table.named(domain);
        in_file.into_iter().chain(in_tables).min()
    }

    /// Routes without conditions that take the domains of a table, with their indexes.
    pub fn domain_tables(&self) -> impl Iterator<Item = (usize, &Arc<TableEntry>)> {
        let routes = self.routes.iter().filter(|route| route.when.is_none());
        let tables = routes.map(|route| (route.index, route.domains_table.as_ref()));
        tables.filter_map(|(index, table)| Some((index, table?)))
    }

    /// The route of a recipient: like [`Config::route_for`], but mail for the postmaster always
    /// has one.
    #[must_use]
    pub fn route_of(
        &self,
        recipient: &Mailbox,
        in_tables: Option<usize>,
    ) -> Option<(usize, &Arc<Route>)> {
        if self.is_postmaster(recipient) {
            let index = self.postmaster.route;
            return self.routes.get(index).map(|route| (index, route));
        }
        self.route_for(&recipient.domain(), in_tables)
    }

    /// The mailbox in the spool's directory, where no route takes the postmaster's mail.
    #[must_use]
    pub fn own_mailbox(&self) -> Option<PathBuf> {
        let route = self.routes.get(self.postmaster.route)?;
        route.is_built_in().then(|| self.spool.own_mailbox())
    }

    /// The route of this name, which an operator may have selected for a message.
    #[must_use]
    pub fn route_named(&self, name: &str) -> Option<(usize, &Arc<Route>)> {
        self.routes.iter().enumerate().find(|(_, route)| &*route.name == name)
    }

    /// The bare `<postmaster>`, the address that stands for it, or the postmaster at our own name
    /// where no route takes that.
    #[must_use]
    pub fn is_postmaster(&self, recipient: &Mailbox) -> bool {
        let ours = &self.postmaster.address;
        let domain = recipient.domain_str();
        // RFC 5321 §4.5.1: `postmaster` is matched without regard to case.
        let by_name = is_postmaster_local(recipient.local());
        if domain.is_empty() {
            return by_name || recipient.local() == ours.local();
        }
        if domain.eq_ignore_ascii_case(ours.domain_str()) {
            return recipient.local() == ours.local()
                || by_name && is_postmaster_local(ours.local());
        }
        by_name
            && (domain.eq_ignore_ascii_case(self.hostname.as_str()) && !self.takes_own_name()
                || self.is_own_by_section(recipient))
    }

    /// Returns true if an address is in a local domain of a section that no route accepts.
    fn is_own_by_section(&self, recipient: &Mailbox) -> bool {
        let domain = recipient.domain();
        self.own_domains.contains(&domain) && !self.takes(&domain)
    }

    /// Returns true if a route accepts mail for the hostname: one that names it, or a local catch-all.
    fn takes_own_name(&self) -> bool {
        self.takes(&self.hostname)
    }

    fn takes(&self, domain: &Domain) -> bool {
        self.table.named(domain).is_some()
            || self
                .table
                .catch_all()
                .and_then(|index| self.routes.get(index))
                .is_some_and(|route| route.channel.is_local())
    }
}

fn is_postmaster_local(local: &str) -> bool {
    local.eq_ignore_ascii_case("postmaster")
}
