//! TPDUs other than data (X.224 §13.3 to §13.5, §13.12).

use super::{TPDU_BYTES_MAX, TPDU_BYTES_MIN};
use crate::tpkt;

/// Size if CR has none: 2,048 octets. RFC 1006 §5 defines 65,531, X.224 128; this is the value of ISODE's descendants.
const TPDU_BYTES_UNSAID: usize = 2_048;
/// The largest size that the parameter C0 may name over TCP (class 0 has 2,048, some go to 8,192).
const SIZE_CODE_MAX: u8 = 0x0D;
const SIZE_CODE_MIN: u8 = 0x07;
/// The largest that class 0 has (X.224 §13.3.4 b).
const SIZE_CODE_OFFERED_MAX: u8 = 0x0B;
const UNIT: usize = 128;

const CALLING: u8 = 0xC1;
const CALLED: u8 = 0xC2;
const SIZE: u8 = 0xC0;
const PREFERRED: u8 = 0xF0;
const ALTERNATIVES: u8 = 0xC7;

/// A TPDU without data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tpdu {
    /// CR.
    Request(ConnectionRequest),
    /// CC.
    Confirm(Confirm),
    /// DR.
    Disconnect(Disconnect),
    /// ER with its reject cause.
    Error(u8),
}

/// TPDU sizes in a CR or CC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TpduSize {
    /// The code of parameter C0: the size is 2 to its power.
    pub code: Option<u8>,
    /// Parameter F0, the preferred maximum, in units of 128 octets.
    pub preferred: Option<u32>,
}

impl TpduSize {
    /// An initiator's offer for TPDUs of at most this length.
    #[must_use]
    pub fn offer(bytes: usize) -> Self {
        let bytes = bytes.clamp(TPDU_BYTES_MIN, TPDU_BYTES_MAX);
        let code = (bytes.ilog2() as u8).min(SIZE_CODE_OFFERED_MAX);
        let preferred = (bytes > 1 << SIZE_CODE_OFFERED_MAX).then_some((bytes / UNIT) as u32);
        TpduSize { code: Some(code), preferred }
    }

    /// A responder's answer, and the size then in force. A preferred maximum is answered by one, and some size is
    /// always given (RFC 2126 §6.4).
    #[must_use]
    pub fn answer(self, bytes: usize) -> (TpduSize, usize) {
        let bytes = bytes.clamp(TPDU_BYTES_MIN, TPDU_BYTES_MAX);
        if let Some(units) = self.preferred.filter(|&units| units > 0) {
            let units = (units as usize).min(bytes / UNIT);
            return (TpduSize { code: None, preferred: Some(units as u32) }, units * UNIT);
        }
        let offered =
            self.code.unwrap_or(SIZE_CODE_OFFERED_MAX).clamp(SIZE_CODE_MIN, SIZE_CODE_MAX);
        let code = offered.min(bytes.ilog2() as u8);
        (TpduSize { code: Some(code), preferred: None }, 1 << code)
    }

    /// The size in force for this offer and the given answer. A responder cannot exceed the offer.
    #[must_use]
    pub fn agreed(self, answer: TpduSize) -> usize {
        let offered = self.preferred.map_or(0, |units| (units as usize).saturating_mul(UNIT));
        let offered = offered.max(1 << self.code.unwrap_or(SIZE_CODE_MIN).min(SIZE_CODE_MAX));
        let answered = match (answer.preferred, answer.code) {
            (Some(units), _) if units > 0 => (units as usize).saturating_mul(UNIT),
            (_, Some(code)) => 1 << code.clamp(SIZE_CODE_MIN, SIZE_CODE_MAX),
            (_, None) => TPDU_BYTES_UNSAID,
        };
        answered.min(offered).clamp(TPDU_BYTES_MIN, TPDU_BYTES_MAX)
    }

    fn write(self, out: &mut Vec<u8>) {
        if let Some(code) = self.code {
            out.extend([SIZE, 1, code]);
        }
        if let Some(units) = self.preferred {
            let [_, _, high, low] = units.to_be_bytes();
            out.extend([PREFERRED, 2, high, low]);
        }
    }
}

/// CR: connection request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionRequest {
    /// The caller's reference, which every answer repeats.
    pub source: u16,
    /// Class 0 is proposed, or an alternative.
    pub is_class_0: bool,
    /// The called T-selector.
    pub called: Vec<u8>,
    /// Its own T-selector.
    pub calling: Vec<u8>,
    /// Of the TPDUs.
    pub size: TpduSize,
}

/// CC: the call is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confirm {
    /// The reference in CR.
    pub destination: u16,
    /// The answerer's.
    pub source: u16,
    /// Class 0, as it must be.
    pub is_class_0: bool,
    /// The responding T-selector, if given.
    pub responding: Vec<u8>,
    /// Of the TPDUs.
    pub size: TpduSize,
}

/// DR: the connection is refused or over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disconnect {
    /// The destination reference.
    pub destination: u16,
    /// The source reference.
    pub source: u16,
    /// Why.
    pub reason: DisconnectReason,
    /// Text that some add.
    pub text: Vec<u8>,
}

/// Reason for refusing or ending a transport connection (X.224 §13.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DisconnectReason {
    /// 0
    Unspecified,
    /// 1
    Congestion,
    /// 2
    NotAttached,
    /// 3: unknown T-selector.
    AddressUnknown,
    /// 128: the session is over.
    Normal,
    /// 133
    ProtocolError,
    /// 136
    Refused,
    /// Any other.
    Other(u8),
}

