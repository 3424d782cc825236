mod turns;

use super::*;
use crate::breaker::{FAILURES_MAX, PAUSE_FIRST};
use proptest::prelude::*;

const TIMEOUT: Duration = Duration::from_secs(20);
const US: Duration = Duration::from_micros(1);

fn desk(requests_max: usize, batch_max: usize, waiting_max: usize) -> Coalescer {
    Coalescer::new(DeskLimits { requests_max, batch_max, waiting_max, timeout: TIMEOUT })
}

fn trouble(kind: LookupErrorKind) -> LookupError {
    LookupError::new(kind, format!("{kind:?}"))
}

fn keys(request: &LookupRequest) -> Vec<&str> {
    request.keys.iter().map(|key| &**key).collect()
}

fn drain(desk: &mut Coalescer) -> Vec<Answered> {
    std::iter::from_fn(|| desk.poll_answered()).collect()
}

/// Asks until the desk takes the server to be silent; the last key is `last`.
fn silence(desk: &mut Coalescer, now: Mono, last: &str) {
    for n in 1..=FAILURES_MAX {
        let key = if n == FAILURES_MAX { last.to_owned() } else { format!("dead{n}") };
        desk.handle_question(now, &key, (Ticket(1_000_000 + u64::from(n)), Requester::Ours))
            .unwrap();
        let request = desk.poll_request(now).unwrap();
        let dead = Err(trouble(LookupErrorKind::Unreachable));
        desk.handle_answers(now, request.id, vec![dead; request.keys.len()]);
        assert_eq!(desk.is_silent(), n == FAILURES_MAX);
    }
    drain(desk);
}

#[test]
fn ten_thousand_equal_keys_are_one_request() {
    let mut desk = desk(16, 8, 10_000);
    for n in 0..10_000 {
        assert_eq!(desk.handle_question(Mono(n), "a", (Ticket(n), Requester::Ours)), Ok(()));
    }
    let busy = desk.handle_question(Mono(1), "a", (Ticket(10_000), Requester::Ours)).unwrap_err();
    assert_eq!(busy.kind, LookupErrorKind::Busy);
    let request = desk.poll_request(Mono(10_000)).unwrap();
    assert_eq!((keys(&request), desk.poll_request(Mono(10_000))), (vec!["a"], None));
    desk.handle_answers(Mono(20_000), request.id, vec![Ok(Some(Entry::text("x")))]);
    let answered = drain(&mut desk);
    assert_eq!(answered.len(), 1);
    assert!(answered[0].tickets.iter().copied().eq((0..10_000).map(Ticket)));
    assert_eq!(answered[0].answer, Ok(Some(Arc::new(Entry::text("x")))));
    assert_eq!(answered[0].asked, Mono(10_000));
    assert_eq!((desk.waiting_count(), desk.poll_deadline()), (0, Mono::NEVER));
}

#[test]
fn requests_and_batches_are_bounded_and_first_come_is_first_asked() {
    let mut desk = desk(2, 3, 100);
    for n in 0..10_u64 {
        desk.handle_question(Mono(0), &n.to_string(), (Ticket(n), Requester::Ours)).unwrap();
    }
    let one = desk.poll_request(Mono(1)).unwrap();
    let two = desk.poll_request(Mono(1)).unwrap();
    assert_eq!((keys(&one), keys(&two)), (vec!["0", "1", "2"], vec!["3", "4", "5"]));
    assert_eq!(desk.poll_request(Mono(1)), None, "two are under way");
    // Whoever asks for a key that is under way waits for that, not for a turn.
    desk.handle_question(Mono(2), "4", (Ticket(10), Requester::Ours)).unwrap();
    desk.handle_answers(Mono(3), two.id, vec![Ok(None); 3]);
    let tickets: Vec<u64> =
        drain(&mut desk).iter().flat_map(|a| &a.tickets).map(|ticket| ticket.0).collect();
    assert_eq!(tickets, [3, 4, 10, 5]);
    let three = desk.poll_request(Mono(4)).unwrap();
    assert_eq!(keys(&three), ["6", "7", "8"]);
    assert_eq!(desk.requests_count(), 2);
    // Answers to a request that is done with change nothing.
    desk.handle_answers(Mono(5), two.id, vec![Ok(None); 3]);
    desk.handle_silence(Mono(5), two.id);
    assert_eq!((desk.poll_answered(), desk.waiting_count()), (None, 7));
}

