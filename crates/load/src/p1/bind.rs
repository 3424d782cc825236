//! How an association begins and ends: the octets of CONNECT, ACCEPT, REFUSE and ABORT with all that lies
//! in them (X.225, X.226, X.227, X.228, X.411 §12.1), written.

use super::ber::{element, integer, push_header};
use super::spdu::{self, parameter, spdu};

/// id-ac-mts-transfer, 2.6.0.1.6 (X.419).
const TRANSFER: &[u8] = &[0x56, 0, 1, 6];
/// Abstract syntaxes: ACSE 2.2.1.0.1, id-as-mta-rtse 2.6.0.2.12, id-as-mtse 2.6.0.2.7.
const AS_ACSE: &[u8] = &[0x52, 1, 0, 1];
const AS_RTSE: &[u8] = &[0x56, 0, 2, 12];
const AS_MTSE: &[u8] = &[0x56, 0, 2, 7];
/// Basic encoding, 2.1.1.
const BER: &[u8] = &[0x51, 1];
/// Half-duplex, minor synchronize, activity, exceptions: what RTSE needs (X.218 §8).
const REQUIREMENTS: &[u8] = &[0x02, 0x49];

/// How RTSE is spoken (X.419 §13.2): each end is told, it can't be negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Mode {
    /// Normal mode, over ACSE
    #[default]
    #[value(name = "normal")]
    Normal,
    /// X.410 mode with P1 of 1988 (application protocol 12)
    #[value(name = "x410")]
    X410,
    /// X.410 mode with P1 of 1984 (application protocol 1)
    #[value(name = "x410-1984")]
    X4101984,
}

impl Mode {
    /// As it is written.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Normal => "normal",
            Mode::X410 => "x410",
            Mode::X4101984 => "x410-1984",
        }
    }

    fn protocol(self) -> u32 {
        if self == Mode::X4101984 { 1 } else { 12 }
    }
}

/// Identifiers of presentation contexts: those that we propose, or those that a peer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contexts {
    pub(super) acse: u32,
    pub(super) rtse: u32,
    pub(super) mtse: u32,
}

impl Contexts {
    /// As most implementations number them.
    pub(super) const OURS: Contexts = Contexts { acse: 1, rtse: 3, mtse: 5 };

    /// The place of an abstract syntax; `None`: another one.
    pub(super) fn place(&mut self, syntax: &[u8]) -> Option<&mut u32> {
        match syntax {
            AS_ACSE => Some(&mut self.acse),
            AS_RTSE => Some(&mut self.rtse),
            AS_MTSE => Some(&mut self.mtse),
            _ => None,
        }
    }
}

/// Who somebody says to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MtaCredentials {
    pub(super) name: String,
    pub(super) password: String,
}

/// What an association is to be like.
#[derive(Clone, Debug)]
pub(super) struct AssociationParameters {
    pub(super) mode: Mode,
    /// In units of 1,024 octets; 0: none.
    pub(super) checkpoint_kib: u32,
    pub(super) window: u32,
    pub(super) who: MtaCredentials,
    pub(super) s_selector: Vec<u8>,
    pub(super) p_selector: Vec<u8>,
}

/// The common reference, a UTCTime, and the user's own, which is T.61 of two letters.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) user: Vec<u8>,
    pub(super) time: Vec<u8>,
}

impl Reference {
    pub(super) fn new(time: &str) -> Reference {
        let user = element(0x04, &[&element(0x14, &[b"lb"])]);
        Reference { user, time: element(0x17, &[time.as_bytes()]) }
    }
}

fn oid(value: &[u8]) -> Vec<u8> {
    element(0x06, &[value])
}

/// One PDV in a presentation context (X.226 §8.4.2).
pub(super) fn pdv(context: u32, value: &[u8]) -> Vec<u8> {
    let list = element(0x30, &[&integer(2, context), &element(0xa0, &[value])]);
    element(0x61, &[&list])
}

/// What goes before an APDU of this length in a transfer: in normal mode the beginning of its EXTERNAL, in the
/// context of MTSE (X.228 §8).
pub(super) fn transfer_head(mode: Mode, apdu_bytes: usize) -> Vec<u8> {
    let mut head = Vec::new();
    match mode {
        Mode::Normal => {
            let context = integer(2, Contexts::OURS.mtse);
            let mut value = Vec::new();
            push_header(&mut value, 0xa0, apdu_bytes);
            push_header(&mut head, 0x28, context.len() + value.len() + apdu_bytes);
            head.extend([context, value].concat());
        }
        Mode::X410 | Mode::X4101984 => {}
    }
    head
}

/// EXTERNAL with an ACSE user's data.
fn external(context: u32, value: &[u8]) -> Vec<u8> {
    element(0x28, &[&oid(BER), &integer(2, context), &element(0xa0, &[value])])
}

