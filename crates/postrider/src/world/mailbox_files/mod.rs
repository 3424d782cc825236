//! Maildirs on the file system, written by threads of their own: shards never wait for a disk.
//!
//! What waits together is written together: all files first, then all synced, then all named, then
//! each directory synced once. A journal that is written for one of them has most of the others'
//! with it.

#[cfg(test)]
mod bench;
mod desk;
mod maildir;
mod new_mail;
mod owner;
mod pace;
mod quota;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use desk::{Answer, Batch, Desk, Job};
use maildir::Maildir;
use mta::metrics::MailboxMetrics;
use mta::seams::{Keeping, MailStore, MailboxError, MailboxPlace};
use new_mail::NewMail;
use owner::Owners;
pub(crate) use owner::check as check_owners;
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
        let desk = Arc::new(Desk::new(Arc::clone(metrics), files_max));
        let owners = Arc::new(Owners::default());
        let files =
            MailboxFiles(Arc::new(Open { desk: Arc::clone(&desk), next: AtomicU64::new(0) }));
        let started = Instant::now();
        for n in 0..pace::WRITERS_MAX {
            let writer = Writer { desk: Arc::clone(&desk), owners: Arc::clone(&owners), started };
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
    started: Instant,
}

/// Mailboxes of a batch that are open, by place and folder, and how they are kept: who is trusted with
/// a mailbox is not thereby trusted with it as somebody else's.
type Maildirs = BTreeMap<(PathBuf, Option<String>, Arc<Keeping>), Arc<Maildir>>;

/// A message whose file is written, and who waits for it.
type Written = (NewMail, Answer<()>);

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
        let mut written = Vec::new();
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
                        Ok(()) => written.push((mail, answer)),
                        Err(error) => {
                            drop(mail);
                            drop(answer.send(Err(error.into())));
                        }
                    },
                },
            }
        }
        publish(written)
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
        pieces.iter().try_for_each(|piece| mail.append(piece))?;
        mail.end()?;
        Ok(mail)
    }

    fn append(&self, handle: u64, piece: &[u8]) -> Result<(), MailboxError> {
        let mut mail = self.desk.open(handle).ok_or(io::ErrorKind::NotFound)?;
        let result = mail.append(piece);
        self.desk.keep(handle, mail);
        Ok(result?)
    }
}

/// The content is on the disk before its name appears in new, and the name before we say so.
fn publish(written: Vec<Written>) -> u64 {
    let each = |written: Vec<Written>, act: fn(&mut NewMail) -> Result<(), MailboxError>| {
        let mut left = Vec::with_capacity(written.len());
        for (mut mail, answer) in written {
            match act(&mut mail) {
                Ok(()) => left.push((mail, answer)),
                Err(error) => {
                    // Its name in tmp is gone before anybody hears of it.
                    drop(mail);
                    drop(answer.send(Err(error)));
                }
            }
        }
        left
    };
    let synced = each(written, |mail| Ok(mail.sync()?));
    let published = each(synced, NewMail::publish);
    // A directory that two of them are in is synced once.
    let mut directories: Vec<(Arc<Maildir>, Result<(), rustix::io::Errno>)> = Vec::new();
    let mut delivered = 0;
    for (mail, answer) in published {
        let known = directories.iter().find(|(known, _)| Arc::ptr_eq(known, mail.maildir()));
        let result = match known {
            Some((_, result)) => *result,
            None => {
                let result = rustix::fs::fsync(&mail.maildir().new);
                directories.push((Arc::clone(mail.maildir()), result));
                result
            }
        };
        delivered += u64::from(result.is_ok());
        let _ = answer.send(result.map_err(|error| MailboxError::Io(error.into())));
    }
    delivered
}
