//! Problems of the environment: a wrong clock, name servers that do not answer, unreadable messages of X.400 peers.

use config::quantity::write_size;
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use mta::shared::SharedState;
use std::sync::Weak;

/// The clock that is doubted.
pub(super) struct Clock(pub(super) Weak<SharedState>);

impl ProblemKind for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let problem = self.0.upgrade().and_then(|shared| shared.clock.problem(now.wall));
        if let Some(text) = problem {
            found(DetectedProblem::error("", text));
        }
    }

    fn has_own_lines(&self) -> bool {
        true
    }
}

/// Name servers that do not answer: mail waits, and is taken as before.
pub(super) struct NameServers(pub(super) Weak<SharedState>);

impl ProblemKind for NameServers {
    fn name(&self) -> &'static str {
        "name_servers"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        if let Some(text) = self.0.upgrade().and_then(|shared| shared.name_servers.trouble()) {
            found(DetectedProblem::warning("", text).next_step("check resolv.conf or `[dns]`"));
        }
    }

    fn has_own_lines(&self) -> bool {
        true
    }
}

/// Zones whose name servers do not answer although all other lookups succeed: their mail waits, and the fault is
/// theirs.
pub(super) struct SilentZones(pub(super) Weak<SharedState>);

impl ProblemKind for SilentZones {
    fn name(&self) -> &'static str {
        "silent_zone"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        if let Some(text) = self.0.upgrade().and_then(|shared| shared.name_servers.silent_zones()) {
            found(
                DetectedProblem::warning("", text)
                    .next_step("check whether its name servers respond"),
            );
        }
    }
}

/// Messages of peers that can't be read and wait for an operator.
pub(super) struct UnreadableMessages(pub(super) Weak<SharedState>);

impl ProblemKind for UnreadableMessages {
    fn name(&self) -> &'static str {
        "unreadable_messages"
    }

    fn find(&self, _now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let peers = self.0.upgrade().map(|shared| shared.holdings.of_peers());
        for (peer, amount) in peers.unwrap_or_default() {
            let text = format!(
                "{} unreadable messages ({}) of peer {peer} are held",
                amount.recipients,
                write_size(amount.bytes)
            );
            let next_step = "`postrider queue list --state held` shows the error of each";
            found(DetectedProblem::warning(&*peer, text).next_step(next_step));
        }
    }

    /// Each message has a line when it comes.
    fn has_own_lines(&self) -> bool {
        true
    }
}
