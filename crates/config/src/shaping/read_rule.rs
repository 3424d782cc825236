//! Reads the rules of a shaping file.

use super::ProviderLimits;
use super::read::{Reading, is_name};
use super::rule::{
    Action, HITS_MAX, HitThreshold, LASTS_MAX, LocatedText, PartialRule, ProviderRules, RuleAction,
    RuleCondition,
};
use super::written::{ActionText, RuleText, ScopeText, TextsText, TogetherText};
use crate::quantity::parse_duration;
use std::time::Duration;

impl Reading<'_> {
    /// The rules of the section `at`, and the pace that they slow down to.
    pub(super) fn rules(
        &mut self,
        at: &str,
        backoff: &TogetherText,
        rules: &[RuleText],
    ) -> ProviderRules {
        let backoff: ProviderLimits = self.together(&format!("{at}.backoff"), backoff);
        let mut parts: Vec<PartialRule> = Vec::with_capacity(rules.len());
        for (index, written) in rules.iter().enumerate() {
            let at = format!("{at}.rule[{index}]");
            let Some(part) = self.rule(&at, written) else { continue };
            if parts.iter().any(|known| known.name == part.name) {
                self.error(&at, format!("a second rule \"{}\" in this section", part.name), "");
                continue;
            }
            parts.push(part);
        }
        ProviderRules::new(backoff, parts)
    }

    fn rule(&mut self, at: &str, written: &RuleText) -> Option<PartialRule> {
        let RuleText { name, after, lasts, until_delivered, scope, .. } = written;
        if !is_name(name) {
            let help = "use at most 64 letters, digits, `-`, `_` and `.`";
            let at = if name.is_empty() { at.to_owned() } else { format!("{at}.name") };
            self.error(&at, format!("\"{name}\" is not a rule name"), help);
            return None;
        }
        let heard = RuleCondition {
            code: self.told_all(at, "code", written.code.as_ref()),
            status: self.told_all(at, "status", written.status.as_ref()),
            pattern: self.told(at, "match", written.matches.as_deref()),
            class: self.told(at, "class", written.class.as_deref()),
            kind: self.told(at, "kind", written.kind.as_deref()),
        };
        let after = after.as_deref().and_then(|after| self.after(&format!("{at}.after"), after));
        let lasts = lasts.as_ref().and_then(|text| self.lasts(&format!("{at}.lasts"), &text.0));
        let action = written.action.as_ref();
        Some(PartialRule {
            name: name.as_str().into(),
            place: self.place(at),
            heard: Some(heard).filter(|heard| !heard.is_nothing()),
            after,
            action: action.and_then(|action| self.action(&format!("{at}.action"), action)),
            lasts,
            until_delivered: until_delivered
                .map(|count| (count, self.place(&format!("{at}.until_delivered")))),
            is_of_every_source: scope.map(|scope| scope == ScopeText::Provider),
        })
    }

    fn told(&self, at: &str, key: &str, text: Option<&str>) -> Option<LocatedText> {
        let place = self.place(&format!("{at}.{key}")).to_string().into();
        Some(LocatedText { text: text?.into(), place })
    }

    fn told_all(&self, at: &str, key: &str, texts: Option<&TextsText>) -> Vec<LocatedText> {
        let texts = match texts {
            None => return Vec::new(),
            Some(TextsText::One(text)) => std::slice::from_ref(text),
            Some(TextsText::Several(texts)) => texts,
        };
        texts.iter().filter_map(|text| self.told(at, key, Some(text))).collect()
    }

    /// `3 in 10m`.
    fn after(&mut self, at: &str, text: &str) -> Option<HitThreshold> {
        match parse_after(text) {
            Ok(after) => Some(after),
            Err(reason) => {
                self.error(at, format!("\"{text}\" is not a number of replies in a time"), &reason);
                None
            }
        }
    }

    fn lasts(&mut self, at: &str, text: &str) -> Option<Duration> {
        let why = match parse_duration(text) {
            Ok(Duration::ZERO) => "it would end at once",
            Ok(lasts) if lasts > LASTS_MAX => "at most 24 h",
            Ok(lasts) => return Some(lasts),
            Err(why) => why,
        };
        self.error(at, format!("\"{text}\" is not a duration of a rule"), why);
        None
    }

    fn action(&mut self, at: &str, written: &ActionText) -> Option<RuleAction> {
        let word = match written {
            ActionText::Set(text) => {
                let pace = text.set.as_ref().map(|set| self.pace(&format!("{at}.set"), set));
                let pace = pace.filter(|pace| !pace.shown().is_empty());
                if pace.is_none() {
                    let help =
                        "`action = { set = { max_connections = 1 } }`, with any key of a pace";
                    self.error(at, "an action without settings".to_owned(), help);
                }
                return pace.map(|pace| RuleAction::Set(Box::new(pace)));
            }
            ActionText::Word(word) => word.as_str(),
        };
        if word == "none" {
            return Some(RuleAction::Nothing);
        }
        let known = Action::ALL.into_iter().filter(|action| *action != Action::Set);
        let mut known = known.filter(|action| action.as_str() == word);
        match known.next() {
            Some(action) if action.is_of_party() && at.starts_with("default.") => {
                let help =
                    "a tenant or campaign is suspended for a provider: put the rule into one";
                self.error(at, format!("\"{word}\" in a rule without a provider"), help);
                None
            }
            Some(action) => Some(RuleAction::Action(action, self.place(at))),
            None => {
                let help = "use backoff, suspend, { set = { … } }, suspend_tenant, \
                 suspend_campaign, fail_campaign, or none to cancel a rule of an earlier file";
                self.error(at, format!("\"{word}\" is not an action"), help);
                None
            }
        }
    }
}

/// Reads `3 in 10m`.
fn parse_after(text: &str) -> Result<HitThreshold, String> {
    const FORM: &str = "write a number of replies and a time, for example \"3 in 10m\"";
    let (count, within) = text.split_once(" in ").ok_or(FORM)?;
    let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
    let count: u32 = count.parse().ok().filter(|_| is_number).ok_or(FORM)?;
    let within = parse_duration(within.trim_start())?;
    if count == 0 || count > HITS_MAX {
        return Err(format!("from 1 to {HITS_MAX} replies"));
    }
    if within.is_zero() || within > LASTS_MAX {
        return Err("more than 0 and at most 24 h".to_owned());
    }
    Ok(HitThreshold { count, within })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_often_is_a_count_and_a_time() {
        let after =
            |count, seconds| Ok(HitThreshold { count, within: Duration::from_secs(seconds) });
        assert_eq!(parse_after("3 in 10m"), after(3, 600));
        assert_eq!(parse_after("1000 in 24h"), after(1_000, 86_400));
        for bad in [
            "",
            "3",
            "in 10m",
            "3 in",
            "3 in ",
            "x in 10m",
            "-3 in 10m",
            "+3 in 10m",
            "3 in 10",
            "0 in 10m",
        ] {
            assert!(parse_after(bad).is_err(), "{bad}");
        }
        assert!(parse_after("1001 in 1h").is_err() && parse_after("3 in 25h").is_err());
        assert!(parse_after("3 in 0").is_err());
    }
}
