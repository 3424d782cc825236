//! The course of a run, whatever it speaks: sessions send until all is sent, or a signal ends it.

use super::pace::Pace;
use super::report::{MINUTE, Minutes, Tally};
use crate::ledger::LedgerWriter;
use crate::progress::Progress;
use crate::stop::{CommandError, Stop};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinSet, LocalSet};

/// The ledger's lines reach the file within this time: whoever follows it sees how far the run is.
const LEDGER_INTERVAL: Duration = Duration::from_millis(50);

/// When messages go out, and what became of them.
#[derive(Clone, Debug)]
pub(crate) struct SourceRun {
    pub(crate) pace: Rc<Pace>,
    pub(crate) tally: Rc<RefCell<Tally>>,
    pub(crate) ledger: Rc<RefCell<LedgerWriter>>,
}

/// How a run is conducted.
#[derive(Clone, Debug)]
pub(crate) struct Conduct {
    pub(crate) sessions: usize,
    /// After the first signal, what runs may end for so long.
    pub(crate) grace: Duration,
    /// Lines on standard input are obeyed.
    pub(crate) obeys: bool,
    /// Where a line goes for each minute.
    pub(crate) minutes: Option<PathBuf>,
}

impl SourceRun {
    /// For `messages` messages, from now.
    ///
    /// # Errors
    /// When the ledger can't be made.
    pub(crate) fn new(
        messages: u64,
        rate: Option<f64>,
        ledger: Option<&Path>,
    ) -> Result<SourceRun, String> {
        let pace = Pace::new(messages, rate);
        let ledger = LedgerWriter::create(ledger).map_err(|error| format!("ledger: {error}"))?;
        Ok(SourceRun {
            tally: Rc::new(RefCell::new(Tally::new(pace.start(), messages))),
            pace: Rc::new(pace),
            ledger: Rc::new(RefCell::new(ledger)),
        })
    }

    /// Runs all sessions to their end; `true` if a signal cut them short.
    ///
    /// # Errors
    /// What keeps it from running, and a ledger that could not be written.
    pub(crate) fn run<F>(
        &self,
        conduct: &Conduct,
        session: impl Fn() -> F,
    ) -> Result<bool, CommandError>
    where
        F: Future<Output = ()> + 'static,
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| CommandError::new(format!("runtime: {error}")))?;
        let tasks = LocalSet::new();
        let minutes = Minutes::create(conduct.minutes.as_deref());
        let minutes = minutes.map_err(|error| CommandError::new(format!("minutes: {error}")))?;
        let minutes = Rc::new(RefCell::new(minutes));
        let stopped = tasks.block_on(&runtime, self.send_all(conduct, session, &minutes));
        // Sessions that are still at it are dropped here, and write in the ledger what became of their
        // messages.
        drop(tasks);
        minutes.borrow_mut().end_one(&self.tally.borrow());
        let stopped = stopped.map_err(|error| CommandError::new(error.to_string()))?;
        let flushed = self.ledger.borrow_mut().flush();
        flushed.map_err(|error| CommandError::new(format!("ledger: {error}")))?;
        Ok(stopped)
    }

    /// What a source ends with, as its help says.
    pub(crate) fn exit_code(&self, stopped: bool) -> ExitCode {
        let (tally, total) = (self.tally.borrow(), self.pace.total());
        ExitCode::from(match () {
            () if stopped => 4,
            () if tally.decided() < total => 3,
            () if tally.acked < total => 1,
            () => 0,
        })
    }

    async fn send_all<F>(
        &self,
        conduct: &Conduct,
        session: impl Fn() -> F,
        minutes: &Rc<RefCell<Minutes>>,
    ) -> std::io::Result<bool>
    where
        F: Future<Output = ()> + 'static,
    {
        let mut stop = Stop::listen()?;
        let mut tasks = JoinSet::new();
        if conduct.obeys {
            tokio::task::spawn_local(obey(Rc::clone(&self.pace), read_lines()?));
        }
        for _ in 0..conduct.sessions {
            tasks.spawn_local(session());
        }
        self.pace.begin(conduct.sessions)?;
        let follow = Progress::new("sent", Some(self.pace.total()));
        let followed = Rc::clone(&self.tally);
        let follow = tokio::task::spawn_local(follow.follow(move || followed.borrow().decided()));
        let written = Rc::clone(&self.ledger);
        let write_out = tokio::task::spawn_local(async move {
            loop {
                tokio::time::sleep(LEDGER_INTERVAL).await;
                written.borrow_mut().write_out();
            }
        });
        let told = tell(Rc::clone(&self.tally), Rc::clone(minutes));
        let tell_minutes = tokio::task::spawn_local(told);
        let all_done = async { while tasks.join_next().await.is_some() {} };
        tokio::pin!(all_done);
        let stopped = tokio::select! {
            biased;
            () = stop.wait() => true,
            () = &mut all_done => false,
        };
        if stopped {
            self.pace.stop();
            tokio::select! {
                biased;
                () = stop.wait() => {}
                _ = tokio::time::timeout(conduct.grace, all_done) => {}
            }
        }
        follow.abort();
        write_out.abort();
        tell_minutes.abort();
        Ok(stopped)
    }
}

/// Writes a line at the end of each minute.
async fn tell(tally: Rc<RefCell<Tally>>, minutes: Rc<RefCell<Minutes>>) {
    let mut ends = tokio::time::interval(MINUTE);
    // The first is now.
    ends.tick().await;
    loop {
        ends.tick().await;
        minutes.borrow_mut().end_one(&tally.borrow());
    }
}

/// The lines of standard input, read by a thread of its own that ends with them or the process.
fn read_lines() -> std::io::Result<UnboundedReceiver<String>> {
    let (sender, receiver) = unbounded_channel();
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        for line in std::io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    })?;
    Ok(receiver)
}

/// Does what the lines say.
async fn obey(pace: Rc<Pace>, mut lines: UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        match line.trim() {
            "pause" => pace.pause(),
            "resume" => pace.resume(),
            other => eprintln!("postrider-lab: {other:?} is neither `pause` nor `resume`"),
        }
    }
}