#[test]
fn limits_of_nothing_count_as_one() {
    let mut desk = desk(0, 0, 0);
    assert_eq!(desk.handle_question(Mono(0), "a", (Ticket(0), Requester::Ours)), Ok(()));
    assert!(desk.handle_question(Mono(0), "b", (Ticket(1), Requester::Ours)).is_err());
    assert_eq!(desk.poll_request(Mono(0)).map(|request| request.keys.len()), Some(1));
}

#[test]
fn each_question_waits_for_so_long_and_no_longer() {
    let mut desk = desk(1, 1, 10);
    desk.handle_question(Mono(0), "a", (Ticket(0), Requester::Ours)).unwrap();
    let request = desk.poll_request(Mono(5)).unwrap();
    assert_eq!(request.until, Mono(5) + TIMEOUT);
    desk.handle_question(Mono(7), "b", (Ticket(1), Requester::Ours)).unwrap();
    desk.handle_question(Mono(9), "a", (Ticket(2), Requester::Ours)).unwrap();
    assert_eq!(desk.poll_deadline(), Mono(0) + TIMEOUT);
    desk.handle_timeout(Mono(0) + TIMEOUT - US);
    assert_eq!(desk.poll_answered(), None);
    desk.handle_timeout(Mono(0) + TIMEOUT);
    let answered = desk.poll_answered().unwrap();
    assert_eq!(answered.tickets, [Ticket(0)]);
    assert_eq!(answered.answer.unwrap_err().kind, LookupErrorKind::Timeout);
    desk.handle_timeout(Mono(8) + TIMEOUT);
    assert_eq!(desk.poll_answered().map(|answered| answered.tickets), Some(vec![Ticket(1)]));
    // Who waited in vain for a turn says nothing about the server.
    assert_eq!(desk.trouble(), None);
    desk.handle_answers(Mono(8) + TIMEOUT, request.id, vec![Ok(None)]);
    assert_eq!(desk.poll_answered().map(|answered| answered.tickets), Some(vec![Ticket(2)]));
    assert_eq!(desk.poll_request(Mono(9) + TIMEOUT), None, "nobody waits for \"b\"");
}

#[test]
fn an_answer_that_comes_too_late_for_all_is_still_given_to_be_kept() {
    let mut desk = desk(1, 1, 10);
    desk.handle_question(Mono(0), "a", (Ticket(0), Requester::Ours)).unwrap();
    let request = desk.poll_request(Mono(5)).unwrap();
    desk.handle_abandoned(Ticket(0));
    desk.handle_abandoned(Ticket(0));
    assert_eq!((desk.waiting_count(), desk.requests_count()), (0, 1));
    desk.handle_question(Mono(6), "b", (Ticket(1), Requester::Ours)).unwrap();
    desk.handle_abandoned(Ticket(1));
    desk.handle_answers(Mono(7), request.id, vec![Ok(None)]);
    let answered = desk.poll_answered().unwrap();
    assert_eq!((&*answered.key, answered.tickets.len(), answered.answer), ("a", 0, Ok(None)));
    assert_eq!(desk.poll_request(Mono(8)), None, "nobody wants to know of \"b\"");
}

