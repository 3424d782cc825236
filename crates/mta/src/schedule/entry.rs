//! Creates the queue entries of a message's recipients, for new messages and for those recovered from the spool.

use crate::clients::origin_of;
use crate::facts::{ClientAddress, StoredFacts};
use crate::message::Message;
use crate::overrides::Overrides;
use crate::routing::addresses::chosen_route;
use crate::routing::{REPORTS, Router, TLS_REPORTS, Waits};
use crate::steering::Steering;
use mail::{Domain, MessageId, Mono, RequireTls, Wall};
use queue::{Deadlines, NewEntry, Origin, ScheduledKey};
use spool::{Meta, RecoveredMessage};
use std::sync::Arc;
use std::time::Duration;

/// The clock readings when a message is queued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clocks {
    pub(super) now: Mono,
    pub(super) wall: Wall,
}

/// The clock readings, and the salt for hashing client networks.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryContext {
    pub(super) clocks: Clocks,
    pub(super) salt: u64,
}

impl Clocks {
    /// The monotonic time of a wall-clock time. The past becomes now or earlier.
    fn moment(self, at: Option<Wall>) -> Mono {
        at.map_or(Mono::NEVER, |at| self.now + at.since(self.wall))
    }

    /// Start of a message's age: its receipt or its `not_before`, whichever is later, so that the delay does not count
    /// towards expiry. A start in the future, after the clock was set back, counts as now.
    fn since(self, received_at: Wall, not_before: Option<Wall>) -> (Mono, Duration) {
        let received_at = received_at.min(self.wall);
        let from = not_before.map_or(received_at, |at| at.max(received_at));
        let age = self.wall.since(from);
        let moment = self.now + from.since(self.wall);
        (moment - age, age.saturating_sub(self.now.since(Mono(0))))
    }
}

/// A message to be queued.
#[derive(Debug)]
pub(super) struct Incoming<'a> {
    id: MessageId,
    meta: &'a Meta,
    /// The campaign for reports ([`REPORTS`], [`TLS_REPORTS`]), or empty.
    class: &'static str,
    /// Delivery options from the sender.
    steering: Steering,
    /// The TLS requirement.
    require_tls: RequireTls,
    /// The operator's route, or empty.
    route: String,
    /// The client network, for fair queueing.
    origin: Origin,
    clocks: Clocks,
    /// Start of the age, and the part of the age that the monotonic clock does not cover.
    received: (Mono, Duration),
    is_held: bool,
    is_warned: bool,
}

/// A recipient to be queued.
#[derive(Debug)]
pub(super) struct IncomingRecipient {
    pub(super) index: u32,
    pub(super) domain: Domain,
    pub(super) attempts: u16,
    pub(super) next_try: Option<Wall>,
    /// The choice among routes with conditions; `None`: not made.
    pub(super) choice: Option<Arc<str>>,
}

impl<'a> Incoming<'a> {
    /// A message that has just become durable.
    pub(super) fn new(message: &'a Message, moment: EntryContext) -> Incoming<'a> {
        let (EntryContext { clocks, salt }, kept) = (moment, message.kept());
        Incoming {
            id: message.id,
            meta: &message.meta,
            class: class(kept, message.envelope.reverse_path.is_none()),
            steering: Steering::of(&message.meta),
            require_tls: kept.require_tls().unwrap_or_default(),
            route: String::new(),
            origin: origin(kept, salt),
            clocks,
            received: clocks.since(clocks.wall, kept.not_before()),
            is_held: false,
            is_warned: false,
        }
    }

    /// A queued message with new overrides from an operator.
    pub(super) fn overridden(
        message: &'a Message,
        overrides: &Overrides,
        moment: EntryContext,
    ) -> Incoming<'a> {
        let incoming = Incoming::new(message, moment);
        Incoming {
            steering: incoming.steering.overridden(Some(overrides)),
            route: overrides.route.clone().unwrap_or_default(),
            ..incoming
        }
    }

