//! Where the sweep is.

use mail::Mono;
use std::time::Duration;

/// Between two chunks of entries, at most.
pub(crate) const STEP_MAX: Duration = Duration::from_secs(1);

/// The chunk of entries and the queues that come next, and when.
pub(crate) struct SweepCursor {
    pub(crate) chunk: u32,
    pub(crate) at: Mono,
    pub(crate) tidy_row: u32,
    pub(crate) tidy_at: Mono,
}

impl Default for SweepCursor {
    fn default() -> SweepCursor {
        SweepCursor { chunk: 0, at: Mono(0), tidy_row: 0, tidy_at: Mono(0) }
    }
}

impl SweepCursor {
    /// There are entries again.
    pub(crate) fn start(&mut self, now: Mono) {
        self.at = now + STEP_MAX;
    }

    /// Something changed for all entries.
    pub(crate) fn hurry(&mut self) {
        self.at = Mono(0);
    }
}
