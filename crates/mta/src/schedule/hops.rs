//! The next hops of a shard's ready queues, kept as long as the ready queues.

use super::{Schedule, standing};
use crate::known_hops::KnownHops;
use crate::line::{FairKey, TrustLevel};
use crate::routing::hop::NextHop;
use crate::seams::World;
use mail::{Failure, Mono};
use queue::{ReadyId, ReadyKey};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Next hops by ready queue.
#[derive(Debug, Default)]
pub(crate) struct Hops(RefCell<BTreeMap<ReadyId, HopEntry>>);

#[derive(Debug)]
struct HopEntry {
    hop: Rc<NextHop>,
    key: ReadyKey,
    /// Its key in the fair queue for connections.
    who: FairKey,
}

impl Hops {
    /// The next hop of a ready queue.
    pub(crate) fn get(&self, ready: ReadyId) -> Option<Rc<NextHop>> {
        self.0.borrow().get(&ready).map(|place| Rc::clone(&place.hop))
    }

    /// Sets the next hop of a ready queue. If it has changed, connections to the old one carry no further message.
    pub(crate) fn learn(&self, all: &KnownHops, ready: ReadyId, key: &ReadyKey, hop: NextHop) {
        let mut hops = self.0.borrow_mut();
        if let Some(known) = hops.get_mut(&ready) {
            if !known.hop.is_like(&hop) {
                known.hop.superseded.set(true);
                known.hop = Rc::new(hop);
            }
            return;
        }
        let (hop, key, who) = (Rc::new(hop), key.clone(), all.enter(key));
        hops.insert(ready, HopEntry { hop, key, who });
    }

    /// An operator retries mail for these ready queues: failures observed earlier are checked again.
    pub(crate) fn retried(&self, now: Mono, ways: &[ReadyId]) {
        let hops = self.0.borrow();
        ways.iter()
            .filter_map(|ready| hops.get(ready))
            .for_each(|place| place.hop.retried_at.set(now));
    }

    /// The queue has dropped this ready queue.
    pub(crate) fn forget(&self, all: &KnownHops, ready: ReadyId) {
        if let Some(place) = self.0.borrow_mut().remove(&ready) {
            all.leave(&place.key);
        }
    }

    /// The ready queue's key in the fair queue for connections.
    pub(crate) fn who(&self, ready: ReadyId) -> Option<FairKey> {
        self.0.borrow().get(&ready).map(|place| place.who)
    }

    /// Notes the result of a connection attempt for all shards.
    pub(crate) fn note_opening(&self, all: &KnownHops, ready: ReadyId, opened: bool, now: Mono) {
        if let Some(place) = self.0.borrow().get(&ready) {
            all.note_opening(&place.key, opened, now);
        }
    }

    /// Notes for all shards that the hop answered or was silent.
    pub(crate) fn note(&self, all: &KnownHops, ready: ReadyId, standing: TrustLevel, now: Mono) {
        if let Some(place) = self.0.borrow().get(&ready) {
            all.note(&place.key, standing, now);
        }
    }

    /// The standing of a ready queue's hop on all shards. A hop from the configuration cannot be chosen by clients, so
    /// it is good unless it fails.
    pub(crate) fn standing(&self, all: &KnownHops, ready: ReadyId, now: Mono) -> TrustLevel {
        let hops = self.0.borrow();
        let Some(place) = hops.get(&ready) else { return TrustLevel::Unknown };
        match all.standing(&place.key, now) {
            TrustLevel::Unknown if !place.hop.is_by_mx() => TrustLevel::Good,
            known => known,
        }
    }
}

/// Unreachable ready queues with a fallback, which takes their mail until the next connection attempt.
#[derive(Debug, Default)]
pub(crate) struct Unreachable(RefCell<BTreeMap<ReadyKey, Arc<queue::Suspension>>>);

