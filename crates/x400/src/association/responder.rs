//! The responder: the bind, and the machine.

use super::abort::Breach;
use super::core::{Core, Item, OUR_REFERENCE, Role, Stage};
use super::dialogue::out_of_order;
use super::settings::Contexts;
use super::{
    AssociationEnd, BindError, BindRequest, CHECKPOINT_KIB_MAX, Event, Identity, Layer, Refusal,
    ResponderSettings, Selectors, WINDOW_MAX, abort,
};
use crate::acse::{self, Apdu, DIAGNOSTIC_CONTEXT_NAME, DIAGNOSTIC_NO_REASON};
use crate::ber::Writer;
use crate::presentation::{
    ConnectPdu, Context, ContextResult, Pdv, REASON_USER_DATA, accept_pdu, refuse_pdu, write_pdv,
    x410_pdu, x410_refusal_or_abort,
};
use crate::rtse::{
    self, CheckpointTerms, ConnectionMode, Credentials, MTA_RTSE, MTS_TRANSFER, MTSE, Mode,
    write_refusal, write_response,
};
use crate::session::{
    Accept, CONNECT_EXTENDED_BYTES_MAX, Connect, REQUIREMENTS, Reference, Refuse, RefuseReason,
    Spdu, VERSION_1, VERSION_2,
};
use crate::x224::{Confirm, ConnectionRequest, DisconnectReason, Framer, Tpdu};
use mail::Mono;

/// This end's reference in session connections: a T.61 string in BER, as in other implementations.
const REFERENCE: &[u8] = &[0x14, 0x03, b'm', b't', b'a'];

/// The reply to a bind.
#[derive(Debug, Default)]
struct BindReply {
    /// The reference that both have in common.
    common: Vec<u8>,
    /// The version chosen.
    version: u8,
    /// The selectors that were called.
    called: Selectors,
    /// Result of each proposed context.
    results: Vec<ContextResult>,
}

/// The machine of the responder.
#[derive(Debug)]
pub struct Responder {
    core: Core,
    settings: ResponderSettings,
    answer: BindReply,
    calling_t: Vec<u8>,
}

/// A refusal of a bind before the caller decides: layer, reason, and text for the log.
struct Refused {
    layer: Layer,
    reason: RefuseReason,
    user_data: Vec<u8>,
    error: Option<BindError>,
    text: &'static str,
}

impl Refused {
    fn by_session(reason: RefuseReason, text: &'static str) -> Self {
        Refused { layer: Layer::Session, reason, user_data: Vec::new(), error: None, text }
    }
}

impl Responder {
    /// A connection was accepted.
    #[must_use]
    pub fn new(settings: ResponderSettings, now: Mono) -> Self {
        let core = Core::new(Role::Responder, settings.timeouts, now);
        Responder { core, settings, answer: BindReply::default(), calling_t: Vec::new() }
    }

    /// Accepts the bind, with this MTA's identity. Only after [`Event::Bind`].
    pub fn accept(&mut self, identity: &Identity, now: Mono) {
        let Some(mode) = self.core.mode.filter(|_| self.core.stage == Stage::Deciding) else {
            return;
        };
        self.core.touch(now);
        let terms = self.core.terms;
        let user_data = if mode == Mode::Normal {
            let Contexts { acse, rtse, .. } = self.core.contexts;
            accept_pdu(&self.answer.called.p, &self.answer.results, |data| {
                write_pdv(data, acse, |value| {
                    acse::accepted(value, MTS_TRANSFER, rtse, |out| {
                        write_response(out, mode, terms, identity)
                    });
                });
            })
        } else {
            x410_pdu(|fields| write_response(fields, mode, terms, identity))
        };
        let accept = Accept {
            reference: self.reference(),
            options: 0,
            versions: self.answer.version,
            token_setting: 0,
            requirements: REQUIREMENTS,
            responding: self.answer.called.s.clone(),
            user_data,
        };
        self.core.say(&Spdu::Accept(Box::new(accept)));
        self.core.stage = Stage::Open;
    }

    /// Refuses the bind. Only after [`Event::Bind`]. Delay the call after a wrong password.
    pub fn refuse(&mut self, error: BindError, now: Mono) {
        if self.core.stage != Stage::Deciding {
            return;
        }
        self.core.touch(now);
        let refused = self.refused_by_mta(error, Layer::Transfer, "refused by us");
        self.say_refused(refused);
    }

