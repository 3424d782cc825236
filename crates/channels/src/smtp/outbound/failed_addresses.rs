//! Addresses of a next hop's hosts that failed recently. All working ones are tried before them.

use mail::Mono;
use mta::seams::Endpoint;
use std::cell::RefCell;
use std::time::Duration;

/// Time for which a failed address is tried after the host's other addresses.
const BEHIND_FOR: Duration = Duration::from_secs(300);

/// Maximum number of addresses remembered for a next hop. The oldest is dropped first.
const ADDRESSES_MAX: usize = 256;

/// Addresses with the time of the failure, the latest last.
#[derive(Debug, Default)]
pub(super) struct FailedAddresses(RefCell<Vec<(Endpoint, Mono)>>);

impl FailedAddresses {
    /// Records a failure without a verdict on a message.
    pub(super) fn failed(&self, now: Mono, peer: &Endpoint) {
        let mut all = self.0.borrow_mut();
        all.retain(|(other, at)| other != peer && now < *at + BEHIND_FOR);
        if all.len() == ADDRESSES_MAX {
            all.remove(0);
        }
        all.push((peer.clone(), now));
    }

    /// Records a verdict on a message.
    pub(super) fn well(&self, peer: &Endpoint) {
        let mut all = self.0.borrow_mut();
        if !all.is_empty() {
            all.retain(|(other, _)| other != peer);
        }
    }

    /// Sorts addresses: working ones in the order given, then failed ones, the earliest failure first. Few are tried
    /// per opening, but in the end each is.
    pub(super) fn order(&self, now: Mono, mut peers: Vec<Endpoint>) -> Vec<Endpoint> {
        peers.sort_by_key(|peer| self.failed_at(now, peer));
        peers
    }

    /// Returns true if another one of these addresses has not failed recently.
    pub(super) fn has_another(&self, now: Mono, peers: &[Endpoint], but: &Endpoint) -> bool {
        peers.iter().any(|peer| peer != but && self.failed_at(now, peer).is_none())
    }

    fn failed_at(&self, now: Mono, peer: &Endpoint) -> Option<Mono> {
        let all = self.0.borrow();
        let failed = all.iter().find(|(other, at)| other == peer && now < *at + BEHIND_FOR);
        failed.map(|(_, at)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn peer(n: u16) -> Endpoint {
        Endpoint::Tcp(SocketAddr::from(([192, 0, 2, 1], n)))
    }

    fn ports(peers: &[Endpoint]) -> Vec<u16> {
        let port = |peer: &Endpoint| match peer {
            Endpoint::Tcp(address) => address.port(),
            Endpoint::Unix(_) => 0,
        };
        peers.iter().map(port).collect()
    }

    #[test]
    fn what_failed_is_tried_last_and_the_oldest_failure_first() {
        let failed = FailedAddresses::default();
        let order = |now| ports(&failed.order(now, vec![peer(1), peer(2), peer(3)]));
        failed.failed(Mono(5), &peer(1));
        failed.failed(Mono(6), &peer(2));
        assert_eq!(order(Mono(7)), [3, 1, 2]);
        assert!(failed.has_another(Mono(7), &[peer(1), peer(3)], &peer(1)));
        assert!(!failed.has_another(Mono(7), &[peer(1), peer(2)], &peer(1)));
        failed.failed(Mono(8), &peer(1));
        assert_eq!(order(Mono(8)), [3, 2, 1]);
        failed.well(&peer(1));
        assert_eq!(order(Mono(8)), [1, 3, 2]);
        assert_eq!(order(Mono(6) + BEHIND_FOR), [1, 2, 3], "that was long ago");
    }

    #[test]
    fn memory_is_bounded() {
        let failed = FailedAddresses::default();
        for n in 0..=ADDRESSES_MAX as u16 {
            failed.failed(Mono(1), &peer(n));
        }
        assert_eq!(failed.0.borrow().len(), ADDRESSES_MAX);
    }
}
