//! Scan of a passing message: keeps the header, and hashes the body as its signatures require. The body is not kept in
//! memory.

use crate::arc::sets::{Chain, Newest, Sets};
use crate::dkim::canonical::{BodyDigest, BodyHash, Canonicalization, is_called};
use crate::dkim::signature::Signature;
use mail::{Omitted, header};
use std::ops::Range;

/// Maximum length of a header that is examined.
pub const HEADER_BYTES_MAX: usize = 128 * 1024;
/// Nor is one of more fields.
pub const FIELDS_MAX: usize = 500;
/// Maximum number of DKIM signatures examined, the first ones.
pub const SIGNATURES_MAX: usize = 10;
/// Maximum number of different body hashes of one message.
const BODY_HASHES_MAX: usize = 4;

/// Data to collect from a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanOptions {
    /// DKIM signatures.
    pub dkim: bool,
    /// ARC sets.
    pub arc: bool,
    /// Body hash for signing.
    pub to_sign: bool,
}

/// Reads a message.
pub struct Scan {
    wanted: ScanOptions,
    header: Vec<u8>,
    state: State,
}

enum State {
    /// Number of header octets examined.
    Header(usize),
    Body(Box<BodyScan>),
}

struct BodyScan {
    found: ScannedHeader,
    hashes: Vec<(BodyForm, BodyHash)>,
}

/// Form of a body hash: canonicalisation and length (`l=`).
type BodyForm = (Canonicalization, Option<u64>);

/// The form used by this server's signatures.
const SIGNED_BODY: BodyForm = (Canonicalization::Relaxed, None);

/// Content of a header.
#[derive(Default)]
struct ScannedHeader {
    /// The reason why the header is ambiguous, if it is.
    unreadable: Option<&'static str>,
    fields: Vec<Range<usize>>,
    signatures: Vec<(usize, Result<Signature, &'static str>)>,
    /// Number of signatures not examined.
    signatures_left: usize,
    sets: Sets,
}

/// A message that was read.
pub struct Scanned {
    pub(crate) header: Vec<u8>,
    /// The reason why the header is ambiguous, if it is.
    pub(crate) unreadable: Option<&'static str>,
    /// Ranges of its fields, with their line ends.
    pub(crate) fields: Vec<Range<usize>>,
    /// DKIM signatures, each with the index of its field, or the error.
    pub(crate) signatures: Vec<(usize, Result<Signature, &'static str>)>,
    /// Number of signatures not examined.
    pub(crate) signatures_left: usize,
    pub(crate) newest_set: Option<Newest>,
    pub(crate) chain: Chain,
    bodies: Vec<(BodyForm, BodyDigest)>,
}

impl Scan {
    #[must_use]
    pub fn new(wanted: ScanOptions) -> Scan {
        Scan { wanted, header: Vec::new(), state: State::Header(0) }
    }

    /// Takes the next piece of content: with CRLF at line ends, split anywhere.
    pub fn push(&mut self, piece: &[u8]) {
        let looked_at = match &mut self.state {
            State::Body(body) => {
                return body.hashes.iter_mut().for_each(|(_, hash)| hash.push(piece));
            }
            State::Header(looked_at) => *looked_at,
        };
        self.header.extend_from_slice(piece);
        match end_of_header(&self.header, looked_at) {
            Some(body_start) => {
                let rest = self.header.split_off(body_start);
                self.begin_body();
                self.push(&rest);
            }
            None if self.header.len() > HEADER_BYTES_MAX => self.begin_body(),
            None => self.state = State::Header(self.header.len().saturating_sub(3)),
        }
    }

    /// Bytes in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        self.header.capacity()
    }

    fn begin_body(&mut self) {
        let found = ScannedHeader::of(&self.header, self.wanted);
        if found.unreadable.is_some() {
            self.header = Vec::new();
        }
        // It is needed until the end of the content.
        self.header.shrink_to_fit();
        let mut hashes: Vec<(BodyForm, BodyHash)> = Vec::new();
        let parsed = found.signatures.iter().filter_map(|(_, parsed)| parsed.as_ref().ok());
        let to_sign = self.wanted.to_sign.then_some(SIGNED_BODY);
        let newest = found.sets.newest_signature();
        let wanted = newest.into_iter().chain(parsed).map(body_form);
        for (form, limit) in to_sign.into_iter().chain(wanted) {
            let is_known = hashes.iter().any(|(known, _)| *known == (form, limit));
            // The hash for signing does not count against the maximum.
            let max = BODY_HASHES_MAX + usize::from(self.wanted.to_sign);
            if !is_known && hashes.len() < max {
                hashes.push(((form, limit), BodyHash::new(form, limit)));
            }
        }
        self.state = State::Body(Box::new(BodyScan { found, hashes }));
    }

