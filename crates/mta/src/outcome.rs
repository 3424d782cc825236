//! What becomes of recipients after an attempt: settled, tried again, reported.

use crate::event::{self, Done, Event, Hop, Kind, Trouble};
use crate::ingress::event_message;
use crate::message::Message;
use crate::report::{self, Verdict};
use crate::seams::{Spawn, Time, World};
use crate::shard::{Busy, Shard};
use crate::unreported::{GivenUp, Obstacle, PutOff};
use mail::{Class, Domain, EnhancedStatus, Failure, MessageId, Mono, Notify, Reply, Wall};
use queue::{EntryDetail, EntryId, EntryOutcome, Work};
use spool::{Attempt, LoadError, Record, Settle, SettleKind, State};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

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
    settled: Vec<(u32, SettleKind)>,
    events: Vec<Event>,
    /// Recipients to report about.
    verdicts: Vec<(u32, Verdict)>,
    delivered: u64,
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
        let &(entry, recipient, attempts) = entry;
        let attempts = attempts.saturating_add(1);
        match outcome {
            Ok(reply) => {
                settle_entry(shard, entry);
                delivered(shard, message, recipient, reply, attempts, concluded, &mut sorted);
            }
            Err(failure) if failure.class == Class::Permanent => {
                settle_entry(shard, entry);
                let failure = Arc::new(failure);
                let hop = Some(Arc::clone(&concluded.hop));
                failed(shard, message, recipient, failure, attempts, hop, &mut sorted);
            }
            Err(failure) => {
                let hop = Some(Arc::clone(&concluded.hop));
                defer(shard, Some(message), work.id, (entry, recipient), &Arc::new(failure), hop);
            }
        }
    }
    settle(shard, message, sorted);
}

/// The queue forgets an entry that is done with.
fn settle_entry<W: World>(shard: &Rc<Shard<W>>, entry: EntryId) {
    let now = shard.now();
    shard.queue.borrow_mut().handle_outcome(now, entry, EntryOutcome::Settled);
}

fn delivered<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Message,
    recipient: u32,
    reply: Reply,
    attempts: u16,
    concluded: &Concluded,
    sorted: &mut Sorted,
) {
    let now = shard.world.time().wall();
    let kind = if concluded.local { SettleKind::Delivered } else { SettleKind::Relayed };
    sorted.settled.push((recipient, kind));
    sorted.delivered += 1;
    shard.metrics.delivery_delay.observe(now.since(message.received_at));
    match kind {
        SettleKind::Delivered => shard.metrics.deliveries.inc(),
        _ => {
            shard.metrics.relays.inc();
            shard.metrics.bytes_sent.add(message.content_bytes());
        }
    }
    let wants = message
        .envelope
        .recipients
        .get(recipient as usize)
        .is_some_and(|r| r.notify.is_specified() && r.notify.wants(Notify::SUCCESS));
    if wants && !concluded.dsn_passed_on {
        let verdict = if concluded.local {
            Verdict::Delivered(reply.clone())
        } else {
            Verdict::Relayed { reply: reply.clone(), hop: Arc::clone(&concluded.hop) }
        };
        sorted.verdicts.push((recipient, verdict));
    }
    if shard.events.is_on() {
        let done = Box::new(Done { hop: Arc::clone(&concluded.hop), reply: Some(reply), attempts });
        let kind = match kind {
            SettleKind::Delivered => Kind::Delivered(done),
            _ => Kind::Relayed(done),
        };
        sorted.events.push(event_of(message, recipient, now, kind));
    }
}

fn failed<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Message,
    recipient: u32,
    failure: Arc<Failure>,
    attempts: u16,
    hop: Option<Arc<Hop>>,
    sorted: &mut Sorted,
) {
    sorted.settled.push((recipient, SettleKind::Failed));
    shard.metrics.failures.inc();
    let trouble = Trouble { hop, failure: Some(Arc::clone(&failure)), attempts, next_try: None };
    let now = shard.world.time().wall();
    sorted.events.push(event_of(message, recipient, now, Kind::Failed(Box::new(trouble))));
    sorted.verdicts.push((recipient, Verdict::Failed(failure)));
}

fn event_of(message: &Message, recipient: u32, at: Wall, kind: Kind) -> Event {
    Event {
        at,
        message: Some(event_message(message)),
        recipients: event::Recipients::from_slice(&[recipient]),
        kind,
    }
}

