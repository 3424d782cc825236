//! Maildirs on the file system, written by threads of their own: shards never wait for a disk.
//!
//! What waits together is written together: all files first, then all synced, then all named, then all
//! names synced; many with one sync of the whole file system each time (`publication.rs`).

#[cfg(test)]
mod bench;
mod desk;
mod file_system;
mod maildir;
mod new_mail;
mod owner;
mod pace;
mod publication;
mod quota;
mod sync_costs;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use desk::{Answer, Batch, Desk, Job};
use file_system::{FileSystems, Mounted};
use maildir::Maildir;
use mta::metrics::MailboxMetrics;
use mta::seams::{Keeping, MailStore, MailboxError, MailboxPlace};
use new_mail::NewMail;
use owner::Owners;
pub(crate) use owner::check as check_owners;
use publication::{Publisher, publish_each};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;
use tokio::sync::oneshot;

/// A way to the writers; one per shard.
#[derive(Clone, Debug)]
pub(crate) struct MailboxFiles(Arc<Open>);

/// The desk, as long as anybody may leave something there.
#[derive(Debug)]
struct Open {
    desk: Arc<Desk>,
    next: AtomicU64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.desk.close();
    }
}

/// Starts the writers.
pub(crate) struct MailboxThreads;

impl MailboxThreads {
    /// The threads end when every [`MailboxFiles`] is gone; they have so many files open at most.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(crate) fn start(
        metrics: &Arc<MailboxMetrics>,
        files_max: usize,
    ) -> io::Result<MailboxFiles> {
        MailboxThreads::start_with(metrics, files_max, Arc::new(Mounted::new()))
    }

    /// The same, on other file systems.
    fn start_with(
        metrics: &Arc<MailboxMetrics>,
        files_max: usize,
        file_systems: Arc<dyn FileSystems>,
    ) -> io::Result<MailboxFiles> {
        let desk = Arc::new(Desk::new(Arc::clone(metrics), files_max));
        let owners = Arc::new(Owners::default());
        let files =
            MailboxFiles(Arc::new(Open { desk: Arc::clone(&desk), next: AtomicU64::new(0) }));
        let started = Instant::now();
        let publisher = Arc::new(Publisher::new(Arc::clone(metrics), file_systems));
        for n in 0..pace::WRITERS_MAX {
            let (desk, owners) = (Arc::clone(&desk), Arc::clone(&owners));
            let writer = Writer { desk, owners, publisher: Arc::clone(&publisher), started };
            std::thread::Builder::new().name(format!("mailbox-{n}")).spawn(move || writer.run())?;
        }
        Ok(files)
    }
}

impl MailboxFiles {
    async fn ask<T>(&self, job: impl FnOnce(Answer<T>) -> Job) -> Result<T, MailboxError> {
        let (answer, answered) = oneshot::channel();
        self.0.desk.leave(job(answer));
        answered.await.map_err(|_| io::Error::other("the mailbox writers have ended"))?
    }
}

impl MailStore for MailboxFiles {
    async fn deliver(
        &self,
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
    ) -> Result<(), MailboxError> {
        self.ask(|answer| Job::Deliver { place, name, pieces, answer }).await
    }

    async fn begin(&self, place: MailboxPlace, name: String) -> Result<u64, MailboxError> {
        let handle = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.ask(|answer| Job::Begin { handle, place, name, answer }).await
    }

    async fn append(&self, handle: u64, piece: Bytes) -> Result<(), MailboxError> {
        self.ask(|answer| Job::Append { handle, piece, answer }).await
    }

    async fn finish(&self, handle: u64, keep: bool) -> Result<(), MailboxError> {
        self.ask(|answer| Job::Finish { handle, keep, answer }).await
    }
}

/// One thread.
struct Writer {
    desk: Arc<Desk>,
    owners: Arc<Owners>,
    publisher: Arc<Publisher>,
    started: Instant,
}

/// Mailboxes of a batch that are open, by place and folder, and how they are kept: who is trusted with
/// a mailbox is not thereby trusted with it as somebody else's.
type Maildirs = BTreeMap<(PathBuf, Option<String>, Arc<Keeping>), Arc<Maildir>>;

impl Writer {
    fn run(&self) {
        while let Some(mut batch) = self.desk.take() {
            let delivered = self.write(&mut batch);
            let now_ms = self.started.elapsed().as_millis() as u64;
            self.desk.done(batch, delivered, now_ms);
        }
    }

    /// Does what a batch asks for; gives the number of messages delivered. Answers that nobody waits
    /// for any more (the shard has ended) are dropped.
    fn write(&self, batch: &mut Batch) -> u64 {
        let mut open = Maildirs::new();
        let (mut written, mut ended) = (Vec::new(), Vec::new());
        for job in batch.jobs.drain(..) {
            match job {
                Job::Deliver { place, name, pieces, answer } => {
                    match self.write_all(&mut open, &place, name, &pieces) {
                        Ok(mail) => written.push((mail, answer)),
                        Err(error) => drop(answer.send(Err(error))),
                    }
                }
                Job::Begin { handle, place, name, answer } => {
                    let begun = self.begin(&mut open, &place, name);
                    let begun = begun.map(|mail| self.desk.keep(handle, mail));
                    let _ = answer.send(begun.map(|()| handle));
                }
                Job::Append { handle, piece, answer } => {
                    let _ = answer.send(self.append(handle, &piece));
                }
                Job::Finish { handle, keep, answer } => match self.desk.open(handle) {
                    None => drop(answer.send(Err(io::ErrorKind::NotFound.into()))),
                    Some(mail) if !keep => {
                        drop(mail);
                        let _ = answer.send(Ok(()));
                    }
                    Some(mut mail) => match mail.end() {
                        Ok(()) => ended.push((mail, answer)),
                        Err(error) => {
                            drop(mail);
                            drop(answer.send(Err(error.into())));
                        }
                    },
                },
            }
        }
        // Files that were written in pieces may have been begun long ago: only a sync of their own tells
        // of all errors since.
        publish_each(ended) + self.publisher.publish(written)
    }

    fn begin(
        &self,
        open: &mut Maildirs,
        place: &MailboxPlace,
        name: String,
    ) -> Result<NewMail, MailboxError> {
        let folder = place.folder.as_ref().map(|folder| folder.name.clone());
        let key = (place.path(), folder, Arc::clone(&place.keeping));
        let maildir = match open.get(&key) {
            Some(maildir) => Arc::clone(maildir),
            None => {
                let owner = self.owners.of(&place.keeping).map_err(MailboxError::Untrusted)?;
                let maildir = Arc::new(Maildir::open(place, owner)?);
                open.insert(key, Arc::clone(&maildir));
                maildir
            }
        };
        Ok(NewMail::begin(maildir, name)?)
    }

    fn write_all(
        &self,
        open: &mut Maildirs,
        place: &MailboxPlace,
        name: String,
        pieces: &[Bytes],
    ) -> Result<NewMail, MailboxError> {
        let mut mail = self.begin(open, place, name)?;
        mail.write(pieces)?;
        Ok(mail)
    }

    fn append(&self, handle: u64, piece: &[u8]) -> Result<(), MailboxError> {
        let mut mail = self.desk.open(handle).ok_or(io::ErrorKind::NotFound)?;
        let result = mail.append(piece);
        self.desk.keep(handle, mail);
        Ok(result?)
    }
}
