//! The desk at which questions for one table line up: equal keys share a request, a few requests are
//! under way at once, the others wait, and nobody waits for a server that does not answer.
//!
//! Whoever drives it puts questions in with [`Coalescer::handle_question`], makes the requests that
//! [`Coalescer::poll_request`] gives, says what came of them, and hands out what [`Coalescer::poll_answered`] gives
//! after each of that.
//!
//! Keys of one client network are asked for in the order in which they came; networks take turns. A flood of others
//! delays a key by one round of those networks. When too many wait, the last question gives way of whoever has most.

use super::breaker::{Breaker, is_silence};
use super::turns::{Holders, QuestionQueue, Requester};
use super::{Answers, Entry, LookupError, LookupErrorKind};
use mail::Mono;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// What a desk is held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeskLimits {
    /// Requests under way at once.
    pub requests_max: usize,
    /// Keys in one request.
    pub batch_max: usize,
    /// Questions without an answer yet, those whose key is being asked for included.
    pub waiting_max: usize,
    /// How long a question waits for its answer, and how long a request may take.
    pub timeout: Duration,
}

/// The name of a question, given by who asks it; no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// The name of a request, given by the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(u64);

/// What a server is to be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupRequest {
    /// For [`Coalescer::handle_answers`] or [`Coalescer::handle_silence`]: one of them is called for each.
    pub id: RequestId,
    /// Each once.
    pub keys: Box<[Box<str>]>,
    /// When it is to be given up.
    pub until: Mono,
}

/// An answer to some questions. Of each question that was taken there is one, unless it was abandoned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered {
    /// What was asked for.
    pub key: Box<str>,
    /// Who asked. Nobody is left where all have stopped waiting: the answer is still worth keeping.
    pub tickets: Vec<Ticket>,
    /// What is answered.
    pub answer: Result<Option<Arc<Entry>>, LookupError>,
    /// When the server was asked; [`Mono::NEVER`] where it was not.
    pub asked: Mono,
}

/// The questions for one table.
#[derive(Debug)]
pub struct Coalescer {
    limits: DeskLimits,
    breaker: Breaker,
    /// By the order in which they came.
    questions: BTreeMap<u64, LookupQuestion>,
    /// Questions that others may join.
    by_key: BTreeMap<Box<str>, u64>,
    /// Questions whose turn has not come.
    waiting: QuestionQueue,
    holders: Holders<Ticket>,
    requests: BTreeMap<RequestId, UnderWay>,
    tickets: BTreeMap<Ticket, Waiter>,
    deadlines: BTreeSet<(Mono, Ticket)>,
    answered: VecDeque<Answered>,
    /// What a probe asks for: the key that was refused last, so that no key by which a server chokes
    /// keeps all others away.
    probe_key: String,
    next_number: u64,
}

/// A key that somebody wants to know about.
#[derive(Debug)]
struct LookupQuestion {
    key: Box<str>,
    tickets: BTreeSet<Ticket>,
    /// In whose line it waits. Empty: its turn has come.
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

    /// Takes a question that is asked for somebody, whose ticket then comes back with an answer.
    ///
    /// # Errors
    /// At once, while the server does not answer, or too many wait already of whom none has more.
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
            let text = format!("{} questions wait for the table already", self.tickets.len());
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
            // Whoever joins it has it asked in its own turn, if that comes first.
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

    /// The server has answered a request, or somebody in its place: one answer for each key.
    pub fn handle_answers(&mut self, now: Mono, id: RequestId, answers: Answers) {
        let Some(request) = self.requests.remove(&id) else { return };
        if answers.len() != request.questions.len() {
            // Which belongs to which key, nobody can tell.
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

    /// A request was given up at its end.
    pub fn handle_silence(&mut self, now: Mono, id: RequestId) {
        let Some(request) = self.requests.remove(&id) else { return };
        let seconds = self.limits.timeout.as_secs_f32();
        let text = format!("the server gave no answer in {seconds} s");
        self.finish_alike(now, request, &LookupError::new(LookupErrorKind::Timeout, text));
    }

    fn finish_alike(&mut self, now: Mono, request: UnderWay, trouble: &LookupError) {
        self.judge(now, &request, &[Err(trouble.clone())]);
        for number in request.questions {
            self.finish(number, Err(trouble.clone()), request.asked);
        }
        self.turn_away();
    }

    /// What the answers to a request say of the server.
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

    /// Answers whoever asked for the key of a question.
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

    /// Once the breaker is open those that wait for their turn get what those get that come now.
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

    /// Takes a ticket back. What is asked for without it, and under way, is worth knowing still.
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

    /// What was said of a key (`None`: of all) counts no more: whoever asks from now on does not join a
    /// request that is under way.
    pub fn handle_forgotten(&mut self, key: Option<&str>) {
        let questions = &self.questions;
        let waits = |number: &u64| questions.get(number).is_some_and(|q| !q.waits_for.is_empty());
        self.by_key.retain(|known, number| waits(number) || key.is_some_and(|key| key != &**known));
    }

    /// When [`Coalescer::handle_timeout`] or [`Coalescer::poll_request`] has something to do at the latest;
    /// [`Mono::NEVER`]: not before something else happens.
    #[must_use]
    pub fn poll_deadline(&self) -> Mono {
        let is_room = self.requests.len() < self.limits.requests_max;
        let probe_at = if is_room { self.breaker.probe_at() } else { Mono::NEVER };
        let first = self.deadlines.first().map_or(Mono::NEVER, |(deadline, _)| *deadline);
        first.min(probe_at)
    }

    /// Answers those that have waited for too long.
    pub fn handle_timeout(&mut self, now: Mono) {
        while self.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now) {
            let Some((_, ticket)) = self.deadlines.pop_first() else { return };
            let seconds = self.limits.timeout.as_secs_f32();
            let text = format!("no answer in {seconds} s");
            self.answer_alone(ticket, LookupError::new(LookupErrorKind::Timeout, text));
        }
    }

    /// One of those who ask waits no longer.
    fn answer_alone(&mut self, ticket: Ticket, trouble: LookupError) {
        let Some(key) = self.take(ticket) else { return };
        let (tickets, answer) = (vec![ticket], Err(trouble));
        self.answered.push_back(Answered { key, tickets, answer, asked: Mono::NEVER });
    }

    /// The next answer that is to be handed out.
    pub fn poll_answered(&mut self) -> Option<Answered> {
        self.answered.pop_front()
    }

    /// Why the last request had no answer; `None` once one has.
    #[must_use]
    pub fn trouble(&self) -> Option<&LookupError> {
        self.breaker.trouble()
    }

    /// Whether the server is left alone, but for a probe now and then.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.breaker.refusal().is_some()
    }

    /// Questions without an answer yet.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.tickets.len()
    }

    /// Questions whose turn has not come.
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

    /// Requests under way.
    #[must_use]
    pub fn requests_count(&self) -> usize {
        self.requests.len()
    }
}

#[cfg(test)]
mod tests;
