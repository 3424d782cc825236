//! `[log] deliveries`: a line for the result of each delivery attempt, or the lines of Postfix for each message.
//!
//! Shards push events into one bounded queue, and a thread writes the lines. A log that does not take them delays no
//! mail.

mod postfix;

use super::{Adoption, CandidateConfig, EventTaker, Service};
use crate::console::{ConsoleLog, LogEntry, LogFields, one_line};
use crate::history::EventLine;
use crate::mutex::lock;
use config::{LogFormat, Problem};
use mta::event::{Event, EventSink, Kind, NotedSession, json};
use postfix::PostfixLines;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
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

/// The kind of the lines.
const KIND: &str = "delivery";

/// Writes the lines while `[log] deliveries` is on.
#[derive(Clone)]
pub(crate) struct Deliveries {
    queue: Arc<DeliveryQueue>,
    console: Arc<ConsoleLog>,
    has_writer: Arc<AtomicBool>,
}

/// The lines that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Wanted {
    Nothing,
    /// Results of attempts.
    Results,
    /// The lines of Postfix.
    Postfix,
}

/// Events that wait for the log.
#[derive(Debug, Default)]
struct DeliveryQueue {
    /// [`Wanted`] as a number.
    wanted: AtomicU8,
    waiting: Mutex<WaitingEvents>,
    /// The writer has taken events and is writing their lines.
    is_writing: AtomicBool,
}

#[derive(Debug, Default)]
struct WaitingEvents {
    events: Vec<Waiting>,
    dropped: u64,
}

#[derive(Debug)]
enum Waiting {
    Event(Event),
    Session(NotedSession),
}

impl EventSink for DeliveryQueue {
    fn emit(&self, event: Event) {
        let is_wanted = match self.wanted() {
            Wanted::Nothing => false,
            Wanted::Results => is_result(&event.kind),
            Wanted::Postfix => postfix::has_line(&event.kind),
        };
        if !is_wanted {
            return;
        }
        self.push(Waiting::Event(event));
    }

    fn is_on(&self) -> bool {
        self.wanted() != Wanted::Nothing
    }

    fn takes_sessions(&self) -> bool {
        self.wanted() == Wanted::Postfix
    }

    fn note_session(&self, noted: NotedSession) {
        if self.takes_sessions() {
            self.push(Waiting::Session(noted));
        }
    }
}

fn is_result(kind: &Kind) -> bool {
    matches!(
        kind,
        Kind::Delivered(_)
            | Kind::Relayed(_)
            | Kind::Deferred(_)
            | Kind::Failed(_)
            | Kind::Expired(_)
    )
}

impl DeliveryQueue {
    fn wanted(&self) -> Wanted {
        match self.wanted.load(Ordering::Relaxed) {
            0 => Wanted::Nothing,
            1 => Wanted::Results,
            _ => Wanted::Postfix,
        }
    }

    fn push(&self, one: Waiting) {
        let mut waiting = lock(&self.waiting);
        if waiting.events.len() < WAITING_MAX {
            waiting.events.push(one);
        } else {
            waiting.dropped += 1;
        }
    }

    fn want(&self, wanted: Wanted) {
        self.wanted.store(wanted as u8, Ordering::Relaxed);
    }

    fn is_empty(&self) -> bool {
        let waiting = lock(&self.waiting);
        waiting.events.is_empty()
            && waiting.dropped == 0
            && !self.is_writing.load(Ordering::Acquire)
    }

