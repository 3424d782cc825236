//! Operator commands on a shard.
//!
//! A command over the whole queue walks through it piece by piece, yields in between, and processes each piece at once.
//! Neither memory nor the pauses of the shard then grow with the queue. The command ends when its client disconnects.

mod census;
mod change;
mod ended_holds;
mod fail;
mod item;
mod list;
mod moving;
mod reading;
mod shaped;
mod sieve;
mod tally;
mod walk;

use crate::control::{ShardAnswer, ShardStatus};
use crate::schedule::standing::count_unrouted;
use crate::seams::World;
pub(crate) use fail::Order as FailOrder;
use std::cell::Cell;
use tokio::sync::mpsc;
pub(crate) use walk::{CommandReply, Operator};

impl<W: World> Operator<W> {
    /// Runs `work` in a separate task.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + 'static) {
        self.services.spawn(work);
    }

    /// A reply with this channel for its parts.
    pub(crate) fn answer_to(&self, parts: mpsc::Sender<ShardAnswer>) -> CommandReply {
        CommandReply { parts, tally: Cell::default(), told_at: Cell::new(self.services.now()) }
    }

    /// Counts queued recipients without a route.
    pub(crate) async fn count_unrouted(&self, answer: &CommandReply) {
        let recipients = count_unrouted(&self.schedule).await;
        answer.count(|tally| tally.recipients = recipients);
    }

    /// The state of the shard.
    pub(crate) fn status(&self) -> ShardStatus {
        let queue = self.schedule.queue();
        let counts = queue.counts();
        let connections = queue.ready_queues().map(|ready| u64::from(ready.open)).sum();
        let sessions = self.services.shared.sessions.get(usize::from(self.services.number));
        let load = |n: &std::sync::atomic::AtomicU32| n.load(std::sync::atomic::Ordering::Relaxed);
        let unreported = self.delivery.unreported.count();
        ShardStatus {
            shard: self.services.number,
            sessions: u64::from(sessions.map_or(0, load)),
            connections,
            recipients: (self.queued_count() + unreported) as u64,
            held: counts.held as u64,
            in_flight: counts.in_flight as u64,
            unreported: unreported as u64,
        }
    }
}