    /// The message is complete.
    #[must_use]
    pub fn finish(mut self) -> Scanned {
        if matches!(self.state, State::Header(_)) {
            self.begin_body();
        }
        let (found, hashes) = match self.state {
            State::Body(body) => (body.found, body.hashes),
            State::Header(_) => (ScannedHeader::default(), Vec::new()),
        };
        let bodies = hashes.into_iter().map(|(form, hash)| (form, hash.finish())).collect();
        let ScannedHeader { unreadable, fields, signatures, signatures_left, sets } = found;
        let newest_set = sets.newest();
        let chain = sets.into_chain();
        let header = self.header;
        Scanned {
            header,
            unreadable,
            fields,
            signatures,
            signatures_left,
            newest_set,
            chain,
            bodies,
        }
    }
}

fn body_form(signature: &Signature) -> BodyForm {
    (signature.body_form, signature.body_length)
}

/// Start of the body, after the empty line.
fn end_of_header(header: &[u8], looked_at: usize) -> Option<usize> {
    if header.starts_with(b"\r\n") {
        return Some(2);
    }
    let end = memchr::memmem::find(header.get(looked_at..)?, b"\r\n\r\n")?;
    Some(looked_at + end + 4)
}

impl ScannedHeader {
    fn of(header: &[u8], wanted: ScanOptions) -> ScannedHeader {
        let mut found = ScannedHeader::default();
        for field in header::fields(header) {
            if header.len() > HEADER_BYTES_MAX || found.fields.len() == FIELDS_MAX {
                return ScannedHeader::unreadable("the header is too long");
            }
            let index = found.fields.len();
            if wanted.dkim && field.is("DKIM-Signature") {
                match found.signatures.len() {
                    ..SIGNATURES_MAX => {
                        found.signatures.push((index, Signature::parse(field.value)));
                    }
                    _ => found.signatures_left += 1,
                }
            } else if wanted.arc {
                found.sets.note(index, &field);
            }
            found.fields.push(field.range);
        }
        let end = found.fields.last().map_or(0, |last| last.end);
        match hidden(header.get(end..).unwrap_or_default(), found.fields.is_empty()) {
            Some(why) => ScannedHeader::unreadable(why),
            None => found,
        }
    }

    fn unreadable(why: &'static str) -> ScannedHeader {
        ScannedHeader { unreadable: Some(why), ..ScannedHeader::default() }
    }
}

/// Finds fields that some readers would include in the header although they follow a line that is not a field: those
/// readers would see a different author. `rest` begins with that line, or with the empty line that ends the header.
/// `is_first`: no field precedes it.
fn hidden(rest: &[u8], is_first: bool) -> Option<&'static str> {
    if is_first && matches!(rest, [b' ' | b'\t', ..]) {
        // After fields are added above, it would continue the last added field.
        return Some("the header begins with white space");
    }
    let is_end = |line: &[u8]| matches!(line, b"" | b"\r");
    let lines = rest.split(|byte| *byte == b'\n').take_while(|line| !is_end(line));
    // A field's name may be folded before its colon (RFC 5322 §4.5): readers that unfold first find it.
    let mut name: &[u8] = b"";
    for line in lines {
        let is_folded = matches!(line, [b' ' | b'\t', ..]);
        let folded: &[u8] = if is_folded { name } else { b"" };
        let starts = |field: &str| match folded {
            b"" => is_called(line, field.as_bytes()),
            name => {
                name.eq_ignore_ascii_case(field.as_bytes())
                    && is_called(line.trim_ascii_start(), b"")
            }
        };
        if HIDDEN.iter().any(|field| starts(field)) {
            return Some("the header has a line that is not a field");
        }
        // A line of blanks does not end the folded name.
        if !is_folded || !line.trim_ascii().is_empty() {
            name = line.trim_ascii_end();
        }
    }
    None
}

/// Fields with a meaning that must not depend on a reader's idea of the end of the header.
const HIDDEN: [&str; 6] = [
    "From",
    "DKIM-Signature",
    "ARC-Seal",
    "ARC-Message-Signature",
    "ARC-Authentication-Results",
    "Authentication-Results",
];

impl Scanned {
    /// Removes parts of the header, in whole lines, that are not delivered. Returns false, and changes nothing, if a
    /// part is outside the header.
    #[must_use]
    pub fn leave_out(&mut self, omitted: &Omitted) -> bool {
        let all = omitted.bytes();
        let kept: Vec<Range<usize>> = omitted.sent_of(0, self.header.len()).collect();
        let bytes: usize = kept.iter().map(Range::len).sum();
        if self.unreadable.is_some() || (self.header.len() - bytes) as u64 != all {
            return false;
        }
        self.header = kept
            .into_iter()
            .filter_map(|range| self.header.get(range))
            .collect::<Vec<_>>()
            .concat();
        self.fields = header::fields(&self.header).map(|field| field.range).collect();
        // Their field indexes are no longer valid.
        self.signatures.clear();
        true
    }

    /// A field as written in the message.
    pub(crate) fn field(&self, index: usize) -> &[u8] {
        let range = self.fields.get(index).cloned();
        range.and_then(|range| self.header.get(range)).unwrap_or_default()
    }

    /// The body digest for a signature; `None` if it was not computed in that form.
    pub(crate) fn body(&self, signature: &Signature) -> Option<&BodyDigest> {
        self.body_as(body_form(signature))
    }

