//! The event log: shards push events into bounded queues, and one thread formats and writes them.
//!
//! A push takes a lock with almost no contention and a `Vec::push`. It needs a system call only if the writer was idle
//! and sleeps (at most once per [`PACE`]). The event log never delays mail, a start or a stop: while the disk is full,
//! hangs or is missing, events wait. If too many wait, further events are dropped and counted, and a `lost` line names
//! the first. Waiting and dropped events are counted by the emitting shard, since the writer may hang.
//!
//! Every line about a message has the position of its spool record, so that a reader can distinguish events. Events
//! that a crash or an overflow kept out of the file are lost: the spool frees the records of settled messages and keeps
//! none for this log.

mod file;

use crate::mutex::lock;
use crate::under_way::HANGS_AFTER;
use crate::world::clock::{Start, wall_now};
use file::LogFile;
pub(crate) use file::{is_stamp, line_time};
use mta::event::EventFile;
use mta::event::{Event, EventSink, Kind, Position, Recipients, json};
use mta::metrics::EventMetrics;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind, Watchdog};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

/// Minimum time between two writes, for larger batches.
const PACE: Duration = Duration::from_millis(10);
/// Pause of the writer after a failed write.
const RETRY_PACE: Duration = Duration::from_secs(1);
/// At a stop the writer may go on for as long as something is written every so often.
const STOP_PATIENCE: Duration = Duration::from_secs(3);
/// Patience if a disk is known not to respond.
const HANGING_PATIENCE: Duration = Duration::from_secs(1);
/// Formatted text is written when it is this long.
const WRITE_BYTES: usize = 256 * 1024;
/// Maximum capacity that an empty queue keeps; the rest is freed.
const KEPT_EVENTS: usize = 4_096;

/// The writer and the queues that lead to it.
#[derive(Debug)]
pub(crate) struct EventLog {
    queues: Vec<Arc<EventQueue>>,
    wake: Arc<WriterWaker>,
    writing: Arc<EventWriterStatus>,
    writer: Option<JoinHandle<()>>,
}

/// Status of the writer, for other threads.
#[derive(Debug)]
pub(crate) struct EventWriterStatus {
    path: PathBuf,
    started: Start,
    at_disk: Watchdog,
    is_failing: AtomicBool,
    metrics: Arc<EventMetrics>,
}

impl EventWriterStatus {
    fn at_disk<T>(&self, work: impl FnOnce() -> T) -> T {
        self.at_disk.begin(self.started.elapsed());
        let done = work();
        self.at_disk.end();
        done
    }

    /// For how long it has not come back from the disk, if that is long.
    fn hangs_for(&self) -> Option<Duration> {
        self.at_disk.under_way(self.started.elapsed()).filter(|time| *time >= HANGS_AFTER)
    }
}

/// Events that can't be written, or wait for a disk that hangs.
impl ProblemKind for EventWriterStatus {
    fn name(&self) -> &'static str {
        "event_log"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let path = self.path.display();
        let text = match self.hangs_for() {
            Some(wait) => {
                let seconds = wait.as_secs();
                format!("the event log {path} has not responded for {seconds} s: events wait")
            }
            None if self.is_failing.load(Ordering::Relaxed) => {
                format!("cannot write the event log {path}: events wait")
            }
            None => return,
        };
        let dropped = self.metrics.dropped.get();
        let step = match dropped {
            0 => "check its disk; mail continues, and events are kept up to `waiting_max`",
            _ => "check its disk; mail continues, and events are lost",
        };
        found(DetectedProblem::warning(path.to_string(), text).next_step(step));
    }
}

/// Wakes the writer.
#[derive(Debug, Default)]
struct WriterWaker {
    /// The writer sleeps until woken.
    idle: AtomicBool,
    stop: AtomicBool,
    writer: Mutex<Option<Thread>>,
}

impl WriterWaker {
    fn wake(&self) {
        if let Some(writer) = &*lock(&self.writer) {
            writer.unpark();
        }
    }
}

/// A shard's end: hand it to the shard as its [`EventSink`].
#[derive(Debug)]
pub(crate) struct EventQueue {
    inside: Mutex<PendingEvents>,
    /// Events that may wait here.
    waiting_max: usize,
    wake: Arc<WriterWaker>,
    /// Of this queue.
    metrics: Arc<EventMetrics>,
}

#[derive(Debug, Default)]
struct PendingEvents {
    events: Vec<Event>,
    dropped: u64,
    first_dropped: Option<Position>,
}

