//! Costs of syncs on a file system: one sync of the whole for a batch, or one per file and directory.

/// Minimum number of messages for a sync of the whole file system. On a disk with other users (ext4 without a journal)
/// 8 messages took 58 ms with single syncs and 14 ms with the whole. For 256 it was 330 ms and 33 to 250 ms. One or two
/// take equally long, and single syncs leave files of other programs alone.
pub(super) const WHOLE_MESSAGES_MIN: usize = 8;
/// Assumed cost of one message's single syncs without a recent measurement.
const EACH_ASSUMED_US: u64 = 400;
/// Maximum ratio of the time of the whole to that of single syncs. The whole uses less processor and disk, and times on
/// a busy machine vary by this factor between batches.
const WHOLE_MAY_TAKE: u64 = 2;
/// Lifetime of a measurement: other programs may have started or stopped writing to the file system since.
const MEASURED_MS: u64 = 60_000;
/// Time for which files are synced singly after a failed sync of the whole. The write that failed may belong to any
/// program, and must not block mail forever.
const FAILED_MS: u64 = 600_000;

/// Measured costs of one file system. Times are from a monotonic clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SyncCosts {
    each: Option<SyncSample>,
    whole: Option<SyncSample>,
    failed_ms: Option<u64>,
}

/// Time of syncs, by message.
#[derive(Clone, Copy, Debug)]
struct SyncSample {
    us: u64,
    at_ms: u64,
}

impl SyncSample {
    /// The mean of the old value and the new sample.
    fn follow(known: &mut Option<SyncSample>, now_ms: u64, us: u64) {
        let us = lately(*known, now_ms).map_or(us, |known| known.midpoint(us));
        *known = Some(SyncSample { us, at_ms: now_ms });
    }
}

fn lately(known: Option<SyncSample>, now_ms: u64) -> Option<u64> {
    let known = known.filter(|known| now_ms.saturating_sub(known.at_ms) < MEASURED_MS)?;
    Some(known.us)
}

impl SyncCosts {
    /// Returns true if this number of messages is better synced with the whole file system.
    pub(super) fn is_whole_better(&self, now_ms: u64, messages: usize) -> bool {
        let has_failed = self.failed_ms.is_some_and(|at| now_ms.saturating_sub(at) < FAILED_MS);
        if messages < WHOLE_MESSAGES_MIN || has_failed {
            return false;
        }
        let each_us = lately(self.each, now_ms).unwrap_or(EACH_ASSUMED_US);
        // A method without a recent measurement is tried.
        lately(self.whole, now_ms)
            .is_none_or(|whole_us| whole_us <= each_us.saturating_mul(WHOLE_MAY_TAKE))
    }

    /// Records the time of single syncs for `messages` messages.
    pub(super) fn handle_each(&mut self, now_ms: u64, took_us: u64, messages: usize) {
        // A sample of few messages does not predict many.
        if messages >= WHOLE_MESSAGES_MIN {
            SyncSample::follow(&mut self.each, now_ms, took_us / messages as u64);
        }
    }

    /// Records the time of a sync of the whole for `messages` messages.
    pub(super) fn handle_whole(&mut self, now_ms: u64, took_us: u64, messages: usize) {
        SyncSample::follow(&mut self.whole, now_ms, took_us / messages.max(1) as u64);
    }

    /// The whole could not be synced.
    pub(super) fn handle_whole_failed(&mut self, now_ms: u64) {
        self.failed_ms = Some(now_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: usize = 100;

    #[test]
    fn few_messages_are_synced_by_themselves() {
        let costs = SyncCosts::default();
        assert!(!costs.is_whole_better(0, WHOLE_MESSAGES_MIN - 1));
        assert!(costs.is_whole_better(0, WHOLE_MESSAGES_MIN));
    }

    #[test]
    fn the_whole_is_synced_unless_it_takes_much_longer() {
        let all_us = |each_us: u64| each_us * MANY as u64;
        let mut costs = SyncCosts::default();
        let assumed_us = WHOLE_MAY_TAKE * EACH_ASSUMED_US;
        costs.handle_whole(0, all_us(assumed_us), MANY);
        assert!(costs.is_whole_better(0, MANY));
        // Others have much to write.
        costs.handle_whole(1, all_us(assumed_us + 2), MANY);
        assert!(!costs.is_whole_better(1, MANY));
        // That it is still better shows once the others are measured,
        costs.handle_each(2, all_us(10 * EACH_ASSUMED_US), MANY);
        assert!(costs.is_whole_better(2, MANY));
        // or that it is not.
        (0..10).for_each(|_| costs.handle_each(3, all_us(1), MANY));
        assert!(!costs.is_whole_better(3, MANY));
        // A few say nothing.
        costs.handle_each(4, 1_000_000_000, 1);
        assert!(!costs.is_whole_better(4, MANY));
    }

    #[test]
    fn what_was_dear_is_tried_again() {
        let mut costs = SyncCosts::default();
        costs.handle_whole(0, 20_000_000, MANY);
        assert!(!costs.is_whole_better(MEASURED_MS - 1, MANY));
        assert!(costs.is_whole_better(MEASURED_MS, MANY));
    }

    #[test]
    fn what_failed_is_left_alone_for_longer() {
        let mut costs = SyncCosts::default();
        costs.handle_whole_failed(5);
        assert!(!costs.is_whole_better(5 + FAILED_MS - 1, MANY));
        assert!(costs.is_whole_better(5 + FAILED_MS, MANY));
    }
}
