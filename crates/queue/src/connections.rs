//! Requests and reports of connections.

use crate::queue::Queue;
use crate::scheduled::RoutingState;
use crate::slab::{NONE, State};
use crate::{EntryId, Origin, ReadyId, ScheduledId};
use mail::{Failure, MessageId, Mono};
use smallvec::SmallVec;
use std::sync::Arc;

/// Maximum number of entries with an outdated route that one `take` moves out of a ready queue.
const STALE_MAX: u32 = 64;
/// Recipients of a message examined to find those for the same transaction.
const SIBLINGS_MAX: u32 = 1024;

/// Instruction to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Deliver this message to these recipients; report each result with [`Queue::handle_outcome`].
    Work(TransactionWork),
    /// No work now: report [`Queue::handle_idle`] and wait for [`crate::Action::Wake`]; after a long wait, close with
    /// [`CloseReason::Idle`].
    Wait,
    /// Close the connection: it has sent its maximum of messages, or another ready queue needs its slot.
    Close,
}

/// The work of one transaction: recipients of one message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionWork {
    /// The message of these recipients.
    pub id: MessageId,
    /// Its recipients: entry, index in the envelope, previous attempts.
    pub entries: SmallVec<[(EntryId, u32, u16); 1]>,
    /// Origin of the message.
    pub origin: Origin,
    /// Since when it waited for a connection that is free.
    pub since: Mono,
    /// Serial of the allowance that they were charged to; 0 if none was needed.
    pub allowance: u32,
}

impl TransactionWork {
    /// A transaction of the same message with only these recipients.
    #[must_use]
    pub fn part(&self, entries: SmallVec<[(EntryId, u32, u16); 1]>) -> TransactionWork {
        TransactionWork { entries, ..*self }
    }
}

/// Reason for closing a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CloseReason {
    /// [`Take::Close`], or the caller's own reasons.
    Normal,
    /// It was idle (reported with [`Queue::handle_idle`] and not woken since), whichever side closed it.
    Idle,
    /// It broke in a transaction.
    Lost,
}

impl Queue {
    /// Entries waiting at a ready queue that uses all connections allowed to it; `None` if it has fewer connections or
    /// no entry waits.
    #[must_use]
    pub fn behind_connections(&self, ready: ReadyId) -> Option<u32> {
        let queue = self.ready.get(ready.0)?;
        let has_all = queue.connections() >= queue.allowed();
        Some(queue.backlog.len()).filter(|len| has_all && *len > 0)
    }

    /// Returns the next transaction of an open connection. `carried` is the number of messages already sent on it.
    /// Connections call this repeatedly until it returns an end.
    pub fn take(&mut self, now: Mono, ready: ReadyId, carried: u32) -> Take {
        let Some(queue) = self.ready.get_mut(ready.0) else { return Take::Close };
        queue.woken = queue.woken.saturating_sub(1);
        let carried_max = queue.limits.messages_per_connection;
        if (carried_max > 0 && carried >= carried_max) || queue.connections() > queue.allowed() {
            return Take::Close;
        }
        if queue.gate.is_shut(now) {
            return Take::Close;
        }
        if self.paused.is_some() {
            self.stall(ready.0);
            return Take::Wait;
        }
        if queue.is_suspended(now) {
            return Take::Wait;
        }
        for _ in 0..STALE_MAX {
            let queue = &mut self.ready[ready.0];
            if queue.tokens() == 0 || queue.allowance(now) == 0 {
                break;
            }
            let Some(pick) = queue.backlog.pick() else { return Take::Wait };
            if self.is_overdue(now, pick.slot) {
                self.expire(now, pick.slot);
                continue;
            }
            if !self.may_go(now, pick.slot) {
                self.reschedule(pick.slot);
                continue;
            }
            if !self.tenants.may_send(pick.tenant) {
                self.park_tenant(ready.0, pick.tenant);
                continue;
            }
            let work = self.gather(now, pick.slot);
            let queue = &mut self.ready[ready.0];
            queue.backlog.charge(pick, work.entries.len());
            queue.used = now;
            queue.spend_token();
            if let Some(quota) = &mut queue.quota {
                quota.spend(u32::try_from(work.entries.len()).unwrap_or(u32::MAX));
                // Requests more allowance, or returns the rest.
                self.mark(ready.0);
            }
            self.tenants.spend(pick.tenant);
            return Take::Work(work);
        }
        self.mark(ready.0);
        Take::Wait
    }

    /// Returns true if an entry may be tried at its current ready queue.
    fn may_go(&self, now: Mono, slot: u32) -> bool {
        let queue = &self.scheduled[self.slab[slot].scheduled];
        !queue.is_suspended(now) && self.is_on_its_way(slot)
    }

