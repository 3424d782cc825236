//! Effects of rules on limits, at first and while they recover.

use super::pace::{Pace, Set};
use super::rate::Rate;
use super::rule::{Action, Rule};
use super::{Paced, Provider, ProviderLimits, Shaping};
use std::sync::Arc;

/// Steps in which limits return.
pub const QUARTERS: u8 = 4;

/// An effect that is in force.
#[derive(Clone, Copy, Debug)]
pub struct Easing<'a> {
    /// The provider of the rule; `None`: the rules for domains without a provider.
    pub provider: Option<&'a str>,
    /// Its name.
    pub rule: &'a str,
    /// Recovery of the limits, in quarters.
    pub quarters: u8,
    /// It holds for all sources together.
    pub is_of_every_source: bool,
}

/// An additional limit set by a rule.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleLimit {
    /// The provider that it holds for as a whole; `None`: for the set of hosts.
    pub provider: Option<Arc<str>>,
    /// True if all sources share it.
    pub is_of_every_source: bool,
    /// The rule and its recovery; unique.
    pub by: String,
    /// Connections at once; 0: no limit.
    pub connections_max: u32,
    /// Messages; 0: no limit.
    pub per_second: f64,
}

/// Limits set by a rule, replacing those of the set of hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct RuleSet {
    /// The rule and its recovery; unique.
    pub by: String,
    /// Connections at once; 0: no limit, and `None`: as usual.
    pub connections_max: Option<u32>,
    /// Message rates, all in force. Empty: no limit; `None`: unchanged.
    pub rates: Option<Vec<Rate>>,
}

/// Interpolates from `low` to `full` by quarters. 0 is no limit: without a final limit, each step is four times the one
/// before.
fn eased(low: f64, full: f64, quarters: u8) -> f64 {
    match (quarters, low == 0.0, full == 0.0) {
        (0, _, _) => low,
        (_, true, _) => full,
        (_, false, true) => low * f64::from(QUARTERS).powi(i32::from(quarters)),
        (_, false, false) => {
            low + (full - low) * f64::from(quarters.min(QUARTERS)) / f64::from(QUARTERS)
        }
    }
}

/// The same of things that are counted: at least one, where there is a limit.
fn eased_count(low: u32, full: u32, quarters: u8) -> u32 {
    let eased = eased(f64::from(low), f64::from(full), quarters);
    if eased == 0.0 { 0 } else { (eased.round() as u32).max(1) }
}

/// The lowest rate, which is the effective one; 0 without any.
fn lowest(rates: &[Rate]) -> f64 {
    rates.iter().map(|rate| rate.per_second()).reduce(f64::min).unwrap_or(0.0)
}

fn value<T: Copy>(set: &Option<Set<T>>) -> Option<T> {
    set.as_ref().map(|set| set.value)
}

impl Shaping {
    /// The rule of this name.
    pub(crate) fn rule(&self, provider: Option<&str>, name: &str) -> Option<&Arc<Rule>> {
        match provider {
            None => self.default_rules.named(name),
            Some(provider) => self.named(provider)?.rules.named(name),
        }
    }

    /// All rules, with their providers.
    pub fn rules(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &Arc<Rule>)> {
        let of_none = self.default_rules.all().iter().map(|rule| (None, rule));
        let of_providers = self.providers.iter().flat_map(|provider| {
            provider.rules.all().iter().map(move |rule| (Some(&provider.name), rule))
        });
        of_none.chain(of_providers)
    }

    fn named(&self, provider: &str) -> Option<&Provider> {
        self.providers.iter().find(|known| *known.name == *provider)
    }

    /// Changes limits as an effect does that is in force.
    pub(crate) fn ease(&self, paced: &mut Paced, easing: Easing<'_>) {
        let Some(rule) = self.rule(easing.provider, easing.rule) else { return };
        let returned = match easing.quarters {
            0 => String::new(),
            quarters => format!(", {quarters}/{QUARTERS} returned"),
        };
        let by = format!("rule {} ({}){returned}", rule.name, rule.place);
        match rule.action {
            Action::Backoff => {
                let limit = match easing.provider.and_then(|name| self.named(name)) {
                    Some(provider) => self.backoff_of(provider, easing, by),
                    None => backoff_of_hosts(&self.default_rules.backoff, paced, easing, by),
                };
                paced.by_rules.push(limit);
            }
            Action::Set => set(&rule.set, paced, easing.quarters, by),
            Action::Suspend
            | Action::SuspendTenant
            | Action::SuspendCampaign
            | Action::FailCampaign => {}
        }
    }

