//! The next hops of a shard's ready queues, kept for as long as the queue keeps these.

use super::NextHop;
use queue::ReadyId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Next hops by ready queue.
#[derive(Debug, Default)]
pub(crate) struct Hops(RefCell<BTreeMap<ReadyId, Rc<NextHop>>>);

impl Hops {
    /// Where this ready queue leads.
    pub(crate) fn get(&self, ready: ReadyId) -> Option<Rc<NextHop>> {
        self.0.borrow().get(&ready).cloned()
    }

    /// This is where a ready queue leads. Unless it says just what was known, connections that
    /// were opened by what was known carry no further message.
    pub(crate) fn learn(&self, ready: ReadyId, hop: NextHop) {
        let mut hops = self.0.borrow_mut();
        if let Some(known) = hops.get(&ready) {
            if known.is_like(&hop) {
                return;
            }
            known.superseded.set(true);
        }
        hops.insert(ready, Rc::new(hop));
    }

    /// The queue has dropped this ready queue.
    pub(crate) fn forget(&self, ready: ReadyId) {
        self.0.borrow_mut().remove(&ready);
    }
}
