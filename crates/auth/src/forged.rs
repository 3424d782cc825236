//! Forged Authentication-Results with the authserv-id of this server (RFC 8601 §5): they are renamed in passing,
//! keeping their length.

use crate::results::FIELD;
use mail::Domain;

/// The new name.
pub const RENAMED: &str = "X-Foreign-Auth-Results";

const _: () = assert!(FIELD.len() == RENAMED.len());

/// Maximum length examined to find the authserv-id of a field; a field that hides it longer is renamed in any case.
pub const FIELD_BYTES_MAX: usize = 1024;

/// Renames fields in content that comes in pieces split anywhere.
#[derive(Clone, Debug)]
pub struct AuthresRenamer {
    server: String,
    state: State,
    /// Bytes held back until decided.
    held: Vec<u8>,
    /// Length of a held field at its next examination, doubled each time.
    next_look: usize,
}

/// Most names end before that.
const FIRST_LOOK: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a line, the beginning of which is held.
    LineStart,
    /// In a line of any other field.
    Line,
    /// In a field with the name; all bytes are held.
    Field,
    /// In the same field, at the start of a possible continuation line.
    FieldLine,
    /// After the header.
    Body,
}

impl AuthresRenamer {
    /// `server` is our name.
    #[must_use]
    pub fn new(server: &str) -> AuthresRenamer {
        let server = server.trim_end_matches('.').to_ascii_lowercase();
        AuthresRenamer { server, state: State::LineStart, held: Vec::new(), next_look: FIRST_LOOK }
    }

    /// Returns true if the rest is passed unchanged.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Body && self.held.is_empty()
    }

    /// Takes the next piece, and passes on decided bytes.
    pub fn push(&mut self, piece: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = piece;
        while !rest.is_empty() {
            let count = match self.state {
                State::Body => rest.len(),
                State::Line => memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1),
                State::LineStart | State::Field | State::FieldLine => {
                    let (first, later) = (rest[0], &rest[1..]);
                    self.take(first, &mut out);
                    rest = later;
                    continue;
                }
            };
            let (now, later) = rest.split_at(count);
            if self.state == State::Line && now.ends_with(b"\n") {
                self.state = State::LineStart;
            }
            out(now);
            rest = later;
        }
    }

    /// The content is complete: passes on held bytes.
    pub fn finish(&mut self, mut out: impl FnMut(&[u8])) {
        if matches!(self.state, State::Field | State::FieldLine) {
            self.release(self.is_ours(true) == Some(true), &mut out);
        }
        self.release(false, &mut out);
        self.state = State::Body;
    }

    fn take(&mut self, byte: u8, out: &mut impl FnMut(&[u8])) {
        if self.state == State::FieldLine && !matches!(byte, b' ' | b'\t') {
            // Another field begins, or the body.
            self.release(self.is_ours(true) == Some(true), out);
            self.state = State::LineStart;
        }
        self.held.push(byte);
        match self.state {
            State::LineStart => self.take_start(byte, out),
            _ => {
                self.state = if byte == b'\n' { State::FieldLine } else { State::Field };
                let decided = match self.held.len() {
                    FIELD_BYTES_MAX.. => Some(self.is_ours(false) != Some(false)),
                    held if held >= self.next_look => {
                        self.next_look *= 2;
                        self.is_ours(false)
                    }
                    _ => None,
                };
                if let Some(is_ours) = decided {
                    self.release(is_ours, out);
                    self.state = if byte == b'\n' { State::LineStart } else { State::Line };
                }
            }
        }
    }

    fn take_start(&mut self, byte: u8, out: &mut impl FnMut(&[u8])) {
        let name_length = self.held.len().min(FIELD.len());
        let (name, blanks) = self.held.split_at(name_length);
        let is_name = name.eq_ignore_ascii_case(&FIELD.as_bytes()[..name_length]);
        let is_blank = |blanks: &[u8]| blanks.iter().all(|byte| matches!(byte, b' ' | b'\t'));
        match (is_name, blanks.split_last()) {
            (true, None) => {}
            (true, Some((b':', before))) if is_blank(before) => self.state = State::Field,
            (true, Some(_)) if is_blank(blanks) && blanks.len() < FIELD_BYTES_MAX => {}
            _ => {
                self.state = match (byte, &*self.held) {
                    (b'\r', b"\r") => return,
                    (b'\n', b"\r\n" | b"\n") => State::Body,
                    (b'\n', _) => State::LineStart,
                    _ => State::Line,
                };
                self.release(false, out);
            }
        }
    }

    fn release(&mut self, is_renamed: bool, out: &mut impl FnMut(&[u8])) {
        let mut held = std::mem::take(&mut self.held);
        if is_renamed && held.len() >= RENAMED.len() {
            held[..RENAMED.len()].copy_from_slice(RENAMED.as_bytes());
        }
        if !held.is_empty() {
            out(&held);
        }
        held.clear();
        self.held = held;
        self.next_look = FIRST_LOOK;
    }

    /// Returns true if the held field has the authserv-id of this server; `None` if undecided.
    fn is_ours(&self, is_whole: bool) -> Option<bool> {
        let colon = self.held.iter().position(|byte| *byte == b':')?;
        bears_name(self.held.get(colon + 1..)?, &self.server, is_whole)
    }
}

