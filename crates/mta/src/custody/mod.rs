//! Who answers for a message: from the commit that makes it durable to the record that settles its
//! last recipient.

mod cache;
mod client;
mod held;
mod messages;
mod port;
mod settles;

pub(crate) use held::{Ended, accounts_of};
pub use port::{COMMIT_MAX, LogCondition, LogPort, REPORT_IDS, shard_of};

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

/// How long a settle waits for an acceptance to travel with.
const GATHER: Duration = Duration::from_millis(5);

/// The messages of one shard that were acknowledged and are not settled.
pub(crate) struct Custody<W: World> {
    services: Rc<Services<W>>,
    client: Rc<SpoolClient>,
    settles: Settles,
    /// What can be read of them.
    pub(crate) messages: Messages<W>,
    /// Those that checks hold.
    pub(crate) held: HeldMessages,
}

impl<W: World> Custody<W> {
    /// For a shard with these ways to the logs.
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
            client,
        })
    }

    /// Follows a reload.
    pub(crate) fn adopt(&self, config: &Config) {
        self.held.set_hold_for(config.spool.hold_for);
    }

    /// Frees a shard all of whose tasks were dropped; see [`SpoolClient::abandon`].
    pub(crate) fn abandon(&self) {
        self.client.abandon();
    }

    /// Takes what came back from a commit thread.
    pub(crate) fn handle_completion(&self, ticket: Ticket, completion: Completion) {
        self.client.handle_completion(ticket, completion);
    }

    /// Why nothing may be sent for now, if it must not.
    pub(crate) fn obstacle(&self) -> Option<Pause> {
        self.settles.pause()
    }

    /// Whether every log refuses to write.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.settles.is_poisoned()
    }

    /// Delivered recipients that would be delivered again after a crash now.
    pub(crate) fn unsettled(&self) -> u64 {
        self.settles.unsettled()
    }

    /// Whether everything is on disk that a stop should wait for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.settles.is_quiet()
    }

    /// An id for a new message; `None` when no log has one left.
    pub(crate) fn allocate_id(&self) -> Option<MessageId> {
        self.client.allocate_id(self.services.now())
    }

    /// An id for a report that becomes durable together with a record about `other`; `None` when
    /// its log has none left.
    pub(crate) fn allocate_id_beside(&self, other: MessageId) -> Option<MessageId> {
        self.client.allocate_id_beside(other)
    }

    /// A name for a file of its own for the body of `id`.
    pub(crate) fn allocate_blob(&self, id: MessageId) -> BlobId {
        self.client.allocate_blob(id)
    }

    /// Appends to such a file.
    pub(crate) async fn append_blob(&self, id: MessageId, blob: BlobId, data: Bytes) -> Completion {
        self.client.request(id, |ticket| Request::BlobAppend { ticket, blob, data }).await
    }

    /// Makes such a file durable.
    pub(crate) async fn seal_blob(&self, id: MessageId, blob: BlobId) -> Completion {
        self.client.request(id, |ticket| Request::BlobSeal { ticket, blob }).await
    }

    /// Gives up such a file, that no record names.
    pub(crate) fn drop_blob(&self, id: MessageId, blob: BlobId) {
        self.client.drop_blob(id, blob);
    }

    /// Makes a message durable, and that it waits for an operator, if there is a reason to `hold`
    /// it; `done` is called then, whatever became of whoever asked. The settles that wait go with
    /// the same commit.
    pub(crate) fn accept(
        self: &Rc<Self>,
        message: &Message,
        hold: Option<&str>,
        done: impl FnOnce(Completion) + 'static,
    ) {
        let accept = Record::Accept(Box::new(message.accept_record()));
        let mut records = vec![accept];
        records.extend(hold.map(|reason| {
            Record::State(State {
                id: message.id,
                hold: Some(Some(Box::from(reason))),
                next_try: None,
                overrides: None,
                delay_notice_sent: None,
            })
        }));
        self.flush_settles();
        self.client.submit_then(message.id, records, done);
    }

    /// Makes `records`, all of messages in the log of `id`, durable together.
    pub(crate) async fn submit(&self, id: MessageId, records: Vec<Record>) -> Completion {
        self.client.submit(id, records).await
    }

    /// Gives back what `count` settled recipients of a message held in memory.
    pub(crate) fn release(&self, id: MessageId, count: usize) {
        self.services.shared.queue_slots.give_back(count as u64);
        self.messages.settle(id, count);
        self.held.settle(id, count);
    }

    /// Counts recipients that were delivered and whose settle is on its way. At the limit nothing
    /// more is sent until some of them are settled.
    pub(crate) fn count_unsettled(&self, delivered: u64) {
        self.settles.count_unsettled(delivered);
    }

    /// The settle of `delivered` recipients is durable.
    pub(crate) fn handle_durable(&self, delivered: u64) {
        self.settles.handle_durable(delivered);
    }

    /// Adds `record` about `id` to what gathers; `events` are emitted once it is durable.
    /// `delivered` counts the recipients of which it says that they were delivered.
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

    /// Submits what has gathered. Called before each acceptance, so that both travel in one
    /// commit (as submits of their own: a full disk refuses the acceptance, never the settle).
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
            // It happened all the same; only a restart will not know it.
            Completion::Refused(refusal) if gathers == Gathers::Advice && is_passing(*refusal) => {
                for event in events {
                    self.services.events.emit(event);
                }
            }
            // The recipients stay unsettled: after a restart they are tried again.
            refused => {
                self.handle_refused(log, "cannot write settles", refused);
                if !self.settles.is_poisoned() {
                    // These will never be settled, and what is in other logs need not wait for them.
                    self.settles.handle_durable(delivered);
                }
            }
        }
    }

    /// A log did not write; `what` for people. If it never will, nothing of it is sent any more, and
    /// nothing at all when that holds for all logs.
    pub(crate) fn handle_refused(&self, log: u8, what: &str, completion: &Completion) {
        let console = &self.services.console;
        if !matches!(completion, Completion::Refused(Refusal::Poisoned)) {
            console.error("spool", format_args!("{what} log={log} {completion:?}"));
            return;
        }
        if self.client.note_failed(log) {
            let takes_none = "the log takes no mail and sends none until a restart";
            console.error("spool", format_args!("{what}: {takes_none} log={log}"));
        }
        if self.client.have_all_failed() {
            self.settles.poison();
        }
    }
}

/// Whether the same may be written another time.
fn is_passing(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Full | Refusal::Scarce)
}
