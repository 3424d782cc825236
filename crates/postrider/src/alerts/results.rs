//! Results of the deliveries of alerts, from the events of the shards. Off unless an alert is in the queue.

use crate::mutex::lock;
use mail::MessageId;
use mta::event::{Event, EventSink, Kind};
use mta::inbox::QueuedOwn;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::oneshot;

/// Maximum number of results that are kept while an alert is submitted and its id unknown.
const RECENT_MAX: usize = 4_096;

/// Waits for results.
#[derive(Debug, Default)]
pub(super) struct AlertResults {
    is_on: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Alerts without a known id.
    submitting: usize,
    /// Final results since: message, recipients, delivered.
    recent: Vec<(MessageId, usize, bool)>,
    open: BTreeMap<MessageId, Open>,
}

/// An alert in the queue.
#[derive(Debug)]
struct Open {
    left: usize,
    result: oneshot::Sender<bool>,
}

impl State {
    /// Counts final results of a message. The first delivered recipient decides, or the last one that fails.
    fn count(&mut self, id: MessageId, recipients: usize, is_delivered: bool) {
        let Some(open) = self.open.get_mut(&id) else { return };
        open.left = open.left.saturating_sub(recipients);
        if (is_delivered || open.left == 0)
            && let Some(open) = self.open.remove(&id)
        {
            let _ = open.result.send(is_delivered);
        }
    }
}

impl AlertResults {
    /// An alert is about to be submitted.
    pub(super) fn begin(&self) {
        lock(&self.state).submitting += 1;
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// The alert of [`AlertResults::begin`] is queued, or was refused. The receiver gets true once it is delivered,
    /// false if it failed.
    pub(super) fn submitted(&self, queued: Option<QueuedOwn>) -> Option<oneshot::Receiver<bool>> {
        let mut state = lock(&self.state);
        state.submitting = state.submitting.saturating_sub(1);
        let receiver = queued.map(|QueuedOwn { id, recipients }| {
            let (result, receiver) = oneshot::channel();
            state.open.insert(id, Open { left: recipients, result });
            for (of, count, is_delivered) in state.recent.clone() {
                if of == id {
                    state.count(of, count, is_delivered);
                }
            }
            receiver
        });
        if state.submitting == 0 {
            state.recent.clear();
        }
        self.update(&mut state);
        receiver
    }

    /// Turns events off if no alert is open. An alert without a waiter has timed out.
    fn update(&self, state: &mut State) {
        state.open.retain(|_, open| !open.result.is_closed());
        self.is_on.store(state.submitting > 0 || !state.open.is_empty(), Ordering::Relaxed);
    }
}

impl EventSink for AlertResults {
    fn emit(&self, event: Event) {
        let is_delivered = match event.kind {
            Kind::Delivered(_) | Kind::Relayed(_) => true,
            Kind::Failed(_) | Kind::Expired(_) | Kind::Removed => false,
            _ => return,
        };
        let Some(message) = &event.message else { return };
        let (id, recipients) = (message.id, event.recipients.len());
        let mut state = lock(&self.state);
        if state.submitting > 0 && state.recent.len() < RECENT_MAX {
            state.recent.push((id, recipients, is_delivered));
        }
        if state.open.contains_key(&id) {
            state.count(id, recipients, is_delivered);
            self.update(&mut state);
        }
    }

    fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use mta::event::EventMessage;

    const ID: MessageId = MessageId(7);

    fn removed(id: MessageId, recipients: &[u32]) -> Event {
        let message = EventMessage {
            id,
            position: None,
            envelope: None,
            received_at: Wall(0),
            body_bytes: 0,
            labels: None,
        };
        Event {
            at: Wall(0),
            message: Some(message),
            recipients: recipients.iter().copied().collect(),
            kind: Kind::Removed,
        }
    }

    #[test]
    fn result_is_found_whenever_it_comes() {
        let results = AlertResults::default();
        assert!(!results.is_on());
        results.begin();
        assert!(results.is_on());
        results.emit(removed(ID, &[0]));
        let mut early = results.submitted(Some(QueuedOwn { id: ID, recipients: 1 })).unwrap();
        assert_eq!(early.try_recv(), Ok(false));
        assert!(!results.is_on());
        results.begin();
        let mut late = results.submitted(Some(QueuedOwn { id: ID, recipients: 2 })).unwrap();
        results.emit(removed(MessageId(8), &[0, 1]));
        results.emit(removed(ID, &[1]));
        assert!(late.try_recv().is_err() && results.is_on());
        results.emit(removed(ID, &[0]));
        assert_eq!(late.try_recv(), Ok(false));
        assert!(!results.is_on());
        results.begin();
        assert!(results.submitted(None).is_none() && !results.is_on());
    }
}
