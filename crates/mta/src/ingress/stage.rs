//! Stages: checks and changes before a message is durable, on the accepting shard, in the order of the configuration.

use super::draft::{Additions, Draft};
use super::observer::Observer;
use super::session::Session;
use crate::answer::{Answer, Decision};
use crate::console::Console;
use crate::facts::Owner;
use crate::pressure::Pressures;
use crate::seams::World;
use bytes::Bytes;
use config::{Config, Route};
use mail::{Mailbox, Recipient};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A stage. Each decision is made at once or later, within a timeout.
pub trait Stage: 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Checks a client that has connected.
    fn connect<'a>(&'a self, _session: &'a Rc<Session>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Checks the sender of a new transaction.
    fn sender<'a>(&'a self, _transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Decides about a recipient. With `None` the next stage decides, and after the last one the routes. Several
    /// recipients may be pending at the same time.
    fn recipient(
        &self,
        _transaction: &Rc<TransactionView>,
        _recipient: &Recipient,
        _routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        Answer::Now(Ok(None))
    }

    /// The final check of a recipient that all stages and the routes accept.
    fn taken(
        &self,
        _transaction: &Rc<TransactionView>,
        _recipient: &Recipient,
    ) -> Decision<'static, ()> {
        Decision::pass()
    }

    /// Checks before the content is requested.
    fn data<'a>(&'a self, _transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// An observer of the content as it arrives, including parts already written to disk.
    fn observe(&self, _transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        None
    }

    /// The authserv-id of this stage's Authentication-Results. Incoming fields with this authserv-id are renamed as
    /// they arrive (RFC 8601 §5).
    fn speaks_as(&self, _transaction: &Rc<TransactionView>) -> Option<&str> {
        None
    }

    /// Checks the complete content. May add header fields, recipients and facts, replace the content, hold the message
    /// or refuse it. `observer` is the value from [`Stage::observe`], for a downcast.
    fn content<'a>(
        &'a self,
        _transaction: &'a Rc<TransactionView>,
        _draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Fields and signers, each as `SELECTOR._domainkey.DOMAIN`, for a generated message with this content. Generated
    /// messages pass no other part of a stage.
    fn own(&self, _content: &Bytes) -> Decision<'static, Option<SignedFields>> {
        Answer::Now(Ok(None))
    }

    /// Timeout for [`Stage::content`], after which the reply is 451.
    fn content_time_max(&self) -> Duration {
        DECISION_MAX
    }
}

/// Signature fields, each as lines to be folded, and their signers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedFields {
    pub fields: Vec<Vec<String>>,
    pub signers: Vec<Box<str>>,
}

/// Timeout for a decision, after which the reply is 451 4.3.0. Clients wait five minutes or more (RFC 5321 §4.5.3.2).
pub(super) const DECISION_MAX: Duration = Duration::from_secs(100);

/// The resolution of an accepted recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// Kept as given, if the routes accept it.
    Kept,
    /// Replaced by at least one address, independent of the client's rights.
    Replaced(Box<[ExpandedRecipient]>),
    /// Discarded, with the reason.
    Dropped(Arc<str>),
}

/// A recipient from an expansion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedRecipient {
    pub recipient: Recipient,
    /// The owner of its list, which becomes the envelope sender.
    pub owner: Option<Arc<Owner>>,
}

impl From<Recipient> for ExpandedRecipient {
    fn from(recipient: Recipient) -> ExpandedRecipient {
        ExpandedRecipient { recipient, owner: None }
    }
}

/// A transaction as stages see it, from MAIL or its equivalent to the final reply.
#[derive(Debug)]
pub struct TransactionView {
    pub session: Rc<Session>,
    /// The reverse-path. `None` is `<>`.
    pub sender: Option<Mailbox>,
    /// The announced size of the content.
    pub size: Option<u64>,
    /// Unique for this run of the shard.
    pub serial: u64,
    /// See [`TransactionView::recipients`].
    recipients: Cell<usize>,
    additions: RefCell<Additions>,
}

impl TransactionView {
    pub(super) fn new(
        session: &Rc<Session>,
        sender: Option<Mailbox>,
        size: Option<u64>,
        serial: u64,
    ) -> Rc<TransactionView> {
        let session = Rc::clone(session);
        let (recipients, additions) = (Cell::default(), RefCell::default());
        Rc::new(TransactionView { session, sender, size, serial, recipients, additions })
    }

    /// Number of recipients accepted from the client, a repeated one each time; 0 before the content is requested.
    #[must_use]
    pub fn recipients(&self) -> usize {
        self.recipients.get()
    }

    pub(super) fn note_recipients(&self, count: usize) {
        self.recipients.set(count);
    }

    /// Adds a header field to the coming message, without its line end. See [`Draft::prepend`].
    pub fn prepend(&self, field: &str) {
        self.additions.borrow_mut().prepend(field);
    }

    /// Holds the coming message for an operator.
    pub fn hold(&self, reason: &str) {
        self.additions.borrow_mut().hold(reason);
    }

    /// Adds a recipient to the coming message. See [`Draft::add_recipient`].
    pub fn add_recipient(&self, recipient: Recipient) {
        self.additions.borrow_mut().recipients.push(recipient);
    }

    pub(super) fn take_additions(&self) -> Additions {
        self.additions.take()
    }
}

/// A stage and its position in the configuration.
pub struct Placed {
    /// The line in the file. Stages run in this order.
    pub line: u32,
    pub stage: Rc<dyn Stage>,
}

/// A kind of stage. One value per shard, registered where the program is put together.
pub trait StageKind<W: World>: 'static {
    /// Creates the configured stages of this kind, at start and at each reload. Pools that unauthenticated clients can
    /// exhaust are registered in `pools`.
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed>;
}

/// The decision of the routes about a recipient, for a stage.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    /// The routes would accept the recipient.
    pub is_taken: bool,
    /// The route. `None` if no route matches, or the address is a rewritten sender.
    pub route: Option<&'a Route>,
}

/// The kinds of stage of a shard.
pub type StageKinds<W> = Vec<Rc<dyn StageKind<W>>>;

/// The active stages in order.
pub(super) type Stages = Rc<[Rc<dyn Stage>]>;

/// The configured stages of all kinds.
pub(super) fn stages_of<W: World>(
    kinds: &[Rc<dyn StageKind<W>>],
    config: &Config,
    world: &W,
    console: &Rc<dyn Console>,
    pools: &Pressures,
) -> Stages {
    let mut placed: Vec<Placed> =
        kinds.iter().flat_map(|kind| kind.stages(config, world, console, pools)).collect();
    placed.sort_by_key(|placed| placed.line);
    placed.into_iter().map(|placed| placed.stage).collect()
}
