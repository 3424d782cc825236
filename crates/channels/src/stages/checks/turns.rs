//! Whose questions to the DNS go first: one client's mail must not hold up what is asked about another's.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Questions under way at once on one shard; others wait.
pub(in super::super) const LOOKUPS_AT_ONCE_MAX: u32 = 50;

/// Of them, for mail of one client (an IPv4 address or an IPv6 /64).
const LOOKUPS_OF_CLIENT_MAX: usize = 10;

/// Clients that are remembered before those whose mail is no longer checked are forgotten.
const CLIENTS_MAX: usize = 1_024;

/// The lookups of a shard.
pub(super) struct Turns {
    all: Semaphore,
    clients: RefCell<BTreeMap<IpAddr, Weak<Semaphore>>>,
}

/// A line for lookups: that of one client within that of all, as long as its mail is checked.
pub(in super::super) struct Turn<'t> {
    all: &'t Semaphore,
    own: Option<Rc<Semaphore>>,
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { all: Semaphore::new(LOOKUPS_AT_ONCE_MAX as usize), clients: RefCell::default() }
    }
}

impl Turns {
    /// `client`: its network, as limits know it.
    pub(super) fn of(&self, client: IpAddr) -> Turn<'_> {
        let mut clients = self.clients.borrow_mut();
        let known = clients.get(&client).and_then(Weak::upgrade);
        let own = known.unwrap_or_else(|| {
            if clients.len() >= CLIENTS_MAX {
                clients.retain(|_, own| own.strong_count() > 0);
            }
            let own = Rc::new(Semaphore::new(LOOKUPS_OF_CLIENT_MAX));
            clients.insert(client, Rc::downgrade(&own));
            own
        });
        Turn { all: &self.all, own: Some(own) }
    }
}

impl<'t> Turn<'t> {
    /// One line for everybody.
    pub(in super::super) fn of_all(all: &'t Semaphore) -> Turn<'t> {
        Turn { all, own: None }
    }

    /// Waits for a place; it is held as long as both are. They are never closed.
    pub(super) async fn wait(&self) -> (Option<SemaphorePermit<'_>>, Option<SemaphorePermit<'_>>) {
        let own = match &self.own {
            Some(own) => own.acquire().await.ok(),
            None => None,
        };
        (own, self.all.acquire().await.ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    fn gets_one<'t>(turn: &'t Turn<'_>) -> Option<impl Sized + 't> {
        match pin!(turn.wait()).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(places) => Some(places),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_client_leaves_places_for_others() {
        let turns = Turns::default();
        let of = |last: u8| turns.of(IpAddr::from([192, 0, 2, last]));
        let (first, same, other) = (of(1), of(1), of(2));
        let held: Vec<_> = (0..LOOKUPS_OF_CLIENT_MAX).filter_map(|_| gets_one(&first)).collect();
        assert_eq!(held.len(), LOOKUPS_OF_CLIENT_MAX);
        assert!(gets_one(&first).is_none() && gets_one(&same).is_none());
        assert!(gets_one(&other).is_some());
        drop(held);
        assert!(gets_one(&same).is_some());
    }

    #[test]
    fn clients_are_forgotten_and_all_together_have_a_limit() {
        let turns = Turns::default();
        for n in 0..2 * CLIENTS_MAX as u32 {
            drop(turns.of(IpAddr::from(n.to_be_bytes())));
        }
        assert!(turns.clients.borrow().len() <= CLIENTS_MAX);
        let each: Vec<_> = (0..60_u8).map(|n| turns.of(IpAddr::from([10, 0, 0, n]))).collect();
        let held: Vec<_> = each.iter().filter_map(gets_one).collect();
        assert_eq!(held.len(), LOOKUPS_AT_ONCE_MAX as usize);
    }
}
