//! Reloads the configuration while the server runs. Files are read on a separate thread, since one may lie on a disk
//! that hangs; commands, lookups and signals are handled in that time. All files are read first, then all changes take
//! effect, or none.

use crate::commands::load;
use crate::console::ConsoleLog;
use crate::kept_from_start::kept_from_start;
use crate::mutex::lock;
use crate::notify::Notifier;
use crate::orders::OrderResult;
use crate::services::{Prepared, Services};
use crate::under_way::HANGS_AFTER;
use crate::world::clock::wall_now;
use config::Config;
use mail::Wall;
use mta::commands::NodeAnswer;
use mta::console::{Console as _, Level};
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Timeout for the answer to a reload request, complete or not.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// Reloads that wait for files which do not answer. A further one has to wait for them.
const HANGING_MAX: usize = 4;

/// The state that a reload changes.
pub(crate) struct Reloadable {
    /// The configuration that the server was started with.
    pub(crate) first: Arc<Config>,
    pub(crate) services: Services,
}

impl Reloadable {
    /// Reads a configuration and all files that it names, and has everything prepared for it.
    ///
    /// # Errors
    /// What is wrong with them, each in a sentence.
    fn prepare(&self, file: Option<&Path>, progress: &dyn Fn(&str)) -> Result<Prepared, String> {
        progress("the configuration");
        let read = load::read(file).map_err(|error| error.one_line())?;
        let prepared = self.services.prepare_all(read, progress, false);
        prepared.map_err(|mistakes| load::one_line(&mistakes))
    }

    /// Reads the configuration and adopts it, or keeps the old one and returns the reason; `None` if the reload was
    /// abandoned.
    fn reload(
        &self,
        file: Option<&Path>,
        step: &ReloadStep,
        console: &Arc<ConsoleLog>,
    ) -> Option<Result<String, String>> {
        let prepared = self.prepare(file, &|what| step.is_at(what));
        if !step.begin_adoption() {
            return None;
        }
        let told = prepared.map(|prepared| {
            let config = prepared.adopt();
            let kept = kept_from_start(&self.first, &config);
            let mut text = format!("configuration reloaded from {}{kept}", config.file_name());
            for warning in load::warnings_of(&config) {
                console.line(Level::Warn, "config", format_args!("{warning}"));
                text.push('\n');
                text.push_str(&warning);
            }
            text
        });
        let told = told
            .map_err(|why| format!("reload failed, the old configuration stays in force: {why}"));
        let (level, text) = match &told {
            Ok(text) => (Level::Info, text.lines().next().unwrap_or_default()),
            Err(text) => (Level::Error, text.as_str()),
        };
        console.line(level, "reload", format_args!("{text}"));
        Some(told)
    }
}

/// Progress of a reload.
#[derive(Debug, Default)]
struct ReloadStep {
    stage: AtomicU8,
    /// The file that it reads.
    what: Mutex<String>,
}

const READS: u8 = 0;
const ADOPTS: u8 = 1;
const IS_GIVEN_UP: u8 = 2;

impl ReloadStep {
    fn is_at(&self, what: &str) {
        what.clone_into(&mut lock(&self.what));
    }

    fn what(&self) -> String {
        lock(&self.what).clone()
    }

    /// Returns true if the configuration may be adopted.
    fn begin_adoption(&self) -> bool {
        self.end_reading(ADOPTS)
    }

    /// Abandons the reload; false if its adoption has begun.
    fn give_up(&self) -> bool {
        self.end_reading(IS_GIVEN_UP)
    }

    fn end_reading(&self, stage: u8) -> bool {
        let (done, failed) = (Ordering::AcqRel, Ordering::Acquire);
        self.stage.compare_exchange(READS, stage, done, failed).is_ok()
    }
}

/// Reloads, one at a time.
pub(crate) struct Reloads {
    reloadable: Arc<Reloadable>,
    file: Option<PathBuf>,
    console: Arc<ConsoleLog>,
    notifier: Arc<Notifier>,
    current: Option<PendingReload>,
    /// A signal arrived during the reload, which may have read older files.
    is_wanted_again: bool,
    /// Threads of abandoned reloads that still wait for files.
    hanging: Vec<thread::JoinHandle<()>>,
    state: Arc<ReloadState>,
}

/// The current reload and the result of the last one, for the list of problems and the metrics.
#[derive(Debug)]
pub(crate) struct ReloadState {
    /// The current one: its start and its progress.
    current: Mutex<Option<(Instant, Arc<ReloadStep>)>>,
    last: Mutex<LastReload>,
}

/// The result of the last reload, at first of the start.
#[derive(Clone, Debug)]
struct LastReload {
    at: Wall,
    /// The reason why it was refused.
    refused: Option<String>,
}

impl ReloadState {
    /// The state at a start.
    pub(crate) fn new(at: Wall) -> ReloadState {
        let last = LastReload { at, refused: None };
        ReloadState { current: Mutex::default(), last: Mutex::new(last) }
    }

    /// Notes the result of a reload.
    fn note(&self, told: &Result<String, String>, at: Wall) {
        *lock(&self.last) = LastReload { at, refused: told.as_ref().err().cloned() };
    }

    /// Returns true unless the last reload was refused, and its time.
    pub(crate) fn last(&self) -> (bool, Wall) {
        let last = lock(&self.last);
        (last.refused.is_none(), last.at)
    }
}

