//! Ending on request: SIGTERM and Ctrl-C.

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
