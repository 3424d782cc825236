//! A suspension by an operator: it applies to future mail, too, until it is resumed.

use super::{Scope, text};
use mail::Wall;
use serde::{Deserialize, Serialize};

/// Suspends delivery, of future mail too, until it is resumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSuspend {
    pub scope: Scope,
    /// The reason, for later readers.
    #[serde(default)]
    pub reason: String,
    /// Time at which it ends by itself.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

impl QueueSuspend {
    /// The suspension, beginning at `since`.
    #[must_use]
    pub fn since(self, since: Wall) -> Suspension {
        let QueueSuspend { scope, reason, until } = self;
        Suspension { scope, reason, since, until }
    }
}

/// Ends a suspension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueResume {
    pub scope: Scope,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspension {
    pub scope: Scope,
    /// The reason, as the operator gave it.
    #[serde(default)]
    pub reason: String,
    #[serde(with = "text::wall")]
    pub since: Wall,
    /// Time at which it ends by itself.
    #[serde(with = "text::wall_option", default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

/// The applicable suspension that ends last.
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

    #[test]
    fn of_several_that_apply_the_one_that_ends_last_counts() {
        let suspension = |domain: &str, until: Option<u64>| Suspension {
            scope: Scope { domain: Some(domain.to_owned()), ..Scope::default() },
            reason: String::new(),
            since: Wall(0),
            until: until.map(Wall),
        };
        let all = [
            suspension("a.test", Some(50)),
            suspension("b.test", Some(70)),
            suspension("c.test", None),
        ];
        let of = |now, domains: &[&str]| {
            let applies =
                |scope: &Scope| scope.domain.as_deref().is_some_and(|d| domains.contains(&d));
            longest(&all, Wall(now), applies).map(|s| s.until)
        };
        assert_eq!(of(10, &["a.test", "b.test"]), Some(Some(Wall(70))));
        assert_eq!(of(10, &["a.test"]), Some(Some(Wall(50))));
        assert_eq!(of(60, &["a.test"]), None);
        assert_eq!(of(60, &["b.test", "c.test"]), Some(None));
    }
}
