//! Limits for unbound associations. Their slots are separate from those of peers.

use mta::clients::network_of;
use mta::pressure::{Gauge, Level};
use mta::problems::ClockReading;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Maximum number at a listener, on each shard.
pub(super) const UNBOUND_MAX: usize = 64;
/// Maximum number of one client network among these.
pub(super) const UNBOUND_PER_CLIENT_MAX: usize = 16;

/// Maximum number of networks remembered from which peers have bound.
const KNOWN_MAX: usize = 256;

/// Unbound associations of one listener on one shard, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Unbound {
    waiting: RefCell<UnboundState>,
    count: Arc<Count>,
}

/// Current number, as a gauge.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Gauge for Count {
    fn level(&self, _now: ClockReading) -> Level {
        // No association waits: the oldest one is closed instead.
        let used = self.0.load(Ordering::Relaxed);
        Level { used, max: UNBOUND_MAX as u64, ..Level::default() }
    }
}

#[derive(Debug, Default)]
struct UnboundState {
    next: u64,
    places: Vec<(u64, IpAddr, oneshot::Sender<()>)>,
    /// Networks from which peers have recently bound.
    known: VecDeque<IpAddr>,
}

/// The slot of an unbound association.
#[derive(Debug)]
pub(super) struct UnboundSlot {
    of: Rc<Unbound>,
    number: u64,
    given_up: oneshot::Receiver<()>,
    has_displaced: bool,
}

impl Unbound {
    /// The gauge of their number.
    pub(super) fn count(&self) -> &Arc<Count> {
        &self.count
    }

    /// A peer has bound from this address.
    pub(super) fn note_bound(&self, client: IpAddr) {
        let (network, known) = (network_of(client), &mut self.waiting.borrow_mut().known);
        known.retain(|one| *one != network);
        known.push_back(network);
        if known.len() > KNOWN_MAX {
            known.pop_front();
        }
    }

    /// Allocates a slot. At a limit, the oldest association of this client, or of the client with the most, is closed.
    /// `None`: peers have bound from this network, and no slot is needed.
    pub(super) fn enter(self: &Rc<Self>, client: IpAddr) -> Option<UnboundSlot> {
        let network = network_of(client);
        let mut waiting = self.waiting.borrow_mut();
        if waiting.known.contains(&network) {
            return None;
        }
        let count_of = |places: &[(u64, IpAddr, _)], of: IpAddr| {
            places.iter().filter(|(_, one, _)| *one == of).count()
        };
        let greediest = match count_of(&waiting.places, network) {
            UNBOUND_PER_CLIENT_MAX.. => Some(network),
            _ if waiting.places.len() < UNBOUND_MAX => None,
            _ => {
                let networks = waiting.places.iter().rev().map(|(_, one, _)| *one);
                // `max_by_key` returns the last of equals: in reverse order, the network with the oldest association.
                networks.max_by_key(|one| count_of(&waiting.places, *one))
            }
        };
        let has_displaced = greediest.is_some();
        if let Some(at) =
            greediest.and_then(|of| waiting.places.iter().position(|(_, one, _)| *one == of))
        {
            let (_, _, give_way) = waiting.places.remove(at);
            let _ = give_way.send(());
        }
        let (give_way, given_up) = oneshot::channel();
        let number = waiting.next;
        waiting.next += 1;
        waiting.places.push((number, network, give_way));
        self.count.0.store(waiting.places.len() as u64, Ordering::Relaxed);
        Some(UnboundSlot { of: Rc::clone(self), number, given_up, has_displaced })
    }
}

impl UnboundSlot {
    /// Returns true if another association was closed for this one.
    pub(super) fn has_displaced(&self) -> bool {
        self.has_displaced
    }

    /// Ready once another association needs the slot.
    pub(super) fn poll_given_up(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        std::pin::Pin::new(&mut self.given_up).poll(cx).map(drop)
    }
}

impl Drop for UnboundSlot {
    fn drop(&mut self) {
        let places = &mut self.of.waiting.borrow_mut().places;
        places.retain(|(number, ..)| *number != self.number);
        self.of.count.0.store(places.len() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stranger(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn is_given_up(place: &mut UnboundSlot) -> bool {
        place.poll_given_up(&mut Context::from_waker(std::task::Waker::noop())).is_ready()
    }

    fn count_given_up(places: &mut [UnboundSlot]) -> usize {
        places.iter_mut().filter_map(|place| is_given_up(place).then_some(())).count()
    }

    #[test]
    fn a_client_that_has_its_share_loses_its_oldest() {
        let unbound = Rc::<Unbound>::default();
        let enter = |number| unbound.enter(stranger(number)).unwrap();
        let mut other = enter(9);
        let mut places: Vec<UnboundSlot> = (0..UNBOUND_PER_CLIENT_MAX).map(|_| enter(1)).collect();
        assert_eq!(count_given_up(&mut places), 0);
        let mut next = enter(1);
        assert!(is_given_up(&mut places[0]) && !is_given_up(&mut next) && !is_given_up(&mut other));
        // Who has bound makes room.
        drop(places.pop());
        let mut more = enter(1);
        assert_eq!(count_given_up(&mut places[1..]), 0);
        assert!(!is_given_up(&mut more));
        unbound.note_bound(stranger(1));
        assert!(unbound.enter(stranger(1)).is_none(), "a peer may have as many as it likes");
        (10..=255).for_each(|number| unbound.note_bound(stranger(number)));
        (10..=19).for_each(|number| unbound.note_bound([10, 0, 0, number].into()));
        assert!(unbound.enter(stranger(1)).is_some(), "it was long ago");
    }

    #[test]
    fn where_all_is_full_the_client_with_most_gives_way() {
        let unbound = Rc::<Unbound>::default();
        let mut one = unbound.enter(stranger(200)).unwrap();
        let mut places: Vec<UnboundSlot> = Vec::new();
        for number in 0..200 {
            places.extend(unbound.enter(stranger(number % 20)));
        }
        assert!(!is_given_up(&mut one), "others have more");
        assert_eq!(unbound.waiting.borrow().places.len(), UNBOUND_MAX);
        let waiting = places.len() - count_given_up(&mut places);
        assert_eq!(waiting, UNBOUND_MAX - 1);
        // A thousand networks with one each: the oldest.
        drop(places);
        let mut all: Vec<UnboundSlot> =
            (0..=u8::MAX).filter_map(|n| unbound.enter([10, 0, 0, n].into())).collect();
        assert!(is_given_up(&mut one));
        assert_eq!(all.len() - count_given_up(&mut all), UNBOUND_MAX);
    }
}
