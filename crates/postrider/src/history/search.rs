//! A search for messages: events and queue items go in, one row for each recipient comes out.

use super::terms::Terms;
use super::{EventLine, write_fact};
use mail::{MessageId, Wall};
use mta::control::{QueueItem, RecipientState};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Maximum number of recipients that a search keeps while it reads. Beyond it the oldest messages are dropped.
pub(crate) const KEPT_RECIPIENTS_MAX: usize = 100_000;

/// The present state of a recipient.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FoundRow {
    /// Time of acceptance, or of the rejection.
    pub(crate) received_at: String,
    /// The message; none for a rejection at intake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sender: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) recipient: Option<String>,
    #[serde(flatten)]
    state: State,
}

/// The last event of a recipient, or its state in the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct State {
    /// Kind of the last event, or a state in the queue.
    state: String,
    /// Time of that event.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_hop: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_try: Option<String>,
}

impl State {
    fn of(line: &EventLine) -> State {
        State {
            state: line.event.clone(),
            time: Some(line.time.clone()),
            client: line.client.clone().filter(|_| line.event == "refused"),
            next_hop: line.next_hop.clone(),
            attempts: line.attempts,
            status: line.status.clone(),
            reply: line.reply.clone(),
            reason: line.reason.clone().filter(|_| line.reply.is_none()),
            waits_for: None,
            next_try: line.next_try.clone(),
        }
    }

    fn is_final(&self) -> bool {
        matches!(
            self.state.as_str(),
            "delivered" | "relayed" | "failed" | "expired" | "removed" | "discarded" | "refused"
        )
    }
}

impl FoundRow {
    /// The row in one line for people.
    pub(crate) fn text(&self) -> String {
        let mut text = self.received_at.clone();
        let _ = write!(text, " {:<10}", self.state.state);
        let address = |text: &Option<String>| text.as_ref().map(|text| format!("<{text}>"));
        let state = &self.state;
        let facts = [
            ("id", self.id.clone()),
            ("from", address(&self.sender)),
            ("to", address(&self.recipient)),
            ("at", state.time.clone().filter(|time| *time != self.received_at)),
            ("client", state.client.clone()),
            ("next_hop", state.next_hop.clone()),
            ("attempts", state.attempts.map(|n| n.to_string())),
            ("status", state.status.clone()),
            ("reply", state.reply.clone()),
            ("reason", state.reason.clone()),
            ("waits_for", state.waits_for.clone()),
            ("next_try", state.next_try.clone()),
        ];
        for (key, value) in facts {
            if let Some(value) = value {
                write_fact(&mut text, key, &value);
            }
        }
        text
    }
}

/// A message that suits the terms about messages.
#[derive(Debug, Default)]
struct FoundMessage {
    sender: Option<String>,
    recipients: BTreeMap<u32, FoundRecipient>,
    /// Its rejections at intake have one number each, and no message.
    is_refusal: bool,
}

#[derive(Debug)]
struct FoundRecipient {
    address: Option<String>,
    state: State,
    /// An attempt suited the terms about route and next hop.
    hop_suits: bool,
    is_queued: bool,
}

/// The state of a search.
#[derive(Debug)]
pub(crate) struct Search {
    terms: Terms,
    kept_max: usize,
    /// By time of acceptance, so that the oldest is dropped first.
    found: BTreeMap<(Wall, u64), FoundMessage>,
    /// Time of acceptance of the messages in `found`.
    times: BTreeMap<MessageId, Wall>,
    recipients: usize,
    refusals: u64,
    dropped: u64,
}

impl Search {
    pub(crate) fn new(terms: Terms) -> Search {
        Search {
            terms,
            kept_max: KEPT_RECIPIENTS_MAX,
            found: BTreeMap::new(),
            times: BTreeMap::new(),
            recipients: 0,
            refusals: 0,
            dropped: 0,
        }
    }

    pub(crate) fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Takes an event. Events of a message come in their order.
    pub(crate) fn handle_event(&mut self, line: &EventLine) {
        if line.event == "refused" {
            return self.handle_refusal(line);
        }
        let (Some(id), Some(received_at)) = (line.id(), line.received_at()) else { return };
        let key = match self.times.get(&id) {
            Some(at) => (*at, id.0),
            None if self.begins(id, received_at, line) => (received_at, id.0),
            None => return,
        };
        let (terms, found) = (&self.terms, self.found.entry(key).or_default());
        let before = found.recipients.len();
        if line.sender.is_some() {
            found.sender.clone_from(&line.sender);
        }
        if line.event == "received" {
            let all = line.recipients.iter().zip(0..);
            found.recipients = all
                .filter(|(address, _)| {
                    terms.suit_addresses(line.sender.as_deref(), Some(address.as_str()))
                })
                .map(|(address, n)| (n, FoundRecipient::new(Some(address.clone()), line, terms)))
                .collect();
        } else if let Some(index) = line.recipient_index {
            found.handle_step(index, line, terms);
        } else if !line.event.starts_with("dsn") {
            found.handle_message_step(line);
        }
        let after = found.recipients.len();
        if after == 0 {
            self.found.remove(&key);
            self.times.remove(&id);
        } else {
            self.times.insert(id, key.0);
        }
        self.recipients = (self.recipients + after).saturating_sub(before);
        self.drop_oldest();
    }

    /// Returns true if an event of an unknown message may begin a row.
    fn begins(&self, id: MessageId, received_at: Wall, line: &EventLine) -> bool {
        let has_reception = matches!(line.event.as_str(), "received" | "discarded");
        self.terms.suit_message(id, line.sender.as_deref(), received_at)
            && match has_reception {
                true => self.terms.suit_reception(line),
                // Its `received` is in a file that is gone: the client and the header are unknown.
                false => line.recipient_index.is_some() && !self.terms.need_reception(),
            }
    }

