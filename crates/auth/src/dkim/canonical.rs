//! What is hashed of a message (RFC 6376 §3.4).

use aws_lc_rs::digest;

/// How much may change on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Simple,
    Relaxed,
}

impl Form {
    pub(crate) fn parse(text: &str) -> Option<Form> {
        match text {
            "simple" => Some(Form::Simple),
            "relaxed" => Some(Form::Relaxed),
            _ => None,
        }
    }
}

/// Appends a field, as it stands in the message with its line end, in its canonical form (RFC 6376
/// §3.4.1, §3.4.2).
pub(crate) fn write_field(field: &[u8], form: Form, out: &mut Vec<u8>) {
    if form == Form::Simple {
        out.extend_from_slice(field);
        return;
    }
    let colon = field.iter().position(|byte| *byte == b':').unwrap_or(field.len());
    let (name, value) = field.split_at(colon);
    out.extend(name.trim_ascii_end().iter().map(u8::to_ascii_lowercase));
    out.push(b':');
    let words = value.get(1..).unwrap_or_default();
    let words = words.split(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'));
    for (n, word) in words.filter(|word| !word.is_empty()).enumerate() {
        if n > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(word);
    }
    out.extend_from_slice(b"\r\n");
}

/// The hash of a body that comes in pieces, in canonical form.
pub(crate) struct BodyHash {
    context: digest::Context,
    form: Form,
    /// Octets that are hashed, if not all (`l=`).
    limit: Option<u64>,
    /// Octets of the canonical body so far.
    length: u64,
    /// Line ends that count once something follows them.
    line_ends: u64,
    /// A CR whose LF may come.
    is_after_cr: bool,
    /// Blanks that count once something follows them in their line.
    is_after_blank: bool,
    gathered: Vec<u8>,
}

/// So many octets are hashed at once.
const GATHERED_BYTES: usize = 4096;

/// What came of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BodyDigest {
    pub(crate) hash: Vec<u8>,
    /// Octets of the canonical body.
    pub(crate) length: u64,
}

impl BodyHash {
    pub(crate) fn new(form: Form, limit: Option<u64>) -> BodyHash {
        BodyHash {
            context: digest::Context::new(&digest::SHA256),
            form,
            limit,
            length: 0,
            line_ends: 0,
            is_after_cr: false,
            is_after_blank: false,
            gathered: Vec::with_capacity(GATHERED_BYTES),
        }
    }

    pub(crate) fn push(&mut self, piece: &[u8]) {
        let is_relaxed = self.form == Form::Relaxed;
        let mut rest = piece;
        while let Some(&first) = rest.first() {
            match first {
                b'\n' if self.is_after_cr => {
                    self.is_after_cr = false;
                    self.line_ends += 1;
                    // Blanks at the end of a line don't count.
                    self.is_after_blank = false;
                    rest = &rest[1..];
                }
                b'\r' => {
                    self.settle_cr();
                    self.is_after_cr = true;
                    rest = &rest[1..];
                }
                b' ' | b'\t' if is_relaxed => {
                    self.settle_cr();
                    self.is_after_blank = true;
                    rest = &rest[1..];
                }
                _ => {
                    let is_end =
                        |byte: &u8| *byte == b'\r' || is_relaxed && matches!(byte, b' ' | b'\t');
                    let end = rest.iter().position(is_end).unwrap_or(rest.len()).max(1);
                    let (run, later) = rest.split_at(end);
                    self.settle_cr();
                    self.settle_blanks();
                    self.hash(run);
                    rest = later;
                }
            }
        }
    }

    /// A CR that no LF followed is one like any other octet.
    fn settle_cr(&mut self) {
        if std::mem::take(&mut self.is_after_cr) {
            self.settle_blanks();
            self.hash(b"\r");
        }
    }

    fn settle_blanks(&mut self) {
        // A line end counts before the blanks of the line it begins.
        for _ in 0..std::mem::take(&mut self.line_ends) {
            self.hash(b"\r\n");
        }
        if std::mem::take(&mut self.is_after_blank) {
            self.hash(b" ");
        }
    }

