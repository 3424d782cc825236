//! Sending parameters given by a message's sender: stored in the message's meta, and read from there whenever it is
//! queued.

use crate::facts::{self, Facts, StoredFacts};
use crate::overrides::Overrides;
use mail::{ByMode, DeliverBy, Priority, Refusal, Wall};
use spool::Meta;
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for which a message may be delayed: a year.
pub const HOLD_MAX: Duration = Duration::from_secs(366 * 86_400);

/// Maximum length of the name of a tenant or campaign.
const NAME_BYTES_MAX: usize = 128;

/// Returns true for a valid name of a tenant or campaign. Names that begin with `<` are reserved.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| (0x20..0x7f).contains(&byte) && !matches!(byte, b'<' | b'>');
    (1..=NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(is_of_name)
}

/// The sending parameters of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Steering {
    /// Tenant of the mail.
    pub tenant: Option<Arc<str>>,
    pub campaign: Option<Arc<str>>,
    /// Egress pool, in place of the route's.
    pub pool: Option<Arc<str>>,
    pub priority: Option<Priority>,
    /// Earliest time of sending.
    pub not_before: Option<Wall>,
    /// Time from which it is not sent any more.
    pub expires: Option<Wall>,
    /// Sending window, as parsed by [`crate::window::Window`].
    pub window: Option<Arc<str>>,
    /// Deliver-by time.
    pub deliver_by: Option<DeliverBy>,
}

impl Steering {
    /// The facts to store.
    pub(crate) fn facts(&self) -> Facts<'_> {
        let Steering { tenant, campaign, pool, priority, not_before, expires, window, deliver_by } =
            self;
        Facts {
            tenant: tenant.as_deref(),
            campaign: campaign.as_deref(),
            pool: pool.as_deref(),
            priority: *priority,
            not_before: *not_before,
            expires: *expires,
            window: window.as_deref(),
            deliver_by: *deliver_by,
            ..Facts::default()
        }
    }

    /// Time at which it expires, whatever the retry policy is.
    #[must_use]
    pub fn given_up_at(&self) -> Option<Wall> {
        facts::earlier_end(self.expires, self.deliver_by)
    }

    /// Time of the report of delay to the sender, whatever the retry policy is.
    #[must_use]
    pub fn notice_at(&self) -> Option<Wall> {
        self.deliver_by.filter(|by| by.mode == ByMode::Notify).map(|by| by.at)
    }

    /// Checks that it can be sent before it expires.
    ///
    /// # Errors
    /// It can't.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let text = "Message would expire before its delivery window";
        let is_never_sent = self.given_up_at().is_some_and(|at| Some(at) <= self.not_before);
        match is_never_sent {
            true => Err(Refusal::permanent((5, 4), text).with_code(550)),
            false => Ok(()),
        }
    }

    /// With an operator's overrides applied.
    pub(crate) fn overridden(self, overrides: Option<&Overrides>) -> Steering {
        let Some(overrides) = overrides else { return self };
        let chosen = |chosen: &Option<String>, said: Option<Arc<str>>| match chosen {
            Some(name) => (!name.is_empty()).then(|| Arc::from(name.as_str())),
            None => said,
        };
        Steering {
            campaign: chosen(&overrides.campaign, self.campaign),
            pool: chosen(&overrides.pool, self.pool),
            priority: overrides.priority().or(self.priority),
            ..self
        }
    }

    /// The parameters from stored facts.
    pub(crate) fn of(meta: &Meta) -> Steering {
        let kept = StoredFacts::of(meta);
        Steering {
            tenant: kept.tenant().map(Arc::from),
            campaign: kept.campaign().map(Arc::from),
            pool: kept.pool().map(Arc::from),
            priority: kept.priority(),
            not_before: kept.not_before(),
            expires: kept.expires(),
            window: kept.window().map(Arc::from),
            deliver_by: kept.deliver_by(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_found_again() {
        let steering = Steering {
            tenant: Some("acme".into()),
            campaign: Some("spring".into()),
            pool: Some("bulk".into()),
            priority: Priority::new(-9),
            not_before: Some(Wall(1)),
            expires: Some(Wall(2)),
            window: Some("mon 09:00-10:00 UTC".into()),
            deliver_by: Some(DeliverBy { at: Wall(3), mode: ByMode::Notify, is_traced: true }),
        };
        let meta = steering.facts().to_meta();
        assert!(meta.fields.is_sorted_by_key(|(tag, _)| *tag));
        assert_eq!(Steering::of(&meta), steering);
        assert_eq!(Steering::of(&Meta::default()), Steering::default());
        assert!(Steering::default().facts().to_meta().fields.is_empty());
    }

    #[test]
    fn an_operator_s_choice_counts_and_leaves_the_rest() {
        let said = Steering {
            tenant: Some("acme".into()),
            campaign: Some("spring".into()),
            pool: Some("bulk".into()),
            priority: Priority::new(-9),
            ..Steering::default()
        };
        let chosen = Overrides::parse("\ncampaign \npool warm");
        let found = said.clone().overridden(Some(&chosen));
        assert_eq!((found.campaign, found.pool.as_deref()), (None, Some("warm")));
        assert_eq!((found.tenant, found.priority), (said.tenant.clone(), Priority::new(-9)));
        assert_eq!(said.clone().overridden(None), said);
    }

    #[test]
    fn names_are_printable_and_short() {
        assert!(is_name("Spring sale, 2026") && is_name(&"x".repeat(NAME_BYTES_MAX)));
        for bad in ["", "<reports>", "a\u{e9}", "a\u{7f}", &"x".repeat(NAME_BYTES_MAX + 1)] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn the_earlier_of_two_ends_counts() {
        let by = |at, mode| Some(DeliverBy { at: Wall(at), mode, is_traced: false });
        let mut steering = Steering { expires: Some(Wall(5)), ..Steering::default() };
        assert_eq!((steering.given_up_at(), steering.notice_at()), (Some(Wall(5)), None));
        steering.deliver_by = by(3, ByMode::Return);
        assert_eq!((steering.given_up_at(), steering.notice_at()), (Some(Wall(3)), None));
        steering.deliver_by = by(3, ByMode::Notify);
        assert_eq!((steering.given_up_at(), steering.notice_at()), (Some(Wall(5)), Some(Wall(3))));
    }
}
