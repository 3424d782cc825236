//! Applies effects of shaping rules on each shard. The first shard also runs the timers and reports changes for all.

use super::change::SelectedRecipients;
use super::walk::{CommandReply, Operator};
use crate::alarm::Alarm;
use crate::control::{BlockerKind, Effect, Filter, PARTS_MAX, QueueItem, RecipientState};
use crate::event::{self, Kind};
use crate::schedule::shaped;
use crate::seams::World;
use crate::shaping::{News, Over};
use config::shaping::{Action, QUARTERS};
use mail::Mono;
use queue::{EntryId, ReadyId, Resolution, ScheduledId};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Interval for reading the wall clock while effects are active, since it may be set.
const CLOCK_LOOK: Duration = Duration::from_secs(60);

impl<W: World> Operator<W> {
    /// Follows the effects until the shard ends.
    pub(crate) async fn follow_rules(self: Rc<Self>) {
        let services = Rc::clone(&self.services);
        let mut changes = services.shared.rules.follow();
        let mut alarm = Alarm::new(services.world.time().clone());
        loop {
            let effects = changes.see();
            self.follow_effects(&effects);
            let next = if services.number == 0 { self.keep_time() } else { Mono::NEVER };
            tokio::select! {
                biased;
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                () = alarm.wait(next) => {}
            }
        }
    }

    /// Advances the return of limits, and reports changes. Returns the time of the next call.
    fn keep_time(&self) -> Mono {
        let services = &self.services;
        let (wall, rules) = (services.wall(), &services.shared.rules);
        let next = rules.advance(wall);
        for news in rules.take_news() {
            self.tell_news(news);
        }
        let in_force = rules.effects().iter().filter(|effect| effect.is_in_force()).count();
        services.metrics.shaping_effects.set_u64(in_force as u64);
        next.map_or(Mono::NEVER, |next| services.now() + next.since(wall).min(CLOCK_LOOK))
    }

    fn tell_news(&self, news: News) {
        let services = &self.services;
        let (effect, over) = match news {
            News::Began(effect) => (effect, None),
            News::Ended(effect, over) => (effect, Some(over)),
            News::TooMany(key) => {
                let (console, rule) = (&services.console, key.rule);
                let text = format_args!("rule {rule} has no effect: too many are in force");
                return console.warn("shaping", text);
            }
        };
        let (whom, action, until) = (effect.whom(), effect.action, effect.until);
        match over {
            None => {
                services.metrics.shaping_effects_begun[action].inc();
                let text = format_args!("{action} for {whom} until {until} by {effect}");
                services.console.warn("shaping", text);
            }
            Some(over) => {
                let Effect { rule, place, .. } = &effect;
                let why = over.as_str();
                let text =
                    format_args!("{action} for {whom} by rule {rule} ({place}) ended: {why}");
                services.console.info("shaping", text);
            }
        }
        if services.events.is_on() {
            services.emit_of_none(kind_of(effect, over));
        }
    }

    /// Adds to recipients in ready queues the rules that slow them.
    pub(super) fn tell_rules(&self, item: &mut QueueItem, entry: EntryId) {
        if self.schedule.shaped.effects().is_empty() {
            return;
        }
        let queue = self.schedule.queue();
        let entries = queue.entries(self.services.now(), entry).into_iter();
        let placed =
            entries.filter_map(|entry| Some((entry.recipient, queue.ready_id_of(entry.entry)?)));
        let placed: BTreeMap<u32, ReadyId> = placed.collect();
        for recipient in &mut item.recipients {
            let is_slow = recipient.state == RecipientState::Ready
                && recipient.blocker.kind != BlockerKind::Suspended;
            if let Some(ready) = placed.get(&recipient.index).filter(|_| is_slow) {
                recipient.blocker.text += &self.slowed(*ready);
            }
        }
    }

    /// The rules that slow a ready queue, as part of a sentence.
    fn slowed(&self, ready: ReadyId) -> String {
        let Some((provider, key)) = self.schedule.shaped.whom(ready) else { return String::new() };
        let effects = self.schedule.shaped.effects();
        let slows = effects.iter().filter(|effect| {
            effect.action.sets_limits()
                && effect.covers(provider.as_deref(), &key.next_hop, &key.source)
        });
        let told = slows.map(|effect| {
            let (action, from, until) = (effect.action, effect.until, effect.over_at());
            match effect.returned {
                0 => format!("; {action} by {effect}; limits return from {from} to {until}"),
                n => format!("; {action} by {effect}; {n}/{QUARTERS} returned, all at {until}"),
            }
        });
        told.collect()
    }

