//! The entries of a ready queue in the order in which they go: priority classes, deficit round
//! robin among the tenants of a class (Shreedhar and Varghese 1995), first come first served
//! within a tenant.

use crate::slab::{FOLLOWER, NONE, Slab, State};
use std::collections::BTreeMap;

/// Priorities 0 to 9.
const CLASSES: usize = 10;
/// Every so many takes a lower class has its turn: urgent mail goes first, but the rest moves.
const LOWER_TURN: u8 = 8;
/// Recipients a tenant may send per round.
const QUANTUM: i64 = 8;

/// What waits at one ready queue.
#[derive(Default)]
pub(crate) struct Backlog {
    classes: [Option<Box<Class>>; CLASSES],
    /// Bit n: class n has entries.
    filled: u16,
    len: u32,
    /// Entries that go along with the one before them.
    followers: u32,
    turn: u8,
    lower: u8,
}

#[derive(Default)]
struct Class {
    flows: BTreeMap<u32, Flow>,
    /// What tenants without entries still have to pay for, while others have some: whose messages come
    /// one by one, each to many recipients, waits like the others.
    owed: BTreeMap<u32, i64>,
    /// Tenant whose turn it is.
    tenant: u32,
}

struct Flow {
    head: u32,
    tail: u32,
    deficit: i64,
}

/// The entry whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) slot: u32,
    pub(crate) class: u8,
    pub(crate) tenant: u32,
}

impl Backlog {
    /// Entries in all tenants' lists.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Transactions that the entries will take, roughly: recipients of one message go together.
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

    fn flow(&mut self, class: u8, tenant: u32) -> &mut Flow {
        let class = self.classes[usize::from(class)].get_or_insert_with(Box::default);
        let Class { flows, owed, .. } = &mut **class;
        flows.entry(tenant).or_insert_with(|| {
            let deficit = owed.remove(&tenant).unwrap_or(0).min(0);
            Flow { head: NONE, tail: NONE, deficit }
        })
    }

    fn count_in(&mut self, slab: &mut Slab, slot: u32, class: u8, follows: bool) {
        self.filled |= 1 << class;
        self.len += 1;
        self.followers += u32::from(follows);
        let entry = &mut slab[slot];
        entry.set(FOLLOWER, follows);
        entry.set_state(State::Ready);
    }

    /// Puts an entry, whose `ready` is set, at the end of its tenant's list.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: u32, tenant: u32) {
        let entry = &slab[slot];
        let (class, ready, id) = (entry.priority(), entry.ready, entry.id);
        let flow = self.flow(class, tenant);
        let tail = std::mem::replace(&mut flow.tail, slot);
        let mut follows = false;
        if tail == NONE {
            flow.head = slot;
        } else {
            slab[tail].link = slot;
            follows = slab[tail].id == id && slab[tail].ready == ready;
        }
        slab[slot].previous = tail;
        slab[slot].link = NONE;
        self.count_in(slab, slot, class, follows);
    }

    /// Puts an entry back at the front: it was handed out and not tried.
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: u32, tenant: u32) {
        let class = slab[slot].priority();
        let flow = self.flow(class, tenant);
        let head = std::mem::replace(&mut flow.head, slot);
        let mut follows = false;
        if head == NONE {
            flow.tail = slot;
        } else {
            slab[head].previous = slot;
            follows = slab[head].id == slab[slot].id;
        }
        slab[slot].previous = NONE;
        slab[slot].link = head;
        self.count_in(slab, slot, class, follows);
    }

    /// Takes an entry out; its state stays for the caller to set.
    pub(crate) fn remove(&mut self, slab: &mut Slab, slot: u32, tenant: u32) {
        let entry = &slab[slot];
        debug_assert_eq!(entry.state(), State::Ready);
        let (class, next, previous) = (entry.priority(), entry.link, entry.previous);
        self.followers -= u32::from(entry.has(FOLLOWER));
        self.len -= 1;
        if next != NONE {
            slab[next].previous = previous;
        }
        if previous != NONE {
            slab[previous].link = next;
        }
        let Some(class_ref) = self.classes[usize::from(class)].as_mut() else { return };
        let Some(flow) = class_ref.flows.get_mut(&tenant) else { return };
        if flow.head == slot {
            flow.head = next;
        }
        if flow.tail == slot {
            flow.tail = previous;
        }
        if flow.head == NONE {
            let deficit = flow.deficit;
            class_ref.flows.remove(&tenant);
            if class_ref.flows.is_empty() {
                // Nobody is there to be paid back.
                class_ref.owed.clear();
                self.filled &= !(1 << class);
            } else {
                class_ref.owed.insert(tenant, deficit);
            }
        }
        let entry = &mut slab[slot];
        entry.set(FOLLOWER, false);
        entry.link = NONE;
        entry.previous = NONE;
    }

    /// Whose turn it is; the entry stays where it is.
    pub(crate) fn pick(&mut self) -> Option<Pick> {
        let class = self.pick_class()?;
        let class_ref = self.classes[usize::from(class)].as_mut()?;
        let (tenant, slot) = class_ref.pick()?;
        Some(Pick { slot, class, tenant })
    }

    fn pick_class(&self) -> Option<u8> {
        let top = self.filled.checked_ilog2()?;
        let below = self.filled & !(1 << top);
        if self.turn + 1 < LOWER_TURN || below == 0 {
            return Some(top as u8);
        }
        // The next one down from the one that had the last such turn, then round again.
        let after = below & ((1 << self.lower) - 1);
        let class = if after == 0 { below.ilog2() } else { after.ilog2() };
        Some(class as u8)
    }

    /// `recipients` were taken at `pick`.
    pub(crate) fn charge(&mut self, pick: Pick, recipients: usize) {
        self.turn += 1;
        if self.turn >= LOWER_TURN {
            self.turn = 0;
            self.lower = pick.class;
        }
        let Some(class) = self.classes[usize::from(pick.class)].as_mut() else { return };
        let deficit = match class.flows.get_mut(&pick.tenant) {
            Some(flow) => Some(&mut flow.deficit),
            None => class.owed.get_mut(&pick.tenant),
        };
        if let Some(deficit) = deficit {
            *deficit = deficit.saturating_sub_unsigned(recipients as u64);
        }
    }

    /// How many entries stand before this one in its own list, counted up to `max`.
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

