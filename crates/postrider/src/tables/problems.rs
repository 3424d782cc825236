//! Problems of tables: an unreadable or suspicious file, a server that does not respond, an old or damaged copy of a
//! directory.

use super::registry::{Registry, TableSource};
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time without an answer after which a server is a problem; an occasional failed request is none.
const SILENT_AFTER: Duration = Duration::from_secs(5);
/// Both are of one kind.
const KIND: &str = "table";

/// Problems of the files of tables, and of copies.
pub(crate) struct TableProblems(Weak<Registry>);

/// Servers of tables that do not answer.
pub(crate) struct SilentTables(Weak<Registry>);

impl SilentTables {
    pub(crate) fn of(registry: &Arc<Registry>) -> SilentTables {
        SilentTables(Arc::downgrade(registry))
    }
}

impl ProblemKind for SilentTables {
    fn name(&self) -> &'static str {
        KIND
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let Some(registry) = self.0.upgrade() else { return };
        for (name, table) in registry.live().iter() {
            let TableSource::Remote(remote) = &table.source else { continue };
            let silent = remote.problem().filter(|(at, _)| now.wall.since(*at) >= SILENT_AFTER);
            if let Some((since, why)) = silent {
                let text = format!("table {name}: {why}");
                let step = "check its server; cached answers are used";
                found(DetectedProblem::warning(&**name, text).next_step(step).since(since));
            }
        }
    }
}

impl TableProblems {
    pub(crate) fn of(registry: &Arc<Registry>) -> TableProblems {
        TableProblems(Arc::downgrade(registry))
    }
}

impl ProblemKind for TableProblems {
    fn name(&self) -> &'static str {
        KIND
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let Some(registry) = self.0.upgrade() else { return };
        for (name, table) in registry.live().iter() {
            let TableSource::Snapshot(snapshot, _) = &table.source else { continue };
            if let Some((since, why)) = snapshot.problem() {
                let text = format!("table {name}: {why}");
                let step = "check the directory; `postrider table list` shows the age";
                found(DetectedProblem::warning(&**name, text).next_step(step).since(since));
            }
        }
        // Problems of files are set by their watchers.
        let live = registry.live();
        registry.troubles.find(now, &mut |problem| {
            if live.contains_key(problem.about()) {
                found(problem);
            }
        });
    }

    /// Their begin and end are logged where they are detected.
    fn has_own_lines(&self) -> bool {
        true
    }
}
