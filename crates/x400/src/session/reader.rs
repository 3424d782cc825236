//! Parsing of SPDUs in TSDUs that come in pieces (X.225 §6.3.7, basic concatenation).

use super::{SPDU_BYTES_MAX, SessionError, Spdu, parameters, parse, si};
use bytes::Bytes;

/// An item of input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionItem {
    /// An SPDU other than DATA; or please-tokens before a second SPDU.
    Spdu(Spdu),
    /// The next octets of user information.
    Data {
        /// These.
        octets: Bytes,
        /// They end the SSDU.
        is_last: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SpduPosition {
    /// Before the first SPDU, or in it.
    #[default]
    First,
    /// After GIVE TOKENS or PLEASE TOKENS.
    Second,
    /// After an SPDU that must be the last.
    End,
    /// In the user information of DATA.
    Data,
}

/// Reads TSDUs one after another; holds one SPDU at most.
#[derive(Clone, Debug, Default)]
pub struct TsduReader {
    place: SpduPosition,
    buffer: Vec<u8>,
    /// An SPDU that is alone or first, until known.
    held: Option<Spdu>,
    /// DATA that ends its SSDU.
    ends_ssdu: bool,
    /// An SSDU is open, to be continued by further DATA.
    is_ssdu_open: bool,
}

impl TsduReader {
    /// Returns true if a later DATA must continue the data.
    #[must_use]
    pub const fn is_ssdu_open(&self) -> bool {
        self.is_ssdu_open
    }

    /// Between two TSDUs.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.place == SpduPosition::First && self.buffer.is_empty()
    }

    /// Takes octets for the next item from the front of a piece of a TSDU (`is_last` if the piece ends the TSDU). Call
    /// it again with the rest, even if empty, until it returns `None`, or until a last piece is used up and the reader
    /// is idle.
    ///
    /// # Errors
    /// Returns an error if the peer violates the protocol. The reader is then unusable.
    pub fn read(
        &mut self,
        input: &mut Bytes,
        is_last: bool,
    ) -> Result<Option<SessionItem>, SessionError> {
        loop {
            match self.place {
                SpduPosition::Data => return Ok(self.data(input, is_last)),
                SpduPosition::End if !input.is_empty() => {
                    let si = input.first().copied().unwrap_or(0);
                    return Err(SessionError::Concatenation(si));
                }
                SpduPosition::End => return Ok(if is_last { self.end() } else { None }),
                SpduPosition::First | SpduPosition::Second => {}
            }
            if self.place == SpduPosition::Second && self.buffer.is_empty() && input.is_empty() {
                return Ok(if is_last { self.end() } else { None });
            }
            if !self.gather(input)? {
                return if is_last { Err(SessionError::Cut) } else { Ok(None) };
            }
            if let Some(asked) = self.spdu()? {
                return Ok(Some(SessionItem::Spdu(asked)));
            }
        }
    }

    fn data(&mut self, input: &mut Bytes, is_last: bool) -> Option<SessionItem> {
        let octets = input.split_to(input.len());
        let is_ssdu_end = is_last && self.ends_ssdu;
        if is_last {
            self.is_ssdu_open = !self.ends_ssdu;
            self.place = SpduPosition::First;
        }
        (is_ssdu_end || !octets.is_empty())
            .then_some(SessionItem::Data { octets, is_last: is_ssdu_end })
    }

    /// The TSDU ends after an SPDU other than DATA.
    fn end(&mut self) -> Option<SessionItem> {
        self.place = SpduPosition::First;
        self.held.take().map(SessionItem::Spdu)
    }

    /// Returns true if an SPDU without user information is complete in the buffer.
    fn gather(&mut self, input: &mut Bytes) -> Result<bool, SessionError> {
        loop {
            let wanted = match self.buffer.as_slice() {
                [_, 0xFF, high, low, ..] => 4 + usize::from(u16::from_be_bytes([*high, *low])),
                [_, 0xFF, ..] => 4,
                [_, length, ..] => 2 + usize::from(*length),
                [_] | [] => 2,
            };
            if wanted > SPDU_BYTES_MAX {
                return Err(SessionError::TooLong);
            }
            let has_length = !matches!(self.buffer.as_slice(), [] | [_] | [_, 0xFF] | [_, 0xFF, _]);
            if has_length && self.buffer.len() >= wanted {
                return Ok(true);
            }
            if input.is_empty() {
                return Ok(false);
            }
            let octets = input.split_to((wanted - self.buffer.len()).min(input.len()));
            self.buffer.extend_from_slice(&octets);
        }
    }

    /// Parses the SPDU in the buffer. Returns the one before it, if that has an effect.
    fn spdu(&mut self) -> Result<Option<Spdu>, SessionError> {
        let buffer = std::mem::take(&mut self.buffer);
        let Some((&si, rest)) = buffer.split_first() else { return Err(SessionError::Cut) };
        let Some((_, octets)) = parameters::length(rest) else { return Err(SessionError::Cut) };
        if self.place == SpduPosition::First {
            let spdu = parse::first(si, octets)?;
            let is_category_0 = matches!(spdu, Spdu::GiveTokens { .. } | Spdu::PleaseTokens { .. });
            self.place = if is_category_0 { SpduPosition::Second } else { SpduPosition::End };
            self.held = Some(spdu);
            return Ok(None);
        }
        let before = self.held.take();
        let gives = matches!(before, Some(Spdu::GiveTokens { .. }));
        if si == si::GIVE_TOKENS_OR_DATA {
            if !gives {
                return Err(SessionError::Concatenation(si));
            }
            let (begins, ends) = parse::enclosure(octets)?;
            if begins == self.is_ssdu_open {
                return Err(SessionError::Enclosure);
            }
            self.ends_ssdu = ends;
            self.place = SpduPosition::Data;
            return Ok(None);
        }
        let spdu = parse::second(si, octets)?;
        // AI and AIA are distinguished from AB and AA by the preceding SPDU, which must be the right one.
        let is_wrong = if gives {
            matches!(spdu, Spdu::ActivityInterruptAck)
        } else {
            matches!(spdu, Spdu::ActivityInterrupt(_))
        };
        if is_wrong {
            return Err(SessionError::Concatenation(si));
        }
        self.held = Some(spdu);
        self.place = SpduPosition::End;
        Ok(before.filter(|spdu| matches!(spdu, Spdu::PleaseTokens { tokens, .. } if *tokens != 0)))
    }
}
