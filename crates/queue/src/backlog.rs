//! The entries of a ready queue in order of service. Tenants are served by deficit round robin (Shreedhar and Varghese
//! 1995), priority classes take turns within a tenant, and a class is first in, first out. An urgent message overtakes
//! only other mail of its tenant (RFC 6710 §9). Mail of unauthenticated clients takes turns per client
//! (`backlog/class.rs`). A tenant without rate tokens is parked: its entries keep their positions but are not counted
//! as sendable.

mod class;
pub(crate) mod origin;

use crate::Origin;
use crate::slab::{FOLLOWER, NONE, Slab, State};
use class::{Class, Links};
use std::collections::BTreeMap;

/// Priorities 0 to 9.
const CLASSES: usize = 10;
/// A lower class is served once in this many takes of a tenant: urgent mail goes first, but the rest moves.
const LOWER_TURN: u8 = 8;
/// Recipients a tenant of weight 1 may send per round.
const QUANTUM: i64 = 8;

/// The entries waiting at one ready queue.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Tenants with entries.
    flows: BTreeMap<u32, Box<Flow>>,
    /// Deficits of tenants without entries, kept while other tenants have entries. A tenant that sends single messages
    /// with many recipients each therefore waits like the rest.
    owed: BTreeMap<u32, DeficitCounter>,
    /// Tenants that may not send now. A parked tenant stays here even without entries.
    parked: BTreeMap<u32, Box<Flow>>,
    /// The tenant served next.
    tenant: u32,
    /// Entries that may go.
    len: u32,
    /// Entries of parked tenants.
    parked_len: u32,
    /// Entries that go along with the one before them.
    followers: u32,
}

/// The entries of a tenant.
struct Flow {
    classes: [Class; CLASSES],
    /// Bit n: class n has entries.
    filled: u16,
    len: u32,
    /// Of these, entries delivered in the same transaction as the entry before them.
    followers: u32,
    /// Takes since a lower class had its turn, and which that was.
    turn: u8,
    lower: u8,
    account: DeficitCounter,
}

/// A tenant's deficit counter, and the quantum added in each round.
#[derive(Clone, Copy)]
struct DeficitCounter {
    deficit: i64,
    quantum: i64,
}

impl DeficitCounter {
    fn pay(&mut self) {
        self.deficit += self.quantum;
    }
}

/// The tenant charged for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payer {
    pub(crate) tenant: u32,
    /// Its weight at a contended next hop; at least 1.
    pub(crate) weight: u32,
}

/// The entry served next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) slot: u32,
    pub(crate) class: u8,
    pub(crate) tenant: u32,
    origin: Origin,
}

impl Backlog {
    /// Entries that can be sent; those of parked tenants are not counted.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Entries in all tenants' lists.
    pub(crate) fn total(&self) -> u32 {
        self.len + self.parked_len
    }

    /// Estimated number of transactions for the entries, with recipients of the same message combined.
    pub(crate) fn transactions(&self, recipients_per_message: u32) -> u32 {
        if self.len == 0 {
            return 0;
        }
        let along = match recipients_per_message {
            0 => 0,
            max => self.followers / max,
        };
        (self.len - self.followers + along).clamp(1, self.len)
    }

    /// The entries of a tenant; true if it is parked.
    fn flow(&mut self, payer: Payer) -> (&mut Flow, bool) {
        let Payer { tenant, weight } = payer;
        let quantum = QUANTUM * i64::from(weight);
        let (flow, is_parked): (&mut Flow, bool) = match self.parked.get_mut(&tenant) {
            Some(parked) => (parked, true),
            None => {
                let owed = &mut self.owed;
                let flow = self.flows.entry(tenant).or_insert_with(|| {
                    let deficit = owed.remove(&tenant).map_or(0, |owed| owed.deficit.min(0));
                    Box::new(Flow::new(DeficitCounter { deficit, quantum }))
                });
                (flow, false)
            }
        };
        flow.account.quantum = quantum;
        (flow, is_parked)
    }

