//! One log of the spool with the disk under it: a task does what the commit thread and the bulk
//! thread of the program do, with a wait before and after each operation in which a crash may
//! come.

use super::account::Account;
use super::executor::{Executor, TaskGroup};
use super::open_files::OpenFiles;
use super::plant::Plant;
use super::trace::Trace;
use load::random::Random;
use mta::custody::{LogCondition, LogPort, shard_of};
use mta::inbox::{ShardMessage, ShardSender};
use spool::memdisk::MemDisk;
use spool::{
    Attempt, Body, Completion, Disk, DiskError, DiskErrorKind, Io, IoDone, Record, Request, Spool,
    SpoolStatus, Ticket,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future as _, poll_fn};
use std::io::IoSlice;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// Files of a log that stay open.
const KEPT_MAX: usize = 2;

/// The disk of one log: survives crashes of the process, and of the machine as far as it was
/// synced.
#[derive(Debug)]
pub struct SimDisk {
    /// The disk itself.
    pub memory: MemDisk,
    /// Says that it synced and does nothing.
    lies: bool,
    /// Until then it does nothing.
    hangs_until_us: AtomicU64,
    /// What the process has open besides.
    files: Arc<OpenFiles>,
    /// Files that are open, the one that was opened last at the end.
    kept: Mutex<VecDeque<String>>,
}

impl SimDisk {
    /// An empty one.
    #[must_use]
    pub fn new(
        seed: u64,
        capacity_bytes: u64,
        files: Arc<OpenFiles>,
        plant: Option<Plant>,
    ) -> SimDisk {
        let lies = plant == Some(Plant::AcknowledgeBeforeSync);
        let memory = MemDisk::new(seed, capacity_bytes);
        SimDisk { memory, lies, hangs_until_us: AtomicU64::new(0), files, kept: Mutex::default() }
    }

    /// It does nothing any more until then.
    pub fn hang(&self, until_us: u64) {
        self.hangs_until_us.store(until_us, Ordering::Relaxed);
    }

    /// Waits as long as it hangs.
    async fn respond(&self, executor: &Executor) {
        while self.hangs_until_us.load(Ordering::Relaxed) > executor.now_us() {
            executor.sleep(LOOK_US).await;
        }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a file, unless it is.
    fn open(&self, name: &str) -> Result<(), DiskError> {
        let mut kept = self.kept();
        if kept.iter().any(|open| open == name) {
            return Ok(());
        }
        if !self.files.has_room() {
            return Err(DiskError::new(DiskErrorKind::Scarce, "too many open files"));
        }
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(name.to_owned());
        Ok(())
    }

    fn forget(&self, name: &str) {
        self.kept().retain(|open| open != name);
    }
}

impl Disk for SimDisk {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.memory.list()
    }

    fn length(&self, name: &str) -> Result<u64, DiskError> {
        self.memory.length(name)
    }

    fn create(&self, name: &str) -> Result<(), DiskError> {
        self.forget(name);
        self.open(name)?;
        self.memory.create(name)
    }

    fn allocate(&self, name: &str, bytes: u64) -> Result<bool, DiskError> {
        self.open(name)?;
        self.memory.allocate(name, bytes)
    }

    fn write_at(
        &self,
        name: &str,
        offset: u64,
        pieces: &mut [IoSlice<'_>],
    ) -> Result<(), DiskError> {
        self.open(name)?;
        self.memory.write_at(name, offset, pieces)
    }

    fn truncate(&self, name: &str, length_bytes: u64) -> Result<(), DiskError> {
        self.open(name)?;
        self.memory.truncate(name, length_bytes)
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.open(name)?;
        self.memory.read_at(name, offset, buffer)
    }

    fn sync_data(&self, name: &str) -> Result<(), DiskError> {
        // Before it is begun.
        self.open(name)?;
        if self.lies { Ok(()) } else { self.memory.sync_data(name) }
    }

    fn sync_dir(&self) -> Result<(), DiskError> {
        self.memory.sync_dir()
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.forget(to);
        self.memory.rename(from, to)?;
        self.kept().iter_mut().filter(|open| *open == from).for_each(|open| to.clone_into(open));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.forget(name);
        self.memory.remove(name)
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.memory.free_bytes()
    }
}

/// How often the spool is told that time passes.
const TICK_US: u64 = 500_000;

/// How often a disk that hangs is looked at.
const LOOK_US: u64 = 100_000;

/// What waits for the task.
#[derive(Debug, Default)]
struct Inbox {
    requests: Vec<Request>,
    waker: Option<Waker>,
}

/// Shared with the port, which must be able to cross threads.
type SharedInbox = Arc<Mutex<Inbox>>;

fn lock(inbox: &SharedInbox) -> MutexGuard<'_, Inbox> {
    inbox.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(inbox: &SharedInbox) {
    if let Some(waker) = lock(inbox).waker.take() {
        waker.wake();
    }
}

struct State {
    executor: Executor,
    group: TaskGroup,
    trace: Rc<Trace>,
    account: Rc<Account>,
    disk: Rc<SimDisk>,
    inbox: SharedInbox,
    spool: RefCell<Spool>,
    random: RefCell<Random>,
    /// Operations that were begun and not yet performed.
    begun: RefCell<BTreeMap<u64, Io>>,
    done: RefCell<Vec<IoDone>>,
    /// Content was submitted since the last write of the log.
    content: Cell<bool>,
    /// A write or sync of the log has failed.
    failed: Cell<bool>,
    /// Something has failed on the disk that does not pass.
    lost: Cell<bool>,
    next: Cell<u64>,
    /// When the spool was last told that time passes.
    ticked_us: Cell<u64>,
    plant: Option<Plant>,
}

/// A running log.
#[derive(Clone)]
pub struct SimLog {
    state: Rc<State>,
    /// For the shards.
    pub port: Arc<LogPort>,
}

impl std::fmt::Debug for SimLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SimLog").field("port", &self.port).finish_non_exhaustive()
    }
}

