//! The answering end of an association, without a socket: octets go in, events and octets come out.
//!
//! Like [`crate::dialogue::Dialogue`]: an event is what the other end wants; it is accepted or refused before
//! the next octets are taken.

use super::answer::{aborted, asked};
use super::ber;
use super::bind::{self, BindRequirements, Mode, MtaCredentials};
use super::spdu::{self, Spdu, SpduKind, spdu};
use super::tpkt::{self, Control, Framed, Frames};

/// The longest message that is taken; a load tool keeps it in memory until it is whole.
pub(super) const APDU_BYTES_MAX: usize = 256 << 20;
/// What lies around a slice of it in its TSDU.
const TSDU_SLACK_BYTES: usize = 4096;
/// Before another size is agreed upon, TPDUs have at most this (X.224 §13.3.4).
const TPDU_BYTES_LEAST: usize = 128;
/// MTABindError authentication-error (X.411 §12.1.1.1.3).
const AUTHENTICATION_ERROR: u8 = 2;
/// Unrecoverable procedural error (X.225 §8.3.27).
const UNRECOVERABLE: u8 = 6;

/// Whom and what an answering end takes.
#[derive(Clone, Debug)]
pub(super) struct ResponderPolicy {
    /// None: whatever selector is called.
    pub(super) t_selector: Option<Vec<u8>>,
    /// What we answer with.
    pub(super) who: MtaCredentials,
    /// None: whoever it is.
    pub(super) their_name: Option<String>,
    pub(super) their_password: Option<String>,
    /// Units of 1,024 octets between checkpoints, at least; 0: as is proposed.
    pub(super) checkpoint_kib: u32,
    pub(super) tpdu_bytes: u32,
}

/// What the other end wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ResponderEvent {
    /// All input is used up.
    Input,
    /// To bind.
    Bind,
    /// To begin a transfer.
    Start,
    /// Some of it came.
    Content,
    /// To know that what came until now is safe.
    Checkpoint,
    /// To know that all is: [`Responder::stream`] is whole.
    End,
    /// It takes back what it began.
    Discard,
    /// To go; the answer is in the output.
    Release,
    /// The connection is to be closed, behind what is in the output. Why, if not as it should be.
    Close(Option<String>),
}

/// What waits for an answer, with the serial number that it bears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutstandingReply {
    Bind,
    Checkpoint(u32),
    End(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Before CR.
    Connecting,
    /// Before CONNECT.
    Connected,
    Bound,
    InActivity,
    /// An exception was reported: what comes is not looked at before the activity is gone.
    Excepted,
}

/// The answering end.
#[derive(Debug)]
pub(super) struct Responder {
    frames: Frames,
    output: Vec<u8>,
    stage: Stage,
    asked: Option<BindRequirements>,
    waiting: Option<OutstandingReply>,
    stream: Vec<u8>,
    /// All tokens are ours.
    has_turn: bool,
    /// What was agreed upon as the size of TPDUs.
    tpdu_bytes: usize,
}

impl Responder {
    pub(super) fn new() -> Responder {
        Responder {
            frames: Frames::new(APDU_BYTES_MAX + TSDU_SLACK_BYTES),
            output: Vec::new(),
            stage: Stage::Connecting,
            asked: None,
            waiting: None,
            stream: Vec::new(),
            has_turn: false,
            tpdu_bytes: TPDU_BYTES_LEAST,
        }
    }

    /// What is to be written.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// What the present transfer has brought.
    pub(super) fn stream(&self) -> &[u8] {
        &self.stream
    }

    pub(super) fn mode(&self) -> Option<Mode> {
        self.asked.as_ref().map(|asked| asked.mode)
    }

    /// Takes input up to the next event: so many octets were used.
    pub(super) fn advance(
        &mut self,
        rules: &ResponderPolicy,
        mut input: &[u8],
    ) -> (usize, ResponderEvent) {
        let before = input.len();
        loop {
            let framed = self.frames.advance(input).and_then(|(used, framed)| {
                input = input.get(used..).unwrap_or_default();
                match framed {
                    Framed::Input => Ok(Some(ResponderEvent::Input)),
                    Framed::Control => self.handle_control(rules),
                    Framed::Tsdu => self.handle_tsdu(rules),
                }
            });
            match framed {
                Ok(None) => {}
                Ok(Some(event)) => return (before - input.len(), event),
                Err(why) => {
                    if self.stage != Stage::Connecting {
                        tpkt::push_tsdu(&mut self.output, &bind::abort(), self.tpdu_bytes);
                    }
                    return (before - input.len(), ResponderEvent::Close(Some(why)));
                }
            }
        }
    }

