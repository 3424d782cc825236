//! What peers say of mail is heard by the rules of shaping. Only their words count: what this server or the way to
//! them lacks is nobody's rule.

use super::Delivery;
use crate::message::Message;
use crate::meta;
use crate::seams::World;
use crate::shaping::{Key, Words};
use config::shaping::{Action, Rule};
use mail::{Failure, Reply};
use queue::{ReadyId, ReadyKey};
use spool::record::tag;

/// What became of the recipients of a transaction. A rule is heard once of it, however many were refused.
pub(super) fn outcomes<W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    message: &Message,
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
        let failures = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
        hear(delivery, ready, Some(message), failures);
    }
}

/// A host turned a connection away. Whether a rule stops what goes there for that: then it is no reason to return
/// mail that waits.
pub(super) fn opening<W: World>(delivery: &Delivery<W>, ready: ReadyId, failure: &Failure) -> bool {
    delivery.schedule.shaped.listens() && hear(delivery, ready, None, std::iter::once(failure))
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

/// Whether any rule that was heard stops what goes there.
fn hear<'f, W: World>(
    delivery: &Delivery<W>,
    ready: ReadyId,
    message: Option<&Message>,
    failures: impl Iterator<Item = &'f Failure>,
) -> bool {
    let services = &delivery.services;
    let Some((provider, ready_key)) = delivery.schedule.shaped.whom(ready) else { return false };
    let rules = delivery.schedule.shaped.rules();
    let rules = rules.of(provider.as_deref());
    let (mut is_heard, mut stops) = (vec![false; rules.len()], false);
    for failure in failures {
        let Some(words) = Words::of(failure) else { continue };
        let asks_class = rules.iter().any(crate::shaping::Heard::asks_class);
        let verdict = asks_class.then(|| services.classes.of(failure)).flatten();
        for (heard, is_heard) in rules.iter().zip(&mut is_heard) {
            if *is_heard || !heard.matches(&words, verdict) {
                continue;
            }
            *is_heard = true;
            stops |= heard.rule.action == Action::Suspend;
            if let Some(key) = key_of(&heard.rule, provider.as_deref(), &ready_key, message) {
                services.shared.rules.hear(services.wall(), &heard.rule, &key, &words);
            }
        }
    }
    stops
}

/// Whom a rule concerns that was heard; `None`: it is about a tenant or a campaign, and the message has none.
fn key_of(
    rule: &Rule,
    provider: Option<&str>,
    ready: &ReadyKey,
    message: Option<&Message>,
) -> Option<Key> {
    let text = |tag| meta::text(&message?.meta, tag).filter(|text| !text.is_empty());
    let (tenant, campaign) = match rule.action {
        Action::SuspendTenant => (Some(text(tag::TENANT)?.to_owned()), None),
        Action::SuspendCampaign | Action::FailCampaign => {
            (None, Some(text(tag::CAMPAIGN)?.to_owned()))
        }
        Action::Backoff | Action::Set | Action::Suspend => (None, None),
    };
    Some(Key {
        rule: rule.name.to_string(),
        provider: provider.map(str::to_owned),
        next_hop: provider.is_none().then(|| ready.next_hop.to_string()),
        source: (!rule.is_of_every_source).then(|| ready.source.to_string()),
        tenant,
        campaign,
    })
}
