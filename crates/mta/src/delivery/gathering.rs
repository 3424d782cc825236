//! Results of recipients of one message that arrive within a short time are reported in one DSN.
//!
//! Nothing is settled until the report is written: after a crash the recipients are open and are tried again. Until
//! then the failed recipients are listed as unreported, see [`super::unreported`].

use super::dsn_in_progress::{DsnInProgress, DsnPaused};
use super::pending::{DsnBatch, NewResults, QUIET};
use super::unreported::{DsnRetry, ReportKey, said_of, unread_address};
use super::verdict::{DeliveryOutcome, RecipientResult};
use super::{Delivery, report};
use crate::message::Message;
use crate::seams::{Time, World};
use mail::{MessageId, Mono};
use queue::{EntryId, Siblings};
use spool::LoadError;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Wait for further results when the remaining recipients are not about to be tried, so that results of the same
/// instant are still included.
const MOMENT: Duration = Duration::from_millis(100);
/// First and maximum wait for a message that can't be read.
const UNREADABLE_WAIT: Duration = Duration::from_secs(60);
const UNREADABLE_WAIT_MAX: Duration = Duration::from_secs(3600);

/// Adds results, at least one, for recipients of one message. They are reported and settled soon.
pub(crate) fn gather<W: World>(delivery: &Rc<Delivery<W>>, id: MessageId, new: NewResults<'_>) {
    #[cfg(feature = "planted")]
    if new.judged.len() > 1 && delivery.services.has_planted(crate::planted::Planted::ReportEach) {
        for judged in new.judged {
            gather(delivery, id, NewResults { judged: vec![judged], sibling: None, ..new });
        }
        return;
    }
    let now = delivery.services.now();
    let delivered = new.judged.iter().filter(|judged| judged.is_delivered()).count() as u64;
    let cached = if new.message.is_some() { None } else { delivery.custody.messages.in_memory(id) };
    let new = NewResults { message: new.message.or(cached.as_ref()), ..new };
    let given_up: Vec<_> = new
        .judged
        .iter()
        .filter_map(|judged| {
            let address = match new.message {
                Some(message) => message.address_of(judged.index)?,
                None => unread_address(judged.domain.as_ref()),
            };
            judged.given_up(address, new.received_at)
        })
        .collect();
    let wait = wait_for_siblings(delivery, new.sibling, now);
    // A delay need not wait for recipients that are about to be tried.
    let all_late = new.judged.iter().all(|judged| judged.settle_kind().is_none());
    let wait = if all_late { wait.min(MOMENT) } else { wait };
    let (key, due, retry_now, has_begun) = delivery.gathering.add(now, wait, id, new);
    if !given_up.is_empty() {
        delivery.unreported.gather(key, due, &retry_now, given_up);
    }
    if wait.is_zero() {
        if let Some(gathered) = delivery.gathering.take(key) {
            let task = Rc::clone(delivery);
            delivery.services.spawn(async move { finish(&task, gathered).await });
        }
    } else if has_begun {
        let task = Rc::clone(delivery);
        delivery.services.spawn(async move { wait_and_finish(&task, key, &retry_now).await });
    }
    // Last, because egress stops at the limit until the gathered results are settled.
    delivery.custody.count_unsettled(delivered);
    if delivered > 0 && delivery.custody.obstacle().is_some() {
        delivery.gathering.retry_all_now();
    }
}

/// Returns the time to wait for more results on the message of `sibling`.
fn wait_for_siblings<W: World>(
    delivery: &Delivery<W>,
    sibling: Option<EntryId>,
    now: Mono,
) -> Duration {
    let Some(sibling) = sibling.filter(|_| delivery.services.stopping.until().is_none()) else {
        return Duration::ZERO;
    };
    match delivery.schedule.queue().siblings(sibling, now + QUIET) {
        // The sibling was queued when this recipient left, so its result follows shortly.
        Siblings::None | Siblings::Waiting => MOMENT,
        Siblings::Due | Siblings::InFlight => QUIET,
    }
}

async fn wait_and_finish<W: World>(delivery: &Rc<Delivery<W>>, key: ReportKey, retry_now: &Notify) {
    loop {
        let now = delivery.services.now();
        let is_expected =
            |sibling| delivery.schedule.queue().siblings(sibling, now) == Siblings::InFlight;
        // The result of the last recipient may have finished it.
        let Some(due) = delivery.gathering.due(key, now, is_expected) else { return };
        if due <= now {
            break;
        }
        let is_hurried = tokio::select! {
            biased;
            () = retry_now.notified() => true,
            () = delivery.services.world.time().sleep_until(due) => false,
        };
        if is_hurried {
            break;
        }
    }
    if let Some(gathered) = delivery.gathering.take(key) {
        finish(delivery, gathered).await;
    }
}

async fn finish<W: World>(delivery: &Rc<Delivery<W>>, gathered: DsnBatch) {
    let DsnBatch { key, message, mut judged, .. } = gathered;
    let _busy = DsnInProgress::new(delivery);
    let message = match message {
        Some(message) => message,
        None => match read(delivery, key, &judged).await {
            Some(message) => message,
            None => return delivery.unreported.conclude(key),
        },
    };
    judged.retain(|judged| match judged.verdict {
        // Dropped if the recipient was delivered or has failed since.
        DeliveryOutcome::Delayed { entry, .. } => {
            delivery.schedule.queue().siblings(entry, Mono(0)) != Siblings::None
        }
        _ => true,
    });
    judged.iter_mut().for_each(|judged| judged.recall(&message));
    report::send(delivery, message, judged, key).await;
}

/// Loads the message, retrying without limit: the report's address is in it, and its recipients stay in the spool,
/// listed as unreported, until the report is written. Exhaustion of descriptors passes; damage needs an operator, and
/// each failure is logged to the console. `None` if there is nothing to report: no recipient has failed, or an operator
/// removed them.
async fn read<W: World>(
    delivery: &Rc<Delivery<W>>,
    key: ReportKey,
    judged: &[RecipientResult],
) -> Option<Rc<Message>> {
    let given_up = judged.iter().any(RecipientResult::is_given_up);
    let mut wait = UNREADABLE_WAIT;
    loop {
        let why = match delivery.custody.messages.load(key.0).await {
            Ok(message) => return Some(message),
            // None of its recipients is open in the spool.
            Err(LoadError::NotFound) => return None,
            Err(why) => why,
        };
        if !given_up {
            return None;
        }
        let time = delivery.services.world.time();
        let next_try = time.now() + wait;
        wait = (wait * 2).min(UNREADABLE_WAIT_MAX);
        let why = said_of(&why).into();
        let DsnRetry::Wait(retry_now) = delivery.unreported.put_off(key, next_try, Some(why))
        else {
            return None;
        };
        let _idle = DsnPaused::new(delivery);
        tokio::select! {
            biased;
            () = retry_now.notified() => {}
            () = time.sleep_until(next_try) => {}
        }
        if !delivery.unreported.is_waiting(key) {
            return None;
        }
    }
}
