//! What holds a ready queue back: rate, back-off after failures, adaptive concurrency.

use mail::{Failure, Mono};
use std::sync::Arc;
use std::time::Duration;

/// Limits of a ready queue alone, on one shard. 0 means no limit. What it shares with others, and
/// with itself on other shards, are [`crate::NamedLimit`]s.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyLimits {
    /// Connections being opened at once.
    pub opens_max: u32,
    /// Messages a connection carries before it is closed.
    pub messages_per_connection: u32,
    /// Recipients in one transaction.
    pub recipients_per_message: u32,
    /// Whether concurrency adapts: grows on success, shrinks on 421 and timeouts.
    pub adaptive: bool,
}

/// Messages per second as a generic cell rate algorithm: a virtual schedule that may run ahead
/// of the clock by a quarter of a second's worth, at least by one message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    interval_ns: u64,
    burst: u64,
    /// When the schedule would be idle again, in nanoseconds.
    arrival_ns: u64,
}

/// One message a year is as slow as a limit gets.
const INTERVAL_NS_MAX: f64 = 365.0 * 86_400.0 * 1e9;

impl Rate {
    /// `None` when there is no limit.
    pub(crate) fn new(per_second: f64) -> Option<Rate> {
        if !(per_second.is_finite() && per_second > 0.0) {
            return None;
        }
        let interval_ns = (1e9 / per_second).clamp(1.0, INTERVAL_NS_MAX) as u64;
        let burst = ((per_second / 4.0) as u64).clamp(1, 1_000_000);
        Some(Rate { interval_ns, burst, arrival_ns: 0 })
    }

    /// Takes over how far the schedule of `other` ran ahead.
    pub(crate) fn inherit(&mut self, other: &Rate) {
        self.arrival_ns = other.arrival_ns;
    }

    /// How many may go now.
    pub(crate) fn available(&self, now: Mono) -> u32 {
        let now_ns = now.0.saturating_mul(1000);
        let limit = now_ns.saturating_add(self.burst.saturating_mul(self.interval_ns));
        let room = limit.saturating_sub(self.arrival_ns.max(now_ns));
        u32::try_from(room / self.interval_ns).unwrap_or(u32::MAX)
    }

    pub(crate) fn spend(&mut self, now: Mono, count: u32) {
        let start = self.arrival_ns.max(now.0.saturating_mul(1000));
        self.arrival_ns = start.saturating_add(u64::from(count).saturating_mul(self.interval_ns));
    }

    /// Takes back what was not used.
    pub(crate) fn refund(&mut self, count: u32) {
        let back = u64::from(count).saturating_mul(self.interval_ns);
        self.arrival_ns = self.arrival_ns.saturating_sub(back);
    }

    /// When the next one may go.
    pub(crate) fn next(&self) -> Mono {
        let ahead = (self.burst - 1).saturating_mul(self.interval_ns);
        Mono(self.arrival_ns.saturating_sub(ahead).div_ceil(1000))
    }

    /// A tenth of a second's worth: what is worth lending at once.
    pub(crate) fn batch(&self) -> u32 {
        u32::try_from(100_000_000 / self.interval_ns).unwrap_or(u32::MAX).max(1)
    }
}

/// Back-off of connection opening after failures: 1 s, 2 s, 4 s … and after a failed open one
/// probe at a time until one gets through.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// No opening before.
    pub(crate) open_after: Mono,
    /// One at a time.
    pub(crate) probing: bool,
    /// What closed the gate last; forgotten on success.
    pub(crate) failure: Option<Arc<Failure>>,
    /// Ceiling of the back-off.
    pub(crate) longest: Duration,
    /// When it was closed last; forgotten on success.
    pub(crate) failed_at: Option<Mono>,
    streak: u32,
    /// Connections lost since the last success.
    losses: u32,
}

/// Longest back-off of a ready queue: a peer that came back is noticed within a minute.
pub(crate) const BACK_OFF_MAX: Duration = Duration::from_secs(60);

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            open_after: Mono(0),
            probing: false,
            failure: None,
            longest: BACK_OFF_MAX,
            failed_at: None,
            streak: 0,
            losses: 0,
        }
    }

    /// Counts a failure; those that arrive while the gate is closed belong to the same burst
    /// (fifty connections that break together are one event).
    pub(crate) fn fail(&mut self, now: Mono, failure: Option<Arc<Failure>>, jitter: f64) {
        if failure.is_some() {
            self.failure = failure;
        }
        self.failed_at = Some(now);
        if now < self.open_after {
            return;
        }
        let delay = Duration::from_secs(1 << self.streak.min(16)).min(self.longest);
        self.streak += 1;
        self.open_after = now + delay.mul_f64(1.0 + 0.1 * jitter);
    }

    /// A connection broke at work. One that the peer closed while it was idle looks just so when
    /// it is used again, so the first ones do not count.
    pub(crate) fn lose(&mut self, now: Mono, jitter: f64) {
        self.losses += 1;
        if self.losses > 2 {
            self.fail(now, None, jitter);
        }
    }

    /// A message went through.
    pub(crate) fn succeed(&mut self) {
        self.streak = 0;
        self.losses = 0;
        self.probing = false;
        self.failure = None;
        self.failed_at = None;
    }

    /// The operator wants it tried now.
    pub(crate) fn lift(&mut self) {
        self.streak = 0;
        self.open_after = Mono(0);
    }
}

