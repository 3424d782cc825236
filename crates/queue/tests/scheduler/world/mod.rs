//! A world for queues to live in: several shards, lease messages that are late, peers that are
//! slow, refuse or are down, and a clock that jumps from event to event.

#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of it")]

mod samples;

pub use samples::{Limits, entry, failure, hosts_of, limits, policy, ready_key, scheduled_key};

use mail::{MessageId, Mono, Random};
use queue::lease::LeaseMessage;
use queue::{
    Action, CloseReason, EntryId, EntryOutcome, HopLookup, HopLookupResult, LOCATING_MAX, NewEntry,
    Queue, QueueConfig, ReadyId, ReadyKey, Resolution, RetryPolicy, ScheduledId, ScheduledKey,
    SuspendedQueue, Take, TransactionWork, WeightedPath,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub const MS: Duration = Duration::from_millis(1);
pub const SECOND: Duration = Duration::from_secs(1);

/// Everything that is queued.
pub fn all_entries(queue: &Queue, now: Mono) -> Vec<EntryId> {
    (0..queue.chunk_count())
        .flat_map(|chunk| queue.glances(now, chunk))
        .map(|glance| glance.entry)
        .collect()
}

/// A recipient of a message.
pub fn find(queue: &Queue, id: u64) -> Option<EntryId> {
    (0..queue.chunk_count()).find_map(|chunk| queue.find(chunk, MessageId(id)))
}

/// Has everything tried now; gives how many are due.
pub fn retry_all(queue: &mut Queue, now: Mono) -> usize {
    let entries = all_entries(queue, now);
    entries.into_iter().filter(|entry| queue.retry(now, *entry) == queue::Retried::Due).count()
}

/// How peers, the resolver and the channels behave now.
#[derive(Clone, Debug)]
pub struct Weather {
    /// A connection takes up to so long to open.
    pub open_ms: u64,
    /// A transaction takes up to so long.
    pub transaction_ms: u64,
    /// A lease message takes up to so long.
    pub lease_us: u64,
    /// The resolver takes up to so long.
    pub resolve_ms: u64,
    /// Permille of the attempts to connect, as those below of what their names say.
    pub open_fails: u32,
    pub deferred: u32,
    pub untried: u32,
    pub throttled: u32,
    pub lost: u32,
    pub resolve_fails: u32,
    pub limits: Limits,
    /// What all hops share besides, if anything.
    pub provider: Option<Limits>,
    /// Domains go to a host set, each to the ready queue of its order: `hop<n mod hops>`, and
    /// behind it an order of so many.
    pub orders: u64,
    /// Domains go to `hop<n mod hops>`.
    pub hops: u64,
    /// Messages for domains of odd numbers go to `hop<n mod hops>`, by their own numbers.
    pub by_recipient: bool,
    pub retry: RetryPolicy,
}

impl Weather {
    pub fn fair() -> Weather {
        Weather {
            open_ms: 3,
            transaction_ms: 4,
            lease_us: 500,
            resolve_ms: 2,
            open_fails: 0,
            deferred: 0,
            untried: 0,
            throttled: 0,
            lost: 0,
            resolve_fails: 0,
            limits: limits(),
            provider: None,
            orders: 1,
            hops: 1,
            by_recipient: false,
            retry: policy(),
        }
    }
}

enum Doing {
    Opening,
    Working(TransactionWork),
    Idle,
}

struct Connection {
    ready: ReadyId,
    hop: ReadyKey,
    doing: Doing,
    /// When it is done, or closes.
    until: Mono,
    carried: u32,
}

pub struct Shard {
    pub queue: Queue,
    connections: Vec<Connection>,
    resolving: Vec<(Mono, ScheduledId)>,
    locating: Vec<(Mono, HopLookup)>,
    pub settled: Vec<(Mono, EntryId)>,
    pub expired: Vec<(Mono, queue::EntryDetail)>,
    pub failed: usize,
    pub removed: usize,
    pub warned: usize,
    pub forgotten: usize,
    pub wakes: usize,
    pub opens: usize,
}

pub struct World {
    pub now: Mono,
    pub random: Random,
    pub weather: Weather,
    pub shards: Vec<Shard>,
    /// Messages by (from, to), each with its time of arrival.
    channels: BTreeMap<(u16, u16), VecDeque<(Mono, LeaseMessage)>>,
    pub lease_messages: usize,
    /// When a transaction was taken, by hop.
    pub taken: BTreeMap<ReadyKey, Vec<Mono>>,
    /// The same by tenant.
    pub taken_of: BTreeMap<Arc<str>, Vec<Mono>>,
    /// Most connections at once, by hop.
    pub peak: BTreeMap<ReadyKey, usize>,
    /// Most connections at once by what shares a limit: a set of hosts, and `""` for all.
    pub peak_shared: BTreeMap<String, usize>,
    pub next_id: u64,
}

impl World {
    pub fn new(shards: u16, seed: u64, weather: Weather) -> World {
        let shard = |number| Shard {
            queue: Queue::new(QueueConfig { seed, ..QueueConfig::new(number, shards) }),
            connections: Vec::new(),
            resolving: Vec::new(),
            locating: Vec::new(),
            settled: Vec::new(),
            expired: Vec::new(),
            failed: 0,
            removed: 0,
            warned: 0,
            forgotten: 0,
            wakes: 0,
            opens: 0,
        };
        World {
            now: Mono(1_000_000),
            random: Random::new(seed),
            weather,
            shards: (0..shards).map(shard).collect(),
            channels: BTreeMap::new(),
            lease_messages: 0,
            taken: BTreeMap::new(),
            taken_of: BTreeMap::new(),
            peak: BTreeMap::new(),
            peak_shared: BTreeMap::new(),
            next_id: 0,
        }
    }

    pub fn push(
        &mut self,
        shard: usize,
        domain: u64,
        change: impl FnOnce(&mut NewEntry),
    ) -> EntryId {
        self.push_of("", shard, domain, change)
    }

    /// The same for mail of a tenant.
    pub fn push_of(
        &mut self,
        tenant: &str,
        shard: usize,
        domain: u64,
        change: impl FnOnce(&mut NewEntry),
    ) -> EntryId {
        let mut new = entry(self.next_id, self.now);
        self.next_id += 1;
        change(&mut new);
        let domain = scheduled_key(&format!("d{domain}.example"));
        let key = ScheduledKey { tenant: Arc::from(tenant), ..domain };
        let queue = &mut self.shards[shard].queue;
        let scheduled = queue.scheduled(&key, &self.weather.retry);
        queue.push(self.now, scheduled, new)
    }

    /// Does everything that is to be done now.
    pub fn settle(&mut self) {
        for shard in 0..self.shards.len() {
            while let Some(action) = self.shards[shard].queue.poll(self.now) {
                self.perform(shard, action);
            }
        }
        self.check_connections();
    }

    fn perform(&mut self, number: usize, action: Action) {
        let shard = &mut self.shards[number];
        match action {
            Action::Resolve(scheduled) => {
                let until = self.now + MS * self.random.below(self.weather.resolve_ms + 1) as u32;
                assert!(shard.resolving.iter().all(|(_, s)| *s != scheduled), "asked twice");
                shard.resolving.push((until, scheduled));
            }
            Action::Hours(_) => panic!("no queue here has a window"),
            Action::Standstill(SuspendedQueue::Scheduled(id)) => {
                shard.queue.suspend(self.now, id, None)
            }
            Action::Standstill(SuspendedQueue::Ready(id)) => {
                shard.queue.suspend_ready(self.now, id, None);
            }
            Action::Allowance { .. } | Action::Spare { .. } => panic!("none needs one"),
            Action::Locate(locating) => {
                let until = self.now + MS * self.random.below(self.weather.resolve_ms + 1) as u32;
                shard.locating.push((until, locating));
                let asked: usize = shard.locating.iter().map(|(_, of)| of.entries.len()).sum();
                assert!(asked <= LOCATING_MAX as usize, "{asked} are located at once");
            }
            Action::Open(ready) => {
                shard.opens += 1;
                let hop = shard.queue.ready_key(ready).expect("known").clone();
                let until = self.now + MS * self.random.below(self.weather.open_ms + 1) as u32;
                let doing = Doing::Opening;
                shard.connections.push(Connection { ready, hop, doing, until, carried: 0 });
            }
            Action::Wake(ready) => {
                shard.wakes += 1;
                let idle = shard
                    .connections
                    .iter()
                    .rposition(|c| c.ready == ready && matches!(c.doing, Doing::Idle))
                    .expect("woken, so there is an idle one");
                self.work(number, idle);
            }
            Action::Expired(detail) => {
                assert!(detail.age >= self.weather.retry.give_up_after);
                shard.expired.push((self.now, detail));
            }
            Action::Failed(..) => shard.failed += 1,
            Action::Removed(_) => shard.removed += 1,
            Action::Warn(late) => shard.warned += late.len(),
            Action::Suspended(_) | Action::Resumed { .. } => {}
            Action::Forgotten(_) => shard.forgotten += 1,
            Action::Lease { shard: to, message } => {
                self.lease_messages += 1;
                let late = Duration::from_micros(self.random.below(self.weather.lease_us + 1));
                let channel = self.channels.entry((number as u16, to)).or_default();
                let after = channel.back().map_or(Mono(0), |(at, _)| *at);
                channel.push_back(((self.now + late).max(after), message));
            }
        }
    }

    /// The connection asks for work.
    fn work(&mut self, number: usize, index: usize) {
        let shard = &mut self.shards[number];
        let connection = &mut shard.connections[index];
        match shard.queue.take(self.now, connection.ready, connection.carried) {
            Take::Work(work) => {
                assert!(!work.entries.is_empty());
                self.taken.entry(connection.hop.clone()).or_default().push(self.now);
                let of = shard.queue.scheduled_of(work.entries[0].0).expect("it is in flight");
                let tenant = &shard.queue.scheduled_key(of).expect("known").tenant;
                self.taken_of.entry(Arc::clone(tenant)).or_default().push(self.now);
                let ms = 1 + self.random.below(self.weather.transaction_ms);
                connection.until = self.now + MS * ms as u32;
                connection.doing = Doing::Working(work);
                connection.carried += 1;
            }
            Take::Wait => {
                let until = self.now + SECOND * 5;
                connection.until = until;
                connection.doing = Doing::Idle;
                shard.queue.handle_idle(self.now, connection.ready);
            }
            Take::Close => self.close(number, index, CloseReason::Normal),
        }
    }

    fn close(&mut self, number: usize, index: usize, reason: CloseReason) {
        let shard = &mut self.shards[number];
        let connection = shard.connections.swap_remove(index);
        shard.queue.handle_closed(self.now, connection.ready, reason);
    }

    /// The next moment at which something happens.
    pub fn next_event(&self) -> Mono {
        let of_shard = |s: &Shard| {
            let connections = s.connections.iter().map(|c| c.until);
            let resolving = s.resolving.iter().map(|(at, _)| *at);
            let locating = s.locating.iter().map(|(at, _)| *at);
            let own = connections.chain(resolving).chain(locating);
            own.min().unwrap_or(Mono::NEVER).min(s.queue.next_timeout())
        };
        let channels = self.channels.values().filter_map(|c| c.front()).map(|(at, _)| *at);
        channels.chain(self.shards.iter().map(of_shard)).min().unwrap_or(Mono::NEVER)
    }

    /// Lets time pass, event by event.
    pub fn run_until(&mut self, end: Mono) {
        let mut still = 0;
        loop {
            self.settle();
            let next = self.next_event().max(self.now);
            if next > end {
                self.now = end;
                return;
            }
            still = if next == self.now { still + 1 } else { 0 };
            assert!(still < 10_000, "the world turns in circles");
            self.now = next;
            self.happen();
        }
    }

    pub fn run_for(&mut self, time: Duration) {
        self.run_until(self.now + time);
    }

    fn happen(&mut self) {
        let pairs: Vec<(u16, u16)> = self.channels.keys().copied().collect();
        for (from, to) in pairs {
            while let Some(channel) = self.channels.get_mut(&(from, to))
                && let Some((at, _)) = channel.front()
                && *at <= self.now
                && let Some((_, message)) = channel.pop_front()
            {
                self.shards[usize::from(to)].queue.handle_lease(self.now, from, message);
            }
        }
        for number in 0..self.shards.len() {
            self.answer(number);
            self.locate(number);
            let mut index = 0;
            while index < self.shards[number].connections.len() {
                let before = self.shards[number].connections.len();
                if self.shards[number].connections[index].until <= self.now {
                    self.finish(number, index);
                }
                if self.shards[number].connections.len() == before {
                    index += 1;
                }
            }
        }
    }

    fn answer(&mut self, number: usize) {
        let shard = &mut self.shards[number];
        let (due, rest) = shard.resolving.drain(..).partition(|(at, _)| *at <= self.now);
        shard.resolving = rest;
        let due: Vec<(Mono, ScheduledId)> = due;
        for (_, scheduled) in due {
            let domain = shard.queue.scheduled_key(scheduled).expect("known").domain.to_string();
            let digits: String = domain.chars().filter(char::is_ascii_digit).collect();
            let number = digits.parse::<u64>().expect("a number");
            let (hop, order) = (number % self.weather.hops, number / self.weather.hops);
            let hosts = format!("hop{hop}");
            let key = match order % self.weather.orders {
                0 => hosts.clone(),
                order => format!("{hosts}>{order}"),
            };
            let limits = &self.weather.limits;
            let provider = self.weather.provider.as_ref().map(|all| all.shared("z provider"));
            let answer = if self.random.hits(self.weather.resolve_fails) {
                Resolution::Retry(failure("SERVFAIL"))
            } else if self.weather.by_recipient && number % 2 == 1 {
                Resolution::Each { fresh_until: self.now + SECOND * 60 }
            } else {
                Resolution::Ready {
                    ways: vec![WeightedPath {
                        key: ready_key(&key),
                        limits: limits.own(),
                        shared: [limits.shared(&hosts)].into_iter().chain(provider).collect(),
                        weight: 1,
                        tier: 0,
                    }],
                    fresh_until: self.now + SECOND * 60,
                }
            };
            shard.queue.handle_resolved(self.now, scheduled, answer);
        }
    }

    /// The directory answers, mostly.
    fn locate(&mut self, number: usize) {
        let shard = &mut self.shards[number];
        let (due, rest) = shard.locating.drain(..).partition(|(at, _)| *at <= self.now);
        shard.locating = rest;
        let due: Vec<(Mono, HopLookup)> = due;
        for (_, locating) in due {
            let mut answers = Vec::new();
            for (_, recipient) in &locating.entries {
                let hop = (locating.id.0 + u64::from(*recipient)) % self.weather.hops;
                let hop = format!("hop{hop}");
                answers.push(match self.random.hits(self.weather.resolve_fails) {
                    true if self.random.below(2) == 0 => {
                        HopLookupResult::Silence(failure("no answer"))
                    }
                    true => HopLookupResult::Deferred(failure("no host")),
                    false => {
                        let (key, limits) = (ready_key(&hop), &self.weather.limits);
                        let shared = [limits.shared(&hop)];
                        let queue = &mut shard.queue;
                        let own = limits.own();
                        let ready = queue.enter_located(self.now, &locating, &key, &own, &shared);
                        ready.map_or(HopLookupResult::Elsewhere, HopLookupResult::At)
                    }
                });
            }
            shard.queue.handle_located(self.now, &locating, answers);
        }
    }

    /// What a connection was doing ends.
    fn finish(&mut self, number: usize, index: usize) {
        let shard = &mut self.shards[number];
        let ready = shard.connections[index].ready;
        match std::mem::replace(&mut shard.connections[index].doing, Doing::Idle) {
            Doing::Idle => self.close(number, index, CloseReason::Idle),
            Doing::Opening => {
                if self.random.hits(self.weather.open_fails) {
                    shard.connections.swap_remove(index);
                    shard.queue.handle_open_failed(self.now, ready, failure("refused"));
                } else {
                    shard.queue.handle_opened(self.now, ready);
                    self.work(number, index);
                }
            }
            Doing::Working(work) => self.outcome(number, index, &work),
        }
    }

    fn outcome(&mut self, number: usize, index: usize, work: &TransactionWork) {
        let shard = &mut self.shards[number];
        let ready = shard.connections[index].ready;
        let lost = self.random.hits(self.weather.lost);
        let throttled = self.random.hits(self.weather.throttled);
        for (entry, _, attempts) in &work.entries {
            let outcome = if lost || throttled || self.random.hits(self.weather.untried) {
                EntryOutcome::Untried
            } else if self.random.hits(self.weather.deferred) {
                EntryOutcome::Deferred(failure("450 later"))
            } else {
                shard.settled.push((self.now, *entry));
                EntryOutcome::Settled
            };
            let deferred = shard.queue.handle_outcome(self.now, *entry, outcome);
            assert!(deferred.is_none_or(|d| d.attempts == attempts + 1 && d.next_try > self.now));
        }
        if throttled {
            shard.queue.handle_throttled(self.now, ready, failure("421 busy"));
        }
        if lost || throttled {
            return self.close(number, index, CloseReason::Lost);
        }
        shard.queue.handle_accepted(self.now, ready);
        self.work(number, index);
    }

    fn check_connections(&mut self) {
        let mut used: BTreeMap<ReadyKey, usize> = BTreeMap::new();
        for connection in self.shards.iter().flat_map(|s| &s.connections) {
            *used.entry(connection.hop.clone()).or_default() += 1;
        }
        let mut shared: BTreeMap<String, usize> = BTreeMap::new();
        for (hop, used) in used {
            *shared.entry(String::new()).or_default() += used;
            *shared.entry(hosts_of(&hop).to_owned()).or_default() += used;
            let peak = self.peak.entry(hop).or_default();
            *peak = used.max(*peak);
        }
        for (hosts, used) in shared {
            let peak = self.peak_shared.entry(hosts).or_default();
            *peak = used.max(*peak);
        }
    }

    pub fn connections(&self) -> usize {
        self.shards.iter().map(|s| s.connections.len()).sum()
    }

    pub fn queued(&self) -> usize {
        let counts = self.shards.iter().map(|s| s.queue.counts());
        counts.map(|c| c.scheduled + c.ready + c.in_flight + c.held).sum()
    }

    pub fn settled(&self) -> usize {
        self.shards.iter().map(|s| s.settled.len()).sum()
    }

    /// Every entry has a blocker, and an end is in sight.
    pub fn check_blockers(&self) {
        for shard in &self.shards {
            for entry in all_entries(&shard.queue, self.now) {
                let blocker = shard.queue.why(self.now, entry).expect("it is queued");
                let next = blocker.next().or(shard.queue.expiry(entry));
                assert!(next.is_some_and(|at| at < Mono::NEVER), "{blocker}");
                assert!(!blocker.to_string().is_empty());
            }
        }
    }
}
