//! What all shards share, and how much of it there is.

use crate::budget::Budget;
use crate::clients::Clients;
use crate::clock::ClockDoubt;
use crate::console::LogThrottle;
use crate::crowding::Crowding;
use crate::holding::Holdings;
use crate::known_hops::KnownHops;
use crate::known_hosts::KnownHosts;
use crate::known_names::KnownNames;
use crate::line::{FairSemaphore, SemaphoreLimits};
use crate::login_failures::{KnownClients, LoginFailures};
use crate::metrics::{ClassMetrics, LogMetrics, SendingMetrics};
use crate::name_servers::NameServers;
use crate::own_mailbox::{OWN_MAILBOX_BYTES_MAX, OwnMailbox};
use crate::pools::PoolId;
use crate::pressure::{Behind, FnGauge, Level, Pressures};
use crate::problems::{ClockReading, Problems};
use crate::reply_classes::ClassesInForce;
use crate::report_limit::ReportLimit;
use crate::salts::Salts;
use crate::seats::Seats;
use crate::shaping::{EFFECTS_MAX, RulesInForce};
use crate::suspension::Suspensions;
use crate::tenants::TenantQueues;
use crate::unheard::ApduDedup;
use ::classes::Classes;
use auth::password::Stored;
use config::Config;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// Workers at once, over all shards and routes: as many as make a full batch for those who write
/// mailboxes, and another one while that is written.
const WORKERS_MAX: u64 = 512;

/// Large lists that are expanded at once, over all shards: what one takes of a processor is much.
const EXPANSIONS_MAX: u64 = 8;

/// What all shards share.
#[derive(Debug)]
pub struct SharedState {
    /// Body memory, in bytes.
    pub body_memory: Arc<Budget>,
    /// TLS handshakes with clients.
    pub handshakes: Arc<Seats>,
    /// Sessions that were let in.
    pub(crate) seats: Arc<Seats>,
    /// Recipients queued.
    pub queue_slots: Arc<Budget>,
    /// What strangers brought of them lately.
    pub(crate) crowding: Arc<Crowding>,
    /// Those of messages that checks hold.
    pub holdings: Arc<Holdings>,
    /// The postmaster's, where no route has one.
    pub own_mailbox: Arc<OwnMailbox>,
    /// The same of each tenant.
    pub(crate) tenants: TenantQueues,
    /// Sessions per listener and client address.
    pub clients: Clients,
    /// Sessions, per shard: the acceptor looks for the least loaded.
    pub sessions: Vec<AtomicU32>,
    /// Sessions at once, whatever listeners allow.
    pub sessions_max: u32,
    /// Connections to next hops at once.
    pub connections: Arc<FairSemaphore>,
    /// Workers that write mailboxes, or discard, at once.
    pub workers: Arc<FairSemaphore>,
    /// What waits for those that are all busy.
    pub(crate) behind_workers: Arc<Behind>,
    /// Bytes of messages that were read back for deliveries and reports.
    pub reads: Arc<FairSemaphore>,
    /// Memory for what is made of messages that are converted. Who waits may hold what was read, and who has it
    /// waits for nobody.
    pub conversions: Arc<FairSemaphore>,
    /// Large lists that are expanded at once.
    pub(crate) expansions: Arc<FairSemaphore>,
    /// DNS lookups at once.
    pub lookups: Arc<FairSemaphore>,
    /// Whether lookups are answered.
    pub name_servers: NameServers,
    /// Names that were looked up, as far as any shard knows them.
    pub(crate) known_names: KnownNames,
    /// Next hops, as far as any shard knows them.
    pub(crate) known_hops: KnownHops,
    /// What hosts have shown of themselves.
    pub known_hosts: KnownHosts,
    /// Sources that the console told of lately.
    pub(crate) told_sources: LogThrottle,
    /// Next hops that are left alone.
    pub suspensions: Suspensions,
    /// Lookups that the limit of open files allows.
    lookups_max: u32,
    /// Whether the clock can be trusted.
    pub clock: ClockDoubt,
    /// Acknowledgements that peers may not have heard.
    pub unheard: ApduDedup,
    /// Reports to strangers.
    pub(crate) reports: ReportLimit,
    /// Who failed to log in lately.
    pub(crate) login_failures: Arc<LoginFailures>,
    /// Which clients were which users lately.
    pub known_clients: KnownClients,
    /// The stored password that was checked last, of whomever: those of nobody are checked against it.
    pub(crate) last_stored: Mutex<Arc<Stored>>,
    /// What is wrong now.
    pub problems: Arc<Problems>,
    /// What is scarce now.
    pub pressures: Arc<Pressures>,
    /// Of users without stored keys.
    pub salts: Salts,
    /// A number that this spool has for ever, and no other has.
    pub(crate) spool_salt: u64,
    /// What peers' refusals mean.
    classes: ClassesInForce,
    /// What is done when they say so.
    pub rules: Arc<RulesInForce>,
    /// What they were.
    pub(crate) class_metrics: Arc<ClassMetrics>,
    /// Who had to do with it.
    pub sending: Arc<SendingMetrics>,
}

