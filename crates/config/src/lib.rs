//! The configuration: one TOML file, one typed schema, resolved into immutable values.
//!
//! [`Schema::parse`] reads a file, [`Schema::embedded`] is the safe default. A kind of channel owns
//! its keys: it describes, reads and explains them ([`ChannelSection`], [`Settings`]), and is one
//! line where the schema is put together.
//!
//! What the message's way asks of it: [`Config::decide`] (may this client send to this
//! recipient?) at RCPT; [`Config::route_of`] (where does it go?) whenever a recipient falls due.

mod acme;
mod certificate;
mod channel;
mod decision;
mod document;
mod embedded;
mod explainer;
mod explanation;
mod host;
mod json_schema;
mod listener;
mod next_hop;
mod parse;
mod problem;
mod protocol;
pub mod quantity;
mod reader;
mod reference;
mod resolve;
mod resolver;
mod route;
mod schema;
mod secret_file;
mod settings;
mod shape;
pub mod shaping;
mod source;
mod stage;
mod steering;
mod table;
mod table_section;
mod tenant;
mod warmup;
mod web_place;
pub mod written;
mod x400;

pub use acme::{Acme, ExternalAccount, Ordered};
pub use certificate::{Certificate, NamePattern};
pub use channel::{
    ChannelSection, Destination, EightBit, KindsOfMail, Limits, Settings, SharedLimits, TlsSources,
    Values,
};
pub use decision::Decision;
pub use embedded::EMBEDDED;
pub use explainer::{Explainer, NamedValues, Origin, Step, values_in};
pub use explanation::{AccessStep, ExplainRequest, Explanation, InTables, TableLookup};
pub use host::{Host, HostPort};
pub use ipnet::IpNet;
pub use listener::{CertificateIdentity, ClientCertificates, Listener};
pub use next_hop::{host_set, host_text, next_hop};
pub use problem::{ConfigErrors, Problem};
pub use protocol::{ProtocolSection, ProtocolSettings};
pub use reader::Reader;
pub use route::{DomainPattern, Route, RouteTable};
pub use schema::Schema;
pub use secret_file::{SecretFile, SecretSource, TokenSource};
pub use settings::{
    Admin, CONTROL_PATH_BYTES_MAX, DmarcReports, Dns, Events, Log, Postmaster,
    REPORT_GIVE_UP_AFTER, ReportRetry, ReportTo, Reports, Retry, Secret, SpoolSection, Srs, Tls,
    TlsReports,
};
pub use source::{Pool, Proxy, ProxyKind, Source};
pub use stage::{StageEntry, StageSection, StageSettings};
pub use steering::{Steering, SteeringKey};
pub use table::{
    Composition, ENTRY_TEXT, PasswordChecks, Rewrite, TableCache, TableEntry, TableSettings,
};
pub use table_section::TableSection;
pub use tenant::{NotYours, OTHER_TENANTS, TENANT_NAME_MAX, Tenancy, Tenant, Tenants, names_login};
pub use warmup::{WARMUP_DAYS_MAX, Warmup};
pub use web_place::WebPlace;
pub use written::{
    AcmeChallenge, Durability, KeyType, ListenerTls, LogLevel, Returns, TableRefText, TenantText,
    Unsigned,
};
pub use x400::{
    GatewayTables, MTA_NAME_BYTES_MAX, OrRoutes, PASSWORD_BYTES_MAX, SELECTOR_BYTES_MAX,
    SESSION_SELECTOR_BYTES_MAX, X400, X400Gateway, X400Mode, X400Peer,
};

use document::Document;
use mail::{Domain, Mailbox};
use shaping::{Paced, Providers, Shaping, ShapingFile, ShapingSource};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Name of the built-in route that keeps mail for the postmaster when no other route takes it.
pub const POSTMASTER_ROUTE: &str = "postmaster";
/// Octets that the mailbox of that route may have; Postfix gives a mailbox as much.
pub const OWN_MAILBOX_BYTES_MAX: u64 = 50 << 20;

