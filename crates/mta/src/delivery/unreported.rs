//! Failed recipients that are not reported yet: the batch waits for further results of the message, the spool has no
//! space for the report, or can't read the message. They have left the queue, and are open in the spool until the
//! report is written with their settle.

use mail::{Domain, Failure, MessageId, Mono, Wall};
use spool::LoadError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

/// A failed recipient.
#[derive(Clone, Debug)]
pub(crate) struct FailedRecipient {
    pub(crate) index: u32,
    /// Possibly incomplete.
    pub(crate) address: String,
    pub(crate) domain: Option<Domain>,
    pub(crate) received_at: Wall,
    pub(crate) attempts: u16,
    pub(crate) failure: Option<Arc<Failure>>,
    /// The spool's error on reading the message, if that is the reason for the wait.
    pub(crate) unreadable: Option<Arc<str>>,
}

/// A pending report: the message, and a number, as one message may have several.
pub(crate) type ReportKey = (MessageId, u64);

#[derive(Debug)]
struct PendingDsn {
    recipients: Vec<FailedRecipient>,
    next_try: Mono,
    /// The report is submitted to the spool; the result is not known yet.
    submitted: bool,
    /// An operator has removed the message.
    removed: bool,
    retry_now: Rc<Notify>,
}

/// The next step of a report that the spool had no space for.
#[derive(Debug)]
pub(crate) enum DsnRetry {
    /// Wait for the next try, or until an operator requests it.
    Wait(Rc<Notify>),
    /// An operator removed its recipients: settle them as removed.
    Removed,
}

/// The pending reports of one shard.
#[derive(Debug, Default)]
pub(crate) struct PendingDsns {
    waiting: RefCell<BTreeMap<ReportKey, PendingDsn>>,
}

impl PendingDsns {
    /// Lists `recipients` as failed, to be reported at `next_try` or when `retry_now` is notified.
    pub(crate) fn gather(
        &self,
        key: ReportKey,
        next_try: Mono,
        retry_now: &Rc<Notify>,
        recipients: Vec<FailedRecipient>,
    ) {
        let mut waiting = self.waiting.borrow_mut();
        let mine = waiting.entry(key).or_insert_with(|| PendingDsn {
            recipients: Vec::new(),
            next_try,
            submitted: false,
            removed: false,
            retry_now: Rc::clone(retry_now),
        });
        mine.recipients.extend(recipients);
        mine.next_try = next_try;
    }

    /// Schedules another try at `next_try`: the spool had no space, or the message can't be read (`unreadable` has the
    /// reason).
    pub(crate) fn put_off(
        &self,
        key: ReportKey,
        next_try: Mono,
        unreadable: Option<Arc<str>>,
    ) -> DsnRetry {
        let mut waiting = self.waiting.borrow_mut();
        let Some(mine) = waiting.get_mut(&key).filter(|mine| !mine.removed) else {
            waiting.remove(&key);
            return DsnRetry::Removed;
        };
        for recipient in &mut mine.recipients {
            recipient.unreadable = unreadable.clone();
        }
        mine.next_try = next_try;
        mine.submitted = false;
        DsnRetry::Wait(Rc::clone(&mine.retry_now))
    }

    /// The message was read: sets recipients' addresses; those unknown to `address_of` are settled.
    pub(crate) fn name(&self, key: ReportKey, address_of: impl Fn(u32) -> Option<String>) {
        let mut waiting = self.waiting.borrow_mut();
        let Some(mine) = waiting.get_mut(&key) else { return };
        mine.recipients.retain_mut(|recipient| {
            recipient.unreadable = None;
            let address = address_of(recipient.index);
            address.map(|address| recipient.address = address).is_some()
        });
        if mine.recipients.is_empty() {
            waiting.remove(&key);
        }
    }

    /// The report is submitted to the spool again. Returns false if an operator has removed its recipients.
    pub(crate) fn submit(&self, key: ReportKey) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        let mine = waiting.get_mut(&key);
        mine.map(|mine| mine.submitted = true).is_some()
    }

    /// Returns false if an operator has removed the recipients.
    pub(crate) fn is_waiting(&self, key: ReportKey) -> bool {
        self.waiting.borrow().contains_key(&key)
    }

    /// Removes a report that is written, or not needed.
    pub(crate) fn conclude(&self, key: ReportKey) {
        self.waiting.borrow_mut().remove(&key);
    }

    /// The number of waiting recipients.
    pub(crate) fn count(&self) -> usize {
        self.waiting.borrow().values().map(|mine| mine.recipients.len()).sum()
    }

    /// The number of waiting reports.
    pub(crate) fn reports(&self) -> usize {
        self.waiting.borrow().len()
    }

    /// The messages with waiting recipients.
    pub(crate) fn ids(&self) -> Vec<MessageId> {
        let mut ids: Vec<MessageId> = self.waiting.borrow().keys().map(|(id, _)| *id).collect();
        ids.dedup();
        ids
    }

    /// The waiting recipients of a message, with the time of the next try.
    pub(crate) fn of(&self, id: MessageId) -> Vec<(FailedRecipient, Mono)> {
        let waiting = self.waiting.borrow();
        let mine = waiting.range(keys_of(id));
        mine.flat_map(|(_, w)| w.recipients.iter().map(|r| (r.clone(), w.next_try))).collect()
    }

    /// Tries the reports of recipients matched by `chosen` now. Returns the number of these recipients.
    pub(crate) fn retry_now(&self, chosen: impl Fn(MessageId, Option<&Domain>) -> bool) -> usize {
        let waiting = self.waiting.borrow();
        let mut count = 0;
        for ((id, _), mine) in waiting.iter() {
            let matches = |r: &&FailedRecipient| chosen(*id, r.domain.as_ref());
            let matching = mine.recipients.iter().filter(matches).count();
            if matching > 0 && !mine.submitted {
                mine.retry_now.notify_one();
            }
            count += matching;
        }
        count
    }

    /// An operator removes a message: returns the recipients to settle as removed. The recipients of a submitted report
    /// follow if the spool has no space for the report.
    pub(crate) fn remove(&self, id: MessageId) -> Vec<u32> {
        let mut waiting = self.waiting.borrow_mut();
        let mut removed = Vec::new();
        for (_, mine) in waiting.range_mut(keys_of(id)) {
            mine.removed = true;
            if !mine.submitted {
                removed.extend(mine.recipients.iter().map(|recipient| recipient.index));
                mine.retry_now.notify_one();
            }
        }
        waiting.retain(|(of, _), mine| *of != id || mine.submitted);
        removed
    }
}

