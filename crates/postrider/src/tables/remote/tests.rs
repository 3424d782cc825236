//! Tables over scripted servers: slow, dead, wrong, half, and away for a while. Real threads and real
//! time, as in the program.

use super::shared::RemoteAnswer;
use super::status::RemoteStatus;
use super::{Health, Remote, TableThread};
use crate::mutex::lock;
use crate::tables::testing::CapturedConsole;
use crate::world::clock::Start;
use config::TableCache;
use lookup::{Answers, Backend, Cached, Entry, Fetch, LookupError, LookupErrorKind, PAUSE_FIRST};
use mta::answer::Answer;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Says of each key the key itself; of those that begin with `no`, that it has none.
    Well,
    /// Refuses connections.
    Dead,
    /// Takes a request and says nothing.
    Hangs,
    /// Answers with nonsense.
    Wrong,
    /// Answers for all keys but the last.
    Half,
    /// Has lost its data.
    Empty,
}

/// A server, as its driver and the tests see it.
struct Server {
    mode: Mutex<Mode>,
    delay: Mutex<Duration>,
    requests: AtomicUsize,
    under_way: AtomicUsize,
    under_way_max: AtomicUsize,
    /// How often each key was asked for.
    keys: Mutex<BTreeMap<String, usize>>,
    is_driver_gone: AtomicBool,
}

impl Server {
    fn new(mode: Mode, delay: Duration) -> Arc<Server> {
        Arc::new(Server {
            mode: Mutex::new(mode),
            delay: Mutex::new(delay),
            requests: AtomicUsize::default(),
            under_way: AtomicUsize::default(),
            under_way_max: AtomicUsize::default(),
            keys: Mutex::default(),
            is_driver_gone: AtomicBool::default(),
        })
    }

    fn set(&self, mode: Mode) {
        *lock(&self.mode) = mode;
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    fn answers(mode: Mode, keys: &[Box<str>]) -> Answers {
        let trouble = |kind, text: &str| Err(LookupError::new(kind, text));
        let answer = |key: &str| match mode {
            Mode::Dead => trouble(LookupErrorKind::Unreachable, "connection refused"),
            Mode::Wrong => trouble(LookupErrorKind::Wrong, "not an answer"),
            Mode::Empty => Ok(None),
            _ if key.starts_with("no") => Ok(None),
            _ => Ok(Some(Entry::text(key))),
        };
        let count = if mode == Mode::Half { keys.len() - 1 } else { keys.len() };
        keys.iter().take(count).map(|key| answer(key)).collect()
    }
}

/// A driver that keeps to one thread.
struct Driver {
    server: Arc<Server>,
    batch_max: usize,
    _keeps_to_its_thread: std::rc::Rc<()>,
}

/// A request under way, however it ends.
struct Trip<'a>(&'a Server);

impl Drop for Trip<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backend for Driver {
    fn batch_max(&self) -> usize {
        self.batch_max
    }

    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(async move {
            let server = &*self.server;
            server.requests.fetch_add(1, Ordering::Relaxed);
            let under_way = server.under_way.fetch_add(1, Ordering::Relaxed) + 1;
            server.under_way_max.fetch_max(under_way, Ordering::Relaxed);
            let _trip = Trip(server);
            assert!(keys.len() <= self.batch_max);
            for key in keys {
                *lock(&server.keys).entry(key.to_string()).or_default() += 1;
            }
            let delay = *lock(&server.delay);
            if !delay.is_zero() {
                tokio::time::sleep(delay).await;
            }
            let mode = *lock(&server.mode);
            if mode == Mode::Hangs {
                std::future::pending::<()>().await;
            }
            Server::answers(mode, keys)
        })
    }

    fn server(&self) -> Option<String> {
        Some("ldap://one.test".to_owned())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.server.is_driver_gone.store(true, Ordering::Relaxed);
    }
}

/// A table over a scripted server.
struct Stand {
    server: Arc<Server>,
    console: Arc<CapturedConsole>,
    thread: Option<TableThread>,
    remote: Remote,
}

impl Stand {
    fn new(server: &Arc<Server>, cache: &TableCache) -> Stand {
        Stand::with_batches(server, cache, 1)
    }

