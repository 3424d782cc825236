//! The limits that a ready queue shares with other ready queues, identified by name.

use config::SharedLimits;
use config::shaping::{Paced, PacedTogether, Rate, RuleLimit, RuleSet};
use queue::NamedLimit;

/// The limits for the set of hosts in any order, for its provider and for rules. Each source has separate ones, except
/// where a rule covers every source.
pub(super) fn named_limits(
    host_set: String,
    paced: &Paced,
    source: Option<&str>,
) -> Vec<NamedLimit> {
    let mut limits = Vec::new();
    let from = source.map_or_else(String::new, |source| format!(" from {source}"));
    let host_set = match &paced.apart {
        Some(apart) => format!("{host_set} for {apart}"),
        None => host_set,
    };
    for RuleLimit { provider, is_of_every_source, by, connections_max, per_second } in
        &paced.by_rules
    {
        let whose = provider.as_ref().map(|provider| format!("provider {provider}"));
        let whose = whose.as_deref().unwrap_or(&host_set);
        let from = if *is_of_every_source { "" } else { &from };
        limits.push(NamedLimit {
            name: format!("{whose}{from} by {by}").into(),
            connections_max: *connections_max,
            messages_per_second: *per_second,
        });
    }
    if let Some(shared) = paced.limits.shared {
        let (name, usual) = (format!("{host_set}{from}"), (shared, paced.rates.clone()));
        let kept = kept(&usual, &paced.sets);
        add_of_hosts(&mut limits, name.clone(), kept);
        for set in paced.sets.iter().filter_map(|set| changed(&usual, set)) {
            // A rule's value is a separate named limit: it applies on all shards without a reload. Each rule has its
            // own, since of two ready queues to the same hosts only one may be subject to it.
            let (by, of_hosts) = set;
            add_of_hosts(&mut limits, format!("{name} by {by}"), of_hosts);
        }
    }
    if let Some(PacedTogether { provider, connections_max, rates }) = &paced.together {
        let first = NamedLimit {
            name: format!("provider {provider}{from}").into(),
            connections_max: *connections_max,
            messages_per_second: 0.0,
        };
        add(&mut limits, first, rates);
    }
    limits.retain(|limit| limit.connections_max > 0 || limit.messages_per_second > 0.0);
    limits
}

/// Limits for a set of hosts: connections with one rate, and further rates.
type OfHosts = (SharedLimits, Vec<Rate>);

const NONE: SharedLimits = SharedLimits { connections_max: 0, messages_per_second: 0.0 };

/// Returns true if the limit is as strict as normal or stricter.
fn is_lower(now: f64, usual: f64) -> bool {
    now > 0.0 && now <= usual
}

/// The part of the normal limits that stays in force. If rules lower a limit, the normal one stays too: connections
/// opened before the rule still count towards it on all shards. If rules raise or remove a limit, the normal one is
/// dropped.
fn kept(usual: &OfHosts, sets: &[RuleSet]) -> OfHosts {
    let (shared, rates) = usual;
    let most = f64::from(shared.connections_max);
    let connections =
        |set: &RuleSet| set.connections_max.is_none_or(|now| is_lower(now.into(), most));
    let messages = |set: &RuleSet| {
        let set = set.rates.as_ref();
        set.is_none_or(|rates| is_lower(slowest(&(NONE, rates.clone())), slowest(usual)))
    };
    let mut kept = (NONE, Vec::new());
    if sets.iter().all(connections) {
        kept.0.connections_max = shared.connections_max;
    }
    if sets.iter().all(messages) {
        kept.0.messages_per_second = shared.messages_per_second;
        kept.1.clone_from(rates);
    }
    kept
}

/// The rule's name and its limits. `None` if they equal the normal ones.
fn changed<'a>(usual: &OfHosts, set: &'a RuleSet) -> Option<(&'a str, OfHosts)> {
    let connections_max = set.connections_max.filter(|now| *now != usual.0.connections_max);
    let is_usual = |rates: &Vec<Rate>| usual.0.messages_per_second == 0.0 && *rates == usual.1;
    let rates = set.rates.clone().filter(|rates| !is_usual(rates));
    if connections_max.is_none() && rates.is_none() {
        return None;
    }
    let shared = SharedLimits { connections_max: connections_max.unwrap_or(0), ..NONE };
    Some((&set.by, (shared, rates.unwrap_or_default())))
}