/// Writes what was sorted: a report, if one is due, becomes durable with the settle it reports.
fn settle<W: World>(shard: &Rc<Shard<W>>, message: &Rc<Message>, sorted: Sorted) {
    if sorted.settled.is_empty() {
        return;
    }
    let count = sorted.settled.len();
    let record = Record::Settle(Settle {
        id: message.id,
        at: shard.world.time().wall(),
        recipients: sorted.settled,
    });
    release(shard, message.id, count);
    if sorted.verdicts.is_empty() {
        shard.settle_later(message.id, record, sorted.events, sorted.delivered);
    } else {
        let (verdicts, delivered) = (sorted.verdicts, sorted.delivered);
        report::send(shard, message, verdicts, record, sorted.events, delivered);
    }
}

/// An operator has recipients of one message given up now.
pub(crate) fn fail_now<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Rc<Message>,
    entries: &[EntryDetail],
    failure: &Arc<Failure>,
) {
    let mut sorted = Sorted::default();
    for entry in entries {
        let failure = Arc::clone(failure);
        failed(shard, message, entry.recipient, failure, entry.attempts, None, &mut sorted);
    }
    settle(shard, message, sorted);
}

/// Gives back what `count` settled recipients of a message held in memory.
pub(crate) fn release<W: World>(shard: &Rc<Shard<W>>, id: MessageId, count: usize) {
    shard.shared.queue_slots.give_back(count as u64);
    shard.cache.borrow_mut().settle(id, u32::try_from(count).unwrap_or(u32::MAX));
}

/// The attempt failed for now.
fn defer<W: World>(
    shard: &Rc<Shard<W>>,
    message: Option<&Message>,
    id: MessageId,
    (entry, recipient): (EntryId, u32),
    failure: &Arc<Failure>,
    hop: Option<Arc<Hop>>,
) {
    let now = shard.now();
    let outcome = EntryOutcome::Deferred(Arc::clone(failure));
    let deferred = shard.queue.borrow_mut().handle_outcome(now, entry, outcome);
    // None: it was too old to wait again and comes back as expired, or an operator removed it.
    let Some(deferred) = deferred else { return };
    shard.metrics.deferrals.inc();
    let next_try = wall_of(shard, deferred.next_try);
    let at = shard.world.time().wall();
    let record = Record::Attempt(Attempt {
        id,
        at,
        recipients: vec![recipient],
        attempts: deferred.attempts,
        next_try,
        reason: reason(failure),
    });
    let event = message.map(|message| {
        let trouble = Trouble {
            hop,
            failure: Some(Arc::clone(failure)),
            attempts: deferred.attempts,
            next_try: Some(next_try),
        };
        event_of(message, recipient, at, Kind::Deferred(Box::new(trouble)))
    });
    shard.settle_later(id, record, event, 0);
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
    let failure = &Arc::new(Failure::local(Class::Transient, status, text));
    for &(entry, recipient, _) in &work.entries {
        defer(shard, None, work.id, (entry, recipient), failure, None);
    }
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
    let failure = entry.last_failure.clone().unwrap_or_else(report::unknown_failure);
    shard.metrics.expiries.inc();
    give_up(shard, entry, failure, SettleKind::Expired);
}

/// A recipient's domain can't be delivered to at all.
pub(crate) fn refuse<W: World>(shard: &Rc<Shard<W>>, entry: EntryDetail, failure: Arc<Failure>) {
    shard.metrics.failures.inc();
    give_up(shard, entry, failure, SettleKind::Failed);
}

fn give_up<W: World>(
    shard: &Rc<Shard<W>>,
    entry: EntryDetail,
    failure: Arc<Failure>,
    kind: SettleKind,
) {
    let task = Rc::clone(shard);
    let domain = {
        let queue = shard.queue.borrow();
        queue.scheduled_key(entry.scheduled).map(|key| key.domain.clone())
    };
    shard.world.spawn().spawn(async move {
        let waiting = Unread { entry: &entry, domain, failure: &failure };
        let Some(message) = waiting.message(&task).await else {
            return release(&task, entry.id, 1);
        };
        let at = task.world.time().wall();
        let recipients = vec![(entry.recipient, kind)];
        let record = Record::Settle(Settle { id: entry.id, at, recipients });
        release(&task, entry.id, 1);
        let trouble = Trouble {
            hop: None,
            failure: Some(Arc::clone(&failure)),
            attempts: entry.attempts,
            next_try: None,
        };
        let (kind, verdict) = match kind {
            SettleKind::Expired => (Kind::Expired(Box::new(trouble)), Verdict::Expired(failure)),
            _ => (Kind::Failed(Box::new(trouble)), Verdict::Failed(failure)),
        };
        let event = event_of(&message, entry.recipient, at, kind);
        report::send(&task, &message, vec![(entry.recipient, verdict)], record, vec![event], 0);
    });
}

