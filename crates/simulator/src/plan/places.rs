//! Users of some worlds whose hosts stand in the directory, and who move from one to another.

use super::{Hop, Plan, hop};
use crate::names::SPREAD_DOMAIN;
use load::random::Random;
use std::net::{IpAddr, SocketAddr};

/// The hosts that they are at.
const HOSTS: u8 = 3;

/// Where the users of one domain are, as the directory has it.
#[derive(Clone, Debug)]
pub struct UserLocations {
    hosts: Vec<SocketAddr>,
    /// When each third of the users goes to the next host, in microseconds, in order.
    moves_us: Vec<u64>,
    /// In this time one user of four has a value that is no host.
    wrong_us: (u64, u64),
}

impl Plan {
    /// Draws a domain whose users are at several hosts, in some of the worlds with a directory.
    pub(super) fn spread_users(&mut self, random: &mut Random) {
        let Some(directory) = &mut self.directory else { return };
        if random.below(2) > 0 {
            return;
        }
        let host = |n: u8| SocketAddr::new(IpAddr::from([10, 3, 0, n]), 25);
        let spread = Hop {
            hosts: (1..=HOSTS).map(host).collect(),
            // Who is at the first then waits for it, or to be moved.
            tarpits: random.below(2) as usize,
            is_by_entry: true,
            ..hop(random, 9, &[SPREAD_DOMAIN], self.heal_us)
        };
        let mut moves_us: Vec<u64> =
            (0..random.below(4)).map(|_| random.below(self.heal_us)).collect();
        moves_us.sort_unstable();
        let wrong_from_us = random.below(self.heal_us);
        let wrong_us = (wrong_from_us, wrong_from_us + random.below(self.heal_us - wrong_from_us));
        let hosts = spread.hosts.clone();
        directory.add_spread(self.hops.len(), UserLocations { hosts, moves_us, wrong_us });
        self.hops.push(spread);
        self.domains.push(SPREAD_DOMAIN.to_owned());
    }
}

impl UserLocations {
    /// The value of a user's entry at that time.
    #[must_use]
    pub fn value(&self, address: &str, at_us: u64) -> String {
        let (from_us, until_us) = self.wrong_us;
        let is_wrong = (from_us..until_us).contains(&at_us);
        if is_wrong && number_of(address).is_multiple_of(4) {
            return "unknown host".to_owned();
        }
        self.host(address, at_us).map_or_else(String::new, |host| host.to_string())
    }

    /// The host of a user at that time.
    fn host(&self, address: &str, at_us: u64) -> Option<SocketAddr> {
        let number = number_of(address) as usize;
        let moves = self.moves_us.iter().take_while(|&&move_us| move_us <= at_us).enumerate();
        let moved = moves.filter(|(count, _)| (number / 7 + count).is_multiple_of(3)).count();
        self.hosts.get((number + moved) % self.hosts.len().max(1)).copied()
    }

    /// Whether a user was at this host at some time between these.
    #[must_use]
    pub fn was_at(&self, address: &str, host: IpAddr, from_us: u64, until_us: u64) -> bool {
        let within = self.moves_us.iter().filter(|at_us| (from_us..=until_us).contains(at_us));
        let is_there = |at_us: &u64| self.host(address, *at_us).is_some_and(|at| at.ip() == host);
        is_there(&from_us) || within.into_iter().any(is_there)
    }
}

fn number_of(address: &str) -> u32 {
    crc32c::crc32c(address.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_move_and_were_where_they_have_been() {
        let host = |n: u8| SocketAddr::new(IpAddr::from([10, 3, 0, n]), 25);
        let hosts: Vec<SocketAddr> = (1..=HOSTS).map(host).collect();
        let places = UserLocations { hosts, moves_us: vec![10, 20], wrong_us: (30, 40) };
        let user = |n: u32| format!("u{n}@{SPREAD_DOMAIN}");
        let at = |n: u32, at_us| places.host(&user(n), at_us).expect("a host").ip();
        let moved: Vec<u32> = (0..300).filter(|&n| at(n, 9) != at(n, 10)).collect();
        assert!((60..140).contains(&moved.len()), "{} of 300 moved", moved.len());
        for &n in &moved {
            assert!(places.was_at(&user(n), at(n, 9), 0, 9));
            assert!(places.was_at(&user(n), at(n, 9), 9, 15));
            assert!(!places.was_at(&user(n), at(n, 9), 10, 15));
            assert!(places.was_at(&user(n), at(n, 10), 0, 10));
        }
        let wrong =
            |at_us| (0..300).filter(|&n| places.value(&user(n), at_us).contains(' ')).count();
        assert_eq!((wrong(29), wrong(40)), (0, 0));
        assert!((40..120).contains(&wrong(30)), "{} of 300", wrong(30));
    }
}
