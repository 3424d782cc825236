//! Ledger of rule matches and of the resulting effects. Pure data: time is an argument.

use super::rules::{Rules, Words};
use crate::control::{Effect, Lift};
use crate::line::Owner;
use config::shaping::{HitThreshold, LASTS_MAX, QUARTERS, Rule};
use mail::Wall;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Maximum number of rules, each per party, that have matched and not yet reached their threshold. At the limit, the
/// count with the oldest last match restarts from zero.
pub(crate) const COUNTS_MAX: usize = 4_096;
/// Maximum number of effects, including those that are over and kept. At the limit the kept ones are dropped, the
/// oldest first, and those of next hops alone.
pub(crate) const EFFECTS_MAX: usize = 2_000;
/// Maximum number of effects for next hops alone. Any client can cause many effects, so the rest is reserved for
/// providers' rules.
const HOPS_MAX: usize = EFFECTS_MAX / 2;
/// Maximum number among these for hosts of one zone.
const ZONE_MAX: usize = HOPS_MAX / 4;
/// Minimum interval between reports that the limit is reached.
const TELL_EVERY: Duration = Duration::from_secs(3_600);
/// Maximum number of queued notices; older ones are dropped.
const NEWS_MAX: usize = 1_000;

/// Key of an effect: the rule and the parties concerned.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EffectKey {
    pub(crate) rule: String,
    pub(crate) provider: Option<String>,
    pub(crate) next_hop: Option<String>,
    pub(crate) source: Option<String>,
    pub(crate) tenant: Option<String>,
    pub(crate) campaign: Option<String>,
}

impl EffectKey {
    fn of(effect: &Effect) -> EffectKey {
        EffectKey {
            rule: effect.rule.clone(),
            provider: effect.provider.clone(),
            next_hop: effect.next_hop.clone(),
            source: effect.source.clone(),
            tenant: effect.tenant.clone(),
            campaign: effect.campaign.clone(),
        }
    }
}

/// The mail by which a rule matched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin<'a> {
    /// The next hop.
    pub(crate) next_hop: &'a str,
    /// The domain of the rejected recipient; `None` if the reply can't contain text chosen by a recipient's domain.
    pub(crate) domain: Option<Owner>,
}

/// A match: its time, and the recipient's domain.
type Hit = (Wall, Option<Owner>);

/// The number of matches, compared with the rule's threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hits {
    TooFew,
    /// Enough, for one domain only.
    OfOneDomain,
    Enough,
}

/// The reason for the end of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// It expired.
    Time,
    /// Enough deliveries.
    Delivered,
    /// Lifted by an operator.
    Lifted,
    /// Its rule was changed or removed.
    Rule,
    /// Dropped for a provider's rule at the limit.
    Room,
}

impl Over {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Over::Time => "time",
            Over::Delivered => "delivered",
            Over::Lifted => "lifted",
            Over::Rule => "rule",
            Over::Room => "room",
        }
    }
}

/// A notice to log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// It began, or was renewed.
    Began(Effect),
    /// It ended.
    Ended(Effect, Over),
    /// The limit of effects is reached, and this one is dropped.
    TooMany(EffectKey),
}

/// Rule matches and their effects.
#[derive(Debug, Default)]
pub(crate) struct ShapingLedger {
    heard: BTreeMap<EffectKey, VecDeque<Hit>>,
    effects: BTreeMap<EffectKey, Effect>,
    news: VecDeque<News>,
    /// Time at which an effect was last dropped at the limit, and time of the last report about that.
    full: Option<Wall>,
    told_full: Option<Wall>,
}

impl ShapingLedger {
    /// Handles a match of a rule. Returns true if there is a new notice. If a provider's rule matches only mail for one
    /// domain, the effect is limited to that domain's next hop: a customer of the provider may have chosen the text.
    pub(crate) fn hear(
        &mut self,
        now: Wall,
        rule: &Rule,
        key: &EffectKey,
        (from, words): (Origin<'_>, &Words<'_>),
    ) -> bool {
        if self.effects.get(key).is_some_and(|effect| is_same_trouble(effect, now)) {
            return false;
        }
        let narrow;
        let key = match self.hits(now, rule, key, from) {
            Hits::TooFew => return false,
            Hits::Enough => key,
            Hits::OfOneDomain => {
                narrow = EffectKey { next_hop: Some(from.next_hop.to_owned()), ..key.clone() };
                if self.effects.get(&narrow).is_some_and(|effect| is_same_trouble(effect, now)) {
                    return false;
                }
                &narrow
            }
        };
        let is_known = |effect: &&Effect| now < effect.until.after(effect.lasts());
        let known = self.effects.get(key).filter(is_known);
        if known.is_none() && !self.make_room(key, words.peer) {
            return self.note_full(now, key);
        }
        let known = self.effects.get(key).filter(is_known);
        let step = known.map_or(1, |known| known.step.saturating_add(1));
        let began = known.filter(|known| known.is_in_force()).map_or(now, |known| known.began);
        let lasts = doubled(rule.lasts, step);
        let effect = Effect {
            rule: key.rule.clone(),
            place: rule.place.to_string(),
            action: rule.action,
            provider: key.provider.clone(),
            next_hop: key.next_hop.clone(),
            source: key.source.clone(),
            tenant: key.tenant.clone(),
            campaign: key.campaign.clone(),
            peer: words.peer.to_owned(),
            reply: words.reply.clone(),
            began,
            renewed: now,
            until: now.after(lasts),
            lasts_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
            step,
            returned: 0,
            deliveries_left: rule.until_delivered,
        };
        self.tell(News::Began(effect.clone()));
        self.effects.insert(key.clone(), effect);
        true
    }

