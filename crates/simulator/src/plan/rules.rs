//! What the provider says now and then, and what rules of shaping do about it.
//!
//! Words that rules listen for, in the addresses of recipients: next hops repeat them, and mean nothing by it.

use super::Plan;
use load::random::Random;
use std::fmt::Write as _;

/// Slower than any of the usual rates, and not so slow that all does not go in time.
const BACKOFF_PER_SECOND: u32 = 1;

/// One thing that the provider says instead of taking mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// All sources go slower, each by itself.
    Backoff,
    /// Each set of hosts gets less.
    Set,
    /// Nothing is sent any more.
    Suspend,
    /// Nothing is sent of the tenant whose message it was.
    SuspendTenant,
}

impl Word {
    pub(super) const ALL: [Word; 4] =
        [Word::Backoff, Word::Set, Word::Suspend, Word::SuspendTenant];

    /// The name of its rule.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Word::Backoff => "backoff",
            Word::Set => "set",
            Word::Suspend => "suspend",
            Word::SuspendTenant => "suspend_tenant",
        }
    }

    /// Whose rule has this name.
    #[must_use]
    pub fn of_rule(name: &str) -> Option<Word> {
        Word::ALL.into_iter().find(|word| word.rule() == name)
    }

    /// What is said.
    #[must_use]
    pub fn reply(self) -> &'static [u8] {
        match self {
            Word::Backoff => b"450 4.7.0 unusual rate\r\n",
            Word::Set => b"450 4.7.0 too many from this network\r\n",
            Word::Suspend => b"450 4.7.0 come back later\r\n",
            Word::SuspendTenant => b"450 4.7.1 complaints about this customer\r\n",
        }
    }

    /// What its rule listens for.
    pub(super) fn words(self) -> &'static str {
        match self {
            Word::Backoff => "unusual rate",
            Word::Set => "too many from",
            Word::Suspend => "come back later",
            Word::SuspendTenant => "about this customer",
        }
    }

    /// The same with anything in place of blanks, as it may stand in an address.
    fn pattern(self) -> String {
        self.words().replace(' ', ".")
    }

    fn action(self) -> String {
        match self {
            Word::Set => format!("{{ set = {{ rate = [\"{BACKOFF_PER_SECOND}/s\"] }} }}"),
            word => format!("\"{}\"", word.rule()),
        }
    }
}

/// A rule for one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePlan {
    /// What it listens for.
    pub word: Word,
    /// How often it waits for that, in a minute.
    pub after: u32,
    /// For how long, the first time.
    pub lasts_s: u64,
    /// It concerns all sources, not only the one that was told.
    pub is_of_every_source: bool,
}

/// The provider says something instead of taking mail, for a while.
#[derive(Clone, Copy, Debug)]
pub struct Anger {
    /// From when on.
    pub from_us: u64,
    /// Until when.
    pub until_us: u64,
    /// What.
    pub word: Word,
}

impl RulePlan {
    pub(super) fn draw(word: Word, random: &mut Random) -> RulePlan {
        RulePlan {
            word,
            after: 1 + random.below(3) as u32,
            lasts_s: 5 + random.below(60),
            is_of_every_source: word == Word::Suspend && random.below(3) == 0,
        }
    }

    /// The most that a source may send per second while it is in force: of all, or of one set of hosts; `None`: it
    /// sends nothing.
    #[must_use]
    pub fn per_second(word: Word) -> Option<f64> {
        match word {
            Word::Backoff | Word::Set => Some(f64::from(BACKOFF_PER_SECOND)),
            Word::Suspend | Word::SuspendTenant => None,
        }
    }

    /// The rules of the provider, in the shaping file.
    pub(super) fn section(rules: &[RulePlan]) -> String {
        if rules.is_empty() {
            return String::new();
        }
        let mut text =
            format!("backoff = {{ max_connections = 1, rate = [\"{BACKOFF_PER_SECOND}/s\"] }}\n");
        for RulePlan { word, after, lasts_s, is_of_every_source } in rules {
            let (name, pattern, action) = (word.rule(), word.pattern(), word.action());
            let scope = if *is_of_every_source { "scope = \"provider\"\n" } else { "" };
            let _ = write!(
                text,
                "[[provider.big.rule]]\nname = \"{name}\"\nmatch = \"{pattern}\"\nafter = \"{after} in 1m\"\n\
                 action = {action}\nlasts = \"{lasts_s}s\"\n{scope}"
            );
        }
        text
    }
}

