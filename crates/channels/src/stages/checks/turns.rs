//! Lines for questions to the DNS: one client's mail must not hold up what is asked about another's.

use mail::Mono;
use mta::clients::network_of;
use mta::line::{Line, Owner, Parts, Permit, Standing, Standings, Who};
use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Questions under way at once on one shard; others wait.
const LOOKUPS_AT_ONCE_MAX: u32 = 50;
/// The same for policies of authors' domains, and for names of clients, each in a line of its own.
const POLICIES_AT_ONCE_MAX: u32 = 20;
const NAMES_AT_ONCE_MAX: u32 = 20;

/// All of them together.
pub(super) const ALL_AT_ONCE_MAX: u32 =
    LOOKUPS_AT_ONCE_MAX + POLICIES_AT_ONCE_MAX + NAMES_AT_ONCE_MAX;

/// One part in five of a line is for mail of one client (an IPv4 address or an IPv6 /64), and for that of all clients
/// of one IPv6 /48, whose owner has 65,536 of them.
const OWNER_PART: u32 = 5;
/// One part in four is for questions below zones whose servers were silent the last time.
const DOUBTFUL_PART: u32 = 4;
/// Zones that are remembered for it.
const ZONES_MAX: usize = 4_096;

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
    zones: RefCell<Standings<Owner>>,
}

/// A line as one check of one message has it.
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    who: Who,
}

/// A place for a question below a zone, as long as it is kept.
pub(super) struct Place<'t> {
    turns: &'t Turns,
    permit: Permit,
    zone: Owner,
}

impl Turns {
    fn new(places: u32) -> Turns {
        let places = u64::from(places);
        let owner_max = places / u64::from(OWNER_PART);
        let doubtful_max = places / u64::from(DOUBTFUL_PART);
        let line = Line::new(Parts { owner_max, doubtful_max, ..Parts::equal(places) });
        Turns { line, next: Cell::new(0), zones: RefCell::new(Standings::new(ZONES_MAX)) }
    }

    pub(super) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    /// For one check of a message of this client.
    pub(super) fn of(&self, client: IpAddr) -> Turn<'_> {
        let number = self.next.get();
        self.next.set(number.wrapping_add(1));
        let who = Who::new(0, number).of(Owner::network(client));
        let who = site_of(client).map_or(who, |site| who.within(site));
        Turn { turns: self, who }
    }

    /// That names below a zone were answered says nothing of others: it may have as many as it likes.
    fn standing(&self, zone: Owner, now: Mono) -> Standing {
        match self.zones.borrow().of(zone, now) {
            Standing::Doubtful => Standing::Doubtful,
            Standing::Good | Standing::Unknown => Standing::Unknown,
        }
    }
}

impl<'t> Turn<'t> {
    /// Waits for a place for a question below this zone.
    pub(super) async fn wait(&self, zone: Owner, now: Mono) -> Place<'t> {
        let standing = self.turns.standing(zone, now);
        let permit = self.turns.line.join(self.who, standing, 1).await;
        Place { turns: self.turns, permit, zone }
    }
}

impl Place<'_> {
    /// The question has waited for its answer for a while: it may be asked to give way from now on.
    pub(super) fn note_silence(&mut self, now: Mono) {
        self.turns.zones.borrow_mut().note_silence(self.zone, now);
        self.permit.doubt();
        self.permit.idle(now);
    }

    /// Ready when somebody waits who holds less.
    pub(super) fn poll_give_way(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.permit.poll_give_way(cx)
    }

    pub(super) fn note_answer(&self, now: Mono) {
        self.turns.zones.borrow_mut().note_answer(self.zone, now);
    }
}

/// The network of which one owner has all.
fn site_of(client: IpAddr) -> Option<Owner> {
    network_of(client).is_ipv6().then(|| Owner::site(client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv6Addr;
    use std::pin::pin;
    use std::task::Waker;

    const SHARE: usize = (LOOKUPS_AT_ONCE_MAX / OWNER_PART) as usize;

    fn gets_one<'t>(turn: &Turn<'t>) -> Option<Place<'t>> {
        let mut waiting = pin!(turn.wait(Owner::zone("a.test"), Mono(0)));
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(place) => Some(place),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_client_has_at_most_its_share() {
        let turns = Turns::new(LOOKUPS_AT_ONCE_MAX);
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
        let turns = Turns::new(LOOKUPS_AT_ONCE_MAX);
        let of = |site, n| turns.of(Ipv6Addr::new(0x2001, 0xdb8, site, n, 0, 0, 0, 1).into());
        let all: Vec<_> = (0..100).map(|n| of(1, n)).collect();
        let held: Vec<_> = all.iter().filter_map(gets_one).collect();
        assert_eq!(held.len(), SHARE);
        assert!(gets_one(&of(2, 1)).is_some());
    }

    #[test]
    fn silent_zones_leave_places_for_others() {
        let turns = Turns::new(LOOKUPS_AT_ONCE_MAX);
        let all: Vec<_> = (0..100).map(|n| turns.of(IpAddr::from([192, 0, 2, n]))).collect();
        let mut first = gets_one(&all[0]).expect("a place");
        first.note_silence(Mono(0));
        let others: Vec<_> = all.iter().filter_map(gets_one).collect();
        assert!(others.len() < (LOOKUPS_AT_ONCE_MAX / DOUBTFUL_PART) as usize, "{}", others.len());
        first.note_answer(Mono(0));
        assert!(gets_one(&turns.of(IpAddr::from([192, 0, 3, 1]))).is_some());
    }
}
