//! Checks of unauthenticated clients before their message (`checks` of a listener): names, local sender domains, sender
//! domain, DNSBL, greylisting and bounces to several recipients.

mod desk;
mod forms;
mod greylist;
mod lists;
mod parts;
mod questions;
pub(crate) mod settings;

use super::keys::{By, KeyPart, Subject};
use crate::stages::checks::CheckRules;
use config::{Config, TableEntry};
use desk::RcptChecks;
use lookup::LookupError;
use mail::Recipient;
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, OwnDomains, Placed, Resolved, Routed, Session, Stage, StageKind,
    TransactionView,
};
use mta::pools::PoolId;
use mta::pressure::Pressures;
use mta::seams::{Spawn as _, World};
use mta::tables::{KeyRules, LookupKey, find_first, keys_of_client};
use parts::RcptCheckContext;
use settings::Exempt;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Returns true if the checks apply to the client: it may not relay, has not logged in, and is not exempt from the
/// listener's limits.
fn is_stranger(session: &Session) -> bool {
    !session.may_relay() && !session.listener().is_exempt(session.client().address.ip())
}

/// Maximum number of concurrent lookups of these checks on each shard.
pub(super) fn lookups_at_once(config: &Config) -> u32 {
    // Lookups about senders, and of lists.
    let both = questions::PLACES + lists::PLACES;
    if is_asked_for(config) { u32::try_from(both).unwrap_or(u32::MAX) } else { 0 }
}

fn is_asked_for(config: &Config) -> bool {
    config.listeners.iter().any(|listener| CheckRules::strangers_at(listener).is_some())
}

/// Returns true if any listener has greylisting.
#[must_use]
pub fn asks_for_greylisting(config: &Config) -> bool {
    let mut checked =
        config.listeners.iter().filter_map(|listener| CheckRules::strangers_at(listener));
    checked.any(|strangers| strangers.greylist.is_some())
}

/// Checks unauthenticated clients, at listeners with these checks.
pub(crate) struct StrangerChecks;

impl<W: World> StageKind<W> for StrangerChecks {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        pools: &Pressures,
    ) -> Vec<Placed> {
        if !is_asked_for(config) {
            return Vec::new();
        }
        let parts = Rc::new(RcptCheckContext {
            world: world.clone(),
            console: Rc::clone(console),
            server: config.hostname.as_str().into(),
            own_domains: OwnDomains::new(config),
            tags: config.tag_delimiters.clone(),
            of_senders: questions::line(),
            of_lists: lists::line(),
        });
        pools.register(PoolId::SenderQuestions, parts.of_senders.line());
        pools.register(PoolId::ListQuestions, &parts.of_lists);
        let desks = config.listeners.iter().filter_map(|listener| {
            let desk = RcptChecks::new(Rc::clone(&parts), CheckRules::strangers_at(listener)?);
            Some((Arc::clone(&listener.name), Rc::new(desk)))
        });
        let stage = StrangersStage { world: world.clone(), desks: desks.collect() };
        // First in order, since later stages may depend on the results.
        vec![Placed { line: 0, stage: Rc::new(stage) }]
    }
}

struct StrangersStage<W: World> {
    world: W,
    /// By listener name.
    desks: BTreeMap<Arc<str>, Rc<RcptChecks<W>>>,
}

impl<W: World> StrangersStage<W> {
    /// The checks for this client. `None` if there are no checks for it.
    fn desk(&self, session: &Session) -> Option<&Rc<RcptChecks<W>>> {
        self.desks.get(&session.listener().name).filter(|_| is_stranger(session))
    }
}

impl<W: World> Stage for StrangersStage<W> {
    fn name(&self) -> &'static str {
        "strangers"
    }

    /// Starts the lookups of lists in the background.
    fn connect<'a>(&'a self, session: &'a Rc<Session>) -> Decision<'a, ()> {
        if let Some(desk) = self.desk(session).filter(|desk| desk.asks_lists()) {
            let (desk, client) = (Rc::clone(desk), session.client().address.ip());
            let gone = session.when_gone();
            self.world.spawn().spawn(Box::pin(async move {
                // Lookups end with the client's connection.
                tokio::select! {
                    biased;
                    () = desk.look_up(client) => {}
                    () = gone => {}
                }
            }));
        }
        Decision::pass()
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
        routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        let desk = self.desk(&transaction.session);
        // A recipient refused by the routes is refused regardless of the sender.
        let Some(desk) = desk.filter(|_| routed.is_taken) else {
            return Answer::Now(Ok(None));
        };
        let (desk, transaction) = (Rc::clone(desk), Rc::clone(transaction));
        let recipient = recipient.clone();
        Answer::later(async move { desk.check(&transaction, &recipient).await.map(|()| None) })
    }

    fn data<'a>(&'a self, transaction: &'a Rc<TransactionView>) -> Decision<'a, ()> {
        match self.desk(&transaction.session) {
            Some(desk) if desk.is_bounce_to_several(transaction) => {
                Answer::later(desk.check_bounce(transaction))
            }
            _ => Decision::pass(),
        }
    }

    fn speaks_as(&self, transaction: &Rc<TransactionView>) -> Option<&str> {
        self.desk(&transaction.session).and_then(|desk| desk.speaks_as())
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let Some(desk) = self.desk(&transaction.session) else { return Decision::pass() };
        Answer::later(async move {
            desk.mark(transaction, draft).await;
            Ok(())
        })
    }
}

impl Exempt {
    /// Returns true if one of the tables has the client or the recipient.
    ///
    /// # Errors
    /// A table gives no answer.
    async fn has<W: World>(
        &self,
        world: &W,
        transaction: &TransactionView,
        recipient: &Recipient,
    ) -> Result<bool, LookupError> {
        if self.has_client(world, transaction).await? {
            return Ok(true);
        }
        let subject = Subject {
            client: None,
            helo: None,
            sender: None,
            recipient: &recipient.mailbox,
            also: None,
        };
        let keys = |rules: KeyRules<'_>| By::One(KeyPart::Recipient).keys(&subject, rules, false);
        is_in(world, self.recipients.as_ref(), transaction, keys).await
    }

    /// The same for the client alone.
    ///
    /// # Errors
    /// The table gives no answer.
    async fn has_client<W: World>(
        &self,
        world: &W,
        transaction: &TransactionView,
    ) -> Result<bool, LookupError> {
        let client = transaction.session.client().address.ip();
        let keys = |rules: KeyRules<'_>| keys_of_client(client, rules);
        is_in(world, self.clients.as_ref(), transaction, keys).await
    }
}

/// Returns true if the table has one of the keys. They are whole ones for pattern tables.
async fn is_in<W: World>(
    world: &W,
    table: Option<&Arc<TableEntry>>,
    transaction: &TransactionView,
    keys: impl FnOnce(KeyRules<'_>) -> Vec<LookupKey>,
) -> Result<bool, LookupError> {
    let Some(table) = table else { return Ok(false) };
    let tables = world.tables(transaction.session.client().requester());
    let keys = keys(KeyRules::of(table));
    Ok(find_first(&tables, table, keys).get().await?.is_some())
}
