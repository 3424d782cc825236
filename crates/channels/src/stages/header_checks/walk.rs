//! Walks over a message as Postfix's checks see it: logical header fields with their line ends, and lines of bodies.
//! Attached messages and the parts of multiparts have headers, too (RFC 2046 §5.1, §5.2).

use super::content_type::ContentType;
use mail::header;
use std::ops::Range;

/// Octets of a header field that are compared; the rest of the field is skipped (Postfix's `header_size_limit`).
pub(super) const FIELD_BYTES_MAX: usize = 102_400;
/// Octets of a body line that are compared at once; longer lines are compared in pieces (`line_length_limit`).
pub(super) const LINE_BYTES_MAX: usize = 2_048;
/// Octets of each body or part that are compared, in whole lines (`body_checks_size_limit`).
pub(super) const BODY_BYTES_MAX: u64 = 51_200;
/// Multiparts within each other: those that Postfix follows with its `mime_nesting_limit` of 100.
pub(super) const DEPTH_MAX: usize = 102;

/// Kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineKind {
    /// A field of the message's own header, unless it is a MIME field.
    Header,
    /// A MIME field, or any field in the header of a part.
    Mime,
    /// A field of an attached message, unless it is a MIME field.
    Nested,
    /// A line of a body.
    Body,
}

/// A field or line, and its position in the message with all its line ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) kind: LineKind,
    /// Lines of a folded field are separated by LF. The last line end is left out.
    pub(super) text: Vec<u8>,
    pub(super) range: Range<u64>,
    /// It is in the message's own header.
    pub(super) is_in_own_header: bool,
}

/// MIME fields by Postfix's list (RFC 2045, RFC 2183).
const MIME_FIELDS: [&str; 6] = [
    "Content-Description",
    "Content-Disposition",
    "Content-ID",
    "Content-Transfer-Encoding",
    "Content-Type",
    "MIME-Version",
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Header(LineKind),
    Body,
}

#[derive(Debug)]
struct OpenMultipart {
    boundary: Box<[u8]>,
    is_digest: bool,
}

/// Position in a message that arrives in pieces split anywhere.
#[derive(Debug)]
pub(super) struct LineWalk {
    place: Place,
    /// Number of octets so far, and of those before the current line or piece of one.
    offset: u64,
    begun: u64,
    /// The part of the current line that is compared.
    held: Vec<u8>,
    /// The piece of a long body line before was cut off here.
    is_continued: bool,
    /// The open header field.
    field: Option<Line>,
    /// The entity with this header is a message.
    is_message: bool,
    open: Vec<OpenMultipart>,
    /// More multiparts were within each other.
    is_too_deep: bool,
    /// Octets of the current body, and of the empty line before it; a line end counts as one.
    body_bytes: u64,
}

impl LineWalk {
    pub(super) fn new() -> LineWalk {
        LineWalk {
            place: Place::Header(LineKind::Header),
            offset: 0,
            begun: 0,
            held: Vec::new(),
            is_continued: false,
            field: None,
            is_message: false,
            open: Vec::new(),
            is_too_deep: false,
            body_bytes: 0,
        }
    }

    /// Returns true after the message's own header.
    pub(super) fn is_past_header(&self) -> bool {
        self.place != Place::Header(LineKind::Header)
    }

    /// Returns true if parts are nested deeper than [`DEPTH_MAX`], so that headers were not found.
    pub(super) fn is_too_deep(&self) -> bool {
        self.is_too_deep
    }

