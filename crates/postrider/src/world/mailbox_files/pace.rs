//! Scales the number of writers by their throughput. A busy local disk gets slower with each additional writer; a
//! network file system does not.

/// Writers at once, at most.
pub(super) const WRITERS_MAX: usize = 8;
/// Time between two decisions, in milliseconds.
const WINDOW_MS: u64 = 500;
/// A change of this part of the rate, in per cent, is one; less is chance.
const CHANGE_PERCENT: u64 = 5;
/// Number of decisions for which the best number is kept before a new trial.
const KEPT_WINDOWS: u32 = 20;

/// Decides by throughput.
#[derive(Debug)]
pub(super) struct WriterScaling {
    writers: usize,
    began_ms: Option<u64>,
    delivered: u64,
    /// A job waited for a writer in this window.
    was_short: bool,
    /// Deliveries per second in the last window, before the current trial.
    last_rate: Option<u64>,
    trial: Trial,
}

/// The change under trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    /// No trial for this number of windows.
    Rest(u32),
    /// One more than before.
    More,
    /// One less than before.
    Less,
}

impl WriterScaling {
    /// One writer, until more are better.
    pub(super) fn new() -> WriterScaling {
        WriterScaling::of(1)
    }

    /// Starts with this number of writers.
    pub(super) fn of(writers: usize) -> WriterScaling {
        WriterScaling {
            writers,
            began_ms: None,
            delivered: 0,
            was_short: false,
            last_rate: None,
            trial: Trial::Rest(1),
        }
    }

    /// The number of writers to run.
    pub(super) fn writers(&self) -> usize {
        self.writers
    }

    /// Counts deliveries completed by `now_ms`; `is_short` if more jobs wait and all writers are busy.
    pub(super) fn handle_delivered(&mut self, now_ms: u64, count: u64, is_short: bool) {
        let began_ms = *self.began_ms.get_or_insert(now_ms);
        self.delivered += count;
        self.was_short |= is_short;
        let took_ms = now_ms.saturating_sub(began_ms);
        if took_ms < WINDOW_MS {
            return;
        }
        let rate = self.delivered.saturating_mul(1_000) / took_ms;
        // A window is not usable if the load, not the disk, limited its rate, or after an idle period.
        if self.was_short && took_ms < 4 * WINDOW_MS {
            self.decide(rate);
        } else {
            self.end_trial();
        }
        (self.began_ms, self.delivered, self.was_short) = (Some(now_ms), 0, false);
    }

    fn decide(&mut self, rate: u64) {
        let last = self.last_rate.replace(rate);
        let change = |rate: u64| rate.saturating_mul(100 + CHANGE_PERCENT) / 100;
        match (self.trial, last) {
            (Trial::Rest(0), _) if self.writers == WRITERS_MAX => self.try_less(rate),
            (Trial::Rest(0), _) => self.try_more(),
            (Trial::Rest(left), _) => self.trial = Trial::Rest(left - 1),
            // Faster: on with it.
            (Trial::More, Some(last)) if rate >= change(last) => self.try_more(),
            (Trial::More, _) => {
                self.writers -= 1;
                self.try_less(last.unwrap_or(rate));
            }
            // With fewer it is as fast.
            (Trial::Less, Some(last)) if change(rate) >= last => self.try_less(rate),
            (Trial::Less, _) => {
                self.writers += 1;
                self.trial = Trial::Rest(KEPT_WINDOWS);
            }
        }
    }

    fn try_more(&mut self) {
        if self.writers < WRITERS_MAX {
            self.writers += 1;
            self.trial = Trial::More;
        } else {
            self.trial = Trial::Rest(KEPT_WINDOWS);
        }
    }

    /// `rate` is that of the present number.
    fn try_less(&mut self, rate: u64) {
        self.last_rate = Some(rate);
        if self.writers > 1 {
            self.writers -= 1;
            self.trial = Trial::Less;
        } else {
            self.trial = Trial::Rest(KEPT_WINDOWS);
        }
    }

    /// Reverts the change under trial, since its effect was not measured.
    fn end_trial(&mut self) {
        match self.trial {
            Trial::More => self.writers -= 1,
            Trial::Less => self.writers += 1,
            Trial::Rest(_) => return,
        }
        self.trial = Trial::Rest(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of a load that always waits for a disk that delivers so much by its writers.
    fn play(
        pace: &mut WriterScaling,
        seconds: u64,
        from_ms: u64,
        rate: impl Fn(usize) -> u64,
    ) -> Vec<usize> {
        let mut seen = Vec::new();
        for at_ms in (from_ms..from_ms + seconds * 1_000).step_by(10) {
            pace.handle_delivered(at_ms, rate(pace.writers()) / 100, true);
            seen.push(pace.writers());
        }
        seen
    }

    #[test]
    fn writers_grow_while_that_makes_it_faster() {
        let mut pace = WriterScaling::new();
        // A disk far away: each writer adds as much.
        let seen = play(&mut pace, 60, 0, |writers| writers as u64 * 1_000);
        assert_eq!(seen.iter().max(), Some(&WRITERS_MAX));
        let late = &seen[1_000..];
        let sum: usize = late.iter().sum();
        assert!(sum >= late.len() * (WRITERS_MAX - 1), "mostly all of them: {late:?}");
    }

    #[test]
    fn writers_shrink_when_more_are_slower() {
        let mut pace = WriterScaling::new();
        play(&mut pace, 30, 0, |writers| writers as u64 * 1_000);
        assert!(pace.writers() >= WRITERS_MAX - 1);
        // Now each makes it slower.
        let seen = play(&mut pace, 120, 30_000, |writers| 10_000 / writers as u64);
        assert_eq!(seen.iter().min(), Some(&1));
        let late = &seen[6_000..];
        let sum: usize = late.iter().sum();
        assert!(sum * 10 <= late.len() * 12, "mostly one: {late:?}");
    }

    #[test]
    fn the_best_number_is_found_and_kept() {
        let mut pace = WriterScaling::new();
        let best =
            |writers: usize| [0, 4_000, 7_000, 8_000, 7_000, 6_000, 5_000, 4_000, 3_000][writers];
        let seen = play(&mut pace, 120, 0, best);
        let late = &seen[2_000..];
        let at_best = late.iter().filter(|writers| **writers == 3).count();
        assert!(at_best * 10 >= late.len() * 7, "{at_best} of {}", late.len());
        assert!(late.iter().all(|writers| (2..=4).contains(writers)));
    }

    #[test]
    fn a_light_load_changes_nothing() {
        let mut pace = WriterScaling::new();
        for second in 0..100 {
            pace.handle_delivered(second * 1_000, 5, false);
            assert_eq!(pace.writers(), 1);
        }
        // Nor does a number stay that was being tried when the load went.
        let mut pace = WriterScaling::new();
        play(&mut pace, 1, 0, |_| 1_000);
        for second in 2..10 {
            pace.handle_delivered(second * 1_000, 5, false);
        }
        assert_eq!(pace.writers(), 1);
    }
}
