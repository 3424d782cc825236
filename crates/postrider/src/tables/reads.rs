//! Answers of files that have to be waited for: a page that is not in memory, on a disk that may be slow, damaged or
//! gone. Shards never wait for one; threads of their own do.

use crate::mutex::lock;
use lookup::{Entry, LookupError, LookupErrorKind};
use mta::answer::Answer;
use mta::console::Console;
use mta::seams::EntryLookup;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Maximum number of concurrent reads of one table. One that hangs occupies its place.
const READS_MAX: usize = 8;
/// Timeout of a lookup; the next lookup reads again.
const READ_MAX: Duration = Duration::from_secs(5);
/// Between two lines about one table.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// The reads of one table. Clones are the same.
#[derive(Clone)]
pub(super) struct Reads(Arc<ReadLimiter>);

struct ReadLimiter {
    name: Arc<str>,
    places: Arc<Semaphore>,
    read_max: Duration,
    console: Arc<dyn Console + Send + Sync>,
    told: Mutex<Option<Instant>>,
}

impl Reads {
    pub(super) fn new(name: &Arc<str>, console: &Arc<dyn Console + Send + Sync>) -> Reads {
        Reads::with_limit(READ_MAX, name, console)
    }

    fn with_limit(
        read_max: Duration,
        name: &Arc<str>,
        console: &Arc<dyn Console + Send + Sync>,
    ) -> Reads {
        Reads(Arc::new(ReadLimiter {
            name: Arc::clone(name),
            places: Arc::new(Semaphore::new(READS_MAX)),
            read_max,
            console: Arc::clone(console),
            told: Mutex::default(),
        }))
    }

    /// Returns an answer, and logs an error.
    pub(super) fn told(
        &self,
        found: Result<Option<Entry>, LookupError>,
    ) -> Result<Option<Arc<Entry>>, LookupError> {
        if let Err(trouble) = &found
            && trouble.kind != LookupErrorKind::Key
        {
            self.tell(trouble);
        }
        found.map(|entry| entry.map(Arc::new))
    }

    fn tell(&self, trouble: &LookupError) {
        let now = Instant::now();
        let mut told = lock(&self.0.told);
        if told.is_none_or(|at| now.saturating_duration_since(at) >= TOLD_EVERY) {
            *told = Some(now);
            drop(told);
            let (name, console): (_, &dyn Console) = (&self.0.name, &*self.0.console);
            console.error("tables", format_args!("table {name}: {trouble}"));
        }
    }

    /// Runs `find` on another thread.
    pub(super) fn later(
        &self,
        find: impl FnOnce() -> Result<Option<Entry>, LookupError> + Send + 'static,
    ) -> EntryLookup {
        let reads = self.clone();
        Answer::later(async move {
            let places = Arc::clone(&reads.0.places);
            let read = async {
                let place = places.acquire_owned().await.ok()?;
                let done = tokio::task::spawn_blocking(move || {
                    let _place = place;
                    find()
                });
                done.await.ok()
            };
            let found = match timeout(reads.0.read_max, read).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    Err(LookupError::new(LookupErrorKind::Unreachable, "the server is stopping"))
                }
                Err(_) => {
                    let text = format!("its file did not respond within {:?}", reads.0.read_max);
                    Err(LookupError::new(LookupErrorKind::Timeout, text))
                }
            };
            reads.told(found)
        })
    }
}

impl fmt::Debug for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reads").field("name", &self.0.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::ConsoleLog;
    use mta::console::Level;
    use std::sync::mpsc;

    fn reads() -> Reads {
        let console: Arc<dyn Console + Send + Sync> = Arc::new(ConsoleLog::stderr(Level::Error));
        Reads::with_limit(Duration::from_millis(20), &"t".into(), &console)
    }

    #[tokio::test]
    async fn reads_that_hang_are_given_up_and_keep_their_places() {
        let reads = reads();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        for _ in 0..READS_MAX + 2 {
            let released = Arc::clone(&released);
            let hung = reads.later(move || {
                let _ = lock(&released).recv();
                Ok(None)
            });
            assert_eq!(hung.get().await.unwrap_err().kind, LookupErrorKind::Timeout);
        }
        assert_eq!(reads.0.places.available_permits(), 0);
        drop(release);
        // They end now, and so others begin.
        let found = loop {
            let found = reads.later(|| Ok(Some(Entry::text("x")))).get().await;
            if found.is_ok() {
                break found;
            }
        };
        assert_eq!(found.unwrap().map(|entry| entry.text.clone()), Some("x".into()));
    }
}
