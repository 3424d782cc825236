//! What is done to the node: ends of its process, and what an operator or the surroundings do.

use super::{Mood, SECOND_US};
use load::random::Random;

/// Somebody asks about the queue so often, on average.
const ASK_EVERY_US: u64 = 10 * SECOND_US;

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
    /// A disk fails, it lives on for a while, then it is killed.
    Poison(DiskFailure),
    /// It is asked to stop.
    Stop,
}

/// How a disk fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFailure {
    /// The next sync.
    Sync,
    /// One operation, after so many others.
    Once(u64),
    /// All operations, after so many others, until the process ends.
    ForGood(u64),
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
    /// The configuration is changed and read again: [`Plan::changes`](super::Plan::changes) up to this one.
    Change(usize),
    /// What is shared changes, and the configuration is read again: [`PacePlan::terms`](super::PacePlan) from
    /// this one on.
    Pace(usize),
    /// The DNS says something else: this one of [`Plan::zone_changes`](super::Plan::zone_changes).
    Zones(usize),
    /// The disks have only so much room left.
    Fill {
        /// Bytes.
        left_bytes: u64,
    },
    /// There is room again.
    Free,
    /// A disk does nothing that it is asked to for a while, and then all of it.
    Hang {
        /// Of which log; modulo their number.
        log: u8,
        /// For how long.
        for_us: u64,
    },
    /// So many reads in a thousand fail.
    Reads {
        /// None of them: 0.
        permille: u32,
    },
    /// The process may have so many descriptors.
    Files {
        /// Those included that are open.
        max: u64,
    },
    /// How the resolver feels.
    Resolver(Mood),
    /// Somebody asks why everything is queued that is.
    Ask,
}

/// When and how the process ends.
pub(super) fn crashes(random: &mut Random, traffic_us: u64) -> Vec<Crash> {
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
                0 => CrashKind::Poison(DiskFailure::Sync),
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

/// What is done in every world.
pub(super) fn acts(random: &mut Random, heal_us: u64) -> Vec<Act> {
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
