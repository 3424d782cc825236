//! Copies of messages for additional recipients (`[[copy]]`).

use super::is_for_listener;
use config::{
    AddressPatterns, ConditionScope, ConditionSubject, ConditionTime, Conditions, Config,
    MailFacts, Reader, StageSection, StageSettings, WhenText,
};
use lookup::LookupError;
use mail::{Envelope, Mailbox, Notify, Recipient, Refusal};
use mta::answer::{Answer, Decision};
use mta::console::Console;
use mta::ingress::{
    Draft, Observer, Placed, Session, Stage, StageKind, TransactionView, all_hold, no_answer,
};
use mta::pressure::Pressures;
use mta::seams::World;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::rc::Rc;
use std::sync::Arc;

/// Treatment of messages by the stage, for errors.
const COPIED: &str = "copied";

/// Copies of incoming messages, for an archive or an audit. A rule with several of `senders`, `recipients`, `listeners`
/// and `when` copies messages that match them all, a rule with none copies all messages. Copies are not copied again,
/// and no reports are sent about them. Reports made by this server are not copied.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub(crate) struct CopyText {
    /// Recipient of the copies, for messages from all clients. If no route accepts its domain, copies wait in the queue
    /// like other mail without a route. Required.
    to: String,
    /// Copy messages from these senders: addresses, also with a tag (`recipient_delimiter`), domains (`example.org`), and
    /// subdomains (`*.example.org`). Mail with an empty sender never matches.
    #[schemars(extend("items" = { "type": "string", "title": "address or domain" }))]
    senders: Vec<String>,
    /// Copy messages to these recipients, in the form of `senders`. A message that matches several times is copied
    /// once.
    #[schemars(extend("items" = { "type": "string", "title": "address or domain" }))]
    recipients: Vec<String>,
    /// Copy messages from these listeners, by name.
    listeners: Vec<String>,
    /// Further conditions, as in `[[route]]`. `recipients` holds if it holds for one recipient.
    #[serde(skip_serializing_if = "Option::is_none")]
    when: Option<WhenText>,
}

impl StageSection for CopyText {
    const KEY: &'static str = "copy";
    const SUMMARY: &'static str = "Copies of messages to further recipients.";
    type Text = CopyText;

    fn read(text: CopyText, reader: &mut Reader<'_, '_>) -> Option<Arc<dyn StageSettings>> {
        if text.to.is_empty() {
            let help = "name the recipient, for example to = \"archive@example.org\"";
            reader.error("", "a copy without `to`", help);
            return None;
        }
        let Some(to) = address(&text.to) else {
            let help = "write an address, for example \"archive@example.org\"";
            reader.error("to", format!("\"{}\" is not an address", text.to), help);
            return None;
        };
        reader.check_listeners("listeners", &text.listeners);
        let has_listeners = text.when.as_ref().is_some_and(|when| when.listeners.is_some());
        if !(text.listeners.is_empty() && has_listeners) {
            reader.refuse_foreign("listeners", &text.listeners, COPIED);
        }
        let senders = reader.address_patterns("senders", &text.senders);
        let recipients = reader.address_patterns("recipients", &text.recipients);
        let when = match &text.when {
            Some(when) => {
                let scope = ConditionScope::new(ConditionTime::Content)
                    .internet_only(COPIED)
                    .names("listeners", ConditionSubject::Listener, &text.listeners)
                    .senders("senders", &senders);
                Some(reader.table_at("when").conditions(when, scope)?)
            }
            None => None,
        };
        Some(Arc::new(Rule { to, senders, recipients, listeners: text.listeners, when }))
    }
}

fn address(text: &str) -> Option<Mailbox> {
    Mailbox::parse(text, true).ok().filter(|mailbox| mailbox.has_domain())
}

/// A rule for copies: conditions, and the recipient of the copy. An empty list matches all messages.
#[derive(Clone, Debug)]
struct Rule {
    to: Mailbox,
    senders: AddressPatterns,
    recipients: AddressPatterns,
    listeners: Vec<String>,
    when: Option<Arc<Conditions>>,
}

