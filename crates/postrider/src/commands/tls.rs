//! `postrider tls check`, and its results for `explain`.

use super::load;
use crate::cli::{TlsArgs, TlsCheckArgs, TlsCommand, exit};
use crate::mta_sts;
use crate::world::resolver::Resolver;
use auth::mta_sts::{Policy, policy_id, record_name};
use channels::settings::{Relay, RouteTls};
use config::{Config, Destination, Route, TlsSources};
use mail::{Domain, Failure};
use mta::routing::dane::{self, Dane};
use mta::routing::hop_tls::{HopTls, Promised, as_promised};
use mta::routing::hosts::{Host, HostGroup};
use mta::routing::mx::resolve_mx;
use mta::routing::require_tls::would_meet;
use mta::seams::{DaneTrust, Dns as _, DnsError, Policies, PolicyQuestion, Unfetched};
use serde::Serialize;
use std::fmt::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

/// The TLS records of a domain's hosts, and the resulting policy.
#[derive(Debug, Serialize)]
pub(super) struct Survey {
    domain: String,
    route: String,
    /// The setting of the route.
    tls: &'static str,
    /// DNSSEC vouches for the MX records.
    mx_secure: bool,
    /// The reason why no answer counts as secure, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    dnssec: Option<&'static str>,
    mta_sts: PolicySummary,
    /// In the order in which they are tried.
    hosts: Vec<SurveyedHost>,
    /// The reason why mail is deferred or bounced regardless of the hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// The result for a message with REQUIRETLS (RFC 8689).
    #[serde(skip_serializing_if = "Option::is_none")]
    requiretls: Option<String>,
    /// The hosts that the policy leaves, as the ready queue names them.
    #[serde(skip)]
    groups: Vec<Vec<String>>,
}

/// The domain's policy, or the reason for its absence.
#[derive(Debug, Default, Serialize)]
struct PolicySummary {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_age_s: Option<u64>,
    mx: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trouble: Option<String>,
}

#[derive(Debug, Serialize)]
struct SurveyedHost {
    host: String,
    /// `off`, `opportunistic`, `required`, `verified`, `dane`, `mta-sts`; `left_out`.
    outcome: &'static str,
    why: String,
    /// The records that can be used, as zone files have them.
    tlsa: Vec<String>,
}

/// The fetched policy, in place of a server's cached one.
struct FetchedPolicy(Option<Arc<Policy>>);

impl Policies for FetchedPolicy {
    async fn mta_sts(&self, _: PolicyQuestion<'_>) -> Result<Option<Arc<Policy>>, Unfetched> {
        Ok(self.0.clone())
    }
}

/// Runs `postrider tls …`.
pub(crate) fn run(args: &TlsArgs) -> ExitCode {
    let TlsCommand::Check(args) = &args.command;
    check(args)
}

fn check(args: &TlsCheckArgs) -> ExitCode {
    let config = match load::load(args.file.config.as_deref()) {
        Ok(config) => config,
        Err(code) => return code,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let surveyed = runtime.map_err(|error| error.to_string()).and_then(|runtime| {
        let domain = Domain::parse(&args.domain).map_err(|error| error.to_string())?;
        let route = config.route_for(&domain, None).map(|(_, route)| route);
        let route = route.ok_or_else(|| format!("no route to {domain}"))?;
        runtime.block_on(survey(&config, route, &domain))
    });
    let survey = match surveyed {
        Ok(survey) => survey,
        Err(error) => {
            eprintln!("postrider: {error}");
            return ExitCode::from(exit::USAGE);
        }
    };
    match args.json {
        true => super::print(&format!("{:#}\n", serde_json::json!(survey))),
        false => super::print(&survey.to_string()),
    }
    match survey.hosts.iter().any(|host| host.outcome != LEFT_OUT) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(exit::FAILED),
    }
}

/// Label in place of a host's name.
const WITH_REQUIRETLS: &str = "messages with REQUIRETLS";

const LEFT_OUT: &str = "left_out";

