//! Takes connections from a listening socket and places each on the least loaded shard.
//!
//! One place sees all connections, so that a few long ones are spread evenly (SO_REUSEPORT would
//! hash them), and a stopping server drops nobody from a closed socket's backlog.

use crate::console::Console;
use crate::inbox::{ShardMessage, ShardSender};
use crate::seams::{Listener, Net, Time, World};
use crate::shared::SharedState;
use crate::watched::Watcher;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long accepting pauses when the process has no descriptor left.
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(100);

/// So many sessions beyond the limit may be told 421 at the same time; more clients wait in the
/// backlog. Turning them away takes descriptors, too.
pub const TURNED_AWAY_MAX: u32 = 16;
/// How often it is looked whether some of them have gone.
const TURNED_AWAY_PAUSE: Duration = Duration::from_millis(5);

/// Accepts until `stop` says so.
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
    loop {
        while shared.session_count() >= sessions_max && !stop.get() {
            let time = world.time();
            time.sleep_until(time.now() + TURNED_AWAY_PAUSE).await;
        }
        let accepted = tokio::select! {
            biased;
            // An error means that whoever could stop us is gone: so do we.
            _ = stop.wait_for(|stop| *stop) => return,
            accepted = poll_fn(|cx| listener.poll_accept(cx)) => accepted,
        };
        match accepted {
            Ok((accepted, peer)) => {
                let shard = least_loaded(&shared);
                shared.sessions[shard].fetch_add(1, Ordering::Relaxed);
                let message = ShardMessage::Connection { accepted, peer, listener: index };
                if shards[shard].send(message).is_err() {
                    return;
                }
            }
            Err(error) => {
                // EMFILE and its kin: the connection waits in the backlog until a descriptor is
                // free. Others (the client was gone before we looked) pass at once.
                console.warn("accept", format_args!("cannot accept a connection: {error}"));
                let time = world.time();
                time.sleep_until(time.now() + EXHAUSTED_PAUSE).await;
            }
        }
    }
}

fn least_loaded(shared: &SharedState) -> usize {
    let loads = shared.sessions.iter().map(|count| count.load(Ordering::Relaxed));
    loads.enumerate().min_by_key(|(_, count)| *count).map_or(0, |(shard, _)| shard)
}
