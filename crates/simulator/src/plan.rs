//! What one seed means: the shape of the node and its peers, who hands in what, and which
//! faults come when.

mod act;
mod directory;
mod dns;
mod file;
mod mire;
mod pace;
mod places;
mod rules;
mod shown;
mod stumble;
mod tls;
mod variety;
mod x400;

pub use act::{Act, ActKind, Crash, CrashKind, DiskFailure};
pub use directory::{DirectoryPlan, Health, Illness};
pub use dns::{Mood, Zones};
pub use file::{Horizon, ResourceLimits};
pub use mire::Mire;
pub use pace::{PacePlan, PaceTerms, WarmupPlan};
pub use places::UserLocations;
pub use rules::{Anger, RulePlan, Word};
pub use stumble::{DialoguePhase, Manner, Stumble};
pub use tls::{NOBODYS_KEY, TlsIllness, TlsPlan, TlsaPlan, key_of};
pub use variety::{CROWD_DOMAIN, CROWD_FROM_US, Crowd};
pub use x400::{P1ClientFaults, P1ClientPlan, P1Peer, P1PeerFaults, X400Plan};

use super::names::{BOX_DOMAIN, DEAF_DOMAIN, SENDER_DOMAIN};
use act::{acts, crashes};
use dns::mx_name;
use load::random::Random;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Recipients of one message at most, but for those to small domains.
pub const RECIPIENTS_MAX: u64 = 4;

/// The hop that is found by MX records.
pub const BY_MX: usize = 2;

/// Mailbox files written at once.
const BOX_CONNECTIONS_MAX: u32 = 16;

/// Sessions of clients at once.
const SESSIONS_MAX: u64 = 12;

const SECOND_US: u64 = 1_000_000;

/// One run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where it all comes from.
    pub seed: u64,
    /// Shards of the node.
    pub shards: u16,
    /// Log directories.
    pub logs: u8,
    /// Delivered recipients whose settle is not durable.
    pub unsettled_max: u32,
    /// Next hops that speak SMTP.
    pub hops: Vec<Hop>,
    /// Domains that messages go to.
    pub domains: Vec<String>,
    /// How many clients, and how many messages each.
    pub clients: (u32, u32),
    /// Clients begin no message after this.
    pub traffic_us: u64,
    /// Ends of the process, in order.
    pub crashes: Vec<Crash>,
    /// What else is done, in order.
    pub acts: Vec<Act>,
    /// From here on nothing goes wrong any more.
    pub heal_us: u64,
    /// What the network does until then, in thousandths.
    pub fault_rates: FaultRates,
    /// Changed configurations: [`ActKind::Change`] counts them.
    pub changes: Vec<RouteChange>,
    /// Changed zones: [`ActKind::Zones`] counts them.
    pub zone_changes: Vec<ZoneChange>,
    /// Some senders can't be told anything: their next hop refuses reports, or is dead.
    pub deaf_senders: bool,
    /// Of the domains that are found by MX records the second has the hosts in the other order.
    pub swapped: bool,
    /// Many small domains; with them there is a domain that is well.
    pub crowd: Option<Crowd>,
    /// What the process may have open.
    pub parts: Option<DescriptorLimits>,
    /// Lookups at once, as the configuration says.
    pub lookups_max: Option<u32>,
    /// A directory has the recipients of some routes.
    pub directory: Option<DirectoryPlan>,
    /// Sources, a provider and tenants share limits.
    pub pace: Option<PacePlan>,
    /// MTAs of X.400.
    pub x400: Option<X400Plan>,
}

/// What the process may have open.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorLimits {
    /// Descriptors in all, those not counted that are there from the start.
    pub files_max: u64,
    /// Connections to next hops.
    pub egress_max: u64,
    /// Lookups.
    pub lookups_max: u32,
}

/// A route that reads otherwise from now on.
#[derive(Clone, Debug)]
pub struct RouteChange {
    /// Whose route: a number in [`Plan::hops`].
    pub hop: usize,
    /// All shards together.
    pub connections_max: u32,
    /// On one connection.
    pub in_flight_max: u32,
    /// The mail goes to the hosts of this hop.
    pub goes_to: usize,
    /// There is no such route.
    pub gone: bool,
    /// It asks for other TLS.
    pub tls: Option<&'static str>,
}

/// What the DNS says from now on about the hop that is found by MX records.
#[derive(Clone, Debug)]
pub struct ZoneChange {
    /// The preference of each host that is named.
    pub preferences: Vec<Option<u16>>,
    /// A CNAME that leads back to itself stands at this name.
    pub looped: Option<String>,
}

