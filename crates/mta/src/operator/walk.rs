//! Walks through all queue entries, piece by piece.

use super::sieve::{EntryFilter, READS_MAX};
use crate::control::{Filter, Select, ShardAnswer, Tally};
use crate::custody::Custody;
use crate::delivery::Delivery;
use crate::routing::Router;
use crate::schedule::Schedule;
use crate::seams::World;
use crate::services::Services;
use mail::{MessageId, Mono};
use queue::{EntryId, Glance};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Number of chunks in a piece: some 4,000 entries, well under a millisecond.
const PIECE_CHUNKS: u32 = 4;
/// Interval for progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

/// The reply to a command: its channel and its counts.
pub(crate) struct CommandReply {
    pub(super) parts: mpsc::Sender<ShardAnswer>,
    pub(super) tally: Cell<Tally>,
    pub(super) told_at: Cell<Mono>,
}

impl CommandReply {
    /// The counts so far.
    pub(crate) fn tally(&self) -> Tally {
        self.tally.get()
    }

    /// Changes the counts, from which the answer's text is made.
    pub(crate) fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// The client has disconnected.
    pub(super) fn is_unwanted(&self) -> bool {
        self.parts.is_closed()
    }

    /// Sends a progress report, if it is due and the channel has capacity.
    pub(super) fn progress(&self, now: Mono) {
        if now >= self.told_at.get() + PROGRESS_EVERY {
            self.told_at.set(now);
            let _ = self.parts.try_send(self.part());
        }
    }

    pub(super) fn part(&self) -> ShardAnswer {
        ShardAnswer { tally: self.tally.get(), ..ShardAnswer::default() }
    }
}

/// A walk through all entries.
pub(crate) struct Walk {
    chunk: u32,
    /// The reference time for ages.
    began: Mono,
    pub(super) sieve: EntryFilter,
}

/// Runs operator commands on one shard.
pub(crate) struct Operator<W: World> {
    pub(super) services: Rc<Services<W>>,
    pub(super) custody: Rc<Custody<W>>,
    pub(super) router: Rc<Router>,
    pub(super) schedule: Rc<Schedule<W>>,
    pub(super) delivery: Rc<Delivery<W>>,
}

impl<W: World> Operator<W> {
    /// For the shard of these deliveries.
    pub(crate) fn new(delivery: &Rc<Delivery<W>>) -> Rc<Operator<W>> {
        Rc::new(Operator {
            services: Rc::clone(&delivery.services),
            custody: Rc::clone(&delivery.custody),
            router: Rc::clone(&delivery.router),
            schedule: Rc::clone(&delivery.schedule),
            delivery: Rc::clone(delivery),
        })
    }

    pub(super) fn queued_count(&self) -> usize {
        let counts = self.schedule.queue().counts();
        counts.scheduled + counts.ready + counts.in_flight + counts.held
    }

    /// Begins a walk.
    pub(crate) fn walk(&self, filter: Filter, answer: &CommandReply) -> Walk {
        let total = self.queued_count() as u64;
        answer.count(|tally| tally.total = total);
        Walk { chunk: 0, began: self.services.now(), sieve: EntryFilter::new(filter) }
    }

    /// The matching entries in the next piece. `None` at the end, or if the client has disconnected.
    pub(crate) async fn next_piece(
        self: &Rc<Self>,
        walk: &mut Walk,
        answer: &CommandReply,
    ) -> Option<Vec<Glance>> {
        if walk.chunk > 0 {
            self.services.pause_for_others().await;
        }
        answer.progress(self.services.now());
        let chunks = self.schedule.queue().chunk_count();
        if walk.chunk >= chunks || answer.is_unwanted() {
            return None;
        }
        let end = chunks.min(walk.chunk + PIECE_CHUNKS);
        let mut found = Vec::new();
        let mut seen = 0;
        {
            let queue = self.schedule.queue();
            let active = self.router.active();
            for chunk in walk.chunk..end {
                for glance in queue.glances(walk.began, chunk) {
                    seen += 1;
                    let provider = || self.schedule.provider_of(&queue, &glance);
                    let classes = &self.services.classes;
                    if walk.sieve.passes(&queue, &active, classes, &glance, provider) {
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

    /// Finds a queued recipient of a message on this shard.
    pub(super) async fn find(self: &Rc<Self>, id: MessageId) -> Option<EntryId> {
        let mut chunk = 0;
        loop {
            {
                let queue = self.schedule.queue();
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
            self.services.pause_for_others().await;
        }
    }

    /// The entries of `found` with matching messages. A message that can't be read does not match.
    async fn sift_read(
        self: &Rc<Self>,
        sieve: &EntryFilter,
        found: Vec<Glance>,
        answer: &CommandReply,
    ) -> Vec<Glance> {
        let mut kept = Vec::new();
        // Recipients of one message are mostly adjacent, so it is read once for all.
        let mut of_message = found.chunk_by(|a, b| a.id == b.id).peekable();
        while of_message.peek().is_some() && !answer.is_unwanted() {
            let batch: Vec<&[Glance]> = of_message.by_ref().take(READS_MAX).collect();
            let ids: Vec<MessageId> =
                batch.iter().filter_map(|of| of.first().map(|glance| glance.id)).collect();
            let read = self.custody.messages.peek_all(&ids).await;
            for (glances, message) in batch.into_iter().zip(read) {
                let Ok(message) = message else { continue };
                let matching =
                    glances.iter().filter(|g| sieve.passes_message(&message, g.recipient));
                kept.extend(matching.copied());
            }
            answer.progress(self.services.now());
        }
        kept
    }
}

/// A selection: one message, or all that match a filter.
pub(super) enum MessageSelection {
    One(MessageId),
    Matching(Box<Filter>),
}

impl From<Select> for MessageSelection {
    fn from(select: Select) -> MessageSelection {
        match select {
            Select::Id(id) => MessageSelection::One(id),
            Select::Filter(filter) => MessageSelection::Matching(filter),
            Select::All => MessageSelection::Matching(Box::default()),
        }
    }
}
