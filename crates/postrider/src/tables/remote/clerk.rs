//! Worker of one remote table: coalesces lookups of all shards, queries the server, and caches and distributes the
//! answers.

use super::shared::{RemoteAnswer, RemoteTableShared};
use crate::mutex::lock;
use crate::world::clock::{Clock, seed_of, wall_now};
use lookup::{
    Answers, Backend, Cached, Coalescer, DeskLimits, Judgement, LookupError, LookupRequest,
    RequestId, Requester, Ticket,
};
use mta::alarm::Alarm;
use mta::console::{self, Console};
use mta::pressure::Level;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

/// Maximum number of commands per batch; lookups in a batch may share requests.
const NOTES_MAX: usize = 256;

/// Commands of shards to the worker.
#[derive(Debug)]
pub(super) enum TableWorkerCommand {
    /// A question.
    Ask { key: Box<str>, ticket: Ticket, asker: Requester, answer: oneshot::Sender<RemoteAnswer> },
    /// The lookup was abandoned.
    Abandon(Ticket),
    /// The answer for this key, or for all keys, is no longer valid.
    Forget(Option<Box<str>>),
}

/// The result of a request; `None` if it was abandoned.
type RequestCompletion = (RequestId, Option<Answers>);

/// The clerk of one table.
pub(super) struct TableWorker {
    shared: Arc<RemoteTableShared>,
    backend: Rc<dyn Backend>,
    console: Arc<dyn Console + Send + Sync>,
    desk: Coalescer,
    requests_max: u64,
    clock: Clock,
    waiters: BTreeMap<Ticket, oneshot::Sender<RemoteAnswer>>,
    requests: JoinSet<RequestCompletion>,
    /// Negative answers were in doubt at the last check.
    was_doubted: bool,
}

impl TableWorker {
    pub(super) fn new(
        shared: Arc<RemoteTableShared>,
        backend: Rc<dyn Backend>,
        limits: DeskLimits,
        console: Arc<dyn Console + Send + Sync>,
    ) -> TableWorker {
        let clock = Clock::new(shared.started, seed_of(0));
        TableWorker {
            shared,
            backend,
            console,
            desk: Coalescer::new(limits),
            requests_max: limits.requests_max as u64,
            clock,
            waiters: BTreeMap::new(),
            requests: JoinSet::new(),
            was_doubted: false,
        }
    }

    /// Works until every handle of the table is gone.
    pub(super) async fn run(mut self, mut notes: mpsc::UnboundedReceiver<TableWorkerCommand>) {
        let mut taken = Vec::with_capacity(NOTES_MAX);
        let mut alarm = Alarm::new(self.clock.clone());
        loop {
            self.desk.handle_timeout(self.shared.now());
            self.make_requests();
            // Publish the status before the answers that it belongs to.
            self.show();
            self.hand_out();
            let deadline = self.desk.poll_deadline();
            tokio::select! {
                biased;
                Some(done) = self.requests.join_next() => self.handle_done(done.ok()),
                count = notes.recv_many(&mut taken, NOTES_MAX) => {
                    if count == 0 {
                        return;
                    }
                    taken.drain(..).for_each(|note| self.handle_note(note));
                }
                () = alarm.wait(deadline) => {}
            }
        }
    }

    fn handle_note(&mut self, note: TableWorkerCommand) {
        match note {
            TableWorkerCommand::Ask { key, ticket, asker, answer } => {
                self.handle_question(&key, (ticket, asker), answer);
            }
            TableWorkerCommand::Abandon(ticket) => {
                self.waiters.remove(&ticket);
                self.desk.handle_abandoned(ticket);
            }
            TableWorkerCommand::Forget(key) => self.desk.handle_forgotten(key.as_deref()),
        }
    }

    fn handle_question(
        &mut self,
        key: &str,
        (ticket, asker): (Ticket, Requester),
        answer: oneshot::Sender<RemoteAnswer>,
    ) {
        let now = self.shared.now();
        // The answer to an earlier lookup of the key may have arrived in the time between.
        if let Cached::Fresh(entry, _) = self.shared.cache.get(key, now) {
            let _ = answer.send(Ok(entry));
            return;
        }
        match self.desk.handle_question(now, key, (ticket, asker)) {
            Ok(()) => drop(self.waiters.insert(ticket, answer)),
            Err(trouble) => {
                self.shared.metrics.troubles[trouble.kind].inc();
                let _ = answer.send(Err(trouble));
            }
        }
    }

    fn make_requests(&mut self) {
        while let Some(request) = self.desk.poll_request(self.shared.now()) {
            self.shared.metrics.requests.inc();
            let (backend, shared) = (Rc::clone(&self.backend), Arc::clone(&self.shared));
            self.requests.spawn_local(async move { fetch(&*backend, &shared, request).await });
        }
    }