/// What a log is made of.
#[derive(Debug)]
pub struct LogParts {
    /// Runs its tasks.
    pub executor: Executor,
    /// The process.
    pub group: TaskGroup,
    /// Where it is noted what happens.
    pub trace: Rc<Trace>,
    /// Who is told that it has failed.
    pub account: Rc<Account>,
    /// The disk it was recovered from.
    pub disk: Rc<SimDisk>,
    /// The recovered log.
    pub spool: Spool,
    /// Its number, and that of the node.
    pub numbers: (u8, u16),
    /// For waits.
    pub seed: u64,
    /// A fault to plant.
    pub plant: Option<Plant>,
}

impl SimLog {
    /// Starts the task of a log that has been recovered.
    #[must_use]
    pub fn start<A: 'static>(parts: LogParts, shards: Vec<ShardSender<A>>) -> SimLog {
        let inbox = SharedInbox::default();
        let post = Arc::clone(&inbox);
        let port = LogPort {
            send: Box::new(move |request| {
                lock(&post).requests.push(request);
                wake(&post);
            }),
            next_sequence: AtomicU64::new(parts.spool.next_sequence()),
            next_blob: AtomicU64::new(parts.spool.next_blob()),
            log: parts.numbers.0,
            node: parts.numbers.1,
            condition: LogCondition::default(),
        };
        let state = Rc::new(State {
            executor: parts.executor,
            group: parts.group,
            trace: parts.trace,
            account: parts.account,
            disk: parts.disk,
            inbox,
            spool: RefCell::new(parts.spool),
            random: RefCell::new(Random::new(parts.seed)),
            begun: RefCell::default(),
            done: RefCell::default(),
            content: Cell::new(false),
            failed: Cell::new(false),
            lost: Cell::new(false),
            next: Cell::new(0),
            ticked_us: Cell::new(0),
            plant: parts.plant,
        });
        let task = Rc::clone(&state);
        state.executor.spawn(state.group, async move { run(task, shards).await });
        SimLog { state, port: Arc::new(port) }
    }

    /// How the log is doing.
    #[must_use]
    pub fn status(&self) -> SpoolStatus {
        self.state.spool.borrow().status()
    }

    /// It can't write any more.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.state.failed.get()
    }

    /// What is wrong if it says that it can't write any more though no write and no sync has failed.
    #[must_use]
    pub fn false_alarm(&self) -> Option<String> {
        if self.state.lost.get() {
            return None;
        }
        let text = self.status().poisoned?;
        Some(format!("poisoned, and no write or sync has failed: {text}"))
    }

    /// A batch with content in it is being written.
    #[must_use]
    pub fn is_writing(&self) -> bool {
        let begun = self.state.begun.borrow();
        self.state.content.get() && begun.values().any(|io| io.lane() == spool::Lane::Log)
    }

    /// The process ends now: of the operations that were begun, some may be half done. `power`:
    /// the machine ends with it, and unsynced writes are at the disk's mercy.
    pub fn crash(&self, power: bool) {
        let begun = std::mem::take(&mut *self.state.begun.borrow_mut());
        let memory = &self.state.disk.memory;
        let (log, bulk): (Vec<Io>, Vec<Io>) =
            begun.into_values().partition(|io| io.lane() == spool::Lane::Log);
        // Nothing of a batch, or the write without the sync. (Both is what comes a moment later.)
        let fuse = if self.state.random.borrow_mut().below(3) == 0 { 0 } else { 1 };
        memory.set_fuse(fuse);
        for io in log {
            let _ = io.perform(&*self.state.disk);
        }
        memory.set_fuse(self.state.random.borrow_mut().below(6));
        for io in bulk {
            // Whether it succeeded nobody will ever know.
            let _ = io.perform(&*self.state.disk);
        }
        self.state.disk.kept().clear();
        if power { memory.crash() } else { memory.kill() }
    }
}

