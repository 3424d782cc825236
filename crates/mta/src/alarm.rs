//! A timer whose deadline moves often and is seldom reached.

use crate::seams::{Sleep, Time};
use mail::Mono;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
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

    pub async fn wait(&mut self, deadline: Mono) {
        poll_fn(|cx| self.poll(cx, deadline)).await;
    }

    /// What `future` gives, or `None` once `deadline` has passed, which is asked for anew each time
    /// the task is woken.
    pub async fn within<F: Future>(
        &mut self,
        mut deadline: impl FnMut(&mut Context<'_>) -> Mono,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => {
                let deadline = deadline(cx);
                self.poll(cx, deadline).map(|()| None)
            }
        })
        .await
    }
}
