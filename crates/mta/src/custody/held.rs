//! Messages held by checks, with the time when each hold ends.

use crate::facts::{Hold, StoredFacts};
use crate::holding::{Amount, HeldShare, HoldAccount, Holdings};
use crate::watched::Signal;
use mail::{MessageId, Wall};
use queue::EntryId;
use spool::Meta;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// The messages of one shard that checks hold. Messages held by an operator are not included.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages {
    held: RefCell<BTreeMap<MessageId, HeldMessage>>,
    /// Ordered by the start of the hold, and so by its end.
    order: RefCell<BTreeSet<(Wall, MessageId)>>,
    hold_for: Cell<Duration>,
    /// Notified when the next hold to end changes, or the hold duration.
    pub(crate) changed: Signal,
}

#[derive(Debug)]
struct HeldMessage {
    since: Wall,
    entry: EntryId,
    open: usize,
    is_returnable: bool,
    _share: HeldShare,
}

/// The accounts charged for a hold: the peer alone, or client, sender and author.
pub(crate) fn accounts_of(held: &Hold<'_>, client: Option<IpAddr>) -> Box<[HoldAccount]> {
    match held.peer {
        "" => HoldAccount::of(client, [held.sender, held.author]),
        peer => [HoldAccount::Peer(peer.into())].into(),
    }
}

/// A hold that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) id: MessageId,
    /// One of its recipients.
    pub(crate) entry: EntryId,
    /// The message is returned to its sender.
    pub(crate) is_returnable: bool,
}

impl HeldMessages {
    /// Sets the hold duration.
    pub(crate) fn set_hold_for(&self, hold_for: Duration) {
        self.hold_for.set(hold_for);
        self.changed.note();
    }

    /// Adds a message held by a check when it is queued.
    pub(crate) fn add(
        &self,
        (id, entry): (MessageId, EntryId),
        open: usize,
        since: Wall,
        meta: &Hold<'_>,
        share: HeldShare,
    ) {
        let is_returnable = meta.is_returnable;
        let held = HeldMessage { since, entry, open, is_returnable, _share: share };
        self.held.borrow_mut().insert(id, held);
        self.order.borrow_mut().insert((since, id));
        self.changed.note();
    }

    /// Adds a message that was held for `reason` at the start. An operator's hold has another reason and is not added.
    pub(crate) fn adopt(
        &self,
        holdings: &Arc<Holdings>,
        (id, entry): (MessageId, EntryId),
        amount: Amount,
        (since, meta, reason): (Wall, &Meta, &str),
    ) {
        let kept = StoredFacts::of(meta);
        let Some(held) = kept.held().filter(|held| held.reason == reason) else { return };
        let client = kept.client().and_then(|client| client.ip());
        let share = holdings.take(accounts_of(&held, client), amount);
        let open = usize::try_from(amount.recipients).unwrap_or(usize::MAX);
        self.add((id, entry), open, since, &held, share);
    }

    /// Removes a message that an operator has released or holds now.
    pub(crate) fn forget(&self, id: MessageId) {
        if let Some(held) = self.held.borrow_mut().remove(&id) {
            self.order.borrow_mut().remove(&(held.since, id));
        }
    }

    /// Counts settled recipients of a message.
    pub(crate) fn settle(&self, id: MessageId, count: usize) {
        let is_done = {
            let mut all = self.held.borrow_mut();
            // Most messages are not held.
            let Some(held) = all.get_mut(&id) else { return };
            held.open = held.open.saturating_sub(count);
            held.open == 0
        };
        if is_done {
            self.forget(id);
        }
    }

    /// End of the next hold. `None` if no message is held.
    pub(crate) fn next_end(&self) -> Option<Wall> {
        let (since, _) = *self.order.borrow().first()?;
        Some(since.after(self.hold_for.get()))
    }

    /// Takes up to `max` holds that have ended by `now`. Each is returned once.
    pub(crate) fn take_ended(&self, now: Wall, max: usize) -> Vec<Ended> {
        let (held, mut order) = (self.held.borrow(), self.order.borrow_mut());
        let mut ended = Vec::new();
        while ended.len() < max {
            let Some(&(since, id)) = order.first() else { break };
            if since.after(self.hold_for.get()) > now {
                break;
            }
            order.pop_first();
            let known = held.get(&id);
            ended.extend(known.map(|held| Ended {
                id,
                entry: held.entry,
                is_returnable: held.is_returnable,
            }));
        }
        ended
    }

    /// Restarts the hold of a message that can't be read now.
    pub(crate) fn put_off(&self, id: MessageId, now: Wall) {
        if let Some(held) = self.held.borrow_mut().get_mut(&id) {
            held.since = now;
            self.order.borrow_mut().insert((now, id));
        }
    }
}