    /// Counts a match. At the threshold the count restarts, except for a provider's rule with matches for one domain
    /// only: a match for another domain completes it.
    fn hits(&mut self, now: Wall, rule: &Rule, key: &EffectKey, from: Origin<'_>) -> Hits {
        // The effect for a next hop, a tenant or a campaign may come from its own mail alone.
        let is_wide = key.next_hop.is_none() && !rule.action.is_of_party();
        let HitThreshold { count, within } = match rule.after {
            Some(after) => after,
            None if is_wide => HitThreshold { count: 1, within: rule.lasts },
            None => return Hits::Enough,
        };
        if !self.heard.contains_key(key) && self.heard.len() >= COUNTS_MAX {
            let oldest = self.heard.iter().min_by_key(|(_, hits)| hits.back().map(|hit| hit.0));
            let oldest = oldest.map(|(key, _)| key.clone());
            oldest.and_then(|oldest| self.heard.remove(&oldest));
        }
        let hits = self.heard.entry(key.clone()).or_default();
        hits.push_back((now, from.domain));
        while hits.front().is_some_and(|first| now.since(first.0) > within) {
            hits.pop_front();
        }
        if hits.len() < count as usize {
            return Hits::TooFew;
        }
        let is_others = |hit: &Hit| hit.1.is_none() || hit.1 != from.domain;
        if is_wide && !hits.iter().any(is_others) {
            // The latest matches are enough for a match by another domain's mail to count.
            while hits.len() > (count as usize).max(1) {
                hits.pop_front();
            }
            return Hits::OfOneDomain;
        }
        self.heard.remove(key);
        Hits::Enough
    }

    /// Drops an effect that is not needed if the limit is reached. Returns true if there is space for another.
    fn make_room(&mut self, key: &EffectKey, peer: &str) -> bool {
        let is_of_hop = |effect: &Effect| effect.next_hop.is_some();
        if key.next_hop.is_some() {
            let zone = zone_of_peer(peer);
            let is_near = |effect: &Effect| is_of_hop(effect) && zone_of_peer(&effect.peer) == zone;
            let count =
                |is: &dyn Fn(&Effect) -> bool| self.effects.values().filter(|e| is(e)).count();
            let of_hops = count(&is_of_hop);
            // Near ones are included in the first count, and are more costly to count.
            let is_near_full = of_hops >= ZONE_MAX && count(&is_near) >= ZONE_MAX;
            let is_full = of_hops >= HOPS_MAX || self.effects.len() >= EFFECTS_MAX;
            return (!is_near_full || self.forget_oldest(|e| is_near(e) && !e.is_in_force()))
                && (!is_full || self.forget_oldest(|e| is_of_hop(e) && !e.is_in_force()));
        }
        self.effects.len() < EFFECTS_MAX
            || self.forget_oldest(|effect| !effect.is_in_force())
            || self.forget_oldest(is_of_hop)
    }

    /// Drops the matching effect with the oldest last match. Returns true if there was one.
    fn forget_oldest(&mut self, is: impl Fn(&Effect) -> bool) -> bool {
        let found = self.effects.iter().filter(|(_, effect)| is(effect));
        let oldest = found.min_by_key(|(_, effect)| effect.renewed).map(|(key, _)| key.clone());
        let gone = oldest.and_then(|key| self.effects.remove(&key));
        if let Some(effect) = gone.as_ref().filter(|effect| effect.is_in_force()) {
            self.tell(News::Ended(effect.clone(), Over::Room));
        }
        gone.is_some()
    }

    /// Notes an effect dropped at the limit. Returns true if that is due to be reported.
    fn note_full(&mut self, now: Wall, key: &EffectKey) -> bool {
        self.full = Some(now);
        let is_told = self.told_full.is_some_and(|told| now.since(told) < TELL_EVERY);
        if !is_told {
            self.told_full = Some(now);
            self.tell(News::TooMany(key.clone()));
        }
        !is_told
    }

