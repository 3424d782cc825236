//! Moves messages to another route, pool, campaign or priority on an operator's command.
//!
//! A message is moved as a whole and durably: the spool stores the overrides, and then the entries are transferred.
//! Recipients in flight stay in their queue, and follow the rest at the next start.

use super::change::{SelectedRecipients, by_message};
use super::reading::{ReadAhead, Unread};
use super::tally::CountedMessages;
use super::walk::{CommandReply, MessageSelection, Operator};
use crate::control::Select;
use crate::event::{Event, Kind, Recipients};
use crate::message::Message;
use crate::overrides::Overrides;
use crate::seams::World;
use crate::steering::is_name;
use mail::{MessageId, Priority};
use queue::{EntryId, Glance, GlanceState, Transferred};
use spool::{Completion, LoadError, Record, State};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The overrides. `None` removes all.
pub(crate) type Order = Option<Overrides>;

/// The consequence of a message that can't be read, for the operator.
const UNREAD: &str = "and it has the settings to change";

/// A message to be moved.
struct Moving {
    message: Rc<Message>,
    /// One of its recipients.
    entry: EntryId,
    overrides: Overrides,
}

impl<W: World> Operator<W> {
    /// Checks that a command is valid and that its route and pool exist.
    pub(crate) fn check_order(&self, to: Overrides, undo: bool) -> Result<Order, String> {
        match (undo, to.is_empty()) {
            (true, true) => return Ok(None),
            (true, false) => return Err("undo excludes all other choices".to_owned()),
            (false, true) => {
                return Err("name a route, pool, campaign or priority".to_owned());
            }
            (false, false) => {}
        }
        let active = self.router.active();
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        if let Some(route) = named(&to.route)
            && active.config.route_named(&route).is_none()
        {
            return Err(format!("unknown route \"{route}\""));
        }
        if let Some(pool) = named(&to.pool)
            && active.config.pool_named(&pool).is_none()
        {
            return Err(format!("unknown pool \"{pool}\""));
        }
        if let Some(campaign) = named(&to.campaign)
            && !is_name(&campaign)
        {
            let rule = "1 to 128 printable characters, without < and >";
            return Err(format!("\"{campaign}\" is not a campaign name: {rule}"));
        }
        match to.priority {
            Some(priority) if Priority::new(priority).is_none() => {
                Err(format!("{priority} is not a priority: -9 to 9"))
            }
            _ => to.to_text().map(|_| Some(to)).map_err(str::to_owned),
        }
    }

    /// Moves messages. Returns the error, if any.
    pub(crate) async fn move_to(
        self: &Rc<Self>,
        select: Select,
        order: &Order,
        answer: &CommandReply,
    ) -> Option<String> {
        let (mut reading, mut unread) = (ReadAhead::default(), Unread::default());
        let filter = match MessageSelection::from(select) {
            MessageSelection::One(id) => {
                let found = by_message(self.glances_of(id).await);
                let context = (&mut reading, &mut unread);
                let moved = self.move_these(found, order, context, answer).await;
                return moved.err().or_else(|| unread.sentence(UNREAD));
            }
            MessageSelection::Matching(filter) => *filter,
        };
        let mut walk = self.walk(filter, answer);
        let mut seen = CountedMessages::default();
        while let Some(mut found) = self.next_piece(&mut walk, answer).await {
            // The remaining recipients of the message are moved with the first.
            found.retain(|glance| seen.is_new(glance));
            let found = by_message(found);
            let context = (&mut reading, &mut unread);
            if let Err(error) = self.move_these(found, order, context, answer).await {
                return Some(error);
            }
        }
        unread.sentence(UNREAD)
    }