impl SharedState {
    /// Budgets as the configuration has them; connections are not limited yet.
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
            suspensions: Suspensions::default(),
            lookups_max: u32::MAX,
            clock: ClockDoubt::default(),
            unheard: ApduDedup::default(),
            reports: ReportLimit::default(),
            login_failures: Arc::default(),
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
        shared.show_pools();
        shared
    }

    /// Each pool shows how it is, a line for each; the lists of others are in their places.
    fn show_pools(&self) {
        let SharedState { pressures, queue_slots, own_mailbox, rules, problems, .. } = self;
        problems.register(Arc::clone(pressures) as _);
        problems.register(Arc::clone(own_mailbox) as _);
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

    /// Has the shards doubt the clock as `clock` does.
    #[must_use]
    pub fn with_clock(self, clock: ClockDoubt) -> SharedState {
        SharedState { clock, ..self }
    }

    /// Tells files of this spool's messages from those of others by this number.
    #[must_use]
    pub fn with_spool_salt(self, spool_salt: u64) -> SharedState {
        SharedState { spool_salt, ..self }
    }

    /// Lets checks hold a part of what the disks of these logs have room for.
    #[must_use]
    pub fn with_logs(self, logs: Vec<Arc<LogMetrics>>) -> SharedState {
        let holdings = Holdings::new(&self.queue_slots, logs);
        // The one before is forgotten.
        self.pressures.register(PoolId::HeldMail, &holdings);
        SharedState { holdings, ..self }
    }

    /// Counts failures by class, and mail by party, here.
    #[must_use]
    pub fn with_metrics(
        self,
        class_metrics: Arc<ClassMetrics>,
        sending: Arc<SendingMetrics>,
    ) -> SharedState {
        SharedState { class_metrics, sending, ..self }
    }

    /// What peers' refusals mean.
    #[must_use]
    pub fn classes(&self) -> Arc<Classes> {
        self.classes.get()
    }

    /// Has shards go by other rules from the next reload on.
    pub fn set_classes(&self, classes: Arc<Classes>) {
        self.classes.set(classes);
    }

    /// Limits connections of both kinds, so that neither leaves the other, or the spool, without
    /// a descriptor.
    #[must_use]
    pub fn with_connections(self, sessions_max: u32, egress_max: u64) -> SharedState {
        self.connections.set_parts(connection_parts(egress_max));
        self.seats.set_max(self.seats.max().min(sessions_max));
        SharedState { sessions_max, ..self }
    }

    /// Limits lookups to what descriptors allow, whatever the configuration says.
    #[must_use]
    pub fn with_lookups(self, lookups_max: u32) -> SharedState {
        let max = u64::from(lookups_max).min(self.lookups.parts().max);
        self.lookups.set_parts(lookup_parts(u32::try_from(max).unwrap_or(u32::MAX)));
        SharedState { lookups_max, ..self }
    }

    /// Follows limits that a reload changed.
    pub(crate) fn adopt(&self, config: &Config) {
        self.handshakes.set_max(config.tls.handshakes_max);
        self.seats.set_max(sessions_max(config).min(self.sessions_max));
        self.queue_slots.set_max(u64::from(config.spool.queue_recipients_max));
        self.own_mailbox.adopt(config);
        self.body_memory.set_max(config.spool.body_memory_bytes);
        self.reads.set_parts(read_parts(config));
        self.conversions.set_parts(conversion_parts(config));
        self.lookups.set_parts(lookup_parts(config.dns.max_lookups.min(self.lookups_max)));
    }

    /// Sessions now, those included that are being turned away.
    pub(crate) fn session_count(&self) -> u32 {
        self.sessions.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Sessions that listeners allow; 0 is no limit.
fn sessions_max(config: &Config) -> u32 {
    let each = config.listeners.iter().map(|listener| match listener.max_sessions {
        0 => u32::MAX,
        max => max,
    });
    each.fold(0, u32::saturating_add)
}

/// Connections of the process: next hops that have accepted or rejected nothing within the last hour, and
/// may never, have a quarter, so that those which are known to answer always find some left; those that
/// failed the last time, or were silent, have half of that. One zone of them has half of it at most.
fn connection_parts(max: u64) -> SemaphoreLimits {
    SemaphoreLimits {
        max,
        owner_max: max.div_ceil(8),
        good_owner_max: max,
        unproven_max: max.div_ceil(4),
        doubtful_max: max.div_ceil(8),
    }
}

/// What may be taken by messages that were read back: a quarter of the memory for bodies. Of that a next hop
/// has half at most; a quarter is for those that are known to answer, and those that are silent have a
/// quarter.
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

/// What may be taken by messages that are converted: an eighth, with the shares of those that are read back.
fn conversion_parts(config: &Config) -> SemaphoreLimits {
    memory_parts((config.spool.body_memory_bytes / 8).max(1))
}

/// Large lists at once: a quarter is for one IPv4 /24 or IPv6 /48, and a quarter is left for clients that may relay.
fn expansion_parts() -> SemaphoreLimits {
    SemaphoreLimits {
        owner_max: EXPANSIONS_MAX / 4,
        unproven_max: EXPANSIONS_MAX - EXPANSIONS_MAX / 4,
        ..SemaphoreLimits::equal(EXPANSIONS_MAX)
    }
}

/// Lookups at once: a quarter of them is left for names that were answered within the last hour, a
/// quarter is what names may have whose last lookup was in vain, and no zone or tenant has more than a
/// quarter: a dead zone, however many domains it has, keeps nobody else from being found.
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
