//! Ways out: what delivers mail, by the key that a route names it by.

use super::{AsMail, MailQuestion, OwnReport, ReportQuestion, Slot};
use crate::seams::{Task, World};
use mail::Failure;
use std::rc::Rc;

/// A way out. There is one value per shard and kind.
pub trait Channel<W: World>: 'static {
    /// The key in `[[route]]` that leads to it: `smtp`, `maildir`, …
    fn key(&self) -> &'static str;

    /// A report in a form of its own, where the message is one of this channel's. `None`: it is not.
    fn report(&self, _question: &ReportQuestion<'_>) -> Option<OwnReport> {
        None
    }

    /// A message of this channel's as internet mail, for a route that takes nothing else. `None`: it is not one of its.
    fn as_mail(&self, _question: &MailQuestion<'_>) -> Option<Result<AsMail, Failure>> {
        None
    }

    /// Works one connection slot of a ready queue until there is nothing more for it. Dropping the
    /// slot gives it back.
    fn run(&self, slot: Slot<W>) -> Task;
}

/// The channels of a shard.
pub type Channels<W> = Vec<Rc<dyn Channel<W>>>;
