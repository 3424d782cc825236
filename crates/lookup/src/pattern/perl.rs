//! Perl's regular expressions, as PCRE has them without UTF: Postfix's `pcre` tables.

use super::super::lines::is_space;
use super::super::rules::RuleError;
use super::bytes::ByteSet;
use super::output::{Output, Translated, number};
use super::perl_class::{self, Escape};

/// PCRE's own limit.
const REPEAT_MAX: u32 = 65_535;

/// Letters after the pattern; each toggles its flag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flags {
    options: Options,
    /// The match begins where the key begins.
    anchored: bool,
}

/// Options that a group may set.
#[derive(Clone, Copy, Debug)]
struct Options {
    ignore_case: bool,
    /// `^` and `$` match at line ends too.
    lines: bool,
    /// `.` matches line ends.
    dot_all: bool,
    /// White space and comments are ignored in the pattern.
    spaced: bool,
    /// Quantifiers take as little as they can, and with `?` as much.
    lazy: bool,
}

impl Flags {
    /// An unknown letter is an error; returns its position.
    pub(super) fn read(letters: &[u8]) -> Result<Flags, usize> {
        let mut flags = Flags {
            options: Options {
                ignore_case: true,
                lines: false,
                dot_all: true,
                spaced: false,
                lazy: false,
            },
            anchored: false,
        };
        for (at, letter) in letters.iter().enumerate() {
            let flag = match letter {
                b'i' => &mut flags.options.ignore_case,
                b'm' => &mut flags.options.lines,
                b's' => &mut flags.options.dot_all,
                b'x' => &mut flags.options.spaced,
                b'U' => &mut flags.options.lazy,
                b'A' => &mut flags.anchored,
                // `$` never matches before a line end here, and unknown escapes are mistakes anyway.
                b'E' | b'X' => continue,
                _ => return Err(at),
            };
            *flag = !*flag;
        }
        Ok(flags)
    }
}

/// Translates a pattern.
pub(super) fn translate(pattern: &[u8], flags: Flags) -> Result<Translated, RuleError> {
    let options = flags.options;
    let mut perl = Perl { pattern, options, at: 0, open: Vec::new(), out: Output::default() };
    while let Some(byte) = perl.peek(0) {
        perl.read(byte)?;
    }
    match perl.open.pop() {
        Some(Group { at, .. }) => Err((at, "this group is not closed".to_owned())),
        None => Ok(perl.out.finish(flags.anchored)),
    }
}

/// A group that is open.
struct Group {
    /// Start of the group in the pattern, and in the output.
    at: usize,
    start: usize,
    /// Options restored after the group.
    options: Options,
}

struct Perl<'a> {
    pattern: &'a [u8],
    options: Options,
    at: usize,
    open: Vec<Group>,
    out: Output,
}

