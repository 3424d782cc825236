//! Questions to the DNS about senders.

use super::super::lookups::{CHECKS_TIME_MAX, LOOKUPS_MAX, Limits, Lookups, Terms, Turns};
use mta::line::Parts;
use mta::seams::World;
use std::net::IpAddr;
use std::time::Duration;

/// Questions about senders under way at once on one shard.
pub(super) const PLACES: u64 = 100;
/// Of them, for one zone; and left for zones that were answered within the hour.
const PART: u64 = 4;
/// A question may be under way for so long before it has to make way for others.
const SOON: Duration = Duration::from_millis(250);
/// Zones of which it is remembered whether they answer.
const ZONES_MAX: usize = 16_384;

/// Questions about one sender: their turns are limit enough for how many are under way.
const LIMITS: Limits = Limits {
    time_max: CHECKS_TIME_MAX,
    lookups_max: LOOKUPS_MAX,
    at_once_max: LOOKUPS_MAX as usize,
};

/// The line of a shard.
pub(super) fn line() -> Turns {
    let part = PLACES / PART;
    let parts = Parts {
        owner_max: part,
        unproven_max: PLACES - part,
        doubtful_max: part,
        ..Parts::equal(PLACES)
    };
    Turns::new(Terms { parts, zones_max: ZONES_MAX, silence: SOON, prefers_answered: true })
}

/// The DNS for what is asked about the sender of one message of this client.
pub(super) fn of_sender<'a, W: World>(
    line: &'a Turns,
    world: &'a W,
    client: IpAddr,
) -> Lookups<'a, W> {
    Lookups::within(world, line.by_zone(client), LIMITS)
}
