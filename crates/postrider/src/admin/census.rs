//! Counts of the queue for `/metrics`: the shards count at a request, in small pieces. An answer does not wait long for
//! them: a census that takes longer is in the next answer.

use crate::mutex::lock;
use mta::commands::{ControlRequest, QueueCensus, ShardPort};
use mta::control::{Census, CensusRows, PARTS_MAX};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, timeout};

/// Time that an answer waits for the shards.
const CENSUS_WAIT: Duration = Duration::from_millis(25);
/// Minimum time between two, so that requests in a row cost the shards little.
const CENSUS_EVERY: Duration = Duration::from_secs(1);
/// Maximum number of rows of a table, without the one for all smaller ones.
const CENSUS_ROWS: usize = 50;

/// The last census, and the ports of the shards.
#[derive(Clone)]
pub(crate) struct QueueCounts(Arc<Parts>);

struct Parts {
    ports: Vec<ShardPort>,
    state: Mutex<State>,
    done: Notify,
}

#[derive(Default)]
struct State {
    /// The last complete one, and its time.
    last: Option<(Instant, Arc<CensusRows>)>,
    is_running: bool,
}

impl std::fmt::Debug for QueueCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueCounts").finish_non_exhaustive()
    }
}

impl QueueCounts {
    pub(crate) fn new(ports: Vec<ShardPort>) -> QueueCounts {
        QueueCounts(Arc::new(Parts { ports, state: Mutex::default(), done: Notify::new() }))
    }

    /// With this census.
    #[cfg(test)]
    pub(super) fn counted(rows: CensusRows) -> QueueCounts {
        let counts = QueueCounts::new(Vec::new());
        lock(&counts.0.state).last = Some((Instant::now(), Arc::new(rows)));
        counts
    }

    /// The last census, and its age in seconds.
    pub(super) fn last(&self) -> Option<(f64, Arc<CensusRows>)> {
        let state = lock(&self.0.state);
        state.last.as_ref().map(|(at, rows)| (at.elapsed().as_secs_f64(), Arc::clone(rows)))
    }

    /// Begins a census, and waits a short time for its end.
    pub(super) async fn refresh(&self) {
        let done = self.0.done.notified();
        {
            let mut state = lock(&self.0.state);
            if state.last.as_ref().is_some_and(|(at, _)| at.elapsed() < CENSUS_EVERY) {
                return;
            }
            if !state.is_running {
                state.is_running = true;
                let parts = Arc::clone(&self.0);
                tokio::spawn(async move { parts.take().await });
            }
        }
        // An error means that the shards are busy.
        let _ = timeout(CENSUS_WAIT, done).await;
    }
}

impl Parts {
    async fn take(&self) {
        let began = Instant::now();
        let ask = |port: &ShardPort| {
            let (answer, parts) = mpsc::channel(PARTS_MAX);
            port(ControlRequest::QueueCensus(QueueCensus {}), answer);
            parts
        };
        let asked: Vec<_> = self.ports.iter().map(ask).collect();
        let mut all = Census::default();
        for mut parts in asked {
            // A shard that stops drops the sender.
            while let Some(part) = parts.recv().await {
                part.census.into_iter().for_each(|census| all.add(*census));
            }
        }
        let mut state = lock(&self.state);
        state.last = Some((began, Arc::new(all.finish(CENSUS_ROWS))));
        state.is_running = false;
        drop(state);
        self.done.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mta::control::ShardAnswer;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[tokio::test]
    async fn busy_shard_delays_no_answer_and_is_asked_once_at_a_time() {
        let asked = Arc::new(AtomicU32::new(0));
        let waiting = Arc::new(Mutex::new(Vec::new()));
        let (count, kept) = (Arc::clone(&asked), Arc::clone(&waiting));
        let port: ShardPort = Box::new(move |_, answer| {
            count.fetch_add(1, Ordering::Relaxed);
            lock(&kept).push(answer);
        });
        let counts = QueueCounts::new(vec![port]);
        for _ in 0..3 {
            counts.refresh().await;
        }
        assert!(counts.last().is_none());
        assert_eq!(asked.load(Ordering::Relaxed), 1);
        let answer = lock(&waiting).remove(0);
        let census = Some(Box::<Census>::default());
        let last = ShardAnswer { census, is_last: true, ..ShardAnswer::default() };
        answer.send(last).await.unwrap();
        drop(answer);
        counts.refresh().await;
        assert!(counts.last().is_some());
        counts.refresh().await;
        assert_eq!(asked.load(Ordering::Relaxed), 1, "within a second");
    }
}