    fn reference(&self) -> Reference {
        let common = self.answer.common.clone();
        Reference { user: REFERENCE.to_vec(), common, additional: Vec::new() }
    }

    fn refused_by_mta(&self, error: BindError, layer: Layer, text: &'static str) -> Refused {
        let mode = self.core.mode.unwrap_or(Mode::Normal);
        let mut rtorj = Writer::new();
        write_refusal(&mut rtorj, mode, error);
        let user_data = if mode == Mode::Normal {
            self.rejected(DIAGNOSTIC_NO_REASON, Some(rtorj.as_slice()))
        } else {
            x410_refusal_or_abort(|fields| fields.raw(rtorj.as_slice()))
        };
        Refused { layer, reason: RefuseReason::UserData, user_data, error: Some(error), text }
    }

    /// CPR with ACSE's rejection.
    fn rejected(&self, diagnostic: u32, rtorj: Option<&[u8]>) -> Vec<u8> {
        let Contexts { acse, rtse, .. } = self.core.contexts;
        refuse_pdu(&self.answer.results, None, |data| {
            write_pdv(data, acse, |value| {
                let value_of_rtse = rtorj.map(|rtorj| (rtse, rtorj));
                acse::rejected(value, MTS_TRANSFER, true, diagnostic, value_of_rtse);
            });
        })
    }

    fn say_refused(&mut self, refused: Refused) {
        let Refused { layer, reason, user_data, error, text } = refused;
        let refuse = Refuse {
            reference: self.reference(),
            releases_transport: true,
            requirements: Some(REQUIREMENTS),
            versions: (reason == RefuseReason::Version).then_some(VERSION_1 | VERSION_2),
            reason,
            user_data,
        };
        self.core.say(&Spdu::Refuse(Box::new(refuse)));
        let is_permanent = error.is_none_or(BindError::is_permanent);
        let refusal = Refusal { layer, error, is_permanent, text: text.into() };
        self.core.end(AssociationEnd::Refused(refusal), Stage::Closing);
    }

    fn step(&mut self) -> Result<bool, Breach> {
        let Some(item) = self.core.read()? else { return Ok(false) };
        match item {
            Item::Tpdu(Tpdu::Request(request)) if self.core.stage == Stage::AwaitRequest => {
                self.request(request);
                Ok(())
            }
            item => match self.core.take(item)? {
                Some(spdu) => self.spdu(spdu),
                None => Ok(()),
            },
        }?;
        Ok(true)
    }

    fn spdu(&mut self, spdu: Spdu) -> Result<(), Breach> {
        match self.core.stage {
            Stage::Open => self.core.open_spdu(spdu),
            Stage::Releasing => self.core.releasing_spdu(&spdu),
            Stage::Closing => {
                self.core.closing_spdu(&spdu);
                Ok(())
            }
            Stage::AwaitConnect | Stage::Deciding => match spdu {
                Spdu::Connect(connect) if self.core.stage == Stage::AwaitConnect => {
                    match self.connect(&connect) {
                        Ok(request) => {
                            self.core.stage = Stage::Deciding;
                            self.core.events.push_back(Event::Bind(Box::new(request)));
                        }
                        Err(refused) => self.say_refused(refused),
                    }
                    Ok(())
                }
                Spdu::Abort { user_data, .. } => {
                    self.core.end(abort::heard(&user_data), Stage::Closed);
                    Ok(())
                }
                other => Err(out_of_order(&other)),
            },
            Stage::AwaitRequest | Stage::AwaitConfirm | Stage::AwaitAccept | Stage::Closed => {
                Ok(())
            }
        }
    }