#[test]
fn one_who_stops_waiting_takes_nothing_from_the_others() {
    let mut desk = desk(1, 1, 10);
    for n in 0..3 {
        desk.handle_question(Mono(0), "a", (Ticket(n), Requester::Ours)).unwrap();
    }
    desk.handle_abandoned(Ticket(0));
    let request = desk.poll_request(Mono(1)).unwrap();
    desk.handle_abandoned(Ticket(2));
    desk.handle_answers(Mono(2), request.id, vec![Ok(None)]);
    assert_eq!(desk.poll_answered().map(|answered| answered.tickets), Some(vec![Ticket(1)]));
}

#[test]
fn half_an_answer_is_none() {
    for count in [0, 1, 3] {
        let mut desk = desk(1, 2, 10);
        desk.handle_question(Mono(0), "a", (Ticket(0), Requester::Ours)).unwrap();
        desk.handle_question(Mono(0), "b", (Ticket(1), Requester::Ours)).unwrap();
        let request = desk.poll_request(Mono(0)).unwrap();
        desk.handle_answers(Mono(1), request.id, vec![Ok(None); count]);
        for answered in drain(&mut desk) {
            let trouble = answered.answer.unwrap_err();
            assert_eq!(trouble.kind, LookupErrorKind::Wrong);
            assert_eq!(&*trouble.text, format!("{count} answers for 2 keys"));
        }
        assert_eq!(desk.trouble().map(|trouble| trouble.kind), Some(LookupErrorKind::Wrong));
    }
}

#[test]
fn a_key_with_an_odd_answer_or_a_busy_pool_is_no_silence() {
    let mut desk = desk(1, 1, 10);
    for (n, kind) in (0..).zip([LookupErrorKind::Key, LookupErrorKind::Busy].repeat(50)) {
        desk.handle_question(Mono(0), "a", (Ticket(n), Requester::Ours)).unwrap();
        let request = desk.poll_request(Mono(0)).unwrap();
        desk.handle_answers(Mono(0), request.id, vec![Err(trouble(kind))]);
        assert_eq!(desk.poll_answered().map(|answered| answered.answer), Some(Err(trouble(kind))));
        assert_eq!((desk.is_silent(), desk.trouble()), (false, None));
    }
}

#[test]
fn nobody_waits_for_a_server_that_is_silent() {
    let mut desk = desk(3, 1, 10);
    let now = Mono(1_000);
    desk.handle_question(now, "hangs", (Ticket(0), Requester::Ours)).unwrap();
    let hangs = desk.poll_request(now).unwrap();
    for n in 1..5_u64 {
        desk.handle_question(now, &format!("k{n}"), (Ticket(n), Requester::Ours)).unwrap();
    }
    for _ in 0..FAILURES_MAX {
        if let Some(request) = desk.poll_request(now) {
            desk.handle_answers(now, request.id, vec![Err(trouble(LookupErrorKind::Wrong))]);
        }
    }
    assert!(!desk.is_silent(), "four have failed");
    desk.handle_question(now, "k5", (Ticket(5), Requester::Ours)).unwrap();
    let last = desk.poll_request(now).unwrap();
    desk.handle_question(now, "k6", (Ticket(6), Requester::Ours)).unwrap();
    desk.handle_question(now, "k7", (Ticket(7), Requester::Ours)).unwrap();
    drain(&mut desk);
    desk.handle_answers(now, last.id, vec![Err(trouble(LookupErrorKind::Wrong))]);
    let tickets: Vec<Ticket> = drain(&mut desk).into_iter().flat_map(|a| a.tickets).collect();
    assert_eq!(tickets, [5, 6, 7].map(Ticket), "those who waited are told at once");
    let refused = desk.handle_question(now, "hangs", (Ticket(8), Requester::Ours)).unwrap_err();
    assert_eq!(refused, trouble(LookupErrorKind::Wrong));
    // An answer to what was asked before ends it as well.
    desk.handle_answers(now, hangs.id, vec![Ok(None)]);
    assert_eq!((desk.is_silent(), desk.trouble()), (false, None));
    assert_eq!(desk.handle_question(now, "k8", (Ticket(9), Requester::Ours)), Ok(()));
}

