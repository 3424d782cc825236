//! Parser for HAProxy's PROXY protocol, versions 1 and 2: the header with the client's address at the start of a
//! proxied connection.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A header of version 1 with its CRLF (§2.1).
pub const V1_BYTES_MAX: usize = 107;
/// The shortest header is `PROXY UNKNOWN` and its CRLF.
const V1_BYTES_MIN: usize = 15;

/// Limit for the octets after the first sixteen of version 2: addresses and TLVs, which are ignored. The protocol
/// allows 65,535.
pub const V2_REST_BYTES_MAX: usize = 4_096;
/// Signature, version, command, family, length (§2.2).
const V2_HEAD_BYTES: usize = 16;
const V2_SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// The reason why a header is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// Neither version's signature.
    NoHeader,
    /// Longer than [`V1_BYTES_MAX`] or [`V2_REST_BYTES_MAX`].
    TooLong,
    /// Version 1: not a valid header line.
    BadLine,
    /// An invalid address or port.
    BadAddress,
    /// Version 2: an unknown version, command or family.
    BadHead,
    /// Version 2: shorter than the addresses that it must contain.
    TooShort,
}

impl ProxyHeaderError {
    /// For logs.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            ProxyHeaderError::NoHeader => "not a PROXY header",
            ProxyHeaderError::TooLong => "too long",
            ProxyHeaderError::BadLine => "not a version 1 line",
            ProxyHeaderError::BadAddress => "bad address or port",
            ProxyHeaderError::BadHead => "unknown version, command or address family",
            ProxyHeaderError::TooShort => "shorter than its addresses",
        }
    }
}

/// A complete header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// The client's address. `None` for LOCAL, UNKNOWN and families without an IP address.
    pub client: Option<SocketAddr>,
}

/// Incremental parser for one header. It consumes nothing beyond the header.
#[derive(Clone, Debug)]
pub struct ProxyHeader {
    /// The header so far: all of version 1, or version 2 without the skipped part.
    held: [u8; V1_BYTES_MAX],
    held_bytes: usize,
    /// Octets skipped after the addresses of version 2.
    passed_over: usize,
}

/// The next step of the parser.
enum ProxyHeaderStep {
    /// At least this many octets are needed.
    Held(usize),
    /// This many octets are skipped.
    PassedOver(usize),
    Done(Announced),
}

impl Default for ProxyHeader {
    fn default() -> ProxyHeader {
        ProxyHeader { held: [0; V1_BYTES_MAX], held_bytes: 0, passed_over: 0 }
    }
}

impl ProxyHeader {
    /// Minimum number of missing octets. A read of this size can't consume data after the header. 0 if the header is
    /// complete or invalid.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.next() {
            Ok(ProxyHeaderStep::Held(bytes) | ProxyHeaderStep::PassedOver(bytes)) => bytes,
            Ok(ProxyHeaderStep::Done(_)) | Err(_) => 0,
        }
    }

    /// Returns true if no octet has arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held_bytes == 0
    }

    /// Consumes header octets from the front of `input`. Returns `None` if the header is incomplete.
    ///
    /// # Errors
    /// The header is invalid.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Announced>, ProxyHeaderError> {
        loop {
            let next = self.next()?;
            let wanted = match next {
                ProxyHeaderStep::Done(announced) => return Ok(Some(announced)),
                ProxyHeaderStep::Held(bytes) | ProxyHeaderStep::PassedOver(bytes) => bytes,
            };
            let (taken, rest) = input.split_at(wanted.min(input.len()));
            if taken.is_empty() {
                return Ok(None);
            }
            if matches!(next, ProxyHeaderStep::PassedOver(_)) {
                self.passed_over += taken.len();
            } else {
                let end = self.held_bytes + taken.len();
                let place =
                    self.held.get_mut(self.held_bytes..end).ok_or(ProxyHeaderError::TooLong)?;
                place.copy_from_slice(taken);
                self.held_bytes = end;
            }
            *input = rest;
        }
    }

    fn next(&self) -> Result<ProxyHeaderStep, ProxyHeaderError> {
        let held = self.held.get(..self.held_bytes).unwrap_or_default();
        let begins_as = |start: &[u8]| held.iter().zip(start).all(|(held, start)| held == start);
        if begins_as(b"PROXY ") {
            version_1(held)
        } else if begins_as(&V2_SIGNATURE) {
            version_2(held, self.passed_over)
        } else {
            Err(ProxyHeaderError::NoHeader)
        }
    }
}

