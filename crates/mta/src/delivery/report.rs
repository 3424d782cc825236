//! Reports to senders: DSNs, durable together with the settle that they report.

mod compose;
mod policy;

pub use compose::{NativeReport, ReportQuestion};
pub(crate) use policy::is_due;

use super::Delivery;
use super::dsn_in_progress::DsnPaused;
use super::removal::settle_removed;
use super::unreported::{DsnRetry, ReportKey};
use super::verdict::RecipientResult;
use crate::event::{Event, Kind};
use crate::message::{Message, SentBody};
use crate::metrics::DsnAction;
use crate::seams::{MailStore, MailboxPlace, Time, World};
use compose::compose;
use mail::{Mailbox, MessageId, Notify, dsn};
use policy::ReportGroup;
use spool::{Completion, Record, Refusal, Settle, SettleKind, State};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// Wait of a report while the disk is full.
const FULL_WAIT: Duration = Duration::from_secs(10);

/// Maximum number of reports in a shard that wait for disk space, before reports of success are dropped.
const WAITING_SUCCESSES_MAX: usize = 1_000;

/// Writes the reports that are due about `judged`, all of one message, and settles the recipients. Reported recipients
/// become durable with the report, the rest without.
pub(crate) async fn send<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: Rc<Message>,
    judged: Vec<RecipientResult>,
    key: ReportKey,
) {
    let listed = |judged: &[RecipientResult]| judged.iter().any(RecipientResult::is_given_up);
    let mut judged = judged;
    if listed(&judged) && !delivery.unreported.is_waiting(key) {
        // An operator has removed them, and they are settled as removed.
        judged.retain(|judged| !judged.is_given_up());
    }
    let (mut groups, rest) = policy::sort(delivery, &message, judged);
    let is_reported = |index: u32| groups.iter().any(|g| g.judged.iter().any(|j| j.index == index));
    delivery.unreported.name(key, |index| message.address_of(index).filter(|_| is_reported(index)));
    settle_alone(delivery, &message, rest);
    if groups.is_empty() {
        return;
    }
    let start = start_of(delivery, &message).await;
    if groups.iter().any(|group| listed(&group.judged)) && !delivery.unreported.submit(key) {
        groups.iter_mut().for_each(|group| group.judged.retain(|judged| !judged.is_given_up()));
        groups.retain(|group| !group.judged.is_empty());
    }
    let mut due = Due::new(delivery, message, key);
    for group in groups {
        due.add(delivery, group, &start).await;
    }
    due.submit(delivery).await;
}

/// Settles recipients, or records that their delay was handled, without a report.
fn settle_alone<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Message,
    judged: Vec<RecipientResult>,
) {
    let Some(records) = Records::of(message.id, delivery.services.wall(), &judged) else { return };
    let delivered = judged.iter().filter(|judged| judged.is_delivered()).count() as u64;
    // Counted again when the settle is written.
    delivery.custody.handle_durable(delivered);
    let events: Vec<Event> = judged
        .iter()
        .filter(|judged| judged.settle_kind().is_some())
        .map(|judged| judged.event(&delivery.services, message))
        .collect();
    if let Some(state) = records.state {
        delivery.custody.settle_later(message.id, Record::State(state), None, 0);
    }
    if !records.settle.recipients.is_empty() {
        delivery.custody.settle_later(
            message.id,
            Record::Settle(records.settle),
            events,
            delivered,
        );
    }
}

/// The header and as much of the body as a report may return. Only the first piece of a body in a file is read. If that
/// fails, the report still has its recipients and reasons, and returns only the fields that we added.
async fn start_of<W: World>(delivery: &Rc<Delivery<W>>, message: &Message) -> Vec<u8> {
    let mut start = message.prefix.to_vec();
    let whole = message.content_bytes() <= dsn::FULL_BYTES_MAX as u64;
    let limit = if whole { usize::MAX } else { dsn::HEADER_BYTES_MAX };
    let mut append = |piece: &[u8]| {
        let room = limit.saturating_sub(start.len()).min(piece.len());
        start.extend_from_slice(&piece[..room]);
    };
    match message.sent_body() {
        SentBody::Memory(pieces) => pieces.iter().for_each(|piece| append(piece)),
        SentBody::Blob(blob) if message.sent_body_bytes() > 0 => {
            if let Ok(piece) = delivery.custody.messages.load_blob(message, blob, 0).await {
                append(&piece);
            }
        }
        SentBody::Blob(_) => {}
    }
    start
}

