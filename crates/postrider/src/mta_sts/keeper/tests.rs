use super::*;
use crate::console::ConsoleLog;
use crate::pool_measure::{PoolGauge, SOON_MS, millis, play};
use mail::Wall;
use mta::console::Level;
use mta::seams::NoTlsReports;
use std::future::pending;
use std::path::Path;
use tokio::task::LocalSet;

/// Web servers: what each answers, and how often it was asked.
#[derive(Clone, Default)]
struct Web(Rc<RefCell<BTreeMap<&'static str, Site>>>);

#[derive(Clone)]
struct Site {
    /// `None`: it never answers.
    answer: Option<Result<&'static str, FetchError>>,
    asked: Rc<Cell<u32>>,
}

const ENFORCE: &str = "version: STSv1\nmode: enforce\nmx: mx.far.test\nmax_age: 604800\n";

impl Web {
    fn set(&self, domain: &'static str, answer: Option<Result<&'static str, FetchError>>) {
        let asked = self.0.borrow().get(domain).map(|site| Rc::clone(&site.asked));
        let site = Site { answer, asked: asked.unwrap_or_default() };
        self.0.borrow_mut().insert(domain, site);
    }

    fn asked(&self, domain: &str) -> u32 {
        self.0.borrow()[domain].asked.get()
    }
}

impl PolicySource for Web {
    async fn fetch(&self, domain: &str, _: bool) -> Result<Policy, FetchError> {
        let site = self.0.borrow().get(domain).cloned().expect("it is there");
        site.asked.set(site.asked.get() + 1);
        // Others have their turn before there is an answer.
        tokio::task::yield_now().await;
        match site.answer {
            Some(answer) => answer.map(|text| Policy::parse(text.as_bytes()).unwrap()),
            None => pending().await,
        }
    }
}

struct Test {
    asks: mpsc::UnboundedSender<PolicyFetchRequest>,
    web: Web,
    directory: PathBuf,
    metrics: Arc<PolicyMetrics>,
    shelf: OptionalPolicies,
}

impl Test {
    fn ask(&self, domain: &str, id: Option<&str>) -> oneshot::Receiver<PolicyResult> {
        let (answer, answered) = oneshot::channel();
        let (domain, id) = (domain.into(), id.map(Into::into));
        let ask = PolicyFetchRequest { domain, id, public_only: false, answer: Some(answer) };
        assert!(self.asks.send(ask).is_ok());
        answered
    }

    /// Whether there is a policy.
    async fn has(&self, domain: &str, id: Option<&str>) -> Result<bool, String> {
        self.ask(domain, id).await.expect("an answer").map(|policy| policy.is_some())
    }
}

/// Domains of one zone, of whose web servers none ever answers.
const TARPITS: [&str; 6] =
    ["a.wild.test", "b.wild.test", "c.wild.test", "d.wild.test", "e.wild.test", "f.wild.test"];

/// As many zones with such servers.
const ZONES: [&str; 6] =
    ["tar1.test", "tar2.test", "tar3.test", "tar4.test", "tar5.test", "tar6.test"];

/// Runs a test beside a keeper with one fetch for strangers and one for domains that are known;
/// `kept`: domains whose policies were fetched so many days ago.
fn with_keeper<F: Future<Output = ()>>(kept: &[(&str, u64)], body: impl FnOnce(Test) -> F) {
    with_fetches(1, kept, body);
}

/// The same with so many fetches for strangers.
fn with_fetches<F: Future<Output = ()>>(
    strangers: usize,
    kept: &[(&str, u64)],
    body: impl FnOnce(Test) -> F,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("mta-sts");
    for (domain, days) in kept {
        let at = Wall(wall_now().0 - days * 86_400_000);
        let policy = Arc::new(Policy::parse(ENFORCE.as_bytes()).unwrap());
        let cached = PolicyCacheEntry { id: "a".into(), fetched: at, since: at, used: at, policy };
        files::write(&path, (domain, &cached), std::iter::empty()).unwrap();
    }
    let web = Web::default();
    for domain in ["tar.test", "far.test", "near.test"] {
        web.set(domain, (domain != "tar.test").then_some(Ok(ENFORCE)));
    }
    for domain in TARPITS.into_iter().chain(ZONES) {
        web.set(domain, None);
    }
    let (asks, asked) = mpsc::unbounded_channel();
    let seed = seed(&path, web.clone(), (strangers, 1));
    let (metrics, shelf) = (Arc::clone(&seed.metrics), Arc::clone(&seed.shelf));
    // The keeper ends when nobody can ask any more: not before the test, whatever that asks.
    let _open = asks.clone();
    let test = Test { asks, web, directory: path, metrics, shelf };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async move {
        spawn_local(serve(seed, asked));
        tokio::time::timeout(Duration::from_secs(20), body(test)).await.unwrap();
    });
    // A write that the test did not wait for ends with the runtime; it would put the directory back.
    drop(runtime);
    directory.close().unwrap();
}

