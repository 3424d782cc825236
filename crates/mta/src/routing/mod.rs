//! Routing: the configured route of a domain, and its hosts.

pub mod addresses;
pub(crate) mod conditional;
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
use conditional::{RouteChoices, needs_sender};
use config::{Config, Route, TableEntry};
use expansions::Expansions;
use mail::map::FixedMap;
use mail::{Domain, Mailbox, RequireTls, Wall};
use queue::{RetryPolicy, ScheduledKey};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The campaign of mail with the null reverse-path, which has separate queues and retry times. Clients can choose
/// neither this value nor [`TLS_REPORTS`].
pub(crate) const REPORTS: &str = "<reports>";

/// The campaign of TLS reports, which expire after a day (RFC 8460 §5.5). Their TLS requirement is separate
/// ([`mail::RequireTls::No`]).
pub(crate) const TLS_REPORTS: &str = "<tls-reports>";

/// Expiry of TLS reports.
const TLS_REPORTS_FOR: Duration = Duration::from_secs(86_400);

/// Maximum number of routes from tables in the cache of a shard, which is cleared when full.
const LEARNT_MAX: usize = 65_536;

/// The facts, besides the domain, that determine the scheduled queue of a recipient.
pub(crate) struct Waits<'a> {
    /// The operator's choice, or empty.
    pub(crate) route: &'a str,
    /// [`REPORTS`], [`TLS_REPORTS`] or empty.
    pub(crate) class: &'static str,
    /// Delivery options from the sender.
    pub(crate) steering: &'a Steering,
    pub(crate) require_tls: RequireTls,
    /// The choice among routes with conditions ([`conditional::choose`]); `None`: not made.
    pub(crate) choice: Option<Arc<str>>,
}

/// The active configuration of one shard.
pub(crate) struct Router {
    active: RefCell<Rc<Active>>,
    /// Shared empty string for keys.
    nothing: Arc<str>,
}

impl Router {
    /// Starts with a configuration that is active since `since`.
    pub(crate) fn new(config: Arc<Config>, since: Wall) -> Router {
        let active = Active::new(config, ("start", since));
        Router { active: RefCell::new(Rc::new(active)), nothing: Arc::from("") }
    }

    /// The active configuration.
    pub(crate) fn active(&self) -> Rc<Active> {
        Rc::clone(&self.active.borrow())
    }

    /// Adopts a reloaded configuration.
    pub(crate) fn adopt(&self, config: Arc<Config>, since: Wall) {
        *self.active.borrow_mut() = Rc::new(Active::new(config, ("reload", since)));
    }

    /// Shared empty string for keys.
    pub(crate) fn nothing(&self) -> Arc<str> {
        Arc::clone(&self.nothing)
    }

    /// The scheduled queue of a recipient in this domain.
    pub(crate) fn scheduled_key(&self, domain: Domain, waits: &Waits<'_>) -> ScheduledKey {
        // A report is sent even without REQUIRETLS (RFC 8689 §5).
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
            choice: waits.choice.clone().unwrap_or_else(|| self.nothing()),
        }
    }
}

/// A configuration with derived data.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) config: Arc<Config>,
    retries: Vec<Retries>,
    default_retry: Retries,
    /// Routes with domain tables.
    domain_tables: Vec<(usize, Arc<TableEntry>)>,
    /// Choices among routes with conditions.
    choices: RouteChoices,
    /// The rewriter for senders of forwarded mail (SRS).
    pub(crate) srs: Option<Srs>,
    /// The last table result for each domain, for callers that cannot wait for a lookup.
    learnt: RefCell<FixedMap<Domain, usize>>,
    /// Cache of list expansions.
    pub(crate) expansions: Expansions,
    /// The origin of the configuration (start or reload) and its time.
    pub(crate) since: (&'static str, Wall),
}

