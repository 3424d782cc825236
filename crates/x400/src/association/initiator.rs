//! The initiator: the bind, and the machine.

use super::abort::Breach;
use super::core::{Core, Item, OUR_REFERENCE, Role, Stage};
use super::dialogue::out_of_order;
use super::settings::Contexts;
use super::{
    AssociationEnd, BindError, Binding, CHECKPOINT_KIB_MAX, Event, InitiatorSettings, Layer,
    Refusal, Selectors, WINDOW_MAX, abort,
};
use crate::acse::{self, Apdu};
use crate::presentation::{
    AcceptPdu, ContextResult, Pdv, RefusePdu, connect_pdu, write_pdv, x410_pdu,
};
use crate::rtse::{
    self, CheckpointTerms, Credentials, MTS_TRANSFER, Mode, read_refusal, read_refusal_fields,
    write_request,
};
use crate::session::{
    Accept, Connect, REQUIREMENTS, Reference, Refuse, RefuseReason, Spdu, VERSION_1, VERSION_2,
};
use crate::x224::{
    Confirm, ConnectionRequest, Disconnect, DisconnectReason, Framer, Tpdu, TpduSize,
};
use mail::Mono;

const T61_STRING: u8 = 0x14;
const UTC_TIME: u8 = 0x17;
/// Maximum length kept of the text in a DR.
const DISCONNECT_TEXT_BYTES_MAX: usize = 128;
/// Maximum length of a local reference: a name within the limit of X.225 (64 octets with its tag and length).
const REFERENCE_NAME_BYTES_MAX: usize = 32;

/// The machine of the initiator.
#[derive(Debug)]
pub struct Initiator {
    core: Core,
    settings: InitiatorSettings,
    offered: TpduSize,
    tpdu_bytes: usize,
}

impl Initiator {
    /// A new machine on a connected stream: the first output is available.
    #[must_use]
    pub fn new(settings: InitiatorSettings, now: Mono) -> Self {
        let offered = TpduSize::offer(settings.tpdu_bytes);
        let mut core = Core::new(Role::Initiator, settings.timeouts, now);
        core.mode = Some(settings.mode);
        core.two_way = settings.two_way;
        let request = ConnectionRequest {
            source: OUR_REFERENCE,
            is_class_0: true,
            called: settings.called.t.clone(),
            calling: settings.calling.t.clone(),
            size: offered,
        };
        core.out.copy(&Tpdu::Request(request).packet());
        Initiator { core, settings, offered, tpdu_bytes: 0 }
    }

    /// Releases the association after the last transfer. Requests the turn first if the peer has it. Not during a
    /// pending APDU.
    pub fn release(&mut self, now: Mono) {
        self.core.touch(now);
        self.core.release();
    }

