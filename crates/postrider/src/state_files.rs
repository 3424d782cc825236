//! Files that the server writes for itself beside the spool: what was lost of one, and what can't be written, is a line
//! on the console and a problem in the list. None of them keeps the server from starting.

use crate::console::ConsoleLog;
use crate::world::clock::wall_now;
use mta::console::{Console as _, Level};
use mta::problems::{Conditions, Found};
use std::path::Path;
use std::sync::Arc;

/// The kind of these problems.
const KIND: &str = "state_file";

/// Where it is said; clones are of one.
#[derive(Clone, Debug)]
pub(crate) struct StateFiles {
    conditions: Conditions,
    console: Arc<ConsoleLog>,
}

impl StateFiles {
    pub(crate) fn new(console: &Arc<ConsoleLog>) -> StateFiles {
        StateFiles { conditions: Conditions::new(KIND), console: Arc::clone(console) }
    }

    /// For the list of problems.
    pub(crate) fn conditions(&self) -> &Conditions {
        &self.conditions
    }

    /// Something that stood in a file is lost: `why` is a sentence with the file's name, `so` what follows from that.
    pub(crate) fn lost(&self, topic: &'static str, file: &Path, why: &str, so: &str) {
        self.console.line(Level::Warn, topic, format_args!("{why}; {so}"));
        let found = Found::warning(file.display().to_string(), why);
        self.conditions.set(found.next_step(so), wall_now());
    }

    /// A file can't be written, until it can.
    pub(crate) fn unwritten(&self, topic: &'static str, file: &Path, why: &str) {
        self.console.line(Level::Warn, topic, format_args!("{why}"));
        let found = Found::warning(written(file), why);
        let step = "make room, or mend the directory: it is written when that is done";
        self.conditions.set(found.next_step(step), wall_now());
    }

    /// It could be written.
    pub(crate) fn written(&self, file: &Path) {
        self.conditions.clear(&written(file));
    }
}

/// That a file was damaged is one thing, that it can't be written another.
fn written(file: &Path) -> String {
    format!("{} (written)", file.display())
}
