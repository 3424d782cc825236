//! Signing keys in files that tables name, read on other threads so that no shard waits for a disk.

use crate::mutex::lock;
use crate::pem;
use crate::secret_place;
use crate::signing_keys::read_one;
use crate::under_way::HANGS_AFTER;
use auth::dkim::SigningKey;
use mta::answer::Answer;
use mta::seams::{KeyFiles, ReadKey};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// Maximum number of files that a shard reads at once. One that hangs occupies its thread. If that many hang, a further
/// file waits as long as a hanging one.
const READS_MAX: usize = 64;

/// The reader of one shard. Concurrent requests for a file share one read.
#[derive(Clone, Debug)]
pub(crate) struct NamedKeys {
    waiting: Arc<Mutex<KeyWaiters>>,
    reads: Arc<Semaphore>,
    /// Timeout for a file.
    wait_max: Duration,
}

/// Waiting callers for each file that is being read.
type KeyWaiters = BTreeMap<PathBuf, Vec<oneshot::Sender<ReadKey>>>;

impl Default for NamedKeys {
    fn default() -> NamedKeys {
        NamedKeys::waiting_for(HANGS_AFTER)
    }
}

impl NamedKeys {
    fn waiting_for(wait_max: Duration) -> NamedKeys {
        let reads = Arc::new(Semaphore::new(READS_MAX));
        NamedKeys { waiting: Arc::default(), reads, wait_max }
    }

    /// The result of `read` for a file; concurrent callers share one read.
    async fn read_once(
        self,
        path: PathBuf,
        read: impl FnOnce(&Path) -> ReadKey + Send + 'static,
    ) -> ReadKey {
        let (sender, receiver) = oneshot::channel();
        if !self.wait_beside_others(&path, sender) {
            // In a separate task, since this caller may be dropped before its turn.
            tokio::spawn(self.clone().read_in_turn(path.clone(), read));
        }
        match timeout(self.wait_max, receiver).await {
            Ok(read) => read.unwrap_or_else(|_| Err("the server is stopping".to_owned())),
            Err(_) => {
                let seconds = self.wait_max.as_secs();
                Err(format!("signing key {} has not responded for {seconds} s", path.display()))
            }
        }
    }

    async fn read_in_turn(
        self,
        path: PathBuf,
        read: impl FnOnce(&Path) -> ReadKey + Send + 'static,
    ) {
        let Ok(turn) = self.reads.acquire_owned().await else { return };
        if !is_waited_for(&self.waiting, &path) {
            return;
        }
        let read_and_answer = move || {
            let work = secret_place::reads().begin(path.display().to_string());
            let read = read(&path);
            drop((work, turn));
            let all = lock(&self.waiting).remove(&path).unwrap_or_default();
            all.into_iter().for_each(|one| drop(one.send(read.clone())));
        };
        drop(spawn_blocking(read_and_answer));
    }

    /// Joins the callers that wait for a file. Returns true if the file is being read already.
    fn wait_beside_others(&self, path: &Path, sender: oneshot::Sender<ReadKey>) -> bool {
        let mut waiting = lock(&self.waiting);
        let is_read = waiting.contains_key(path);
        let all = waiting.entry(path.to_owned()).or_default();
        // The other callers were dropped.
        all.retain(|one| !one.is_closed());
        all.push(sender);
        is_read
    }
}

/// Returns true if a caller still waits for the file; otherwise forgets it.
fn is_waited_for(waiting: &Mutex<KeyWaiters>, path: &Path) -> bool {
    let mut waiting = lock(waiting);
    let is_waited = waiting.get(path).is_some_and(|all| all.iter().any(|one| !one.is_closed()));
    if !is_waited {
        waiting.remove(path);
    }
    is_waited
}

impl KeyFiles for NamedKeys {
    fn read(&self, path: &Path) -> Answer<'static, ReadKey> {
        let read = |path: &Path| read_one(path).map(Arc::new);
        Answer::later(self.clone().read_once(path.to_owned(), read))
    }

    fn parse(&self, text: &str) -> ReadKey {
        let read = pem::key_in(text.as_bytes()).and_then(|key| {
            SigningKey::from_der(key.secret_der()).map_err(|error| error.to_string())
        });
        read.map(Arc::new).map_err(|why| format!("a signing key of a table: {why}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    /// A read that ends when the other end sends something, or is gone.
    fn hanging(
        count: &Arc<AtomicUsize>,
    ) -> (mpsc::Sender<()>, impl FnOnce(&Path) -> ReadKey + Send + use<>) {
        let (release, released) = mpsc::channel();
        let count = Arc::clone(count);
        let read = move |_: &Path| {
            count.fetch_add(1, Ordering::Relaxed);
            let _ = released.recv();
            Err("released".to_owned())
        };
        (release, read)
    }

    #[tokio::test]
    async fn a_file_that_hangs_is_read_once_and_no_other_waits_for_it() {
        let (keys, count) = (NamedKeys::waiting_for(SHORT), Arc::default());
        let mut releases = Vec::new();
        for _ in 0..3 {
            let (release, read) = hanging(&count);
            let late = keys.clone().read_once("/hangs".into(), read).await.unwrap_err();
            assert!(late.starts_with("signing key /hangs has not responded for "), "{late}");
            releases.push(release);
        }
        assert_eq!(count.load(Ordering::Relaxed), 1);
        let patient = NamedKeys { wait_max: LONG, ..keys };
        let other = patient.clone().read_once("/other".into(), |_| Err("read".to_owned())).await;
        assert_eq!(other.unwrap_err(), "read");
        // Who waits when it comes back has what was read.
        let (_release, never) = hanging(&count);
        let waits = patient.read_once("/hangs".into(), never);
        // It waits for the read before that ends, or it would begin another.
        let (waited, ()) = tokio::join!(biased; waits, async { releases.clear() });
        assert_eq!(waited.unwrap_err(), "released");
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn files_beyond_those_that_may_hang_at_once_wait_no_longer_and_are_read_later() {
        let (keys, count) = (NamedKeys::waiting_for(SHORT), Arc::default());
        let hang = async |n: usize| {
            let (release, read) = hanging(&count);
            let late = keys.clone().read_once(format!("/{n}").into(), read).await;
            assert!(late.unwrap_err().contains("has not responded"), "{n}");
            release
        };
        let mut releases = Vec::new();
        for n in 0..READS_MAX {
            releases.push(hang(n).await);
        }
        assert_eq!(count.load(Ordering::Relaxed), READS_MAX);
        releases.push(hang(READS_MAX).await);
        assert_eq!(count.load(Ordering::Relaxed), READS_MAX);
        releases.clear();
        // Others have come back: it has its turn, for whoever waits by then.
        let patient = NamedKeys { wait_max: LONG, ..keys.clone() };
        let path = format!("/{READS_MAX}");
        let (_release, never) = hanging(&count);
        assert_eq!(patient.read_once(path.into(), never).await.unwrap_err(), "released");
        assert_eq!(count.load(Ordering::Relaxed), READS_MAX + 1);
    }
}
