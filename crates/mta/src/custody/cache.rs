//! Cache of messages that will soon be needed again.

use crate::message::Message;
use mail::map::FixedMap;
use mail::{MessageId, Mono};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

/// A message not fetched for this long waits for an event slower than a disk read, and is evicted for newer ones.
const FRESH: Duration = Duration::from_secs(2);

/// Messages cached since their acceptance, so that the usual first delivery reads nothing from disk.
///
/// If the cache is full, fresh messages stay and the new one is not cached. The oldest are the next to be delivered:
/// evicting them would drop each just before its delivery, and a queue slightly longer than the limit would be read
/// back entirely.
#[derive(Debug)]
pub(crate) struct MessageCache {
    messages: FixedMap<MessageId, CachedMessage>,
    order: VecDeque<MessageId>,
    bytes: usize,
    bytes_max: usize,
}

#[derive(Debug)]
struct CachedMessage {
    message: Rc<Message>,
    /// Recipients not settled yet.
    open: u32,
    since: Mono,
}

impl MessageCache {
    /// A cache with a limit of `bytes_max`.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> MessageCache {
        MessageCache { messages: FixedMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Caches `message` for its `open` recipients, if it fits.
    pub(crate) fn insert(&mut self, now: Mono, message: Rc<Message>, open: u32) {
        let cost = message.cost();
        if cost > self.bytes_max {
            return;
        }
        while self.bytes + cost > self.bytes_max {
            self.trim_order();
            let Some(oldest) = self.order.front().copied() else { break };
            let since = self.messages.get(&oldest).map_or(Mono(0), |kept| kept.since);
            if now.since(since) < FRESH {
                return;
            }
            self.drop_message(oldest);
        }
        self.bytes += cost;
        self.order.push_back(message.id);
        self.messages.insert(message.id, CachedMessage { message, open, since: now });
        self.trim_order();
    }

    /// The message, if cached.
    #[must_use]
    pub(crate) fn get(&self, id: MessageId) -> Option<Rc<Message>> {
        self.messages.get(&id).map(|kept| Rc::clone(&kept.message))
    }

    /// Counts settled recipients. The last one frees the message.
    pub(crate) fn settle(&mut self, id: MessageId, settled: u32) {
        let Some(kept) = self.messages.get_mut(&id) else { return };
        kept.open = kept.open.saturating_sub(settled);
        if kept.open == 0 {
            self.drop_message(id);
        }
    }

    /// Drops a message after its record in the spool has changed.
    pub(crate) fn forget(&mut self, id: MessageId) {
        self.drop_message(id);
    }

    fn drop_message(&mut self, id: MessageId) {
        if let Some(kept) = self.messages.remove(&id) {
            self.bytes -= kept.message.cost();
        }
    }

    /// Ids of evicted messages stay in the order until they outnumber the cached ones.
    fn trim_order(&mut self) {
        while let Some(front) = self.order.front() {
            if self.messages.contains_key(front) {
                break;
            }
            self.order.pop_front();
        }
        if self.order.len() > 64 + 2 * self.messages.len() {
            self.order.retain(|id| self.messages.contains_key(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(sequence: u64, body_bytes: usize) -> Rc<Message> {
        Rc::new(crate::message::tests::message(sequence, body_bytes))
    }

    #[test]
    fn what_is_fresh_stays_and_the_limit_holds() {
        let mut cache = MessageCache::new(10_000);
        let (early, late) = (Mono(0), Mono(0) + FRESH);
        for n in 0..20 {
            cache.insert(early, message(n, 488), 1);
        }
        assert_eq!(cache.messages.len(), 10);
        assert!(cache.get(MessageId::new(1, 0, 9)).is_some(), "the next to be delivered");
        assert!(cache.get(MessageId::new(1, 0, 10)).is_none());
        cache.insert(late, message(99, 20_000), 1);
        assert!(cache.get(MessageId::new(1, 0, 99)).is_none(), "larger than the whole cache");
        assert_eq!(cache.messages.len(), 10, "and nothing had to leave for it");
        cache.settle(MessageId::new(1, 0, 0), 1);
        cache.insert(late, message(30, 488), 1);
        cache.insert(late, message(31, 488), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_none(), "it is fresh no more");
        assert!(cache.get(MessageId::new(1, 0, 31)).is_some());
        assert_eq!(cache.messages.len(), 10);
    }

    #[test]
    fn what_is_forgotten_is_read_again() {
        let mut cache = MessageCache::new(10_000);
        cache.insert(Mono(0), message(1, 100), 2);
        cache.forget(MessageId::new(1, 0, 1));
        assert!(cache.get(MessageId::new(1, 0, 1)).is_none() && cache.bytes == 0);
        cache.settle(MessageId::new(1, 0, 1), 1);
    }

    #[test]
    fn the_last_recipient_frees_the_message() {
        let mut cache = MessageCache::new(10_000);
        cache.insert(Mono(0), message(1, 100), 2);
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_some());
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_none());
        for n in 2..10_000 {
            cache.insert(Mono(0), message(n, 0), 1);
            cache.settle(MessageId::new(1, 0, n), 1);
        }
        assert!(cache.order.len() <= 65, "{}", cache.order.len());
    }
}
