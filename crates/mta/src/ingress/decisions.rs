//! Waiting for what stages decide: not for ever, and not beyond a stop.

use super::refusals;
use super::stage::{Resolved, Stages, Transaction};
use crate::alarm::Alarm;
use crate::answer::{Answer, Decision, Later};
use crate::seams::World;
use crate::services::Services;
use mail::{Mono, Recipient, Refusal};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// So long a decision is waited for; 451 4.3.0 beyond it. Clients wait five minutes and more (RFC
/// 5321 §4.5.3.2).
const DECISION_MAX: Duration = Duration::from_secs(100);

/// How long a stop lets a decision take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grace {
    /// No longer: no transaction has begun.
    None,
    /// As long as transactions have to finish.
    OfTransactions,
}

/// Waits for a decision.
pub(super) async fn decided<W: World, T>(
    services: &Services<W>,
    decision: Decision<'_, T>,
    grace: Grace,
) -> Result<T, Refusal> {
    match decision {
        Answer::Now(decided) => decided,
        Answer::Later(later) => wait(services, later, grace).await,
    }
}

async fn wait<W: World, T>(
    services: &Services<W>,
    mut later: Later<'_, Result<T, Refusal>>,
    grace: Grace,
) -> Result<T, Refusal> {
    let deadline = services.now() + DECISION_MAX;
    let notify = &services.stopping.notify;
    let mut stop = pin!(notify.notified());
    let mut alarm = Alarm::new(services.world.time().clone());
    poll_fn(|cx| {
        if let Poll::Ready(decided) = later.as_mut().poll(cx) {
            return Poll::Ready(decided);
        }
        if stop.as_mut().poll(cx).is_ready() {
            stop.set(notify.notified());
            let _ = stop.as_mut().poll(cx);
        }
        let end = services.stopping.until().map_or(Mono::NEVER, |until| match grace {
            Grace::None => services.now(),
            Grace::OfTransactions => until,
        });
        poll_end(cx, &mut alarm, deadline, end).map(Err)
    })
    .await
}

/// Whether no time is left, and what is said then.
fn poll_end<T: crate::seams::Time>(
    cx: &mut Context<'_>,
    alarm: &mut Alarm<T>,
    deadline: Mono,
    stop: Mono,
) -> Poll<Refusal> {
    let refusal = if stop <= deadline { refusals::STOPPED } else { refusals::UNDECIDED };
    alarm.poll(cx, deadline.min(stop)).map(|()| refusal)
}

/// What is asked about one recipient.
pub(super) struct Question<W: World> {
    pub(super) services: Rc<Services<W>>,
    pub(super) stages: Stages,
    pub(super) transaction: Rc<Transaction>,
    pub(super) recipient: Recipient,
    /// What the routes say.
    pub(super) routed: Result<Resolved, Refusal>,
}

impl<W: World> Question<W> {
    /// Asks one stage after the other, from `next` on, and the routes in the end.
    pub(super) fn ask(self, mut next: usize) -> Decision<'static, Resolved> {
        while let Some(stage) = self.stages.get(next) {
            next += 1;
            let is_routed = self.routed.is_ok();
            match stage.recipient(&self.transaction, &self.recipient, is_routed) {
                Answer::Now(Ok(None)) => {}
                Answer::Now(Ok(Some(resolved))) => return Answer::Now(self.conclude(resolved)),
                Answer::Now(Err(refusal)) => return Answer::Now(Err(refusal)),
                Answer::Later(later) => return Answer::later(self.go_on(later, next)),
            }
        }
        Answer::Now(self.conclude(Resolved::Kept))
    }

    async fn go_on(
        self,
        later: Later<'static, Result<Option<Resolved>, Refusal>>,
        next: usize,
    ) -> Result<Resolved, Refusal> {
        match wait(&self.services, later, Grace::OfTransactions).await? {
            Some(resolved) => self.conclude(resolved),
            None => match self.ask(next) {
                Answer::Now(decided) => decided,
                Answer::Later(later) => later.await,
            },
        }
    }

    fn conclude(self, resolved: Resolved) -> Result<Resolved, Refusal> {
        match resolved {
            Resolved::Kept => self.routed,
            other => Ok(other),
        }
    }
}