/// Version 1 (§2.1).
fn version_1(held: &[u8]) -> Result<ProxyHeaderStep, ProxyHeaderError> {
    if let Some(line) = held.strip_suffix(b"\r\n") {
        return Ok(ProxyHeaderStep::Done(Announced { client: client_of_line(line)? }));
    }
    if held.contains(&b'\n') {
        return Err(ProxyHeaderError::BadLine);
    }
    match V1_BYTES_MAX - held.len() {
        0 => Err(ProxyHeaderError::TooLong),
        room => Ok(ProxyHeaderStep::Held(missing_of_line(held).min(room))),
    }
}

/// Minimum number of octets missing in a valid line with this start.
fn missing_of_line(held: &[u8]) -> usize {
    if held.len() < V1_BYTES_MIN {
        return V1_BYTES_MIN - held.len();
    }
    let line_end = if held.ends_with(b"\r") { 1 } else { 2 };
    let mut words = held.split(|byte| *byte == b' ');
    let address = match words.nth(1) {
        Some(b"TCP4") => "1.1.1.1".len(),
        Some(b"TCP6") => "::".len(),
        _ => return line_end,
    };
    let written: Vec<&[u8]> = words.collect();
    // Minimum lengths of source, destination and their ports.
    let least = [address, address, 1, 1];
    let missing = |(at, least): (usize, usize)| match written.get(at) {
        Some(word) => least.saturating_sub(word.len()),
        None => 1 + least,
    };
    least.into_iter().enumerate().map(missing).sum::<usize>() + line_end
}

fn client_of_line(line: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    let line = std::str::from_utf8(line).map_err(|_| ProxyHeaderError::BadLine)?;
    let mut words = line.split(' ').skip(1);
    let family = words.next().ok_or(ProxyHeaderError::BadLine)?;
    if family == "UNKNOWN" {
        // The rest of an UNKNOWN line is ignored (§2.1).
        return Ok(None);
    }
    let [source, destination, source_port, destination_port] =
        <[&str; 4]>::try_from(words.collect::<Vec<_>>()).map_err(|_| ProxyHeaderError::BadLine)?;
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    if !matches!(family, "TCP4" | "TCP6") {
        return Err(ProxyHeaderError::BadLine);
    }
    let client = || {
        address(destination).zip(port(destination_port))?;
        Some(SocketAddr::new(address(source)?, port(source_port)?))
    };
    client().map(Some).ok_or(ProxyHeaderError::BadAddress)
}

/// Digits without leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    if is_plain || text == "0" { text.parse().ok() } else { None }
}

/// Version 2 (§2.2).
fn version_2(held: &[u8], passed_over: usize) -> Result<ProxyHeaderStep, ProxyHeaderError> {
    let Some(&[.., version_and_command, family, high, low]) = held.first_chunk::<V2_HEAD_BYTES>()
    else {
        return Ok(ProxyHeaderStep::Held(V2_HEAD_BYTES - held.len()));
    };
    let is_local = match version_and_command {
        0x20 => true,
        0x21 => false,
        _ => return Err(ProxyHeaderError::BadHead),
    };
    let length = usize::from(u16::from_be_bytes([high, low]));
    if length > V2_REST_BYTES_MAX {
        return Err(ProxyHeaderError::TooLong);
    }
    let address_bytes = match family {
        // The addresses and family of a LOCAL command are ignored (§2.2).
        _ if is_local => 0,
        // Unspecified, or a Unix socket on the proxy's host.
        0x00 | 0x31 => 0,
        0x11 => 12,
        0x21 => 36,
        _ => return Err(ProxyHeaderError::BadHead),
    };
    let left = length.checked_sub(address_bytes).ok_or(ProxyHeaderError::TooShort)?;
    let addresses = held.get(V2_HEAD_BYTES..).unwrap_or_default();
    if addresses.len() < address_bytes {
        return Ok(ProxyHeaderStep::Held(address_bytes - addresses.len()));
    }
    match left.saturating_sub(passed_over) {
        0 => Ok(ProxyHeaderStep::Done(Announced { client: client_of_addresses(addresses) })),
        more => Ok(ProxyHeaderStep::PassedOver(more)),
    }
}