/// A whole configuration. Immutable: a reload makes a new one.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name this server goes by.
    pub hostname: Domain,
    /// Where mail for the bare `<postmaster>` goes.
    pub postmaster: Postmaster,
    /// Addresses before a NAT or proxy that lead here.
    pub proxy_addresses: Vec<IpAddr>,
    /// `None`: one per core.
    pub shards: Option<u16>,
    /// Where accepted mail is kept.
    pub spool: SpoolSection,
    /// Those of this server; the first is for clients that ask for none.
    pub certificates: Vec<Certificate>,
    /// Where those come from that are ordered; `None`: there are none.
    pub acme: Option<Acme>,
    /// Where mail comes in, at least one.
    pub listeners: Vec<Arc<Listener>>,
    /// Where mail goes, in the order of the file, and last, if it is needed, the built-in one
    /// named [`POSTMASTER_ROUTE`].
    pub routes: Vec<Arc<Route>>,
    /// When deliveries are tried again, unless the route says otherwise.
    pub retry: Retry,
    /// What senders are told, unless the route says otherwise.
    pub reports: Arc<Reports>,
    /// When mail without a sender is tried again.
    pub report_retry: ReportRetry,
    /// Senders of what is sent on for others; `None`: they stay as they are.
    pub srs: Option<Srs>,
    /// What owners of domains are told of mail in their name; `None`: nothing.
    pub dmarc_reports: Option<DmarcReports>,
    /// What owners of domains are told of TLS to their hosts; `None`: nothing.
    pub tls_reports: Option<TlsReports>,
    /// Rules of what peers' refusals mean, which go before our own.
    pub class_files: Vec<PathBuf>,
    /// How clients say how a message is to be sent.
    pub steering: Steering,
    /// TLS of clients, on all listeners together.
    pub tls: Tls,
    /// How names are resolved.
    pub dns: Dns,
    /// The administration interface.
    pub admin: Admin,
    /// `None`: off.
    pub events: Option<Events>,
    /// Fields of messages' headers that stand in events, each once.
    pub event_headers: Arc<[Arc<str>]>,
    /// The console log.
    pub log: Log,
    /// What is done with mail before it is durable, in the order of the file.
    pub stages: Vec<StageEntry>,
    /// Lookup tables, in the order of the file.
    pub tables: Vec<Arc<TableEntry>>,
    /// Who we are among MTAs of X.400; `None`: it is not spoken.
    pub x400: Option<Arc<X400>>,
    /// From where mail is sent, in the order of the file.
    pub sources: Vec<Arc<Source>>,
    /// What routes spread their mail over, in the order of the file.
    pub pools: Vec<Arc<Pool>>,
    /// Whose mail it is, where several send.
    pub tenants: Arc<Tenants>,
    /// Where the pace of mail to providers is written; see [`Config::shape`].
    pub shaping_sources: Vec<ShapingSource>,
    shaping: Option<Arc<Shaping>>,
    /// What each route sets of its pace itself, where mail is shaped.
    own_paces: Vec<shaping::Pace>,
    /// What is hardly meant, but not wrong.
    pub warnings: Vec<Problem>,
    table: RouteTable,
    or_routes: OrRoutes,
    document: Arc<Document>,
}

impl Config {
    /// The pool of this name.
    #[must_use]
    pub fn pool_named(&self, name: &str) -> Option<&Arc<Pool>> {
        self.pools.iter().find(|pool| &*pool.name == name)
    }

    /// Files with secrets that routes name.
    pub fn secret_files(&self) -> impl Iterator<Item = (&Route, &Arc<SecretFile>)> {
        self.routes.iter().filter_map(|route| Some((&**route, route.channel.secret_file()?)))
    }

    /// Takes what stands in [`Config::shaping_sources`], read in their order.
    ///
    /// # Errors
    /// What is wrong with one of the files.
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

    /// The mistake that one of [`Config::shaping_sources`] can't be read.
    #[must_use]
    pub fn shaping_unread(&self, index: usize, why: String) -> ConfigErrors {
        let problem = self.document.problem(&format!("shaping[{index}]"), true, why, "");
        let (file, text) = (self.document.file().clone(), self.document.text().clone());
        ConfigErrors::new(file, text, vec![problem])
    }

    /// The mistake that a file of the gateway of `[x400]` can't be used: the one that this key names.
    #[must_use]
    pub fn gateway_unread(&self, key: &str, why: String) -> ConfigErrors {
        let problem = self.document.problem(&format!("x400.gateway.{key}"), true, why, "");
        let (file, text) = (self.document.file().clone(), self.document.text().clone());
        ConfigErrors::new(file, text, vec![problem])
    }

    /// Who knows providers, when somebody asks: the shaping files in force, or, where there are none, what is
    /// built in.
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

    /// The rules of providers, and (`None`) of whoever has none.
    pub fn shaping_rules(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Arc<shaping::Rule>)> {
        self.shaping.iter().flat_map(|shaping| shaping.rules())
    }

    /// The limits that the file sets for a route itself, where mail is shaped.
    fn own_pace(&self, route: &Route) -> Option<&shaping::Pace> {
        self.own_paces.get(route.index)
    }

    fn read_own_pace(&self, route: &Route) -> shaping::Pace {
        let section = format!("route[{}].{}", route.index, route.channel.key());
        let line = |key: &str| self.document.line(&format!("{section}.{key}"));
        shaping::Pace::of_route(route.channel.limits(), self.document.file(), line)
    }

    /// The file this came from, for people.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.document.file()
    }

    /// Warnings with the lines concerned and a pointer into them; empty when there are none.
    #[must_use]
    pub fn render_warnings(&self, colour: bool) -> String {
        problem::render(self.document.file(), self.document.text(), &self.warnings, colour)
    }

    /// The first route that takes this domain, and its index; `in_tables`: the first of those whose
    /// table has it.
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

    /// The first route that takes this domain by name, in the file or in a table; of what O/R addresses are
    /// routed by, the one with most attributes.
    #[must_use]
    pub fn named(&self, domain: &Domain, in_tables: Option<usize>) -> Option<usize> {
        if domain.is_or_domain() {
            return self.or_routes.find(domain);
        }
        let in_file = self.table.named(domain);
        in_file.into_iter().chain(in_tables).min()
    }

    /// Routes that take the domains of a table, with their indexes.
    pub fn domain_tables(&self) -> impl Iterator<Item = (usize, &Arc<TableEntry>)> {
        let tables = self.routes.iter().map(|route| (route.index, route.domains_table.as_ref()));
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
        route.is_built_in().then(|| resolve::own_mailbox(&self.spool))
    }

    /// The route of this name, which an operator may have put a message on.
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
                || self.is_only_of_srs(recipient))
    }

    /// Whether an address is in the domain of rewritten senders, and no route takes that.
    fn is_only_of_srs(&self, recipient: &Mailbox) -> bool {
        let domain = recipient.domain();
        self.srs.as_ref().is_some_and(|srs| srs.domain == domain) && !self.takes(&domain)
    }

    /// Whether a route takes mail for our own name: one that names it, or a local one that takes
    /// everything.
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
