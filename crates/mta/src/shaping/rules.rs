//! Compiled rules.

use ::classes::{
    CodePattern, FailureKind, Pattern, PeerReply, REPLY_BYTES_MAX, ReplyClass, ReplyClassification,
    StatusPattern, one_line,
};
use config::shaping::{LocatedText, Rule};
use mail::{Culprit, EnhancedStatus, Failure};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rules of a configuration.
#[derive(Debug, Default)]
pub struct Rules {
    by_provider: BTreeMap<Box<str>, Vec<RuleMatcher>>,
    /// For next hops without a provider.
    of_none: Vec<RuleMatcher>,
}

/// A compiled rule.
#[derive(Debug)]
pub struct RuleMatcher {
    pub rule: Arc<Rule>,
    codes: Vec<CodePattern>,
    statuses: Vec<StatusPattern>,
    pattern: Option<Pattern>,
    class: Option<ReplyClass>,
    kind: Option<FailureKind>,
}

/// A peer's negative reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Words<'a> {
    /// The peer.
    pub(crate) peer: &'a str,
    /// The reply on one line.
    pub(crate) reply: String,
    pub(crate) code: u16,
    pub(crate) status: Option<EnhancedStatus>,
    /// The reply without our own strings, which must not match.
    own: String,
}

impl<'a> Words<'a> {
    /// The reply of a failure. `None` if the failure is local or in the network, and not a peer's reply.
    pub(crate) fn of(failure: &'a Failure) -> Option<Words<'a>> {
        let (Culprit::Peer(peer), Some(heard)) = (&failure.culprit, failure.heard()) else {
            return None;
        };
        if !(400..600).contains(&heard.code) {
            return None;
        }
        let (code, status, text) = (heard.code, heard.enhanced, &*heard.text);
        let asked = PeerReply { code, status, provider: None, text };
        Some(Words {
            peer,
            reply: reply_of(failure),
            code,
            status: asked.status_in(text),
            own: one_line(code, status, text),
        })
    }
}

/// A reply on one line, for people.
fn reply_of(failure: &Failure) -> String {
    let Some(reply) = &failure.reply else { return String::new() };
    let words: Vec<&str> = reply.text.split_whitespace().collect();
    let mut line = match reply.enhanced {
        Some(status) => format!("{} {status} {}", reply.code, words.join(" ")),
        None => format!("{} {}", reply.code, words.join(" ")),
    };
    line.truncate(line.floor_char_boundary(REPLY_BYTES_MAX));
    line.truncate(line.trim_end().len());
    line
}

impl Rules {
    /// Compiles rules, each with its provider.
    ///
    /// # Errors
    /// Errors in patterns and names of classes, each as a line with file and line number.
    pub fn read<'r>(
        all: impl Iterator<Item = (Option<&'r Arc<str>>, &'r Arc<Rule>)>,
    ) -> Result<Rules, Vec<String>> {
        let (mut rules, mut mistakes) = (Rules::default(), Vec::new());
        for (provider, rule) in all {
            let heard = RuleMatcher {
                rule: Arc::clone(rule),
                codes: read_all(&rule.heard.code, CodePattern::read, &mut mistakes),
                statuses: read_all(&rule.heard.status, StatusPattern::read, &mut mistakes),
                pattern: read(&rule.heard.pattern, Pattern::new, &mut mistakes),
                class: read(&rule.heard.class, str::parse, &mut mistakes),
                kind: read(&rule.heard.kind, str::parse, &mut mistakes),
            };
            match provider {
                Some(provider) => {
                    rules.by_provider.entry((**provider).into()).or_default().push(heard);
                }
                None => rules.of_none.push(heard),
            }
        }
        if mistakes.is_empty() { Ok(rules) } else { Err(mistakes) }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_provider.is_empty() && self.of_none.is_empty()
    }

    /// The rules of a provider, or of hops without one.
    pub(crate) fn of(&self, provider: Option<&str>) -> &[RuleMatcher] {
        match provider {
            Some(provider) => self.by_provider.get(provider).map_or(&[], Vec::as_slice),
            None => &self.of_none,
        }
    }