    /// Returns true if the entry's ready queue is still one that its scheduled queue leads to.
    pub(crate) fn is_on_its_way(&self, slot: u32) -> bool {
        let entry = &self.slab[slot];
        let queue = &self.scheduled[entry.scheduled];
        match &queue.known {
            RoutingState::Ready(ways, _) => {
                queue.epoch == self.epoch && ways.contains(ReadyId(entry.ready))
            }
            // During DNS errors the old next hop is the best one known.
            RoutingState::Trouble(..) => queue.epoch == self.epoch && !queue.way_lost,
            RoutingState::Each(_) => queue.epoch == self.epoch && self.is_located(slot),
            RoutingState::Nothing | RoutingState::Refused(_) => false,
        }
    }

    /// Takes an entry out of the ready queue, and with it those of the same message that fit into the transaction.
    fn gather(&mut self, now: Mono, first: u32) -> TransactionWork {
        let entry = &self.slab[first];
        let (id, ready, origin) = (entry.id, entry.ready, self.slab.origin(first));
        let since = entry.due;
        let mut entries = SmallVec::new();
        let max = match self.ready[ready].limits.recipients_per_message {
            0 => SIBLINGS_MAX,
            max => max.min(SIBLINGS_MAX),
        };
        let max = max.min(self.ready[ready].allowance(now));
        let allowance = self.ready[ready].quota.as_ref().map_or(0, |quota| quota.serial());
        let mut at = first;
        let mut seen = 0;
        loop {
            let entry = &self.slab[at];
            if entry.state() == State::Ready && entry.ready == ready {
                self.hand_out(at);
                let entry = &self.slab[at];
                entries.push((self.slab.entry_id(at), entry.recipient, entry.attempts));
            }
            at = self.slab[at].sibling_next;
            seen += 1;
            if at == NONE || at == first || seen >= SIBLINGS_MAX || entries.len() >= max as usize {
                return TransactionWork { id, entries, origin, since, allowance };
            }
        }
    }

    fn hand_out(&mut self, slot: u32) {
        self.moved(slot, State::InFlight);
        let entry = &self.slab[slot];
        let tenant = self.scheduled[entry.scheduled].tenant;
        self.ready[entry.ready].backlog.remove(&mut self.slab, slot, tenant);
        self.tenants.depart(tenant);
        self.slab[slot].set_state(State::InFlight);
    }

