//! The next hops of a shard's ready queues, kept for as long as the queue keeps these.

use crate::known_hops::KnownHops;
use crate::line::{Standing, Who};
use crate::routing::hop::NextHop;
use mail::Mono;
use queue::{ReadyId, ReadyKey};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Next hops by ready queue.
#[derive(Debug, Default)]
pub(crate) struct Hops(RefCell<BTreeMap<ReadyId, Place>>);

#[derive(Debug)]
struct Place {
    hop: Rc<NextHop>,
    key: ReadyKey,
    /// What it is called in the line for connections.
    who: Who,
}

impl Hops {
    /// Where this ready queue leads.
    pub(crate) fn get(&self, ready: ReadyId) -> Option<Rc<NextHop>> {
        self.0.borrow().get(&ready).map(|place| Rc::clone(&place.hop))
    }

    /// This is where a ready queue leads, whose key is `key`. Unless it says just what was known,
    /// connections that were opened by what was known carry no further message.
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
        hops.insert(ready, Place { hop, key, who });
    }

    /// An operator has mail tried now that goes by these ready queues: what was learnt of their hosts' troubles
    /// is not believed any more.
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

    /// What a ready queue's hop is called in the line for connections.
    pub(crate) fn who(&self, ready: ReadyId) -> Option<Who> {
        self.0.borrow().get(&ready).map(|place| place.who)
    }

    /// A connection was opened, or could not be.
    pub(crate) fn note_opening(&self, all: &KnownHops, ready: ReadyId, opened: bool, now: Mono) {
        if let Some(place) = self.0.borrow().get(&ready) {
            all.note_opening(&place.key, opened, now);
        }
    }

    /// It answered, or was silent.
    pub(crate) fn note(&self, all: &KnownHops, ready: ReadyId, standing: Standing, now: Mono) {
        if let Some(place) = self.0.borrow().get(&ready) {
            all.note(&place.key, standing, now);
        }
    }

    /// What any shard knows of a ready queue's hop. One that the file names is nobody's whom strangers can have
    /// us write to, and is good unless it fails.
    pub(crate) fn standing(&self, all: &KnownHops, ready: ReadyId, now: Mono) -> Standing {
        let hops = self.0.borrow();
        let Some(place) = hops.get(&ready) else { return Standing::Unknown };
        match all.standing(&place.key, now) {
            Standing::Unknown if !place.hop.is_by_mx() => Standing::Good,
            known => known,
        }
    }
}
