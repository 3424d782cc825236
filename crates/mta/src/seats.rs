//! Seats for clients that are not trusted yet: TLS handshakes in progress, sessions. If all are in use, a new client
//! still gets one: the oldest idle seat of the client with the most seats is displaced.
//!
//! Seats are counted by client network (IPv4 address, IPv6 /64), and above that by group of networks (IPv4 /24, IPv6
//! /48), which one customer may own. An attacker with a thousand networks thus displaces its own seats.

#[cfg(test)]
mod tests;

use crate::clients::{group_of, network_of};
use mail::map::FixedMap;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// Number of groups, and of networks in each, examined for an idle seat before a busy one is displaced.
const LOOKED_AT: usize = 8;
/// An unproven new network displaces a seat of a proven one only if that has this many more seats.
const PROVEN_MARGIN: u32 = 2;

/// Trust in a client that takes a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rank {
    /// Unknown.
    Unproven,
    /// Mail of its network was accepted lately.
    Proven,
    /// It may relay, or logged in lately: its seat is never displaced.
    Privileged,
}

/// The network, and its group.
fn network_and_group(ip: IpAddr) -> (IpAddr, IpAddr) {
    (network_of(ip), group_of(ip))
}

/// Number of seats, oldest seat, and address: the last in this order is displaced.
type EvictionKey = (u32, Reverse<u64>, IpAddr);

/// Arrays have an entry for each rank: unproven, proven.
const RANKS: usize = 2;

#[derive(Debug, Default)]
struct Network {
    count: u32,
    tickets: [BTreeSet<u64>; RANKS],
    keys: [Option<EvictionKey>; RANKS],
}

#[derive(Debug, Default)]
struct NetworkGroup {
    count: u32,
    networks: BTreeMap<IpAddr, Network>,
    order: [BTreeSet<EvictionKey>; RANKS],
    keys: [Option<EvictionKey>; RANKS],
}

/// The seats of one listener.
#[derive(Debug, Default)]
struct ListenerSeats {
    count: u32,
    groups: BTreeMap<IpAddr, NetworkGroup>,
    order: [BTreeSet<EvictionKey>; RANKS],
}

#[derive(Debug)]
struct SeatHolder {
    pool: usize,
    network: IpAddr,
    group: IpAddr,
    rank: Rank,
    is_busy: Arc<AtomicBool>,
    call: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    held: FixedMap<u64, SeatHolder>,
    pools: BTreeMap<usize, ListenerSeats>,
}

/// Seats, over all shards.
#[derive(Debug)]
pub struct Seats {
    state: Mutex<State>,
    /// Maximum number of seats; enforced by the callers.
    max: AtomicU32,
}

impl Default for Seats {
    fn default() -> Seats {
        Seats { state: Mutex::default(), max: AtomicU32::new(u32::MAX) }
    }
}

/// Limits of seats.
#[derive(Clone, Copy, Debug)]
pub struct SeatLimits {
    /// In total.
    pub all: u32,
    /// For one unauthenticated network.
    pub network: u32,
}

impl Seats {
    /// With a maximum number of seats.
    #[must_use]
    pub fn new(max: u32) -> Arc<Seats> {
        Arc::new(Seats { max: AtomicU32::new(max), ..Seats::default() })
    }

    /// Sets the maximum number of seats.
    pub(crate) fn set_max(&self, max: u32) {
        self.max.store(max, Ordering::Relaxed);
    }

    pub(crate) fn max(&self) -> u32 {
        self.max.load(Ordering::Relaxed)
    }

    /// The group with the most seats at one listener, with its prefix length and the number of seats.
    pub(crate) fn most(&self) -> Option<(IpAddr, u8, u32)> {
        let state = self.lock();
        let first = |pool: &ListenerSeats| {
            let most = pool.order.iter().filter_map(|order| order.last()).max()?;
            Some((most.0, most.2))
        };
        let (count, group) = state.pools.values().filter_map(first).max()?;
        Some((group, if group.is_ipv4() { 24 } else { 48 }, count))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of seats in use.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.lock().held.len() as u32
    }

    /// Takes a seat within these limits, and displaces another if needed. `None` if no seat can be displaced.
    pub fn enter(
        self: &Arc<Seats>,
        pool: usize,
        ip: IpAddr,
        rank: Rank,
        limits: SeatLimits,
    ) -> Option<Seat> {
        let mut state = self.lock();
        let (network, group) = network_and_group(ip);
        if rank != Rank::Privileged && state.count_of(pool, group, network).1 >= limits.network {
            // Its own oldest idle seat, and no other network's.
            let own = state.idle_of(pool, group, network)?;
            state.displace(own);
        }
        let mut has_displaced = false;
        // One seat in ten is for privileged clients.
        let kept = if rank == Rank::Privileged { 0 } else { limits.all / 10 };
        if state.held.len() as u32 >= limits.all - kept {
            let victim = state.victim_anywhere(pool, group, network, rank)?;
            state.displace(victim);
            has_displaced = true;
        }
        let mut seat = self.take(&mut state, pool, ip, rank);
        seat.has_displaced = has_displaced;
        Some(seat)
    }

