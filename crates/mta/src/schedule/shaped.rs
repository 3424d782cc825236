//! Effects of shaping rules on queues: changed limits, suspensions and failed campaigns.
//!
//! The limits of a ready queue are determined with its hosts (`application.rs`). The normal limits of ready queues that
//! rules may affect are kept here. The beginning of an effect, each step of its end, and the end can then be applied at
//! once without a lookup.

use super::named_limits::named_limits;
use super::{Schedule, standing};
use crate::control::Effect;
use crate::seams::World;
use crate::services::Services;
use crate::shaping::Rules;
use config::shaping::{Action, Easing, Paced};
use config::{Config, RouteLimits};
use mail::{Class, EnhancedStatus, Failure, Wall};
use queue::{NamedLimit, ReadyId, ReadyKey, ReadyLimits, ScheduledId, ScheduledKey};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Limits of a ready queue without effects of rules.
#[derive(Clone, Debug)]
pub(crate) struct Usual {
    pub(crate) paced: Paced,
    /// The name of its set of hosts, independent of their order.
    pub(crate) host_set: String,
}

impl Usual {
    /// The mailbox provider of the hosts.
    pub(super) fn provider(&self) -> Option<&Arc<str>> {
        self.paced.together.as_ref().map(|together| &together.provider)
    }
}

/// Rules and effects on one shard.
#[derive(Debug, Default)]
pub(crate) struct ShapingEffects {
    rules: RefCell<Arc<Rules>>,
    /// The active effects.
    effects: RefCell<Arc<[Effect]>>,
    /// Rules are configured.
    listens: Cell<bool>,
    /// An effect ends after a number of deliveries.
    counts: Cell<bool>,
    /// An effect concerns a tenant or campaign.
    has_parties: Cell<bool>,
    /// Ready queues that rules may affect.
    usual: RefCell<BTreeMap<ReadyId, (ReadyKey, Usual)>>,
}

impl ShapingEffects {
    /// Replaces the rules.
    pub(crate) fn set_rules(&self, rules: Arc<Rules>) {
        self.listens.set(!rules.is_empty());
        *self.rules.borrow_mut() = rules;
    }

    /// Returns true if rules are configured.
    pub(crate) fn listens(&self) -> bool {
        self.listens.get()
    }

    /// Returns true if deliveries must be counted for an effect.
    pub(crate) fn counts_deliveries(&self) -> bool {
        self.counts.get()
    }

    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.borrow())
    }

    pub(crate) fn effects(&self) -> Arc<[Effect]> {
        Arc::clone(&self.effects.borrow())
    }

    /// The provider and key of a ready queue that rules may affect.
    pub(crate) fn whom(&self, ready: ReadyId) -> Option<(Option<Arc<str>>, ReadyKey)> {
        let usual = self.usual.borrow();
        let (key, usual) = usual.get(&ready)?;
        Some((usual.provider().cloned(), key.clone()))
    }

    /// Stores the normal limits of a ready queue. With `is_shaped`, rules may affect it.
    pub(super) fn keep(&self, ready: ReadyId, key: &ReadyKey, usual: Usual, is_shaped: bool) {
        let provider = usual.provider().map(|provider| &**provider);
        if is_shaped && !self.rules.borrow().of(provider).is_empty() {
            self.usual.borrow_mut().insert(ready, (key.clone(), usual));
        } else {
            self.forget(ready);
        }
    }

    /// The queue has dropped this ready queue.
    pub(super) fn forget(&self, ready: ReadyId) {
        if self.listens.get() || !self.usual.borrow().is_empty() {
            self.usual.borrow_mut().remove(&ready);
        }
    }

    /// The current limits of a ready queue.
    pub(super) fn limits(
        &self,
        config: &Config,
        key: &ReadyKey,
        usual: &Usual,
    ) -> (ReadyLimits, Vec<NamedLimit>) {
        let mut paced = Cow::Borrowed(&usual.paced);
        let provider = usual.provider().map(|provider| &**provider);
        for effect in self.effects.borrow().iter().filter(|effect| effect.action.sets_limits()) {
            if effect.covers(provider, &key.next_hop, &key.source) {
                let easing = Easing {
                    provider,
                    rule: &effect.rule,
                    quarters: effect.returned,
                    is_of_every_source: effect.source.is_none(),
                };
                config.ease(paced.to_mut(), easing);
            }
        }
        let source = Some(&*key.source).filter(|source| !source.is_empty());
        (limits_of(paced.limits), named_limits(usual.host_set.clone(), &paced, source))
    }

    /// The effect that suspends a ready queue. Among several the one that ends last.
    fn stopped(&self, wall: Wall, provider: Option<&str>, key: &ReadyKey) -> Option<Effect> {
        self.longest(wall, |effect| {
            effect.action == Action::Suspend && effect.covers(provider, &key.next_hop, &key.source)
        })
    }

    /// The effect that suspends a scheduled queue by its tenant or campaign.
    fn stopped_party(
        &self,
        wall: Wall,
        provider: Option<&str>,
        key: &ScheduledKey,
    ) -> Option<Effect> {
        self.longest(wall, |effect| {
            matches!(effect.action, Action::SuspendTenant | Action::SuspendCampaign)
                && is_of(effect, provider, key)
        })
    }

    /// The matching effect that ends last. An effect that ends now may stay active until the first shard has announced
    /// its end.
    fn longest(&self, wall: Wall, stops: impl Fn(&Effect) -> bool) -> Option<Effect> {
        let effects = self.effects.borrow();
        let stopped = effects.iter().filter(|effect| effect.until > wall && stops(effect));
        stopped.max_by_key(|effect| effect.until).cloned()
    }

    /// The failure of a scheduled queue's mail, if an effect fails its campaign.
    pub(super) fn given_up(
        &self,
        provider: Option<&str>,
        key: &ScheduledKey,
    ) -> Option<Arc<Failure>> {
        let effects = self.effects.borrow();
        let mut given_up = effects
            .iter()
            .filter(|effect| effect.action == Action::FailCampaign && is_of(effect, provider, key));
        given_up.next().map(failure_of)
    }
}