    /// Passes the lines of all waiting events to `write`.
    fn write(&self, known: &mut PostfixLines, write: &mut dyn FnMut(&LogEntry<'_>)) {
        let WaitingEvents { events, dropped } = {
            let mut waiting = lock(&self.waiting);
            self.is_writing.store(true, Ordering::Release);
            std::mem::take(&mut *waiting)
        };
        let wanted = self.wanted();
        for one in &events {
            match (one, wanted) {
                (Waiting::Event(event), Wanted::Postfix) => known.write(event, write),
                (Waiting::Event(event), _) => write_results(event, write),
                (Waiting::Session(noted), _) => postfix::write_session(noted, write),
            }
        }
        if dropped > 0 {
            let text = format!("lines lost: count={dropped}");
            write(&LogEntry { text: &text, ..LogEntry::own(KIND) });
        }
        self.is_writing.store(false, Ordering::Release);
    }
}

/// A line for each recipient, as in the event log.
fn write_results(event: &Event, write: &mut dyn FnMut(&LogEntry<'_>)) {
    let mut lines = Vec::new();
    json::write_lines(event, &mut lines);
    let lines = lines.split(|byte| *byte == b'\n').filter_map(EventLine::parse);
    for (line, at) in lines.zip(0..) {
        let text = one_line(format_args!("{}", line.untimed_text()));
        let fields = || fields(event, event.recipients.get(at).copied());
        write(&LogEntry { at: event.at, text: &text, fields: &fields, ..LogEntry::own(KIND) });
    }
}

/// Fields of the journal.
fn fields(event: &Event, recipient: Option<u32>) -> LogFields {
    let mut fields = vec![("POSTRIDER_EVENT", event.kind.name().to_owned())];
    fields.extend(message_id(&event.kind).map(|id| ("MESSAGE_ID", id.to_owned())));
    let Some(message) = &event.message else { return fields };
    fields.push(("POSTRIDER_ID", message.id.to_string()));
    let envelope = message.envelope.as_ref();
    let address = envelope.zip(recipient).and_then(|(e, at)| e.recipients.get(at as usize));
    if let Some(recipient) = address {
        // An address may contain anything between quotation marks.
        fields.push(("POSTRIDER_RECIPIENT", one_line(format_args!("{}", recipient.mailbox))));
    }
    fields.extend(
        postfix::status(&event.kind).map(|status| ("POSTRIDER_STATUS", status.to_string())),
    );
    fields
}

/// The journal's `MESSAGE_ID` of a kind of line (systemd.journal-fields(7)): never changes.
fn message_id(kind: &Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Delivered(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c01",
        Kind::Relayed(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c02",
        Kind::Deferred(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c03",
        Kind::Failed(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c04",
        Kind::Expired(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c05",
        Kind::Received { .. } => "5e0c8a1f3b7d4c0e9a26f1d84b735c06",
        Kind::Refused(_) => "5e0c8a1f3b7d4c0e9a26f1d84b735c07",
        _ => return None,
    })
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
            let mut known = PostfixLines::default();
            loop {
                console.write_all(|write| queue.write(&mut known, write));
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
        let wanted = match (next.config.log.deliveries, next.config.log.format) {
            (false, _) => Wanted::Nothing,
            (true, LogFormat::Postfix) => Wanted::Postfix,
            (true, LogFormat::Text | LogFormat::Json) => Wanted::Results,
        };
        if wanted != Wanted::Nothing && !next.is_check {
            self.start().map_err(|why| vec![next.config.mistake_at("log.deliveries", why)])?;
        }
        let queue = Arc::clone(&self.queue);
        Ok(Box::new(move || queue.want(wanted)))
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
    use mta::event::{AttemptTimes, FailedAttempt, Recipients};

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
            times: AttemptTimes::default(),
        })))
    }

    fn written(queue: &DeliveryQueue) -> Vec<String> {
        let mut lines = Vec::new();
        let mut known = PostfixLines::default();
        queue.write(&mut known, &mut |entry| lines.push(entry.text.to_owned()));
        lines
    }

    #[test]
    fn only_results_of_attempts_are_written() {
        let queue = DeliveryQueue::default();
        queue.emit(deferred());
        assert!(queue.is_empty(), "it is off");
        queue.want(Wanted::Results);
        queue.emit(deferred());
        queue.emit(event(Kind::Released));
        assert!(!queue.is_empty());
        assert_eq!(written(&queue), ["deferred   attempts=1"]);
        assert!(queue.is_empty());
    }

    #[test]
    fn events_beyond_the_maximum_are_counted() {
        let queue = DeliveryQueue::default();
        queue.want(Wanted::Results);
        (0..WAITING_MAX + 2).for_each(|_| queue.emit(deferred()));
        let lines = written(&queue);
        assert_eq!(lines.len(), WAITING_MAX + 1);
        assert_eq!(lines.last().map(String::as_str), Some("lines lost: count=2"));
    }
}
