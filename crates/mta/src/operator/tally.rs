//! Counts for commands: each message once, and the queue by common properties.

use super::walk::{CommandReply, Operator};
use crate::control::{Counting, Filter, Summary};
use crate::seams::World;
use mail::MessageId;
use mail::map::FixedSet;
use queue::Glance;
use std::rc::Rc;

/// The messages counted so far. Messages with a single recipient need no record.
#[derive(Default)]
pub(super) struct CountedMessages(FixedSet<MessageId>);

impl CountedMessages {
    pub(super) fn is_new(&mut self, glance: &Glance) -> bool {
        glance.is_alone || self.0.insert(glance.id)
    }

    pub(super) fn is_new_id(&mut self, id: MessageId) -> bool {
        self.0.insert(id)
    }
}

impl<W: World> Operator<W> {
    /// Counts the matching recipients by their properties.
    pub(crate) async fn summary(self: &Rc<Self>, filter: Filter, answer: &CommandReply) -> Summary {
        let mut walk = self.walk(filter, answer);
        let mut counting = Counting::default();
        let mut seen = CountedMessages::default();
        while let Some(found) = self.next_piece(&mut walk, answer).await {
            let queue = self.schedule.queue();
            let active = self.router.active();
            for glance in found {
                let age_ms = glance.age_us / 1_000;
                counting.recipients += 1;
                counting.messages += u64::from(seen.is_new(&glance));
                counting.age(age_ms);
                let Some(key) = queue.scheduled_key(glance.scheduled) else { continue };
                counting.domains.add(key.domain.as_str(), 1, age_ms);
                let provider = self.schedule.provider_of(&queue, &glance);
                let named = [
                    (&mut counting.tenants, Some(&key.tenant)),
                    (&mut counting.campaigns, Some(&key.campaign)),
                    (&mut counting.providers, provider.as_ref()),
                ];
                for (count, name) in named {
                    // Names with `<` are internal, for reports.
                    let name = name.filter(|name| !name.is_empty() && !name.starts_with('<'));
                    name.into_iter().for_each(|name| count.add(name, 1, age_ms));
                }
                match glance.ready.and_then(|ready| queue.ready_key(ready)) {
                    Some(ready) => {
                        counting.next_hops.add(&ready.next_hop, 1, age_ms);
                        if !ready.source.is_empty() {
                            counting.sources.add(&ready.source, 1, age_ms);
                        }
                    }
                    None => {
                        let route = active.route_of_key(key);
                        let hop = route.and_then(|route| route.next_hop());
                        let hop = hop.as_deref().unwrap_or("(not known yet)");
                        counting.next_hops.add(hop, 1, age_ms);
                    }
                }
                match queue.last_failure(glance.entry) {
                    Some(failure) => {
                        counting.reasons.add(&failure.to_string(), 1, age_ms);
                        if let Some(verdict) = self.services.classes.of(failure) {
                            counting.classes.add(verdict.class.as_str(), 1, age_ms);
                        }
                    }
                    None => counting.reasons.add("(no failure)", 1, age_ms),
                }
            }
            answer.count(|tally| tally.messages = counting.messages);
        }
        // Rows that are not shown are counted where the shards' answers are merged.
        counting.finish(SUMMARY_ROWS)
    }
}

/// Maximum number of rows per table from a shard.
const SUMMARY_ROWS: usize = 1_000;
