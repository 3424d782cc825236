//! Problems on the console: a line when one begins, and when it has ended.

use super::{now, sentence};
use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::world::clock::Start;
use mta::console::{Console as _, Level};
use mta::problems::{Problems, Severity};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How often the list is asked for.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// They are written as long as this is there.
pub(super) struct Watching(Arc<()>);

impl Watching {
    /// A look at the list waits for nothing: it needs a thread of its own as little as a file does that is looked at.
    pub(super) fn start(
        watch: &FileWatch,
        problems: &Arc<Problems>,
        started: Start,
        console: &Arc<ConsoleLog>,
    ) -> Watching {
        let (problems, console) = (Arc::clone(problems), Arc::clone(console));
        let watching = Watching(Arc::default());
        // What is wrong for less than a second has no line.
        let mut known = None;
        watch.follow_every(ASKED_EVERY, &watching.0, move |_| match &mut known {
            None => known = Some(BTreeMap::new()),
            Some(known) => follow(&problems, started, &console, known),
        });
        watching
    }
}

/// Problems that have had their line, by kind and by what they are about.
type Known = BTreeMap<(String, String), String>;

fn follow(problems: &Problems, started: Start, console: &ConsoleLog, known: &mut Known) {
    let mut here = Known::new();
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
            console.line(Level::Info, "problem", format_args!("no more: {text} kind={kind}"));
        }
    }
    *known = here;
}