impl DisconnectReason {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            DisconnectReason::Unspecified => 0,
            DisconnectReason::Congestion => 1,
            DisconnectReason::NotAttached => 2,
            DisconnectReason::AddressUnknown => 3,
            DisconnectReason::Normal => 128,
            DisconnectReason::ProtocolError => 133,
            DisconnectReason::Refused => 136,
            DisconnectReason::Other(code) => code,
        }
    }

    const fn from_code(code: u8) -> Self {
        match code {
            0 => DisconnectReason::Unspecified,
            1 => DisconnectReason::Congestion,
            2 => DisconnectReason::NotAttached,
            3 => DisconnectReason::AddressUnknown,
            128 => DisconnectReason::Normal,
            133 => DisconnectReason::ProtocolError,
            136 => DisconnectReason::Refused,
            other => DisconnectReason::Other(other),
        }
    }

    /// Another try may go better.
    #[must_use]
    pub const fn is_temporary(self) -> bool {
        matches!(
            self,
            DisconnectReason::Unspecified
                | DisconnectReason::Congestion
                | DisconnectReason::NotAttached
        )
    }
}

impl Tpdu {
    /// The TPDU with this code, header (after its length indicator) and user data; `None` if it is not of class 0 or
    /// malformed.
    #[must_use]
    pub fn parse(header: &[u8], user_data: &[u8]) -> Option<Tpdu> {
        let (&code, rest) = header.split_first()?;
        match (code & 0xF0, rest) {
            (0xE0, [_, _, s1, s2, class, parameters @ ..]) => {
                let found = Parameters::read(parameters)?;
                Some(Tpdu::Request(ConnectionRequest {
                    source: u16::from_be_bytes([*s1, *s2]),
                    is_class_0: class >> 4 == 0 || found.has_class_0,
                    called: found.called,
                    calling: found.calling,
                    size: found.size,
                }))
            }
            (0xD0, [d1, d2, s1, s2, class, parameters @ ..]) => {
                let found = Parameters::read(parameters)?;
                Some(Tpdu::Confirm(Confirm {
                    destination: u16::from_be_bytes([*d1, *d2]),
                    source: u16::from_be_bytes([*s1, *s2]),
                    is_class_0: class >> 4 == 0,
                    responding: found.called,
                    size: found.size,
                }))
            }
            (0x80, [d1, d2, s1, s2, reason, ..]) => Some(Tpdu::Disconnect(Disconnect {
                destination: u16::from_be_bytes([*d1, *d2]),
                source: u16::from_be_bytes([*s1, *s2]),
                reason: DisconnectReason::from_code(*reason),
                text: user_data.to_vec(),
            })),
            (0x70, [_, _, cause, ..]) => Some(Tpdu::Error(*cause)),
            _ => None,
        }
    }

    /// The TPDU in its TPKT.
    #[must_use]
    pub fn packet(&self) -> Vec<u8> {
        let mut header = Vec::with_capacity(48);
        match self {
            Tpdu::Request(request) => {
                let [s1, s2] = request.source.to_be_bytes();
                header.extend([0xE0, 0, 0, s1, s2, 0]);
                parameter(&mut header, CALLING, &request.calling);
                parameter(&mut header, CALLED, &request.called);
                request.size.write(&mut header);
            }
            Tpdu::Confirm(confirm) => {
                let ([d1, d2], [s1, s2]) =
                    (confirm.destination.to_be_bytes(), confirm.source.to_be_bytes());
                header.extend([0xD0, d1, d2, s1, s2, 0]);
                parameter(&mut header, CALLED, &confirm.responding);
                confirm.size.write(&mut header);
            }
            Tpdu::Disconnect(disconnect) => {
                let ([d1, d2], [s1, s2]) =
                    (disconnect.destination.to_be_bytes(), disconnect.source.to_be_bytes());
                header.extend([0x80, d1, d2, s1, s2, disconnect.reason.code()]);
            }
            Tpdu::Error(cause) => header.extend([0x70, 0, 0, *cause]),
        }
        let text: &[u8] =
            if let Tpdu::Disconnect(disconnect) = self { &disconnect.text } else { &[] };
        let mut packet = tpkt::header(1 + header.len() + text.len()).to_vec();
        packet.push(header.len() as u8);
        packet.extend(header);
        packet.extend(text);
        packet
    }
}

/// An empty selector is omitted.
fn parameter(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    if !value.is_empty() {
        out.extend([code, value.len() as u8]);
        out.extend(value);
    }
}

#[derive(Default)]
struct Parameters {
    called: Vec<u8>,
    calling: Vec<u8>,
    size: TpduSize,
    has_class_0: bool,
}

impl Parameters {
    /// Unknown ones are ignored (X.224 §13.2.3).
    fn read(mut octets: &[u8]) -> Option<Parameters> {
        let mut found = Parameters::default();
        while let [code, length, rest @ ..] = octets {
            let (value, behind) = rest.split_at_checked(usize::from(*length))?;
            octets = behind;
            match *code {
                CALLED => found.called = value.to_vec(),
                CALLING => found.calling = value.to_vec(),
                SIZE => found.size.code = value.first().copied(),
                PREFERRED if value.len() <= 4 => {
                    let units = value.iter().fold(0, |units, octet| units << 8 | u32::from(*octet));
                    found.size.preferred = Some(units);
                }
                ALTERNATIVES => found.has_class_0 = value.iter().any(|class| class >> 4 == 0),
                _ => {}
            }
        }
        octets.is_empty().then_some(found)
    }
}
