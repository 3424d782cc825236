//! Telling the sender: DSNs, durable together with the settle that they report.

use crate::event::{Event, Hop, Kind, Trouble};
use crate::ingress::{accept_record, event_message, resolve_postmasters};
use crate::message::{Message, MessageBody};
use crate::outcome;
use crate::seams::{Spawn, Time, World};
use crate::settle::emit_at;
use crate::shard::Shard;
use crate::unreported::{GivenUp, Obstacle, PutOff, WaitKey};
use bytes::Bytes;
use mail::dsn::{Original, Outcome, RecipientReport, Report, Success};
use mail::{
    BodyType, Class, ContentScanner, EnhancedStatus, Envelope, Failure, Mailbox, Notify, Recipient,
    Reply, Ret, Wall,
};
use spool::{Completion, Meta, Record, Refusal, Settle, SettleKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A message of up to so many bytes is returned whole where RET=FULL asks for it.
const FULL_BYTES_MAX: u64 = 64 * 1024;
/// How much of a message is looked at for its header.
const HEADER_BYTES_MAX: usize = 64 * 1024;
/// How long a report waits when the disk is full.
const FULL_WAIT: Duration = Duration::from_secs(10);

/// What is to be told about one recipient.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// Given up.
    Failed(Arc<Failure>),
    /// Given up for its age; the last failure.
    Expired(Arc<Failure>),
    /// Still trying.
    Delayed {
        /// Why it takes so long.
        failure: Arc<Failure>,
        /// When it is given up.
        give_up_at: Wall,
    },
    /// In a mailbox here.
    Delivered(Reply),
    /// Handed to a server that does not know DSNs.
    Relayed {
        /// What it said.
        reply: Reply,
        /// Where that was.
        hop: Arc<Hop>,
    },
}

impl Verdict {
    /// The wish that asks for such a report.
    fn wish(&self) -> Notify {
        match self {
            Verdict::Failed(_) | Verdict::Expired(_) => Notify::FAILURE,
            Verdict::Delayed { .. } => Notify::DELAY,
            Verdict::Delivered(_) | Verdict::Relayed { .. } => Notify::SUCCESS,
        }
    }
}

/// For what failed without a reason that is still known.
pub(crate) fn unknown_failure() -> Arc<Failure> {
    let status = EnhancedStatus::new(4, 4, 7);
    Arc::new(Failure::local(Class::Transient, status, "the message could not be delivered in time"))
}

/// Whether the sender is to be told.
pub(crate) fn is_wanted(message: &Message, index: u32, verdict: &Verdict) -> bool {
    // RFC 5321 §4.5.5: a null reverse-path is never reported to.
    message.envelope.reverse_path.is_some()
        && message
            .envelope
            .recipients
            .get(index as usize)
            .is_some_and(|recipient| recipient.notify.wants(verdict.wish()))
}

/// Sends the reports that are due for `verdicts` (of one message) and makes `record` durable with
/// them. Without any report the record goes alone. `delivered` counts the recipients of which the
/// record says that they were delivered.
pub(crate) fn send<W: World>(
    shard: &Rc<Shard<W>>,
    message: &Rc<Message>,
    verdicts: Vec<(u32, Verdict)>,
    record: Record,
    events: Vec<Event>,
    delivered: u64,
) {
    let wanted: Vec<(u32, Verdict)> = verdicts
        .into_iter()
        .filter(|(index, verdict)| is_wanted(message, *index, verdict))
        .collect();
    let (Some(sender), false) = (&message.envelope.reverse_path, wanted.is_empty()) else {
        return shard.settle_later(message.id, record, events, delivered);
    };
    shard.count_unsettled(delivered);
    count(shard, &wanted);
    let action = action_name(wanted[0].1.wish());
    let due = Due {
        dsn: Rc::new(compose(shard, message, sender, &wanted)),
        original: Rc::clone(message),
        action,
        record,
        events,
        delivered,
    };
    shard.shared.queue_slots.take(1);
    let shard = Rc::clone(shard);
    let world = shard.world.clone();
    world.spawn().spawn(async move { due.submit(&shard).await });
}

/// A report that must become durable with the record of what it reports.
struct Due {
    dsn: Rc<Message>,
    original: Rc<Message>,
    action: &'static str,
    record: Record,
    events: Vec<Event>,
    delivered: u64,
}

