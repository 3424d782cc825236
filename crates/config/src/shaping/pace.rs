//! Limits towards a next hop, each with the line that sets it.

use super::rate::Rate;
use crate::{RouteLimits, SharedLimits};
use std::fmt;
use std::sync::Arc;

/// A line of a file: `shaping.toml:7`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    pub(super) file: Arc<str>,
    pub(super) line: u32,
}

impl fmt::Display for FileLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A value and the line that sets it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set<T> {
    pub(super) value: T,
    pub(super) place: FileLine,
}

/// Settings of one level; unset ones are taken from lower levels.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    pub(super) max_connections: Option<Set<u32>>,
    pub(super) max_opens: Option<Set<u32>>,
    pub(super) messages_per_connection: Option<Set<u32>>,
    pub(super) recipients_per_message: Option<Set<u32>>,
    pub(super) adaptive: Option<Set<bool>>,
    pub(super) rates: Option<Set<Vec<Rate>>>,
}

impl Pace {
    /// Those limits of a route that its file sets, by `line` of a key.
    pub(crate) fn of_route(
        limits: RouteLimits,
        file: &Arc<str>,
        line: impl Fn(&str) -> Option<u32>,
    ) -> Pace {
        fn set<T>(value: T, place: Option<FileLine>) -> Option<Set<T>> {
            place.map(|place| Set { value, place })
        }
        let place = |key: &str| line(key).map(|line| FileLine { file: Arc::clone(file), line });
        let connections_max = limits.shared.map_or(0, |shared| shared.connections_max);
        // Its rate is a number, and stays beside it.
        let rates = set(Vec::new(), place("messages_per_second"));
        Pace {
            max_connections: set(connections_max, place("max_connections")),
            max_opens: set(limits.opens_max, place("max_opens")),
            messages_per_connection: set(
                limits.messages_per_connection,
                place("messages_per_connection"),
            ),
            recipients_per_message: set(
                limits.recipients_per_message,
                place("recipients_per_message"),
            ),
            adaptive: set(limits.adaptive, place("adaptive")),
            rates,
        }
    }

    /// These settings, completed by those of `lower`.
    pub(super) fn over(&self, lower: &Pace) -> Pace {
        fn either<T: Clone>(high: &Option<T>, low: &Option<T>) -> Option<T> {
            high.as_ref().or(low.as_ref()).cloned()
        }
        Pace {
            max_connections: either(&self.max_connections, &lower.max_connections),
            max_opens: either(&self.max_opens, &lower.max_opens),
            messages_per_connection: either(
                &self.messages_per_connection,
                &lower.messages_per_connection,
            ),
            recipients_per_message: either(
                &self.recipients_per_message,
                &lower.recipients_per_message,
            ),
            adaptive: either(&self.adaptive, &lower.adaptive),
            rates: either(&self.rates, &lower.rates),
        }
    }

    /// The limits of a route overridden by these settings, and the rates of its host sets.
    pub(super) fn instead_of(&self, limits: RouteLimits) -> (RouteLimits, Vec<Rate>) {
        fn value<T: Copy>(set: &Option<Set<T>>, otherwise: T) -> T {
            set.as_ref().map_or(otherwise, |set| set.value)
        }
        let rates = self.rates.as_ref().map(|set| set.value.clone()).unwrap_or_default();
        let shared = limits.shared.map(|shared| SharedLimits {
            connections_max: value(&self.max_connections, shared.connections_max),
            // Its own rate, unless replaced.
            messages_per_second: if rates.is_empty() { shared.messages_per_second } else { 0.0 },
        });
        let limits = RouteLimits {
            shared,
            opens_max: value(&self.max_opens, limits.opens_max),
            messages_per_connection: value(
                &self.messages_per_connection,
                limits.messages_per_connection,
            ),
            recipients_per_message: value(
                &self.recipients_per_message,
                limits.recipients_per_message,
            ),
            adaptive: value(&self.adaptive, limits.adaptive),
        };
        (limits, rates)
    }

    /// Each key that is set: its name, its value for people, and the line.
    pub(super) fn shown(&self) -> Vec<(&'static str, String, &FileLine)> {
        let mut shown = Vec::new();
        for (name, set) in [
            ("max_connections", &self.max_connections),
            ("max_opens", &self.max_opens),
            ("messages_per_connection", &self.messages_per_connection),
            ("recipients_per_message", &self.recipients_per_message),
        ] {
            shown.extend(set.as_ref().map(|set| (name, limit(set.value), &set.place)));
        }
        let adaptive = self.adaptive.as_ref();
        shown.extend(adaptive.map(|set| ("adaptive", set.value.to_string(), &set.place)));
        let rates = self.rates.as_ref().filter(|set| !set.value.is_empty());
        shown.extend(rates.map(|set| ("rate", in_words(&set.value), &set.place)));
        shown
    }
}

fn limit(value: u32) -> String {
    if value == 0 { "no limit".to_owned() } else { value.to_string() }
}

/// Rates, for people.
pub(super) fn in_words(rates: &[Rate]) -> String {
    let rates: Vec<String> = rates.iter().map(Rate::to_string).collect();
    rates.join(" and ")
}
