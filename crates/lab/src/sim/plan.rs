//! What one seed means: the shape of the node and its neighbours, who hands in what, and which
//! faults come when.

use super::account::{DEAF_DOMAIN, SENDER_DOMAIN};
use super::inspector::Horizon;
use super::node::Limits;
use super::plant::Plant;
use super::world::Zones;
use crate::random::Random;
use mta::seams::Mx;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Where the node listens.
pub const NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Recipients of one message at most.
pub const RECIPIENTS_MAX: u64 = 4;

/// The hop that is found by MX records.
pub const BY_MX: usize = 2;

/// Mailbox files written at once.
const BOX_CONNECTIONS_MAX: u32 = 16;

/// Sessions of clients at once.
const SESSIONS_MAX: u64 = 12;

/// Somebody asks about the queue so often, on average.
const ASK_EVERY_US: u64 = 10 * SECOND_US;

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
    pub weather: Weather,
    /// Changed configurations: [`ActKind::Change`] counts them.
    pub changes: Vec<Change>,
    /// Changed zones: [`ActKind::Zones`] counts them.
    pub zone_changes: Vec<ZoneChange>,
    /// Some senders can't be told anything: their next hop refuses reports, or is dead.
    pub deaf_senders: bool,
}

/// A route that reads otherwise from now on.
#[derive(Clone, Debug)]
pub struct Change {
    /// Whose route: a number in [`Plan::hops`].
    pub hop: usize,
    /// All shards together.
    pub connections_max: u32,
    /// On one connection.
    pub in_flight_max: u32,
    /// The mail goes to the hosts of this hop.
    pub goes_to: usize,
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
pub struct Weather {
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
    /// Peers that hang up do so by halves: they go on reading.
    pub peer_halves: bool,
    /// Messages after which a client closes its writing side, and reads the reply.
    pub client_halves: u16,
    /// Replies of a peer that are wrong, missing, or never end.
    pub peer_garble: u16,
    /// Messages that a client breaks off.
    pub client_abort: u16,
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
}

/// One end of the process.
#[derive(Clone, Copy, Debug)]
pub struct Crash {
    /// Not before.
    pub at_us: u64,
    /// After so many more steps of the process's tasks.
    pub polls: u64,
    /// And then when a batch is being written to a log.
    pub amid_write: bool,
    /// How it comes.
    pub kind: CrashKind,
    /// The machine ends with it.
    pub power: bool,
    /// So many disk operations after the restart power is lost again.
    pub again_after: Option<u64>,
    /// Until it starts again.
    pub down_us: u64,
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// It is killed.
    Kill,
    /// A sync fails, it lives on for a while, then it is killed.
    Poison,
    /// It is asked to stop.
    Stop,
}

/// Something that an operator or the surroundings do.
#[derive(Clone, Copy, Debug)]
pub struct Act {
    /// When.
    pub at_us: u64,
    /// What.
    pub kind: ActKind,
}

/// What an operator or the surroundings do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActKind {
    /// The configuration is read again.
    Reload,
    /// The wall clock jumps ahead by so much.
    Jump {
        /// Milliseconds.
        ms: u64,
    },
    /// The wall clock jumps back by so much.
    JumpBack {
        /// Milliseconds.
        ms: u64,
    },
    /// The configuration is changed and read again: [`Plan::changes`] up to this one.
    Change(usize),
    /// The DNS says something else: this one of [`Plan::zone_changes`].
    Zones(usize),
    /// The disks have only so much room left.
    Fill {
        /// Bytes.
        left_bytes: u64,
    },
    /// There is room again.
    Free,
    /// Somebody asks why everything is queued that is.
    Ask,
}