/// The records to write about the recipients of one message.
struct Records {
    settle: Settle,
    state: Option<State>,
}

impl Records {
    /// Returns `None` if there is nothing to write.
    fn of(id: MessageId, at: mail::Wall, judged: &[RecipientResult]) -> Option<Records> {
        let settled = judged.iter().filter_map(|j| Some((j.index, j.settle_kind()?)));
        let settle = Settle { id, at, recipients: settled.collect() };
        let is_late = judged.iter().any(|judged| judged.settle_kind().is_none());
        let state = is_late.then_some(State {
            id,
            hold: None,
            next_try: None,
            overrides: None,
            delay_notice_sent: Some(true),
        });
        (!judged.is_empty()).then_some(Records { settle, state })
    }
}

/// Reports that must become durable together with the records of the results that they report.
struct Due {
    key: ReportKey,
    original: Rc<Message>,
    judged: Vec<RecipientResult>,
    dsns: Vec<(Rc<Message>, Notify)>,
    settle: Settle,
    state: Option<State>,
    /// Late recipients with nothing but a notice of delay.
    late_alone: Vec<u32>,
    /// Number of delivered recipients that are settled together with the report.
    delivered: u64,
}

impl Due {
    fn new<W: World>(delivery: &Delivery<W>, message: Rc<Message>, key: ReportKey) -> Due {
        let at = delivery.services.wall();
        Due {
            key,
            judged: Vec::new(),
            dsns: Vec::new(),
            settle: Settle { id: message.id, at, recipients: Vec::new() },
            original: message,
            state: None,
            late_alone: Vec::new(),
            delivered: 0,
        }
    }

    /// Adds the report about `group`.
    async fn add<W: World>(
        &mut self,
        delivery: &Rc<Delivery<W>>,
        group: ReportGroup,
        start: &[u8],
    ) {
        let to = readers(delivery, &group, group.recipients(&self.original)).await;
        if let Some(mut dsn) = compose(delivery, &self.original, &group, start, to) {
            if dsn.kept_of_x400().is_none() {
                sign(delivery, &mut dsn).await;
            }
            if let Some(directory) = &group.reports.directory {
                keep(delivery, &dsn, directory.clone()).await;
            }
            let wish = group.wish();
            let recipients = dsn.envelope.recipients.len();
            if recipients > 0 {
                delivery.services.shared.queue_slots.take(recipients as u64);
                self.dsns.push((Rc::new(dsn), wish));
            } else {
                count(delivery, wish);
            }
        } else {
            // Only after millions of reports about mail that was rejected for the same reason. The recipients' results
            // are recorded without the report; a log that stops would be worse.
            let id = self.original.id;
            delivery
                .services
                .console
                .error("spool", format_args!("no message id left for a DSN id={id}"));
        }
        if group.wish() == Notify::DELAY {
            let late = group.judged.iter().filter(|judged| judged.settle_kind().is_none());
            self.late_alone.extend(late.map(|judged| judged.index));
        }
        if let Some(records) = Records::of(self.original.id, self.settle.at, &group.judged) {
            self.settle.recipients.extend(records.settle.recipients);
            self.state = self.state.take().or(records.state);
        }
        self.delivered += group.judged.iter().filter(|judged| judged.is_delivered()).count() as u64;
        self.judged.extend(group.judged);
    }

    async fn submit<W: World>(mut self, delivery: &Rc<Delivery<W>>) {
        let id = self.original.id;
        let mut is_told = false;
        while !self.judged.is_empty() {
            match delivery.custody.submit(id, self.records()).await {
                Completion::Durable { position } => return self.conclude(delivery, position),
                // A failed recipient stays open in the spool until there is disk space for the report.
                Completion::Refused(Refusal::Full | Refusal::Scarce) => {
                    self.settle_delivered(delivery);
                    self.drop_what_room_is_not_kept_for(delivery);
                }
                // Unreachable, as the size of reports is bounded. A log that stops would be worse.
                Completion::Refused(Refusal::TooLarge) if !self.dsns.is_empty() => {
                    delivery.services.console.error("spool", format_args!("DSN too large id={id}"));
                    give_slots_back(delivery, std::mem::take(&mut self.dsns));
                    continue;
                }
                // The recipients stay listed and are tried again until the restart that this log needs.
                other => {
                    if !std::mem::replace(&mut is_told, true) {
                        delivery.custody.handle_refused(id.log(), "cannot write a DSN", &other);
                    }
                }
            }
            if self.judged.is_empty() || !self.wait_for_room(delivery).await {
                return give_slots_back(delivery, self.dsns);
            }
        }
    }

