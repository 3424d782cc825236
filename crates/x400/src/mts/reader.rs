//! An MTS-APDU as it streams in, cut anywhere: first the envelope, then content octets that pass without being
//! kept.

use super::envelope::{EnvelopeKind, MESSAGE, PROBE, TransferEnvelope};
use super::report::{REPORT, ReportEnvelope};
use super::report_fields::ReportFields;
use super::{Broken, Limits};
use crate::ber::{Begin, NESTING_MAX, Skimmed, Skimmer, Tag};
use crate::decode::{DecodeError, Fault, InField};
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;
use std::fmt;

/// Output of a reader, in this order: one envelope, then content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApduEvent {
    /// The envelope of a message or a probe.
    Envelope {
        /// Its octets: a SET, or a probe's whole APDU. [`super::relay::relay`] changes them.
        octets: Bytes,
        /// The parsed envelope, or its readable part. The content follows in either case.
        envelope: Result<Box<TransferEnvelope>, Box<Broken>>,
        /// Length of the content, if known in advance; never for a probe.
        content_bytes: Option<u64>,
    },
    /// The envelope of a report. Its content is the SET that [`super::ReportContent::read`] takes.
    Report {
        /// Its octets: a SET.
        octets: Bytes,
        /// The parsed envelope.
        envelope: Result<Box<ReportEnvelope>, DecodeError>,
    },
    /// The next octets of the content: of a message those within the OCTET STRING, whether that came in segments or
    /// not.
    Content(Bytes),
}

/// The reason why a stream is not an APDU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadError {
    /// Part, error and position.
    pub error: DecodeError,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for ReadError {}

