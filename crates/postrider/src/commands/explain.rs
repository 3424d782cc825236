//! `postrider explain`.

mod rehearsal;
mod rewriting;
mod world;

use super::{load, tls};
use crate::cli::{ExplainArgs, exit};
use crate::console::ConsoleLog;
use crate::revoked_logins::RevokedLogins;
use crate::services::{ServiceRuntime, Services};
use crate::tables::{Registry, TracedTables};
use crate::terminal::clean;
use crate::world::clock::Start;
use crate::world::resolver::Resolver;
use channels::{AccessDryRun, AccessQuestion, consult_access};
use config::{
    Config, Destination, ENTRY_TEXT, ExplainRequest, ExplainedDecision, Explanation, InTables,
    Listener, MailFacts, NamedValues, Origin, RefusalOrigin, RehearsalSteps, RewriteStep,
    TableLookup, TlsSources,
};
use lookup::Entry;
use mail::{Class, Domain, Mailbox};
use mta::console::Level;
use mta::ingress::{
    Consulted, ConsultedRoutes, RehearsedMail, WRONG_PASSWORD, consult, consult_routes,
};
use mta::routing::hosts::HostGroup;
use mta::routing::mx::resolve_mx;
use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

/// Maximum number of characters shown of a table's answer: a list may have thousands of members.
const ANSWER_CHARS_MAX: usize = 400;

/// Shows how a recipient would be handled.
pub(crate) fn explain(args: &ExplainArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => Arc::new(config),
        Err(code) => return code,
    };
    match explanation_of(args, &config) {
        Ok(explanation) if args.json => match serde_json::to_string_pretty(&explanation) {
            Ok(json) => {
                super::print(&format!("{json}\n"));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("postrider: {error}");
                ExitCode::from(exit::FAILED)
            }
        },
        Ok(mut explanation) => {
            explanation.steps.iter_mut().for_each(|step| step.value = clean(&step.value));
            super::print(&explanation.to_string());
            ExitCode::SUCCESS
        }
        Err((error, code)) => {
            eprintln!("postrider: {error}");
            ExitCode::from(code)
        }
    }
}

/// For an X.400 recipient that the gateway maps to internet mail, explains the internet address.
fn explanation_of(args: &ExplainArgs, config: &Arc<Config>) -> Result<Explanation, (String, u8)> {
    let Some(mailbox) = channels::x400_as_mail(config, &args.recipient) else {
        return explanation(args, config);
    };
    let usual = config.usual_listener(&args.recipient).map(|listener| listener.name.to_string());
    let listener = args.listener.clone().or(usual);
    let as_mail = ExplainArgs { recipient: mailbox.clone(), listener, ..args.clone() };
    let mut explanation = explanation(&as_mail, config)?;
    explanation.recipient = args.recipient.to_string();
    let value = format!("it is internet mail for {mailbox}");
    let step = ExplainedDecision {
        what: "gateway".into(),
        value,
        decided_by: Origin::Rule("RFC 2156 4.3"),
    };
    explanation.steps.insert(0, step);
    Ok(explanation)
}

