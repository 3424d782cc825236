//! Sources that cannot send at present: what would go from them goes from others of their pool.

use super::{Schedule, standing};
use crate::seams::World;
use mail::Mono;
use queue::{ReadyId, ReadyKey};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a source is left alone.
const OUT_FOR: Duration = Duration::from_secs(60);

/// What a source cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// Send at all.
    Source,
    /// Reach one next hop.
    Way(ReadyKey),
}

/// Sources, and ways from them, that are out, each with why and until when.
#[derive(Debug, Default)]
pub(crate) struct SourcesOut(RefCell<BTreeMap<Concerned, Arc<queue::Suspension>>>);

/// A source, and the way from it where it is about one only.
type Concerned = (Arc<str>, Option<ReadyKey>);

impl SourcesOut {
    /// What stands in the way of a ready queue.
    pub(super) fn of(&self, now: Mono, key: &ReadyKey) -> Option<Arc<queue::Suspension>> {
        if key.source.is_empty() {
            return None;
        }
        let out = self.0.borrow();
        let of = |way| out.get(&(Arc::clone(&key.source), way)).filter(|s| s.until > now).cloned();
        of(None).or_else(|| of(Some(key.clone())))
    }
}

/// A source has turned out to be of no use, for all it sends or for one next hop.
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
    // Each shard finds out for itself, and each opening that is under way.
    let is_news = || schedule.services.shared.told_sources.is_news(source, now, OUT_FOR / 2);
    if out == Out::Source && is_news() {
        schedule.services.console.warn("source", format_args!("{source} is out: {why}"));
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
