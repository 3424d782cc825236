//! One shard with a log on a disk in memory, its operator, and everything it says.

use super::batch::{Batch, BatchText};
use super::tables::ScriptedText;
use super::time::WALL_MS;
use super::world::TestWorld;
use config::Config;
use config::shaping::{ShapingFile, ShapingSource};
use mail::{MessageId, Wall};
use mta::commands::ControlRequest;
use mta::console::{Console, Level};
use mta::control::{ShardAnswer, Suspension};
use mta::custody::{LogCondition, LogPort, shard_of};
use mta::event::{Event, EventSink, json};
use mta::inbox::{ShardMessage, ShardSender};
use mta::metrics::Metrics;
use mta::problems::{ClockReading, Problem};
use mta::seams::{Spawn as _, Time as _, World as _};
use mta::shaping::Rules;
use mta::shard::{Shard, ShardParts};
use mta::shared::SharedState;
use mta::srs::RewrittenSenders;
use mta::warmup::WarmupLedger;
use serde_json::Value;
use spool::memdisk::MemDisk;
use spool::{Opening, Request, Spool, SpoolConfig};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::{mpsc, oneshot};

/// Nothing that is waited for takes longer than this, by the world's clock.
const PATIENCE: Duration = Duration::from_secs(30 * 86_400);

/// How often what is waited for is looked at.
const LOOK: Duration = Duration::from_millis(1);

/// The log wakes up by itself as often as the commit thread does.
const TICK: Duration = Duration::from_millis(500);

/// After so many of these without a request it sleeps longer: days in which nothing moves are played in no time.
const TICKS_AT_REST: u32 = 1_000;

/// How long it sleeps then.
const REST: Duration = Duration::from_secs(60);

/// Runs a test in a world whose clock stands still while anybody has something to do.
pub(crate) fn play<F: Future<Output = ()>>(test: impl FnOnce() -> F) {
    run(Box::new(|| Box::pin(test())));
}

/// Not generic: the runtime is compiled once, not for each test.
fn run<'a>(test: Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + 'a>> + 'a>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async { test().await });
}

/// Waits until `is` so.
pub(crate) async fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = tokio::time::Instant::now();
    let mut pause = LOOK;
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(pause).await;
        // What takes days is looked at less often than what takes no time.
        pause = (pause * 2).min(Duration::from_secs(1));
    }
}

/// The running shard.
pub(crate) struct Node {
    pub(crate) world: TestWorld,
    pub(crate) disk: Rc<MemDisk>,
    text: String,
    shard: Rc<Shard<TestWorld>>,
    shards: Vec<ShardSender<DuplexStream>>,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) metrics: Arc<Metrics>,
    said: Rc<Said>,
    /// The log takes no requests while this is so.
    pub(crate) log_stands: Rc<Cell<bool>>,
    /// Those who press shall stop.
    is_quiet: Cell<bool>,
}

/// A configuration file: a listener that may relay, and `routes`.
pub(crate) fn config(routes: &str) -> String {
    format!(
        "hostname = \"relay.test\"\n\
         [[listener]]\nname = \"in\"\naddress = \"192.0.2.250:25\"\nrelay_from = [\"198.51.100.0/24\"]\n\
         {routes}\n"
    )
}

fn parse(text: &str) -> Arc<Config> {
    let schema = channels::sections().table::<ScriptedText>().protocol::<BatchText>();
    let config = schema.parse(text, "test.toml");
    let mut config = config.unwrap_or_else(|problem| panic!("{problem:?}\n{text}"));
    if let Some(srs) = config.of::<RewrittenSenders>() {
        // In the place of the file that has them.
        let secret = srs.secret_file.as_os_str().as_encoded_bytes();
        let secrets = vec![config::Secret(secret.into())];
        config.set::<RewrittenSenders>(RewrittenSenders { secrets, ..srs.clone() });
    }
    let files = config.shaping_sources.iter().map(|source| match source {
        ShapingSource::Builtin => ShapingFile::builtin(),
        // Its text stands in the place of its path.
        ShapingSource::File(text) => {
            let text = text.to_string_lossy().into_owned();
            ShapingFile { name: "shaping.toml".into(), text: text.into() }
        }
    });
    let files: Vec<ShapingFile> = files.collect();
    config.shape(&files).unwrap_or_else(|errors| panic!("{errors}"));
    Arc::new(config)
}

