//! TPKTs (RFC 1006) and class 0 of the transport protocol (X.224).

/// The longest TPDU that a TPKT can carry (RFC 1006 §6: 65,535 octets with its header).
pub(super) const TPDU_BYTES_MAX: usize = 65_531;
/// The largest size that can be said by the preferred maximum: 511 times 128 octets (X.224 §13.3.4).
pub(super) const TPDU_BYTES_PREFERRED_MAX: u32 = 65_408;
/// The largest size that class 0 can say by a code: 0x0b, 2,048 octets (X.224 §13.3.4).
const TPDU_BYTES_CODED_MAX: u32 = 2048;
/// TPKT header, then length indicator, code and EOT of DT.
const DATA_HEADER_BYTES: usize = 7;
/// Of DT alone.
const DT_BYTES: usize = 3;

const CR: u8 = 0xe0;
const CC: u8 = 0xd0;
const DR: u8 = 0x80;
const DT: u8 = 0xf0;
const ER: u8 = 0x70;
const SIZE: u8 = 0xc0;
const CALLED: u8 = 0xc2;
const PREFERRED_MAX: u8 = 0xf0;
/// Our own reference in CR and CC: anything but 0.
const REFERENCE: [u8; 2] = [0x50, 0x31];

/// What has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framed {
    /// All input is used up.
    Input,
    /// [`Frames::tsdu`] is whole.
    Tsdu,
    /// [`Frames::control`] is whole: a TPDU other than DT.
    Control,
}

/// Takes TPKTs apart.
#[derive(Debug)]
pub(super) struct Frames {
    /// Header of the present TPKT; of one without data, all of it.
    head: Vec<u8>,
    /// Of the present DT.
    body_left: usize,
    in_body: bool,
    is_last: bool,
    tsdu: Vec<u8>,
    tsdu_bytes_max: usize,
    told: Framed,
}

impl Frames {
    /// A longer TSDU is an error.
    pub(super) fn new(tsdu_bytes_max: usize) -> Frames {
        Frames {
            head: Vec::new(),
            body_left: 0,
            in_body: false,
            is_last: false,
            tsdu: Vec::new(),
            tsdu_bytes_max,
            told: Framed::Input,
        }
    }

    pub(super) fn tsdu(&self) -> &[u8] {
        &self.tsdu
    }

    /// Behind the TPKT's header.
    pub(super) fn control(&self) -> &[u8] {
        self.head.get(4..).unwrap_or_default()
    }

    /// Takes input up to the end of a TSDU or of another TPDU: so many octets were used.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn advance(&mut self, mut input: &[u8]) -> Result<(usize, Framed), String> {
        let before = input.len();
        match std::mem::replace(&mut self.told, Framed::Input) {
            Framed::Tsdu => self.tsdu.clear(),
            Framed::Control => self.head.clear(),
            Framed::Input => {}
        }
        loop {
            if self.in_body {
                let (piece, rest) = input.split_at(self.body_left.min(input.len()));
                if self.tsdu.len() + piece.len() > self.tsdu_bytes_max {
                    return Err(format!("a TSDU of over {} octets", self.tsdu_bytes_max));
                }
                self.tsdu.extend_from_slice(piece);
                self.body_left -= piece.len();
                input = rest;
                if self.body_left > 0 {
                    return Ok((before, Framed::Input));
                }
                self.in_body = false;
                if self.is_last {
                    self.told = Framed::Tsdu;
                    return Ok((before - input.len(), Framed::Tsdu));
                }
            }
            let wanted = self.wanted()?;
            let (piece, rest) = input.split_at((wanted - self.head.len()).min(input.len()));
            self.head.extend_from_slice(piece);
            input = rest;
            if self.head.len() < wanted {
                return Ok((before, Framed::Input));
            }
            if self.handle_header()? {
                self.told = Framed::Control;
                return Ok((before - input.len(), Framed::Control));
            }
        }
    }

    /// The header is wanted up to this length.
    fn wanted(&self) -> Result<usize, String> {
        let &[version, _, high, low, ..] = self.head.as_slice() else { return Ok(4) };
        let length = usize::from(u16::from_be_bytes([high, low]));
        // The reserved octet is not looked at: some set it.
        if version != 3 || length < DATA_HEADER_BYTES {
            return Err(format!("TPKT of version {version} and length {length}"));
        }
        let is_data = self.head.get(5).is_none_or(|code| code & 0xf0 == DT);
        Ok(if is_data { DATA_HEADER_BYTES } else { length })
    }

    /// Whether a TPDU without data is whole.
    fn handle_header(&mut self) -> Result<bool, String> {
        let &[_, _, high, low, indicator, code, end] = self.head.as_slice() else {
            // Four octets, or a whole one that is no DT.
            return Ok(self.head.len() > 4);
        };
        if code & 0xf0 != DT {
            return Ok(usize::from(u16::from_be_bytes([high, low])) == DATA_HEADER_BYTES);
        }
        if indicator != 2 {
            return Err(format!("DT with a length indicator of {indicator}"));
        }
        self.body_left = usize::from(u16::from_be_bytes([high, low])) - DATA_HEADER_BYTES;
        self.is_last = end & 0x80 != 0;
        self.in_body = true;
        self.head.clear();
        Ok(false)
    }
}