    fn count_in(&mut self, slab: &mut Slab, slot: u32, follows: bool, is_parked: bool) {
        if is_parked {
            self.parked_len += 1;
        } else {
            self.len += 1;
            self.followers += u32::from(follows);
        }
        let entry = &mut slab[slot];
        entry.set(FOLLOWER, follows);
        entry.set_state(State::Ready);
    }

    /// Appends an entry, with its `ready` set, to its tenant's list.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: u32, payer: Payer) {
        let entry = &slab[slot];
        let (class, ready, id) = (entry.priority(), entry.ready, entry.id);
        let (flow, is_parked) = self.flow(payer);
        let list = flow.classes[usize::from(class)].list_of(slab.origin(slot));
        let tail = std::mem::replace(&mut list.tail, slot);
        let mut follows = false;
        if tail == NONE {
            list.head = slot;
        } else {
            slab[tail].link = slot;
            follows = slab[tail].id == id && slab[tail].ready == ready;
        }
        flow.count_in(class, follows);
        slab[slot].previous = tail;
        slab[slot].link = NONE;
        self.count_in(slab, slot, follows, is_parked);
    }

    /// Returns an untried entry to the front.
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: u32, payer: Payer) {
        let class = slab[slot].priority();
        let (flow, is_parked) = self.flow(payer);
        let list = flow.classes[usize::from(class)].list_of(slab.origin(slot));
        let head = std::mem::replace(&mut list.head, slot);
        let mut follows = false;
        if head == NONE {
            list.tail = slot;
        } else {
            slab[head].previous = slot;
            follows = slab[head].id == slab[slot].id;
        }
        flow.count_in(class, follows);
        slab[slot].previous = NONE;
        slab[slot].link = head;
        self.count_in(slab, slot, follows, is_parked);
    }

    /// Takes an entry out; its state stays for the caller to set.
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32, tenant: u32) {
        let entry = &slab[slot];
        debug_assert_eq!(entry.state(), State::Ready);
        let (class, next, previous) = (entry.priority(), entry.link, entry.previous);
        let follows = entry.has(FOLLOWER);
        if next != NONE {
            slab[next].previous = previous;
        }
        if previous != NONE {
            slab[previous].link = next;
        }
        let links = Links { slot, next, previous, origin: slab.origin(slot) };
        self.count_out((tenant, class), links, follows);
        let entry = &mut slab[slot];
        entry.set(FOLLOWER, false);
        entry.link = NONE;
        entry.previous = NONE;
    }

    /// An entry of a list has gone.
    fn count_out(&mut self, (tenant, class): (u32, u8), links: Links, follows: bool) {
        if let Some(flow) = self.parked.get_mut(&tenant) {
            flow.unlink(class, links, follows);
            self.parked_len -= 1;
            return;
        }
        self.len -= 1;
        self.followers -= u32::from(follows);
        let Some(flow) = self.flows.get_mut(&tenant) else { return };
        flow.unlink(class, links, follows);
        if flow.len == 0 {
            let account = flow.account;
            self.flows.remove(&tenant);
            self.leave(Some((tenant, account)));
        }
    }

    /// Removes a tenant that has no entries left; `account` is its remaining deficit.
    fn leave(&mut self, account: Option<(u32, DeficitCounter)>) {
        if self.flows.is_empty() {
            // Nobody is there to be paid back.
            self.owed.clear();
        } else {
            self.owed.extend(account);
        }
    }

    /// Returns true if a tenant may not send now.
    pub(crate) fn is_parked(&self, tenant: u32) -> bool {
        self.parked.contains_key(&tenant)
    }

    /// Parks a tenant until [`Backlog::unpark`]. A tenant without entries is unaffected.
    pub(crate) fn park(&mut self, tenant: u32) {
        let Some(flow) = self.flows.remove(&tenant) else { return };
        self.len -= flow.len;
        self.followers -= flow.followers;
        self.parked_len += flow.len;
        self.parked.insert(tenant, flow);
        self.leave(None);
    }

    /// Resumes a parked tenant.
    pub(crate) fn unpark(&mut self, tenant: u32) {
        let Some(flow) = self.parked.remove(&tenant) else { return };
        self.parked_len -= flow.len;
        if flow.len > 0 {
            self.len += flow.len;
            self.followers += flow.followers;
            self.flows.insert(tenant, flow);
        }
    }

    /// Returns the next entry without removing it.
    pub(crate) fn pick(&mut self) -> Option<Pick> {
        let tenant = self.pick_tenant()?;
        let flow = self.flows.get(&tenant)?;
        let class = flow.pick_class()?;
        let (slot, origin) = flow.classes[usize::from(class)].first()?;
        Some(Pick { slot, class, tenant, origin })
    }

    fn pick_tenant(&mut self) -> Option<u32> {
        if self.flows.len() == 1 && self.owed.is_empty() {
            let (tenant, flow) = self.flows.iter_mut().next()?;
            // A single tenant needs no fairness, and no repayment later.
            flow.account.deficit = 0;
            self.tenant = *tenant;
            return Some(*tenant);
        }
        if self.flows.is_empty() {
            return None;
        }
        loop {
            if self.flows.get(&self.tenant).is_some_and(|flow| flow.account.deficit > 0) {
                return Some(self.tenant);
            }
            // Each round pays for recipients that were sent before, so this ends.
            let after = self.tenant.checked_add(1).and_then(|t| self.flows.range(t..).next());
            self.tenant = match after {
                Some((next, _)) => *next,
                None => {
                    self.owed.retain(|_, account| {
                        account.pay();
                        account.deficit < 0
                    });
                    *self.flows.keys().next()?
                }
            };
            if let Some(flow) = self.flows.get_mut(&self.tenant) {
                flow.account.pay();
            }
        }
    }

    /// `recipients` were taken at `pick`.
    pub(crate) fn charge(&mut self, pick: Pick, recipients: usize) {
        let account = match self.flows.get_mut(&pick.tenant) {
            Some(flow) => {
                flow.note_turn(pick.class);
                flow.classes[usize::from(pick.class)].charge(pick.origin, recipients as u64);
                Some(&mut flow.account)
            }
            None => self.owed.get_mut(&pick.tenant),
        };
        if let Some(account) = account {
            account.deficit = account.deficit.saturating_sub_unsigned(recipients as u64);
        }
    }

    /// Number of entries before this one in its own list, counted up to `max`.
    pub(crate) fn place(slab: &Slab, slot: u32, max: u32) -> u32 {
        let mut before = 0;
        let mut at = slab[slot].previous;
        while at != NONE && before < max {
            before += 1;
            at = slab[at].previous;
        }
        before
    }
}