    /// Drops notices of delay when the disk is full: with a next hop down, thousands would be kept in memory, and be
    /// sent when they are no longer true. A delay that is part of a report of a failure is recorded with that report,
    /// or it would be reported again. Reports of success are kept up to a limit.
    fn drop_what_room_is_not_kept_for<W: World>(&mut self, delivery: &Delivery<W>) {
        let late_alone = std::mem::take(&mut self.late_alone);
        self.judged.retain(|judged| !late_alone.contains(&judged.index));
        self.state.take_if(|_| self.judged.iter().all(|judged| judged.settle_kind().is_some()));
        let dsns = std::mem::take(&mut self.dsns);
        let (late, kept) = dsns.into_iter().partition(|(_, wish)| *wish == Notify::DELAY);
        give_slots_back(delivery, late);
        self.dsns = kept;
        let is_failure = self.judged.iter().any(RecipientResult::is_given_up);
        if !is_failure && delivery.gathering.paused() >= WAITING_SUCCESSES_MAX {
            self.judged.clear();
        }
    }

    /// Waits for the next try. Returns false if an operator has removed the recipients; no report is sent then.
    async fn wait_for_room<W: World>(&mut self, delivery: &Rc<Delivery<W>>) -> bool {
        let _idle = DsnPaused::new(delivery);
        if self.original.content_bytes() > 0 {
            // The rest of the work needs no content. Readers that wait for its memory would otherwise wait for the
            // disk, which only they can drain.
            self.original = Rc::new(self.original.without_content());
        }
        let time = delivery.services.world.time();
        let next_try = time.now() + FULL_WAIT;
        let given_up: Vec<u32> =
            self.judged.iter().filter(|j| j.is_given_up()).map(|j| j.index).collect();
        if given_up.is_empty() {
            // The recipients are in the queue, or delivered.
            time.sleep_until(next_try).await;
            return true;
        }
        match delivery.unreported.put_off(self.key, next_try, None) {
            DsnRetry::Removed => {
                settle_removed(delivery, &self.original, given_up);
                false
            }
            DsnRetry::Wait(retry_now) => {
                tokio::select! {
                    biased;
                    () = retry_now.notified() => {}
                    () = time.sleep_until(next_try) => {}
                }
                delivery.unreported.submit(self.key)
            }
        }
    }

    /// Records delivered recipients at once, with or without their report: left open, they would be delivered again
    /// after a crash, and egress would stop at the limit of unsettled recipients. A requested report of success is lost
    /// if the process ends before there is disk space.
    fn settle_delivered<W: World>(&mut self, delivery: &Rc<Delivery<W>>) {
        let is_delivered =
            |kind: SettleKind| matches!(kind, SettleKind::Delivered | SettleKind::Relayed);
        let recipients = std::mem::take(&mut self.settle.recipients);
        let (delivered, failed) = recipients.into_iter().partition(|(_, kind)| is_delivered(*kind));
        self.settle.recipients = failed;
        if self.delivered == 0 {
            return;
        }
        let alone = Settle { id: self.settle.id, at: self.settle.at, recipients: delivered };
        let events: Vec<Event> = self
            .judged
            .iter()
            .filter(|judged| judged.is_delivered())
            .map(|judged| judged.event(&delivery.services, &self.original))
            .collect();
        // Counted again when the settle is written.
        delivery.custody.handle_durable(self.delivered);
        let count = std::mem::take(&mut self.delivered);
        delivery.custody.settle_later(self.original.id, Record::Settle(alone), events, count);
    }

    /// The records of one submit. A settle that was written without the report is not repeated.
    fn records(&self) -> Vec<Record> {
        let mut records = Vec::with_capacity(3);
        if !self.settle.recipients.is_empty() {
            records.push(Record::Settle(self.settle.clone()));
        }
        records.extend(self.state.clone().map(Record::State));
        let accept = |dsn: &Message| Record::Accept(Box::new(dsn.accept_record()));
        records.extend(self.dsns.iter().map(|(dsn, _)| accept(dsn)));
        records
    }

