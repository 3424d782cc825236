//! The entries of a ready queue in the order in which they go: deficit round robin among tenants
//! (Shreedhar and Varghese 1995), within a tenant's turn priority classes, first come first served
//! within a class. Whoever says that its mail is urgent comes before its own, and before nobody
//! else's (RFC 6710 §9). A tenant whose rate is used up is parked: its entries keep their places, and
//! are not counted among those that could go.

use crate::slab::{FOLLOWER, NONE, Slab, State};
use std::collections::BTreeMap;

/// Priorities 0 to 9.
const CLASSES: usize = 10;
/// Every so many of a tenant's takes a lower class has its turn: urgent mail goes first, but the rest
/// moves.
const LOWER_TURN: u8 = 8;
/// Recipients a tenant of weight 1 may send per round.
const QUANTUM: i64 = 8;

/// What waits at one ready queue.
#[derive(Default)]
pub(crate) struct Backlog {
    /// Tenants with entries.
    flows: BTreeMap<u32, Box<Flow>>,
    /// What tenants without entries still have to pay for, while others have some: whose messages come
    /// one by one, each to many recipients, waits like the others.
    owed: BTreeMap<u32, Account>,
    /// Tenants that may not send now. One stays there without entries: that says that it is parked.
    parked: BTreeMap<u32, Box<Flow>>,
    /// Tenant whose turn it is.
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
    classes: [List; CLASSES],
    /// Bit n: class n has entries.
    filled: u16,
    len: u32,
    /// Of these, entries that go along with the one before them.
    followers: u32,
    /// Takes since a lower class had its turn, and which that was.
    turn: u8,
    lower: u8,
    account: Account,
}

/// The entries of a tenant in a class.
#[derive(Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

/// What a tenant may still send in this round, or has to pay for, and what each round brings it.
#[derive(Clone, Copy)]
struct Account {
    deficit: i64,
    quantum: i64,
}

impl Account {
    fn pay(&mut self) {
        self.deficit += self.quantum;
    }
}

/// Who pays for an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payer {
    pub(crate) tenant: u32,
    /// Its part of a next hop that others use too, beside theirs; at least 1.
    pub(crate) weight: u32,
}

/// The entry whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pick {
    pub(crate) slot: u32,
    pub(crate) class: u8,
    pub(crate) tenant: u32,
}