impl Class {
    fn pick(&mut self) -> Option<(u32, u32)> {
        if self.flows.len() == 1 && self.owed.is_empty() {
            let (tenant, flow) = self.flows.iter_mut().next()?;
            // Alone there is nothing to be fair about, and nothing to be paid back later.
            flow.deficit = 0;
            self.tenant = *tenant;
            return Some((*tenant, flow.head));
        }
        if self.flows.is_empty() {
            return None;
        }
        loop {
            if let Some(flow) = self.flows.get(&self.tenant)
                && flow.deficit > 0
            {
                return Some((self.tenant, flow.head));
            }
            // Each round pays for recipients that were sent before, so this ends.
            let after = self.tenant.checked_add(1).and_then(|t| self.flows.range(t..).next());
            self.tenant = match after {
                Some((next, _)) => *next,
                None => {
                    self.owed.retain(|_, deficit| {
                        *deficit += QUANTUM;
                        *deficit < 0
                    });
                    *self.flows.keys().next()?
                }
            };
            if let Some(flow) = self.flows.get_mut(&self.tenant) {
                flow.deficit += QUANTUM;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NewEntry;
    use mail::{MessageId, Mono};
    use std::time::Duration;

    fn push(slab: &mut Slab, backlog: &mut Backlog, id: u64, priority: u8, tenant: u32) -> u32 {
        let new = NewEntry {
            id: MessageId(id),
            recipient: 0,
            received: Mono(0),
            age_before_start: Duration::ZERO,
            due: Mono(0),
            attempts: 0,
            priority,
            held: false,
            warned: false,
            deadlines: crate::Deadlines::NONE,
        };
        let slot = slab.insert(tenant, &new);
        slab[slot].ready = 0;
        backlog.push_back(slab, slot, tenant);
        slot
    }

    fn take(slab: &mut Slab, backlog: &mut Backlog) -> Option<(u64, u32)> {
        let pick = backlog.pick()?;
        backlog.remove(slab, pick.slot, pick.tenant);
        backlog.charge(pick, 1);
        let id = slab[pick.slot].id.0;
        slab.remove(pick.slot);
        Some((id, pick.tenant))
    }

    #[test]
    fn a_small_tenant_is_not_drowned_by_a_big_one() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..1000 {
            push(&mut slab, &mut backlog, id, 4, 1);
        }
        for id in 0..10 {
            push(&mut slab, &mut backlog, 5000 + id, 4, 2);
        }
        let order: Vec<u32> =
            (0..40).filter_map(|_| take(&mut slab, &mut backlog)).map(|(_, t)| t).collect();
        assert_eq!(order.iter().filter(|t| **t == 2).count(), 10);
        let rest: Vec<u64> =
            std::iter::from_fn(|| take(&mut slab, &mut backlog)).map(|(id, _)| id).collect();
        assert_eq!(rest.len(), 970);
        assert!(rest.is_sorted());
    }

    #[test]
    fn big_transactions_cost_their_tenant_turns() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..1000 {
            push(&mut slab, &mut backlog, id, 4, 1);
            push(&mut slab, &mut backlog, 10_000 + id, 4, 2);
        }
        let mut recipients = [0u32; 3];
        for _ in 0..500 {
            let pick = backlog.pick().expect("work");
            backlog.remove(&mut slab, pick.slot, pick.tenant);
            let size = if pick.tenant == 1 { 50 } else { 1 };
            backlog.charge(pick, size);
            recipients[pick.tenant as usize] += size as u32;
        }
        assert!(recipients[1].abs_diff(recipients[2]) <= 60, "{recipients:?}");
    }

    #[test]
    fn messages_that_come_one_by_one_to_many_pay_like_others() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..1000 {
            push(&mut slab, &mut backlog, id, 4, 1);
        }
        let mut recipients = [0u32; 3];
        let mut is_there = false;
        for id in 0..500 {
            // The next comes when the one before has gone.
            if !is_there {
                push(&mut slab, &mut backlog, 10_000 + id, 4, 2);
            }
            let pick = backlog.pick().expect("work");
            is_there = pick.tenant != 2;
            let size = if pick.tenant == 2 { 100 } else { 1 };
            backlog.remove(&mut slab, pick.slot, pick.tenant);
            backlog.charge(pick, size);
            slab.remove(pick.slot);
            recipients[pick.tenant as usize] += size as u32;
        }
        assert!(recipients[1].abs_diff(recipients[2]) <= 110, "{recipients:?}");
    }

