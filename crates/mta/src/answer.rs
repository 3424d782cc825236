//! Answers that are available at once, or later.

use mail::Refusal;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// A pending answer.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// A result that is available at once, without an allocation (the usual case), or later.
pub enum Answer<'a, T> {
    Now(T),
    /// Pending.
    Later(Later<'a, T>),
}

/// Acceptance or rejection of a command.
pub type Decision<'a, T> = Answer<'a, Result<T, Refusal>>;

impl<'a, T> Answer<'a, T> {
    /// An answer that is the output of `future`.
    pub fn later(future: impl Future<Output = T> + 'a) -> Answer<'a, T> {
        Answer::Later(Box::pin(future))
    }

    /// Continues with `next`, which may have to be waited for, too.
    pub fn then<U>(self, next: impl FnOnce(T) -> Answer<'a, U> + 'a) -> Answer<'a, U>
    where
        T: 'a,
        U: 'a,
    {
        match self {
            Answer::Now(answer) => next(answer),
            Answer::Later(later) => Answer::later(async move {
                match next(later.await) {
                    Answer::Now(answer) => answer,
                    Answer::Later(later) => later.await,
                }
            }),
        }
    }

    /// Waits for the answer, if it is pending.
    pub async fn get(self) -> T {
        match self {
            Answer::Now(answer) => answer,
            Answer::Later(later) => later.await,
        }
    }
}

/// The outputs of all, in their order; they are polled concurrently.
pub async fn all<T>(waiting: Vec<Later<'_, T>>) -> Vec<T> {
    let mut waiting: Vec<(Later<'_, T>, Option<T>)> =
        waiting.into_iter().map(|later| (later, None)).collect();
    poll_fn(|cx| {
        let mut is_done = true;
        for (later, answer) in waiting.iter_mut().filter(|(_, answer)| answer.is_none()) {
            match later.as_mut().poll(cx) {
                Poll::Ready(ready) => *answer = Some(ready),
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, answer)| answer).collect()
}

impl Decision<'_, ()> {
    /// Accepted.
    #[must_use]
    pub fn pass() -> Self {
        Answer::Now(Ok(()))
    }
}
