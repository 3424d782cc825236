//! From written to delivered: sync the contents, rename to `new`, sync the names. With a few messages each file and
//! directory is synced. With many, the whole file system is synced, once for all contents and once for all names.
//!
//! Each sync of a single file makes the disk write content, inode and parent metadata, and then flush its cache. The
//! sync of the whole does that once, along with all other pending writes of the file system.

use super::desk::JobReply;
use super::file_system::FileSystems;
use super::new_mail::NewMail;
use super::sync_costs::SyncCosts;
use crate::mutex::lock;
use mta::metrics::MailboxMetrics;
use mta::seams::MailboxError;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A written message, and the channel of its result.
pub(super) type WrittenMessage = (NewMail, JobReply<()>);

/// Maximum number of file systems with cached costs; at the limit the cache is cleared.
const REMEMBERED_MAX: usize = 64;

/// Publishes written messages.
pub(super) struct Publisher {
    file_systems: Arc<dyn FileSystems>,
    /// By the number of the file system.
    costs: Mutex<BTreeMap<u64, SyncCosts>>,
    metrics: Arc<MailboxMetrics>,
    started: Instant,
}

impl Publisher {
    pub(super) fn new(
        metrics: Arc<MailboxMetrics>,
        file_systems: Arc<dyn FileSystems>,
    ) -> Publisher {
        Publisher { file_systems, costs: Mutex::default(), metrics, started: Instant::now() }
    }

    /// Publishes the messages of one batch that were begun and written, and replies to each delivery. Returns the
    /// number delivered.
    pub(super) fn publish(&self, written: Vec<WrittenMessage>) -> u64 {
        let mut by_file_system: BTreeMap<u64, Vec<WrittenMessage>> = BTreeMap::new();
        for (mail, answer) in written {
            by_file_system.entry(mail.maildir().file_system).or_default().push((mail, answer));
        }
        let all = by_file_system.into_iter();
        all.map(|(number, written)| self.publish_in(number, written)).sum()
    }

    fn publish_in(&self, number: u64, written: Vec<WrittenMessage>) -> u64 {
        let (begun, messages) = (Instant::now(), written.len());
        let costs = lock(&self.costs).get(&number).copied().unwrap_or_default();
        let can_whole = |mail: &NewMail| self.file_systems.can_sync_whole(&mail.maildir().new);
        let is_whole = costs.is_whole_better(self.now_ms(), messages)
            && written.first().is_some_and(|(mail, _)| can_whole(mail));
        let (delivered, result) = match is_whole {
            true => self.publish_whole(written),
            false => (publish_each(written), Ok(())),
        };
        let took_us = begun.elapsed().as_micros() as u64;
        let now_ms = self.now_ms();
        let mut costs = lock(&self.costs);
        if costs.len() >= REMEMBERED_MAX && !costs.contains_key(&number) {
            costs.clear();
        }
        let costs = costs.entry(number).or_default();
        match (is_whole, result) {
            (true, Ok(())) => costs.handle_whole(now_ms, took_us, messages),
            (true, Err(_)) => costs.handle_whole_failed(now_ms),
            (false, _) => costs.handle_each(now_ms, took_us, messages),
        }
        delivered
    }

    /// Publishes all messages with two syncs of their file system. If a sync fails, none counts as delivered: the
    /// failed write may belong to any message.
    fn publish_whole(&self, written: Vec<WrittenMessage>) -> (u64, Result<(), Errno>) {
        let Some((first, _)) = written.first() else { return (0, Ok(())) };
        // syncfs reports errors since the directory was opened. The first message's directory was opened before any of
        // the messages was written.
        let handle = Arc::clone(first.maildir());
        let sync = || self.file_systems.sync_whole(&handle.new);
        self.metrics.whole_syncs.add(1);
        if let Err(error) = sync() {
            each(written, |_| Err(MailboxError::Io(error.into())));
            return (0, Err(error));
        }
        let published = each(written, NewMail::publish);
        if published.is_empty() {
            return (0, Ok(()));
        }
        let result = sync();
        let delivered = if result.is_ok() { published.len() as u64 } else { 0 };
        for (_, answer) in published {
            let _ = answer.send(result.map_err(|error| MailboxError::Io(error.into())));
        }
        (delivered, result)
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
}

/// Publishes each message with separate syncs, but syncs a shared directory once. Returns the number delivered.
pub(super) fn publish_each(written: Vec<WrittenMessage>) -> u64 {
    if written.len() > 1 {
        written.iter().for_each(|(mail, _)| mail.begin_sync());
    }
    let synced = each(written, |mail| Ok(mail.sync()?));
    let published = each(synced, NewMail::publish);
    // Keyed by address in memory: each Maildir lives until its last message is answered.
    let mut directories = BTreeMap::new();
    let mut delivered = 0;
    for (mail, answer) in published {
        let maildir = Arc::as_ptr(mail.maildir());
        let sync = || rustix::fs::fsync(&mail.maildir().new);
        let result = *directories.entry(maildir).or_insert_with(sync);
        delivered += u64::from(result.is_ok());
        let _ = answer.send(result.map_err(|error| MailboxError::Io(error.into())));
    }
    delivered
}

/// Applies an operation to each message; returns those that succeeded. Replies to abandoned deliveries (the shard has
/// ended) are dropped.
fn each(
    written: Vec<WrittenMessage>,
    act: impl Fn(&mut NewMail) -> Result<(), MailboxError>,
) -> Vec<WrittenMessage> {
    let mut left = Vec::with_capacity(written.len());
    for (mut mail, answer) in written {
        if answer.is_closed() {
            // The attempt was abandoned, and may have been repeated since.
            continue;
        }
        match act(&mut mail) {
            Ok(()) => left.push((mail, answer)),
            Err(error) => {
                // Remove its name in tmp before the reply.
                drop(mail);
                drop(answer.send(Err(error)));
            }
        }
    }
    left
}
