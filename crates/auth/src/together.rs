//! Waiting for several things at once.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

/// Maximum work of a task before it yields, in units of [`WorkBudget::spend`]: a few hundred microseconds.
const WORK_MAX: u32 = 32;

/// Yields to other tasks of the shard between pieces of work: one message must not delay the rest.
#[derive(Debug, Default)]
pub(crate) struct WorkBudget(Cell<u32>);

impl WorkBudget {
    /// Counts work that comes next. A unit takes about as long as to verify a signature with an RSA key of 1,024
    /// bits.
    pub(crate) async fn spend(&self, units: u32) {
        let spent = self.0.get();
        if spent > 0 && spent + units > WORK_MAX {
            self.0.set(units);
            give_way().await;
        } else {
            self.0.set(spent + units);
        }
    }
}

/// Others that are ready run first.
async fn give_way() {
    let mut has_given = false;
    poll_fn(|cx| {
        if has_given {
            return Poll::Ready(());
        }
        has_given = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Awaits both concurrently; returns both results.
pub(crate) async fn both<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut of_a, mut of_b) = (None, None);
    poll_fn(|cx| {
        if of_a.is_none()
            && let Poll::Ready(done) = a.as_mut().poll(cx)
        {
            of_a = Some(done);
        }
        if of_b.is_none()
            && let Poll::Ready(done) = b.as_mut().poll(cx)
        {
            of_b = Some(done);
        }
        match (of_a.take(), of_b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (of_a, of_b) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// A future, and its result.
type JoinedFuture<F> = (Pin<Box<F>>, Option<<F as Future>::Output>);

/// Awaits all concurrently; returns the results in order.
pub async fn all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut waiting: Vec<JoinedFuture<F>> =
        futures.map(|future| (Box::pin(future), None)).collect();
    poll_fn(|cx| {
        let mut are_done = true;
        for (future, done) in waiting.iter_mut().filter(|(_, done)| done.is_none()) {
            match future.as_mut().poll(cx) {
                Poll::Ready(output) => *done = Some(output),
                Poll::Pending => are_done = false,
            }
        }
        if are_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    waiting.into_iter().filter_map(|(_, done)| done).collect()
}