    /// An open connection waits for [`crate::Action::Wake`] from now on.
    pub fn handle_idle(&mut self, now: Mono, ready: ReadyId) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.used = now;
        queue.idle = (queue.idle + 1).min(queue.open);
        if queue.backlog.len() > 0 || queue.connections() > queue.allowed() {
            self.mark(ready.0);
        }
    }

    /// A connection is open; it calls [`Queue::take`] next.
    pub fn handle_opened(&mut self, now: Mono, ready: ReadyId) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.used = now;
        queue.opening = queue.opening.saturating_sub(1);
        queue.open += 1;
        queue.woken += 1;
        queue.last_opening = Some(true);
        queue.gate.probing = false;
        self.mark(ready.0);
    }

    /// Handles a connection that could not be opened: the ready queue backs off, the state of its messages is
    /// unchanged.
    pub fn handle_open_failed(&mut self, now: Mono, ready: ReadyId, failure: Arc<Failure>) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.opening = queue.opening.saturating_sub(1);
        let turned_away = failure.reply.as_ref().is_some_and(|reply| reply.code / 100 == 4);
        if turned_away && queue.open > 0 {
            // It is there, and has enough.
            queue.last_opening = Some(true);
            queue.window.crowd(now, queue.open);
            return self.touched(now, ready);
        }
        self.handle_open_trouble(now, ready, failure);
    }

    fn handle_open_trouble(&mut self, now: Mono, ready: ReadyId, failure: Arc<Failure>) {
        let jitter = self.random.around_zero();
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.last_opening = Some(false);
        queue.gate.fail(now, Some(failure), jitter);
        queue.gate.probing = true;
        self.touched(now, ready);
    }

    /// No connection could be opened, and the failure is permanent. Waiting entries are returned as
    /// [`crate::Action::Failed`]; later entries cause a new attempt.
    pub fn handle_open_refused(&mut self, now: Mono, ready: ReadyId, failure: Arc<Failure>) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.opening = queue.opening.saturating_sub(1);
        // With open connections, another of its hosts accepts mail.
        if queue.open > 0 {
            return self.handle_open_trouble(now, ready, failure);
        }
        queue.gate.succeed();
        queue.refused = Some(failure);
        self.touched(now, ready);
    }

    /// A connection was not opened, because no entry waits for it any more.
    pub fn handle_open_not_needed(&mut self, now: Mono, ready: ReadyId) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.opening = queue.opening.saturating_sub(1);
        self.touched(now, ready);
    }

    /// Returns true if the last connection attempt got as far as a greeting; `None` before the first attempt.
    #[must_use]
    pub fn last_opening(&self, ready: ReadyId) -> Option<bool> {
        self.ready.get(ready.0).and_then(|queue| queue.last_opening)
    }

    /// End of the back-off of a next hop, if its last connection attempt failed.
    #[must_use]
    pub fn closed_until(&self, now: Mono, ready: ReadyId) -> Option<Mono> {
        let queue = self.ready.get(ready.0).filter(|queue| queue.last_opening == Some(false))?;
        Some(queue.gate.open_after).filter(|until| *until > now)
    }

    /// Returns true if a connection being opened is still needed: entries are waiting for it and its slot was not
    /// recalled.
    #[must_use]
    pub fn needs_opening(&self, ready: ReadyId) -> bool {
        self.ready
            .get(ready.0)
            .is_some_and(|queue| queue.backlog.len() > 0 && queue.connections() <= queue.allowed())
    }

    /// The ready queue of an entry that is ready or in flight.
    #[must_use]
    pub fn ready_id_of(&self, entry: EntryId) -> Option<ReadyId> {
        let entry = self.slab.get(entry)?;
        let there = matches!(entry.state(), State::Ready | State::InFlight);
        there.then_some(ReadyId(entry.ready))
    }

    /// The scheduled queue of an entry, whatever its state.
    #[must_use]
    pub fn scheduled_of(&self, entry: EntryId) -> Option<ScheduledId> {
        self.slab.get(entry).map(|entry| ScheduledId(entry.scheduled))
    }

    /// Returns true if a scheduled queue that leads to `ready` has entries that are ready, in flight or being located.
    #[must_use]
    pub fn has_some_at(&self, scheduled: ScheduledId, ready: ReadyId) -> bool {
        self.scheduled.get(scheduled.0).is_some_and(|queue| {
            queue.ready().contains(&ready) && queue.entries as usize > queue.heap.len()
        })
    }

    /// Handles the end of an open connection. A connection that was aborted while it was being opened may also be
    /// reported here.
    pub fn handle_closed(&mut self, now: Mono, ready: ReadyId, reason: CloseReason) {
        let jitter = self.random.around_zero();
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        if queue.open > 0 {
            queue.open -= 1;
        } else {
            queue.opening = queue.opening.saturating_sub(1);
        }
        if reason == CloseReason::Idle {
            queue.idle = queue.idle.saturating_sub(1);
        }
        queue.idle = queue.idle.min(queue.open);
        queue.woken = queue.woken.min(queue.open - queue.idle);
        if reason == CloseReason::Lost {
            queue.gate.lose(now, jitter);
        }
        self.touched(now, ready);
    }

    /// The peer replied 421 or timed out: fewer connections, and a pause before the next one. Called in addition to the
    /// outcomes and the close.
    pub fn handle_throttled(&mut self, now: Mono, ready: ReadyId, failure: Arc<Failure>) {
        let jitter = self.random.around_zero();
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.window.shrink(now);
        queue.gate.fail(now, Some(failure), jitter);
        self.touched(now, ready);
    }

    /// Handles an accepted message: the peer works, and can perhaps take more connections.
    pub fn handle_accepted(&mut self, now: Mono, ready: ReadyId) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        queue.used = now;
        let busy = queue.connections() - queue.idle;
        queue.window.grow(now, busy);
        let was_told = queue.gate.told > 0;
        queue.gate.succeed();
        if queue.backlog.len() > 0 || was_told {
            self.mark(ready.0);
        }
    }

    /// Handles a transaction that was refused temporarily (4yz) as a whole: at MAIL, at the content, or for each of the
    /// recipients (`of_recipients`). The connection window shrinks; refused recipients shrink it from the second
    /// refusal in a row. After many refusals in a row the next hop is suspended.
    pub fn handle_refused(
        &mut self,
        now: Mono,
        ready: ReadyId,
        failure: Arc<Failure>,
        of_recipients: bool,
    ) {
        #[cfg(feature = "planted")]
        if self.is_patient {
            return;
        }
        let jitter = self.random.around_zero();
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        let window = queue.window.allowed().min(queue.connections());
        // A single deferred recipient (greylisted, over quota) is no reason to shrink the window. A second one in a
        // row, without an accepted message between, is attributed to the peer.
        if !of_recipients || queue.gate.is_refusing() {
            queue.window.shrink(now);
        }
        queue.gate.refuse(now, (failure, of_recipients), window, jitter);
        self.touched(now, ready);
    }

    fn touched(&mut self, now: Mono, ready: ReadyId) {
        if let Some(queue) = self.ready.get_mut(ready.0) {
            queue.used = now;
        }
        self.mark(ready.0);
    }
}
