//! Memory that is held for a peer, and let go for others while that is silent.

use mail::Mono;
use mta::line::{Permit, TrustLevel};
use std::task::Context;
use std::time::Duration;

/// For so long it is held whatever others need, for a peer that is known to answer.
const KEPT_FOR: Duration = Duration::from_secs(5);
/// The same for another peer, the first time; each further time for twice as long, up to the same.
const KEPT_FIRST_FOR: Duration = Duration::from_millis(500);
/// A peer for which it is held longer is silent, or as good as.
const SILENCE: Duration = Duration::from_secs(30);

/// How long it is held.
#[derive(Debug)]
pub(crate) struct HeldMemory {
    since: Mono,
    /// For so long it is held for a peer that is not known to answer.
    kept_for: Duration,
}

impl HeldMemory {
    /// From `now` on. What can be made without the disk is made again as soon as the peer asks for it.
    pub(crate) fn new(now: Mono, is_made: bool) -> HeldMemory {
        let kept_for = if is_made { Duration::ZERO } else { KEPT_FIRST_FOR };
        HeldMemory { since: now, kept_for }
    }

    /// What was let go is here again.
    pub(crate) fn again(&mut self, now: Mono) {
        self.since = now;
        self.kept_for = (self.kept_for * 2).clamp(KEPT_FIRST_FOR, KEPT_FOR);
    }

    /// Whether it is to be let go: it was held for long, and somebody waits for it who holds less. When to look again
    /// otherwise.
    pub(crate) fn poll_give_way(
        &self,
        memory: &mut Permit,
        cx: &mut Context<'_>,
        now: Mono,
    ) -> (bool, Mono) {
        // Whoever is not known to answer is doubtful as soon as its connection is.
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
