//! Greylisting records of unauthenticated clients, in memory for all shards and in a record file. Without the file all
//! clients start anew.

use crate::console::ConsoleLog;
use crate::file_watch::FileWatch;
use crate::kept_records::{KeptRecords, RecordChanges, RecordState};
use crate::mutex::lock;
use crate::services::{Adoption, CandidateConfig, Service};
use auth::greylist::{
    GreylistLedger, GreylistPolicy, GreylistResult, Key, RECORD_BYTES, Record, Triplet,
};
use config::Problem;
use mail::Wall;
use mta::problems::Conditions;
use mta::seams::Greylist;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The greylisting records; clones share them.
#[derive(Clone)]
pub(crate) struct Greylisting(Arc<KeptRecords<GreylistBook>>);

#[derive(Default)]
struct GreylistBook(Mutex<GreylistLedger>);

impl Greylisting {
    /// Stores its file in this directory, once greylisting is used.
    pub(crate) fn new(
        directory: &Path,
        troubles: Conditions,
        kept: (&Arc<FileWatch>, &Arc<ConsoleLog>),
    ) -> Greylisting {
        Greylisting(KeptRecords::new(GreylistBook::default(), directory, troubles, kept))
    }
}

impl Service for Greylisting {
    fn name(&self) -> &'static str {
        "greylisted clients"
    }

    /// Reads the file if this configuration is the first with greylisting. Without its file greylisting works in
    /// memory.
    fn prepare(&self, next: &CandidateConfig<'_>) -> Result<Adoption, Vec<Problem>> {
        let (this, config) = (self.clone(), Arc::clone(next.config));
        Ok(Box::new(move || {
            if channels::asks_for_greylisting(&config) {
                this.0.open();
            }
        }))
    }

    fn finish(&self) {
        self.0.close();
    }
}

impl Greylist for Greylisting {
    fn judge(&self, rules: &GreylistPolicy, triplet: &Triplet<'_>, now: Wall) -> GreylistResult {
        lock(&self.0.state.0).judge(rules, triplet, now)
    }
}

impl RecordState for GreylistBook {
    const FILE: &'static str = "greylist.records";
    const TOPIC: &'static str = "greylist";
    const RESET: &'static str = "all clients are new";
    const FORGOTTEN: &'static str = "new clients are forgotten at the next start";
    const NEXT_STEP: &'static str = "clients may be greylisted again";
    type Key = Key;
    type Record = [u8; RECORD_BYTES];

    fn load(&self, records: Vec<(Vec<u8>, Vec<u8>)>, now: Wall) {
        // Unknown keys are ignored, and not removed.
        let known = |(key, record): (Vec<u8>, Vec<u8>)| {
            Some((Key::try_from(key).ok()?, Record::read(&record)))
        };
        lock(&self.0).read(records.into_iter().filter_map(known), now);
    }

    fn take_changes(&self, count: usize) -> RecordChanges<Key, [u8; RECORD_BYTES]> {
        let changes = lock(&self.0).take_changes(count);
        changes.into_iter().map(|(key, record)| (key, record.map(Record::to_bytes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use auth::greylist::ClientIdentity;
    use std::time::Duration;

    #[test]
    fn stored_clients_are_loaded_and_unknown_keys_stay() {
        let rules = GreylistPolicy {
            delay: Duration::from_secs(60),
            retry_window: Duration::from_secs(600),
            remember: Duration::from_secs(6_000),
            clients_after: 5,
        };
        let triplet = Triplet {
            client: ClientIdentity::Domain("far.test"),
            sender: Some(("a", "far.test")),
            recipient: "b@c",
            tags: &mail::TagDelimiters::default(),
        };
        let first = GreylistBook::default();
        lock(&first.0).judge(&rules, &triplet, Wall(1_000));
        let changes = first.take_changes(usize::MAX);
        let records = changes
            .iter()
            .filter_map(|(key, record)| Some((key.to_vec(), record.as_ref()?.to_vec())));
        let second = GreylistBook::default();
        second.load(records.chain([(vec![7], vec![7])]).collect(), Wall(1_000));
        assert_eq!(lock(&second.0).len(), 1);
        assert!(second.take_changes(usize::MAX).is_empty());
        let later = lock(&second.0).judge(&rules, &triplet, Wall(1_000_000));
        assert!(matches!(later, GreylistResult::New(_)), "the retry came too late: {later:?}");
        let in_time = lock(&first.0).judge(&rules, &triplet, Wall(101_000));
        assert!(matches!(in_time, GreylistResult::Passed(_)), "{in_time:?}");
    }
}