/// What goes wrong until all heals, in thousandths.
#[derive(Clone, Copy, Debug)]
pub struct FaultRates {
    /// Connects refused.
    pub refuse: u16,
    /// Connects swallowed.
    pub swallow: u16,
    /// Connections reset.
    pub reset: u16,
    /// Pieces late by seconds.
    pub stall: u16,
    /// Questions to the DNS that fail.
    pub dns: u16,
    /// Questions to the DNS that are answered late, or not in time.
    pub dns_late: u16,
    /// Mailbox files that can't be written.
    pub store: u16,
    /// Steps of a peer's sessions refused for now.
    pub peer_refuse: u16,
    /// Steps at which a peer hangs up.
    pub peer_drop: u16,
    /// Steps at which a peer takes its time.
    pub peer_slow: u16,
    /// Sessions in which a peer writes and reads a byte now and then.
    pub peer_drip: u16,
    /// Peers that hang up do so by halves: they go on reading.
    pub peer_halves: bool,
    /// Messages after which a client closes its writing side, and reads the reply.
    pub client_halves: u16,
    /// Replies of a peer that are wrong, missing, or never end.
    pub peer_garble: u16,
    /// Messages that a client breaks off.
    pub client_abort: u16,
    /// Connections on which a peer's TLS goes wrong.
    pub peer_tls: u16,
}

/// A next hop.
#[derive(Clone, Debug)]
pub struct Hop {
    /// Its hosts.
    pub hosts: Vec<SocketAddr>,
    /// The domains that go there.
    pub domains: Vec<String>,
    /// All shards together.
    pub connections_max: u32,
    /// Found by MX records.
    pub by_mx: bool,
    /// Nobody listens, ever.
    pub dead: bool,
    /// What its hosts offer.
    pub chunking: bool,
    /// Transactions that the node may have in flight on one connection.
    pub in_flight_max: u32,
    /// What its hosts offer.
    pub pipelining: bool,
    /// Its hosts write one reply at a time.
    pub dribbles: bool,
    /// Until then every recipient is deferred.
    pub defers_until_us: u64,
    /// Nobody listens between these.
    pub down_us: (u64, u64),
    /// Transactions that the node may begin per second; 0: as many as it likes.
    pub per_second: u32,
    /// Every recipient is refused for good.
    pub refuses: bool,
    /// Until then every MAIL is deferred.
    pub defers_all_until_us: u64,
    /// Its hosts discard a chunk that they refuse (RFC 3030 §2); the others read it as commands.
    pub discards: bool,
    /// The node may send content there that was not asked for.
    pub takes_unasked: bool,
    /// Nothing ever goes wrong with it.
    pub is_well: bool,
    /// What goes wrong with the first of its hosts all the same.
    pub stumble: Option<Stumble>,
    /// So many of its hosts answer nobody until all heals.
    pub tarpits: usize,
    /// There is no route to it at the moment.
    pub gone: bool,
    /// Which of its hosts is meant stands in the recipient's entry.
    pub is_by_entry: bool,
    /// Its hosts have TLS.
    pub tls: Option<TlsPlan>,
}