    /// A message recovered from the spool.
    pub(super) fn recovered(message: &'a RecoveredMessage, moment: EntryContext) -> Incoming<'a> {
        let (EntryContext { clocks, salt }, kept) = (moment, StoredFacts::of(&message.meta));
        let overrides = message.overrides.as_deref().map(Overrides::parse);
        Incoming {
            id: message.id,
            meta: &message.meta,
            class: class(kept, message.reverse_path_is_null),
            steering: Steering::of(&message.meta).overridden(overrides.as_ref()),
            require_tls: kept.require_tls().unwrap_or_default(),
            route: overrides.and_then(|overrides| overrides.route).unwrap_or_default(),
            origin: origin(kept, salt),
            clocks,
            received: clocks.since(message.received_at, kept.not_before()),
            is_held: message.hold.is_some(),
            is_warned: message.delay_notice_sent,
        }
    }

    /// The scheduled queue of a recipient in this domain.
    pub(super) fn key(
        &self,
        router: &Router,
        (index, domain): (u32, Domain),
        choice: Option<Arc<str>>,
    ) -> ScheduledKey {
        let route = self.fixed_route(index);
        let Incoming { class, steering, require_tls, .. } = self;
        let require_tls = *require_tls;
        router.scheduled_key(domain, &Waits { route, class, steering, require_tls, choice })
    }

    /// The route of a recipient if the domain does not determine it; empty otherwise.
    pub(super) fn fixed_route(&self, index: u32) -> &str {
        chosen_route(self.meta, index, &self.route)
    }

    /// The priority class of the recipients.
    pub(super) fn priority(&self) -> u8 {
        self.steering.priority.unwrap_or_default().class()
    }

    /// The scheduled queue of a recipient, and its entry there.
    pub(super) fn entry(
        &self,
        router: &Router,
        recipient: IncomingRecipient,
    ) -> (ScheduledKey, NewEntry) {
        let IncomingRecipient { index, domain, attempts, next_try, choice } = recipient;
        let key = self.key(router, (index, domain), choice);
        let steering = &self.steering;
        let next_try = next_try.map(|at| (at, router.active().retry_of(&key).longest_delay()));
        let entry = NewEntry {
            id: self.id,
            recipient: index,
            received: self.received.0,
            age_before_start: self.received.1,
            due: self.clocks.now + wait(next_try, steering.not_before, self.clocks.wall),
            attempts,
            priority: self.priority(),
            held: self.is_held,
            warned: self.is_warned,
            deadlines: Deadlines {
                expires: self.clocks.moment(steering.given_up_at()),
                notice: self.clocks.moment(steering.notice_at()),
            },
            origin: self.origin,
        };
        (key, entry)
    }
}

/// The fair-queueing origin. The client network of a message from an unauthenticated client is stored in the spool, so
/// it is the same after a restart.
fn origin(kept: StoredFacts<'_>, salt: u64) -> Origin {
    if !kept.is_from_stranger() {
        return Origin::OURS;
    }
    match kept.client().and_then(ClientAddress::ip) {
        Some(client) => origin_of(client, salt),
        None => Origin::of(0, 0),
    }
}

fn class(kept: StoredFacts<'_>, has_no_sender: bool) -> &'static str {
    match has_no_sender {
        true => REPORTS,
        false if kept.tls_report().is_some() => TLS_REPORTS,
        false => "",
    }
}

/// Remaining delay of a recipient. A recovered next attempt is a wall-clock time. If the clock was set back since, the
/// delay is limited to the `longest` retry delay. The sender's `not_before` is not limited.
fn wait(
    next_try_and_longest: Option<(Wall, Duration)>,
    not_before: Option<Wall>,
    now: Wall,
) -> Duration {
    let retry = next_try_and_longest.map(|(at, longest)| at.since(now).min(longest));
    let asked = not_before.map(|at| at.since(now));
    retry.into_iter().chain(asked).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Facts, Stranger};

    const CLOCKS: Clocks = Clocks { now: Mono(5_000_000), wall: Wall(1_000_000) };
    const MOMENT: EntryContext = EntryContext { clocks: CLOCKS, salt: 7 };

    #[test]
    fn a_clock_that_was_set_back_makes_no_retry_wait_longer() {
        let (now, longest) = (Wall(1_000_000), Duration::from_secs(60));
        let after = |next_try, not_before: Option<u64>| {
            wait(Some((Wall(next_try), longest)), not_before.map(Wall), now).as_millis()
        };
        assert_eq!(wait(None, None, now), Duration::ZERO);
        assert_eq!(after(999_000, None), 0, "it is due");
        assert_eq!(after(1_030_000, None), 30_000);
        assert_eq!(after(1_000_000 + 86_400_000, None), 60_000, "the clock went back a day");
        assert_eq!(after(1_030_000, Some(1_500_000)), 500_000, "a time of day is one");
        assert_eq!(after(1_030_000, Some(999_000)), 30_000);
    }

    #[test]
    fn a_clock_that_was_set_back_makes_no_message_live_longer() {
        let since = |received_at, not_before: Option<u64>| {
            CLOCKS.since(Wall(received_at), not_before.map(Wall))
        };
        let just_now = (CLOCKS.now, Duration::ZERO);
        assert_eq!(since(1_000_000, None), just_now);
        assert_eq!(since(1_000_000 + 86_400_000, None), just_now, "the clock went back a day");
        assert_eq!(since(999_000, None).0, CLOCKS.now - Duration::from_secs(1));
        // What was asked for is a time of day.
        let later = CLOCKS.now + Duration::from_secs(60);
        assert_eq!(since(1_000_000 + 86_400_000, Some(1_060_000)), (later, Duration::ZERO));
    }

    #[test]
    fn a_new_message_and_the_same_from_the_spool_are_queued_alike() {
        let text = "[[listener]]\naddress = \"127.0.0.1:2525\"\n[[route]]\ndiscard = {}\n";
        let router = Router::new(
            Arc::new(crate::testing::schema().parse(text, "test.toml").unwrap()),
            Wall(0),
        );
        let mut message = crate::message::tests::message(7, 10);
        message.received_at = CLOCKS.wall;
        message.meta = Facts {
            not_before: Some(Wall(1_700_000)),
            require_tls: Some(RequireTls::No),
            client: Some(ClientAddress("IPv6:2001:db8::1")),
            stranger: Some(Stranger { is_vouched: false }),
            ..Facts::default()
        }
        .to_meta();
        let recovered = RecoveredMessage {
            id: message.id,
            received_at: message.received_at,
            meta: message.meta.clone(),
            reverse_path_is_null: true,
            open: Vec::new(),
            hold: None,
            overrides: None,
            delay_notice_sent: false,
            last_reason: None,
            body_bytes: 10,
        };
        let recipient = || IncomingRecipient {
            index: 3,
            domain: Domain::parse("far.test").unwrap(),
            attempts: 0,
            next_try: None,
            choice: None,
        };
        let (key, entry) = Incoming::new(&message, MOMENT).entry(&router, recipient());
        let (again, same) = Incoming::recovered(&recovered, MOMENT).entry(&router, recipient());
        assert_eq!((&key, format!("{entry:?}")), (&again, format!("{same:?}")));
        let neighbour = "2001:db8::ff".parse().expect("an address");
        assert_eq!(entry.origin, origin_of(neighbour, MOMENT.salt), "its /64 is one client");
        let moved = "far\npool two\npriority 9\nof a later version";
        let chosen = RecoveredMessage { overrides: Some(moved.into()), ..recovered };
        let (moved_to, entry) = Incoming::recovered(&chosen, MOMENT).entry(&router, recipient());
        let overrides = Overrides::parse(moved);
        let now = Incoming::overridden(&message, &overrides, MOMENT);
        let domain = Domain::parse("far.test").unwrap();
        assert_eq!((now.key(&router, (3, domain), None), now.priority()), (moved_to.clone(), 9));
        assert_eq!((&*moved_to.route, &*moved_to.pool, entry.priority), ("far", "two", 9));
        assert_eq!(key.require_tls, RequireTls::No);
        assert_eq!(entry.due, CLOCKS.now + Duration::from_secs(700), "it asked to wait");
    }
}
