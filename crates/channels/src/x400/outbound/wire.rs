//! A connection to a peer: reads and writes octets until the machine has an event.

use super::cargo::Cargo;
use crate::x400::peer::Unwritten;
use bytes::Bytes;
use mail::Mono;
use mta::alarm::Alarm;
use mta::delivery::Slot;
use mta::seams::{Net, Stream, World};
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use x400::association::{AbortReason, AssociationEnd, Event, Initiator};

/// Timeout for the last output. It is longer than the machine's timeout for a reply to its release.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(90);

/// A connection and its protocol state.
pub(super) struct P1Transport<W: World> {
    pub(super) stream: <W::Net as Net>::Stream,
    pub(super) machine: Initiator,
    pub(super) alarm: Alarm<W::Time>,
    pub(super) unwritten: Unwritten,
    /// Deadline of the current attempt.
    pub(super) until: Mono,
}

impl<W: World> P1Transport<W> {
    /// Reads and writes until the machine has an event.
    pub(super) async fn next_event(&mut self, slot: &Slot<W>) -> Event {
        loop {
            if let Some(event) = self.next_event_or_room(slot, None).await {
                return event;
            }
        }
    }

    /// The same, or with more to send, until the machine wants it and all output is written: `None`. The remaining APDU
    /// may be released during the wait.
    pub(super) async fn next_event_or_room(
        &mut self,
        slot: &Slot<W>,
        mut more: Option<&mut Cargo>,
    ) -> Option<Event> {
        loop {
            if let Some(event) = self.machine.poll_event() {
                return Some(event);
            }
            self.unwritten.extend(self.machine.take_output());
            if self.unwritten.is_empty() {
                if self.machine.is_closed() {
                    return Some(Event::Ended(AssociationEnd::Lost));
                }
                if more.is_some() && self.machine.wants_content() {
                    return None;
                }
            }
            let progress = poll_fn(|cx| self.poll_progress(slot, more.as_deref_mut(), cx));
            if progress.await.is_err() {
                self.unwritten = Unwritten::default();
                self.machine.handle_eof();
            }
        }
    }

    /// Writes output and reads input, since two sides that only write would deadlock. Ready when either made progress.
    fn poll_progress(
        &mut self,
        slot: &Slot<W>,
        more: Option<&mut Cargo>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let mut has_written = false;
        while !self.unwritten.is_empty() {
            match self.stream.poll_write(cx, &self.unwritten.slices()) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.unwritten.advance(count);
                    self.machine.handle_written(slot.now());
                    has_written = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        if has_written && self.unwritten.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut scratch = slot.scratch();
        match self.stream.poll_read(cx, &mut scratch) {
            Poll::Ready(Ok(0)) => {
                // A peer that has closed reads nothing more, and the end of input would be found again and again.
                self.unwritten = Unwritten::default();
                self.machine.handle_eof();
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Ok(count)) => {
                let octets = Bytes::copy_from_slice(scratch.get(..count).unwrap_or_default());
                self.machine.handle_input(octets, slot.now());
                return Poll::Ready(Ok(()));
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            Poll::Pending => {}
        }
        drop(scratch);
        let deadline = self.machine.next_deadline().unwrap_or(Mono::NEVER);
        let now = slot.now();
        let look_at = more.map_or(Mono::NEVER, |more| more.poll_give_way(cx, now));
        if self.alarm.poll(cx, deadline.min(self.until).min(look_at)).is_pending() {
            return Poll::Pending;
        }
        let now = slot.now();
        if now >= self.until {
            self.until = Mono::NEVER;
            self.machine.abort(AbortReason::TemporaryProblem, now);
        } else if now >= deadline {
            self.machine.handle_deadline(now);
        }
        Poll::Ready(Ok(()))
    }

    /// Continues until the machine has no more output, within a timeout for a peer that reads nothing.
    pub(super) async fn close(&mut self, slot: &Slot<W>) {
        let until = slot.now() + CLOSE_TIMEOUT;
        let last_words = async {
            while !self.machine.is_closed()
                || self.machine.has_output()
                || !self.unwritten.is_empty()
            {
                let _ = self.next_event(slot).await;
            }
        };
        Alarm::new(slot.world().time().clone()).within(|_| until, last_words).await;
    }
}
