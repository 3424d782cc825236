//! What an operator asks of a shard, by way of the control socket.

use crate::control::{
    self, BlockerKind, ControlRequest, Filter, QueueItem, QueueRecipient, RecipientState, Select,
    ShardAnswer, ShardStatus,
};
use crate::event::{Event, Kind};
use crate::ingress::event_message;
use crate::message::Message;
use crate::outcome::{give_up_at, received_at, said_of, unread_address, wall_of};
use crate::recovery::text_field;
use crate::route::asker_of;
use crate::seams::{Spawn, Time, World};
use crate::settle::emit_at;
use crate::shard::Shard;
use crate::unreported::GivenUp;
use mail::{Mailbox, MessageId, Mono, Wall};
use queue::{Blocker, EntryDetail, Filter as Chosen, Pause};
use spool::record::tag;
use spool::{Completion, Record, Settle, SettleKind, State};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::oneshot;

impl<W: World> Shard<W> {
    /// Answers an operator; what reads the spool does so in a task of its own.
    pub(crate) fn handle_control(
        self: &Rc<Self>,
        request: ControlRequest,
        answer: oneshot::Sender<ShardAnswer>,
    ) {
        let shard = Rc::clone(self);
        self.world.spawn().spawn(async move {
            // Nobody may be listening any more.
            let _ = answer.send(shard.answer(request).await);
        });
    }

    async fn answer(self: &Rc<Self>, request: ControlRequest) -> ShardAnswer {
        match request {
            ControlRequest::QueueList { filter, limit } => self.list(&filter, limit).await,
            ControlRequest::QueueShow { id } | ControlRequest::QueueWhy { id } => {
                let entries = self.entries_of(id);
                let mut answer = ShardAnswer::default();
                if !entries.is_empty() || !self.unreported.of(id).is_empty() {
                    answer.items.extend(self.item(id, &entries).await);
                    answer.matched = 1;
                }
                answer
            }
            ControlRequest::QueueRetry { select } => self.retry(&select).await,
            ControlRequest::QueueHold { select, reason } => self.hold(&select, &reason).await,
            ControlRequest::QueueRelease { select } => self.release_held(&select).await,
            ControlRequest::QueueRemove { select } => self.remove(&select).await,
            ControlRequest::Status => {
                ShardAnswer { status: Some(self.status()), ..ShardAnswer::default() }
            }
            ControlRequest::Reload => ShardAnswer::default(),
        }
    }

    fn status(&self) -> ShardStatus {
        let queue = self.queue.borrow();
        let counts = queue.counts();
        let connections = queue.ready_queues().map(|ready| u64::from(ready.open)).sum();
        let sessions = self.shared.sessions.get(usize::from(self.number));
        let load = |n: &std::sync::atomic::AtomicU32| n.load(std::sync::atomic::Ordering::Relaxed);
        let queued = counts.scheduled + counts.ready + counts.in_flight + counts.held;
        let unreported = self.unreported.count();
        ShardStatus {
            shard: self.number,
            sessions: u64::from(sessions.map_or(0, load)),
            connections,
            recipients: (queued + unreported) as u64,
            held: counts.held as u64,
            in_flight: counts.in_flight as u64,
            unreported: unreported as u64,
        }
    }

    fn entries_of(&self, id: MessageId) -> Vec<EntryDetail> {
        self.queue.borrow().entries(self.now(), id)
    }

    fn is_open(&self, id: MessageId) -> bool {
        !self.entries_of(id).is_empty() || !self.unreported.of(id).is_empty()
    }

