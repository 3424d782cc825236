//! Parsing of TPDUs in a connection's input.

use super::Tpdu;
use crate::tpkt::{self, TpktError};
use bytes::Bytes;
use std::fmt;

/// A TPDU's header without its length indicator, which counts 254 at most; a CR or CC has 127.
pub const TPDU_HEADER_BYTES_MAX: usize = 254;
/// The user data of a TPDU other than DT; class 0 allows 32 or none, some send a sentence.
pub const USER_DATA_BYTES_MAX: usize = 512;

const DATA: u8 = 0xF0;
const END_OF_TSDU: u8 = 0x80;

/// An item of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TpduItem {
    /// A TPDU without data.
    Control(Tpdu),
    /// The next octets of a TSDU.
    Data {
        /// These.
        octets: Bytes,
        /// They end the TSDU.
        is_last: bool,
    },
}

/// A stream that is not class 0 over TPKT. No further communication is possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportError {
    /// No TPKT.
    Tpkt(TpktError),
    /// A length indicator of 0, 255, or beyond the packet.
    HeaderLength(u8),
    /// A TPDU that is malformed or not of class 0; its code.
    Tpdu(u8),
    /// More user data than [`USER_DATA_BYTES_MAX`].
    UserData(usize),
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TransportError::Tpkt(error) => error.fmt(f),
            TransportError::HeaderLength(length) => write!(f, "a TPDU header of {length} octets"),
            TransportError::Tpdu(code) => write!(f, "TPDU {code:#04x}"),
            TransportError::UserData(bytes) => write!(f, "a TPDU with {bytes} octets of user data"),
        }
    }
}

impl std::error::Error for TransportError {}

/// Position of the reader in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TpduPosition {
    /// In the TPKT's header and the TPDU's.
    Header,
    /// In the user data of a TPDU other than DT, with this many octets outstanding.
    UserData(usize),
    /// In a DT, with this many octets outstanding; true if they end the TSDU.
    Data(usize, bool),
}

/// Reads TPDUs from a stream that is cut anywhere; holds a header and a control TPDU's user data at most.
#[derive(Clone, Debug)]
pub struct TpduReader {
    place: TpduPosition,
    /// The TPKT's header, the length indicator and the TPDU's header, as far as they came.
    header: Vec<u8>,
    user_data: Vec<u8>,
}

impl Default for TpduReader {
    fn default() -> Self {
        TpduReader {
            place: TpduPosition::Header,
            header: Vec::with_capacity(16),
            user_data: Vec::new(),
        }
    }
}

impl TpduReader {
    /// Within no packet.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.place == TpduPosition::Header && self.header.is_empty()
    }

    /// Takes octets for the next item from the front of the input; `None` if used up.
    ///
    /// # Errors
    /// Returns an error if the stream is invalid.
    pub fn read(&mut self, input: &mut Bytes) -> Result<Option<TpduItem>, TransportError> {
        // A DT may be empty and not the last one: the octets after it have arrived then, too.
        while self.place != TpduPosition::Header || self.read_header(input)? {
            let item = match self.place {
                TpduPosition::Header => None,
                TpduPosition::Data(bytes, ends) => self.read_data(bytes, ends, input),
                TpduPosition::UserData(bytes) => self.read_user_data(bytes, input)?,
            };
            if item.is_some() || self.place != TpduPosition::Header {
                return Ok(item);
            }
        }
        Ok(None)
    }

    fn read_data(&mut self, bytes: usize, ends: bool, input: &mut Bytes) -> Option<TpduItem> {
        let octets = input.split_to(bytes.min(input.len()));
        let left = bytes - octets.len();
        if left == 0 {
            self.begin();
        } else {
            self.place = TpduPosition::Data(left, ends);
        }
        let is_last = ends && left == 0;
        (is_last || !octets.is_empty()).then_some(TpduItem::Data { octets, is_last })
    }

    fn read_user_data(
        &mut self,
        bytes: usize,
        input: &mut Bytes,
    ) -> Result<Option<TpduItem>, TransportError> {
        let octets = input.split_to(bytes.min(input.len()));
        self.user_data.extend_from_slice(&octets);
        if octets.len() < bytes {
            self.place = TpduPosition::UserData(bytes - octets.len());
            return Ok(None);
        }
        let header = self.header.get(tpkt::HEADER_BYTES + 1..).unwrap_or_default();
        let code = header.first().copied().unwrap_or(0);
        let tpdu = Tpdu::parse(header, &self.user_data).ok_or(TransportError::Tpdu(code))?;
        self.begin();
        Ok(Some(TpduItem::Control(tpdu)))
    }

    fn begin(&mut self) {
        self.place = TpduPosition::Header;
        self.header.clear();
        self.user_data = Vec::new();
    }

    /// Returns true if the headers are complete, after setting the next position.
    fn read_header(&mut self, input: &mut Bytes) -> Result<bool, TransportError> {
        loop {
            let wanted = self.header_bytes()?;
            if self.header.len() >= wanted && wanted > tpkt::HEADER_BYTES + 1 {
                break;
            }
            if input.is_empty() {
                return Ok(false);
            }
            let octets = input.split_to((wanted - self.header.len()).min(input.len()));
            self.header.extend_from_slice(&octets);
        }
        let Some((packet, tpdu)) = self.header.split_first_chunk::<{ tpkt::HEADER_BYTES }>() else {
            return Ok(false);
        };
        let behind =
            tpkt::tpdu_bytes(*packet).map_err(TransportError::Tpkt)?.saturating_sub(tpdu.len());
        self.place = match tpdu {
            [2, code, end] if *code & 0xF0 == DATA => {
                TpduPosition::Data(behind, end & END_OF_TSDU != 0)
            }
            [_, code, ..] if *code & 0xF0 == DATA => return Err(TransportError::Tpdu(*code)),
            _ if behind > USER_DATA_BYTES_MAX => return Err(TransportError::UserData(behind)),
            _ => TpduPosition::UserData(behind),
        };
        Ok(true)
    }

    /// Number of header octets, as far as known: first the TPKT's, then with the length indicator, then all.
    fn header_bytes(&self) -> Result<usize, TransportError> {
        let Some((packet, tpdu)) = self.header.split_first_chunk::<{ tpkt::HEADER_BYTES }>() else {
            return Ok(tpkt::HEADER_BYTES);
        };
        let tpdu_bytes = tpkt::tpdu_bytes(*packet).map_err(TransportError::Tpkt)?;
        let Some(&length) = tpdu.first() else { return Ok(tpkt::HEADER_BYTES + 1) };
        let bytes = usize::from(length);
        if bytes == 0 || bytes > TPDU_HEADER_BYTES_MAX || 1 + bytes > tpdu_bytes {
            return Err(TransportError::HeaderLength(length));
        }
        Ok(tpkt::HEADER_BYTES + 1 + bytes)
    }
}
