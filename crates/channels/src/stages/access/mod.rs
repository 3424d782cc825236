//! Access control by tables (`[[access]]`): permitted clients, senders and recipients.

mod consultation;
mod course;
mod judge;

pub(crate) use consultation::Beside;
pub use consultation::{AccessDryRun, AccessQuestion, consult_access};
pub use judge::{EntryJudge, entry_judge};

use super::action::{Action, ActionEffect};
use super::asked_clients::AskedClients;
use super::is_for_listener;
use super::keys::{By, Subject};
use config::{Config, Reader, Route, StageEntry, StageSection, StageSettings, TableEntry};
use course::{Course, RuleList};
use mail::{Mailbox, Recipient, Refusal};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Placed, Resolved, Routed, Session, Stage, StageKind, TransactionView, no_answer,
};
use mta::pressure::Pressures;
use mta::seams::World;
use mta::tables::{FoundKey, KeyRules, LookupKey, find_first};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::Arc;

/// A table entry is not a valid action.
const MISTAKE: Refusal = Refusal::transient((3, 5), "Server configuration error; try again later");
/// `default = "refuse"`.
const REFUSED: Refusal = Refusal::permanent((7, 1), "Access denied");

/// Access rule: looks up each recipient accepted by a route in a table, and performs the action of the entry (Postfix's
/// access(5)). Rules are evaluated in the order of the file, until one rejects. An OK ends the rules of its list. All
/// rules together take the position of the first. See `docs/access.md` for keys and actions.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct AccessText {
    /// Name of the table. Required.
    table: String,
    /// Lookup key: `client`, `helo`, `sender`, `recipient`, or a pair: `sender+recipient`. Required.
    #[schemars(extend("title" = "looked-up value"))]
    by: String,
    /// Clients that the rule applies to. Default: `strangers`, with a warning until the key is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<AskedClients>,
    /// The list of rules that the rule belongs to, as Postfix's `smtpd_*_restrictions`. An OK ends one list. Default:
    /// that of `by`, for a pair that of its later part.
    #[serde(skip_serializing_if = "Option::is_none")]
    list: Option<RuleList>,
    /// Names of listeners that the rule applies to. Default: all.
    listeners: Vec<String>,
    /// Action if the table has no entry.
    default: Unlisted,
    /// Let `example.org` in the table also match its subdomains. Otherwise an entry `.example.org` is needed for them.
    parent_domains: bool,
}

impl Default for AccessText {
    fn default() -> AccessText {
        AccessText {
            table: String::new(),
            by: String::new(),
            clients: None,
            list: None,
            listeners: Vec::new(),
            default: Unlisted::Pass,
            parent_domains: false,
        }
    }
}

/// Action if a table has no entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unlisted {
    /// Continue with the next rule.
    #[default]
    Pass,
    /// Reject with 550 5.7.1.
    Refuse,
}

impl StageSection for AccessText {
    const KEY: &'static str = "access";
    const SUMMARY: &'static str = "Access rules by client, sender and recipient.";
    type Text = AccessText;

    fn read(text: AccessText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        reader.check_listeners("listeners", &text.listeners);
        let by = By::parse(&text.by);
        let help = "use \"client\", \"helo\", \"sender\", \"recipient\" or a pair, for \
         example \"sender+recipient\"";
        if text.by.is_empty() {
            reader.error("", "an access rule without `by`", help);
        } else if by.is_none() {
            reader.error("by", format!("unknown lookup key \"{}\"", text.by), help);
        }
        if text.table.is_empty() {
            let help = "name one, for example table = \"senders\"";
            reader.error("", "an access rule without `table`", help);
            return None;
        }
        let table = reader.table("table", &text.table)?;
        let by = by?;
        if text.clients.is_none() {
            warn_of_default(reader);
        }
        let list = text.list.unwrap_or_else(|| RuleList::of(by));
        Some(Arc::new(Rule { table, by, list, text }))
    }
}

/// Warns of a rule that once had another meaning: it applied to all clients, and its OK ended all rules.
fn warn_of_default(reader: &mut Reader<'_, '_>) {
    let mut message =
        "an access rule without `clients`: it no longer applies to clients that may relay or have \
         logged in"
            .to_owned();
    if reader.elsewhere("access[1]").is_written("") {
        message += ", and its OK ends only the rules of its list";
    }
    let help = "write `clients`; \"all\" is the former meaning (docs/access.md)";
    reader.warn("", message, help);
}

/// One rule.
#[derive(Clone, Debug)]
struct Rule {
    table: Arc<TableEntry>,
    by: By,
    list: RuleList,
    text: AccessText,
}

impl StageSettings for Rule {}

impl Rule {
    fn clients(&self) -> AskedClients {
        self.text.clients.unwrap_or_default()
    }

    /// Returns true if the rule applies to recipients of this session.
    fn is_for(&self, session: &Session) -> bool {
        is_for_listener(&self.text.listeners, &session.listener().name)
            && self.clients().has(session)
    }

    fn keys(&self, subject: &Subject<'_>) -> Vec<LookupKey> {
        self.by.keys(subject, KeyRules::of(&self.table), self.text.parent_domains)
    }

