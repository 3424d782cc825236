//! POSIX regular expressions (IEEE Std 1003.1, chapter 9), as the GNU C library has them: Postfix's
//! `regexp` tables.

use super::super::rules::RuleError;
use super::bytes::ByteSet;
use super::output::{Output, Translated, number};

/// RE_DUP_MAX of the GNU C library.
const REPEAT_MAX: u32 = 0x7fff;

/// Letters after the pattern; each toggles its flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    /// Upper and lower case are the same.
    pub(super) ignore_case: bool,
    /// `^` and `$` match at line ends, `.` and negated sets don't match these.
    pub(super) lines: bool,
    /// Extended syntax; otherwise basic.
    extended: bool,
}

impl Flags {
    /// An unknown letter is an error; returns its position.
    pub(super) fn read(letters: &[u8]) -> Result<Flags, usize> {
        let mut flags = Flags { ignore_case: true, lines: false, extended: true };
        for (at, letter) in letters.iter().enumerate() {
            match letter {
                b'i' => flags.ignore_case = !flags.ignore_case,
                b'm' => flags.lines = !flags.lines,
                b'x' => flags.extended = !flags.extended,
                _ => return Err(at),
            }
        }
        Ok(flags)
    }
}

#[derive(Clone, Copy, Debug)]
enum Token {
    Byte(u8),
    Any,
    Set,
    Open,
    Close,
    Or,
    Start,
    End,
    Repeat(u32, Option<u32>),
    Brace,
    /// A backslash and this, which means something with GNU.
    Gnu(u8),
}

/// Translates a pattern.
pub(super) fn translate(pattern: &[u8], flags: Flags) -> Result<Translated, RuleError> {
    let mut posix =
        Posix { pattern, flags, at: 0, is_start: true, open: Vec::new(), out: Output::default() };
    while posix.at < pattern.len() {
        let from = posix.at;
        let token = posix.token();
        posix.write(token, from)?;
        let is_anchor = matches!(token, Token::Start);
        let starts = matches!(token, Token::Open | Token::Or);
        // A star after `^` is literal in basic syntax.
        posix.is_start = starts || is_anchor && !flags.extended;
    }
    match posix.open.pop() {
        Some((at, _)) => Err((at, "this group is not closed".to_owned())),
        None => Ok(posix.out.finish(false)),
    }
}

struct Posix<'a> {
    pattern: &'a [u8],
    flags: Flags,
    at: usize,
    /// At the start of this alternative.
    is_start: bool,
    /// Groups that are open: where they begin in the pattern and in the output.
    open: Vec<(usize, usize)>,
    out: Output,
}

