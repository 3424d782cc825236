//! Fairness under load by unauthenticated clients: turns that other clients wait.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::task::Waker;

/// Unauthenticated clients from several networks, with several names each. They take every permit they can get and hold
/// it for `hold` turns.
#[derive(Clone, Copy, Debug)]
struct Strangers {
    networks: u32,
    names: u32,
    hold: u32,
    /// Trust level until they are silent.
    standing: TrustLevel,
}

struct HeldPermit {
    until: u32,
    name: u32,
    _permit: Permit,
}

struct World {
    line: Arc<FairSemaphore>,
    strangers: Strangers,
    held: VecDeque<HeldPermit>,
    waiting: Vec<(u32, PermitWaiter)>,
}

/// Enough turns for a hundred consecutive requests that each wait for as long as possible: behind a first turn of a
/// hundred networks, with two permits released at a time.
const TURNS_MAX: u32 = 100 * (10 + 100 / 2 * 10);

fn poll(waiting: &mut PermitWaiter) -> Option<Permit> {
    match Pin::new(waiting).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(permit) => Some(permit),
        Poll::Pending => None,
    }
}

impl World {
    fn new(parts: SemaphoreLimits, strangers: Strangers) -> World {
        let line = FairSemaphore::new(parts);
        let mut world = World { line, strangers, held: VecDeque::new(), waiting: Vec::new() };
        for name in 0..strangers.networks * strangers.names {
            world.join(name);
        }
        world
    }

    fn join(&mut self, name: u32) {
        let network = std::net::Ipv4Addr::from(0x0a00_0000 + name % self.strangers.networks);
        let who = FairKey::new(0, name).of(Owner::network(network.into()));
        self.waiting.push((name, self.line.join(who, self.strangers.standing, 1)));
    }

    /// One turn: permits held for long enough are released and requested again.
    fn turn(&mut self, now: u32) {
        while self.held.front().is_some_and(|held| held.until <= now) {
            if let Some(held) = self.held.pop_front() {
                self.join(held.name);
            }
        }
        let until = now + self.strangers.hold;
        for (name, mut waits) in std::mem::take(&mut self.waiting) {
            match poll(&mut waits) {
                Some(mut permit) => {
                    // The unauthenticated clients are silent.
                    permit.doubt();
                    self.held.push_back(HeldPermit { until, name, _permit: permit });
                }
                None => self.waiting.push((name, waits)),
            }
        }
    }
}

/// The number of turns that each of a hundred requests of another client waits, with `at_once` requests at a time. Each
/// is answered within a turn.
fn waits_of_others(world: &mut World, standing: TrustLevel, at_once: u32) -> Vec<u32> {
    let mut waits = Vec::new();
    let mut asked: Vec<(u32, PermitWaiter)> = Vec::new();
    let mut begun = 0;
    for now in 0..TURNS_MAX {
        world.turn(now);
        while begun < 100 && asked.len() < at_once as usize {
            let who = FairKey::new(1, begun).of(Owner::zone("healthy.test"));
            asked.push((now, world.line.join(who, standing, 1)));
            begun += 1;
        }
        asked.retain_mut(|(since, waiting)| match poll(waiting) {
            Some(_) => {
                waits.push(now - *since);
                false
            }
            None => true,
        });
        if waits.len() == 100 {
            break;
        }
    }
    waits
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Proven clients always find permits: each request is served within a turn.
    #[test]
    fn the_known_are_served_at_once(
        networks in 1_u32..=100,
        names in 1_u32..4,
        hold in 1_u32..10,
        max in 16_u64..300,
        known in any::<bool>(),
    ) {
        let standing = if known { TrustLevel::Unknown } else { TrustLevel::Doubtful };
        let strangers = Strangers { networks, names, hold, standing };
        let parts = SemaphoreLimits { max, owner_max: max / 4, good_owner_max: max / 4, unproven_max: max / 4 * 3, doubtful_max: max / 4 };
        let mut world = World::new(parts, strangers);
        (0..30).for_each(|now| world.turn(now));
        let waits = waits_of_others(&mut world, TrustLevel::Good, 4);
        prop_assert_eq!(waits.len(), 100);
        prop_assert!(waits.iter().all(|turns| *turns == 0), "{:?}", waits);
    }

    /// A new client is served as soon as a permit is released: no later than the time for which it is held.
    #[test]
    fn newcomers_wait_for_one_turn_of_strangers_at_most(
        networks in 1_u32..=100,
        names in 1_u32..12,
        hold in 1_u32..10,
        max in 16_u64..300,
        doubtful in any::<bool>(),
    ) {
        let standing = if doubtful { TrustLevel::Doubtful } else { TrustLevel::Unknown };
        let strangers = Strangers { networks, names, hold, standing };
        let parts = SemaphoreLimits { max, owner_max: max / 4, good_owner_max: max / 4, unproven_max: max / 4 * 3, doubtful_max: max / 4 };
        let mut world = World::new(parts, strangers);
        let waits = waits_of_others(&mut world, TrustLevel::Unknown, 1);
        prop_assert_eq!(waits.len(), 100);
        // All earlier names of a hundred networks that hold nothing have a turn before it.
        let firsts = networks.div_ceil(u32::try_from(max / 8).unwrap()) * hold;
        prop_assert!(waits.iter().all(|turns| *turns <= hold + firsts), "{:?}", waits);
    }
}
