//! The way of entries through one shard, step by step.

mod world;

use mail::{Failure, MessageId, Mono};
use queue::{
    Action, Blocker, CloseReason, EntryOutcome, Held, NewEntry, Pause, Queue, QueueConfig, ReadyId,
    Resolution, Retried, RetryPolicy, ScheduledId, Siblings, Suspension, Take, Work,
};
use std::sync::Arc;
use std::time::Duration;
use world::{
    Limits, MS, SECOND, Weather, World, entry, failure, limits, policy, ready_key, scheduled_key,
};

struct One {
    queue: Queue,
    now: Mono,
    /// Steps of back-offs that were told, and 0 for their end.
    told: Vec<u16>,
}

impl One {
    fn new() -> One {
        One { queue: Queue::new(QueueConfig::new(0, 1)), now: Mono(5_000_000), told: Vec::new() }
    }

    fn push(&mut self, id: u64) -> queue::EntryId {
        self.push_with(&policy(), entry(id, self.now))
    }

    fn push_with(&mut self, retry: &RetryPolicy, new: queue::NewEntry) -> queue::EntryId {
        let scheduled = self.queue.scheduled(&scheduled_key("a.example"), retry);
        self.queue.push(self.now, scheduled, new)
    }

    fn poll(&mut self) -> Vec<Action> {
        let mut actions: Vec<_> = std::iter::from_fn(|| self.queue.poll(self.now)).collect();
        actions.retain(|action| match action {
            Action::Suspended(suspended) => {
                self.told.push(suspended.step);
                false
            }
            Action::Resumed { .. } => {
                self.told.push(0);
                false
            }
            _ => true,
        });
        actions
    }

    fn later(&mut self, time: Duration) -> Vec<Action> {
        self.now = self.now + time;
        self.poll()
    }

    /// Answers the open question.
    fn resolve(&mut self, hop: &str, limits: &Limits) -> Vec<Action> {
        let scheduled = ScheduledId(0);
        let answer = Resolution::Ready {
            key: ready_key(hop),
            limits: limits.own(),
            shared: vec![limits.shared(hop)],
            fresh_until: self.now + SECOND * 3600,
        };
        self.queue.handle_resolved(self.now, scheduled, answer);
        self.poll()
    }

    /// A connection opens and takes.
    fn open(&mut self, ready: ReadyId) -> Take {
        self.queue.handle_opened(self.now, ready);
        self.queue.take(self.now, ready, 0)
    }

    fn outcome(&mut self, work: &Work, outcome: &EntryOutcome) -> Option<queue::Deferred> {
        let mut last = None;
        for (entry, _, _) in &work.entries {
            last = self.queue.handle_outcome(self.now, *entry, outcome.clone());
        }
        last
    }
}

fn work(take: Take) -> Work {
    match take {
        Take::Work(work) => work,
        other => panic!("no work but {other:?}"),
    }
}

