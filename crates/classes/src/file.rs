//! Files of rules: one line each, in order.
//!
//! ```text
//! # a comment
//! CODE STATUS PROVIDER CLASS[/KIND] [PATTERN]
//! ```

use crate::class::{FailureKind, ReplyClass};
use crate::rule::{CodePattern, StatusPattern};
use regex::bytes::{Regex, RegexBuilder};
use std::fmt;

/// Octets of a file.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// Rules of all files together, ours not counted.
pub const RULES_MAX: usize = 2_000;
/// Octets of memory that one pattern may take once it is compiled.
pub const PATTERN_BYTES_MAX: usize = 1 << 18;

/// A file as it was read.
#[derive(Clone, Copy, Debug)]
pub struct RuleFile<'a> {
    /// Its name for errors and results.
    pub name: &'a str,
    /// Its content.
    pub text: &'a [u8],
}

/// A line.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) code: CodePattern,
    pub(crate) status: StatusPattern,
    /// Index into the providers; `None`: any provider.
    pub(crate) provider: Option<usize>,
    pub(crate) class: ReplyClass,
    /// `None`: the class's default.
    pub(crate) kind: Option<FailureKind>,
    /// Index into the patterns; `None`: any text.
    pub(crate) pattern: Option<usize>,
    /// Index of its file.
    pub(crate) file: usize,
    pub(crate) line: u32,
}

/// A provider that rules name.
#[derive(Clone, Debug)]
pub(crate) struct Provider {
    pub(crate) name: Box<str>,
    /// Place of its first name.
    pub(crate) place: TextPosition,
}

/// The result of reading files.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) files: Vec<Box<str>>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) patterns: Vec<Box<str>>,
    pub(crate) providers: Vec<Provider>,
    pub(crate) mistakes: Vec<RuleFileError>,
    /// True for built-in files: no limits of rules and providers, and patterns are checked by a test.
    pub(crate) is_ours: bool,
}

/// A place in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TextPosition {
    pub(crate) file: usize,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// An error in a line: its octet, and its text.
pub(crate) type RuleSyntaxError = (usize, String);

impl Reading {
    /// Reads the next file.
    pub(crate) fn read(&mut self, source: RuleFile<'_>) {
        let file = self.files.len();
        self.files.push(source.name.into());
        let first = TextPosition { file, line: 1, column: 1 };
        if source.text.len() > FILE_BYTES_MAX {
            let text = format!("a file of rules has at most {FILE_BYTES_MAX} octets");
            return self.wrong(first, text);
        }
        for (number, line) in (1..).zip(source.text.split(|byte| *byte == b'\n')) {
            let place = TextPosition { file, line: number, column: 1 };
            let text = match std::str::from_utf8(line) {
                Ok(text) => text.trim_ascii_end(),
                Err(error) => {
                    let good = String::from_utf8_lossy(&line[..error.valid_up_to()]);
                    let column = column(&good, good.len());
                    self.wrong(TextPosition { column, ..place }, "not UTF-8".to_owned());
                    continue;
                }
            };
            let words = text.trim_ascii_start();
            if words.is_empty() || words.starts_with('#') {
                continue;
            }
            if let Err((at, why)) = self.read_rule(text, place) {
                self.wrong(TextPosition { column: column(text, at), ..place }, why);
            }
        }
    }

    fn wrong(&mut self, place: TextPosition, text: String) {
        if self.mistakes.len() < MISTAKES_MAX {
            let file = self.files[place.file].clone();
            let (line, column) = (place.line, place.column);
            self.mistakes.push(RuleFileError { file, line, column, text: text.into() });
        }
    }

    /// The index of a provider.
    fn provider(&mut self, name: &str, place: TextPosition) -> usize {
        let known = self.providers.iter().position(|provider| *provider.name == *name);
        known.unwrap_or_else(|| {
            self.providers.push(Provider { name: name.into(), place });
            self.providers.len() - 1
        })
    }