/// MTABindArgument or MTABindResult (X.411 §12.1.1.1.1): IA5 password in X.410 mode, octets in the other, as
/// others do.
fn credentials(who: &MtaCredentials, mode: Mode) -> Vec<u8> {
    let tag = if mode == Mode::Normal { 0x04 } else { 0x16 };
    let password = element(0xa1, &[&element(tag, &[who.password.as_bytes()])]);
    element(0xa1, &[&element(0x80, &[who.name.as_bytes()]), &password])
}

/// Sizes of RTORQ: what is the default is left out (X.228 §9).
fn sizes(checkpoint_kib: u32, window: u32) -> Vec<u8> {
    let mut out = Vec::new();
    if checkpoint_kib > 0 {
        out.extend(integer(0x80, checkpoint_kib));
    }
    if window != 3 {
        out.extend(integer(0x81, window));
    }
    out
}

fn connect_item(version: u8) -> Vec<u8> {
    let items = [
        parameter(spdu::OPTIONS, &[0]),
        parameter(spdu::VERSION, &[version]),
        parameter(spdu::TOKEN_SETTING, &[0]),
    ];
    parameter(spdu::CONNECT_ITEM, &items.concat())
}

/// CONNECT.
pub(super) fn connect(wishes: &AssociationParameters, reference: &Reference) -> Vec<u8> {
    let bind = credentials(&wishes.who, wishes.mode);
    let sizes = sizes(wishes.checkpoint_kib, wishes.window);
    let user_data = match wishes.mode {
        Mode::Normal => {
            let Contexts { acse, rtse, mtse } = Contexts::OURS;
            let open = element(0xa3, &[&element(0xa0, &[&element(0xb0, &[&bind])])]);
            let rtorq = element(0xb0, &[&sizes, &integer(0x82, 0), &open]);
            let information = element(0xbe, &[&external(rtse, &rtorq)]);
            let aarq = element(0x60, &[&element(0xa1, &[&oid(TRANSFER)]), &information]);
            let offer = |id, syntax: &[u8]| {
                element(0x30, &[&integer(2, id), &oid(syntax), &element(0x30, &[&oid(BER)])])
            };
            let offers =
                [offer(acse, AS_ACSE), offer(rtse, AS_RTSE), offer(mtse, AS_MTSE)].concat();
            let selector = match wishes.p_selector.as_slice() {
                [] => Vec::new(),
                selector => element(0x82, &[selector]),
            };
            let parameters =
                element(0xa2, &[&selector, &element(0xa4, &[&offers]), &pdv(acse, &aarq)]);
            element(0x31, &[&mode_selector(1), &parameters])
        }
        Mode::X410 | Mode::X4101984 => {
            let open = element(0xa3, &[&element(0xa0, &[&bind])]);
            let protocol = integer(0x84, wishes.mode.protocol());
            let rtorq = element(0xa1, &[&sizes, &integer(0x82, 0), &open, &protocol]);
            element(0x31, &[&mode_selector(0), &rtorq])
        }
    };
    let identification = [
        parameter(spdu::CALLING_REFERENCE, &reference.user),
        parameter(spdu::COMMON_REFERENCE, &reference.time),
    ];
    let selector = match wishes.s_selector.as_slice() {
        [] => Vec::new(),
        selector => parameter(spdu::CALLED_SELECTOR, selector),
    };
    let parameters = [
        parameter(spdu::CONNECTION_ID, &identification.concat()),
        connect_item(3),
        parameter(spdu::REQUIREMENTS, REQUIREMENTS),
        selector,
        parameter(spdu::USER_DATA, &user_data),
    ];
    spdu(&[], spdu::CONNECT, &parameters.each_ref().map(Vec::as_slice))
}

fn mode_selector(mode: u32) -> Vec<u8> {
    element(0xa0, &[&integer(0x80, mode)])
}

/// What a CONNECT asks, as far as its answer depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BindRequirements {
    pub(super) mode: Mode,
    pub(super) contexts: Contexts,
    /// Abstract syntaxes in their order: whether we take them.
    pub(super) offers: Vec<bool>,
    pub(super) checkpoint_kib: u32,
    pub(super) window: u32,
    /// Two-way alternate.
    pub(super) takes_turns: bool,
    /// Resumes a transfer.
    pub(super) recovers: bool,
    pub(super) who: Option<MtaCredentials>,
    pub(super) reference: Vec<u8>,
    pub(super) common_reference: Vec<u8>,
}