    fn with_batches(server: &Arc<Server>, cache: &TableCache, batch_max: usize) -> Stand {
        let console = Arc::new(CapturedConsole::default());
        let thread = TableThread::start(Start::now(), Arc::clone(&console) as _).unwrap();
        let of_driver = Arc::clone(server);
        let build = move || -> Box<dyn Backend> {
            let _keeps_to_its_thread = std::rc::Rc::default();
            Box::new(Driver { server: of_driver, batch_max, _keeps_to_its_thread })
        };
        let remote = thread.open("users".into(), cache, build);
        Stand { server: Arc::clone(server), console, thread: Some(thread), remote }
    }

    fn lines(&self) -> Vec<String> {
        self.console.lines()
    }

    /// Waits until `is_so`.
    fn until(&self, what: &str, is_so: impl Fn(&Stand) -> bool) {
        let began = Instant::now();
        while !is_so(self) {
            assert!(
                began.elapsed() < Duration::from_secs(30),
                "{what}: {:?}",
                self.remote.status()
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn status(&self) -> RemoteStatus {
        self.remote.status()
    }

    fn is_silent(&self) -> bool {
        self.remote.shared.metrics.silent.get() == 1
    }
}

fn cache() -> TableCache {
    TableCache {
        positive: Duration::from_secs(600),
        negative: Duration::from_secs(600),
        stale: Duration::from_secs(600),
        entries_max: 100_000,
        requests_max: 16,
        waiting_max: 10_000,
        timeout: Duration::from_secs(20),
    }
}

/// Nothing counts for long, and everything serves while the server is away.
fn short_lived() -> TableCache {
    TableCache { positive: Duration::from_millis(1), negative: Duration::from_millis(1), ..cache() }
}

/// What a table says, waited for.
fn said(remote: &Remote, key: &str) -> RemoteAnswer {
    block_on(remote.find(key).get())
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().build().unwrap().block_on(future)
}

fn text(said: &RemoteAnswer) -> Option<&str> {
    said.as_ref().unwrap().as_deref().map(|entry| &*entry.text)
}

fn kind(said: &RemoteAnswer) -> LookupErrorKind {
    said.as_ref().unwrap_err().kind
}

/// Many callers at once: what each is said, in the order of the keys.
fn all_said(remote: &Remote, keys: &[String]) -> Vec<RemoteAnswer> {
    // `find` asks: all are under way before the first is waited for.
    let found: Vec<_> = keys.iter().map(|key| remote.find(key)).collect();
    block_on(async move {
        let mut all = Vec::new();
        for found in found {
            all.push(found.get().await);
        }
        all
    })
}

#[test]
fn what_is_known_is_said_at_once_and_the_rest_is_asked_for() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let stand = Stand::new(&server, &cache());
    let Answer::Later(later) = stand.remote.find("jo") else { panic!("nothing is known yet") };
    assert_eq!(text(&block_on(later)), Some("jo"));
    assert_eq!(text(&said(&stand.remote, "nobody")), None);
    for (key, expected) in [("jo", Some("jo")), ("nobody", None)] {
        let Answer::Now(now) = stand.remote.find(key) else { panic!("{key} is known") };
        assert_eq!(text(&now), expected);
    }
    let status = stand.status();
    assert_eq!((status.health, status.server.as_deref()), (Health::Well, Some("ldap://one.test")));
    assert_eq!((status.hits, status.stale_hits, status.cached), (2, 0, 2));
    assert_eq!((status.misses, status.requests, status.troubles.len()), (2, 2, 0));
    assert!(status.latency.is_some());
    assert_eq!((status.waiting, status.under_way), (0, 0));
    assert!(stand.lines().is_empty());
}

#[test]
fn ten_thousand_equal_keys_from_eight_threads_are_one_request() {
    let server = Server::new(Mode::Well, Duration::from_millis(200));
    let stand = Stand::new(&server, &cache());
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let keys = vec!["jo".to_owned(); 1_250];
                for answer in all_said(&stand.remote, &keys) {
                    assert_eq!(text(&answer), Some("jo"));
                }
            });
        }
    });
    assert_eq!(server.requests(), 1);
    assert_eq!(stand.status().requests, 1);
}

