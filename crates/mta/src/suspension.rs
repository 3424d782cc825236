//! Suspensions after failures, of next hops and of domains that can't be resolved: reported once for all shards, and a
//! problem in the list.

pub use crate::event::SuspendedTarget;
use crate::problems::{ClockReading, DetectedProblem, ProblemKind};
use mail::Wall;
use queue::{ReadyId, ScheduledId, WaitingCount};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of suspensions in the list of problems, those with the most waiting recipients; further ones are
/// counted.
pub const LISTED_SUSPENSIONS_MAX: usize = 20;
/// A suspended next hop that DNS names is a warning from this number of waiting recipients on, if they are a tenth of
/// the queue.
const WARNING_RECIPIENTS_MIN: u64 = 10;
/// The part of the queue.
const WARNING_PART: u64 = 10;

/// A suspended queue of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StoppedQueue {
    Ready(u16, ReadyId),
    Scheduled(u16, ScheduledId),
}

/// A suspension in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentSuspension {
    pub target: SuspendedTarget,
    /// Time of its first report.
    pub since: Wall,
    /// Waiting recipients of all shards.
    pub recipients: u64,
    /// The last failure.
    pub reason: String,
    /// The configuration names the next hop; it was not found in the DNS.
    pub is_configured: bool,
}

/// The suspensions, over all shards.
#[derive(Debug, Default)]
pub struct Suspensions {
    targets: Mutex<BTreeMap<SuspendedTarget, State>>,
}

#[derive(Debug)]
struct State {
    /// The last step that was reported; 0 after a recovery on one shard.
    step: u16,
    since: Wall,
    /// The suspended queues, with their waiting recipients.
    queues: BTreeMap<StoppedQueue, WaitingCount>,
    reason: String,
}

impl State {
    fn new(since: Wall) -> State {
        State { step: 0, since, queues: BTreeMap::new(), reason: String::new() }
    }

    fn waiting(&self) -> u64 {
        self.queues.values().map(|waiting| u64::from(waiting.get())).sum()
    }
}

impl Suspensions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SuspendedTarget, State>> {
        self.targets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue of a shard is suspended for the `step`-th time. Returns the number of waiting recipients, if this step
    /// was not reported before.
    pub(crate) fn suspend(
        &self,
        target: &SuspendedTarget,
        (queue, waiting): (StoppedQueue, WaitingCount),
        (step, now): (u16, Wall),
        reason: impl FnOnce() -> String,
    ) -> Option<u64> {
        let mut targets = self.lock();
        let state = targets.entry(target.clone()).or_insert_with(|| State::new(now));
        state.queues.insert(queue, waiting);
        if step <= state.step {
            return None;
        }
        state.step = step;
        state.reason = reason();
        Some(state.waiting())
    }

    /// A queue sends again, or has no mail left. Returns the number of steps, if that is due to be reported: the first
    /// queue that recovers, or the last one that is empty. Other queues of the target stay suspended until their own
    /// next try.
    pub(crate) fn resume(
        &self,
        target: &SuspendedTarget,
        queue: StoppedQueue,
        recovered: bool,
    ) -> Option<u16> {
        let mut targets = self.lock();
        let state = targets.get_mut(target)?;
        state.queues.remove(&queue);
        let step = state.step;
        if recovered {
            state.step = 0;
        }
        let is_last = state.queues.is_empty();
        if is_last {
            targets.remove(target);
        }
        ((recovered || is_last) && step > 0).then_some(step)
    }

    /// The suspensions with waiting mail, those with the most recipients first: at most `max`. Then the number and the
    /// recipients of the rest.
    #[must_use]
    pub fn largest(&self, max: usize) -> (Vec<CurrentSuspension>, usize, u64) {
        let mut targets = self.lock();
        // Queues are dropped once they have been empty for some time.
        targets.retain(|_, state| {
            state.queues.retain(|_, waiting| waiting.is_current());
            !state.queues.is_empty()
        });
        let counted = targets.iter().map(|(target, state)| (state.waiting(), target, state));
        let mut all: Vec<_> = counted.filter(|(recipients, ..)| *recipients > 0).collect();
        all.sort_by_key(|(recipients, ..)| Reverse(*recipients));
        let (listed, others) = all.split_at(all.len().min(max));
        let current =
            |(recipients, target, state): &(u64, &SuspendedTarget, &State)| CurrentSuspension {
                target: (*target).clone(),
                since: state.since,
                recipients: *recipients,
                reason: state.reason.clone(),
                is_configured: is_configured(target, state),
            };
        let waiting = others.iter().map(|(recipients, ..)| recipients).sum();
        (listed.iter().map(current).collect(), others.len(), waiting)
    }

