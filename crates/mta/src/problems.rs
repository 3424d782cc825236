//! The list of current problems, each with severity and recommended action. `status`, `/healthz` and the console
//! compute it on request.
//!
//! A kind of problem is a [`ProblemKind`] and one line that registers it. Requests come from another thread than the
//! one that may hang. A kind therefore reads values that other threads store ([`Watchdog`], [`Conditions`], counters),
//! and never blocks on a file, a peer, or a lock held by blocked code.

mod kinds;

pub use crate::control::{Problem, Severity};
pub use kinds::{KindEntry, PROBLEM_KINDS, page};
use mail::{Mono, Wall};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of conditions of one kind; further ones are dropped.
const CONDITIONS_MAX: usize = 256;
/// Maximum size of a text in octets; longer texts are cut.
const TEXT_BYTES_MAX: usize = 512;

/// A detected problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedProblem {
    severity: Severity,
    about: String,
    text: String,
    next_step: String,
    since: Option<Wall>,
    is_quiet: bool,
}

impl DetectedProblem {
    /// Mail is rejected or not delivered.
    #[must_use]
    pub fn error(about: impl Into<String>, text: impl Into<String>) -> DetectedProblem {
        DetectedProblem::new(Severity::Error, about, text)
    }

    /// Mail continues.
    #[must_use]
    pub fn warning(about: impl Into<String>, text: impl Into<String>) -> DetectedProblem {
        DetectedProblem::new(Severity::Warning, about, text)
    }

    /// Mail continues, and an operator need not look at once.
    #[must_use]
    pub fn notice(about: impl Into<String>, text: impl Into<String>) -> DetectedProblem {
        DetectedProblem::new(Severity::Notice, about, text)
    }

    /// With the given severity.
    #[must_use]
    pub fn new(
        severity: Severity,
        about: impl Into<String>,
        text: impl Into<String>,
    ) -> DetectedProblem {
        let cut = |text: String| text[..text.floor_char_boundary(TEXT_BYTES_MAX)].to_owned();
        let (about, text) = (cut(about.into()), cut(text.into()));
        DetectedProblem {
            severity,
            about,
            text,
            next_step: String::new(),
            since: None,
            is_quiet: false,
        }
    }

    /// The subject.
    #[must_use]
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Sets the recommended action.
    #[must_use]
    pub fn next_step(self, next_step: impl Into<String>) -> DetectedProblem {
        DetectedProblem { next_step: next_step.into(), ..self }
    }

    /// Without a console line (yet).
    #[must_use]
    pub fn quietly(self) -> DetectedProblem {
        DetectedProblem { is_quiet: true, ..self }
    }

    /// Sets the start. Default: the first detection.
    #[must_use]
    pub fn since(self, since: Wall) -> DetectedProblem {
        DetectedProblem { since: Some(since), ..self }
    }
}

/// Time of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    pub mono: Mono,
    pub wall: Wall,
}

/// A kind of problem.
pub trait ProblemKind: Send + Sync {
    /// A constant name: `log`.
    fn name(&self) -> &'static str;

    /// Reports the current problems. It must not block.
    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem));

    /// Returns true if its problems are logged to the console by their own code.
    fn has_own_lines(&self) -> bool {
        false
    }

    /// Returns true if its problems have events of their own.
    fn has_own_events(&self) -> bool {
        false
    }
}

/// A problem to be reported when it begins and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportedProblem {
    pub problem: Problem,
    /// It gets a console line.
    pub is_logged: bool,
    /// It gets an event.
    pub is_emitted: bool,
}

/// All kinds of problems of a process.
#[derive(Default)]
pub struct Problems {
    kinds: Mutex<Vec<Arc<dyn ProblemKind>>>,
    /// Time of the first detection of each, as long as it is detected each time.
    since: Mutex<BTreeMap<(&'static str, String), Wall>>,
}

impl std::fmt::Debug for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Problems").finish_non_exhaustive()
    }
}

