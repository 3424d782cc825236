//! Plausibility of "not found" answers.
//!
//! A server started without its data, or recently misconfigured, answers "not found" for every key without an error.
//! Therefore "not found" counts only beside a found key: one found just now, or found again after it was found
//! recently. If all of those keys have vanished, and there are many, no answer counts for a while.

use super::{Answers, LookupError, LookupErrorKind};
use mail::Mono;
use std::collections::VecDeque;
use std::time::Duration;

/// Keys found within this time are expected to exist still.
const LATELY: Duration = Duration::from_secs(60);
/// A key found within this time shows that the server has its data.
const JUST_NOW: Duration = Duration::from_secs(2);
/// This many vanished keys are no coincidence.
const MANY: usize = 3;
/// Maximum number of keys requested again.
const WITNESSES_MAX: usize = 8;
/// Time after which the server is trusted.
const DOUBT_MAX: Duration = Duration::from_secs(300);

/// Keys that a server has found recently, and the time since which it finds none.
#[derive(Debug, Default)]
pub struct Doubt {
    /// The last at the end, each key once.
    found: VecDeque<(Box<str>, Mono)>,
    since: Option<Mono>,
}

/// Action on answers that keys are missing.
#[derive(Debug, PartialEq, Eq)]
pub enum Judgement {
    /// They count.
    Believe,
    /// They count if the server still finds any key of this list: [`Doubt::hear`].
    Ask(Vec<Box<str>>),
}

impl Doubt {
    /// Records found keys, and judges the rest.
    pub fn judge(&mut self, now: Mono, keys: &[Box<str>], answers: &Answers) -> Judgement {
        let mut is_any = false;
        for (key, answer) in keys.iter().zip(answers) {
            if matches!(answer, Ok(Some(_))) {
                self.note(now, key);
                is_any = true;
            }
        }
        let is_missing = |answer: &Result<_, _>| matches!(answer, Ok(None));
        if is_any {
            self.since = None;
        }
        if is_any || !answers.iter().any(is_missing) {
            return Judgement::Believe;
        }
        if self.since.is_none() {
            self.found.retain(|(_, at)| now.since(*at) < LATELY);
        }
        let is_asked = |key: &str| keys.iter().any(|asked| &**asked == key);
        let gone = self.found.iter().filter(|(key, _)| is_asked(key)).count();
        let last = self.found.back().map(|(_, at)| *at);
        let is_fresh = last.is_some_and(|at| now.since(at) < JUST_NOW);
        if self.found.len() < MANY || (gone == 0 && is_fresh && self.since.is_none()) {
            self.found.retain(|(key, _)| !is_asked(key));
            return Judgement::Believe;
        }
        let others = self.found.iter().map(|(key, _)| key).filter(|key| !is_asked(key));
        Judgement::Ask(others.rev().cloned().collect())
    }

    /// Evaluates the answers for the keys requested again.
    ///
    /// # Errors
    /// Returns the reason why missing keys do not count.
    pub fn hear(
        &mut self,
        now: Mono,
        keys: &[Box<str>],
        again: &[Box<str>],
        answers: &Answers,
    ) -> Result<(), LookupError> {
        let found = again.iter().zip(answers).filter(|(_, answer)| matches!(answer, Ok(Some(_))));
        let found: Vec<_> = found.map(|(key, _)| key).collect();
        if !found.is_empty() {
            self.since = None;
            // Missing keys are forgotten, including those requested again.
            self.found.retain(|(key, _)| !keys.contains(key) && !again.contains(key));
            found.into_iter().for_each(|key| self.note(now, key));
            return Ok(());
        }
        if let Some(Err(trouble)) = answers.iter().find(|answer| answer.is_err()) {
            return Err(trouble.clone());
        }
        let since = *self.since.get_or_insert(now);
        if now.since(since) >= DOUBT_MAX {
            self.found.clear();
            self.since = None;
            return Ok(());
        }
        let count = self.found.len();
        let text =
            format!("{count} keys found within the last minute are gone, and no key is found");
        Err(LookupError::new(LookupErrorKind::Wrong, text))
    }

