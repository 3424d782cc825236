//! Load test of a pool in this program. A hundred networks of unauthenticated clients fill it. Of a hundred requests
//! from well-behaved clients none is refused, 95 are served promptly, and the list of problems names the pool under
//! load.

use mail::{Mono, Wall};
use mta::pools::{POOLS, PoolId};
use mta::pressure::Pressures;
use mta::problems::{ClockReading, Problem, Problems};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A hundred networks: /64s of one /48, and IPv4 addresses far apart.
pub(crate) fn hostile(n: u16) -> IpAddr {
    match n % 2 {
        0 => Ipv6Addr::new(0x2001, 0xdb8, 7, n / 2 % 50, 0, 0, 0, 9).into(),
        _ => Ipv4Addr::new(198, 18, (n / 2 % 50) as u8, 9).into(),
    }
}

/// Networks of well-behaved clients.
pub(crate) fn healthy(n: u8) -> IpAddr {
    Ipv4Addr::new(203, 0, n, 7).into()
}

/// A pool, as the list of problems has it.
pub(crate) struct PoolGauge {
    word: &'static str,
    pub(crate) pools: Arc<Pressures>,
    problems: Problems,
    started: Instant,
}

impl PoolGauge {
    pub(crate) fn new(id: PoolId) -> PoolGauge {
        let pool = POOLS.iter().find(|pool| pool.id == id).expect("it is in the list");
        let (pools, problems) = (Arc::<Pressures>::default(), Problems::default());
        problems.register(Arc::clone(&pools) as _);
        PoolGauge { word: pool.word(), pools, problems, started: Instant::now() }
    }

    /// The pool's problem in `status`, if any.
    pub(crate) fn shown(&self) -> Option<Problem> {
        let elapsed = self.started.elapsed();
        let wall = Wall(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        let all = self.problems.ask(ClockReading { mono: Mono(0) + elapsed, wall });
        all.into_iter().find(|problem| problem.kind == "pool" && problem.about == self.word)
    }

    /// A hundred requests, one after the other. `ask` asserts that none is refused, and returns its wait in a unit of
    /// its choice.
    pub(crate) async fn hundred(&self, soon: u64, mut ask: impl AsyncFnMut(u8) -> u64) {
        let (mut waits, mut shown) = (Vec::new(), 0);
        for n in 0..100 {
            waits.push(ask(n).await);
            let problem = self.shown();
            shown += usize::from(problem.is_some_and(|problem| !problem.next_step.is_empty()));
        }
        let late = waits.iter().filter(|waited| **waited > soon).count();
        assert!(late <= 5, "{}: {late} waited for more than {soon}: {waits:?}", self.word);
        // Of the five that may be late none waits for long.
        assert!(waits.iter().all(|waited| *waited <= 3 * soon), "{}: {waits:?}", self.word);
        assert!(shown >= 95, "{}: the pressure was shown {shown} times", self.word);
    }
}

/// Duration in milliseconds of tokio's clock.
pub(crate) async fn millis<T>(asked: impl Future<Output = T>) -> (T, u64) {
    let began = Instant::now();
    let answer = asked.await;
    (answer, u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// Runs a test with a clock that advances when all tasks are idle.
pub(crate) fn play<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await });
}

/// As soon as an answer may be, in milliseconds; of a lookup twice as long.
pub(crate) const SOON_MS: u64 = Duration::from_secs(1).as_millis() as u64;
