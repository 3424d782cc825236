use super::*;
use crate::NewEntry;
use mail::{MessageId, Mono};
use std::time::Duration;

fn push(slab: &mut Slab, backlog: &mut Backlog, id: u64, priority: u8, tenant: u32) -> u32 {
    push_of(slab, backlog, (id, priority, tenant), Origin::OURS)
}

fn push_of(
    slab: &mut Slab,
    backlog: &mut Backlog,
    (id, priority, tenant): (u64, u8, u32),
    origin: Origin,
) -> u32 {
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
        origin,
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
    let first: Vec<u64> =
        (0..160).filter_map(|_| take(&mut slab, &mut backlog)).map(|(id, _)| id / 1000).collect();
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
    let first: Vec<(u64, u32)> = (0..202).filter_map(|_| take(&mut slab, &mut backlog)).collect();
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

/// The number of a stranger's site is in the thousands of its messages.
fn push_stranger(slab: &mut Slab, backlog: &mut Backlog, id: u64, network: u16) -> u32 {
    push_of(slab, backlog, (id, 4, 0), Origin::of((id / 1_000) as u16, network))
}

#[test]
fn a_hundred_networks_of_strangers_leave_turns_to_others() {
    let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
    for id in 0..50_000 {
        // Half of them are networks of one site.
        let site = if id % 2 == 0 { 1 } else { 2 + id % 100 };
        push_of(&mut slab, &mut backlog, (id, 4, 0), Origin::of(site as u16, (id % 100) as u16));
    }
    for healthy in 0..100_u16 {
        for _ in 0..200 {
            take(&mut slab, &mut backlog).expect("more waits");
        }
        push_of(&mut slab, &mut backlog, (1_000_000, 4, 0), Origin::of(1_000 + healthy, 0));
        let before = std::iter::from_fn(|| take(&mut slab, &mut backlog))
            .take_while(|(id, _)| *id != 1_000_000)
            .count();
        assert!(before <= 51, "{healthy}: {before} went before it");
    }
    // One after the other within a network.
    let rest: Vec<u64> =
        std::iter::from_fn(|| take(&mut slab, &mut backlog)).map(|t| t.0).collect();
    for network in 0..100 {
        assert!(rest.iter().filter(|id| **id % 100 == network).is_sorted());
    }
}

#[test]
fn strangers_have_a_turn_for_each_of_those_who_may_relay() {
    let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
    for id in 0..1_000 {
        push_stranger(&mut slab, &mut backlog, 1_000 * (1 + id % 100), 1);
        push(&mut slab, &mut backlog, 500, 4, 0);
    }
    let order: Vec<bool> =
        (0..200).filter_map(|_| take(&mut slab, &mut backlog)).map(|t| t.0 == 500).collect();
    assert_eq!(order.iter().filter(|ours| **ours).count(), 100);
    // Urgent mail goes first, whoever sent it; an operator may have called it so.
    push_of(&mut slab, &mut backlog, (7, 9, 0), Origin::of(3, 3));
    assert_eq!(take(&mut slab, &mut backlog), Some((7, 0)));
}

#[test]
fn networks_that_send_to_many_at_once_pay_for_each() {
    let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
    let mut recipients = [0_u32; 2];
    for id in 0..1_000 {
        push_stranger(&mut slab, &mut backlog, 1_000 + id % 2, 1);
        push_stranger(&mut slab, &mut backlog, 2_000 + id % 2, 1);
    }
    for _ in 0..500 {
        let pick = backlog.pick().expect("work");
        backlog.remove(&mut slab, pick.slot, pick.tenant);
        let is_second = slab[pick.slot].id.0 >= 2_000;
        let size = if is_second { 1 } else { 50 };
        backlog.charge(pick, size);
        slab.remove(pick.slot);
        recipients[usize::from(is_second)] += size as u32;
    }
    assert!(recipients[0].abs_diff(recipients[1]) <= 50, "{recipients:?}");
}

#[test]
fn networks_without_entries_take_no_memory() {
    let (mut slab, mut backlog) = (Slab::new(), Backlog::default());
    let slots: Vec<u32> =
        (0..200).map(|id| push_stranger(&mut slab, &mut backlog, id * 1_000, 1)).collect();
    backlog.park(0);
    let more = push_stranger(&mut slab, &mut backlog, 7_000, 2);
    backlog.unpark(0);
    for slot in slots.into_iter().chain([more]) {
        backlog.remove(&mut slab, slot, 0);
    }
    assert_eq!((backlog.total(), backlog.flows.len(), backlog.owed.len()), (0, 0, 0));
    assert_eq!(backlog.pick(), None);
}
