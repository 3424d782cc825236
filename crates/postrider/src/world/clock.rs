//! Clocks of the operating system, timers of tokio.

use mail::{Mono, Random, Wall};
use nix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The origin of [`Mono`]. All clocks of a process share one, so times are comparable between threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    instant: Instant,
    nanos: u64,
}

impl Start {
    pub(crate) fn now() -> Start {
        Start { instant: Instant::now(), nanos: monotonic_nanos() }
    }

    /// Time since then. Read many times for each message: `Instant` takes twice as long.
    pub(crate) fn elapsed(self) -> Mono {
        Mono(monotonic_nanos().saturating_sub(self.nanos) / 1_000)
    }
}

/// The clock behind `Instant`.
fn monotonic_nanos() -> u64 {
    // Every Linux that has epoll has this clock: no failure is hidden here.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |at| {
        (at.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec() as u64)
    })
}

/// Monotonic time since the process started, wall-clock time, chance.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Start,
    random: RefCell<Random>,
}

impl Clock {
    /// `seed` differs from shard to shard.
    pub(crate) fn new(start: Start, seed: u64) -> Clock {
        Clock { start, random: RefCell::new(Random::new(seed)) }
    }

    fn instant(&self, at: Mono) -> tokio::time::Instant {
        let at = self.start.instant.checked_add(std::time::Duration::from_micros(at.0));
        // Too far in the future to represent: use a year.
        let far = || Instant::now() + std::time::Duration::from_secs(365 * 86_400);
        tokio::time::Instant::from_std(at.unwrap_or_else(far))
    }
}

/// Milliseconds since 1970.
pub(crate) fn wall_now() -> Wall {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Wall(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// A number that differs from start to start, and with `number`; for jitter, not for secrets.
pub(crate) fn seed_of(number: u16) -> u64 {
    let mut bytes = [0; 8];
    // Without the kernel's help the time will do.
    if rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).is_err() {
        bytes = wall_now().0.to_le_bytes();
    }
    u64::from_le_bytes(bytes) ^ u64::from(number)
}

impl mta::seams::Time for Clock {
    type Sleep = Timer;

    fn now(&self) -> Mono {
        self.start.elapsed()
    }

    fn wall(&self) -> Wall {
        wall_now()
    }

    fn sleep_until(&self, at: Mono) -> Timer {
        let sleep = Box::pin(tokio::time::sleep_until(self.instant(at)));
        Timer { clock: self.clone(), sleep, woken: None }
    }

    /// For jitter and the order of hosts, not for secrets.
    fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }
}

/// A timer of tokio's.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: Clock,
    sleep: Pin<Box<tokio::time::Sleep>>,
    /// The task that tokio wakes when it fires.
    woken: Option<Waker>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // Each connection polls its timers on every event, some dozen times per message, and rarely has one fired. This
        // check costs a fifth of tokio's poll.
        let is_known = self.woken.as_ref().is_some_and(|woken| woken.will_wake(cx.waker()));
        if is_known && !self.sleep.is_elapsed() {
            return Poll::Pending;
        }
        let polled = self.sleep.as_mut().poll(cx);
        self.woken = polled.is_pending().then(|| cx.waker().clone());
        polled
    }
}

impl mta::seams::Sleep for Timer {
    fn reset(&mut self, at: Mono) {
        let at = self.clock.instant(at);
        self.sleep.as_mut().reset(at);
        // A timer that has fired wakes no task until it is polled again.
        self.woken = None;
    }
}