    /// Entries of all messages, by message, oldest ids first; none of a message whose recipients
    /// were all given up. Looks at the whole queue.
    fn all_entries(&self) -> BTreeMap<MessageId, Vec<EntryDetail>> {
        let mut by_message: BTreeMap<MessageId, Vec<EntryDetail>> = BTreeMap::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.queue.borrow().page(self.now(), &Chosen::All, from, PAGE_ENTRIES);
            for detail in page.entries {
                by_message.entry(detail.id).or_default().push(detail);
            }
            cursor = page.next;
        }
        for id in self.unreported.ids() {
            by_message.entry(id).or_default();
        }
        by_message
    }

    async fn list(self: &Rc<Self>, filter: &Filter, limit: u32) -> ShardAnswer {
        let mut answer = ShardAnswer::default();
        for (id, entries) in self.all_entries() {
            if !self.may_match(filter, id, &entries) {
                continue;
            }
            let wanted = answer.items.len() < limit as usize;
            // The sender stands in the spool only: it is read when it is asked for or shown.
            if !wanted && filter.sender.is_none() {
                answer.matched += 1;
                continue;
            }
            let Some(item) = self.item(id, &entries).await else { continue };
            if filter.sender.as_deref().is_some_and(|sender| !is_from(&item, sender)) {
                continue;
            }
            answer.matched += 1;
            if wanted {
                answer.items.push(item);
            }
        }
        answer.items.sort_by_key(|item| (item.received_at, item.id));
        answer
    }

    /// Whether recipients match what is known of them without reading the message.
    fn may_match(&self, filter: &Filter, id: MessageId, entries: &[EntryDetail]) -> bool {
        let queue = self.queue.borrow();
        let now = self.now();
        let domain = filter.domain.as_ref().map(|domain| domain.to_lowercase());
        if filter.state.is_none_or(|state| state == RecipientState::Unreported)
            && self.unreported.of(id).iter().any(|(recipient, _)| {
                let at = recipient.domain.as_ref();
                domain.as_deref().is_none_or(|d| at.is_some_and(|at| at.as_str() == d))
            })
        {
            return true;
        }
        entries.iter().any(|entry| {
            let key = queue.scheduled_key(entry.scheduled);
            domain.as_deref().is_none_or(|d| key.is_some_and(|key| key.domain.as_str() == d))
                && filter.state.is_none_or(|state| {
                    queue.why(now, entry.entry).is_some_and(|why| state_of(&why) == state)
                })
        })
    }

    /// Ids of the messages that a command is about.
    async fn select(self: &Rc<Self>, select: &Select) -> Vec<MessageId> {
        match select {
            Select::Id(id) if !self.is_open(*id) => Vec::new(),
            Select::Id(id) => vec![*id],
            Select::All => self.all_entries().into_keys().collect(),
            Select::Filter(filter) => {
                let mut chosen = Vec::new();
                for (id, entries) in self.all_entries() {
                    if !self.may_match(filter, id, &entries) {
                        continue;
                    }
                    if let Some(sender) = &filter.sender {
                        let Ok(message) = self.look_at(id).await else { continue };
                        if sender_of(&message) != sender {
                            continue;
                        }
                    }
                    chosen.push(id);
                }
                chosen
            }
        }
    }

    async fn retry(self: &Rc<Self>, select: &Select) -> ShardAnswer {
        let now = self.now();
        let by_domain = match select {
            Select::All => Some(Chosen::All),
            Select::Filter(Filter { domain: Some(domain), sender: None, state: None }) => {
                mail::Domain::parse(domain).ok().map(Chosen::Domain)
            }
            _ => None,
        };
        let mut answer = ShardAnswer::default();
        if let Some(chosen) = by_domain {
            let unreported = self.unreported.hasten(|_, domain| match &chosen {
                Chosen::Domain(wanted) => domain == Some(wanted),
                _ => true,
            });
            let queued = self.queue.borrow_mut().retry(now, &chosen);
            answer.matched = (queued + unreported) as u64;
        } else {
            for id in self.select(select).await {
                self.queue.borrow_mut().retry(now, &Chosen::Id(id));
                self.unreported.hasten(|given_up, _| given_up == id);
                answer.matched += 1;
            }
        }
        self.pump();
        answer
    }

    async fn hold(self: &Rc<Self>, select: &Select, reason: &str) -> ShardAnswer {
        let mut answer = ShardAnswer::default();
        for id in self.select(select).await {
            if self.entries_of(id).is_empty() {
                answer.error = Some(format!(
                    "{id}: it was given up and can't be held; it stays until the report about it \
                     can be written"
                ));
                continue;
            }
            let hold = Some(Some(Box::from(reason)));
            let position = match self.record_state(id, hold).await {
                Ok(position) => position,
                Err(error) => {
                    answer.error = Some(error);
                    continue;
                }
            };
            let now = self.now();
            self.queue.borrow_mut().hold(now, id);
            let reason: Arc<str> = Arc::from(reason);
            self.holds.borrow_mut().insert(id, Arc::clone(&reason));
            self.tell(id, Kind::Held { reason }, position).await;
            answer.matched += 1;
        }
        answer
    }

    async fn release_held(self: &Rc<Self>, select: &Select) -> ShardAnswer {
        let mut answer = ShardAnswer::default();
        for id in self.select(select).await {
            if !self.holds.borrow().contains_key(&id) {
                continue;
            }
            let position = match self.record_state(id, Some(None)).await {
                Ok(position) => position,
                Err(error) => {
                    answer.error = Some(error);
                    continue;
                }
            };
            self.holds.borrow_mut().remove(&id);
            let now = self.now();
            self.queue.borrow_mut().release(now, id);
            self.tell(id, Kind::Released, position).await;
            answer.matched += 1;
        }
        self.pump();
        answer
    }

    async fn remove(self: &Rc<Self>, select: &Select) -> ShardAnswer {
        let mut answer = ShardAnswer::default();
        for id in self.select(select).await {
            // Once it is removed it can't be read any more.
            let on = self.events.is_on();
            let message = if on { self.look_at(id).await.ok() } else { None };
            let now = self.now();
            // Recipients that are being tried leave when their attempt fails.
            let queued = self.queue.borrow_mut().remove(now, id);
            let mut removed: Vec<u32> = queued.iter().map(|entry| entry.recipient).collect();
            removed.extend(self.unreported.remove(id));
            if removed.is_empty() {
                answer.matched += u64::from(self.is_open(id));
                continue;
            }
            let at = self.world.time().wall();
            let recipients = removed.iter().map(|&index| (index, SettleKind::Removed)).collect();
            let record = Record::Settle(Settle { id, at, recipients });
            let done = self.spool.submit(id, vec![record]).await;
            crate::outcome::release(self, id, queued.len());
            self.metrics.removals.add(removed.len() as u64);
            self.holds.borrow_mut().remove(&id);
            if let Completion::Durable { position } = done {
                answer.matched += 1;
                if let Some(message) = message {
                    self.tell_of(&message, &removed, Kind::Removed, position);
                }
            } else {
                answer.error = Some(format!("{id}: the spool did not take the removal"));
            }
        }
        answer
    }

    async fn record_state(
        self: &Rc<Self>,
        id: MessageId,
        hold: Option<Option<Box<str>>>,
    ) -> Result<u64, String> {
        let state =
            State { id, hold, next_try: None, route_override: None, delay_notice_sent: None };
        match self.spool.submit(id, vec![Record::State(state)]).await {
            Completion::Durable { position } => Ok(position),
            other => Err(format!("{id}: the spool did not take the change: {other:?}")),
        }
    }

    async fn tell(self: &Rc<Self>, id: MessageId, kind: Kind, position: u64) {
        if !self.events.is_on() {
            return;
        }
        let Ok(message) = self.look_at(id).await else { return };
        self.tell_of(&message, &[], kind, position);
    }

    /// Emits an event, about `recipients` or the whole message, that derives from the record at
    /// `position`.
    fn tell_of(&self, message: &Message, recipients: &[u32], kind: Kind, position: u64) {
        let event = Event {
            at: self.world.time().wall(),
            message: Some(event_message(message)),
            recipients: crate::event::Recipients::from_slice(recipients),
            kind,
        };
        emit_at(&*self.events, event, message.id.log(), position);
    }

    /// A message as an operator sees it, as far as it can be read; `None` if it was settled
    /// meanwhile.
    async fn item(self: &Rc<Self>, id: MessageId, entries: &[EntryDetail]) -> Option<QueueItem> {
        let message = match self.look_at(id).await {
            Ok(message) => message,
            Err(_) if !self.is_open(id) => return None,
            Err(why) => return Some(self.unread_item(id, entries, &said_of(&why))),
        };
        let queued = entries.iter().filter_map(|entry| {
            let address = message.envelope.recipients.get(entry.recipient as usize)?;
            self.recipient(address.mailbox.to_string(), message.received_at, entry)
        });
        let recipients = queued.chain(self.given_up_of(id)).collect();
        let client = text_field(&message.meta, tag::CLIENT_ADDRESS).map(|address| {
            let helo = text_field(&message.meta, tag::CLIENT_EHLO).unwrap_or("");
            format!("{address} {helo}").trim_end().to_owned()
        });
        Some(QueueItem {
            id,
            sender: sender_of(&message).to_owned(),
            unreadable: None,
            body_bytes: message.facts.body_bytes,
            received_at: message.received_at,
            age_ms: self.age_ms(message.received_at),
            shard: self.number,
            held: self.holds.borrow().get(&id).map(ToString::to_string),
            client,
            recipients,
            recipients_count: u32::try_from(message.envelope.recipients.len()).unwrap_or(u32::MAX),
        })
    }

    /// What the queue knows of a message that can't be read; `why`: what the spool said.
    fn unread_item(&self, id: MessageId, entries: &[EntryDetail], why: &str) -> QueueItem {
        let given_up = self.unreported.of(id);
        let received_at = match (entries.first(), given_up.first()) {
            (Some(entry), _) => received_at(self, entry),
            (None, Some((given_up, _))) => given_up.received_at,
            (None, None) => self.world.time().wall(),
        };
        let queued = entries.iter().filter_map(|entry| {
            let address = {
                let queue = self.queue.borrow();
                unread_address(queue.scheduled_key(entry.scheduled).map(|key| &key.domain))
            };
            let mut recipient = self.recipient(address, received_at, entry)?;
            if recipient.state != RecipientState::Held {
                recipient.blocker.kind = BlockerKind::Spool;
                recipient.blocker.text = format!("its record, which can't be read: {why}");
            }
            Some(recipient)
        });
        let recipients: Vec<_> = queued.chain(self.given_up_of(id)).collect();
        QueueItem {
            id,
            sender: String::new(),
            unreadable: Some(why.to_owned()),
            body_bytes: 0,
            received_at,
            age_ms: self.age_ms(received_at),
            shard: self.number,
            held: self.holds.borrow().get(&id).map(ToString::to_string),
            client: None,
            recipients_count: u32::try_from(recipients.len()).unwrap_or(u32::MAX),
            recipients,
        }
    }

    fn age_ms(&self, received_at: Wall) -> u64 {
        let age = self.world.time().wall().since(received_at);
        u64::try_from(age.as_millis()).unwrap_or(u64::MAX)
    }

    fn recipient(
        &self,
        address: String,
        received_at: Wall,
        entry: &EntryDetail,
    ) -> Option<QueueRecipient> {
        let queue = self.queue.borrow();
        let why = queue.why(self.now(), entry.entry)?;
        let key = queue.scheduled_key(entry.scheduled)?;
        let active = self.active();
        let route = crate::route::route_of_key(&active.config, key);
        let until = Some(wall_of(self, why.deadline()));
        let state = state_of(&why);
        Some(QueueRecipient {
            index: entry.recipient,
            address,
            state,
            next_try: until.filter(|_| state == RecipientState::Scheduled),
            blocker: self.in_line(entry, &why, until).unwrap_or_else(|| control::Blocker {
                kind: kind_of(&why),
                text: why.to_string(),
                until,
            }),
            expires_at: give_up_at(self, received_at, entry),
            attempts: entry.attempts,
            last_failure: entry.last_failure.as_ref().map(ToString::to_string),
            route: route.map(|route| route.name.to_string()),
            next_hop: route.and_then(|route| route.next_hop()),
        })
    }

    /// What an entry waits for in a line of the process, if its queue waits there.
    fn in_line(
        &self,
        entry: &EntryDetail,
        why: &Blocker,
        until: Option<Wall>,
    ) -> Option<control::Blocker> {
        let Blocker::Resolving { domain, .. } = why else { return None };
        let lookups = &self.shared.lookups;
        let place = lookups.place(asker_of(self, entry.scheduled))?;
        let (before, all) = (place.before, lookups.parts().max);
        let text = format!("its turn to look up {domain}: {before} before it, {all} at once");
        Some(control::Blocker { kind: BlockerKind::Lookup, text, until })
    }

    /// The recipients of a message that were given up and not reported.
    fn given_up_of(&self, id: MessageId) -> impl Iterator<Item = QueueRecipient> {
        let given_up = self.unreported.of(id).into_iter();
        given_up.map(|(recipient, next_try)| self.given_up(recipient, next_try))
    }

    fn given_up(&self, recipient: GivenUp, next_try: Mono) -> QueueRecipient {
        // While the spool has it, the try is now.
        let next_try = wall_of(self, next_try.max(self.now()));
        let text = match (&recipient.unreadable, self.settles.pause()) {
            (Some(why), _) => {
                format!(
                    "its record, without which nobody can be told, and which can't be read: {why}"
                )
            }
            (None, Some(Pause::Poisoned)) => {
                "the spool, which can't be written: the report that it was given up can't be either"
                    .to_owned()
            }
            _ => "room in the spool for the report that it was given up".to_owned(),
        };
        QueueRecipient {
            index: recipient.index,
            address: recipient.address,
            state: RecipientState::Unreported,
            blocker: control::Blocker { kind: BlockerKind::Spool, text, until: Some(next_try) },
            expires_at: next_try,
            attempts: recipient.attempts,
            next_try: Some(next_try),
            last_failure: recipient.failure.as_ref().map(ToString::to_string),
            route: None,
            next_hop: None,
        }
    }
}