fn keys_of(id: MessageId) -> std::ops::RangeInclusive<ReportKey> {
    (id, 0)..=(id, u64::MAX)
}

/// The text of an error on reading a message, to follow an introduction.
pub(crate) fn said_of(why: &LoadError) -> String {
    match why {
        LoadError::Disk(what) => what.to_string(),
        why => why.to_string(),
    }
}

/// Placeholder for a recipient's address if the message can't be read.
pub(crate) fn unread_address(domain: Option<&Domain>) -> String {
    domain.map_or_else(|| "?".to_owned(), |domain| format!("?@{domain}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MessageId = MessageId(7);
    const KEY: ReportKey = (ID, 9);

    /// With recipients to report.
    fn gathered(keys: &[ReportKey]) -> PendingDsns {
        let unreported = PendingDsns::default();
        for &key in keys {
            unreported.gather(key, Mono(2), &Rc::default(), given_up());
        }
        unreported
    }

    fn given_up() -> Vec<FailedRecipient> {
        vec![FailedRecipient {
            index: 3,
            address: "a@far.test".to_owned(),
            domain: Domain::parse("far.test").ok(),
            received_at: Wall(1),
            attempts: 2,
            failure: None,
            unreadable: None,
        }]
    }

    #[test]
    fn what_waits_for_room_is_known_until_it_is_written() {
        let unreported = gathered(&[KEY]);
        assert_eq!((unreported.count(), unreported.of(ID)[0].1), (1, Mono(2)));
        assert!(unreported.submit(KEY));
        assert!(matches!(unreported.put_off(KEY, Mono(10), None), DsnRetry::Wait(_)));
        assert_eq!((unreported.count(), unreported.ids()), (1, vec![ID]));
        assert!(unreported.submit(KEY));
        let [(recipient, next_try)] = &unreported.of(ID)[..] else { panic!() };
        assert_eq!((recipient.index, *next_try), (3, Mono(10)));
        assert!(unreported.of(MessageId(8)).is_empty());
        assert_eq!(
            unreported.retry_now(
                |id, domain| id == ID && domain.is_some_and(|d| d.as_str() == "far.test")
            ),
            1
        );
        unreported.conclude(KEY);
        assert_eq!((unreported.count(), unreported.of(ID).len()), (0, 0));
    }

    #[test]
    fn one_message_may_have_reports_that_wait_for_different_things() {
        let other = (ID, 10);
        let unreported = gathered(&[KEY, other]);
        unreported.put_off(other, Mono(5), Some("no such segment".into()));
        assert_eq!((unreported.of(ID).len(), unreported.ids()), (2, vec![ID]));
        assert_eq!(unreported.of(ID)[1].0.unreadable.as_deref(), Some("no such segment"));
        assert!(unreported.is_waiting(other));
        assert_eq!(unreported.remove(ID), [3, 3]);
        assert!(!unreported.is_waiting(other));
    }

    #[test]
    fn recipients_get_their_addresses_when_the_message_is_read() {
        let unreported = gathered(&[KEY]);
        unreported.name(KEY, |index| (index == 3).then(|| "b@far.test".to_owned()));
        assert_eq!(unreported.of(ID)[0].0.address, "b@far.test");
        unreported.name(KEY, |_| None);
        assert!(!unreported.is_waiting(KEY));
    }

    #[test]
    fn what_is_removed_is_not_reported() {
        let unreported = gathered(&[KEY]);
        assert_eq!(unreported.remove(ID), [3]);
        assert!(!unreported.submit(KEY));
        assert_eq!(unreported.count(), 0);
        // A submitted report may still be written: it is too late then.
        let unreported = gathered(&[KEY]);
        assert!(unreported.submit(KEY));
        assert_eq!(unreported.remove(ID), [] as [u32; 0]);
        assert_eq!(unreported.count(), 1);
        assert!(matches!(unreported.put_off(KEY, Mono(20), None), DsnRetry::Removed));
        assert_eq!(unreported.count(), 0);
    }
}
