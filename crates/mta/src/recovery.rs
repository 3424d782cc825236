//! Queueing: new entries, messages read back from the spool, messages that the spool held at
//! start.

use crate::config::POSTMASTER_ROUTE;
use crate::ingress::is_for_postmaster;
use crate::line::{InLine, Standing, Who};
use crate::message::{Message, MessageBody};
use crate::seams::{Time, World};
use crate::shard::Shard;
use bytes::Bytes;
use mail::{Domain, MessageId, Mono, Wall};
use queue::{EntryId, NewEntry, RetryPolicy, ScheduledKey};
use spool::record::tag;
use spool::{Completion, LoadError, Loaded, LoadedBody, Meta, RecoveredMessage};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A read that takes longer is given up, and the message tried again later. What hangs in the
/// system's hands can't be called back.
const LOAD_WAIT: Duration = Duration::from_secs(60);

/// The campaign of mail without a sender, which waits apart: reports are tried and given up by
/// times of their own.
pub(crate) const REPORTS: &str = "reports";

impl<W: World> Shard<W> {
    /// The scheduled queue of a recipient. `route` is what an operator chose, or empty;
    /// `is_report`: the message has no sender.
    pub(crate) fn scheduled_key(
        &self,
        domain: Domain,
        route: &str,
        is_report: bool,
    ) -> ScheduledKey {
        ScheduledKey {
            tenant: Arc::clone(&self.nothing),
            campaign: if is_report { Arc::from(REPORTS) } else { Arc::clone(&self.nothing) },
            domain,
            route: if route.is_empty() { Arc::clone(&self.nothing) } else { Arc::from(route) },
        }
    }

    /// Queues one recipient.
    pub(crate) fn push_entry(&self, now: Mono, key: &ScheduledKey, entry: NewEntry) -> EntryId {
        let active = self.active();
        let mut queue = self.queue.borrow_mut();
        let scheduled = queue.scheduled(key, active.retry_of(key));
        queue.push(now, scheduled, entry)
    }

    /// The retry policy of a scheduled queue.
    pub(crate) fn retry_of(&self, key: &ScheduledKey) -> RetryPolicy {
        self.active().retry_of(key).clone()
    }

    /// The message, from memory or from the spool, for a report about it. That it can't be read
    /// is logged.
    ///
    /// # Errors
    /// What the spool said.
    pub(crate) async fn message(self: &Rc<Self>, id: MessageId) -> Result<Rc<Message>, LoadError> {
        let place = self.place_to_read(Who::other(self.number, u32::MAX), id);
        self.message_in_turn(place, id).await
    }

    /// A place in the line for memory to read a message into, if it must be read.
    pub(crate) fn place_to_read(&self, who: Who, id: MessageId) -> Option<InLine> {
        if self.cache.borrow().get(id).is_some() {
            return None;
        }
        // As much as a record can take, until it is known how much that is.
        let bytes = self.active().config.spool.blob_bytes.saturating_add(ENVELOPE_BYTES);
        Some(self.shared.reads.join(who, Standing::Good, bytes))
    }

    /// As [`Shard::message`], when its turn comes. Who waits must hold no message that was read,
    /// or all could wait for each other.
    ///
    /// # Errors
    /// What the spool said.
    pub(crate) async fn message_in_turn(
        self: &Rc<Self>,
        place: Option<InLine>,
        id: MessageId,
    ) -> Result<Rc<Message>, LoadError> {
        let read = self.read_in_turn(place, id).await;
        if let Err(why) = &read {
            self.tell_unreadable(id, why);
        }
        read
    }

    async fn read_in_turn(
        self: &Rc<Self>,
        place: Option<InLine>,
        id: MessageId,
    ) -> Result<Rc<Message>, LoadError> {
        if self.spool.has_failed(id.log()) {
            // What is delivered now could not be settled: it would be delivered again.
            return Err(LoadError::Disk("its log failed a write or sync".into()));
        }
        let Some(place) = place else { return self.look_at(id).await };
        let mut memory = if place.is_served() {
            place.await
        } else {
            self.unread.borrow_mut().insert(id);
            let memory = place.await;
            self.unread.borrow_mut().remove(&id);
            memory
        };
        let mut message = self.load(id).await?;
        memory.shrink(message.cost() as u64);
        message.memory = Some(memory);
        Ok(Rc::new(message))
    }

    /// Reads a message from the spool.
    async fn load(&self, id: MessageId) -> Result<Message, LoadError> {
        let time = self.world.time();
        tokio::select! {
            biased;
            loaded = self.spool.load(id) => match loaded {
                Completion::Loaded(loaded) => Ok(from_loaded(*loaded)),
                other => Err(refusal(other)),
            },
            () = time.sleep_until(time.now() + LOAD_WAIT) => {
                Err(LoadError::Disk("the disk does not answer".into()))
            }
        }
    }