impl Problems {
    /// Adds a kind of problem to the list. Each has an entry in [`PROBLEM_KINDS`].
    pub fn register(&self, kind: Arc<dyn ProblemKind>) {
        lock(&self.kinds).push(kind);
    }

    /// Registers a kind with problems that are set and cleared explicitly.
    #[must_use]
    pub fn conditions(&self, name: &'static str) -> Conditions {
        let conditions = Conditions::new(name);
        self.register(Arc::new(conditions.clone()));
        conditions
    }

    /// The current problems, the most severe first.
    #[must_use]
    pub fn ask(&self, now: ClockReading) -> Vec<Problem> {
        self.found(now).into_iter().map(|(_, _, problem)| problem).collect()
    }

    /// The problems without quiet ones, with the reports that are not made by their own code.
    #[must_use]
    pub fn ask_for_reports(&self, now: ClockReading) -> Vec<ReportedProblem> {
        let as_reported = |(kind, is_quiet, problem): (Arc<dyn ProblemKind>, bool, Problem)| {
            let (is_logged, is_emitted) = (!kind.has_own_lines(), !kind.has_own_events());
            (!is_quiet).then_some(ReportedProblem { problem, is_logged, is_emitted })
        };
        self.found(now).into_iter().filter_map(as_reported).collect()
    }

    /// All problems, the most severe first: kind, whether it is quiet, problem.
    fn found(&self, now: ClockReading) -> Vec<(Arc<dyn ProblemKind>, bool, Problem)> {
        let kinds = lock(&self.kinds).clone();
        let mut all = Vec::new();
        for kind in &kinds {
            kind.find(now, &mut |found| all.push((Arc::clone(kind), found)));
        }
        let mut since = lock(&self.since);
        let here: BTreeSet<(&str, &str)> =
            all.iter().map(|(kind, found)| (kind.name(), found.about.as_str())).collect();
        since.retain(|(name, about), _| here.contains(&(*name, about.as_str())));
        let as_problem = |(kind, found): (Arc<dyn ProblemKind>, DetectedProblem)| {
            let known = since.entry((kind.name(), found.about.clone())).or_insert(now.wall);
            let since = found.since.unwrap_or(*known);
            let DetectedProblem { severity, about, text, next_step, is_quiet, .. } = found;
            let name = kind.name().to_owned();
            (kind, is_quiet, Problem { kind: name, severity, about, text, next_step, since })
        };
        let mut problems: Vec<_> = all.into_iter().map(as_problem).collect();
        problems.sort_by_key(|(_, _, problem)| problem.severity);
        problems
    }
}

/// Problems that are set and cleared by code: a file that can't be written, and then can.
#[derive(Clone, Debug)]
pub struct Conditions {
    name: &'static str,
    all: Arc<Mutex<BTreeMap<String, DetectedProblem>>>,
}

impl Conditions {
    /// A kind that is registered later, or not at all.
    #[must_use]
    pub fn new(name: &'static str) -> Conditions {
        Conditions { name, all: Arc::default() }
    }

    /// Sets a problem at time `now`; it replaces an earlier one with the same subject.
    pub fn set(&self, found: DetectedProblem, now: Wall) {
        let mut all = lock(&self.all);
        let since = all.get(&found.about).map_or(now, |known| known.since.unwrap_or(now));
        if all.len() < CONDITIONS_MAX || all.contains_key(&found.about) {
            let since = Some(found.since.unwrap_or(since));
            all.insert(found.about.clone(), DetectedProblem { since, ..found });
        }
    }

    /// Clears all problems.
    pub fn clear_all(&self) {
        lock(&self.all).clear();
    }

    /// Clears the problem with this subject.
    pub fn clear(&self, about: &str) {
        lock(&self.all).remove(about);
    }
}

impl ProblemKind for Conditions {
    fn name(&self) -> &'static str {
        self.name
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        lock(&self.all).values().cloned().for_each(found);
    }
}

