//! Many failed logins: passwords are being guessed, or a client has an old one.

use crate::mutex::lock;
use mail::Mono;
use mta::metrics::Metrics;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Minimum number within an hour.
const FAILURES_MIN: u64 = 100;
/// Factor over the hour before.
const FACTOR: u64 = 10;
/// Resolution of the count.
const MINUTE: Duration = Duration::from_secs(60);
const MINUTES_PER_HOUR: usize = 60;

/// Failed logins of all shards.
pub(super) struct FailedLogins {
    shards: Vec<Arc<Metrics>>,
    hours: Mutex<TwoHours>,
}

impl FailedLogins {
    pub(super) fn of(shards: &[Arc<Metrics>]) -> FailedLogins {
        FailedLogins { shards: shards.to_vec(), hours: Mutex::default() }
    }
}

impl ProblemKind for FailedLogins {
    fn name(&self) -> &'static str {
        "login_failures"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let total = self.shards.iter().map(|shard| shard.login_failures.get()).sum();
        let mut hours = lock(&self.hours);
        hours.note(now.mono, total);
        let (last, before) = hours.counts();
        if last >= FAILURES_MIN && last >= before.saturating_mul(FACTOR) {
            let text = format!("{last} logins failed within an hour, {before} in the hour before");
            let step = "`login_failed` in the events names user and client; reject the network \
                        with `[[access]]`";
            found(DetectedProblem::warning("", text).next_step(step));
        }
    }
}

/// A counter's values at the last 121 full minutes, the latest last.
#[derive(Debug, Default)]
struct TwoHours {
    at_minutes: VecDeque<u64>,
    minute: u64,
    latest: u64,
}

impl TwoHours {
    /// The counter has this value at `now`.
    fn note(&mut self, now: Mono, total: u64) {
        let minute = now.0 / u64::try_from(MINUTE.as_micros()).unwrap_or(u64::MAX);
        if self.at_minutes.is_empty() {
            self.minute = minute;
            // The counter starts with the process. Failures before the first reading belong to its minute.
            self.at_minutes.push_back(0);
        }
        // Minutes without a reading have the value that was read last.
        let passed = minute.saturating_sub(self.minute).min(2 * MINUTES_PER_HOUR as u64 + 1);
        for _ in 0..passed {
            self.at_minutes.push_back(self.latest);
        }
        while self.at_minutes.len() > 2 * MINUTES_PER_HOUR {
            self.at_minutes.pop_front();
        }
        (self.minute, self.latest) = (minute, total);
    }

    /// Counts of the last hour and of the hour before, to the minute.
    fn counts(&self) -> (u64, u64) {
        let back = |minutes: usize| {
            let at = self.at_minutes.len().saturating_sub(minutes);
            self.at_minutes.get(at).copied().unwrap_or(self.latest)
        };
        let (hour, two) = (back(MINUTES_PER_HOUR), back(2 * MINUTES_PER_HOUR));
        (self.latest.saturating_sub(hour), hour.saturating_sub(two))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::problems::Problems;

    #[test]
    fn ten_times_the_hour_before_and_a_hundred_are_a_problem_for_an_hour() {
        let shards = [Arc::<Metrics>::default(), Arc::default()];
        let problems = Problems::default();
        problems.register(Arc::new(FailedLogins::of(&shards)));
        // Before the first reading, too.
        shards[1].login_failures.add(1);
        let count = |minute: u32| {
            let mono = Mono(0) + MINUTE * minute;
            problems.ask(ClockReading { mono, ..ClockReading::default() }).len()
        };
        assert_eq!(count(0), 0);
        shards[0].login_failures.add(60);
        shards[1].login_failures.add(38);
        assert_eq!(count(1), 0, "99");
        shards[1].login_failures.inc();
        assert_eq!(count(2), 1, "100, and none before");
        assert_eq!(count(59), 1);
        assert_eq!(count(62), 0, "an hour without one");
        shards[0].login_failures.add(999);
        assert_eq!(count(63), 0, "less than ten times the 100 before");
        shards[0].login_failures.inc();
        assert_eq!(count(64), 1);
        assert_eq!(count(500), 0);
    }
}