    fn request(&mut self, request: ConnectionRequest) {
        self.core.peer_reference = request.source;
        let selectors = &self.settings.t_selectors;
        let is_ours = selectors.is_empty() || selectors.contains(&request.called);
        let refusal = match (is_ours, request.is_class_0) {
            (false, _) => Some((DisconnectReason::AddressUnknown, "unknown T-selector")),
            (true, false) => Some((DisconnectReason::ProtocolError, "only class 0")),
            (true, true) => None,
        };
        if let Some((reason, text)) = refusal {
            self.core.say_disconnect(reason, text);
            let (layer, text) = (Layer::Transport, text.to_string());
            let refusal = Refusal { layer, error: None, is_permanent: true, text };
            return self.core.end(AssociationEnd::Refused(refusal), Stage::Closing);
        }
        let (size, tpdu_bytes) = request.size.answer(self.settings.tpdu_bytes);
        self.core.framer = Framer::new(tpdu_bytes);
        self.answer.called.t = request.called;
        self.calling_t = request.calling;
        let (destination, source) = (request.source, OUR_REFERENCE);
        let confirm =
            Confirm { destination, source, is_class_0: true, responding: Vec::new(), size };
        self.core.out.copy(&Tpdu::Confirm(confirm).packet());
        self.core.stage = Stage::AwaitConnect;
    }

    /// Negotiates the session layer (X.225 §7.1).
    fn agree_session(&mut self, connect: &Connect) -> Result<(), Refused> {
        self.answer.common.clone_from(&connect.reference.common);
        self.answer.called.s.clone_from(&connect.called);
        self.answer.version = match connect.versions {
            versions if versions & VERSION_2 != 0 => VERSION_2,
            versions if versions & VERSION_1 != 0 => VERSION_1,
            _ => {
                return Err(Refused::by_session(
                    RefuseReason::Version,
                    "no supported session version",
                ));
            }
        };
        if connect.requirements & REQUIREMENTS != REQUIREMENTS {
            return Err(Refused::by_session(
                RefuseReason::Rejected,
                "session connect without the functional units that RTSE requires",
            ));
        }
        if connect.has_overflow || connect.user_data.len() > CONNECT_EXTENDED_BYTES_MAX {
            return Err(Refused::by_session(RefuseReason::Restriction, "too much user data"));
        }
        // Two bits per token give its holder: 1 is the responder, 2 the responder's choice (X.225 §8.3.1.14).
        if connect.token_setting & 0b0101_0101 != 0 {
            return Err(Refused::by_session(RefuseReason::Rejected, "tokens with the responder"));
        }
        Ok(())
    }

    fn connect(&mut self, connect: &Connect) -> Result<BindRequest, Refused> {
        self.agree_session(connect)?;
        let unreadable = || Refused {
            layer: Layer::Presentation,
            reason: RefuseReason::UserData,
            user_data: refuse_pdu(&[], Some(REASON_USER_DATA), |_| {}),
            error: None,
            text: "no CP that can be read",
        };
        let calling = Selectors {
            t: std::mem::take(&mut self.calling_t),
            s: connect.calling.clone(),
            p: Vec::new(),
        };
        match ConnectPdu::read(&connect.user_data).map_err(|_| unreadable())? {
            ConnectPdu::Normal { calling: calling_p, called, contexts, user_data } => {
                self.core.mode = Some(Mode::Normal);
                self.answer.called.p = called;
                self.choose_contexts(&contexts)?;
                let rtorq = self.application(user_data)?;
                let request =
                    rtse::OpenRequest::read(rtorq.value).map_err(|_| self.unreadable_rtorq())?;
                self.bind(Mode::Normal, &request, Selectors { p: calling_p, ..calling })
            }
            ConnectPdu::X410(fields) => {
                self.core.mode = Some(Mode::X410);
                let request = rtse::OpenRequest::read_fields(fields, 0)
                    .map_err(|_| self.unreadable_rtorq())?;
                let mode = match request.application_protocol {
                    Some(12) => Mode::X410,
                    Some(1) | None => Mode::X410Of1984,
                    Some(_) => {
                        let error = BindError::Authentication;
                        return Err(self.refused_by_mta(
                            error,
                            Layer::ReliableTransfer,
                            "an unknown application protocol",
                        ));
                    }
                };
                self.core.mode = Some(mode);
                self.bind(mode, &request, calling)
            }
        }
    }

    fn unreadable_rtorq(&self) -> Refused {
        let text = "no RTORQ that can be read";
        if self.core.mode == Some(Mode::Normal) {
            let (layer, reason) = (Layer::ReliableTransfer, RefuseReason::UserData);
            let user_data = self.rejected(DIAGNOSTIC_NO_REASON, None);
            return Refused { layer, reason, user_data, error: None, text };
        }
        self.refused_by_mta(BindError::Authentication, Layer::ReliableTransfer, text)
    }

