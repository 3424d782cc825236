//! Memory held for a peer, and released to other connections while the peer is silent.

use mail::Mono;
use mta::line::{Permit, TrustLevel};
use std::task::Context;
use std::time::Duration;

/// Minimum time for which memory is held for a peer that is known to answer, whatever other connections need.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// The same for other peers, the first time. Doubled each further time, up to the same maximum.
const KEPT_FIRST_FOR: Duration = Duration::from_millis(500);
/// Holding time after which a peer counts as silent.
const SILENCE: Duration = Duration::from_secs(30);

/// Timer of memory held for one peer.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    since: Mono,
    /// Minimum holding time for a peer that is not known to answer.
    kept_for: Duration,
}

impl HeldMemory {
    /// Starts at `now`. Data that can be made again without the disk (`is_made`) may be released at once.
    pub(crate) fn new(now: Mono, is_made: bool) -> HeldMemory {
        let kept_for = if is_made { Duration::ZERO } else { KEPT_FIRST_FOR };
        HeldMemory { since: now, kept_for }
    }

    /// Released memory has been allocated again.
    pub(crate) fn again(&mut self, now: Mono) {
        self.since = now;
        self.kept_for = (self.kept_for * 2).clamp(KEPT_FIRST_FOR, KEPT_FOR);
    }

    /// Returns true if the memory must be released: it was held for the minimum time, and a connection that holds less
    /// waits for memory. The second value is the time of the next check.
    pub(crate) fn poll_give_way(
        &self,
        memory: &mut Permit,
        cx: &mut Context<'_>,
        now: Mono,
    ) -> (bool, Mono) {
        // A peer that is not known to answer is doubtful as soon as its connection is.
        let (kept_for, silence) = match memory.standing() {
            TrustLevel::Good => (KEPT_FOR, SILENCE),
            TrustLevel::Unknown | TrustLevel::Doubtful => (self.kept_for, KEPT_FOR),
        };
        let (kept_until, silent_at) = (self.since + kept_for, self.since + silence);
        if now < kept_until {
            return (false, kept_until);
        }
        memory.idle(self.since);
        if now >= silent_at {
            memory.doubt();
        }
        let gives_way = memory.poll_give_way(cx).is_ready();
        (gives_way, if now < silent_at { silent_at } else { Mono::NEVER })
    }
}
