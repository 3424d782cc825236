//! Sending of an APDU: slices with checkpoints between them, an end, and the peer's replies.

use super::abort::Breach;
use super::core::{Core, Stage, Turn};
use super::transfers::{ActivityState, Sending};
use super::{Event, ExceptionReason};
use crate::ber::{Tag, Writer};
use crate::rtse::{Mode, apdu_front, rttr_front};
use crate::session::{Serial, Spdu};
use bytes::Bytes;

const KIB: u64 = 1_024;

impl Core {
    /// `transfer` may be called.
    pub(super) fn is_ready(&self) -> bool {
        let is_open = self.stage == Stage::Open && self.turn == Turn::Ours;
        is_open && self.sending.is_idle() && !self.is_release_wanted
    }

    pub(super) fn begin_transfer(&mut self, apdu_bytes: u64) {
        if !self.is_ready() {
            return;
        }
        let activities = self.sending.activities.saturating_add(1);
        self.sending = Sending { activities, apdu_left: apdu_bytes, ..Sending::default() };
        self.sending.step = ActivityState::Slices;
        self.sending.is_first_slice = true;
        self.sending.stream_left = apdu_bytes;
        let mut id = Writer::new();
        id.integer(Tag::INTEGER, i64::from(activities));
        self.say(&Spdu::ActivityStart { id: id.into_vec() });
        if self.mode == Some(Mode::Normal) {
            let front = apdu_front(self.contexts.mtse, apdu_bytes);
            self.sending.stream_left = apdu_bytes.saturating_add(front.len() as u64);
            self.sending.queue.push_back(Bytes::from(front));
        }
        self.pump();
    }

    /// Octets beyond the announced length are dropped.
    pub(super) fn push_content(&mut self, mut octets: Bytes) {
        if self.sending.step != ActivityState::Slices {
            return;
        }
        let left = usize::try_from(self.sending.apdu_left).unwrap_or(usize::MAX);
        octets.truncate(left);
        self.sending.apdu_left -= octets.len() as u64;
        if !octets.is_empty() {
            self.sending.queue.push_back(octets);
            self.pump();
        }
    }

    /// Frames available octets, as far as the window allows.
    fn pump(&mut self) {
        while self.sending.step == ActivityState::Slices {
            if self.sending.slice_left == 0 && !self.next_slice() {
                return;
            }
            let Some(mut octets) = self.sending.queue.pop_front() else { return };
            let room = usize::try_from(self.sending.slice_left).unwrap_or(usize::MAX);
            let part = octets.split_to(room.min(octets.len()));
            self.sending.slice_left -= part.len() as u64;
            self.framer.push(&mut self.out, part);
            if !octets.is_empty() {
                self.sending.queue.push_front(octets);
            }
        }
    }

    /// Begins the next slice, after its checkpoint; or ends the activity. `false` if the window is full or all is sent.
    fn next_slice(&mut self) -> bool {
        let left = self.sending.stream_left;
        if left == 0 {
            let serial = self.sending.said.next();
            self.sending.step = ActivityState::End(serial);
            self.say(&Spdu::ActivityEnd(serial));
            return false;
        }
        let is_full = self.sending.is_window_full(self.terms.window);
        if is_full {
            return false;
        }
        if !self.sending.is_first_slice {
            self.sending.said = self.sending.said.next();
            self.say(&Spdu::MinorSync { serial: self.sending.said, wants_ack: true });
            // The window may be full by this one: no more data before it is acknowledged.
            self.sending.is_first_slice = true;
            return self.next_slice();
        }
        self.sending.is_first_slice = false;
        let bytes = match u64::from(self.terms.checkpoint_kib) {
            0 => left,
            kib => left.min(kib.saturating_mul(KIB)),
        };
        let mut front = Spdu::data_front().to_vec();
        if self.mode == Some(Mode::Normal) {
            front.extend(rttr_front(self.contexts.rtse, bytes));
        }
        self.sending.stream_left -= bytes;
        self.sending.slice_left = bytes;
        self.framer.begin(bytes.saturating_add(front.len() as u64));
        self.framer.copy(&mut self.out, &front);
        true
    }

    pub(super) fn minor_sync_ack(&mut self, serial: Serial) -> Result<(), Breach> {
        match self.sending.step {
            ActivityState::Slices | ActivityState::End(_) if serial <= self.sending.said => {
                // One acknowledges all before it.
                self.sending.acknowledged = self.sending.acknowledged.max(serial);
                self.pump();
                Ok(())
            }
            // In transit when the activity was discarded.
            ActivityState::Discard(_) => Ok(()),
            ActivityState::Idle | ActivityState::Slices | ActivityState::End(_) => {
                Err(Breach::session(format!("checkpoint {serial} was not sent")))
            }
        }
    }

    pub(super) fn activity_end_ack(&mut self, serial: Serial) -> Result<(), Breach> {
        match self.sending.step {
            ActivityState::End(said) if said == serial => {
                self.sending.clear();
                self.events.push_back(Event::Acknowledged);
                self.give_wanted_turn();
                Ok(())
            }
            ActivityState::Discard(_) => Ok(()),
            ActivityState::Idle | ActivityState::Slices | ActivityState::End(_) => {
                Err(Breach::session(format!("the end of an activity, {serial}, was not sent")))
            }
        }
    }

    /// The peer cannot accept the APDU: it is discarded, so that the association stays usable.
    pub(super) fn exception(&mut self, reason: ExceptionReason) -> Result<(), Breach> {
        match self.sending.step {
            ActivityState::Slices | ActivityState::End(_) => {
                // The peer's session accepts only the necessary data (X.225, state 20).
                self.framer.cut_short(&mut self.out);
                self.say_discard(reason);
                Ok(())
            }
            ActivityState::Discard(_) => Ok(()),
            ActivityState::Idle => Err(Breach::session("an exception outside an activity")),
        }
    }

    /// Discards the APDU because the caller cannot continue. The begun slice must be completed: the peer's presentation
    /// layer parses it.
    pub(super) fn discard(&mut self, reason: ExceptionReason) {
        if matches!(self.sending.step, ActivityState::Slices | ActivityState::End(_)) {
            self.framer.fill(&mut self.out);
            self.say_discard(reason);
        }
    }

    fn say_discard(&mut self, reason: ExceptionReason) {
        self.sending.clear();
        self.sending.step = ActivityState::Discard(reason);
        self.say(&Spdu::ActivityDiscard(reason));
    }

    pub(super) fn activity_discard_ack(&mut self) -> Result<(), Breach> {
        let ActivityState::Discard(reason) = self.sending.step else {
            return Err(Breach::session("the acknowledgement of nothing discarded"));
        };
        self.sending.clear();
        self.events.push_back(Event::NotTaken(reason));
        self.give_wanted_turn();
        Ok(())
    }
}
