//! Operator commands on entries.

use crate::named_limit::Borrowed;
use crate::queue::Queue;
use crate::scheduled::RoutingState;
use crate::slab::{HELD, REMOVED, State};
use crate::why::PLACE_MAX;
use crate::{Blocker, EntryDetail, EntryId, ReadyId, ScheduledId, Suspension};
use mail::{MessageId, Mono};
use std::sync::Arc;
use std::time::Duration;

/// An answer where messages go that is younger than this is not doubted by an operator's order.
const LOOKED_JUST_NOW: Duration = Duration::from_secs(1);

/// Result of [`Queue::retry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// It is due now.
    Due,
    /// It is on hold and stays held.
    Held,
    /// It is being tried anyway.
    InFlight,
    /// The entry no longer exists.
    Gone,
}

impl Queue {
    /// An entry of each message with this id in a chunk; to be called for the chunks from 0 to [`Queue::chunk_count`].
    #[must_use]
    pub fn find(&self, chunk: u32, id: MessageId) -> Option<EntryId> {
        let slot = self.slab.slots(chunk).find(|slot| self.slab[*slot].id == id)?;
        Some(self.slab.entry_id(slot))
    }

    /// Removes an entry from every queue; the caller settles it. An entry in flight returns `None`, and leaves with
    /// [`crate::Action::Removed`] if it returns undelivered.
    pub fn remove(&mut self, now: Mono, entry: EntryId) -> Option<EntryDetail> {
        let state = self.slab.get(entry)?.state();
        if state == State::InFlight {
            self.slab[entry.slot].set(REMOVED, true);
            return None;
        }
        Some(self.leave_with_detail(now, entry.slot))
    }

    /// Removes an entry from every queue; the caller settles it. `None` if it is in flight, which is not changed, or no
    /// longer exists.
    pub fn take_out(&mut self, now: Mono, entry: EntryId) -> Option<EntryDetail> {
        let state = self.slab.get(entry)?.state();
        (state != State::InFlight).then(|| self.leave_with_detail(now, entry.slot))
    }

    /// Suspends or resumes a scheduled queue. Entries in flight continue; entries in ready queues are moved back when
    /// their turn comes.
    pub fn suspend(
        &mut self,
        now: Mono,
        scheduled: ScheduledId,
        suspension: Option<Arc<Suspension>>,
    ) {
        let Some(queue) = self.scheduled.get_mut(scheduled.0) else { return };
        if queue.standstill.set(now, suspension) {
            let towards = queue.ready();
            self.arm(scheduled.0);
            for ready in towards {
                self.mark(ready.0);
            }
        }
    }

    /// Suspends or resumes a ready queue.
    pub fn suspend_ready(
        &mut self,
        now: Mono,
        ready: ReadyId,
        suspension: Option<Arc<Suspension>>,
    ) {
        let Some(queue) = self.ready.get_mut(ready.0) else { return };
        if queue.standstill.set(now, suspension) {
            self.mark(ready.0);
            // Entries waiting there, or at another suspended source, may use a different source.
            let chunks = self.slab.chunk_count();
            self.sweep.rush(chunks);
        }
    }

    /// Makes an entry due now, whatever it waits for, unless it is on hold.
    pub fn retry(&mut self, now: Mono, entry: EntryId) -> Retried {
        let Some(found) = self.slab.get(entry) else { return Retried::Gone };
        match found.state() {
            _ if found.has(HELD) => Retried::Held,
            State::InFlight => Retried::InFlight,
            State::Scheduled | State::Ready => {
                self.hasten(now, entry.slot);
                Retried::Due
            }
            State::Locating => Retried::Due,
            State::Held | State::Free => Retried::Gone,
        }
    }

    fn hasten(&mut self, now: Mono, slot: u32) {
        let number = self.slab[slot].scheduled;
        self.look_again(now, number);
        if self.slab[slot].state() == State::Ready {
            let ready = self.slab[slot].ready;
            self.ready[ready].gate.lift();
            self.mark(ready);
            // Its recipient may have moved.
            if matches!(self.scheduled[number].known, RoutingState::Each(_)) {
                self.reschedule(slot);
            }
            return;
        }
        let queue = &mut self.scheduled[number];
        if matches!(queue.known, RoutingState::Trouble(..)) {
            queue.known = RoutingState::Nothing;
        }
        let towards = queue.ready();
        if self.slab[slot].due > now {
            self.slab[slot].due = now;
            self.scheduled[number].heap.hastened(&mut self.slab, slot);
        }
        self.arm(number);
        // The next hops may be closed as well.
        for ready in towards {
            self.ready[ready.0].gate.lift();
        }
    }

