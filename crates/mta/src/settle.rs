//! Records that nobody waits for: settles and attempts gather here and join the next commit.

use crate::event::{Event, EventSink, Position};
use crate::seams::{Spawn, Time, World};
use crate::shard::Shard;
use mail::MessageId;
use queue::Pause;
use spool::{Completion, Record, Refusal};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long a settle waits for an acceptance to travel with.
const GATHER: Duration = Duration::from_millis(5);
/// So many records go at once, with or without company.
const GATHER_MAX: usize = 256;
/// A submit of several records is about no more recipients than this, so that it fits into the
/// smallest segment.
const GATHER_RECIPIENTS_MAX: usize = 16_384;

/// What a submit does: a full disk refuses advice and never a settle, so each goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gathers {
    Settles,
    /// Attempts: without them a restart tries early.
    Advice,
}

/// What gathers for one log.
#[derive(Debug, Default)]
struct Gathered {
    records: Vec<Record>,
    /// Recipients in them.
    recipients_count: usize,
    /// Emitted when the records are durable.
    events: Vec<Event>,
    /// Recipients whose delivery the records tell of.
    delivered: u64,
}

/// The settles of one shard on their way to the disk.
#[derive(Debug)]
pub(crate) struct Settles {
    gathered: RefCell<BTreeMap<(u8, Gathers), Gathered>>,
    /// Delivered recipients whose settle is not durable yet.
    unsettled: Cell<u64>,
    unsettled_max: u64,
    /// Submits whose completion has not come yet.
    under_way: Cell<u64>,
    poisoned: Cell<bool>,
    timer_runs: Cell<bool>,
}

impl Settles {
    /// This shard's part of `unsettled_max`.
    pub(crate) fn new(unsettled_max: u64, shards: u16) -> Settles {
        Settles {
            gathered: RefCell::default(),
            unsettled: Cell::new(0),
            under_way: Cell::new(0),
            unsettled_max: (unsettled_max / u64::from(shards.max(1))).max(1),
            poisoned: Cell::new(false),
            timer_runs: Cell::new(false),
        }
    }

    /// Delivered recipients that would be delivered again after a crash now.
    pub(crate) fn unsettled(&self) -> u64 {
        self.unsettled.get()
    }

    /// Whether everything is on disk that a stop should wait for.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unsettled.get() == 0
            && self.under_way.get() == 0
            && self.gathered.borrow().values().all(|gathered| gathered.records.is_empty())
    }

    /// The settle of `delivered` recipients is durable.
    pub(crate) fn handle_durable(&self, delivered: u64) {
        self.unsettled.set(self.unsettled.get() - delivered);
    }

    /// Why egress must stand still, if it must.
    pub(crate) fn pause(&self) -> Option<Pause> {
        if self.poisoned.get() {
            Some(Pause::Poisoned)
        } else if self.unsettled.get() >= self.unsettled_max {
            Some(Pause::Unsettled)
        } else {
            None
        }
    }

    /// Every log refuses to write: nothing can be settled any more, so nothing may be sent.
    fn poison(&self) {
        self.poisoned.set(true);
    }

    /// Whether every log refuses to write.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.get()
    }
}

impl<W: World> Shard<W> {
    /// Counts recipients that were delivered and whose settle is on its way. At the limit egress
    /// stands still at once: connections at work may not pump before a slow sync has ended.
    pub(crate) fn count_unsettled(&self, delivered: u64) {
        let settles = &self.settles;
        settles.unsettled.set(settles.unsettled.get() + delivered);
        if delivered > 0 && settles.pause().is_some() {
            self.pause_if_needed();
        }
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
        let settles = &self.settles;
        let (gathers, recipients_count) = match &record {
            Record::Settle(settle) => (Gathers::Settles, settle.recipients.len()),
            Record::Attempt(attempt) => (Gathers::Advice, attempt.recipients.len()),
            Record::State(_) | Record::Accept(_) => (Gathers::Advice, 0),
        };
        let key = (id.log(), gathers);
        let mut gathered = settles.gathered.borrow_mut();
        let before = gathered.get(&key).map_or(0, |mine| mine.recipients_count);
        if before > 0 && before + recipients_count > GATHER_RECIPIENTS_MAX {
            drop(gathered);
            self.flush_settles();
            gathered = settles.gathered.borrow_mut();
        }
        let mine = gathered.entry(key).or_default();
        mine.records.push(record);
        mine.recipients_count += recipients_count;
        mine.events.extend(events);
        mine.delivered += delivered;
        let full = mine.records.len() >= GATHER_MAX;
        drop(gathered);
        if full {
            self.flush_settles();
        } else if !settles.timer_runs.replace(true) {
            let shard = Rc::clone(self);
            self.world.spawn().spawn(async move {
                let time = shard.world.time();
                time.sleep_until(time.now() + GATHER).await;
                shard.settles.timer_runs.set(false);
                shard.flush_settles();
            });
        }
    }

    /// Submits what has gathered. Called before each acceptance, so that both travel in one
    /// commit (as submits of their own: a full disk refuses the acceptance, never the settle).
    pub(crate) fn flush_settles(self: &Rc<Self>) {
        let mut gathered = self.settles.gathered.borrow_mut();
        for (&(log, gathers), gathered) in
            gathered.iter_mut().filter(|(_, g)| !g.records.is_empty())
        {
            let Gathered { records, events, delivered, .. } = std::mem::take(gathered);
            let id = MessageId::new(0, log, 0);
            let shard = Rc::clone(self);
            let under_way = &self.settles.under_way;
            under_way.set(under_way.get() + 1);
            self.spool.submit_then(id, records, move |completion| {
                shard.handle_settled((log, gathers), events, delivered, &completion);
            });
        }
    }

    fn handle_settled(
        self: &Rc<Self>,
        (log, gathers): (u8, Gathers),
        events: Vec<Event>,
        delivered: u64,
        completion: &Completion,
    ) {
        let under_way = &self.settles.under_way;
        under_way.set(under_way.get() - 1);
        match completion {
            Completion::Durable { position } => {
                self.settles.handle_durable(delivered);
                for event in events {
                    emit_at(&*self.events, event, log, *position);
                }
            }
            // It happened all the same; only a restart will not know it.
            Completion::Refused(refusal) if gathers == Gathers::Advice && is_passing(*refusal) => {
                for event in events {
                    self.events.emit(event);
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
    /// egress stands still when that holds for all logs.
    pub(crate) fn handle_refused(&self, log: u8, what: &str, completion: &Completion) {
        if !matches!(completion, Completion::Refused(Refusal::Poisoned)) {
            self.console.error("spool", format_args!("{what} log={log} {completion:?}"));
            return;
        }
        if self.spool.note_failed(log) {
            self.console.error(
                "spool",
                format_args!(
                    "{what}: the log takes no mail and sends none until a restart log={log}"
                ),
            );
        }
        if self.spool.have_all_failed() {
            self.settles.poison();
        }
    }
}

/// Whether the same may be written another time.
fn is_passing(refusal: Refusal) -> bool {
    matches!(refusal, Refusal::Full | Refusal::Scarce)
}

/// Emits `event` with the position of the record it derives from.
pub(crate) fn emit_at(sink: &dyn EventSink, mut event: Event, log: u8, position: u64) {
    if let Some(message) = &mut event.message {
        message.position = Some(Position { log, sequence: position });
    }
    sink.emit(event);
}
