//! Recipients that fail or are delayed without a delivery attempt.

use super::pending::NewResults;
use super::removal::{settle_later_as_removed, settle_removed};
use super::report::is_due;
use super::verdict::{DeliveryOutcome, RecipientResult, count_want_of_tls};
use super::{Delivery, gathering};
use crate::event::{AttemptTimes, Event, Kind, Recipients};
use crate::message::Message;
use crate::metrics::RecipientOutcome;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure};
use queue::{EntryDetail, EntryOutcome, TransactionWork};
use spool::{Settle, SettleKind};
use std::rc::Rc;
use std::sync::Arc;

/// Fails recipients of one message now, at an operator's command.
pub(crate) fn fail_now<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Rc<Message>,
    entries: &[EntryDetail],
    failure: &Arc<Failure>,
) {
    let judged = fail_each(delivery, message, entries, failure);
    // The entries were removed one after the other, so the last one shows if another is queued.
    let sibling = entries.last().and_then(|entry| entry.sibling);
    let new =
        NewResults { message: Some(message), received_at: message.received_at, judged, sibling };
    gathering::gather(delivery, message.id, new);
    delivery.custody.release(message.id, entries.len());
}

/// Fails recipients without a report. Returns the recipients to settle, and the events to emit then.
pub(crate) fn fail_silently<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Rc<Message>,
    entries: &[EntryDetail],
    failure: &Arc<Failure>,
) -> (Settle, Vec<Event>) {
    let services = &delivery.services;
    let judged = fail_each(delivery, message, entries, failure);
    let recipients = judged.iter().map(|judged| (judged.index, SettleKind::Failed)).collect();
    let settle = Settle { id: message.id, at: services.wall(), recipients };
    let mut events: Vec<Event> =
        judged.iter().map(|judged| judged.event(services, message)).collect();
    if judged.iter().any(|judged| is_due(delivery, message, judged)) {
        services.metrics.dsns_suppressed.inc();
        events.push(Event {
            at: services.wall(),
            message: Some(message.in_events()),
            recipients: Recipients::new(),
            kind: Kind::DsnSuppressed { action: "failed", why: "operator" },
        });
    }
    delivery.custody.release(message.id, entries.len());
    (settle, events)
}

fn fail_each<W: World>(
    delivery: &Delivery<W>,
    message: &Message,
    entries: &[EntryDetail],
    failure: &Arc<Failure>,
) -> Vec<RecipientResult> {
    let failed = entries.iter().map(|entry| {
        let judged = judge(delivery, entry, DeliveryOutcome::Failed(Arc::clone(failure)));
        judged.count(&delivery.services, message);
        judged
    });
    failed.collect()
}

/// Expires a recipient.
pub(crate) fn expire<W: World>(delivery: &Rc<Delivery<W>>, entry: EntryDetail) {
    delivery.services.metrics.recipients_done[RecipientOutcome::Expired].inc();
    let failure = match entry.is_overdue {
        true => Some(overdue(entry.last_failure.as_deref())),
        false => entry.last_failure.clone(),
    };
    let verdict = DeliveryOutcome::Expired { failure, after: entry.age };
    give_up(delivery, &entry, verdict);
}

/// The failure of a recipient that passed the sender's deliver-by time. RFC 3463 §3.5: X.4.7, delivery time expired.
fn overdue(last: Option<&Failure>) -> Arc<Failure> {
    let mut text = "not delivered by the sender's deadline".to_owned();
    if let Some(last) = last {
        text += &format!("; the last attempt failed: {last}");
    }
    Arc::new(Failure::local(Class::Permanent, EnhancedStatus::new(5, 4, 7), text))
}

/// Fails a recipient with an undeliverable domain.
pub(crate) fn refuse<W: World>(
    delivery: &Rc<Delivery<W>>,
    entry: EntryDetail,
    failure: Arc<Failure>,
) {
    delivery.services.note_failed(&failure);
    let asked = delivery.schedule.queue().scheduled_key(entry.scheduled).map(|key| key.require_tls);
    count_want_of_tls(&delivery.services.metrics, asked.unwrap_or_default(), &failure);
    give_up(delivery, &entry, DeliveryOutcome::Failed(failure));
}

fn give_up<W: World>(delivery: &Rc<Delivery<W>>, entry: &EntryDetail, verdict: DeliveryOutcome) {
    let judged = vec![judge(delivery, entry, verdict)];
    let received_at = delivery.schedule.received_at(entry);
    let new = NewResults { message: None, received_at, judged, sibling: entry.sibling };
    gathering::gather(delivery, entry.id, new);
    delivery.custody.release(entry.id, 1);
}

/// Adds a result without an attempt.
fn judge<W: World>(
    delivery: &Delivery<W>,
    entry: &EntryDetail,
    verdict: DeliveryOutcome,
) -> RecipientResult {
    let queue = delivery.schedule.queue();
    RecipientResult {
        index: entry.recipient,
        at: delivery.services.wall(),
        attempts: entry.attempts,
        tried_at: None,
        hop: None,
        times: AttemptTimes::default(),
        domain: queue.scheduled_key(entry.scheduled).map(|key| key.domain.clone()),
        verdict,
    }
}

/// An operator removed the entry during an attempt, and it was requeued undelivered.
pub(crate) fn removed<W: World>(delivery: &Rc<Delivery<W>>, entry: EntryDetail) {
    let task = Rc::clone(delivery);
    delivery.services.spawn(async move {
        let _busy = task.services.stopping.guard();
        // Its event needs the message, which can't be read after the settle.
        match task.custody.messages.load(entry.id).await {
            Ok(message) => settle_removed(&task, &message, vec![entry.recipient]),
            Err(_) => settle_later_as_removed(&task, entry.id, vec![entry.recipient], None),
        }
        task.custody.release(entry.id, 1);
    });
}

/// The delay of these recipients of one message is due to be reported.
pub(crate) fn warn<W: World>(delivery: &Rc<Delivery<W>>, late: Vec<EntryDetail>) {
    let Some(first) = late.first() else { return };
    let received_at = delivery.schedule.received_at(first);
    let judged = late
        .iter()
        .map(|entry| {
            let failure = entry.last_failure.clone();
            let give_up_at = delivery.schedule.give_up_at(received_at, entry);
            judge(
                delivery,
                entry,
                DeliveryOutcome::Delayed { failure, give_up_at, entry: entry.entry },
            )
        })
        .collect();
    let new = NewResults { message: None, received_at, judged, sibling: Some(first.entry) };
    gathering::gather(delivery, first.id, new);
}

/// Requeues work unchanged: the failure was not caused by this message.
pub(super) fn give_back<W: World>(delivery: &Delivery<W>, work: &TransactionWork) {
    for (entry, _, _) in &work.entries {
        let _ = delivery.schedule.outcome(*entry, EntryOutcome::Untried);
    }
}

/// Requeues work of which no peer has received a recipient.
pub(super) fn give_back_unnamed<W: World>(delivery: &Delivery<W>, work: &TransactionWork) {
    for (entry, _, _) in &work.entries {
        let _ = delivery.schedule.outcome(*entry, EntryOutcome::Unnamed(work.allowance));
    }
}
