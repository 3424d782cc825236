//! Conversion of the file's text to used values: reads every value, and collects every error.

mod certificate;
mod conditions;
mod listener;
mod reports;
mod route;
mod source;
mod table;
mod tenant;

use super::channel::Destination;
use super::document::Document;
use super::listener_section::ListenerKind;
use super::problem::{ConfigErrors, Problem};
use super::reader::Reader;
use super::resolver::{Resolver, ServerContext};
use super::section::{Rest, StageEntry};
use super::settings::{
    Admin, CONTROL_PATH_BYTES_MAX, DEFAULT_SPOOL, Dns, Log, Postmaster, ReportRetry, Reports,
    Retry, SpoolSection, Tls,
};
use super::shape::Shape;
use super::shaping::ShapingSource;
use super::source::{Pool, Source};
use super::table::TableEntry;
use super::tenant::Tenants;
use super::written::{AdminText, DnsText, FileText, LogFormat, LogText, RetryText, SpoolText};
use super::{Config, OWN_MAILBOX_BYTES_MAX, POSTMASTER_ROUTE, Route, RouteTable, Schema};
use crate::section::owned::Owned;
use crate::shaping::BUILTIN_NAME;
use mail::{Domain, Mailbox, TagDelimiters};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Reads and resolves.
pub(super) fn read(
    schema: &Schema,
    text: &str,
    file: &str,
    machine: Domain,
) -> Result<Config, ConfigErrors> {
    let refuse = |document: &Document, problems| {
        ConfigErrors::new(document.file().clone(), document.text().clone(), problems)
    };
    let shape = Shape { json: schema.json(), sections: Some(schema) };
    let (document, written) = match shape.read::<FileText>(file.into(), text.into()) {
        Ok(read) => read,
        Err((document, problems)) => return Err(refuse(&document, problems)),
    };
    let mut resolver = Resolver {
        document: &document,
        problems: Vec::new(),
        listener_names: Vec::new(),
        foreign_listeners: Vec::new(),
        tenant_names: Vec::new(),
        route_names: Vec::new(),
        conditions: Vec::new(),
        tables: Vec::new(),
        server: ServerContext::new(machine.clone()),
        sections: Owned::default(),
        files: Vec::new(),
    };
    let parts = resolver.file(schema, &written, machine);
    let (mut problems, files) = (resolver.problems, resolver.files);
    problems.sort_by_key(|problem| problem.span.start);
    match parts {
        Some(parts) if problems.iter().all(|problem| !problem.fatal) => {
            let config = parts.into_config(problems, Arc::new(document));
            Ok(Config { user: written.user, group: written.group, files, ..config })
        }
        _ => Err(refuse(&document, problems)),
    }
}

/// The configuration, without the parts only present in an error-free file.
struct ResolvedSections {
    hostname: Domain,
    tag_delimiters: TagDelimiters,
    proxy_addresses: Vec<IpAddr>,
    postmaster: Postmaster,
    shards: Option<u16>,
    spool: SpoolSection,
    certificates: Vec<super::Certificate>,
    listeners: Vec<super::Listener>,
    routes: Vec<Route>,
    table: RouteTable,
    retry: Retry,
    reports: Arc<Reports>,
    report_retry: ReportRetry,
    tls: Tls,
    dns: Dns,
    admin: Admin,
    log: Log,
    stages: Vec<StageEntry>,
    sections: Owned,
    listener_kinds: Vec<ListenerKind>,
    own_domains: Vec<Domain>,
    tables: Vec<Arc<TableEntry>>,
    or_routes: super::OrRoutes,
    shaping_sources: Vec<ShapingSource>,
    sources: Vec<Arc<Source>>,
    pools: Vec<Arc<Pool>>,
    tenants: Arc<Tenants>,
}

