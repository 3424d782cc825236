//! Reception of an APDU: an activity with data, checkpoints and an end (X.228 §8.5).

use super::abort::Breach;
use super::core::{Core, Turn};
use super::transfers::{Activity, Receiving};
use super::{Event, ExceptionReason};
use crate::rtse::{ApduUnwrapper, Mode};
use crate::session::{Serial, Spdu};
use bytes::Bytes;

impl Core {
    pub(super) fn data(&mut self, octets: Bytes, is_last: bool) -> Result<(), Breach> {
        let is_normal = self.mode == Some(Mode::Normal);
        match &mut self.receiving {
            Receiving::Idle | Receiving::Answering(_) => {
                Err(Breach::session("DATA outside an activity"))
            }
            // Data in transit at the refusal.
            Receiving::Refused => Ok(()),
            Receiving::Active(_) if !is_normal => {
                if !octets.is_empty() {
                    self.events.push_back(Event::Content(octets));
                }
                Ok(())
            }
            Receiving::Active(activity) => {
                let content = &mut |octets| self.events.push_back(Event::Content(octets));
                activity.unwrap(self.contexts.rtse, octets, is_last, content)
            }
        }
    }

    pub(super) fn activity_start(&mut self) -> Result<(), Breach> {
        if self.turn != Turn::Theirs {
            return Err(Breach::session("ACTIVITY START without the turn"));
        }
        match self.receiving {
            Receiving::Idle => {}
            Receiving::Active(_) | Receiving::Answering(_) | Receiving::Refused => {
                return Err(Breach::session("ACTIVITY START within an activity"));
            }
        }
        let apdu = ApduUnwrapper::new(self.contexts.mtse);
        self.receiving =
            Receiving::Active(Box::new(Activity { next: Serial(1), slice: None, apdu }));
        self.events.push_back(Event::ActivityStarted);
        Ok(())
    }

    /// No activity can be resumed here: the peer must discard it, and begin anew.
    pub(super) fn activity_resume(&mut self) -> Result<(), Breach> {
        if self.turn != Turn::Theirs || !self.receiving.is_idle() {
            return Err(Breach::session("ACTIVITY RESUME within an activity"));
        }
        self.say(&Spdu::ExceptionData(ExceptionReason::Unrecoverable));
        self.receiving = Receiving::Refused;
        Ok(())
    }

    pub(super) fn minor_sync(&mut self, serial: Serial, wants_ack: bool) -> Result<(), Breach> {
        match &mut self.receiving {
            Receiving::Active(activity) => {
                activity.point(serial)?;
                if wants_ack {
                    self.say(&Spdu::MinorSyncAck(serial));
                }
                Ok(())
            }
            Receiving::Refused => Ok(()),
            Receiving::Idle | Receiving::Answering(_) => {
                Err(Breach::session("MINOR SYNC outside an activity"))
            }
        }
    }

    pub(super) fn activity_end(&mut self, serial: Serial) -> Result<(), Breach> {
        match &mut self.receiving {
            Receiving::Active(activity) => {
                activity.point(serial)?;
                self.receiving = Receiving::Answering(serial);
                self.events.push_back(Event::ApduComplete);
                Ok(())
            }
            Receiving::Refused => Ok(()),
            Receiving::Idle | Receiving::Answering(_) => {
                Err(Breach::session("ACTIVITY END outside an activity"))
            }
        }
    }

    /// The peer discards or interrupts the activity; the effect here is the same.
    pub(super) fn activity_dropped(&mut self, ack: &Spdu) -> Result<(), Breach> {
        if self.receiving.is_idle() {
            return Err(Breach::session("the end of an activity outside an activity"));
        }
        self.receiving = Receiving::Idle;
        self.say(ack);
        self.events.push_back(Event::ActivityDropped);
        Ok(())
    }

    /// The APDU is durable: it is ours.
    pub(super) fn acknowledge(&mut self) {
        if let Receiving::Answering(serial) = self.receiving {
            self.receiving = Receiving::Idle;
            self.say(&Spdu::ActivityEndAck(serial));
        }
    }

    /// We don't take the APDU.
    pub(super) fn refuse_apdu(&mut self, reason: ExceptionReason) {
        match self.receiving {
            Receiving::Active(_) | Receiving::Answering(_) => {
                self.receiving = Receiving::Refused;
                self.events.retain(|event| !matches!(event, Event::Content(_)));
                self.say(&Spdu::ExceptionData(reason));
            }
            Receiving::Idle | Receiving::Refused => {}
        }
    }
}