    /// Applies a new set of effects.
    fn follow_effects(self: &Rc<Self>, effects: &Arc<[Effect]>) {
        let before = self.schedule.shaped.effects();
        if before.is_empty() && effects.is_empty() {
            return;
        }
        shaped::follow(&self.schedule, effects);
        let is_new = |effect: &&Effect| {
            let is_same = |known: &Effect| {
                known.renewed == effect.renewed
                    && known.rule == effect.rule
                    && known.provider == effect.provider
                    && known.campaign == effect.campaign
            };
            effect.action == Action::FailCampaign && !before.iter().any(is_same)
        };
        for effect in effects.iter().filter(is_new) {
            let (operator, effect) = (Rc::clone(self), effect.clone());
            self.services.spawn(async move { operator.give_up_campaign(&effect).await });
        }
    }

    /// Fails the queued mail of a campaign for a provider. Mail queued later is refused at its resolution
    /// (`schedule/application.rs`).
    async fn give_up_campaign(self: &Rc<Self>, effect: &Effect) {
        let failure = shaped::failure_of(effect);
        let scheduled = self.refuse_campaign(effect).await;
        // No client receives the parts. Events report the result.
        let (parts, _nobody) = mpsc::channel(PARTS_MAX);
        let told_at = Cell::new(self.services.now());
        let answer = CommandReply { parts, tally: Cell::default(), told_at };
        let filter = Filter { campaign: effect.campaign.clone(), ..Filter::default() };
        let mut walk = self.walk(filter, &answer);
        while let Some(found) = self.next_piece(&mut walk, &answer).await {
            let mut of_campaign = SelectedRecipients::new();
            for glance in found.into_iter().filter(|glance| scheduled.contains(&glance.scheduled)) {
                of_campaign.entry(glance.id).or_default().push(glance);
            }
            if let Some(error) = self.fail_reported(of_campaign, &failure, &answer).await {
                self.services.console.warn("shaping", format_args!("{error}"));
            }
        }
    }

    /// Refuses all scheduled queues of a campaign for its provider, and returns them.
    async fn refuse_campaign(&self, effect: &Effect) -> BTreeSet<ScheduledId> {
        let (mut refused, mut from) = (BTreeSet::new(), Some(0));
        while let Some(at) = from {
            let piece: Vec<ScheduledId> = {
                let queue = self.schedule.queue();
                let (rows, next) = queue.scheduled_piece(at);
                from = next;
                let is_of =
                    |key: &queue::ScheduledKey| effect.covers_party(&key.tenant, &key.campaign);
                rows.filter(|row| is_of(row.key)).map(|row| row.id).collect()
            };
            for id in piece {
                let schedule = &self.schedule;
                let provider = schedule.provider_of_scheduled(&schedule.queue(), id);
                if provider.is_none() || provider.as_deref() != effect.provider.as_deref() {
                    continue;
                }
                refused.insert(id);
                let refusal = Resolution::Refuse(shaped::failure_of(effect));
                let now = self.services.now();
                let _ = self.schedule.queue_mut().handle_resolved(now, id, refusal);
            }
            if from.is_some() {
                self.services.pause_for_others().await;
            }
        }
        refused
    }
}

fn kind_of(effect: Effect, over: Option<Over>) -> Kind {
    let told = Box::new(event::ShapingEvent {
        rule: effect.rule,
        place: effect.place,
        action: effect.action.as_str(),
        provider: effect.provider,
        next_hop: effect.next_hop,
        source: effect.source.filter(|source| !source.is_empty()),
        tenant: effect.tenant,
        campaign: effect.campaign,
        step: effect.step,
        until: effect.until,
        peer: effect.peer,
        reply: effect.reply,
    });
    match over {
        None => Kind::Shaped(told),
        Some(over) => Kind::Unshaped(told, over.as_str()),
    }
}