    fn handle_control(
        &mut self,
        rules: &ResponderPolicy,
    ) -> Result<Option<ResponderEvent>, String> {
        match tpkt::control(self.frames.control())? {
            Control::Request { reference, called, sizes } if self.stage == Stage::Connecting => {
                if rules.t_selector.as_ref().is_some_and(|selector| *selector != called) {
                    self.output.extend(tpkt::disconnect_request(reference, 2));
                    return Ok(Some(ResponderEvent::Close(Some("unknown T-selector".to_owned()))));
                }
                let (confirm, agreed) =
                    tpkt::connection_confirm(reference, sizes, rules.tpdu_bytes);
                self.output.extend(confirm);
                self.tpdu_bytes = agreed as usize;
                self.stage = Stage::Connected;
                Ok(None)
            }
            Control::Disconnect(why) => {
                let is_in_order = matches!(self.stage, Stage::Connected | Stage::Bound);
                Ok(Some(ResponderEvent::Close((!is_in_order).then_some(why))))
            }
            Control::Request { .. } | Control::Confirm { .. } => {
                Err("CR or CC on an open transport connection".to_owned())
            }
        }
    }

    fn handle_tsdu(&mut self, rules: &ResponderPolicy) -> Result<Option<ResponderEvent>, String> {
        let spdu = Spdu::read(self.frames.tsdu())?;
        let kind = spdu.kind;
        let serial = spdu.serial().unwrap_or(0);
        let event = match (self.stage, kind) {
            (Stage::Connected, SpduKind::Connect) => {
                let asked = asked(&spdu)?;
                return Ok(self.handle_connect(rules, asked));
            }
            (Stage::Bound, SpduKind::ActivityStart) => {
                self.stream.clear();
                self.stage = Stage::InActivity;
                ResponderEvent::Start
            }
            (Stage::Bound, SpduKind::ActivityResume) => {
                self.except(UNRECOVERABLE);
                return Ok(None);
            }
            (Stage::InActivity, SpduKind::Data) => {
                let content = content(&spdu, self.asked.as_ref())?;
                gather(&mut self.stream, content)?;
                ResponderEvent::Content
            }
            (Stage::InActivity, SpduKind::Minor) => {
                self.waiting = Some(OutstandingReply::Checkpoint(serial));
                ResponderEvent::Checkpoint
            }
            (Stage::InActivity, SpduKind::ActivityEnd) => {
                self.waiting = Some(OutstandingReply::End(serial));
                ResponderEvent::End
            }
            (Stage::InActivity | Stage::Excepted, SpduKind::Discard | SpduKind::Interrupt) => {
                self.break_off(kind);
                ResponderEvent::Discard
            }
            (Stage::Excepted, SpduKind::Data | SpduKind::Minor | SpduKind::ActivityEnd) => {
                return Ok(None);
            }
            (Stage::Bound, SpduKind::GiveTokensConfirm)
            | (_, SpduKind::GiveTokens | SpduKind::GiveTokensAck | SpduKind::PleaseTokens) => {
                self.handle_tokens(kind);
                return Ok(None);
            }
            (Stage::Bound, SpduKind::Finish) => {
                if let Some(asked) = &self.asked {
                    let answer = bind::disconnect(asked.mode, asked.contexts);
                    tpkt::push_tsdu(&mut self.output, &answer, self.tpdu_bytes);
                }
                ResponderEvent::Release
            }
            (_, SpduKind::Abort) => {
                let why = aborted(&spdu);
                self.say(&[], spdu::ABORT_ACCEPT);
                return Ok(Some(ResponderEvent::Close(Some(why))));
            }
            (stage, kind) => return Err(format!("{kind:?} while {stage:?}")),
        };
        Ok(Some(event))
    }

    /// The activity ends here, discarded or interrupted.
    fn break_off(&mut self, kind: SpduKind) {
        let answer = match kind {
            SpduKind::Discard => spdu::DISCARD_ACK,
            _ => spdu::INTERRUPT_ACK,
        };
        self.stage = Stage::Bound;
        self.say(&spdu::PT, answer);
    }

    /// The turn is taken when it is given, and given back when it is asked for (X.225 §7.11, §7.12).
    fn handle_tokens(&mut self, kind: SpduKind) {
        if kind == SpduKind::GiveTokensConfirm {
            self.has_turn = true;
            self.say(&[], spdu::GIVE_TOKENS_ACK);
        }
        if kind == SpduKind::PleaseTokens && std::mem::take(&mut self.has_turn) {
            self.say(&[], spdu::GIVE_TOKENS_CONFIRM);
        }
    }

