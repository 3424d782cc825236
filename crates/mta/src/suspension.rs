//! Next hops, and domains that can't be looked up, that are left alone for a while: told once for
//! all shards, and remembered for whoever asks how the server is.

use crate::event::{Event, Kind, Suspension};
use crate::outcome::wall_of;
use crate::seams::{Time, World};
use crate::shard::Shard;
use mail::Failure;
use queue::{ReadyId, ScheduledId, Suspended};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is suspended, over all shards.
#[derive(Debug, Default)]
pub struct Suspensions {
    targets: Mutex<BTreeMap<Arc<str>, State>>,
}

#[derive(Debug)]
struct State {
    /// The last step that was told.
    step: u16,
    /// Recipients that wait, by shard.
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

    /// A shard leaves `target` alone for the `step`-th time. `Some` if no other shard told of that
    /// step before: how many recipients wait, as far as shards have said.
    fn suspend(
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

    /// It takes mail again, or nothing waits for it on this shard any more. How many steps it
    /// had, if somebody should be told.
    fn resume(&self, target: &str, shard: u16, recovered: bool) -> Option<u16> {
        let mut targets = self.lock();
        let state = targets.get_mut(target)?;
        state.recipients.remove(&shard);
        let step = state.step;
        if recovered || state.recipients.is_empty() {
            targets.remove(target);
        }
        recovered.then_some(step)
    }

    /// How many are suspended.
    #[must_use]
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    /// A sentence about all, if there are any: how many, and the one for which most wait.
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

impl<W: World> Shard<W> {
    /// The queue leaves a next hop alone.
    pub(crate) fn tell_suspended(&self, suspended: &Suspended) {
        let Some(target) = self.target_of(suspended.ready) else { return };
        let Suspended { step, recipients, failure, until, .. } = suspended;
        self.suspend(&target, (*step, *recipients), failure.clone(), *until);
    }

    /// The queue sends there again.
    pub(crate) fn tell_resumed(&self, ready: ReadyId, recovered: bool) {
        let Some(target) = self.target_of(ready) else { return };
        self.resume(&target, recovered);
    }

    /// The question where mail for a domain goes was in vain.
    pub(crate) fn tell_unresolved(&self, scheduled: ScheduledId, failure: &Arc<Failure>) {
        let (target, trouble) = {
            let queue = self.queue.borrow();
            let Some(key) = queue.scheduled_key(scheduled) else { return };
            (Arc::<str>::from(key.domain.as_str()), queue.trouble(scheduled))
        };
        let Some((step, until, recipients)) = trouble else { return };
        self.suspend(&target, (step, recipients), Some(Arc::clone(failure)), until);
    }

    /// It was answered, after questions in vain.
    pub(crate) fn tell_resolved(&self, domain: &str) {
        self.resume(domain, true);
    }

    fn target_of(&self, ready: ReadyId) -> Option<Arc<str>> {
        self.queue.borrow().ready_key(ready).map(|key| Arc::clone(&key.next_hop))
    }

    fn suspend(
        &self,
        target: &Arc<str>,
        (step, recipients): (u16, u32),
        failure: Option<Arc<Failure>>,
        until: mail::Mono,
    ) {
        let reason = || match &failure {
            Some(failure) => failure.to_string(),
            None => "connections keep breaking".to_owned(),
        };
        let known = &self.shared.suspensions;
        let told = known.suspend(target, self.number, (step, recipients), reason);
        let Some(recipients) = told else { return };
        self.metrics.suspensions.inc();
        if step == 1 {
            let reason = reason();
            self.console.warn(
                "next_hop",
                format_args!(
                    "suspended next_hop={target} recipients={recipients} reason={reason:?}"
                ),
            );
        }
        if self.events.is_on() {
            let suspension = Suspension {
                target: Arc::clone(target),
                step,
                recipients,
                failure,
                next_try: wall_of(self, until),
            };
            self.emit_of_none(Kind::Suspended(Box::new(suspension)));
        }
    }

    fn resume(&self, target: &str, recovered: bool) {
        let told = self.shared.suspensions.resume(target, self.number, recovered);
        let Some(step) = told else { return };
        self.console.warn("next_hop", format_args!("resumed next_hop={target} pauses={step}"));
        if self.events.is_on() {
            self.emit_of_none(Kind::Resumed { target: Arc::from(target), step });
        }
    }

    /// An event that is about no message.
    fn emit_of_none(&self, kind: Kind) {
        let at = self.world.time().wall();
        self.events.emit(Event { at, message: None, recipients: smallvec::smallvec![], kind });
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