/// So many fetches for strangers and for domains that are known.
fn seed<S>(directory: &Path, source: S, (strangers, known): (usize, usize)) -> Seed<S> {
    Seed {
        directory: directory.to_owned(),
        source,
        strangers,
        known,
        public_only: false,
        shelf: OptionalPolicies::default(),
        metrics: Arc::default(),
        pools: Arc::default(),
        reports: Arc::new(NoTlsReports),
        report: Arc::new(|_| {}),
        files: StateFiles::new(&Arc::new(ConsoleLog::stderr(Level::Error))),
    }
}

/// Waits for what a background fetch brings.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..1_000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}");
}

#[test]
fn one_fetch_is_for_all_who_want_to_know() {
    with_keeper(&[], |test| async move {
        let (one, other) = (test.ask("far.test", Some("a")), test.ask("far.test", Some("a")));
        let (one, other) = (one.await.unwrap(), other.await.unwrap());
        assert!(one.clone().unwrap().is_some() && one == other);
        assert_eq!(test.has("far.test", Some("a")).await, Ok(true));
        assert_eq!(test.web.asked("far.test"), 1);
        assert_eq!(test.has("far.test", Some("b")).await, Ok(true));
        assert_eq!((test.web.asked("far.test"), test.metrics.fetches.get()), (2, 2));
        let file = test.directory.join("far.test");
        until("it is written", || {
            std::fs::read_to_string(&file).is_ok_and(|text| text.starts_with("b "))
        })
        .await;
    });
}

#[test]
fn strangers_with_slow_web_servers_do_not_hold_up_domains_that_have_a_policy() {
    with_keeper(&[("far.test", 2)], |test| async move {
        let slow = test.ask("tar.test", Some("a"));
        // At once, and renewed meanwhile: without a record, too.
        assert_eq!(test.has("far.test", None).await, Ok(true));
        until("it is renewed", || test.metrics.fetches.get() == 1).await;
        assert_eq!(test.has("far.test", Some("b")).await, Ok(true));
        assert_eq!(test.web.asked("far.test"), 2);
        // Another stranger waits behind the first.
        let waits = test.ask("near.test", Some("a"));
        let soon = Duration::from_millis(100);
        assert!(tokio::time::timeout(soon, waits).await.is_err());
        drop(slow);
    });
}

#[test]
fn a_zone_of_slow_web_servers_leaves_fetches_for_others() {
    with_fetches(4, &[], |test| async move {
        let slow: Vec<_> = TARPITS.iter().map(|domain| test.ask(domain, Some("a"))).collect();
        assert_eq!(test.has("near.test", Some("a")).await, Ok(true));
        assert_eq!(test.has("far.test", Some("a")).await, Ok(true));
        let begun = TARPITS.iter().filter(|domain| test.web.asked(domain) > 0).count();
        assert_eq!(begun, 1, "its share");
        drop(slow);
    });
}

#[test]
fn zones_of_silent_web_servers_make_way_and_are_asked_again_for_all_their_time() {
    with_fetches(4, &[], |test| async move {
        let slow: Vec<_> = ZONES.iter().map(|domain| test.ask(domain, Some("a"))).collect();
        let asked = || ZONES.iter().map(|domain| test.web.asked(domain)).sum::<u32>();
        until("all are in use", || asked() == 4).await;
        for domain in ["far.test", "near.test"] {
            let soon = tokio::time::timeout(SILENCE * 5, test.has(domain, Some("a"))).await;
            assert_eq!(soon, Ok(Ok(true)), "{domain}");
        }
        // The first of those that made way has its second turn, and nobody is answered that it has none.
        until("one has a second turn", || ZONES.iter().any(|domain| test.web.asked(domain) == 2))
            .await;
        assert_eq!(test.metrics.fetches_failed.get(), 0);
        drop(slow);
    });
}

#[test]
fn zones_that_fill_the_line_leave_places_to_others() {
    let mut flights = BTreeMap::new();
    for n in 0..10 {
        flights.insert(format!("d{n}.wild.test").into_boxed_str(), ());
        flights.insert(format!("d.tame{n}.test").into_boxed_str(), ());
    }
    let last = |comes| last_of_greediest(&flights, comes);
    assert_eq!(last("near.test").as_deref(), Some("d9.wild.test"));
    assert_eq!(last("d11.wild.test"), None, "it has most itself");
    flights.retain(|domain, ()| !domain.ends_with(".wild.test"));
    assert_eq!(last_of_greediest(&flights, "near.test"), None, "all have one");
}

/// Web servers of strangers, which fail after so long, and those of others.
struct Pressed(Duration);

impl PolicySource for Pressed {
    async fn fetch(&self, domain: &str, _: bool) -> Result<Policy, FetchError> {
        if domain.ends_with(".test") {
            tokio::time::sleep(Duration::from_millis(50)).await;
            return Ok(Policy::parse(ENFORCE.as_bytes()).unwrap());
        }
        tokio::time::sleep(self.0).await;
        Err(FetchError::Failed(ResultType::StsPolicyFetchError, "no answer".to_owned()))
    }
}