    /// `None`: the request panicked, which ends the process.
    fn handle_done(&mut self, done: Option<RequestCompletion>) {
        let Some((id, answers)) = done else { return };
        match answers {
            Some(answers) => self.desk.handle_answers(self.shared.now(), id, answers),
            None => self.desk.handle_silence(self.shared.now(), id),
        }
        let server = self.backend.server();
        let mut seen = lock(&self.shared.seen);
        if seen.server != server {
            seen.server = server;
        }
    }

    fn hand_out(&mut self) {
        while let Some(answered) = self.desk.poll_answered() {
            match &answered.answer {
                Ok(entry) => self.shared.cache.put(&answered.key, entry.clone(), answered.asked),
                Err(trouble) => {
                    let questions = answered.tickets.len() as u64;
                    self.shared.metrics.troubles[trouble.kind].add(questions);
                }
            }
            for waiter in answered.tickets.iter().filter_map(|ticket| self.waiters.remove(ticket)) {
                // The receiver may have been dropped.
                let _ = waiter.send(answered.answer.clone());
            }
        }
    }

    /// Publishes the status, and logs when the server falls silent or recovers.
    fn show(&mut self) {
        let metrics = &self.shared.metrics;
        metrics.waiting.set_u64(self.desk.waiting_count() as u64);
        metrics.under_way.set_u64(self.desk.requests_count() as u64);
        let (trouble, is_silent) = (self.desk.trouble(), self.desk.is_silent());
        let level = Level {
            used: self.desk.requests_count() as u64,
            max: self.requests_max,
            waiting: self.desk.crowd_count() as u64,
            is_full: false,
        };
        let mut seen = lock(&self.shared.seen);
        (seen.level, seen.most) = (level, self.desk.most().map(|(site, n)| (site, n as u64)));
        if seen.trouble.as_ref().map(|(_, trouble)| trouble) != trouble {
            let since = seen.trouble.take().map(|(since, _)| since);
            seen.trouble = trouble.map(|why| (since.unwrap_or_else(wall_now), why.clone()));
        }
        let was_silent = std::mem::replace(&mut seen.is_silent, is_silent);
        drop(seen);
        if was_silent != is_silent {
            metrics.silent.set(i64::from(is_silent));
            self.tell(trouble);
        }
        self.tell_doubt();
    }

    /// Logs when negative answers become doubtful, and when they count again.
    fn tell_doubt(&mut self) {
        let is_doubted = lock(&self.shared.doubt).is_any();
        if std::mem::replace(&mut self.was_doubted, is_doubted) != is_doubted {
            let name = &self.shared.name;
            let text = match is_doubted {
                true => {
                    "the server no longer finds keys found within the last minute: missing keys \
                     are not believed"
                }
                false => "missing keys are believed again",
            };
            self.console.line(console::Level::Error, "table", format_args!("{name}: {text}"));
        }
    }

    fn tell(&self, trouble: Option<&LookupError>) {
        let name = &self.shared.name;
        match trouble {
            Some(why) => self.console.line(
                console::Level::Warn,
                "table",
                format_args!("{name}: no answers, cached answers are used: {why}"),
            ),
            None => {
                self.console.line(console::Level::Warn, "table", format_args!("{name}: recovered"))
            }
        }
    }
}

/// Makes a request, until it is answered or its time is over.
async fn fetch(
    backend: &dyn Backend,
    shared: &RemoteTableShared,
    request: LookupRequest,
) -> RequestCompletion {
    let began = Instant::now();
    let patience = request.until.since(shared.now());
    let answers = tokio::time::timeout(patience, ask(backend, shared, &request.keys)).await;
    shared.metrics.request_time.observe(began.elapsed());
    (request.id, answers.ok())
}

/// Queries the server. If it reports missing keys, also queries keys that it had lately, to decide if negative answers
/// count.
async fn ask(backend: &dyn Backend, shared: &RemoteTableShared, keys: &[Box<str>]) -> Answers {
    let answers = backend.fetch(keys).await;
    let judgement = lock(&shared.doubt).judge(shared.now(), keys, &answers);
    let Judgement::Ask(again) = judgement else { return answers };
    let mut heard = Answers::new();
    for piece in again.chunks(backend.batch_max().max(1)) {
        shared.metrics.requests.inc();
        heard.extend(backend.fetch(piece).await);
        if heard.iter().any(|answer| matches!(answer, Ok(Some(_)))) {
            break;
        }
    }
    let again = again.get(..heard.len()).unwrap_or_default();
    let counts = lock(&shared.doubt).hear(shared.now(), keys, again, &heard);
    let Err(trouble) = counts else { return answers };
    let doubted = |answer| match answer {
        Ok(None) => Err(trouble.clone()),
        answer => answer,
    };
    answers.into_iter().map(doubted).collect()
}
