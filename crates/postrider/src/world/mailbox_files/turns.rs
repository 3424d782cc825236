//! In whose turn messages are written, where more wait than one batch takes: as at next hops, clients of ours have a turn
//! for each of strangers; of these the networks that one customer may all have take turns, and within them client networks.

use queue::Origin;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// So many of those who had turns are remembered; then it begins anew.
const REMEMBERED_MAX: usize = 4_096;
/// Neither side is owed more turns.
const OWED_MAX: i64 = 1_024;

/// What each has had.
#[derive(Debug, Default)]
struct Had {
    of: BTreeMap<u16, u64>,
    /// What whoever was served last had had: whoever comes anew counts as one who has had that.
    level: u64,
}

impl Had {
    fn of(&self, key: u16) -> u64 {
        self.of.get(&key).map_or(self.level, |had| self.level.max(*had))
    }

    fn charge(&mut self, key: u16) {
        let had = self.of(key);
        self.level = had;
        if self.of.len() >= REMEMBERED_MAX {
            self.of.retain(|_, other| *other > had);
            if self.of.len() >= REMEMBERED_MAX {
                self.of.clear();
            }
        }
        self.of.insert(key, had.saturating_add(1));
    }
}

/// Who had how many turns while others waited.
#[derive(Debug, Default)]
pub(super) struct Turns {
    sites: Had,
    networks: BTreeMap<u16, Had>,
    /// What strangers have had more than others while both waited.
    ahead: i64,
}

impl Turns {
    fn charge(&mut self, site: u16, network: u16) {
        self.sites.charge(site);
        if self.networks.len() >= REMEMBERED_MAX && !self.networks.contains_key(&site) {
            self.networks.clear();
        }
        self.networks.entry(site).or_default().charge(network);
    }
}

/// A place among those who take turns: what one has had, and the first of its own.
type Place = (u64, usize, u16);

/// What waits, one after the other in turn, by numbers in the order in which it came.
#[derive(Debug)]
pub(super) struct Walk<'a> {
    turns: &'a mut Turns,
    ours: VecDeque<usize>,
    sites: BTreeSet<Place>,
    of_site: BTreeMap<u16, Site>,
}

#[derive(Debug, Default)]
struct Site {
    networks: BTreeSet<Place>,
    of_network: BTreeMap<u16, VecDeque<usize>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        turns: &'a mut Turns,
        waiting: impl Iterator<Item = (usize, Origin)>,
    ) -> Walk<'a> {
        let (sites, of_site) = (BTreeSet::new(), BTreeMap::new());
        let mut walk = Walk { turns, ours: VecDeque::new(), sites, of_site };
        for (number, origin) in waiting {
            match origin.parts() {
                None => walk.ours.push_back(number),
                Some((site, network)) => {
                    let of_site: &mut Site = walk.of_site.entry(site).or_default();
                    of_site.of_network.entry(network).or_default().push_back(number);
                }
            }
        }
        for (site, of_site) in &mut walk.of_site {
            let had = walk.turns.networks.get(site);
            let had = |network: &u16| had.map_or(0, |had| had.of(*network));
            let places = of_site
                .of_network
                .iter()
                .filter_map(|(network, numbers)| Some((had(network), *numbers.front()?, *network)));
            of_site.networks = places.collect();
            walk.sites.extend(of_site.place(walk.turns.sites.of(*site), *site));
        }
        walk
    }

    /// Whose turn it is, until nothing is left; `take`: whether that is taken now. What is not keeps its turn.
    pub(super) fn next(&mut self, take: impl FnOnce(usize) -> bool) -> Option<()> {
        if self.sites.is_empty() || (self.turns.ahead >= 0 && !self.ours.is_empty()) {
            let is_taken = take(self.ours.pop_front()?);
            self.count(is_taken, -1, self.sites.is_empty());
            return Some(());
        }
        let (_, _, site) = self.sites.pop_first()?;
        let of_site = self.of_site.get_mut(&site)?;
        let (_, _, network) = of_site.networks.pop_first()?;
        let numbers = of_site.of_network.get_mut(&network)?;
        let is_taken = take(numbers.pop_front()?);
        if is_taken {
            self.turns.charge(site, network);
        }
        let had = self.turns.networks.get(&site).map_or(0, |had| had.of(network));
        of_site.networks.extend(numbers.front().map(|first| (had, *first, network)));
        self.sites.extend(of_site.place(self.turns.sites.of(site), site));
        self.count(is_taken, 1, self.ours.is_empty());
        Some(())
    }

    fn count(&mut self, is_taken: bool, turn: i64, is_alone: bool) {
        match (is_taken, is_alone) {
            (true, true) => self.turns.ahead = 0,
            (true, false) => {
                let ahead = self.turns.ahead.saturating_add(turn);
                self.turns.ahead = ahead.clamp(-OWED_MAX, OWED_MAX);
            }
            (false, _) => {}
        }
    }
}

impl Site {
    fn place(&self, had: u64, site: u16) -> Option<Place> {
        let (_, first, _) = self.networks.first()?;
        Some((had, *first, site))
    }
}