    /// The number of suspensions with waiting mail.
    #[must_use]
    pub fn count(&self) -> usize {
        let is_waiting = |queues: &BTreeMap<StoppedQueue, WaitingCount>| {
            queues.values().any(|waiting| waiting.is_current() && waiting.get() > 0)
        };
        self.lock().values().filter(|state| is_waiting(&state.queues)).count()
    }

    /// A sentence about all suspensions, if any: their number, and the one with the most waiting recipients.
    #[must_use]
    pub fn summary(&self) -> Option<String> {
        let (largest, others, _) = self.largest(1);
        let CurrentSuspension { target, recipients, reason, .. } = largest.first()?;
        Some(match others + 1 {
            1 => format!("{target} is suspended, {recipients} recipients wait: {reason}"),
            count => format!(
                "{count} next hops are suspended; most recipients ({recipients}) wait for \
                 {target}: {reason}"
            ),
        })
    }
}

/// Next hops of the channel `mx` and domains without an answer were not chosen by the operator.
fn is_configured(target: &SuspendedTarget, state: &State) -> bool {
    let is_hop = state.queues.keys().any(|queue| matches!(queue, StoppedQueue::Ready(..)));
    is_hop && !target.next_hop.starts_with("mx:")
}

/// Suspended next hops and domains as problems.
pub(crate) struct SuspendedHops {
    pub(crate) suspensions: Arc<Suspensions>,
    /// Queued recipients of the process.
    pub(crate) queued: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl SuspendedHops {
    fn is_serious(&self, one: &CurrentSuspension) -> bool {
        let part = (self.queued)() / WARNING_PART;
        one.is_configured || one.recipients >= WARNING_RECIPIENTS_MIN.max(part)
    }
}

impl ProblemKind for SuspendedHops {
    fn name(&self) -> &'static str {
        "next_hop"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let (listed, others, recipients) = self.suspensions.largest(LISTED_SUSPENSIONS_MAX);
        for one in &listed {
            let CurrentSuspension { target, recipients, reason, .. } = one;
            let text = format!("{target} is suspended, {recipients} recipients wait: {reason}");
            let about = target.to_string();
            let problem = match self.is_serious(one) {
                true => DetectedProblem::warning(about, text),
                false => DetectedProblem::notice(about, text),
            };
            found(
                problem
                    .since(one.since)
                    .next_step("it is tried again by itself; `postrider queue retry` tries it now"),
            );
        }
        if others > 0 {
            let text =
                format!("{others} further next hops are suspended, {recipients} recipients wait");
            found(
                DetectedProblem::notice("(others)", text)
                    .next_step("`postrider queue summary` has the numbers"),
            );
        }
    }

    /// Begin and end have lines of their own, with the step.
    fn has_own_lines(&self) -> bool {
        true
    }