    /// As [`Shard::message`], for those who only look, one message after the other: nothing is
    /// logged, and nobody waits.
    ///
    /// # Errors
    /// What the spool said.
    pub(crate) async fn look_at(self: &Rc<Self>, id: MessageId) -> Result<Rc<Message>, LoadError> {
        if let Some(message) = self.cache.borrow().get(id) {
            return Ok(message);
        }
        self.load(id).await.map(Rc::new)
    }

    /// Says on the console that the spool can't read a message, or its body.
    pub(crate) fn tell_unreadable(&self, id: MessageId, why: &LoadError) {
        self.console.error("spool", format_args!("cannot read a message id={id}: {why}"));
    }

    /// Queues what the spool held of one message when the server started.
    pub(crate) fn adopt_recovered(self: &Rc<Self>, message: RecoveredMessage) {
        let (now, wall) = (self.now(), self.world.time().wall());
        self.shared.queue_slots.take(message.open.len() as u64);
        let age = wall.since(message.received_at);
        // The part of its age that the monotonic clock knows about, and the part before that.
        let received = now - age;
        let age_before_start = age.saturating_sub(now.since(Mono(0)));
        let chosen_route = message.route_override.as_deref().unwrap_or("");
        let not_before = wall_field(&message.meta, tag::NOT_BEFORE);
        let hold: Option<Arc<str>> = message.hold.as_deref().map(Arc::from);
        let mut last = None;
        for recipient in message.open {
            let postmaster = is_for_postmaster(&message.meta, recipient.index);
            let route = if postmaster { POSTMASTER_ROUTE } else { chosen_route };
            let key = self.scheduled_key(recipient.domain, route, message.reverse_path_is_null);
            let longest = self.retry_of(&key).longest_delay();
            let entry = NewEntry {
                id: message.id,
                recipient: recipient.index,
                received,
                age_before_start,
                due: now + wait(recipient.next_try, not_before, wall, longest),
                attempts: recipient.attempts,
                priority: crate::ingress::PRIORITY_NORMAL,
                held: hold.is_some(),
                warned: message.delay_notice_sent,
            };
            last = Some(self.push_entry(now, &key, entry));
        }
        if let (Some(entry), Some(reason)) = (last, hold) {
            self.queue.borrow_mut().hold(entry, &reason);
        }
    }
}

/// Set aside for envelope and added header fields of a message that is read.
const ENVELOPE_BYTES: u64 = 64 * 1024;

/// How much longer a recipient waits that the spool held. Its next try is stored as a time of day:
/// if the clock was set back since, that is further away than any retry may be. What the message
/// itself asks to wait for is a time of day.
fn wait(
    next_try: Option<Wall>,
    not_before: Option<Wall>,
    now: Wall,
    longest: Duration,
) -> Duration {
    let until = |at: Option<Wall>| at.map_or(Duration::ZERO, |at| at.since(now));
    until(next_try).min(longest).max(until(not_before))
}

/// What the spool said instead of what was asked for.
pub(crate) fn refusal(answer: Completion) -> LoadError {
    match answer {
        Completion::LoadFailed(why) => why,
        _ => LoadError::Disk("the spool gave no answer".into()),
    }
}

fn wall_field(meta: &Meta, tag: u16) -> Option<Wall> {
    let (_, value) = meta.fields.iter().find(|(field, _)| *field == tag)?;
    Some(Wall(u64::from_le_bytes(value.get(..8)?.try_into().ok()?)))
}

pub(crate) fn from_loaded(loaded: Loaded) -> Message {
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
        last_reason: loaded.last_reason,
        memory: None,
    }
}

/// The value of a text field of `meta`, if it is there.
pub(crate) fn text_field(meta: &Meta, tag: u16) -> Option<&str> {
    let (_, value): &(u16, Bytes) = meta.fields.iter().find(|(field, _)| *field == tag)?;
    std::str::from_utf8(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_was_set_back_makes_no_retry_wait_longer() {
        let (now, longest) = (Wall(1_000_000), Duration::from_secs(60));
        let after = |next_try, not_before: Option<u64>| {
            wait(Some(Wall(next_try)), not_before.map(Wall), now, longest).as_millis()
        };
        assert_eq!(wait(None, None, now, longest), Duration::ZERO);
        assert_eq!(after(999_000, None), 0, "it is due");
        assert_eq!(after(1_030_000, None), 30_000);
        assert_eq!(after(1_000_000 + 86_400_000, None), 60_000, "the clock went back a day");
        assert_eq!(after(1_030_000, Some(1_500_000)), 500_000, "a time of day is one");
        assert_eq!(after(1_030_000, Some(999_000)), 30_000);
    }
}
