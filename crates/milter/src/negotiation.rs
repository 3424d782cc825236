//! What is negotiated when a connection begins: which moments a filter is told of, and what it may do.

use crate::moment::MilterEvent;
use crate::packet::{Data, Fault, put};
use std::collections::BTreeMap;

/// The version that is spoken.
pub const VERSION: u32 = 6;
/// The oldest that a filter may speak; it lacks moments and bits, and nothing means another thing in it.
const VERSION_MIN: u32 = 2;

/// The command of negotiation, both ways.
pub(crate) const NEGOTIATE: u8 = b'O';

/// What a filter may do (`SMFIF_…`).
pub(crate) mod action {
    pub(crate) const ADD_FIELDS: u32 = 0x1;
    pub(crate) const CHANGE_BODY: u32 = 0x2;
    pub(crate) const ADD_RECIPIENTS: u32 = 0x4;
    pub(crate) const REMOVE_RECIPIENTS: u32 = 0x8;
    pub(crate) const CHANGE_FIELDS: u32 = 0x10;
    pub(crate) const QUARANTINE: u32 = 0x20;
    pub(crate) const CHANGE_SENDER: u32 = 0x40;
    pub(crate) const ADD_RECIPIENTS_WITH_PARAMETERS: u32 = 0x80;
    pub(crate) const NAME_MACROS: u32 = 0x100;
    pub(crate) const ALL: u32 = 0x1ff;
}

/// The answer that skips the rest of a kind may be given.
const SKIP: u32 = 0x400;
/// Values of fields are told, and given, with the blank behind the colon.
const LEADING_SPACE: u32 = 0x10_0000;
/// Commands that are no SMTP are not told; we tell none.
const NO_UNKNOWN: u32 = 0x100;
const UNANSWERED_UNKNOWN: u32 = 0x2_0000;

/// All bits of the protocol that may be had here: those of moments, and those above. A filter can't ask
/// for recipients that were refused (0x800), nor for larger packets.
fn protocol_bits() -> u32 {
    const MOMENTS: [MilterEvent; 8] = [
        MilterEvent::Connect,
        MilterEvent::Helo,
        MilterEvent::Mail,
        MilterEvent::Rcpt,
        MilterEvent::Data,
        MilterEvent::Header,
        MilterEvent::EndOfHeader,
        MilterEvent::Body,
    ];
    let moments = MOMENTS.iter().map(|moment| moment.untold() | moment.unanswered());
    moments.fold(SKIP | LEADING_SPACE | NO_UNKNOWN | UNANSWERED_UNKNOWN, |bits, more| bits | more)
}

/// The packet that begins a connection.
pub fn offer(out: &mut Vec<u8>) {
    put(out, NEGOTIATE, |out| {
        for number in [VERSION, action::ALL, protocol_bits()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
}

/// What was agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    actions: u32,
    protocol: u32,
    /// Names of macros that the filter wants at a moment, in place of the usual ones.
    macros: BTreeMap<MilterEvent, String>,
}

impl Agreed {
    /// Reads the data of a filter's answer to our offer.
    ///
    /// # Errors
    /// It is none, or takes what was not offered.
    pub(crate) fn read(data: &[u8]) -> Result<Agreed, Fault> {
        let mut data = Data(data);
        let (version, actions, protocol) = (data.number()?, data.number()?, data.number()?);
        if !(VERSION_MIN..=VERSION).contains(&version) {
            return Err(Fault(format!("unsupported protocol version {version}").into()));
        }
        if actions & !action::ALL != 0 {
            return Err(Fault(format!("unsupported actions {actions:#x}").into()));
        }
        if protocol & !protocol_bits() != 0 {
            return Err(Fault(format!("unsupported protocol bits {protocol:#x}").into()));
        }
        let mut macros = BTreeMap::new();
        while !data.0.is_empty() {
            let (moment, names) = (data.number()?, data.text()?);
            let moment = MilterEvent::with_macros(moment)
                .filter(|_| actions & action::NAME_MACROS != 0)
                .ok_or(Fault::new("unavailable macros requested"))?;
            macros.insert(moment, String::from_utf8_lossy(names).into_owned());
        }
        Ok(Agreed { actions, protocol, macros })
    }

    /// Whether the filter is told of these moments.
    #[must_use]
    pub fn is_told(&self, moment: MilterEvent) -> bool {
        self.protocol & moment.untold() == 0
    }

    /// Whether it answers.
    pub(crate) fn answers(&self, moment: MilterEvent) -> bool {
        self.protocol & moment.unanswered() == 0
    }

    pub(crate) fn may_skip(&self) -> bool {
        self.protocol & SKIP != 0
    }

    /// Values of fields are told, and given, with the blank behind the colon.
    #[must_use]
    pub fn has_leading_space(&self) -> bool {
        self.protocol & LEADING_SPACE != 0
    }

    pub(crate) fn may(&self, action: u32) -> bool {
        self.actions & action != 0
    }

    /// Names of the macros that are told at a moment.
    pub(crate) fn macros(&self, moment: MilterEvent) -> &str {
        self.macros.get(&moment).map_or(moment.usual_macros(), String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(numbers: [u32; 3], macros: &[u8]) -> Result<Agreed, Fault> {
        let mut data: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        data.extend_from_slice(macros);
        Agreed::read(&data)
    }

    #[test]
    fn what_is_offered() {
        let mut out = Vec::new();
        offer(&mut out);
        // All of libmilter's but RCPT_REJ and the bits of larger packets.
        assert_eq!(out, b"\0\0\0\x0dO\0\0\0\x06\0\0\x01\xff\0\x1f\xf7\xff");
    }

    #[test]
    fn only_what_was_offered_is_agreed_on() {
        let agreed = answer([6, 0x13, 0x10_0481], b"").unwrap();
        assert!(!agreed.is_told(MilterEvent::Connect) && agreed.is_told(MilterEvent::Helo));
        assert!(!agreed.answers(MilterEvent::Header) && agreed.answers(MilterEvent::Body));
        assert!(agreed.may_skip() && agreed.has_leading_space());
        assert!(agreed.may(action::CHANGE_BODY) && !agreed.may(action::QUARANTINE));
        assert_eq!(agreed.macros(MilterEvent::Data), "i");
        assert!(answer([2, 0, 0], b"").is_ok());
        for bad in [[1, 0, 0], [7, 0, 0], [6, 0x200, 0], [6, 0, 0x800], [6, 0, 0x1000_0000]] {
            assert!(answer(bad, b"").is_err(), "{bad:?}");
        }
        assert!(Agreed::read(&[0; 11]).is_err());
    }

    #[test]
    fn macros_are_named_by_those_that_may() {
        let named = b"\0\0\0\x02i {auth_authen}\0\0\0\0\x04\0";
        let agreed = answer([6, 0x100, 0], named).unwrap();
        assert_eq!(agreed.macros(MilterEvent::Mail), "i {auth_authen}");
        assert_eq!(
            (agreed.macros(MilterEvent::Data), agreed.macros(MilterEvent::EndOfBody)),
            ("", "i")
        );
        assert!(answer([6, 0, 0], named).is_err());
        for bad in [&b"\0\0\0\x09x\0"[..], b"\0\0\0\x02x", b"\0\0"] {
            assert!(answer([6, 0x100, 0], bad).is_err(), "{bad:?}");
        }
    }
}
