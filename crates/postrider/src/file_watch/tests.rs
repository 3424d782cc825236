use super::*;
use std::sync::mpsc;

const PAUSE: Duration = Duration::from_millis(1);

#[test]
fn what_hangs_keeps_its_thread_and_the_rest_is_looked_at() {
    let watch = FileWatch::start().unwrap();
    let (seen, looks) = mpsc::channel();
    let mut hanging = Vec::new();
    for _ in 0..THREADS_MAX / 2 - 1 {
        let (let_go, hangs) = mpsc::channel::<()>();
        hanging.push(let_go);
        watch.add_every(PAUSE, None, move || hangs.recv().is_ok());
    }
    watch.add_every(PAUSE, None, move || seen.send(()).is_ok());
    // With all but one of their share hanging, the last one goes on.
    for _ in 0..THREADS_MAX {
        looks.recv().unwrap();
    }
    // Nobody looks any more once it has ended, and those that hang may end, too.
    drop((hanging, watch));
    while looks.recv().is_ok() {}
}

#[test]
fn file_systems_that_hang_leave_threads_for_another() {
    let watch = FileWatch::start().unwrap();
    let mut hanging = Vec::new();
    // Unknown places leave threads, too.
    for device in [1, 2, 3].map(|number| (number > 1).then(|| Device::numbered(number))) {
        for _ in 0..THREADS_MAX {
            let (let_go, hangs) = mpsc::channel::<()>();
            hanging.push(let_go);
            watch.add_every(PAUSE, device, move || hangs.recv().is_ok());
        }
    }
    let looks = [4, 5].map(|number| {
        let (seen, looks) = mpsc::channel();
        let device = Some(Device::numbered(number));
        watch.add_every(PAUSE, device, move || seen.send(()).is_ok());
        looks
    });
    for looks in &looks {
        (0..10).for_each(|_| looks.recv().unwrap());
    }
    drop(watch);
    drop(hanging);
}

#[test]
fn it_is_looked_at_until_it_is_over_and_threads_without_work_end() {
    let watch = FileWatch::start().unwrap();
    let (seen, looks) = mpsc::channel();
    let mut left = 5;
    watch.add_every(PAUSE, None, move || {
        seen.send(()).unwrap();
        left -= 1;
        left > 0
    });
    assert_eq!(looks.iter().count(), 5);
    let inner = Arc::clone(&watch.0);
    let state = lock(&inner.state);
    assert!(state.waiting.is_empty() && state.threads <= FREE_MAX, "{}", state.threads);
}

/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3_600);

fn jobs(watch: &Arc<FileWatch>, device: u64) -> FileJobs {
    FileJobs { watch: Arc::clone(watch), device: Some(Device::numbered(device)) }
}

#[test]
fn bell_runs_job_and_pauses_are_kept() {
    let watch = FileWatch::start().unwrap();
    let (ran, runs) = mpsc::channel();
    let (mut pauses, began) = (vec![NEVER, Duration::from_millis(20)], Instant::now());
    let bell = jobs(&watch, 1).add(move |_| {
        ran.send(began.elapsed()).unwrap();
        Some(pauses.pop().unwrap_or(NEVER))
    });
    let at: Vec<Duration> = (0..2).map(|_| runs.recv().unwrap()).collect();
    assert!(at[1] - at[0] >= Duration::from_millis(20), "{at:?}");
    for _ in 0..100 {
        bell.ring();
        runs.recv().unwrap();
    }
    // None without a ring.
    assert!(runs.try_recv().is_err());
}

#[test]
fn rings_during_a_run_lead_to_one_more() {
    let watch = FileWatch::start().unwrap();
    let ((ran, runs), (go_on, waits)) = (mpsc::channel(), mpsc::channel::<()>());
    let bell = jobs(&watch, 1).add(move |bell| {
        ran.send(bell.clone()).unwrap();
        waits.recv().unwrap();
        Some(NEVER)
    });
    let waker = runs.recv().unwrap();
    for _ in 0..10 {
        bell.ring();
        waker.wake_by_ref();
    }
    go_on.send(()).unwrap();
    runs.recv().unwrap();
    // It runs once more, and is not rung in that run.
    go_on.send(()).unwrap();
    let (seen, looks) = mpsc::channel();
    watch.add_every(PAUSE, None, move || seen.send(()).is_ok());
    (0..50).for_each(|_| looks.recv().unwrap());
    assert!(runs.try_recv().is_err());
    waker.wake();
    runs.recv().unwrap();
    go_on.send(()).unwrap();
}

