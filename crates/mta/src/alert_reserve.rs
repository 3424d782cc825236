//! The reserve of alerts: the server accepts its own messages about problems although the queue or a spool is full.
//!
//! Queue slots are taken beyond `queue_recipients_max`, and the spool writes the message where it writes DSNs: in the
//! space behind `min_free_bytes`. Both are bounded by the number of unsettled alerts and by the size of each.

use crate::budget::{Budget, Share};
use mail::{MessageId, Refusal};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of alerts in the queue, over all shards.
pub const ALERTS_QUEUED_MAX: u64 = 16;
/// Maximum size of an alert in octets, without the header fields that are added to all mail.
pub const ALERT_BYTES_MAX: usize = 16 << 10;

/// All of the reserve is used by alerts that are not delivered yet.
const RESERVE_USED: Refusal =
    Refusal::transient((3, 1), "Too many undelivered alerts; try again later");
/// The alert exceeds [`ALERT_BYTES_MAX`].
const ALERT_TOO_LARGE: Refusal = Refusal::permanent((3, 4), "Alert exceeds its maximum size");

/// The unsettled alerts of one shard.
#[derive(Debug)]
pub(crate) struct QueuedAlerts {
    reserve: Arc<Budget>,
    /// Unsettled recipients of each, with its part of the reserve.
    open: RefCell<BTreeMap<MessageId, (usize, Share)>>,
}

impl QueuedAlerts {
    /// None yet. `reserve` is shared by all shards.
    pub(crate) fn new(reserve: &Arc<Budget>) -> QueuedAlerts {
        QueuedAlerts { reserve: Arc::clone(reserve), open: RefCell::default() }
    }

    /// Takes a part of the reserve for a new alert of this size.
    ///
    /// # Errors
    /// It is too large, or the reserve is used.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<Share, Refusal> {
        if bytes > ALERT_BYTES_MAX {
            return Err(ALERT_TOO_LARGE);
        }
        let mut share = Share::none(&self.reserve);
        if share.try_grow(1) { Ok(share) } else { Err(RESERVE_USED) }
    }

    /// Adds an alert with this number of recipients, before it is queued.
    pub(crate) fn add(&self, id: MessageId, recipients: usize, share: Share) {
        self.open.borrow_mut().insert(id, (recipients, share));
    }

    /// Adds an alert that was queued before the start.
    pub(crate) fn adopt(&self, id: MessageId, recipients: usize) {
        let mut share = Share::none(&self.reserve);
        share.grow(1);
        self.add(id, recipients, share);
    }

    /// Removes an alert that was not made durable.
    pub(crate) fn forget(&self, id: MessageId) {
        self.open.borrow_mut().remove(&id);
    }

    /// Counts settled recipients of a message.
    pub(crate) fn settle(&self, id: MessageId, count: usize) {
        let mut open = self.open.borrow_mut();
        // The usual case.
        if open.is_empty() {
            return;
        }
        let Some((left, _)) = open.get_mut(&id) else { return };
        *left = left.saturating_sub(count);
        if *left == 0 {
            open.remove(&id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(sequence: u64) -> MessageId {
        MessageId::new(1, 0, sequence)
    }

    #[test]
    fn reserve_has_its_messages_and_octets_and_no_more() {
        let reserve = Budget::new(ALERTS_QUEUED_MAX);
        let shards = [QueuedAlerts::new(&reserve), QueuedAlerts::new(&reserve)];
        assert_eq!(shards[0].reserve(ALERT_BYTES_MAX + 1).unwrap_err(), ALERT_TOO_LARGE);
        for n in 0..ALERTS_QUEUED_MAX {
            let alerts = &shards[usize::from(n % 2 == 1)];
            alerts.add(id(n), 2, alerts.reserve(ALERT_BYTES_MAX).unwrap());
        }
        assert_eq!(shards[0].reserve(1).unwrap_err(), RESERVE_USED);
        shards[0].settle(id(0), 1);
        shards[0].settle(id(77), 2);
        assert_eq!(reserve.used(), ALERTS_QUEUED_MAX, "a recipient is open");
        shards[0].settle(id(0), 1);
        shards[1].forget(id(1));
        assert_eq!(reserve.used(), ALERTS_QUEUED_MAX - 2);
        drop(shards[0].reserve(1).unwrap());
        assert_eq!(reserve.used(), ALERTS_QUEUED_MAX - 2);
    }

    #[test]
    fn alerts_of_an_earlier_start_use_the_reserve() {
        let reserve = Budget::new(1);
        let alerts = QueuedAlerts::new(&reserve);
        alerts.adopt(id(1), 1);
        alerts.adopt(id(2), 1);
        assert!(alerts.reserve(1).is_err());
        alerts.settle(id(1), 1);
        assert!(alerts.reserve(1).is_err());
        alerts.settle(id(2), 1);
        assert!(alerts.reserve(1).is_ok());
    }
}
