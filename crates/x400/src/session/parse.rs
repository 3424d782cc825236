//! SPDUs read (X.225 §8.3).

use super::parameters::Parameters;
use super::{
    ACTIVITY_ID_BYTES_MAX, Accept, Connect, ExceptionReason, REQUIREMENTS_UNSAID, Reference,
    Refuse, RefuseReason, Serial, SessionError, Spdu, VERSION_1, pi, si,
};

/// References may have 64 octets (§8.3.1.2), the additional one 4.
const REFERENCE_BYTES_MAX: usize = 64;
/// A session selector has 16 octets; X.225 allows no more, some send a few.
const SELECTOR_BYTES_MAX: usize = 64;

/// An SPDU alone in its TSDU, or before one of category 2.
pub(super) fn first(si: u8, octets: &[u8]) -> Result<Spdu, SessionError> {
    let parameters = Parameters::read(si, octets)?;
    let tokens = || Ok(parameters.octet(pi::TOKEN_ITEM)?.unwrap_or(0));
    let user_data = parameters.user_data();
    match si {
        si::GIVE_TOKENS_OR_DATA => Ok(Spdu::GiveTokens { tokens: tokens()? }),
        si::PLEASE_TOKENS => Ok(Spdu::PleaseTokens { tokens: tokens()?, user_data }),
        si::CONNECT => connect(&parameters).map(Box::new).map(Spdu::Connect),
        si::ACCEPT => accept(&parameters).map(Box::new).map(Spdu::Accept),
        si::REFUSE => refuse(&parameters).map(Box::new).map(Spdu::Refuse),
        si::FINISH => Ok(Spdu::Finish { user_data }),
        si::DISCONNECT => Ok(Spdu::Disconnect { user_data }),
        si::NOT_FINISHED => Ok(Spdu::NotFinished),
        si::ABORT_OR_INTERRUPT => {
            let reason = parameters.octet(pi::TRANSPORT_DISCONNECT)?.unwrap_or(1);
            Ok(Spdu::Abort { reason, user_data })
        }
        si::ABORT_ACCEPT_OR_INTERRUPT_ACK => Ok(Spdu::AbortAccept),
        si::GIVE_TOKENS_CONFIRM => Ok(Spdu::GiveTokensConfirm),
        si::GIVE_TOKENS_ACK => Ok(Spdu::GiveTokensAck),
        // Of category 2, without the token SPDU that must precede them (§6.3.7).
        si::EXCEPTION_REPORT
        | si::ACTIVITY_RESUME
        | si::ACTIVITY_END
        | si::ACTIVITY_END_ACK
        | si::ACTIVITY_START
        | si::EXCEPTION_DATA
        | si::MINOR_SYNC
        | si::MINOR_SYNC_ACK
        | si::ACTIVITY_DISCARD
        | si::ACTIVITY_DISCARD_ACK => Err(SessionError::Concatenation(si)),
        other => Err(SessionError::Unknown(other)),
    }
}

/// An SPDU of category 2 other than DATA.
pub(super) fn second(si: u8, octets: &[u8]) -> Result<Spdu, SessionError> {
    let parameters = Parameters::read(si, octets)?;
    let reason = || {
        // ED has one octet; some peers append more.
        let code = parameters.get(pi::REASON).and_then(|value| value.first().copied());
        ExceptionReason::from_code(code.unwrap_or(0))
    };
    let serial = || {
        let digits =
            parameters.get(pi::SERIAL).ok_or(SessionError::Missing { si, pi: pi::SERIAL })?;
        Serial::parse(digits).ok_or(SessionError::Parameter { si, pi: pi::SERIAL })
    };
    match si {
        si::EXCEPTION_REPORT => Ok(Spdu::ExceptionReport),
        si::ABORT_OR_INTERRUPT => Ok(Spdu::ActivityInterrupt(reason())),
        si::ABORT_ACCEPT_OR_INTERRUPT_ACK => Ok(Spdu::ActivityInterruptAck),
        si::ACTIVITY_RESUME => Ok(Spdu::ActivityResume),
        si::ACTIVITY_END => serial().map(Spdu::ActivityEnd),
        si::ACTIVITY_END_ACK => serial().map(Spdu::ActivityEndAck),
        si::ACTIVITY_START => {
            let id = parameters.octets(pi::ACTIVITY_ID, ACTIVITY_ID_BYTES_MAX)?;
            Ok(Spdu::ActivityStart { id })
        }
        si::EXCEPTION_DATA => Ok(Spdu::ExceptionData(reason())),
        si::MINOR_SYNC => {
            // Bit 1 of the type: no confirmation wanted (§8.3.25.3).
            let wants_ack = parameters.octet(pi::SYNC_TYPE)?.is_none_or(|kind| kind & 1 == 0);
            Ok(Spdu::MinorSync { serial: serial()?, wants_ack })
        }
        si::MINOR_SYNC_ACK => serial().map(Spdu::MinorSyncAck),
        si::ACTIVITY_DISCARD => Ok(Spdu::ActivityDiscard(reason())),
        si::ACTIVITY_DISCARD_ACK => Ok(Spdu::ActivityDiscardAck),
        si::PLEASE_TOKENS
        | si::NOT_FINISHED
        | si::FINISH
        | si::DISCONNECT
        | si::REFUSE
        | si::CONNECT
        | si::ACCEPT
        | si::GIVE_TOKENS_CONFIRM
        | si::GIVE_TOKENS_ACK => Err(SessionError::Concatenation(si)),
        other => Err(SessionError::Unknown(other)),
    }
}

