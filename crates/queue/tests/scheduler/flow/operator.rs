//! What operators and reloads change about mail that is queued.

use super::one::{One, READY, work};
use crate::world::{Limits, SECOND, entry, failure, limits, policy, scheduled_key};
use mail::MessageId;
use queue::{
    Action, Blocker, EntryOutcome, HoldResult, NewEntry, ReadyId, Resolution, Retried, RetryPolicy,
    ScheduledId, SuspendedQueue, Suspension, Take, Transferred,
};

#[test]
fn an_operator_holds_releases_and_removes() {
    let mut one = One::new();
    let first = one.push(1);
    let second = one.push(2);
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    let flying = work(one.open(READY));
    assert_eq!(one.queue.hold(first, &"spam".into()), HoldResult::New);
    assert_eq!(one.queue.hold(second, &"spam".into()), HoldResult::New);
    assert_eq!(one.queue.hold(second, &"spam".into()), HoldResult::Already);
    assert_eq!(one.queue.hold(second, &"no spam".into()), HoldResult::Again);
    assert_eq!(one.queue.hold_reason(second).as_deref(), Some("no spam"));
    assert_eq!(one.queue.retry(one.now, second), Retried::Held);
    assert!(matches!(one.queue.take(one.now, READY, 1), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    one.outcome(&flying, &EntryOutcome::Untried);
    let reason = "spam".into();
    assert_eq!(one.queue.why(one.now, first), Some(Blocker::Held { reason }));
    assert_eq!(one.poll(), []);
    assert_eq!(one.queue.counts().held, 2);
    assert!(one.queue.release(one.now, second));
    assert!(!one.queue.release(one.now, second), "it is not held any more");
    assert_eq!(one.queue.hold_reason(second), None);
    assert_eq!(one.poll(), [Action::Wake(READY)]);
    let flying = work(one.queue.take(one.now, READY, 1));
    assert_eq!(flying.id, MessageId(2));
    assert!(one.queue.take_out(one.now, second).is_none(), "it is being tried");
    assert!(one.queue.remove(one.now, first).is_some());
    assert!(one.queue.remove(one.now, second).is_none());
    assert_eq!(one.outcome(&flying, &EntryOutcome::Deferred(failure("450"))), None);
    assert!(matches!(one.poll()[..], [Action::Removed(_)]));
    let counts = one.queue.counts();
    assert_eq!(counts.scheduled + counts.ready + counts.held + counts.in_flight, 0);
}

#[test]
fn what_an_operator_transfers_waits_elsewhere_as_it_waited() {
    let mut one = One::new();
    let (flying, ready, held) = (one.push(1), one.push(2), one.push(3));
    let later = NewEntry { due: one.now + SECOND * 60, ..entry(4, one.now) };
    let later = one.push_with(&policy(), later);
    one.queue.hold(held, &"spam".into());
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    let work = work(one.open(READY));
    assert_eq!(work.id, MessageId(1));
    let there = one.queue.scheduled(&scheduled_key("b.example"), &policy());
    let mut transfer = |entry| one.queue.transfer(one.now, entry, there, 8);
    assert_eq!(transfer(flying), Transferred::InFlight);
    for entry in [ready, held, later] {
        assert_eq!(transfer(entry), Transferred::Done);
    }
    let entries: Vec<usize> = one.queue.scheduled_queues().map(|queue| queue.entries).collect();
    assert_eq!(entries, [1, 3]);
    // The question where it goes is open there, for what is due only.
    assert_eq!(one.poll(), [Action::Resolve(there)]);
    assert_eq!(one.queue.hold_reason(held).as_deref(), Some("spam"));
    assert!(matches!(one.queue.why(one.now, later), Some(Blocker::Scheduled { .. })));
    one.outcome(&work, &EntryOutcome::Settled);
    assert_eq!(one.queue.transfer(one.now, flying, there, 4), Transferred::Gone);
    assert!(one.queue.release(one.now, held));
    assert!(one.queue.remove(one.now, ready).is_some());
    assert!(
        one.queue.remove(one.now, held).is_some() && one.queue.remove(one.now, later).is_some()
    );
    let counts = one.queue.counts();
    assert_eq!(counts.scheduled + counts.ready + counts.held + counts.in_flight, 0);
}

#[test]
fn what_is_transferred_with_another_priority_goes_by_that() {
    let mut one = One::new();
    let entries: Vec<_> = (1..=3).map(|id| one.push(id)).collect();
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    // Its own queue knows the way: it is ready at once, and before the others.
    assert_eq!(one.queue.transfer(one.now, entries[2], ScheduledId(0), 9), Transferred::Done);
    one.poll();
    let mut next = work(one.open(READY));
    for (carried, id) in [3, 1, 2].into_iter().enumerate() {
        assert_eq!(next.id, MessageId(id));
        one.outcome(&next, &EntryOutcome::Settled);
        if id != 2 {
            next = work(one.queue.take(one.now, READY, carried as u32 + 1));
        }
    }
}

#[test]
fn a_reload_reaches_queued_mail() {
    let mut one = One::new();
    for id in 0..3 {
        one.push(id);
    }
    one.poll();
    one.resolve("old", &Limits { connections_max: 1, ..limits() });
    let first = work(one.open(READY));
    one.queue.invalidate_resolutions();
    one.outcome(&first, &EntryOutcome::Settled);
    assert!(matches!(one.queue.take(one.now, READY, 1), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    assert_eq!(one.poll().len(), 1);
    assert_eq!(one.resolve("new", &limits()), vec![Action::Open(ReadyId(1)); 2]);
}

#[test]
fn mail_behind_a_dead_host_moves_when_its_route_changes() {
    let mut one = One::new();
    for id in 0..3 {
        one.push(id);
    }
    one.poll();
    one.resolve("old", &limits());
    for _ in 0..3 {
        one.queue.handle_open_failed(one.now, READY, failure("refused"));
    }
    one.queue.invalidate_resolutions();
    let actions = one.later(SECOND);
    assert!(matches!(actions[..], [Action::Resolve(_)]), "{actions:?}");
    assert_eq!(one.resolve("new", &limits()), vec![Action::Open(ReadyId(1)); 3]);
}

#[test]
fn an_answer_from_before_a_reload_does_not_count() {
    let mut one = One::new();
    one.push(1);
    assert_eq!(one.poll().len(), 1);
    one.queue.invalidate_resolutions();
    assert!(matches!(one.resolve("old", &limits())[..], [Action::Resolve(_)]));
    assert_eq!(one.resolve("new", &limits()), [Action::Open(ReadyId(1))]);
}

#[test]
fn after_a_reload_mail_moves_on_without_a_connection_to_the_old_hop() {
    let mut one = One::new();
    for id in 0..1000 {
        one.push(id);
    }
    one.poll();
    one.resolve("old", &Limits { connections_max: 1, ..limits() });
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    one.queue.invalidate_resolutions();
    // Long before the back-off ends or the sweep comes by.
    let actions = one.poll();
    assert!(matches!(actions[..], [Action::Resolve(_)]), "{actions:?}");
    let actions = one.resolve("new", &Limits { connections_max: 1, ..limits() });
    assert_eq!(actions, [Action::Open(ReadyId(1))]);
    assert_eq!(one.queue.ready_queues().map(|q| q.entries).collect::<Vec<_>>(), [0, 1000]);
}

#[test]
fn what_has_lost_its_way_does_not_go_on_there() {
    let mut one = One::new();
    let id = one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    one.queue.handle_opened(one.now, READY);
    one.queue.invalidate_resolutions();
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    let answer = Resolution::Unrouted(failure("no route"));
    one.queue.handle_resolved(one.now, ScheduledId(0), answer);
    assert!(matches!(one.queue.take(one.now, READY, 0), Take::Wait));
    assert_eq!(one.poll(), []);
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::ResolutionFailed { .. })));
    assert_eq!(one.later(SECOND * 70), [Action::Resolve(ScheduledId(0))]);
    // A reload that brings a route back does not wait for the next question.
    let answer = Resolution::Unrouted(failure("no route"));
    one.queue.handle_resolved(one.now, ScheduledId(0), answer);
    assert_eq!(one.poll(), []);
    one.queue.invalidate_resolutions();
    one.queue.set_retry(ScheduledId(0), &policy());
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
}

#[test]
fn a_new_policy_reaches_what_is_queued() {
    let mut one = One::new();
    let id = one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    let first = work(one.open(READY));
    one.outcome(&first, &EntryOutcome::Deferred(failure("450")));
    let due = |one: &One| one.queue.why(one.now, id).and_then(|why| why.next()).expect("a time");
    assert!(due(&one) > one.now + SECOND * 50);
    let hasty = RetryPolicy { first: SECOND * 2, longest: SECOND * 2, ..policy() };
    one.queue.set_retry(ScheduledId(0), &hasty);
    assert!(one.poll().is_empty());
    assert!(due(&one) < one.now + SECOND * 3, "it waits no longer than it would now");
    let short = RetryPolicy { give_up_after: SECOND, ..hasty };
    one.queue.set_retry(ScheduledId(0), &short);
    assert!(one.poll().is_empty());
    assert_eq!(due(&one), one.now + SECOND, "the last try is made when it gets too old");
    assert_eq!(one.queue.expiry(id), Some(one.now + SECOND));
    one.later(SECOND);
    let last = work(one.queue.take(one.now, READY, 1));
    one.outcome(&last, &EntryOutcome::Deferred(failure("450")));
    assert!(matches!(one.poll()[..], [Action::Expired(_)]));
}

fn suspension(one: &One, seconds: u32) -> Option<std::sync::Arc<Suspension>> {
    let (what, reason) = ("it".into(), "asked".into());
    Some(Suspension { what, reason, is_operators: true, until: one.now + SECOND * seconds }.into())
}

#[test]
fn what_is_suspended_waits_and_does_not_expire() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    one.push_with(&retry, entry(1, one.now));
    one.poll();
    one.resolve("mx", &limits());
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    let suspended = suspension(&one, 50);
    one.queue.suspend(one.now, ScheduledId(0), suspended);
    // What comes later waits as well, and what a connection finds goes back.
    let late = one.push_with(&retry, entry(2, one.now));
    assert!(matches!(one.queue.why(one.now, late), Some(Blocker::Suspended(_))));
    one.queue.handle_opened(one.now, READY);
    assert!(matches!(one.queue.take(one.now, READY, 0), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    for _ in 0..45 {
        assert_eq!(one.later(SECOND), []);
    }
    assert_eq!(
        one.later(SECOND * 5),
        [Action::Standstill(SuspendedQueue::Scheduled(ScheduledId(0)))]
    );
    one.queue.suspend(one.now, ScheduledId(0), None);
    let actions = one.poll();
    assert!(actions.contains(&Action::Wake(READY)), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Expired(_))), "{actions:?}");
    work(one.queue.take(one.now, READY, 0));
}