#[test]
fn hundreds_of_callers_share_few_requests_and_each_gets_its_own_answer() {
    let server = Server::new(Mode::Well, Duration::from_millis(2));
    let limits = TableCache { requests_max: 4, ..cache() };
    let stand = Stand::with_batches(&server, &limits, 32);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let remote = &stand.remote;
            scope.spawn(move || {
                let keys: Vec<String> =
                    (0..500).map(|n| format!("user{}", n * 8 + thread)).collect();
                for (key, answer) in keys.iter().zip(all_said(remote, &keys)) {
                    assert_eq!(text(&answer), Some(&**key));
                }
            });
        }
    });
    assert!(server.under_way_max.load(Ordering::Relaxed) <= 4);
    assert!(lock(&server.keys).values().all(|count| *count == 1), "each key is asked for once");
    assert!(server.requests() < 2_000, "{} requests for 4000 keys", server.requests());
}

#[test]
fn a_server_that_dies_leaves_stale_answers_and_comes_back_without_a_restart() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let stand = Stand::new(&server, &short_lived());
    let known: Vec<String> = (0..200).map(|n| format!("user{n}")).collect();
    for (key, answer) in known.iter().zip(all_said(&stand.remote, &known)) {
        assert_eq!(text(&answer), Some(&**key));
    }
    std::thread::sleep(Duration::from_millis(5));
    server.set(Mode::Dead);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (remote, known) = (&stand.remote, &known);
            scope.spawn(move || {
                for (key, answer) in known.iter().zip(all_said(remote, known)) {
                    assert_eq!(text(&answer), Some(&**key), "stale answers serve");
                }
                let unknown: Vec<String> = (0..200).map(|n| format!("new{thread}-{n}")).collect();
                for answer in all_said(remote, &unknown) {
                    assert_eq!(kind(&answer), LookupErrorKind::Unreachable);
                }
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(10), "nobody waits for a dead server");
    let status = stand.status();
    assert_eq!(status.stale_hits, 800, "{status:?}");
    let Health::Troubled { kind, why, is_silent, .. } = status.health else { panic!("well") };
    assert_eq!((kind, &*why, is_silent), ("unreachable", "connection refused", true));
    let asked = server.requests();
    server.set(Mode::Well);
    stand.until("a probe finds it well", |stand| !stand.is_silent());
    assert!(server.requests() > asked, "found out by a probe, without a question");
    assert_eq!(text(&said(&stand.remote, "new0-0")), Some("new0-0"));
    assert_eq!(stand.status().health, Health::Well);
    let lines = stand.lines();
    assert_eq!(
        lines,
        [
            "warn table: users: no answers, cached answers are used: connection refused",
            "warn table: users: recovered",
        ]
    );
}

#[test]
fn a_server_that_hangs_holds_a_question_for_so_long_and_then_nobody() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let timeout = Duration::from_millis(300);
    let stand = Stand::new(&server, &TableCache { timeout, ..short_lived() });
    assert_eq!(text(&said(&stand.remote, "known")), Some("known"));
    server.set(Mode::Hangs);
    let keys: Vec<String> = (0..100).map(|n| format!("user{n}")).collect();
    let began = Instant::now();
    for answer in all_said(&stand.remote, &keys) {
        assert_eq!(kind(&answer), LookupErrorKind::Timeout);
    }
    assert!(began.elapsed() >= timeout);
    stand.until("it is taken to be silent", Stand::is_silent);
    let began = Instant::now();
    for n in 0..100 {
        assert_eq!(text(&said(&stand.remote, "known")), Some("known"));
        assert_eq!(kind(&said(&stand.remote, &format!("new{n}"))), LookupErrorKind::Timeout);
    }
    assert!(began.elapsed() < Duration::from_secs(5), "at once, a hundred times");
    assert!(server.under_way_max.load(Ordering::Relaxed) <= 16);
    server.set(Mode::Well);
    stand.until("a probe finds it well", |stand| !stand.is_silent());
    // What hung was given up: nothing is left under way.
    stand.until("nothing is under way", |stand| stand.status().under_way == 0);
    assert_eq!(server.under_way.load(Ordering::Relaxed), 0);
    assert_eq!(text(&said(&stand.remote, "user0")), Some("user0"));
}

