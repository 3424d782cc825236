use super::*;
use TrustLevel::{Doubtful, Good, Unknown};
use std::task::Waker;

fn poll(waiting: &mut PermitWaiter) -> Option<Permit> {
    match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

fn take(line: &Arc<FairSemaphore>, who: u32, standing: TrustLevel) -> Option<Permit> {
    poll(&mut line.join(FairKey::new(0, who), standing, 1))
}

#[test]
fn everybody_has_one_before_anybody_has_a_second() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(3));
    let mut held: Vec<_> = (0..3).filter_map(|_| take(&line, 1, Good)).collect();
    assert_eq!(held.len(), 3);
    let mut fourth = line.join(FairKey::new(0, 1), Good, 1);
    let mut others: Vec<_> = (2..5).map(|who| line.join(FairKey::new(0, who), Good, 1)).collect();
    assert_eq!(line.place(FairKey::new(0, 1)), Some(WaitPosition { before: 3, waiting: 4 }));
    assert_eq!(line.place(FairKey::new(0, 3)), Some(WaitPosition { before: 1, waiting: 4 }));
    held.pop();
    assert!(poll(&mut fourth).is_none(), "it has two, the others none");
    let first = poll(&mut others[0]).expect("came first");
    assert!(poll(&mut others[1]).is_none());
    held.pop();
    let second = poll(&mut others[1]).expect("its turn");
    // A waiter that leaves makes no gap.
    let third = others.pop();
    drop(third);
    drop(first);
    assert!(poll(&mut fourth).is_some());
    drop((second, held, others));
    assert_eq!((line.used(), line.waiting()), (0, 0));
    assert!(line.lock().tree.is_empty(), "nobody is remembered");
}

#[test]
fn the_doubtful_and_the_unknown_leave_some_for_the_good() {
    let parts = SemaphoreLimits {
        max: 8,
        owner_max: 8,
        good_owner_max: 8,
        unproven_max: 4,
        doubtful_max: 1,
    };
    let line = FairSemaphore::new(parts);
    let doubtful = take(&line, 1, Doubtful).expect("one may");
    assert!(take(&line, 2, Doubtful).is_none());
    let mut unknown: Vec<_> = (3..8).filter_map(|who| take(&line, who, Unknown)).collect();
    assert_eq!(unknown.len(), 3);
    let mut waits = line.join(FairKey::new(0, 9), Unknown, 1);
    let good: Vec<_> = (0..4).filter_map(|_| take(&line, 20, Good)).collect();
    assert_eq!(good.len(), 4);
    assert!(poll(&mut waits).is_none());
    // A proven holder does not count in the share of unknown ones any more; but all permits are in use.
    unknown[0].prove();
    assert!(poll(&mut waits).is_none());
    drop(good);
    assert!(poll(&mut waits).is_some());
    drop((doubtful, unknown, waits));
    assert_eq!(line.lock().unproven, 0);
}

#[test]
fn a_second_of_somebody_unknown_leaves_room_for_the_first_of_others() {
    let line = FairSemaphore::new(SemaphoreLimits {
        max: 100,
        owner_max: 100,
        good_owner_max: 100,
        unproven_max: 8,
        doubtful_max: 8,
    });
    let tarpits = (0..30).map(|n| n / 10);
    let held: Vec<_> = tarpits.filter_map(|who| take(&line, who, Unknown)).collect();
    assert!(held.len() <= 6, "{}", held.len());
    let mut newcomer = take(&line, 50, Unknown).expect("at once");
    newcomer.prove();
    assert!((0..20).all(|_| take(&line, 50, Good).is_some()));
}

#[test]
fn who_has_much_lets_go_for_who_has_nothing() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(4));
    let mut held: Vec<_> = (0..4).filter_map(|_| take(&line, 1, Good)).collect();
    assert!(!held[0].must_go(), "nobody waits");
    let mut waits = line.join(FairKey::new(0, 2), Good, 1);
    assert!(held[0].must_go());
    assert!(!held[1].must_go(), "one is enough");
    held.remove(0);
    let mut other = poll(&mut waits).expect("its turn");
    assert!(!other.must_go());
    let mut third = line.join(FairKey::new(0, 2), Good, 1);
    assert!(held[0].must_go(), "three against one");
    held.remove(0);
    let _third = poll(&mut third).expect("two each");
    let _fourth = line.join(FairKey::new(0, 2), Good, 1);
    assert!(!held[0].must_go(), "it would be one against three");
}

