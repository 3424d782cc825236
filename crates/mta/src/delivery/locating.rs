//! Looks up recipients' hosts for the queue: the route's recipient table returns the hosts of each recipient. It
//! finds the route of each recipient first if routes have conditions.
//!
//! The lookup is done before each try and never stored: a recipient that moved to another host is found there at the
//! next try.

use super::Delivery;
use super::outcome::{put_off, unread};
use crate::answer::{self, Later};
use crate::line::{FairKey, TrustLevel};
use crate::message::Message;
use crate::routing::find::route_of_key;
use crate::routing::{Active, conditional};
use crate::schedule::application::{answer_located, enter_located};
use crate::schedule::resolution::{host_groups, unanswered};
use crate::seams::World;
use crate::tables::{self, FoundAddress, NoEntry};
use config::{Destination, HostPort, Route, TableEntry};
use lookup::Requester;
use mail::{Class, EnhancedStatus, Failure, Mailbox};
use queue::{HopLookup, HopLookupResult};
use std::rc::Rc;
use std::sync::Arc;

/// The hosts of a recipient, in groups as the route's channel has them, or the reason why none is known.
type RecipientHosts = Result<Vec<Vec<HostPort>>, HopLookupResult>;

/// Looks up the hosts of these recipients and reports them to the queue.
pub(crate) fn start_locating<W: World>(delivery: &Rc<Delivery<W>>, locating: HopLookup) {
    let task = Rc::clone(delivery);
    delivery.services.spawn(async move {
        let active = task.router.active();
        if let Some(route) = unchosen(&task, &active, &locating) {
            let answers = choose_routes(&task, &active, (&locating, &route)).await;
            return conclude(&task, &locating, answers).await;
        }
        let answers = match route_of(&task, &active, &locating).await {
            Ok((route, table)) => {
                let places = places(&task, &route, &table, &locating).await;
                let enter = |place: RecipientHosts| enter(&task, &active, &route, &locating, place);
                places.into_iter().map(enter).collect()
            }
            Err(none) => vec![none; locating.entries.len()],
        };
        conclude(&task, &locating, answers).await;
    });
}

/// If the recipients' route is not chosen yet: their own route, which is usually empty.
fn unchosen<W: World>(
    delivery: &Delivery<W>,
    active: &Active,
    locating: &HopLookup,
) -> Option<Arc<str>> {
    let queue = delivery.schedule.queue();
    let key = queue.scheduled_key(locating.scheduled).filter(|key| active.is_unchosen(key));
    key.map(|key| Arc::clone(&key.route))
}

/// Moves the recipients to the scheduled queues of their routes. Returns the failures of the remaining ones.
async fn choose_routes<W: World>(
    delivery: &Delivery<W>,
    active: &Rc<Active>,
    (locating, route): (&HopLookup, &str),
) -> Vec<HopLookupResult> {
    let message = match load(delivery, locating).await {
        Ok(message) => message,
        Err(failure) => return vec![HopLookupResult::Deferred(failure); locating.entries.len()],
    };
    let tables = &delivery.services.world.tables(Requester::Ours);
    let mut answers = Vec::with_capacity(locating.entries.len());
    for (entry, index) in &locating.entries {
        let choice = conditional::choose(tables, active, &message, (*index, route));
        answers.push(match choice.get().await {
            Ok(choice) => {
                delivery.schedule.assign(*entry, choice);
                HopLookupResult::Elsewhere
            }
            Err(trouble) => HopLookupResult::Silence(unanswered(&trouble)),
        });
    }
    answers
}

/// The common route of the recipients, and its recipient table.
async fn route_of<W: World>(
    delivery: &Delivery<W>,
    active: &Rc<Active>,
    locating: &HopLookup,
) -> Result<(Arc<Route>, Arc<TableEntry>), HopLookupResult> {
    let key = delivery.schedule.queue().scheduled_key(locating.scheduled).cloned();
    let key = key.ok_or(HopLookupResult::Elsewhere)?;
    let route =
        route_of_key(&delivery.services.world.tables(Requester::Ours), active, &key).get().await;
    let route = route.map_err(|trouble| HopLookupResult::Silence(unanswered(&trouble)))?;
    let route = route.filter(|route| route.channel.destination() == Destination::ByEntry);
    let route = route.ok_or(HopLookupResult::Elsewhere)?;
    let table = route.recipients.clone().ok_or(HopLookupResult::Elsewhere)?;
    Ok((route, table))
}

