//! The judge of who waits for memory: of those who wait somebody gets it in time.

use std::collections::BTreeSet;

/// A recipient, and how many hosts have heard MAIL for it. Who got memory is offered to a host, and may wait again for
/// the next.
pub type Wait = (String, u32);

/// Who waited for memory, and since when none of them has got it.
#[derive(Debug, Default)]
pub struct MemoryWaits {
    before: BTreeSet<Wait>,
    since_us: u64,
}

impl MemoryWaits {
    /// These wait now. What is wrong, for people, if none of those who waited got any for longer than `within_us`.
    pub fn look(&mut self, waiting: BTreeSet<Wait>, now_us: u64, within_us: u64) -> Option<String> {
        if self.before.is_empty() || !self.before.is_subset(&waiting) {
            (self.before, self.since_us) = (waiting, now_us);
            return None;
        }
        if now_us <= self.since_us + within_us {
            return None;
        }
        let (count, ms) = (self.before.len(), (now_us - self.since_us) / 1_000);
        self.since_us = now_us;
        Some(format!("memory stands still: none of {count} who wait had any in {ms} ms"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(all: &[(&str, u32)]) -> BTreeSet<Wait> {
        all.iter().map(|&(name, mails)| (name.to_owned(), mails)).collect()
    }

    #[test]
    fn where_nobody_gets_any_it_stands_still_though_others_join() {
        let mut judge = MemoryWaits::default();
        assert_eq!(judge.look(waits(&[("a", 1), ("b", 0)]), 1_000, 5_000), None);
        assert_eq!(judge.look(waits(&[("a", 1), ("b", 0), ("c", 0)]), 6_000, 5_000), None);
        let wrong = judge.look(waits(&[("a", 1), ("b", 0), ("d", 0)]), 7_000, 5_000);
        let wrong = wrong.expect("it stands still");
        assert_eq!(wrong, "memory stands still: none of 2 who wait had any in 6 ms");
    }

    #[test]
    fn who_got_some_and_waits_again_has_waited_for_another_time() {
        let mut judge = MemoryWaits::default();
        for (now_us, mails) in [(1_000, 0), (4_000, 0), (7_000, 1), (10_000, 1)] {
            assert_eq!(judge.look(waits(&[("a", mails), ("b", 0)]), now_us, 5_000), None);
        }
        assert!(judge.look(waits(&[("a", 1), ("b", 0)]), 13_000, 5_000).is_some());
    }
}
