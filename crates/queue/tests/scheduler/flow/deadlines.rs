//! What senders want of time: their own deadlines, and the hours in which their mail goes.

use super::one::{One, READY, work};
use crate::world::{SECOND, entry, failure, limits, policy, scheduled_key};
use mail::Mono;
use queue::{
    Action, Blocker, Deadlines, EntryId, EntryOutcome, Hours, NewEntry, ScheduledId, ScheduledKey,
};
use std::sync::Arc;

/// Pushes one that is to be given up in ten seconds.
fn push_urgent(one: &mut One, id: u64) -> EntryId {
    let deadlines = Deadlines { expires: one.now + SECOND * 10, ..Deadlines::NONE };
    one.push_with(&policy(), NewEntry { deadlines, ..entry(id, one.now) })
}

fn expired(actions: &[Action]) -> Vec<u64> {
    let id = |action: &Action| match action {
        Action::Expired(detail) => Some((detail.id.0, detail.is_overdue)),
        _ => None,
    };
    let all: Vec<(u64, bool)> = actions.iter().filter_map(id).collect();
    assert!(all.iter().all(|(_, is_overdue)| *is_overdue));
    all.into_iter().map(|(id, _)| id).collect()
}

#[test]
fn a_sender_s_deadline_is_kept_at_once_and_has_its_own_timer() {
    let mut one = One::new();
    push_urgent(&mut one, 1);
    one.poll();
    one.resolve("mx", &limits());
    assert!(one.queue.next_timeout() <= one.now + SECOND * 10);
    assert_eq!(expired(&one.later(SECOND * 9)), []);
    assert_eq!(expired(&one.later(SECOND)), [1], "it never got a connection");
    assert_eq!(one.queue.counts().ready, 0);
}

#[test]
fn an_attempt_under_way_is_finished_and_then_it_is_over() {
    for outcome in [EntryOutcome::Untried, EntryOutcome::Deferred(failure("450"))] {
        let mut one = One::new();
        push_urgent(&mut one, 1);
        one.poll();
        one.resolve("mx", &limits());
        let under_way = work(one.open(READY));
        assert_eq!(expired(&one.later(SECOND * 20)), []);
        assert_eq!(one.outcome(&under_way, &outcome), None);
        assert_eq!(expired(&one.poll()), [1], "{outcome:?}");
    }
}

#[test]
fn what_is_overdue_is_not_handed_out() {
    let mut one = One::new();
    push_urgent(&mut one, 1);
    one.poll();
    one.resolve("mx", &limits());
    // Nobody polls before the connection asks.
    one.now = one.now + SECOND * 11;
    one.queue.handle_opened(one.now, READY);
    assert_eq!(one.queue.take(one.now, READY, 0), queue::Take::Wait);
    assert_eq!(expired(&one.poll()), [1]);
}

#[test]
fn a_hold_and_a_doubted_clock_put_it_off() {
    let mut one = One::new();
    let held = push_urgent(&mut one, 1);
    one.queue.hold(held, &Arc::from("wait"));
    assert_eq!(expired(&one.later(SECOND * 20)), []);
    one.queue.release(one.now, held);
    assert_eq!(expired(&one.poll()), [1]);
    one.queue.keep_all(one.now, true);
    push_urgent(&mut one, 2);
    assert_eq!(expired(&one.later(SECOND * 20)), []);
    one.queue.keep_all(one.now, false);
    assert_eq!(expired(&one.poll()), [2]);
}

#[test]
fn a_window_is_asked_for_when_something_is_to_go_and_not_otherwise() {
    let mut one = One::new();
    let key = ScheduledKey { window: Arc::from("its hours"), ..scheduled_key("a.example") };
    let scheduled = one.queue.scheduled(&key, &policy());
    let waiting = one.queue.push(one.now, scheduled, entry(1, one.now));
    assert_eq!(one.poll(), [Action::Hours(ScheduledId(0))]);
    assert_eq!(one.poll(), [], "once");
    let opens = one.now + SECOND * 100;
    one.queue.set_hours(one.now, scheduled, Hours { is_open: false, until: opens });
    assert_eq!(one.poll(), []);
    let why = one.queue.why(one.now, waiting);
    assert_eq!(why, Some(Blocker::Hours { window: Arc::from("its hours"), until: opens }));
    assert_eq!(one.later(SECOND * 99), []);
    assert_eq!(one.later(SECOND), [Action::Hours(ScheduledId(0))]);
    let closes = one.now + SECOND * 50;
    one.queue.set_hours(one.now, scheduled, Hours { is_open: true, until: closes });
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    one.resolve("mx", &limits());
    // It closes before there is a connection.
    one.now = closes;
    one.queue.handle_opened(one.now, READY);
    assert_eq!(one.queue.take(one.now, READY, 0), queue::Take::Wait);
    assert!(one.poll().contains(&Action::Hours(ScheduledId(0))));
    one.queue.set_hours(one.now, scheduled, Hours { is_open: false, until: Mono::NEVER });
    assert_eq!(one.later(SECOND * 60), []);
    assert_eq!((one.queue.counts().scheduled, one.queue.counts().ready), (1, 0));
}
