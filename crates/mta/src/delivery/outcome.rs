//! Results of a delivery attempt: recipients are settled, requeued or reported.

use super::pending::NewResults;
use super::unreported::said_of;
use super::verdict::{DeliveryOutcome, RecipientResult, concerned};
use super::{Delivery, gathering, report};
use crate::event::{self, AttemptTimes, Event, FailedAttempt, Hop, Kind};
use crate::message::Message;
use crate::metrics::AttemptOutcome;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure, MessageId, Mono, Reply};
use queue::{Deferred, EntryId, EntryOutcome, TransactionWork};
use spool::{Attempt, LoadError, Record, Settle, SettleKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Facts of an attempt that apply to all recipients of its transaction.
#[derive(Clone, Debug)]
pub struct AttemptContext {
    pub hop: Arc<Hop>,
    /// Accepted recipients are delivered to a mailbox or discarded, not relayed.
    pub local: bool,
    /// The peer is responsible for DSNs to the sender (RFC 3461 §5.2).
    pub dsn_passed_on: bool,
    pub clock: AttemptClock,
}

/// The start of an attempt, if the channel knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttemptClock {
    /// The transaction began; `None`: at once.
    pub begun: Option<Mono>,
    /// Duration of the opening of its connection, in milliseconds; 0 if an earlier message opened it.
    pub opening_ms: u32,
}

impl AttemptClock {
    /// Parts of the time since `since`, from which the work waited for a connection.
    fn times(self, since: Mono, now: Mono) -> AttemptTimes {
        let ms = |time: Duration| u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        let begun = self.begun.unwrap_or(since);
        AttemptTimes {
            waiting_ms: ms(begun.since(since)).saturating_sub(self.opening_ms),
            opening_ms: self.opening_ms,
            sending_ms: ms(now.since(begun)),
        }
    }
}

/// Recipients of one transaction, sorted by result.
#[derive(Default)]
struct Sorted {
    /// Settled without a report.
    settled: Vec<(u32, SettleKind)>,
    events: Vec<Event>,
    delivered: u64,
    /// To be reported, each with its entry, which is still in flight.
    judged: Vec<RecipientResult>,
    entries: Vec<EntryId>,
    deferred: Vec<Deferral>,
}

/// Concludes the attempt of `work`; `outcomes` are in the order of its entries.
pub(crate) fn conclude<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Rc<Message>,
    work: &TransactionWork,
    outcomes: Vec<Result<Reply, Failure>>,
    context: &AttemptContext,
) {
    // Nearly always one recipient, which is settled: no larger capacity is allocated.
    let (settled, events) =
        (Vec::with_capacity(outcomes.len()), Vec::with_capacity(outcomes.len()));
    let mut sorted = Sorted { settled, events, ..Sorted::default() };
    let times = context.clock.times(work.since, delivery.services.now());
    for (entry, outcome) in work.entries.iter().zip(outcomes) {
        let &(entry, index, attempts) = entry;
        let verdict = match outcome {
            Ok(reply) if context.local => DeliveryOutcome::Delivered(reply),
            Ok(reply) => DeliveryOutcome::Relayed(reply),
            Err(failure) if failure.class == Class::Permanent => {
                DeliveryOutcome::Failed(Arc::new(failure))
            }
            Err(failure) => {
                defer(delivery, &mut sorted.deferred, (entry, index), Arc::new(failure));
                continue;
            }
        };
        let now = delivery.services.wall();
        let judged = RecipientResult {
            index,
            at: now,
            attempts: attempts.saturating_add(1),
            tried_at: Some(now),
            hop: Some(Arc::clone(&context.hop)),
            times,
            domain: None,
            verdict,
        };
        judged.count(&delivery.services, message);
        let passed_on = judged.is_delivered() && context.dsn_passed_on;
        if !passed_on && report::is_due(delivery, message, &judged) {
            sorted.judged.push(judged);
            sorted.entries.push(entry);
        } else {
            settle_entry(delivery, entry);
            sorted.settle(delivery, message, &judged);
        }
    }
    let hop = Some((&context.hop, times));
    write_deferred(delivery, Some(message), work.id, std::mem::take(&mut sorted.deferred), hop);
    settle(delivery, message, sorted);
}

/// Removes a finished entry from the queue.
fn settle_entry<W: World>(delivery: &Rc<Delivery<W>>, entry: EntryId) {
    let now = delivery.services.now();
    delivery.schedule.queue_mut().handle_outcome(now, entry, EntryOutcome::Settled);
}

impl Sorted {
    /// Settles this recipient without a report.
    fn settle<W: World>(
        &mut self,
        delivery: &Delivery<W>,
        message: &Message,
        judged: &RecipientResult,
    ) {
        let Some(kind) = judged.settle_kind() else { return };
        self.settled.push((judged.index, kind));
        self.delivered += u64::from(judged.is_delivered());
        if delivery.services.events.is_on() {
            self.events.push(judged.event(&delivery.services, message));
        }
    }
}

