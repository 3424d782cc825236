//! Pools with waiters or rejected requests. Each pool registers itself; together they are one kind of problem, computed
//! on request.
//!
//! `Behind` counts mail behind busy mailbox workers. A ready queue has a fixed share of the workers, so its mail
//! waits without a line.

use crate::holding::Holdings;
use crate::line::FairSemaphore;
use crate::metrics::PoolMetrics;
use crate::own_mailbox::OwnMailbox;
use crate::pools::{POOLS, PoolId, ResourcePool};
use crate::problems::{ClockReading, DetectedProblem, ProblemKind};
use crate::seats::Seats;
use config::quantity::write_size;
use mail::Mono;
use queue::ReadyId;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

/// Time for which pressure is reported after its last occurrence, so that intermittent pressure is one problem.
const SHOWN_FOR: Duration = Duration::from_secs(10);
/// Minimum duration of pressure for a console line.
const LASTS: Duration = Duration::from_secs(10);

/// Percentage of the limit for held mail at which a problem is reported.
const HELD_PERCENT: u64 = 80;

/// State of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// The used amount.
    pub used: u64,
    pub max: u64,
    /// Number of waiters.
    pub waiting: u64,
    /// New requests are rejected.
    pub is_full: bool,
}

impl Level {
    /// A level without waiters: at `max`, new requests are rejected.
    #[must_use]
    pub fn of(used: u64, max: u64) -> Level {
        Level { used, max, waiting: 0, is_full: used >= max }
    }

    /// The sum of two parts of a pool.
    #[must_use]
    pub fn and(self, other: Level) -> Level {
        Level {
            used: self.used.saturating_add(other.used),
            max: self.max.saturating_add(other.max),
            waiting: self.waiting.saturating_add(other.waiting),
            is_full: self.is_full || other.is_full,
        }
    }
}

/// Reports the state of a pool, or of a part. It never blocks.
pub trait Gauge: Send + Sync {
    fn level(&self, now: ClockReading) -> Level;

    /// The user with the largest amount, and that amount.
    fn most(&self) -> Option<(String, u64)> {
        None
    }
}

impl Gauge for FairSemaphore {
    fn level(&self, _now: ClockReading) -> Level {
        let (used, max, waiting) = (self.used(), self.parts().max, self.waiting());
        Level { used, max, waiting, is_full: false }
    }

    fn most(&self) -> Option<(String, u64)> {
        FairSemaphore::most(self).map(|(name, held)| (name.as_str().to_owned(), held))
    }
}

impl Gauge for Behind {
    fn level(&self, now: ClockReading) -> Level {
        Level { waiting: self.waiting(now.mono), ..Level::default() }
    }
}

impl Gauge for Seats {
    fn level(&self, _now: ClockReading) -> Level {
        // There are no waiters: old entries are displaced. The share of unauthenticated clients, nine in ten, is in
        // use.
        let (used, max) = (u64::from(self.count()), u64::from(self.max()));
        Level { used, max, waiting: 0, is_full: used >= max - max / 10 }
    }

    fn most(&self) -> Option<(String, u64)> {
        Seats::most(self).map(|(group, bits, held)| (format!("{group}/{bits}"), held.into()))
    }
}

impl Gauge for Holdings {
    fn level(&self, _now: ClockReading) -> Level {
        let (held, max) = (self.held(), self.max());
        let is_full = |held: u64, max: u64| {
            held.saturating_mul(100) >= max.saturating_mul(HELD_PERCENT) && held > 0
        };
        let is_full = is_full(held.recipients, max.recipients) || is_full(held.bytes, max.bytes);
        Level { used: held.recipients, max: max.recipients, waiting: 0, is_full }
    }

    fn most(&self) -> Option<(String, u64)> {
        Holdings::most(self)
    }
}

/// A gauge from a function.
pub struct FnGauge<F>(pub F);

impl<F: Fn(ClockReading) -> (Level, Option<(String, u64)>) + Send + Sync> Gauge for FnGauge<F> {
    fn level(&self, now: ClockReading) -> Level {
        (self.0)(now).0
    }

    fn most(&self) -> Option<(String, u64)> {
        (self.0)(ClockReading::default()).1
    }
}

