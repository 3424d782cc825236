//! Settings that apply to the whole queue until they change: retry policies, routes, suspensions, and trust in the
//! clock.

use super::{Schedule, shaped};
use crate::control::{HopSeen, Scope, Suspension, longest};
use crate::routing::hop::NextHop;
use crate::seams::{Time, World};
use crate::window::Window;
use mail::Mono;
use queue::{Hours, ReadyId, ReadyKey, ScheduledId, ScheduledKey, SuspendedQueue};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Interval for checking a distrusted clock.
const CLOCK_LOOK: Duration = Duration::from_secs(5);

/// Applies a new configuration or new suspensions to all queues, piece by piece. A further change starts from the
/// beginning.
pub(crate) fn follow_changes<W: World>(schedule: &Rc<Schedule<W>>) {
    schedule.change.set(schedule.change.get().wrapping_add(1));
    let change = schedule.change.get();
    let task = Rc::clone(schedule);
    schedule.services.spawn(async move {
        follow(&task, change).await;
    });
}

async fn follow<W: World>(schedule: &Rc<Schedule<W>>, change: u32) {
    let readies: Vec<(ReadyId, ReadyKey)> = {
        let queue = schedule.queue();
        queue.ready_queues().map(|ready| (ready.id, ready.key.clone())).collect()
    };
    for (id, key) in readies {
        // The id may belong to another ready queue by now.
        if schedule.queue().ready_key(id) == Some(&key) {
            suspend_hop(schedule, id, &key);
        }
    }
    let mut from = Some(0);
    while let Some(at) = from {
        if schedule.change.get() != change {
            return;
        }
        let piece: Vec<(ScheduledId, ScheduledKey)> = {
            let queue = schedule.queue();
            let (rows, next) = queue.scheduled_piece(at);
            from = next;
            rows.map(|row| (row.id, row.key.clone())).collect()
        };
        let active = schedule.router.active();
        for (id, key) in piece {
            schedule.queue_mut().set_retry(id, active.retry_of(&key));
            suspend_scheduled(schedule, id, &key);
        }
        schedule.services.pause_for_others().await;
    }
}

/// Suspends a scheduled queue if an operator's suspension or an effect on its tenant or campaign applies. Both depend
/// on the known next hops.
pub(crate) fn suspend_scheduled<W: World>(
    schedule: &Schedule<W>,
    id: ScheduledId,
    key: &ScheduledKey,
) {
    let asks_for_hops = schedule.suspensions.borrow().iter().any(|s| s.scope.asks_for_hops());
    let ways: Vec<(ReadyKey, Option<Rc<NextHop>>)> = if asks_for_hops {
        let queue = schedule.queue();
        let ways = queue.ways_of(id).into_iter();
        ways.filter_map(|way| Some((queue.ready_key(way)?.clone(), schedule.hop(way)))).collect()
    } else {
        Vec::new()
    };
    let hops: Vec<HopSeen<'_>> = ways.iter().map(|(key, hop)| seen(key, hop.as_deref())).collect();
    suspend_with(schedule, id, key, &hops);
}

