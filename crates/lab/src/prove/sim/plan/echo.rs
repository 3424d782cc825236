//! Words that rules listen for, in the addresses of recipients: next hops repeat them, and mean nothing by it.

use super::{Plan, RulePlan, Word};
use load::random::Random;

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