    /// Takes a seat regardless of limits, which the caller enforces.
    pub(crate) fn sit(self: &Arc<Seats>, pool: usize, ip: IpAddr, rank: Rank) -> Seat {
        self.take(&mut self.lock(), pool, ip, rank)
    }

    /// Displaces a seat for a new client. Returns the displaced client's address and pool. `is_anywhere`: seats of
    /// other pools may be displaced, too.
    pub(crate) fn make_room(
        &self,
        pool: usize,
        ip: IpAddr,
        rank: Rank,
        is_anywhere: bool,
    ) -> Option<(usize, IpAddr)> {
        let mut state = self.lock();
        let (network, group) = network_and_group(ip);
        let victim = state.victim(pool, pool, group, network, rank);
        let anywhere = || state.victim_anywhere(pool, group, network, rank);
        let victim = victim.or_else(|| is_anywhere.then(anywhere).flatten())?;
        let held = state.held.get(&victim)?;
        let displaced = (held.pool, held.network);
        state.displace(victim);
        Some(displaced)
    }

    fn take(self: &Arc<Seats>, state: &mut State, pool: usize, ip: IpAddr, rank: Rank) -> Seat {
        let (network, group) = network_and_group(ip);
        let ticket = state.next;
        state.next += 1;
        let (call, called) = oneshot::channel();
        let is_busy = Arc::<AtomicBool>::default();
        let held = SeatHolder { pool, network, group, rank, is_busy: Arc::clone(&is_busy), call };
        state.put_in(ticket, held);
        let (seats, rank, called) = (Arc::clone(self), Cell::new(rank), Some(called));
        Seat { seats, ticket, rank, is_busy, called, has_displaced: false }
    }
}

impl State {
    /// The numbers of seats of the group and of the network in this pool.
    fn count_of(&self, pool: usize, group: IpAddr, network: IpAddr) -> (u32, u32) {
        let group = self.pools.get(&pool).and_then(|pool| pool.groups.get(&group));
        let network = group.and_then(|group| group.networks.get(&network));
        (group.map_or(0, |group| group.count), network.map_or(0, |network| network.count))
    }

    fn is_idle(&self, ticket: u64) -> bool {
        self.held.get(&ticket).is_some_and(|held| !held.is_busy.load(Ordering::Relaxed))
    }

    fn idle_of(&self, pool: usize, group: IpAddr, network: IpAddr) -> Option<u64> {
        let network = self.pools.get(&pool)?.groups.get(&group)?.networks.get(&network)?;
        network.tickets.iter().flatten().copied().find(|ticket| self.is_idle(*ticket))
    }

    /// A seat to displace in any pool, the fullest first.
    fn victim_anywhere(
        &self,
        own: usize,
        group: IpAddr,
        network: IpAddr,
        rank: Rank,
    ) -> Option<u64> {
        let mut pools: Vec<(u32, usize)> =
            self.pools.iter().map(|(index, pool)| (pool.count, *index)).collect();
        pools.sort_unstable();
        let mut pools = pools.into_iter().rev();
        pools.find_map(|(_, pool)| self.victim(pool, own, group, network, rank))
    }

    /// The seat in `pool` that is displaced for a client of `own`.
    fn victim(
        &self,
        pool: usize,
        own: usize,
        group: IpAddr,
        network: IpAddr,
        rank: Rank,
    ) -> Option<u64> {
        let (of_group, of_network) = self.count_of(own, group, network);
        let pool = self.pools.get(&pool)?;
        let mut in_use = None;
        for (order, its_rank) in pool.order.iter().zip([Rank::Unproven, Rank::Proven]) {
            let margin = match (its_rank, rank) {
                (Rank::Unproven, Rank::Proven | Rank::Privileged) => 0,
                (Rank::Unproven, Rank::Unproven) => 1,
                (_, Rank::Privileged) => 0,
                _ => PROVEN_MARGIN,
            };
            for &(count, _, of) in order.iter().rev().take(LOOKED_AT) {
                let is_own = of == group;
                if !is_own && count < of_group.saturating_add(margin) {
                    break;
                }
                let Some(candidates) = pool.groups.get(&of) else { continue };
                let networks = &candidates.order[its_rank as usize];
                for &(count, _, of) in networks.iter().rev().take(LOOKED_AT) {
                    if is_own && count < of_network.saturating_add(margin) {
                        break;
                    }
                    let Some(candidate) = candidates.networks.get(&of) else { continue };
                    let tickets = &candidate.tickets[its_rank as usize];
                    if let Some(idle) = tickets.iter().find(|ticket| self.is_idle(**ticket)) {
                        return Some(*idle);
                    }
                    in_use = in_use.or(tickets.first().copied());
                }
            }
        }
        in_use
    }

