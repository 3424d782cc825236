//! `[log] deliveries`: a console line for the result of each delivery attempt.
//!
//! Shards push events into one bounded queue, and a thread writes the lines. A console that does not take them delays no
//! mail.

use super::{Adoption, CandidateConfig, EventTaker, Service};
use crate::console::{ConsoleLog, DELIVERIES};
use crate::history::EventLine;
use crate::mutex::lock;
use config::Problem;
use mta::console::{Console as _, Level};
use mta::event::{Event, EventSink, Kind, json};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Maximum number of events that wait for the console; further ones are counted and dropped.
const WAITING_MAX: usize = 16_384;
/// Between two batches of lines.
const PACE: Duration = Duration::from_millis(20);
/// Between two looks while no lines are wanted.
const OFF_PACE: Duration = Duration::from_millis(500);
/// Maximum time for the waiting lines at a stop.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// Writes the lines while `[log] deliveries` is on.
#[derive(Clone)]
pub(crate) struct Deliveries {
    queue: Arc<DeliveryQueue>,
    console: Arc<ConsoleLog>,
    has_writer: Arc<AtomicBool>,
}

/// Events that wait for the console.
#[derive(Debug, Default)]
struct DeliveryQueue {
    is_on: AtomicBool,
    waiting: Mutex<WaitingEvents>,
    /// The writer has taken events and is writing their lines.
    is_writing: AtomicBool,
}

#[derive(Debug, Default)]
struct WaitingEvents {
    events: Vec<Event>,
    dropped: u64,
}

impl EventSink for DeliveryQueue {
    fn emit(&self, event: Event) {
        let is_result = matches!(
            event.kind,
            Kind::Delivered(_)
                | Kind::Relayed(_)
                | Kind::Deferred(_)
                | Kind::Failed(_)
                | Kind::Expired(_)
        );
        if !is_result || !self.is_on() {
            return;
        }
        let mut waiting = lock(&self.waiting);
        if waiting.events.len() < WAITING_MAX {
            waiting.events.push(event);
        } else {
            waiting.dropped += 1;
        }
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

impl DeliveryQueue {
    fn is_empty(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.events.is_empty()
            && waiting.dropped == 0
            && !self.is_writing.load(Ordering::Acquire)
    }

    /// Passes the line of each waiting event to `write`.
    fn write(&self, write: &dyn Fn(fmt::Arguments<'_>)) {
        let WaitingEvents { events, dropped } = {
            let mut waiting = lock(&self.waiting);
            self.is_writing.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        let mut lines = Vec::new();
        for event in &events {
            lines.clear();
            json::write_lines(event, &mut lines);
            // A line for each recipient.
            for line in lines.split(|byte| *byte == b'\n').filter_map(EventLine::parse) {
                write(format_args!("{}", line.untimed_text()));
            }
        }
        if dropped > 0 {
            write(format_args!("lines lost: count={dropped}"));
        }
        self.is_writing.store(false, Ordering::Release);
    }
}

impl Deliveries {
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> Deliveries {
        Deliveries {
            queue: Arc::default(),
            console: Arc::clone(console),
            has_writer: Arc::default(),
        }
    }

    /// Starts the writer, which runs until the process ends, unless it runs.
    fn start(&self) -> Result<(), String> {
        if self.has_writer.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let (queue, console) = (Arc::clone(&self.queue), Arc::clone(&self.console));
        let run = move || {
            loop {
                queue.write(&|text| console.line(Level::Info, DELIVERIES, text));
                thread::sleep(if queue.is_on() { PACE } else { OFF_PACE });
            }
        };
        let started = thread::Builder::new().name("deliveries".to_owned()).spawn(run);
        started.map(drop).map_err(|error| {
            self.has_writer.store(false, Ordering::Release);
            format!("cannot start a thread: {error}")
        })
    }
}

impl Service for Deliveries {
    fn name(&self) -> &'static str {
        "lines about deliveries"
    }

    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let is_on = next.config.log.deliveries;
        if is_on && !next.is_check {
            self.start().map_err(|why| vec![next.config.mistake_at("log.deliveries", why)])?;
        }
        let queue = Arc::clone(&self.queue);
        Ok(Box::new(move || queue.is_on.store(is_on, Ordering::Relaxed)))
    }

    fn events(&self, _shard: u16) -> Option<EventTaker> {
        Some(Arc::<DeliveryQueue>::clone(&self.queue))
    }

    fn finish(&self) {
        let begun = std::time::Instant::now();
        let is_writing = self.has_writer.load(Ordering::Acquire);
        while is_writing && !self.queue.is_empty() && begun.elapsed() < FINISH_MAX {
            thread::sleep(PACE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use mta::event::{FailedAttempt, Recipients};
    use std::cell::RefCell;

    fn event(kind: Kind) -> Event {
        Event { at: Wall(0), message: None, recipients: Recipients::new(), kind }
    }

    fn deferred() -> Event {
        let (hop, failure, class, next_try) = (None, None, None, None);
        event(Kind::Deferred(Box::new(FailedAttempt {
            hop,
            failure,
            class,
            attempts: 1,
            next_try,
        })))
    }

    fn written(queue: &DeliveryQueue) -> Vec<String> {
        let lines = RefCell::new(Vec::new());
        queue.write(&|text| lines.borrow_mut().push(text.to_string()));
        lines.into_inner()
    }

    #[test]
    fn only_results_of_attempts_are_written() {
        let queue = DeliveryQueue::default();
        queue.emit(deferred());
        assert!(queue.is_empty(), "it is off");
        queue.is_on.store(true, Ordering::Relaxed);
        queue.emit(deferred());
        queue.emit(event(Kind::Released));
        assert!(!queue.is_empty());
        assert_eq!(written(&queue), ["deferred   attempts=1"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn events_beyond_the_maximum_are_counted() {
        let queue = DeliveryQueue::default();
        queue.is_on.store(true, Ordering::Relaxed);
        (0..WAITING_MAX + 2).for_each(|_| queue.emit(deferred()));
        let lines = written(&queue);
        assert_eq!(lines.len(), WAITING_MAX + 1);
        assert_eq!(lines.last().map(String::as_str), Some("lines lost: count=2"));
    }
}
