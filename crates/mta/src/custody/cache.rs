//! The store of messages that will soon be needed again.

use crate::message::Message;
use mail::MessageId;
use mail::map::FixedMap;
use std::collections::VecDeque;
use std::rc::Rc;

/// Messages kept since their acceptance, so that the usual first delivery reads nothing from
/// disk. The oldest leave first when the limit is reached: they are on disk, and what waited long
/// enough to be the oldest waits for something slower than a read.
#[derive(Debug)]
pub(crate) struct MessageCache {
    messages: FixedMap<MessageId, (Rc<Message>, u32)>,
    order: VecDeque<MessageId>,
    bytes: usize,
    bytes_max: usize,
}

impl MessageCache {
    /// A cache of at most `bytes_max`.
    #[must_use]
    pub(crate) fn new(bytes_max: usize) -> MessageCache {
        MessageCache { messages: FixedMap::default(), order: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Keeps `message` for its `open` recipients.
    pub(crate) fn insert(&mut self, message: Rc<Message>, open: u32) {
        let cost = message.cost();
        if cost > self.bytes_max {
            return;
        }
        while self.bytes + cost > self.bytes_max {
            let Some(oldest) = self.order.pop_front() else { break };
            self.drop_message(oldest);
        }
        self.bytes += cost;
        self.order.push_back(message.id);
        self.messages.insert(message.id, (message, open));
        self.trim_order();
    }

    /// The message, if it is still kept.
    #[must_use]
    pub(crate) fn get(&self, id: MessageId) -> Option<Rc<Message>> {
        self.messages.get(&id).map(|(message, _)| Rc::clone(message))
    }

    /// `settled` recipients are done with; the last one frees the message.
    pub(crate) fn settle(&mut self, id: MessageId, settled: u32) {
        let Some((_, open)) = self.messages.get_mut(&id) else { return };
        *open = open.saturating_sub(settled);
        if *open == 0 {
            self.drop_message(id);
        }
    }

    fn drop_message(&mut self, id: MessageId) {
        if let Some((message, _)) = self.messages.remove(&id) {
            self.bytes -= message.cost();
        }
    }

    /// Ids of messages that left stay in the order until they outnumber those that are kept.
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
    fn the_oldest_leave_first_and_the_limit_holds() {
        let mut cache = MessageCache::new(10_000);
        for n in 0..20 {
            cache.insert(message(n, 488), 1);
        }
        assert_eq!(cache.messages.len(), 10);
        assert!(cache.get(MessageId::new(1, 0, 9)).is_none());
        assert!(cache.get(MessageId::new(1, 0, 10)).is_some());
        cache.insert(message(99, 20_000), 1);
        assert!(cache.get(MessageId::new(1, 0, 99)).is_none(), "larger than the whole cache");
        assert_eq!(cache.messages.len(), 10, "and nothing had to leave for it");
    }

    #[test]
    fn the_last_recipient_frees_the_message() {
        let mut cache = MessageCache::new(10_000);
        cache.insert(message(1, 100), 2);
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_some());
        cache.settle(MessageId::new(1, 0, 1), 1);
        assert!(cache.get(MessageId::new(1, 0, 1)).is_none());
        for n in 2..10_000 {
            cache.insert(message(n, 0), 1);
            cache.settle(MessageId::new(1, 0, n), 1);
        }
        assert!(cache.order.len() <= 65, "{}", cache.order.len());
    }
}
