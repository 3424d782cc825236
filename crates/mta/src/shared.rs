//! State shared by all shards, and its limits.

use crate::alert_reserve::ALERTS_QUEUED_MAX;
use crate::budget::Budget;
use crate::clients::Clients;
use crate::clock::ClockDoubt;
use crate::console::LogThrottle;
use crate::crowding::Crowding;
use crate::dialogues::Dialogues;
use crate::holding::Holdings;
use crate::known_hops::KnownHops;
use crate::known_hosts::KnownHosts;
use crate::known_names::KnownNames;
use crate::line::{FairSemaphore, SemaphoreLimits};
use crate::login_failures::{KnownClients, LoginFailures};
use crate::login_registry::LoginRegistry;
use crate::metrics::{ClassMetrics, LogMetrics, SendingMetrics};
use crate::name_servers::NameServers;
use crate::outages::{FailingServices, Outages, ServiceKind};
use crate::own_mailbox::{OWN_MAILBOX_BYTES_MAX, OwnMailbox};
use crate::pools::PoolId;
use crate::pressure::{Behind, FnGauge, Level, Pressures};
use crate::problems::{ClockReading, Conditions, Problems};
use crate::rate_limits::RateLimiter;
use crate::reply_classes::ClassesInForce;
use crate::report_limit::ReportLimit;
use crate::salts::Salts;
use crate::seats::Seats;
use crate::shaping::{EFFECTS_MAX, RulesInForce};
use crate::sources_out::{FailedSources, SourcesOut};
use crate::suspension::{SuspendedHops, Suspensions};
use crate::tenants::TenantQueues;
use crate::unheard::ApduDedup;
use ::classes::Classes;
use auth::password::Stored;
use config::Config;
use mail::Mono;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of workers, over all shards and routes: enough for one full batch of mailbox writes, and another that
/// gathers during the write.
const WORKERS_MAX: u64 = 512;

/// Maximum number of large lists in expansion, over all shards, as one takes much processor time.
const EXPANSIONS_MAX: u64 = 8;

/// State shared by all shards.
#[derive(Debug)]
pub struct SharedState {
    /// Body memory, in bytes.
    pub body_memory: Arc<Budget>,
    /// TLS handshakes with clients.
    pub handshakes: Arc<Seats>,
    /// Admitted sessions.
    pub(crate) seats: Arc<Seats>,
    /// Queued recipients.
    pub queue_slots: Arc<Budget>,
    /// Alerts in the queue.
    pub(crate) alerts: Arc<Budget>,
    /// Slots that unauthenticated clients took lately.
    pub(crate) crowding: Arc<Crowding>,
    /// Queue slots and disk space of held messages.
    pub holdings: Arc<Holdings>,
    /// The mailbox for postmaster mail without a route.
    pub own_mailbox: Arc<OwnMailbox>,
    /// Queue slots by tenant.
    pub(crate) tenants: TenantQueues,
    /// Sessions per listener and client address.
    pub clients: Clients,
    /// Number of sessions per shard: the acceptor chooses the least loaded.
    pub sessions: Vec<AtomicU32>,
    /// Maximum number of sessions of the process.
    pub sessions_max: u32,
    /// Connections to next hops.
    pub connections: Arc<FairSemaphore>,
    /// Workers that write mailboxes, or discard.
    pub workers: Arc<FairSemaphore>,
    /// Messages that wait for busy workers.
    pub(crate) behind_workers: Arc<Behind>,
    /// Memory for messages loaded for deliveries and reports.
    pub reads: Arc<FairSemaphore>,
    /// Memory for converted messages. A waiter may hold read memory; a holder waits for no other memory.
    pub conversions: Arc<FairSemaphore>,
    /// Large lists in expansion.
    pub(crate) expansions: Arc<FairSemaphore>,
    /// DNS lookups.
    pub lookups: Arc<FairSemaphore>,
    /// Health of the name servers.
    pub name_servers: NameServers,
    /// Results of lookups, shared by the shards.
    pub(crate) known_names: KnownNames,
    /// Trust levels of next hops, shared by the shards.
    pub(crate) known_hops: KnownHops,
    /// Learnt properties of hosts.
    pub known_hosts: KnownHosts,
    /// Sources that were logged to the console lately.
    pub(crate) told_sources: LogThrottle,
    /// The last failed dialogues.
    pub(crate) dialogues: Dialogues,
    /// Suspended next hops.
    pub suspensions: Arc<Suspensions>,
    /// Failed sources.
    pub(crate) failed_sources: Arc<FailedSources>,
    /// Listeners that cannot accept connections.
    pub(crate) deaf_listeners: Conditions,
    /// Failing services of stages.
    pub(crate) outages: Arc<Outages>,
    /// Maximum number of lookups within the limit of open files.
    lookups_max: u32,
    /// Plausibility of the clock.
    pub clock: ClockDoubt,
    /// Deduplication of resent APDUs.
    pub unheard: ApduDedup,
    /// Limit of reports about mail of unauthenticated clients.
    pub(crate) reports: ReportLimit,
    /// Limits of accepted mail.
    pub rate_limits: Arc<RateLimiter>,
    /// Recent login failures.
    pub(crate) login_failures: Arc<LoginFailures>,
    /// Logins in use, and revoked ones.
    pub logins: Arc<LoginRegistry>,
    /// Clients from which a user logged in lately.
    pub known_clients: KnownClients,
    /// The stored password that was checked last, of any user. Passwords of nonexistent users are checked against it,
    /// so that both take the same time.
    pub(crate) last_stored: Mutex<Arc<Stored>>,
    /// Current problems.
    pub problems: Arc<Problems>,
    /// Pools under pressure.
    pub pressures: Arc<Pressures>,
    /// For users without stored keys.
    pub salts: Salts,
    /// A number unique to this spool, which never changes.
    pub(crate) spool_salt: u64,
    /// Reply classes in force.
    classes: ClassesInForce,
    /// Shaping rules and effects in force.
    pub rules: Arc<RulesInForce>,
    /// Counts of reply classes.
    pub(crate) class_metrics: Arc<ClassMetrics>,
    /// Delivery outcomes by provider, source and tenant.
    pub sending: Arc<SendingMetrics>,
}

