//! The event log: shards push events into bounded queues, one thread formats and writes them.
//!
//! A push is a lock that is nearly never contended and a `Vec::push`; there is a system call only
//! when the writer had nothing to do and sleeps (at most once in [`PACE`]). Nothing here ever
//! holds up mail: when the disk takes nothing more, events wait; when too many wait, further ones
//! are dropped and counted, and a `lost` line names the first of them.
//!
//! Every line about a message carries the position of its spool record, so that a reader can tell
//! one event from another. What a crash or an overflow kept out of the file is lost: the spool
//! frees the records of messages that are settled and keeps none for this log.

mod file;

use crate::mutex::lock;
use crate::world::clock::wall_now;
use config::Events;
use file::LogFile;
use mta::event::{Event, EventSink, Kind, Position, Recipients, json};
use mta::metrics::EventMetrics;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

/// The writer gathers for so long before it writes again.
const PACE: Duration = Duration::from_millis(10);
/// How long the writer waits after a failed write.
const RETRY_PACE: Duration = Duration::from_secs(1);
/// Formatted text is written when it is this long.
const WRITE_BYTES: usize = 256 * 1024;
/// A queue that once was long gives its memory back.
const KEPT_EVENTS: usize = 4_096;

/// The writer and the queues that lead to it.
#[derive(Debug)]
pub(crate) struct EventLog {
    queues: Vec<Arc<EventQueue>>,
    wake: Arc<Wake>,
    writer: Option<JoinHandle<()>>,
}

/// What lets a shard wake the writer.
#[derive(Debug, Default)]
struct Wake {
    /// The writer sleeps until woken.
    idle: AtomicBool,
    stop: AtomicBool,
    writer: Mutex<Option<Thread>>,
}

impl Wake {
    fn wake(&self) {
        if let Some(writer) = &*lock(&self.writer) {
            writer.unpark();
        }
    }
}

/// A shard's end: hand it to the shard as its [`EventSink`].
#[derive(Debug)]
pub(crate) struct EventQueue {
    inside: Mutex<Inside>,
    /// Events that may wait here.
    waiting_max: usize,
    wake: Arc<Wake>,
}

#[derive(Debug, Default)]
struct Inside {
    events: Vec<Event>,
    dropped: u64,
    first_dropped: Option<Position>,
}

impl EventSink for EventQueue {
    fn emit(&self, event: Event) {
        let waiting = {
            let mut inside = lock(&self.inside);
            if inside.events.len() >= self.waiting_max {
                inside.dropped += 1;
                if inside.first_dropped.is_none() {
                    inside.first_dropped = event.message.and_then(|message| message.position);
                }
                return;
            }
            inside.events.push(event);
            inside.events.len()
        };
        // The writer says that it is idle before it looks into the queues a last time, so either
        // it sees this event or this sees its word: the lock lies between the two.
        let idle =
            self.wake.idle.load(Ordering::Relaxed) && self.wake.idle.swap(false, Ordering::Relaxed);
        if idle || waiting == self.waiting_max.div_ceil(2) {
            self.wake.wake();
        }
    }
}

/// Tells of trouble with the file, once when it begins and once when it ends.
pub(crate) type Report = Box<dyn Fn(&str) + Send>;

impl EventLog {
    /// Opens the file and starts the writer, with one queue for each of `shards` shards.
    /// `waiting_max` is shared out among them.
    ///
    /// # Errors
    /// When the file cannot be opened or the thread cannot be started.
    pub(crate) fn start(
        options: &Events,
        shards: usize,
        metrics: Arc<EventMetrics>,
        report: Report,
    ) -> io::Result<EventLog> {
        let file = LogFile::open(options.clone(), wall_now())?;
        let wake = Arc::new(Wake::default());
        let waiting_max = (options.waiting_max as usize / shards.max(1)).max(1);
        let queues: Vec<Arc<EventQueue>> = (0..shards)
            .map(|_| {
                Arc::new(EventQueue {
                    inside: Mutex::default(),
                    waiting_max,
                    wake: Arc::clone(&wake),
                })
            })
            .collect();
        let mut writer = Writer {
            queues: queues.clone(),
            wake: Arc::clone(&wake),
            file,
            text: Vec::new(),
            text_events: 0,
            batch: Vec::new(),
            metrics,
            report,
            failing: false,
        };
        let thread =
            thread::Builder::new().name("events".to_owned()).spawn(move || writer.run())?;
        *lock(&wake.writer) = Some(thread.thread().clone());
        Ok(EventLog { queues, wake, writer: Some(thread) })
    }

    /// The queue of shard `number`.
    #[must_use]
    pub(crate) fn queue(&self, number: usize) -> Option<Arc<EventQueue>> {
        self.queues.get(number).cloned()
    }

    /// Writes what waits and ends the writer. When the disk takes nothing, what waits is lost.
    pub(crate) fn finish(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        if let Some(writer) = self.writer.take() {
            self.wake.stop.store(true, Ordering::Release);
            writer.thread().unpark();
            // A writer that panicked has said so on standard error already.
            let _ = writer.join();
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Writer {
    queues: Vec<Arc<EventQueue>>,
    wake: Arc<Wake>,
    file: LogFile,
    /// Formatted lines that are not written yet.
    text: Vec<u8>,
    /// How many events they stand for.
    text_events: u64,
    /// Swapped with a queue's own.
    batch: Vec<Event>,
    metrics: Arc<EventMetrics>,
    report: Report,
    failing: bool,
}

impl Writer {
    fn run(&mut self) {
        loop {
            let stopping = self.wake.stop.load(Ordering::Acquire);
            let took = self.pass();
            self.show_lag();
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
        self.file.close();
    }

    /// Empties the queues into the file; whether there was anything. While the file takes nothing
    /// the queues are left to fill.
    fn pass(&mut self) -> bool {
        if !self.text.is_empty() && !self.write() {
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

    /// Formats what waits in one queue.
    fn take(&mut self, n: usize) -> bool {
        let mut batch = std::mem::take(&mut self.batch);
        let (dropped, first) = {
            let mut inside = lock(&self.queues[n].inside);
            std::mem::swap(&mut inside.events, &mut batch);
            (std::mem::take(&mut inside.dropped), inside.first_dropped.take())
        };
        let took = !batch.is_empty() || dropped > 0;
        self.metrics.emitted.add(batch.len() as u64 + dropped);
        for event in batch.drain(..) {
            json::write_lines(&event, &mut self.text);
            self.text_events += 1;
            if self.text.len() >= WRITE_BYTES && !self.failing {
                self.write();
            }
        }
        if dropped > 0 {
            self.metrics.dropped.add(dropped);
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

    /// Writes the text; whether all of it is written now.
    fn write(&mut self) -> bool {
        match self.file.write(&mut self.text, wall_now()) {
            Ok(bytes) => {
                self.metrics.written_bytes.add(bytes);
                self.text_events = 0;
                self.text.shrink_to(2 * WRITE_BYTES);
                if std::mem::take(&mut self.failing) {
                    (self.report)("the event log is written again");
                }
                true
            }
            Err(error) => {
                self.metrics.write_failures.inc();
                if !std::mem::replace(&mut self.failing, true) {
                    (self.report)(&format!(
                        "cannot write the event log, events wait: path={} error={error}",
                        self.file.path().display()
                    ));
                }
                false
            }
        }
    }

    fn waiting(&self) -> u64 {
        self.queues.iter().map(|queue| lock(&queue.inside).events.len() as u64).sum()
    }

    fn show_lag(&self) {
        self.metrics.lag.set_u64(self.waiting() + self.text_events);
    }
}

#[cfg(test)]
mod tests;
