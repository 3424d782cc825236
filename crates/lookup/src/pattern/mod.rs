//! Tables of regular expressions (Postfix's regexp_table(5) and pcre_table(5)).
//!
//! Both syntaxes are translated to that of the `regex` crate, byte for byte: as in Postfix a pattern knows no
//! characters beyond ASCII, so that `.` is one byte. Features without a translation (back-references, look-around) are
//! errors with a position.

mod bytes;
mod output;
mod perl;
mod perl_class;
mod posix;

use super::lines::{Lines, is_space};
use super::mistake::{TableFileError, too_large};
use super::rules::{Builder, RULES_BYTES_MAX, RuleError, Rules, negation, skip_space};
use super::table::{EntryText, Judge};
use super::template::{Template, TemplatePart};
use super::{Entry, LookupError, LookupErrorKind, Table, table};
use output::Translated;
use regex::bytes::{Regex, RegexBuilder};

/// Maximum bytes of memory of a compiled pattern, and again for its cache of earlier keys.
pub const PATTERN_BYTES_MAX: usize = 1 << 20;
/// Patterns that a file may have.
pub const PATTERNS_MAX: usize = 20_000;

/// Syntax of patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternSyntax {
    /// POSIX's extended regular expressions (`regexp`).
    Posix,
    /// Perl's (`pcre`).
    Perl,
}

/// Patterns, each with its answer. The first that matches the whole key, wins.
#[derive(Debug)]
pub struct PatternTable {
    rules: Rules<Pattern, Template>,
}

#[derive(Debug)]
struct Pattern {
    regex: Regex,
    is_negated: bool,
}

impl PatternTable {
    /// Reads a file.
    ///
    /// # Errors
    /// Returns all errors. Postfix skips an invalid rule; here the whole file is rejected, since later rules would
    /// change their meaning.
    pub fn read(
        content: &[u8],
        syntax: PatternSyntax,
    ) -> Result<PatternTable, Vec<TableFileError>> {
        PatternTable::read_judged(content, syntax, &table::any)
    }

    /// The same, of answers that can be used.
    ///
    /// # Errors
    /// Likewise, and all answers that can't.
    pub fn read_judged(
        content: &[u8],
        syntax: PatternSyntax,
        judge: Judge<'_>,
    ) -> Result<PatternTable, Vec<TableFileError>> {
        if content.len() > RULES_BYTES_MAX {
            return Err(too_large(content.len(), RULES_BYTES_MAX));
        }
        let mut builder = Builder::new();
        for line in Lines::new(content) {
            if builder.len() == PATTERNS_MAX {
                builder.wrong(&line, format!("at most {PATTERNS_MAX} patterns in a file"));
                break;
            }
            builder.read(
                &line,
                |text, from| read_test(text, from, syntax),
                |text| read_rule(text, syntax, judge),
            );
        }
        Ok(PatternTable { rules: builder.finish()? })
    }
}

impl Table for PatternTable {
    fn find(&self, key: &str) -> Result<Option<Entry>, LookupError> {
        let key = key.as_bytes();
        let found = self.rules.first(|p| p.regex.is_match(key) != p.is_negated);
        match found {
            None => Ok(None),
            Some((_, Template::Fixed(text))) => Ok(Some(Entry::text(text.clone()))),
            Some((pattern, Template::Parts(parts))) => pattern.fill(parts, key).map(Some),
        }
    }
}

impl Pattern {
    /// Inserts the matched groups into the answer. A group that did not match is empty.
    fn fill(&self, parts: &[TemplatePart], key: &[u8]) -> Result<Entry, LookupError> {
        let captures = self.regex.captures(key);
        let (mut text, mut filled) = (Vec::new(), Vec::new());
        let end_of = |text: &[u8]| u32::try_from(text.len()).unwrap_or(u32::MAX);
        for part in parts {
            match part {
                TemplatePart::Text(fixed) => text.extend_from_slice(fixed.as_bytes()),
                TemplatePart::Group(number) => {
                    let group = captures.as_ref().and_then(|captures| captures.get(*number));
                    let start = end_of(&text);
                    text.extend_from_slice(group.map(|group| group.as_bytes()).unwrap_or_default());
                    filled.push(start..end_of(&text));
                }
            }
        }
        String::from_utf8(text).map(|text| Entry::filled(text, filled)).map_err(|_| {
            LookupError::new(LookupErrorKind::Key, "a group of the pattern splits a character")
        })
    }
}

