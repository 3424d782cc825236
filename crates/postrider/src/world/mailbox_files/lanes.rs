//! The lanes of writers. Each configured directory of mailboxes has a lane, and so has each file system mounted below
//! it, so that a disk that hangs stops only the mailboxes on it.

use super::desk::MailboxWriteQueue;
use super::file_system::FileSystems;
use super::mounts;
use super::publication::Publisher;
use super::{MailboxWriter, pace};
use crate::mutex::lock;
use mta::metrics::MailboxMetrics;
use mta::seams::MailboxPlace;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

/// Lanes at once; mailboxes of further roots share the last.
pub(super) const LANES_MAX: usize = 64;
/// Maximum number of lanes for file systems below roots; mailboxes on further ones use the lanes of their roots.
pub(super) const MOUNTED_LANES_MAX: usize = 32;
/// A handle has the lane's number above this many bits of the lane's own handle.
const LANE_SHIFT: u32 = 48;
/// Interval at which the mount points are read.
pub(super) const MOUNTS_SEEN_EVERY: Duration = Duration::from_secs(5);

/// Time for which disks are checked for free space after one was full.
const CHECKED_MS: u64 = 600_000;

/// All lanes.
pub(super) struct Lanes {
    state: Mutex<State>,
    next: AtomicU64,
    metrics: Arc<MailboxMetrics>,
    files_max: usize,
    file_systems: Arc<dyn FileSystems>,
    pub(super) attempt_max: Duration,
    /// Start time of this server.
    since: SystemTime,
    started: Instant,
    /// The time until which disks are checked for free space, in milliseconds since `started`.
    checked_until: AtomicU64,
}

#[derive(Default)]
struct State {
    /// As many as directories that mail came for, and file systems below them.
    lanes: Vec<Lane>,
    /// Directories that mail came for, with the file systems that are mounted below each.
    roots: Vec<(PathBuf, Vec<PathBuf>)>,
    mounts: Vec<PathBuf>,
}

struct Lane {
    root: PathBuf,
    mounted: Option<PathBuf>,
    desk: Arc<MailboxWriteQueue>,
}

impl Lane {
    fn is_of(&self, root: &Path, mounted: Option<&PathBuf>) -> bool {
        self.root == root && self.mounted.as_ref() == mounted
    }
}

impl State {
    /// The file system below its root that a mailbox is on.
    fn mounted(&mut self, place: &MailboxPlace) -> Option<PathBuf> {
        let known = self.roots.iter().position(|(root, _)| *root == place.root);
        let number = known.unwrap_or_else(|| {
            let below = mounts::below(&place.root, &self.mounts);
            self.roots.push((place.root.to_path_buf(), below));
            self.roots.len() - 1
        });
        let below = &self.roots[number].1;
        if below.is_empty() { None } else { mounts::of(&place.path(), below).cloned() }
    }

    fn find(&self, root: &Path, mounted: Option<&PathBuf>) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.is_of(root, mounted))
    }
}

impl std::fmt::Debug for Lanes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lanes").finish_non_exhaustive()
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        lock(&self.state).lanes.iter().for_each(|lane| lane.desk.close());
    }
}

impl Lanes {
    pub(super) fn new(
        metrics: &Arc<MailboxMetrics>,
        files_max: usize,
        (file_systems, attempt_max): (Arc<dyn FileSystems>, Duration),
    ) -> Lanes {
        let state = State { mounts: file_systems.mount_points(), ..State::default() };
        Lanes {
            state: Mutex::new(state),
            next: AtomicU64::new(0),
            metrics: Arc::clone(metrics),
            files_max,
            file_systems,
            attempt_max,
            since: SystemTime::now(),
            started: Instant::now(),
            checked_until: AtomicU64::new(0),
        }
    }

    /// Notes that a disk is full.
    pub(super) fn note_full(&self) {
        self.checked_until.store(self.now_ms() + CHECKED_MS, Ordering::Relaxed);
    }

    /// Returns true if a disk was full lately.
    pub(super) fn was_full(&self) -> bool {
        // Without a full disk since the start no clock is read.
        match self.checked_until.load(Ordering::Relaxed) {
            0 => false,
            until => self.now_ms() < until,
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// The lane of a mailbox; its threads are started when mail first comes for it.
    pub(super) fn lane_of(
        &self,
        place: &MailboxPlace,
    ) -> io::Result<(u64, Arc<MailboxWriteQueue>)> {
        let mut state = lock(&self.state);
        let mut mounted = state.mounted(place);
        let mounted_lanes = state.lanes.iter().filter(|lane| lane.mounted.is_some()).count();
        if mounted.is_some()
            && mounted_lanes >= MOUNTED_LANES_MAX
            && state.find(&place.root, mounted.as_ref()).is_none()
        {
            mounted = None;
        }
        let number = match state.find(&place.root, mounted.as_ref()) {
            Some(number) => number,
            None if state.lanes.len() >= LANES_MAX => LANES_MAX - 1,
            None => {
                let desk = self.open_lane(state.lanes.len())?;
                state.lanes.push(Lane { root: place.root.to_path_buf(), mounted, desk });
                let each = self.files_max / state.lanes.len();
                state.lanes.iter().for_each(|lane| lane.desk.set_files_max(each));
                state.lanes.len() - 1
            }
        };
        Ok((number as u64, Arc::clone(&state.lanes[number].desk)))
    }

    fn open_lane(&self, number: usize) -> io::Result<Arc<MailboxWriteQueue>> {
        let metrics = &self.metrics;
        let desk = MailboxWriteQueue::new(Arc::clone(metrics), self.files_max, self.attempt_max);
        let (desk, owners, counts) = (Arc::new(desk), Arc::default(), Arc::default());
        let publisher = Publisher::new(Arc::clone(metrics), Arc::clone(&self.file_systems));
        let writer = MailboxWriter {
            desk: Arc::clone(&desk),
            owners,
            counts,
            publisher: Arc::new(publisher),
            file_systems: Arc::clone(&self.file_systems),
            since: self.since,
        };
        for n in 0..pace::WRITERS_MAX {
            let writer = writer.clone();
            let started = thread::Builder::new()
                .name(format!("mailbox-{number}-{n}"))
                .spawn(move || writer.run());
            match started {
                // Fewer will do.
                Err(error) if n == 0 => return Err(error),
                _ => {}
            }
        }
        Ok(desk)
    }

    /// The number of a file that is written in pieces, by which its lane is found again.
    pub(super) fn handle(&self, lane: u64) -> u64 {
        (lane << LANE_SHIFT) | self.next.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn lane_with(&self, handle: u64) -> Option<Arc<MailboxWriteQueue>> {
        let number = usize::try_from(handle >> LANE_SHIFT).ok()?;
        lock(&self.state).lanes.get(number).map(|lane| Arc::clone(&lane.desk))
    }

    /// All there are, with the directories that they are for.
    pub(super) fn all(&self) -> Vec<(PathBuf, Arc<MailboxWriteQueue>)> {
        let state = lock(&self.state);
        let shown = |lane: &Lane| {
            let place = lane.mounted.as_ref().unwrap_or(&lane.root);
            (place.clone(), Arc::clone(&lane.desk))
        };
        state.lanes.iter().map(shown).collect()
    }

    /// Reads the mount points, for mail from now on.
    pub(super) fn see_mounts(&self) {
        let mounts = self.file_systems.mount_points();
        let mut state = lock(&self.state);
        if state.mounts != mounts {
            for (root, below) in &mut state.roots {
                *below = mounts::below(root, &mounts);
            }
            state.mounts = mounts;
        }
    }
}
