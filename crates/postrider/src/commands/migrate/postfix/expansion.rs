//! `$name`, `${name}`, `${name?yes:no}` and `${{a} == {b} ? {yes} : {no}}` in values of parameters (postconf(5)).

use crate::commands::migrate::report::SourceLine;
use std::cell::Cell;
use std::cmp::Ordering;

/// Names within names, as in Postfix.
const DEPTH_MAX: usize = 100;

/// Maximum number of names in one value, at all depths.
const NAMES_MAX: u32 = 100_000;

/// Bytes of a value.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// The reason why a value has no expansion.
#[derive(Debug)]
pub(super) struct ExpansionError {
    pub(super) origin: Option<SourceLine>,
    pub(super) why: String,
}

/// The text of a parameter before its expansion, and its place.
type Lookup<'a> = Box<dyn Fn(&str) -> Option<(String, SourceLine)> + 'a>;

/// Replaces names by values.
pub(super) struct Expansion<'a> {
    lookup: Lookup<'a>,
    names: Cell<u32>,
}

impl<'a> Expansion<'a> {
    pub(super) fn new(lookup: impl Fn(&str) -> Option<(String, SourceLine)> + 'a) -> Expansion<'a> {
        Expansion { lookup: Box::new(lookup), names: Cell::new(0) }
    }

    /// A parameter's value; empty if the parameter is unknown.
    ///
    /// # Errors
    /// Names that lead in a circle, a value that is too long, and braces without an end.
    pub(super) fn value(&self, name: &str) -> Result<String, ExpansionError> {
        self.named(name, &mut Vec::new())
    }

    /// The expansion of a text.
    ///
    /// # Errors
    /// As for [`Expansion::value`].
    pub(super) fn text(&self, text: &str) -> Result<String, ExpansionError> {
        self.expanded(text, &mut Vec::new())
    }

    fn named(&self, name: &str, within: &mut Vec<String>) -> Result<String, ExpansionError> {
        let Some((text, origin)) = (self.lookup)(name) else { return Ok(String::new()) };
        let fail = |why: String| ExpansionError { origin: Some(origin.clone()), why };
        if let Some(at) = within.iter().position(|one| one == name) {
            return Err(self.circle(within.get(at..).unwrap_or_default()));
        }
        self.names.set(self.names.get() + 1);
        if within.len() >= DEPTH_MAX || self.names.get() > NAMES_MAX {
            return Err(fail(format!("`{name}`: too many names within names")));
        }
        within.push(name.to_owned());
        let value = self.expanded(&text, within);
        within.pop();
        match value {
            Ok(value) if value.len() > VALUE_BYTES_MAX => {
                Err(fail(format!("the value of `{name}` is longer than {VALUE_BYTES_MAX} bytes")))
            }
            Ok(value) => Ok(value),
            Err(error) if error.origin.is_none() => Err(fail(format!("`{name}`: {}", error.why))),
            Err(error) => Err(error),
        }
    }

    /// The error for names in a circle, equal for each name.
    fn circle(&self, names: &[String]) -> ExpansionError {
        let first = (0..names.len()).min_by_key(|at| &names[*at]).unwrap_or(0);
        let mut around = [&names[first..], &names[..first]].concat();
        around.extend(around.first().cloned());
        let origin = around.first().and_then(|name| (self.lookup)(name)).map(|(_, origin)| origin);
        ExpansionError {
            origin,
            why: format!("`$` leads in a circle: `${}`", around.join("` → `$")),
        }
    }

    fn expanded(&self, text: &str, within: &mut Vec<String>) -> Result<String, ExpansionError> {
        let (mut out, mut rest) = (String::new(), text);
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            let first = after.chars().next();
            match first {
                Some('$') => {
                    out.push('$');
                    rest = after.get(1..).unwrap_or_default();
                }
                Some(open @ ('{' | '(')) => {
                    let close = if open == '{' { '}' } else { ')' };
                    let (inside, after) = enclosed(after, open, close)?;
                    out.push_str(&self.conditional(inside, within)?);
                    rest = after;
                }
                _ => {
                    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                    let end = after.find(|letter| !is_name(letter)).unwrap_or(after.len());
                    let (name, after) = after.split_at(end);
                    match name.is_empty() {
                        true => out.push('$'),
                        false => out.push_str(&self.named(name, within)?),
                    }
                    rest = after;
                }
            }
            if out.len() > VALUE_BYTES_MAX {
                return Err(ExpansionError {
                    origin: None,
                    why: format!("the value is longer than {VALUE_BYTES_MAX} bytes"),
                });
            }
        }
        out.push_str(rest);
        Ok(out)
    }

    /// The inside of `${…}`.
    fn conditional(
        &self,
        inside: &str,
        within: &mut Vec<String>,
    ) -> Result<String, ExpansionError> {
        let (holds, rest) = if inside.trim_start().starts_with('{') {
            self.comparison(inside, within)?
        } else {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
            let end = inside.find(|letter| !is_name(letter)).unwrap_or(inside.len());
            let (name, rest) = inside.split_at(end);
            let value = self.named(name, within)?;
            if rest.trim().is_empty() {
                return Ok(value);
            }
            (!value.is_empty(), rest)
        };
        let (yes, no) = branches(rest)?;
        self.expanded(if holds { yes } else { no }, within)
    }

