//! A machine with its driver.

use crate::association::{
    AbortReason, Event, ExceptionReason, Identity, Initiator, InitiatorSettings, Password,
    Responder, ResponderSettings,
};
use bytes::Bytes;
use mail::Mono;
use std::time::Duration;

/// What both machines offer.
pub trait Machine {
    /// See [`Responder::handle_input`].
    fn handle_input(&mut self, octets: Bytes, now: Mono);
    /// See [`Responder::handle_eof`].
    fn handle_eof(&mut self);
    /// See [`Responder::poll_event`].
    fn poll_event(&mut self) -> Option<Event>;
    /// See [`Responder::take_output`].
    fn take_output(&mut self) -> Vec<Bytes>;
    /// See [`Responder::is_closed`].
    fn is_closed(&self) -> bool;
    /// See [`Responder::is_ready`].
    fn is_ready(&self) -> bool;
    /// See [`Responder::next_deadline`].
    fn next_deadline(&self) -> Option<Mono>;
    /// See [`Responder::handle_deadline`].
    fn handle_deadline(&mut self, now: Mono);
    /// See [`Responder::acknowledge`].
    fn acknowledge(&mut self, now: Mono);
    /// See [`Responder::refuse_apdu`].
    fn refuse_apdu(&mut self, reason: ExceptionReason, now: Mono);
    /// See [`Responder::begin_transfer`].
    fn begin_transfer(&mut self, bytes: u64, now: Mono);
    /// See [`Responder::push_content`].
    fn push_content(&mut self, octets: Bytes, now: Mono);
    /// See [`Responder::wants_content`].
    fn wants_content(&self) -> bool;
    /// See [`Responder::discard_transfer`].
    fn discard_transfer(&mut self, now: Mono);
    /// See [`Responder::give_turn`].
    fn give_turn(&mut self, now: Mono);
    /// See [`Responder::request_turn`].
    fn request_turn(&mut self, priority: u32, now: Mono);
    /// See [`Responder::abort`].
    fn abort(&mut self, reason: AbortReason, now: Mono);
    /// Answers a bind; only a responder is asked.
    fn decide(&mut self, is_accepted: bool, now: Mono);
    /// Initiator: see [`Initiator::release`].
    fn release(&mut self, now: Mono);
}

macro_rules! machine {
    ($machine:ty, $($own:tt)*) => {
        impl Machine for $machine {
            fn handle_input(&mut self, octets: Bytes, now: Mono) { self.handle_input(octets, now); }
            fn handle_eof(&mut self) { self.handle_eof(); }
            fn poll_event(&mut self) -> Option<Event> { self.poll_event() }
            fn take_output(&mut self) -> Vec<Bytes> { self.take_output() }
            fn is_closed(&self) -> bool { self.is_closed() }
            fn is_ready(&self) -> bool { self.is_ready() }
            fn next_deadline(&self) -> Option<Mono> { self.next_deadline() }
            fn handle_deadline(&mut self, now: Mono) { self.handle_deadline(now); }
            fn acknowledge(&mut self, now: Mono) { self.acknowledge(now); }
            fn refuse_apdu(&mut self, reason: ExceptionReason, now: Mono) { self.refuse_apdu(reason, now); }
            fn begin_transfer(&mut self, bytes: u64, now: Mono) { self.begin_transfer(bytes, now); }
            fn push_content(&mut self, octets: Bytes, now: Mono) { self.push_content(octets, now); }
            fn wants_content(&self) -> bool { self.wants_content() }
            fn discard_transfer(&mut self, now: Mono) { self.discard_transfer(now); }
            fn give_turn(&mut self, now: Mono) { self.give_turn(now); }
            fn request_turn(&mut self, priority: u32, now: Mono) { self.request_turn(priority, now); }
            fn abort(&mut self, reason: AbortReason, now: Mono) { self.abort(reason, now); }
            $($own)*
        }
    };
}