    fn hash(&mut self, bytes: &[u8]) {
        let room = self.limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.length));
        let count = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        self.length += bytes.len() as u64;
        let bytes = &bytes[..count];
        if self.gathered.len() + bytes.len() > GATHERED_BYTES {
            self.context.update(&self.gathered);
            self.gathered.clear();
        }
        if bytes.len() > GATHERED_BYTES {
            self.context.update(bytes);
        } else {
            self.gathered.extend_from_slice(bytes);
        }
    }

    /// RFC 6376 §3.4.3, §3.4.4: a body ends in one line end; an empty one has it only in the simple
    /// form.
    pub(crate) fn finish(mut self) -> BodyDigest {
        self.line_ends = 0;
        if self.is_after_cr {
            self.settle_cr();
        }
        self.is_after_blank = false;
        if self.length > 0 || self.form == Form::Simple {
            self.hash(b"\r\n");
        }
        self.context.update(&self.gathered);
        BodyDigest { hash: self.context.finish().as_ref().to_vec(), length: self.length }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(form: Form, text: &str) -> String {
        let mut out = Vec::new();
        write_field(text.as_bytes(), form, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn digest_of(form: Form, limit: Option<u64>, pieces: &[&[u8]]) -> BodyDigest {
        let mut hash = BodyHash::new(form, limit);
        pieces.iter().for_each(|piece| hash.push(piece));
        hash.finish()
    }

    fn sha256(bytes: &[u8]) -> Vec<u8> {
        digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
    }

    /// RFC 6376 §3.4.5.
    #[test]
    fn the_examples_of_the_standard() {
        assert_eq!(canonical(Form::Relaxed, "A: X\r\n"), "a:X\r\n");
        assert_eq!(canonical(Form::Relaxed, "B : Y\t\r\n\tZ  \r\n"), "b:Y Z\r\n");
        assert_eq!(canonical(Form::Simple, "B : Y\t\r\n\tZ  \r\n"), "B : Y\t\r\n\tZ  \r\n");
        let body = b" C \r\nD \t E\r\n\r\n\r\n";
        for (form, expected) in
            [(Form::Relaxed, &b" C\r\nD E\r\n"[..]), (Form::Simple, b" C \r\nD \t E\r\n")]
        {
            let length = expected.len() as u64;
            let expected = BodyDigest { hash: sha256(expected), length };
            assert_eq!(digest_of(form, None, &[body]), expected);
            for cut in 0..body.len() {
                let (one, two) = body.split_at(cut);
                assert_eq!(digest_of(form, None, &[one, two]), expected, "cut at {cut}");
            }
        }
    }

    #[test]
    fn bodies_without_text_and_without_an_end() {
        for (form, body, expected) in [
            (Form::Simple, &b""[..], &b"\r\n"[..]),
            (Form::Relaxed, b"", b""),
            (Form::Simple, b"\r\n\r\n", b"\r\n"),
            (Form::Relaxed, b" \t\r\n\r\n", b""),
            (Form::Relaxed, b"a", b"a\r\n"),
            (Form::Simple, b"a \r\n\r\nb", b"a \r\n\r\nb\r\n"),
            (Form::Relaxed, b"a\r\n \r\n b ", b"a\r\n\r\n b\r\n"),
            (Form::Simple, b"a\rb\r", b"a\rb\r\r\n"),
        ] {
            assert_eq!(digest_of(form, None, &[body]).hash, sha256(expected), "{body:?}");
        }
        let long = [b"x".repeat(GATHERED_BYTES + 1), b" ".to_vec(), b"y".repeat(9)].concat();
        let expected = [&long[..], b"\r\n"].concat();
        assert_eq!(digest_of(Form::Relaxed, None, &[&long]).hash, sha256(&expected));
    }

    #[test]
    fn no_more_than_asked_for_is_hashed_and_all_is_counted() {
        let digest = digest_of(Form::Simple, Some(4), &[b"abc\r\ndef\r\n"]);
        assert_eq!((digest.hash, digest.length), (sha256(b"abc\r"), 10));
    }
}