/// The result for each recipient; all lookups run concurrently.
async fn places<W: World>(
    delivery: &Delivery<W>,
    route: &Route,
    table: &Arc<TableEntry>,
    locating: &HopLookup,
) -> Vec<RecipientHosts> {
    let recipients = match recipients_of(delivery, locating).await {
        Ok(recipients) => recipients,
        Err(failure) => {
            return vec![Err(HopLookupResult::Deferred(failure)); locating.entries.len()];
        }
    };
    let tables = &delivery.services.world.tables(Requester::Ours);
    if let [recipient] = &*recipients {
        return vec![place_of(route, table, tables::entry_of(tables, table, recipient).await)];
    }
    let waiting: Vec<Later<'_, _>> = recipients
        .iter()
        .map(|recipient| Box::pin(tables::entry_of(tables, table, recipient)) as Later<'_, _>)
        .collect();
    let found = answer::all(waiting).await;
    found.into_iter().map(|found| place_of(route, table, found)).collect()
}

/// Their message.
async fn load<W: World>(
    delivery: &Delivery<W>,
    locating: &HopLookup,
) -> Result<Rc<Message>, Arc<Failure>> {
    let messages = &delivery.custody.messages;
    let who = FairKey::other(delivery.services.number, locating.scheduled.0);
    let place = messages.place_to_load(|| (who, TrustLevel::Good), locating.id);
    let message = messages.load_in_turn(place, locating.id).await;
    message.map_err(|why| unread("record", &why))
}

/// The recipients' addresses. A message that must be read for them is dropped afterwards.
async fn recipients_of<W: World>(
    delivery: &Delivery<W>,
    locating: &HopLookup,
) -> Result<Vec<Mailbox>, Arc<Failure>> {
    let message = load(delivery, locating).await?;
    let mailbox = |(_, index): &(_, u32)| {
        let recipient = message.envelope.recipients.get(*index as usize)?;
        Some(recipient.mailbox.clone())
    };
    let mailboxes: Option<Vec<Mailbox>> = locating.entries.iter().map(mailbox).collect();
    mailboxes.ok_or_else(|| {
        // RFC 3463 §3.4: X.3.0 is the mail system.
        let text = "its record has fewer recipients than its queue entry";
        Arc::new(Failure::local(Class::Transient, EnhancedStatus::new(4, 3, 0), text))
    })
}

fn place_of(
    route: &Route,
    table: &TableEntry,
    found: Result<FoundAddress, NoEntry>,
) -> RecipientHosts {
    let found = found.map_err(|why| match why {
        NoEntry::Gone(failure) => HopLookupResult::Refused(Arc::new(failure)),
        NoEntry::Unanswered { failure, is_of_key: true } => {
            HopLookupResult::Deferred(Arc::new(failure))
        }
        NoEntry::Unanswered { failure, .. } => HopLookupResult::Silence(Arc::new(failure)),
    })?;
    let hosts = route.channel.hosts_by_entry(&|name| tables::values_of(&found.entry, name));
    hosts.map_err(|why| {
        let text = format!("no next hop: {why} (table {}, key {})", table.name, found.key);
        // RFC 3463 §3.4: X.3.5, the system is configured wrongly. A table can be put right.
        let status = EnhancedStatus::new(4, 3, 5);
        HopLookupResult::Deferred(Arc::new(Failure::local(Class::Transient, status, text)))
    })
}

/// Enters the ready queue of a recipient's hosts.
fn enter<W: World>(
    delivery: &Delivery<W>,
    active: &Active,
    route: &Route,
    locating: &HopLookup,
    place: RecipientHosts,
) -> HopLookupResult {
    match place {
        Ok(hosts) => {
            let hosts = host_groups(hosts.iter().map(Vec::as_slice));
            let config = &active.config;
            let ready = enter_located(&delivery.schedule, locating, config, route, hosts);
            ready.map_or(HopLookupResult::Elsewhere, HopLookupResult::At)
        }
        Err(nowhere) => nowhere,
    }
}

/// Reports the results to the queue, and records deferred recipients.
async fn conclude<W: World>(
    delivery: &Delivery<W>,
    locating: &HopLookup,
    answers: Vec<HopLookupResult>,
) {
    let failures: Vec<Option<Arc<Failure>>> = answers.iter().map(failure_of).collect();
    let is_named = delivery.services.events.is_on() && failures.iter().any(Option::is_some);
    // Its event needs the message.
    let message = match is_named {
        true => delivery.custody.messages.load(locating.id).await.ok(),
        false => None,
    };
    let deferred = answer_located(&delivery.schedule, locating, answers);
    let recipients = locating.entries.iter().map(|(_, index)| *index);
    let put = recipients.zip(deferred).zip(failures);
    let put = put.filter_map(|((index, deferred), failure)| Some((index, deferred?, failure?)));
    put_off(delivery, message.as_deref(), locating.id, put);
}

/// The reason for which a recipient is deferred, if it is.
fn failure_of(answer: &HopLookupResult) -> Option<Arc<Failure>> {
    match answer {
        HopLookupResult::Silence(failure) | HopLookupResult::Deferred(failure) => {
            Some(Arc::clone(failure))
        }
        HopLookupResult::At(_) | HopLookupResult::Refused(_) | HopLookupResult::Elsewhere => None,
    }
}
