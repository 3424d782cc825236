//! An entry's usual way, and its turn among others.

use super::one::{One, READY, work};
use crate::world::{
    Limits, MS, SECOND, Weather, World, entry, failure, find, limits, policy, scheduled_key,
};
use mail::{Failure, MessageId, Mono};
use queue::{
    Action, Blocker, EntryOutcome, NewEntry, Pause, Resolution, Retried, RetryPolicy, Siblings,
    Take,
};
use std::sync::Arc;

#[test]
fn a_message_is_resolved_opened_for_taken_and_settled() {
    let mut one = One::new();
    let id = one.push(1);
    let [Action::Resolve(scheduled)] = one.poll()[..] else { panic!("asks where to") };
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::Resolving { .. })));
    assert_eq!(one.poll(), []);
    assert_eq!(one.queue.scheduled_key(scheduled), Some(&scheduled_key("a.example")));
    assert_eq!(one.resolve("mx", &limits()), [Action::Open(READY)]);
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::Opening { .. })));
    let first = work(one.open(READY));
    assert_eq!((first.id, first.entries[0].0, first.entries[0].2), (MessageId(1), id, 0));
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::InFlight)));
    assert_eq!(one.outcome(&first, &EntryOutcome::Settled), None);
    assert!(matches!(one.queue.take(one.now, READY, 1), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    assert_eq!(one.queue.why(one.now, id), None);

    one.push(2);
    assert_eq!(one.poll(), [Action::Wake(READY)]);
    assert_eq!(work(one.queue.take(one.now, READY, 1)).id, MessageId(2));
}

#[test]
fn a_burst_opens_one_connection_each_and_no_more() {
    let mut one = One::new();
    one.push(0);
    one.poll();
    one.resolve("mx", &limits());
    let mut actions = 0;
    for id in 1..250 {
        one.push(id);
    }
    actions += one.poll().len();
    assert_eq!(actions, 49);
    for id in 250..500 {
        one.push(id);
        actions += one.poll().len();
    }
    assert_eq!(actions, 49);
    for _ in 0..50 {
        work(one.open(READY));
    }
    assert_eq!(one.poll(), []);
}

#[test]
fn recipients_of_one_message_go_together() {
    let mut one = One::new();
    for recipient in 0..250 {
        let mut new = entry(7, one.now);
        new.recipient = recipient;
        one.push_with(&policy(), new);
    }
    one.push(8);
    one.poll();
    assert_eq!(one.resolve("mx", &limits()).len(), 4);
    let first = work(one.open(READY));
    assert_eq!(first.entries.len(), 100);
    assert!(first.entries.iter().map(|(_, recipient, _)| *recipient).eq(0..100));
    assert_eq!(work(one.queue.take(one.now, READY, 1)).entries.len(), 100);
    assert_eq!(work(one.queue.take(one.now, READY, 2)).entries.len(), 50);
    assert_eq!(work(one.queue.take(one.now, READY, 3)).id, MessageId(8));
    one.outcome(&first, &EntryOutcome::Untried);
    assert_eq!(work(one.queue.take(one.now, READY, 4)).entries.len(), 100);
}

#[test]
fn a_deferred_entry_comes_again_when_it_is_due() {
    let mut one = One::new();
    let id = one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    let first = work(one.open(READY));
    let deferred = one.outcome(&first, &EntryOutcome::Deferred(failure("450"))).expect("deferred");
    assert_eq!(deferred.attempts, 1);
    let wait = deferred.next_try.since(one.now);
    assert!(wait >= SECOND * 54 && wait <= SECOND * 66, "{wait:?}");
    let Some(Blocker::Scheduled { due, first: false }) = one.queue.why(one.now, id) else {
        panic!("waits for its time")
    };
    assert_eq!(due, deferred.next_try);
    one.queue.handle_idle(one.now, READY);
    assert_eq!(one.later(wait - MS), []);
    assert_eq!(one.later(MS), [Action::Wake(READY)]);
    assert_eq!(work(one.queue.take(one.now, READY, 1)).entries[0].2, 1);
}

#[test]
fn recipients_that_were_deferred_together_come_back_together() {
    let mut one = One::new();
    for recipient in 0..50 {
        one.push_with(&policy(), NewEntry { recipient, ..entry(7, one.now) });
    }
    one.push(8);
    one.poll();
    one.resolve("mx", &limits());
    let (first, other) = (work(one.open(READY)), work(one.queue.take(one.now, READY, 1)));
    let mut tries = Vec::new();
    for (entry, _, _) in first.entries.iter().chain(&other.entries) {
        let outcome = EntryOutcome::Deferred(failure("450"));
        let deferred = one.queue.handle_outcome(one.now, *entry, outcome);
        tries.push(deferred.expect("deferred").next_try);
    }
    assert_eq!(tries.len(), 51);
    assert!(tries[..50].iter().all(|at| *at == tries[0]));
    assert_ne!(tries[50], tries[0], "another message has a wait of its own");
}

#[test]
fn an_entry_shows_no_failure_of_another() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let mut one = One::new();
    one.push_with(&retry, entry(1, one.now));
    let held = one.push_with(&retry, NewEntry { held: true, ..entry(2, one.now) });
    one.poll();
    one.resolve("mx", &limits());
    let first = work(one.open(READY));
    let reply = mail::Reply::new(421, (4, 2, 2), "<bob@far.test> mailbox full");
    let of_bob = Arc::new(Failure::peer("mx", reply, mail::Step::RcptTo));
    one.queue.handle_throttled(one.now, READY, Arc::clone(&of_bob));
    one.outcome(&first, &EntryOutcome::Deferred(Arc::clone(&of_bob)));
    let bob = one.queue.entry(one.now, first.entries[0].0).expect("queued");
    assert_eq!(bob.last_failure, Some(of_bob));
    let of_alice = |one: &One| one.queue.entry(one.now, held).expect("queued").last_failure;
    assert_eq!(of_alice(&one), None);
    // In the ready queue that bob's refusal closed it is no other.
    one.queue.release(one.now, held);
    one.poll();
    assert_eq!(of_alice(&one), None);
}

