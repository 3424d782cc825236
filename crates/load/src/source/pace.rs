//! When messages go out.
//!
//! Closed loop: each session takes the next as soon as it has the answer to the last. Open loop:
//! message n is due at n/rate, whether or not the relay keeps up, and its time runs from that
//! moment, so a relay that stalls can't hide it by slowing the source down (coordinated omission).

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};

/// The pacing thread looks this often whether it is still wanted.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Leave to send one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The moment its time runs from.
    pub intended: Instant,
}

/// Hands out tickets.
#[derive(Debug)]
pub struct Pace {
    total: u64,
    issued: Cell<u64>,
    stopped: Cell<bool>,
    paused: Cell<bool>,
    resumed: Notify,
    start: Instant,
    /// Messages per second; `None` is closed loop.
    rate: Option<f64>,
    /// Open loop: what is due and not yet taken.
    due: Arc<Semaphore>,
}

impl Pace {
    /// For `total` messages, from now.
    #[must_use]
    pub fn new(total: u64, rate: Option<f64>) -> Pace {
        Pace {
            total,
            issued: Cell::new(0),
            stopped: Cell::new(false),
            paused: Cell::new(false),
            resumed: Notify::new(),
            start: Instant::now(),
            rate,
            due: Arc::new(Semaphore::new(0)),
        }
    }

    /// When the run began.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Waits for leave to send; `None` when all are taken or the run is to stop.
    pub async fn next(&self) -> Option<Ticket> {
        while self.paused.get() && !self.stopped.get() {
            self.resumed.notified().await;
        }
        if self.rate.is_some() {
            self.due.acquire().await.ok()?.forget();
        }
        let number = self.issued.get();
        if self.stopped.get() || number == self.total {
            return None;
        }
        self.issued.set(number + 1);
        let intended = match self.rate {
            Some(rate) => self.start + due_after(number, rate),
            None => Instant::now(),
        };
        Some(Ticket { intended })
    }

    /// How many tickets there are in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The run is to stop.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stopped.get()
    }

    /// No more tickets.
    pub fn stop(&self) {
        self.stopped.set(true);
        self.due.close();
        self.resumed.notify_waiters();
    }

    /// Gives out nothing until [`Pace::resume`].
    pub fn pause(&self) {
        self.paused.set(true);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.paused.set(false);
        self.resumed.notify_waiters();
    }

    /// Open loop: begins to release tickets to so many sessions, each when it falls due.
    ///
    /// From a thread of its own: tokio's timers tick in milliseconds, which would be added to each
    /// latency.
    pub fn begin(&self, sessions: usize) -> io::Result<()> {
        let Some(rate) = self.rate else { return Ok(()) };
        let (start, total, due) = (self.start, self.total, Arc::clone(&self.due));
        let pacing = thread::Builder::new().name("pace".to_owned());
        pacing.spawn(move || release(start, total, rate, &due, sessions))?;
        Ok(())
    }
}

/// Releases `total` tickets, then one more to each session, so that all learn of the end. Ends when
/// the semaphore is closed.
fn release(start: Instant, total: u64, rate: f64, due: &Semaphore, sessions: usize) {
    let mut released = 0;
    while released < total {
        let passed = (start.elapsed().as_secs_f64() * rate) as u64;
        let target = passed.saturating_add(1).clamp(released, total);
        due.add_permits(usize::try_from(target - released).unwrap_or(0));
        released = target;
        loop {
            let wait = due_after(released, rate).saturating_sub(start.elapsed());
            if due.is_closed() {
                return;
            }
            if wait.is_zero() || released == total {
                break;
            }
            thread::sleep(wait.min(LOOK_INTERVAL));
        }
    }
    due.add_permits(sessions);
}

fn due_after(number: u64, rate: f64) -> Duration {
    Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::cell::Cell;
    use std::time::Duration;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(future)
    }

    #[test]
    fn closed_loop_gives_all_at_once() {
        let pace = Pace::new(3, None);
        block_on(async {
            for _ in 0..3 {
                assert!(pace.next().await.is_some());
            }
            assert_eq!(pace.next().await, None);
        });
    }

    #[test]
    fn open_loop_keeps_the_rate_and_the_intended_times() {
        let pace = Pace::new(100, Some(1000.0));
        pace.begin(1).expect("a thread");
        let tickets = block_on(async {
            let mut tickets = Vec::new();
            while let Some(ticket) = pace.next().await {
                tickets.push(ticket);
                // A receiver that stalls: the intended times must not move.
                if tickets.len() == 20 {
                    tokio::time::sleep(Duration::from_millis(30)).await;
                }
            }
            tickets
        });
        assert_eq!(tickets.len(), 100);
        for (n, ticket) in (0..).zip(&tickets) {
            assert_eq!((ticket.intended - pace.start()).as_millis(), n, "of message {n}");
        }
        let elapsed = pace.start().elapsed();
        assert!(elapsed >= Duration::from_millis(99), "{elapsed:?}");
    }

    #[test]
    fn a_pause_lasts_until_it_is_resumed_or_all_is_stopped() {
        let pace = Pace::new(3, None);
        block_on(async {
            assert!(pace.next().await.is_some());
            pace.pause();
            let resumed = Cell::new(false);
            let resume = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                resumed.set(true);
                pace.resume();
            };
            let next = async { (pace.next().await.is_some(), resumed.get()) };
            assert_eq!(tokio::join!(next, resume).0, (true, true));
            pace.pause();
            let stop = async { pace.stop() };
            assert_eq!(tokio::join!(pace.next(), stop).0, None);
        });
    }

    #[test]
    fn stop_wakes_who_waits() {
        let pace = Pace::new(100, Some(0.001));
        pace.begin(1).expect("a thread");
        block_on(async {
            assert!(pace.next().await.is_some());
            let stop = async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                pace.stop();
            };
            // The second is due after 1,000 seconds.
            let (second, ()) = tokio::join!(pace.next(), stop);
            assert_eq!(second, None);
        });
    }
}
