//! Matches peers' replies against the shaping rules. Only replies count: local errors and network errors match no rule.

use super::Delivery;
use crate::line::Owner;
use crate::message::Message;
use crate::routing::hop::NextHop;
use crate::seams::World;
use crate::shaping::{EffectKey, Origin, Words};
use config::shaping::{Action, Rule};
use mail::{Class, Failure, Mailbox, Reply, Step};
use queue::{ReadyId, ReadyKey, TransactionWork};

/// Matches the results of a transaction's recipients, with our own strings removed ([`super::echoes`]). A rule matches
/// at most once per transaction, however many recipients were rejected.
pub(super) fn outcomes<W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    (message, work): (&Message, &TransactionWork),
    outcomes: &[Result<Reply, Failure>],
) {
    let shaped = &delivery.schedule.shaped;
    if !shaped.listens() {
        return;
    }
    let delivered = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    if delivered > 0 && shaped.counts_deliveries() {
        count(delivery, ready, u32::try_from(delivered).unwrap_or(u32::MAX));
    }
    if delivered < outcomes.len() {
        let all = &message.envelope.recipients;
        let mailbox = |index: u32| all.get(index as usize).map(|recipient| &recipient.mailbox);
        let recipients = work.entries.iter().map(|(_, index, _)| mailbox(*index));
        let failures = recipients.zip(outcomes);
        let failures =
            failures.filter_map(|(recipient, outcome)| Some((recipient, outcome.as_ref().err()?)));
        hear(delivery, ready, Some(message), failures);
    }
}

/// Matches a rejected connection. Returns true if a rule now suspends this destination: the failure is then no reason
/// to bounce queued mail.
pub(super) fn opening<W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    hop: &NextHop,
    failure: &mut Failure,
) -> bool {
    let failures = std::iter::once((None, &*failure));
    let is_stopped = delivery.schedule.shaped.listens() && hear(delivery, ready, None, failures);
    soften_one(delivery, hop, failure);
    is_stopped
}

/// Makes 5yz replies temporary if the route lists their classes in `defer_classes`.
pub(super) fn soften<W: World>(
    delivery: &Delivery<W>,
    hop: &NextHop,
    outcomes: &mut [Result<Reply, Failure>],
) {
    if !hop.defer_classes.is_empty() {
        let failures = outcomes.iter_mut().filter_map(|outcome| outcome.as_mut().err());
        failures.for_each(|failure| soften_one(delivery, hop, failure));
    }
}

fn soften_one<W: World>(delivery: &Delivery<W>, hop: &NextHop, failure: &mut Failure) {
    if hop.defer_classes.is_empty() || failure.class != Class::Permanent {
        return;
    }
    let Some(verdict) = delivery.services.classes.of(failure) else { return };
    if hop.defer_classes.iter().any(|name| **name == *verdict.class.as_str()) {
        failure.class = Class::Transient;
        // RFC 3463 §2: the class of the status is that of the result. The reply itself is kept.
        failure.status.class = 4;
    }
}

fn count<W: World>(delivery: &Delivery<W>, ready: ReadyId, delivered: u32) {
    let Some((provider, key)) = delivery.schedule.shaped.whom(ready) else { return };
    let whom = (provider.as_deref(), &*key.next_hop, &*key.source);
    let effects = delivery.schedule.shaped.effects();
    let is_waited_for = effects
        .iter()
        .any(|effect| effect.deliveries_left.is_some() && effect.covers(whom.0, whom.1, whom.2));
    if is_waited_for {
        let services = &delivery.services;
        services.shared.rules.deliver(services.wall(), whom, delivered);
    }
}

/// Returns true if a matching rule suspends the destination.
fn hear<'f, W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    message: Option<&Message>,
    failures: impl Iterator<Item = (Option<&'f Mailbox>, &'f Failure)>,
) -> bool {
    let services = &delivery.services;
    let Some((provider, ready_key)) = delivery.schedule.shaped.whom(ready) else { return false };
    let rules = delivery.schedule.shaped.rules();
    let rules = rules.of(provider.as_deref());
    let (mut is_heard, mut stops) = (vec![false; rules.len()], false);
    for (recipient, failure) in failures {
        // An invalid address shows nothing about our reputation with a provider.
        let is_of_address = failure.step == Some(Step::RcptTo)
            && failure.status.subject == 1
            && failure.reply.as_ref().is_some_and(|reply| reply.code != 421);
        if provider.is_some() && is_of_address {
            continue;
        }
        let Some(words) = Words::of(failure) else { continue };
        let domain = recipient.map(|recipient| Owner::named("domain", recipient.domain().as_str()));
        let from = Origin { next_hop: &ready_key.next_hop, domain };
        let asks_class = rules.iter().any(crate::shaping::RuleMatcher::asks_class);
        let verdict = asks_class.then(|| services.classes.of(failure)).flatten();
        for (heard, is_heard) in rules.iter().zip(&mut is_heard) {
            if *is_heard || !heard.matches(&words, verdict) {
                continue;
            }
            *is_heard = true;
            stops |= heard.rule.action == Action::Suspend;
            if let Some(key) = key_of(&heard.rule, provider.as_deref(), &ready_key, message) {
                services.shared.rules.hear(services.wall(), &heard.rule, &key, (from, &words));
            }
        }
    }
    stops
}

/// The key of the effect of a matching rule. `None` if the rule concerns a tenant or a campaign and the message has
/// none.
fn key_of(
    rule: &Rule,
    provider: Option<&str>,
    ready: &ReadyKey,
    message: Option<&Message>,
) -> Option<EffectKey> {
    let kept = message.map(Message::kept);
    let named = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(str::to_owned);
    let (tenant, campaign) = match rule.action {
        Action::SuspendTenant => (Some(named(kept?.tenant())?), None),
        Action::SuspendCampaign | Action::FailCampaign => (None, Some(named(kept?.campaign())?)),
        Action::Backoff | Action::Set | Action::Suspend => (None, None),
    };
    Some(EffectKey {
        rule: rule.name.to_string(),
        provider: provider.map(str::to_owned),
        next_hop: provider.is_none().then(|| ready.next_hop.to_string()),
        source: (!rule.is_of_every_source).then(|| ready.source.to_string()),
        tenant,
        campaign,
    })
}
