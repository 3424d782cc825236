//! Worlds in which much is shared: mail goes from several addresses, a provider's limits cut across next hops, and
//! tenants have rates of their own, over four shards. Drawn by itself so that it changes nothing else.

use super::{BY_MX, Hop, Plan, hop, mx_name};
use crate::prove::sim::plant::Plant;
use load::random::Random;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Shards of these worlds.
const SHARDS: u16 = 4;
/// The second next hop of the provider; the first is [`BY_MX`].
const SECOND_DOMAINS: [&str; 2] = ["d6.test", "d7.test"];
/// In what time, in seconds, rates let all go that clients may hand in.
const ALL_IN_S: u32 = 90;
/// The rate of one message at a time, and nearly no burst.
const PER_SECOND_MIN: u32 = 2;

/// What is shared.
#[derive(Clone, Debug)]
pub struct PacePlan {
    /// The addresses that mail to the provider goes from.
    pub sources: Vec<IpAddr>,
    /// Connections to all hosts of the provider, of each source.
    pub connections_max: u32,
    /// Transactions that may begin towards them per second, of each source.
    pub per_second: u32,
    /// The same of each tenant towards anybody.
    pub tenants: Vec<u32>,
}

impl Plan {
    /// Draws it for one world of four without small domains: those have a bound on how long mail takes.
    pub(super) fn add_pace(&mut self, random: &mut Random) {
        if random.below(4) > 0 || self.crowd.is_some() {
            return;
        }
        self.shards = SHARDS;
        self.hops.push(Hop { by_mx: true, ..hop(random, 9, &SECOND_DOMAINS, self.heal_us) });
        // Most of the mail goes to the provider.
        let provider =
            [self.hops[BY_MX].domains.clone(), SECOND_DOMAINS.map(str::to_owned).to_vec()];
        for _ in 0..2 {
            self.domains.extend(provider.concat());
        }
        let messages = self.clients.0 * self.clients.1;
        let rate = |random: &mut Random, share: u32| {
            PER_SECOND_MIN + (2 * messages / share).div_ceil(ALL_IN_S) + random.below(3) as u32
        };
        let sources = 2 + random.below(2) as u32;
        let tenants = 2 + random.below(2) as u32;
        let source = |n: u32| IpAddr::V4(Ipv4Addr::new(10, 0, 0, 11 + n as u8));
        self.pace = Some(PacePlan {
            sources: (0..sources).map(source).collect(),
            connections_max: 1 + random.below(3) as u32,
            per_second: rate(random, sources),
            tenants: (0..tenants).map(|_| rate(random, tenants)).collect(),
        });
    }

    /// How many addresses mail to this hop goes from.
    #[must_use]
    pub fn sources_of(&self, hop: &Hop) -> u32 {
        let pace = self.pace.as_ref().filter(|_| hop.by_mx);
        pace.map_or(1, |pace| pace.sources.len() as u32)
    }

    /// The hosts of the provider.
    #[must_use]
    pub fn provider_hosts(&self) -> Vec<SocketAddr> {
        let hops = self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd());
        hops.flat_map(|hop| hop.hosts.clone()).collect()
    }

    /// The tenant of the message of this number.
    #[must_use]
    pub fn tenant_of(&self, number: u64) -> Option<usize> {
        self.pace.as_ref().map(|pace| (number % pace.tenants.len() as u64) as usize)
    }

    /// The shaping file.
    #[must_use]
    pub fn shaping(&self, plant: Option<Plant>) -> Option<String> {
        let pace = self.pace.as_ref()?;
        let hops = self.hops.iter().filter(|hop| hop.by_mx && !hop.is_crowd());
        let names: Vec<String> =
            hops.flat_map(|hop| (0..hop.hosts.len()).map(move |n| mx_name(hop, n))).collect();
        let connections = pace.connections_max + u32::from(plant == Some(Plant::OneConnectionMore));
        let per_second = pace.per_second * (1 + u32::from(plant == Some(Plant::RateDoubled)));
        Some(format!(
            "[provider.big]\nmx = {names:?}\n\
             together = {{ max_connections = {connections}, rate = [\"{per_second}/s\"] }}\n"
        ))
    }
}

impl PacePlan {
    /// Keys in front of all sections.
    pub(super) fn top(&self) -> &'static str {
        "shaping = [\"/shaping.toml\"]\n"
    }

    /// Keys of the listener.
    pub(super) fn of_listener(&self) -> &'static str {
        "steering_from = [\"10.9.0.0/16\"]\n"
    }

    /// The key of a route that finds hosts by MX records.
    pub(super) fn of_route(&self) -> &'static str {
        "pool = \"all\"\n"
    }

    /// Sections.
    pub(super) fn sections(&self, plant: Option<Plant>) -> String {
        let mut text = "[steering]\ntenant = \"X-Tenant\"\n".to_owned();
        let faster = 1 + u32::from(plant == Some(Plant::RateDoubled));
        for (n, per_second) in self.tenants.iter().enumerate() {
            let rate = per_second * faster;
            let _ = writeln!(text, "[[tenant]]\nname = \"t{n}\"\nrate = [\"{rate}/s\"]");
        }
        let mut names = Vec::new();
        for (n, address) in self.sources.iter().enumerate() {
            let _ = writeln!(text, "[[source]]\nname = \"s{n}\"\naddress = \"{address}\"");
            names.push(format!("{{ name = \"s{n}\" }}"));
        }
        let _ = writeln!(text, "[[pool]]\nname = \"all\"\nsources = [{}]", names.join(", "));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_worlds_share_much_and_their_rates_let_all_go() {
        let plans: Vec<Plan> = (0..400).map(Plan::new).collect();
        let with: Vec<&Plan> = plans.iter().filter(|plan| plan.pace.is_some()).collect();
        assert!((60..140).contains(&with.len()), "{} of 400", with.len());
        for plan in with {
            let pace = plan.pace.as_ref().expect("it has one");
            assert_eq!(plan.shards, SHARDS);
            assert!(plan.crowd.is_none() && plan.provider_hosts().len() >= 2);
            let all: u32 = pace.tenants.iter().sum();
            assert!(all * ALL_IN_S >= 2 * plan.clients.0 * plan.clients.1, "{pace:?}");
            assert_eq!(plan.sources_of(&plan.hops[0]), 1);
            assert_eq!(plan.sources_of(&plan.hops[BY_MX]) as usize, pace.sources.len());
        }
    }
}