#[test]
fn who_is_idle_goes_when_four_fifths_are_taken() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(10));
    let mut held: Vec<_> = (0..8).filter_map(|who| take(&line, who, Good)).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    assert!(!line.is_tight() && !held[0].should_go());
    assert!(line.poll_tight(cx).is_pending());
    held.extend(take(&line, 9, Good));
    assert!(line.poll_tight(cx).is_ready());
    assert!(held[0].should_go());
    assert!(!held[1].should_go(), "one is enough");
    held[0].stay();
    assert!(held[1].should_go(), "unless it stays");
}

#[test]
fn what_is_larger_than_all_there_is_has_its_turn_alone() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(10));
    let mut large = poll(&mut line.join(FairKey::new(0, 1), Good, 50)).expect("alone");
    let mut small = line.join(FairKey::new(0, 2), Good, 1);
    assert!(poll(&mut small).is_none());
    large.shrink(4);
    assert!(poll(&mut small).is_some());
    let mut large = line.join(FairKey::new(0, 3), Good, 50);
    assert!(poll(&mut large).is_none());
    assert!(take(&line, 4, Good).is_none(), "and nobody passes it");
}

fn below(line: &Arc<FairSemaphore>, owner: &str, who: u32, standing: TrustLevel) -> Option<Permit> {
    let who = FairKey::new(0, who).of(Owner::zone(owner));
    poll(&mut line.join(who, standing, 1))
}

#[test]
fn a_zone_with_a_thousand_names_is_one_owner() {
    let line = FairSemaphore::new(SemaphoreLimits {
        owner_max: 4,
        good_owner_max: 4,
        ..SemaphoreLimits::equal(8)
    });
    let held: Vec<_> = (0..1_000).filter_map(|n| below(&line, "d.wild.test", n, Good)).collect();
    assert_eq!(held.len(), 4, "its share, though more is left");
    assert!(below(&line, "x.WILD.test.", 2_000, Good).is_none(), "the same zone");
    let other: Vec<_> = (0..4).filter_map(|n| below(&line, "other.test", n, Good)).collect();
    assert_eq!(other.len(), 4);
    let mut wild: Vec<_> = (0..100)
        .map(|n| line.join(FairKey::new(1, n).of(Owner::zone("wild.test")), Good, 1))
        .collect();
    let mut third = line.join(FairKey::new(2, 1).of(Owner::zone("third.test")), Good, 1);
    drop(held);
    assert!(poll(&mut third).is_some(), "before a hundred that came before it");
    let again: Vec<_> = wild.iter_mut().filter_map(poll).collect();
    assert_eq!(again.len(), 4);
    drop((other, wild, third, again));
    assert!(line.lock().tree.is_empty() && line.used() == 0, "nobody is remembered");
}

#[test]
fn equals_take_turns_however_many_of_one_came_before_others() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(1));
    let join = |zone: &str, n| line.join(FairKey::new(0, n).of(Owner::zone(zone)), Unknown, 1);
    let mut waiting: Vec<(&str, PermitWaiter)> =
        (0..5).map(|n| ("wild", join("wild.test", n))).collect();
    for n in 5..7 {
        waiting.push(("one", join("one.test", n)));
        waiting.push(("two", join("two.test", n)));
    }
    let mut served = Vec::new();
    while !waiting.is_empty() {
        let next = waiting.iter_mut().position(|(_, waits)| poll(waits).is_some());
        served.push(waiting.remove(next.expect("somebody's turn")).0);
    }
    // The first is served at once, and its second came before the first ones of the other holders.
    let turns = ["wild", "wild", "one", "two", "wild", "one", "two", "wild", "wild"];
    assert_eq!(served, turns);
    assert!(line.lock().tree.is_empty());
}

#[test]
fn who_waits_is_doubtful_as_soon_as_his_zone_or_his_network_is() {
    for by_zone in [true, false] {
        let line = FairSemaphore::new(SemaphoreLimits {
            unproven_max: 4,
            doubtful_max: 1,
            ..SemaphoreLimits::equal(8)
        });
        let network = |n: u8| Owner::network([192, 0, 2, n].into());
        let who = |zone: &str, n: u8| {
            let number = u32::from(n);
            FairKey::new(0, number)
                .of(network(if by_zone { n } else { 9 }))
                .within(Owner::zone(zone))
        };
        let _silent = take(&line, 1, Doubtful).expect("its part");
        let mut held: Vec<Permit> = (2..5).filter_map(|n| take(&line, n, Unknown)).collect();
        let zone = |n: u8| if by_zone { "wild.test".to_owned() } else { format!("wild{n}.test") };
        let mut waiting: Vec<PermitWaiter> =
            (10..30).map(|n| line.join(who(&zone(n), n), Unknown, 1)).collect();
        let newcomer = FairKey::new(0, 40).of(network(40)).within(Owner::zone("new.test"));
        let mut newcomer = line.join(newcomer, Unknown, 1);
        line.doubt(if by_zone { Owner::zone("wild.test") } else { network(9) });
        held.pop();
        assert!(poll(&mut newcomer).is_some(), "before all that came before it");
        assert!(waiting.iter_mut().all(|waits| poll(waits).is_none()));
    }
}