impl ResolvedSections {
    fn into_config(self, warnings: Vec<Problem>, document: Arc<Document>) -> Config {
        let conditional = self.routes.iter().filter(|route| route.when.is_some());
        let conditional = conditional.map(|route| route.index).collect();
        Config {
            user: None,
            group: None,
            files: Vec::new(),
            hostname: self.hostname,
            tag_delimiters: self.tag_delimiters,
            proxy_addresses: self.proxy_addresses,
            postmaster: self.postmaster,
            shards: self.shards,
            spool: self.spool,
            certificates: self.certificates,
            listeners: self.listeners.into_iter().map(Arc::new).collect(),
            routes: self.routes.into_iter().map(Arc::new).collect(),
            retry: self.retry,
            reports: self.reports,
            report_retry: self.report_retry,
            tls: self.tls,
            dns: self.dns,
            admin: self.admin,
            log: self.log,
            stages: self.stages,
            sections: self.sections,
            listener_kinds: self.listener_kinds,
            own_domains: self.own_domains,
            tables: self.tables,
            or_routes: self.or_routes,
            shaping_sources: self.shaping_sources,
            sources: self.sources,
            pools: self.pools,
            tenants: self.tenants,
            shaping: None,
            own_paces: Vec::new(),
            warnings,
            conditional,
            table: self.table,
            document,
        }
    }
}

/// Defaults of routes.
pub(super) struct General<'a> {
    schema: &'a Schema,
    retry: &'a Retry,
    reports: &'a Arc<Reports>,
    pools: &'a [Arc<Pool>],
    written: &'a FileText,
}