    /// Requests a new resolution of a scheduled queue: an old answer may have changed.
    fn look_again(&mut self, now: Mono, number: u32) {
        let queue = &mut self.scheduled[number];
        let RoutingState::Ready(_, fresh_until) = &mut queue.known else { return };
        // The entries of one operator command arrive one after another.
        if queue.answered + LOOKED_JUST_NOW <= now && *fresh_until < Mono::NEVER {
            *fresh_until = now;
            self.want_resolution(number);
        }
    }

    /// Returns the reason why an entry waits; `None` if it is gone.
    #[must_use]
    pub fn why(&self, now: Mono, entry: EntryId) -> Option<Blocker> {
        let found = self.slab.get(entry)?;
        let slot = entry.slot;
        Some(match found.state() {
            State::Free => return None,
            State::InFlight => Blocker::InFlight,
            State::Held => {
                let reason = self.hold_reason_at(slot).cloned();
                Blocker::Held { reason: reason.unwrap_or_else(|| Arc::from("")) }
            }
            State::Scheduled | State::Locating => self.why_scheduled(now, slot),
            State::Ready => self.why_ready(now, slot),
        })
    }

    /// The reasons why an entry's other sources are closed, each once. Used if its own source is suspended and all
    /// sources are closed: the entry then leaves by the one that opens first.
    #[must_use]
    pub fn why_other_ways(&self, now: Mono, entry: EntryId) -> Vec<Blocker> {
        let found = self.slab.get(entry).filter(|found| found.state() == State::Ready);
        let Some(found) = found else { return Vec::new() };
        let of = &self.scheduled[found.scheduled];
        let Some(own) = self.ready[found.ready].out(now) else { return Vec::new() };
        if of.standstill.get().is_some() || of.closed_window(now).is_some() {
            return Vec::new();
        }
        let RoutingState::Ready(ways, _) = &of.known else { return Vec::new() };
        let others = ways.iter().filter(|way| way.0 != found.ready);
        let mut all = vec![own];
        for way in others.filter_map(|way| self.ready.get(way.0)) {
            match way.out(now) {
                Some(out) if all.contains(&out) => {}
                Some(out) => all.push(out),
                // It moves there soon.
                None => return Vec::new(),
            }
        }
        all.split_off(1)
    }

    fn why_scheduled(&self, now: Mono, slot: u32) -> Blocker {
        let entry = &self.slab[slot];
        let queue = &self.scheduled[entry.scheduled];
        if let Some(suspension) = queue.standstill.get() {
            return Blocker::Suspended(Arc::clone(suspension));
        }
        if entry.due > now {
            return Blocker::Scheduled { due: entry.due, first: entry.attempts == 0 };
        }
        if let Some(window) = queue.closed_window(now) {
            return window;
        }
        let domain = queue.key.domain.clone();
        match &queue.known {
            RoutingState::Trouble(failure, until) if *until > now => {
                Blocker::ResolutionFailed { domain, failure: failure.clone(), until: *until }
            }
            RoutingState::Each(_)
                if let (State::Scheduled, Some(pause)) = (entry.state(), &self.paused) =>
            {
                Blocker::Paused(pause.clone())
            }
            _ => Blocker::Resolving { domain },
        }
    }

