//! Accepts connections on a listening socket and assigns each to the least loaded shard.
//!
//! One task accepts for all shards. A few long connections are thus spread evenly (SO_REUSEPORT would hash them), and
//! shutdown does not reset clients in a closed socket's backlog.

use crate::console::Console;
use crate::inbox::{ShardMessage, ShardSender};
use crate::problems::DetectedProblem;
use crate::seams::{Listener, Net, Time, World};
use crate::shared::SharedState;
use crate::watched::Watcher;
use mail::Wall;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Pause of accepting when the process has no file descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// Number of errors in a row, without a connection in between, from which on the listener is a problem: a second.
const ERRORS_MIN: u32 = 10;

/// Maximum number of sessions beyond the limit that get a 421 reply at the same time; further clients wait in the
/// backlog. Rejecting them needs descriptors, too.
pub const TURNED_AWAY_MAX: u32 = 16;
/// Interval for checking which rejected sessions have ended.
const TURNED_AWAY_PAUSE: Duration = Duration::from_millis(5);

/// Accepts until `stop` is set.
pub async fn run<W: World>(
    world: W,
    mut listener: <W::Net as Net>::Listener,
    index: usize,
    shared: Arc<SharedState>,
    shards: Vec<ShardSender<<W::Net as Net>::Accepted>>,
    console: Rc<dyn Console>,
    mut stop: Watcher<bool>,
) {
    let sessions_max = shared.sessions_max.saturating_add(TURNED_AWAY_MAX);
    let about = listener.local_addr().map_or_else(|_| index.to_string(), |at| at.to_string());
    let mut errors = AcceptErrors { about, count: 0 };
    loop {
        while shared.session_count() >= sessions_max && !stop.get() {
            let time = world.time();
            time.sleep_until(time.now() + TURNED_AWAY_PAUSE).await;
        }
        let accepted = tokio::select! {
            biased;
            // An error means that the sender of `stop` is gone: then stop, too.
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        match accepted {
            Ok((accepted, peer)) => {
                errors.end(&shared);
                let shard = least_loaded(&shared);
                shared.sessions[shard].fetch_add(1, Ordering::Relaxed);
                let message = ShardMessage::Connection { accepted, peer, listener: index };
                if shards[shard].send(message).is_err() {
                    return;
                }
            }
            Err(error) => {
                // EMFILE and similar errors: the connection waits in the backlog until a descriptor is free. Other
                // errors (the client disconnected before) pass at once.
                console.warn("accept", format_args!("cannot accept a connection: {error}"));
                let time = world.time();
                errors.note(&shared, &error, time.wall());
                time.sleep_until(time.now() + EXHAUSTED_PAUSE).await;
            }
        }
    }
}

/// Errors of a listener since its last connection.
struct AcceptErrors {
    /// Its address.
    about: String,
    count: u32,
}

impl AcceptErrors {
    fn note(&mut self, shared: &SharedState, error: &io::Error, now: Wall) {
        self.count = self.count.saturating_add(1);
        if self.count >= ERRORS_MIN {
            let about = self.about.as_str();
            let text = format!("the listener on {about} cannot accept connections: {error}");
            let step = "raise the limit of open files (LimitNOFILE=, ulimit -Hn)";
            let found = DetectedProblem::error(about, text).next_step(step);
            shared.deaf_listeners.set(found, now);
        }
    }

    /// A connection was accepted.
    fn end(&mut self, shared: &SharedState) {
        if std::mem::take(&mut self.count) >= ERRORS_MIN {
            shared.deaf_listeners.clear(&self.about);
        }
    }
}

fn least_loaded(shared: &SharedState) -> usize {
    let loads = shared.sessions.iter().map(|count| count.load(Ordering::Relaxed));
    loads.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(shard, _)| shard)
}