/// A hundred zones of strangers have mail for ten new domains each, then for another each second.
async fn press(asks: mpsc::UnboundedSender<PolicyFetchRequest>) {
    for turn in 0.. {
        for n in 0..100 {
            let domain = format!("d{turn}.zone{n}.example").into();
            let (answer, _) = oneshot::channel();
            let ask = PolicyFetchRequest {
                domain,
                id: Some("a".into()),
                public_only: false,
                answer: Some(answer),
            };
            if asks.send(ask).is_err() {
                return;
            }
        }
        if turn >= 10 {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

#[test]
fn a_hundred_zones_of_bad_web_servers_leave_fetches_to_others() {
    // Silent for as long as a fetch may take, and slow by less than counts as silence.
    for takes in [Duration::from_secs(15), SILENCE.mul_f32(0.9)] {
        play(|| async move {
            let (directory, measured) =
                (tempfile::tempdir().unwrap(), PoolGauge::new(PoolId::Policies));
            let (asks, asked) = mpsc::unbounded_channel();
            let seed = seed(&directory.path().join("mta-sts"), Pressed(takes), (48, 16));
            let keeper =
                spawn_local(serve(Seed { pools: Arc::clone(&measured.pools), ..seed }, asked));
            spawn_local(press(asks.clone()));
            tokio::time::sleep(Duration::from_millis(100)).await;
            // It is a lookup.
            let ask = async |n| {
                let (answer, answered) = oneshot::channel();
                let (domain, id) = (format!("good{n}.test").into(), Some("a".into()));
                let ask =
                    PolicyFetchRequest { domain, id, public_only: false, answer: Some(answer) };
                assert!(asks.send(ask).is_ok());
                let (answer, waited) = millis(answered).await;
                let answer = answer.expect("an answer");
                assert!(answer.is_ok_and(|policy| policy.is_some()), "{n} has a policy");
                tokio::time::sleep(Duration::from_millis(100)).await;
                waited
            };
            measured.hundred(2 * SOON_MS, ask).await;
            let text = measured.shown().expect("they wait still").text;
            assert!(text.contains(".example holds most: "), "{text}");
            keeper.abort();
        });
    }
}

#[test]
fn policies_are_renewed_although_nobody_asks() {
    with_keeper(&[("far.test", 1), ("near.test", 0)], |test| async move {
        until("it is renewed", || test.metrics.fetches.get() == 1).await;
        assert_eq!((test.web.asked("far.test"), test.web.asked("near.test")), (1, 0));
        let shelf = lock(&test.shelf);
        let kept = shelf.as_ref().unwrap().cache.get("far.test", wall_now()).unwrap().clone();
        assert!(&*kept.id == "a" && !kept.wants_renewal(wall_now()));
    });
}

#[test]
fn a_renewal_that_fails_leaves_the_policy_and_is_not_tried_again_at_once() {
    with_keeper(&[("far.test", 2)], |test| async move {
        test.web.set(
            "far.test",
            Some(Err(FetchError::Failed(ResultType::StsPolicyFetchError, "500".to_owned()))),
        );
        assert_eq!(test.has("far.test", Some("b")).await, Ok(true));
        assert_eq!(test.has("far.test", Some("b")).await, Ok(true));
        assert_eq!(test.has("far.test", None).await, Ok(true));
        // Once by the first round, or by the first to ask.
        assert_eq!((test.web.asked("far.test"), test.metrics.fetches_failed.get()), (1, 1));
        test.web.set(
            "near.test",
            Some(Err(FetchError::Failed(ResultType::StsPolicyFetchError, "404".to_owned()))),
        );
        assert_eq!(test.has("near.test", Some("a")).await, Ok(false));
        assert_eq!(test.has("nobody.test", None).await, Ok(false));
    });
}

#[test]
fn what_this_machine_lacks_says_nothing_of_a_domain() {
    with_keeper(&[], |test| async move {
        test.web.set("far.test", Some(Err(FetchError::Lack("no roots".to_owned()))));
        assert_eq!(test.has("far.test", Some("a")).await, Err("no roots".to_owned()));
        assert_eq!(test.web.asked("far.test"), TRIES_MAX);
        test.web.set("far.test", Some(Ok(ENFORCE)));
        assert_eq!(test.has("far.test", Some("a")).await, Ok(true));
        assert_eq!(test.metrics.fetches_failed.get(), 0);
    });
}

#[test]
fn a_policy_that_cannot_be_read_is_not_taken_for_none() {
    with_keeper(&[], |test| async move {
        // Read before: what comes now is seen when the keeper looks again.
        assert_eq!(test.has("far.test", None).await, Ok(false));
        tokio::time::sleep(Duration::from_millis(50)).await;
        lock(&test.shelf).as_mut().unwrap().unread = UnreadPolicies::Of(["far.test".into()].into());
        assert!(test.has("far.test", None).await.is_err());
        assert_eq!(test.has("near.test", None).await, Ok(false));
        assert_eq!(test.has("far.test", Some("a")).await, Ok(true));
        assert_eq!(test.has("far.test", None).await, Ok(true));
    });
}
