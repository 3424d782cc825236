//! The limits that a ready queue shares with others, by their names.

use config::SharedLimits;
use config::shaping::{Paced, PacedTogether, Rate, RuleLimit};
use queue::NamedLimit;

/// Those of the set of hosts, whatever their order, and of what it belongs to; each source has its own.
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
        let name = format!("{host_set}{from}");
        let now = (shared, paced.rates.clone());
        match &paced.by {
            None => add_of_hosts(&mut limits, name, now),
            Some(by) => {
                // What a rule sets is another limit: it needs no reload to hold on all shards alike.
                let set = format!("{name} by {by}");
                let (kept, now) = parted(paced.usual.clone(), now);
                add_of_hosts(&mut limits, name, kept);
                add_of_hosts(&mut limits, set, now);
            }
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

/// Limits of a set of hosts: connections and a rate, and more rates.
type OfHosts = (SharedLimits, Vec<Rate>);

/// What a rule lowers holds beside what it sets: what was opened by it before counts towards it still, on whichever
/// shard that was. What it raises, or takes away, does not. Gives what holds as it did, and what is set.
fn parted(usual: Option<OfHosts>, now: OfHosts) -> (OfHosts, OfHosts) {
    let none = SharedLimits { connections_max: 0, messages_per_second: 0.0 };
    let (mut kept, mut set) = ((none, Vec::new()), now);
    let Some(usual) = usual else { return (kept, set) };
    let is_lower = |now: f64, usual: f64| now > 0.0 && now <= usual;
    let connections = (set.0.connections_max, usual.0.connections_max);
    if is_lower(connections.0.into(), connections.1.into()) {
        kept.0.connections_max = connections.1;
        if connections.0 == connections.1 {
            set.0.connections_max = 0;
        }
    }
    if is_lower(slowest(&set), slowest(&usual)) {
        let is_same = set.0.messages_per_second == usual.0.messages_per_second && set.1 == usual.1;
        kept.0.messages_per_second = usual.0.messages_per_second;
        kept.1 = usual.1;
        if is_same {
            (set.0.messages_per_second, set.1) = (0.0, Vec::new());
        }
    }
    (kept, set)
}

/// What the rates of a set of hosts come to; 0: there are none.
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

/// A limit has one rate: others are limits beside it.
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
    use config::Limits;
    use std::sync::Arc;

    #[test]
    fn a_limit_has_one_rate_and_a_name_that_says_whose_it_is() {
        let shared = Some(SharedLimits { connections_max: 5, messages_per_second: 0.0 });
        let rate = |text| Rate::parse(text).unwrap();
        let paced = Paced {
            limits: Limits { shared, ..Limits::default() },
            rates: vec![rate("10/s"), rate("3600/h")],
            apart: Some("domain x.test".to_owned()),
            together: Some(PacedTogether {
                provider: Arc::from("big"),
                connections_max: 0,
                rates: vec![rate("60/m")],
            }),
            ..Paced::of_route(Limits::default())
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
            by: Some("rule few (a.toml:9), 1/4 returned".to_owned()),
            by_rules: vec![limit(Some("big"), true), limit(Some("big"), false), limit(None, false)],
            ..Paced::of_route(Limits { shared, ..Limits::default() })
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
            let paced = Paced {
                by: Some("rule few (a.toml:9)".to_owned()),
                usual: Some((of(usual.0), rates(usual.1))),
                rates: rates(set.1),
                ..Paced::of_route(Limits { shared: Some(of(set.0)), ..Limits::default() })
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
    fn without_shaping_there_is_the_route_s_own_as_it_was() {
        let shared = Some(SharedLimits { connections_max: 5, messages_per_second: 2.5 });
        let paced = Paced::of_route(Limits { shared, ..Limits::default() });
        let found = named_limits("mx:out:a:25".to_owned(), &paced, None);
        let [only] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*only.name, only.connections_max), ("mx:out:a:25", 5));
        assert_eq!(only.messages_per_second, 2.5);
        assert!(
            named_limits("here".to_owned(), &Paced::of_route(Limits::default()), None).is_empty()
        );
    }
}
