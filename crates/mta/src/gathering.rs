//! Verdicts on recipients of one message that fall together become one report.
//!
//! Until it is written nothing is settled: after a crash the recipients are open and are tried
//! again. Those that were given up are listed meanwhile, see [`crate::unreported`].

use crate::message::Message;
use crate::outcome::{said_of, unread_address};
use crate::report;
use crate::seams::{Spawn, Time, World};
use crate::shard::Shard;
use crate::unreported::{PutOff, ReportKey};
use crate::verdict::{Judged, Verdict};
use mail::{MessageId, Mono, Wall};
use queue::{EntryId, Siblings};
use spool::LoadError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// How long verdicts wait for those on other recipients that are about to be tried.
const QUIET: Duration = Duration::from_secs(2);
/// How long they wait where the others wait for something else: what falls in the same moment
/// still goes along.
const MOMENT: Duration = Duration::from_millis(100);
/// They wait no longer than this, though others may be in the middle of a slow transaction.
const LONGEST: Duration = Duration::from_secs(30);

/// First and longest wait for a message that must be read and can't be.
const UNREADABLE_WAIT: Duration = Duration::from_secs(60);
const UNREADABLE_WAIT_MAX: Duration = Duration::from_secs(3600);

/// What gathers on one shard.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    open: RefCell<BTreeMap<MessageId, Open>>,
    next_number: Cell<u64>,
    /// Reports that are being made and whose submit is under way.
    busy: Cell<usize>,
}

/// Verdicts on one message that wait for more.
#[derive(Debug)]
struct Open {
    gathered: Gathered,
    sibling: Option<EntryId>,
    first: Mono,
    due: Mono,
    hurry: Rc<Notify>,
}

/// Verdicts that go into one report.
#[derive(Debug)]
struct Gathered {
    key: ReportKey,
    /// If it was at hand.
    message: Option<Rc<Message>>,
    judged: Vec<Judged>,
}

impl Gathering {
    /// Has everything written now.
    pub(crate) fn hasten_all(&self) {
        for open in self.open.borrow().values() {
            open.hurry.notify_one();
        }
    }

    /// Whether no report is to be made, but for those that can't be.
    pub(crate) fn is_quiet(&self) -> bool {
        self.busy.get() == 0 && self.open.borrow().is_empty()
    }

    /// Adds to what gathers for a message; the notify of a gathering that has begun.
    fn add(
        &self,
        now: Mono,
        wait: Duration,
        id: MessageId,
        new: New<'_>,
    ) -> (ReportKey, Mono, Rc<Notify>, bool) {
        let mut open = self.open.borrow_mut();
        let has_begun = !open.contains_key(&id);
        let mine = open.entry(id).or_insert_with(|| {
            let number = self.next_number.get();
            self.next_number.set(number + 1);
            Open {
                gathered: Gathered { key: (id, number), message: None, judged: Vec::new() },
                sibling: None,
                first: now,
                due: now,
                hurry: Rc::default(),
            }
        });
        mine.gathered.message = mine.gathered.message.take().or_else(|| new.message.cloned());
        mine.gathered.judged.extend(new.judged);
        mine.sibling = new.sibling;
        mine.due = mine.due.max(now + wait).min(mine.first + LONGEST);
        (mine.gathered.key, mine.due, Rc::clone(&mine.hurry), has_begun)
    }

    fn take(&self, key: ReportKey) -> Option<Gathered> {
        let mut open = self.open.borrow_mut();
        open.get(&key.0).filter(|mine| mine.gathered.key == key)?;
        open.remove(&key.0).map(|mine| mine.gathered)
    }

    /// When this one is to be written; later if `is_expected` says that another verdict comes.
    fn due(
        &self,
        key: ReportKey,
        now: Mono,
        is_expected: impl Fn(EntryId) -> bool,
    ) -> Option<Mono> {
        let mut open = self.open.borrow_mut();
        let mine = open.get_mut(&key.0).filter(|mine| mine.gathered.key == key)?;
        if mine.due <= now && mine.sibling.is_some_and(is_expected) {
            mine.due = (now + QUIET).min(mine.first + LONGEST);
        }
        Some(mine.due)
    }
}

/// What is added.
pub(crate) struct New<'a> {
    /// If it is at hand.
    pub(crate) message: Option<&'a Rc<Message>>,
    pub(crate) received_at: Wall,
    pub(crate) judged: Vec<Judged>,
    /// Another recipient of the message that is queued, once all of these have left the queue.
    pub(crate) sibling: Option<EntryId>,
}

/// Adds verdicts, at least one, on recipients of one message. They are reported and settled soon.
pub(crate) fn gather<W: World>(shard: &Rc<Shard<W>>, id: MessageId, new: New<'_>) {
    #[cfg(feature = "planted")]
    if new.judged.len() > 1 && shard.planted.get() == Some(crate::shard::Planted::ReportEach) {
        for judged in new.judged {
            gather(shard, id, New { judged: vec![judged], sibling: None, ..new });
        }
        return;
    }
    let now = shard.now();
    let delivered = new.judged.iter().filter(|judged| judged.is_delivered()).count() as u64;
    let cached = if new.message.is_some() { None } else { shard.cache.borrow().get(id) };
    let new = New { message: new.message.or(cached.as_ref()), ..new };
    let given_up: Vec<_> = new
        .judged
        .iter()
        .filter_map(|judged| {
            let address = match new.message {
                Some(message) => message.address_of(judged.index)?,
                None => unread_address(judged.domain.as_ref()),
            };
            judged.given_up(address, new.received_at)
        })
        .collect();
    let wait = wait_for_siblings(shard, new.sibling, now);
    // What is late need not wait for what is about to be tried.
    let all_late = new.judged.iter().all(|judged| judged.settle_kind().is_none());
    let wait = if all_late { wait.min(MOMENT) } else { wait };
    let (key, due, hurry, has_begun) = shard.gathering.add(now, wait, id, new);
    if !given_up.is_empty() {
        shard.unreported.gather(key, due, &hurry, given_up);
    }
    if wait.is_zero() {
        if let Some(gathered) = shard.gathering.take(key) {
            let task = Rc::clone(shard);
            shard.world.spawn().spawn(async move { finish(&task, gathered).await });
        }
    } else if has_begun {
        let task = Rc::clone(shard);
        shard.world.spawn().spawn(async move { wait_and_finish(&task, key, &hurry).await });
    }
    // Last: at the limit egress stands still until what gathers is settled.
    shard.count_unsettled(delivered);
    if delivered > 0 && shard.settles.pause().is_some() {
        shard.gathering.hasten_all();
    }
}