    /// The body digest for signing; `None` if not requested.
    pub(crate) fn body_to_sign(&self) -> Option<&BodyDigest> {
        self.body_as(SIGNED_BODY)
    }

    fn body_as(&self, form: BodyForm) -> Option<&BodyDigest> {
        self.bodies.iter().find(|(known, _)| *known == form).map(|(_, digest)| digest)
    }

    /// The values of all fields of this name.
    pub(crate) fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        let fields = header::fields(&self.header);
        fields.filter(move |field| field.is(name)).map(|field| field.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(content: &[u8], step: usize) -> Scanned {
        let mut scan = Scan::new(ScanOptions { dkim: true, arc: true, to_sign: false });
        content.chunks(step).for_each(|piece| scan.push(piece));
        scan.finish()
    }

    #[test]
    fn the_header_ends_wherever_pieces_are_split() {
        let content = b"A: b\r\nFrom: c\r\n d\r\n\r\nbody\r\n\r\nX: y\r\n";
        for step in 1..content.len() {
            let scanned = scan(content, step);
            assert_eq!(scanned.fields.len(), 2, "{step}");
            assert_eq!(scanned.field(1), b"From: c\r\n d\r\n");
            assert_eq!(scanned.values("from").collect::<Vec<_>>(), [b" c\r\n d"]);
        }
        assert_eq!(scan(b"\r\nA: b\r\n", 1).fields.len(), 0);
        assert_eq!(scan(b"A: b\r\n", 3).fields.len(), 1);
    }

    #[test]
    fn what_is_too_long_is_not_looked_at() {
        let fields = |count: usize| "A: b\r\n".repeat(count) + "\r\n";
        assert!(scan(fields(FIELDS_MAX).as_bytes(), 4096).unreadable.is_none());
        assert!(scan(fields(FIELDS_MAX + 1).as_bytes(), 4096).unreadable.is_some());
        let long = |bytes: usize| format!("A: {}\r\n\r\n", "x".repeat(bytes - 7));
        let fits = scan(long(HEADER_BYTES_MAX).as_bytes(), HEADER_BYTES_MAX);
        assert!(fits.unreadable.is_none() && fits.fields.len() == 1);
        for step in [1000, HEADER_BYTES_MAX * 2] {
            let scanned = scan(long(HEADER_BYTES_MAX + 1).as_bytes(), step);
            assert!(scanned.unreadable.is_some() && scanned.header.is_empty());
        }
    }

    #[test]
    fn an_author_behind_the_end_of_the_header_makes_it_unreadable() {
        for hiding in [
            " x\r\nFrom: a@b.example\r\n\r\n",
            "\tx\r\nSubject: y\r\n\r\n",
            "Subject: y\r\ngarbage\r\nFrom : a@b.example\r\n\r\n",
            "From x y\r\nfrom: a@b.example\r\n",
            "Fr\u{f6}m: x\r\nDKIM-Signature: v=1\r\n\r\n",
            "From\r\n : a@b.example\r\n\r\n",
            "From \r\n\t: a@b.example\r\n\r\n",
            "from\n \n : a@b.example\r\n\r\n",
            "Subject: y\r\nFrom\r\n : a@b.example\r\n\r\n",
            "Subject: y\r\ngarbage\r\nFROM\r\n : a@b.example\r\n\r\n",
        ] {
            for step in [1, 7, 1000] {
                assert!(scan(hiding.as_bytes(), step).unreadable.is_some(), "{hiding:?}");
            }
        }
        for plain in [
            "From: a@b.example\r\nno field, but nothing is hidden\r\nSubject: x\r\n\r\nFrom: y\r\n",
            "From: a@b.example\r\n\r\nFrom: y\r\n\r\n",
            "From: a@b.example\n\nFrom: y\r\n\r\n",
            "\r\n x\r\nFrom: y\r\n\r\n",
        ] {
            assert_eq!(scan(plain.as_bytes(), 5).unreadable, None, "{plain:?}");
        }
    }

    #[test]
    fn what_goes_nowhere_is_left_out_of_the_header() {
        let content = b"A: b\r\nBcc: c\r\n d\r\nE: f\r\n\r\nbody\r\n";
        let mut omitted = Omitted::default();
        omitted.add(6..18);
        let mut scanned = scan(content, 5);
        assert!(scanned.leave_out(&omitted));
        assert_eq!(scanned.header, b"A: b\r\nE: f\r\n\r\n");
        assert_eq!((scanned.field(0), scanned.field(1)), (&b"A: b\r\n"[..], &b"E: f\r\n"[..]));
        omitted.add(28..30);
        assert!(!scan(content, 5).leave_out(&omitted), "a part of the body");
    }

    #[test]
    fn the_first_signatures_are_looked_at() {
        let content = "DKIM-Signature: v=1\r\n".repeat(SIGNATURES_MAX + 90) + "\r\n";
        let scanned = scan(content.as_bytes(), 512);
        assert_eq!((scanned.signatures.len(), scanned.signatures_left), (SIGNATURES_MAX, 90));
    }
}