/// Requests that were turned away from a pool: rejected, deferred, or displaced by other clients.
#[derive(Debug, Default)]
struct TurnedAway {
    count: AtomicU64,
    /// Time of the last one, plus one; 0: never.
    last: AtomicU64,
}

/// A period of reported pressure.
#[derive(Clone, Copy, Debug)]
struct PressurePeriod {
    since: Mono,
    until: Mono,
    /// Requests turned away before its start.
    before: u64,
}

/// All pools of a process.
pub struct Pressures {
    gauges: Mutex<Vec<(PoolId, Weak<dyn Gauge>)>>,
    /// Gauges without another owner.
    kept: Mutex<Vec<Arc<dyn Gauge>>>,
    turned_away: BTreeMap<PoolId, TurnedAway>,
    shown: Mutex<BTreeMap<PoolId, PressurePeriod>>,
}

impl Default for Pressures {
    fn default() -> Pressures {
        let turned_away = POOLS.iter().map(|pool| (pool.id, TurnedAway::default())).collect();
        let (gauges, kept, shown) = Default::default();
        Pressures { gauges, kept, turned_away, shown }
    }
}

impl fmt::Debug for Pressures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pressures").finish_non_exhaustive()
    }
}

impl Pressures {
    /// Registers a gauge of a pool, or of a part, for as long as another owner keeps it.
    pub fn register(&self, id: PoolId, gauge: &Arc<impl Gauge + 'static>) {
        let mut gauges = lock(&self.gauges);
        gauges.retain(|(_, gauge)| gauge.strong_count() > 0);
        let gauge: Weak<dyn Gauge> = Arc::<_>::downgrade(gauge) as Weak<dyn Gauge>;
        gauges.push((id, gauge));
    }

    /// Registers a gauge, and keeps it.
    pub fn keep(&self, id: PoolId, gauge: impl Gauge + 'static) {
        let gauge = Arc::new(gauge);
        self.register(id, &gauge);
        lock(&self.kept).push(gauge);
    }

    /// Counts a request that was rejected, deferred or displaced because the pool was scarce.
    pub fn note_turned_away(&self, id: PoolId, now: Mono) {
        if let Some(away) = self.turned_away.get(&id) {
            away.count.fetch_add(1, Ordering::Relaxed);
            away.last.store(now.0.saturating_add(1), Ordering::Relaxed);
        }
    }