#[test]
fn one_probe_goes_out_by_itself_with_the_key_that_was_refused_last() {
    let mut desk = desk(4, 8, 10);
    let now = Mono(0);
    silence(&mut desk, now, "last");
    let due = now + PAUSE_FIRST;
    assert_eq!((desk.poll_deadline(), desk.poll_request(due - US)), (due, None));
    let probe = desk.poll_request(due).unwrap();
    assert_eq!(keys(&probe), ["last"], "nobody has asked since");
    assert_eq!((desk.poll_request(due), desk.poll_deadline()), (None, Mono::NEVER));
    for (n, key) in (0..).zip(["poison", "a", "b"]) {
        let refused = desk.handle_question(due, key, (Ticket(n), Requester::Ours));
        assert!(refused.is_err(), "half open is not open");
    }
    desk.handle_silence(due, probe.id);
    assert_eq!(desk.poll_answered().map(|answered| answered.tickets), Some(vec![]));
    let due = due + PAUSE_FIRST * 2;
    assert_eq!(desk.poll_deadline(), due);
    let probe = desk.poll_request(due).unwrap();
    assert_eq!(keys(&probe), ["b"]);
    desk.handle_answers(due, probe.id, vec![Ok(Some(Entry::text("x")))]);
    let kept = desk.poll_answered().unwrap();
    assert_eq!((&*kept.key, kept.tickets.len(), kept.asked), ("b", 0, due));
    assert_eq!(desk.handle_question(due, "c", (Ticket(9), Requester::Ours)), Ok(()));
    assert_eq!(desk.poll_request(due).map(|request| request.keys.len()), Some(1));
}

#[test]
fn a_probe_waits_for_room_without_a_deadline_that_has_passed() {
    let mut desk = desk(1, 1, 100);
    let now = Mono(0);
    silence(&mut desk, now, "x");
    let due = now + PAUSE_FIRST;
    let probe = desk.poll_request(due).unwrap();
    assert_eq!((desk.poll_request(due), desk.poll_deadline()), (None, Mono::NEVER));
    desk.handle_answers(due, probe.id, vec![Err(trouble(LookupErrorKind::Busy))]);
    assert_eq!(desk.poll_deadline(), due + PAUSE_FIRST, "nothing was found out");
    assert!(desk.is_silent());
}

#[test]
fn a_probe_of_an_earlier_silence_is_none_of_the_next() {
    let mut desk = desk(9, 1, 100);
    desk.handle_question(Mono(0), "hangs", (Ticket(0), Requester::Ours)).unwrap();
    let hangs = desk.poll_request(Mono(0)).unwrap();
    silence(&mut desk, Mono(0), "x");
    let now = Mono(0) + PAUSE_FIRST;
    let probe = desk.poll_request(now).unwrap();
    desk.handle_answers(now, hangs.id, vec![Ok(None)]);
    silence(&mut desk, now, "y");
    let deadline = desk.poll_deadline();
    desk.handle_silence(now + US, probe.id);
    assert_eq!(desk.poll_deadline(), deadline);
}

