//! What gets too old, and who is told that it is late.

use super::one::{One, READY, work};
use crate::world::{SECOND, entry, failure, limits, policy, scheduled_key};
use mail::Mono;
use queue::{Action, CloseReason, EntryOutcome, NewEntry, Resolution, RetryPolicy, ScheduledId};

#[test]
fn entries_expire_and_warn_in_every_state() {
    let retry =
        RetryPolicy { give_up_after: SECOND * 100, warn_after: Some(SECOND * 50), ..policy() };
    let mut one = One::new();
    let mut held = entry(1, one.now);
    held.held = true;
    one.push_with(&retry, held);
    let mut later = entry(2, one.now);
    later.due = one.now + SECOND * 1000;
    one.push_with(&retry, later);
    let mut old = entry(3, one.now);
    (old.received, old.age_before_start) = (Mono(0), SECOND * 85);
    one.push_with(&retry, old);
    one.push_with(&retry, entry(4, one.now));
    let mut events = one.poll();
    for second in 0..170 {
        if second == 1 {
            for _ in one.resolve("mx", &limits()) {
                one.queue.handle_open_failed(one.now, READY, failure("refused"));
            }
        }
        let next = one.queue.next_timeout();
        let counts = one.queue.counts();
        let any = counts.scheduled + counts.ready + counts.held > 0;
        assert!(!any || next <= one.now + SECOND, "the sweep needs its timer");
        let more = one.later(SECOND);
        if more.contains(&Action::Open(READY)) {
            one.queue.handle_open_failed(one.now, READY, failure("refused"));
        }
        events.extend(more);
    }
    let ids = |events: &[Action]| -> (Vec<u64>, Vec<u64>) {
        let mut expired = Vec::new();
        let mut warned = Vec::new();
        for event in events {
            match event {
                Action::Expired(d) => {
                    // The last waits for the next probe of its hop.
                    let latest = if d.id.0 == 2 { 165 } else { 102 };
                    assert!(d.age >= SECOND * 100 && d.age <= SECOND * latest, "{d:?}");
                    expired.push(d.id.0);
                }
                Action::Warn(late) => warned.extend(late.iter().map(|d| d.id.0)),
                _ => {}
            }
        }
        expired.sort_unstable();
        warned.sort_unstable();
        (expired, warned)
    };
    let (expired, warned) = ids(&events);
    assert_eq!(expired, [2, 3, 4], "what is held does not");
    assert_eq!(warned, [2, 3, 4]);
    assert_eq!(one.queue.counts().scheduled + one.queue.counts().ready, 0);
}

#[test]
fn the_last_failure_of_its_next_hop_tells_why_an_entry_expired() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    one.push_with(&retry, entry(1, one.now));
    one.poll();
    one.resolve("mx", &limits());
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    let actions = one.later(SECOND * 11);
    let expired = actions.iter().find_map(|action| match action {
        Action::Expired(detail) => Some(detail),
        _ => None,
    });
    assert_eq!(expired.expect("expired").last_failure, Some(failure("refused")));
}

#[test]
fn one_notice_names_all_recipients_of_a_message_that_are_late() {
    let retry = RetryPolicy { warn_after: Some(SECOND * 5), ..policy() };
    let silent = RetryPolicy { warn_after: None, ..policy() };
    let mut one = One::new();
    for recipient in 0..3000 {
        one.push_with(&retry, NewEntry { recipient, due: Mono::NEVER, ..entry(7, one.now) });
    }
    let quiet = scheduled_key("silent.test");
    let scheduled = one.queue.scheduled(&quiet, &silent);
    let last = NewEntry { recipient: 3000, due: Mono::NEVER, ..entry(7, one.now) };
    one.queue.push(one.now, scheduled, last);
    let mut warned = Vec::new();
    for _ in 0..40 {
        for action in one.later(SECOND) {
            if let Action::Warn(late) = action {
                warned.push(late.len());
            }
        }
    }
    assert_eq!(warned, [3000], "once, and not about those nobody is told of");
}

#[test]
fn an_entry_in_flight_expires_only_when_it_returns() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    one.push_with(&retry, entry(1, one.now));
    one.poll();
    one.resolve("mx", &limits());
    let first = work(one.open(READY));
    assert_eq!(one.later(SECOND * 20), []);
    assert_eq!(one.outcome(&first, &EntryOutcome::Deferred(failure("450"))), None);
    let actions = one.poll();
    let [Action::Expired(detail)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((detail.attempts, &detail.last_failure), (1, &Some(failure("450"))));
}

