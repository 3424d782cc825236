//! Removes the framing of an APDU that comes in pieces: user data and OCTET STRING of each slice (RTTR), then the
//! EXTERNAL around all slices.

use crate::ber::{Begin, BerError, NESTING_MAX, SkimStep, Skimmed, Skimmer, Tag};
use crate::presentation::USER_DATA;
use bytes::Bytes;
use std::fmt;

/// The data is not an APDU transferred by RTSE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnwrapError {
    /// No BER.
    Ber(BerError),
    /// An element that doesn't belong there.
    Element {
        /// It.
        tag: Tag,
        /// Start of the element in its slice, or in all slices together.
        at: u64,
    },
    /// A value in another context than the one agreed.
    Context(i64),
}

impl From<BerError> for UnwrapError {
    fn from(error: BerError) -> Self {
        UnwrapError::Ber(error)
    }
}

impl fmt::Display for UnwrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnwrapError::Ber(error) => error.fmt(f),
            UnwrapError::Element { tag, at } => {
                write!(f, "{tag} doesn't belong there (octet {at})")
            }
            UnwrapError::Context(id) => write!(f, "a value in context {id}"),
        }
    }
}

impl std::error::Error for UnwrapError {}

/// Meaning of the octets of the open primitive element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    Nothing,
    ContextId,
    Content,
}

/// A context's number, received in pieces.
#[derive(Clone, Copy, Debug, Default)]
struct ContextId {
    value: i64,
    bytes: usize,
}

impl ContextId {
    fn push(&mut self, octets: &[u8]) {
        for octet in octets {
            self.value = self.value << 8 | i64::from(*octet);
            self.bytes = self.bytes.saturating_add(1);
        }
    }

    /// False for numbers that cannot be an agreed context.
    fn is(self, wanted: i64) -> bool {
        self.bytes > 0 && self.bytes <= 7 && self.value == wanted
    }
}

/// Reads the user information of one DATA: finds the octets of RTTR.
#[derive(Clone, Debug)]
pub struct RttrReader {
    skimmer: Skimmer,
    context: i64,
    id: ContextId,
    role: Role,
}

impl RttrReader {
    /// Values must be in this context.
    #[must_use]
    pub fn new(rtse_context: i64) -> Self {
        let (id, role) = (ContextId::default(), Role::Nothing);
        RttrReader { skimmer: Skimmer::new(NESTING_MAX), context: rtse_context, id, role }
    }

    /// Takes the next octets from the front of the input; `None` if used up.
    ///
    /// # Errors
    /// Returns an error if it is not an RTTR.
    pub fn read(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, UnwrapError> {
        loop {
            let SkimStep { consumed, what } = self.skimmer.step(input)?;
            let octets = input.split_to(consumed.min(input.len()));
            match what {
                Skimmed::NeedInput => return Ok(None),
                Skimmed::End { .. } => {}
                Skimmed::Begin(begin) => self.begin(begin)?,
                Skimmed::Octets => match self.role {
                    Role::Nothing => {}
                    Role::ContextId => self.id.push(&octets),
                    Role::Content => return Ok(Some(octets)),
                },
            }
        }
    }

    /// The DATA ends here.
    ///
    /// # Errors
    /// It must not.
    pub fn finish(&self) -> Result<(), UnwrapError> {
        Ok(self.skimmer.finish()?)
    }

    fn begin(&mut self, begin: Begin) -> Result<(), UnwrapError> {
        let wrong = UnwrapError::Element { tag: begin.tag, at: begin.at };
        let fits = match begin.depth {
            1 => begin.tag == USER_DATA && begin.constructed,
            2 => begin.tag == Tag::SEQUENCE && begin.constructed,
            3 if begin.tag == Tag::INTEGER => !begin.constructed,
            // transfer-syntax-name
            3 if begin.tag == Tag::OID => !begin.constructed,
            3 => begin.tag == Tag::context(0) && begin.constructed,
            _ => begin.tag == Tag::OCTET_STRING,
        };
        if !fits {
            return Err(wrong);
        }
        if begin.depth == 3 && begin.constructed && !self.id.is(self.context) {
            return Err(UnwrapError::Context(self.id.value));
        }
        if begin.depth == 2 {
            self.id = ContextId::default();
        }
        self.role = match begin.depth {
            3 if begin.tag == Tag::INTEGER => Role::ContextId,
            depth if depth > 3 && !begin.constructed => Role::Content,
            _ => Role::Nothing,
        };
        Ok(())
    }
}

/// Reads the slices together: finds the APDU in its EXTERNAL.
///
/// The APDU's own encoding may be broken: that is for the MTA to report, not for RTSE, or the peer would
/// send it for ever. So from the APDU's first octet on nothing is an error; where its end can't be found
/// any more, everything to the end of the activity passes for it.
#[derive(Clone, Debug)]
pub struct ApduUnwrapper {
    skimmer: Skimmer,
    context: i64,
    id: ContextId,
    role: Role,
    place: ExternalPosition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExternalPosition {
    /// Before the APDU.
    Front,
    /// In [0]; the skimmer searches its contents for the end.
    Apdu,
    /// In [1], or in its segments.
    Octets,
    /// In an APDU that is broken.
    Broken,
    /// After the APDU.
    Behind,
}

impl ApduUnwrapper {
    /// The APDU must be in this context, if the EXTERNAL names one.
    #[must_use]
    pub fn new(mtse_context: i64) -> Self {
        ApduUnwrapper {
            skimmer: Skimmer::around(2, 2),
            context: mtse_context,
            id: ContextId::default(),
            role: Role::Nothing,
            place: ExternalPosition::Front,
        }
    }

