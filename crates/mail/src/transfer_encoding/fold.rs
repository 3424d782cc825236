//! Folding of header fields with too long lines at their blanks (RFC 5322 §2.2.3).

use super::is_too_long;

/// Lines are folded at the last blank before this column, if any.
const COLUMNS: usize = 78;

/// Returns true if a line of these fields is too long.
pub(super) fn is_needed(fields: &[u8]) -> bool {
    lines(fields).any(|line| is_too_long(line) && break_of(line).is_some())
}

/// Writes the fields; lines that need no folding stay unchanged.
pub(super) fn write(fields: &[u8], out: &mut Vec<u8>) {
    for line in lines(fields) {
        let (mut rest, is_folded) = (line, is_too_long(line));
        while is_folded
            && rest.len() > COLUMNS
            && let Some(at) = break_of(rest)
        {
            out.extend_from_slice(&rest[..at]);
            out.extend_from_slice(b"\r\n");
            rest = &rest[at..];
        }
        out.extend_from_slice(rest);
    }
}

fn lines(fields: &[u8]) -> impl Iterator<Item = &[u8]> {
    fields.split_inclusive(|byte| *byte == b'\n')
}

/// The blank before which a line is broken. It has non-blanks before and after it, so that no line of blanks results.
/// It is the last one within the columns, or the first beyond.
fn break_of(line: &[u8]) -> Option<usize> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let first = line.iter().position(|byte| !is_blank(byte))?;
    let last = line.iter().rposition(|byte| !byte.is_ascii_whitespace())?;
    // A blank after a blank would leave one at the end of the line.
    let breaks = |at: &usize| is_blank(&line[*at]) && !is_blank(&line[*at - 1]);
    // A field name, and the blanks before its colon, must not be folded.
    let from = match is_blank(&line[0]) {
        true => first + 1,
        false => memchr::memchr(b':', line)?.max(first) + 1,
    };
    // `Name: value` keeps the start of its value on its line.
    let from = (from..last).find(|at| !is_blank(&line[*at]))?;
    let (within, beyond) = (from..COLUMNS.clamp(from, last.max(from)), COLUMNS.max(from)..last);
    within.rev().find(breaks).or_else(|| beyond.into_iter().find(breaks))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(fields: &str) -> String {
        let mut out = Vec::new();
        write(fields.as_bytes(), &mut out);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn long_fields_are_folded_at_their_blanks_and_others_stay() {
        let short = format!("Subject: {}\r\nTo: a@b\r\n\tc@d\r\n", "x y ".repeat(240));
        assert_eq!((folded(&short), is_needed(short.as_bytes())), (short.clone(), false));
        let value = "word ".repeat(300);
        let long = format!("{short}References: {value}\r\nX: y\r\n");
        assert!(is_needed(long.as_bytes()));
        let out = folded(&long);
        assert_eq!(out.replace("\r\n ", " "), long.replace("\r\n ", " "));
        assert!(out.starts_with(&short) && out.ends_with("\r\nX: y\r\n"));
        assert!(out[short.len()..].lines().all(|line| line.len() <= COLUMNS), "{out}");
        assert!(out.lines().all(|line| !line.trim().is_empty()));
    }

    #[test]
    fn what_has_no_blank_to_break_at_stays() {
        let x = "x".repeat(1_200);
        for field in [format!("X: {x}\r\n"), format!("X:{x} \r\n"), format!(" {x}\r\n"), x.clone()]
        {
            assert_eq!(folded(&field), field);
            assert!(!is_needed(field.as_bytes()));
        }
        assert_eq!(folded(&format!("X: {x} {x}\r\n")), format!("X: {x}\r\n {x}\r\n"));
        assert_eq!(folded(""), "");
    }
}