/// Returns true twice: if DATA begins an SSDU, and if it ends one (§8.3.11.2).
pub(super) fn enclosure(octets: &[u8]) -> Result<(bool, bool), SessionError> {
    let parameters = Parameters::read(si::GIVE_TOKENS_OR_DATA, octets)?;
    let item = parameters.octet(pi::ENCLOSURE)?;
    Ok(item.map_or((true, true), |item| (item & 1 != 0, item & 2 != 0)))
}

fn reference(parameters: &Parameters<'_>, user: u8) -> Result<Reference, SessionError> {
    Ok(Reference {
        user: parameters.octets(user, REFERENCE_BYTES_MAX)?,
        common: parameters.octets(pi::COMMON_REFERENCE, REFERENCE_BYTES_MAX)?,
        additional: parameters.octets(pi::ADDITIONAL_REFERENCE, REFERENCE_BYTES_MAX)?,
    })
}

fn connect(parameters: &Parameters<'_>) -> Result<Connect, SessionError> {
    Ok(Connect {
        reference: reference(parameters, pi::CALLING_REFERENCE)?,
        options: parameters.octet(pi::PROTOCOL_OPTIONS)?.unwrap_or(0),
        versions: parameters.octet(pi::VERSION)?.unwrap_or(VERSION_1),
        token_setting: parameters.octet(pi::TOKEN_SETTING)?.unwrap_or(0),
        requirements: parameters.pair(pi::REQUIREMENTS)?.unwrap_or(REQUIREMENTS_UNSAID),
        calling: parameters.octets(pi::CALLING_SELECTOR, SELECTOR_BYTES_MAX)?,
        called: parameters.octets(pi::CALLED_OR_RESPONDING_SELECTOR, SELECTOR_BYTES_MAX)?,
        has_overflow: parameters.get(pi::DATA_OVERFLOW).is_some(),
        user_data: parameters.user_data(),
    })
}

fn accept(parameters: &Parameters<'_>) -> Result<Accept, SessionError> {
    Ok(Accept {
        reference: reference(parameters, pi::CALLED_REFERENCE)?,
        options: parameters.octet(pi::PROTOCOL_OPTIONS)?.unwrap_or(0),
        versions: parameters.octet(pi::VERSION)?.unwrap_or(VERSION_1),
        token_setting: parameters.octet(pi::TOKEN_SETTING)?.unwrap_or(0),
        requirements: parameters.pair(pi::REQUIREMENTS)?.unwrap_or(REQUIREMENTS_UNSAID),
        responding: parameters.octets(pi::CALLED_OR_RESPONDING_SELECTOR, SELECTOR_BYTES_MAX)?,
        user_data: parameters.user_data(),
    })
}

fn refuse(parameters: &Parameters<'_>) -> Result<Refuse, SessionError> {
    let (reason, user_data) = match parameters.get(pi::REASON) {
        Some([code, data @ ..]) => (RefuseReason::from_code(*code), data.to_vec()),
        Some([]) | None => (RefuseReason::Rejected, Vec::new()),
    };
    Ok(Refuse {
        reference: reference(parameters, pi::CALLED_REFERENCE)?,
        releases_transport: parameters
            .octet(pi::TRANSPORT_DISCONNECT)?
            .is_none_or(|bits| bits & 1 != 0),
        requirements: parameters.pair(pi::REQUIREMENTS)?,
        versions: parameters.octet(pi::VERSION)?,
        reason,
        user_data,
    })
}