/// Returns true if an effect covers the mail of a scheduled queue for this provider.
fn is_of(effect: &Effect, provider: Option<&str>, key: &ScheduledKey) -> bool {
    provider.is_some()
        && effect.provider.as_deref() == provider
        && effect.covers_party(&key.tenant, &key.campaign)
}

/// The failure of a campaign, for senders: 5.7.1, delivery not authorized (RFC 3463 §3.8).
pub(crate) fn failure_of(effect: &Effect) -> Arc<Failure> {
    let campaign = effect.campaign.as_deref().unwrap_or_default();
    let provider = effect.provider.as_deref().unwrap_or_default();
    let text = format!("campaign {campaign} failed for {provider} by {effect}");
    Arc::new(Failure::local(Class::Permanent, EnhancedStatus::new(5, 7, 1), text))
}

/// The limits of a single ready queue.
pub(super) fn limits_of(limits: RouteLimits) -> ReadyLimits {
    ReadyLimits {
        opens_max: limits.opens_max,
        messages_per_connection: limits.messages_per_connection,
        recipients_per_message: limits.recipients_per_message,
        adaptive: limits.adaptive,
    }
}

/// The effect as a suspension of the queue.
fn standstill<W: World>(services: &Services<W>, effect: &Effect) -> Arc<queue::Suspension> {
    let Effect { rule, place, peer, reply, .. } = effect;
    Arc::new(queue::Suspension {
        what: format!("{}, stopped by rule {rule} ({place}),", effect.whom()).into(),
        reason: format!("{peer} replied: {reply}").into(),
        is_operators: false,
        until: services.now() + effect.until.since(services.wall()),
    })
}

/// The suspension of a ready queue by an effect.
pub(super) fn standstill_of_hop<W: World>(
    schedule: &Schedule<W>,
    id: ReadyId,
    key: &ReadyKey,
) -> Option<Arc<queue::Suspension>> {
    if schedule.shaped.effects.borrow().is_empty() {
        return None;
    }
    let provider = schedule.hop(id).and_then(|hop| hop.provider.clone());
    let effect = schedule.shaped.stopped(schedule.services.wall(), provider.as_deref(), key)?;
    Some(standstill(&schedule.services, &effect))
}

/// The suspension of a scheduled queue by an effect, if its provider is known.
pub(super) fn standstill_of_party<W: World>(
    schedule: &Schedule<W>,
    id: ScheduledId,
    key: &ScheduledKey,
) -> Option<Arc<queue::Suspension>> {
    if !schedule.shaped.has_parties.get() {
        return None;
    }
    let provider = schedule.provider_of_scheduled(&schedule.queue(), id);
    let wall = schedule.services.wall();
    let effect = schedule.shaped.stopped_party(wall, provider.as_deref(), key)?;
    Some(standstill(&schedule.services, &effect))
}

/// A scheduled queue was resolved: an effect may suspend its tenant or campaign at the provider.
pub(super) fn note_provider<W: World>(schedule: &Schedule<W>, scheduled: ScheduledId) {
    if !schedule.shaped.has_parties.get() {
        return;
    }
    let key = schedule.queue().scheduled_key(scheduled).cloned();
    if let Some(key) = key {
        standing::suspend_scheduled(schedule, scheduled, &key);
    }
}

/// Applies the new set of effects to all queues affected by the old or the new set.
pub(crate) fn follow<W: World>(schedule: &Rc<Schedule<W>>, effects: &Arc<[Effect]>) {
    let shaped = &schedule.shaped;
    let before = shaped.effects.replace(Arc::clone(effects));
    let any = |is: fn(&Effect) -> bool| effects.iter().any(is);
    shaped.counts.set(any(|effect| effect.deliveries_left.is_some()));
    let had_parties = shaped.has_parties.replace(any(|effect| effect.action.is_of_party()));
    let is_concerned = |key: &ReadyKey, usual: &Usual| {
        let provider = usual.provider().map(|provider| &**provider);
        let mut both = before.iter().chain(effects.iter());
        both.any(|effect| effect.covers(provider, &key.next_hop, &key.source))
    };
    let config = Arc::clone(&schedule.router.active().config);
    let concerned: Vec<(ReadyId, ReadyKey, (ReadyLimits, Vec<NamedLimit>))> = {
        let usual = shaped.usual.borrow();
        let concerned = usual.iter().filter(|(_, (key, usual))| is_concerned(key, usual));
        let now = |(id, (key, usual)): (&ReadyId, &(ReadyKey, Usual))| {
            (*id, key.clone(), shaped.limits(&config, key, usual))
        };
        concerned.map(now).collect()
    };
    for (id, key, (limits, shared)) in concerned {
        // The id may belong to another ready queue by now.
        if schedule.queue().ready_key(id) == Some(&key) {
            let now = schedule.services.now();
            schedule.queue_mut().set_limits(now, id, &limits, &shared);
            standing::suspend_hop(schedule, id, &key);
        }
    }
    if had_parties || shaped.has_parties.get() {
        standing::follow_changes(schedule);
    }
}
