//! The tables of one process: caches and desks as the program has them, before a simulated
//! directory.

use super::directory::{Directory, DirectoryTable, PATIENCE};
use super::executor::{Executor, TaskGroup};
use super::plant::Plant;
use config::TableEntry;
use lookup::{
    Answers, Cache, Cached, Coalescer, DeskLimits, Entry, LookupError, LookupRequest, RequestId,
    Requester, Ticket,
};
use mail::Mono;
use mta::answer::Answer;
use mta::seams::{EntryLookup, NoTables, Tables};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{Notify, oneshot};

/// Questions that wait at once: more than all sessions have.
const WAITING_MAX: usize = 1_000;

/// What is said of a key in the end.
type TableReply = Result<Option<Arc<Entry>>, LookupError>;

/// The tables of one process, for all its shards; none where there is no directory.
#[derive(Clone, Debug, Default)]
pub struct SimTables(BTreeMap<&'static str, Rc<LookupWorker>>);

impl SimTables {
    /// Starts them as tasks of `group`.
    #[must_use]
    pub fn start(
        executor: &Executor,
        group: TaskGroup,
        directory: Option<&Rc<Directory>>,
        plant: Option<Plant>,
    ) -> SimTables {
        let Some(directory) = directory else { return SimTables::default() };
        let start = |(name, asked)| {
            let clerk = LookupWorker::new(executor, (group, asked), directory, plant);
            let task = Rc::clone(&clerk);
            executor.spawn(group, async move { task.run().await });
            (name, clerk)
        };
        SimTables(
            [("users", DirectoryTable::Users), ("aliases", DirectoryTable::Aliases)]
                .map(start)
                .into(),
        )
    }
}

impl Tables for SimTables {
    fn find(&self, table: &TableEntry, key: &str) -> EntryLookup {
        match self.0.get(&*table.name) {
            Some(clerk) => clerk.find(key),
            None => NoTables.find(table, key),
        }
    }
}

/// Who asks the directory for one table.
#[derive(Debug)]
struct LookupWorker {
    executor: Executor,
    group: TaskGroup,
    asked: DirectoryTable,
    directory: Rc<Directory>,
    plant: Option<Plant>,
    cache: Cache,
    desk: RefCell<Coalescer>,
    waiters: RefCell<BTreeMap<Ticket, oneshot::Sender<TableReply>>>,
    next_ticket: Cell<u64>,
    /// There is something to do.
    wake: Notify,
}

impl LookupWorker {
    fn new(
        executor: &Executor,
        (group, asked): (TaskGroup, DirectoryTable),
        directory: &Rc<Directory>,
        plant: Option<Plant>,
    ) -> Rc<LookupWorker> {
        let plan = &directory.plan;
        let limits = DeskLimits {
            requests_max: plan.requests_max,
            batch_max: plan.batch_max,
            waiting_max: WAITING_MAX,
            timeout: PATIENCE,
        };
        Rc::new(LookupWorker {
            executor: executor.clone(),
            group,
            asked,
            directory: Rc::clone(directory),
            plant,
            cache: Cache::new(plan.entries_max, plan.lifetimes, 0),
            desk: RefCell::new(Coalescer::new(limits)),
            waiters: RefCell::default(),
            next_ticket: Cell::new(0),
            wake: Notify::new(),
        })
    }

    fn now(&self) -> Mono {
        Mono(self.executor.now_us())
    }

    fn find(self: &Rc<Self>, key: &str) -> EntryLookup {
        let stale = match self.cache.get(key, self.now()) {
            Cached::Fresh(entry, _) => return Answer::Now(Ok(entry)),
            Cached::Stale(entry, _) => Some(entry),
            Cached::Missing => None,
        };
        let question = self.ask(key);
        Answer::later(async move {
            let clerk = Rc::clone(&question.clerk);
            match (question.answer().await, stale) {
                (Err(_), Some(entry)) => Ok(entry),
                (Err(trouble), None) => clerk.without_answer(trouble),
                (said, _) => said,
            }
        })
    }

    /// What is made of trouble: nothing, unless a fault is planted.
    fn without_answer(&self, trouble: LookupError) -> TableReply {
        self.directory.check_trouble(&trouble);
        match self.plant {
            Some(Plant::SilenceIsNo) => Ok(None),
            Some(Plant::SilenceIsYes) if self.asked == DirectoryTable::Users => {
                Ok(Some(Arc::new(Entry::text("anybody"))))
            }
            _ => Err(trouble),
        }
    }

    fn ask(self: &Rc<Self>, key: &str) -> PendingLookup {
        let ticket = Ticket(self.next_ticket.get());
        self.next_ticket.set(ticket.0 + 1);
        let (answer, answered) = oneshot::channel();
        let taken =
            self.desk.borrow_mut().handle_question(self.now(), key, (ticket, Requester::Ours));
        match taken {
            Ok(()) => drop(self.waiters.borrow_mut().insert(ticket, answer)),
            // The other end is there still.
            Err(trouble) => drop(answer.send(Err(trouble))),
        }
        self.wake.notify_one();
        PendingLookup { ticket, answered, clerk: Rc::clone(self) }
    }

    /// Works until the process ends.
    async fn run(self: Rc<Self>) {
        loop {
            self.desk.borrow_mut().handle_timeout(self.now());
            self.make_requests();
            self.hand_out();
            let deadline = self.desk.borrow().poll_deadline();
            tokio::select! {
                biased;
                () = self.wake.notified() => {}
                () = self.executor.sleep_until(deadline.0) => {}
            }
        }
    }

    fn make_requests(self: &Rc<Self>) {
        loop {
            let request = self.desk.borrow_mut().poll_request(self.now());
            let Some(request) = request else { return };
            let clerk = Rc::clone(self);
            self.executor.spawn(self.group, async move { clerk.fetch(request).await });
        }
    }

    /// Makes a request, until it is answered or its time is over.
    async fn fetch(&self, LookupRequest { id, mut keys, until }: LookupRequest) {
        if self.plant == Some(Plant::AnothersEntry) {
            keys.iter_mut().for_each(|key| *key = format!("another-{key}").into());
        }
        let answers = tokio::select! {
            biased;
            answers = self.directory.answer(self.asked, &keys) => Some(answers),
            () = self.executor.sleep_until(until.0) => None,
        };
        self.handle_done(id, answers);
        self.wake.notify_one();
    }

    fn handle_done(&self, id: RequestId, answers: Option<Answers>) {
        let mut desk = self.desk.borrow_mut();
        let is_deaf = self.plant == Some(Plant::IgnoreProbes) && desk.is_silent();
        match answers.filter(|_| !is_deaf) {
            Some(answers) => desk.handle_answers(self.now(), id, answers),
            None => desk.handle_silence(self.now(), id),
        }
    }

    fn hand_out(&self) {
        loop {
            let answered = self.desk.borrow_mut().poll_answered();
            let Some(answered) = answered else { return };
            if let Ok(entry) = &answered.answer {
                self.cache.put(&answered.key, entry.clone(), answered.asked);
            }
            for ticket in &answered.tickets {
                let waiter = self.waiters.borrow_mut().remove(ticket);
                // Who has gone since is not told.
                let _ = waiter.map(|waiter| waiter.send(answered.answer.clone()));
            }
        }
    }
}

/// A question that waits for its answer. Dropped before, it is abandoned.
struct PendingLookup {
    ticket: Ticket,
    answered: oneshot::Receiver<TableReply>,
    clerk: Rc<LookupWorker>,
}

impl PendingLookup {
    async fn answer(mut self) -> TableReply {
        match (&mut self.answered).await {
            Ok(said) => said,
            Err(_) => unreachable!("a clerk answers every question that it has taken"),
        }
    }
}

impl Drop for PendingLookup {
    fn drop(&mut self) {
        self.clerk.waiters.borrow_mut().remove(&self.ticket);
        self.clerk.desk.borrow_mut().handle_abandoned(self.ticket);
    }
}