/// Watches a repeated short action of a thread. If it hangs, the thread itself can't report that.
#[derive(Debug, Default)]
pub struct Watchdog {
    /// Start time plus one; 0: not running.
    begun: AtomicU64,
}

impl Watchdog {
    /// The action starts.
    pub fn begin(&self, now: Mono) {
        self.begun.store(now.0.saturating_add(1), Ordering::Relaxed);
    }

    /// The action ends.
    pub fn end(&self) {
        self.begun.store(0, Ordering::Relaxed);
    }

    /// Duration of the running action, if any.
    #[must_use]
    pub fn under_way(&self, now: Mono) -> Option<Duration> {
        let begun = self.begun.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_micros(now.0.saturating_sub(begun)))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> ClockReading {
        ClockReading { mono: Mono(ms * 1_000), wall: Wall(ms) }
    }

    struct Hanging(Watchdog);

    impl ProblemKind for Hanging {
        fn name(&self) -> &'static str {
            "hanging"
        }

        fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
            if self.0.under_way(now.mono).is_some_and(|time| time >= Duration::from_secs(1)) {
                found(DetectedProblem::error("", "it hangs").next_step("look at it"));
            }
        }

        fn has_own_lines(&self) -> bool {
            true
        }
    }

    #[test]
    fn a_condition_is_a_problem_until_it_is_cleared() {
        let problems = Problems::default();
        let files = problems.conditions("file");
        assert_eq!(problems.ask(at(0)), []);
        files
            .set(DetectedProblem::warning("a", "can't be written").next_step("make room"), Wall(5));
        files.set(DetectedProblem::warning("a", "can't be read"), Wall(6));
        let [one] = &problems.ask(at(9))[..] else { panic!() };
        assert_eq!((one.kind.as_str(), one.about.as_str()), ("file", "a"));
        assert_eq!((one.text.as_str(), one.since), ("can't be read", Wall(5)));
        files.clear("a");
        assert_eq!(problems.ask(at(10)), []);
    }

    #[test]
    fn conditions_are_bounded() {
        let problems = Problems::default();
        let files = problems.conditions("file");
        for n in 0..2 * CONDITIONS_MAX {
            files.set(
                DetectedProblem::warning(n.to_string(), "x".repeat(2 * TEXT_BYTES_MAX)),
                Wall(0),
            );
        }
        let all = problems.ask(at(0));
        assert_eq!(all.len(), CONDITIONS_MAX);
        assert!(all.iter().all(|problem| problem.text.len() == TEXT_BYTES_MAX));
    }

    #[test]
    fn what_hangs_is_seen_from_outside_and_the_worst_comes_first() {
        let problems = Problems::default();
        problems.conditions("file").set(DetectedProblem::warning("a", "b"), Wall(0));
        let hanging = Arc::new(Hanging(Watchdog::default()));
        problems.register(Arc::clone(&hanging) as Arc<dyn ProblemKind>);
        hanging.0.begin(Mono(0));
        assert_eq!(problems.ask(at(999)).len(), 1);
        let kinds = |ms| problems.ask(at(ms)).into_iter().map(|p| p.kind).collect::<Vec<_>>();
        assert_eq!(kinds(1_000), ["hanging", "file"]);
        // Since the first detection.
        assert_eq!(problems.ask(at(5_000))[0].since, Wall(1_000));
        let reports = problems.ask_for_reports(at(5_000));
        let logged = reports.iter().filter(|one| one.is_logged).count();
        assert_eq!((reports.len(), logged), (2, 1));
        assert_eq!(problems.ask(at(6_000))[0].since, Wall(1_000));
        hanging.0.end();
        assert_eq!(kinds(7_000), ["file"]);
        hanging.0.begin(Mono(7_000_000));
        assert_eq!(problems.ask(at(9_000))[0].since, Wall(9_000));
    }
}
