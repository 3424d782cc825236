//! Queueing: new entries, messages read back from the spool, messages that the spool held at
//! start.

use crate::config::POSTMASTER_ROUTE;
use crate::ingress::is_for_postmaster;
use crate::message::{Message, MessageBody};
use crate::seams::{Time, World};
use crate::shard::Shard;
use bytes::Bytes;
use mail::{Class, Domain, EnhancedStatus, Failure, MessageId, Mono, Wall};
use queue::{EntryId, NewEntry, RetryPolicy, ScheduledKey};
use spool::record::tag;
use spool::{Completion, Loaded, LoadedBody, Meta, RecoveredMessage};
use std::rc::Rc;
use std::sync::Arc;

impl<W: World> Shard<W> {
    /// Queues one recipient. `route` is what an operator chose, or empty.
    pub(crate) fn push_entry(
        &self,
        now: Mono,
        domain: Domain,
        route: &str,
        entry: NewEntry,
    ) -> EntryId {
        let active = self.active();
        let key = ScheduledKey {
            tenant: Arc::clone(&self.nothing),
            campaign: Arc::clone(&self.nothing),
            domain,
            route: if route.is_empty() { Arc::clone(&self.nothing) } else { Arc::from(route) },
        };
        let mut queue = self.queue.borrow_mut();
        let scheduled = queue.scheduled(&key, active.retry_of(&key));
        queue.push(now, scheduled, entry)
    }

    /// The retry policy of a scheduled queue.
    pub(crate) fn retry_of(&self, key: &ScheduledKey) -> RetryPolicy {
        self.active().retry_of(key).clone()
    }

    /// The message, from memory or from the spool.
    ///
    /// # Errors
    /// A transient failure of our own, when the spool cannot read it.
    pub(crate) async fn message(self: &Rc<Self>, id: MessageId) -> Result<Rc<Message>, Failure> {
        if let Some(message) = self.cache.borrow().get(id) {
            return Ok(message);
        }
        match self.spool.load(id).await {
            Completion::Loaded(loaded) => Ok(Rc::new(from_loaded(*loaded))),
            other => {
                let why = match &other {
                    Completion::LoadFailed(why) => why as &dyn std::fmt::Display,
                    _ => &"the spool gave no answer",
                };
                self.console.error("spool", format_args!("cannot read a message id={id}: {why}"));
                Err(Failure::local(
                    Class::Transient,
                    EnhancedStatus::new(4, 3, 0),
                    "the message cannot be read from the spool",
                ))
            }
        }
    }

    /// Queues what the spool held of one message when the server started.
    pub(crate) fn adopt_recovered(self: &Rc<Self>, message: RecoveredMessage) {
        let (now, wall) = (self.now(), self.world.time().wall());
        self.shared.queue_slots.take(message.open.len() as u64);
        let age = wall.since(message.received_at);
        // The part of its age that the monotonic clock knows about, and the part before that.
        let received = now - age;
        let age_before_start = age.saturating_sub(now.since(Mono(0)));
        let route = message.route_override.as_deref().unwrap_or("");
        let not_before = wall_field(&message.meta, tag::NOT_BEFORE);
        for recipient in message.open {
            let due = recipient.next_try.max(not_before);
            let entry = NewEntry {
                id: message.id,
                recipient: recipient.index,
                received,
                age_before_start,
                due: due.map_or(Mono(0), |due| now + due.since(wall)),
                attempts: recipient.attempts,
                priority: crate::ingress::PRIORITY_NORMAL,
                held: message.hold.is_some(),
                warned: message.delay_notice_sent,
            };
            let postmaster = is_for_postmaster(&message.meta, recipient.index);
            let route = if postmaster { POSTMASTER_ROUTE } else { route };
            self.push_entry(now, recipient.domain, route, entry);
        }
        if let Some(reason) = message.hold {
            self.holds.borrow_mut().insert(message.id, Arc::from(reason));
        }
    }
}

fn wall_field(meta: &Meta, tag: u16) -> Option<Wall> {
    let (_, value) = meta.fields.iter().find(|(field, _)| *field == tag)?;
    Some(Wall(u64::from_le_bytes(value.get(..8)?.try_into().ok()?)))
}

fn from_loaded(loaded: Loaded) -> Message {
    Message {
        id: loaded.id,
        received_at: loaded.received_at,
        envelope: loaded.envelope,
        meta: loaded.meta,
        prefix: loaded.prefix,
        body: match loaded.body {
            LoadedBody::Memory(body) => MessageBody::Memory(vec![body]),
            LoadedBody::Blob { blob, .. } => MessageBody::Blob(blob),
        },
        facts: loaded.facts,
    }
}

/// The value of a text field of `meta`, if it is there.
pub(crate) fn text_field(meta: &Meta, tag: u16) -> Option<&str> {
    let (_, value): &(u16, Bytes) = meta.fields.iter().find(|(field, _)| *field == tag)?;
    std::str::from_utf8(value).ok()
}
