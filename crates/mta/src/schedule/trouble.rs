//! Reports when a next hop, or a domain that can't be resolved, is suspended after failures and when it is resumed. The
//! event log and the console get one report for all shards.

use super::Schedule;
use crate::event::{Kind, Suspension};
use crate::seams::World;
use mail::Failure;
use queue::{ReadyId, ScheduledId, SuspendedHop};
use std::sync::Arc;

/// The queue has suspended a next hop.
pub(crate) fn tell_suspended<W: World>(schedule: &Schedule<W>, suspended: &SuspendedHop) {
    let Some(target) = target_of(schedule, suspended.ready) else { return };
    let SuspendedHop { step, recipients, failure, until, .. } = suspended;
    suspend(schedule, &target, (*step, *recipients), failure.clone(), *until);
}

/// The queue has resumed a next hop.
pub(crate) fn tell_resumed<W: World>(schedule: &Schedule<W>, ready: ReadyId, recovered: bool) {
    let Some(target) = target_of(schedule, ready) else { return };
    resume(schedule, &target, recovered);
}

/// The resolution of a domain failed.
pub(crate) fn tell_unresolved<W: World>(
    schedule: &Schedule<W>,
    scheduled: ScheduledId,
    failure: &Arc<Failure>,
) {
    let (target, trouble) = {
        let queue = schedule.queue();
        let Some(key) = queue.scheduled_key(scheduled) else { return };
        (Arc::<str>::from(key.domain.as_str()), queue.trouble(scheduled))
    };
    let Some((step, until, recipients)) = trouble else { return };
    suspend(schedule, &target, (step, recipients), Some(Arc::clone(failure)), until);
}

/// The resolution succeeded after failures.
pub(crate) fn tell_resolved<W: World>(schedule: &Schedule<W>, domain: &str) {
    resume(schedule, domain, true);
}

fn target_of<W: World>(schedule: &Schedule<W>, ready: ReadyId) -> Option<Arc<str>> {
    schedule.queue().ready_key(ready).map(|key| Arc::clone(&key.next_hop))
}

fn suspend<W: World>(
    schedule: &Schedule<W>,
    target: &Arc<str>,
    (step, recipients): (u16, u32),
    failure: Option<Arc<Failure>>,
    until: mail::Mono,
) {
    let reason = || match &failure {
        Some(failure) => failure.to_string(),
        None => "connections are lost repeatedly".to_owned(),
    };
    let known = &schedule.services.shared.suspensions;
    let told = known.suspend(target, schedule.services.number, (step, recipients), reason);
    let Some(recipients) = told else { return };
    schedule.services.metrics.suspensions.inc();
    if step == 1 {
        let reason = reason();
        schedule.services.console.warn(
            "next_hop",
            format_args!("suspended next_hop={target} recipients={recipients} reason={reason:?}"),
        );
    }
    if schedule.services.events.is_on() {
        let suspension = Suspension {
            target: Arc::clone(target),
            step,
            recipients,
            failure,
            next_try: schedule.services.wall_of(until),
        };
        schedule.services.emit_of_none(Kind::Suspended(Box::new(suspension)));
    }
}

fn resume<W: World>(schedule: &Schedule<W>, target: &str, recovered: bool) {
    let told =
        schedule.services.shared.suspensions.resume(target, schedule.services.number, recovered);
    let Some(step) = told else { return };
    schedule
        .services
        .console
        .warn("next_hop", format_args!("resumed next_hop={target} pauses={step}"));
    if schedule.services.events.is_on() {
        schedule.services.emit_of_none(Kind::Resumed { target: Arc::from(target), step });
    }
}
