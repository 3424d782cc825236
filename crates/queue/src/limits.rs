//! Limits of a ready queue: rate, back-off after failures, adaptive concurrency.

use crate::RetryPolicy;
use mail::{Failure, Mono};
use std::sync::Arc;
use std::time::Duration;

/// Limits of one ready queue on one shard; 0 means no limit. Limits shared with other ready queues, and with the same
/// one on other shards, are [`crate::NamedLimit`]s.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadyLimits {
    /// Connections being opened at once.
    pub opens_max: u32,
    /// Messages a connection carries before it is closed.
    pub messages_per_connection: u32,
    /// Recipients in one transaction.
    pub recipients_per_message: u32,
    /// Adaptive concurrency: grows on success, shrinks on 421 and timeouts.
    pub adaptive: bool,
}

/// A limit shared by ready queues under its name, over all shards. 0 means no limit.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedLimit {
    /// Its name, as shown by `why`.
    pub name: Arc<str>,
    /// Concurrent connections, including those being opened.
    pub connections_max: u32,
    /// Messages per second over all shards.
    pub messages_per_second: f64,
}

/// Messages per second as a generic cell rate algorithm. The virtual schedule may run ahead of the clock by a quarter
/// of a second, and by one message at least.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    interval_ns: u64,
    burst: u64,
    /// Time at which the schedule is idle again, in nanoseconds.
    arrival_ns: u64,
}

/// The lowest rate of a limit: one message a year.
const INTERVAL_NS_MAX: f64 = 365.0 * 86_400.0 * 1e9;

impl Rate {
    /// `None` without a limit.
    pub(crate) fn new(per_second: f64) -> Option<Rate> {
        if !(per_second.is_finite() && per_second > 0.0) {
            return None;
        }
        let interval_ns = (1e9 / per_second).clamp(1.0, INTERVAL_NS_MAX) as u64;
        let burst = ((per_second / 4.0) as u64).clamp(1, 1_000_000);
        Some(Rate { interval_ns, burst, arrival_ns: 0 })
    }

    /// Inherits the advance of `other`'s schedule, in time, or in messages if that is less. After a rate of one message
    /// a day, the new schedule must not wait a day.
    pub(crate) fn inherit(&mut self, now: Mono, other: &Rate) {
        let now_ns = now.0.saturating_mul(1000);
        let ahead_ns = other.arrival_ns.saturating_sub(now_ns);
        let messages = ahead_ns as f64 / other.interval_ns as f64;
        let as_messages_ns = (messages * self.interval_ns as f64) as u64;
        self.arrival_ns = now_ns.saturating_add(ahead_ns.min(as_messages_ns));
    }

    /// Messages that may be sent now.
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

    /// Refunds unused tokens.
    pub(crate) fn refund(&mut self, count: u32) {
        let back = u64::from(count).saturating_mul(self.interval_ns);
        self.arrival_ns = self.arrival_ns.saturating_sub(back);
    }

    /// Time at which the next message may be sent.
    pub(crate) fn next(&self) -> Mono {
        let ahead = (self.burst - 1).saturating_mul(self.interval_ns);
        Mono(self.arrival_ns.saturating_sub(ahead).div_ceil(1000))
    }

    /// Tokens worth lending at once: a tenth of a second's worth.
    pub(crate) fn batch(&self) -> u32 {
        u32::try_from(100_000_000 / self.interval_ns).unwrap_or(u32::MAX).max(1)
    }

    /// Tokens worth lending in advance: a sixteenth of a batch, none for a slow rate.
    pub(crate) fn advance(&self) -> u32 {
        self.batch() / 16
    }
}

/// Back-off of connection attempts after failures: 1 s, 2 s, 4 s …, then by the retry policy. After a failed attempt,
/// one probe at a time until one succeeds.
///
/// A peer that greets but accepts no message shuts the gate: no work is handed out, and a single connection probes
/// until mail is accepted again.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    /// No connection is opened before this.
    pub(crate) open_after: Mono,
    /// One at a time.
    pub(crate) probing: bool,
    /// The failure that closed the gate last; cleared on success.
    pub(crate) failure: Option<Arc<Failure>>,
    /// Time at which the gate was closed last; cleared on success.
    pub(crate) failed_at: Option<Mono>,
    /// Until mail is accepted again there is one connection, and none before `open_after`.
    pub(crate) shut: bool,
    /// The retry policy of the route from which mail came last.
    pub(crate) retry: Option<Arc<RetryPolicy>>,
    /// Failures since the last success; a burst counts as one.
    pub(crate) step: u16,
    /// The step reported last, by [`crate::Action::Suspended`].
    pub(crate) told: u16,
    /// Time of the first of these failures.
    pub(crate) since: Mono,
    /// Connections lost since the last success.
    losses: u32,
    /// Transactions refused as a whole in a row, in cohorts: a cohort is as many transactions as the allowed
    /// connections.
    refused: f64,
}

