//! Where mail goes: the configuration's route for a domain, and the hosts that it leads to.

pub mod addresses;
pub mod dane;
pub(crate) mod expansions;
pub(crate) mod find;
pub mod hop;
pub mod hop_tls;
pub mod hosts;
pub(crate) mod lookup;
pub mod mx;
pub mod require_tls;

use crate::srs::RewrittenSenders;
use crate::steering::Steering;
use auth::srs::Srs;
use config::{Config, Route, TableEntry};
use expansions::Expansions;
use mail::map::FixedMap;
use mail::{Domain, Mailbox, RequireTls, Wall};
use queue::{RetryPolicy, ScheduledKey};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The campaign of mail without a sender, which waits apart: reports are tried and given up by
/// times of their own. No client can name it, nor the other.
pub(crate) const REPORTS: &str = "<reports>";

/// That of reports of ours about TLS: they are given up after a day (RFC 8460 §5.5). What they ask of TLS
/// is another matter ([`mail::RequireTls::No`]).
pub(crate) const TLS_REPORTS: &str = "<tls-reports>";

/// How long those are tried.
const TLS_REPORTS_FOR: Duration = Duration::from_secs(86_400);

/// Domains whose routes were found in tables that a shard remembers; then it begins anew.
const LEARNT_MAX: usize = 65_536;

/// What decides with what a recipient waits, beside its domain.
pub(crate) struct Waits<'a> {
    /// What an operator chose, or empty.
    pub(crate) route: &'a str,
    /// [`REPORTS`], [`TLS_REPORTS`] or empty.
    pub(crate) class: &'static str,
    /// What its sender said.
    pub(crate) steering: &'a Steering,
    pub(crate) require_tls: RequireTls,
}

/// The configuration in force on one shard.
pub(crate) struct Router {
    active: RefCell<Rc<Active>>,
    /// The empty text, for keys.
    nothing: Arc<str>,
}

impl Router {
    /// With the configuration at the start, which came into force at `since`.
    pub(crate) fn new(config: Arc<Config>, since: Wall) -> Router {
        let active = Active::new(config, ("start", since));
        Router { active: RefCell::new(Rc::new(active)), nothing: Arc::from("") }
    }

    /// The configuration in force.
    pub(crate) fn active(&self) -> Rc<Active> {
        Rc::clone(&self.active.borrow())
    }

    /// A reload, at `since`.
    pub(crate) fn adopt(&self, config: Arc<Config>, since: Wall) {
        *self.active.borrow_mut() = Rc::new(Active::new(config, ("reload", since)));
    }

    /// The empty text, for keys.
    pub(crate) fn nothing(&self) -> Arc<str> {
        Arc::clone(&self.nothing)
    }

    /// The scheduled queue of a recipient in this domain.
    pub(crate) fn scheduled_key(&self, domain: Domain, waits: &Waits<'_>) -> ScheduledKey {
        // RFC 8689 §5: a report goes on even where nobody promises anything.
        let require_tls = match waits.require_tls {
            RequireTls::Yes if waits.class == REPORTS => RequireTls::Unsaid,
            asked => asked,
        };
        let text = |text: &str| if text.is_empty() { self.nothing() } else { Arc::from(text) };
        let said = |said: &Option<Arc<str>>| said.clone().unwrap_or_else(|| self.nothing());
        ScheduledKey {
            tenant: said(&waits.steering.tenant),
            campaign: match waits.class {
                "" => said(&waits.steering.campaign),
                class => Arc::from(class),
            },
            domain,
            route: text(waits.route),
            pool: said(&waits.steering.pool),
            window: said(&waits.steering.window),
            require_tls,
        }
    }
}

/// A configuration with what is derived from it once.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) config: Arc<Config>,
    retries: Vec<Retries>,
    default_retry: Retries,
    /// Routes that take the domains of a table.
    domain_tables: Vec<(usize, Arc<TableEntry>)>,
    /// What senders of forwarded mail are rewritten with.
    pub(crate) srs: Option<Srs>,
    /// What those said last of a domain, for whoever cannot wait for an answer.
    learnt: RefCell<FixedMap<Domain, usize>>,
    /// Lists that were expanded a moment ago.
    pub(crate) expansions: Expansions,
    /// By what it came into force, and when.
    pub(crate) since: (&'static str, Wall),
}

/// The retry policies of one route.
#[derive(Debug)]
struct Retries {
    mail: RetryPolicy,
    /// Of mail without a sender.
    reports: RetryPolicy,
    tls_reports: RetryPolicy,
}

