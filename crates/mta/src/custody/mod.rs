//! Responsibility for messages: from the commit that makes one durable to the record that settles its last recipient.

mod cache;
mod client;
mod held;
mod messages;
mod port;
mod settles;

pub(crate) use held::{Ended, accounts_of};
pub use port::{COMMIT_MAX, LogCondition, LogPort, REPORT_IDS, shard_of};

use crate::alert_reserve::QueuedAlerts;
use crate::event::Event;
use crate::message::Message;
use crate::seams::{Time, World};
use crate::services::Services;
use bytes::Bytes;
use client::SpoolClient;
use config::Config;
use held::HeldMessages;
use mail::MessageId;
use messages::Messages;
use queue::Pause;
use settles::{Gathers, SettleBatch, Settles};
use spool::record::State;
use spool::{BlobId, Completion, Record, Refusal, Request, Ticket};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time that a settle record waits for an acceptance to share its commit.
const GATHER: Duration = Duration::from_millis(5);

/// The records that make a message durable, with a `hold` if there is a reason.
fn records_of(message: &Message, hold: Option<&str>) -> Vec<Record> {
    let mut records = vec![Record::Accept(Box::new(message.accept_record()))];
    records.extend(hold.map(|reason| {
        Record::State(State {
            id: message.id,
            hold: Some(Some(Box::from(reason))),
            next_try: None,
            overrides: None,
            delay_notice_sent: None,
        })
    }));
    records
}

/// The messages of one shard that were accepted and are not settled.
pub(crate) struct Custody<W: World> {
    services: Rc<Services<W>>,
    client: Rc<SpoolClient>,
    settles: Settles,
    /// Access to their contents.
    pub(crate) messages: Messages<W>,
    /// Messages held by checks.
    pub(crate) held: HeldMessages,
    /// Alerts of this server.
    pub(crate) alerts: QueuedAlerts,
}

impl<W: World> Custody<W> {
    /// Creates the custody of a shard for these logs.
    pub(crate) fn new(
        services: &Rc<Services<W>>,
        ports: Vec<Arc<LogPort>>,
        config: &Config,
        shards: u16,
    ) -> Rc<Custody<W>> {
        let client = SpoolClient::new(services.number, ports);
        let held = HeldMessages::default();
        held.set_hold_for(config.spool.hold_for);
        Rc::new(Custody {
            services: Rc::clone(services),
            messages: Messages::new(services, &client, config, shards),
            settles: Settles::new(u64::from(config.spool.unsettled_max), shards),
            held,
            alerts: QueuedAlerts::new(&services.shared.alerts),
            client,
        })
    }

    /// Adopts a reloaded configuration.
    pub(crate) fn adopt(&self, config: &Config) {
        self.held.set_hold_for(config.spool.hold_for);
    }

    /// Frees a shard after all its tasks were dropped. See [`SpoolClient::abandon`].
    pub(crate) fn abandon(&self) {
        self.client.abandon();
    }

    /// Handles a completion from a commit thread.
    pub(crate) fn handle_completion(&self, ticket: Ticket, completion: Completion) {
        self.client.handle_completion(ticket, completion);
    }

    /// The reason why no message may be sent now, if there is one.
    pub(crate) fn obstacle(&self) -> Option<Pause> {
        self.settles.pause()
    }

