//! TPKT: one TPDU per packet over TCP (RFC 1006 §6): version, a reserved octet, a length of two octets that
//! counts itself.

use std::fmt;

/// The octets before the TPDU.
pub const HEADER_BYTES: usize = 4;
/// The only version there is.
pub const VERSION: u8 = 3;
/// The shortest packet: a TPDU has a length indicator, a code and one octet more at least.
pub const PACKET_BYTES_MIN: usize = 7;
/// The longest packet.
pub const PACKET_BYTES_MAX: usize = 65_535;

/// An invalid header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpktError {
    /// Another version: a different protocol.
    Version(u8),
    /// A length that no TPDU has.
    Length(usize),
}

impl fmt::Display for TpktError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TpktError::Version(version) => write!(f, "TPKT version {version}"),
            TpktError::Length(bytes) => write!(f, "a TPKT of {bytes} octets"),
        }
    }
}

impl std::error::Error for TpktError {}

/// The octets of the TPDU behind this header. The reserved octet may be anything: there are MTAs that don't
/// set it to 0.
///
/// # Errors
/// It is no header.
pub const fn tpdu_bytes(header: [u8; HEADER_BYTES]) -> Result<usize, TpktError> {
    let [version, _reserved, high, low] = header;
    if version != VERSION {
        return Err(TpktError::Version(version));
    }
    let bytes = u16::from_be_bytes([high, low]) as usize;
    if bytes < PACKET_BYTES_MIN {
        return Err(TpktError::Length(bytes));
    }
    Ok(bytes - HEADER_BYTES)
}

/// The header before a TPDU of at most [`PACKET_BYTES_MAX`] − [`HEADER_BYTES`] octets.
#[must_use]
pub const fn header(tpdu_bytes: usize) -> [u8; HEADER_BYTES] {
    debug_assert!(tpdu_bytes <= PACKET_BYTES_MAX - HEADER_BYTES);
    let [high, low] = ((tpdu_bytes + HEADER_BYTES) as u16).to_be_bytes();
    [VERSION, 0, high, low]
}
