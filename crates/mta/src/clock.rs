//! Plausibility of the clock.

use mail::Wall;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Maximum distance between the clock and the newest record of the spool.
pub(crate) const CLOCK_ERROR_MAX: Duration = Duration::from_secs(86_400);
/// Set if the clock was too far from the spool's newest record at the start. No mail expires then: mail that is a week
/// old by a wrong clock may have arrived this morning.
#[derive(Debug, Default)]
pub struct ClockDoubt {
    doubted: AtomicBool,
    /// Time of the newest record, in milliseconds.
    newest_ms: AtomicU64,
}

impl ClockDoubt {
    /// Compares the clock with the newest record of the spool at the start.
    #[must_use]
    pub fn new(newest: Option<Wall>, now: Wall) -> ClockDoubt {
        let doubt = ClockDoubt::default();
        if let Some(newest) = newest {
            doubt.newest_ms.store(newest.0, Ordering::Relaxed);
            doubt.doubted.store(distance(newest, now) > CLOCK_ERROR_MAX, Ordering::Relaxed);
        }
        doubt
    }

    /// Returns true until the clock is confirmed.
    #[must_use]
    pub fn is_doubted(&self) -> bool {
        self.doubted.load(Ordering::Relaxed)
    }

    /// Confirms the clock.
    pub fn trust(&self) {
        self.doubted.store(false, Ordering::Relaxed);
    }

    /// A sentence for operators, while the clock is in doubt.
    #[must_use]
    pub fn problem(&self, now: Wall) -> Option<String> {
        let newest = Wall(self.newest_ms.load(Ordering::Relaxed));
        let hours = distance(newest, now).as_secs() / 3_600;
        let (days, hours) = (hours / 24, hours % 24);
        let way = if now > newest { "ahead of" } else { "behind" };
        self.is_doubted().then(|| {
            format!(
                "the clock is {days}d {hours}h {way} the newest record of the spool ({newest}): \
                 no mail expires until the clock is corrected or confirmed with `postrider queue \
                 trust-clock`"
            )
        })
    }

    /// Returns true if the clock is near the newest record, `uptime` after the start.
    pub(crate) fn is_right(&self, now: Wall, uptime: Duration) -> bool {
        let newest = Wall(self.newest_ms.load(Ordering::Relaxed)).after(uptime);
        distance(newest, now) <= CLOCK_ERROR_MAX
    }
}

fn distance(a: Wall, b: Wall) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_more_than_a_day_off_is_not_believed() {
        let day = 86_400_000;
        let newest = Some(Wall(100 * day));
        assert!(!ClockDoubt::new(None, Wall(0)).is_doubted(), "an empty spool says nothing");
        for (now, doubted) in
            [(100 * day, false), (101 * day, false), (101 * day + 1, true), (99 * day - 1, true)]
        {
            let doubt = ClockDoubt::new(newest, Wall(now));
            assert_eq!(doubt.is_doubted(), doubted, "{now}");
            assert_eq!(doubt.problem(Wall(now)).is_some(), doubted);
        }
        let doubt = ClockDoubt::new(newest, Wall(106 * day));
        let said = doubt.problem(Wall(106 * day)).unwrap();
        assert!(said.starts_with("the clock is 6d 0h ahead of the newest record"), "{said}");
        assert!(!doubt.is_right(Wall(106 * day), Duration::from_secs(60)));
        assert!(doubt.is_right(Wall(100 * day + 60_000), Duration::from_secs(60)));
        doubt.trust();
        assert_eq!(doubt.problem(Wall(106 * day)), None);
    }
}
