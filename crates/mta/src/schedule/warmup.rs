//! Warm-up of egress sources: the allowances of ready queues, counted over all shards (`crate::warmup`).

use super::Schedule;
use crate::answer::Answer;
use crate::console::Level;
use crate::metrics::WarmupMetrics;
use crate::routing::hop::NextHop;
use crate::seams::World;
use crate::warmup::{Allowance, AllowanceRequest, Answered, Tried, WarmupDayEnd, WarmupKey};
use ::classes::{FailureKind, ReplyClass};
use config::{Warmup, host_text};
use mail::{Failure, Reply, Wall};
use queue::ReadyId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Without a known provider, recipients are counted by this prefix of the set of hosts. Sets with the same prefix share
/// a count.
const TOWARDS_BYTES_MAX: usize = 200;

/// Ready queues with a source in warm-up.
#[derive(Debug, Default)]
pub(crate) struct Warming(RefCell<BTreeMap<ReadyId, Rc<WarmsUp>>>);

#[derive(Debug)]
struct WarmsUp {
    key: WarmupKey,
    plan: Arc<Warmup>,
    metrics: Arc<WarmupMetrics>,
    /// The warm-up has ended.
    is_warm: Cell<bool>,
    /// End of the day for which the last allowance was granted.
    granted_until: Cell<Wall>,
}

impl Warming {
    fn get(&self, ready: ReadyId) -> Option<Rc<WarmsUp>> {
        self.0.borrow().get(&ready).cloned()
    }

    /// The queue has dropped this ready queue.
    pub(super) fn forget(&self, ready: ReadyId) {
        self.0.borrow_mut().remove(&ready);
    }
}