    /// Returns true while the server is doubted.
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.since.is_some()
    }

    fn note(&mut self, now: Mono, key: &str) {
        self.found.retain(|(known, _)| &**known != key);
        if self.found.len() >= WITNESSES_MAX {
            self.found.pop_front();
        }
        self.found.push_back((key.into(), now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Entry;

    /// A server, and a doubt about it.
    #[derive(Default)]
    struct Asked {
        doubt: Doubt,
        has: Vec<&'static str>,
        again: usize,
    }

    impl Asked {
        fn answers(&self, keys: &[Box<str>]) -> Answers {
            let answer = |key: &str| self.has.contains(&key).then(|| Entry::text("x"));
            keys.iter().map(|key| Ok(answer(key))).collect()
        }

        /// What is answered: `true`: it is there.
        fn ask(&mut self, second: u64, key: &str) -> Result<bool, LookupErrorKind> {
            let (now, keys) = (Mono(second * 1_000_000), [Box::from(key)]);
            let answers = self.answers(&keys);
            if let Judgement::Ask(again) = self.doubt.judge(now, &keys, &answers) {
                self.again += again.len();
                let heard = self.answers(&again);
                self.doubt.hear(now, &keys, &again, &heard).map_err(|why| why.kind)?;
            }
            Ok(matches!(answers[0], Ok(Some(_))))
        }
    }

    #[test]
    fn a_server_that_has_lost_its_data_is_not_believed_for_a_while() {
        let mut asked = Asked { has: vec!["a", "b", "c", "d"], ..Asked::default() };
        for key in ["a", "b", "c", "d"] {
            assert_eq!(asked.ask(1, key), Ok(true));
        }
        asked.has.clear();
        // A key that was found a second ago; one that nobody asked for; and so on for minutes.
        assert_eq!(asked.ask(2, "a"), Err(LookupErrorKind::Wrong));
        assert_eq!(asked.ask(3, "new"), Err(LookupErrorKind::Wrong));
        assert_eq!(asked.ask(2 + 299, "new"), Err(LookupErrorKind::Wrong));
        assert!(asked.doubt.is_any());
        // In the end it is.
        assert_eq!(asked.ask(2 + 300, "new"), Ok(false));
        assert_eq!(asked.ask(2 + 301, "a"), Ok(false));
        assert!(!asked.doubt.is_any());
    }

    #[test]
    fn data_that_comes_back_counts_at_once() {
        let mut asked = Asked { has: vec!["a", "b", "c"], ..Asked::default() };
        for key in ["a", "b", "c"] {
            assert_eq!(asked.ask(1, key), Ok(true));
        }
        asked.has.clear();
        assert_eq!(
            asked.ask(100, "a"),
            Ok(false),
            "a minute later nothing is expected to be there"
        );
        asked.has = vec!["a", "b", "c"];
        for key in ["a", "b", "c"] {
            assert_eq!(asked.ask(101, key), Ok(true));
        }
        asked.has.clear();
        assert_eq!(asked.ask(104, "nobody"), Err(LookupErrorKind::Wrong));
        asked.has = vec!["b"];
        assert_eq!(asked.ask(120, "nobody"), Ok(false));
        assert_eq!(asked.ask(121, "a"), Ok(false));
    }

    #[test]
    fn users_who_go_are_gone_and_whoever_guesses_costs_a_question_now_and_then() {
        let mut asked = Asked { has: vec!["a", "b", "c", "d"], ..Asked::default() };
        for key in ["a", "b", "c", "d"] {
            assert_eq!(asked.ask(1, key), Ok(true));
        }
        for second in 1..3 {
            assert_eq!(asked.ask(second, "nobody"), Ok(false));
        }
        assert_eq!(asked.again, 0, "what was found just now is enough");
        asked.has = vec!["d"];
        for key in ["a", "b", "c"] {
            assert_eq!(asked.ask(4, key), Ok(false));
        }
        // Of fewer than three nothing is expected.
        asked.has.clear();
        assert_eq!(asked.ask(5, "d"), Ok(false));
    }

    #[test]
    fn trouble_with_the_second_question_is_trouble_with_the_first() {
        let mut doubt = Doubt::default();
        let key = |name: &str| [Box::from(name)];
        for name in ["a", "b", "c"] {
            let found = vec![Ok(Some(Entry::text("x")))];
            assert_eq!(doubt.judge(Mono(0), &key(name), &found), Judgement::Believe);
        }
        let now = Mono(3_000_000);
        let Judgement::Ask(again) = doubt.judge(now, &key("n"), &vec![Ok(None)]) else {
            panic!("it is believed")
        };
        let silence = LookupError::new(LookupErrorKind::Timeout, "silent");
        let heard = doubt.hear(now, &key("n"), &again, &vec![Err(silence.clone())]);
        assert_eq!(heard, Err(silence));
        assert!(!doubt.is_any());
    }
}
