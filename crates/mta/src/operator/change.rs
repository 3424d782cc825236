//! Operator commands that change messages: hold, release, retry, remove.

use super::sieve::READS_MAX;
use super::tally::CountedMessages;
use super::walk::{CommandReply, MessageSelection, Operator};
use crate::control::Select;
use crate::delivery::removal::{settle_later_as_removed, settle_removed};
use crate::event::{Event, Kind, Labels, Recipients};
use crate::message::Message;
use crate::metrics::RecipientOutcome;
use crate::schedule::application::look_again;
use crate::seams::World;
use mail::MessageId;
use queue::{EntryId, Glance, HoldResult, Retried, ScheduledKey};
use spool::{Completion, Record, Settle, SettleKind, State};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of records in one commit.
const BATCH_MAX: usize = 512;

/// Messages, each with the recipients that were found.
pub(super) type SelectedRecipients = BTreeMap<MessageId, Vec<Glance>>;

pub(super) fn by_message(glances: impl IntoIterator<Item = Glance>) -> SelectedRecipients {
    let mut found = SelectedRecipients::new();
    for glance in glances {
        found.entry(glance.id).or_default().push(glance);
    }
    found
}

impl<W: World> Operator<W> {
    /// All recipients of one message.
    pub(super) async fn glances_of(self: &Rc<Self>, id: MessageId) -> Vec<Glance> {
        let Some(entry) = self.find(id).await else { return Vec::new() };
        self.schedule.queue().glances_of(self.services.now(), entry)
    }

    pub(crate) async fn retry(self: &Rc<Self>, select: Select, answer: &CommandReply) {
        // The operator may know that the DNS answers again.
        self.services.shared.known_names.forget_failures();
        let mut seen = CountedMessages::default();
        match MessageSelection::from(select) {
            MessageSelection::One(id) => {
                let glances = self.glances_of(id).await;
                self.retry_these(&glances, &mut seen, answer);
                let unreported = self.delivery.unreported.retry_now(|given_up, _| given_up == id);
                count_unreported(answer, usize::from(unreported > 0), unreported);
            }
            MessageSelection::Matching(filter) => {
                let mut walk = self.walk(*filter, answer);
                while let Some(found) = self.next_piece(&mut walk, answer).await {
                    self.retry_these(&found, &mut seen, answer);
                }
                for (id, _) in self.given_up_matching(&walk).await {
                    let unreported =
                        self.delivery.unreported.retry_now(|given_up, _| given_up == id);
                    count_unreported(answer, usize::from(seen.is_new_id(id)), unreported);
                }
            }
        }
    }

    fn retry_these(&self, glances: &[Glance], seen: &mut CountedMessages, answer: &CommandReply) {
        let now = self.services.now();
        let mut queue = self.schedule.queue_mut();
        let mut scheduled = BTreeSet::new();
        for glance in glances {
            let retried = queue.retry(now, glance.entry);
            if retried == Retried::Due {
                scheduled.insert(glance.scheduled);
                self.schedule.note_retried(now, &queue.ways_of(glance.scheduled));
            }
            answer.count(|tally| match retried {
                Retried::Due => {
                    tally.recipients += 1;
                    tally.messages += u64::from(seen.is_new(glance));
                }
                Retried::Held => tally.held += 1,
                Retried::InFlight => tally.in_flight += 1,
                Retried::Gone => {}
            });
        }
        drop(queue);
        // Hosts are resolved again before the first attempt, so that moved hosts are found.
        look_again(&self.schedule, &scheduled);
    }

    /// Holds messages for `reason`, or releases them. Returns the error, if any.
    pub(crate) async fn hold(
        self: &Rc<Self>,
        select: Select,
        reason: Option<Arc<str>>,
        answer: &CommandReply,
    ) -> Option<String> {
        let mut seen = CountedMessages::default();
        let filter = match MessageSelection::from(select) {
            MessageSelection::One(id) => {
                let found = self.glances_of(id).await;
                if found.is_empty()
                    && reason.is_some()
                    && !self.delivery.unreported.of(id).is_empty()
                {
                    return Some(format!(
                        "{id}: it has failed and cannot be held; it stays queued until its DSN \
                         can be written"
                    ));
                }
                return self.hold_piece(found, reason.as_ref(), &mut seen, answer).await.err();
            }
            MessageSelection::Matching(filter) => *filter,
        };
        let mut walk = self.walk(filter, answer);
        while let Some(found) = self.next_piece(&mut walk, answer).await {
            if let Err(error) = self.hold_piece(found, reason.as_ref(), &mut seen, answer).await {
                return Some(error);
            }
        }
        None
    }