impl SharedState {
    /// Budgets of the configuration; connections are not limited yet.
    #[must_use]
    pub fn new(config: &Config, shards: u16) -> SharedState {
        let queue_slots = Budget::new(u64::from(config.spool.queue_recipients_max));
        let own_mailbox = Arc::<OwnMailbox>::default();
        own_mailbox.adopt(config);
        let shared = SharedState {
            holdings: Holdings::new(&queue_slots, Vec::new()),
            body_memory: Budget::new(config.spool.body_memory_bytes),
            handshakes: Seats::new(config.tls.handshakes_max),
            seats: Arc::default(),
            alerts: Budget::new(ALERTS_QUEUED_MAX),
            queue_slots,
            crowding: Arc::default(),
            own_mailbox,
            tenants: TenantQueues::default(),
            clients: Clients::new(config.listeners.len()),
            sessions: (0..shards).map(|_| AtomicU32::new(0)).collect(),
            sessions_max: u32::MAX,
            connections: FairSemaphore::new(connection_parts(u64::MAX)),
            workers: FairSemaphore::new(SemaphoreLimits::equal(WORKERS_MAX)),
            behind_workers: Arc::default(),
            reads: FairSemaphore::new(read_parts(config)),
            conversions: FairSemaphore::new(conversion_parts(config)),
            expansions: FairSemaphore::new(expansion_parts()),
            lookups: FairSemaphore::new(lookup_parts(config.dns.max_lookups)),
            name_servers: NameServers::default(),
            known_names: KnownNames::default(),
            known_hops: KnownHops::default(),
            known_hosts: KnownHosts::default(),
            told_sources: LogThrottle::default(),
            suspensions: Arc::default(),
            failed_sources: Arc::default(),
            deaf_listeners: Conditions::new("listener"),
            outages: Arc::default(),
            dialogues: Dialogues::default(),
            lookups_max: u32::MAX,
            clock: ClockDoubt::default(),
            unheard: ApduDedup::default(),
            reports: ReportLimit::default(),
            rate_limits: Arc::default(),
            login_failures: Arc::default(),
            logins: Arc::default(),
            known_clients: KnownClients::default(),
            last_stored: Mutex::new(Arc::new(Stored::of_nobody())),
            problems: Arc::default(),
            pressures: Arc::default(),
            salts: Salts::default(),
            spool_salt: 0,
            classes: ClassesInForce::default(),
            rules: Arc::default(),
            class_metrics: Arc::default(),
            sending: Arc::default(),
        };
        shared.seats.set_max(sessions_max(config));
        shared.rate_limits.adopt(config);
        shared.show_pools();
        shared
    }

