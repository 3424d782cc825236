//! Records that nobody waits for: settles and attempts gather here and join the next commit.

use crate::event::Event;
use mail::MessageId;
use queue::Pause;
use spool::Record;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// So many records go at once, with or without company.
const GATHER_MAX: usize = 256;
/// A submit of several records is about no more recipients than this, so that it fits into the
/// smallest segment.
const GATHER_RECIPIENTS_MAX: usize = 16_384;

/// What a submit does: a full disk refuses advice and never a settle, so each goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Gathers {
    Settles,
    /// Attempts: without them a restart tries early.
    Advice,
}

/// What gathers for one log.
#[derive(Debug, Default)]
pub(super) struct SettleBatch {
    pub(super) records: Vec<Record>,
    /// Recipients in them.
    recipients_count: usize,
    /// Emitted when the records are durable.
    pub(super) events: Vec<Event>,
    /// Recipients whose delivery the records tell of.
    pub(super) delivered: u64,
}

/// The settles of one shard on their way to the disk.
#[derive(Debug)]
pub(crate) struct Settles {
    gathered: RefCell<BTreeMap<(u8, Gathers), SettleBatch>>,
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
    pub(super) fn poison(&self) {
        self.poisoned.set(true);
    }

    /// Whether every log refuses to write.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.get()
    }

    /// Counts recipients that were delivered and whose settle is on its way.
    pub(super) fn count_unsettled(&self, delivered: u64) {
        self.unsettled.set(self.unsettled.get() + delivered);
    }

    /// Whether what gathers must be submitted before `record` about `id` is added.
    pub(super) fn is_full_for(&self, id: MessageId, record: &Record) -> bool {
        let (gathers, recipients_count) = kind_of(record);
        let gathered = self.gathered.borrow();
        let before = gathered.get(&(id.log(), gathers)).map_or(0, |mine| mine.recipients_count);
        before > 0 && before + recipients_count > GATHER_RECIPIENTS_MAX
    }

    /// Adds `record` about `id` to what gathers; whether it is enough for a submit.
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

    /// A timer is to be started for what gathers: none runs yet.
    pub(super) fn start_timer(&self) -> bool {
        !self.timer_runs.replace(true)
    }

    /// The timer has ended.
    pub(super) fn end_timer(&self) {
        self.timer_runs.set(false);
    }

    /// A submit is on its way.
    pub(super) fn begin_submit(&self) {
        self.under_way.set(self.under_way.get() + 1);
    }

    /// It was answered.
    pub(super) fn end_submit(&self) {
        self.under_way.set(self.under_way.get() - 1);
    }

    /// Takes what has gathered, each part for one submit.
    pub(super) fn take(&self) -> Vec<((u8, Gathers), SettleBatch)> {
        let mut gathered = self.gathered.borrow_mut();
        let full = gathered.iter_mut().filter(|(_, gathered)| !gathered.records.is_empty());
        full.map(|(key, gathered)| (*key, std::mem::take(gathered))).collect()
    }
}

/// What gathers together, and about how many recipients `record` is.
fn kind_of(record: &Record) -> (Gathers, usize) {
    match record {
        Record::Settle(settle) => (Gathers::Settles, settle.recipients.len()),
        Record::Attempt(attempt) => (Gathers::Advice, attempt.recipients.len()),
        Record::State(_) | Record::Accept(_) => (Gathers::Advice, 0),
    }
}
