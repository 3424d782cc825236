//! Drives one log with three threads. The commit thread gathers requests of all shards, writes and syncs them, and
//! notifies the shards. The read thread reads messages back. The bulk thread writes blobs and prepares segments.
//!
//! A delivery that must read its message first waits neither for a commit nor for the preparation of a segment.

mod inbox;

use crate::world::clock::Start;
use inbox::{GroupCommitDelay, Mailbox};
use mta::custody::{LogCondition, LogPort, shard_of};
use mta::metrics::LogMetrics;
use spool::{
    Completion, Disk, Io, IoDone, Lane, LogSnapshot, Opening, Request, Spool, SpoolStatus, Ticket,
};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

/// Interval of updates of a log's status, and of checks for free space.
const STATUS_EVERY: Duration = Duration::from_millis(500);

/// Text for the console and the list of problems if a log has used all message ids.
pub(crate) const NO_IDS: &str =
    "no message ids left in this log, it accepts no mail: add a directory to paths";

/// Takes completions to a shard.
pub(crate) type CompletionSink = Box<dyn Fn(u16, Vec<(Ticket, Completion)>) + Send + Sync>;

/// Logs a change of a log's state: the text, and true if it is an error.
pub(crate) type LogStateReporter = Box<dyn Fn(bool, std::fmt::Arguments<'_>) + Send>;

/// Called between two batches with the log's files, which stay for the time of the call.
pub(crate) type LogVisit = Box<dyn FnOnce(Result<LogSnapshot, &'static str>) + Send>;

/// A running log.
pub(crate) struct Log {
    mailbox: Arc<Mailbox>,
    /// As the shards have it.
    pub(crate) port: Arc<LogPort>,
    /// The latest figures.
    pub(crate) status: Arc<Mutex<SpoolStatus>>,
    threads: Vec<thread::JoinHandle<()>>,
}

/// State shared by a log's threads. The spool's lock is not held during writes, syncs or reads.
struct Core {
    spool: Mutex<Spool>,
    disk: Arc<dyn Disk>,
    mailbox: Arc<Mailbox>,
    bulk: mpsc::Sender<Io>,
    reads: mpsc::Sender<ReadJob>,
    deliver: CompletionSink,
}

impl Core {
    fn lock(&self) -> MutexGuard<'_, Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes the spool's I/O outside the log to the read and bulk threads.
    fn send_io(&self, spool: &mut Spool) {
        // The read thread lives as long as this sender.
        self.sort_io(spool, |io| drop(self.reads.send(ReadJob::Io(io))));
    }

    /// As [`send_io`](Self::send_io), with reads passed to `read`.
    fn sort_io(&self, spool: &mut Spool, mut read: impl FnMut(Io)) {
        while let Some(io) = spool.poll_bulk_io() {
            match io.lane() {
                Lane::Read => read(io),
                // The bulk thread lives as long as this sender.
                Lane::Log | Lane::Bulk => drop(self.bulk.send(io)),
            }
        }
    }

    /// One message per shard and round, however many completions there are.
    fn tell_shards(&self, completions: Vec<(Ticket, Completion)>) {
        let mut by_shard: Vec<(u16, Vec<(Ticket, Completion)>)> = Vec::new();
        for (ticket, completion) in completions {
            let shard = shard_of(ticket);
            match by_shard.iter_mut().find(|(number, _)| *number == shard) {
                Some((_, list)) => list.push((ticket, completion)),
                None => by_shard.push((shard, vec![(ticket, completion)])),
            }
        }
        for (shard, completions) in by_shard {
            (self.deliver)(shard, completions);
        }
    }
}

fn completions_of(spool: &mut Spool) -> Vec<(Ticket, Completion)> {
    std::iter::from_fn(|| spool.poll_completion()).collect()
}

/// A log in recovery; its requests wait.
pub(crate) struct Inbound {
    mailbox: Arc<Mailbox>,
    reads: mpsc::Sender<ReadJob>,
    read_jobs: mpsc::Receiver<ReadJob>,
    /// For the shards.
    pub(crate) port: Arc<LogPort>,
}

impl Inbound {
    /// A log with this node and log number that was read.
    pub(crate) fn new(node: u16, log: u8, opening: &Opening) -> Inbound {
        let mailbox = Arc::new(Mailbox::default());
        let (reads, read_jobs) = mpsc::channel();
        let (post, read) = (Arc::clone(&mailbox), reads.clone());
        let send = move |request| match request {
            // Reads do not wait for a commit.
            Request::Load { .. } | Request::BlobRead { .. } => {
                // A stopped log does not answer.
                let _ = read.send(ReadJob::Request(request));
            }
            request => post.put(|inbox| inbox.requests.push(request)),
        };
        let port = LogPort {
            send: Box::new(send),
            next_sequence: AtomicU64::new(opening.next_sequence()),
            next_blob: AtomicU64::new(opening.next_blob()),
            log,
            node,
            condition: LogCondition::default(),
        };
        Inbound { mailbox, reads, read_jobs, port: Arc::new(port) }
    }
}

impl Log {
    /// Starts the threads of a recovered log.
    ///
    /// # Errors
    /// Returns an error if the system cannot create a thread.
    pub(crate) fn start(
        inbound: Inbound,
        spool: Spool,
        disk: Arc<dyn Disk>,
        (metrics, started): (Arc<LogMetrics>, Start),
        tell: LogStateReporter,
        deliver: CompletionSink,
    ) -> io::Result<Log> {
        let Inbound { mailbox, reads, read_jobs, port } = inbound;
        let log = port.log;
        let was_full = spool.status().full;
        port.condition.note(spool.live_count(), was_full);
        let status = Arc::new(Mutex::new(spool.status()));
        let (bulk, jobs) = mpsc::channel::<Io>();
        let (post, bulk_disk) = (Arc::clone(&mailbox), Arc::clone(&disk));
        let bulk_thread = thread::Builder::new().name(format!("bulk-{log}")).spawn(move || {
            while let Ok(io) = jobs.recv() {
                let done = io.perform(&*bulk_disk);
                post.put(|inbox| inbox.done.push(done));
            }
        })?;
        let core = Core {
            spool: Mutex::new(spool),
            disk,
            mailbox: Arc::clone(&mailbox),
            bulk,
            reads,
            deliver,
        };
        let core = Arc::new(core);
        let reader = ReadThread { core: Arc::clone(&core), jobs: read_jobs };
        let read_thread =
            thread::Builder::new().name(format!("read-{log}")).spawn(move || reader.run())?;
        let committer = Committer {
            core,
            metrics,
            status: Arc::clone(&status),
            told: Instant::now(),
            tell,
            was_full,
            port: Arc::clone(&port),
            has_ids: true,
            gathering: GroupCommitDelay::default(),
            visits: Vec::new(),
            started,
        };
        let commit_thread =
            thread::Builder::new().name(format!("commit-{log}")).spawn(move || committer.run())?;
        Ok(Log { mailbox, port, status, threads: vec![commit_thread, read_thread, bulk_thread] })
    }

    /// Calls `visit` between two batches, on the commit thread. It is dropped if the log stops before.
    pub(crate) fn visit(&self, visit: LogVisit) {
        self.mailbox.put(|inbox| inbox.visits.push(visit));
    }

    /// Writes pending requests and ends the threads.
    pub(crate) fn stop(self) {
        self.mailbox.put(|inbox| inbox.stop = true);
        for thread in self.threads {
            // A panic was reported already; nothing is left to write.
            let _ = thread.join();
        }
    }
}

struct Committer {
    core: Arc<Core>,
    metrics: Arc<LogMetrics>,
    status: Arc<Mutex<SpoolStatus>>,
    told: Instant,
    tell: LogStateReporter,
    /// Messages were refused for missing disk space at the last check.
    was_full: bool,
    port: Arc<LogPort>,
    /// Message ids were left at the last check.
    has_ids: bool,
    gathering: GroupCommitDelay,
    visits: Vec<LogVisit>,
    /// The clock of the process.
    started: Start,
}

impl Committer {
    fn run(mut self) {
        // Until the first status, 0 would be an alarm.
        self.metrics.message_ids_left.set_u64(self.port.ids_left());
        let mut requests = Vec::new();
        let mut done = Vec::new();
        let mut committed = false;
        loop {
            let stop = self.receive(&mut requests, &mut done, committed);
            let io = {
                let mut spool = self.core.lock();
                for request in requests.drain(..) {
                    spool.handle_request(request);
                }
                for io in done.drain(..) {
                    spool.handle_io_done(io);
                }
                for visit in self.visits.drain(..) {
                    visit(spool.snapshot());
                }
                let io = spool.poll_log_io();
                self.core.send_io(&mut spool);
                io
            };
            committed = io.is_some();
            let written = io.map(|io| self.perform(io));
            let (completions, is_over) = {
                let mut spool = self.core.lock();
                if let Some(done) = written {
                    spool.handle_io_done(done);
                    self.core.send_io(&mut spool);
                }
                self.port.condition.note(spool.live_count(), spool.is_full());
                // Requests that wait for free space then wait for the next start.
                (completions_of(&mut spool), spool.is_idle() || spool.is_stalled())
            };
            self.core.tell_shards(completions);
            self.tell_status(stop);
            if stop && is_over {
                if let Some(io) = self.core.lock().close() {
                    // After all that went there before. If it fails, less is known at the start.
                    let _ = self.core.bulk.send(io);
                }
                let _ = self.core.reads.send(ReadJob::Stop);
                return;
            }
        }
    }

    /// Takes the inbox; waits if there is nothing to do. After a commit (`committed`), requests that did not fit into
    /// the batch may be left.
    fn receive(
        &mut self,
        requests: &mut Vec<Request>,
        done: &mut Vec<IoDone>,
        committed: bool,
    ) -> bool {
        let mut inbox = self.core.mailbox.lock();
        let nothing = inbox.requests.is_empty() && inbox.done.is_empty() && !inbox.stop;
        let nothing = nothing && inbox.visits.is_empty();
        if nothing && !committed {
            inbox = self.core.mailbox.wait(inbox, 1, STATUS_EVERY);
        }
        inbox = self.gathering.gather(&self.core.mailbox, inbox);
        mem::swap(requests, &mut inbox.requests);
        mem::swap(done, &mut inbox.done);
        mem::swap(&mut self.visits, &mut inbox.visits);
        let stop = inbox.stop;
        drop(inbox);
        if stop && requests.is_empty() && done.is_empty() && !self.core.lock().is_idle() {
            // The other threads are at work; wait for their results.
            thread::sleep(Duration::from_millis(1));
        }
        stop
    }

    fn perform(&self, io: Io) -> IoDone {
        let began = Instant::now();
        self.port.condition.commit.begin(self.started.elapsed());
        let done = io.perform(&*self.core.disk);
        self.port.condition.commit.end();
        self.metrics.commit_latency.observe(began.elapsed());
        if done.error().is_some() {
            self.metrics.commit_failures.inc();
        }
        done
    }

    /// Says so when the disk has become too full for mail, and when it no longer is.
    fn tell_full(&mut self, status: &SpoolStatus) {
        if mem::replace(&mut self.was_full, status.full) == status.full {
            return;
        }
        let free = mib(status.free_bytes.unwrap_or(0));
        if status.full {
            let text = "disk nearly full: no mail is accepted";
            (self.tell)(true, format_args!("{text} free={free}"));
        } else {
            (self.tell)(
                false,
                format_args!("disk has free space again: mail is accepted free={free}"),
            );
        }
    }

    /// Says so when no message id is left, which never passes.
    fn tell_ids(&mut self) {
        let left = self.port.ids_left();
        self.metrics.message_ids_left.set_u64(left);
        if mem::replace(&mut self.has_ids, left > 0) && left == 0 {
            (self.tell)(true, format_args!("{NO_IDS}"));
        }
    }

    fn tell_status(&mut self, now: bool) {
        if !now && self.told.elapsed() < STATUS_EVERY {
            return;
        }
        self.told = Instant::now();
        let status = {
            let mut spool = self.core.lock();
            spool.handle_tick();
            self.core.send_io(&mut spool);
            spool.status()
        };
        self.tell_full(&status);
        self.tell_ids();
        let metrics = &self.metrics;
        metrics.commits.add(status.batches_count.saturating_sub(metrics.commits.get()));
        metrics
            .commit_records
            .add(status.records_count.saturating_sub(metrics.commit_records.get()));
        metrics.commit_bytes.add(status.written_bytes.saturating_sub(metrics.commit_bytes.get()));
        let compacted = metrics.compacted_bytes.get();
        metrics.compacted_bytes.add(status.compacted_bytes.saturating_sub(compacted));
        metrics.poisoned.set(i64::from(status.poisoned.is_some()));
        metrics.full.set(i64::from(status.full));
        self.port.condition.note(status.live_count, status.full);
        metrics.segments.set_u64(status.segments_count);
        metrics.segments_spare.set_u64(status.spares_count);
        metrics.live_messages.set_u64(status.live_count);
        metrics.live_bytes.set_u64(status.live_bytes);
        metrics.blobs.set_u64(status.blobs_count);
        let room = status.free_bytes.map(|free| free.saturating_add(status.segment_file_bytes));
        metrics.room_bytes.set_u64(room.unwrap_or_default());
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }
}

/// A size in octets for people.
pub(crate) fn mib(bytes: u64) -> String {
    format!("{}MiB", bytes >> 20)
}

/// Requests that are looked up in one go.
const REQUESTS_MAX: usize = 64;
/// Number of reads after which shards are notified; each notification wakes them.
const READS_TOLD: usize = 8;

/// Jobs of the read thread.
enum ReadJob {
    /// A message, or a piece of one, is wanted.
    Request(Request),
    /// The spool wants something read.
    Io(Io),
    /// The log has stopped.
    Stop,
}

/// The read thread of a log.
struct ReadThread {
    core: Arc<Core>,
    jobs: mpsc::Receiver<ReadJob>,
}

impl ReadThread {
    fn run(self) {
        while let Ok(job) = self.jobs.recv() {
            let (mut requests, mut reads, mut stops) = (Vec::new(), Vec::new(), false);
            for job in std::iter::once(job).chain(self.jobs.try_iter().take(REQUESTS_MAX)) {
                match job {
                    ReadJob::Request(request) => requests.push(request),
                    ReadJob::Io(io) => reads.push(io),
                    ReadJob::Stop => stops = true,
                }
            }
            self.look_up(requests, &mut reads);
            while !reads.is_empty() {
                let rest = reads.split_off(READS_TOLD.min(reads.len()));
                self.read(std::mem::replace(&mut reads, rest));
            }
            if stops {
                return;
            }
        }
    }

    /// Resolves requests to positions in the log.
    fn look_up(&self, requests: Vec<Request>, reads: &mut Vec<Io>) {
        let mut spool = self.core.lock();
        for request in requests {
            spool.handle_request(request);
        }
        self.core.sort_io(&mut spool, |io| reads.push(io));
        let completions = completions_of(&mut spool);
        drop(spool);
        self.core.tell_shards(completions);
    }

    fn read(&self, reads: Vec<Io>) {
        let done: Vec<IoDone> = reads.into_iter().map(|io| io.perform(&*self.core.disk)).collect();
        let mut spool = self.core.lock();
        for done in done {
            spool.handle_io_done(done);
        }
        self.core.send_io(&mut spool);
        let completions = completions_of(&mut spool);
        drop(spool);
        self.core.tell_shards(completions);
    }
}