/// Returns true if the `authserv-id` of a value (RFC 8601 §2.2) is this server's, given in lower case; `None` if more
/// input is needed.
///
/// Readers differ. Some end the name at the first blank, some join the text before the first semicolon, some keep
/// quotes. Some use the part before a slash, since a job number may follow there. Some decode encoded text, and some
/// convert U-labels to A-labels (RFC 8616 §3). Text that any of these readings turns into this server's name counts as
/// its name.
fn bears_name(value: &[u8], server: &str, is_whole: bool) -> Option<bool> {
    match bears_written_name(value, server, is_whole) {
        Some(false) => bears_mapped_name(value, server, is_whole),
        said => said,
    }
}

/// The same of names that have to be mapped to A-labels first, as far as there are any.
fn bears_mapped_name(value: &[u8], server: &str, is_whole: bool) -> Option<bool> {
    let (name, has_end) = name_of(value);
    if !has_end && !is_whole {
        // A name that begins in ASCII may continue in Unicode.
        return (name.is_ascii() && !begins_as(&name, server)).then_some(false);
    }
    if name.is_ascii() {
        return Some(false);
    }
    let text = String::from_utf8_lossy(&name);
    let is_blank = |c: char| c.is_whitespace() || c.is_control();
    let joined: String = text.chars().filter(|c| !is_blank(*c)).collect();
    let is_ours = |word: &str| {
        let mapped = Domain::mapped(word.split('/').next().unwrap_or_default());
        mapped.is_some_and(|mapped| mapped.trim_end_matches('.') == server)
    };
    let first = text.split(is_blank).find(|word| !word.is_empty());
    Some(is_ours(&joined) || first.is_some_and(is_ours))
}

/// Returns true if the complete labels equal those of the server's name.
fn begins_as(name: &[u8], server: &str) -> bool {
    let name: Vec<u8> = name.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let mut whole = name.split(|byte| *byte == b'.');
    // The last label may be incomplete.
    whole.next_back();
    let mut labels = server.split('.');
    whole.all(|label| labels.next().is_some_and(|own| label.eq_ignore_ascii_case(own.as_bytes())))
}

/// The text before the first semicolon, without comments and quotes, and true if the semicolon was found.
fn name_of(value: &[u8]) -> (Vec<u8>, bool) {
    let (mut name, mut depth) = (Vec::new(), 0_u32);
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' if depth > 0 => drop(bytes.next()),
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b';' if depth == 0 => return (name, true),
            b'"' | b'\\' => {}
            _ if depth == 0 => name.push(byte),
            _ => {}
        }
    }
    (name, false)
}

