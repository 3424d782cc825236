//! Fair turns among sites and their networks, whatever the amount that each requests: sites take turns, and networks
//! take turns within a site. A new one waits for one round at most.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of remembered keys that left; then all are forgotten.
const LEFT_MAX: usize = 256;

/// Keys in turn: the least served one first, equals in order of arrival.
#[derive(Debug)]
struct Rota<K> {
    /// Keys with waiting items, with their use so far and their number among equals.
    places: BTreeMap<K, (u64, u64)>,
    order: BTreeSet<(u64, u64, K)>,
    /// Amounts served to keys that left. A key with single large entries, one at a time, therefore waits like the rest.
    left: BTreeMap<K, u64>,
    /// Amount served to the key served last; a new key starts with this amount.
    level: u64,
    next: u64,
}

impl<K: Ord> Default for Rota<K> {
    fn default() -> Rota<K> {
        let (places, order, left) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Rota { places, order, left, level: 0, next: 0 }
    }
}

impl<K: Ord + Copy> Rota<K> {
    fn first(&self) -> Option<K> {
        self.order.first().map(|(_, _, key)| *key)
    }

    /// Adds a key with a waiting item.
    fn enter(&mut self, key: K) {
        if !self.places.contains_key(&key) {
            let had = self.left.remove(&key).unwrap_or(0).max(self.level);
            self.put(key, had);
        }
    }

    fn put(&mut self, key: K, had: u64) {
        self.places.insert(key, (had, self.next));
        self.order.insert((had, self.next, key));
        self.next += 1;
    }

    /// No item waits for this key any more.
    fn leave(&mut self, key: K) {
        let Some((had, number)) = self.places.remove(&key) else { return };
        self.order.remove(&(had, number, key));
        if self.left.len() >= LEFT_MAX {
            let level = self.level;
            self.left.retain(|_, had| *had > level);
            // A client with this many keys pays with a round for each.
            if self.left.len() >= LEFT_MAX / 2 {
                self.left.clear();
            }
        }
        self.left.insert(key, had);
    }

    /// It was served.
    fn charge(&mut self, key: K, cost: u64) {
        if let Some((had, number)) = self.places.get(&key).copied() {
            self.level = self.level.max(had);
            self.order.remove(&(had, number, key));
            self.put(key, had.saturating_add(cost));
        } else if let Some(had) = self.left.get_mut(&key) {
            self.level = self.level.max(*had);
            *had = had.saturating_add(cost);
        }
    }
}

/// Waiting items, in a line of type `L` per network. Sites (networks that one customer may own) take turns, and
/// networks take turns within a site.
#[derive(Debug)]
pub struct Turns<S, N, L> {
    sites: Rota<S>,
    of_site: BTreeMap<S, Site<N, L>>,
}

#[derive(Debug)]
struct Site<N, L> {
    networks: Rota<N>,
    lines: BTreeMap<N, L>,
}

impl<S: Ord, N, L> Default for Turns<S, N, L> {
    fn default() -> Turns<S, N, L> {
        Turns { sites: Rota::default(), of_site: BTreeMap::new() }
    }
}

impl<N: Ord, L> Default for Site<N, L> {
    fn default() -> Site<N, L> {
        Site { networks: Rota::default(), lines: BTreeMap::new() }
    }
}

impl<S: Ord + Copy, N: Ord + Copy, L: Default> Turns<S, N, L> {
    /// Returns a network's queue for the insertion of an item; from now on the network takes turns.
    pub fn enter(&mut self, site: S, network: N) -> &mut L {
        self.sites.enter(site);
        let of_site = self.of_site.entry(site).or_default();
        of_site.networks.enter(network);
        of_site.lines.entry(network).or_default()
    }

    /// Modifies the queue of a network. If `change` returns that it is empty, the network takes no more turns.
    pub fn change(&mut self, site: S, network: N, change: impl FnOnce(&mut L) -> bool) {
        let Some(of_site) = self.of_site.get_mut(&site) else { return };
        let Some(line) = of_site.lines.get_mut(&network) else { return };
        if !change(line) {
            return;
        }
        of_site.lines.remove(&network);
        of_site.networks.leave(network);
        if of_site.lines.is_empty() {
            self.of_site.remove(&site);
            self.sites.leave(site);
        }
    }

    /// The network served next, and its line.
    #[must_use]
    pub fn first(&self) -> Option<(S, N, &L)> {
        let site = self.sites.first()?;
        let of_site = self.of_site.get(&site)?;
        let network = of_site.networks.first()?;
        Some((site, network, of_site.lines.get(&network)?))
    }

    /// A network was served at this cost.
    pub fn charge(&mut self, site: S, network: N, cost: u64) {
        self.sites.charge(site, cost);
        if let Some(of_site) = self.of_site.get_mut(&site) {
            of_site.networks.charge(network, cost);
        }
    }

    /// No line is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.of_site.is_empty()
    }

    /// Modifies every queue, as [`Turns::change`].
    pub fn change_all(&mut self, mut change: impl FnMut(&mut L) -> bool) {
        let networks_of = |(site, of_site): (&S, &Site<N, L>)| {
            let site = *site;
            of_site.lines.keys().map(|network| (site, *network)).collect::<Vec<_>>()
        };
        for (site, network) in self.of_site.iter().flat_map(networks_of).collect::<Vec<_>>() {
            self.change(site, network, &mut change);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_waits_for_one_round_of_the_others() {
        let mut rota = Rota::default();
        (0..3).for_each(|key| rota.enter(key));
        let turn = |rota: &mut Rota<u8>, cost| {
            let key = rota.first().unwrap();
            rota.charge(key, cost);
            key
        };
        assert_eq!([(); 4].map(|()| turn(&mut rota, 1)), [0, 1, 2, 0]);
        rota.enter(9);
        assert_eq!([(); 5].map(|()| turn(&mut rota, 1)), [1, 2, 9, 0, 1]);
        // One that has had much at once waits as long.
        assert_eq!(turn(&mut rota, 3), 2);
        assert_eq!([(); 7].map(|()| turn(&mut rota, 1)), [9, 0, 1, 9, 0, 1, 9]);
        assert_eq!([(); 3].map(|()| turn(&mut rota, 1)), [2, 0, 1]);
    }

    #[test]
    fn a_key_that_left_and_comes_back_is_no_newcomer() {
        let mut rota = Rota::default();
        rota.enter(1);
        rota.enter(2);
        rota.leave(1);
        rota.charge(1, 5);
        rota.enter(1);
        for _ in 0..5 {
            assert_eq!(rota.first(), Some(2));
            rota.charge(2, 1);
        }
        assert_eq!(rota.first(), Some(1));
        // Keys that left are forgotten, however many they are.
        for key in 10..10_000 {
            rota.enter(key);
            rota.leave(key);
            rota.charge(key, 100_000);
            assert!(rota.left.len() <= LEFT_MAX);
        }
    }
}