/// Cohorts refused in a row after which a next hop is suspended.
const COHORTS_MAX: f64 = 3.0;
/// Weight of a transaction that failed by its recipients only: greylisting, for example, depends on the recipient and
/// predicts little for other recipients.
const RECIPIENTS_WEIGHT: f64 = 0.05;

impl Gate {
    pub(crate) fn new() -> Gate {
        Gate {
            open_after: Mono(0),
            probing: false,
            failure: None,
            failed_at: None,
            shut: false,
            retry: None,
            step: 0,
            told: 0,
            since: Mono(0),
            losses: 0,
            refused: 0.0,
        }
    }

    /// Counts a failure. Failures that arrive while the gate is closed belong to the same burst: fifty connections that
    /// break together are one event.
    pub(crate) fn fail(&mut self, now: Mono, failure: Option<Arc<Failure>>, jitter: f64) {
        if failure.is_some() {
            self.failure = failure;
        }
        self.failed_at = Some(now);
        if now < self.open_after {
            return;
        }
        if self.step == 0 {
            self.since = now;
        }
        self.step = self.step.saturating_add(1);
        let delay = match &self.retry {
            Some(retry) => retry.back_off(self.step, jitter),
            // No transaction was ever made here.
            None => Duration::from_secs(1),
        };
        self.open_after = now + delay;
    }

    /// Counts a transaction that was refused temporarily as a whole, or for its recipients only. `window` is the number
    /// of allowed connections.
    pub(crate) fn refuse(
        &mut self,
        now: Mono,
        refusal: (Arc<Failure>, bool),
        window: u32,
        jitter: f64,
    ) {
        let (failure, of_recipients) = refusal;
        let weight = if of_recipients { RECIPIENTS_WEIGHT } else { 1.0 };
        self.refused += weight / f64::from(window.max(1));
        if self.refused >= COHORTS_MAX || (self.shut && !of_recipients) {
            self.refused = 0.0;
            self.shut = true;
            self.fail(now, Some(failure), jitter);
        }
    }

    /// Transactions were refused, and none was taken since.
    pub(crate) fn is_refusing(&self) -> bool {
        self.refused > 0.0 || self.shut
    }

    /// Returns true while no work is handed out and no connection is opened.
    pub(crate) fn is_shut(&self, now: Mono) -> bool {
        self.shut && now < self.open_after
    }

    /// Counts a connection that broke in a transaction. The first ones are ignored: a connection that the peer closed
    /// while it was idle looks the same when it is used again.
    pub(crate) fn lose(&mut self, now: Mono, jitter: f64) {
        self.losses += 1;
        if self.losses > 2 {
            self.fail(now, None, jitter);
        }
    }

    /// A message went through.
    pub(crate) fn succeed(&mut self) {
        self.step = 0;
        self.losses = 0;
        self.refused = 0.0;
        self.probing = false;
        self.shut = false;
        self.failure = None;
        self.failed_at = None;
    }

    /// Opens the gate at an operator's request.
    pub(crate) fn lift(&mut self) {
        self.open_after = Mono(0);
    }
}

/// Adaptive concurrency: additive increase, multiplicative decrease. It doubles per round trip until the first error,
/// like TCP's slow start.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    adaptive: bool,
    size: f64,
    ceiling: f64,
    slow_start: bool,
    shrunk: Mono,
    /// Connections greeted when further ones were refused, and the time until which that is the limit.
    crowded: Option<(u32, Mono)>,
}

/// Time for which a peer that refused connections gets no more than it greeted.
const CROWDED_FOR: Duration = Duration::from_secs(300);
/// Of all shards together.
const WINDOW_START: f64 = 10.0;
const WINDOW_MAX: f64 = 1000.0;
/// Several connections refused at the same time are one event.
const SHRINK_EVERY: Duration = Duration::from_secs(1);