    /// Returns true if a recipient is refused because the table has none of the keys.
    fn refuses_unlisted(&self) -> bool {
        self.text.default == Unlisted::Refuse
    }
}

/// The sections of rules, in the order of the file.
fn entries(config: &Config) -> impl Iterator<Item = &StageEntry> {
    config.stages.iter().filter(|entry| entry.key == AccessText::KEY)
}

/// The rules, in the same order.
fn rules(config: &Config) -> impl Iterator<Item = &Rule> {
    entries(config).filter_map(|entry| entry.settings.of::<Rule>())
}

/// The stage of `[[access]]`.
pub(crate) struct Accesses;

impl<W: World> StageKind<W> for Accesses {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let Some(first) = entries(config).next() else { return Vec::new() };
        // One stage for all rules: they share the state of their lists.
        let rules = rules(config).cloned().collect();
        let (world, console) = (world.clone(), Rc::clone(console));
        let stage = AccessStage(Rc::new(AccessRules { rules, world, console }));
        vec![Placed { line: first.line, stage: Rc::new(stage) }]
    }
}

struct AccessStage<W: World>(Rc<AccessRules<W>>);

struct AccessRules<W: World> {
    rules: Vec<Rule>,
    world: W,
    console: Rc<dyn Console>,
}

/// An additional name of a recipient for rules, if its route has one.
fn also_called<'r>(
    mut rules: impl Iterator<Item = &'r Rule>,
    route: Option<&Route>,
    recipient: &Mailbox,
) -> Option<Mailbox> {
    let is_asked_for = rules.any(|rule| rule.by.asks_for_recipients());
    route.filter(|_| is_asked_for)?.channel.also_called(recipient)
}

impl<W: World> Stage for AccessStage<W> {
    fn name(&self) -> &'static str {
        AccessText::KEY
    }

    fn recipient(
        &self,
        transaction: &Rc<TransactionView>,
        recipient: &Recipient,
        routed: Routed<'_>,
    ) -> Decision<'static, Option<Resolved>> {
        // A recipient refused by the routes is refused regardless of tables.
        if !routed.is_taken {
            return Answer::Now(Ok(None));
        }
        if !self.0.rules.iter().any(|rule| rule.is_for(&transaction.session)) {
            return Answer::Now(Ok(None));
        }
        let (asker, transaction) = (Rc::clone(&self.0), Rc::clone(transaction));
        let also = also_called(asker.rules.iter(), routed.route, &recipient.mailbox);
        let (recipient, course) = (recipient.clone(), Course::default());
        AccessEvaluation { asker, transaction, recipient, also, course }.ask(0)
    }
}

/// Evaluation of the rules for one recipient.
struct AccessEvaluation<W: World> {
    asker: Rc<AccessRules<W>>,
    transaction: Rc<TransactionView>,
    recipient: Recipient,
    also: Option<Mailbox>,
    course: Course,
}

impl<W: World> AccessEvaluation<W> {
    /// Evaluates the rules in order, starting with `next`.
    fn ask(mut self, next: usize) -> Decision<'static, Option<Resolved>> {
        let asker = Rc::clone(&self.asker);
        let session = &self.transaction.session;
        let mut rules = asker.rules.iter().enumerate().skip(next);
        let Some((at, rule)) =
            rules.find(|(_, rule)| rule.is_for(session) && !self.course.has_ended(rule.list))
        else {
            return Answer::Now(self.course.finish());
        };
        let client = session.client();
        let subject = Subject {
            client: Some(client.address.ip()),
            helo: Some(&*client.helo),
            sender: self.transaction.sender.as_ref(),
            recipient: &self.recipient.mailbox,
            also: self.also.as_ref(),
        };
        let tables = asker.world.tables(client.requester());
        let list = rule.list;
        find_first(&tables, &rule.table, rule.keys(&subject)).then(move |found| {
            let effect = match (found, self.asker.rules.get(at)) {
                (Ok(Some(found)), Some(rule)) => self.obey(rule, &found),
                (Ok(_), Some(rule)) if rule.refuses_unlisted() => Err(REFUSED),
                (Ok(_), Some(_)) => Ok(ActionEffect::Open),
                (Ok(_), None) => Ok(ActionEffect::Open),
                (Err(trouble), _) => Err(no_answer(&*self.asker.console, &trouble)),
            };
            match self.course.apply(list, effect) {
                Some(ruled) => Answer::Now(ruled),
                None => self.ask(at + 1),
            }
        })
    }

    fn obey(&self, rule: &Rule, found: &FoundKey) -> Result<ActionEffect, Refusal> {
        let (table, FoundKey { entry, key, .. }) = (&rule.table.name, found);
        let console = &*self.asker.console;
        match Action::parse(&entry.text, "an access rule") {
            Ok(action) => {
                let who = format_args!("table {table}, {key}");
                action.take(&self.transaction, &self.recipient, console, (AccessText::KEY, &who))
            }
            Err(why) => {
                let text = format_args!("table {table}: {key} has {:?}: {why}", entry.text);
                console.warn(AccessText::KEY, text);
                Err(MISTAKE)
            }
        }
    }
}
