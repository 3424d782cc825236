//! Problems of tables: an unreadable or suspicious file, a server that does not respond, an old or damaged copy of a
//! directory.

use super::registry::{Registry, TableSource};
use mta::problems::{ClockReading, DetectedProblem, ProblemKind};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Time without an answer after which a server is a problem; an occasional failed request is none.
const SILENT_AFTER: Duration = Duration::from_secs(5);

/// Problems of the tables of a process.
pub(crate) struct TableProblems(Weak<Registry>);

impl TableProblems {
    pub(crate) fn of(registry: &Arc<Registry>) -> TableProblems {
        TableProblems(Arc::downgrade(registry))
    }
}

impl ProblemKind for TableProblems {
    fn name(&self) -> &'static str {
        "table"
    }

    fn find(&self, now: ClockReading, found: &mut dyn FnMut(DetectedProblem)) {
        let Some(registry) = self.0.upgrade() else { return };
        for (name, table) in registry.live().iter() {
            let (problem, step) = match &table.source {
                TableSource::Local { .. } | TableSource::Composed => continue,
                TableSource::Remote(remote) => {
                    let silent =
                        remote.problem().filter(|(at, _)| now.wall.since(*at) >= SILENT_AFTER);
                    (silent, "check its server; cached answers are used")
                }
                TableSource::Snapshot(snapshot, _) => (
                    snapshot.problem(),
                    "check the directory; `postrider table list` shows the age",
                ),
            };
            if let Some((since, why)) = problem {
                let text = format!("table {name}: {why}");
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