impl Plan {
    /// What the provider says at that time instead of taking mail.
    #[must_use]
    pub fn word_at(&self, at_us: u64) -> Option<Word> {
        let mut angers = self.pace.iter().flat_map(|pace| &pace.angers);
        let anger = angers.find(|anger| (anger.from_us..anger.until_us).contains(&at_us));
        anger.map(|anger| anger.word)
    }
}

impl Plan {
    /// Draws a word that the provider itself never says, with a rule that listens for it, for one of two worlds in which
    /// there are sources and tenants.
    pub(super) fn add_echo(&mut self, random: &mut Random) {
        let Some(pace) = &mut self.pace else { return };
        let draw = random.below(2);
        let said = |word: &Word| pace.angers.iter().any(|anger| anger.word == *word);
        let words: Vec<Word> = Word::ALL.into_iter().filter(|word| !said(word)).collect();
        if draw > 0 || words.is_empty() {
            return;
        }
        let word = words[random.below(words.len() as u64) as usize];
        let rule = RulePlan { word, after: 1, lasts_s: 60, is_of_every_source: false };
        for terms in &mut pace.terms {
            terms.rules.retain(|rule| rule.word != word);
            terms.rules.push(rule);
        }
        pace.echo = Some(word);
    }

    /// What is added to the local part of every recipient.
    #[must_use]
    pub fn echoed(&self) -> String {
        let word = self.pace.as_ref().and_then(|pace| pace.echo);
        word.map_or_else(String::new, |word| format!(".{}", word.words().replace(' ', "-")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::shaping::{Shaping, ShapingFile};

    #[test]
    fn some_worlds_have_rules_that_can_be_read_and_that_reloads_change() {
        let plans: Vec<Plan> = (0..400).map(Plan::new).filter(|plan| plan.pace.is_some()).collect();
        let (mut ruled, mut changed) = (0, 0);
        for plan in &plans {
            let pace = plan.pace.as_ref().expect("it has one");
            for changes in 0..pace.terms.len() {
                let text = plan.shaping(changes, None).expect("a file");
                let file = ShapingFile { name: "a.toml".into(), text: text.as_str().into() };
                let shaping = Shaping::read(&[file]).unwrap_or_else(|errors| panic!("{errors}"));
                let rules = &pace.terms_after(changes).rules;
                assert_eq!(shaping.rules().count(), rules.len());
                changed += usize::from(*rules != pace.terms[0].rules);
            }
            let echoes = usize::from(pace.echo.is_some());
            assert_eq!(pace.terms[0].rules.len() == echoes, pace.angers.is_empty());
            ruled += usize::from(!pace.angers.is_empty());
        }
        assert!(ruled * 3 > plans.len() && ruled < plans.len(), "{ruled} of {}", plans.len());
        assert!(changed > 5, "{changed}");
    }

    #[test]
    fn some_worlds_have_a_word_that_nobody_says_and_addresses_have() {
        let plans = (0..800).map(Plan::new);
        let echoes: Vec<Plan> = plans.filter(|plan| !plan.echoed().is_empty()).collect();
        assert!(echoes.len() > 40, "{}", echoes.len());
        for plan in &echoes {
            let pace = plan.pace.as_ref().expect("it has one");
            assert!(pace.angers.iter().all(|anger| Some(anger.word) != pace.echo));
            let has_rule =
                |rules: &[RulePlan]| rules.iter().any(|rule| Some(rule.word) == pace.echo);
            assert!(pace.terms.iter().all(|terms| has_rule(&terms.rules)));
        }
        for word in Word::ALL {
            assert!(
                echoes
                    .iter()
                    .any(|plan| plan.pace.as_ref().and_then(|pace| pace.echo) == Some(word))
            );
        }
    }
}
