//! Sending and interpretation of aborts.

use super::settings::Contexts;
use super::{AbortReason, AssociationEnd, Layer};
use crate::acse::{self, Apdu};
use crate::presentation::{
    AbortPdu, REASON_UNEXPECTED, provider_abort_pdu, user_abort_pdu, write_pdv,
    x410_refusal_or_abort,
};
use crate::rtse::{self, Mode, read_abort, read_abort_fields};
use crate::session::Spdu;

/// Bits of AB's reason (X.225 §8.3.9.2): the transport is released, and the source of the abort.
const RELEASE: u8 = 1;
const USER: u8 = 2;
const PROTOCOL_ERROR: u8 = 4;

/// The abort of a layer: the session's own, the presentation's, ACSE's, RTSE's. Before the mode is known only the
/// session can abort.
pub(super) fn spdu(
    layer: Layer,
    reason: AbortReason,
    mode: Option<Mode>,
    contexts: Contexts,
) -> Spdu {
    let by_user = |user_data| Spdu::Abort { reason: RELEASE | USER, user_data };
    let by_session = Spdu::Abort { reason: RELEASE | PROTOCOL_ERROR, user_data: Vec::new() };
    let Some(mode) = mode else { return by_session };
    match layer {
        Layer::Transport | Layer::Session => by_session,
        Layer::Presentation => by_user(provider_abort_pdu(REASON_UNEXPECTED)),
        Layer::Association | Layer::ReliableTransfer | Layer::Transfer if mode != Mode::Normal => {
            by_user(x410_refusal_or_abort(|fields| rtse::write_abort(fields, mode, reason)))
        }
        Layer::Association => by_user(user_abort_pdu(&[contexts.acse], |data| {
            write_pdv(data, contexts.acse, acse::provider_abort);
        })),
        Layer::ReliableTransfer | Layer::Transfer => {
            let all = [contexts.acse, contexts.rtse, contexts.mtse];
            by_user(user_abort_pdu(&all, |data| {
                write_pdv(data, contexts.acse, |value| {
                    acse::abort(value, contexts.rtse, |rtab| rtse::write_abort(rtab, mode, reason));
                });
            }))
        }
    }
}

/// Interprets an AB: the aborting layer of the peer, and RTSE's reason. An unreadable one yields less.
pub(super) fn heard(user_data: &[u8]) -> AssociationEnd {
    let by = |layer, reason| AssociationEnd::AbortedByPeer { layer, reason };
    match AbortPdu::read(user_data) {
        Err(_) => by(Layer::Session, None),
        Ok(AbortPdu::Provider(_)) => by(Layer::Presentation, None),
        Ok(AbortPdu::X410(fields)) => {
            by(Layer::ReliableTransfer, read_abort_fields(fields).ok().flatten())
        }
        Ok(AbortPdu::User(None)) => by(Layer::Association, None),
        Ok(AbortPdu::User(Some(pdv))) => match Apdu::read(pdv.value) {
            Ok(Apdu::Abort { by_provider: false, user_information: Some(rtab) }) => {
                by(Layer::ReliableTransfer, read_abort(rtab.value).ok().flatten())
            }
            Ok(_) | Err(_) => by(Layer::Association, None),
        },
    }
}

/// A protocol violation by the peer, which leads to an abort.
#[derive(Debug)]
pub(super) struct Breach {
    pub(super) layer: Layer,
    pub(super) text: String,
}

impl Breach {
    pub(super) fn new(layer: Layer, text: impl Into<String>) -> Self {
        Breach { layer, text: text.into() }
    }

    /// Of the session protocol.
    pub(super) fn session(text: impl Into<String>) -> Self {
        Breach::new(Layer::Session, text)
    }
}
