//! Encoding of content for a peer with fewer capabilities, as quoted-printable or base64 (RFC 2045 §6). It is needed
//! for 8-bit octets without 8BITMIME (RFC 6152 §3), and for lines over 998 octets (RFC 5321 §4.5.3.1.6).
//!
//! Content is walked over twice, in pieces split anywhere. A [`Survey`] finds the leaves of the MIME structure (RFC
//! 2046) that must be encoded, and checks that this is possible; an [`Encoder`] does it. Decoded, every leaf is
//! unchanged.
//!
//! Each leaf is encoded independently of the rest: one that cannot be is left unchanged as long as only its lines are
//! too long. Leaves already encoded get shorter lines. Only the encoding's name changes otherwise, and too long header
//! fields are folded. Header fields with 8-bit octets stay (only SMTPUTF8 covers them), and so does the content of a
//! `multipart/signed` (RFC 1847 §2.1).

mod coder;
mod entity;
mod fold;
#[cfg(test)]
mod tests;

use coder::Coder;
use entity::{Entity, EntityKind, Label};
use memchr::memchr;

/// Octets of a line without its line end that every server accepts (RFC 5321 §4.5.3.1.6).
pub const LINE_BYTES_MAX: u32 = 998;
/// Maximum length of a line that is buffered for encoding.
const HELD_LINE_BYTES_MAX: usize = 1 << 20;
/// Maximum size of the header of a message or part.
const HEADER_BYTES_MAX: usize = 256 << 10;
/// Multiparts within each other.
const DEPTH_MAX: usize = 32;
/// Leaves of one message.
const LEAVES_MAX: usize = 10_000;

/// The reason why a content cannot be encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unencodable {
    /// In a `multipart/signed`: the signature would break.
    Signed,
    /// The MIME structure is malformed, or does not allow encoding.
    Structure,
    /// More lines, parts or depth than the limits.
    TooLarge,
}

impl Unencodable {
    /// The reason as text.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Unencodable::Signed => "it is signed",
            Unencodable::Structure => "its MIME structure does not allow it",
            Unencodable::TooLarge => "it is too large or too deeply nested",
        }
    }
}

/// The leaves to encode, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    leaves: Vec<bool>,
    /// Header fields are folded, or octets around parts replaced.
    touches_more: bool,
    /// No octets above 0x7f may remain in a body.
    seven_bit: bool,
}

impl Plan {
    /// Returns true if the content can be sent unchanged.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.touches_more && !self.leaves.contains(&true)
    }
}

/// Finds the leaves that must be encoded.
#[derive(Debug)]
pub struct Survey {
    walk: Walk,
    found: ContentSurvey,
    failed: Option<Unencodable>,
}

impl Survey {
    /// Starts at the first octet of a content, for a peer with or without 8BITMIME.
    #[must_use]
    pub fn new(takes_eight_bit: bool) -> Survey {
        let found = ContentSurvey { seven_bit: !takes_eight_bit, ..ContentSurvey::default() };
        Survey { walk: Walk::default(), found, failed: None }
    }

    /// Takes the next piece.
    pub fn push(&mut self, piece: &[u8]) {
        if self.failed.is_none() {
            self.failed = self.walk.push(piece, &mut self.found).err();
        }
    }

    /// Returns the plan.
    ///
    /// # Errors
    /// Returns an error if a leaf must be encoded and cannot be.
    pub fn finish(mut self) -> Result<Plan, Unencodable> {
        if self.failed.is_none() {
            self.failed = self.walk.finish(&mut self.found).err();
        }
        match self.failed {
            Some(why) => Err(why),
            None => Ok(Plan {
                leaves: self.found.leaves,
                touches_more: self.found.touches_more,
                seven_bit: self.found.seven_bit,
            }),
        }
    }
}

/// Writes the content according to a plan made from the same content.
#[derive(Debug)]
pub struct Encoder<'p> {
    walk: Walk,
    writer: EncodingWriter<'p>,
}