/// Queries tables and the DNS, and explains by the configuration. An error is a text and an exit code.
fn explanation(args: &ExplainArgs, config: &Arc<Config>) -> Result<Explanation, (String, u8)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| (error.to_string(), exit::FAILED))?;
    let listener = listener_of(args, config);
    let mut asked = match listener {
        Some(listener)
            if !args.offline || (config.tables.is_empty() && config.has_conditional_routes()) =>
        {
            ask_tables(&runtime, args, config, listener).map_err(|why| (why, exit::FAILED))?
        }
        _ => LookupTrace::default(),
    };
    asked.note_revocation(args, config);
    let (recipient, route) = asked.recipient_and_route(args, config);
    let survey = match route {
        Some(route) if !args.offline && route.channel.tls_sources() != TlsSources::default() => {
            runtime.block_on(tls::survey(config, route, &recipient.domain())).ok()
        }
        _ => None,
    };
    let found = match route.map(|route| route.channel.destination()) {
        Some(Destination::Mx { port }) if !args.offline => Some(match &survey {
            Some(survey) => survey.mx(),
            None => mx_hosts(&runtime, config, port, &recipient.domain()),
        }),
        _ => None,
    };
    let tls = survey.map(|survey| survey.of_hosts()).unwrap_or_default();
    let mx = found.as_ref().map(|found| match found {
        Ok(hosts) => Ok(hosts.as_slice()),
        Err(reason) => Err(reason.as_str()),
    });
    let LookupTrace { access, .. } = &asked;
    let stands_for = asked.said.alias.as_ref().map(|entry| shown(&entry.text));
    let values = asked.said.entry.as_deref().map(values_of);
    let in_tables = InTables {
        routes: asked.routes.found,
        conditions: &asked.routes.conditions,
        lookups: &asked.lookups,
        access: &access.steps,
        is_settled_by_access: access.is_settled,
        stands_for: stands_for.as_deref(),
        owner: asked.said.owner.as_ref(),
        values: values.as_deref(),
        rewrites: &asked.rewrites,
        rewritten: asked.rewritten.as_ref().map(|(recipient, route)| (recipient, *route)),
        refusal: access.refusal.as_ref().or(asked.said.refusal.as_ref()),
    };
    let rehearsal = asked.rehearsal.as_ref();
    let request = ExplainRequest {
        recipient: &args.recipient,
        sender: args.from.0.as_ref(),
        listener: args.listener.as_deref().or(listener.map(|listener| &*listener.name)),
        client: args.client,
        login: args.login.as_deref(),
        mx,
        tls: &tls,
        in_tables,
        rehearsal,
    };
    config.explain(&request).map_err(|error| (error, exit::USAGE))
}

/// The named listener, or a usual one: for a user one with logins.
fn listener_of<'c>(args: &ExplainArgs, config: &'c Config) -> Option<&'c Arc<Listener>> {
    let of_users = || config.listeners.iter().find(|listener| listener.needs_login());
    match args.listener.as_deref() {
        Some(name) => config.listeners.iter().find(|listener| &*listener.name == name),
        None if args.login.is_some() && of_users().is_some() => of_users(),
        None => config.usual_listener(&args.recipient),
    }
}

/// The lookups in tables, with their answers.
#[derive(Default)]
struct LookupTrace {
    routes: ConsultedRoutes,
    access: AccessDryRun,
    said: Consulted,
    lookups: Vec<TableLookup>,
    rehearsal: Option<RehearsalSteps>,
    /// The routes refuse the recipient.
    is_refused_by_routes: bool,
    /// Owners of the lists of members, in their order.
    owners: Vec<Option<Mailbox>>,
    rewrites: Vec<RewriteStep>,
    /// The recipient after rewriting, with its route.
    rewritten: Option<(Mailbox, Option<usize>)>,
}

impl LookupTrace {
    /// A revoked login gets no further than AUTH.
    fn note_revocation(&mut self, args: &ExplainArgs, config: &Config) {
        let Some(login) = args.login.as_deref() else { return };
        match RevokedLogins::has(&config.spool.paths[0], login) {
            Ok(false) => {}
            Ok(true) => {
                let refusal = Some(RefusalOrigin { step: "AUTH", stage: None });
                let rehearsal = Some(RehearsalSteps { refusal, ..RehearsalSteps::default() });
                let refused = Consulted { refusal: Some(WRONG_PASSWORD), ..Consulted::default() };
                let routes = std::mem::take(&mut self.routes);
                *self = LookupTrace { routes, said: refused, rehearsal, ..LookupTrace::default() };
            }
            Err(why) => {
                let rehearsal = self.rehearsal.get_or_insert_default();
                rehearsal.not_asked.push(format!("revoked logins ({why})"));
            }
        }
    }
}