impl Posix<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.pattern.get(self.at + ahead).copied()
    }

    /// Takes the next token. The operators, with or without a backslash, depend on the syntax.
    fn token(&mut self) -> Token {
        let byte = self.peek(0).unwrap_or_default();
        if byte == b'\\'
            && let Some(next) = self.peek(1)
        {
            self.at += 2;
            return match next {
                b'(' | b')' | b'{' | b'|' | b'+' | b'?' if !self.flags.extended => {
                    self.operator(next)
                }
                b'<' | b'>' | b'`' | b'\'' => Token::Gnu(next),
                _ if next.is_ascii_alphanumeric() => Token::Gnu(next),
                _ => Token::Byte(next),
            };
        }
        self.at += 1;
        match byte {
            b'.' => Token::Any,
            b'[' => Token::Set,
            b'*' if self.is_start && !self.flags.extended => Token::Byte(b'*'),
            b'*' => Token::Repeat(0, None),
            b'^' if self.flags.extended || self.is_start => Token::Start,
            b'$' if self.flags.extended || self.is_end() => Token::End,
            b'(' | b')' | b'{' | b'|' | b'+' | b'?' if self.flags.extended => self.operator(byte),
            _ => Token::Byte(byte),
        }
    }

    fn operator(&self, byte: u8) -> Token {
        match byte {
            b'(' => Token::Open,
            // In extended syntax an unmatched one is a plain byte.
            b')' if self.open.is_empty() && self.flags.extended => Token::Byte(byte),
            b')' => Token::Close,
            b'|' => Token::Or,
            b'+' => Token::Repeat(1, None),
            b'?' => Token::Repeat(0, Some(1)),
            _ => Token::Brace,
        }
    }

    /// In basic syntax, whether a `$` just taken stands at the end of an alternative.
    fn is_end(&self) -> bool {
        let rest = self.pattern.get(self.at..).unwrap_or_default();
        rest.is_empty() || rest.starts_with(b"\\)") || rest.starts_with(b"\\|")
    }

    fn write(&mut self, token: Token, from: usize) -> Result<(), RuleError> {
        let Flags { ignore_case, lines, .. } = self.flags;
        match token {
            Token::Byte(byte) => self.out.byte(byte, ignore_case),
            Token::Any => self.out.set(ByteSet::of(|byte| !(lines && *byte == b'\n'))),
            Token::Set => {
                let (set, end) = bracket(self.pattern, self.at, self.flags)?;
                self.at = end;
                self.out.set(set);
            }
            Token::Open => {
                let start = self.out.open(true);
                self.open.push((from, start));
            }
            Token::Close => match self.open.pop() {
                Some((_, start)) => self.out.close(start),
                None => return Err((from, "unmatched closing parenthesis".to_owned())),
            },
            Token::Or => self.out.or(),
            Token::Start => self.out.assertion(if lines { "(?m:^)" } else { r"\A" }),
            Token::End => self.out.assertion(if lines { "(?m:$)" } else { r"\z" }),
            Token::Repeat(min, max) => self.repeat(from, min, max)?,
            Token::Brace => {
                let (min, max) = self.brace(from)?;
                self.repeat(from, min, max)?;
            }
            Token::Gnu(letter) => self.gnu(letter, from)?,
        }
        Ok(())
    }

    fn repeat(&mut self, from: usize, min: u32, max: Option<u32>) -> Result<(), RuleError> {
        match self.out.repeatable() {
            Some(is_repeated) if self.flags.extended || !is_repeated => {
                self.out.repeat(min, max, false);
                Ok(())
            }
            _ => Err((from, "nothing to repeat".to_owned())),
        }
    }

    /// The content of braces: `{2}`, `{2,}`, `{2,5}`, and with GNU `{,5}`.
    fn brace(&mut self, from: usize) -> Result<(u32, Option<u32>), RuleError> {
        let wrong = || Err((from, "braces need one number, or two with a comma".to_owned()));
        let min = number(self.pattern, self.at);
        self.at = min.map_or(self.at, |(_, end)| end);
        let mut max = min.map(|(min, _)| min);
        if self.peek(0) == Some(b',') {
            let written = number(self.pattern, self.at + 1);
            self.at = written.map_or(self.at + 1, |(_, end)| end);
            max = written.map(|(max, _)| max);
        } else if min.is_none() {
            return wrong();
        }
        let close: &[u8] = if self.flags.extended { b"}" } else { b"\\}" };
        if !self.pattern.get(self.at..).is_some_and(|rest| rest.starts_with(close)) {
            return wrong();
        }
        self.at += close.len();
        let min = min.map_or(0, |(min, _)| min);
        if max.is_some_and(|max| max < min) {
            return Err((
                from,
                format!("a repetition of at least {min} times exceeds its maximum"),
            ));
        }
        if min.max(max.unwrap_or(0)) > REPEAT_MAX {
            return Err((from, format!("at most {REPEAT_MAX} repetitions")));
        }
        Ok((min, max))
    }

    fn gnu(&mut self, letter: u8, from: usize) -> Result<(), RuleError> {
        let word = ByteSet::named(b"word", false).unwrap_or_default();
        let space = ByteSet::named(b"space", false).unwrap_or_default();
        match letter {
            b'w' => self.out.set(word),
            b'W' => self.out.set(word.inverse()),
            b's' => self.out.set(space),
            b'S' => self.out.set(space.inverse()),
            b'b' => self.out.assertion(r"\b"),
            b'B' => self.out.assertion(r"\B"),
            b'<' => self.out.assertion(r"\b{start}"),
            b'>' => self.out.assertion(r"\b{end}"),
            b'`' => self.out.assertion(r"\A"),
            b'\'' => self.out.assertion(r"\z"),
            b'1'..=b'9' => {
                return Err((from, "back references are not supported".to_owned()));
            }
            // The C library takes it for the letter, but where case is ignored never finds a small one.
            _ => {
                let why = format!("unknown escape `\\{}` in this syntax", char::from(letter));
                return Err((from, why));
            }
        }
        Ok(())
    }
}

/// An element between the brackets, and where it ends.
enum BracketElement {
    Byte(u8),
    Set(ByteSet),
}

/// Reads a bracket expression (`[^a-z[:digit:]_]`) from behind the opening bracket; returns the set and
/// where its brackets end.
fn bracket(pattern: &[u8], from: usize, flags: Flags) -> Result<(ByteSet, usize), RuleError> {
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
                    "a hyphen must be first, last, or between the ends of a range".to_owned(),
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
) -> Result<usize, RuleError> {
    let (first, end) = element(pattern, at, flags)?;
    let is_range =
        pattern.get(end) == Some(&b'-') && pattern.get(end + 1).is_some_and(|byte| *byte != b']');
    if !is_range {
        match first {
            BracketElement::Byte(byte) => set.insert(byte),
            BracketElement::Set(other) => set.add(other),
        }
        return Ok(end);
    }
    let (last, range_end) = element(pattern, end + 1, flags)?;
    // The GNU C library compares bounds in upper case where case is ignored: `[A-z]` is `[A-Z]`.
    let bound = |byte: u8| if flags.ignore_case { byte.to_ascii_uppercase() } else { byte };
    match (first, last) {
        (BracketElement::Byte(first), BracketElement::Byte(last))
            if bound(first) <= bound(last) =>
        {
            set.add(ByteSet::of(|byte| (bound(first)..=bound(last)).contains(byte)));
            Ok(range_end)
        }
        _ => Err((at, "the end of the range is before its start".to_owned())),
    }
}

/// A byte, `[:name:]`, `[.x.]` or `[=x=]`.
fn element(pattern: &[u8], at: usize, flags: Flags) -> Result<(BracketElement, usize), RuleError> {
    let byte = pattern.get(at).copied().unwrap_or_default();
    let mark = match pattern.get(at + 1) {
        Some(mark @ (b':' | b'.' | b'=')) if byte == b'[' => *mark,
        _ => return Ok((BracketElement::Byte(byte), at + 1)),
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
        (b':', b"ascii" | b"word") => wrong("unknown character class"),
        (b':', _) => match ByteSet::named(name, flags.ignore_case) {
            Some(set) => Ok((BracketElement::Set(set), end)),
            None => wrong("unknown character class"),
        },
        (_, [byte]) => Ok((BracketElement::Byte(*byte), end)),
        _ => wrong("unknown collating element"),
    }
}