/// The lowest rate for a set of hosts, 0 for none.
fn slowest((shared, rates): &OfHosts) -> f64 {
    let own = Some(shared.messages_per_second).filter(|own| *own > 0.0);
    let all = rates.iter().map(|rate| rate.per_second()).chain(own);
    all.reduce(f64::min).unwrap_or(0.0)
}

fn add_of_hosts(limits: &mut Vec<NamedLimit>, name: String, (shared, rates): OfHosts) {
    let first = NamedLimit {
        name: name.into(),
        connections_max: shared.connections_max,
        messages_per_second: shared.messages_per_second,
    };
    add(limits, first, &rates);
}

/// A limit has a single rate, so further rates become further limits.
fn add(limits: &mut Vec<NamedLimit>, mut first: NamedLimit, rates: &[Rate]) {
    let mut rates = rates.iter();
    if first.messages_per_second == 0.0 {
        first.messages_per_second = rates.next().map_or(0.0, |rate| rate.per_second());
    }
    let more = rates.map(|rate| NamedLimit {
        name: format!("{} at {rate}", first.name).into(),
        connections_max: 0,
        messages_per_second: rate.per_second(),
    });
    let more: Vec<NamedLimit> = more.collect();
    limits.push(first);
    limits.extend(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::RouteLimits;
    use std::sync::Arc;

    #[test]
    fn a_limit_has_one_rate_and_a_name_that_says_whose_it_is() {
        let shared = Some(SharedLimits { connections_max: 5, messages_per_second: 0.0 });
        let rate = |text| Rate::parse(text).unwrap();
        let paced = Paced {
            limits: RouteLimits { shared, ..RouteLimits::default() },
            rates: vec![rate("10/s"), rate("3600/h")],
            apart: Some("domain x.test".to_owned()),
            together: Some(PacedTogether {
                provider: Arc::from("big"),
                connections_max: 0,
                rates: vec![rate("60/m")],
            }),
            ..Paced::of_route(RouteLimits::default())
        };
        let found = named_limits("mx:out:a:25".to_owned(), &paced, Some("ip-1"));
        let found: Vec<(&str, u32, f64)> =
            found.iter().map(|l| (&*l.name, l.connections_max, l.messages_per_second)).collect();
        assert_eq!(
            found,
            [
                ("mx:out:a:25 for domain x.test from ip-1", 5, 10.0),
                ("mx:out:a:25 for domain x.test from ip-1 at 3600/h", 0, 1.0),
                ("provider big from ip-1", 0, 1.0),
            ]
        );
    }

    fn set(by: &str, connections_max: Option<u32>, rates: Option<&str>) -> RuleSet {
        let rates = rates.map(|text| Rate::parse(text).into_iter().collect());
        RuleSet { by: by.to_owned(), connections_max, rates }
    }

    #[test]
    fn what_rules_set_are_limits_of_their_own() {
        let shared = Some(SharedLimits { connections_max: 5, messages_per_second: 0.0 });
        let limit = |provider: Option<&str>, is_of_every_source| RuleLimit {
            provider: provider.map(Arc::from),
            is_of_every_source,
            by: "rule slow (a.toml:7)".to_owned(),
            connections_max: 1,
            per_second: 0.5,
        };
        let paced = Paced {
            sets: vec![set("rule few (a.toml:9), 1/4 returned", Some(9), None)],
            by_rules: vec![limit(Some("big"), true), limit(Some("big"), false), limit(None, false)],
            ..Paced::of_route(RouteLimits { shared, ..RouteLimits::default() })
        };
        let found = named_limits("mx:out:a:25".to_owned(), &paced, Some("ip-1"));
        let names: Vec<&str> = found.iter().map(|limit| &*limit.name).collect();
        assert_eq!(
            names,
            [
                "provider big by rule slow (a.toml:7)",
                "provider big from ip-1 by rule slow (a.toml:7)",
                "mx:out:a:25 from ip-1 by rule slow (a.toml:7)",
                "mx:out:a:25 from ip-1 by rule few (a.toml:9), 1/4 returned",
            ]
        );
        assert_eq!((found[0].connections_max, found[0].messages_per_second), (1, 0.5));
    }

    #[test]
    fn what_a_rule_lowers_holds_beside_what_it_sets_and_what_it_raises_does_not() {
        fn rates(text: &str) -> Vec<Rate> {
            Some(text)
                .filter(|text| !text.is_empty())
                .map(|r| Rate::parse(r).unwrap())
                .into_iter()
                .collect()
        }
        let limits = |usual: (u32, &str), set: (u32, &str)| {
            let of = |connections_max| SharedLimits { connections_max, messages_per_second: 0.0 };
            let by_rule = RuleSet {
                by: "rule few (a.toml:9)".to_owned(),
                connections_max: Some(set.0),
                rates: Some(rates(set.1)),
            };
            let paced = Paced {
                sets: vec![by_rule],
                rates: rates(usual.1),
                ..Paced::of_route(RouteLimits {
                    shared: Some(of(usual.0)),
                    ..RouteLimits::default()
                })
            };
            let found = named_limits("h".to_owned(), &paced, None).into_iter();
            let told = found
                .map(|l| format!("{} {} {}", l.name, l.connections_max, l.messages_per_second));
            told.collect::<Vec<String>>()
        };
        let by = "h by rule few (a.toml:9)";
        assert_eq!(limits((5, ""), (1, "")), ["h 5 0".to_owned(), format!("{by} 1 0")]);
        assert_eq!(limits((5, ""), (5, "2/s")), ["h 5 0".to_owned(), format!("{by} 0 2")]);
        assert_eq!(limits((5, "9/s"), (5, "2/s")), ["h 5 9".to_owned(), format!("{by} 0 2")]);
        assert_eq!(limits((5, "1/s"), (5, "2/s")), ["h 5 0".to_owned(), format!("{by} 0 2")]);
        assert_eq!(limits((5, "9/s"), (8, "9/s")), ["h 0 9".to_owned(), format!("{by} 8 0")]);
        assert_eq!(limits((5, ""), (0, "")), [""; 0], "it is lifted");
        assert_eq!(limits((0, ""), (3, "")), [format!("{by} 3 0")]);
    }

    #[test]
    fn a_way_with_more_rules_shares_with_other_ways_to_its_hosts_what_each_rule_sets() {
        let usual = SharedLimits { connections_max: 5, messages_per_second: 0.0 };
        let limits = |sets: &[RuleSet]| {
            let paced = Paced {
                sets: sets.to_vec(),
                ..Paced::of_route(RouteLimits { shared: Some(usual), ..RouteLimits::default() })
            };
            let found = named_limits("h".to_owned(), &paced, None).into_iter();
            found
                .map(|l| format!("{} {} {}", l.name, l.connections_max, l.messages_per_second))
                .collect::<Vec<String>>()
        };
        let (few, slow) = (set("few", Some(1), None), set("slow", None, Some("2/s")));
        let raised = set("more", Some(9), Some("4/s"));
        assert_eq!(limits(std::slice::from_ref(&slow)), ["h 5 0", "h by slow 0 2"]);
        assert_eq!(
            limits(&[few.clone(), slow.clone()]),
            ["h 5 0", "h by few 1 0", "h by slow 0 2"]
        );
        let all = limits(&[few, slow, raised]);
        assert_eq!(all, ["h by few 1 0", "h by slow 0 2", "h by more 9 4"], "the strictest holds");
    }

    #[test]
    fn without_shaping_there_is_the_route_s_own_as_it_was() {
        let shared = Some(SharedLimits { connections_max: 5, messages_per_second: 2.5 });
        let paced = Paced::of_route(RouteLimits { shared, ..RouteLimits::default() });
        let found = named_limits("mx:out:a:25".to_owned(), &paced, None);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*only.name, only.connections_max), ("mx:out:a:25", 5));
        assert_eq!(only.messages_per_second, 2.5);
        assert!(
            named_limits("here".to_owned(), &Paced::of_route(RouteLimits::default()), None)
                .is_empty()
        );
    }
}