const READY: ReadyId = ReadyId(0);

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
fn opening_ramps_up_by_opens_max() {
    let mut one = One::new();
    for id in 0..10 {
        one.push(id);
    }
    one.poll();
    let few = Limits { opens_max: 2, ..limits() };
    assert_eq!(one.resolve("mx", &few), vec![Action::Open(READY); 2]);
    work(one.open(READY));
    assert_eq!(one.poll(), [Action::Open(READY)]);
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
fn failed_opens_back_off_and_probe_without_touching_messages() {
    let mut one = One::new();
    let ids: Vec<_> = (0..100).map(|id| one.push(id)).collect();
    one.poll();
    assert_eq!(one.resolve("mx", &limits()).len(), 50);
    for _ in 0..50 {
        one.queue.handle_open_failed(one.now, READY, failure("refused"));
    }
    assert_eq!(one.poll(), []);
    let mut opens = Vec::new();
    for _ in 0..8 {
        let Some(Blocker::OpenBackoff { until, failure: Some(_), .. }) =
            one.queue.why(one.now, ids[99])
        else {
            panic!("backs off")
        };
        opens.push(until.since(one.now).as_millis() / 100);
        assert_eq!(one.queue.next_timeout().min(until), one.queue.next_timeout());
        let wait = until.since(one.now);
        assert_eq!(one.later(wait - MS).len(), 0);
        assert_eq!(one.later(MS), [Action::Open(READY)]);
        one.queue.handle_open_failed(one.now, READY, failure("refused"));
        assert_eq!(one.poll(), []);
    }
    assert!(
        opens
            .iter()
            .zip([10, 20, 40, 80, 160, 320, 600, 1200])
            .all(|(a, b)| a.abs_diff(b) * 9 <= b),
        "{opens:?}"
    );
    assert_eq!(one.told, [1, 2, 3, 4, 5, 6, 7, 8, 9], "each step once");
    let waiting = one.queue.entry(one.now, ids[99]).expect("queued");
    assert_eq!(waiting.attempts, 9, "made for all that wait");
    assert_eq!(world::retry_all(&mut one.queue, one.now), 100);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    let first = work(one.open(READY));
    assert_eq!(first.entries[0].2, 0, "no attempt of its own was counted");
    assert_eq!(one.poll().len(), 49);
    one.queue.handle_accepted(one.now, READY);
    one.poll();
    assert_eq!(one.told.last(), Some(&0), "and the end");
}

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
fn an_operator_holds_releases_and_removes() {
    let mut one = One::new();
    let first = one.push(1);
    let second = one.push(2);
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    let flying = work(one.open(READY));
    assert_eq!(one.queue.hold(first, &"spam".into()), Held::New);
    assert_eq!(one.queue.hold(second, &"spam".into()), Held::New);
    assert_eq!(one.queue.hold(second, &"spam".into()), Held::Already);
    assert_eq!(one.queue.hold(second, &"no spam".into()), Held::Again);
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
fn connections_close_when_they_carried_enough_or_the_limit_fell() {
    let mut one = One::new();
    for id in 0..20 {
        one.push(id);
    }
    one.poll();
    let five = Limits { messages_per_connection: 3, connections_max: 5, ..limits() };
    assert_eq!(one.resolve("mx", &five).len(), 5);
    for _ in 0..5 {
        one.open(READY);
    }
    assert!(matches!(one.queue.take(one.now, READY, 2), Take::Work(_)));
    assert_eq!(one.queue.take(one.now, READY, 3), Take::Close);
    one.queue.handle_closed(one.now, READY, CloseReason::Normal);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    one.open(READY);
    one.resolve("mx", &Limits { connections_max: 2, ..five });
    let mut closed = 0;
    while one.queue.take(one.now, READY, 0) == Take::Close {
        one.queue.handle_closed(one.now, READY, CloseReason::Normal);
        one.poll();
        closed += 1;
    }
    assert_eq!(closed, 3);
}

#[test]
fn throttling_shrinks_and_does_not_spin() {
    let weather = Weather {
        throttled: 1000,
        limits: Limits { adaptive: true, ..limits() },
        ..Weather::fair()
    };
    let mut world = World::new(1, 1, weather);
    for _ in 0..100 {
        world.push(0, 0, |_| {});
    }
    world.run_for(SECOND * 600);
    let opens = world.shards[0].opens;
    assert!(opens < 60, "{opens} connections opened to a peer that only says 421");
    assert_eq!(world.queued(), 100);
    world.weather.throttled = 0;
    // Its back-off is an hour by now.
    world.run_for(SECOND * 7200);
    assert_eq!(world.queued(), 0);
}

#[test]
fn connections_that_break_at_once_do_not_spin() {
    let mut world = World::new(1, 1, Weather { lost: 1000, ..Weather::fair() });
    for _ in 0..100 {
        world.push(0, 0, |_| {});
    }
    world.run_for(SECOND * 600);
    let opens = world.shards[0].opens;
    assert!(opens < 2000, "{opens} connections opened to a peer that breaks each");
    world.weather.lost = 0;
    // Its back-off is an hour by now.
    world.run_for(SECOND * 7200);
    assert_eq!(world.queued(), 0);
}

/// MAIL commands in a minute to a peer that answers each with 450.
fn refused_in_a_minute(of_recipients: bool) -> usize {
    let mut one = One::new();
    for id in 0..5000 {
        one.push(id);
    }
    one.poll();
    let limits = Limits { adaptive: true, ..limits() };
    let mut opens = one.resolve("mx", &limits).len();
    let (mut tried, end) = (0, one.now + SECOND * 60);
    while one.now < end {
        for _ in 0..opens {
            let mut take = one.open(READY);
            while let Take::Work(work) = take {
                tried += 1;
                one.queue.handle_refused(one.now, READY, failure("450"), of_recipients);
                one.outcome(&work, &EntryOutcome::Deferred(failure("450")));
                take = one.queue.take(one.now, READY, 1);
            }
            one.queue.handle_closed(one.now, READY, CloseReason::Normal);
        }
        let next = one.queue.next_timeout().max(one.now + MS).min(end);
        opens =
            one.later(next.since(one.now)).iter().filter(|a| **a == Action::Open(READY)).count();
    }
    tried
}

#[test]
fn a_peer_that_refuses_everything_is_left_alone() {
    let tried = refused_in_a_minute(false);
    assert!((5..=60).contains(&tried), "{tried} in a minute");
    let greylisted = refused_in_a_minute(true);
    assert!((60..=2000).contains(&greylisted), "{greylisted} in a minute");
}

#[test]
fn a_peer_that_turns_connections_away_is_not_asked_for_more() {
    let mut one = One::new();
    for id in 0..500 {
        one.push(id);
    }
    one.poll();
    let mut opening = one.resolve("mx", &limits()).len();
    let (mut open, mut turned_away) = (0, 0);
    let reply = mail::Reply::new(421, (4, 7, 0), "too many connections");
    let too_many = std::sync::Arc::new(mail::Failure::peer("mx", reply, mail::Step::Connect));
    for _ in 0..100 {
        for _ in 0..opening {
            if open < 5 {
                work(one.open(READY));
                open += 1;
            } else {
                one.queue.handle_open_failed(one.now, READY, too_many.clone());
                turned_away += 1;
            }
        }
        one.queue.handle_accepted(one.now, READY);
        opening = one.later(SECOND).iter().filter(|action| **action == Action::Open(READY)).count();
    }
    assert_eq!(turned_away, 45, "those that were under way when the first was");
    assert_eq!(one.told, [0; 0], "five go on");
}

#[test]
fn messages_per_second_are_kept_to_on_one_shard() {
    let limits = Limits { messages_per_second: 20.0, ..limits() };
    let mut world = World::new(1, 1, Weather { limits, ..Weather::fair() });
    for _ in 0..200 {
        world.push(0, 0, |_| {});
    }
    let start = world.now;
    world.run_for(SECOND * 11);
    assert_eq!(world.settled(), 200);
    let taken = &world.taken[&ready_key("hop0")];
    for (n, at) in taken.iter().enumerate() {
        assert!(n as f64 <= 5.0 + 20.0 * at.since(start).as_secs_f64());
    }
    assert!(taken[199].since(start) >= SECOND * 9);
    assert_eq!(world.lease_messages, 0);
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
    let seventy_seven = world::find(&one.queue, 77).expect("queued");
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
fn nothing_expires_while_the_clock_cannot_be_trusted() {
    let retry = RetryPolicy { give_up_after: SECOND * 50, ..policy() };
    let mut one = One::new();
    one.queue.keep_all(true);
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
    one.queue.keep_all(false);
    assert_eq!(one.later(SECOND), [], "its last try comes when it is too old");
    assert!(one.queue.counts().scheduled == 1);
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
    Some(Suspension { what, reason, until: one.now + SECOND * seconds }.into())
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
    let actions = one.later(SECOND * 5);
    assert!(actions.contains(&Action::Wake(READY)), "{actions:?}");
    assert!(!actions.iter().any(|action| matches!(action, Action::Expired(_))), "{actions:?}");
    work(one.queue.take(one.now, READY, 0));
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

#[test]
fn what_waits_for_a_hop_without_mail_service_fails_and_what_comes_later_asks_again() {
    let mut one = One::new();
    for id in 0..1000 {
        one.push(id);
    }
    one.poll();
    one.resolve("mx", &Limits { connections_max: 1, ..limits() });
    one.queue.handle_open_refused(one.now, READY, failure("521 no mail here"));
    let actions = one.poll();
    assert_eq!(actions.len(), 1000);
    assert!(actions.iter().all(|action| matches!(action, Action::Failed(..))));
    one.push(1000);
    assert_eq!(one.poll(), [Action::Open(READY)]);
    // Where another connection is open, others of the hop's hosts take mail.
    one.open(READY);
    one.push(1001);
    one.push(1002);
    one.queue.handle_open_refused(one.now, READY, failure("521 no mail here"));
    assert!(!one.poll().iter().any(|action| matches!(action, Action::Failed(..))));
}
