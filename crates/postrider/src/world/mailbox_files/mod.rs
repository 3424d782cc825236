//! Maildir delivery on separate threads: shards never wait for a disk.
//!
//! The mailboxes below one configured directory form a lane with its own writers, and so do those on each file system
//! mounted below it. A disk that hangs stops only the mailboxes on it. Delivery attempts there time out, and a watcher
//! observes the writers.
//!
//! Waiting messages are written in batches: all files, a sync, all names, a sync. Large batches use one sync of the
//! whole file system for each step (`publication.rs`).

#[cfg(test)]
mod bench;
mod desk;
mod file_system;
mod lanes;
mod maildir;
mod mounts;
mod new_mail;
mod owner;
mod pace;
mod publication;
mod quota;
mod sync_costs;
#[cfg(test)]
mod tests;
mod turns;

pub(super) use new_mail::LineEnds;
pub(crate) use quota::{QuotaUsage, count_at};

use crate::file_watch::FileWatch;
use bytes::Bytes;
use desk::{Batch, Job, JobReply, MailboxWriteQueue};
use file_system::{FileSystems, Mounted};
use lanes::{Lanes, MOUNTS_SEEN_EVERY};
use maildir::Maildir;
use mta::metrics::MailboxMetrics;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use mta::seams::{Keeping, MailStore, MailboxError, MailboxPlace};
use new_mail::NewMail;
use owner::Owners;
pub(crate) use owner::check as check_owners;
use publication::{Publisher, publish_each};
use quota::Counts;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::oneshot;

/// Timeout of a delivery attempt on a file system that does not respond.
const ATTEMPT_MAX: Duration = Duration::from_secs(15);
/// Timeout of a check for free space, while a client waits.
const ROOM_MAX: Duration = Duration::from_secs(2);
/// Maximum wait, as a multiple of that timeout, even if other deliveries progress.
const WAITS_MAX: u32 = 4;
/// A handle to the writers; one per shard.
#[derive(Clone, Debug)]
pub(crate) struct MailboxFiles(Arc<Lanes>);

/// Keeps the writers running.
pub(crate) struct MailboxThreads;

impl MailboxThreads {
    /// Threads start for each directory at its first delivery, and end when every [`MailboxFiles`] is dropped. Their
    /// number of open files is limited.
    pub(crate) fn start(metrics: &Arc<MailboxMetrics>, files_max: usize) -> MailboxFiles {
        MailboxThreads::start_with(metrics, files_max, (Arc::new(Mounted::new()), ATTEMPT_MAX))
    }

    /// As [`start`](Self::start), with given file systems and timeouts.
    fn start_with(
        metrics: &Arc<MailboxMetrics>,
        files_max: usize,
        (file_systems, attempt_max): (Arc<dyn FileSystems>, Duration),
    ) -> MailboxFiles {
        let lanes = Arc::new(Lanes::new(metrics, files_max, (file_systems, attempt_max)));
        MailboxFiles(lanes)
    }
}

impl MailboxFiles {
    /// Starts to watch the mount points.
    pub(crate) fn watch(&self, watch: &FileWatch) {
        watch.follow_every(MOUNTS_SEEN_EVERY, &self.0, |lanes| lanes.see_mounts());
    }

    /// Adds a job to a lane and waits for its result, as long as the lane makes progress.
    async fn ask<T>(
        &self,
        desk: &MailboxWriteQueue,
        job: impl FnOnce(JobReply<T>) -> Job,
    ) -> Result<T, MailboxError> {
        let (answer, mut answered) = oneshot::channel();
        let taken = desk.leave(job(answer)).ok_or(MailboxError::Hangs)?;
        for wait in 1..=WAITS_MAX {
            match tokio::time::timeout(self.0.attempt_max, &mut answered).await {
                Ok(answer) => {
                    let ended = |_| io::Error::other("the mailbox writers have ended");
                    let answer = answer.map_err(ended)?;
                    if let Err(MailboxError::Io(error)) = &answer
                        && error.kind() == io::ErrorKind::StorageFull
                    {
                        self.0.note_full();
                    }
                    return answer;
                }
                Err(_) if wait < WAITS_MAX && desk.is_moving(&taken) => {}
                Err(_) => break,
            }
        }
        // The closed channel shows the writer that the job is abandoned.
        drop(answered);
        desk.is_moving(&taken);
        Err(MailboxError::Hangs)
    }

