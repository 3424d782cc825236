//! What becomes of recipients after an attempt: settled, tried again, reported.

use crate::event::{self, Event, Hop, Kind, Trouble};
use crate::gathering::{self, New};
use crate::ingress::event_message;
use crate::message::Message;
use crate::report;
use crate::seams::{Spawn, Time, World};
use crate::shard::{Busy, Shard};
use crate::verdict::{Judged, Verdict};
use mail::{Class, Domain, EnhancedStatus, Failure, MessageId, Mono, Reply, Wall};
use queue::{EntryDetail, EntryId, EntryOutcome, Work};
use spool::{Attempt, LoadError, Record, Settle, SettleKind};
use std::rc::Rc;
use std::sync::Arc;

/// Where an attempt went.
pub(crate) struct Concluded {
    pub(crate) hop: Arc<Hop>,
    /// The mail is in a mailbox here, or discarded: not handed on.
    pub(crate) local: bool,
    /// The peer takes over the sender's wish for reports (RFC 3461 §5.2).
    pub(crate) dsn_passed_on: bool,
}

/// Recipients of one transaction, by what happened to them.
#[derive(Default)]
struct Sorted {
    /// Settled without a report.
    settled: Vec<(u32, SettleKind)>,
    events: Vec<Event>,
    delivered: u64,
    /// To be reported, each with its entry, which is still in flight.
    judged: Vec<Judged>,
    entries: Vec<EntryId>,
    deferred: Vec<Deferral>,
}

/// Concludes the attempt of `work`; `outcomes` are in the order of its entries.
pub(crate) fn conclude<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Rc<Message>,
    work: &Work,
    outcomes: Vec<Result<Reply, Failure>>,
    concluded: &Concluded,
) {
    let mut sorted = Sorted::default();
    for (entry, outcome) in work.entries.iter().zip(outcomes) {
        let &(entry, index, attempts) = entry;
        let verdict = match outcome {
            Ok(reply) if concluded.local => Verdict::Delivered(reply),
            Ok(reply) => Verdict::Relayed(reply),
            Err(failure) if failure.class == Class::Permanent => Verdict::Failed(Arc::new(failure)),
            Err(failure) => {
                defer(shard, &mut sorted.deferred, (entry, index), Arc::new(failure));
                continue;
            }
        };
        let now = shard.world.time().wall();
        let judged = Judged {
            index,
            at: now,
            attempts: attempts.saturating_add(1),
            tried_at: Some(now),
            hop: Some(Arc::clone(&concluded.hop)),
            domain: None,
            verdict,
        };
        count(shard, message, &judged);
        let passed_on = judged.is_delivered() && concluded.dsn_passed_on;
        if !passed_on && report::is_due(shard, message, &judged) {
            sorted.judged.push(judged);
            sorted.entries.push(entry);
        } else {
            settle_entry(shard, entry);
            sorted.settle(shard, message, &judged);
        }
    }
    let hop = Some(&concluded.hop);
    write_deferred(shard, Some(message), work.id, std::mem::take(&mut sorted.deferred), hop);
    settle(shard, message, sorted);
}

/// The queue forgets an entry that is done with.
fn settle_entry<W: World>(shard: &Rc<Shard<W>>, entry: EntryId) {
    let now = shard.now();
    shard.queue.borrow_mut().handle_outcome(now, entry, EntryOutcome::Settled);
}

fn count<W: World>(shard: &Rc<Shard<W>>, message: &Message, judged: &Judged) {
    let metrics = &shard.metrics;
    if judged.is_delivered() {
        metrics.delivery_delay.observe(judged.at.since(message.received_at));
    }
    match judged.verdict {
        Verdict::Delivered(_) => metrics.deliveries.inc(),
        Verdict::Relayed(_) => {
            metrics.relays.inc();
            metrics.bytes_sent.add(message.content_bytes());
        }
        Verdict::Failed(_) => metrics.failures.inc(),
        Verdict::Expired { .. } => metrics.expiries.inc(),
        Verdict::Delayed { .. } => {}
    }
}

impl Sorted {
    /// Nobody is told of this one.
    fn settle<W: World>(&mut self, shard: &Shard<W>, message: &Message, judged: &Judged) {
        let Some(kind) = judged.settle_kind() else { return };
        self.settled.push((judged.index, kind));
        self.delivered += u64::from(judged.is_delivered());
        if shard.events.is_on() {
            self.events.push(judged.event(message));
        }
    }
}

