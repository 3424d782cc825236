//! Rules that are ready to be asked.

use crate::class::{FailureKind, ReplyClass};
use crate::file::{FILE_BYTES_MAX, Provider, Reading, Rule, RuleFile, RuleFileError};
use crate::said::{PeerReply, push_words};
use regex::bytes::{RegexSet, RegexSetBuilder};
use std::sync::{Arc, LazyLock, OnceLock};

/// Name of the built-in rules.
pub const BUILTIN: &str = "builtin";

/// Octets of memory that all patterns together may take once they are compiled, and as many again for
/// each thread that uses them.
const SET_BYTES_MAX: usize = 16 << 20;

/// Our own rules, read once in the process: they are the same for all, and never change.
static BUILTIN_CLASSES: LazyLock<Arc<Classes>> = LazyLock::new(|| {
    let classes = Classes::read(&[]);
    Arc::new(classes.unwrap_or_else(|mistakes| unreachable!("{}", mistakes[0])))
});

/// Rules, in order.
#[derive(Debug)]
pub struct Classes {
    files: Vec<Box<str>>,
    rules: Vec<Rule>,
    patterns: Patterns,
    providers: Vec<Provider>,
}

/// All patterns as one. To compile ours takes a third of a start, and many a program that reads a configuration
/// never asks them anything: they wait for the first refusal.
#[derive(Debug)]
struct Patterns {
    texts: Vec<Box<str>>,
    set: OnceLock<Option<RegexSet>>,
}

impl Patterns {
    /// `None`: compiled, they take too much.
    fn set(&self) -> Option<&RegexSet> {
        self.set.get_or_init(|| self.compile()).as_ref()
    }

    fn compile(&self) -> Option<RegexSet> {
        RegexSetBuilder::new(&self.texts)
            .unicode(false)
            .case_insensitive(true)
            .size_limit(SET_BYTES_MAX)
            .dfa_size_limit(SET_BYTES_MAX)
            .build()
            .ok()
    }
}

/// The classification of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyClassification {
    /// Its cause.
    pub class: ReplyClass,
    /// Its remedy.
    pub kind: FailureKind,
    /// The rule, for [`Classes::place`]; `None`: no rule matches.
    pub rule: Option<u32>,
}

/// The line of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePosition<'a> {
    /// Its file; [`BUILTIN`] for reading.
    pub file: &'a str,
    /// From 1.
    pub line: u32,
}

/// The place of a provider's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// The file; [`BUILTIN`] for reading.
    pub file: &'a str,
    /// From 1.
    pub line: u32,
    /// From 1.
    pub column: u32,
}

impl Classes {
    /// Our own rules.
    #[must_use]
    pub fn builtin() -> Arc<Classes> {
        Arc::clone(&BUILTIN_CLASSES)
    }

    /// Rules of these files, in order, and ours behind them.
    ///
    /// # Errors
    /// All mistakes, in the order of files and lines.
    pub fn read(files: &[RuleFile<'_>]) -> Result<Classes, Vec<RuleFileError>> {
        let mut reading = Reading::default();
        for file in files {
            reading.read(*file);
        }
        reading.is_ours = true;
        reading.read(RuleFile { name: BUILTIN, text: include_bytes!("builtin.classes") });
        if !reading.mistakes.is_empty() {
            return Err(reading.mistakes);
        }
        let Reading { files: names, rules, providers, patterns: texts, .. } = reading;
        let patterns = Patterns { texts, set: OnceLock::new() };
        // That ours alone can be compiled is known from a test.
        if !files.is_empty() && patterns.set().is_none() {
            let file = names.first().cloned().unwrap_or_default();
            let text = format!("the compiled patterns need more than {SET_BYTES_MAX} octets");
            return Err(vec![RuleFileError { file, line: 1, column: 1, text: text.into() }]);
        }
        Ok(Classes { files: names, rules, patterns, providers })
    }

    /// The providers in rules, each with its first place. Shaping files describe them.
    pub fn providers(&self) -> impl Iterator<Item = (&str, Named<'_>)> {
        self.providers.iter().filter_map(|provider| {
            let place = provider.place;
            let file = self.files.get(place.file)?;
            Some((&*provider.name, Named { file, line: place.line, column: place.column }))
        })
    }

    /// Classifies a failing reply; `None` for another reply.
    #[must_use]
    pub fn classify(&self, said: &PeerReply<'_>) -> Option<ReplyClassification> {
        let mut words = String::new();
        push_words(said.text, &mut words);
        said.is_failure().then(|| self.judge(said, self.provider_index(said.provider), &words))
    }

    /// Index of a provider, or `None` if no rule names it.
    pub(crate) fn provider_index(&self, name: Option<&str>) -> Option<usize> {
        let name = name?;
        self.providers.iter().position(|provider| *provider.name == *name)
    }

    /// Classifies a reply with its text normalised by [`push_words`].
    pub(crate) fn judge(
        &self,
        said: &PeerReply<'_>,
        provider: Option<usize>,
        words: &str,
    ) -> ReplyClassification {
        let status = said.status_in(words);
        let matched = self.patterns.set().map(|set| set.matches(words.as_bytes()));
        let found = self.rules.iter().position(|rule| {
            rule.code.matches(said.code)
                && rule.status.matches(status)
                && rule.provider.is_none_or(|wanted| provider == Some(wanted))
                && rule.pattern.is_none_or(|pattern| {
                    matched.as_ref().is_some_and(|matched| matched.matched(pattern))
                })
        });
        match found.and_then(|index| self.rules.get(index)) {
            Some(rule) => {
                let index = found.and_then(|index| u32::try_from(index).ok());
                let kind = rule.kind.unwrap_or_else(|| rule.class.kind_in(said.code));
                ReplyClassification { class: rule.class, kind, rule: index }
            }
            None => {
                let class = ReplyClass::Unclassified;
                ReplyClassification { class, kind: class.kind(), rule: None }
            }
        }
    }

    /// The place of a rule.
    #[must_use]
    pub fn place(&self, rule: u32) -> Option<RulePosition<'_>> {
        let rule = self.rules.get(rule as usize)?;
        Some(RulePosition { file: self.files.get(rule.file)?, line: rule.line })
    }
}

const _: () = assert!(include_bytes!("builtin.classes").len() <= FILE_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_rules_obey_what_others_have_to() {
        let mut reading = Reading::default();
        reading.read(RuleFile { name: BUILTIN, text: include_bytes!("builtin.classes") });
        assert_eq!(reading.mistakes, []);
        // A gap of so many characters costs as many states: `.*` costs one.
        assert!(reading.patterns.iter().all(|pattern| !pattern.contains(".{")));
        assert!(Classes::builtin().patterns.set().is_some());
    }
}
