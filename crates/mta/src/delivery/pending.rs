//! Results that wait for results of further recipients of the same message.

use super::unreported::ReportKey;
use super::verdict::RecipientResult;
use crate::message::Message;
use mail::{MessageId, Mono, Wall};
use queue::EntryId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// Wait for results of recipients that are about to be tried.
pub(super) const QUIET: Duration = Duration::from_secs(2);
/// Maximum total wait, even if other recipients are in a slow transaction.
const LONGEST: Duration = Duration::from_secs(30);

/// The gathered results of one shard.
#[derive(Debug, Default)]
pub(crate) struct DsnBatcher {
    open: RefCell<BTreeMap<MessageId, OpenDsnBatch>>,
    next_number: Cell<u64>,
    /// Reports in progress, until their records are durable.
    busy: Cell<usize>,
    /// Paused reports.
    paused: Cell<usize>,
}

/// Results of one message that wait for more.
#[derive(Debug)]
struct OpenDsnBatch {
    gathered: DsnBatch,
    sibling: Option<EntryId>,
    first: Mono,
    due: Mono,
    retry_now: Rc<Notify>,
}

/// Results for one report.
#[derive(Debug)]
pub(super) struct DsnBatch {
    pub(super) key: ReportKey,
    /// If it is in memory.
    pub(super) message: Option<Rc<Message>>,
    pub(super) judged: Vec<RecipientResult>,
}

impl DsnBatcher {
    /// Wakes all batches, to be written now.
    pub(crate) fn retry_all_now(&self) {
        for open in self.open.borrow().values() {
            open.retry_now.notify_one();
        }
    }

    /// Returns true if no report is in progress, except paused ones.
    pub(crate) fn is_quiet(&self) -> bool {
        self.busy.get() == 0 && self.open.borrow().is_empty()
    }

    /// Counts a report in progress: shutdown waits for it.
    pub(super) fn begin(&self) {
        self.busy.set(self.busy.get() + 1);
    }

    /// Counts the end of a report.
    pub(super) fn end(&self) {
        self.busy.set(self.busy.get() - 1);
    }

    /// Counts a report as paused: shutdown does not wait for it.
    pub(super) fn pause(&self) {
        self.end();
        self.paused.set(self.paused.get() + 1);
    }

    /// Counts a paused report as in progress.
    pub(super) fn go_on(&self) {
        self.begin();
        self.paused.set(self.paused.get() - 1);
    }

    /// The number of paused reports.
    pub(super) fn paused(&self) -> usize {
        self.paused.get()
    }

    /// Adds results to the message's batch. Returns the batch's notifier, and true if the batch is new.
    pub(super) fn add(
        &self,
        now: Mono,
        wait: Duration,
        id: MessageId,
        new: NewResults<'_>,
    ) -> (ReportKey, Mono, Rc<Notify>, bool) {
        let mut open = self.open.borrow_mut();
        let has_begun = !open.contains_key(&id);
        let mine = open.entry(id).or_insert_with(|| {
            let number = self.next_number.get();
            self.next_number.set(number + 1);
            OpenDsnBatch {
                gathered: DsnBatch { key: (id, number), message: None, judged: Vec::new() },
                sibling: None,
                first: now,
                due: now,
                retry_now: Rc::default(),
            }
        });
        // Content that was dropped from memory is read again when the report is written.
        let whole = new.message.filter(|message| !message.is_let_go());
        mine.gathered.message = mine.gathered.message.take().or_else(|| whole.cloned());
        mine.gathered.judged.extend(new.judged);
        mine.sibling = new.sibling;
        mine.due = mine.due.max(now + wait).min(mine.first + LONGEST);
        (mine.gathered.key, mine.due, Rc::clone(&mine.retry_now), has_begun)
    }

    pub(super) fn take(&self, key: ReportKey) -> Option<DsnBatch> {
        let mut open = self.open.borrow_mut();
        open.get(&key.0).filter(|mine| mine.gathered.key == key)?;
        open.remove(&key.0).map(|mine| mine.gathered)
    }

    /// Time at which the batch is due; later if `is_expected` returns true, as another result will follow.
    pub(super) fn due(
        &self,
        key: ReportKey,
        now: Mono,
        is_expected: impl Fn(EntryId) -> bool,
    ) -> Option<Mono> {
        let mut open = self.open.borrow_mut();
        let mine = open.get_mut(&key.0).filter(|mine| mine.gathered.key == key)?;
        if mine.due <= now && mine.sibling.is_some_and(is_expected) {
            mine.due = (now + QUIET).min(mine.first + LONGEST);
        }
        Some(mine.due)
    }
}

/// Results to add.
pub(crate) struct NewResults<'a> {
    /// If it is in memory.
    pub(crate) message: Option<&'a Rc<Message>>,
    pub(crate) received_at: Wall,
    pub(crate) judged: Vec<RecipientResult>,
    /// A queued further recipient of the message, after all of these have left the queue.
    pub(crate) sibling: Option<EntryId>,
}
