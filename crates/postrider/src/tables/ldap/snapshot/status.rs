//! How a snapshot is, for `postrider table list`.

use super::shared::Shared;
use crate::mutex::lock;
use mta::control::TableSnapshot;

impl Shared {
    /// How old it is, and what changed last.
    pub(super) fn status(&self) -> TableSnapshot {
        let entries = self.entries();
        let age_s = self.age_s();
        let mode = self.mode();
        let seen = lock(&self.seen);
        let changed = seen.changed.as_ref().map(|(at, what)| format!("{at}: {what}"));
        TableSnapshot {
            mode: mode.to_owned(),
            server: seen.server.clone(),
            entries,
            age_s,
            changed,
        }
    }

    /// Why it is no newer.
    pub(super) fn trouble(&self) -> Option<String> {
        let seen = lock(&self.seen);
        seen.trouble.as_ref().map(|(since, trouble)| format!("since {since}: {trouble}"))
    }
}
