//! When to kill.

use crate::stand::Result;
use load::file::FileError;
use load::random::Random;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

/// What does not come within this time is not waited for.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// A moment of a relay's life, as its spool directory shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KillPoint {
    /// No sign, only time.
    Any(Duration),
    /// A segment is full, another was begun.
    Seal,
    /// So long after a seal: then the segment before may be compacted.
    Compaction(Duration),
    /// A segment is being written full of zeros.
    Preparation,
    /// A blob was begun.
    Blob,
    /// A segment was freed; compaction does that, too.
    Release,
}

impl KillPoint {
    /// All kinds, in turn.
    pub(super) fn of_cycle(cycle: u64, random: &mut Random, any_max_ms: u64) -> KillPoint {
        match cycle % 8 {
            // Most often the one that is hardest to hit.
            0 | 3 | 6 => KillPoint::Compaction(Duration::from_micros(1_000 + random.below(4_000))),
            1 => KillPoint::Blob,
            2 => KillPoint::Seal,
            4 => KillPoint::Release,
            5 => KillPoint::Any(Duration::from_millis(random.below(any_max_ms + 1))),
            _ => KillPoint::Preparation,
        }
    }

    /// For people.
    pub(super) fn name(self) -> &'static str {
        match self {
            KillPoint::Any(_) => "any",
            KillPoint::Seal => "seal",
            KillPoint::Compaction(_) => "compaction",
            KillPoint::Preparation => "preparation",
            KillPoint::Blob => "blob write",
            KillPoint::Release => "release",
        }
    }

    /// Returns when it has come, and whether it has.
    ///
    /// # Errors
    /// When the directory can't be read.
    pub(super) fn wait(self, spool: &Path) -> Result<bool> {
        let (ending, appears) = match self {
            KillPoint::Any(wait) => {
                std::thread::sleep(wait);
                return Ok(true);
            }
            KillPoint::Seal | KillPoint::Compaction(_) => (".segment", true),
            KillPoint::Preparation => (".new", true),
            KillPoint::Blob => (".blob", true),
            KillPoint::Release => (".segment", false),
        };
        let before = names(spool, ending)?;
        let begun = Instant::now();
        while begun.elapsed() < WAIT_MAX {
            let now = names(spool, ending)?;
            let come = if appears { !now.is_subset(&before) } else { !before.is_subset(&now) };
            if come {
                if let KillPoint::Compaction(wait) = self {
                    std::thread::sleep(wait);
                }
                return Ok(true);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(false)
    }
}

fn names(spool: &Path, ending: &str) -> Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(spool).map_err(FileError::at(spool))? {
        let name = entry.map_err(FileError::at(spool))?.file_name().to_string_lossy().into_owned();
        if name.ends_with(ending) {
            names.insert(name);
        }
    }
    Ok(names)
}
