//! The thread on which the drivers of tables live: they keep connections, and none can move to another
//! thread.

use super::clerk::TableWorker;
use super::handle::Remote;
use super::shared::RemoteTableShared;
use crate::world::clock::{Start, seed_of};
use config::TableCache;
use lookup::Backend;
use mta::console::Console;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use tokio::sync::mpsc;
use tokio::task::LocalSet;

/// A task to start on the thread.
pub(crate) type Seed = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// The running thread, which ends when this is dropped. Pending lookups then get an error or a stale answer.
pub(crate) struct TableThread {
    seeds: Option<mpsc::UnboundedSender<Seed>>,
    thread: Option<JoinHandle<()>>,
    started: Start,
    console: Arc<dyn Console + Send + Sync>,
}

impl TableThread {
    /// Starts the thread. `started` is the start of the process.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a thread.
    pub(crate) fn start(
        started: Start,
        console: Arc<dyn Console + Send + Sync>,
    ) -> io::Result<TableThread> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (seeds, mut sown) = mpsc::unbounded_channel::<Seed>();
        let thread = thread::Builder::new().name("tables".to_owned()).spawn(move || {
            let tasks = LocalSet::new();
            tasks.block_on(&runtime, async move {
                while let Some(seed) = sown.recv().await {
                    tokio::task::spawn_local(seed());
                }
            });
            // Connections are closed within the runtime that they belong to.
            let within = runtime.enter();
            drop(tasks);
            drop(within);
            // A name lookup may hang; do not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(TableThread { seeds: Some(seeds), thread: Some(thread), started, console })
    }

    /// A table with this name. Its driver is built on the thread, and lives as long as the table.
    pub(crate) fn open(
        &self,
        name: Arc<str>,
        cache: &TableCache,
        build: impl FnOnce() -> Box<dyn Backend> + Send + 'static,
    ) -> Remote {
        let shared = Arc::new(RemoteTableShared::new(name, cache, self.started, seed_of(0)));
        let (notes, taken) = mpsc::unbounded_channel();
        let (of_clerk, console) = (Arc::clone(&shared), Arc::clone(&self.console));
        let (requests_max, waiting_max) = (cache.requests_max, cache.waiting_max);
        let timeout = cache.timeout;
        let seed = move || -> Pin<Box<dyn Future<Output = ()>>> {
            let backend = build();
            let limits = lookup::DeskLimits {
                requests_max: requests_max as usize,
                batch_max: backend.batch_max(),
                waiting_max: waiting_max as usize,
                timeout,
            };
            Box::pin(TableWorker::new(of_clerk, backend.into(), limits, console).run(taken))
        };
        self.run(Box::new(seed));
        Remote { shared, notes }
    }

    /// Begins work on the thread.
    pub(crate) fn run(&self, seed: Seed) {
        if let Some(seeds) = &self.seeds {
            // Without the thread every lookup returns an error.
            let _ = seeds.send(seed);
        }
    }
}

impl Drop for TableThread {
    fn drop(&mut self) {
        self.seeds.take();
        // A panic was reported on standard error already.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