fn rules_of(config: &Config) -> Rules {
    Rules::read(config.shaping_rules()).unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

impl Node {
    /// A node on an empty disk.
    pub(crate) async fn start(text: &str) -> Node {
        Node::start_on(TestWorld::new(), Rc::new(MemDisk::new(1, 1 << 30)), text).await
    }

    /// A node that recovers what `disk` holds.
    pub(crate) async fn start_on(world: TestWorld, disk: Rc<MemDisk>, text: &str) -> Node {
        let config = parse(text);
        let (post, mail) = mpsc::unbounded_channel();
        let shards = vec![post];
        let spool_config = SpoolConfig {
            segment_bytes: 4 << 20,
            first_segment_bytes: 4 << 20,
            reserve_bytes: 4 << 20,
            ..SpoolConfig::default()
        };
        let opening = Opening::read(&*disk, spool_config).expect("the disk is read");
        let (requests, inbox) = mpsc::unbounded_channel();
        let port = Arc::new(LogPort {
            // The log lives as long as the test.
            send: Box::new(move |request| drop(requests.send(request))),
            next_sequence: AtomicU64::new(opening.next_sequence()),
            next_blob: AtomicU64::new(opening.next_blob()),
            log: 0,
            node: 0,
            condition: LogCondition::default(),
        });
        let shared = Arc::new(SharedState::new(&config, 1));
        shared.rules.set_rules(rules_of(&config));
        let metrics = Arc::new(Metrics::default());
        let said = Rc::new(Said::default());
        let shard = Shard::new(ShardParts {
            number: 0,
            world: world.clone(),
            config: Arc::clone(&config),
            ports: vec![port],
            shared: Arc::clone(&shared),
            shards: shards.clone(),
            events: Rc::clone(&said) as Rc<dyn EventSink>,
            console: Rc::clone(&said) as Rc<dyn Console>,
            metrics: Arc::clone(&metrics),
            suspensions: Arc::new([]),
            channels: channels::channels(),
            protocols: [Rc::new(Batch) as _].into_iter().chain(channels::protocols()).collect(),
            stages: channels::stages().into_iter().chain(world.stages()).collect(),
        });
        let mut recovered = Vec::new();
        let finished = opening.finish(&*disk, &mut |message| recovered.push(message));
        let (spool, report) = finished.expect("the log is made ready");
        assert_eq!(report.damage.len(), 0, "{:?}", report.damage);
        shard.adopt(recovered);
        let log_stands = Rc::new(Cell::new(false));
        let log = Log {
            spool,
            disk: Rc::clone(&disk),
            inbox,
            stands: Rc::clone(&log_stands),
            shards: shards.clone(),
        };
        world.spawn().spawn(Box::pin(log.run()));
        world.spawn().spawn(Box::pin(Rc::clone(&shard).run(mail)));
        Node {
            world,
            disk,
            text: text.to_owned(),
            shard,
            shards,
            shared,
            metrics,
            said,
            log_stands,
            is_quiet: Cell::new(false),
        }
    }

    /// The log loses power, the process is gone; what the disk kept is recovered.
    pub(crate) async fn restart(self) -> Node {
        let text = self.text.clone();
        self.restart_with(&text).await
    }

    /// The same with another configuration.
    pub(crate) async fn restart_with(self, text: &str) -> Node {
        self.world.spawn().end();
        // The tasks are gone when others have had their turn.
        tokio::task::yield_now().await;
        self.disk.crash();
        // What was not handed out is lost with the process.
        let kept: Vec<_> =
            self.world.warmup_book().borrow().courses().map(|c| (c.key, c.kept)).collect();
        self.world.warmup_book().replace(WarmupLedger::read(kept, &BTreeSet::new(), 0));
        self.shard.abandon();
        Node::start_on(self.world.clone(), Rc::clone(&self.disk), text).await
    }

    /// Reads another configuration.
    pub(crate) fn reload(&self, text: &str) {
        let config = parse(text);
        self.shared.rules.set_rules(rules_of(&config));
        self.post(ShardMessage::Reload(config));
    }

    /// These, as JSON has them, are suspended from now on, and nothing else.
    pub(crate) fn suspend(&self, scopes: &[&str]) {
        self.suspend_until(scopes, None);
    }

    /// The same until then.
    pub(crate) fn suspend_until(&self, scopes: &[&str], until: Option<Wall>) {
        let suspension = |scope: &&str| Suspension {
            scope: serde_json::from_str(scope).expect("a scope"),
            reason: "asked by them".to_owned(),
            since: Wall(WALL_MS),
            until,
        };
        self.post(ShardMessage::Suspensions(scopes.iter().map(suspension).collect()));
    }

    /// Stops in good order.
    pub(crate) async fn stop(&self, grace: Duration) {
        let (done, stopped) = oneshot::channel();
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        self.post(ShardMessage::Stop { grace_ms, done });
        stopped.await.expect("it says so");
    }

    fn post(&self, mail: ShardMessage<DuplexStream>) {
        self.shards[0].send(mail).unwrap_or_else(|_| panic!("the shard has ended"));
    }

    /// Hands a client's connection to the shard, as an acceptor does.
    pub(crate) fn accept(&self, peer: std::net::SocketAddr) -> DuplexStream {
        self.accept_at(0, peer)
    }

    /// The same of a listener, by its number.
    pub(crate) fn accept_at(&self, listener: usize, peer: std::net::SocketAddr) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        // As the acceptor does, which is not here; the session counts itself out.
        self.shared.sessions[0].fetch_add(1, Ordering::Relaxed);
        self.post(ShardMessage::Connection { accepted: theirs, peer, listener });
        ours
    }

    /// Those who press on it stop.
    pub(crate) fn be_quiet(&self) {
        self.is_quiet.set(true);
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.is_quiet.get()
    }

    /// What is wrong now.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let time = self.world.time();
        self.shared.problems.ask(ClockReading { mono: time.now(), wall: time.wall() })
    }

    /// What is said of a pool that is under pressure.
    pub(crate) fn pressure(&self, pool: &str) -> Option<String> {
        let problems = self.problems().into_iter();
        let mut of_pool =
            problems.filter(|problem| problem.kind == "pool" && problem.about == pool);
        of_pool.next().map(|problem| problem.text)
    }

    /// What the shard answers an operator, all parts of it.
    pub(crate) async fn ask(&self, request: ControlRequest) -> Vec<ShardAnswer> {
        let (answer, mut parts) = mpsc::channel(mta::control::PARTS_MAX);
        self.post(ShardMessage::Control { request: Box::new(request), answer });
        let mut all = Vec::new();
        while let Some(part) = parts.recv().await {
            let is_last = part.is_last;
            all.push(part);
            if is_last {
                break;
            }
        }
        all
    }

    /// Everything that happened, an event a line: its name and `fields` of it.
    pub(crate) fn events(&self, fields: &[&str]) -> Vec<String> {
        let shown = |event: &Value| {
            let mut line = event["event"].as_str().unwrap_or("?").to_owned();
            for field in fields {
                match &event[field] {
                    Value::Null => {}
                    Value::String(text) => line += &format!(" {field}={text}"),
                    other => line += &format!(" {field}={other}"),
                }
            }
            line
        };
        self.said.events.borrow().iter().map(shown).collect()
    }

    /// Events of one name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.said.events.borrow().iter().filter(|event| event["event"] == name).count()
    }

    /// The events of one name.
    pub(crate) fn of(&self, name: &str) -> Vec<Value> {
        let events = self.said.events.borrow();
        events.iter().filter(|event| event["event"] == name).cloned().collect()
    }

    /// Waits for so many events of one name.
    pub(crate) async fn wait_for(&self, name: &str, count: usize) {
        let begun = tokio::time::Instant::now();
        let mut pause = LOOK;
        while self.count(name) < count {
            let all = || self.events(&["recipient", "reason"]);
            assert!(begun.elapsed() < PATIENCE, "no {count} × {name}: {:#?}", all());
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }

    /// Console lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said.lines.borrow().clone()
    }

    /// The id that the last `received` told.
    pub(crate) fn last_id(&self) -> MessageId {
        let received = self.of("received");
        let id = received.last().and_then(|event| event["id"].as_str()).expect("a message");
        id.parse().expect("an id")
    }

    /// How long the world has been going on.
    pub(crate) fn age(&self) -> Duration {
        let Wall(now) = mta::seams::Time::wall(self.world.time());
        Duration::from_millis(now - WALL_MS)
    }
}