#[test]
fn wrong_and_half_answers_are_trouble_and_never_absence() {
    for mode in [Mode::Wrong, Mode::Half] {
        let server = Server::new(mode, Duration::ZERO);
        let stand = Stand::with_batches(&server, &cache(), 4);
        let keys: Vec<String> = (0..20).map(|n| format!("no{n}")).collect();
        for answer in all_said(&stand.remote, &keys) {
            assert_eq!(kind(&answer), LookupErrorKind::Wrong, "{mode:?}");
        }
        let status = stand.status();
        assert_eq!((status.cached, status.troubles.get("wrong")), (0, Some(&20)), "{mode:?}");
    }
}

#[test]
fn a_slow_server_under_a_flood_is_not_taken_for_a_dead_one() {
    let server = Server::new(Mode::Well, Duration::from_millis(20));
    let timeout = Duration::from_millis(500);
    let limits = TableCache { requests_max: 2, waiting_max: 150, timeout, ..cache() };
    let stand = Stand::new(&server, &limits);
    let keys: Vec<String> = (0..300).map(|n| format!("user{n}")).collect();
    let answers = all_said(&stand.remote, &keys);
    let count =
        |wanted| answers.iter().filter(|a| a.as_ref().is_err_and(|t| t.kind == wanted)).count();
    let (busy, late) = (count(LookupErrorKind::Busy), count(LookupErrorKind::Timeout));
    assert!(busy > 0 && late > 0, "{busy} {late}");
    for (key, answer) in keys.iter().zip(&answers).filter(|(_, answer)| answer.is_ok()) {
        assert_eq!(text(answer), Some(&**key));
    }
    assert!(!stand.is_silent() && stand.lines().is_empty());
    assert_eq!(stand.status().health, Health::Well);
    assert_eq!(text(&said(&stand.remote, "one more")), Some("one more"));
}

#[test]
fn who_stops_waiting_takes_nothing_from_the_others() {
    let server = Server::new(Mode::Well, Duration::from_millis(50));
    let stand = Stand::new(&server, &TableCache { requests_max: 1, ..cache() });
    let first = stand.remote.find("jo");
    let others: Vec<_> = (0..10).map(|_| stand.remote.find("jo")).collect();
    let waits_in_line = stand.remote.find("unwanted");
    drop((first, waits_in_line));
    for other in others {
        assert_eq!(text(&block_on(other.get())), Some("jo"));
    }
    assert_eq!(text(&said(&stand.remote, "last")), Some("last"));
    assert_eq!(lock(&server.keys).get("unwanted"), None, "nobody wanted to know");
    assert_eq!(stand.status().waiting, 0);
}

#[test]
fn what_is_forgotten_is_asked_for_again() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let stand = Stand::new(&server, &cache());
    for key in ["a", "b", "c"] {
        said(&stand.remote, key).unwrap();
    }
    assert!(stand.remote.forget("a") && !stand.remote.forget("a"));
    assert_eq!(stand.remote.known("a"), Cached::Missing);
    assert!(matches!(stand.remote.known("b"), Cached::Fresh(Some(_), _)));
    assert_eq!(stand.remote.flush(), 2);
    for key in ["a", "b", "c"] {
        assert_eq!(text(&said(&stand.remote, key)), Some(key));
    }
    assert_eq!(server.requests(), 6);
}

#[test]
fn an_answer_from_before_a_flush_is_given_to_who_asked_before_it_and_not_kept() {
    let server = Server::new(Mode::Well, Duration::from_millis(100));
    let stand = Stand::new(&server, &cache());
    let before = stand.remote.find("jo");
    stand.until("it is asked for", |stand| stand.server.requests() == 1);
    stand.remote.flush();
    let after = stand.remote.find("jo");
    stand.until("it is asked for again", |stand| stand.server.requests() == 2);
    assert_eq!(text(&block_on(before.get())), Some("jo"));
    assert_eq!(text(&block_on(after.get())), Some("jo"));
    assert!(matches!(stand.remote.known("jo"), Cached::Fresh(..)));
}

