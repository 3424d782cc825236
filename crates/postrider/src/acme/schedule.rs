//! When a certificate is ordered: before the last third of its time, and after failures in pauses that
//! authorities bear.

use mail::Wall;
use std::time::Duration;

/// An authority that can't be reached has no limits that a try would count against.
const UNREACHED_FIRST: Duration = Duration::from_secs(60);
const UNREACHED_LONGEST: Duration = Duration::from_secs(3_600);

/// No pause after refusals is longer, unless the first one is.
const REFUSED_LONGEST: Duration = Duration::from_secs(12 * 3_600);

/// What an authority says of a pause (Retry-After) counts as far as this.
const ASKED_LONGEST: Duration = Duration::from_secs(86_400);

/// Random numbers for jitter are of this range: a share of the whole.
pub(super) const JITTER_RANGE: u64 = 1 << 16;

/// From when on a certificate is renewed: when a third of its time is left, and up to a thirtieth of its time
/// earlier, as `jitter` says, so that those which came together are not renewed together.
pub(super) fn renewal(begins: Wall, ends: Wall, jitter: u64) -> Wall {
    let lifetime = ends.since(begins);
    let earlier = part(lifetime / 30, jitter);
    Wall(ends.0.saturating_sub(millis(lifetime / 3 + earlier)))
}

/// How an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrderEnd {
    Issued,
    /// The authority took the order, or could have.
    Refused,
    /// There was nobody who could have taken it.
    Unreached,
}

mta::label! { OrderEnd, "outcome":
Issued = "issued", Refused = "refused", Unreached = "unreached" }

/// What came of the tries for one certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderAttempts {
    /// The last one that the authority saw, as far as it is known here.
    pub(super) ordered: Option<Wall>,
    refused: u32,
    unreached: u32,
    /// From when on there is a pause, and how long, whatever the certificate wants.
    pause: (Wall, Duration),
}

impl OrderAttempts {
    /// Those of a run that is over: how many failed is forgotten, as the operator may have mended
    /// what was wrong, but not when the last one was.
    pub(super) fn after_restart(
        ordered: Option<Wall>,
        retry: Duration,
        now: Wall,
    ) -> OrderAttempts {
        // A moment to come is none that this clock has seen.
        let ordered = ordered.filter(|ordered| *ordered <= now);
        let pause = ordered.map_or((Wall(0), Duration::ZERO), |ordered| (ordered, retry));
        OrderAttempts { ordered, pause, ..OrderAttempts::default() }
    }

    /// When the next one may be, for a certificate that is wanted from `wanted` on.
    pub(super) fn next(&self, wanted: Wall, now: Wall) -> Wall {
        let (from, pause) = self.pause;
        // A clock that was put back doesn't make it longer.
        if now < from { wanted } else { wanted.max(from.after(pause)) }
    }

    /// One has ended. `asked`: the authority said for how long it wants not to be asked.
    pub(super) fn note(
        &mut self,
        ending: OrderEnd,
        now: Wall,
        (retry, asked): (Duration, Option<Duration>),
        jitter: u64,
    ) {
        let pause = match ending {
            OrderEnd::Issued => {
                (self.refused, self.unreached) = (0, 0);
                retry
            }
            OrderEnd::Refused => {
                self.unreached = 0;
                self.refused = self.refused.saturating_add(1);
                doubled(retry, self.refused, REFUSED_LONGEST)
            }
            OrderEnd::Unreached => {
                self.unreached = self.unreached.saturating_add(1);
                doubled(retry.min(UNREACHED_FIRST), self.unreached, UNREACHED_LONGEST)
            }
        };
        let pause = pause.saturating_add(part(pause / 4, jitter));
        let asked = asked.unwrap_or_default().min(ASKED_LONGEST);
        self.pause = (now, pause.max(asked));
    }
}

/// The wait after the `count`th failure in a row.
fn doubled(first: Duration, count: u32, longest: Duration) -> Duration {
    let factor = 1_u32.checked_shl(count.saturating_sub(1)).unwrap_or(u32::MAX).max(1);
    first.saturating_mul(factor).min(longest.max(first))
}