impl EventSink for EventQueue {
    fn emit(&self, event: Event) {
        let waiting = {
            let mut inside = lock(&self.inside);
            self.metrics.emitted.inc();
            if inside.events.len() >= self.waiting_max {
                self.metrics.dropped.inc();
                inside.dropped += 1;
                if inside.first_dropped.is_none() {
                    inside.first_dropped = event.message.and_then(|message| message.position);
                }
                return;
            }
            self.metrics.lag.inc();
            inside.events.push(event);
            inside.events.len()
        };
        // The writer marks itself idle before its last look into the queues. So either it sees this event, or this
        // thread sees the mark: the queue's lock orders the two.
        let idle =
            self.wake.idle.load(Ordering::Relaxed) && self.wake.idle.swap(false, Ordering::Relaxed);
        if idle || waiting == self.waiting_max.div_ceil(2) {
            self.wake.wake();
        }
    }
}

/// Reports an error of the file once at its begin, and once at its end.
pub(crate) type ErrorReporter = Box<dyn Fn(&str) + Send>;

impl EventLog {
    /// Starts the writer, with one queue for each shard; `metrics` has a set for each, and one for the writer behind
    /// them. `waiting_max` is shared out among them. The writer opens the file: where that fails, or hangs, events
    /// wait.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(crate) fn start(
        options: &EventFile,
        metrics: &[Arc<EventMetrics>],
        report: ErrorReporter,
    ) -> io::Result<EventLog> {
        let file = LogFile::new(options.clone(), wall_now());
        let (of_writer, of_shards) = metrics.split_last().ok_or(io::ErrorKind::InvalidInput)?;
        let shards = of_shards.len();
        let wake = Arc::new(WriterWaker::default());
        let waiting_max = (options.waiting_max as usize / shards.max(1)).max(1);
        let queue = |metrics: &Arc<EventMetrics>| EventQueue {
            inside: Mutex::default(),
            waiting_max,
            wake: Arc::clone(&wake),
            metrics: Arc::clone(metrics),
        };
        let queues: Vec<_> = of_shards.iter().map(|metrics| Arc::new(queue(metrics))).collect();
        let writing = Arc::new(EventWriterStatus {
            path: options.path.clone(),
            started: Start::now(),
            at_disk: Watchdog::default(),
            is_failing: AtomicBool::new(false),
            metrics: Arc::clone(of_writer),
        });
        let mut writer = EventWriter {
            queues: queues.clone(),
            wake: Arc::clone(&wake),
            file,
            text: Vec::new(),
            text_events: vec![0; shards],
            batch: Vec::new(),
            writing: Arc::clone(&writing),
            report,
            failing: false,
        };
        let thread =
            thread::Builder::new().name("events".to_owned()).spawn(move || writer.run())?;
        *lock(&wake.writer) = Some(thread.thread().clone());
        Ok(EventLog { queues, wake, writing, writer: Some(thread) })
    }

    /// The queue of shard `number`.
    #[must_use]
    pub(crate) fn queue(&self, number: usize) -> Option<Arc<EventQueue>> {
        self.queues.get(number).cloned()
    }

    /// Status of the writer.
    pub(crate) fn writing(&self) -> Arc<EventWriterStatus> {
        Arc::clone(&self.writing)
    }

    /// Writes waiting events and ends the writer. If the disk is full or hangs, they are lost; returns their number.
    /// `is_hanging` if a disk that may be the same one does not respond.
    pub(crate) fn finish(mut self, is_hanging: bool) -> u64 {
        let waits = self.writing.at_disk.under_way(self.writing.started.elapsed());
        let is_hanging = is_hanging || waits.is_some_and(|time| time >= HANGING_PATIENCE);
        self.stop(if is_hanging { HANGING_PATIENCE } else { STOP_PATIENCE });
        let lag = self.queues.iter().map(|queue| queue.metrics.lag.get()).sum::<i64>();
        u64::try_from(lag).unwrap_or(0)
    }

    fn stop(&mut self, patience: Duration) {
        let Some(writer) = self.writer.take() else { return };
        self.wake.stop.store(true, Ordering::Release);
        writer.thread().unpark();
        let written = || self.writing.metrics.written_bytes.get();
        let (mut before, mut since) = (written(), Instant::now());
        while !writer.is_finished() {
            if before != written() {
                (before, since) = (written(), Instant::now());
            }
            if since.elapsed() >= patience {
                // It ends with the process.
                return;
            }
            thread::sleep(Duration::from_millis(2));
        }
        // A panic was reported on standard error already.
        let _ = writer.join();
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.stop(STOP_PATIENCE);
    }
}