/// What the commit and bulk threads do, at once.
struct Log {
    spool: Spool,
    disk: Rc<MemDisk>,
    inbox: mpsc::UnboundedReceiver<Request>,
    stands: Rc<Cell<bool>>,
    shards: Vec<ShardSender<DuplexStream>>,
}

impl Log {
    async fn run(mut self) {
        let mut ticks = 0;
        loop {
            let pause = if ticks < TICKS_AT_REST { TICK } else { REST };
            tokio::select! {
                biased;
                request = self.inbox.recv() => match request {
                    Some(request) => {
                        ticks = 0;
                        self.spool.handle_request(request);
                    }
                    None => return,
                },
                () = tokio::time::sleep(pause) => {
                    ticks += 1;
                    self.spool.handle_tick();
                }
            }
            while self.stands.get() {
                tokio::time::sleep(TICK).await;
            }
            while let Ok(request) = self.inbox.try_recv() {
                ticks = 0;
                self.spool.handle_request(request);
            }
            while let Some(io) = self.spool.poll_io() {
                self.spool.handle_io_done(io.perform(&*self.disk));
            }
            while let Some((ticket, completion)) = self.spool.poll_completion() {
                if let Some(shard) = self.shards.get(usize::from(shard_of(ticket))) {
                    // A shard that has ended waits for nothing.
                    let _ = shard.send(ShardMessage::Completions(vec![(ticket, completion)]));
                }
            }
        }
    }
}

/// Events and console lines.
#[derive(Default)]
struct Said {
    events: RefCell<Vec<Value>>,
    lines: RefCell<Vec<String>>,
}

impl EventSink for Said {
    fn emit(&self, event: Event) {
        let mut text = Vec::new();
        json::write_lines(&event, &mut text);
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let parsed = lines.map(|line| serde_json::from_slice(line).expect("a line of JSON"));
        self.events.borrow_mut().extend(parsed);
    }
}

impl Console for Said {
    fn shows(&self, level: Level) -> bool {
        level <= Level::Info
    }

    fn line(&self, level: Level, kind: &'static str, text: fmt::Arguments<'_>) {
        self.lines.borrow_mut().push(format!("{} {kind}: {text}", level.as_str()));
    }
}