/// A part of it, at random.
fn part(whole: Duration, jitter: u64) -> Duration {
    let ms =
        u128::from(millis(whole)) * u128::from(jitter % JITTER_RANGE) / u128::from(JITTER_RANGE);
    Duration::from_millis(u64::try_from(ms).unwrap_or(u64::MAX))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const MINUTE: Duration = Duration::from_secs(60);
    const NOW: Wall = Wall(1_800_000_000_000);

    #[test]
    fn a_certificate_is_renewed_when_a_third_is_left_or_a_little_more() {
        let ends = NOW.after(90 * DAY);
        assert_eq!(renewal(NOW, ends, 0), NOW.after(60 * DAY));
        let earliest = renewal(NOW, ends, JITTER_RANGE - 1);
        assert!(earliest > NOW.after(57 * DAY) && earliest < NOW.after(58 * DAY), "{earliest}");
        // Of six days and of an hour, the same share.
        assert_eq!(renewal(NOW, NOW.after(6 * DAY), 0), NOW.after(4 * DAY));
        assert_eq!(renewal(NOW, NOW.after(60 * MINUTE), 0), NOW.after(40 * MINUTE));
        // One that ends before it begins is renewed at once.
        assert!(renewal(NOW, Wall(NOW.0 - 1), 7) < NOW);
        assert_eq!(renewal(Wall(0), Wall(u64::MAX), 0).0, u64::MAX - u64::MAX / 3);
    }

    fn pauses(ending: OrderEnd, retry: Duration, count: usize) -> Vec<Duration> {
        let mut tries = OrderAttempts::default();
        let pause = |_| {
            tries.note(ending, NOW, (retry, None), 0);
            tries.next(NOW, NOW).since(NOW)
        };
        (0..count).map(pause).collect()
    }

    #[test]
    fn refusals_are_fewer_than_authorities_bear() {
        let quarter = 15 * MINUTE;
        let seen = pauses(OrderEnd::Refused, quarter, 40);
        assert_eq!(seen[..4], [quarter, 2 * quarter, 4 * quarter, 8 * quarter]);
        assert!(seen[6..].iter().all(|pause| *pause == REFUSED_LONGEST), "{seen:?}");
        // A longer first pause than the longest one holds.
        assert_eq!(pauses(OrderEnd::Refused, 2 * DAY, 3), [2 * DAY; 3]);
        assert_eq!(pauses(OrderEnd::Refused, quarter, 200).last(), Some(&REFUSED_LONGEST));
    }

    #[test]
    fn an_authority_that_is_away_is_asked_sooner() {
        let seen = pauses(OrderEnd::Unreached, 15 * MINUTE, 10);
        assert_eq!(seen[..3], [MINUTE, 2 * MINUTE, 4 * MINUTE]);
        assert_eq!(seen.last(), Some(&UNREACHED_LONGEST));
    }

    #[test]
    fn jitter_only_makes_pauses_longer() {
        let mut tries = OrderAttempts::default();
        tries.note(OrderEnd::Refused, NOW, (15 * MINUTE, None), JITTER_RANGE - 1);
        let pause = tries.next(NOW, NOW).since(NOW);
        assert!(pause > 18 * MINUTE && pause < 19 * MINUTE, "{pause:?}");
    }

    #[test]
    fn what_the_authority_asks_for_counts_up_to_a_day() {
        let asked = |asked| {
            let mut tries = OrderAttempts::default();
            tries.note(OrderEnd::Refused, NOW, (15 * MINUTE, Some(asked)), 0);
            tries.next(NOW, NOW).since(NOW)
        };
        assert_eq!(asked(MINUTE), 15 * MINUTE);
        assert_eq!(asked(60 * MINUTE), 60 * MINUTE);
        assert_eq!(asked(Duration::MAX), DAY);
    }

    #[test]
    fn two_orders_are_apart_whatever_the_certificate_wants() {
        let mut tries = OrderAttempts::default();
        // One that came and is to be renewed at once all the same.
        tries.note(OrderEnd::Issued, NOW, (15 * MINUTE, None), 0);
        assert_eq!(tries.next(Wall(0), NOW), NOW.after(15 * MINUTE));
        assert_eq!(tries.next(NOW.after(60 * DAY), NOW), NOW.after(60 * DAY));
        // A restart changes nothing about that, nor many of them.
        let again =
            |ordered| OrderAttempts::after_restart(ordered, 15 * MINUTE, NOW).next(Wall(0), NOW);
        assert_eq!(again(Some(Wall(NOW.0 - 60_000))), NOW.after(14 * MINUTE));
        assert_eq!(again(None), Wall(0));
        assert_eq!(again(Some(NOW.after(DAY))), Wall(0), "a clock that was ahead");
        assert_eq!(tries.next(Wall(0), Wall(NOW.0 - 1)), Wall(0), "a clock that was put back");
    }
}