    async fn hold_piece(
        self: &Rc<Self>,
        found: Vec<Glance>,
        reason: Option<&Arc<str>>,
        seen: &mut CountedMessages,
        answer: &CommandReply,
    ) -> Result<(), String> {
        let mut changing = Vec::new();
        for glance in found {
            let held_for = self.schedule.queue().hold_reason(glance.entry);
            match (&held_for, reason) {
                (Some(old), Some(new)) if old == new => {
                    let counts = seen.is_new(&glance);
                    answer.count(|tally| tally.messages += u64::from(counts));
                }
                (None, None) => {}
                _ => changing.push(glance),
            }
        }
        let mut changing = by_message(changing).into_iter().peekable();
        while changing.peek().is_some() && !answer.is_unwanted() {
            let batch: SelectedRecipients = changing.by_ref().take(BATCH_MAX).collect();
            let positions = self.record_holds(&batch, reason).await?;
            for (id, glances) in batch {
                let Some(&position) = positions.get(&id.log()) else { continue };
                // A recipient that was settled in the meantime no longer refers to its message.
                let changed = glances.iter().find(|glance| self.apply_hold(glance.entry, reason));
                if let Some(glance) = changed {
                    // Any hold is now by an operator.
                    self.custody.held.forget(id);
                    let is_new = seen.is_new(glance);
                    answer.count(|tally| tally.messages += u64::from(is_new));
                    let kind = match reason {
                        Some(reason) => Kind::Held { reason: Arc::clone(reason) },
                        None => Kind::Released,
                    };
                    self.tell(id, glance.entry, kind, position);
                }
            }
            answer.progress(self.services.now());
        }
        Ok(())
    }

    fn apply_hold(&self, entry: EntryId, reason: Option<&Arc<str>>) -> bool {
        let now = self.services.now();
        let mut queue = self.schedule.queue_mut();
        match reason {
            Some(reason) => queue.hold(entry, reason) != HoldResult::Gone,
            None => queue.release(now, entry),
        }
    }

    /// Makes holds or releases durable, one commit per log. Returns the position of each log's records.
    async fn record_holds(
        self: &Rc<Self>,
        batch: &SelectedRecipients,
        reason: Option<&Arc<str>>,
    ) -> Result<BTreeMap<u8, u64>, String> {
        let mut by_log: BTreeMap<u8, Vec<Record>> = BTreeMap::new();
        for &id in batch.keys() {
            let record = Record::State(State {
                id,
                hold: Some(reason.map(|reason| Box::from(&**reason))),
                next_try: None,
                overrides: None,
                delay_notice_sent: None,
            });
            by_log.entry(id.log()).or_default().push(record);
        }
        let mut positions = BTreeMap::new();
        for (log, records) in by_log {
            match self.custody.submit(MessageId::new(0, log, 0), records).await {
                Completion::Durable { position } => positions.insert(log, position),
                other => return Err(format!("the spool could not record the change: {other:?}")),
            };
        }
        Ok(positions)
    }

    /// Emits an event about a whole message without reading it from disk, since the command may affect a million
    /// messages.
    fn tell(&self, id: MessageId, entry: EntryId, kind: Kind, position: u64) {
        if !self.services.events.is_on() {
            return;
        }
        let cached = self.custody.messages.in_memory(id);
        let message = match cached {
            Some(message) => message.in_events(),
            None => {
                let queue = self.schedule.queue();
                let Some(entry) = queue.entry(self.services.now(), entry) else { return };
                crate::event::EventMessage {
                    id,
                    position: None,
                    envelope: None,
                    received_at: self.schedule.received_at(&entry),
                    body_bytes: 0,
                    labels: queue.scheduled_key(entry.scheduled).and_then(labels_of),
                }
            }
        };
        let at = self.services.wall();
        let event = Event { at, message: Some(message), recipients: Recipients::new(), kind };
        self.services.emit_at(event, id.log(), position);
    }

    /// Removes recipients without a report. Returns the error, if any.
    pub(crate) async fn remove(
        self: &Rc<Self>,
        select: Select,
        answer: &CommandReply,
    ) -> Option<String> {
        let filter = match MessageSelection::from(select) {
            MessageSelection::One(id) => {
                let found = by_message(self.glances_of(id).await);
                let queued = !found.is_empty();
                let error = self.remove_these(found, answer).await.err();
                let removed = self.delivery.unreported.remove(id);
                count_unreported(
                    answer,
                    usize::from(!queued && !removed.is_empty()),
                    removed.len(),
                );
                self.remove_unreported(id, removed).await;
                return error;
            }
            MessageSelection::Matching(filter) => *filter,
        };
        let mut walk = self.walk(filter, answer);
        while let Some(found) = self.next_piece(&mut walk, answer).await {
            if let Err(error) = self.remove_these(by_message(found), answer).await {
                return Some(error);
            }
        }
        if answer.is_unwanted() {
            return None;
        }
        for (id, _) in self.given_up_matching(&walk).await {
            let removed = self.delivery.unreported.remove(id);
            count_unreported(answer, usize::from(!removed.is_empty()), removed.len());
            self.remove_unreported(id, removed).await;
        }
        None
    }