/// Records the sorted results, and has the reports written that are due.
fn settle<W: World>(delivery: &Rc<Delivery<W>>, message: &Rc<Message>, sorted: Sorted) {
    let count = sorted.settled.len() + sorted.judged.len();
    if !sorted.settled.is_empty() {
        let at = delivery.services.wall();
        let record = Record::Settle(Settle { id: message.id, at, recipients: sorted.settled });
        delivery.custody.settle_later(message.id, record, sorted.events, sorted.delivered);
    }
    if let Some((&last, others)) = sorted.entries.split_last() {
        others.iter().for_each(|&entry| settle_entry(delivery, entry));
        let sibling = delivery.schedule.queue().sibling(last);
        settle_entry(delivery, last);
        let (received_at, judged) = (message.received_at, sorted.judged);
        let new = NewResults { message: Some(message), received_at, judged, sibling };
        gathering::gather(delivery, message.id, new);
    }
    if count > 0 {
        delivery.custody.release(message.id, count);
    }
}

/// Recipients with the same transient failure, which are retried together.
struct Deferral {
    recipients: Vec<u32>,
    attempts: u16,
    next_try: Mono,
    failure: Arc<Failure>,
}

/// Defers a recipient.
fn defer<W: World>(
    delivery: &Rc<Delivery<W>>,
    deferred: &mut Vec<Deferral>,
    (entry, recipient): (EntryId, u32),
    failure: Arc<Failure>,
) {
    let now = delivery.services.now();
    let outcome = EntryOutcome::Deferred(Arc::clone(&failure));
    let mine = delivery.schedule.queue_mut().handle_outcome(now, entry, outcome);
    // `None`: the entry was too old to wait again and is returned as expired, or an operator removed it.
    if let Some(mine) = mine {
        note_deferred(deferred, recipient, mine, failure);
    }
}

/// Notes that the queue deferred a recipient.
fn note_deferred(
    deferred: &mut Vec<Deferral>,
    recipient: u32,
    mine: Deferred,
    failure: Arc<Failure>,
) {
    let same = deferred.iter_mut().find(|other| {
        (other.attempts, other.next_try) == (mine.attempts, mine.next_try)
            && *other.failure == *failure
    });
    match same {
        Some(same) => same.recipients.push(recipient),
        None => deferred.push(Deferral {
            recipients: vec![recipient],
            attempts: mine.attempts,
            next_try: mine.next_try,
            failure,
        }),
    }
}

/// Records that the queue deferred recipients of a message before contacting a hop.
pub(crate) fn put_off<W: World>(
    delivery: &Delivery<W>,
    message: Option<&Message>,
    id: MessageId,
    recipients: impl Iterator<Item = (u32, Deferred, Arc<Failure>)>,
) {
    let mut deferred = Vec::new();
    for (recipient, mine, failure) in recipients {
        note_deferred(&mut deferred, recipient, mine, failure);
    }
    write_deferred(delivery, message, id, deferred, None);
}

/// Records deferred attempts.
fn write_deferred<W: World>(
    delivery: &Delivery<W>,
    message: Option<&Message>,
    id: MessageId,
    deferred: Vec<Deferral>,
    hop: Option<(&Arc<Hop>, AttemptTimes)>,
) {
    let (hop, times) = hop.unzip();
    for Deferral { recipients, attempts, next_try, failure } in deferred {
        let class = delivery.services.note_deferred(&failure, recipients.len() as u64);
        let concerned = concerned(hop.map(|hop| &**hop), message);
        delivery.services.shared.sending.note(
            concerned,
            AttemptOutcome::Deferred,
            recipients.len() as u64,
        );
        let next_try = delivery.services.wall_of(next_try);
        let at = delivery.services.wall();
        let event = message.filter(|_| delivery.services.events.is_on()).map(|message| Event {
            at,
            message: Some(message.in_events()),
            recipients: event::Recipients::from_slice(&recipients),
            kind: Kind::Deferred(Box::new(FailedAttempt {
                hop: hop.cloned(),
                class,
                failure: Some(Arc::clone(&failure)),
                attempts,
                next_try: Some(next_try),
                times: times.unwrap_or_default(),
            })),
        });
        let reason = reason(&failure);
        let record = Record::Attempt(Attempt { id, at, recipients, attempts, next_try, reason });
        delivery.custody.settle_later(id, record, event, 0);
    }
}

/// Maximum length of a stored failure text in bytes.
const REASON_BYTES_MAX: usize = 512;

fn reason(failure: &Failure) -> Box<str> {
    let mut text = failure.to_string();
    text.truncate(text.floor_char_boundary(REASON_BYTES_MAX));
    text.into()
}

/// Handles a message with a part (its `record` or its `body`) that can't be read from the spool: not the peer's fault,
/// and kept.
pub(crate) fn unreadable<W: World>(
    delivery: &Rc<Delivery<W>>,
    work: &TransactionWork,
    part: &str,
    why: &LoadError,
) {
    let failure = unread(part, why);
    let mut deferred = Vec::new();
    for &(entry, recipient, _) in &work.entries {
        defer(delivery, &mut deferred, (entry, recipient), Arc::clone(&failure));
    }
    write_deferred(delivery, None, work.id, deferred, None);
}

/// The failure of a message with an unreadable part. RFC 3463 §3.4: X.3.0 is the mail system.
pub(crate) fn unread(part: &str, why: &LoadError) -> Arc<Failure> {
    let text = format!("its {part} cannot be read: {}", said_of(why));
    Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), text))
}
