//! Writing of SPDUs: parameters in ascending order (X.225 §8.2.5), only necessary ones.

use super::{Accept, CONNECT_DATA_BYTES_MAX, Connect, Reference, Refuse, Serial, Spdu, pi, si};

const GIVE_TOKENS: [u8; 2] = [si::GIVE_TOKENS_OR_DATA, 0];
const PLEASE_TOKENS: [u8; 2] = [si::PLEASE_TOKENS, 0];

/// GIVE TOKENS and DATA without parameters: the user information follows.
pub(super) const DATA: [u8; 4] = [si::GIVE_TOKENS_OR_DATA, 0, si::GIVE_TOKENS_OR_DATA, 0];

impl Spdu {
    /// The octets before the user information of DATA.
    #[must_use]
    pub const fn data_front() -> [u8; 4] {
        DATA
    }

    /// The TSDU of this SPDU.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Spdu::Connect(connect) => spdu(&[], si::CONNECT, &connect.parameters()),
            Spdu::Accept(accept) => spdu(&[], si::ACCEPT, &accept.parameters()),
            Spdu::Refuse(refuse) => spdu(&[], si::REFUSE, &refuse.parameters()),
            Spdu::Finish { user_data } => {
                let mut parameters = Vec::new();
                parameter(&mut parameters, pi::TRANSPORT_DISCONNECT, &[1]);
                unless_empty(&mut parameters, pi::USER_DATA, user_data);
                spdu(&[], si::FINISH, &parameters)
            }
            Spdu::Disconnect { user_data } => with_data(si::DISCONNECT, user_data),
            Spdu::NotFinished => spdu(&[], si::NOT_FINISHED, &[]),
            Spdu::Abort { reason, user_data } => {
                let mut parameters = Vec::new();
                parameter(&mut parameters, pi::TRANSPORT_DISCONNECT, &[*reason]);
                unless_empty(&mut parameters, pi::USER_DATA, user_data);
                spdu(&[], si::ABORT_OR_INTERRUPT, &parameters)
            }
            Spdu::AbortAccept => spdu(&[], si::ABORT_ACCEPT_OR_INTERRUPT_ACK, &[]),
            Spdu::GiveTokens { tokens } => tokens_spdu(si::GIVE_TOKENS_OR_DATA, *tokens, &[]),
            Spdu::PleaseTokens { tokens, user_data } => {
                tokens_spdu(si::PLEASE_TOKENS, *tokens, user_data)
            }
            Spdu::GiveTokensConfirm => spdu(&[], si::GIVE_TOKENS_CONFIRM, &[]),
            Spdu::GiveTokensAck => spdu(&[], si::GIVE_TOKENS_ACK, &[]),
            Spdu::ActivityStart { id } => {
                one(&GIVE_TOKENS, si::ACTIVITY_START, pi::ACTIVITY_ID, id)
            }
            Spdu::ActivityResume => spdu(&GIVE_TOKENS, si::ACTIVITY_RESUME, &[]),
            Spdu::ActivityEnd(serial) => numbered(&GIVE_TOKENS, si::ACTIVITY_END, *serial),
            Spdu::ActivityEndAck(serial) => numbered(&PLEASE_TOKENS, si::ACTIVITY_END_ACK, *serial),
            Spdu::ActivityInterrupt(reason) => {
                one(&GIVE_TOKENS, si::ABORT_OR_INTERRUPT, pi::REASON, &[reason.code()])
            }
            Spdu::ActivityInterruptAck => {
                spdu(&PLEASE_TOKENS, si::ABORT_ACCEPT_OR_INTERRUPT_ACK, &[])
            }
            Spdu::ActivityDiscard(reason) => {
                one(&GIVE_TOKENS, si::ACTIVITY_DISCARD, pi::REASON, &[reason.code()])
            }
            Spdu::ActivityDiscardAck => spdu(&PLEASE_TOKENS, si::ACTIVITY_DISCARD_ACK, &[]),
            Spdu::MinorSync { serial, wants_ack } => {
                let mut parameters = Vec::new();
                if !wants_ack {
                    parameter(&mut parameters, pi::SYNC_TYPE, &[1]);
                }
                parameter(&mut parameters, pi::SERIAL, serial.to_string().as_bytes());
                spdu(&GIVE_TOKENS, si::MINOR_SYNC, &parameters)
            }
            Spdu::MinorSyncAck(serial) => numbered(&PLEASE_TOKENS, si::MINOR_SYNC_ACK, *serial),
            Spdu::ExceptionReport => spdu(&PLEASE_TOKENS, si::EXCEPTION_REPORT, &[]),
            Spdu::ExceptionData(reason) => {
                one(&PLEASE_TOKENS, si::EXCEPTION_DATA, pi::REASON, &[reason.code()])
            }
        }
    }
}

