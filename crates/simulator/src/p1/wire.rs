//! A connection with the machine of one end of an association.

use super::P1World;
use crate::network::SimStream;
use bytes::Bytes;
use mail::Mono;
use mta::seams::Stream as _;
use std::future::{Future as _, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use x400::association::{AssociationEnd, Event, Initiator, Responder, Timeouts};

/// What is read at once.
const READ_BYTES: usize = 16 * 1024;
/// The same by those who read slowly, and how long they pause at most.
const SLOW_BYTES: usize = 400;
const SLOW_US: u64 = 300_000;

/// How long all of them wait for what.
pub(super) const TIMEOUTS: Timeouts = Timeouts {
    bind: Duration::from_secs(30),
    receive: Duration::from_secs(60),
    window: Duration::from_secs(40),
    acknowledge: Duration::from_secs(40),
    answer: Duration::from_secs(30),
    idle: Duration::from_secs(120),
};

/// What a connection needs of either machine.
pub(super) trait Machine {
    fn handle_input(&mut self, octets: Bytes, now: Mono);
    fn handle_eof(&mut self);
    fn handle_written(&mut self, now: Mono);
    fn poll_event(&mut self) -> Option<Event>;
    fn take_output(&mut self) -> Vec<Bytes>;
    fn is_closed(&self) -> bool;
    fn next_deadline(&self) -> Option<Mono>;
    fn handle_deadline(&mut self, now: Mono);
}

macro_rules! machine {
    ($machine:ty) => {
        impl Machine for $machine {
            fn handle_input(&mut self, octets: Bytes, now: Mono) {
                self.handle_input(octets, now);
            }
            fn handle_eof(&mut self) {
                self.handle_eof();
            }
            fn handle_written(&mut self, now: Mono) {
                self.handle_written(now);
            }
            fn poll_event(&mut self) -> Option<Event> {
                self.poll_event()
            }
            fn take_output(&mut self) -> Vec<Bytes> {
                self.take_output()
            }
            fn is_closed(&self) -> bool {
                self.is_closed()
            }
            fn next_deadline(&self) -> Option<Mono> {
                self.next_deadline()
            }
            fn handle_deadline(&mut self, now: Mono) {
                self.handle_deadline(now);
            }
        }
    };
}

machine!(Initiator);
machine!(Responder);

/// A connection with a machine.
pub(super) struct Wire<M> {
    pub(super) machine: M,
    /// It reads a little at a time, until all heals.
    pub(super) is_slow: bool,
    world: Rc<P1World>,
    stream: SimStream,
    unwritten: Vec<u8>,
    /// Nothing more can be read.
    has_ended: bool,
}

/// What went on.
enum WireProgress {
    Read,
    Other,
}

impl<M: Machine> Wire<M> {
    pub(super) fn new(world: &Rc<P1World>, stream: SimStream, machine: M) -> Wire<M> {
        Wire {
            machine,
            is_slow: false,
            world: Rc::clone(world),
            stream,
            unwritten: Vec::new(),
            has_ended: false,
        }
    }

    pub(super) fn now(&self) -> Mono {
        Mono(self.world.executor().now_us())
    }

    /// Which connection it is.
    pub(super) fn connection(&self) -> u64 {
        self.stream.id()
    }

    /// All that was read here so far.
    pub(super) fn read_bytes(&self) -> u64 {
        self.stream.read_bytes()
    }

    /// Where in what is written here all ends that the machine has said so far.
    pub(super) fn end_of_output(&mut self) -> u64 {
        self.gather();
        self.stream.written_bytes() + self.unwritten.len() as u64
    }

    fn gather(&mut self) {
        self.unwritten.extend(self.machine.take_output().concat());
    }

    /// Writes and reads until the machine has something to tell.
    pub(super) async fn next_event(&mut self) -> Event {
        loop {
            if let Some(event) = self.machine.poll_event() {
                return event;
            }
            self.gather();
            if self.machine.is_closed() && (self.unwritten.is_empty() || self.has_ended) {
                return Event::Ended(AssociationEnd::Lost);
            }
            match self.progress().await {
                Ok(WireProgress::Read) if self.is_slow && !self.world.is_healed() => {
                    self.world.pause(SLOW_US).await;
                }
                Ok(WireProgress::Read | WireProgress::Other) => {}
                Err(_) => {
                    self.has_ended = true;
                    self.machine.handle_eof();
                }
            }
        }
    }

    /// The same until then; `None`: nothing was told.
    pub(super) async fn event_until(&mut self, until_us: u64) -> Option<Event> {
        let executor = self.world.executor().clone();
        tokio::select! {
            biased;
            event = self.next_event() => Some(event),
            () = executor.sleep_until(until_us) => None,
        }
    }

    /// Until all that the machine has to say is written, or nobody reads it.
    pub(super) async fn close(mut self) {
        while !self.machine.is_closed() || !(self.has_ended || self.unwritten.is_empty()) {
            let _ = self.next_event().await;
        }
    }

    /// Breaks the connection.
    pub(super) fn cut(self) {
        self.stream.abort();
    }

    async fn progress(&mut self) -> io::Result<WireProgress> {
        let until_us = self.machine.next_deadline().map_or(u64::MAX, |deadline| deadline.0);
        let mut time = pin!(self.world.executor().sleep_until(until_us));
        poll_fn(|cx| {
            let progress = self.poll_stream(cx);
            if progress.is_pending() && time.as_mut().poll(cx).is_ready() {
                self.machine.handle_deadline(self.now());
                return Poll::Ready(Ok(WireProgress::Other));
            }
            progress
        })
        .await
    }

    fn poll_stream(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<WireProgress>> {
        let mut has_written = false;
        while !self.unwritten.is_empty() {
            match self.stream.poll_write(cx, &[IoSlice::new(&self.unwritten)]) {
                Poll::Ready(written) => {
                    self.unwritten.drain(..written?);
                    self.machine.handle_written(self.now());
                    has_written = true;
                }
                Poll::Pending => break,
            }
        }
        if has_written && self.unwritten.is_empty() {
            return Poll::Ready(Ok(WireProgress::Other));
        }
        let mut buffer = [0; READ_BYTES];
        let most = if self.is_slow { SLOW_BYTES } else { READ_BYTES };
        match self.stream.poll_read(cx, &mut buffer[..most]) {
            Poll::Ready(Ok(0)) => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(count)) => {
                let now = self.now();
                self.machine.handle_input(Bytes::copy_from_slice(&buffer[..count]), now);
                Poll::Ready(Ok(WireProgress::Read))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }
}