    fn lane_with(&self, handle: u64) -> Result<Arc<MailboxWriteQueue>, MailboxError> {
        self.0.lane_with(handle).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Observes whether disks respond, without keeping writers alive.
    pub(crate) fn watcher(&self) -> LaneWatcher {
        LaneWatcher(Arc::downgrade(&self.0))
    }
}

/// Observes whether the disks of mailboxes respond.
pub(crate) struct LaneWatcher(Weak<Lanes>);

impl LaneWatcher {
    /// Directories on disks that do not respond, and the duration.
    fn hanging(&self) -> Vec<(PathBuf, Duration)> {
        let lanes = self.0.upgrade().map(|lanes| lanes.all()).unwrap_or_default();
        let hanging = lanes.into_iter().filter_map(|(place, desk)| Some((place, desk.oldest()?)));
        hanging.filter(|(_, time)| *time >= HANGING_MIN).collect()
    }
}

/// A batch that takes longer is a problem.
const HANGING_MIN: Duration = Duration::from_secs(5);

/// Disks of mailboxes that do not answer.
pub(crate) struct HangingMailboxes(pub(crate) LaneWatcher);

impl ProblemKind for HangingMailboxes {
    fn name(&self) -> &'static str {
        "mailboxes"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        for (root, time) in self.0.hanging() {
            let (root, seconds) = (root.display().to_string(), time.as_secs());
            let text =
                format!("a delivery to a mailbox in {root} has been running for {seconds} s");
            found(DetectedProblem::warning(root, text).next_step("check the disk; its mail waits"));
        }
    }
}

impl MailStore for MailboxFiles {
    async fn deliver(
        &self,
        place: MailboxPlace,
        name: String,
        pieces: Vec<Bytes>,
    ) -> Result<(), MailboxError> {
        let (_, desk) = self.0.lane_of(&place)?;
        self.ask(&desk, |answer| Job::Deliver { place, name, pieces, answer }).await
    }

    async fn begin(&self, place: MailboxPlace, name: String) -> Result<u64, MailboxError> {
        let (lane, desk) = self.0.lane_of(&place)?;
        let handle = self.0.handle(lane);
        let begun = self.ask(&desk, |answer| Job::Begin { handle, place, name, answer }).await;
        if let Err(MailboxError::Hangs) = begun {
            // If it was begun after all, end it.
            let _ = desk.leave(Job::Finish { handle, keep: false, answer: oneshot::channel().0 });
        }
        begun
    }

    async fn append(&self, handle: u64, piece: Bytes) -> Result<(), MailboxError> {
        let desk = self.lane_with(handle)?;
        self.ask(&desk, |answer| Job::Append { handle, piece, answer }).await
    }

    async fn finish(&self, handle: u64, keep: bool) -> Result<(), MailboxError> {
        let desk = self.lane_with(handle)?;
        self.ask(&desk, |answer| Job::Finish { handle, keep, answer }).await
    }

    fn was_full(&self) -> bool {
        self.0.was_full()
    }

    async fn room(&self, place: MailboxPlace, bytes: u64) -> Result<(), MailboxError> {
        let (_, desk) = self.0.lane_of(&place)?;
        // Clients do not wait for a disk that hangs.
        if desk.oldest().is_some_and(|time| time >= HANGING_MIN) {
            return Err(MailboxError::Hangs);
        }
        let asked = self.ask(&desk, |answer| Job::Room { place, bytes, answer });
        let answer = tokio::time::timeout(ROOM_MAX, asked).await;
        answer.unwrap_or(Err(MailboxError::Hangs))
    }
}

/// One thread.
#[derive(Clone)]
struct MailboxWriter {
    desk: Arc<MailboxWriteQueue>,
    owners: Arc<Owners>,
    counts: Arc<Counts>,
    publisher: Arc<Publisher>,
    file_systems: Arc<dyn FileSystems>,
    /// Start time of this server.
    since: SystemTime,
}

/// Open mailboxes of a batch, by path, folder and ownership: trust in a mailbox under one owner does not extend to
/// another owner.
type Maildirs = BTreeMap<(PathBuf, Option<String>, Arc<Keeping>), Arc<Maildir>>;

impl MailboxWriter {
    fn run(&self) {
        while let Some(mut batch) = self.desk.take() {
            let began = Instant::now();
            let delivered = self.write(&mut batch);
            self.desk.observe(began.elapsed());
            self.desk.done(batch, delivered);
        }
    }

    /// Executes a batch; returns the number of messages delivered. Replies to abandoned deliveries (the shard has
    /// ended) are dropped.
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
                Job::Room { place, bytes, answer } => {
                    let world = (&*self.file_systems, &*self.counts);
                    let _ = answer.send(maildir::check_room(&place, bytes, world));
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
        // Files written in pieces may have been begun long ago; only a sync of the file itself reports all errors
        // since.
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
                let world = (&*self.file_systems, &self.counts);
                let maildir = Arc::new(Maildir::open(place, owner, world)?);
                open.insert(key, Arc::clone(&maildir));
                maildir
            }
        };
        Ok(NewMail::begin(maildir, name, self.since)?)
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
