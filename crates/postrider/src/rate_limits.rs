//! LimitCounts of `[[limit]]`, which [`mta::rate_limits`] keeps in memory for all shards, in a record file.

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::kept_records::{KeptRecords, RecordChanges, RecordState};
use crate::services::{Adoption, CandidateConfig, Service};
use config::Problem;
use mail::Wall;
use mta::problems::Conditions;
use mta::rate_limits::{RateLimiter, RecordKey};
use std::path::Path;
use std::sync::Arc;

/// The counts; clones share them.
#[derive(Clone)]
pub(crate) struct KeptCounts(Arc<KeptRecords<LimitCounts>>);

struct LimitCounts(Arc<RateLimiter>);

impl KeptCounts {
    /// Stores its file in this directory, once a limit is in force.
    pub(crate) fn new(
        limiter: &Arc<RateLimiter>,
        directory: &Path,
        troubles: Conditions,
        kept: (&Arc<FileWatch>, &Arc<ConsoleLog>),
    ) -> KeptCounts {
        KeptCounts(KeptRecords::new(LimitCounts(Arc::clone(limiter)), directory, troubles, kept))
    }
}

impl Service for KeptCounts {
    fn name(&self) -> &'static str {
        "counts of limits"
    }

    /// Without its file the counts are in memory alone.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (self.clone(), Arc::clone(next.config));
        Ok(Box::new(move || {
            if mta::rate_limits::is_any(&config) {
                this.0.open();
            }
        }))
    }

    fn finish(&self) {
        self.0.close();
    }
}

impl RecordState for LimitCounts {
    const FILE: &'static str = "limits.records";
    const TOPIC: &'static str = "limit";
    const RESET: &'static str = "all counts of [[limit]] begin anew";
    const FORGOTTEN: &'static str = "counts of [[limit]] are lost at the next start";
    const NEXT_STEP: &'static str = "logins may exceed their limits once";
    type Key = RecordKey;
    type Record = Vec<u8>;

    fn load(&self, records: Vec<(Vec<u8>, Vec<u8>)>, now: Wall) {
        // Unknown keys are ignored, and not removed.
        let known =
            |(key, record): (Vec<u8>, Vec<u8>)| Some((RecordKey::try_from(key).ok()?, record));
        self.0.load(records.into_iter().filter_map(known), now);
    }

    fn take_changes(&self, count: usize) -> RecordChanges<RecordKey, Vec<u8>> {
        self.0.take_changes(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_watch::FileWatch;
    use mta::console::Level;

    #[test]
    fn file_of_another_version_is_left_and_named() {
        let directory = tempfile::tempdir().unwrap();
        let console = Arc::new(ConsoleLog::stderr(Level::Error));
        let troubles = Conditions::new("state_file");
        let open = |name: &str| {
            let limiter = Arc::<RateLimiter>::default();
            let kept = (&FileWatch::start().unwrap(), &console);
            let counts =
                KeptCounts::new(&limiter, &directory.path().join(name), troubles.clone(), kept);
            counts.0.open();
            counts.0.close();
        };
        open(".");
        let path = directory.path().join(LimitCounts::FILE);
        let mut bytes = std::fs::read(&path).unwrap();
        // The version follows the seven octets of the magic number.
        assert_eq!(bytes[7], b'2');
        bytes[7] = b'9';
        std::fs::write(&path, &bytes).unwrap();
        open(".");
        let mut found = Vec::new();
        mta::problems::ProblemKind::find(&troubles, Default::default(), &mut |one| found.push(one));
        assert_eq!(found.len(), 1);
        assert!(found[0].about().contains(LimitCounts::FILE));
    }
}
