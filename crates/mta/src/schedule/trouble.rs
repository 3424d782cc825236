//! Reports when a next hop, or a domain that can't be resolved, is suspended after failures and when it is resumed. The
//! event log and the console get one report for all shards.

use super::Schedule;
use crate::event::{Kind, Suspension};
use crate::seams::World;
use crate::suspension::{StoppedQueue, SuspendedTarget};
use mail::Failure;
use queue::{ReadyId, ScheduledId, SuspendedHop, WaitingCount};
use std::sync::Arc;

/// The queue has suspended a next hop.
pub(crate) fn tell_suspended<W: World>(schedule: &Schedule<W>, suspended: &SuspendedHop) {
    let Some(target) = target_of(schedule, suspended.ready) else { return };
    let SuspendedHop { ready, step, waiting, failure, until } = suspended;
    let pause = Pause { step: *step, failure: failure.clone(), until: *until };
    let queue = StoppedQueue::Ready(schedule.services.number, *ready);
    suspend(schedule, &target, (queue, waiting.clone()), &pause);
}

/// The queue has resumed a next hop.
pub(crate) fn tell_resumed<W: World>(schedule: &Schedule<W>, ready: ReadyId, recovered: bool) {
    let Some(target) = target_of(schedule, ready) else { return };
    let queue = StoppedQueue::Ready(schedule.services.number, ready);
    resume(schedule, &target, queue, recovered);
}

/// The resolution of a domain failed.
pub(crate) fn tell_unresolved<W: World>(
    schedule: &Schedule<W>,
    scheduled: ScheduledId,
    failure: &Arc<Failure>,
) {
    let (target, trouble) = {
        let mut queue = schedule.queue_mut();
        let Some(key) = queue.scheduled_key(scheduled) else { return };
        (target_of_domain(key.domain.as_str()), queue.trouble(scheduled))
    };
    let Some((step, until, waiting)) = trouble else { return };
    let pause = Pause { step, failure: Some(Arc::clone(failure)), until };
    let queue = StoppedQueue::Scheduled(schedule.services.number, scheduled);
    suspend(schedule, &target, (queue, waiting), &pause);
}

/// The resolution succeeded after failures.
pub(crate) fn tell_resolved<W: World>(
    schedule: &Schedule<W>,
    scheduled: ScheduledId,
    domain: &str,
) {
    let queue = StoppedQueue::Scheduled(schedule.services.number, scheduled);
    resume(schedule, &target_of_domain(domain), queue, true);
}

fn target_of<W: World>(schedule: &Schedule<W>, ready: ReadyId) -> Option<SuspendedTarget> {
    let queue = schedule.queue();
    let key = queue.ready_key(ready)?;
    let (next_hop, source) = (Arc::clone(&key.next_hop), Arc::clone(&key.source));
    Some(SuspendedTarget { next_hop, source })
}

fn target_of_domain(domain: &str) -> SuspendedTarget {
    SuspendedTarget { next_hop: Arc::from(domain), source: Arc::from("") }
}

/// A pause after a failure.
struct Pause {
    /// Number of pauses in a row, from 1.
    step: u16,
    failure: Option<Arc<Failure>>,
    until: mail::Mono,
}

fn suspend<W: World>(
    schedule: &Schedule<W>,
    target: &SuspendedTarget,
    waiting: (StoppedQueue, WaitingCount),
    pause: &Pause,
) {
    let Pause { step, failure, until } = pause;
    let reason = || match failure {
        Some(failure) => failure.to_string(),
        None => "connections are lost repeatedly".to_owned(),
    };
    let (services, now) = (&schedule.services, schedule.services.wall());
    let told = services.shared.suspensions.suspend(target, waiting, (*step, now), reason);
    let Some(recipients) = told else { return };
    services.metrics.suspensions.inc();
    if *step == 1 {
        let (next_hop, source, reason) = (&target.next_hop, shown(target), reason());
        services.console.warn(
            "next_hop",
            format_args!(
                "suspended next_hop={next_hop}{source} recipients={recipients} reason={reason:?}"
            ),
        );
    }
    if services.events.is_on() {
        let suspension = Suspension {
            target: target.clone(),
            step: *step,
            recipients,
            failure: failure.clone(),
            next_try: services.wall_of(*until),
        };
        services.emit_of_none(Kind::Suspended(Box::new(suspension)));
    }
}

fn resume<W: World>(
    schedule: &Schedule<W>,
    target: &SuspendedTarget,
    queue: StoppedQueue,
    recovered: bool,
) {
    let services = &schedule.services;
    let Some(step) = services.shared.suspensions.resume(target, queue, recovered) else { return };
    let (next_hop, source) = (&target.next_hop, shown(target));
    if !recovered {
        let text = format_args!("no mail left next_hop={next_hop}{source} pauses={step}");
        return services.console.info("next_hop", text);
    }
    let text = format_args!("resumed next_hop={next_hop}{source} pauses={step}");
    services.console.warn("next_hop", text);
    if services.events.is_on() {
        services.emit_of_none(Kind::Resumed { target: Box::new(target.clone()), step });
    }
}

/// The source as a part of a console line.
fn shown(target: &SuspendedTarget) -> String {
    match &*target.source {
        "" => String::new(),
        source => format!(" source={source}"),
    }
}
