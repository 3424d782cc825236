//! Dry run of access rules for a recipient.

use super::course::{Course, RuleList};
use super::{MISTAKE, REFUSED, Rule, also_called, is_for_listener, rules};
use crate::stages::action::{Action, ActionEffect};
use crate::stages::keys::Subject;
use config::{AccessStep, Config, Route};
use mail::{Mailbox, Notify, Recipient, Refusal, Reply};
use mta::ingress::{NO_ANSWER, Resolved};
use mta::seams::Tables;
use mta::tables::find_first;
use std::net::IpAddr;

/// A message to check access rules for.
#[derive(Clone, Copy, Debug)]
pub struct AccessQuestion<'a> {
    /// Name of the listener.
    pub listener: &'a str,
    /// The client's address. `None` if unknown; then it is not looked up.
    pub client: Option<IpAddr>,
    /// The client may not relay and has not logged in.
    pub is_stranger: bool,
    /// The client's HELO name. `None` if unknown; then it is not looked up.
    pub helo: Option<&'a str>,
    /// `None` is `<>`.
    pub sender: Option<&'a Mailbox>,
    /// A recipient accepted by a route.
    pub recipient: &'a Mailbox,
    /// The route of the recipient.
    pub route: Option<&'a Route>,
}

/// Results of the rules, in order.
#[derive(Debug, Default)]
pub struct AccessDryRun {
    /// Results up to the rule that decides.
    pub steps: Vec<AccessStep>,
    /// The refusal, if the recipient would be refused.
    pub refusal: Option<Refusal>,
    /// The rule of the last step decides: the recipient is refused, discarded or redirected.
    pub is_settled: bool,
    /// Further actions of the rules, in order.
    pub(crate) beside: Vec<Beside>,
}

/// An action of a rule on a message that it does not refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Hold the message, for this reason.
    Hold(String),
    /// Log this text for the operator.
    Log(String),
    /// An action that only internet mail can have.
    OfMail(&'static str),
}

/// Evaluates the rules in order until one decides, without performing their actions.
pub async fn consult_access<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    question: &AccessQuestion<'_>,
) -> AccessDryRun {
    let AccessQuestion { listener, client, is_stranger, helo, sender, recipient, route } =
        *question;
    if !recipient.has_domain() {
        // The bare postmaster passes all rules (RFC 5321 §4.5.1).
        return AccessDryRun::default();
    }
    let also = also_called(rules(config), route, recipient);
    let subject = Subject { client, helo, sender, recipient, also: also.as_ref() };
    let (mut consulted, mut course) = (AccessDryRun::default(), Course::default());
    // The rule that decides unless a later rule refuses, and its description. The first deferral stays.
    let (mut pending, mut is_deferral) = (None, false);
    let here = |(_, rule): &(usize, &Rule)| is_for_listener(&rule.text.listeners, listener);
    for (number, rule) in rules(config).enumerate().filter(here) {
        let mut step = |rest: &str| {
            let text = format!("by {}: {rest}", rule.text.by);
            consulted.steps.push(AccessStep { rule: number, text });
        };
        if !rule.clients().has_client(is_stranger) {
            step("skipped: the client may relay");
            continue;
        }
        if course.has_ended(rule.list) {
            step(&format!("skipped: an OK has ended list \"{}\"", rule.list));
            continue;
        }
        let (what, consequence) = consequence(tables, rule, &subject).await;
        step(&format!("{what}: {}", consequence.text(rule.list)));
        consulted.beside.extend(consequence.beside);
        let decision = consequence.effect.as_ref().ok().and_then(pending_decision);
        if let Some(decision) = decision.filter(|_| !is_deferral) {
            is_deferral = matches!(consequence.effect, Ok(ActionEffect::DeferredIfPermitted(_)));
            pending = Some((number, decision));
        }
        if let Some(ruled) = course.apply(rule.list, consequence.effect) {
            (consulted.is_settled, consulted.refusal) = (true, ruled.err());
            return consulted;
        }
    }
    match course.finish() {
        Ok(None) => return consulted,
        ruled => (consulted.is_settled, consulted.refusal) = (true, ruled.err()),
    }
    if let Some((rule, text)) = pending.filter(|(rule, _)| !consulted.ends_with(*rule)) {
        consulted.steps.push(AccessStep { rule, text });
    }
    consulted
}

