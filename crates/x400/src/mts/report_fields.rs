//! Check of a passing report content: all fields are kept for the check, except for the returned content.

use super::Limits;
use super::report::ReportContent;
use crate::ber::{Begin, Tag, is_string_tag};
use crate::decode::{DecodeError, Fault};
use bytes::BytesMut;

const FIELD: &str = "report-content";
/// X.411, ReportTransferContent: the content of the subject message.
const RETURNED_CONTENT: Tag = Tag::context(1);
/// The depth of the fields: below the APDU and the SET.
const FIELDS_DEPTH: usize = 3;

/// The kept fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReportFields {
    kept: BytesMut,
    /// Octets of a header, or of the end of an element, that may be cut.
    head: BytesMut,
    /// Within the returned content.
    passes: bool,
}

impl ReportFields {
    /// Octets of a header, or of an end.
    pub(super) fn keep(&mut self, octets: &[u8]) {
        self.head.extend_from_slice(octets);
    }

    /// An element begins; its header was kept.
    pub(super) fn begin(&mut self, begin: &Begin, limits: &Limits) -> Result<(), DecodeError> {
        let head = self.head.split();
        if begin.depth == FIELDS_DEPTH && begin.tag == RETURNED_CONTENT {
            self.passes = true;
            return Ok(());
        }
        if self.passes {
            // It is an OCTET STRING, in segments.
            let is_segment = is_string_tag(begin.tag);
            let unknown = Fault::Unknown.of("returned-content", begin.at);
            return if is_segment { Ok(()) } else { Err(unknown) };
        }
        self.push(&head, limits)
    }

    /// Octets of the element that began last.
    pub(super) fn octets(&mut self, octets: &[u8], limits: &Limits) -> Result<(), DecodeError> {
        if self.passes { Ok(()) } else { self.push(octets, limits) }
    }

    /// An element ends; its end-of-contents octets were kept, if any.
    pub(super) fn end(&mut self, depth: usize) {
        let head = self.head.split();
        if !self.passes {
            self.kept.extend_from_slice(&head);
        } else if depth == FIELDS_DEPTH {
            self.passes = false;
        }
    }

    fn push(&mut self, octets: &[u8], limits: &Limits) -> Result<(), DecodeError> {
        if self.kept.len() + octets.len() > limits.envelope_bytes_max {
            let at = self.kept.len() as u64;
            return Err(Fault::TooLong(limits.envelope_bytes_max).of(FIELD, at));
        }
        self.kept.extend_from_slice(octets);
        Ok(())
    }

    /// The content is complete.
    pub(super) fn finish(&mut self, limits: &Limits) -> Result<(), DecodeError> {
        self.head.clear();
        ReportContent::check(&self.kept.split(), limits)
    }
}