/// Appends the header of a TPKT with DT that carries so many octets of a TSDU.
pub(super) fn push_data_header(out: &mut Vec<u8>, bytes: usize, is_last: bool) {
    let [high, low] = ((bytes + DATA_HEADER_BYTES) as u16).to_be_bytes();
    out.extend_from_slice(&[3, 0, high, low, 2, DT, if is_last { 0x80 } else { 0 }]);
}

/// Octets of a TSDU that fit into a TPDU of this size.
pub(super) fn payload_max(tpdu_bytes: usize) -> usize {
    tpdu_bytes.saturating_sub(DT_BYTES).max(1)
}

/// Appends a TSDU in as many TPDUs of this size as it takes.
pub(super) fn push_tsdu(out: &mut Vec<u8>, tsdu: &[u8], tpdu_bytes: usize) {
    let (mut rest, payload_max) = (tsdu, payload_max(tpdu_bytes));
    loop {
        let (piece, behind) = rest.split_at(payload_max.min(rest.len()));
        push_data_header(out, piece.len(), behind.is_empty());
        out.extend_from_slice(piece);
        rest = behind;
        if rest.is_empty() {
            return;
        }
    }
}

fn tpkt(code: u8, fixed: &[u8], variable: &[u8]) -> Vec<u8> {
    let indicator = 1 + fixed.len() + variable.len();
    let mut out = vec![3, 0, 0, (indicator + 5) as u8, indicator as u8, code];
    out.extend_from_slice(fixed);
    out.extend_from_slice(variable);
    out
}

fn parameter(out: &mut Vec<u8>, code: u8, value: &[u8]) {
    out.extend_from_slice(&[code, value.len() as u8]);
    out.extend_from_slice(value);
}

/// The code of the largest size up to this one, 128 octets at least.
fn size_code(bytes: u32) -> u8 {
    bytes.clamp(128, TPDU_BYTES_CODED_MAX).ilog2() as u8
}

/// CR to a selector (at most 32 octets) that proposes this size.
pub(super) fn connection_request(selector: &[u8], tpdu_bytes: u32) -> Vec<u8> {
    let mut variable = Vec::new();
    if !selector.is_empty() {
        parameter(&mut variable, CALLED, selector);
    }
    parameter(&mut variable, SIZE, &[size_code(tpdu_bytes)]);
    if tpdu_bytes > TPDU_BYTES_CODED_MAX {
        let [high, low] = ((tpdu_bytes / 128).min(511) as u16).to_be_bytes();
        parameter(&mut variable, PREFERRED_MAX, &[high, low]);
    }
    let [high, low] = REFERENCE;
    tpkt(CR, &[0, 0, high, low, 0], &variable)
}

/// A TPDU without data, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Control {
    Request { reference: [u8; 2], called: Vec<u8>, sizes: Sizes },
    Confirm { reference: [u8; 2], sizes: Sizes },
    Disconnect(String),
}

/// What CR or CC say of the size of TPDUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sizes {
    coded: Option<u32>,
    preferred: Option<u32>,
}

