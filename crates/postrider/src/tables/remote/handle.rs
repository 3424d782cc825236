//! A shard's handle to a remote table.

use super::clerk::TableWorkerCommand;
use super::metrics::RemoteMetrics;
use super::shared::{RemoteAnswer, RemoteTableShared};
use super::status::RemoteStatus;
use crate::mutex::lock;
use lookup::{Cached, LookupError, LookupErrorKind, Requester, Ticket};
use mail::Wall;
use mta::answer::Answer;
use mta::pressure::Level;
use mta::seams::EntryLookup;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// Maximum wait for a new answer if a stale one is available.
const STALE_PATIENCE: Duration = Duration::from_millis(250);

/// A remote table. Clones share it; when the last is dropped, its driver ends.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(super) shared: Arc<RemoteTableShared>,
    pub(super) notes: mpsc::UnboundedSender<TableWorkerCommand>,
}

impl Remote {
    /// Looks up a key for the server itself.
    #[cfg(test)]
    pub(crate) fn find(&self, key: &str) -> EntryLookup {
        self.find_for(Requester::Ours, key)
    }

    /// Looks up a key. A cached answer returns at once. Otherwise the server is queried from now on, and the answer
    /// arrives by the deadline in the table's settings. A stale answer is used only if the server does not answer
    /// promptly.
    ///
    /// `asker` determines the fair turn of the query.
    pub(crate) fn find_for(&self, asker: Requester, key: &str) -> EntryLookup {
        let metrics = &self.shared.metrics;
        let stale = match self.known(key) {
            Cached::Fresh(entry, _) => {
                metrics.hits.inc();
                return Answer::Now(Ok(entry));
            }
            Cached::Stale(entry, _) => Some(entry),
            Cached::Missing => None,
        };
        metrics.misses.inc();
        let question = self.ask(asker, key);
        let metrics = Arc::clone(metrics);
        Answer::later(async move {
            let Some(entry) = stale else { return question.answer().await };
            // With a stale answer available, wait no longer than a healthy server needs.
            match question.answer_within(STALE_PATIENCE).await {
                Some(Ok(said)) => Ok(said),
                Some(Err(_)) | None => {
                    metrics.stale.inc();
                    Ok(entry)
                }
            }
        })
    }

    /// The cached answer for a key, without a query.
    pub(crate) fn known(&self, key: &str) -> Cached {
        self.shared.cache.get(key, self.shared.now())
    }

    fn ask(&self, asker: Requester, key: &str) -> OutstandingLookup {
        let ticket = Ticket(self.shared.next_ticket.fetch_add(1, Ordering::Relaxed));
        let (answer, answered) = oneshot::channel();
        // Without a worker the reply channel is dropped, which the caller observes.
        let _ = self.notes.send(TableWorkerCommand::Ask { key: key.into(), ticket, asker, answer });
        OutstandingLookup { ticket, answered, notes: self.notes.clone(), is_left: false }
    }

    /// Removes the cached answer for a key, so that the next lookup queries the server. Returns true if there was one.
    pub(crate) fn forget(&self, key: &str) -> bool {
        let was_known = self.shared.cache.forget(key, self.shared.now());
        let _ = self.notes.send(TableWorkerCommand::Forget(Some(key.into())));
        was_known
    }

    /// Clears the cache. Returns the number of answers removed.
    pub(crate) fn flush(&self) -> usize {
        let count = self.shared.cache.flush(self.shared.now());
        let _ = self.notes.send(TableWorkerCommand::Forget(None));
        count
    }

    /// The table's status.
    pub(crate) fn status(&self) -> RemoteStatus {
        RemoteStatus::new(self.metrics(), self.shared.cache.counts(), &lock(&self.shared.seen))
    }

    /// The current error of its server, and its start.
    pub(crate) fn problem(&self) -> Option<(Wall, String)> {
        let seen = lock(&self.shared.seen);
        seen.trouble.as_ref().map(|(since, trouble)| (*since, trouble.to_string()))
    }

    /// Use of its queue of lookups, and the busiest site.
    pub(crate) fn pressure(&self) -> (Level, Option<(IpAddr, u64)>) {
        let seen = lock(&self.shared.seen);
        (seen.level, seen.most)
    }

    /// Its numbers, as of now.
    pub(crate) fn metrics(&self) -> &Arc<RemoteMetrics> {
        self.shared.metrics.entries.set_u64(self.shared.cache.counts().entries as u64);
        &self.shared.metrics
    }
}

/// A question that waits for its answer. Dropped before, it is abandoned.
struct OutstandingLookup {
    ticket: Ticket,
    answered: oneshot::Receiver<RemoteAnswer>,
    notes: mpsc::UnboundedSender<TableWorkerCommand>,
    /// No caller waits, and the answer is still wanted.
    is_left: bool,
}

impl OutstandingLookup {
    async fn answer(mut self) -> RemoteAnswer {
        OutstandingLookup::said((&mut self.answered).await)
    }

    /// The answer within a time limit. After that the lookup continues, for the cache.
    async fn answer_within(mut self, patience: Duration) -> Option<RemoteAnswer> {
        match timeout(patience, &mut self.answered).await {
            Ok(said) => Some(OutstandingLookup::said(said)),
            Err(_) => {
                self.is_left = true;
                None
            }
        }
    }

    fn said(said: Result<RemoteAnswer, oneshot::error::RecvError>) -> RemoteAnswer {
        said.unwrap_or_else(|_| {
            Err(LookupError::new(LookupErrorKind::Unreachable, "the server is stopping"))
        })
    }
}

impl Drop for OutstandingLookup {
    fn drop(&mut self) {
        // Closed by itself once the answer was taken.
        if !self.answered.is_terminated() && !self.is_left {
            let _ = self.notes.send(TableWorkerCommand::Abandon(self.ticket));
        }
    }
}
