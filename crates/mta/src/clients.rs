//! How many sessions each listener has, and each client address there, over all shards.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// Parts that are locked apart, so that shards seldom meet.
const PARTS: usize = 64;

/// Who has a session: the listener's index, the client's address.
type Key = (usize, IpAddr);

/// Sessions per listener and client address. Touched twice per session, not per message.
#[derive(Debug)]
pub struct Clients {
    listeners: Vec<AtomicU32>,
    // Addresses are chosen by strangers: an ordered map can't be flooded with collisions.
    parts: Vec<Mutex<BTreeMap<Key, u32>>>,
}

/// Sessions at a moment, the one that began then included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionCounts {
    /// Of the listener.
    pub listener: u32,
    /// Of the client's address at this listener.
    pub address: u32,
}

impl Clients {
    /// None yet, for so many listeners.
    #[must_use]
    pub fn new(listeners: usize) -> Clients {
        Clients {
            listeners: (0..listeners).map(|_| AtomicU32::new(0)).collect(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
        }
    }

    fn part(&self, ip: IpAddr) -> &Mutex<BTreeMap<Key, u32>> {
        let last = match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[7],
        };
        &self.parts[usize::from(last) % PARTS]
    }

    /// One session more; how many that makes.
    pub fn enter(&self, listener: usize, ip: IpAddr) -> SessionCounts {
        let before = self.listeners.get(listener).map_or(0, |n| n.fetch_add(1, Ordering::Relaxed));
        let mut part = self.part(ip).lock().unwrap_or_else(PoisonError::into_inner);
        let count = part.entry((listener, ip)).or_insert(0);
        *count += 1;
        SessionCounts { listener: before.saturating_add(1), address: *count }
    }

    /// One session less.
    pub fn leave(&self, listener: usize, ip: IpAddr) {
        if let Some(count) = self.listeners.get(listener) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        let mut part = self.part(ip).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = part.get_mut(&(listener, ip)) {
            *count -= 1;
            if *count == 0 {
                part.remove(&(listener, ip));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_per_listener_and_address_and_forgotten() {
        let clients = Clients::new(2);
        let (a, b): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 65].into());
        let enter = |listener, ip| {
            let counts = clients.enter(listener, ip);
            (counts.listener, counts.address)
        };
        assert_eq!([enter(0, a), enter(0, a), enter(0, b)], [(1, 1), (2, 2), (3, 1)]);
        assert_eq!(enter(1, a), (1, 1), "another listener's sessions don't count");
        clients.leave(0, a);
        assert_eq!(enter(0, a), (3, 2));
        for (listener, ip) in [(0, a), (0, a), (0, b), (1, a)] {
            clients.leave(listener, ip);
        }
        assert!(clients.parts.iter().all(|part| part.lock().unwrap().is_empty()));
        assert_eq!(enter(1, b), (1, 1));
    }
}