/// The destination under which a next hop's recipients are counted.
fn towards(hop: &NextHop) -> Arc<str> {
    if let Some(provider) = &hop.provider {
        return Arc::clone(provider);
    }
    let hosts = hop.hosts.iter().flat_map(|group| &group.hosts);
    let mut hosts: Vec<String> = hosts.map(|host| host_text(&host.name, host.port)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let mut text = hosts.join(",");
    text.truncate(text.floor_char_boundary(TOWARDS_BYTES_MAX));
    text.into()
}

/// Notes the next hop and source of a ready queue.
pub(super) fn learn<W: World>(schedule: &Schedule<W>, ready: ReadyId, hop: &NextHop) {
    let plan = hop.source.as_ref().and_then(|source| Some((source, source.warmup.as_ref()?)));
    let fresh = plan.map(|(source, plan)| WarmsUp {
        key: WarmupKey { source: Arc::clone(&source.name), towards: towards(hop) },
        plan: Arc::clone(plan),
        metrics: schedule.services.shared.sending.warmup(&source.name),
        is_warm: Cell::new(false),
        granted_until: Cell::new(Wall(0)),
    });
    let known = schedule.warming.get(ready);
    match (&known, &fresh) {
        (None, None) => return,
        (Some(known), Some(fresh)) if known.key == fresh.key && known.plan == fresh.plan => return,
        _ => {}
    }
    let now = schedule.services.now();
    let left = schedule.queue_mut().need_allowance(now, ready, fresh.is_some());
    if let Some(known) = known {
        give_back(schedule, &known, left);
    }
    let mut all = schedule.warming.0.borrow_mut();
    match fresh {
        Some(fresh) => all.insert(ready, Rc::new(fresh)),
        None => all.remove(&ready),
    };
}

/// Requests an allowance for recipients of a ready queue.
pub(crate) fn ask<W: World>(schedule: &Rc<Schedule<W>>, ready: ReadyId, recipients: u32) {
    // Always present: the entry lives as long as its ready queue.
    let Some(warms_up) = schedule.warming.get(ready) else { return };
    let (key, plan) = (warms_up.key.clone(), Arc::clone(&warms_up.plan));
    let asked = AllowanceRequest { key, plan, wanted: recipients, now: schedule.services.wall() };
    match schedule.services.world.warmups().ask(asked) {
        Answer::Now(answered) => take(schedule, ready, &warms_up, answered),
        Answer::Later(later) => {
            let task = Rc::clone(schedule);
            schedule.services.spawn(async move {
                let answered = later.await;
                take(&task, ready, &warms_up, answered);
            });
        }
    }
}

/// Applies the answer.
fn take<W: World>(
    schedule: &Schedule<W>,
    ready: ReadyId,
    warms_up: &Rc<WarmsUp>,
    answered: Answered,
) {
    let Answered { allowance, turn } = answered;
    if let Some(turn) = turn {
        tell(schedule, warms_up, &turn);
    }
    let services = &schedule.services;
    let (now, wall) = (services.now(), services.wall());
    // The ready queue may be another one, or have another plan, by now.
    let known = schedule.warming.get(ready);
    let is_current = known.is_some_and(|known| Rc::ptr_eq(&known, warms_up));
    match allowance {
        Allowance::Granted { recipients, until } => {
            warms_up.granted_until.set(until);
            if is_current {
                warms_up.metrics.recipients.add(recipients.into());
                let until = now + until.since(wall);
                schedule.queue_mut().handle_allowance(now, ready, recipients, until);
            } else {
                give_back(schedule, warms_up, recipients);
            }
        }
        Allowance::Closed { why, until } if is_current => {
            warms_up.metrics.pauses.inc();
            schedule.queue_mut().handle_no_allowance(ready, why, now + until.since(wall));
        }
        Allowance::Warm if is_current => {
            warms_up.is_warm.set(true);
            schedule.queue_mut().need_allowance(now, ready, false);
        }
        Allowance::Closed { .. } | Allowance::Warm => {}
    }
}

/// Returns allowance that a ready queue does not need.
pub(crate) fn spare<W: World>(schedule: &Schedule<W>, ready: ReadyId, recipients: u32) {
    if let Some(warms_up) = schedule.warming.get(ready) {
        give_back(schedule, &warms_up, recipients);
    }
}

fn give_back<W: World>(schedule: &Schedule<W>, warms_up: &WarmsUp, recipients: u32) {
    if recipients > 0 {
        let until = warms_up.granted_until.get();
        schedule.services.world.warmups().give_back(&warms_up.key, recipients, until);
    }
}

/// Notes the results of an attempt from a ready queue.
pub(crate) fn note<W: World>(
    schedule: &Schedule<W>,
    ready: ReadyId,
    outcomes: &[Result<Reply, Failure>],
) {
    let warms_up = schedule.warming.get(ready).filter(|warms_up| !warms_up.is_warm.get());
    let Some(warms_up) = warms_up else { return };
    let is_held = |failure: &&Failure| {
        let verdict = schedule.services.classes.of(failure);
        verdict.is_some_and(|verdict| {
            verdict.kind == FailureKind::Block || verdict.class == ReplyClass::RateLimited
        })
    };
    let failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let came = Tried {
        tried: number(outcomes.len()),
        delivered: number(outcomes.iter().filter(|outcome| outcome.is_ok()).count()),
        held: number(failures.filter(is_held).count()),
    };
    schedule.services.world.warmups().note(&warms_up.key, came);
}

/// Logs the end of a warm-up day if it is of interest.
fn tell<W: World>(schedule: &Schedule<W>, warms_up: &WarmsUp, turn: &WarmupDayEnd) {
    let (services, WarmsUp { key, metrics, .. }) = (&schedule.services, warms_up);
    match turn {
        WarmupDayEnd::Repeated { stage, count, tried, held } => {
            metrics.days_repeated.inc();
            let day = u64::from(*stage) + 1;
            let text = format_args!(
                "{key} repeats day {day} of its warm-up ({count} recipients): {held} of {tried} \
                 were deferred or rejected as blocked or rate limited"
            );
            services.console.line(Level::Warn, "warmup", text);
        }
        WarmupDayEnd::Warm => {
            metrics.finished.inc();
            let text = format_args!("{key} has completed its warm-up");
            services.console.line(Level::Info, "warmup", text);
        }
    }
}