    fn why_ready(&self, now: Mono, slot: u32) -> Blocker {
        let entry = &self.slab[slot];
        let of = &self.scheduled[entry.scheduled];
        let queue = &self.ready[entry.ready];
        if let Some(suspension) = of.standstill.get().or_else(|| queue.standstill.get()) {
            return Blocker::Suspended(Arc::clone(suspension));
        }
        if let Some(window) = of.closed_window(now) {
            return window;
        }
        let next_hop = queue.key.with_source();
        if let Some(pause) = &self.paused {
            return Blocker::Paused(pause.clone());
        }
        if let Some(used_up) = queue.used_up(now) {
            return used_up;
        }
        if queue.open == 0 && queue.opening > 0 {
            return Blocker::Opening { next_hop };
        }
        if queue.open == 0 && queue.gate.open_after > now {
            let failure = queue.gate.failure.clone();
            return Blocker::OpenBackoff { next_hop, failure, until: queue.gate.open_after };
        }
        let before = crate::backlog::Backlog::place(&self.slab, slot, PLACE_MAX);
        let of_hop = queue.rates().find(|rate| rate.share.tokens == 0);
        if let Some(rate) = of_hop.or_else(|| self.tenants.table[of.tenant].used_up()) {
            return self.why_rate(now, rate, before);
        }
        for limit in queue.borrows.iter().filter(|limit| limit.is_limited()) {
            let (share, name) = (&limit.share, Arc::clone(&limit.name));
            if queue.connections() < share.usable() {
                continue;
            }
            if share.asked > 0 && limit.owner != self.config.shard {
                return Blocker::LeaseWait { next_hop: name, owner: limit.owner, before };
            }
            let max = limit.terms.connections_max;
            let used = self.pool(&name).map_or(queue.connections(), |pool| pool.lent());
            let used = used.max(queue.connections());
            if used >= max {
                return Blocker::ConnectionSlots { next_hop: name, used, max, before };
            }
        }
        let bears = queue.window.allowed();
        if queue.connections() >= bears {
            return Blocker::Window { next_hop, bears, before };
        }
        Blocker::Turn { next_hop, before }
    }

    /// A token of `rate` is waited for.
    fn why_rate(&self, now: Mono, rate: &Borrowed, before: u32) -> Blocker {
        let known = self.pool(&rate.name).and_then(|pool| pool.next_token());
        let next = known.filter(|at| *at > now).unwrap_or(now + crate::lease::SPARE_AFTER);
        let each = Duration::try_from_secs_f64(1.0 / rate.terms.messages_per_second);
        // Its own token is preceded by those for the entries before it, as far as this shard knows.
        let until = next + each.unwrap_or(Duration::ZERO).saturating_mul(before);
        Blocker::Rate { next_hop: Arc::clone(&rate.name), before, until }
    }
}

/// Result of [`Queue::transfer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transferred {
    /// It is now in the other queue, waiting or on hold.
    Done,
    /// It is being delivered; nothing was changed.
    InFlight,
    /// The entry no longer exists.
    Gone,
}

impl Queue {
    /// Moves an entry to another scheduled queue, or the same one, with this priority. Due time, attempts and hold
    /// stay.
    ///
    /// # Panics
    /// If `scheduled` was dropped (see [`Queue::scheduled`]).
    pub fn transfer(
        &mut self,
        now: Mono,
        entry: EntryId,
        scheduled: ScheduledId,
        priority: u8,
    ) -> Transferred {
        self.move_entry(now, entry, scheduled, Some(priority))
    }

    /// The same with its own priority.
    ///
    /// # Panics
    /// As [`Queue::transfer`].
    pub fn reassign(&mut self, now: Mono, entry: EntryId, scheduled: ScheduledId) -> Transferred {
        self.move_entry(now, entry, scheduled, None)
    }

    fn move_entry(
        &mut self,
        now: Mono,
        entry: EntryId,
        scheduled: ScheduledId,
        priority: Option<u8>,
    ) -> Transferred {
        let Some(found) = self.slab.get(entry) else { return Transferred::Gone };
        let (state, ready, slot) = (found.state(), found.ready, entry.slot);
        match state {
            State::Free => return Transferred::Gone,
            State::InFlight => return Transferred::InFlight,
            // The queue may be empty now.
            State::Ready => self.mark(ready),
            State::Scheduled | State::Locating | State::Held => {}
        }
        self.detach(slot);
        let number = self.slab[slot].scheduled;
        let left = &mut self.scheduled[number];
        left.set_entries(left.entries - 1);
        left.used = now;
        self.tenants.count_out(left.tenant);
        let entered = &mut self.scheduled[scheduled.0];
        entered.set_entries(entered.entries + 1);
        entered.used = now;
        self.tenants.count_in(entered.tenant);
        self.slab[slot].scheduled = scheduled.0;
        if let Some(priority) = priority {
            self.slab[slot].set_priority(priority);
        }
        if !self.slab[slot].has(HELD) {
            self.place(now, slot);
        }
        Transferred::Done
    }
}