    fn step(&mut self) -> Result<bool, Breach> {
        let Some(item) = self.core.read()? else { return Ok(false) };
        match item {
            Item::Tpdu(Tpdu::Confirm(confirm)) if self.core.stage == Stage::AwaitConfirm => {
                self.confirm(&confirm)
            }
            Item::Tpdu(Tpdu::Disconnect(disconnect)) if self.core.stage == Stage::AwaitConfirm => {
                self.refused_by_transport(&disconnect);
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
            Stage::AwaitAccept => match spdu {
                Spdu::Accept(accept) => self.accept(&accept),
                Spdu::Refuse(refuse) => {
                    self.core.say_disconnect(DisconnectReason::Normal, "");
                    self.core.end(AssociationEnd::Refused(refusal(&refuse)), Stage::Closed);
                    Ok(())
                }
                Spdu::Abort { user_data, .. } => {
                    self.core.end(abort::heard(&user_data), Stage::Closed);
                    Ok(())
                }
                other => Err(out_of_order(&other)),
            },
            Stage::AwaitRequest
            | Stage::AwaitConfirm
            | Stage::AwaitConnect
            | Stage::Deciding
            | Stage::Closed => Ok(()),
        }
    }

    fn refused_by_transport(&mut self, disconnect: &Disconnect) {
        // Its character set is unknown; non-ASCII characters could affect the text around it.
        let is_shown = |octet: &&u8| (b' '..=b'~').contains(octet);
        let words = disconnect.text.iter().filter(is_shown).take(DISCONNECT_TEXT_BYTES_MAX);
        let words: String = words.copied().map(char::from).collect();
        let text = format!("{:?} {words}", disconnect.reason).trim_end().to_string();
        let is_permanent = !disconnect.reason.is_temporary();
        let refusal = Refusal { layer: Layer::Transport, error: None, is_permanent, text };
        self.core.end(AssociationEnd::Refused(refusal), Stage::Closed);
    }

    fn confirm(&mut self, confirm: &Confirm) -> Result<(), Breach> {
        if !confirm.is_class_0 {
            return Err(Breach::new(Layer::Transport, "a class that was not offered"));
        }
        self.core.peer_reference = confirm.source;
        self.tpdu_bytes = self.offered.agreed(confirm.size);
        self.core.framer = Framer::new(self.tpdu_bytes);
        let settings = &self.settings;
        let name = settings.identity.name.as_deref().unwrap_or("mta");
        let name: Vec<u8> = name.bytes().take(REFERENCE_NAME_BYTES_MAX).collect();
        let connect = Connect {
            reference: Reference {
                user: element(T61_STRING, &name),
                common: element(UTC_TIME, settings.reference_time.as_bytes()),
                additional: Vec::new(),
            },
            options: 0,
            versions: VERSION_1 | VERSION_2,
            token_setting: 0,
            requirements: REQUIREMENTS,
            calling: settings.calling.s.clone(),
            called: settings.called.s.clone(),
            has_overflow: false,
            user_data: self.connect_data(),
        };
        self.core.say(&Spdu::Connect(Box::new(connect)));
        self.core.stage = Stage::AwaitAccept;
        Ok(())
    }

    fn connect_data(&self) -> Vec<u8> {
        let InitiatorSettings { mode, identity, two_way, .. } = &self.settings;
        let terms = CheckpointTerms {
            checkpoint_kib: self.settings.checkpoint_kib.min(CHECKPOINT_KIB_MAX),
            window: self.settings.window.clamp(1, WINDOW_MAX),
        };
        if *mode != Mode::Normal {
            return x410_pdu(|fields| write_request(fields, *mode, terms, *two_way, identity));
        }
        let Contexts { acse, rtse, .. } = Contexts::OURS;
        let (calling, called) = (&self.settings.calling.p, &self.settings.called.p);
        connect_pdu(calling, called, &Contexts::OURS.proposal(), |data| {
            write_pdv(data, acse, |value| {
                acse::request(value, MTS_TRANSFER, rtse, |out| {
                    write_request(out, *mode, terms, *two_way, identity);
                });
            });
        })
    }

    fn accept(&mut self, accept: &Accept) -> Result<(), Breach> {
        if accept.requirements & REQUIREMENTS != REQUIREMENTS {
            return Err(Breach::session("functional units required by RTSE are missing"));
        }
        let no_cpa =
            |error: crate::ber::BerError| Breach::new(Layer::Presentation, error.to_string());
        let (response, responding_p) =
            match (AcceptPdu::read(&accept.user_data).map_err(no_cpa)?, self.settings.mode) {
                (AcceptPdu::Normal { responding, results, user_data }, Mode::Normal) => {
                    let is_accepted = |result: &ContextResult| *result == ContextResult::Accepted;
                    if results.len() != 3 || !results.iter().all(is_accepted) {
                        return Err(Breach::new(
                            Layer::Presentation,
                            "a context that P1 needs is not accepted",
                        ));
                    }
                    let value = self.application(user_data)?.value;
                    (rtse::Response::read(value), responding)
                }
                (AcceptPdu::X410(fields), Mode::X410 | Mode::X410Of1984) => {
                    (rtse::Response::read_fields(fields), Vec::new())
                }
                (AcceptPdu::Normal { .. }, _) | (AcceptPdu::X410(_), _) => {
                    return Err(Breach::new(Layer::Presentation, "the wrong mode"));
                }
            };
        let no_rtoac =
            |error: crate::ber::BerError| Breach::new(Layer::ReliableTransfer, error.to_string());
        let response = response.map_err(no_rtoac)?;
        let credentials = response.bind.map(Credentials::read_result).transpose();
        let credentials = credentials.map_err(no_rtoac)?.unwrap_or_default();
        self.core.terms = CheckpointTerms {
            checkpoint_kib: response.terms.checkpoint_kib.min(CHECKPOINT_KIB_MAX),
            window: response.terms.window.clamp(1, WINDOW_MAX),
        };
        self.core.stage = Stage::Open;
        let binding = Binding {
            identity: credentials.identity,
            responding: Selectors { t: Vec::new(), s: accept.responding.clone(), p: responding_p },
            checkpoint_kib: self.core.terms.checkpoint_kib,
            window: self.core.terms.window,
            tpdu_bytes: self.tpdu_bytes,
        };
        self.core.events.push_back(Event::Bound(Box::new(binding)));
        Ok(())
    }

    /// The user information of ACSE for RTSE.
    fn application<'a>(&self, user_data: Option<Pdv<'a>>) -> Result<Pdv<'a>, Breach> {
        let Contexts { acse, rtse, .. } = self.core.contexts;
        let broken = |text: &str| Breach::new(Layer::Association, text);
        let pdv = user_data.filter(|pdv| pdv.context == acse).ok_or_else(|| broken("no AARE"))?;
        match Apdu::read(pdv.value) {
            Ok(Apdu::Response(response)) if response.result == 0 => {
                let found = response.user_information.filter(|pdv| pdv.context == rtse);
                found.ok_or_else(|| broken("an AARE without RTOAC"))
            }
            Ok(Apdu::Response(_)) => Err(broken("a rejection in an acceptance")),
            Ok(Apdu::Request(_) | Apdu::Release | Apdu::Released | Apdu::Abort { .. }) => {
                Err(broken("another APDU than AARE"))
            }
            Err(error) => Err(broken(&error.to_string())),
        }
    }
}

