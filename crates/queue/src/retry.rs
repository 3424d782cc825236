//! Retry policy: times of retries, delay notices and expiry.

use mail::{MessageId, Mono, Random};
use std::sync::Arc;
use std::time::Duration;

/// Retry policy of a scheduled queue.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryPolicy {
    /// Before the second attempt.
    pub first: Duration,
    /// By how much the delay grows with each attempt.
    pub factor: f64,
    /// Never longer than this.
    pub longest: Duration,
    /// Share of the delay by which it varies at random, up or down (0.0 to 0.5); from the seeded generator.
    pub jitter: f64,
    /// Age at which a message expires.
    pub give_up_after: Duration,
    /// Age at which a delay notice is sent; `None`: never.
    pub warn_after: Option<Duration>,
}

/// Delay of the entry deferred last.
#[derive(Debug)]
pub(crate) struct LastDeferred {
    pub(crate) id: MessageId,
    pub(crate) at: Mono,
    pub(crate) attempts: u16,
    pub(crate) retry: Arc<RetryPolicy>,
    pub(crate) next_try: Mono,
}

/// Steps of a suspension with delays that double from one second, before the delays of the retry policy apply.
const QUICK_STEPS: u16 = 6;
/// Lower limit of all delays: a policy of zeros must not cause a busy loop.
const SHORTEST: Duration = Duration::from_millis(10);

impl RetryPolicy {
    /// The longest of its delays, including jitter.
    #[must_use]
    pub fn longest_delay(&self) -> Duration {
        let seconds = self.longest.as_secs_f64() * (1.0 + self.jitter_share());
        Duration::try_from_secs_f64(seconds).unwrap_or(self.longest).max(SHORTEST)
    }

    fn jitter_share(&self) -> f64 {
        if self.jitter > 0.0 { self.jitter.min(0.5) } else { 0.0 }
    }

    /// The delay after the `attempts`-th attempt failed (1 is the first).
    pub(crate) fn delay(&self, attempts: u16, random: &mut Random) -> Duration {
        self.scattered(self.steady(attempts), random.around_zero())
    }

    /// The same in seconds, without jitter.
    fn steady(&self, attempts: u16) -> f64 {
        let factor = if self.factor >= 1.0 { self.factor } else { 1.0 };
        let grown = self.first.as_secs_f64() * factor.powi(i32::from(attempts.max(1)) - 1);
        grown.min(self.longest.as_secs_f64())
    }

    /// `chance` lies between -1 and 1.
    fn scattered(&self, seconds: f64, chance: f64) -> Duration {
        let seconds = seconds * (1.0 + self.jitter_share() * chance);
        Duration::try_from_secs_f64(seconds).unwrap_or(self.longest).max(SHORTEST)
    }

    /// Back-off of a next hop after the `step`-th failure in a row (1 is the first). It is one second, two, four … up
    /// to half a minute, so that a short outage is noticed, then the delay of a message after as many attempts.
    pub(crate) fn back_off(&self, step: u16, chance: f64) -> Duration {
        let quick = f64::from(1_u32 << step.saturating_sub(1).min(QUICK_STEPS - 1));
        let steady = match step.saturating_sub(QUICK_STEPS) {
            0 => 0.0,
            attempts => self.steady(attempts),
        };
        self.scattered(quick.max(steady).min(self.longest.as_secs_f64()), chance)
    }

    pub(crate) fn give_up_us(&self) -> u64 {
        u64::try_from(self.give_up_after.as_micros()).unwrap_or(u64::MAX)
    }

    pub(crate) fn warn_us(&self) -> u64 {
        self.warn_after.map_or(u64::MAX, |d| u64::try_from(d.as_micros()).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> RetryPolicy {
        RetryPolicy {
            first: Duration::from_secs(60),
            factor: 2.0,
            longest: Duration::from_secs(3600),
            jitter: 0.0,
            give_up_after: Duration::from_secs(86_400),
            warn_after: None,
        }
    }

    #[test]
    fn delays_grow_to_the_longest() {
        let mut random = Random::new(1);
        let delays: Vec<u64> = (1..9).map(|n| policy().delay(n, &mut random).as_secs()).collect();
        assert_eq!(delays, [60, 120, 240, 480, 960, 1920, 3600, 3600]);
        assert_eq!(policy().delay(u16::MAX, &mut random).as_secs(), 3600);
    }

    #[test]
    fn jitter_spreads_both_ways_and_no_further() {
        let mut random = Random::new(1);
        let jittery = RetryPolicy { jitter: 0.1, ..policy() };
        let delays: Vec<f64> =
            (0..1000).map(|_| jittery.delay(1, &mut random).as_secs_f64()).collect();
        assert!(delays.iter().all(|d| (54.0..=66.0).contains(d)));
        assert!(delays.iter().any(|d| *d < 55.0) && delays.iter().any(|d| *d > 65.0));
        let longest = jittery.longest_delay();
        assert_eq!(longest.as_secs(), 3_960);
        assert!((0..1000).all(|_| jittery.delay(9, &mut random) <= longest));
    }

    #[test]
    fn a_next_hop_is_left_alone_for_seconds_first_and_then_by_the_policy() {
        let waits = |policy: &RetryPolicy| -> Vec<u64> {
            (1..14).map(|step| policy.back_off(step, 0.0).as_secs()).collect()
        };
        let usual = [1, 2, 4, 8, 16, 32, 60, 120, 240, 480, 960, 1920, 3600];
        assert_eq!(waits(&policy()), usual);
        let brief = RetryPolicy { longest: Duration::from_secs(5), ..policy() };
        assert_eq!(waits(&brief)[..4], [1, 2, 4, 5]);
        assert!(waits(&brief)[4..].iter().all(|seconds| *seconds == 5));
    }

    #[test]
    fn nonsense_does_not_spin() {
        let mut random = Random::new(1);
        let bad = RetryPolicy { first: Duration::ZERO, factor: f64::NAN, ..policy() };
        assert_eq!(bad.delay(3, &mut random), SHORTEST);
    }
}