#[test]
fn what_is_to_be_expected_of_siblings() {
    let mut one = One::new();
    let mut ids = Vec::new();
    for recipient in 0..3 {
        ids.push(one.push_with(&policy(), NewEntry { recipient, ..entry(7, one.now) }));
    }
    let alone = one.push(8);
    assert_eq!(one.queue.sibling(alone), None);
    assert!(one.queue.sibling(ids[0]).is_some_and(|sibling| ids[1..].contains(&sibling)));
    let soon = one.now + SECOND;
    assert_eq!(one.queue.siblings(ids[0], soon), Siblings::Due, "they are due");
    one.poll();
    one.resolve("mx", &limits());
    let first = work(one.open(READY));
    assert_eq!(one.queue.siblings(ids[2], soon), Siblings::InFlight);
    one.outcome(&first, &EntryOutcome::Deferred(failure("450")));
    assert_eq!(one.queue.siblings(ids[1], soon), Siblings::Waiting);
    assert_eq!(one.queue.siblings(ids[1], one.now + SECOND * 100), Siblings::Due);
    for id in &ids {
        one.queue.remove(one.now, *id);
    }
    assert_eq!(one.queue.siblings(ids[1], soon), Siblings::None);
}

#[test]
fn a_refusal_fails_what_is_due_and_nothing_else() {
    let mut one = One::new();
    for id in 0..5000 {
        one.push(id);
    }
    let mut later = entry(9999, one.now);
    later.due = one.now + SECOND * 5;
    one.push_with(&policy(), later);
    let [Action::Resolve(scheduled)] = one.poll()[..] else { panic!("asks") };
    one.queue.handle_resolved(one.now, scheduled, Resolution::Refuse(failure("null MX")));
    let mut failed = one.poll().len();
    assert!(failed < 5000, "a round is bounded");
    while one.queue.next_timeout() <= one.now {
        failed += one.poll().len();
    }
    assert_eq!(failed, 5000);
    assert_eq!(one.later(SECOND * 5), [Action::Resolve(scheduled)]);
}

#[test]
fn trouble_with_the_dns_holds_the_scheduled_queue_up() {
    let mut one = One::new();
    let id = one.push(1);
    let [Action::Resolve(scheduled)] = one.poll()[..] else { panic!("asks") };
    let answer = Resolution::Retry(failure("SERVFAIL"));
    let mut waits = Vec::new();
    for _ in 0..8 {
        one.queue.handle_resolved(one.now, scheduled, answer.clone());
        assert!(one.queue.is_in_trouble(scheduled));
        one.push(2);
        assert_eq!(one.poll(), []);
        let why = one.queue.why(one.now, id).expect("queued");
        assert!(matches!(why, Blocker::ResolutionFailed { .. }));
        let wait = why.next().expect("a time").since(one.now);
        waits.push(wait.as_secs_f64());
        assert_eq!(one.later(wait), [Action::Resolve(scheduled)]);
    }
    // By the retry policy: from a minute to an hour, each time a little different.
    for (wait, policy) in waits.iter().zip([60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0]) {
        assert!((0.9 * policy..=1.1 * policy).contains(wait), "{waits:?}");
    }
    assert!((waits[6] - waits[7]).abs() > 1e-3, "{waits:?}");
    one.queue.handle_resolved(one.now, scheduled, answer);
    one.poll();
    assert_eq!(one.queue.retry(one.now, id), Retried::Due);
    assert_eq!(one.poll(), [Action::Resolve(scheduled)], "the operator does not wait");
}