    /// Returns true if an effect was dropped at the limit within the last hour.
    pub(crate) fn lacked_room(&self, now: Wall) -> bool {
        self.full.is_some_and(|full| now.since(full) < TELL_EVERY)
    }

    fn tell(&mut self, news: News) {
        if self.news.len() >= NEWS_MAX {
            self.news.pop_front();
        }
        self.news.push_back(news);
    }

    /// Counts deliveries from a source to a provider, or to a next hop without provider. Returns true if an effect
    /// ended by this.
    pub(crate) fn deliver(
        &mut self,
        now: Wall,
        (provider, next_hop, source): (Option<&str>, &str, &str),
        count: u32,
    ) -> bool {
        let mut over = Vec::new();
        let is_meant =
            |effect: &Effect| effect.is_in_force() && effect.covers(provider, next_hop, source);
        for effect in self.effects.values_mut().filter(|effect| is_meant(effect)) {
            let Some(left) = &mut effect.deliveries_left else { continue };
            *left = left.saturating_sub(count);
            if *left == 0 {
                (effect.returned, effect.until) = (QUARTERS, now);
                over.push(effect.clone());
            }
        }
        let is_changed = !over.is_empty();
        over.into_iter().for_each(|effect| self.tell(News::Ended(effect, Over::Delivered)));
        is_changed
    }

    /// Returns limits that are due, and forgets effects that ended long ago. Returns true if an effect changed, and the
    /// time of the next change.
    pub(crate) fn advance(&mut self, now: Wall) -> (bool, Option<Wall>) {
        let (mut is_changed, mut over) = (false, Vec::new());
        for effect in self.effects.values_mut().filter(|effect| effect.is_in_force()) {
            let returned = effect.returned_at(now);
            if returned != effect.returned {
                (effect.returned, is_changed) = (returned, true);
                over.extend((!effect.is_in_force()).then(|| effect.clone()));
            }
        }
        over.into_iter().for_each(|effect| self.tell(News::Ended(effect, Over::Time)));
        self.effects.retain(|_, effect| effect.is_in_force() || now < effect.next());
        (is_changed, self.effects.values().map(Effect::next).min())
    }

    /// Removes the selected effects. Returns the number that was in force.
    pub(crate) fn lift(&mut self, lift: &Lift) -> usize {
        self.end(Over::Lifted, |effect| lift.takes(effect))
    }

    /// Removes effects if their rule was removed or has another action now.
    pub(crate) fn keep_to(&mut self, rules: &Rules) -> usize {
        self.heard.retain(|key, _| rules.named(key.provider.as_deref(), &key.rule).is_some());
        self.end(Over::Rule, |effect| {
            let rule = rules.named(effect.provider.as_deref(), &effect.rule);
            rule.is_none_or(|rule| {
                rule.action != effect.action
                    || !rule.action.is_of_party()
                        && rule.is_of_every_source != effect.source.is_none()
            })
        })
    }

    fn end(&mut self, why: Over, ends: impl Fn(&Effect) -> bool) -> usize {
        let ended = self.effects.iter().filter(|(_, effect)| ends(effect));
        let ended: Vec<EffectKey> = ended.map(|(key, _)| key.clone()).collect();
        let mut count = 0;
        for key in ended {
            self.heard.remove(&key);
            let Some(effect) = self.effects.remove(&key) else { continue };
            if effect.is_in_force() {
                count += 1;
                self.tell(News::Ended(effect, why));
            }
        }
        count
    }

    /// Restores the effects that an earlier process stored.
    pub(crate) fn restore(&mut self, effects: Vec<Effect>) {
        let effects = effects.into_iter().take(EFFECTS_MAX);
        self.effects = effects.map(|effect| (EffectKey::of(&effect), effect)).collect();
    }

    /// All effects, in order.
    pub(crate) fn effects(&self) -> impl Iterator<Item = &Effect> {
        self.effects.values()
    }

    /// Takes the notices that were not logged yet.
    pub(crate) fn take_news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news).into()
    }
}

/// The DNS zone of the replying host.
fn zone_of_peer(peer: &str) -> Owner {
    Owner::zone(peer.split(['[', ':']).next().unwrap_or(peer))
}

/// Returns true if a match is not a new event: mail that was in flight at the start of an effect gets the same reply.
/// This also covers matches in the first quarter of the effect's duration.
fn is_same_trouble(effect: &Effect, now: Wall) -> bool {
    let first = effect.lasts() / u32::from(QUARTERS);
    effect.is_in_force() && effect.returned == 0 && now < effect.renewed.after(first)
}

/// Duration of the `step`th effect in a row.
fn doubled(lasts: Duration, step: u16) -> Duration {
    let doublings = u32::from(step.saturating_sub(1)).min(31);
    lasts.saturating_mul(1 << doublings).min(LASTS_MAX)
}

#[cfg(test)]
mod tests;