fn bears_written_name(value: &[u8], server: &str, is_whole: bool) -> Option<bool> {
    let mut left = server.as_bytes();
    let (mut depth, mut has_begun) = (0_u32, false);
    let mut bytes = value.iter().copied();
    while let Some(byte) = bytes.next() {
        let is_ignored = match byte {
            b'\\' if depth > 0 => {
                bytes.next();
                true
            }
            b'(' => {
                depth += 1;
                true
            }
            b')' => {
                depth = depth.saturating_sub(1);
                true
            }
            b' ' | b'\t' | b'\r' | b'\n' | b'\x0b' | b'\x0c' | b'"' | b'\\' => true,
            _ => depth > 0,
        };
        match (left, is_ignored) {
            // The end of the name after its last letter: a blank, a quote, a comment, a slash …
            ([], true) => return Some(true),
            // A final dot does not belong to the name; a dot followed by a letter does.
            ([], false) if byte == b'.' => {}
            // Some readers decode encoded text at any position.
            (_, false) if byte == b'=' => return Some(true),
            ([], false) => return Some(!is_of_name(byte)),
            (_, true) => {}
            ([next, rest @ ..], false) if byte.eq_ignore_ascii_case(next) => {
                (left, has_begun) = (rest, true);
            }
            // Readers that take more for a blank than there are would find our name behind it.
            (_, false) if !has_begun && !is_of_name(byte) => {}
            (_, false) => return Some(false),
        }
    }
    // A comment without end may hide anything.
    is_whole.then_some(left.is_empty() || depth > 0)
}