    /// Returns true if all logs permanently refuse writes.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.settles.is_poisoned()
    }

    /// Number of delivered recipients that a crash now would deliver again.
    pub(crate) fn unsettled(&self) -> u64 {
        self.settles.unsettled()
    }

    /// Returns true if all records that a shutdown waits for are durable.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settles.is_quiet()
    }

    /// Allocates an id for a new message. `None` if no log has ids left.
    pub(crate) fn allocate_id(&self) -> Option<MessageId> {
        self.client.allocate_id(self.services.now())
    }

    /// Allocates an id for a report that becomes durable together with a record about `other`. `None` if its log has no
    /// ids left.
    pub(crate) fn allocate_id_beside(&self, other: MessageId) -> Option<MessageId> {
        self.client.allocate_id_beside(other)
    }

    /// Allocates a blob for the body of `id`.
    pub(crate) fn allocate_blob(&self, id: MessageId) -> BlobId {
        self.client.allocate_blob(id)
    }

    /// Appends to a blob.
    pub(crate) async fn append_blob(&self, id: MessageId, blob: BlobId, data: Bytes) -> Completion {
        self.client.request(id, |ticket| Request::BlobAppend { ticket, blob, data }).await
    }

    /// Makes a blob durable.
    pub(crate) async fn seal_blob(&self, id: MessageId, blob: BlobId) -> Completion {
        self.client.request(id, |ticket| Request::BlobSeal { ticket, blob }).await
    }

    /// Drops a blob that no record refers to.
    pub(crate) fn drop_blob(&self, id: MessageId, blob: BlobId) {
        self.client.drop_blob(id, blob);
    }

    /// Makes a message durable, with a `hold` for an operator if there is a reason. `done` is called on completion,
    /// even if the session has ended. Pending settles share the commit.
    pub(crate) fn accept(
        self: &Rc<Self>,
        message: &Message,
        hold: Option<&str>,
        done: impl FnOnce(Completion) + 'static,
    ) {
        self.flush_settles();
        self.client.submit_then(message.id, records_of(message, hold), done);
    }

    /// The same for several messages in one log, which become durable together, or not at all.
    pub(crate) fn accept_together<'m>(
        self: &Rc<Self>,
        messages: impl Iterator<Item = (&'m Message, Option<&'m str>)>,
        done: impl FnOnce(Completion) + 'static,
    ) {
        self.flush_settles();
        let (mut id, mut records) = (None, Vec::new());
        for (message, hold) in messages {
            id = id.or(Some(message.id));
            records.extend(records_of(message, hold));
        }
        if let Some(id) = id {
            self.client.submit_then(id, records, done);
        }
    }

    /// Makes `records` durable together. All must be about messages in the log of `id`.
    pub(crate) async fn submit(&self, id: MessageId, records: Vec<Record>) -> Completion {
        self.client.submit(id, records).await
    }

    /// Releases the memory and queue slots of `count` settled recipients.
    pub(crate) fn release(&self, id: MessageId, count: usize) {
        self.services.shared.queue_slots.give_back(count as u64);
        self.messages.settle(id, count);
        self.held.settle(id, count);
        self.alerts.settle(id, count);
    }

    /// Counts delivered recipients with a settle record that is not durable yet. At the limit sending pauses until some
    /// are settled.
    pub(crate) fn count_unsettled(&self, delivered: u64) {
        self.settles.count_unsettled(delivered);
    }

    /// Notes that the settle record of `delivered` recipients is durable.
    pub(crate) fn handle_durable(&self, delivered: u64) {
        self.settles.handle_durable(delivered);
    }

    /// Adds `record` about `id` to the pending batch. `events` are emitted once it is durable. `delivered` is the
    /// number of recipients delivered by this record.
    pub(crate) fn settle_later(
        self: &Rc<Self>,
        id: MessageId,
        record: Record,
        events: impl IntoIterator<Item = Event>,
        delivered: u64,
    ) {
        self.count_unsettled(delivered);
        if self.settles.is_full_for(id, &record) {
            self.flush_settles();
        }
        if self.settles.add(id, record, events, delivered) {
            self.flush_settles();
        } else if self.settles.start_timer() {
            let custody = Rc::clone(self);
            self.services.spawn(async move {
                let time = custody.services.world.time();
                time.sleep_until(time.now() + GATHER).await;
                custody.settles.end_timer();
                custody.flush_settles();
            });
        }
    }

    /// Submits the pending records. Called before each acceptance, so that both share a commit. They are separate
    /// submits: a full disk refuses the acceptance, never the settle.
    pub(crate) fn flush_settles(self: &Rc<Self>) {
        for ((log, gathers), gathered) in self.settles.take() {
            let SettleBatch { records, events, delivered, .. } = gathered;
            let custody = Rc::clone(self);
            self.settles.begin_submit();
            self.client.submit_then(MessageId::new(0, log, 0), records, move |completion| {
                custody.handle_settled((log, gathers), events, delivered, &completion);
            });
        }
    }

    fn handle_settled(
        &self,
        (log, gathers): (u8, Gathers),
        events: Vec<Event>,
        delivered: u64,
        completion: &Completion,
    ) {
        self.settles.end_submit();
        match completion {
            Completion::Durable { position } => {
                self.settles.handle_durable(delivered);
                for event in events {
                    self.services.emit_at(event, log, *position);
                }
            }
            // The attempt happened, although a restart will not know about this.
            Completion::Refused(refusal) if gathers == Gathers::Advice && is_passing(*refusal) => {
                for event in events {
                    self.services.events.emit(event);
                }
            }
            // The recipients stay unsettled and are retried after a restart.
            refused => {
                self.handle_refused(log, "cannot write settles", refused);
                if !self.settles.is_poisoned() {
                    // These are never settled. Sending from other logs need not wait for them.
                    self.settles.handle_durable(delivered);
                }
            }
        }
    }

    /// Handles a log's refusal to write, with `what` for the console. After a permanent failure no message of that log
    /// is sent. After the failure of all logs none is sent at all.
    pub(crate) fn handle_refused(&self, log: u8, what: &str, completion: &Completion) {
        let console = &self.services.console;
        if !matches!(completion, Completion::Refused(Refusal::Poisoned)) {
            console.error("spool", format_args!("{what} log={log} {completion:?}"));
            return;
        }
        if self.client.note_failed(log) {
            let takes_none = "the log accepts and sends no mail until a restart";
            console.error("spool", format_args!("{what}: {takes_none} log={log}"));
        }
        if self.client.have_all_failed() {
            self.settles.poison();
        }
    }
}

/// Returns true if the same write may succeed later.
fn is_passing(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Full | Refusal::Scarce)
}