#[test]
fn a_standstill_whose_time_has_come_goes_on_until_its_owner_says_that_it_is_over() {
    let mut one = One::new();
    let first = one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    let why = |one: &One, id| matches!(one.queue.why(one.now, id), Some(Blocker::Suspended(_)));
    // Of the scheduled queue all lies at the next hop, where no connection takes it back.
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    let (scheduled, ready) =
        (SuspendedQueue::Scheduled(ScheduledId(0)), SuspendedQueue::Ready(READY));
    let suspended = suspension(&one, 50);
    one.queue.suspend(one.now, ScheduledId(0), suspended.clone());
    one.queue.suspend_ready(one.now, READY, suspended);
    one.poll();
    let asked = one.later(SECOND * 50);
    assert!(asked.contains(&Action::Standstill(scheduled)), "{asked:?}");
    assert!(asked.contains(&Action::Standstill(ready)), "{asked:?}");
    // Nobody is asked twice, and nothing goes meanwhile: the clock was set back.
    let late = one.push(2);
    assert_eq!(one.later(SECOND * 100), []);
    assert!(why(&one, first) && why(&one, late));
    let suspended = suspension(&one, 10);
    one.queue.suspend(one.now, ScheduledId(0), suspended.clone());
    one.queue.suspend_ready(one.now, READY, suspended);
    assert_eq!(one.later(SECOND * 9), []);
    let asked = one.later(SECOND);
    assert_eq!(asked, [Action::Standstill(scheduled), Action::Standstill(ready)]);
    // An answer of the past says that it is over.
    let past = suspension(&one, 0);
    one.queue.suspend(one.now, ScheduledId(0), past);
    one.queue.suspend_ready(one.now, READY, None);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    assert!(!why(&one, first) && !why(&one, late));
}

#[test]
fn a_next_hop_that_is_suspended_gets_nothing_until_it_is_resumed() {
    let mut one = One::new();
    let id = one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    let suspended = suspension(&one, 1_000_000);
    one.queue.suspend_ready(one.now, READY, suspended);
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::Suspended(_))));
    assert!(matches!(one.open(READY), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    assert_eq!(one.later(SECOND * 100), []);
    one.queue.suspend_ready(one.now, READY, None);
    assert_eq!(one.poll(), [Action::Wake(READY)]);
    work(one.queue.take(one.now, READY, 0));
}