    /// Takes the next piece, and appends complete lines.
    pub(super) fn push(&mut self, piece: &[u8], out: &mut Vec<Line>) {
        let mut rest = piece;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == b'\n').map(|lf| lf + 1);
            let room = match self.place {
                Place::Body => LINE_BYTES_MAX + 2 - self.held.len().min(LINE_BYTES_MAX + 1),
                Place::Header(_) => usize::MAX,
            };
            let count = end.unwrap_or(rest.len()).min(room);
            let (now, later) = rest.split_at(count);
            let kept = FIELD_BYTES_MAX + 2 - self.held.len().min(FIELD_BYTES_MAX + 2);
            self.held.extend_from_slice(now.get(..kept.min(count)).unwrap_or(now));
            self.offset += count as u64;
            rest = later;
            let is_line = now.ends_with(b"\n");
            if is_line || self.place == Place::Body && self.held.len() > LINE_BYTES_MAX + 1 {
                self.take_line(is_line, out);
            }
        }
    }

    /// Ends the message.
    pub(super) fn finish(&mut self, out: &mut Vec<Line>) {
        if !self.held.is_empty() {
            self.take_line(true, out);
        }
        out.extend(self.field.take());
    }

    /// Takes the held line, or a piece of a long one.
    fn take_line(&mut self, is_line: bool, out: &mut Vec<Line>) {
        let mut line = std::mem::take(&mut self.held);
        let mut end = self.offset;
        if is_line {
            line.truncate(length_of(&line));
        } else {
            self.held = line.split_off(LINE_BYTES_MAX.min(line.len()));
            end -= self.held.len() as u64;
        }
        let range = self.begun..end;
        self.begun = end;
        let is_continued = std::mem::replace(&mut self.is_continued, !is_line);
        match self.place {
            Place::Header(kind) => self.take_in_header(kind, line, range, out),
            Place::Body => self.take_in_body(line, range, is_continued, out),
        }
    }

    fn take_in_header(
        &mut self,
        kind: LineKind,
        line: Vec<u8>,
        range: Range<u64>,
        out: &mut Vec<Line>,
    ) {
        if let (Some(field), Some(b' ' | b'\t')) = (&mut self.field, line.first()) {
            let room = FIELD_BYTES_MAX.saturating_sub(field.text.len() + 1);
            field.text.push(b'\n');
            field.text.extend_from_slice(line.get(..room).unwrap_or(&line));
            field.range.end = range.end;
            return;
        }
        self.close(out);
        let Some(field) = header::fields(&line).next() else {
            self.end_header(line.is_empty());
            // The empty line is no part of the body. Any other line without a field name is its first.
            self.take_first_in_body(&line, range, out);
            return;
        };
        let is_mime = MIME_FIELDS.iter().any(|name| field.is(name));
        let is_in_own_header = kind == LineKind::Header;
        let kind = if is_mime { LineKind::Mime } else { kind };
        // Without the blanks that RFC 5322 §4.5 allows before the colon: they must not hide a field from patterns.
        let text = [field.name, b":", field.value].concat();
        self.field = Some(Line { kind, text, range, is_in_own_header });
    }

    /// Takes a line that ended a header, in pieces as other lines of bodies.
    fn take_first_in_body(&mut self, line: &[u8], range: Range<u64>, out: &mut Vec<Line>) {
        let (mut begun, mut rest) = (range.start, line);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(LINE_BYTES_MAX.min(rest.len()));
            rest = later;
            let end = if rest.is_empty() { range.end } else { begun + piece.len() as u64 };
            self.take_in_body(piece.to_vec(), begun..end, begun > range.start, out);
            begun = end;
        }
    }

    /// Ends the open field.
    fn close(&mut self, out: &mut Vec<Line>) {
        let Some(line) = self.field.take() else { return };
        if let Some(field) = header::fields(&line.text).next()
            && field.is("Content-Type")
        {
            match ContentType::parse(field.value) {
                ContentType::Message => self.is_message = true,
                ContentType::Leaf => self.is_message = false,
                ContentType::Multipart { is_digest, boundaries } => {
                    self.is_message = false;
                    let room = DEPTH_MAX.saturating_sub(self.open.len());
                    self.is_too_deep |= boundaries.len() > room;
                    let all = boundaries.into_iter().take(room);
                    self.open.extend(all.map(|boundary| OpenMultipart { boundary, is_digest }));
                }
                ContentType::Other => {}
            }
        }
        out.push(line);
    }

    /// Ends a header, at its empty line or at a line that is no field. After the latter no header follows.
    fn end_header(&mut self, is_whole: bool) {
        self.body_bytes = 1;
        let has_header = std::mem::take(&mut self.is_message) && is_whole;
        self.place = if has_header { Place::Header(LineKind::Nested) } else { Place::Body };
    }

    fn take_in_body(
        &mut self,
        line: Vec<u8>,
        range: Range<u64>,
        is_continued: bool,
        out: &mut Vec<Line>,
    ) {
        if !is_continued && let Some((at, is_close)) = self.boundary(&line) {
            self.open.truncate(at + usize::from(!is_close));
            if is_close {
                self.body_bytes = 0;
            } else {
                self.place = Place::Header(LineKind::Mime);
                // RFC 2046 §5.1.5.
                self.is_message = self.open.last().is_some_and(|open| open.is_digest);
            }
        }
        let is_inspected = self.body_bytes < BODY_BYTES_MAX;
        self.body_bytes += line.len() as u64 + 1;
        if is_inspected {
            let kind = LineKind::Body;
            out.push(Line { kind, text: line, range, is_in_own_header: false });
        }
    }

    /// The open multipart with this boundary line, and true if the line closes it. The boundary of an outer multipart
    /// also ends the inner ones (RFC 2046 §5.1.2).
    fn boundary(&self, line: &[u8]) -> Option<(usize, bool)> {
        // An empty boundary matches all lines but `--` alone, which begins signatures of people.
        let text = line.strip_prefix(b"--").filter(|text| !text.is_empty())?;
        self.open.iter().enumerate().rev().find_map(|(at, open)| {
            let rest = text.strip_prefix(&*open.boundary)?;
            Some((at, rest.starts_with(b"--")))
        })
    }
}

