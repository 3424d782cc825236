//! Ready queues that send what they are allowed from outside.

use super::one::{One, READY, work};
use crate::world::{SECOND, entry, limits, policy, ready_key};
use mail::Mono;
use queue::{
    Action, Blocker, EntryOutcome, NewEntry, ReadyId, ReadyKey, Resolution, ScheduledId,
    Suspension, Take, WeightedPath,
};
use std::sync::Arc;

/// One message to so many recipients, whose next hop needs an allowance by these sources.
fn waiting(recipients: u32, sources: &[&str]) -> One {
    let mut one = One::new();
    for recipient in 0..recipients {
        let new = NewEntry { recipient, ..entry(1, one.now) };
        one.push_with(&policy(), new);
    }
    one.poll();
    let way = |source: &&str| WeightedPath {
        key: ReadyKey { source: Arc::from(*source), ..ready_key("mx") },
        limits: limits().own(),
        shared: vec![limits().shared(source)],
        weight: 1,
        tier: 0,
    };
    let ways: Vec<WeightedPath> = sources.iter().map(way).collect();
    let answer = Resolution::Ready { ways, fresh_until: one.now + SECOND * 100_000 };
    let ready = one.queue.handle_resolved(one.now, ScheduledId(0), answer);
    assert_eq!(one.queue.need_allowance(one.now, ready[0], true), 0);
    one
}

fn asks(recipients: u32) -> Action {
    Action::Allowance { ready: READY, recipients }
}

/// Entries of its transaction.
fn sent(take: Take) -> usize {
    work(take).entries.len()
}

#[test]
fn nothing_goes_before_it_is_allowed_and_no_more_than_that() {
    let mut one = waiting(5, &["a"]);
    // The first that comes asks; others follow it at once.
    assert_eq!(one.poll(), [asks(1)]);
    assert_eq!(one.later(SECOND * 60), [], "it is asked once");
    one.queue.handle_allowance(one.now, READY, 3, Mono::NEVER);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    assert_eq!(sent(one.open(READY)), 3);
    assert_eq!(one.queue.take(one.now, READY, 1), Take::Wait);
    one.queue.handle_idle(one.now, READY);
    assert_eq!(one.poll(), [asks(2)]);
    one.queue.handle_allowance(one.now, READY, 9, Mono::NEVER);
    assert_eq!(one.poll(), [Action::Wake(READY)]);
    assert_eq!(sent(one.queue.take(one.now, READY, 1)), 2);
    // Nothing waits: the rest is not needed.
    assert_eq!(one.poll(), [Action::Spare { ready: READY, recipients: 7 }]);
}

#[test]
fn what_gets_nothing_says_for_what_it_waits_and_asks_again_then() {
    let mut one = waiting(2, &["a"]);
    assert_eq!(one.poll(), [asks(1)]);
    let until = one.now + SECOND * 3_600;
    one.queue.handle_no_allowance(READY, "its day".into(), until);
    assert_eq!(one.poll(), []);
    let entry = one.queue.glances(one.now, 0).next().expect("it waits").entry;
    let why = Blocker::Allowance { why: "its day".into(), until };
    assert_eq!(one.queue.why(one.now, entry), Some(why));
    assert_eq!(one.later(SECOND * 3_599), []);
    assert_eq!(one.later(SECOND), [asks(2)]);
    one.queue.handle_allowance(one.now, READY, 1, Mono::NEVER);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    let flying = work(one.open(READY));
    assert_eq!(flying.entries.len(), 1);
    one.outcome(&flying, &EntryOutcome::Settled);
    // From now on nobody counts.
    assert_eq!(one.poll(), [asks(1)]);
    assert_eq!(one.queue.need_allowance(one.now, READY, false), 0);
    one.queue.handle_allowance(one.now, READY, 1, Mono::NEVER);
    assert_eq!(sent(one.queue.take(one.now, READY, 1)), 1);
}