/// First and longest wait for a message that must be read and can't be.
const UNREADABLE_WAIT: Duration = Duration::from_secs(60);
const UNREADABLE_WAIT_MAX: Duration = Duration::from_secs(3600);

/// A recipient that was given up, and whose message must be read before anybody can be told.
struct Unread<'a> {
    entry: &'a EntryDetail,
    domain: Option<Domain>,
    failure: &'a Arc<Failure>,
}

impl Unread<'_> {
    /// The message, however long it takes: without it nobody knows whom to tell, and until somebody
    /// was told its recipient stays in the spool, listed as not reported. Lack of descriptors
    /// passes; damage asks for an operator, who finds each failure on the console. `None`: there is
    /// nobody to tell about, for an operator removed it.
    async fn message<W: World>(&self, shard: &Rc<Shard<W>>) -> Option<Rc<Message>> {
        let id = self.entry.id;
        let key = (id, Obstacle::Record(self.entry.recipient));
        let mut wait = UNREADABLE_WAIT;
        let mut read = shard.message(id).await;
        loop {
            let why = match read {
                Ok(message) => return Some(message),
                // No recipient of it is open in the spool.
                Err(LoadError::NotFound) => return None,
                Err(why) => why,
            };
            let time = shard.world.time();
            let next_try = time.now() + wait;
            wait = (wait * 2).min(UNREADABLE_WAIT_MAX);
            let given_up = self.given_up(shard, &why);
            if let PutOff::Wait(hurry) = shard.unreported.put_off(key, next_try, vec![given_up]) {
                tokio::select! {
                    biased;
                    () = hurry.notified() => {}
                    () = time.sleep_until(next_try) => {}
                }
            }
            read = shard.message(id).await;
            if !shard.unreported.is_waiting(key) {
                return None;
            }
            if matches!(read, Ok(_) | Err(LoadError::NotFound)) {
                shard.unreported.conclude(key);
            }
        }
    }

    fn given_up<W: World>(&self, shard: &Shard<W>, why: &LoadError) -> GivenUp {
        GivenUp {
            index: self.entry.recipient,
            address: unread_address(self.domain.as_ref()),
            domain: self.domain.clone(),
            received_at: received_at(shard, self.entry),
            attempts: self.entry.attempts,
            failure: Some(Arc::clone(self.failure)),
            unreadable: Some(said_of(why).into()),
        }
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

/// The sender should learn that delivery takes longer.
pub(crate) fn warn<W: World>(shard: &Rc<Shard<W>>, entry: EntryDetail) {
    let task = Rc::clone(shard);
    shard.world.spawn().spawn(async move {
        let Ok(message) = task.message(entry.id).await else { return };
        let record = Record::State(State {
            id: entry.id,
            hold: None,
            next_try: None,
            route_override: None,
            delay_notice_sent: Some(true),
        });
        let at = task.world.time().wall();
        let failure = entry.last_failure.clone().unwrap_or_else(report::unknown_failure);
        let trouble = Trouble {
            hop: None,
            failure: Some(Arc::clone(&failure)),
            attempts: entry.attempts,
            next_try: None,
        };
        let give_up_at = give_up_at(&task, message.received_at, &entry);
        let verdict = Verdict::Delayed { failure, give_up_at };
        // The event says that the sender was told.
        let told = report::is_wanted(&message, entry.recipient, &verdict);
        let delayed = || Kind::Delayed(Box::new(trouble));
        let event = told.then(|| event_of(&message, entry.recipient, at, delayed()));
        let verdicts = vec![(entry.recipient, verdict)];
        report::send(&task, &message, verdicts, record, event.into_iter().collect(), 0);
    });
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