impl From<DecodeError> for ReadError {
    fn from(error: DecodeError) -> ReadError {
        ReadError { error }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ApduType {
    Message,
    Report,
    Probe,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Before or in the envelope.
    Envelope,
    /// Behind the envelope of a message or a report: its length waits for the content to begin.
    BetweenParts { octets: Bytes },
    /// In the content.
    Content,
    /// All was there.
    Done,
}

/// Reads one APDU. Pass it the input, take the events, and check completeness at the end.
#[derive(Clone, Debug)]
pub struct ApduReader {
    limits: Limits,
    skimmer: Skimmer,
    kind: Option<ApduType>,
    state: State,
    /// Octets of the envelope, or of a header that is cut.
    kept: BytesMut,
    events: VecDeque<ApduEvent>,
    content_bytes: u64,
    /// For a report, to check parts not read here.
    fields: ReportFields,
}

/// Minimum length of the pieces of a report's content, however small its elements are.
const PIECE_BYTES_MIN: usize = 4_096;

const FIELD: &str = "mts-apdu";

impl ApduReader {
    /// A reader at the start of an APDU.
    #[must_use]
    pub fn new(limits: Limits) -> ApduReader {
        ApduReader {
            limits,
            skimmer: Skimmer::new(2),
            kind: None,
            state: State::Envelope,
            kept: BytesMut::new(),
            events: VecDeque::new(),
            content_bytes: 0,
            fields: ReportFields::default(),
        }
    }

    /// Handles the next octets.
    ///
    /// # Errors
    /// Returns an error if they are not an APDU, or if its envelope is too long. The reader is then unusable. The
    /// events contain the content of a report as far as received, including all of this input.
    pub fn handle_input(&mut self, input: &Bytes) -> Result<(), ReadError> {
        let mut offset = 0;
        let read = self.read(input, &mut offset);
        if read.is_err() && self.passes_raw() {
            self.flush();
            self.push_content(input.slice(offset.min(input.len())..));
        }
        read
    }

    fn read(&mut self, input: &Bytes, offset: &mut usize) -> Result<(), ReadError> {
        loop {
            let rest = input.get(*offset..).unwrap_or_default();
            let step = self.skimmer.step(rest).field(FIELD)?;
            let taken = input.slice(*offset..(*offset + step.consumed).min(input.len()));
            *offset += step.consumed;
            match step.what {
                Skimmed::NeedInput => {
                    self.keep(&taken, true)?;
                    return Ok(());
                }
                Skimmed::Begin(begin) => {
                    self.keep(&taken, true)?;
                    self.begin(&begin)?;
                }
                Skimmed::Octets => self.octets(taken)?,
                Skimmed::End { depth, .. } => {
                    // The end of the APDU is kept only for a probe, which has no separate envelope.
                    if depth > 1 || self.kind == Some(ApduType::Probe) {
                        self.keep(&taken, false)?;
                    }
                    self.end(depth)?;
                }
            }
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<ApduEvent> {
        self.events.pop_front()
    }

    /// Number of content octets so far.
    #[must_use]
    pub fn content_bytes(&self) -> u64 {
        self.content_bytes
    }

    /// Returns true if the APDU was complete, or all of a report's content, even a malformed one.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// The stream ends here.
    ///
    /// # Errors
    /// It was not the whole APDU.
    pub fn finish(&self) -> Result<(), ReadError> {
        self.skimmer.finish().field(FIELD)?;
        match self.state {
            State::Done => Ok(()),
            State::Envelope | State::BetweenParts { .. } | State::Content => {
                Err(Fault::Missing.of(self.part(), self.skimmer.at()).into())
            }
        }
    }

    /// The next part, for errors.
    fn part(&self) -> &'static str {
        match self.state {
            State::Envelope => "envelope",
            State::BetweenParts { .. } | State::Content => "content",
            State::Done => FIELD,
        }
    }

    /// Returns true if content octets are passed unchanged, including headers.
    fn passes_raw(&self) -> bool {
        self.kind == Some(ApduType::Report) && self.state == State::Content
    }

    /// Keeps octets of headers and ends, where they are wanted.
    fn keep(&mut self, octets: &Bytes, is_header: bool) -> Result<(), ReadError> {
        if octets.is_empty() {
            return Ok(());
        }
        match self.state {
            State::Envelope => self.keep_envelope(octets),
            // The header of a report's content belongs to the content; it may come in pieces.
            State::BetweenParts { .. } => {
                if is_header {
                    self.kept.extend_from_slice(octets);
                }
                Ok(())
            }
            // Inner headers belong to it too, but a cut one may still be the end of the APDU.
            State::Content => {
                if self.passes_raw() {
                    self.kept.extend_from_slice(octets);
                    self.fields.keep(octets);
                }
                Ok(())
            }
            State::Done => Ok(()),
        }
    }

    fn keep_envelope(&mut self, octets: &Bytes) -> Result<(), ReadError> {
        if self.kept.len() + octets.len() > self.limits.envelope_bytes_max {
            let at = self.skimmer.at();
            return Err(Fault::TooLong(self.limits.envelope_bytes_max).of("envelope", at).into());
        }
        self.kept.extend_from_slice(octets);
        Ok(())
    }

    fn begin(&mut self, begin: &Begin) -> Result<(), ReadError> {
        match begin.depth {
            1 => self.begin_apdu(begin),
            2 if self.kind != Some(ApduType::Probe) => self.begin_part(begin),
            2 => Ok(()),
            _ if self.kind == Some(ApduType::Report) => {
                Ok(self.fields.begin(begin, &self.limits)?)
            }
            // A segment of the content, or the string that has segments in it.
            _ if begin.tag == Tag::OCTET_STRING => Ok(()),
            _ => Err(Fault::Unknown.of("content", begin.at).into()),
        }
    }

    fn begin_apdu(&mut self, begin: &Begin) -> Result<(), ReadError> {
        if self.kind.is_some() {
            return Err(Fault::Unknown.of("a second mts-apdu", begin.at).into());
        }
        self.kind = Some(match begin.tag {
            MESSAGE => ApduType::Message,
            REPORT => ApduType::Report,
            PROBE => ApduType::Probe,
            _ => return Err(Fault::Unknown.of(FIELD, begin.at).into()),
        });
        if !begin.constructed {
            return Err(Fault::Value("not constructed").of(FIELD, begin.at).into());
        }
        if self.kind != Some(ApduType::Probe) {
            self.kept.clear();
        }
        Ok(())
    }

    fn begin_part(&mut self, begin: &Begin) -> Result<(), ReadError> {
        let is_right = match (&self.state, self.kind) {
            (State::Envelope, _) | (_, Some(ApduType::Report)) => {
                begin.tag == Tag::SET && begin.constructed
            }
            _ => begin.tag == Tag::OCTET_STRING,
        };
        if !is_right {
            return Err(Fault::Unknown.of(self.part(), begin.at).into());
        }
        match std::mem::replace(&mut self.state, State::Content) {
            State::Envelope => {
                self.state = State::Envelope;
                Ok(())
            }
            State::BetweenParts { octets } => {
                self.announce(octets, begin.length);
                let header = self.kept.split().freeze();
                if self.kind == Some(ApduType::Report) {
                    self.push_content(header);
                    self.skimmer.set_levels(NESTING_MAX);
                } else if begin.constructed {
                    self.skimmer.set_levels(NESTING_MAX);
                }
                Ok(())
            }
            State::Content | State::Done => Err(Fault::Unknown.of(FIELD, begin.at).into()),
        }
    }

    fn octets(&mut self, octets: Bytes) -> Result<(), ReadError> {
        match self.state {
            State::Envelope => self.keep_envelope(&octets),
            State::Content if self.passes_raw() => {
                if octets.len() < PIECE_BYTES_MIN && self.kept.len() < PIECE_BYTES_MIN {
                    self.kept.extend_from_slice(&octets);
                } else {
                    self.flush();
                    self.push_content(octets.clone());
                }
                Ok(self.fields.octets(&octets, &self.limits)?)
            }
            State::Content => {
                self.push_content(octets);
                Ok(())
            }
            State::BetweenParts { .. } | State::Done => Ok(()),
        }
    }

    fn end(&mut self, depth: usize) -> Result<(), ReadError> {
        match (depth, &self.state, self.kind) {
            (1, State::Envelope, Some(ApduType::Probe)) => {
                let octets = self.kept.split().freeze();
                let read = TransferEnvelope::read_strictly;
                let envelope = read(&octets, EnvelopeKind::Probe, &self.limits);
                let envelope = envelope.map(Box::new);
                self.events.push_back(ApduEvent::Envelope {
                    octets,
                    envelope,
                    content_bytes: None,
                });
                self.state = State::Done;
            }
            (2, State::Envelope, Some(ApduType::Message | ApduType::Report)) => {
                self.state = State::BetweenParts { octets: self.kept.split().freeze() };
            }
            (1, State::Content, _) => self.state = State::Done,
            (1, _, _) => return Err(Fault::Missing.of(self.part(), self.skimmer.at()).into()),
            (2, State::Content, Some(ApduType::Report)) => {
                self.flush();
                let checked = self.fields.finish(&self.limits);
                if checked.is_err() {
                    // It was complete, whatever its content.
                    self.state = State::Done;
                }
                checked?;
            }
            (_, State::Content, Some(ApduType::Report)) => self.fields.end(depth),
            // The content of a message, or a segment.
            _ => {}
        }
        Ok(())
    }

    fn announce(&mut self, octets: Bytes, content_bytes: Option<u64>) {
        let event = if self.kind == Some(ApduType::Report) {
            let envelope = ReportEnvelope::read_strictly(&octets).map(Box::new);
            ApduEvent::Report { octets, envelope }
        } else {
            let read = TransferEnvelope::read_strictly;
            let envelope = read(&octets, EnvelopeKind::Message, &self.limits);
            ApduEvent::Envelope { octets, envelope: envelope.map(Box::new), content_bytes }
        };
        self.events.push_back(event);
    }

    /// Emits the kept octets of a report's content.
    fn flush(&mut self) {
        let octets = self.kept.split().freeze();
        self.push_content(octets);
    }

    fn push_content(&mut self, octets: Bytes) {
        if !octets.is_empty() {
            self.content_bytes = self.content_bytes.saturating_add(octets.len() as u64);
            self.events.push_back(ApduEvent::Content(octets));
        }
    }
}

/// Parses a complete APDU: its envelope event, and its joined content.
///
/// # Errors
/// Returns an error if it is not an APDU, or is followed by other octets.
pub fn read_whole(octets: &[u8], limits: Limits) -> Result<(ApduEvent, Bytes), ReadError> {
    let mut reader = ApduReader::new(limits);
    reader.handle_input(&Bytes::copy_from_slice(octets))?;
    reader.finish()?;
    let missing = Fault::Missing.of("envelope", 0);
    let first = reader.poll_event().ok_or(missing)?;
    let mut content = BytesMut::new();
    while let Some(event) = reader.poll_event() {
        if let ApduEvent::Content(octets) = event {
            content.extend_from_slice(&octets);
        }
    }
    Ok((first, content.freeze()))
}
