//! Asks the node, on the way that `postrider queue why` takes, what everything queued waits for,
//! and what it uses of what it may use.

use super::account::{Account, name_of};
use super::executor::Executor;
use super::node::Node;
use super::plan::{CROWD_DOMAIN, Horizon};
use super::verdict::Wait;
use mail::{MessageId, Wall};
use mta::commands::{ControlRequest, QueueList, QueueWhy};
use mta::control::{BlockerKind, Filter, ITEMS_MAX, PARTS_MAX, QueueItem, ShardAnswer};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;
use tokio::sync::mpsc;

/// The sweep passes by each entry so often: so much later an entry may leave than it should.
const SWEEP_MS: u64 = 2_000;

/// An attempt that was begun before its message was too old may last so long beyond that.
const ATTEMPT_MS: u64 = 300_000;

/// What may be on its way between two places where it is counted is looked for once more, so much
/// later, and so often.
const AGAIN_US: u64 = 8_000_000;
const LOOKS_MAX: u32 = 3;

/// Whom an inspection tells, and what it knows.
#[derive(Clone, Debug)]
pub struct Inspector {
    /// The clock.
    pub executor: Executor,
    /// What was handed in and what arrived.
    pub account: Rc<Account>,
    /// What was added to the wall clock, in milliseconds.
    pub wall_offset_ms: Rc<Cell<i64>>,
    /// What the configuration allows.
    pub horizon: Horizon,
}

/// One life of the node, as an inspection sees it.
#[derive(Clone, Debug)]
pub struct Inspected {
    shards: u16,
    node: Rc<Node>,
}

impl Inspected {
    /// Looks at this life of the node.
    #[must_use]
    pub fn new(node: &Rc<Node>, shards: u16) -> Inspected {
        Inspected { shards, node: Rc::clone(node) }
    }

    /// `None`: the process ended meanwhile.
    async fn ask(&self, shard: u16, request: ControlRequest) -> Option<ShardAnswer> {
        let (answer, mut answered) = mpsc::channel(PARTS_MAX);
        self.node.ask(shard, request, answer);
        let mut items = Vec::new();
        loop {
            let part = answered.recv().await?;
            items.extend(part.items);
            if part.is_last {
                return Some(ShardAnswer { items, ..part });
            }
        }
    }
}

impl Inspector {
    /// Asks why each queued message is queued. Every message that was promised and has not
    /// arrived must be there.
    pub async fn inspect(self, node: Inspected) {
        let mut missing = self.account.awaited();
        for look in 0..LOOKS_MAX {
            if look > 0 {
                self.executor.sleep(AGAIN_US).await;
            }
            let Some(items) = self.list(&node).await else { return };
            let (mut there, mut reported) = (BTreeSet::new(), BTreeSet::new());
            for item in &items {
                let addresses = item.recipients.iter().map(|recipient| &*recipient.address);
                // To the sender of what a recipient was sent: it may be about this recipient.
                if item.sender.is_empty() && item.unreadable.is_none() {
                    reported.extend(addresses.clone().map(name_of));
                }
                there.extend(addresses);
            }
            missing.retain(|recipient| {
                !there.contains(&**recipient) && !reported.contains(name_of(recipient))
            });
            let awaited = self.account.awaited();
            missing.retain(|recipient| awaited.contains(recipient));
            // What a log that failed has not taken is there again after the restart; what can't be
            // read for want of a descriptor may be anybody's.
            let is_unreadable = items.iter().any(|item| item.unreadable.is_some());
            if missing.is_empty() || is_unreadable || !node.node.is_sound() {
                return;
            }
        }
        for recipient in missing {
            self.account.violate_about(&recipient, "is promised and not queued, so it is lost");
        }
    }

    /// All that is queued, each message asked about by itself.
    async fn list(&self, node: &Inspected) -> Option<Vec<QueueItem>> {
        let mut items = Vec::new();
        for shard in 0..node.shards {
            let all = ControlRequest::QueueList(QueueList {
                filter: Filter::default(),
                limit: ITEMS_MAX,
            });
            let listed = node.ask(shard, all).await?.items;
            for item in listed {
                self.check(&item);
                // A list does not show all recipients.
                items.extend(self.why(node, shard, item.id).await?);
            }
        }
        node.node.check_limits();
        node.node.check_memory(self.for_memory(&items), self.executor.now_us());
        Some(items)
    }

    /// Empty: it was settled meanwhile.
    async fn why(&self, node: &Inspected, shard: u16, id: MessageId) -> Option<Vec<QueueItem>> {
        let answer = node.ask(shard, ControlRequest::QueueWhy(QueueWhy { id })).await?;
        answer.items.iter().for_each(|item| self.check(item));
        Some(answer.items)
    }

    /// Every recipient has one named blocker and a deadline that can be true.
    fn check(&self, item: &QueueItem) {
        if item.age_ms == 0 {
            // The clock went back to before it came: nobody can say when the shard looked.
            return;
        }
        // When the shard looked: the clock may have jumped since.
        let now_ms = item.received_at.0 + item.age_ms;
        for recipient in &item.recipients {
            if item.sender.is_empty() && item.unreadable.is_none() {
                self.account.check_report_to(&recipient.address);
            }
            let blocker = &recipient.blocker;
            self.account.handle_waiting(&recipient.address, &blocker.text);
            let late_ms = match blocker.kind {
                BlockerKind::Attempt => ATTEMPT_MS,
                _ => SWEEP_MS,
            };
            let latest_ms = now_ms + self.horizon.of(blocker.kind, &recipient.address);
            // Where nobody knows when it goes on, it is given up some day.
            let ends = blocker.until.or(recipient.expires_at.map(|at| at.max(Wall(now_ms))));
            let wrong = match ends {
                _ if blocker.text.is_empty() => "no named blocker".to_owned(),
                None => "no deadline".to_owned(),
                Some(until) if until.0 + late_ms < now_ms => {
                    format!("a deadline that passed {} ms ago", now_ms - until.0)
                }
                Some(until) if until.0 > latest_ms => {
                    format!("a deadline {} ms away", until.0 - now_ms)
                }
                Some(_) => continue,
            };
            let text = format!("has {wrong} ({:?}: {})", blocker.kind, blocker.text);
            self.account.violate_about(&recipient.address, &text);
        }
    }

    /// Recipients in small domains who wait for memory.
    fn for_memory(&self, items: &[QueueItem]) -> BTreeSet<Wait> {
        let recipients = items.iter().flat_map(|item| &item.recipients);
        let waiting = recipients.filter(|recipient| recipient.blocker.kind == BlockerKind::Memory);
        let small = waiting.filter(|recipient| recipient.address.ends_with(CROWD_DOMAIN));
        let wait = |address: &String| (address.clone(), self.account.mails(address));
        small.map(|recipient| wait(&recipient.address)).collect()
    }
}