impl Perl<'_> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.pattern.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &[u8] {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    /// Parses the element that begins with this byte.
    fn read(&mut self, byte: u8) -> Result<(), RuleError> {
        let from = self.at;
        self.at += 1;
        let Options { ignore_case, lines, dot_all, spaced, .. } = self.options;
        match byte {
            _ if spaced && is_space(byte) => {}
            b'#' if spaced => {
                let len = memchr::memchr(b'\n', self.rest()).unwrap_or(self.rest().len());
                self.at += len;
            }
            b'\\' => self.escape(from)?,
            b'[' => {
                let (set, end) = perl_class::read(self.pattern, self.at, ignore_case)?;
                self.at = end;
                self.out.set(set);
            }
            b'(' => self.open(from)?,
            b')' => match self.open.pop() {
                Some(group) => {
                    self.options = group.options;
                    self.out.close(group.start);
                }
                None => return Err((from, "unmatched closing parenthesis".to_owned())),
            },
            b'|' => self.out.or(),
            b'.' => self.out.set(ByteSet::of(|byte| dot_all || *byte != b'\n')),
            b'^' => self.out.assertion(if lines { "(?m:^)" } else { r"\A" }),
            b'$' => self.out.assertion(if lines { "(?m:$)" } else { r"\z" }),
            b'*' => self.repeat(from, 0, None)?,
            b'+' => self.repeat(from, 1, None)?,
            b'?' => self.repeat(from, 0, Some(1))?,
            b'{' => match self.braces() {
                Some((min, max, end)) => {
                    self.at = end;
                    self.repeat(from, min, max)?;
                }
                None => self.out.byte(byte, false),
            },
            _ => self.out.byte(byte, ignore_case),
        }
        Ok(())
    }

    /// `{2}`, `{2,}` or `{2,5}` with its end; other braces are text.
    fn braces(&self) -> Option<(u32, Option<u32>, usize)> {
        let (min, mut at) = number(self.pattern, self.at)?;
        let mut max = Some(min);
        if self.pattern.get(at) == Some(&b',') {
            let written = number(self.pattern, at + 1);
            max = written.map(|(max, _)| max);
            at = written.map_or(at + 1, |(_, end)| end);
        }
        (self.pattern.get(at) == Some(&b'}')).then_some((min, max, at + 1))
    }

    fn repeat(&mut self, from: usize, min: u32, max: Option<u32>) -> Result<(), RuleError> {
        if self.out.repeatable() != Some(false) {
            return Err((from, "nothing to repeat".to_owned()));
        }
        if max.is_some_and(|max| max < min) {
            return Err((
                from,
                format!("a repetition of at least {min} times exceeds its maximum"),
            ));
        }
        if min.max(max.unwrap_or(0)) > REPEAT_MAX {
            return Err((from, format!("at most {REPEAT_MAX} repetitions")));
        }
        let is_turned = match self.peek(0) {
            Some(b'?') => true,
            Some(b'+') => {
                let why = "possessive quantifiers (`+` after a quantifier) are not supported";
                return Err((self.at, why.to_owned()));
            }
            _ => false,
        };
        self.at += usize::from(is_turned);
        self.out.repeat(min, max, self.options.lazy != is_turned);
        Ok(())
    }

    fn escape(&mut self, from: usize) -> Result<(), RuleError> {
        let (escape, end) = perl_class::escape(self.pattern, from)?;
        self.at = end;
        match escape {
            Escape::Byte(byte) => self.out.byte(byte, self.options.ignore_case),
            Escape::Set(set) => self.out.set(set),
            Escape::QuoteEnd => {}
            Escape::Quote => self.quoted(),
            Escape::Letter(letter) => self.letter(letter, from)?,
            Escape::Digits(value, octal) => {
                // PCRE: a reference if there are as many groups, otherwise a byte in octal. No pattern
                // has more groups than brackets.
                let groups_max = self.pattern.iter().filter(|byte| **byte == b'(').count();
                match octal {
                    Some((byte, octal_end)) if value >= 10 && value > groups_max => {
                        self.at = octal_end;
                        self.out.byte(byte, self.options.ignore_case);
                    }
                    _ => return Err((from, REFERENCE.to_owned())),
                }
            }
        }
        Ok(())
    }

    /// Text between `\Q` and `\E`.
    fn quoted(&mut self) {
        let len = self.rest().windows(2).position(|pair| pair == b"\\E");
        let end = self.at + len.unwrap_or(self.rest().len());
        for byte in self.pattern.get(self.at..end).unwrap_or_default() {
            self.out.byte(*byte, self.options.ignore_case);
        }
        self.at = end;
    }

    /// A letter after a backslash: an assertion, or an unsupported feature.
    fn letter(&mut self, letter: u8, from: usize) -> Result<(), RuleError> {
        match letter {
            b'b' => self.out.assertion(r"\b"),
            b'B' => self.out.assertion(r"\B"),
            b'A' => self.out.assertion(r"\A"),
            b'z' | b'Z' => self.out.assertion(r"\z"),
            b'C' => self.out.set(ByteSet::default().inverse()),
            b'R' => self.out.raw(r"(?:\r\n|[\n-\r\x85])"),
            b'g' | b'k' => return Err((from, REFERENCE.to_owned())),
            b'G' | b'K' | b'X' | b'p' | b'P' => {
                return Err((from, format!("`\\{}` is not supported", char::from(letter))));
            }
            _ => {
                return Err((from, format!("unknown escape `\\{}`", char::from(letter))));
            }
        }
        Ok(())
    }

    /// Opens a group, or parses a construct with the same start.
    fn open(&mut self, from: usize) -> Result<(), RuleError> {
        if self.peek(0) == Some(b'*') {
            return Err((from, "verbs (`(*`) are not supported".to_owned()));
        }
        if self.peek(0) != Some(b'?') {
            return self.open_as(from, true);
        }
        self.at += 1;
        let rest = self.rest();
        let not_here = |what: &str| Err((from, format!("patterns cannot {what}")));
        match rest {
            [b'#', ..] => match memchr::memchr(b')', rest) {
                Some(len) => self.at += len + 1,
                None => return Err((from, "comment not closed".to_owned())),
            },
            [b'=', ..] | [b'!', ..] => return not_here("look ahead: try `if` and `endif`"),
            [b'<', b'=' | b'!', ..] => return not_here("look behind: try `if` and `endif`"),
            [b'>', ..] => return not_here("have atomic groups"),
            [b'|', ..] => return not_here("number groups anew in each alternative"),
            [b'(', ..] => return not_here("have conditions: try `if` and `endif`"),
            [b'R' | b'&' | b'+' | b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] | [b'P', b'>', ..] => {
                return not_here("call groups");
            }
            [b'P', b'=', ..] => return Err((from, REFERENCE.to_owned())),
            [b'P', b'<', ..] => return self.named(from, 2, b'>'),
            [b'<', ..] => return self.named(from, 1, b'>'),
            [b'\'', ..] => return self.named(from, 1, b'\''),
            _ => return self.set_options(from),
        }
        Ok(())
    }

    fn open_as(&mut self, from: usize, is_counted: bool) -> Result<(), RuleError> {
        let start = self.out.open(is_counted);
        self.open.push(Group { at: from, start, options: self.options });
        Ok(())
    }

    /// A named group; the name is ignored.
    fn named(&mut self, from: usize, skip: usize, close: u8) -> Result<(), RuleError> {
        let name = self.rest().get(skip..).unwrap_or_default();
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = name.iter().take_while(|byte| is_name(byte)).count();
        let starts_well = name.first().is_some_and(|byte| !byte.is_ascii_digit());
        if len == 0 || !starts_well || name.get(len) != Some(&close) {
            return Err((from, "invalid group name".to_owned()));
        }
        self.at += skip + len + 1;
        self.open_as(from, true)
    }

    /// `(?i-s)` for the rest of this group, `(?i-s:` for a new group.
    fn set_options(&mut self, from: usize) -> Result<(), RuleError> {
        let mut options = self.options;
        let mut is_on = true;
        let end = loop {
            let letter = self.peek(0);
            self.at += 1;
            let flag = match letter {
                Some(b'i') => &mut options.ignore_case,
                Some(b'm') => &mut options.lines,
                Some(b's') => &mut options.dot_all,
                Some(b'x') => &mut options.spaced,
                Some(b'U') => &mut options.lazy,
                Some(b'-') if is_on => {
                    is_on = false;
                    continue;
                }
                Some(end @ (b')' | b':')) => break end,
                _ => return Err((from, "unknown kind of group".to_owned())),
            };
            *flag = is_on;
        };
        if end == b':' {
            self.open_as(from, false)?;
        }
        self.options = options;
        Ok(())
    }
}

const REFERENCE: &str = "back references are not supported";
