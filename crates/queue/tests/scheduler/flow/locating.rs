//! Entries whose next hop hangs on their recipient.

use super::one::{One, READY, work};
use crate::world::{SECOND, entry, failure, limits, policy, ready_key, scheduled_key};
use mail::{MessageId, Mono};
use queue::{
    Action, Blocker, EntryOutcome, HopLookup, HopLookupResult, LOCATING_MAX, NewEntry, Pause,
    ReadyId, Resolution, Retried, RetryPolicy, ScheduledId, Take,
};

/// What a queue asks when all its entries go where their recipients are.
impl One {
    /// Answers the open question; gives the next questions.
    fn each(&mut self) -> Vec<HopLookup> {
        let answer = Resolution::Each { fresh_until: Mono::NEVER };
        self.queue.handle_resolved(self.now, ScheduledId(0), answer);
        self.questions()
    }

    /// The questions that are to be asked now, and nothing else is to be done.
    fn questions(&mut self) -> Vec<HopLookup> {
        let question = |action: Action| match action {
            Action::Locate(locating) => locating,
            other => panic!("{other:?}"),
        };
        self.poll().into_iter().map(question).collect()
    }

    fn enter(&mut self, locating: &HopLookup, hop: &str) -> HopLookupResult {
        let (own, shared) = (limits().own(), [limits().shared(hop)]);
        let key = ready_key(hop);
        let ready = self.queue.enter_located(self.now, locating, &key, &own, &shared);
        ready.map_or(HopLookupResult::Elsewhere, HopLookupResult::At)
    }

    /// All of these recipients are at one hop.
    fn at(&mut self, locating: &HopLookup, hop: &str) -> Vec<Action> {
        let at = self.enter(locating, hop);
        let deferred =
            self.queue.handle_located(self.now, locating, vec![at; locating.entries.len()]);
        assert!(deferred.iter().all(Option::is_none));
        self.poll()
    }

    /// The same answer for all.
    fn answer(
        &mut self,
        locating: &HopLookup,
        answer: HopLookupResult,
    ) -> Vec<Option<queue::Deferred>> {
        let answers = vec![answer; locating.entries.len()];
        self.queue.handle_located(self.now, locating, answers)
    }
}

/// One message whose recipient is asked for.
fn asked(retry: &RetryPolicy) -> (One, queue::EntryId, HopLookup) {
    let mut one = One::new();
    let id = one.push_with(retry, entry(1, one.now));
    one.poll();
    let mut questions = one.each();
    assert_eq!(questions.len(), 1);
    (one, id, questions.remove(0))
}

#[test]
fn each_recipient_goes_where_it_is_found() {
    let mut one = One::new();
    let ids: Vec<_> = (1..=2).map(|id| one.push(id)).collect();
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    let questions = one.each();
    assert_eq!(questions.iter().map(|q| q.id).collect::<Vec<_>>(), [MessageId(1), MessageId(2)]);
    assert!(matches!(one.queue.why(one.now, ids[0]), Some(Blocker::Resolving { .. })));
    assert_eq!(one.queue.counts().scheduled, 2);
    assert_eq!(one.at(&questions[0], "b1"), [Action::Open(READY)]);
    assert_eq!(one.at(&questions[1], "b2"), [Action::Open(ReadyId(1))]);
    assert_eq!(work(one.open(READY)).id, MessageId(1));
    assert_eq!(work(one.open(ReadyId(1))).id, MessageId(2));
    // Later mail is asked for itself, and the queue is not.
    one.push(3);
    let questions = one.questions();
    assert_eq!(questions[0].id, MessageId(3));
    assert_eq!(one.at(&questions[0], "b2").len(), 1);
}

