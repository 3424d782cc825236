//! A timer whose deadline moves often and is seldom reached.

use crate::seams::{Sleep, Time};
use mail::Mono;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Wraps one timer of the runtime. Moving the deadline later costs nothing: the timer fires at
/// its old moment once and is set anew then, so that a busy session registers one timer in all.
pub struct Alarm<T: Time> {
    time: T,
    sleep: Option<(Mono, T::Sleep)>,
}

impl<T: Time> Alarm<T> {
    /// A timer that is not set.
    pub fn new(time: T) -> Alarm<T> {
        Alarm { time, sleep: None }
    }

    /// Ready once `deadline` has passed; otherwise wakes the task by then.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Mono) -> Poll<()> {
        if deadline == Mono::NEVER {
            return Poll::Pending;
        }
        let (at, sleep) = match &mut self.sleep {
            Some(armed) => (&mut armed.0, &mut armed.1),
            none => {
                let armed = none.insert((deadline, self.time.sleep_until(deadline)));
                (&mut armed.0, &mut armed.1)
            }
        };
        if *at > deadline {
            *at = deadline;
            sleep.reset(deadline);
        }
        while Pin::new(&mut *sleep).poll(cx).is_ready() {
            if self.time.now() >= deadline {
                // A timer that has fired must not be polled again: it is made anew if needed.
                self.sleep = None;
                return Poll::Ready(());
            }
            *at = deadline;
            sleep.reset(deadline);
        }
        Poll::Pending
    }

    /// Waits until `deadline`.
    pub async fn wait(&mut self, deadline: Mono) {
        std::future::poll_fn(|cx| self.poll(cx, deadline)).await;
    }
}

use std::future::Future as _;
