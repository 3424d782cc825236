//! Bracket expressions of POSIX: `[^a-z[:digit:]_]`.

use super::super::rules::Wrong;
use super::bytes::ByteSet;
use super::posix::Flags;

/// An element between the brackets, and where it ends.
enum Element {
    Byte(u8),
    Set(ByteSet),
}

/// Reads what stands behind the opening bracket; returns the set and where its brackets end.
pub(super) fn read(pattern: &[u8], from: usize, flags: Flags) -> Result<(ByteSet, usize), Wrong> {
    let is_negated = pattern.get(from) == Some(&b'^');
    let start = from + usize::from(is_negated);
    let mut set = ByteSet::default();
    let mut at = start;
    loop {
        // The first may be a bracket or a hyphen.
        let is_first = at == start;
        match pattern.get(at) {
            None => return Err((from - 1, "this bracket is not closed".to_owned())),
            Some(b']') if !is_first => break,
            Some(b'-') if !is_first && pattern.get(at + 1) != Some(&b']') => {
                return Err((
                    at,
                    "a hyphen stands first, last, or between the ends of a range".to_owned(),
                ));
            }
            Some(_) => at = read_element(pattern, at, flags, &mut set)?,
        }
    }
    if flags.ignore_case {
        set.fold_case();
    }
    if is_negated {
        set = set.inverse();
        if flags.lines {
            set.remove(b'\n');
        }
    }
    Ok((set, at + 1))
}

/// Adds an element or a range to the set; returns where it ends.
fn read_element(
    pattern: &[u8],
    at: usize,
    flags: Flags,
    set: &mut ByteSet,
) -> Result<usize, Wrong> {
    let (first, end) = element(pattern, at, flags)?;
    let is_range =
        pattern.get(end) == Some(&b'-') && pattern.get(end + 1).is_some_and(|byte| *byte != b']');
    if !is_range {
        match first {
            Element::Byte(byte) => set.insert(byte),
            Element::Set(other) => set.add(other),
        }
        return Ok(end);
    }
    let (last, range_end) = element(pattern, end + 1, flags)?;
    // The GNU C library compares bounds in upper case where case is ignored: `[A-z]` is `[A-Z]`.
    let bound = |byte: u8| if flags.ignore_case { byte.to_ascii_uppercase() } else { byte };
    match (first, last) {
        (Element::Byte(first), Element::Byte(last)) if bound(first) <= bound(last) => {
            set.add(ByteSet::of(|byte| (bound(first)..=bound(last)).contains(byte)));
            Ok(range_end)
        }
        _ => Err((at, "this is not a range: its end stands before its start".to_owned())),
    }
}

/// A byte, `[:name:]`, `[.x.]` or `[=x=]`.
fn element(pattern: &[u8], at: usize, flags: Flags) -> Result<(Element, usize), Wrong> {
    let byte = pattern.get(at).copied().unwrap_or_default();
    let mark = match pattern.get(at + 1) {
        Some(mark @ (b':' | b'.' | b'=')) if byte == b'[' => *mark,
        _ => return Ok((Element::Byte(byte), at + 1)),
    };
    let inside = pattern.get(at + 2..).unwrap_or_default();
    let Some(len) = inside.windows(2).position(|pair| pair == [mark, b']']) else {
        let mark = char::from(mark);
        return Err((at, format!("`[{mark}` is not closed by `{mark}]`")));
    };
    let name = inside.get(..len).unwrap_or_default();
    let end = at + 2 + len + 2;
    let wrong = |what| Err((at, format!("{what} \"{}\"", String::from_utf8_lossy(name))));
    match (mark, name) {
        (b':', b"ascii" | b"word") => wrong("there is no class of bytes named"),
        (b':', _) => match ByteSet::named(name, flags.ignore_case) {
            Some(set) => Ok((Element::Set(set), end)),
            None => wrong("there is no class of bytes named"),
        },
        (_, [byte]) => Ok((Element::Byte(*byte), end)),
        _ => wrong("there is no collating element named"),
    }
}
