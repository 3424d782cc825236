//! The bound association: effects of SPDUs, turns, release.

use super::abort::Breach;
use super::core::{Core, Stage, Turn};
use super::transfers::ActivityState;
use super::{AssociationEnd, Event, ExceptionReason, abort};
use crate::acse;
use crate::ber::{Tag, Writer};
use crate::presentation::write_pdv;
use crate::rtse::Mode;
use crate::session::Spdu;
use crate::x224::DisconnectReason;

/// The data token, which represents the turn (X.225 §8.3.14.2).
const DATA_TOKEN: u8 = 1;

impl Core {
    /// Handles SPDUs allowed in any stage after the connection; the rest depends on the stage.
    pub(super) fn open_spdu(&mut self, spdu: Spdu) -> Result<(), Breach> {
        let is_exception =
            matches!(spdu, Spdu::Abort { .. } | Spdu::ExceptionData(_) | Spdu::ExceptionReport);
        if self.is_within_data() && !is_exception {
            return Err(out_of_order(&spdu));
        }
        if self.is_awaited(&spdu) {
            self.advance();
        }
        match spdu {
            Spdu::Abort { user_data, .. } => {
                self.end(abort::heard(&user_data), Stage::Closed);
                Ok(())
            }
            Spdu::ActivityStart { .. } => self.activity_start(),
            Spdu::ActivityResume => self.activity_resume(),
            Spdu::MinorSync { serial, wants_ack } => self.minor_sync(serial, wants_ack),
            Spdu::ActivityEnd(serial) => self.activity_end(serial),
            Spdu::ActivityInterrupt(_) => self.activity_dropped(&Spdu::ActivityInterruptAck),
            Spdu::ActivityDiscard(_) => self.activity_dropped(&Spdu::ActivityDiscardAck),
            Spdu::MinorSyncAck(serial) => self.minor_sync_ack(serial),
            Spdu::ActivityEndAck(serial) => self.activity_end_ack(serial),
            Spdu::ActivityDiscardAck => self.activity_discard_ack(),
            Spdu::ExceptionData(reason) => self.exception(reason),
            Spdu::ExceptionReport => self.exception(ExceptionReason::Unrecoverable),
            Spdu::GiveTokensConfirm => self.take_turn(),
            Spdu::GiveTokensAck => self.turn_confirmed(),
            // Requests no token.
            Spdu::PleaseTokens { tokens: 0, .. } => Ok(()),
            Spdu::PleaseTokens { .. } => {
                // Without the turn, it has been given already: the two PDUs crossed.
                self.is_turn_wanted = self.two_way && self.turn == Turn::Ours;
                self.give_wanted_turn();
                Ok(())
            }
            // All tokens are given at once; an SPDU without any has no effect.
            Spdu::GiveTokens { tokens: 0 } => Ok(()),
            Spdu::Finish { .. } => self.finish(),
            Spdu::Connect(_)
            | Spdu::Accept(_)
            | Spdu::Refuse(_)
            | Spdu::Disconnect { .. }
            | Spdu::NotFinished
            | Spdu::AbortAccept
            | Spdu::GiveTokens { .. }
            | Spdu::ActivityInterruptAck => Err(out_of_order(&spdu)),
        }
    }

    /// Returns true if the SPDU is progress, rather than sent to gain time.
    fn is_awaited(&self, spdu: &Spdu) -> bool {
        match (spdu, self.sending.step) {
            (Spdu::PleaseTokens { .. } | Spdu::GiveTokens { .. }, _) => false,
            (_, ActivityState::Discard(_)) => matches!(spdu, Spdu::ActivityDiscardAck),
            (Spdu::MinorSyncAck(serial), _) => *serial > self.sending.acknowledged,
            _ => true,
        }
    }

    fn take_turn(&mut self) -> Result<(), Breach> {
        if !self.two_way || self.turn != Turn::Theirs || !self.receiving.is_idle() {
            return Err(out_of_order(&Spdu::GiveTokensConfirm));
        }
        self.say(&Spdu::GiveTokensAck);
        self.turn = Turn::Ours;
        if self.is_release_wanted {
            self.is_release_wanted = false;
            self.release();
        } else {
            self.events.push_back(Event::TurnTaken);
        }
        Ok(())
    }