impl Backlog {
    /// Entries that may go: those of parked tenants are not among them.
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Entries in all tenants' lists.
    pub(crate) fn total(&self) -> u32 {
        self.len + self.parked_len
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

    /// The entries of a tenant, and whether it is parked.
    fn flow(&mut self, payer: Payer) -> (&mut Flow, bool) {
        let Payer { tenant, weight } = payer;
        let quantum = QUANTUM * i64::from(weight);
        let (flow, is_parked): (&mut Flow, bool) = match self.parked.get_mut(&tenant) {
            Some(parked) => (parked, true),
            None => {
                let owed = &mut self.owed;
                let flow = self.flows.entry(tenant).or_insert_with(|| {
                    let deficit = owed.remove(&tenant).map_or(0, |owed| owed.deficit.min(0));
                    Box::new(Flow::new(Account { deficit, quantum }))
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

    /// Puts an entry, whose `ready` is set, at the end of its tenant's list.
    pub(crate) fn push_back(&mut self, slab: &mut Slab, slot: u32, payer: Payer) {
        let entry = &slab[slot];
        let (class, ready, id) = (entry.priority(), entry.ready, entry.id);
        let (flow, is_parked) = self.flow(payer);
        let list = &mut flow.classes[usize::from(class)];
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

    /// Puts an entry back at the front: it was handed out and not tried.
    pub(crate) fn push_front(&mut self, slab: &mut Slab, slot: u32, payer: Payer) {
        let class = slab[slot].priority();
        let (flow, is_parked) = self.flow(payer);
        let list = &mut flow.classes[usize::from(class)];
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
        self.count_out((tenant, class), (slot, next, previous), follows);
        let entry = &mut slab[slot];
        entry.set(FOLLOWER, false);
        entry.link = NONE;
        entry.previous = NONE;
    }

    /// The entry `slot` of a list, between `previous` and `next`, has gone.
    fn count_out(&mut self, (tenant, class): (u32, u8), links: (u32, u32, u32), follows: bool) {
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

    /// A tenant has no entries any more; it still owes what `account` says.
    fn leave(&mut self, account: Option<(u32, Account)>) {
        if self.flows.is_empty() {
            // Nobody is there to be paid back.
            self.owed.clear();
        } else {
            self.owed.extend(account);
        }
    }

    /// Whether a tenant may not send now.
    pub(crate) fn is_parked(&self, tenant: u32) -> bool {
        self.parked.contains_key(&tenant)
    }

    /// A tenant may not send until [`Backlog::unpark`]. Nothing changes for one without entries.
    pub(crate) fn park(&mut self, tenant: u32) {
        let Some(flow) = self.flows.remove(&tenant) else { return };
        self.len -= flow.len;
        self.followers -= flow.followers;
        self.parked_len += flow.len;
        self.parked.insert(tenant, flow);
        self.leave(None);
    }

    /// A tenant may send again.
    pub(crate) fn unpark(&mut self, tenant: u32) {
        let Some(flow) = self.parked.remove(&tenant) else { return };
        self.parked_len -= flow.len;
        if flow.len > 0 {
            self.len += flow.len;
            self.followers += flow.followers;
            self.flows.insert(tenant, flow);
        }
    }

    /// Whose turn it is; the entry stays where it is.
    pub(crate) fn pick(&mut self) -> Option<Pick> {
        let tenant = self.pick_tenant()?;
        let flow = self.flows.get(&tenant)?;
        let class = flow.pick_class()?;
        Some(Pick { slot: flow.classes[usize::from(class)].head, class, tenant })
    }

    fn pick_tenant(&mut self) -> Option<u32> {
        if self.flows.len() == 1 && self.owed.is_empty() {
            let (tenant, flow) = self.flows.iter_mut().next()?;
            // Alone there is nothing to be fair about, and nothing to be paid back later.
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
                Some(&mut flow.account)
            }
            None => self.owed.get_mut(&pick.tenant),
        };
        if let Some(account) = account {
            account.deficit = account.deficit.saturating_sub_unsigned(recipients as u64);
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

impl Flow {
    fn new(account: Account) -> Flow {
        let classes = [List { head: NONE, tail: NONE }; CLASSES];
        Flow { classes, filled: 0, len: 0, followers: 0, turn: 0, lower: 0, account }
    }

    fn count_in(&mut self, class: u8, follows: bool) {
        self.filled |= 1 << class;
        self.len += 1;
        self.followers += u32::from(follows);
    }

    /// An entry of a class, which stood between the others, has gone.
    fn unlink(&mut self, class: u8, (slot, next, previous): (u32, u32, u32), follows: bool) {
        self.len -= 1;
        self.followers -= u32::from(follows);
        let list = &mut self.classes[usize::from(class)];
        if list.head == slot {
            list.head = next;
        }
        if list.tail == slot {
            list.tail = previous;
        }
        if list.head == NONE {
            self.filled &= !(1 << class);
        }
    }

    /// The class whose turn it is.
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
        backlog.push_back(slab, slot, Payer { tenant, weight: 1 });
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
        assert!(backlog.owed.is_empty() && backlog.flows.is_empty());
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
    fn who_calls_its_mail_urgent_comes_before_nobody_elses() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..800 {
            push(&mut slab, &mut backlog, id, 9, 1);
        }
        for id in 1_000..1_100 {
            push(&mut slab, &mut backlog, id, 4, 2);
        }
        push(&mut slab, &mut backlog, 2_000, 8, 2);
        let first: Vec<(u64, u32)> =
            (0..202).filter_map(|_| take(&mut slab, &mut backlog)).collect();
        let other: Vec<u64> = first.iter().filter(|(_, t)| *t == 2).map(|(id, _)| *id).collect();
        assert!(other.len() >= 100 - QUANTUM as usize, "{}", other.len());
        assert_eq!(other[0], 2_000, "its own urgent mail goes before its own");
    }

    #[test]
    fn untried_entries_keep_their_place_and_middle_ones_leave() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        let slots: Vec<u32> = (0..5).map(|id| push(&mut slab, &mut backlog, id, 4, 0)).collect();
        let pick = backlog.pick().expect("work");
        backlog.remove(&mut slab, pick.slot, 0);
        backlog.remove(&mut slab, slots[2], 0);
        backlog.remove(&mut slab, slots[4], 0);
        backlog.push_front(&mut slab, pick.slot, Payer { tenant: 0, weight: 1 });
        let order: Vec<u64> =
            std::iter::from_fn(|| take(&mut slab, &mut backlog)).map(|(id, _)| id).collect();
        assert_eq!(order, [0, 1, 3]);
        assert_eq!((backlog.len(), backlog.flows.len()), (0, 0));
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

    #[test]
    fn a_contended_next_hop_is_divided_by_weight() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        for id in 0..1000 {
            for (tenant, weight) in [(1, 1), (2, 3)] {
                let slot = push(&mut slab, &mut backlog, id * 4 + u64::from(tenant), 4, tenant);
                backlog.remove(&mut slab, slot, tenant);
                backlog.push_back(&mut slab, slot, Payer { tenant, weight });
            }
        }
        let order: Vec<u32> =
            (0..400).filter_map(|_| take(&mut slab, &mut backlog)).map(|(_, t)| t).collect();
        assert_eq!(order.iter().filter(|t| **t == 2).count(), 296, "of 32, 24 are its own");
    }

    #[test]
    fn a_parked_tenant_keeps_its_places_and_is_not_counted() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        let first = push(&mut slab, &mut backlog, 1, 4, 1);
        push(&mut slab, &mut backlog, 2, 9, 1);
        backlog.park(1);
        assert_eq!((backlog.len(), backlog.total(), backlog.transactions(0)), (0, 2, 0));
        assert_eq!(take(&mut slab, &mut backlog), None);
        // What comes now waits with the others; what leaves is gone.
        push(&mut slab, &mut backlog, 3, 4, 1);
        push(&mut slab, &mut backlog, 4, 2, 1);
        backlog.remove(&mut slab, first, 1);
        push(&mut slab, &mut backlog, 5, 4, 2);
        assert_eq!((backlog.len(), backlog.total()), (1, 4));
        assert_eq!(take(&mut slab, &mut backlog), Some((5, 2)));
        backlog.unpark(1);
        assert_eq!((backlog.len(), backlog.total()), (3, 3));
        let order: Vec<u64> =
            std::iter::from_fn(|| take(&mut slab, &mut backlog)).map(|(id, _)| id).collect();
        assert_eq!(order, [2, 3, 4], "the urgent one first");
        assert!(!backlog.is_parked(1));
    }

    #[test]
    fn a_parked_tenant_without_entries_stays_parked() {
        let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
        let only = push(&mut slab, &mut backlog, 1, 4, 1);
        backlog.park(1);
        backlog.remove(&mut slab, only, 1);
        assert!(backlog.is_parked(1));
        push(&mut slab, &mut backlog, 2, 4, 1);
        assert_eq!((backlog.len(), backlog.total()), (0, 1));
        backlog.unpark(1);
        assert_eq!(backlog.len(), 1);
    }
}
