//! The limits that a ready queue shares with others, by their names.

use config::shaping::{Paced, PacedTogether, Rate};
use queue::NamedLimit;

/// Those of the set of hosts, whatever their order, and of what it belongs to; each source has its own.
pub(super) fn named_limits(
    host_set: String,
    paced: &Paced,
    source: Option<&str>,
) -> Vec<NamedLimit> {
    let mut limits = Vec::new();
    let from = source.map_or_else(String::new, |source| format!(" from {source}"));
    if let Some(shared) = paced.limits.shared {
        let name = match &paced.apart {
            Some(apart) => format!("{host_set} for {apart}{from}"),
            None => host_set + &from,
        };
        let first = NamedLimit {
            name: name.into(),
            connections_max: shared.connections_max,
            messages_per_second: shared.messages_per_second,
        };
        add(&mut limits, first, &paced.rates);
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
    use config::{Limits, SharedLimits};
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