impl Plan {
    /// The plan of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Plan {
        let mut plan = Plan::early(seed);
        plan.add_echo(&mut Random::new(seed ^ 0x6563_686F));
        plan.change_mire(&mut Random::new(seed ^ 0x6D69_7265));
        plan.stumble(&mut Random::new(seed ^ 0x7374_756D));
        plan.hang_disks(&mut Random::new(seed ^ 0x6861_6E67));
        plan.note_unasked();
        plan
    }

    /// The same without what was added last: in that world a seed found what it found before.
    #[must_use]
    pub fn early(seed: u64) -> Plan {
        let mut random = Random::new(seed ^ 0x0070_6C61_6E00);
        let random = &mut random;
        let traffic_us = (10 + random.below(60)) * SECOND_US;
        let crashes = crashes(random, traffic_us);
        let last_us = crashes.last().map_or(0, |crash| crash.at_us + crash.down_us);
        let heal_us = traffic_us.max(last_us) + (5 + random.below(60)) * SECOND_US;
        let mut hops = vec![hop(random, 1, &["d1.test", "d2.test"], heal_us)];
        hops.push(hop(random, 2, &["d3.test"], heal_us));
        hops.push(Hop { by_mx: true, ..hop(random, 3, &["d4.test", "d5.test"], heal_us) });
        hops.push(hop(random, 4, &[SENDER_DOMAIN], heal_us));
        hops.push(Hop { dead: true, ..hop(random, 5, &["dead.test"], heal_us) });
        let mut domains: Vec<String> =
            hops.iter().filter(|hop| !hop.dead).flat_map(|hop| hop.domains.clone()).collect();
        domains.retain(|domain| domain != SENDER_DOMAIN);
        domains.push(BOX_DOMAIN.to_owned());
        let mut plan = Plan {
            seed,
            shards: 2,
            logs: 1 + u8::from(random.below(4) == 0),
            unsettled_max: 2 + random.below(20) as u32,
            hops,
            domains,
            clients: match random.below(8) {
                0 => (10 + random.below(10) as u32, 20 + random.below(20) as u32),
                _ => (3 + random.below(6) as u32, 6 + random.below(12) as u32),
            },
            traffic_us,
            crashes,
            acts: acts(random, heal_us),
            heal_us,
            fault_rates: fault_rates(random),
            changes: Vec::new(),
            zone_changes: Vec::new(),
            deaf_senders: false,
            swapped: false,
            crowd: None,
            parts: None,
            lookups_max: None,
            directory: None,
            pace: None,
            x400: None,
        };
        // Each of its own, so that what is drawn here changes nothing above.
        plan.complicate(&mut Random::new(seed ^ 0x6D6F_7265));
        plan.vary(&mut Random::new(seed ^ 0x7661_7279));
        plan.wear_disks(&mut Random::new(seed ^ 0x6469_736B));
        plan.add_directory(&mut Random::new(seed ^ 0x6469_7265));
        plan.spread_users(&mut Random::new(seed ^ 0x7370_7264));
        plan.add_tls(&mut Random::new(seed ^ 0x0074_6C73));
        plan.add_pace(&mut Random::new(seed ^ 0x7061_6365));
        plan.change_pace(&mut Random::new(seed ^ 0x7275_6C65));
        plan.add_x400(&mut Random::new(seed ^ 0x7834_2F0B));
        plan.note_unasked();
        plan
    }

    /// Notes whom any configuration lets have content that was not asked for.
    fn note_unasked(&mut self) {
        let unasked: Vec<SocketAddr> = (0..=self.changes.len())
            .flat_map(|changes| self.hops_after(changes))
            .filter(Hop::may_be_unasked)
            .flat_map(|hop| hop.hosts)
            .collect();
        for hop in &mut self.hops {
            hop.takes_unasked = hop.hosts.iter().any(|host| unasked.contains(host));
        }
    }

    /// Adds what only some worlds have.
    fn complicate(&mut self, random: &mut Random) {
        if random.below(2) == 0 {
            let hop = random.below(4) as usize;
            self.hops[hop].per_second = 2 + random.below(16) as u32;
        }
        self.deaf_senders = random.below(2) == 0;
        let deaf = hop(random, 6, &[DEAF_DOMAIN], self.heal_us);
        if self.deaf_senders {
            self.hops.push(Hop { refuses: true, ..deaf });
        }
        self.change_configuration(random);
        self.change_zones(random);
        if random.below(6) == 0 {
            let ms = 1 + random.below(120_000);
            let at_us = random.below(self.heal_us);
            self.acts.push(Act { at_us, kind: ActKind::JumpBack { ms } });
        }
        self.fault_rates.dns_late = if random.below(3) == 0 { random.below(200) as u16 } else { 0 };
        self.fault_rates.peer_halves = random.below(2) == 0;
        self.fault_rates.client_halves = random.below(100) as u16 * u16::from(random.below(2) == 0);
        self.acts.sort_by_key(|act| act.at_us);
    }

    /// Other limits, and now and then other hosts.
    fn change_configuration(&mut self, random: &mut Random) {
        let mut at_us = 0;
        while self.changes.len() < 3 && random.below(2) == 0 {
            let hop = random.below(4) as usize;
            let now = &self.hops[hop];
            let connections_max = match random.below(3) {
                0 => now.connections_max.div_ceil(2),
                1 => now.connections_max * 2,
                _ => now.connections_max,
            };
            let in_flight_max = 1 + random.below(8) as u32;
            // The first two are found alike; where rates hold they are counted by host.
            let moves = random.below(2) == 0 && hop < 2;
            let rated = self.hops[..2].iter().any(|hop| hop.per_second > 0);
            let goes_to = if moves && !rated { 1 - hop } else { hop };
            at_us += random.below(self.heal_us - at_us);
            let kind = ActKind::Change(self.changes.len());
            self.acts.push(Act { at_us, kind });
            self.changes.push(RouteChange {
                hop,
                connections_max,
                in_flight_max,
                goes_to,
                gone: false,
                tls: None,
            });
        }
    }

    /// Other hosts, other preferences, and names that lead nowhere.
    fn change_zones(&mut self, random: &mut Random) {
        let mut at_us = 0;
        while self.zone_changes.len() < 4 && random.below(3) > 0 {
            let hop = &self.hops[BY_MX];
            let mut preference = || (random.below(3) > 0).then(|| 10 * random.below(3) as u16);
            let mut preferences: Vec<_> = hop.hosts.iter().map(|_| preference()).collect();
            if preferences.iter().all(Option::is_none) {
                preferences[0] = Some(10);
            }
            let looped = match random.below(6) {
                // Its mail fails for good, and who sent it must be told.
                0 if !self.deaf_senders => Some(hop.domains[random.below(2) as usize].clone()),
                1 => {
                    let host = random.below(hop.hosts.len() as u64) as usize;
                    // An answer may be as old as any of the sets before this one.
                    let always = |other: usize| {
                        self.zone_changes.iter().all(|c| c.preferences[other].is_some())
                    };
                    let named = |other: usize| preferences[other].is_some() && always(other);
                    // The same, unless there is another host.
                    let others = (0..hop.hosts.len()).any(|other| other != host && named(other));
                    (others || !self.deaf_senders).then(|| mx_name(hop, host))
                }
                _ => None,
            };
            at_us += random.below(self.heal_us - at_us);
            let kind = ActKind::Zones(self.zone_changes.len());
            self.acts.push(Act { at_us, kind });
            self.zone_changes.push(ZoneChange { preferences, looped });
        }
    }

    /// The hops as the configuration has them after so many changes.
    #[must_use]
    pub fn hops_after(&self, changes: usize) -> Vec<Hop> {
        let mut hops = self.hops.clone();
        for change in &self.changes[..changes] {
            let hosts = self.hops[change.goes_to].hosts.clone();
            let hop = &mut hops[change.hop];
            hop.hosts = hosts;
            hop.connections_max = change.connections_max;
            hop.in_flight_max = change.in_flight_max;
            hop.gone = change.gone;
            if let (Some(tls), Some(word)) = (&mut hop.tls, change.tls) {
                tls.word = word;
            }
        }
        hops
    }

    /// The hops with all that any configuration gives them.
    #[must_use]
    pub fn widest_hops(&self) -> Vec<Hop> {
        let mut hops = self.hops.clone();
        for change in &self.changes {
            let hop = &mut hops[change.hop];
            hop.connections_max = hop.connections_max.max(change.connections_max);
            hop.in_flight_max = hop.in_flight_max.max(change.in_flight_max);
        }
        hops
    }

    /// Transactions in flight to all next hops together.
    #[must_use]
    pub fn in_flight_max(&self) -> u32 {
        let of = |(number, hop): (usize, &Hop)| {
            let queues = self.ready_queues_max(number) * self.sources_of(hop);
            queues * hop.connections_max * hop.in_flight_max
        };
        let by_p1 = self.x400.as_ref().map_or(0, X400Plan::associations_max);
        self.widest_hops().iter().enumerate().map(of).sum::<u32>() + by_p1
    }

    /// What is being transferred to the node over P1 at once.
    #[must_use]
    pub fn activities_max(&self) -> u32 {
        self.x400.as_ref().map_or(0, |x400| x400.clients.len() as u32)
    }

    /// Ready queues that lead to a hop: while the old connections of a route that was moved end,
    /// the new ones begin; the same goes for other hosts that the DNS names.
    fn ready_queues_max(&self, hop: usize) -> u32 {
        let moved = self.changes.iter().filter(|change| change.hop == hop);
        let hops: BTreeSet<usize> = moved.map(|change| change.goes_to).chain([hop]).collect();
        let named = |change: &ZoneChange| change.preferences.iter().map(Option::is_some).collect();
        let all = vec![true; self.hops[hop].hosts.len()];
        let changes = self.zone_changes.iter().filter(|_| hop == BY_MX);
        let sets: BTreeSet<Vec<bool>> = changes.map(named).chain([all]).collect();
        if self.hops[hop].is_crowd() {
            // Any one of the hosts, any two, any three.
            let hosts = self.hops[hop].hosts.len() as u32;
            return hosts + hosts * hosts + hosts * hosts * hosts;
        }
        if self.hops[hop].is_by_entry {
            return self.hops[hop].hosts.len() as u32;
        }
        if self.hops[hop].tls.is_some() && hop == BY_MX {
            // Of the hosts that the DNS names a policy may leave any out.
            return (1 << self.hops[hop].hosts.len()) - 1;
        }
        (hops.len() + sets.len() - 1) as u32
    }

    /// Recipients of one message at most.
    #[must_use]
    pub fn recipients_max(&self) -> u64 {
        self.crowd.map_or(0, |crowd| u64::from(crowd.recipients)).max(RECIPIENTS_MAX)
    }

    /// Recipients in these domains may be refused for good.
    #[must_use]
    pub fn failing_domains(&self) -> Vec<String> {
        let looped = self.zone_changes.iter().any(|change| change.looped.is_some());
        if looped { self.hops[BY_MX].domains.clone() } else { Vec::new() }
    }

    /// Whether all but the usual hops answer nobody, so that the bound holds for the domain that is
    /// well.
    #[must_use]
    pub fn is_mire(&self) -> bool {
        self.crowd.is_some_and(|crowd| crowd.tarpits == crowd.hosts)
    }

    /// How far away deadlines may be.
    #[must_use]
    pub fn horizon(&self) -> Horizon {
        let warms_up = self.pace.as_ref().is_some_and(|pace| pace.warmup.is_some());
        // Jitter makes them a fifth longer, and a clock of milliseconds cuts something off.
        Horizon {
            retry_ms: 24_001,
            back_off_ms: 24_001,
            expiry_ms: 3_600_001,
            dead_ms: 90_001,
            warmup_ms: if warms_up { 86_400_001 } else { 0 },
        }
    }

    /// What the node may use.
    #[must_use]
    pub fn limits(&self) -> ResourceLimits {
        let transactions = u64::from(self.in_flight_max() + BOX_CONNECTIONS_MAX);
        ResourceLimits {
            // Transactions that are under way when the limit is reached come to their end.
            unsettled: u64::from(self.unsettled_max).max(u64::from(self.shards))
                + transactions * self.recipients_max(),
            sessions: SESSIONS_MAX + self.x400.as_ref().map_or(0, |_| X400Plan::SESSIONS_MAX),
            parts: self.parts,
            memory_within_us: (self.mire() == Some(Mire::Mute)).then_some(Mire::MEMORY_US),
        }
    }
}

