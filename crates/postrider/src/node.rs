//! A running server: logs, shards, acceptors and their shared state.

mod start;

use crate::certificates::Certificates;
use crate::commands::load::LoadError;
use crate::commit_thread::Log;
use crate::console::ConsoleLog;
use crate::event_log::EventLog;
use crate::handed_sockets::Unassigned;
use crate::limited_work::awaited;
use crate::node_metrics::NodeMetrics;
use crate::orders::{Order, Orders};
use crate::poisoned;
use crate::problems::{ProblemFinder, ProblemList};
use crate::reload::Reloadable;
use crate::spool_backup;
use crate::tables::{Registry, TableNumbers};
use crate::warmup::StoredWarmups;
use crate::world::clock::Start;
use crate::world::listening_socket::AcceptedSocket;
use crate::world::programs::ProgramRunner;
use config::ConfigErrors;
use mta::commands::ShardPort;
use mta::console::{Console as _, Level};
use mta::control::{Effect, SourceItem};
use mta::custody::COMMIT_MAX;
use mta::inbox::{ShardMessage, ShardSender};
use mta::pressure::Pressures;
use mta::problems::Problems;
use mta::shared::SharedState;
use mta::watched::Watched;
use spool::LogSnapshot;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Time for transactions to finish after a stop request.
pub(crate) const GRACE_MS: u64 = 4_500;

/// Timeout for a log to link its files for a backup.
const SNAPSHOT_MAX: Duration = Duration::from_secs(30);

/// Timeout for the last writes to a disk that does not respond.
const CLOSE_MAX: Duration = Duration::from_secs(3);

/// Grace period if a spool's disk is known not to respond; the rest is repeated after the next start.
const HANGING_GRACE_MS: u64 = 2_000;
const HANGING_CLOSE_MAX: Duration = Duration::from_millis(500);

/// The reason why the server cannot start.
pub(crate) enum StartError {
    /// The configuration is missing or invalid, or a file that it names is unusable.
    Wrong(LoadError),
    /// A sentence about the resource that could not be opened, read or bound.
    Failed(String),
}

impl From<ConfigErrors> for StartError {
    fn from(errors: ConfigErrors) -> StartError {
        StartError::Wrong(LoadError::Wrong(errors))
    }
}

impl From<Unassigned> for StartError {
    fn from(why: Unassigned) -> StartError {
        match why {
            Unassigned::Placed(errors) => StartError::from(errors),
            Unassigned::Unknown(why) => StartError::Failed(why),
        }
    }
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> StartError {
        StartError::Wrong(error)
    }
}

impl From<String> for StartError {
    fn from(why: String) -> StartError {
        StartError::Failed(why)
    }
}

/// A running relay.
pub(crate) struct Node {
    shards: Vec<ShardSender<AcceptedSocket>>,
    threads: Vec<thread::JoinHandle<()>>,
    logs: Vec<Log>,
    events: Option<EventLog>,
    stop_accepting: Watched<bool>,
    /// The listening addresses, in the order of the configuration.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) metrics: NodeMetrics,
    pub(crate) started: Start,
    /// Suspensions by operators, and effects of shaping rules.
    pub(crate) orders: Orders,
    shared: Arc<SharedState>,
    tables: Arc<Registry>,
    certificates: Arc<Certificates>,
    warmups: StoredWarmups,
    problems: Arc<ProblemList>,
    programs: ProgramRunner,
    pub(crate) reloadable: Arc<Reloadable>,
}

impl Node {
    /// Ways to put an operator's requests before the shards.
    pub(crate) fn shard_ports(&self) -> Vec<ShardPort> {
        let port = |shard: ShardSender<AcceptedSocket>| -> ShardPort {
            // A shard that has ended drops the reply channel, which the caller observes.
            Box::new(move |request, answer| {
                let _ = shard.send(ShardMessage::Control { request: Box::new(request), answer });
            })
        };
        self.shards.iter().cloned().map(port).collect()
    }

    /// The tables in force.
    pub(crate) fn tables(&self) -> &Arc<Registry> {
        &self.tables
    }

    /// The certificates in force.
    pub(crate) fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// The source of table metrics.
    pub(crate) fn table_numbers(&self) -> TableNumbers {
        let tables = Arc::clone(&self.tables);
        TableNumbers::new(move || tables.numbers())
    }

    /// Sources, with the progress of their warm-up.
    pub(crate) fn sources(&self) -> Vec<SourceItem> {
        self.warmups.sources()
    }

    /// Effects of shaping rules in force.
    pub(crate) fn effects(&self) -> Vec<Effect> {
        self.shared.rules.effects().into_iter().filter(Effect::is_in_force).collect()
    }

    /// The state shared by the shards.
    pub(crate) fn shared(&self) -> &SharedState {
        &self.shared
    }

    /// Confirms the clock for an operator.
    ///
    /// # Errors
    /// Returns a sentence if the clock was not in doubt.
    pub(crate) fn trust_clock(&self) -> Result<String, String> {
        if !self.shared.clock.is_doubted() {
            return Err("the clock is already trusted".to_owned());
        }
        self.shared.clock.trust();
        Ok("clock trusted: expired mail fails unless one last attempt succeeds".to_owned())
    }

