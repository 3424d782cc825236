//! Tasks and timers on a virtual clock, all in one thread.
//!
//! Tasks run in the order in which they were woken. When none can run, the clock jumps to the next
//! timer; timers of one moment fire in the order in which they were set. Nothing else decides what
//! happens next, so the same program gives the same history.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// Tasks that end together, as those of a process do when it crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskGroup(pub u32);

/// What is outside the node: clients, peers, the scenario itself.
pub const OUTSIDE: TaskGroup = TaskGroup(0);

/// The wall clock when the simulated world begins: 2026-11-18. (It jumps by adding to it.)
const WALL_MS: u64 = 1_795_000_000_000;

/// The wall clock, of which `offset_ms` is what it jumped.
#[must_use]
pub fn wall_ms(executor: &Executor, offset_ms: &Cell<i64>) -> u64 {
    (WALL_MS + executor.now_us() / 1_000).saturating_add_signed(offset_ms.get())
}

/// A moment that never comes.
const NEVER: u64 = u64::MAX;

type Boxed = Pin<Box<dyn Future<Output = ()>>>;

/// The tasks that were woken, oldest first.
type Woken = Mutex<VecDeque<u64>>;

fn lock(woken: &Woken) -> MutexGuard<'_, VecDeque<u64>> {
    woken.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TaskWaker {
    task: u64,
    /// It is in the queue already.
    queued: AtomicBool,
    woken: Arc<Woken>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            lock(&self.woken).push_back(self.task);
        }
    }
}

struct Task {
    group: TaskGroup,
    /// `None` while it is being polled.
    future: Option<Boxed>,
    waker: Arc<TaskWaker>,
}

enum Timer {
    Wake(Waker),
    Call(Box<dyn FnOnce()>),
}

/// When, and which of those that were set for then.
type TimerKey = (u64, u64);

struct Core {
    woken: Arc<Woken>,
    tasks: RefCell<BTreeMap<u64, Task>>,
    timers: RefCell<BTreeMap<TimerKey, Timer>>,
    /// Groups that have ended: nothing starts in them any more.
    ended: RefCell<BTreeSet<TaskGroup>>,
    now_us: Cell<u64>,
    /// Numbers tasks and timers.
    next: Cell<u64>,
    /// Polls so far, and of tasks outside [`OUTSIDE`].
    polls_count: Cell<u64>,
    inside_polls_count: Cell<u64>,
}

/// The scheduler; clones are the same one.
#[derive(Clone)]
pub struct Executor(Rc<Core>);

impl std::fmt::Debug for Executor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Executor").field("now_us", &self.0.now_us.get()).finish_non_exhaustive()
    }
}

impl Default for Executor {
    fn default() -> Executor {
        Executor(Rc::new(Core {
            woken: Arc::default(),
            tasks: RefCell::default(),
            timers: RefCell::default(),
            ended: RefCell::default(),
            now_us: Cell::new(0),
            next: Cell::new(0),
            polls_count: Cell::new(0),
            inside_polls_count: Cell::new(0),
        }))
    }
}