#[test]
fn who_asks_after_a_flush_gets_an_answer_from_after_it() {
    let mut desk = desk(4, 1, 10);
    for (n, key) in (0..).zip(["a", "b"]) {
        desk.handle_question(Mono(0), key, (Ticket(n), Requester::Ours)).unwrap();
    }
    let old = [desk.poll_request(Mono(0)).unwrap(), desk.poll_request(Mono(0)).unwrap()];
    desk.handle_question(Mono(0), "c", (Ticket(2), Requester::Ours)).unwrap();
    desk.handle_forgotten(Some("a"));
    for (n, key) in (3..).zip(["a", "b", "c"]) {
        desk.handle_question(Mono(1), key, (Ticket(n), Requester::Ours)).unwrap();
    }
    let third = desk.poll_request(Mono(1)).unwrap();
    let fourth = desk.poll_request(Mono(1)).unwrap();
    assert_eq!((keys(&third), keys(&fourth)), (vec!["c"], vec!["a"]));
    for request in &old {
        desk.handle_answers(Mono(2), request.id, vec![Ok(None)]);
    }
    let tickets: Vec<Vec<Ticket>> = drain(&mut desk).into_iter().map(|a| a.tickets).collect();
    assert_eq!(tickets, [vec![Ticket(0)], vec![Ticket(1), Ticket(4)]]);
    desk.handle_forgotten(None);
    desk.handle_question(Mono(3), "a", (Ticket(6), Requester::Ours)).unwrap();
    assert_eq!(desk.poll_request(Mono(3)).map(|request| request.keys), Some(["a".into()].into()));
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u8),
    Take,
    Answer(usize, Vec<u8>),
    Silence(usize),
    Abandon(usize),
    Forget(Option<u8>),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let what = prop_oneof![4 => 0..2_u8, 3 => Just(3_u8), 1 => 2..6_u8];
    prop_oneof![
        20 => (0..12_u8).prop_map(Step::Ask),
        10 => Just(Step::Take),
        10 => (any::<usize>(), prop::collection::vec(what, 4))
            .prop_map(|(which, what)| Step::Answer(which, what)),
        2 => any::<usize>().prop_map(Step::Silence),
        3 => any::<usize>().prop_map(Step::Abandon),
        1 => prop::option::of(0..12_u8).prop_map(Step::Forget),
        6 => (0..3_000_u64).prop_map(Step::Wait),
    ]
}

/// The answer of a server to a key; the last two are no answers of one.
fn answer_of(key: &str, what: u8) -> Result<Option<Entry>, LookupError> {
    match what {
        0 => Ok(Some(Entry::text(key))),
        1 => Ok(None),
        2 => Err(trouble(LookupErrorKind::Key)),
        3 => Err(trouble(LookupErrorKind::Unreachable)),
        4 => Err(trouble(LookupErrorKind::Busy)),
        _ => Err(trouble(LookupErrorKind::Wrong)),
    }
}

/// What a desk must do, written down without any cleverness.
struct Model {
    desk: Coalescer,
    now: Mono,
    next_ticket: u64,
    /// Those who wait: the key, the request that asks for it, and when they give up.
    open: BTreeMap<Ticket, (String, Option<RequestId>, Mono)>,
    /// Keys whose turn has not come.
    line: Vec<String>,
    /// Keys under way that may be joined.
    joinable: BTreeMap<String, RequestId>,
    under_way: Vec<LookupRequest>,
    failures: u32,
    is_silent: bool,
}

impl Model {
    fn new(limits: DeskLimits) -> Model {
        Model {
            desk: Coalescer::new(limits),
            now: Mono(0),
            next_ticket: 0,
            open: BTreeMap::new(),
            line: Vec::new(),
            joinable: BTreeMap::new(),
            under_way: Vec::new(),
            failures: 0,
            is_silent: false,
        }
    }

    fn ask(&mut self, key: &str) {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        match self.desk.handle_question(self.now, key, (ticket, Requester::Ours)) {
            Err(trouble) if trouble.kind == LookupErrorKind::Busy && !self.is_silent => {
                assert_eq!(self.open.len(), self.desk.limits.waiting_max);
            }
            Err(_) => assert!(self.is_silent),
            Ok(()) => {
                assert!(!self.is_silent && self.open.len() < self.desk.limits.waiting_max);
                let request = self.joinable.get(key).copied();
                if request.is_none() && !self.line.iter().any(|known| known == key) {
                    self.line.push(key.to_owned());
                }
                let deadline = self.now + self.desk.limits.timeout;
                self.open.insert(ticket, (key.to_owned(), request, deadline));
            }
        }
    }

