//! Work on files that is under way: whoever asks sees what has not come back for long, from outside the thread
//! that hangs.

use crate::mutex::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Work that takes longer hangs, as far as people are concerned.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(5);

/// What work came to that may hang, on a thread of its own; `None`: it has not come back for so long.
pub(crate) fn waited_for<T: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, when_done) = mpsc::sync_channel(1);
    let thread = thread::Builder::new().name("waited-for".to_owned());
    thread.spawn(move || drop(done.send(work()))).ok()?;
    when_done.recv_timeout(limit).ok()
}

/// All that is under way. Clones are of one.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnderWay(Arc<Mutex<Works>>);

#[derive(Debug, Default)]
struct Works {
    next: u64,
    works: BTreeMap<u64, (Instant, String)>,
}

/// Work that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Work {
    under_way: UnderWay,
    number: u64,
}

impl UnderWay {
    /// Begins some; `what` reads on as "… has not answered for 7 s".
    pub(crate) fn begin(&self, what: impl Into<String>) -> Work {
        let mut all = lock(&self.0);
        let number = all.next;
        all.next += 1;
        all.works.insert(number, (Instant::now(), what.into()));
        Work { under_way: self.clone(), number }
    }

    /// A sentence for all that hangs, the oldest first.
    pub(crate) fn problems(&self) -> Vec<String> {
        self.hanging(HANGS_AFTER)
    }

    fn hanging(&self, after: Duration) -> Vec<String> {
        let all = lock(&self.0);
        let hanging = all.works.values().filter_map(|(since, what)| {
            let wait = since.elapsed();
            (wait >= after).then(|| format!("{what} has not answered for {} s", wait.as_secs()))
        });
        hanging.collect()
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        lock(&self.under_way.0).works.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_long_is_named_until_it_ends() {
        let under_way = UnderWay::default();
        let first = under_way.clone().begin("/mnt/a");
        let second = under_way.begin("/mnt/b");
        assert_eq!(under_way.problems(), [""; 0]);
        let all = ["/mnt/a has not answered for 0 s", "/mnt/b has not answered for 0 s"];
        assert_eq!(under_way.hanging(Duration::ZERO), all);
        drop(first);
        assert_eq!(under_way.hanging(Duration::ZERO), all[1..]);
        drop(second);
        assert_eq!(under_way.hanging(Duration::ZERO), [""; 0]);
    }
}
