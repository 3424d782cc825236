//! Queued messages in the form shown to operators.

use super::walk::Operator;
use crate::control::{self, BlockerKind, QueueItem, QueueRecipient, RecipientState};
use crate::delivery::unreported::{FailedRecipient, said_of, unread_address};
use crate::line::FairKey;
use crate::message::Message;
use crate::schedule::resolution::asker_of;
use crate::seams::World;
use ::classes::ReplyClass;
use mail::{Failure, MessageId, Mono, Priority, Wall};
use queue::{Blocker, EntryDetail, EntryId, Pause};
use spool::LoadError;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Maximum number of alternative paths that are listed. For more only the number is shown.
const WAYS_NAMED_MAX: usize = 32;

/// The blockers of several alternative paths, one of which must end.
fn one_of(own: &Blocker, others: &[Blocker]) -> String {
    let mut text = own.to_string();
    for other in others.iter().take(WAYS_NAMED_MAX - 1) {
        text += &format!("; or for {other}");
    }
    match others.len().saturating_sub(WAYS_NAMED_MAX - 1) {
        0 => text,
        more => text + &format!("; or for one of {more} more"),
    }
}

impl<W: World> Operator<W> {
    /// A message in the form for operators, as far as it can be read. `None` if it was settled in the meantime.
    pub(super) fn item(
        &self,
        id: MessageId,
        entry: Option<EntryId>,
        read: Result<Rc<Message>, LoadError>,
        recipients_max: usize,
    ) -> Option<QueueItem> {
        let entries =
            entry.map_or_else(Vec::new, |e| self.schedule.queue().entries(self.services.now(), e));
        if entries.is_empty() && self.delivery.unreported.of(id).is_empty() {
            return None;
        }
        let message = match read {
            Ok(message) => message,
            Err(why) => {
                return Some(self.unread_item(id, &entries, &said_of(&why), recipients_max));
            }
        };
        let queued = entries.iter().filter_map(|entry| {
            let address = message.envelope.recipients.get(entry.recipient as usize)?;
            let address = address.mailbox.to_string();
            let mut recipient = self.recipient(address, message.received_at, entry)?;
            if recipient.last_failure.is_none() && entry.attempts > 0 {
                let failure = message.last_failure();
                recipient.class = failure.as_deref().and_then(|failure| self.class_of(failure));
                recipient.last_failure = failure.map(|f| f.to_string());
            }
            Some(recipient)
        });
        // The addresses were not available when the recipients failed.
        let given_up = self.given_up_of(id).map(|mut recipient| {
            recipient.address = message.address_of(recipient.index).unwrap_or(recipient.address);
            recipient
        });
        let recipients = queued.chain(given_up).take(recipients_max).collect();
        let kept = message.kept();
        let client = kept.client().map(|address| {
            format!("{} {}", address.0, kept.helo().unwrap_or_default()).trim_end().to_owned()
        });
        Some(QueueItem {
            id,
            sender: message.sender().to_owned(),
            unreadable: None,
            body_bytes: message.facts.body_bytes,
            received_at: message.received_at,
            age_ms: self.age_ms(message.received_at),
            shard: self.services.number,
            held: self.held(entry),
            priority: message.priority().map(Priority::value),
            headers: self.delivery.describe(&message),
            moved: message.overrides.as_deref().cloned(),
            client,
            login: kept.login().map(str::to_owned),
            dialogues: Vec::new(),
            recipients,
            recipients_open: self.open_count(id, &entries),
            recipients_count: u32::try_from(message.envelope.recipients.len()).unwrap_or(u32::MAX),
        })
    }

