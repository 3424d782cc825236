//! Problems on the console: a line when one begins, and when it has ended.

use super::{now, sentence};
use crate::console::ConsoleLog;
use crate::world::clock::Start;
use mta::console::{Console as _, Level};
use mta::problems::{Problems, Severity};
use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{io, thread};

/// How often the list is asked for.
const ASKED_EVERY: Duration = Duration::from_secs(1);

/// The thread that writes them; it ends with this.
pub(super) struct Watching {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Watching {
    pub(super) fn start(
        problems: &Arc<Problems>,
        started: Start,
        console: &Arc<ConsoleLog>,
    ) -> io::Result<Watching> {
        let (stop, stopped) = mpsc::channel::<()>();
        let (problems, console) = (Arc::clone(problems), Arc::clone(console));
        let thread = thread::Builder::new().name("problems".to_owned()).spawn(move || {
            let mut known = BTreeMap::new();
            while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(ASKED_EVERY) {
                follow(&problems, started, &console, &mut known);
            }
        })?;
        Ok(Watching { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.stop.take();
        // It waits for nothing but the stop: kinds of problems never do.
        let _ = self.thread.take().map(thread::JoinHandle::join);
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
