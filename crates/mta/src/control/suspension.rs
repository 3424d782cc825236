//! What an operator has stopped, with all mail to come, until it is resumed.

use super::text;
use mail::Wall;
use queue::ScheduledKey;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a suspension stops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Scope {
    All,
    /// Mail for this domain.
    Domain(String),
    /// Mail that takes the route of this name.
    Route(String),
    /// Mail to this next hop, or to any next hop that has this host.
    NextHop(String),
    /// Mail from the source of this name.
    Source(String),
    /// Mail of the tenant of this name.
    Tenant(String),
    /// Mail with this campaign.
    Campaign(String),
}

impl Scope {
    /// Whether it is about mail that waits under this key and takes this route.
    #[must_use]
    pub fn covers(&self, key: &ScheduledKey, route: Option<&str>) -> bool {
        match self {
            Scope::All => true,
            Scope::Domain(wanted) => key.domain.as_str().eq_ignore_ascii_case(wanted),
            Scope::Route(wanted) => route == Some(wanted),
            Scope::Tenant(wanted) => *key.tenant == **wanted,
            Scope::Campaign(wanted) => *key.campaign == **wanted,
            Scope::NextHop(_) | Scope::Source(_) => false,
        }
    }

    /// Whether it is about this next hop, or all that is sent from this source.
    #[must_use]
    pub fn covers_hop(&self, next_hop: &str, source: &str) -> bool {
        match self {
            Scope::NextHop(wanted) => super::selection::is_hop(next_hop, wanted),
            Scope::Source(wanted) => source == wanted,
            _ => false,
        }
    }
}

/// To follow "suspend" or "resume".
impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::All => f.write_str("all delivery"),
            Scope::Domain(domain) => write!(f, "the domain {domain}"),
            Scope::Route(route) => write!(f, "the route {route}"),
            Scope::NextHop(hop) => write!(f, "the next hop {hop}"),
            Scope::Source(source) => write!(f, "the source {source}"),
            Scope::Tenant(tenant) => write!(f, "the tenant {tenant}"),
            Scope::Campaign(campaign) => write!(f, "the campaign {campaign}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    pub scope: Scope,
    /// Why, in the operator's words.
    #[serde(default)]
    pub reason: String,
    #[serde(with = "text::wall")]
    pub since: Wall,
    /// When it ends by itself.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

/// Of those that apply, the one that ends last.
pub(crate) fn longest(
    all: &[Suspension],
    now: Wall,
    applies: impl Fn(&Scope) -> bool,
) -> Option<&Suspension> {
    let mine = all.iter().filter(|s| applies(&s.scope) && s.until.is_none_or(|until| until > now));
    mine.max_by_key(|s| s.until.map_or(u64::MAX, |until| until.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(domain: &str, tenant: &str) -> ScheduledKey {
        ScheduledKey {
            tenant: tenant.into(),
            campaign: "spring".into(),
            domain: mail::Domain::parse(domain).unwrap(),
            route: "".into(),
            pool: "".into(),
            window: "".into(),
            require_tls: mail::RequireTls::Unsaid,
        }
    }

    #[test]
    fn a_tenant_s_or_campaign_s_mail_is_covered_and_no_other() {
        let (acme, other) = (key("a.test", "acme"), key("a.test", "other"));
        let tenant = Scope::Tenant("acme".to_owned());
        assert!(tenant.covers(&acme, None) && !tenant.covers(&other, None));
        assert!(!Scope::Tenant(String::new()).covers(&acme, None));
        assert!(Scope::Campaign("spring".to_owned()).covers(&other, None));
        assert!(!Scope::Campaign("Spring".to_owned()).covers(&other, None));
        assert!(!tenant.covers_hop("mx:out:mx.test:25", "acme"));
    }

    #[test]
    fn of_several_that_apply_the_one_that_ends_last_counts() {
        let suspension = |scope, until: Option<u64>| Suspension {
            scope,
            reason: String::new(),
            since: Wall(0),
            until: until.map(Wall),
        };
        let all = [
            suspension(Scope::Domain("a.test".to_owned()), Some(50)),
            suspension(Scope::Route("out".to_owned()), Some(70)),
            suspension(Scope::NextHop("mx.test".to_owned()), None),
        ];
        let of = |now, domain: &str, route| {
            let key = key(domain, "acme");
            longest(&all, Wall(now), |s| s.covers(&key, route)).and_then(|s| s.until)
        };
        assert_eq!(of(10, "A.test", Some("out")), Some(Wall(70)));
        assert_eq!(of(10, "a.test", None), Some(Wall(50)));
        assert_eq!(of(60, "a.test", None), None);
        assert!(longest(&all, Wall(60), |s| s.covers_hop("mx:out:mx.test:25", "")).is_some());
        assert_eq!(all[2].scope.to_string(), "the next hop mx.test");
    }
}
