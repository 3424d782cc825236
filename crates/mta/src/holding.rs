//! Limits for held messages, over all shards.
//!
//! Unauthenticated clients decide how much is held: with their own domain and a quarantine policy, all their messages
//! are. Held mail may therefore use only a part of the queue and of the disk, and only a part of that for one client
//! network and for one domain.

use crate::budget::Budget;
use crate::clients::network_of;
use crate::metrics::LogMetrics;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Share of `queue_recipients_max`, and of the bytes of the spool's smallest disk: one part in this number.
pub const HELD_OF_ALL: u64 = 10;
/// The same for one client network (IPv4 address or IPv6 /64), sender's domain or author's domain, and for a peer with
/// unreadable content.
pub const HELD_OF_ONE: u64 = 100;

/// An amount of held mail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    pub recipients: u64,
    pub bytes: u64,
}

impl Amount {
    fn plus(self, other: Amount) -> Amount {
        Amount {
            recipients: self.recipients.saturating_add(other.recipients),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    fn minus(self, other: Amount) -> Amount {
        Amount {
            recipients: self.recipients.saturating_sub(other.recipients),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    fn is_within(self, max: Amount) -> bool {
        self.recipients <= max.recipients && self.bytes <= max.bytes
    }
}

/// An account to which held mail is charged, beside the total.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum HoldAccount {
    Network(IpAddr),
    /// In lower case.
    Domain(Arc<str>),
    /// A configured peer, by name.
    Peer(Arc<str>),
}

impl HoldAccount {
    /// The accounts of a message: its client's network, its sender's and its author's domain.
    pub(crate) fn of(client: Option<IpAddr>, domains: [&str; 2]) -> Box<[HoldAccount]> {
        let network = client.map(|ip| HoldAccount::Network(network_of(ip)));
        let mut accounts: Vec<HoldAccount> = network.into_iter().collect();
        for domain in domains.into_iter().filter(|domain| !domain.is_empty()) {
            let account = HoldAccount::Domain(domain.to_ascii_lowercase().into());
            if !accounts.contains(&account) {
                accounts.push(account);
            }
        }
        accounts.into()
    }
}

/// The limit that another held message would exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    One,
}

/// Held messages, over all shards.
#[derive(Debug)]
pub struct Holdings {
    queue_slots: Arc<Budget>,
    logs: Vec<Arc<LogMetrics>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    all: Amount,
    // Clients choose addresses and domains: an ordered map can't be flooded with collisions.
    accounts: BTreeMap<HoldAccount, Amount>,
}

impl Holdings {
    /// Limits derive from `queue_slots`, and from the disks of `logs`.
    pub(crate) fn new(queue_slots: &Arc<Budget>, logs: Vec<Arc<LogMetrics>>) -> Arc<Holdings> {
        Arc::new(Holdings { queue_slots: Arc::clone(queue_slots), logs, state: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One part in `part` of the total.
    fn part(&self, part: u64) -> Amount {
        // 0: the size of the disk is unknown (yet), or the log is not written.
        let rooms = self.logs.iter().filter_map(|log| u64::try_from(log.room_bytes.get()).ok());
        let room = rooms.filter(|bytes| *bytes > 0).min();
        Amount {
            recipients: (self.queue_slots.max() / part).max(1),
            bytes: room.map_or(u64::MAX, |bytes| bytes / part),
        }
    }

    /// The held amount.
    #[must_use]
    pub fn held(&self) -> Amount {
        self.lock().all
    }

    /// The limit.
    #[must_use]
    pub fn max(&self) -> Amount {
        self.part(HELD_OF_ALL)
    }

    /// The messages of each peer that wait for an operator because of unreadable content.
    #[must_use]
    pub fn of_peers(&self) -> Vec<(Arc<str>, Amount)> {
        let state = self.lock();
        let of_peer = |(account, amount): (&HoldAccount, &Amount)| match account {
            HoldAccount::Peer(name) => Some((Arc::clone(name), *amount)),
            HoldAccount::Network(_) | HoldAccount::Domain(_) => None,
        };
        state.accounts.iter().filter_map(of_peer).collect()
    }

    /// The account with the most recipients, and their number.
    pub(crate) fn most(&self) -> Option<(String, u64)> {
        let state = self.lock();
        let (account, held) = state.accounts.iter().max_by_key(|(_, held)| held.recipients)?;
        let name = match account {
            HoldAccount::Network(ip) => ip.to_string(),
            HoldAccount::Domain(domain) => domain.to_string(),
            HoldAccount::Peer(name) => name.to_string(),
        };
        Some((name, held.recipients))
    }

    /// Reserves space for a message, if all its accounts allow it.
    pub(crate) fn try_take(
        self: &Arc<Holdings>,
        accounts: Box<[HoldAccount]>,
        amount: Amount,
    ) -> Result<HeldShare, Full> {
        let (all_max, one_max) = (self.max(), self.part(HELD_OF_ONE));
        let mut state = self.lock();
        if !state.all.plus(amount).is_within(all_max) {
            return Err(Full::All);
        }
        let of = |account| state.accounts.get(account).copied().unwrap_or_default();
        if !accounts.iter().all(|account| of(account).plus(amount).is_within(one_max)) {
            return Err(Full::One);
        }
        Ok(self.charge(&mut state, accounts, amount))
    }

    /// Reserves space for a message recovered from the spool, regardless of the limits.
    pub(crate) fn take(
        self: &Arc<Holdings>,
        accounts: Box<[HoldAccount]>,
        amount: Amount,
    ) -> HeldShare {
        self.charge(&mut self.lock(), accounts, amount)
    }

    fn charge(
        self: &Arc<Holdings>,
        state: &mut State,
        accounts: Box<[HoldAccount]>,
        amount: Amount,
    ) -> HeldShare {
        state.all = state.all.plus(amount);
        for account in &accounts {
            let held = state.accounts.entry(account.clone()).or_default();
            *held = held.plus(amount);
        }
        HeldShare { holdings: Arc::clone(self), accounts, amount }
    }
}

/// The reserved amount of one held message, released when dropped.
#[derive(Debug)]
pub(crate) struct HeldShare {
    holdings: Arc<Holdings>,
    accounts: Box<[HoldAccount]>,
    amount: Amount,
}

impl Drop for HeldShare {
    fn drop(&mut self) {
        let mut state = self.holdings.lock();
        state.all = state.all.minus(self.amount);
        for account in &self.accounts {
            let Some(held) = state.accounts.get_mut(account) else { continue };
            *held = held.minus(self.amount);
            if held.recipients == 0 {
                state.accounts.remove(account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holdings(queued_max: u64, room_bytes: u64) -> Arc<Holdings> {
        let log = LogMetrics::default();
        log.room_bytes.set_u64(room_bytes);
        Holdings::new(&Budget::new(queued_max), vec![Arc::new(log)])
    }

    fn accounts(client: u8, sender: &str, author: &str) -> Box<[HoldAccount]> {
        HoldAccount::of(Some(IpAddr::from([192, 0, 2, client])), [sender, author])
    }

    #[test]
    fn network_and_domains_have_a_hundredth_each() {
        let holdings = holdings(1_000, 0);
        let one = |bytes| Amount { recipients: 1, bytes };
        let take =
            |client, sender, author| holdings.try_take(accounts(client, sender, author), one(5));
        let mut held: Vec<_> = (0..10).filter_map(|_| take(1, "a.test", "b.test").ok()).collect();
        assert_eq!(held.len(), 10);
        assert_eq!(take(1, "c.test", "d.test").err(), Some(Full::One), "the network");
        assert_eq!(take(2, "A.test", "").err(), Some(Full::One), "the sender's domain");
        assert_eq!(take(2, "", "B.test").err(), Some(Full::One), "the author's domain");
        held.extend(take(2, "c.test", "c.test").ok());
        assert_eq!(held.len(), 11, "others have their own");
        assert_eq!(holdings.held(), Amount { recipients: 11, bytes: 55 });
        held.clear();
        assert_eq!(holdings.held(), Amount::default());
        assert!(holdings.lock().accounts.is_empty());
    }

    #[test]
    fn a_peer_has_a_hundredth_and_is_named_as_long_as_it_holds_anything() {
        let holdings = holdings(200, 0);
        let one = Amount { recipients: 1, bytes: 7 };
        let take = |peer: &str| holdings.try_take([HoldAccount::Peer(peer.into())].into(), one);
        let held = [take("hub"), take("hub"), take("far")].map(Result::unwrap);
        assert_eq!(take("hub").err(), Some(Full::One));
        let two = Amount { recipients: 2, bytes: 14 };
        assert_eq!(holdings.of_peers(), [("far".into(), one), ("hub".into(), two)]);
        drop(held);
        assert!(holdings.of_peers().is_empty() && take("hub").is_ok());
    }

    #[test]
    fn all_together_have_a_tenth_of_recipients_and_bytes() {
        let of = |n: u8| HoldAccount::of(Some(IpAddr::from([192, 0, 2, n])), ["", ""]);
        let few = holdings(100, 0);
        let one = Amount { recipients: 1, bytes: 1 };
        let held: Vec<_> = (0..30).filter_map(|n| few.try_take(of(n), one).ok()).collect();
        assert_eq!(held.len(), 10);
        assert_eq!(few.try_take(of(99), one).err(), Some(Full::All));
        let small = holdings(1 << 20, 1_000);
        let large = Amount { recipients: 1, bytes: 10 };
        let held: Vec<_> = (0..30).filter_map(|n| small.try_take(of(n), large).ok()).collect();
        assert_eq!(held.len(), 10);
        assert_eq!(small.try_take(of(50), large).err(), Some(Full::All));
        drop(held);
        let larger = Amount { recipients: 1, bytes: 11 };
        assert_eq!(small.try_take(of(50), larger).err(), Some(Full::One), "above a hundredth");
        // Recovered messages are counted regardless of the limit.
        let recovered = small.take(of(50), Amount { recipients: 5, bytes: 5_000 });
        assert_eq!(small.try_take(of(51), large).err(), Some(Full::All));
        drop(recovered);
    }
}
