//! A shard's client for the spool: sends requests to the commit threads and dispatches completions.

use super::port::{LogPort, MAIL_IDS_END, SHARD_SHIFT};
use mail::{MessageId, Mono};
use spool::{BlobId, Completion, Record, Request, Ticket};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// The action for a completion.
enum Slot {
    Free {
        next: Option<u32>,
    },
    Waiting(Option<Waker>),
    Done(Completion),
    /// The waiter was dropped, so the completion is dropped too.
    Orphan,
    /// A callback runs.
    Call(Box<dyn FnOnce(Completion)>),
}

/// The pending requests of one shard.
pub(crate) struct SpoolClient {
    shard: u16,
    ports: Vec<Arc<LogPort>>,
    slots: RefCell<Vec<Slot>>,
    free: Cell<Option<u32>>,
    next_port: Cell<usize>,
    /// Logs that accept no more writes.
    failed: RefCell<BTreeSet<u8>>,
}

impl std::fmt::Debug for SpoolClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpoolClient").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl SpoolClient {
    /// A client of `shard` for the logs behind `ports`.
    #[must_use]
    pub(crate) fn new(shard: u16, ports: Vec<Arc<LogPort>>) -> Rc<SpoolClient> {
        Rc::new(SpoolClient {
            shard,
            ports,
            slots: RefCell::default(),
            free: Cell::new(None),
            next_port: Cell::new(usize::from(shard)),
            failed: RefCell::default(),
        })
    }

    /// Allocates an id for a new message, in turn on the logs that accept writes. Prefers logs with free space and a
    /// disk that responds. `None` if no log has ids left.
    #[must_use]
    pub(crate) fn allocate_id(&self, now: Mono) -> Option<MessageId> {
        // If all logs have failed, the error comes from the log when it refuses the write.
        let all_failed = self.have_all_failed();
        let takes = |port: &LogPort| all_failed || !self.has_failed(port.log);
        if self.ports.len() == 1 {
            return self.allocate_in_turn(takes);
        }
        let is_better = |port: &LogPort| takes(port) && !port.condition.is_avoided(now);
        self.allocate_in_turn(is_better).or_else(|| self.allocate_in_turn(takes))
    }

    fn allocate_in_turn(&self, takes: impl Fn(&LogPort) -> bool) -> Option<MessageId> {
        let first = self.next_port.get();
        for turn in first..first.saturating_add(self.ports.len()) {
            let port = &self.ports[turn % self.ports.len()];
            if takes(port)
                && let Some(id) = port.allocate_id(MAIL_IDS_END)
            {
                self.next_port.set(turn.wrapping_add(1));
                return Some(id);
            }
        }
        None
    }

    /// Notes that a log permanently refuses writes. Returns true the first time.
    pub(crate) fn note_failed(&self, log: u8) -> bool {
        self.failed.borrow_mut().insert(log)
    }

    /// Returns true if the log permanently refuses writes.
    #[must_use]
    pub(crate) fn has_failed(&self, log: u8) -> bool {
        self.failed.borrow().contains(&log)
    }

    /// Returns true if all logs permanently refuse writes.
    #[must_use]
    pub(crate) fn have_all_failed(&self) -> bool {
        self.failed.borrow().len() >= self.ports.len()
    }

    /// Allocates an id for a report in the log of `other`, because both must become durable together. `None` if the log
    /// has no ids left.
    #[must_use]
    pub(crate) fn allocate_id_beside(&self, other: MessageId) -> Option<MessageId> {
        self.port(other).allocate_id(MessageId::SEQUENCE_MAX + 1)
    }

    /// Allocates a blob id in the log of `id`.
    #[must_use]
    pub(crate) fn allocate_blob(&self, id: MessageId) -> BlobId {
        BlobId(self.port(id).next_blob.fetch_add(1, Ordering::Relaxed))
    }

    fn port(&self, id: MessageId) -> &Arc<LogPort> {
        // All ids come from these ports or from logs that they stand in for.
        self.ports.iter().find(|port| port.log == id.log()).unwrap_or(&self.ports[0])
    }

    /// Makes `records` durable together. All must be about messages in the log of `id`.
    pub(crate) fn submit(self: &Rc<Self>, id: MessageId, records: Vec<Record>) -> CompletionWaiter {
        self.request(id, |ticket| Request::Submit { ticket, records })
    }

    /// As [`SpoolClient::submit`], with the callback `done` instead of a waiter.
    pub(crate) fn submit_then(
        &self,
        id: MessageId,
        records: Vec<Record>,
        done: impl FnOnce(Completion) + 'static,
    ) {
        let slot = self.occupy(Slot::Call(Box::new(done)));
        (self.port(id).send)(Request::Submit { ticket: self.ticket(slot), records });
    }

    /// Reads a message back, if its record is no longer than `bytes_max`.
    pub(crate) fn load(self: &Rc<Self>, id: MessageId, bytes_max: u64) -> CompletionWaiter {
        self.request(id, |ticket| Request::Load { ticket, id, bytes_max })
    }

    /// Sends a request to the log of `id`.
    pub(crate) fn request(
        self: &Rc<Self>,
        id: MessageId,
        request: impl FnOnce(Ticket) -> Request,
    ) -> CompletionWaiter {
        let slot = self.occupy(Slot::Waiting(None));
        (self.port(id).send)(request(self.ticket(slot)));
        CompletionWaiter { client: Rc::clone(self), slot }
    }

    /// Drops a blob that no record refers to.
    pub(crate) fn drop_blob(&self, id: MessageId, blob: BlobId) {
        (self.port(id).send)(Request::BlobDrop { blob });
    }

    fn ticket(&self, slot: u32) -> Ticket {
        Ticket(u64::from(self.shard) << SHARD_SHIFT | u64::from(slot))
    }

    fn occupy(&self, with: Slot) -> u32 {
        let mut slots = self.slots.borrow_mut();
        if let Some(slot) = self.free.get()
            && let Some(entry) = slots.get_mut(slot as usize)
            && let Slot::Free { next } = *entry
        {
            self.free.set(next);
            *entry = with;
            return slot;
        }
        slots.push(with);
        // Memory is exhausted long before 2^32 pending requests.
        u32::try_from(slots.len() - 1).unwrap_or(u32::MAX)
    }

    fn release(&self, slots: &mut [Slot], slot: u32) -> Slot {
        let old =
            std::mem::replace(&mut slots[slot as usize], Slot::Free { next: self.free.get() });
        self.free.set(Some(slot));
        old
    }

    /// Drops pending callbacks. They hold the shard, which holds this client: without it a shard that ends early would
    /// never be freed. For simulations, which end many shards.
    pub(crate) fn abandon(&self) {
        let mut callbacks = Vec::new();
        for slot in self.slots.borrow_mut().iter_mut().filter(|s| matches!(s, Slot::Call(_))) {
            callbacks.push(std::mem::replace(slot, Slot::Orphan));
        }
        // Dropped last, since callbacks may drop other waiters of this client.
        drop(callbacks);
    }

    /// Handles a completion from a commit thread.
    pub(crate) fn handle_completion(&self, ticket: Ticket, completion: Completion) {
        let slot = (ticket.0 & ((1 << SHARD_SHIFT) - 1)) as u32;
        let mut slots = self.slots.borrow_mut();
        match slots.get_mut(slot as usize) {
            Some(entry @ Slot::Waiting(_)) => {
                let Slot::Waiting(waker) = std::mem::replace(entry, Slot::Done(completion)) else {
                    return;
                };
                drop(slots);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Some(Slot::Call(_)) => {
                let old = self.release(&mut slots, slot);
                drop(slots);
                if let Slot::Call(done) = old {
                    done(completion);
                }
            }
            Some(Slot::Orphan) => {
                self.release(&mut slots, slot);
            }
            Some(Slot::Free { .. } | Slot::Done(_)) | None => {
                debug_assert!(false, "a completion that nobody asked for: {ticket:?}");
            }
        }
    }
}

