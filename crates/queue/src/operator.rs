//! What an operator does to messages. Each call scans all entries, which takes some milliseconds
//! per million.

use crate::queue::Queue;
use crate::scheduled::Known;
use crate::slab::{HELD, REMOVED, State};
use crate::{Blocker, EntryDetail, EntryId};
use mail::{Domain, MessageId, Mono};
use std::sync::Arc;

/// Which entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Filter {
    /// Every one.
    All,
    /// Those of a message.
    Id(MessageId),
    /// Those with this recipient domain.
    Domain(Domain),
}

impl Queue {
    /// Holds a message: its recipients are not tried until [`Queue::release`]; those in flight
    /// are held when they come back. Gives those that were not held before.
    pub fn hold(&mut self, now: Mono, id: MessageId) -> Vec<EntryDetail> {
        let mut slots = self.slots_of(id);
        slots.retain(|slot| !self.slab[*slot].has(HELD));
        for &slot in &slots {
            self.detach(slot);
            self.slab[slot].set(HELD, true);
        }
        slots.into_iter().map(|slot| self.detail(now, slot)).collect()
    }

    /// Lets a held message go on where it was. Gives those that were held.
    pub fn release(&mut self, now: Mono, id: MessageId) -> Vec<EntryDetail> {
        let mut slots = self.slots_of(id);
        slots.retain(|slot| self.slab[*slot].has(HELD));
        for &slot in &slots {
            self.slab[slot].set(HELD, false);
            if self.slab[slot].state() == State::Held {
                self.place(now, slot);
            }
        }
        slots.into_iter().map(|slot| self.detail(now, slot)).collect()
    }

    /// Takes a message out of every queue and gives its recipients, to be settled as removed.
    /// Those in flight leave when they come back undelivered, with [`crate::Action::Removed`].
    pub fn remove(&mut self, now: Mono, id: MessageId) -> Vec<EntryDetail> {
        let mut removed = Vec::new();
        for slot in self.slots_of(id) {
            if self.slab[slot].state() == State::InFlight {
                self.slab[slot].set(REMOVED, true);
            } else {
                removed.push(self.leave_with_detail(now, slot));
            }
        }
        removed
    }

    /// Has entries tried now, whatever they wait for, except those that are held. Gives how many
    /// there are that are not in flight.
    pub fn retry(&mut self, now: Mono, filter: &Filter) -> usize {
        let slots: Vec<u32> = self
            .slab
            .iter()
            .filter(|(_, e)| match filter {
                Filter::All => true,
                Filter::Id(id) => e.id == *id,
                Filter::Domain(domain) => self.scheduled[e.scheduled].key.domain == *domain,
            })
            .filter(|(_, e)| matches!(e.state(), State::Scheduled | State::Ready))
            .map(|(slot, _)| slot)
            .collect();
        for &slot in &slots {
            self.hasten(now, slot);
        }
        slots.len()
    }

    fn hasten(&mut self, now: Mono, slot: u32) {
        let number = self.slab[slot].scheduled;
        if self.slab[slot].state() == State::Ready {
            let ready = self.slab[slot].ready;
            self.ready[ready].gate.lift();
            self.mark(ready);
            return;
        }
        let queue = &mut self.scheduled[number];
        if matches!(queue.known, Known::Trouble(..)) {
            queue.known = Known::Nothing;
        }
        let towards = queue.ready();
        if self.slab[slot].due > now {
            self.slab[slot].due = now;
            self.scheduled[number].heap.hastened(&mut self.slab, slot);
        }
        self.arm(number);
        // The way may be closed as well.
        if let Some(ready) = towards {
            self.ready[ready.0].gate.lift();
        }
    }

    /// What an entry waits for; `None` if it is gone.
    #[must_use]
    pub fn why(&self, now: Mono, entry: EntryId) -> Option<Blocker> {
        let state = self.slab.get(entry)?.state();
        let slot = entry.slot;
        let deadline = self.expires_at(slot);
        Some(match state {
            State::Free => return None,
            State::Held => Blocker::Held { deadline },
            State::InFlight => Blocker::InFlight { deadline },
            State::Scheduled => self.why_scheduled(now, slot),
            State::Ready => self.why_ready(now, slot),
        })
    }

    fn why_scheduled(&self, now: Mono, slot: u32) -> Blocker {
        let entry = &self.slab[slot];
        let queue = &self.scheduled[entry.scheduled];
        if entry.due > now {
            let failure = self.failures.get(entry.failure).cloned();
            let due = entry.due.min(self.expires_at(slot));
            return Blocker::Scheduled { due, failure };
        }
        match &queue.known {
            Known::Trouble(failure, until) if *until > now => {
                Blocker::ResolutionFailed { failure: failure.clone(), until: *until }
            }
            _ => Blocker::Resolving {
                domain: queue.key.domain.clone(),
                deadline: self.expires_at(slot),
            },
        }
    }

    fn why_ready(&self, now: Mono, slot: u32) -> Blocker {
        let queue = &self.ready[self.slab[slot].ready];
        let deadline = self.expires_at(slot);
        let next_hop = queue.key.next_hop.clone();
        if let Some(pause) = &self.paused {
            return Blocker::Paused { pause: pause.clone(), deadline };
        }
        if queue.open == 0 && queue.opening > 0 {
            return Blocker::Opening { next_hop, deadline };
        }
        if queue.open == 0 && queue.gate.open_after > now {
            let failure = queue.gate.failure.clone();
            return Blocker::OpenBackoff { next_hop, failure, until: queue.gate.open_after };
        }
        if let Some(rate) = queue.rates().find(|rate| rate.share.tokens == 0) {
            let known = self.pool(&rate.name).and_then(|pool| pool.next_token());
            let until = known.filter(|at| *at > now).unwrap_or(now + crate::lease::SPARE_AFTER);
            return Blocker::Rate { next_hop: Arc::clone(&rate.name), until };
        }
        for limit in queue.borrows.iter().filter(|limit| limit.is_limited()) {
            let (share, name) = (&limit.share, Arc::clone(&limit.name));
            if queue.connections() < share.usable() {
                continue;
            }
            if share.asked > 0 && limit.owner != self.config.shard {
                return Blocker::LeaseWait { next_hop: name, owner: limit.owner, deadline };
            }
            let max = limit.terms.connections_max;
            let used = self.pool(&name).map_or(queue.connections(), |pool| pool.lent());
            if used.max(queue.connections()) >= max {
                return Blocker::ConnectionSlots { next_hop: name, used, max, deadline };
            }
        }
        let before = crate::backlog::Backlog::place(&self.slab, slot, 1000);
        Blocker::Turn { next_hop, before, deadline }
    }
}
