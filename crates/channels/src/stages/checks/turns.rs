//! Queues for DNS lookups by checks of messages.

use super::super::lookups::{LookupQueueSettings, Turns};
use mta::line::SemaphoreLimits;
use std::time::Duration;

/// Maximum number of concurrent lookups on one shard. Further ones wait.
const LOOKUPS_AT_ONCE_MAX: u32 = 50;
/// The same for policies of author domains, and for names of clients. Each has a separate queue.
const POLICIES_AT_ONCE_MAX: u32 = 20;
const NAMES_AT_ONCE_MAX: u32 = 20;

/// The sum of all three.
pub(super) const ALL_AT_ONCE_MAX: u32 =
    LOOKUPS_AT_ONCE_MAX + POLICIES_AT_ONCE_MAX + NAMES_AT_ONCE_MAX;

/// Share of a queue, one part in five, for mail of one client network (an IPv4 address or an IPv6 /64). Also the share
/// of all clients in one IPv6 /48, because its owner has 65,536 of these networks.
const OWNER_PART: u32 = 5;
/// Share, one part in four, for lookups below zones with servers that did not answer the last time.
const DOUBTFUL_PART: u32 = 4;
/// Maximum number of zones remembered.
const ZONES_MAX: usize = 4_096;
/// Time after which the servers of a zone count as silent, until they answer.
const SILENCE: Duration = Duration::from_millis(500);

/// Lookup queues of a shard. Lookups at servers chosen by unauthenticated senders share no queue with other ones.
pub(super) struct CheckQueues {
    /// For SPF, DKIM and ARC of messages.
    pub(super) checks: Turns,
    /// For policies of author domains.
    pub(super) policies: Turns,
    /// For names of clients.
    pub(super) names: Turns,
}

impl Default for CheckQueues {
    fn default() -> CheckQueues {
        CheckQueues {
            checks: line_of(LOOKUPS_AT_ONCE_MAX),
            policies: line_of(POLICIES_AT_ONCE_MAX),
            names: line_of(NAMES_AT_ONCE_MAX),
        }
    }
}

/// A queue with this number of permits.
fn line_of(places: u32) -> Turns {
    let places = u64::from(places);
    let owner_max = places / u64::from(OWNER_PART);
    let doubtful_max = places / u64::from(DOUBTFUL_PART);
    Turns::new(LookupQueueSettings {
        parts: SemaphoreLimits { owner_max, doubtful_max, ..SemaphoreLimits::equal(places) },
        zones_max: ZONES_MAX,
        silence: SILENCE,
        prefers_answered: false,
    })
}

#[cfg(test)]
mod tests {
    use super::super::super::lookups::{LookupTurn, ZonePermit};
    use super::*;
    use mail::Mono;
    use mta::line::Owner;
    use std::net::IpAddr;
    use std::net::Ipv6Addr;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    const SHARE: usize = (LOOKUPS_AT_ONCE_MAX / OWNER_PART) as usize;

    fn gets_one<'t>(turn: &LookupTurn<'t>) -> Option<ZonePermit<'t>> {
        let mut waiting = pin!(turn.wait(Owner::zone("a.test"), Mono(0)));
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_client_has_at_most_its_share() {
        let turns = line_of(LOOKUPS_AT_ONCE_MAX);
        let of = |last: u8| turns.of(IpAddr::from([192, 0, 2, last]));
        let first = of(1);
        let held: Vec<_> = (0..100).map_while(|_| gets_one(&first)).collect();
        assert_eq!(held.len(), SHARE);
        assert!(gets_one(&of(1)).is_none());
        // Others have theirs, however much one had before.
        let all: Vec<_> = (2..200).map(of).collect();
        let others: Vec<_> = all.iter().filter_map(gets_one).collect();
        assert_eq!(others.len(), LOOKUPS_AT_ONCE_MAX as usize - SHARE);
        drop(held);
        assert!(gets_one(&of(1)).is_some());
    }

    #[test]
    fn all_clients_of_one_site_have_the_share_of_one() {
        let turns = line_of(LOOKUPS_AT_ONCE_MAX);
        let of = |site, n| turns.of(Ipv6Addr::new(0x2001, 0xdb8, site, n, 0, 0, 0, 1).into());
        let all: Vec<_> = (0..100).map(|n| of(1, n)).collect();
        let held: Vec<_> = all.iter().filter_map(gets_one).collect();
        assert_eq!(held.len(), SHARE);
        assert!(gets_one(&of(2, 1)).is_some());
    }

    #[test]
    fn silent_zones_leave_places_for_others() {
        let turns = line_of(LOOKUPS_AT_ONCE_MAX);
        let all: Vec<_> = (0..100).map(|n| turns.of(IpAddr::from([192, 0, 2, n]))).collect();
        let mut first = gets_one(&all[0]).expect("a place");
        first.note_silence(Mono(0));
        let others: Vec<_> = all.iter().filter_map(gets_one).collect();
        assert!(others.len() < (LOOKUPS_AT_ONCE_MAX / DOUBTFUL_PART) as usize, "{}", others.len());
        first.note_answer(Mono(0));
        assert!(gets_one(&turns.of(IpAddr::from([192, 0, 3, 1]))).is_some());
    }
}