/// Entries looked at in one go.
const PAGE_ENTRIES: usize = 4096;

/// Of a message that can't be read nobody knows the sender.
fn is_from(item: &QueueItem, sender: &str) -> bool {
    item.unreadable.is_none() && item.sender == sender
}

fn sender_of(message: &Message) -> &str {
    message.envelope.reverse_path.as_ref().map_or("", Mailbox::as_str)
}

fn state_of(why: &Blocker) -> RecipientState {
    match why {
        Blocker::Held { .. } => RecipientState::Held,
        Blocker::InFlight { .. } => RecipientState::InFlight,
        Blocker::Scheduled { .. }
        | Blocker::Resolving { .. }
        | Blocker::ResolutionFailed { .. } => RecipientState::Scheduled,
        _ => RecipientState::Ready,
    }
}

fn kind_of(why: &Blocker) -> BlockerKind {
    match why {
        Blocker::Scheduled { .. } => BlockerKind::Time,
        Blocker::Resolving { .. } | Blocker::ResolutionFailed { .. } => BlockerKind::Resolving,
        Blocker::ConnectionSlots { .. } | Blocker::LeaseWait { .. } => BlockerKind::ConnectionSlot,
        Blocker::Opening { .. } => BlockerKind::Opening,
        Blocker::OpenBackoff { .. } => BlockerKind::Backoff,
        Blocker::Rate { .. } => BlockerKind::Rate,
        Blocker::Held { .. } => BlockerKind::Operator,
        Blocker::Paused { pause: queue::Pause::Stopping, .. } => BlockerKind::Shutdown,
        Blocker::Paused { .. } => BlockerKind::Spool,
        Blocker::InFlight { .. } => BlockerKind::Attempt,
        _ => BlockerKind::Turn,
    }
}