async fn run<A>(state: Rc<State>, shards: Vec<ShardSender<A>>) {
    loop {
        // It wakes by itself, too, as the commit thread does.
        let mut tick = state.executor.sleep_until(state.ticked_us.get() + TICK_US);
        let requests = poll_fn(|cx| {
            let mut inbox = lock(&state.inbox);
            if inbox.requests.is_empty()
                && state.done.borrow().is_empty()
                && Pin::new(&mut tick).poll(cx).is_pending()
            {
                inbox.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(std::mem::take(&mut inbox.requests))
        })
        .await;
        drop(tick);
        let done = std::mem::take(&mut *state.done.borrow_mut());
        let spool = &state.spool;
        let now_us = state.executor.now_us();
        if now_us >= state.ticked_us.get() + TICK_US {
            state.ticked_us.set(now_us);
            spool.borrow_mut().handle_tick();
        }
        for request in requests {
            if has_content(&request) {
                state.content.set(true);
            }
            spool.borrow_mut().handle_request(state.tampered(request));
        }
        for io in done {
            spool.borrow_mut().handle_io_done(io);
        }
        while let Some(io) = state.next_io() {
            begin(&state, io);
        }
        state.tell(&shards);
    }
}

impl State {
    fn next_io(&self) -> Option<Io> {
        let mut spool = self.spool.borrow_mut();
        spool.poll_bulk_io().or_else(|| spool.poll_log_io())
    }

    /// How long an operation waits before it is performed, and how long until that is known.
    fn waits_us(&self, lane: spool::Lane) -> (u64, u64) {
        let mut random = self.random.borrow_mut();
        let longest_us = match (lane, random.below(200)) {
            (_, 0) => 400_000,
            (spool::Lane::Log, _) => 2_000,
            (spool::Lane::Bulk | spool::Lane::Read, _) => 1_000,
        };
        (20 + random.below(longest_us), 20 + random.below(longest_us))
    }

    /// Gives the completions to the shards that wait for them.
    fn tell<A>(&self, shards: &[ShardSender<A>]) {
        let mut by_shard: BTreeMap<u16, Vec<(Ticket, Completion)>> = BTreeMap::new();
        while let Some((ticket, completion)) = self.spool.borrow_mut().poll_completion() {
            by_shard.entry(shard_of(ticket)).or_default().push((ticket, completion));
        }
        for (shard, completions) in by_shard {
            if let Some(shard) = shards.get(usize::from(shard)) {
                // A shard that has ended waits for nothing.
                let _ = shard.send(ShardMessage::Completions(completions));
            }
        }
    }

    /// The request, or what a planted fault makes of it.
    fn tampered(&self, request: Request) -> Request {
        if self.plant != Some(Plant::ForgetSettle) {
            return request;
        }
        let Request::Submit { ticket, records } = request else { return request };
        let forgets = self.random.borrow_mut().below(4) == 0;
        let records = records.into_iter().map(|record| match record {
            Record::Settle(settle) if forgets => Record::Attempt(Attempt {
                id: settle.id,
                at: settle.at,
                recipients: settle.recipients.iter().map(|(index, _)| *index).collect(),
                attempts: 1,
                next_try: settle.at,
                reason: "forgotten".into(),
            }),
            other => other,
        });
        Request::Submit { ticket, records: records.collect() }
    }
}

/// A batch with this in it has several sectors.
fn has_content(request: &Request) -> bool {
    let Request::Submit { records, .. } = request else { return false };
    records.iter().any(|record| match record {
        Record::Accept(accept) => {
            matches!(&accept.body, Body::Memory(pieces) if !pieces.is_empty())
        }
        _ => false,
    })
}

/// Performs an operation in its time.
fn begin(state: &Rc<State>, io: Io) {
    let number = state.next.get();
    state.next.set(number + 1);
    let (before_us, after_us) = state.waits_us(io.lane());
    state.begun.borrow_mut().insert(number, io);
    let task = Rc::clone(state);
    state.executor.spawn(state.group, async move {
        task.executor.sleep(before_us).await;
        task.disk.respond(&task.executor).await;
        let Some(io) = task.begun.borrow_mut().remove(&number) else { return };
        let (lane, ticket) = (io.lane(), io.ticket().0);
        if lane == spool::Lane::Log {
            task.content.set(false);
        }
        let done = io.perform(&*task.disk);
        let failed = done.error().is_some();
        if done.error().is_some_and(|error| error.kind == DiskErrorKind::Failed) {
            task.lost.set(true);
            if lane == spool::Lane::Log && !task.failed.replace(true) {
                task.account.handle_failed_log(task.group);
            }
        }
        task.trace.note("disk", &[ticket, u64::from(failed)], || {
            format!("{lane:?} {ticket} failed={failed}")
        });
        task.executor.sleep(after_us).await;
        task.done.borrow_mut().push(done);
        wake(&task.inbox);
    });
}