    /// Finds the needed contexts by their syntax, not by their position.
    fn choose_contexts(&mut self, proposed: &[Context]) -> Result<(), Refused> {
        let ours = |context: &Context| {
            let known =
                [acse::ABSTRACT_SYNTAX, MTA_RTSE, MTSE].contains(&&context.abstract_syntax[..]);
            known && context.has_ber
        };
        let result = |context| {
            if ours(context) { ContextResult::Accepted } else { ContextResult::RejectedByProvider }
        };
        self.answer.results = proposed.iter().map(result).collect();
        let find = |wanted: &[u8]| {
            let found =
                proposed.iter().find(|context| ours(context) && context.abstract_syntax == wanted);
            found.map(|context| context.id)
        };
        match (find(acse::ABSTRACT_SYNTAX), find(MTA_RTSE), find(MTSE)) {
            (Some(acse), Some(rtse), Some(mtse)) => {
                self.core.contexts = Contexts { acse, rtse, mtse };
                Ok(())
            }
            (acse, _, _) => {
                let user_data = if let Some(acse) = acse {
                    self.core.contexts.acse = acse;
                    self.rejected(DIAGNOSTIC_NO_REASON, None)
                } else {
                    refuse_pdu(&self.answer.results, Some(0), |_| {})
                };
                let (layer, reason) = (Layer::Presentation, RefuseReason::UserData);
                let text = "a context that P1 needs is not proposed";
                Err(Refused { layer, reason, user_data, error: None, text })
            }
        }
    }

    /// The user information of ACSE for RTSE.
    fn application<'a>(&self, user_data: Option<Pdv<'a>>) -> Result<Pdv<'a>, Refused> {
        let Contexts { acse, rtse, .. } = self.core.contexts;
        let refused = |diagnostic, text| {
            let user_data = self.rejected(diagnostic, None);
            let (layer, reason) = (Layer::Association, RefuseReason::UserData);
            Refused { layer, reason, user_data, error: None, text }
        };
        let unreadable = || refused(DIAGNOSTIC_NO_REASON, "no AARQ that can be read");
        let pdv = user_data.filter(|pdv| pdv.context == acse).ok_or_else(unreadable)?;
        let Ok(Apdu::Request(request)) = Apdu::read(pdv.value) else { return Err(unreadable()) };
        if request.context_name != MTS_TRANSFER {
            return Err(refused(
                DIAGNOSTIC_CONTEXT_NAME,
                "another application than message transfer",
            ));
        }
        request.user_information.filter(|pdv| pdv.context == rtse).ok_or_else(unreadable)
    }

    fn bind(
        &mut self,
        mode: Mode,
        request: &rtse::OpenRequest<'_>,
        calling: Selectors,
    ) -> Result<BindRequest, Refused> {
        let value = match request.connection {
            ConnectionMode::Open(value) => value,
            ConnectionMode::Recover => {
                let (error, layer) = (BindError::CannotRecover, Layer::ReliableTransfer);
                return Err(self.refused_by_mta(
                    error,
                    layer,
                    "RTSE recovery, which is not supported",
                ));
            }
        };
        if request.two_way && !self.settings.two_way {
            let (error, layer) = (BindError::DialogueMode, Layer::ReliableTransfer);
            return Err(self.refused_by_mta(error, layer, "TWA dialogue"));
        }
        let credentials = match value.map(Credentials::read_argument) {
            Some(Ok(credentials)) => credentials,
            Some(Err(_)) => return Err(self.unreadable_rtorq()),
            None => Credentials::default(),
        };
        let CheckpointTerms { checkpoint_kib, window } = request.terms;
        self.core.terms = CheckpointTerms {
            checkpoint_kib: match (checkpoint_kib, self.settings.checkpoint_kib) {
                (kib, 0) | (0, kib) => kib.min(CHECKPOINT_KIB_MAX),
                (theirs, ours) => theirs.min(ours),
            },
            window: window.clamp(1, WINDOW_MAX),
        };
        self.core.two_way = request.two_way;
        Ok(BindRequest {
            mode,
            identity: credentials.identity,
            has_strong_credentials: credentials.is_strong,
            called: self.answer.called.clone(),
            calling,
            checkpoint_kib,
            window,
            two_way: request.two_way,
        })
    }
}

super::machine::methods!(Responder);