    /// The queue's data about a message that can't be read. `why` is the spool's error.
    fn unread_item(
        &self,
        id: MessageId,
        entries: &[EntryDetail],
        why: &str,
        recipients_max: usize,
    ) -> QueueItem {
        let given_up = self.delivery.unreported.of(id);
        let received_at = match (entries.first(), given_up.first()) {
            (Some(entry), _) => self.schedule.received_at(entry),
            (None, Some((given_up, _))) => given_up.received_at,
            (None, None) => self.services.wall(),
        };
        let queued = entries.iter().filter_map(|entry| {
            let address = {
                let queue = self.schedule.queue();
                unread_address(queue.scheduled_key(entry.scheduled).map(|key| &key.domain))
            };
            let mut recipient = self.recipient(address, received_at, entry)?;
            if recipient.state != RecipientState::Held {
                recipient.blocker.kind = BlockerKind::Spool;
                recipient.blocker.text = format!("its spool record to be readable: {why}");
            }
            Some(recipient)
        });
        let recipients: Vec<_> = queued.chain(self.given_up_of(id)).take(recipients_max).collect();
        let open = self.open_count(id, entries);
        QueueItem {
            id,
            sender: String::new(),
            unreadable: Some(why.to_owned()),
            body_bytes: 0,
            received_at,
            age_ms: self.age_ms(received_at),
            shard: self.services.number,
            held: self.held(entries.first().map(|entry| entry.entry)),
            priority: None,
            headers: BTreeMap::new(),
            moved: None,
            client: None,
            login: None,
            dialogues: Vec::new(),
            recipients_open: open,
            recipients_count: open,
            recipients,
        }
    }

    fn held(&self, entry: Option<EntryId>) -> Option<String> {
        let reason = self.schedule.queue().hold_reason(entry?)?;
        Some(if reason.is_empty() { "held by an operator".to_owned() } else { reason.to_string() })
    }

    fn open_count(&self, id: MessageId, entries: &[EntryDetail]) -> u32 {
        u32::try_from(entries.len() + self.delivery.unreported.of(id).len()).unwrap_or(u32::MAX)
    }

    fn age_ms(&self, received_at: Wall) -> u64 {
        let age = self.services.wall().since(received_at);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }

    fn recipient(
        &self,
        address: String,
        received_at: Wall,
        entry: &EntryDetail,
    ) -> Option<QueueRecipient> {
        let queue = self.schedule.queue();
        let why = queue.why(self.services.now(), entry.entry)?;
        let key = queue.scheduled_key(entry.scheduled)?;
        let active = self.router.active();
        let route = active.route_of_key(key).filter(|_| !active.is_unchosen(key));
        let others = queue.why_other_ways(self.services.now(), entry.entry);
        let next = others.iter().chain([&why]).filter_map(Blocker::next).min();
        let until = next.map(|at| self.services.wall_of(at.max(self.services.now())));
        let is_kept = matches!(why, Blocker::Held { .. } | Blocker::Suspended(_));
        let expires_at = self.schedule.give_up_at(received_at, entry);
        let ready = queue.ready_of(entry.entry);
        let placed = ready.map(|key| key.next_hop.to_string());
        let source = ready.map(|key| &key.source).filter(|source| !source.is_empty());
        Some(QueueRecipient {
            index: entry.recipient,
            address,
            state: RecipientState::from(&why),
            next_try: until.filter(|_| !is_kept),
            blocker: self.in_line(entry, &why, until).unwrap_or_else(|| control::Blocker {
                kind: BlockerKind::from(&why),
                text: one_of(&why, &others),
                until,
            }),
            expires_at: Some(expires_at).filter(|_| !is_kept && !queue.keeps_all()),
            attempts: entry.attempts,
            last_failure: entry.last_failure.as_ref().map(ToString::to_string),
            class: entry.last_failure.as_deref().and_then(|failure| self.class_of(failure)),
            route: route.map(|route| route.name.to_string()),
            next_hop: placed.or_else(|| route.and_then(|route| route.next_hop())),
            source: source.map(ToString::to_string),
        })
    }

    fn class_of(&self, failure: &Failure) -> Option<ReplyClass> {
        self.services.classes.of(failure).map(|verdict| verdict.class)
    }