#[test]
fn what_was_allowed_for_a_day_is_void_after_it_and_given_back_in_a_standstill() {
    let mut one = waiting(2, &["a"]);
    assert_eq!(one.poll(), [asks(1)]);
    one.queue.handle_allowance(one.now, READY, 2, one.now + SECOND * 10);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    let asked_again = one.later(SECOND * 10);
    assert_eq!(asked_again, [asks(2)]);
    assert_eq!(one.open(READY), Take::Wait, "that was yesterday");
    one.queue.handle_idle(one.now, READY);
    one.queue.handle_allowance(one.now, READY, 2, Mono::NEVER);
    let suspension = Suspension {
        what: "the source a".into(),
        reason: "listed".into(),
        is_operators: true,
        until: Mono::NEVER,
    };
    one.queue.suspend_ready(one.now, READY, Some(Arc::new(suspension)));
    assert_eq!(one.poll(), [Action::Spare { ready: READY, recipients: 2 }]);
    one.queue.suspend_ready(one.now, READY, None);
    assert_eq!(one.poll(), [asks(2)]);
    one.queue.handle_allowance(one.now, READY, 2, Mono::NEVER);
    assert_eq!(one.queue.need_allowance(one.now, READY, true), 2, "the plan is another");
    assert_eq!(one.poll(), [asks(2)]);
}

#[test]
fn what_gets_nothing_goes_another_way_within_a_second() {
    let mut one = waiting(40, &["a", "b"]);
    one.poll();
    let at = |one: &One, ready: ReadyId| {
        let glances = one.queue.glances(one.now, 0);
        glances.filter(|glance| glance.ready == Some(ready)).count()
    };
    let (first, second) = (at(&one, READY), at(&one, ReadyId(1)));
    assert!(first > 5 && second > 5 && first + second == 40, "{first} {second}");
    one.queue.handle_no_allowance(READY, "its day".into(), one.now + SECOND * 3_600);
    for _ in 0..10 {
        one.later(SECOND / 10);
    }
    assert_eq!((at(&one, READY), at(&one, ReadyId(1))), (0, 40));
    // It is back: what comes then may take it.
    one.later(SECOND * 3_600);
    for id in 2..42 {
        one.push(id);
    }
    one.poll();
    assert!(at(&one, READY) > 5);
}

#[test]
fn with_all_ways_out_each_is_named_and_what_several_wait_for_once() {
    let mut one = waiting(1, &["a", "b", "c", "d"]);
    one.poll();
    let glance = one.queue.glances(one.now, 0).next().expect("it waits");
    let (entry, own) = (glance.entry, glance.ready.expect("it is placed"));
    let others: Vec<ReadyId> = (0..4).map(ReadyId).filter(|way| *way != own).collect();
    let out = |what: &str| {
        let reason = "listed".into();
        Arc::new(Suspension { what: what.into(), reason, is_operators: true, until: Mono::NEVER })
    };
    one.queue.suspend_ready(one.now, own, Some(out("the source x")));
    one.queue.suspend_ready(one.now, others[0], Some(out("the source y")));
    let until = one.now + SECOND * 3_600;
    assert_eq!(one.queue.need_allowance(one.now, others[1], true), 0);
    one.queue.handle_no_allowance(others[1], "its day".into(), until);
    // One way is open: it is about to go there.
    assert_eq!(one.queue.why_other_ways(one.now, entry), []);
    one.queue.suspend_ready(one.now, others[2], Some(out("the source y")));
    let own = one.queue.glances(one.now, 0).next().and_then(|glance| glance.ready);
    let own = own.expect("it is placed");
    let mut named: Vec<String> =
        one.queue.why_other_ways(one.now, entry).iter().map(ToString::to_string).collect();
    named.extend(one.queue.why(one.now, entry).map(|why| why.to_string()));
    named.sort();
    let resume = |what| format!("an operator to resume the source {what}: listed");
    assert_eq!(named, [resume("x"), resume("y"), "its day".to_owned()], "{own:?}");
}