impl Window {
    /// `connections_max` is the lowest of all shared limits; 0 if none.
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
            crowded: None,
        }
    }

    /// Adopts changed limits and keeps the learnt size.
    pub(crate) fn adjust(&mut self, limits: &ReadyLimits, connections_max: u32) {
        let fresh = Window::new(limits, connections_max);
        self.size = self.size.min(fresh.ceiling);
        self.ceiling = fresh.ceiling;
        self.adaptive = fresh.adaptive;
    }

    /// Connections that this shard may have.
    pub(crate) fn allowed(&self) -> u32 {
        let crowd = self.crowded.map_or(u32::MAX, |(max, _)| max);
        if self.adaptive { self.allowed_by_size().min(crowd) } else { crowd }
    }

    fn allowed_by_size(&self) -> u32 {
        self.size as u32
    }

    /// Divides the window among `shards` shards, so that their sum starts as one shard would.
    pub(crate) fn divide(&mut self, shards: u16) {
        self.size = (self.size / f64::from(shards.max(1))).max(1.0);
    }

    /// Limits the window to `open` connections for some time: the peer greets no more.
    pub(crate) fn crowd(&mut self, now: Mono, open: u32) {
        self.crowded = Some((open.max(1), now + CROWDED_FOR));
        self.slow_start = false;
        self.size = self.size.min(f64::from(open.max(1)));
    }

    /// A message was taken, while `busy` connections were at work.
    pub(crate) fn grow(&mut self, now: Mono, busy: u32) {
        let (max, until) = self.crowded.unwrap_or((u32::MAX, Mono(0)));
        if now >= until {
            self.crowded = None;
        } else if busy >= max {
            return;
        }
        // An unused window gives no evidence of the peer's capacity.
        if self.adaptive && busy >= self.allowed_by_size() {
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
        let retry = RetryPolicy {
            first: Duration::from_secs(60),
            factor: 2.0,
            longest: Duration::from_secs(3600),
            jitter: 0.1,
            give_up_after: Duration::from_secs(86_400),
            warn_after: None,
        };
        let mut gate = Gate { retry: Some(Arc::new(retry)), ..Gate::new() };
        let mut now = Mono(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            for _ in 0..5 {
                gate.fail(now, None, 0.0);
            }
            waits.push(gate.open_after.since(now).as_secs());
            now = gate.open_after;
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 120]);
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
            window.grow(Mono(0), 5);
        }
        assert_eq!(window.allowed(), 10, "half of it was enough");
        for _ in 0..100 {
            window.grow(Mono(0), 50);
        }
        assert_eq!(window.allowed(), 50);
        window.shrink(Mono(1));
        window.shrink(Mono(2));
        assert_eq!(window.allowed(), 25);
        window.shrink(Mono(2_000_000));
        assert_eq!(window.allowed(), 12);
        for _ in 0..13 {
            window.grow(Mono(2_000_000), 50);
        }
        assert_eq!(window.allowed(), 13);
        window.crowd(Mono(2_000_000), 5);
        for _ in 0..100 {
            window.grow(Mono(3_000_000), 5);
        }
        assert_eq!(window.allowed(), 5, "more were turned away");
        for _ in 0..100 {
            window.grow(Mono(302_000_001), window.allowed());
        }
        assert!(window.allowed() > 5, "that was minutes ago");
    }

    #[test]
    fn three_cohorts_of_refusals_shut_the_gate_and_greylisting_does_not() {
        let refused = |gate: &mut Gate, now: Mono, of_recipients: bool| {
            let failure = Failure::network("mx", mail::EnhancedStatus::new(4, 7, 1), "no");
            gate.refuse(now, (Arc::new(failure), of_recipients), 10, 0.0);
        };
        let mut gate = Gate::new();
        for _ in 0..100 {
            refused(&mut gate, Mono(5), true);
        }
        assert!(!gate.shut, "a hundred recipients were greylisted");
        gate.succeed();
        for _ in 0..29 {
            refused(&mut gate, Mono(5), false);
        }
        assert!(!gate.shut);
        gate.succeed();
        for _ in 0..31 {
            refused(&mut gate, Mono(5), false);
        }
        assert!(gate.is_shut(Mono(6)));
        let again = gate.open_after;
        assert!(!gate.is_shut(again) && gate.shut, "one has to find out");
        refused(&mut gate, again, false);
        assert!(gate.is_shut(again), "at once");
        gate.succeed();
        assert!(!gate.shut);
    }
}