    /// The blocker of an entry in one of the process-wide fair queues.
    fn in_line(
        &self,
        entry: &EntryDetail,
        why: &Blocker,
        until: Option<Wall>,
    ) -> Option<control::Blocker> {
        let shared = &self.services.shared;
        let ready = self.schedule.queue().ready_id_of(entry.entry);
        let who = ready.and_then(|ready| self.schedule.who(ready));
        let worker = ready.map(|ready| FairKey::new(self.services.number, ready.0));
        let (kind, text) = match why {
            Blocker::Resolving { domain } => {
                let place = shared.lookups.place(asker_of(&self.schedule, entry.scheduled))?;
                let (before, all) = (place.before, shared.lookups.parts().max);
                let text =
                    format!("its turn to look up {domain}: {before} before it, {all} at a time");
                (BlockerKind::Lookup, text)
            }
            Blocker::Opening { next_hop, .. } => {
                let host = ready.map(|ready| FairKey::other(self.services.number, ready.0));
                let lines = [
                    (&shared.connections, who, "connections", BlockerKind::Descriptor),
                    (&shared.workers, worker, "workers", BlockerKind::Descriptor),
                    (&shared.lookups, host, "lookups", BlockerKind::Lookup),
                ];
                let mut places = lines.into_iter().filter_map(|(line, who, what, kind)| {
                    Some((line.place(who?)?.before, line.parts().max, what, kind))
                });
                let (before, all, what, kind) = places.next()?;
                let text = format!(
                    "one of the {all} {what} of this process, for {next_hop}: {before} next hops \
                     before it"
                );
                (kind, text)
            }
            Blocker::InFlight if self.custody.messages.is_unread(entry.id) => {
                let used = shared.reads.used();
                let text = format!("memory to read the message into: {used} bytes are in use");
                (BlockerKind::Memory, text)
            }
            _ => return None,
        };
        Some(control::Blocker { kind, text, until })
    }

    /// The failed recipients of a message without a durable report.
    fn given_up_of(&self, id: MessageId) -> impl Iterator<Item = QueueRecipient> {
        let given_up = self.delivery.unreported.of(id).into_iter();
        given_up.map(|(recipient, next_try)| self.given_up(recipient, next_try))
    }

    fn given_up(&self, recipient: FailedRecipient, next_try: Mono) -> QueueRecipient {
        // While the spool has the request, the attempt is now.
        let next_try = self.services.wall_of(next_try.max(self.services.now()));
        let text = match (&recipient.unreadable, self.custody.obstacle()) {
            (Some(why), _) => {
                format!("its spool record to be readable, so that its DSN can be sent: {why}")
            }
            (None, Some(Pause::Poisoned)) => {
                "the spool: its failure DSN cannot be written".to_owned()
            }
            _ => "its failure DSN, which covers other recipients of the message as well, or for \
             which the spool has no space"
                .to_owned(),
        };
        QueueRecipient {
            index: recipient.index,
            address: recipient.address,
            state: RecipientState::Unreported,
            blocker: control::Blocker { kind: BlockerKind::Spool, text, until: Some(next_try) },
            expires_at: Some(next_try),
            attempts: recipient.attempts,
            next_try: Some(next_try),
            last_failure: recipient.failure.as_ref().map(ToString::to_string),
            class: recipient.failure.as_deref().and_then(|failure| self.class_of(failure)),
            route: None,
            next_hop: None,
            source: None,
        }
    }
}

impl From<&Blocker> for RecipientState {
    fn from(why: &Blocker) -> RecipientState {
        match why {
            Blocker::Held { .. } => RecipientState::Held,
            Blocker::InFlight => RecipientState::InFlight,
            Blocker::Scheduled { .. }
            | Blocker::Hours { .. }
            | Blocker::Resolving { .. }
            | Blocker::ResolutionFailed { .. } => RecipientState::Scheduled,
            _ => RecipientState::Ready,
        }
    }
}

impl From<&Blocker> for BlockerKind {
    fn from(why: &Blocker) -> BlockerKind {
        match why {
            Blocker::Scheduled { .. } | Blocker::Hours { .. } => BlockerKind::Time,
            Blocker::Resolving { .. } | Blocker::ResolutionFailed { .. } => BlockerKind::Resolving,
            Blocker::ConnectionSlots { .. }
            | Blocker::Window { .. }
            | Blocker::LeaseWait { .. } => BlockerKind::ConnectionSlot,
            Blocker::Opening { .. } => BlockerKind::Opening,
            Blocker::OpenBackoff { .. } => BlockerKind::Backoff,
            Blocker::Rate { .. } | Blocker::Allowance { .. } => BlockerKind::Rate,
            Blocker::Held { .. } => BlockerKind::Operator,
            Blocker::Suspended(_) => BlockerKind::Suspended,
            Blocker::Paused(Pause::Stopping) => BlockerKind::Shutdown,
            Blocker::Paused(_) => BlockerKind::Spool,
            Blocker::InFlight => BlockerKind::Attempt,
            Blocker::Turn { .. } => BlockerKind::Turn,
        }
    }
}