#[test]
fn those_who_turned_doubtful_and_stay_leave_the_unknown_their_part() {
    let line = FairSemaphore::new(SemaphoreLimits {
        unproven_max: 8,
        doubtful_max: 2,
        ..SemaphoreLimits::equal(40)
    });
    let mut held = Vec::new();
    for who in 0..100 {
        let Some(mut permit) = take(&line, who, Unknown) else { break };
        permit.doubt();
        held.push(permit);
    }
    assert_eq!(held.len(), 30, "a quarter is left for the good");
    held.truncate(20);
    let unknown: Vec<_> = (200..300).filter_map(|who| take(&line, who, Unknown)).collect();
    assert_eq!(unknown.len(), 6, "all but what is the doubtful ones'");
    assert!(take(&line, 400, Doubtful).is_none());
    assert!((0..10).all(|_| take(&line, 500, Good).is_some()));
}

#[test]
fn owners_of_one_tenant_take_turns_with_each_other_and_tenants_too() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(3));
    let who = |tenant: &str, zone: &str, n| {
        FairKey::new(0, n).of(Owner::zone(zone)).within(Owner::named("tenant", tenant))
    };
    let mut held: Vec<_> =
        (0..3).filter_map(|n| poll(&mut line.join(who("a", "wild.test", n), Good, 1))).collect();
    let mut wild = line.join(who("a", "wild.test", 3), Good, 1);
    let mut good = line.join(who("a", "good.test", 4), Good, 1);
    let mut b = line.join(who("b", "wild.test", 5), Good, 1);
    let wilds = Some(WaitPosition { before: 2, waiting: 3 });
    assert_eq!(line.place(who("a", "wild.test", 3)), wilds);
    assert_eq!(line.place(FairKey::new(0, 3)), wilds, "whomever it belongs to");
    held.pop();
    let b = poll(&mut b).expect("the tenant has none");
    held.pop();
    assert!(poll(&mut wild).is_none());
    let good = poll(&mut good).expect("the zone has none");
    drop(b);
    assert!(poll(&mut wild).is_some());
    drop(good);
}

#[test]
fn an_owner_at_its_share_keeps_nobody_else_waiting() {
    let line = FairSemaphore::new(SemaphoreLimits {
        owner_max: 5,
        good_owner_max: 5,
        ..SemaphoreLimits::equal(10)
    });
    let of = |zone: &str, n| FairKey::new(0, n).of(Owner::zone(zone));
    let first = poll(&mut line.join(of("a.test", 1), Good, 4)).expect("at once");
    let mut second = line.join(of("a.test", 2), Good, 4);
    assert!(poll(&mut second).is_none(), "beyond its share");
    let other = poll(&mut line.join(of("b.test", 3), Good, 4)).expect("there is enough for it");
    drop(first);
    assert!(poll(&mut second).is_some());
    // A request larger than a share is granted to a holder without permits.
    drop((second, other));
    assert!(poll(&mut line.join(of("a.test", 4), Good, 7)).is_some());
    line.set_parts(SemaphoreLimits {
        owner_max: 8,
        good_owner_max: 8,
        ..SemaphoreLimits::equal(10)
    });
    let one = poll(&mut line.join(of("a.test", 5), Good, 4)).expect("at once");
    assert!(poll(&mut line.join(of("a.test", 6), Good, 4)).is_some(), "a larger share by now");
    drop(one);
}

#[test]
fn in_good_standing_an_owner_may_have_more() {
    let line = FairSemaphore::new(SemaphoreLimits { owner_max: 2, ..SemaphoreLimits::equal(8) });
    let unknown: Vec<_> = (0..8).filter_map(|n| below(&line, "a.test", n, Unknown)).collect();
    assert_eq!(unknown.len(), 2);
    let good: Vec<_> = (0..8).filter_map(|n| below(&line, "a.test", 10 + n, Good)).collect();
    assert_eq!(good.len(), 6);
}

