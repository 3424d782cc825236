//! Parameters: code, length, value (X.225 §8.2).

use super::{PARAMETERS_MAX, SessionError, pi};

/// The parameters of one SPDU, with grouped ones flattened: each code has one meaning.
#[derive(Debug)]
pub(super) struct Parameters<'a> {
    si: u8,
    found: Vec<(u8, &'a [u8])>,
}

/// Parses the length octets at the front; returns the length and the rest.
pub(super) fn length(octets: &[u8]) -> Option<(usize, &[u8])> {
    match octets {
        [0xFF, high, low, rest @ ..] => {
            Some((usize::from(u16::from_be_bytes([*high, *low])), rest))
        }
        [0xFF, ..] | [] => None,
        [length, rest @ ..] => Some((usize::from(*length), rest)),
    }
}

impl<'a> Parameters<'a> {
    /// Any order is taken.
    pub(super) fn read(si: u8, octets: &'a [u8]) -> Result<Self, SessionError> {
        let mut parameters = Parameters { si, found: Vec::with_capacity(8) };
        parameters.collect(octets, true)?;
        Ok(parameters)
    }

    fn collect(&mut self, mut octets: &'a [u8], may_nest: bool) -> Result<(), SessionError> {
        while let Some((&code, behind)) = octets.split_first() {
            let cut = SessionError::Parameter { si: self.si, pi: code };
            let (bytes, behind) = length(behind).ok_or(cut)?;
            let (value, rest) = behind.split_at_checked(bytes).ok_or(cut)?;
            octets = rest;
            if may_nest && matches!(code, pi::CONNECTION | pi::CONNECT_ITEM | pi::LINKING) {
                self.collect(value, false)?;
                continue;
            }
            if self.found.len() == PARAMETERS_MAX {
                return Err(SessionError::Parameters(self.si));
            }
            self.found.push((code, value));
        }
        Ok(())
    }

    pub(super) fn get(&self, wanted: u8) -> Option<&'a [u8]> {
        self.found.iter().find(|(code, _)| *code == wanted).map(|(_, value)| *value)
    }

    /// The octets, none if the parameter isn't there.
    pub(super) fn octets(&self, wanted: u8, bytes_max: usize) -> Result<Vec<u8>, SessionError> {
        let value = self.get(wanted).unwrap_or_default();
        if value.len() > bytes_max {
            return Err(SessionError::Parameter { si: self.si, pi: wanted });
        }
        Ok(value.to_vec())
    }

    /// One octet.
    pub(super) fn octet(&self, wanted: u8) -> Result<Option<u8>, SessionError> {
        match self.get(wanted) {
            None => Ok(None),
            Some([octet]) => Ok(Some(*octet)),
            Some(_) => Err(SessionError::Parameter { si: self.si, pi: wanted }),
        }
    }

    /// Two octets.
    pub(super) fn pair(&self, wanted: u8) -> Result<Option<u16>, SessionError> {
        match self.get(wanted) {
            None => Ok(None),
            Some([high, low]) => Ok(Some(u16::from_be_bytes([*high, *low]))),
            Some(_) => Err(SessionError::Parameter { si: self.si, pi: wanted }),
        }
    }

    /// User data in either form.
    pub(super) fn user_data(&self) -> Vec<u8> {
        let value = self.get(pi::USER_DATA).or_else(|| self.get(pi::EXTENDED_USER_DATA));
        value.unwrap_or_default().to_vec()
    }
}