/// Opens the tables as a server does, and queries those that decide about the recipient.
fn ask_tables(
    runtime: &Runtime,
    args: &ExplainArgs,
    config: &Arc<Config>,
    listener: &Listener,
) -> Result<LookupTrace, String> {
    let console = Arc::new(ConsoleLog::stderr(Level::Error));
    let registry = Registry::new(Start::now(), &ServiceRuntime::default(), &console);
    let tables = Services::default().with(Arc::clone(&registry));
    tables.start(config, &|_| ()).map_err(|mistakes| mistakes.to_string())?;
    let tables = TracedTables::new(registry);
    Ok(LocalSet::new().block_on(runtime, async {
        let mut asked = ask(&tables, args, config, listener).await;
        if may_rehearse(args, listener, &asked) {
            rehearse(&tables, args, config, listener, &mut asked).await;
        }
        if !args.offline && listener.takes_internet_mail() {
            rewriting::rewrite(&tables, args, config, listener, &mut asked).await;
        }
        asked
    }))
}

/// Returns true if the client is known well enough. X.400 and listeners with logins need a peer or a user.
fn may_rehearse(args: &ExplainArgs, listener: &Listener, asked: &LookupTrace) -> bool {
    let is_known = args.login.is_some() || !listener.needs_login();
    // Without a client, the rules of access that could be made have decided.
    let is_open = !asked.access.is_settled || is_client_known(args);
    !args.offline && listener.takes_internet_mail() && is_known && is_open
}

/// Returns true if checks of the client can be made.
fn is_client_known(args: &ExplainArgs) -> bool {
    args.client.is_some() && args.helo.is_some()
}

/// Rehearses the session. Its refusal replaces that of the lookups.
async fn rehearse(
    tables: &TracedTables,
    args: &ExplainArgs,
    config: &Arc<Config>,
    listener: &Listener,
    asked: &mut LookupTrace,
) {
    let position = config.listeners.iter().position(|one| one.name == listener.name);
    let mail = RehearsedMail {
        listener: position.unwrap_or(0),
        client: args.client.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        helo: args.helo.as_deref().unwrap_or(""),
        login: args.login.as_deref(),
        sender: args.from.0.as_ref(),
        recipient: &args.recipient,
    };
    let is_whole = is_client_known(args);
    let done = rehearsal::rehearse(tables, config, mail, is_whole).await;
    let lookups = new_lookups(tables, &asked.lookups);
    let refusal = done.refusal_origin().filter(|origin| {
        let is_by_routes = origin.step == "RCPT" && origin.stage.is_none();
        !(is_by_routes && asked.is_refused_by_routes)
    });
    asked.said.refusal = refusal.and(done.refusal()).cloned();
    if is_whole {
        asked.access.refusal = None;
        // Later steps were not reached.
        if refusal.is_some_and(|origin| origin.stage != Some("access")) {
            asked.access = AccessDryRun::default();
        }
    }
    let (members, owners) = done.members().into_iter().unzip();
    let members = routes_of(tables, args, config, listener, members).await;
    asked.owners = owners;
    let mut not_asked = channels::unrehearsed(config, listener);
    if !is_whole && args.login.is_none() {
        not_asked.insert(0, "checks of the client (--client, --helo)".to_owned());
    }
    let discarded = done.discarded();
    asked.rehearsal =
        Some(RehearsalSteps { members, discarded, refusal, lookups, log: done.log, not_asked });
}

/// The lookups since the last call, without those already made.
fn new_lookups(tables: &TracedTables, known: &[TableLookup]) -> Vec<TableLookup> {
    let mut new: Vec<TableLookup> = Vec::new();
    for step in tables.steps() {
        let (table, key, source) = (step.table, step.key, step.from);
        let lookup = TableLookup { table, key, source, answer: shown(&step.said) };
        let is_known = |other: &TableLookup| other.table == lookup.table && other.key == lookup.key;
        if !known.iter().chain(&new).any(is_known) {
            new.push(lookup);
        }
    }
    new
}

