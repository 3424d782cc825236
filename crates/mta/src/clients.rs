//! Connected clients, and the recent activity of each client, over all shards.
//!
//! A client is an IPv4 address or an IPv6 /64. A /64 belongs to one customer, with any number of addresses. An attacker
//! with a /32 has four thousand million /64s: the number of records of clients without a session is bounded, and the
//! least active ones are dropped first.

use lookup::Requester;
use mail::Mono;
use queue::Origin;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Priority of a password check. Checks for unknown clients are paced, so that guesses take little processor time and
/// do not delay known clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A client from which this user logged in lately, or this server itself: never paced.
    Known,
    /// No recent failure of the client or the user is recorded.
    Stranger,
    /// The client or the user has failed lately: unknown clients go first.
    Suspect,
}

/// Number of parts with separate locks, so that shards seldom contend.
const PARTS: usize = 64;
/// Maximum number of records in each part without a session.
const REMEMBERED_MAX: usize = 1_024;
/// Rates are per minute, with a burst of one minute's worth.
const MINUTE_US: u64 = 60_000_000;
/// Maximum debt.
const DEBT_MAX_US: u64 = 10 * MINUTE_US;
/// Time for which a client is proven after an accepted message.
const PROVEN_US: u64 = 3_600_000_000;

/// Key of a client: the listener's index, the client's network.
type ListenerNetwork = (usize, IpAddr);

/// A rate limit per minute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Accepted connections.
    Connections,
    /// MAIL commands.
    Messages,
    /// Recipients that were not rejected.
    Recipients,
    /// Rejected commands of any kind.
    Refusals,
}

const RATES: usize = 4;

/// Record of a client.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    sessions: u32,
    /// For each rate, the time until which the past activity is paid for, in microseconds.
    paid_us: [u64; RATES],
    /// End of the proven time, in microseconds.
    proven_us: u64,
}

impl Record {
    /// Time from which the record is no longer needed.
    fn over_us(&self) -> u64 {
        self.paid_us.iter().copied().max().unwrap_or(0).max(self.proven_us)
    }
}

/// Sessions per listener and client, and rates of clients.
#[derive(Debug)]
pub struct Clients {
    all: AtomicU32,
    listeners: Vec<AtomicU32>,
    // Clients choose their addresses: an ordered map can't be flooded with collisions.
    parts: Vec<Mutex<BTreeMap<ListenerNetwork, Record>>>,
}

/// Maximum numbers of sessions, including the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// For the process.
    pub all: u32,
    /// For the listener; 0 is no limit.
    pub listener: u32,
    /// For the client at this listener; 0 is no limit.
    pub client: u32,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The process's.
    Server,
    /// The listener's.
    Listener,
    /// The client's.
    Client,
}

impl Clients {
    /// For this number of listeners.
    #[must_use]
    pub fn new(listeners: usize) -> Clients {
        Clients {
            all: AtomicU32::new(0),
            listeners: (0..listeners).map(|_| AtomicU32::new(0)).collect(),
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
        }
    }

    fn part(&self, network: IpAddr) -> MutexGuard<'_, BTreeMap<ListenerNetwork, Record>> {
        let last = match network {
            IpAddr::V4(ip) => ip.octets()[3],
            IpAddr::V6(ip) => ip.octets()[7],
        };
        self.parts[usize::from(last) % PARTS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a new session, if the limits allow it. A rejected session is never counted within the part that is
    /// reserved for other clients: a flood of unauthenticated clients can't use that part up.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn enter(&self, listener: usize, ip: IpAddr, room: Room, now: Mono) -> Result<(), Full> {
        take(&self.all, room.all)?;
        let counts = [Some(&self.all), self.listeners.get(listener)];
        if let Some(count) = counts[1] {
            take(count, no_limit(room.listener)).map_err(|_| {
                give_back(counts[0]);
                Full::Listener
            })?;
        }
        let network = network_of(ip);
        let mut part = self.part(network);
        let record = entry(&mut part, (listener, network), now);
        if record.sessions >= no_limit(room.client) {
            counts.into_iter().for_each(give_back);
            return Err(Full::Client);
        }
        record.sessions += 1;
        Ok(())
    }

    /// Counts the end of a session.
    pub fn leave(&self, listener: usize, ip: IpAddr, now: Mono) {
        give_back(Some(&self.all));
        give_back(self.listeners.get(listener));
        let key = (listener, network_of(ip));
        let mut part = self.part(key.1);
        if let Some(record) = part.get_mut(&key) {
            record.sessions = record.sessions.saturating_sub(1);
            if record.sessions == 0 && record.over_us() <= now.0 {
                part.remove(&key);
            }
        }
    }

