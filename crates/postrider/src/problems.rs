//! The kinds of problems that this process knows of, and their lines on the console. The list itself:
//! [`mta::problems`].

mod login_failures;
mod logs;
mod roots;
mod services;

use crate::commit_thread::Log;
use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::secret_place;
use crate::shard_thread::ShardContext;
use crate::tables::{SilentTables, TableProblems};
use crate::world::clock::{Start, wall_now};
use crate::world::listening_socket::AcceptedSocket;
use crate::world::mailbox_files::HangingMailboxes;
use config::Config;
use login_failures::FailedLogins;
use logs::{Logs, LowSpace};
use mta::console::{Console as _, Level};
use mta::event::ListedProblem;
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::Metrics;
use mta::problems::{ClockReading, Problem, ProblemKind, Problems, ReportedProblem, Severity};
use roots::NeededPaths;
pub(crate) use roots::missing_roots;
use services::{Clock, NameServers, SilentZones, UnreadableMessages};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Finds the current problems.
pub(crate) type ProblemFinder = Arc<dyn Fn() -> Vec<Problem> + Send + Sync>;

/// The list of a running relay.
pub(crate) struct ProblemList {
    problems: Arc<Problems>,
    mailboxes: Arc<NeededPaths>,
    started: Start,
    /// Keeps the list updated while it exists.
    _watching: ProblemWatch,
}

impl ProblemList {
    /// Registers the kinds, a line for each, and has the console follow them.
    pub(crate) fn start(
        common: &ShardContext,
        (logs, shards): (&[Log], &[Arc<Metrics>]),
        watch: &Arc<FileWatch>,
        hanging: Vec<Arc<dyn ProblemKind>>,
    ) -> ProblemList {
        let ShardContext { config, shared, started, .. } = common;
        let started = *started;
        let problems = Arc::clone(&shared.problems);
        let mailboxes = Arc::new(NeededPaths::mailboxes(watch, started));
        // The other paths do not change after the start.
        let others = Arc::new(NeededPaths::others(watch, started));
        for needed in [&mailboxes, &others] {
            needed.adopt(config);
            problems.register(Arc::clone(needed) as _);
        }
        problems.register(Arc::new(Logs::of(&config.spool.paths, logs)));
        problems.register(Arc::new(LowSpace::of(&config.spool, logs)));
        problems.register(Arc::new(FailedLogins::of(shards)));
        problems.register(Arc::new(Clock(Arc::downgrade(shared))));
        problems.register(Arc::new(NameServers(Arc::downgrade(shared))));
        problems.register(Arc::new(SilentZones(Arc::downgrade(shared))));
        problems.register(Arc::new(UnreadableMessages(Arc::downgrade(shared))));
        problems.register(Arc::clone(&common.certificates) as _);
        problems.register(Arc::new(TableProblems::of(&common.tables)));
        problems.register(Arc::new(SilentTables::of(&common.tables)));
        problems.register(Arc::new(HangingMailboxes(common.store.watcher())));
        problems.register(Arc::new(common.tables.under_way.clone()));
        problems.register(Arc::new(common.tables.list_troubles.clone()));
        problems.register(Arc::new(common.certificates.under_way.clone()));
        problems.register(Arc::new(secret_place::reads()));
        hanging.into_iter().for_each(|kind| problems.register(kind));
        let reporter = Reporter::of(common, &problems);
        let watching = ProblemWatch::start(watch, reporter);
        ProblemList { problems, mailboxes, started, _watching: watching }
    }

    /// Follows a configuration.
    pub(crate) fn adopt(&self, config: &Config) {
        self.mailboxes.adopt(config);
    }

    /// A function that finds the current problems.
    pub(crate) fn finder(&self) -> ProblemFinder {
        let (problems, started) = (Arc::clone(&self.problems), self.started);
        Arc::new(move || problems.ask(now(started)))
    }
}

/// The current time.
pub(crate) fn now(started: Start) -> ClockReading {
    ClockReading { mono: started.elapsed(), wall: wall_now() }
}

/// A problem as a line of text.
pub(crate) fn sentence(problem: &Problem) -> String {
    let Problem { about, text, next_step, .. } = problem;
    let about = if about.is_empty() || text.contains(about.as_str()) {
        String::new()
    } else {
        format!("{about}: ")
    };
    match next_step.is_empty() {
        true => format!("{about}{text}"),
        false => format!("{about}{text}: {next_step}"),
    }
}

/// A problem as an event.
fn listed(problem: &Problem) -> ListedProblem {
    let Problem { kind, severity, about, text, next_step, since } = problem.clone();
    ListedProblem { kind, severity: severity.as_str(), about, text, next_step, since }
}

/// Interval of the checks.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Changes of the list are reported while this exists.
struct ProblemWatch(Arc<()>);

impl ProblemWatch {
    /// Reading the list never blocks, so it needs no separate thread and runs on the file watch.
    fn start(watch: &FileWatch, mut reporter: Reporter) -> ProblemWatch {
        let watching = ProblemWatch(Arc::default());
        watch.follow_every(ASKED_EVERY, &watching.0, move |_| reporter.follow());
        watching
    }
}

/// Reports the begin and the end of problems, on the console and as events.
struct Reporter {
    problems: Arc<Problems>,
    started: Start,
    console: Arc<ConsoleLog>,
    /// The shard that emits the events.
    shard: Option<ShardSender<AcceptedSocket>>,
    /// Reported problems, by kind and subject. Those within the first second are not reported.
    known: Option<BTreeMap<(String, String), ReportedProblem>>,
}

impl Reporter {
    fn of(common: &ShardContext, problems: &Arc<Problems>) -> Reporter {
        Reporter {
            problems: Arc::clone(problems),
            started: common.started,
            console: Arc::clone(&common.console),
            shard: common.shards.first().cloned(),
            known: None,
        }
    }

    fn follow(&mut self) {
        let Some(known) = self.known.take() else {
            self.known = Some(BTreeMap::new());
            return;
        };
        let mut here = BTreeMap::new();
        for reported in self.problems.ask_for_reports(now(self.started)) {
            let key = (reported.problem.kind.clone(), reported.problem.about.clone());
            if !known.contains_key(&key) && !here.contains_key(&key) {
                self.report(&reported, false);
            }
            here.insert(key, reported);
        }
        for (key, reported) in &known {
            if !here.contains_key(key) {
                self.report(reported, true);
            }
        }
        self.known = Some(here);
    }

    fn report(&self, reported: &ReportedProblem, is_cleared: bool) {
        let ReportedProblem { problem, is_logged, is_emitted } = reported;
        if *is_logged {
            let (text, kind) = (sentence(problem), &problem.kind);
            let (level, resolved) = match (is_cleared, problem.severity) {
                (true, _) => (Level::Info, "resolved: "),
                (false, Severity::Error) => (Level::Error, ""),
                (false, Severity::Warning) => (Level::Warn, ""),
                (false, Severity::Notice) => (Level::Info, ""),
            };
            self.console.line(level, "problem", format_args!("{resolved}{text} kind={kind}"));
        }
        if let Some(shard) = self.shard.as_ref().filter(|_| *is_emitted) {
            let problem = Box::new(listed(problem));
            // A shard that has ended emits nothing.
            let _ = shard.send(ShardMessage::Problem { problem, is_cleared });
        }
    }
}