/// Writes what was sorted, and has reported what is to be.
fn settle<W: World>(shard: &Rc<Shard<W>>, message: &Rc<Message>, sorted: Sorted) {
    let count = sorted.settled.len() + sorted.judged.len();
    if !sorted.settled.is_empty() {
        let at = shard.world.time().wall();
        let record = Record::Settle(Settle { id: message.id, at, recipients: sorted.settled });
        shard.settle_later(message.id, record, sorted.events, sorted.delivered);
    }
    if let Some((&last, others)) = sorted.entries.split_last() {
        others.iter().for_each(|&entry| settle_entry(shard, entry));
        let sibling = shard.queue.borrow().sibling(last);
        settle_entry(shard, last);
        let (received_at, judged) = (message.received_at, sorted.judged);
        let new = New { message: Some(message), received_at, judged, sibling };
        gathering::gather(shard, message.id, new);
    }
    if count > 0 {
        release(shard, message.id, count);
    }
}

/// An operator has recipients of one message given up now.
pub(crate) fn fail_now<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Rc<Message>,
    entries: &[EntryDetail],
    failure: &Arc<Failure>,
) {
    let judged = entries
        .iter()
        .map(|entry| {
            let judged = judge(shard, entry, Verdict::Failed(Arc::clone(failure)));
            count(shard, message, &judged);
            judged
        })
        .collect();
    // They left one after the other: the last knows whether another is queued.
    let sibling = entries.last().and_then(|entry| entry.sibling);
    let new = New { message: Some(message), received_at: message.received_at, judged, sibling };
    gathering::gather(shard, message.id, new);
    release(shard, message.id, entries.len());
}

/// Gives back what `count` settled recipients of a message held in memory.
pub(crate) fn release<W: World>(shard: &Rc<Shard<W>>, id: MessageId, count: usize) {
    shard.shared.queue_slots.give_back(count as u64);
    shard.cache.borrow_mut().settle(id, u32::try_from(count).unwrap_or(u32::MAX));
}

/// Recipients that failed for now, for the same reason, and are tried again together.
struct Deferral {
    recipients: Vec<u32>,
    attempts: u16,
    next_try: Mono,
    failure: Arc<Failure>,
}

