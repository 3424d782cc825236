use super::*;
use crate::pool_measure::{PoolGauge, healthy, hostile};
use crate::tables::socketmap::SocketmapText;
use crate::tables::testing;
use lookup::{Entry, Fetch};
use mta::clients::asker_of;
use mta::console::Level as ConsoleLevel;
use mta::pools::PoolId;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::spawn_local;

/// Answers as many requests as it is allowed to, and says which.
struct Gated {
    allowed: Arc<Semaphore>,
    answered: mpsc::UnboundedSender<Box<str>>,
}

impl Backend for Gated {
    fn fetch<'a>(&'a self, keys: &'a [Box<str>]) -> Fetch<'a> {
        Box::pin(async move {
            if let Ok(permit) = self.allowed.acquire().await {
                permit.forget();
            }
            keys.iter().for_each(|key| _ = self.answered.send(key.clone()));
            keys.iter().map(|key| Ok(Some(Entry::text(&**key)))).collect()
        })
    }
}

/// A table that is asked elsewhere, in force.
struct Stand {
    registry: Arc<Registry>,
    entry: Arc<TableEntry>,
    allowed: Arc<Semaphore>,
    answered: mpsc::UnboundedReceiver<Box<str>>,
}

impl Stand {
    fn new() -> Stand {
        let console = Arc::new(ConsoleLog::stderr(ConsoleLevel::Error));
        let registry = Registry::new(Start::now(), &ServiceRuntime::default(), &console);
        let line = "socketmap = { server = \"127.0.0.1:1\", map = \"t\" }";
        let entry = testing::table::<SocketmapText>(line).expect("a good table");
        // No answer is given up, however slow the machine.
        let timeout = Duration::from_secs(3_600);
        let cache =
            TableCache { timeout, requests_max: 16, waiting_max: 1_000, ..entry.cache.clone() };
        let allowed = Arc::new(Semaphore::new(0));
        let (answers, answered) = mpsc::unbounded_channel();
        let gated = Gated { allowed: Arc::clone(&allowed), answered: answers };
        let build = move || -> Box<dyn Backend> { Box::new(gated) };
        let remote = registry.open_remote(Arc::clone(&entry.name), &cache, build);
        let source = TableSource::Remote(remote.expect("a thread"));
        let checks = EntryChecks::default();
        let table = LiveTable { entry: Arc::clone(&entry), asked: None, checks, source };
        registry.adopt(Live::from([(Arc::clone(&entry.name), table)]));
        Stand { registry, entry, allowed, answered }
    }

    /// So many clients, of a hundred networks, ask for one key after the other, whatever becomes of it.
    fn press(&self, clients: u16) {
        for n in 0..clients {
            let (entry, registry) = (Arc::clone(&self.entry), Arc::clone(&self.registry));
            spawn_local(async move {
                let tables = ShardTables::new(registry).asked_for(asker_of(hostile(n % 100)));
                for turn in 0.. {
                    let said = tables.find(&entry, &format!("hostile-{n}-{turn}"));
                    if matches!(said.get().await, Err(trouble) if trouble.kind == LookupErrorKind::Busy)
                    {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
            });
        }
    }

    /// The server answers until it has answered this key; how many others before.
    async fn turns_until(&mut self, key: &str) -> u64 {
        for turns in 0..10_000 {
            self.allowed.add_permits(1);
            let answered = self.answered.recv().await.expect("the driver lives");
            if *answered == *key {
                return turns;
            }
        }
        panic!("{key} is never asked for")
    }
}

#[test]
fn a_hundred_networks_leave_turns_at_a_table_to_others() {
    testing::run(async {
        let (mut stand, measured) = (Stand::new(), PoolGauge::new(PoolId::TableQuestions));
        measured.pools.keep(PoolId::TableQuestions, stand.registry.gauge());
        // More than may wait.
        stand.press(1_200);
        while measured.shown().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let (registry, entry) = (Arc::clone(&stand.registry), Arc::clone(&stand.entry));
        // One round of the strangers' sites, 51 of them, and what is under way already.
        let soon = 51 + 2 * 16;
        let ask = async |n| {
            let key = format!("healthy-{n}");
            let tables = ShardTables::new(Arc::clone(&registry)).asked_for(asker_of(healthy(n)));
            let asked = spawn_local({
                let said = tables.find(&entry, &key);
                said.get()
            });
            let turns = stand.turns_until(&key).await;
            assert!(asked.await.expect("it lives").is_ok(), "{key} is refused");
            turns
        };
        measured.hundred(soon, ask).await;
        let text = measured.shown().expect("they wait still").text;
        assert!(text.contains("holds most"), "{text}");
    });
}