    fn take(&mut self) -> bool {
        let Some(request) = self.desk.poll_request(self.now) else {
            let is_full = self.under_way.len() == self.desk.limits.requests_max;
            assert!(is_full || self.line.is_empty(), "a turn was missed");
            return false;
        };
        assert_eq!(request.until, self.now + self.desk.limits.timeout);
        if self.is_silent {
            assert_eq!(request.keys.len(), 1, "a probe");
        } else {
            let count = self.line.len().min(self.desk.limits.batch_max);
            let due: Vec<String> = self.line.drain(..count).collect();
            assert!(request.keys.iter().map(|key| &**key).eq(&due), "out of turn");
            for key in due {
                for (known, asked_by, _) in self.open.values_mut() {
                    if *known == key && asked_by.is_none() {
                        *asked_by = Some(request.id);
                    }
                }
                let other = self.joinable.insert(key, request.id);
                assert_eq!(other, None, "asked for twice");
            }
        }
        self.under_way.push(request);
        true
    }

    fn answer(&mut self, which: usize, what: &[u8]) {
        if self.under_way.is_empty() {
            return;
        }
        let request = self.under_way.swap_remove(which % self.under_way.len());
        let kinds = what.iter().cycle();
        let answers: Answers =
            request.keys.iter().zip(kinds).map(|(key, what)| answer_of(key, *what)).collect();
        self.judge(&answers);
        self.desk.handle_answers(self.now, request.id, answers.clone());
        for (key, answer) in request.keys.iter().zip(answers) {
            let answered = self.next_answered();
            assert_eq!(&answered.key, key);
            assert_eq!(answered.answer, answer.map(|entry| entry.map(Arc::new)));
            self.close(&answered, Some(request.id));
        }
        self.expect_turned_away();
    }

    fn silence(&mut self, request: &LookupRequest) {
        let silence = Err(trouble(LookupErrorKind::Timeout));
        self.judge(std::slice::from_ref(&silence));
        self.desk.handle_silence(self.now, request.id);
        for key in &request.keys {
            let answered = self.next_answered();
            assert_eq!(&answered.key, key);
            assert_eq!(answered.answer.as_ref().unwrap_err().kind, LookupErrorKind::Timeout);
            self.close(&answered, Some(request.id));
        }
        self.expect_turned_away();
    }

    fn judge(&mut self, answers: &[Result<Option<Entry>, LookupError>]) {
        let kinds = answers.iter().map(|answer| answer.as_ref().err().map(|t| t.kind));
        let kinds: Vec<Option<LookupErrorKind>> = kinds.collect();
        if kinds.contains(&None) || kinds.contains(&Some(LookupErrorKind::Key)) {
            (self.failures, self.is_silent) = (0, false);
        } else if kinds.iter().any(|kind| *kind != Some(LookupErrorKind::Busy)) {
            self.failures += 1;
            self.is_silent |= self.failures >= FAILURES_MAX;
        }
    }

    fn next_answered(&mut self) -> Answered {
        self.desk.poll_answered().expect("an answer")
    }

    /// Exactly those who wait for this key, with this request, got the answer.
    fn close(&mut self, answered: &Answered, request: Option<RequestId>) {
        let waiting = self
            .open
            .iter()
            .filter(|(_, (key, asked_by, _))| **key == *answered.key && *asked_by == request);
        let waiting: Vec<Ticket> = waiting.map(|(ticket, _)| *ticket).collect();
        assert_eq!(answered.tickets, waiting);
        for ticket in waiting {
            self.open.remove(&ticket);
        }
        self.joinable.retain(|key, id| **key != *answered.key || Some(*id) != request);
    }

    fn expect_turned_away(&mut self) {
        if self.is_silent {
            for key in std::mem::take(&mut self.line) {
                let answered = self.next_answered();
                assert_eq!(*answered.key, key);
                assert!(answered.answer.is_err());
                self.close(&answered, None);
            }
        }
    }