impl Connect {
    fn parameters(&self) -> Vec<u8> {
        let mut out = Vec::new();
        group(&mut out, pi::CONNECTION, |group| self.reference.write(group, pi::CALLING_REFERENCE));
        group(&mut out, pi::CONNECT_ITEM, |group| {
            parameter(group, pi::PROTOCOL_OPTIONS, &[self.options]);
            parameter(group, pi::VERSION, &[self.versions]);
            parameter(group, pi::TOKEN_SETTING, &[self.token_setting]);
        });
        parameter(&mut out, pi::REQUIREMENTS, &self.requirements.to_be_bytes());
        unless_empty(&mut out, pi::CALLING_SELECTOR, &self.calling);
        unless_empty(&mut out, pi::CALLED_OR_RESPONDING_SELECTOR, &self.called);
        if self.has_overflow {
            parameter(&mut out, pi::DATA_OVERFLOW, &[1]);
        }
        let is_long = self.user_data.len() > CONNECT_DATA_BYTES_MAX;
        let code = if is_long { pi::EXTENDED_USER_DATA } else { pi::USER_DATA };
        unless_empty(&mut out, code, &self.user_data);
        out
    }
}

impl Accept {
    fn parameters(&self) -> Vec<u8> {
        let mut out = Vec::new();
        group(&mut out, pi::CONNECTION, |group| self.reference.write(group, pi::CALLED_REFERENCE));
        group(&mut out, pi::CONNECT_ITEM, |group| {
            parameter(group, pi::PROTOCOL_OPTIONS, &[self.options]);
            parameter(group, pi::VERSION, &[self.versions]);
            parameter(group, pi::TOKEN_SETTING, &[self.token_setting]);
        });
        parameter(&mut out, pi::REQUIREMENTS, &self.requirements.to_be_bytes());
        unless_empty(&mut out, pi::CALLED_OR_RESPONDING_SELECTOR, &self.responding);
        unless_empty(&mut out, pi::USER_DATA, &self.user_data);
        out
    }
}

impl Refuse {
    fn parameters(&self) -> Vec<u8> {
        let mut out = Vec::new();
        group(&mut out, pi::CONNECTION, |group| self.reference.write(group, pi::CALLED_REFERENCE));
        parameter(&mut out, pi::TRANSPORT_DISCONNECT, &[u8::from(self.releases_transport)]);
        if let Some(requirements) = self.requirements {
            parameter(&mut out, pi::REQUIREMENTS, &requirements.to_be_bytes());
        }
        if let Some(versions) = self.versions {
            parameter(&mut out, pi::VERSION, &[versions]);
        }
        let mut reason = vec![self.reason.code()];
        reason.extend_from_slice(&self.user_data);
        parameter(&mut out, pi::REASON, &reason);
        out
    }
}

impl Reference {
    fn write(&self, out: &mut Vec<u8>, user: u8) {
        unless_empty(out, user, &self.user);
        unless_empty(out, pi::COMMON_REFERENCE, &self.common);
        unless_empty(out, pi::ADDITIONAL_REFERENCE, &self.additional);
    }
}

/// Lengths beyond two octets are cut: no written SPDU comes near.
fn length(out: &mut Vec<u8>, bytes: usize) {
    debug_assert!(bytes <= usize::from(u16::MAX));
    match u8::try_from(bytes) {
        Ok(short) if short < 0xFF => out.push(short),
        Ok(_) | Err(_) => {
            let [high, low] = (bytes as u16).to_be_bytes();
            out.extend([0xFF, high, low]);
        }
    }
}

fn parameter(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    out.push(code);
    length(out, value.len());
    out.extend_from_slice(value);
}

fn unless_empty(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    if !value.is_empty() {
        parameter(out, code, value);
    }
}

fn group(out: &mut Vec<u8>, code: u8, write: impl FnOnce(&mut Vec<u8>)) {
    let mut group = Vec::new();
    write(&mut group);
    unless_empty(out, code, &group);
}

fn spdu(tokens: &[u8], si: u8, parameters: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(tokens.len() + 4 + parameters.len());
    out.extend_from_slice(tokens);
    out.push(si);
    length(&mut out, parameters.len());
    out.extend_from_slice(parameters);
    out
}

fn one(tokens: &[u8], si: u8, code: u8, value: &[u8]) -> Vec<u8> {
    let mut parameters = Vec::new();
    parameter(&mut parameters, code, value);
    spdu(tokens, si, &parameters)
}

fn numbered(tokens: &[u8], si: u8, serial: Serial) -> Vec<u8> {
    one(tokens, si, pi::SERIAL, serial.to_string().as_bytes())
}

fn with_data(si: u8, user_data: &[u8]) -> Vec<u8> {
    let mut parameters = Vec::new();
    unless_empty(&mut parameters, pi::USER_DATA, user_data);
    spdu(&[], si, &parameters)
}

fn tokens_spdu(si: u8, tokens: u8, user_data: &[u8]) -> Vec<u8> {
    let mut parameters = Vec::new();
    if tokens != 0 {
        parameter(&mut parameters, pi::TOKEN_ITEM, &[tokens]);
    }
    unless_empty(&mut parameters, pi::USER_DATA, user_data);
    spdu(&[], si, &parameters)
}
