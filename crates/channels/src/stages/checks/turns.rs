//! Lines for questions to the DNS: one client's mail must not hold up what is asked about another's.

use mta::clients::network_of;
use mta::line::{Line, Owner, Parts, Permit, Standing, Who};
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Questions under way at once on one shard; others wait.
pub(in super::super) const LOOKUPS_AT_ONCE_MAX: u32 = 50;
/// The same for policies of authors' domains, and for names of clients, each in a line of its own.
const POLICIES_AT_ONCE_MAX: u32 = 20;
const NAMES_AT_ONCE_MAX: u32 = 20;

/// All of them together.
pub(super) const ALL_AT_ONCE_MAX: u32 =
    LOOKUPS_AT_ONCE_MAX + POLICIES_AT_ONCE_MAX + NAMES_AT_ONCE_MAX;

/// One part in five of a line is for mail of one client (an IPv4 address or an IPv6 /64), and of those of one site,
/// whose owner gets addresses by the hundred (an IPv4 /24 or an IPv6 /48).
const OWNER_PART: u32 = 5;

/// The lines of a shard. What strangers choose the servers of stands in none with what they don't.
pub(super) struct Lines {
    /// For what messages bring: SPF, DKIM, ARC.
    pub(super) checks: Turns,
    /// For policies of authors' domains.
    pub(super) policies: Turns,
    /// For names of clients.
    pub(super) names: Turns,
}

impl Default for Lines {
    fn default() -> Lines {
        Lines {
            checks: Turns::new(LOOKUPS_AT_ONCE_MAX),
            policies: Turns::new(POLICIES_AT_ONCE_MAX),
            names: Turns::new(NAMES_AT_ONCE_MAX),
        }
    }
}

/// A line for lookups, in which those clients come first that hold least.
pub(super) struct Turns {
    line: Arc<Line>,
    next: Cell<u32>,
}

/// A line as one check of one message has it.
pub(in super::super) struct Turn<'t>(Way<'t>);

enum Way<'t> {
    Fair(&'t Arc<Line>, Who),
    First(&'t Semaphore),
}

/// A place, as long as it is kept.
pub(super) enum Place<'t> {
    Fair {
        _place: Permit,
    },
    /// Of a line that is never closed.
    First {
        _place: Option<SemaphorePermit<'t>>,
    },
}

impl Turns {
    fn new(places: u32) -> Turns {
        let places = u64::from(places);
        let owner_max = places / u64::from(OWNER_PART);
        let line = Line::new(Parts { owner_max, ..Parts::equal(places) });
        Turns { line, next: Cell::new(0) }
    }

    /// For one check of a message of this client.
    pub(super) fn of(&self, client: IpAddr) -> Turn<'_> {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let who = Who::new(0, number).of(Owner::network(client)).within(site_of(client));
        Turn(Way::Fair(&self.line, who))
    }
}

impl<'t> Turn<'t> {
    /// One line for everybody.
    pub(in super::super) fn of_all(all: &'t Semaphore) -> Turn<'t> {
        Turn(Way::First(all))
    }

    pub(super) async fn wait(&self) -> Place<'t> {
        match self.0 {
            Way::Fair(line, who) => {
                Place::Fair { _place: line.join(who, Standing::Unknown, 1).await }
            }
            Way::First(all) => Place::First { _place: all.acquire().await.ok() },
        }
    }
}

/// Addresses that one owner gets together.
fn site_of(client: IpAddr) -> Owner {
    let site = match network_of(client) {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, 0))
        }
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))
        }
    };
    Owner::named("site", &site.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn gets_one<'t>(turn: &Turn<'t>) -> Option<Place<'t>> {
        match pin!(turn.wait()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn client_and_site_have_at_most_their_share() {
        let turns = Turns::new(LOOKUPS_AT_ONCE_MAX);
        let share = (LOOKUPS_AT_ONCE_MAX / OWNER_PART) as usize;
        let of = |site: u8, last: u8| turns.of(IpAddr::from([192, 0, site, last]));
        let first = of(1, 1);
        let held: Vec<_> = (0..100).map_while(|_| gets_one(&first)).collect();
        assert_eq!(held.len(), share);
        assert!(gets_one(&of(1, 1)).is_none() && gets_one(&of(1, 2)).is_none());
        // Other sites have theirs, however many there were before.
        let sites: Vec<_> = (2..200).map(|site| of(site, 1)).collect();
        let others: Vec<_> = sites.iter().filter_map(gets_one).collect();
        assert_eq!(others.len(), LOOKUPS_AT_ONCE_MAX as usize - share);
        drop(held);
        assert!(gets_one(&of(1, 2)).is_some());
    }

    #[test]
    fn addresses_of_one_owner_are_one_site() {
        let site = |client: &str| site_of(client.parse().unwrap());
        assert_eq!(site("192.0.2.9"), site("::ffff:192.0.2.200"));
        assert_ne!(site("192.0.2.9"), site("192.0.3.9"));
        assert_eq!(site("2001:db8:1:2::9"), site("2001:db8:1:3::9"));
        assert_ne!(site("2001:db8:1:2::9"), site("2001:db8:2:2::9"));
    }
}