/// Characters of a host name.
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'=' | b'?' | b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(content: &str, step: usize) -> String {
        let mut renamer = AuthresRenamer::new("MX.example.org");
        let mut out = Vec::new();
        for piece in content.as_bytes().chunks(step) {
            renamer.push(piece, |bytes| out.extend_from_slice(bytes));
        }
        renamer.finish(|bytes| out.extend_from_slice(bytes));
        assert!(renamer.is_done());
        String::from_utf8(out).unwrap()
    }

    fn check(content: &str, expected: &str) {
        for step in 1..=content.len() {
            assert_eq!(pass(content, step), expected, "in pieces of {step}");
        }
    }

    #[test]
    fn those_of_our_name_are_renamed_in_the_header_only() {
        check(
            "A: b\r\nauthentication-Results: mx.Example.org; spf=pass\r\n\tx\r\n\
             Authentication-Results: other.org; spf=pass\r\n\
             Authentication-Results-X: mx.example.org\r\n\r\n\
             Authentication-Results: mx.example.org\r\n",
            "A: b\r\nX-Foreign-Auth-Results: mx.Example.org; spf=pass\r\n\tx\r\n\
             Authentication-Results: other.org; spf=pass\r\n\
             Authentication-Results-X: mx.example.org\r\n\r\n\
             Authentication-Results: mx.example.org\r\n",
        );
    }

    /// Ways to write our name.
    const OURS: &[&str] = &[
        "mx.example.org",
        "mx.example.org.",
        "mx.example.org 1; spf=pass",
        "mx.example.org/1; spf=pass",
        "\r\n (a \\) (b) ;)\r\n\t\"mx.exam\\ple.org\" ; spf=pass",
        "mx.example.org(x); none",
        "mx.example.org\u{b}; spf=pass",
        "\u{c}mx.example.org\u{a0}; spf=pass",
        "mx.example.org, spf=pass",
        "=?us-ascii?q?mx.example.org?=; spf=pass",
        "mx.\r\n example.org; spf=pass",
        "mx .example.org; spf=pass",
        "mx. example.\torg; spf=pass",
        "\"mx\".example.org; spf=pass",
        "mx.\"example\".org; spf=pass",
        "\"m\"x.example.org; spf=pass",
        "\"\" mx.example.org; spf=pass",
        "\"\"mx.example.org; spf=pass",
        "mx(x).example.org; spf=pass",
        "mx (x;) .example.org (y); spf=pass",
        "\"mx.example.org/1234\"; spf=pass",
        "\"mx.example.org\\/1\"; spf=pass",
        "\" mx.example.org\"; spf=pass",
        "\"mx.example.org \"; spf=pass",
        "\"mx.example.org 1\"; spf=pass",
        "\"mx.example.org\t1\"; spf=pass",
        "\"mx.example.org;\"; spf=pass",
        "\"mx.example.org(x)\"; spf=pass",
        "\"(c)mx.example.org\"; spf=pass",
        "\"mx.example.org..\"; spf=pass",
        "\"mx.example.org; spf=pass",
        "mx.example.org\\; spf=pass",
        "mx.example.org@x; spf=pass",
        "<mx.example.org>; spf=pass",
        "; mx.example.org; spf=pass",
        "[mx.example.org]; spf=pass",
        "%mx.example.org; spf=pass",
        "(a(b)\\)) mx.example.org (x) 1; spf=pass",
        "(x mx.example.org; spf=pass",
        "m(\r\n )x.(\r\n a)example.org; spf=pass",
        "mx.=?us-ascii?q?example.org?=; spf=pass",
        "mx.example.org=?us-ascii?q?_1?=; spf=pass",
        "=?us-ascii?q?mx?= .example.org; spf=pass",
        "\u{ff4d}x.example.org; spf=pass",
        "mx\u{3002}example\u{3002}org; spf=pass",
        "mx.exam\u{ad}ple.org; spf=pass",
        "mx.\u{1d5be}xample.org 1; spf=pass",
        "\u{ff2d}X.\r\n example.org; spf=pass",
        "\"m\u{ff58}.example.org/1\"; spf=pass",
        "(x) mx.example.\u{ff4f}rg; spf=pass",
        "m\u{ff58}(x;\\)) .example.org (y); spf=pass",
    ];

    #[test]
    fn no_fold_comment_or_quote_hides_it() {
        for ours in OURS {
            check(
                &format!("Authentication-Results \t: {ours}\r\nB: c\r\n\r\n"),
                &format!("X-Foreign-Auth-Results \t: {ours}\r\nB: c\r\n\r\n"),
            );
            // With nothing behind it.
            check(
                &format!("Authentication-Results:{ours}"),
                &format!("X-Foreign-Auth-Results:{ours}"),
            );
        }
        for other in [
            "amx.example.org",
            "a mx.example.org; a",
            "1 mx.example.org; a",
            "i=1; mx.example.org; a",
            "x@mx.example.org; a",
            "mx.example.org.com; a",
            "mx.example.organic; a",
            "mx.example.org1; a",
            "mx.example.org_; a",
            "m\u{445}.example.org; a",
            "mx.ex\u{e4}mple.org; a",
            "b\u{fc}cher.example; mx.example.org",
            "mx.exam; ple.org; a",
            "",
            "\r\nmx.example.org: a",
        ] {
            let content = format!("Authentication-Results: {other}\r\nB: c\r\n\r\nd");
            check(&content, &content);
        }
    }

    #[test]
    fn a_name_is_read_no_further_than_it_may_be_ours() {
        let said = |value: &str| bears_name(value.as_bytes(), "mx.xn--bcher-kva.example", false);
        assert_eq!([said(" other.o"), said(" mx.bu.x")], [Some(false); 2]);
        assert_eq!([said(" mx.b"), said(" m"), said(" mx.b\u{fc}cher.exam")], [None; 3]);
        assert_eq!(said(" mx.b\u{fc}cher.example;"), Some(true));
    }

    #[test]
    fn a_name_with_u_labels_is_the_one_with_a_labels() {
        let is_ours = |value: &str| {
            bears_name(value.as_bytes(), "mx.xn--bcher-kva.example", true) == Some(true)
        };
        for ours in [
            " mx.xn--bcher-kva.example; spf=pass",
            " mx.b\u{fc}cher.example; spf=pass",
            " MX.B\u{dc}CHER.example 1; spf=pass",
            " mx.bu\u{308}cher.example; spf=pass",
            " \"mx.b\u{fc}cher.example/9\"; spf=pass",
            " mx.b\u{fc}cher. (x)\r\n example; spf=pass",
            " mx.b\u{fc}cher.example.; spf=pass",
        ] {
            assert!(is_ours(ours), "{ours}");
        }
        for other in
            [" b\u{fc}cher.example; x", " mx.b\u{fc}cher.example.org; x", " mx.bucher.example; x"]
        {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn what_hides_whose_it_is_for_too_long_is_renamed() {
        let field = |bytes: usize| {
            let comment = "x".repeat(bytes - "Authentication-Results:()".len());
            format!("({comment}) other.org\r\n\r\n")
        };
        let fits = field(FIELD_BYTES_MAX - 12);
        assert!(pass(&format!("{FIELD}:{fits}"), 7).starts_with(FIELD));
        let beyond = field(FIELD_BYTES_MAX + 1);
        assert!(pass(&format!("{FIELD}:{beyond}"), 7).starts_with(RENAMED));
    }
}