    /// Takes the next octets of the APDU from the front of the input; `None` if used up.
    ///
    /// # Errors
    /// Returns an error if it is not an EXTERNAL with an APDU.
    pub fn read(&mut self, input: &mut Bytes) -> Result<Option<Bytes>, UnwrapError> {
        loop {
            if self.place == ExternalPosition::Broken {
                let octets = input.split_to(input.len());
                return Ok((!octets.is_empty()).then_some(octets));
            }
            if self.place == ExternalPosition::Behind {
                input.clear();
                return Ok(None);
            }
            let holds_zero = self.skimmer.holds_zero();
            let step = match self.skimmer.step(input) {
                Ok(step) => step,
                Err(_) if self.place == ExternalPosition::Apdu => {
                    self.place = ExternalPosition::Broken;
                    if holds_zero {
                        return Ok(Some(Bytes::from_static(&[0])));
                    }
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let octets = input.split_to(step.consumed.min(input.len()));
            match step.what {
                Skimmed::NeedInput => return Ok(None),
                Skimmed::Begin(begin) => self.begin(begin)?,
                Skimmed::End { depth, .. } if depth == 1 || self.has_apdu_ended(depth) => {
                    self.place = ExternalPosition::Behind;
                }
                Skimmed::End { .. } => {}
                Skimmed::Octets => match self.role {
                    Role::Nothing => {}
                    Role::ContextId => self.id.push(&octets),
                    Role::Content => return Ok(Some(octets)),
                },
            }
        }
    }

    fn has_apdu_ended(&self, depth: usize) -> bool {
        depth == 2 && matches!(self.place, ExternalPosition::Apdu | ExternalPosition::Octets)
    }

    fn begin(&mut self, begin: Begin) -> Result<(), UnwrapError> {
        let wrong = UnwrapError::Element { tag: begin.tag, at: begin.at };
        if self.place == ExternalPosition::Octets {
            if !begin.constructed {
                self.role = Role::Content;
            }
            return if begin.tag == Tag::OCTET_STRING { Ok(()) } else { Err(wrong) };
        }
        if begin.depth == 1 {
            let is_external = begin.tag == Tag::EXTERNAL && begin.constructed;
            return if is_external { Ok(()) } else { Err(wrong) };
        }
        self.role = Role::Nothing;
        let is_apdu = begin.tag == Tag::context(0) && begin.constructed;
        if is_apdu || begin.tag == Tag::context(1) {
            if self.id.bytes > 0 && !self.id.is(self.context) {
                return Err(UnwrapError::Context(self.id.value));
            }
            self.place = if is_apdu { ExternalPosition::Apdu } else { ExternalPosition::Octets };
            if is_apdu || !begin.constructed {
                self.role = Role::Content;
            } else {
                self.skimmer.set_levels(NESTING_MAX);
            }
            return Ok(());
        }
        if begin.tag == Tag::INTEGER && !begin.constructed {
            self.role = Role::ContextId;
            return Ok(());
        }
        // direct-reference, data-value-descriptor
        if begin.tag == Tag::OID || begin.tag == Tag::universal(7) { Ok(()) } else { Err(wrong) }
    }
}
