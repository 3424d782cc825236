//! Limit of reports per sender.

use mail::{Mailbox, Mono};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The counting period.
const HOUR: Duration = Duration::from_secs(3600);
/// Maximum number of senders counted separately in an hour. Further ones share a count, so that invented senders gain
/// nothing.
const SENDERS_MAX: usize = 10_000;

/// Reports by sender, over all shards. Used for reports about mail of unauthenticated clients only.
#[derive(Debug, Default)]
pub(crate) struct ReportLimit {
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    since: Mono,
    // Clients choose sender addresses: an ordered map can't be flooded with collisions.
    senders: BTreeMap<Box<str>, u32>,
    others: u32,
}

impl ReportLimit {
    /// Returns true, and counts a report, if `sender` has had fewer than `max` in this hour.
    pub(crate) fn admit(&self, sender: &Mailbox, now: Mono, max: u32) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if now.since(counts.since) >= HOUR {
            *counts = Counts { since: now, ..Counts::default() };
        }
        let counts = &mut *counts;
        let is_full = counts.senders.len() >= SENDERS_MAX;
        let count = match counts.senders.get_mut(sender.as_str()) {
            Some(count) => count,
            None if is_full => &mut counts.others,
            None => counts.senders.entry(sender.as_str().into()).or_insert(0),
        };
        let is_admitted = *count < max;
        *count += u32::from(is_admitted);
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(n: usize) -> Mailbox {
        Mailbox::parse(&format!("u{n}@a.test"), false).unwrap()
    }

    #[test]
    fn a_sender_gets_so_many_an_hour() {
        let limit = ReportLimit::default();
        let admitted =
            |at: u64, n| (0..10).filter(|_| limit.admit(&mailbox(n), Mono(at), 3)).count();
        assert_eq!((admitted(5, 1), admitted(6, 2), admitted(7, 1)), (3, 3, 0));
        let hour = 3_600_000_000;
        assert_eq!((admitted(hour - 1, 1), admitted(hour, 1)), (0, 3));
    }

    #[test]
    fn made_up_senders_take_no_memory_without_end() {
        let limit = ReportLimit::default();
        let admitted =
            (0..2 * SENDERS_MAX).filter(|n| limit.admit(&mailbox(*n), Mono(1), 3)).count();
        assert_eq!(admitted, SENDERS_MAX + 3);
        assert_eq!(limit.counts.lock().unwrap().senders.len(), SENDERS_MAX);
    }
}