impl Due {
    async fn submit<W: World>(mut self, shard: &Rc<Shard<W>>) {
        let id = self.original.id;
        let mut is_told = false;
        loop {
            match shard.spool.submit(id, self.records()).await {
                Completion::Durable { position } => return self.conclude(shard, position),
                // A recipient that failed stays open in the spool until there is room to say so.
                Completion::Refused(Refusal::Full | Refusal::Scarce) => {
                    self.settle_delivered(shard);
                }
                // Until the restart that such a log needs they stay known, and are tried again.
                other => {
                    if !std::mem::replace(&mut is_told, true) {
                        shard.handle_refused(id.log(), "cannot write a report", &other);
                    }
                    shard.pump();
                }
            }
            if !self.wait_for_room(shard).await {
                return shard.shared.queue_slots.give_back(1);
            }
        }
    }

    /// Waits for the next try. False: an operator has removed the recipients, and nobody is told.
    async fn wait_for_room<W: World>(&self, shard: &Rc<Shard<W>>) -> bool {
        let time = shard.world.time();
        let next_try = time.now() + FULL_WAIT;
        if !self.events.iter().any(|event| trouble_of(event).is_some()) {
            // Nobody was given up: what is reported about is in the queue, or delivered.
            time.sleep_until(next_try).await;
            return true;
        }
        let key = self.key();
        match shard.unreported.put_off(key, next_try, self.given_up()) {
            PutOff::Removed => {
                let indices = self.given_up().iter().map(|recipient| recipient.index).collect();
                outcome::settle_removed(shard, &self.original, indices);
                false
            }
            PutOff::Wait(hurry) => {
                tokio::select! {
                    biased;
                    () = hurry.notified() => {}
                    () = time.sleep_until(next_try) => {}
                }
                shard.unreported.submit(key)
            }
        }
    }

    fn key(&self) -> WaitKey {
        (self.original.id, Obstacle::Report(self.dsn.id))
    }

    /// The recipients that stay open until the report is written.
    fn given_up(&self) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        for event in &self.events {
            let Some(trouble) = trouble_of(event) else { continue };
            for &index in &event.recipients {
                let recipient = self.original.envelope.recipients.get(index as usize);
                given_up.extend(recipient.map(|recipient| GivenUp {
                    index,
                    address: recipient.mailbox.to_string(),
                    domain: Some(recipient.mailbox.domain()),
                    received_at: self.original.received_at,
                    attempts: trouble.attempts,
                    failure: trouble.failure.clone(),
                    unreadable: None,
                }));
            }
        }
        given_up
    }

    /// What was delivered is recorded at once, report or not: left open, it would be delivered
    /// again after a crash, and egress would stand still for want of settles. Whoever asked to
    /// hear of a success may then not hear of it if the process ends before there is room.
    fn settle_delivered<W: World>(&mut self, shard: &Rc<Shard<W>>) {
        let Record::Settle(settle) = &mut self.record else { return };
        let is_delivered =
            |kind: SettleKind| matches!(kind, SettleKind::Delivered | SettleKind::Relayed);
        let recipients = std::mem::take(&mut settle.recipients);
        let (delivered, failed) = recipients.into_iter().partition(|(_, kind)| is_delivered(*kind));
        settle.recipients = failed;
        if self.delivered == 0 {
            return;
        }
        let alone = Record::Settle(Settle { id: settle.id, at: settle.at, recipients: delivered });
        let events = std::mem::take(&mut self.events);
        let (now, later): (Vec<_>, _) = events
            .into_iter()
            .partition(|event| matches!(event.kind, Kind::Delivered(_) | Kind::Relayed(_)));
        self.events = later;
        // Counted again by whoever writes it now.
        shard.settles.handle_durable(self.delivered);
        let count = std::mem::take(&mut self.delivered);
        shard.settle_later(self.original.id, alone, now, count);
    }

    /// What becomes durable in one submit. A settle that was written without the report is not
    /// written again.
    fn records(&self) -> Vec<Record> {
        let accept = Record::Accept(Box::new(accept_record(&self.dsn)));
        match &self.record {
            Record::Settle(settle) if settle.recipients.is_empty() => vec![accept],
            record => vec![record.clone(), accept],
        }
    }

    fn conclude<W: World>(self, shard: &Rc<Shard<W>>, position: u64) {
        let log = self.original.id.log();
        shard.unreported.conclude(self.key());
        shard.settles.handle_durable(self.delivered);
        for event in self.events {
            emit_at(&*shard.events, event, log, position);
        }
        if shard.events.is_on() {
            let event = Event {
                at: self.dsn.received_at,
                message: Some(event_message(&self.original)),
                recipients: crate::event::Recipients::new(),
                kind: Kind::DsnQueued { dsn: self.dsn.id, action: self.action },
            };
            emit_at(&*shard.events, event, log, position);
        }
        shard.enqueue(&self.dsn);
    }
}

