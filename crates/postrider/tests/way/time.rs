//! tokio's paused clock as the node's, and a wall clock that can be set back.

use mail::{Mono, Wall};
use mta::seams::{Sleep, Time};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;

/// The wall clock when the world begins: 2026-11-18.
pub(crate) const WALL_MS: u64 = 1_795_000_000_000;

/// tokio's clock; chance is a counter.
#[derive(Clone)]
pub(crate) struct TestTime {
    start: Instant,
    /// What the wall clock was set back by.
    set_back_ms: Rc<Cell<u64>>,
    random: Rc<Cell<u64>>,
}

impl TestTime {
    pub(crate) fn new() -> TestTime {
        TestTime {
            start: Instant::now(),
            set_back_ms: Rc::default(),
            random: Rc::new(Cell::new(1)),
        }
    }

    /// The wall clock is set back by so many seconds.
    pub(crate) fn set_back(&self, seconds: u64) {
        self.set_back_ms.set(self.set_back_ms.get() + seconds * 1_000);
    }
}

impl Time for TestTime {
    type Sleep = Timer;

    fn now(&self) -> Mono {
        Mono(u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> Wall {
        Wall(WALL_MS + self.now().0 / 1_000 - self.set_back_ms.get())
    }

    fn sleep_until(&self, at: Mono) -> Timer {
        let mut timer = Timer { start: self.start, sleep: None };
        timer.reset(at);
        timer
    }

    fn random(&self) -> u64 {
        self.random.set(self.random.get().wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1));
        self.random.get()
    }
}

/// A timer of tokio's; `None` for a moment that never comes.
pub(crate) struct Timer {
    start: Instant,
    sleep: Option<Pin<Box<tokio::time::Sleep>>>,
}

impl Future for Timer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.sleep {
            Some(sleep) => sleep.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

impl Sleep for Timer {
    fn reset(&mut self, at: Mono) {
        // tokio's clock goes on to the next timer when nobody has anything to do: one that is a
        // century away must not be that.
        let far = Mono(100 * 365 * 86_400 * 1_000_000);
        self.sleep = (at < far).then(|| {
            let at = self.start + Duration::from_micros(at.0);
            Box::pin(tokio::time::sleep_until(at))
        });
    }
}
