//! Fails recipients on an operator's command, with or without reports.

use super::change::{SelectedRecipients, by_message};
use super::reading::{ReadAhead, Unread};
use super::walk::{CommandReply, MessageSelection, Operator};
use crate::control::Select;
use crate::delivery::giving_up::{fail_now, fail_silently};
use crate::message::Message;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure, MessageId};
use queue::{EntryDetail, Glance};
use spool::{Completion, Record};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// Maximum number of messages with reports being written. Beyond it the command waits for the spool, so that memory
/// does not grow with the number of failed messages.
const REPORTS_MAX: usize = 1_024;
/// Number of messages processed before the command yields.
const TURN_MAX: usize = 256;

/// A command to fail recipients.
pub(crate) struct Order {
    failure: Arc<Failure>,
    /// No report is sent.
    silent: bool,
}

/// Messages that were read, with the recipients to fail.
type Batch = Vec<(Rc<Message>, Vec<Glance>)>;

/// Progress of a command.
struct FailProgress {
    reading: ReadAhead,
    unread: Unread,
    /// Messages with pending reports at the start.
    waiting: usize,
    /// Messages processed since the last yield.
    done: usize,
}

impl FailProgress {
    fn new(waiting: usize) -> FailProgress {
        FailProgress { reading: ReadAhead::default(), unread: Unread::default(), waiting, done: 0 }
    }
}

impl Order {
    /// The default status is 5.0.0.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub(crate) fn new(status: Option<&str>, reason: &str, silent: bool) -> Result<Order, String> {
        let status = match status.unwrap_or("5.0.0").split('.').collect::<Vec<_>>()[..] {
            ["5", subject, detail] => subject.parse().ok().zip(detail.parse().ok()),
            _ => None,
        };
        let Some((subject, detail)) = status.filter(|(s, d)| *s < 1_000 && *d < 1_000) else {
            return Err("a status must look like 5.7.1 and begin with 5".to_owned());
        };
        let status = EnhancedStatus::new(5, subject, detail);
        let failure = Arc::new(Failure::local(Class::Permanent, status, reason));
        Ok(Order { failure, silent })
    }
}

impl Order {
    /// The consequence of a message that can't be read, for the operator.
    fn unread(&self) -> &'static str {
        match self.silent {
            true => "`queue remove` removes it",
            false => "and it has the address for the DSN",
        }
    }
}

impl<W: World> Operator<W> {
    /// Fails recipients now. Returns the error, if any.
    pub(crate) async fn fail(
        self: &Rc<Self>,
        select: Select,
        order: &Order,
        answer: &CommandReply,
    ) -> Option<String> {
        let waiting = self.delivery.unreported.reports();
        let mut pace = FailProgress::new(waiting);
        let filter = match MessageSelection::from(select) {
            MessageSelection::One(id) => {
                let found = by_message(self.glances_of(id).await);
                let failed = self.fail_these(found, order, &mut pace, answer).await;
                return failed.or_else(|| pace.unread.sentence(order.unread()));
            }
            MessageSelection::Matching(filter) => *filter,
        };
        let mut walk = self.walk(filter, answer);
        let mut error = None;
        while let Some(found) = self.next_piece(&mut walk, answer).await {
            let failed = self.fail_these(by_message(found), order, &mut pace, answer).await;
            error = failed.or(error);
        }
        error.or_else(|| pace.unread.sentence(order.unread()))
    }

    /// Fails these recipients with reports. Returns the error, if any.
    pub(super) async fn fail_reported(
        self: &Rc<Self>,
        found: SelectedRecipients,
        failure: &Arc<Failure>,
        answer: &CommandReply,
    ) -> Option<String> {
        let waiting = self.delivery.unreported.reports();
        let mut pace = FailProgress::new(waiting);
        let order = Order { failure: Arc::clone(failure), silent: false };
        let failed = self.fail_these(found, &order, &mut pace, answer).await;
        failed.or_else(|| pace.unread.sentence(order.unread()))
    }

    async fn fail_these(
        self: &Rc<Self>,
        found: SelectedRecipients,
        order: &Order,
        pace: &mut FailProgress,
        answer: &CommandReply,
    ) -> Option<String> {
        let mut error = None;
        let mut found = found.into_iter().peekable();
        while found.peek().is_some() && !answer.is_unwanted() {
            let batch: Vec<_> = found.by_ref().take(pace.reading.count()).collect();
            let ids: Vec<MessageId> = batch.iter().map(|(id, _)| *id).collect();
            let read = self.custody.messages.peek_all(&ids).await;
            pace.reading.note(&read);
            pace.done += batch.len();
            let (ids, glances): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            let read = ids.into_iter().zip(read).map(|(id, read)| pace.unread.sort(id, read));
            let there = glances.into_iter().zip(read);
            let batch = there.filter_map(|(glances, message)| Some((message?, glances))).collect();
            if order.silent {
                error = self.fail_silently(batch, order, answer).await.or(error);
            } else {
                self.fail_and_report(batch, order, answer);
            }
            answer.progress(self.services.now());
            self.keep_pace(pace, answer).await;
        }
        error
    }

    /// Yields regularly, and waits while too many reports are being written.
    async fn keep_pace(&self, pace: &mut FailProgress, answer: &CommandReply) {
        let most = pace.waiting + REPORTS_MAX;
        while pace.done >= TURN_MAX || self.delivery.unreported.reports() >= most {
            pace.done = 0;
            self.services.pause_for_others().await;
            answer.progress(self.services.now());
            if answer.is_unwanted() {
                return;
            }
        }
    }

    /// Takes recipients of one message out of the queue.
    fn take_out(&self, glances: Vec<Glance>, answer: &CommandReply) -> Vec<EntryDetail> {
        let now = self.services.now();
        let mut queue = self.schedule.queue_mut();
        let mut taken = Vec::with_capacity(glances.len());
        for Glance { entry, .. } in glances {
            let is_there = queue.entry(now, entry).is_some();
            match queue.take_out(now, entry) {
                Some(detail) => taken.push(detail),
                None => answer.count(|tally| tally.in_flight += u64::from(is_there)),
            }
        }
        answer.count(|tally| {
            tally.messages += u64::from(!taken.is_empty());
            tally.recipients += taken.len() as u64;
        });
        taken
    }

    fn fail_and_report(&self, batch: Batch, order: &Order, answer: &CommandReply) {
        for (message, glances) in batch {
            let failed = self.take_out(glances, answer);
            if !failed.is_empty() {
                fail_now(&self.delivery, &message, &failed, &order.failure);
            }
        }
    }

    async fn fail_silently(
        &self,
        batch: Batch,
        order: &Order,
        answer: &CommandReply,
    ) -> Option<String> {
        let mut error = None;
        let mut by_log: BTreeMap<u8, (Vec<Record>, Vec<crate::event::Event>)> = BTreeMap::new();
        for (message, glances) in batch {
            let id = message.id;
            let failed = self.take_out(glances, answer);
            if failed.is_empty() {
                continue;
            }
            let (settle, told) = fail_silently(&self.delivery, &message, &failed, &order.failure);
            let (records, events) = by_log.entry(id.log()).or_default();
            records.push(Record::Settle(settle));
            events.extend(told);
        }
        for (log, (records, events)) in by_log {
            match self.custody.submit(MessageId::new(0, log, 0), records).await {
                Completion::Durable { position } => {
                    events.into_iter().for_each(|e| self.services.emit_at(e, log, position));
                }
                other => {
                    error = Some(format!("the spool could not record the failures: {other:?}"))
                }
            }
        }
        error
    }
}
