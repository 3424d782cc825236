//! Starts a connection, or a worker, for a ready queue.

use super::slot::Slot;
use super::{Delivery, connection, local};
use crate::config::Channel;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure};
use queue::ReadyId;
use std::rc::Rc;
use std::sync::Arc;

/// Opens one more connection (or starts one more worker) for `ready`, whose slot is taken.
pub(crate) fn start_connection<W: World>(delivery: &Rc<Delivery<W>>, ready: ReadyId) {
    let Some(hop) = delivery.schedule.hop(ready) else {
        // Never: what the queue knows came with its hop, and is forgotten with it.
        let status = EnhancedStatus::new(4, 3, 0);
        let failure = Failure::local(Class::Transient, status, "the next hop is not known");
        let now = delivery.services.now();
        delivery.schedule.queue_mut().handle_open_failed(now, ready, Arc::new(failure));
        return;
    };
    let task = Rc::clone(delivery);
    delivery.services.spawn(async move {
        let slot = Slot::new(&task, ready);
        match hop.channel {
            Channel::Smtp(_) | Channel::Lmtp(_) | Channel::Mx(_) => {
                connection::run(task, slot, hop).await;
            }
            Channel::Maildir(_) | Channel::Discard => local::run(task, slot, hop).await,
        }
    });
}