machine! {
    Responder,
    fn decide(&mut self, is_accepted: bool, now: Mono) {
        if is_accepted {
            self.accept(&identity("b.test", "secretb"), now);
        } else {
            self.refuse(crate::association::BindError::Authentication, now);
        }
    }
    fn release(&mut self, _: Mono) {}
}
machine! {
    Initiator,
    fn decide(&mut self, _: bool, _: Mono) {}
    fn release(&mut self, now: Mono) {
        self.release(now);
    }
}

/// A name with its password.
#[must_use]
pub fn identity(name: &str, password: &str) -> Identity {
    Identity { name: Some(name.into()), password: Some(Password(password.as_bytes().to_vec())) }
}

/// An initiator that says it is `a.test`.
#[must_use]
pub fn initiator_settings() -> InitiatorSettings {
    InitiatorSettings {
        identity: identity("a.test", "secreta"),
        reference_time: "261122060000Z".into(),
        ..InitiatorSettings::default()
    }
}

/// A responder.
#[must_use]
pub fn responder(settings: ResponderSettings) -> Driver<Responder> {
    Driver::new(Responder::new(settings, Mono(0)))
}

/// An initiator.
#[must_use]
pub fn initiator(settings: InitiatorSettings) -> Driver<Initiator> {
    Driver::new(Initiator::new(settings, Mono(0)))
}

/// What its driver does.
#[derive(Clone, Debug)]
pub struct Policy {
    /// Binds are accepted.
    pub accepts: bool,
    /// Complete APDUs are acknowledged at once; `None` leaves them to the test; otherwise they are refused.
    pub acknowledges: Option<bool>,
    /// Refuse within an activity once so many octets of content came.
    pub refuses_behind: Option<usize>,
    /// APDUs to be sent, one after another, whenever that may be.
    pub to_send: Vec<Bytes>,
    /// Release, or give the turn back, when none is left.
    pub releases: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            accepts: true,
            acknowledges: Some(true),
            refuses_behind: None,
            to_send: Vec::new(),
            releases: false,
        }
    }
}

/// A machine with its driver, its log, and checks.
#[derive(Debug)]
pub struct Driver<M> {
    /// The machine.
    pub machine: M,
    /// What the driver does.
    pub policy: Policy,
    /// The time.
    pub now: Mono,
    /// All events but `Content`.
    pub events: Vec<Event>,
    /// The contents of the activities that came, the last perhaps incomplete.
    pub contents: Vec<Vec<u8>>,
    /// The APDUs acknowledged.
    pub received: Vec<Vec<u8>>,
    /// All that was said.
    pub output: Vec<u8>,
    /// How many buffers that were.
    pub buffers: usize,
    sent: usize,
    is_receiving: bool,
    is_complete: bool,
}

impl<M: Machine> Driver<M> {
    /// Nothing happened yet.
    pub fn new(machine: M) -> Self {
        Driver {
            machine,
            policy: Policy::default(),
            now: Mono(0),
            events: Vec::new(),
            contents: Vec::new(),
            received: Vec::new(),
            output: Vec::new(),
            buffers: 0,
            sent: 0,
            is_receiving: false,
            is_complete: false,
        }
    }

    /// The peer says this; all that follows from it is done.
    pub fn feed(&mut self, octets: &[u8]) {
        self.machine.handle_input(Bytes::copy_from_slice(octets), self.now);
        self.run();
    }

    /// The peer says this, in pieces of so many octets.
    pub fn feed_cut(&mut self, octets: &[u8], piece: usize) {
        for piece in octets.chunks(piece.max(1)) {
            self.feed(piece);
        }
    }

    /// Time passes until the next deadline, and that is obeyed; `false` if there is none.
    pub fn pass_deadline(&mut self) -> bool {
        let Some(deadline) = self.machine.next_deadline() else { return false };
        self.now = deadline;
        self.machine.handle_deadline(deadline);
        self.run();
        true
    }