#[test]
fn what_is_held_does_not_expire_and_is_tried_once_when_it_is_released() {
    let retry =
        RetryPolicy { give_up_after: SECOND * 10, warn_after: Some(SECOND * 5), ..policy() };
    let mut one = One::new();
    let id = one.push_with(&retry, entry(1, one.now));
    one.poll();
    one.resolve("mx", &limits());
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    one.queue.hold(id, &"wait".into());
    let quiet = |actions: Vec<Action>| actions.iter().all(|a| matches!(a, Action::Resolve(_)));
    assert!((0..100).all(|_| quiet(one.later(SECOND))), "neither expired nor warned of");
    assert!(one.queue.release(one.now, id));
    let open = one.poll();
    assert!(open.contains(&Action::Open(READY)), "{open:?}");
    assert!(!open.iter().any(|action| matches!(action, Action::Expired(_))), "{open:?}");
    let last = work(one.open(READY));
    one.outcome(&last, &EntryOutcome::Deferred(failure("450")));
    assert!(matches!(one.poll()[..], [Action::Expired(_)]));
}

#[test]
fn what_is_held_while_it_is_tried_does_not_expire_when_it_comes_back() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    let id = one.push_with(&retry, entry(1, one.now));
    one.poll();
    one.resolve("mx", &limits());
    let flying = work(one.open(READY));
    one.queue.hold(id, &"wait".into());
    one.later(SECOND * 20);
    assert!(one.outcome(&flying, &EntryOutcome::Deferred(failure("450"))).is_some());
    assert_eq!(one.poll(), []);
    assert_eq!(one.queue.counts().held, 1);
}

#[test]
fn what_became_too_old_while_the_server_was_down_is_tried_once_more() {
    let mut one = One::new();
    let old = |id| queue::NewEntry {
        received: Mono(0),
        age_before_start: SECOND * 6 * 86_400,
        attempts: 7,
        ..entry(id, Mono(5_000_000))
    };
    // To a peer that takes it …
    one.push_with(&policy(), old(1));
    one.push_with(&policy(), old(2));
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    assert!(one.resolve("mx", &limits()).contains(&Action::Open(READY)));
    one.later(SECOND * 40);
    let first = work(one.open(READY));
    one.outcome(&first, &EntryOutcome::Settled);
    let second = work(one.queue.take(one.now, READY, 1));
    one.outcome(&second, &EntryOutcome::Deferred(failure("450")));
    assert!(matches!(one.poll()[..], [Action::Expired(_)]));
    one.queue.handle_closed(one.now, READY, CloseReason::Normal);
    // … and to one that can't be reached.
    one.push_with(&policy(), old(3));
    // The other connection that was being opened.
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    let expired = one.later(SECOND * 2);
    let [.., Action::Expired(detail)] = &expired[..] else { panic!("{expired:?}") };
    assert_eq!(detail.last_failure, Some(failure("refused")));
}

#[test]
fn the_last_try_is_waited_for_no_longer_than_a_message_may_get_old() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    one.push_with(&retry, entry(1, one.now));
    one.poll();
    // Neither opened nor failed, for whatever reason.
    one.resolve("mx", &limits());
    assert_eq!(one.later(SECOND * 19), []);
    assert!(matches!(one.later(SECOND * 2)[..], [Action::Expired(_)]));
}

#[test]
fn a_domain_that_cannot_be_found_counts_as_tried() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    let mut old = entry(1, one.now);
    (old.received, old.age_before_start) = (Mono(0), SECOND * 100);
    one.push_with(&retry, old);
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    assert_eq!(one.later(SECOND * 3), [], "no answer yet");
    let answer = Resolution::Retry(failure("no route"));
    one.queue.handle_resolved(one.now, ScheduledId(0), answer);
    let expired = one.later(SECOND);
    let [Action::Expired(detail)] = &expired[..] else { panic!("{expired:?}") };
    assert_eq!(detail.last_failure, Some(failure("no route")));
}

#[test]
fn nothing_expires_while_the_clock_cannot_be_trusted() {
    let retry = RetryPolicy { give_up_after: SECOND * 50, ..policy() };
    let mut one = One::new();
    one.queue.keep_all(one.now, true);
    let old =
        queue::NewEntry { received: Mono(0), age_before_start: SECOND * 100, ..entry(1, one.now) };
    one.push_with(&retry, old);
    one.poll();
    one.resolve("mx", &limits());
    let last = work(one.open(READY));
    let deferred = one.outcome(&last, &EntryOutcome::Deferred(failure("450")));
    assert!(deferred.is_some_and(|d| d.next_try > one.now + SECOND * 50), "{deferred:?}");
    assert_eq!(one.later(SECOND * 40), []);
    // It was the clock: the message is young.
    one.queue.correct_ages(0, Mono(5_000_000), 100_000_000);
    one.queue.keep_all(one.now, false);
    assert_eq!(one.later(SECOND), [], "its last try comes when it is too old");
    assert!(one.queue.counts().scheduled == 1);
}
