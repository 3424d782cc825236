//! Escapes and bracket expressions of Perl's syntax: `\x41`, `\d`, `[^\w.-]`.

use super::super::rules::RuleError;
use super::bytes::ByteSet;

/// The meaning of an escape sequence.
#[derive(Clone, Copy, Debug)]
pub(super) enum Escape {
    Byte(u8),
    Set(ByteSet),
    /// `\Q`: text until `\E`.
    Quote,
    QuoteEnd,
    /// Any other letter.
    Letter(u8),
    /// A decimal number above 0, and the byte that it would be in octal, with its end.
    Digits(usize, Option<(u8, usize)>),
}

/// Parses the escape with its backslash at `from`; also returns its end.
pub(super) fn escape(pattern: &[u8], from: usize) -> Result<(Escape, usize), RuleError> {
    let at = from + 1;
    let Some(letter) = pattern.get(at).copied() else {
        return Err((from, "backslash at the end".to_owned()));
    };
    let set = |name: &[u8]| ByteSet::named(name, false).unwrap_or_default();
    let escape = match letter {
        b'a' => Escape::Byte(0x07),
        b'e' => Escape::Byte(0x1b),
        b'f' => Escape::Byte(0x0c),
        b'n' => Escape::Byte(b'\n'),
        b'r' => Escape::Byte(b'\r'),
        b't' => Escape::Byte(b'\t'),
        b'd' => Escape::Set(set(b"digit")),
        b'D' => Escape::Set(set(b"digit").inverse()),
        b'w' => Escape::Set(set(b"word")),
        b'W' => Escape::Set(set(b"word").inverse()),
        b's' => Escape::Set(set(b"space")),
        b'S' => Escape::Set(set(b"space").inverse()),
        b'h' => Escape::Set(ByteSet::of(horizontal)),
        b'H' => Escape::Set(ByteSet::of(horizontal).inverse()),
        b'v' => Escape::Set(ByteSet::of(vertical)),
        b'V' => Escape::Set(ByteSet::of(vertical).inverse()),
        b'N' => Escape::Set(ByteSet::of(|byte| *byte != b'\n')),
        b'Q' => Escape::Quote,
        b'E' => Escape::QuoteEnd,
        b'c' | b'x' | b'o' | b'0' => return numbered(pattern, from, letter),
        b'1'..=b'9' => return Ok(digits(pattern, at)),
        _ if letter.is_ascii_alphabetic() => Escape::Letter(letter),
        _ => Escape::Byte(letter),
    };
    Ok((escape, at + 1))
}

fn horizontal(byte: &u8) -> bool {
    matches!(byte, b'\t' | b' ' | 0xa0)
}

fn vertical(byte: &u8) -> bool {
    matches!(byte, b'\n'..=b'\r' | 0x85)
}

/// `\cA`, `\x41`, `\x{41}`, `\o{101}`, `\0101`.
fn numbered(pattern: &[u8], from: usize, letter: u8) -> Result<(Escape, usize), RuleError> {
    let at = from + 2;
    let wrong = || Err((from, format!("`\\{}` without a byte", char::from(letter))));
    if letter == b'c' {
        return match pattern.get(at) {
            Some(byte @ b' '..=b'~') => {
                Ok((Escape::Byte(byte.to_ascii_uppercase() ^ 0x40), at + 1))
            }
            _ => wrong(),
        };
    }
    let radix = if letter == b'x' { 16 } else { 8 };
    if pattern.get(at) == Some(&b'{') && letter != b'0' {
        let (value, end) = value(pattern, at + 1, radix, usize::MAX);
        return match u8::try_from(value) {
            Ok(byte) if end > at + 1 && pattern.get(end) == Some(&b'}') => {
                Ok((Escape::Byte(byte), end + 1))
            }
            _ => wrong(),
        };
    }
    if letter == b'o' {
        return wrong();
    }
    // Without a digit it is a NUL.
    let (value, end) = value(pattern, at, radix, 2);
    Ok((Escape::Byte(value as u8), end))
}

/// The value of some digits at `at`, and where they end.
fn value(pattern: &[u8], at: usize, radix: u32, len_max: usize) -> (u32, usize) {
    let (mut value, mut end) = (0_u32, at);
    let digits = pattern.iter().skip(at).take(len_max);
    for digit in digits.map_while(|byte| char::from(*byte).to_digit(radix)) {
        value = value.saturating_mul(radix).saturating_add(digit);
        end += 1;
    }
    (value, end)
}

/// A number without a zero before it.
fn digits(pattern: &[u8], at: usize) -> (Escape, usize) {
    let (decimal, end) = value(pattern, at, 10, usize::MAX);
    let (octal, octal_end) = value(pattern, at, 8, 3);
    let octal = u8::try_from(octal).ok().filter(|_| octal_end > at).map(|byte| (byte, octal_end));
    (Escape::Digits(decimal as usize, octal), end)
}