/// The routes of the addresses that replace a recipient.
async fn routes_of(
    tables: &TracedTables,
    args: &ExplainArgs,
    config: &Arc<Config>,
    listener: &Listener,
    members: Vec<Mailbox>,
) -> Vec<(Mailbox, Option<usize>)> {
    let may_relay = args.login.is_some() || listener.lets_relay(args.client);
    let tenant = tenant_of(args, config);
    let facts = facts_of(args, listener, tenant.as_deref());
    let mut routed = Vec::with_capacity(members.len());
    for member in members {
        let facts = MailFacts { recipient: Some(&member), ..facts };
        let found = consult_routes(tables, config, (&member, &facts), may_relay).await;
        let found = found.found;
        let by_domain = || config.route_of(&member, found.in_tables).map(|(index, _)| index);
        let route = found.by_conditions.or_else(by_domain);
        routed.push((member, route));
    }
    routed
}

/// The facts about the mail in question, for conditions.
fn facts_of<'a>(
    args: &'a ExplainArgs,
    listener: &'a Listener,
    tenant: Option<&'a str>,
) -> MailFacts<'a> {
    MailFacts {
        sender: args.from.0.as_ref(),
        recipient: Some(&args.recipient),
        login: args.login.as_deref(),
        client: args.client,
        listener: Some(&listener.name),
        tenant,
    }
}

/// The tenant of the login.
fn tenant_of(args: &ExplainArgs, config: &Config) -> Option<Arc<str>> {
    let tenancy = config.tenants.choose(args.login.as_deref(), None).ok().flatten();
    tenancy.map(|tenancy| tenancy.name)
}

/// Queries in the order of RCPT: a refusal by the routes precedes access rules, and after a decision by a rule the
/// tables of the route are not queried.
async fn ask(
    tables: &TracedTables,
    args: &ExplainArgs,
    config: &Arc<Config>,
    listener: &Listener,
) -> LookupTrace {
    let (client, helo, recipient) = (args.client, args.helo.as_deref(), &args.recipient);
    let mut asked = LookupTrace::default();
    let may_relay = args.login.is_some() || listener.lets_relay(client);
    let tenant = tenant_of(args, config);
    let facts = facts_of(args, listener, tenant.as_deref());
    asked.routes = consult_routes(tables, config, (recipient, &facts), may_relay).await;
    if asked.routes.refusal.is_some() {
        asked.said.refusal = asked.routes.refusal.take();
        asked.lookups = new_lookups(tables, &[]);
        return asked;
    }
    let decision = config.decide_as(listener, may_relay, recipient, asked.routes.found);
    asked.is_refused_by_routes = !decision.is_accepted();
    if decision.is_accepted() {
        // A peer of X.400 is another organization's MTA.
        let is_stranger = !listener.takes_internet_mail() || !may_relay;
        let (listener, sender) = (&*listener.name, args.from.0.as_ref());
        let route = decision.route().and_then(|index| config.routes.get(index)).map(|it| &**it);
        let question =
            AccessQuestion { listener, client, is_stranger, helo, sender, recipient, route };
        asked.access = consult_access(tables, config, &question).await;
    }
    if !asked.access.is_settled {
        asked.said = consult(tables, config, decision, recipient).await;
    }
    asked.lookups = new_lookups(tables, &[]);
    asked
}

/// As much of a table's answer as is shown.
fn shown(text: &str) -> String {
    match text.char_indices().nth(ANSWER_CHARS_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The values of an entry by field name, and its text by the name of the text.
fn values_of(entry: &Entry) -> Vec<NamedValues> {
    let text: NamedValues = (ENTRY_TEXT.into(), [entry.text.clone()].into());
    entry.fields.iter().cloned().chain([text]).collect()
}

/// The hosts for mail to a domain, in groups of equal preference, the best first, or an error: the same lookup as for
/// deliveries.
fn mx_hosts(
    runtime: &Runtime,
    config: &Config,
    port: u16,
    domain: &Domain,
) -> Result<Vec<Vec<String>>, String> {
    let found = runtime.block_on(async {
        resolve_mx(&Resolver::new(&config.dns), config, port, domain, false).await
    });
    let found = found.map_err(|failure| match failure.class {
        Class::Permanent => failure.text.into(),
        Class::Transient => format!("lookup failed: {}", failure.text),
    })?;
    let names = |group: HostGroup| group.hosts.iter().map(|h| h.name.to_string()).collect();
    Ok(found.groups.into_iter().map(names).collect())
}