/// The same for a scheduled queue that was just resolved to these hops.
pub(super) fn suspend_resolved<W: World>(
    schedule: &Schedule<W>,
    id: ScheduledId,
    hops: &[HopSeen<'_>],
) {
    if schedule.suspensions.borrow().iter().any(|s| s.scope.asks_for_hops()) {
        let key = schedule.queue().scheduled_key(id).cloned();
        if let Some(key) = key {
            suspend_with(schedule, id, &key, hops);
        }
    }
}

/// A suspension has expired: ends it, or extends it if the wall clock was set back.
pub(crate) fn look_again<W: World>(schedule: &Schedule<W>, of: SuspendedQueue) {
    match of {
        SuspendedQueue::Scheduled(id) => {
            let key = schedule.queue().scheduled_key(id).cloned();
            if let Some(key) = key {
                suspend_scheduled(schedule, id, &key);
            }
        }
        SuspendedQueue::Ready(id) => {
            let key = schedule.queue().ready_key(id).cloned();
            if let Some(key) = key {
                suspend_hop(schedule, id, &key);
            }
        }
    }
}

fn suspend_with<W: World>(
    schedule: &Schedule<W>,
    id: ScheduledId,
    key: &ScheduledKey,
    hops: &[HopSeen<'_>],
) {
    let suspensions = schedule.suspensions.borrow();
    let found = if suspensions.is_empty() {
        None
    } else {
        let active = schedule.router.active();
        let route = active.route_of_key(key);
        let route = route.map(|route| &*route.name);
        let covers = |scope: &Scope| scope.covers(key, route, hops);
        longest(&suspensions, schedule.services.wall(), covers).map(|s| standstill(schedule, s))
    };
    let found = found.or_else(|| shaped::standstill_of_party(schedule, id, key));
    schedule.queue_mut().suspend(schedule.services.now(), id, found);
}

/// A ready queue's next hop as suspensions match it.
fn seen<'a>(key: &'a ReadyKey, hop: Option<&'a NextHop>) -> HopSeen<'a> {
    HopSeen {
        next_hop: &key.next_hop,
        route: hop.map(|hop| &*hop.route),
        provider: hop.and_then(|hop| hop.provider.as_deref()),
        source: &key.source,
    }
}

/// Suspends a ready queue if a suspension applies: by an operator for next hop, provider or source, by a shaping rule,
/// or because its source has failed.
pub(crate) fn suspend_hop<W: World>(schedule: &Schedule<W>, id: ReadyId, key: &ReadyKey) {
    let suspensions = schedule.suspensions.borrow();
    let hop = if suspensions.is_empty() { None } else { schedule.hop(id) };
    let seen = seen(key, hop.as_deref());
    let covers = |scope: &Scope| scope.covers_hop(&seen);
    let found = longest(&suspensions, schedule.services.wall(), covers);
    let now = schedule.services.now();
    let found = found.map(|s| standstill(schedule, s));
    let found = found.or_else(|| shaped::standstill_of_hop(schedule, id, key));
    let found = found.or_else(|| schedule.sources_out.of(now, key));
    let found = found.or_else(|| schedule.unreachable.of(now, key));
    schedule.queue_mut().suspend_ready(now, id, found);
}

/// The operator's suspension in the queue's type.
fn standstill<W: World>(schedule: &Schedule<W>, suspension: &Suspension) -> Arc<queue::Suspension> {
    let until = suspension.until.map_or(Mono::NEVER, |until| {
        let left = until.since(schedule.services.wall());
        schedule.services.now() + left
    });
    Arc::new(queue::Suspension {
        what: suspension.scope.to_string().into(),
        reason: suspension.reason.as_str().into(),
        is_operators: true,
        until,
    })
}

/// Replaces the operator's suspensions.
pub(crate) fn set_suspensions<W: World>(
    schedule: &Rc<Schedule<W>>,
    suspensions: Arc<[Suspension]>,
) {
    *schedule.suspensions.borrow_mut() = suspensions;
    follow_changes(schedule);
}

/// Counts queued recipients without a route.
pub(crate) async fn count_unrouted<W: World>(schedule: &Rc<Schedule<W>>) -> u64 {
    let mut count = 0;
    let mut from = Some(0);
    while let Some(at) = from {
        {
            let (queue, active) = (schedule.queue(), schedule.router.active());
            let (rows, next) = queue.scheduled_piece(at);
            from = next;
            for row in rows.filter(|row| row.entries > 0) {
                if active.route_of_key(row.key).is_none() {
                    count += row.entries as u64;
                }
            }
        }
        if from.is_some() {
            schedule.services.pause_for_others().await;
        }
    }
    count
}

/// Sets the delivery window of a scheduled queue. A window that can't be parsed, for example from a later version,
/// counts as open: its mail would otherwise wait forever.
pub(crate) fn tell_hours<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId) {
    let window = schedule.queue().scheduled_key(scheduled).map(|key| Arc::clone(&key.window));
    let services = &schedule.services;
    let (now, wall) = (services.now(), services.wall());
    let opening =
        window.and_then(|window| Window::parse(&window)).and_then(|window| window.at(wall));
    let hours = match opening {
        Some(opening) => Hours { is_open: opening.is_open, until: now + opening.until.since(wall) },
        None => Hours { is_open: true, until: Mono::NEVER },
    };
    schedule.queue_mut().set_hours(now, scheduled, hours);
}

/// Suspends expiry while the clock is not trusted: until it is right, or an operator confirms it.
pub(crate) async fn watch_clock<W: World>(schedule: Rc<Schedule<W>>) {
    let time = schedule.services.world.time();
    let offset = || i128::from(time.wall().0) * 1_000 - i128::from(time.now().0);
    let before = offset();
    let began = time.now();
    schedule.queue_mut().keep_all(began, true);
    loop {
        time.sleep_until(time.now() + CLOCK_LOOK).await;
        let doubt = &schedule.services.shared.clock;
        let is_trusted = !doubt.is_doubted();
        let came_right = doubt.is_right(time.wall(), time.now().since(began));
        if !is_trusted && !came_right {
            continue;
        }
        if came_right {
            doubt.trust();
            // The clock was ahead by this time when the ages of recovered messages were computed. If it was behind, the
            // ages are too low, which is harmless.
            let ahead_us = before - offset();
            if let Ok(ahead_us @ 1..) = i64::try_from(ahead_us) {
                make_younger(&schedule, began, ahead_us).await;
            }
        }
        schedule.queue_mut().keep_all(time.now(), false);
        return;
    }
}

async fn make_younger<W: World>(schedule: &Rc<Schedule<W>>, began: Mono, wrong_us: i64) {
    let mut chunk = 0;
    while chunk < schedule.queue().chunk_count() {
        schedule.queue_mut().correct_ages(chunk, began, wrong_us);
        chunk += 1;
        schedule.services.pause_for_others().await;
    }
}