    /// Refuses at once what the rules don't allow.
    fn handle_connect(
        &mut self,
        rules: &ResponderPolicy,
        asked: BindRequirements,
    ) -> Option<ResponderEvent> {
        let named = |told: fn(&MtaCredentials) -> &String, expected: &Option<String>| match expected
        {
            None => true,
            Some(expected) => asked.who.as_ref().is_some_and(|who| told(who) == expected),
        };
        let is_known = named(|who| &who.name, &rules.their_name)
            && named(|who| &who.password, &rules.their_password);
        let refusal = match (asked.recovers, is_known) {
            (true, _) => Some((None, "it wants to resume a transfer")),
            (false, false) => Some((Some(AUTHENTICATION_ERROR), "wrong name or password")),
            (false, true) => None,
        };
        self.asked = Some(asked);
        self.waiting = Some(OutstandingReply::Bind);
        let Some((error, why)) = refusal else { return Some(ResponderEvent::Bind) };
        self.refuse_bind(error);
        Some(ResponderEvent::Close(Some(why.to_owned())))
    }

    fn refuse_bind(&mut self, error: Option<u8>) {
        if let Some(asked) = &self.asked {
            tpkt::push_tsdu(&mut self.output, &bind::refuse(asked, error), self.tpdu_bytes);
        }
    }

    /// Accepts the event.
    pub(super) fn accept(&mut self, rules: &ResponderPolicy) {
        match self.waiting.take() {
            Some(OutstandingReply::Bind) => {
                let Some(asked) = &self.asked else { return };
                let answer = bind::accept(asked, checkpoint_kib(rules, asked), &rules.who);
                tpkt::push_tsdu(&mut self.output, &answer, self.tpdu_bytes);
                self.stage = Stage::Bound;
            }
            Some(OutstandingReply::Checkpoint(serial)) => self.confirm(spdu::MINOR_ACK, serial),
            Some(OutstandingReply::End(serial)) => {
                self.stage = Stage::Bound;
                self.confirm(spdu::ACTIVITY_END_ACK, serial);
            }
            None => {}
        }
    }

    /// Refuses the event: a bind by an MTABindError, a transfer by the reason of an exception.
    pub(super) fn refuse(&mut self, reason: u8) {
        match self.waiting.take() {
            Some(OutstandingReply::Bind) => self.refuse_bind(Some(reason)),
            Some(OutstandingReply::Checkpoint(_) | OutstandingReply::End(_)) => self.except(reason),
            None => {}
        }
    }

    fn except(&mut self, reason: u8) {
        self.stage = Stage::Excepted;
        let reason = spdu::parameter(spdu::REASON, &[reason]);
        let exception = spdu(&spdu::PT, spdu::EXCEPTION_DATA, &[&reason]);
        tpkt::push_tsdu(&mut self.output, &exception, self.tpdu_bytes);
    }

    fn confirm(&mut self, identifier: u8, serial: u32) {
        let confirmation = spdu(&spdu::PT, identifier, &[&spdu::serial(serial)]);
        tpkt::push_tsdu(&mut self.output, &confirmation, self.tpdu_bytes);
    }

    /// An SPDU without parameters.
    fn say(&mut self, tokens: &[u8], identifier: u8) {
        tpkt::push_tsdu(&mut self.output, &spdu(tokens, identifier, &[]), self.tpdu_bytes);
    }
}

/// The answer to a proposal: at most what is proposed, if anything is (X.228 §7.1.2).
fn checkpoint_kib(rules: &ResponderPolicy, asked: &BindRequirements) -> u32 {
    match (rules.checkpoint_kib, asked.checkpoint_kib) {
        (0, proposed) => proposed,
        (own, 0) => own,
        (own, proposed) => own.min(proposed),
    }
}

/// A message gathers, up to a limit.
fn gather(stream: &mut Vec<u8>, content: &[u8]) -> Result<(), String> {
    if stream.len() + content.len() > APDU_BYTES_MAX {
        return Err(format!("a message of over {APDU_BYTES_MAX} octets"));
    }
    stream.extend_from_slice(content);
    Ok(())
}

/// What DT carries: in normal mode the octet string of RTTR in its presentation context.
fn content<'a>(spdu: &Spdu<'a>, asked: Option<&BindRequirements>) -> Result<&'a [u8], String> {
    let Some(BindRequirements { mode: Mode::Normal, contexts, .. }) = asked else {
        return Ok(spdu.data);
    };
    let read = || {
        let list = ber::find(spdu.data, &[0x61, 0x30])?;
        let context = ber::find(list, &[0x02]).and_then(ber::unsigned)?;
        Some((context, ber::find(list, &[0xa0, 0x04])?))
    };
    match read() {
        Some((context, content)) if context == contexts.rtse => Ok(content),
        Some((context, _)) => Err(format!("a transfer in presentation context {context}")),
        None => Err("a transfer without RTTR".to_owned()),
    }
}