    /// `{a} == {b}`, and the text after it.
    fn comparison<'t>(
        &self,
        text: &'t str,
        within: &mut Vec<String>,
    ) -> Result<(bool, &'t str), ExpansionError> {
        let (left, rest) = enclosed(text.trim_start(), '{', '}')?;
        let rest = rest.trim_start();
        let end = rest.find('{').unwrap_or(rest.len());
        let (operator, rest) = rest.split_at(end);
        let (right, rest) = enclosed(rest, '{', '}')?;
        let (left, right) = (self.expanded(left, within)?, self.expanded(right, within)?);
        let operator = operator.trim();
        let order = compare(left.trim(), right.trim(), operator.ends_with("level"));
        let holds = match operator.trim_end_matches("level").trim() {
            "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            ">=" => order.is_ge(),
            _ => return Err(wrong(&format!("`{operator}` is no comparison"))),
        };
        Ok((holds, rest))
    }
}

fn wrong(why: &str) -> ExpansionError {
    ExpansionError { origin: None, why: why.to_owned() }
}

/// Numbers by value, versions part by part, everything else as text.
fn compare(left: &str, right: &str, is_level: bool) -> Ordering {
    if is_level {
        let parts = |text: &str| -> Vec<u32> {
            text.split('.').map(|part| part.parse().unwrap_or(0)).collect()
        };
        let (mut left, mut right) = (parts(left), parts(right));
        let length = left.len().max(right.len());
        left.resize(length, 0);
        right.resize(length, 0);
        return left.cmp(&right);
    }
    match (left.parse::<i64>(), right.parse::<i64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        _ => left.cmp(right),
    }
}

/// The text between a bracket at the start and the one that closes it, and the text after that.
fn enclosed(text: &str, open: char, close: char) -> Result<(&str, &str), ExpansionError> {
    let mut depth = 0_u32;
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close {
            depth = depth.saturating_sub(1);
            if depth == 0 {
                let inside = text.get(open.len_utf8()..at).unwrap_or_default();
                return Ok((inside, text.get(at + close.len_utf8()..).unwrap_or_default()));
            }
        }
    }
    Err(wrong(&format!("`{open}` without `{close}`")))
}

/// `?yes`, `:no`, `?{yes}:{no}`.
fn branches(text: &str) -> Result<(&str, &str), ExpansionError> {
    let text = text.trim();
    let inside = |text: &'_ str| text.trim_start().starts_with('{');
    if let Some(yes) = text.strip_prefix('?') {
        if !inside(yes) {
            return Ok((yes, ""));
        }
        let (yes, rest) = enclosed(yes.trim_start(), '{', '}')?;
        let Some(no) = rest.trim_start().strip_prefix(':') else { return Ok((yes, "")) };
        return match inside(no) {
            true => Ok((yes, enclosed(no.trim_start(), '{', '}')?.0)),
            false => Ok((yes, no)),
        };
    }
    match text.strip_prefix(':') {
        Some(no) if inside(no) => Ok(("", enclosed(no.trim_start(), '{', '}')?.0)),
        Some(no) => Ok(("", no)),
        None => Err(wrong("`?` or `:` is missing in `${…}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(parameters: &[(&str, &str)]) -> Result<String, String> {
        let lookup = |name: &str| {
            let found = parameters.iter().position(|(one, _)| *one == name)?;
            let line = u32::try_from(found).unwrap() + 1;
            Some((parameters[found].1.to_owned(), SourceLine { file: "main.cf".to_owned(), line }))
        };
        let value = Expansion::new(lookup).value(parameters[0].0);
        value.map_err(|error| format!("{}: {}", error.origin.map_or(0, |at| at.line), error.why))
    }

    #[test]
    fn references_have_the_forms_of_postconf() {
        let of = |text: &str| value(&[("a", text), ("b", "x"), ("level", "3.6"), ("none", "")]);
        for (text, expected) in [
            ("$b.$b", "x.x"),
            ("${b}$(b)", "xx"),
            ("$$b $", "$b $"),
            ("${b?yes}${none?yes}", "yes"),
            ("${b:no}${none:no}", "no"),
            ("${b?{y $b}:{n}}${none?{y}:{n}}", "y xn"),
            ("${{$level} <level {2} ? {old} : {new}}", "new"),
            ("${{$b} == {x} ? {same}}", "same"),
            ("$unknown", ""),
        ] {
            assert_eq!(of(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn circles_and_bombs_name_their_line() {
        let why = value(&[("a", "$b"), ("b", "${c}"), ("c", "$a")]).unwrap_err();
        assert_eq!(why, "1: `$` leads in a circle: `$a` → `$b` → `$c` → `$a`");
        let names: Vec<String> = (0..40).map(|n| format!("v{n}")).collect();
        let texts: Vec<String> = (0..40).map(|n| format!("${{v{0}}}${{v{0}}}xx", n + 1)).collect();
        let mut all: Vec<(&str, &str)> =
            names.iter().zip(&texts).map(|(n, t)| (n.as_str(), t.as_str())).collect();
        let long = "x".repeat(1000);
        all.push(("v40", &long));
        let why = value(&all).unwrap_err();
        assert!(why.contains("longer than 1048576 bytes"), "{why}");
        all.retain(|(name, _)| *name != "v40");
        let empty: Vec<String> = texts.iter().map(|text| text.replace("xx", "")).collect();
        let all: Vec<(&str, &str)> =
            all.iter().zip(&empty).map(|((n, _), t)| (*n, t.as_str())).collect();
        assert!(value(&all).unwrap_err().contains("too many names"));
        assert_eq!(value(&[("a", "${b")]).unwrap_err(), "1: `a`: `{` without `}`");
    }
}
