//! Batches of settle and attempt records without a waiter, which share the next commit.

use crate::event::Event;
use mail::MessageId;
use queue::Pause;
use spool::Record;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Number of records that are submitted at once without waiting for an acceptance.
const GATHER_MAX: usize = 256;
/// Maximum number of recipients in a submit with several records, so that it fits into the smallest segment.
const GATHER_RECIPIENTS_MAX: usize = 16_384;

/// The kind of a batch. A full disk refuses advice but never a settle, so each kind is a submit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gathers {
    Settles,
    /// Attempts. Without them a restart retries too early.
    Advice,
}

/// The pending batch of one log.
#[derive(Debug, Default)]
pub(super) struct SettleBatch {
    pub(super) records: Vec<Record>,
    /// Recipients in the records.
    recipients_count: usize,
    /// Emitted when the records are durable.
    pub(super) events: Vec<Event>,
    /// Recipients delivered by the records.
    pub(super) delivered: u64,
}

/// The settle records of one shard that are not durable yet.
#[derive(Debug)]
pub(crate) struct Settles {
    gathered: RefCell<BTreeMap<(u8, Gathers), SettleBatch>>,
    /// Delivered recipients without a durable settle record.
    unsettled: Cell<u64>,
    unsettled_max: u64,
    /// Submits without a completion yet.
    under_way: Cell<u64>,
    poisoned: Cell<bool>,
    timer_runs: Cell<bool>,
}

impl Settles {
    /// With this shard's part of `unsettled_max`.
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

    /// Number of delivered recipients that a crash now would deliver again.
    pub(crate) fn unsettled(&self) -> u64 {
        self.unsettled.get()
    }

    /// Returns true if all records that a shutdown waits for are durable.
    pub(crate) fn is_quiet(&self) -> bool {
        self.unsettled.get() == 0
            && self.under_way.get() == 0
            && self.gathered.borrow().values().all(|gathered| gathered.records.is_empty())
    }

    /// Notes that the settle record of `delivered` recipients is durable.
    pub(crate) fn handle_durable(&self, delivered: u64) {
        self.unsettled.set(self.unsettled.get() - delivered);
    }

    /// The reason why egress must pause, if there is one.
    pub(crate) fn pause(&self) -> Option<Pause> {
        if self.poisoned.get() {
            Some(Pause::Poisoned)
        } else if self.unsettled.get() >= self.unsettled_max {
            Some(Pause::Unsettled)
        } else {
            None
        }
    }

    /// Notes that all logs permanently refuse writes: no delivery can be settled, so none may start.
    pub(super) fn poison(&self) {
        self.poisoned.set(true);
    }

    /// Returns true if all logs permanently refuse writes.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.get()
    }

    /// Counts delivered recipients with a settle record that is not durable yet.
    pub(super) fn count_unsettled(&self, delivered: u64) {
        self.unsettled.set(self.unsettled.get() + delivered);
    }

    /// Returns true if the batch must be submitted before `record` about `id` is added.
    pub(super) fn is_full_for(&self, id: MessageId, record: &Record) -> bool {
        let (gathers, recipients_count) = kind_of(record);
        let gathered = self.gathered.borrow();
        let before = gathered.get(&(id.log(), gathers)).map_or(0, |mine| mine.recipients_count);
        before > 0 && before + recipients_count > GATHER_RECIPIENTS_MAX
    }

    /// Adds `record` about `id` to the batch. Returns true if the batch is full.
    pub(super) fn add(
        &self,
        id: MessageId,
        record: Record,
        events: impl IntoIterator<Item = Event>,
        delivered: u64,
    ) -> bool {
        let (gathers, recipients_count) = kind_of(&record);
        let mut gathered = self.gathered.borrow_mut();
        let mine = gathered.entry((id.log(), gathers)).or_default();
        mine.records.push(record);
        mine.recipients_count += recipients_count;
        mine.events.extend(events);
        mine.delivered += delivered;
        mine.records.len() >= GATHER_MAX
    }

    /// Returns true if the caller must start the timer, because none runs.
    pub(super) fn start_timer(&self) -> bool {
        !self.timer_runs.replace(true)
    }

    /// Notes the end of the timer.
    pub(super) fn end_timer(&self) {
        self.timer_runs.set(false);
    }

    /// Counts a submit.
    pub(super) fn begin_submit(&self) {
        self.under_way.set(self.under_way.get() + 1);
    }

    /// Counts the completion of a submit.
    pub(super) fn end_submit(&self) {
        self.under_way.set(self.under_way.get() - 1);
    }

    /// Takes the pending batches, each for one submit.
    pub(super) fn take(&self) -> Vec<((u8, Gathers), SettleBatch)> {
        let mut gathered = self.gathered.borrow_mut();
        let full = gathered.iter_mut().filter(|(_, gathered)| !gathered.records.is_empty());
        full.map(|(key, gathered)| (*key, std::mem::take(gathered))).collect()
    }
}

/// The kind of batch for `record`, and its number of recipients.
fn kind_of(record: &Record) -> (Gathers, usize) {
    match record {
        Record::Settle(settle) => (Gathers::Settles, settle.recipients.len()),
        Record::Attempt(attempt) => (Gathers::Advice, attempt.recipients.len()),
        Record::State(_) | Record::Accept(_) => (Gathers::Advice, 0),
    }
}