impl Plan {
    /// The plan of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Plan {
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
        domains.push("box.test".to_owned());
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
            weather: weather(random),
            changes: Vec::new(),
            zone_changes: Vec::new(),
            deaf_senders: false,
        };
        // Of its own, so that what is drawn here changes nothing above.
        plan.complicate(&mut Random::new(seed ^ 0x6D6F_7265));
        plan
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
        self.weather.dns_late = if random.below(3) == 0 { random.below(200) as u16 } else { 0 };
        self.weather.peer_halves = random.below(2) == 0;
        self.weather.client_halves = random.below(100) as u16 * u16::from(random.below(2) == 0);
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
            self.changes.push(Change { hop, connections_max, in_flight_max, goes_to });
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
                    let named = |other: usize| preferences[other].is_some();
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
            self.ready_queues_max(number) * hop.connections_max * hop.in_flight_max
        };
        self.widest_hops().iter().enumerate().map(of).sum()
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
        (hops.len() + sets.len() - 1) as u32
    }

    /// How far away deadlines may be.
    #[must_use]
    pub fn horizon(&self) -> Horizon {
        // Jitter makes them a fifth longer, and a clock of milliseconds cuts something off.
        Horizon { retry_ms: 24_001, back_off_ms: 24_001, expiry_ms: 3_600_001, dead_ms: 90_001 }
    }

    /// What the node may use.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let transactions = u64::from(self.in_flight_max() + BOX_CONNECTIONS_MAX);
        Limits {
            // Transactions that are under way when the limit is reached come to their end.
            unsettled: u64::from(self.unsettled_max).max(u64::from(self.shards))
                + transactions * RECIPIENTS_MAX,
            sessions: SESSIONS_MAX,
        }
    }

    /// The node's configuration after so many changes.
    #[must_use]
    pub fn config(&self, changes: usize, plant: Option<Plant>) -> String {
        let paths: Vec<String> = (0..self.logs).map(|log| format!("\"/log{log}\"")).collect();
        let mut text = format!(
            "hostname = \"node.test\"\nevents = \"off\"\n\
             [spool]\npaths = [{}]\nunsettled_max = {}\nbody_memory_bytes = \"1MiB\"\nblob_bytes = \"64KiB\"\n\
             [[listener]]\nname = \"in\"\naddress = \"{NODE}:25\"\nrelay_from = [\"10.9.0.0/16\"]\n\
             command_timeout = \"30s\"\ncontent_timeout = \"30s\"\nmax_sessions = {SESSIONS_MAX}\n\
             [retry]\nfirst = \"2s\"\nlongest = \"20s\"\njitter = 0.2\ngive_up_after = \"1h\"\n\
             warn_after = \"50s\"\n",
            paths.join(", "),
            self.unsettled_max,
        );
        // Writing to a String can't fail.
        for hop in &self.hops_after(changes) {
            let more = u32::from(plant == Some(Plant::OneConnectionMore));
            let faster = 1 + u32::from(plant == Some(Plant::RateDoubled));
            let _ = write!(
                text,
                "[[route]]\ndomains = {:?}\n{}max_connections = {}, {}\
                 messages_per_second = {}, \
                 connect_timeout = \"5s\", greeting_timeout = \"10s\", command_timeout = \"15s\", data_timeout = \"15s\", \
                 content_timeout = \"15s\", final_timeout = \"20s\", idle_timeout = \"3s\" }}\n",
                hop.domains,
                hop.channel(),
                hop.connections_max + more,
                hop.in_flight(),
                hop.per_second * faster,
            );
            if hop.dead {
                text.push_str("retry = { give_up_after = \"90s\" }\n");
            }
        }
        text.push_str(
            "[[route]]\ndomains = [\"box.test\"]\n\
             maildir = { path = \"/boxes/{domain}/{local}\" }\n",
        );
        text
    }

    /// What the DNS says.
    #[must_use]
    pub fn zones(&self) -> Zones {
        let mut zones = Zones::default();
        for hop in self.hops.iter().filter(|hop| hop.by_mx) {
            for (number, host) in hop.hosts.iter().enumerate() {
                let name = mx_name(hop, number);
                zones.addresses.insert(name.clone(), vec![host.ip()]);
                for domain in &hop.domains {
                    let preference = if number == 0 { 10 } else { 20 };
                    let mx = Mx { preference, host: name.clone() };
                    zones.mx.entry(domain.clone()).or_default().push(mx);
                }
            }
        }
        zones
    }

    /// What the DNS says after a change.
    #[must_use]
    pub fn zones_after(&self, change: &ZoneChange) -> Zones {
        let mut zones = self.zones();
        let hop = &self.hops[BY_MX];
        let named = change.preferences.iter().enumerate().filter_map(|(number, preference)| {
            preference.map(|preference| Mx { preference, host: mx_name(hop, number) })
        });
        let records: Vec<Mx> = named.collect();
        for domain in &hop.domains {
            zones.mx.insert(domain.clone(), records.clone());
        }
        zones.looped.extend(change.looped.clone());
        zones
    }
}

/// The name of a host of a hop that is found by MX records.
fn mx_name(hop: &Hop, number: usize) -> String {
    format!("mx{number}.{}", hop.domains[0])
}

impl Hop {
    fn channel(&self) -> String {
        if self.by_mx {
            return "mx = { ".to_owned();
        }
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("\"{host}\"")).collect();
        format!("smtp = {{ hosts = [{}], ", hosts.join(", "))
    }

    /// No key for hosts that DNS names; towards the others content goes unasked where there is
    /// any use in it.
    fn in_flight(&self) -> String {
        match (self.by_mx, self.in_flight_max) {
            (true, _) | (_, 1) => String::new(),
            (_, more) => format!("unasked_content = true, transactions_in_flight = {more}, "),
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
    }
}