/// Adaptive concurrency: additive increase, multiplicative decrease; doubling per round trip
/// until the first trouble, like TCP's slow start.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    adaptive: bool,
    size: f64,
    ceiling: f64,
    slow_start: bool,
    shrunk: Mono,
}

const WINDOW_START: f64 = 10.0;
const WINDOW_MAX: f64 = 1000.0;
/// Several connections that are told off at once are one event.
const SHRINK_EVERY: Duration = Duration::from_secs(1);

impl Window {
    /// `connections_max` is the lowest of all limits that are shared, 0 where there is none.
    pub(crate) fn new(limits: &ReadyLimits, connections_max: u32) -> Window {
        let ceiling = match connections_max {
            0 => WINDOW_MAX,
            max => f64::from(max),
        };
        Window {
            adaptive: limits.adaptive,
            size: WINDOW_START.min(ceiling),
            ceiling,
            slow_start: true,
            shrunk: Mono(0),
        }
    }

    /// Follows changed limits without forgetting what was learnt.
    pub(crate) fn adjust(&mut self, limits: &ReadyLimits, connections_max: u32) {
        let fresh = Window::new(limits, connections_max);
        self.size = self.size.min(fresh.ceiling);
        self.ceiling = fresh.ceiling;
        self.adaptive = fresh.adaptive;
    }

    /// Connections that this shard may have.
    pub(crate) fn allowed(&self) -> u32 {
        if self.adaptive { self.size as u32 } else { u32::MAX }
    }

    pub(crate) fn grow(&mut self) {
        if self.adaptive {
            let step = if self.slow_start { 1.0 } else { 1.0 / self.size };
            self.size = (self.size + step).min(self.ceiling);
        }
    }

    pub(crate) fn shrink(&mut self, now: Mono) {
        self.slow_start = false;
        if self.shrunk == Mono(0) || now.since(self.shrunk) >= SHRINK_EVERY {
            self.shrunk = now;
            self.size = (self.size / 2.0).max(1.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rate_allows_the_burst_and_then_the_rate() {
        let mut rate = Rate::new(8.0).expect("a limit");
        let mut taken = 0;
        for ms in 0..10_000u64 {
            let now = Mono(ms * 1000);
            while rate.available(now) > 0 {
                rate.spend(now, 1);
                taken += 1;
            }
            assert!(f64::from(taken) <= 2.0 + 8.0 * (ms as f64 / 1000.0) + 1e-9);
            assert!(rate.next() > now && rate.next() <= now + Duration::from_millis(125));
        }
        assert!(taken >= 80);
    }

    #[test]
    fn a_refund_never_exceeds_the_burst() {
        let mut rate = Rate::new(100.0).expect("a limit");
        rate.spend(Mono(0), 10);
        let later = Mono(60_000_000);
        rate.refund(10);
        assert_eq!(rate.available(later), 25);
        assert_eq!(Rate::new(0.0), None);
        assert_eq!(Rate::new(f64::NAN), None);
    }

    #[test]
    fn the_gate_backs_off_by_doubling_and_counts_a_burst_once() {
        let mut gate = Gate::new();
        let mut now = Mono(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            for _ in 0..5 {
                gate.fail(now, None, 0.0);
            }
            waits.push(gate.open_after.since(now).as_secs());
            now = gate.open_after;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
        gate.succeed();
        gate.fail(now, None, 0.0);
        assert_eq!(gate.open_after.since(now).as_secs(), 1);
    }

    #[test]
    fn the_window_halves_once_per_second_and_grows_back() {
        let limits = ReadyLimits {
            opens_max: 0,
            messages_per_connection: 0,
            recipients_per_message: 0,
            adaptive: true,
        };
        let mut window = Window::new(&limits, 50);
        for _ in 0..100 {
            window.grow();
        }
        assert_eq!(window.allowed(), 50);
        window.shrink(Mono(1));
        window.shrink(Mono(2));
        assert_eq!(window.allowed(), 25);
        window.shrink(Mono(2_000_000));
        assert_eq!(window.allowed(), 12);
        for _ in 0..13 {
            window.grow();
        }
        assert_eq!(window.allowed(), 13);
    }
}
