//! A pattern in the `regex` crate's syntax, as it is being written. It needs no flags: case, line ends and
//! greed are written out.

use super::bytes::ByteSet;
use std::fmt::Write;

/// A pattern in the `regex` crate's syntax.
#[derive(Debug)]
pub(super) struct Translated {
    pub(super) regex: String,
    pub(super) groups: usize,
}

/// Writes a pattern.
#[derive(Debug, Default)]
pub(super) struct Output {
    text: String,
    groups: usize,
    /// Start of the atom that a quantifier would repeat; `None`: no atom.
    atom: Option<usize>,
    /// A quantifier was the last.
    is_quantified: bool,
}

impl Output {
    fn atom(&mut self) {
        self.atom = Some(self.text.len());
        self.is_quantified = false;
    }

    fn no_atom(&mut self) {
        self.atom = None;
        self.is_quantified = false;
    }

    pub(super) fn byte(&mut self, byte: u8, ignore_case: bool) {
        if ignore_case && byte.is_ascii_alphabetic() {
            let mut both = ByteSet::default();
            both.insert(byte);
            both.fold_case();
            return self.set(both);
        }
        self.atom();
        self.push_byte(byte);
    }

    fn push_byte(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() {
            self.text.push(char::from(byte));
        } else {
            // Writing to a string never fails.
            let _ = write!(self.text, "\\x{byte:02x}");
        }
    }

    pub(super) fn set(&mut self, set: ByteSet) {
        self.atom();
        let runs = set.runs();
        // The crate's notation for an empty set.
        let (is_negated, runs) =
            if runs.is_empty() { (true, vec![(0, u8::MAX)]) } else { (false, runs) };
        self.text.push_str(if is_negated { "[^" } else { "[" });
        for (first, last) in runs {
            self.push_byte(first);
            if last > first {
                self.text.push('-');
                self.push_byte(last);
            }
        }
        self.text.push(']');
    }

    /// Something of the crate's that matches text.
    pub(super) fn raw(&mut self, text: &str) {
        self.atom();
        self.text.push_str(text);
    }

    /// An assertion: it cannot be repeated.
    pub(super) fn assertion(&mut self, text: &str) {
        self.no_atom();
        self.text.push_str(text);
    }

    pub(super) fn or(&mut self) {
        self.assertion("|");
    }

    /// Opens a group, which is counted or not; returns where it begins.
    pub(super) fn open(&mut self, is_counted: bool) -> usize {
        let start = self.text.len();
        self.groups += usize::from(is_counted);
        self.assertion(if is_counted { "(" } else { "(?:" });
        start
    }

    /// Closes the group that begins there.
    pub(super) fn close(&mut self, start: usize) {
        self.text.push(')');
        self.atom = Some(start);
        self.is_quantified = false;
    }

    /// Returns `None` without an atom to repeat, otherwise true if it is repeated already.
    pub(super) fn repeatable(&self) -> Option<bool> {
        self.atom.map(|_| self.is_quantified)
    }

    /// Repeats the last atom, `max` times at most.
    pub(super) fn repeat(&mut self, min: u32, max: Option<u32>, is_lazy: bool) {
        let Some(start) = self.atom else { return };
        if self.is_quantified {
            self.text.insert_str(start, "(?:");
            self.text.push(')');
        }
        let _ = match (min, max) {
            (0, None) => write!(self.text, "*"),
            (1, None) => write!(self.text, "+"),
            (0, Some(1)) => write!(self.text, "?"),
            (min, None) => write!(self.text, "{{{min},}}"),
            (min, Some(max)) => write!(self.text, "{{{min},{max}}}"),
        };
        if is_lazy {
            self.text.push('?');
        }
        self.is_quantified = true;
    }

    /// The whole expression; only at the start of a key if it is anchored.
    pub(super) fn finish(self, is_anchored: bool) -> Translated {
        let regex = if is_anchored { format!(r"\A(?:{})", self.text) } else { self.text };
        Translated { regex, groups: self.groups }
    }
}

/// Parses the digits at `at`; returns their value and their end.
pub(super) fn number(pattern: &[u8], at: usize) -> Option<(u32, usize)> {
    let digits = pattern.get(at..).unwrap_or_default();
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let text = std::str::from_utf8(digits.get(..len)?).ok()?;
    // A number too large for the type is too large for any use.
    (len > 0).then(|| (text.parse().unwrap_or(u32::MAX), at + len))
}