    async fn remove_unreported(self: &Rc<Self>, id: MessageId, removed: Vec<u32>) {
        if removed.is_empty() {
            return;
        }
        match self.custody.messages.peek(id).await {
            Ok(message) => settle_removed(&self.delivery, &message, removed),
            Err(_) => settle_later_as_removed(&self.delivery, id, removed, None),
        }
    }

    pub(super) async fn remove_these(
        self: &Rc<Self>,
        found: SelectedRecipients,
        answer: &CommandReply,
    ) -> Result<(), String> {
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() && !answer.is_unwanted() {
            let batch: Vec<_> = found.by_ref().take(READS_MAX).collect();
            let ids: Vec<MessageId> = batch.iter().map(|(id, _)| *id).collect();
            // After the removal they can't be read.
            let read = if self.services.events.is_on() {
                self.custody.messages.peek_all(&ids).await
            } else {
                Vec::new()
            };
            let mut messages = read.into_iter().map(Result::ok).chain(std::iter::repeat(None));
            let now = self.services.now();
            let mut by_log: BTreeMap<u8, Vec<Record>> = BTreeMap::new();
            let mut events = Vec::new();
            for (id, glances) in batch {
                let message = messages.next().flatten();
                let (mut removed, mut in_flight) = (Vec::new(), 0);
                for Glance { entry, .. } in glances {
                    let mut queue = self.schedule.queue_mut();
                    match queue.remove(now, entry) {
                        Some(detail) => removed.push(detail.recipient),
                        // In flight: removed when its attempt fails.
                        None => in_flight += u64::from(queue.entry(now, entry).is_some()),
                    }
                }
                answer.count(|tally| {
                    tally.messages += u64::from(!removed.is_empty() || in_flight > 0);
                    tally.recipients += removed.len() as u64 + in_flight;
                    tally.in_flight += in_flight;
                });
                if removed.is_empty() {
                    continue;
                }
                self.custody.release(id, removed.len());
                let at = self.services.wall();
                let recipients = removed.iter().map(|&i| (i, SettleKind::Removed)).collect();
                let record = Record::Settle(Settle { id, at, recipients });
                by_log.entry(id.log()).or_default().push(record);
                self.services.metrics.recipients_done[RecipientOutcome::Removed]
                    .add(removed.len() as u64);
                events.extend(message.map(|message| (message, removed)));
            }
            self.settle_removals(by_log, events).await?;
            answer.progress(self.services.now());
        }
        Ok(())
    }

    async fn settle_removals(
        self: &Rc<Self>,
        by_log: BTreeMap<u8, Vec<Record>>,
        events: Vec<(Rc<Message>, Vec<u32>)>,
    ) -> Result<(), String> {
        let mut positions = BTreeMap::new();
        for (log, records) in by_log {
            match self.custody.submit(MessageId::new(0, log, 0), records).await {
                Completion::Durable { position } => positions.insert(log, position),
                other => return Err(format!("the spool could not record the removal: {other:?}")),
            };
        }
        for (message, removed) in events {
            let Some(&position) = positions.get(&message.id.log()) else { continue };
            let event = Event {
                at: self.services.wall(),
                message: Some(message.in_events()),
                recipients: Recipients::from_slice(&removed),
                kind: Kind::Removed,
            };
            self.services.emit_at(event, message.id.log(), position);
        }
        Ok(())
    }
}

/// The labels of a scheduled queue for events.
fn labels_of(key: &ScheduledKey) -> Option<Box<Labels>> {
    // Names with `<` are internal, for reports.
    let name =
        |name: &Arc<str>| (!name.is_empty() && !name.starts_with('<')).then(|| Arc::clone(name));
    let labels =
        Labels { tenant: name(&key.tenant), campaign: name(&key.campaign), pool: name(&key.pool) };
    (labels != Labels::default()).then(|| Box::new(labels))
}

fn count_unreported(answer: &CommandReply, messages: usize, recipients: usize) {
    answer.count(|tally| {
        tally.messages += messages as u64;
        tally.recipients += recipients as u64;
    });
}