/// ACCEPT to a CONNECT.
pub(super) fn accept(
    asked: &BindRequirements,
    checkpoint_kib: u32,
    who: &MtaCredentials,
) -> Vec<u8> {
    let bind = credentials(who, asked.mode);
    let sizes = [integer(0x80, checkpoint_kib), integer(0x81, asked.window)].concat();
    let user_data = match asked.mode {
        Mode::Normal => {
            let open = element(0xa2, &[&element(0xa0, &[&element(0xb1, &[&bind])])]);
            let rtoac = element(0xb1, &[&sizes, &open]);
            let aare = [
                element(0xa1, &[&oid(TRANSFER)]),
                element(0xa2, &[&integer(2, 0)]),
                element(0xa3, &[&element(0xa1, &[&integer(2, 0)])]),
                element(0xbe, &[&external(asked.contexts.rtse, &rtoac)]),
            ];
            let aare = element(0x61, &aare.each_ref().map(Vec::as_slice));
            let parameters = [results(&asked.offers), pdv(asked.contexts.acse, &aare)].concat();
            element(0x31, &[&mode_selector(1), &element(0xa2, &[&parameters])])
        }
        Mode::X410 | Mode::X4101984 => {
            let open = element(0xa2, &[&element(0xa0, &[&bind])]);
            element(0x31, &[&mode_selector(0), &element(0xa1, &[&sizes, &open])])
        }
    };
    let parameters = [
        identification(asked),
        connect_item(2),
        parameter(spdu::REQUIREMENTS, REQUIREMENTS),
        parameter(spdu::CALLED_SELECTOR, &[]),
        parameter(spdu::USER_DATA, &user_data),
    ];
    spdu(&[], spdu::ACCEPT, &parameters.each_ref().map(Vec::as_slice))
}

fn identification(asked: &BindRequirements) -> Vec<u8> {
    let mut items = Vec::new();
    for (code, value) in [
        (spdu::CALLED_REFERENCE, &asked.reference),
        (spdu::COMMON_REFERENCE, &asked.common_reference),
    ] {
        if !value.is_empty() {
            items.extend(parameter(code, value));
        }
    }
    parameter(spdu::CONNECTION_ID, &items)
}

/// One result for each context (X.226 §8.2.4.6): accepted, or refused by the provider.
fn results(offers: &[bool]) -> Vec<u8> {
    let result = |&taken: &bool| match taken {
        true => element(0x30, &[&integer(0x80, 0), &element(0x81, &[BER])]),
        false => element(0x30, &[&integer(0x80, 2), &integer(0x82, 1)]),
    };
    element(0xa5, &[&offers.iter().flat_map(result).collect::<Vec<u8>>()])
}

/// REFUSE with an MTABindError (X.411 §12.1.1.1.3); `None`: an activity can't be resumed.
pub(super) fn refuse(asked: &BindRequirements, error: Option<u8>) -> Vec<u8> {
    let user_data = match asked.mode {
        Mode::Normal => {
            let rtorj = match error {
                Some(error) => {
                    let error = element(0xb2, &[&integer(2, error.into())]);
                    element(0xb2, &[&element(0xa1, &[&error])])
                }
                None => element(0xb2, &[]),
            };
            let aare = [
                element(0xa1, &[&oid(TRANSFER)]),
                element(0xa2, &[&integer(2, 1)]),
                element(0xa3, &[&element(0xa1, &[&integer(2, 1)])]),
                element(0xbe, &[&external(asked.contexts.rtse, &rtorj)]),
            ];
            let aare = element(0x61, &aare.each_ref().map(Vec::as_slice));
            let parameters = [results(&asked.offers), pdv(asked.contexts.acse, &aare)].concat();
            element(0x30, &[&parameters])
        }
        // RTSE's own reasons there: busy, can't recover, validation failure, dialogue mode (X.228 §9).
        Mode::X410 | Mode::X4101984 => {
            let reason = match error {
                None => 1,
                Some(0) => 0,
                Some(3) => 3,
                Some(_) => 2,
            };
            element(0x31, &[&integer(0x80, reason)])
        }
    };
    let reason = [&[2_u8][..], &user_data].concat();
    let parameters = [
        identification(asked),
        parameter(spdu::TRANSPORT_DISCONNECT, &[1]),
        parameter(spdu::REQUIREMENTS, REQUIREMENTS),
        parameter(spdu::REASON, &reason),
    ];
    spdu(&[], spdu::REFUSE, &parameters.each_ref().map(Vec::as_slice))
}

/// FINISH (X.227: RLRQ, normal).
pub(super) fn finish(mode: Mode, contexts: Contexts) -> Vec<u8> {
    let released = released(mode, contexts, 0x62);
    let disconnect = parameter(spdu::TRANSPORT_DISCONNECT, &[1]);
    spdu(&[], spdu::FINISH, &[&disconnect, &released])
}

/// DISCONNECT (X.227: RLRE, normal).
pub(super) fn disconnect(mode: Mode, contexts: Contexts) -> Vec<u8> {
    spdu(&[], spdu::DISCONNECT, &[&released(mode, contexts, 0x63)])
}

fn released(mode: Mode, contexts: Contexts, tag: u8) -> Vec<u8> {
    match mode {
        Mode::Normal => {
            let release = element(tag, &[&integer(0x80, 0)]);
            parameter(spdu::USER_DATA, &pdv(contexts.acse, &release))
        }
        Mode::X410 | Mode::X4101984 => Vec::new(),
    }
}

/// ABORT for a protocol error, without user data (X.225 §8.3.9).
pub(super) fn abort() -> Vec<u8> {
    spdu(&[], spdu::ABORT, &[&parameter(spdu::TRANSPORT_DISCONNECT, &[5])])
}