impl AccessDryRun {
    /// Returns true if the last step is of this rule.
    fn ends_with(&self, rule: usize) -> bool {
        self.steps.last().is_some_and(|step| step.rule == rule)
    }
}

/// Consequence of a rule's entry.
struct Consequence {
    effect: Result<ActionEffect, Refusal>,
    /// An action that is no decision.
    beside: Option<Beside>,
}

impl Consequence {
    /// That of no decision.
    fn none() -> Consequence {
        Consequence { effect: Ok(ActionEffect::Open), beside: None }
    }

    fn refusal(refusal: Refusal) -> Consequence {
        Consequence { effect: Err(refusal), beside: None }
    }

    /// Description for people.
    fn text(&self, list: RuleList) -> String {
        match &self.effect {
            Ok(ActionEffect::Open) => "continues with the next rule".to_owned(),
            Ok(ActionEffect::Permitted) => format!("no further rule of list \"{list}\" applies"),
            Ok(ActionEffect::DeferredIfRejected(refusal)) => {
                format!("a rejection by list \"{list}\" becomes {}", reply(refusal))
            }
            Ok(effect) => pending_decision(effect).unwrap_or_default(),
            Err(refusal) => reply(refusal),
        }
    }
}

/// The decision, for people, of a rule that decides unless a later rule refuses.
fn pending_decision(effect: &ActionEffect) -> Option<String> {
    Some(match effect {
        ActionEffect::DeferredIfPermitted(refusal) => {
            format!("unless a rule rejects: {}", reply(refusal))
        }
        ActionEffect::Settled(Resolved::Replaced(others)) => {
            let to = others.first().map(|other| other.recipient.mailbox.to_string());
            format!("redirected to {}", to.unwrap_or_default())
        }
        ActionEffect::Settled(_) => "discarded".to_owned(),
        ActionEffect::Open | ActionEffect::Permitted | ActionEffect::DeferredIfRejected(_) => {
            return None;
        }
    })
}

fn reply(refusal: &Refusal) -> String {
    Reply::from(refusal.clone()).to_string()
}

/// The result of one rule for people, and its consequence.
async fn consequence<T: Tables + Clone>(
    tables: &T,
    rule: &Rule,
    subject: &Subject<'_>,
) -> (String, Consequence) {
    let keys = rule.keys(subject);
    if keys.is_empty() {
        return ("skipped without a client (--client, --helo)".to_owned(), Consequence::none());
    }
    let table = &rule.table.name;
    match find_first(tables, &rule.table, keys).get().await {
        Ok(Some(found)) => {
            let entry = &found.entry.text;
            let consequence = of_entry(entry, subject.recipient);
            (format!("table \"{table}\" has {} {entry}", found.key), consequence)
        }
        Ok(None) => {
            let consequence = match rule.refuses_unlisted() {
                true => Consequence::refusal(REFUSED),
                false => Consequence::none(),
            };
            (format!("not in table \"{table}\""), consequence)
        }
        Err(trouble) => (trouble.to_string(), Consequence::refusal(NO_ANSWER)),
    }
}

fn of_entry(entry: &str, recipient: &Mailbox) -> Consequence {
    let Ok(action) = Action::parse(entry, "an access rule") else {
        return Consequence::refusal(MISTAKE);
    };
    let beside = match &action {
        Action::Hold(reason) => Some(Beside::Hold(reason.clone())),
        Action::Log(text) => Some(Beside::Log(text.clone())),
        action => action.word_of_mail().map(Beside::OfMail),
    };
    let mailbox = recipient.clone();
    let recipient = Recipient { mailbox, notify: Notify::NEVER, orcpt: None };
    Consequence { effect: action.effect(&recipient), beside }
}