    /// The pools with a gauge.
    #[must_use]
    pub fn registered(&self) -> Vec<PoolId> {
        let mut all: Vec<PoolId> = lock(&self.gauges).iter().map(|(id, _)| *id).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Metrics of all pools with a gauge, by name.
    #[must_use]
    pub fn metrics(&self, now: ClockReading) -> Vec<(Arc<str>, Arc<PoolMetrics>)> {
        let numbers = |pool: &ResourcePool| {
            let (level, _) = self.look(pool.id, now)?;
            let (metrics, away) = (PoolMetrics::default(), self.turned_away.get(&pool.id));
            metrics.used.set_u64(level.used);
            metrics.max.set_u64(level.max);
            metrics.waiting.set_u64(level.waiting);
            metrics.turned_away.add(away.map_or(0, |away| away.count.load(Ordering::Relaxed)));
            metrics.pressed.set(i64::from(self.shown(pool.id, level, now.mono).is_some()));
            Some((pool.word().into(), Arc::new(metrics)))
        };
        POOLS.iter().filter_map(numbers).collect()
    }

    /// The state of a pool, and its gauges. `None` if it has no gauge.
    fn look(&self, id: PoolId, now: ClockReading) -> Option<(Level, Vec<Arc<dyn Gauge>>)> {
        let gauges: Vec<Arc<dyn Gauge>> = {
            let gauges = lock(&self.gauges);
            gauges.iter().filter(|(of, _)| *of == id).filter_map(|(_, one)| one.upgrade()).collect()
        };
        let level = gauges.iter().map(|gauge| gauge.level(now)).reduce(Level::and)?;
        Some((level, gauges))
    }

    /// Returns the period of pressure to report, if any.
    fn shown(&self, id: PoolId, level: Level, now: Mono) -> Option<PressurePeriod> {
        let away = self.turned_away.get(&id);
        let count = away.map_or(0, |away| away.count.load(Ordering::Relaxed));
        let last = away.and_then(|away| away.last.load(Ordering::Relaxed).checked_sub(1));
        let is_pressed = level.waiting > 0 || level.is_full;
        let until =
            last.map(|last| Mono(last) + SHOWN_FOR).max(is_pressed.then(|| now + SHOWN_FOR));
        let mut all = lock(&self.shown);
        let known = all.get(&id).copied().filter(|shown| shown.until > now);
        let Some(until) = until.max(known.map(|known| known.until)).filter(|until| *until > now)
        else {
            all.insert(id, PressurePeriod { since: now, until: Mono(0), before: count });
            return None;
        };
        let before = all.get(&id).map_or(0, |before| before.before);
        let shown = PressurePeriod { since: known.map_or(now, |known| known.since), until, before };
        all.insert(id, shown);
        Some(shown)
    }

    fn found(&self, pool: &ResourcePool, now: ClockReading) -> Option<DetectedProblem> {
        let (level, gauges) = self.look(pool.id, now)?;
        let shown = self.shown(pool.id, level, now.mono)?;
        let amount = |n: u64| if pool.is_octets() { write_size(n) } else { n.to_string() };
        let (used, max) = (amount(level.used), amount(level.max));
        let mut text = format!("pool {} is under pressure: {used} of {max}", pool.word());
        let _ = write!(text, " in use ({}), {} wait", pool.name, level.waiting);
        let away = self.turned_away.get(&pool.id);
        let away = away.map_or(0, |away| away.count.load(Ordering::Relaxed));
        match away.saturating_sub(shown.before) {
            0 => {}
            turned_away => _ = write!(text, ", {turned_away} were rejected"),
        }
        let most = gauges.iter().filter_map(|gauge| gauge.most()).max_by_key(|(_, held)| *held);
        match most {
            Some((who, held)) if !who.is_empty() => {
                _ = write!(text, "; {who} holds most: {}", amount(held));
            }
            Some((_, held)) => _ = write!(text, "; one holds {}", amount(held)),
            None => {}
        }
        let found = DetectedProblem::warning(pool.word(), text).next_step(pool.next_step);
        Some(if now.mono.since(shown.since) < LASTS { found.quietly() } else { found })
    }
}

impl ProblemKind for Pressures {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        POOLS.iter().filter_map(|pool| self.found(pool, now)).for_each(found);
    }
}

/// Unread mail for the postmaster.
impl ProblemKind for OwnMailbox {
    fn name(&self) -> &'static str {
        "postmaster_mail"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let (Some(path), Some(seen)) = (self.path(), self.found()) else { return };
        if seen.messages > 0 {
            let (messages, size) = (seen.messages, write_size(seen.bytes));
            let text =
                format!("the postmaster has {messages} messages ({size}) in {}", path.display());
            let next_step = "read them, or give the postmaster's mail a route";
            found(DetectedProblem::warning("", text).next_step(next_step).quietly());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waiting time from which a message counts as waiting for workers.
pub(crate) const BEHIND_AFTER: Duration = Duration::from_secs(1);
/// Interval at which each worker notes it: not for each message, because of the lock.
pub(crate) const NOTED_EVERY: Duration = Duration::from_millis(500);
/// Time after which a note expires.
const BEHIND_FOR: Duration = Duration::from_secs(5);

/// By shard and ready queue.
type ShardReadyQueue = (u16, ReadyId);

#[derive(Debug, Default)]
pub(crate) struct Behind(Mutex<BTreeMap<ShardReadyQueue, (u32, Mono)>>);

impl Behind {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<ShardReadyQueue, (u32, Mono)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the number of waiting messages.
    pub(crate) fn note(&self, shard: u16, ready: ReadyId, count: u32, now: Mono) {
        let mut all = self.lock();
        all.retain(|_, (_, at)| now.since(*at) < BEHIND_FOR);
        all.insert((shard, ready), (count, now));
    }

    /// The current number of waiting messages.
    pub(crate) fn waiting(&self, now: Mono) -> u64 {
        let all = self.lock();
        let fresh = all.values().filter(|(_, at)| now.since(*at) < BEHIND_FOR);
        fresh.map(|(count, _)| u64::from(*count)).sum()
    }
}

#[cfg(test)]
mod tests;