fn crashes(random: &mut Random, traffic_us: u64) -> Vec<Crash> {
    let mut crashes = Vec::new();
    let mut from_us = 0;
    for _ in 0..1 + random.below(3) {
        let at_us = from_us + random.below(traffic_us);
        let down_us = 1_000 + random.below(5 * SECOND_US);
        crashes.push(Crash {
            at_us,
            polls: random.below(60),
            amid_write: random.below(3) > 0,
            kind: match random.below(8) {
                0 => CrashKind::Poison,
                1 => CrashKind::Stop,
                _ => CrashKind::Kill,
            },
            power: random.below(3) > 0,
            again_after: (random.below(6) == 0).then(|| random.below(40)),
            down_us,
        });
        from_us = at_us + down_us;
    }
    crashes
}

fn acts(random: &mut Random, heal_us: u64) -> Vec<Act> {
    let mut acts = Vec::new();
    let mut at_us = 0;
    while at_us < heal_us {
        at_us += random.below(2 * ASK_EVERY_US);
        acts.push(Act { at_us, kind: ActKind::Ask });
    }
    while random.below(2) == 0 {
        acts.push(Act { at_us: random.below(heal_us), kind: ActKind::Reload });
    }
    if random.below(6) == 0 {
        // Less than reports are kept for: nobody is told when one of them expires.
        let kind = ActKind::Jump { ms: random.below(1_800_000) };
        acts.push(Act { at_us: random.below(heal_us), kind });
    }
    if random.below(5) == 0 {
        let at_us = random.below(heal_us);
        let kind = ActKind::Fill { left_bytes: random.below(3 << 20) };
        acts.push(Act { at_us, kind });
        acts.push(Act { at_us: at_us + random.below(heal_us - at_us), kind: ActKind::Free });
    }
    acts.sort_by_key(|act| act.at_us);
    acts
}

fn weather(random: &mut Random) -> Weather {
    // Some worlds are calm in some respects: faults hide one another.
    let mut some = |most: u64| if random.below(3) == 0 { 0 } else { random.below(most) as u16 };
    Weather {
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
        peer_halves: false,
        client_halves: 0,
        peer_garble: some(60),
        client_abort: some(100),
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |us: u64| us as f64 / 1e6;
        writeln!(f, "seed {}: {} shards, {} logs", self.seed, self.shards, self.logs)?;
        let (clients, messages) = self.clients;
        writeln!(
            f,
            "  {clients} clients with {messages} messages each until {} s, unsettled_max {}",
            seconds(self.traffic_us),
            self.unsettled_max
        )?;
        for hop in &self.hops {
            writeln!(
                f,
                "  {:?} at {:?}{}{}, {} connections, {} in flight, {} per second, chunking {}, pipelining {}, replies \
                 one by one {}, \
                 defers until {} s, down {} to {} s",
                hop.domains,
                hop.hosts,
                if hop.dead { " (dead)" } else { "" },
                if hop.refuses { " (refuses all)" } else { "" },
                hop.connections_max,
                hop.in_flight_max,
                hop.per_second,
                hop.chunking,
                hop.pipelining,
                hop.dribbles,
                seconds(hop.defers_until_us),
                seconds(hop.down_us.0),
                seconds(hop.down_us.1)
            )?;
        }
        for crash in &self.crashes {
            let power = if crash.power { "power is lost" } else { "the process is killed" };
            let how = match crash.kind {
                CrashKind::Kill => power.to_owned(),
                CrashKind::Poison => format!("a sync fails, then {power}"),
                CrashKind::Stop => "it is stopped".to_owned(),
            };
            let (at, down) = (seconds(crash.at_us), seconds(crash.down_us));
            let amid = if crash.amid_write { ", amid a write" } else { "" };
            writeln!(f, "  {at} s and {} steps{amid}: {how}; back after {down} s", crash.polls)?;
            if let Some(count) = crash.again_after {
                writeln!(f, "    and power is lost {count} disk operations later")?;
            }
        }
        for (number, change) in self.changes.iter().enumerate() {
            writeln!(f, "  change {number}: {change:?}")?;
        }
        for (number, change) in self.zone_changes.iter().enumerate() {
            writeln!(f, "  zones {number}: {change:?}")?;
        }
        for act in self.acts.iter().filter(|act| act.kind != ActKind::Ask) {
            writeln!(f, "  {} s: {:?}", seconds(act.at_us), act.kind)?;
        }
        writeln!(f, "  until {} s, in thousandths: {:?}", seconds(self.heal_us), self.weather)
    }
}
