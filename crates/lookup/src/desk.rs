//! Queue of the lookups in one table. Equal keys share a request, a few requests are pending at once, and the rest
//! wait. If the server does not answer, lookups fail at once.
//!
//! The driver adds lookups with [`Coalescer::handle_question`], performs the requests from [`Coalescer::poll_request`],
//! reports their results, and distributes the answers from [`Coalescer::poll_answered`] after each of these calls.
//!
//! Keys of one client network are requested in order of arrival; networks take turns. A flood from other networks
//! delays a key by one round of those networks. If too many wait, the last lookup of the network with the most lookups
//! is rejected.

use super::breaker::{Breaker, is_silence};
use super::turns::{Holders, QuestionQueue, Requester};
use super::{Answers, Entry, LookupError, LookupErrorKind};
use mail::Mono;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Limits of a desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskLimits {
    /// Maximum number of pending requests.
    pub requests_max: usize,
    /// Keys in one request.
    pub batch_max: usize,
    /// Maximum number of unanswered lookups, including those with a pending request.
    pub waiting_max: usize,
    /// Timeout of a lookup, and of a request.
    pub timeout: Duration,
}

/// Identifies a lookup; chosen by its caller, unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Identifies a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// A request to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupRequest {
    /// For [`Coalescer::handle_answers`] or [`Coalescer::handle_silence`]: exactly one is called per request.
    pub id: RequestId,
    /// Each once.
    pub keys: Box<[Box<str>]>,
    /// Deadline of the request.
    pub until: Mono,
}

/// An answer to some questions. Of each question that was taken there is one, unless it was abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// The key.
    pub key: Box<str>,
    /// The waiting lookups. Empty if all have been abandoned: the answer is still worth caching.
    pub tickets: Vec<Ticket>,
    /// The answer.
    pub answer: Result<Option<Arc<Entry>>, LookupError>,
    /// Time of the request; [`Mono::NEVER`] without one.
    pub asked: Mono,
}

/// The questions for one table.
#[derive(Debug)]
pub struct Coalescer {
    limits: DeskLimits,
    breaker: Breaker,
    /// In order of arrival.
    questions: BTreeMap<u64, LookupQuestion>,
    /// Lookups that further ones may join.
    by_key: BTreeMap<Box<str>, u64>,
    /// Lookups not requested yet.
    waiting: QuestionQueue,
    holders: Holders<Ticket>,
    requests: BTreeMap<RequestId, UnderWay>,
    tickets: BTreeMap<Ticket, Waiter>,
    deadlines: BTreeSet<(Mono, Ticket)>,
    answered: VecDeque<Answered>,
    /// The key of a probe: the key that failed last, so that no key that breaks the server blocks all other keys.
    probe_key: String,
    next_number: u64,
}

/// A key with waiting lookups.
#[derive(Debug)]
struct LookupQuestion {
    key: Box<str>,
    tickets: BTreeSet<Ticket>,
    /// The requesters in turn for it. Empty: it was requested.
    waits_for: BTreeSet<Requester>,
}

#[derive(Debug)]
struct UnderWay {
    questions: Vec<u64>,
    asked: Mono,
    is_probe: bool,
}

#[derive(Debug)]
struct Waiter {
    question: u64,
    deadline: Mono,
    asker: Requester,
}

impl Coalescer {
    /// A desk without questions. Limits of 0 count as 1.
    #[must_use]
    pub fn new(limits: DeskLimits) -> Coalescer {
        let DeskLimits { requests_max, batch_max, waiting_max, timeout } = limits;
        let limits = DeskLimits {
            requests_max: requests_max.max(1),
            batch_max: batch_max.max(1),
            waiting_max: waiting_max.max(1),
            timeout,
        };
        Coalescer {
            limits,
            breaker: Breaker::default(),
            questions: BTreeMap::new(),
            by_key: BTreeMap::new(),
            waiting: QuestionQueue::default(),
            holders: Holders::default(),
            requests: BTreeMap::new(),
            tickets: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            answered: VecDeque::new(),
            probe_key: String::new(),
            next_number: 0,
        }
    }

    /// Adds a lookup for a requester; the answer comes back with its ticket.
    ///
    /// # Errors
    /// Fails at once while the server does not answer, or if too many lookups wait and no requester has more than this
    /// one.
    pub fn handle_question(
        &mut self,
        now: Mono,
        key: &str,
        (ticket, asker): (Ticket, Requester),
    ) -> Result<(), LookupError> {
        if let Some(trouble) = self.breaker.refusal() {
            let trouble = trouble.clone();
            self.remember_for_probe(key);
            return Err(trouble);
        }
        if self.tickets.len() >= self.limits.waiting_max {
            let text = format!("{} lookups already wait for the table", self.tickets.len());
            let busy = LookupError::new(LookupErrorKind::Busy, text);
            let Some(last) = self.holders.gives_way_to(asker) else { return Err(busy) };
            self.answer_alone(last, busy);
        }
        debug_assert!(!self.tickets.contains_key(&ticket), "a ticket is given once");
        let number = match self.by_key.get(key) {
            Some(number) => *number,
            None => {
                let number = self.add(key);
                self.by_key.insert(key.into(), number);
                if let Some(question) = self.questions.get_mut(&number) {
                    question.waits_for.insert(asker);
                }
                number
            }
        };
        if let Some(question) = self.questions.get_mut(&number) {
            question.tickets.insert(ticket);
            // A joining requester may bring its turn forward.
            if !question.waits_for.is_empty() {
                question.waits_for.insert(asker);
                self.waiting.insert(asker, number);
            }
        }
        let deadline = now + self.limits.timeout;
        self.holders.insert(asker, ticket);
        self.tickets.insert(ticket, Waiter { question: number, deadline, asker });
        self.deadlines.insert((deadline, ticket));
        Ok(())
    }

