//! What only some worlds have, drawn by itself so that it changes nothing else: few descriptors,
//! few lookups, a resolver that falls ill, routes that vanish, peers that drip, many small domains
//! and among them one that is well.

use super::{
    Act, ActKind, BY_MX, CrashKind, DescriptorLimits, DiskFailure, Hop, Mire, Mood, Plan,
    RouteChange, SECOND_US, Zones, hop, mx_name,
};
use crate::names::WELL_DOMAIN;
use load::random::Random;
use mta::seams::Mx;
use std::net::SocketAddr;

/// The hop whose peers may defer everything; see [`Hop::defers_all_until_us`].
const STUBBORN: usize = 1;

/// What is under this domain are small domains.
pub const CROWD_DOMAIN: &str = "many.test";

/// Those who write to small domains begin so late: by then it is known who is well.
pub const CROWD_FROM_US: u64 = 15 * SECOND_US;

/// Many small domains that share a few hosts, each in an order of its own.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// How many.
    pub domains: u32,
    /// Hosts of them all.
    pub hosts: u32,
    /// The first so many of the hosts answer nobody until all heals.
    pub tarpits: u32,
    /// Who writes there, and the recipients of each message.
    pub clients: u32,
    pub recipients: u32,
    /// What is wrong with all of them.
    pub mire: Mire,
}

impl Plan {
    /// Draws it.
    pub(super) fn vary(&mut self, random: &mut Random) {
        if random.below(8) == 0 {
            self.add_crowd(random);
        }
        if self.crowd.is_none() && random.below(3) == 0 {
            self.limit_files(random);
        }
        let lookups_max = Some(1 + random.below(5) as u32);
        // Thousands of domains are not found in time by so few.
        if random.below(3) == 0 && self.crowd.is_none_or(|crowd| crowd.domains < 1_000) {
            self.lookups_max = lookups_max;
        }
        if random.below(3) == 0 {
            self.change_moods(random);
        }
        self.swapped = random.below(2) == 0;
        // Content that was sent unasked must be discarded.
        let keeps = random.below(2) == 0;
        self.hops[BY_MX].discards = keeps;
        if random.below(4) == 0 {
            self.fault_rates.peer_drip = random.below(400) as u16;
        }
        if random.below(4) == 0 {
            self.lose_route(random);
        }
        if random.below(5) == 0 {
            self.be_stubborn(random);
        }
        self.acts.sort_by_key(|act| act.at_us);
    }

    fn add_crowd(&mut self, random: &mut Random) {
        let large = random.below(12) == 0;
        let (domains, hosts, recipients) = match large {
            true => (1_500 + random.below(1_000) as u32, 6, 50),
            false => (80 + random.below(80) as u32, 5 + random.below(7) as u32, 10),
        };
        // Among many who are well, who is well has to wait as well.
        let tarpits = if large { 2 } else { hosts };
        let (clients, mire) = (1, Mire::default());
        self.crowd = Some(Crowd { domains, hosts, tarpits, clients, recipients, mire });
        let of_crowd = |number: u32| SocketAddr::new([10, 2, 0, number as u8 + 1].into(), 25);
        let crowd = Hop {
            by_mx: true,
            hosts: (0..hosts).map(of_crowd).collect(),
            tarpits: tarpits as usize,
            down_us: (0, 0),
            ..hop(random, 7, &[&format!("*.{CROWD_DOMAIN}")], self.heal_us)
        };
        self.hops.push(crowd);
        let well = hop(random, 8, &[WELL_DOMAIN], self.heal_us);
        self.hops.push(Hop {
            is_well: true,
            connections_max: 4,
            defers_until_us: 0,
            down_us: (0, 0),
            ..well
        });
        // Its bound holds for a process that runs, on disks with room.
        self.crashes.clear();
        self.acts.retain(|act| !matches!(act.kind, ActKind::Fill { .. } | ActKind::Free));
        self.traffic_us = self.traffic_us.max(40 * SECOND_US);
        self.heal_us = self.heal_us.max(self.traffic_us + 5 * SECOND_US);
        let egress_max = 8 + random.below(6);
        self.parts = Some(DescriptorLimits { files_max: u64::MAX, egress_max, lookups_max: 64 });
    }

    /// Few descriptors, and moments with none at all.
    fn limit_files(&mut self, random: &mut Random) {
        let files_max = 16 + random.below(40);
        let egress_max = 3 + random.below(files_max / 3);
        let lookups_max = 1 + random.below(6) as u32;
        self.parts = Some(DescriptorLimits { files_max, egress_max, lookups_max });
        let mut at_us = 0;
        while random.below(3) > 0 && at_us < self.heal_us {
            at_us += random.below(self.heal_us - at_us + 1);
            let kind = ActKind::Files { max: random.below(6) };
            self.acts.push(Act { at_us, kind });
            at_us += random.below(10 * SECOND_US);
            self.acts.push(Act { at_us, kind: ActKind::Files { max: files_max } });
        }
    }