    /// Counts a session for the listener only from now on, and no more for the client.
    pub fn settle(&self, listener: usize, ip: IpAddr) {
        let key = (listener, network_of(ip));
        if let Some(record) = self.part(key.1).get_mut(&key) {
            record.sessions = record.sessions.saturating_sub(1);
        }
    }

    /// Counts the end of a session after [`Clients::settle`].
    pub fn leave_settled(&self, listener: usize) {
        give_back(Some(&self.all));
        give_back(self.listeners.get(listener));
    }

    /// Notes an accepted message of the client. Returns true if the client was not proven before.
    pub fn prove(&self, listener: usize, ip: IpAddr, now: Mono) -> bool {
        let network = network_of(ip);
        let mut part = self.part(network);
        let record = entry(&mut part, (listener, network), now);
        let is_new = record.proven_us <= now.0;
        record.proven_us = now.0.saturating_add(PROVEN_US);
        is_new
    }

    /// Returns true if a message was accepted within the last hour.
    #[must_use]
    pub fn is_proven(&self, listener: usize, ip: IpAddr, now: Mono) -> bool {
        let network = network_of(ip);
        self.part(network).get(&(listener, network)).is_some_and(|record| record.proven_us > now.0)
    }

    /// Counts one unit against `per_minute` (0: no limit, nothing is counted). Returns false if the limit is reached;
    /// the unit is not counted then.
    #[must_use]
    pub fn charge(
        &self,
        listener: usize,
        ip: IpAddr,
        rate: Rate,
        per_minute: u32,
        now: Mono,
    ) -> bool {
        let Some(each_us) = MINUTE_US.checked_div(u64::from(per_minute)) else { return true };
        let key = (listener, network_of(ip));
        let mut part = self.part(key.1);
        let paid_us = &mut entry(&mut part, key, now).paid_us[rate as usize];
        let after = (*paid_us).max(now.0).saturating_add(each_us);
        let within = after <= now.0.saturating_add(MINUTE_US);
        if within {
            *paid_us = after;
        }
        within
    }

    /// Adds further cost to a counted unit, regardless of the limit: a client that used more than its share waits the
    /// longer, ten minutes at most.
    pub fn charge_more(
        &self,
        listener: usize,
        ip: IpAddr,
        rate: Rate,
        (more, per_minute): (u32, u32),
        now: Mono,
    ) {
        let Some(each_us) = MINUTE_US.checked_div(u64::from(per_minute)) else { return };
        let key = (listener, network_of(ip));
        let mut part = self.part(key.1);
        let paid_us = &mut entry(&mut part, key, now).paid_us[rate as usize];
        let after = (*paid_us).max(now.0).saturating_add(each_us.saturating_mul(u64::from(more)));
        *paid_us = after.min(now.0.saturating_add(DEBT_MAX_US)).max(*paid_us);
    }

    /// Returns true if another unit would exceed the limit.
    #[must_use]
    pub fn is_exhausted(
        &self,
        listener: usize,
        ip: IpAddr,
        rate: Rate,
        per_minute: u32,
        now: Mono,
    ) -> bool {
        let Some(each_us) = MINUTE_US.checked_div(u64::from(per_minute)) else { return false };
        let key = (listener, network_of(ip));
        let part = self.part(key.1);
        let paid_us = part.get(&key).map_or(0, |record| record.paid_us[rate as usize]);
        paid_us.max(now.0).saturating_add(each_us) > now.0.saturating_add(MINUTE_US)
    }
}

fn take(count: &AtomicU32, max: u32) -> Result<(), Full> {
    let more = |now: u32| (now < max).then(|| now + 1);
    let taken = count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
    taken.map(drop).map_err(|_| Full::Server)
}

fn give_back(count: Option<&AtomicU32>) {
    if let Some(count) = count {
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The value 0 means no limit.
fn no_limit(max: u32) -> u32 {
    if max == 0 { u32::MAX } else { max }
}

/// The networks that one customer may own as a whole: an IPv4 /24, an IPv6 /48.
#[must_use]
pub fn group_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [a, b, c, _] = ip.octets();
            Ipv4Addr::new(a, b, c, 0).into()
        }
        IpAddr::V6(ip) => {
            let [a, b, c, ..] = ip.segments();
            Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0).into()
        }
    }
}