impl Resolver<'_> {
    fn file(
        &mut self,
        schema: &Schema,
        written: &FileText,
        machine: Domain,
    ) -> Option<ResolvedSections> {
        let hostname = self.hostname(written.hostname.as_deref(), machine);
        let spool = self.spool(&written.spool);
        let retry = self.retry("retry", &written.retry);
        let certificates = self.certificates(&written.certificate, &spool.first_path());
        self.server.tag_delimiters = self.tag_delimiters(written.recipient_delimiter.as_deref());
        self.tables = self.tables(schema, &written.table);
        self.server.hostname = hostname.clone();
        self.server.first_spool = spool.first_path();
        self.server.first_ordered = written.certificate.iter().position(|one| one.acme);
        // Sections refer to listeners and tenants.
        self.name_listeners(schema, &written.listener);
        self.tenant_names = written.tenant.iter().map(|text| text.name.as_str().into()).collect();
        self.sections(schema, &written.others);
        let listeners = self.listeners(schema, &written.listener, !written.certificate.is_empty());
        let reports = Arc::new(self.reports("reports", &written.reports));
        let sources = self.sources(&written.source);
        let pools = self.pools(&written.pool, &sources);
        let tenants = Arc::new(self.tenants(&written.tenant, &pools));
        let general = General { schema, retry: &retry, reports: &reports, pools: &pools, written };
        let (mut routes, table) = self.routes(&written.route, &general);
        self.fallbacks(&written.route, &mut routes);
        self.route_names = routes.iter().map(|route| Arc::clone(&route.name)).collect();
        let or_routes = self.or_routes(&routes);
        self.routes_to_ourselves(&routes, &listeners);
        let stages = self.stages(schema, &written.others);
        self.possible_conditions(&routes, &listeners, &tenants);
        self.asked_routes(&written.table, &routes);
        let postmaster = self.postmaster(&hostname, &spool, &general, &mut routes, &table);
        self.advise(written, &listeners, &routes);
        self.review(schema, &Rest { listeners: &listeners, routes: &routes });
        self.account(written);
        Some(ResolvedSections {
            shards: written.shards,
            tls: Tls {
                handshakes_max: written.tls.max_handshakes,
                expiry_warning: self.duration("tls.expiry_warning", &written.tls.expiry_warning),
            },
            dns: self.dns(&written.dns),
            admin: self.admin(&written.admin, &spool),
            log: log(&written.log),
            stages,
            shaping_sources: self.shaping(&written.shaping),
            sources,
            pools,
            tenants,
            postmaster: postmaster?,
            hostname,
            tag_delimiters: self.server.tag_delimiters.clone(),
            proxy_addresses: self.proxy_addresses(&written.proxy_addresses),
            spool,
            certificates,
            listeners,
            routes,
            own_domains: self.own_domains(schema),
            sections: std::mem::take(&mut self.sections),
            listener_kinds: schema.listeners().to_vec(),
            table,
            tables: std::mem::take(&mut self.tables),
            or_routes,
            retry,
            reports,
            report_retry: self.report_retry(written.reports.retry.as_ref()),
        })
    }

    /// The program looks the names up.
    fn account(&mut self, written: &FileText) {
        for (key, name) in [("user", &written.user), ("group", &written.group)] {
            if name.as_ref().is_some_and(|name| name.is_empty() || name.contains('\0')) {
                self.error(key, "not a name", "name a user or group of this system");
            }
        }
        if written.group.is_some() && written.user.is_none() {
            self.error("group", "`group` without `user`", "set `user` too");
        }
    }

    fn tag_delimiters(&mut self, text: Option<&str>) -> TagDelimiters {
        text.map_or_else(|| Ok(TagDelimiters::default()), TagDelimiters::parse).unwrap_or_else(
            |help| {
                let message =
                    format!("\"{}\" is not a set of delimiters", text.unwrap_or_default());
                self.error("recipient_delimiter", message, &help);
                TagDelimiters::default()
            },
        )
    }

    /// Reads the sections with registered owners.
    fn sections(&mut self, schema: &Schema, written: &toml::Table) {
        for kind in schema.sections() {
            let value = written.get(kind.key).cloned();
            (kind.read)(value, &mut Reader::new(self, kind.key.to_owned()));
        }
    }

    /// Lets owners of sections check the rest of the file.
    fn review(&mut self, schema: &Schema, rest: &Rest<'_>) {
        let sections = self.sections.clone();
        for kind in schema.sections() {
            (kind.review)(&sections, rest, &mut Reader::new(self, kind.key.to_owned()));
        }
    }

    /// Domains that sections make ours.
    fn own_domains(&self, schema: &Schema) -> Vec<Domain> {
        let kinds = schema.sections().iter();
        kinds.filter_map(|kind| (kind.own_domain)(&self.sections)).cloned().collect()
    }

    /// The stages, in the order of the file.
    fn stages(&mut self, schema: &Schema, written: &toml::Table) -> Vec<StageEntry> {
        let mut stages = Vec::new();
        for kind in schema.stages() {
            let tables = written.get(kind.key).and_then(toml::Value::as_array);
            for (index, table) in tables.into_iter().flatten().enumerate() {
                let at = format!("{}[{index}]", kind.key);
                let line = self.document.line(&at).unwrap_or(0);
                let table = table.as_table().cloned().unwrap_or_default();
                if let Some(settings) = (kind.read)(table, &mut Reader::new(self, at)) {
                    stages.push(StageEntry { key: kind.key, settings, line });
                }
            }
        }
        stages.sort_by_key(|stage| stage.line);
        stages
    }

    /// Warns of settings that are legal but probably unintended.
    fn advise(&mut self, written: &FileText, listeners: &[super::Listener], routes: &[Route]) {
        let sends_by_mx = routes
            .iter()
            .any(|route| matches!(route.channel.destination(), Destination::Mx { .. }));
        if let Some(name) = written.hostname.as_deref().filter(|name| !name.contains('.'))
            && sends_by_mx
        {
            let help = "strict servers reject this name in EHLO: use a name from the DNS";
            self.warn("hostname", format!("\"{name}\" is a name without a domain"), help);
        }
        let relays = routes.iter().rposition(|r| r.is_catch_all() && !r.channel.is_local());
        if let Some(index) = relays
            && routes[index].line > 0
            && listeners.iter().all(|one| one.relay_from.is_empty() && !one.needs_login())
        {
            let message = "no client may use the route for all other domains";
            let help = "name in a listener's `relay_from` the networks that may send anywhere";
            self.warn(&format!("route[{index}]"), message, help);
        }
    }

    fn hostname(&mut self, written: Option<&str>, machine: Domain) -> Domain {
        let Some(text) = written else { return machine };
        match Domain::parse(text) {
            Ok(name) if name.as_str().is_ascii() && !name.as_str().contains(['[', '_']) => name,
            Ok(_) => {
                let help = "use ASCII letters, digits and hyphens: every peer sees the name";
                self.error("hostname", format!("\"{text}\" is not a host name"), help);
                machine
            }
            Err(error) => {
                let message = format!("\"{text}\" is not a host name");
                self.error("hostname", message, &error.to_string());
                machine
            }
        }
    }

    fn proxy_addresses(&mut self, written: &[String]) -> Vec<IpAddr> {
        let mut addresses = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            match text.parse::<IpAddr>() {
                Ok(address) => addresses.push(address.to_canonical()),
                Err(_) => {
                    let help = "write an address, for example \"192.0.2.1\" or \"2001:db8::1\"";
                    let path = format!("proxy_addresses[{index}]");
                    self.error(&path, format!("\"{text}\" is not an IP address"), help);
                }
            }
        }
        addresses
    }

    fn spool(&mut self, written: &SpoolText) -> SpoolSection {
        let paths = match (&written.path, &written.paths) {
            (Some(_), Some(_)) => {
                self.error("spool.paths", "both `path` and `paths` are set", "keep one");
                Vec::new()
            }
            (Some(path), None) => vec![self.file_path("spool.path", path)],
            (None, None) => vec![PathBuf::from(DEFAULT_SPOOL)],
            (None, Some(paths)) => self.spool_paths(paths),
        };
        let max = 1 << 40;
        let segment_bytes =
            self.size_within("spool.segment_bytes", &written.segment_bytes, 1 << 20, 2 << 30);
        let blob_bytes =
            self.size_within("spool.blob_bytes", &written.blob_bytes, 64 << 10, 1 << 30);
        if segment_bytes > 0 && blob_bytes > segment_bytes / 2 {
            let help = "lower `blob_bytes` or raise `segment_bytes`";
            let path = self.written_one("spool", &["blob_bytes", "segment_bytes"]);
            self.error(&path, "`blob_bytes` is more than half of `segment_bytes`", help);
        }
        SpoolSection {
            paths,
            durability: written.durability,
            node: written.node,
            segment_bytes,
            spare_segments: written.spare_segments,
            min_free_bytes: self.size_within(
                "spool.min_free_bytes",
                &written.min_free_bytes,
                0,
                max,
            ),
            blob_bytes,
            unsettled_max: written.unsettled_max,
            queue_recipients_max: written.queue_recipients_max,
            hold_for: self.timeout("spool.hold_for", &written.hold_for),
            body_memory_bytes: self.size_within(
                "spool.body_memory_bytes",
                &written.body_memory_bytes,
                1 << 20,
                max,
            ),
        }
    }

    fn spool_paths(&mut self, written: &[String]) -> Vec<PathBuf> {
        if written.is_empty() || written.len() > 256 {
            // The log's number is eight bits of every message id.
            self.error("spool.paths", "between 1 and 256 directories", "");
        }
        let mut paths: Vec<PathBuf> = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let here = format!("spool.paths[{index}]");
            let path = self.file_path(&here, text);
            if paths.contains(&path) {
                self.error(&here, format!("\"{text}\" is listed twice"), "");
            }
            paths.push(path);
        }
        paths
    }

    fn retry(&mut self, at: &str, written: &RetryText) -> Retry {
        let before = self.problems.len();
        let first = self.timeout(&format!("{at}.first"), &written.first);
        let longest = self.timeout(&format!("{at}.longest"), &written.longest);
        let give_up_after = self.timeout(&format!("{at}.give_up_after"), &written.give_up_after);
        let warn_after = self.duration(&format!("{at}.warn_after"), &written.warn_after);
        // An invalid duration cannot be compared.
        let comparable = self.problems.len() == before;
        if comparable && longest < first {
            let message = format!(
                "`longest` ({}) is shorter than `first` ({})",
                written.longest.0, written.first.0
            );
            self.error(&self.written_one(at, &["longest", "first"]), message, "");
        }
        if comparable && give_up_after < first {
            let message = format!(
                "`give_up_after` ({}) is shorter than `first` ({})",
                written.give_up_after.0, written.first.0
            );
            let help = "no message would be retried";
            self.error(&self.written_one(at, &["give_up_after", "first"]), message, help);
        }
        Retry {
            first,
            factor: written.factor,
            longest,
            jitter: written.jitter,
            give_up_after,
            warn_after: (!warn_after.is_zero()).then_some(warn_after),
        }
    }

    fn dns(&mut self, written: &DnsText) -> Dns {
        let servers = written.servers.iter().enumerate();
        Dns {
            servers: servers
                .filter_map(|(i, text)| self.name_server(&format!("dns.servers[{i}]"), text))
                .collect(),
            timeout: self.timeout("dns.timeout", &written.timeout),
            attempts: written.attempts,
            cache_max: written.cache_max,
            cache_bytes: self.size_within(
                "dns.cache_bytes",
                &written.cache_bytes,
                64 << 10,
                1 << 40,
            ),
            max_lookups: written.max_lookups,
            validating: written.validating,
        }
    }

    fn admin(&mut self, written: &AdminText, spool: &SpoolSection) -> Admin {
        let path = "admin.address";
        let address = written.address.as_ref().and_then(|text| self.socket_address(path, text));
        if address.is_some_and(|address| !address.ip().is_loopback()) {
            let help = "any client that reaches it can read the metrics: protect it by a firewall";
            self.warn(path, "the administration interface is not on a loopback address", help);
        }
        let control = match &written.control {
            Some(text) => self.file_path("admin.control", text),
            None => spool.first_path().join("control.sock"),
        };
        if control.as_os_str().len() > CONTROL_PATH_BYTES_MAX {
            let key = if written.control.is_some() { "admin.control" } else { "spool" };
            let message =
                format!("the path of the control socket is too long: {}", control.display());
            let help = format!(
                "set `control` in [admin] to a path of at most {CONTROL_PATH_BYTES_MAX} bytes"
            );
            self.error(key, message, &help);
        }
        Admin { address, control }
    }

    /// Finds the route for the postmaster, or adds one that keeps the mail here.
    fn postmaster(
        &mut self,
        hostname: &Domain,
        spool: &SpoolSection,
        general: &General<'_>,
        routes: &mut Vec<Route>,
        table: &RouteTable,
    ) -> Option<Postmaster> {
        let written = general.written.postmaster.as_deref();
        let text = match written {
            Some(text) => text.to_owned(),
            None => format!("postmaster@{hostname}"),
        };
        let address = match Mailbox::parse(&text, true) {
            Ok(address) if address.has_domain() => address,
            Ok(_) => {
                self.error("postmaster", format!("\"{text}\" has no domain"), "");
                return None;
            }
            Err(error) => {
                let message = format!("\"{text}\" is not an address");
                self.error("postmaster", message, &error.to_string());
                return None;
            }
        };
        // By default DNS would lead mail for our own name back to us: a catch-all over the network
        // is no route for it.
        let catch_all = table.catch_all().filter(|index| {
            written.is_some() || routes.get(*index).is_some_and(|r| r.channel.is_local())
        });
        if let Some(route) = table.named(&address.domain()).or(catch_all) {
            return Some(Postmaster { address, route });
        }
        let path = spool.own_mailbox();
        let message = format!("no route for the postmaster's mail ({address})");
        let help = format!("it is stored in the Maildir {}", path.display());
        let key = if written.is_some() { "postmaster" } else { "hostname" };
        self.warn(key, message, &help);
        let literal = path.to_string_lossy().replace(['{', '}'], "_");
        let route = routes.len();
        routes.push(Route {
            index: route,
            name: POSTMASTER_ROUTE.into(),
            domains: Vec::new(),
            domains_table: None,
            or_addresses: Vec::new(),
            when: None,
            fallback: None,
            is_only_fallback: false,
            recipients: None,
            aliases: None,
            origin: None,
            include: Vec::new(),
            srs: None,
            defer_classes: Arc::default(),
            pool: None,
            channel: general.schema.mailbox_at(&literal, OWN_MAILBOX_BYTES_MAX)?,
            retry: general.retry.clone(),
            reports: Arc::clone(general.reports),
            line: 0,
        });
        Some(Postmaster { address, route })
    }
}

impl Resolver<'_> {
    /// Files in their order.
    fn shaping(&mut self, written: &[String]) -> Vec<ShapingSource> {
        let mut sources = Vec::with_capacity(written.len());
        for (index, text) in written.iter().enumerate() {
            let at = format!("shaping[{index}]");
            let source = match text.as_str() {
                BUILTIN_NAME => ShapingSource::Builtin,
                path => ShapingSource::File(self.file_path(&at, path)),
            };
            if sources.contains(&source) {
                self.error(&at, format!("\"{text}\" is listed twice"), "");
            }
            sources.push(source);
        }
        sources
    }
}

fn log(written: &LogText) -> Log {
    let LogText { level, to, format, deliveries } = *written;
    Log { level, to, format, deliveries: deliveries.unwrap_or(format == LogFormat::Postfix) }
}
