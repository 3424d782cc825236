//! Ends holds by checks that no operator released within `hold_for`.

use super::change::by_message;
use super::walk::{CommandReply, Operator};
use crate::alarm::Alarm;
use crate::custody::Ended;
use crate::metrics::HoldEnd;
use crate::seams::World;
use mail::{Class, EnhancedStatus, Failure, Mono, Wall};
use queue::Glance;
use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::sync::mpsc;

/// Maximum number of holds ended at a time.
const ENDED_MAX: usize = 64;
/// Interval for reading the wall clock while messages are held, since it may be set.
const LOOK_EVERY: Duration = Duration::from_secs(3_600);

impl<W: World> Operator<W> {
    /// Ends each hold by a check at its time.
    pub(crate) async fn run_holds(self: Rc<Self>) {
        let mut alarm = Alarm::new(self.services.world.time().clone());
        loop {
            let held = &self.custody.held;
            let wall = self.services.wall();
            let until = match held.next_end() {
                None => Mono::NEVER,
                // With a distrusted clock the hold must not end: a wrong clock would remove mail.
                Some(end) if end <= wall && !self.services.shared.clock.is_doubted() => {
                    self.end_holds(wall).await;
                    continue;
                }
                Some(end) => {
                    let wait = end.since(wall).clamp(Duration::from_secs(1), LOOK_EVERY);
                    self.services.now() + wait
                }
            };
            poll_fn(|cx| match held.changed.poll_taken(cx) {
                Poll::Ready(()) => Poll::Ready(()),
                Poll::Pending => alarm.poll(cx, until),
            })
            .await;
        }
    }

    async fn end_holds(self: &Rc<Self>, wall: Wall) {
        let ended = self.custody.held.take_ended(wall, ENDED_MAX);
        let (mut returned, mut removed) = (Vec::new(), Vec::new());
        for hold in &ended {
            let glances = self.glances_of_held(hold).await;
            match hold.is_returnable {
                true => returned.extend(glances),
                false => removed.extend(glances),
            }
        }
        let console = &self.services.console;
        let (parts, _nobody) = mpsc::channel(1);
        // No client receives the parts.
        let answer =
            CommandReply { parts, tally: Cell::default(), told_at: Cell::new(self.services.now()) };
        let (returned, removed) = (by_message(returned), by_message(removed));
        console.info(
            "queue",
            format_args!(
                "hold_for expired for held messages: returned={} removed={}",
                returned.len(),
                removed.len()
            ),
        );
        self.services.metrics.holds_ended[HoldEnd::Returned].add(returned.len() as u64);
        self.services.metrics.holds_ended[HoldEnd::Removed].add(removed.len() as u64);
        let failed = self.fail_reported(returned, &never_released(), &answer).await;
        let not_removed = self.remove_these(removed, &answer).await.err();
        for error in failed.into_iter().chain(not_removed) {
            console.error("queue", format_args!("held message kept after hold_for: {error}"));
        }
        let now = self.services.wall();
        ended.iter().for_each(|hold| self.custody.held.put_off(hold.id, now));
        self.services.pause_for_others().await;
    }

    async fn glances_of_held(self: &Rc<Self>, hold: &Ended) -> Vec<Glance> {
        let now = self.services.now();
        let glances = self.schedule.queue().glances_of(now, hold.entry);
        if glances.iter().any(|glance| glance.id == hold.id) {
            return glances;
        }
        // An operator has removed that recipient but not the rest.
        self.glances_of(hold.id).await
    }
}

/// Message refused (X.7.1, RFC 3463 §3.8). The check's reason is not disclosed to senders.
fn never_released() -> Arc<Failure> {
    let text = "the message was held for review and was not released in time";
    Arc::new(Failure::local(Class::Permanent, EnhancedStatus::new(5, 7, 1), text))
}