impl Executor {
    /// Microseconds since the beginning of the simulated world.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.0.now_us.get()
    }

    /// Polls of tasks so far.
    #[must_use]
    pub fn polls_count(&self) -> u64 {
        self.0.polls_count.get()
    }

    /// Polls so far of tasks that are not [`OUTSIDE`].
    #[must_use]
    pub fn inside_polls_count(&self) -> u64 {
        self.0.inside_polls_count.get()
    }

    fn number(&self) -> u64 {
        let number = self.0.next.get();
        self.0.next.set(number + 1);
        number
    }

    /// Starts a task; in a group that has ended it is dropped.
    pub fn spawn(&self, group: TaskGroup, task: impl Future<Output = ()> + 'static) {
        if self.0.ended.borrow().contains(&group) {
            return;
        }
        let id = self.number();
        let woken = Arc::clone(&self.0.woken);
        let waker = Arc::new(TaskWaker { task: id, queued: AtomicBool::new(false), woken });
        waker.wake_by_ref();
        let task = Task { group, future: Some(Box::pin(task)), waker };
        self.0.tasks.borrow_mut().insert(id, task);
    }

    /// Calls `call` at `at_us`, or now if that is past.
    pub fn call_at(&self, at_us: u64, call: impl FnOnce() + 'static) {
        let key = (at_us.max(self.now_us()), self.number());
        self.0.timers.borrow_mut().insert(key, Timer::Call(Box::new(call)));
    }

    /// Ends at `at_us`.
    #[must_use]
    pub fn sleep_until(&self, at_us: u64) -> Sleep {
        Sleep { executor: self.clone(), at_us, key: None }
    }

    /// Ends `after_us` from now.
    #[must_use]
    pub fn sleep(&self, after_us: u64) -> Sleep {
        self.sleep_until(self.now_us().saturating_add(after_us))
    }

    /// Runs until `stop` says so, looked at before each step. `false`: nothing is left that could
    /// ever happen.
    pub fn run(&self, mut stop: impl FnMut() -> bool) -> bool {
        while !stop() {
            let next = lock(&self.0.woken).pop_front();
            let went_on = match next {
                Some(task) => {
                    self.poll(task);
                    true
                }
                None => self.fire(),
            };
            if !went_on {
                return false;
            }
        }
        true
    }

    fn poll(&self, id: u64) {
        let taken = {
            let mut tasks = self.0.tasks.borrow_mut();
            tasks.get_mut(&id).and_then(|task| {
                task.waker.queued.store(false, Ordering::Relaxed);
                let future = task.future.take()?;
                Some((future, Arc::clone(&task.waker), task.group))
            })
        };
        // A waker of a task that is gone.
        let Some((mut future, waker, group)) = taken else { return };
        self.0.polls_count.set(self.0.polls_count.get() + 1);
        if group != OUTSIDE {
            self.0.inside_polls_count.set(self.0.inside_polls_count.get() + 1);
        }
        let waker = Waker::from(waker);
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => {
                self.0.tasks.borrow_mut().remove(&id);
            }
            Poll::Pending => {
                // Gone if its group ended meanwhile.
                if let Some(task) = self.0.tasks.borrow_mut().get_mut(&id) {
                    task.future = Some(future);
                }
            }
        }
    }

    /// Jumps to the next timer.
    fn fire(&self) -> bool {
        let first = self.0.timers.borrow_mut().pop_first();
        let Some(((at_us, _), timer)) = first else { return false };
        self.0.now_us.set(at_us);
        match timer {
            Timer::Wake(waker) => waker.wake(),
            Timer::Call(call) => call(),
        }
        true
    }

    /// Drops all tasks of a group where they stand. Not to be called from one of them.
    pub fn end(&self, group: TaskGroup) {
        self.0.ended.borrow_mut().insert(group);
        let ids: Vec<u64> = {
            let tasks = self.0.tasks.borrow();
            tasks.iter().filter(|(_, task)| task.group == group).map(|(&id, _)| id).collect()
        };
        for id in ids {
            // What a task drops may wake and end other things, so nothing is borrowed here.
            let task = self.0.tasks.borrow_mut().remove(&id);
            drop(task);
        }
    }

    /// Drops everything: tasks hold the executor, so that nothing would ever be freed.
    pub fn clear(&self) {
        let groups: BTreeSet<TaskGroup> = self.0.tasks.borrow().values().map(|t| t.group).collect();
        for group in groups {
            self.end(group);
        }
        let timers = std::mem::take(&mut *self.0.timers.borrow_mut());
        drop(timers);
    }
}

/// A timer.
#[derive(Debug)]
pub struct Sleep {
    executor: Executor,
    at_us: u64,
    /// Where it is set.
    key: Option<TimerKey>,
}

impl Sleep {
    /// Moves the end.
    pub fn reset(&mut self, at_us: u64) {
        self.unset();
        self.at_us = at_us;
    }

    fn unset(&mut self) {
        if let Some(key) = self.key.take() {
            let timer = self.executor.0.timers.borrow_mut().remove(&key);
            drop(timer);
        }
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.executor.now_us() >= self.at_us {
            self.unset();
            return Poll::Ready(());
        }
        if self.at_us == NEVER {
            return Poll::Pending;
        }
        let key = self.key.unwrap_or_else(|| (self.at_us, self.executor.number()));
        self.key = Some(key);
        let timer = Timer::Wake(cx.waker().clone());
        self.executor.0.timers.borrow_mut().insert(key, timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        self.unset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_jumps_and_order_is_that_of_setting() {
        let executor = Executor::default();
        let seen = Rc::new(RefCell::new(Vec::new()));
        for (name, after_us) in [("late", 50), ("first", 10), ("second", 10)] {
            let (executor, seen) = (executor.clone(), Rc::clone(&seen));
            let sleeper = executor.clone();
            executor.spawn(OUTSIDE, async move {
                sleeper.sleep(after_us).await;
                seen.borrow_mut().push((name, sleeper.now_us()));
            });
        }
        assert!(!executor.run(|| false), "nothing is left");
        assert_eq!(*seen.borrow(), [("first", 10), ("second", 10), ("late", 50)]);
    }

    #[test]
    fn a_group_that_ended_stays_ended_and_drops_what_it_held() {
        let executor = Executor::default();
        let held = Rc::new(());
        let (inner, kept) = (executor.clone(), Rc::clone(&held));
        executor.spawn(TaskGroup(1), async move {
            let _kept = kept;
            inner.sleep(1_000).await;
            unreachable!("the group ended before");
        });
        let end = executor.clone();
        executor.call_at(500, move || end.end(TaskGroup(1)));
        executor.run(|| false);
        assert_eq!(Rc::strong_count(&held), 1);
        executor.spawn(TaskGroup(1), async { unreachable!("nothing starts in it") });
        assert!(!executor.run(|| false));
    }

    #[test]
    fn a_timer_can_be_moved_both_ways() {
        let executor = Executor::default();
        let inner = executor.clone();
        executor.spawn(OUTSIDE, async move {
            let mut sleep = inner.sleep(100);
            let _ = std::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut sleep).poll(cx))).await;
            sleep.reset(40);
            sleep.await;
            assert_eq!(inner.now_us(), 40);
        });
        executor.run(|| false);
        assert_eq!(executor.now_us(), 40);
    }
}