fn hop(random: &mut Random, number: u8, domains: &[&str], heal_us: u64) -> Hop {
    let hosts = 1 + random.below(2) as u8;
    let host = |n: u8| SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 1, number, n)), 25);
    let defers = random.below(2) == 0;
    let from_us = random.below(heal_us);
    let for_us = if random.below(2) == 0 { random.below(heal_us - from_us) } else { 0 };
    Hop {
        hosts: (1..=hosts).map(host).collect(),
        domains: domains.iter().map(|domain| (*domain).to_owned()).collect(),
        connections_max: 1 + random.below(4) as u32,
        by_mx: false,
        dead: false,
        chunking: random.below(2) == 0,
        in_flight_max: if random.below(2) == 0 { 1 + random.below(8) as u32 } else { 1 },
        pipelining: random.below(3) > 0,
        dribbles: random.below(3) == 0,
        defers_until_us: if defers { random.below(heal_us) } else { 0 },
        down_us: (from_us, from_us + for_us),
        per_second: 0,
        refuses: false,
        defers_all_until_us: 0,
        discards: true,
        takes_unasked: false,
        is_well: false,
        stumble: None,
        tarpits: 0,
        gone: false,
        is_by_entry: false,
        tls: None,
    }
}

fn fault_rates(random: &mut Random) -> FaultRates {
    // Some worlds are calm in some respects: faults hide one another.
    let mut some = |most: u64| if random.below(3) == 0 { 0 } else { random.below(most) as u16 };
    FaultRates {
        refuse: some(200),
        swallow: some(60),
        reset: some(200),
        stall: some(20),
        dns: some(200),
        dns_late: 0,
        store: some(100),
        peer_refuse: some(150),
        peer_drop: some(60),
        peer_slow: some(60),
        peer_drip: 0,
        peer_halves: false,
        client_halves: 0,
        peer_garble: some(60),
        client_abort: some(100),
        peer_tls: 0,
    }
}
