//! Ways out: what delivers mail, by the key that a route names it by.

use super::Slot;
use crate::seams::{Task, World};
use std::rc::Rc;

/// A way out. There is one value per shard and kind.
pub trait Channel<W: World>: 'static {
    /// The key in `[[route]]` that leads to it: `smtp`, `maildir`, …
    fn key(&self) -> &'static str;

    /// Works one connection slot of a ready queue until there is nothing more for it. Dropping the
    /// slot gives it back.
    fn run(&self, slot: Slot<W>) -> Task;
}

/// The channels of a shard.
pub type Channels<W> = Vec<Rc<dyn Channel<W>>>;
