//! Ways out: what delivers mail, by the key that a route names it by.

use super::{AsMail, MailQuestion, OwnReport, ReportQuestion, Slot};
use crate::message::Message;
use crate::seams::{Task, World};
use mail::Failure;
use std::rc::Rc;
use std::sync::Arc;

/// A way out. There is one value per shard and kind.
pub trait Channel<W: World>: 'static {
    /// The key in `[[route]]` that leads to it: `smtp`, `maildir`, …
    fn key(&self) -> &'static str;

    /// What an operator sees of a message of this channel's, by names of header fields.
    fn describe(&self, _message: &Message) -> Vec<Field> {
        Vec::new()
    }

    /// A report in a form of its own, where the message is one of this channel's. `None`: it is not.
    fn report(&self, _question: &ReportQuestion<'_>) -> Option<OwnReport> {
        None
    }

    /// Makes internet mail of this channel's messages, for a route that takes nothing else. `None`: they are that.
    fn makes_mail(&self) -> Option<MakesMail> {
        None
    }

    /// Works one connection slot of a ready queue until there is nothing more for it. Dropping the
    /// slot gives it back.
    fn run(&self, slot: Slot<W>) -> Task;
}

/// Name and value of what is told of a message.
pub type Field = (Arc<str>, Box<str>);

/// Makes internet mail of a message, on whatever thread. `None`: it is none of the channel's.
pub type MakesMail = fn(&MailQuestion) -> Option<Result<AsMail, Failure>>;

/// The channels of a shard.
pub type Channels<W> = Vec<Rc<dyn Channel<W>>>;