impl<'p> Encoder<'p> {
    /// Starts at the first octet.
    #[must_use]
    pub fn new(plan: &'p Plan) -> Encoder<'p> {
        let writer = EncodingWriter { plan, leaf: 0, coder: Coder::Plain, out: Vec::new() };
        Encoder { walk: Walk::default(), writer }
    }

    /// Takes the next piece and returns the output so far.
    #[must_use]
    pub fn push(&mut self, piece: &[u8]) -> Vec<u8> {
        let walked = self.walk.push(piece, &mut self.writer);
        // The survey has been here.
        debug_assert!(walked.is_ok());
        std::mem::take(&mut self.writer.out)
    }

    /// The content is complete; returns the rest.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let walked = self.walk.finish(&mut self.writer);
        debug_assert!(walked.is_ok());
        self.writer.out
    }
}

/// Receives the events of a walk.
trait EntitySink {
    /// The header of an entity, without the following empty line.
    fn header(&mut self, fields: &[u8], entity: &Entity) -> Result<(), Unencodable>;
    /// Handles a line of a leaf, with its line end if any.
    fn leaf_line(&mut self, line: &[u8]);
    /// Handles the end of a leaf, `at_boundary` or at the end of the content.
    fn leaf_end(&mut self, entity: &Entity, at_boundary: bool) -> Result<(), Unencodable>;
    /// A line of structure: boundaries, and the empty lines after headers.
    fn line(&mut self, line: &[u8]);
    /// Handles a line around the parts of a multipart.
    fn around(&mut self, line: &[u8], is_signed: bool) -> Result<(), Unencodable>;
}

/// Position of a walk.
#[derive(Debug)]
enum MimePosition {
    /// In the header of a message or of a part.
    Header {
        is_message: bool,
    },
    Leaf(Entity),
    /// Before the first or after the last part of a multipart.
    Around,
}

/// A multipart without its end yet.
#[derive(Debug)]
struct OpenMultipart {
    boundary: Box<[u8]>,
    is_signed: bool,
    is_digest: bool,
}

/// Walks over a content line by line and tracks its structure.
#[derive(Debug)]
struct Walk {
    /// The begun line.
    held: Vec<u8>,
    header: Vec<u8>,
    place: MimePosition,
    open: Vec<OpenMultipart>,
    leaves: usize,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk {
            held: Vec::new(),
            header: Vec::new(),
            place: MimePosition::Header { is_message: true },
            open: Vec::new(),
            leaves: 0,
        }
    }
}

impl Walk {
    fn push(&mut self, piece: &[u8], sink: &mut impl EntitySink) -> Result<(), Unencodable> {
        let mut rest = piece;
        while let Some(lf) = memchr(b'\n', rest) {
            let (line, behind) = rest.split_at(lf + 1);
            rest = behind;
            if self.held.is_empty() {
                self.take_line(line, sink)?;
                continue;
            }
            self.hold(line)?;
            let held = std::mem::take(&mut self.held);
            self.take_line(&held, sink)?;
            self.held = held;
            self.held.clear();
        }
        self.hold(rest)
    }

    fn hold(&mut self, part: &[u8]) -> Result<(), Unencodable> {
        if self.held.len() + part.len() > HELD_LINE_BYTES_MAX {
            return Err(Unencodable::TooLarge);
        }
        self.held.extend_from_slice(part);
        Ok(())
    }

