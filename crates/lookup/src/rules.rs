//! Ordered rules: the first one that holds gives the answer. Rules between `if` and `endif` are tried only if the `if`
//! holds.

use super::lines::{Line, is_space, trim_end};
use super::mistake::Mistakes;

/// Bytes that a file of rules may have.
pub const RULES_BYTES_MAX: usize = 16 << 20;

/// The rules of one file.
#[derive(Debug)]
pub(crate) struct Rules<T, A> {
    steps: Vec<RuleStep<T, A>>,
}

#[derive(Debug)]
enum RuleStep<T, A> {
    /// If the test fails, continues at `after`.
    If { test: T, after: usize },
    /// If the test holds, this is the answer.
    Answer { test: T, answer: A },
}

impl<T, A> Rules<T, A> {
    /// The first rule with a test that holds.
    pub(crate) fn first(&self, holds: impl Fn(&T) -> bool) -> Option<(&T, &A)> {
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            at = match step {
                RuleStep::If { test, after } if !holds(test) => *after,
                RuleStep::Answer { test, answer } if holds(test) => return Some((test, answer)),
                RuleStep::If { .. } | RuleStep::Answer { .. } => at + 1,
            };
        }
        None
    }
}

/// Builds rules, and collects errors.
#[derive(Debug)]
pub(crate) struct Builder<T, A> {
    steps: Vec<RuleStep<T, A>>,
    /// Index of each open `if`, and its position.
    open: Vec<(usize, (u32, u32))>,
    mistakes: Mistakes,
}

/// Kind of a line, and the start of its rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keyword {
    If(usize),
    EndIf(usize),
    Rule,
}

/// An error: the byte of the line at which it was found, and its text.
pub(crate) type RuleError = (usize, String);

impl<T, A> Builder<T, A> {
    pub(crate) fn new() -> Builder<T, A> {
        Builder { steps: Vec::new(), open: Vec::new(), mistakes: Mistakes::default() }
    }

    /// Adds a line. `test` parses the text after an `if`, `rule` a test and its answer. Both are given the text without
    /// trailing white space, and the start.
    pub(crate) fn read(
        &mut self,
        line: &Line<'_>,
        test: impl FnOnce(&[u8], usize) -> Result<T, RuleError>,
        rule: impl FnOnce(&[u8]) -> Result<(T, A), RuleError>,
    ) {
        let text = trim_end(&line.text);
        let wrong = match keyword(text) {
            _ if line.continues_nothing() => {
                Some((0, "a rule must begin at the start of a line".to_owned()))
            }
            // An invalid `if` counts as open, so that its `endif` is not reported as a second error.
            Keyword::If(from) => {
                self.open.push((self.steps.len(), line.place(0)));
                let test = test(text, from);
                test.map(|test| self.steps.push(RuleStep::If { test, after: usize::MAX })).err()
            }
            Keyword::EndIf(from) => self.close(text, from).err(),
            Keyword::Rule => rule(text)
                .map(|(test, answer)| self.steps.push(RuleStep::Answer { test, answer }))
                .err(),
        };
        if let Some((offset, text)) = wrong {
            self.mistakes.push(line.place(offset), text);
        }
    }

    fn close(&mut self, text: &[u8], from: usize) -> Result<(), RuleError> {
        let Some((index, _)) = self.open.pop() else {
            return Err((0, "`endif` without `if`".to_owned()));
        };
        let end = self.steps.len();
        if let Some(RuleStep::If { after, .. }) = self.steps.get_mut(index) {
            *after = end;
        }
        if from < text.len() {
            return Err((from, "no text is allowed after `endif`".to_owned()));
        }
        Ok(())
    }

    /// Number of rules.
    pub(crate) fn len(&self) -> usize {
        self.steps.len()
    }

    /// A mistake that is one of the file rather than of a line's parts.
    pub(crate) fn wrong(&mut self, line: &Line<'_>, text: String) {
        self.mistakes.push(line.place(0), text);
    }

    /// The rules, or all mistakes.
    pub(crate) fn finish(mut self) -> Result<Rules<T, A>, Vec<super::TableFileError>> {
        for (_, place) in self.open {
            self.mistakes.push(place, "`if` without `endif`");
        }
        if self.mistakes.is_empty() {
            Ok(Rules { steps: self.steps })
        } else {
            Err(self.mistakes.into_list())
        }
    }
}

/// Checks if a line begins with `if` or `endif`, in either case.
fn keyword(text: &[u8]) -> Keyword {
    let behind = |word: &[u8]| {
        let is_there = text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
        let goes_on = text.get(word.len()).is_some_and(u8::is_ascii_alphanumeric);
        (is_there && !goes_on).then(|| skip_space(text, word.len()))
    };
    if let Some(from) = behind(b"if") {
        return Keyword::If(from);
    }
    behind(b"endif").map_or(Keyword::Rule, Keyword::EndIf)
}

/// The next byte that is not white space, from one on.
pub(crate) fn skip_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| is_space(**byte)).count()
}

/// Returns true if a test is negated by exclamation marks before it, and its start.
pub(crate) fn negation(text: &[u8], from: usize) -> (bool, usize) {
    let mut is_negated = false;
    let mut at = skip_space(text, from);
    while text.get(at) == Some(&b'!') {
        is_negated = !is_negated;
        at = skip_space(text, at + 1);
    }
    (is_negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_end_where_letters_and_digits_end() {
        assert_eq!(keyword(b"IF !/x/"), Keyword::If(3));
        assert_eq!(keyword(b"if/x/"), Keyword::If(2));
        assert_eq!(keyword(b"EndIf"), Keyword::EndIf(5));
        assert_eq!(keyword(b"ifx"), Keyword::Rule);
        assert_eq!(keyword(b"i"), Keyword::Rule);
        assert_eq!(negation(b"if ! !x", 2), (false, 6));
        assert_eq!(negation(b"!x", 0), (true, 1));
    }
}
