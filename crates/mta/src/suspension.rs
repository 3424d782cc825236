//! Suspensions after failures, of next hops and of domains that can't be resolved: reported once for all shards, and
//! listed in `status`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The suspensions, over all shards.
#[derive(Debug, Default)]
pub struct Suspensions {
    targets: Mutex<BTreeMap<Arc<str>, State>>,
}

#[derive(Debug)]
struct State {
    /// The last step that was reported.
    step: u16,
    /// Waiting recipients, by shard.
    recipients: BTreeMap<u16, u32>,
    reason: String,
}

impl State {
    fn waiting(&self) -> u64 {
        self.recipients.values().map(|count| u64::from(*count)).sum()
    }
}

impl Suspensions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, State>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A shard suspends `target` for the `step`-th time. Returns the number of waiting recipients, as far as shards
    /// have reported it, if this step was not reported before.
    pub(crate) fn suspend(
        &self,
        target: &Arc<str>,
        shard: u16,
        (step, recipients): (u16, u32),
        reason: impl FnOnce() -> String,
    ) -> Option<u64> {
        let mut targets = self.lock();
        let state = targets.entry(Arc::clone(target)).or_insert_with(|| State {
            step: 0,
            recipients: BTreeMap::new(),
            reason: String::new(),
        });
        state.recipients.insert(shard, recipients);
        if step <= state.step {
            return None;
        }
        state.step = step;
        state.reason = reason();
        Some(state.waiting())
    }

    /// The target accepts mail again, or no mail waits for it on this shard. Returns the number of steps, if the
    /// recovery is due to be reported.
    pub(crate) fn resume(&self, target: &str, shard: u16, recovered: bool) -> Option<u16> {
        let mut targets = self.lock();
        let state = targets.get_mut(target)?;
        state.recipients.remove(&shard);
        let step = state.step;
        if recovered || state.recipients.is_empty() {
            targets.remove(target);
        }
        recovered.then_some(step)
    }

    /// The number of suspended targets.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// A sentence about all suspensions, if any: their number, and the one with the most waiting recipients.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let targets = self.lock();
        let (largest, state) = targets.iter().max_by_key(|(_, state)| state.waiting())?;
        let (count, waiting, reason) = (targets.len(), state.waiting(), &state.reason);
        Some(match count {
            1 => format!("{largest} is suspended, {waiting} recipients wait: {reason}"),
            _ => format!(
                "{count} next hops are suspended; most recipients ({waiting}) wait for {largest}: \
                 {reason}"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_told_once_for_all_shards_and_the_end_too() {
        let known = Suspensions::default();
        let target = Arc::<str>::from("smtp:a:25");
        let suspend = |shard, step, count| {
            known.suspend(&target, shard, (step, count), || "refused".to_owned())
        };
        assert_eq!(suspend(0, 1, 7), Some(7));
        assert_eq!(suspend(1, 1, 5), None);
        assert_eq!(suspend(1, 2, 5), Some(12));
        assert_eq!(suspend(0, 2, 9), None);
        let text = known.summary().unwrap();
        assert_eq!(text, "smtp:a:25 is suspended, 14 recipients wait: refused");
        assert_eq!(known.resume("smtp:a:25", 0, false), None);
        assert_eq!(known.count(), 1, "the other shard waits");
        assert_eq!(known.resume("smtp:a:25", 1, true), Some(2));
        assert_eq!(known.resume("smtp:a:25", 0, true), None);
        assert_eq!((known.count(), known.summary()), (0, None));
    }
}
