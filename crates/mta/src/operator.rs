//! What an operator asks of a shard, by way of the control socket.
//!
//! Whoever looks at the whole queue does so a piece at a time and lets others go first in between;
//! what is found is dealt with piece by piece, so that neither memory nor the pauses of the shard
//! grow with the queue. When nobody listens to the answer any more, it ends.

mod change;
mod item;
mod list;
mod sieve;
mod standing;
mod tally;

use crate::control::{ControlRequest, Filter, Select, ShardAnswer, ShardStatus, Tally};
use crate::seams::{Spawn, Time, World};
use crate::shard::Shard;
use mail::{MessageId, Mono};
use queue::{EntryId, Glance};
use sieve::Sieve;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Chunks of entries looked at in one go: some 4,000, well under a millisecond.
const PIECE_CHUNKS: u32 = 4;
/// How long others go first between two pieces.
const PAUSE: Duration = Duration::from_millis(1);
/// Between two words about how far a command has come.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// Where a command's answer goes, and what it came to so far.
pub(super) struct Answer {
    parts: mpsc::Sender<ShardAnswer>,
    tally: Cell<Tally>,
    told_at: Cell<Mono>,
}

impl Answer {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// Nobody listens any more.
    fn is_unwanted(&self) -> bool {
        self.parts.is_closed()
    }

    /// Says how far it has come, if that is due and the asker has taken what was said before.
    fn progress(&self, now: Mono) {
        if now >= self.told_at.get() + PROGRESS_EVERY {
            self.told_at.set(now);
            let _ = self.parts.try_send(self.part());
        }
    }

    fn part(&self) -> ShardAnswer {
        ShardAnswer { tally: self.tally.get(), ..ShardAnswer::default() }
    }
}

/// A walk past all entries.
pub(super) struct Walk {
    chunk: u32,
    /// What ages are counted from.
    began: Mono,
    sieve: Sieve,
}

impl<W: World> Shard<W> {
    /// Answers an operator, in a task of its own.
    pub(crate) fn handle_control(
        self: &Rc<Self>,
        request: ControlRequest,
        parts: mpsc::Sender<ShardAnswer>,
    ) {
        let shard = Rc::clone(self);
        self.world.spawn().spawn(async move {
            let told_at = Cell::new(shard.now());
            let answer = Answer { parts: parts.clone(), tally: Cell::default(), told_at };
            let mut last = shard.answer(request, &answer).await;
            (last.tally, last.is_last) = (answer.tally.get(), true);
            // Nobody may be listening any more.
            let _ = parts.send(last).await;
        });
    }

    async fn answer(self: &Rc<Self>, request: ControlRequest, answer: &Answer) -> ShardAnswer {
        let error = match request {
            ControlRequest::QueueList { filter, limit } => {
                self.list(filter, limit, answer).await;
                None
            }
            ControlRequest::QueueShow { id } | ControlRequest::QueueWhy { id } => {
                return self.one(id, answer).await;
            }
            ControlRequest::QueueRetry { select } => {
                self.retry(select, answer).await;
                None
            }
            ControlRequest::QueueHold { select, reason } => {
                self.hold(select, Some(reason.into()), answer).await
            }
            ControlRequest::QueueRelease { select } => self.hold(select, None, answer).await,
            ControlRequest::QueueRemove { select } => self.remove(select, answer).await,
            ControlRequest::QueueFail { select, status, reason } => {
                self.fail(select, status.as_deref(), &reason, answer).await
            }
            ControlRequest::QueueSummary { filter, .. } => {
                let summary = Some(Box::new(self.summary(filter, answer).await));
                return ShardAnswer { summary, ..ShardAnswer::default() };
            }
            ControlRequest::Unrouted => {
                let recipients = self.count_unrouted().await;
                answer.count(|tally| tally.recipients = recipients);
                None
            }
            ControlRequest::Status => {
                return ShardAnswer { status: Some(self.status()), ..ShardAnswer::default() };
            }
            ControlRequest::Reload
            | ControlRequest::QueueSuspend { .. }
            | ControlRequest::QueueResume { .. }
            | ControlRequest::TrustClock => None,
        };
        ShardAnswer { error, ..ShardAnswer::default() }
    }

    fn status(&self) -> ShardStatus {
        let queue = self.queue.borrow();
        let counts = queue.counts();
        let connections = queue.ready_queues().map(|ready| u64::from(ready.open)).sum();
        let sessions = self.shared.sessions.get(usize::from(self.number));
        let load = |n: &std::sync::atomic::AtomicU32| n.load(std::sync::atomic::Ordering::Relaxed);
        let unreported = self.unreported.count();
        ShardStatus {
            shard: self.number,
            sessions: u64::from(sessions.map_or(0, load)),
            connections,
            recipients: (self.queued_count() + unreported) as u64,
            held: counts.held as u64,
            in_flight: counts.in_flight as u64,
            unreported: unreported as u64,
        }
    }

    fn queued_count(&self) -> usize {
        let counts = self.queue.borrow().counts();
        counts.scheduled + counts.ready + counts.in_flight + counts.held
    }

    /// Lets others go first.
    async fn pause_for_others(&self) {
        let time = self.world.time();
        time.sleep_until(time.now() + PAUSE).await;
    }

    /// Begins to walk past all entries.
    fn walk(&self, filter: Filter, answer: &Answer) -> Walk {
        let total = self.queued_count() as u64;
        answer.count(|tally| tally.total = total);
        Walk { chunk: 0, began: self.now(), sieve: Sieve::new(filter) }
    }

    /// The entries in the next piece that match; `None` at the end, or when nobody wants to know.
    async fn next_piece(self: &Rc<Self>, walk: &mut Walk, answer: &Answer) -> Option<Vec<Glance>> {
        if walk.chunk > 0 {
            self.pause_for_others().await;
        }
        answer.progress(self.now());
        let chunks = self.queue.borrow().chunk_count();
        if walk.chunk >= chunks || answer.is_unwanted() {
            return None;
        }
        let end = chunks.min(walk.chunk + PIECE_CHUNKS);
        let mut found = Vec::new();
        let mut seen = 0;
        {
            let queue = self.queue.borrow();
            let active = self.active();
            for chunk in walk.chunk..end {
                for glance in queue.glances(walk.began, chunk) {
                    seen += 1;
                    if walk.sieve.passes(&queue, &active.config, &glance) {
                        found.push(glance);
                    }
                }
            }
        }
        walk.chunk = end;
        answer.count(|tally| tally.seen += seen);
        if walk.sieve.reads_messages() {
            found = self.sift_read(&walk.sieve, found, answer).await;
        }
        Some(found)
    }

    /// A recipient of a message, if it is queued here.
    async fn find(self: &Rc<Self>, id: MessageId) -> Option<EntryId> {
        let mut chunk = 0;
        loop {
            {
                let queue = self.queue.borrow();
                if chunk >= queue.chunk_count() {
                    return None;
                }
                for _ in 0..PIECE_CHUNKS {
                    if let Some(entry) = queue.find(chunk, id) {
                        return Some(entry);
                    }
                    chunk += 1;
                }
            }
            self.pause_for_others().await;
        }
    }
}

/// What a selection asks for: one message, or all that match.
pub(super) enum Wanted {
    One(MessageId),
    Matching(Filter),
}

impl From<Select> for Wanted {
    fn from(select: Select) -> Wanted {
        match select {
            Select::Id(id) => Wanted::One(id),
            Select::Filter(filter) => Wanted::Matching(filter),
            Select::All => Wanted::Matching(Filter::default()),
        }
    }
}