#[test]
fn standing_is_lost_by_silence() {
    let line = FairSemaphore::new(SemaphoreLimits {
        unproven_max: 2,
        doubtful_max: 1,
        ..SemaphoreLimits::equal(4)
    });
    let mut good: Vec<_> = (0..4).filter_map(|who| take(&line, who, Good)).collect();
    let mut waits = line.join(FairKey::new(0, 9), Good, 1);
    for silent in &mut good {
        silent.doubt();
    }
    let counted = |state: &State| (state.unproven, state.doubtful);
    assert_eq!(counted(&line.lock()), (4, 4));
    good.pop();
    let _good = poll(&mut waits).expect("its turn");
    good.pop();
    assert!(take(&line, 8, Doubtful).is_none(), "more than their part is taken by such");
    assert!(take(&line, 7, Unknown).is_some(), "and no more of the others' than is theirs");
    good.clear();
    assert!(take(&line, 7, Unknown).is_some());
}

#[test]
fn the_oldest_that_is_silent_gives_way_to_who_holds_less() {
    let line = FairSemaphore::new(SemaphoreLimits { unproven_max: 2, ..SemaphoreLimits::equal(4) });
    let mut held: Vec<_> = (0..2).filter_map(|who| take(&line, who, Unknown)).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    held[1].idle(Mono(10));
    held[0].idle(Mono(20));
    assert!(held.iter_mut().all(|permit| permit.poll_give_way(cx).is_pending()), "nobody waits");
    let mut waits = line.join(FairKey::new(0, 5), Unknown, 1);
    assert!(held[0].poll_give_way(cx).is_pending());
    assert!(held[1].poll_give_way(cx).is_ready(), "it is silent for longest");
    // It is used again: the other one is recalled.
    held[1].busy();
    assert!(held[0].poll_give_way(cx).is_ready());
    assert!(poll(&mut waits).is_none(), "not before it has gone");
    held.remove(0);
    assert!(poll(&mut waits).is_some());
    assert_eq!(line.lock().leaving, 0);
}

#[test]
fn what_is_silent_gives_way_to_the_doubtful_out_of_the_part_that_is_taken() {
    let cx = &mut Context::from_waker(Waker::noop());
    let line = FairSemaphore::new(SemaphoreLimits {
        unproven_max: 3,
        doubtful_max: 1,
        ..SemaphoreLimits::equal(8)
    });
    let mut good = take(&line, 9, Good).expect("there is enough");
    let mut held: Vec<_> = (0..3).filter_map(|who| take(&line, who, Unknown)).collect();
    good.idle(Mono(5));
    held.iter_mut().for_each(|permit| permit.idle(Mono(10)));
    let mut first = line.join(FairKey::new(0, 5), Doubtful, 1);
    assert!(good.poll_give_way(cx).is_pending(), "it does not read of that part");
    let goes: Vec<bool> = held.iter_mut().map(|held| held.poll_give_way(cx).is_ready()).collect();
    assert_eq!(goes, [true, false, false], "though it counts as more than who waits");
    held.remove(0);
    let mut first = poll(&mut first).expect("its turn");
    // If their own share is in use as well, only doubtful permits help doubtful waiters.
    first.idle(Mono(20));
    let mut second = line.join(FairKey::new(0, 6), Doubtful, 1);
    assert!(held.iter_mut().all(|permit| permit.poll_give_way(cx).is_pending()));
    assert!(first.poll_give_way(cx).is_ready());
    drop(first);
    assert!(poll(&mut second).is_some() && line.lock().leaving == 0);
}

#[test]
fn what_is_silent_does_not_give_way_to_who_holds_as_much() {
    let line = FairSemaphore::new(SemaphoreLimits::equal(2));
    let mut held: Vec<_> = (0..2).filter_map(|who| take(&line, who, Good)).collect();
    let cx = &mut Context::from_waker(Waker::noop());
    held[0].idle(Mono(10));
    let _waits = line.join(FairKey::new(0, 1), Good, 1);
    assert!(held[0].poll_give_way(cx).is_pending(), "one each");
    let _other = line.join(FairKey::new(0, 3), Good, 1);
    assert!(held[0].poll_give_way(cx).is_ready());
}