    /// Registers a gauge for each pool; pools outside this struct are registered by their own code.
    fn show_pools(&self) {
        let SharedState { pressures, queue_slots, own_mailbox, rules, problems, .. } = self;
        problems.register(Arc::clone(pressures) as _);
        let (suspensions, slots) = (Arc::clone(&self.suspensions), Arc::clone(queue_slots));
        let queued = Box::new(move || slots.used());
        problems.register(Arc::new(SuspendedHops { suspensions, queued }));
        problems.register(Arc::new(self.deaf_listeners.clone()));
        let (failed, of_rules) = (Arc::clone(&self.failed_sources), Arc::clone(rules));
        problems.register(Arc::new(SourcesOut { failed, rules: of_rules }));
        for kind in [ServiceKind::Milter, ServiceKind::Policy] {
            let outages = Arc::clone(&self.outages);
            problems.register(Arc::new(FailingServices { kind, outages }));
        }
        problems.register(Arc::clone(own_mailbox) as _);
        problems.register(Arc::clone(&self.rate_limits) as _);
        pressures.register(PoolId::Sessions, &self.seats);
        pressures.register(PoolId::Handshakes, &self.handshakes);
        pressures.register(PoolId::HeldMail, &self.holdings);
        pressures.register(PoolId::Connections, &self.connections);
        pressures.register(PoolId::Lookups, &self.lookups);
        pressures.register(PoolId::Reads, &self.reads);
        pressures.register(PoolId::Conversions, &self.conversions);
        pressures.register(PoolId::Workers, &self.workers);
        pressures.register(PoolId::Workers, &self.behind_workers);
        pressures.register(PoolId::Expansions, &self.expansions);
        let (slots, crowding) = (Arc::clone(queue_slots), Arc::clone(&self.crowding));
        let queue = move |_: ClockReading| {
            let most = crowding.most().map(|(network, brought)| (network.to_string(), brought));
            (Level::of(slots.used(), slots.max()), most)
        };
        pressures.keep(PoolId::Queue, FnGauge(queue));
        let mailbox = Arc::clone(own_mailbox);
        let postmaster = move |_: ClockReading| {
            let (used, max) = (mailbox.used(), OWN_MAILBOX_BYTES_MAX);
            (Level { used, max, waiting: 0, is_full: mailbox.is_full() }, None)
        };
        pressures.keep(PoolId::OwnMailbox, FnGauge(postmaster));
        let rules = Arc::clone(rules);
        let effects = move |now: ClockReading| {
            let (used, is_full) = rules.level(now.wall);
            (Level { used: used as u64, max: EFFECTS_MAX as u64, waiting: 0, is_full }, None)
        };
        pressures.keep(PoolId::Effects, FnGauge(effects));
    }

    /// Clients that may not log in now, and the time until each may try again.
    #[must_use]
    pub fn blocked_clients(&self, now: Mono) -> Vec<(IpAddr, Duration)> {
        self.login_failures.blocked_clients(now)
    }

    /// Forgets the failed logins of a client. Returns false if it has none.
    #[must_use]
    pub fn unblock_client(&self, address: IpAddr) -> bool {
        self.login_failures.forget_client(address)
    }

    /// Sets the doubt about the clock.
    #[must_use]
    pub fn with_clock(self, clock: ClockDoubt) -> SharedState {
        SharedState { clock, ..self }
    }

    /// Sets the number that distinguishes this spool's mailbox file names from those of other spools.
    #[must_use]
    pub fn with_spool_salt(self, spool_salt: u64) -> SharedState {
        SharedState { spool_salt, ..self }
    }

    /// Sets the limit for held messages to a part of the space on these logs' disks.
    #[must_use]
    pub fn with_logs(self, logs: Vec<Arc<LogMetrics>>) -> SharedState {
        let holdings = Holdings::new(&self.queue_slots, logs);
        // The earlier gauge is dropped.
        self.pressures.register(PoolId::HeldMail, &holdings);
        SharedState { holdings, ..self }
    }

    /// Sets the metrics for reply classes and for parties.
    #[must_use]
    pub fn with_metrics(
        self,
        class_metrics: Arc<ClassMetrics>,
        sending: Arc<SendingMetrics>,
    ) -> SharedState {
        SharedState { class_metrics, sending, ..self }
    }

    /// Reply classes in force.
    #[must_use]
    pub fn classes(&self) -> Arc<Classes> {
        self.classes.get()
    }