/// Length of a line without its line end.
fn length_of(line: &[u8]) -> usize {
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    text.strip_suffix(b"\r").unwrap_or(text).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn walk(content: &[u8], step: usize) -> Vec<Line> {
        let (mut walk, mut out) = (LineWalk::new(), Vec::new());
        content.chunks(step).for_each(|piece| walk.push(piece, &mut out));
        walk.finish(&mut out);
        out
    }

    fn shown(content: &str, step: usize) -> Vec<String> {
        let kind = |kind| match kind {
            LineKind::Header => 'h',
            LineKind::Mime => 'm',
            LineKind::Nested => 'n',
            LineKind::Body => 'b',
        };
        let one =
            |line: Line| format!("{} {}", kind(line.kind), String::from_utf8_lossy(&line.text));
        walk(content.as_bytes(), step).into_iter().map(one).collect()
    }

    const NESTED: &str = "Subject: a\r\n folded\r\nContent-Type: multipart/mixed; boundary=\"x\"\r\n\r\n\
        before\r\n--x\r\nX-Part: p\r\n\r\ntext\r\n--x\r\nContent-Type: message/rfc822\r\n\r\n\
        Subject: inner\r\nContent-ID: <i>\r\n\r\ninner text\r\n--x--\r\nafter\r\n";

    #[test]
    fn fields_and_lines_have_their_kinds() {
        let expected = [
            "h Subject: a\n folded",
            "m Content-Type: multipart/mixed; boundary=\"x\"",
            "b before",
            "b --x",
            "m X-Part: p",
            "b text",
            "b --x",
            "m Content-Type: message/rfc822",
            "n Subject: inner",
            "m Content-ID: <i>",
            "b inner text",
            "b --x--",
            "b after",
        ];
        for step in 1..=NESTED.len() {
            assert_eq!(shown(NESTED, step), expected, "{step}");
        }
        // A part of a digest is a message (RFC 2046 §5.1.5).
        let digest = NESTED.replace("multipart/mixed", "multipart/digest");
        let digest = digest.replace("\r\n\r\ntext", "\r\n\r\nFrom: f\r\n\r\ntext");
        assert!(shown(&digest, 7).contains(&"n From: f".to_owned()));
        assert_eq!(shown("no header\r\nA: b\r\n", 3), ["b no header", "b A: b"]);
        assert_eq!(shown("A: b", 1), ["h A: b"]);
    }

    #[test]
    fn limits_hold_at_their_edges() {
        let line = "x".repeat(LINE_BYTES_MAX);
        let lengths = |content: &str| {
            let lines = walk(content.as_bytes(), 1_000).into_iter();
            let body = lines.filter(|line| line.kind == LineKind::Body);
            body.map(|line| line.text.len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(&format!("\r\n{line}\r\n")), [LINE_BYTES_MAX]);
        let cut = lengths(&format!("\r\n{line}{line}y\r\nz\r\n"));
        assert_eq!(cut, [LINE_BYTES_MAX, LINE_BYTES_MAX, 1, 1]);
        // A line that begins before the limit is the last.
        let lines = usize::try_from(BODY_BYTES_MAX).unwrap() / 1_024;
        let body = format!("{}\r\n", "y".repeat(1_024)).repeat(lines + 5);
        assert_eq!(lengths(&format!("\r\n{body}")).len(), lines);
        let long = format!("A: {}\r\nB: c\r\n\r\n", "v".repeat(2 * FIELD_BYTES_MAX));
        let fields = walk(long.as_bytes(), 4_096);
        assert!(fields[0].text.len() <= FIELD_BYTES_MAX + 2);
        assert_eq!(fields[1].text, b"B: c");
        let is_part = |levels: usize| {
            let multipart = "Content-Type: multipart/mixed; boundary=";
            let begin: String =
                (0..levels).map(|n| format!("{multipart}\"{n}.\"\r\n\r\n--{n}.\r\n")).collect();
            let (mut walk, mut lines) = (LineWalk::new(), Vec::new());
            walk.push(format!("{begin}A: b\r\n\r\n").as_bytes(), &mut lines);
            let is_part =
                lines.iter().any(|line| line.kind == LineKind::Mime && line.text == b"A: b");
            assert_eq!(walk.is_too_deep(), !is_part);
            is_part
        };
        assert!(is_part(DEPTH_MAX) && !is_part(DEPTH_MAX + 1));
    }

    #[test]
    fn malformed_headers_hide_no_part() {
        for header in [
            "Content-Type : multipart/mixed; boundary=b",
            "Content-Type: multipart/mixed (c); (d) boundary=\"b",
            "Content-Type: multipart/mixed; boundary=a; boundary=b",
            "Content-Type: multipart/mixed; boundary=b\r\nContent-Type: text/plain",
            "Content-Type: multipart/mixed; boundary=b\r\nContent-Type: image/png",
        ] {
            for end in ["\r\n\r\n", "\r\nno field\r\n"] {
                let lines = shown(&format!("{header}{end}--b\r\nX-Part: p\r\n\r\n"), 5);
                assert!(lines.contains(&"m X-Part: p".to_owned()), "{header}{end}: {lines:?}");
            }
        }
        let spaced =
            shown("Subject \t: a\r\n b\r\nContent-Type: message/rfc822\r\n\r\nA : b\r\n", 3);
        assert_eq!(spaced[..], ["h Subject: a\n b", "m Content-Type: message/rfc822", "n A: b"]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference_and_ranges_are_in_order(
            content in "(Content-Type: multipart/mixed; boundary=b\r\n)?(A: b\r\n| c\r\n|--b\r\n|\r\n|x\n|--b--\r\n){0,20}",
            step in 1_usize..40,
        ) {
            let lines = walk(content.as_bytes(), step);
            prop_assert_eq!(&lines, &walk(content.as_bytes(), content.len().max(1)));
            let mut end = 0;
            for line in lines {
                prop_assert!(line.range.start >= end && line.range.end <= content.len() as u64);
                end = line.range.end;
            }
        }
    }
}