/// A short element, as used in references.
fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
    let mut octets = vec![tag, contents.len() as u8];
    octets.extend_from_slice(contents);
    octets
}

/// Interprets a REFUSE; an unreadable one yields less.
fn refusal(refuse: &Refuse) -> Refusal {
    let said =
        |layer, is_permanent, text: String| Refusal { layer, error: None, is_permanent, text };
    if refuse.reason != RefuseReason::UserData {
        return said(Layer::Session, !refuse.reason.is_temporary(), format!("{:?}", refuse.reason));
    }
    let by_mta = |error: Option<BindError>, is_permanent: bool| match error {
        Some(error) => {
            let (layer, is_permanent) = (Layer::Transfer, error.is_permanent());
            Refusal { layer, error: Some(error), is_permanent, text: format!("{error:?}") }
        }
        None => said(Layer::ReliableTransfer, is_permanent, "without a reason".into()),
    };
    match RefusePdu::read(&refuse.user_data) {
        Err(error) => said(Layer::Presentation, true, format!("unreadable refusal: {error}")),
        Ok(RefusePdu::X410(fields)) => by_mta(read_refusal_fields(fields).ok().flatten(), true),
        Ok(RefusePdu::Normal { provider_reason: Some(reason), .. }) => {
            said(Layer::Presentation, reason > 2, format!("provider reason {reason}"))
        }
        Ok(RefusePdu::Normal { provider_reason: None, user_data: None }) => {
            said(Layer::Presentation, true, "without a reason".into())
        }
        Ok(RefusePdu::Normal { provider_reason: None, user_data: Some(pdv) }) => {
            match Apdu::read(pdv.value) {
                Ok(Apdu::Response(response)) => match response.user_information {
                    Some(rtorj) => {
                        by_mta(read_refusal(rtorj.value).ok().flatten(), response.result == 1)
                    }
                    None => {
                        let text = response.diagnostic.map_or_else(
                            || "without a reason".to_string(),
                            |(_, diagnostic)| format!("diagnostic {diagnostic}"),
                        );
                        said(Layer::Association, response.result == 1, text)
                    }
                },
                Ok(Apdu::Request(_) | Apdu::Release | Apdu::Released | Apdu::Abort { .. })
                | Err(_) => said(Layer::Association, true, "unreadable rejection".into()),
            }
        }
    }
}

super::machine::methods!(Initiator);