impl Unreachable {
    /// The suspension that applies to a ready queue.
    pub(super) fn of(&self, now: Mono, key: &ReadyKey) -> Option<Arc<queue::Suspension>> {
        self.0.borrow().get(key).filter(|known| known.until > now).cloned()
    }
}

/// A connection attempt failed: until the next one mail goes to the route's fallback, if it has one.
pub(crate) fn note_unreachable<W: World>(
    schedule: &Schedule<W>,
    (ready, hop): (ReadyId, &NextHop),
    failure: &Failure,
) {
    let now = schedule.services.now();
    let (key, until) = {
        let queue = schedule.queue();
        (queue.ready_key(ready).cloned(), queue.closed_until(now, ready))
    };
    let (Some(key), Some(until)) = (key.filter(|_| hop.has_fallback), until) else { return };
    let found = Arc::new(queue::Suspension {
        what: format!("the route {} in favour of its fallback", hop.route).into(),
        reason: failure.to_string().into(),
        is_operators: false,
        until,
    });
    {
        let mut all = schedule.unreachable.0.borrow_mut();
        all.retain(|_, known| known.until > now);
        all.insert(key.clone(), found);
    }
    standing::suspend_hop(schedule, ready, &key);
}

/// Time that an egress source is suspended after a failure.
const OUT_FOR: Duration = Duration::from_secs(60);

/// The scope of an egress source's failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// All mail.
    Source,
    /// One next hop.
    Way(ReadyKey),
}

/// Egress sources, or pairs of source and next hop, that are suspended.
#[derive(Debug, Default)]
pub(crate) struct SourcesOut(RefCell<BTreeMap<SourceScope, Arc<queue::Suspension>>>);

/// A source, and the next hop if the failure affects only one.
type SourceScope = (Arc<str>, Option<ReadyKey>);

impl SourcesOut {
    /// The suspension that applies to a ready queue.
    pub(super) fn of(&self, now: Mono, key: &ReadyKey) -> Option<Arc<queue::Suspension>> {
        if key.source.is_empty() {
            return None;
        }
        let out = self.0.borrow();
        let of = |way| out.get(&(Arc::clone(&key.source), way)).filter(|s| s.until > now).cloned();
        of(None).or_else(|| of(Some(key.clone())))
    }
}

/// Notes that a source has failed, for all its mail or for one next hop.
pub(crate) fn note_out<W: World>(schedule: &Schedule<W>, source: &Arc<str>, out: Out, why: &str) {
    let now = schedule.services.now();
    let (way, what) = match &out {
        Out::Source => (None, format!("the source {source}")),
        Out::Way(key) => (Some(key.clone()), format!("the source {source} for this next hop")),
    };
    let found = Arc::new(queue::Suspension {
        what: what.into(),
        reason: why.into(),
        is_operators: false,
        until: now + OUT_FOR,
    });
    {
        let mut all = schedule.sources_out.0.borrow_mut();
        all.retain(|_, known| known.until > now);
        all.insert((Arc::clone(source), way), found);
    }
    if out == Out::Source {
        let services = &schedule.services;
        services.shared.failed_sources.note(source, why, services.wall(), now + OUT_FOR);
    }
    // Each shard and each pending connection attempt notices the failure, so it is logged once.
    let is_news = || schedule.services.shared.told_sources.is_news(source, now, OUT_FOR / 2);
    if out == Out::Source && is_news() {
        schedule.services.console.warn("source", format_args!("source {source} disabled: {why}"));
    }
    let concerned: Vec<(ReadyId, ReadyKey)> = {
        let queue = schedule.queue();
        let ready = queue.ready_queues().filter(|ready| match &out {
            Out::Source => ready.key.source == *source,
            Out::Way(key) => *ready.key == *key,
        });
        ready.map(|ready| (ready.id, ready.key.clone())).collect()
    };
    for (id, key) in concerned {
        standing::suspend_hop(schedule, id, &key);
    }
}