/// The attempt failed for now.
fn defer<W: World>(
    shard: &Rc<Shard<W>>,
    deferred: &mut Vec<Deferral>,
    (entry, recipient): (EntryId, u32),
    failure: Arc<Failure>,
) {
    let now = shard.now();
    let outcome = EntryOutcome::Deferred(Arc::clone(&failure));
    let mine = shard.queue.borrow_mut().handle_outcome(now, entry, outcome);
    // None: it was too old to wait again and comes back as expired, or an operator removed it.
    let Some(mine) = mine else { return };
    shard.metrics.deferrals.inc();
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

/// Records attempts that failed for now.
fn write_deferred<W: World>(
    shard: &Rc<Shard<W>>,
    message: Option<&Message>,
    id: MessageId,
    deferred: Vec<Deferral>,
    hop: Option<&Arc<Hop>>,
) {
    for Deferral { recipients, attempts, next_try, failure } in deferred {
        let next_try = wall_of(shard, next_try);
        let at = shard.world.time().wall();
        let event = message.filter(|_| shard.events.is_on()).map(|message| Event {
            at,
            message: Some(event_message(message)),
            recipients: event::Recipients::from_slice(&recipients),
            kind: Kind::Deferred(Box::new(Trouble {
                hop: hop.cloned(),
                failure: Some(Arc::clone(&failure)),
                attempts,
                next_try: Some(next_try),
            })),
        });
        let reason = reason(&failure);
        let record = Record::Attempt(Attempt { id, at, recipients, attempts, next_try, reason });
        shard.settle_later(id, record, event, 0);
    }
}

/// Bytes of a failure's text that the spool keeps.
const REASON_BYTES_MAX: usize = 512;

fn reason(failure: &Failure) -> Box<str> {
    let mut text = failure.to_string();
    if text.len() > REASON_BYTES_MAX {
        let end = (0..=REASON_BYTES_MAX).rev().find(|&n| text.is_char_boundary(n)).unwrap_or(0);
        text.truncate(end);
    }
    text.into()
}

/// A moment of the queue's as wall-clock time.
pub(crate) fn wall_of<W: World>(shard: &Shard<W>, at: Mono) -> Wall {
    let (now, wall) = (shard.now(), shard.world.time().wall());
    if at >= now {
        wall.after(at.since(now))
    } else {
        let ago = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
        Wall(wall.0.saturating_sub(ago))
    }
}

/// A part of the message, its `record` or its `body`, could not be read back from the spool: not
/// the peer's fault, and not forgotten.
pub(crate) fn unreadable<W: World>(shard: &Rc<Shard<W>>, work: &Work, part: &str, why: &LoadError) {
    let status = EnhancedStatus::new(4, 3, 0);
    let text = format!("its {part} can't be read: {}", said_of(why));
    let failure = Arc::new(Failure::local(Class::Transient, status, text));
    let mut deferred = Vec::new();
    for &(entry, recipient, _) in &work.entries {
        defer(shard, &mut deferred, (entry, recipient), Arc::clone(&failure));
    }
    write_deferred(shard, None, work.id, deferred, None);
}

/// What the spool said of a message that can't be read, to follow words that say so.
pub(crate) fn said_of(why: &LoadError) -> String {
    match why {
        LoadError::Disk(what) => what.to_string(),
        why => why.to_string(),
    }
}

/// A recipient was given up for its age.
pub(crate) fn expire<W: World>(shard: &Rc<Shard<W>>, entry: EntryDetail) {
    shard.metrics.expiries.inc();
    let verdict = Verdict::Expired { failure: entry.last_failure.clone(), after: entry.age };
    give_up(shard, &entry, verdict);
}

/// A recipient's domain can't be delivered to at all.
pub(crate) fn refuse<W: World>(shard: &Rc<Shard<W>>, entry: EntryDetail, failure: Arc<Failure>) {
    shard.metrics.failures.inc();
    give_up(shard, &entry, Verdict::Failed(failure));
}

fn give_up<W: World>(shard: &Rc<Shard<W>>, entry: &EntryDetail, verdict: Verdict) {
    let judged = vec![judge(shard, entry, verdict)];
    let received_at = received_at(shard, entry);
    let new = New { message: None, received_at, judged, sibling: entry.sibling };
    gathering::gather(shard, entry.id, new);
    release(shard, entry.id, 1);
}

/// A verdict that follows from no attempt.
fn judge<W: World>(shard: &Shard<W>, entry: &EntryDetail, verdict: Verdict) -> Judged {
    let queue = shard.queue.borrow();
    Judged {
        index: entry.recipient,
        at: shard.world.time().wall(),
        attempts: entry.attempts,
        tried_at: None,
        hop: None,
        domain: queue.scheduled_key(entry.scheduled).map(|key| key.domain.clone()),
        verdict,
    }
}

/// Stands for the address of a recipient whose message can't be read.
pub(crate) fn unread_address(domain: Option<&Domain>) -> String {
    domain.map_or_else(|| "?".to_owned(), |domain| format!("?@{domain}"))
}

/// When the message of an entry was received, as far as the queue knows.
pub(crate) fn received_at<W: World>(shard: &Shard<W>, entry: &EntryDetail) -> Wall {
    let age_ms = u64::try_from(entry.age.as_millis()).unwrap_or(u64::MAX);
    Wall(shard.world.time().wall().0.saturating_sub(age_ms))
}

/// An operator removed the entry while it was being tried, and it came back undelivered.
pub(crate) fn removed<W: World>(shard: &Rc<Shard<W>>, entry: EntryDetail) {
    let task = Rc::clone(shard);
    shard.world.spawn().spawn(async move {
        let _busy = Busy::new(&task.stopping);
        // Its event names the message, which can't be read any more once it is settled.
        match task.message(entry.id).await {
            Ok(message) => settle_removed(&task, &message, vec![entry.recipient]),
            Err(_) => settle_later_as_removed(&task, entry.id, vec![entry.recipient], None),
        }
        release(&task, entry.id, 1);
    });
}

/// Settles recipients that an operator removed, with their event.
pub(crate) fn settle_removed<W: World>(shard: &Rc<Shard<W>>, message: &Message, indices: Vec<u32>) {
    let event = Event {
        at: shard.world.time().wall(),
        message: Some(event_message(message)),
        recipients: event::Recipients::from_slice(&indices),
        kind: Kind::Removed,
    };
    settle_later_as_removed(shard, message.id, indices, Some(event));
}

pub(crate) fn settle_later_as_removed<W: World>(
    shard: &Rc<Shard<W>>,
    id: MessageId,
    indices: Vec<u32>,
    event: Option<Event>,
) {
    shard.metrics.removals.add(indices.len() as u64);
    let at = shard.world.time().wall();
    let recipients = indices.into_iter().map(|index| (index, SettleKind::Removed)).collect();
    shard.settle_later(id, Record::Settle(Settle { id, at, recipients }), event, 0);
}

/// The sender should learn that delivery to these recipients of one message takes longer.
pub(crate) fn warn<W: World>(shard: &Rc<Shard<W>>, late: Vec<EntryDetail>) {
    let Some(first) = late.first() else { return };
    let received_at = received_at(shard, first);
    let judged = late
        .iter()
        .map(|entry| {
            let failure = entry.last_failure.clone();
            let give_up_at = give_up_at(shard, received_at, entry);
            judge(shard, entry, Verdict::Delayed { failure, give_up_at, entry: entry.entry })
        })
        .collect();
    let new = New { message: None, received_at, judged, sibling: Some(first.entry) };
    gathering::gather(shard, first.id, new);
}

/// When a recipient of a message that was received then is given up for its age.
pub(crate) fn give_up_at<W: World>(
    shard: &Shard<W>,
    received_at: Wall,
    entry: &EntryDetail,
) -> Wall {
    let age = shard.queue.borrow().give_up_after(entry.scheduled);
    received_at.after(age.unwrap_or_default())
}