/// Makes all lookups of a server, even those that the route does not use, and derives the policy of the route.
///
/// # Errors
/// Returns an error if the route does not lead to MX hosts of the domain.
pub(super) async fn survey(
    config: &Config,
    route: &Route,
    domain: &Domain,
) -> Result<Survey, String> {
    let relay: Option<&Relay> = route.channel.of();
    let (Destination::Mx { port }, Some(relay)) = (route.channel.destination(), relay) else {
        let text = "not an MX route: TLS is set by the route only";
        return Err(format!("route {} {text}", route.name));
    };
    let (resolver, tls) = (Resolver::new(&config.dns), relay.peer.tls);
    let (mta_sts, policy) = promise(&resolver, domain).await;
    let mut survey = Survey {
        domain: domain.to_string(),
        route: route.name.to_string(),
        tls: tls.word(),
        mx_secure: false,
        dnssec: resolver.why_insecure(),
        mta_sts,
        hosts: Vec::new(),
        failure: None,
        requiretls: None,
        groups: Vec::new(),
    };
    let found = match resolve_mx(&resolver, config, port, domain, true).await {
        Ok(found) => found,
        Err(failure) => {
            survey.failure = Some(told(&failure));
            return Ok(survey);
        }
    };
    survey.mx_secure = found.is_secure;
    let all = hosts_of(&found.groups);
    let sources = route.channel.tls_sources();
    let fetched = FetchedPolicy(policy);
    let seams = (&resolver, &fetched);
    let required = would_meet(seams, &*route.channel, domain, found.clone()).await;
    survey.requiretls = Some(required.map_or_else(|failure| told(&failure), where_required));
    let hop = match as_promised(seams, sources, domain, found).await {
        Ok(promised) => {
            survey.groups = promised.groups.iter().map(names_of).collect();
            promised.tls
        }
        Err(unpromised) => {
            survey.failure = Some(told(&unpromised.failure()));
            HopTls::default()
        }
    };
    for host in all {
        let is_kept = survey.groups.iter().flatten().any(|name| **name == *host.name);
        let seen = surveyed_host(&resolver, (tls, sources, hop), &host, is_kept).await;
        survey.hosts.push(seen);
    }
    Ok(survey)
}

/// The destinations of messages with REQUIRETLS.
fn where_required(promised: Promised) -> String {
    let names: Vec<String> = promised.groups.iter().flat_map(names_of).collect();
    let how = promised.tls.key();
    format!("to {} [{how}], if it offers REQUIRETLS, else bounced (5.7.30)", names.join(", "))
}

fn told(failure: &Failure) -> String {
    format!("{} {}", failure.status, failure.text)
}

fn names_of(group: &HostGroup) -> Vec<String> {
    group.hosts.iter().map(|host| host.name.to_string()).collect()
}

fn hosts_of(groups: &[HostGroup]) -> Vec<Host> {
    groups.iter().flat_map(|group| &group.hosts).cloned().collect()
}

/// The policy of a domain as it is now.
async fn promise(resolver: &Resolver, domain: &Domain) -> (PolicySummary, Option<Arc<Policy>>) {
    let none = |id, trouble: String| {
        (PolicySummary { id, trouble: Some(trouble), ..PolicySummary::default() }, None)
    };
    let Ok(ascii) = domain.to_ascii() else { return none(None, "name not found".to_owned()) };
    let name = record_name(&ascii);
    let records = match resolver.txt(&name).await {
        Ok(records) => records,
        Err(error) => return none(None, format!("{name}: {error}")),
    };
    let Some(id) = policy_id(&records).map(str::to_owned) else {
        return none(None, format!("{name} is not a single record of the form `v=STSv1; id=…`"));
    };
    match mta_sts::fetch_now(resolver.clone(), &ascii).await {
        Err(trouble) => none(Some(id), trouble),
        Ok(policy) => {
            let promise = PolicySummary {
                id: Some(id),
                mode: Some(policy.mode.word()),
                max_age_s: Some(policy.max_age.as_secs()),
                mx: policy.mx().map(str::to_owned).collect(),
                trouble: None,
            };
            (promise, Some(Arc::new(policy)))
        }
    }
}