    fn finish(&mut self, sink: &mut impl EntitySink) -> Result<(), Unencodable> {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            self.take_line(&held, sink)?;
        }
        self.end_part(false, sink)
    }

    fn take_line(&mut self, line: &[u8], sink: &mut impl EntitySink) -> Result<(), Unencodable> {
        if let Some((at, is_close)) = self.boundary(line) {
            self.end_part(true, sink)?;
            self.open.truncate(at + usize::from(!is_close));
            self.place = if is_close {
                MimePosition::Around
            } else {
                MimePosition::Header { is_message: false }
            };
            sink.line(line);
            return Ok(());
        }
        match &self.place {
            MimePosition::Leaf(_) => sink.leaf_line(line),
            MimePosition::Around => {
                let is_signed = self.open.iter().any(|open| open.is_signed);
                sink.around(line, is_signed)?;
            }
            MimePosition::Header { is_message } if matches!(line, b"\r\n" | b"\n") => {
                let is_message = *is_message;
                self.end_header(is_message, sink)?;
                sink.line(line);
            }
            MimePosition::Header { .. } => {
                if self.header.len() + line.len() > HEADER_BYTES_MAX {
                    return Err(Unencodable::TooLarge);
                }
                self.header.extend_from_slice(line);
            }
        }
        Ok(())
    }

    /// Returns the open multipart with this boundary line (RFC 2046 §5.1.1), and true if the line closes it. The
    /// boundary of an outer multipart also ends the inner ones (§5.1.2).
    fn boundary(&self, line: &[u8]) -> Option<(usize, bool)> {
        if self.open.is_empty() {
            return None;
        }
        let text = line.strip_prefix(b"--")?.trim_ascii_end();
        self.open.iter().enumerate().rev().find_map(|(at, open)| {
            match text.strip_prefix(&*open.boundary)? {
                b"" => Some((at, false)),
                b"--" => Some((at, true)),
                _ => None,
            }
        })
    }

    /// Ends the current part.
    fn end_part(
        &mut self,
        at_boundary: bool,
        sink: &mut impl EntitySink,
    ) -> Result<(), Unencodable> {
        if let MimePosition::Header { is_message } = self.place {
            // A header without a body.
            self.end_header(is_message, sink)?;
        }
        match std::mem::replace(&mut self.place, MimePosition::Around) {
            MimePosition::Leaf(entity) => sink.leaf_end(&entity, at_boundary),
            // The embedded message has no header.
            MimePosition::Header { .. } | MimePosition::Around => Ok(()),
        }
    }

    fn end_header(
        &mut self,
        is_message: bool,
        sink: &mut impl EntitySink,
    ) -> Result<(), Unencodable> {
        let header = std::mem::take(&mut self.header);
        let is_digest = !is_message && self.open.last().is_some_and(|open| open.is_digest);
        let mut entity = Entity::read(&header, is_digest);
        entity.is_message = is_message;
        entity.is_signed = self.open.iter().any(|open| open.is_signed);
        sink.header(&header, &entity)?;
        self.header = header;
        self.header.clear();
        self.place = match std::mem::replace(&mut entity.kind, EntityKind::Opaque) {
            EntityKind::Multipart { boundary, is_signed, is_digest } => {
                // Two multiparts with one boundary: the assignment of parts is ambiguous.
                let is_taken = self.open.iter().any(|open| open.boundary == boundary);
                if is_taken {
                    return Err(Unencodable::Structure);
                }
                if self.open.len() == DEPTH_MAX {
                    return Err(Unencodable::TooLarge);
                }
                self.open.push(OpenMultipart { boundary, is_signed, is_digest });
                MimePosition::Around
            }
            EntityKind::Message => MimePosition::Header { is_message: true },
            kind => {
                self.leaves += 1;
                if self.leaves > LEAVES_MAX {
                    return Err(Unencodable::TooLarge);
                }
                entity.kind = kind;
                MimePosition::Leaf(entity)
            }
        };
        Ok(())
    }
}

/// Result of a survey.
#[derive(Debug, Default)]
struct ContentSurvey {
    leaves: Vec<bool>,
    seven_bit: bool,
    touches_more: bool,
    /// The current leaf has octets that the peer does not accept.
    has_eight_bit: bool,
    /// The current leaf has lines that are too long for many servers.
    has_long_line: bool,
}

impl EntitySink for ContentSurvey {
    fn header(&mut self, fields: &[u8], entity: &Entity) -> Result<(), Unencodable> {
        (self.has_eight_bit, self.has_long_line) = (false, false);
        self.touches_more |= !entity.is_signed && fold::is_needed(fields);
        Ok(())
    }

    fn leaf_line(&mut self, line: &[u8]) {
        self.has_eight_bit |= self.seven_bit && !line.is_ascii();
        self.has_long_line |= is_too_long(line);
    }

    fn leaf_end(&mut self, entity: &Entity, _at_boundary: bool) -> Result<(), Unencodable> {
        // 8-bit octets within base64 have no defined meaning.
        let is_locked = match entity.label {
            Label::Base64 => self.has_eight_bit,
            Label::Encoded => true,
            Label::SevenBit | Label::EightBit | Label::QuotedPrintable => false,
        };
        let can_be_encoded = !entity.is_signed && entity.kind != EntityKind::Opaque && !is_locked;
        if self.has_eight_bit && !can_be_encoded {
            return Err(match entity.is_signed {
                true => Unencodable::Signed,
                false => Unencodable::Structure,
            });
        }
        self.leaves.push((self.has_eight_bit || self.has_long_line) && can_be_encoded);
        Ok(())
    }