impl Sizes {
    /// The size that both may use: as an answer says it, or the largest that an answer to this request may
    /// say, of at most `own` octets. The preferred maximum, where it is said, is what counts (X.224 §6.5.4 k);
    /// without any size RFC 1006 §5 has the largest.
    fn agreed(self, own: u32) -> u32 {
        let said = self.preferred.or(self.coded).unwrap_or(TPDU_BYTES_MAX as u32);
        said.min(own)
    }
}

/// CC that answers a request, and the size that it says.
pub(super) fn connection_confirm(reference: [u8; 2], asked: Sizes, own_max: u32) -> (Vec<u8>, u32) {
    let mut variable = Vec::new();
    let agreed = match asked.preferred {
        Some(preferred) if preferred.min(own_max) > TPDU_BYTES_CODED_MAX => {
            let units = (preferred.min(own_max) / 128).min(511) as u16;
            parameter(&mut variable, PREFERRED_MAX, &units.to_be_bytes());
            u32::from(units) * 128
        }
        _ => {
            let code = size_code(Sizes { preferred: None, ..asked }.agreed(own_max));
            parameter(&mut variable, SIZE, &[code]);
            1 << code
        }
    };
    let ([a, b], [c, d]) = (reference, REFERENCE);
    (tpkt(CC, &[a, b, c, d, 0], &variable), agreed)
}

/// The size that a confirmation to a proposal leaves, in octets.
pub(super) fn confirmed_size(answer: Sizes, proposed: u32) -> u32 {
    answer.agreed(proposed).max(128)
}

/// DR; 128 is the normal end, 2 an unknown selector (X.224 §13.5).
pub(super) fn disconnect_request(reference: [u8; 2], reason: u8) -> Vec<u8> {
    let ([a, b], [c, d]) = (reference, REFERENCE);
    tpkt(DR, &[a, b, c, d, reason], &[])
}