/// Parses the text after an opening bracket; returns the set and the end of its brackets.
pub(super) fn read(
    pattern: &[u8],
    from: usize,
    ignore_case: bool,
) -> Result<(ByteSet, usize), RuleError> {
    if let Some(mark @ (b':' | b'.' | b'=')) = pattern.get(from).copied()
        && let Some((name, _)) = marked(pattern, from, mark)
        && name.iter().all(u8::is_ascii_alphabetic)
    {
        return Err((
            from - 1,
            "write a class in double brackets, for example `[[:alpha:]]`".to_owned(),
        ));
    }
    let is_negated = pattern.get(from) == Some(&b'^');
    let start = from + usize::from(is_negated);
    let mut set = ByteSet::default();
    let mut at = start;
    loop {
        match pattern.get(at) {
            None => return Err((from - 1, "this bracket is not closed".to_owned())),
            Some(b']') if at != start => break,
            Some(_) => at = read_element(pattern, at, ignore_case, &mut set)?,
        }
    }
    if ignore_case {
        set.fold_case();
    }
    Ok((if is_negated { set.inverse() } else { set }, at + 1))
}

enum ClassElement {
    Byte(u8),
    Set(ByteSet),
    /// `\E` alone.
    Nothing,
}

/// Adds an element or a range to the set; returns where it ends.
fn read_element(
    pattern: &[u8],
    at: usize,
    ignore_case: bool,
    set: &mut ByteSet,
) -> Result<usize, RuleError> {
    let (first, end) = element(pattern, at, ignore_case)?;
    let is_range = pattern.get(end) == Some(&b'-')
        && pattern.get(end + 1).is_some_and(|byte| *byte != b']')
        && !matches!(first, ClassElement::Nothing);
    if !is_range {
        match first {
            ClassElement::Byte(byte) => set.insert(byte),
            ClassElement::Set(other) => set.add(other),
            ClassElement::Nothing => {}
        }
        return Ok(end);
    }
    match (first, element(pattern, end + 1, ignore_case)?) {
        (ClassElement::Byte(first), (ClassElement::Byte(last), range_end)) if first <= last => {
            set.add(ByteSet::of(|byte| (first..=last).contains(byte)));
            Ok(range_end)
        }
        (ClassElement::Byte(_), (ClassElement::Byte(_), _)) => {
            Err((at, "the end of the range is before its start".to_owned()))
        }
        _ => Err((at, "a range needs single bytes as its ends".to_owned())),
    }
}

fn element(
    pattern: &[u8],
    at: usize,
    ignore_case: bool,
) -> Result<(ClassElement, usize), RuleError> {
    let byte = pattern.get(at).copied().unwrap_or_default();
    match (byte, pattern.get(at + 1)) {
        (b'[', Some(mark @ (b':' | b'.' | b'='))) => {
            let Some((name, end)) = marked(pattern, at + 1, *mark) else {
                return Ok((ClassElement::Byte(byte), at + 1));
            };
            let (is_negated, name) = match name.strip_prefix(b"^") {
                Some(name) => (true, name),
                None => (false, name),
            };
            match ByteSet::named(name, ignore_case).filter(|_| *mark == b':') {
                Some(set) if is_negated => Ok((ClassElement::Set(set.inverse()), end)),
                Some(set) => Ok((ClassElement::Set(set), end)),
                None => {
                    let name = String::from_utf8_lossy(name).into_owned();
                    Err((at, format!("unknown character class \"{name}\"")))
                }
            }
        }
        (b'\\', _) => {
            let (escape, end) = escape(pattern, at)?;
            let element = match escape {
                Escape::Byte(byte) => ClassElement::Byte(byte),
                Escape::Set(set) => ClassElement::Set(set),
                // A backspace, in brackets.
                Escape::Letter(b'b') => ClassElement::Byte(0x08),
                Escape::Digits(_, Some((byte, octal_end))) => {
                    return Ok((ClassElement::Byte(byte), octal_end));
                }
                Escape::QuoteEnd => ClassElement::Nothing,
                Escape::Quote | Escape::Letter(_) | Escape::Digits(..) => {
                    let letter = pattern.get(at + 1).copied().map_or(' ', char::from);
                    return Err((at, format!("`\\{letter}` is not allowed in brackets")));
                }
            };
            Ok((element, end))
        }
        _ => Ok((ClassElement::Byte(byte), at + 1)),
    }
}

/// The name between two marks with a bracket after the second, and its end; `from` is the position of the first mark.
fn marked(pattern: &[u8], from: usize, mark: u8) -> Option<(&[u8], usize)> {
    let inside = pattern.get(from + 1..)?;
    let len = inside.windows(2).position(|pair| pair == [mark, b']'])?;
    let name = inside.get(..len)?;
    let is_name = name.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'^');
    is_name.then_some((name, from + 1 + len + 2))
}
