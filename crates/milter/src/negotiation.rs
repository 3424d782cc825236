//! Negotiation at the start of a connection: the events for a filter, and its permitted actions.

use crate::moment::MilterEvent;
use crate::packet::{Data, Fault, put};
use std::collections::BTreeMap;

/// Version of the protocol that is offered.
pub const VERSION: u32 = 6;
/// Oldest version accepted from a filter; it has fewer events and bits, with the same meanings.
const VERSION_MIN: u32 = 2;

/// The command of negotiation, in both directions.
pub(crate) const NEGOTIATE: u8 = b'O';

/// Actions of a filter (`SMFIF_…`).
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

/// The response "skip" is permitted.
const SKIP: u32 = 0x400;
/// Values of fields include the blank after the colon, in both directions.
const LEADING_SPACE: u32 = 0x10_0000;
/// Unknown SMTP commands are no event; this server sends none.
const NO_UNKNOWN: u32 = 0x100;
const UNANSWERED_UNKNOWN: u32 = 0x2_0000;

/// All supported protocol bits: those of events, and those above. Refused recipients (0x800) and larger
/// packets are not supported.
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

/// Writes the first packet of a connection.
pub fn offer(out: &mut Vec<u8>) {
    put(out, NEGOTIATE, |out| {
        for number in [VERSION, action::ALL, protocol_bits()] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    });
}

/// The negotiated options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    actions: u32,
    protocol: u32,
    /// Macro lists that the filter requests, in place of the default ones.
    macros: BTreeMap<MilterEvent, String>,
}

impl Agreed {
    /// Reads the data of a filter's response to the offer.
    ///
    /// # Errors
    /// The response is malformed, or selects options that were not offered.
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

    /// Returns true if the filter gets this event.
    #[must_use]
    pub fn is_told(&self, moment: MilterEvent) -> bool {
        self.protocol & moment.untold() == 0
    }

    /// Returns true if the event has a response.
    pub(crate) fn answers(&self, moment: MilterEvent) -> bool {
        self.protocol & moment.unanswered() == 0
    }

    pub(crate) fn may_skip(&self) -> bool {
        self.protocol & SKIP != 0
    }

    /// Returns true if values of fields include the blank after the colon, in both directions.
    #[must_use]
    pub fn has_leading_space(&self) -> bool {
        self.protocol & LEADING_SPACE != 0
    }

    pub(crate) fn may(&self, action: u32) -> bool {
        self.actions & action != 0
    }

    /// Names of the macros of an event.
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
