//! The common part of both ends: layers, queues, stages, ends.

use super::abort::Breach;
use super::settings::Contexts;
use super::transfers::{Receiving, Sending};
use super::{AssociationEnd, Event, Layer, Phase, Timeouts, Violation, abort};
use crate::rtse::{AbortReason, CheckpointTerms, Mode};
use crate::session::{SessionItem, Spdu, TsduReader};
use crate::x224::{
    Disconnect, DisconnectReason, Framer, Outbox, TPDU_BYTES_MAX, Tpdu, TpduItem, TpduReader,
};
use bytes::{Bytes, BytesMut};
use mail::Mono;
use std::collections::VecDeque;

/// This end's reference in transport connections: a TCP connection carries one, so the value is irrelevant.
pub(super) const OUR_REFERENCE: u16 = 1;

/// The role of this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Initiator,
    Responder,
}

/// Stage of the association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Responder: for CR.
    AwaitRequest,
    /// Initiator: for CC.
    AwaitConfirm,
    /// Responder: for CN.
    AwaitConnect,
    /// Responder: for its caller's decision.
    Deciding,
    /// Initiator: for AC.
    AwaitAccept,
    /// Bound.
    Open,
    /// For DN.
    Releasing,
    /// The last PDU was sent: the peer must disconnect.
    Closing,
    /// No further input or output.
    Closed,
}

/// Holder of the right to transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Ours,
    /// The turn was given, without a confirmation yet.
    Giving,
    Theirs,
}

/// Either end of an association.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) role: Role,
    pub(super) stage: Stage,
    pub(super) timeouts: Timeouts,
    started: Mono,
    /// Time of the last progress.
    progress: Mono,
    /// Time of the last input.
    heard: Mono,
    input: Bytes,
    tpdus: TpduReader,
    /// A piece of a TSDU with SPDUs still to read, and true if it ends the TSDU.
    piece: Option<(Bytes, bool)>,
    tsdus: TsduReader,
    pub(super) out: Outbox,
    pub(super) framer: Framer,
    pub(super) events: VecDeque<Event>,
    pub(super) peer_reference: u16,
    /// `None` until it is known.
    pub(super) mode: Option<Mode>,
    pub(super) contexts: Contexts,
    pub(super) terms: CheckpointTerms,
    pub(super) two_way: bool,
    pub(super) turn: Turn,
    /// The peer requested the turn.
    pub(super) is_turn_wanted: bool,
    /// The caller wants to release, and the turn is the peer's.
    pub(super) is_release_wanted: bool,
    pub(super) receiving: Receiving,
    pub(super) sending: Sending,
    has_ended: bool,
}

impl Core {
    /// Handles items common to both ends; returns items that depend on the end.
    pub(super) fn take(&mut self, item: Item) -> Result<Option<Spdu>, Breach> {
        match item {
            Item::Tpdu(Tpdu::Disconnect(_) | Tpdu::Error(_)) => self.disconnected(),
            Item::Tpdu(Tpdu::Request(_) | Tpdu::Confirm(_)) => {
                return Err(Breach::new(Layer::Transport, "a second connection in one"));
            }
            Item::Data { octets, is_last } if self.stage == Stage::Open => {
                self.data(octets, is_last)?;
            }
            Item::Data { .. } if self.stage == Stage::Closing => {}
            Item::Data { .. } => {
                return Err(Breach::session("DATA before the bind"));
            }
            Item::Spdu(spdu) => return Ok(Some(spdu)),
        }
        Ok(None)
    }

    pub(super) fn new(role: Role, timeouts: Timeouts, now: Mono) -> Self {
        let (stage, turn) = match role {
            Role::Initiator => (Stage::AwaitConfirm, Turn::Ours),
            Role::Responder => (Stage::AwaitRequest, Turn::Theirs),
        };
        Core {
            role,
            stage,
            timeouts,
            started: now,
            progress: now,
            heard: now,
            input: Bytes::new(),
            tpdus: TpduReader::default(),
            piece: None,
            tsdus: TsduReader::default(),
            out: Outbox::default(),
            framer: Framer::new(TPDU_BYTES_MAX),
            events: VecDeque::new(),
            peer_reference: 0,
            mode: None,
            contexts: Contexts::OURS,
            terms: CheckpointTerms { checkpoint_kib: 0, window: 1 },
            two_way: false,
            turn,
            is_turn_wanted: false,
            is_release_wanted: false,
            receiving: Receiving::default(),
            sending: Sending::default(),
            has_ended: false,
        }
    }

    pub(super) fn handle_input(&mut self, octets: Bytes, now: Mono) {
        self.heard = self.heard.max(now);
        // A peer that owes an answer does not gain time by other PDUs.
        if matches!(self.waits_for(), None | Some(Phase::Receive)) {
            self.touch(now);
        }
        if self.input.is_empty() {
            self.input = octets;
        } else {
            let mut all = BytesMut::from(std::mem::take(&mut self.input));
            all.extend_from_slice(&octets);
            self.input = all.freeze();
        }
    }

    /// Records progress.
    pub(super) fn touch(&mut self, now: Mono) {
        self.progress = self.progress.max(now);
    }

    /// The last input counts as progress.
    pub(super) fn advance(&mut self) {
        self.touch(self.heard);
    }