/// Source, destination and their ports. `None` without addresses.
fn client_of_addresses(addresses: &[u8]) -> Option<SocketAddr> {
    let port = |at: usize| {
        let port = addresses.get(at..)?.first_chunk::<2>()?;
        Some(u16::from_be_bytes(*port))
    };
    match addresses.len() {
        12 => Some(SocketAddr::new((*addresses.first_chunk::<4>()?).into(), port(8)?)),
        36 => Some(SocketAddr::new((*addresses.first_chunk::<16>()?).into(), port(32)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a header comes to, however it is cut, and that it takes nothing of what follows it, also
    /// when only as much is read as is wanted.
    fn read(header: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
        let whole = [header, b"EHLO client.test\r\n"].concat();
        let mut outcomes = Vec::new();
        for piece in [1, 2, 15, 16, 17, whole.len()] {
            let (mut reader, mut rest) = (ProxyHeader::default(), &whole[..]);
            let outcome = loop {
                let mut input = &rest[..piece.min(rest.len())];
                let before = input.len();
                match reader.take(&mut input) {
                    Ok(Some(announced)) => {
                        rest = &rest[before - input.len()..];
                        assert_eq!(rest, b"EHLO client.test\r\n", "in pieces of {piece}");
                        break Ok(announced.client);
                    }
                    Ok(None) => rest = &rest[before..],
                    Err(mistake) => break Err(mistake),
                }
            };
            outcomes.push(outcome);
        }
        assert!(outcomes.iter().all(|outcome| outcome.is_ok() == outcomes[0].is_ok()));
        let mut reader = ProxyHeader::default();
        let mut at = 0;
        while reader.wanted() > 0 {
            let mut input = &whole[at..whole.len().min(at + reader.wanted())];
            at += input.len();
            let done = reader.take(&mut input);
            assert!(input.is_empty() || done.is_err(), "it wanted more than it took");
        }
        assert!(outcomes[0].is_err() || at == header.len(), "it wanted what follows");
        outcomes.pop().unwrap()
    }

    fn v2(command: u8, family: u8, length: u16, rest: &[u8]) -> Vec<u8> {
        let head = [0x20 | command, family];
        [&V2_SIGNATURE[..], &head, &length.to_be_bytes(), rest].concat()
    }

    const V4: [u8; 12] = [192, 0, 2, 17, 10, 0, 0, 1, 0xd4, 0x31, 0, 25];

    fn v6() -> [u8; 36] {
        let mut addresses = [0; 36];
        addresses[..4].copy_from_slice(&[0x20, 1, 0x0d, 0xb8]);
        addresses[15] = 9;
        addresses[32..34].copy_from_slice(&[1, 2]);
        addresses
    }

    #[test]
    fn version_1_names_the_client() {
        for (line, client) in [
            ("PROXY TCP4 192.0.2.17 10.0.0.1 54321 25", Some("192.0.2.17:54321")),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1", Some("1.1.1.1:1")),
            (
                "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535",
                Some("255.255.255.255:65535"),
            ),
            ("PROXY TCP6 :: :: 0 0", Some("[::]:0")),
            ("PROXY TCP6 2001:db8::9 2001:db8::1 4711 587", Some("[2001:db8::9]:4711")),
            ("PROXY UNKNOWN", None),
            ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535", None),
        ] {
            let found = read(format!("{line}\r\n").as_bytes());
            assert_eq!(found, Ok(client.map(|client| client.parse().unwrap())), "{line}");
        }
    }

    #[test]
    fn version_1_is_taken_by_the_letter() {
        for (line, mistake) in [
            ("EHLO client.test\r\n", ProxyHeaderError::NoHeader),
            ("proxy TCP4 1.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::NoHeader),
            ("PROXYTCP4 1.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::NoHeader),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1\n", ProxyHeaderError::BadLine),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1\r\n", ProxyHeaderError::BadLine),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 1 1\r\n", ProxyHeaderError::BadLine),
            ("PROXY TCP4  1.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadLine),
            ("PROXY TCP5 1.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadLine),
            ("PROXY UNKNOWNX 1.1.1.1\r\n", ProxyHeaderError::BadLine),
            ("PROXY \r\n", ProxyHeaderError::BadLine),
            ("PROXY TCP4 \u{e9}.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 999.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 01.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 2001:db8::1 ::1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP6 1.1.1.1 1.1.1.1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 1.1.1.1 host.test 1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 65536 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 +1 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 01 1\r\n", ProxyHeaderError::BadAddress),
            ("PROXY TCP4 1.1.1.1 1.1.1.1 1 -1\r\n", ProxyHeaderError::BadAddress),
        ] {
            assert_eq!(read(line.as_bytes()), Err(mistake), "{line:?}");
        }
    }

    #[test]
    fn version_1_has_107_octets_at_most() {
        let line = |bytes: usize| format!("PROXY UNKNOWN {}\r\n", "x".repeat(bytes - 16));
        assert_eq!(read(line(V1_BYTES_MAX).as_bytes()), Ok(None));
        assert_eq!(read(line(V1_BYTES_MAX + 1).as_bytes()), Err(ProxyHeaderError::TooLong));
    }

    #[test]
    fn version_2_names_the_client_and_what_follows_is_passed_over() {
        let v4 = Ok(Some("192.0.2.17:54321".parse().unwrap()));
        assert_eq!(read(&v2(1, 0x11, 12, &V4)), v4);
        let with_tlv = [&V4[..], &[0x04, 0, 3, 0, 0, 0], b"\r\n"].concat();
        assert_eq!(read(&v2(1, 0x11, 20, &with_tlv)), v4);
        let v6 = v6();
        assert_eq!(read(&v2(1, 0x21, 36, &v6)), Ok(Some("[2001:db8::9]:258".parse().unwrap())));
        assert_eq!(read(&v2(1, 0x31, 216, &[b'/'; 216])), Ok(None), "a Unix socket");
        assert_eq!(read(&v2(1, 0x00, 0, b"")), Ok(None), "unspecified");
        // The proxy's own connection, whatever it says of addresses.
        assert_eq!(read(&v2(0, 0x00, 0, b"")), Ok(None));
        assert_eq!(read(&v2(0, 0x11, 12, &V4)), Ok(None));
        assert_eq!(read(&v2(0, 0xff, 5, b"12345")), Ok(None));
    }

    #[test]
    fn what_follows_the_addresses_may_be_anything() {
        let tlv = |kind: u8, value: &[u8]| {
            let length = u16::try_from(value.len()).unwrap().to_be_bytes();
            [&[kind], &length[..], value].concat()
        };
        let of_tls =
            [&[1, 0, 0, 0, 0][..], &tlv(0x21, b"TLSv1.3"), &tlv(0x25, b"RSA4096")].concat();
        let kinds = [
            tlv(0x01, b"h2"),
            tlv(0x02, b"mx.test"),
            tlv(0x03, &[0x54, 0xfd, 0xc6, 0xff]),
            tlv(0x04, &[0; 40]),
            tlv(0x05, &[7; 128]),
            tlv(0x20, &of_tls),
            tlv(0x30, b"blue"),
            tlv(0xea, b"\x01vpce-1"),
            tlv(0xee, &[0xff; 30]),
            // One whose value does not come.
            vec![0x02, 0, 80, b'a'],
        ];
        let all: Vec<u8> = kinds.concat();
        for rest in kinds.iter().chain([&all]) {
            let read = |command, family, addresses: &[u8]| {
                let behind = [addresses, rest].concat();
                read(&v2(command, family, u16::try_from(behind.len()).unwrap(), &behind))
            };
            assert_eq!(read(1, 0x11, &V4), Ok(Some("192.0.2.17:54321".parse().unwrap())));
            assert_eq!(read(1, 0x21, &v6()), Ok(Some("[2001:db8::9]:258".parse().unwrap())));
            assert_eq!(read(1, 0x00, b""), Ok(None), "unspecified");
            assert_eq!(read(0, 0x11, &V4), Ok(None), "the proxy itself");
        }
    }

    #[test]
    fn version_2_is_taken_by_the_letter() {
        assert_eq!(read(&v2(2, 0x11, 12, &V4)), Err(ProxyHeaderError::BadHead));
        let other_version = [&V2_SIGNATURE[..], &[0x31, 0x11, 0, 12], &V4].concat();
        assert_eq!(read(&other_version), Err(ProxyHeaderError::BadHead));
        for family in [0x01, 0x10, 0x12, 0x22, 0x32, 0x41, 0xff] {
            assert_eq!(
                read(&v2(1, family, 12, &V4)),
                Err(ProxyHeaderError::BadHead),
                "{family:#x}"
            );
        }
        assert_eq!(read(&v2(1, 0x11, 11, &V4)), Err(ProxyHeaderError::TooShort));
        assert_eq!(read(&v2(1, 0x21, 35, &v6())), Err(ProxyHeaderError::TooShort));
    }

    #[test]
    fn version_2_has_4096_octets_behind_its_head_at_most() {
        let of = |bytes: usize| {
            let rest = [&V4[..], &vec![0; bytes - 12]].concat();
            read(&v2(1, 0x11, u16::try_from(bytes).unwrap(), &rest)).is_ok()
        };
        assert!(of(V2_REST_BYTES_MAX) && !of(V2_REST_BYTES_MAX + 1));
    }
}
