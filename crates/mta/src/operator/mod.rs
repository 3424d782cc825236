//! What an operator asks of a shard, by way of the control socket.
//!
//! Whoever looks at the whole queue does so a piece at a time and lets others go first in between;
//! what is found is dealt with piece by piece, so that neither memory nor the pauses of the shard
//! grow with the queue. When nobody listens to the answer any more, it ends.

mod blocker;
mod change;
mod ended_holds;
mod fail;
mod item;
mod list;
mod moving;
mod reading;
mod shaped;
mod sieve;
mod tally;
mod walk;

use crate::control::{ControlRequest, ShardAnswer, ShardStatus};
use crate::schedule::standing::count_unrouted;
use crate::seams::World;
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::mpsc;
use walk::Answer;
pub(crate) use walk::Operator;

impl<W: World> Operator<W> {
    /// Answers an operator, in a task of its own.
    pub(crate) fn handle_control(
        self: &Rc<Self>,
        request: ControlRequest,
        parts: mpsc::Sender<ShardAnswer>,
    ) {
        let operator = Rc::clone(self);
        self.services.spawn(async move {
            let told_at = Cell::new(operator.services.now());
            let answer = Answer { parts: parts.clone(), tally: Cell::default(), told_at };
            let mut last = operator.answer(request, &answer).await;
            (last.tally, last.is_last) = (answer.tally.get(), true);
            // Nobody may be listening any more.
            let _ = parts.send(last).await;
        });
    }

    async fn answer(self: &Rc<Self>, request: ControlRequest, answer: &Answer) -> ShardAnswer {
        let error = match request {
            ControlRequest::QueueList { filter, limit } => {
                self.list(filter, limit, answer).await;
                None
            }
            ControlRequest::QueueShow { id } | ControlRequest::QueueWhy { id } => {
                return self.one(id, answer).await;
            }
            ControlRequest::QueueRetry { select } => {
                self.retry(select, answer).await;
                None
            }
            ControlRequest::QueueHold { select, reason } => {
                self.hold(select, Some(reason.into()), answer).await
            }
            ControlRequest::QueueRelease { select } => self.hold(select, None, answer).await,
            ControlRequest::QueueRemove { select } => self.remove(select, answer).await,
            ControlRequest::QueueFail { select, status, reason, silent } => {
                match fail::Order::new(status.as_deref(), &reason, silent) {
                    Ok(order) => self.fail(select, &order, answer).await,
                    Err(why) => return refused(why),
                }
            }
            ControlRequest::QueueMove { select, to, undo } => match self.check_order(to, undo) {
                Ok(order) => self.move_to(select, &order, answer).await,
                Err(why) => return refused(why),
            },
            ControlRequest::QueueSummary { filter, .. } => {
                let summary = Some(Box::new(self.summary(filter, answer).await));
                return ShardAnswer { summary, ..ShardAnswer::default() };
            }
            ControlRequest::Unrouted => {
                let recipients = count_unrouted(&self.schedule).await;
                answer.count(|tally| tally.recipients = recipients);
                None
            }
            ControlRequest::Status => {
                return ShardAnswer { status: Some(self.status()), ..ShardAnswer::default() };
            }
            ControlRequest::Reload
            | ControlRequest::QueueSuspend { .. }
            | ControlRequest::QueueResume { .. }
            | ControlRequest::TableList
            | ControlRequest::TableGet { .. }
            | ControlRequest::TableFlush { .. }
            | ControlRequest::Sources
            | ControlRequest::ShapingList
            | ControlRequest::ShapingLift { .. }
            | ControlRequest::TrustClock => None,
        };
        ShardAnswer { error, ..ShardAnswer::default() }
    }

    fn status(&self) -> ShardStatus {
        let queue = self.schedule.queue();
        let counts = queue.counts();
        let connections = queue.ready_queues().map(|ready| u64::from(ready.open)).sum();
        let sessions = self.services.shared.sessions.get(usize::from(self.services.number));
        let load = |n: &std::sync::atomic::AtomicU32| n.load(std::sync::atomic::Ordering::Relaxed);
        let unreported = self.delivery.unreported.count();
        ShardStatus {
            shard: self.services.number,
            sessions: u64::from(sessions.map_or(0, load)),
            connections,
            recipients: (self.queued_count() + unreported) as u64,
            held: counts.held as u64,
            in_flight: counts.in_flight as u64,
            unreported: unreported as u64,
        }
    }
}

/// An order that makes no sense.
fn refused(why: String) -> ShardAnswer {
    ShardAnswer { refused: Some(why), ..ShardAnswer::default() }
}
