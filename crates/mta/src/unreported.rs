//! Recipients that were given up while the spool has no room for the report about them. They have
//! left the queue and are open in the spool until the report can be written with their settle.

use mail::{Domain, Failure, Mailbox, MessageId, Mono};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// A recipient that was given up.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    pub(crate) index: u32,
    pub(crate) mailbox: Mailbox,
    pub(crate) attempts: u16,
    pub(crate) failure: Option<Arc<Failure>>,
}

/// The message that was given up, and the report about it: a message may have several.
pub(crate) type ReportKey = (MessageId, MessageId);

#[derive(Debug)]
struct Waiting {
    recipients: Vec<GivenUp>,
    next_try: Mono,
    /// The report is with the spool: what becomes of it is not known.
    submitted: bool,
    /// An operator removed the message meanwhile.
    removed: bool,
    hurry: Rc<Notify>,
}

/// What a report does after the spool had no room for it.
#[derive(Debug)]
pub(crate) enum PutOff {
    /// Waits for its next try, or until it is told to hurry.
    Wait(Rc<Notify>),
    /// An operator removed its recipients: they are to be settled so.
    Removed,
}

/// The recipients of one shard that wait so.
#[derive(Debug, Default)]
pub(crate) struct Unreported {
    waiting: RefCell<BTreeMap<ReportKey, Waiting>>,
}

impl Unreported {
    /// There was no room: the report is tried again at `next_try`. `recipients` are those that
    /// wait with it.
    pub(crate) fn put_off(
        &self,
        key: ReportKey,
        next_try: Mono,
        recipients: impl FnOnce() -> Vec<GivenUp>,
    ) -> PutOff {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.get(&key).is_some_and(|mine| mine.removed) {
            waiting.remove(&key);
            return PutOff::Removed;
        }
        let mine = waiting.entry(key).or_insert_with(|| Waiting {
            recipients: recipients(),
            next_try,
            submitted: false,
            removed: false,
            hurry: Rc::default(),
        });
        mine.next_try = next_try;
        mine.submitted = false;
        PutOff::Wait(Rc::clone(&mine.hurry))
    }

    /// The report goes to the spool again. False: an operator has removed its recipients.
    pub(crate) fn submit(&self, key: ReportKey) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let mine = waiting.get_mut(&key);
        mine.map(|mine| mine.submitted = true).is_some()
    }

    /// The report is written.
    pub(crate) fn conclude(&self, key: ReportKey) {
        self.waiting.borrow_mut().remove(&key);
    }

    /// How many recipients wait.
    pub(crate) fn count(&self) -> usize {
        self.waiting.borrow().values().map(|mine| mine.recipients.len()).sum()
    }

    /// The messages with recipients that wait.
    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.waiting.borrow().keys().map(|(id, _)| *id).collect()
    }

    /// The recipients of a message that wait, with the time of the next try.
    pub(crate) fn of(&self, id: MessageId) -> Vec<(GivenUp, Mono)> {
        let waiting = self.waiting.borrow();
        let mine = waiting.range(reports_of(id));
        mine.flat_map(|(_, w)| w.recipients.iter().map(|r| (r.clone(), w.next_try))).collect()
    }

    /// Has the reports about the messages that `chosen` names tried now; gives how many recipients
    /// wait for them.
    pub(crate) fn hasten(&self, chosen: impl Fn(MessageId, &Domain) -> bool) -> usize {
        let waiting = self.waiting.borrow();
        let mut count = 0;
        for ((id, _), mine) in waiting.iter() {
            let matches = |r: &&GivenUp| chosen(*id, &r.mailbox.domain());
            let matching = mine.recipients.iter().filter(matches).count();
            if matching > 0 && !mine.submitted {
                mine.hurry.notify_one();
            }
            count += matching;
        }
        count
    }

    /// An operator removes a message: gives the recipients that are to be settled as removed. Of
    /// a report that is with the spool they follow if it finds no room there.
    pub(crate) fn remove(&self, id: MessageId) -> Vec<u32> {
        let mut waiting = self.waiting.borrow_mut();
        let mut removed = Vec::new();
        for (_, mine) in waiting.range_mut(reports_of(id)) {
            mine.removed = true;
            if !mine.submitted {
                removed.extend(mine.recipients.iter().map(|recipient| recipient.index));
                mine.hurry.notify_one();
            }
        }
        waiting.retain(|(of, _), mine| *of != id || mine.submitted);
        removed
    }
}

fn reports_of(id: MessageId) -> std::ops::RangeInclusive<ReportKey> {
    (id, MessageId(0))..=(id, MessageId(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MessageId = MessageId(7);
    const KEY: ReportKey = (ID, MessageId(9));

    fn given_up() -> Vec<GivenUp> {
        let mailbox = Mailbox::parse("a@far.test", false).unwrap();
        vec![GivenUp { index: 3, mailbox, attempts: 2, failure: None }]
    }

    #[test]
    fn what_waits_for_room_is_known_until_it_is_written() {
        let unreported = Unreported::default();
        assert!(matches!(unreported.put_off(KEY, Mono(10), given_up), PutOff::Wait(_)));
        assert_eq!((unreported.count(), unreported.ids()), (1, vec![ID]));
        assert!(unreported.submit(KEY));
        let [(recipient, next_try)] = &unreported.of(ID)[..] else { panic!() };
        assert_eq!((recipient.index, *next_try), (3, Mono(10)));
        assert!(unreported.of(MessageId(8)).is_empty());
        assert_eq!(unreported.hasten(|id, domain| id == ID && domain.as_str() == "far.test"), 1);
        unreported.conclude(KEY);
        assert_eq!((unreported.count(), unreported.of(ID).len()), (0, 0));
    }

    #[test]
    fn what_is_removed_is_not_reported() {
        let unreported = Unreported::default();
        unreported.put_off(KEY, Mono(10), given_up);
        assert_eq!(unreported.remove(ID), [3]);
        assert!(!unreported.submit(KEY));
        assert_eq!(unreported.count(), 0);
        // While the report is with the spool it may yet be written: then it is too late.
        unreported.put_off(KEY, Mono(10), given_up);
        assert!(unreported.submit(KEY));
        assert_eq!(unreported.remove(ID), [] as [u32; 0]);
        assert_eq!(unreported.count(), 1);
        assert!(matches!(unreported.put_off(KEY, Mono(20), given_up), PutOff::Removed));
        assert_eq!(unreported.count(), 0);
    }
}
