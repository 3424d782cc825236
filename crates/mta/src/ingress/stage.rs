//! Steps before a message is durable, in the order of the configuration, on the accepting shard.

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
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A step before a message is durable. Each of its answers is there at once, or comes later: then
/// the core waits, though not for ever.
pub trait Stage: 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Whether a client that has just connected may go on.
    fn connect<'a>(&'a self, _session: &'a Rc<Session>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Whether the sender of a transaction that begins may send.
    fn sender<'a>(&'a self, _transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// What becomes of a recipient; `None`: the next stage is asked, and after the last one the
    /// routes decide. Several recipients may be asked about at once.
    fn recipient(
        &self,
        _transaction: &Rc<TransactionView>,
        _recipient: &Recipient,
        _routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        Answer::Now(Ok(None))
    }

    /// Whether a recipient that all stages and the routes take may be kept: the last word about it.
    fn taken(
        &self,
        _transaction: &Rc<TransactionView>,
        _recipient: &Recipient,
    ) -> Decision<'static, ()> {
        Decision::pass()
    }

    /// Whether content may come.
    fn data<'a>(&'a self, _transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Who sees the content as it arrives, also what goes to disk meanwhile.
    fn observe(&self, _transaction: &Rc<TransactionView>) -> Option<Box<dyn Observer>> {
        None
    }

    /// By what name this server says in the message what came of checks: who else says it under that
    /// name is renamed as the content arrives.
    fn speaks_as(&self, _transaction: &Rc<TransactionView>) -> Option<&str> {
        None
    }

    /// The content is complete: may add header fields, recipients and facts, hold, refuse.
    /// `observer` is what [`Stage::observe`] gave, for a downcast. Other content may take its place.
    fn content<'a>(
        &'a self,
        _transaction: &'a Rc<TransactionView>,
        _draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        Decision::pass()
    }

    /// Fields for a message of this server's own, whose content this is, and who signed by them, each as
    /// `SELECTOR._domainkey.DOMAIN`. Such a message passes no stage otherwise.
    fn own(&self, _content: &Bytes) -> Decision<'static, Option<SignedFields>> {
        Answer::Now(Ok(None))
    }

    /// So long [`Stage::content`] may take; 451 beyond it.
    fn content_time_max(&self) -> Duration {
        DECISION_MAX
    }
}

/// Signatures, each in lines that are to be folded, and who made them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignedFields {
    pub fields: Vec<Vec<String>>,
    pub signers: Vec<Box<str>>,
}

/// So long a decision is waited for; 451 4.3.0 beyond it. Clients wait five minutes and more (RFC
/// 5321 §4.5.3.2).
pub(super) const DECISION_MAX: Duration = Duration::from_secs(100);

/// What becomes of a recipient that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// It is kept as it was given, if the routes take it.
    Kept,
    /// These are kept in its place, whoever the client is; at least one.
    Replaced(Box<[ExpandedRecipient]>),
    /// Nothing is kept for it, and why.
    Dropped(Arc<str>),
}

/// One of those that stand for a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpandedRecipient {
    pub recipient: Recipient,
    /// Who answers for the list that has it: it gets the message from there.
    pub owner: Option<Arc<Owner>>,
}

impl From<Recipient> for ExpandedRecipient {
    fn from(recipient: Recipient) -> ExpandedRecipient {
        ExpandedRecipient { recipient, owner: None }
    }
}

/// A transaction as stages see it, from MAIL or its like to the final reply.
#[derive(Debug)]
pub struct TransactionView {
    pub session: Rc<Session>,
    /// The reverse-path; `None` is `<>`.
    pub sender: Option<Mailbox>,
    /// How many bytes of content were announced, if that was said.
    pub size: Option<u64>,
    /// No other transaction of this run of the shard has it.
    pub serial: u64,
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
        let additions = RefCell::default();
        Rc::new(TransactionView { session, sender, size, serial, additions })
    }

    /// A header field for the message that comes, without its line end; see [`Draft::prepend`].
    pub fn prepend(&self, field: &str) {
        self.additions.borrow_mut().prepend(field);
    }

    /// The message that comes shall wait for an operator.
    pub fn hold(&self, reason: &str) {
        self.additions.borrow_mut().hold(reason);
    }

    /// One recipient more for the message that comes; see [`Draft::add_recipient`].
    pub fn add_recipient(&self, recipient: Recipient) {
        self.additions.borrow_mut().recipients.push(recipient);
    }

    pub(super) fn take_additions(&self) -> Additions {
        self.additions.take()
    }
}

/// A stage and where the configuration asks for it.
pub struct Placed {
    /// The line of the file: stages go in this order.
    pub line: u32,
    pub stage: Rc<dyn Stage>,
}

/// A kind of stage: one value per shard, registered where the program is put together.
pub trait StageKind<W: World>: 'static {
    /// The stages of this kind that a configuration asks for; made at the start and at each reload.
    /// What strangers can fill of them shows itself in `pools`.
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed>;
}

/// What the routes say of a recipient that a stage is asked about.
#[derive(Clone, Copy, Debug)]
pub struct Routed<'a> {
    /// They would take it.
    pub is_taken: bool,
    /// The one that it would take; `None`: there is none, or it is a rewritten sender.
    pub route: Option<&'a Route>,
}

/// The kinds of stage that a shard knows.
pub type StageKinds<W> = Vec<Rc<dyn StageKind<W>>>;

/// The stages in force, in their order.
pub(super) type Stages = Rc<[Rc<dyn Stage>]>;

/// Those of all kinds that `config` asks for.
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