/// The retry policies of one route.
#[derive(Debug)]
struct Retries {
    mail: RetryPolicy,
    /// For mail with the null reverse-path.
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
            choices: RouteChoices::new(&config, since.1),
            srs: config.of::<RewrittenSenders>().and_then(srs_of),
            expansions: Expansions::default(),
            learnt: RefCell::default(),
            config,
            since,
        }
    }

    /// The retry policy of a scheduled queue, from its route or the default. Reports have separate ones.
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

    /// The route of a scheduled queue: the postmaster's, the operator's choice, or the domain's as far as cached.
    pub(crate) fn route_of_key(&self, key: &ScheduledKey) -> Option<&Arc<Route>> {
        self.chosen_route_of(key).or_else(|| self.route_for(&key.domain))
    }

    /// The pool name of a scheduled queue: its own, its tenant's or its route's. Empty if none has one.
    pub(crate) fn pool_of_key<'a>(&'a self, key: &'a ScheduledKey) -> &'a str {
        if !key.pool.is_empty() {
            return &key.pool;
        }
        let of_tenant = self.config.tenants.named(&key.tenant).and_then(|t| t.pool.as_ref());
        let of_route = || self.route_of_key(key).and_then(|route| route.pool.as_ref());
        of_tenant.or_else(of_route).map_or("", |pool| &pool.name)
    }

    /// The route of a scheduled queue if the domain does not determine it: the postmaster's, the operator's choice, or one
    /// by its conditions.
    fn chosen_route_of(&self, key: &ScheduledKey) -> Option<&Arc<Route>> {
        let config = &self.config;
        if key.domain.as_str().is_empty() {
            return config.routes.get(config.postmaster.route);
        }
        let by_conditions = || config.routes.get(self.choices.read(&key.choice)?.route?);
        self.fixed_route(&key.route).or_else(by_conditions)
    }

    /// The postmaster's route, or the operator's choice; `None` if empty or unknown.
    pub(crate) fn fixed_route(&self, name: &str) -> Option<&Arc<Route>> {
        let config = &self.config;
        // Not a valid route name: this queue has the postmaster's mail and follows the current configuration.
        if name == config::POSTMASTER_ROUTE {
            return config.routes.get(config.postmaster.route);
        }
        let name = Some(name).filter(|name| !name.is_empty())?;
        config.route_named(name).map(|(_, route)| route)
    }

    /// Returns true if the route of a scheduled queue, or the login there, depends on more than the domain, and was not
    /// chosen with this configuration. The choice is then made for each recipient.
    pub(crate) fn is_unchosen(&self, key: &ScheduledKey) -> bool {
        if !self.choices.are_needed() {
            return false;
        }
        let choice = self.choices.read(&key.choice);
        match self.fixed_route(&key.route) {
            Some(route) => {
                needs_sender(&self.config, route) && choice.is_none_or(|it| it.sender.is_none())
            }
            None => self.may_have_choices(&key.domain) && choice.is_none(),
        }
    }

    /// Returns true if the route or the login depends on more than the domain.
    pub(crate) fn has_choices(&self) -> bool {
        self.choices.are_needed()
    }

    /// The sender that determines the login of a scheduled queue's mail; empty for the null sender.
    pub(crate) fn sender_of_key<'k>(&self, key: &'k ScheduledKey) -> Option<&'k str> {
        self.choices.read(&key.choice)?.sender
    }

    /// Returns true if the route of mail for this domain, or the login there, may depend on more than the domain.
    pub(crate) fn may_have_choices(&self, domain: &Domain) -> bool {
        self.may_have_conditions(domain)
            || self.choices.are_needed()
                && !domain.is_or_domain()
                && !domain.as_str().is_empty()
                && self.config.has_logins_by_sender()
    }

    /// Returns true if a route with conditions may take mail for this domain.
    pub(crate) fn may_have_conditions(&self, domain: &Domain) -> bool {
        let may_take = |route: &Arc<Route>| {
            route.domains.is_empty() || route.domains.iter().any(|own| own.covers(domain))
        };
        self.config.has_conditional_routes()
            && !domain.is_or_domain()
            && !domain.as_str().is_empty()
            && self.config.conditional_routes().any(may_take)
    }

    /// The route of a domain, as far as cached.
    pub(crate) fn route_for(&self, domain: &Domain) -> Option<&Arc<Route>> {
        self.config.route_for(domain, self.learnt(domain)).map(|(_, route)| route)
    }

    /// The route of a recipient, as far as cached.
    pub(crate) fn route_of(&self, recipient: &Mailbox) -> Option<&Arc<Route>> {
        let in_tables = self.learnt(&recipient.domain());
        self.config.route_of(recipient, in_tables).map(|(_, route)| route)
    }

    /// Returns true if routes have domain tables.
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

/// The configured retry policy in the queue's type.
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