    /// The limit for all hosts of a provider together: providers throttle as a whole.
    fn backoff_of(&self, provider: &Provider, easing: Easing<'_>, by: String) -> RuleLimit {
        let usual = provider.pace.over(&self.default);
        let together = &provider.together;
        let connections = value(&together.max_connections).or(value(&usual.max_connections));
        let rates = together.rates.as_ref().or(usual.rates.as_ref());
        let full = (connections.unwrap_or(0), rates.map_or(0.0, |set| lowest(&set.value)));
        let name = Some(Arc::clone(&provider.name));
        limit_of(&provider.rules.backoff, full, (easing, name, by))
    }
}

/// The limit for one set of hosts without a known provider.
fn backoff_of_hosts(
    backoff: &ProviderLimits,
    paced: &Paced,
    easing: Easing<'_>,
    by: String,
) -> RuleLimit {
    let shared = paced.limits.shared;
    let rate = shared.map_or(0.0, |shared| shared.messages_per_second);
    let rate = if rate > 0.0 { rate } else { lowest(&paced.rates) };
    let full = (shared.map_or(0, |shared| shared.connections_max), rate);
    limit_of(backoff, full, (easing, None, by))
}

fn limit_of(
    backoff: &ProviderLimits,
    (connections, rate): (u32, f64),
    (easing, provider, by): (Easing<'_>, Option<Arc<str>>, String),
) -> RuleLimit {
    let quarters = easing.quarters;
    let most = value(&backoff.max_connections);
    let slowest = backoff.rates.as_ref().map(|set| lowest(&set.value));
    RuleLimit {
        provider,
        is_of_every_source: easing.is_of_every_source,
        by,
        connections_max: most.map_or(0, |most| eased_count(most, connections, quarters)),
        per_second: slowest.map_or(0.0, |slowest| eased(slowest, rate, quarters)),
    }
}

/// Replaces the limits that are set.
fn set(pace: &Pace, paced: &mut Paced, quarters: u8, by: String) {
    let count = |set: &Option<Set<u32>>, full: u32| {
        value(set).map_or(full, |low| eased_count(low, full, quarters))
    };
    let limits = &mut paced.limits;
    limits.opens_max = count(&pace.max_opens, limits.opens_max);
    limits.messages_per_connection =
        count(&pace.messages_per_connection, limits.messages_per_connection);
    limits.recipients_per_message =
        count(&pace.recipients_per_message, limits.recipients_per_message);
    if quarters == 0 {
        limits.adaptive = value(&pace.adaptive).unwrap_or(limits.adaptive);
    }
    let Some(shared) = limits.shared else { return };
    let own = shared.messages_per_second;
    let full = if own > 0.0 { own } else { lowest(&paced.rates) };
    let eased_rates = |rates: &Set<Vec<Rate>>| match quarters {
        0 => rates.value.clone(),
        _ => vec![Rate::of_per_second(eased(lowest(&rates.value), full, quarters))],
    };
    let set = RuleSet {
        by,
        connections_max: value(&pace.max_connections)
            .map(|low| eased_count(low, shared.connections_max, quarters)),
        rates: pace.rates.as_ref().map(eased_rates),
    };
    // A rule may be in force for a next hop and for all of its provider.
    let sets_any = set.connections_max.is_some() || set.rates.is_some();
    if sets_any && !paced.sets.contains(&set) {
        paced.sets.push(set);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_return_in_quarters_of_the_way() {
        let steps = |low, full| [0, 1, 2, 3, 4].map(|quarters| eased_count(low, full, quarters));
        assert_eq!(steps(1, 21), [1, 6, 11, 16, 21]);
        assert_eq!(steps(1, 2), [1, 1, 2, 2, 2], "never none");
        assert_eq!(steps(2, 0), [2, 8, 32, 128, 512], "to no limit");
        assert_eq!(steps(0, 7), [0, 7, 7, 7, 7]);
        assert_eq!(steps(30, 10), [30, 25, 20, 15, 10], "more than usual was set");
        assert!((eased(0.5, 4.5, 1) - 1.5).abs() < 1e-9);
    }
}
