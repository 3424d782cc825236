//! Position of the sweep.

use mail::Mono;
use std::time::Duration;

/// Between two chunks of entries, at most.
pub(crate) const STEP_MAX: Duration = Duration::from_secs(1);

/// Delay between two rushed chunks: other work runs in between.
const RUSHED_STEP: Duration = Duration::from_millis(1);

/// The next chunk of entries and next queues, and the time of the next step.
pub(crate) struct SweepCursor {
    pub(crate) chunk: u32,
    pub(crate) at: Mono,
    /// Chunks to sweep at once, because a change must not wait for the usual pass.
    pub(crate) rushed: u32,
    pub(crate) tidy_row: u32,
    pub(crate) tidy_at: Mono,
}

impl Default for SweepCursor {
    fn default() -> SweepCursor {
        SweepCursor { chunk: 0, at: Mono(0), rushed: 0, tidy_row: 0, tidy_at: Mono(0) }
    }
}

impl SweepCursor {
    /// Starts the sweep after a period without entries.
    pub(crate) fn start(&mut self, now: Mono) {
        self.at = now + STEP_MAX;
    }

    /// Makes the next step of the sweep due now: something changed for all entries.
    pub(crate) fn hurry(&mut self) {
        self.at = Mono(0);
    }

    /// Hurries, and sweeps all of `chunks` as rushed.
    pub(crate) fn rush(&mut self, chunks: u32) {
        self.hurry();
        self.rushed = chunks;
    }

    /// Delay between two chunks of a pass that usually takes `pass`.
    pub(crate) fn step(&mut self, pass: Duration, chunks: u32) -> Duration {
        if self.rushed > 0 {
            self.rushed -= 1;
            return RUSHED_STEP;
        }
        (pass / chunks).min(STEP_MAX)
    }
}