/// Waiters of an owner at its limit wait for permits of this owner only.
#[test]
fn what_is_silent_gives_way_to_others_of_an_owner_that_has_its_share() {
    let cx = &mut Context::from_waker(Waker::noop());
    let parts = SemaphoreLimits { owner_max: 2, good_owner_max: 4, ..SemaphoreLimits::equal(100) };
    for (levels, standing) in [(1, Unknown), (2, Unknown), (1, Doubtful), (2, Doubtful)] {
        let line = FairSemaphore::new(parts);
        let tenant = Owner::named("tenant", "one");
        let of = |n: u32| match levels {
            1 => FairKey::new(0, n).of(Owner::zone("a.test")),
            // Two of one zone, and further ones of other zones of the same tenant.
            _ => FairKey::new(0, n).of(Owner::zone(&format!("{}.test", n.max(1)))).within(tenant),
        };
        let mut held: Vec<_> =
            (0..2).filter_map(|n| poll(&mut line.join(of(n), standing, 1))).collect();
        let mut stranger = poll(&mut line.join(FairKey::new(0, 50), Good, 1)).expect("at once");
        stranger.idle(Mono(5));
        held[1].idle(Mono(10));
        held[0].idle(Mono(20));
        let mut waits = line.join(of(7), standing, 1);
        let mut further = line.join(of(8), standing, 1);
        assert!(stranger.poll_give_way(cx).is_pending(), "it does not read of that share");
        assert!(held[1].poll_give_way(cx).is_ready(), "{levels}: it is silent for longest");
        let goes = held[0].poll_give_way(cx).is_ready();
        assert!(!goes, "{levels}: one is enough for the first");
        held.pop();
        let first = poll(&mut waits).expect("its turn");
        // And then another for the next waiter, which holds nothing either.
        assert!(held[0].poll_give_way(cx).is_ready());
        held.pop();
        assert!(poll(&mut further).is_some());
        drop((first, stranger));
        assert_eq!(line.lock().leaving, 0);
        assert!(line.lock().tree.is_empty());
    }
}

#[test]
fn what_is_silent_within_a_share_stays_for_who_holds_as_much_or_is_kept_by_something_else() {
    let cx = &mut Context::from_waker(Waker::noop());
    let of = |n| FairKey::new(0, n).of(Owner::zone("a.test"));
    let parts = SemaphoreLimits { owner_max: 2, doubtful_max: 1, ..SemaphoreLimits::equal(8) };
    let line = FairSemaphore::new(parts);
    let mut held: Vec<_> =
        [1, 2].into_iter().filter_map(|n| poll(&mut line.join(of(n), Unknown, 1))).collect();
    held.iter_mut().for_each(|permit| permit.idle(Mono(10)));
    let as_much = line.join(of(1), Unknown, 1);
    assert!(held.iter_mut().all(|permit| permit.poll_give_way(cx).is_pending()), "one each");
    drop(as_much);
    // The share of doubtful holders is in use by another owner: an unknown permit does not help.
    let _doubtful = poll(&mut line.join(FairKey::new(0, 9), Doubtful, 1)).expect("one may");
    let waits = line.join(of(3), Doubtful, 1);
    assert!(held.iter_mut().all(|permit| permit.poll_give_way(cx).is_pending()));
    drop(waits);
    let _unknown = line.join(of(3), Unknown, 1);
    assert!(held[0].poll_give_way(cx).is_ready());
}

#[test]
fn who_does_not_wait_takes_what_is_left() {
    let line = FairSemaphore::new(SemaphoreLimits {
        owner_max: 6,
        good_owner_max: 6,
        unproven_max: 5,
        ..SemaphoreLimits::equal(10)
    });
    let mut one = line.try_take(FairKey::new(0, 1), Unknown, 2).expect("there is enough");
    assert!(!one.try_grow(1), "a second time it must leave half of the part");
    one.prove();
    assert!(one.try_grow(4) && !one.try_grow(1), "its share");
    assert_eq!((one.amount(), line.used()), (6, 6));
    assert!(line.try_take(FairKey::new(0, 2), Good, 5).is_none());
    assert_eq!(line.waiting(), 0, "it is gone");
    let waits = line.join(FairKey::new(0, 3), Good, 5);
    assert!(line.try_take(FairKey::new(0, 2), Good, 1).is_none(), "somebody waits for that");
    one.shrink(1);
    assert!(waits.is_served());
    drop((one, waits));
    assert!(line.lock().tree.is_empty());
}

#[test]
fn zones_as_names_show_them() {
    for (name, zone) in [
        ("a.b.example.org", "example.org"),
        ("example.org.", "example.org"),
        ("mx.example.co.uk", "example.co.uk"),
        ("a.example.com.br", "example.com.br"),
        ("co.uk", "co.uk"),
        ("mx.example.de", "example.de"),
        ("a.b.de", "a.b.de"),
        ("localhost", "localhost"),
        ("", ""),
        (".", ""),
        ("..", "."),
    ] {
        assert_eq!(zone_of(name), zone, "{name}");
    }
    assert_eq!(Owner::zone("2001:db8::1"), Owner::network("2001:db8::2".parse().unwrap()));
    assert_ne!(Owner::zone("192.0.2.1"), Owner::zone("192.0.2.2"));
}
