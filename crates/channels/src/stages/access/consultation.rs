//! Dry run of access rules for a recipient.

use super::{MISTAKE, REFUSED, Rule, also_called, is_for_listener, rules};
use crate::stages::action::Action;
use crate::stages::keys::Subject;
use config::{AccessStep, Config, Route};
use mail::{Mailbox, Refusal, Reply};
use mta::ingress::NO_ANSWER;
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
    /// The last rule is final: the recipient is refused, discarded or redirected.
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
    let AccessQuestion { listener, client, helo, sender, recipient, route } = *question;
    let also = also_called(rules(config), route, recipient);
    let subject = Subject { client, helo, sender, recipient, also: also.as_ref() };
    let mut consulted = AccessDryRun::default();
    for (number, rule) in rules(config).enumerate() {
        if !is_for_listener(&rule.text.listeners, listener) {
            continue;
        }
        let (what, follows) = say(tables, rule, &subject).await;
        let by = &rule.text.by;
        let text = format!("by {by}: {what}: {}", follows.text());
        consulted.steps.push(AccessStep { rule: number, text });
        match follows {
            Follows::Next(beside) => {
                consulted.beside.extend(beside);
                continue;
            }
            Follows::Permit => {}
            Follows::Settled(of_mail, _) => {
                consulted.beside.extend(of_mail);
                consulted.is_settled = true;
            }
            Follows::Refusal(refusal) => {
                (consulted.is_settled, consulted.refusal) = (true, Some(refusal));
            }
        }
        break;
    }
    consulted
}

/// Consequence of a rule's entry.
enum Follows {
    Next(Option<Beside>),
    Permit,
    /// The action if it is for internet mail only, and a description for people.
    Settled(Option<Beside>, String),
    Refusal(Refusal),
}

impl Follows {
    /// Description for people.
    fn text(&self) -> String {
        match self {
            Follows::Next(_) => "continues with the next rule".to_owned(),
            Follows::Permit => "no further rule applies".to_owned(),
            Follows::Settled(_, what) => what.clone(),
            Follows::Refusal(refusal) => Reply::from(refusal.clone()).to_string(),
        }
    }
}

/// The result of one rule for people, and its consequence.
async fn say<T: Tables + Clone>(
    tables: &T,
    rule: &Rule,
    subject: &Subject<'_>,
) -> (String, Follows) {
    let keys = rule.keys(subject);
    if keys.is_empty() {
        return ("skipped without a client (--client, --helo)".to_owned(), Follows::Next(None));
    }
    let table = &rule.table.name;
    match find_first(tables, &rule.table, keys).get().await {
        Ok(Some(found)) => {
            let entry = &found.entry.text;
            (format!("table \"{table}\" has {} {entry}", found.key), follows(entry))
        }
        Ok(None) => {
            let refused = rule.refuses_unlisted(subject.recipient);
            let follows = if refused { Follows::Refusal(REFUSED) } else { Follows::Next(None) };
            (format!("not in table \"{table}\""), follows)
        }
        Err(trouble) => (trouble.to_string(), Follows::Refusal(NO_ANSWER)),
    }
}

fn follows(entry: &str) -> Follows {
    let Ok(action) = Action::parse(entry, "an access rule") else {
        return Follows::Refusal(MISTAKE);
    };
    let of_mail = action.word_of_mail().map(Beside::OfMail);
    match action {
        Action::Permit => Follows::Permit,
        Action::Refuse(refusal) => Follows::Refusal(refusal),
        Action::Discard(_) => Follows::Settled(of_mail, "discarded".to_owned()),
        Action::Redirect(other) => Follows::Settled(of_mail, format!("redirected to {other}")),
        Action::Pass | Action::Prepend(_) | Action::Copy(_) => Follows::Next(of_mail),
        Action::Hold(reason) => Follows::Next(Some(Beside::Hold(reason))),
        Action::Log(text) => Follows::Next(Some(Beside::Log(text))),
    }
}
