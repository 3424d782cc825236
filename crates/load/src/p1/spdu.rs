//! Session PDUs (X.225), as far as RTSE uses them.

/// Identifiers of SPDUs that are written here (X.225 §8).
pub(super) const CONNECT: u8 = 13;
pub(super) const ACCEPT: u8 = 14;
pub(super) const REFUSE: u8 = 12;
pub(super) const FINISH: u8 = 9;
pub(super) const DISCONNECT: u8 = 10;
pub(super) const ABORT: u8 = 25;
pub(super) const ABORT_ACCEPT: u8 = 26;
pub(super) const GIVE_TOKENS_CONFIRM: u8 = 21;
pub(super) const GIVE_TOKENS_ACK: u8 = 22;
pub(super) const ACTIVITY_START: u8 = 45;
pub(super) const ACTIVITY_END: u8 = 41;
pub(super) const ACTIVITY_END_ACK: u8 = 42;
pub(super) const MINOR: u8 = 49;
pub(super) const MINOR_ACK: u8 = 50;
pub(super) const DISCARD: u8 = 57;
pub(super) const DISCARD_ACK: u8 = 58;
pub(super) const INTERRUPT_ACK: u8 = 26;
pub(super) const EXCEPTION_DATA: u8 = 48;

/// Parameters (X.225 §8.3).
pub(super) const CONNECTION_ID: u8 = 1;
pub(super) const CALLED_REFERENCE: u8 = 9;
pub(super) const CALLING_REFERENCE: u8 = 10;
pub(super) const COMMON_REFERENCE: u8 = 11;
pub(super) const CONNECT_ITEM: u8 = 5;
pub(super) const OPTIONS: u8 = 19;
pub(super) const VERSION: u8 = 22;
pub(super) const TOKEN_SETTING: u8 = 26;
pub(super) const TRANSPORT_DISCONNECT: u8 = 17;
pub(super) const REQUIREMENTS: u8 = 20;
pub(super) const ACTIVITY: u8 = 41;
pub(super) const SERIAL: u8 = 42;
pub(super) const REASON: u8 = 50;
pub(super) const CALLED_SELECTOR: u8 = 52;
pub(super) const USER_DATA: u8 = 193;
const LINK: u8 = 33;
const USER_DATA_EXTENDED: u8 = 194;

/// GT and PT without a token item, which go before SPDUs of category 2 (X.225 §6.3.7).
pub(super) const GT: [u8; 2] = [1, 0];
pub(super) const PT: [u8; 2] = [2, 0];
/// DT behind its GT; the user information follows.
pub(super) const DT: [u8; 2] = [1, 0];

/// What an SPDU is: its identifier, read by where it stands (X.225 §8.2, tables 7 and 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SpduKind {
    Connect,
    Accept,
    Refuse,
    Finish,
    Disconnect,
    Abort,
    AbortAccept,
    GiveTokens,
    PleaseTokens,
    GiveTokensConfirm,
    GiveTokensAck,
    Data,
    ActivityStart,
    ActivityResume,
    ActivityEnd,
    ActivityEndAck,
    Minor,
    MinorAck,
    Interrupt,
    InterruptAck,
    Discard,
    DiscardAck,
    ExceptionReport,
    ExceptionData,
}

/// An SPDU with its parameters, and the user information of DT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spdu<'a> {
    pub(super) kind: SpduKind,
    parameters: &'a [u8],
    pub(super) data: &'a [u8],
}

