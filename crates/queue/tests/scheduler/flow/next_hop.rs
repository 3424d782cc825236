//! Connections to a next hop, and what is learnt from how they end.

use super::one::{One, READY, work};
use crate::world::{Limits, MS, SECOND, Weather, World, failure, limits, ready_key, retry_all};
use queue::{Action, Blocker, CloseReason, EntryOutcome, ScheduledId, Take};

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
    assert_eq!(retry_all(&mut one.queue, one.now), 100);
    let looks_again = Action::Resolve(ScheduledId(0));
    assert_eq!(one.poll(), [looks_again, Action::Open(READY)]);
    let first = work(one.open(READY));
    assert_eq!(first.entries[0].2, 0, "no attempt of its own was counted");
    assert_eq!(one.poll().len(), 49);
    one.queue.handle_accepted(one.now, READY);
    one.poll();
    assert_eq!(one.told.last(), Some(&0), "and the end");
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

/// Connections that close, of four, while recipients are put off: `in_a_row` after each that is taken.
fn closed_while_put_off(in_a_row: u32) -> usize {
    let mut one = One::new();
    for id in 0..400 {
        one.push(id);
    }
    one.poll();
    let limits = Limits { adaptive: true, connections_max: 4, ..limits() };
    assert_eq!(one.resolve("mx", &limits).len(), 4);
    let mut taken: Vec<Take> = (0..4).map(|_| one.open(READY)).collect();
    for round in 0..20 {
        one.later(SECOND);
        for take in &mut taken {
            let Take::Work(work) = take else { continue };
            if round % (in_a_row + 1) == 0 {
                one.queue.handle_accepted(one.now, READY);
                one.outcome(work, &EntryOutcome::Settled);
            } else {
                one.queue.handle_refused(one.now, READY, failure("450"), true);
                one.outcome(work, &EntryOutcome::Deferred(failure("450")));
                // Another connection's was taken meanwhile.
                if in_a_row == 1 {
                    one.queue.handle_accepted(one.now, READY);
                }
            }
            *take = one.queue.take(one.now, READY, 1);
        }
    }
    taken.iter().filter(|take| **take == Take::Close).count()
}

#[test]
fn recipients_put_off_now_and_then_cost_no_connections_and_several_in_a_row_do() {
    assert_eq!(closed_while_put_off(1), 0);
    assert!(closed_while_put_off(3) > 0);
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
