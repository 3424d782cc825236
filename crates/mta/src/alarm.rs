//! A timer with a deadline that moves often and is seldom reached.

use crate::seams::{Sleep, Time};
use mail::Mono;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

/// A timer that fires this much too late was delayed: the process did not run, because the machine was stopped or had
/// no processor time. Input of this period may be unread, too.
const LATE: Duration = Duration::from_secs(1);
/// Time to read that input before a timeout takes effect.
const LAST_LOOK: Duration = Duration::from_millis(100);

/// Wraps one timer of the runtime. Moving the deadline later costs nothing: the timer fires once at its old time and is
/// then set again. A busy session thus registers one timer in all.
///
/// If it fires late, since the process did not run, it waits for a short extra time. Input that has arrived by then is
/// read before the deadline counts as passed.
pub struct Alarm<T: Time> {
    time: T,
    timer: Option<Timer<T::Sleep>>,
    /// The deadline that passed while the process did not run, and the end of the extra time.
    last_look: Option<(Mono, Mono)>,
}

struct Timer<S> {
    at: Mono,
    sleep: S,
    /// It was set before its time.
    is_ahead: bool,
}

impl<S: Sleep> Timer<S> {
    fn set(&mut self, now: Mono, at: Mono) {
        (self.at, self.is_ahead) = (at, now < at);
        self.sleep.reset(at);
    }
}

impl<T: Time> Alarm<T> {
    /// An unset timer.
    pub fn new(time: T) -> Alarm<T> {
        Alarm { time, timer: None, last_look: None }
    }

    /// Ready once `deadline` has passed; otherwise wakes the task by then.
    pub fn poll(&mut self, cx: &mut Context<'_>, deadline: Mono) -> Poll<()> {
        if deadline == Mono::NEVER {
            return Poll::Pending;
        }
        let mut until = match self.last_look {
            Some((passed, until)) if passed == deadline => until,
            _ => deadline,
        };
        let time = &self.time;
        let timer = self.timer.get_or_insert_with(|| Timer {
            at: until,
            sleep: time.sleep_until(until),
            is_ahead: time.now() < until,
        });
        if timer.at > until {
            timer.set(time.now(), until);
        }
        while Pin::new(&mut timer.sleep).poll(cx).is_ready() {
            let now = time.now();
            if timer.is_ahead && now >= timer.at + LATE && until == deadline && until <= now {
                until = now + LAST_LOOK;
                self.last_look = Some((deadline, until));
            }
            if now >= until {
                // A timer that has fired must not be polled again; a new one is created if needed.
                self.timer = None;
                return Poll::Ready(());
            }
            timer.set(now, until);
        }
        Poll::Pending
    }

    pub async fn wait(&mut self, deadline: Mono) {
        poll_fn(|cx| self.poll(cx, deadline)).await;
    }

    /// Returns the output of `future`, or `None` once `deadline` has passed. `deadline` is called again each time the
    /// task is woken.
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

#[cfg(test)]
mod tests {
    use super::*;
    use mail::Wall;
    use std::cell::Cell;
    use std::rc::Rc;

    /// A manual clock; a timer is ready when polled after its time.
    #[derive(Clone)]
    struct Hand(Rc<Cell<Mono>>);

    struct Moment(Hand, Mono);

    impl Future for Moment {
        type Output = ();

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if self.0.now() >= self.1 { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    impl Sleep for Moment {
        fn reset(&mut self, at: Mono) {
            self.1 = at;
        }
    }

    impl Time for Hand {
        type Sleep = Moment;

        fn now(&self) -> Mono {
            self.0.get()
        }
        fn wall(&self) -> Wall {
            Wall(0)
        }
        fn sleep_until(&self, at: Mono) -> Moment {
            Moment(self.clone(), at)
        }
        fn random(&self) -> u64 {
            0
        }
    }

    fn alarm() -> (Hand, Alarm<Hand>, Context<'static>) {
        let clock = Hand(Rc::new(Cell::new(Mono(0))));
        let alarm = Alarm::new(clock.clone());
        (clock, alarm, Context::from_waker(std::task::Waker::noop()))
    }

    #[test]
    fn after_a_standstill_there_is_time_for_a_last_look() {
        let (clock, mut alarm, mut cx) = alarm();
        let deadline = Mono(0) + Duration::from_secs(5);
        assert!(alarm.poll(&mut cx, deadline).is_pending());
        let woken = Mono(0) + Duration::from_secs(9);
        clock.0.set(woken);
        assert!(alarm.poll(&mut cx, deadline).is_pending(), "what came is looked at first");
        clock.0.set(woken + LAST_LOOK);
        assert!(alarm.poll(&mut cx, deadline).is_ready(), "nothing came");
        assert!(alarm.poll(&mut cx, deadline).is_ready(), "and there is one look only");
        // There was input, and the next deadline is kept as usual.
        let next = woken + Duration::from_secs(5);
        assert!(alarm.poll(&mut cx, next).is_pending());
        clock.0.set(next);
        assert!(alarm.poll(&mut cx, next).is_ready());
    }

    #[test]
    fn a_timer_that_is_on_time_or_set_too_late_ends_at_once() {
        let (clock, mut alarm, mut cx) = alarm();
        let deadline = Mono(0) + Duration::from_secs(5);
        assert!(alarm.poll(&mut cx, deadline).is_pending());
        clock.0.set(deadline + LATE - Duration::from_millis(1));
        assert!(alarm.poll(&mut cx, deadline).is_ready(), "a busy machine is no standstill");
        clock.0.set(Mono(0) + Duration::from_secs(60));
        assert!(alarm.poll(&mut cx, deadline + Duration::from_secs(1)).is_ready());
    }
}