    fn add(&mut self, key: &str) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let (tickets, waits_for) = Default::default();
        self.questions.insert(number, LookupQuestion { key: key.into(), tickets, waits_for });
        number
    }

    fn remember_for_probe(&mut self, key: &str) {
        self.probe_key.clear();
        self.probe_key.push_str(key);
    }

    /// The next request to be made, if there is one and its turn has come.
    pub fn poll_request(&mut self, now: Mono) -> Option<LookupRequest> {
        if self.requests.len() >= self.limits.requests_max {
            return None;
        }
        let (questions, is_probe) = if self.breaker.probe_at() <= now {
            self.breaker.begin_probe();
            let key = std::mem::take(&mut self.probe_key);
            let number = self.add(&key);
            self.probe_key = key;
            (vec![number], true)
        } else {
            // While the breaker is open none waits.
            (self.take_turns(), false)
        };
        if questions.is_empty() {
            return None;
        }
        let key = |number: &u64| self.questions.get(number).map(|question| question.key.clone());
        let keys = questions.iter().filter_map(key).collect();
        let id = RequestId(self.next_number);
        self.next_number += 1;
        self.requests.insert(id, UnderWay { questions, asked: now, is_probe });
        Some(LookupRequest { id, keys, until: now + self.limits.timeout })
    }

    /// The questions of the next request, which wait no longer.
    fn take_turns(&mut self) -> Vec<u64> {
        let mut questions = Vec::new();
        while questions.len() < self.limits.batch_max
            && let Some(number) = self.waiting.take_turn()
        {
            self.stop_waiting(number);
            questions.push(number);
        }
        questions
    }

    /// Takes a question out of all lines.
    fn stop_waiting(&mut self, number: u64) {
        let Some(question) = self.questions.get_mut(&number) else { return };
        for asker in std::mem::take(&mut question.waits_for) {
            self.waiting.remove(asker, number);
        }
    }

    /// The server, or a substitute, has answered a request: one answer for each key.
    pub fn handle_answers(&mut self, now: Mono, id: RequestId, answers: Answers) {
        let Some(request) = self.requests.remove(&id) else { return };
        if answers.len() != request.questions.len() {
            // The answers cannot be assigned to keys.
            let (got, asked) = (answers.len(), request.questions.len());
            let text = format!("{got} answers for {asked} keys");
            return self.finish_alike(
                now,
                request,
                &LookupError::new(LookupErrorKind::Wrong, text),
            );
        }
        self.judge(now, &request, &answers);
        for (number, answer) in request.questions.into_iter().zip(answers) {
            self.finish(number, answer.map(|entry| entry.map(Arc::new)), request.asked);
        }
        self.turn_away();
    }

    /// A request timed out.
    pub fn handle_silence(&mut self, now: Mono, id: RequestId) {
        let Some(request) = self.requests.remove(&id) else { return };
        let seconds = self.limits.timeout.as_secs_f32();
        let text = format!("no reply from the server in {seconds} s");
        self.finish_alike(now, request, &LookupError::new(LookupErrorKind::Timeout, text));
    }

    fn finish_alike(&mut self, now: Mono, request: UnderWay, trouble: &LookupError) {
        self.judge(now, &request, &[Err(trouble.clone())]);
        for number in request.questions {
            self.finish(number, Err(trouble.clone()), request.asked);
        }
        self.turn_away();
    }

    /// Updates the breaker by the answers to a request.
    fn judge(
        &mut self,
        now: Mono,
        request: &UnderWay,
        answers: &[Result<Option<Entry>, LookupError>],
    ) {
        let is_answer = |answer: &Result<_, LookupError>| {
            answer.as_ref().map_or_else(|trouble| trouble.kind == LookupErrorKind::Key, |_| true)
        };
        if answers.iter().any(is_answer) {
            if self.is_silent() {
                self.requests.values_mut().for_each(|request| request.is_probe = false);
            }
            return self.breaker.handle_answer();
        }
        let mut silence = answers.iter().filter_map(|answer| answer.as_ref().err());
        let silence = silence.rfind(|trouble| is_silence(trouble)).cloned();
        let is_opened = self.breaker.handle_failure(now, silence, request.is_probe);
        let last = request.questions.last().and_then(|number| self.questions.get(number));
        if is_opened && let Some(question) = last {
            self.probe_key = question.key.to_string();
        }
    }

    /// Answers all lookups of a key.
    fn finish(
        &mut self,
        number: u64,
        answer: Result<Option<Arc<Entry>>, LookupError>,
        asked: Mono,
    ) {
        let Some(LookupQuestion { key, tickets, .. }) = self.remove(number) else { return };
        let tickets: Vec<Ticket> = tickets.into_iter().collect();
        for ticket in &tickets {
            if let Some(waiter) = self.tickets.remove(ticket) {
                self.deadlines.remove(&(waiter.deadline, *ticket));
                self.holders.remove(waiter.asker, *ticket);
            }
        }
        self.answered.push_back(Answered { key, tickets, answer, asked });
    }

    fn remove(&mut self, number: u64) -> Option<LookupQuestion> {
        self.stop_waiting(number);
        let question = self.questions.remove(&number)?;
        if self.by_key.get(&question.key) == Some(&number) {
            self.by_key.remove(&question.key);
        }
        Some(question)
    }

    /// While the breaker is open, waiting lookups get the same error as new ones.
    fn turn_away(&mut self) {
        while let Some(trouble) = self.breaker.refusal()
            && let Some(number) = self.waiting.take_turn()
        {
            let trouble = trouble.clone();
            self.finish(number, Err(trouble), Mono::NEVER);
        }
    }

    /// Nobody waits for the answer to a question any more.
    pub fn handle_abandoned(&mut self, ticket: Ticket) {
        self.take(ticket);
    }

    /// Removes a ticket. A pending request for its key continues, since its answer is still worth caching.
    fn take(&mut self, ticket: Ticket) -> Option<Box<str>> {
        let waiter = self.tickets.remove(&ticket)?;
        self.deadlines.remove(&(waiter.deadline, ticket));
        self.holders.remove(waiter.asker, ticket);
        let question = self.questions.get_mut(&waiter.question)?;
        question.tickets.remove(&ticket);
        let (is_wanted, asker) = (!question.tickets.is_empty(), waiter.asker);
        if !is_wanted && !question.waits_for.is_empty() {
            return self.remove(waiter.question).map(|question| question.key);
        }
        let key = question.key.clone();
        let tickets = question.tickets.iter();
        let mut askers = tickets.filter_map(|ticket| self.tickets.get(ticket)).map(|w| w.asker);
        if !askers.any(|other| other == asker) && question.waits_for.remove(&asker) {
            self.waiting.remove(asker, waiter.question);
        }
        Some(key)
    }

    /// Invalidates the answers for a key (`None`: for all). New lookups do not join a pending request.
    pub fn handle_forgotten(&mut self, key: Option<&str>) {
        let questions = &self.questions;
        let waits = |number: &u64| questions.get(number).is_some_and(|q| !q.waits_for.is_empty());
        self.by_key.retain(|known, number| waits(number) || key.is_some_and(|key| key != &**known));
    }

    /// Latest time for the next [`Coalescer::handle_timeout`] or [`Coalescer::poll_request`]; [`Mono::NEVER`] if only
    /// other events matter.
    #[must_use]
    pub fn poll_deadline(&self) -> Mono {
        let is_room = self.requests.len() < self.limits.requests_max;
        let probe_at = if is_room { self.breaker.probe_at() } else { Mono::NEVER };
        let first = self.deadlines.first().map_or(Mono::NEVER, |(deadline, _)| *deadline);
        first.min(probe_at)
    }

    /// Fails lookups that have timed out.
    pub fn handle_timeout(&mut self, now: Mono) {
        while self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
            let Some((_, ticket)) = self.deadlines.pop_first() else { return };
            let seconds = self.limits.timeout.as_secs_f32();
            let text = format!("no answer in {seconds} s");
            self.answer_alone(ticket, LookupError::new(LookupErrorKind::Timeout, text));
        }
    }

    /// Answers one lookup with an error.
    fn answer_alone(&mut self, ticket: Ticket, trouble: LookupError) {
        let Some(key) = self.take(ticket) else { return };
        let (tickets, answer) = (vec![ticket], Err(trouble));
        self.answered.push_back(Answered { key, tickets, answer, asked: Mono::NEVER });
    }

    /// Returns the next answer to distribute.
    pub fn poll_answered(&mut self) -> Option<Answered> {
        self.answered.pop_front()
    }

    /// The error of the last request; `None` after an answer.
    #[must_use]
    pub fn trouble(&self) -> Option<&LookupError> {
        self.breaker.trouble()
    }

    /// Returns true while the breaker is open; only probes are sent then.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.breaker.refusal().is_some()
    }

    /// Questions without an answer yet.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.tickets.len()
    }

    /// Number of keys not requested yet.
    #[must_use]
    pub fn crowd_count(&self) -> usize {
        let under_way = self.requests.values().map(|request| request.questions.len()).sum();
        self.questions.len().saturating_sub(under_way)
    }

    /// The site that has most questions, if it is a client's, and how many.
    #[must_use]
    pub fn most(&self) -> Option<(IpAddr, usize)> {
        let (site, count) = self.holders.most()?;
        Some((site?, count))
    }

    /// Number of pending requests.
    #[must_use]
    pub fn requests_count(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests;