    fn line(&mut self, _line: &[u8]) {}

    fn around(&mut self, line: &[u8], is_signed: bool) -> Result<(), Unencodable> {
        if self.seven_bit && !line.is_ascii() {
            if is_signed {
                return Err(Unencodable::Signed);
            }
            self.touches_more = true;
        }
        Ok(())
    }
}

fn is_too_long(line: &[u8]) -> bool {
    line.strip_suffix(b"\r\n").unwrap_or(line).len() > LINE_BYTES_MAX as usize
}

/// Executes a plan.
#[derive(Debug)]
struct EncodingWriter<'p> {
    plan: &'p Plan,
    /// Leaves so far.
    leaf: usize,
    coder: Coder,
    out: Vec<u8>,
}

impl EncodingWriter<'_> {
    /// Writes the header with a new encoding, and with the fields that make a message MIME.
    fn write_relabelled(&mut self, fields: &[u8], entity: &Entity, label: &str) {
        let mut kept = 0;
        for field in crate::header::fields(fields) {
            if field.is(entity::ENCODING) {
                fold::write(&fields[kept..field.range.start], &mut self.out);
                kept = field.range.end;
            }
        }
        fold::write(&fields[kept..], &mut self.out);
        if !self.out.is_empty() && !self.out.ends_with(b"\n") {
            self.out.extend_from_slice(b"\r\n");
        }
        if entity.is_message && !entity.has_version {
            self.out.extend_from_slice(b"MIME-Version: 1.0\r\n");
        }
        if entity.is_message && !entity.has_type {
            // RFC 1428 §3: 8-bit text of undeclared type.
            self.out.extend_from_slice(b"Content-Type: text/plain; charset=unknown-8bit\r\n");
        }
        self.out.extend_from_slice(format!("{}: {label}\r\n", entity::ENCODING).as_bytes());
    }
}

impl EntitySink for EncodingWriter<'_> {
    fn header(&mut self, fields: &[u8], entity: &Entity) -> Result<(), Unencodable> {
        let is_leaf =
            matches!(entity.kind, EntityKind::Text | EntityKind::Other | EntityKind::Opaque);
        let is_encoded = is_leaf && self.plan.leaves.get(self.leaf) == Some(&true);
        self.leaf += usize::from(is_leaf);
        self.coder = match (entity.label, &entity.kind) {
            _ if !is_encoded => Coder::Plain,
            (Label::QuotedPrintable, _) => Coder::WrapQuotedPrintable,
            (Label::Base64, _) => Coder::WrapBase64,
            (_, EntityKind::Text) => Coder::QuotedPrintable,
            _ => Coder::base64(),
        };
        if entity.is_signed {
            self.out.extend_from_slice(fields);
        } else if is_encoded {
            self.write_relabelled(fields, entity, self.coder.name());
        } else if self.plan.seven_bit && entity.is_relabelled() {
            // With its leaves encoded, the entity is 7-bit.
            self.write_relabelled(fields, entity, "7bit");
        } else {
            fold::write(fields, &mut self.out);
        }
        Ok(())
    }

    fn leaf_line(&mut self, line: &[u8]) {
        self.coder.push(line, &mut self.out);
    }

    fn leaf_end(&mut self, _entity: &Entity, at_boundary: bool) -> Result<(), Unencodable> {
        self.coder.finish(at_boundary, &mut self.out);
        Ok(())
    }

    fn line(&mut self, line: &[u8]) {
        self.out.extend_from_slice(line);
    }

    fn around(&mut self, line: &[u8], _is_signed: bool) -> Result<(), Unencodable> {
        // RFC 2046 §5.1.1: readers ignore it, and it has no encoding.
        let seven_bit = self.plan.seven_bit;
        let fit = |octet: &u8| if seven_bit && !octet.is_ascii() { b'?' } else { *octet };
        self.out.extend(line.iter().map(fit));
        Ok(())
    }
}
