//! Starts a channel on a slot of a ready queue, and keeps its failed dialogues.

use super::{Delivery, Slot};
use crate::control::FailedDialogue;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure, Wall};
use queue::ReadyId;
use std::rc::Rc;
use std::sync::Arc;

/// Opens one more connection (or starts one more worker) for `ready`; its slot is already reserved.
pub(crate) fn start_connection<W: World>(delivery: &Rc<Delivery<W>>, ready: ReadyId) {
    let hop = delivery.schedule.hop(ready);
    let channel = hop.as_ref().and_then(|hop| delivery.channel(hop.channel_name()));
    let (Some(hop), Some(channel)) = (hop, channel) else {
        // Unreachable: the queue gets a hop together with its ready queue, and each key of the configuration has a
        // channel.
        let status = EnhancedStatus::new(4, 3, 0);
        let failure = Failure::local(Class::Transient, status, "unknown next hop");
        let now = delivery.services.now();
        delivery.schedule.queue_mut().handle_open_failed(now, ready, Arc::new(failure));
        return;
    };
    delivery.services.run(channel.run(Slot::new(delivery, ready, hop)));
}

impl<W: World> Slot<W> {
    /// Keeps the last failed dialogue with the next hop, which `queue why` shows. The closure gets the next hop's name and
    /// the time.
    pub fn keep_dialogue(&self, dialogue: impl FnOnce(&str, Wall) -> FailedDialogue) {
        let dialogue = {
            let queue = self.delivery.schedule.queue();
            let Some(key) = queue.ready_key(self.ready) else { return };
            dialogue(&key.next_hop, self.wall())
        };
        self.delivery.services.shared.dialogues.keep(dialogue);
    }
}