/// The requester of table lookups for a client.
#[must_use]
pub fn asker_of(ip: IpAddr) -> Requester {
    Requester::Client { site: group_of(ip), network: network_of(ip) }
}

/// The origin under which an unauthenticated message waits for its turn. The secret `salt` keeps clients from choosing
/// the origins that they collide with.
pub(crate) fn origin_of(ip: IpAddr, salt: u64) -> Origin {
    let number = |of: IpAddr| {
        let mut hasher = DefaultHasher::new();
        (salt, of).hash(&mut hasher);
        hasher.finish() as u16
    };
    Origin::of(number(group_of(ip)), number(network_of(ip)))
}

/// The network that counts as one client.
#[must_use]
pub fn network_of(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The record of a client; for a new one the least active records are dropped if needed.
fn entry(
    part: &mut BTreeMap<ListenerNetwork, Record>,
    key: ListenerNetwork,
    now: Mono,
) -> &mut Record {
    if part.len() >= REMEMBERED_MAX && !part.contains_key(&key) {
        part.retain(|_, record| record.sessions > 0 || record.over_us() > now.0);
        // Half at once, so that this is rare.
        let mut idle: Vec<(u64, ListenerNetwork)> = part
            .iter()
            .filter(|(_, record)| record.sessions == 0)
            .map(|(key, record)| (record.over_us(), *key))
            .collect();
        if idle.len() >= REMEMBERED_MAX / 2 {
            idle.sort_unstable();
            for (_, key) in idle.iter().take(REMEMBERED_MAX / 2) {
                part.remove(key);
            }
        }
    }
    part.entry(key).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const START: Mono = Mono(1_000_000_000);

    fn after(seconds: u64) -> Mono {
        Mono(START.0 + seconds * 1_000_000)
    }

    const OPEN: Room = Room { all: u32::MAX, listener: 0, client: 0 };

    /// The number of further sessions for the client, of `max`.
    fn room_of(clients: &Clients, listener: usize, ip: IpAddr, max: u32) -> u32 {
        let room = Room { client: max, ..OPEN };
        let entered = (0..max).filter(|_| clients.enter(listener, ip, room, START).is_ok()).count();
        (0..entered).for_each(|_| clients.leave(listener, ip, START));
        u32::try_from(entered).unwrap()
    }

    #[test]
    fn what_cost_more_is_owed_and_paid_for_with_time() {
        let clients = Clients::new(1);
        let (ip, minute) = (IpAddr::from([192, 0, 2, 1]), Duration::from_secs(60));
        let charge = |now| clients.charge(0, ip, Rate::Recipients, 100, now);
        assert!(charge(Mono(1)));
        clients.charge_more(0, ip, Rate::Recipients, (199, 100), Mono(1));
        assert!(!charge(Mono(1)) && !charge(Mono(1) + minute) && charge(Mono(1) + minute * 2));
        clients.charge_more(0, ip, Rate::Recipients, (u32::MAX, 100), Mono(1));
        assert!(!charge(Mono(1) + minute * 9) && charge(Mono(1) + minute * 11));
        let other = IpAddr::from([192, 0, 2, 2]);
        assert!(clients.charge(0, other, Rate::Recipients, 100, Mono(1)));
        clients.charge_more(0, ip, Rate::Recipients, (5, 0), Mono(1));
    }

    #[test]
    fn sessions_are_counted_per_listener_and_client_and_forgotten() {
        let clients = Clients::new(2);
        let (a, b): (IpAddr, IpAddr) = ([192, 0, 2, 1].into(), [192, 0, 2, 65].into());
        for (listener, ip) in [(0, a), (0, a), (0, b)] {
            assert_eq!(clients.enter(listener, ip, OPEN, START), Ok(()));
        }
        assert_eq!([room_of(&clients, 0, a, 5), room_of(&clients, 0, b, 5)], [3, 4]);
        assert_eq!(room_of(&clients, 1, a, 5), 5, "another listener's sessions don't count");
        let full = |room| clients.enter(0, b, room, START).err();
        assert_eq!(full(Room { listener: 3, ..OPEN }), Some(Full::Listener));
        assert_eq!(full(Room { all: 3, ..OPEN }), Some(Full::Server));
        assert_eq!(full(Room { client: 1, ..OPEN }), Some(Full::Client));
        // A rejected session is not counted.
        assert_eq!(full(Room { all: 4, listener: 4, client: 2 }), None);
        for (listener, ip) in [(0, a), (0, a), (0, b), (0, b)] {
            clients.leave(listener, ip, START);
        }
        assert!(clients.parts.iter().all(|part| part.lock().unwrap().is_empty()));
        assert_eq!(clients.enter(0, a, Room { all: 1, listener: 1, client: 1 }, START), Ok(()));
    }

    #[test]
    fn who_has_shown_who_it_is_counts_for_the_listener_only() {
        let clients = Clients::new(1);
        let ip: IpAddr = [192, 0, 2, 1].into();
        let room = Room { client: 1, listener: 3, ..OPEN };
        for _ in 0..3 {
            assert_eq!(clients.enter(0, ip, room, START), Ok(()));
            clients.settle(0, ip);
        }
        assert_eq!(clients.enter(0, ip, room, START), Err(Full::Listener));
        clients.leave_settled(0);
        assert_eq!(clients.enter(0, ip, room, START), Ok(()));
        assert_eq!(clients.enter(0, ip, Room { listener: 9, ..room }, START), Err(Full::Client));
    }

    #[test]
    fn strangers_who_hammer_never_take_what_is_kept_for_others() {
        let clients = Clients::new(1);
        let stranger: IpAddr = [192, 0, 2, 1].into();
        let kept = Room { all: 9, listener: 9, client: 0 };
        for _ in 0..9 {
            assert_eq!(clients.enter(0, stranger, kept, START), Ok(()));
        }
        let whole = Room { all: 10, listener: 10, client: 0 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let entered =
                        (0..50_000).filter(|_| clients.enter(0, stranger, kept, START).is_ok());
                    assert_eq!(entered.count(), 0);
                });
            }
            for _ in 0..50_000 {
                assert_eq!(clients.enter(0, [192, 0, 2, 2].into(), whole, START), Ok(()));
                clients.leave(0, [192, 0, 2, 2].into(), START);
            }
        });
    }

    #[test]
    fn a_64_is_one_client_and_a_mapped_address_is_the_ipv4_one() {
        let clients = Clients::new(1);
        let entered = |text: &str, max| {
            let room = Room { client: max, ..OPEN };
            clients.enter(0, text.parse().unwrap(), room, START).is_ok()
        };
        assert!(entered("2001:db8:0:1::1", 1));
        assert!(!entered("2001:db8:0:1:ffff::2", 1) && entered("2001:db8:0:1:ffff::2", 2));
        assert!(entered("2001:db8:0:2::1", 1));
        assert!(entered("192.0.2.1", 1));
        assert!(!entered("::ffff:192.0.2.1", 1) && entered("::ffff:192.0.2.1", 2));
    }

    #[test]
    fn a_rate_lets_a_minutes_worth_pass_and_then_one_at_a_time() {
        let clients = Clients::new(1);
        let ip: IpAddr = [192, 0, 2, 1].into();
        let charge = |rate, now| clients.charge(0, ip, rate, 60, now);
        let passed = (0..100).filter(|_| charge(Rate::Messages, START)).count();
        assert_eq!(passed, 60);
        assert!(clients.is_exhausted(0, ip, Rate::Messages, 60, START));
        assert!(!clients.is_exhausted(0, ip, Rate::Recipients, 60, START), "each has its own");
        assert!(charge(Rate::Recipients, START));
        assert!(!charge(Rate::Messages, Mono(after(1).0 - 1)));
        assert!(charge(Rate::Messages, after(1)));
        assert!(!charge(Rate::Messages, after(1)));
        // Rejected units are not counted.
        assert_eq!((0..100).filter(|_| charge(Rate::Messages, after(61))).count(), 60);
        assert!((0..10_000).all(|_| clients.charge(0, ip, Rate::Messages, 0, START)), "no limit");
    }

    #[test]
    fn a_stranger_with_a_32_does_not_grow_the_table_without_limit() {
        let clients = Clients::new(1);
        let victim: IpAddr = "2001:db8::1".parse().unwrap();
        assert_eq!(clients.enter(0, victim, OPEN, START), Ok(()));
        while clients.charge(0, victim, Rate::Refusals, 100, START) {}
        for n in 0..300_000_u32 {
            let [a, b] = [(n >> 16) as u16, n as u16];
            let ip = IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb9, a, b, 0, 0, 0, 1));
            assert!(clients.charge(0, ip, Rate::Connections, 100, START));
        }
        let remembered: usize = clients.parts.iter().map(|part| part.lock().unwrap().len()).sum();
        assert!(remembered <= PARTS * REMEMBERED_MAX, "{remembered}");
        assert!(clients.is_exhausted(0, victim, Rate::Refusals, 100, START), "has a session");
    }
}