    fn handle_refusal(&mut self, line: &EventLine) {
        let Some(at) = line.at().filter(|_| self.terms.suit_refusal(line)) else { return };
        let recipient = FoundRecipient::new(line.recipient.clone(), line, &self.terms);
        // Numbers of rejections count from the end, those of messages are small.
        self.refusals += 1;
        let refusal = FoundMessage {
            sender: line.sender.clone(),
            recipients: BTreeMap::from([(0, recipient)]),
            is_refusal: true,
        };
        if self.found.insert((at, u64::MAX - self.refusals), refusal).is_none() {
            self.recipients += 1;
        }
        self.drop_oldest();
    }

    fn drop_oldest(&mut self) {
        while self.recipients > self.kept_max {
            let Some(((_, id), found)) = self.found.pop_first() else { return };
            self.times.remove(&MessageId(id));
            self.recipients = self.recipients.saturating_sub(found.recipients.len());
            self.dropped += 1;
        }
    }

    /// Takes a message that is in the queue now.
    pub(crate) fn handle_item(&mut self, item: &QueueItem) {
        let key = match self.times.get(&item.id) {
            Some(at) => (*at, item.id.0),
            None if self.terms.suit_item(item) => (item.received_at, item.id.0),
            None => return,
        };
        let (terms, found) = (&self.terms, self.found.entry(key).or_default());
        let before = found.recipients.len();
        found.sender.get_or_insert_with(|| item.sender.clone());
        for recipient in &item.recipients {
            let known = found.recipients.get(&recipient.index);
            if known.is_none() && !terms.suit_queued(&item.sender, recipient) {
                continue;
            }
            let state = match recipient.state {
                RecipientState::Held => "held",
                RecipientState::InFlight => "in_flight",
                RecipientState::Unreported => "failed",
                _ if recipient.attempts > 0 => "deferred",
                _ => "queued",
            };
            let state = State {
                state: state.to_owned(),
                next_hop: recipient.next_hop.clone(),
                attempts: Some(recipient.attempts),
                reason: recipient.last_failure.clone(),
                waits_for: Some(recipient.blocker.text.clone()),
                next_try: recipient.next_try.map(|at| at.to_string()),
                ..State::default()
            };
            let (route, hop) = (recipient.route.as_deref(), recipient.next_hop.as_deref());
            let hop_suits =
                terms.suit_hop(route, hop) || known.is_some_and(|known| known.hop_suits);
            let address = Some(recipient.address.clone());
            let queued = FoundRecipient { address, state, hop_suits, is_queued: true };
            found.recipients.insert(recipient.index, queued);
        }
        let after = found.recipients.len();
        if after == 0 {
            self.found.remove(&key);
        } else {
            self.times.insert(item.id, key.0);
        }
        self.recipients = (self.recipients + after).saturating_sub(before);
        self.drop_oldest();
    }

    /// Ends the search: the newest `limit` rows, oldest first, with the number of all that were found. The last value is
    /// true if there may be more, because the search dropped some.
    pub(crate) fn finish(self, limit: usize) -> (Vec<FoundRow>, usize, bool) {
        let terms = &self.terms;
        let rows = self.found.iter().flat_map(|((at, id), found)| {
            let suiting = found.recipients.values().filter(move |recipient| recipient.suits(terms));
            suiting.map(move |recipient| FoundRow {
                received_at: at.to_string(),
                id: (!found.is_refusal).then(|| MessageId(*id).to_string()),
                sender: found.sender.clone(),
                recipient: recipient.address.clone(),
                state: recipient.state.clone(),
            })
        });
        let mut rows: Vec<_> = rows.collect();
        let count = rows.len();
        rows.drain(..count.saturating_sub(limit));
        (rows, count, self.dropped > 0)
    }
}

impl FoundMessage {
    /// An event of one recipient.
    fn handle_step(&mut self, index: u32, line: &EventLine, terms: &Terms) {
        if let Some(recipient) = self.recipients.get_mut(&index) {
            recipient.state = State::of(line);
            recipient.hop_suits |= terms.suit_hop(line.route.as_deref(), line.next_hop.as_deref());
        } else if terms.suit_addresses(self.sender.as_deref(), line.recipient.as_deref()) {
            let recipient = FoundRecipient::new(line.recipient.clone(), line, terms);
            self.recipients.insert(index, recipient);
        }
        // No event follows a final one.
        if self
            .recipients
            .get(&index)
            .is_some_and(|recipient| recipient.state.is_final() && !recipient.suits(terms))
        {
            self.recipients.remove(&index);
        }
    }

    /// An event of the message, for example a hold.
    fn handle_message_step(&mut self, line: &EventLine) {
        for recipient in self.recipients.values_mut().filter(|known| !known.state.is_final()) {
            recipient.state.state.clone_from(&line.event);
            recipient.state.time = Some(line.time.clone());
            recipient.state.reason.clone_from(&line.reason);
        }
    }
}

impl FoundRecipient {
    fn new(address: Option<String>, line: &EventLine, terms: &Terms) -> FoundRecipient {
        FoundRecipient {
            address,
            state: State::of(line),
            hop_suits: terms.suit_hop(line.route.as_deref(), line.next_hop.as_deref()),
            is_queued: false,
        }
    }

    /// Terms about its fate.
    fn suits(&self, terms: &Terms) -> bool {
        self.hop_suits && terms.suit_status(&self.state.state, self.is_queued)
    }
}

#[cfg(test)]
mod tests;