/// Future of a request's completion.
#[derive(Debug)]
#[must_use = "requests without a waiter are sent with submit_then"]
pub(crate) struct CompletionWaiter {
    client: Rc<SpoolClient>,
    slot: u32,
}

/// Slot number of a [`CompletionWaiter`] after completion.
const ENDED: u32 = u32::MAX;

impl Future for CompletionWaiter {
    type Output = Completion;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Completion> {
        let client = Rc::clone(&self.client);
        let mut slots = client.slots.borrow_mut();
        match &mut slots[self.slot as usize] {
            Slot::Done(_) => {
                let old = client.release(&mut slots, self.slot);
                self.slot = ENDED;
                match old {
                    Slot::Done(completion) => Poll::Ready(completion),
                    _ => Poll::Pending,
                }
            }
            Slot::Waiting(waker) => {
                *waker = Some(cx.waker().clone());
                Poll::Pending
            }
            _ => Poll::Pending,
        }
    }
}

impl Drop for CompletionWaiter {
    fn drop(&mut self) {
        if self.slot == ENDED {
            return;
        }
        let mut slots = self.client.slots.borrow_mut();
        match &mut slots[self.slot as usize] {
            Slot::Done(_) => {
                self.client.release(&mut slots, self.slot);
            }
            entry => *entry = Slot::Orphan,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::port::{COMMIT_MAX, LogCondition};
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn port(log: u8, next_sequence: u64) -> Arc<LogPort> {
        Arc::new(LogPort {
            send: Box::new(|_| ()),
            next_sequence: AtomicU64::new(next_sequence),
            next_blob: AtomicU64::new(1),
            log,
            node: 0,
            condition: LogCondition::default(),
        })
    }

    #[test]
    fn a_log_that_failed_gets_no_new_mail_and_stops_no_other() {
        let client = SpoolClient::new(0, (0..3).map(|log| port(log, 1)).collect());
        assert!(client.note_failed(1) && !client.note_failed(1));
        let logs: Vec<u8> = (0..6).map(|_| client.allocate_id(Mono(0)).unwrap().log()).collect();
        assert_eq!(logs, [0, 2, 0, 2, 0, 2]);
        assert!(client.has_failed(1) && !client.has_failed(0) && !client.have_all_failed());
        assert!(client.note_failed(0) && client.note_failed(2));
        assert!(client.have_all_failed());
        assert!(client.allocate_id(Mono(0)).is_some(), "the log itself refuses");
    }

    #[test]
    fn a_log_that_hangs_or_is_full_gets_no_new_mail_while_another_takes_it() {
        let ports: Vec<_> = (0..2).map(|log| port(log, 1)).collect();
        let client = SpoolClient::new(0, ports.clone());
        let logs = |now| (0..4).map(|_| client.allocate_id(now).unwrap().log()).collect::<Vec<_>>();
        ports[0].condition.commit.begin(Mono(0));
        let limit = Mono(COMMIT_MAX.as_micros() as u64);
        assert_eq!(logs(limit), [0, 1, 0, 1], "a slow commit is none that hangs");
        let later = Mono(limit.0 + 1);
        assert_eq!(logs(later), [1, 1, 1, 1]);
        ports[1].condition.is_full.store(true, Ordering::Relaxed);
        assert_eq!(logs(later), [0, 1, 0, 1], "none is better");
        ports[0].condition.commit.end();
        assert_eq!(logs(later), [0, 0, 0, 0]);
    }

    #[test]
    fn ids_end_and_the_last_are_for_reports() {
        let ports = vec![port(0, MAIL_IDS_END - 2), port(1, MAIL_IDS_END - 1)];
        let client = SpoolClient::new(0, ports.clone());
        let ids: Vec<_> = std::iter::from_fn(|| client.allocate_id(Mono(0))).collect();
        let places = ids.iter().map(|id| (id.log(), id.sequence())).collect::<Vec<_>>();
        // One log goes on when the other has none left.
        let last = MAIL_IDS_END - 1;
        assert_eq!(places, [(0, last - 1), (1, last), (0, last)]);
        assert_eq!((ports[0].ids_left(), ports[1].ids_left()), (0, 0));
        let report = client.allocate_id_beside(ids[0]).unwrap();
        assert_eq!((report.log(), report.sequence()), (0, MAIL_IDS_END));
        ports[0].next_sequence.store(MessageId::SEQUENCE_MAX, Ordering::Relaxed);
        let report = client.allocate_id_beside(ids[0]).unwrap();
        assert_eq!(report.sequence(), MessageId::SEQUENCE_MAX);
        assert_eq!(client.allocate_id_beside(ids[0]), None, "it does not begin again at 0");
        assert_eq!((client.allocate_id(Mono(0)), client.allocate_id_beside(ids[0])), (None, None));
    }
}