#[test]
fn recipients_of_one_message_are_asked_for_and_go_together() {
    let mut one = One::new();
    for recipient in 0..100 {
        one.push_with(&policy(), NewEntry { recipient, ..entry(7, one.now) });
    }
    one.poll();
    let questions = one.each();
    assert_eq!(questions.len(), 1, "no more than {LOCATING_MAX} at once");
    assert_eq!(questions[0].entries.len(), LOCATING_MAX as usize);
    let (here, there) = (one.enter(&questions[0], "b1"), one.enter(&questions[0], "b2"));
    let half = |(_, index): &(_, u32)| if index % 2 == 0 { here.clone() } else { there.clone() };
    let answers = questions[0].entries.iter().map(half).collect();
    one.queue.handle_located(one.now, &questions[0], answers);
    let actions = one.poll();
    let [first, second, Action::Locate(rest)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!([first, second], [&Action::Open(READY), &Action::Open(ReadyId(1))]);
    assert_eq!(rest.entries.len(), 100 - LOCATING_MAX as usize);
    assert_eq!(work(one.open(READY)).entries.len(), LOCATING_MAX as usize / 2);
}

#[test]
fn scheduled_queues_take_turns_to_have_entries_located() {
    let mut one = One::new();
    let each = Resolution::Each { fresh_until: Mono::NEVER };
    for (domain, count) in [("a.example", 300), ("b.example", 3)] {
        let scheduled = one.queue.scheduled(&scheduled_key(domain), &policy());
        one.queue.handle_resolved(one.now, scheduled, each.clone());
        for id in 0..count {
            let id = u64::from(scheduled.0) * 1_000 + id;
            one.queue.push(one.now, scheduled, entry(id, one.now));
        }
    }
    let questions = one.questions();
    assert_eq!(questions.len(), LOCATING_MAX as usize);
    let of_b = |questions: &[HopLookup]| {
        questions.iter().filter(|question| question.scheduled == ScheduledId(1)).count()
    };
    assert_eq!(of_b(&questions), 3, "nobody waits behind all of another's");
    assert_eq!(one.questions(), []);
    let mut asked = questions.len();
    let mut open = questions;
    while let Some(question) = open.pop() {
        one.at(&question, "b1").into_iter().for_each(|action| {
            if let Action::Locate(question) = action {
                asked += 1;
                open.push(question);
            }
        });
        assert!(open.len() <= LOCATING_MAX as usize);
    }
    assert_eq!((asked, one.queue.counts().ready), (303, 303));
}

#[test]
fn who_was_moved_is_found_at_the_next_attempt() {
    let (mut one, _, question) = asked(&policy());
    one.at(&question, "b1");
    let first = work(one.open(READY));
    let deferred = one.outcome(&first, &EntryOutcome::Deferred(failure("450"))).expect("deferred");
    assert_eq!(one.later(deferred.next_try.since(one.now) - SECOND), []);
    let actions = one.later(SECOND);
    let [Action::Locate(question)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!(one.at(question, "b2"), [Action::Open(ReadyId(1))]);
    assert_eq!(work(one.open(ReadyId(1))).entries[0].2, 1);
}

#[test]
fn who_waits_for_a_host_that_fails_is_asked_for_again() {
    let (mut one, id, question) = asked(&policy());
    one.at(&question, "b1");
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    let mut questions = Vec::new();
    let began = one.now;
    while questions.is_empty() {
        for action in one.later(SECOND) {
            match action {
                Action::Open(ready) => {
                    one.queue.handle_open_failed(one.now, ready, failure("refused"));
                }
                Action::Locate(question) => questions.push(question),
                other => panic!("{other:?}"),
            }
        }
        if questions.is_empty() {
            let why = one.queue.why(one.now, id);
            assert!(
                matches!(why, Some(Blocker::OpenBackoff { .. } | Blocker::Opening { .. })),
                "{why:?}"
            );
        }
    }
    let waited = one.now.since(began);
    assert!(waited >= SECOND * 300 && waited < SECOND * 360, "{waited:?}");
    assert_eq!(one.at(&questions[0], "b2"), [Action::Open(ReadyId(1))]);
    assert_eq!(work(one.open(ReadyId(1))).entries[0].2, 0, "it was not tried");
}

#[test]
fn an_operator_has_who_waits_for_a_host_asked_for_at_once() {
    let (mut one, id, question) = asked(&policy());
    one.at(&question, "b1");
    one.queue.handle_open_failed(one.now, READY, failure("refused"));
    assert_eq!(one.poll(), []);
    assert_eq!(one.queue.retry(one.now, id), Retried::Due);
    let question = one.questions().remove(0);
    assert_eq!(one.at(&question, "b2"), [Action::Open(ReadyId(1))]);
}

#[test]
fn who_waits_for_a_host_that_is_well_is_not_asked_for_again() {
    let (mut one, _, question) = asked(&policy());
    assert_eq!(one.at(&question, "b1"), [Action::Open(READY)]);
    assert!((0..1_000).all(|_| one.later(SECOND).is_empty()));
}

#[test]
fn a_reload_asks_for_all_again() {
    let mut one = One::new();
    for id in 0..1_000 {
        one.push(id);
    }
    one.poll();
    let mut questions = one.each();
    while one.queue.counts().ready < 500 {
        let question = questions.remove(0);
        for action in one.at(&question, "b1") {
            if let Action::Locate(question) = action {
                questions.push(question);
            }
        }
    }
    one.now = one.now + SECOND;
    one.queue.invalidate_resolutions();
    let actions = one.poll();
    assert!(matches!(actions[..], [Action::Resolve(_)]), "{actions:?}");
    assert_eq!(one.queue.counts().ready, 0);
    // What was asked for before the reload is not used.
    assert_eq!(one.enter(&questions[0], "b1"), HopLookupResult::Elsewhere);
    for question in questions {
        one.answer(&question, HopLookupResult::At(READY));
    }
    assert_eq!(one.queue.counts().ready, 0);
    assert_eq!(one.each().len(), LOCATING_MAX as usize);
}

#[test]
fn what_comes_back_untried_after_a_reload_is_asked_for_again() {
    let (mut one, _, question) = asked(&policy());
    one.at(&question, "b1");
    let first = work(one.open(READY));
    one.outcome(&first, &EntryOutcome::Untried);
    assert_eq!(one.queue.counts().ready, 1, "nothing has changed");
    let first = work(one.queue.take(one.now, READY, 0));
    one.now = one.now + SECOND;
    one.queue.invalidate_resolutions();
    one.poll();
    assert_eq!(one.each(), []);
    one.outcome(&first, &EntryOutcome::Untried);
    assert_eq!(one.questions().len(), 1);
}

#[test]
fn a_directory_that_gives_no_answer_stops_the_queue_and_touches_no_message() {
    let mut one = One::new();
    let ids: Vec<_> = (0..200).map(|id| one.push(id)).collect();
    one.poll();
    let mut questions = one.each();
    for trouble in 1..=5 {
        assert_eq!(questions.len(), LOCATING_MAX as usize);
        for question in questions.drain(..) {
            let recorded = one.answer(&question, HopLookupResult::Silence(failure("no answer")));
            assert_eq!(recorded, [None], "nothing of the message");
        }
        assert_eq!(one.poll(), []);
        let Some(Blocker::ResolutionFailed { until, failure, .. }) =
            one.queue.why(one.now, ids[199])
        else {
            panic!("waits for the directory")
        };
        assert_eq!(&*failure.text, "no answer");
        assert_eq!(one.queue.trouble_count(ScheduledId(0)), trouble);
        let wait = until.since(one.now);
        let wanted = SECOND * 60 * 2_u32.pow(u32::from(trouble) - 1);
        assert!(wait.abs_diff(wanted) * 9 <= wanted, "{trouble}: {wait:?}");
        assert_eq!(one.later(wait), [Action::Resolve(ScheduledId(0))]);
        questions = one.each();
    }
    one.at(&questions[0], "b1");
    assert_eq!(one.queue.trouble_count(ScheduledId(0)), 0);
    assert_eq!(one.queue.entry(one.now, ids[0]).expect("queued").attempts, 0);
}

#[test]
fn a_key_that_alone_has_no_answer_stops_nobody() {
    let mut one = One::new();
    let ids: Vec<_> = (0..2).map(|id| one.push(id)).collect();
    one.poll();
    let questions = one.each();
    one.now = one.now + SECOND;
    assert_eq!(one.at(&questions[1], "b1"), [Action::Open(READY)]);
    let recorded = one.answer(&questions[0], HopLookupResult::Silence(failure("timeout")));
    assert_eq!(recorded[0].map(|deferred| deferred.attempts), Some(1));
    assert!(matches!(one.queue.why(one.now, ids[0]), Some(Blocker::Scheduled { .. })));
    one.push(3);
    assert!(matches!(one.poll()[..], [Action::Locate(_)]));
}

#[test]
fn what_has_no_host_is_deferred_and_who_is_gone_fails() {
    let mut one = One::new();
    for recipient in 0..2 {
        one.push_with(&policy(), NewEntry { recipient, ..entry(7, one.now) });
    }
    one.poll();
    let question = one.each().remove(0);
    let answers = vec![
        HopLookupResult::Deferred(failure("no host")),
        HopLookupResult::Refused(failure("gone")),
    ];
    let recorded = one.queue.handle_located(one.now, &question, answers);
    assert!(recorded[0].is_some_and(|deferred| deferred.attempts == 1) && recorded[1].is_none());
    let actions = one.poll();
    let [Action::Failed(detail, why)] = &actions[..] else { panic!("{actions:?}") };
    assert_eq!((detail.recipient, &*why.text), (1, "gone"));
    assert_eq!(one.queue.counts().scheduled, 1);
}

#[test]
fn what_is_too_old_has_its_last_try_and_is_given_up() {
    let retry = RetryPolicy { give_up_after: SECOND * 10, ..policy() };
    let old = |one: &One| NewEntry {
        received: Mono(0),
        age_before_start: SECOND * 100,
        ..entry(1, one.now)
    };
    // Where nobody says where it goes …
    let mut one = One::new();
    let new = old(&one);
    one.push_with(&retry, new);
    one.poll();
    let question = one.each().remove(0);
    assert_eq!(one.later(SECOND * 5), [], "it is being asked for");
    one.answer(&question, HopLookupResult::Silence(failure("no answer")));
    let expired = one.later(SECOND);
    let [Action::Expired(detail)] = &expired[..] else { panic!("{expired:?}") };
    assert_eq!(detail.last_failure, Some(failure("no answer")));
    // … and where there is no host.
    one.now = one.now + SECOND * 100;
    let new = old(&one);
    one.push_with(&retry, new);
    one.poll();
    let question = one.each().remove(0);
    assert_eq!(one.answer(&question, HopLookupResult::Deferred(failure("no host"))), [None]);
    assert!(matches!(one.poll()[..], [Action::Expired(_)]));
}

#[test]
fn an_operator_reaches_what_is_being_asked_for() {
    let (mut one, id, question) = asked(&policy());
    assert_eq!(one.queue.retry(one.now, id), Retried::Due);
    one.queue.hold(id, &"wait".into());
    assert_eq!(one.queue.counts().held, 1);
    one.answer(&question, HopLookupResult::At(READY));
    assert_eq!(one.queue.counts().held, 1, "the answer is late");
    assert!(one.queue.release(one.now, id));
    let question = one.questions().remove(0);
    assert!(one.queue.remove(one.now, id).is_some());
    one.answer(&question, HopLookupResult::Deferred(failure("no host")));
    assert_eq!(one.poll(), []);
    assert_eq!(one.queue.counts().scheduled, 0);
    // Room was given back each time.
    for id in 10..10 + u64::from(LOCATING_MAX) {
        one.push(id);
    }
    assert_eq!(one.questions().len(), LOCATING_MAX as usize);
}

#[test]
fn nothing_is_asked_for_while_nothing_may_be_sent() {
    let mut one = One::new();
    one.queue.set_paused(Some(Pause::Poisoned));
    let id = one.push(1);
    one.poll();
    assert_eq!(one.each(), []);
    assert_eq!(one.queue.why(one.now, id), Some(Blocker::Paused(Pause::Poisoned)));
    one.queue.set_paused(None);
    assert_eq!(one.questions().len(), 1);
}

#[test]
fn a_suspended_domain_keeps_what_was_found() {
    let (mut one, id, question) = asked(&policy());
    let suspension = queue::Suspension {
        is_operators: true,
        what: "the domain a.example".into(),
        reason: "".into(),
        until: one.now + SECOND * 30,
    };
    one.queue.suspend(one.now, ScheduledId(0), Some(suspension.into()));
    assert_eq!(one.at(&question, "b1"), []);
    assert!(matches!(one.queue.why(one.now, id), Some(Blocker::Suspended(_))));
    assert!(matches!(one.later(SECOND * 31)[..], [Action::Standstill(_)]));
    one.queue.suspend(one.now, ScheduledId(0), None);
    assert!(matches!(one.poll()[..], [Action::Locate(_)]));
}

#[test]
fn a_queue_that_leads_elsewhere_is_asked_where() {
    let (mut one, _, question) = asked(&policy());
    one.answer(&question, HopLookupResult::Elsewhere);
    assert_eq!(one.poll(), [Action::Resolve(ScheduledId(0))]);
    assert_eq!(one.resolve("mx", &limits()), [Action::Open(READY)]);
}

#[test]
fn ten_thousand_hosts_have_connections_of_their_own() {
    let mut one = One::new();
    for id in 0..10_000 {
        one.push(id);
    }
    one.poll();
    let mut questions = one.each();
    let mut opened = 0;
    while let Some(question) = questions.pop() {
        for action in one.at(&question, &format!("b{}", question.id.0)) {
            match action {
                Action::Locate(question) => questions.push(question),
                Action::Open(ready) => {
                    opened += 1;
                    let sent = work(one.open(ready));
                    one.outcome(&sent, &EntryOutcome::Settled);
                    assert_eq!(one.queue.take(one.now, ready, 1), Take::Wait);
                    one.queue.handle_closed(one.now, ready, queue::CloseReason::Normal);
                }
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!((opened, one.queue.counts().ready_queues), (10_000, 10_000));
    for _ in 0..40 {
        one.later(SECOND * 60);
    }
    assert_eq!(one.queue.counts().ready_queues, 0, "unused ones are dropped");
}
