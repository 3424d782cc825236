//! Overrides by an operator of the sending parameters of a message, its tenant and its route.
//!
//! The spool stores them as an opaque text: the name of a route, or nothing, and a line for each of the rest: `pool
//! NAME`, `campaign NAME`, `priority NUMBER`. Lines unknown to this version are kept. Older versions, which knew only
//! routes, wrote one line.

use mail::Priority;
use serde::{Deserialize, Serialize};
use spool::record::OVERRIDES_BYTES_MAX;
use std::fmt;

/// `None` means no override.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overrides {
    /// It takes this route, whatever its recipients' domains are. In a command: empty removes the override.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// It is sent from this pool; empty: from its tenant's or its route's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Its campaign; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub campaign: Option<String>,
    /// Priority, from -9 to 9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i8>,
    /// Lines of a later version.
    #[serde(skip)]
    unknown: Vec<Box<str>>,
}

impl Overrides {
    /// Parses the text of [`Overrides::to_text`].
    #[must_use]
    pub fn parse(text: &str) -> Overrides {
        let mut lines = text.split('\n');
        let route = lines.next().filter(|route| !route.is_empty()).map(str::to_owned);
        let mut overrides = Overrides { route, ..Overrides::default() };
        for line in lines {
            match line.split_once(' ') {
                Some(("pool", name)) => overrides.pool = Some(name.to_owned()),
                Some(("campaign", name)) => overrides.campaign = Some(name.to_owned()),
                Some(("priority", number)) if Priority::parse(number).is_some() => {
                    overrides.priority = number.parse().ok();
                }
                _ => overrides.unknown.push(line.into()),
            }
        }
        overrides
    }

    /// The text for the spool; `None` without overrides.
    ///
    /// # Errors
    /// The reason why it can't be stored.
    pub fn to_text(&self) -> Result<Option<String>, &'static str> {
        if self.is_empty() {
            return Ok(None);
        }
        let names = [&self.route, &self.pool, &self.campaign];
        if names.into_iter().flatten().any(|name| name.contains('\n')) {
            return Err("line break in the name");
        }
        let mut text = self.route.clone().unwrap_or_default();
        for (key, name) in [("pool", &self.pool), ("campaign", &self.campaign)] {
            if let Some(name) = name {
                text += &format!("\n{key} {name}");
            }
        }
        if let Some(priority) = self.priority {
            text += &format!("\npriority {priority}");
        }
        for line in &self.unknown {
            text += &format!("\n{line}");
        }
        match text.len() > OVERRIDES_BYTES_MAX {
            true => Err("the names are too long together"),
            false => Ok(Some(text)),
        }
    }

    /// Returns true without overrides.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Overrides::default()
    }

    /// These overrides, replaced by those in `order`.
    #[must_use]
    pub fn and(&self, order: &Overrides) -> Overrides {
        let choose =
            |new: &Option<String>, old: &Option<String>| new.as_ref().or(old.as_ref()).cloned();
        Overrides {
            route: choose(&order.route, &self.route).filter(|route| !route.is_empty()),
            pool: choose(&order.pool, &self.pool),
            campaign: choose(&order.campaign, &self.campaign),
            priority: order.priority.or(self.priority),
            unknown: self.unknown.clone(),
        }
    }

    /// The priority, if set.
    #[must_use]
    pub fn priority(&self) -> Option<Priority> {
        self.priority.and_then(Priority::new)
    }
}

/// To follow "moved to".
impl fmt::Display for Overrides {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |what: &str, name: &Option<String>| {
            let name = name.as_ref()?;
            Some(if name.is_empty() { format!("no {what}") } else { format!("the {what} {name}") })
        };
        let all = [
            named("route", &self.route),
            named("pool", &self.pool),
            named("campaign", &self.campaign),
            self.priority.map(|priority| format!("priority {priority}")),
        ];
        let all: Vec<String> = all.into_iter().flatten().collect();
        f.write_str(&all.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(route: Option<&str>, pool: Option<&str>, priority: Option<i8>) -> Overrides {
        let owned = |name: Option<&str>| name.map(str::to_owned);
        Overrides { route: owned(route), pool: owned(pool), priority, ..Overrides::default() }
    }

    #[test]
    fn what_is_kept_is_found_again_and_what_is_not_understood_stays() {
        let chosen = Overrides {
            campaign: Some("spring sale".to_owned()),
            ..of(Some("out"), Some(""), Some(-9))
        };
        let text = chosen.to_text().unwrap().unwrap();
        assert_eq!(text, "out\npool \ncampaign spring sale\npriority -9");
        assert_eq!(Overrides::parse(&text), chosen);
        assert_eq!(Overrides::parse("far.test"), of(Some("far.test"), None, None));
        let later = Overrides::parse("\npriority 12\ntenant x\npool a");
        assert_eq!((later.priority, later.pool.as_deref()), (None, Some("a")));
        let text = later.and(&of(None, Some("b"), None)).to_text().unwrap();
        assert_eq!(text.as_deref(), Some("\npool b\npriority 12\ntenant x"));
        assert_eq!(Overrides::default().to_text(), Ok(None));
    }

    #[test]
    fn what_can_not_be_kept_is_no_order() {
        assert!(of(Some("a\nb"), None, None).to_text().is_err());
        let longest = "x".repeat(OVERRIDES_BYTES_MAX);
        assert!(of(Some(&longest), None, None).to_text().is_ok());
        assert!(of(Some(&longest), None, Some(1)).to_text().is_err());
    }

    #[test]
    fn a_later_order_counts_and_leaves_the_rest() {
        let first = of(Some("out"), Some("bulk"), None);
        let second = first.and(&of(None, Some(""), Some(3)));
        assert_eq!(second, of(Some("out"), Some(""), Some(3)));
        assert_eq!(second.to_string(), "the route out, no pool, priority 3");
        assert_eq!(second.and(&of(Some(""), None, None)), of(None, Some(""), Some(3)));
    }

    proptest! {
        #[test]
        fn any_text_is_read_and_written_alike(text in "[a-z \n0-9-]{0,60}") {
            let read = Overrides::parse(&text);
            let again = read.to_text().unwrap().map(|text| Overrides::parse(&text));
            prop_assert_eq!(again.unwrap_or_default(), read);
        }
    }
}
