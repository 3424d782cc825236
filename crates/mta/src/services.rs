//! Services shared by all parts of a shard: seams, metrics, events, console.

use crate::console::Console;
use crate::event::{Event, EventSink, Kind, Position, Recipients};
use crate::metrics::{Metrics, RecipientOutcome};
#[cfg(feature = "planted")]
use crate::planted::Planted;
use crate::pools::PoolId;
use crate::reply_classes::ReplyClasses;
use crate::seams::{Spawn, Task, Time, World};
use crate::shared::SharedState;
use crate::stopping::Stopping;
use crate::watched::Signal;
use ::classes::ReplyClassification;
use mail::{Failure, Mono, Wall};
#[cfg(feature = "planted")]
use std::cell::Cell;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Pause for other tasks between two pieces of long work.
const PAUSE: Duration = Duration::from_millis(1);

/// Size of a shard's read buffer: idle connections have none.
pub const SCRATCH_BYTES: usize = 64 * 1024;

/// Shared by the parts of one shard.
pub(crate) struct Services<W: World> {
    pub(crate) number: u16,
    pub(crate) world: W,
    pub(crate) shared: Arc<SharedState>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) events: Rc<dyn EventSink>,
    pub(crate) console: Rc<dyn Console>,
    pub(crate) stopping: Rc<Stopping>,
    /// Classification of peers' negative replies.
    pub(crate) classes: ReplyClasses,
    /// The schedule's decisions may have changed.
    pub(crate) changed: Signal,
    /// Read buffer for tasks, valid until the next await.
    pub(crate) scratch: Rc<RefCell<Box<[u8]>>>,
    #[cfg(feature = "planted")]
    pub(crate) planted: Cell<Option<Planted>>,
}

impl<W: World> Services<W> {
    pub(crate) fn now(&self) -> Mono {
        self.world.time().now()
    }

    pub(crate) fn wall(&self) -> Wall {
        self.world.time().wall()
    }

    /// Converts a monotonic time to wall-clock time.
    pub(crate) fn wall_of(&self, at: Mono) -> Wall {
        let (now, wall) = (self.now(), self.wall());
        if at >= now {
            wall.after(at.since(now))
        } else {
            let ago = u64::try_from(now.since(at).as_millis()).unwrap_or(u64::MAX);
            Wall(wall.0.saturating_sub(ago))
        }
    }

    /// Counts a request that was rejected, deferred or displaced because the pool was scarce.
    pub(crate) fn note_turned_away(&self, pool: PoolId) {
        self.shared.pressures.note_turned_away(pool, self.now());
    }

    /// Runs a task on this shard.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.run(Box::pin(task));
    }

    /// Runs a boxed task: a connection's.
    pub(crate) fn run(&self, task: Task) {
        self.world.spawn().spawn(task);
    }

    /// Lets other tasks run, between two pieces of long work.
    pub(crate) async fn pause_for_others(&self) {
        let time = self.world.time();
        time.sleep_until(time.now() + PAUSE).await;
    }

    /// Emits `event` with the position of its record.
    pub(crate) fn emit_at(&self, mut event: Event, log: u8, position: u64) {
        if let Some(message) = &mut event.message {
            message.position = Some(Position::new(log, position));
        }
        self.events.emit(event);
    }

    /// Emits an event without a message.
    pub(crate) fn emit_of_none(&self, kind: Kind) {
        let at = self.wall();
        self.events.emit(Event { at, message: None, recipients: Recipients::new(), kind });
    }

    /// Counts a permanently failed recipient.
    pub(crate) fn note_failed(&self, failure: &Failure) {
        self.metrics.recipients_done[RecipientOutcome::Failed].inc();
        if let Some(verdict) = self.classes.of(failure) {
            self.shared.class_metrics.failures[verdict.class].inc();
        }
    }

    /// Counts recipients deferred for one reason. Returns the reply's class.
    pub(crate) fn note_deferred(
        &self,
        failure: &Failure,
        recipients: u64,
    ) -> Option<ReplyClassification> {
        self.metrics.deferrals.add(recipients);
        let verdict = self.classes.of(failure)?;
        self.shared.class_metrics.deferrals[verdict.class].add(recipients);
        Some(verdict)
    }

    /// Returns true if a simulation has planted this fault.
    #[cfg(feature = "planted")]
    pub(crate) fn has_planted(&self, fault: Planted) -> bool {
        self.planted.get() == Some(fault)
    }
}