    /// `suspended` and `resumed`.
    fn has_own_events(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::Problems;

    fn target(source: &str) -> SuspendedTarget {
        SuspendedTarget { next_hop: "mx:out:a.test:25".into(), source: source.into() }
    }

    fn all(known: &Suspensions) -> Vec<CurrentSuspension> {
        known.largest(usize::MAX).0
    }

    /// A ready queue of a shard, with its waiting recipients.
    fn queue(shard: u16, ready: u32, recipients: u32) -> (StoppedQueue, WaitingCount) {
        let waiting = WaitingCount::default();
        waiting.set(recipients);
        (StoppedQueue::Ready(shard, ReadyId(ready)), waiting)
    }

    #[test]
    fn each_step_is_reported_once_for_all_shards() {
        let known = Suspensions::default();
        let (of_0, of_1) = (queue(0, 7, 7), queue(1, 7, 5));
        let suspend = |queue: &(StoppedQueue, WaitingCount), step| {
            let reason = || "refused".to_owned();
            known.suspend(&target(""), queue.clone(), (step, Wall(9)), reason)
        };
        assert_eq!(suspend(&of_0, 1), Some(7));
        assert_eq!(suspend(&of_1, 1), None);
        assert_eq!(suspend(&of_1, 2), Some(12));
        assert_eq!(suspend(&of_0, 2), None);
        of_0.1.set(9);
        let text = known.summary().unwrap();
        assert_eq!(text, "mx:out:a.test:25 is suspended, 14 recipients wait: refused");
        assert_eq!(known.resume(&target(""), of_0.0, true), Some(2));
        assert_eq!(all(&known)[0].recipients, 5, "the other shard waits for its next try");
        assert_eq!(suspend(&of_1, 3), Some(5), "and reports it");
        assert_eq!(known.resume(&target(""), of_1.0, true), Some(3));
        assert_eq!(known.resume(&target(""), of_0.0, true), None);
        assert_eq!((known.count(), known.summary()), (0, None));
    }

    #[test]
    fn sources_of_a_pool_are_suspended_independently() {
        let known = Suspensions::default();
        let queues =
            [("ip-1", queue(0, 1, 13)), ("ip-2", queue(0, 2, 13)), ("ip-3", queue(0, 3, 14))];
        for (source, queue) in &queues {
            let told = known.suspend(&target(source), queue.clone(), (1, Wall(9)), String::new);
            assert_eq!(told, Some(u64::from(queue.1.get())));
        }
        assert_eq!(known.resume(&target("ip-2"), queues[1].1.0, false), Some(1), "it is empty");
        let all = all(&known);
        let texts: Vec<_> =
            all.iter().map(|one| (one.target.to_string(), one.recipients)).collect();
        let left = [("mx:out:a.test:25 from ip-3", 14), ("mx:out:a.test:25 from ip-1", 13)];
        assert_eq!(texts, left.map(|(text, recipients)| (text.to_owned(), recipients)));
    }

    #[test]
    fn two_queues_of_one_target_and_shard_add_up() {
        let known = Suspensions::default();
        let both = [queue(0, 1, 3), queue(0, 2, 4)];
        for queue in &both {
            known.suspend(&target(""), queue.clone(), (1, Wall(9)), String::new);
        }
        assert_eq!(all(&known)[0].recipients, 7);
        known.resume(&target(""), both[0].0, false);
        assert_eq!(all(&known)[0].recipients, 4);
    }

    #[test]
    fn dropped_queue_ends_its_suspension() {
        let known = Suspensions::default();
        known.suspend(&target(""), queue(0, 1, 3), (1, Wall(9)), String::new);
        assert_eq!((known.count(), all(&known)), (0, Vec::new()));
    }

    #[test]
    fn suspensions_are_problems_by_their_weight() {
        let suspensions = Arc::<Suspensions>::default();
        let of_dns: Vec<_> = (0..30).map(|n| queue(0, n, n + 1)).collect();
        for (n, queue) in of_dns.iter().enumerate() {
            let target = SuspendedTarget { next_hop: format!("mx:out:{n}").into(), ..target("") };
            suspensions.suspend(&target, queue.clone(), (1, Wall(9)), String::new);
        }
        let configured = queue(1, 0, 40);
        let smarthost = SuspendedTarget { next_hop: "smtp:out:relay:25".into(), ..target("") };
        suspensions.suspend(&smarthost, configured.clone(), (1, Wall(9)), String::new);
        let problems = Problems::default();
        let kind = SuspendedHops { suspensions, queued: Box::new(|| 290) };
        problems.register(Arc::new(kind));
        let all = problems.ask(ClockReading::default());
        assert_eq!(all.len(), LISTED_SUSPENSIONS_MAX + 1);
        assert!(all.iter().all(|one| one.kind == "next_hop"));
        let warnings = |all: &[crate::problems::Problem]| {
            let warnings =
                all.iter().filter(|one| one.severity == crate::problems::Severity::Warning);
            warnings.map(|one| one.about.clone()).collect::<Vec<_>>()
        };
        assert_eq!(warnings(&all), ["smtp:out:relay:25", "mx:out:29", "mx:out:28"], "29 of 290");
        let others = all.last().unwrap();
        assert_eq!(others.text, "11 further next hops are suspended, 66 recipients wait");
        configured.1.set(1);
        let all = problems.ask(ClockReading::default());
        assert!(!warnings(&all).contains(&"smtp:out:relay:25".to_owned()), "not among the first");
    }
}
