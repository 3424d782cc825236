//! Rules: actions on replies of a provider.

use super::ProviderLimits;
use super::pace::{FileLine, Pace};
use crate::quantity::write_duration;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Rules of all files together.
pub const RULES_MAX: usize = 2_000;
/// Hits that a rule may wait for.
pub const HITS_MAX: u32 = 1_000;
/// Maximum duration of an effect, whatever the repetitions.
pub const LASTS_MAX: Duration = Duration::from_secs(86_400);
/// Default duration of an effect.
pub(super) const LASTS: Duration = Duration::from_secs(30 * 60);

/// Action of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Slows down to the provider's `backoff`.
    Backoff,
    /// Sets other limits.
    Set,
    /// Suspends all mail.
    Suspend,
    /// Suspends the mail of the affected tenant.
    SuspendTenant,
    /// Suspends the mail of the affected campaign.
    SuspendCampaign,
    /// Fails the campaign, including later messages.
    FailCampaign,
}

impl Action {
    /// All actions.
    pub const ALL: [Action; 6] = [
        Action::Backoff,
        Action::Set,
        Action::Suspend,
        Action::SuspendTenant,
        Action::SuspendCampaign,
        Action::FailCampaign,
    ];

    /// As files, events and metrics spell it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Action::Backoff => "backoff",
            Action::Set => "set",
            Action::Suspend => "suspend",
            Action::SuspendTenant => "suspend_tenant",
            Action::SuspendCampaign => "suspend_campaign",
            Action::FailCampaign => "fail_campaign",
        }
    }

    /// Returns true if it changes limits, which recover step by step.
    #[must_use]
    pub const fn sets_limits(self) -> bool {
        matches!(self, Action::Backoff | Action::Set)
    }

    /// Returns true if it applies to one tenant or campaign, whatever the source.
    #[must_use]
    pub const fn is_of_party(self) -> bool {
        matches!(self, Action::SuspendTenant | Action::SuspendCampaign | Action::FailCampaign)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A number of hits within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HitThreshold {
    /// Hits, at least 1.
    pub count: u32,
    /// Time from the first hit to the last.
    pub within: Duration,
}

/// A text interpreted by another module, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedText {
    /// The text.
    pub text: Arc<str>,
    /// `shaping.toml:7`.
    pub place: Arc<str>,
}

/// Condition of a rule: at least one criterion; all given ones must match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleCondition {
    /// One of these codes; none: any.
    pub code: Vec<LocatedText>,
    /// One of these statuses; none: any, or none.
    pub status: Vec<LocatedText>,
    /// A pattern on the reply.
    pub pattern: Option<LocatedText>,
    /// The reply's class.
    pub class: Option<LocatedText>,
    /// Its kind.
    pub kind: Option<LocatedText>,
}

impl RuleCondition {
    pub(super) fn is_nothing(&self) -> bool {
        self.pattern.is_none()
            && self.class.is_none()
            && self.kind.is_none()
            && self.code.is_empty()
            && self.status.is_empty()
    }
}

/// A rule, complete.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name, unique within a provider.
    pub name: Arc<str>,
    /// The line that names it: `shaping.toml:7`.
    pub place: Arc<str>,
    /// Its condition.
    pub heard: RuleCondition,
    /// Number of matches needed; `None`: one.
    pub after: Option<HitThreshold>,
    /// Its action.
    pub action: Action,
    /// For how long, the first time.
    pub lasts: Duration,
    /// Number of deliveries after which its effect ends.
    pub until_delivered: Option<u32>,
    /// It concerns all sources, not only the one that was refused.
    pub is_of_every_source: bool,
    /// Limits of [`Action::Set`].
    pub(super) set: Pace,
}

impl Rule {
    /// For people: `/unusual rate/, 3 in 10m: backoff for 30m`.
    #[must_use]
    pub fn in_words(&self) -> String {
        let RuleCondition { code, status, pattern, class, kind } = &self.heard;
        let mut heard = Vec::new();
        for (what, all) in [("code", code), ("status", status)] {
            let all: Vec<&str> = all.iter().map(|told| &*told.text).collect();
            heard.extend((!all.is_empty()).then(|| format!("{what} {}", all.join(" or "))));
        }
        heard.extend(pattern.as_ref().map(|pattern| format!("/{}/", pattern.text)));
        heard.extend(class.as_ref().map(|class| format!("class {}", class.text)));
        heard.extend(kind.as_ref().map(|kind| format!("kind {}", kind.text)));
        if let Some(HitThreshold { count, within }) = self.after {
            heard.push(format!("{count} in {}", write_duration(within)));
        }
        let action = match self.action {
            Action::Set => {
                let shown = self.set.shown().into_iter();
                let set: Vec<String> =
                    shown.map(|(key, value, _)| format!("{key} {value}")).collect();
                set.join(", ")
            }
            action => action.to_string(),
        };
        let until = self.until_delivered.map(|count| format!(" or {count} deliveries"));
        let scope = if self.is_of_every_source { ", all sources" } else { "" };
        let (heard, lasts) = (heard.join(", "), write_duration(self.lasts));
        format!("{heard}: {action} for {lasts}{}{scope}", until.unwrap_or_default())
    }
}