    fn conclude<W: World>(self, delivery: &Rc<Delivery<W>>, position: u64) {
        let log = self.original.id.log();
        delivery.unreported.conclude(self.key);
        delivery.custody.handle_durable(self.delivered);
        // The events of recipients that were settled without the report were emitted then.
        let is_told = |judged: &&RecipientResult| {
            let settled = self.settle.recipients.iter().any(|(index, _)| *index == judged.index);
            settled || judged.settle_kind().is_none()
        };
        if delivery.services.events.is_on() {
            for judged in self.judged.iter().filter(is_told) {
                delivery.services.emit_at(
                    judged.event(&delivery.services, &self.original),
                    log,
                    position,
                );
            }
        }
        for (dsn, wish) in &self.dsns {
            count(delivery, *wish);
            let queued = Kind::DsnQueued { dsn: dsn.id, action: action_name(*wish) };
            tell(delivery, &self.original, queued, Some(position));
            delivery.schedule.enqueue(dsn);
        }
    }
}

/// Releases the queue slots of reports that will not be queued.
fn give_slots_back<W: World>(delivery: &Delivery<W>, dsns: Vec<(Rc<Message>, Notify)>) {
    let slots: usize = dsns.iter().map(|(dsn, _)| dsn.envelope.recipients.len()).sum();
    delivery.services.shared.queue_slots.give_back(slots as u64);
}

/// Signs a report. On an error it is sent unsigned: the sender must get the failure in any case.
async fn sign<W: World>(delivery: &Delivery<W>, dsn: &mut Message) {
    let content = match dsn.sent_body() {
        SentBody::Memory(pieces) => pieces.first().cloned().unwrap_or_default(),
        SentBody::Blob(_) => return,
    };
    if let Ok(above) = (delivery.above)(&content).get().await {
        dsn.prefix = above.prefix;
    }
}

fn tell<W: World>(delivery: &Delivery<W>, message: &Message, kind: Kind, position: Option<u64>) {
    if delivery.services.events.is_on() {
        let event = Event {
            at: delivery.services.wall(),
            message: Some(message.in_events()),
            recipients: crate::event::Recipients::new(),
            kind,
        };
        match position {
            Some(position) => delivery.services.emit_at(event, message.id.log(), position),
            None => delivery.services.events.emit(event),
        }
    }
}

/// The mailboxes to which these addresses expand. The address of a notice about a DSN is not expanded: an undeliverable
/// notice is recognised by its address, so that no notice is sent about it.
async fn readers<W: World>(
    delivery: &Delivery<W>,
    group: &ReportGroup,
    to: Vec<Mailbox>,
) -> Vec<Mailbox> {
    if group.is_notice {
        return to;
    }
    let mut all: Vec<Mailbox> = Vec::with_capacity(to.len());
    for address in to {
        for reader in (delivery.readers)(address).get().await {
            if !all.contains(&reader) {
                all.push(reader);
            }
        }
    }
    all
}

/// Stores a report as a file. Mail must not wait for this: a failure is only logged.
async fn keep<W: World>(delivery: &Rc<Delivery<W>>, dsn: &Message, directory: PathBuf) {
    let SentBody::Memory(pieces) = dsn.sent_body() else { return };
    let seconds = dsn.received_at.0 / 1000;
    let name = format!("{seconds}.{}_0.{}", dsn.id, delivery.router.active().config.hostname);
    let shown = directory.display().to_string();
    let place = MailboxPlace::at(directory);
    if let Err(error) =
        delivery.services.world.store().deliver(place, name, pieces.into_owned()).await
    {
        let id = dsn.id;
        delivery
            .services
            .console
            .error("reports", format_args!("cannot store a DSN in {shown}: {error} id={id}"));
    }
}

fn action_name(wish: Notify) -> &'static str {
    match wish {
        Notify::FAILURE => "failed",
        Notify::DELAY => "delayed",
        _ => "delivered",
    }
}

fn count<W: World>(delivery: &Delivery<W>, wish: Notify) {
    let action = match wish {
        Notify::FAILURE => DsnAction::Failed,
        Notify::DELAY => DsnAction::Delayed,
        _ => DsnAction::Success,
    };
    delivery.services.metrics.dsns[action].inc();
}
