//! Recipients that an operator removed: settled without a report.

use super::Delivery;
use crate::event::{self, Event, Kind};
use crate::message::Message;
use crate::metrics::RecipientOutcome;
use crate::seams::World;
use mail::MessageId;
use spool::{Record, Settle, SettleKind};
use std::rc::Rc;

/// Settles recipients removed by an operator, with their event.
pub(crate) fn settle_removed<W: World>(
    delivery: &Rc<Delivery<W>>,
    message: &Message,
    indices: Vec<u32>,
) {
    let event = Event {
        at: delivery.services.wall(),
        message: Some(message.in_events()),
        recipients: event::Recipients::from_slice(&indices),
        kind: Kind::Removed,
    };
    settle_later_as_removed(delivery, message.id, indices, Some(event));
}

pub(crate) fn settle_later_as_removed<W: World>(
    delivery: &Rc<Delivery<W>>,
    id: MessageId,
    indices: Vec<u32>,
    event: Option<Event>,
) {
    delivery.services.metrics.recipients_done[RecipientOutcome::Removed].add(indices.len() as u64);
    let at = delivery.services.wall();
    let recipients = indices.into_iter().map(|index| (index, SettleKind::Removed)).collect();
    delivery.custody.settle_later(id, Record::Settle(Settle { id, at, recipients }), event, 0);
}