    /// Sets the reply classes, in force at the next reload.
    pub fn set_classes(&self, classes: Arc<Classes>) {
        self.classes.set(classes);
    }

    /// Limits both kinds of connections, so that descriptors are left for the other kind and for the spool.
    #[must_use]
    pub fn with_connections(self, sessions_max: u32, egress_max: u64) -> SharedState {
        self.connections.set_parts(connection_parts(egress_max));
        self.seats.set_max(self.seats.max().min(sessions_max));
        SharedState { sessions_max, ..self }
    }

    /// Limits lookups to the number that descriptors allow, whatever the configuration is.
    #[must_use]
    pub fn with_lookups(self, lookups_max: u32) -> SharedState {
        let max = u64::from(lookups_max).min(self.lookups.parts().max);
        self.lookups.set_parts(lookup_parts(u32::try_from(max).unwrap_or(u32::MAX)));
        SharedState { lookups_max, ..self }
    }

    /// Applies limits that a reload changed.
    pub(crate) fn adopt(&self, config: &Config) {
        self.handshakes.set_max(config.tls.handshakes_max);
        self.seats.set_max(sessions_max(config).min(self.sessions_max));
        self.queue_slots.set_max(u64::from(config.spool.queue_recipients_max));
        self.own_mailbox.adopt(config);
        self.rate_limits.adopt(config);
        self.body_memory.set_max(config.spool.body_memory_bytes);
        self.reads.set_parts(read_parts(config));
        self.conversions.set_parts(conversion_parts(config));
        self.lookups.set_parts(lookup_parts(config.dns.max_lookups.min(self.lookups_max)));
    }

    /// Number of sessions, including those being rejected.
    pub(crate) fn session_count(&self) -> u32 {
        self.sessions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Maximum number of sessions by the listeners' limits; 0 is no limit.
fn sessions_max(config: &Config) -> u32 {
    let each = config.listeners.iter().map(|listener| match listener.max_sessions {
        0 => u32::MAX,
        max => max,
    });
    each.fold(0, u32::saturating_add)
}

/// Limits of connections. Next hops without an accepted or rejected message in the last hour share a quarter, so that
/// proven hops always find some left. Hops that failed the last time, or were silent, share an eighth; one DNS zone
/// gets at most an eighth.
fn connection_parts(max: u64) -> SemaphoreLimits {
    SemaphoreLimits {
        max,
        owner_max: max.div_ceil(8),
        good_owner_max: max,
        unproven_max: max.div_ceil(4),
        doubtful_max: max.div_ceil(8),
    }
}

/// Limits of memory for loaded messages: a quarter of the memory for bodies. One next hop gets at most half. A
/// quarter is reserved for proven hops, and silent hops share at most a quarter.
fn read_parts(config: &Config) -> SemaphoreLimits {
    memory_parts((config.spool.body_memory_bytes / 4).max(1))
}

fn memory_parts(max: u64) -> SemaphoreLimits {
    SemaphoreLimits {
        max,
        owner_max: max.div_ceil(2),
        good_owner_max: max.div_ceil(2),
        unproven_max: max - max / 4,
        doubtful_max: max.div_ceil(4),
    }
}

/// Limits of memory for converted messages: an eighth, with the same shares.
fn conversion_parts(config: &Config) -> SemaphoreLimits {
    memory_parts((config.spool.body_memory_bytes / 8).max(1))
}

/// Limits of list expansions: a quarter for one IPv4 /24 or IPv6 /48, and a quarter is reserved for clients that may
/// relay.
fn expansion_parts() -> SemaphoreLimits {
    SemaphoreLimits {
        owner_max: EXPANSIONS_MAX / 4,
        unproven_max: EXPANSIONS_MAX - EXPANSIONS_MAX / 4,
        ..SemaphoreLimits::equal(EXPANSIONS_MAX)
    }
}

/// Limits of lookups. A quarter is reserved for names that were answered within the last hour. Names with a failed last
/// lookup share a quarter. One zone or tenant gets at most a quarter. A dead zone with any number of domains thus does
/// not keep other domains from resolving.
fn lookup_parts(lookups_max: u32) -> SemaphoreLimits {
    let max = u64::from(lookups_max.max(1));
    SemaphoreLimits {
        max,
        owner_max: max.div_ceil(4),
        good_owner_max: max.div_ceil(4),
        unproven_max: max - max / 4,
        doubtful_max: max.div_ceil(4),
    }
}