    /// The rule of this name.
    pub(crate) fn named(&self, provider: Option<&str>, name: &str) -> Option<&Arc<Rule>> {
        self.of(provider).iter().map(|heard| &heard.rule).find(|rule| *rule.name == *name)
    }
}

impl RuleMatcher {
    /// Returns true if it needs the reply's class.
    pub(crate) fn asks_class(&self) -> bool {
        self.class.is_some() || self.kind.is_some()
    }

    /// Returns true if it matches this reply with the class `verdict`.
    pub(crate) fn matches(&self, words: &Words<'_>, verdict: Option<ReplyClassification>) -> bool {
        (self.codes.is_empty() || self.codes.iter().any(|code| code.matches(words.code)))
            && (self.statuses.is_empty()
                || self.statuses.iter().any(|status| status.matches(words.status)))
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(&words.own))
            && self.class.is_none_or(|class| verdict.is_some_and(|v| v.class == class))
            && self.kind.is_none_or(|kind| verdict.is_some_and(|v| v.kind == kind))
    }
}

fn read<T>(
    told: &Option<LocatedText>,
    read: impl FnOnce(&str) -> Result<T, String>,
    mistakes: &mut Vec<String>,
) -> Option<T> {
    let LocatedText { text, place } = told.as_ref()?;
    match read(text) {
        Ok(read) => Some(read),
        Err(why) => {
            mistakes.push(format!("{place}: error: {why}"));
            None
        }
    }
}

