//! How many sessions each client address has, over all shards.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

/// Parts that are locked apart, so that shards seldom meet.
const PARTS: usize = 64;

/// Sessions per client address. Touched twice per session, not per message.
#[derive(Debug)]
pub struct Clients {
    // Addresses are chosen by strangers: an ordered map can't be flooded with collisions.
    parts: Vec<Mutex<BTreeMap<IpAddr, u32>>>,
}

impl Default for Clients {
    fn default() -> Clients {
        Clients { parts: (0..PARTS).map(|_| Mutex::default()).collect() }
    }
}

impl Clients {
    fn part(&self, ip: IpAddr) -> &Mutex<BTreeMap<IpAddr, u32>> {
        let last = match ip {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[7],
        };
        &self.parts[usize::from(last) % PARTS]
    }

    /// One session more; how many that makes.
    pub fn enter(&self, ip: IpAddr) -> u32 {
        let mut part = self.part(ip).lock().unwrap_or_else(PoisonError::into_inner);
        let count = part.entry(ip).or_insert(0);
        *count += 1;
        *count
    }

    /// One session less.
    pub fn leave(&self, ip: IpAddr) {
        let mut part = self.part(ip).lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = part.get_mut(&ip) {
            *count -= 1;
            if *count == 0 {
                part.remove(&ip);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_per_address_and_forgotten() {
        let clients = Clients::default();
        let (a, b): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 65].into());
        assert_eq!((clients.enter(a), clients.enter(a), clients.enter(b)), (1, 2, 1));
        clients.leave(a);
        assert_eq!(clients.enter(a), 2);
        clients.leave(a);
        clients.leave(a);
        clients.leave(b);
        assert!(clients.parts.iter().all(|part| part.lock().unwrap().is_empty()));
    }
}
