//! The kinds of problems that this process knows of, and their lines on the console. The list itself:
//! [`mta::problems`].

mod logs;
mod roots;
mod services;

use crate::commit_thread::Log;
use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::secret_place;
use crate::shard_thread::ShardContext;
use crate::tables::TableProblems;
use crate::world::clock::{Start, wall_now};
use crate::world::mailbox_files::HangingMailboxes;
use config::Config;
use logs::Logs;
use mta::console::{Console as _, Level};
use mta::problems::{ClockReading, Problem, ProblemKind, Problems, Severity};
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
        logs: &[Log],
        watch: &Arc<FileWatch>,
        hanging: Vec<Arc<dyn ProblemKind>>,
    ) -> ProblemList {
        let ShardContext { config, shared, console, started, .. } = common;
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
        problems.register(Arc::new(Clock(Arc::downgrade(shared))));
        problems.register(Arc::new(NameServers(Arc::downgrade(shared))));
        problems.register(Arc::new(SilentZones(Arc::downgrade(shared))));
        problems.register(Arc::new(UnreadableMessages(Arc::downgrade(shared))));
        problems.register(Arc::clone(&common.certificates) as _);
        problems.register(Arc::new(TableProblems::of(&common.tables)));
        problems.register(Arc::new(HangingMailboxes(common.store.watcher())));
        problems.register(Arc::new(common.tables.under_way.clone()));
        problems.register(Arc::new(common.tables.list_troubles.clone()));
        problems.register(Arc::new(common.certificates.under_way.clone()));
        problems.register(Arc::new(secret_place::reads()));
        hanging.into_iter().for_each(|kind| problems.register(kind));
        let watching = ProblemWatch::start(watch, &problems, started, console);
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

/// Interval of the checks.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// Changes of the list are logged while this exists.
struct ProblemWatch(Arc<()>);

impl ProblemWatch {
    /// Reading the list never blocks, so it needs no separate thread and runs on the file watch.
    fn start(
        watch: &FileWatch,
        problems: &Arc<Problems>,
        started: Start,
        console: &Arc<ConsoleLog>,
    ) -> ProblemWatch {
        let (problems, console) = (Arc::clone(problems), Arc::clone(console));
        let watching = ProblemWatch(Arc::default());
        // Problems that last less than a second are not logged.
        let mut known = None;
        watch.follow_every(ASKED_EVERY, &watching.0, move |_| match &mut known {
            None => known = Some(BTreeMap::new()),
            Some(known) => follow(&problems, started, &console, known),
        });
        watching
    }
}

/// Problems logged already, by kind and subject.
type ReportedProblems = BTreeMap<(String, String), String>;

fn follow(problems: &Problems, started: Start, console: &ConsoleLog, known: &mut ReportedProblems) {
    let mut here = ReportedProblems::new();
    for problem in problems.ask_for_console(now(started)) {
        let key = (problem.kind.clone(), problem.about.clone());
        let text = sentence(&problem);
        if !known.contains_key(&key) && !here.contains_key(&key) {
            let level = match problem.severity {
                Severity::Error => Level::Error,
                Severity::Warning => Level::Warn,
            };
            console.line(level, "problem", format_args!("{text} kind={}", problem.kind));
        }
        here.insert(key, text);
    }
    for ((kind, about), text) in &*known {
        if !here.contains_key(&(kind.clone(), about.clone())) {
            console.line(Level::Info, "problem", format_args!("resolved: {text} kind={kind}"));
        }
    }
    *known = here;
}
