//! Dry run of rewriting for a sender and a recipient.

use super::RewriteRules;
use super::map::{is_changeable, rewritten};
use super::settings::{AddressKind, KINDS, RewriteRule};
use config::{Config, MailFacts, RewriteStep};
use mail::Mailbox;
use mta::ingress::first_unmet;
use mta::seams::Tables;

/// Results of the rules, in their order.
#[derive(Debug, Default)]
pub struct RewriteDryRun {
    /// Each replacement, each error, and the first condition that does not hold.
    pub steps: Vec<RewriteStep>,
    /// The new recipient. `None`: it stays.
    pub recipient: Option<Mailbox>,
}

/// Applies the rules to a message with this sender, which is the author too, for a recipient that aliases were applied
/// to. Nothing is changed. `may_relay`: the client may send to any domain. `owner`: of the recipient's list, the sender of
/// its copies.
pub async fn consult_rewriting<T: Tables + Clone>(
    tables: &T,
    config: &Config,
    facts: &MailFacts<'_>,
    may_relay: bool,
    owner: Option<&Mailbox>,
) -> RewriteDryRun {
    let mut run = RewriteDryRun::default();
    let Some(rules) = RewriteRules::of(config) else { return run };
    let Some(given) = facts.recipient else { return run };
    let mut addresses =
        DryAddresses::of(facts.sender, given, owner.filter(|_| facts.sender.is_some()));
    for (at, rule) in rules.all.iter().enumerate() {
        let recipient = addresses.recipient().unwrap_or(given).clone();
        let facts = MailFacts { recipient: Some(&recipient), ..*facts };
        match rules.is_for(rule, tables, &facts, may_relay).await {
            Ok(true) => {
                let texts = addresses.apply(tables, &rules, rule).await;
                run.steps.extend(texts.into_iter().map(|text| RewriteStep { rule: at, text }));
            }
            Ok(false) => {
                let text = unmet(tables, rule, &facts).await;
                run.steps.extend(text.map(|text| RewriteStep { rule: at, text }));
            }
            Err(trouble) => {
                let text = format!("mail is deferred: {trouble}");
                run.steps.push(RewriteStep { rule: at, text });
                return run;
            }
        }
    }
    run.recipient = addresses.recipient().filter(|new| *new != given).cloned();
    run
}

/// The condition because of which a rule does not apply. `None`: it is for other routes.
async fn unmet<T: Tables + Clone>(
    tables: &T,
    rule: &RewriteRule,
    facts: &MailFacts<'_>,
) -> Option<String> {
    let about = first_unmet(tables, rule.when.as_ref()?, facts).await.ok()??.about;
    Some(format!("not applied: {} does not hold for {}", about.key(), facts.text(about)))
}

/// The addresses of the message by kind, as the rules so far leave them.
struct DryAddresses {
    all: Vec<(AddressKind, Mailbox)>,
    smtputf8: bool,
}

impl DryAddresses {
    fn of(sender: Option<&Mailbox>, recipient: &Mailbox, owner: Option<&Mailbox>) -> DryAddresses {
        let by_kind = KINDS.iter().filter_map(|(_, kind)| {
            let address = match kind {
                AddressKind::EnvelopeSender => owner.or(sender),
                kind if kind.is_of_recipient() => Some(recipient),
                _ => sender,
            };
            address.filter(|address| is_changeable(address)).map(|address| (*kind, address.clone()))
        });
        let smtputf8 = sender.into_iter().chain([recipient]).any(Mailbox::needs_smtputf8);
        DryAddresses { all: by_kind.collect(), smtputf8 }
    }

    fn recipient(&self) -> Option<&Mailbox> {
        let mut all = self.all.iter();
        all.find(|(kind, _)| *kind == AddressKind::EnvelopeRecipient).map(|(_, address)| address)
    }

    /// Applies a rule. Returns a text for each address with a result, with its kinds.
    async fn apply<T: Tables + Clone>(
        &mut self,
        tables: &T,
        rules: &RewriteRules,
        rule: &RewriteRule,
    ) -> Vec<String> {
        let mut results: Vec<(Mailbox, Result<Mailbox, String>, Vec<&'static str>)> = Vec::new();
        for (kind, address) in &mut self.all {
            if !rule.kinds.contains(kind) {
                continue;
            }
            if let Some((_, result, kinds)) = results.iter_mut().find(|(from, ..)| from == address)
            {
                kinds.push(kind.name());
                *address = result.clone().unwrap_or_else(|_| address.clone());
                continue;
            }
            let table = (tables, &rule.table);
            let new = rewritten(table, &rules.names, address, self.smtputf8).await;
            let result = match new {
                Ok(new) => Ok(new.unwrap_or_else(|| address.clone())),
                Err(why) => Err(why.to_string()),
            };
            results.push((address.clone(), result.clone(), vec![kind.name()]));
            *address = result.unwrap_or_else(|_| address.clone());
        }
        let table = &rule.table.name;
        let text = |(from, result, kinds): (Mailbox, Result<Mailbox, String>, Vec<&str>)| {
            let kinds = kinds.join(", ");
            match result {
                Ok(new) if new == from => None,
                Ok(new) => Some(format!("{from} becomes {new} ({kinds}) by table \"{table}\"")),
                Err(why) => Some(format!("{from} stays ({kinds}): table \"{table}\": {why}")),
            }
        };
        results.into_iter().filter_map(text).collect()
    }
}