    /// Disks fail otherwise than at a sync, and reads now and then.
    pub(super) fn wear_disks(&mut self, random: &mut Random) {
        for crash in &mut self.crashes {
            let operations_count = random.below(12);
            let failure = match random.below(3) {
                0 => DiskFailure::Sync,
                1 => DiskFailure::Once(operations_count),
                _ => DiskFailure::ForGood(operations_count),
            };
            if matches!(crash.kind, CrashKind::Poison(_)) {
                crash.kind = CrashKind::Poison(failure);
            }
        }
        // The domain that is well has its bound on disks that can be read.
        if self.crowd.is_some() || random.below(4) > 0 {
            return;
        }
        let mut at_us = 0;
        while random.below(3) > 0 && at_us < self.heal_us {
            at_us += random.below(self.heal_us - at_us + 1);
            let permille = 1 + random.below(1_000) as u32;
            self.acts.push(Act { at_us, kind: ActKind::Reads { permille } });
            at_us += random.below(20 * SECOND_US);
            self.acts.push(Act { at_us, kind: ActKind::Reads { permille: 0 } });
        }
        self.acts.sort_by_key(|act| act.at_us);
    }

    /// The resolver falls ill and recovers.
    fn change_moods(&mut self, random: &mut Random) {
        let mut at_us = 0;
        while random.below(4) > 0 && at_us < self.heal_us {
            at_us += random.below(self.heal_us - at_us + 1);
            let mood = [Mood::Slow, Mood::Silent, Mood::Failing, Mood::Lacking];
            let kind = ActKind::Resolver(mood[random.below(4) as usize]);
            self.acts.push(Act { at_us, kind });
            at_us += random.below(20 * SECOND_US);
            self.acts.push(Act { at_us, kind: ActKind::Resolver(Mood::Well) });
        }
    }

    /// A route is not in the file any more, and later it is again.
    fn lose_route(&mut self, random: &mut Random) {
        let changes = |act: &&Act| matches!(act.kind, ActKind::Change(_));
        let last_us = self.acts.iter().filter(changes).map(|act| act.at_us).max().unwrap_or(0);
        let hop = random.below(4) as usize;
        let lost_us = last_us + random.below(self.heal_us - last_us);
        let back_us = lost_us + random.below(self.heal_us - lost_us);
        let hops = self.hops_after(self.changes.len());
        let same_hosts = |other: &usize| self.hops[*other].hosts == hops[hop].hosts;
        let goes_to = (0..4).find(same_hosts).unwrap_or(hop);
        for (at_us, gone) in [(lost_us, true), (back_us, false)] {
            self.acts.push(Act { at_us, kind: ActKind::Change(self.changes.len()) });
            let Hop { connections_max, in_flight_max, .. } = hops[hop];
            let tls = None;
            self.changes.push(RouteChange {
                hop,
                connections_max,
                in_flight_max,
                goes_to,
                gone,
                tls,
            });
        }
    }

    /// One hop defers everything for a long time, and much goes there.
    fn be_stubborn(&mut self, random: &mut Random) {
        let hop = &mut self.hops[STUBBORN];
        hop.defers_all_until_us = self.heal_us - random.below(self.heal_us / 3);
        hop.connections_max = 1 + random.below(2) as u32;
        hop.in_flight_max = 1;
        let connections_max = hop.connections_max;
        for change in &mut self.changes {
            // All that goes there comes by one route, one transaction at a time.
            change.goes_to = change.hop;
            if change.hop == STUBBORN {
                change.in_flight_max = 1;
                change.connections_max = connections_max;
            }
        }
        let domain = self.hops[STUBBORN].domains[0].clone();
        self.domains.extend(vec![domain; 6]);
        self.clients.1 = self.clients.1.max(15);
    }

    /// The small domains, by number.
    #[must_use]
    pub fn crowd_domains(&self) -> Vec<String> {
        let count = self.crowd.map_or(0, |crowd| crowd.domains);
        (0..count).map(|number| format!("c{number}.{CROWD_DOMAIN}")).collect()
    }

    /// What the DNS says about small domains: each has one to three of the hosts, in any order.
    pub(super) fn add_crowd_zones(&self, zones: &mut Zones) {
        let Some(hop) = self.hops.iter().find(|hop| hop.is_crowd()) else { return };
        for (number, host) in hop.hosts.iter().enumerate() {
            zones.addresses.insert(mx_name(hop, number), vec![host.ip()]);
        }
        let random = &mut Random::new(self.seed ^ 0x6D61_6E79);
        for domain in self.crowd_domains() {
            let records = (0..1 + random.below(3)).map(|_| {
                let number = random.below(hop.hosts.len() as u64) as usize;
                Mx { preference: 10 * random.below(3) as u16, host: mx_name(hop, number) }
            });
            zones.mx.insert(domain, records.collect());
        }
    }
}

impl Hop {
    /// Whether the small domains are here.
    #[must_use]
    pub fn is_crowd(&self) -> bool {
        self.domains[0].ends_with(CROWD_DOMAIN)
    }
}