    #[test]
    fn nothing_is_owed_to_nobody() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        push(&mut slab, &mut backlog, 1, 4, 1);
        push(&mut slab, &mut backlog, 2, 4, 2);
        for _ in 0..2 {
            let pick = backlog.pick().expect("work");
            backlog.remove(&mut slab, pick.slot, pick.tenant);
            backlog.charge(pick, 100);
        }
        assert!(backlog.classes[4].as_ref().is_some_and(|class| class.owed.is_empty()));
    }

    #[test]
    fn higher_classes_first_but_lower_ones_move() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..800 {
            push(&mut slab, &mut backlog, id, 9, 1);
            push(&mut slab, &mut backlog, 1000 + id, 4, 1);
            push(&mut slab, &mut backlog, 2000 + id, 0, 1);
        }
        let first: Vec<u64> = (0..160)
            .filter_map(|_| take(&mut slab, &mut backlog))
            .map(|(id, _)| id / 1000)
            .collect();
        let count = |class| first.iter().filter(|c| **c == class).count();
        assert_eq!((count(0), count(1), count(2)), (140, 10, 10));
    }

    #[test]
    fn untried_entries_keep_their_place_and_middle_ones_leave() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        let slots: Vec<u32> = (0..5).map(|id| push(&mut slab, &mut backlog, id, 4, 0)).collect();
        let pick = backlog.pick().expect("work");
        backlog.remove(&mut slab, pick.slot, 0);
        backlog.remove(&mut slab, slots[2], 0);
        backlog.remove(&mut slab, slots[4], 0);
        backlog.push_front(&mut slab, pick.slot, 0);
        let order: Vec<u64> =
            std::iter::from_fn(|| take(&mut slab, &mut backlog)).map(|(id, _)| id).collect();
        assert_eq!(order, [0, 1, 3]);
        assert_eq!((backlog.len(), backlog.filled), (0, 0));
    }

    #[test]
    fn recipients_of_one_message_count_as_one_transaction() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for _ in 0..100 {
            push(&mut slab, &mut backlog, 1, 4, 0);
        }
        assert_eq!(backlog.transactions(0), 1);
        assert_eq!(backlog.transactions(50), 2);
        assert_eq!(backlog.transactions(1), 100);
        push(&mut slab, &mut backlog, 2, 4, 0);
        assert_eq!(backlog.transactions(0), 2);
    }
}