    /// The next item read by a layer; `None` if the input is used up.
    pub(super) fn read(&mut self) -> Result<Option<Item>, Breach> {
        loop {
            if self.stage == Stage::Closed {
                self.input = Bytes::new();
                self.piece = None;
                return Ok(None);
            }
            if let Some((octets, is_last)) = &mut self.piece {
                let is_last = *is_last;
                let item = self.tsdus.read(octets, is_last);
                let item = item.map_err(|error| Breach::session(error.to_string()))?;
                if item.is_none() || (octets.is_empty() && is_last && self.tsdus.is_idle()) {
                    self.piece = None;
                }
                match item {
                    Some(SessionItem::Spdu(spdu)) => return Ok(Some(Item::Spdu(spdu))),
                    Some(SessionItem::Data { octets, is_last }) => {
                        return Ok(Some(Item::Data { octets, is_last }));
                    }
                    None => continue,
                }
            }
            let item = self.tpdus.read(&mut self.input);
            match item.map_err(|error| Breach::new(Layer::Transport, error.to_string()))? {
                None => return Ok(None),
                Some(TpduItem::Control(tpdu)) => return Ok(Some(Item::Tpdu(tpdu))),
                // Data after the last PDU is ignored.
                Some(TpduItem::Data { .. }) if self.stage == Stage::Closing => {}
                Some(TpduItem::Data { octets, is_last }) => {
                    if matches!(self.stage, Stage::AwaitRequest | Stage::AwaitConfirm) {
                        return Err(Breach::new(Layer::Transport, "data before the connection"));
                    }
                    self.piece = Some((octets, is_last));
                }
            }
        }
    }

    /// Returns true if an SSDU is open, which only DATA may continue.
    pub(super) fn is_within_data(&self) -> bool {
        self.tsdus.is_ssdu_open()
    }

    pub(super) fn say(&mut self, spdu: &Spdu) {
        self.framer.tsdu(&mut self.out, &spdu.encode());
    }

    pub(super) fn say_disconnect(&mut self, reason: DisconnectReason, text: &str) {
        let destination = self.peer_reference;
        let text = text.as_bytes().to_vec();
        let tpdu =
            Tpdu::Disconnect(Disconnect { destination, source: OUR_REFERENCE, reason, text });
        self.out.copy(&tpdu.packet());
    }

    /// Ends the association; the event is emitted once.
    pub(super) fn end(&mut self, end: AssociationEnd, stage: Stage) {
        if !self.has_ended {
            self.has_ended = true;
            self.events.push_back(Event::Ended(end));
        }
        self.receiving = Receiving::default();
        self.sending.clear();
        self.stage = stage;
    }

    /// Aborts with the reason of the violated layer.
    pub(super) fn breach(&mut self, breach: Breach) {
        let Breach { layer, text } = breach;
        let end = AssociationEnd::Violation(Violation { layer, text });
        if layer == Layer::Transport || self.stage == Stage::Closing {
            // No abort can be sent.
            return self.end(end, Stage::Closed);
        }
        self.say_abort(layer, AbortReason::ProtocolError);
        self.end(end, Stage::Closing);
    }

    /// Aborts for a local reason.
    pub(super) fn abort(&mut self, reason: AbortReason, end: AssociationEnd) {
        match self.stage {
            Stage::Closed => {}
            Stage::Closing => self.stage = Stage::Closed,
            Stage::AwaitRequest | Stage::AwaitConfirm | Stage::AwaitConnect => {
                self.end(end, Stage::Closed)
            }
            Stage::Deciding | Stage::AwaitAccept | Stage::Open | Stage::Releasing => {
                self.say_abort(Layer::ReliableTransfer, reason);
                self.end(end, Stage::Closing);
            }
        }
    }

    fn say_abort(&mut self, layer: Layer, reason: AbortReason) {
        self.framer.cut_short(&mut self.out);
        let spdu = abort::spdu(layer, reason, self.mode, self.contexts);
        self.say(&spdu);
    }

    pub(super) fn handle_eof(&mut self) {
        let end = if self.stage == Stage::Releasing {
            AssociationEnd::Released
        } else {
            AssociationEnd::Lost
        };
        if self.stage != Stage::Closed {
            self.end(end, Stage::Closed);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.stage == Stage::Closed
    }

    /// The awaited phase, if any.
    fn waits_for(&self) -> Option<Phase> {
        match self.stage {
            Stage::AwaitRequest
            | Stage::AwaitConfirm
            | Stage::AwaitConnect
            | Stage::AwaitAccept => Some(Phase::Bind),
            Stage::Deciding | Stage::Closed => None,
            Stage::Releasing | Stage::Closing => Some(Phase::Answer),
            Stage::Open if self.turn == Turn::Giving || self.is_release_wanted => {
                Some(Phase::Answer)
            }
            Stage::Open if !self.receiving.is_idle() => {
                (!self.receiving.is_answer_due()).then_some(Phase::Receive)
            }
            Stage::Open => match (self.sending.phase(self.terms.window), self.role) {
                (Some(phase), _) => Some(phase),
                (None, Role::Responder) => Some(Phase::Idle),
                (None, Role::Initiator) if self.turn == Turn::Theirs => Some(Phase::Idle),
                (None, Role::Initiator) => None,
            },
        }
    }

    pub(super) fn next_deadline(&self) -> Option<Mono> {
        let timeouts = &self.timeouts;
        self.waits_for().map(|phase| match phase {
            Phase::Bind => self.started + timeouts.bind,
            Phase::Receive => self.progress + timeouts.receive,
            Phase::Window => self.progress + timeouts.window,
            Phase::Acknowledge => self.progress + timeouts.acknowledge,
            Phase::Answer => self.progress + timeouts.answer,
            Phase::Idle => self.progress + timeouts.idle,
        })
    }

    pub(super) fn handle_deadline(&mut self, now: Mono) {
        if self.next_deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let Some(phase) = self.waits_for() else { return };
        self.touch(now);
        self.abort(AbortReason::TemporaryProblem, AssociationEnd::TimedOut(phase));
    }
}

/// An item of input.
#[derive(Debug)]
pub(super) enum Item {
    Tpdu(Tpdu),
    Spdu(Spdu),
    Data { octets: Bytes, is_last: bool },
}
