//! Counts the queue for metrics, in pieces so small that no delivery waits for them.

use super::walk::{CommandReply, Operator};
use crate::control::{Census, CountedRecipients};
use crate::seams::World;
use queue::{GlanceState, Queue, ReadyId, ScheduledId};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Recipients of a piece with common queues and state.
type Groups = BTreeMap<(ScheduledId, Option<ReadyId>, u8), (GlanceState, CountedRecipients)>;

impl<W: World> Operator<W> {
    /// Counts all queued recipients. A piece has one chunk of entries, about a thousand; names are looked up once for
    /// each group of a piece.
    pub(crate) async fn census(self: &Rc<Self>, answer: &CommandReply) -> Census {
        let (began, mut census, mut chunk) = (self.services.now(), Census::default(), 0);
        while chunk < self.schedule.queue().chunk_count() && !answer.is_unwanted() {
            if chunk > 0 {
                self.services.pause_for_others().await;
            }
            let queue = self.schedule.queue();
            let mut groups = Groups::new();
            for glance in queue.glances(began, chunk) {
                let key = (glance.scheduled, glance.ready, glance.state as u8);
                let group =
                    groups.entry(key).or_insert((glance.state, CountedRecipients::default()));
                let oldest_ms = glance.age_us / 1_000;
                group.1.add(CountedRecipients { recipients: 1, oldest_ms });
            }
            for ((scheduled, ready, _), (state, counted)) in groups {
                census.count(state, counted);
                self.name(&queue, &mut census, (scheduled, ready), counted);
            }
            chunk += 1;
        }
        census
    }

    /// Counts recipients of a group by name.
    fn name(
        &self,
        queue: &Queue,
        census: &mut Census,
        (scheduled, ready): (ScheduledId, Option<ReadyId>),
        CountedRecipients { recipients, oldest_ms }: CountedRecipients,
    ) {
        let Some(key) = queue.scheduled_key(scheduled) else { return };
        let provider = match ready {
            Some(ready) => self.schedule.hop(ready).and_then(|hop| hop.provider.clone()),
            None => self.schedule.provider_of_scheduled(queue, scheduled),
        };
        let placed = ready.and_then(|ready| queue.ready_key(ready));
        match placed {
            Some(ready) => census.next_hops.add(&ready.next_hop, recipients, oldest_ms),
            None => {
                let active = self.router.active();
                let hop = active.route_of_key(key).and_then(|route| route.next_hop());
                let hop = hop.as_deref().unwrap_or("(not known yet)");
                census.next_hops.add(hop, recipients, oldest_ms);
            }
        }
        let source = placed.map(|ready| &ready.source);
        let named = [
            (&mut census.tenants, Some(&key.tenant)),
            (&mut census.providers, provider.as_ref()),
            (&mut census.sources, source),
        ];
        for (count, name) in named {
            // Names with `<` are internal, for reports.
            let name = name.filter(|name| !name.is_empty() && !name.starts_with('<'));
            name.into_iter().for_each(|name| count.add(name, recipients, oldest_ms));
        }
    }
}