impl Flow {
    fn new(account: DeficitCounter) -> Flow {
        Flow {
            classes: Default::default(),
            filled: 0,
            len: 0,
            followers: 0,
            turn: 0,
            lower: 0,
            account,
        }
    }

    fn count_in(&mut self, class: u8, follows: bool) {
        self.filled |= 1 << class;
        self.len += 1;
        self.followers += u32::from(follows);
    }

    /// Removes an entry from the middle of its class.
    fn unlink(&mut self, class: u8, links: Links, follows: bool) {
        self.len -= 1;
        self.followers -= u32::from(follows);
        let entries = &mut self.classes[usize::from(class)];
        entries.unlink(links);
        if entries.is_empty() {
            self.filled &= !(1 << class);
        }
    }

    /// The class served next.
    fn pick_class(&self) -> Option<u8> {
        let top = self.filled.checked_ilog2()?;
        let below = self.filled & !(1 << top);
        if self.turn + 1 < LOWER_TURN || below == 0 {
            return Some(top as u8);
        }
        // The next class below the one served last by this rule, then round again.
        let after = below & ((1 << self.lower) - 1);
        let class = if after == 0 { below.ilog2() } else { after.ilog2() };
        Some(class as u8)
    }

    /// A class has had its turn.
    fn note_turn(&mut self, class: u8) {
        self.turn += 1;
        if self.turn >= LOWER_TURN {
            self.turn = 0;
            self.lower = class;
        }
    }
}

#[cfg(test)]
mod tests;
