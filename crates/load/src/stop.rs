//! Ending on request: SIGTERM and Ctrl-C.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from the moment it is made, so that no signal is lost.
#[derive(Debug)]
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    /// Takes over SIGTERM and SIGINT; must be called inside a runtime.
    pub fn listen() -> std::io::Result<Stop> {
        Ok(Stop {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for either.
    pub async fn wait(&mut self) {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The same for a run without a runtime: set from now on when either comes.
#[derive(Clone, Debug)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// Listens from now on, on a thread of its own.
    ///
    /// # Errors
    /// When signals can't be taken over.
    pub fn listen() -> std::io::Result<StopFlag> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut stop = {
            let _entered = runtime.enter();
            Stop::listen()?
        };
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            runtime.block_on(stop.wait());
            set.store(true, Ordering::Relaxed);
        })?;
        Ok(StopFlag(flag))
    }

    /// Whether the run is to end.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// What a command ends with.
pub type Outcome = Result<ExitCode, CommandError>;

/// Why a command could not do its work; printed to stderr, exit code 2.
#[derive(Debug)]
pub struct CommandError(String);

impl CommandError {
    /// An error with its whole text.
    pub fn new(text: impl Into<String>) -> CommandError {
        CommandError(text.into())
    }
}

impl std::fmt::Display for CommandError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CommandError {}