struct EventWriter {
    queues: Vec<Arc<EventQueue>>,
    wake: Arc<WriterWaker>,
    file: LogFile,
    /// Formatted lines that are not written yet.
    text: Vec<u8>,
    /// The number of events per queue in `text`.
    text_events: Vec<i64>,
    /// Swapped with a queue's own.
    batch: Vec<Event>,
    writing: Arc<EventWriterStatus>,
    report: ErrorReporter,
    failing: bool,
}

impl EventWriter {
    fn run(&mut self) {
        // Open the file now, to report errors before the first event.
        self.open();
        loop {
            let stopping = self.wake.stop.load(Ordering::Acquire);
            let took = self.pass();
            if stopping {
                break;
            }
            if self.failing {
                thread::park_timeout(RETRY_PACE);
            } else if took {
                thread::park_timeout(PACE);
            } else {
                self.wake.idle.store(true, Ordering::Relaxed);
                if self.waiting() == 0 && !self.wake.stop.load(Ordering::Acquire) {
                    thread::park();
                }
                self.wake.idle.store(false, Ordering::Relaxed);
                // Let a burst gather instead of writing its first event alone.
                if !self.wake.stop.load(Ordering::Acquire) {
                    thread::park_timeout(PACE);
                }
            }
        }
        let (writing, file) = (Arc::clone(&self.writing), &mut self.file);
        writing.at_disk(|| file.close());
    }

    fn open(&mut self) {
        let (writing, file) = (Arc::clone(&self.writing), &mut self.file);
        if let Err(error) = writing.at_disk(|| file.open(wall_now())) {
            self.fail(&error);
        }
    }

    /// Empties the queues into the file; whether there was anything. While the file takes nothing
    /// the queues are left to fill.
    fn pass(&mut self) -> bool {
        let is_due = self.failing || !self.text.is_empty();
        if is_due && !self.write() {
            return true;
        }
        let mut took = false;
        for n in 0..self.queues.len() {
            took |= self.take(n);
            if self.failing {
                return true;
            }
        }
        if !self.text.is_empty() {
            self.write();
        }
        took
    }

    /// Formats the waiting events of one queue.
    fn take(&mut self, n: usize) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let (dropped, first) = {
            let mut inside = lock(&self.queues[n].inside);
            std::mem::swap(&mut inside.events, &mut batch);
            (std::mem::take(&mut inside.dropped), inside.first_dropped.take())
        };
        let took = !batch.is_empty() || dropped > 0;
        for event in batch.drain(..) {
            json::write_lines(&event, &mut self.text);
            self.text_events[n] += 1;
            if self.text.len() >= WRITE_BYTES && !self.failing {
                self.write();
            }
        }
        if dropped > 0 {
            let lost = Event {
                at: wall_now(),
                message: None,
                recipients: Recipients::new(),
                kind: Kind::Lost { count: dropped, first },
            };
            json::write_lines(&lost, &mut self.text);
        }
        batch.shrink_to(KEPT_EVENTS);
        self.batch = batch;
        took
    }

    /// Writes the text. Returns true if nothing is left.
    fn write(&mut self) -> bool {
        let (writing, file, text) = (Arc::clone(&self.writing), &mut self.file, &mut self.text);
        match writing.at_disk(|| file.write(text, wall_now())) {
            Ok(bytes) => {
                writing.metrics.written_bytes.add(bytes);
                for (queue, events) in self.queues.iter().zip(&mut self.text_events) {
                    queue.metrics.lag.add(-std::mem::take(events));
                }
                self.text.shrink_to(2 * WRITE_BYTES);
                writing.is_failing.store(false, Ordering::Relaxed);
                if std::mem::take(&mut self.failing) {
                    (self.report)("event log recovered");
                }
                true
            }
            Err(error) => {
                self.fail(&error);
                false
            }
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.writing.metrics.write_failures.inc();
        self.writing.is_failing.store(true, Ordering::Relaxed);
        if !std::mem::replace(&mut self.failing, true) {
            (self.report)(&format!(
                "cannot write the event log, events wait: path={} error={error}",
                self.file.path().display()
            ));
        }
    }

    fn waiting(&self) -> u64 {
        self.queues.iter().map(|queue| lock(&queue.inside).events.len() as u64).sum()
    }
}

#[cfg(test)]
mod tests;