    fn read_rule(&mut self, text: &str, place: TextPosition) -> Result<(), RuleSyntaxError> {
        let mut words = Words::new(text);
        let (at_code, word) = words.next("a code")?;
        let code = CodePattern::read(word).map_err(|why| (at_code, why))?;
        let (at, word) = words.next("a status, or *")?;
        let status = StatusPattern::read(word).map_err(|why| (at, why))?;
        let (at_provider, provider) = words.next("a provider, or *")?;
        let (at, word) = words.next("a class")?;
        let (class, kind) = read_class(word).map_err(|why| (at, why))?;
        let (at, pattern) = words.rest();
        let is_of_anybody = provider == "*";
        if !is_of_anybody && !is_name(provider) {
            return Err((at_provider, format!("`{provider}` is not a provider name")));
        }
        if pattern.is_empty() && is_of_anybody && code.is_broad() && status.is_broad() {
            let why = "this matches every failure: add a code, status, provider or pattern";
            return Err((at_code, why.to_owned()));
        }
        if self.rules.len() >= RULES_MAX && !self.is_ours {
            return Err((at_code, format!("at most {RULES_MAX} rules")));
        }
        let pattern = if pattern.is_empty() {
            None
        } else {
            if !self.is_ours {
                compiled(pattern).map_err(|(within, why)| (at + within, why))?;
            }
            self.patterns.push(pattern.into());
            Some(self.patterns.len() - 1)
        };
        let provider = (!is_of_anybody).then(|| {
            let place = TextPosition { column: column(text, at_provider), ..place };
            self.provider(provider, place)
        });
        let (file, line) = (place.file, place.line);
        self.rules.push(Rule { code, status, provider, class, kind, pattern, file, line });
        Ok(())
    }
}

/// A provider's name is of these characters, as in shaping files.
fn is_name(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=64).contains(&word.len()) && word.bytes().all(is_part)
}

fn read_class(word: &str) -> Result<(ReplyClass, Option<FailureKind>), String> {
    let (class, kind) = match word.split_once('/') {
        Some((class, kind)) => (class, Some(kind.parse()?)),
        None => (word, None),
    };
    let class: ReplyClass = class.parse()?;
    if class == ReplyClass::Unclassified {
        return Err("`unclassified` is for failures without a matching rule".to_owned());
    }
    Ok((class, kind))
}

/// A pattern, if it can be used.
pub(crate) fn compiled(pattern: &str) -> Result<Regex, RuleSyntaxError> {
    let parsed = regex_syntax::ParserBuilder::new()
        .utf8(false)
        .unicode(false)
        .case_insensitive(true)
        .build()
        .parse(pattern);
    if let Err(error) = parsed {
        let (at, why) = match &error {
            regex_syntax::Error::Parse(error) => {
                (error.span().start.offset, error.kind().to_string())
            }
            regex_syntax::Error::Translate(error) => {
                (error.span().start.offset, error.kind().to_string())
            }
            other => (0, other.to_string()),
        };
        return Err((at, format!("the pattern: {}", why.lines().next().unwrap_or_default())));
    }
    let built = RegexBuilder::new(pattern)
        .unicode(false)
        .case_insensitive(true)
        .size_limit(PATTERN_BYTES_MAX)
        .build();
    match built {
        Ok(regex) if matches_everything(&regex) => {
            Err((0, "this pattern matches everything".to_owned()))
        }
        Ok(regex) => Ok(regex),
        Err(_) => {
            let why = format!("the compiled pattern needs more than {PATTERN_BYTES_MAX} octets");
            Err((0, why))
        }
    }
}

/// Returns true if a pattern matches texts without common parts, which is hardly intended.
#[must_use]
pub fn matches_everything(regex: &Regex) -> bool {
    ["x", "Q", "7", "#", " ", "\u{e9}"]
        .iter()
        .all(|text| regex.is_match(text.repeat(64).as_bytes()))
}

/// The column, from 1, of an octet of a line.
fn column(line: &str, at: usize) -> u32 {
    let before = line.get(..at).unwrap_or(line);
    u32::try_from(before.chars().count() + 1).unwrap_or(u32::MAX)
}

/// The tokens of a line, with their offsets.
struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    fn new(line: &'a str) -> Words<'a> {
        let mut words = Words { line, at: 0 };
        words.skip_space();
        words
    }

    fn skip_space(&mut self) {
        let rest = &self.line[self.at..];
        self.at += rest.len() - rest.trim_ascii_start().len();
    }

    /// Returns the next token; `what` describes it in the error.
    fn next(&mut self, what: &str) -> Result<(usize, &'a str), RuleSyntaxError> {
        let start = self.at;
        let rest = &self.line[start..];
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
        if end == 0 {
            return Err((start, format!("the line ends before {what}")));
        }
        self.at += end;
        self.skip_space();
        Ok((start, &rest[..end]))
    }

    /// All that is left.
    fn rest(&self) -> (usize, &'a str) {
        (self.at, &self.line[self.at..])
    }
}

/// Maximum number of reported errors, for all files together.
pub const MISTAKES_MAX: usize = 100;

/// Something wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleFileError {
    /// The file, as it was named.
    pub file: Box<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
    /// The error, in one line.
    pub text: Box<str>,
}

impl fmt::Display for RuleFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.text)
    }
}
