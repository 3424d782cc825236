//! Rehearses a session up to RCPT, with its stages, routes and tables, but without a connection. Accepts no message.

use super::session::Session;
use super::stage::{Placed, Resolved, Routed, Stage, StageKind, StageKinds, TransactionView};
use super::wants::Sender;
use super::{Connection, Ingress, refusals};
use crate::answer::{Answer, Decision};
use crate::console::Console;
use crate::pressure::Pressures;
use crate::seams::World;
use config::Config;
use mail::{Mailbox, Notify, Recipient, Refusal};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The client, sender and recipient of a rehearsal.
#[derive(Clone, Copy, Debug)]
pub struct RehearsedMail<'a> {
    /// Index into the configured listeners.
    pub listener: usize,
    pub client: IpAddr,
    /// The name in EHLO.
    pub helo: &'a str,
    /// The user that the client has logged in as.
    pub login: Option<&'a str>,
    /// The reverse-path. `None` is `<>`.
    pub sender: Option<&'a Mailbox>,
    pub recipient: &'a Mailbox,
}

/// The refusal of a rehearsed session, with the step that got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RehearsedRefusal {
    /// `connect`, `MAIL` or `RCPT`.
    pub step: &'static str,
    pub refusal: Refusal,
}

/// Runs the checks of a new session, of MAIL and of RCPT.
///
/// # Errors
/// The first refusal.
pub(crate) async fn rehearse<W: World>(
    ingress: &Rc<Ingress<W>>,
    mail: RehearsedMail<'_>,
) -> Result<Resolved, RehearsedRefusal> {
    let at = |step| move |refusal| RehearsedRefusal { step, refusal };
    let rules = ingress.rules(mail.listener).ok_or_else(|| at("connect")(refusals::WITHDRAWN))?;
    let client = SocketAddr::new(mail.client, 0);
    let mut connection = Connection::new(ingress, client, None, mail.listener, &rules.listener);
    if let Some(login) = mail.login {
        connection.take_for_user(login);
    }
    connection.admit().await.map_err(at("connect"))?;
    connection.introduce(mail.helo, "ESMTP");
    let sender = Sender { path: mail.sender.cloned(), size: None, requires_tls: false };
    let transaction = connection.begin(sender).await.map_err(at("MAIL"))?;
    let mailbox = mail.recipient.clone();
    let recipient = Recipient { mailbox, notify: Notify::UNSPECIFIED, orcpt: None };
    transaction.recipient(&recipient).get().await.map_err(at("RCPT"))
}

/// The name of the stage that refused, shared with the stages that record it.
pub type RefusingStage = Rc<Cell<Option<&'static str>>>;

/// Makes the stages of these kinds record their refusals.
#[must_use]
pub fn recording<W: World>(kinds: StageKinds<W>, refusing: &RefusingStage) -> StageKinds<W> {
    let recorded = kinds.into_iter().map(|kind| -> Rc<dyn StageKind<W>> {
        Rc::new(RecordingKind { kind, refusing: Rc::clone(refusing) })
    });
    recorded.collect()
}

struct RecordingKind<W: World> {
    kind: Rc<dyn StageKind<W>>,
    refusing: RefusingStage,
}

impl<W: World> StageKind<W> for RecordingKind<W> {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed> {
        let placed = self.kind.stages(config, world, console, pools).into_iter();
        let recorded = placed.map(|Placed { line, stage }| {
            let refusing = Rc::clone(&self.refusing);
            Placed { line, stage: Rc::new(RecordingStage { stage, refusing }) }
        });
        recorded.collect()
    }
}

/// A stage with its refusals recorded, as far as RCPT.
struct RecordingStage {
    stage: Rc<dyn Stage>,
    refusing: RefusingStage,
}

impl RecordingStage {
    fn recorded<'a, T: 'a>(&self, decision: Decision<'a, T>) -> Decision<'a, T> {
        let (name, refusing) = (self.stage.name(), Rc::clone(&self.refusing));
        decision.then(move |decided| {
            if decided.is_err() {
                refusing.set(Some(name));
            }
            Answer::Now(decided)
        })
    }
}

impl Stage for RecordingStage {
    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn connect<'a>(&'a self, session: &'a Rc<Session>) -> Decision<'a, ()> {
        self.recorded(self.stage.connect(session))
    }

    fn sender<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        self.recorded(self.stage.sender(transaction))
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
        routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        self.recorded(self.stage.recipient(transaction, recipient, routed))
    }

    fn taken(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
    ) -> Decision<'static, ()> {
        self.recorded(self.stage.taken(transaction, recipient))
    }
}