    /// Links the files of each log for a backup, between two batches.
    pub(crate) fn snapshot(&self) -> impl Future<Output = Result<String, String>> + use<> {
        let mut waiting = Vec::new();
        for (log, path) in self.logs.iter().zip(&self.reloadable.first.spool.paths) {
            let (answer, answered) = oneshot::channel();
            let path = path.clone();
            log.visit(Box::new(move |snapshot| {
                let stage = |snapshot: &LogSnapshot| {
                    spool_backup::stage(&path, snapshot).map_err(|error| error.to_string())
                };
                let linked = snapshot.map_err(str::to_owned).and_then(|snapshot| stage(&snapshot));
                let at = path.display();
                let _ = answer.send(linked.map_err(|why| format!("the spool {at}: {why}")));
            }));
            waiting.push(answered);
        }
        async move {
            for answered in waiting {
                match timeout(SNAPSHOT_MAX, answered).await {
                    Ok(Ok(linked)) => linked?,
                    Ok(Err(_)) => return Err("the server is stopping".to_owned()),
                    Err(_) => return Err("the spool's disk does not answer".to_owned()),
                }
            }
            Ok("the files of the spool are linked".to_owned())
        }
    }

    /// Messages with at least one open recipient.
    pub(crate) fn message_count(&self) -> u64 {
        let count = |log: &Log| log.port.condition.live_count.load(Ordering::Relaxed);
        self.logs.iter().map(count).sum()
    }

    /// The state in a line, for the service manager.
    pub(crate) fn summary(&self) -> String {
        format!("Accepting mail; messages in the spool: {}", self.message_count())
    }

    /// Asks each shard for a sign of life. A shard answers when it turns its loop.
    pub(crate) fn are_alive(&self) -> Vec<oneshot::Receiver<()>> {
        let ask = |shard: &ShardSender<AcceptedSocket>| {
            let (answer, answered) = oneshot::channel();
            let _ = shard.send(ShardMessage::AreYouAlive(answer));
            answered
        };
        self.shards.iter().map(ask).collect()
    }

    /// A function that finds the current problems.
    pub(crate) fn problem_finder(&self) -> ProblemFinder {
        self.problems.finder()
    }

    /// The list of problems, for further kinds.
    pub(crate) fn problems(&self) -> &Problems {
        &self.shared.problems
    }

    /// Waits until a log stops writing and a restart is due, so that recovery can repair it. Returns the reason in a
    /// sentence.
    pub(crate) fn end_of_logs(&self) -> impl Future<Output = String> + use<> {
        let logs = self.logs.iter().map(|log| Arc::clone(&log.status)).collect();
        let paths = self.reloadable.first.spool.paths.clone();
        poisoned::wait(logs, paths, (poisoned::GRACE, poisoned::LOOKED_EVERY))
    }

    /// A sentence about name servers that do not answer, or next hops that are left alone, if there are
    /// any.
    pub(crate) fn suspension_finder(&self) -> Arc<dyn Fn() -> Option<String> + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.name_servers.trouble().or_else(|| shared.suspensions.summary()))
    }

    /// The pools, for their numbers.
    pub(crate) fn pressures(&self) -> &Arc<Pressures> {
        &self.shared.pressures
    }

    /// The grace period for transactions, and the timeout for closing.
    fn patience(&self) -> (u64, Duration) {
        let now = self.started.elapsed();
        let hangs = |log: &Log| {
            log.port.condition.commit.under_way(now).is_some_and(|time| time > COMMIT_MAX)
        };
        match self.logs.iter().any(hangs) || self.orders.under_way.oldest().is_some() {
            true => (HANGING_GRACE_MS, HANGING_CLOSE_MAX),
            false => (GRACE_MS, CLOSE_MAX),
        }
    }

    /// Stops the server: refuses new connections, lets transactions finish for a while, replies 421 to the rest,
    /// settles deliveries and closes the logs. Work that hangs is abandoned after some seconds.
    pub(crate) async fn stop(self, console: &Arc<ConsoleLog>) {
        self.stop_accepting.set(true);
        let (grace_ms, close_max) = self.patience();
        let mut waiting = Vec::new();
        for shard in &self.shards {
            let (done, stopped) = oneshot::channel();
            let _ = shard.send(ShardMessage::Stop { grace_ms, done });
            waiting.push(stopped);
        }
        let all = async {
            for stopped in waiting {
                // An error means that the shard has ended already.
                let _ = stopped.await;
            }
        };
        // After the grace period a shard settles and sends 421.
        let shards_max = Duration::from_millis(grace_ms) + close_max;
        if timeout(shards_max, all).await.is_err() {
            console.line(Level::Error, "stop", format_args!("a shard hangs: stopping without it"));
        }
        self.programs.stop();
        let _ = timeout(close_max, self.orders.give(Order::Keep)).await;
        let (logs, reloadable) = (self.logs, self.reloadable);
        drop(self.shards);
        let closed = awaited(close_max, move || {
            // Finish while the spool directory is still locked.
            reloadable.services.finish();
            logs.into_iter().for_each(Log::stop);
        });
        if closed.await.is_none() {
            let text = "the spool's disk hangs: deliveries not yet recorded are repeated after the next start";
            console.line(Level::Error, "stop", format_args!("{text}"));
        }
        if let Some(events) = self.events {
            // It has its own timeout.
            let hangs = close_max == HANGING_CLOSE_MAX;
            match awaited(Duration::MAX, move || events.finish(hangs)).await {
                Some(0) | None => {}
                Some(lost) => {
                    let text = "the event log hangs: events were not written";
                    console.line(Level::Error, "events", format_args!("{text} lost={lost}"));
                }
            }
        }
        // Shard threads end with the process: nothing they still hold matters now.
        drop(self.threads);
    }
}
