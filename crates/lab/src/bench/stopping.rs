//! Ctrl-C and SIGTERM: servers that have detached themselves must be ended before the run ends.

use load::stop::Stop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the run is to end.
#[derive(Clone, Debug)]
pub(super) struct Stopping(Arc<AtomicBool>);

impl Stopping {
    /// Listens from now on, on a thread of its own.
    ///
    /// # Errors
    /// When signals can't be taken over.
    pub(super) fn listen() -> Result<Stopping, String> {
        let failed = |error: std::io::Error| format!("signals: {error}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let mut stop = {
            let _entered = runtime.enter();
            Stop::listen().map_err(failed)?
        };
        let flag = Arc::new(AtomicBool::new(false));
        let set = Arc::clone(&flag);
        let thread = std::thread::Builder::new().name("signals".to_owned());
        thread
            .spawn(move || {
                runtime.block_on(stop.wait());
                set.store(true, Ordering::Relaxed);
            })
            .map_err(failed)?;
        Ok(Stopping(flag))
    }

    /// # Errors
    /// When the run is to end.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.0.load(Ordering::Relaxed) { Err("interrupted".to_owned()) } else { Ok(()) }
    }
}
