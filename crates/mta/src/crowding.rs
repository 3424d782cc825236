//! Queue slots for unauthenticated clients, over all shards.
//!
//! Mail of unauthenticated clients may wait for long: for a dead next hop, or a mailbox on a disk that hangs. So the
//! last tenth of the queue is for clients that may relay. Once the queue is half full, slots are counted per client
//! network, and per IPv4 /24 or IPv6 /48, until less than half is in use again.

use crate::budget::{Budget, Share};
use crate::clients::{group_of, network_of};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Slots are counted per network once one slot in this number is in use.
const CROWDED_FROM: u64 = 2;
/// Share of one network then: one slot in this number.
const OF_NETWORK: u64 = 500;
/// Share of one IPv4 /24 or IPv6 /48.
const OF_SITE: u64 = 50;

/// Slots that unauthenticated clients took while the queue was crowded.
#[derive(Debug, Default)]
pub(crate) struct Crowding {
    is_counted: AtomicBool,
    // Clients choose their addresses: an ordered map can't be flooded with collisions.
    brought: Mutex<Brought>,
}

#[derive(Debug, Default)]
struct Brought {
    by_network: BTreeMap<IpAddr, u64>,
    by_site: BTreeMap<IpAddr, u64>,
}

impl Crowding {
    fn lock(&self) -> MutexGuard<'_, Brought> {
        self.brought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves slots for recipients of an unauthenticated client. Returns false if none are left, or none for this
    /// client.
    pub(crate) fn take(&self, queue: &Budget, slots: &mut Share, ip: IpAddr, count: u64) -> bool {
        let max = queue.max();
        if queue.used().saturating_add(count) <= max / CROWDED_FROM {
            if self.is_counted.swap(false, Ordering::Relaxed) {
                *self.lock() = Brought::default();
            }
            return slots.try_grow_as_stranger(count);
        }
        self.is_counted.store(true, Ordering::Relaxed);
        let (network, site) = (network_of(ip), group_of(ip));
        let mut brought = self.lock();
        let of = |all: &BTreeMap<IpAddr, u64>, key| {
            all.get(&key).map_or(0, |known| *known).saturating_add(count)
        };
        let after = (of(&brought.by_network, network), of(&brought.by_site, site));
        // One recipient always fits, even in a small queue.
        let fits = |after: u64, part: u64| after <= (max / part).max(1);
        if !fits(after.0, OF_NETWORK)
            || !fits(after.1, OF_SITE)
            || !slots.try_grow_as_stranger(count)
        {
            return false;
        }
        brought.by_network.insert(network, after.0);
        brought.by_site.insert(site, after.1);
        true
    }

    /// The network with the most slots, and their number.
    pub(crate) fn most(&self) -> Option<(IpAddr, u64)> {
        let brought = self.lock();
        brought.by_network.iter().max_by_key(|(_, count)| **count).map(|(ip, count)| (*ip, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn ip(site: u8, last: u8) -> IpAddr {
        [198, 18, site, last].into()
    }

    /// The number of accepted messages among `count`, with one recipient each.
    fn bring(crowding: &Crowding, queue: &Arc<Budget>, ip: IpAddr, count: u64) -> u64 {
        let taken = (0..count).filter(|_| {
            let mut slots = Share::none(queue);
            let is_taken = crowding.take(queue, &mut slots, ip, 1);
            let _ = slots.keep();
            is_taken
        });
        taken.count() as u64
    }

    #[test]
    fn hundred_networks_leave_room_for_others() {
        let (crowding, queue) = (Crowding::default(), Budget::new(10_000));
        assert_eq!(bring(&crowding, &queue, ip(1, 1), 20_000), 5_000 + 20, "half, and its part");
        for n in 2..=100 {
            assert_eq!(bring(&crowding, &queue, ip(n, 1), 100), 20, "{n}");
        }
        assert_eq!(queue.used(), 7_000);
        for n in 101..=200 {
            assert_eq!(bring(&crowding, &queue, ip(n, 7), 1), 1, "{n}");
        }
        assert_eq!(crowding.most().map(|(_, count)| count), Some(20));
        // All addresses of one /24 together get the share of ten.
        let of_one_site: u64 = (1..=250).map(|n| bring(&crowding, &queue, ip(250, n), 20)).sum();
        assert_eq!(of_one_site, 200);
        queue.give_back(3_000);
        assert_eq!(bring(&crowding, &queue, ip(1, 1), 100), 100, "it is not crowded any more");
    }

    #[test]
    fn last_tenth_is_not_for_strangers_and_one_always_fits() {
        let (crowding, queue) = (Crowding::default(), Budget::new(20));
        let taken: u64 = (0..100).map(|n| bring(&crowding, &queue, ip(n, 1), 1)).sum();
        assert_eq!(taken, 18);
        let mut slots = Share::none(&queue);
        assert!(slots.try_grow(2));
        drop(slots);
        queue.give_back(2);
        assert_eq!(bring(&crowding, &queue, ip(10, 1), 1), 0, "it has brought one");
        assert_eq!(bring(&crowding, &queue, ip(200, 1), 1), 1);
    }
}