    /// So much time passes; deadlines on the way are obeyed.
    pub fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.machine.handle_deadline(self.now);
        self.run();
    }

    /// The peer closes the connection.
    pub fn close(&mut self) {
        self.machine.handle_eof();
        self.run();
        assert!(self.machine.is_closed());
    }

    /// Takes all events and output, and does what the policy says.
    pub fn run(&mut self) {
        while self.send_next() {}
        while let Some(event) = self.machine.poll_event() {
            self.event(event);
            // At once, and not when the input is used up: where that is must not matter.
            while self.send_next() {}
        }
        self.flush();
        if let Some(Event::Ended(_)) = self.events.last() {
            assert!(!self.machine.is_ready(), "an ended association is ready");
        }
    }

    fn flush(&mut self) {
        let output = self.machine.take_output();
        self.buffers += output.len();
        for piece in output {
            assert!(!piece.is_empty(), "an empty buffer");
            self.output.extend_from_slice(&piece);
        }
    }

    fn event(&mut self, event: Event) {
        let has_ended = matches!(self.events.last(), Some(Event::Ended(_)));
        assert!(!has_ended, "{event:?} behind the end");
        match &event {
            Event::Bind(_) => {
                assert!(self.events.is_empty(), "a second bind");
                self.machine.decide(self.policy.accepts, self.now);
            }
            Event::ActivityStarted => {
                assert!(!self.is_receiving, "an activity within another");
                self.is_receiving = true;
                self.contents.push(Vec::new());
            }
            Event::Content(octets) => return self.content(octets),
            Event::ApduComplete => {
                assert!(self.is_receiving && !self.is_complete, "an APDU out of nothing");
                self.is_complete = true;
            }
            Event::ActivityDropped => (self.is_receiving, self.is_complete) = (false, false),
            Event::Bound(_)
            | Event::Acknowledged
            | Event::NotTaken(_)
            | Event::TurnTaken
            | Event::TurnGiven
            | Event::Ended(_) => {}
        }
        let is_complete = event == Event::ApduComplete;
        self.events.push(event);
        if is_complete {
            match self.policy.acknowledges {
                Some(true) => self.acknowledge(),
                Some(false) => {
                    self.machine.refuse_apdu(ExceptionReason::TemporarilyUnable, self.now)
                }
                None => {}
            }
        }
    }

    /// The APDU is durable.
    pub fn acknowledge(&mut self) {
        assert!(self.is_complete, "nothing to acknowledge");
        (self.is_receiving, self.is_complete) = (false, false);
        self.received.extend(self.contents.last().cloned());
        self.machine.acknowledge(self.now);
    }

    fn content(&mut self, octets: &Bytes) {
        assert!(self.is_receiving && !self.is_complete, "content out of nothing");
        assert!(!octets.is_empty(), "content without octets");
        let content = self.contents.last_mut().expect("an activity");
        let before = content.len();
        content.extend_from_slice(octets);
        if let Some(bytes) = self.policy.refuses_behind
            && before < bytes
            && content.len() >= bytes
        {
            // Where that is must not depend on how the content was cut.
            content.truncate(bytes);
            self.machine.refuse_apdu(ExceptionReason::TemporarilyUnable, self.now);
        }
    }

    /// Sends what is to be sent next, in pieces of 1,000 octets; `false` if there is nothing to do.
    fn send_next(&mut self) -> bool {
        if !self.machine.is_ready() {
            return false;
        }
        let Some(apdu) = self.policy.to_send.get(self.sent).cloned() else {
            if self.policy.releases {
                self.policy.releases = false;
                self.machine.release(self.now);
                self.machine.give_turn(self.now);
                return true;
            }
            return false;
        };
        self.sent += 1;
        self.machine.begin_transfer(apdu.len() as u64, self.now);
        let mut rest = apdu;
        while !rest.is_empty() {
            let piece = rest.split_to(1_000.min(rest.len()));
            self.machine.push_content(piece, self.now);
        }
        assert!(!self.machine.wants_content(), "all was given");
        true
    }
}