impl Retries {
    fn new(config: &Config, retry: &config::Retry) -> Retries {
        let reports = config.report_retry.of(retry);
        let mail = retry_policy(retry);
        let give_up_after = mail.give_up_after.min(TLS_REPORTS_FOR);
        let tls_reports = RetryPolicy { give_up_after, ..mail.clone() };
        Retries { mail, reports: retry_policy(&reports), tls_reports }
    }
}

impl Active {
    pub(crate) fn new(config: Arc<Config>, since: (&'static str, Wall)) -> Active {
        Active {
            retries: config.routes.iter().map(|r| Retries::new(&config, &r.retry)).collect(),
            default_retry: Retries::new(&config, &config.retry),
            domain_tables: config.domain_tables().map(|(at, t)| (at, Arc::clone(t))).collect(),
            srs: config.of::<RewrittenSenders>().and_then(srs_of),
            expansions: Expansions::default(),
            learnt: RefCell::default(),
            config,
            since,
        }
    }

    /// The retry policy of a scheduled queue: its route's, or the general one; reports have their
    /// own.
    pub(crate) fn retry_of(&self, key: &ScheduledKey) -> &RetryPolicy {
        let route = self.route_of_key(key);
        let retries =
            route.and_then(|route| self.retries.get(route.index)).unwrap_or(&self.default_retry);
        match &*key.campaign {
            REPORTS => &retries.reports,
            TLS_REPORTS => &retries.tls_reports,
            _ => &retries.mail,
        }
    }

    /// The route of a scheduled queue: the postmaster's, or what an operator chose, else what the
    /// domain has, as far as that is known at once.
    pub(crate) fn route_of_key(&self, key: &ScheduledKey) -> Option<&Arc<Route>> {
        self.chosen_route_of(key).or_else(|| self.route_for(&key.domain))
    }

    /// The name of the pool that a scheduled queue's mail is sent from: its own, or else its tenant's or its
    /// route's; empty where there is none.
    pub(crate) fn pool_of_key<'a>(&'a self, key: &'a ScheduledKey) -> &'a str {
        if !key.pool.is_empty() {
            return &key.pool;
        }
        let of_tenant = self.config.tenants.named(&key.tenant).and_then(|t| t.pool.as_ref());
        let of_route = || self.route_of_key(key).and_then(|route| route.pool.as_ref());
        of_tenant.or_else(of_route).map_or("", |pool| &pool.name)
    }

    /// The route of a scheduled queue that its domain does not decide.
    fn chosen_route_of(&self, key: &ScheduledKey) -> Option<&Arc<Route>> {
        let config = &self.config;
        // No route of the configuration may have this name: the queue holds the postmaster's mail,
        // wherever that goes now.
        if &*key.route == config::POSTMASTER_ROUTE || key.domain.as_str().is_empty() {
            return config.routes.get(config.postmaster.route);
        }
        let name = Some(&key.route).filter(|name| !name.is_empty())?;
        config.route_named(name).map(|(_, route)| route)
    }

    /// The route of a domain, as far as it is known at once.
    pub(crate) fn route_for(&self, domain: &Domain) -> Option<&Arc<Route>> {
        self.config.route_for(domain, self.learnt(domain)).map(|(_, route)| route)
    }

    /// The route of a recipient, as far as it is known at once.
    pub(crate) fn route_of(&self, recipient: &Mailbox) -> Option<&Arc<Route>> {
        let in_tables = self.learnt(&recipient.domain());
        self.config.route_of(recipient, in_tables).map(|(_, route)| route)
    }

    /// Whether routes take the domains of tables.
    pub(crate) fn has_domain_tables(&self) -> bool {
        !self.domain_tables.is_empty()
    }

    fn learnt(&self, domain: &Domain) -> Option<usize> {
        if self.domain_tables.is_empty() {
            return None;
        }
        self.learnt.borrow().get(domain).copied()
    }

    fn learn(&self, domain: Domain, route: Option<usize>) {
        let mut learnt = self.learnt.borrow_mut();
        match route {
            Some(route) => {
                if learnt.len() >= LEARNT_MAX && !learnt.contains_key(&domain) {
                    learnt.clear();
                }
                learnt.insert(domain, route);
            }
            None => {
                learnt.remove(&domain);
            }
        }
    }
}

fn srs_of(srs: &RewrittenSenders) -> Option<Srs> {
    Srs::new(srs.domain.clone(), srs.secrets.iter().map(|secret| secret.0.clone()))
}

/// The retry policy of a route (or of the whole configuration) as the queue takes it.
fn retry_policy(retry: &config::Retry) -> RetryPolicy {
    RetryPolicy {
        first: retry.first,
        factor: retry.factor,
        longest: retry.longest,
        jitter: retry.jitter,
        give_up_after: retry.give_up_after,
        warn_after: retry.warn_after,
    }
}
