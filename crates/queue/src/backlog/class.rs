//! Entries of one tenant in one priority class. Mail of trusted clients is sent first in, first out, and alternates
//! with mail of unauthenticated clients. Among the latter, sites (networks that one customer may own) take turns, and
//! client networks take turns within a site. A new client therefore waits for one round at most, whatever volume the
//! other clients sent.

use crate::Origin;
use crate::slab::NONE;
use mail::Turns;

/// Limit of the turns owed to a side, counted in recipients: the maximum of one transaction.
const OWED_MAX: i64 = 1_024;

/// Entries in order of arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryList {
    pub(super) head: u32,
    pub(super) tail: u32,
}

/// An entry of a list, with its neighbours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Links {
    pub(super) slot: u32,
    pub(super) next: u32,
    pub(super) previous: u32,
    pub(super) origin: Origin,
}

#[derive(Debug, Default)]
pub(super) struct Class {
    ours: EntryList,
    strangers: Option<Box<Strangers>>,
    /// Recipients that unauthenticated clients were served more than trusted ones while both were waiting.
    ahead: i64,
}

type Strangers = Turns<u16, u16, EntryList>;

impl Default for EntryList {
    fn default() -> EntryList {
        EntryList { head: NONE, tail: NONE }
    }
}

impl EntryList {
    fn is_empty(self) -> bool {
        self.head == NONE
    }

    fn unlink(&mut self, links: Links) {
        if self.head == links.slot {
            self.head = links.next;
        }
        if self.tail == links.slot {
            self.tail = links.previous;
        }
    }
}

impl Class {
    pub(super) fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.strangers.is_none()
    }

    /// The list that a new entry belongs to.
    pub(super) fn list_of(&mut self, origin: Origin) -> &mut EntryList {
        let Some((site, network)) = origin.parts() else { return &mut self.ours };
        self.strangers.get_or_insert_default().enter(site, network)
    }

    /// An entry has gone.
    pub(super) fn unlink(&mut self, links: Links) {
        let Some((site, network)) = links.origin.parts() else { return self.ours.unlink(links) };
        let Some(strangers) = &mut self.strangers else { return };
        strangers.change(site, network, |list| {
            list.unlink(links);
            list.is_empty()
        });
        if strangers.is_empty() {
            // Nobody is there to be paid back.
            self.strangers = None;
        }
    }

    /// Returns the next entry and its origin.
    pub(super) fn first(&self) -> Option<(u32, Origin)> {
        let strangers = self.strangers.as_ref().filter(|_| self.ours.is_empty() || self.ahead < 0);
        match strangers {
            Some(strangers) => {
                let (site, network, list) = strangers.first()?;
                Some((list.head, Origin::of(site, network)))
            }
            None => (!self.ours.is_empty()).then_some((self.ours.head, Origin::OURS)),
        }
    }

    /// Charges a number of recipients to this origin.
    pub(super) fn charge(&mut self, origin: Origin, recipients: u64) {
        let owed = i64::try_from(recipients).unwrap_or(OWED_MAX).min(OWED_MAX);
        let (is_alone, ahead) = match origin.parts() {
            None => (self.strangers.is_none(), self.ahead.saturating_sub(owed)),
            Some((site, network)) => {
                if let Some(strangers) = &mut self.strangers {
                    strangers.charge(site, network, recipients);
                }
                (self.ours.is_empty(), self.ahead.saturating_add(owed))
            }
        };
        self.ahead = if is_alone { 0 } else { ahead.clamp(-OWED_MAX, OWED_MAX) };
    }
}