#[test]
fn the_end_of_the_thread_answers_all_who_wait() {
    let server = Server::new(Mode::Hangs, Duration::ZERO);
    let mut stand = Stand::new(&server, &short_lived());
    let waiting = stand.remote.find("jo");
    stand.until("it is asked for", |stand| stand.server.requests() == 1);
    let began = Instant::now();
    drop(stand.thread.take());
    assert!(began.elapsed() < Duration::from_secs(5), "it waits for nobody");
    assert!(server.is_driver_gone.load(Ordering::Relaxed));
    assert_eq!(server.under_way.load(Ordering::Relaxed), 0);
    assert_eq!(kind(&block_on(waiting.get())), LookupErrorKind::Unreachable);
    assert_eq!(kind(&said(&stand.remote, "other")), LookupErrorKind::Unreachable);
    assert_eq!(stand.remote.flush(), 0);
}

#[test]
fn a_driver_goes_with_the_last_handle_of_its_table() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let stand = Stand::new(&server, &cache());
    assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
    let Stand { remote, thread, .. } = stand;
    let other = remote.clone();
    drop(remote);
    assert_eq!(text(&said(&other, "jim")), Some("jim"));
    drop(other);
    let began = Instant::now();
    while !server.is_driver_gone.load(Ordering::Relaxed) {
        assert!(began.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(2));
    }
    drop(thread);
}

#[test]
fn a_dead_server_is_asked_seldom() {
    let server = Server::new(Mode::Dead, Duration::ZERO);
    let stand = Stand::new(&server, &cache());
    let began = Instant::now();
    let mut questions = 0;
    while began.elapsed() < PAUSE_FIRST + Duration::from_millis(200) {
        said(&stand.remote, &format!("user{questions}")).unwrap_err();
        questions += 1;
    }
    // Five that opened the breaker, and a probe; on a busy machine one more.
    assert!(questions > 20 && (6..=7).contains(&server.requests()), "{}", server.requests());
    assert_eq!(stand.lines().len(), 1);
}

#[test]
fn somebody_who_is_known_does_not_wait_for_a_server_that_hangs() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    let stand = Stand::new(&server, &short_lived());
    assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
    std::thread::sleep(Duration::from_millis(5));
    server.set(Mode::Hangs);
    for _ in 0..3 {
        let began = Instant::now();
        assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
    // What the server says late is kept.
    let server = Server::new(Mode::Well, Duration::ZERO);
    let cache = TableCache { positive: Duration::from_secs(2), ..cache() };
    let stand = Stand::new(&server, &cache);
    assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
    std::thread::sleep(Duration::from_millis(2_010));
    *lock(&server.delay) = Duration::from_millis(600);
    assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
    assert_eq!(stand.status().stale_hits, 1);
    stand.until("it is known anew", |stand| matches!(stand.remote.known("jo"), Cached::Fresh(..)));
    assert_eq!(lock(&server.keys)["jo"], 2);
}

#[test]
fn a_server_that_comes_back_without_its_data_refuses_nobody() {
    let server = Server::new(Mode::Well, Duration::ZERO);
    for batch_max in [1, 32] {
        server.set(Mode::Well);
        let cache = TableCache { stale: Duration::ZERO, ..short_lived() };
        let stand = Stand::with_batches(&server, &cache, batch_max);
        for key in ["jo", "ann", "bob", "eve"] {
            assert_eq!(text(&said(&stand.remote, key)), Some(key));
        }
        std::thread::sleep(Duration::from_millis(5));
        server.set(Mode::Empty);
        for key in ["jo", "who was never asked for", "ann"] {
            assert_eq!(kind(&said(&stand.remote, key)), LookupErrorKind::Wrong, "{key}");
        }
        let lines = stand.lines();
        assert!(lines.iter().any(|line| line.contains("not believed")), "{lines:?}");
        server.set(Mode::Well);
        assert_eq!(text(&said(&stand.remote, "nobody")), None);
        assert_eq!(text(&said(&stand.remote, "jo")), Some("jo"));
        stand.until("it is believed", |stand| {
            stand.lines().iter().any(|l| l.contains("believed again"))
        });
    }
}