/// Reads a TPDU other than DT.
///
/// # Errors
/// What is wrong with it.
pub(super) fn control(tpdu: &[u8]) -> Result<Control, String> {
    let short = || "a short TPDU".to_owned();
    let (&indicator, rest) = tpdu.split_first().ok_or_else(short)?;
    let (header, behind) = rest.split_at_checked(usize::from(indicator)).ok_or_else(short)?;
    if header.first().is_some_and(|code| code & 0xf0 == ER) {
        return Err("the peer found an error in our TPDUs (ER)".to_owned());
    }
    let &[code, _, _, c, d, last, ref variable @ ..] = header else { return Err(short()) };
    match code & 0xf0 {
        CR | CC => {
            let (mut called, mut sizes) = (Vec::new(), Sizes::default());
            let mut rest = variable;
            while let &[code, length, ref behind @ ..] = rest {
                let (value, behind) =
                    behind.split_at_checked(usize::from(length)).ok_or_else(short)?;
                rest = behind;
                match (code, value) {
                    (CALLED, selector) => called = selector.to_vec(),
                    (SIZE, &[size @ 7..=13]) => sizes.coded = Some(1 << size),
                    (PREFERRED_MAX, units) if units.len() <= 2 => {
                        let units =
                            units.iter().fold(0, |units, &octet| units * 256 + u32::from(octet));
                        sizes.preferred = (units > 0).then_some(units * 128);
                    }
                    _ => {}
                }
            }
            // The source's reference is what the answer carries as destination.
            Ok(match code & 0xf0 {
                CR => Control::Request { reference: [c, d], called, sizes },
                _ => Control::Confirm { reference: [c, d], sizes },
            })
        }
        DR => {
            let text = String::from_utf8_lossy(behind);
            let text = text.trim_matches(|c: char| c.is_control() || c.is_whitespace());
            let why = match last {
                0 => "no reason",
                1 => "congestion",
                2 => "no session entity at this selector",
                3 => "address unknown",
                128 => "normal end",
                129 => "congestion on the other side",
                133 => "protocol error",
                136 => "refused",
                _ => "another reason",
            };
            let colon = if text.is_empty() { "" } else { ": " };
            Ok(Control::Disconnect(format!("transport disconnected ({last}, {why}){colon}{text}")))
        }
        _ => Err(format!("TPDU {code:#04x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds pieces of this length; all TSDUs and other TPDUs in their order.
    fn all(input: &[u8], step: usize) -> Result<Vec<Vec<u8>>, String> {
        let mut frames = Frames::new(1000);
        let mut found = Vec::new();
        for mut piece in input.chunks(step) {
            while !piece.is_empty() {
                let (used, framed) = frames.advance(piece)?;
                piece = &piece[used..];
                match framed {
                    Framed::Input => {}
                    Framed::Tsdu => found.push(frames.tsdu().to_vec()),
                    Framed::Control => found.push(frames.control().to_vec()),
                }
            }
        }
        Ok(found)
    }

    #[test]
    fn tsdus_and_others_are_found_however_they_are_cut() {
        let mut input = connection_request(b"x400", 65_408);
        push_data_header(&mut input, 3, false);
        input.extend_from_slice(b"abc");
        push_data_header(&mut input, 0, false);
        push_tsdu(&mut input, b"de", 128);
        push_tsdu(&mut input, b"", 128);
        // An octet that is reserved and that some set.
        input.extend(
            disconnect_request([1, 2], 128)
                .iter()
                .enumerate()
                .map(|(n, &byte)| if n == 1 { 0x5a } else { byte }),
        );
        let whole = all(&input, input.len()).unwrap();
        assert_eq!(whole.len(), 4);
        assert_eq!((&whole[1][..], &whole[2][..]), (&b"abcde"[..], &b""[..]));
        for step in 1..input.len() {
            assert_eq!(all(&input, step).unwrap(), whole, "{step}");
        }
    }

    #[test]
    fn what_is_no_tpkt_or_too_long_is_an_error() {
        for bad in [&[2, 0, 0, 11][..], &[3, 0, 0, 6], &[3, 0, 0, 8, 3, 0xf0, 0x80]] {
            assert!(all(bad, 16).is_err(), "{bad:?}");
        }
        let tsdu = |bytes| {
            let mut out = Vec::new();
            push_tsdu(&mut out, &vec![0; bytes], 128);
            all(&out, 100)
        };
        assert!(tsdu(1000).is_ok() && tsdu(1001).is_err());
    }

    #[test]
    fn connection_requests_are_those_of_others() {
        let hex = "0300001813e0000050310 0c20878343030696e3838c0010b".replace(' ', "");
        let shown =
            |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        // PP's, with our reference.
        assert_eq!(shown(&connection_request(b"x400in88", 2048)), hex);
        let large = connection_request(b"", 65_408);
        assert_eq!(shown(&large), "030000120de00000503100c0010bf00201ff");
        let Ok(Control::Request { sizes, .. }) = control(&large[4..]) else { panic!() };
        assert_eq!((sizes.coded, sizes.preferred), (Some(2048), Some(65_408)));
    }

    #[test]
    fn the_size_is_agreed_upon() {
        let asked = |coded, preferred| Sizes { coded, preferred };
        for (request, own, agreed) in [
            (asked(Some(2048), Some(65_408)), 65_408, 65_408),
            (asked(Some(2048), Some(65_408)), 8192, 8192),
            (asked(Some(2048), Some(65_408)), 1024, 1024),
            (asked(Some(2048), None), 65_408, 2048),
            (asked(Some(128), None), 65_408, 128),
            (asked(None, None), 65_408, 2048),
        ] {
            let (confirm, size) = connection_confirm([9, 9], request, own);
            assert_eq!(size, agreed, "{request:?} {own}");
            let Ok(Control::Confirm { sizes, reference }) = control(&confirm[4..]) else {
                panic!()
            };
            assert_eq!((confirmed_size(sizes, 65_408), reference), (agreed, REFERENCE));
        }
        // What PP answers: a code; what says nothing has RFC 1006's size.
        assert_eq!(confirmed_size(asked(Some(2048), None), 65_408), 2048);
        assert_eq!(confirmed_size(Sizes::default(), 65_408), 65_408);
    }

    #[test]
    fn a_disconnect_says_why() {
        let text = b"\x06\x80\x12\x34\x76\xba\x80 PP service nosuch not found\0";
        let Ok(Control::Disconnect(why)) = control(text) else { panic!() };
        assert!(why.contains("128, normal end") && why.ends_with("nosuch not found"), "{why}");
        for bad in [&[][..], &[3], &[6, 0x80, 1, 2], &[6, 0x10, 0, 0, 0, 0, 0]] {
            assert!(control(bad).is_err(), "{bad:?}");
        }
    }
}