impl<'a> Spdu<'a> {
    /// Reads what a TSDU says: the one SPDU of it that is alone, or behind GT or PT.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn read(tsdu: &'a [u8]) -> Result<Spdu<'a>, String> {
        let (identifier, parameters, rest) = first(tsdu)?;
        let is_concatenated = matches!(identifier, 1 | 2) && !rest.is_empty();
        if !is_concatenated {
            let kind = alone(identifier).ok_or_else(|| format!("SPDU {identifier} by itself"))?;
            return Ok(Spdu { kind, parameters, data: rest });
        }
        let (identifier, parameters, data) = first(rest)?;
        let kind = second(identifier)
            .ok_or_else(|| format!("SPDU {identifier} behind that which handles tokens"))?;
        if kind != SpduKind::Data && !data.is_empty() {
            return Err("SPDUs in an extended concatenation, which was not agreed upon".to_owned());
        }
        Ok(Spdu { kind, parameters, data })
    }

    /// A parameter's value; those of a group are found, too.
    pub(super) fn parameter(&self, code: u8) -> Option<&'a [u8]> {
        find(self.parameters, code)
    }

    /// User data, of either length.
    pub(super) fn user_data(&self) -> &'a [u8] {
        let found = self.parameter(USER_DATA).or_else(|| self.parameter(USER_DATA_EXTENDED));
        found.unwrap_or_default()
    }

    /// A number of one octet.
    pub(super) fn octet(&self, code: u8) -> Option<u8> {
        self.parameter(code)?.first().copied()
    }

    /// A serial number: decimal digits.
    pub(super) fn serial(&self) -> Option<u32> {
        std::str::from_utf8(self.parameter(SERIAL)?).ok()?.parse().ok()
    }
}

fn alone(identifier: u8) -> Option<SpduKind> {
    Some(match identifier {
        CONNECT => SpduKind::Connect,
        ACCEPT => SpduKind::Accept,
        REFUSE => SpduKind::Refuse,
        FINISH => SpduKind::Finish,
        DISCONNECT => SpduKind::Disconnect,
        ABORT => SpduKind::Abort,
        ABORT_ACCEPT => SpduKind::AbortAccept,
        1 => SpduKind::GiveTokens,
        2 => SpduKind::PleaseTokens,
        GIVE_TOKENS_CONFIRM => SpduKind::GiveTokensConfirm,
        GIVE_TOKENS_ACK => SpduKind::GiveTokensAck,
        _ => return None,
    })
}

fn second(identifier: u8) -> Option<SpduKind> {
    Some(match identifier {
        1 => SpduKind::Data,
        ACTIVITY_START => SpduKind::ActivityStart,
        29 => SpduKind::ActivityResume,
        ACTIVITY_END => SpduKind::ActivityEnd,
        ACTIVITY_END_ACK => SpduKind::ActivityEndAck,
        MINOR => SpduKind::Minor,
        MINOR_ACK => SpduKind::MinorAck,
        25 => SpduKind::Interrupt,
        INTERRUPT_ACK => SpduKind::InterruptAck,
        DISCARD => SpduKind::Discard,
        DISCARD_ACK => SpduKind::DiscardAck,
        0 => SpduKind::ExceptionReport,
        EXCEPTION_DATA => SpduKind::ExceptionData,
        _ => return None,
    })
}

/// Identifier (or a parameter's code), contents, and what is behind.
fn first(bytes: &[u8]) -> Result<(u8, &[u8], &[u8]), String> {
    let read = || {
        let (length, rest) = match *bytes.get(1)? {
            255 => (u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]).into(), bytes.get(4..)?),
            short => (usize::from(short), bytes.get(2..)?),
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        Some((*bytes.first()?, contents, rest))
    };
    read().ok_or_else(|| "an SPDU that ends too early".to_owned())
}

fn find(mut parameters: &[u8], wanted: u8) -> Option<&[u8]> {
    while let Ok((code, value, rest)) = first(parameters) {
        if code == wanted {
            return Some(value);
        }
        if matches!(code, CONNECTION_ID | CONNECT_ITEM | LINK)
            && let Some(found) = find(value, wanted)
        {
            return Some(found);
        }
        parameters = rest;
    }
    None
}

fn push_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short @ 0..=254) => out.push(short),
        _ => {
            out.push(255);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
}

/// A parameter, or a group of such.
pub(super) fn parameter(code: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![code];
    push_length(&mut out, value.len());
    out.extend_from_slice(value);
    out
}

/// Appends an SPDU with these parameters.
pub(super) fn push(out: &mut Vec<u8>, identifier: u8, parameters: &[&[u8]]) {
    out.push(identifier);
    push_length(out, parameters.iter().map(|parameter| parameter.len()).sum());
    parameters.iter().for_each(|parameter| out.extend_from_slice(parameter));
}