#[test]
fn no_ring_from_many_threads_is_lost() {
    const THREADS: usize = 8;
    const EACH: usize = 5_000;
    let watch = FileWatch::start().unwrap();
    let (given, taken) = mpsc::channel();
    let (counted, counts) = mpsc::channel();
    let bell = jobs(&watch, 1).add(move |_| {
        counted.send(taken.try_iter().count()).unwrap();
        Some(NEVER)
    });
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (given, bell) = (given.clone(), &bell);
            scope.spawn(move || {
                for n in 0..EACH {
                    given.send(n).unwrap();
                    bell.ring();
                    if n % 100 == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
    });
    let mut left = THREADS * EACH;
    while left > 0 {
        // A ring that is lost leaves the last ones where they are.
        left -= counts.recv_timeout(Duration::from_secs(60)).unwrap();
    }
}

#[test]
fn job_that_hangs_stops_no_other_job() {
    let watch = FileWatch::start().unwrap();
    let (let_go, hangs) = mpsc::channel::<()>();
    let (began, runs) = mpsc::channel();
    let of_hanging = began.clone();
    let hanging = jobs(&watch, 1).add(move |_| {
        of_hanging.send(0).unwrap();
        hangs.recv().ok().map(|()| NEVER)
    });
    assert_eq!(runs.recv(), Ok(0));
    // On the same file system, on another one, and on an unknown one.
    let devices = [(1, Some(1)), (2, Some(2)), (3, None)];
    let bells = devices.map(|(number, device)| {
        let began = began.clone();
        let device = device.map(Device::numbered);
        FileJobs { watch: Arc::clone(&watch), device }.add(move |_| {
            began.send(number).unwrap();
            Some(NEVER)
        })
    });
    let mut first = [(); 3].map(|()| runs.recv().unwrap());
    first.sort_unstable();
    assert_eq!(first, [1, 2, 3]);
    hanging.ring();
    for (bell, number) in bells.iter().zip(1..) {
        for _ in 0..10 {
            bell.ring();
            assert_eq!(runs.recv(), Ok(number));
        }
    }
    // What rang while it hung runs it again.
    let_go.send(()).unwrap();
    assert_eq!(runs.recv(), Ok(0));
    let_go.send(()).unwrap();
}

#[test]
fn file_systems_that_hang_leave_threads_for_bells() {
    let watch = FileWatch::start().unwrap();
    let mut hanging = Vec::new();
    for device in [None, Some(Device::numbered(1))] {
        for _ in 0..THREADS_MAX {
            let (let_go, hangs) = mpsc::channel::<()>();
            hanging.push(let_go);
            watch.add_every(PAUSE, device, move || hangs.recv().is_ok());
        }
    }
    let (ran, runs) = mpsc::channel();
    let bell = jobs(&watch, 2).add(move |_| {
        ran.send(()).unwrap();
        Some(NEVER)
    });
    for _ in 0..100 {
        runs.recv().unwrap();
        bell.ring();
    }
    runs.recv().unwrap();
    drop((hanging, bell));
}

#[test]
fn job_ends_with_its_bell_or_its_owner() {
    let watch = FileWatch::start().unwrap();
    let (jobs, owner) = (jobs(&watch, 1), Arc::new(()));
    // Dropped with the job: then the channel is closed.
    let ((ran, runs), (followed, follows)) = (mpsc::channel(), mpsc::channel());
    let bell = jobs.add(move |_| ran.send(()).ok().map(|()| NEVER));
    let follower = jobs.follow(&owner, move |_| {
        followed.send(()).unwrap();
        NEVER
    });
    assert!(runs.recv().is_ok() && follows.recv().is_ok());
    drop(bell);
    assert!(runs.recv().is_err());
    drop(owner);
    follower.ring();
    assert!(follows.recv().is_err());
    let inner = Arc::clone(&watch.0);
    while lock(&inner.state).looking > 0 {
        thread::yield_now();
    }
    let state = lock(&inner.state);
    assert!(state.waiting.is_empty() && state.dues.is_empty());
}

#[test]
fn bell_dropped_during_a_run_or_by_a_job_ends_its_job() {
    let watch = FileWatch::start().unwrap();
    let jobs = jobs(&watch, 1);
    let ((ran, runs), (go_on, waits)) = (mpsc::channel(), mpsc::channel::<()>());
    let bell = jobs.add(move |_| {
        ran.send(()).unwrap();
        waits.recv().ok().map(|()| NEVER)
    });
    runs.recv().unwrap();
    // A job that ends drops the bell of the one that runs.
    let (ended, ends) = mpsc::channel();
    let mut owned = Some(bell);
    let _other = jobs.add(move |_| {
        drop(owned.take());
        ended.send(()).unwrap();
        None
    });
    assert!(ends.recv().is_ok() && ends.recv().is_err());
    go_on.send(()).unwrap();
    assert!(runs.recv().is_err());
}