#[test]
fn a_pause_stops_work_and_its_end_resumes_it() {
    let mut one = One::new();
    one.push(1);
    one.poll();
    one.resolve("mx", &limits());
    one.queue.set_paused(Some(Pause::Unsettled));
    assert!(matches!(one.open(READY), Take::Wait));
    one.queue.handle_idle(one.now, READY);
    let id = one.push(2);
    assert_eq!(one.poll(), []);
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::Paused { .. })));
    one.queue.set_paused(None);
    assert_eq!(one.poll(), [Action::Wake(READY), Action::Open(READY)]);
}

#[test]
fn priorities_and_tenants_share_a_hop() {
    let mut one = One::new();
    for id in 0..100 {
        let mut new = entry(id, one.now);
        new.priority = if id < 80 { 4 } else { 9 };
        one.push_with(&policy(), new);
    }
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    let mut order = vec![work(one.open(READY)).id.0];
    for carried in 1..24 {
        order.push(work(one.queue.take(one.now, READY, carried)).id.0);
    }
    assert_eq!(order.iter().filter(|id| **id >= 80).count(), 20);
    assert_eq!(order[7], 0);
}

#[test]
fn queues_that_nobody_uses_are_forgotten() {
    let mut world = World::new(2, 1, Weather { hops: 1000, ..Weather::fair() });
    for domain in 0..3000 {
        world.push((domain % 2) as usize, domain, |_| {});
    }
    world.run_for(SECOND * 60);
    assert_eq!(world.settled(), 3000);
    assert_eq!(world.shards[0].queue.counts().scheduled_queues, 1500);
    world.run_for(SECOND * 1500);
    for shard in &world.shards {
        let counts = shard.queue.counts();
        assert_eq!((counts.scheduled_queues, counts.ready_queues), (0, 0));
        assert_eq!(shard.queue.next_timeout(), Mono::NEVER);
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let weather =
            Weather { deferred: 200, open_fails: 100, lost: 20, hops: 3, ..Weather::fair() };
        let mut world = World::new(2, seed, weather);
        for domain in 0..500 {
            world.push((domain % 2) as usize, domain % 7, |_| {});
        }
        world.run_for(SECOND * 500);
        world.shards.into_iter().map(|s| s.settled).collect::<Vec<_>>()
    };
    assert_eq!(history(3), history(3));
    assert_ne!(history(3), history(4));
}

#[test]
fn everything_is_seen_once_and_messages_are_counted_by_their_first() {
    let mut one = One::new();
    for id in 0..3000 {
        for recipient in 0..1 + id as u32 % 3 {
            one.push_with(&policy(), queue::NewEntry { recipient, ..entry(id, one.now) });
        }
    }
    // A step per entry, however many messages there are: nothing is looked for twice.
    let glances: Vec<queue::Glance> =
        (0..one.queue.chunk_count()).flat_map(|chunk| one.queue.glances(one.now, chunk)).collect();
    assert_eq!(glances.len(), 6000);
    let messages = |glances: &[queue::Glance]| glances.iter().filter(|g| g.is_first).count();
    assert_eq!(messages(&glances), 3000);
    let seventy_seven = find(&one.queue, 77).expect("queued");
    assert_eq!(one.queue.entries(one.now, seventy_seven).len(), 3);
    // Those that are left stand for the message when its first recipient has gone.
    for glance in glances.iter().filter(|glance| glance.is_first) {
        one.queue.remove(one.now, glance.entry);
    }
    let left: Vec<queue::Glance> =
        (0..one.queue.chunk_count()).flat_map(|chunk| one.queue.glances(one.now, chunk)).collect();
    assert_eq!((left.len(), messages(&left)), (3000, 2000));
    assert_eq!(one.queue.scheduled_queues().next().map(|q| q.waiting), Some(3000));
}
