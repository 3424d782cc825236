//! Effects in force by shaping rules.

use super::text;
use config::shaping::{Action, QUARTERS};
use mail::Wall;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The effect of a matching rule: in force, being lifted step by step, or kept for a while in case the rule matches
/// again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    /// The rule's name.
    pub rule: String,
    /// Its line: `shaping.toml:7`.
    pub place: String,
    pub action: Action,
    /// The provider concerned; absent: the next hop alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The next hop, if it has no provider, or if a provider's rule is limited to mail for one domain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_hop: Option<String>,
    /// The source; empty for mail without one; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The tenant, if the rule concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The campaign, if the rule concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// The peer that sent the reply.
    pub peer: String,
    /// The matching reply, on one line.
    pub reply: String,
    #[serde(with = "text::wall")]
    pub began: Wall,
    /// Time of the last match.
    #[serde(with = "text::wall")]
    pub renewed: Wall,
    /// End of the full effect; limits return step by step from then on.
    #[serde(with = "text::wall")]
    pub until: Wall,
    /// Duration from `renewed` to `until`, and of the period in which it is kept afterwards.
    pub lasts_ms: u64,
    /// Number of effects in a row, from 1: each lasts twice as long as the previous one.
    pub step: u16,
    /// Quarters of the limits that have returned; 4: the effect is over.
    pub returned: u8,
    /// Number of deliveries after which it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliveries_left: Option<u32>,
}

impl Effect {
    #[must_use]
    pub fn lasts(&self) -> Duration {
        Duration::from_millis(self.lasts_ms)
    }

    /// Returns true until all of its limits have returned.
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.returned < QUARTERS
    }

    /// Time at which the next quarter returns, or at which an effect that is over is forgotten.
    #[must_use]
    pub fn next(&self) -> Wall {
        let quarters = u32::from(self.returned.min(QUARTERS));
        self.until.after(self.lasts() / u32::from(QUARTERS) * quarters)
    }

    /// Time at which all limits have returned, if the rule does not match again.
    #[must_use]
    pub fn over_at(&self) -> Wall {
        match self.action.sets_limits() {
            true => self.until.after(self.lasts() / u32::from(QUARTERS) * u32::from(QUARTERS - 1)),
            false => self.until,
        }
    }

    /// Number of quarters returned by `now`.
    pub(crate) fn returned_at(&self, now: Wall) -> u8 {
        if !self.is_in_force() || !self.action.sets_limits() && now >= self.until {
            return QUARTERS;
        }
        let mut at = Effect { returned: 0, ..self.clone() };
        while at.is_in_force() && now >= at.next() {
            at.returned += 1;
        }
        at.returned
    }

    /// Returns true if it concerns mail to this provider, or else this next hop, from this source.
    #[must_use]
    pub fn covers(&self, provider: Option<&str>, next_hop: &str, source: &str) -> bool {
        let is_there = match &self.provider {
            Some(wanted) => {
                let is_narrow = self.next_hop.is_some();
                provider == Some(wanted)
                    && (!is_narrow || self.next_hop.as_deref() == Some(next_hop))
            }
            None => provider.is_none() && self.next_hop.as_deref() == Some(next_hop),
        };
        is_there && self.source.as_deref().is_none_or(|wanted| wanted == source)
    }

    /// Returns true if it concerns mail of this tenant and campaign.
    #[must_use]
    pub fn covers_party(&self, tenant: &str, campaign: &str) -> bool {
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|w| w == is);
        is(&self.tenant, tenant) && is(&self.campaign, campaign)
    }

    /// The parties concerned: `provider google from ip-1`.
    #[must_use]
    pub fn whom(&self) -> String {
        let mut whom = match (&self.provider, &self.next_hop) {
            (Some(provider), None) => format!("provider {provider}"),
            (Some(provider), Some(next_hop)) => {
                format!("the next hop {next_hop} of provider {provider}")
            }
            (None, Some(next_hop)) => format!("the next hop {next_hop}"),
            (None, None) => "nobody".to_owned(),
        };
        let parts = [
            (" from ", &self.source),
            (", tenant ", &self.tenant),
            (", campaign ", &self.campaign),
        ];
        for (what, name) in parts {
            if let Some(name) = name.as_deref().filter(|name| !name.is_empty()) {
                whom.push_str(what);
                whom.push_str(name);
            }
        }
        whom
    }
}

