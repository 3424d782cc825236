//! Sources of pools that send nothing: their address or proxy fails, or a shaping rule suspends them.

use crate::control::Effect;
use crate::problems::{ClockReading, DetectedProblem, ProblemKind};
use crate::shaping::RulesInForce;
use config::shaping::Action;
use mail::{Mono, Wall};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time after the end of a pause during which the source is still a problem: its next attempt is in progress.
const NEXT_ATTEMPT: Duration = Duration::from_secs(15);
/// Maximum number of effects of shaping rules in the list of problems.
const EFFECTS_LISTED_MAX: usize = 20;

/// Failed sources, over all shards.
#[derive(Debug, Default)]
pub struct FailedSources(Mutex<BTreeMap<Arc<str>, FailedSource>>);

#[derive(Debug)]
struct FailedSource {
    since: Wall,
    until: Mono,
    reason: String,
}

impl FailedSources {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, FailedSource>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A source failed and pauses until `until`.
    pub(crate) fn note(&self, source: &Arc<str>, reason: &str, now: Wall, until: Mono) {
        let mut all = self.lock();
        let since = all.get(source).map_or(now, |known| known.since);
        let until = until + NEXT_ATTEMPT;
        all.insert(Arc::clone(source), FailedSource { since, until, reason: reason.to_owned() });
    }
}

/// Sources that send nothing, as problems.
pub(crate) struct SourcesOut {
    pub(crate) failed: Arc<FailedSources>,
    pub(crate) rules: Arc<RulesInForce>,
}

impl ProblemKind for SourcesOut {
    fn name(&self) -> &'static str {
        "source"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let mut failed = self.failed.lock();
        failed.retain(|_, source| source.until > now.mono);
        for (name, FailedSource { since, reason, .. }) in &*failed {
            let text = format!("source {name} cannot send: {reason}");
            let step = "check its address or proxy; it is tried again every minute";
            found(DetectedProblem::warning(&**name, text).next_step(step).since(*since));
        }
        drop(failed);
        let effects = self.rules.effects();
        let is_out = |effect: &&Effect| {
            effect.action == Action::Suspend
                && effect.is_in_force()
                && effect.source.as_ref().is_some_and(|source| !source.is_empty())
        };
        effects
            .iter()
            .filter(is_out)
            .take(EFFECTS_LISTED_MAX)
            .filter_map(suspended)
            .for_each(found);
    }

    /// The shards log the failures, and the rules their effects.
    fn has_own_lines(&self) -> bool {
        true
    }
}

fn suspended(effect: &Effect) -> Option<DetectedProblem> {
    let Effect { rule, reply, until, began, source, provider, next_hop, .. } = effect;
    let (source, towards) = (source.as_ref()?, provider.as_ref().or(next_hop.as_ref())?);
    let text = format!("source {source} is suspended for {towards} by rule {rule}: {reply}");
    let about = format!("{source} for {towards}");
    let step = format!("until {until}; `postrider shaping lift` ends it before");
    Some(DetectedProblem::warning(about, text).next_step(step).since(*began))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problems::Problems;

    #[test]
    fn failed_source_is_a_problem_until_its_pause_is_over() {
        let (failed, rules) = (Arc::<FailedSources>::default(), Arc::default());
        let problems = Problems::default();
        problems.register(Arc::new(SourcesOut { failed: Arc::clone(&failed), rules }));
        let minute = Mono(60_000_000);
        failed.note(&"ip-1".into(), "no such address", Wall(3), minute);
        failed.note(&"ip-1".into(), "no such address", Wall(9), minute);
        let at = |mono| ClockReading { mono, wall: Wall(20) };
        let within = NEXT_ATTEMPT - Duration::from_millis(1);
        let [one] = &problems.ask(at(minute + within))[..] else { panic!() };
        assert_eq!((one.about.as_str(), one.since), ("ip-1", Wall(3)));
        assert_eq!(problems.ask(at(minute + NEXT_ATTEMPT)), []);
    }
}