async fn surveyed_host(
    resolver: &Resolver,
    (tls, sources, hop): (RouteTls, TlsSources, HopTls),
    host: &Host,
    is_kept: bool,
) -> SurveyedHost {
    let found = dane::look_up(resolver, &host.name, host.port).await;
    let tlsa = match &found {
        Ok(Dane::Authenticated(trust)) => records(trust),
        _ => Vec::new(),
    };
    let (outcome, why) = match (&found, hop) {
        _ if !is_kept => (LEFT_OUT, "the domain's policy does not list it".to_owned()),
        _ if sources == TlsSources::default() => (tls.word(), "required by the route".to_owned()),
        (Ok(Dane::Authenticated(_)), HopTls { dane: true, .. }) => {
            ("dane", "by its TLSA records".to_owned())
        }
        (Err(DnsError::NoRecords | DnsError::NoSuchDomain), HopTls { dane: true, .. }) => {
            (LEFT_OUT, "the host has no address".to_owned())
        }
        (Err(error), HopTls { dane: true, .. }) => {
            (LEFT_OUT, format!("the lookup of its TLSA records failed: {error}"))
        }
        (_, HopTls { mta_sts: true, .. }) => ("mta-sts", "by the domain's policy".to_owned()),
        (Ok(Dane::Encrypted), HopTls { dane: true, .. }) => {
            ("dane", "with any certificate: none of its TLSA records is usable".to_owned())
        }
        (Ok(Dane::Nothing(why)), HopTls { dane: true, .. }) => ("opportunistic", (*why).to_owned()),
        _ if sources.mta_sts => (
            "opportunistic",
            "the MX records are not secure by DNSSEC, and no policy is in force".to_owned(),
        ),
        _ => ("opportunistic", "the MX records are not secure by DNSSEC".to_owned()),
    };
    SurveyedHost { host: host.name.to_string(), outcome, why, tlsa }
}

fn records(trust: &DaneTrust) -> Vec<String> {
    let text = |record: &auth::tlsa::Tlsa| {
        let mut text = format!("{} {} {} ", record.usage, record.selector, record.matching);
        for byte in &record.data {
            let _ = write!(text, "{byte:02x}");
        }
        text
    };
    trust.records.iter().map(text).collect()
}

impl Survey {
    /// The hosts for mail to the domain, in groups of equal preference, the best first, or the reason for their
    /// absence.
    pub(super) fn mx(&self) -> Result<Vec<Vec<String>>, String> {
        self.failure.clone().map_or_else(|| Ok(self.groups.clone()), Err)
    }

    /// The hosts with their outcome, for `explain`.
    pub(super) fn of_hosts(&self) -> Vec<(String, String)> {
        let text =
            |host: &SurveyedHost| format!("{}: {}", host.outcome.replace('_', " "), host.why);
        let hosts = self.hosts.iter().map(|host| (host.host.clone(), text(host)));
        let required = self.requiretls.iter();
        hosts.chain(required.map(|text| (WITH_REQUIRETLS.to_owned(), text.clone()))).collect()
    }
}

impl fmt::Display for Survey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: route {}, tls = \"{}\"", self.domain, self.route, self.tls)?;
        let secure = if self.mx_secure { "secure by DNSSEC" } else { "not secure by DNSSEC" };
        match self.dnssec {
            Some(why) => writeln!(f, "MX records: {secure}: {why}")?,
            None => writeln!(f, "MX records: {secure}")?,
        }
        match &self.mta_sts {
            PolicySummary { mode: Some(mode), id, max_age_s, mx, .. } => writeln!(
                f,
                "MTA-STS: {mode}, id {}, max_age {} s, mx {}",
                id.as_deref().unwrap_or_default(),
                max_age_s.unwrap_or_default(),
                mx.join(" "),
            )?,
            promise => {
                let why = promise.trouble.as_deref().unwrap_or_default();
                writeln!(f, "MTA-STS: none: {}", crate::terminal::clean(why))?;
            }
        }
        for host in &self.hosts {
            let outcome = host.outcome.replace('_', " ");
            writeln!(f, "{}: {outcome}: {}", host.host, crate::terminal::clean(&host.why))?;
            for record in &host.tlsa {
                writeln!(f, "  TLSA {record}")?;
            }
        }
        if let Some(required) = &self.requiretls {
            writeln!(f, "{WITH_REQUIRETLS}: {}", crate::terminal::clean(required))?;
        }
        match &self.failure {
            Some(failure) => writeln!(f, "no mail: {}", crate::terminal::clean(failure)),
            None => Ok(()),
        }
    }
}
