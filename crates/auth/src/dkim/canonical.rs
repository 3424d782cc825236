//! Canonical forms for hashing a message (RFC 6376 §3.4).

use aws_lc_rs::digest;

/// Changes in transit that a form tolerates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Canonicalization {
    Simple,
    Relaxed,
}

impl Canonicalization {
    pub(crate) fn parse(text: &str) -> Option<Canonicalization> {
        match text {
            "simple" => Some(Canonicalization::Simple),
            "relaxed" => Some(Canonicalization::Relaxed),
            _ => None,
        }
    }
}

/// Appends the canonical form of a field of the message with its line end (RFC 6376 §3.4.1, §3.4.2).
pub(crate) fn write_field(field: &[u8], form: Canonicalization, out: &mut Vec<u8>) {
    if form == Canonicalization::Simple {
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

/// The hash of a body in canonical form, computed in pieces.
pub(crate) struct BodyHash {
    context: digest::Context,
    form: Canonicalization,
    /// Limit of the hashed octets (`l=`).
    limit: Option<u64>,
    /// Octets of the canonical body so far.
    length: u64,
    /// Line ends that are hashed only if text follows.
    line_ends: u64,
    /// The last octet was CR: an LF may follow.
    is_after_cr: bool,
    /// Blanks that are hashed only if text follows in the same line.
    is_after_blank: bool,
    gathered: Vec<u8>,
}

/// Octets hashed at once.
const GATHERED_BYTES: usize = 4096;

/// Octets examined together for a deviation from canonical form.
const LOOKED_AT_BYTES: usize = 64;

/// Number of octets at the start of `text`, at least one, that are in canonical form, whatever follows. That is true
/// for most of most bodies, which are hashed in one piece. `text` begins with neither a blank nor the CR of a line end.
fn canonical_bytes(text: &[u8]) -> usize {
    let mut clean = 0;
    // The last octet cannot be judged without its successor.
    let judged = text.len().saturating_sub(1);
    while clean < judged {
        let end = (clean + LOOKED_AT_BYTES).min(judged);
        let (firsts, seconds) = (&text[clean..end], &text[clean + 1..=end]);
        // Without a branch, so that the compiler can vectorise.
        let is_any = firsts
            .iter()
            .zip(seconds)
            .fold(false, |is_any, (first, second)| is_any | is_changed(*first, *second));
        if is_any {
            let pairs = firsts.iter().zip(seconds);
            clean += pairs.take_while(|(first, second)| !is_changed(**first, **second)).count();
            break;
        }
        clean = end;
    }
    // A blank or a line end is hashed only if text follows.
    let run = &text[..(clean + 1).min(text.len())];
    let is_open = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    run.iter().rposition(|byte| !is_open(byte)).map_or(1, |last| last + 1)
}

/// Returns true if canonicalisation may change or remove the first of two octets, or a sequence that it begins.
fn is_changed(first: u8, second: u8) -> bool {
    let is_blank = (second == b' ') | (second == b'\t') | (second == b'\r');
    let is_double = ((first == b' ') | (first == b'\n')) & is_blank;
    is_double | (first == b'\t') | ((first == b'\r') & (second != b'\n'))
}

/// Digest of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BodyDigest {
    pub(crate) hash: Vec<u8>,
    /// Octets of the canonical body.
    pub(crate) length: u64,
}

impl BodyHash {
    pub(crate) fn new(form: Canonicalization, limit: Option<u64>) -> BodyHash {
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
        let is_relaxed = self.form == Canonicalization::Relaxed;
        let mut rest = piece;
        while let Some(&first) = rest.first() {
            match first {
                b'\n' if self.is_after_cr => {
                    self.is_after_cr = false;
                    self.line_ends += 1;
                    // Blanks at the end of a line are ignored.
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
                    let (run, later) = rest.split_at(canonical_bytes(rest));
                    self.settle_cr();
                    self.settle_blanks();
                    self.hash(run);
                    rest = later;
                }
            }
        }
    }

    /// Hashes a CR without LF like any other octet.
    fn settle_cr(&mut self) {
        if std::mem::take(&mut self.is_after_cr) {
            self.settle_blanks();
            self.hash(b"\r");
        }
    }

    fn settle_blanks(&mut self) {
        // Line ends are hashed before the blanks of the next line.
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

    /// RFC 6376 §3.4.3, §3.4.4: a body ends with one line end; an empty body has it in the simple form only.
    pub(crate) fn finish(mut self) -> BodyDigest {
        // Line ends before a final single CR count.
        self.settle_cr();
        self.line_ends = 0;
        self.is_after_blank = false;
        if self.length > 0 || self.form == Canonicalization::Simple {
            self.hash(b"\r\n");
        }
        self.context.update(&self.gathered);
        BodyDigest { hash: self.context.finish().as_ref().to_vec(), length: self.length }
    }
}

/// Returns true if a line, or a whole field, begins with this name and a colon.
pub(crate) fn is_called(field: &[u8], name: &[u8]) -> bool {
    let rest = match field.split_at_checked(name.len()) {
        Some((start, rest)) if start.eq_ignore_ascii_case(name) => rest,
        _ => return false,
    };
    rest.trim_ascii_start().starts_with(b":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(form: Canonicalization, text: &str) -> String {
        let mut out = Vec::new();
        write_field(text.as_bytes(), form, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn digest_of(form: Canonicalization, limit: Option<u64>, pieces: &[&[u8]]) -> BodyDigest {
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
        assert_eq!(canonical(Canonicalization::Relaxed, "A: X\r\n"), "a:X\r\n");
        assert_eq!(canonical(Canonicalization::Relaxed, "B : Y\t\r\n\tZ  \r\n"), "b:Y Z\r\n");
        assert_eq!(
            canonical(Canonicalization::Simple, "B : Y\t\r\n\tZ  \r\n"),
            "B : Y\t\r\n\tZ  \r\n"
        );
        let body = b" C \r\nD \t E\r\n\r\n\r\n";
        for (form, expected) in [
            (Canonicalization::Relaxed, &b" C\r\nD E\r\n"[..]),
            (Canonicalization::Simple, b" C \r\nD \t E\r\n"),
        ] {
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
            (Canonicalization::Simple, &b""[..], &b"\r\n"[..]),
            (Canonicalization::Relaxed, b"", b""),
            (Canonicalization::Simple, b"\r\n\r\n", b"\r\n"),
            (Canonicalization::Relaxed, b" \t\r\n\r\n", b""),
            (Canonicalization::Relaxed, b"a", b"a\r\n"),
            (Canonicalization::Simple, b"a \r\n\r\nb", b"a \r\n\r\nb\r\n"),
            (Canonicalization::Relaxed, b"a\r\n \r\n b ", b"a\r\n\r\n b\r\n"),
            (Canonicalization::Simple, b"a\rb\r", b"a\rb\r\r\n"),
        ] {
            assert_eq!(digest_of(form, None, &[body]).hash, sha256(expected), "{body:?}");
        }
        let long = [b"x".repeat(GATHERED_BYTES + 1), b" ".to_vec(), b"y".repeat(9)].concat();
        let expected = [&long[..], b"\r\n"].concat();
        assert_eq!(digest_of(Canonicalization::Relaxed, None, &[&long]).hash, sha256(&expected));
    }

    /// RFC 6376 §3.4.4, step by step over the whole text.
    fn relaxed(body: &[u8]) -> Vec<u8> {
        let mut lines: Vec<Vec<u8>> = vec![Vec::new()];
        let mut rest = body;
        while let Some((first, later)) = rest.split_first() {
            rest = match rest.strip_prefix(b"\r\n") {
                Some(later) => {
                    lines.push(Vec::new());
                    later
                }
                None => {
                    lines.last_mut().unwrap().push(*first);
                    later
                }
            };
        }
        for line in &mut lines {
            line.iter_mut().filter(|byte| **byte == b'\t').for_each(|byte| *byte = b' ');
            line.dedup_by(|second, first| *second == b' ' && *first == b' ');
            line.pop_if(|last| *last == b' ');
        }
        while lines.pop_if(|last| last.is_empty()).is_some() {}
        lines.into_iter().flat_map(|line| [line, b"\r\n".to_vec()].concat()).collect()
    }

    proptest::proptest! {
        #[test]
        fn bodies_are_what_the_steps_of_the_standard_make_of_them(
            body in r"([ab]{0,70}|[ \t]{0,3}|\r\n|\r|\n|a b|\r\n\.){0,30}",
            step in 1usize..200,
        ) {
            let pieces: Vec<&[u8]> = body.as_bytes().chunks(step).collect();
            let digest = digest_of(Canonicalization::Relaxed, None, &pieces);
            let expected = relaxed(body.as_bytes());
            proptest::prop_assert_eq!(digest.length, expected.len() as u64);
            proptest::prop_assert_eq!(digest.hash, sha256(&expected), "{:?}", body);
        }
    }

    #[test]
    fn no_more_than_asked_for_is_hashed_and_all_is_counted() {
        let digest = digest_of(Canonicalization::Simple, Some(4), &[b"abc\r\ndef\r\n"]);
        assert_eq!((digest.hash, digest.length), (sha256(b"abc\r"), 10));
    }
}
