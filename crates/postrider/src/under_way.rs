//! A registry of running file operations: other threads can see operations that have been running for long.

use crate::mutex::lock;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Work that takes longer hangs, as far as people are concerned.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(5);

/// All running operations; clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkRegistry(Arc<Mutex<WorkList>>);

#[derive(Debug, Default)]
struct WorkList {
    next: u64,
    works: BTreeMap<u64, (Instant, String)>,
}

/// Work that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkGuard {
    under_way: WorkRegistry,
    number: u64,
}

impl WorkRegistry {
    /// Begins some; `what` reads on as "… has not answered for 7 s".
    pub(crate) fn begin(&self, what: impl Into<String>) -> WorkGuard {
        let mut all = lock(&self.0);
        let number = all.next;
        all.next += 1;
        all.works.insert(number, (Instant::now(), what.into()));
        WorkGuard { under_way: self.clone(), number }
    }

    /// Begins an operation, unless `most` of the same kind are running: a hanging disk must not use all threads.
    ///
    /// # Errors
    /// Returns a sentence about the oldest operation.
    pub(crate) fn begin_at_most(&self, most: usize, what: &str) -> Result<WorkGuard, String> {
        let (count, oldest) = {
            let all = lock(&self.0);
            let mut same = all.works.values().filter(|(_, known)| known == what);
            let oldest = same.next().map(|(since, _)| since.elapsed());
            (oldest.map_or(0, |_| same.count() + 1), oldest.unwrap_or_default())
        };
        if count >= most {
            return Err(format!("{what} has not responded for {} s", oldest.as_secs()));
        }
        Ok(self.begin(what))
    }

    /// A sentence about the oldest that hangs.
    pub(crate) fn oldest(&self) -> Option<String> {
        self.hanging(HANGS_AFTER).into_iter().next().map(|(_, text)| text)
    }

    /// All that hangs, the oldest first, each once, with a sentence.
    fn hanging(&self, after: Duration) -> Vec<(String, String)> {
        let all = lock(&self.0);
        let mut named = BTreeSet::new();
        let hanging = all.works.values().filter(|(_, what)| named.insert(what));
        let hanging = hanging.filter_map(|(since, what)| {
            let wait = since.elapsed();
            let text = || format!("{what} has not responded for {} s", wait.as_secs());
            (wait >= after).then(|| (what.clone(), text()))
        });
        hanging.collect()
    }
}

impl ProblemKind for WorkRegistry {
    fn name(&self) -> &'static str {
        "hanging_file"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for (what, text) in self.hanging(HANGS_AFTER) {
            found(
                DetectedProblem::warning(what, text)
                    .next_step("check its disk; the previous content stays in force"),
            );
        }
    }
}

impl Drop for WorkGuard {
    fn drop(&mut self) {
        lock(&self.under_way.0).works.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_named_until_it_ends() {
        let under_way = WorkRegistry::default();
        let first = under_way.clone().begin("/mnt/a");
        let second = under_way.begin("/mnt/b");
        assert_eq!(under_way.oldest(), None);
        let hanging = || under_way.hanging(Duration::ZERO);
        let all = ["/mnt/a", "/mnt/b"]
            .map(|what| (what.to_owned(), format!("{what} has not responded for 0 s")));
        assert_eq!(hanging(), all);
        drop(first);
        assert_eq!(hanging(), all[1..]);
        // Another of the same is no other problem, and there is an end to how many hang.
        let third = under_way.begin_at_most(2, "/mnt/b").unwrap();
        assert_eq!(hanging(), all[1..]);
        let error = under_way.begin_at_most(2, "/mnt/b").unwrap_err();
        assert_eq!(error, "/mnt/b has not responded for 0 s");
        drop((second, third));
        assert_eq!(hanging(), []);
        assert!(under_way.begin_at_most(1, "/mnt/b").is_ok());
    }
}