impl StageSettings for Rule {}

impl Rule {
    fn concerns(&self, listener: &str, envelope: &Envelope) -> bool {
        let sender = envelope.reverse_path.as_ref();
        let mut recipients = envelope.recipients.iter().map(|recipient| &recipient.mailbox);
        is_for_listener(&self.listeners, listener)
            && (self.senders.is_empty() || sender.is_some_and(|from| self.senders.covers(from)))
            && (self.recipients.is_empty() || recipients.any(|to| self.recipients.covers(to)))
    }
}

/// The stage of `[[copy]]`.
pub(crate) struct Copies;

impl<W: World> StageKind<W> for Copies {
    fn stages(
        &self,
        config: &Config,
        world: &W,
        console: &Rc<dyn Console>,
        _pools: &Pressures,
    ) -> Vec<Placed> {
        let entries = || config.stages.iter().filter(|entry| entry.key == CopyText::KEY);
        // One stage for all rules: a recipient added by one rule is not matched by another.
        let rules = entries().filter_map(|entry| entry.settings.of::<Rule>().cloned()).collect();
        let (world, console) = (world.clone(), Rc::clone(console));
        let stage: Rc<dyn Stage> = Rc::new(CopyStage { rules, world, console });
        let first = entries().next();
        first.map(|entry| Placed { line: entry.line, stage }).into_iter().collect()
    }
}

struct CopyStage<W: World> {
    rules: Vec<Rule>,
    world: W,
    console: Rc<dyn Console>,
}

impl<W: World> CopyStage<W> {
    /// Adds the copies by rules with conditions that hold, and by those without.
    async fn copy_where(
        &self,
        session: &Session,
        draft: &mut Draft,
        rules: Vec<&Rule>,
    ) -> Result<(), Refusal> {
        let mut made = Vec::with_capacity(rules.len());
        for rule in rules {
            let holds = match &rule.when {
                Some(when) => self.holds(when, session, draft).await,
                None => Ok(true),
            };
            if holds.map_err(|trouble| no_answer(&*self.console, &trouble))? {
                made.push(rule);
            }
        }
        made.into_iter().for_each(|rule| add(draft, rule));
        Ok(())
    }

    /// Returns true if the conditions hold for the message and one of its recipients.
    async fn holds(
        &self,
        when: &Conditions,
        session: &Session,
        draft: &Draft,
    ) -> Result<bool, LookupError> {
        let (client, envelope) = (session.client(), draft.envelope());
        let sender = envelope.reverse_path.as_ref();
        let facts = MailFacts { sender, ..client.facts(draft.tenancy()) };
        let tables = self.world.tables(client.requester());
        if when.about(ConditionSubject::Recipient).is_none() {
            return all_hold(&tables, when, &facts).get().await;
        }
        for recipient in &envelope.recipients {
            let facts = MailFacts { recipient: Some(&recipient.mailbox), ..facts };
            if all_hold(&tables, when, &facts).get().await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// The sender does not know of the copy, and gets no DSN about it.
fn add(draft: &mut Draft, rule: &Rule) {
    let (mailbox, notify) = (rule.to.clone(), Notify::NEVER);
    draft.add_recipient(Recipient { mailbox, notify, orcpt: None });
}

impl<W: World> Stage for CopyStage<W> {
    fn name(&self) -> &'static str {
        CopyText::KEY
    }

    fn content<'a>(
        &'a self,
        transaction: &'a Rc<TransactionView>,
        draft: &'a mut Draft,
        _observer: Option<Box<dyn Observer>>,
    ) -> Decision<'a, ()> {
        let session = &transaction.session;
        let concerned = |rule: &&Rule| rule.concerns(&session.listener().name, draft.envelope());
        let rules: Vec<&Rule> = self.rules.iter().filter(concerned).collect();
        if rules.iter().any(|rule| rule.when.is_some()) {
            return Answer::later(self.copy_where(session, draft, rules));
        }
        rules.into_iter().for_each(|rule| add(draft, rule));
        Decision::pass()
    }
}