    /// Removes a seat, and notifies its holder.
    fn displace(&mut self, ticket: u64) {
        if let Some(held) = self.take_out(ticket) {
            let _ = held.call.send(());
        }
    }

    fn put_in(&mut self, ticket: u64, held: SeatHolder) {
        self.index(ticket, &held, true);
        self.held.insert(ticket, held);
    }

    fn take_out(&mut self, ticket: u64) -> Option<SeatHolder> {
        let held = self.held.remove(&ticket)?;
        self.index(ticket, &held, false);
        Some(held)
    }

    /// Adds a seat to the counts, or removes it.
    fn index(&mut self, ticket: u64, held: &SeatHolder, is_there: bool) {
        let one = |count: &mut u32| {
            *count = if is_there { *count + 1 } else { count.saturating_sub(1) };
        };
        let pool = self.pools.entry(held.pool).or_default();
        one(&mut pool.count);
        let group = pool.groups.entry(held.group).or_default();
        one(&mut group.count);
        let network = group.networks.entry(held.network).or_default();
        one(&mut network.count);
        // Privileged seats are only counted, as they are never displaced.
        if let Some(tickets) = network.tickets.get_mut(held.rank as usize) {
            if is_there {
                tickets.insert(ticket);
            } else {
                tickets.remove(&ticket);
            }
        }
        for rank in 0..RANKS {
            let first = network.tickets[rank].first();
            let key = first.map(|first| (network.count, Reverse(*first), held.network));
            replace(&mut group.order[rank], &mut network.keys[rank], key);
            let oldest = group.order[rank].last().map(|(_, oldest, _)| *oldest);
            let key = oldest.map(|oldest| (group.count, oldest, held.group));
            replace(&mut pool.order[rank], &mut group.keys[rank], key);
        }
        if network.count == 0 {
            group.networks.remove(&held.network);
        }
        if group.count == 0 {
            pool.groups.remove(&held.group);
        }
    }
}

fn replace(
    order: &mut BTreeSet<EvictionKey>,
    known: &mut Option<EvictionKey>,
    key: Option<EvictionKey>,
) {
    if *known != key {
        known.take().map(|old| order.remove(&old));
        order.extend(key);
        *known = key;
    }
}

/// A seat; released when dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    ticket: u64,
    rank: Cell<Rank>,
    is_busy: Arc<AtomicBool>,
    /// `None` after the notification.
    called: Option<oneshot::Receiver<()>>,
    has_displaced: bool,
}

impl Seat {
    /// Returns true if another seat was displaced for this one.
    #[must_use]
    pub fn has_displaced(&self) -> bool {
        self.has_displaced
    }

    /// Sets the activity flag: idle seats are displaced first.
    pub(crate) fn set_busy(&self, is_busy: bool) {
        self.is_busy.store(is_busy, Ordering::Relaxed);
    }

    /// The activity flag, for code without access to the seat.
    pub(crate) fn activity(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_busy)
    }

    /// Changes the rank of its client.
    pub(crate) fn set_rank(&self, rank: Rank) {
        if self.rank.get() == rank {
            return;
        }
        let mut state = self.seats.lock();
        let Some(held) = state.take_out(self.ticket) else { return };
        state.put_in(self.ticket, SeatHolder { rank, ..held });
        self.rank.set(rank);
    }

    /// Ready once it is displaced.
    pub fn poll_displaced(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(called) = &mut self.called else { return Poll::Ready(()) };
        // It is never displaced.
        if self.rank.get() == Rank::Privileged {
            return Poll::Pending;
        }
        match Pin::new(called).poll(cx) {
            Poll::Ready(_) => {
                self.called = None;
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Releases the seat. Returns false if it was displaced.
    pub(crate) fn leave(&self) -> bool {
        self.seats.lock().take_out(self.ticket).is_some()
    }
}

/// Does `work`, and fails if the seat is displaced before its end.
pub(crate) async fn unless_displaced<T>(
    work: impl Future<Output = io::Result<T>>,
    seat: &mut Option<Seat>,
) -> io::Result<T> {
    let mut work = std::pin::pin!(work);
    poll_fn(|cx| {
        if let Some(seat) = seat
            && seat.poll_displaced(cx).is_ready()
        {
            return Poll::Ready(Err(io::Error::other(
                "displaced by other clients: the server is full",
            )));
        }
        work.as_mut().poll(cx)
    })
    .await
}

impl Drop for Seat {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}