fn read_all<T>(
    told: &[LocatedText],
    read: impl Fn(&str) -> Result<T, String>,
    mistakes: &mut Vec<String>,
) -> Vec<T> {
    let each = told.iter().map(|told| (read(&told.text), &told.place));
    let mut all = Vec::with_capacity(told.len());
    for (read, place) in each {
        match read {
            Ok(read) => all.push(read),
            Err(why) => mistakes.push(format!("{place}: error: {why}")),
        }
    }
    all
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::reply_classes::leave_out_of;
    use ::classes::Classes;
    use config::shaping::{Shaping, ShapingFile};
    use mail::{Class, EnhancedStatus, Reply, Step};

    /// The compiled rules of a text.
    pub(in crate::shaping) fn rules(text: &str) -> Result<Rules, Vec<String>> {
        let file = ShapingFile { name: "a.toml".into(), text: text.into() };
        let shaping = Shaping::read(&[file]).unwrap_or_else(|errors| panic!("{errors}"));
        Rules::read(shaping.rules())
    }

    /// A peer's reply.
    pub(in crate::shaping) fn words_of(peer: &'static str, reply: &str) -> Words<'static> {
        let (reply, own) = (reply.to_owned(), reply.to_owned());
        Words { peer, reply, code: 450, status: None, own }
    }

    fn said(reply: Reply) -> Failure {
        Failure::peer("mx.big.test[192.0.2.1]:25", reply, Step::MailFrom)
    }

    #[test]
    fn patterns_classes_and_kinds_are_asked_of_a_peers_words() {
        let text = "[[provider.big.rule]]\nname = \"both\"\nmatch = \"^421 .*slow\"\nclass = \"rate_limited\"\n\
                    action = \"suspend\"\n[[provider.big.rule]]\nname = \"kind\"\nkind = \"block\"\n\
                    action = \"suspend\"\n";
        let rules = rules(text).unwrap();
        let heard = |failure: &Failure| -> Vec<&str> {
            let Some(words) = Words::of(failure) else { return Vec::new() };
            let reply = failure.reply.as_ref().unwrap();
            let said = ::classes::PeerReply {
                code: reply.code,
                status: reply.enhanced,
                provider: None,
                text: &reply.text,
            };
            let verdict = Classes::builtin().classify(&said);
            let heard = rules.of(Some("big")).iter().filter(|heard| heard.matches(&words, verdict));
            heard.map(|heard| &*heard.rule.name).collect()
        };
        assert_eq!(heard(&said(Reply::new(421, (4, 7, 0), "too fast,\nSLOW down"))), ["both"]);
        assert_eq!(heard(&said(Reply::new(451, (4, 7, 0), "too fast, slow down"))), [""; 0]);
        assert_eq!(heard(&said(Reply::new(421, (4, 3, 0), "slow disk"))), [""; 0], "another class");
        assert_eq!(heard(&said(Reply::new(554, (5, 7, 1), "listed at spamhaus"))), ["kind"]);
        assert!(rules.of(None).is_empty() && rules.of(Some("other")).is_empty());
        // Local failures, network failures, and a positive reply.
        let status = EnhancedStatus::new(4, 7, 0);
        for failure in [
            Failure::local(Class::Transient, status, "421 slow down"),
            Failure::network("mx", status, "421 slow down"),
            said(Reply::bare(250, "421 slow down")),
        ] {
            assert_eq!(Words::of(&failure), None, "{failure}");
        }
    }

    #[test]
    fn what_we_said_ourselves_is_not_heard() {
        let rule = |name: &str, lines: &str| {
            format!("[[provider.big.rule]]\nname = \"{name}\"\naction = \"suspend\"\n{lines}\n")
        };
        let text = rule("banned", "status = [\"5.7.511\", \"5.7.606-649\"]")
            + &rule("blocked", "match = '\\bS31[45]0\\b'")
            + &rule("slow", "code = \"45x\"\nmatch = \"slow down\"");
        let rules = rules(&text).unwrap();
        let heard = |code, status, text: &'static str| -> Vec<String> {
            let mut failure = said(Reply::new(code, status, text));
            let ours = ["s3140", "5.7.606", "relay.test"].map(str::to_owned);
            leave_out_of(&mut failure, &ours);
            let words = Words::of(&failure).unwrap();
            let heard = rules.of(Some("big")).iter().filter(|heard| heard.matches(&words, None));
            heard.map(|heard| heard.rule.name.to_string()).collect()
        };
        assert_eq!(heard(550, (5, 7, 607), "banned"), ["banned"]);
        assert_eq!(heard(550, (5, 7, 606), "not found"), [""; 0], "a name that is one of ours");
        assert_eq!(heard(550, (5, 7, 511), "banned"), ["banned"]);
        assert_eq!(heard(550, (5, 1, 10), "5.7.606@contoso.test not found"), [""; 0]);
        assert_eq!(heard(550, (5, 1, 10), "5.7.606 not found (#5.7.606)"), [""; 0]);
        assert_eq!(heard(550, (5, 1, 1), "S3140: no such mailbox"), [""; 0]);
        assert_eq!(heard(550, (5, 7, 1), "blocked (S3150)"), ["blocked"]);
        assert_eq!(heard(451, (4, 7, 1), "slow down"), ["slow"]);
        assert_eq!(heard(421, (4, 7, 1), "slow down"), [""; 0]);
        assert_eq!(heard(451, (4, 7, 1), "<\"slow down\"@x.test>: later"), [""; 0]);
    }

    #[test]
    fn mistakes_name_their_lines() {
        let rule = |line: &str| {
            let text = format!("[[default.rule]]\nname = \"x\"\naction = \"suspend\"\n{line}\n");
            rules(&text).unwrap_err().join("\n")
        };
        for (line, told) in [
            ("match = \"(\"", "a.toml:4: error: the pattern: "),
            ("match = \".*\"", "a.toml:4: error: this pattern matches everything"),
            ("match = '^[45]\\d\\d'", "a.toml:4: error: this pattern matches every failure"),
            ("match = \"a@b\"", "a.toml:4: error: addresses are removed"),
            ("code = \"2xx\"", "a.toml:4: error: `2xx` is not a failure"),
            ("status = [\"4.7.1\", \"4.7\"]", "a.toml:4: error: `4.7` is not a status"),
            ("class = \"rate\"", "a.toml:4: error: unknown class `rate`"),
            ("kind = \"bad\"", "a.toml:4: error: unknown kind `bad`"),
        ] {
            assert!(rule(line).starts_with(told), "{line}: {}", rule(line));
        }
    }
}
