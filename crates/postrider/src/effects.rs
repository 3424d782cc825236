//! Effects of shaping rules, stored in a state file in the first spool directory, so that they survive a restart.

use crate::console::ConsoleLog;
use crate::kept_file::{StateFile, StoredEntries};
use crate::world::clock::wall_now;
use config::Config;
use mta::console::{Console as _, Level};
use mta::control::{Effect, Lift};
use mta::problems::{Conditions, DetectedProblem};
use mta::shared::SharedState;
use mta::watched::Watcher;
use std::sync::Arc;

/// The file's name.
const NAME: &str = "shaping.json";

/// Effects, and their state file.
#[derive(Debug)]
pub(crate) struct EffectStore {
    shared: Arc<SharedState>,
    file: StateFile,
    /// The effects in the file.
    kept: Vec<Effect>,
    troubles: Conditions,
}

impl EffectStore {
    /// Restores the effects of an earlier process. An unreadable file does not prevent a start; the rules then start
    /// anew.
    pub(crate) fn open(
        config: &Config,
        shared: &Arc<SharedState>,
        console: &ConsoleLog,
    ) -> EffectStore {
        let file = StateFile::new(&config.spool.paths[0], NAME, "effects of shaping rules");
        let troubles = shared.problems.conditions("state_file");
        let StoredEntries { entries: kept, lost } = file.read::<Effect>();
        if let Some(why) = lost {
            console.line(
                Level::Warn,
                "shaping",
                format_args!("{why}; rules start without effects"),
            );
            let step = "rules start without effects; they are lost at the next start";
            troubles.set(DetectedProblem::warning(file.shown(), why).next_step(step), wall_now());
        }
        shared.rules.restore(kept.clone(), wall_now());
        EffectStore { shared: Arc::clone(shared), file, kept, troubles }
    }

    /// Tells when there may be something to keep.
    pub(crate) fn follow(&self) -> Watcher<Arc<[Effect]>> {
        self.shared.rules.follow()
    }

    /// Writes the effects in force and the remembered ones, if they differ from the last write. Effects that cannot be
    /// written are in force all the same, and are written at the next change.
    pub(crate) fn keep(&mut self, console: &ConsoleLog) {
        let effects = self.shared.rules.effects();
        if effects == self.kept {
            return;
        }
        // Replies of peers are long: if not all effects fit, the oldest are left out.
        let mut newest: Vec<&Effect> = effects.iter().collect();
        newest.sort_by_key(|effect| std::cmp::Reverse(effect.renewed));
        let (about, now) = (format!("{} (written)", self.file.shown()), wall_now());
        match self.file.write_first(newest.into_iter()) {
            Ok(0) => {
                self.troubles.clear(&about);
                self.kept = effects;
            }
            Ok(count) => {
                let text = format!("{count} of {} effects do not fit", effects.len());
                let step = "`postrider shaping list` shows the largest";
                self.troubles.set(DetectedProblem::warning(about, text).next_step(step), now);
                self.kept = effects;
            }
            Err(why) => {
                console.line(Level::Error, "shaping", format_args!("{why}"));
                self.troubles
                    .set(DetectedProblem::warning(about, why).next_step("free disk space"), now);
            }
        }
    }

    /// Lifts effects. Returns a report.
    ///
    /// # Errors
    /// Returns a sentence if no effect matches.
    pub(crate) fn lift(&self, lift: &Lift) -> Result<String, String> {
        match self.shared.rules.lift(lift) {
            0 => Err("effect not found; see `postrider shaping list`".to_owned()),
            1 => Ok("1 effect of shaping rules lifted".to_owned()),
            count => Ok(format!("{count} effects of shaping rules lifted")),
        }
    }
}