    async fn move_these(
        self: &Rc<Self>,
        found: SelectedRecipients,
        order: &Order,
        (reading, unread): (&mut ReadAhead, &mut Unread),
        answer: &CommandReply,
    ) -> Result<(), String> {
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() && !answer.is_unwanted() {
            let batch: Vec<_> = found.by_ref().take(reading.count()).collect();
            let ids: Vec<MessageId> = batch.iter().map(|(id, _)| *id).collect();
            let read = self.custody.messages.peek_all(&ids).await;
            reading.note(&read);
            let moving = self.moving_of(batch, read, order, unread, answer);
            self.move_batch(moving, answer).await?;
            answer.progress(self.services.now());
        }
        Ok(())
    }

    /// Selects the messages to be moved: not those with the same overrides already, nor those with all recipients in
    /// flight.
    fn moving_of(
        &self,
        batch: Vec<(MessageId, Vec<Glance>)>,
        read: Vec<Result<Rc<Message>, LoadError>>,
        order: &Order,
        unread: &mut Unread,
        answer: &CommandReply,
    ) -> Vec<Moving> {
        let now = self.services.now();
        let mut moving = Vec::new();
        for ((id, glances), message) in batch.into_iter().zip(read) {
            let Some(entry) = glances.first().map(|glance| glance.entry) else { continue };
            let Some(message) = unread.sort(id, message) else { continue };
            let before = message.overrides.as_deref().cloned().unwrap_or_default();
            let overrides = order.as_ref().map(|to| before.and(to)).unwrap_or_default();
            let all = self.schedule.queue().glances_of(now, entry);
            let flying = all.iter().filter(|g| g.state == GlanceState::InFlight).count();
            if before == overrides {
                answer.count(|tally| tally.messages += 1);
            } else if flying == all.len() {
                answer.count(|tally| tally.in_flight += flying as u64);
            } else {
                moving.push(Moving { message, entry, overrides });
            }
        }
        moving
    }

    async fn move_batch(&self, moving: Vec<Moving>, answer: &CommandReply) -> Result<(), String> {
        let mut by_log: BTreeMap<u8, (Vec<Record>, Vec<Moving>)> = BTreeMap::new();
        for moving in moving {
            let id = moving.message.id;
            let text = moving.overrides.to_text().map_err(|error| format!("{id}: {error}"))?;
            let record = Record::State(State {
                id,
                hold: None,
                next_try: None,
                overrides: Some(text.map(String::into_boxed_str)),
                delay_notice_sent: None,
            });
            let (records, of_log) = by_log.entry(id.log()).or_default();
            records.push(record);
            of_log.push(moving);
        }
        for (log, (records, moving)) in by_log {
            match self.custody.submit(MessageId::new(0, log, 0), records).await {
                Completion::Durable { position } => {
                    moving.into_iter().for_each(|one| self.apply_move(one, position, answer));
                }
                other => return Err(format!("the spool could not record the move: {other:?}")),
            }
        }
        Ok(())
    }

    /// The spool has stored the overrides: transfers the entries.
    fn apply_move(&self, moving: Moving, position: u64, answer: &CommandReply) {
        let Moving { message, entry, overrides } = moving;
        let id = message.id;
        self.custody.messages.forget(id);
        let glances = self.schedule.queue().glances_of(self.services.now(), entry);
        let entries = glances.iter().map(|glance| glance.entry);
        let transferred = self.schedule.transfer(&message, &overrides, entries);
        let count = |came| transferred.iter().filter(|one| **one == came).count() as u64;
        answer.count(|tally| {
            tally.messages += u64::from(count(Transferred::Done) > 0);
            tally.recipients += count(Transferred::Done);
            tally.in_flight += count(Transferred::InFlight);
        });
        if self.services.events.is_on() && count(Transferred::Done) > 0 {
            let message = message.in_events_with(Some(&overrides));
            let event = Event {
                at: self.services.wall(),
                message: Some(message),
                recipients: Recipients::new(),
                kind: Kind::Moved(Box::new(overrides)),
            };
            self.services.emit_at(event, id.log(), position);
        }
    }
}