/// An SPDU with these parameters, behind GT or PT or (`tokens` empty) alone.
pub(super) fn spdu(tokens: &[u8], identifier: u8, parameters: &[&[u8]]) -> Vec<u8> {
    let mut out = tokens.to_vec();
    push(&mut out, identifier, parameters);
    out
}

/// The parameter of a serial number.
pub(super) fn serial(number: u32) -> Vec<u8> {
    parameter(SERIAL, number.to_string().as_bytes())
}

/// The words for why a session is refused (X.225 §8.3.5).
pub(super) fn refusal_words(reason: u8) -> &'static str {
    match reason {
        0 => "refused by the user",
        1 => "congestion",
        2 => "refused by the user, with data",
        0x81 => "session selector unknown",
        0x82 => "no user at this selector",
        0x83 => "congestion of the session layer",
        0x84 => "version of the session protocol",
        0x86 => "restriction of the implementation",
        _ => "another reason",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(hex: &str) -> Vec<u8> {
        let digits = hex.as_bytes().chunks(2);
        digits
            .map(|two| u8::from_str_radix(std::str::from_utf8(two).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn an_identifier_is_read_by_where_it_stands() {
        for (hex, kind) in [
            ("01002d052903020101", SpduKind::ActivityStart),
            ("010001006103", SpduKind::Data),
            ("010031032a0131", SpduKind::Minor),
            ("020032032a0131", SpduKind::MinorAck),
            ("010029032a0132", SpduKind::ActivityEnd),
            ("02002a032a0132", SpduKind::ActivityEndAck),
            ("0200300332 0105", SpduKind::ExceptionData),
            ("01003903320105", SpduKind::Discard),
            ("02003a00", SpduKind::DiscardAck),
            ("01001903320101", SpduKind::Interrupt),
            ("02001a00", SpduKind::InterruptAck),
            ("1903110105", SpduKind::Abort),
            ("1a00", SpduKind::AbortAccept),
            ("1500", SpduKind::GiveTokensConfirm),
            ("1600", SpduKind::GiveTokensAck),
            ("0100", SpduKind::GiveTokens),
            ("0211100101c10c610a3008020103a003020100", SpduKind::PleaseTokens),
            ("0903110101", SpduKind::Finish),
            ("0a00", SpduKind::Disconnect),
        ] {
            let bytes = octets(&hex.replace(' ', ""));
            assert_eq!(Spdu::read(&bytes).map(|spdu| spdu.kind), Ok(kind), "{hex}");
        }
        for bad in ["", "0d", "0d05", "2900", "0100ff00", "010029032a0131020000", "0100 0d00"] {
            let bytes = octets(&bad.replace(' ', ""));
            assert!(Spdu::read(&bytes).is_err(), "{bad}");
        }
    }

    #[test]
    fn parameters_are_found_in_their_groups() {
        let ping = "0d5b01170a041402766d0b0f170d3933313132383233323630395a050f130100150407f907f91601031a01\
                    0014020249c12b3129a003800100a12280013f820100a317a015a1138006612e74657374a109160773656372\
                    657461840101";
        let bytes = octets(ping);
        let spdu = Spdu::read(&bytes).unwrap();
        assert_eq!(spdu.kind, SpduKind::Connect);
        assert_eq!(spdu.parameter(CALLING_REFERENCE), Some(&[0x14, 2, b'v', b'm'][..]));
        assert_eq!(
            (spdu.octet(VERSION), spdu.parameter(REQUIREMENTS)),
            (Some(3), Some(&[2, 0x49][..]))
        );
        assert_eq!(spdu.user_data().len(), 43);
        assert_eq!(spdu.parameter(99), None);
        let end = spdu_of_serial(4711);
        assert_eq!(Spdu::read(&end).unwrap().serial(), Some(4711));
    }

    fn spdu_of_serial(number: u32) -> Vec<u8> {
        spdu(&GT, ACTIVITY_END, &[&serial(number)])
    }

    #[test]
    fn long_lengths_take_three_octets() {
        for length in [0, 254, 255, 256, 65_000] {
            let bytes = spdu(&[], CONNECT, &[&parameter(USER_DATA, &vec![1; length])]);
            let read = Spdu::read(&bytes).unwrap();
            assert_eq!(read.user_data().len(), length);
        }
    }
}