/// The reason, to follow "by": `rule blocked (shaping.toml:7), because mx.example.com said: 550 …`.
impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Effect { rule, place, peer, reply, .. } = self;
        write!(f, "rule {rule} ({place}), because {peer} replied: {reply}")
    }
}

/// Lists the effects in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapingList {}

/// Lifts effects in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShapingLift {
    /// The effects to lift; all if no field is set.
    pub lift: Lift,
}

/// Selects the effects that match all given fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lift {
    /// Effects of the rule with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Effects of this provider's rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Effects that concern this source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl Lift {
    /// Returns true if it selects this effect.
    #[must_use]
    pub fn takes(&self, effect: &Effect) -> bool {
        let is = |wanted: &Option<String>, is: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| is == Some(wanted))
        };
        is(&self.rule, Some(&effect.rule))
            && is(&self.provider, effect.provider.as_deref())
            && is(&self.source, effect.source.as_deref())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An effect that began at 0 and lasts 400 ms.
    pub(crate) fn effect(action: Action) -> Effect {
        Effect {
            rule: "slow".to_owned(),
            place: "a.toml:7".to_owned(),
            action,
            provider: Some("big".to_owned()),
            next_hop: None,
            source: Some("ip-1".to_owned()),
            tenant: None,
            campaign: None,
            peer: "mx.big.test".to_owned(),
            reply: "421 4.7.0 slow down".to_owned(),
            began: Wall(0),
            renewed: Wall(0),
            until: Wall(400),
            lasts_ms: 400,
            step: 1,
            returned: 0,
            deliveries_left: None,
        }
    }

    #[test]
    fn limits_return_in_quarters_after_the_end() {
        let slow = effect(Action::Backoff);
        let returned =
            [0, 399, 400, 499, 500, 600, 699, 700, 9_999].map(|at| slow.returned_at(Wall(at)));
        assert_eq!(returned, [0, 0, 1, 1, 2, 3, 3, 4, 4]);
        assert_eq!(slow.over_at(), Wall(700));
        let stopped = effect(Action::Suspend);
        assert_eq!([399, 400].map(|at| stopped.returned_at(Wall(at))), [0, QUARTERS]);
        assert_eq!(stopped.over_at(), Wall(400));
        let over = Effect { returned: QUARTERS, ..slow };
        assert_eq!((over.returned_at(Wall(0)), over.next()), (QUARTERS, Wall(800)));
    }

    #[test]
    fn an_effect_is_about_its_provider_and_source_and_party_only() {
        let slow = effect(Action::Backoff);
        assert!(slow.covers(Some("big"), "mx:out:a:25", "ip-1"));
        assert!(!slow.covers(Some("big"), "mx:out:a:25", ""));
        assert!(!slow.covers(Some("other"), "mx:out:a:25", "ip-1"));
        let every = Effect { source: None, ..slow.clone() };
        assert!(every.covers(Some("big"), "", "") && !every.covers(None, "", ""));
        let hop = Effect { provider: None, next_hop: Some("mx:out:a:25".to_owned()), ..every };
        assert!(hop.covers(None, "mx:out:a:25", "ip-2") && !hop.covers(None, "mx:out:b:25", ""));
        assert!(!hop.covers(Some("big"), "mx:out:a:25", ""));
        let of = Effect { campaign: Some("spring".to_owned()), ..slow.clone() };
        assert!(of.covers_party("acme", "spring") && !of.covers_party("acme", ""));
        assert_eq!(of.whom(), "provider big from ip-1, campaign spring");
        let told = "rule slow (a.toml:7), because mx.big.test replied: 421 4.7.0 slow down";
        assert_eq!(slow.to_string(), told);
        let lift = |rule: Option<&str>, source: Option<&str>| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            Lift { rule: own(rule), provider: None, source: own(source) }.takes(&slow)
        };
        assert!(lift(None, None) && lift(Some("slow"), Some("ip-1")));
        assert!(!lift(Some("slow"), Some("ip-2")) && !lift(Some("other"), None));
    }
}
