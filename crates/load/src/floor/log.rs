//! The log behind the bare relay: group commit and nothing else. It can't be read again.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use tokio::sync::{Notify, oneshot};

/// Written at once while the file is filled.
const ZEROS_BYTES: usize = 1 << 20;

/// Bytes that wait for the next sync, and its number.
#[derive(Debug, Default)]
struct UnsyncedBatch {
    bytes: Vec<u8>,
    batch: u64,
}

/// Shared with the commit thread.
#[derive(Debug, Default)]
struct LogState {
    waiting: Mutex<UnsyncedBatch>,
    filled: Condvar,
    /// Batches below this are durable.
    synced: AtomicU64,
    failed: AtomicBool,
    done: Notify,
}

/// Writes batches, syncs, and wakes who waited.
#[derive(Debug)]
pub(super) struct Log {
    shared: Arc<LogState>,
    /// Who waits for which batch, in order.
    sessions: RefCell<VecDeque<(u64, oneshot::Sender<()>)>>,
}

impl Log {
    /// Creates a file of `bytes` zeros, on stable storage, and starts the commit thread. The zeros
    /// are there so that a sync need not write block maps: what a spool with recycled segments
    /// would have.
    pub(super) fn create(path: &Path, bytes: u64) -> io::Result<Log> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).truncate(true).write(true).open(path)?;
        let zeros = vec![0; ZEROS_BYTES];
        let mut left = bytes.max(ZEROS_BYTES as u64);
        while left > 0 {
            let piece = left.min(ZEROS_BYTES as u64);
            file.write_all(&zeros[..piece as usize])?;
            left -= piece;
        }
        file.sync_all()?;
        let shared = Arc::new(LogState::default());
        let committing = Arc::clone(&shared);
        let thread = thread::Builder::new().name("commit".to_owned());
        let size = bytes.max(ZEROS_BYTES as u64);
        thread.spawn(move || {
            if let Err(error) = write_batches(&file, size, &committing) {
                eprintln!("postrider-lab: log: {error}");
                committing.failed.store(true, Ordering::Release);
                committing.done.notify_one();
            }
        })?;
        Ok(Log { shared, sessions: RefCell::default() })
    }

    /// Returns when `parts` are on stable storage.
    pub(super) async fn commit(&self, parts: &[&[u8]]) -> io::Result<()> {
        let batch = {
            let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let was_empty = waiting.bytes.is_empty();
            parts.iter().for_each(|part| waiting.bytes.extend_from_slice(part));
            if was_empty {
                self.shared.filled.notify_one();
            }
            waiting.batch
        };
        let (sender, receiver) = oneshot::channel();
        self.sessions.borrow_mut().push_back((batch, sender));
        receiver.await.map_err(|_| io::Error::other("the log has failed"))
    }

    /// Passes on what the commit thread tells: one wake-up across threads for a whole batch. Ends
    /// when the log has failed.
    pub(super) async fn follow(&self) -> io::Result<()> {
        loop {
            self.shared.done.notified().await;
            if self.shared.failed.load(Ordering::Acquire) {
                self.sessions.borrow_mut().clear();
                return Err(io::Error::other("the log has failed"));
            }
            let synced = self.shared.synced.load(Ordering::Acquire);
            let mut sessions = self.sessions.borrow_mut();
            while sessions.front().is_some_and(|(batch, _)| *batch < synced) {
                if let Some((_, session)) = sessions.pop_front() {
                    // A session that has ended doesn't listen any more.
                    let _ = session.send(());
                }
            }
        }
    }

    /// How many syncs there were.
    pub(super) fn syncs(&self) -> u64 {
        self.shared.synced.load(Ordering::Acquire)
    }
}

/// The commit thread: for ever, or until an error.
fn write_batches(file: &File, size: u64, shared: &LogState) -> io::Result<()> {
    let mut bytes = Vec::new();
    let mut at = 0;
    loop {
        let batch = {
            let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            while waiting.bytes.is_empty() {
                waiting = shared.filled.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut waiting.bytes, &mut bytes);
            waiting.batch += 1;
            waiting.batch
        };
        // Over and over; a batch larger than the file goes past its end.
        if at + bytes.len() as u64 > size {
            at = 0;
        }
        file.write_all_at(&bytes, at)?;
        file.sync_data()?;
        at += bytes.len() as u64;
        bytes.clear();
        shared.synced.store(batch, Ordering::Release);
        shared.done.notify_one();
    }
}
