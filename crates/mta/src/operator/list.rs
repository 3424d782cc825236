//! Lists the oldest matching messages, page by page.

use super::sieve::READS_MAX;
use super::tally::CountedMessages;
use super::walk::{CommandReply, Operator, Walk};
use crate::control::{Filter, LISTED_RECIPIENTS_MAX, QueueItem, ShardAnswer};
use crate::seams::World;
use mail::MessageId;
use queue::EntryId;
use std::collections::{BTreeSet, BinaryHeap};
use std::rc::Rc;

/// A message in list order: its age in inverted microseconds, its id, and one queued recipient if there is one.
type Listed = (u64, MessageId, Option<(u32, u32)>);

impl<W: World> Operator<W> {
    /// Sends the oldest `limit` matching messages, and counts all.
    pub(crate) async fn list(self: &Rc<Self>, filter: Filter, limit: u32, answer: &CommandReply) {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let mut walk = self.walk(filter, answer);
        let mut seen = CountedMessages::default();
        let mut oldest: BinaryHeap<Listed> = BinaryHeap::new();
        let keep = |oldest: &mut BinaryHeap<Listed>, listed: Listed| {
            answer.count(|tally| tally.messages += 1);
            if oldest.len() < limit {
                oldest.push(listed);
            } else if oldest.peek().is_some_and(|youngest| listed < *youngest) {
                oldest.pop();
                oldest.push(listed);
            }
        };
        while let Some(found) = self.next_piece(&mut walk, answer).await {
            for glance in found {
                if seen.is_new(&glance) {
                    let EntryId { slot, generation } = glance.entry;
                    let young_us = u64::MAX - glance.age_us;
                    keep(&mut oldest, (young_us, glance.id, Some((slot, generation))));
                }
            }
        }
        for (id, age_ms) in self.given_up_matching(&walk).await {
            if seen.is_new_id(id) {
                keep(&mut oldest, (u64::MAX - age_ms.saturating_mul(1_000), id, None));
            }
        }
        let listed = oldest.into_sorted_vec();
        for page in listed.chunks(READS_MAX) {
            let items = self.page(page).await;
            if items.is_empty() {
                continue;
            }
            let part = ShardAnswer { items, ..answer.part() };
            // Waits until the client has read the earlier pages.
            if answer.parts.send(part).await.is_err() {
                return;
            }
        }
    }

    async fn page(self: &Rc<Self>, page: &[Listed]) -> Vec<QueueItem> {
        let ids: Vec<MessageId> = page.iter().map(|(_, id, _)| *id).collect();
        let read = self.custody.messages.peek_all(&ids).await;
        let mut items = Vec::new();
        for (&(_, id, entry), read) in page.iter().zip(read) {
            let entry = entry.map(|(slot, generation)| EntryId { slot, generation });
            items.extend(self.item(id, entry, read, LISTED_RECIPIENTS_MAX));
        }
        items.sort_by_key(|item| (item.received_at, item.id));
        items
    }

    /// Matching messages with failed recipients that have no report yet, with their ages.
    pub(super) async fn given_up_matching(self: &Rc<Self>, walk: &Walk) -> Vec<(MessageId, u64)> {
        let now = self.services.wall();
        let mut matching = Vec::new();
        for id in self.delivery.unreported.ids() {
            let found = self.delivery.unreported.of(id).into_iter().find_map(|(given_up, _)| {
                let age = u64::try_from(now.since(given_up.received_at).as_millis());
                let age_ms = age.unwrap_or(u64::MAX);
                walk.sieve
                    .passes_given_up(&given_up, &self.services.classes, age_ms)
                    .then_some(age_ms)
            });
            let Some(age_ms) = found else { continue };
            if let Some(sender) = walk.sieve.sender() {
                let read = self.custody.messages.peek(id).await;
                if read.is_err() || read.is_ok_and(|m| m.sender() != sender) {
                    continue;
                }
            }
            matching.push((id, age_ms));
        }
        matching
    }

    /// Everything about one message.
    pub(crate) async fn one(self: &Rc<Self>, id: MessageId, answer: &CommandReply) -> ShardAnswer {
        let entry = self.find(id).await;
        if entry.is_none() && self.delivery.unreported.of(id).is_empty() {
            return ShardAnswer::default();
        }
        let read = self.custody.messages.peek(id).await;
        let mut item = self.item(id, entry, read, usize::MAX);
        if let (Some(item), Some(entry)) = (&mut item, entry) {
            self.tell_rules(item, entry);
        }
        if let Some(item) = &mut item {
            let hops: BTreeSet<&str> =
                item.recipients.iter().filter_map(|one| one.next_hop.as_deref()).collect();
            let dialogues = &self.services.shared.dialogues;
            item.dialogues = hops.into_iter().filter_map(|hop| dialogues.of(hop)).collect();
        }
        answer.count(|tally| tally.messages = u64::from(item.is_some()));
        ShardAnswer { items: item.into_iter().collect(), ..ShardAnswer::default() }
    }
}