    fn turn_confirmed(&mut self) -> Result<(), Breach> {
        if self.turn != Turn::Giving {
            return Err(out_of_order(&Spdu::GiveTokensAck));
        }
        self.turn = Turn::Theirs;
        self.events.push_back(Event::TurnGiven);
        Ok(())
    }

    /// A turn may not change within an activity (X.228 §8.6): it waits for its end.
    pub(super) fn give_wanted_turn(&mut self) {
        if self.is_turn_wanted && self.sending.is_idle() {
            self.give_turn();
        }
    }

    pub(super) fn give_turn(&mut self) {
        if self.stage == Stage::Open
            && self.two_way
            && self.turn == Turn::Ours
            && self.sending.is_idle()
        {
            self.is_turn_wanted = false;
            self.turn = Turn::Giving;
            self.say(&Spdu::GiveTokensConfirm);
        }
    }

    /// Requests the turn with a priority; 0 is the highest (X.218 §9.4.1.1).
    pub(super) fn request_turn(&mut self, priority: u32) {
        if self.stage != Stage::Open || !self.two_way || self.turn != Turn::Theirs {
            return;
        }
        let mut user_data = Writer::new();
        let value = |out: &mut Writer| out.integer(Tag::INTEGER, i64::from(priority));
        if self.mode == Some(Mode::Normal) {
            write_pdv(&mut user_data, self.contexts.rtse, value);
        } else {
            value(&mut user_data);
        }
        self.say(&Spdu::PleaseTokens { tokens: DATA_TOKEN, user_data: user_data.into_vec() });
    }

    /// Initiator: no further transfer. Only the holder of the turn may release.
    pub(super) fn release(&mut self) {
        if self.stage != Stage::Open || !self.sending.is_idle() || self.is_release_wanted {
            return;
        }
        match self.turn {
            Turn::Ours => {
                self.stage = Stage::Releasing;
                let user_data = self.release_data(acse::release);
                self.say(&Spdu::Finish { user_data });
            }
            Turn::Giving | Turn::Theirs => {
                self.request_turn(0);
                self.is_release_wanted = true;
            }
        }
    }

    fn release_data(&self, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut user_data = Writer::new();
        if self.mode == Some(Mode::Normal) {
            write_pdv(&mut user_data, self.contexts.acse, write);
        }
        user_data.into_vec()
    }

    fn finish(&mut self) -> Result<(), Breach> {
        if self.turn != Turn::Theirs || !self.receiving.is_idle() {
            return Err(out_of_order(&Spdu::Finish { user_data: Vec::new() }));
        }
        let user_data = self.release_data(acse::released);
        self.say(&Spdu::Disconnect { user_data });
        self.end(AssociationEnd::Released, Stage::Closing);
        Ok(())
    }

    /// Handles SPDUs after FINISH.
    pub(super) fn releasing_spdu(&mut self, spdu: &Spdu) -> Result<(), Breach> {
        match spdu {
            Spdu::Disconnect { .. } => {
                self.say_disconnect(DisconnectReason::Normal, "");
                self.end(AssociationEnd::Released, Stage::Closed);
                Ok(())
            }
            Spdu::Abort { user_data, .. } => {
                self.end(abort::heard(user_data), Stage::Closed);
                Ok(())
            }
            // It crossed our release.
            Spdu::PleaseTokens { .. } => Ok(()),
            other => Err(out_of_order(other)),
        }
    }

    /// After the last PDU: only the peer's disconnection matters.
    pub(super) fn closing_spdu(&mut self, spdu: &Spdu) {
        if matches!(spdu, Spdu::Abort { .. } | Spdu::AbortAccept) {
            self.stage = Stage::Closed;
        }
    }

    /// The transport connection is over.
    pub(super) fn disconnected(&mut self) {
        match self.stage {
            Stage::Closing => self.stage = Stage::Closed,
            Stage::Releasing => self.end(AssociationEnd::Released, Stage::Closed),
            Stage::AwaitRequest
            | Stage::AwaitConfirm
            | Stage::AwaitConnect
            | Stage::Deciding
            | Stage::AwaitAccept
            | Stage::Open
            | Stage::Closed => self.end(AssociationEnd::Lost, Stage::Closed),
        }
    }
}

/// An SPDU where it may not be.
pub(super) fn out_of_order(spdu: &Spdu) -> Breach {
    let debug = format!("{spdu:?}");
    let name = debug.split(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
    Breach::session(format!("{name} out of its order"))
}