impl ProblemKind for ReloadState {
    fn name(&self) -> &'static str {
        "reload"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let last = lock(&self.last).clone();
        if let LastReload { at, refused: Some(why) } = last {
            let next_step = "correct the file (`postrider check`) and reload";
            found(DetectedProblem::warning("refused", why).next_step(next_step).since(at));
        }
        let current = lock(&self.current);
        if let Some((began, step)) = current.as_ref().filter(|c| c.0.elapsed() >= HANGS_AFTER) {
            let (what, seconds) = (step.what(), began.elapsed().as_secs());
            let text = format!("a reload has been reading {what} for {seconds} s");
            let next_step = "check its disk; another reload replaces it";
            found(DetectedProblem::warning("", text).next_step(next_step));
        }
    }

    /// It is logged when it is late, and when it ends.
    fn has_own_lines(&self) -> bool {
        true
    }
}

/// A reload in progress.
struct PendingReload {
    began: Instant,
    step: Arc<ReloadStep>,
    done: oneshot::Receiver<OrderResult>,
    thread: thread::JoinHandle<()>,
    /// The pending answer; `None` if nothing waits for it, or it was sent.
    answer: Option<NodeAnswer>,
    is_late: bool,
}

impl Reloads {
    pub(crate) fn new(
        reloadable: Arc<Reloadable>,
        file: Option<PathBuf>,
        (state, console, notifier): (&Arc<ReloadState>, &Arc<ConsoleLog>, &Arc<Notifier>),
    ) -> Reloads {
        let (console, state) = (Arc::clone(console), Arc::clone(state));
        let notifier = Arc::clone(notifier);
        Reloads {
            reloadable,
            file,
            console,
            notifier,
            current: None,
            is_wanted_again: false,
            hanging: Vec::new(),
            state,
        }
    }

    /// Begins a reload, unless one is running. The result is logged and answered. A reload that has waited long for
    /// files is abandoned in favour of the new one.
    pub(crate) fn begin(&mut self, answer: Option<NodeAnswer>) {
        match self.start() {
            Ok(current) => {
                self.notifier.reloading();
                self.current = Some(PendingReload { answer, ..current });
            }
            Err(why) => {
                self.console.line(Level::Error, "reload", format_args!("{why}"));
                if self.current.is_none() {
                    // A manager with `Type=notify-reload` waits for the end.
                    self.notifier.reloading();
                    self.notifier.ready(&why);
                }
                match answer {
                    Some(answer) => answer.told(Err(why)),
                    None => self.is_wanted_again = self.current.is_some(),
                }
            }
        }
    }

    /// Shows the server's status to the service manager, unless a reload runs or the last one was refused.
    pub(crate) fn show(&self, summary: &str) {
        if self.current.is_none() && self.state.last().0 {
            self.notifier.status(summary);
        }
    }

    fn start(&mut self) -> Result<PendingReload, String> {
        if let Some(current) = self.current.take() {
            if !current.is_late || !current.step.give_up() {
                let (what, seconds) = (current.step.what(), current.began.elapsed().as_secs());
                self.current = Some(current);
                return Err(format!("a reload has been running for {seconds} s: reading {what}"));
            }
            self.hanging.push(current.thread);
            *lock(&self.state.current) = None;
        }
        self.hanging.retain(|thread| !thread.is_finished());
        if self.hanging.len() >= HANGING_MAX {
            let text = "abandoned reloads wait for files that do not respond";
            return Err(format!("{HANGING_MAX} {text}"));
        }
        let (reloadable, file) = (Arc::clone(&self.reloadable), self.file.clone());
        let (step, console) = (Arc::new(ReloadStep::default()), Arc::clone(&self.console));
        let (told, done) = oneshot::channel();
        let of_thread = Arc::clone(&step);
        let reload = move || {
            if let Some(what) = reloadable.reload(file.as_deref(), &of_thread, &console) {
                let _ = told.send(what);
            }
        };
        let thread = thread::Builder::new().name("reload".to_owned()).spawn(reload);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        let (began, is_late) = (Instant::now(), false);
        *lock(&self.state.current) = Some((began, Arc::clone(&step)));
        Ok(PendingReload { began, step, done, thread, answer: None, is_late })
    }

    /// Waits for the end of the current reload, and answers. May be dropped and called again.
    pub(crate) async fn answered(&mut self) {
        let Some(current) = &mut self.current else { return std::future::pending().await };
        let late = current.began + ANSWER_MAX;
        tokio::select! {
            biased;
            told = &mut current.done => {
                // The channel closes without a result only by a panic, which ends the process.
                let told = told.unwrap_or_else(|_| Err("the reload has ended".to_owned()));
                self.state.note(&told, wall_now());
                self.notifier.ready(told.as_ref().map_or_else(String::as_str, String::as_str));
                let _ = current.answer.take().map(|answer| answer.told(told));
                self.current = None;
                *lock(&self.state.current) = None;
                if std::mem::take(&mut self.is_wanted_again) {
                    self.begin(None);
                }
            }
            () = sleep_until(late), if !current.is_late => {
                current.is_late = true;
                let (what, seconds) = (current.step.what(), ANSWER_MAX.as_secs());
                let text = format!(
                    "the old configuration stays in force until all files are read: after \
                     {seconds} s reading {what}"
                );
                self.console.line(Level::Error, "reload", format_args!("{text}"));
                let _ = current.answer.take().map(|answer| answer.told(Err(text)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_up_is_not_put_in_force_and_what_is_in_force_is_not_given_up() {
        let step = ReloadStep::default();
        step.is_at("table users");
        assert!(step.give_up());
        assert!(!step.begin_adoption() && !step.give_up());
        assert_eq!(step.what(), "table users");
        let step = ReloadStep::default();
        assert!(step.begin_adoption());
        assert!(!step.give_up());
    }
}