    /// A key for which nobody waits any more has no turn.
    fn leave(&mut self, ticket: Ticket) {
        if let Some((key, None, _)) = self.open.remove(&ticket)
            && !self.open.values().any(|(other, by, _)| *other == key && by.is_none())
        {
            self.line.retain(|known| *known != key);
        }
    }

    fn wait(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.desk.handle_timeout(self.now);
        let late = self.open.iter().filter(|(_, (_, _, deadline))| *deadline <= self.now);
        let mut late: Vec<(Mono, Ticket)> =
            late.map(|(ticket, (_, _, deadline))| (*deadline, *ticket)).collect();
        late.sort_unstable();
        for (_, ticket) in late {
            let answered = self.next_answered();
            assert_eq!(answered.tickets, [ticket]);
            assert_eq!(answered.answer.unwrap_err().kind, LookupErrorKind::Timeout);
            self.leave(ticket);
        }
        let (over, rest) = std::mem::take(&mut self.under_way)
            .into_iter()
            .partition(|request| request.until <= self.now);
        self.under_way = rest;
        let over: Vec<LookupRequest> = over;
        for request in over {
            self.silence(&request);
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Ask(key) => self.ask(&key.to_string()),
            Step::Take => drop(self.take()),
            Step::Answer(which, what) => self.answer(which, &what),
            Step::Silence(which) if !self.under_way.is_empty() => {
                let request = self.under_way.swap_remove(which % self.under_way.len());
                self.silence(&request);
            }
            Step::Silence(_) => {}
            Step::Abandon(which) => {
                let ticket = Ticket(which as u64 % self.next_ticket.max(1));
                self.desk.handle_abandoned(ticket);
                self.leave(ticket);
            }
            Step::Forget(key) => {
                let key = key.map(|key| key.to_string());
                self.desk.handle_forgotten(key.as_deref());
                self.joinable.retain(|known, _| key.as_ref().is_some_and(|key| key != known));
            }
            Step::Wait(ms) => self.wait(ms),
        }
        self.check();
    }

    fn check(&mut self) {
        assert_eq!(self.desk.poll_answered(), None, "an answer that nobody expects");
        let limits = self.desk.limits;
        assert_eq!(self.desk.waiting_count(), self.open.len());
        assert_eq!(self.desk.requests_count(), self.under_way.len());
        assert!(self.open.len() <= limits.waiting_max);
        assert!(self.under_way.len() <= limits.requests_max);
        assert!(self.under_way.iter().all(|request| request.keys.len() <= limits.batch_max));
        assert_eq!(self.desk.is_silent(), self.is_silent);
        let first = self.open.values().map(|(_, _, deadline)| *deadline).min();
        assert!(self.desk.poll_deadline() <= first.unwrap_or(Mono::NEVER));
        assert_eq!(self.desk.crowd_count(), self.line.len());
    }

    /// Everything comes to an end.
    fn finish(mut self) {
        while !self.open.is_empty() || !self.under_way.is_empty() {
            while self.take() {}
            self.answer(0, &[0]);
            self.check();
        }
        let desk = &self.desk;
        assert!(desk.questions.is_empty() && desk.by_key.is_empty() && desk.most().is_none());
        assert!(desk.tickets.is_empty() && desk.deadlines.is_empty() && desk.requests.is_empty());
    }
}

proptest! {
    #[test]
    fn no_question_is_lost_or_answered_twice(
        steps in prop::collection::vec(step(), 1..300),
        (requests_max, batch_max, waiting_max) in (1..4_usize, 1..4_usize, 1..12_usize),
    ) {
        let timeout = Duration::from_secs(10);
        let limits = DeskLimits { requests_max, batch_max, waiting_max, timeout };
        let mut model = Model::new(limits);
        for step in steps {
            model.step(step);
        }
        model.finish();
    }
}