/// Parses the text after an `if`.
fn read_test(text: &[u8], from: usize, syntax: PatternSyntax) -> Result<Pattern, RuleError> {
    let (pattern, _, end) = read_pattern(text, from, syntax)?;
    let behind = skip_space(text, end);
    if behind < text.len() {
        let help = "lines between `if` and `endif` must not begin with white space";
        return Err((behind, format!("no text is allowed after the pattern of an `if`; {help}")));
    }
    Ok(pattern)
}

/// Reads a pattern and its answer.
fn read_rule(
    text: &[u8],
    syntax: PatternSyntax,
    judge: Judge<'_>,
) -> Result<(Pattern, Template), RuleError> {
    let (pattern, groups, end) = read_pattern(text, 0, syntax)?;
    let groups = (!pattern.is_negated).then_some(groups);
    let from = skip_space(text, end);
    let answer = Template::read(text, from, groups)?;
    let (text, goes_on) = answer.fixed_part();
    let entry = EntryText { key: None, text, goes_on, so_far: None };
    table::check_usable(judge, &entry).map_err(|why| (from, why))?;
    Ok((pattern, answer))
}

/// Reads `!/pattern/flags`; also returns how many groups it has, and where it ends.
fn read_pattern(
    text: &[u8],
    from: usize,
    syntax: PatternSyntax,
) -> Result<(Pattern, usize, usize), RuleError> {
    let (is_negated, start) = negation(text, from);
    let Some(delimiter) = text.get(start).copied() else {
        return Err((text.len(), "pattern missing".to_owned()));
    };
    if delimiter.is_ascii_alphanumeric() {
        let wanted = "expected a pattern (for example `/^user@/`), `if` or `endif`";
        return Err((start, wanted.to_owned()));
    }
    let pattern_start = start + 1;
    let Some(pattern_end) = closing(text, pattern_start, delimiter) else {
        let delimiter = String::from_utf8_lossy(&[delimiter]).into_owned();
        return Err((start, format!("the pattern is not closed by another `{delimiter}`")));
    };
    let flags_start = pattern_end + 1;
    let flags = text.get(flags_start..).unwrap_or_default();
    let flags_len = flags.iter().take_while(|byte| !is_space(**byte)).count();
    let flags = flags.get(..flags_len).unwrap_or_default();
    let pattern = text.get(pattern_start..pattern_end).unwrap_or_default();
    let unknown = |at: usize| {
        let flag = flags.get(at..).map(String::from_utf8_lossy).unwrap_or_default();
        let flag = flag.chars().next().unwrap_or_default();
        (flags_start + at, format!("unknown flag `{flag}`; put white space before the value"))
    };
    let translated = match syntax {
        PatternSyntax::Posix => {
            posix::translate(pattern, posix::Flags::read(flags).map_err(unknown)?)
        }
        PatternSyntax::Perl => perl::translate(pattern, perl::Flags::read(flags).map_err(unknown)?),
    };
    let translated = translated.map_err(|(at, why)| (pattern_start + at, why))?;
    let regex = compile(&translated).map_err(|why| (start, why))?;
    Ok((Pattern { regex, is_negated }, translated.groups, flags_start + flags_len))
}

/// Position of the closing delimiter. A backslash before a delimiter makes it part of the pattern.
fn closing(text: &[u8], from: usize, delimiter: u8) -> Option<usize> {
    let mut bytes = text.iter().enumerate().skip(from);
    while let Some((at, byte)) = bytes.next() {
        if *byte == b'\\' {
            bytes.next();
        } else if *byte == delimiter {
            return Some(at);
        }
    }
    None
}

fn compile(translated: &Translated) -> Result<Regex, String> {
    RegexBuilder::new(&translated.regex)
        .unicode(false)
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(limit) => {
                format!("the compiled pattern needs more than {limit} bytes: repeat less")
            }
            // Translated patterns are valid except for their nesting depth.
            error => {
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                format!("unsupported pattern: {why}")
            }
        })
}

#[cfg(test)]
mod tests;