/// The part of a rule in one file; unset values are taken from earlier files.
#[derive(Clone, Debug)]
pub(super) struct PartialRule {
    pub(super) name: Arc<str>,
    pub(super) place: FileLine,
    /// `None`: as before.
    pub(super) heard: Option<RuleCondition>,
    pub(super) after: Option<HitThreshold>,
    pub(super) action: Option<RuleAction>,
    pub(super) lasts: Option<Duration>,
    pub(super) until_delivered: Option<(u32, FileLine)>,
    pub(super) is_of_every_source: Option<bool>,
}

/// An action as it is written.
#[derive(Clone, Debug)]
pub(super) enum RuleAction {
    /// No action: disables the rule of an earlier file.
    Nothing,
    /// This action, from that line.
    Action(Action, FileLine),
    /// These limits instead.
    Set(Box<Pace>),
}

/// An error in a rule after merging all files.
#[derive(Debug)]
pub(super) struct Incomplete {
    pub(super) place: FileLine,
    pub(super) message: String,
    pub(super) help: &'static str,
}

impl PartialRule {
    fn change(&mut self, later: PartialRule) {
        self.place = later.place;
        self.heard = later.heard.or(self.heard.take());
        self.after = later.after.or(self.after);
        self.action = later.action.or(self.action.take());
        self.lasts = later.lasts.or(self.lasts);
        self.until_delivered = later.until_delivered.or(self.until_delivered.take());
        self.is_of_every_source = later.is_of_every_source.or(self.is_of_every_source);
    }

    /// The rule; `None`: it is not wanted.
    fn complete(&self, backoff: &ProviderLimits) -> Result<Option<Rule>, Incomplete> {
        let wrong = |place: &FileLine, what: &str, help| {
            let message = format!("rule \"{}\" {what}", self.name);
            Err(Incomplete { place: place.clone(), message, help })
        };
        let (action, set) = match &self.action {
            Some(RuleAction::Nothing) => return Ok(None),
            Some(RuleAction::Action(action, place)) => {
                let knows_pace = backoff.max_connections.is_some() || backoff.rates.is_some();
                if *action == Action::Backoff && !knows_pace {
                    let help = "add `backoff = { max_connections = 1, rate = [\"10/m\"] }` beside the \
                         rules";
                    return wrong(place, "needs a `backoff`", help);
                }
                (*action, Pace::default())
            }
            Some(RuleAction::Set(pace)) => (Action::Set, (**pace).clone()),
            None => {
                let help = "use backoff, suspend, { set = { … } }, suspend_tenant, \
                 suspend_campaign, fail_campaign, or none to cancel a rule of an earlier file";
                return wrong(&self.place, "has no `action`", help);
            }
        };
        let Some(heard) = self.heard.clone().filter(|heard| !heard.is_nothing()) else {
            let help = "add a `code`, a `status`, a pattern (`match`), a `class` or a `kind` of the \
                 reply";
            return wrong(&self.place, "has no condition", help);
        };
        if let Some((_, place)) = self.until_delivered.as_ref().filter(|_| !action.sets_limits()) {
            let help = "only backoff and set allow deliveries";
            return wrong(place, "ends after deliveries that it prevents", help);
        }
        Ok(Some(Rule {
            name: Arc::clone(&self.name),
            place: self.place.to_string().into(),
            heard,
            after: self.after,
            action,
            lasts: self.lasts.unwrap_or(LASTS),
            until_delivered: self.until_delivered.as_ref().map(|(count, _)| *count),
            is_of_every_source: self.is_of_every_source.unwrap_or(false) || action.is_of_party(),
            set,
        }))
    }
}

/// The rules of one provider, or of domains without a provider, with the reduced pace.
#[derive(Clone, Debug, Default)]
pub(super) struct ProviderRules {
    pub(super) backoff: ProviderLimits,
    pub(super) parts: Vec<PartialRule>,
    complete: Vec<Arc<Rule>>,
}

impl ProviderRules {
    pub(super) fn new(backoff: ProviderLimits, parts: Vec<PartialRule>) -> ProviderRules {
        ProviderRules { backoff, parts, complete: Vec::new() }
    }

    /// Applies the overrides of a later file.
    pub(super) fn change(&mut self, later: ProviderRules) {
        self.backoff.change(later.backoff);
        for part in later.parts {
            match self.parts.iter_mut().find(|known| known.name == part.name) {
                Some(known) => known.change(part),
                None => self.parts.push(part),
            }
        }
    }

    /// Completes the rules after all files are read.
    pub(super) fn complete(&mut self) -> Result<(), Incomplete> {
        for part in &self.parts {
            self.complete.extend(part.complete(&self.backoff)?.map(Arc::new));
        }
        Ok(())
    }

    pub(super) fn all(&self) -> &[Arc<Rule>] {
        &self.complete
    }

    pub(super) fn named(&self, name: &str) -> Option<&Arc<Rule>> {
        self.complete.iter().find(|rule| *rule.name == *name)
    }
}