/// How long to wait for more verdicts on the message of `sibling`.
fn wait_for_siblings<W: World>(shard: &Shard<W>, sibling: Option<EntryId>, now: Mono) -> Duration {
    let Some(sibling) = sibling.filter(|_| shard.stopping.until().is_none()) else {
        return Duration::ZERO;
    };
    match shard.queue.borrow().siblings(sibling, now + QUIET) {
        // It was there when this one left, and what became of it is about to be told, too.
        Siblings::None | Siblings::Waiting => MOMENT,
        Siblings::Due | Siblings::InFlight => QUIET,
    }
}

async fn wait_and_finish<W: World>(shard: &Rc<Shard<W>>, key: ReportKey, hurry: &Notify) {
    loop {
        let now = shard.now();
        let is_expected =
            |sibling| shard.queue.borrow().siblings(sibling, now) == Siblings::InFlight;
        // It may have been finished by the verdict on the last recipient.
        let Some(due) = shard.gathering.due(key, now, is_expected) else { return };
        if due <= now {
            break;
        }
        let is_hurried = tokio::select! {
            biased;
            () = hurry.notified() => true,
            () = shard.world.time().sleep_until(due) => false,
        };
        if is_hurried {
            break;
        }
    }
    if let Some(gathered) = shard.gathering.take(key) {
        finish(shard, gathered).await;
    }
}

async fn finish<W: World>(shard: &Rc<Shard<W>>, gathered: Gathered) {
    let Gathered { key, message, mut judged, .. } = gathered;
    let _busy = Making::new(shard);
    let message = match message {
        Some(message) => message,
        None => match read(shard, key, &judged).await {
            Some(message) => message,
            None => return shard.unreported.conclude(key),
        },
    };
    judged.retain(|judged| match judged.verdict {
        // Delivered, or given up, meanwhile.
        Verdict::Delayed { entry, .. } => {
            shard.queue.borrow().siblings(entry, Mono(0)) != Siblings::None
        }
        _ => true,
    });
    judged.iter_mut().for_each(|judged| judged.recall(&message));
    report::send(shard, &message, judged, key).await;
}

/// The message, however long it takes: without it nobody knows whom to tell, and until somebody
/// was told its recipients stay in the spool, listed as not reported. Lack of descriptors passes;
/// damage asks for an operator, who finds each failure on the console. `None`: there is nobody to
/// tell about, for an operator removed them, or none was given up.
async fn read<W: World>(
    shard: &Rc<Shard<W>>,
    key: ReportKey,
    judged: &[Judged],
) -> Option<Rc<Message>> {
    let given_up = judged.iter().any(Judged::is_given_up);
    let mut wait = UNREADABLE_WAIT;
    loop {
        let why = match shard.message(key.0).await {
            Ok(message) => return Some(message),
            // No recipient of it is open in the spool.
            Err(LoadError::NotFound) => return None,
            Err(why) => why,
        };
        if !given_up {
            return None;
        }
        let time = shard.world.time();
        let next_try = time.now() + wait;
        wait = (wait * 2).min(UNREADABLE_WAIT_MAX);
        let why = said_of(&why).into();
        let PutOff::Wait(hurry) = shard.unreported.put_off(key, next_try, Some(why)) else {
            return None;
        };
        let _idle = Idle::new(shard);
        tokio::select! {
            biased;
            () = hurry.notified() => {}
            () = time.sleep_until(next_try) => {}
        }
        if !shard.unreported.is_waiting(key) {
            return None;
        }
    }
}

/// Counts a report that is being made: a stop waits for it.
pub(crate) struct Making<W: World>(Rc<Shard<W>>);

impl<W: World> Making<W> {
    fn new(shard: &Rc<Shard<W>>) -> Making<W> {
        let busy = &shard.gathering.busy;
        busy.set(busy.get() + 1);
        Making(Rc::clone(shard))
    }
}

impl<W: World> Drop for Making<W> {
    fn drop(&mut self) {
        let busy = &self.0.gathering.busy;
        busy.set(busy.get() - 1);
    }
}

/// A report that can't be made for now: a stop does not wait for it.
pub(crate) struct Idle<W: World>(Rc<Shard<W>>);

impl<W: World> Idle<W> {
    pub(crate) fn new(shard: &Rc<Shard<W>>) -> Idle<W> {
        let busy = &shard.gathering.busy;
        busy.set(busy.get() - 1);
        Idle(Rc::clone(shard))
    }
}

impl<W: World> Drop for Idle<W> {
    fn drop(&mut self) {
        let busy = &self.0.gathering.busy;
        busy.set(busy.get() + 1);
    }
}