/// What went wrong, of an event that says that its recipient was given up.
fn trouble_of(event: &Event) -> Option<&Trouble> {
    match &event.kind {
        Kind::Failed(trouble) | Kind::Expired(trouble) => Some(trouble),
        _ => None,
    }
}

fn action_name(wish: Notify) -> &'static str {
    match wish {
        Notify::FAILURE => "failed",
        Notify::DELAY => "delayed",
        _ => "delivered",
    }
}

fn count<W: World>(shard: &Shard<W>, wanted: &[(u32, Verdict)]) {
    match wanted[0].1.wish() {
        Notify::FAILURE => shard.metrics.dsns_failed.inc(),
        Notify::DELAY => shard.metrics.dsns_delayed.inc(),
        _ => shard.metrics.dsns_success.inc(),
    }
}

fn compose<W: World>(
    shard: &Shard<W>,
    message: &Message,
    sender: &Mailbox,
    wanted: &[(u32, Verdict)],
) -> Message {
    let id = shard.spool.allocate_id_beside(message.id);
    let now = shard.world.time().wall();
    let active = shard.active();
    let recipients: Vec<RecipientReport<'_>> = wanted
        .iter()
        .filter_map(|(index, verdict)| {
            let recipient = message.envelope.recipients.get(*index as usize)?;
            Some(RecipientReport {
                recipient,
                outcome: outcome_of(verdict),
                last_attempt: Some(now),
            })
        })
        .collect();
    let original = original_bytes(message);
    let wants_full = message.envelope.ret == Some(Ret::Full)
        && wanted.iter().any(|(_, verdict)| verdict.wish() == Notify::FAILURE);
    let pieces = [original.as_slice()];
    let whole = matches!(message.body, MessageBody::Memory(_))
        && original.len() as u64 == message.content_bytes();
    let report = Report {
        hostname: active.config.hostname.as_str(),
        id: message.id,
        report_id: id,
        to: sender,
        envid: message.envelope.envid.as_deref(),
        smtputf8: message.envelope.smtputf8,
        arrived: message.received_at,
        now,
        recipients: &recipients,
        original: if wants_full && whole {
            Original::Full(&pieces)
        } else {
            Original::Headers(&original)
        },
    };
    let smtputf8 = report.needs_smtputf8();
    let mut dsn = as_message(report.compose(), id, now, sender, smtputf8);
    let mut envelope = Envelope::clone(&dsn.envelope);
    if let Some(field) = resolve_postmasters(&active.config, &mut envelope) {
        dsn.envelope = Arc::new(envelope);
        dsn.meta.fields.push(field);
    }
    dsn
}

/// The prefix and as much of the body as is worth looking at. A body on disk is not waited for:
/// its report says who and why, and returns the fields that we added.
fn original_bytes(message: &Message) -> Vec<u8> {
    let mut bytes = message.prefix.to_vec();
    if let MessageBody::Memory(pieces) = &message.body {
        let limit =
            if message.content_bytes() <= FULL_BYTES_MAX { usize::MAX } else { HEADER_BYTES_MAX };
        for piece in pieces {
            let room = limit.saturating_sub(bytes.len()).min(piece.len());
            bytes.extend_from_slice(&piece[..room]);
        }
    }
    bytes
}

fn outcome_of(verdict: &Verdict) -> Outcome<'_> {
    match verdict {
        Verdict::Failed(failure) | Verdict::Expired(failure) => Outcome::Failed(failure),
        Verdict::Delayed { failure, give_up_at } => {
            Outcome::Delayed { failure, retry_until: *give_up_at }
        }
        Verdict::Delivered(reply) => Outcome::Delivered(Success { peer: None, reply: Some(reply) }),
        Verdict::Relayed { reply, hop } => {
            Outcome::Relayed(Success { peer: Some(&hop.peer), reply: Some(reply) })
        }
    }
}

fn as_message(
    content: Vec<u8>,
    id: mail::MessageId,
    now: Wall,
    to: &Mailbox,
    smtputf8: bool,
) -> Message {
    let mut scanner = ContentScanner::default();
    scanner.push(&content);
    let facts = scanner.finish();
    Message {
        id,
        received_at: now,
        envelope: Arc::new(Envelope {
            reverse_path: None,
            // RFC 3461 §6: nobody is told what becomes of a report.
            recipients: vec![Recipient { mailbox: to.clone(), notify: Notify::NEVER, orcpt: None }],
            body: if facts.has_8bit { BodyType::EightBit } else { BodyType::SevenBit },
            smtputf8,
            ret: None,
            envid: None,
        }),
        meta: Meta::default(),
        prefix: Bytes::new(),
        body: MessageBody::Memory(vec![Bytes::from(content)]),
        facts,
    }
}
